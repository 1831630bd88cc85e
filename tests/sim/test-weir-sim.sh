#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The command `weir-sim`: what it is asked, what it tells, that it can be
# interrupted, that a run can be had again, and what has failed once.
#
# Environment: WEIR_SIM is the program.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

seeds=$(absolute "${srcdir:-$(dirname "$0")/../..}/tests/seeds/.")
sim=$(absolute "${WEIR_SIM:-tools/weir-sim}")
enter test-weir-sim

# Those that take some time, by default and for one scenario.
weir_sim() { timeout 250 "$sim" "$@"; }

scenarios() { "$sim" --list | sed '/^$/,$d' | cut -d' ' -f1; }

# digest FILE: those that it tells.
digest() { sed 's/.*digest \([0-9a-f]*\),.*/\1/' "$1"; }

# completions FILE
completions() { sed 's/.* \([0-9]*\) completions.*/\1/' "$1"; }

t_help_version_and_list()
{
	expect 0 "$sim" --help && shows '^Usage: weir-sim '
	expect 0 "$sim" --version && shows '^weir-sim (weir) [0-9]'
	expect 0 "$sim" --list && shows '^reactor  *[a-z]' && shows '^faults: '
}

t_each_option_is_in_the_help()
{
	for option in seed first seeds completions ops faults rate steady \
	    faults-max trace no-shrink jobs timeout keep state report json \
	    quiet list file; do
		expect 0 "$sim" --help && shows "^  --$option "
	done
}

t_wrong_command_lines()
{
	expect 2 "$sim" && says_only 'which scenario?'
	expect 2 "$sim" --file && says_only 'which file?'
	expect 2 "$sim" rector && says_only "no scenario 'rector'"
	expect 2 "$sim" reactor chians && says_only "no scenario 'chians'"
	[ ! -s out ] || wrong 'it ran one before it had read all'
	expect 2 "$sim" --sede 1 reactor && says_only 'no option --sede'
	expect 2 "$sim" -x reactor && says_only 'no option -x'
	expect 2 "$sim" reactor --seed && says_only 'value is missing'
	expect 2 "$sim" --json=yes reactor && says_only 'no option --json=yes'
	expect 2 "$sim" --trace reactor && says_only '--trace wants --seed'
	expect 2 "$sim" --trace --json --seed 1 reactor &&
		says_only 'do not go together'
}

t_wrong_values()
{
	for option in seed first seeds completions ops rate faults-max jobs \
	    timeout; do
		for value in x -1 1x 0x10 '' ' 1' 99999999999999999999; do
			expect 2 "$sim" "--$option" "$value" reactor
			says_only 'is no value for that option'
		done
	done
	for option in seeds completions ops rate faults-max jobs timeout; do
		expect 2 "$sim" "--$option" 0 reactor
		says_only '0 is no value'
	done
	for option in ops rate jobs timeout; do
		expect 2 "$sim" "--$option" 4294967296 reactor
		says_only '4294967296 is no value'
	done
	for value in gremlin short,gremlin 'short,' ,short all,short ''; do
		expect 2 "$sim" --faults "$value" reactor
		says_only 'is no value'
	done
}

t_a_number_may_be_the_largest()
{
	expect 0 "$sim" --quiet --seed 18446744073709551615 reactor
	expect 0 "$sim" --quiet --seed 0 reactor
}

t_quiet()
{
	expect 0 "$sim" --quiet --seeds 2 reactor
	[ ! -s out ] && [ ! -s err ] || wrong 'it was not'
}

t_what_it_tells()
{
	expect 0 "$sim" --seeds 3 reactor
	[ "$(wc -l <out)" = 1 ] || wrong "more than a line: $(cat out)"
	shows '^reactor  *3 seeds, [1-9][0-9]* completions, .* faults, '
	expect 0 "$sim" --seeds 3 reactor pools
	[ "$(wc -l <out)" = 3 ] || wrong "no sum: $(cat out)"
	shows '^all  *6 seeds, '
}

t_faults_are_those_asked_for()
{
	expect 0 "$sim" --seeds 20 --faults none reactor && shows ' 0 faults'
	expect 0 "$sim" --seeds 20 --steady --faults slow,full --rate 8 \
		--report report reactor
	for kind in slow full; do
		grep -q "^  $kind  *[1-9]" report || wrong "no $kind"
	done
	[ "$(grep -c '^  [a-z]* *[1-9]' report)" = 2 ] ||
		wrong "others: $(cat report)"
	expect 0 "$sim" --seed 1 --steady --rate 2 --faults-max 7 reactor
	shows ' 7 faults'
}

t_a_trace_is_of_one_seed()
{
	expect 0 "$sim" --seed 3 --trace reactor
	[ "$(wc -l <out)" -gt 50 ] || wrong "it is short: $(cat out)"
	cp out first
	expect 0 "$sim" --seed 3 --trace reactor
	sed -i '$d' out first # How long it took.
	cmp -s first out || wrong 'it is not the same again'
}

t_json()
{
	expect 0 "$sim" --json --seeds 3 all
	jq -e '.scenarios | length > 2' <out >checked ||
		wrong "no JSON: $(head -n 5 out)"
	jq -e '.scenarios[] | .seeds == 3 and .well and .rule == null and
		(.digest | length) == 16 and (.faults | length) > 10 and
		.completions > 0 and .events > 0' <out >checked ||
		wrong "not what it should be: $(cat out)"
	[ "$(jq -r '.scenarios[].scenario' <out)" = "$(scenarios)" ] ||
		wrong "not all of them: $(cat out)"
	[ ! -s err ] || wrong "it complained: $(cat err)"
}

t_a_report()
{
	expect 0 "$sim" --quiet --seeds 3 --report report reactor pools
	for row in 'date  *20' 'weir  *[0-9]' 'compiler  *[a-zA-Z]' \
	    'kernel  *Linux' 'jobs  *1' 'reactor  *3 ' 'pools  *3 ' \
	    'all  *6 ' 'faults by kind' '  stuck  *[0-9]'; do
		grep -q "^$row" report || wrong "no '$row': $(cat report)"
	done
	expect 0 "$sim" --quiet --seeds 3 --report report pools
	[ "$(grep -c ^date report)" = 1 ] || wrong 'it is not a new one'
}

t_a_report_that_cannot_be_written()
{
	expect 1 "$sim" --seeds 2 --report none/report reactor
	says_only 'none/report: No such file'
	[ ! -s out ] || wrong 'it ran, for nothing'
	expect 1 "$sim" --quiet --seeds 2 --report /dev/full reactor
	says_only '/dev/full: No space left'
}

t_output_that_cannot_be_written()
{
	for option in --json --list --help; do
		expect 1 sh -c '"$@" >/dev/full' - "$sim" --seeds 2 $option \
			reactor
		says_only 'standard output: No space left'
	done
}

t_a_seed_file()
{
	printf '# one\n\nreactor --seed 3 --ops 50 --rate 64 --steady' >seed
	printf ' --faults slow,full --faults-max 3\n' >>seed
	expect 0 "$sim" --file seed && shows '^reactor  *1 seeds'
	cp out first
	expect 0 "$sim" --seed 3 --ops 50 --rate 64 --steady --faults \
		slow,full --faults-max 3 reactor
	[ "$(digest first)" = "$(digest out)" ] ||
		wrong "not the same: $(cat first out)"
	echo 'reactor --seed 3 --faults none --trace' >seed
	expect 0 "$sim" --file seed seed && shows '^all  *2 seeds'
}

# senseless LINE CAUSE
senseless()
{
	printf '%b' "$1" >seed
	expect 2 "$sim" --file seed
	says_only "seed: $2"
}

t_a_senseless_seed_file()
{
	expect 2 "$sim" --file none && says_only 'none: No such file'
	expect 2 "$sim" --file . && says_only ' Is a directory'
	senseless '' 'there is nothing in it'
	senseless '# only\n\n' 'there is nothing in it'
	senseless 'rector --seed 3\n' 'there is no such scenario'
	senseless '--seed 3\n' 'there is no such scenario'
	for option in --sede --seed '--seed x' '--seed -1' '--ops 0' \
	    '--faults gremlin' '--seeds 3' '--rate 4294967296' 3; do
		senseless "reactor $option\n" 'an option in it makes no sense'
	done
	senseless 'reactor --seed 1\nreactor --seed 2\n' 'there is more than one line'
}

t_jobs_make_no_difference()
{
	expect 0 weir_sim --seeds 600 reactor && digest out >one
	expect 0 weir_sim --seeds 600 --jobs 2 reactor && digest out >two
	cmp -s one two || wrong "$(cat one), $(cat two)"
	expect 0 weir_sim --seeds 5 --jobs 100 reactor && shows ' 5 seeds'
	expect 0 weir_sim --completions 20000 reactor && digest out >one
	expect 0 weir_sim --completions 20000 --jobs 3 reactor &&
		digest out >two
	cmp -s one two || wrong "by completions: $(cat one), $(cat two)"
}

t_completions_are_shared()
{
	expect 0 weir_sim --completions 20000 --ops 30 reactor pools
	completions out >counts
	[ "$(sed -n 3p counts)" -ge 20000 ] || wrong "too few: $(cat out)"
	[ "$(sed -n 1p counts)" -lt 20000 ] || wrong "not shared: $(cat out)"
}

t_a_state_is_gone_on_with()
{
	expect 0 weir_sim --seeds 1300 --ops 40 reactor && digest out >whole
	expect 0 weir_sim --seeds 600 --ops 40 --state state reactor
	expect 0 weir_sim --seeds 1300 --ops 40 --state state reactor
	shows ' 1300 seeds'
	digest out | cmp -s whole || wrong "$(cat whole), $(digest out)"
	expect 0 weir_sim --seeds 1300 --ops 40 --state state reactor
	digest out | cmp -s whole || wrong 'nothing to do, and not the same'
	expect 0 weir_sim --seeds 20 --ops 40 --state state pools reactor
	expect 0 weir_sim --seeds 30 --ops 40 --state state pools
	[ "$(wc -l <state)" = 2 ] || wrong "not two: $(cat state)"
}

t_a_killed_run_is_gone_on_with()
{
	options='--completions 40000 --ops 20 --state state reactor'
	# shellcheck disable=SC2086 # Words.
	expect 0 weir_sim --completions 40000 --ops 20 reactor
	digest out >whole
	rm -f state
	# shellcheck disable=SC2086
	"$sim" $options >/dev/null 2>&1 &
	while [ ! -e state ] && kill -0 $!; do :; done
	kill -TERM $! 2>/dev/null
	wait $! && wrong 'it had ended before'
	# shellcheck disable=SC2086
	expect 0 weir_sim $options
	digest out | cmp -s whole || wrong "$(cat whole), $(digest out)"
}

t_a_state_of_something_else()
{
	rm -f state
	expect 0 "$sim" --quiet --seeds 2 --state state reactor
	for option in '--ops 50' '--first 2' '--faults none' '--steady' \
	    '--rate 50'; do
		# shellcheck disable=SC2086 # Words.
		expect 1 "$sim" --seeds 3 --state state $option reactor
		says_only 'state: it is of a run with other options'
	done
	echo 'My diary' >state
	expect 1 "$sim" --seeds 2 --state state reactor
	says_only 'state: this is no state of a run'
	[ "$(cat state)" = 'My diary' ] || wrong 'it was written to'
	expect 1 "$sim" --seeds 2 --state none/state reactor
	says_only 'none/state: No such file'
}

# first_child OPTION...: begin a run that goes on for long; $parent is its number
# and $child that of a process of it.  What libtool wraps is a shell at first.
first_child()
{
	child=
	"$sim" --seeds 256 "$@" reactor >out 2>err &
	parent=$!
	until case $(readlink "/proc/$parent/exe") in
	*weir-sim) ;;
	*) false ;;
	esac do kill -0 "$parent" || return; done
	while [ -z "$child" ]; do
		read -r child _ <"/proc/$parent/task/$parent/children" ||
			kill -0 "$parent" || return
	done
}

# ends_badly: wait for it.
ends_badly()
{
	status=0
	wait "$parent" || status=$?
	[ "$status" = 1 ] || wrong "status $status: $(cat out err)"
	[ ! -e "/proc/$child" ] || wrong "process $child is left"
}

# struck SIGNAL: give it to a child.
struck()
{
	first_child --timeout 1 --no-shrink --ops 1000000
	kill "-$1" "$child"
	ends_badly
}

t_a_crash_is_a_result()
{
	# A sanitizer makes an exit of SEGV.
	struck ABRT && says "'killed by signal 6' does not hold"
	says 'again: weir-sim reactor --seed 1 '
	struck KILL && says "'killed by signal 9' does not hold"
}

t_a_hang_is_a_result() { struck STOP && says "'hang' does not hold"; }

t_what_has_a_real_cause_is_said_so()
{
	first_child --ops 20000
	kill -KILL "$child"
	ends_badly
	says 'it did not happen a second time'
}

# Each scenario, so that what is not the same can be told.
t_two_runs_are_the_same()
{
	for scenario in $(scenarios); do
		expect 0 weir_sim --seeds 200 "$scenario" && digest out >one
		expect 0 weir_sim --seeds 200 "$scenario" && digest out >two
		cmp -s one two || wrong "$scenario: $(cat one), $(cat two)"
	done
}

t_what_failed_once_does_no_more()
{
	expect 0 weir_sim --file "$seeds"/*.seed
	for file in "$seeds"/*.seed; do
		grep -q '^# ' "$file" || wrong "$file: what was it?"
	done
}

t_long()
{
	expect 0 timeout 2500 "$sim" --seeds 2000 --jobs 2 all
}

no_jq=
command -v jq >/dev/null || no_jq='no jq'
no_children=
[ -r /proc/self/task/self/children ] || [ -r "/proc/$$/task/$$/children" ] ||
	no_children='a process does not tell its children here'
short=
[ "${WEIR_TEST_LONG:-0}" = 1 ] || short='with WEIR_TEST_LONG=1 only'

run t_help_version_and_list
run t_each_option_is_in_the_help
run t_wrong_command_lines
run t_wrong_values
run t_a_number_may_be_the_largest
run t_quiet
run t_what_it_tells
run t_faults_are_those_asked_for
run t_a_trace_is_of_one_seed
run t_json "$no_jq"
run t_a_report
run t_a_report_that_cannot_be_written
run t_output_that_cannot_be_written
run t_a_seed_file
run t_a_senseless_seed_file
run t_jobs_make_no_difference
run t_completions_are_shared
run t_a_state_is_gone_on_with
run t_a_killed_run_is_gone_on_with
run t_a_state_of_something_else
run t_a_crash_is_a_result "$no_children"
run t_a_hang_is_a_result "$no_children"
run t_what_has_a_real_cause_is_said_so "$no_children"
run t_two_runs_are_the_same
run t_what_failed_once_does_no_more
run t_long "$short"
echo "1..$n"
exit $bad
