/* SPDX-License-Identifier: BSD-3-Clause */

/* Groups: which CPUs their cores get and lose, quotas, nodes. */

#include "tests/support/group-fixture.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "reactor/group/group.h"

static void nothing(void *arg)
{
	(void)arg;
}

static void a_cpu_that_is_not_there_is_named(void **state)
{
	uint32_t cpus[2] = { 0, CPU_SETSIZE - 1 };
	struct team t;

	team_create(&t, state, 2, 0);
	assert_int_equal(weir_group_set_cpus(t.group, cpus, 2), 0);
	assert_int_equal(weir_group_start(t.group), -EINVAL);
	assert_non_null(strstr(weir_why(), "CPU 1023"));
	assert_int_equal(weir_group_destroy(t.group), 0);
}

/* As a signed number the last one is -1, which is no CPU at all. */
static void a_cpu_that_no_set_can_hold_is_named(void **state)
{
	static const struct {
		uint32_t cpu;
		const char *name;
	} cases[] = {
		{ CPU_SETSIZE, "CPU 1024" },
		{ 1u << 31, "CPU 2147483648" },
		{ UINT32_MAX, "CPU 4294967295" },
	};
	uint32_t cpus[2] = { 0 };
	struct team t;

	for (size_t i = 0; i < N_OF(cases); i++) {
		cpus[1] = cases[i].cpu;
		team_create(&t, state, 2, 0);
		assert_int_equal(weir_group_set_cpus(t.group, cpus, 2), 0);
		assert_int_equal(weir_group_start(t.group), -EINVAL);
		assert_non_null(strstr(weir_why(), cases[i].name));
		assert_int_equal(weir_group_state(t.group),
				 WEIR_GROUP_STOPPED);
		assert_int_equal(weir_group_destroy(t.group), 0);
	}
}

static int see_cpu(struct weir_group *group, uint32_t core, void *arg)
{
	atomic_int *wrong = arg;

	if (weir_group_cpu(group, core) != sched_getcpu())
		atomic_fetch_add(wrong, 1);
	return 0;
}

static void core_runs_on_its_cpu_and_the_callers_affinity_is_kept(void **state)
{
	cpu_set_t before, after;
	atomic_int wrong = 0;
	struct team t;

	sched_getaffinity(0, sizeof(before), &before);
	team_create(&t, state, 2, 0);
	weir_group_set_core_fns(t.group, see_cpu, NULL, &wrong);
	team_start(&t);
	assert_int_equal(atomic_load(&wrong), 0);
	assert_non_null(strstr(weir_group_describe(t.group), "2 cores"));
	team_end(&t);
	sched_getaffinity(0, sizeof(after), &after);
	assert_true(CPU_EQUAL(&before, &after));
}

/* How many CPUs the thread that runs this may use. */
static int64_t count_cpus(void *arg)
{
	(void)arg;
	return cpus_allowed(NULL, 0);
}

static void worker_thread_is_not_bound_to_a_cpu_of_a_core(void **state)
{
	uint32_t n = cpus_allowed(NULL, 0);
	struct rec rec;
	struct team t;

	team_begin(&t, state, 2, 0);
	assert_int_equal(cpus_allowed(NULL, 0), 1);
	rec_init(&rec);
	STARTS(weir_work(t.r[0], &rec.op, count_cpus, NULL));
	assert_int_equal(finish(t.r[0], &rec), n);
	team_end(&t);
}

static void cores_that_share_a_cpu_do_not_spin(void **state)
{
	uint32_t cpu, cpus[3];
	struct team t;
	int i;

	assert_true(cpus_allowed(&cpu, 1) > 0);
	cpus[0] = cpus[1] = cpus[2] = cpu;
	team_create(&t, state, 3, 0);
	assert_int_equal(weir_group_set_cpus(t.group, cpus, 3), 0);
	team_start(&t);
	for (i = 0; i < 3; i++)
		assert_int_equal(t.r[i]->wait.spin.max_ns, 0);
	team_end(&t);
}

static void cores_beyond_the_cpus_do_not_spin(void **state)
{
	struct weir_reactor_opts ropts = {
		.size = sizeof(ropts), .backend = backend_of(*state),
	};
	struct weir_group_opts opts = {
		.size = sizeof(opts), .n_cores = cpus_allowed(NULL, 0) + 1,
		.flags = WEIR_GROUP_NO_PIN, .reactor = &ropts,
	};
	struct weir_group *group;

	if (opts.n_cores > 16)
		skip_because("there are too many CPUs");
	assert_int_equal(weir_group_create(&group, &opts), 0);
	assert_int_equal(weir_group_start(group), 0);
	for (uint32_t i = 0; i < opts.n_cores; i++)
		assert_int_equal(weir_group_reactor(group, i)->wait.spin.max_ns, 0);
	weir_group_stop(group);
	assert_int_equal(weir_group_run(group), 0);
	assert_int_equal(weir_group_destroy(group), 0);
}

static void note_event(struct weir_group *group,
		       const struct weir_group_event *event, void *arg)
{
	atomic_uint *seen = arg;

	(void)group;
	if (event->text[0])
		atomic_fetch_or(seen, 1u << event->kind);
}

/* As a cpuset would: bound elsewhere, while it runs. */
static void take_cpu_away(void *arg)
{
	struct weir_group *group = arg;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(weir_group_cpu(group, 0), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void a_core_that_loses_its_cpu_says_so_and_goes_on(void **state)
{
	atomic_uint seen = 0;
	struct rec rec;
	struct team t;

	if (cpus_allowed(NULL, 0) < 2)
		skip_because("this process may use one CPU only");
	team_create(&t, state, 2, 0);
	weir_group_set_event_fn(t.group, note_event, &seen);
	team_start(&t);
	assert_int_equal(weir_post(t.r[1], take_cpu_away, t.group), 0);
	while (!(atomic_load(&seen) & 1u << WEIR_GROUP_CPU_LOST)) {
		rec_init(&rec);
		STARTS(weir_sleep_until(t.r[0], &rec.op,
			weir_reactor_now(t.r[0]) + WEIR_MSEC));
		assert_int_equal(finish(t.r[0], &rec), 0);
		weir_post(t.r[1], nothing, NULL);
	}
	assert_int_equal(atomic_load(&seen), 1u << WEIR_GROUP_CPU_LOST);
	team_end(&t);
}

static void core_that_never_waits_reports_a_lost_cpu(void **state)
{
	atomic_uint seen = 0;
	struct rec rec;
	struct team t;
	cpu_set_t set;

	if (cpus_allowed(NULL, 0) < 2)
		skip_because("this process may use one CPU only");
	team_create(&t, state, 2, 0);
	weir_group_set_event_fn(t.group, note_event, &seen);
	team_start(&t);
	CPU_ZERO(&set);
	CPU_SET(weir_group_cpu(t.group, 1), &set);
	sched_setaffinity(0, sizeof(set), &set);
	for (uint32_t i = 0; !atomic_load(&seen) && i < 100000000; i++) {
		rec_init(&rec);
		STARTS(weir_defer(t.r[0], &rec.op));
		assert_true(weir_reactor_turn(t.r[0], 0) > 0);
	}
	assert_int_equal(atomic_load(&seen), 1u << WEIR_GROUP_CPU_LOST);
	team_end(&t);
}

/* What the kernel says, in a tree of its own. */

static const char *say(void **state, const char *file, const char *text)
{
	char path[512], *slash;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", test_dir(state), file);
	for (slash = path + strlen(test_dir(state)) + 1;
	     (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	return test_dir(state);
}

static void assert_quota(void **state, double quota)
{
	double got = cpus_quota(test_dir(state));

	assert_true(got > quota - 0.001 && got < quota + 0.001);
}

static void the_least_quota_of_a_cgroup_and_its_parents_counts(void **state)
{
	assert_quota(state, 0);
	say(state, "proc/self/cgroup", "1:cpu:/old\n0::/a/b\n");
	assert_quota(state, 0);
	say(state, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	assert_quota(state, 0);
	say(state, "sys/fs/cgroup/a/cpu.max", "150000 100000\n");
	assert_quota(state, 1.5);
	say(state, "sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
	assert_quota(state, 1.5);
	say(state, "sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
	assert_quota(state, 0.5);
	say(state, "sys/fs/cgroup/a/b/cpu.max", "nonsense\n");
	assert_quota(state, 1.5);
}

static void nodes_are_found(void **state)
{
	const char *root = test_dir(state);

	assert_int_equal(nodes_count(root), 0);
	say(state, "sys/devices/system/node/online", "0-1,4\n");
	say(state, "sys/devices/system/node/node0/cpulist", "0-3\n");
	say(state, "sys/devices/system/node/node1/cpulist", "4-7,12\n");
	say(state, "sys/devices/system/node/node4/cpulist", "\n");
	assert_int_equal(nodes_count(root), 3);
	assert_int_equal(node_of_cpu(root, 3), 0);
	assert_int_equal(node_of_cpu(root, 12), 1);
	assert_int_equal(node_of_cpu(root, 13), -1);
}

/* This thread's, as the kernel has it. */
static void get_policy(struct memory_policy *policy)
{
	assert_int_equal(syscall(SYS_get_mempolicy, &policy->mode,
				 policy->nodes, (unsigned long)NODES_MAX, NULL,
				 0UL), 0);
}

static void set_policy(const struct memory_policy *policy)
{
	long err = syscall(SYS_set_mempolicy, policy->mode, policy->nodes,
			   (unsigned long)NODES_MAX);

	if (err)
		skip_because("set_mempolicy() is not for us: %d", errno);
}

static void assert_policy(int mode, unsigned long nodes)
{
	struct memory_policy policy;

	get_policy(&policy);
	assert_int_equal(policy.mode, mode);
	assert_int_equal(policy.nodes[0], nodes);
}

static void memory_is_asked_for_on_a_node_and_as_before(void **state)
{
	struct memory_policy usual = { .mode = MPOL_DEFAULT }, old;
	struct memory_policy mine = { .mode = MPOL_INTERLEAVE, .nodes = { 1 } };

	(void)state;
	set_policy(&mine);
	assert_int_equal(memory_prefer(0, &old), 0);
	assert_policy(MPOL_PREFERRED, 1);
	assert_int_equal(memory_restore(&old), 0);
	assert_policy(MPOL_INTERLEAVE, 1);
	assert_int_equal(memory_prefer(1000, &old), -EINVAL);
	assert_policy(MPOL_INTERLEAVE, 1);
	set_policy(&usual);
}

static void an_adopted_thread_has_its_memory_as_before(void **state)
{
	struct memory_policy usual = { .mode = MPOL_DEFAULT };
	struct memory_policy mine = { .mode = MPOL_INTERLEAVE, .nodes = { 1 } };
	uint32_t cpu;
	struct team t;

	assert_true(cpus_allowed(&cpu, 1) > 0);
	if (node_of_cpu("", cpu) < 0)
		skip_because("the kernel does not tell of nodes");
	set_policy(&mine);
	team_create(&t, state, 2, 0);
	/* As if there were another. */
	t.group->n_nodes = 2;
	team_start(&t);
	assert_policy(MPOL_PREFERRED, 1ul << node_of_cpu("", cpu));
	team_end(&t);
	assert_policy(MPOL_INTERLEAVE, 1);
	set_policy(&usual);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_cpu_that_is_not_there_is_named),
		CASE(a_cpu_that_no_set_can_hold_is_named),
		CASE(core_runs_on_its_cpu_and_the_callers_affinity_is_kept),
		CASE(worker_thread_is_not_bound_to_a_cpu_of_a_core),
		CASE(cores_that_share_a_cpu_do_not_spin),
		CASE(cores_beyond_the_cpus_do_not_spin),
		CASE(a_core_that_loses_its_cpu_says_so_and_goes_on),
		CASE(core_that_never_waits_reports_a_lost_cpu),
		CASE(the_least_quota_of_a_cgroup_and_its_parents_counts),
		CASE(nodes_are_found),
		CASE(memory_is_asked_for_on_a_node_and_as_before),
		CASE(an_adopted_thread_has_its_memory_as_before),
	};

	return harness_run(cases, N_OF(cases));
}
