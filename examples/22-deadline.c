/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A deadline on a device that is stuck.
 *
 * It reaches the step that runs; but its callback comes only when nothing can
 * touch the caller's buffer any more.  So a device that can be told to let go
 * ends in time, and one that cannot ends when it does, with an honest result.
 */

#include <errno.h>
#include <stdio.h>

#include <weir/chain.h>
#include <weir/dma.h>
#include <weir/domain-user.h>
#include <weir/job.h>
#include <weir/reactor.h>
#include <weir/timer.h>

static struct weir_reactor *reactor;
static struct weir_op *asked;		/* What the device works on. */
static char block[512];
static struct weir_op late;

static int pull(struct weir_domain *d, struct weir_reactor *r,
		struct weir_op *op, const struct weir_domain_move *move)
{
	(void)d, (void)r, (void)move;
	asked = op;
	return 0;			/* And that is the last we hear of it. */
}

/* A device that can be told: from here on it does not touch the block. */
static void let_go(struct weir_domain *d, struct weir_op *op)
{
	(void)d;
	weir_domain_complete(op, -ECANCELED);
}

/* One that cannot, and lets go after a while. */
static void at_last(struct weir_op *op, int64_t res)
{
	(void)op, (void)res;
	weir_domain_complete(asked, -EIO);
}

static void on_end(struct weir_op *op, int64_t res)
{
	*(int64_t *)op->data = res;
	weir_reactor_break(reactor);
}

/* The chain's result, after @ms at most if the device can be told. */
static int64_t attempt(struct weir_chain *chain, uint64_t ms)
{
	uint64_t begin = weir_reactor_now(reactor);
	struct weir_chain_step read = { .size = sizeof(read) };
	struct weir_chain_step next = { .size = sizeof(next) };
	struct weir_op op;
	int64_t res = 1;

	weir_op_init(&op, on_end);
	op.data = &res;
	weir_op_set_deadline(&op, begin + ms * WEIR_MSEC);
	if (weir_chain_start(chain, &op) || weir_reactor_run(reactor) < 0)
		return 1;
	weir_chain_get_step(chain, 0, &read);
	weir_chain_get_step(chain, 1, &next);
	printf("%lld after %llu ms; the read: state %u, result %lld, %llu "
	       "bytes; the next step: state %u\n", (long long)res,
	       (unsigned long long)((weir_reactor_now(reactor) - begin) /
				    WEIR_MSEC), read.state,
	       (long long)read.res, (unsigned long long)read.detail.bytes,
	       next.state);
	return next.state == WEIR_STEP_SKIPPED ? res : 1;
}

int main(void)
{
	struct weir_domain_opts opts = { .size = sizeof(opts),
					 .kind = WEIR_DOMAIN_USER };
	struct weir_chain *chain = NULL;
	struct weir_domain *device;
	struct weir_dma *dma = NULL;
	struct weir_job job[2];
	int i;

	if (weir_reactor_create(&reactor, NULL) ||
	    weir_dma_create(&dma, reactor, NULL) || weir_dma_start(dma) ||
	    weir_domain_create(&device, &opts) ||
	    weir_domain_set_pull(device, pull) ||
	    weir_domain_set_cancel(device, let_go) ||
	    weir_chain_create(&chain, reactor, NULL))
		return 1;
	for (i = 0; i < 2; i++) {
		weir_job_init(&job[i], NULL);
		weir_chain_add_job(chain, i - 1, dma, &job[i]);
	}
	weir_job_copy(&job[0], weir_operand_mem(block, 512),
		      weir_operand_at(device, 0, 512));
	weir_job_fill(&job[1], weir_operand_mem(block, 512), 0);
	if (attempt(chain, 5) != -ETIMEDOUT)
		return 1;
	weir_domain_set_cancel(device, NULL);
	weir_op_init(&late, at_last);
	if (weir_sleep_until(reactor, &late, weir_reactor_now(reactor) +
			     20 * WEIR_MSEC) || attempt(chain, 5) != -EIO)
		return 1;
	return weir_chain_destroy(chain) || weir_dma_destroy(dma) ||
	       weir_domain_destroy(device) || weir_reactor_destroy(reactor);
}
