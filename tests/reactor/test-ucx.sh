#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# UCX by a poll hook, examples/32-ucx: a put and a get with the bytes of a peer
# that UCX alone drives, no wake-ups while nothing is done, and a close by force,
# over each backend and over UCX's transports of TCP and shared memory.
. "${srcdir:-.}/tests/support/check.sh"

# UCX replaces malloc() and handles signals, which sanitizers do, too.
UCX_MEMTYPE_CACHE=n
UCX_MEM_EVENTS=n
UCX_ERROR_SIGNALS=
UCX_HANDLE_ERRORS=none
UCX_LOG_LEVEL=fatal
UCX_WARN_UNUSED_ENV_VARS=n
export UCX_MEMTYPE_CACHE UCX_MEM_EVENTS UCX_ERROR_SIGNALS UCX_HANDLE_ERRORS
export UCX_LOG_LEVEL UCX_WARN_UNUSED_ENV_VARS

# Why backend $1 cannot be had, if that is so.
refused()
{
	WEIR_BACKEND=$1 examples/hello 2>&1 >/dev/null |
		grep -E 'kernel has no|not allowed|too old|built without'
}

# What is wrong with what was said by transports $1, that ended with status $2.
wrong()
{
	[ "$2" = 0 ] || echo "status $2"
	case $1 in
	tcp) close='close by force: Operation canceled' ;;
	*) close='close: Success' ;; # They do not report that a peer failed.
	esac
	for line in 'put and get: the same bytes' "$close"; do
		grep -qx "$line" <<-END || echo "it does not say: $line"
			$said
		END
	done
	# It falls asleep once, or again if something else wakes the reactor; UCX's TCP has
	# been seen to send something more on a busy machine.
	grep -Eqx 'idle: [0-3] wake-ups, [1-9] sleeps' <<-END ||
		$said
	END
		echo "it is not idle"
}

for backend in uring ev; do
	if why=$(refused $backend); then
		skips "$backend" "$why"
		continue
	fi
	for tls in tcp posix,cma sysv; do
		what="$backend: UCX over $tls, by a poll hook"
		if ! [ -x examples/32-ucx ]; then
			skips "$what" 'built without UCX'
			continue
		fi
		said=$(WEIR_BACKEND=$backend UCX_TLS=$tls \
			timeout 60 examples/32-ucx 2>&1)
		bad_lines=$(wrong "$tls" $?)
		holds "$what" "${bad_lines:+$bad_lines
$said}"
	done
done
report
