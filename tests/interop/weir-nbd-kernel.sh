#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weir-nbd with the client of the Linux kernel, and a file system on that: what
# is fsynced is there whatever happens to the server.  It loads a module and
# mounts things, so it is for a guest, and takes its time there:
#
#	WEIR_TEST_LONG=1 tests/vm/run sh tests/interop/weir-nbd-kernel.sh
#
# or, of make check-rdma, only this: rdma_tests=tests/interop/weir-nbd-kernel.sh
# shellcheck disable=SC2317,SC2329 # Each t_ function is called by run.
# shellcheck source=tests/support/fixture.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"
program=$(absolute "${WEIR_NBD:-programs/weir-nbd/weir-nbd}")
PATH=$PATH:/usr/sbin:/sbin
enter weir-nbd-kernel

disk=/dev/nbd0
server=

serve()
{
	rm -f socket listening
	"$program" --cores=2 --unix=socket --export=name=file,path=file \
		>listening 2>server-err &
	server=$!
	until [ -s listening ]; do
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
	wait "$server" || wrong "the server's status is $?"
}

attach() { expect 0 nbd-client -unix socket "$disk" -N file -C 2 -b 4096; }

t_a_file_system_is_made_filled_and_checked()
{
	rm -f file
	truncate -s 48M file
	dd if=/dev/urandom of=source bs=64k count=100 2>/dev/null
	serve
	attach
	expect 0 mke2fs -q -t ext4 "$disk"
	expect 0 mount -o discard "$disk" mnt
	expect 0 cp source mnt/one
	expect 0 cp source mnt/two
	expect 0 rm mnt/one
	expect 0 fstrim mnt
	expect 0 umount mnt
	expect 0 e2fsck -fn "$disk"
	expect 0 mount "$disk" mnt
	cmp -s source mnt/two || wrong 'not what was written'
	expect 0 umount mnt
	expect 0 nbd-client -d "$disk"
	end_server
	expect 0 e2fsck -fn file
}

# Files one after the other, each fsynced before it is told.
write_files()
{
	i=0
	while dd if=/dev/urandom of="mnt/$i" bs=48k count=1 conv=fsync \
		2>/dev/null && sum=$(sha256sum <"mnt/$i"); do
		echo "$i $sum" >>safe
		i=$((i + 1))
	done
}

# The server is killed under a file system that is written to.  What its journal
# makes of what is left has all that was told to be safe.  kill_after FILES
kill_after()
{
	: >safe
	serve
	attach
	expect 0 mount "$disk" mnt
	write_files &
	writer=$!
	until [ "$(wc -l <safe)" -ge "$1" ]; do
		sleep 0.1
	done
	kill -9 "$server"
	wait "$server"
	wait "$writer"
	umount mnt 2>/dev/null
	nbd-client -d "$disk" >/dev/null
	e2fsck -fp file >out 2>&1
	[ $? -le 1 ] || wrong "the file system is broken: $(cat out)"
	expect 0 e2fsck -fn file
	while read -r name sum; do
		[ "$(debugfs -R "cat /$name" file 2>/dev/null |
			sha256sum)" = "$sum" ] ||
			wrong "$name is not what it was"
	done <safe
}

t_what_was_fsynced_outlives_a_kill() { kill_after 3; }
t_what_was_fsynced_outlives_a_later_kill() { kill_after 40; }

no_guest()
{
	[ "${WEIR_TEST_SLOW:-}" = 1 ] || echo 'not in a guest'
	[ "${WEIR_TEST_LONG:-}" = 1 ] || echo 'WEIR_TEST_LONG=1'
	command -v nbd-client mke2fs >lacking || echo 'no nbd-client or mke2fs'
}

mkdir mnt
reason=$(no_guest | head -n 1)
[ "$reason" ] || modprobe nbd 2>err || reason="no module: $(cat err)"
for backend in uring ev; do
	WEIR_BACKEND=$backend
	export WEIR_BACKEND
	run t_a_file_system_is_made_filled_and_checked "$reason"
	run t_what_was_fsynced_outlives_a_kill "$reason"
	run t_what_was_fsynced_outlives_a_later_kill "$reason"
done
echo "1..$n"
exit $bad
