/* SPDX-License-Identifier: BSD-3-Clause */

/* The command weir-sim: which scenarios and seeds to run, and their outcome. */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim-command.h"

static int say(const char *fmt, const char *what)
{
	fputs("weir-sim: ", stderr);
	fprintf(stderr, fmt, what);
	fputs("\n", stderr);
	return EXIT_USAGE;
}

static int help(void)
{
	puts("Usage: weir-sim [OPTION...] SCENARIO...\n"
	     "       weir-sim [OPTION...] --file SEEDFILE...\n"
	     "\n"
	     "Runs programs in simulated worlds, one for each seed, and checks\n"
	     "that what must be true is.  \"all\" is every scenario.\n"
	     "\n"
	     "  --seed S           one seed; to try a failure again\n"
	     "  --first S          the first of many seeds (1)\n"
	     "  --seeds N          how many (100)\n"
	     "  --completions N    as many as it takes for so many operations,\n"
	     "                     over all scenarios that are named\n"
	     "  --ops N            operations of a program\n"
	     "  --faults LIST      kinds, with commas; \"all\", \"none\"\n"
	     "  --rate N           a fault in so many chances (128)\n"
	     "  --steady           the same faults for each seed, not drawn\n"
	     "  --faults-max N     the first so many faults only\n"
	     "  --trace            all that happens; wants --seed\n"
	     "  --no-shrink        do not make a failure smaller\n"
	     "  --jobs N           processes at a time (1)\n"
	     "  --timeout S       a seed that takes so long hangs (30)\n"
	     "  --keep DIR         a failure becomes a seed file there\n"
	     "  --state FILE       go on where FILE says that it was, and note it\n"
	     "  --report FILE      what was done, for keeping\n"
	     "  --json             the outcome as JSON\n"
	     "  --quiet            nothing unless it fails\n"
	     "  --file             what follows are seed files, not scenarios\n"
	     "  --list             the scenarios, and the kinds of faults\n"
	     "\n"
	     "Exit status: 0, 1 if something was not true, 2 for a command line\n"
	     "that makes no sense.");
	return EXIT_OK;
}

static int list(void)
{
	for (size_t i = 0; scenarios[i]; i++)
		printf("%-12s %s\n", scenarios[i]->name, scenarios[i]->what);
	printf("\nfaults:");
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		printf(" %s", weir_sim_fault_name(i));
	puts("");
	return EXIT_OK;
}

enum {
	OPT_SEED = 256,
	OPT_FIRST,
	OPT_SEEDS,
	OPT_COMPLETIONS,
	OPT_OPS,
	OPT_FAULTS,
	OPT_RATE,
	OPT_FAULTS_MAX,
	OPT_JOBS,
	OPT_STATE,
	OPT_REPORT,
	OPT_STEADY,
	OPT_TRACE,
	OPT_NO_SHRINK,
	OPT_JSON,
	OPT_QUIET,
	OPT_LIST,
	OPT_FILE,
	OPT_TIMEOUT,
	OPT_KEEP,
	OPT_HELP,
	OPT_VERSION,
};

static const struct option options[] = {
	{ "seed", 1, NULL, OPT_SEED },
	{ "first", 1, NULL, OPT_FIRST },
	{ "seeds", 1, NULL, OPT_SEEDS },
	{ "completions", 1, NULL, OPT_COMPLETIONS },
	{ "ops", 1, NULL, OPT_OPS },
	{ "faults", 1, NULL, OPT_FAULTS },
	{ "rate", 1, NULL, OPT_RATE },
	{ "faults-max", 1, NULL, OPT_FAULTS_MAX },
	{ "jobs", 1, NULL, OPT_JOBS },
	{ "timeout", 1, NULL, OPT_TIMEOUT },
	{ "keep", 1, NULL, OPT_KEEP },
	{ "state", 1, NULL, OPT_STATE },
	{ "report", 1, NULL, OPT_REPORT },
	{ "steady", 0, NULL, OPT_STEADY },
	{ "trace", 0, NULL, OPT_TRACE },
	{ "no-shrink", 0, NULL, OPT_NO_SHRINK },
	{ "json", 0, NULL, OPT_JSON },
	{ "quiet", 0, NULL, OPT_QUIET },
	{ "list", 0, NULL, OPT_LIST },
	{ "file", 0, NULL, OPT_FILE },
	{ "help", 0, NULL, OPT_HELP },
	{ "version", 0, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static uint32_t *small_number(struct command *c, int opt)
{
	switch (opt) {
	case OPT_OPS:
		return &c->ops;
	case OPT_RATE:
		return &c->rate;
	case OPT_TIMEOUT:
		return &c->timeout;
	default:
		return &c->jobs;
	}
}

static bool set_number(struct command *c, int opt, const char *text)
{
	uint64_t n;

	switch (opt) {
	case OPT_SEED:
		c->seeds = 1;
		c->one = true;
		return parse_number(text, 0, UINT64_MAX, &c->first);
	case OPT_FIRST:
		return parse_number(text, 0, UINT64_MAX, &c->first);
	case OPT_SEEDS:
		return parse_number(text, 1, UINT64_MAX, &c->seeds);
	case OPT_COMPLETIONS:
		return parse_number(text, 1, UINT64_MAX, &c->completions);
	case OPT_FAULTS_MAX:
		return parse_number(text, 1, UINT64_MAX, &c->faults_max);
	default:
		break;
	}
	if (!parse_number(text, 1, opt == OPT_TIMEOUT ? 86400 : UINT32_MAX, &n))
		return false;
	*small_number(c, opt) = (uint32_t)n;
	return true;
}

static bool set_text(struct command *c, int opt, const char *text)
{
	switch (opt) {
	case OPT_FAULTS:
		c->has_faults = true;
		return !params_parse_faults(&c->faults, text);
	case OPT_STATE:
		c->state = text;
		return true;
	case OPT_REPORT:
		c->report = text;
		return true;
	case OPT_KEEP:
		c->keep = text;
		return true;
	default:
		return set_number(c, opt, text);
	}
}

static void set_flag(struct command *c, int opt)
{
	switch (opt) {
	case OPT_STEADY:
		c->steady = true;
		break;
	case OPT_TRACE:
		c->trace = true;
		break;
	case OPT_NO_SHRINK:
		c->no_shrink = true;
		break;
	case OPT_JSON:
		c->json = true;
		break;
	case OPT_QUIET:
		c->quiet = true;
		break;
	default:
		c->files = true;
	}
}

static int version(void)
{
	printf("weir-sim %s\n", weir_version());
	return EXIT_OK;
}

/* -1: continue. */
static int parse(struct command *c, int argc, char **argv)
{
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case OPT_HELP:
			return help();
		case OPT_VERSION:
			return version();
		case OPT_LIST:
			return list();
		case '?':
			return say("there is no option %s, or its value is "
				   "missing; see --help", argv[optind - 1]);
		default:
			break;
		}
		if (optarg && !set_text(c, opt, optarg))
			return say("%s is no value for that option; see --help",
				   optarg);
		if (!optarg)
			set_flag(c, opt);
	}
	if (optind == argc)
		return say("%s; --list says what there is", c->files ?
			   "which file?" : "which scenario?");
	if (c->trace && !c->one && !c->files)
		return say("%s wants --seed", "--trace");
	if (c->trace && c->json)
		return say("%s and --json do not go together", "--trace");
	return -1;
}

static uint32_t share_of(const struct scenario *scenario)
{
	return scenario->share ? scenario->share : 1;
}

/* Before any scenario runs: check the name, and compute the share of each. */
static bool count_named(struct command *c, const char *name)
{
	const struct scenario *scenario = scenario_find(name);

	if (scenario)
		c->shares += share_of(scenario);
	else if (strcmp(name, "all"))
		return false;
	for (size_t i = 0; !scenario && scenarios[i]; i++)
		c->shares += share_of(scenarios[i]);
	return true;
}

/* All scenarios, for "all", or the one of that name. */
static int run_named(struct command *c, const char *name)
{
	const struct scenario *scenario = scenario_find(name);
	int status = EXIT_OK;

	if (scenario)
		return command_run(c, scenario);
	for (size_t i = 0; scenarios[i]; i++)
		if (command_run(c, scenarios[i]) != EXIT_OK)
			status = EXIT_FAILED;
	return status;
}

static int run_all(struct command *c, char **names)
{
	int status, one;

	for (char **name = names; *name && !c->files; name++)
		if (!count_named(c, *name))
			return say("there is no scenario '%s'; see --list",
				   *name);
	status = report_open(c);
	if (status)
		return status;
	tell_begin(c);
	for (; *names; names++) {
		one = c->files ? command_run_file(c, *names) :
				 run_named(c, *names);
		if (one > status)
			status = one;
	}
	one = tell_end(c);
	return one > status ? one : status;
}

int main(int argc, char **argv)
{
	static struct command c = {
		.first = 1,
		.seeds = 100,
		.jobs = 1,
		.timeout = 30,
	};
	int status = parse(&c, argc, argv);

	if (status < 0) {
		run_set_timeout(c.timeout);
		status = run_all(&c, argv + optind);
	}
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "weir-sim: standard output: %s\n",
			strerror(errno));
		return EXIT_FAILED;
	}
	return status;
}
