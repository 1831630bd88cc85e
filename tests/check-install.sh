#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What `make install` puts somewhere is enough: a program that knows nothing but
# pkg-config is compiled against it and runs, with the shared library and with
# the static one.
# shellcheck disable=SC2317 # try() calls functions by their names.
set -u
src=$(cd "${srcdir:-.}" && pwd)
CC=${CC:-cc}
MAKE=${MAKE:-make}
SAN_CFLAGS=${SAN_CFLAGS-}
PKG_CONFIG=${PKG_CONFIG:-pkg-config}
dir=$PWD/tests/check-install.d
log=$dir/log
n=0
bad=0

# Jobs and flags of the make that runs us are not for the one that we run.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
trap 'rm -rf "$dir"' EXIT
rm -rf "$dir"
mkdir -p "$dir/root" || exit 1
: >"$log"

ok()
{
	n=$((n + 1))
	echo "ok $n - $1"
}

not_ok()
{
	n=$((n + 1))
	echo "not ok $n - $1"
	tail -n 20 "$log" | sed 's/^/# /'
	bad=1
}

# try WHAT COMMAND...
try()
{
	what=$1
	shift
	if "$@" >>"$log" 2>&1; then ok "$what"; else not_ok "$what"; fi
}

skip()
{
	n=$((n + 1))
	echo "ok $n - $1 # SKIP $2"
}

is_there() { find "$dir/root" -path "*$1" | grep -q .; }

is_not_there() { ! is_there "$1"; }

# pc_of PACKAGE OPTION...
pc_of()
{
	package=$1
	shift
	PKG_CONFIG_PATH=$pcdir:${PKG_CONFIG_PATH-} $PKG_CONFIG "$@" "$package"
}

pc() { pc_of weir "$@"; }

# compile OUTPUT FLAGS...: hello.c, from outside of both trees.
compile()
{
	output=$1
	shift
	cp "$src/examples/hello.c" "$dir" || return 1
	# shellcheck disable=SC2086 # $CC is a list.
	(cd "$dir" && $CC -Wall -o "$output" hello.c "$@")
}

links_only_weir() { ! pc --libs | grep -E -- '-luring|-lev'; }

# needs_only LIBRARY PATTERN
needs_only()
{
	! readelf -d "$libdir/$1.so" |
		sed -n 's/.*NEEDED.*\[\(.*\)\.so.*\]/\1/p' | grep -vxE "$2"
}

compile_world()
{
	cp "$src/examples/24-first-world.c" "$dir/world.c" &&
		(cd "$dir" && $CC -Wall -o world world.c "$@")
}

hello_works()
{
	said=$(LD_LIBRARY_PATH=$libdir "$dir/$1") || return 1
	echo "$said"
	echo "$said" | grep -q '^file: [1-9]' &&
		echo "$said" | grep -q '^socket: 5 '
}

# Linking all of libc statically works with glibc, not with every libc's -dev.
static_libc()
{
	echo 'int main(void) { return 0; }' >"$dir/empty.c"
	# shellcheck disable=SC2086
	$CC -static -o "$dir/empty" "$dir/empty.c" 2>/dev/null
}

# Where DESTDIR has put it, if weir.pc says where it is relative to itself.
move_prefix()
{
	for f in "$pcdir"/weir*.pc; do
		grep -q '^prefix=.{pcfiledir}' "$f" ||
			sed -i "s|^\([a-z_]*\)=/|\1=$dir/root/|" "$f"
	done
	test -f "$(pc --variable=includedir)/weir/op.h"
}

# A program's own functions may have any name but weir's.
only_weir_names()
{
	! ${NM:-nm} -g --defined-only "$libdir/libweir.a" 2>/dev/null |
		awk 'NF == 3 && $3 !~ /^(weir_|_|\.)/ { print $3 }' | grep .
}

own_names_do_not_clash()
{
	sed 's/^int main/int why(void) { return 1; }\nint main/' \
		"$src/examples/hello.c" >"$dir/why.c" &&
		! cmp -s "$dir/why.c" "$src/examples/hello.c" &&
		(cd "$dir" && $CC -o why why.c "$@")
}

# What a program or library is told of where others are: nothing, or relative.
no_absolute_runpath()
{
	! find "$dir/root" -type f -perm -100 -exec sh -c '
		for f; do
			readelf -d "$f" 2>/dev/null |
				grep -E "RPATH|RUNPATH" | grep -v "\[\$ORIGIN" |
				sed "s|^|$f|"
		done' sh {} + | grep .
}

# Into another prefix than configure was told, as stow and others do.
other_prefix()
{
	"$MAKE" install prefix="$dir/other" && "$dir/other/bin/weir" --version &&
		find "$dir/other" -name cipher.so | grep -q . &&
		"$dir/other/bin/weir" bench --quick buf &&
		test -f "$(PKG_CONFIG_PATH=$(dirname "$(find "$dir/other" \
			-name weir.pc)") $PKG_CONFIG --variable=includedir \
			weir)/weir/op.h"
}

uninstall()
{
	"$MAKE" uninstall DESTDIR="$dir/root" &&
		! find "$dir/root" -type f -o -type l | grep .
}

try 'make install works' "$MAKE" install DESTDIR="$dir/root"
pcdir=$(dirname "$(find "$dir/root" -name weir.pc | head -n 1)")
try 'weir.pc is installed' test -f "$pcdir/weir.pc"
try 'weir.pc can be moved with its prefix' move_prefix
libdir=$(pc --variable=libdir)

has() { test -f "$pcdir/weir-$1.pc"; }
for h in "$src"/include/weir/*.h "$src"/include/weir/*/*.h; do
	h=${h#"$src/include"}
	case $h in
	/weir/rdma/*) has rdma || continue ;;
	/weir/fabric/*) has fabric || continue ;;
	/weir/nvme/*) has nvme || continue ;;
	/weir/tls/*) has tls || continue ;;
	esac
	try "<${h#/}> is installed" is_there "$h"
done
try 'a man page is installed' is_there /man3/weir_read.3
try 'the command is installed' is_there /bin/weir
try 'its man page too' is_there /man1/weir.1
try '<weir-nbd/plugin.h> is installed' is_there /weir-nbd/plugin.h
try 'config.h is not' is_not_there /config.h

# shellcheck disable=SC2046,SC2086 # Lists, all of them.
if [ -e "$libdir/libweir.so" ]; then
	try 'a program is compiled with pkg-config alone' \
		compile shared $SAN_CFLAGS $(pc --cflags --libs)
	try 'it runs with libweir.so.0' hello_works shared
	try 'shared linking needs libweir alone' links_only_weir
	try 'the core needs libc, liburing and libev alone' needs_only libweir \
		'libc|liburing|libev|ld-linux.*|libm|libpthread|libasan|libubsan|libtsan'
	try 'libweir-sim needs the core and libc alone' needs_only libweir-sim \
		'libc|libweir|ld-linux.*|libpthread|libasan|libubsan|libtsan'
	try 'libweir-accel needs the core and what its kinds need' needs_only \
		libweir-accel 'libc|libweir|libz|libzstd|libcrypto|libisal|ld-linux.*|libpthread|libasan|libubsan|libtsan'
	try 'libweir-cuda needs the core and libc alone' needs_only libweir-cuda \
		'libc|libdl|libweir|ld-linux.*|libpthread|libasan|libubsan|libtsan'
	try 'libweir-resolve needs the core, libc and c-ares alone' needs_only \
		libweir-resolve 'libc|libcares|libweir|ld-linux.*|libpthread|libasan|libubsan|libtsan'
	[ ! -e "$libdir/libweir-tls.so" ] ||
	try 'libweir-tls needs the core, libc and OpenSSL alone' needs_only libweir-tls \
		'libc|libssl|libcrypto|libweir|ld-linux.*|libpthread|libasan|libubsan|libtsan'
	[ ! -e "$libdir/libweir-fabric.so" ] ||
	try 'libweir-fabric needs the core and libc alone' needs_only libweir-fabric \
		'libc|libdl|libweir|ld-linux.*|libpthread|libasan|libubsan|libtsan'
	[ ! -e "$libdir/libweir-nvme.so" ] ||
	try 'libweir-nvme needs the core, libc and liburing alone' needs_only \
		libweir-nvme 'libc|liburing|libweir|ld-linux.*|libpthread|libasan|libubsan|libtsan'
	try 'a program with a world is compiled with weir-sim.pc alone' \
		compile_world $SAN_CFLAGS $(pc_of weir-sim --cflags --libs)
	try 'it runs' env LD_LIBRARY_PATH="$libdir" "$dir/world"
else
	skip 'a program with the shared library' 'there is none'
fi
# shellcheck disable=SC2046
if [ ! -e "$libdir/libweir.a" ]; then
	skip 'a program with the static library' 'there is none'
elif [ "$SAN_CFLAGS" ]; then
	skip 'a program with the static library' 'sanitizers need shared ones'
elif ! static_libc; then
	skip 'a program with the static library' 'no static libc'
else
	try 'a static program is compiled with pkg-config --static' \
		compile static -static $(pc --static --cflags --libs)
	try 'it runs' hello_works static
	try 'libweir.a defines names of weir only' only_weir_names
	# shellcheck disable=SC2046
	try 'a program may have a why() of its own' own_names_do_not_clash \
		-static $(pc --static --cflags --libs)
fi

# The block of docs/building.md in language $1, as the file $2 of a project of its own.
own_project()
{
	rm -rf "$dir/project"
	mkdir "$dir/project" && cp "$src/examples/hello.c" "$dir/project" &&
		sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/{/^\`\`\`/d;p}" \
			"$src/docs/building.md" >"$dir/project/$2" &&
		[ -s "$dir/project/$2" ]
}

by_cmake()
{
	own_project cmake CMakeLists.txt &&
		PKG_CONFIG_PATH=$pcdir cmake -S "$dir/project" \
			-B "$dir/project/build" &&
		cmake --build "$dir/project/build" &&
		LD_LIBRARY_PATH=$libdir "$dir/project/build/hello"
}

by_meson()
{
	own_project meson meson.build &&
		PKG_CONFIG_PATH=$pcdir meson setup "$dir/project/build" \
			"$dir/project" &&
		meson compile -C "$dir/project/build" &&
		LD_LIBRARY_PATH=$libdir "$dir/project/build/hello"
}

for tool in cmake meson; do
	what="a program is built by $tool as docs/building.md says"
	if [ ! -e "$libdir/libweir.so" ] || [ "$SAN_CFLAGS" ]; then
		skip "$what" 'there is no shared library, or it has a sanitizer'
	elif ! command -v $tool >/dev/null; then
		skip "$what" "there is no $tool"
	else
		try "$what" by_$tool
	fi
done

# The plugin of the tutorial, and the line there that compiles it.
compile_plugin()
{
	awk '/^    #include <weir-nbd\/plugin.h>/ { inside = 1 }
		inside && /^[^ ]/ { exit }
		inside' "$src/docs/tutorial-nbd.md" >"$dir/mine.c"
	line=$(sed -n 's/^    cc \(-shared .*mine.c .*\)/\1/p' \
		"$src/docs/tutorial-nbd.md")
	[ "$line" ] && (
		cd "$dir" &&
			PKG_CONFIG_PATH=$pcdir:${PKG_CONFIG_PATH-} &&
			export PKG_CONFIG_PATH &&
			eval "$CC -Wall -Werror -Wno-unused-parameter $SAN_CFLAGS $line"
	)
}

# Few programs have keys, and each would start more slowly with libsodium.
no_sodium()
{
	! readelf -d "$libdir/libweir.so" | grep NEEDED | grep sodium
}

# The server, as it was installed, takes it and says where it listens.
plugin_is_served()
{
	server=$(find "$dir/root" -path '*/bin/weir-nbd')
	(cd "$dir" && LD_LIBRARY_PATH=$libdir exec "$server" --cores=1 \
		--unix=s --export=plugin=./mine.so >said) &
	pid=$!
	while [ ! -s "$dir/said" ] && kill -0 "$pid"; do
		sleep 0.1
	done
	kill "$pid" && wait "$pid"
}

if [ -e "$libdir/libweir.so" ]; then
	try "the tutorial's plugin is compiled as it says" compile_plugin
	try 'the server serves it' plugin_is_served
else
	skip "the tutorial's plugin" 'there is no shared library'
fi

if ! command -v readelf >/dev/null; then
	skip 'nothing has an absolute RUNPATH' 'no readelf'
else
	try 'nothing has an absolute RUNPATH' no_absolute_runpath
	[ ! -e "$libdir/libweir.so" ] ||
		try 'libsodium is loaded only when there is a key' no_sodium
fi
# Installed files that are in no package of Debian, and lines of debian/*.install
# that name nothing; $prefix stands for /usr, and its lib/ for lib/ARCHITECTURE/.
prefix=$(sed -n 's/^prefix = //p' Makefile)
in_packages()
{
	(cd "$dir/root$prefix" && find . -type f -o -type l) | sed '
		s,^\./,usr/,
		s,^usr/lib64/,usr/lib/,
		/^usr\/lib\/systemd\//!s,^usr/lib/\([a-z0-9_]*-linux-gnu/\)*,usr/lib/x/,
		/\.la$/d' >"$dir/installed"
	cat "$src"/debian/*.install | if [ -e "$libdir/libweir.a" ]; then
		cat
	else
		grep -v '[.]a$'
	fi >"$dir/patterns"
	${AWK:-awk} '
		FNR == NR {
			pattern[++n] = $0
			gsub(/\./, "[.]")
			gsub(/\*/, "[^/]*")
			regex[n] = "^" $0 "(/|$)"
			next
		}
		{
			found = 0
			for (i = 1; i <= n; i++)
				if ($0 ~ regex[i])
					found = used[i] = 1
			if (!found)
				print "in no package: " $0
		}
		END {
			for (i = 1; i <= n; i++)
				if (!used[i])
					print "names nothing: " pattern[i]
		}' "$dir/patterns" "$dir/installed" >"$dir/differ"
	cat "$dir/differ"
	[ ! -s "$dir/differ" ]
}
if has rdma && [ -e "$libdir/libweir.so" ]; then
	try 'every installed file is in a package of Debian' in_packages
else
	skip 'every installed file is in a package of Debian' \
		'a library of the packages was left out'
fi

try 'make uninstall leaves nothing' uninstall
if grep -q "^BIN_RUNPATH = ." Makefile; then
	try 'make install prefix=... works' other_prefix
else
	skip 'make install prefix=... works' 'configured for /usr'
fi
echo "1..$n"
exit $bad
