/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory in a simulated world: peers behind queue pairs, and cards. */

#include "tests/support/sim-fixture.h"
#include "tests/support/table-fixture.h"

#include <weir/buf.h>
#include <weir/inventory.h>
#include <weir/route.h>

#define LEN 4096
#define JOBS 24

/* Statuses of verbs. */
#define FLUSHED 5
#define NO_ACCESS 10
#define NO_ANSWER 12

/* A world with one of each. */
struct place {
	struct weir_sim *sim;
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_sim_peer *peer;
	struct weir_sim_card *card;
	struct weir_domain *remote, *device;
	struct jrec jobs[JOBS];
	unsigned char mem[JOBS][LEN];
	int order[JOBS], n_ended;
};

static void ended(struct weir_op *op, int64_t res)
{
	struct place *p = op->data;
	struct jrec *j = weir_container_of(op, struct jrec, job.op);

	p->order[p->n_ended++] = (int)(j - p->jobs);
	jrec_done(op, res);
}

static struct place *begin_with(struct weir_sim *sim,
				struct weir_sim_peer_opts peer,
				struct weir_sim_card_opts card)
{
	struct place *p = calloc(1, sizeof(*p));
	struct weir_dma_opts opts = { 0 };

	assert_non_null(p);
	peer.size = sizeof(peer);
	peer.bytes = (uint64_t)LEN * JOBS;
	card.size = sizeof(card);
	card.bytes = (uint64_t)LEN * JOBS;
	p->sim = sim;
	assert_int_equal(weir_sim_peer_create(&p->peer, sim, &peer), 0);
	assert_int_equal(weir_sim_card_create(&p->card, sim, &card), 0);
	p->remote = weir_sim_peer_domain(p->peer);
	p->device = weir_sim_card_domain(p->card);
	p->r = sim_reactor_in(sim);
	p->dma = start_dma(p->r, opts);
	for (unsigned int i = 0; i < JOBS; i++) {
		jrec_init(&p->jobs[i]);
		p->jobs[i].job.op.fn = ended;
		p->jobs[i].job.op.data = p;
		fill_pattern(p->mem[i], LEN, 0, i + 1);
	}
	return p;
}

static struct place *begin(uint64_t seed)
{
	return begin_with(sim_world(seed, 0, 0),
			  (struct weir_sim_peer_opts){ 0 },
			  (struct weir_sim_card_opts){ 0 });
}

static void end(struct place *p)
{
	sim_end_dma(p->sim, p->dma);
	assert_int_equal(weir_reactor_destroy(p->r), 0);
	assert_int_equal(weir_sim_peer_destroy(p->peer), 0);
	assert_int_equal(weir_sim_card_destroy(p->card), 0);
	assert_int_equal(weir_sim_destroy(p->sim), 0);
	free(p);
}

static struct weir_operand mine(struct place *p, unsigned int i)
{
	return weir_operand_mem(p->mem[i], LEN);
}

static struct weir_operand theirs(struct weir_domain *d, unsigned int i)
{
	return weir_operand_at(d, (uint64_t)i * LEN, LEN);
}

static void start(struct place *p, unsigned int i)
{
	STARTS(weir_job_start(p->dma, &p->jobs[i].job));
}

static void push(struct place *p, struct weir_domain *d, unsigned int i)
{
	weir_job_copy(&p->jobs[i].job, theirs(d, i), mine(p, i));
	start(p, i);
}

static void pull(struct place *p, struct weir_domain *d, unsigned int i)
{
	weir_job_copy(&p->jobs[i].job, mine(p, i), theirs(d, i));
	start(p, i);
}

static void came_to(struct place *p, unsigned int i, int64_t res, int32_t code)
{
	assert_int_equal(p->jobs[i].calls, 1);
	assert_int_equal(p->jobs[i].res, res);
	assert_int_equal(p->jobs[i].detail.code, code);
}

static unsigned char *peer_at(struct place *p, unsigned int i)
{
	return (unsigned char *)weir_sim_peer_bytes(p->peer) + (size_t)i * LEN;
}

static void a_peer_is_written_and_read_in_order(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct place *p = begin(seed);

		for (unsigned int i = 0; i < JOBS; i++)
			push(p, p->remote, i);
		sim_idle(p->sim);
		for (unsigned int i = 0; i < JOBS; i++) {
			came_to(p, i, LEN, 0);
			assert_int_equal(p->order[i], (int)i);
			assert_memory_equal(peer_at(p, i), p->mem[i], LEN);
			fill_pattern(peer_at(p, i), LEN, 0, 100 + i);
			p->jobs[i].calls = 0;
		}
		p->n_ended = 0;
		for (unsigned int i = 0; i < JOBS; i++)
			pull(p, p->remote, i);
		sim_idle(p->sim);
		for (unsigned int i = 0; i < JOBS; i++) {
			came_to(p, i, LEN, 0);
			assert_int_equal(p->order[i], (int)i);
			assert_true(is_pattern(p->mem[i], LEN, 0, 100 + i));
		}
		end(p);
	}
}

static void a_card_moves_in_any_order(void **state)
{
	unsigned int reordered = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct place *p = begin(seed);

		for (unsigned int i = 0; i < JOBS; i++)
			push(p, p->device, i);
		sim_idle(p->sim);
		for (unsigned int i = 0; i < JOBS; i++) {
			unsigned char got[LEN];

			came_to(p, i, LEN, 0);
			reordered += p->order[i] != (int)i;
			assert_int_equal(weir_sim_card_get(p->card, i * LEN,
							   got, LEN), 0);
			assert_memory_equal(got, p->mem[i], LEN);
		}
		end(p);
	}
	assert_true(reordered > 100);
}

static void pieces_of_both_sides_may_differ(void **state)
{
	struct place *p = begin(3);
	struct iovec there[2] = { { (void *)(uintptr_t)100, 1000 },
				  { (void *)(uintptr_t)0, 24 } };
	struct iovec here[3] = { { p->mem[0], 1 }, { p->mem[1], 0 },
				 { p->mem[2], 1023 } };

	(void)state;
	weir_job_copy(&p->jobs[0].job, weir_operand_iov(p->remote, there, 2),
		      weir_operand_iov(NULL, here, 3));
	start(p, 0);
	sim_idle(p->sim);
	came_to(p, 0, 1024, 0);
	assert_int_equal(peer_at(p, 0)[100], p->mem[0][0]);
	assert_memory_equal(peer_at(p, 0) + 101, p->mem[2], 999);
	assert_memory_equal(peer_at(p, 0), p->mem[2] + 999, 24);
	end(p);
}

static void range_outside_of_the_memory_is_refused(void **state)
{
	struct place *p = begin(3);
	struct weir_domain *both[2] = { p->remote, p->device };

	(void)state;
	for (int i = 0; i < 2; i++) {
		weir_job_copy(&p->jobs[0].job,
			      weir_operand_at(both[i], LEN * JOBS - 8, 9),
			      weir_operand_mem(p->mem[0], 9));
		assert_int_equal(weir_job_start(p->dma, &p->jobs[0].job),
				 -ERANGE);
	}
	end(p);
}

static void a_full_send_queue_refuses_and_jobs_through_staging_wait(
	void **state)
{
	struct weir_sim_peer_opts shallow = { .depth = 2 };
	struct weir_sim_card_opts card = { 0 };
	struct place *p = begin_with(sim_world(5, 0, 0), shallow, card);

	(void)state;
	push(p, p->remote, 0);
	push(p, p->remote, 1);
	weir_job_copy(&p->jobs[2].job, theirs(p->remote, 2), mine(p, 2));
	assert_int_equal(weir_job_start(p->dma, &p->jobs[2].job), -EAGAIN);
	/* What goes through staging has begun, so it waits. */
	for (unsigned int i = 2; i < JOBS; i++) {
		assert_int_equal(weir_sim_card_put(p->card, i * LEN,
						   p->mem[i], LEN), 0);
		weir_job_copy(&p->jobs[i].job, theirs(p->remote, i),
			      theirs(p->device, i));
		start(p, i);
	}
	sim_idle(p->sim);
	for (unsigned int i = 0; i < JOBS; i++) {
		came_to(p, i, LEN, 0);
		assert_memory_equal(peer_at(p, i), p->mem[i], LEN);
	}
	end(p);
}

#define BUFS 12

/* A list of bufs with @i's memory, cut into pieces. */
static struct weir_buf *list_of(struct place *p, struct weir_inventory *inv,
				struct weir_mmap *m, unsigned int i)
{
	struct weir_buf *head = NULL, *buf;

	for (unsigned int n = 0; n < BUFS; n++) {
		assert_int_equal(weir_inventory_get(&buf, inv, m,
			p->mem[i] + n * 100, 100, NULL, 100), 0);
		if (head)
			assert_int_equal(weir_buf_chain(head, buf), 0);
		else
			head = buf;
	}
	return head;
}

/* Bufs go over in several moves, and the queue may be full in the middle. */
static void lists_to_a_shallow_queue(uint64_t seed)
{
	struct weir_sim_peer_opts shallow = { .depth = 1 };
	struct weir_sim_card_opts card = { 0 };
	struct place *p = begin_with(sim_world(seed, 0, 0), shallow, card);
	struct weir_reactor *r[2] = { p->r, sim_reactor_in(p->sim) };
	struct weir_dma *dma[2] = { p->dma, start_dma(r[1],
					(struct weir_dma_opts){ 0 }) };
	struct weir_inventory *inv[2];
	struct weir_buf *lists[4];
	struct weir_mmap *m;

	m = start_mmap(p->mem, sizeof(p->mem), WEIR_MMAP_WRITE);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(weir_inventory_create(&inv[i], r[i], NULL),
				 0);
		assert_int_equal(weir_inventory_attach(inv[i], m), 0);
	}
	for (unsigned int i = 0; i < 4; i++) {
		lists[i] = list_of(p, inv[i % 2], m, i);
		weir_job_copy(&p->jobs[i].job,
			      weir_operand_at(p->remote, i * LEN, BUFS * 100),
			      weir_operand_buf(lists[i]));
		/* So that it is not refused, but waits. */
		p->jobs[i].job.flags = WEIR_JOB_LAZY;
		STARTS(weir_job_start(dma[i % 2], &p->jobs[i].job));
	}
	sim_idle(p->sim);
	for (unsigned int i = 0; i < 4; i++) {
		came_to(p, i, BUFS * 100, 0);
		assert_memory_equal(peer_at(p, i), p->mem[i], BUFS * 100);
		weir_buf_put(lists[i]);
	}
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(weir_inventory_destroy(inv[i]), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	sim_end_dma(p->sim, dma[1]);
	assert_int_equal(weir_reactor_destroy(r[1]), 0);
	end(p);
}

static void a_job_of_many_bufs_waits_in_its_middle(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++)
		lists_to_a_shallow_queue(seed);
}

/* The queue is another context's, who will not tell of capacity in it. */
static void job_that_waits_for_capacity_lets_its_reactor_sleep(void **state)
{
	struct weir_sim_peer_opts shallow = {
		.depth = 1, .retry_ns = 20 * WEIR_SEC,
	};
	struct weir_sim_card_opts card = { 0 };
	struct place *p = begin_with(sim_world(1, 0, 0), shallow, card);
	struct weir_sim_stats stats = { .size = sizeof(stats) };
	struct weir_reactor *r = sim_reactor_in(p->sim);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });

	(void)state;
	weir_sim_peer_crash(p->peer);
	push(p, p->remote, 0);
	weir_job_copy(&p->jobs[1].job, theirs(p->remote, 1), mine(p, 1));
	p->jobs[1].job.flags = WEIR_JOB_LAZY;
	STARTS(weir_job_start(dma, &p->jobs[1].job));
	sim_idle(p->sim);
	came_to(p, 0, -ETIMEDOUT, NO_ANSWER);
	came_to(p, 1, -ECANCELED, FLUSHED);
	assert_int_equal(weir_sim_stats(p->sim, &stats), 0);
	assert_true(stats.turns < 50000);
	sim_end_dma(p->sim, dma);
	assert_int_equal(weir_reactor_destroy(r), 0);
	end(p);
}

static void a_revoked_key_fails_once_and_the_rest_is_flushed(void **state)
{
	struct place *p = begin(7);

	(void)state;
	for (unsigned int i = 0; i < 8; i++)
		push(p, p->remote, i);
	assert_int_equal(weir_sim_run(p->sim, WEIR_FOREVER, 5), 1);
	weir_sim_peer_revoke(p->peer);
	sim_idle(p->sim);
	unsigned int good = 0;

	while (p->jobs[good].res == LEN)
		good++;
	assert_true(good < 8);
	came_to(p, good, -EACCES, NO_ACCESS);
	for (unsigned int i = good + 1; i < 8; i++)
		came_to(p, i, -ECANCELED, FLUSHED);
	for (unsigned int i = 0; i < 8; i++)
		assert_int_equal(p->order[i], (int)i);
	assert_int_equal(weir_sim_peer_state(p->peer),
			 WEIR_SIM_PEER_UP | WEIR_SIM_PEER_ERROR);
	/* Taken, and flushed: as on a queue pair in its error state. */
	push(p, p->remote, 9);
	sim_idle(p->sim);
	came_to(p, 9, -ECANCELED, FLUSHED);
	assert_int_equal(weir_sim_peer_grant(p->peer, WEIR_SIM_PEER_READ), 0);
	assert_int_equal(weir_sim_peer_reset(p->peer), 0);
	pull(p, p->remote, 10);
	push(p, p->remote, 11);
	sim_idle(p->sim);
	came_to(p, 10, LEN, 0);
	came_to(p, 11, -EACCES, NO_ACCESS);
	end(p);
}

static void a_key_is_that_of_the_start(void **state)
{
	struct place *p = begin(8);

	(void)state;
	push(p, p->remote, 0);
	weir_sim_peer_revoke(p->peer);
	assert_int_equal(weir_sim_peer_grant(p->peer, WEIR_SIM_PEER_READ |
					     WEIR_SIM_PEER_WRITE), 0);
	sim_idle(p->sim);
	came_to(p, 0, -EACCES, NO_ACCESS);
	assert_int_equal(weir_sim_peer_grant(p->peer, 8), -EINVAL);
	end(p);
}

static void a_dead_peer_is_given_up_after_the_retries(void **state)
{
	static const struct weir_sim_peer_opts kinds[2] = {
		{ .retry_ns = 3 * WEIR_SEC },
		{ .retry_ns = WEIR_SEC, .flags = WEIR_SIM_PEER_FORGETS },
	};
	struct weir_sim_card_opts card = { 0 };

	(void)state;
	for (int k = 0; k < 2; k++) {
		struct place *p = begin_with(sim_world(9, 0, 0), kinds[k],
					     card);
		uint64_t begun = weir_sim_now(p->sim);

		memset(peer_at(p, 0), 1, LEN * JOBS);
		push(p, p->remote, 0);
		push(p, p->remote, 1);
		weir_sim_peer_crash(p->peer);
		assert_int_equal(weir_sim_peer_reset(p->peer), -EHOSTUNREACH);
		push(p, p->remote, 2);
		sim_idle(p->sim);
		came_to(p, 0, -ECANCELED, FLUSHED);
		came_to(p, 1, -ECANCELED, FLUSHED);
		came_to(p, 2, -ETIMEDOUT, NO_ANSWER);
		assert_true(weir_sim_now(p->sim) - begun >= kinds[k].retry_ns);
		assert_int_equal(weir_sim_peer_restart(p->peer), 0);
		assert_int_equal(weir_sim_peer_restart(p->peer), -EALREADY);
		assert_int_equal(peer_at(p, 5)[0], !k);
		/* It is up, but knows nothing of us. */
		push(p, p->remote, 3);
		sim_idle(p->sim);
		came_to(p, 3, -ECANCELED, FLUSHED);
		assert_int_equal(weir_sim_peer_reset(p->peer), 0);
		push(p, p->remote, 4);
		sim_idle(p->sim);
		came_to(p, 4, LEN, 0);
		end(p);
	}
}

static void a_card_that_is_reset_is_gone_until_it_is_opened(void **state)
{
	struct place *p = begin(11);
	struct weir_sim_card_stats stats = { .size = sizeof(stats) };
	unsigned char got;

	(void)state;
	for (unsigned int i = 0; i < 4; i++)
		push(p, p->device, i);
	weir_sim_card_reset(p->card);
	sim_idle(p->sim);
	for (unsigned int i = 0; i < 4; i++)
		came_to(p, i, -ENODEV, 1);
	weir_job_copy(&p->jobs[5].job, theirs(p->device, 5), mine(p, 5));
	assert_int_equal(weir_job_start(p->dma, &p->jobs[5].job), -ENODEV);
	assert_int_equal(weir_sim_card_open(p->card), 0);
	assert_int_equal(weir_sim_card_open(p->card), -EALREADY);
	assert_int_equal(weir_sim_card_get(p->card, 7, &got, 1), 0);
	assert_int_equal(got, 0);
	push(p, p->device, 6);
	sim_idle(p->sim);
	came_to(p, 6, LEN, 0);
	assert_int_equal(weir_sim_card_stats(p->card, &stats), 0);
	assert_int_equal(stats.started, 5);
	assert_int_equal(stats.failed, 4);
	assert_int_equal(stats.refused, 1);
	assert_int_equal(stats.resets, 1);
	end(p);
}

static void a_card_may_want_whole_words(void **state)
{
	struct weir_sim_peer_opts peer = { 0 };
	struct weir_sim_card_opts words = { .align = 4 };
	struct place *p = begin_with(sim_world(1, 0, 0), peer, words);
	static const struct { uint64_t addr, len; int err; } cases[] = {
		{ 4, 8, 0 }, { 2, 8, -EINVAL }, { 8, 7, -EINVAL },
	};

	(void)state;
	for (unsigned int i = 0; i < N_OF(cases); i++) {
		weir_job_copy(&p->jobs[i].job,
			      weir_operand_at(p->device, cases[i].addr,
					      cases[i].len),
			      weir_operand_mem(p->mem[i], cases[i].len));
		assert_int_equal(weir_job_start(p->dma, &p->jobs[i].job),
				 cases[i].err);
	}
	sim_idle(p->sim);
	end(p);
}

static void a_card_fills_itself_and_transfers_to_another(void **state)
{
	struct weir_sim_peer_opts peer = { 0 };
	struct weir_sim_card_opts other = {
		.size = sizeof(other), .bytes = LEN * JOBS, .name = "other",
		.flags = WEIR_SIM_CARD_TRANSFER,
	};
	struct place *p = begin_with(sim_world(1, 0, 0), peer, other);
	struct weir_sim_card *two;
	unsigned char got[LEN];

	(void)state;
	assert_int_equal(weir_sim_card_create(&two, p->sim, &other), 0);
	weir_job_fill(&p->jobs[0].job, weir_operand_at(p->device, 3, 100),
		      UINT64_C(0x0807060504030201));
	start(p, 0);
	sim_idle(p->sim);
	came_to(p, 0, 100, 0);
	weir_job_copy(&p->jobs[1].job,
		      weir_operand_at(weir_sim_card_domain(two), 50, 200),
		      weir_operand_at(p->device, 0, 200));
	start(p, 1);
	sim_idle(p->sim);
	came_to(p, 1, 200, 0);
	assert_int_equal(weir_sim_card_get(two, 50, got, 200), 0);
	for (int i = 0; i < 200; i++)
		assert_int_equal(got[i], i < 3 || i > 102 ? 0 :
				 (i - 3) % 8 + 1);
	/* Its source is reset meanwhile. */
	start(p, 1);
	weir_sim_card_reset(p->card);
	assert_int_equal(weir_sim_card_open(p->card), 0);
	sim_idle(p->sim);
	assert_int_equal(p->jobs[1].res, -ENODEV);
	assert_int_equal(weir_sim_card_destroy(two), 0);
	end(p);
}

static void a_transfer_that_cannot_be_goes_through_memory(void **state)
{
	struct weir_sim_peer_opts peer = { 0 };
	struct weir_sim_card_opts other = { .flags = WEIR_SIM_CARD_TRANSFER };
	struct place *p = begin_with(sim_world(1, 0, 0), peer, other);
	struct weir_job_route route = { .size = sizeof(route) };
	unsigned char got[LEN];

	(void)state;
	fill_pattern(peer_at(p, 2), LEN, 0, 50);
	weir_job_copy(&p->jobs[0].job, theirs(p->device, 1),
		      theirs(p->remote, 2));
	start(p, 0);
	sim_idle(p->sim);
	came_to(p, 0, LEN, 0);
	assert_int_equal(weir_sim_card_get(p->card, LEN, got, LEN), 0);
	assert_true(is_pattern(got, LEN, 0, 50));
	assert_int_equal(weir_job_get_route(&p->jobs[0].job, &route), 0);
	assert_int_equal(route.route, WEIR_ROUTE_BOUNCE);
	assert_int_equal(route.refused, -EXDEV);
	end(p);
}

static void a_cancel_of_a_card_leaves_the_bytes_that_it_tells(void **state)
{
	unsigned int cancelled = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 50; seed++) {
		struct place *p = begin(seed);
		unsigned char got[LEN];
		uint64_t n;

		push(p, p->device, 0);
		assert_int_equal(weir_op_cancel(&p->jobs[0].job.op), 0);
		sim_idle(p->sim);
		assert_int_equal(p->jobs[0].calls, 1);
		n = p->jobs[0].detail.bytes;
		assert_int_equal(weir_sim_card_get(p->card, 0, got, LEN), 0);
		assert_memory_equal(got, p->mem[0], n);
		for (uint64_t i = n; i < LEN; i++)
			assert_int_equal(got[i], 0);
		if (p->jobs[0].res == -ECANCELED)
			cancelled++;
		else
			assert_int_equal(p->jobs[0].res, LEN);
		end(p);
	}
	assert_true(cancelled > 20 && cancelled < 50);
}

/* In a run, where there are faults: a card that does not say where its memory
 * is may have no capacity to move it either, which is for the caller to try
 * again. */
static void start_all(void *arg)
{
	struct place *p = arg;
	int err;

	for (unsigned int i = 0; i < JOBS; i++) {
		do {
			err = weir_job_start(p->dma, &p->jobs[i].job);
		} while (err == -EAGAIN);
		STARTS(err);
	}
}

static void a_mapped_card_is_worked_on_where_it_is(void **state)
{
	struct weir_sim_peer_opts peer = { 0 };
	struct weir_sim_card_opts mapped = { .flags = WEIR_SIM_CARD_MAPPED };
	struct weir_sim_card_stats stats = { .size = sizeof(stats) };
	uint64_t refused = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct place *p = begin_with(
			sim_world(seed, ALWAYS(WEIR_SIM_REFUSED), 3), peer,
			mapped);

		for (unsigned int i = 0; i < JOBS; i++) {
			struct weir_job *job = &p->jobs[i].job;

			if (i % 2)
				weir_job_copy(job, theirs(p->device, i),
					      mine(p, i));
			else
				weir_job_crc32c(job, theirs(p->device, i), 0);
		}
		assert_int_equal(weir_post(p->r, start_all, p), 0);
		sim_idle(p->sim);
		for (unsigned int i = 0; i < JOBS; i++)
			assert_int_equal(p->jobs[i].calls, 1);
		assert_int_equal(weir_sim_card_stats(p->card, &stats), 0);
		assert_int_equal(stats.translated, stats.invalidated);
		assert_int_equal(stats.unknown, 0);
		assert_true(stats.translated > 0);
		refused += stats.started;
		end(p);
	}
	/* Where it does not say, they are moved. */
	assert_true(refused > 0);
}

static void the_power_of_both_can_be_cut(void **state)
{
	struct weir_sim_peer_opts peer = { .name = "a/mem" };
	struct weir_sim_card_opts card = { .name = "b/mem" };
	struct place *p = begin_with(sim_world(1, 0, 0), peer, card);

	(void)state;
	memset(peer_at(p, 0), 1, LEN);
	push(p, p->remote, 0);
	push(p, p->device, 1);
	weir_sim_power_cut(p->sim, "a/");
	sim_idle(p->sim);
	came_to(p, 0, -ETIMEDOUT, NO_ANSWER);
	came_to(p, 1, LEN, 0);
	assert_int_equal(peer_at(p, 0)[0], 0);
	push(p, p->device, 2);
	weir_sim_power_cut(p->sim, "b/");
	sim_idle(p->sim);
	came_to(p, 2, -ENODEV, 1);
	end(p);
}

/* What a run of faults comes to, for two runs to be compared. */
static uint64_t storm(uint64_t seed, unsigned int *failed)
{
	struct weir_sim_peer_opts peer = { .depth = 8 };
	struct weir_sim_card_opts card = {
		.depth = 8,
		.flags = WEIR_SIM_CARD_EAGER | WEIR_SIM_CARD_SHORT,
	};
	struct weir_sim *sim = sim_world(seed, WEIR_SIM_ALL_FAULTS, 8);
	struct place *p = begin_with(sim, peer, card);
	uint64_t digest;

	for (unsigned int i = 0; i < JOBS; i++) {
		struct weir_domain *d = i % 2 ? p->remote : p->device;

		if (i % 3)
			weir_job_copy(&p->jobs[i].job, theirs(d, i),
				      mine(p, i));
		else
			weir_job_copy(&p->jobs[i].job, mine(p, i),
				      theirs(d, i));
		p->jobs[i].res = weir_job_start(p->dma, &p->jobs[i].job);
		if (p->jobs[i].res)
			p->jobs[i].calls = 1;
		weir_sim_run(p->sim, 2000, 0);
		if (!(weir_sim_random(p->sim) & 7))
			(void)weir_sim_peer_reset(p->peer);
		if (!(weir_sim_random(p->sim) & 7))
			(void)weir_sim_card_open(p->card);
	}
	weir_sim_run(p->sim, 60 * WEIR_SEC, 0);
	weir_sim_set_faults(p->sim, 0);
	sim_idle(p->sim);
	for (unsigned int i = 0; i < JOBS; i++) {
		assert_int_equal(p->jobs[i].calls, 1);
		*failed += p->jobs[i].res < 0;
		weir_sim_note(p->sim, "job", (uint64_t)p->jobs[i].res);
	}
	assert_true(weir_sim_peer_state(p->peer) & WEIR_SIM_PEER_UP);
	assert_true(weir_sim_peer_state(p->peer) & WEIR_SIM_PEER_GRANTS);
	digest = weir_sim_digest(p->sim);
	end(p);
	return digest;
}

static void jobs_end_once_and_a_seed_is_a_run(void **state)
{
	unsigned int failed = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++)
		assert_true(storm(seed, &failed) == storm(seed, &failed));
	assert_true(failed > 200);
}

static void simulated_memory_refuses_bad_attributes(void **state)
{
	struct weir_sim *sim = sim_world(0, 0, 0);
	struct weir_sim_peer_opts po = { .size = sizeof(po), .bytes = 8 };
	struct weir_sim_card_opts co = { .size = sizeof(co), .bytes = 8 };
	struct weir_sim_peer *peer;
	struct weir_sim_card *card;

	(void)state;
	assert_int_equal(weir_sim_peer_create(&peer, sim, NULL), -EINVAL);
	assert_int_equal(weir_sim_card_create(&card, sim, NULL), -EINVAL);
	po.flags = 8;
	assert_int_equal(weir_sim_peer_create(&peer, sim, &po), -EINVAL);
	co.align = 3;
	assert_int_equal(weir_sim_card_create(&card, sim, &co), -EINVAL);
	po.flags = 0;
	co.align = 0;
	/* They go with the world. */
	assert_int_equal(weir_sim_peer_create(&peer, sim, &po), 0);
	assert_int_equal(weir_sim_card_create(&card, sim, &co), 0);
	assert_int_equal(weir_sim_card_put(card, 1, "", 8), -ERANGE);
	assert_int_equal(weir_sim_peer_destroy(NULL), 0);
	assert_int_equal(weir_sim_card_destroy(NULL), 0);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

/* What is a world's is not in use when it goes. */
static void a_world_whose_memory_is_in_use_stays(void **state)
{
	struct weir_sim *sim = sim_world(0, 0, 0);
	struct weir_sim_peer_opts po = { .size = sizeof(po), .bytes = 64 };
	struct weir_sim_card_opts co = { .size = sizeof(co), .bytes = 64,
					 .flags = WEIR_SIM_CARD_MAPPED };
	struct weir_translation t = { .size = sizeof(t) };
	struct weir_sim_peer *peer = NULL;
	struct weir_sim_card *card = NULL;
	struct weir_domain *d = NULL;

	(void)state;
	assert_int_equal(weir_sim_peer_create(&peer, sim, &po), 0);
	assert_int_equal(weir_sim_card_create(&card, sim, &co), 0);
	assert_int_equal(weir_domain_translate(weir_sim_card_domain(card), NULL,
					       weir_domain_system(), NULL, 0, 8,
					       &t), 0);
	assert_int_equal(weir_sim_destroy(sim), -EBUSY);
	assert_starts_with(weir_why(), "weir_sim_destroy: 1 mmaps, jobs or");
	assert_int_equal(weir_sim_card_put(card, 0, "", 1), 0);
	weir_domain_invalidate(&t);

	do
		d = weir_domain_next(d, NULL);
	while (d != weir_sim_peer_domain(peer));
	assert_int_equal(weir_sim_destroy(sim), -EBUSY);
	assert_starts_with(weir_why(), "weir_sim_destroy: a walk is at");
	weir_domain_put(d);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

/* The tables of docs/internals/sim.md. */

enum peer_column { READY, REVOKED, READABLE, DOWN, UP_AGAIN, IN_ERROR, USED };

static struct place *peer_in(int column)
{
	struct place *p = begin(1);

	if (column == REVOKED)
		weir_sim_peer_revoke(p->peer);
	if (column == READABLE)
		assert_int_equal(weir_sim_peer_grant(p->peer,
						     WEIR_SIM_PEER_READ), 0);
	if (column == DOWN || column == UP_AGAIN)
		weir_sim_peer_crash(p->peer);
	if (column == UP_AGAIN)
		assert_int_equal(weir_sim_peer_restart(p->peer), 0);
	if (column == IN_ERROR) {
		weir_sim_peer_revoke(p->peer);
		pull(p, p->remote, 0);
		sim_idle(p->sim);
		assert_int_equal(weir_sim_peer_grant(p->peer,
			WEIR_SIM_PEER_READ | WEIR_SIM_PEER_WRITE), 0);
	}
	if (column == USED)
		pull(p, p->remote, 0);
	return p;
}

static int run_job(struct place *p)
{
	int err = weir_job_start(p->dma, &p->jobs[1].job);

	if (err)
		return err;
	sim_idle(p->sim);
	return (int)p->jobs[1].res;
}

static int call_read(void *fixture)
{
	struct place *p = fixture;

	weir_job_copy(&p->jobs[1].job, mine(p, 1), theirs(p->remote, 1));
	return run_job(p);
}

static int call_write(void *fixture)
{
	struct place *p = fixture;

	weir_job_copy(&p->jobs[1].job, theirs(p->remote, 1), mine(p, 1));
	return run_job(p);
}

static int call_read_beyond(void *fixture)
{
	struct place *p = fixture;

	weir_job_copy(&p->jobs[1].job, mine(p, 1), theirs(p->remote, JOBS));
	return run_job(p);
}

static int call_reset_and_read(void *fixture)
{
	struct place *p = fixture;
	int err = weir_sim_peer_reset(p->peer);

	return err ? err : call_read(p);
}

static int call_restart(void *fixture)
{
	return weir_sim_peer_restart(((struct place *)fixture)->peer);
}

static int call_destroy_peer(void *fixture)
{
	struct place *p = fixture;
	int err = weir_sim_peer_destroy(p->peer);

	if (!err)
		p->peer = NULL;
	return err;
}

static void peer_memory_answers_as_its_table_says(void **state)
{
	static const struct table_call calls[] = {
		{ "read", call_read }, { "write", call_write },
		{ "read beyond the end", call_read_beyond },
		{ "reset and read", call_reset_and_read },
		{ "restart", call_restart }, { "destroy", call_destroy_peer },
	};
	static const char *const columns[] = {
		"ready", "revoked", "only readable", "down", "up again",
		"in error", "a read is in flight",
	};
	struct table_cell c;
	struct place *p;
	struct table t;

	(void)state;
	table_open(&t, "docs/internals/sim.md", "simulated peer: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		p = peer_in(c.column);
		table_result(&c, c.call->fn(p));
		end(p);
	}
	table_close(&t);
}

enum card_column { OPEN, RESET, MOVING };

static struct place *card_in(int column)
{
	struct place *p = begin(1);

	p->remote = p->device;
	if (column == RESET)
		weir_sim_card_reset(p->card);
	if (column == MOVING)
		pull(p, p->device, 0);
	return p;
}

static int call_fill(void *fixture)
{
	struct place *p = fixture;

	weir_job_fill(&p->jobs[1].job, theirs(p->device, 1), 5);
	return run_job(p);
}

static int call_put(void *fixture)
{
	return weir_sim_card_put(((struct place *)fixture)->card, 5, "x", 1);
}

static int call_get(void *fixture)
{
	char c;

	return weir_sim_card_get(((struct place *)fixture)->card, 5, &c, 1);
}

static int call_open(void *fixture)
{
	return weir_sim_card_open(((struct place *)fixture)->card);
}

static int call_destroy_card(void *fixture)
{
	struct place *p = fixture;
	int err = weir_sim_card_destroy(p->card);

	if (!err)
		p->card = NULL;
	return err;
}

static void card_memory_answers_as_its_table_says(void **state)
{
	static const struct table_call calls[] = {
		{ "read", call_read }, { "write", call_write },
		{ "fill", call_fill },
		{ "read beyond the end", call_read_beyond },
		{ "put", call_put }, { "get", call_get },
		{ "open", call_open }, { "destroy", call_destroy_card },
	};
	static const char *const columns[] = {
		"open", "reset", "a move is in flight",
	};
	struct table_cell c;
	struct place *p;
	struct table t;

	(void)state;
	table_open(&t, "docs/internals/sim.md", "simulated card: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		p = card_in(c.column);
		table_result(&c, c.call->fn(p));
		end(p);
	}
	table_close(&t);
}

static const struct harness_case cases[] = {
	CASE(peer_memory_answers_as_its_table_says),
	CASE(card_memory_answers_as_its_table_says),
	CASE(a_peer_is_written_and_read_in_order),
	CASE(a_card_moves_in_any_order),
	CASE(pieces_of_both_sides_may_differ),
	CASE(range_outside_of_the_memory_is_refused),
	CASE(a_full_send_queue_refuses_and_jobs_through_staging_wait),
	CASE(a_job_of_many_bufs_waits_in_its_middle),
	CASE(job_that_waits_for_capacity_lets_its_reactor_sleep),
	CASE(a_revoked_key_fails_once_and_the_rest_is_flushed),
	CASE(a_key_is_that_of_the_start),
	CASE(a_dead_peer_is_given_up_after_the_retries),
	CASE(a_card_that_is_reset_is_gone_until_it_is_opened),
	CASE(a_card_may_want_whole_words),
	CASE(a_card_fills_itself_and_transfers_to_another),
	CASE(a_transfer_that_cannot_be_goes_through_memory),
	CASE(a_cancel_of_a_card_leaves_the_bytes_that_it_tells),
	CASE(a_mapped_card_is_worked_on_where_it_is),
	CASE(the_power_of_both_can_be_cut),
	CASE(jobs_end_once_and_a_seed_is_a_run),
	CASE(simulated_memory_refuses_bad_attributes),
	CASE(a_world_whose_memory_is_in_use_stays),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
