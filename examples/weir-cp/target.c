/* SPDX-License-Identifier: CC0-1.0 */
/*
 * What SOURCE and DEST name: the directories that they are in, and the first
 * thing that the walk finds.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weir-cp.h"

/* A path in two: the directory, and the last name in it. */
struct place {
	char *dir;
	char *name;
};

static void place_free(struct place *p)
{
	free(p->dir);
	free(p->name);
}

/* "a/b/" is "b" in "a"; "a/." and "/" are "." in themselves. */
static int place_of(struct place *p, const char *path)
{
	size_t len = strlen(path);
	size_t name;

	while (len > 1 && path[len - 1] == '/')
		len--;
	for (name = len; name > 0 && path[name - 1] != '/'; name--)
		;
	p->name = strndup(path + name, len - name);
	if (p->name && (!p->name[0] || !strcmp(p->name, ".") ||
			!strcmp(p->name, ".."))) {
		free(p->name);
		p->name = strdup(".");
		name = len;
	}
	p->dir = name ? strndup(path, name) : strdup(".");
	return p->dir && p->name ? 0 : -ENOMEM;
}

static int open_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	/* It need not be readable to lead somewhere. */
	if (fd < 0 && errno == EACCES)
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd;
}

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether @fd is the directory @st, or lies inside it. */
static bool is_inside(int fd, const struct stat *st)
{
	int at = dup(fd);
	struct stat here, above;
	bool inside = false;

	if (at < 0 || fstat(at, &here)) {
		close(at);
		return false;
	}
	for (;;) {
		int up;

		inside = same(&here, st);
		up = inside ? -1 : openat(at, "..", O_PATH | O_CLOEXEC);
		close(at);
		at = up;
		if (at < 0 || fstat(at, &above) || same(&above, &here))
			break;
		here = above;
	}
	if (at >= 0)
		close(at);
	return inside;
}

static int fail(struct cp *cp, const char *what, const char *path, int err)
{
	say_error(cp, what, path, err);
	return -1;
}

static const char *kind_error(mode_t mode, bool recursive)
{
	if (S_ISREG(mode) || S_ISLNK(mode))
		return NULL;
	if (S_ISDIR(mode))
		return recursive ? NULL : "is a directory; -r copies it";
	return S_ISFIFO(mode) ? "is a fifo, and not copied" :
	       S_ISSOCK(mode) ? "is a socket, and not copied" :
	       "is a device, and not copied";
}

static int look_at_source(struct cp *cp, struct stat *st)
{
	const struct cp_opts *o = &cp->opts;
	const char *wrong;

	/* Without -r a link stands for the file. */
	if (fstatat(AT_FDCWD, o->source, st,
		    o->recursive ? AT_SYMLINK_NOFOLLOW : 0))
		return fail(cp, "look at", o->source, -errno);
	wrong = kind_error(st->st_mode, o->recursive);
	return wrong ? fail(cp, wrong, o->source, 0) : 0;
}

/*
 * The place of the copy: DEST, or if that is a directory, a name in it.  A
 * source without a name of its own ("a/.") is copied into the directory itself.
 */
static int find_dest(struct cp *cp, struct place *p, const char *src_name)
{
	const struct cp_opts *o = &cp->opts;
	struct stat st;
	int err;

	if (!o->no_target_dir && strcmp(src_name, ".") &&
	    stat(o->dest, &st) == 0 && S_ISDIR(st.st_mode)) {
		p->dir = strdup(o->dest);
		p->name = strdup(src_name);
		err = p->dir && p->name ? 0 : -ENOMEM;
	} else {
		err = place_of(p, o->dest);
	}
	if (!err && strlen(p->name) > NAME_MAX)
		err = -ENAMETOOLONG;
	return err ? fail(cp, "make", o->dest, err) : 0;
}

/* Errors that it is better to tell before anything is read. */
static int check_dest(struct cp *cp, const struct stat *src, int dst_dir,
		      const char *name)
{
	const struct cp_opts *o = &cp->opts;
	struct stat st;
	bool there = fstatat(dst_dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;

	if (there && same(&st, src) && !S_ISDIR(src->st_mode))
		return fail(cp, "is the same file in SOURCE and DEST",
			    o->source, 0);
	if (S_ISDIR(src->st_mode)) {
		if (is_inside(dst_dir, src) || (there && same(&st, src)))
			return fail(cp, "cannot be copied into itself",
				    o->source, 0);
		if (there && S_ISLNK(st.st_mode))
			there = fstatat(dst_dir, name, &st, 0) == 0;
		if (there && !S_ISDIR(st.st_mode))
			return fail(cp, "is there, and no directory", o->dest,
				    0);
		return 0;
	}
	if (there && S_ISDIR(st.st_mode))
		return fail(cp, "is a directory", o->dest, 0);
	if (there && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return fail(cp, "is no file, and not replaced", o->dest, 0);
	if (o->dest[strlen(o->dest) - 1] == '/' && !strcmp(name, o->dest))
		return fail(cp, "is no directory", o->dest, -ENOTDIR);
	return 0;
}

static int begin_walk(struct cp *cp, const struct stat *st,
		      const struct place *src, const struct place *dst)
{
	struct walk *w = cp->walk;

	if (S_ISDIR(st->st_mode)) {
		if (walk_enter(w, cp->top, src->name, dst->name))
			w->cur = NULL;
	} else {
		walk_add(w, S_ISLNK(st->st_mode) ? FOUND_LINK : FOUND_FILE,
			 cp->top, src->name, dst->name);
	}
	w->ended = !w->cur;
	return 0;
}

static int resolve(struct cp *cp, struct place *src, struct place *dst)
{
	struct stat st;
	int src_dir, dst_dir;

	if (look_at_source(cp, &st))
		return -1;
	if (place_of(src, cp->opts.source))
		return fail(cp, "use", cp->opts.source, -ENOMEM);
	if (find_dest(cp, dst, src->name))
		return -1;
	cp->top = dir_new(cp, NULL, src->dir, dst->dir);
	if (!cp->top)
		return fail(cp, "use", cp->opts.source, -ENOMEM);
	src_dir = open_dir(src->dir);
	if (src_dir < 0)
		return fail(cp, "open", src->dir, -errno);
	cp->top->src = src_dir;
	dst_dir = open_dir(dst->dir);
	if (dst_dir < 0)
		return fail(cp, "open", dst->dir, -errno);
	dir_adopt(cp->top, src_dir, dst_dir);
	if (check_dest(cp, &st, dst_dir, dst->name))
		return -1;
	return begin_walk(cp, &st, src, dst);
}

/* Returns 0, or -1 if an error was reported. */
int target_resolve(struct cp *cp)
{
	struct place src = { NULL, NULL }, dst = { NULL, NULL };
	int err = resolve(cp, &src, &dst);

	place_free(&src);
	place_free(&dst);
	if (err && cp->top) {
		dir_unref(cp->top);
		cp->top = NULL;
	}
	return err;
}
