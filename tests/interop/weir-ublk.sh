#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weir-ublk in a guest whose kernel has the driver (tests/vm, Debian's backports): file
# systems, verified writes while the server is killed, memory, users without privileges.
# By make check-ublk; each case boots a guest, which takes seconds.
# shellcheck disable=SC2154 # The fixture assigns them.
# shellcheck disable=SC2317,SC2329 # Each t_ function is called by run.
# shellcheck disable=SC2016 # The guest's shell expands it.
# shellcheck source=tests/support/fixture.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

plugin=$(absolute programs/block/.libs/cipher.so)
program=$(absolute "${WEIR_UBLK:-programs/weir-ublk/weir-ublk}")
WEIR_VM_KERNEL=backports
export WEIR_VM_KERNEL
need_vm
enter weir-ublk
kills=5
[ "${WEIR_TEST_LONG:-}" != 1 ] || kills=500

# What each script of a guest begins with.  serve() waits for the device; finish() for
# the end of the server, which has to be a good one.
prelude='
	PATH=$PATH:/usr/sbin:/sbin
	program=$1 kills=$2 plugin=$3 ublk=
	mkdir /tmp/weir-ublk
	cd /tmp/weir-ublk
	wait_for() {
		tries=0
		until eval "$1"; do
			tries=$((tries + 1))
			[ $tries -lt 300 ] || { echo "no: $1"; cat out err; exit 1; }
			sleep 0.1
		done
	}
	serve() {
		: >out
		"$program" --json --stats "$@" >out 2>>err &
		ublk=$!
		wait_for "grep -q device out || ! kill -0 $ublk"
		grep -q device out || { cat err; exit 1; }
	}
	finish() {
		kill $ublk
		wait $ublk
		grep -q "\"errors\":0" out || { cat out err; exit 1; }
		[ ! -e /dev/ublkb0 ]
	}
	kill_server() {
		kill -9 $ublk
		wait $ublk || :
	}
	refused() {
		! "$@" 2>refusal || { echo "not refused: $*"; exit 1; }
	}
'

# guest SCRIPT [OPTION...]
guest()
{
	script=$prelude$1
	shift
	sh "$vm" --module ublk_drv --module ext4 --timeout 300 "$@" \
		sh -euc "$script" sh "$program" "$kills" "$plugin"
}

t_a_file_system_is_made_filled_and_checked()
{
	expect 0 guest '
		truncate -s 64M disk
		serve --queues=2 disk
		[ "$(cat /sys/block/ublkb0/size)" = 131072 ]
		[ "$(ls /sys/block/ublkb0/mq | wc -l)" = 2 ]
		[ "$(cat /sys/block/ublkb0/queue/write_cache)" = "write back" ]
		[ "$(cat /sys/block/ublkb0/queue/fua)" = 1 ]
		# PF_MEMALLOC_NOIO
		for t in /proc/$ublk/task/*; do
			[ $(($(cut -d " " -f 9 $t/stat) & 0x80000)) != 0 ]
		done
		mke2fs -q -t ext4 /dev/ublkb0
		mkdir m
		mount -o discard /dev/ublkb0 m
		dd if=/dev/urandom of=source bs=64k count=200 2>/dev/null
		cp source m/one
		cp source m/two
		rm m/one
		fstrim m
		refused "$program" --stop=0
		grep -q "in use" refusal
		kill $ublk
		wait_for "grep -q \"in use\" err"
		umount m
		e2fsck -fn /dev/ublkb0 >/dev/null
		mount /dev/ublkb0 m
		cmp source m/two
		umount m
		finish
		grep -q "\"trims\":[1-9]" out
		[ "$(du -k disk | cut -f1)" -lt 40000 ]
		e2fsck -fn disk >/dev/null'
}

t_devices_are_listed_and_stopped_by_another_process()
{
	expect 0 guest '
		truncate -s 1M one two
		truncate -s 700 odd
		"$program" --quiet --id=5 one &
		first=$!
		wait_for "[ -e /dev/ublkb5 ]"
		serve --id=0 --queues=1 --depth=7 two
		"$program" --list >list
		grep -q "^/dev/ublkb0 *live *1048576 *1 x 7 *$ublk\$" list
		grep -q "^/dev/ublkb5 *live *1048576 .* $first\$" list
		"$program" --list --json | grep -q "\"id\":5,\"size\":1048576,"
		refused "$program" --id=5 one
		grep -q "is served by process $first" refusal
		refused "$program" --id=5 two
		grep -q "is of another export" refusal
		"$program" --stop=5
		wait $first
		[ ! -e /dev/ublkb5 ]
		refused "$program" --stop=5
		grep -q "there is no device 5" refusal
		# What no one has flushed is written as the device ends.
		printf hello | dd of=/dev/ublkb0 seek=1 2>/dev/null
		finish
		[ "$(dd if=two skip=1 count=1 2>/dev/null | head -c 5)" = hello ]
		serve odd
		[ "$(cat /sys/block/ublkb0/size)" = 1 ]
		grep -q "its last 188 bytes" err
		finish
		[ -z "$("$program" --list)" ]
		refused "$program" /dev/null
		refused "$program" nothing
		grep -q "No such file" refusal'
}

t_a_device_may_be_read_only_direct_or_of_another_device()
{
	expect 0 guest '
		dd if=/dev/urandom of=disk bs=1M count=8 2>/dev/null
		serve path=disk,ro
		[ "$(cat /sys/block/ublkb0/ro)" = 1 ]
		refused dd if=/dev/zero of=/dev/ublkb0 bs=4096 count=1
		cmp disk /dev/ublkb0
		finish
		dd if=disk of=/dev/ram0 bs=1M 2>/dev/null
		serve path=/dev/ram0,direct
		cmp -n 8388608 disk /dev/ublkb0
		dd if=/dev/zero of=/dev/ublkb0 bs=4096 seek=7 count=3 oflag=direct \
			conv=fsync 2>/dev/null
		blkdiscard -z -o 65536 -l 8192 /dev/ublkb0
		finish
		dd if=/dev/zero of=disk bs=4096 seek=7 count=3 conv=notrunc 2>/dev/null
		dd if=/dev/zero of=disk bs=4096 seek=16 count=2 conv=notrunc 2>/dev/null
		cmp -n 8388608 disk /dev/ram0' --module brd
}

t_a_plugin_enciphers_the_disk()
{
	expect 0 guest '
		truncate -s 1M image
		serve --id=0 "plugin=$plugin,args=image:secret"
		dd if=/dev/urandom of=source bs=64k count=16 2>/dev/null
		dd if=source of=/dev/ublkb0 bs=48k oflag=direct 2>/dev/null
		cmp source /dev/ublkb0
		kill_server
		serve --id=0 "plugin=$plugin,args=image:secret"
		cmp source /dev/ublkb0
		finish
		! cmp -s source image'
}

t_memory_is_served_without_a_copy_of_the_library()
{
	expect 0 guest '
		serve size=32M
		cmp -n 33554432 /dev/zero /dev/ublkb0
		dd if=/dev/urandom of=source bs=1M count=31 2>/dev/null
		dd if=source of=/dev/ublkb0 bs=300k oflag=direct 2>/dev/null
		cmp -n 32505856 source /dev/ublkb0
		blkdiscard -o 1048576 -l 1048576 /dev/ublkb0
		cmp -n 1048576 /dev/zero /dev/ublkb0 0 1048576
		finish
		serve size=1M
		kill_server
		# Nobody could have it again, but its number.
		wait_for "\"$program\" --list | grep -q dead"
		serve --id=0 size=1M
		grep -q "\"recovered\":false" out
		finish'
}

t_a_killed_server_is_taken_over_by_the_same_export_alone()
{
	expect 0 guest '
		truncate -s 1M disk other
		serve --id=0 disk
		dd if=/dev/urandom of=source bs=64k count=16 2>/dev/null
		kill_server
		wait_for "\"$program\" --list | grep -q waiting"
		dd if=source of=/dev/ublkb0 bs=64k oflag=direct conv=fsync 2>/dev/null &
		writer=$!
		refused "$program" --id=0 other
		grep -q "of another export" refusal
		refused "$program" --id=0 path=disk,ro
		grep -q "other options" refusal
		serve --id=0 disk
		grep -q "\"recovered\":true" out
		wait $writer
		cmp source /dev/ublkb0
		finish
		cmp source disk
		serve --id=0 --no-recovery disk
		kill_server
		wait_for "\"$program\" --list | grep -q dead"
		[ ! -e /dev/ublkb0 ]
		"$program" --stop=0
		[ -z "$("$program" --list)" ]'
}

t_verified_writes_outlive_servers_that_are_killed()
{
	expect 0 guest '
		truncate -s 64M disk
		serve --id=0 disk
		(
			until [ -e killed ]; do
				fio --name=v --filename=/dev/ublkb0 --size=32M --rw=randrw \
					--bs=4k-32k --ioengine=libaio --iodepth=32 \
					--direct=1 --verify=crc32c --verify_fatal=1 \
					--minimal --output=/dev/null
			done
		) &
		writer=$!
		i=0
		while [ $i -lt $kills ]; do
			i=$((i + 1))
			sleep 0.$((i % 10))
			kill_server
			serve --id=0 disk
		done
		: >killed
		wait $writer
		finish' --timeout $((300 + kills * 5))
}

# A process that writes a block, waits until it is flushed and says so is right, whenever
# the server is killed, even if no other comes.
t_what_was_acknowledged_is_in_the_file()
{
	expect 0 guest '
		truncate -s 16M disk
		serve --id=0 disk
		(
			i=0
			while [ ! -e killed ]; do
				i=$((i + 1))
				printf "block %08d" $i >block
				dd if=block of=/dev/ublkb0 bs=512 seek=$i \
					conv=sync,fsync 2>/dev/null || exit 0
				echo $i >>acked
			done
		) &
		writer=$!
		i=0
		while [ $i -lt $kills ]; do
			i=$((i + 1))
			sleep 0.$((i % 10))
			kill_server
			last=$(tail -n 1 acked)
			[ -z "$last" ] ||
				[ "$(dd if=disk bs=512 skip=$last count=1 2>/dev/null |
				tr -d "\0")" = "$(printf "block %08d" $last)" ]
			serve --id=0 disk
		done
		: >killed
		wait $writer
		finish
		i=0
		while read -r n; do
			i=$((i + 1))
			[ "$(dd if=disk bs=512 skip=$n count=1 2>/dev/null |
				tr -d "\0")" = "$(printf "block %08d" $n)" ]
		done <acked
		[ $i -gt 10 ]' --timeout $((300 + kills * 5))
}

# As rules of udev would have it: the devices are their maker's.
t_a_user_without_privileges_has_a_device()
{
	expect 0 guest '
		chmod 666 /dev/ublk-control
		truncate -s 1M disk
		chown 1000:1000 disk
		(
			until [ -e /dev/ublkc0 ]; do sleep 0.1; done
			chown 1000:1000 /dev/ublkc0
			until [ -e /dev/ublkb0 ]; do sleep 0.1; done
			chown 1000:1000 /dev/ublkb0
		) &
		chmod 777 .
		as="setpriv --reuid=1000 --regid=1000 --clear-groups"
		: >out; : >err; chmod 666 out err
		$as "$program" --json --stats disk >out 2>err &
		ublk=$!
		wait_for "grep -q device out || ! kill -0 $ublk"
		grep -q device out || { cat err; exit 1; }
		wait_for "$as test -w /dev/ublkb0"
		echo hello | $as dd of=/dev/ublkb0 conv=fsync 2>/dev/null
		[ "$(head -c 5 disk)" = hello ]
		$as "$program" --list | grep -q "live *1048576"
		$as "$program" --stop=0
		wait $ublk
		! $as "$program" size=1M --id=DOES-NOT-PARSE 2>/dev/null'
}

run_in_turn t_a_file_system_is_made_filled_and_checked
run_in_turn t_devices_are_listed_and_stopped_by_another_process
run_in_turn t_a_device_may_be_read_only_direct_or_of_another_device
run_in_turn t_a_plugin_enciphers_the_disk
run_in_turn t_memory_is_served_without_a_copy_of_the_library
run_in_turn t_a_killed_server_is_taken_over_by_the_same_export_alone
run_in_turn t_verified_writes_outlive_servers_that_are_killed "$(lacks fio)"
run_in_turn t_what_was_acknowledged_is_in_the_file
run_in_turn t_a_user_without_privileges_has_a_device
echo "1..$n"
exit $bad
