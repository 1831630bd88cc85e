#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# sim-release.sh WEIR_SIM SRCDIR: what `make check-sim` runs.
#
# SIM_COMPLETIONS operations (10^9) over all scenarios of the simulator, in
# SIM_JOBS processes, into docs/sim.txt.  It may be ended at any time, and goes
# on from there when it is started again; the state bears the name of what was
# built, for sums over two of them would say nothing.  What fails becomes a file
# in tests/seeds/.
set -u
[ $# = 2 ] || {
	echo 'usage: sim-release.sh WEIR_SIM SRCDIR' >&2
	exit 2
}
sim=$1
src=$2
completions=${SIM_COMPLETIONS:-1000000000}
jobs=${SIM_JOBS:-$(nproc)}
if commit=$(git -C "$src" describe --always --dirty 2>/dev/null)
then built=$commit
else built=$("$sim" --version | cut -d' ' -f2)
fi
state=sim-$built
case $built in
*-dirty) state=$state-$(git -C "$src" diff HEAD | cksum | cut -d' ' -f1) ;;
esac
report='sim-report.txt'

status=0
"$sim" --completions "$completions" --jobs "$jobs" --state "$state.state" \
	--keep "$src/tests/seeds" --report "$report" all || status=$?
[ -s "$report" ] || exit 1
{
	echo 'The last run of make check-sim: programs in simulated worlds,' \
		'with faults.'
	echo 'Each operation ended once, and bytes were what they had to be.'
	echo
	echo 'At this commit, and with any compiler, "weir-sim --seeds SEEDS' \
		'SCENARIO" has the'
	echo 'digest of a row again.  Another commit has others: what a program' \
		'does is in them.'
	echo
	echo "command   SIM_COMPLETIONS=$completions SIM_JOBS=$jobs make check-sim"
	echo "commit    $built"
	cat "$report"
} >"$src/docs/sim.txt" && echo "The report is in docs/sim.txt"
exit $status
