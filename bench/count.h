/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_COUNT_H
#define BENCH_COUNT_H

/* What count.c, count-cores.c and count-jobs.c have in common. */

#include <stdint.h>

#include <weir/job.h>

#define ROUNDS 1000
#define BATCH 32

extern struct weir_job jobs[BATCH];

/* ROUNDS of what @fn starts, so many at a time: operations, or those of
 * .jobs. */
void run_ops(void (*fn)(struct weir_op *op), uint64_t depth);
void run_jobs(void (*fn)(struct weir_op *op), uint64_t depth);

/*
 * Messages between two reactors, the sender's and the receiver's side together:
 * of a group, and "other", which are of none, as from any other thread.
 */
void cores_make(void);
void cores_end(void);
void call_1(void);
void call_32(void);
void call_other_32(void);
void post_spsc_32(void);
void post_other_32(void);
void turn_2(void);
void turn_64(void);

/* Jobs to and from other places than memory, through staging, and in chains. */
void jobs_make(struct weir_reactor *reactor, struct weir_dma *context);
void jobs_end(void);
void job_export_32(void);
void job_import_32(void);
void job_read_32(void);
void pull_1(void);
void bounce_1(void);
void chain_crc(void);

#endif /* BENCH_COUNT_H */
