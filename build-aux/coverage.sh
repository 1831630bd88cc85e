#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# coverage.sh SRCDIR DIR [TEST...]: build with --coverage in DIR, run the tests in
# reduced form, and print the lines of each folder and of each file that ran, and
# in which files some never did.  DIR/lines has every line that never ran.
#
# With TESTs (tests/reactor/test-op) only these are run.  What a process has run is
# lost if a signal or _exit() ends it, so code that only children run seems never
# to have run.  Tests that refuse memory to a program fail here, for gcov's own
# code is not made for that.
set -u
[ $# -ge 2 ] || {
	echo 'usage: coverage.sh SRCDIR DIR [TEST...]' >&2
	exit 2
}
mkdir -p "$2" || exit 1
src=$(cd "$1" && pwd) && dir=$(cd "$2" && pwd) || exit 1
shift 2
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
jobs=$(($(nproc) + 1))

cd "$dir" || exit 1
[ -f Makefile ] || "$src/configure" --disable-static \
	CFLAGS='-Og -g --coverage -fprofile-update=prefer-atomic' \
	CXXFLAGS='-Og -g --coverage -fprofile-update=prefer-atomic' \
	>configure.log 2>&1 || exit 1
if [ $# = 0 ]; then
	make -j "$jobs" all pkglibexec_PROGRAMS= >make.log 2>&1 || exit 1
	find . -name '*.gcda' -exec rm -f {} +
	WEIR_MODELS=0 make -j "$jobs" check pkglibexec_PROGRAMS= >check.log 2>&1 ||
		echo "some tests have failed: see $dir/check.log"
else
	make -j "$jobs" libweir.la "$@" >make.log 2>&1 || exit 1
	find . -name '*.gcda' -exec rm -f {} +
	make check-TESTS check_PROGRAMS= check_LTLIBRARIES= check_LIBRARIES= \
		TESTS="$*" >check.log 2>&1 ||
		echo "some tests have failed: see $dir/check.log"
fi

# A source is in several libraries: a line ran if it did in one of them.
find base reactor mem dma rdma sim tools programs -name '*.gcno' \
	-exec gcov -t {} + 2>/dev/null |
	LC_ALL=C awk -F: -v src="$src/" '
	$2 ~ /^ *0$/ && $3 == "Source" {
		file = $4
		if (index(file, src) == 1)
			file = substr(file, length(src) + 1)
		while (sub(/^\.\.\//, "", file) || sub(/^\.\//, "", file))
			;
		ours = file !~ /^\// && file !~ /^(tests|include)\//
		next
	}
	!ours { next }
	{
		text = $0
		sub(/^[^:]*:[^:]*:/, "", text)
		gsub(/ /, "", $1)
		n = $2 + 0
		if ($1 == "-" || !n)
			next
		at = file ":" n
		if (!(at in ran)) {
			lines[file]++
			ran[at] = 0
			what[at] = text
		}
		if ($1 !~ /^[#=]/ && !ran[at]) {
			ran[at] = 1
			done[file]++
		}
	}
	END {
		for (at in ran)
			if (!ran[at])
				print at ": " what[at] >"lines.new"
		for (file in lines) {
			folder = file
			sub(/\/[^\/]*$/, "", folder)
			all[folder] += lines[file]
			did[folder] += done[file]
			total += lines[file]
			total_did += done[file]
			if (lines[file] != done[file])
				printf "2 %-36s %6d of %6d lines never ran\n",
					file, lines[file] - done[file],
					lines[file] | "sort"
		}
		for (folder in all)
			printf "1 %-36s %6d of %6d lines ran, %5.1f %%\n",
				folder, did[folder], all[folder],
				100 * did[folder] / all[folder] | "sort"
		if (total)
			printf "3 %-36s %6d of %6d lines ran, %5.1f %%\n",
				"all", total_did, total,
				100 * total_did / total | "sort"
	}' | cut -c 3-
[ ! -f lines.new ] || {
	sort -t : -k 1,1 -k 2,2n lines.new >lines
	rm lines.new
	echo "Every line that never ran is in $dir/lines"
}
