/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_READ_JOBS_H
#define BENCH_READ_JOBS_H

/* Random reads of a file, up to READ_JOBS_MAX at a time, as jobs of the file
 * engine that read into bufs of a pool. */

#include <weir/buf.h>
#include <weir/dma.h>
#include <weir/domain.h>
#include <weir/job.h>
#include <weir/pool.h>
#include <weir/reactor.h>

#include "bench/bench.h"

#define READ_JOBS_MAX 256

static struct {
	struct weir_reactor *reactor;
	struct weir_dma *dma;
	struct weir_pool *pool;
	struct weir_domain *file;
	uint64_t (*offset)(void);
	uint64_t left, running;
	uint32_t block;
	struct weir_job jobs[READ_JOBS_MAX];
	struct weir_buf *bufs[READ_JOBS_MAX];
} reads;

static void read_job_start(struct weir_job *job)
{
	reads.left--;
	reads.running++;
	weir_job_copy(job, weir_operand_buf(reads.bufs[job - reads.jobs]),
		      weir_operand_at(reads.file, reads.offset(), reads.block));
	job->flags = WEIR_JOB_OVERWRITE;
	bench_must(weir_job_start(reads.dma, job), "weir_job_start");
}

static void read_job_end(struct weir_op *op, int64_t res)
{
	if (res != reads.block)
		bench_die("job", (int)-res);
	reads.running--;
	if (reads.left)
		read_job_start(weir_job_of(op));
	else if (!reads.running)
		weir_reactor_break(reads.reactor);
}

static void read_jobs_run(uint64_t n, unsigned int depth)
{
	reads.left = n;
	for (unsigned int i = 0; i < depth && reads.left; i++) {
		weir_job_init(&reads.jobs[i], read_job_end);
		read_job_start(&reads.jobs[i]);
	}
	bench_must(weir_reactor_run(reads.reactor), "weir_reactor_run");
}

/* Each read has @block bytes of @fd at @offset(). */
static void read_jobs_init(struct weir_reactor *r, int fd, uint32_t block,
			   uint64_t (*offset)(void))
{
	struct weir_pool_opts opts = {
		.size = sizeof(opts), .bufs = READ_JOBS_MAX, .buf_size = block,
	};

	reads.reactor = r;
	reads.block = block;
	reads.offset = offset;
	bench_must(weir_dma_create(&reads.dma, r, NULL), "weir_dma_create");
	bench_must(weir_dma_start(reads.dma), "weir_dma_start");
	bench_must(weir_pool_create(&reads.pool, r, &opts), "weir_pool_create");
	bench_must(weir_domain_file_create(&reads.file, fd, NULL),
		   "weir_domain_file_create");
	for (int i = 0; i < READ_JOBS_MAX; i++)
		bench_must(weir_pool_get(&reads.bufs[i], reads.pool),
			   "weir_pool_get");
}

static void read_jobs_fini(void)
{
	for (int i = 0; i < READ_JOBS_MAX; i++)
		weir_buf_put(reads.bufs[i]);
	bench_must(weir_domain_destroy(reads.file), "weir_domain_destroy");
	bench_must(weir_pool_destroy(reads.pool), "weir_pool_destroy");
	bench_must(weir_dma_destroy(reads.dma), "weir_dma_destroy");
}

#endif /* BENCH_READ_JOBS_H */
