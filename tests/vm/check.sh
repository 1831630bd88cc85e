#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check.sh RESULTS TEST...: what make check-rdma does.  Runs the tests in one
# guest; where there can be none they are all skipped, with the reason.
#
# Environment: as for make check; RDMA_SECONDS limits it all (600).
set -u

results=$1
shift
vm=$(cd "$(dirname "$0")" && pwd) || exit 1
rm -rf "$results"
mkdir -p "$results" && results=$(cd -P "$results" && pwd) || exit 1
srcdir=$(cd -P "${srcdir:-.}" && pwd)
export srcdir

why=$("$vm/run" --check 2>&1 >/dev/null)
case $? in
0) ;;
77)
	why=${why##*prepare: }
	for test in "$@"; do
		name=${test##*/}
		printf '%s\n' ":test-result: SKIP $test" \
			":global-test-result: SKIP" ":recheck: no" \
			":copy-in-global-log: no" >"$results/${name%.sh}.trs"
		echo "SKIP: $test - $why"
	done
	echo "0 passed, 0 failed, $# skipped: $why"
	exit 0
	;;
*)
	echo "ERROR: $why"
	exit 1
	;;
esac
exec "$vm/run" --rdma2 --nvme --timeout "${RDMA_SECONDS:-600}" \
	--writable "$results" sh "$vm/drive.sh" "$results" "$@"
