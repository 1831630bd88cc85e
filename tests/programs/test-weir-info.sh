#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The command `weir`: what it tells, to people and to programs, where things
# are refused, and how it fails.
#
# Environment: WEIR is the program, WITHOUT_URING what forbids io_uring.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

man=$(absolute "${srcdir:-$(dirname "$0")/../..}/docs/man/weir.1")
weir=$(absolute "${WEIR:-tools/weir}")
without_uring=$(absolute "${WITHOUT_URING:-tests/support/without-uring}")
provider=$(absolute "${PROVIDER:-tests/programs/.libs/info-provider.so}")
enter test-weir-info
nobody=65533

shows_not() { ! grep -q -e "$1" out || wrong "'$1' in: $(cat out)"; }

# The messages are broken into lines: shows_counters PATTERN, in one line.
shows_counters()
{
	tr -s ' \n' '  ' <out | grep -q -e "$1" || wrong "no '$1' in: $(cat out)"
}

# The output is JSON with what the man page names.
is_json()
{
	$check_json <out >checked 2>&1 ||
		wrong "no JSON: $(head -n 3 checked): $(cat out)"
	for key in version system backend backends devices domains limits \
	    numa_nodes unused; do
		shows "^  \"$key\": [\"{[]"
	done
}

# json EXPRESSION: what jq makes of the output.
json() { jq -r "$1" <out 2>&1; }

t_it_shows_what_there_is()
{
	expect 0 "$weir" info
	[ ! -s err ] || wrong "it complained: $(cat err)"
	for name in Backends uring ev Devices cpu io_uring soft-dm Domains \
	    system file Limits 'locked memory' 'open files'; do
		shows "$name"
	done
	shows "^weir $("$weir" --version | cut -d' ' -f2) on Linux "
}

t_device_of_loaded_provider_is_listed()
{
	expect 0 "$weir" info --provider "$provider"
	shows '^  card0 '
	expect 0 "$weir" info --json --provider="$provider"
	shows '"name": "card0"'
	shows '"kind": "user"'
	expect 1 "$weir" info --provider /nowhere/card.so
	expect 2 "$weir" info --provider
}

t_it_fits_a_screen()
{
	expect 0 "$weir" info
	[ "$(wc -l <out)" -le 60 ] || wrong "$(wc -l <out) lines"
	[ "$(awk '{ print length }' out | sort -n | tail -n 1)" -le 80 ] ||
		wrong "a line is too long: $(awk 'length > 80' out)"
	! grep -n ' $' out || wrong 'blanks at the end of a line'
}

t_json()
{
	expect 0 "$weir" info --json
	is_json
}

t_json_says_the_same_as_text()
{
	expect 0 "$weir" info --json
	json '.devices[] | select(.usable) | .name' >names
	json '.backend.chosen' >chosen
	json '.unused[].what' >unused
	expect 0 "$weir" info
	sed -n '/^Devices/,/^Domains/p' out >devices
	while read -r name; do
		grep -q -e "^  \(.* \)\?$name\( \|\$\)" devices ||
			wrong "no $name in: $(cat devices)"
	done <names
	shows "^\* $(cat chosen) "
	while read -r name; do
		shows "^  $name\( \|\$\)"
	done <unused
}

t_json_has_what_the_man_page_names()
{
	expect 0 "$weir" info --json
	json 'paths | map(select(type == "string")) | last' | sort -u >keys
	while read -r key; do
		sed 's/\\-/-/g' "$man" | grep -qw -e "$key" ||
			wrong "weir(1) does not know $key"
	done <keys
	json '[.backends[].features // [], .devices[].capabilities][][]' >names
	while read -r name; do
		sed 's/\\-/-/g' "$man" | grep -qw -e "$name" ||
			wrong "weir(1) does not know $name"
	done <names
}

t_each_thing_not_used_has_a_reason()
{
	expect 0 "$weir" info --json
	json '.unused[] | select((.why | length) < 10)' >short
	[ ! -s short ] || wrong "no reason: $(cat short)"
}

t_nothing_not_used_is_named_twice()
{
	expect 0 nobody "'$weir' info --json"
	json '.unused[].what' | sort | uniq -d >twice
	[ ! -s twice ] || wrong "twice: $(cat twice)"
}

t_quiet()
{
	expect 0 "$weir" info --quiet
	[ ! -s out ] || wrong 'it was not'
	[ ! -s err ] || wrong "it complained: $(cat err)"
	expect 0 "$weir" info -q --json
	[ ! -s out ] || wrong 'not with --json'
}

t_help_and_version()
{
	expect 0 "$weir" --help && shows '^  info '
	expect 0 "$weir" info --help && shows '^Usage: weir info'
	expect 0 "$weir" --version && shows '^weir [0-9]'
}

t_usage()
{
	expect 2 "$weir" && says_only 'no command'
	expect 2 "$weir" information && says_only "no command 'information'"
	expect 2 "$weir" --verbose && says_only "no option '--verbose'"
	expect 2 "$weir" info --verbose && says_only "no option '--verbose'"
	expect 2 "$weir" info -x && says_only "no option '-x'"
	expect 2 "$weir" info -qx && says_only "no option '-x'"
	expect 2 "$weir" info --json=yes && says_only "'--json=yes'"
	expect 2 "$weir" info all && says_only "'all' is too much"
	[ ! -s out ] || wrong 'it wrote something'
	expect 2 "$weir" "$(printf 'in\nfo')"
}

t_ev_by_name()
{
	expect 0 env WEIR_BACKEND=ev "$weir" info
	shows '^\* ev '
	shows_counters 'io_uring WEIR_BACKEND=ev says not to touch .* -> unset it'
}

t_no_backend()
{
	expect 1 env WEIR_BACKEND=magic "$weir" info
	says_only 'cannot run here: WEIR_BACKEND=magic'
	shows_not '^\* '
	expect 1 env WEIR_BACKEND=magic "$weir" info --quiet
	[ ! -s out ] || wrong 'it was not quiet'
	expect 1 env WEIR_BACKEND=magic "$weir" info --json && is_json
	shows '"chosen": null'
}

t_io_uring_refused()
{
	for err in 1 13 38; do
		expect 0 "$without_uring" "$err" "$weir" info
		shows '^\* ev '
		shows '^  uring  *not usable'
		shows_counters ' io_uring [a-z_; ]*not usable, see below'
		shows_counters 'io_uring [a-z].* -> .*ev backend'
		expect 0 "$without_uring" "$err" "$weir" info --json && is_json
	done
	[ "$(cat /proc/sys/kernel/io_uring_disabled 2>/dev/null)" = 0 ] && {
		expect 0 "$without_uring" 1 "$weir" info
		shows_counters 'not allowed here: a seccomp filter or a security module ->'
	}
	expect 1 env WEIR_BACKEND=uring "$without_uring" 1 "$weir" info
	says_only 'io_uring is not allowed here'
}

# Which of the causes it is: the sysctl is read, here one that says so.
t_io_uring_disabled()
{
	for value in 1 2; do
		echo $value >disabled
		expect 0 unshare -m sh -c 'mount --bind disabled \
			/proc/sys/kernel/io_uring_disabled && exec "$@"' sh \
			"$without_uring" 1 "$weir" info
		shows_counters "kernel.io_uring_disabled is $value"
	done
	shows_counters '-> as root: sysctl kernel.io_uring_disabled=0, or'
}

t_nobody()
{
	expect 0 nobody "'$weir' info" && shows '^Devices'
	expect 0 nobody "'$weir' info --json" && is_json
}

t_little_locked_memory()
{
	expect 0 nobody "ulimit -l 64; '$weir' info"
	shows 'locked memory  *64 KiB'
	shows_counters 'registered memory ulimit -l is 64 KiB: .* -> ulimit -l'
	# The rings themselves may count.
	[ "$no_ev" ] ||
		{ expect 0 nobody "ulimit -l 0; '$weir' info --json" && is_json; }
}

t_few_descriptors()
{
	expect 0 sh -c "ulimit -n 64; '$weir' info"
	shows '^  open files  *64'
	shows_counters 'registered files ulimit -n is 64: .* -> ulimit -n'
}

t_full_disk()
{
	for option in '' --json --help; do
		# shellcheck disable=SC2086 # Perhaps none.
		expect 1 sh -c '"$@" >/dev/full' - "$weir" info $option
		says_only 'cannot write to standard output: No space left'
	done
	expect 1 sh -c '"$@" >/dev/full' - "$weir" --version
}

t_closed_output()
{
	expect 1 sh -c '"$@" >&-' - "$weir" info
	says_only 'standard output is closed'
}

# The reader has gone before the first byte is written.
t_closed_pipe()
{
	rm -f pipe status
	mkfifo pipe
	(
		exec 3>pipe
		: >opened
		while [ ! -e gone ]; do :; done
		status=0
		"$weir" info >&3 2>err || status=$?
		echo "$status" >status
	) &
	exec 4<pipe
	exec 4<&-
	: >gone
	wait $!
	[ "$(cat status)" = 1 ] || wrong "status $(cat status)"
	says_only 'cannot write to standard output: Broken pipe'
}

no_json=
check_json='jq -e .'
no_jq=
if ! command -v jq >/dev/null; then
	no_jq='no jq'
	check_json='python3 -m json.tool'
	command -v python3 >/dev/null || no_json='neither jq nor python3'
	[ "$no_json" ] && check_json=true
fi
no_nobody=
nobody "'$weir' --version" >out 2>&1 ||
	no_nobody='not to be reached by the unprivileged'
no_filter=
"$without_uring" 1 true
[ $? = 77 ] && no_filter='no seccomp filter can be set'
no_mounts=
: >disabled
unshare -m mount --bind disabled /proc/sys/kernel/io_uring_disabled \
	2>/dev/null || no_mounts='nothing can be mounted there'
no_uring=
no_ev=
"$weir" info >out
grep -q '^  uring  *not usable' out && no_uring='no io_uring here'
grep -q '^  ev  *not usable' out && no_ev='built without libev'

no_provider=
[ -r "$provider" ] || no_provider='built without shared objects'
run t_it_shows_what_there_is
run t_it_fits_a_screen
run t_device_of_loaded_provider_is_listed "$no_provider"
run t_json "$no_json"
run t_json_says_the_same_as_text "$no_jq"
run t_json_has_what_the_man_page_names "$no_jq"
run t_each_thing_not_used_has_a_reason "$no_jq"
run t_nothing_not_used_is_named_twice "$no_jq$no_nobody"
run t_quiet
run t_help_and_version
run t_usage
run t_ev_by_name "$no_ev"
run t_no_backend
run t_io_uring_refused "$no_filter$no_ev"
run t_io_uring_disabled "$no_filter$no_ev$no_mounts"
run t_nobody "$no_nobody"
run t_little_locked_memory "$no_nobody$no_uring"
run t_few_descriptors
run t_full_disk
run t_closed_output
run t_closed_pipe
echo "1..$n"
exit $bad
