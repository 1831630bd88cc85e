/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A file through a pipeline: each block is read, checksummed and written, eight
 * of them at a time, and the blocks are done in their order.
 *
 *	19-pipeline [FROM TO]	without arguments, files of its own
 */

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <weir/chain.h>
#include <weir/crc32c.h>
#include <weir/dma.h>
#include <weir/domain.h>
#include <weir/job.h>
#include <weir/pipeline.h>
#include <weir/pool.h>
#include <weir/reactor.h>

#define BLOCK (256u << 10)

static struct weir_reactor *r;
static struct weir_dma *dma;
static struct weir_domain *from, *to;
static struct weir_pipeline *pipeline;
static uint64_t size, at;
static uint32_t crc;

/* What is in a slot: the jobs of a block. */
struct block { struct weir_job read, crc, write; };

static int build(struct weir_slot *slot, void *arg)
{
	struct weir_chain *chain = weir_slot_chain(slot);
	struct block *b = weir_slot_data(slot);
	int n = weir_chain_add_job(chain, WEIR_CHAIN_FIRST, dma, &b->read);

	(void)arg;
	n = weir_chain_add_job(chain, n, dma, &b->crc);
	n = weir_chain_add_job(chain, n, dma, &b->write);
	return n < 0 ? n : 0;
}

/* The next block: what its jobs do. */
static int next(struct weir_slot *slot, void *arg)
{
	struct weir_operand buf = weir_operand_buf(weir_slot_buf(slot));
	uint64_t len = size - at < BLOCK ? size - at : BLOCK;
	struct block *b = weir_slot_data(slot);

	(void)arg;
	if (!len)
		return WEIR_PIPELINE_END;
	weir_job_copy(&b->read, buf, weir_operand_at(from, at, len));
	weir_job_crc32c(&b->crc, buf, 0);
	weir_job_copy(&b->write, weir_operand_at(to, at, len), buf);
	weir_slot_set_bytes(slot, len);
	at += len;
	return WEIR_PIPELINE_UNIT;
}

/* A block has ended, and all before it: its error is the pipeline's. */
static int done(struct weir_slot *slot, int64_t res, void *arg)
{
	struct weir_pipeline_progress p = { .size = sizeof(p) };
	struct block *b = weir_slot_data(slot);

	(void)arg;
	if (res < 0)
		return (int)res;
	crc = weir_crc32c_combine(crc, b->crc.crc, b->write.dst.len);
	weir_pipeline_progress(pipeline, &p);
	if (weir_slot_unit(slot) % 16 == 0)
		printf("%3.0f %%\n", 100.0 * (double)p.bytes / (double)size);
	return 0;
}

static void on_end(struct weir_op *op, int64_t res)
{
	*(int64_t *)op->data = res;
	weir_reactor_break(r);
}

int main(int argc, char **argv)
{
	struct weir_pool_opts po = { .size = sizeof(po), .buf_size = BLOCK,
				     .bufs = 8 };
	struct weir_pipeline_opts o = { .size = sizeof(o), .build = build,
		.next = next, .done = done, .flags = WEIR_PIPELINE_ORDERED,
		.data_size = sizeof(struct block) };
	struct weir_pipeline_failure f = { .size = sizeof(f) };
	int64_t res = 0;
	struct weir_op op = { .fn = on_end, .data = &res };
	int in = argc > 2 ? open(argv[1], O_RDONLY) : fileno(tmpfile());
	int out = argc > 2 ? open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0666) :
			     fileno(tmpfile());

	if (in < 0 || (argc <= 2 && ftruncate(in, (16 << 20) + 1000)))
		return 1;
	size = (uint64_t)lseek(in, 0, SEEK_END);
	if (weir_reactor_create(&r, NULL) || weir_dma_create(&dma, r, NULL) ||
	    weir_dma_start(dma) || weir_pool_create(&o.pool, r, &po) ||
	    weir_domain_file_create(&from, in, NULL) ||
	    weir_domain_file_create(&to, out, NULL) ||
	    weir_pipeline_create(&pipeline, r, &o) ||
	    weir_pipeline_start(pipeline, &op))
		return fprintf(stderr, "19-pipeline: %s\n", weir_why()), 1;
	weir_reactor_run(r);
	if (!weir_pipeline_failure(pipeline, &f))
		printf("block %llu failed in step %d\n",
		       (unsigned long long)f.unit, f.step);
	printf("%lld blocks, CRC-32C %08x\n", (long long)res, crc);
	return weir_pipeline_destroy(pipeline) || weir_pool_destroy(o.pool) ||
	       weir_domain_destroy(from) || weir_domain_destroy(to) ||
	       weir_dma_destroy(dma) || weir_reactor_destroy(r) || res < 0;
}
