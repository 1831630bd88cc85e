#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the headers of a library declare with WEIR_API, what its map lists and what
# it exports are the same; and of the core's internal symbols the libraries above
# it use those that tests/private.txt lists.
dir=${srcdir:-.}
LC_ALL=C
export LC_ALL
n=0
bad=0

result()
{
	n=$((n + 1))
	echo "$1 $n - $2"
}

same()
{
	if [ "$2" = "$3" ]; then
		result ok "$1"
		return
	fi
	result 'not ok' "$1"
	for s in $2; do
		echo "$3" | grep -qx "$s" || echo "# only the first: $s"
	done
	for s in $3; do
		echo "$2" | grep -qx "$s" || echo "# only the second: $s"
	done
	bad=1
}

holds()
{
	what=$1
	shift
	if "$@"; then
		result ok "$what"
	else
		result 'not ok' "$what"
		bad=1
	fi
}

dynamic() { nm -D "$@" | awk 'NF > 1 && $(NF - 1) != "A" { sub(/@.*/, "", $NF); print $NF }'; }
has_versions() { nm -D "$1" | grep -q "@@$2\$"; }

# Of what a program keeps free for libraries that it loads later.
has_little_tls()
{
	tls=$(($(readelf -lW "$1" | awk '$1 == "TLS" { print $6 }') + 0))
	[ "$tls" -le 64 ] || {
		echo "# it is $tls"
		return 1
	}
}

# try LIBRARY VERSION HEADER...
try()
{
	lib=$1
	version=$2
	shift 2
	declared=$(${AWK:-awk} -v list=1 -f "$dir/build-aux/recreates.awk" \
		-f "$dir/build-aux/man3.awk" "$@" | sort)
	mapped=$(sed -n 's/^[[:space:]]*\(weir_[a-z_0-9]*\);$/\1/p' \
		"$dir/$lib.map" | sort)
	same "$lib.map lists what the headers declare" "$declared" "$mapped"
	so=.libs/lib$lib.so
	if [ ! -f "$so" ]; then
		result ok "exports of $lib # SKIP configured without it"
		return
	fi
	same "lib$lib exports what the headers declare" "$declared" \
		"$(dynamic --defined-only "$so" | grep -v '^weir__' | sort)"
	holds "symbols that lib$lib exports have a version" \
		has_versions "$so" "$version"
	holds "thread-local memory of lib$lib is at most 64 bytes" \
		has_little_tls "$so"
}

# Interfaces of the core that libweir-rdma implements.
conns="$dir/include/weir/conn.h $dir/include/weir/message.h
	$dir/include/weir/srq.h"
core=
for h in "$dir"/include/weir/*.h "$dir"/include/weir/host/*.h; do
	case $conns in
	*"$h"*) ;;
	*) core="$core $h" ;;
	esac
done
# shellcheck disable=SC2086 # Lists.
try weir WEIR_0.1 $core
# shellcheck disable=SC2086
try weir-rdma WEIR_RDMA_0.1 $conns "$dir"/include/weir/rdma/*.h
try weir-accel WEIR_ACCEL_0.1 "$dir"/include/weir/accel/*.h
try weir-cuda WEIR_CUDA_0.1 "$dir"/include/weir/cuda/*.h
[ ! -f .libs/libweir-fabric.so ] ||
	try weir-fabric WEIR_FABRIC_0.1 "$dir"/include/weir/fabric/*.h
[ ! -f .libs/libweir-nvme.so ] ||
	try weir-nvme WEIR_NVME_0.1 "$dir"/include/weir/nvme/*.h
try weir-resolve WEIR_RESOLVE_0.1 "$dir"/include/weir/resolve/*.h
[ ! -f .libs/libweir-tls.so ] ||
	try weir-tls WEIR_TLS_0.1 "$dir"/include/weir/tls/*.h
try weir-sim WEIR_SIM_0.1 "$dir"/include/weir/sim/*.h

# Calls of libc, and what headers make of them for large files and _FORTIFY_SOURCE.
if [ -f .libs/libweir-sim-libc.so ]; then
	same 'libweir-sim-libc exports what <weir/sim/libc.h> lists' \
		"$(sed -n '/^ \*	/s/^ \*	//p' "$dir/include/weir/sim/libc.h" |
			sed 's/([^)]*)\{0,1\}//g; s/^[^(]*)//' | tr -c 'a-z_0-9\n' '\n' |
			grep . | sort)" \
		"$(dynamic --defined-only .libs/libweir-sim-libc.so |
			sed 's/64\(_2\)\{0,1\}$/\1/; s/64_chk$/_chk/
				s/^__\(.*\)_\(2\|chk\)$/\1/' | sort -u)"
fi

# What the libraries above the core use of it that is not public: tests/private.txt.
allowed() { sed -n "s/^$1 \(.*\) :: .*/\1/p" "$dir/tests/private.txt" | tr ' ' '\n'; }

if [ -f .libs/libweir.so ] && [ -f .libs/libweir-sim.so ]; then
	marked=$(grep -ho 'PROVIDER_API([a-z_0-9]*)' "$dir"/base/*.h \
		"$dir"/reactor/*.h "$dir"/reactor/*/*.h "$dir"/mem/*.h \
		"$dir"/mem/*/*.h "$dir"/dma/*.h "$dir"/dma/*/*.h |
		sed 's/PROVIDER_API(\(.*\))/\1/' | grep -v '^name$' | sort)
	same 'tests/private.txt lists what is marked PROVIDER_API' \
		"$(allowed '[a-z]*' | sort -u)" "$marked"
	for lib in accel cuda fabric nvme rdma resolve sim tls; do
		[ -f .libs/libweir-$lib.so ] || continue
		same "libweir-$lib uses no internals but those of tests/private.txt" '' \
			"$(nm -D --undefined-only .libs/libweir-$lib.so |
				sed -n 's/.* weir__\([a-z_0-9]*\).*/\1/p' |
				while read -r name; do
					allowed $lib | grep -qx "$name" ||
						echo "$name"
				done)"
	done
	# Some are there only in a build with annotations for valgrind.
	same 'what is exported beside the headers is marked PROVIDER_API' '' \
		"$(dynamic --defined-only .libs/libweir.so |
			sed -n 's/^weir__//p' | while read -r name; do
				echo "$marked" | grep -qx "$name" ||
					echo "$name"
			done)"
	# Or an inline function in a header does, which a build may call or not.
	unused=$(for name in $marked; do
		grep -qw "$name" "$dir"/accel/*.[ch] "$dir"/sim/*.[ch] ||
			[ "$(cat "$dir"/base/*.h "$dir"/reactor/*.h \
				"$dir"/reactor/*/*.h "$dir"/mem/*.h \
				"$dir"/dma/*.h | grep -cw "$name")" -gt 1 ] ||
			echo "$name"
	done)
	same 'what is marked PROVIDER_API is used' '' "$unused"
else
	result ok 'PROVIDER_API # SKIP configured without shared libraries'
fi
echo "1..$n"
exit $bad
