#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every public function has a man page that says what it must, and mandoc finds
# nothing wrong with any page.
. "${srcdir:-.}/tests/support/check.sh"

# What is wrong with the page $1, a line each.
lacks()
{
	[ -f "$1" ] || {
		echo "no page"
		return
	}
	for section in NAME SYNOPSIS DESCRIPTION 'RETURN VALUE' CONTEXT; do
		awk -v want=".SH $section" '
			$0 == want { inside = 1; next }
			/^\.SH/ { inside = 0 }
			inside && !/^\./ { found = 1 }
			inside && /^\.[A-Z]+ ./ { found = 1 }
			END { exit !found }' "$1" || echo "no $section"
	done
}

# Lines of code in the page $1 that no example and no scenario has.
invented()
{
	awk -v page="$1" '
		function plain(s) {
			gsub(/[ \t]+/, " ", s)
			sub(/^ /, "", s)
			return s
		}
		{ source = source plain($0) "\n" }
		END {
			while ((getline line < page) > 0)
				if (line ~ /^    / &&
				    !index(source, plain(line) "\n"))
					print line
		}' "$dir"/examples/*.[ch] "$dir"/tools/sim*.[ch]
}

# Tests that a README says were run where no make target runs them.
not_run()
{
	awk -v readme="$1" -v list="$(cat "$dir"/tests/*/local.mk)" '
		function wants(program) {
			if (!index(list, "%D%/" program " ") &&
			    !index(list, "%D%/" program "\n"))
				print readme ": " program " is not run"
		}
		/^#/ { inside = /what it was run on/ }
		!inside || !/^\|/ { next }
		{
			n = split($0, cell, / *\| */)
			what = cell[2]
			while (match(what, /`test-[a-z-]*`/)) {
				test = substr(what, RSTART + 1, RLENGTH - 2)
				what = substr(what, RSTART + RLENGTH)
				if (cell[3] ~ /^yes/)
					wants(test)
				if (cell[4] ~ /^yes/ && test == "test-mmap-keys")
					wants(test "-cards")
				else if (cell[4] ~ /^yes/)
					wants(test "-rdma")
			}
		}' "$dir/$1"
}

# Goals that the page of figures says are missed, and for which bench/README.md has
# no reason in the section of their benchmark.
without_reason()
{
	awk '
		FNR == NR {
			if (/^### /)
				bench = substr($0, 5)
			else
				reasons[bench] = reasons[bench] " " $0
			next
		}
		/^- missed: / {
			split($0, cell, /\*\*/)
			bench = $0
			sub(/.*#/, "", bench)
			sub(/\)$/, "", bench)
			gsub(/ +/, " ", reasons[bench])
			if (!index(reasons[bench], "**" cell[2] "**"))
				print bench ": " cell[2]
		}' "$dir/bench/README.md" "$dir/docs/performance.md"
}

# Lines of the texts with a rate or a time that somebody has measured: such figures
# are in the generated page, and would contradict it sooner or later.  Goals, in
# bold, have bounds.
measured()
{
	(cd "$dir" && grep -nE \
		'[0-9] ?(ns|[GM]i?B/s|k?IO/s|req/s)([^a-z]|$)|[0-9],000 (requests|IO) (a|per) second|requests (a|per) second.*[0-9],[0-9]' \
		*.md */README.md docs/*/*.md programs/*/README.md \
		docs/tutorial-*.md docs/live-view.md docs/rules.md |
		grep -v -e '\*\*' -e '^docs/performance/')
}

# What a record of a long run lacks: who reads it wants to run that again.
no_record()
{
	for name in command commit date; do
		grep -q "^$name  *[^ ]" "$dir/docs/$1" || echo "no $name"
	done
}

# Pages that weir(7) has under "Words" and that have no EXAMPLES.
without_example()
{
	sed -n '/^.SS Words/,/^.SS Threads/s/.*BR \(weir_[a-z_]*\) (3).*/\1/p' \
		"$dir/docs/man/weir.7" | while read -r page; do
		grep -q '^.SH EXAMPLES' "docs/man/$page.3" || echo "$page"
	done
}

# Types of the public headers that lead to no page.
without_page()
{
	sed -n 's/^struct \(weir_[a-z0-9_]*\) {$/\1/p
		s/^enum \(weir_[a-z0-9_]*\) {$/\1/p
		s/^typedef .*[ *]\(weir_[a-z0-9_]*_fn\)(.*/\1/p' \
		"$dir"/include/weir/*.h "$dir"/include/weir/*/*.h |
		while read -r type; do
			page=docs/man/$type.3
			[ -f "$page" ] && to=$(sed -n 's,^\.so man3/,,p' "$page") &&
				[ -f "docs/man/${to:-$type.3}" ] || echo "$type"
		done
}

# Names of tests/apropos.txt, of which apropos does not find the page.
not_found()
{
	rm -rf docs/man.index
	mkdir -p docs/man.index/man3
	cp docs/man/weir_*.3 docs/man.index/man3 && makewhatis docs/man.index
	grep -v '^#' "$dir/tests/apropos.txt" | while read -r name page; do
		mapropos -M docs/man.index "$name" 2>/dev/null |
			grep -q "^${page}[(,]" || echo "$name: not $page"
	done
	rm -rf docs/man.index
}

# Figures of the README, in bold in the rows of its table, that the kept result
# which the row names does not have.
without_source()
{
	(cd "$dir" && ${AWK:-awk} '
		/^\|.*\]\(docs\/[a-z\/-]*\.md/ && /\*\*/ {
			match($0, /\(docs\/[a-z\/-]*\.md/)
			source = substr($0, RSTART + 1, RLENGTH - 1)
			line = $0
			while (match(line, /\*\*[^*]*\*\*/)) {
				figure = substr(line, RSTART + 2, RLENGTH - 4)
				line = substr(line, RSTART + RLENGTH)
				if (figure ~ /[0-9]/)
					print source "\t" figure
			}
		}' README.md) | while IFS='	' read -r source figure; do
		grep -qF "$figure" "$dir/$source" ||
			echo "$figure is not in $source"
	done
}

# Links of texts to files that are not there.
dead_links()
{
	(cd "$dir" && grep -oE '\]\([^)#: ]+' -- *.md */README.md docs/*.md \
		docs/internals/*.md programs/*/README.md |
		sed 's/](//' | grep -v ':https*$' |
		while IFS=: read -r text link; do
			[ -e "$(dirname "$text")/$link" ] || echo "$text: $link"
		done)
}

functions=$(LC_ALL=C ${AWK:-awk} -v list=1 -f "$dir/build-aux/recreates.awk" \
	-f "$dir/build-aux/man3.awk" "$dir"/include/weir/*.h \
	"$dir"/include/weir/*/*.h)
for f in $functions; do
	holds "$f has a man page" "$(lacks "docs/man/$f.3")"
done

# shellcheck disable=SC2046 # A list.
holds 'man pages have the contexts and errnos of their headers' \
	"$(LC_ALL=C ${AWK:-awk} -v include="$dir/include" -v pages=docs/man \
		-f "$dir/tests/man-agrees.awk" $(grep -L '^\.so ' docs/man/weir_*.3))"

holds 'the code in tutorial-sim.md is that of the examples' \
	"$(invented "$dir/docs/tutorial-sim.md")"

readme=docs/internals/rdma.md
holds "what $readme says was run is run" "$(not_run $readme)"

holds 'docs/late-writes.md is made from what is kept' \
	"$(LC_ALL=C ${AWK:-awk} -f "$dir/build-aux/late-writes.awk" \
		"$dir/docs/late-writes.json" |
		diff - "$dir/docs/late-writes.md")"
holds 'each missed goal has its reason' "$(without_reason)"
holds 'figures of the README are those of kept results' "$(without_source)"
holds 'the README has a table of at least 8 such figures, and at most 200 lines' \
	"$(${AWK:-awk} '/\]\(docs\/[a-z\/-]*\.md/ { n += gsub(/\*\*/, "") / 2 }
		END { if (n < 8 || NR > 200) print n " figures, " NR " lines" }' \
		"$dir/README.md")"
holds 'links of texts lead to files' "$(dead_links)"
holds 'no text has figures of its own' "$(measured)"
holds 'no text has a control byte' "$(LC_ALL=C grep -l \
	"$(printf '[\001-\010\013-\037]')" "$dir"/*.md "$dir"/docs/*.md \
	"$dir"/docs/*/*.md "$dir"/docs/*.txt "$dir"/*/README.md "$dir"/programs/*/README.md)"
for record in sim.txt rdma.txt bench-rdma.txt check-long.txt; do
	holds "docs/$record can be made again" "$(no_record $record)"
done

holds 'the pages that weir(7) explains words with have examples' \
	"$(without_example)"
holds 'each public type leads to a page' "$(without_page)"
# The functions of libuv, from the header that the compiler finds.
tmp=$(mktemp -d ./docs.XXXXXX) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
uv=$(echo '#include <uv.h>' | ${CC:-cc} -E - 2>/dev/null |
	sed -n 's|^# [0-9]* "\(.*\)/uv\.h".*|\1|p' | head -n 1)
what='docs/from-libuv.md has each function of libuv 1.44 once'
if [ -z "$uv" ] || ! grep -q 'UV_VERSION_MINOR 44$' "$uv/uv/version.h"; then
	skips "$what" 'libuv 1.44 is not installed'
else
	tr '\n' ' ' <"$uv/uv.h" | grep -oE 'UV_EXTERN [^;]*;' |
		grep -oE 'uv_[a-z0-9_]+ ?\(' | tr -d '( ' | sort -u >"$tmp/uv"
	grep '^|' "$dir/docs/from-libuv.md" | cut -d'|' -f2 |
		grep -oE '`uv_[a-z0-9_]+`' | tr -d '`' | sort >"$tmp/uv-named"
	[ -s "$tmp/uv" ] || echo 'none' >>"$tmp/uv"
	holds "$what" "$(diff "$tmp/uv" "$tmp/uv-named")"
fi
# Exported, a macro, or inline, of which the result may be on a line of its own.
holds 'each function that docs/from-libuv.md names exists' \
	"$(grep -oE '`weir_[a-z0-9_]+\(\)' "$dir/docs/from-libuv.md" |
		tr -d '`()' | sort -u | while read -r f; do
			grep -qxE "[[:space:]]*$f;" "$dir"/*.map ||
				grep -qE "^(#define |static inline .*)?$f\(" \
					"$dir"/include/weir/*.h || echo "$f"
		done)"
# The maps have each function once.
other_library()
{
	sed -n 's/^[[:space:]]*\(weir_[a-z0-9_]*\);$/\1/p' "$1" | while read -r f; do
		name=${1##*/}
		name=${name%.map}
		page=docs/man/$f.3
		[ -f "$page" ] || continue
		to=$(sed -n 's,^\.so man3/,,p' "$page")
		sed 's/\\//g' "docs/man/${to:-$f.3}" |
			grep -qx "$name (lib$name, -l$name)" || echo "$f"
	done
}
for map in "$dir"/*.map; do
	holds "man pages of functions of ${map##*/} name their library" \
		"$(other_library "$map")"
done
holds 'docs/porting.md is made from the headers' \
	"$(cd "$dir" && LC_ALL=C ${AWK:-awk} -f build-aux/recreates.awk \
		-f build-aux/porting.awk docs/porting.md include/weir/*.h \
		include/weir/*/*.h | diff - docs/porting.md)"
if command -v mapropos >/dev/null && command -v makewhatis >/dev/null; then
	holds 'apropos finds the pages of 60 names of other systems' \
		"$(not_found)"
else
	skips 'apropos finds pages' 'no mandoc'
fi

if command -v mandoc >/dev/null; then
	for page in $(grep -L '^\.so ' docs/man/*.3) "$dir"/docs/man/*.[17]; do
		holds "${page##*/} is well-formed" \
			"$(mandoc -Tlint -W warning "$page" 2>&1)"
	done
else
	skips 'pages are well-formed' 'no mandoc'
fi
report
