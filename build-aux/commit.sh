#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# commit.sh SRCDIR FILE
#
# Say in FILE, a header, of which commit SRCDIR is; a tarball is of none.  What
# is right already is left as it is, and so is what git does not want to tell
# this user, as where root installs what another has built.
set -eu

commit=
if [ -e "$1/.git" ]; then
	commit=$(GIT_OPTIONAL_LOCKS=0 git -C "$1" describe --always --dirty \
		--abbrev=12 2>/dev/null) || [ ! -e "$2" ] || exit 0
fi
printf '#define WEIR_COMMIT "%s"\n' "${commit:+ ($commit)}" >"$2.new"
if cmp -s "$2.new" "$2"; then
	rm "$2.new"
else
	mv "$2.new" "$2"
fi
