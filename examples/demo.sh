#!/bin/sh
# SPDX-License-Identifier: CC0-1.0
# demo.sh [BUILD_DIR]: what weir does, in less than 90 seconds and on one screen,
# each action with how it was verified, and with a peer beside it.
#
# Times are medians of three, in rotating order; before each the disk has written
# what was there before.  The programs are those of BUILD_DIR, or the installed ones.
# Everything is done in a directory of its own under $TMPDIR or /tmp, which is
# removed at the end.  Ends with status 0 only if everything was as it should be.
# shellcheck disable=SC2015,SC2046,SC2086,SC2154,SC2317
# Lists; and names of functions and variables are put together.
set -u
LC_ALL=C
export LC_ALL

here=$(cd "$(dirname "$0")" && pwd)
build=${1:+$(cd "$1" && pwd)}
begun=$(date +%s)
wanted_kib=60000	# To copy, about.
sim_seconds=15

say() { printf '%s\n' "$*"; }
die() { say "demo: $*" >&2; exit 1; }
has() { command -v "$1" >/dev/null; }

tmp=$(mktemp -d "${TMPDIR:-/tmp}/weir-demo.XXXXXX") || exit 1
servers=
finish()
{
	for pid in $servers; do
		kill "$pid" && wait "$pid"
	done 2>/dev/null
	cd / && chmod -R u+rwx "$tmp" && rm -rf "$tmp"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$tmp" || exit 1

# The program $1, wherever it is.
program()
{
	case ${build:+built}$1 in
	builtweir | builtweir-sim) say "$build/tools/$1" ;;
	built*) say "$build/programs/$1/$1" ;;
	*) command -v "$1" ;;
	esac
}
for p in weir weir-cp weir-nbd weir-proxy weir-sim; do
	[ -x "$(program $p)" ] || die "there is no $p"
done
weir=$(program weir) cp=$(program weir-cp) nbd=$(program weir-nbd)
proxy=$(program weir-proxy) sim=$(program weir-sim)

bad=0
wrong() { bad=1; verdict="WRONG: $*"; }
now_ms() { date +%s%3N; }
median() { printf '%s\n' "$@" | sort -n | sed -n 2p; }

# timed NAME COMMAND...: adds its milliseconds to $NAME.
timed()
{
	name=$1
	shift
	sync
	from=$(now_ms)
	"$@" >out 2>err || wrong "$name failed: $(tail -n 1 err)"
	eval "$name=\"\$$name $(($(now_ms) - from))\""
}

# rounds A B: each three times, in rotating order; both are functions.
rounds()
{
	verdict=
	eval "$1= $2="
	for order in "$1 $2" "$2 $1" "$1 $2"; do
		for f in $order; do
			before_"${f#*_}"
			timed "$f" "run_$f"
			after "$f"
		done
	done
}

# Seconds of the list of milliseconds $1, as the median.
seconds()
{
	set -- $(median $1)
	printf '%d.%02d s' $(($1 / 1000)) $(($1 % 1000 / 10))
}

# line ACTION OURS PEER VERDICT
line() { printf '%-20s %-19s %-13s %s\n' "$1" "$2" "$3" "$4"; }

# Directories of the machine, up to the wanted size, with what few have at hand: a
# large file, holes, links, odd names.
collect()
{
	mkdir source
	total=0
	find /usr/share /usr/lib -xdev -mindepth 1 -maxdepth 1 -type d \
		-readable 2>/dev/null | sort | while read -r candidate; do
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
	done
	head -c 67108864 /dev/urandom >source/large
	truncate -s 1G source/sparse
	say data | dd of=source/sparse bs=1 seek=123456789 conv=notrunc 2>/dev/null
	ln source/large source/same-as-large
	ln -s large source/link
	say data >"source/a name
in two lines"
}

# Everything but the data: type, mode, owner, time, names, size, target.
list()
{
	(cd "$1" && find . -type d -printf '%p %y %m %U:%G %T@\n' -o \
		-printf '%p %y %m %U:%G %T@ %n %s %l\n' | sort)
}

before_cp() { rm -rf copy; }
run_weir_cp() { "$cp" -a source copy; }
run_plain_cp() { cp -a source copy; }
after_cp()
{
	[ "$1" = weir_cp ] || return 0
	list copy | cmp -s list.source - &&
		diff -r --no-dereference source copy >/dev/null ||
		wrong 'the copy differs'
	[ "$(du -k copy/sparse | cut -f1)" -le 256 ] ||
		wrong 'the hole was filled'
}
after() { after_"${1#*_}" "$1"; }

demo_cp()
{
	rounds weir_cp plain_cp
	files=$(grep -c ' f ' list.source)
	line "copy $files files" "weir-cp $(seconds "$weir_cp")" \
		"cp -a $(seconds "$plain_cp")" \
		"${verdict:-equal (diff, find, du)}"
	rm -rf copy
}

# serve NAME FILE COMMAND...: in the background, until FILE is there.
serve()
{
	file=$1
	shift
	"$@" >server.out 2>&1 &
	servers="$servers $!"
	i=0
	while [ ! -S "$file" ] && [ $i -lt 100 ]; do
		sleep 0.05
		i=$((i + 1))
	done
	[ -S "$file" ] || die "$1 does not serve: $(tail -n 1 server.out)"
}

before_nbd() { rm -f got; }
run_weir_nbd() { nbdcopy 'nbd+unix:///?socket=weir.sock' got; }
run_other_nbd() { nbdcopy 'nbd+unix:///?socket=other.sock' got; }
after_nbd() { cmp -s source/large got || wrong 'the device differs'; }

demo_nbd()
{
	if ! has nbdcopy || ! has nbdkit; then
		line 'block device, 67 MB' 'not shown' '' \
			'needs libnbd-bin and nbdkit'
		return
	fi
	serve weir.sock "$nbd" --quiet --unix=weir.sock \
		--export=ro,path=source/large
	serve other.sock nbdkit -f -r -U other.sock file source/large
	rounds weir_nbd other_nbd
	line 'block device, 67 MB' "weir-nbd $(seconds "$weir_nbd")" \
		"nbdkit $(seconds "$other_nbd")" \
		"${verdict:-equal (cmp)}"
	rm -f got
}

before_http() { rm -rf pages; mkdir pages; }
run_weir_http() { fetch --unix-socket http.sock; }
run_direct_http() { fetch; }
fetch()
{
	sed "s,.*,url = \"http://127.0.0.1:$port/&\"\noutput = \"pages/&\"," \
		names | curl -sf "$@" -K -
}
after_http() { diff -r web pages >/dev/null || wrong 'a page differs'; }

demo_http()
{
	if ! has curl || ! has python3; then
		line 'HTTP, 200 pages' 'not shown' '' 'needs curl and python3'
		return
	fi
	mkdir web
	find source -type f -name '[a-zA-Z]*' -size -200k | grep -v ' ' |
		head -n 200 | while read -r page; do
		i=$((${i:-0} + 1))
		cp "$page" web/$i
	done
	(cd web && ls) >names
	(cd web && exec python3 -u -m http.server --bind 127.0.0.1 0) \
		>http.out 2>/dev/null &
	servers="$servers $!"
	i=0
	until port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' http.out) &&
		[ "$port" ] || [ $i -ge 100 ]; do
		sleep 0.05
		i=$((i + 1))
	done
	serve http.sock "$proxy" unix:http.sock "127.0.0.1:${port:-1}"
	rounds weir_http direct_http
	line "HTTP, $(wc -l <names) pages" "weir-proxy $(seconds "$weir_http")" \
		"direct $(seconds "$direct_http")" \
		"${verdict:-equal (diff)}"
}

demo_memory()
{
	verdict=
	revoke=$build/examples/39-revoke
	if [ ! "$build" ]; then
		revoke=./39-revoke
		${CC:-cc} -O2 -o $revoke "$here/39-revoke.c" \
			$(pkg-config --cflags --libs weir) ||
			die 'cannot compile 39-revoke.c'
	fi
	us='' mb=0
	for i in 1 2 3; do
		$revoke >out 2>err || wrong "$(tail -n 1 err) $(tail -n 1 out)"
		us="$us $(sed -n 's/revoked in \([0-9]*\) .*/\1/p' out)"
		mb=$((mb + $(sed -n 's/.*wrote \([0-9]*\) MB.*/\1/p' out)))
	done
	line "lend $mb MB, revoke" "revoked in $(median $us) us" ""  \
		"${verdict:-no late byte, -ESTALE}"
}

demo_sim()
{
	verdict=
	"$sim" --seeds 3 all >first 2>&1 || wrong 'a seed fails'
	"$sim" --seeds 3 all 2>&1 | sed 's/, [^,]*$//' >second
	sed 's/, [^,]*$//' first | cmp -s - second || wrong 'seeds do not repeat'
	seeds=100 first=4 all=0 faults=0
	end=$(($(date +%s) + sim_seconds))
	while [ "$(date +%s)" -lt $end ]; do
		"$sim" --first $first --seeds $seeds --jobs "$(nproc)" all \
			>out 2>&1 || {
			wrong "$(grep -m 1 seed out)"
			break
		}
		first=$((first + seeds))
		set -- $(sed -n 's/^all  *\([0-9]*\) seeds, .* \([0-9]*\) faults.*/\1 \2/p' out)
		all=$((all + ${1:-0})) faults=$((faults + ${2:-0}))
	done
	line "simulate $all worlds" "$faults faults" '' \
		"${verdict:-rules kept, seeds repeat}"
}

say "Collecting files of this machine ..."
collect
list source >list.source

say "weir $("$weir" --version | cut -d' ' -f2) on" \
	"$("$weir" info | sed -n 's/^\* \([a-z]*\) .*/\1/p'), $(nproc) CPUs." \
	'Times are medians of three, in rotating order.'
say
line 'action' 'weir' 'beside' 'verified'
line '------' '----' '------' '--------'
demo_cp
demo_nbd
demo_http
demo_memory
demo_sim
say
say 'Copies: compared by bytes, modes, owners, times, links and holes.  Memory: what' \
	"the owner wrote after the revoke stayed.  Worlds: each operation is checked" \
	'against a model, and a seed was run twice with the same digest.' | fold -s -w 78
say "$(($(date +%s) - begun)) seconds; $([ $bad = 0 ] &&
	say 'everything was as it should be.' || say 'SOMETHING IS WRONG: see above.')"
exit $bad
