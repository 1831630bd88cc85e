#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# analyse.sh SRCDIR BUILD OUT: run gcc -fanalyzer, clang-tidy and cppcheck over the
# sources of the libraries, as they are configured in BUILD, and fail if one finds
# what build-aux/analyse.txt does not list.  Says what is listed in vain, too.
# OUT/TOOL.txt has all that a tool says.
set -u

# analyse.sh --file TOOL OUT FLAGS CHECKS FILE: what one job does.
if [ "${1-}" = --file ]; then
	to=$3/$2/$(echo "$6" | tr / -)
	# shellcheck disable=SC2086 # A list.
	case $2 in
	gcc) gcc $4 -O1 -fanalyzer -fdiagnostics-plain-output \
		-ftrack-macro-expansion=0 -c -o /dev/null "$6" ;;
	clang-tidy) clang-tidy -quiet "--checks=$5" "$6" -- $4 ;;
	esac >"$to" 2>&1 || echo "$6:1:1: error: $2 has failed [failed]" >>"$to"
	exit 0
fi

[ $# = 3 ] || {
	echo 'usage: analyse.sh SRCDIR BUILD OUT' >&2
	exit 2
}
mkdir -p "$3" || exit 1
src=$(cd "$1" && pwd) && build=$(cd "$2" && pwd) && out=$(cd "$3" && pwd) ||
	exit 1
list=$src/build-aux/analyse.txt
jobs=$(nproc)
LC_ALL=C
export LC_ALL
cd "$src" || exit 1

for tool in gcc clang-tidy cppcheck; do
	command -v $tool >/dev/null || {
		echo "$tool is not installed" >&2
		exit 1
	}
done
folders='base reactor mem dma sim'
! grep -q 'define HAVE_VERBS 1' "$build/config.h" || folders="$folders rdma"
# shellcheck disable=SC2086 # A list.
find $folders -name '*.c' | sort >"$out/files"
flags="-DWEIR_ANALYSE -include $build/config.h -I$build -Iinclude -I."
flags="$flags $(sed -n 's/^\(LIBURING\|LIBSODIUM\|VERBS\)_CFLAGS = *//p' \
	"$build/Makefile" | tr '\n' ' ')"
checks=$(awk '$1 == "off" { c = c ",-" $3 }
	END { print "-*,bugprone-*,concurrency-*" c }' "$list")

for tool in gcc clang-tidy; do
	rm -rf "${out:?}/$tool" && mkdir "$out/$tool" || exit 1
	xargs -P "$jobs" -n 1 sh "$0" --file $tool "$out" "-std=gnu11 $flags" \
		"$checks" <"$out/files"
	cat "$out/$tool"/* >"$out/$tool.txt"
done
# shellcheck disable=SC2086 # A list.
cppcheck -q -j "$jobs" --enable=warning,performance,portability --std=c11 \
	--template='{file}:{line}:{column}: {severity}: {message} [{id}]' \
	${flags%%-include*} "--include=$build/config.h" "-I$build" -Iinclude -I. \
	--file-list="$out/files" >"$out/cppcheck.txt" 2>&1 ||
	echo 'base/why.c:1:1: error: cppcheck has failed [failed]' \
		>>"$out/cppcheck.txt"

awk -v src="$src/" '
	# Of the list: field[1] "allow TOOL CHECK", then FILE, CODE and REASON.
	FNR == NR {
		if (/^#/ || !NF || /^off /)
			next
		if (split($0, field, / +:: +/) != 4 ||
		    split(field[1], of, / +/) != 3) {
			print "error: a line of the list is wrong: " $0
			bad = 1
			next
		}
		n++
		tool[n] = of[2]
		check[n] = of[3]
		file[n] = field[2]
		code[n] = field[3]
		text[n] = $0
		next
	}
	/^[^ :]+:[0-9]+:[0-9]+: [a-z]+: .*\[[^]]*\]$/ {
		split($0, at, ":")
		if ($2 == "note:" || seen[$0]++)
			next
		here = FILENAME
		gsub(/^.*\/|\.txt$/, "", here)
		name = at[1]
		if (index(name, src) == 1)
			name = substr(name, length(src) + 1)
		sub(/^\.\//, "", name)
		what = $0
		sub(/^.*\[-?W?/, "", what)
		sub(/\]$/, "", what)
		for (line = 0; line < at[2]; line++)
			if ((getline source <(src name)) <= 0)
				break
		close(src name)
		for (i = 1; i <= n; i++)
			if (tool[i] == here && check[i] == what &&
			    (file[i] == "*" || file[i] == name) &&
			    index(source, code[i])) {
				found[i]++
				next
			}
		print "error: " here ": " $0 "\n\t" source
		bad = 1
	}
	END {
		for (i = 1; i <= n; i++)
			if (!found[i])
				print "no longer found: " text[i]
		exit bad
	}' "$list" "$out/gcc.txt" "$out/clang-tidy.txt" "$out/cppcheck.txt"
