#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The command line of weir-ublk, and what it says where there is no driver.  What it does
# with devices is in tests/interop/weir-ublk.sh, in a guest.
#
# Environment: WEIR_UBLK is the program.
# shellcheck disable=SC2154 # The fixture assigns them.
# shellcheck disable=SC2317,SC2329 # run() calls functions by their names.
# shellcheck source=tests/support/fixture.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

ublk=$(absolute "${WEIR_UBLK:-programs/weir-ublk/weir-ublk}")
enter test-weir-ublk

# refused STATUS PATTERN OPTIONS...
refused()
{
	status=$1
	pattern=$2
	shift 2
	expect "$status" "$ublk" "$@"
	says_only "$pattern"
}

t_wrong_usage_is_said_in_one_message()
{
	truncate -s 1M disk
	refused 2 'give one export, --list or --stop=N'
	refused 2 'give one export' disk disk
	refused 2 'give one export' --list disk
	refused 2 'give one export' --stop=1 disk
	refused 2 'give one export' --list --stop=1
	refused 2 '--force goes with --stop=N' --force disk
	refused 2 '--id=-1: give a number from 0 to 1048575' --id=-1 disk
	refused 2 '--id=1048576: give a number' --id=1048576 disk
	refused 2 '--queues=0: give a number from 1 to 64' --queues=0 disk
	refused 2 '--queues=65: give a number' --queues=65 disk
	refused 2 '--depth=1025: give a number from 1 to 1024' --depth=1025 disk
	refused 2 '--depth=4K: give a number' --depth=4K disk
	refused 2 '--stop=x: give a number' --stop=x
	refused 2 ' --no-recovery: takes no value' --no-recovery=1 disk
	refused 2 ' -x: there is no such option' -x disk
	refused 2 'size=1X: give a number of bytes' size=1X
	refused 2 '' path=disk,size=1M
}

t_what_cannot_be_served_is_said_before_the_driver_is_asked()
{
	refused 3 'nothing: No such file' nothing
	refused 3 'neither a file nor a block device' /dev/null
	refused 3 'Is a directory' .
	: >empty
	refused 3 'it has less than a block of 512 bytes' empty
	truncate -s 511 small
	refused 3 'it has less than a block' small
	truncate -s 4095 small
	refused 3 'it has less than a block of 4096' path=small,direct
	refused 3 'no-plugin' plugin=./no-plugin.so
	[ "$(ls)" = "$(printf '%s\n' disk empty err out small)" ] ||
		wrong "there are $(ls)"
}

t_a_missing_driver_is_said_with_its_remedy()
{
	truncate -s 1M disk
	for c in disk size=1M --list --stop=0; do
		refused 3 'no ublk driver, or it is not loaded: modprobe ublk_drv' "$c"
	done
}

t_a_failed_write_to_the_output_is_said()
{
	"$ublk" --help >/dev/full 2>err
	status=$?
	[ $status = 1 ] || wrong "status $status"
	says 'write the output: No space left'
}

driver=
[ ! -e /dev/ublk-control ] || driver='there is one'
run t_wrong_usage_is_said_in_one_message
run t_what_cannot_be_served_is_said_before_the_driver_is_asked
run t_a_missing_driver_is_said_with_its_remedy "$driver"
run t_a_failed_write_to_the_output_is_said
echo "1..$n"
exit $bad
