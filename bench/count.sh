#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The instructions that the hot paths take, counted by callgrind, may be at most
# 3 % more than those kept in counts.txt.  Where they are 3 % fewer its line
# says so, and make shows that: they want to be kept, or else what comes next
# can take as many again, and nobody sees it.  TAP.
#
#	count.sh [--keep]	keep what is counted now instead
#
# What is above that is counted twice more, and the fewest count: where the kernel
# ends reads late, for other programs run too, a turn finds fewer of them.
#
# They are those of one compiler, of a build without debugging, sanitizers and
# annotations for valgrind, over io_uring; elsewhere there is nothing to compare.
srcdir=${srcdir:-$(dirname "$0")/..}
kept=$srcdir/bench/counts.txt
rounds=1000
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# For what the counts are good: the first line of the file.
here="$(uname -m), gcc $(gcc -dumpfullversion 2>/dev/null)"

why_not()
{
	if ! command -v valgrind >/dev/null; then
		echo 'valgrind is not installed'
	elif grep -Eq '^#define WEIR_(DEBUG|VALGRIND) 1' config.h ||
			grep -q '^SAN_CFLAGS = .' Makefile; then
		echo 'a build with debugging, a sanitizer or annotations'
	elif [ "$(sed -n 1p "$kept")" != "$here" ] && [ "${1-}" != --keep ]
	then
		echo "the counts are those of: $(sed -n 1p "$kept")"
	elif ! WEIR_BACKEND=uring bench/count >/dev/null 2>&1; then
		echo 'no io_uring here'
	else
		return 1
	fi
}

# Lines of name and instructions for one round.
count()
{
	WEIR_BACKEND=uring ${LIBTOOL:-./libtool} --mode=execute valgrind -q \
		--tool=callgrind --callgrind-out-file="$dir/out" bench/count \
		>"$dir/log" 2>&1 || {
		sed 's/^/# /' "$dir/log"
		return 1
	}
	awk -v rounds=$rounds '
		/^desc: Trigger: Client Request: / { name = $5 }
		/^(totals|summary): / && name {
			printf "%s %.1f\n", name, $2 / rounds
			name = ""
		}' "$dir"/out.* >"$dir/all"
	bench/count --list | while read -r name; do
		grep "^$name " "$dir/all" || {
			echo "# $name was not counted"
			exit 1
		}
	done
}

if why=$(why_not "$@"); then
	echo "1..0 # SKIP $why"
	exit 0
fi
must_count()
{
	rm -f "$dir"/out*
	count >"$1" || {
		cat "$1"
		echo 'not ok 1 - callgrind counts'
		echo 1..1
		exit 1
	}
}

# Is a path of those in "now" above what is kept?
is_above()
{
	awk 'NR == FNR { kept[$1] = $2; next }
		$2 > kept[$1] * 1.03 { above = 1 }
		END { exit !above }' "$kept" "$dir/now"
}

must_count "$dir/now"
if [ "${1-}" = --keep ]; then
	{
		echo "$here"
		cat "$dir/now"
	} >"$kept"
	exit 0
fi
for again in 2 3; do
	is_above || break
	echo "# counted again ($again of 3)"
	must_count "$dir/again"
	paste -d ' ' "$dir/now" "$dir/again" |
		awk '{ print $1, $2 < $4 ? $2 : $4 }' >"$dir/fewest"
	mv "$dir/fewest" "$dir/now"
done

i=0
while read -r name now; do
	i=$((i + 1))
	was=$(sed -n "s/^$name //p" "$kept")
	awk -v n=$i -v name="$name" -v now="$now" -v was="${was:-0}" 'BEGIN {
		bad = !was || now > was * 1.03
		less = now < was * 0.97 ? "; make counts keeps the fewer" : ""
		printf "%s %d - %s takes %s instructions, kept are %s%s\n",
			bad ? "not ok" : "ok", n, name, now, was, less
	}'
done <"$dir/now"
echo "1..$(wc -l <"$dir/now")"
