/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_TASKS_H
#define BENCH_TASKS_H

/*
 * CPU time of each thread of a process, or of the kernel's own workers, from
 * /proc.  Read them before and after; each is compared with itself.
 */

#include <stdint.h>
#include <sys/types.h>

#define BENCH_TASKS_MAX 1024

struct bench_tasks {
	unsigned int n;
	struct bench_task {
		long id;
		uint64_t ns;
	} task[BENCH_TASKS_MAX];
};

/* The threads of process @pid. */
void bench_tasks_of(struct bench_tasks *t, pid_t pid);

/* The kernel's workers that are bound to no CPU, and those of loop devices of
 * kernels before 5.14.  None where /proc does not show them. */
void bench_tasks_kernel(struct bench_tasks *t);

/* Nanoseconds that the busiest of them, or all, have used in between; who was
 * not there before has used all of its time in between. */
uint64_t bench_tasks_busiest(const struct bench_tasks *before,
			     const struct bench_tasks *after);
uint64_t bench_tasks_used(const struct bench_tasks *before,
			  const struct bench_tasks *after);

#endif /* BENCH_TASKS_H */
