#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# In the guest: weir-rping with rping at the other end, either way round, and
# with itself; the bytes are verified.  And what it says when that goes wrong.
#
# Environment: WEIR_RPING is the program; WEIR_RDMA_... as in guest.sh.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

[ "${WEIR_RDMA_DEVICE2:-}" ] || {
	echo '1..0 # SKIP no RDMA: this is for tests/vm/run --rdma2'
	exit 0
}
weir=$(absolute "${WEIR_RPING:-programs/weir-rping/weir-rping}")
here=$WEIR_RDMA_ADDRESS
there=$WEIR_RDMA_ADDRESS2
enter weir-rping

# serve PROGRAM OPTIONS...
serve()
{
	program=$1
	shift
	"$program" -s "$@" >server 2>server.err &
	server=$!
}

# ask PROGRAM OPTIONS...: a server does not always say that it listens, and the first
# start of a program takes seconds in the guest.
ask()
{
	program=$1
	shift
	last=$(($(date +%s) + 60))
	until "$program" -c "$@" >out 2>err; do
		[ "$(date +%s)" -lt "$last" ] && kill -0 "$server" 2>/dev/null || {
			wrong "no answer: $(tail -n 2 err server.err)"
			kill "$server" 2>/dev/null
			break
		}
	done
}

# ended STATUS [PATTERN]: the server has, saying that and nothing else.
ended()
{
	status=0
	wait "$server" || status=$?
	[ "$status" = "$1" ] ||
		wrong "the server's status is $status: $(cat server.err)"
	[ -z "${2:-}" ] || cp server.err err
	[ -z "${2:-}" ] || says_only "$2"
}

# both SERVER CLIENT SIZES: pings, verified and shown by both.
both()
{
	for size in $3; do
		serve "$1" -a "$there" -v -V -S "$size"
		ask "$2" -I "$here" -a "$there" -v -V -C 3 -S "$size"
		ended 0
		[ "$(grep -c '^ping data: rdma-ping-' out)" = 3 ] ||
			wrong "not 3 pings: $(cut -c 1-60 out)"
		sed -n 's/^server //p' server | cmp -s - out ||
			wrong "the server had other bytes at size $size"
	done
}

t_an_rping_client_and_a_weir_server() { both "$weir" rping '64 65535'; }
t_a_weir_client_and_an_rping_server() { both rping "$weir" '64 65535'; }
t_a_weir_client_and_a_weir_server() { both "$weir" "$weir" 1000; }

t_by_ipv6()
{
	serve "$weir" -a "$WEIR_RDMA_ADDRESS2_6" -V
	ask "$weir" -I "$WEIR_RDMA_ADDRESS_6" -a "$WEIR_RDMA_ADDRESS2_6" \
		-C 3 -V
	ended 0
}

t_a_server_without_an_address_is_on_all()
{
	serve "$weir" -p 7199 -V
	ask rping -I "$here" -a "$there" -p 7199 -C 3 -V
	ended 0
}

t_many_clients_are_served_at_a_time()
{
	serve "$weir" -P -V -v
	becomes server waiting
	clients=
	for i in 1 2 3; do
		"$weir" -c -I "$here" -a "$there" -C 30 -V >"out$i" 2>&1 &
		clients="$clients $!"
	done
	ask rping -I "$here" -a "$there" -C 5 -V
	for client in $clients; do
		wait "$client" || wrong "a client: $(cat out1 out2 out3)"
	done
	kill "$server"
	ended 0
	[ "$(grep -c rdma-ping server)" = 95 ] || wrong 'not 95 pings'
}

t_where_nobody_listens()
{
	expect 1 "$weir" -c -I "$here" -a "$there" -p 7198 -C 1
	says_only 'refused'
}

t_a_server_that_is_killed()
{
	serve "$weir" -a "$there" -v
	becomes server waiting
	"$weir" -c -I "$here" -a "$there" >out 2>err &
	client=$!
	becomes server rdma-ping-5
	kill -KILL "$server"
	status=0
	wait $client || status=$?
	[ $status = 1 ] || wrong "status $status"
	says_only 'the server has gone\|does not take our message'
	wait "$server" 2>/dev/null
}

# kill_client: the server has ended, and $status is its.
kill_client()
{
	serve "$weir" -a "$there" -v
	becomes server waiting
	rping -c -I "$here" -a "$there" -S 65535 >out 2>&1 &
	client=$!
	becomes server rdma-ping-2
	kill -KILL "$client"
	wait "$client" 2>/dev/null
	status=0
	wait "$server" || status=$?
	cp server.err err
}

# Between two pings it may go, and that is mostly not when it is killed.
t_a_client_that_is_killed()
{
	kills=0
	kill_client
	until [ "$status" = 1 ] || [ "$kills" = 6 ]; do
		kills=$((kills + 1))
		[ "$status" = 0 ] && [ ! -s err ] ||
			wrong "status $status: $(cat err)"
		kill_client
	done
	[ "$status" = 1 ] || wrong "status $status after $kills kills"
	says_only 'a client has gone\|cannot be\|does not take our message'
}

t_a_ping_larger_than_the_server_takes()
{
	serve "$weir" -a "$there" -S 100 -v
	becomes server waiting
	expect 1 "$weir" -c -I "$here" -a "$there" -S 101 -C 1
	says_only 'the server has gone'
	ended 1 'has 101 bytes, and at most 100'
}

run t_an_rping_client_and_a_weir_server
run t_a_weir_client_and_an_rping_server
run t_a_weir_client_and_a_weir_server
run t_by_ipv6
run t_a_server_without_an_address_is_on_all
run t_many_clients_are_served_at_a_time
run t_where_nobody_listens
run t_a_server_that_is_killed
run t_a_client_that_is_killed
run t_a_ping_larger_than_the_server_takes
echo "1..$n"
exit $bad
