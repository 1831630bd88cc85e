/* SPDX-License-Identifier: CC0-1.0 */
/*
 * What the sources and the destination name, as cp takes them: for each source
 * the directories that it and its copy are in, and the first thing that the
 * walk finds there.
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

/* A path that can only be that of a directory. */
static bool must_be_dir(const char *path)
{
	size_t len = strlen(path);

	return path[len - 1] == '/';
}

int open_dir(const char *path)
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

static bool is_dir(const char *path, struct stat *st)
{
	return stat(path, st) == 0 && S_ISDIR(st->st_mode);
}

static bool follows(const struct cp_opts *o, const char *source)
{
	return o->follow != FOLLOW_NEVER || must_be_dir(source);
}

/* What is wrong with one of the sources; the others are copied. */
static struct found *fail(struct walk *w, const char *what, const char *path,
			  int err)
{
	struct found *found = walk_add(w, FOUND_ERROR, NULL, NULL, NULL);

	found->name = path;
	found->what = what;
	found->err = err;
	return found;
}

static int look_at_source(struct walk *w, const char *source, struct stat *st,
			  enum found_kind *kind)
{
	const struct cp_opts *o = &w->cp->opts;
	const char *wrong;

	if (fstatat(AT_FDCWD, source, st,
		    follows(o, source) ? 0 : AT_SYMLINK_NOFOLLOW)) {
		fail(w, "look at", source, -errno);
		return -1;
	}
	wrong = kind_of(st->st_mode, kind);
	if (S_ISDIR(st->st_mode) && !o->recursive)
		wrong = "is a directory; -r copies it";
	else if (*kind == FOUND_NODE && o->recursive)
		wrong = NULL;
	if (!wrong)
		return 0;
	fail(w, wrong, source, 0);
	return -1;
}

/*
 * The place of the copy: DEST, or if that is a directory, a name in it.  A
 * source without a name of its own ("a/.") is copied into the directory itself.
 */
static int find_dest(struct walk *w, struct place *p, const char *src_name)
{
	const struct cp_opts *o = &w->cp->opts;
	int err;

	if (w->cp->into && strcmp(src_name, ".")) {
		p->dir = strdup(o->dest);
		p->name = strdup(src_name);
		err = p->dir && p->name ? 0 : -ENOMEM;
	} else {
		err = place_of(p, o->dest);
	}
	if (!err && strlen(p->name) > NAME_MAX)
		err = -ENAMETOOLONG;
	if (err)
		fail(w, "make", o->dest, err);
	return err;
}

/* Why a directory cannot become @name in @dst_dir; NULL: it can. */
static const char *dir_refused(const struct stat *src, const struct dir *top,
			       const char *name)
{
	struct stat st;
	bool there = fstatat(top->dst, name, &st,
			     top->into_link ? 0 : AT_SYMLINK_NOFOLLOW) == 0;

	if (is_inside(top->dst, src) || (there && same(&st, src)))
		return "cannot be copied into itself";
	if (there && !S_ISDIR(st.st_mode))
		return "would replace what is no directory";
	return NULL;
}

/*
 * Likewise for anything else.  By neither name may the copy replace what it is
 * made of: not by a link to the source, nor a link what it leads to.
 */
static const char *file_refused(const struct cp_opts *o, const char *source,
				const struct stat *src, int dst_dir,
				const char *name)
{
	struct stat at, behind;

	if (fstatat(dst_dir, name, &at, AT_SYMLINK_NOFOLLOW))
		return NULL;
	if (same(&at, src))
		return "is the same file in SOURCE and DEST";
	if (o->no_clobber)
		return NULL;	/* It is left alone. */
	if (S_ISLNK(src->st_mode) && stat(source, &behind) == 0 &&
	    same(&at, &behind))
		return "leads to DEST, and would replace it";
	if (!S_ISLNK(src->st_mode) && fstatat(dst_dir, name, &behind, 0) == 0 &&
	    same(src, &behind))
		return "is the same file in SOURCE and DEST";
	if (S_ISDIR(at.st_mode))
		return "would replace a directory";
	return NULL;
}

/* The directories that @source and its copy are in, open. */
static struct dir *open_top(struct walk *w, const char *source,
			    const char *src_dir, const char *dst_dir)
{
	struct dir *top = dir_new(w->cp, NULL, src_dir, dst_dir);
	int src, dst;

	if (!top) {
		fail(w, "use", source, -ENOMEM);
		return NULL;
	}
	src = open_dir(src_dir);
	if (src < 0 || fstat(src, &top->st)) {
		fail(w, "open the directory of", source, -errno);
	} else {
		dst = open_dir(dst_dir);
		if (dst >= 0) {
			dir_adopt(top, src, dst);
			return top;
		}
		fail(w, "open the directory of", w->cp->opts.dest, -errno);
	}
	if (src >= 0)
		close(src);
	dir_unhold(top);
	return NULL;
}

static void begin_source(struct walk *w, const char *source,
			 struct place *src, struct place *dst)
{
	const struct cp_opts *o = &w->cp->opts;
	bool follow = follows(o, source);
	const char *wrong;
	enum found_kind kind;
	struct dir *top;
	struct stat st;

	if (look_at_source(w, source, &st, &kind))
		return;
	if (place_of(src, source)) {
		fail(w, "use", source, -ENOMEM);
		return;
	}
	if (find_dest(w, dst, src->name))
		return;
	if (!S_ISDIR(st.st_mode) && !w->cp->into && must_be_dir(o->dest)) {
		fail(w, "copy to", o->dest, -ENOTDIR);
		return;
	}
	top = open_top(w, source, src->dir, dst->dir);
	if (!top)
		return;
	top->into_link = w->cp->into ? !strcmp(src->name, ".") :
				       must_be_dir(o->dest);
	wrong = S_ISDIR(st.st_mode) ? dir_refused(&st, top, dst->name) :
			file_refused(o, source, &st, top->dst, dst->name);
	if (wrong)
		fail(w, wrong, source, 0);
	else if (!S_ISDIR(st.st_mode))
		walk_add(w, kind, top, src->name, dst->name)->follow = follow;
	else
		walk_enter(w, top, src->name, dst->name, follow);
	/* From here on only what was found needs it. */
	walk_add(w, FOUND_LEAVE, top, NULL, NULL);
	dir_close(top);
}

/* The last name of a path, for comparing it. */
struct last {
	const char *name;
	size_t len;
	int n;
};

static struct last last_of(const struct cp_opts *o, int n)
{
	const char *path = o->sources[n];
	size_t end = strlen(path), at;

	while (end > 1 && path[end - 1] == '/')
		end--;
	for (at = end; at > 0 && path[at - 1] != '/'; at--)
		;
	return (struct last){ path + at, end - at, n };
}

static bool same_last(const struct last *a, const struct last *b)
{
	return a->len == b->len && !memcmp(a->name, b->name, a->len);
}

static int by_name(const void *a, const void *b)
{
	const struct last *x = a, *y = b;
	int diff = x->len != y->len ? (x->len < y->len ? -1 : 1) :
		   memcmp(x->name, y->name, x->len);

	return diff ? diff : x->n - y->n;
}

/*
 * What is wrong with source @n, if an earlier one's copy has got the same name:
 * that it is the same, or, as two files, that it would replace that copy.  Two
 * directories are merged.
 */
static enum found_kind repeats(const struct cp_opts *o, int n,
			       const char **what)
{
	struct last last = last_of(o, n);
	struct stat st, other;

	if (stat(o->sources[n], &st))
		return FOUND_FILE;
	for (int i = 0; i < n; i++) {
		struct last earlier = last_of(o, i);

		if (!same_last(&last, &earlier) || stat(o->sources[i], &other))
			continue;
		*what = "is given more than once";
		if (same(&st, &other))
			return FOUND_WARNING;
		*what = "would replace what was just copied from another "
			"source";
		if (!S_ISDIR(st.st_mode) && !o->no_clobber && !o->update)
			return FOUND_ERROR;
	}
	return FOUND_FILE;
}

/* Begin with the next source. */
void target_next(struct walk *w)
{
	const struct cp_opts *o = &w->cp->opts;
	struct place src = { NULL, NULL }, dst = { NULL, NULL };
	const char *what;
	int n = w->n_begun++;

	if (w->again && w->again[n]) {
		enum found_kind kind = repeats(o, n, &what);

		if (kind != FOUND_FILE) {
			fail(w, what, o->sources[n], 0)->kind = kind;
			return;
		}
	}
	begin_source(w, o->sources[n], &src, &dst);
	place_free(&src);
	place_free(&dst);
}

/*
 * Which sources get a name that an earlier one has, or are copied into the
 * directory itself as "a/." is: they are begun when all before are complete, so
 * that what comes later wins, as with cp.
 */
static int find_repeated(struct cp *cp)
{
	const struct cp_opts *o = &cp->opts;
	struct last *last = calloc((size_t)o->n_sources, sizeof(*last));
	bool *again = calloc((size_t)o->n_sources, sizeof(*again));
	bool all = false;

	cp->walk->again = again;
	if (!last || !again) {
		free(last);
		return -ENOMEM;
	}
	for (int i = 0; i < o->n_sources; i++) {
		last[i] = last_of(o, i);
		all |= last[i].name[0] == '.' &&
		       (last[i].len == 1 ||
			(last[i].len == 2 && last[i].name[1] == '.'));
	}
	for (int i = 1; i < o->n_sources; i++)
		again[i] = all;
	qsort(last, (size_t)o->n_sources, sizeof(*last), by_name);
	for (int i = 1; i < o->n_sources; i++)
		if (same_last(&last[i - 1], &last[i]))
			again[last[i].n] = true;
	free(last);
	return 0;
}

static int refuse(struct cp *cp, const char *what, const char *path, int err)
{
	say_error(cp, what, path, err);
	return -1;
}

/* Before anything is copied: returns 0, or -1 if an error was reported. */
int target_check(struct cp *cp)
{
	const struct cp_opts *o = &cp->opts;
	struct stat st;

	errno = ENOTDIR;
	cp->into = !o->no_target_dir && is_dir(o->dest, &st);
	if (!cp->into && (o->target_dir || o->n_sources > 1))
		return refuse(cp, "copy into", o->dest, -errno);
	if (o->n_sources > 1 && find_repeated(cp))
		return refuse(cp, "copy into", o->dest, -ENOMEM);
	return 0;
}
