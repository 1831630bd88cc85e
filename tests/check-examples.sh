#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The numbered examples work, over every backend: each ends by itself, with
# status 0 if what it shows came true, or 77 if that is not allowed here.
dir=${srcdir:-.}
n=0
bad=0

result()
{
	n=$((n + 1))
	echo "$1 $n - $2"
}

# Why there is no program $1.
missing()
{
	case $1 in
	*libev*) echo 'built without libev' ;;
	*libuv*) echo 'built without libuv' ;;
	*glib*) echo 'built without GLib' ;;
	*cpp*) echo 'there is no C++ compiler' ;;
	*resolver*) echo 'built without c-ares' ;;
	*tls-client*) echo 'built without OpenSSL' ;;
	*fabric*) echo 'built without libfabric' ;;
	*nvme*) echo 'built without NVMe' ;;
	*sd-event*) echo 'built without libsystemd' ;;
	esac
}

# try BACKEND PROGRAM
try()
{
	why=
	[ -x "examples/$2" ] || why=$(missing "$2")
	if [ "$why" ]; then
		result ok "$1: $2 # SKIP $why"
	elif said=$(WEIR_BACKEND=$1 "examples/$2" 2>&1); then
		result ok "$1: $2"
	elif status=$?; [ $status = 77 ]; then
		result ok "$1: $2 # SKIP $said"
	else
		result 'not ok' "$1: $2"
		echo "$said" | sed 's/^/# /'
		echo "# status $status"
		bad=1
	fi
}

# Why backend $1 cannot be had, if that is so; other errors are the tests'.
refused()
{
	WEIR_BACKEND=$1 examples/hello 2>&1 >/dev/null |
		grep -E 'kernel has no|not allowed|too old|built without'
}

backends=0
for backend in uring ev; do
	if why=$(refused $backend); then
		result ok "$backend # SKIP $why"
		continue
	fi
	backends=$((backends + 1))
	for source in "$dir"/examples/[0-9]*.c "$dir"/examples/[0-9]*.cc; do
		name=${source##*/}
		case $name in
		13-* | 14-*) continue ;; # A pair: test-export-examples.sh.
		32-*) continue ;; # Over its transports: test-ucx.sh.
		esac
		try $backend "${name%.c*}"
	done
done

if [ $backends -gt 0 ]; then
	result ok 'there is a backend'
else
	result 'not ok' 'there is a backend'
	bad=1
fi
echo "1..$n"
exit $bad
