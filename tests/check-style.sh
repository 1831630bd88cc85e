#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What keeps the tree easy to hold in one's head: see CONTRIBUTING.md.
dir=${srcdir:-.}
LC_ALL=C
export LC_ALL
n=0
bad=0

# holds WHAT TEXT: TEXT, what breaks it, is empty.
holds()
{
	n=$((n + 1))
	if [ -z "$2" ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		echo "$2" | sed 's/^/# /'
		bad=1
	fi
}

# The libraries' sources, without a suffix.
sources()
{
	(cd "$dir" && ls base/*.c reactor/*.c reactor/*/*.c mem/*.c mem/*/*.c \
		dma/*.c dma/*/*.c rdma/*.c sim/*.c) | sed 's/\.c$//'
}

for o in $(sources); do
	[ ! -f "$o.o" ] || ${NM:-nm} -g "$o.o" 2>/dev/null | sed "s|^|$o |"
done >check-style.nm
trap 'rm -f check-style.nm' EXIT
if [ -s check-style.nm ] && ! grep -q __gnu_lto check-style.nm; then
	said=$(${AWK:-awk} -v max=6 -f "$dir/tests/cohesion.awk" check-style.nm)
	holds 'at most 6 files need each other, all of one folder' \
		"$(echo "$said" | grep '^cycle')"
	# The number falls; let it not rise again.
	holds 'few internal names are global for one file' \
		"$(echo "$said" | awk '$1 == "one-use" && $2 > 420')"
else
	n=$((n + 1))
	echo "ok $n - cohesion # SKIP no object files, or of a compiler's own kind"
fi

# What the three journeys of CONTRIBUTING.md come to, counted where it stands:
# the files that name a kind of operation, an engine and a kind of domain.
naming() { (cd "$dir" && grep -lw "$@" 2>/dev/null) | sort -u; }
more_than() { [ "$(echo "$2" | wc -l)" -le "$1" ] || echo "$2"; }

all="base/*.[ch] reactor/*.[ch] reactor/*/*.[ch] mem/*.[ch] mem/*/*.[ch]
	dma/*.[ch] dma/*/*.[ch] rdma/*.[ch] sim/*.[ch] include/weir/*.h weir.map"
# shellcheck disable=SC2086 # Lists of files.
{
	holds 'a kind of operation, IO_FALLOCATE, is in at most 9 files' \
		"$(cd "$dir" && more_than 9 \
			"$(naming -e IO_FALLOCATE -e weir_fallocate $all)")"
	holds 'an engine, engine_process, is in at most 3 files' \
		"$(cd "$dir" && more_than 3 "$(naming engine_process $all)")"
	holds 'a kind of domain, that of a peer, is in at most 4 files' \
		"$(cd "$dir" && more_than 4 "$(naming WEIR_DOMAIN_REMOTE \
			$all)")"
	holds 'only the file of a kind of domain compares kinds' \
		"$(cd "$dir" && grep -nE \
			'kind [!=]= WEIR_DOMAIN_|case WEIR_DOMAIN_' $all)"
}

holds 'no file of the tree asks for config.h' \
	"$(cd "$dir" && grep -l '^#ifdef HAVE_CONFIG_H' ./*/*.[ch] ./*/*/*.[ch])"
holds 'READMEs of layers have at most 2,500 words' \
	"$(cd "$dir" && for f in reactor mem dma; do
		[ "$(wc -w <$f/README.md)" -le 2500 ] || echo "$f/README.md"
	done)"
echo "1..$n"
exit $bad
