#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weir-cp beside cp: each command is run by both, each in a scene of its own, and
# what has become of the scenes is compared: names, kinds, modes, owners, times
# where they are to be kept, links, data, ACLs and extended attributes; and
# whether it succeeded.  weir-cp never writes into a file that is there, so it is
# `cp --remove-destination` that it is compared with, but where that would remove
# what plain cp refuses to.
#
# What it does is the same on all backends: it runs on the first that is there.
# Environment: as of test-weir-cp.sh; with WEIR_TEST_LONG=1 it runs on each.
. "${srcdir:-$(dirname "$0")/../..}/tests/programs/weir-cp-fixture.sh"

have() { command -v "$1" >/dev/null; }

make_sharing()
{
	mkdir -p scene/d/sub scene/e/d scene/empty scene/sticky
	(
		cd scene || exit
		echo a-data >a
		echo b-data, more >b
		echo c-data >-c
		echo d/x-data >d/x
		echo d/sub/y >d/sub/y
		echo e/a-old >e/a
		echo e/d/x-old >e/d/x
		echo only >e/d/only
		ln a hard
		ln d/x d/sub/x-again
		ln -s a soft
		ln -s d link
		ln -s ../a d/up
		ln -s nowhere dangling
		ln -s .. d/sub/round
		mkfifo d/fifo
		[ "$(id -u)" = 0 ] && mknod d/null c 1 3 && chown 7:8 d/sub/y
		truncate -s 3M sparse
		echo end >>sparse
		chmod 600 b
		chmod 4711 -- -c
		chmod 666 d/sub/y
		chmod 750 d
		chmod 1777 sticky
		chmod 2755 d/sub
		touch -h -d '2003-04-05 06:07:08' d/up
		touch -d '2001-02-03 04:05:06.5' a d/x d/fifo
		touch -d '2030-02-03 04:05:06' e/a
		touch -d '2004-02-03 04:05:06' d d/sub e/d/x
	)
	[ "$no_attrs" ] && return
	(
		cd scene || exit
		setfattr -n user.color -v blue a
		setfattr -n user.color -v red d/sub
		setfacl -m u:7:rw,g::rw b
		setfacl -m u:7:rwx,g:8:rwx,g::rwx d/x
		setfacl -d -m u:9:rx d
		[ "$(id -u)" = 0 ] && setcap cap_net_raw+ep ./-c
		true
	)
}

# describe DIRECTORY FORMAT
describe()
{
	(
		cd "$1" || exit
		find . -printf "%p %y %m %U:%G %n %l $2\n" | sort
		find . -type f -exec cksum {} + | sort
		# Which names are of one file, whatever its number.
		find . -links +1 ! -type d -printf '%i %p\n' | sort -k2 |
			awk '{ if (!($1 in n)) n[$1] = $2; print n[$1], $2 }'
		[ "$no_attrs$shallow" ] && exit
		getfacl -nRP . 2>/dev/null
		getfattr -dRh -m- . 2>/dev/null
	)
}

# The times of what is there are compared where the options keep them.
format_for()
{
	case " $* " in
	*' -a '* | *' -p '* | *' -ap '* | *' -ra '* | *preserve=all* | \
	*preserve=*timestamps*) echo '%Ts' ;;
	esac
}

cp_plain=
beside()
{
	rm -rf one two
	cp -a scene one
	cp -a scene two
	umask "${mask:-022}"
	(cd one && exec cp ${cp_plain:---remove-destination} "$@") \
		>cp.out 2>cp.err
	cp_status=$?
	(cd two && exec "$program" --backend="$backend" "$@") >out 2>err
	status=$?
	umask 022
	# A directory that the copies were made in has got the time of now.
	touch -d '2005-01-01' one two one/d one/e one/empty two/d two/e two/empty
	describe one "$(format_for "$@")" >list.one
	describe two "$(format_for "$@")" >list.two
	[ $((cp_status != 0)) = $((status != 0)) ] ||
		wrong "$*: status $status, cp's $cp_status: $(cat cp.err err)"
	diff list.one list.two >diff.out ||
		wrong "$*: $(head -n 6 diff.out) $(cat err)"
	[ -z "$(find two -name '.weir*')" ] || wrong "$*: a temporary file"
}

t_one_file()
{
	shallow=yes
	beside a new
	beside a b
	beside a e
	beside a e/
	beside a e/.
	beside a e/new
	beside -T a new
	beside -T a e
	beside -T a b
	beside soft new
	beside link new
	beside dangling new
	beside a none/new
	beside none new
	beside d new
	beside -- -c new
	beside -- -c e
	beside b new
	beside sparse new
	beside a -t e
	beside -t e a
	beside -te a b
	beside -t none a
	beside -t a b
	beside --target-directory=e soft
}

t_trailing_slash()
{
	beside a b/
	cmp two/b scene/b || wrong 'a b/: b was overwritten'
	beside a nodir/
	beside -T a b/
	beside a/ new
	beside a/ e
	beside -a soft b/
	beside -a soft nodir/
	beside -r d nodir/
	beside -r d b/
	beside -r d/ new
	beside -r link new
	beside -r link/ new
	beside -r link/ e
	beside -a link/ new
	beside -P link/ new
	beside a link
	beside a link/
	beside -r d/. new
	beside -r d/. e
	beside -r d/sub/.. new
	beside -r link/. e
	beside -rT d link
	beside -rT e link/
	beside a dangling/
	beside -r d dangling/
}

t_several_sources()
{
	beside a b e
	beside a b e/
	beside a b new
	beside a b nodir/
	beside a b sparse
	beside a none b e
	beside -T a b e
	beside a d b e
	beside -r a d soft link empty new
	beside -r a d soft link empty e
	beside -r a d soft link -t e
	beside a a e
	beside a ./a e
	beside -r d d empty
	beside a e/a empty
	beside e/a a empty
	beside -r d e/d empty
	beside -r e/d d empty
	beside -a d e/d empty
	beside -a d e/d empty	# Again: the first must not end last.
	beside -a d e/d empty
	beside -r d/. e/d/. empty
	beside -a a hard empty
	beside -d a hard empty
	beside a hard empty
}

t_trees()
{
	shallow=
	for options in -r -R -a -rp -rd -rL -rH -rP '-r --preserve=mode' \
	    '-r --preserve=ownership' '-r --preserve=timestamps' \
	    '-r --preserve=links' '-r --preserve=mode,timestamps' \
	    '-r --preserve=all' '-a --preserve=xattr'; do
		case $options in
		-rL) source=e ;; # The other leads round.
		*) source=d ;;
		esac
		# shellcheck disable=SC2086 # A list.
		beside $options $source link sticky empty
	done
	beside -r d new
	beside -a d new
	beside -p -r d e
	beside -a d e
	beside -r sticky new
	beside -a d/sub new
	beside -rT d e
	beside -aT d e
	beside -aT d e/d
	beside -r d e/a
	beside -r e/d/x d
}

t_links_that_are_followed()
{
	shallow=yes
	beside -P soft new
	beside -d soft new
	beside -a soft new
	beside -L soft new
	beside -H soft new
	beside -rH soft new
	beside -rH link new
	beside -P dangling new
	beside -P soft e
	beside -rL link new
	beside -aL soft hard empty
	# Round: both say so, and go on.
	beside -rL d/sub new
	# A link to what is copied over it, and the other way.
	cp_plain=-f
	beside soft a
	beside a soft
	beside -P soft a
	beside -a soft a
	beside -P soft soft
	beside a a
	beside a hard
	beside -T a hard
	beside a .
	beside -r d .
	cp_plain=
}

t_existing()
{
	for options in -n -u '-n -u' -f '-a -n' '-a -u'; do
		# shellcheck disable=SC2086 # A list.
		beside $options a b
		# shellcheck disable=SC2086
		beside $options a e
		# Names of one file: to which of them cp -u links depends on
		# their order.
		case $options in
		-a*) ;;
		*) beside $options -r -T d e/d ;;
		esac
		# shellcheck disable=SC2086
		beside $options e/a a
		# shellcheck disable=SC2086
		beside $options -P soft b
		# shellcheck disable=SC2086
		beside $options a new
		# shellcheck disable=SC2086
		beside $options none b
	done
	beside -a a dangling
	beside -a dangling a
}

t_preserved()
{
	shallow=
	for options in -p -a --preserve=mode --preserve=ownership \
	    --preserve=xattr --preserve=all '--preserve=mode,xattr'; do
		# shellcheck disable=SC2086 # A list.
		beside $options -- a b -c d/x d/sub/y empty
		# shellcheck disable=SC2086
		beside $options -- a b -c d/x d/sub/y d
	done
	for mask in 0 027 077 777; do
		beside -r sticky a b d/sub -c e
		beside -a sticky a b d/sub -c e
		beside -r d/sub new
	done
	mask=
}

# What a source gives to nobody its copy gives to nobody: the bits of the group
# are the mask of an ACL, not the group's rights.
t_no_new_rights()
{
	mode_of() { stat -c %a "$1"; }

	rm -rf rights
	mkdir rights
	echo secret >rights/f
	chmod 644 rights/f
	setfacl -m u:7:rw,g::-,m::rw rights/f
	[ "$(mode_of rights/f)" = 664 ] || wrong 'the scene'
	expect 0 cp_ rights/f rights/g
	[ "$(mode_of rights/g)" = 604 ] || wrong "got $(mode_of rights/g)"
	setfacl -m u:9:- rights/f
	expect 0 cp_ rights/f rights/h
	[ "$(mode_of rights/h)" = 600 ] || wrong "got $(mode_of rights/h)"
	expect 0 cp_ -p rights/f rights/i
	getfacl -cn rights/f >acl.a 2>/dev/null
	getfacl -cn rights/i >acl.b 2>/dev/null
	cmp acl.a acl.b || wrong 'another ACL'
	# A directory likewise; and what is in it, while it is being made.
	mkdir rights/d
	setfacl -m u:7:rwx,g::-,o::- rights/d
	expect 0 cp_ -r rights/d rights/e
	[ "$(mode_of rights/e)" = 700 ] || wrong "got $(mode_of rights/e)"
}

# ACLs, attributes and capabilities that a file system refuses are told; the
# copy has no rights that the ACL does not give.
t_refused_attributes()
{
	rm -rf plain attrs
	mkdir plain attrs
	echo data >attrs/f
	setfattr -n user.color -v blue attrs/f
	setcap cap_net_raw+ep attrs/f
	echo data >attrs/g
	setfacl -m u:7:rw,g::- attrs/g
	unshare -m sh -c "mount -t ramfs r plain && chmod 755 plain &&
		'$program' --backend=$backend -a attrs plain; echo \$? >status
		stat -c %a plain/attrs/g >mode
		cmp attrs/f plain/attrs/f" >out 2>err
	[ "$(cat status)" = 1 ] || wrong "status $(cat status): $(cat err)"
	says "warning: 'attrs/f' was copied without its .*user.color"
	says "'attrs/f' was copied without its .*security.capability"
	says "weir-cp: 'attrs/g' was copied without its ACL: Operation not supp"
	[ "$(cat mode)" = 604 ] || wrong "mode $(cat mode)"
	rm attrs/g
	unshare -m sh -c "mount -t ramfs r plain
		'$program' --backend=$backend -a attrs plain; echo \$? >status
		'$program' --backend=$backend --preserve=xattr attrs/f plain
		echo \$? >>status
		'$program' --backend=$backend attrs/f plain
		echo \$? >>status" >out 2>err
	[ "$(tr '\n' ' ' <status)" = '0 1 0 ' ] || wrong "status $(cat status)"
}

prepare_attrs()
{
	no_attrs=
	for tool in setfacl getfacl setfattr getfattr; do
		have $tool || no_attrs="no $tool here"
	done
	echo x >probe
	[ "$no_attrs" ] || { setfattr -n user.x -v y probe &&
		setfacl -m u:7:r probe; } 2>/dev/null ||
		no_attrs='no attributes on this file system'
	no_refused=$no_attrs
	have setcap || no_refused='no setcap here'
	[ "$(id -u)" = 0 ] && unshare -m sh -c 'mkdir ram && mount -t ramfs r ram' \
		2>/dev/null || no_refused='no ramfs can be mounted here'
}

PATH=$PATH:/usr/sbin:/sbin
prepare_attrs
make_sharing
for backend in ${WEIR_TEST_BACKEND:-uring ev}; do
	if reason=$("$program" --backend="$backend" probe probe.copy 2>&1); then
		for test in one_file trailing_slash several_sources trees \
		    links_that_are_followed existing preserved; do
			run t_$test
		done
		run t_no_new_rights "$no_attrs"
		run t_refused_attributes "$no_refused"
		[ "${WEIR_TEST_LONG:-0}" = 1 ] || break
	else
		result ok 'all of it' "$reason"
	fi
done
echo "1..$n"
exit $bad
