/* SPDX-License-Identifier: BSD-3-Clause */
/* A counter that is readable while it is not 0: an eventfd. */

#include <errno.h>
#include <stdlib.h>

#include "sim/world.h"

#include <weir/watch.h>

struct counter {
	struct sim_fd f;
	uint64_t n;
};

static struct counter *counter_of(struct sim_fd *f)
{
	return weir_container_of(f, struct counter, f);
}

static void counter_add(int fd, uint64_t n)
{
	struct counter *c = counter_of(sim_fd_find(fd));

	c->n = n < UINT64_MAX - c->n ? c->n + n : UINT64_MAX - 1;
	sim_fd_changed(&c->f);
}

static uint32_t events(struct sim_fd *f)
{
	return counter_of(f)->n ? WEIR_READABLE : 0;
}

static int64_t add(struct sim_fd *f, const struct io_step *step)
{
	uint64_t n;

	if (sim_step_len(step) < sizeof(n))
		return -EINVAL;
	sim_step_drain(step, 0, &n, sizeof(n));
	if (n == UINT64_MAX)
		return -EINVAL;
	if (f->fd < 0)
		return -EBADF;
	if (n >= UINT64_MAX - counter_of(f)->n)
		return SIM_NOT_YET;
	counter_add(f->fd, n);
	return sizeof(n);
}

static int64_t take(struct sim_fd *f, const struct io_step *step)
{
	uint64_t n = counter_of(f)->n;

	if (sim_step_len(step) < sizeof(n))
		return -EINVAL;
	if (!n)
		return SIM_NOT_YET;
	counter_of(f)->n = 0;
	sim_step_fill(step, 0, &n, sizeof(n));
	sim_fd_changed(f);
	return sizeof(n);
}

static void release(struct sim_fd *f)
{
	free(counter_of(f));
}

static const struct sim_fd_class counter_class = {
	.name = "counter",
	.device = WEIR_SIM_FILE,
	.waits = true,
	.read = take,
	.write = add,
	.events = events,
	.release = release,
};

int sim_counter_open(struct weir_reactor *r)
{
	struct counter *c = calloc(1, sizeof(*c));
	int fd;

	reactor_check_thread(r);
	if (!c)
		return -ENOMEM;
	fd = sim_fd_open(sim_of(r)->sim, &c->f, &counter_class);
	if (fd < 0)
		free(c);
	return fd;
}

static uint64_t counter_take(int fd)
{
	struct counter *c = counter_of(sim_fd_find(fd));
	uint64_t n = c->n;

	c->n = 0;
	return n;
}

const struct vfd_counter_ops sim_counter_ops = {
	.add = counter_add,
	.take = counter_take,
};
