#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The command `weir trace`: what it makes of events, and how it fails.
#
# Environment: WEIR is the program.
# shellcheck disable=SC2317 # run() calls functions by their names.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

weir=$(absolute "${WEIR:-tools/weir}")
enter test-weir-trace

cat >events <<'end'
Attaching 11 probes...
1000000 7 turn_begin 0xaa
1000500 7 job_submit 0xb1 1 4096
1000750 7 job_step 0xb1 cpu 4096
1001000 7 job_done 0xb1 4096 4096
1002000 7 sleep 0xaa 18446744073709551615
1500000 8 wake 0xaa
1500250 7 awake 0xaa 0
1500500 7 turn_end 0xaa 1
1500600 7 something_else 0xaa
1500700 7 job_step 0xb2 a"b\c 1
end

# has TEXT: a line of the output is TEXT, but for a comma at its end.
has()
{
	sed 's/,$//' out | grep -qxF "$1" || wrong "no line: $1"
}

t_events_become_chrome_trace()
{
	expect 0 "$weir" trace events
	has '{"name":"turn","cat":"reactor","ph":"B","ts":0.000,"pid":1,"tid":7,"args":{"object":"0xaa"}}'
	has '{"name":"job","cat":"job","ph":"b","ts":0.500,"pid":1,"tid":7,"id":"0xb1","args":{"object":"0xb1","kind":"1","bytes":"4096"}}'
	has '{"name":"job","cat":"job","ph":"e","ts":1.000,"pid":1,"tid":7,"id":"0xb1","args":{"object":"0xb1","result":"4096","bytes done":"4096"}}'
	has '{"name":"turn","cat":"reactor","ph":"E","ts":500.500,"pid":1,"tid":7,"args":{"object":"0xaa","callbacks":"1"}}'
	[ "$(grep -c '"ph"' out)" = 9 ] || wrong "not 9 events: $(cat out)"
	[ ! -s err ] || wrong "said: $(cat err)"
}

t_standard_input_is_read()
{
	"$weir" trace events >file.json
	"$weir" trace <events | cmp - file.json || wrong 'not as of the file'
}

t_output_is_json()
{
	command -v python3 >/dev/null || return 0
	"$weir" trace events | python3 -c '
import json, sys
events = json.load(sys.stdin)["traceEvents"]
assert sum(e["ph"] in "Bb" for e in events) == 3, events
assert sum(e["ph"] in "Ee" for e in events) == 3, events
assert events[-1]["args"]["engine"] == "a?b?c", events
' || wrong 'python cannot read it'
}

t_no_event_is_an_error()
{
	echo 'Attaching 11 probes...' >none
	expect 1 "$weir" trace none
	grep -q 'no event' err || wrong "said: $(cat err)"
	expect 1 "$weir" trace missing
	expect 2 "$weir" trace events events
	expect 0 "$weir" trace --help
}

run t_events_become_chrome_trace
run t_standard_input_is_read
run t_output_is_json
run t_no_event_is_an_error
echo "1..$n"
exit $bad
