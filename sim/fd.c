/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors: numbers that no system gives, so that neither can be taken for
 * the other.  The upper bits say in which world; the lowest free one is taken,
 * as the kernel does, so that mistakes with closed numbers show here, too.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world.h"

#define FD_BASE VFD_BASE
#define FD_SHIFT 20
#define FDS_MAX (1u << FD_SHIFT)

struct weir_sim *sim_worlds[SIM_WORLDS];

bool sim_fd_is(int fd)
{
	return fd >= FD_BASE && fd < FD_BASE + (SIM_WORLDS << FD_SHIFT);
}

int sim_fd_number(const struct sim_fd *f)
{
	return f && f->fd >= 0 ? (f->fd - FD_BASE) & (int)(FDS_MAX - 1) : -1;
}

static int grow(struct weir_sim *sim)
{
	uint32_t n = sim->n_fds ? 2 * sim->n_fds : 64;
	struct sim_fd **fds;

	if (n > FDS_MAX)
		return -EMFILE;
	fds = realloc(sim->fds, n * sizeof(struct sim_fd *));
	if (!fds)
		return -ENOMEM;
	memset(fds + sim->n_fds, 0,
	       (n - sim->n_fds) * sizeof(struct sim_fd *));
	sim->fds = fds;
	sim->n_fds = n;
	return 0;
}

int sim_fd_open(struct weir_sim *sim, struct sim_fd *f,
		const struct sim_fd_class *cls)
{
	uint32_t i = 0;
	int err;

	while (i < sim->n_fds && sim->fds[i])
		i++;
	err = i == sim->n_fds ? grow(sim) : 0;
	if (err)
		return err;
	sim->fds[i] = f;
	f->sim = sim;
	f->cls = cls;
	f->users = 1;
	f->fd = FD_BASE + (int)(sim->slot << FD_SHIFT | i);
	op_queue_init(&f->waiting);
	return f->fd;
}

struct sim_fd *sim_fd_find(int fd)
{
	struct weir_sim *sim;
	uint32_t i;

	if (!sim_fd_is(fd))
		return NULL;
	i = (uint32_t)(fd - FD_BASE);
	sim = sim_worlds[i >> FD_SHIFT];
	i &= FDS_MAX - 1;
	return sim && i < sim->n_fds ? sim->fds[i] : NULL;
}

void sim_fd_unuse(struct sim_fd *f)
{
	if (!--f->users)
		f->cls->release(f);
}

void sim_fd_close(struct sim_fd *f)
{
	struct weir_op *op;

	f->sim->fds[(uint32_t)(f->fd - FD_BASE) & (FDS_MAX - 1)] = NULL;
	f->fd = -1;
	sim_fd_use(f);
	if (f->cls->closed)
		f->cls->closed(f);
	while ((op = op_queue_pop(&f->waiting)))
		sim_io_done(f->sim, op, -EBADF);
	sim_fd_unuse(f);
	sim_fd_unuse(f);
}

void sim_fd_changed(struct sim_fd *f)
{
	struct op_queue again;
	struct weir_op *op;

	f->changes++;
	op_queue_init(&again);
	while ((op = op_queue_pop(&f->waiting)))
		op_queue_push(&again, op);
	while ((op = op_queue_pop(&again)))
		sim_io_again(f->sim, op);
}

void sim_fd_kill(struct sim_fd *f)
{
	f->dead = true;
	sim_stuck_fd(f);
	sim_fd_changed(f);
}

uint64_t sim_step_len(const struct io_step *step)
{
	uint64_t sum = step->n ? 0 : step->len;

	for (uint32_t i = 0; i < step->n; i++)
		sum += step->iov[i].iov_len;
	return sum;
}

/* Call @fn with what is @len bytes from @skip on, piece by piece. */
static void each(const struct io_step *step, uint64_t skip, char *other,
		 uint64_t len, void (*fn)(char *mine, char *other, uint64_t n))
{
	struct iovec one = { step->addr, step->len };
	const struct iovec *iov = step->n ? step->iov : &one;
	uint64_t n;

	for (; len; iov++) {
		if (skip >= iov->iov_len) {
			skip -= iov->iov_len;
			continue;
		}
		n = iov->iov_len - skip;
		if (n > len)
			n = len;
		fn((char *)iov->iov_base + skip, other, n);
		other += n;
		len -= n;
		skip = 0;
	}
}

static void fill(char *mine, char *other, uint64_t n)
{
	memcpy(mine, other, n);
}

static void drain(char *mine, char *other, uint64_t n)
{
	memcpy(other, mine, n);
}

void sim_step_fill(const struct io_step *step, uint64_t skip, const void *from,
		   uint64_t len)
{
	each(step, skip, (char *)(uintptr_t)from, len, fill);
}

void sim_step_drain(const struct io_step *step, uint64_t skip, void *to,
		    uint64_t len)
{
	each(step, skip, to, len, drain);
}
