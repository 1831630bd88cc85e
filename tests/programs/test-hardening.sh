#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The programs that talk to a network are built with what makes a bug hard to exploit:
# at random addresses, with stacks that are checked and not executed, and with tables
# of functions that cannot be written to.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/check.sh"

# Whether configure has found that the compiler takes the flag $1.
takes() { grep -q "^HARDEN_[A-Z]* =.* $1\( \|\$\)" Makefile; }

# What the program $1 lacks.
lacks()
{
	takes -pie && { readelf -h "$1" | grep -q 'Type: *DYN' || echo 'no PIE'; }
	takes -Wl,-z,now && { readelf -d "$1" | grep -q NOW || echo 'lazy binding'; }
	takes -Wl,-z,relro && { readelf -lW "$1" | grep -q GNU_RELRO ||
		echo 'no RELRO'; }
	readelf -lW "$1" | grep GNU_STACK | grep -q 'RW *0x' ||
		echo 'an executable stack'
	takes -fstack-protector-strong && {
		readelf -sW --dyn-syms "$1" | grep -q __stack_chk_fail ||
			echo 'no check of the stack'; }
	grep -q '^HARDEN_CPPFLAGS = .*FORTIFY' Makefile && {
		readelf -sW --dyn-syms "$1" | grep -q '_chk@\|_chk\>' ||
			echo 'no checks of libc'; }
}

for p in weir-nbd weir-proxy weir-rdma weir-rping weir-ublk weir-vhost; do
	file=programs/$p/.libs/$p
	[ -f "$file" ] || file=programs/$p/$p
	if ! grep -q '^HARDEN_CFLAGS = .*-f' Makefile; then
		skips "$p is hardened" 'configured without'
	elif ! readelf -h "$file" >/dev/null 2>&1; then
		skips "$p is hardened" 'not built, or no readelf'
	else
		holds "$p is hardened" "$(lacks "$file")"
	fi
done
report
