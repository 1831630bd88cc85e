#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# libweir-tls and openssl(1) at the other end, over both backends: versions,
# ciphers, protocols, sessions, certificates, ends and cuts.
#
# Environment: TLS_PEER is tls-peer; WEIR_TEST_BACKEND is one backend alone.
# shellcheck disable=SC2317,SC2329 # Each t_ function is called by run.
# shellcheck source=tests/support/fixture.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"
peer=$(absolute "${TLS_PEER:-tests/tls/tls-peer}")
weir=$(absolute "${WEIR:-tools/weir}")
enter test-tls-openssl

# One for server.test that has expired.
old_cert()
{
	openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-keyout old.key -out old.csr -subj /CN=server.test \
		>cert.out 2>&1
	echo 'subjectAltName=DNS:server.test' >old.ext
	: >index.txt
	echo 01 >serial
	mkdir -p new
	cat >ca.cnf <<-EOF
		[ca]
		default_ca = x
		[x]
		database = index.txt
		serial = serial
		new_certs_dir = new
		default_md = sha256
		policy = p
		[p]
		commonName = supplied
	EOF
	openssl ca -batch -config ca.cnf -selfsign -keyfile old.key -in old.csr \
		-out old.crt -startdate 20200101000000Z -enddate \
		20200201000000Z -extfile old.ext -notext >cert.out 2>&1
}

# Our server, until stop.
serve()
{
	: >port
	WEIR_BACKEND=$backend "$peer" server "$@" >port 2>said &
	pid=$!
	await_port
}

# Theirs.
their_server()
{
	port=$(python3 -c 'import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	openssl s_server -accept "127.0.0.1:$port" -rev -quiet "$@" \
		>server.out 2>&1 &
	pid=$!
	for _ in $(seq 500); do
		timeout 20 openssl s_client -connect "127.0.0.1:$port" </dev/null \
			>/dev/null 2>&1 && return
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.01
	done
	wrong "no server: $(cat server.out)"
}

await_port()
{
	for _ in $(seq 500); do
		[ -s port ] && break
		sleep 0.01
	done
	port=$(cat port)
}

stop()
{
	kill "$pid"
	wait "$pid" 2>/dev/null
}

# theirs [OPTION...]: what their client gets for a line; it waits for it.
theirs()
{
	(
		echo hello
		becomes got hello
	) | timeout 20 openssl s_client -connect "127.0.0.1:$port" -quiet -no_ign_eof \
		-verify_return_error -CAfile ec.crt -servername server.test \
		-verify_hostname server.test "$@" >got 2>err
}

t_their_client_is_served()
{
	for v in 1_2 1_3; do
		serve ec.pem
		rm -f got
		theirs "-tls$v" || wrong "$v: $(cat err)"
		grep -q hello got || wrong "$v: got $(cat got)"
		stop
		becomes said "^30[34] .* 0 "
	done
	for c in ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES256-GCM-SHA384 \
		ECDHE-ECDSA-CHACHA20-POLY1305; do
		serve ec.pem
		rm -f got
		theirs -tls1_2 -cipher "$c"
		grep -q hello got || wrong "$c: $(cat err)"
		stop
		becomes said "^303 $c"
	done
	for c in TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 \
		TLS_CHACHA20_POLY1305_SHA256; do
		serve ec.pem
		rm -f got
		theirs -tls1_3 -ciphersuites "$c"
		grep -q hello got || wrong "$c: $(cat err)"
		stop
		becomes said "^304 $c"
	done
}

t_old_versions_are_refused()
{
	serve ec.pem
	! timeout 20 openssl s_client -connect "127.0.0.1:$port" -tls1_1 \
		-cipher ALL:@SECLEVEL=0 </dev/null >out 2>&1 ||
		wrong '1.1 was accepted'
	becomes said EPROTO
	stop
	serve ec.pem '' 1.3
	! timeout 20 openssl s_client -connect "127.0.0.1:$port" -tls1_2 </dev/null \
		>out 2>&1 || wrong '1.2 was accepted'
	stop
}

t_protocols_are_agreed_on()
{
	serve ec.pem h2,http/1.1
	timeout 20 openssl s_client -connect "127.0.0.1:$port" -alpn http/1.1,x \
		</dev/null >out 2>&1
	shows 'ALPN protocol: http/1.1'
	! timeout 20 openssl s_client -connect "127.0.0.1:$port" -alpn x </dev/null \
		>out 2>&1 || wrong 'none in common was accepted'
	shows 'no application protocol'
	stop
}

t_sessions_are_resumed()
{
	for v in 1_2 1_3; do
		serve ec.pem
		(echo x; sleep 0.3) | timeout 20 openssl s_client -ign_eof -connect \
			"127.0.0.1:$port" "-tls$v" -sess_out session >out 2>&1 &
		first=$!
		for _ in $(seq 500); do
			[ -s session ] && break
			sleep 0.01
		done
		timeout 20 openssl s_client -connect "127.0.0.1:$port" "-tls$v" \
			-sess_in session </dev/null >out 2>&1
		shows '^Reused'
		kill "$first" 2>/dev/null
		wait "$first" 2>/dev/null
		rm -f session
		stop
	done
}

t_keys_are_updated_and_nothing_renegotiated()
{
	serve ec.pem
	: >out
	# It knows a command if that is all that it reads at once.
	(
		echo one
		becomes out '^one'
		echo K
		becomes out '^KEYUPDATE'
		echo two
		becomes out '^two'
		: >out
		echo k
		becomes out '^KEYUPDATE'
		echo three
		becomes out '^three'
		: >all
	) | timeout 30 openssl s_client -connect "127.0.0.1:$port" -tls1_3 >>out 2>&1
	[ -e all ] || wrong "not the end: $(cat out)"
	shows '^three'
	: >out
	(
		echo R
		becomes out 'no renegotiation'
	) | timeout 20 openssl s_client -connect "127.0.0.1:$port" -tls1_2 >>out 2>&1
	shows 'no renegotiation'
	stop
}

t_end_is_told_from_a_cut()
{
	serve ec.pem
	timeout 20 openssl s_client -connect "127.0.0.1:$port" </dev/null >out 2>&1
	becomes said ' end$'
	stop
	serve ec.pem
	mkfifo open
	: >out
	openssl s_client -connect "127.0.0.1:$port" <>open >>out 2>&1 &
	becomes out 'Verify return code'
	kill -KILL $!
	rm open
	becomes said ' ECONNABORTED$\| ECONNRESET$'
	stop
}

# ours STATUS HOST [OPTION...]: our client, with an end of its line.
ours()
{
	want=$1
	shift
	host=$1
	shift
	: >got
	echo hello | WEIR_BACKEND=$backend timeout 20 "$peer" client "$port" \
		"$host" "$@" >>got 2>said &
	client=$!
	for _ in $(seq 2000); do
		[ -s got ] && break
		kill -0 "$client" 2>/dev/null || break
		sleep 0.01
	done
	kill "$client" 2>/dev/null
	wait "$client" 2>/dev/null
	if [ "$want" = ok ]; then
		grep -q olleh got || wrong "got '$(cat got)': $(cat said)"
	else
		grep -q " $want\$" said || wrong "no $want in: $(cat said)"
	fi
}

t_our_client_is_served()
{
	their_server -cert ec.crt -key ec.key -alpn test
	ours ok server.test ec.crt 1.2
	ours ok server.test ec.crt 1.3
	for c in ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-CHACHA20-POLY1305; do
		ours ok server.test ec.crt 1.2 "$c"
	done
	for c in TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256; do
		ours ok server.test ec.crt 1.3 "$c"
	done
	ours EKEYREJECTED other.test ec.crt
	ours EKEYREJECTED server.test other.crt
	stop
	their_server -cert old.crt -key old.key
	ours EKEYEXPIRED server.test old.crt
	stop
	their_server -cert ec.crt -key ec.key -tls1_2
	ours EPROTO server.test ec.crt 1.3
	stop
}

why=
command -v openssl >/dev/null || no_openssl='openssl is not installed'
[ "${no_openssl:-}" ] || {
	cert ec server.test
	cert other other.test
	old_cert
}
for backend in $(backends); do
	reason=$(no_backend "$backend" "$weir")
	[ -z "$reason" ] || {
		result ok 'all of it' "$reason"
		continue
	}
	run t_their_client_is_served "${no_openssl:-}"
	run t_old_versions_are_refused "${no_openssl:-}"
	run t_protocols_are_agreed_on "${no_openssl:-}"
	run t_sessions_are_resumed "${no_openssl:-}"
	run t_keys_are_updated_and_nothing_renegotiated "${no_openssl:-}"
	run t_end_is_told_from_a_cut "${no_openssl:-}"
	run t_our_client_is_served "${no_openssl:-}"
done
echo "1..$n"
exit "$bad"
