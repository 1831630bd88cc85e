/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_TOP_H
#define TOOLS_TOP_H

/*
 * weir top: shows processes from their pages of statistics.
 *
 *	top.c             options, the list of processes, the loop
 *	top-ask.c         queries of a page, and of the previous one
 *	top-text.c        as text;  top-screen.c  on a terminal
 *	top-json.c        top-prometheus.c
 *	top-screen-none.c instead of top-screen.c, without ncurses
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <weir/stats.h>

/* A process: its present page, and the one of an interval ago. */
struct process {
	struct weir_stats *now;
	struct weir_stats *before;	/* NULL: this is the first look. */
	struct weir_stats *spare;	/* What the next look is read into. */
	uint64_t want_ns;
};

/* A section of it, and field @f of that. */
struct section {
	struct weir_stats_section s;
	uint32_t i;
};

/* Open it; one that offers its page is asked to measure for @want_ns after each
 * look.  0, or an exit status after a message. */
int process_open(struct process *p, int64_t pid, uint64_t want_ns);
void process_close(struct process *p);

/* Have those of @n open ones measure that offer it, and read their pages again. */
void processes_want(struct process *all, int n, uint64_t ns);

/* Read the page again: 0, or an errno, which process_failed() reports. */
int process_look(struct process *p);
int process_failed(const struct process *p, int err);

struct weir_stats_info process_info(const struct process *p);

/* The next section after @i that is shown; false: there is none.  Begin with
 * @sec->i at UINT32_MAX. */
bool next_section(const struct weir_stats *s, struct section *sec);

/* The histogram of a section; its number, or -1. */
int histogram_of(const struct weir_stats *s, uint32_t i);

/* The value of a field; 0 if there is none. */
uint64_t value_of(const struct weir_stats *s, uint32_t i, const char *name);

/* The same section an interval ago; -1: it did not exist. */
int64_t section_before(const struct process *p, const struct section *sec);

/* The growth of @name per second in the interval; at the first read, since the
 * beginning. */
double rate_of(const struct process *p, const struct section *sec,
	       const char *name);

/* Write everything, in lines of at most 80 columns. */
void top_text(FILE *out, const struct process *p);
void top_json(const struct process *p);
void top_prometheus(const struct process *all, int n);

/* Show it on the terminal until the user quits, or @count times, if that is not
 * 0.  Returns an exit status, or -1: the terminal is not suitable. */
int top_screen(struct process *p, uint64_t interval_ns, uint64_t count);

#endif /* TOOLS_TOP_H */
