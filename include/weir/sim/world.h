/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SIM_WORLD_H
#define WEIR_SIM_WORLD_H

/*
 * A simulated world: reactors on virtual time, with simulated devices, seeded
 * order and injected faults, all of it on the calling thread.
 *
 *	weir_sim_create(&sim, seed, NULL);
 *	opts.sim = sim;
 *	weir_reactor_create(&a, &opts);		// as many as there are to be
 *	weir_reactor_create(&b, &opts);
 *	...
 *	weir_sim_run(sim, 10 * WEIR_SEC, 0);	// ten virtual seconds
 *
 * A reactor in a world is driven by the same calls as any other, so a program
 * that takes its reactor from outside can be run in a world as it is.  What it
 * does there depends on the seed alone: the same seed gives the same run, event
 * by event, today and tomorrow, and weir_sim_digest() proves it.  Time goes
 * on only when nothing is left to do, and then to the next thing at once, so an
 * hour of timeouts takes no time.
 *
 * Which reactor has its turn next, how many callbacks it runs in it, how long
 * each device takes and which ends first are drawn.  So are faults, if they are
 * asked for: transfers cut short, errors, requests that never end, memory that
 * is not there.  They come while the world runs: in weir_sim_run(), and in
 * turns and destroys of its reactors, which let all of it go on.  So the clock
 * may jump beyond .drain_ms in a destroy: let it be an hour of virtual time.
 *
 * Descriptors in a world are simulated; those of the system are -EBADF there,
 * and so are those of a world outside it.  <weir/sim/file.h> has files and
 * disks, <weir/sim/socket.h> connections, <weir/sim/memory.h> memory that is
 * somebody else's.
 *
 * A world and all in it belong to the thread that has created it.  Nothing of
 * it may block, and nothing that is real may decide what the program does: no
 * clock, no random number, no address that is compared, no other thread.
 *
 * It is a backend like the others, and there is nothing like it elsewhere in C.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_sim;

/* What may go wrong; bits of weir_sim_opts.faults are 1 << these. */
enum weir_sim_fault {
	WEIR_SIM_SHORT,		/* A transfer moves less than was asked. */
	WEIR_SIM_ERROR,		/* A device fails: one of its errors. */
	WEIR_SIM_DELAY,		/* It takes far longer than usual. */
	WEIR_SIM_REORDER,	/* What ended later is told earlier. */
	WEIR_SIM_STUCK,		/* No answer; for long, or until it is healed. */
	WEIR_SIM_EINTR,		/* A system call is interrupted. */
	WEIR_SIM_EAGAIN,	/* It was ready, and now is not; a cancel
				 * finds nothing while that is tried. */
	WEIR_SIM_REFUSED,	/* A device takes no more: -EAGAIN, -EBUSY. */
	WEIR_SIM_FULL,		/* The queue is full: it begins later. */
	WEIR_SIM_NOMEM,		/* The library gets no memory. */
	WEIR_SIM_SYSCALL,	/* A call of the system fails, in a set-up. */
	WEIR_SIM_REGISTER,	/* Memory or a file cannot be registered. */
	WEIR_SIM_SLOW,		/* A callback takes long; others go on. */
	WEIR_SIM_CLOCK,		/* Time jumps. */
	WEIR_SIM_RESET,		/* A connection is reset. */
	WEIR_SIM_STALL,		/* Nothing comes through for a while. */
	WEIR_SIM_CRASH,		/* A peer dies. */
	WEIR_SIM_REVOKE,	/* A peer takes a right back. */
	WEIR_SIM_FAULTS,	/* How many there are. */
};

/* All of them, as weir_sim_opts.faults. */
#define WEIR_SIM_ALL_FAULTS ((UINT64_C(1) << WEIR_SIM_FAULTS) - 1)

/* weir_sim_opts.flags: each seed draws which of .faults there are, and how
 * often each comes, from none to eight times .rate. */
#define WEIR_SIM_SWARM 1u

/*
 * Options of weir_sim_create().  Set .size to the size of the struct and leave
 * what you do not care about at 0: then nothing goes wrong.
 */
struct weir_sim_opts {
	size_t size;
	uint64_t faults;	/* 1 << WEIR_SIM_ of what may go wrong. */
	uint32_t rate;		/* Once in so many chances; 0: 128. */
	uint32_t flags;		/* WEIR_SIM_SWARM */
	uint64_t faults_max;	/* No more than so many; 0: no bound. */

	/*
	 * Called with a line, with no newline, for each thing that happens: for
	 * people.  NULL: no lines.
	 */
	void (*trace)(const char *line, void *arg);
	void *trace_arg;
};

/* What has happened in a world. */
struct weir_sim_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t events;	/* Turns of reactors, and doings of devices. */
	uint64_t turns;
	uint64_t completions;	/* Callbacks of operations. */
	uint64_t started;	/* Operations. */
	uint64_t faults[32];	/* By WEIR_SIM_. */
	uint64_t faults_all;	/* Their sum. */
};

/*
 * Create a world whose chances come from @seed.
 *
 * Faults are asked for by bits 1 << WEIR_SIM_SHORT and so on; with
 * WEIR_SIM_SWARM each seed has others of them.
 *
 * Returns 0 with *@ret set, to be freed by weir_sim_destroy(), or
 *   -EINVAL  .flags or .faults has bits that mean nothing
 *   -E2BIG   @opts sets a member that this version does not have
 *   -EMFILE  there are as many worlds as there can be (16)
 *   -ENOMEM  no memory
 *
 * Any thread; that thread then owns it.
 */
WEIR_API int weir_sim_create(struct weir_sim **ret, uint64_t seed,
			     const struct weir_sim_opts *opts);

/*
 * Free @sim, with its files and connections.  NULL is allowed.
 *
 * Returns 0, or, with @sim as it was:
 *   -EBUSY  it has reactors, or the domain of a peer or card in it is in use;
 *           destroy those first.  Or it is being run.
 *
 * Call on @sim's thread.
 */
WEIR_API int weir_sim_destroy(struct weir_sim *sim);

/*
 * Let things happen: turns of the reactors of @sim and doings of its devices,
 * one after the other, until nothing would ever happen by itself, or @ns
 * nanoseconds of virtual time have passed (WEIR_FOREVER: no such end), or
 * @events have happened (0: no such end).
 *
 * It does not end for a reactor that has stopped; that one has no turns.
 *
 * Returns 1 if there is more to come, 0 if not, or
 *   -EBUSY  it is called from a callback in the world
 *
 * Call on @sim's thread.
 */
WEIR_API int weir_sim_run(struct weir_sim *sim, uint64_t ns, uint64_t events);

/*
 * The virtual time, in nanoseconds; what weir_reactor_now() says in the world.
 *
 * Call on @sim's thread.  Never blocks.
 */
WEIR_API uint64_t weir_sim_now(const struct weir_sim *sim);

/*
 * A random number of the caller's own stream, which the seed determines: for
 * what a program in the world does by chance.  The world's own chances are not
 * changed by it.
 *
 * Call on @sim's thread.  Never blocks.
 */
WEIR_API uint64_t weir_sim_random(struct weir_sim *sim);

/*
 * Write into the story of @sim that @what happened, with @value: a line of the
 * trace, and part of the digest.  For a program's own state, which two runs of
 * a seed should agree on.
 *
 * Call on @sim's thread.  Never blocks.
 */
WEIR_API void weir_sim_note(struct weir_sim *sim, const char *what,
			    uint64_t value);

/*
 * All that has happened in @sim so far, as one number.
 *
 * Returns it: equal in two runs of a seed, with any compiler; in all likelihood
 * different in runs that differ.
 *
 * Call on @sim's thread.  Never blocks.
 */
WEIR_API uint64_t weir_sim_digest(const struct weir_sim *sim);

/*
 * End all faults, so that the program must recover, or have them again.
 *
 * If @on is 0 no more come from now on, and what is stuck, stalled or slow goes
 * on; one that was silent after a power cut resets.  What was done by a call (a
 * partition, a bad sector, a full disk) stays.  If @on is not 0, they come
 * again.
 *
 * Call on @sim's thread, callbacks included.  Never blocks.
 */
WEIR_API void weir_sim_set_faults(struct weir_sim *sim, int on);

/*
 * Draw whether the fault @kind happens here, as devices do: for devices of the
 * user's own.  It is counted and traced.
 *
 * Returns 1 if so, or 0, as always while the world does not run, and if @kind
 * is not among the faults of this seed.
 *
 * Call on @sim's thread, callbacks included.  Never blocks.  Re-creates BUGGIFY
 * of FoundationDB.
 */
WEIR_API int weir_sim_fault(struct weir_sim *sim, enum weir_sim_fault kind);

/*
 * The name of the fault @kind for people and command lines: "short".
 *
 * Returns it, or NULL if there is no such fault.  Any thread.  Never blocks.
 */
WEIR_API const char *weir_sim_fault_name(unsigned int kind);

/*
 * Cut the power of whatever has a name that begins with @prefix ("": of
 * everything).  Files keep what was synced, and of the rest what chance has
 * written: whole sectors of 512 bytes, in any order.  Descriptors there are
 * dead: what is in flight on them, and all that is tried later, fails with
 * -EIO, but a close; at the other end of a connection it is reset, or silent.
 *
 * The program there is not ended, for it is this one: stop what it has, which
 * now fails quickly, and start it again on what the disk has kept.
 *
 * Call on @sim's thread, callbacks included.
 */
WEIR_API void weir_sim_power_cut(struct weir_sim *sim, const char *prefix);

/* What takes time, for weir_sim_set_latency(). */
enum weir_sim_device {
	WEIR_SIM_TURN,		/* A reactor's turn. */
	WEIR_SIM_WORKER,	/* A worker's call. */
	WEIR_SIM_NOP,		/* weir_nop() */
	WEIR_SIM_FILE,		/* A file: what the cache can do. */
	WEIR_SIM_DISK,		/* A sync, and a file opened with O_DIRECT. */
	WEIR_SIM_SOCKET,	/* A call. */
	WEIR_SIM_WIRE,		/* From one end of a connection to the other. */
	WEIR_SIM_MEMORY,	/* Memory of a peer or of a device. */
	WEIR_SIM_DEVICES,	/* How many there are. */
};

/*
 * Have @device take @min_ns, and as much again as a draw says, that is @mean_ns
 * on average: most draws are shorter, some several times as long.
 *
 * Returns 0, or
 *   -EINVAL  there is no such device
 *
 * Call on @sim's thread.  Never blocks.
 */
WEIR_API int weir_sim_set_latency(struct weir_sim *sim,
				  enum weir_sim_device device, uint64_t min_ns,
				  uint64_t mean_ns);

/*
 * Copy to *@ret, of which .size is set, what has happened in @sim.
 *
 * Returns 0, or
 *   -EINVAL  .size is too small
 *
 * Call on @sim's thread.  Never blocks.
 */
WEIR_API int weir_sim_stats(const struct weir_sim *sim,
			    struct weir_sim_stats *ret);

#ifdef __cplusplus
}
#endif
#endif /* WEIR_SIM_WORLD_H */
