/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SIM_HOST_H
#define WEIR_SIM_HOST_H

/*
 * Hosts of a simulated world: machines that run a program, and fail.
 *
 *	static void start(struct weir_sim_host *host, void *arg)
 *	{
 *		weir_reactor_create(&server->r, NULL);
 *		weir_sim_listen(opts.sim, &server->fd, "a:7000", 16);
 *		...			// what the program's main() does
 *	}
 *
 *	struct weir_sim_host_opts a = { .size = sizeof(a), .name = "a",
 *					.start = start, .arg = server };
 *
 *	weir_sim_host_create(&host, sim, &a);
 *	weir_sim_host_start(host);
 *	weir_sim_run(sim, WEIR_SEC, 0);
 *	weir_sim_host_power_off(host);
 *
 * Reactors and groups that a program makes are in its world, unless it chooses a
 * backend.  To a host belong the reactors and descriptors that its program makes, in
 * .start() and in callbacks of its reactors; the sockets and listeners whose
 * name is its own, alone or followed by '/' or ':' ("a", "a:7000"); and the
 * files below the directory of its name.  That directory is the root of its
 * program: weir_open() of "data/log" in a reactor of the host "a" opens what the
 * calls of <weir/sim/file.h> name "a/data/log".  So the same program can run on
 * any host.
 *
 * A host that was killed runs nothing any more.  No callback of its reactors
 * follows, not even for operations in flight, as in a process that was killed:
 * the world forgets the operations, which are idle again, frees the reactors
 * with their timers, watches, acceptors, receivers, events and pollers, and
 * closes the descriptors.  What the program itself has allocated is given back
 * by .gone(), which may not use any of these.  Other objects of the library
 * (pools, inventories, DMA contexts) and their reactor stay allocated until the
 * process ends.  Memory of peers and cards (<weir/sim/memory.h>) is not for
 * programs of hosts: their moves are refused with -EOPNOTSUPP.
 *
 * Each host has faults of its own, drawn from random streams of its own: those
 * of the world, or those of its options.  Beside the faults of devices, four
 * kinds disturb a whole host: WEIR_SIM_KILL and WEIR_SIM_POWER end its program,
 * WEIR_SIM_PAUSE stops it, and WEIR_SIM_PARTITION separates it from some of the
 * others, in one direction or both.  The world draws them when the host begins
 * an operation, eight times as rarely as other faults, lets them happen a
 * little later, and ends each after a millisecond to some seconds: the host is
 * started again, runs on, or is reachable.  weir_sim_set_faults() with 0 ends
 * them all at once.
 */

#include <weir/sim/world.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_sim_host;

/* What a host does; weir_sim_host_state(). */
enum weir_sim_host_state {
	WEIR_SIM_HOST_DOWN,	/* It has power, and its program has ended. */
	WEIR_SIM_HOST_OFF,	/* It has no power, and does not answer. */
	WEIR_SIM_HOST_STARTING,	/* .start() will be called. */
	WEIR_SIM_HOST_RUNNING,
	WEIR_SIM_HOST_PAUSED,	/* Its reactors make no turns. */
};

/* weir_sim_host_opts.flags */
#define WEIR_SIM_HOST_HEALTHY 1u	/* No faults, and none of the host. */

/*
 * Options of weir_sim_host_create().  Set .size to the size of the struct; 0 is
 * the default of every other member but .name and .start.
 */
struct weir_sim_host_opts {
	size_t size;
	const char *name;	/* Copied.  63 bytes, without "/", ":", ",". */

	/*
	 * Start the program, as its main() would: on what is durable.  Called
	 * in weir_sim_run(), without faults.
	 */
	void (*start)(struct weir_sim_host *host, void *arg);

	/* The program was killed, or the world is destroyed: free its memory.
	 * NULL: there is none. */
	void (*gone)(void *arg);
	void *arg;

	uint64_t faults;	/* 1 << WEIR_SIM_; 0: as the world. */
	uint32_t rate;		/* A fault in so many draws; 0: as the world. */
	uint32_t flags;		/* WEIR_SIM_HOST_HEALTHY */

	/* Its clock, weir_reactor_now(), is ahead of the world's by so much
	 * when the host is created, */
	uint64_t ahead_ns;
	/* and then gains so many nanoseconds a second: -100000000 to
	 * 100000000. */
	int32_t drift;
	uint32_t reserved;

	/* It counts as disturbed for so long after a disturbance has ended; see
	 * weir_sim_hosts_max_disturbed(). */
	uint64_t recovery_ns;

	/* A program that ends itself, by weir_sim_host_kill() in one of its
	 * callbacks, is started again after so long, as by a supervisor.  0: it
	 * is not. */
	uint64_t restart_ns;

	uint64_t wall_ns;	/* Its wall clock when it is created, since 1970;
				 * 0: 2001-09-09 01:46:40. */
};

/*
 * Create a host in @sim, whose program does not run yet.
 *
 * The call creates the directory of its name, durably.
 *
 * Returns 0 with *@ret set, which is freed with @sim, or
 *   -EINVAL  .name is NULL, empty or too long, or has one of "/:,"; .start is
 *            NULL; .faults, .flags or .drift is invalid
 *   -E2BIG   @opts sets a member that this version does not have
 *   -EEXIST  there is a host of this name, or a file
 *   -ENOMEM  no memory
 *
 * Call on the world's thread, callbacks included.  Never blocks.
 *
 * Re-creates a process of FoundationDB's simulator, and a host of turmoil.
 */
WEIR_API int weir_sim_host_create(struct weir_sim_host **ret,
				  struct weir_sim *sim,
				  const struct weir_sim_host_opts *opts);

/*
 * Get the world of @host, for weir_reactor_opts.sim.
 *
 * Returns the world.
 *
 * Call on the world's thread, callbacks included.  Never blocks.
 */
WEIR_API struct weir_sim *weir_sim_host_world(const struct weir_sim_host *host);

/*
 * Get the name of @host.
 *
 * Returns it, valid as long as the host.
 *
 * Call on the world's thread, callbacks included.  Never blocks.
 *
 * Re-creates gethostname(2), in a world.
 */
WEIR_API const char *weir_sim_host_name(const struct weir_sim_host *host);

/*
 * Get the IP address of @host, for programs: 10.0.0.1 is that of the first host of
 * its world.
 *
 * Returns it, in the order of the machine.
 *
 * Call on the world's thread, callbacks included.  Never blocks.
 *
 * Re-creates turmoil::lookup().
 */
WEIR_API uint32_t weir_sim_host_address(const struct weir_sim_host *host);

/*
 * Get the host whose program runs now, on this thread: in its .start() or in a
 * callback of its reactors.
 *
 * Returns the host, or NULL if there is none.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates NodeHandle::current() of madsim.
 */
WEIR_API struct weir_sim_host *weir_sim_host_here(void);

/*
 * Get what @host does now.
 *
 * Returns one of enum weir_sim_host_state.
 *
 * Call on the world's thread, callbacks included.  Never blocks.
 *
 * Re-creates Sim::is_host_running() of turmoil.
 */
WEIR_API int weir_sim_host_state(const struct weir_sim_host *host);

/*
 * Start the program of @host: .start() is called when the world runs next.
 *
 * A host that was without power has power again, and resets the connections that
 * it does not know any more as soon as it receives data for them.
 *
 * Returns 0, or
 *   -EALREADY  it runs, is paused, or will be started
 *
 * Call on the world's thread, callbacks included.  Never blocks.
 */
WEIR_API int weir_sim_host_start(struct weir_sim_host *host);

/*
 * Kill the program of @host, as by SIGKILL.
 *
 * Files keep all that was written.  The other ends of connections see the end
 * of the stream, or a reset if there were unread data, and new connections are
 * refused.
 *
 * From a callback of the host's own, the turn that runs is its last one; from
 * elsewhere, no callback follows.
 *
 * Returns 0, or
 *   -EALREADY  its program does not run
 *
 * Call on the world's thread, callbacks included.  Never blocks.
 *
 * Re-creates kill(2) with SIGKILL, and the KillProcess of FoundationDB.
 */
WEIR_API int weir_sim_host_kill(struct weir_sim_host *host);

/*
 * Switch off the power of @host.
 *
 * Files keep what a power cut keeps (<weir/sim/file.h>).  The other ends of
 * connections get no answer, and neither do new ones, until the host is started
 * again.  Otherwise as weir_sim_host_kill(), also for a host whose program does
 * not run.
 *
 * Returns 0, or
 *   -EALREADY  it has no power
 *
 * Call on the world's thread, callbacks included.  Never blocks.
 *
 * Re-creates RebootProcess of FoundationDB.
 */
WEIR_API int weir_sim_host_power_off(struct weir_sim_host *host);

/*
 * Pause the program of @host if @on is not 0, as by SIGSTOP, or let it run on.
 *
 * Its devices continue, connections are accepted for it up to the backlog, and
 * its clock goes on.
 *
 * Returns 0, or
 *   -EALREADY  it is paused, or runs, already
 *   -ESRCH     its program does not run
 *
 * Call on the world's thread, callbacks included.  Never blocks.
 *
 * Re-creates kill(2) with SIGSTOP and SIGCONT.
 */
WEIR_API int weir_sim_host_pause(struct weir_sim_host *host, int on);

/*
 * Get the clock of @host, as weir_reactor_now() of its reactors.
 *
 * Returns nanoseconds.
 *
 * Call on the world's thread, callbacks included.  Never blocks.
 *
 * Re-creates clock_gettime(2) with CLOCK_MONOTONIC, on a host.
 */
WEIR_API uint64_t weir_sim_host_now(const struct weir_sim_host *host);

/*
 * Get the wall clock of @host: nanoseconds since 1970.
 *
 * Returns them.
 *
 * Call on the world's thread, callbacks included.  Never blocks.
 *
 * Re-creates clock_gettime(2) with CLOCK_REALTIME, on a host.
 */
WEIR_API uint64_t weir_sim_host_wall(const struct weir_sim_host *host);

/*
 * Set the wall clock of @host to @ns since 1970, forward or back.  Its other clock
 * goes on as before.
 *
 * Call on the world's thread, callbacks included.  Never blocks.
 *
 * Re-creates clock_settime(2), as an event for the program.
 */
WEIR_API void weir_sim_host_set_wall(struct weir_sim_host *host, uint64_t ns);

/*
 * Send the signal @signo to the program of @host, or, if @host is NULL, to what is
 * on no host.
 *
 * A weir_signal for it gets it, once if it is sent again before.  A program that
 * has none is killed, paused, or not affected, as signal(7) says.
 *
 * Returns 0, or
 *   -EINVAL  there is no such signal, or @host is of another world
 *   -ESRCH   the program does not run, or without a host nothing waits for it
 *
 * Call on the world's thread, callbacks included.  Never blocks.
 *
 * Re-creates kill(2), in a world.
 */
WEIR_API int weir_sim_signal(struct weir_sim *sim, struct weir_sim_host *host,
			     int signo);

/*
 * Let the clock of @host gain @drift nanoseconds in each second of the world's
 * from now on.
 *
 * Returns 0, or
 *   -EINVAL  @drift is not from -100000000 to 100000000
 *
 * Call on the world's thread, callbacks included.  Never blocks.
 *
 * Re-creates adjtimex(2) with ADJ_FREQUENCY, as an event for the program.
 */
WEIR_API int weir_sim_host_set_drift(struct weir_sim_host *host, int32_t drift);

/*
 * One direction of the network between two hosts; weir_sim_host_link().  Set
 * .size to the size of the struct; 0 is the default of every other member.
 */
struct weir_sim_link {
	size_t size;
	uint32_t cut;		/* Not 0: nothing passes. */
	uint32_t reserved;
	uint64_t min_ns, mean_ns; /* The latency, as of
				   * weir_sim_set_latency(); both 0: that of
				   * WEIR_SIM_WIRE. */
	uint64_t bytes_per_s;	/* 0: no limit. */
};

/*
 * Set the network from @from to @to, in this direction.
 *
 * While a direction is cut its data are held.  The data of the other direction
 * arrive, but are not acknowledged, so the sender can send no more than fits
 * (64 KiB); a connect needs both directions, and is retried for two minutes.
 * When the direction is not cut any more the held data arrive, or, by chance,
 * the connection has timed out.
 *
 * Returns 0, or
 *   -EINVAL  the hosts are the same, or of different worlds
 *   -E2BIG   @link sets a member that this version does not have
 *   -ENOMEM  no memory
 *
 * Call on the world's thread, callbacks included.  Never blocks.
 *
 * Re-creates the pair of clog_pair() of FoundationDB, and hold() of turmoil.
 */
WEIR_API int weir_sim_host_link(struct weir_sim_host *from,
				struct weir_sim_host *to,
				const struct weir_sim_link *link);

/*
 * Promise that the world never disturbs more than @n hosts of @sim at once by
 * WEIR_SIM_KILL, WEIR_SIM_POWER, WEIR_SIM_PAUSE and WEIR_SIM_PARTITION.
 *
 * A host is disturbed from then until it runs again and is reachable, and for
 * .recovery_ns more.  Hosts that the program itself stops or pauses count.  The
 * default is UINT32_MAX: no promise.
 *
 * Call on the world's thread, callbacks included.  Never blocks.
 *
 * Re-creates the liveness mode of TigerBeetle's VOPR, which heals a quorum.
 */
WEIR_API void weir_sim_hosts_max_disturbed(struct weir_sim *sim, uint32_t n);

#ifdef __cplusplus
}
#endif
#endif /* WEIR_SIM_HOST_H */
