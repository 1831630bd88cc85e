#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weir-nbd and weir-proxy in simulated worlds, as they are: what they promise holds
# through kills and power cuts of their hosts, and partitions.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

nbd=$(absolute tests/programs/worlds-nbd)
proxy=$(absolute tests/programs/worlds-proxy)
enter test-worlds

# Thirty cuts each.
seeds=300
[ "${WEIR_TEST_LONG:-0}" = 0 ] || seeds=3500

t_nbd_keeps_what_it_acknowledged()
{
	expect 0 timeout 1000 "$nbd" --seeds "$seeds" --jobs 2
}

t_proxy_passes_on_all_or_a_reset()
{
	expect 0 timeout 1000 "$proxy" --seeds "$seeds" --jobs 2
}

t_without_faults_nothing_but_cuts_happens()
{
	expect 0 timeout 1000 "$nbd" --faults none --seeds 50
	shows ' 0 faults,'
	expect 0 timeout 1000 "$proxy" --faults none --seeds 50
	shows ' 0 faults,'
}

t_a_seed_is_a_run()
{
	for program in "$nbd" "$proxy"; do
		expect 0 timeout 100 "$program" --seeds 20
		sed 's/, [^,]*$//' out >first
		expect 0 timeout 100 "$program" --seeds 20 --jobs 4
		sed 's/, [^,]*$//' out | cmp -s - first ||
			wrong "$program: it is another one"
	done
}

run t_nbd_keeps_what_it_acknowledged
run t_proxy_passes_on_all_or_a_reset
run t_without_faults_nothing_but_cuts_happens
run t_a_seed_is_a_run
echo "1..$n"
exit $bad
