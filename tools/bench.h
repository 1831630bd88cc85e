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
 *	bench-case.c     the cases of a result that decide
 *	bench-compare.c  compares two files
 *	bench-csv.c bench-picture.c bench-report.c
 *	                 the forms of a result
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct result;

/* The programs. */

struct program {
	const char *name;
	const char *measures;
	const char *beside;
	const char *takes;	/* Of "backend size depth cores". */
	bool by_name;		/* Runs only if asked for by name. */

	/* What a picture of its figures answers; NULL: it has none. */
	const char *question;

	/*
	 * Beginnings of names of variants, with "|" between them: those of
	 * weir, first what a program gets that chooses nothing; programs that do
	 * only what the machine must do; and those that pictures omit.  NULL:
	 * "weir", "bare" and none.  All others are peers.
	 */
	const char *ours, *bare, *omit;

	/* The cases that pictures show, likewise, first the one that decides;
	 * NULL: all.  And the case whose latencies are shown; NULL: none. */
	const char *cases, *curve;
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

/* One line about the machine of @r, the versions, and when it ran. */
#define MACHINE_TEXT 512
void machine_text(char to[MACHINE_TEXT], const struct result *r);

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
	double n;		/* Repetitions. */
	double *sample;
	size_t n_samples;	/* 0: they were not kept. */
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
	size_t n;		/* 0: they were not kept. */
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

/* Whether it is the first of its bench. */
bool is_first_figure(const struct result *r, size_t i);

/* Whether more of this unit is better. */
bool more_is_better(const char *unit);

/* Cases. */

enum origin { OURS, PEER, BARE };

enum origin origin_of(const char *bench, const char *variant);

#define VARIANTS_MAX 16
#define CASES_MAX 12

/* A figure of a case.  Speeds are relative to the case's @one; more is better. */
struct shown {
	const struct figure *figure;
	enum origin origin;
	double speed, low, high;	/* Of the median, and of the extremes. */
	double wanted;			/* What meets its goal; NAN: it has none. */
};

struct bench_case {
	const struct name *name;	/* Its variant is any. */
	struct shown variant[VARIANTS_MAX];	/* The fastest first. */
	size_t n;
	const struct figure *weir;	/* What chooses nothing. */
	const struct figure *peer, *bare;	/* The best; NULL: none. */
	const struct figure *one;	/* The best that is not weir's. */
};

/* Find the cases of @p that pictures show, at most CASES_MAX, first the one that
 * decides. */
size_t cases_of(const struct result *r, const struct program *p,
		struct bench_case *to);

/* Whether a picture of latencies shows @variant. */
bool is_in_curves(const struct program *p, const char *variant);

/* That of a figure of @value, in the unit of @one. */
double speed(double value, const struct figure *one);

/* The forms of a result.  They return exit statuses. */
int write_csv(const struct result *r, const char *path);
int write_hdr(const struct result *r, const char *dir);

/* Write all pictures of @r into @dir: overview.svg, NAME.svg for each program
 * with cases, and NAME-latency.svg for each that has_curves(). */
int write_pictures(const struct result *r, const char *dir);
bool has_curves(const struct result *r, const struct program *p);

/* Write a page to @path, which ends with ".md", and its pictures and tables to
 * the directory of that name without ".md". */
int write_report(const struct result *r, const char *path, const char *reasons);
void show_goals(const struct result *r);
/* Fails if a figure is worse by more than @worse percent, or is missing; a
 * negative @worse: never. */
int compare(const struct result *a, const struct result *b, double worse);

/* Open @path for writing; "-" is standard output.  NULL: a message was
 * written. */
FILE *open_output(const char *path);
int close_output(FILE *f, const char *path);

/* The same for a file in @dir, whose path becomes @path. */
__attribute__((format(printf, 3, 4)))
FILE *open_in(char path[PATH_MAX], const char *dir, const char *name, ...);

int make_dir(const char *path);

#endif /* TOOLS_BENCH_H */
