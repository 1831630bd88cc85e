/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The walk over the tree, depth first, a batch of names at a time on a worker.
 *
 * While one batch is handed out the next is filled.  What is known of the tree
 * is two batches and the directories from the top to where the walk is, however
 * large the tree is.  A directory of the destination is made when the walk
 * enters that of the source, so it is there before anything in it.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "weir-cp.h"

struct dent {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

static const char *keep_name(struct batch *b, const char *name)
{
	char *kept = b->names + b->names_used;
	size_t len;

	if (!name)
		return NULL;
	len = strlen(name) + 1;
	memcpy(kept, name, len);
	b->names_used += len;
	return kept;
}

struct found *walk_add(struct walk *w, enum found_kind kind, struct dir *dir,
		       const char *name, const char *dst_name)
{
	struct batch *b = w->filling;
	struct found *found = &b->found[b->n++];

	found->kind = kind;
	found->dir = dir;
	found->name = keep_name(b, name);
	found->dst_name = keep_name(b, dst_name);
	found->follow = w->cp->opts.follow == FOLLOW_ALL;
	found->err = 0;
	found->what = NULL;
	return found;
}

void walk_fail(struct walk *w, struct dir *dir, const char *name,
	       const char *what, int err)
{
	struct found *found = walk_add(w, FOUND_ERROR, dir, name, NULL);

	found->err = err;
	found->what = what;
}

/*
 * Make the directory of the destination, if it is not there, and open it.  If
 * it is to get its source's mode, it is the owner's alone until it is complete;
 * else no other user may write to it until then.
 */
static int make_dst(struct dir *dir, int parent, int src, bool follow)
{
	const struct cp *cp = dir->cp;
	mode_t mode = rights_of(src, &dir->st) | (dir->st.st_mode & S_ISVTX);
	int fd;

	mode = mode_until_done(cp, &dir->st, mode & ~(mode_t)022) | 0700;
	dir->made = mkdirat(parent, dir->dst_name, mode) == 0;
	if (!dir->made && errno != EEXIST)
		return -errno;
	fd = openat(parent, dir->dst_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC |
		    (follow ? 0 : O_NOFOLLOW));
	if (fd < 0 && errno == ELOOP)
		return -ENOTDIR;
	return fd < 0 ? -errno : fd;
}

/*
 * Where the walk must not go: into a directory that it is in (by a symbolic
 * link that was followed), or one that the copies are being made in.
 */
static const char *goes_round(struct dir *dir, int dst)
{
	struct stat st;

	if (fstat(dst, &st))
		return NULL;
	dir->dst_dev = st.st_dev;
	dir->dst_ino = st.st_ino;
	for (struct dir *d = dir; d && d->parent; d = d->parent) {
		if (d->dst_dev == dir->st.st_dev &&
		    d->dst_ino == dir->st.st_ino)
			return d == dir ? "is the same in SOURCE and DEST" :
					  "cannot be copied into itself";
		if (d != dir && d->st.st_dev == dir->st.st_dev &&
		    d->st.st_ino == dir->st.st_ino)
			return "is a loop of symbolic links, and not copied";
	}
	return NULL;
}

static int entered(struct walk *w, struct dir *dir, int src, int dst)
{
	dir_adopt(dir, src, dst);
	walk_add(w, FOUND_ENTER, dir, NULL, NULL);
	w->cur = dir;
	w->len = w->used = 0;
	return 0;
}

/*
 * Enter the directory @name of @parent, which is open; it becomes the current
 * one, and stays open.  Returns 0, or -1 with the reason left for the reactor's
 * thread.
 */
int walk_enter(struct walk *w, struct dir *parent, const char *name,
	       const char *dst_name, bool follow)
{
	struct dir *dir = NULL;
	int dst = -1;
	int src = openat(parent->src, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC |
			 (follow ? 0 : O_NOFOLLOW));
	const char *what = "open", *round = NULL;
	int err;

	dir = dir_new(w->cp, parent, name, dst_name);
	err = src < 0 ? -errno : !dir ? -ENOMEM :
	      fstat(src, &dir->st) ? -errno : 0;
	if (!err) {
		dir->follow = follow;
		what = "make a directory for";
		dst = make_dst(dir, parent->dst, src, parent->into_link);
		err = dst < 0 ? dst : 0;
	}
	if (!err)
		round = goes_round(dir, dst);
	if (!err && !round)
		return entered(w, dir, src, dst);
	if (round && dir->made)
		unlinkat(parent->dst, dir->dst_name, AT_REMOVEDIR);
	if (src >= 0)
		close(src);
	if (dst >= 0)
		close(dst);
	if (dir && dir->dst_name != dir->name)
		free(dir->dst_name);
	free(dir);
	walk_fail(w, parent, name, round ? round : what, err);
	return -1;
}

/* Leave a directory that is closed, for the one above, where it was left. */
static void go_up(struct walk *w)
{
	struct dir *parent = w->cur->parent;
	int src, dst, err;

	walk_add(w, FOUND_LEAVE, w->cur, NULL, NULL);
	w->cur = parent->parent ? parent : NULL;
	w->len = w->used = 0;
	if (!w->cur)
		return;
	err = dir_open(parent, &src, &dst);
	if (!err && lseek(src, parent->pos, SEEK_SET) < 0) {
		err = -errno;
		dir_close(parent);
	}
	if (!err)
		return;
	walk_fail(w, parent, NULL, "go on in", err);
	parent->pos = -1;
}

static void leave(struct walk *w)
{
	dir_close(w->cur);
	go_up(w);
}

/* What @mode is to the walk; why it is not copied as a file, or NULL. */
const char *kind_of(mode_t mode, enum found_kind *kind)
{
	*kind = S_ISREG(mode) || S_ISDIR(mode) ? FOUND_FILE :
		S_ISLNK(mode) ? FOUND_LINK : FOUND_NODE;
	return *kind != FOUND_NODE ? NULL :
	       S_ISFIFO(mode) ? "is a fifo; -r copies it as one" :
	       S_ISSOCK(mode) ? "is a socket; -r copies it as one" :
				"is a device; -r copies it as one";
}

static int type_of(int dir, const struct dent *d, bool follow)
{
	struct stat st;

	if (d->type != DT_UNKNOWN && !(follow && d->type == DT_LNK))
		return d->type;
	if (fstatat(dir, d->name, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW))
		return -errno;
	return IFTODT(st.st_mode);
}

static void visit(struct walk *w, const struct dent *d)
{
	bool follow = w->cp->opts.follow == FOLLOW_ALL;
	struct dir *dir = w->cur;
	int type = type_of(dir->src, d, follow);
	enum found_kind kind;

	if (type < 0) {
		walk_fail(w, dir, d->name, "look at", type);
	} else if (type == DT_DIR) {
		dir->pos = d->off;
		if (walk_enter(w, dir, d->name, NULL, follow) == 0)
			dir_close(dir);
	} else {
		kind_of(DTTOIF(type), &kind);
		walk_add(w, kind, dir, d->name, NULL);
	}
}

static bool is_dots(const char *name)
{
	return name[0] == '.' &&
	       (name[1] == 0 || (name[1] == '.' && name[2] == 0));
}

/* One name, or the end of a directory. */
static void step(struct walk *w)
{
	const struct dent *d;

	if (w->used >= w->len) {
		w->used = 0;
		w->len = syscall(SYS_getdents64, w->cur->src, w->dents,
				 sizeof(w->dents));
		if (w->len < 0)
			walk_fail(w, w->cur, NULL, "read the directory",
				  -errno);
		if (w->len <= 0) {
			leave(w);
			return;
		}
	}
	d = (const void *)(w->dents + w->used);
	w->used += d->reclen;
	if (!is_dots(d->name))
		visit(w, d);
}

/* The next source; returns false if none can be begun now. */
static bool begin_next(struct walk *w)
{
	if (atomic_load(&w->cp->stop))
		w->n_begun = w->cp->opts.n_sources;
	if (w->n_begun == w->cp->opts.n_sources)
		return false;
	w->waits = w->again && w->again[w->n_begun] && !w->waited;
	w->waited = false;
	if (!w->waits)
		target_next(w);
	return !w->waits;
}

/* Each step adds two at most, and may close a directory that failed. */
static int64_t walk_work(void *arg)
{
	struct walk *w = arg;
	struct batch *b = w->filling;

	while (b->n + 2 <= BATCH_MAX) {
		if (!w->cur && !begin_next(w))
			break;
		if (!w->cur)
			continue;
		if (w->cur->pos < 0)
			go_up(w);	/* It could not be opened again. */
		else if (atomic_load(&w->cp->stop))
			leave(w);
		else
			step(w);
	}
	return 0;
}

static void report(struct cp *cp, const struct found *found)
{
	char *path;

	if (found->kind == FOUND_WARNING) {
		say_warning(cp, found->what, found->name);
		return;
	}
	if (!found->dir) {
		say_error(cp, found->what, found->name, found->err);
		return;
	}
	path = path_of(found->dir, found->name);
	say_error(cp, found->what, path, found->err);
	free(path);
}

static void take(struct cp *cp, const struct found *found)
{
	switch (found->kind) {
	case FOUND_ENTER:
		dir_ref(found->dir->parent);
		dir_hold(found->dir->parent);
		break;
	case FOUND_LEAVE:
		dir_unref(found->dir);
		break;
	case FOUND_ERROR:
	case FOUND_WARNING:
		report(cp, found);
		break;
	default:
		if (!cp->ending)
			file_begin(cp, found);
	}
}

static void on_filled(struct weir_op *op, int64_t res)
{
	struct walk *w = weir_container_of(op, struct walk, op);
	struct cp *cp = w->cp;

	if (res < 0)
		say_error(cp, "walk through", cp->opts.sources[0], (int)res);
	w->busy = false;
	w->ended = res < 0 ||
		   (!w->cur && w->n_begun == cp->opts.n_sources);
	walk_pump(cp);
	cp_idle(cp);
}

static void fill_next(struct walk *w)
{
	int err;

	w->filling->n = w->filling->taken = 0;
	w->filling->names_used = 0;
	w->busy = true;
	cp_busy(w->cp);
	err = weir_work(w->cp->reactor, &w->op, walk_work, w);
	if (err)
		on_filled(&w->op, err);
}

/* Hand out what there is capacity for, and have more found. */
void walk_pump(struct cp *cp)
{
	struct walk *w = cp->walk;
	struct batch *b = w->taking;

	for (;;) {
		while (b->taken < b->n &&
		       (cp->free_files || b->found[b->taken].kind > FOUND_NODE ||
			cp->ending))
			take(cp, &b->found[b->taken++]);
		if (b->taken < b->n || w->busy)
			return;
		if (w->filling->n == 0 && w->ended)
			return;
		if (w->filling->n == 0 && w->waits) {
			if (cp->n_under_way > 0 || cp->n_finishing > 0)
				return;
			w->waits = false;
			w->waited = true;
		}
		w->taking = w->filling;
		w->filling = b;
		b = w->taking;
		if (!w->ended && !w->waits)
			fill_next(w);
		else
			w->filling->n = w->filling->taken = 0;
	}
}

int walk_create(struct cp *cp)
{
	struct walk *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->cp = cp;
	weir_op_init(&w->op, on_filled);
	w->filling = &w->batch[0];
	w->taking = &w->batch[1];
	cp->walk = w;
	return 0;
}
