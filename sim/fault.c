/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults.  Each kind is drawn from a stream of its own, so that a run with
 * fewer kinds, or with only the first n faults, is the same run up to the first
 * difference.
 *
 * The library's fault points (base/fault.h) ask the world that runs on this
 * thread.
 */

#include <errno.h>
#include <string.h>

#include "base/fault.h"
#include "sim/world.h"

#define RATE 128
#define N_ERRORS 8

static _Thread_local struct weir_sim *world;	/* That runs here. */
static atomic_int running;			/* In all threads. */

static const char *const names[WEIR_SIM_FAULTS] = {
	[WEIR_SIM_SHORT] = "short",
	[WEIR_SIM_ERROR] = "error",
	[WEIR_SIM_DELAY] = "delay",
	[WEIR_SIM_REORDER] = "reorder",
	[WEIR_SIM_STUCK] = "stuck",
	[WEIR_SIM_EINTR] = "eintr",
	[WEIR_SIM_EAGAIN] = "eagain",
	[WEIR_SIM_REFUSED] = "refused",
	[WEIR_SIM_FULL] = "full",
	[WEIR_SIM_NOMEM] = "nomem",
	[WEIR_SIM_SYSCALL] = "syscall",
	[WEIR_SIM_REGISTER] = "register",
	[WEIR_SIM_SLOW] = "slow",
	[WEIR_SIM_CLOCK] = "clock",
	[WEIR_SIM_RESET] = "reset",
	[WEIR_SIM_STALL] = "stall",
	[WEIR_SIM_CRASH] = "crash",
	[WEIR_SIM_REVOKE] = "revoke",
	[WEIR_SIM_KILL] = "kill",
	[WEIR_SIM_POWER] = "power",
	[WEIR_SIM_PAUSE] = "pause",
	[WEIR_SIM_PARTITION] = "partition",
};

const char *weir_sim_fault_name(unsigned int kind)
{
	return kind < WEIR_SIM_FAULTS ? names[kind] : NULL;
}

/* A swarm: half of the kinds, each at a rate from eight times to an eighth of
 * the usual one. */
static uint32_t draw_rate(struct sim_rng *rng, uint32_t rate)
{
	uint64_t draw = sim_rng(rng);

	if (draw & 1)
		return 0;
	rate = (uint32_t)(((uint64_t)rate << ((draw >> 1) % 7)) >> 3);
	return rate ? rate : 1;
}

void sim_faults_init(struct weir_sim *sim, struct sim_faults *ret,
		     uint64_t faults, uint32_t rate, uint64_t stream)
{
	struct sim_rng swarm;
	uint32_t drawn;

	if (!rate)
		rate = RATE;
	sim_rng_init(&swarm, sim->seed, stream);
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++) {
		sim_rng_init(&ret->rng[i], sim->seed, stream + 1 + i);
		drawn = sim->opts.flags & WEIR_SIM_SWARM ?
				draw_rate(&swarm, rate) : rate;
		ret->rate[i] = faults >> i & 1 ? drawn : 0;
	}
}

bool sim_fault(struct weir_sim *sim, enum weir_sim_fault kind,
	       const char *where)
{
	uint32_t rate = sim->faults->rate[kind];

	if (!rate || !sim->depth || sim->healed ||
	    sim_below(sim_fault_rng(sim, kind), rate) ||
	    sim->stats.faults_all >= sim->faults_max)
		return false;
	sim->stats.faults[kind]++;
	sim->stats.faults_all++;
	if (sim_traced(sim))
		sim_trace(sim, "fault %llu: %s%s%s%s%s",
			  (unsigned long long)sim->stats.faults_all,
			  names[kind], where ? ": " : "", where ? where : "",
			  sim->here ? ", on " : "",
			  sim->here ? sim->here->name : "");
	return true;
}

/* The errors in the manual page of each call, except those that only a mistake
 * of the program causes.  The first is as likely as all others together. */
static const int errors[IO_KINDS][N_ERRORS] = {
	[IO_READ] = { EIO, ENOMEM, ENOBUFS },
	[IO_WRITE] = { EIO, ENOSPC, EDQUOT, EFBIG, EPERM, ENOMEM },
	[IO_FSYNC] = { EIO, ENOSPC, EDQUOT },
	[IO_FALLOCATE] = { EIO, ENOSPC, EDQUOT, EFBIG, EOPNOTSUPP, EPERM },
	[IO_OPEN] = { EIO, EMFILE, ENFILE, EACCES, ENOMEM, ENOSPC, EROFS },
	[IO_STATX] = { EIO, ENOMEM, EACCES },
	[IO_RENAME] = { EIO, ENOSPC, EDQUOT, EACCES, EROFS, ENOMEM },
	[IO_UNLINK] = { EIO, EACCES, EBUSY, EROFS, ENOMEM },
	[IO_MKDIR] = { EIO, EACCES, EROFS, ENOSPC, EDQUOT, ENOMEM, EMLINK },
	[IO_LINK] = { EIO, EACCES, EROFS, ENOSPC, EDQUOT, ENOMEM, EMLINK },
	[IO_FTRUNCATE] = { EIO, EFBIG, EPERM, ENOSPC },
	[IO_READDIR] = { EIO, ENOMEM, ENOENT },
	[IO_COPY_RANGE] = { EIO, ENOSPC, EDQUOT, EXDEV, EOPNOTSUPP, EFBIG,
			    ENOMEM },
	[IO_SPLICE] = { ECONNRESET, ENOMEM },
	[IO_ACCEPT] = { EMFILE, ECONNABORTED, ENFILE, ENOBUFS, ENOMEM, EPERM,
			EPROTO },
	[IO_CONNECT] = { ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH,
			 EADDRNOTAVAIL, EAGAIN, ECONNRESET },
	[IO_RECV] = { ECONNRESET, ETIMEDOUT, ENOMEM, EHOSTUNREACH },
	[IO_SEND] = { ECONNRESET, EPIPE, ETIMEDOUT, ENOBUFS, ENOMEM,
		      EHOSTUNREACH },
};

/* Calls that fail alike share a row. */
static enum io_kind row_of(const struct weir_op *op)
{
	switch (op->kind) {
	case IO_READV:
		return IO_READ;
	case IO_WRITEV:
		return IO_WRITE;
	case IO_RECVMSG:
		return IO_RECV;
	case IO_SENDV:
	case IO_SENDMSG:
		return IO_SEND;
	default:
		return (enum io_kind)op->kind;
	}
}

int sim_draw_error(struct weir_sim *sim, const struct weir_op *op)
{
	struct sim_rng *rng = sim_fault_rng(sim, WEIR_SIM_ERROR);
	const int *row = errors[row_of(op)];
	unsigned int n = 0;

	while (n < N_ERRORS && row[n])
		n++;
	if (n < 2 || sim_rng(rng) & 1)
		return n ? -row[0] : -EIO;
	return -row[1 + sim_below(rng, n - 1)];
}

int weir_sim_fault(struct weir_sim *sim, enum weir_sim_fault kind)
{
	return (unsigned int)kind < WEIR_SIM_FAULTS &&
	       sim_fault(sim, kind, "the user's");
}

/* For base/fault.h: whether the point @name fails, on this thread. */
static int decide(const char *name)
{
	if (!world)
		return 0;
	return sim_fault(world, strcmp(name, "malloc") ? WEIR_SIM_SYSCALL :
							 WEIR_SIM_NOMEM, name);
}

void sim_faults_enter(struct weir_sim *sim)
{
	if (!sim->hosts && !sim->own_faults.rate[WEIR_SIM_NOMEM] &&
	    !sim->own_faults.rate[WEIR_SIM_SYSCALL])
		return;
	world = sim;
	if (!atomic_fetch_add(&running, 1))
		fault_ask(decide);
}

void sim_faults_leave(struct weir_sim *sim)
{
	if (world != sim)
		return;
	world = NULL;
	if (atomic_fetch_sub(&running, 1) == 1)
		fault_ask(NULL);
}
