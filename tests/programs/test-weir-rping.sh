#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weir-rping without RDMA: its command line, and what it says where there is
# none.  The rest is vm/weir-rping.sh.
#
# Environment: WEIR_RPING is the program.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

man=$(absolute "${srcdir:-$(dirname "$0")/../..}/docs/man/weir-rping.1")
rping=$(absolute "${WEIR_RPING:-programs/weir-rping/weir-rping}")
enter test-weir-rping

# refused PATTERN OPTIONS...
refused()
{
	pattern=$1
	shift
	expect 2 "$rping" "$@"
	says_only "$pattern"
}

t_wrong_usage_is_said_in_one_message()
{
	refused 'give -s to serve, or -c'
	refused 'not both' -s -c
	refused '-c requires -a' -c
	refused 'too many' -s more
	refused ' -x: there is no such option' -s -x
	refused ' --more: there is no such option' -s --more
	refused ' --version: takes no value' -s --version=1
	refused ' -p: wants a value' -s -p
	refused 'a client' -s -I 127.0.0.1
	refused 'a client' -s -C 0
	refused 'a server' -c -a 127.0.0.1 -P
	refused '1 to 65535' -s -p 0
	refused '1 to 65535' -s -p 65536
	refused '26 to 65535' -s -S 25
	refused '26 to 65535' -s -S 65536
	refused 'a number' -s -C -1
	refused 'a number' -s -C 12x
	refused '-a 1.2.3.4.5' -s -a 1.2.3.4.5
}

t_help_and_manual_have_the_same_options()
{
	expect 0 "$rping" --help
	for letter in s c a p I C S P V v; do
		shows "^  -$letter "
		grep -q "^\.BI* .*\\\\-$letter" "$man" ||
			wrong "-$letter is not in the manual"
	done
	expect 0 "$rping" --version
	shows '^weir-rping [0-9]'
}

t_without_rdma_it_says_so_in_one_message()
{
	expect 1 "$rping" -c -a 192.0.2.1
	says_only 'cannot'
}

t_and_so_does_a_server()
{
	expect 1 "$rping" -s -a 192.0.2.1
	says_only 'cannot'
}

run t_wrong_usage_is_said_in_one_message
run t_help_and_manual_have_the_same_options
run t_without_rdma_it_says_so_in_one_message
run t_and_so_does_a_server
echo "1..$n"
exit $bad
