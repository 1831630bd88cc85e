#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weir-rdma between the two ends of the guest's cable: what it copies is
# compared by other tools, and everything that can be wrong is made so once.
# Without RDMA only what needs none.
#
# Environment: WEIR_RDMA is the program; WEIR_RDMA_... as in vm/guest.sh;
# WEIR_TEST_LONG=1 copies 256 MiB each way.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

program=$(absolute "${WEIR_RDMA:-programs/weir-rdma/weir-rdma}")
# The shell script that libtool makes takes longer than it.
[ -x "${program%/*}/.libs/weir-rdma" ] && {
	LD_LIBRARY_PATH=$(pwd)/.libs
	export LD_LIBRARY_PATH
	program=${program%/*}/.libs/weir-rdma
}
host=${WEIR_RDMA_ADDRESS2:-127.0.0.1}
nobody=65534
verbs=$(grep '^#define HAVE_VERBS 1' config.h 2>/dev/null)
enter test-weir-rdma
long=
[ "${WEIR_TEST_LONG:-0}" = 1 ] && long=1
[ "$long" ] && mib=256 || mib=4
server=

# A file system of its own, where nothing is slow and all has an end.
a_file_system()
{
	mkdir m && mount -t tmpfs -o size=$((mib * 4 + 128))M t m &&
		cd m || exit 1
	trap 'stop; cd / && umount "$dir/m"; rm -rf "$dir"' EXIT
}

# holds FILE PATTERN: without another process, which takes long in a guest.
holds()
{
	while read -r line; do
		# shellcheck disable=SC2254 # A pattern.
		case $line in
		*$2*) return 0 ;;
		esac
	done <"$1"
	return 1
}

# soon COMMAND...: it becomes true.
soon()
{
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 300 ] || return 1
		sleep 0.1
	done
}

# serve DIR [OPTION...]: in the background, at a port of its own.
serve()
{
	served=$1
	shift
	: >server
	"$program" serve --listen="$host" --port=0 --json "$@" "$served" \
		>server 2>server.err &
	server=$!
	soon holds server '"listening"' ||
		wrong "no server: $(cat server server.err)"
	port=$(sed -n 's/.*"port":\([0-9]*\).*/\1/p' server)
}

# stop: the server, which must end well.
stop()
{
	[ "$server" ] || return 0
	kill "$server" 2>/dev/null
	wait "$server" || wrong "the server ended with $?: $(cat server.err)"
	server=
}

client()
{
	command=$1
	shift
	"$program" "$command" --from="$WEIR_RDMA_ADDRESS" --port="$port" "$@"
}

# begin COMMAND...: in the background, as $pid itself.
begin()
{
	command=$1
	shift
	"$program" "$command" --from="$WEIR_RDMA_ADDRESS" --port="$port" \
		-q --block=4K --depth=1 "$@" 2>err &
	pid=$!
}

put() { client put "$@"; }
get() { client get "$@"; }

# no_rest DIRECTORY: nothing of a file that is not complete.
no_rest()
{
	! has_rest "$1" || wrong "a rest in $1"
}

same() { cmp "$1" "$2" >differ 2>&1 || wrong "$(cat differ)"; }

# Until the server has said so; it has to hear of it first.
server_says()
{
	soon holds server "$1" ||
		wrong "the server does not say $1: $(cat server)"
}

crc_of() { sed -n 's/.*"crc32c":"\([0-9a-f]*\)".*/\1/p' "$1"; }

t_what_is_put_can_be_got()
{
	expect 0 put --json file "$host:d/copy" && same file srv/d/copy
	crc_of out >crc
	[ "$(stat -c %a srv/d/copy)" = 640 ] || wrong 'another mode'
	server_says '"put"'
	[ "$(crc_of server)" = "$(cat crc)" ] || wrong 'another checksum'
	expect 0 get --json "$host:d/copy" back && same file back
	[ "$(crc_of out)" = "$(cat crc)" ] || wrong 'another checksum'
	rm -f srv/d/copy back
}

t_every_size()
{
	for size in 0 4097 ${long:+1 4095 4096 70001}; do
		head -c $size file >f
		expect 0 put --block=4K --depth=3 -q f "$host:f" &&
			same f srv/f
		expect 0 get --block=4K --depth=1 -q "$host:f" g && same f g
	done
	rm -f f g srv/f
}

t_what_is_there_is_replaced_and_a_directory_is_not()
{
	echo old >srv/there
	expect 0 put -q file "$host:there" && same file srv/there
	expect 1 put -q file "$host:d"
	says 'Is a directory'
	expect 1 get -q "$host:d" back
	says 'Is a directory'
	rm -f srv/there
}

t_no_such_file()
{
	expect 1 get "$host:nothing" back
	says "the server cannot open the file: No such file"
	[ ! -e back ] || wrong 'it made a file'
	expect 1 put nothing "$host:nothing"
	says "this end cannot open the file: No such file"
	expect 1 put file "$host:no/such/directory"
	says 'No such file or directory'
}

t_nothing_outside_is_reached()
{
	echo secret >secret
	ln -s ../secret srv/link
	ln -s "$(pwd)" srv/out
	ln -s /etc srv/d/etc
	mkfifo srv/fifo
	for name in out/secret ${long:+../secret link d/../../secret \
	    d/etc/passwd /etc/passwd ./d/../../secret}; do
		expect 1 get -q "$host:$name" back
		says 'outside of the directory'
	done
	for name in d/etc/new ${long:+../new out/new /new .. . d/..}; do
		expect 1 put -q file "$host:$name"
		says 'outside of the directory\|Is a directory'
	done
	expect 1 get -q "$host:fifo" back
	says 'not a regular file'
	expect 1 get -q "$host:.weir-rdma-1-1" back
	says 'not permitted'
	[ ! -e new ] && [ ! -e /new ] && [ ! -e /etc/new ] || wrong 'it got out'
	expect 0 put -q file "$host:link" && same file srv/link
	[ "$(cat secret)" = secret ] || wrong 'written through a link'
	rm -f srv/link srv/out srv/d/etc srv/fifo
}

t_a_full_disk()
{
	mkdir small && mount -t tmpfs -o size=2M s small
	serve_small=$server
	server=
	serve small
	expect 1 put file "$host:file"
	says "the server cannot open the file: no space"
	no_rest small
	stop
	server=$serve_small
	port=$first_port
	expect 1 get "$host:file" small/file
	says "this end cannot open the file: no space"
	no_rest small
	umount small && rmdir small
}

t_permission()
{
	mkdir -m 700 closed
	nobody "'$program' get -q --from=$WEIR_RDMA_ADDRESS --port=$port \
		$host:file $(pwd)/closed/new" >out 2>err &&
		wrong 'it wrote there'
	says 'this end cannot open the file: Permission denied'
}

t_read_only()
{
	stop
	serve srv --read-only
	expect 1 put -q file "$host:new"
	says 'read-only'
	expect 0 get -q "$host:file" back && same file back
	rm -f back
	stop
	serve srv
	first_port=$port
}

t_nobody_serves()
{
	expect 1 "$program" get --from="$WEIR_RDMA_ADDRESS" --port=1 \
		"$host:file" back
	says 'there is no server'
	expect 1 "$program" get --from="$WEIR_RDMA_ADDRESS" \
		no-such-host.invalid:file back
	says 'no such host'
}

# has_rest DIRECTORY
has_rest()
{
	for rest in "$1"/.weir-rdma-*; do
		[ -e "$rest" ] && return
	done
	return 1
}

t_a_client_that_is_killed_leaves_nothing()
{
	begin put huge "$host:killed"
	soon has_rest srv || wrong 'it has not begun'
	kill -KILL $pid
	wait $pid
	server_says '"error":"the connection was lost'
	no_rest srv
	[ ! -e srv/killed ] || wrong 'it has a name'
	expect 0 get -q "$host:file" back && same file back
	rm -f back
}

t_a_server_that_is_killed_leaves_nothing_at_the_client()
{
	mkdir own
	begin get "$host:huge" own/huge
	soon has_rest own || wrong 'it has not begun'
	kill -KILL $server
	wait $server
	server=
	wait $pid && wrong 'it does not complain'
	says 'the connection was lost'
	[ -z "$(ls -A own)" ] || wrong "a rest: $(ls -A own)"
	rmdir own
	serve srv
	first_port=$port
}

t_wrong_usage()
{
	for args in '' 'serve' 'serve a b' 'put file' 'put file nohost' \
	    'get host: f' 'get :name f' 'copy a b' 'put --block=1 f h:n' \
	    'put --depth=65 f h:n' 'put --timeout=0 f h:n' 'put --no f h:n' \
	    'serve --clients=0 d' 'get [::1:name f' 'serve --port=7K d' \
	    'put --block=2049K f h:n'; do
		# shellcheck disable=SC2086 # A list.
		expect 2 "$program" $args
	done
	for args in 'serve --block=4K d' 'serve --from=h d' 'serve --progress d' \
	    'serve --depth=1 d' 'put --fsync f h:n' 'put --listen=h f h:n' \
	    'get --read-only h:n f' 'get --clients=1 h:n f'; do
		# shellcheck disable=SC2086 # A list.
		expect 2 "$program" $args
		says 'is not for'
	done
	expect 0 "$program" --help
	expect 0 "$program" --version
}

t_no_such_directory()
{
	expect 3 "$program" serve --listen="$host" nothing
	says 'No such file'
}

t_without_verbs()
{
	expect 3 "$program" serve --listen=127.0.0.1 .
	says 'built without verbs'
	expect 3 "$program" get 127.0.0.1:f g
	says 'built without verbs'
	[ ! -e g ] || wrong 'it made a file'
}

t_without_a_device()
{
	mkdir empty
	expect 3 "$program" serve --listen=127.0.0.1 empty
	says 'there is no RDMA device'
	echo data >f
	expect 1 "$program" put f 127.0.0.1:f
	says 'this end cannot connect'
	expect 1 "$program" get 127.0.0.1:f g
	says 'this end cannot connect'
	[ ! -e g ] || wrong 'it made a file'
}

[ "${WEIR_RDMA_DEVICE2:-}" ] || {
	run t_wrong_usage
	if [ "$verbs" ]; then
		run t_no_such_directory
		run t_without_a_device
	else
		run t_without_verbs
	fi
	echo "1..$n"
	exit $bad
}
a_file_system
mkdir -p srv/d
head -c ${mib}M /dev/urandom >file
chmod 640 file
cp file srv/file
truncate -s 32M huge srv/huge
serve srv
first_port=$port
run t_what_is_put_can_be_got
run t_every_size
run t_what_is_there_is_replaced_and_a_directory_is_not
run t_no_such_file
run t_nothing_outside_is_reached
run t_a_full_disk
run t_permission
run t_read_only
run t_nobody_serves
run t_a_client_that_is_killed_leaves_nothing
run t_a_server_that_is_killed_leaves_nothing_at_the_client
stop
echo "1..$n"
exit $bad
