#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The blocks of code in the README, the tutorials and the comments of headers,
# which are the examples of man pages, compile without a warning.  (The blocks of
# tutorial-sim.md are lines of its examples: check-docs.sh.)
src=$(cd "${srcdir:-.}" && pwd)
dir=$PWD/tests/check-snippets.d
n=0
bad=0
trap 'rm -rf "$dir"' EXIT
rm -rf "$dir"
mkdir -p "$dir" || exit 1

result()
{
	n=$((n + 1))
	echo "$1 $n - $2"
}

# compiled TITLE FILE FLAGS...
compiled()
{
	title=$1
	shift
	# shellcheck disable=SC2086 # $CC is a list.
	if said=$(cd "$src" && ${CC:-cc} -fsyntax-only -Wall -Werror "$@" \
		-Iinclude -I. 2>&1)
	then
		result ok "$title"
	else
		result 'not ok' "$title"
		echo "$said" | sed 's/^/# /'
		bad=1
	fi
}

# Why the library that the document $1 is about is not here.
missing()
{
	case $1 in
	libev.h) what=libev ;;
	libuv.h) what=libuv ;;
	glib.h) what=glib-2.0 ;;
	sd-event.h) what=libsystemd ;;
	channel.h) what=libibverbs ;;
	*) return ;;
	esac
	[ $what != libev ] || return
	${PKG_CONFIG:-pkg-config} --exists $what || echo "there is no $what"
}

flags_of()
{
	[ "$1" != glib.h ] || ${PKG_CONFIG:-pkg-config} --cflags glib-2.0
}

# The program of the README, as it is printed.
awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' \
	"$src/README.md" >"$dir/readme.c"
compiled "the README's program" -Wextra -Wno-unused-parameter "$dir/readme.c"

for doc in docs/tutorial-card.md docs/tutorial-dma.md docs/tutorial-domain.md docs/tutorial-nbd.md \
	docs/tutorial-op.md \
	docs/tutorial-peers.md docs/tutorial-proxy.md $(cd "$src" && ls include/weir/*.h include/weir/*/*.h)
do
	name=${doc##*/}
	c=$dir/$name.c
	(cd "$src" && LC_ALL=C ${AWK:-awk} -f tests/snippets.awk "$doc") >"$c"
	grep -q '^#line' "$c" || continue
	why=$(missing "$name")
	if [ "$why" ]; then
		result ok "blocks of $doc # SKIP $why"
		continue
	fi
	which=$(echo "${doc#include/weir/}" | sed 's,^docs/,,
		s/\.[a-z]*$//' | tr /- __)
	# shellcheck disable=SC2046 # A list.
	compiled "blocks of $doc" -std=gnu11 -Wno-unused -Wno-uninitialized \
		-DSNIPPETS_OF_"$which" $(flags_of "$name") "$c"
done
if [ $n -lt 25 ]; then
	result 'not ok' 'there are blocks of code'
	bad=1
fi
echo "1..$n"
exit $bad
