#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The examples that have weir-nbd's server inside serve as weir-nbd does: its
# own tests are run on them, all with WEIR_TEST_LONG=1, and others' clients.
# shellcheck disable=SC2317,SC2329 # Each t_ function is called by run.
# shellcheck source=tests/support/fixture.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"
build=$(pwd)
enter test-nbd-embedded

# passes TEST [FILTER]: one of weir-nbd's, over both backends.
passes()
{
	[ "${WEIR_TEST_LONG:-0}" = 1 ] && set -- "$1"
	(
		cd "$build" || exit 1
		WEIR_NBD=$program CMOCKA_MESSAGE_OUTPUT=STDOUT \
			WEIR_TEST_FILTER=${2:-*} "tests/programs/$1" 2>&1
	) >out || wrong "$1: $(grep -v ' OK \| RUN ' out)"
}

t_it_serves()
{
	passes test-weir-nbd
}

t_it_shakes_hands()
{
	passes test-weir-nbd-hello '*old?way*'
}

t_it_stops_in_order_and_bears_what_clients_do()
{
	passes test-weir-nbd-hostile '*it?stops*'
}

t_others_clients_are_served()
{
	rm -f file listening
	truncate -s 16M file
	"$program" --unix=socket --export=path=file >listening &
	server=$!
	until [ -s listening ]; do
		kill -0 "$server" || return
		sleep 0.01
	done
	url="nbd+unix:///?socket=$dir/socket"
	expect 0 nbdinfo --size "$url"
	shows '^16777216$'
	expect 0 qemu-io -f raw -c 'write -P 7 4096 1M' \
		-c 'read -P 7 8192 64k' -c 'read -P 0 2M 64k' "$url"
	kill "$server"
	wait "$server" || wrong "the server's status is $?"
	[ "$(tr -d '\0' <file | wc -c)" = 1048576 ] || wrong 'not in the file'
}

lacks=
for client in nbdinfo qemu-io; do
	command -v $client >out || lacks="there is no $client"
done
for backend in 27-nbd-in-libev 28-nbd-in-glib; do
	program=$build/examples/$backend
	[ -x "$program" ] || none="built without ${backend##*-}"
	[ -x "$build/tests/programs/test-weir-nbd" ] || none='built without cmocka'
	for t in t_it_serves t_it_shakes_hands \
		 t_it_stops_in_order_and_bears_what_clients_do; do
		run $t "${none:-}"
	done
	run t_others_clients_are_served "${none:-$lacks}"
	none=
done
echo "1..$n"
exit $bad
