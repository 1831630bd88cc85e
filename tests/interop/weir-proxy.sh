#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weir-proxy between programs that know nothing of it, over both backends.  It
# runs in the build directory; what is not installed is skipped.  Without
# WEIR_TEST_LONG=1 all is shorter, and some of it over one backend only.
# weir-proxy.py is many clients and their targets at once.
#
# Environment: WEIR_PROXY is the program; WEIR_BACKEND is one backend alone.
# shellcheck disable=SC2317,SC2329 # Each t_ function is called by run.
backends=${WEIR_BACKEND:-uring ev}
# shellcheck source=tests/support/fixture.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"
proxy=$(absolute "${WEIR_PROXY:-programs/weir-proxy/weir-proxy}")
crowd=$(absolute "${srcdir:-$(dirname "$0")/../..}/tests/interop/weir-proxy.py")
weir=$(absolute "${WEIR:-tools/weir}")
enter weir-proxy

# long_or LONG SHORT: the one that this run is for.
long_or() { [ "${WEIR_TEST_LONG:-}" = 1 ] && echo "$1" || echo "$2"; }

# Two ports that nobody has just now.
ports=$(python3 "$crowd" ports) || ports='17180 17181'
front=127.0.0.1:${ports% *}
cores=2
few=	# Descriptors of the proxy, if these are fewer than usual.
back_port=${ports#* }
back=127.0.0.1:$back_port

has()
{
	command -v "$1" >/dev/null || echo "$1 is not installed"
}

# Wait until somebody listens at 127.0.0.1:PORT, or 5 s.
await_port()
{
	hex=$(printf '0100007F:%04X 00000000:0000 0A' "$1")
	for _ in $(seq 500); do
		grep -q "$hex" /proc/net/tcp && return
		sleep 0.01
	done
	wrong "nobody listens at $1"
}

# Wait until there is a socket at PATH, or 5 s.
await_name()
{
	for _ in $(seq 500); do
		[ -S "$1" ] && return
		sleep 0.01
	done
	wrong "there is no $1"
}

# start LISTEN TARGET...: the proxy, until stop.
start()
{
	(
		# shellcheck disable=SC3045 # Every shell has it.
		[ -z "$few" ] || ulimit -n "$few"
		exec "$proxy" -n "$cores" "$@" 2>proxy.err
	) &
	proxy_pid=$!
	case $1 in
	unix:*) await_name "${1#unix:}" ;;
	--file) await_port "${front##*:}" ;;
	*) await_port "${1##*:}" ;;
	esac
}

stop()
{
	kill -TERM "$proxy_pid"
	wait "$proxy_pid" || wrong "the proxy ended badly: $(cat proxy.err)"
}

# server COMMAND...: in the background, at $back, until end_server.
server()
{
	"$@" >server.out 2>&1 &
	server_pid=$!
	await_port "$back_port"
}

end_server()
{
	kill "$server_pid"
	wait "$server_pid" 2>wait.err # Which says how it was ended.
}

t_files_by_http()
{
	mkdir -p www
	head -c 30000000 /dev/urandom >www/large
	echo small >www/small
	server python3 -m http.server --bind 127.0.0.1 -d www "$back_port"
	start "$front" "$back"
	for name in small large small; do
		curl -sf -o got --retry 5 --retry-connrefused \
			"http://$front/$name" || wrong "no $name"
		cmp got "www/$name" || wrong "$name is not the same"
	done
	stop
	end_server
}

t_load_by_wrk()
{
	mkdir -p www
	echo small >www/small
	server python3 -m http.server --bind 127.0.0.1 -d www "$back_port"
	start "$front" "$back"
	wrk -t1 -c16 --timeout 60 "-d$(long_or 3 1)" "http://$front/small" >out 2>&1
	shows 'Requests/sec'
	stop
	end_server
}

# In both directions at once iperf3 makes two connections, and takes the first to
# arrive for the first that it made.  Cores do not wait for each other.
t_throughput_by_iperf3()
{
	server iperf3 -s -B 127.0.0.1 -p "$back_port"
	for how in '' -R '-P 4' --bidir; do
		[ "$how" = --bidir ] && cores=1 || cores=2
		start "$front" "$back"
		# shellcheck disable=SC2086,SC2046 # Several words.
		expect 0 iperf3 -c 127.0.0.1 -p "${front##*:}" \
			$(long_or '-t 2' '-n 30M') $how
		grep receiver out | tail -n 1 | sed "s/^/# iperf3 $how: /"
		stop
	done
	cores=2
	end_server
}

# Line by line, as a person types.
t_peers_by_socat()
{
	socat UNIX-LISTEN:back,fork EXEC:cat >server.out 2>&1 &
	server_pid=$!
	await_name back
	start unix:front unix:back
	{
		for i in 1 2 3; do
			echo "line $i"
			sleep 0.1
		done
	} | socat -t 5 - UNIX-CONNECT:front >out
	printf 'line %d\n' 1 2 3 >want
	cmp out want || wrong "$(cat out)"
	stop
	end_server
}

# ---- ssh ----

# It is somewhere that is in nobody's path but root's.
sshd=$(PATH=$PATH:/usr/sbin:/sbin command -v sshd)

# run_sshd COMMAND...: root's wants a directory, and gets it in a /run of its own.
run_sshd()
{
	[ "$(id -u)" != 0 ] || [ -d /run/sshd ] || set -- unshare -m sh -c \
		'mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec "$@"' \
		sh "$@"
	exec "$@"
}

# Why it cannot be run; else there are keys, of its own and of a client.
no_ssh()
{
	if [ -z "$sshd" ] || ! command -v ssh-keygen >/dev/null; then
		echo 'there is no sshd, or no ssh'
		return
	fi
	[ -e host_key ] || make_keys
	(run_sshd "$sshd" -t -f sshd.conf) >sshd.out 2>&1 || head -n 1 sshd.out
}

make_keys()
{
	ssh-keygen -q -t ed25519 -N '' -f host_key
	ssh-keygen -q -t ed25519 -N '' -f user_key
	cp user_key.pub authorized
	cat >sshd.conf <<-END
	HostKey $dir/host_key
	AuthorizedKeysFile $dir/authorized
	ListenAddress $back
	PidFile none
	StrictModes no
	UsePAM no
	PasswordAuthentication no
	END
}

# by_ssh COMMAND OPTIONS...: on this machine, through the proxy.
by_ssh()
{
	command=$1
	shift
	ssh -F none -i user_key -p "${front##*:}" -o BatchMode=yes \
		-o UserKnownHostsFile=known -o StrictHostKeyChecking=no \
		-o ConnectTimeout=10 "$@" 127.0.0.1 "$command"
}

# A shell that is typed at, its status, and a file there and back.
t_a_shell_by_ssh()
{
	server run_sshd "$sshd" -D -e -f sshd.conf
	start "$front" "$back"
	printf 'echo $((6 * 7))\nexit 5\n' >typed
	expect 5 by_ssh 'exec sh -i' -tt <typed
	shows 42
	head -c 3000000 /dev/urandom >large
	by_ssh cat <large >got 2>err || wrong "$(cat err)"
	cmp got large || wrong 'what was sent has not come back'
	stop
	end_server
}

descriptors() { find "/proc/$proxy_pid/fd" -type l | wc -l; }

# crowd_peers SCENE LONG SHORT: between clients and targets of its own.
crowd_peers()
{
	start "$front" "$back"
	before=$(descriptors)
	expect 0 python3 "$crowd" "$1" "${front##*:}" "$back_port" \
		"$(long_or "$2" "$3")"
	grep '^#' out
	for _ in $(seq 200); do
		[ "$(descriptors)" -le "$before" ] && break
		sleep 0.01
	done
	after=$(descriptors)
	# Pipes are kept for the next.
	[ "$after" -le $((before + 16)) ] ||
		wrong "$before descriptors before, $after after"
	stop
}

t_a_peers_as_of_a_terminal() { crowd_peers talk 200 20; }
t_thousands_who_say_nothing() { crowd_peers idle 3000 300; }
t_a_slow_reader_and_others() { crowd_peers slow 30000000 8000000; }
t_more_than_it_has_descriptors_for()
{
	few=64
	crowd_peers queue 100 40
	few=
	! grep 'open files' proxy.err || wrong 'it took more than it could serve'
}

t_resets_in_every_phase() { crowd_peers resets 80 16; }

# start_with LINE...: the proxy with this configuration, at $front.
start_with()
{
	printf '%s\n' "$@" >proxy.conf
	start --file proxy.conf
}

# ---- the PROXY protocol, with proxies before and behind ----

PATH=$PATH:/usr/sbin:/sbin

# proxies: one more port, $side, of a proxy of others.
proxies()
{
	side=$(python3 "$crowd" ports | cut -d' ' -f1)
}

# nginx behind: it answers with the client's address, by the header that it gets.
nginx_behind()
{
	mkdir -p nginx
	cat >nginx.conf <<-END
	daemon off;
	master_process off;
	pid $dir/nginx/pid;
	error_log $dir/nginx/error.log;
	events { }
	http {
		access_log off;
		client_body_temp_path $dir/nginx;
		proxy_temp_path $dir/nginx;
		fastcgi_temp_path $dir/nginx;
		uwsgi_temp_path $dir/nginx;
		scgi_temp_path $dir/nginx;
		server {
			listen $back proxy_protocol;
			location / {
				return 200
					"\$proxy_protocol_addr:\$proxy_protocol_port\n";
			}
		}
	}
	END
	server nginx -e "$dir/nginx/error.log" -c "$dir/nginx.conf"
}

# haproxy_at PORT BIND-WORDS LINE MODE: in the background, until end_haproxy.
haproxy_at()
{
	cat >haproxy.conf <<-END
	defaults
		mode $4
		timeout connect 5s
		timeout client 10s
		timeout server 10s
	listen it
		bind 127.0.0.1:$1 $2
		$3
	END
	haproxy -db -f haproxy.conf >haproxy.out 2>&1 &
	haproxy_pid=$!
	await_port "$1"
}

end_haproxy()
{
	kill "$haproxy_pid"
	wait "$haproxy_pid" 2>wait.err
}

# asks_by PORT CURL-OPTIONS...: what comes back is the address that curl came from.
asks_by()
{
	port=$1
	shift
	curl -sf --max-time 10 --retry 5 --retry-connrefused \
		-w '127.0.0.1:%{local_port}\n' "$@" "http://127.0.0.1:$port/" \
		>out || wrong "curl: no answer"
	[ "$(sed -n 1p out)" = "$(sed -n 2p out)" ] || wrong "$(cat out)"
}

t_header_for_nginx_behind()
{
	nginx_behind
	for version in v1 v2; do
		start "$front" "$back" "proxy-$version"
		asks_by "${front##*:}"
		stop
	done
	end_server
}

t_header_of_curl_is_passed_on()
{
	nginx_behind
	start_with "listen $front accept-proxy=127.0.0.1 to $back proxy-v2"
	asks_by "${front##*:}" --haproxy-protocol
	stop
	end_server
}

t_header_of_haproxy_before_and_nginx_behind()
{
	nginx_behind
	proxies
	for version in send-proxy send-proxy-v2; do
		haproxy_at "$side" '' "server s $front $version" tcp
		start_with "listen $front accept-proxy=127.0.0.0/8 to $back proxy-v1"
		asks_by "$side"
		stop
		end_haproxy
	done
	end_server
}

# Its checks say LOCAL, and it has the client's address from the header.
t_header_for_haproxy_behind()
{
	haproxy_at "$back_port" accept-proxy \
		'http-request return status 200 content-type text/plain lf-string %[src]:%[src_port]\n' \
		http
	for version in v1 v2; do
		start "$front" "$back" "proxy-$version"
		asks_by "${front##*:}"
		stop
	done
	end_haproxy
}

t_header_of_nginx_before()
{
	nginx_behind
	proxies
	mkdir -p nginx2
	cat >nginx2.conf <<-END
	$(load_stream)
	daemon off;
	master_process off;
	pid $dir/nginx2/pid;
	error_log $dir/nginx2/error.log;
	events { }
	stream {
		server {
			listen 127.0.0.1:$side;
			proxy_pass $front;
			proxy_protocol on;
		}
	}
	END
	nginx -e "$dir/nginx2/error.log" -c "$dir/nginx2.conf" &
	nginx_pid=$!
	await_port "$side"
	start_with "listen $front accept-proxy=127.0.0.1 to $back proxy-v2"
	asks_by "$side"
	stop
	kill "$nginx_pid"
	wait "$nginx_pid" 2>wait.err
	end_server
}

# haproxy's checks, which are LOCAL in version 2, are no client of ours.
t_checks_of_haproxy_before()
{
	nginx_behind
	proxies
	start_with "log $dir/proxy.log" \
		"listen $front accept-proxy=127.0.0.0/8 to $back proxy-v2"
	haproxy_at "$side" '' \
		"server s $front send-proxy-v2 check check-send-proxy inter 100ms" tcp
	for _ in $(seq 500); do
		[ -s proxy.log ] && break
		sleep 0.01
	done
	[ -s proxy.log ] || wrong 'there was no check'
	asks_by "$side"
	stop
	end_haproxy
	end_server
}

# Debian's nginx has streams in a package of their own.
load_stream()
{
	module=/usr/lib/nginx/modules/ngx_stream_module.so
	[ ! -e $module ] || echo "load_module $module;"
}

no_stream()
{
	has nginx
	command -v nginx >/dev/null || return
	printf '%s\nevents { }\nstream { }\npid %s/pid;\n' "$(load_stream)" \
		"$dir" >probe.conf
	nginx -t -e "$dir/probe.log" -c "$dir/probe.conf" 2>probe.out ||
		echo 'nginx has no stream module'
}

# ---- names ----

t_target_by_name()
{
	mkdir -p www
	echo small >www/small
	server python3 -m http.server --bind 127.0.0.1 -d www "$back_port"
	start "$front" "localhost:$back_port"
	curl -sf -o got --retry 5 --retry-connrefused "http://$front/small" ||
		wrong 'no small'
	cmp got www/small || wrong 'small is not the same'
	stop
	end_server
}

# Why a test that takes its time is not run over the second backend.
first=
not_twice()
{
	[ "$backend" = "$first" ] || long_or '' WEIR_TEST_LONG=1
}

no_python=$(has python3)
for backend in $backends; do
	WEIR_BACKEND=$backend
	export WEIR_BACKEND
	reason=$(no_backend "$backend" "$weir")
	[ -z "$reason" ] || {
		result ok 'all of it' "$reason"
		continue
	}
	first=${first:-$backend}
	run t_files_by_http "${no_python:-$(has curl)}"
	run t_load_by_wrk "${no_python:-$(has wrk)}$(not_twice)"
	run t_throughput_by_iperf3 "$(has iperf3)"
	run t_a_shell_by_ssh "$(no_ssh)"
	run t_peers_by_socat "$(has socat)"
	run t_a_peers_as_of_a_terminal "$no_python"
	run t_thousands_who_say_nothing "$no_python"
	run t_a_slow_reader_and_others "$no_python"
	run t_more_than_it_has_descriptors_for "$no_python"
	run t_resets_in_every_phase "$no_python"
	run t_header_for_nginx_behind "$(has curl)$(has nginx)"
	run t_header_of_curl_is_passed_on "$(has curl)$(has nginx)"
	run t_header_of_haproxy_before_and_nginx_behind \
		"$(has curl)$(has nginx)$(has haproxy)"
	run t_header_for_haproxy_behind "$(has curl)$(has haproxy)"
	run t_header_of_nginx_before "$(has curl)$(no_stream)"
	run t_checks_of_haproxy_before "$(has curl)$(has nginx)$(has haproxy)"
	run t_target_by_name "${no_python:-$(has curl)}"
done
echo "1..$n"
exit "$bad"
