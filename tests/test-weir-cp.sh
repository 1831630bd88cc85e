#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weir-cp, every option and every error, over every backend.  What it made is
# looked at with tools that are not weir's.
#
# Environment: WEIR_CP is the program; WEIR_TEST_BACKEND=uring|ev runs one
# backend alone; WEIR_TEST_LONG=1 copies more.
set -u
LC_ALL=C
export LC_ALL
umask 022
unset WEIR_BACKEND

program=${WEIR_CP:-examples/weir-cp/weir-cp}
program=$(cd "$(dirname "$program")" && pwd)/${program##*/}
dir=$(mktemp -d ./test-weir-cp.XXXXXX) || exit 1
chmod 755 "$dir"
cd "$dir" || exit 1
dir=$(pwd)
trap 'cd / && chmod -R u+rwx "$dir" && rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

n=0
bad=0
backend=
why=

cp_() { "$program" --backend="$backend" "$@"; }

# Why the test that runs is wrong; the first reason counts.
wrong()
{
	why=${why:-$*}
	return 1
}

# expect STATUS COMMAND...: its output goes to out and err.
expect()
{
	want=$1
	shift
	status=0
	"$@" >out 2>err || status=$?
	[ $status = "$want" ] && return
	wrong "status $status, not $want, of: $*: $(head -n 3 err)"
}

# says PATTERN: the last command told the cause.
says() { grep -q -e "$1" err || wrong "said '$(cat err)', not '$1'"; }

# nothing left in DIRECTORY but the names that follow.
only()
{
	where=$1
	shift
	found=$(ls -A "$where" | tr '\n' ' ')
	[ "$found" = "$*${1+ }" ] || wrong "in $where: $found, not $*"
}

# Mode, owner, size, times, number of names and target of everything in $1.
list()
{
	(cd "$1" && find . -type d -printf '%p %y %m %U:%G %T@\n' -o \
		-printf '%p %y %m %U:%G %T@ %s %n %l\n' | sort)
}

same()
{
	diff -r --no-dereference "$1" "$2" >out 2>&1 ||
		wrong "$1 and $2 differ: $(head -n 3 out)"
	list "$1" >list.a
	list "$2" >list.b
	diff list.a list.b >out ||
		wrong "attributes differ: $(head -n 3 out)"
}

same_file()
{
	cmp "$1" "$2" >out 2>&1 || wrong "$(cat out)"
	[ "$(stat -c '%a %u:%g %s %y' "$1")" = \
	  "$(stat -c '%a %u:%g %s %y' "$2")" ] ||
		wrong "attributes of $1 and $2 differ"
}

# Space that a file takes, in KiB.
space() { du -k "$1" | cut -f1; }

# data BYTES FILE: the same each time, and no two blocks alike.
data() { seq 1 $(($1 / 2 + 16)) | head -c "$1" >"$2"; }

# wait until process $1 has file $2 open; false if it has ended before.
wait_open()
{
	while kill -0 "$1" 2>/dev/null; do
		# shellcheck disable=SC2010 # Names of links.
		ls -l "/proc/$1/fd" 2>/dev/null | grep -q "/$2\$" && return
	done
	false
}

# Begin a copy that takes a while: many small blocks, one at a time.  In the
# background a shell ignores SIGINT, hence env.
begin()
{
	env --default-signal "$program" --backend="$backend" \
		--path=pipeline --block=4096 --depth=1 "$@" >out 2>err &
	pid=$!
}

make_tree()
{
	mkdir -p tree/sub/deep tree/empty 'tree/a name' "$(printf 'tree/new\nline')"
	for size in 0 1 511 4095 4096 4097 65536 300000 1048577; do
		data $size "tree/f$size"
	done
	data 5000 "$(printf 'tree/new\nline/in\nside')"
	data 100 "$(printf 'tree/\303\244\342\202\254')"
	data 100 "$(printf 'tree/not-utf8-\377')"
	data 100 'tree/a name/-r'
	data 2000000 tree/sub/large
	i=0
	while [ $i -lt 300 ]; do
		echo $i >tree/sub/deep/small-$i
		i=$((i + 1))
	done
	ln -s f511 tree/link
	ln -s /nowhere/at/all tree/dangling
	ln -s . tree/sub/loop
	ln -s itself tree/itself
	ln tree/f4097 tree/second-name
	ln tree/sub/large tree/sub/deep/other-name
	truncate -s 20M tree/sparse
	printf data | dd of=tree/sparse bs=1 seek=9000000 conv=notrunc 2>/dev/null
	chmod 4755 tree/f511
	chmod 400 tree/f4095
	chmod 2750 tree/sub/deep
	touch -d '2001-02-03 04:05:06.123456789' tree/f1 tree/sub/deep tree
	touch -h -d '2002-03-04 05:06:07' tree/link
	chmod 555 tree/empty
}

t_a_tree()
{
	rm -rf copy
	expect 0 cp_ -r "$@" tree copy && same tree copy &&
		[ "$(space copy/sparse)" -le 64 ] || wrong 'the hole is filled'
	chmod -R u+w copy
}

t_kernel_path()
{
	t_a_tree --path=kernel -v && says ' by the kernel, 0 by the pipeline'
}

t_pipeline_path()
{
	t_a_tree --path=pipeline -v && says ' 0 files by the kernel'
}

t_verified_tree() { t_a_tree --verify; }
t_checked_tree() { t_a_tree --checksum; }
t_synced_tree() { t_a_tree --fsync; }
t_direct_tree() { t_a_tree --direct; }
t_one_small_block() { t_a_tree --path=pipeline --block=4K --depth=1; }

t_a_file()
{
	rm -rf d f
	mkdir d
	for size in 0 1 511 4095 4096 4097 65536 1048577; do
		expect 0 cp_ tree/f$size d && same_file tree/f$size d/f$size
		expect 0 cp_ tree/f$size d/other && same_file tree/f$size d/other
	done
	expect 0 cp_ tree/link f && same_file tree/f511 f
	[ ! -L f ] || wrong 'without -r, a link was copied as one'
	expect 0 cp_ -r tree/link l && [ "$(readlink l)" = f511 ] ||
		wrong 'with -r, a link was not copied as one'
	rm -f l
}

t_direct_sizes()
{
	rm -rf d
	mkdir d
	for size in 0 1 511 4095 4096 4097 65536 1048577; do
		for options in '--block=4K --depth=3' '--checksum --verify' ''; do
			# shellcheck disable=SC2086 # A list.
			expect 0 cp_ --direct $options tree/f$size d/f &&
				same_file tree/f$size d/f
		done
	done
	only d f
}

t_into_what_is_there()
{
	rm -rf d
	mkdir d
	expect 0 cp_ -r tree d && same tree d/tree
	chmod -R u+w d/tree
	echo old >d/tree/f1
	ln -sf /nowhere d/tree/f4095
	mkdir d/tree/more
	expect 0 cp_ -r -T tree d/tree
	rmdir d/tree/more
	touch -r tree d/tree
	same tree d/tree
	chmod -R u+w d
	rm -rf d
	mkdir d
	expect 0 cp_ -r tree/. d && same tree d
	chmod -R u+w d
}

t_checksums()
{
	printf 123456789 >"$(printf 'a\nb\\c')"
	expect 0 cp_ --checksum "$(printf 'a\nb\\c')" f
	[ "$(cat out)" = '\e3069283  a\nb\\c' ] || wrong "said $(cat out)"
	rm -f "$(printf 'a\nb\\c')"
	# Zeros, once as a hole and once as data; in blocks of any size.
	truncate -s 1000000 hole
	head -c 1000000 /dev/zero >zeros
	expect 0 cp_ --checksum hole f
	one=$(cut -d' ' -f1 out)
	expect 0 cp_ --checksum --block=4096 zeros f
	[ "$one" = "$(cut -d' ' -f1 out)" ] || wrong 'of a hole: another CRC'
	expect 0 cp_ --checksum tree/f1048577 f
	one=$(cut -d' ' -f1 out)
	expect 0 cp_ --checksum --block=8K --depth=7 tree/f1048577 f
	[ "$one" = "$(cut -d' ' -f1 out)" ] || wrong 'of other blocks: another'
	expect 0 cp_ --json --checksum zeros f
	grep -q '"path":"zeros","bytes":1000000,"crc32c":' out ||
		wrong "no JSON: $(cat out)"
}

t_big_and_sparse()
{
	truncate -s 9G big
	printf first | dd of=big conv=notrunc 2>/dev/null
	printf middle | dd of=big bs=1 seek=5000000000 conv=notrunc 2>/dev/null
	printf last | dd of=big bs=1 seek=9663676412 conv=notrunc 2>/dev/null
	for options in --path=kernel --path=pipeline --direct \
	    '--checksum --verify'; do
		# shellcheck disable=SC2086 # A list.
		expect 0 cp_ $options big copy.big
		[ "$(stat -c %s copy.big)" = 9663676416 ] || wrong 'its size'
		[ "$(space copy.big)" -le 64 ] || wrong 'holes are filled'
		for at in 0 5000000000 9663676412; do
			cmp -n 6 -i $at big copy.big || wrong "at $at: differs"
		done
	done
	rm -f big copy.big
}

t_many_holes()
{
	rm -f holes
	i=0
	while [ $i -lt 100 ]; do
		echo $i | dd of=holes bs=64K seek=$((2 * i)) conv=notrunc \
			2>/dev/null
		i=$((i + 1))
	done
	truncate -s 16M holes
	for options in --path=kernel --path=pipeline --direct --verify; do
		expect 0 cp_ $options holes f && same_file holes f
		[ "$(space f)" -le $(($(space holes) + 16)) ] || wrong "$options: $(du -k holes f)"
	done
}

t_deep()
{
	rm -rf deep copy
	depth=300
	[ "${WEIR_TEST_LONG:-0}" = 1 ] && depth=2000
	mkdir deep
	(
		cd deep || exit
		i=0
		while [ $i -lt $depth ]; do
			echo $i >file
			mkdir directory-with-a-name
			cd -P directory-with-a-name || exit
			i=$((i + 1))
		done
	)
	expect 0 cp_ -r deep copy
	[ "$(find copy -name file | wc -l)" = $depth ] || wrong 'files missing'
	list deep >list.a
	list copy >list.b
	cmp list.a list.b || wrong 'attributes differ'
	for tree in deep copy; do
		find $tree -name file -execdir cat {} \; >list.$tree
	done
	cmp list.deep list.copy || wrong 'they differ'
	rm -rf deep copy
}

t_few_descriptors()
{
	rm -rf copy
	(ulimit -n 256; expect 0 cp_ -r tree copy; echo "$why" >why)
	[ -s why ] && wrong "$(cat why)"
	same tree copy
	chmod -R u+w copy
}

# What belonged to somebody else, and made its user somebody else, must not.
t_unprivileged()
{
	rm -rf nobody readable
	mkdir nobody
	chmod 777 nobody
	cp -a tree readable
	chmod -R a+rX readable
	[ "$(id -u)" = 0 ] && chmod 4755 readable/f511
	for options in --path=kernel --path=pipeline --direct; do
		nobody "ulimit -l 64; '$program' --backend=$backend -r \
			$options readable nobody/copy" >out 2>err ||
			wrong "$options: $(head -n 3 err)"
		diff -r --no-dereference readable nobody/copy >out 2>&1 ||
			wrong "$options: $(head -n 3 out)"
		list readable | sed 's/ [0-9]*:[0-9]* / /
			s/ 4755 / 755 /; s/ 2\(7..\) / \1 /' >list.a
		list nobody/copy | sed 's/ [0-9]*:[0-9]* / /
			s/ 2\(7..\) / \1 /' >list.b
		diff list.a list.b >out || wrong "$options: $(head -n 3 out)"
		chmod -R u+w nobody
		rm -rf nobody/copy
	done
}

t_unreadable()
{
	rm -rf nobody closed
	mkdir nobody closed closed/shut
	chmod 777 nobody
	data 5000 closed/open
	data 5000 closed/secret
	chmod 0 closed/secret closed/shut
	nobody "'$program' --backend=$backend closed/secret nobody/f" \
		>out 2>err && wrong 'it was copied'
	says "cannot open 'closed/secret': Permission denied"
	only nobody
	nobody "'$program' --backend=$backend -r closed nobody/c" \
		>out 2>err && wrong 'all was copied'
	says "'closed/secret': Permission denied"
	says "'closed/shut': Permission denied"
	only nobody/c open
	cmp closed/open nobody/c/open || wrong 'the rest was not copied'
	mkdir locked
	chmod 555 locked
	nobody "'$program' --backend=$backend closed/open locked/f" \
		>out 2>err && wrong 'into what is not writable'
	says "'closed/open': Permission denied"
	rmdir locked
	chmod 755 closed/secret closed/shut
}

t_special_files()
{
	rm -rf special copy
	mkdir special
	mkfifo special/fifo
	data 10 special/file
	expect 1 cp_ special/fifo f && says "'special/fifo' is a fifo"
	expect 1 cp_ /dev/null f && says "'/dev/null' is a device"
	expect 1 cp_ /proc/self/stat f && says 'has no size'
	expect 1 cp_ -r special copy && says "'special/fifo' is a fifo"
	only copy file
	expect 1 cp_ special/file special/fifo && says 'is no file'
	[ -p special/fifo ] || wrong 'the fifo was replaced'
	rm copy/file
	mkfifo copy/file
	expect 1 cp_ -r -T special copy && says 'would replace what is no file'
	only copy file
	[ -p copy/file ] || wrong 'the fifo in the tree was replaced'
}

t_same_and_inside()
{
	rm -rf d same
	mkdir -p d/sub
	data 100 same
	ln same hard
	ln -s same soft
	expect 1 cp_ same same && says 'is the same file'
	expect 1 cp_ same hard && says 'is the same file'
	expect 1 cp_ same ./d/../same && says 'is the same file'
	expect 1 cp_ -r d d/sub/new && says 'into itself'
	expect 1 cp_ -r d d && says 'into itself'
	expect 1 cp_ -r -T d d && says 'into itself'
	expect 1 cp_ -r . d/new && says 'into itself'
	only d sub
	rm -f hard soft
	expect 1 cp_ d f2 && says "'d' is a directory; -r copies it"
	expect 1 cp_ -T same d && says "'d' is a directory"
	expect 1 cp_ -r d same && says 'is there, and no directory'
	cmp -s -n 100 same tree/f511 || wrong 'the target was touched'
}

t_not_there()
{
	expect 1 cp_ nothing f9 && says "'nothing': No such file"
	expect 1 cp_ tree/f1 no/where/f9 && says "'no/where/': No such file"
	ln -sf me me
	expect 1 cp_ me f9 && says "'me': Too many levels"
	expect 1 cp_ tree/f1 "$(printf '%300s' x)" && says 'File name too long'
	expect 1 cp_ tree/f1/ f9/ && says 'Not a directory'
	[ ! -e f9 ] || wrong 'f9 is there'
}

t_full_disk()
{
	rm -rf d
	mkdir d
	for options in --path=auto --path=pipeline; do
		if [ "$mounts" ]; then
			unshare -m sh -c "mount -t tmpfs -o size=1m tmpfs d &&
				'$program' --backend=$backend -r $options \
					two d/two; echo \$? >status
				find d -type f -o -name '.*' | sort >found" \
				>out 2>err
			says 'large.*: No space left on device'
		else
			sh -c "ulimit -f 1600; '$program' --backend=$backend \
				-r $options two d/two; echo \$? >status
				find d -type f -o -name '.*' | sort >found" \
				>out 2>err
			says 'large.*: File too large'
			rm -rf d/two
		fi
		[ "$(cat status)" = 1 ] || wrong "status $(cat status)"
		grep -q large found && wrong "left: $(cat found)"
		grep -q '/\.' found && wrong "left: $(cat found)"
		:
	done
}

# The target that was there stays, and a signal is what it dies of.
t_signals()
{
	for signal in 2 15; do
		rm -rf d
		mkdir d
		echo old >d/victim
		begin long d/victim
		wait_open $pid long || wrong 'it was too fast'
		kill -$signal $pid
		wait $pid 2>/dev/null
		status=$?
		[ $status = $((128 + signal)) ] ||
			wrong "$signal: status $status: $(cat err)"
		only d victim
		[ "$(cat d/victim)" = old ] || wrong 'the old file is gone'
	done
}

t_signal_in_a_tree()
{
	rm -rf d two/zlong
	ln long two/zlong
	begin -r two d
	wait_open $pid zlong || wrong 'it was too fast'
	kill -TERM $pid
	wait $pid 2>/dev/null
	[ $? = 143 ] || wrong "status: $(cat err)"
	[ ! -e d/zlong ] || wrong 'a partial file'
	[ -z "$(find d -name '.weir*')" ] || wrong 'a temporary file'
	# What is there is whole.
	(cd d && find . -type f) | while read -r name; do
		cmp "two/$name" "d/$name" || echo "$name"
	done >out 2>&1
	[ ! -s out ] || wrong "partial: $(cat out)"
	rm -f two/zlong
}

# The copy stands still while its source is changed.
t_changed_source()
{
	for change in 'echo more >>moving' 'truncate -s 1M moving' \
	    'touch moving' 'mv moving2 moving'; do
		rm -rf d moving moving2
		mkdir d
		cp long moving
		cp long moving2
		begin moving d/f
		wait_open $pid moving || wrong 'it was too fast'
		kill -STOP $pid
		sh -c "$change"
		kill -CONT $pid
		wait $pid 2>/dev/null
		status=$?
		[ $status = 1 ] || wrong "$change: status $status"
		says "'moving' changed while it was copied"
		only d
	done
	rm -f moving moving2
}

t_usage()
{
	expect 0 cp_ --help
	grep -q -e '--checksum' out || wrong 'no help'
	expect 0 cp_ --version
	grep -q '^weir-cp [0-9]' out || wrong 'no version'
	expect 2 cp_ && says 'SOURCE and DEST'
	expect 2 cp_ a && says 'SOURCE and DEST'
	expect 2 cp_ a b c && says 'only one SOURCE'
	expect 2 cp_ '' b && says 'a name is empty'
	expect 2 cp_ --no-such a b && says 'Try'
	expect 2 cp_ --path=other a b && says 'auto, pipeline or kernel'
	expect 2 cp_ --backend=other a b && says 'auto, uring or ev'
	for block in 1 4097 128M x -1 4Kx 99999999999999999999; do
		expect 2 cp_ --block=$block a b && says 'block'
	done
	for depth in 0 1025 x; do
		expect 2 cp_ --depth=$depth a b && says 'depth'
	done
	expect 2 cp_ --block=64M --depth=1024 a b && says 'more than 4 GiB'
	expect 2 cp_ --path=kernel --checksum a b && says 'does not go with'
	expect 2 cp_ --path=kernel --direct a b && says 'does not go with'
}

t_what_is_said()
{
	rm -rf copy
	expect 0 cp_ -r tree copy
	[ ! -s out ] && [ ! -s err ] || wrong 'it was not silent'
	expect 0 cp_ -v tree/f4096 f && says "^backend: $backend"
	expect 0 cp_ --progress tree/f4096 f && says '^1 files, '
	expect 0 cp_ --progress --quiet tree/f4096 f
	[ ! -s err ] || wrong '--quiet was not'
	expect 1 cp_ --quiet nothing f && says 'No such file'
	expect 0 cp_ --json tree/f4096 f
	grep -q "\"type\":\"summary\",\"files\":1,.*\"backend\":\"$backend\"" \
		out || wrong "no JSON: $(cat out)"
	expect 1 cp_ --json "$(printf 'a\n"b\\\377')" f
	grep -q '"path":"a\\u000a\\"b\\\\\\udcff".*"error":"ENOENT"' out ||
		wrong "wrong JSON: $(cat out)"
	expect 1 cp_ "$(printf 'a\n\033b')" f && says 'a.n.033b'
	chmod -R u+w copy
}

result()
{
	n=$((n + 1))
	echo "$1 $n - $backend: $2${3:+ # SKIP $3}"
}

# run TEST [REASON TO SKIP]
run()
{
	name=$(echo "${1#t_}" | tr _ ' ')
	if [ "${2:-}" ]; then
		result ok "$name" "$2"
		return
	fi
	why=
	$1
	if [ "$why" ]; then
		result 'not ok' "$name"
		echo "$why" | sed 's/^/# /'
		bad=1
	else
		result ok "$name"
	fi
}

# Run a shell command as somebody without privileges.
nobody()
{
	if [ "$(id -u)" = 0 ]; then
		setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "$1"
	else
		sh -c "$1"
	fi
}

prepare()
{
	make_tree
	data 67108864 long
	mkdir two
	data 1000 two/small
	data 5000000 two/large
	mounts=
	[ "$(id -u)" = 0 ] && unshare -m sh -c 'mkdir m && mount -t tmpfs t m' \
		2>/dev/null && mounts=yes
	no_direct=
	dd if=tree/f4096 of=f oflag=direct bs=4K 2>/dev/null ||
		no_direct='no O_DIRECT here'
	no_nobody=
	nobody "'$program' --version" >out 2>&1 ||
		no_nobody='not to be reached by the unprivileged'
}

# Why backend $1 cannot be had, if that is so; other errors are the tests'.
refused()
{
	"$program" --backend="$1" tree/f1 f 2>&1 >/dev/null |
		grep -E 'kernel has no|not allowed|too old|built without'
}

run_all()
{
	for test in a_tree kernel_path pipeline_path verified_tree \
	    checked_tree synced_tree one_small_block a_file \
	    into_what_is_there checksums big_and_sparse many_holes deep \
	    few_descriptors special_files same_and_inside not_there full_disk \
	    signals signal_in_a_tree changed_source usage what_is_said; do
		run t_$test
	done
	run t_direct_tree "$no_direct"
	run t_direct_sizes "$no_direct"
	run t_unprivileged "$no_nobody"
	run t_unreadable "$no_nobody"
}

prepare
for backend in ${WEIR_TEST_BACKEND:-uring ev}; do
	if reason=$(refused $backend); then
		result ok 'all of it' "$reason"
	else
		run_all
	fi
done
echo "1..$n"
exit $bad
