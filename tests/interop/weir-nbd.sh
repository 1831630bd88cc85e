#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weir-nbd with clients that others wrote: libnbd's, nbd's, QEMU's and fio's, over
# each backend, to a file, memory and a loop device.  It runs in the build
# directory; what is not installed or allowed is skipped.  Without WEIR_TEST_LONG=1
# some tests are run over one backend only.
# shellcheck disable=SC2317,SC2329 # Each t_ function is called by run.
# shellcheck source=tests/support/fixture.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"
program=$(absolute "${WEIR_NBD:-programs/weir-nbd/weir-nbd}")
here=$(absolute "${srcdir:-$(dirname "$0")/../..}/tests/interop")
PATH=$PATH:/usr/sbin:/sbin
commands=$here/weir-nbd.py
durable=$here/weir-nbd-durable.py
weir=$(absolute "${WEIR:-tools/weir}")
enter weir-nbd

tester=${WEIR_NBD_TESTER:-}
server=
python=
size=16M # Of what is served.

# serve_with EXPORT...: and wait until it listens.
serve_with()
{
	rm -f socket listening
	"$program" --cores=2 --unix=socket "$@" >listening 2>server-err &
	server=$!
	until [ -s listening ]; do
		kill -0 "$server" 2>/dev/null || {
			echo "Bail out! no server: $(cat server-err)"
			exit 1
		}
		sleep 0.01
	done
}

serve()
{
	rm -f file
	truncate -s $size file
	serve_with --export=name=file,path=file \
		--export=name=memory,size=$size --export=name=ro,ro,path=source
}

end_server()
{
	kill "$server"
	wait "$server" || echo "Bail out! the server's status is $?"
}

url() { echo "nbd+unix:///$1?socket=$dir/socket"; }

t_nbdinfo_knows_what_it_sees()
{
	expect 0 nbdinfo "$(url file)"
	shows 'export-size: 16777216'
	shows 'can_multi_conn: true'
	shows 'can_fast_zero: true'
	shows 'base:allocation'
	expect 0 nbdinfo --is read-only "$(url ro)"
	expect 0 nbdinfo --can cache "$(url memory)"
	expect 2 nbdinfo --is tls "$(url memory)"
	expect 0 nbdinfo --list "nbd+unix:///?socket=$dir/socket"
	shows 'export="memory"'
	expect 0 nbdinfo --map "$(url memory)"
	shows 'hole,zero'
}

# That of the kernel, which asks for the list without one.
t_nbd_client_lists_the_exports()
{
	expect 0 nbd-client -l -unix "$dir/socket"
	for export in file memory ro; do
		shows "^$export"
	done
}

# It wants zeroes at first, and leaves something else.
t_the_tester_of_nbd_is_content()
{
	end_server
	serve_with --export=name=new,size=50M --export=name=ro,ro,path=source
	expect 0 "$tester" -i -t "${tester%/*}/integrity-test.tr" -N new \
		-u "$dir/socket"
	expect 0 "$tester" -N new -u "$dir/socket"
	expect 0 "$tester" -w -f -N new -u "$dir/socket"
	expect 0 "$tester" -w -F -N ro -u "$dir/socket"
	end_server
	serve
}

# copy_both_ways EXPORT
copy_both_ways()
{
	expect 0 nbdcopy --connections=4 source "$(url "$1")"
	expect 0 nbdcopy --connections=4 "$(url "$1")" back
	cmp -s source back || wrong "$1: not what was written"
	expect 0 nbdcopy --synchronous --request-size=32768 "$(url "$1")" back
	cmp -s source back || wrong "$1: not what was written"
}

t_it_is_there_by_TCP_too()
{
	rm -f tcp
	"$program" --cores=1 --port=0 --export=path=source,ro >tcp &
	tcp=$!
	until [ -s tcp ]; do
		sleep 0.01
	done
	expect 0 nbdcopy "nbd://127.0.0.1:$(sed 's/.* port //' tcp)" back
	cmp -s source back || wrong 'not what is served'
	kill "$tcp"
	wait "$tcp" || wrong "status $?"
}

t_nbdcopy_copies_to_a_file_and_back() { copy_both_ways file; }
t_nbdcopy_copies_to_memory_and_back() { copy_both_ways memory; }

t_nbdsh_tries_each_command()
{
	for export in file memory; do
		expect 0 env NBD_URI="$(url "$export")" "$python" "$commands"
	done
}

# image_works EXPORT
image_works()
{
	expect 0 qemu-img info "$(url "$1")"
	expect 0 qemu-img convert -n -f raw -O raw source "$(url "$1")"
	expect 0 qemu-img compare -f raw -F raw source "$(url "$1")"
	expect 0 qemu-img convert -f raw -O qcow2 "$(url "$1")" back.qcow2
	expect 0 qemu-img check back.qcow2
	expect 0 qemu-img compare -F raw back.qcow2 "$(url "$1")"
	expect 0 qemu-img map --output=json "$(url "$1")"
}

t_qemu_img_converts_compares_and_checks()
{
	image_works file
	image_works memory
}

t_qemu_io_reads_its_patterns()
{
	for export in file memory; do
		expect 0 qemu-io -f raw -c 'write -P 0x11 0 1M' \
			-c 'write -f -P 0x22 512 3k' -c 'write -z 1M 1M' \
			-c 'write -z -u 2M 64k' -c 'discard 3M 1M' \
			-c 'aio_write -P 0x33 4M 2M' \
			-c 'aio_write -P 0x44 6M 64k' -c aio_flush -c flush \
			-c 'read -P 0x11 0 512' -c 'read -P 0x22 512 3k' \
			-c 'read -P 0x11 3584 64k' -c 'read -P 0 1M 1M' \
			-c 'read -P 0 2M 64k' -c 'read -P 0x33 4M 2M' \
			-c 'read -P 0x44 6M 64k' "$(url "$export")"
		! grep -q 'Pattern verification failed' out ||
			wrong "$export: $(grep failed out)"
	done
}

# verify_by_fio EXPORT: writes that are checked, each after a trim of its block.
verify_by_fio()
{
	expect 0 fio --name=nbd --ioengine=nbd --uri="$(url "$1")" \
		--rw=randtrimwrite --bs=4k --iodepth=32 --size="$size" \
		--verify=crc32c --serialize_overlap=1 --randseed=1
}

t_fio_verifies_what_it_writes()
{
	verify_by_fio file
	verify_by_fio memory
}

# What a file system is made of, through the server.
t_a_file_system_stays_whole()
{
	mkdir -p tree/sub
	cp source tree/sub/source
	rm -f image
	expect 0 mke2fs -q -t ext4 -d tree image 32M
	truncate -s 32M image
	size=32M
	end_server
	serve
	expect 0 nbdcopy image "$(url file)"
	expect 0 nbdcopy "$(url file)" back
	expect 0 e2fsck -fn back
	expect 0 e2fsck -fn file
	size=16M
}

# For who would go on with a device whose name is in the file loop.
loop_off() { losetup --detach "$(cat loop)"; }

# A block device, through the page cache and round it.
t_a_loop_device_is_served()
{
	end_server
	truncate -s 0 disk
	truncate -s "$size" disk
	losetup --find --show disk >loop
	serve_with --export="name=file,path=$(cat loop)" \
		--export="name=direct,direct,path=$(cat loop)"
	expect 0 nbdinfo "$(url direct)"
	shows 'block_size_minimum: 512'
	copy_both_ways file
	copy_both_ways direct
	[ "$(no_fio_nbd)" ] || verify_by_fio direct
	expect 0 nbdcopy source "$(url direct)"
	end_server
	loop_off
	cmp -s source disk || wrong 'not what was written is on the device'
	serve
}

# What the device behind the export was told, as the client got its answers.
t_flushed_data_are_on_the_device()
{
	end_server
	truncate -s 0 disk
	truncate -s "$size" disk
	losetup --find --show disk >loop
	serve_with --export="name=file,path=$(cat loop)"
	stat=/sys/block/$(basename "$(cat loop)")/stat
	expect 0 env NBD_URI="$(url file)" "$python" "$durable" "$stat"
	end_server
	loop_off
	serve
}

# A disk with too little capacity tells the client so, and goes on.
t_a_full_disk_is_told()
{
	end_server
	mkdir -p small
	mount -t tmpfs -o size=1M tmpfs small
	truncate -s "$size" small/file
	serve_with --export=name=file,path=small/file
	expect 1 nbdcopy --destination-is-zero source "$(url file)"
	says 'No space left on device'
	expect 0 nbdinfo "$(url file)"
	end_server
	umount small
	serve
}

# A client of the server that has the file short, which is truncated meanwhile.
read_truncated()
{
	mkfifo asks
	qemu-io -f raw "nbd+unix:///?socket=$dir/socket" <asks >said 2>&1 &
	client=$!
	exec 9>asks
	echo 'read 0 4k' >&9
	until grep -q 'read 4096/4096 bytes at offset 0' said; do
		kill -0 "$client" 2>/dev/null || break
		sleep 0.01
	done
	truncate -s 1M short
	printf '%s\n' 'read 4M 4k' 'write -P 3 4M 4k' 'read -P 3 4M 4k' \
		'write -z 6M 4k' 'read -P 0 6M 4k' quit >&9
	exec 9>&-
	wait "$client"
	rm asks
}

# What was beyond its end is not zeroes; a write makes it longer.  nbdkit's file
# plugin does the same.
t_a_truncated_file_is_an_error()
{
	end_server
	truncate -s 8M short
	serve_with --export=path=short
	read_truncated
	grep -q 'read failed: Input/output error' said ||
		wrong "no error in: $(cat said)"
	[ "$(grep -c 'wrote 4096/4096' said)" = 2 ] ||
		wrong "a write failed in: $(cat said)"
	grep -q 'read 4096/4096 bytes at offset 4194304' said ||
		wrong "no byte of a write in: $(cat said)"
	grep -q 'read 4096/4096 bytes at offset 6291456' said ||
		wrong "no byte of zeroes in: $(cat said)"
	end_server
	rm short
	serve
}

no_mount()
{
	if [ "$(id -u)" != 0 ]; then
		echo 'only root can mount'
	elif mkdir -p small && mount -t tmpfs tmpfs small 2>/dev/null; then
		umount small
	else
		echo 'nothing can be mounted here'
	fi
}

no_loop()
{
	if ! losetup --find --show source >loop 2>/dev/null; then
		echo 'there are no loop devices'
	else
		loop_off
	fi
}

takes_long() { [ "${WEIR_TEST_LONG:-}" = 1 ] || echo 'WEIR_TEST_LONG=1'; }

# Why a test that takes its time is not run over the second backend.
first=
not_twice() { [ "$backend" = "$first" ] || takes_long; }

no_fio_nbd()
{
	fio --enghelp 2>/dev/null | grep -qw nbd || echo 'fio has no nbd engine'
}

# nbd-tester-client is in nbd's sources only, in tests/run; no package has it.
no_tester()
{
	[ -x "$tester" ] || echo 'WEIR_NBD_TESTER does not name the tester of nbd'
}

no_ext()
{
	command -v mke2fs >/dev/null || echo 'there is no mke2fs'
}

# Some data, and some holes.
truncate -s $size source
dd if=/dev/urandom of=source bs=64k count=40 conv=notrunc 2>/dev/null
dd if=/dev/urandom of=source bs=64k count=9 seek=99 conv=notrunc 2>/dev/null

for backend in uring ev; do
	WEIR_BACKEND=$backend
	export WEIR_BACKEND
	reason=$(no_backend $backend "$weir")
	[ -z "$reason" ] || {
		result ok 'all of it' "$reason"
		continue
	}
	first=${first:-$backend}
	serve
	run t_nbdinfo_knows_what_it_sees "$(lacks nbdinfo)"
	run t_it_is_there_by_TCP_too "$(lacks nbdcopy)"
	run t_nbd_client_lists_the_exports "$(lacks nbd-client)"
	run t_the_tester_of_nbd_is_content "$(no_tester)"
	run t_nbdcopy_copies_to_a_file_and_back "$(lacks nbdcopy)"
	run t_nbdcopy_copies_to_memory_and_back "$(lacks nbdcopy)"
	lacks_python_nbd >lacking
	run t_nbdsh_tries_each_command "$(cat lacking)"
	run t_qemu_img_converts_compares_and_checks \
		"$(lacks qemu-img)$(not_twice)"
	run t_qemu_io_reads_its_patterns "$(lacks qemu-io)"
	run t_a_truncated_file_is_an_error "$(lacks qemu-io)"
	run t_fio_verifies_what_it_writes "$(no_fio_nbd)$(not_twice)"
	run t_a_file_system_stays_whole "$(lacks nbdcopy)$(no_ext)$(not_twice)"
	run t_a_loop_device_is_served "$(lacks nbdcopy)$(no_loop)$(takes_long)"
	run t_flushed_data_are_on_the_device "$(cat lacking)$(no_loop)"
	run t_a_full_disk_is_told "$(lacks nbdcopy)$(no_mount)"
	end_server
done
echo "1..$n"
exit $bad
