#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A guest whose disk is served by weir-nbd, weir-vhost or weir-ublk loses its power (its
# machine is killed, with all that its page cache has): what a client was told to be durable
# is on the disk.  By make check-ublk; each case boots a guest, which takes seconds.
# shellcheck disable=SC2154 # The fixture assigns them.
# shellcheck disable=SC2317,SC2329 # Each t_ function is called by run.
# shellcheck disable=SC2016 # The guest's shell expands it.
# shellcheck source=tests/support/fixture.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

server=$(absolute programs/weir-nbd/weir-nbd)
vhost=$(absolute programs/weir-vhost/weir-vhost)
ublk=$(absolute programs/weir-ublk/weir-ublk)
vhost_writer=$(absolute tests/interop/vhost-writer)
nbd_writer=$(absolute "${srcdir:-$(dirname "$0")/../..}/tests/interop/nbd-writer.py")
# Only this one has the driver of weir-ublk.
WEIR_VM_KERNEL=backports
export WEIR_VM_KERNEL
need_vm
enter power-cut
seconds=15
[ "${WEIR_TEST_LONG:-}" != 1 ] || seconds=60

# cut SCRIPT [OPTION...]: in a guest with a disk, SCRIPT serves /dev/vda and appends to
# ./acked the numbers of blocks that are durable.
cut()
{
	script=$1
	shift
	rm -f disk acked
	truncate -s 256M disk
	sh "$vm" --module virtio_blk "$@" --qemu -drive \
		--qemu "file=$dir/disk,format=raw,if=virtio" --timeout "$seconds" \
		sh -euc "$script" sh "$server" "$vhost" "$ublk" "$nbd_writer" \
		"$vhost_writer" "${python:-}" >out 2>err
	status=$?
	[ $status = 124 ] || wrong "the guest's status is $status: $(cat out err)"
	last=$(tail -n 1 acked)
	[ "${last:-0}" -gt 2 ] || wrong "only ${last:-0} blocks were written: $(cat out err)"
	i=0
	while [ $i -lt "${last:-0}" ]; do
		i=$((i + 1))
		[ "$(dd if=disk bs=4096 skip=$i count=1 2>/dev/null |
			head -c 14)" = "$(printf 'block %08d' $i)" ] ||
			wrong "block $i of $last is lost"
	done
	echo "# $last blocks"
}

nbd()
{
	cut "
		\"\$1\" --quiet --unix=/tmp/socket --export=path=/dev/vda &
		\"\$6\" \"\$4\" /tmp/socket $1 >>acked"
}

t_what_nbd_flushed_outlives_the_machine() { nbd flush; }
t_what_nbd_wrote_by_fua_outlives_the_machine() { nbd fua; }

t_what_vhost_flushed_outlives_the_machine()
{
	cut '
		"$2" --quiet --unix=/tmp/socket /dev/vda &
		"$5" /tmp/socket >>acked'
}

# The kernel flushes after a write with FUA, too, so these are not tried.
t_what_ublk_flushed_outlives_the_machine()
{
	cut '
		"$3" --quiet /dev/vda &
		until [ -e /dev/ublkb0 ]; do sleep 0.1; done
		i=0
		while :; do
			i=$((i + 1))
			printf "block %08d" $i >/tmp/block
			dd if=/tmp/block of=/dev/ublkb0 bs=4096 seek=$i \
				conv=sync,fsync 2>/dev/null
			echo $i >>acked
		done' --module ublk_drv
}

lacks_python_nbd >lacking
run_in_turn t_what_nbd_flushed_outlives_the_machine "$(cat lacking)"
run_in_turn t_what_nbd_wrote_by_fua_outlives_the_machine "$(cat lacking)"
run_in_turn t_what_vhost_flushed_outlives_the_machine
run_in_turn t_what_ublk_flushed_outlives_the_machine
echo "1..$n"
exit $bad
