#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the headers declare with WEIR_API, what weir.map lists and what the
# shared library exports are the same.
dir=${srcdir:-.}
n=0
bad=0

same()
{
	n=$((n + 1))
	if [ "$2" = "$3" ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		for s in $2; do
			echo "$3" | grep -qx "$s" || echo "# only the first: $s"
		done
		for s in $3; do
			echo "$2" | grep -qx "$s" || echo "# only the second: $s"
		done
		bad=1
	fi
}

declared=$(LC_ALL=C ${AWK:-awk} -v list=1 -f "$dir/build-aux/man3.awk" \
	"$dir"/include/weir/*.h | sort)
mapped=$(sed -n 's/^[[:space:]]*\([a-z_0-9]*\);$/\1/p' "$dir/weir.map" | sort)
same 'weir.map lists what the headers declare' "$declared" "$mapped"

if [ -f .libs/libweir.so ]; then
	# The names of version nodes are absolute symbols, not functions.
	exported=$(nm -D --defined-only .libs/libweir.so |
		awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)
	same 'the library exports what the headers declare' \
		"$declared" "$exported"

	n=$((n + 1))
	if nm -D .libs/libweir.so | grep -q '@@WEIR_0\.1$'; then
		echo "ok $n - exported symbols have a version"
	else
		echo "not ok $n - exported symbols have a version"
		bad=1
	fi

	# Of what a program keeps free for libraries that it loads later.
	n=$((n + 1))
	tls=$(($(readelf -lW .libs/libweir.so |
		awk '$1 == "TLS" { print $6 }') + 0))
	if [ "$tls" -le 64 ]; then
		echo "ok $n - thread-local memory is at most 64 bytes"
	else
		echo "not ok $n - thread-local memory is at most 64 bytes"
		echo "# it is $tls"
		bad=1
	fi
else
	n=$((n + 1))
	echo "ok $n - exports # SKIP configured without a shared library"
fi
echo "1..$n"
exit $bad
