#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What keeps the tree easy to hold in one's head: see CONTRIBUTING.md.
. "${srcdir:-.}/tests/support/check.sh"

# The libraries' sources, without a suffix.
sources()
{
	(cd "$dir" && ls base/*.c reactor/*.c reactor/*/*.c mem/*.c mem/*/*.c \
		dma/*.c dma/*/*.c rdma/*.c sim/*.c) | sed 's/\.c$//'
}

# Static objects, or else shared ones.
for o in $(sources); do
	for file in "$o.o" "${o%/*}/.libs/${o##*/}.o"; do
		[ -f "$file" ] || continue
		${NM:-nm} -g "$file" 2>/dev/null | sed "s|^|$o |"
		break
	done
done >check-style.nm
build=$PWD
trap 'rm -f "$build/check-style.nm"' EXIT
if [ -s check-style.nm ] && ! grep -q __gnu_lto check-style.nm; then
	said=$(${AWK:-awk} -v max=6 -f "$dir/tests/cohesion.awk" check-style.nm)
	holds 'at most 6 files need each other, all of one folder' \
		"$(echo "$said" | grep '^cycle')"
	# The number falls; let it not rise again.
	holds 'few internal names are global for one file' \
		"$(echo "$said" | awk '$1 == "one-use" && $2 > 430')"
else
	skips "cohesion" "no object files, or of a compiler's own kind"
fi

# Else the library cannot be built where cmocka is missing.
holds 'only tests link what tests share' \
	"$(grep -E '^(bench|examples|programs|tools)_[a-z_0-9]*_DEPENDENCIES = .*libharness' \
		Makefile)"

# The three journeys of CONTRIBUTING.md, by the files that name what was added.
cd "$dir" || exit 1
all=$(ls base/*.[ch] reactor/*.[ch] reactor/*/*.[ch] mem/*.[ch] mem/*/*.[ch] \
	dma/*.[ch] dma/*/*.[ch] rdma/*.[ch] sim/*.[ch] include/weir/*.h weir.map)
# names MOST WORD...: the files that have a WORD, if they are more.
names()
{
	most=$1
	shift
	# shellcheck disable=SC2046,SC2086 # Lists.
	found=$(grep -lw $(printf -- '-e %s ' "$@") $all)
	[ "$(echo "$found" | wc -l)" -le "$most" ] || echo "$found"
}
holds 'a kind of operation, fallocate, is in at most 8 files' \
	"$(names 8 IO_FALLOCATE FALLOCATE weir_fallocate fill_fallocate \
		step_fallocate)"
holds 'an engine, engine_process, is in at most 3 files' \
	"$(names 3 engine_process)"
holds 'a kind of domain, that of a peer, is in at most 4 files' \
	"$(names 4 WEIR_DOMAIN_REMOTE)"
# shellcheck disable=SC2086
holds 'no file compares kinds of domains' \
	"$(grep -nE 'kind [!=]= WEIR_DOMAIN_|case WEIR_DOMAIN_' $all)"

# Functions of public headers that nothing uses, and that are not another system's.
without_a_use()
{
	grep -hoE '\<weir_[a-z0-9_]+' README.md docs/*.md examples/*.[ch]* \
		programs/*/*.[ch] programs/*/*.md tools/*.[ch] bench/*.[ch] |
		sort -u >"$build/check-style.used"
	# shellcheck disable=SC2016 # awk's.
	${AWK:-awk} '
		FNR == NR { used[$1]; next }
		/^\/\*/ { peer = 0 }
		/Re-creates/ { peer = 1 }
		/^WEIR_API/ { inside = 1 }
		inside && match($0, /weir_[a-z0-9_]+\(/) {
			name = substr($0, RSTART, RLENGTH - 1)
			if (!peer && !(name in used))
				print FILENAME ": " name
			inside = peer = 0
		}' "$build/check-style.used" include/weir/*.h include/weir/*/*.h
	rm "$build/check-style.used"
}
holds 'each public function is used here, or re-creates one of another system' \
	"$(without_a_use)"

holds 'no file of the tree asks for config.h' \
	"$(grep -l '^#ifdef HAVE_CONFIG_H' ./*/*.[ch] ./*/*/*.[ch])"
holds 'names of test cases begin with their subject' \
	"$(grep -nE '\<(CASE|REAL)\((what|who|whoever|whatever|where|its?|they|there|those|so|but|nor|both|others?|none|nobody|nothing|any|each|every|all|one|only|many|how|not|under|with|without|after)_' \
		tests/*/*.[ch])"
if command -v python3 >/dev/null; then
	holds 'each planted bug is where its code is' \
		"$(python3 tests/mutate.py --check . - 2>&1)"
else
	skips 'planted bugs' 'python3 is not installed'
fi
holds 'READMEs of layers have at most 2,500 words' \
	"$(for f in reactor mem dma; do
		[ "$(wc -w <$f/README.md)" -le 2500 ] || echo "$f/README.md"
	done)"
report
