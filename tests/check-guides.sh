#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The guides of docs/ do what they say: a block ```c with a main() is compiled, linked
# and run, and writes what the block ```output after it has; a block ```sh succeeds.
# (Other blocks of C are compiled by check-snippets.sh.)
src=$(cd "${srcdir:-.}" && pwd)
build=$PWD
dir=$PWD/tests/check-guides.d
n=0
bad=0
trap 'rm -rf "$dir"' EXIT
rm -rf "$dir"
mkdir -p "$dir" || exit 1

result()
{
	n=$((n + 1))
	echo "$1 $n - $2"
	[ "$1" = ok ] || {
		sed 's/^/# /' "$dir/said"
		bad=1
	}
}

# Each block of the guide $1 that is run, as a file NUMBER.LANGUAGE in $dir/blocks.
extract()
{
	rm -rf "$dir/blocks"
	mkdir "$dir/blocks"
	${AWK:-awk} -v dir="$dir/blocks" '
		/^```(c|sh|output)$/ {
			file = sprintf("%s/%03d.%s", dir, ++n, substr($0, 4))
			next
		}
		/^```/ { file = ""; next }
		file != "" { print >file }' "$1"
}

# The block $1, a program, in a directory of its own.
compile_and_run()
{
	cp "$1" program.c
	# shellcheck disable=SC2086 # Lists.
	(cd "$build" && ${CC:-cc} -std=gnu11 -Wall -Wextra -Werror $SAN_CFLAGS \
		-I"$src/include" -c "$dir/run/program.c" -o "$dir/run/program.o" &&
		./libtool --silent --tag=CC --mode=link ${CC:-cc} $SAN_CFLAGS -pthread \
			-o "$dir/run/program" "$dir/run/program.o" \
			libweir.la) >"$dir/said" 2>&1 || return
	(cd "$build" && ./libtool --mode=execute "$dir/run/program") \
		>"$dir/said" 2>&1
}

# The programs, as they are called where they are installed.
mkdir "$dir/bin"
for program in tools/weir tools/weir-sim programs/weir-cp/weir-cp \
	programs/weir-nbd/weir-nbd programs/weir-proxy/weir-proxy
do
	ln -s "$build/$program" "$dir/bin/"
done

for guide in "$src"/docs/*.md; do
	name=docs/${guide##*/}
	extract "$guide"
	for block in "$dir"/blocks/*; do
		[ -f "$block" ] || continue
		what="$name, block $(basename "$block")"
		rm -rf "$dir/run"
		mkdir "$dir/run"
		cd "$dir/run" || exit 1
		case $block in
		*.c)
			grep -q 'int main(' "$block" || continue
			if compile_and_run "$block"; then
				result ok "$what runs"
			else
				result 'not ok' "$what runs"
			fi
			cp "$dir/said" "$dir/before"
			;;
		*.output)
			if diff "$block" "$dir/before" >"$dir/said"; then
				result ok "$what is what the program writes"
			else
				result 'not ok' "$what is what the program writes"
			fi
			;;
		*.sh)
			if PATH=$dir/bin:$PATH sh -eu "$block" >"$dir/said" 2>&1
			then
				result ok "$what succeeds"
			else
				result 'not ok' "$what succeeds"
			fi
			;;
		esac
		cd "$build" || exit 1
	done
done
if [ $n -lt 12 ]; then
	echo "there are only $n" >"$dir/said"
	result 'not ok' 'there are blocks to run'
fi
echo "1..$n"
exit $bad
