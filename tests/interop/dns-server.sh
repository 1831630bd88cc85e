#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The example that answers DNS questions, asked by dig: over both backends, at
# several addresses of this machine, many questions at once.
# shellcheck disable=SC2317,SC2329 # Each t_ function is called by run.
# shellcheck source=tests/support/fixture.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"
program=$(absolute examples/42-dns-server)
weir=$(absolute tools/weir)
command -v dig >/dev/null || {
	echo '1..0 # SKIP there is no dig'
	exit 77
}
enter dns-server
server=

serve()
{
	rm -f said
	"$program" 0 weir.example 192.0.2.7 a.b 192.0.2.8 \
		>said 2>server-err &
	server=$!
	until [ -s said ]; do
		kill -0 "$server" 2>/dev/null || {
			echo "Bail out! no server: $(cat server-err)"
			exit 1
		}
		sleep 0.1
	done
	port=$(sed -n 's/^port //p' said)
}

end_server()
{
	kill "$server"
	wait "$server" 2>/dev/null
	server=
}
trap '[ -z "$server" ] || kill "$server"; cd / && rm -rf "$dir"' EXIT

ask() { dig "@$1" -p "$port" +time=5 +tries=1 "$2" "${3:-A}"; }

# says ADDRESS NAME TEXT [TYPE]
says()
{
	ask "$1" "$2" "${4:-A}" >answer ||
		wrong "dig: status $?: $(tail -n 1 answer)"
	grep -q "$3" answer || {
		sed 's/^/# /' answer
		wrong "the answer to $2 has no $3"
	}
}

t_dig_is_answered()
{
	serve
	says 127.0.0.1 weir.example '192\.0\.2\.7$'
	says 127.0.0.1 A.B '192\.0\.2\.8$'
	says 127.0.0.1 other.example 'status: NXDOMAIN'
	says 127.0.0.1 weir.example 'ANSWER: 0' AAAA
	# dig refuses answers of another address.
	says 127.0.0.9 weir.example '192\.0\.2\.7$'
	says 127.1.2.3 weir.example '192\.0\.2\.7$'
	i=0
	while [ $i -lt 200 ]; do
		echo "weir.example A"
		i=$((i + 1))
	done >questions
	dig @127.0.0.1 -p "$port" +short +tries=1 -f questions >answers ||
		wrong "dig: status $?"
	[ "$(grep -cx '192\.0\.2\.7' answers)" = 200 ] ||
		wrong "$(wc -l <answers) answers to 200 questions"
	end_server
}

for backend in $(backends); do
	WEIR_BACKEND=$backend
	export WEIR_BACKEND
	run t_dig_is_answered "$(no_backend "$backend" "$weir")"
done
echo "1..$n"
exit "$bad"
