#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Do the benchmarks run, and is what they print JSON?  The figures of such a
# short run mean nothing and are not looked at.  TAP.

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
names='nop buf bounce copy accel large timer pipe echo udp recv post call read direct register shared late sync hook idle start cp cuda nbd proxy'
WEIR_PROXY_PEERS=${srcdir:-$(dirname "$0")/..}/bench/proxy-peers.py
export WEIR_PROXY_PEERS
string='"[^"\\]*"'
number='-?[0-9.]+(e[-+]?[0-9]+)?'
array="\\[($number(,$number)*)?\\]"
value="($string|$number|$array|true|false|null)"
line="^\\{$string:$value(,$string:$value)*\\}\$"

echo "1..$(echo "$names" | wc -w)"
i=0
for name in $names; do
	i=$((i + 1))
	: > "$dir/json"
	if ! "bench/bench-$name" --quick --reps 1 --dir "$dir" \
			--json "$dir/json" > "$dir/out" 2>&1; then
		sed 's/^/# /' "$dir/out"
		echo "not ok $i - bench-$name runs"
	elif grep -Evq "$line" "$dir/json"; then
		grep -Ev "$line" "$dir/json" | sed 's/^/# /'
		echo "not ok $i - bench-$name prints JSON"
	else
		echo "ok $i - bench-$name runs and prints JSON"
	fi
done
