/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The table of files in flight, and what happens to each, on the reactor's
 * thread.  README.md has the states as a picture.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weir-cp.h"

static void on_step(struct weir_op *op, int64_t res);

int files_create(struct cp *cp)
{
	cp->files = calloc(cp->files_max, sizeof(*cp->files));
	if (!cp->files)
		return -ENOMEM;
	for (uint32_t i = 0; i < cp->files_max; i++) {
		struct file *f = &cp->files[i];

		f->cp = cp;
		weir_op_init(&f->op, on_step);
		f->next = cp->free_files;
		cp->free_files = f;
	}
	return 0;
}

/* All changes of a file's state are made here, with the work that they mean. */
static void file_step(struct file *f, enum file_state state,
		      int64_t (*work)(void *arg))
{
	int err;

	f->state = state;
	if (!work)
		return;
	err = weir_work(f->cp->reactor, &f->op, work, f);
	if (!err)
		return;
	/* As if the work had failed; but files that are open get closed. */
	file_wrong(f, "work on", err);
	if (state == FILE_FINISHING)
		file_drop(f, -1);
	on_step(&f->op, err);
}

static void begin(struct file *f)
{
	f->src = f->dst = f->src_buffered = f->dst_buffered = -1;
	f->src_domain = f->dst_domain = NULL;
	f->temp[0] = 0;
	f->err = 0;
	f->what = NULL;
	f->comparing = f->done = f->skipped = f->waiting = f->again = false;
	f->fallback = f->hard = f->ended_early = false;
	f->change = SAME;
	f->lost.names[0] = 0;
	f->lost.bad = false;
	f->link = NULL;
	f->in_flight = 0;
	f->crc = 0;
	f->data = f->counted = 0;
	f->written = 0;
	f->codec = NULL;
	f->turns = NULL;
	f->turn = 0;
	f->path = f->cp->opts.path;
	file_step(f, FILE_OPENING,
		  f->kind == FOUND_FILE ? file_open_work : file_node_work);
}

void file_begin(struct cp *cp, const struct found *found)
{
	struct file *f = cp->free_files;

	cp->free_files = f->next;
	f->next = NULL;
	f->dir = found->dir;
	f->kind = found->kind;
	f->follow = found->follow;
	f->tries = 0;
	strcpy(f->name, found->name);
	strcpy(f->dst_name, found->dst_name ? found->dst_name : found->name);
	dir_ref(f->dir);
	cp_busy(cp);
	cp->n_under_way++;
	begin(f);
}

/* It waited for another name of the same file; that one is done. */
void file_again(struct file *f)
{
	begin(f);
}

/* What goes wrong first is what is reported. */
int file_wrong(struct file *f, const char *what, int err)
{
	if (!f->err) {
		f->err = err ? err : -ECANCELED;
		f->what = what;
	}
	return f->err;
}

static bool is_fatal(int err)
{
	return err == -ENOSPC || err == -EDQUOT || err == -EROFS ||
	       err == -ENOMEM;
}

static void report(struct file *f)
{
	struct cp *cp = f->cp;
	char *path;

	if (f->err == -ECANCELED && cp->ending)
		return;
	path = path_of(f->dir, f->name);
	say_error(cp, f->what, path, f->err == -ECANCELED ? 0 : f->err);
	free(path);
	if (is_fatal(f->err))
		cp_stop(cp);
}

static void count(struct file *f)
{
	struct cp *cp = f->cp;

	if (f->skipped) {
		cp->n_skipped++;
		return;
	}
	if (f->hard) {
		cp->n_hard++;
		if (f->kind == FOUND_FILE)
			cp->size += (uint64_t)f->st.st_size;
		return;
	}
	if (f->kind != FOUND_FILE) {
		*(f->kind == FOUND_LINK ? &cp->n_links : &cp->n_nodes) += 1;
		return;
	}
	cp->n_files++;
	cp->size += (uint64_t)f->st.st_size;
	cp->bytes += f->data - f->counted;
	if (f->path == PATH_KERNEL)
		cp->n_kernel++;
	else
		cp->n_pipeline++;
	say_file(cp, f);
}

/* The copy is there, but not all is as it should be. */
static void warn(struct file *f)
{
	char *path, *text = NULL;

	if (f->change == SAME && !f->lost.names[0])
		return;
	path = path_of(f->dir, f->name);
	if (f->change == GREW &&
	    asprintf(&text, "grew while it was copied: the copy has its first "
		     "%lld bytes", (long long)(f->cp->opts.convert ?
					       f->size_before :
					       f->st.st_size)) < 0)
		text = NULL;
	if (f->change != SAME)
		say_warning(f->cp, text ? text : "changed while it was copied: "
			    "the copy may be of no one moment", path);
	free(text);
	if (f->lost.names[0])
		say_lost(f->cp, &f->lost, path);
	free(path);
}

/* It has ended, one way or the other: its place is free for the next. */
static void file_end(struct file *f)
{
	struct cp *cp = f->cp;
	struct dir *dir = f->dir;

	if (f->err) {
		report(f);
	} else {
		count(f);
		warn(f);
	}
	links_done(f);
	cp->n_under_way--;
	f->state = FILE_FREE;
	f->next = cp->free_files;
	cp->free_files = f;
	dir_unref(dir);
	walk_pump(cp);
	cp_idle(cp);
}

static void finish(struct file *f)
{
	file_step(f, FILE_FINISHING, file_finish_work);
}

static void move(struct file *f)
{
	uint32_t flow = f->cp->opts.convert    ? FLOW_CONVERT :
			f->comparing           ? FLOW_COMPARE :
			f->path == PATH_KERNEL ? FLOW_KERNEL :
						 FLOW_COPY;
	int err;

	f->state = FILE_MOVING;
	err = flow_add(f->cp, flow, f);
	if (err) {
		file_wrong(f, "copy", err);
		finish(f);
	}
}

/* The kernel refused, or the source has less than it said: once more, from the
 * beginning. */
static void restart(struct file *f)
{
	f->path = PATH_PIPELINE;
	f->cp->bytes -= f->counted;
	f->data = f->counted = 0;
	if (f->cp->opts.convert) {
		/* What was converted is of no use. */
		if (f->tries < f->cp->opts.retry)
			f->again = true;
		else
			file_wrong(f, "became shorter while it was read", 0);
		finish(f);
		return;
	}
	if (f->ended_early) {
		f->ended_early = f->fallback = false;
		file_step(f, FILE_SCANNING, file_stream_work);
		return;
	}
	f->fallback = false;
	file_begin_pass(f);
	file_step(f, FILE_SCANNING, file_scan_work);
}

/* It changed while it was copied: the copy is gone, and made once more. */
static void redo(struct file *f)
{
	f->tries++;
	f->cp->bytes -= f->counted;
	f->err = -EAGAIN;
	links_done(f);
	begin(f);
}

/* All blocks of a pass that were known have been moved, or it has failed. */
void file_moved(struct file *f)
{
	if (f->err)
		finish(f);
	else if (f->fallback || f->ended_early)
		restart(f);
	else if (f->scanned < (uint64_t)f->st.st_size)
		file_step(f, FILE_SCANNING, file_scan_work);
	else if (f->cp->opts.verify && !f->comparing)
		file_step(f, FILE_SYNCING, file_sync_work);
	else
		finish(f);
}

/* The kernel does not copy between these two; but we can. */
bool file_may_fall_back(const struct file *f, int err)
{
	return f->cp->opts.path == PATH_AUTO && f->path == PATH_KERNEL &&
	       can_fall_back(err);
}

/*
 * Errors that say "not so" rather than that it cannot be copied: EPERM and
 * EACCES come from filters of system calls, and from file systems that do not
 * let the kernel write where the user may; EBADF and ETXTBSY from others.
 */
bool can_fall_back(int err)
{
	static const int errs[] = { EXDEV, EOPNOTSUPP, EINVAL, ENOSYS, EPERM,
				    EACCES, EBADF, ETXTBSY };

	for (size_t i = 0; i < sizeof(errs) / sizeof(errs[0]); i++)
		if (err == -errs[i])
			return true;
	return false;
}

/* A block of @f has failed. */
void file_fail(struct file *f, const char *what, int err)
{
	if (!file_may_fall_back(f, err)) {
		file_wrong(f, what, err);
		return;
	}
	atomic_store(&f->cp->no_range, true);
	f->fallback = true;
}

static void on_opened(struct file *f, int64_t res)
{
	if (f->done || f->again)
		file_end(f);
	else if (f->waiting)
		links_wait(f);
	else if (f->err)
		finish(f);
	else if (res == 0)
		file_moved(f);		/* It is empty, or all hole. */
	else
		move(f);
}

static void on_step(struct weir_op *op, int64_t res)
{
	struct file *f = weir_container_of(op, struct file, op);

	if (res < 0 && !f->err)
		file_wrong(f, "copy", (int)res);
	if (f->again && !f->err && !f->cp->ending) {
		redo(f);
		return;
	}
	if (f->again)
		file_wrong(f, NULL, -ECANCELED);
	if (f->cp->ending && !f->waiting && f->state != FILE_FINISHING && !f->done)
		file_wrong(f, NULL, -ECANCELED);
	switch (f->state) {
	case FILE_OPENING:
		on_opened(f, res);
		break;
	case FILE_SYNCING:
	case FILE_SCANNING:
		if (f->err || res == 0)
			file_moved(f);
		else
			move(f);
		break;
	default:
		file_end(f);
	}
}

/* The copy has been stopped: files that wait for their turn need not. */
void files_stop(struct cp *cp)
{
	for (uint32_t i = 0; i < cp->files_max; i++) {
		struct file *f = &cp->files[i];

		if (f->state == FILE_MOVING)
			file_wrong(f, NULL, -ECANCELED);
	}
}
