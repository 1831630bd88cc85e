/* SPDX-License-Identifier: BSD-3-Clause */
/* The backend of worlds: its table, and watches, acceptors and receivers. */

#include <stdio.h>
#include <stdlib.h>

#include <weir/watch.h>

#include "base/why.h"
#include "reactor/rx.h"
#include "sim/world.h"

/* Watches, acceptors and receivers on simulated descriptors. */

static bool source_due(const struct source *s)
{
	struct sim_fd *f = sim_fd_find(s->fd);
	uint32_t wanted = s->kind == SOURCE_WATCH ? s->events : WEIR_READABLE;

	if (!f || f->dead)
		return true;
	if (s->events & WEIR_EDGE && s->place == f->changes)
		return false;
	if (s->rx && !s->rx->n_free)
		return false;
	return sim_poll_now(f, wanted) != SIM_NOT_YET;
}

static void unlink_source(struct sim_reactor *sr, struct source *s)
{
	if (sr->cursor == s)
		sr->cursor = s->next;
	if (sr->current == s)
		sr->current = NULL;
	*s->pprev = s->next;
	if (s->next)
		s->next->pprev = s->pprev;
	s->armed = false;
}

static void end_source(struct sim_reactor *sr, struct source *s, int err)
{
	unlink_source(sr, s);
	source_deliver(s, err, -1);
}

static void run_recv(struct sim_reactor *sr, struct source *s,
		     struct sim_fd *f)
{
	struct rx_free_list *rx = s->rx;
	int id = rx_take(rx);
	struct io_step step = { .off = WEIR_OFF_STREAM,
				.addr = rx_buf(rx, id),
				.len = rx->size };
	int64_t res;

	if (step.len > 1 && sim_fault(sr->sim, WEIR_SIM_SHORT, "receiver"))
		step.len = 1 + sim_below(&sr->sim->chance, step.len - 1);
	own_acquire_in(step.addr, rx->size, rx->size);
	res = f->cls->read ? f->cls->read(f, &step) : -EINVAL;
	own_release_in(step.addr, rx->size);
	if (res > 0) {
		source_deliver(s, res, id);
		return;
	}
	rx_put(sr->r, rx, id);
	if (!res)
		source_deliver(s, 0, -1);
	else if (res != SIM_NOT_YET)
		end_source(sr, s, (int)res);
}

static void run_datagram(struct sim_reactor *sr, struct source *s,
			 struct sim_fd *f)
{
	struct rx_free_list *rx = s->rx;
	int id = rx_take(rx);
	int64_t res;

	rx_out(rx, id, rx->size);
	res = f->cls->datagram(f, rx_buf(rx, id), rx->size, s->udp_flags);
	if (res >= 0) {
		rx->info[id].len = (uint32_t)res;
		source_deliver(s, res, id);
		return;
	}
	rx_put(sr->r, rx, id);
	if (rx_error_passes(res))
		source_deliver(s, res, -1);
	else if (res != SIM_NOT_YET)
		end_source(sr, s, (int)res);
}

static int64_t accept_one(struct weir_sim *sim, struct sim_fd *f)
{
	static const int errors[] = { -EMFILE, -ECONNABORTED, -ENOMEM };

	if (!f->cls->accept)
		return -EINVAL;
	if (sim_fault(sim, WEIR_SIM_ERROR, "acceptor"))
		return errors[sim_rng(sim_fault_rng(sim, WEIR_SIM_ERROR)) % 3];
	return f->cls->accept(f);
}

static void run_source(struct sim_reactor *sr, struct source *s)
{
	struct sim_fd *f = sim_fd_find(s->fd);
	int64_t res;

	if (!f || f->dead) {
		end_source(sr, s, f ? -EIO : -EBADF);
		return;
	}
	s->place = f->changes;
	switch (s->kind) {
	case SOURCE_WATCH:
		source_deliver(s, sim_poll_now(f, s->events), -1);
		break;
	case SOURCE_ACCEPT:
		res = accept_one(sr->sim, f);
		if (res >= 0)
			source_deliver(s, res, -1);
		else if (res != SIM_NOT_YET)
			end_source(sr, s, (int)res);
		break;
	case SOURCE_RECV:
		run_recv(sr, s, f);
		break;
	case SOURCE_DATAGRAM:
		run_datagram(sr, s, f);
		break;
	}
}

static bool sim_sources_due(const struct sim_reactor *sr)
{
	const struct source *s;

	for (s = sr->sources; s; s = s->next)
		if (source_due(s))
			return true;
	return false;
}

/* Backend.arm and .disarm; calling the sources that are due, in a turn. */
static void sim_sources_run(struct sim_reactor *sr)
{
	struct source *s;

	for (sr->cursor = sr->sources; (s = sr->cursor);) {
		sr->cursor = s->next;
		sr->current = s;
		if (!source_due(s))
			continue;
		source_catch_up(sr->r);
		if (sr->current == s && source_due(s))
			run_source(sr, s);
	}
	sr->current = NULL;
}

/* Whether @fd supports a source of @kind: 0, or why not. */
static int sim_source_check(struct weir_reactor *r, uint32_t kind, int fd,
		     const char *call)
{
	struct sim_fd *f = sim_fd_find(fd);

	if (!f || f->sim != sim_of(r)->sim)
		return why(-EBADF, "%s: descriptor %d is not open in this "
			   "world", call, fd);
	if (kind != SOURCE_WATCH && !f->cls->socket)
		return why(-ENOTSOCK, "%s: descriptor %d is a %s, not a socket",
			   call, fd, f->cls->name);
	if (kind == SOURCE_RECV && f->cls->datagrams)
		return why(-EINVAL, "%s: descriptor %d is a %s, not a stream",
			   call, fd, f->cls->name);
	if (kind == SOURCE_DATAGRAM && !f->cls->datagrams)
		return why(-EINVAL, "%s: descriptor %d is a %s, not a socket of "
			   "datagrams; see weir_sim_datagram()", call, fd,
			   f->cls->name);
	if (kind == SOURCE_ACCEPT && !f->cls->accept)
		return why(-EINVAL, "%s: descriptor %d does not listen; see "
			   "weir_sim_listen()", call, fd);
	if (kind == SOURCE_WATCH && !f->cls->events)
		return why(-EPERM, "%s: descriptor %d is always ready (a file, "
			   "say); read it with weir_read()", call, fd);
	return 0;
}

static int sim_arm(struct weir_reactor *r, struct source *s)
{
	struct sim_reactor *sr = sim_of(r);
	struct sim_fd *f = sim_fd_find(s->fd);

	if (!f || f->sim != sr->sim)
		return -EBADF;
	s->armed = true;
	s->place = f->changes - 1;
	f->shared |= f->watcher && f->watcher != sr;
	f->watcher = sr;
	sim_touch(sr);
	s->next = sr->sources;
	s->pprev = &sr->sources;
	if (s->next)
		s->next->pprev = &s->next;
	sr->sources = s;
	return 0;
}

static void sim_disarm(struct weir_reactor *r, struct source *s)
{
	if (s->armed)
		unlink_source(sim_of(r), s);
}

/* The rest of the backend: everything but operations and sources. */

#define BUFS_MAX 1024

static int sim_reap(struct weir_reactor *r, unsigned int max)
{
	struct sim_reactor *sr = sim_of(r);
	struct weir_op *op;
	unsigned int n;

	for (n = 0; n < max && (op = op_queue_pop(&sr->done)); n++)
		sim_io_reap(sr->sim, op);
	sr->full = n == max;
	sim_sources_run(sr);
	return (int)n;
}

static bool sim_ready(struct weir_reactor *r)
{
	struct sim_reactor *sr = sim_of(r);
	return !op_queue_empty(&sr->done) || sim_sources_due(sr);
}

static uint64_t sim_now(struct weir_reactor *r)
{
	return sim_clock(sim_of(r)->sim, sim_of(r)->host);
}

/* A turn takes virtual time, so a program that polls by turns sees the clock
 * advance. */
static int sim_flush(struct weir_reactor *r)
{
	struct weir_sim *sim = sim_of(r)->sim;
	uint64_t until;

	if (sim->depth)
		return 0;
	sim_happened(sim);
	sim_touch_all(sim);
	until = sim->now_ns + 1 + sim_latency(sim, WEIR_SIM_TURN);
	while (sim_step(sim, until))
		;
	if (sim->now_ns < until)
		sim->now_ns = sim->target_ns = until;
	return 0;
}

/* The rest of the world runs until there is something for @r. */
static int sim_wait(struct weir_reactor *r, uint64_t timeout_ns)
{
	struct weir_sim *sim = sim_of(r)->sim;
	struct weir_sim_host *host = sim_of(r)->host;
	uint64_t until = WEIR_FOREVER - 1, now = sim_clock(sim, host);

	if (timeout_ns < until - now)
		until = sim_world_time(host, now + timeout_ns);
	sim_happened(sim);
	sim_touch_all(sim);
	while (!sim_ready(r) && !mailbox_has(&r->mailbox) &&
	       !reactor_requested(r) && !reactor_hooks_due(r)) {
		if (sim_step(sim, until))
			continue;
		if (timeout_ns == WEIR_FOREVER)
			return -EDEADLK;
		sim->now_ns = sim->target_ns = until;
		break;
	}
	return 0;
}

/* The thread that wakes it runs the world. */
static void sim_wake(struct weir_reactor *r)
{
	sim_touch(sim_of(r));
}

static int sim_pollfd(struct weir_reactor *r)
{
	(void)r;
	return -EOPNOTSUPP;
}

static void sim_rx_returned(struct weir_reactor *r, struct rx_free_list *rx,
			    unsigned int id)
{
	(void)rx, (void)id;
	sim_touch(sim_of(r));
}

static int sim_fd_register(struct weir_reactor *r, int fd)
{
	return sim_fd_find(fd) &&
	       !sim_fault(sim_of(r)->sim, WEIR_SIM_REGISTER, "file");
}

static void sim_fd_unregister(struct weir_reactor *r, int fd)
{
	(void)r, (void)fd;
}

static int sim_buf_register(struct weir_reactor *r, const struct iovec *iov)
{
	struct sim_reactor *sr = sim_of(r);

	(void)iov;
	if (sim_fault(sr->sim, WEIR_SIM_REGISTER, "buffer"))
		return -ENOMEM;
	if (sr->n_bufs == BUFS_MAX)
		return -ENOBUFS;
	sr->n_bufs++;
	return (int)(sr->next_buf++ & INT32_MAX);
}

static void sim_buf_unregister(struct weir_reactor *r, int index)
{
	(void)index;
	sim_of(r)->n_bufs--;
}

static int sim_create(struct weir_reactor *r,
		      const struct weir_reactor_opts *opts)
{
	struct sim_reactor *sr = calloc(1, sizeof(*sr)), **end;
	struct weir_sim *sim = opts->sim;

	if (!sr)
		return why(-ENOMEM, "weir_reactor_create: no memory");
	sr->sim = sim;
	sr->r = r;
	sr->id = sim->n_reactors++;
	sr->host = sim->here;
	snprintf(sr->label, sizeof(sr->label), "%.16s%sreactor %u",
		 sr->host ? sr->host->name : "", sr->host ? ": " : "", sr->id);
	sr->turn_max = opts->turn_max;
	sr->workers = opts->workers < SIM_WORKERS ? opts->workers :
						    SIM_WORKERS;
	op_queue_init(&sr->done);
	if (sim_schedule_add(sr)) {
		free(sr);
		return why(-ENOMEM, "weir_reactor_create: no memory");
	}
	for (end = &sim->reactors; *end; end = &(*end)->next)
		;
	*end = sr;
	r->backend_data = sr;
	r->opts.spin_ns = WEIR_SPIN_NONE; /* Time stands still meanwhile. */
	snprintf(r->describe, sizeof(r->describe),
		 "sim: reactor %u of the world of seed %llu", sr->id,
		 (unsigned long long)sim->seed);
	return 0;
}

static void sim_destroy(struct weir_reactor *r)
{
	struct sim_reactor *sr = sim_of(r), **at;
	struct weir_sim *sim = sr->sim;

	for (at = &sim->reactors; *at != sr; at = &(*at)->next)
		;
	*at = sr->next;
	sim_schedule_del(sr);
	for (uint32_t i = 0; i < sim->n_fds; i++)
		if (sim->fds[i] && sim->fds[i]->watcher == sr)
			sim->fds[i]->watcher = NULL;
	sim->stats.started += r->n_begun;
	sim->stats.completions += r->begun_max - r->ops_max;
	free(sr);
}

const struct backend sim_backend = {
	.name = "sim",
	.io_kinds = IO_ALL,
	.isolated = true,
	.create = sim_create,
	.destroy = sim_destroy,
	.now = sim_now,
	.submit = sim_submit,
	.cancel = sim_cancel,
	.reap = sim_reap,
	.flush = sim_flush,
	.ready = sim_ready,
	.wait = sim_wait,
	.wake = sim_wake,
	.pollfd = sim_pollfd,
	.arm = sim_arm,
	.disarm = sim_disarm,
	.rx_returned = sim_rx_returned,
	.fd_register = sim_fd_register,
	.fd_unregister = sim_fd_unregister,
	.buf_register = sim_buf_register,
	.buf_unregister = sim_buf_unregister,
	.check_fd = sim_source_check,
	.is_here = sim_is_here,
	.worker_ensure = sim_worker_ensure,
	.counter_open = sim_counter_open,
	.observe = sim_observe,
};
