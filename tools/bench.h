/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

/*
 * weir bench: runs the programs bench-*, which are installed beside the
 * library, and shows their results.
 *
 *	bench.c          the command line
 *	bench-table.c    the programs
 *	bench-peers.c    versions of other programs
 *	bench-machine.c  the description of the machine
 *	bench-run.c      runs the programs; their lines go to one file
 *	bench-line.c     one line of that file
 *	bench-result.c   the whole file
 *	bench-compare.c  compares two files
 *	bench-csv.c bench-plot.c bench-report.c
 *	                 the forms of a result
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

/* Which programs to run, and how. */
struct wanted {
	const struct program **programs;
	size_t n_programs;
	const char *const *options;	/* For each of them, NULL at the end. */
	bool quiet;			/* Their tables are not shown. */
	bool go_on;			/* The file is there: add to it. */
	double limit;			/* Seconds of a round; 0: any. */
	size_t n_done;			/* Those that ran to their end. */
};

/* Run them.  The file @path gets a line about this machine, the lines of
 * write_peers(), and those of the programs.  Returns an exit status. */
int run_programs(struct wanted *w, const char *path);
void write_machine(FILE *out, const char *const *options);
void write_peers(FILE *out);

/* The version of the library, and the commit, if it was built in a git tree. */
const char *version_text(void);

/* @options, which end with NULL, as one text for JSON. */
#define OPTIONS_TEXT 512
void options_text(char *to, size_t size, const char *const *options);

/* The members of one line of JSON: an object of strings, numbers, booleans and
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

/* Parse @text, which is changed and referred to.  Returns 0, -EINVAL, or
 * -ENOMEM. */
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

/* A note of a program about its figures. */
struct note {
	char *bench, *text;
};

/* A property of the machine, or the version of a peer. */
struct fact {
	char *key, *value;
};

/* How a program ended: "ok", or the error. */
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

/*
 * Load a result.  Of several entries of a name the last counts.  Entries before
 * the line of a program that was killed or failed do not count, because it is
 * measured again after that.
 *
 * Returns EXIT_OK, or EXIT_FAILED after a message.  A file without figures is
 * an error, unless @empty.
 */
int result_load(struct result *r, const char *path, bool empty);
void result_free(struct result *r);

/* The value of @key; "": unknown. */
const char *fact_of(const struct result *r, const char *key);

/* Whether @bench ran to its end. */
bool has_ended(const struct result *r, const char *bench);

/* Whether it is the first with this bench, and with this unit or case unless
 * they are NULL. */
bool is_first_figure(const struct result *r, size_t i, bool unit);

/* Whether more of this unit is better. */
bool more_is_better(const char *unit);

/* The forms of a result.  They return exit statuses. */
int write_csv(const struct result *r, const char *path);
int write_hdr(const struct result *r, const char *dir);
int write_plots(const struct result *r, const char *dir, const char *format);
/* The number of panels in the plot of @bench; 0: there is no plot. */
size_t plot_panels(const struct result *r, const char *bench);

/* @plots: the directory of write_plots()'s files of @format; NULL: none. */
int write_report(const struct result *r, const char *path, const char *plots,
		 const char *format, const char *reasons);
void show_goals(const struct result *r);
/* Fails if a figure is worse by more than @worse percent, or is missing; a
 * negative @worse: never. */
int compare(const struct result *a, const struct result *b, double worse);

/* Open @path for writing; "-" is standard output.  NULL: a message was
 * written. */
FILE *open_output(const char *path);
int close_output(FILE *f, const char *path);

/* The name of a file in @dir: @a and @b without unsuitable characters. */
void file_name(char *to, size_t size, const char *dir, const char *a,
	       const char *b, const char *end);

#endif /* TOOLS_BENCH_H */
