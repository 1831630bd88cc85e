#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# No byte lands late, and no completion is lost: bench-late over all engines and
# both backends, 10,000 endings in all; WEIR_TEST_LONG=1 for ten times as many.
# bench-late ends with an error for a completion that is lost or comes twice.
# WEIR_LATE_KEEP is a file to which the lines of each engine are added when it is
# done, after one that names the machine and the version.  TAP.

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
engines='cpu worker file bounce process unix tcp read'
n=70 least=10000
if [ "${WEIR_TEST_LONG:-0}" != 0 ]; then
	n=700 least=100000
fi

# The sum of the member $1 in the rows of $2.
sum()
{
	sed -n 's/.*"'"$1"'":\([0-9]*\).*"contract".*/\1/p' "$2" |
		awk '{ n += $1 } END { print n + 0 }'
}

echo "1..$(($(echo "$engines" | wc -w) + 1))"
i=0
for engine in $engines; do
	i=$((i + 1))
	json=$dir/$engine.json
	if ! WEIR_BENCH_DIR=bench tools/weir bench late --output "$json" \
			--reps 1 --noise 99 --only "weir $engine" \
			--size 64K,1M --endings $n >"$dir/out" 2>&1; then
		tail -n 20 "$dir/out" | sed 's/^/# /'
		echo "not ok $i - each ending of $engine completes once"
		continue
	fi
	[ -z "${WEIR_LATE_KEEP-}" ] ||
		grep -E '"(machine|ending)":' "$json" >>"$WEIR_LATE_KEEP"
	tried=$(sum tried "$json") late=$(sum late "$json")
	if grep -q '"process is left out' "$json"; then
		echo "ok $i - no byte lands late by $engine # SKIP" \
			'process_vm_readv is refused'
	elif [ "$tried" = 0 ] || [ "$late" != 0 ]; then
		grep '"late":[1-9]' "$json" | sed 's/^/# /'
		echo "not ok $i - no byte lands late by $engine:" \
			"$late of $tried endings"
	else
		echo "ok $i - no byte lands late by $engine: $tried endings"
	fi
done
cat "$dir"/*.json >"$dir/all"
all=$(sum tried "$dir/all")
i=$((i + 1))
# One of the two backends may not be there.
! grep -qE '"(uring|ev) is left out' "$dir/all" || least=$((least / 2))
if [ "$all" -ge $least ]; then
	echo "ok $i - $least endings are tried"
else
	echo "not ok $i - $least endings are tried: $all"
fi
