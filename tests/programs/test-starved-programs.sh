#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The installed programs where allocations and mappings fail by chance, in any
# library: each ends with an exit status, and with a message if it failed.
# Nothing that it was given is lost.
#
# Environment: STARVE is the library that has them fail; WEIR, WEIR_CP, WEIR_NBD
# and WEIR_PROXY are the programs; WEIR_TEST_LONG=1 tries more seeds.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

starve=${STARVE:-tests/programs/.libs/starve.so}
if [ ! -f "$starve" ]; then
	echo '1..0 # SKIP built without shared libraries'
	exit 0
fi
case ${SAN_CFLAGS:-} in ?*)
	echo '1..0 # SKIP the allocator is a sanitizer'"'"'s'
	exit 0
	;;
esac
starve=$(absolute "$starve")
weir=$(absolute "${WEIR:-tools/weir}")
cp=$(absolute "${WEIR_CP:-programs/weir-cp/weir-cp}")
nbd=$(absolute "${WEIR_NBD:-programs/weir-nbd/weir-nbd}")
proxy=$(absolute "${WEIR_PROXY:-programs/weir-proxy/weir-proxy}")
enter test-starved
seeds=12
[ "${WEIR_TEST_LONG:-0}" = 0 ] || seeds=300

# begin PROGRAM ARGUMENTS...: as $pid, its output to out and err; from 1 to 10 of
# 100 of its allocations fail.  libfabric is not loaded: where its own allocations
# fail it dies (1.17).
begin()
{
	env "LD_PRELOAD=$starve" "STARVE_PROGRAM=${1##*/}" \
		WEIR_FABRIC_LIBRARY=none \
		"STARVE_SEED=$seed" "STARVE_PERCENT=$((seed % 4 * 3 + 1))" \
		"WEIR_BACKEND=$backend" "$@" >out 2>err &
	pid=$!
}

# finish: its status to $status.
finish()
{
	status=0
	wait "$pid" || status=$?
}

starved()
{
	begin "$@"
	finish
}

# What it was ends as a program ends: by an exit, with a message.
ended_well()
{
	[ "$status" -lt 126 ] ||
		wrong "seed $seed: status $status of: $*: $(tail -n 3 err)"
	[ "$status" = 0 ] || [ -s err ] ||
		wrong "seed $seed: status $status without a message of: $*"
	! grep -i 'abort\|assert' err >/dev/null ||
		wrong "seed $seed: of: $*: $(grep -i 'abort\|assert' err)"
}

each_seed()
{
	seed=0
	while [ "$seed" -lt "$seeds" ] && [ ! "$why" ]; do
		seed=$((seed + 1))
		"$@"
	done
}

copy_one()
{
	rm -rf copy file.copy
	starved "$cp" file file.copy
	ended_well weir-cp
	[ "$status" != 0 ] || cmp -s file file.copy ||
		wrong "seed $seed: the copy of a file is another"
	starved "$cp" -r tree copy
	ended_well weir-cp -r
	[ "$status" != 0 ] || diff -r tree copy >diffs 2>&1 ||
		wrong "seed $seed: $(head -n 2 diffs)"
	diff -r tree kept >diffs 2>&1 ||
		wrong "seed $seed: the source has changed: $(head -n 2 diffs)"
}

t_weir_cp_copies_or_says_why_not() { each_seed copy_one; }

info_one()
{
	starved "$weir" info
	ended_well weir info
	starved "$weir" route --size 4096 system file
	ended_well weir route
}

t_weir_info_and_route_show_or_say_why_not() { each_seed info_one; }

# served SOCKET PROGRAM...: begin, and end when it listens or has ended.
served()
{
	socket=$1
	shift
	rm -f "$socket"
	begin "$@"
	while [ ! -S "$socket" ] && kill -0 "$pid" 2>/dev/null; do
		sleep 0.02
	done
	kill -TERM "$pid" 2>/dev/null
	finish
	[ "$status" = 143 ] && return # It was not yet ready for a signal.
	ended_well "$@"
}

nbd_one() { served n.sock "$nbd" --unix=n.sock --cores=2 --export=path=file,ro; }

t_weir_nbd_serves_or_says_why_not() { each_seed nbd_one; }

proxy_one() { served p.sock "$proxy" -n 2 unix:p.sock unix:none.sock; }

t_weir_proxy_serves_or_says_why_not() { each_seed proxy_one; }

mkdir -p tree/d tree/e/f
seq 1 40000 >file
for i in 1 2 3 4 5 6 7 8; do
	seq "$i" "$((i * 3000))" >"tree/d/$i"
	seq "$i" "$((i * 10))" >"tree/e/f/$i"
done
cp -r tree kept

echo 1..8
for backend in uring ev; do
	skip=$(no_backend "$backend" "$weir")
	run t_weir_cp_copies_or_says_why_not "$skip"
	run t_weir_info_and_route_show_or_say_why_not "$skip"
	run t_weir_nbd_serves_or_says_why_not "$skip"
	run t_weir_proxy_serves_or_says_why_not "$skip"
done
exit "$bad"
