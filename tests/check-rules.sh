#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The rules and acceptance cases of the systems that weir re-creates have
# numbers.  Each rule is named by a comment of a test, or by a table of docs/rules.md
# or docs/internals that says why it has no meaning here; each case by its row of
# the table "Acceptance" of docs/rules.md, and by the tests that the row names.
. "${srcdir:-.}/tests/support/check.sh"

# Comments of tests, and rows of tables.
words=$(grep -hE '^[[:space:]]*/?\*' "$dir"/tests/*/*.[ch]
	grep -hE '^(\||3\.5:)' "$dir"/docs/rules.md "$dir"/docs/internals/*.md)

# missing RULE...: those that nobody names.
missing()
{
	for rule; do
		echo "$words" | grep -qE \
			"(^|[^0-9A-Za-z.])$(echo "$rule" | sed 's/\./\\./')([^0-9.]|\.[^0-9]|\.?\$)" ||
			echo "$rule"
	done
}

# upto PREFIX LAST
upto()
{
	i=0
	while [ $((i += 1)) -le "$2" ]; do
		echo "$1$i"
	done
}

# shellcheck disable=SC2046 # They are words.
{
holds 'rules of progress engines, A6' "$(missing $(upto A6. 6))"
holds 'rules of contexts and tasks, A7' "$(missing $(upto A7. 11))"
holds 'rules of copies, A8' "$(missing $(upto A8. 6))"
holds 'rules of graphs, A9' "$(missing $(upto A9. 4))"
holds 'rules of sync events, A10' "$(missing $(upto A10. 4))"
holds 'rules of work queues, A11' "$(missing $(upto A11. 6))"
holds 'rules of device memory, B1' "$(missing $(upto B1. 7))"
holds 'rules of memory regions, B2' "$(missing $(upto B2. 8))"
holds 'rules of completions, B3' "$(missing $(upto B3. 10))"
holds 'rules of rdma_cm, B4' "$(missing $(upto B4. 3))"
holds 'rules of dmadevs, C3' "$(missing $(upto C3. 12))"
holds 'rules of memory domains, S' "$(missing $(upto S 8))"
holds 'states, 2.3 to 2.6, and results, 3.5' "$(missing 2.3 2.4 2.5 2.6 3.5)"
}

# What can be measured is, by programs that run over real verbs: test-x.c of
# test-x-rdma or test-x-cards, and the cases that are for both.
over_verbs()
{
	echo "$dir"/tests/rdma/verbs-rules-*.c
	grep -oE 'test-[a-z-]+-(rdma|cards)( |$)' "$dir/tests/rdma/local.mk" |
		sort -u | sed -E "s|^(.*)-[a-z]+ ?\$|$dir/tests/rdma/\1.c|" |
		while read -r file; do
			# What runs over real verbs alone has no such file.
			[ ! -e "$file" ] || echo "$file"
		done
}

# shellcheck disable=SC2046 # They are words.
{
words=$(grep -hE '^[[:space:]]*/?\*' $(over_verbs)
	grep -hE '^\|' "$dir"/docs/rules.md "$dir"/docs/internals/*.md)
holds 'rules of verbs, B2 to B4, over a device' \
	"$(missing $(upto B2. 8) $(upto B3. 10) $(upto B4. 3))"
}

# The rows: number, and names of tests.
rows=$(sed -n '/^## Acceptance/,$s/^| \([0-9]*\) |.*| \([^|]*\) |$/\1 \2/p' \
	"$dir/docs/rules.md")

# A test bears a number as case_N_, or in a comment of cases.
bears()
{
	grep -qE "case_$1_|[Aa]cceptance( case)? ([0-9]+(, | and | to ))*$1([^0-9]|\$)|[Cc]ases? ([0-9]+(, | and ))*$1([^0-9]|\$)" "$2"
}

without_row()
{
	for i in $(upto '' 31) $(upto '' 70 | tail -n 11); do
		echo "$rows" | grep -q "^$i " || echo "case $i"
	done
}

without_test()
{
	echo "$rows" | tr -d , | while read -r i tests; do
		for t in $tests; do
			[ "$t" = none ] || bears "$i" "$dir"/tests/*/"$t.c" ||
				echo "$t does not bear $i"
		done
	done
}

# What the comments of tests cite, and this page does not have.
unknown()
{
	grep -hE '^[[:space:]]*/?\*' "$dir"/tests/*/*.[ch] |
		grep -oE '(^|[^0-9A-Za-z.])([ABC][0-9]+\.[0-9]+|S[1-8])([^0-9A-Za-z]|$)' |
		grep -oE '[ABCS][0-9.]*[0-9]' | sort -u | while read -r rule; do
			grep -qF -- "- $rule " "$dir/docs/rules.md" ||
				echo "$rule"
		done
}

holds 'each rule that a test cites is explained' "$(unknown)"
holds 'each case has a row' "$(without_row)"
holds 'the tests of each row bear its number' "$(without_test 2>&1)"
report
