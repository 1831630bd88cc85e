/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * weir_sim_main(): which scenarios and seeds to run, in rounds, so that a run
 * can be interrupted and continued; its progress in a file; and the outcome as
 * text, as JSON and as a report.
 */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/opts.h"
#include "base/why.h"
#include "sim/runner.h"

enum { STATUS_OK, STATUS_FAILED, STATUS_USAGE };

const char *runner_name;

/* The progress of a scenario. */
struct progress {
	uint64_t next;		/* The seed to go on with. */
	struct outcome sum;
	double seconds;
};

/* The summary of a scenario at the end. */
struct told {
	const struct weir_sim_scenario *scenario;
	struct progress progress;
	bool failed;
};

struct command {
	struct weir_sim_scenario *scenarios; /* The last has no name. */
	uint64_t first, seeds;
	uint64_t completions;	/* In all; 0: .seeds say how many. */
	uint64_t faults, faults_max;
	uint32_t ops, rate, jobs, timeout;
	bool has_faults, one, steady, trace, no_shrink, json, quiet, files;
	const char *state;
	const char *report;
	const char *keep;
	const char *hosts;
	uint64_t shares;	/* Of all scenarios that are run. */
	struct told *told;	/* One for each argument and scenario. */
	uint32_t n_told;
};

static int complain(const char *path, const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", runner_name, path, what);
	return STATUS_FAILED;
}

/* The progress of each scenario, a line each in a file, so that a long run can
 * be stopped at any time and continued. */

#define LINE 4096

/* The line ends with the run's parameters: sums of other runs do not count. */
static void print_line(FILE *f, const struct params *params,
		       const struct progress *p)
{
	char with[512];

	params_print(with, sizeof(with), params);
	fprintf(f, "%s next %" PRIu64 " seeds %" PRIu64 " completions %" PRIu64
		" events %" PRIu64 " verified %" PRIu64 " digest %" PRIu64
		" ms %.0f faults", params->scenario->name, p->next,
		p->sum.seeds, p->sum.completions, p->sum.events,
		p->sum.verified, p->sum.digest, p->seconds * 1e3);
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		fprintf(f, " %" PRIu64, p->sum.faults[i]);
	fprintf(f, " of %s\n", with);
}

static bool is_of(const char *line, const struct weir_sim_scenario *scenario)
{
	size_t len = strlen(scenario->name);

	return !strncmp(line, scenario->name, len) && line[len] == ' ';
}

/* NULL: it is not a line of a state.  Otherwise the text after its counts. */
static const char *read_line(const char *line, struct progress *p)
{
	double ms;
	int at = 0;

	if (sscanf(line, "%*s next %" SCNu64 " seeds %" SCNu64 " completions %"
		   SCNu64 " events %" SCNu64 " verified %" SCNu64 " digest %"
		   SCNu64 " ms %lf faults%n", &p->next, &p->sum.seeds,
		   &p->sum.completions, &p->sum.events, &p->sum.verified,
		   &p->sum.digest, &ms, &at) != 7 || !at)
		return NULL;
	p->seconds = ms / 1e3;
	line += at;
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++) {
		char *end;

		p->sum.faults[i] = strtoull(line, &end, 10);
		if (end == line)
			return NULL;
		line = end;
	}
	return strncmp(line, " of ", 4) ? NULL : line + 4;
}

/* The run with @params, whose .seed is the first, goes on with *@p: 0, or a
 * negative errno, which was reported. */
static int state_load(const char *path, const struct params *params,
	       struct progress *p)
{
	FILE *f = fopen(path, "re");
	struct progress got = { 0 };
	char line[LINE], with[512];
	const char *of;
	int err = 0;

	if (!f)
		return errno == ENOENT ? 0 :
		       complain(path, strerror(errno));
	params_print(with, sizeof(with), params);
	while (!err && fgets(line, sizeof(line), f)) {
		of = read_line(line, &got);
		line[strcspn(line, "\n")] = 0;
		if (!of)
			err = complain(path, "this is no state of a run");
		else if (is_of(line, params->scenario) && strcmp(of, with))
			err = complain(path, "it is of a run with other "
				       "options; go on with those, or without "
				       "it");
		else if (is_of(line, params->scenario))
			*p = got;
	}
	fclose(f);
	return err;
}

static int write_lines(FILE *f, const char *path, const struct params *params,
		       const struct progress *p)
{
	FILE *old = fopen(path, "re");
	char line[LINE];
	int err = 0;

	while (old && fgets(line, sizeof(line), old))
		if (!is_of(line, params->scenario))
			fputs(line, f);
	if (old)
		fclose(old);
	print_line(f, params, p);
	if (fflush(f) || fsync(fileno(f)))
		err = -errno;
	if (fclose(f) && !err)
		err = -errno;
	return err;
}

/* Copy the lines of other scenarios.  The file is replaced as a whole or not at
 * all. */
static int state_save(const char *path, const struct params *params,
	       const struct progress *p)
{
	char temp[4096];
	FILE *f;
	int err;

	snprintf(temp, sizeof(temp), "%s.new", path);
	f = fopen(temp, "we");
	err = f ? write_lines(f, path, params, p) : -errno;
	if (!err && rename(temp, path))
		err = -errno;
	return err ? complain(path, strerror(-err)) : 0;
}

/* The outcome. */

/* The text may end within a character, so all beyond ASCII is escaped. */
static void put_json(const char *key, const char *s)
{
	printf("      \"%s\": %s", key, s ? "\"" : "null,\n");
	for (; s && *s; s++) {
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if (*s < ' ' || *s > '~')
			printf("\\u%04x", (unsigned char)*s);
		else
			putchar(*s);
	}
	if (s)
		puts("\",");
}

static void tell_json(const struct params *params, const struct progress *p,
		      const struct outcome *found, bool first)
{
	char digest[32], again[512];

	params_print(again, sizeof(again), params);
	snprintf(digest, sizeof(digest), "%016" PRIx64, p->sum.digest);
	puts(first ? "    {" : ",\n    {");
	put_json("scenario", params->scenario->name);
	printf("      \"seeds\": %" PRIu64 ",\n      \"completions\": %" PRIu64
	       ",\n      \"events\": %" PRIu64 ",\n      \"bytes_verified\": %"
	       PRIu64 ",\n", p->sum.seeds, p->sum.completions, p->sum.events,
	       p->sum.verified);
	put_json("digest", digest);
	fputs("      \"faults\": {", stdout);
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		printf("%s\n        \"%s\": %" PRIu64, i ? "," : "",
		       weir_sim_fault_name(i), p->sum.faults[i]);
	puts("\n      },");
	put_json("rule", found ? found->rule : NULL);
	put_json("text", found ? found->text : NULL);
	put_json("again", found ? again : NULL);
	printf("      \"well\": %s\n    }", found ? "false" : "true");
}

static void tell_text(const char *name, const struct progress *p)
{
	printf("%-10s %" PRIu64 " seeds, %" PRIu64 " completions, %" PRIu64
	       " faults, %" PRIu64 " bytes verified, digest %016" PRIx64
	       ", %.1f s\n", name, p->sum.seeds, p->sum.completions,
	       outcome_faults(&p->sum), p->sum.verified, p->sum.digest,
	       p->seconds);
}

static void tell(struct command *c, const struct params *params,
		 const struct progress *p, const struct outcome *found)
{
	bool first = !c->n_told;

	c->told[c->n_told++] = (struct told){ params->scenario, *p,
					      found != NULL };
	if (c->json)
		tell_json(params, p, found, first);
	else if (!c->quiet && !found)
		tell_text(params->scenario->name, p);
	if (!c->quiet)
		fflush(stdout);
}

static struct progress sum_of(const struct command *c, uint32_t *failed)
{
	struct progress sum = { 0 };

	*failed = 0;
	for (uint32_t i = 0; i < c->n_told; i++) {
		outcome_add(&sum.sum, &c->told[i].progress.sum);
		sum.seconds += c->told[i].progress.seconds;
		*failed += c->told[i].failed;
	}
	return sum;
}

static void report_row(FILE *f, const char *name, const struct progress *p,
		       uint32_t failed)
{
	fprintf(f, "%-11s %12" PRIu64 " %14" PRIu64 " %12" PRIu64 " %16" PRIu64
		" %10.1f %10u  %016" PRIx64 "\n", name, p->sum.seeds,
		p->sum.completions, outcome_faults(&p->sum), p->sum.verified,
		p->seconds, failed, p->sum.digest);
}

static void report_head(FILE *f, const struct command *c)
{
	struct utsname system;
	time_t now = time(NULL);
	struct tm tm;
	char date[32] = "";

	if (gmtime_r(&now, &tm))
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &tm);
	memset(&system, 0, sizeof(system));
	uname(&system);
	fprintf(f, "date      %s\nweir      %s\n", date, weir_version());
#ifdef __clang__
	fprintf(f, "compiler  %s\n", __VERSION__);
#else
	fprintf(f, "compiler  gcc %s\n", __VERSION__);
#endif
	fprintf(f, "kernel    %s %s %s\njobs      %u\n\n", system.sysname,
		system.release, system.machine, c->jobs);
}

static void report(FILE *f, const struct command *c)
{
	uint32_t failed;
	struct progress sum = sum_of(c, &failed);

	report_head(f, c);
	fprintf(f, "%-11s %12s %14s %12s %16s %10s %10s  %s\n", "scenario",
		"seeds", "completions", "faults", "bytes verified", "seconds",
		"violations", "digest");
	for (uint32_t i = 0; i < c->n_told; i++)
		report_row(f, c->told[i].scenario->name, &c->told[i].progress,
			   c->told[i].failed);
	report_row(f, "all", &sum, failed);
	fputs("\nfaults by kind\n", f);
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		fprintf(f, "  %-10s %12" PRIu64 "\n", weir_sim_fault_name(i),
			sum.sum.faults[i]);
}

/* Whether a report can be written; it is written only at the end. */
static int report_open(const struct command *c)
{
	FILE *f = c->report ? fopen(c->report, "ae") : NULL;

	if (c->report && !f)
		return complain(c->report, strerror(errno));
	if (f)
		fclose(f);
	return STATUS_OK;
}

static int write_report(const struct command *c)
{
	FILE *f = fopen(c->report, "we");
	bool bad;

	if (!f)
		return complain(c->report, strerror(errno));
	report(f, c);
	bad = fflush(f) || ferror(f);
	if (fclose(f) || bad)
		return complain(c->report, strerror(errno));
	return STATUS_OK;
}

static int tell_end(struct command *c)
{
	uint32_t failed;
	struct progress sum = sum_of(c, &failed);

	if (c->json)
		puts(c->n_told ? "\n  ]\n}" : "  ]\n}");
	else if (!c->quiet && c->n_told > 1 && !failed)
		tell_text("all", &sum);
	return c->report ? write_report(c) : STATUS_OK;
}

/* The seeds of a round.  It does not depend on the number of processes, so the
 * same seeds run. */
#define ROUND 512

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void fail(struct command *c, struct params *params,
		 const struct progress *p, struct outcome *found)
{
	char again[512];
	bool did = true;

	if (!c->no_shrink && !c->trace)
		did = runner_shrink(params, found, c->quiet);
	params_print(again, sizeof(again), params);
	fprintf(stderr, "%s: %s, seed %" PRIu64 ", event %" PRIu64
		": '%s' does not hold: %s\n%s: again: %s %s --trace\n",
		runner_name, params->scenario->name, params->seed,
		found->at_event, found->rule, found->text, runner_name,
		runner_name, again);
	if (!did)
		fprintf(stderr, "%s: it did not happen a second time: "
			"something real had a part in it\n", runner_name);
	if (c->keep)
		params_save(params, found, c->keep);
	tell(c, params, p, found);
}

static int timeout_ms(const struct command *c)
{
	return (int)c->timeout * 1000;
}

static struct params params_of(const struct command *c,
			       const struct weir_sim_scenario *scenario)
{
	struct params params;

	params_default(&params, scenario);
	params.seed = c->first;
	params.timeout_ms = timeout_ms(c);
	params.rate = c->rate;
	params.steady = c->steady;
	params.faults_max = c->faults_max;
	if (c->ops)
		params.ops = c->ops;
	if (c->has_faults)
		params.faults = c->faults;
	if (c->hosts)
		params_hosts(&params, c->hosts);
	return params;
}

/* This scenario's share of the requested completions. */
static uint64_t quota(const struct command *c, const struct weir_sim_scenario *scenario)
{
	uint64_t whole = c->completions / c->shares;
	uint64_t rest = c->completions % c->shares;

	return whole * scenario->share +
	       (rest * scenario->share + c->shares - 1) / c->shares;
}

/* The number of seeds of the next round; 0: enough. */
static uint64_t round_of(const struct command *c,
			 const struct weir_sim_scenario *scenario,
			 const struct progress *p)
{
	uint64_t done = p->next - c->first;

	if (c->completions)
		return p->sum.completions < quota(c, scenario) ? ROUND : 0;
	if (done >= c->seeds)
		return 0;
	return c->seeds - done < ROUND ? c->seeds - done : ROUND;
}

/* One round; false: @out has failed. */
static bool run_round(const struct command *c, const struct params *whole,
		      uint64_t n, struct progress *p, struct outcome *out)
{
	struct params params = *whole;
	double begun = now_s();
	bool well;

	params.seed = p->next;
	well = runner_seeds(&params, n, c->trace ? 1 : c->jobs, c->trace, out);
	p->seconds += now_s() - begun;
	outcome_add(&p->sum, out);
	p->next += n;
	return well;
}

static int command_run(struct command *c, const struct weir_sim_scenario *scenario)
{
	struct params params = params_of(c, scenario);
	struct progress p = { .next = c->first };
	struct outcome out;
	uint64_t n;

	if (c->state && state_load(c->state, &params, &p))
		return STATUS_FAILED;
	while ((n = round_of(c, scenario, &p))) {
		if (!run_round(c, &params, n, &p, &out)) {
			params.seed = out.seed;
			fail(c, &params, &p, &out);
			return STATUS_FAILED;
		}
		if (c->state && state_save(c->state, &params, &p))
			return STATUS_FAILED;
	}
	tell(c, &params, &p, NULL);
	return STATUS_OK;
}

static int command_run_file(struct command *c, const char *path)
{
	struct progress p = { 0 };
	struct params params;
	struct outcome out;
	const char *why;
	double begun = now_s();

	if (params_load(&params, c->scenarios, path, &why)) {
		complain(path, why);
		return STATUS_USAGE;
	}
	params.timeout_ms = timeout_ms(c);
	if (runner_seeds(&params, 1, 1, c->trace, &out)) {
		p.sum = out;
		p.seconds = now_s() - begun;
		tell(c, &params, &p, NULL);
		return STATUS_OK;
	}
	fail(c, &params, &p, &out);
	return STATUS_FAILED;
}

/* The command line. */

static int say(const char *fmt, const char *what)
{
	fprintf(stderr, "%s: ", runner_name);
	fprintf(stderr, fmt, what);
	fputs("\n", stderr);
	return STATUS_USAGE;
}

static int help(void)
{
	printf("Usage: %s [OPTION...] SCENARIO...\n"
	       "       %s [OPTION...] --file SEEDFILE...\n", runner_name,
	       runner_name);
	puts("\n"
	     "Runs programs in simulated worlds, one for each seed, and checks\n"
	     "their rules.  \"all\" is every scenario.\n"
	     "\n"
	     "Which worlds:\n"
	     "  --seed S           one seed; to try a failure again\n"
	     "  --first S          the first of many seeds (1)\n"
	     "  --seeds N          how many (100)\n"
	     "  --completions N    as many as it takes for so many operations,\n"
	     "                     over all scenarios that are named\n"
	     "\n"
	     "What happens in them:\n"
	     "  --ops N            operations of a program\n"
	     "  --faults LIST      kinds, with commas; \"all\", \"none\"\n"
	     "  --hosts LIST       names of hosts, with commas, that may be faulty\n"
	     "  --rate N           a fault in so many chances (128)\n"
	     "  --steady           the same faults for each seed, not drawn\n"
	     "  --faults-max N     the first so many faults only\n"
	     "\n"
	     "What becomes of it:\n"
	     "  --trace            all that happens; wants --seed\n"
	     "  --no-shrink        do not make a failure smaller\n"
	     "  --jobs N           processes at a time (1)\n"
	     "  --timeout S        a seed that takes so long hangs (30)\n"
	     "  --keep DIR         a failure becomes a seed file there\n"
	     "  --state FILE       continue the run of FILE, and note progress\n"
	     "  --report FILE      what was done, for keeping\n"
	     "  --json             the outcome as JSON\n"
	     "  --quiet            nothing unless it fails\n"
	     "  --file             what follows are seed files, not scenarios\n"
	     "  --list             the scenarios, and the kinds of faults\n"
	     "  --help             this text\n"
	     "  --version          the version of the library\n"
	     "\n"
	     "Examples:");
	printf("  %s --seeds 1000 --jobs 2 all\n"
	       "  %s --seed 7 --trace SCENARIO\n", runner_name, runner_name);
	puts("\n"
	     "Exit status: 0, 1 if a rule was broken, 2 for an invalid command\n"
	     "line.");
	return STATUS_OK;
}

static int list(const struct command *c)
{
	const struct weir_sim_scenario *s;

	for (s = c->scenarios; s->name; s++)
		printf("%-12s %s\n", s->name, s->what);
	printf("\nfaults:");
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		printf(" %s", weir_sim_fault_name(i));
	puts("");
	return STATUS_OK;
}

enum {
	OPT_SEED = 256,
	OPT_FIRST,
	OPT_SEEDS,
	OPT_COMPLETIONS,
	OPT_OPS,
	OPT_FAULTS,
	OPT_HOSTS,
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
	{ "hosts", 1, NULL, OPT_HOSTS },
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
		return params_number(text, 0, UINT64_MAX, &c->first);
	case OPT_FIRST:
		return params_number(text, 0, UINT64_MAX, &c->first);
	case OPT_SEEDS:
		return params_number(text, 1, UINT64_MAX, &c->seeds);
	case OPT_COMPLETIONS:
		return params_number(text, 1, UINT64_MAX, &c->completions);
	case OPT_FAULTS_MAX:
		return params_number(text, 1, UINT64_MAX, &c->faults_max);
	default:
		break;
	}
	if (!params_number(text, 1, opt == OPT_TIMEOUT ? 86400 : UINT32_MAX, &n))
		return false;
	*small_number(c, opt) = (uint32_t)n;
	return true;
}

static bool set_text(struct command *c, int opt, const char *text)
{
	switch (opt) {
	case OPT_FAULTS:
		c->has_faults = true;
		return !params_faults(&c->faults, text);
	case OPT_HOSTS:
		c->hosts = text;
		return *text && strlen(text) <
				sizeof(((struct params *)0)->hosts);
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
	printf("%s (weir) %s\n", runner_name, weir_version());
	return STATUS_OK;
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
			return list(c);
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
	if (optind == argc && (c->files || c->scenarios[1].name))
		return say("%s; --list says what there is", c->files ?
			   "which file?" : "which scenario?");
	if (c->trace && !c->one && !c->files)
		return say("%s wants --seed", "--trace");
	if (c->trace && c->json)
		return say("%s and --json do not go together", "--trace");
	return -1;
}

/* Before any scenario runs: check the name, and compute the share of each.
 * Returns how many it names, 0 for none. */
static uint32_t count_named(struct command *c, const char *name)
{
	const struct weir_sim_scenario *s = scenario_find(c->scenarios, name);
	uint32_t n = 0;

	if (s) {
		c->shares += s->share;
		return 1;
	}
	if (strcmp(name, "all"))
		return 0;
	for (s = c->scenarios; s->name; s++, n++)
		c->shares += s->share;
	return n;
}

/* All scenarios, for "all", or the one of that name. */
static int run_named(struct command *c, const char *name)
{
	const struct weir_sim_scenario *s = scenario_find(c->scenarios, name);
	int status = STATUS_OK;

	if (s)
		return command_run(c, s);
	for (s = c->scenarios; s->name; s++)
		if (command_run(c, s) != STATUS_OK)
			status = STATUS_FAILED;
	return status;
}

static int run_all(struct command *c, char **names, size_t n)
{
	int status, one;

	for (char **name = names; *name && !c->files; name++) {
		one = (int)count_named(c, *name);
		if (!one)
			return say("there is no scenario '%s'; see --list",
				   *name);
		n += (size_t)one;
	}
	status = report_open(c);
	if (status)
		return status;
	c->told = calloc(n, sizeof(*c->told));
	if (!c->told)
		return complain("memory", strerror(ENOMEM));
	if (c->json)
		printf("{\n  \"version\": \"%s\",\n  \"scenarios\": [\n",
		       weir_version());
	for (; *names; names++) {
		one = c->files ? command_run_file(c, *names) :
				 run_named(c, *names);
		if (one > status)
			status = one;
	}
	one = tell_end(c);
	free(c->told);
	return one > status ? one : status;
}

/* @from as this version knows it, with its defaults. */
static int load(struct weir_sim_scenario *to,
		const struct weir_sim_scenario *from)
{
	int err = opts_load(to, sizeof(*to), from, "weir_sim_main");

	if (err)
		return err;
	if (!to->name || !*to->name || strpbrk(to->name, " \t\n") ||
	    !strcmp(to->name, "all") || !to->run)
		return why(-EINVAL, "weir_sim_main: a scenario needs .run and "
			   "a .name of one word, which is not \"all\"");
	if (to->faults & ~WEIR_SIM_ALL_FAULTS)
		return why(-EINVAL, "weir_sim_main: .faults of '%s' has kinds "
			   "that do not exist", to->name);
	if (!to->what)
		to->what = "";
	if (!to->faults)
		to->faults = WEIR_SIM_ALL_FAULTS;
	if (!to->ops)
		to->ops = 100;
	if (!to->share)
		to->share = 1;
	return 0;
}

static int load_all(struct command *c,
		    const struct weir_sim_scenario *const *scenarios)
{
	size_t n = 0;
	int err = 0;

	while (scenarios[n])
		n++;
	c->scenarios = calloc(n + 1, sizeof(*c->scenarios));
	if (!c->scenarios)
		return why(-ENOMEM, "weir_sim_main: no memory");
	for (size_t i = 0; i < n && !err; i++) {
		err = load(&c->scenarios[i], scenarios[i]);
		for (size_t j = 0; j < i && !err; j++)
			if (!strcmp(c->scenarios[i].name, c->scenarios[j].name))
				err = why(-EINVAL, "weir_sim_main: two "
					  "scenarios are called '%s'",
					  c->scenarios[i].name);
	}
	if (!err && !n)
		err = why(-EINVAL, "weir_sim_main: there are no scenarios");
	return err;
}

/* The last part of the path of a program, also of one that libtool runs. */
static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	return strncmp(name, "lt-", 3) ? name : name + 3;
}

static int run_command(struct command *c, int argc, char **argv)
{
	char *only[] = { NULL, NULL };
	int status = parse(c, argc, argv);

	if (status >= 0)
		return status;
	if (optind < argc)
		return run_all(c, argv + optind, (size_t)(argc - optind));
	only[0] = (char *)(uintptr_t)c->scenarios[0].name;
	return run_all(c, only, 1);
}

int weir_sim_main(int argc, char **argv,
		  const struct weir_sim_scenario *const *scenarios)
{
	struct command c = {
		.first = 1,
		.seeds = 100,
		.jobs = 1,
		.timeout = 30,
	};
	int status;

	runner_name = name_of(argc ? argv[0] : "weir_sim_main");
	if (load_all(&c, scenarios))
		status = say("%s", weir_why());
	else
		status = run_command(&c, argc, argv);
	free(c.scenarios);
	if (fflush(stdout) || ferror(stdout))
		return complain("standard output", strerror(errno));
	return status;
}
