/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_LATE_CHILD_H
#define BENCH_LATE_CHILD_H

/*
 * Endings that are tried in child processes, a process for each: a peer that
 * crashes or hangs is a row of the result, and the next ending finds a library
 * that nothing has happened to.  Used by bench-late and by the programs of peers
 * that it runs, which do not link weir.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What a transfer writes, and what the owner of the memory writes after it. */
#define LATE_THEIRS 'w'
#define LATE_OURS 'o'

/* The exit status of a child that cannot try what it should. */
#define LATE_SKIP 77

/* How one ending went. */
struct late_one {
	uint64_t bytes;		/* That came late. */
	uint64_t end_ns;	/* From the call to its being complete. */
	int refused;		/* The call ended nothing, and said so. */
	int too_early;		/* There was nothing in flight yet, or no more. */
	char why[96];		/* Of LATE_SKIP. */
};

/* How many of them went how. */
struct late_sum {
	uint64_t tried;
	uint64_t late;		/* Endings with late bytes. */
	uint64_t bytes;		/* Late, of all. */
	uint64_t most;		/* Late, of one. */
	uint64_t worst_ns;	/* The longest end. */
	uint64_t refused;
	uint64_t crashed, hung;
	uint64_t over;		/* The transfer had ended by itself before. */
	uint64_t timed_out;	/* Said -ETIMEDOUT, and ... */
	uint64_t named;		/* ... named the process that was waited for. */
	char why[96];		/* Nothing could be tried; empty otherwise. */
	char version[32];
};

/* Try one ending; runs in a child, which leaves by exit() or by returning. */
typedef void late_fn(struct late_one *one, size_t size, const void *arg);

/* Try @n of them.  Stops early where nothing can be tried, or after the third
 * that hangs. */
void late_repeat(struct late_sum *sum, late_fn *fn, const void *arg,
		 size_t size, int n);

/* End the child: what it should try cannot be tried, because of @why. */
void late_skip(struct late_one *one, const char *why)
	__attribute__((noreturn));

/* A sum as a line of text, and back; -1: it is no such line. */
void late_print(const struct late_sum *sum, FILE *out);
int late_parse(struct late_sum *sum, const char *line);

/* For what is tried. */
uint64_t late_now(void);
/* Any time up to what a write of @size takes, at 8 bytes in a nanosecond. */
uint64_t late_delay(size_t size);
void late_delay_spin(size_t size);
/* How long what is still written after an ending is waited for, where nothing
 * tells that it is over. */
unsigned int late_settle_us(size_t size);
void late_paint(char *memory, size_t size);
/* Bytes of @memory that are not the owner's. */
uint64_t late_count_bytes(const char *memory, size_t size);

#endif /* BENCH_LATE_CHILD_H */
