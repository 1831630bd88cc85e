#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What stands between a test and automake (build-aux/tap-run.sh).
# shellcheck disable=SC2317 # run() calls functions by their names.
# shellcheck disable=SC2016 # Other shells expand these.
. "${srcdir:-.}/tests/support/fixture.sh"
tap_run=$(absolute "${srcdir:-.}/build-aux/tap-run.sh")
enter check-tap-run

# runs STATUS SCRIPT
runs() { expect "$1" sh "$tap_run" sh -c "$2"; }

# What ends has left no more than its entry, until its parent asks for it.
has_ended()
{
	! state=$(sed -n 's/^State:[^A-Z]*//p' "/proc/$1/status" 2>/dev/null) ||
		case $state in ''|[ZX]*) true ;; *) false ;; esac
}

t_process_that_a_test_leaves_ends_with_it()
{
	runs 0 'sleep 1000 & echo $! >left; echo not ok 1'
	shows '^not ok 1'
	while ! has_ended "$(cat left)"; do
		sleep 0.1
	done
}

t_status_counts_if_nothing_was_reported()
{
	runs 3 'echo ok 1; exit 3'
	runs 0 'echo not ok 1; exit 3'
	runs 0 'echo "1..0 # SKIP no card"; exit 77'
}

t_death_by_a_signal_counts()
{
	runs 134 'echo not ok 1; kill -ABRT $$'
}

t_skip_of_cmocka_is_no_failure()
{
	runs 0 'echo "not ok 3 # SKIP"'
	shows '^ok 3 # SKIP'
}

t_arguments_and_signals_are_passed_on()
{
	expect 0 sh "$tap_run" sh -c '[ "$1" = "a  b" ] && [ "$2" = "" ]' sh \
		'a  b' ''
	# None is ignored that was not.
	runs 130 'kill -INT $$'
}

run t_process_that_a_test_leaves_ends_with_it
run t_status_counts_if_nothing_was_reported
run t_death_by_a_signal_counts
run t_skip_of_cmocka_is_no_failure
run t_arguments_and_signals_are_passed_on
echo "1..$n"
exit $bad
