#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tap-run.sh COMMAND...: run a test for automake's TAP driver.
#
#   - Its time is limited: WEIR_TEST_TIMEOUT seconds (default 300, or an hour
#     with WEIR_TEST_LONG=1), then its whole process group is killed.
#   - cmocka 1.1.5 writes "not ok 3 # SKIP" for what is skipped, which counts
#     as a failure; it is turned into "ok".
#   - Exit status 77 is a skip, as for tests that do not speak TAP; the plan
#     "1..0 # SKIP why" has said so already.
if [ "${WEIR_TEST_LONG:-0}" = 1 ]; then
	limit=${WEIR_TEST_TIMEOUT:-3600}
else
	limit=${WEIR_TEST_TIMEOUT:-300}
fi

exec 4>&1
status=$({
	{
		timeout -k 10 "$limit" "$@" 3>&- 4>&-
		echo $? >&3
	} | sed 's/^not ok \(.*# SKIP\)/ok \1/' >&4
} 3>&1)

case $status in
77) exit 0 ;;
124 | 137)
	echo "Bail out! killed after $limit seconds"
	exit 1
	;;
*) exit "$status" ;;
esac
