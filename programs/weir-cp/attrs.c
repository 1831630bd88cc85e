/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The attributes of a copy: owner, extended attributes, ACL and mode, times, in
 * this order, because a new owner clears capabilities and set-user-ID, and all
 * of these change the times.
 *
 * No user gets rights to the copy that the user lacks to the source.  With an
 * ACL the group bits of the mode are its mask: the most rights that any entry
 * may grant.  If the ACL is not copied, the group bits are reduced to the
 * group's rights, and the other bits to the rights that all entries grant.
 *
 * Descriptors of links, fifos, sockets and devices are only places (O_PATH);
 * calls that do not take such go by way of /proc.
 */
#define _GNU_SOURCE 1
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/limits.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "weir-cp.h"

#define ACL_ACCESS "system.posix_acl_access"
#define ACL_DEFAULT "system.posix_acl_default"

/* A descriptor, and the way to it for calls that do not take it. */
struct end {
	int fd;
	bool node;
	char path[32];
};

static struct end end_of(int fd, const struct stat *st)
{
	struct end e = { .fd = fd };

	e.node = !S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode);
	snprintf(e.path, sizeof(e.path), "/proc/self/fd/%d", fd);
	return e;
}

static ssize_t get_attr(const struct end *e, const char *name, void *value,
			size_t size)
{
	return e->node ? getxattr(e->path, name, value, size) :
			 fgetxattr(e->fd, name, value, size);
}

static int set_attr(const struct end *e, const char *name, const void *value,
		    size_t size)
{
	return e->node ? setxattr(e->path, name, value, size, 0) :
			 fsetxattr(e->fd, name, value, size, 0);
}

static int remove_attr(const struct end *e, const char *name)
{
	return e->node ? removexattr(e->path, name) :
			 fremovexattr(e->fd, name);
}

static int set_mode(const struct end *e, mode_t mode)
{
	return e->node ? chmod(e->path, mode) : fchmod(e->fd, mode);
}

/* Not kept: @name, for the reason @err.  The first reason is told. */
static void lose(struct lost *lost, const char *name, int err, bool bad)
{
	size_t len = strlen(lost->names);

	if (!len)
		lost->err = err;
	lost->bad |= bad;
	if (len + strlen(name) + 8 < sizeof(lost->names))
		snprintf(lost->names + len, sizeof(lost->names) - len, "%s%s",
			 len ? ", " : "", name);
	else if (strcmp(lost->names + len - 3, "..."))
		strcpy(lost->names + len, ", ...");
}

/*
 * What remains of @mode without the ACL @acl: a user
 * named in it may be of the group or one of the others, a member of a named
 * group is one of the others.
 */
static mode_t without_acl(const char *acl, size_t size, mode_t mode)
{
	const struct posix_acl_xattr_entry *e =
		(const void *)(acl + sizeof(struct posix_acl_xattr_header));
	size_t n = (size - sizeof(struct posix_acl_xattr_header)) / sizeof(*e);
	unsigned group = 7, other = mode & 7, mask = mode >> 3 & 7;

	for (size_t i = 0; i < n; i++) {
		unsigned may = le16toh(e[i].e_perm) & 7;

		switch (le16toh(e[i].e_tag)) {
		case ACL_USER:
			group &= may;
			other &= may & mask;
			break;
		case ACL_GROUP:
			other &= may & mask;
			break;
		case ACL_GROUP_OBJ:
			group &= may;
			break;
		}
	}
	return (mode & ~(mode_t)077) | (group & mask) << 3 | other;
}

/*
 * The ACL of @e in a new piece of memory; NULL if there is none, or *@err says
 * why it cannot be had.
 */
static char *read_acl(const struct end *e, const char *name, size_t *size,
		      int *err)
{
	ssize_t n = get_attr(e, name, NULL, 0);
	char *acl = n > 0 ? malloc((size_t)n) : NULL;

	*err = n < 0 ? errno : n > 0 && !acl ? ENOMEM : 0;
	if (!acl)
		goto none;
	n = get_attr(e, name, acl, (size_t)n);
	if (n >= (ssize_t)sizeof(struct posix_acl_xattr_header)) {
		*size = (size_t)n;
		return acl;
	}
	*err = n < 0 ? errno : EINVAL;
	free(acl);
none:
	if (*err == ENODATA || *err == EOPNOTSUPP)
		*err = 0;
	return NULL;
}

/* The rights that the mode of @src gives, without those of an ACL. */
mode_t rights_of(int src, const struct stat *st)
{
	struct end e = end_of(src, st);
	mode_t mode = st->st_mode & 0777;
	size_t size;
	char *acl;
	int err;

	if (!(mode & 077) || S_ISLNK(st->st_mode))
		return mode;
	acl = read_acl(&e, ACL_ACCESS, &size, &err);
	if (acl)
		mode = without_acl(acl, size, mode);
	else if (err)
		mode &= 0700;
	free(acl);
	return mode;
}

/* Users that it will not belong to shall not open it before. */
mode_t mode_until_done(const struct cp *cp, const struct stat *st, mode_t mode)
{
	bool mine = cp->uid == st->st_uid && cp->gid == st->st_gid;

	return !(cp->opts.keep & (KEEP_MODE | KEEP_OWNER)) || mine ?
		       mode : mode & 0700;
}

/* Returns whether the copy belongs to whom the source does.  Only root is
 * expected to be able to give files away. */
static bool copy_owner(const struct cp *cp, const struct stat *st,
		       const struct end *dst, struct lost *lost)
{
	if (fchownat(dst->fd, "", st->st_uid, st->st_gid, AT_EMPTY_PATH) == 0)
		return true;
	if (cp->root || (errno != EPERM && errno != EINVAL))
		lose(lost, "owner", errno, true);
	/* The group at least, if the user is in it. */
	return fchownat(dst->fd, "", (uid_t)-1, st->st_gid,
			AT_EMPTY_PATH) == 0 && cp->uid == st->st_uid;
}

/* ACLs go with the mode; those of NFSv4 are another file system's own. */
static bool is_passed_over(const char *name)
{
	return !strncmp(name, "system.", 7) || !strcmp(name, "security.evm");
}

static void copy_xattrs(const struct cp *cp, const struct end *src,
			const struct end *dst, struct lost *lost)
{
	bool bad = cp->opts.xattr_required;
	ssize_t len = src->node ? listxattr(src->path, NULL, 0) :
				  flistxattr(src->fd, NULL, 0);
	char *names, *value;

	if (len < 0 && errno != EOPNOTSUPP)
		lose(lost, "attributes", errno, bad);
	if (len <= 0)
		return;
	names = malloc(XATTR_LIST_MAX + XATTR_SIZE_MAX);
	if (!names) {
		lose(lost, "attributes", ENOMEM, true);
		return;
	}
	value = names + XATTR_LIST_MAX;
	len = src->node ? listxattr(src->path, names, XATTR_LIST_MAX) :
			  flistxattr(src->fd, names, XATTR_LIST_MAX);
	if (len < 0)
		lose(lost, "attributes", errno, bad);
	for (char *at = names; at < names + len; at += strlen(at) + 1) {
		ssize_t n;

		if (is_passed_over(at))
			continue;
		n = get_attr(src, at, value, XATTR_SIZE_MAX);
		if (n < 0 && errno == ENODATA)
			continue;	/* It went away meanwhile. */
		if (n < 0 || set_attr(dst, at, value, (size_t)n))
			lose(lost, at, errno, bad);
	}
	free(names);
}

static void copy_acl(const struct end *dst, const char *name, const char *acl,
		     size_t size, struct lost *lost)
{
	if (acl && set_attr(dst, name, acl, size))
		lose(lost, "ACL", errno, true);
	/* One that the directory has given it. */
	if (!acl && get_attr(dst, name, NULL, 0) > 0 && remove_attr(dst, name))
		lose(lost, "mode", errno, true);
}

static void copy_mode(const struct stat *st, mode_t mode, mode_t now,
		      const struct end *src, const struct end *dst,
		      struct lost *lost)
{
	size_t size = 0;
	int err;
	char *acl = read_acl(src, ACL_ACCESS, &size, &err);
	mode_t plain = acl ? without_acl(acl, size, mode) :
		       err ? mode & ~(mode_t)077 : mode;

	if (err)
		lose(lost, "ACL", err, true);
	if (!acl)
		copy_acl(dst, ACL_ACCESS, NULL, 0, lost);
	if (plain != now && set_mode(dst, plain))
		lose(lost, "mode", errno, true);
	if (acl) {
		copy_acl(dst, ACL_ACCESS, acl, size, lost);
		/* The kernel may have taken these. */
		if ((mode & 07000) && !strstr(lost->names, "ACL") &&
		    set_mode(dst, mode))
			lose(lost, "mode", errno, true);
	}
	free(acl);
	if (!S_ISDIR(st->st_mode))
		return;
	acl = read_acl(src, ACL_DEFAULT, &size, &err);
	if (err)
		lose(lost, "default ACL", err, true);
	copy_acl(dst, ACL_DEFAULT, acl, size, lost);
	free(acl);
}

static void copy_times(const struct stat *st, const struct end *dst,
		       struct lost *lost)
{
	struct timespec times[2] = { st->st_atim, st->st_mtim };

	if (dst->node ? utimensat(AT_FDCWD, dst->path, times, 0) :
			futimens(dst->fd, times))
		lose(lost, "times", errno, true);
}

/*
 * Give @dst what is to be kept of @src, which is @st.  What cannot be given is
 * in @lost; the copy is good all the same.
 */
void attrs_copy(const struct cp *cp, const struct stat *st, int src_fd,
		int dst_fd, struct lost *lost)
{
	unsigned keep = cp->opts.keep;
	mode_t mode = st->st_mode & 07777, now;
	struct end src = end_of(src_fd, st), dst = end_of(dst_fd, st);
	struct stat is;
	bool same;

	if (!(keep & ~(unsigned)KEEP_LINKS))
		return;
	if (fstat(dst_fd, &is)) {
		lose(lost, "attributes", errno, true);
		return;
	}
	now = is.st_mode & 07777;
	same = is.st_uid == st->st_uid && is.st_gid == st->st_gid;
	if ((keep & KEEP_OWNER) && !same) {
		same = copy_owner(cp, st, &dst, lost);
		now = 010000;	/* Unknown; it is set again. */
	}
	if (!same)
		mode &= 0777;	/* It would be another user's. */
	if (keep & KEEP_XATTR)
		copy_xattrs(cp, &src, &dst, lost);
	if ((keep & KEEP_MODE) && !S_ISLNK(st->st_mode))
		copy_mode(st, mode, now, &src, &dst, lost);
	else if ((keep & KEEP_OWNER) && !S_ISLNK(st->st_mode) &&
		 !S_ISDIR(st->st_mode) &&
		 set_mode(&dst, rights_of(src_fd, st) & ~cp->umask))
		lose(lost, "mode", errno, true);
	if (keep & KEEP_TIMES)
		copy_times(st, &dst, lost);
}
