#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# <weir/sim/runner.h>, from outside: programs with scenarios of their own, which
# pass, fail, crash and hang.  test-weir-sim.sh has the options.
#
# Environment: SCENARIOS is the program of failing scenarios, EXAMPLES the folder
# of the examples.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

program=$(absolute "${SCENARIOS:-tests/sim/runner-scenarios}")
examples=$(absolute "${EXAMPLES:-examples}/.")
enter test-runner

scenarios() { timeout 100 "$program" "$@"; }

# rule RULE: it was broken, and by nothing from outside.
rule()
{
	says "'$1' does not hold"
	! grep -q 'a second time' err || wrong "not again: $(cat err)"
}

t_program_has_its_own_name_and_scenarios()
{
	expect 0 scenarios --help && shows '^Usage: runner-scenarios \[OPTION'
	expect 0 scenarios --version && shows '^runner-scenarios (weir) [0-9]'
	expect 0 scenarios --list && shows '^late  *what late does$'
	expect 2 scenarios && says_only 'runner-scenarios: which scenario?'
	expect 2 scenarios reactor && says_only "no scenario 'reactor'"
}

# bug NAME RULE: some seed of 200 finds it, and one faulty host is enough.
bug()
{
	expect 1 timeout 100 "$examples/23-replicated-log" --seeds 200 "$1"
	rule "$2"
	says "again: 23-replicated-log $1 .* --hosts [ab] --faults "
}

t_bugs_of_the_replicated_log_are_found_and_shrunk_to_one_host()
{
	bug early-ack '.*'
	bug torn 'the log is whole'
	bug twice 'a record is in the log once'
	bug no-directory '.*'
	bug sync-again '.*'
}

t_replicated_log_bears_all_faults()
{
	expect 0 timeout 100 "$examples/23-replicated-log" --seeds 200 log
	shows '^log  *200 seeds'
	cp out first
	expect 0 timeout 100 "$examples/23-replicated-log" --seeds 200 log
	[ "$(sed 's/, [^,]*$//' first)" = "$(sed 's/, [^,]*$//' out)" ] ||
		wrong "two runs differ"
}

t_program_of_one_scenario_need_not_be_told_its_name()
{
	expect 0 "$examples/35-scenario" --seeds 3
	shows '^counter  *3 seeds'
	expect 0 "$examples/35-scenario" --seeds 3 counter
	shows '^counter  *3 seeds'
}

t_scenario_passes_and_is_counted()
{
	expect 0 scenarios --seeds 4 --ops 9 well argument
	shows '^well  *4 seeds, .* 36 bytes verified'
	shows '^all  *8 seeds'
}

t_failure_is_shrunk_to_the_fewest_operations()
{
	expect 1 scenarios often && rule 'fewer than seven'
	says 'again: runner-scenarios often --seed 1 --ops 7 --faults none '
	expect 1 scenarios --no-shrink often
	says 'again: runner-scenarios often --seed 1 --ops 50 --faults short,'
}

t_failure_is_shrunk_to_the_kind_of_fault_that_it_needs()
{
	expect 1 scenarios --quiet --keep . late && rule 'in time'
	says 'again: runner-scenarios late .* --faults slow '
	# What was kept fails again, and not if its fault is left out.
	expect 1 scenarios --file late-*.seed && rule 'in time'
	sed 's/ --faults [a-z,]*/ --faults none/' late-*.seed >mended
	expect 0 scenarios --file mended
}

t_failure_is_told_as_json()
{
	expect 1 scenarios --json often
	jq -e '.scenarios[0] | .well == false and .scenario == "often" and
		.rule == "fewer than seven" and .text == "7 \"quoted\"\n" and
		.again == "often --seed 1 --ops 7 --faults none"' <out >said ||
		wrong "it is: $(cat out)"
}

t_crash_hang_and_exit_are_failures_of_their_seeds()
{
	expect 1 scenarios --jobs 2 crash && rule 'killed by signal 9'
	says 'again: runner-scenarios crash --seed 5 '
	expect 1 scenarios --timeout 1 hang && rule hang
	says 'again: runner-scenarios hang --seed 3 '
	expect 1 scenarios quit && rule 'exit status 9'
	says 'again: runner-scenarios quit --seed 2 '
}

t_reactor_that_is_left_is_a_failure()
{
	expect 1 scenarios leak && rule 'nothing is left'
}

t_violation_outside_a_scenario_aborts()
{
	expect 134 "$program" violate
	says "'a rule' does not hold: outside"
}

t_scenarios_that_make_no_sense_are_refused()
{
	for i in 0 1 2 3 4 5 6 7; do
		expect 2 scenarios refuse $i
		says_only 'runner-scenarios: weir_sim_main: '
	done
}

t_trace_has_the_notes_of_the_program()
{
	expect 0 "$examples/35-scenario" --seed 3 --trace
	shows '^[0-9.]* number [0-9]'
	shows "power cut: 'a/'"
}

t_example_finds_a_missing_fsync()
{
	expect 1 "$examples/35-without-fsync" --keep .
	rule 'an acknowledged number is kept'
	says '35-without-fsync: again: .* --faults none '
	expect 0 "$examples/35-scenario" --file counter-*.seed
}

no_jq=
command -v jq >/dev/null || no_jq='no jq'

run t_program_has_its_own_name_and_scenarios
run t_program_of_one_scenario_need_not_be_told_its_name
run t_scenario_passes_and_is_counted
run t_failure_is_shrunk_to_the_fewest_operations
run t_failure_is_shrunk_to_the_kind_of_fault_that_it_needs
run t_failure_is_told_as_json "$no_jq"
run t_crash_hang_and_exit_are_failures_of_their_seeds
run t_reactor_that_is_left_is_a_failure
run t_violation_outside_a_scenario_aborts
run t_scenarios_that_make_no_sense_are_refused
run t_trace_has_the_notes_of_the_program
run t_example_finds_a_missing_fsync
run t_replicated_log_bears_all_faults
run t_bugs_of_the_replicated_log_are_found_and_shrunk_to_one_host
echo "1..$n"
exit $bad
