#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# digests.sh SEEDS WEIR_SIM OTHER_WEIR_SIM: whether the two, of different
# compilers, see the same happen in all worlds.
set -u
[ $# = 3 ] || {
	echo 'usage: digests.sh SEEDS WEIR_SIM OTHER_WEIR_SIM' >&2
	exit 2
}

bad=0
for scenario in $("$2" --list | sed '/^$/,$d' | cut -d' ' -f1); do
	one=$("$2" --seeds "$1" "$scenario" | sed 's/, [^,]*$//') || exit 1
	two=$("$3" --seeds "$1" "$scenario" | sed 's/, [^,]*$//') || exit 1
	if [ "$one" ] && [ "$one" = "$two" ]; then
		echo "the same: $one"
	else
		echo "error: not the same: $one"
		echo "                     $two"
		bad=1
	fi
done
exit $bad
