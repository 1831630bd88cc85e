#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# fuzz.sh SECONDS TARGET...: what `make fuzz` runs in the build directory.
#
# Compiles the library for libFuzzer, once, and runs each target for SECONDS, one
# on each CPU at a time, from the corpus in the tree and what earlier runs have
# found.  Of the
# environment it takes CLANG, FUZZ_CFLAGS, FUZZ_LIBS, srcdir, SOURCES, the
# library's files, and TOOLS, NBD, PROXY and TLS, what the targets "command", "nbd", "proxy"
# and "tls" need beside them.  What fails is left as tests/fuzz/crash-*.
set -u
seconds=$1
shift
here=tests/fuzz
src=${srcdir:?}/$here
obj=$here/obj
san='-fsanitize=address,undefined -fno-sanitize-recover=undefined'
mkdir -p $obj || exit 1

# Whether the library is as it was when it was compiled.
is_built()
{
	[ -e $obj/built ] &&
		[ -z "$(find config.h "$srcdir/base" "$srcdir/reactor" \
			"$srcdir/mem" "$srcdir/dma" "$srcdir/rdma" "$srcdir/sim" "$srcdir/include" \
			-name '*.[ch]' -newer $obj/built)" ]
}

# With slashes as dashes, for there are files of the same name.
build()
{
	touch $obj/begun
	for f in $SOURCES; do
		case $f in
		*.c) echo "$srcdir/$f $obj/$(echo "$f" | tr / -).o" ;;
		esac
	done | xargs -P "$(nproc)" -n 2 sh -c "
		$CLANG $FUZZ_CFLAGS $san -fsanitize=fuzzer-no-link \
			-c -o \$1 \$0" || return 1
	mv $obj/begun $obj/built
}

# What a target is made of besides fuzz-$1.c.
files_of()
{
	files=
	case $1 in
	command) files=$TOOLS ;;
	nbd) files=$NBD ;;
	proxy) files=$PROXY ;;
	tls) files=$(printf '%s\n' $TLS | grep '[.]c$') ;;
	sim) echo "$src"/sim-*.c ;;
	esac
	for f in $files; do
		echo "$srcdir/$f"
	done
}

fuzz_one()
{
	mkdir -p "$here/corpus-$1"
	# shellcheck disable=SC2046,SC2086 # Lists.
	$CLANG $FUZZ_CFLAGS $san -fsanitize=fuzzer -o "$here/fuzz-$1" \
		"$src/fuzz-$1.c" $(files_of "$1") $obj/*.o $FUZZ_LIBS ||
		return 1
	echo "fuzz-$1, $seconds s:"
	known=
	[ ! -d "$src/corpus/$1" ] || known="$src/corpus/$1"
	# shellcheck disable=SC2086 # None, or one.
	"$here/fuzz-$1" -max_len=4096 -max_total_time="$seconds" \
		-timeout=20 -artifact_prefix=$here/ -verbosity=0 \
		-print_final_stats=1 "$here/corpus-$1" $known
}

# Called by itself: what one says is not to be mixed with what others say.
if [ "${FUZZ_ONE-}" ]; then
	fuzz_one "$1" >"$here/fuzz-$1.log" 2>&1
	status=$?
	cat "$here/fuzz-$1.log"
	exit $status
fi

is_built || build || exit 1
[ $# = 0 ] || printf '%s\n' "$@" |
	FUZZ_ONE=1 xargs -P "$(nproc)" -n 1 sh "$0" "$seconds"
