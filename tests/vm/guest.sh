#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# guest.sh none|one|two MODULES COMMAND...: inside the guest, load modules, set
# up RDMA, and become COMMAND.  What tests want to know is in the environment:
#
#   WEIR_TEST_IN_GUEST
#	1: the clock, say, may be set
#   WEIR_RDMA_DEVICE, WEIR_RDMA_NETDEV, WEIR_RDMA_ADDRESS, WEIR_RDMA_ADDRESS_6
#	the device, the interface it is on, and its addresses
#   WEIR_RDMA_DEVICE2, ...
#	the same of the other end, with `two`
#   WEIR_RDMA_GID
#	the index of the GID that stands for the IPv4 address, on both
set -u
PATH=$PATH:/usr/sbin:/sbin
WEIR_TEST_IN_GUEST=1
export PATH WEIR_TEST_IN_GUEST

failed()
{
	echo "guest.sh: $*" >&2
	exit 125
}

# rxe asks for crc32 by name, and gets ENOENT where nothing has loaded it.
load_modules()
{
	# shellcheck disable=SC2086 # A list.
	[ -z "${1# }" ] || modprobe -a $1 ||
		failed "modules cannot be loaded: $1"
}

# Two processes on one device talk through it as two hosts would.
one()
{
	ip -batch - <<-END &&
		link add rdma0 type dummy
		address add 10.77.0.1/24 dev rdma0
		address add fd77::1/64 dev rdma0 nodad
		link set rdma0 up
	END
		rdma link add rxe0 type rxe netdev rdma0 ||
		failed 'the device could not be made'
}

# Both ends of a cable in one machine: by itself the kernel would never send to
# an address of its own over a cable.  So the question whose address it is
# comes after the rules by which all that is sent from one end goes to the
# other.  (A network namespace for each would be the obvious way, but rxe
# receives in the first one only, up to 6.12 at least.)
two()
{
	ip -batch - <<-END || failed 'the two ends could not be made'
		link add rdma0 type veth peer name rdma1
		address add 10.77.0.1/32 dev rdma0
		address add 10.77.1.1/32 dev rdma1
	END
	for name in rdma0 rdma1; do
		at=/proc/sys/net/ipv4/conf/$name
		echo 1 >$at/accept_local
		echo 1 >$at/arp_announce
		echo 1 >$at/arp_ignore
		echo 0 >$at/rp_filter
	done
	echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
	for family in -4 -6; do
		ip $family -batch - <<-END || failed 'rules are refused'
			rule add pref 5 oif rdma0 lookup 100
			rule add pref 6 oif rdma1 lookup 101
			rule add pref 50 lookup local
			rule del pref 0
		END
	done
	ip -batch - <<-END &&
		address add fd77::1/128 dev rdma0 nodad
		address add fd77:1::1/128 dev rdma1 nodad
		link set rdma0 up
		link set rdma1 up
		route add 10.77.1.1 dev rdma0 src 10.77.0.1 table 100
		route add 10.77.0.1 dev rdma1 src 10.77.1.1 table 101
		route add fd77:1::1 dev rdma0 src fd77::1 table 100
		route add fd77::1 dev rdma1 src fd77:1::1 table 101
	END
		rdma link add rxe0 type rxe netdev rdma0 &&
		rdma link add rxe1 type rxe netdev rdma1 ||
		failed 'the two devices could not be made'
	export WEIR_RDMA_DEVICE2=rxe1 WEIR_RDMA_NETDEV2=rdma1 \
		WEIR_RDMA_ADDRESS2=10.77.1.1 WEIR_RDMA_ADDRESS2_6=fd77:1::1
}

rdma_modules='crc32_generic rdma_rxe rdma_ucm'
case $1 in
none) load_modules "$2" ;;
one) load_modules "$rdma_modules dummy $2" && one ;;
two) load_modules "$rdma_modules veth sch_netem $2" && two ;;
esac
case $1 in
one | two)
	export WEIR_RDMA_DEVICE=rxe0 WEIR_RDMA_NETDEV=rdma0 \
		WEIR_RDMA_ADDRESS=10.77.0.1 WEIR_RDMA_ADDRESS_6=fd77::1 \
		WEIR_RDMA_GID=1
	;;
esac
shift 2
exec "$@"
