/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Directories, and the cache of their descriptors.
 *
 * All names are opened relative to a directory, so that paths may be of any
 * length, and a directory that is moved meanwhile leads nowhere else.  A
 * directory that is not in use may be closed at any time; the way back goes
 * from the nearest open one above it, name by name.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weir-cp.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

void dirs_init(struct dirs *dirs)
{
	memset(dirs, 0, sizeof(*dirs));
	pthread_mutex_init(&dirs->lock, NULL);
	dirs->idle.prev = dirs->idle.next = &dirs->idle;
	dirs->idle_max = DIRS_OPEN_MAX;
}

void dirs_fini(struct dirs *dirs)
{
	pthread_mutex_destroy(&dirs->lock);
}

struct dir *dir_new(struct cp *cp, struct dir *parent, const char *name,
		    const char *dst_name)
{
	size_t len = strlen(name) + 1;
	struct dir *dir = calloc(1, sizeof(*dir) + len);

	if (!dir)
		return NULL;
	dir->name = memcpy(dir + 1, name, len);
	dir->dst_name = dst_name ? strdup(dst_name) : dir->name;
	if (!dir->dst_name) {
		free(dir);
		return NULL;
	}
	dir->cp = cp;
	dir->parent = parent;
	dir->src = dir->dst = -1;
	dir->refs = 1;
	dir->holds = 1;
	return dir;
}

static void idle_del(struct dirs *dirs, struct dir *dir)
{
	dir->prev->next = dir->next;
	dir->next->prev = dir->prev;
	dir->prev = dir->next = NULL;
	dirs->n_idle--;
}

static void close_both(struct dir *dir)
{
	if (dir->src >= 0)
		close(dir->src);
	if (dir->dst >= 0)
		close(dir->dst);
	dir->src = dir->dst = -1;
}

static void idle_add(struct dirs *dirs, struct dir *dir)
{
	struct dir *oldest;

	dir->prev = dirs->idle.prev;
	dir->next = &dirs->idle;
	dir->prev->next = dir->next->prev = dir;
	if (++dirs->n_idle <= dirs->idle_max)
		return;
	oldest = dirs->idle.next;
	idle_del(dirs, oldest);
	close_both(oldest);
}

/* Use an open directory, or stop using it.  Under the lock. */
static void use(struct dirs *dirs, struct dir *dir)
{
	if (dir->users++ == 0 && dir->next)
		idle_del(dirs, dir);
}

static void unuse(struct dirs *dirs, struct dir *dir)
{
	if (--dir->users == 0)
		idle_add(dirs, dir);
}

/* Open @dir again, whose parent, if it has one, is open and in use. */
static int reopen(struct dir *dir)
{
	const struct dir *up = dir->parent;
	struct stat st;
	int err;

	dir->src = !up ? open_dir(dir->name) :
		   openat(up->src, dir->name,
			  DIR_FLAGS | (dir->follow ? 0 : O_NOFOLLOW));
	if (dir->src < 0)
		return -errno;
	dir->dst = !up ? open_dir(dir->dst_name) :
		   openat(up->dst, dir->dst_name,
			  DIR_FLAGS | (up->into_link ? 0 : O_NOFOLLOW));
	err = dir->dst < 0 || fstat(dir->src, &st) ? -errno : 0;
	if (!err && (st.st_dev != dir->st.st_dev ||
		     st.st_ino != dir->st.st_ino))
		err = -ESTALE;
	if (err)
		close_both(dir);
	return err;
}

/* Open @dir, and what is closed above it, and use it.  Under the lock. */
static int open_way(struct dirs *dirs, struct dir *dir)
{
	struct dir *at = dir;
	int err = 0;

	for (; at->src < 0 && at->parent; at = at->parent)
		at->parent->down = at;
	if (at->src < 0)
		err = reopen(at);
	if (err)
		return err;
	use(dirs, at);
	while (at != dir && !err) {
		struct dir *next = at->down;

		err = reopen(next);
		if (!err)
			use(dirs, next);
		unuse(dirs, at);
		at = next;
	}
	return err;
}

/* Have @dir open, until dir_close(). */
int dir_open(struct dir *dir, int *src, int *dst)
{
	struct dirs *dirs = &dir->cp->dirs;
	int err;

	pthread_mutex_lock(&dirs->lock);
	err = open_way(dirs, dir);
	pthread_mutex_unlock(&dirs->lock);
	if (err)
		return err;
	*src = dir->src;
	*dst = dir->dst;
	return 0;
}

void dir_close(struct dir *dir)
{
	struct dirs *dirs = &dir->cp->dirs;

	pthread_mutex_lock(&dirs->lock);
	unuse(dirs, dir);
	pthread_mutex_unlock(&dirs->lock);
}

/* Give a new directory its descriptors, and use it, until dir_close(). */
void dir_adopt(struct dir *dir, int src, int dst)
{
	dir->src = src;
	dir->dst = dst;
	dir->users = 1;
}

void dir_hold(struct dir *dir)
{
	dir->holds++;
}

/* A user of @dir does not need its place any more.  NULL is allowed. */
void dir_unhold(struct dir *dir)
{
	while (dir && --dir->holds == 0) {
		struct dirs *dirs = &dir->cp->dirs;
		struct dir *parent = dir->parent;

		pthread_mutex_lock(&dirs->lock);
		if (dir->next)
			idle_del(dirs, dir);
		pthread_mutex_unlock(&dirs->lock);
		close_both(dir);
		if (dir->dst_name != dir->name)
			free(dir->dst_name);
		free(dir);
		dir = parent;
	}
}

/* What the rights of a new directory are without KEEP_MODE. */
static int open_up(const struct dir *dir, int src, int dst)
{
	mode_t mode = rights_of(src, &dir->st), now;
	struct stat st;

	if (fstat(dst, &st))
		return -errno;
	/* Beside it, what it has by the umask or a default ACL stays. */
	now = (st.st_mode & 07777 & ~(0700 & ~mode)) |
	      (mode & 022 & ~dir->cp->umask);
	if (dir->cp->opts.keep & KEEP_OWNER)
		now |= mode & 0777 & ~dir->cp->umask;
	if (now != (st.st_mode & 07777) && fchmod(dst, now))
		return -errno;
	return 0;
}

static int set_dir_attrs(struct dir *dir, int src, int dst)
{
	const struct cp *cp = dir->cp;
	int err = 0;

	if (dir->made && !(cp->opts.keep & KEEP_MODE))
		err = open_up(dir, src, dst);
	attrs_copy(cp, &dir->st, src, dst, &dir->lost);
	if (!err && cp->opts.fsync && fsync(dst))
		err = -errno;
	return err;
}

/* On a worker: everything is in @dir, so its times will stay. */
static int64_t dir_finish_work(void *arg)
{
	struct dir *dir = arg;
	int src, dst;
	int err = dir_open(dir, &src, &dst);

	if (err)
		return err;
	err = set_dir_attrs(dir, src, dst);
	dir_close(dir);
	return err;
}

static void finished(struct dir *dir, int64_t res)
{
	struct dir *parent = dir->parent;
	struct cp *cp = dir->cp;

	if (res < 0 || dir->lost.names[0]) {
		char *path = dst_path_of(dir, NULL);

		if (res < 0)
			say_error(cp, "complete", path, (int)res);
		else
			say_lost(cp, &dir->lost, path);
		free(path);
	}
	cp->n_dirs += res >= 0;
	cp->n_finishing--;
	dir_unhold(dir);
	dir_unref(parent);
}

/* A source may have waited for this. */
static void on_finished(struct weir_op *op, int64_t res)
{
	struct dir *dir = weir_container_of(op, struct dir, op);
	struct cp *cp = dir->cp;

	finished(dir, res);
	walk_pump(cp);
	cp_idle(cp);
}

void dir_ref(struct dir *dir)
{
	dir->refs++;
}

void dir_unref(struct dir *dir)
{
	struct cp *cp = dir->cp;
	int err;

	if (--dir->refs > 0)
		return;
	if (!dir->parent) {
		dir_unhold(dir);
		return;
	}
	cp_busy(cp);
	cp->n_finishing++;
	weir_op_init(&dir->op, on_finished);
	err = weir_work(cp->reactor, &dir->op, dir_finish_work, dir);
	if (err) {
		finished(dir, err);
		cp_idle(cp);
	}
}
