#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rdma-report.sh SRCDIR BUILD ASAN_BUILD: what `make check-long` runs for
# docs/rdma.txt.
#
# In guests: the cycles of test-conn-cycles in full, as built in BUILD; then the
# programs of RDMA_PROGRAMS in short form as they are built in ASAN_BUILD, and
# those of RDMA_LEAN, which have capacity in the guest's memory, under valgrind.  It
# may be ended at any time, and goes on with the part it was at when it is
# started again in the same directory and for the same commit.
set -u
[ $# = 3 ] || {
	echo 'usage: rdma-report.sh SRCDIR BUILD ASAN_BUILD' >&2
	exit 2
}
src=$(cd "$1" && pwd) && build=$(cd "$2" && pwd) && asan=$(cd "$3" && pwd) ||
	exit 1
vm=$src/tests/vm
programs=${RDMA_PROGRAMS:-channel-wire cm conn conn-cycles engine-verbs-end \
	export-rdma mmap-mw}
lean=${RDMA_LEAN:-cm conn-cycles mmap-mw}
commit=$(git -C "$src" describe --always --dirty 2>/dev/null ||
	echo 'a tarball')
state=$PWD/rdma-$commit
mkdir -p "$state" || exit 1
failed=0

# part NAME COMMAND...: its output into $state/NAME, once it was well.
part()
{
	name=$1
	shift
	[ ! -e "$state/$name" ] || return 0
	if "$@" >"$state/$name.part" 2>&1; then
		mv "$state/$name.part" "$state/$name"
	else
		tail -n 20 "$state/$name.part"
		echo "rdma-report.sh: $name failed" >&2
		failed=1
	fi
}

# All cycles of those cases whose name matches $1.
cycles()
{
	cd "$build" && "$vm/run" --rdma2 --timeout 3000 \
		--env WEIR_TEST_LONG=1 --env WEIR_TEST_IN_TURN=1 \
		--env "WEIR_TEST_FILTER=*$1*" tests/rdma/test-conn-cycles-rdma
}

# checked BUILD RESULTS WRAPPER PROGRAMS: these, and a line for each.
checked()
{
	cd "$1" || return 1
	results=$2
	wrapper=$3
	status=0
	for p in $4; do
		begun=$(date +%s)
		srcdir=$src TEST_WRAPPER=$wrapper RDMA_SECONDS=1800 \
			CMOCKA_MESSAGE_OUTPUT=TAP WEIR_TEST_LONG=0 \
			sh "$vm/check.sh" "$state/$results.d" \
			"tests/rdma/test-$p-rdma" >"$state/$results.log" 2>&1 ||
			status=1
		[ $status = 0 ] || cat "$state/$results.log"
		printf '%-16s %s, %d s\n' "$p" \
			"$(tail -n 1 "$state/$results.log")" \
			$(($(date +%s) - begun))
	done
	return $status
}

valgrind="valgrind -q --error-exitcode=99 --leak-check=full
	--errors-for-leak-kinds=definite,indirect --fair-sched=yes
	--num-callers=24 --suppressions=$src/tests/valgrind.supp"

part kernel "$vm/run" uname -sr
part link cycles 'link is cut'
part peer cycles 'peer is killed'
part qp cycles 'qp fails'
part asan checked "$asan" asan '' "$programs"
part valgrind checked "$build" valgrind "$valgrind" "$lean"
[ $failed = 0 ] || exit 1

version() { dpkg-query -W -f '${Version}' "$1" 2>/dev/null || echo unknown; }

{
	echo 'RDMA over soft-RoCE, in the guest of tests/vm.'
	echo
	echo 'command   make check-long (build-aux/rdma-report.sh)'
	echo "commit    $commit"
	echo "date      $(date -u '+%Y-%m-%d %H:%M UTC')"
	echo "kernel    $(cat "$state/kernel")"
	echo "libibverbs  $(version libibverbs1)"
	echo "librdmacm   $(version librdmacm1)"
	cat <<-'END'

	Cycles: a stream of jobs of all kinds between two processes on the two ends
	of a link, which is cut; or the peer is killed; or a QP forced into error.
	Each job ended once: done, failed with the cause, or flushed after the one
	that had it.  No byte was out of place, and each time the connection came
	back by its policy.  In the end there were as many descriptors, and as many
	QPs, CQs, MRs and protection domains in the kernel, as before.

	END
	printf '%-12s %-7s %6s %7s %7s %6s %7s %9s %6s %9s %8s\n' \
		strike backend cycles jobs 'done' failed flushed attempts \
		early heap seconds
	cat "$state/link" "$state/peer" "$state/qp" | awk '
		/^# cycles: / {
			sub(/^# cycles: /, "")
			gsub(/[:;,]/, "")
			backend = $1
			strike = ""
			for (i = 2; $(i + 1) != "cycles"; i++)
				strike = strike (i > 2 ? " " : "") $i
			for (n = 0; i <= NF; i++)
				if ($i ~ /^[-+]?[0-9.]+$/)
					v[n++] = $i
			printf "%-12s %-7s %6d %7d %7d %6d %7d %9d %6d " \
				"%9s %8.1f\n", strike, backend, v[0], v[1],
				v[2], v[3], v[4], v[5], v[6], v[7], v[8]
		}'
	cat <<-'END'

	failed: those that had the cause.  A QP that is forced into error here, or
	whose peer says goodbye, leaves none.  early: ends, not counted as cycles,
	because the guest had no processor for as long as a QP is patient.  heap:
	bytes more in use at the end than after half of the cycles.  seconds: by the
	clock of the guest.

	With AddressSanitizer and UBSan, in short form:

	END
	cat "$state/asan"
	echo
	echo 'Under valgrind, in short form:'
	echo
	cat "$state/valgrind"
} >"$src/docs/rdma.txt" && echo 'The report is in docs/rdma.txt'
