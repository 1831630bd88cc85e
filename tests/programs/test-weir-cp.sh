#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weir-cp, every option and every error, over every backend.  What it made is
# looked at with tools that are not weir's.
#
# Environment: WEIR_CP is the program; WEIR_TEST_BACKEND=uring|ev runs one
# backend alone; WEIR_TEST_LONG=1 copies more.
. "${srcdir:-$(dirname "$0")/../..}/tests/programs/weir-cp-fixture.sh"

t_a_tree()
{
	rm -rf copy
	expect 0 cp_ -a "$@" tree copy && same tree copy &&
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
		expect 0 cp_ -p tree/f$size d && same_file tree/f$size d/f$size
		expect 0 cp_ -p tree/f$size d/other && same_file tree/f$size d/other
	done
	expect 0 cp_ -p tree/link f && same_file tree/f511 f
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
			expect 0 cp_ -p --direct $options tree/f$size d/f &&
				same_file tree/f$size d/f
		done
	done
	only d f
}

t_into_what_is_there()
{
	rm -rf d
	mkdir d
	expect 0 cp_ -a tree d && same tree d/tree
	chmod -R u+w d/tree
	echo old >d/tree/f1
	ln -sf /nowhere d/tree/f4095
	mkdir d/tree/more
	expect 0 cp_ -a -T tree d/tree
	rmdir d/tree/more
	touch -r tree d/tree
	same tree d/tree
	chmod -R u+w d
	rm -rf d
	mkdir d
	expect 0 cp_ -a tree/. d && same tree d
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
		expect 0 cp_ -p $options holes f && same_file holes f
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
	expect 0 cp_ -a deep copy
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

# What is opened keeps to the limit, whatever it is.
t_few_descriptors()
{
	for limit in 128 40; do
		for options in '' --path=pipeline ${no_direct:---direct}; do
			case $options in
			''|-*) ;;
			*) continue ;; # A word of the reason.
			esac
			rm -rf copy
			# shellcheck disable=SC3045,SC2086 # every shell of
			# Linux has it; a list.
			(ulimit -n $limit; expect 0 cp_ -a $options tree copy
			 echo "$why" >why)
			[ "$(cat why)" ] && wrong "$limit: $(cat why)"
			same tree copy
			chmod -R u+w copy
		done
	done
	# Many sources in many directories.
	rm -rf many copy
	mkdir many copy
	i=0
	while [ $i -lt 200 ]; do
		mkdir many/$i
		echo $i >many/$i/file-$i
		i=$((i + 1))
	done
	# shellcheck disable=SC3045
	(ulimit -n 40; expect 0 cp_ --path=pipeline many/*/file-* copy
	 echo "$why" >why)
	[ "$(cat why)" ] && wrong "$(cat why)"
	[ "$(find copy -type f | wc -l)" = 200 ] || wrong 'files are missing'
	cat many/*/* | sort >list.a
	cat copy/* | sort >list.b
	cmp list.a list.b || wrong 'they differ'
	rm -rf many copy
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
		nobody "ulimit -l 64; '$program' --backend=$backend -a \
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
	expect 0 cp_ -r special copy
	[ -p copy/fifo ] || wrong 'the fifo was not copied as one'
	expect 0 cp_ -rT special copy
	only copy fifo file
	expect 1 cp_ -T special/file special/fifo &&
		says 'would replace what is no file'
	[ -p special/fifo ] || wrong 'the fifo was replaced'
	rm copy/file
	mkfifo copy/file
	expect 1 cp_ -r -T special copy && says 'would replace what is no file'
	[ -p copy/file ] || wrong 'the fifo in the tree was replaced'
}

# What says that it is empty, or larger than it is.
t_files_without_a_size()
{
	for options in '' --path=pipeline '--checksum --verify' ; do
		# shellcheck disable=SC2086 # A list.
		expect 0 cp_ $options /proc/version f
		cmp /proc/version f || wrong "$options: of /proc"
	done
	found=$(find /sys/kernel -maxdepth 1 -type f -size 8 -readable \
		! -size 0 2>/dev/null | head -n 1)
	[ "$found" ] || return 0
	for options in '' --path=pipeline; do
		# shellcheck disable=SC2086
		expect 0 cp_ $options "$found" f
		cat "$found" | cmp - f || wrong "$options: $found"
	done
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
	expect 1 cp_ same soft && says 'is the same file'
	expect 1 cp_ -P soft same && says 'leads to DEST'
	expect 1 cp_ same ./d/../same && says 'is the same file'
	expect 1 cp_ -r d d/sub/new && says 'into itself'
	expect 1 cp_ -r d d && says 'into itself'
	expect 1 cp_ -r -T d d && says 'into itself'
	expect 1 cp_ -r . d/new && says 'into itself'
	only d sub
	rm -f hard soft
	expect 1 cp_ d f2 && says "'d' is a directory; -r copies it"
	expect 1 cp_ -T same d && says "would replace a directory"
	expect 1 cp_ -r d same && says 'would replace what is no directory'
	cmp -s -n 100 same tree/f511 || wrong 'the target was touched'
}

t_not_there()
{
	expect 1 cp_ nothing f9 && says "'nothing': No such file"
	expect 1 cp_ tree/f1 no/where/f9 && says "'no/where/f9': No such file"
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

# Not even a signal that cannot be caught leaves anything of what has no name.
t_killed()
{
	named=
	for option in '' ${no_direct:---direct}; do
		[ "$option" ] && [ "$option" != --direct ] && continue
		for victim in '' victim; do
			rm -rf d
			mkdir d
			[ "$victim" ] && echo old >d/victim
			begin ${option:+"$option"} long d/${victim:-new}
			wait_open $pid long || wrong 'it was too fast'
			# Where not even a plain copy is without a name, the
			# file system has no such files.
			[ "$option$victim" ] || named=$(ls -A d)
			kill -KILL $pid
			wait $pid 2>/dev/null
			[ "$named" ] && rm -f d/.weir-cp-*
			only d $victim
		done
	done
}

# change PROGRAM'S OPTIONS -- COMMAND: the copy of `moving` to d/f stands still
# while the command changes its source.
change()
{
	options=
	while [ "$1" != -- ]; do
		options="$options $1"
		shift
	done
	shift
	rm -rf d moving moving2
	mkdir d
	cp long moving
	cp long moving2
	# shellcheck disable=SC2086 # A list.
	begin $options moving d/f
	wait_open $pid moving || wrong 'it was too fast'
	kill -STOP $pid
	sh -c "$*"
	kill -CONT $pid
	wait $pid 2>/dev/null
	status=$?
}

t_changed_source()
{
	for command in 'echo more >>moving' 'truncate -s 1M moving' \
	    'touch moving' 'mv moving2 moving' 'chmod 600 moving'; do
		change --changed=fail -- "$command"
		[ $status = 1 ] || wrong "$command: status $status"
		says "'moving' changed while it was copied"
		only d
		change --changed=fail --retry=1 -- "$command"
		[ $status = 0 ] || wrong "$command: status $status: $(cat err)"
		[ -s err ] && wrong "$command: said $(cat err)"
		cmp moving d/f || wrong "$command: the second copy differs"
	done
	# As cp: a copy, whatever becomes of the source.
	change -- 'echo more >>moving'
	[ $status = 0 ] || wrong "status $status: $(cat err)"
	says "warning: 'moving' grew while it was copied: .* first 67108864"
	cmp long d/f || wrong 'what was there was not copied'
	change -- 'printf X | dd of=moving conv=notrunc 2>/dev/null'
	[ $status = 0 ] || wrong "status $status: $(cat err)"
	says "warning: 'moving' changed while it was copied"
	change -- 'truncate -s 100K moving'
	[ $status = 0 ] || wrong "status $status: $(cat err)"
	says "warning: 'moving' changed while it was copied"
	cmp moving d/f || wrong 'not what is left of it'
	for command in 'mv moving2 moving' 'chmod 600 moving' 'rm moving'; do
		change -- "$command"
		[ $status = 0 ] || wrong "$command: status $status: $(cat err)"
		[ -s err ] && wrong "$command: said $(cat err)"
		cmp long d/f || wrong "$command: another copy"
	done
	change --retry=2 -- 'echo more >>moving'
	[ $status = 0 ] && [ ! -s err ] || wrong "status $status: $(cat err)"
	cmp moving d/f || wrong 'it was not copied again'
	rm -f moving moving2
}

# A system call that a filter refuses is done without.
t_refused_calls()
{
	for errno in 1 13 22 38 95; do
		for call in copy_file_range sendfile; do
			rm -f f
			expect 0 "$without_call" $call $errno "$program" \
				--backend="$backend" tree/f65536 f
			cmp tree/f65536 f || wrong "$call $errno: they differ"
		done
		rm -f f
		expect 0 "$without_call" copy_file_range $errno \
			"$without_call" sendfile $errno "$program" \
			--backend="$backend" -v tree/f65536 f
		cmp tree/f65536 f || wrong "$errno: they differ"
		says 'by the kernel, 1 by the pipeline'
	done
	expect 1 "$without_call" copy_file_range 1 "$program" \
		--backend="$backend" --path=kernel tree/f65536 f
	says 'Operation not permitted'
}

# The copy is there under a name of its own when it cannot have the other.
t_refused_rename()
{
	echo before >f
	expect 1 "$without_call" renameat2 13 "$program" \
		--backend="$backend" tree/f65536 f
	says 'rename the copy of'
	[ "$(cat f)" = before ] || wrong 'it was replaced'
	[ -z "$(find . -maxdepth 1 -name '.weir*')" ] || wrong 'a temporary file'
	rm -f f
}

# It has its name only when it is on the disk.
t_refused_fsync()
{
	echo before >f
	expect 1 "$without_call" fsync 5 "$program" --fsync \
		--backend="$backend" tree/f65536 f
	says 'write out the copy of'
	[ "$(cat f)" = before ] || wrong 'it was replaced'
	rm -f f
}

# The time until the first line has passed while it stood still.
t_progress_of_one_file()
{
	rm -f f
	begin --progress long f
	wait_open $pid long || wrong 'it was too fast'
	# Between its reports there is half a second; what it does meanwhile takes
	# less, so it does that a bit at a time.
	for i in 1 2 3 4 5 6; do
		kill -STOP $pid
		sleep 0.6
		kill -CONT $pid
		until [ "$(grep -c ' of 64.0 MiB, ' err)" -ge $i ]; do
			kill -0 $pid 2>/dev/null || break
		done
		! grep -q "'long'" err || break
	done
	wait $pid || wrong "it failed: $(cat err)"
	says "'long': [0-9.]* [KM]*i*B of 64.0 MiB"
	says '^0 of 1 files, [0-9.]* [KM]*i*B of 64.0 MiB, [0-9]* %, '
}

t_usage()
{
	expect 0 cp_ --help
	grep -q -e '--checksum' out || wrong 'no help'
	expect 0 cp_ --version
	grep -q '^weir-cp [0-9]' out || wrong 'no version'
	expect 2 cp_ && says 'SOURCE and DEST'
	expect 2 cp_ a && says 'SOURCE and DEST'
	expect 1 cp_ a b c && says "cannot copy into 'c'"
	expect 2 cp_ -T a b c && says 'only one SOURCE'
	expect 2 cp_ -T -t d a && says '-t and -T exclude'
	expect 2 cp_ -t d && says 'give a SOURCE'
	expect 2 cp_ -t d -t e a && says 'given twice'
	expect 2 cp_ --preserve=all,acl a b && says 'xattr or all'
	expect 2 cp_ --preserve= a b && says 'xattr or all'
	expect 2 cp_ --changed=perhaps a b && says 'give keep or fail'
	expect 2 cp_ --retry=x a b && says '--retry=x'
	expect 2 cp_ '' b && says 'a name is empty'
	expect 2 cp_ --no-such a b && says 'try'
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
	expect 2 cp_ --path=kernel --checksum a b && says 'excludes'
	expect 2 cp_ --path=kernel --direct a b && says 'excludes'
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
	    into_what_is_there files_without_a_size checksums big_and_sparse many_holes deep \
	    few_descriptors special_files same_and_inside not_there full_disk \
	    signals killed verify_finds signal_in_a_tree changed_source \
	    progress_of_one_file usage what_is_said; do
		run t_$test
	done
	run t_refused_calls "$no_filter"
	run t_refused_rename "$no_filter"
	run t_refused_fsync "$no_filter"
	run t_direct_tree "$no_direct"
	run t_direct_sizes "$no_direct"
	run t_unprivileged "$no_nobody"
	run t_unreadable "$no_nobody"
}

prepare
for backend in $(backends); do
	if reason=$(refused $backend); then
		result ok 'all of it' "$reason"
	else
		run_all
	fi
done
echo "1..$n"
exit $bad
