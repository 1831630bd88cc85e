# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2034 # its variables are for who sources it
# What the tests of programs need: a directory, ways to say what is wrong, TAP,
# and somebody without privileges.  It is sourced.
set -u
LC_ALL=C
export LC_ALL
umask 022
unset WEIR_BACKEND

n=0
bad=0
why=
backend= # That of the tests that run, if they run on each.
nobody=  # The number of the user without privileges: each test has its own,
         # because the kernel counts locked memory by user.

absolute() { echo "$(cd "$(dirname "$1")" && pwd)/${1##*/}"; }

# enter NAME: go to a new directory, which others may enter too, and goes away.
enter()
{
	dir=$(mktemp -d "./$1.XXXXXX") || exit 1
	chmod 755 "$dir"
	cd "$dir" || exit 1
	dir=$(pwd)
	trap 'cd / && chmod -R u+rwx "$dir" && rm -rf "$dir"' EXIT
	trap 'exit 1' INT TERM
}

# Why the test that runs is wrong; the first reason counts.
wrong()
{
	why=${why:-$*}
	return 1
}

# expect STATUS COMMAND...: its output goes to out and err.
expect()
{
	want=$1
	shift
	status=0
	"$@" >out 2>err || status=$?
	[ "$status" = "$want" ] && return
	wrong "status $status, not $want, of: $*: $(head -n 3 err)"
}

# says PATTERN: the last command told the cause.
says() { grep -q -e "$1" err || wrong "said '$(cat err)', not '$1'"; }

# says_only PATTERN: in one message.
says_only()
{
	says "$1"
	[ "$(wc -l <err)" = 1 ] || wrong "not one message: $(cat err)"
}

shows() { grep -q -e "$1" out || wrong "no '$1' in: $(cat out)"; }

# becomes FILE PATTERN: the file has such a line after at most 20 s.
becomes()
{
	for _ in $(seq 2000); do
		grep -q -e "$2" "$1" 2>/dev/null && return
		sleep 0.01
	done
	wrong "no '$2' in $1: $(cat "$1")"
}

# cert NAME HOST: a certificate of HOST and of 127.0.0.1, signed with its own key.
cert()
{
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-keyout "$1.key" -out "$1.crt" -days 2 -subj "/CN=$2" \
		-addext "subjectAltName=DNS:$2,IP:127.0.0.1" >cert.out 2>&1
	cat "$1.crt" "$1.key" >"$1.pem"
}

# result ok|'not ok' TITLE [REASON TO SKIP]
result()
{
	n=$((n + 1))
	echo "$1 $n - ${backend:+$backend: }$2${3:+ # SKIP $3}"
}

# run TEST [REASON TO SKIP]
run()
{
	title=$(echo "${1#t_}" | tr _ ' ')
	if [ "${2:-}" ]; then
		result ok "$title" "$2"
		return
	fi
	why=
	$1
	if [ "$why" ]; then
		result 'not ok' "$title"
		echo "$why" | sed 's/^/# /'
		bad=1
	else
		result ok "$title"
	fi
}

# The same, or, with WEIR_TEST_IN_TURN=1 or 2, every second one.
turn=0
run_in_turn()
{
	turn=$((turn + 1))
	[ -z "${WEIR_TEST_IN_TURN:-}" ] ||
		[ $((turn % 2)) = $((WEIR_TEST_IN_TURN % 2)) ] || return 0
	run "$@"
}

# lacks PROGRAM: why a test with it is not run.
lacks() { command -v "$1" >/dev/null || echo "there is no $1"; }

# The same of libnbd's module, which the first python need not have; sets $python.
lacks_python_nbd()
{
	for python in python3 /usr/bin/python3; do
		"$python" -c 'import nbd' 2>/dev/null && return
	done
	echo 'there is no python3-libnbd'
}

# Those that a script of many cases runs over: both, or what the environment asks for.
backends()
{
	case ${WEIR_TEST_IN_TURN:-} in
	1) set -- uring ;;
	2) set -- ev ;;
	*) set -- uring ev ;;
	esac
	echo "${WEIR_TEST_BACKEND:-$*}"
}

# no_backend NAME PROGRAM: why it is not run over; PROGRAM is weir.
no_backend()
{
	env -u WEIR_BACKEND "$2" info | grep -q "^[* ] $1 .*not usable" &&
		echo "$1 is not usable here"
}

# Set $vm to tests/vm/run, or skip all if there are no guests.  Before enter.
need_vm()
{
	vm=$(absolute "${srcdir:-$(dirname "$0")/../..}/tests/vm/run")
	because=$(sh "$vm" --check 2>&1)
	case $? in
	0) ;;
	77)
		echo "1..0 # SKIP ${because##*prepare: }"
		exit 77
		;;
	*)
		echo "Bail out! $because"
		exit 1
		;;
	esac
	# Where it was found now, it is looked for from elsewhere, too.
	WEIR_VM_CACHE=${WEIR_VM_CACHE:-$(sh "${vm%/run}/prepare")/..}
	WEIR_VM_CACHE=$(cd "$WEIR_VM_CACHE" && pwd)
	export WEIR_VM_CACHE
}

# Run a shell command as somebody without privileges.
nobody()
{
	if [ "$(id -u)" = 0 ]; then
		setpriv "--reuid=$nobody" "--regid=$nobody" --clear-groups \
			sh -c "$1"
	else
		sh -c "$1"
	fi
}
