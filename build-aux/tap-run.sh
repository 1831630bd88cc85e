#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tap-run.sh COMMAND...: run a test for automake's TAP driver.
#
#   - Its time is limited: WEIR_TEST_TIMEOUT seconds (default 300, and up to five
#     times as many while others want the processors; an hour with
#     WEIR_TEST_LONG=1), then its whole process group is killed.
#   - So are processes that it leaves: a test that has failed in the middle does
#     not end its children, and make would wait for them, which have its output.
#   - cmocka 1.1.5 writes "not ok 3 # SKIP" for what is skipped, which counts
#     as a failure; it is turned into "ok".
#   - A program that has reported what failed need not exit with a failure, which
#     would count as another one.  Death by a signal does count.
#   - Exit status 77 is a skip, as for tests that do not speak TAP; the plan
#     "1..0 # SKIP why" has said so already.
if [ "${WEIR_TEST_LONG:-0}" = 1 ]; then
	limit=${WEIR_TEST_TIMEOUT:-3600}
else
	read -r load rest </proc/loadavg
	busy=$((${load%.*} / $(nproc)))
	[ $busy -le 4 ] || busy=4
	limit=${WEIR_TEST_TIMEOUT:-$((300 * (1 + busy)))}
fi

exec 4>&1
result=$({
	{
		group=$({
			# timeout has a process group of its own.
			# shellcheck disable=SC2016
			timeout -k 10 "$limit" sh -c 'echo $PPID >&3
				exec "$@" 3>&-' sh "$@" 4>&- 5>&-
		} 3>&1 1>&5)
		status=$?
		kill -KILL "-$group" 2>/dev/null
		echo "status $status" >&3
	} 5>&1 | {
		awk '
			/^not ok .*# SKIP/ { sub(/^not /, "") }
			/^not ok / { failed = 1 }
			{ print; fflush() }
			END { exit failed }' >&4
		echo "failed $?" >&3
	}
} 3>&1)
status=$(echo "$result" | sed -n 's/^status //p')
failed=$(echo "$result" | sed -n 's/^failed //p')

case $status in
77) exit 0 ;;
124 | 137)
	echo "Bail out! killed after $limit seconds"
	exit 1
	;;
esac
[ "$status" -gt 127 ] || [ "$failed" = 0 ] || exit 0
exit "$status"
