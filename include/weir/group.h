/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_GROUP_H
#define WEIR_GROUP_H

/*
 * A group: one reactor per core, each on a thread of its own.
 *
 *	weir_group_create(&group, NULL);
 *	weir_group_set_core_fns(group, core_begins, core_ends, &server);
 *	weir_group_start(group);	// every core has run core_begins()
 *	weir_group_run(group);		// until weir_group_stop()
 *	weir_group_destroy(group);
 *
 * Cores share only the messages that they send each other, by weir_post() and
 * by weir_call() of <weir/call.h>.  In a group both use a ring of their own for
 * each pair of cores, without a lock.
 *
 * The group belongs to the thread that starts it: call start, run and destroy
 * there.  That thread can be one of the cores (WEIR_GROUP_ADOPT).
 *
 * States:
 *
 *	           start()               stop()
 *	STOPPED ------------> STARTED ------------> STOPPING
 *	   ^                                            |
 *	   +-------------------- run() -----------------+
 *
 * In a simulated world (.sim of the reactors' options) all cores are on the
 * calling thread, and the world draws the order of their turns; everything else
 * is the same.
 *
 * Re-creates SPDK's reactors on a core mask and Seastar's shards, without a
 * main() of their own.
 */

#include <weir/base.h>
#include <weir/reactor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_group;

/* The maximum number of cores. */
#define WEIR_GROUP_CORES_MAX 256

/* Bits of weir_group_opts.flags. */
#define WEIR_GROUP_ADOPT 1u	/* The thread that starts it is core 0. */
#define WEIR_GROUP_NO_PIN 2u	/* Let the kernel choose CPUs. */

/* States of a group; weir_group_state(). */
#define WEIR_GROUP_STOPPED 1
#define WEIR_GROUP_STARTED 2
#define WEIR_GROUP_STOPPING 3

/*
 * Options of weir_group_create().  Set .size to the size of the struct; 0
 * is the default of every other member.
 *
 * .n_cores 0 is one reactor on each CPU that this thread may use, but no more
 * than the quota of its cgroup (version 2) allows.
 */
struct weir_group_opts {
	size_t size;
	uint32_t n_cores;	/* Reactors; 0: see above. */
	uint32_t flags;		/* WEIR_GROUP_ */
	uint32_t spsc; /* Messages that fit from one core to another,
				 * a power of 2; 0: 1024, fewer from 9 on. */
	const struct weir_reactor_opts *reactor; /* Of each; NULL: default. */
};

/* Kinds of events of a core; weir_group_event.kind. */
#define WEIR_GROUP_CPU_LOST 1	/* It may not run on its CPU any more. */
#define WEIR_GROUP_NOT_PINNED 2	/* It could not be bound to its CPU. */
#define WEIR_GROUP_NOT_LOCAL 3	/* Its memory may come from other nodes. */
#define WEIR_GROUP_FAILED 4	/* Its loop has failed; the group stops. */

/* A failure of a core after which the group continues. */
struct weir_group_event {
	size_t size;
	uint32_t kind;		/* WEIR_GROUP_CPU_LOST, ... */
	uint32_t core;
	int32_t cpu;		/* The core's; -1: it has none. */
	int32_t err;		/* A negative errno, or 0. */
	const char *text;	/* A message, valid during the call. */
};

/*
 * How a core spends its time, in nanoseconds: .busy_ns is work and the loop
 * itself, .spin_ns spinning, .sleep_ns waiting in the kernel.
 *
 * The .last_ members are the growth since this struct was filled before.  Keep
 * one struct for each core, zeroed at first; the time between two calls is the
 * interval.
 */
struct weir_group_load {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t busy_ns;	/* Since the core started. */
	uint64_t spin_ns;
	uint64_t sleep_ns;
	uint64_t sleeps;
	uint64_t wakes;		/* By other threads. */
	uint64_t last_busy_ns;	/* Since this struct was filled before. */
	uint64_t last_spin_ns;
	uint64_t last_sleep_ns;
	uint64_t last_sleeps;
};

/*
 * Create a group in state STOPPED, without threads and reactors.
 *
 * More cores than CPUs are allowed: they share CPUs, and then do not spin.
 *
 * Returns 0 with *@ret set, to be freed by weir_group_destroy(), or
 *   -EINVAL  an option is out of its range
 *   -E2BIG   @opts sets a member that this version does not have
 *   -ENOMEM  no memory
 *
 * Any thread.
 *
 * Re-creates rte_eal_init() and spdk_app_start().
 */
WEIR_API int weir_group_create(struct weir_group **ret,
			       const struct weir_group_opts *opts);

/*
 * Free @group.  NULL is allowed.
 *
 * Returns 0, or, with @group as it was:
 *   -EBUSY  it is not STOPPED: call weir_group_stop() and weir_group_run()
 *
 * Call on the thread that has started it, or on any if none has.
 */
WEIR_API int weir_group_destroy(struct weir_group *group);

/*
 * Bind each core i of @group, of all its @n cores, to the CPU @cpus[i].
 *
 * Without this call the group uses the CPUs of the thread that starts it, in
 * their order, and from the first again if there are more cores.
 *
 * Returns 0, or
 *   -EINVAL  @n is not the number of cores
 *   -EBADFD  @group is not STOPPED
 *   -ENOMEM  no memory for the list, which is copied
 *
 * Call on the owner's thread.  Re-creates DPDK's --lcores and the reactor mask
 * of SPDK.
 */
WEIR_API int weir_group_set_cpus(struct weir_group *group,
				 const uint32_t *cpus, uint32_t n);

/*
 * Set functions that run on each core's thread: @init when the group starts,
 * @fini when it has stopped.
 *
 * Each may be NULL; both get @arg.  They run one after the other, @init for
 * core 0 first, @fini for core 0 last, so they need no lock.  All reactors
 * exist from the first @init to the last @fini, but do not run meanwhile: posts
 * to another reactor run later.  If an @init returns a negative errno the start
 * fails with it.  @fini runs for the cores whose @init has returned 0.  The
 * reactor is then STOPPED; @fini destroys its watches, timers and pools.
 *
 * Returns 0, or
 *   -EBADFD  @group is not STOPPED
 *
 * Call on the owner's thread.
 *
 * Re-creates rte_eal_mp_remote_launch().
 */
WEIR_API int weir_group_set_core_fns(struct weir_group *group,
	int (*init)(struct weir_group *group, uint32_t core, void *arg),
	void (*fini)(struct weir_group *group, uint32_t core, void *arg),
	void *arg);

/*
 * Set @fn, which is called with @arg after a failure of a core after which the
 * group continues.
 *
 * It runs on that core's thread, so several calls may run at a time.
 *
 * Returns 0, or
 *   -EBADFD  @group is not STOPPED
 *
 * Call on the owner's thread.  Re-creates rte_dev_event_callback_register(),
 * for cores.
 */
WEIR_API int weir_group_set_event_fn(struct weir_group *group,
	void (*fn)(struct weir_group *group,
		   const struct weir_group_event *event, void *arg),
	void *arg);

/*
 * Start @group: create threads and reactors, run @init of each core, and then
 * run the reactors.
 *
 * The call has no effect if @group is started.  On a machine with several NUMA
 * nodes a core prefers memory of its CPU's node.  The threads have all signals
 * blocked.  Worker threads of a reactor may run on all CPUs of the calling
 * thread.  With WEIR_GROUP_ADOPT core 0 is the calling thread, which is bound
 * to its CPU until the group has stopped, and runs in weir_group_run(); before
 * that it may make turns itself.
 *
 * If a core fails, the call stops those that were started, in reverse order,
 * and @group is STOPPED again; weir_why() says which core and why.
 *
 * Returns 0, or
 *   -EBUSY   @group is STOPPING: call weir_group_run() first
 *   -EINVAL  a CPU of weir_group_set_cpus() does not exist, or this process may
 *            not use it
 *   -EAGAIN  no thread could be created; see ulimit -u
 *   -ENOMEM, -EMFILE and others  the result of weir_reactor_create() or @init
 *
 * Any thread, outside the callbacks of its cores; that thread then owns it.
 */
WEIR_API int weir_group_start(struct weir_group *group);

/*
 * Wait until @group has stopped, and run core 0 if the calling thread is core
 * 0.
 *
 * When it returns, all operations of all cores have ended, calls between them
 * were answered, @fini has run for each core, the last first, and reactors and
 * threads are gone.  If @group was not started the call returns at once.
 *
 * Returns 0, or the error of the first core that failed:
 *   -EBUSY  called from a callback of one of the cores; or a core still had
 *           objects or operations after @fini, which weir_why() names.  Its
 *           reactor is deliberately not freed, because a thread may still write
 *           to it.
 *   -ENOMEM, -EIO  the kernel refused to wait
 *
 * Call on the owner's thread.
 */
WEIR_API int weir_group_run(struct weir_group *group);

/*
 * Stop all cores of @group: they refuse new work, cancel operations in flight,
 * drain them, and answer each other's calls.
 *
 * weir_group_run() returns when this is done.  If a single reactor of a group
 * is stopped, it stays STOPPING until all others are, because it may have to
 * answer their calls.
 *
 * Returns 0, also if @group is stopping or stopped.  In an @init the call has
 * no effect, because the group is not started yet.
 *
 * Any thread, callbacks included.  Takes a lock.  @group must not be destroyed
 * meanwhile.
 *
 * Re-creates spdk_app_stop().
 */
WEIR_API int weir_group_stop(struct weir_group *group);

/*
 * Get the state of @group: WEIR_GROUP_STOPPED, _STARTED or _STOPPING.
 *
 * Returns the state.  Any thread.  Takes a lock.  Re-creates
 * rte_eal_get_lcore_state().
 */
WEIR_API int weir_group_state(struct weir_group *group);

/*
 * Get the number of cores of @group.
 *
 * Returns the number of cores.  Any thread.  Never blocks.
 *
 * Re-creates rte_lcore_count().
 */
WEIR_API uint32_t weir_group_size(const struct weir_group *group);

/*
 * Get the reactor of @core of @group; NULL if there is no such core or @group
 * is STOPPED.
 *
 * Returns the reactor, or NULL.  Any thread may post to it or call it; only its
 * own thread may use it otherwise.
 *
 * Any thread, while the group is started.  Never blocks.
 */
WEIR_API struct weir_reactor *weir_group_reactor(
	const struct weir_group *group, uint32_t core);

/*
 * Get the CPU of @core of @group, or -1 if it has none.
 *
 * Returns the CPU, or -1.  Any thread, while the group is started.  Never
 * blocks.
 */
WEIR_API int weir_group_cpu(const struct weir_group *group, uint32_t core);

/*
 * Describe in one line the CPUs, the quota and the nodes of memory of @group.
 *
 * @group owns the string, which changes when @group starts.
 *
 * Returns the line.  Call on the owner's thread.  Never blocks.
 */
WEIR_API const char *weir_group_describe(const struct weir_group *group);

/*
 * Get how @core of @group spends its time.
 *
 * The caller sets .size of *@ret.  The result is exact for a core that sleeps;
 * for another core up to 10 ms of spinning may still count as work.
 *
 * Give the next connection to a core that is not busy nearly all of the time;
 * weir itself never moves work between cores.
 *
 * Returns 0, or
 *   -EINVAL  there is no such core, or .size is too small
 *   -EBADFD  @group is STOPPED, or all its cores have stopped
 *
 * Any thread.  @group must not be destroyed meanwhile.  Takes a lock briefly;
 * does not stop or wake that core.
 */
WEIR_API int weir_group_load(struct weir_group *group, uint32_t core,
			     struct weir_group_load *ret);

#ifdef __cplusplus
}
#endif
#endif /* WEIR_GROUP_H */
