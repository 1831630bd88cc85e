/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Through staging: how jobs end when something comes in between, what becomes
 * of bufs, and halves that are an engine of the user's.
 */

#include "tests/support/bounce-fixture.h"

#include <weir/buf.h>
#include <weir/chain.h>
#include <weir/crc32c.h>
#include <weir/engine.h>
#include <weir/inventory.h>
#include <weir/pool.h>

#define ONE_SLOT ((struct weir_dma_opts){ .staging_bufs = 1, \
					  .staging_size = 4096 })

static void set_copy(struct fixture *g, struct jrec *j, enum place from,
		     enum place to, size_t len)
{
	jrec_init(j);
	weir_job_copy_crc32c(&j->job, operand_of(g, to, 1, 0, len),
			     operand_of(g, from, 0, 0, len), 0);
}

/* The device has let go of all, and the reactor is idle. */
static void drain(struct fixture *g)
{
	int i;

	for (i = 0; i < SIDES; i++)
		g->user[i].stuck = false;
	PUMP_UNTIL(g, weir_reactor_state(g->r) == WEIR_REACTOR_STOPPED);
}

/* A pull is in flight, of which only staging knows: the job need not wait, but
 * the reactor does. */
static void a_reactor_stops_while_a_block_is_pulled(void **state)
{
	struct jrec j[2];
	struct fixture g;
	int i;

	fixture_begin(&g, state, ONE_SLOT);
	g.user[0].stuck = true;
	for (i = 0; i < 2; i++) {
		set_copy(&g, &j[i], USER, i ? USER : FIL, LEN);
		STARTS(weir_job_start(g.dma, &j[i].job));
	}
	PUMP_UNTIL(&g, g.user[0].n_asked);
	weir_reactor_stop(g.r);
	some_turns(g.r, 5);
	for (i = 0; i < 2; i++) {
		assert_int_equal(j[i].calls, 1);
		assert_int_equal(j[i].res, -ECANCELED);
		assert_int_equal(j[i].detail.bytes, 0);
	}
	assert_int_equal(g.user[0].n_cancelled, 1);
	assert_int_equal(stats_of(&g).quarantined, 1);
	assert_int_equal(weir_dma_destroy(g.dma), -EBUSY);
	assert_int_equal(weir_reactor_state(g.r), WEIR_REACTOR_STOPPING);
	drain(&g);
	assert_int_equal(stats_of(&g).quarantined, 0);
	fixture_end(&g);
}

/* A push is, into what is the caller's: the job waits, and tells what went. */
static void a_reactor_stops_while_a_block_is_pushed(void **state)
{
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state, ONE_SLOT);
	fill_pattern(g.view[0], LEN, 0, 3);
	set_copy(&g, &j, FIL, USER, LEN);
	STARTS(weir_job_start(g.dma, &j.job));
	PUMP_UNTIL(&g, g.user[1].n_done == 3);
	g.user[1].stuck = true;
	PUMP_UNTIL(&g, g.user[1].n_asked);
	weir_reactor_stop(g.r);
	some_turns(g.r, 5);
	assert_int_equal(j.calls, 0);
	assert_int_equal(g.user[1].n_cancelled, 1);
	assert_int_equal(weir_reactor_state(g.r), WEIR_REACTOR_STOPPING);
	drain(&g);
	assert_int_equal(j.calls, 1);
	assert_int_equal(j.res, -ECANCELED);
	assert_int_equal(j.detail.bytes, 3 * 4096);
	assert_true(is_pattern(g.user[1].mem, 3 * 4096, 0, 3));
	assert_int_equal(stats_of(&g).quarantines, 0);
	fixture_end(&g);
}

/* Both: the one that is the caller's decides, and nothing more is begun. */
static void a_reactor_stops_while_both_halves_are_under_way(void **state)
{
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state, ONE_SLOT);
	set_copy(&g, &j, USER, USER, LEN);
	STARTS(weir_job_start(g.dma, &j.job));
	g.user[1].stuck = true;
	PUMP_UNTIL(&g, g.user[1].n_asked);
	g.user[0].stuck = true;
	PUMP_UNTIL(&g, g.user[0].n_asked);
	weir_reactor_stop(g.r);
	some_turns(g.r, 5);
	assert_int_equal(j.calls, 0);
	assert_int_equal(g.user[0].n_cancelled + g.user[1].n_cancelled, 2);
	g.user[1].stuck = false;
	PUMP_UNTIL(&g, !g.user[1].n_asked);
	some_turns(g.r, 5);
	assert_int_equal(j.calls, 0);
	drain(&g);
	assert_int_equal(j.res, -ECANCELED);
	assert_int_equal(j.detail.bytes, 0);
	assert_int_equal(g.user[0].n_done + g.user[1].n_done, 3);
	fixture_end(&g);
}

/* Two pulls into one slot: it is free when both devices have let go. */
static void a_quarantine_lasts_until_the_last_has_let_go(void **state)
{
	struct jrec j, next;
	struct fixture g;

	fixture_begin(&g, state, ONE_SLOT);
	g.user[0].stuck = g.user[1].stuck = true;
	set_copy(&g, &j, USER, USER, 100);
	weir_job_compare(&j.job, operand_of(&g, USER, 0, 0, 100),
			 operand_of(&g, USER, 1, 0, 100));
	set_copy(&g, &next, FIL, USER, 100);
	next.job.dst = operand_of(&g, USER, 2, 0, 100);
	STARTS(weir_job_start(g.dma, &j.job));
	STARTS(weir_job_start(g.dma, &next.job));
	assert_int_equal(weir_op_cancel(&j.job.op), 0);
	some_turns(g.r, 3);
	assert_int_equal(j.res, -ECANCELED);
	assert_int_equal(stats_of(&g).quarantined, 1);
	g.user[0].stuck = false;
	PUMP_UNTIL(&g, !g.user[0].n_asked && !weir_domain_users(g.user[0].d));
	some_turns(g.r, 3);
	assert_int_equal(weir_domain_users(g.user[1].d), 1);
	assert_int_equal(stats_of(&g).quarantined, 1);
	/* Another one stands in for it. */
	PUMP_UNTIL(&g, next.calls);
	assert_int_equal(next.res, 100);
	assert_int_equal(stats_of(&g).quarantined, 1);
	g.user[1].stuck = false;
	PUMP_UNTIL(&g, !stats_of(&g).quarantined);
	assert_int_equal(stats_of(&g).quarantines, 1);
	fixture_end(&g);
}

/* A device that has two slots gets no third, until it answers. */
static void job_blocked_by_a_dead_device_goes_on_when_it_answers(void **state)
{
	struct fixture g;
	struct jrec j[3];
	int i;

	fixture_begin(&g, state, (struct weir_dma_opts){ .staging_bufs = 4,
							 .staging_size = 4096 });
	g.user[0].stuck = true;
	for (i = 0; i < 2; i++) {
		set_copy(&g, &j[i], USER, FIL, 100);
		STARTS(weir_job_start(g.dma, &j[i].job));
		some_turns(g.r, 3);
		assert_int_equal(weir_op_cancel(&j[i].job.op), 0);
		some_turns(g.r, 3);
		assert_int_equal(j[i].res, -ECANCELED);
		assert_int_equal(stats_of(&g).quarantined, i + 1);
	}
	set_copy(&g, &j[2], USER, FIL, 100);
	STARTS(weir_job_start(g.dma, &j[2].job));
	some_turns(g.r, 5);
	assert_int_equal(j[2].calls, 0);
	g.user[0].stuck = false;
	PUMP_UNTIL(&g, j[2].calls);
	assert_int_equal(j[2].res, 100);
	assert_int_equal(stats_of(&g).quarantined, 0);
	fixture_end(&g);
}

/* The job that has the context's capacity stays where it is. */
static void cancelled_chain_that_waits_for_capacity_ends_at_once(void **state)
{
	struct weir_dma_opts opts = ONE_SLOT;
	struct weir_chain *chain;
	struct jrec j, next;
	struct fixture g;
	struct rec rec;

	opts.jobs_max = 1;
	fixture_begin(&g, state, opts);
	g.user[0].stuck = true;
	set_copy(&g, &j, FIL, USER, 100);
	j.job.src = operand_of(&g, USER, 0, 0, 100);
	STARTS(weir_job_start(g.dma, &j.job));
	set_copy(&g, &next, MEM, FIL, 100);
	rec_init(&rec);
	assert_int_equal(weir_chain_create(&chain, g.r, NULL), 0);
	assert_int_equal(weir_chain_add_job(chain, WEIR_CHAIN_FIRST, g.dma,
					    &next.job), 0);
	STARTS(weir_chain_start(chain, &rec.op));
	some_turns(g.r, 3);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(g.r, &rec), -ECANCELED);
	assert_int_equal(j.calls, 0);
	g.user[0].stuck = false;
	PUMP_UNTIL(&g, j.calls);
	assert_int_equal(weir_chain_destroy(chain), 0);
	fixture_end(&g);
}

/* A push has to be waited for: longer than until the deadline. */
static void job_cancelled_before_its_deadline_is_not_late(void **state)
{
	struct fixture g;
	struct jrec j;

	fixture_begin(&g, state, ONE_SLOT);
	g.user[1].stuck = true;
	set_copy(&g, &j, FIL, USER, 100);
	STARTS(weir_job_start(g.dma, &j.job));
	PUMP_UNTIL(&g, g.user[1].n_asked);
	assert_int_equal(weir_op_cancel(&j.job.op), 0);
	some_turns(g.r, 2);
	assert_int_equal(j.calls, 0);
	assert_int_equal(weir_op_set_deadline(&j.job.op, 0), 0);
	some_turns(g.r, 3);
	g.user[1].stuck = false;
	PUMP_UNTIL(&g, j.calls);
	assert_int_not_equal(j.res, -ETIMEDOUT);
	fixture_end(&g);
}

static void a_pull_without_capacity_is_asked_again(void **state)
{
	struct jrec j;
	struct fixture g;
	int i;

	fixture_begin(&g, state, ONE_SLOT);
	fill_pattern(g.user[0].mem, LEN, 0, 4);
	for (i = 0; i < 3; i++) {
		memset(g.view[1], 0, LEN);
		g.user[0].refuse_in = 1;
		set_copy(&g, &j, USER, FIL, 20000);
		STARTS(weir_job_start(g.dma, &j.job));
		some_turns(g.r, 50);
		assert_int_equal(j.calls, 0);
		assert_int_equal(g.user[0].n_done, 0);
		if (i < 2) {
			/* Nothing is in flight: over at once, no quarantine. */
			assert_int_equal(weir_op_cancel(&j.job.op), 0);
			some_turns(g.r, 2);
			assert_int_equal(j.res, -ECANCELED);
			assert_int_equal(stats_of(&g).quarantined, 0);
		}
	}
	g.user[0].refuse_in = 0;
	PUMP_UNTIL(&g, j.calls);
	assert_int_equal(j.res, 20000);
	assert_true(is_pattern(g.view[1], 20000, 0, 4));
	assert_int_equal(stats_of(&g).quarantines, 0);
	fixture_end(&g);
}

/* Bufs as a side. */

struct bufs {
	struct weir_pool *pool;
	struct weir_inventory *inv;
	struct weir_mmap *m;
	struct weir_buf *list;	/* A pool's, then one of the inventory's. */
};

#define POOL_BUF 4096
#define LIST_LEN (POOL_BUF + 9000)

static void bufs_begin(struct bufs *b, struct fixture *g, size_t data_len)
{
	struct weir_pool_opts opts = {
		.size = sizeof(opts), .bufs = 1, .buf_size = POOL_BUF,
	};
	struct weir_buf *second;

	b->m = start_mmap(g->mem + 3 * LEN, LEN, WEIR_MMAP_WRITE);
	assert_int_equal(weir_pool_create(&b->pool, g->r, &opts), 0);
	assert_int_equal(weir_inventory_create(&b->inv, g->r, NULL), 0);
	assert_int_equal(weir_inventory_attach(b->inv, b->m), 0);
	assert_int_equal(weir_pool_get(&b->list, b->pool), 0);
	assert_int_equal(weir_buf_set_data(b->list, weir_buf_addr(b->list),
					   data_len), 0);
	assert_int_equal(weir_inventory_get(&second, b->inv, b->m,
					    g->mem + 3 * LEN + 1, 9000, NULL,
					    0), 0);
	assert_int_equal(weir_buf_chain(b->list, second), 0);
}

static void bufs_end(struct bufs *b)
{
	assert_int_equal(weir_buf_refs(b->list), 1);
	weir_buf_put(b->list);
	assert_int_equal(weir_inventory_destroy(b->inv), 0);
	assert_int_equal(weir_pool_destroy(b->pool), 0);
	assert_int_equal(weir_mmap_destroy(b->m), 0);
}

static int64_t into_list(struct fixture *g, struct bufs *b, uint32_t flags)
{
	struct jrec j;

	jrec_init(&j);
	weir_job_copy_crc32c(&j.job, weir_operand_buf(b->list),
			     operand_of(g, USER, 0, 0, 12000), 0);
	j.job.flags = flags;
	STARTS(weir_job_start(g->dma, &j.job));
	assert_int_equal(weir_buf_refs(b->list), 2);
	assert_int_equal(weir_job_start(g->dma, &j.job), -EINVAL);
	PUMP_UNTIL(g, j.calls);
	assert_int_equal(route_of(&j), WEIR_ROUTE_BOUNCE);
	if (j.res >= 0)
		assert_int_equal(j.job.crc, weir_crc32c(0, g->user[0].mem,
							12000));
	return j.res;
}

static void bufs_have_the_data_of_a_job_that_succeeds(void **state)
{
	struct weir_buf *second;
	struct bufs b;
	struct fixture g;
	char *first;
	int i;

	fixture_begin(&g, state, ONE_SLOT);
	bufs_begin(&b, &g, 100);
	second = weir_buf_next(b.list);
	first = weir_buf_addr(b.list);
	fill_pattern(g.user[0].mem, LEN, 0, 6);
	for (i = 1; i < 4; i++) {
		g.user[0].fail_in = (unsigned int)i;
		g.user[0].seed = (unsigned int)i;
		if (into_list(&g, &b, 0) >= 0)
			break;
		assert_int_equal(weir_buf_data_len(b.list), 100);
		assert_int_equal(weir_buf_data_len(second), 0);
	}
	assert_true(i > 1);
	g.user[0].fail_in = 0;
	assert_int_equal(weir_buf_set_data(b.list, first, 100), 0);
	assert_int_equal(weir_buf_reset(second), 0);
	assert_int_equal(into_list(&g, &b, 0), 12000);
	assert_int_equal(weir_buf_data_len(b.list), POOL_BUF);
	assert_int_equal(weir_buf_data_len(second), 12100 - POOL_BUF);
	assert_true(is_pattern(first + 100, POOL_BUF - 100, 0, 6));
	assert_true(is_pattern(weir_buf_data(second), 12100 - POOL_BUF,
			       POOL_BUF - 100, 6));

	/* And replace what was there. */
	assert_int_equal(into_list(&g, &b, WEIR_JOB_OVERWRITE), 12000);
	assert_int_equal(weir_buf_data_len(second), 12000 - POOL_BUF);
	assert_true(is_pattern(first, POOL_BUF, 0, 6));
	bufs_end(&b);
	fixture_end(&g);
}

static void bufs_are_read_as_any_memory(void **state)
{
	struct jrec j, other;
	struct bufs b;
	struct fixture g;

	fixture_begin(&g, state, ONE_SLOT);
	bufs_begin(&b, &g, 0);
	fill_pattern(g.user[0].mem, LEN, 0, 7);
	assert_int_equal(into_list(&g, &b, 0), 12000);
	jrec_init(&j);
	weir_job_copy_crc32c(&j.job, operand_of(&g, FIL, 1, 5, 11000),
			     weir_operand_buf(b.list), 0);
	j.job.src.addr = 300;
	j.job.src.len = 11000;
	STARTS(weir_job_start(g.dma, &j.job));

	/* Who reads keeps writers away. */
	jrec_init(&other);
	weir_job_copy_crc32c(&other.job, weir_operand_buf(b.list),
			     operand_of(&g, USER, 0, 0, 10), 0);
	assert_int_equal(weir_job_start(g.dma, &other.job), -EBUSY);
	PUMP_UNTIL(&g, j.calls);
	assert_int_equal(j.res, 11000);
	assert_int_equal(weir_buf_list_data_len(b.list), 12000);
	assert_true(is_pattern(g.view[1] + 5, 11000, 300, 7));
	bufs_end(&b);
	fixture_end(&g);
}

static void bufs_are_free_after_a_cancel(void **state)
{
	struct bufs b;
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state, ONE_SLOT);
	bufs_begin(&b, &g, 100);
	g.user[0].stuck = true;
	jrec_init(&j);
	weir_job_copy_crc32c(&j.job, weir_operand_buf(b.list),
			     operand_of(&g, USER, 0, 0, 12000), 0);
	STARTS(weir_job_start(g.dma, &j.job));
	assert_int_equal(weir_op_cancel(&j.job.op), 0);
	some_turns(g.r, 3);
	assert_int_equal(j.res, -ECANCELED);

	/* The device still has staging, but nothing of the caller's. */
	assert_int_equal(stats_of(&g).quarantined, 1);
	assert_int_equal(weir_buf_list_data_len(b.list), 100);
	bufs_end(&b);
	g.user[0].stuck = false;
	PUMP_UNTIL(&g, !stats_of(&g).quarantined);
	fixture_end(&g);
}

/* A half by an engine of the user's, which moves what is in user[0]. */

#define CARD_CAPACITY 1

struct card {
	const struct weir_domain *d;
	char *mem;
	struct weir_job *job;
	bool inside, fails;
	uint64_t align;		/* Of each piece; 0: any. */
	uint32_t n_starts, n_full, n_cancels;
};

static int card_can(void *arg, const struct weir_engine_query *q,
		    const char **why)
{
	const struct card *card = arg;

	*why = "not the card's";
	return q->kind == WEIR_JOB_COPY && q->src == card->d && q->dst &&
	       weir_domain_kind(q->dst) < WEIR_DOMAIN_FILE;
}

static void card_end(struct card *card, int64_t res)
{
	struct weir_job *job = card->job;
	uint64_t n = weir_job_bytes(job), at = 0;
	struct iovec src[16], dst;
	uint32_t i, n_src;

	assert_int_equal(weir_job_pieces(job, WEIR_JOB_DST, 0, &dst, 1), 1);
	assert_int_equal(dst.iov_len, n);
	n_src = weir_job_pieces(job, WEIR_JOB_SRC, 0, src, 16);
	for (i = 0; i < n_src && card->align; i++)
		assert_int_equal(((uintptr_t)src[i].iov_base |
				  src[i].iov_len) % card->align, 0);
	for (i = 0; i < n_src && !res; at += src[i++].iov_len)
		memcpy((char *)dst.iov_base + at,
		       card->mem + (uintptr_t)src[i].iov_base, src[i].iov_len);
	card->job = NULL;
	weir_job_end(job, at, res, res ? 5 : 0);
}

static int card_start(void *arg, struct weir_job *job)
{
	struct card *card = arg;

	if (card->job) {
		card->n_full++;
		return -EAGAIN;
	}
	card->n_starts++;
	card->job = job;
	if (card->inside)
		card_end(card, card->fails ? -EDOM : 0);
	return 0;
}

static void card_cancel(void *arg, struct weir_job *job)
{
	struct card *card = arg;

	assert_ptr_equal(card->job, job);
	card->n_cancels++;
	card_end(card, -ECANCELED);
}

static const struct weir_engine_ops card_ops = {
	.size = sizeof(card_ops), .name = "card", .can = card_can,
	.start = card_start, .cancel = card_cancel,
};

static void card_begin(struct fixture *g, struct card *card, void **state,
		       struct weir_dma_opts opts)
{
	fixture_begin(g, state, opts);
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	opts.size = sizeof(opts);
	assert_int_equal(weir_dma_create(&g->dma, g->r, &opts), 0);
	*card = (struct card){ .d = g->user[0].d, .mem = g->user[0].mem };
	assert_int_equal(weir_dma_add_engine(g->dma, &card_ops, card), 0);
	assert_int_equal(weir_dma_start(g->dma), 0);
	fill_pattern(g->user[0].mem, LEN, 0, 8);
}

/* Turns in which the card does what it has. */
static void work_until_ended(struct fixture *g, struct card *card,
			     struct jrec *j)
{
	while (!j->calls) {
		if (card->job && !card->inside)
			card_end(card, card->fails ? -EDOM : 0);
		pump(g);
	}
}

static void an_engine_of_the_users_may_be_a_half(void **state)
{
	struct weir_job_route route = { .size = sizeof(route) };
	struct card card;
	struct jrec j;
	struct fixture g;
	int i;

	card_begin(&g, &card, state, ONE_SLOT);
	for (i = 0; i < 2; i++) {
		card.inside = i;
		card.n_starts = 0;
		memset(g.view[1], 0, LEN);
		set_copy(&g, &j, USER, FIL, 20000);
		STARTS(weir_job_start(g.dma, &j.job));
		work_until_ended(&g, &card, &j);
		assert_int_equal(j.res, 20000);
		assert_true(is_pattern(g.view[1], 20000, 0, 8));
		assert_int_equal(card.n_starts, 5);
		assert_int_equal(weir_job_get_route(&j.job, &route), 0);
		assert_string_equal(route.pull, "card");
		assert_string_equal(route.push, "file");
	}

	card.fails = true;
	for (i = 0; i < 2; i++) {
		card.inside = i;
		set_copy(&g, &j, USER, FIL, 20000);
		STARTS(weir_job_start(g.dma, &j.job));
		work_until_ended(&g, &card, &j);
		assert_int_equal(j.res, -EDOM);
		assert_int_equal(j.detail.code, 5);
		assert_int_equal(j.detail.bytes, 0);
	}
	fixture_end(&g);
}

/* The pieces of the other side are so short that they decide how much is
 * moved at once. */
static void a_block_ends_where_o_direct_can_go_on(void **state)
{
	struct weir_domain_file_opts opts = {
		.size = sizeof(opts), .align = 4096,
		.flags = WEIR_DOMAIN_FILE_DIRECT_ONLY,
	};
	struct iovec from[8], to[100];
	struct weir_domain *d = NULL;
	struct card card;
	struct jrec j;
	struct fixture g;
	int fd, i;

	fd = open(test_path(state, "f"), O_RDWR | O_CREAT | O_DIRECT, 0600);
	if (fd < 0)
		skip_because("no O_DIRECT here: %s", strerror(errno));
	card_begin(&g, &card, state, (struct weir_dma_opts){
		.staging_bufs = 1, .staging_size = 65536 });
	assert_int_equal(weir_domain_file_create(&d, fd, &opts), 0);
	card.d = d;
	card.inside = true;
	card.align = 4096;
	for (i = 0; i < 8; i++)
		from[i] = (struct iovec){ (void *)(i * 8192ul), 4096 };
	for (i = 0; i < 100; i++)
		to[i] = (struct iovec){ (void *)(i * 1000ul), 328 };
	to[99].iov_len = 8 * 4096 - 99 * 328;
	jrec_init(&j);
	weir_job_copy_crc32c(&j.job, weir_operand_iov(g.user[1].d, to, 100),
			     weir_operand_iov(d, from, 8), 0);
	assert_int_equal(run(&g, &j), 8 * 4096);
	for (i = 0; i < 100; i++)
		if (i * 328 / 4096 == (i * 328 + 327) / 4096)
			assert_memory_equal(g.user[1].mem + i * 1000,
				g.user[0].mem + i * 328 / 4096 * 8192 +
				i * 328 % 4096, 328);
	assert_int_equal(weir_domain_destroy(d), 0);
	close(fd);
	fixture_end(&g);
}

static void an_engine_without_capacity_keeps_halves_waiting(void **state)
{
	enum { N = 4 };
	struct card card;
	struct jrec j[N];
	struct fixture g;
	int i;

	card_begin(&g, &card, state, (struct weir_dma_opts){
		.staging_bufs = N, .staging_size = 4096 });
	for (i = 0; i < N; i++) {
		set_copy(&g, &j[i], USER, FIL, 20000);
		j[i].job.dst.addr = (uint64_t)i * 20000;
		STARTS(weir_job_start(g.dma, &j[i].job));
	}
	assert_int_equal(card.n_starts, 1);
	assert_int_equal(card.n_full, 1);	/* The rest is behind it. */

	/* One that waits ends at once, one that the card has by its cancel. */
	assert_int_equal(weir_op_cancel(&j[1].job.op), 0);
	assert_int_equal(card.n_cancels, 0);
	assert_int_equal(weir_op_cancel(&j[0].job.op), 0);
	assert_int_equal(card.n_cancels, 1);
	some_turns(g.r, 2);
	for (i = 0; i < 2; i++)
		assert_int_equal(j[i].res, -ECANCELED);
	for (; i < N; i++) {
		work_until_ended(&g, &card, &j[i]);
		assert_int_equal(j[i].res, 20000);
		assert_true(is_pattern(g.view[1] + i * 20000, 20000, 0, 8));
	}
	assert_int_equal(stats_of(&g).quarantines, 0);
	fixture_end(&g);
}

/* A hundred jobs for one slot, each cut off somewhere or not. */

enum { CROWD = 100, EACH = LEN / CROWD };

static void crowd_start(struct fixture *g, struct jrec *j, int i,
			unsigned int *seed)
{
	static const uint32_t kinds[] = {
		WEIR_JOB_COPY, WEIR_JOB_COPY_CRC32C, WEIR_JOB_CRC32C,
		WEIR_JOB_COMPARE, WEIR_JOB_FILL,
	};
	uint64_t off = (uint64_t)i * EACH;

	jrec_init(j);
	weir_job_copy(&j->job, operand_of(g, i % 2 ? FIL : USER, 1, off, EACH),
		      operand_of(g, USER, 0, off, EACH));
	j->job.kind = kinds[(unsigned int)rand_r(seed) % N_OF(kinds)];
	if (!(rand_r(seed) % 4))
		weir_op_set_deadline(&j->job.op, weir_reactor_now(g->r) +
				     (uint64_t)rand_r(seed) % 300000);
	STARTS(weir_job_start(g->dma, &j->job));
}

static void crowd_end(struct fixture *g, const struct jrec *j, int i)
{
	const char *dst = bytes_of(g, i % 2 ? FIL : USER, 1) + i * EACH;

	assert_int_equal(j->calls, 1);
	if (j->res < 0)
		assert_true(j->res == -ECANCELED || j->res == -ETIMEDOUT);
	else if (j->job.kind != WEIR_JOB_COMPARE)
		assert_int_equal(j->res, EACH);
	if (j->job.kind == WEIR_JOB_COPY ||
	    j->job.kind == WEIR_JOB_COPY_CRC32C)
		assert_true(is_pattern(dst, j->detail.bytes,
				       (uint64_t)i * EACH, 2));
}

static void a_crowd_with_cancels_and_deadlines_gets_through(void **state)
{
	unsigned int rounds = scaled(want_long() ? 3000 : 100) + 1;
	unsigned int seed = 23, round, ok = 0;
	struct jrec *j = calloc(CROWD, sizeof(*j));
	uint64_t held = 0;
	struct fixture g;
	int i;

	fixture_begin(&g, state, ONE_SLOT);
	fill_pattern(g.user[0].mem, LEN, 0, 2);
	/* Which of them end while a block is held is a matter of luck. */
	for (round = 0; round < rounds || !ok || !held; round++) {
		for (i = 0; i < CROWD; i++)
			crowd_start(&g, &j[i], i, &seed);
		while (stats_of(&g).in_flight) {
			i = rand_r(&seed) % (CROWD * 4);
			if (i < CROWD && weir_op_is_busy(&j[i].job.op))
				weir_op_cancel(&j[i].job.op);
			g.user[0].stuck = rand_r(&seed) % 8 == 0;
			pump(&g);
		}
		g.user[0].stuck = false;
		PUMP_UNTIL(&g, !stats_of(&g).quarantined);
		some_turns(g.r, 2);
		for (i = 0; i < CROWD; i++) {
			crowd_end(&g, &j[i], i);
			ok += j[i].res >= 0;
		}
		held = stats_of(&g).quarantines;
	}
	free(j);
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(job_cancelled_before_its_deadline_is_not_late),
		CASE(cancelled_chain_that_waits_for_capacity_ends_at_once),
		CASE(job_blocked_by_a_dead_device_goes_on_when_it_answers),
		CASE(a_reactor_stops_while_a_block_is_pulled),
		CASE(a_reactor_stops_while_a_block_is_pushed),
		CASE(a_reactor_stops_while_both_halves_are_under_way),
		CASE(a_quarantine_lasts_until_the_last_has_let_go),
		CASE(a_pull_without_capacity_is_asked_again),
		CASE(bufs_have_the_data_of_a_job_that_succeeds),
		CASE(bufs_are_read_as_any_memory),
		CASE(bufs_are_free_after_a_cancel),
		CASE(an_engine_of_the_users_may_be_a_half),
		CASE(a_block_ends_where_o_direct_can_go_on),
		CASE(an_engine_without_capacity_keeps_halves_waiting),
		CASE(a_crowd_with_cancels_and_deadlines_gets_through),
	};

	return harness_run(cases, N_OF(cases));
}
