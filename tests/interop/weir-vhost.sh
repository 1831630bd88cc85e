#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weir-vhost with QEMU as its front end and a Debian kernel as its guest
# (tests/vm): a file system, verified writes while the server is killed, a disk
# that grows.  By make check-vm; each case boots a guest, which takes seconds.
# shellcheck disable=SC2317,SC2329 # Each t_ function is called by run.
# shellcheck source=tests/support/fixture.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

program=$(absolute "${WEIR_VHOST:-programs/weir-vhost/weir-vhost}")
need_vm
enter weir-vhost
kills=5
[ "${WEIR_TEST_LONG:-}" != 1 ] || kills=50
server=

# serve EXPORT: and wait until it listens.
serve()
{
	: >listening
	"$program" --json --stats --unix=socket "$1" >>listening 2>>server-err &
	server=$!
	until grep -q listening listening; do
		kill -0 "$server" 2>/dev/null || {
			echo "Bail out! no server: $(cat server-err)"
			exit 1
		}
		sleep 0.1
	done
}

end_server()
{
	kill "$server"
	wait "$server" || wrong "the server's status is $?: $(cat server-err)"
	grep -q '"errors":0,' listening ||
		wrong "not without errors: $(cat listening)"
}

# guest SCRIPT [OPTION...]: with the disk as /dev/vda.
guest()
{
	script=$1
	shift
	sh "$vm" --module virtio_blk --module ext4 \
		--qemu -chardev \
		--qemu "socket,id=c,path=$dir/socket,reconnect=1" \
		--qemu -device \
		--qemu vhost-user-blk-pci,chardev=c,num-queues=2 \
		"$@" sh -ec "$script"
}

t_a_file_system_is_made_filled_and_checked()
{
	rm -f disk
	truncate -s 128M disk
	serve path=disk,name=number1
	expect 0 guest '
		PATH=$PATH:/usr/sbin:/sbin
		[ "$(cat /sys/block/vda/serial)" = number1 ]
		[ "$(cat /sys/block/vda/size)" = 262144 ]
		[ "$(ls /sys/block/vda/mq | wc -l)" = 2 ]
		mke2fs -q -t ext4 /dev/vda
		mkdir -p /tmp/m
		mount -o discard /dev/vda /tmp/m
		dd if=/dev/urandom of=/tmp/source bs=64k count=200 2>/dev/null
		cp /tmp/source /tmp/m/one
		cp /tmp/source /tmp/m/two
		rm /tmp/m/one
		fstrim /tmp/m
		umount /tmp/m
		e2fsck -fn /dev/vda
		mount /dev/vda /tmp/m
		cmp /tmp/source /tmp/m/two
		[ "$(cat /sys/block/vda/cache_type)" = "write back" ]
		echo write through >/sys/block/vda/cache_type
		[ "$(cat /sys/block/vda/cache_type)" = "write through" ]
		cp /tmp/source /tmp/m/three
		umount /tmp/m'
	end_server
	grep -q '"trims":[1-9]' listening || wrong 'nothing was trimmed'
	[ "$(du -k disk | cut -f1)" -lt 40000 ] || wrong 'the disk has no holes'
}

t_verified_writes_outlive_servers_that_are_killed()
{
	rm -f disk
	truncate -s 64M disk
	serve path=disk
	guest '
		: >begun
		loops=0
		until [ -e killed ]; do
			fio --name=v --filename=/dev/vda --size=32M --rw=randrw \
				--bs=4k-32k --ioengine=libaio --iodepth=32 \
				--direct=1 --verify=crc32c --verify_fatal=1 \
				--minimal --output=/dev/null
			loops=$((loops + 1))
		done' --timeout 600 >out 2>err &
	machine=$!
	until [ -e begun ] || ! kill -0 "$machine" 2>/dev/null; do
		sleep 0.1
	done
	i=0
	while [ $i -lt $kills ]; do
		i=$((i + 1))
		sleep 0.$((i % 10))
		kill -9 "$server"
		wait "$server" 2>/dev/null
		serve path=disk
		# QEMU comes back within a second.
		sleep 1
	done
	: >killed
	wait "$machine" || wrong "the guest's status is $?: $(cat err)"
	end_server
}

# The guest writes a block, waits until it is flushed, and says so; its machine is
# killed, and the server, too.  What it has said is in the file.
t_what_was_acknowledged_outlives_guest_and_server()
{
	rm -f disk acked
	truncate -s 16M disk
	serve path=disk
	guest '
		i=0
		while :; do
			i=$((i + 1))
			printf "block %08d" $i >/tmp/block
			dd if=/tmp/block of=/dev/vda bs=512 seek=$((i % 30000)) \
				conv=sync,fsync 2>/dev/null
			echo $i >>acked
		done' --timeout 8 >out 2>err
	status=$?
	kill -9 "$server"
	wait "$server" 2>/dev/null
	[ $status = 124 ] || wrong "the guest's status is $status: $(cat err)"
	last=$(tail -n 1 acked)
	[ "${last:-0}" -gt 10 ] || wrong "only $last blocks were written"
	i=0
	while [ $i -lt "$last" ]; do
		i=$((i + 1))
		[ "$(dd if=disk bs=512 skip=$i count=1 2>/dev/null |
			tr -d '\0')" = "$(printf 'block %08d' $i)" ] ||
			wrong "block $i of $last is lost"
	done
}

t_a_disk_grows()
{
	rm -f disk
	truncate -s 16M disk
	serve path=disk
	(
		until [ -e ready ]; do sleep 0.1; done
		truncate -s 32M disk
		kill -HUP "$server"
	) &
	expect 0 guest '
		[ "$(cat /sys/block/vda/size)" = 32768 ]
		: >ready
		until [ "$(cat /sys/block/vda/size)" = 65536 ]; do
			sleep 0.1
		done
		dd if=/dev/vda of=/dev/null bs=1M skip=31 iflag=direct'
	end_server
}

run t_a_file_system_is_made_filled_and_checked
run t_verified_writes_outlive_servers_that_are_killed "$(lacks fio)"
run t_what_was_acknowledged_outlives_guest_and_server
run t_a_disk_grows
echo "1..$n"
exit $bad
