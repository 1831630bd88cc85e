#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tests/vm/run: what a command sees in the guest and what comes back of it, how
# it is refused and ended, and that nothing is left, on the host or running.
#
# By make check-vm; each case boots a guest, which takes seconds.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

need_vm
enter test-vm
nobody=65531
mkdir tmp
TMPDIR=$dir/tmp
export TMPDIR

# In the environment of all that belongs to these guests, and of nobody else.
mark=WEIR_VM_MARK=$$.$(od -An -tx8 -N8 /dev/urandom | tr -d ' ')
guest() { env "$mark" sh "$vm" "$@"; }

# Those of the guests' processes that run.
left()
{
	grep -alzx "$mark" /proc/[0-9]*/environ 2>/dev/null |
		sed 's|/proc/\([0-9]*\)/.*|\1|'
}

# What is killed may take a moment to be gone.
nothing_is_left()
{
	tries=0
	while [ "$(left)" ] && [ $tries -lt 100 ]; do
		tries=$((tries + 1))
		sleep 0.1
	done
	for pid in $(left); do
		wrong "still there: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
	done
	[ ! "$(ls tmp)" ] || wrong "left in TMPDIR: $(ls tmp)"
}

# until_exists FILE: the command in the guest makes it.
until_exists()
{
	tries=0
	until [ -e "$1" ] || [ $tries = 1200 ]; do
		tries=$((tries + 1))
		sleep 0.1
	done
	[ -e "$1" ] || wrong "no $1: $(cat err)"
}

t_status_and_output_come_through()
{
	expect 37 guest sh -c 'echo to out; echo to err >&2; exit 37'
	[ "$(cat out)" = 'to out' ] || wrong "out: $(cat out)"
	[ "$(cat err)" = 'to err' ] || wrong "err: $(cat err)"
	nothing_is_left
}

t_where_and_who_it_is()
{
	mkdir -p 'a directory'
	cd 'a directory' || return
	status=0
	guest --cpus 3 --memory 1024 sh -c \
		'id -u; pwd; nproc; sed -n "s/MemTotal: *//p" /proc/meminfo
		readlink /proc/self/fd/0' >../out 2>../err || status=$?
	cd ..
	[ $status = 0 ] || wrong "status $status: $(cat err)"
	shows '^0$'
	shows "^$dir/a directory$"
	shows '^3$'
	shows '^[89][0-9]\{5\} kB$'
	shows '^/dev/null$'
}

t_arguments_are_passed_as_they_are()
{
	set -- 'two words' "a
newline" '' "it's" '"$HOME"' '\' '*' "$(printf '\303\244\001')" -x '
'
	expect 0 guest printf '[%s]' "$@"
	printf '[%s]' "$@" >wanted
	cmp -s out wanted || wrong "arrived: $(cat out)"
}

t_the_environment_is_passed_and_added_to()
{
	expect 0 env OURS="two
lines" THEIRS=no sh "$vm" --env 'THEIRS=with = and
newline' --env 'EMPTY=' sh -c 'echo "$OURS:$THEIRS:${EMPTY-unset}:"'
	printf 'two\nlines:with = and\nnewline::\n' | cmp -s - out ||
		wrong "arrived: $(cat out)"
}

t_a_signal_is_told_as_a_shell_does()
{
	expect 137 guest sh -c 'kill -9 $$'
}

t_what_cannot_be_run_is_told_as_a_shell_does()
{
	expect 127 guest no-such-command
	says_only "cannot run 'no-such-command': No such file"
	: >not-executable
	expect 126 guest ./not-executable
	says_only 'Permission denied'
}

t_much_output_arrives_whole()
{
	expect 0 guest sh -c 'yes "0123456789 to out" | head -c 6000000
		yes "to err" | head -c 500001 >&2; echo last'
	{
		yes '0123456789 to out' | head -c 6000000
		echo last
	} | cmp - out >differs 2>&1 || wrong "out: $(cat differs)"
	yes 'to err' | head -c 500001 | cmp - err >differs 2>&1 ||
		wrong "err: $(cat differs)"
}

t_a_slow_reader_gets_all_of_it()
{
	{
		guest sh -c 'yes slow | head -c 2000000' 2>err
		echo "status $?" >status
	} | {
		sleep 2
		wc -c
	} >out
	[ "$(cat out)" = 2000000 ] || wrong "$(cat out) bytes"
	[ "$(cat status)" = 'status 0' ] || wrong "$(cat status)"
}

t_a_reader_that_has_gone_ends_it()
{
	{
		guest yes 2>err
		echo $? >status
	} | head -n 1 >out
	[ "$(cat status)" = 141 ] || wrong "status $(cat status): $(cat err)"
	nothing_is_left
}

t_the_host_is_not_changed()
{
	mkdir -p other inside
	echo before >other/file
	cd inside || return
	status=0
	guest sh -c 'echo after >../other/file; cat ../other/file
		rm -r ../other; : >../new; : >/new.$$; : >/tmp/new.$$
		echo yes >here; echo "$$"' >../out 2>../err || status=$?
	cd ..
	[ $status = 0 ] || wrong "status $status: $(cat err)"
	shows '^after$'
	[ "$(cat other/file)" = before ] || wrong 'a file was changed'
	[ ! -e new ] || wrong 'a file was made'
	for at in / /tmp/; do
		[ ! -e "${at}new.$(tail -n 1 out)" ] || wrong "made in $at"
	done
	[ "$(cat inside/here)" = yes ] || wrong 'the directory is read-only'
}

t_other_directories_can_be_made_writable()
{
	mkdir -p one 'the other' inside
	cd inside || return
	status=0
	guest --writable ../one --writable '../the other' \
		touch ../one/a '../the other/b' ../c 2>../err || status=$?
	cd ..
	[ $status = 0 ] || wrong "status $status: $(cat err)"
	[ -e one/a ] && [ -e 'the other/b' ] && [ ! -e c ] ||
		wrong "not as asked: $(ls . one 'the other')"
}

t_what_is_mapped_and_written_arrives()
{
	head -c 300000 /dev/urandom >from
	expect 0 guest dd if=from of=to bs=7777 conv=fsync status=none
	cmp from to || wrong 'they differ'
}

t_a_command_that_hangs_is_ended()
{
	expect 124 guest --timeout 2 sh -c 'echo begun; trap "" TERM; sleep 999'
	shows '^begun$'
	says_only 'ended after 2 seconds'
	nothing_is_left
}

t_a_kernel_that_dies_is_told()
{
	expect 125 guest sh -c 'echo c >/proc/sysrq-trigger; sleep 999'
	says 'the guest died'
	says 'sysrq'
	nothing_is_left
}

t_what_it_leaves_running_is_not_waited_for()
{
	expect 0 guest --timeout 60 sh -c 'sleep 999 & echo done'
	shows '^done$'
}

t_two_at_a_time_do_not_disturb_each_other()
{
	mkdir -p one two
	for i in one two; do
		(cd $i && guest sh -c "echo $i; echo $i >file; cat file" \
			>out 2>err) &
	done
	wait
	for i in one two; do
		[ "$(cat $i/out)" = "$i
$i" ] || wrong "$i: $(cat $i/out $i/err)"
	done
	nothing_is_left
}

# interrupted SIGNAL STATUS
interrupted()
{
	rm -f begun
	# A shell makes what is in the background deaf to SIGINT.
	env "$mark" setsid -w env --default-signal=INT sh "$vm" \
		sh -c ': >begun; sleep 999' >out 2>err &
	until_exists begun
	# That of `run` itself, and of all that a terminal would signal.
	leader=$(for pid in $(left); do
		grep -qz -e "$vm" "/proc/$pid/cmdline" &&
			[ "$(ps -o sid= "$pid" | tr -d ' ')" = "$pid" ] &&
			echo "$pid"
	done)
	kill "-$1" "-$leader" || wrong "there is no process $leader"
	status=0
	wait $! || status=$?
	[ $status = "$2" ] || wrong "status $status after $1"
	nothing_is_left
}

t_ctrl_c_ends_all() { interrupted INT 130; }
t_a_hangup_ends_all() { interrupted HUP 129; }
t_a_termination_ends_all() { interrupted TERM 143; }

t_kill_9_leaves_nothing_running()
{
	rm -f begun
	env "$mark" sh "$vm" sh -c ': >begun; sleep 999' >out 2>err &
	until_exists begun
	kill -9 $!
	wait $!
	rm -rf tmp/*
	nothing_is_left
}

t_modules_are_loaded()
{
	expect 0 guest --module brd --module loop sh -c 'ls /sys/module'
	shows '^brd$'
	shows '^loop$'
	expect 125 guest --module no_such_module true
	says 'no_such_module'
}

t_help()
{
	expect 0 guest --help
	shows '^Usage: run'
	for option in $(sed -n 's/^\t\(--[a-z0-9]*\).*) .*/\1/p' "$vm"); do
		shows "^  $option "
	done
	[ ! -s err ] || wrong "it complained: $(cat err)"
}

t_usage()
{
	expect 2 guest && says_only 'no command'
	expect 2 guest --rdma && says_only 'no command'
	expect 2 guest --nonsense true && says_only "no option '--nonsense'"
	expect 2 guest -x && says_only "no option '-x'"
	expect 2 guest --timeout && says_only '--timeout needs a value'
	for n_of in '' x -1 1x 99999999999; do
		expect 2 guest --timeout "$n_of" true
		says_only "--timeout needs a number, not '$n_of'"
	done
	expect 2 guest --timeout 0 true && says_only 'between 1 and'
	expect 2 guest --memory 1 true && says_only 'between 256 and'
	expect 2 guest --cpus 17 true && says_only 'between 1 and 16'
	expect 2 guest --env X true && says_only 'needs NAME=VALUE'
	expect 2 guest --module ../x true && says_only "'../x' is no module"
	expect 2 guest --writable nowhere true
	says_only "no directory 'nowhere'"
	expect 2 guest --writable / true && says_only 'cannot be /'
	expect 2 guest --kernel 2.4 true && says_only "not '2.4'"
	expect 2 guest --check true && says_only 'runs nothing'
	[ ! -s out ] || wrong 'it wrote something'
	cd / || return
	guest true >"$dir/out" 2>"$dir/err"
	status=$?
	cd "$dir" || return
	[ $status = 2 ] && says_only 'cannot be /'
	nothing_is_left
}

t_what_is_missing_is_told()
{
	mkdir -p bin cache
	for tool in dirname id uname; do
		ln -sf "$(command -v $tool)" bin/
	done
	expect 77 env PATH="$dir/bin" "$(command -v sh)" "${vm%/run}/prepare"
	says_only 'qemu-system-x86_64 is missing; install the package'
	expect 77 env WEIR_VM_KERNEL=backports \
		WEIR_VM_MIRROR=http://127.0.0.1:1/debian \
		WEIR_VM_CACHE="$dir/cache" "$(command -v sh)" "$vm" --check
	says 'no kernel to be had: .*127.0.0.1'
	[ "$(ls cache)" = lock ] || wrong "left in the cache: $(ls cache)"
	expect 77 nobody "TMPDIR=/tmp sh '$vm' --check"
	says_only 'only root'
}

run t_status_and_output_come_through
run t_where_and_who_it_is
run t_arguments_are_passed_as_they_are
run t_the_environment_is_passed_and_added_to
run t_a_signal_is_told_as_a_shell_does
run t_what_cannot_be_run_is_told_as_a_shell_does
run t_much_output_arrives_whole
run t_a_slow_reader_gets_all_of_it
run t_a_reader_that_has_gone_ends_it
run t_the_host_is_not_changed
run t_other_directories_can_be_made_writable
run t_what_is_mapped_and_written_arrives
run t_a_command_that_hangs_is_ended
run t_a_kernel_that_dies_is_told
run t_what_it_leaves_running_is_not_waited_for
run t_two_at_a_time_do_not_disturb_each_other
run t_ctrl_c_ends_all
run t_a_hangup_ends_all
run t_a_termination_ends_all
run t_kill_9_leaves_nothing_running
run t_modules_are_loaded
run t_help
run t_usage
run t_what_is_missing_is_told
echo "1..$n"
exit $bad
