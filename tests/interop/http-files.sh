#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The example 43-http-files, a server on streams, and clients that know nothing
# of it: curl, wrk, and hostile ones, over both backends.
#
# Environment: WEIR_HTTP is the program; WEIR_TEST_BACKEND is one backend alone.
# shellcheck disable=SC2317,SC2329 # Each t_ function is called by run.
# shellcheck source=tests/support/fixture.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"
server=$(absolute "${WEIR_HTTP:-examples/43-http-files}")
weir=$(absolute "${WEIR:-tools/weir}")
here=$(absolute "${srcdir:-$(dirname "$0")/../..}/tests/interop")
enter http-files

has() { command -v "$1" >/dev/null || echo "$1 is not installed"; }

mkdir -p www/dir
echo secret >outside
echo small >www/small.txt
echo index >www/index.html
echo 'with space' >'www/with space'
head -c 3000000 /dev/urandom >www/large
: >www/empty
ln -s ../outside www/link
ln -s small.txt www/inside
ln -s "$dir/outside" www/absolute
mkfifo www/fifo
touch -d '2026-01-02 03:04:05 UTC' www/small.txt

start()
{
	: >where
	# shellcheck disable=SC3045 # Of a shell that cannot, tests with few clients pass.
	ulimit -n "$(ulimit -Hn)" 2>/dev/null
	# What fills memory that is allocated would make all of it used.
	WEIR_BACKEND=$backend env -u MALLOC_PERTURB_ "$server" 0 www >where \
		2>server.err &
	pid=$!
	for _ in $(seq 500); do
		[ -s where ] && break
		sleep 0.01
	done
	url=$(cat where)
	port=${url##*:}
	port=${port%/}
}

stop()
{
	kill "$pid"
	wait "$pid" 2>/dev/null
	[ ! -s server.err ] || wrong "it said: $(cat server.err)"
}

# gets STATUS PATH [OPTION...]: the answer is in got, its header in head.
gets()
{
	want=$1
	path=$2
	shift 2
	status=$(curl -s --path-as-is -m 20 -D head -o got -w '%{http_code}' \
		"$@" "$url$path")
	[ "$status" = "$want" ] || wrong "$status, not $want, of $path $*"
}

same() { cmp -s got "$1" || wrong "not the bytes of $1"; }

field() { grep -qi "^$1" head || wrong "no '$1' in $(cat head)"; }

# asks STATUS BYTES: a request as it is, of which curl would not make.
asks()
{
	answer=$(printf "%b" "$2" | python3 -c '
import re, socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.settimeout(20)
s.sendall(sys.stdin.buffer.read())
s.shutdown(socket.SHUT_WR)
got = b""
while True:
    part = s.recv(65536)
    if not part:
        break
    got += part
sys.stdout.write(" ".join(re.findall("HTTP/1[.]1 ([0-9]+) ",
                                     got.decode("latin1"))))
' "$port")
	[ "$answer" = "$1" ] || wrong "'$answer', not '$1', to $(echo "$2" |
		head -c 100)"
}

t_files_are_served()
{
	gets 200 small.txt
	same www/small.txt
	field 'Content-Type: text/plain'
	field 'Last-Modified: Fri, 02 Jan 2026 03:04:05 GMT'
	gets 200 large
	same www/large
	gets 200 ''
	same www/index.html
	gets 200 'with%20space'
	same 'www/with space'
	gets 200 inside
	gets 200 'small.txt?query=1'
	same www/small.txt
	gets 200 empty
	field 'Content-Length: 0'
	gets 200 large --http1.0
	same www/large
	curl -s -I -m 20 "${url}large" >./head || wrong 'no head'
	field 'Content-Length: 3000000'
	got=$(curl -s -m 20 -w '%{num_connects}' -o got -o got -o got \
		"${url}large" "${url}small.txt" "${url}missing")
	[ "$got" = 100 ] || wrong "connections: $got"
}

t_parts_are_served()
{
	gets 206 large -r 1000-2000999
	tail -c +1001 www/large | head -c 2000000 >part
	same part
	field 'Content-Range: bytes 1000-2000999/3000000'
	gets 206 large -r 2999999-
	tail -c 1 www/large >part
	same part
	gets 206 large -r -10
	tail -c 10 www/large >part
	same part
	gets 206 large -r 0-99999999
	same www/large
	gets 416 large -r 3000000-
	field 'Content-Range: bytes .*/3000000'
	gets 416 empty -r 0-0
	gets 416 large -r -0
	gets 200 large -r 5-4
	gets 200 large -r 0-1,5-6
	date='Fri, 02 Jan 2026 03:04:05 GMT'
	gets 206 small.txt -r 1-2 -H "If-Range: $date"
	gets 200 small.txt -r 1-2 -H 'If-Range: Fri, 02 Jan 2026 03:04:06 GMT'
	gets 200 small.txt -r 1-2 -H 'If-Range: "tag"'
	gets 304 small.txt -H "If-Modified-Since: $date"
	gets 304 small.txt -H 'If-Modified-Since: Sat, 03 Jan 2026 00:00:00 GMT'
	gets 200 small.txt -H 'If-Modified-Since: Fri, 02 Jan 2026 03:04:04 GMT'
	gets 200 small.txt -H 'If-Modified-Since: yesterday'
}

t_no_path_leads_out()
{
	for path in ../outside %2e%2e/outside dir/../../outside ..%2foutside \
		/../outside //outside link absolute missing dir small.txt/x \
		dir/.. ..; do
		gets 404 "$path"
	done
	gets 403 fifo
	gets 400 'a%00b'
	gets 400 'a%zz'
	gets 400 'a%'
	gets 400 'a%0ab'
}

t_hostile_requests_are_refused()
{
	h='Host: h\r\n'
	asks 400 'nonsense\r\n\r\n'
	asks 400 'GET / HTTP/1.1\r\n\r\n'
	asks 400 "GET / HTTP/1.1\r\n$h$h\r\n"
	asks 400 "GET  / HTTP/1.1\r\n$h\r\n"
	asks 400 "GET small.txt HTTP/1.1\r\n$h\r\n"
	asks 400 "GET / HTTP/1.1\r\nHost : h\r\n\r\n"
	asks 400 "GET / HTTP/1.1\r\n$h folded\r\n\r\n"
	asks 400 "GET / HTTP/1.1\r\n${h}A: b\nC: d\r\n\r\n"
	asks 400 "GET / HTTP/1.1\r\n$h: empty\r\n\r\n"
	asks 400 "GET /\0000 HTTP/1.1\r\n$h\r\n"
	asks 404 "GET /.. HTTP/1.1\r\n${h}Content-Length: 31\r\n\r\nGET / \
HTTP/1.1\r\n$h\r\n"
	asks 505 "GET / HTTP/2.0\r\n$h\r\n"
	asks 405 "DELETE / HTTP/1.1\r\n$h\r\n"
	asks 413 "GET / HTTP/1.1\r\n${h}Content-Length: 5\r\n\r\nhello"
	asks 413 "GET / HTTP/1.1\r\n${h}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
	long=$(head -c 9000 /dev/zero | tr '\0' a)
	asks 431 "GET / HTTP/1.1\r\n${h}A: $long\r\n\r\n"
	asks 414 "GET /$(echo "$long" | head -c 8100) HTTP/1.1\r\n$h\r\n"
	asks '' "GET / HTTP/1.1\r\n$h"
	asks '' ''
}

t_pipelined_requests_are_answered_in_order()
{
	one='HTTP/1.1\r\nHost: h\r\n\r\n'
	asks '200 404 200 200' "GET /large ${one}GET /missing ${one}HEAD /large \
${one}GET /small.txt $one"
	asks '200 200' "GET /empty ${one}GET / HTTP/1.1\r\nHost: h\r\n\
Connection: close\r\n\r\nGET / $one"
	asks '200' "GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n"
	asks '200 200' "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n\
GET / HTTP/1.0\r\n\r\n"
}

# Its answers do not fit into any buffer while it does not read.
t_slow_client_gets_all_answers()
{
	python3 -c '
import socket, sys, threading, time
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
one = b"GET /small.txt HTTP/1.1\r\nHost: h\r\n"
def ask():
    s.sendall((one + b"\r\n") * 39999 + one + b"Connection: close\r\n\r\n")
asker = threading.Thread(target=ask)
asker.start()
time.sleep(0.5)
got = b"".join(iter(lambda: s.recv(1 << 20), b""))
asker.join()
sys.exit("%d answers" % got.count(b"\r\n\r\nsmall\n")
         if got.count(b"\r\n\r\nsmall\n") != 40000 else 0)
' "$port" 2>out || wrong "$(cat out)"
}

t_many_at_once_by_wrk()
{
	for name in small.txt large; do
		wrk -t 1 -c 100 -d 1 --timeout 60 "$url$name" >out || wrong 'wrk failed'
		! grep -E 'Non-2xx|Socket errors' out || wrong "$(cat out)"
	done
}

t_ten_thousand_clients_at_once()
{
	expect 0 python3 "$here/http-many.py" "$port" "$pid"
}

no_python=$(has python3)
for backend in $(backends); do
	reason=$(no_backend "$backend" "$weir")
	[ -z "$reason" ] || {
		result ok 'all of it' "$reason"
		continue
	}
	start
	run t_files_are_served "$(has curl)"
	run t_parts_are_served "$(has curl)"
	run t_no_path_leads_out "$(has curl)"
	run t_hostile_requests_are_refused "$no_python"
	run t_pipelined_requests_are_answered_in_order "$no_python"
	run t_slow_client_gets_all_answers "$no_python"
	run t_many_at_once_by_wrk "$(has wrk)"
	run t_ten_thousand_clients_at_once "$no_python"
	run stop
done
echo "1..$n"
exit "$bad"
