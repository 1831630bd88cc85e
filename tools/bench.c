/* SPDX-License-Identifier: BSD-3-Clause */

/* weir bench: the speed of weir on this machine, beside that of other installed
 * programs. */

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "tool.h"

#define NAMES_MAX 32
#define OPTIONS_MAX 32
#define REPS_MAX 99	/* The programs' BENCH_SAMPLES_MAX. */

enum {
	OPT_LIST = 256, OPT_COMPARE, OPT_WORSE, OPT_FROM, OPT_OUTPUT, OPT_JSON,
	OPT_CSV, OPT_HDR, OPT_REPORT, OPT_HELP,
	OPT_QUICK, OPT_REPS, OPT_ONLY, OPT_DIR, OPT_NOISE,
	OPT_BACKEND, OPT_SIZE, OPT_DEPTH, OPT_CORES, OPT_ENDINGS, OPT_LIMIT, OPT_RESUME,
	OPT_REASONS,
};

static const struct option options[] = {
	{ "list", no_argument, NULL, OPT_LIST },
	{ "compare", no_argument, NULL, OPT_COMPARE },
	{ "worse", required_argument, NULL, OPT_WORSE },
	{ "from", required_argument, NULL, OPT_FROM },
	{ "output", required_argument, NULL, OPT_OUTPUT },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "csv", required_argument, NULL, OPT_CSV },
	{ "hdr", required_argument, NULL, OPT_HDR },
	{ "report", required_argument, NULL, OPT_REPORT },
	{ "quick", no_argument, NULL, OPT_QUICK },
	{ "reps", required_argument, NULL, OPT_REPS },
	{ "only", required_argument, NULL, OPT_ONLY },
	{ "dir", required_argument, NULL, OPT_DIR },
	{ "noise", required_argument, NULL, OPT_NOISE },
	{ "backend", required_argument, NULL, OPT_BACKEND },
	{ "size", required_argument, NULL, OPT_SIZE },
	{ "depth", required_argument, NULL, OPT_DEPTH },
	{ "cores", required_argument, NULL, OPT_CORES },
	{ "endings", required_argument, NULL, OPT_ENDINGS },
	{ "limit", required_argument, NULL, OPT_LIMIT },
	{ "resume", no_argument, NULL, OPT_RESUME },
	{ "reasons", required_argument, NULL, OPT_REASONS },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

struct asked {
	bool list, compare, json, quiet, help, resume;
	double worse;		/* Percent; negative: any is fine. */
	double limit;		/* Seconds; 0: none. */
	const char *from, *output, *csv, *hdr, *report, *reasons;
	const char *pass[OPTIONS_MAX];	/* To the programs. */
	size_t n_pass;
	const char *takes[5];	/* Choices that not all programs have. */
	size_t n_takes;
	const char *names[NAMES_MAX];
	size_t n_names;
};

static void help(void)
{
	puts("Usage: weir bench [OPTION...] [NAME...]\n"
	     "       weir bench --compare [--worse PERCENT] BEFORE AFTER\n"
	     "       weir bench --list\n"
	     "\n"
	     "Measure weir on this machine, in turns with what else is\n"
	     "installed that does the same. Without a NAME all that have the\n"
	     "choices asked for are run, which takes some minutes.\n"
	     "\n"
	     "What is measured:\n"
	     "  --backend LIST    uring, ev or uring,ev\n"
	     "  --size LIST       bytes of a move: 4K,1M\n"
	     "  --depth LIST      how many are in flight: 1,32\n"
	     "  --cores LIST      on how many cores: 1,2\n"
	     "  --endings N       endings of each kind in a repetition\n"
	     "  --only TEXT       only variants whose name contains TEXT\n"
	     "  --reps N          repetitions; the median counts\n"
	     "  --noise X         repeat while others use more than X CPUs\n"
	     "  --limit SECONDS   after which no repetition is begun; what takes\n"
	     "                    ten times as long is ended\n"
	     "  --dir DIR         where files are made\n"
	     "  --quick           only see whether it runs\n"
	     "\n"
	     "What becomes of it (tables are shown unless it is said to be\n"
	     "quiet, or standard output is for something else):\n"
	     "  --output FILE     keep the result, lines of JSON\n"
	     "  --resume          run only what has no result there yet\n"
	     "  --from FILE       run nothing: take a result that was kept\n"
	     "  --json            the result instead of tables\n"
	     "  --csv FILE        a table for other programs; - is standard\n"
	     "                    output\n"
	     "  --hdr DIR         latencies, in HdrHistogram's form\n"
	     "  --report FILE.md  a page of Markdown; its pictures and all figures\n"
	     "                    are in the directory FILE\n"
	     "  --reasons URL     where it says why a goal is not met\n"
	     "  -q, --quiet       no tables\n"
	     "\n"
	     "What else there is:\n"
	     "  --list            names, and what they measure beside what\n"
	     "  --compare         two results, by what is not noise\n"
	     "  --worse PERCENT   of them: fail if anything is worse by more\n"
	     "      --help        this text\n"
	     "\n"
	     "Examples:\n"
	     "  weir bench nop echo --output before.json\n"
	     "  weir bench --compare before.json after.json\n"
	     "\n"
	     "Exit status: 0, 1 if something could not be measured or is\n"
	     "worse, 2 for a command line that makes no sense.");
}

/* An option that is passed on to the programs. */
static int pass(struct asked *a, const char *name, const char *value)
{
	if (a->n_pass + 3 > OPTIONS_MAX)
		return usage_error("too many options");
	a->pass[a->n_pass++] = name;
	if (value)
		a->pass[a->n_pass++] = value;
	return EXIT_OK;
}

/* The same for a choice that only some programs have. */
static int choose(struct asked *a, const char *name, const char *value)
{
	if (a->n_takes < 5)
		a->takes[a->n_takes++] = name + 2;
	return pass(a, name, value);
}

static int take_percent(struct asked *a, const char *text)
{
	char *end;

	a->worse = strtod(text, &end);
	if (end == text || *end || !(a->worse >= 0))
		return usage_error("--worse %s: not a percentage", text);
	return EXIT_OK;
}

static int take_limit(struct asked *a, const char *text)
{
	char *end;

	a->limit = strtod(text, &end);
	if (end == text || *end || !(a->limit > 0) || a->limit > 1e6)
		return usage_error("--limit %s: not a number of seconds", text);
	return EXIT_OK;
}

static int take_reps(struct asked *a, const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n < 1 || n > REPS_MAX)
		return usage_error("--reps %s: not a number from 1 to %d", text,
				   REPS_MAX);
	return pass(a, "--reps", text);
}

static int take_noise(struct asked *a, const char *text)
{
	char *end;
	double x = strtod(text, &end);

	if (end == text || *end || !(x >= 0 && x <= 1e6))
		return usage_error("--noise %s: not a number of CPUs", text);
	return pass(a, "--noise", text);
}

static int take_report(struct asked *a, const char *path)
{
	size_t len = strlen(path);

	if (len < 4 || strcmp(path + len - 3, ".md"))
		return usage_error("--report %s: the name must end with .md",
				   path);
	a->report = path;
	return EXIT_OK;
}

static int take_passed(struct asked *a, int opt)
{
	switch (opt) {
	case OPT_QUICK:
		return pass(a, "--quick", NULL);
	case OPT_REPS:
		return take_reps(a, optarg);
	case OPT_ONLY:
		return pass(a, "--only", optarg);
	case OPT_DIR:
		return pass(a, "--dir", optarg);
	case OPT_NOISE:
		return take_noise(a, optarg);
	case OPT_BACKEND:
		return choose(a, "--backend", optarg);
	case OPT_SIZE:
		return choose(a, "--size", optarg);
	case OPT_DEPTH:
		return choose(a, "--depth", optarg);
	case OPT_CORES:
		return choose(a, "--cores", optarg);
	case OPT_ENDINGS:
		return choose(a, "--endings", optarg);
	default:
		return EXIT_USAGE;	/* getopt has said why. */
	}
}

static int take_option(struct asked *a, int opt)
{
	switch (opt) {
	case OPT_LIST:
		a->list = true;
		break;
	case OPT_COMPARE:
		a->compare = true;
		break;
	case OPT_WORSE:
		return take_percent(a, optarg);
	case OPT_FROM:
		a->from = optarg;
		break;
	case OPT_OUTPUT:
		a->output = optarg;
		break;
	case OPT_JSON:
		a->json = true;
		break;
	case OPT_CSV:
		a->csv = optarg;
		break;
	case OPT_HDR:
		a->hdr = optarg;
		break;
	case OPT_REPORT:
		return take_report(a, optarg);
	case OPT_REASONS:
		a->reasons = optarg;
		break;
	case OPT_LIMIT:
		return take_limit(a, optarg);
	case OPT_RESUME:
		a->resume = true;
		break;
	case OPT_HELP:
		a->help = true;
		break;
	case 'q':
		a->quiet = true;
		break;
	default:
		return take_passed(a, opt);
	}
	return EXIT_OK;
}

static int parse(struct asked *a, int argc, char **argv)
{
	static char name[] = "weir: bench";	/* In messages of getopt. */
	int opt, status = EXIT_OK;

	argv[0] = name;
	a->worse = -1;
	while (!status &&
	       (opt = getopt_long(argc, argv, "q", options, NULL)) >= 0)
		status = take_option(a, opt);
	if (status)
		return status;
	if (argc - optind > NAMES_MAX)
		return usage_error("too many names");
	while (optind < argc)
		a->names[a->n_names++] = argv[optind++];
	return EXIT_OK;
}

static int show_list(void)
{
	printf("%-9s %-58s %-38s %s\n", "name", "measures", "beside",
	       "choices");
	for (size_t i = 0; i < n_programs; i++)
		printf("%-9s %-58s %-38s %s\n", programs[i].name,
		       programs[i].measures, programs[i].beside,
		       programs[i].takes);
	return EXIT_OK;
}

static int show_comparison(const struct asked *a)
{
	struct result before, after;
	int status;

	if (a->n_names != 2)
		return usage_error("--compare takes two files that --output "
				   "has written");
	status = result_load(&before, a->names[0], false);
	if (!status)
		status = result_load(&after, a->names[1], false);
	else
		memset(&after, 0, sizeof(after));
	if (!status)
		status = compare(&before, &after, a->worse);
	result_free(&before);
	result_free(&after);
	return status;
}

/* The first requested choice that @p lacks; NULL: it has all. */
static const char *lacks(const struct program *p, const struct asked *a)
{
	for (size_t i = 0; i < a->n_takes; i++)
		if (!strstr(p->takes, a->takes[i]))
			return a->takes[i];
	return NULL;
}

static int pick_named(const struct asked *a, struct wanted *w)
{
	const struct program *p;

	for (size_t i = 0; i < a->n_names; i++) {
		p = find_program(a->names[i]);
		if (!p)
			return usage_error("there is no benchmark '%s'; weir "
					   "bench --list lists them",
					   a->names[i]);
		if (lacks(p, a))
			return usage_error("%s has no choice of --%s; weir "
					   "bench --list says which it has",
					   p->name, lacks(p, a));
		w->programs[w->n_programs++] = p;
	}
	return EXIT_OK;
}

static int pick(const struct asked *a, struct wanted *w)
{
	if (a->n_names)
		return pick_named(a, w);
	for (size_t i = 0; i < n_programs; i++)
		if (!programs[i].by_name && !lacks(&programs[i], a))
			w->programs[w->n_programs++] = &programs[i];
	return w->n_programs ? EXIT_OK :
	       usage_error("no benchmark has all of these choices");
}

/* Figures that were measured with other options must not be in the same
 * file. */
static int goes_on(const struct wanted *w, const struct result *r,
		   const char *path)
{
	char asked[OPTIONS_TEXT];

	options_text(asked, sizeof(asked), w->options);
	if (strcmp(fact_of(r, "weir"), version_text()))
		return failed("--resume: %s is of weir '%s', this is %s; begin "
			      "another file", path, fact_of(r, "weir"),
			      version_text());
	if (strcmp(fact_of(r, "options"), asked))
		return failed("--resume: %s was begun with the options '%s', "
			      "not '%s'", path, fact_of(r, "options"), asked);
	return EXIT_OK;
}

/* Skip the programs that an earlier run completed. */
static int leave_out_done(struct wanted *w, const char *path)
{
	size_t n = w->n_programs;
	struct result r;
	int status;

	if (access(path, F_OK))
		return EXIT_OK;
	status = result_load(&r, path, true);
	if (!status && r.n_facts)
		status = goes_on(w, &r, path);
	w->n_programs = 0;
	for (size_t i = 0; i < n && !status; i++)
		if (has_ended(&r, w->programs[i]->name))
			w->n_done++;
		else
			w->programs[w->n_programs++] = w->programs[i];
	w->go_on = r.n_facts > 0;
	result_free(&r);
	return status;
}

static int show_json(const char *path)
{
	FILE *f = fopen(path, "re");
	char buf[4096];
	size_t n;

	if (!f)
		return failed("cannot read %s: %s", path, strerror(errno));
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0)
		fwrite(buf, 1, n, stdout);
	fclose(f);
	return EXIT_OK;
}

static bool is_stdout(const char *path)
{
	return path && !strcmp(path, "-");
}

static int write_files(const struct asked *a, const char *path)
{
	struct result r;
	int status;

	status = result_load(&r, path, false);
	if (!status && !a->json && !a->quiet && !is_stdout(a->csv))
		show_goals(&r);
	if (!status && r.n_bad)
		fprintf(stderr,
			"weir: skipped %zu lines of %s that are not results\n",
			r.n_bad, path);
	if (!status && a->csv)
		status = write_csv(&r, a->csv);
	if (!status && a->hdr)
		status = write_hdr(&r, a->hdr);
	if (!status && a->report)
		status = write_report(&r, a->report, a->reasons);
	result_free(&r);
	return status;
}

static int finish(const struct asked *a, const char *path)
{
	int status = a->json ? show_json(path) : EXIT_OK;

	return status ? status : write_files(a, path);
}

static int run(const struct asked *a)
{
	char kept[] = "/tmp/weir-bench.XXXXXX";
	const struct program *picked[NAMES_MAX];
	struct wanted w = {
		.programs = picked, .options = a->pass, .limit = a->limit,
		.quiet = a->quiet || a->json || is_stdout(a->csv),
	};
	const char *path = a->output;
	int fd, status = pick(a, &w), written = EXIT_OK;

	if (status)
		return status;
	if (!path) {
		fd = mkstemp(kept);
		if (fd < 0)
			return failed("cannot make %s: %s", kept,
				      strerror(errno));
		close(fd);
		path = kept;
	}
	if (a->resume)
		status = leave_out_done(&w, path);
	if (!status)
		status = run_programs(&w, path);
	if (w.n_done)
		written = finish(a, path);
	if (!a->output)
		unlink(path);
	return status ? status : written;
}

int cmd_bench(int argc, char **argv)
{
	struct asked a = { 0 };
	int status = parse(&a, argc, argv);

	if (status)
		return status;
	if (a.help) {
		help();
		return EXIT_OK;
	}
	if (a.list)
		return show_list();
	/* With SIGCHLD ignored, a child's status is lost. */
	signal(SIGCHLD, SIG_DFL);
	if (a.compare)
		return show_comparison(&a);
	if (a.from && (a.n_names || a.output))
		return usage_error("--from runs nothing: omit %s",
				   a.n_names ? a.names[0] : "--output");
	if (a.resume && !a.output)
		return usage_error("--resume goes on with the file of "
				   "--output: which is it?");
	return a.from ? finish(&a, a.from) : run(&a);
}
