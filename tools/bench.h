/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

/*
 * weir bench: runs the programs bench-*, which are installed beside the
 * library, and shows what they found.
 *
 *	bench.c          the command line
 *	bench-table.c    which programs there are
 *	bench-peers.c    which versions of other programs there are
 *	bench-machine.c  what is said of the machine
 *	bench-run.c      runs them; their lines go to one file
 *	bench-line.c     one line of that file
 *	bench-result.c   all of it
 *	bench-compare.c  two of them
 *	bench-csv.c bench-hdr.c bench-plot.c bench-report.c
 *	                 what a result is written as
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The programs. */

struct program {
	const char *name;
	const char *measures;
	const char *beside;
	const char *takes;	/* Of "backend size depth cores". */
	bool by_name;		/* Runs only if asked for by name. */
};

extern const struct program programs[];
extern const size_t n_programs;

/* NULL: there is none. */
const struct program *find_program(const char *name);

/* What to run, and how. */
struct wanted {
	const struct program **programs;
	size_t n_programs;
	const char *const *options;	/* For each of them, NULL at the end. */
	bool quiet;			/* Their tables are not shown. */
	bool go_on;			/* The file is there: add to it. */
	double limit;			/* Seconds of a round; 0: any. */
	size_t n_done;			/* Those that ran to their end. */
};

/* Run them; their lines follow one about this machine in the file @path, and
 * those of write_peers().  Returns an exit status. */
int run_programs(struct wanted *w, const char *path);
void write_machine(FILE *out, const char *const *options);
void write_peers(FILE *out);

/* Of what the figures are: the library's version, and our commit, if we were
 * built in a git tree. */
const char *version_text(void);

/* @options, NULL at the end, as one text that JSON may hold. */
#define OPTIONS_TEXT 512
void options_text(char *to, size_t size, const char *const *options);

/* Members of one line of JSON: an object of strings, numbers, booleans and
 * arrays of numbers. */

#define MEMBERS_MAX 32

struct member {
	const char *key;
	const char *text;	/* NULL: no string. */
	double number;		/* true is 1. */
	double *array;		/* NULL: no array. */
	size_t n;
};

struct line {
	struct member member[MEMBERS_MAX];
	size_t n;
};

/* @text is changed, and pointed to.  Returns 0, -EINVAL, or -ENOMEM. */
int line_parse(struct line *line, char *text);
void line_free(struct line *line);

/* "" and NAN if it has none. */
const char *line_text(const struct line *line, const char *key);
double line_number(const struct line *line, const char *key);
const struct member *line_find(const struct line *line, const char *key);

/* Results. */

struct name {
	char *bench, *what, *variant, *unit;
};

struct figure {
	struct name name;
	double median, min, max;
	double *sample;
	size_t n;
	char *ratio_to;		/* "": nothing. */
	double ratio;
	double others;		/* CPUs that others used meanwhile. */
	double n_noisy;		/* Repetitions of the program that it spoilt. */
};

enum { P50, P90, P99, P999, P9999, N_POINTS };

struct latency {
	struct name name;
	double count, mean, deviation, max;
	double point[N_POINTS];
	double *value, *counts;	/* The buckets in use. */
	size_t n;
};

struct goal {
	char *bench, *text, *where;
	bool at_most, met;
	double bound, figure;	/* NAN: it was not measured. */
};

/* What a program has said of its figures. */
struct note {
	char *bench, *text;
};

/* About the machine, and the versions of peers. */
struct fact {
	char *key, *value;
};

/* How a program ended: "ok", or what went wrong. */
struct ran {
	char *bench, *ended;
	double seconds;
};

struct result {
	struct figure *figures;
	struct latency *latencies;
	struct goal *goals;
	struct fact *facts;
	struct fact *missing;	/* A peer, and the package that brings it. */
	struct ran *ran;
	struct note *notes;
	size_t n_notes;
	size_t n_figures, n_latencies, n_goals, n_facts, n_missing, n_ran;
	size_t n_bad;		/* Lines that are no results. */
};

extern const char *const point_names[N_POINTS];

/* The last of a name counts, and nothing that stands before the line of a
 * program that was cut off or failed: it is measured again behind that.
 *
 * Returns EXIT_OK, or EXIT_FAILED and has said why.  A file without figures is
 * an error, unless @empty is fine. */
int result_load(struct result *r, const char *path, bool empty);
void result_free(struct result *r);

/* What is known of @key; "": nothing. */
const char *fact_of(const struct result *r, const char *key);

/* Did @bench run to its end? */
bool has_ended(const struct result *r, const char *bench);

/* Is it the first with this bench, and unit or case unless they are NULL? */
bool is_first_figure(const struct result *r, size_t i, bool unit);

/* Does more of this unit mean better? */
bool more_is_better(const char *unit);

/* What a result becomes.  They return exit statuses. */
int write_csv(const struct result *r, const char *path);
int write_hdr(const struct result *r, const char *dir);
int write_plots(const struct result *r, const char *dir, const char *format);
/* How many panels the plot of @bench has; 0: there is none. */
size_t plot_panels(const struct result *r, const char *bench);

/* @plots is where write_plots() has made files of @format; NULL: nowhere. */
int write_report(const struct result *r, const char *path, const char *plots,
		 const char *format, const char *reasons);
void show_goals(const struct result *r);
/* Fails if a figure is worse by more than @worse percent, or is missing; a
 * negative @worse: never. */
int compare(const struct result *a, const struct result *b, double worse);

/* Open @path to write it, "-" being standard output; NULL: has said why. */
FILE *open_output(const char *path);
int close_output(FILE *f, const char *path);

/* A name of a file in @dir: @a and @b without what does not belong there. */
void file_name(char *to, size_t size, const char *dir, const char *a,
	       const char *b, const char *end);

#endif /* TOOLS_BENCH_H */
