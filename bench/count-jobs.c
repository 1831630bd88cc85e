/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* Jobs that are more than a copy in memory; see count.h. */

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/chain.h>
#include <weir/domain-user.h>
#include <weir/file.h>
#include <weir/job.h>
#include <weir/pool.h>
#include <weir/reactor.h>

#include "bench/bench.h"
#include "bench/count.h"

#define BYTES 64

static struct weir_reactor *r;
static struct weir_dma *dma;
static struct weir_pool *pool;
static struct weir_domain *file, *user[2];
static struct weir_buf *bufs[BATCH];
static struct weir_job jobs[BATCH], steps[2];
static struct weir_chain *chain;
static struct weir_op chain_op;
static char memory[2][BYTES], here[BYTES];
static int fd;
static uint64_t left, running;

static void (*start)(struct weir_op *op);

static void again(struct weir_op *op)
{
	left--;
	running++;
	start(op);
}

static void on_end(struct weir_op *op, int64_t res)
{
	bench_must((int)res, "an operation");
	running--;
	if (left)
		again(op);
	else if (!running)
		weir_reactor_break(r);
}

static void run(void)
{
	bench_must(weir_reactor_run(r), "weir_reactor_run");
}

static void run_jobs(void (*fn)(struct weir_op *op), uint64_t depth)
{
	start = fn;
	left = ROUNDS;
	for (uint64_t i = 0; i < depth; i++) {
		weir_job_init(&jobs[i], on_end);
		again(&jobs[i].op);
	}
	run();
}

static void start_job(struct weir_op *op)
{
	bench_must(weir_job_start(dma, weir_job_of(op)), "weir_job_start");
}

static void start_job_read(struct weir_op *op)
{
	struct weir_job *job = weir_job_of(op);

	weir_job_copy(job, weir_loc_buf(bufs[job - jobs]),
		      weir_loc_at(file, 0, BYTES));
	job->flags = WEIR_JOB_OVERWRITE;
	start_job(op);
}

static void start_bounce(struct weir_op *op)
{
	weir_job_copy(weir_job_of(op), weir_loc_at(user[1], 0, BYTES),
		      weir_loc_at(user[0], 0, BYTES));
	start_job(op);
}

static void start_pull(struct weir_op *op)
{
	weir_job_copy(weir_job_of(op), weir_loc_mem(here, BYTES),
		      weir_loc_at(user[0], 0, BYTES));
	start_job(op);
}

static void start_chain(struct weir_op *op)
{
	bench_must(weir_chain_start(chain, op), "weir_chain_start");
}

void job_read_32(void)
{
	run_jobs(start_job_read, BATCH);
}

void pull_1(void)
{
	run_jobs(start_pull, 1);
}

void bounce_1(void)
{
	run_jobs(start_bounce, 1);
}

/* Which is one pass. */
void chain_crc(void)
{
	start = start_chain;
	left = ROUNDS;
	weir_op_init(&chain_op, on_end);
	again(&chain_op);
	run();
}

/* A domain whose bytes are in memory, at offsets; done at once. */
static int at_once(struct weir_domain *domain, struct weir_reactor *reactor,
		   struct weir_op *op, const struct weir_domain_move *m)
{
	char *base = weir_domain_ctx(domain);
	char *src = m->src.iov->iov_base, *dst = m->dst.iov->iov_base;
	size_t len = m->dst.iov->iov_len;

	(void)reactor;
	if (m->src.domain == domain)
		memcpy(dst, base + (uintptr_t)src, len);
	else
		memcpy(base + (uintptr_t)dst, src, len);
	weir_domain_complete(op, (int64_t)len);
	return 0;
}

static struct weir_domain *make_user(char *mem)
{
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_USER, .ctx = mem,
	};
	struct weir_domain *d = NULL;

	bench_must(weir_domain_create(&d, &opts), "weir_domain_create");
	bench_must(weir_domain_set_pull(d, at_once), "set_pull");
	bench_must(weir_domain_set_push(d, at_once), "set_push");
	return d;
}

static void make_chain(void)
{
	int first;

	bench_must(weir_chain_create(&chain, r, NULL), "weir_chain_create");
	for (int i = 0; i < 2; i++)
		weir_job_init(&steps[i], on_end);
	weir_job_copy(&steps[0], weir_loc_mem(memory[0], BYTES),
		      weir_loc_mem(memory[1], BYTES));
	weir_job_crc32c(&steps[1], weir_loc_mem(memory[0], BYTES), 0);
	first = weir_chain_add_job(chain, WEIR_CHAIN_FIRST, dma, &steps[0]);
	bench_must(first, "weir_chain_add_job");
	bench_must(weir_chain_add_job(chain, first, dma, &steps[1]),
		   "weir_chain_add_job");
}

void jobs_make(struct weir_reactor *reactor, struct weir_dma *context)
{
	struct weir_pool_opts opts = {
		.size = sizeof(opts), .bufs = BATCH, .buf_size = BYTES,
	};

	r = reactor;
	dma = context;
	bench_must(weir_pool_create(&pool, r, &opts), "weir_pool_create");
	fd = memfd_create("count", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 4096))
		bench_die("memfd", 0);
	bench_must(weir_fd_register(r, fd), "weir_fd_register");
	bench_must(weir_domain_file_create(&file, fd, NULL), "file domain");
	user[0] = make_user(memory[0]);
	user[1] = make_user(memory[1]);
	for (int i = 0; i < BATCH; i++)
		bench_must(weir_pool_get(&bufs[i], pool), "weir_pool_get");
	make_chain();
}

void jobs_end(void)
{
	bench_must(weir_chain_destroy(chain), "weir_chain_destroy");
	for (int i = 0; i < BATCH; i++)
		weir_buf_put(bufs[i]);
	bench_must(weir_pool_destroy(pool), "weir_pool_destroy");
	bench_must(weir_domain_destroy(file), "weir_domain_destroy");
	bench_must(weir_domain_destroy(user[0]), "weir_domain_destroy");
	bench_must(weir_domain_destroy(user[1]), "weir_domain_destroy");
	weir_fd_unregister(r, fd);
	close(fd);
}
