#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weir-cp, every option and every error, over every backend.  What it made is
# looked at with tools that are not weir's.
#
# Environment: WEIR_CP is the program; WEIR_TEST_BACKEND=uring|ev runs one
# backend alone; WEIR_TEST_LONG=1 copies more.
. "${srcdir:-$(dirname "$0")/..}/tests/weir-cp-kit.sh"

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
	# shellcheck disable=SC3045 # every shell of Linux has it
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
	lost=
	# What belongs to another afterwards is not set-user-ID any more.
	[ "$(id -u)" = 0 ] && chmod 4755 readable/f511 &&
		lost='s/ 4755 / 755 /'
	for options in --path=kernel --path=pipeline --direct; do
		nobody "ulimit -l 64; '$program' --backend=$backend -r \
			$options readable nobody/copy" >out 2>err ||
			wrong "$options: $(head -n 3 err)"
		diff -r --no-dereference readable nobody/copy >out 2>&1 ||
			wrong "$options: $(head -n 3 out)"
		list readable | sed "$lost"'
			s/ [0-9]*:[0-9]* / /; s/ 2\(7..\) / \1 /' >list.a
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

# The target that was there stays, and a signal is what it dies of.  With
# --direct the new file has a temporary name.
t_signals()
{
	for kind in "2," "15," "15,${no_direct:---direct}"; do
		signal=${kind%%,*}
		option=${kind#*,}
		[ "$option" ] && [ "$option" != --direct ] && continue
		rm -rf d
		mkdir d
		echo old >d/victim
		begin ${option:+"$option"} long d/victim
		wait_open $pid long || wrong 'it was too fast'
		kill -"$signal" $pid
		wait $pid 2>/dev/null
		status=$?
		[ $status = $((128 + signal)) ] ||
			wrong "$kind: status $status: $(cat err)"
		only d victim
		[ "$(cat d/victim)" = old ] || wrong 'the old file is gone'
	done
}

# A byte of the copy is changed behind its back.
t_verify_finds()
{
	rm -rf d
	mkdir d
	begin --verify long d/f
	wait_open $pid long || wrong 'it was too fast'
	copy=
	while [ -z "$copy" ] && kill -0 $pid 2>/dev/null; do
		copy=$(find -L /proc/$pid/fd -maxdepth 1 -type f -links 0 \
			-size +1 2>/dev/null)
	done
	kill -STOP $pid
	printf X | dd of="$copy" conv=notrunc 2>/dev/null ||
		wrong "cannot write to $copy"
	kill -CONT $pid
	wait $pid 2>/dev/null
	[ $? = 1 ] || wrong "status: $(cat err)"
	says "'long' differs from its copy"
	only d
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
	# The last is 4096, for strtoull().
	for block in 1 4097 128M x -1 4Kx 99999999999999999999 \
		' -18446744073709547520'; do
		expect 2 cp_ "--block=$block" a b && says 'block'
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
	    signals verify_finds signal_in_a_tree changed_source usage what_is_said; do
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
