/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SIM_WORLD_H
#define WEIR_SIM_WORLD_H

/*
 * A simulated world: reactors in virtual time, with simulated devices, seeded
 * order and injected faults, all on the calling thread.
 *
 *	weir_sim_create(&sim, seed, NULL);
 *	opts.sim = sim;
 *	weir_reactor_create(&a, &opts);		// any number of reactors
 *	weir_reactor_create(&b, &opts);
 *	...
 *	weir_sim_run(sim, 10 * WEIR_SEC, 0);	// ten virtual seconds
 *
 * A reactor in a world has the same calls as any other, so a program that gets
 * its reactor as an argument can run in a world unchanged.  Its behaviour there
 * depends only on the seed: the same seed gives the same run, event by event,
 * on every machine, and weir_sim_digest() proves it.  Time passes only when no
 * reactor has work to do, and then jumps to the next event, so an hour of
 * timeouts takes no real time.
 *
 * The world draws the order of turns, the number of callbacks in a turn, and
 * the duration of each operation.  It also draws faults, if the test asks for
 * them: short transfers, errors, requests that never end, failing allocations.
 * Faults occur while the world runs: in weir_sim_run(), and in turns and
 * destroys of its reactors, which run the whole world.  So the clock may jump
 * beyond .drain_ms in a destroy: set that to an hour of virtual time.
 *
 * Descriptors in a world are simulated.  Those of the system are -EBADF in a
 * world, and those of a world are -EBADF outside it.  <weir/sim/file.h> has
 * files and disks, <weir/sim/socket.h> connections, <weir/sim/memory.h> memory
 * of peers and cards, <weir/sim/host.h> hosts, which are killed and started.
 *
 * Not simulated, and refused in a world, by -EOPNOTSUPP unless another errno is
 * named, with a message of weir_why():
 *
 *   - a descriptor for another loop (weir_reactor_fd())
 *   - SQEs (weir_uring_submit())
 *   - UNIX sockets of exporters (weir_exporter_create(),
 *     weir_mmap_import_from())
 *   - urgent data, and control data but descriptors
 *   - exchanges of directories (-EXDEV)
 *   - posts of other threads (weir_post())
 *
 * weir_listen() takes no reactor and makes a socket of
 * the system, which no object in a world accepts (-EBADF): use weir_sim_listen(),
 * or libweir-sim-libc (<weir/sim/libc.h>), with which it makes one of the world.
 *
 * A world and all its objects belong to the thread that has created it.  The
 * program in it must not block, and its behaviour must not depend on anything
 * outside: no clock, no random number, no order of addresses, no other thread.
 *
 * A world is a backend of the reactor like io_uring and libev.  weir-sim(7) is an
 * overview.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_sim;
struct weir_reactor;

/* Faults; bits of weir_sim_opts.faults are 1 << these. */
enum weir_sim_fault {
	WEIR_SIM_SHORT,		/* A transfer moves less than requested. */
	WEIR_SIM_ERROR,		/* A device fails with one of its errors. */
	WEIR_SIM_DELAY,		/* An operation takes far longer than usual. */
	WEIR_SIM_REORDER,	/* Completions are reported out of order. */
	WEIR_SIM_STUCK,		/* No answer, for long or until faults end. */
	WEIR_SIM_EINTR,		/* A system call is interrupted. */
	WEIR_SIM_EAGAIN,	/* A ready descriptor is not ready any more, a
				 * file's WEIR_RW_NOWAIT would wait; a cancel
				 * finds nothing while it is retried. */
	WEIR_SIM_REFUSED,	/* A device refuses: -EAGAIN, -EBUSY. */
	WEIR_SIM_FULL,		/* The queue is full: a request begins later. */
	WEIR_SIM_NOMEM,		/* An allocation of the library fails. */
	WEIR_SIM_SYSCALL,	/* A system call of a set-up fails. */
	WEIR_SIM_REGISTER,	/* Memory or a file cannot be registered. */
	WEIR_SIM_SLOW,		/* A callback takes long; other reactors run. */
	WEIR_SIM_CLOCK,		/* Time jumps. */
	WEIR_SIM_RESET,		/* A connection is reset. */
	WEIR_SIM_STALL,		/* A connection delivers nothing for a while. */
	WEIR_SIM_CRASH,		/* A peer crashes. */
	WEIR_SIM_REVOKE,	/* A peer revokes a right. */
	WEIR_SIM_KILL,		/* A host: its program is killed, */
	WEIR_SIM_POWER,		/* it loses power, */
	WEIR_SIM_PAUSE,		/* it stops for a while, */
	WEIR_SIM_PARTITION,	/* others cannot reach it. */
	WEIR_SIM_FAULTS,	/* The number of kinds. */
};

/* All of them, as weir_sim_opts.faults. */
#define WEIR_SIM_ALL_FAULTS ((UINT64_C(1) << WEIR_SIM_FAULTS) - 1)

/* weir_sim_opts.flags: each seed draws which of .faults it has, and how often,
 * from none to eight times .rate. */
#define WEIR_SIM_SWARM 1u

/*
 * Options of weir_sim_create().  Set .size to the size of the struct; 0 is the
 * default of every other member.  By default there are no faults.
 */
struct weir_sim_opts {
	size_t size;
	uint64_t faults;	/* 1 << WEIR_SIM_ of the possible faults. */
	uint32_t rate;		/* A fault once in so many draws; 0: 128. */
	uint32_t flags;		/* WEIR_SIM_SWARM */
	uint64_t faults_max;	/* The maximum number; 0: no limit. */

	/*
	 * Called with a line for people, without a newline, for each event.
	 * NULL: no lines.
	 */
	void (*trace)(const char *line, void *arg);
	void *trace_arg;

	/* Names of hosts, with commas: all others are healthy.  NULL: none
	 * need be.  Not copied, and read when a host is created. */
	const char *faulty_hosts;
};

/* Counters of a world; weir_sim_stats(). */
struct weir_sim_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t events;	/* Turns of reactors, and events of devices. */
	uint64_t turns;
	uint64_t completions;	/* Callbacks of operations. */
	uint64_t started;	/* Operations. */
	uint64_t faults[32];	/* By WEIR_SIM_. */
	uint64_t faults_all;	/* Their sum. */
};

/*
 * Create a world whose random numbers come from @seed.
 *
 * Returns 0 with *@ret set, to be freed by weir_sim_destroy(), or
 *   -EINVAL  .flags or .faults has unknown bits
 *   -E2BIG   @opts sets a member that this version does not have
 *   -EMFILE  there are 16 worlds, the maximum
 *   -ENOMEM  no memory
 *
 * Any thread; that thread then owns it.
 */
WEIR_API int weir_sim_create(struct weir_sim **ret, uint64_t seed,
			     const struct weir_sim_opts *opts);

/*
 * Free @sim, with its files, connections and hosts.  NULL is allowed.
 *
 * Programs that run on hosts are killed first.
 *
 * Returns 0, or, with @sim unchanged:
 *   -EBUSY  it has reactors that belong to no host, or the domain of a peer or
 *           card in it is in use; destroy those first; or it is running
 *
 * Call on @sim's thread.
 */
WEIR_API int weir_sim_destroy(struct weir_sim *sim);

/*
 * Run @sim: turns of its reactors and events of its devices, one after the
 * other.
 *
 * The run ends when @ns nanoseconds of virtual time have passed, also if no event
 * is left, or after @events events (0: no limit).  With WEIR_FOREVER as @ns it
 * ends when no event is left.  A reactor that has stopped makes no turns and does
 * not end the run.
 *
 * Returns 1 if events are left, 0 if not, or
 *   -EBUSY  the call comes from a callback in the world
 *
 * Call on @sim's thread.
 */
WEIR_API int weir_sim_run(struct weir_sim *sim, uint64_t ns, uint64_t events);

/*
 * Get the virtual time in nanoseconds, as weir_reactor_now() in the world.
 *
 * Returns the virtual time.  Call on @sim's thread.  Never blocks.
 */
WEIR_API uint64_t weir_sim_now(const struct weir_sim *sim);

/*
 * Draw a random number for the program from a stream of its own, which the seed
 * determines.
 *
 * The call does not affect the world's other random streams.
 *
 * Returns a random number.  Call on @sim's thread.  Never blocks.
 */
WEIR_API uint64_t weir_sim_random(struct weir_sim *sim);

/*
 * Add the event @what, with @value, to the trace and the digest of @sim.
 *
 * Use it for state of the program that must be equal in two runs of a seed.
 *
 * Call on @sim's thread.  Never blocks.
 */
WEIR_API void weir_sim_note(struct weir_sim *sim, const char *what,
			    uint64_t value);

/*
 * Get the digest of everything that has happened in @sim so far.
 *
 * Returns a number that is equal in two runs of a seed, with any compiler, and
 * almost certainly different in runs that differ.
 *
 * Call on @sim's thread.  Never blocks.
 */
WEIR_API uint64_t weir_sim_digest(const struct weir_sim *sim);

/*
 * Switch faults off, so that the program must recover, or on again.
 *
 * If @on is 0 there are no more faults; stuck, stalled and slow operations
 * continue, and connections that are silent after a power cut are reset.
 * Faults that the test has made by a call (a partition, a bad sector, a full
 * disk) stay.  If @on is not 0, faults occur again.
 *
 * Call on @sim's thread, callbacks included.  Never blocks.
 */
WEIR_API void weir_sim_set_faults(struct weir_sim *sim, int on);

/*
 * Draw whether the fault @kind occurs here, for devices of the user's own.
 *
 * The fault is counted and traced.
 *
 * Returns 1 if it occurs, or 0.  It is always 0 while the world does not run,
 * and if @kind is not among the faults of this seed.
 *
 * Call on @sim's thread, callbacks included.  Never blocks.  Re-creates BUGGIFY
 * of FoundationDB.
 */
WEIR_API int weir_sim_fault(struct weir_sim *sim, enum weir_sim_fault kind);

/*
 * Get the name of the fault @kind for people and command lines: "short".
 *
 * Returns the name, or NULL if there is no such fault.  Any thread.  Never
 * blocks.
 */
WEIR_API const char *weir_sim_fault_name(unsigned int kind);

/*
 * Cut the power of all objects whose names begin with @prefix ("": of all; "a/"
 * is also the directory "a").
 *
 * Files keep synced data; each sector of 512 bytes that was written later is
 * kept or lost by chance.  Descriptors of these objects are dead: operations in
 * flight and later ones fail with -EIO, except a close.  The other end of a
 * connection is reset, or gets no more answers.
 *
 * The power cut does not end the program: its operations now fail, and it
 * stops its objects.  weir_sim_host_power_off() ends the program of a host, too.
 *
 * Call on @sim's thread, callbacks included.
 */
WEIR_API void weir_sim_power_cut(struct weir_sim *sim, const char *prefix);

/* Devices that take time, for weir_sim_set_latency(). */
enum weir_sim_device {
	WEIR_SIM_TURN,		/* A reactor's turn. */
	WEIR_SIM_WORKER,	/* A worker's call. */
	WEIR_SIM_NOP,		/* weir_nop() */
	WEIR_SIM_FILE,		/* A file, in the cache. */
	WEIR_SIM_DISK,		/* A sync, and a file opened with O_DIRECT. */
	WEIR_SIM_SOCKET,	/* A call. */
	WEIR_SIM_WIRE,		/* From one end of a connection to the other. */
	WEIR_SIM_MEMORY,	/* Memory of a peer or of a device. */
	WEIR_SIM_DEVICES,	/* The number of devices. */
};

/*
 * Set the latency of @device to @min_ns plus a drawn time of @mean_ns on
 * average.
 *
 * Most draws are shorter than @mean_ns, some several times as long.
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
 * Get the counters of @sim.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -EINVAL  .size is too small
 *
 * Call on @sim's thread.  Never blocks.
 */
WEIR_API int weir_sim_stats(const struct weir_sim *sim,
			    struct weir_sim_stats *ret);

/*
 * The turns that a world has given to a reactor.  A test uses them to tell an
 * event that the program, or the library, handles late from one that had to
 * wait for its core.
 *
 * A reactor has a turn at the first time of the clock at which it has something
 * to do and its core is free.  An event that was due at D is late if the clock
 * was to go beyond D, or beyond the time at which the core became free if that
 * was later (.target_ns), or if there was a whole turn in between.
 */
struct weir_sim_turns {
	size_t size;		/* Set by the caller: its capacity. */
	uint64_t turns;		/* Turns begun; also the last one's number. */
	uint64_t free_ns;	/* Since when the core was free for the last. */
	uint64_t target_ns;	/* Where the clock's last step was to end; only
				 * WEIR_SIM_CLOCK makes it later. */
	/*
	 * The last whole turn that has ended, and its time; and the whole turn
	 * before it.  In a whole turn the reactor was running, and .turn_max
	 * left nothing undone that was due.  0: there was none.
	 */
	uint64_t whole, whole_ns;
	uint64_t whole_before, whole_before_ns;
	/* Cancels that found nothing to cancel (WEIR_SIM_EAGAIN), and the time
	 * of the last. */
	uint64_t refused, refused_ns;
	uint64_t unwoken;	/* Turns in which the reactor slept and had work
				 * from others, and no thread had woken it. */
};

/*
 * Copy the turns of @r in its world to *@ret, of which .size is set.
 *
 * Turns that the program takes by weir_reactor_turn() do not count.
 *
 * Returns 0, or
 *   -EINVAL  .size is too small, or @r is in no world
 *
 * Call on @r's thread, callbacks included.  Never blocks.
 */
WEIR_API int weir_sim_turns(const struct weir_reactor *r,
			    struct weir_sim_turns *ret);

#ifdef __cplusplus
}
#endif
#endif /* WEIR_SIM_WORLD_H */
