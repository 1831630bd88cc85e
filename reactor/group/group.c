/* SPDX-License-Identifier: BSD-3-Clause */
/* A group's life: configuration, start, stop, run; README.md has its states. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "reactor/group/group.h"

#define SPSC_MAX 65536
#define SPSC_USUAL 1024
#define SPSC_LEAST 64
#define RINGS_USUAL 8 /* Up to this many: usual size. */

/* The CPUs that we may use, within the quota; by default one core for each. */
static uint32_t default_cores(struct weir_group *group)
{
	uint32_t n = cpus_allowed(NULL, 0);

	group->quota = cpus_quota("");
	if (group->quota > 0 && n > group->quota)
		n = (uint32_t)group->quota;
	if (n > WEIR_GROUP_CORES_MAX)
		n = WEIR_GROUP_CORES_MAX;
	return n ? n : 1;
}

/* Memory for them grows with the square of the cores, so they get shorter. */
static uint32_t default_spsc(uint32_t n)
{
	uint32_t size = SPSC_USUAL;

	for (; n > RINGS_USUAL && size > SPSC_LEAST; n /= 2)
		size /= 2;
	return size;
}

static int opts_check(struct weir_group_opts *o)
{
	if (o->n_cores > WEIR_GROUP_CORES_MAX)
		return why(-EINVAL, "weir_group_create: .n_cores is %u; at "
			   "most %u", o->n_cores, WEIR_GROUP_CORES_MAX);
	if (o->flags & ~(WEIR_GROUP_ADOPT | WEIR_GROUP_NO_PIN))
		return why(-EINVAL, "weir_group_create: .flags has bits that "
			   "mean nothing: %#x", o->flags);
	if (o->spsc > SPSC_MAX || o->spsc & (o->spsc - 1))
		return why(-EINVAL,
			   "weir_group_create: .spsc is %u; a power "
			   "of 2, at most %u",
			   o->spsc, SPSC_MAX);
	return 0;
}

static void group_free(struct weir_group *group)
{
	ring_matrix_destroy(group->mesh);
	pthread_cond_destroy(&group->cond);
	pthread_mutex_destroy(&group->lock);
	free(group->cores);
	free(group->cpus);
	free(group);
}

static int group_fill(struct weir_group *group, const struct weir_group_opts *o)
{
	group->opts = *o;
	group->state = WEIR_GROUP_STOPPED;
	pthread_mutex_init(&group->lock, NULL);
	pthread_cond_init(&group->cond, NULL);
	group->n = default_cores(group);
	if (o->n_cores)
		group->n = o->n_cores;
	if (!group->opts.spsc)
		group->opts.spsc = default_spsc(group->n);
	group->n_nodes = nodes_count("");
	group->cores = mem_aligned(64, group->n * sizeof(*group->cores));
	return group->cores ? 0 : -ENOMEM;
}

int weir_group_create(struct weir_group **ret,
		      const struct weir_group_opts *opts)
{
	struct weir_reactor_opts reactor;
	struct weir_group_opts o;
	struct weir_group *group;
	int err;

	err = opts_load(&o, sizeof(o), opts, "weir_group_create");
	if (!err)
		err = opts_check(&o);
	if (!err)
		err = opts_load(&reactor, sizeof(reactor), o.reactor,
				"weir_group_create");
	if (err)
		return err;
	group = mem_calloc(1, sizeof(*group));
	if (!group)
		return why(-ENOMEM, "weir_group_create: no memory");
	group->reactor_opts = reactor;
	group->reactor_opts.size = sizeof(reactor);
	if (!reactor.sim && reactor.backend == WEIR_BACKEND_AUTO)
		group->reactor_opts.sim = world_here();
	err = group_fill(group, &o);
	if (err) {
		group_free(group);
		return why(err, "weir_group_create: no memory");
	}
	*ret = group;
	return 0;
}

static void set_state(struct weir_group *group, int state)
{
	pthread_mutex_lock(&group->lock);
	group->state = state;
	group->ending = state == WEIR_GROUP_STOPPED;
	pthread_mutex_unlock(&group->lock);
}

int weir_group_state(struct weir_group *group)
{
	int state;

	pthread_mutex_lock(&group->lock);
	state = group->state;
	pthread_mutex_unlock(&group->lock);
	return state;
}

static int must_be_stopped(struct weir_group *group, const char *call)
{
	if (weir_group_state(group) == WEIR_GROUP_STOPPED)
		return 0;
	return why(-EBADFD, "%s: the group is started; stop it, and run it "
		   "until it has stopped", call);
}

int weir_group_destroy(struct weir_group *group)
{
	if (!group)
		return 0;
	if (weir_group_state(group) != WEIR_GROUP_STOPPED)
		return why(-EBUSY, "weir_group_destroy: the group is started; "
			   "call weir_group_stop() and weir_group_run()");
	group_free(group);
	return 0;
}

int weir_group_set_cpus(struct weir_group *group, const uint32_t *cpus,
			uint32_t n)
{
	int err = must_be_stopped(group, "weir_group_set_cpus");
	uint32_t *copy;

	if (err)
		return err;
	if (n != group->n)
		return why(-EINVAL, "weir_group_set_cpus: %u CPUs for %u cores",
			   n, group->n);
	copy = mem_calloc(n, sizeof(*copy));
	if (!copy)
		return why(-ENOMEM, "weir_group_set_cpus: no memory");
	memcpy(copy, cpus, n * sizeof(*copy));
	free(group->cpus);
	group->cpus = copy;
	return 0;
}

int weir_group_set_core_fns(struct weir_group *group,
	int (*init)(struct weir_group *group, uint32_t core, void *arg),
	void (*fini)(struct weir_group *group, uint32_t core, void *arg),
	void *arg)
{
	int err = must_be_stopped(group, "weir_group_set_core_fns");

	if (err)
		return err;
	group->init = init;
	group->fini = fini;
	group->arg = arg;
	return 0;
}

int weir_group_set_event_fn(struct weir_group *group,
	void (*fn)(struct weir_group *group,
		   const struct weir_group_event *event, void *arg),
	void *arg)
{
	int err = must_be_stopped(group, "weir_group_set_event_fn");

	if (err)
		return err;
	group->event = fn;
	group->event_arg = arg;
	return 0;
}

/* Elsewhere it does not matter which CPUs were named. */
static bool pins(const struct weir_group *group)
{
	return !(group->opts.flags & WEIR_GROUP_NO_PIN) &&
	       !group->reactor_opts.sim;
}

/* Refuse numbers that no CPU can have and that a cpu_set_t cannot hold. */
static int check_cpus(const struct weir_group *group)
{
	for (uint32_t i = 0; group->cpus && pins(group) && i < group->n; i++)
		if (group->cpus[i] >= CPU_SETSIZE)
			return why(-EINVAL, "weir_group_start: core %u: CPU %u "
				   "is not there; the last one can be %d", i,
				   group->cpus[i], CPU_SETSIZE - 1);
	return 0;
}

/* Choose the CPU of each core, from those named or those that we may use. */
static void choose_cpus(struct weir_group *group)
{
	uint32_t allowed[CPU_SETSIZE];
	uint32_t n = cpus_allowed(allowed, CPU_SETSIZE), i;
	bool none = !pins(group);

	for (i = 0; i < group->n; i++) {
		group->cores[i].cpu = -1;
		if (none || (!group->cpus && !n))
			continue;
		group->cores[i].cpu = (int)(group->cpus ? group->cpus[i]
							: allowed[i % n]);
	}
	snprintf(group->describe, sizeof(group->describe), "%u cores; this "
		 "thread may use %u CPUs; quota %.4g CPUs%s; %u NUMA nodes%s",
		 group->n, n, group->quota, group->quota > 0 ? "" : " (none)",
		 group->n_nodes, group->n_nodes < 2 ?
		 ": all memory is as near" : ", each core's memory on its own");
}

static void set_up_cores(struct weir_group *group)
{
	struct group_core *core;
	cpu_set_t affinity;

	CPU_ZERO(&affinity);
	sched_getaffinity(0, sizeof(affinity), &affinity);
	memset(group->cores, 0, group->n * sizeof(*group->cores));
	for (uint32_t i = 0; i < group->n; i++) {
		core = &group->cores[i];
		core->group = group;
		core->index = i;
		core->affinity = affinity;
		core->here = group->reactor_opts.sim ||
			     (!i && group->opts.flags & WEIR_GROUP_ADOPT);
	}
	choose_cpus(group);
}

/* Until one fails. */
static int do_all(struct weir_group *group, enum core_step step)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < group->n; i++)
		err = core_do(&group->cores[i], step);
	return err;
}

static void do_all_backwards(struct weir_group *group, enum core_step step)
{
	for (uint32_t i = group->n; i-- > 0;)
		core_do(&group->cores[i], step);
}

static int begin_threads(struct weir_group *group)
{
	struct group_core *core;
	int err;

	for (uint32_t i = 0; i < group->n; i++) {
		core = &group->cores[i];
		err = core->here ? 0 : core_begin_thread(core);
		if (!err)
			continue;
		core->err = err;
		snprintf(core->why, sizeof(core->why), "no thread can be made: "
			 "error %d; is ulimit -u too low?", -err);
		return err;
	}
	return 0;
}

static void end_threads(struct weir_group *group)
{
	struct group_core *core;

	for (uint32_t i = group->n; i-- > 0;) {
		core = &group->cores[i];
		core_tell(core, CORE_END);
		if (core->has_thread)
			pthread_join(core->thread, NULL);
		core->has_thread = false;
	}
}

static void run_all(struct weir_group *group)
{
	for (uint32_t i = 0; i < group->n; i++)
		core_tell(&group->cores[i], CORE_RUN);
}

/* Run the cores of this thread, and wait for the others; then no thread touches
 * a reactor any more. */
static void await_all(struct weir_group *group)
{
	for (uint32_t i = 0; i < group->n; i++)
		if (group->cores[i].here)
			core_do(&group->cores[i], CORE_RUN);
	for (uint32_t i = 0; i < group->n; i++)
		core_await(&group->cores[i]);
	pthread_mutex_lock(&group->lock);
	group->ending = true;
	pthread_mutex_unlock(&group->lock);
}

/* Report the error of the first core that failed, for @call. */
static int first_error(struct weir_group *group, const char *call)
{
	const struct group_core *core;

	for (uint32_t i = 0; i < group->n; i++) {
		core = &group->cores[i];
		if (core->err)
			return why(core->err, "%s: core %u: %s", call, i,
				   core->why[0] ? core->why :
				   "its init function has failed");
	}
	return 0;
}

/* All reactors are stopped, or none has run. */
static void take_down(struct weir_group *group)
{
	do_all_backwards(group, CORE_FINI);
	do_all_backwards(group, CORE_DESTROY);
	end_threads(group);
	ring_matrix_destroy(group->mesh);
	group->mesh = NULL;
	set_state(group, WEIR_GROUP_STOPPED);
}

static void stop_all(struct weir_group *group)
{
	for (uint32_t i = 0; i < group->n; i++)
		weir_reactor_stop(group->cores[i].r);
}

static int start(struct weir_group *group)
{
	int err = check_cpus(group);

	if (err)
		return err;
	group->mesh = ring_matrix_create(group->n, group->opts.spsc);
	if (!group->mesh)
		return why(-ENOMEM,
			   "weir_group_start: no memory for rings of "
			   "%u messages",
			   group->opts.spsc);
	set_up_cores(group);
	err = begin_threads(group);
	if (!err)
		err = do_all(group, CORE_CREATE);
	if (err) {
		take_down(group);
		return first_error(group, "weir_group_start");
	}
	err = do_all(group, CORE_INIT);
	if (err)
		stop_all(group);
	else
		set_state(group, WEIR_GROUP_STARTED);
	/* From here on a core may stop the group. */
	run_all(group);
	if (!err)
		return 0;
	/* Run what the init functions of the other cores have started to its
	 * end. */
	await_all(group);
	take_down(group);
	return first_error(group, "weir_group_start");
}

int weir_group_start(struct weir_group *group)
{
	switch (weir_group_state(group)) {
	case WEIR_GROUP_STARTED:
		return 0;
	case WEIR_GROUP_STOPPING:
		return why(-EBUSY, "weir_group_start: it is stopping; run it "
			   "until it has stopped");
	}
	return start(group);
}

static bool in_a_callback(const struct weir_group *group)
{
	const struct weir_reactor *r = rings_here;

	if (r && reactor_is_entered(r) && r->core && r->core->group == group)
		return true;
	/* Another's turn may be within that of a core that is here. */
	r = group->cores[0].here ? group->cores[0].r : NULL;
	return r && reactor_is_entered(r);
}

int weir_group_run(struct weir_group *group)
{
	if (in_a_callback(group))
		return why(-EBUSY, "weir_group_run: called from a callback of "
			   "one of its cores");
	if (weir_group_state(group) == WEIR_GROUP_STOPPED)
		return 0;
	await_all(group);
	take_down(group);
	return first_error(group, "weir_group_run");
}

int weir_group_stop(struct weir_group *group)
{
	pthread_mutex_lock(&group->lock);
	if (group->state == WEIR_GROUP_STARTED)
		group->state = WEIR_GROUP_STOPPING;
	if (group->state == WEIR_GROUP_STOPPING && !group->ending)
		stop_all(group);
	pthread_mutex_unlock(&group->lock);
	return 0;
}

uint32_t weir_group_size(const struct weir_group *group)
{
	return group->n;
}

struct weir_reactor *weir_group_reactor(const struct weir_group *group,
					uint32_t core)
{
	return core < group->n ? group->cores[core].r : NULL;
}

int weir_group_cpu(const struct weir_group *group, uint32_t core)
{
	return core < group->n ? group->cores[core].cpu : -1;
}

const char *weir_group_describe(const struct weir_group *group)
{
	return group->describe;
}
