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
 * Nothing is shared between the cores but what they send each other: by
 * weir_post(), and by weir_call() of <weir/call.h>.  In a group both go by a
 * ring of each pair's own, with no lock and nothing that three cores write to.
 *
 * The group belongs to the thread that starts it: start, run and destroy are
 * called there.  It can be one of the cores itself (WEIR_GROUP_ADOPT).
 *
 * States:
 *
 *	           start()               stop()
 *	STOPPED ------------> STARTED ------------> STOPPING
 *	   ^                                            |
 *	   +-------------------- run() -----------------+
 *
 * In a simulated world (.sim of the reactors' options) all cores are on the
 * calling thread, and whose turn it is is drawn; the rest is the same.
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

/* At most so many cores. */
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
 * .n_cores is 0 for one reactor on each CPU that this thread may run on, but no
 * more than the quota of its cgroup (version 2) has CPU time for.
 */
struct weir_group_opts {
	size_t size;
	uint32_t n_cores;	/* Reactors; 0: see above. */
	uint32_t flags;		/* WEIR_GROUP_ */
	uint32_t spsc; /* Messages that fit from one core to another,
				 * a power of 2; 0: 1024, fewer from 9 on. */
	const struct weir_reactor_opts *reactor; /* Each one's; NULL: none. */
};

/* What happened to a core; weir_group_event.kind. */
#define WEIR_GROUP_CPU_LOST 1	/* It may not run on its CPU any more. */
#define WEIR_GROUP_NOT_PINNED 2	/* It could not be bound to its CPU. */
#define WEIR_GROUP_NOT_LOCAL 3	/* Its memory may come from other nodes. */
#define WEIR_GROUP_FAILED 4	/* Its loop has failed; the group stops. */

/* Something that went wrong with a core, and that the group goes on after. */
struct weir_group_event {
	size_t size;
	uint32_t kind;		/* WEIR_GROUP_CPU_LOST, ... */
	uint32_t core;
	int32_t cpu;		/* The core's; -1: it has none. */
	int32_t err;		/* A negative errno, or 0. */
	const char *text;	/* A message, as long as the call lasts. */
};

/*
 * How a core spends its time, in nanoseconds: .busy_ns is work and the loop
 * itself, .spin_ns looking for work, .sleep_ns waiting in the kernel.
 *
 * The .last_ members say how much that has grown since this struct was filled
 * before: keep one for each core, zeroed at first, and the time between two
 * calls is the interval.
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
 * Create a group, in state STOPPED: no thread, and no reactor yet.
 *
 * More cores than CPUs are allowed: they share, and then do not spin.
 *
 * Returns 0 with *@ret set, to be freed by weir_group_destroy(), or
 *   -EINVAL  an option is out of its range
 *   -E2BIG   @opts sets a member that this version does not have
 *   -ENOMEM  no memory
 *
 * Any thread.
 */
WEIR_API int weir_group_create(struct weir_group **ret,
			       const struct weir_group_opts *opts);

/*
 * Free @group.  NULL is allowed.
 *
 * Returns 0, or, with @group as it was:
 *   -EBUSY  it is not STOPPED: call weir_group_stop() and weir_group_run()
 *
 * Call on the thread that has started it, or any if none did.
 */
WEIR_API int weir_group_destroy(struct weir_group *group);

/*
 * Put core i of @group on the CPU @cpus[i], for all of its @n cores.
 *
 * Without this the group takes the CPUs that the thread that starts it may run
 * on, in their order, and from the first again if there are more cores.
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
 * Have @init and @fini, of which each may be NULL, called with @arg for each
 * core, on its thread: when the group starts, and when it has stopped.
 *
 * They are called one after the other, @init for core 0 first, @fini for core 0
 * last, so that they need no lock among themselves.  All reactors exist from
 * the first @init to the last @fini, but do not run meanwhile: what one posts
 * to another is run later.  If an @init returns a negative errno the start
 * fails with it.  @fini is called for the cores whose @init has returned 0;
 * there the reactor is STOPPED, and its watches, timers and pools are
 * destroyed.
 *
 * Returns 0, or
 *   -EBADFD  @group is not STOPPED
 *
 * Call on the owner's thread.
 */
WEIR_API int weir_group_set_core_fns(struct weir_group *group,
	int (*init)(struct weir_group *group, uint32_t core, void *arg),
	void (*fini)(struct weir_group *group, uint32_t core, void *arg),
	void *arg);

/*
 * Have @fn called with @arg when something goes wrong with a core that the
 * group can go on after, on that core's thread.  Several may be called at a
 * time.
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
 * Start @group: threads on their CPUs, reactors, @init of each core; and then
 * let them run.  Starting what is started has no effect.
 *
 * Where there is more than one NUMA node, a core's memory is asked for on its
 * CPU's.  The threads have all signals blocked; those that a reactor makes for
 * what blocks may run wherever the calling thread may.  With WEIR_GROUP_ADOPT
 * core 0 is the calling thread, which is bound to its CPU until the group has
 * stopped, and runs in weir_group_run(); before that it may make turns by hand.
 *
 * If a core fails, those that were started are stopped, in reverse order, and
 * @group is STOPPED again; weir_why() says which core and why.
 *
 * Returns 0, or
 *   -EBUSY   it is STOPPING: call weir_group_run() first
 *   -EINVAL  a CPU of weir_group_set_cpus() is not there, or not for us
 *   -EAGAIN  no thread could be made; see ulimit -u
 *   -ENOMEM, -EMFILE and others  what weir_reactor_create() or @init has
 *            returned
 *
 * Any thread, outside the callbacks of its cores; that thread then owns it.
 */
WEIR_API int weir_group_start(struct weir_group *group);

/*
 * Run @group until it has stopped: core 0, if the calling thread is it, or else
 * just wait.
 *
 * Then all operations of all cores have ended, calls between them were
 * answered, @fini was called for each core, the last first, and reactors and
 * threads are gone.  STOPPED and at once, if it was not started.
 *
 * Returns 0, or what the first core that failed has come to:
 *   -EBUSY  called from a callback of one of the cores; or, of a core: after
 *           @fini it still had objects or operations.  weir_why() names them;
 *           that reactor is deliberately kept: a thread may still write to
 *           it; it is never freed.
 *   -ENOMEM, -EIO  the kernel refused to wait
 *
 * Call on the owner's thread.
 */
WEIR_API int weir_group_run(struct weir_group *group);

/*
 * Ask all cores of @group to stop: no new work, cancel what is in flight, drain
 * it, answer each other.  weir_group_run() returns when that is done.
 *
 * A reactor of a group that was told to stop alone stays STOPPING until all
 * others are, for it may owe them answers.
 *
 * Returns 0, also if it is stopping or stopped: so it has no effect in an
 * @init, where the group is not started yet.
 *
 * Any thread, callbacks included.  Takes a lock.  @group must not be destroyed
 * meanwhile.
 */
WEIR_API int weir_group_stop(struct weir_group *group);

/*
 * The state of @group: WEIR_GROUP_STOPPED, _STARTED or _STOPPING.
 *
 * Any thread.  Takes a lock.  Re-creates rte_eal_get_lcore_state().
 */
WEIR_API int weir_group_state(struct weir_group *group);

/*
 * How many cores @group has.
 *
 * Any thread.  Never blocks.
 */
WEIR_API uint32_t weir_group_size(const struct weir_group *group);

/*
 * The reactor of @core of @group; NULL if there is no such core or it is
 * STOPPED.  To post to it and call it, from anywhere; the rest is its thread's.
 *
 * Any thread, while the group is started.  Never blocks.
 */
WEIR_API struct weir_reactor *weir_group_reactor(
	const struct weir_group *group, uint32_t core);

/*
 * The CPU of @core of @group, or -1 if it has none.
 *
 * Any thread, while the group is started.  Never blocks.
 */
WEIR_API int weir_group_cpu(const struct weir_group *group, uint32_t core);

/*
 * How many CPUs there were, what the quota was, and where memory is, as one
 * line for a person to read.
 *
 * The string is @group's, and changes when it starts.
 *
 * Call on the owner's thread.  Never blocks.
 */
WEIR_API const char *weir_group_describe(const struct weir_group *group);

/*
 * Copy how @core of @group spends its time to *@ret, whose .size the caller has
 * set.  It is exact for a core that sleeps; for another up to 10 ms of spinning
 * may still count as work.
 *
 * A core that is busy nearly all of the time is where the next connection
 * should not go; weir moves no work by itself.
 *
 * Returns 0, or
 *   -EINVAL  there is no such core, or .size is too small
 *   -EBADFD  @group is STOPPED, or all its cores have stopped
 *
 * Any thread.  @group must not be destroyed meanwhile.  Takes a lock for a
 * moment; that core is neither stopped nor woken.
 */
WEIR_API int weir_group_load(struct weir_group *group, uint32_t core,
			     struct weir_group_load *ret);

#ifdef __cplusplus
}
#endif
#endif /* WEIR_GROUP_H */
