/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_PERFTEST_H
#define BENCH_PERFTEST_H

/*
 * Programs of perftest, as peers: both ends on one device, told apart by their
 * port, as two processes of ours are.
 */

#include <stdbool.h>

/* One of its programs, and what it is to do. */
struct perftest {
	const char *program;	/* "ib_write_bw" */
	const char *device;
	const char *gid;
	unsigned int bytes;
	unsigned int n;
	bool events;		/* -e: sleep for completions. */
	int column;		/* Of the line of results, from 0. */
};

struct perftest_result {
	double figure;		/* What is in the column. */
	double cpu_ns;		/* Of the end that measures, in all. */
};

/* Whether it is installed. */
bool perftest_has(const char *program);

/* Run it.  Returns false if it has failed, with what it said on stderr. */
bool perftest_run(const struct perftest *p, struct perftest_result *ret);

#endif /* BENCH_PERFTEST_H */
