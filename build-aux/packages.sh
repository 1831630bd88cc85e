#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# packages.sh TARBALL DIR [RELEASE]
#
# Build the packages of Debian from TARBALL in a clean root, have lintian read them,
# and try them in another clean root, as debian/tests says; then build from the
# tarball in a third one, as the README says, and compile its program there.  DIR has
# the packages then, in debs/.  RELEASE is Debian's; without it, what this machine
# runs.
#
# Needs root, and what ./bootstrap packages installs.  Exits with 77 where no root
# can be made.
set -eu
[ $# = 2 ] || [ $# = 3 ] || {
	echo 'usage: packages.sh TARBALL DIR [RELEASE]' >&2
	exit 2
}
tarball=$(realpath "$1")
mkdir -p "$2"
dir=$(realpath "$2")
own=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
release=${3:-$own}

cannot()
{
	echo "SKIP: packages: $1"
	exit 77
}

[ "$(id -u)" = 0 ] || cannot 'only root makes a clean root'
unshare --mount --pid --fork true 2>/dev/null ||
	cannot 'this container has no namespaces'
command -v mmdebstrap >/dev/null || cannot 'there is no mmdebstrap'

# inside ROOT COMMAND: in a mount and pid namespace, which ends with the command.
inside()
{
	# shellcheck disable=SC2016 # The inner shell's.
	unshare --mount --pid --fork --mount-proc="$1/proc" sh -c '
		mount --rbind /dev "$1/dev" && exec chroot "$1" sh -ec "$2"
	' sh "$1" "export DEBIAN_FRONTEND=noninteractive LC_ALL=C; $2"
}

# root NAME: a copy of the clean root.
root()
{
	rm -rf "${dir:?}/$1"
	cp -a "$dir/root" "$dir/$1"
}

# Its sources are those of this machine, of the release.
echo "making a clean root of $release"
source=$dir/$(basename "$tarball" .tar.xz)
rm -rf "$source" "$dir/debs" "$dir/apt" "$dir/root"
mkdir "$dir/debs" "$dir/apt"
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.sources; do
	[ ! -s "$list" ] ||
		sed "s/\\<$own\\>/$release/g" "$list" >"$dir/apt/${list##*/}"
done
mmdebstrap --quiet --mode=root --variant=apt --include=ca-certificates \
	"$release" "$dir/root" "$dir"/apt/*
tar xf "$tarball" -C "$dir"
cd "$source"

echo 'building the packages, and lintian'
root root.build
cp -a "$source" "$dir/root.build/src"
# shellcheck disable=SC2016 # The inner shell's.
inside "$dir/root.build" '
	apt-get -qq update
	apt-get -qq install -y --no-install-recommends dpkg-dev fakeroot lintian \
		>/install.log 2>&1
	cd /src && apt-get -qq build-dep -y --no-install-recommends ./ \
		>>/install.log 2>&1
	DEB_BUILD_OPTIONS="parallel=$(nproc)" \
		dpkg-buildpackage -b -us -uc >/build.log 2>&1 || {
		tail -n 20 /build.log
		exit 1
	}
	lintian --allow-root --fail-on error,warning /*.changes'
mv "$dir"/root.build/build.log "$dir"/root.build/*.deb \
	"$dir"/root.build/*.changes "$dir"/root.build/*.buildinfo "$dir/debs/"

echo 'from packages: install, compile the program of the README, run it'
start=$(date +%s)
root root.debs
mkdir "$dir/root.debs/debs" "$dir/root.debs/src"
find "$dir/debs" -name '*.deb' ! -name '*-dbgsym_*' \
	-exec cp {} "$dir/root.debs/debs/" \;
cp -r README.md debian examples "$dir/root.debs/src/"
inside "$dir/root.debs" '
	apt-get -qq update
	apt-get -qq install -y --no-install-recommends gcc libc6-dev pkgconf \
		/debs/libweir-dev_*.deb /debs/libweir0_*.deb >/install.log 2>&1
	cd /src && debian/tests/readme'
echo "from packages: $(($(date +%s) - start)) s"
inside "$dir/root.debs" '
	apt-get -qq install -y --no-install-recommends curl diffutils libnbd-bin \
		nbdkit python3 /debs/*.deb >/install.log 2>&1
	cd /src && debian/tests/static && debian/tests/programs &&
		debian/tests/demo'

echo 'from source: build, install, compile the program of the README, run it'
start=$(date +%s)
root root.source
mkdir "$dir/root.source/src"
tar xf "$tarball" -C "$dir/root.source/src" --strip-components=1
inside "$dir/root.source" '
	apt-get -qq update
	cd /src && ./bootstrap build && make -s -C build install >/install.log
	PKG_CONFIG_PATH=/usr/local/lib/pkgconfig LD_LIBRARY_PATH=/usr/local/lib \
		debian/tests/readme'
echo "from source: $(($(date +%s) - start)) s"
rm -rf "$dir/root" "$dir"/root.* "$dir/apt" "$source"
