#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# RDMA in simulated worlds, over a mock: whatever fails, every job ends once,
# bytes are where they should be, and nothing is left.
#
# Environment: WEIR_SIM_VERBS is the program.  test-weir-sim-fabric.sh sets $scenario: it
# has the same tests, of another program.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

scenario=${scenario:-verbs}
sim=${WEIR_SIM_VERBS:-tools/weir-sim-verbs}
[ "$scenario" = verbs ] || sim=tools/weir-sim-$scenario
sim=$(absolute "$sim")
[ -x "$sim" ] || {
	echo "1..0 # SKIP built without $scenario"
	exit 0
}
enter "test-weir-sim-$scenario"

seeds=100
[ "${WEIR_TEST_LONG:-0}" = 0 ] || seeds=5000

# seeds_from FIRST: as many seeds from that one on.
seeds_from() { timeout 1000 "$sim" --first "$1" --seeds "$seeds" --jobs 2 "$scenario"; }

t_what_fails_is_accounted_for() { expect 0 seeds_from 1; }

t_with_no_faults_nothing_fails()
{
	expect 0 timeout 1000 "$sim" --faults none --seeds "$seeds" "$scenario"
	shows ' 0 faults,'
}

t_a_seed_is_a_run()
{
	expect 0 timeout 100 "$sim" --seeds 20 "$scenario"
	sed 's/, [^,]*$//' out >first
	expect 0 timeout 100 "$sim" --seeds 20 --jobs 4 "$scenario"
	sed 's/, [^,]*$//' out | cmp -s - first || wrong 'it is another one'
}

run t_what_fails_is_accounted_for
run t_with_no_faults_nothing_fails
run t_a_seed_is_a_run
echo "1..$n"
exit $bad
