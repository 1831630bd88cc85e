#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weir-proxy with TLS: from clients, to targets, on both sides; certificates that are
# wrong, what is cut off, headers of the PROXY protocol before the handshake, and a new
# certificate by a reload.
#
# Environment: WEIR_PROXY is weir-proxy; WEIR_TEST_BACKEND is one backend alone.
# shellcheck disable=SC2317,SC2329 # Each t_ function is called by run.
# shellcheck source=tests/support/fixture.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"
proxy=$(absolute "${WEIR_PROXY:-programs/weir-proxy/weir-proxy}")
weir=$(absolute "${WEIR:-tools/weir}")
ends=$(absolute "${srcdir:-$(dirname "$0")/../..}/tests/programs/weir-proxy-tls.py")
enter test-weir-proxy-tls

# ports COUNT: that are free now, into $1 to $N of the caller.
ports()
{
	python3 -c 'import socket, sys
s = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*[x.getsockname()[1] for x in s])' "$1"
}

# begin PORT: the lines of a configuration are on standard input; waits until it listens at
# PORT.
begin()
{
	cat >conf
	echo 'log log' >>conf
	: >log
	WEIR_BACKEND=$backend "$proxy" -n 2 -f conf 2>said &
	pid=$!
	for _ in $(seq 1000); do
		python3 -c 'import socket, sys
socket.create_connection(("127.0.0.1", int(sys.argv[1]))).close()' "$1" \
			2>/dev/null && return
		sleep 0.01
	done
	wrong "it does not listen: $(cat said)"
}

# begin_one [LINE]: it listens at $port alone.
begin_one()
{
	port=$(ports 1)
	begin "$port" <<-EOF
		listen 127.0.0.1:$port cert=ec.pem to 127.0.0.1:$echo_port
		${1:-}
	EOF
}

end()
{
	kill -TERM "$pid"
	wait "$pid" || wrong "its status is $?: $(cat said)"
}

serve()
{
	: >served
	python3 "$ends" serve >served &
	server=$!
	for _ in $(seq 1000); do
		[ -s served ] && break
		sleep 0.01
	done
	echo_port=$(head -n 1 served)
}

talks()
{
	got=$(python3 "$ends" talk "$@" 2>&1)
	[ "$got" = ok ] || wrong "talk $*: $got"
}

# does_not_talk WHY ...
does_not_talk()
{
	want=$1
	shift
	got=$(python3 "$ends" talk "$@" 2>&1)
	case $got in
	*$want*) ;;
	*) wrong "talk $*: '$got', not '$want'" ;;
	esac
}

t_bytes_go_both_ways_with_tls_on_any_side()
{
	# shellcheck disable=SC2046 # Words.
	set -- $(ports 4)
	begin "$1" <<-EOF
		listen 127.0.0.1:$1 cert=ec.crt key=ec.key alpn=h2,http/1.1 to 127.0.0.1:$echo_port
		listen 127.0.0.1:$2 to 127.0.0.1:$1 tls tls-ca=ec.crt
		listen 127.0.0.1:$3 cert=ec.pem to 127.0.0.1:$2
		listen 127.0.0.1:$4 cert=ec.pem to localhost:$1 tls tls-ca=ec.crt tls-name=server.test.
	EOF
	talks "$1" 10 --ca ec.crt --alpn http/1.1
	does_not_talk 'no application protocol' "$1" 10 --ca ec.crt --alpn x
	talks "$1" 3000000 --ca ec.crt
	talks "$2" 3000000
	talks "$3" 3000000 --ca ec.crt
	talks "$4" 3000000 --ca ec.crt
	end
	! grep -v -e ' done$' -e ' up=0 down=0 .*\(reset\|bad-tls\)$' log ||
		wrong "not done: $(cat log)"
	grep -q ' up=3000000 down=3000000 .* done$' log || wrong "$(cat log)"
}

t_certificates_that_are_wrong_are_refused()
{
	# shellcheck disable=SC2046 # Words.
	set -- $(ports 6)
	begin "$1" <<-EOF
		listen 127.0.0.1:$1 cert=other.pem to 127.0.0.1:$echo_port
		listen 127.0.0.1:$2 to 127.0.0.1:$1 tls tls-ca=ec.crt
		listen 127.0.0.1:$3 to 127.0.0.1:$1 tls tls-ca=other.crt tls-name=server.test
		listen 127.0.0.1:$4 to 127.0.0.1:$1 tls tls-verify=no
		listen 127.0.0.1:$5 cert=ec.pem client-ca=other.crt to 127.0.0.1:$echo_port
		listen 127.0.0.1:$6 to 127.0.0.1:$1 127.0.0.1:$5 tls tls-ca=ec.crt
	EOF
	does_not_talk ConnectionReset "$2" 10
	becomes said "127.0.0.1:$1: TLS: certificate verify failed: self-signed"
	does_not_talk ConnectionReset "$3" 10
	becomes said 'hostname mismatch'
	talks "$4" 1000
	does_not_talk 'alert certificate required' "$5" 10 --ca ec.crt
	does_not_talk 'alert unknown ca' "$5" 10 --ca ec.crt --cert ec.pem
	talks "$5" 1000 --ca ec.crt --cert other.pem
	end
	grep -q "127.0.0.1:$1 .* no-target$" log || wrong "$(cat log)"
	grep -q "127.0.0.1:$5 - .* bad-tls$" log || wrong "$(cat log)"
	[ "$(grep -c "$1: TLS: certificate verify failed: self-signed" said)" -le 2 ] ||
		wrong "it says the same all the time: $(cat said)"
}

t_target_without_tls_is_not_the_only_one()
{
	# shellcheck disable=SC2046 # Words.
	set -- $(ports 2)
	begin "$1" <<-EOF
		listen 127.0.0.1:$1 cert=ec.pem to 127.0.0.1:$echo_port
		listen 127.0.0.1:$2 to 127.0.0.1:$echo_port 127.0.0.1:$1 tls tls-ca=ec.crt
		connect-timeout 0.5
	EOF
	talks "$2" 1000
	talks "$2" 1000
	end
}

t_client_without_tls_is_logged()
{
	begin_one
	does_not_talk 'it ended after' "$port" 1000
	end
	# The other is that of begin.
	[ "$(grep -c ' bad-tls$\| reset$' log)" = 2 ] || wrong "$(cat log)"
}

t_cut_is_no_end()
{
	begin_one
	: >served
	python3 "$ends" cut "$port" --ca ec.crt || wrong 'it could not be cut'
	becomes log ' up=10 down=10 .* reset$'
	becomes served '^reset$'
	talks "$port" 10 --ca ec.crt
	becomes served '^end$'
	end
}

t_reset_of_a_target_is_no_end()
{
	# shellcheck disable=SC2046 # Words.
	set -- $(ports 2)
	begin "$1" <<-EOF
		rest 0
		listen 127.0.0.1:$1 cert=ec.pem to 127.0.0.1:$2
	EOF
	for _ in 1 2 3 4; do
		got=$(python3 "$ends" break "$1" --target "$2" --ca ec.crt 2>&1)
		[ "$got" = reset ] || wrong "it was: $got"
	done
	end
}

t_idle_connection_is_reset()
{
	begin_one 'idle-timeout 0.2'
	[ "$(python3 "$ends" hold "$port" --ca ec.crt)" = 'ready
reset' ] || wrong 'it was not reset'
	becomes log ' up=10 down=10 .* idle$'
	talks "$port" 3000000 --ca ec.crt
	end
}

t_headers_of_the_proxy_protocol_come_before_the_handshake()
{
	# shellcheck disable=SC2046 # Words.
	set -- $(ports 2)
	begin "$1" <<-EOF
		listen 127.0.0.1:$1 accept-proxy=127.0.0.0/8 cert=ec.pem to 127.0.0.1:$echo_port
		listen 127.0.0.1:$2 accept-proxy=127.0.0.0/8 to 127.0.0.1:$1 tls tls-ca=ec.crt proxy-v2
	EOF
	talks "$1" 1000 --ca ec.crt \
		--header 'PROXY TCP4 192.0.2.7 192.0.2.8 1000 443\r\n'
	talks "$2" 100000 --header 'PROXY TCP4 192.0.2.9 192.0.2.8 1000 443\r\n'
	end
	grep -q "192.0.2.7:1000 127.0.0.1:$1 .* done$" log || wrong "$(cat log)"
	grep -q "192.0.2.9:1000 127.0.0.1:$1 .* done$" log || wrong "$(cat log)"
}

t_reload_brings_another_certificate()
{
	cp ec.pem now.pem
	# shellcheck disable=SC2046 # Words.
	set -- $(ports 1)
	begin "$1" <<-EOF
		listen 127.0.0.1:$1 cert=now.pem to 127.0.0.1:$echo_port
	EOF
	python3 "$ends" hold "$1" --ca ec.crt >held &
	client=$!
	becomes held ready
	echo nothing >now.pem
	kill -HUP "$pid"
	becomes said 'configuration: TLS: .*now.pem'
	talks "$1" 1000 --ca ec.crt
	cp new.pem now.pem
	kill -HUP "$pid"
	for _ in $(seq 1000); do
		python3 "$ends" talk "$1" 10 --ca new.crt >/dev/null 2>&1 && break
		sleep 0.01
	done
	talks "$1" 1000 --ca new.crt
	does_not_talk CERTIFICATE_VERIFY "$1" 10 --ca ec.crt
	! grep -e reset -e end held || wrong 'the one of before has ended'
	kill -INT "$pid"
	wait "$pid" || wrong "its status is $?: $(cat said)"
	wait "$client"
	grep -q '^reset$' held || wrong "a stop was: $(cat held)"
}

t_configurations_that_make_no_sense_are_refused()
{
	while read -r says_what words; do
		echo "listen 127.0.0.1:1 $words" >conf
		expect 1 "$proxy" --check -f conf
		says "$(echo "$says_what" | tr _ ' ')" ||
			wrong "said '$(cat err)' of '$words'"
	done <<-EOF
		need_cert key=ec.key to 127.0.0.1:2
		need_cert alpn=h2 to 127.0.0.1:2
		a_value_is_missing cert= to 127.0.0.1:2
		twice cert=ec.pem cert=other.pem to 127.0.0.1:2
		nowhere cert=nowhere to 127.0.0.1:2
		TLS cert=ec.crt to 127.0.0.1:2
		TLS cert=ec.crt key=other.key to 127.0.0.1:2
		without_tls to 127.0.0.1:2 tls check=1 check-get=/x
		need_tls to 127.0.0.1:2 tls-ca=ec.crt
		need_tls to 127.0.0.1:2 tls-verify=no
		not_a_name to 127.0.0.1:2 tls tls-name=a..b
		not_the_address to 127.0.0.1:2 tls-verify=yes
	EOF
	echo 'listen 127.0.0.1:1 cert=ec.pem to 127.0.0.1:2 tls' >conf
	expect 0 "$proxy" --check -f conf
}

command -v openssl >/dev/null || no_openssl='openssl is not installed'
[ "${no_openssl:-}" ] || {
	cert ec server.test
	cert other other.test
	cert new server.test
	serve
}
trap 'kill $server 2>/dev/null; cd / && rm -rf "$dir"' EXIT
for backend in $(backends); do
	reason=$(no_backend "$backend" "$weir")
	[ -z "$reason" ] || {
		result ok 'all of it' "$reason"
		continue
	}
	run t_bytes_go_both_ways_with_tls_on_any_side "${no_openssl:-}"
	run t_certificates_that_are_wrong_are_refused "${no_openssl:-}"
	run t_target_without_tls_is_not_the_only_one "${no_openssl:-}"
	run t_client_without_tls_is_logged "${no_openssl:-}"
	run t_cut_is_no_end "${no_openssl:-}"
	run t_reset_of_a_target_is_no_end "${no_openssl:-}"
	run t_idle_connection_is_reset "${no_openssl:-}"
	run t_headers_of_the_proxy_protocol_come_before_the_handshake \
		"${no_openssl:-}"
	run t_reload_brings_another_certificate "${no_openssl:-}"
	run t_configurations_that_make_no_sense_are_refused "${no_openssl:-}"
done
echo "1..$n"
exit "$bad"
