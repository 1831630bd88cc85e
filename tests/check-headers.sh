#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every public header compiles alone, and twice over, as strict C99, C11 and
# C++11.  C++ is left out where there is no compiler for it, and an adapter to
# another library where that is not; theirs ask for _GNU_SOURCE.
dir=${srcdir:-.}
CC=${CC:-cc}
n=0
bad=0

try()
{
	n=$((n + 1))
	# shellcheck disable=SC2086 # $CC, $flags and $3 are lists.
	if said=$(printf '#include <%s>\n#include <%s>\n' "$1" "$1" |
		  $CC -Wall -Wextra -Werror -pedantic $flags \
			-I"$dir/include" -fsyntax-only -x $3 - 2>&1) &&
	   [ -z "$said" ]
	then
		echo "ok $n - <$1> alone, as $2"
	else
		echo "not ok $n - <$1> alone, as $2"
		echo "$said" | sed 's/^/# /'
		bad=1
	fi
}

# shellcheck disable=SC2086
if echo 'int main() { return 0; }' | $CC -x c++ -fsyntax-only - 2>/dev/null
then cxx=1
else cxx=
fi

# The header of another library that $1 needs and this machine lacks.
lacks()
{
	# shellcheck disable=SC2013 # Words are what they are.
	for f in $(sed -n '/<weir\//d; s/^#include <\(.*\)>$/\1/p' "$1"); do
		# shellcheck disable=SC2086
		echo "#include <$f>" |
			$CC -I"$dir/include" $flags -fsyntax-only -x c - \
			2>/dev/null || echo "$f"
	done | head -n 1
}

for h in "$dir"/include/weir/*.h "$dir"/include/weir/*/*.h; do
	name=${h#"$dir"/include/}
	flags=
	case $name in
	weir/host/*)
		flags="-D_GNU_SOURCE $(${PKG_CONFIG:-pkg-config} --cflags \
			glib-2.0 2>/dev/null | sed 's/-I/-isystem /g')"
		lack=$(lacks "$h")
		if [ "$lack" ]; then
			n=$((n + 1))
			echo "ok $n - <$name> # SKIP no <$lack>"
			continue
		fi
		;;
	esac
	try "$name" C99 'c -std=c99'
	try "$name" C11 'c -std=c11'
	if [ "$cxx" ]; then
		try "$name" C++11 'c++ -std=c++11'
	else
		n=$((n + 1))
		echo "ok $n - <$name> # SKIP no C++ compiler"
	fi
done
echo "1..$n"
exit $bad
