#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each errno that a header documents is in errnos.txt, which says what provokes
# it: a row of test-errnos*.c, another test program, or nothing, and why.
. "${srcdir:-.}/tests/support/check.sh"

list=$dir/tests/errnos.txt

tmp=$(mktemp -d ./errnos.XXXXXX) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM

mkdir "$tmp/man"
${AWK:-awk} -v out="$tmp/man" -v version=0 -v date=0 \
	-f "$dir/build-aux/recreates.awk" -f "$dir/build-aux/man3.awk" \
	"$dir"/include/weir/*.h \
	"$dir"/include/weir/*/*.h
${AWK:-awk} -f "$dir/tests/errnos.awk" "$tmp"/man/weir_*.3 |
	sort >"$tmp/documented"
sed '/^#/d; /^$/d' "$list" >"$tmp/lines"
cut -d' ' -f1-3 "$tmp/lines" | sort >"$tmp/listed"

# RETURNS(weir_pool_create, EINVAL) is the row "weir_pool_create returns -EINVAL".
sed -n -e 's/^RETURNS(\([a-z_0-9]*\), \(E[A-Z0-9]*\)).*/\1 returns -\2/p' \
	-e 's/^COMPLETES(\([a-z_0-9]*\), \(E[A-Z0-9]*\)).*/\1 completes -\2/p' \
	"$dir"/tests/*/test-errnos*.c | sort >"$tmp/rows"
sed -n 's/^\([^ ]* [^ ]* [^ ]*\) here$/\1/p' "$tmp/lines" |
	sort >"$tmp/here"

# The lines "... in FILE FILE" whose files do not mention both.
unmentioned()
{
	while read -r name verb err how files; do
		[ "$how" = in ] || continue
		texts=
		for file in $files; do
			texts="$texts $dir/$file"
		done
		# shellcheck disable=SC2086 # They are words.
		grep -qw -e "$name" $texts && grep -qw -e "${err#-}" $texts ||
			echo "$name $verb $err: not both in $files"
	done <"$tmp/lines"
}

[ -s "$tmp/documented" ] && [ -s "$tmp/rows" ] || exit 1
holds 'each line says here, in FILE or not: REASON' \
	"$(grep -vE '^weir_[a-z_0-9]+ (returns|completes) -E[A-Z0-9]+ (here|in( tests/[a-z]+/[a-z0-9.-]+| docs/internals/[a-z]+\.md)+|not: .+)$' \
	"$tmp/lines")"
holds 'no pair is listed twice' "$(uniq -d "$tmp/listed")"
holds 'each documented errno is listed' \
	"$(comm -23 "$tmp/documented" "$tmp/listed")"
holds 'each listed errno is documented' \
	"$(comm -13 "$tmp/documented" "$tmp/listed")"
holds 'each errno that is provoked here is a row of a table' \
	"$(comm -13 "$tmp/rows" "$tmp/here")"
holds 'each row of a table is listed as provoked here' \
	"$(comm -23 "$tmp/rows" "$tmp/here")"
holds 'a test that provokes an errno mentions it and its function' \
	"$(unmentioned 2>&1)"
report
