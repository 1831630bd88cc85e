#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check-models.sh [MODEL...]: go through all states of the models of the parts
# that are hard to get right (tests/models/*.pml), with Spin.
#
# In a model "wrong: A B" names variants that leave out something, of which each
# must be found wrong: one that cannot fail proves nothing.  "long: A=1 B=2" are
# larger ones for WEIR_TEST_LONG=1.  Each has one claim, that all come to their
# end: Spin looks for an endless way, a dead end, or a broken assertion.
#
# The time is the compiler's more than Spin's: so without optimisation, but for
# the long ones.  WEIR_MODELS=0: they are not gone through again; 2/4: only every
# fourth variant, from the second on.
set -u
top=$(cd "${srcdir:-.}" && pwd)
[ $# != 0 ] || set -- "$top"/tests/models/*.pml
long=${WEIR_TEST_LONG:-0}
cc=${CC:-cc}

for tool in spin "${cc%% *}"; do
	command -v "$tool" >/dev/null && continue
	echo "1..0 # SKIP there is no $tool"
	exit 77
done

[ -z "${SAN_CFLAGS-}" ] || {
	echo '1..0 # SKIP they are the same with and without sanitizers'
	exit 77
}

[ "${WEIR_MODELS-1}" != 0 ] || {
	echo '1..0 # SKIP they were gone through before: WEIR_MODELS=0'
	exit 77
}

part=${WEIR_MODELS:-1/1}
parts=${part#*/}
part=${part%/*}
seen=0

dir=$(mktemp -d ./check-models.XXXXXX) || exit 1
trap 'cd / && rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
cd "$dir" || exit 1
dir=$(pwd)
n=0
bad=0

# verify MODEL FLAGS...: what Spin says of it is in out; 0: nothing is wrong,
# 1: something is, 2: it could not tell.
verify()
{
	rm -f pan* ./*.trail
	cp "$1" model.pml || return 2
	shift
	spin -a "$@" model.pml >out 2>&1 || return 2
	# shellcheck disable=SC2086 # It may be a command with arguments.
	$cc $optimise -w -o pan pan.c >out 2>&1 || return 2
	./pan -a -m1000000 >out 2>&1 || return 2
	grep -qE 'max search depth too small|out of memory' out && return 2
	grep -q 'errors: 0$' out && return 0
	grep -q 'errors: [1-9]' out && return 1
	return 2
}

# expect STATUS WHAT MODEL FLAGS...
expect()
{
	want=$1
	what=$2
	shift 2
	seen=$((seen + 1))
	[ $((seen % parts)) = $((part % parts)) ] || return 0
	status=0
	verify "$@" || status=$?
	n=$((n + 1))
	if [ $status = "$want" ]; then
		echo "ok $n - $what"
		return
	fi
	echo "not ok $n - $what"
	sed 's/^/# /' out
	if [ $status = 1 ]; then
		spin -t -p model.pml 2>/dev/null | tail -n 60 | sed 's/^/# /'
	fi
	bad=1
}

words() { sed -n "s/^ \* $1: //p" "$2"; }

for model; do
	name=${model##*/}
	name=${name%.pml}
	optimise=-O0
	expect 0 "$name holds" "$model"
	for v in $(words wrong "$model"); do
		expect 1 "$name fails with $v" "$model" "-D$v"
	done
	[ "$long" = 1 ] || continue
	optimise=-O2
	for v in $(words long "$model"); do
		expect 0 "$name holds with $v" "$model" "-D$v"
	done
done
echo "1..$n"
exit $bad
