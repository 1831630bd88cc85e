#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# judge.sh LIST STEP DIR: whether what the tests of the step STEP left in DIR is
# enough: every skip is on LIST with its reason, and at least as many tests have
# passed as LIST asks of that step.  Says what is not so; exits by it.
#
# LIST has comments (#) and lines of these forms, with extended regular
# expressions for whole fields:
#
#	skip STEPS :: TEST PROGRAMS :: WHAT IS SAID OF THE SKIP
#	least STEP NUMBER
set -u
[ $# = 3 ] || {
	echo 'usage: judge.sh LIST STEP DIR' >&2
	exit 2
}

{
	cat "$1"
	echo '== results'
	find -L "$3/" -name '*.trs' -exec cat {} +
	find -L "$3/" -name '*.log' ! -name test-suite.log -exec grep -h '^SKIP: ' {} +
} | LC_ALL=C ${AWK:-awk} -v step="$2" '
	function whole(text, pattern) { return text ~ ("^(" pattern ")$") }

	/^== results$/ { results = 1; next }
	!results && /^skip / {
		sub(/^skip +/, "")
		if (split($0, field, / +:: +/) != 3) {
			print "error: a line of the list has not three fields: " $0
			bad = 1
		}
		if (whole(step, field[1])) {
			n++
			programs[n] = field[2]
			reasons[n] = field[3]
		}
		next
	}
	!results && $1 == "least" && $2 == step { least = $3 }
	!results { next }

	/^:test-result: (PASS|XFAIL)/ { passed++ }
	/^SKIP: / {
		said = $0
		sub(/^SKIP: [^ ]+ */, "", said)
		sub(/^[0-9]+ *(- *)?/, "", said)
		program = $2
		for (i = 1; i <= n; i++)
			if (whole(program, programs[i]) && whole(said, reasons[i]))
				next
		print "error: skipped, and not on the list: " program ": " said
		bad = 1
	}
	END {
		if (passed < least) {
			print "error: " passed + 0 " tests passed, at least " \
				least " are to"
			bad = 1
		}
		exit bad
	}'
