/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SIM_RUNNER_H
#define WEIR_SIM_RUNNER_H

/*
 * A runner of scenarios: programs in simulated worlds, with many seeds.
 *
 * A scenario is a function that gets a world, runs a program in it, and reports
 * what must not have happened.  The runner does the rest, by the options of the
 * command line: it runs seeds in child processes, also several at a time, so
 * that a crash and a hang are failures like any other; it shrinks a failure to
 * the fewest kinds of faults, faulty hosts, faults and operations; it keeps failing seeds in
 * files, runs them again, and writes traces, JSON and reports.
 *
 *	static void run_log(struct weir_sim_trial *trial)
 *	{
 *		...				// reactors in trial->sim
 *		weir_sim_run(trial->sim, WEIR_SEC, 0);
 *		if (n_acked > n_found)
 *			weir_sim_violation("an acknowledged record is kept",
 *					   "%u of %u", n_found, n_acked);
 *		...				// and their end
 *	}
 *
 *	static const struct weir_sim_scenario log_scenario = {
 *		.size = sizeof(log_scenario),
 *		.name = "log",
 *		.what = "a log, through power cuts",
 *		.run = run_log,
 *	};
 *
 *	int main(int argc, char **argv)
 *	{
 *		const struct weir_sim_scenario *const scenarios[] = {
 *			&log_scenario, NULL
 *		};
 *
 *		return weir_sim_main(argc, argv, scenarios);
 *	}
 *
 * The command weir-sim is such a program; weir-sim(1) describes the options.
 */

#include <weir/sim/world.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One run of a scenario.  The runner owns it. */
struct weir_sim_trial {
	size_t size;		/* Set by the runner: the size of the struct. */
	struct weir_sim *sim;	/* A new world, which the runner destroys. */
	void *arg;		/* The scenario's .arg. */
	uint64_t seed;
	uint64_t faults;	/* Kinds that may occur; 0: no faults. */
	uint32_t ops;		/* How much the program should do. */
	uint32_t reserved;
	uint64_t verified;	/* The program adds the bytes it compared. */
};

/*
 * A scenario.  Set .size to the size of the struct; 0 is the default of each
 * member below .run.
 */
struct weir_sim_scenario {
	size_t size;
	const char *name;	/* On the command line: no blanks. */
	const char *what;	/* A line for --list. */

	/*
	 * Run the program in @trial->sim.  The order of everything in it must
	 * follow from the world: draw by weir_sim_random().  Called in a child
	 * process, once for each of its seeds, so static variables must be set
	 * at the beginning.  It destroys the reactors and domains that it has
	 * created before it returns.  Hosts end with the world, after that, so
	 * their .arg is no variable of this function.
	 */
	void (*run)(struct weir_sim_trial *trial);
	void *arg;		/* For .run, as @trial->arg. */
	uint64_t faults;	/* Kinds that it can bear; 0: all. */
	uint32_t ops;		/* The default of --ops; 0: 100. */
	uint32_t share;		/* Of --completions, among all; 0: 1. */
	/* Names of its hosts that may be faulty, with commas, so that a failure
	 * is shrunk to the faults of fewer; NULL: there are none. */
	const char *hosts;
};

/*
 * Run the scenarios that @argv names with the seeds and options that it has, as
 * the whole of a program's main().
 *
 * @scenarios ends with NULL.  If it has one scenario only, @argv need not name
 * it.  The outcome goes to standard output, failures to standard error.
 *
 * Returns an exit status:
 *   0  all seeds of all scenarios have passed
 *   1  one has failed, or the output could not be written
 *   2  the command line or a scenario is invalid; nothing was run
 *
 * Call on the only thread of a process that has no reactor: it forks.  Blocks
 * until all seeds have been run.  Allocates.
 */
WEIR_API int weir_sim_main(int argc, char **argv,
			   const struct weir_sim_scenario *const *scenarios);

/*
 * End the seed that runs, because @rule does not hold.
 *
 * @rule names what must be true, the same each time: while the runner shrinks a
 * failure it looks for this rule.  @fmt and what follows it tell the
 * particulars, as for printf(3).  Outside a scenario both are written to
 * standard error, and the process is aborted.
 *
 * An assert() that fails and any other crash end a seed too; their rule is the
 * signal.
 *
 * Call on the thread of the scenario, callbacks included.  Does not return.
 */
WEIR_API void weir_sim_violation(const char *rule, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif
#endif /* WEIR_SIM_RUNNER_H */
