/* SPDX-License-Identifier: BSD-3-Clause */
/* The descriptors of the ev backend: who waits on each, and for what. */

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "reactor/ev/ev.h"

struct ev_fd *ev_fd_find(const struct ev_backend *b, int fd)
{
	uint32_t chunk = (uint32_t)fd / EV_FD_CHUNK;
	struct ev_fd *f;

	if (fd < 0 || chunk >= b->n_chunks || !b->chunks[chunk])
		return NULL;
	f = &b->chunks[chunk][fd % EV_FD_CHUNK];
	return f->in.last ? f : NULL; /* NULL: has not been used. */
}

static int grow(struct ev_backend *b, uint32_t chunk)
{
	uint32_t n = b->n_chunks ? b->n_chunks : 16;
	struct ev_fd **chunks;

	while (n <= chunk)
		n *= 2;
	chunks = mem_calloc(n, sizeof(*chunks));
	if (!chunks)
		return -ENOMEM;
	if (b->n_chunks)
		memcpy(chunks, b->chunks, b->n_chunks * sizeof(*chunks));
	free(b->chunks);
	b->chunks = chunks;
	b->n_chunks = n;
	return 0;
}

/* Many records may be due, but each is in the list once. */
static void report(struct ev_backend *b, struct ev_fd *f, int got)
{
	f->got |= got;
	if (f->due)
		return;
	f->due = true;
	f->due_next = NULL;
	*b->due_last = f;
	b->due_last = &f->due_next;
	b->n_due++;
}

static void on_ready(struct ev_loop *loop, ev_io *io, int got)
{
	report(ev_userdata(loop), (struct ev_fd *)io, got); /* First member. */
}

/*
 * Whether libev may hand fd to epoll: it ends the process on EBADF, and on
 * EINVAL and ELOOP, which say that fd is this set itself or another that
 * contains it. Only a file without a type (an epoll set, an eventfd) can be
 * such a set.
 */
static bool fd_is_fit(const struct ev_backend *b, int fd)
{
	struct epoll_event ev = { .data.u64 = UINT64_MAX };
	struct stat st;

	if (fstat(fd, &st))
		return false;
	if (st.st_mode & S_IFMT)
		return true;
	if (!epoll_ctl(b->set, EPOLL_CTL_ADD, fd, &ev)) {
		epoll_ctl(b->set, EPOLL_CTL_DEL, fd, &ev);
		return true;
	}
	return errno != EBADF && errno != EINVAL && errno != ELOOP;
}

void ev_fds_check(struct ev_backend *b)
{
	struct ev_fd *f;

	while ((f = b->fresh)) {
		b->fresh = f->fresh_next;
		f->fresh = false;
		if (!ev_is_active(&f->io) || fd_is_fit(b, f->io.fd))
			continue;
		ev_unwatch(b, &f->io);
		report(b, f, EV_ERROR);
	}
}

static void fd_init(struct ev_fd *f, int fd)
{
	ev_io_init(&f->io, on_ready, fd, EV_READ);
	op_queue_init(&f->in);
	op_queue_init(&f->out);
	op_queue_init(&f->polls);
	source_queue_init(&f->sources);
}

struct ev_fd *ev_fd_make(struct ev_backend *b, int fd)
{
	uint32_t chunk = (uint32_t)fd / EV_FD_CHUNK;
	struct ev_fd *f;

	if (ev_reserve(b, (uint32_t)fd + 1))
		return NULL;
	if (chunk >= b->n_chunks && grow(b, chunk))
		return NULL;
	if (!b->chunks[chunk])
		b->chunks[chunk] = mem_calloc(EV_FD_CHUNK, sizeof(*f));
	if (!b->chunks[chunk])
		return NULL;
	f = &b->chunks[chunk][fd % EV_FD_CHUNK];
	if (!f->in.last)
		fd_init(f, fd);
	return f;
}

void ev_fd_free_all(struct ev_backend *b)
{
	uint32_t i;

	for (i = 0; i < b->n_chunks; i++)
		free(b->chunks[i]);
	free(b->chunks);
	b->chunks = NULL;
	b->n_chunks = 0;
}

static int polls_want(const struct ev_fd *f)
{
	const struct weir_op *op;
	int want = 0;

	for (op = f->polls.first; op; op = op->next) {
		if (op->u.io.flags & WEIR_READABLE)
			want |= EV_READ;
		if (op->u.io.flags & WEIR_WRITABLE)
			want |= EV_WRITE;
	}
	/* Neither: the peer's end, which libev reports as both. */
	if (f->polls.first && !want)
		want = EV_READ;
	return want;
}

void ev_fd_update(struct ev_backend *b, struct ev_fd *f)
{
	int want = polls_want(f) | ev_sources_want(f);
	int have = ev_is_active(&f->io) ? f->io.events : 0;

	if (!op_queue_empty(&f->in))
		want |= EV_READ;
	if (!op_queue_empty(&f->out))
		want |= EV_WRITE;
	if (want == have)
		return;
	if (have) {
		ev_unwatch(b, &f->io);
		b->n_watched--;
	}
	if (want) {
		ev_watch(b, &f->io, f->io.fd, want);
		b->n_watched++;
		if (!f->fresh) {
			f->fresh = true;
			f->fresh_next = b->fresh;
			b->fresh = f;
		}
	}
}

static unsigned int run_queue(struct weir_reactor *r, struct op_queue *q,
			      unsigned int max)
{
	unsigned int n = 0, steps = 0;
	enum ev_did did;

	while (q->first && n < max && steps++ < EV_STEPS_MAX) {
		did = ev_op_step(r, q, q->first);
		if (did == EV_WAITS)
			break;
		if (did == EV_ENDED)
			n++;
	}
	return n;
}

static unsigned int run_polls(struct weir_reactor *r, struct ev_fd *f,
			      unsigned int max)
{
	struct weir_op *op, *next;
	unsigned int n = 0;

	for (op = f->polls.first; op && n < max; op = next) {
		next = op->next;
		if (ev_op_step(r, &f->polls, op) == EV_ENDED)
			n++;
	}
	return n;
}

static unsigned int end_queue(struct op_queue *q, int err)
{
	struct weir_op *op;
	unsigned int n = 0;

	while ((op = op_queue_pop(q))) {
		io_end(op, err);
		n++;
	}
	return n;
}

/*
 * epoll would not take the descriptor, and libev has let go of it and does not
 * say why; ask again.  Most likely the user's epoll watches are used up.
 */
static unsigned int fail(struct weir_reactor *r, struct ev_fd *f)
{
	struct ev_backend *b = ev_of(r);
	struct epoll_event ev = { .data.u64 = UINT64_MAX };
	int set = b->set, err = -EIO;
	unsigned int n;

	if (!epoll_ctl(set, EPOLL_CTL_ADD, f->io.fd, &ev))
		epoll_ctl(set, EPOLL_CTL_DEL, f->io.fd, &ev);
	else
		err = -errno;
	b->n_watched--;
	if (ev_is_active(&f->io)) {	/* Watched again since. */
		ev_unwatch(b, &f->io);
		b->n_watched--;
	}
	n = end_queue(&f->in, err) + end_queue(&f->out, err) +
	    end_queue(&f->polls, err);
	return n + ev_sources_run(r, f, UINT32_MAX, err);
}

unsigned int ev_fd_run(struct weir_reactor *r, struct ev_fd *f,
		       unsigned int max)
{
	unsigned int n = 0;
	int got = f->got;

	f->got = 0;
	if (unlikely(got & EV_ERROR))
		return fail(r, f);
	if (got & EV_READ)
		n += run_queue(r, &f->in, max);
	if (got & EV_WRITE && n < max)
		n += run_queue(r, &f->out, max - n);
	if (f->polls.first && n < max)
		n += run_polls(r, f, max - n);
	if (f->sources.first && n < max)
		n += ev_sources_run(r, f, max - n, 0);
	ev_fd_update(ev_of(r), f);
	return n;
}
