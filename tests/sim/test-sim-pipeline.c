/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that copies a peer's memory to a card by a pipeline, whatever goes
 * wrong: it fails, connects the peer and opens the card again, and goes on with
 * the first block that was not done.  When there are no more faults it comes to
 * its end, and the card has what the peer has.
 */

#include "tests/support/sim-fixture.h"

#include <weir/chain.h>
#include <weir/crc32c.h>
#include <weir/pipeline.h>
#include <weir/pool.h>

#define BLOCK 3000
#define SIZE (BLOCK * 40 + 1234)

struct copier {
	struct weir_sim *sim;
	struct weir_reactor *r, *other;
	struct weir_dma *dma, *far;	/* The second on the other reactor. */
	struct weir_sim_peer *peer;
	struct weir_sim_card *card;
	struct weir_pool *pool;
	struct weir_pipeline *pipeline;
	struct weir_op op, pause;
	uint64_t at, done;		/* Bytes begun, and done in order. */
	uint64_t resets;		/* Of the card, at the last start. */
	unsigned int runs, failures, cancels;
	bool finished;
};

struct block {
	struct weir_job read, crc, write;
	uint64_t at, len;
};

static int build(struct weir_slot *slot, void *arg)
{
	struct weir_chain *chain = weir_slot_chain(slot);
	struct block *b = weir_slot_data(slot);
	struct copier *c = arg;
	int n = weir_chain_add_job(chain, WEIR_CHAIN_FIRST, c->dma, &b->read);

	n = weir_chain_add_job(chain, n, c->far, &b->crc);
	n = weir_chain_add_job(chain, n, c->far, &b->write);
	return n < 0 ? n : 0;
}

static int next(struct weir_slot *slot, void *arg)
{
	struct weir_operand buf = weir_operand_buf(weir_slot_buf(slot));
	struct block *b = weir_slot_data(slot);
	struct copier *c = arg;

	b->at = c->at;
	b->len = SIZE - c->at < BLOCK ? SIZE - c->at : BLOCK;
	if (!b->len)
		return WEIR_PIPELINE_END;
	weir_job_copy(&b->read, buf,
		      weir_operand_at(weir_sim_peer_domain(c->peer), b->at,
				      b->len));
	weir_job_crc32c(&b->crc, buf, 0);
	weir_job_copy(&b->write,
		      weir_operand_at(weir_sim_card_domain(c->card), b->at,
				      b->len),
		      buf);
	c->at += b->len;
	return WEIR_PIPELINE_UNIT;
}

static int done(struct weir_slot *slot, int64_t res, void *arg)
{
	struct block *b = weir_slot_data(slot);
	struct copier *c = arg;

	if (res < 0)
		return (int)res;
	assert_true(b->at >= c->done);
	assert_int_equal(b->crc.crc, weir_crc32c(0,
		(char *)weir_sim_peer_bytes(c->peer) + b->at, b->len));
	/* What follows one that has failed is done again. */
	if (b->at == c->done)
		c->done += b->len;
	return 0;
}

static uint64_t resets(const struct copier *c)
{
	struct weir_sim_card_stats stats = { .size = sizeof(stats) };

	assert_int_equal(weir_sim_card_stats(c->card, &stats), 0);
	return stats.resets;
}

/* What was on the card is gone, if it was reset. */
static void go_on(struct copier *c)
{
	if (c->resets != resets(c))
		c->done = 0;
	c->resets = resets(c);
	c->at = c->done;
	c->runs++;
	STARTS(weir_pipeline_start(c->pipeline, &c->op));
	if (!(weir_sim_random(c->sim) & 3)) {
		c->cancels++;
		weir_op_set_deadline(&c->op, weir_sim_now(c->sim) +
				     weir_sim_random(c->sim) % WEIR_MSEC);
	}
}

/* Some time after it has failed. */
static void recover(struct weir_op *op, int64_t res)
{
	struct copier *c = weir_container_of(op, struct copier, pause);

	(void)res;
	(void)weir_sim_card_open(c->card);
	if (weir_sim_peer_reset(c->peer))
		assert_int_equal(weir_sleep_until(c->r, op,
			weir_sim_now(c->sim) + WEIR_MSEC), 0);
	else
		go_on(c);
}

static void ended(struct weir_op *op, int64_t res)
{
	struct copier *c = weir_container_of(op, struct copier, op);

	weir_sim_note(c->sim, "pipeline", (uint64_t)res);
	if (res >= 0 && c->resets == resets(c)) {
		c->finished = true;
		return;
	}
	c->failures++;
	assert_int_equal(weir_sleep_until(c->r, &c->pause,
					  weir_sim_now(c->sim) +
					  100 * WEIR_USEC), 0);
}

static void begin(struct copier *c, uint64_t seed,
		  const struct weir_sim_opts *opts)
{
	struct weir_sim_peer_opts peer = {
		.size = sizeof(peer), .bytes = SIZE, .depth = 2,
		.retry_ns = WEIR_MSEC,
	};
	struct weir_sim_card_opts card = {
		.size = sizeof(card), .bytes = SIZE, .depth = 3,
	};
	struct weir_pool_opts pool = {
		.size = sizeof(pool), .bufs = 3, .buf_size = BLOCK,
		.flags = WEIR_POOL_NO_HUGE,
	};
	struct weir_pipeline_opts po = {
		.size = sizeof(po), .build = build, .next = next, .done = done,
		.arg = c, .depth = 5, .flags = WEIR_PIPELINE_ORDERED,
		.data_size = sizeof(struct block),
	};

	memset(c, 0, sizeof(*c));
	assert_int_equal(weir_sim_create(&c->sim, seed, opts), 0);
	assert_int_equal(weir_sim_peer_create(&c->peer, c->sim, &peer), 0);
	assert_int_equal(weir_sim_card_create(&c->card, c->sim, &card), 0);
	fill_pattern(weir_sim_peer_bytes(c->peer), SIZE, 0,
		     (unsigned int)seed);
	c->r = sim_reactor_in(c->sim);
	c->other = sim_reactor_in(c->sim);
	c->dma = start_dma(c->r, (struct weir_dma_opts){ 0 });
	c->far = start_dma(c->other, (struct weir_dma_opts){ .jobs_max = 2 });
	assert_int_equal(weir_pool_create(&c->pool, c->r, &pool), 0);
	po.pool = c->pool;
	assert_int_equal(weir_pipeline_create(&c->pipeline, c->r, &po), 0);
	weir_op_init(&c->op, ended);
	weir_op_init(&c->pause, recover);
	go_on(c);
}

static void end(struct copier *c)
{
	assert_int_equal(weir_pipeline_destroy(c->pipeline), 0);
	assert_int_equal(weir_pool_destroy(c->pool), 0);
	sim_end_dma(c->sim, c->dma);
	sim_end_dma(c->sim, c->far);
	assert_int_equal(weir_reactor_destroy(c->r), 0);
	assert_int_equal(weir_reactor_destroy(c->other), 0);
	assert_int_equal(weir_sim_peer_destroy(c->peer), 0);
	assert_int_equal(weir_sim_card_destroy(c->card), 0);
	assert_int_equal(weir_sim_destroy(c->sim), 0);
}

static uint64_t one_run(struct copier *c, uint64_t seed,
			const struct weir_sim_opts *opts)
{
	static unsigned char got[SIZE];
	uint64_t digest;

	begin(c, seed, opts);
	weir_sim_run(c->sim, 10 * WEIR_SEC, 20000);
	weir_sim_set_faults(c->sim, 0);
	sim_idle(c->sim);
	assert_true(c->finished);
	assert_int_equal(weir_sim_card_get(c->card, 0, got, SIZE), 0);
	assert_memory_equal(got, weir_sim_peer_bytes(c->peer), SIZE);
	digest = weir_sim_digest(c->sim);
	end(c);
	return digest;
}

static void a_copy_comes_to_its_end_when_faults_do(void **state)
{
	struct weir_sim_opts opts = {
		.size = sizeof(opts), .faults = WEIR_SIM_ALL_FAULTS,
		.flags = WEIR_SIM_SWARM, .rate = 64,
	};
	unsigned int failures = 0;
	struct copier c;
	uint64_t digest;

	(void)state;
	for (uint64_t seed = 0; seed < (want_long() ? 10000 : 100); seed++) {
		digest = one_run(&c, seed, &opts);
		failures += c.failures;
		if (one_run(&c, seed, &opts) != digest)
			fail_msg("two runs of seed %llu differ",
				 (unsigned long long)seed);
	}
	assert_true(failures > 100);
}

static void pipeline_without_faults_succeeds_in_one_run(void **state)
{
	struct weir_sim_opts opts = { .size = sizeof(opts) };
	struct copier c;

	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		(void)one_run(&c, seed, &opts);
		assert_int_equal(c.runs, c.failures + 1);
		assert_true(c.failures <= c.cancels);
	}
}

static const struct harness_case cases[] = {
	CASE(pipeline_without_faults_succeeds_in_one_run),
	CASE(a_copy_comes_to_its_end_when_faults_do),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
