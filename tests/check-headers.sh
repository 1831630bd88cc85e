#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every public header compiles alone, and twice over, as strict C99, C11 and
# C++11.  C++ is left out where there is no compiler for it.
dir=${srcdir:-.}
CC=${CC:-cc}
n=0
bad=0

try()
{
	n=$((n + 1))
	# shellcheck disable=SC2086 # $CC and $3 are lists.
	if said=$(printf '#include <%s>\n#include <%s>\n' "$1" "$1" |
		  $CC -Wall -Wextra -Werror -pedantic \
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

for h in "$dir"/include/weir/*.h; do
	name=weir/${h##*/}
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
