/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls with a path in a simulated world: open, statx, rename, unlink, link,
 * mkdir. */

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <weir/sim/file.h>

#include "base/libc.h"
#include "base/why.h"
#include "sim/file.h"

#define COMPONENT_MAX 255

/* The directory that @dirfd is open on, with a slash if it has a name. */
static int begin_at(struct weir_sim *sim, const char *root, int dirfd,
		    char *ret)
{
	struct sim_fd *f;
	struct file *file;

	snprintf(ret, PATH_BYTES, "%s", root);
	if (dirfd == AT_FDCWD)
		return 0;
	f = sim_fd_find(dirfd);
	if (!f || f->sim != sim)
		return -EBADF;
	if (f->dead)
		return -EIO;
	file = file_of(f);
	if (!file || (file->inode && file->inode->kind != INODE_DIR))
		return -ENOTDIR;
	snprintf(ret, PATH_BYTES, "%s", file->dir);
	return 0;
}

int path_resolve(struct weir_sim *sim, const char *root, int dirfd,
		 const char *path, char *ret)
{
	size_t at, len;
	int err;

	if (!*path)
		return -ENOENT;
	err = begin_at(sim, root, *path == '/' ? AT_FDCWD : dirfd, ret);
	if (err)
		return err;
	at = strlen(ret);
	for (; *path; path += len) {
		len = strcspn(path, "/");
		if (len > COMPONENT_MAX || at + len + 2 > PATH_BYTES)
			return -ENAMETOOLONG;
		if (len && !(len == 1 && *path == '.')) {
			if (at)
				ret[at++] = '/';
			memcpy(ret + at, path, len);
			at += len;
		}
		if (!len)
			len = 1;
	}
	ret[at] = 0;
	return 0;
}

static struct file *file_make(struct sim_files *files, struct inode *i,
			      const char *dir, int flags)
{
	struct file *file = calloc(1, sizeof(*file));

	if (file && dir)
		file->dir = strdup(dir);
	if (!file || (dir && !file->dir)) {
		free(file);
		return NULL;
	}
	file->files = files;
	file->f.host = sim_host_named(files->sim, i ? i->name->path : dir);
	file->f.flags = (uint32_t)flags;
	file->inode = i;
	if (i) {
		inode_get(i);
		file->errors = i->errors;
	}
	return file;
}

static int give_number(struct file *file)
{
	int fd = sim_fd_open(file->files->sim, &file->f, &file_class);

	if (fd < 0) {
		if (file->inode)
			inode_put(file->inode);
		free(file->dir);
		free(file);
	}
	return fd;
}

static int open_dir(struct sim_files *files, const char *path, int flags)
{
	struct file *file;

	if (flags & O_CREAT)
		return flags & O_EXCL ? -EEXIST : -EISDIR;
	if ((flags & O_ACCMODE) != O_RDONLY)
		return -EISDIR;
	if (flags & O_DIRECT)
		return -EINVAL;
	file = file_make(files, name_inode(files, path), path, flags);
	return file ? give_number(file) : -ENOMEM;
}

/* Make a file of that name, with one reference, which is the caller's. */
static int create(struct sim_files *files, const char *path, mode_t mode,
		  struct inode **ret)
{
	struct name *name = name_make(files, path);
	struct inode *i;
	int err;

	i = name ? inode_make(files, INODE_FILE, S_IFREG | (mode & 07777)) :
		   NULL;
	if (!i)
		return -ENOMEM;
	err = names_change(files, &(struct leads){ name, i }, 1);
	if (err)
		inode_put(i);
	else
		*ret = i;
	return err;
}

/* A file in the directory @path that no name leads to: what it is called is for
 * power cuts and messages. */
static int open_unnamed(struct sim_files *files, const char *path, int flags,
			mode_t mode)
{
	char name[PATH_BYTES];
	struct inode *i;
	int fd;

	if ((flags & O_ACCMODE) == O_RDONLY)
		return -EINVAL;
	if (!dir_exists(files, path))
		return name_inode(files, path) || has_file_above(files, path) ?
			       -ENOTDIR : -ENOENT;
	if (snprintf(name, sizeof(name), "%s%s#%u", path, *path ? "/" : "",
		     files->n_inodes) >= (int)sizeof(name))
		return -ENAMETOOLONG;
	i = inode_make(files, INODE_FILE, S_IFREG | (mode & 07777));
	if (!i)
		return -ENOMEM;
	i->name = name_make(files, name);
	fd = i->name ? inode_open(i, flags & ~O_TMPFILE) : -ENOMEM;
	inode_put(i);
	return fd;
}

int inode_open(struct inode *i, int flags)
{
	struct file *file = file_make(i->files, i, NULL, flags);
	int fd = file ? give_number(file) : -ENOMEM;
	int err;

	if (fd < 0 || !(flags & O_TRUNC) || i->kind != INODE_FILE ||
	    flags & O_PATH)
		return fd;
	err = inode_resize(i, 0);
	if (err)
		sim_fd_close(&file->f);
	return err ? err : fd;
}

static int path_open(struct sim_files *files, const char *path, int flags, mode_t mode)
{
	struct inode *i = name_inode(files, path);
	int fd;

	if ((flags & O_TMPFILE) == O_TMPFILE)
		return open_unnamed(files, path, flags, mode);
	if ((flags & (O_CREAT | O_DIRECTORY)) == (O_CREAT | O_DIRECTORY))
		return -EINVAL;
	if (dir_exists(files, path))
		return open_dir(files, path, flags);
	if (i && (flags & O_CREAT) && (flags & O_EXCL))
		return -EEXIST;
	if (i && (flags & O_DIRECTORY))
		return -ENOTDIR;
	if (i)
		return inode_open(i, flags);
	if (has_file_above(files, path))
		return -ENOTDIR;
	if (!(flags & O_CREAT))
		return -ENOENT;
	fd = create(files, path, mode, &i);
	if (fd)
		return fd;
	fd = inode_open(i, flags);
	inode_put(i);
	return fd;
}

static uint64_t number_of(const char *dir)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (; *dir; dir++)
		sum = (sum ^ (unsigned char)*dir) * UINT64_C(0x100000001b3);
	return sum | UINT64_C(1) << 63;
}

static void tell_time(struct statx_timestamp *ret, uint64_t ns)
{
	ret->tv_sec = (int64_t)(ns / WEIR_SEC);
	ret->tv_nsec = (uint32_t)(ns % WEIR_SEC);
}

static void tell(struct statx *ret, const struct inode *i)
{
	ret->stx_mode = (uint16_t)i->mode;
	if (i->kind != INODE_DIR)
		ret->stx_nlink = i->links;
	ret->stx_ino = i->number;
	ret->stx_size = i->size;
	ret->stx_blocks = (ranges_in(&i->held, 0, UINT64_MAX) + 511) / 512;
	if (i->kind == INODE_DISK) {
		ret->stx_size = 0;
		ret->stx_rdev_major = 259;
		ret->stx_rdev_minor = i->number;
	}
	tell_time(&ret->stx_mtime, i->changed_ns);
	tell_time(&ret->stx_ctime, i->changed_ns);
	tell_time(&ret->stx_atime, i->changed_ns);
#ifdef STATX_DIOALIGN
	if (i->kind != INODE_DIR) {
		ret->stx_mask |= STATX_DIOALIGN;
		ret->stx_dio_mem_align = DIRECT_MEM;
		ret->stx_dio_offset_align = i->align;
	}
#endif
}

/* The root directory of the program that began @op. */
static const char *root_of(const struct weir_op *op)
{
	const struct weir_sim_host *host = sim_of(op->reactor)->host;

	return host ? host->name : "";
}

static void stat_at(const char *path, const struct inode *i, struct statx *ret)
{
	*ret = (struct statx){ .stx_mask = STATX_BASIC_STATS, .stx_nlink = 2,
			       .stx_mode = S_IFDIR | 0755,
			       .stx_blksize = CHUNK,
			       .stx_ino = number_of(path) };
	if (i)
		tell(ret, i);
}

static int stat_name(struct sim_files *files, const char *path, struct statx *ret)
{
	struct inode *i = name_inode(files, path);

	if (!i && !dir_exists(files, path))
		return has_file_above(files, path) ? -ENOTDIR : -ENOENT;
	stat_at(path, i, ret);
	return 0;
}

static void stat_open(const struct file *file, struct statx *ret)
{
	stat_at(file->dir ? file->dir : "", file->inode, ret);
}

static int64_t stat_now(struct sim_files *files, struct weir_op *op)
{
	const char *path = (const char *)(uintptr_t)op->u.io.addr;
	bool itself = !*path && op->u.io.flags & AT_EMPTY_PATH;
	char name[PATH_BYTES] = "";
	struct statx st;
	struct sim_fd *f;
	int err = 0;

	if (itself && op->u.io.fd != AT_FDCWD) {
		f = sim_fd_find(op->u.io.fd);
		if (!f || f->sim != files->sim)
			return -EBADF;
		if (f->dead)
			return -EIO;
		if (!file_of(f))
			return -EOPNOTSUPP;
		stat_open(file_of(f), &st);
	} else {
		if (!itself)
			err = path_resolve(files->sim, root_of(op),
					   op->u.io.fd, path, name);
		if (!err)
			err = stat_name(files, name, &st);
	}
	if (!err)
		memcpy((void *)(uintptr_t)op->u.io.aux, &st, sizeof(st));
	return err;
}

static int check_rename_dir(struct sim_files *files, const char *from,
			    const char *to, uint32_t flags)
{
	size_t len = strlen(from);

	if (flags & RENAME_EXCHANGE)
		return -EXDEV;
	if (!len || !*to)
		return -EBUSY;
	if (begins_with(to, from) && to[len] == '/')
		return -EINVAL;
	if (name_inode(files, to) && !dir_exists(files, to))
		return flags & RENAME_NOREPLACE ? -EEXIST : -ENOTDIR;
	if (dir_exists(files, to) && flags & RENAME_NOREPLACE)
		return -EEXIST;
	if (dir_exists(files, to) && strcmp(from, to) &&
	    !dir_is_empty(files, to))
		return -ENOTEMPTY;
	return has_file_above(files, to) ? -ENOTDIR : 0;
}

static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return begins_with(path, dir) && path[len] == '/';
}

/* Where @path is when the directory @from is @to. */
static int moved(const char *path, const char *from, const char *to, char *ret)
{
	int len = snprintf(ret, PATH_BYTES, "%s%s", to, path + strlen(from));

	return len < PATH_BYTES ? 0 : -ENAMETOOLONG;
}

/* Give the directory @from, with all that is in it, the name @to, which nothing
 * has but an empty directory: 0 or a negative errno. */
static int names_move(struct sim_files *files, const char *from, const char *to)
{
	/* Also where nothing but the names below says that it is there. */
	struct name *a = name_make(files, from), *b = name_make(files, to);
	uint32_t n_names = files->n_names, n = 0;
	struct leads *at = calloc(2 * (size_t)n_names + 2, sizeof(*at));
	struct name **names = malloc(n_names * sizeof(struct name *));
	char path[PATH_BYTES];
	int err = a && b && at && names ? 0 : -ENOMEM;

	/* New names change the places of the others. */
	if (!err)
		memcpy(names, files->names, n_names * sizeof(struct name *));
	if (!err && !a->now) {
		at[n++] = (struct leads){ a, NULL };
		at[n++] = (struct leads){ b, b->now };
	}
	for (uint32_t i = 0; i < n_names && !err; i++) {
		const char *was = names[i]->path;

		if (!names[i]->now ||
		    (strcmp(was, from) && !is_below(was, from)))
			continue;
		err = moved(was, from, to, path);
		at[n++] = (struct leads){ names[i], NULL };
		at[n].name = err ? NULL : name_make(files, path);
		at[n].to = names[i]->now;
		if (!err && !at[n++].name)
			err = -ENOMEM;
	}
	if (!err)
		err = names_change(files, at, n);
	free(names);
	free(at);
	return err;
}

/* Open directories go with it. */
static int rename_dir(struct sim_files *files, const char *from,
		      const char *to)
{
	size_t len = strlen(from);
	struct sim_fd *f;
	struct file *file;
	char *dir;
	int err;

	if (!strcmp(from, to))
		return 0;
	err = names_move(files, from, to);
	for (uint32_t i = 0; i < files->sim->n_fds && !err; i++) {
		f = files->sim->fds[i];
		file = f ? file_of(f) : NULL;
		if (!file || !file->dir || !begins_with(file->dir, from) ||
		    (file->dir[len] && file->dir[len] != '/'))
			continue;
		dir = malloc(strlen(to) + strlen(file->dir) - len + 1);
		if (!dir)
			return -ENOMEM;
		strcpy(dir, to);
		strcat(dir, file->dir + len);
		free(file->dir);
		file->dir = dir;
	}
	return err;
}

static int check_rename(struct sim_files *files, const char *from,
			const char *to, uint32_t flags)
{
	struct inode *target = name_inode(files, to);

	if (flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE) ||
	    flags == (RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL;
	if (dir_exists(files, from))
		return check_rename_dir(files, from, to, flags);
	if (!name_inode(files, from))
		return has_file_above(files, from) ? -ENOTDIR : -ENOENT;
	if (flags & RENAME_NOREPLACE && (target || dir_exists(files, to)))
		return -EEXIST;
	if (dir_exists(files, to))
		return flags & RENAME_EXCHANGE ? -EXDEV : -EISDIR;
	if (flags & RENAME_EXCHANGE && !target)
		return -ENOENT;
	return !target && has_file_above(files, to) ? -ENOTDIR : 0;
}

static int rename_now(struct sim_files *files, const char *from, const char *to,
	       uint32_t flags)
{
	int err = check_rename(files, from, to, flags);
	struct inode *other;
	struct name *a, *b;

	if (err)
		return err;
	if (dir_exists(files, from))
		return rename_dir(files, from, to);
	a = name_find(files, from);
	b = name_make(files, to);
	if (!b)
		return -ENOMEM;
	if (a == b || a->now == b->now)
		return 0;
	other = flags & RENAME_EXCHANGE ? b->now : NULL;
	return names_change(files, (struct leads[]){ { a, other },
						     { b, a->now } }, 2);
}

static int unlink_now(struct sim_files *files, const char *path, uint32_t flags)
{
	bool dir = flags & AT_REMOVEDIR;

	if (flags & ~(uint32_t)AT_REMOVEDIR)
		return -EINVAL;
	if (dir_exists(files, path)) {
		if (!dir)
			return -EISDIR;
		if (!*path)
			return -EBUSY;
		if (!dir_is_empty(files, path))
			return -ENOTEMPTY;
	} else if (!name_inode(files, path)) {
		return has_file_above(files, path) ? -ENOTDIR : -ENOENT;
	} else if (dir) {
		return -ENOTDIR;
	}
	return names_change(files, &(struct leads){ name_find(files, path),
						    NULL }, 1);
}

static int make_dir(struct sim_files *files, const char *path, mode_t mode)
{
	struct inode *i;
	struct name *name;
	int err;

	if (name_inode(files, path) || dir_exists(files, path))
		return -EEXIST;
	if (has_file_above(files, path))
		return -ENOTDIR;
	name = name_make(files, path);
	i = name ? inode_make(files, INODE_DIR, S_IFDIR | (mode & 07777)) :
		   NULL;
	if (!i)
		return -ENOMEM;
	err = names_change(files, &(struct leads){ name, i }, 1);
	inode_put(i);
	return err;
}

/* One more name, @path, of @i. */
static int link_now(struct sim_files *files, struct inode *i, const char *path)
{
	struct name *name;

	if (name_inode(files, path) || dir_exists(files, path))
		return -EEXIST;
	if (has_file_above(files, path))
		return -ENOTDIR;
	name = name_make(files, path);
	return name ? names_change(files, &(struct leads){ name, i }, 1) :
		      -ENOMEM;
}

static int link_path(struct sim_files *files, const char *from, const char *to,
		     uint32_t flags)
{
	struct inode *i = name_inode(files, from);

	if (flags & ~(uint32_t)AT_SYMLINK_FOLLOW)
		return -EOPNOTSUPP;
	if (i && i->kind == INODE_FILE)
		return link_now(files, i, to);
	if (i || dir_exists(files, from))
		return -EPERM;
	return has_file_above(files, from) ? -ENOTDIR : -ENOENT;
}

/* A world has no symbolic links, and no rights or times to set. */
static bool path_has_call(const struct weir_op *op)
{
	switch (op->kind) {
	case IO_SYMLINK: case IO_READLINK: case IO_CHMOD: case IO_CHOWN:
	case IO_UTIMENS:
		return false;
	default:
		return true;
	}
}

/* Whether the power of a path was cut since @op began. */
static bool is_cut(const struct sim_files *files, const struct weir_op *op,
		   const char *path)
{
	const struct cut *cut;

	for (cut = files->cuts; cut; cut = cut->next) {
		if ((int32_t)(cut->serial - sim_io_serial(op)) < 0)
			break;
		if (cut_hits(cut->prefix, path))
			return true;
	}
	return false;
}

#define RESOLVE_KNOWN \
	(RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | \
	 RESOLVE_BENEATH | RESOLVE_IN_ROOT | RESOLVE_CACHED)

/* Whether @path leads out of where it begins. */
static bool escapes(const char *path)
{
	int depth = 0;
	size_t len;

	if (*path == '/')
		return true;
	for (; *path; path += len + (path[len] == '/')) {
		len = strcspn(path, "/");
		if (len == 2 && path[0] == '.' && path[1] == '.')
			depth--;
		else if (len && !(len == 1 && *path == '.'))
			depth++;
		if (depth < 0)
			return true;
	}
	return false;
}

/*
 * What openat2(2) refuses.  All names are in the cache; a world has no links and
 * no mounts.  With IN_ROOT *@path is made relative.
 */
static int check_how(const struct weir_op *op, const char **path)
{
	const struct open_how how = io_how(op);
	bool makes = how.flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY));

	if (how.resolve & ~(uint64_t)RESOLVE_KNOWN || how.mode & ~07777u ||
	    (how.mode && !makes) ||
	    (how.resolve & RESOLVE_BENEATH && how.resolve & RESOLVE_IN_ROOT))
		return -EINVAL;
	if (how.resolve & RESOLVE_CACHED && (makes || how.flags & O_TRUNC))
		return -EAGAIN;
	if (how.resolve & RESOLVE_BENEATH && escapes(*path))
		return -EXDEV;
	if (how.resolve & RESOLVE_IN_ROOT && **path == '/') {
		*path += strspn(*path, "/");
		if (!**path)
			*path = ".";
	}
	return 0;
}

int sim_path_names(struct weir_sim *sim, const struct weir_op *op, char *name,
		   char *to)
{
	const char *path = (const char *)(uintptr_t)op->u.io.addr;
	const char *other = (const char *)(uintptr_t)op->u.io.aux;
	int err = 0;

	if (op->kind == IO_OPEN && op->u.io.aux)
		err = check_how(op, &path);
	if (!err)
		err = path_resolve(sim, root_of(op), op->u.io.fd, path, name);
	if (!err && sim_names_two(op))
		err = path_resolve(sim, root_of(op), (int)op->u.io.len, other,
				   to);
	return err;
}

bool sim_path_is_cut(struct weir_sim *sim, const struct weir_op *op)
{
	char name[PATH_BYTES], to[PATH_BYTES];
	struct sim_files *files = files_of(sim);

	if (!files || !files->cuts)
		return false;
	return sim_path_names(sim, op, name, to) || is_cut(files, op, name) ||
	       (sim_names_two(op) && is_cut(files, op, to));
}

int64_t sim_path_call(struct weir_sim *sim, struct weir_op *op)
{
	const char *path = (const char *)(uintptr_t)op->u.io.addr;
	struct sim_files *files = files_of(sim);
	char name[PATH_BYTES], to[PATH_BYTES];
	int err;

	if (!files)
		return -ENOMEM;
	if (!path_has_call(op))
		return -EOPNOTSUPP;
	if (op->kind == IO_STATX && !*path)
		return op->u.io.flags & AT_EMPTY_PATH ? stat_now(files, op) :
							-ENOENT;
	err = sim_path_names(sim, op, name, to);
	if (err)
		return err;
	if (is_cut(files, op, name) ||
	    (sim_names_two(op) && is_cut(files, op, to)))
		return -EIO;
	switch (op->kind) {
	case IO_OPEN:
		return path_open(files, name, (int)op->u.io.flags,
				 (mode_t)op->u.io.len);
	case IO_STATX:
		return stat_now(files, op);
	case IO_RENAME:
		return rename_now(files, name, to, op->u.io.flags);
	case IO_MKDIR:
		return make_dir(files, name, (mode_t)op->u.io.len);
	case IO_LINK:
		return link_path(files, name, to, op->u.io.flags);
	default:
		return unlink_now(files, name, op->u.io.flags);
	}
}

/* The same at once, for tests and programs without a reactor. */

/* The name of @path in *@ret: 0 or a negative errno. */
static int resolve(struct weir_sim *sim, const char *path,
		   struct sim_files **files, char *ret)
{
	*files = files_of(sim);
	return *files ? path_resolve(sim, "", AT_FDCWD, path, ret) : -ENOMEM;
}

int weir_sim_rename(struct weir_sim *sim, const char *from, const char *to,
		    uint32_t flags)
{
	char a[PATH_BYTES], b[PATH_BYTES];
	struct sim_files *files;
	int err = resolve(sim, from, &files, a);

	if (!err)
		err = resolve(sim, to, &files, b);
	return err ? err : rename_now(files, a, b, flags);
}

int weir_sim_unlink(struct weir_sim *sim, const char *path, uint32_t flags)
{
	struct sim_files *files;
	char name[PATH_BYTES];
	int err = resolve(sim, path, &files, name);

	return err ? err : unlink_now(files, name, flags);
}

int weir_sim_link(int fd, const char *path)
{
	struct sim_fd *f = sim_fd_find(fd);
	struct file *file = f ? file_of(f) : NULL;
	struct sim_files *files;
	char name[PATH_BYTES];
	int err;

	if (!file)
		return f ? -EINVAL : -EBADF;
	if (f->dead)
		return -EIO;
	if (!file->inode || file->inode->kind != INODE_FILE)
		return -EPERM;
	err = resolve(f->sim, path, &files, name);
	return err ? err : link_now(files, file->inode, name);
}

static void tell_stat(struct stat *ret, const struct statx *st)
{
	*ret = (struct stat){
		.st_dev = makedev(st->stx_dev_major, st->stx_dev_minor),
		.st_ino = st->stx_ino,
		.st_mode = st->stx_mode,
		.st_nlink = st->stx_nlink,
		.st_rdev = makedev(st->stx_rdev_major, st->stx_rdev_minor),
		.st_size = (off_t)st->stx_size,
		.st_blksize = (blksize_t)st->stx_blksize,
		.st_blocks = (blkcnt_t)st->stx_blocks,
		.st_mtim = { st->stx_mtime.tv_sec, st->stx_mtime.tv_nsec },
	};
	ret->st_atim = ret->st_ctim = ret->st_mtim;
}

int weir_sim_stat(struct weir_sim *sim, const char *path, struct stat *ret)
{
	struct sim_files *files;
	char name[PATH_BYTES];
	struct statx st;
	int err = resolve(sim, path, &files, name);

	if (!err)
		err = stat_name(files, name, &st);
	if (!err)
		tell_stat(ret, &st);
	return err;
}

int weir_sim_fstat(int fd, struct stat *ret)
{
	struct sim_fd *f = sim_fd_find(fd);
	struct statx st;

	if (!f)
		return -EBADF;
	if (f->dead)
		return -EIO;
	if (!file_of(f)) {
		*ret = (struct stat){ .st_nlink = 1, .st_mode = 0600 |
			(f->cls->socket ? S_IFSOCK : S_IFIFO) };
		return 0;
	}
	stat_open(file_of(f), &st);
	tell_stat(ret, &st);
	return 0;
}

int weir_sim_file_open(struct weir_sim *sim, const char *path, int flags,
		       mode_t mode)
{
	struct sim_files *files = files_of(sim);
	char name[PATH_BYTES];
	int fd = files ? path_resolve(sim, "", AT_FDCWD, path, name) : -ENOMEM;

	if (!fd)
		fd = path_open(files, name, flags, mode);
	return fd < 0 ? why(fd, "weir_sim_file_open: %s: %s", path,
			    strerror(-fd)) : fd;
}
