#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weir-nbd, weir-vhost, weir-ublk and weir-proxy in simulated worlds, as they are: what they
# promise holds through kills and power cuts of their hosts, and partitions.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

nbd=$(absolute tests/programs/worlds-nbd)
vhost=$(absolute tests/programs/worlds-vhost)
ublk=$(absolute tests/programs/worlds-ublk)
proxy=$(absolute tests/programs/worlds-proxy)
enter test-worlds

# Thirty cuts each.
seeds=300
[ "${WEIR_TEST_LONG:-0}" = 0 ] || seeds=3500

# world PROGRAM
world() { expect 0 timeout 1000 "$1" --seeds "$seeds" --jobs 2; }

t_nbd_keeps_what_it_acknowledged() { world "$nbd"; }
t_vhost_keeps_what_it_acknowledged() { world "$vhost"; }
t_ublk_keeps_what_it_acknowledged() { world "$ublk"; }
t_proxy_passes_on_all_or_a_reset() { world "$proxy"; }

t_without_faults_nothing_but_cuts_happens()
{
	for program in "$nbd" "$vhost" "$ublk" "$proxy"; do
		expect 0 timeout 1000 "$program" --faults none --seeds 50
		shows ' 0 faults,'
	done
}

t_a_seed_is_a_run()
{
	for program in "$nbd" "$vhost" "$ublk" "$proxy"; do
		expect 0 timeout 100 "$program" --seeds 20
		sed 's/, [^,]*$//' out >first
		expect 0 timeout 100 "$program" --seeds 20 --jobs 4
		sed 's/, [^,]*$//' out | cmp -s - first ||
			wrong "$program: it is another one"
	done
}

run t_nbd_keeps_what_it_acknowledged
run t_vhost_keeps_what_it_acknowledged
run t_ublk_keeps_what_it_acknowledged
run t_proxy_passes_on_all_or_a_reset
run t_without_faults_nothing_but_cuts_happens
run t_a_seed_is_a_run
echo "1..$n"
exit $bad
