/* SPDX-License-Identifier: BSD-3-Clause */
/* Watches, acceptors and receivers on simulated descriptors. */

#include "base/why.h"
#include "reactor/rx.h"
#include "sim/world.h"

#include <weir/watch.h>

static bool source_due(const struct sim_reactor *sr, const struct source *s)
{
	struct sim_fd *f = sim_fd_find(s->fd);
	uint32_t wanted = s->kind == SOURCE_WATCH ? s->events : WEIR_READABLE;

	if (!f || f->dead)
		return true;
	if (s->events & WEIR_EDGE && s->place == f->changes)
		return false;
	if (s->kind == SOURCE_RECV && !sr->r->rx->n_free)
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
	struct weir_reactor *r = sr->r;
	int id = rx_take(r->rx);
	struct io_step step = { .off = WEIR_OFF_STREAM,
				.addr = rx_buf(r->rx, id),
				.len = r->rx->size };
	int64_t res;

	if (step.len > 1 && sim_fault(sr->sim, WEIR_SIM_SHORT, "receiver"))
		step.len = 1 + sim_below(&sr->sim->chance, step.len - 1);
	own_acquire_in(step.addr, r->rx->size, r->rx->size);
	res = f->cls->read ? f->cls->read(f, &step) : -EINVAL;
	own_release_in(step.addr, r->rx->size);
	if (res > 0) {
		source_deliver(s, res, id);
		return;
	}
	rx_put(r, id);
	if (!res)
		source_deliver(s, 0, -1);
	else if (res != SIM_NOT_YET)
		end_source(sr, s, (int)res);
}

static int64_t accept_one(struct weir_sim *sim, struct sim_fd *f)
{
	static const int errors[] = { -EMFILE, -ECONNABORTED, -ENOMEM };

	if (!f->cls->accept)
		return -EINVAL;
	if (sim_fault(sim, WEIR_SIM_ERROR, "acceptor"))
		return errors[sim_rng(&sim->fault_rng[WEIR_SIM_ERROR]) % 3];
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
	}
}

bool sim_sources_due(const struct sim_reactor *sr)
{
	const struct source *s;

	for (s = sr->sources; s; s = s->next)
		if (source_due(sr, s))
			return true;
	return false;
}

void sim_sources_run(struct sim_reactor *sr)
{
	struct source *s;

	for (sr->cursor = sr->sources; (s = sr->cursor);) {
		sr->cursor = s->next;
		sr->current = s;
		if (!source_due(sr, s))
			continue;
		source_catch_up(sr->r);
		if (sr->current == s && source_due(sr, s))
			run_source(sr, s);
	}
	sr->current = NULL;
}

int sim_source_check(struct weir_reactor *r, uint32_t kind, int fd,
		     const char *call)
{
	struct sim_fd *f = sim_fd_find(fd);

	if (!f || f->sim != sim_of(r)->sim)
		return why(-EBADF, "%s: descriptor %d is not open in this "
			   "world", call, fd);
	if (kind != SOURCE_WATCH && !f->cls->socket)
		return why(-ENOTSOCK, "%s: descriptor %d is a %s, not a socket",
			   call, fd, f->cls->name);
	if (kind == SOURCE_ACCEPT && !f->cls->accept)
		return why(-EINVAL, "%s: descriptor %d does not listen; see "
			   "weir_sim_listen()", call, fd);
	if (kind == SOURCE_WATCH && !f->cls->events)
		return why(-EPERM, "%s: descriptor %d is always ready (a file, "
			   "say); read it with weir_read()", call, fd);
	return 0;
}

int sim_arm(struct weir_reactor *r, struct source *s)
{
	struct sim_reactor *sr = sim_of(r);
	struct sim_fd *f = sim_fd_find(s->fd);

	if (!f || f->sim != sr->sim)
		return -EBADF;
	s->armed = true;
	s->place = f->changes - 1;
	s->next = sr->sources;
	s->pprev = &sr->sources;
	if (s->next)
		s->next->pprev = &s->next;
	sr->sources = s;
	return 0;
}

void sim_disarm(struct weir_reactor *r, struct source *s)
{
	if (s->armed)
		unlink_source(sim_of(r), s);
}
