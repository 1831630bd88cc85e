#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# In the guest: RDMA is there, between processes on one device and between the
# two ends, the link between these can be cut, and weir sees the devices.
#
# Environment: WEIR is the program; WEIR_RDMA_... as in guest.sh.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

[ "${WEIR_RDMA_DEVICE2:-}" ] || {
	echo '1..0 # SKIP no RDMA: this is for tests/vm/run --rdma2'
	exit 0
}
weir=$(absolute "${WEIR:-tools/weir}")
device=$WEIR_RDMA_DEVICE
device2=$WEIR_RDMA_DEVICE2
enter rdma-smoke

# ask CLIENT...: a server says in no way that it listens, so ask again.
ask()
{
	last=$(($(date +%s) + 60))
	until "$@" >client 2>&1; do
		[ "$(date +%s)" -lt "$last" ] && kill -0 "$server" 2>/dev/null || {
			wrong "no answer to: $*: $(tail -n 2 client)"
			kill "$server" 2>/dev/null
			break
		}
	done
}

until_ready()
{
	ask "$@"
	wait "$server" || wrong "the server failed: $(tail -n 2 server)"
}

# messages DEVICE [HOST]: 50 there and 50 back, of verified content.
messages()
{
	ibv_rc_pingpong -g "$WEIR_RDMA_GID" -n 50 -c -d "$@"
}

# pingpong SERVER'S-DEVICE CLIENT'S
pingpong()
{
	messages "$1" >server 2>&1 &
	server=$!
	until_ready messages "$2" 127.0.0.1
}

# rping FROM TO
rping_from_to()
{
	rping -s -a "$2" -C 5 -V >server 2>&1 &
	server=$!
	until_ready rping -c -I "$1" -a "$2" -C 5 -V
}

t_both_devices_are_listed()
{
	expect 0 ibv_devices
	shows "$device"
	shows "$device2"
}

t_the_gid_is_that_of_the_address()
{
	for dev in "$device $WEIR_RDMA_ADDRESS" \
	    "$device2 $WEIR_RDMA_ADDRESS2"; do
		expect 0 ibv_devinfo -v -d "${dev% *}"
		shows "GID\[ *$WEIR_RDMA_GID\]:.*::ffff:${dev#* },"
	done
}

t_weir_info_lists_the_devices_as_usable()
{
	expect 0 "$weir" info
	for name in "$device" "$device2"; do
		shows "^  $name  "
		! grep "^  $name .*not usable" out || wrong 'not as usable'
	done
}

# Of soft-RoCE: not to the processors, so there is no atomic-all.
t_weir_info_tells_what_they_can()
{
	expect 0 "$weir" info --json
	for name in window atomic srq; do
		shows "^        \"$name\""
	done
	! grep '"atomic-all"' out || wrong 'soft-RoCE is not that atomic'
	expect 0 "$weir" info
	shows "^  remote .*  $device"
}

t_weir_route_goes_to_a_peer()
{
	expect 0 "$weir" route system remote
	shows '^push: by verbs'
	expect 0 "$weir" route --kind fetch-add remote
	shows '^direct: by verbs'
}

t_two_processes_on_one_device() { pingpong "$device" "$device"; }
t_two_ends() { pingpong "$device" "$device2"; }

t_rping_between_the_ends()
{
	rping_from_to "$WEIR_RDMA_ADDRESS" "$WEIR_RDMA_ADDRESS2"
}

t_rping_between_the_ends_by_ipv6()
{
	rping_from_to "$WEIR_RDMA_ADDRESS_6" "$WEIR_RDMA_ADDRESS2_6"
}

packets() { cat "/sys/class/net/$WEIR_RDMA_NETDEV/statistics/tx_packets"; }

t_what_goes_between_the_ends_uses_the_link()
{
	before=$(packets)
	pingpong "$device" "$device2"
	[ $(($(packets) - before)) -ge 100 ] ||
		wrong "$(($(packets) - before)) packets for 100 messages"
}

dropped()
{
	tc -s qdisc show dev "$WEIR_RDMA_NETDEV" |
		sed -n 's/.*dropped \([0-9]*\).*/\1/p'
}

# The addresses are exchanged by another way, so it gets as far as that.
t_what_is_sent_while_the_link_is_cut_arrives_later()
{
	tc qdisc add dev "$WEIR_RDMA_NETDEV" root netem loss 100%
	messages "$device2" >server 2>&1 &
	server=$!
	ask messages "$device" 127.0.0.1 &
	client=$!
	tries=0
	until [ "$(dropped)" -gt 0 ] || [ $tries = 1000 ]; do
		tries=$((tries + 1))
	done
	[ "$(dropped)" -gt 0 ] || wrong 'nothing was sent'
	kill -0 $client 2>/dev/null || wrong 'it did not need the link'
	tc qdisc del dev "$WEIR_RDMA_NETDEV" root
	wait $client
	wait $server || wrong "the server failed: $(tail -n 2 server)"
	grep -q '50 iters' client || wrong "the client: $(tail -n 2 client)"
}

run t_both_devices_are_listed
run t_the_gid_is_that_of_the_address
run t_weir_info_lists_the_devices_as_usable
run t_weir_info_tells_what_they_can
run t_weir_route_goes_to_a_peer
run t_two_processes_on_one_device
run t_two_ends
run t_rping_between_the_ends
run t_rping_between_the_ends_by_ipv6
run t_what_goes_between_the_ends_uses_the_link
run t_what_is_sent_while_the_link_is_cut_arrives_later
echo "1..$n"
exit $bad
