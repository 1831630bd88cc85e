#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The static probes that docs/internals/dma.md lists are in the library, and no others.
dir=${srcdir:-.}
lib=.libs/libweir.so

echo 1..1
if ! grep -q '^#define HAVE_SDT 1' config.h; then
	echo 'ok 1 - probes are there # SKIP built without sys/sdt.h'
	exit 0
fi
if [ ! -e $lib ] || ! command -v readelf >/dev/null; then
	echo 'ok 1 - probes are there # SKIP no shared library, or no readelf'
	exit 0
fi

listed=$(sed -n 's/^| `weir:\([a-z_]*\)`.*/\1/p' "$dir/docs/internals/dma.md" | sort)
found=$(readelf -n $lib | sed -n 's/^ *Name: \([a-z_]*\)$/\1/p' | sort -u)
if [ "$listed" ] && [ "$listed" = "$found" ]; then
	echo 'ok 1 - probes are there'
else
	echo 'not ok 1 - probes are there'
	printf 'listed:\n%s\nfound:\n%s\n' "$listed" "$found" | sed 's/^/# /'
	exit 1
fi
