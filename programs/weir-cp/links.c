/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Hard links.  The first name of a file is copied, the others are linked to
 * the copy; while it is being made they wait.
 *
 * What is remembered is bounded: an entry goes when all names of its file have
 * been seen, and with LINKS_MAX entries further files are copied once for each
 * name.  Entries change state on the reactor's thread only; the lock is for the
 * workers that look them up.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weir-cp.h"

#define BUCKETS 4096

enum link_state { LINK_PENDING, LINK_DONE, LINK_FAILED };

struct link_entry {
	struct link_entry *next;
	dev_t dev;
	ino_t ino;
	enum link_state state;
	uint64_t seen;		/* Names that are there by now. */
	uint64_t names;
	uint32_t users;		/* Files whose .link this is. */
	struct file *first;	/* That is being copied. */
	struct file *waiting;
	struct dir *dir;	/* Of the copy, when it is there. */
	char *name;
};

struct link_table {
	pthread_mutex_t lock;
	uint32_t n;
	struct link_entry *buckets[BUCKETS];
};

int links_create(struct cp *cp)
{
	cp->links = calloc(1, sizeof(*cp->links));
	if (!cp->links)
		return -ENOMEM;
	pthread_mutex_init(&cp->links->lock, NULL);
	return 0;
}

static struct link_entry **bucket(struct link_table *t, const struct stat *st)
{
	uint64_t hash = ((uint64_t)st->st_ino ^ (uint64_t)st->st_dev << 32) *
			UINT64_C(0x9e3779b97f4a7c15);

	return &t->buckets[hash >> 52];
}

static struct link_entry *look_up(struct link_table *t, const struct stat *st)
{
	struct link_entry *e = *bucket(t, st);

	while (e && (e->dev != st->st_dev || e->ino != st->st_ino))
		e = e->next;
	return e;
}

static struct link_entry *add(struct link_table *t, const struct stat *st)
{
	struct link_entry **at = bucket(t, st);
	struct link_entry *e;

	if (t->n == LINKS_MAX)
		return NULL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->dev = st->st_dev;
	e->ino = st->st_ino;
	e->names = (uint64_t)st->st_nlink;
	e->state = LINK_FAILED;
	e->next = *at;
	*at = e;
	t->n++;
	return e;
}

/*
 * Any thread: @f was just opened; if it has several names, or may have where
 * symbolic links are followed, what is to be done?
 */
void links_see(struct file *f)
{
	const struct cp_opts *o = &f->cp->opts;
	struct link_table *t = f->cp->links;
	struct link_entry *e;

	if (!(o->keep & KEEP_LINKS) ||
	    (f->st.st_nlink < 2 && o->follow != FOLLOW_ALL))
		return;

	pthread_mutex_lock(&t->lock);
	e = look_up(t, &f->st);
	if (!e)
		e = add(t, &f->st);
	if (e && o->follow == FOLLOW_ALL)
		e->names = UINT64_MAX;	/* Their number is unknown. */
	f->link = e;
	if (e) {
		e->users++;
		if (e->state == LINK_FAILED) {
			e->state = LINK_PENDING;
			e->first = f;
		}
		f->waiting = e->state == LINK_PENDING && e->first != f;
	}
	pthread_mutex_unlock(&t->lock);
}

/* A link cannot replace a name by itself: it comes by a temporary one. */
static int make_link(struct file *f, int from, int dst_dir)
{
	const char *name = f->link->name;
	int err;

	if (linkat(from, name, dst_dir, f->dst_name, 0) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	do {
		make_temp_name(f);
		err = linkat(from, name, dst_dir, f->temp, 0) ? -errno : 0;
	} while (err == -EEXIST);
	if (err) {
		f->temp[0] = 0;
		return err;
	}
	/* If both are links to one file, rename() leaves the temporary name:
	 * it is removed when the file is dropped. */
	return commit_name(f, dst_dir, f->temp);
}

/*
 * Any thread: link @f to the copy that there is.  Returns whether that settles
 * it, well or badly; if not, it is copied as any other file.
 */
bool links_made(struct file *f, int dst_dir)
{
	struct link_entry *e = f->link;
	int src, dst, err;

	if (!e || e->state != LINK_DONE)
		return false;
	err = dir_open(e->dir, &src, &dst);
	if (!err) {
		err = make_link(f, dst, dst_dir);
		dir_close(e->dir);
	}
	if (f->err)
		return true;
	f->done = err >= 0;
	f->hard = !err;
	return f->done;
}

/* Wait for the first name of @f's file, unless it is there by now. */
void links_wait(struct file *f)
{
	struct link_table *t = f->cp->links;
	struct link_entry *e = f->link;

	pthread_mutex_lock(&t->lock);
	e->users--;
	pthread_mutex_unlock(&t->lock);
	if (e->state == LINK_PENDING) {
		f->next = e->waiting;
		e->waiting = f;
	} else {
		file_again(f);
	}
}

static void forget(struct link_table *t, struct link_entry *e)
{
	struct stat st = { .st_dev = e->dev, .st_ino = e->ino };
	struct link_entry **at = bucket(t, &st);

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	t->n--;
}

static void entry_free(struct link_entry *e)
{
	dir_unhold(e->dir);
	free(e->name);
	free(e);
}

static void settle_first(struct file *f, struct link_entry *e)
{
	e->first = NULL;
	e->state = LINK_FAILED;
	if (f->err)
		return;
	e->name = strdup(f->dst_name);
	if (!e->name)
		return;
	e->dir = f->dir;
	dir_hold(e->dir);
	e->state = LINK_DONE;
}

/* @f has ended. */
void links_done(struct file *f)
{
	struct link_table *t = f->cp->links;
	struct link_entry *e = f->link;
	struct file *waiting, *next;
	bool last;

	if (!e)
		return;
	f->link = NULL;
	pthread_mutex_lock(&t->lock);
	e->users--;
	if (e->first == f)
		settle_first(f, e);
	if (!f->err)
		e->seen++;
	waiting = e->waiting;
	e->waiting = NULL;
	last = e->seen >= e->names && e->users == 0 && !waiting;
	if (last)
		forget(t, e);
	pthread_mutex_unlock(&t->lock);
	if (last)
		entry_free(e);
	for (; waiting; waiting = next) {
		next = waiting->next;
		file_again(waiting);
	}
}

void links_destroy(struct cp *cp)
{
	struct link_entry *e, *next;

	if (!cp->links)
		return;
	for (int i = 0; i < BUCKETS; i++) {
		for (e = cp->links->buckets[i]; e; e = next) {
			next = e->next;
			entry_free(e);
		}
	}
	pthread_mutex_destroy(&cp->links->lock);
	free(cp->links);
}
