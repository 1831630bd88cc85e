#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The two examples that exchange memory, as two processes: all of it arrives,
# and when one of them is killed, anywhere, the other says so and has lost
# nothing.
#
# Environment: WEIR_TEST_BACKEND=uring|ev runs one backend alone; WEIR_TEST_LONG=1
# exchanges 1 GiB and kills 200 times; WEIR_TEST_SEED is for the times of death.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

exporter=$PWD/examples/13-export
importer=$PWD/examples/14-import
enter test-export-examples
nobody=65532

seed=${WEIR_TEST_SEED:-1}
if [ "${WEIR_TEST_LONG:-0}" = 1 ]; then
	mib=1024
	kills=100 # On each backend.
else
	mib=16
	kills=5
fi

# failed TEXT...: say why, with what the two have said.
failed()
{
	result 'not ok' "$1"
	shift
	printf '%s\n' "$@" "exporter: $(cat x.out x.err)" \
		"importer: $(cat i.out i.err)" | sed 's/^/# /'
	bad=1
}

# Begin an exporter of $1 MiB, and wait until it listens; false if it does not.
begin()
{
	rm -f line
	mkfifo line
	: >x.out
	"$exporter" s "$1" 1 >line 2>x.err &
	x=$!
	exec 3<line
	read -r listens <&3 || return 1
	echo "$listens" >x.out
}

# Wait for it; its status is in $x_status.
end()
{
	x_status=0
	wait $x 2>/dev/null || x_status=$?
	cat <&3 >>x.out
	exec 3<&-
}

exchange()
{
	begin $mib || {
		end
		failed "$mib MiB are exchanged" 'it does not listen'
		return
	}
	i_status=0
	"$importer" s >i.out 2>i.err || i_status=$?
	end
	if [ $x_status = 0 ] && [ $i_status = 0 ] && [ ! -e s ] &&
	   grep -q "all answered" x.out; then
		result ok "$mib MiB are exchanged"
	else
		failed "$mib MiB are exchanged" "$x_status, $i_status"
	fi
}

# Seconds, of $1 at most: the times are the same for the same seed.
moment()
{
	seed=$(awk -v s="$seed" 'BEGIN { print (s * 16807) % 2147483647 }')
	awk -v s="$seed" -v t="$1" 'BEGIN { printf "%.4f", s / 2147483647 * t }'
}

# Begin an importer, and wait until it has asked.
ask()
{
	"$importer" s >i.out 2>i.err &
	i=$!
	read -r asks <&3 && echo "$asks" >>x.out
}

# How long 64 MiB take here, from the question on.
measure()
{
	begin 64 || return 1
	ask
	before=$(date +%s%N)
	wait $i
	after=$(date +%s%N)
	end
	awk -v a="$after" -v b="$before" \
		'BEGIN { printf "%.4f", (a - b) / 1e9 }'
}

# kill_one exporter|importer: false, with the reason in $why, if the other one
# does not end as it should.
kill_one()
{
	why=
	delay=$(moment "$span")
	begin 64 || why='it does not listen'
	if [ $((k % 8)) = 7 ]; then # Perhaps before it has asked.
		"$importer" s >i.out 2>i.err &
		i=$!
	else
		ask
	fi
	sleep "$delay"
	case $1 in
	exporter) kill -9 $x 2>/dev/null ;;
	importer) kill -9 $i 2>/dev/null ;;
	esac
	i_status=0
	wait $i 2>/dev/null || i_status=$?
	end
	case $1 in
	exporter)
		if [ $i_status = 1 ] && grep -q '^14-import: ' i.err; then
			midway=$((midway + 1))
		elif [ $i_status != 0 ]; then
			why="the importer: $i_status"
		fi ;;
	importer)
		if [ $x_status = 1 ] && grep -q 'nothing is lost' x.err; then
			midway=$((midway + 1))
		elif [ $x_status != 0 ] && ! grep -q 'no importer came' x.err; then
			why="the exporter: $x_status"
		fi ;;
	esac
	[ -z "$why" ]
}

# A dead exporter leaves its socket, which the next one replaces.
kill_many()
{
	name="$kills times the $1 is killed, and the other says so"
	midway=0
	k=0
	while [ $k -lt $kills ]; do
		k=$((k + 1))
		kill_one "$1" || {
			failed "$name" "kill $k, seed $seed: $why"
			return
		}
	done
	result ok "$name"
	echo "# $midway of $kills before it was done"
}

other_user()
{
	name='another user gets nothing'
	if [ "$(id -u)" != 0 ]; then
		result ok "$name" 'only root can become somebody else'
		return
	fi
	begin 1
	i_status=0
	nobody "'$importer' s" >i.out 2>i.err || i_status=$?
	if [ $i_status = 126 ] || [ $i_status = 127 ]; then
		result ok "$name" 'not to be reached by the unprivileged'
	elif [ $i_status = 1 ] && grep -q 'Permission denied' i.err &&
	     [ "$(stat -c %a s)" = 600 ]; then
		result ok "$name"
	else
		failed "$name" "$i_status"
	fi
	kill -9 $x
	end
}

for backend in uring ev; do
	[ "${WEIR_TEST_BACKEND:-$backend}" = "$backend" ] || continue
	export WEIR_BACKEND=$backend
	if "$importer" nowhere 2>&1 |
	   grep -E 'kernel has no|not allowed|too old|built without' >i.err; then
		result ok 'all of it' "$(cat i.err)"
		continue
	fi
	exchange
	span=$(measure)
	kill_many exporter
	kill_many importer
	rm -f s
	other_user
	rm -f s
done
echo "1..$n"
exit $bad
