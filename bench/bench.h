/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

/*
 * What all benchmarks share: options, repetitions, statistics, output.
 *
 *	bench_init(&b, "nop", argc, argv);
 *	for (bench_begin(&b); bench_next(&b); ) {
 *		bench_add(&b, "batch 1", "liburing", "ns/op", raw());
 *		bench_add(&b, "batch 1", "weir", "ns/op", ours());
 *	}
 *	bench_goal(&b, "NOP, at most 1.15 times liburing", "batch 1", ...);
 *	return bench_done(&b);
 *
 * What waits has a histogram of its latencies beside its figures:
 *
 *	h = bench_latency(&b, "64 connections", "weir");
 *	bench_hist_add(h, ns);
 *
 * Variants take turns within a repetition, so that what disturbs the machine
 * disturbs all of them, and a ratio is the median of the ratios within the
 * repetitions.  A repetition during which other processes used much CPU is
 * thrown away and made again, up to a limit; what could not be made in peace is
 * marked with how much others used.  With --limit a round that has taken so
 * long begins no other repetition.
 *
 * The table goes to stdout, one JSON line per figure to the file of --json.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "bench/hist.h"

#define BENCH_SAMPLES_MAX 99
#define BENCH_FIGURES_MAX 1024
#define BENCH_GOALS_MAX 64
#define BENCH_LATENCIES_MAX 160
#define BENCH_LIST_MAX 16

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* One figure: what a variant has in a case. */
struct bench_figure {
	char what[48];		/* The case: "batch 32". */
	char variant[24];
	char unit[16];
	double sample[BENCH_SAMPLES_MAX];
	int n;
	int n_kept;		/* Those of repetitions that count. */
};

/* The latencies of a variant in a case. */
struct bench_latency {
	char what[48];
	char variant[24];
	struct bench_hist *now;
	struct bench_hist *kept;	/* Of repetitions that count. */
};

/* What a program lets its user choose: --backend, --size, --depth, --cores,
 * --endings. */
enum {
	BENCH_BACKENDS = 1 << 0,
	BENCH_SIZES = 1 << 1,	/* Bytes of one move. */
	BENCH_DEPTHS = 1 << 2,	/* In flight at once. */
	BENCH_CORES = 1 << 3,
	BENCH_ENDINGS = 1 << 4,	/* Of each kind, in a repetition. */
};

/* The values of such an option. */
struct bench_list {
	uint64_t value[BENCH_LIST_MAX];
	int n;
};

enum bench_bound { BENCH_AT_MOST, BENCH_AT_LEAST };

struct bench_goal {
	char text[80];
	char where[64];		/* The case that is furthest from it. */
	double bound;
	double figure;
	enum bench_bound kind;
};

/* How busy the whole machine and we have been, in seconds of CPU time. */
struct bench_load {
	double all;
	double own;
	double wall;
};

struct bench {
	const char *name;
	int reps;
	bool quick;
	const char *only;	/* Run just the variants that contain this. */
	const char *dir;	/* For files. */
	double noise_max;	/* CPUs in use by others, at most. */
	double limit;		/* Seconds of a round; 0: any. */
	const char *json_path;
	const char *reference;	/* The variant that ratios refer to. */
	unsigned int takes;
	uint32_t backends;	/* Bits by WEIR_BACKEND_*; 0: all. */
	struct bench_list sizes, depths, cores;
	int endings;		/* 0: the user has not said. */

	struct bench_figure figures[BENCH_FIGURES_MAX];
	int n_figures;
	struct bench_goal goals[BENCH_GOALS_MAX];
	int n_goals;
	struct bench_latency latencies[BENCH_LATENCIES_MAX];
	int n_latencies;

	int rep;		/* Kept so far, in this round. */
	int tries;
	double begun;		/* The round, in seconds. */
	bool in_rep;
	struct bench_load at;	/* When the repetition began. */
	double noise_sum;
	double wall_sum;
	int n_noisy;
	double foreign_own;	/* CPU seconds of ours that rusage lacks. */
};

/* Read the options; exits for --help and for bad ones. */
void bench_init(struct bench *b, const char *name, int argc, char **argv);

/* Likewise, of a program that also takes the options of @takes. */
void bench_init_with(struct bench *b, const char *name, unsigned int takes,
		     int argc, char **argv);

/* The value @text of the option @what, one of BENCH_BACKENDS and so on; exits
 * for a bad one. */
/* The value of an option, or the end with status 2, saying which it was: a
 * number up to @max, or a count from 1 on. */
double bench_number(const char *option, const char *text, double max);
int bench_count(const char *option, const char *text, int max);
void bench_choose(struct bench *b, unsigned int what, const char *text);

/* What is measured where the user has chosen nothing. */
void bench_default(struct bench_list *list, const uint64_t *value, int n);

/* Does the user want this one of WEIR_BACKEND_*? */
bool bench_wants_backend(const struct bench *b, uint32_t backend);

/* Why there is no reactor of this one of WEIR_BACKEND_*; NULL if there is. */
const char *bench_backend_missing(uint32_t backend);

/* Does the user want it on @n cores? */
bool bench_wants_cores(const struct bench *b, uint64_t n);

/* "4 KiB" */
const char *bench_size_text(char text[24], uint64_t size);

/* A round of repetitions: bench_begin() once, then while bench_next(). */
void bench_begin(struct bench *b);
bool bench_next(struct bench *b);

/* Is this variant wanted?  See --only. */
bool bench_wants(const struct bench *b, const char *variant);

/* One sample of the figure of @variant in case @what.  What is no number, as a
 * rate of nothing in no time, adds nothing. */
void bench_add(struct bench *b, const char *what, const char *variant,
	       const char *unit, double value);

/* Where to add latencies of this repetition, in nanoseconds. */
struct bench_hist *bench_latency(struct bench *b, const char *what,
				 const char *variant);

/* CPU seconds that the kernel's workers have used for us. */
void bench_own_cpu(struct bench *b, double seconds);

/* Something that the reader should know, as a peer that is not installed.  It
 * is shown, and goes to the file of --json. */
void bench_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * A goal: the figure of @variant, divided by that of @other unless that is
 * NULL, is at most or at least @bound.  The same text may come for several
 * cases: the worst one counts.
 */
void bench_goal(struct bench *b, const char *text, const char *what,
		const char *variant, const char *other,
		enum bench_bound kind, double bound);

/* A line of JSON for each library that we are measured beside, or are not. */
void bench_write_peers(FILE *out);

/* The lines of JSON of all of it, to @out. */
void bench_write_json(const struct bench *b, FILE *out);

/* What figures are made of. */
double bench_median_of(const double *sample, int n);
double bench_ratio_of(const struct bench_figure *f,
		      const struct bench_figure *other);
const struct bench_figure *bench_reference_of(const struct bench *b,
					      const struct bench_figure *f);
/* A line of JSON for it. */
void bench_json_note(FILE *out, const char *bench, const char *note);
bool bench_is_met(const struct bench_goal *g);
double bench_noise_of(const struct bench *b);
double bench_load_average(void);

/* Print everything; what main() returns. */
int bench_done(struct bench *b);

/* A figure's median; NAN if there is none. */
double bench_median(const struct bench *b, const char *what,
		    const char *variant, const char *unit);

/* Clocks, in nanoseconds. */
uint64_t bench_wall_ns(void);
uint64_t bench_thread_ns(void);
uint64_t bench_process_ns(void);
double bench_cpu_ns(pid_t pid);	/* Of that process; NAN: it is gone. */

/* A port of 127.0.0.1 that is free now. */
uint16_t bench_free_port(void);

/* End a server, a child process, and wait for it. */
void bench_end(pid_t pid);

/* Pin the calling thread to the @k-th of the CPUs that we may use, or, with
 * fewer than @k + 1 of them, do nothing and return false. */
bool bench_pin(unsigned int k);
void bench_unpin(void);
unsigned int bench_cpus(void);

/* Have space for @n descriptors; returns how many there is capacity for. */
unsigned int bench_need_fds(unsigned int n);

/* Is there a program of that name to run? */
bool bench_has_program(const char *name);

/* The same of one of programs/, built or installed; the environment has its
 * path then, that of weir-cp in WEIR_CP. */
bool bench_find_example(const char *name);
/* Likewise, but without it there is nothing to measure: that is a failure. */
void bench_need_example(const char *name);

/* Say what failed and with which errno, and exit. */
void bench_die(const char *what, int err) __attribute__((noreturn));

/* @err of a call that must not fail here. */
static inline void bench_must(int err, const char *what)
{
	if (__builtin_expect(err < 0, 0))
		bench_die(what, -err);
}

/* xorshift: cheap, and the same numbers in every run. */
static inline uint64_t bench_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	return x;
}

#endif /* BENCH_BENCH_H */
