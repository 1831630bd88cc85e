#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# configure refuses systems that are not of 64 bits, with one message.
. "${srcdir:-.}/tests/support/check.sh"

dir=$(cd "$dir" && pwd) || exit 1
tmp=$(mktemp -d ./bits.XXXXXX) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM

what='configure refuses pointers of 4 bytes'
if [ -e "$dir/config.status" ]; then
	skips "$what" 'the source directory is configured itself'
	report
fi
text=
(cd "$tmp" && ${CONFIG_SHELL:-/bin/sh} "$dir/configure" \
	ac_cv_sizeof_void_p=4 >out 2>err) && text='it was configured'
grep -q '^configure: error: weir needs a 64-bit system, but pointers .* 4 bytes: ' \
	"$tmp/err" || text=$(tail -n 5 "$tmp/err")
[ ! -e "$tmp/Makefile" ] || text='it has made a Makefile'
holds "$what" "$text"
holds 'it says nothing else' \
	"$(grep -v '^configure: error: ' "$tmp/err")"
report
