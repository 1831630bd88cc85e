# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2034 # its variables are for who sources it
# What test-weir-cp.sh needs beside fixture.sh: files to copy, and ways to look at
# what was copied.  It is sourced.
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"

program=$(absolute "${WEIR_CP:-programs/weir-cp/weir-cp}")
without_call=$(absolute "${WITHOUT_CALL:-tests/support/without-call}")
enter test-weir-cp
nobody=65534

cp_() { "$program" --backend="$backend" "$@"; }

# nothing left in DIRECTORY but the names that follow.
only()
{
	where=$1
	shift
	found=$(ls -A "$where" | tr '\n' ' ')
	[ "$found" = "$*${1+ }" ] || wrong "in $where: $found, not $*"
}

# Mode, owner, size, times, number of names and target of everything in $1.
list()
{
	(cd "$1" && find . -type d -printf '%p %y %m %U:%G %T@\n' -o \
		-printf '%p %y %m %U:%G %T@ %s %n %l\n' | sort)
}

same()
{
	diff -r --no-dereference "$1" "$2" >out 2>&1 ||
		wrong "$1 and $2 differ: $(head -n 3 out)"
	list "$1" >list.a
	list "$2" >list.b
	diff list.a list.b >out ||
		wrong "attributes differ: $(head -n 3 out)"
}

same_file()
{
	cmp "$1" "$2" >out 2>&1 || wrong "$(cat out)"
	[ "$(stat -c '%a %u:%g %s %y' "$1")" = \
	  "$(stat -c '%a %u:%g %s %y' "$2")" ] ||
		wrong "attributes of $1 and $2 differ"
}

# Space that a file takes, in KiB.
space() { du -k "$1" | cut -f1; }

# data BYTES FILE: the same each time, and no two blocks alike.
data() { seq 1 $(($1 / 2 + 16)) | head -c "$1" >"$2"; }

# wait until process $1 has file $2 open; false if it has ended before.
wait_open()
{
	while kill -0 "$1" 2>/dev/null; do
		# shellcheck disable=SC2010 # Names of links.
		ls -l "/proc/$1/fd" 2>/dev/null | grep -q "/$2\$" && return
	done
	false
}

# Begin a copy that takes a while: many small blocks, one at a time.  In the
# background a shell ignores SIGINT, hence env.
begin()
{
	env --default-signal "$program" --backend="$backend" \
		--path=pipeline --block=4096 --depth=1 "$@" >out 2>err &
	pid=$!
}

make_tree()
{
	mkdir -p tree/sub/deep tree/empty 'tree/a name' "$(printf 'tree/new\nline')"
	for size in 0 1 511 4095 4096 4097 65536 300000 1048577; do
		data $size "tree/f$size"
	done
	data 5000 "$(printf 'tree/new\nline/in\nside')"
	data 100 "$(printf 'tree/\303\244\342\202\254')"
	data 100 "$(printf 'tree/not-utf8-\377')"
	data 100 'tree/a name/-r'
	data 2000000 tree/sub/large
	i=0
	while [ $i -lt 300 ]; do
		echo $i >tree/sub/deep/small-$i
		i=$((i + 1))
	done
	ln -s f511 tree/link
	ln -s /nowhere/at/all tree/dangling
	ln -s . tree/sub/loop
	ln -s itself tree/itself
	ln tree/f4097 tree/second-name
	ln tree/sub/large tree/sub/deep/other-name
	truncate -s 20M tree/sparse
	printf data | dd of=tree/sparse bs=1 seek=9000000 conv=notrunc 2>/dev/null
	chmod 4755 tree/f511
	chmod 400 tree/f4095
	chmod 2750 tree/sub/deep
	touch -d '2001-02-03 04:05:06.123456789' tree/f1 tree/sub/deep tree
	touch -h -d '2002-03-04 05:06:07' tree/link
	chmod 555 tree/empty
}

prepare()
{
	make_tree
	data 67108864 long
	mkdir two
	data 1000 two/small
	data 5000000 two/large
	mounts=
	[ "$(id -u)" = 0 ] && unshare -m sh -c 'mkdir m && mount -t tmpfs t m' \
		2>/dev/null && mounts=yes
	no_direct=
	dd if=tree/f4096 of=f oflag=direct bs=4K 2>/dev/null ||
		no_direct='no O_DIRECT here'
	no_filter=
	"$without_call" sendfile 1 true ||
		no_filter='no system call can be refused here'
	no_nobody=
	nobody "'$program' --version" >out 2>&1 ||
		no_nobody='not to be reached by the unprivileged'
}
