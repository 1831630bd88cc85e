#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# steps.sh [--long] [--only STEPS] [--report FILE] SRCDIR ROOT
#
# Build and test weir in every configuration that matters, each in a directory
# of its own under ROOT, cheapest first, and say how long each took.  Goes on
# after a failure; exits by whether there was one.
#
# WEIR_BUILT is a directory in which the default configuration has been built; if
# it is set, valgrind and the guest run what is there.
#
# Short (what .ci/run does): each configuration once, tests in reduced form; of what is
# slow only a part, another one for each commit.
# Long (make check-long): all of every test (WEIR_TEST_LONG=1), and a run that
# is told by WEIR_BACKEND to stand on each backend in turn.  It takes hours and may
# be stopped: what has passed on this version of the sources is not run again.
#
# --only names the steps that are run.  A report names for each step the commit and
# the day of its last run: it keeps the lines of steps that were not run this time,
# and what it says from the line "What was found" on.
#
# WEIR_STRICT=1 (.ci/run sets it): a step that cannot be tried has failed, and so
# has one that skips what tests/skips.txt does not list, or passes too few tests.
set -u

long=0
only=
report=
while :; do
	case ${1-} in
	--long) long=1 ;;
	--only)
		only=$2
		shift
		;;
	--report)
		report=$2
		shift
		;;
	*) break ;;
	esac
	shift
done
[ $# = 2 ] || {
	echo 'usage: steps.sh [--long] [--only STEPS] [--report FILE] SRCDIR ROOT' >&2
	exit 2
}
mkdir -p "$2" || exit 1
# Steps change the directory.
case $report in
'' | /*) ;;
*) report=$PWD/$report ;;
esac
src=$(cd "$1" && pwd) && root=$(cd "$2" && pwd) || exit 1
# More than there are cores, for some tests wait.
jobs=$(($(nproc) + 2))
failures=0
WEIR_TEST_LONG=$long
export WEIR_TEST_LONG
# Without this configure takes bash where there is one; with dash, libtool and the
# scripts take a third less time.  The default configuration has what configure takes.
[ $long = 1 ] || [ ! -x /bin/dash ] || export CONFIG_SHELL=/bin/dash
# Jobs and flags of the make that may have called us are not for those below.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES

[ -z "${WEIR_BUILT-}" ] || [ -e "$root/valgrind" ] ||
	ln -s "$(cd "$WEIR_BUILT" && pwd)" "$root/valgrind" || exit 1

# Of the sources: the commit, and what has been changed since, but for the report.
changes() { git -C "$src" diff HEAD "$@" -- . ':!docs/check-long.txt'; }
version=$(git -C "$src" describe --always 2>/dev/null) || version='from a tarball'
[ ! -e "$src/.git" ] || changes --quiet ||
	version=$version-dirty-$(changes | cksum | cut -d ' ' -f 1)
strict=${WEIR_STRICT:-0}

lines=$root/report.txt
: >"$lines"
say() { printf '%s\n' "$*" | tee -a "$lines"; }

# The sums over what automake's driver left in the build directory $1.
sums()
{
	find "$1/" -name '*.trs' -exec cat {} + 2>/dev/null | awk '
		/^:test-result: (PASS|XFAIL)/ { passed++ }
		/^:test-result: (FAIL|XPASS|ERROR)/ { failed++ }
		/^:test-result: SKIP/ { skipped++ }
		END {
			if (NR)
				printf "%d passed, %d failed, %d skipped",
					passed, failed, skipped
		}'
}

# judged NAME COMMAND...: the same, and what was skipped is on the list.
judged()
{
	name=$1
	shift
	"$@" || return 1
	[ "$strict" = 0 ] || [ ! -d "$root/$name" ] ||
		sh "$src/build-aux/judge.sh" "$src/tests/skips.txt" "$name" \
			"$root/$name"
}

# chosen NAME: whether this step is to be run; or else the report keeps what it says.
chosen()
{
	case " ${only:-$1} " in
	*" $1 "*) return ;;
	esac
	[ -z "$report" ] ||
		grep -sE "^$1 +(ok|FAILED|skipped)" "$report" >>"$lines"
	return 1
}

# cannot NAME WHY: a step that cannot be tried.
cannot()
{
	chosen "$1" || return
	if [ "$strict" = 0 ]; then
		say "$(printf '%-22s skipped: %s' "$1" "$2")"
	else
		say "$(printf '%-22s FAILED  cannot be tried: %s' "$1" "$2")"
		failures=$((failures + 1))
	fi
}

# step NAME COMMAND...: run it, in a log of its own, and say how it went.
step()
{
	name=$1
	shift
	chosen "$name" || return
	log=$root/$name.log
	passed=$root/$name.passed
	if [ $long = 1 ] && [ "$(head -n 1 "$passed" 2>/dev/null)" = "$version" ]
	then
		say "$(sed 1d "$passed")"
		return
	fi
	rm -f "$passed"
	find "$root/$name/" -name '*.trs' -exec rm -f {} + 2>/dev/null
	start=$(date +%s)
	if judged "$name" "$@" >"$log" 2>&1; then
		how=ok
	else
		how=FAILED
		failures=$((failures + 1))
	fi
	line=$(printf '%-22s %-7s %5d s  %s' "$name" $how \
		$(($(date +%s) - start)) "$(sums "$root/$name")")
	[ $long = 0 ] || line="$line  ($(date -u +%Y-%m-%d), $version)"
	say "$line"
	[ $how != ok ] || printf '%s\n' "$version" "$line" >"$passed"
	[ $how = ok ] || {
		grep -hE '^(FAIL|ERROR|XPASS|SUMMARY):|ERROR: |error:|\*\*\*|/tests/fuzz/fuzz-[a-z]*[.]c:' \
			"$log" | head -n 20
		echo "... all of it in $log"
	}
}

# What make is told in all of a step.
make_flags=

run_make() { make -j "$jobs" "$@" $make_flags; }

# ready NAME FLAGS...: configure with FLAGS, if that is not done.
ready()
{
	dir=$root/$1
	shift
	mkdir -p "$dir" && cd "$dir" || return 1
	[ -f Makefile ] || "$src/configure" --enable-werror "$@"
}

build() { ready "$@" && run_make all; }

# Where test programs are run alone, benchmarks need not be built.
without_benchmarks() { make_flags='pkglibexec_PROGRAMS='; }

# All that is compiled, in the long form tests too; without a warning.
compile_all()
(
	without_benchmarks
	build "$@" && { [ $long = 0 ] ||
		{ run_make check TESTS= && run_make rdma-programs; }; }
)

# How many commits there are: a number that each commit changes.
commits=$(git -C "$src" rev-list --count HEAD 2>/dev/null) || commits=0

# In short form a half of what make can choose, for two commits each.
parts=
[ $long = 1 ] || parts="PARTS=2 PART=$((commits / 2 % 2 + 1))"

# check NAME FLAGS...: build and run all tests, but for what WEIR_BUILT has seen of the
# tree; of scripts, which run all in the default configuration, a half.
check()
{
	# shellcheck disable=SC2086 # A list.
	build "$@" && run_make check-part $parts ${WEIR_BUILT:+tree_tests=}
}

# In short form what is slow runs each case over one backend, in turn: over the other
# one for the next commit.
in_turn()
{
	[ $long = 0 ] || return 0
	WEIR_TEST_IN_TURN=$((commits % 2 + 1))
	export WEIR_TEST_IN_TURN
}

# What is compiled with a sanitizer takes half as long so, and runs little slower; other
# steps have -O2.  Of numbers gcc knows less so, and takes names for too long.
sanitized='CFLAGS=-g1 -O1 -Wno-format-truncation'
[ $long = 0 ] || sanitized=

check_asan() (in_turn && asan check)

# gcc 12's TSan has no place for itself where mmap is randomised by more bits.  Cases that
# only the long form has are not run under it either.
check_tsan()
(
	without_benchmarks
	export WEIR_TEST_LONG=0
	in_turn
	wrapper=
	if [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28)" -gt 28 ]
	then wrapper="setarch $(uname -m) -R"
	fi
	# No examples either: these are run by scripts.  A simulated world has one thread.
	make_flags="$make_flags noinst_PROGRAMS="
	[ $long = 1 ] || export WEIR_TEST_SIM=0
	build "$@" && run_make check-threads TEST_WRAPPER="$wrapper"
)

# In short form half of the programs, over one backend: all of it in four commits.  ASan
# sees most of what valgrind does, and in each commit.  In the long run: all programs over
# all backends.  Cases that only the long form has are not run under valgrind.
check_valgrind()
(
	without_benchmarks
	export WEIR_TEST_LONG=0
	in_turn
	# shellcheck disable=SC2086 # A list.
	build "$@" && run_make check-valgrind $parts
)

# What was built for valgrind, which several steps use.
plain()
{
	(without_benchmarks && build valgrind --disable-static) || return 1
	cd "$root/valgrind" || return 1
}

# As check_valgrind(): without the cases that only the long form has.
helgrind() (export WEIR_TEST_LONG=0 && plain && run_make check-helgrind)

# The tarball in this directory packs itself: what is unpacked later, in another place,
# with another umask, makes the same.
dist_repeats()
(
	rm -rf "$root/again" && mkdir "$root/again" &&
		tar xf weir-*.tar.xz -C "$root/again" || return 1
	first=$(echo "$PWD"/weir-*.tar.xz)
	umask 077
	cd "$root"/again/weir-* && mkdir build && cd build &&
		../configure && make dist && cmp "$first" weir-*.tar.xz ||
		return 1
	rm -rf "$root/again"
)

# From the tarball of distcheck.
packages()
{
	sh "$src/build-aux/packages.sh" "$root"/distcheck/weir-*.tar.xz \
		"$root/packages-$1" "$1"
}

# As a stranger builds it, by the target $1, and only so; and the tarball is the
# tree, no more and no less.
distcheck()
(
	target=$1
	shift
	# It is packed three times.
	[ $long = 1 ] || export XZ_OPT=-1
	ready "$@" && run_make "$target" && dist_repeats || return 1
	[ -e "$src/.git" ] || return 0
	tar tf weir-*.tar.xz | sed 's|^[^/]*/||' | grep -v '/$' |
		sort >"$root/in-tarball"
	git -C "$src" ls-files | grep -v '^\.gitignore$' | sort >"$root/in-git"
	! comm -13 "$root/in-tarball" "$root/in-git" |
		sed 's/^/error: not in the tarball: /' | grep .
)

lint()
{
	(cd "$src" && find bootstrap .ci/run build-aux/html.sh build-aux/tap-run.sh \
		build-aux/analyse.sh build-aux/coverage.sh build-aux/digests.sh build-aux/packages.sh \
		build-aux/rdma-report.sh \
		build-aux/sim-release.sh \
		build-aux/steps.sh debian/tests tests examples programs bench -type f \
		\( -name '*.sh' -o -name bootstrap -o -name run \
		-o -name prepare -o -path 'debian/tests/[dprs]*' \) \
		-exec shellcheck -S warning {} +)
}

# Every file has its copyright and its licence: reuse.software.
licences() { reuse --root "$src" lint; }

# What packages are made from parses, and has the version of configure.
versions()
(
	cd "$src" || return 1
	v=$(sed -n 's/^AC_INIT(\[weir\], \[\(.*\)\])/\1/p' configure.ac)
	[ "$(rpmspec -q --srpm --qf '%{version}' rpm/weir.spec)" = "$v" ] &&
		rpmspec -P rpm/weir.spec >/dev/null &&
		head -n 1 debian/changelog | grep -F "weir ($v) "
)

# Where the bare one is built: its library is compiled anew, with clang.
fuzz() { cd "$root/bare" && make fuzz FUZZ_SECONDS="$1"; }

# Over what was compiled for that; gcc's is the bare one's.
digests() { cd "$root/bare" && make check-digests; }

# Bugs that are planted, all of them or every tenth, another tenth for each commit; from
# what was built by bootstrap, if there is that.
mutations()
{
	if [ $long = 0 ]; then set -- --rotate 10; else set --; fi
	[ -z "${WEIR_BUILT-}" ] || set -- "$@" --built "$root/valgrind"
	WEIR_TEST_LONG=0 python3 "$src/tests/mutate.py" "$@" -j "$jobs" \
		"$src" "$root/mutants"
}

# In a guest, with what was built for valgrind: $1 seconds.
rdma()
{
	WEIR_VM_CACHE=$root/vm
	export WEIR_VM_CACHE
	RDMA_SECONDS=$1
	export RDMA_SECONDS
	plain && timeout "$1" make -j "$jobs" check-rdma \
		pkglibexec_PROGRAMS= RDMA_RESULTS="$root/rdma"
}

# guests NAME TARGET TEST...: make TARGET, which runs these tests in guests of their own; in
# short form half of the cases.
guests()
(
	name=$1
	target=$2
	shift 2
	WEIR_VM_CACHE=$root/vm
	export WEIR_VM_CACHE
	in_turn
	plain || return 1
	cd "$root/valgrind" && run_make "$target"
	status=$?
	mkdir -p "$root/$name" || return 1
	for test in "$@"; do
		cp "tests/$test.log" "tests/$test.trs" "$root/$name/" || return 1
	done
	return $status
)

# Cycles of failures in full, and chosen programs under ASan and valgrind, also in
# guests, into docs/rdma.txt.
rdma_report()
{
	WEIR_VM_CACHE=$root/vm
	export WEIR_VM_CACHE
	programs='rdma-programs pkglibexec_PROGRAMS='
	# shellcheck disable=SC2086 # A list.
	plain && run_make $programs && asan build && cd "$root/asan" &&
		run_make $programs && cd "$root" &&
		sh "$src/build-aux/rdma-report.sh" "$src" valgrind asan
}

# The build with ASan and UBSan, which several steps use.  In short form it has no
# benchmarks, nor the scripts that run them.
asan()
(
	[ $long = 1 ] || make_flags='pkglibexec_PROGRAMS= bench_scripts='
	"$1" asan --enable-asan --enable-ubsan --enable-debug --disable-static \
		${sanitized:+"$sanitized"}
)

# What was built with ASan has debugging, so assertions, and all that there is.
analyse()
{
	asan build && sh "$src/build-aux/analyse.sh" "$src" "$root/asan" \
		"$root/analysed"
}

# The simulator, in what was built with ASan and UBSan: $1 operations.
simulate()
{
	asan build && cd "$root/asan" && tools/weir-sim --completions "$1" --jobs "$jobs" \
		--report "$root/sim.txt" all
}

# Every function from every function of a user's, in the same: $1 calls.
calls()
{
	asan build && cd "$root/asan" && run_make tests/fuzz/run-calls &&
		srcdir=$src WEIR_FUZZ_CALLS=$1 timeout 3600 tests/fuzz/run-calls
}

if command -v shellcheck >/dev/null; then
	step shellcheck lint
else
	cannot shellcheck 'it is not installed'
fi

if command -v reuse >/dev/null; then
	step licences licences
else
	cannot licences 'reuse is not installed'
fi
if command -v rpmspec >/dev/null; then
	step versions versions
else
	cannot versions 'rpm is not installed'
fi

step bare check bare --without-libev --without-verbs --without-valgrind \
	--without-sdt --without-libsodium --without-libuv --without-glib \
	--without-systemd --without-libfabric --without-nvme --without-ucx --disable-static
if command -v clang >/dev/null; then
	step clang compile_all clang CC=clang --disable-static
	[ $long = 1 ] && seconds=240 || seconds=12
	step fuzz fuzz $seconds
	step digests digests
else
	cannot clang 'it is not installed'
	cannot fuzz 'there is no clang'
	cannot digests 'there is no clang'
fi
if [ $long = 1 ]; then
	step debug check debug --enable-debug
	WEIR_BACKEND=uring step on-uring check on-uring
	WEIR_BACKEND=ev step on-ev check on-ev
fi
step asan check_asan
[ $long = 1 ] && n_calls=10000000 || n_calls=1000000
step calls calls $n_calls
[ $long = 1 ] && completions=50000000 || completions=5000000
if command -v clang-tidy >/dev/null && command -v cppcheck >/dev/null; then
	step analyse analyse
else
	cannot analyse 'clang-tidy or cppcheck is not installed'
fi
step sim simulate $completions
step tsan check_tsan tsan --enable-tsan --enable-debug --disable-static \
	${sanitized:+"$sanitized"}
step valgrind check_valgrind valgrind --disable-static
if [ -e "$src/.git" ]; then
	step mutations mutations
elif [ $long = 0 ]; then
	cannot mutations 'this is no git checkout'
fi
step helgrind helgrind
# in_guest NAME COMMAND...: a step that takes a guest.
in_guest()
{
	why=$(WEIR_VM_CACHE=$root/vm sh "$src/tests/vm/run" --check 2>&1)
	if [ $? = 77 ]; then
		cannot "$1" "${why##*prepare: }"
	else
		step "$@"
	fi
}

# Each of them keeps one core busy at most: in short form they run at once.
if [ $long = 1 ]; then
	in_guest rdma rdma 3600
	in_guest ublk guests ublk check-ublk interop/weir-ublk interop/power-cut
	in_guest vm guests vm check-vm programs/test-vm interop/weir-vhost
	in_guest rdma-report rdma_report
	step distcheck distcheck distcheck distcheck
else
	(
		failures=0
		in_guest rdma rdma 900
		exit $failures
	) &
	beside=$!
	step distcheck distcheck distcheck-tree distcheck
	in_guest ublk guests ublk check-ublk interop/weir-ublk interop/power-cut
	wait $beside || failures=$((failures + 1))
fi

if [ $long = 1 ]; then
	for release in bookworm trixie; do
		if command -v mmdebstrap >/dev/null && [ "$(id -u)" = 0 ] &&
		   unshare --mount --pid --fork true; then
			step packages-$release packages $release
		else
			cannot packages-$release 'it takes root, namespaces, mmdebstrap'
		fi
	done
fi

[ $failures = 0 ] && echo "all is well" || echo "$failures failed"

if [ "$report" ]; then
	{
		echo 'The long run: of each step its last run, with day and commit.'
		echo
		echo "command   make check-long${only:+" STEPS='$only'"}"
		echo "date      $(date -u +%Y-%m-%d)"
		echo "commit    $version"
		echo "kernel    $(uname -srm)"
		echo "cpu       $(sed -n 's/^model name.*: //p;T;q' \
			/proc/cpuinfo), $(nproc) online"
		echo "compiler  $(${CC:-cc} --version | head -n 1)"
		echo "liburing  $(pkg-config --modversion liburing)"
		echo
		cat "$lines"
		echo
		sed -n '/^What was found/,$p' "$report" 2>/dev/null
	} >"$report.new" && mv "$report.new" "$report" &&
		echo "The report is in $report"
fi
[ $failures = 0 ]
