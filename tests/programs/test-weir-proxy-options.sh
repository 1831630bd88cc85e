#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The command line and the configuration of weir-proxy.  What it does with
# connections is in test-weir-proxy.c.
#
# Environment: WEIR_PROXY is the program.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

man=$(absolute "${srcdir:-$(dirname "$0")/../..}/docs/man/weir-proxy.1")
proxy=$(absolute "${WEIR_PROXY:-programs/weir-proxy/weir-proxy}")
enter test-weir-proxy

# refused STATUS PATTERN OPTIONS...
refused()
{
	status=$1
	pattern=$2
	shift 2
	expect "$status" "$proxy" "$@"
	says_only "$pattern"
}

# makes_no_sense PATTERN LINE
makes_no_sense()
{
	echo "$2" >conf
	refused 1 "line 1: $1" --check --file conf
}

t_wrong_usage_is_said_in_one_message()
{
	refused 2 'LISTEN TARGET'
	refused 2 'give a TARGET' 127.0.0.1:1
	refused 2 ' -x: there is no such option' -x
	refused 2 ' -x: there is no such option' -c -cx
	refused 2 ' -V: there is no such option' -V
	refused 2 ' --more: there is no such option' --more
	refused 2 ' --more=1: there is no such option' --check --more=1
	refused 2 ' --check: takes no value' --check=1
	refused 2 ' -f: wants a value' -f
	refused 2 ' --file: wants a value' --file
	refused 2 ' -n: wants a value' -c -n
	refused 2 '1 to 256' -n 0 127.0.0.1:1 127.0.0.1:2
	refused 2 '1 to 256' -n 257 127.0.0.1:1 127.0.0.1:2
	refused 2 '1 to 256' -n 2x 127.0.0.1:1 127.0.0.1:2
}

t_what_a_configuration_may_not_say()
{
	makes_no_sense 'unknown word: hear' 'hear 127.0.0.1:1'
	makes_no_sense 'not an address to listen at: 127.0.0.1' \
		'listen 127.0.0.1 to 127.0.0.1:2'
	makes_no_sense 'not an address to listen at: 127.0.0.1:0' \
		'listen 127.0.0.1:0 to 127.0.0.1:2'
	makes_no_sense 'not an address to listen at: ::1:80' \
		'listen ::1:80 to 127.0.0.1:2'
	makes_no_sense 'not the address of a target: a..b:80' \
		'listen 127.0.0.1:1 to a..b:80'
	makes_no_sense 'not the address of a target: 127.1:80' \
		'listen 127.0.0.1:1 to 127.1:80'
	makes_no_sense 'not the address of a target: 10.0.0.1.:80' \
		'listen 127.0.0.1:1 to 10.0.0.1.:80'
	makes_no_sense 'not the address of a target: localhost:0' \
		'listen 127.0.0.1:1 to localhost:0'
	makes_no_sense 'not an address to listen at: localhost:80' \
		'listen localhost:80 to 127.0.0.1:1'
	makes_no_sense 'a weight is .*: weight=2' \
		'listen 127.0.0.1:1 to weight=2 127.0.0.1:2'
	makes_no_sense 'a weight is .*: weight=0' \
		'listen 127.0.0.1:1 to 127.0.0.1:2 weight=0'
	makes_no_sense 'roundrobin or leastconn: balance=random' \
		'listen 127.0.0.1:1 to 127.0.0.1:2 balance=random'
	makes_no_sense 'not a number of seconds in range: check=0' \
		'listen 127.0.0.1:1 to 127.0.0.1:2 check=0'
	makes_no_sense 'check-get needs check=SECONDS' \
		'listen 127.0.0.1:1 to 127.0.0.1:2 check-get=/'
	makes_no_sense 'not a path .*: check-get=health' \
		'listen 127.0.0.1:1 to 127.0.0.1:2 check=1 check-get=health'
	makes_no_sense 'not the networks of proxies: accept-proxy=10.0.0.0/33' \
		'listen 127.0.0.1:1 accept-proxy=10.0.0.0/33 to 127.0.0.1:2'
	makes_no_sense 'not the networks of proxies: accept-proxy=' \
		'listen 127.0.0.1:1 accept-proxy= to 127.0.0.1:2'
	makes_no_sense 'not a number in range' 'fall 0'
	makes_no_sense 'give addresses.*' 'nameservers'
	for servers in localhost 127.0.0.1:0 127.0.0.1:65536 127.0.0.1: 127.1 \
		'*:53' unix:/a '[127.0.0.1' '[::1]53' ::1:x ',' '127.0.0.1,x'; do
		makes_no_sense 'not the addresses of nameservers' \
			"nameservers $servers"
	done
	makes_no_sense 'not the address of a target: a.0X10:80' \
		'listen 127.0.0.1:1 to a.0X10:80'
	makes_no_sense 'not the address of a target: 127.0.0.1:65536' \
		'listen 127.0.0.1:1 to 127.0.0.1:65536'
	makes_no_sense 'not the address of a target: unix:' \
		'listen 127.0.0.1:1 to unix:'
	makes_no_sense 'this address is there twice' \
		'listen 127.0.0.1:1 127.0.0.1:1 to 127.0.0.1:2'
	makes_no_sense 'give .*' 'listen 127.0.0.1:1'
	makes_no_sense 'give .*' 'listen to 127.0.0.1:1'
	makes_no_sense 'no target' 'listen 127.0.0.1:1 to'
	makes_no_sense 'not a number in range' 'connections 0'
	makes_no_sense 'not a number in range' 'connections many'
	makes_no_sense 'not a number in range' 'idle-timeout -1'
	makes_no_sense 'not a number in range' 'drain nan'
	makes_no_sense 'not a number in range' 'buffer 4095'
	makes_no_sense 'not a number in range' 'rest'
	makes_no_sense 'not a number in range' 'unix-mode 0680'
	makes_no_sense 'not a number in range' 'unix-mode 1777'
	makes_no_sense 'not a number in range' 'unix-mode -1'
	makes_no_sense 'a word too many' 'rest 1 2'
	makes_no_sense 'give the path of a log' 'log # nowhere'
}

t_what_it_may_say()
{
	cat >conf <<-'END'
	# A comment, and an empty line.

	listen 127.0.0.1:1 [::1]:1 unix:/run/a to 127.0.0.1:2 unix:/b proxy-v2
	listen *:3 to [::1]:4	# Another.
	listen *:5 accept-proxy=10.0.0.0/8,fd00::/8,unix to a.example:80 weight=3 b.example.:8080 proxy-v1 balance=leastconn check=2 check-get=/up
	listen *:6 to x.0xylo:80
	nameservers 127.0.0.1:53,127.0.0.2,::1,[::1],[2001:db8::53]:5353
	resolve 10
	rise 1
	fall 5
	connect-timeout 0.5
	idle-timeout 0
	rest 1
	drain 2.5
	connections 100
	buffer 4096
	zerocopy 65536
	splice 0
	unix-mode 0660
	log /tmp/log
	END
	expect 0 "$proxy" --check --file conf
	expect 0 "$proxy" --check --file conf --set 'drain 1'
	refused 1 'command line: unknown word' --check --file conf \
		--set 'drains 1'
	refused 1 'command line: not the address of a target: b/c:1' --check \
		127.0.0.1:1 b/c:1
	: >conf
	refused 1 'it is empty' --check --file conf
	echo '# Nothing.' >conf
	refused 1 'nowhere to listen' --check --file conf
	refused 1 'No such file' --check --file none
}

t_what_cannot_be_had_is_said()
{
	refused 1 'none/at' unix:none/at 127.0.0.1:1
	refused 1 'none/log' --set 'log none/log' unix:there 127.0.0.1:1
	[ ! -e there ] || wrong 'the name is still there'
}

t_a_file_is_not_taken_for_a_socket_that_was_left()
{
	echo precious >there
	refused 1 'Address already in use' unix:there 127.0.0.1:1
	[ "$(cat there)" = precious ] || wrong 'the file is gone'
	rm -f there
}

t_help_and_manual_have_the_same_options()
{
	expect 0 "$proxy" --help
	for long in file set cores check; do
		shows "--${long}[ =]"
		grep -q "\\\\-\\\\-$long" "$man" ||
			wrong "--$long is not in the manual"
	done
	expect 0 "$proxy" --version
	shows '^weir-proxy [0-9]'
}

t_every_setting_is_in_the_manual()
{
	for word in listen connect-timeout idle-timeout rest drain connections \
			buffer zerocopy splice unix-mode log; do
		grep -q "^\.B.* \"*$(echo "$word" | sed 's/-/.*-/')" "$man" ||
			wrong "$word is not in the manual"
	done
}

run t_wrong_usage_is_said_in_one_message
run t_what_a_configuration_may_not_say
run t_what_it_may_say
run t_what_cannot_be_had_is_said
run t_a_file_is_not_taken_for_a_socket_that_was_left
run t_help_and_manual_have_the_same_options
run t_every_setting_is_in_the_manual
echo "1..$n"
exit $bad
