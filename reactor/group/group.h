/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_GROUP_H
#define WEIR_REACTOR_GROUP_H

/*
 * The internals of a group.
 *
 *	group.c       its life: configuration, start, stop, run
 *	group/core.c  one core: its thread, and its steps
 *	group/cpu.c   CPUs, quotas and nodes, as the kernel reports them
 *	group/load.c  how a core reports its time to other threads
 *
 * The owner has each core do one step, and waits for it.  Only RUN is done by
 * all cores at once.  Cores on the calling thread do their steps within the
 * call: an adopted core, and all cores of a simulated world.
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <weir/group.h>

#include "reactor/group/spsc.h"
#include "reactor/reactor-internal.h"

#define NODES_MAX 1024	/* The most that Linux supports. */

/* A thread's memory policy, as set_mempolicy() has it. */
struct memory_policy {
	int mode;
	unsigned long nodes[NODES_MAX / (8 * sizeof(long))];
};

enum core_step {
	CORE_NOTHING,
	CORE_CREATE,	/* Be on its CPU, make a reactor. */
	CORE_INIT,
	CORE_RUN,
	CORE_FINI,
	CORE_DESTROY,	/* The reactor. */
	CORE_END,	/* The thread. */
};

/*
 * What others may read of a core's time.  .seq is odd while it is written; all
 * are sequentially consistent, so that no fence is needed.
 */
struct core_clock {
	_Alignas(64) atomic_uint seq;
	atomic_bool asleep;
	_Atomic uint64_t at_ns;		/* When the rest was true, */
	_Atomic uint64_t spin_ns;	/* in all, */
	_Atomic uint64_t sleep_ns;
	_Atomic uint64_t sleeps;
};

struct group_core {
	struct weir_group *group;
	uint32_t index;
	int cpu;			/* -1: none. */
	bool here;			/* It is the owner's thread. */
	bool has_thread;
	bool inited;
	bool lost;			/* Its CPU is gone; reported. */
	uint64_t looked_ns;		/* At which CPU it is on. */
	pthread_t thread;
	enum core_step told, did;	/* Under the group's lock. */
	struct weir_reactor *r;
	int err;			/* The first, and its message. */
	char why[192];
	cpu_set_t affinity;		/* Of an adopted thread, before. */
	struct memory_policy memory;	/* The same. */
	bool pinned, local;
	struct core_clock clock;
};

struct weir_group {
	struct weir_group_opts opts;
	struct weir_reactor_opts reactor_opts;
	int state;			/* WEIR_GROUP_, under the lock. */
	bool ending;			/* Reactors go: no thread touches them. */
	uint32_t n;
	uint32_t *cpus;			/* NULL: chosen at the start. */
	struct group_core *cores;
	struct ring_matrix *mesh;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	int (*init)(struct weir_group *group, uint32_t core, void *arg);
	void (*fini)(struct weir_group *group, uint32_t core, void *arg);
	void *arg;
	void (*event)(struct weir_group *group,
		      const struct weir_group_event *event, void *arg);
	void *event_arg;
	uint32_t n_nodes;		/* 0: unknown. */
	double quota;			/* CPUs; 0: none. */
	char describe[256];
};

/* group/core.c: have @core do @step and wait; or, for RUN, not wait. */
int core_do(struct group_core *core, enum core_step step);
void core_tell(struct group_core *core, enum core_step step);
void core_await(struct group_core *core);
int core_begin_thread(struct group_core *core);

/* group/load.c: report an event of @core to the group. */
__attribute__((format(printf, 4, 5))) void core_event(
	struct group_core *core, uint32_t kind, int err, const char *fmt, ...);

/* Is the thread of @r bound to a CPU?  Then where it could run before that. */
bool core_is_bound(const struct weir_reactor *r, cpu_set_t *cpus);

/*
 * group/cpu.c.  @root is where /proc and /sys are: "", but in tests.
 * The CPUs that this thread may use: how many, and at most @max of them.
 */
uint32_t cpus_allowed(uint32_t *cpus, uint32_t max);
/* CPUs' worth of time that the cgroup gives in a period; 0: no bound. */
double cpus_quota(const char *root);
/* How many nodes there are, 0: that is not known; and that of a CPU, or -1. */
uint32_t nodes_count(const char *root);
int node_of_cpu(const char *root, uint32_t cpu);
/* Bind this thread, and its memory; what that was before is in *@old, to be put
 * back.  0 or a negative errno. */
int cpu_pin(uint32_t cpu);
int memory_prefer(int node, struct memory_policy *old);
int memory_restore(const struct memory_policy *old);

#endif /* WEIR_REACTOR_GROUP_H */
