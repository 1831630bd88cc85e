#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What CI takes for passed (build-aux/judge.sh): a skip that is not on the list
# fails, and so do too few tests.
. "${srcdir:-.}/tests/support/fixture.sh"
judge=$(absolute "${srcdir:-.}/build-aux/judge.sh")
real=$(absolute "${srcdir:-.}/tests/skips.txt")
enter check-judge

cat >list <<'END'
# A list.
skip a|b :: tests/one :: .*no card is here
least a 2
END
mkdir results
printf ':test-result: PASS\n:test-result: PASS\n:test-result: SKIP\n' \
	>results/one.trs

# skipped LINE...: what the log of the test has.
skipped() { printf '%s\n' "$@" >results/one.log; }

t_listed_skip_is_accepted()
{
	skipped 'SKIP: tests/one 3 - uring: cards # SKIP no card is here'
	expect 0 sh "$judge" list a results
}

t_skip_for_another_reason_fails()
{
	skipped 'SKIP: tests/one 3 - uring: cards # SKIP there is no clang'
	expect 1 sh "$judge" list a results
	shows 'not on the list: tests/one: .*no clang'
}

t_skip_of_another_program_fails()
{
	skipped 'SKIP: tests/two 3 - cards # SKIP no card is here'
	expect 1 sh "$judge" list a results
}

t_skip_in_another_step_fails()
{
	skipped 'SKIP: tests/one 3 - cards # SKIP no card is here'
	expect 1 sh "$judge" list c results
}

t_too_few_passed_tests_fail()
{
	skipped
	echo 'least b 3' >>list
	expect 1 sh "$judge" list b results
	shows '2 tests passed, at least 3'
}

t_list_of_ci_is_well_formed()
{
	expect 0 sh "$judge" "$real" no-step results
}

run t_listed_skip_is_accepted
run t_skip_for_another_reason_fails
run t_skip_of_another_program_fails
run t_skip_in_another_step_fails
run t_too_few_passed_tests_fail
run t_list_of_ci_is_well_formed
echo "1..$n"
exit $bad
