#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# drive.sh RESULTS TEST...: run tests as `make check` does, without make, which
# takes longer in a guest than many a test: each has a .log and a .trs in the
# directory RESULTS, and a line for each case.
#
# Environment: srcdir and AWK, as make check gives them; TEST_WRAPPER is a
# command that programs are run by, such as valgrind.
set -u

results=$1
shift
aux=${srcdir:-.}/build-aux
mkdir -p "$results" || exit 1
AM_TAP_AWK=${AWK:-awk}
export AM_TAP_AWK
# A case over both backends takes twice as long, and the mock has that; a simulated
# world is the same outside.
[ "${WEIR_TEST_LONG:-0}" = 1 ] || export WEIR_TEST_IN_TURN=1 WEIR_TEST_SIM=0

for test in "$@"; do
	[ -e "$test" ] || test=${srcdir:-.}/$test
	case $test in
	*.sh) shell='sh' ;;
	*) shell=${TEST_WRAPPER:-} ;;
	esac
	name=${test##*/}
	name=$results/${name%.sh}
	# shellcheck disable=SC2086 # Perhaps none.
	sh "$aux/tap-driver.sh" --test-name "${test#"${srcdir:-.}/"}" \
		--log-file "$name.log" --trs-file "$name.trs" \
		--color-tests no --enable-hard-errors yes \
		--expect-failure no -- sh "$aux/tap-run.sh" $shell "$test"
	[ -s "$name.trs" ] || {
		echo "ERROR: $test could not be run"
		echo ':test-result: ERROR' >"$name.trs"
	}
	! grep -qE '^:test-result: (FAIL|XPASS|ERROR)' "$name.trs" ||
		tail -n 40 "$name.log"
done

cat "$results"/*.trs | ${AWK:-awk} '
	/^:test-result: (PASS|XFAIL)/ { passed++ }
	/^:test-result: (FAIL|XPASS|ERROR)/ { failed++ }
	/^:test-result: SKIP/ { skipped++ }
	END {
		printf "%d passed, %d failed, %d skipped\n",
			passed, failed, skipped
		exit failed > 0 || !NR
	}'
