/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A first simulated world: an hour passes at once, and again in the same way;
 * and a peer, whose memory is copied to, crashes and comes back.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir/dma.h>
#include <weir/job.h>
#include <weir/reactor.h>
#include <weir/sim/memory.h>

static struct weir_sim *sim;
static struct weir_reactor *reactor;

static void on_hour(struct weir_op *op, int64_t res)
{
	(void)op;
	weir_sim_note(sim, "an hour has passed", (uint64_t)res);
}

static uint64_t an_hour(uint64_t seed)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_op op = { .fn = on_hour };
	uint64_t digest;

	if (weir_sim_create(&sim, seed, NULL))
		return 0;
	opts.sim = sim;
	if (weir_reactor_create(&reactor, &opts) ||
	    weir_sleep_until(reactor, &op, 3600 * WEIR_SEC))
		return 0;
	weir_sim_run(sim, WEIR_FOREVER, 0);
	digest = weir_sim_digest(sim);
	if (weir_reactor_destroy(reactor) || weir_sim_destroy(sim))
		return 0;
	return digest;
}

static void on_copied(struct weir_op *op, int64_t res)
{
	*(int64_t *)op->data = res;
}

/* What a copy of @text to the memory of @peer ends with. */
static int64_t copy(struct weir_dma *dma, struct weir_sim_peer *peer,
		    char *text)
{
	struct weir_job job;
	int64_t res = 1;

	weir_job_init(&job, on_copied);
	job.op.data = &res;
	weir_job_copy(&job, weir_operand_at(weir_sim_peer_domain(peer), 0, 6),
		      weir_operand_mem(text, 6));
	if (weir_job_start(dma, &job))
		return 1;
	weir_sim_run(sim, WEIR_FOREVER, 0);
	return res;
}

static int a_peer(void)
{
	struct weir_sim_peer_opts peer_opts = { .size = sizeof(peer_opts),
						.bytes = 4096 };
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_sim_peer *peer;
	struct weir_dma *dma;
	char text[] = "hello";

	if (weir_sim_create(&sim, 1, NULL))
		return 1;
	opts.sim = sim;
	if (weir_reactor_create(&reactor, &opts) ||
	    weir_dma_create(&dma, reactor, NULL) || weir_dma_start(dma) ||
	    weir_sim_peer_create(&peer, sim, &peer_opts))
		return 1;
	weir_sim_peer_crash(peer);
	if (copy(dma, peer, text) != -ETIMEDOUT ||
	    copy(dma, peer, text) != -ECANCELED)
		return 1;
	weir_sim_peer_restart(peer);
	weir_sim_peer_reset(peer);
	if (copy(dma, peer, text) != sizeof(text) ||
	    strcmp(weir_sim_peer_bytes(peer), text))
		return 1;
	return weir_dma_destroy(dma) || weir_sim_peer_destroy(peer) ||
	       weir_reactor_destroy(reactor) || weir_sim_destroy(sim);
}

int main(void)
{
	uint64_t digest = an_hour(1);

	if (!digest || an_hour(1) != digest || a_peer()) {
		fprintf(stderr, "24-first-world: %s\n", weir_why());
		return 1;
	}
	printf("an hour passed twice in the same way: %016llx\n",
	       (unsigned long long)digest);
	return 0;
}
