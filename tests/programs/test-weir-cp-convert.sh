#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weir-cp --compress, --decompress, --encrypt and --decrypt, over every backend.
# Compressed files are read and written by gzip(1) and zstd(1) too.
. "${srcdir:-$(dirname "$0")/../..}/tests/programs/weir-cp-fixture.sh"

make_files()
{
	mkdir files
	: >files/empty
	echo some >files/small
	data 3000001 files/large
	head -c 1000000 /dev/zero >files/zeros
	data 262144 files/sectors
	i=0
	while [ $i -lt 70 ]; do
		data $((i * 997)) files/f$i
		i=$((i + 1))
	done
	seq -w 1 32 | tr -d '\n' | head -c 64 >key
	seq -w 40 90 | tr -d '\n' | head -c 32 >key32
}

t_peer()
{
	rm -rf packed back
	expect 0 cp_ -r -T --compress="$1" files packed
	for f in files/*; do
		"$1" -dc <"packed/${f#files/}" | cmp -s - "$f" ||
			wrong "$1 finds something else in $f"
	done
	expect 0 cp_ -r -T --decompress packed back
	diff -r files back >out || wrong "$(head -n 3 out)"
	rm -rf packed back
	for f in large empty small; do
		"$1" -c <files/$f
	done >packed
	expect 0 cp_ --decompress packed back
	cat files/large files/empty files/small | cmp -s - back ||
		wrong "members of $1 do not come back"
	cmp -s packed files/large && wrong 'it is not compressed'
	return 0
}

t_gzip() { t_peer gzip; }
t_zstd() { t_peer zstd; }

t_levels()
{
	for level in 1 9; do
		expect 0 cp_ --compress=gzip --level=$level files/large g$level
		expect 0 cp_ --compress=zstd --level=$level files/large z$level
	done
	[ "$(stat -c %s g9)" -lt "$(stat -c %s g1)" ] ||
		wrong 'gzip: level 9 is not smaller than level 1'
	[ "$(stat -c %s z9)" -lt "$(stat -c %s z1)" ] ||
		wrong 'zstd: level 9 is not smaller than level 1'
}

# Many blocks, which are read and written in parallel; of zeros each becomes
# more than a buffer holds.
t_blocks()
{
	for depth in 1 3 32; do
		rm -rf packed back
		set -- --block=4096 --depth=$depth
		for format in gzip zstd; do
			expect 0 cp_ "$@" -r -T --compress=$format --level=1 \
				files packed
			expect 0 cp_ "$@" -r -T --decompress packed back
			diff -r files back >out || wrong "$(head -n 3 out)"
		done
		expect 0 cp_ "$@" --encrypt=key files/sectors packed/e
		expect 0 cp_ --encrypt=key files/sectors packed/whole
		cmp -s packed/e packed/whole || wrong 'sectors are not in order'
		expect 0 cp_ "$@" --decrypt=key packed/e back/d
		cmp -s back/d files/sectors || wrong 'it does not come back'
	done
}

# Several sources, a hole, and a source that is not there.
t_as_cp()
{
	rm -rf sparse packed back
	truncate -s 5M sparse
	printf data | dd of=sparse bs=1 seek=3000000 conv=notrunc 2>/dev/null
	touch -d '2001-02-03 04:05:06' sparse
	chmod 640 sparse
	mkdir packed back
	expect 1 cp_ -p --compress=zstd files/large sparse not-there files/small \
		packed && says 'not-there'
	[ "$(stat -c '%a %y' packed/sparse)" = "$(stat -c '%a %y' sparse)" ] ||
		wrong 'attributes are not kept'
	expect 0 cp_ -p --decompress packed/* back
	for f in files/large sparse files/small; do
		cmp -s $f "back/${f##*/}" || wrong "$f does not come back"
	done
	expect 0 cp_ -n --compress=gzip files/small packed/large
	[ "$(head -c 4 packed/large)" = "$(printf '\050\265\057\375')" ] ||
		wrong '-n replaces a copy'
}

t_full_disk()
{
	rm -rf disk x
	mkdir disk
	expect 0 cp_ --compress=gzip files/zeros x
	for options in '--encrypt=key files/sectors' \
		       '--decompress --block=4096 x' \
		       '--compress=zstd files/large'; do
		for name in disk/x disk/y; do
			(ulimit -f 100; "$program" --backend=$backend \
				$options $name >out 2>err; echo $? >status)
			[ "$(cat status)" = 1 ] ||
				wrong "$options: status $(cat status)"
			says 'cannot write the copy of .*: File too large'
		done
		[ -z "$(ls -A disk)" ] || wrong "left: $(ls -A disk)"
	done
}

# A source that becomes shorter while it is read has no copy, or a whole one.
t_change()
{
	rm -f c
	head -c 100000000 /dev/zero >moving
	"$program" --backend="$backend" --block=4096 --depth=1 --retry=0 \
		--compress=zstd --level=9 moving c >out 2>err &
	pid=$!
	wait_open $pid moving && truncate -s 5000 moving
	if wait $pid; then
		zstd -dc c | cmp -n 5000 - moving ||
			wrong 'a copy of what has changed is damaged'
	else
		says 'became shorter while it was read'
		[ ! -e c ] || wrong 'a part of it has a name'
	fi
	rm -f c moving
}

t_damage()
{
	rm -f c short x
	expect 0 cp_ --compress=gzip files/large c
	head -c 1000 c >short
	expect 1 cp_ --decompress short x && says 'is damaged or cut off'
	printf XXXX | dd of=c bs=1 seek=5000 conv=notrunc 2>/dev/null
	expect 1 cp_ --decompress c x && says 'is damaged or cut off'
	expect 1 cp_ --decompress files/small x && says 'neither of gzip nor'
	expect 1 cp_ --decompress files/empty x && says 'neither of gzip nor'
	expect 1 cp_ --compress=gzip /proc/version x && says 'has no size'
	[ ! -e x ] || wrong 'a copy of what is damaged has a name'
}

t_sectors()
{
	rm -f e d
	for key in key key32; do
		for sector in 512 4096; do
			expect 0 cp_ --encrypt=$key --sector=$sector \
				files/sectors e
			cmp -s e files/sectors && wrong 'it is not encrypted'
			[ "$(stat -c %s e)" = 262144 ] || wrong 'its size'
			expect 0 cp_ --decrypt=$key --sector=$sector e d
			cmp -s d files/sectors || wrong 'it does not come back'
		done
	done
	expect 0 cp_ --decrypt=key e d
	cmp -s d files/sectors && wrong 'another key decrypts it'
	expect 0 cp_ --encrypt=key files/empty d && [ ! -s d ] ||
		wrong 'nothing is encrypted to something'
	rm -f d
	expect 1 cp_ --encrypt=key files/small d && says 'multiple of the sector'
	[ ! -e d ] || wrong 'a part of a sector was encrypted'
}

t_usage()
{
	refuse() { words=$1; shift; expect 2 cp_ "$@" a b && says "$words"; }
	for with in direct verify checksum path=kernel; do
		refuse "$with does not go with" --compress=gzip --$with
		refuse "$with does not go with" --decrypt=key --$with
	done
	refuse 'give gzip or zstd' --compress=xz
	refuse 'only one of' --compress=gzip --decompress
	refuse 'only one of' --encrypt=key --compress=gzip
	refuse 'levels 1 to 9' --compress=gzip --level=10
	refuse 'from 1 to 19' --compress=zstd --level=20
	refuse 'with --compress only' --level=1
	refuse 'with --encrypt and --decrypt' --sector=512
	refuse 'no power of two' --encrypt=key --sector=520
	head -c 33 key >bad
	expect 3 cp_ --encrypt=bad a b && says '32 or 64 bytes'
	expect 3 cp_ --encrypt=not-there a b && says 'No such file'
	head -c 32 key >half
	cat half half >bad
	expect 3 cp_ --encrypt=bad a b && says 'halves of the key are equal'
}

t_signal()
{
	rm -f c
	head -c 200000000 /dev/zero >zeros
	env --default-signal "$program" --backend="$backend" --compress=zstd \
		--level=19 zeros c >out 2>err &
	pid=$!
	wait_open $pid zeros && kill -INT $pid
	wait $pid
	[ ! -e c ] || "$(command -v zstd || echo true)" -tq c ||
		wrong 'an incomplete copy has its name'
	rm -f c zeros
}

lacks() { command -v "$1" >/dev/null || echo "no $1"; }

make_files
built=$("$program" --compress=zstd files/small x 2>&1 | grep 'built without'
	"$program" --compress=gzip files/small x 2>&1 | grep 'built without'
	"$program" --encrypt=key files/empty x 2>&1 | grep 'built without')
for backend in $(backends); do
	if [ "$built" ]; then
		result ok 'all of it' "$built"
	elif reason=$("$program" --backend=$backend files/small x 2>&1 |
		      grep -E 'kernel has no|not allowed|too old|built without')
	then
		result ok 'all of it' "$reason"
	else
		run t_gzip "$(lacks gzip)"
		run t_zstd "$(lacks zstd)"
		run t_change "$(lacks zstd)"
		for test in levels blocks as_cp full_disk damage sectors \
			    usage signal; do
			run t_$test
		done
	fi
done
echo "1..$n"
exit $bad
