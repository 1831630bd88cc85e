/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that are more than a copy in memory; see count.h. */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/chain.h>
#include <weir/export.h>
#include <weir/file.h>
#include <weir/inventory.h>
#include <weir/job.h>
#include <weir/mmap.h>
#include <weir/pool.h>
#include <weir/reactor.h>

#include "bench/bench.h"
#include "bench/count.h"
#include "bench/user-domain.h"

#define BYTES 64

static struct weir_reactor *r;
static struct weir_dma *dma;
static struct weir_pool *pool;
static struct weir_domain *file, *user[2];
static struct weir_buf *bufs[BATCH];
static struct weir_job steps[2];
static struct weir_chain *chain;
static char memory[2][BYTES], here[BYTES];
static int fd;

/* Memory of this process, and the same as an import. */
static struct shared {
	struct weir_mmap *mmap;
	struct weir_inventory *inventory;
	struct weir_buf *bufs[BATCH];
} exported, imported;

static void start_job(struct weir_op *op)
{
	bench_must(weir_job_start(dma, weir_job_of(op)), "weir_job_start");
}

static void start_job_read(struct weir_op *op)
{
	struct weir_job *job = weir_job_of(op);

	weir_job_copy(job, weir_operand_buf(bufs[job - jobs]),
		      weir_operand_at(file, 0, BYTES));
	job->flags = WEIR_JOB_OVERWRITE;
	start_job(op);
}

static void start_bounce(struct weir_op *op)
{
	weir_job_copy(weir_job_of(op), weir_operand_at(user[1], 0, BYTES),
		      weir_operand_at(user[0], 0, BYTES));
	start_job(op);
}

static void start_pull(struct weir_op *op)
{
	weir_job_copy(weir_job_of(op), weir_operand_mem(here, BYTES),
		      weir_operand_at(user[0], 0, BYTES));
	start_job(op);
}

static void start_chain(struct weir_op *op)
{
	bench_must(weir_chain_start(chain, op), "weir_chain_start");
}

static void copy_to(const struct shared *s, struct weir_op *op)
{
	struct weir_job *job = weir_job_of(op);

	weir_job_copy(job, weir_operand_buf(s->bufs[job - jobs]),
		      weir_operand_mem(here, BYTES));
	job->flags = WEIR_JOB_OVERWRITE;
	start_job(op);
}

static void start_export(struct weir_op *op)
{
	copy_to(&exported, op);
}

static void start_import(struct weir_op *op)
{
	copy_to(&imported, op);
}

void job_export_32(void)
{
	run_jobs(start_export, BATCH);
}

/* What it takes more is what an import costs. */
void job_import_32(void)
{
	run_jobs(start_import, BATCH);
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
	run_ops(start_chain, 1);
}

static void on_step(struct weir_op *op, int64_t res)
{
	(void)op;
	bench_must((int)res, "a step");
}

static void make_chain(void)
{
	int first;

	bench_must(weir_chain_create(&chain, r, NULL), "weir_chain_create");
	for (int i = 0; i < 2; i++)
		weir_job_init(&steps[i], on_step);
	weir_job_copy(&steps[0], weir_operand_mem(memory[0], BYTES),
		      weir_operand_mem(memory[1], BYTES));
	weir_job_crc32c(&steps[1], weir_operand_mem(memory[0], BYTES), 0);
	first = weir_chain_add_job(chain, WEIR_CHAIN_FIRST, dma, &steps[0]);
	bench_must(first, "weir_chain_add_job");
	bench_must(weir_chain_add_job(chain, first, dma, &steps[1]),
		   "weir_chain_add_job");
}

static void shared_get(struct shared *s)
{
	struct weir_inventory_opts opts = {
		.size = sizeof(opts), .bufs = BATCH,
	};
	void *addr = NULL;

	bench_must(weir_mmap_memrange(s->mmap, &addr, NULL), "memrange");
	bench_must(weir_inventory_create(&s->inventory, r, &opts),
		   "weir_inventory_create");
	bench_must(weir_inventory_attach(s->inventory, s->mmap),
		   "weir_inventory_attach");
	for (int i = 0; i < BATCH; i++)
		bench_must(weir_inventory_get(&s->bufs[i], s->inventory,
					      s->mmap, (char *)addr + i * BYTES,
					      BYTES, NULL, 0),
			   "weir_inventory_get");
}

static void shared_end(struct shared *s)
{
	for (int i = 0; i < BATCH; i++)
		weir_buf_put(s->bufs[i]);
	bench_must(weir_inventory_destroy(s->inventory), "inventory");
	bench_must(weir_mmap_destroy(s->mmap), "weir_mmap_destroy");
}

static void make_shared(void)
{
	struct weir_export_desc d = { .size = sizeof(d) };

	bench_must(weir_mmap_create(&exported.mmap, NULL), "weir_mmap_create");
	bench_must(weir_mmap_alloc(exported.mmap, BATCH * BYTES,
				   WEIR_MMAP_ALLOC_MEMFD), "weir_mmap_alloc");
	bench_must(weir_mmap_set_permissions(exported.mmap, WEIR_MMAP_WRITE |
					     WEIR_MMAP_PEER_WRITE),
		   "weir_mmap_set_permissions");
	bench_must(weir_mmap_start(exported.mmap), "weir_mmap_start");
	bench_must(weir_mmap_export(exported.mmap, NULL, &d),
		   "weir_mmap_export");
	bench_must(weir_mmap_import(&imported.mmap, d.bytes, d.len, d.fds,
				    d.n_fds, NULL), "weir_mmap_import");
	shared_get(&exported);
	shared_get(&imported);
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
	user[0] = user_domain_make(memory[0]);
	user[1] = user_domain_make(memory[1]);
	for (int i = 0; i < BATCH; i++)
		bench_must(weir_pool_get(&bufs[i], pool), "weir_pool_get");
	make_chain();
	make_shared();
}

void jobs_end(void)
{
	shared_end(&imported);
	shared_end(&exported);
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
