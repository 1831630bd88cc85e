#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Run benchmarks from the build directory, one after the other, and show at the
# end which goals are met.
#
#	run.sh [--quick] [--json] [--reps N] [--dir DIR] [NAME...]
#
# NAME is nop, buf, bounce, copy, large, timer, pipe, echo, post, read,
# direct, register, sync, idle, cp; without any, all run.
# Tables go to stdout and the JSON lines to bench.json; with --json the lines go
# to stdout, too, and the tables to stderr.
set -eu

all='nop buf bounce copy large timer pipe echo post read direct register sync idle cp'
bin=${BENCH_BIN:-bench}
out=${BENCH_JSON:-bench.json}
names=
options=
json=no

usage()
{
	sed -n '4,12s/^# \{0,1\}//p' "$0"
}

while [ $# -gt 0 ]; do
	case $1 in
	--quick) options="$options --quick" ;;
	--json) json=yes ;;
	--reps | --dir | --noise | --only)
		[ $# -gt 1 ] || { usage >&2; exit 2; }
		options="$options $1 $2"
		shift ;;
	--help) usage; exit 0 ;;
	-*) usage >&2; exit 2 ;;
	*) names="$names ${1#bench-}" ;;
	esac
	shift
done

run_all()
{
	status=0
	echo "$(uname -sr), $(nproc) CPUs;" \
		"load average $(cut -d' ' -f1-3 /proc/loadavg)"
	for name in ${names:-$all}; do
		if [ ! -x "$bin/bench-$name" ]; then
			echo "bench-$name is not built in $bin" >&2
			status=1
			continue
		fi
		# shellcheck disable=SC2086
		"$bin/bench-$name" $options --json "$out" || status=1
	done
	goals
	return $status
}

# From the lines of JSON, which have one form; no parser needed.
goals()
{
	grep -q '"goal"' "$out" || return 0
	printf '\n%-56s %10s %10s  %s\n' Goal bound figure met
	sed -n 's/.*"goal":"\([^"]*\)".*"at_\([a-z]*\)":\([^,]*\),"figure":\([^,]*\),"met":\([a-z]*\).*/\1|\2|\3|\4|\5/p' \
		"$out" | while IFS='|' read -r text kind bound figure met; do
		case $kind in
		most) sign='<=' ;;
		*) sign='>=' ;;
		esac
		[ "$met" = true ] && met=yes || met=NO
		printf '%-56s %10s %10.3g  %s\n' "$text" "$sign $bound" \
			"$figure" "$met"
	done
}

: > "$out"
if [ $json = yes ]; then
	r=0
	run_all >&2 || r=1
	cat "$out"
	exit $r
fi
run_all
