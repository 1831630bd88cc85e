#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# fuzz.sh SECONDS TARGET...: what `make fuzz` runs in the build directory.
#
# Compiles the library for libFuzzer, once, and runs each target for SECONDS
# from the corpus in the tree and what earlier runs have found.  Of the
# environment it takes CLANG, FUZZ_CFLAGS, FUZZ_LIBS, srcdir, SOURCES, the
# library's files, and TOOLS, what the target "command" needs beside them.  What
# fails is left as tests/fuzz/crash-*.
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
			"$srcdir/mem" "$srcdir/dma" "$srcdir/include" \
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

is_built || build || exit 1

bad=0
for target; do
	more=
	if [ "$target" = command ]; then
		for f in $TOOLS; do
			more="$more $srcdir/$f"
		done
	fi
	# What a target is made of besides fuzz-TARGET.c.
	[ "$target" != sim ] || more=$(echo "$src"/sim-*.c)
	mkdir -p "$here/corpus-$target"
	# shellcheck disable=SC2086 # Lists.
	$CLANG $FUZZ_CFLAGS $san -fsanitize=fuzzer -o "$here/fuzz-$target" \
		"$src/fuzz-$target.c" $more $obj/*.o $FUZZ_LIBS || exit 1
	echo "fuzz-$target, $seconds s:"
	known=
	[ ! -d "$src/corpus/$target" ] || known="$src/corpus/$target"
	# shellcheck disable=SC2086 # None, or one.
	"$here/fuzz-$target" -max_len=4096 -max_total_time="$seconds" \
		-timeout=20 -artifact_prefix=$here/ -verbosity=0 \
		-print_final_stats=1 "$here/corpus-$target" $known || bad=1
done
exit $bad
