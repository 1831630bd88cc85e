/* SPDX-License-Identifier: BSD-3-Clause */
/* The backend of reactors in a world: what is not operations and sources. */

#include <stdio.h>
#include <stdlib.h>

#include "base/why.h"
#include "sim/world.h"

#define BUFS_MAX 1024

static int sim_reap(struct weir_reactor *r, unsigned int max)
{
	struct sim_reactor *sr = sim_of(r);
	struct weir_op *op;
	unsigned int n;

	for (n = 0; n < max && (op = op_queue_pop(&sr->done)); n++)
		sim_io_reap(sr->sim, op);
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
	return sim_of(r)->sim->now_ns;
}

/* A turn takes its time: who polls, by turns of its own, sees time go on. */
static int sim_flush(struct weir_reactor *r)
{
	struct weir_sim *sim = sim_of(r)->sim;
	uint64_t until;

	if (sim->depth)
		return 0;
	sim_happened(sim);
	until = sim->now_ns + 1 + sim_latency(sim, WEIR_SIM_TURN);
	while (sim_step(sim, until))
		;
	if (sim->now_ns < until)
		sim->now_ns = until;
	return 0;
}

/* The others go on, until there is something for @r. */
static int sim_wait(struct weir_reactor *r, uint64_t timeout_ns)
{
	struct weir_sim *sim = sim_of(r)->sim;
	uint64_t until = WEIR_FOREVER - 1;

	if (timeout_ns < until - sim->now_ns)
		until = sim->now_ns + timeout_ns;
	sim_happened(sim);
	while (!sim_ready(r) && !mailbox_has(&r->mailbox) &&
	       !reactor_requested(r)) {
		if (sim_step(sim, until))
			continue;
		if (timeout_ns == WEIR_FOREVER)
			return -EDEADLK;
		sim->now_ns = until;
		break;
	}
	return 0;
}

/* It is this thread that wakes, so it is awake. */
static void sim_wake(struct weir_reactor *r)
{
	(void)r;
}

static int sim_pollfd(struct weir_reactor *r)
{
	(void)r;
	return -EOPNOTSUPP;
}

static void sim_rx_returned(struct weir_reactor *r, unsigned int id)
{
	(void)r, (void)id;
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
	sr->turn_max = opts->turn_max;
	sr->workers = opts->workers < SIM_WORKERS ? opts->workers :
						    SIM_WORKERS;
	op_queue_init(&sr->done);
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
	sim->stats.started += r->n_begun;
	sim->stats.completions += r->begun_max - r->ops_max;
	free(sr);
}

const struct backend sim_backend = {
	.name = "sim",
	.io_kinds = IO_ALL & ~IO_BIT(IO_SPLICE),
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
