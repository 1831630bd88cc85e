/* SPDX-License-Identifier: BSD-3-Clause */
/* One core of a group: its thread, and the steps that the group has it do. */

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/why.h"
#include "reactor/group/group.h"

#define TRIES_MAX 100	/* Retries of a failing loop; 1 ms apart. */

/* The first error is the one that counts. */
static int core_failed(struct group_core *core, int err)
{
	if (core->err)
		return err;
	core->err = err;
	snprintf(core->why, sizeof(core->why), "%s", weir_why());
	return err;
}

/* A CPU that the caller named must exist; one that we chose may have gone. */
static int pin(struct group_core *core)
{
	int err;

	if (core->cpu < 0)
		return 0;
	err = cpu_pin((uint32_t)core->cpu);
	core->pinned = !err;
	if (!err)
		return 0;
	if (core->group->cpus)
		return why(-EINVAL, "weir_group_create: CPU %d is not there, or "
			   "not for this process (error %d); see taskset -p and the "
			   "cgroup's cpuset", core->cpu, -err);
	core_event(core, WEIR_GROUP_NOT_PINNED, err, "core %u cannot be bound "
		   "to CPU %d (error %d); it runs where the kernel puts it",
		   core->index, core->cpu, -err);
	return 0;
}

static void have_memory_near(struct group_core *core)
{
	int node, err;

	if (core->group->n_nodes < 2 || core->cpu < 0)
		return;
	node = node_of_cpu("", (uint32_t)core->cpu);
	err = node < 0 ? -ENOENT : memory_prefer(node, &core->memory);
	core->local = !err;
	if (err)
		core_event(core, WEIR_GROUP_NOT_LOCAL, err, "memory of core %u "
			   "may be on any node: error %d of set_mempolicy()",
			   core->index, -err);
}

/* The core shares its CPU, or the quota of CPU time, with others of the
 * group. */
static bool shares_cpu(const struct group_core *core)
{
	const struct weir_group *group = core->group;

	if (group->quota > 0 && group->n > group->quota)
		return true;
	if (core->cpu < 0)
		return group->n > cpus_allowed(NULL, 0);
	for (uint32_t i = 0; i < group->n; i++)
		if (i != core->index && group->cores[i].cpu == core->cpu)
			return true;
	return false;
}

static int core_create(struct group_core *core)
{
	struct weir_reactor_opts opts = core->group->reactor_opts;
	int err = pin(core);

	if (err)
		return err;
	have_memory_near(core);
	if (shares_cpu(core))
		opts.spin_ns = WEIR_SPIN_NONE;
	err = weir_reactor_create(&core->r, &opts);
	if (err)
		return err;
	core->looked_ns = core->r->wait.born_ns;
	core->r->core = core;
	core->r->publish_at = 0;
	core_tell_time(core->r, core->r->wait.born_ns, false);
	rings_join(core->group->mesh, core->index, core->r);
	if (!opts.sim)
		rings_here = core->r;
	return 0;
}

static int core_init(struct group_core *core)
{
	struct weir_group *group = core->group;
	int err = 0;

	if (group->init)
		err = group->init(group, core->index, group->arg);
	core->inited = !err;
	return err;
}

/*
 * If the kernel does not answer any more, the core's own operations may be
 * lost.  Messages do not need the kernel, so those in flight between this core
 * and the others are completed first; otherwise the other cores would wait for
 * ever.
 */
static bool may_give_up(struct group_core *core, unsigned int tries)
{
	if (tries < TRIES_MAX)
		return false;
	/* If one thread runs all cores, no other core proceeds meanwhile. */
	return reactor_settle(core->r) || core->r->backend->isolated;
}

/* Report a failure of the loop, and try again: the cause may pass. */
static int core_run(struct group_core *core)
{
	unsigned int tries = 0;
	int err;

	while ((err = weir_reactor_run(core->r))) {
		if (err > 0)
			continue;
		core_failed(core, err);
		if (!tries)
			core_event(core, WEIR_GROUP_FAILED, err, "%s",
				   core->why);
		weir_group_stop(core->group);
		if (may_give_up(core, ++tries))
			break;
		if (!core->r->backend->isolated)
			usleep(1000);
	}
	if (err)
		rings_quiet(core->r->mailbox.rings);
	return err;
}

static int core_fini(struct group_core *core)
{
	struct weir_group *group = core->group;

	if (core->inited && group->fini)
		group->fini(group, core->index, group->arg);
	core->inited = false;
	return 0;
}

/* All others are stopped as well: nothing can come by a ring any more. */
static int core_destroy(struct group_core *core)
{
	struct weir_reactor *r = core->r;

	if (core->here && core->pinned)
		sched_setaffinity(0, sizeof(core->affinity), &core->affinity);
	if (core->here && core->local)
		memory_restore(&core->memory);
	if (!r)
		return 0;
	rings_forget(r);
	r->mailbox.rings = NULL;
	mailbox_note_more(&r->mailbox);
	r->core = NULL;
	core->r = NULL;
	return weir_reactor_destroy(r);
}

static int core_step(struct group_core *core, enum core_step step)
{
	static int (*const steps[])(struct group_core *core) = {
		[CORE_CREATE] = core_create, [CORE_INIT] = core_init,
		[CORE_RUN] = core_run, [CORE_FINI] = core_fini,
		[CORE_DESTROY] = core_destroy,
	};
	int err;

	/* An older message is not about this. */
	why(0, "%s", "");
	err = steps[step](core);
	return err < 0 ? core_failed(core, err) : 0;
}

static enum core_step await_order(struct group_core *core)
{
	struct weir_group *group = core->group;
	enum core_step step;

	pthread_mutex_lock(&group->lock);
	while (core->told == core->did)
		pthread_cond_wait(&group->cond, &group->lock);
	step = core->told;
	pthread_mutex_unlock(&group->lock);
	return step;
}

static void report(struct group_core *core, enum core_step step)
{
	struct weir_group *group = core->group;

	pthread_mutex_lock(&group->lock);
	core->did = step;
	pthread_cond_broadcast(&group->cond);
	pthread_mutex_unlock(&group->lock);
}

static void *core_main(void *arg)
{
	struct group_core *core = arg;
	enum core_step step;
	char name[16];

	snprintf(name, sizeof(name), "weir-%u", core->index);
	pthread_setname_np(pthread_self(), name);
	while ((step = await_order(core)) != CORE_END) {
		core_step(core, step);
		report(core, step);
	}
	return NULL;
}

/* Signals are the application's own threads' business. */
int core_begin_thread(struct group_core *core)
{
	sigset_t all, old;
	int err;

	if (fault("pthread_create"))
		return -EAGAIN;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&core->thread, NULL, core_main, core);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	core->has_thread = !err;
	return -err;
}

void core_tell(struct group_core *core, enum core_step step)
{
	struct weir_group *group = core->group;

	if (core->here || !core->has_thread)
		return;
	pthread_mutex_lock(&group->lock);
	core->told = step;
	pthread_cond_broadcast(&group->cond);
	pthread_mutex_unlock(&group->lock);
}

void core_await(struct group_core *core)
{
	struct weir_group *group = core->group;

	if (core->here || !core->has_thread)
		return;
	pthread_mutex_lock(&group->lock);
	while (core->told != core->did)
		pthread_cond_wait(&group->cond, &group->lock);
	pthread_mutex_unlock(&group->lock);
}

int core_do(struct group_core *core, enum core_step step)
{
	if (core->here) {
		core_step(core, step);
	} else {
		core_tell(core, step);
		core_await(core);
	}
	return core->err;
}
