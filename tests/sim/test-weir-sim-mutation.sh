#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Bugs on purpose (base/mutation.h): each is found within 1000 seeds, is made
# small, and can be had again; and without one the same seeds find nothing.
#
# Environment: WEIR_SIM_MUTATION is the program, WEIR_SIM_VERBS that for RDMA.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

sim=$(absolute "${WEIR_SIM_MUTATION:-tools/weir-sim-mutation}")
verbs=$(absolute "${WEIR_SIM_VERBS:-tools/weir-sim-verbs}")
[ -x "$sim" ] || {
	echo '1..0 # SKIP mutations are not built with a sanitizer'
	exit 0
}
sources=$(absolute "${srcdir:-$(dirname "$0")/../..}/.")
enter test-weir-sim-mutation

# with MUTATION COMMAND...: while it lives.  What a use of freed memory leads to must
# not depend on what the memory is filled with, or it is not the same twice.
with()
{
	mutation=$1
	shift
	env "WEIR_MUTATION=$mutation" MALLOC_PERTURB_=0 timeout 250 "$@"
}

# found MUTATION SCENARIO RULE [SEEDS]
found()
{
	expect 1 with "$1" "$sim" --seeds "${4:-1000}" --keep . "$2"
	says "'$3.*' does not hold"
	[ ! -s out ] || wrong "it told of a success, too: $(cat out)"
	again=$(sed -n 's/.*again: weir-sim-[a-z]* \(.*\) --trace$/\1/p' err)
	file=$(sed -n 's/.*kept in //p' err)
	[ "$again" ] && [ -s "$file" ] || {
		wrong "it does not say how to have it again: $(cat err)"
		return
	}
	rule=$(sed -n "s/.*event [0-9]*: \('.*'\) does not hold.*/\1/p" err)
	# shellcheck disable=SC2086 # Words.
	expect 1 with "$1" "$sim" --no-shrink $again
	says "$rule does not hold"
	expect 1 with "$1" "$sim" --no-shrink --file "$file"
	says "$rule does not hold"
	grep -q "^# $rule does not hold" "$file" ||
		wrong "the file does not say what: $(cat "$file")"
	# shellcheck disable=SC2086
	expect 0 "$sim" --quiet $again
	is_smaller "$2" "$again"
}

# is_smaller SCENARIO OPTIONS: than the first failure was.
is_smaller()
{
	all=$(with none "$sim" --json --seed 1 "$1" |
		grep -c '^        "[a-z]*": [0-9]')
	kinds=$(echo "$2" | sed 's/.*--faults //; s/none//' | tr ',' '\n' |
		grep -c .)
	[ "$kinds" -lt "$((all / 2))" ] || wrong "not made small: $2"
}

t_a_lost_completion()
{
	found lost_completion reactor 'progress once faults have stopped'
	# What is lost may be the last turn of a chain that has ended.
	found lost_completion chains ''
}

# What a deadline ends a second time is no more, as a rule.
t_a_double_completion() { found double_completion reactor ''; }
t_a_use_after_free() { found use_after_free reactor ''; }
t_a_lost_wakeup()
{
	found lost_wakeup pools 'no one waits while a buffer is free anywhere'
	found lost_wakeup cores 'nothing is late'
}
t_a_missed_flush() { found missed_flush chains 'progress once faults'; }
t_an_off_by_one_bound() { found off_by_one pools 'a range inside is taken'; }

t_a_revoke_that_does_not_wait()
{
	found early_revoke export 'nothing lands late' 10
}

t_mutations_of_rdma()
{
	[ -x "$verbs" ] || return
	runner=$sim
	sim=$verbs
	found lost_flush verbs 'progress once faults'
	# Another job's bytes, in the memory of either.
	found early_release verbs ''
	sim=$runner
}

t_each_mutation_there_is_has_a_test()
{
	names=$(grep -rhoE '[^_]mutation\([a-z_]+\)' "$sources/base" \
		"$sources/reactor" "$sources/mem" "$sources/dma" |
		sed 's/.*(//; s/)//' | grep -vx name | sort -u)
	[ "$(echo "$names" | wc -l)" -ge 6 ] || wrong "too few: $names"
	for name in $names; do
		grep -q "found $name " \
			"$sources/tests/sim/test-weir-sim-mutation.sh" ||
			wrong "$name has none"
	done
}

t_without_one_nothing_is_found()
{
	expect 0 timeout 250 "$sim" --seeds 1000 --jobs 2 reactor pools chains
	shows '^all  *3000 seeds'
	expect 0 with no_such_bug "$sim" --quiet --seeds 20 reactor
}

run t_a_lost_completion
run t_a_double_completion
run t_a_use_after_free
run t_a_lost_wakeup
run t_a_missed_flush
run t_an_off_by_one_bound
run t_a_revoke_that_does_not_wait
run t_mutations_of_rdma
run t_each_mutation_there_is_has_a_test
run t_without_one_nothing_is_found
echo "1..$n"
exit $bad
