#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# prefix-archive.sh ARCHIVE: put "weir__" before each global name that the
# archive defines and that does not begin with "weir_".
#
# Objects of a compiler that left only its own intermediate code (-flto without
# -ffat-lto-objects) cannot be changed: the archive stays as it is.
set -eu
archive=$1
NM=${NM:-nm}
OBJCOPY=${OBJCOPY:-objcopy}

names=$archive.names
trap 'rm -f "$names" "$archive.new"' EXIT

if $NM "$archive" 2>/dev/null | grep -q ' __gnu_lto_slim$'; then
	echo "$archive: LTO objects: internal names are not prefixed" >&2
	exit 0
fi
[ "$OBJCOPY" ] || {
	echo "$archive: no objcopy: internal names are not prefixed" >&2
	exit 0
}
# A name with two colons is not C's: leave what a sanitizer or compiler made.
$NM -g --defined-only "$archive" 2>/dev/null |
	awk 'NF == 3 && $3 !~ /^(weir_|_|\.)/ { print $3, "weir__" $3 }' |
	sort -u >"$names"
[ -s "$names" ] || exit 0
$OBJCOPY --redefine-syms="$names" "$archive" "$archive.new"
${RANLIB:-ranlib} "$archive.new"
mv "$archive.new" "$archive"
