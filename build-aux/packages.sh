#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# packages.sh TARBALL DIR
#
# Build the packages of Debian from TARBALL in DIR, have lintian read them, and try
# them in a clean root, as debian/tests says; then build from the tarball in another
# clean root, as the README says, and compile its program there.  The roots are of
# the release that this machine runs.
#
# Needs root, and what ./bootstrap packages installs.  Exits with 77 where no root
# can be made.
set -eu
[ $# = 2 ] || {
	echo 'usage: packages.sh TARBALL DIR' >&2
	exit 2
}
tarball=$(realpath "$1")
mkdir -p "$2"
dir=$(realpath "$2")

cannot()
{
	echo "SKIP: packages: $1"
	exit 77
}

[ "$(id -u)" = 0 ] || cannot 'only root makes a clean root'
unshare --mount --pid --fork true 2>/dev/null ||
	cannot 'this container has no namespaces'
for program in dpkg-buildpackage lintian mmdebstrap; do
	command -v $program >/dev/null || cannot "there is no $program"
done

# inside ROOT COMMAND: in a mount and pid namespace, which ends with the command.
inside()
{
	# shellcheck disable=SC2016 # The inner shell's.
	unshare --mount --pid --fork --mount-proc="$1/proc" sh -c '
		mount --rbind /dev "$1/dev" && exec chroot "$1" sh -ec "$2"
	' sh "$1" "export DEBIAN_FRONTEND=noninteractive LC_ALL=C; $2"
}

source=$dir/$(basename "$tarball" .tar.xz)
rm -rf "$source" "$dir/debs" "$dir/root" "$dir/root.source"
mkdir "$dir/debs"
tar xf "$tarball" -C "$dir"
cd "$source"

echo 'building the packages'
DEB_BUILD_OPTIONS="parallel=$(nproc) ${DEB_BUILD_OPTIONS-}" \
	dpkg-buildpackage -b -us -uc >"$dir/build.log" 2>&1 || {
	tail -n 20 "$dir/build.log"
	exit 1
}
mv ../*.deb ../*.changes ../*.buildinfo "$dir/debs/"

echo 'lintian'
lintian --allow-root --fail-on error,warning "$dir"/debs/*.changes

# The copy is for the other way, which has nothing of what this one installs.
echo 'making a clean root'
# shellcheck disable=SC2046 # A list.
mmdebstrap --quiet --mode=root --variant=apt --include=ca-certificates \
	"$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" "$dir/root" \
	$(ls /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null)
cp -a "$dir/root" "$dir/root.source"

echo 'from packages: install, compile the program of the README, run it'
start=$(date +%s)
mkdir "$dir/root/debs" "$dir/root/src"
find "$dir/debs" -name '*.deb' ! -name '*-dbgsym_*' \
	-exec cp {} "$dir/root/debs/" \;
cp -r README.md debian examples "$dir/root/src/"
inside "$dir/root" '
	apt-get -qq update
	apt-get -qq install -y --no-install-recommends gcc libc6-dev pkgconf \
		/debs/libweir-dev_*.deb /debs/libweir0_*.deb >/install.log 2>&1
	cd /src && debian/tests/readme'
echo "from packages: $(($(date +%s) - start)) s"
inside "$dir/root" '
	apt-get -qq install -y --no-install-recommends curl diffutils libnbd-bin \
		nbdkit python3 /debs/*.deb >/install.log 2>&1
	cd /src && debian/tests/static && debian/tests/programs &&
		debian/tests/demo'

echo 'from source: build, install, compile the program of the README, run it'
start=$(date +%s)
mkdir "$dir/root.source/src"
tar xf "$tarball" -C "$dir/root.source/src" --strip-components=1
inside "$dir/root.source" '
	apt-get -qq update
	cd /src && ./bootstrap build && make -s -C build install >/install.log
	PKG_CONFIG_PATH=/usr/local/lib/pkgconfig LD_LIBRARY_PATH=/usr/local/lib \
		debian/tests/readme'
echo "from source: $(($(date +%s) - start)) s"
rm -rf "$dir/root" "$dir/root.source" "$source"
