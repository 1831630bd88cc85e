/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Scenarios that fail, for test-runner.sh.
 *
 *	runner-scenarios [OPTION...] SCENARIO...
 *	runner-scenarios violate	one is violated where no scenario runs
 *	runner-scenarios refuse N	the Nth array that makes no sense
 */

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/op.h>
#include <weir/reactor.h>
#include <weir/sim/runner.h>

static struct weir_reactor *reactor(struct weir_sim_trial *trial)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_reactor *r;

	opts.sim = trial->sim;
	if (weir_reactor_create(&r, &opts))
		abort();
	return r;
}

static void run_well(struct weir_sim_trial *trial)
{
	struct weir_reactor *r = reactor(trial);

	trial->verified += trial->ops;
	weir_sim_run(trial->sim, WEIR_SEC, 0);
	if (weir_reactor_destroy(r))
		abort();
}

static void run_argument(struct weir_sim_trial *trial)
{
	if (trial->size != sizeof(*trial))
		weir_sim_violation("the size of a trial", "%zu", trial->size);
	if (strcmp(trial->arg, "argument"))
		weir_sim_violation("the argument", "%s", (char *)trial->arg);
}

/* Fails at a number of operations, whatever the faults. */
static void run_often(struct weir_sim_trial *trial)
{
	run_well(trial);
	if (trial->ops >= 7)
		weir_sim_violation("fewer than seven", "%u \"quoted\"\n",
				   trial->ops);
}

static void on_end(struct weir_op *op, int64_t res)
{
	*(int64_t *)op->data = res;
}

/* Fails if one kind of fault occurs. */
static void run_late(struct weir_sim_trial *trial)
{
	struct weir_sim_stats stats = { .size = sizeof(stats) };
	struct weir_reactor *r = reactor(trial);
	struct weir_op op = { .fn = on_end };
	int64_t res;

	op.data = &res;
	for (uint32_t i = 0; i < trial->ops; i++) {
		res = 1;
		if (weir_nop(r, &op))
			abort();
		while (res == 1)
			weir_sim_run(trial->sim, WEIR_SEC, 1);
	}
	if (weir_sim_stats(trial->sim, &stats))
		abort();
	if (stats.faults[WEIR_SIM_SLOW])
		weir_sim_violation("in time", "%u are late",
				   (unsigned int)stats.faults[WEIR_SIM_SLOW]);
	if (weir_reactor_destroy(r))
		abort();
}

static void run_crash(struct weir_sim_trial *trial)
{
	run_well(trial);
	if (trial->seed == 5)
		raise(SIGKILL);
}

static void run_hang(struct weir_sim_trial *trial)
{
	run_well(trial);
	while (trial->seed == 3)
		pause();
}

static void run_quit(struct weir_sim_trial *trial)
{
	run_well(trial);
	if (trial->seed == 2)
		_exit(9);
}

static void run_leak(struct weir_sim_trial *trial)
{
	(void)reactor(trial);
}

#define SCENARIO(NAME, ...) \
	static const struct weir_sim_scenario NAME = { \
		.size = sizeof(NAME), \
		.name = #NAME, \
		.what = "what " #NAME " does", \
		.run = run_ ## NAME, \
		__VA_ARGS__ \
	}

static char argument_text[] = "argument";

SCENARIO(well, .faults = 0);
SCENARIO(argument, .arg = argument_text);
SCENARIO(often, .ops = 50);
SCENARIO(late, .ops = 300);
SCENARIO(crash, .ops = 1);
SCENARIO(hang, .ops = 1);
SCENARIO(quit, .ops = 1);
SCENARIO(leak, .ops = 1);

static int refuse(int argc, char **argv, int which)
{
	static const struct weir_sim_scenario
		no_name = { .size = sizeof(no_name), .run = run_well },
		no_run = { .size = sizeof(no_run), .name = "x" },
		blank = { .size = sizeof(blank), .name = "a b",
			  .run = run_well },
		all = { .size = sizeof(all), .name = "all", .run = run_well },
		faults = { .size = sizeof(faults), .name = "x",
			   .run = run_well, .faults = UINT64_C(1) << 63 },
		no_size = { .name = "x", .run = run_well };
	static const struct weir_sim_scenario *const arrays[][3] = {
		{ NULL },	{ &no_name },	    { &no_run },
		{ &blank },	{ &all },	    { &faults },
		{ &no_size },	{ &well, &well },
	};

	return weir_sim_main(argc, argv, arrays[which]);
}

int main(int argc, char **argv)
{
	static const struct weir_sim_scenario *const scenarios[] = {
		&well, &argument, &often, &late, &crash, &hang, &quit, &leak,
		NULL
	};

	if (argc > 1 && !strcmp(argv[1], "violate"))
		weir_sim_violation("a rule", "%s", "outside");
	if (argc > 2 && !strcmp(argv[1], "refuse"))
		return refuse(1, argv, atoi(argv[2]));
	return weir_sim_main(argc, argv, scenarios);
}
