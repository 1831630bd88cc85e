#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Servers that are killed and started anew at once, at the same address; and
# servers that are started beside one that runs, which are refused.
#
# Environment: WEIR_NBD and WEIR_PROXY are the programs, WEIR is weir.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

weir=$(absolute "${WEIR:-tools/weir}")
nbd=$(absolute "${WEIR_NBD:-programs/weir-nbd/weir-nbd}")
proxy=$(absolute "${WEIR_PROXY:-programs/weir-proxy/weir-proxy}")
libs=$(absolute .libs)
enter test-restart
times=12
[ ! -d "$libs" ] || export LD_LIBRARY_PATH="$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
pid=

# Not by libtool's wrapper, which takes longer than the kernel does.
begin()
{
	real=${1%/*}/.libs/${1##*/}
	if [ -x "$real" ]; then
		shift
		set -- "$real" "$@"
	fi
	WEIR_BACKEND=$backend "$@" >out 2>err &
	pid=$!
}

# end SIGNAL: its status to $status.
end()
{
	status=0
	kill "-$1" "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null || status=$?
	pid=
}

# Whether somebody listens at TCP port $port, as the kernel sees it.
taken() { grep -qi ":$(printf %04X "$port") 0\{8\}:0000 0A" /proc/net/tcp; }

# wait until the server listens; false if it has ended before.
await()
{
	while kill -0 "$pid" 2>/dev/null; do
		"$@" && return
		sleep 0.01
	done
	wrong "it ended: $(cat err)"
}

# A port that nobody has, below those that the system gives away.
find_port()
{
	port=$((10000 + $$ % 2000 * 11))
	while taken; do
		port=$((port + 1))
	done
}

# Of a program of which others have sockets yet, the kernel frees them late.
restarts()
{
	listens=$1
	shift
	i=0
	while [ "$i" -lt "$times" ] && [ ! "$why" ]; do
		i=$((i + 1))
		begin "$@"
		await "$listens" && end KILL
	done
	[ ! "$pid" ] || end KILL
}

# The second one ends with status $1 and says $2; the first one goes on.
refuses_second()
{
	second=$1
	pattern=$2
	listens=$3
	shift 3
	begin "$@"
	await "$listens" || return
	WEIR_BACKEND=$backend expect "$second" "$@"
	says "$pattern"
	kill -0 "$pid" || wrong 'the first one has ended'
	end KILL
}

# It has a socket for each core; the port itself may still be the old one's.
# shellcheck disable=SC2010 # Names of links.
proxy_has() { [ "$(ls -l "/proc/$pid/fd" 2>/dev/null | grep -c socket:)" -ge 2 ]; }
nbd_says() { grep -q '^listening' out; }

t_weir_nbd_restarts_after_a_kill()
{
	find_port
	restarts nbd_says "$nbd" --port="$port" --cores=2 --export=size=1M
}

t_weir_nbd_restarts_at_a_name()
{
	restarts nbd_says "$nbd" --unix=s.sock --cores=2 --export=size=1M
}

t_weir_nbd_refuses_the_port_of_another()
{
	find_port
	refuses_second 3 'in use' nbd_says "$nbd" --port="$port" \
		--export=size=1M
}

t_weir_proxy_restarts_after_a_kill()
{
	find_port
	restarts proxy_has "$proxy" -n 2 "127.0.0.1:$port" unix:none.sock
}

t_weir_proxy_refuses_the_port_of_another()
{
	find_port
	refuses_second 1 'in use' proxy_has "$proxy" -n 2 "127.0.0.1:$port" \
		unix:none.sock
}

# The page of numbers is larger than a file may be.
t_weir_nbd_serves_though_it_cannot_publish()
{
	rm -f s.sock
	begin sh -c 'ulimit -f 64; exec "$0" "$@"' "$nbd" --unix=s.sock \
		--stats --export=size=1M
	await nbd_says || return
	end TERM
	[ "$status" = 0 ] || wrong "status $status"
	says "no numbers for 'weir top'"
	grep -q '^bytes-read' out || wrong 'it showed no numbers at the end'
}

echo 1..12
for backend in uring ev; do
	skip=$(no_backend "$backend" "$weir")
	run t_weir_nbd_restarts_after_a_kill "$skip"
	run t_weir_nbd_restarts_at_a_name "$skip"
	run t_weir_nbd_refuses_the_port_of_another "$skip"
	run t_weir_proxy_restarts_after_a_kill "$skip"
	run t_weir_proxy_refuses_the_port_of_another "$skip"
	run t_weir_nbd_serves_though_it_cannot_publish "$skip"
done
exit "$bad"
