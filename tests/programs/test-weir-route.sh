#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The command `weir route`: the plans that it shows, and how it fails.
#
# Environment: WEIR is the program.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

weir=$(absolute "${WEIR:-tools/weir}")
enter test-weir-route
echo bytes >a
echo other >b

# route STATUS ARGUMENT...: its output goes to out and err.
route()
{
	want=$1
	shift
	expect "$want" "$weir" route "$@"
}

# plan LINE ARGUMENT...: there is a way, and this is its first line.
plan()
{
	line=$1
	shift
	route 0 "$@"
	[ "$(head -n 1 out)" = "$line" ] ||
		wrong "'$(head -n 1 out)', not '$line', of: $*"
	[ ! -s err ] || wrong "said: $(cat err)"
}

t_one_engine()
{
	plan 'direct: by cpu' system system
	plan 'direct: by cpu' hugepage system
	plan 'pull: by file' file:a system
	plan 'push: by file' hugepage file:b
	plan 'direct: by file' file:a file:b
	plan 'pull: by domain' user system
	plan 'direct: by domain' user user:transfer
	plan 'direct: by domain' --kind fill user:fill
	plan 'direct: by cpu' --kind crc32c system
}

t_bounces()
{
	plan 'bounce: pull by file, push by domain, 4 blocks of 262144 bytes' \
		file:a user
	shows '^  not direct: .*cpu: only memory of this process; file: only'
	plan 'bounce: pull by domain, pull by file, 1 block of 262144 bytes' \
		--kind compare --bytes 4K user:pull file:b
	plan 'bounce: push by domain, 1 block of 262144 bytes' \
		--kind fill --bytes 1 user:push
	plan 'bounce: pull by file, 4096 blocks of 262144 bytes' \
		--kind copy+crc32c --bytes 1G file:a system
}

t_atomics()
{
	plan 'direct: by cpu' --kind fetch-add system
	plan 'direct: by cpu' --kind compare-swap hugepage
	route 1 --kind fetch-add file:b
	shows '^  no bounce: an atomic in two steps would be none'
	route 1 --kind fetch-add --bytes 16 system
	shows 'an atomic is about 8 bytes, not 16'
	route 0 --json --kind fetch-add system
	shows '^  "bytes": 8'
	shows '^  "source": null'
}

t_peers()
{
	plan 'push: by verbs' system remote
	plan 'pull: by verbs' remote hugepage
	plan 'direct: by verbs' --kind compare-swap remote
	plan 'bounce: pull by file, push by verbs, 4 blocks of 262144 bytes' \
		file:a remote
	route 0 --json remote file:b
	shows '^  "plan": "bounce: pull by verbs, push by file'
}

# What would go is not what goes: a job would be refused, too.
t_peers_without_a_device()
{
	for places in 'system remote' 'remote system' 'file:a remote'; do
		# shellcheck disable=SC2086 # A list.
		route 1 $places
		shows '^refused: No such device$'
		shows '^  no device that can be used here reaches .* weir info'
		shows '^  with one, and a connection: .* by verbs'
	done
	route 1 --json system remote
	shows '^  "possible": false'
	shows '^  "errno": 19'
	"$weir" info | grep -q '^  *domain remote .*no device that can be used' ||
		wrong 'weir info says otherwise'
}

t_peers_without_verbs()
{
	route 1 system remote
	shows 'nothing in this program reaches that domain'
}

t_processes()
{
	plan 'pull: by process' process:$$ system
	plan 'bounce: pull by process, 4 blocks of 262144 bytes' \
		--kind crc32c process:$$
}

t_no_way()
{
	route 1 user user:pull
	shows '^refused: '
	shows '^  no push to the destination: .*neither push nor transfer'
	route 1 --kind pull system file:a
	shows '^refused: Invalid argument'
	route 1 file:nothing system
	says_only 'file:nothing: No such file'
}

t_json()
{
	route 0 --json file:a user
	shows '^  "possible": true'
	shows '^  "plan": "bounce: pull by file, push by domain'
	shows '^    "not direct: '
	route 1 --json user user:pull
	shows '^  "possible": false'
	shows '^  "errno": 18'
	route 0 --json --kind fill system
	shows '^  "source": null'
}

t_nothing_is_touched()
{
	route 0 file:a file:b
	[ "$(cat a b)" = "$(printf 'bytes\nother')" ] || wrong 'files changed'
	route 0 -q file:a user
	[ ! -s out ] || wrong "not quiet: $(cat out)"
}

t_usage()
{
	route 2
	says_only 'copy takes 2 places, not 0'
	route 2 system
	route 2 --kind crc32c system system
	says_only 'crc32c takes 1 place, not 2'
	route 2 here there
	says_only "no place 'here'"
	route 2 --kind move system system
	says_only "no kind 'move'"
	for bytes in 0 -1 4x 1KK 99999999999999999999 9999999999G '' \
		' -18446744073709547520'; do
		route 2 --bytes "$bytes" system system
		says_only 'is no number of bytes'
	done
	route 2 process:me system
	says_only 'no number of a process'
	route 2 user:shout system
	says_only "no 'shout'"
	route 2 --loud system system
	says_only "no option '--loud'"
	route 0 --help
	shows '^Usage: weir route'
}

no_process=
"$weir" route -q process:$$ system 2>/dev/null ||
	no_process='processes cannot be had here'
verbs=
no_device='built without verbs'
device='there is no RDMA device here'
if "$weir" route -q system remote 2>/dev/null; then
	verbs='built with verbs'
	device='' no_device='there is an RDMA device here'
elif ! "$weir" route system remote | grep -q 'nothing in this program'; then
	verbs='built with verbs' no_device=''
fi
run t_one_engine
run t_bounces
run t_atomics
run t_peers "$device"
run t_peers_without_a_device "$no_device"
run t_peers_without_verbs "$verbs"
run t_processes "$no_process"
run t_no_way
run t_json
run t_nothing_is_touched
run t_usage
echo "1..$n"
exit $bad
