/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A chain with a branch for errors: a block comes from a disk, is checked
 * against its checksum, and if that is wrong comes from the other disk.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir/chain.h>
#include <weir/crc32c.h>
#include <weir/dma.h>
#include <weir/job.h>
#include <weir/reactor.h>

#define LEN 4096

/* Two "disks" with the same block, and a request to read it. */
static char disk[2][LEN];
static uint32_t expected;

struct request {
	struct weir_op op;
	struct weir_reactor *r;
	struct weir_job copy, crc, again;
	char block[LEN];
	int64_t res;
};

/* The step behind the checksum: was it right? */
static int64_t check(struct weir_chain *chain, uint32_t step, void *arg)
{
	struct request *rq = arg;

	(void)chain, (void)step;
	return rq->crc.crc == expected ? 0 : -EILSEQ;
}

static void on_end(struct weir_op *op, int64_t res)
{
	struct request *rq = weir_container_of(op, struct request, op);

	rq->res = res;
	weir_reactor_break(rq->r);
}

static const char *state_name(struct weir_chain *chain, uint32_t step)
{
	static const char *const names[] = {
		"idle", "running", "done", "failed", "cancelled", "skipped",
	};
	struct weir_chain_step s = { .size = sizeof(s) };

	return weir_chain_get_step(chain, step, &s) ? "?" : names[s.state];
}

/* One line for each step.  "crc" is done in the pass of "copy". */
static int build(struct weir_chain *chain, struct weir_dma *dma,
		 struct request *rq)
{
	int copy, crc, good, other;

	copy = weir_chain_add_job(chain, WEIR_CHAIN_FIRST, dma, &rq->copy);
	crc = weir_chain_add_job(chain, copy, dma, &rq->crc);
	good = weir_chain_add_call(chain, crc, check, rq);
	other = weir_chain_add_job(chain, good, dma, &rq->again);
	if (other < 0)
		return other;
	return weir_chain_add_dep(chain, (uint32_t)other, (uint32_t)good,
				  WEIR_CHAIN_ON_FAILED);
}

static int read_block(struct weir_chain *chain, struct request *rq)
{
	static const char *const steps[] = { "copy", "crc", "check", "again" };
	uint32_t i;
	int err;

	memset(rq->block, 0, LEN);
	err = weir_chain_start(chain, &rq->op);
	if (!err)
		err = weir_reactor_run(rq->r);
	if (err < 0)
		return err;
	for (i = 0; i < 4; i++)
		printf("%s: %s; ", steps[i], state_name(chain, i));
	printf("%s\n", memcmp(rq->block, disk[1], LEN) ? "WRONG" : "good");
	return rq->res < 0 ? (int)rq->res : memcmp(rq->block, disk[1], LEN);
}

int main(void)
{
	static struct request rq;
	struct weir_chain *chain = NULL;
	struct weir_dma *dma = NULL;
	struct weir_operand block = weir_operand_mem(rq.block, LEN);

	memset(disk, 'w', sizeof(disk));
	expected = weir_crc32c(0, disk[0], LEN);
	if (weir_reactor_create(&rq.r, NULL) ||
	    weir_dma_create(&dma, rq.r, NULL) || weir_dma_start(dma) ||
	    weir_chain_create(&chain, rq.r, NULL) || build(chain, dma, &rq))
		return 1;
	weir_op_init(&rq.op, on_end);
	weir_job_copy(&rq.copy, block, weir_operand_mem(disk[0], LEN));
	weir_job_crc32c(&rq.crc, block, 0);
	weir_job_copy(&rq.again, block, weir_operand_mem(disk[1], LEN));
	if (read_block(chain, &rq))
		return 1;
	disk[0][99] ^= 1;
	rq.crc.crc = 0;
	if (read_block(chain, &rq))
		return 1;
	return weir_chain_destroy(chain) || weir_dma_destroy(dma) ||
	       weir_reactor_destroy(rq.r);
}
