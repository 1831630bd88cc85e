#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The units of systemd are valid, start a program that is there, and leave it few
# rights: systemd grades them from 0, none, to 10.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/check.sh"
most=20			# Tenths of a grade.

tmp=$(mktemp -d ./units.XXXXXX) || exit 1
trap 'rm -rf "$tmp"' EXIT

if ! systemd-analyze --version >/dev/null 2>&1; then
	skips 'units are valid' 'there is no systemd-analyze'
	report
fi
for unit in "$dir"/programs/systemd/*.in; do
	name=${unit##*/}
	name=${name%.in}
	program=${name%%[@.]*}
	if [ ! -x "programs/$program/$program" ]; then
		skips "$name is valid" "there is no $program"
		continue
	fi
	# A name for the instance of those that need one.
	file=$tmp/$(echo "$name" | sed 's/@\./@test./')
	sed "s|@bindir@|$PWD/programs/$program|" "$unit" >"$file"
	holds "$name is valid" "$(systemd-analyze verify --man=no "$file" 2>&1)"
	grade=$(systemd-analyze security --offline=yes --no-pager "$file" 2>&1 |
		sed -n 's/.*exposure level for [^:]*: *\([0-9]*\)\.\([0-9]\).*/\1\2/p')
	holds "$name is exposed little" "$(
		[ "${grade:-100}" -le $most ] || echo "${grade:-no grade}")"
done
report
