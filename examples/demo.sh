#!/bin/sh
# SPDX-License-Identifier: CC0-1.0
# demo.sh WEIR-CP: copy some hundred MB of this machine's files with it, over
# each backend and by each path; compare every byte, and what belongs to it,
# with tools that are not weir's; and show what happened.
#
# Everything is done in a directory of its own, which is removed at the end:
# under $TMPDIR, or /tmp.  Ends with status 0 only if nothing differed.
set -u
LC_ALL=C
export LC_ALL

cp=${1:?usage: demo.sh WEIR-CP}
[ -d "$cp" ] && cp=$cp/weir-cp
cp=$(cd "$(dirname "$cp")" && pwd)/${cp##*/}
[ -x "$cp" ] || { echo "$cp: no program" >&2; exit 1; }
wanted_kib=400000	# To copy, about.
spare_kib=300000	# To leave free.

say() { printf '%s\n' "$*"; }
die() { say "demo: $*" >&2; exit 1; }

tmp=$(mktemp -d "${TMPDIR:-/tmp}/weir-demo.XXXXXX") || exit 1
trap 'cd / && chmod -R u+rwx "$tmp" && rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$tmp" || exit 1

free_kib() { df -Pk . | awk 'NR == 2 { print $4 }'; }

# Collect directories of the machine, up to the wanted size, by cp; those that
# cannot be read as a whole are left out.
collect()
{
	mkdir source
	total=0
	find /usr/share /usr/lib -xdev -mindepth 1 -maxdepth 1 -type d \
		-readable 2>/dev/null | sort >candidates
	while read -r candidate; do
		size=$(du -xsk "$candidate" 2>/dev/null | cut -f1)
		[ "${size:-0}" -gt 0 ] || continue
		[ $((total + size)) -le $wanted_kib ] || continue
		name=$(say "${candidate#/usr/}" | tr / -)
		cp -a "$candidate" "source/$name" 2>/dev/null || {
			chmod -R u+rwx "source/$name" 2>/dev/null
			rm -rf "source/$name"
			continue
		}
		total=$((total + size))
	done <candidates
}

# What few machines have at hand: large files, one of them mostly holes.
add_large()
{
	find source -type f -size +64k -exec cat {} + 2>/dev/null |
		head -c 100000000 >source/large
	truncate -s 1G source/sparse
	for at in 0 1234567 900000000; do
		echo data | dd of=source/sparse bs=1 seek=$at conv=notrunc \
			2>/dev/null
	done
	ln source/large source/same-as-large
	ln -s large source/link
	echo data >"source/a name
in two lines"
}

# Everything but the data: type, mode, owner, time, names, size, target.
list()
{
	(cd "$1" && find . -type d -printf '%p %y %m %U:%G %T@\n' -o \
		-printf '%p %y %m %U:%G %T@ %n %s %l\n' | sort)
}

# Compare $1 with the source; sets $verdict.
compare()
{
	diff -r --no-dereference source "$1" >differences 2>&1
	list "$1" >list.copy
	diff list.source list.copy >>differences
	# With the blocks that a file system needs for itself, a hole is one
	# still.
	[ "$(du -k "$1/sparse" | cut -f1)" -le 256 ] ||
		say "the hole in $1/sparse was filled" >>differences
	if [ -s differences ]; then
		verdict='DIFFERS'
		bad=1
		head -n 5 differences >>report
	else
		verdict='equal in all'
	fi
}

now_ms() { date +%s%3N; }

# run NAME COMMAND...: copy the source, time it, compare it, say so.
run()
{
	name=$1
	shift
	rm -rf copy
	start=$(now_ms)
	"$@" source copy >out 2>err || {
		verdict="FAILED: $(tail -n 1 err)"
		bad=1
	}
	ms=$(($(now_ms) - start))
	[ -d copy ] && compare copy
	printf '  %-28s %6d.%02d s %6d MB/s   %s\n' "$name" $((ms / 1000)) \
		$((ms % 1000 / 10)) $((mb * 1000 / (ms + 1))) "$verdict"
	chmod -R u+rwx copy 2>/dev/null
}

# Why backend $1 cannot be had.
# shellcheck disable=SC2069 # what it complains of is wanted, what it prints is not
refused() { "$cp" --backend="$1" list.source out 2>&1 >/dev/null; }

field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" out; }

# Each way to copy with backend $1.
run_backend()
{
	if why=$(refused "$1"); then
		:
	elif [ "$1" = uring ]; then
		say "  $1: not here: ${why#weir-cp: }"
		return
	else
		die "$why"
	fi
	for path in auto pipeline kernel; do
		run "weir-cp $1, $path" "$cp" -a --json --backend="$1" \
			--path=$path
		shown="by the pipeline $(field by_pipeline), by the kernel"
		shown="$shown $(field by_kernel)"
		say "$1, $path: $shown" >>paths
	done
	say "$(field why)" >>backends
}

# The checksums that weir-cp printed do not depend on the way; and a copy that
# was read back is what it should be.
run_checked()
{
	run "weir-cp --checksum --verify" "$cp" -a --checksum --verify
	sort out >sums
	lines=$(wc -l <sums)
	run "weir-cp --checksum, ev" "$cp" -a --checksum --backend=ev
	sort out >sums.ev
	cmp sums sums.ev || { say 'The checksums differ.'; bad=1; }
}

bad=0
verdict=
: >report
: >paths
: >backends
[ "$(free_kib)" -gt $((2 * wanted_kib + spare_kib)) ] ||
	wanted_kib=$((($(free_kib) - spare_kib) / 3))
[ $wanted_kib -gt 20000 ] || die "not enough capacity in $tmp"
collect
add_large
list source >list.source
mb=$(($(find source -type f -links 1 -printf '%b\n' |
	awk '{ n += $1 } END { print int(n / 2) }') / 1000 + 100))

say "weir-cp $("$cp" --version | cut -d' ' -f2), on files of this machine:" \
	"$(grep -c ' f ' list.source) files, $(grep -c ' d ' list.source)" \
	"directories," \
	"$(grep -c ' l ' list.source) links, $mb MB, and 1 GB of holes."
say 'Compared: bytes (diff), and mode, owner, times, links, holes (find, du).'
say
run 'cp -a' cp -a
for backend in uring ev; do
	run_backend $backend
done
run_checked
say
say 'Files that went'
sed 's/^/  /' paths
say 'Backends'
fold -s -w 76 backends | sed 's/^/  /'
say "CRC-32C of $lines files: the same over both backends, whatever the order"
say 'in which their blocks were read.'
say
if [ $bad = 0 ]; then
	say 'Nothing differs.'
else
	cat report
	say 'SOMETHING DIFFERS; see above.'
fi
exit $bad
