#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The libraries have the ABI that tests/abi/ keeps: their public functions, and the
# sizes and members of the types that programs see.  TAP.
#
#	check-abi.sh [--keep]	keep the ABI of this build instead: make abi
#
# It is read from the debugging information, and what internal symbols have is left
# out.  So it does not depend on how the libraries were optimized, nor on what the
# build was configured with.
. "${srcdir:-.}/tests/support/check.sh"

kept=$dir/tests/abi

why_not()
{
	if ! command -v abidiff >/dev/null || ! command -v abidw >/dev/null; then
		echo 'abidiff is not installed (abigail-tools)'
	elif [ "$(uname -m)" != x86_64 ]; then
		echo 'the ABI is kept for x86_64'
	elif grep -q '^SAN_CFLAGS = .' Makefile; then
		echo 'a build with a sanitizer'
	else
		return 1
	fi
}

if reason=$(why_not); then
	[ "${1-}" != --keep ] || { echo "$reason" >&2; exit 1; }
	echo "1..0 # SKIP $reason"
	exit 0
fi

tmp=$(mktemp -d ./abi.XXXXXX) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM

cat >"$tmp/suppressions" <<-END
	[suppress_function]
	symbol_name_not_regexp = ^weir_[^_]
	drop = yes
	[suppress_variable]
	symbol_name_not_regexp = ^weir_[^_]
	drop = yes
END

# dump LIBRARY: its ABI, without what only takes space.
dump()
{
	abidw --suppressions "$tmp/suppressions" --headers-dir "$dir/include" \
		--drop-private-types --drop-undefined-syms \
		--exported-interfaces-only --no-corpus-path --no-architecture \
		--no-comp-dir-path --no-show-locs --no-elf-needed \
		--no-write-default-sizes --type-id-style hash "$1" |
	sed -e 's/^ *//' -e "s/ mangled-name='[^']*'//" \
		-e "s/ visibility='default' binding='global' size-in-bits='64'//"
}

for name in libweir libweir-rdma libweir-sim libweir-accel libweir-cuda libweir-fabric libweir-nvme libweir-resolve libweir-tls; do
	lib=.libs/$name.so
	if [ ! -e "$lib" ]; then
		skips "$name has the ABI that is kept" 'it was not built'
		continue
	elif ! readelf -S -W "$lib" | grep -q '\.debug_info'; then
		skips "$name has the ABI that is kept" \
			'it was built without debugging information'
		continue
	fi
	dump "$lib" >"$tmp/$name.abi" || exit 1
	if [ "${1-}" = --keep ]; then
		cp "$tmp/$name.abi" "$kept/$name.abi" || exit 1
		continue
	fi
	# 4: it has changed, of which 8: so that programs break.
	text=$(abidiff "$kept/$name.abi" "$tmp/$name.abi" 2>&1)
	if [ $? -ne 0 ]; then
		text="$text
If this is intended: make abi, commit tests/abi/, and say in NEWS.md what changed.
Programs that were built before break if a function is gone or a type differs: then
the version of the library's interface (configure.ac) has to change as well."
	else
		text=
	fi
	holds "$name has the ABI that is kept" "$text"
done
[ "${1-}" = --keep ] || report
