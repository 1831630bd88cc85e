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

void walk_add(struct walk *w, enum found_kind kind, struct dir *dir,
	      const char *name, const char *dst_name)
{
	struct batch *b = w->filling;
	struct found *found = &b->found[b->n++];

	found->kind = kind;
	found->dir = dir;
	found->name = keep_name(b, name);
	found->dst_name = keep_name(b, dst_name);
	found->err = 0;
	found->what = NULL;
}

void walk_fail(struct walk *w, struct dir *dir, const char *name,
	       const char *what, int err)
{
	walk_add(w, FOUND_ERROR, dir, name, NULL);
	w->filling->found[w->filling->n - 1].err = err;
	w->filling->found[w->filling->n - 1].what = what;
}

/*
 * Make the directory of the destination, if it is not there, and open it.  It
 * is the owner's alone until it is complete.
 */
static int make_dst(int parent, const char *name, bool follow)
{
	int fd;

	if (mkdirat(parent, name, 0700) && errno != EEXIST)
		return -errno;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC |
		    (follow ? 0 : O_NOFOLLOW));
	if (fd < 0 && errno == ELOOP)
		return -ENOTDIR;
	return fd < 0 ? -errno : fd;
}

static int same_dir(int a, const struct stat *st)
{
	struct stat other;

	return fstat(a, &other) == 0 && other.st_dev == st->st_dev &&
	       other.st_ino == st->st_ino;
}

static int entered(struct walk *w, struct dir *dir, int src, int dst)
{
	dir_close(dir->parent);
	dir_adopt(dir, src, dst);
	walk_add(w, FOUND_ENTER, dir, NULL, NULL);
	w->cur = dir;
	w->len = w->used = 0;
	return 0;
}

/*
 * Enter the directory @name of @parent; it becomes the current one, and stays
 * open.  Returns 0, or -1 with the reason left for the reactor's thread.
 */
int walk_enter(struct walk *w, struct dir *parent, const char *name,
	       const char *dst_name)
{
	struct dir *dir = NULL;
	int src_dir, dst_dir, src = -1, dst = -1;
	const char *what = "open";
	int err = dir_open(parent, &src_dir, &dst_dir);

	if (err)
		goto out;
	src = openat(src_dir, name,
		     O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	dir = dir_new(w->cp, parent, name, dst_name);
	err = src < 0 ? -errno : !dir ? -ENOMEM : fstat(src, &dir->st);
	if (err)
		goto out_close;
	what = "make a directory for";
	dst = make_dst(dst_dir, dir->dst_name, !parent->parent);
	err = dst < 0 ? dst : 0;
	if (dst >= 0 && same_dir(dst, &dir->st))
		what = "is the same in SOURCE and DEST";
	else if (dst >= 0)
		return entered(w, dir, src, dst);
out_close:
	dir_close(parent);
	if (src >= 0)
		close(src);
	if (dst >= 0)
		close(dst);
	if (dir && dir->dst_name != dir->name)
		free(dir->dst_name);
	free(dir);
out:
	walk_fail(w, parent, name, what, err);
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

static const char *why_not(int type)
{
	switch (type) {
	case DT_FIFO:
		return "is a fifo, and not copied";
	case DT_SOCK:
		return "is a socket, and not copied";
	case DT_BLK:
	case DT_CHR:
		return "is a device, and not copied";
	}
	return "is of a kind that is not copied";
}

static int type_of(int dir, const struct dent *d)
{
	struct stat st;

	if (d->type != DT_UNKNOWN)
		return d->type;
	if (fstatat(dir, d->name, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	return IFTODT(st.st_mode);
}

static void visit(struct walk *w, const struct dent *d)
{
	struct dir *dir = w->cur;
	int type = type_of(dir->src, d);

	switch (type) {
	case DT_DIR:
		dir->pos = d->off;
		if (walk_enter(w, dir, d->name, NULL) == 0)
			dir_close(dir);
		break;
	case DT_REG:
		walk_add(w, FOUND_FILE, dir, d->name, NULL);
		break;
	case DT_LNK:
		walk_add(w, FOUND_LINK, dir, d->name, NULL);
		break;
	default:
		if (type < 0)
			walk_fail(w, dir, d->name, "look at", type);
		else
			walk_fail(w, dir, d->name, why_not(type), 0);
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

/* Each step adds two at most, and may close a directory that failed. */
static int64_t walk_work(void *arg)
{
	struct walk *w = arg;
	struct batch *b = w->filling;

	while (w->cur && b->n + 2 <= BATCH_MAX) {
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
	char *path = path_of(found->dir, found->name);

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
		say_error(cp, "walk through", cp->opts.source, (int)res);
	w->busy = false;
	w->ended = res < 0 || !w->cur;
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

/* Hand out what there is room for, and have more found. */
void walk_pump(struct cp *cp)
{
	struct walk *w = cp->walk;
	struct batch *b = w->taking;

	for (;;) {
		while (b->taken < b->n &&
		       (cp->free_files || b->found[b->taken].kind > FOUND_LINK ||
			cp->ending))
			take(cp, &b->found[b->taken++]);
		if (b->taken < b->n || w->busy)
			return;
		if (w->filling->n == 0 && w->ended)
			return;
		w->taking = w->filling;
		w->filling = b;
		b = w->taking;
		if (!w->ended)
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
