# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2034 # its variables are for those that source it
# What the checks of the tree need: where it is, and TAP.  It is sourced.
dir=${srcdir:-.}
LC_ALL=C
export LC_ALL
n=0
bad=0

# holds WHAT TEXT: TEXT, what is wrong with it, is empty.
holds()
{
	n=$((n + 1))
	if [ -z "$2" ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		echo "$2" | sed 's/^/# /'
		bad=1
	fi
}

# skips WHAT REASON
skips()
{
	n=$((n + 1))
	echo "ok $n - $1 # SKIP $2"
}

# The end of a check.
report()
{
	echo "1..$n"
	exit $bad
}
