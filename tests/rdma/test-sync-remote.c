/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sync events at a peer, by RDMA: acceptance case 13, over the network; A10.3
 * and A10.4.  Both ends are in this process.
 */

#include "tests/support/verbs-fixture.h"

#include <pthread.h>

#include <weir/chain.h>
#include <weir/export.h>
#include <weir/rdma/export.h>
#include <weir/sync-remote.h>
#include <weir/sync.h>

#include "dma/sync/internal.h"
#include "mem/device-internal.h"
#include "tests/support/table-fixture.h"

#define AT 64u			/* Where in .far it is. */
#define LOOK WEIR_MMAP_RDMA_READ
#define SIGNAL WEIR_MMAP_RDMA_ATOMIC

/* The peer's mmap with a sync event in it, and ours of both. */
struct pair {
	struct weir_mmap *theirs, *m;
	struct weir_sync *sync;
	struct weir_sync_remote *remote;
	struct weir_sync_call call;
	struct rec rec;
};

/* In @domain, by which they are reached. */
static void pair_open(struct pair *p, struct wire *l, uint32_t rights,
		      struct weir_domain *domain)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };

	memset(p, 0, sizeof(*p));
	p->theirs = start_mmap_on(l->dev, l->far, 4096, rights |
				  WEIR_MMAP_READ | WEIR_MMAP_WRITE);
	assert_int_equal(weir_sync_create_in(&p->sync, p->theirs, AT, NULL), 0);
	assert_int_equal(weir_mmap_export_rdma(p->theirs, l->dev, NULL, &desc),
			 0);
	assert_int_equal(weir_mmap_import_rdma(&p->m, domain, desc.bytes,
					       desc.len, NULL), 0);
	assert_int_equal(weir_sync_remote_open(&p->remote, l->dma, p->m, AT),
			 0);
	rec_init(&p->rec);
}

#define pair_begin(p, l, rights) pair_open(p, l, rights, (l)->there)

static void pair_end(struct pair *p)
{
	assert_int_equal(weir_sync_remote_destroy(p->remote), 0);
	assert_int_equal(weir_mmap_destroy(p->m), 0);
	assert_int_equal(weir_sync_destroy(p->sync), 0);
	assert_int_equal(weir_mmap_destroy(p->theirs), 0);
}

static int64_t add(struct wire *l, struct pair *p, uint64_t n)
{
	STARTS(weir_sync_remote_add(p->remote, &p->rec.op, &p->call, n));
	return finish(l->r, &p->rec);
}

static int64_t set(struct wire *l, struct pair *p, uint64_t value)
{
	STARTS(weir_sync_remote_set(p->remote, &p->rec.op, &p->call, value));
	return finish(l->r, &p->rec);
}

static int64_t get(struct wire *l, struct pair *p)
{
	STARTS(weir_sync_remote_get(p->remote, &p->rec.op, &p->call));
	return finish(l->r, &p->rec);
}

static void start_wait(struct pair *p, uint32_t cond, uint64_t value)
{
	rec_init(&p->rec);
	STARTS(weir_sync_remote_wait(p->remote, &p->rec.op, &p->call, cond,
				     value, WEIR_SYNC_ALL));
}

static void a_peer_signals_and_its_owner_is_woken(void **state)
{
	uint64_t value = 9;
	struct wire l;
	struct pair p;
	struct rec rec;

	wire_begin(&l, state);
	pair_begin(&p, &l, LOOK | SIGNAL);
	rec_init(&rec);
	STARTS(weir_sync_wait(p.sync, l.r, &rec.op, WEIR_SYNC_GE, 3,
			      WEIR_SYNC_ALL));
	assert_int_equal(add(&l, &p, 1), 0);
	assert_true(p.call.got == 0);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(add(&l, &p, 2), 0);
	assert_true(p.call.got == 1);
	UNTIL(l.r, rec.calls);
	assert_int_equal(rec.res, 0);
	assert_int_equal(weir_sync_get(p.sync, &value), 0);
	assert_true(value == 3);
	assert_int_equal(get(&l, &p), 0);
	assert_true(p.call.got == 3);
	pair_end(&p);
	wire_end(&l);
}

/* Whatever the guess was from which it began. */
static void remote_set_overwrites_the_signals_of_others(void **state)
{
	uint64_t value;
	struct wire l;
	struct pair p;

	wire_begin(&l, state);
	pair_begin(&p, &l, LOOK | SIGNAL);
	assert_int_equal(set(&l, &p, 5), 0);
	assert_true(p.call.got == 0);
	p.sync->word->value = 77;
	assert_int_equal(set(&l, &p, 6), 0);
	assert_true(p.call.got == 77);
	assert_int_equal(set(&l, &p, 7), 0);
	assert_true(p.call.got == 6);
	assert_int_equal(weir_sync_get(p.sync, &value), 0);
	assert_true(value == 7);
	pair_end(&p);
	wire_end(&l);
}

struct blocked {
	struct weir_sync *sync;
	int res;
};

static void *block(void *arg)
{
	struct blocked *b = arg;

	b->res = weir_sync_wait_blocking(b->sync, WEIR_SYNC_EQ, 1,
					 WEIR_SYNC_ALL, WEIR_FOREVER);
	return NULL;
}

/* Nobody wakes it: it looks. */
static void a_thread_that_blocks_hears_of_it(void **state)
{
	struct blocked b;
	pthread_t thread;
	struct wire l;
	struct pair p;

	wire_begin(&l, state);
	pair_begin(&p, &l, LOOK | SIGNAL);
	b.sync = p.sync;
	assert_int_equal(pthread_create(&thread, NULL, block, &b), 0);
	while (!atomic_load(&p.sync->n_blocked))
		some_turns(l.r, 1);
	assert_int_equal(add(&l, &p, 1), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(b.res, 0);
	pair_end(&p);
	wire_end(&l);
}

/* One of the two would be lost. */
static void owner_may_not_signal_an_event_that_a_device_signals(void **state)
{
	struct wire l;
	struct pair p;
	uint32_t caps;

	wire_begin(&l, state);
	pair_begin(&p, &l, LOOK | SIGNAL);
	assert_int_equal(weir_sync_set(p.sync, 1), -EXDEV);
	assert_int_equal(weir_sync_add(p.sync, 1, NULL), -EXDEV);
	pair_end(&p);
	caps = l.dev->info.caps.caps;
	l.dev->info.caps.caps |= WEIR_DEVICE_CAP_ATOMIC_ALL;
	pair_begin(&p, &l, LOOK | SIGNAL);
	assert_int_equal(weir_sync_add(p.sync, 1, NULL), 0);
	assert_int_equal(add(&l, &p, 1), 0);
	assert_true(p.call.got == 1);
	pair_end(&p);
	l.dev->info.caps.caps = caps;
	wire_end(&l);
}

static void a_peer_waits_for_its_owner(void **state)
{
	struct wire l;
	struct pair p;

	wire_begin(&l, state);
	pair_begin(&p, &l, LOOK);
	assert_int_equal(weir_sync_set(p.sync, 4), 0);
	start_wait(&p, WEIR_SYNC_GT, 4);
	some_turns(l.r, 20);
	assert_int_equal(p.rec.calls, 0);
	assert_int_equal(weir_sync_add(p.sync, 3, NULL), 0);
	assert_int_equal(finish(l.r, &p.rec), 0);
	assert_true(p.call.got == 7);
	start_wait(&p, WEIR_SYNC_EQ, 7);
	assert_int_equal(finish(l.r, &p.rec), 0);
	pair_end(&p);
	wire_end(&l);
}

static void a_wait_ends_early(void **state)
{
	struct wire l;
	struct pair p;
	int turns;

	wire_begin(&l, state);
	pair_begin(&p, &l, LOOK);
	for (turns = 0; turns < 30; turns += 3) {
		start_wait(&p, WEIR_SYNC_EQ, 1);
		some_turns(l.r, turns);
		weir_op_cancel(&p.rec.op);
		assert_int_equal(finish(l.r, &p.rec), -ECANCELED);
	}
	start_wait(&p, WEIR_SYNC_EQ, 1);
	assert_int_equal(weir_op_set_deadline(&p.rec.op,
					      weir_reactor_now(l.r) +
						      3 * WEIR_MSEC), 0);
	assert_int_equal(finish(l.r, &p.rec), -ETIMEDOUT);
	start_wait(&p, WEIR_SYNC_EQ, 1);
	some_turns(l.r, 20);
	assert_int_equal(weir_sync_destroy(p.sync), 0);
	p.sync = NULL;
	assert_int_equal(finish(l.r, &p.rec), -ESTALE);
	pair_end(&p);
	wire_end(&l);
}

/* By what is read; and in the other byte order. */
static void remote_value_is_polled(void **state)
{
	struct sync_word *w;
	struct wire l;
	struct pair p;

	wire_begin(&l, state);
	pair_begin(&p, &l, LOOK);
	w = p.sync->word;
	w->magic = 0;
	assert_int_equal(get(&l, &p), -EBADMSG);
	w->magic = SYNC_MAGIC + (UINT64_C(1) << 56);
	assert_int_equal(get(&l, &p), -EPROTONOSUPPORT);
	w->magic = __builtin_bswap64(SYNC_MAGIC);
	w->value = __builtin_bswap64(0x123456789abcdef0);
	assert_int_equal(get(&l, &p), 0);
	assert_true(p.call.got == 0x123456789abcdef0);
	w->flags = __builtin_bswap32(SYNC_FLAG_CLOSED);
	assert_int_equal(get(&l, &p), -ESTALE);
	pair_end(&p);
	wire_end(&l);
}

static void remote_sync_event_that_does_not_fit_is_refused(void **state)
{
	static const struct {
		uint64_t off;
		int err;
	} places[] = {
		{ 4, -EINVAL }, { 4096 - 24, -ERANGE }, { 4096, -ERANGE },
		{ UINT64_MAX - 7, -ERANGE }, { 4096 - WEIR_SYNC_LEN, 0 },
	};
	struct weir_sync_remote *other = NULL;
	struct weir_sync *local = NULL;
	struct wire l;
	struct pair p;
	size_t i;

	wire_begin(&l, state);
	pair_begin(&p, &l, LOOK);
	for (i = 0; i < N_OF(places); i++)
		assert_int_equal(weir_sync_remote_open(&other, l.dma, p.m,
						       places[i].off),
				 places[i].err);
	assert_int_equal(weir_sync_remote_destroy(other), 0);
	assert_int_equal(weir_sync_remote_destroy(NULL), 0);
	assert_int_equal(weir_sync_remote_open(&other, l.dma, p.theirs, AT),
			 -EINVAL);
	assert_int_equal(weir_sync_open(&local, p.m, AT), -EOPNOTSUPP);
	assert_int_equal(weir_sync_remote_wait(p.remote, &p.rec.op, &p.call, 9,
					       0, WEIR_SYNC_ALL), -EINVAL);
	assert_int_equal(weir_sync_remote_wait(p.remote, &p.rec.op, &p.call,
					       WEIR_SYNC_EQ, 2, 1), -EINVAL);
	some_turns(l.r, 3);
	assert_int_equal(weir_mmap_destroy(p.m), -EBUSY);
	assert_int_equal(weir_dma_destroy(l.dma), -EBUSY);
	pair_end(&p);
	wire_end(&l);
}

/* Data first, then the signal, then the answer of who has seen both. */
static void a_chain_signals_and_waits(void **state)
{
	struct weir_sync_remote_step signal = { .action = WEIR_SYNC_DO_ADD,
						.value = 1 };
	struct weir_sync_remote_step wait = { .action = WEIR_SYNC_DO_WAIT,
					      .cond = WEIR_SYNC_GE,
					      .value = 1 };
	struct weir_chain *chain = NULL;
	struct weir_job data;
	struct wire l;
	struct pair p;
	int i;

	wire_begin(&l, state);
	pair_begin(&p, &l, LOOK | SIGNAL);
	signal.sync = wait.sync = p.remote;
	weir_job_init(&data, NULL);
	weir_job_copy(&data, far_at(&l, 1 << 20, 64),
		      weir_operand_mem(l.near, 64));
	assert_int_equal(weir_chain_create(&chain, l.r, NULL), 0);
	assert_int_equal(weir_chain_add_job(chain, -1, l.dma, &data), 0);
	assert_int_equal(weir_chain_add_sync_remote(chain, 0, &signal), 1);
	assert_int_equal(weir_chain_add_sync_remote(chain, 1, &wait), 2);
	assert_int_equal(weir_chain_add_sync_remote(chain, 2, NULL), -EINVAL);
	for (i = 1; i < 4; i++) {
		memset(l.near, i, 64);
		wait.value = (uint64_t)i;
		STARTS(weir_chain_start(chain, &p.rec.op));
		assert_int_equal(finish(l.r, &p.rec), 3);
		assert_true(signal.call.got == (uint64_t)i - 1);
		assert_true(wait.call.got == (uint64_t)i);
		assert_memory_equal(l.far + (1 << 20), l.near, 64);
	}
	wait.action = 17;
	STARTS(weir_chain_start(chain, &p.rec.op));
	assert_int_equal(finish(l.r, &p.rec), -EINVAL);
	assert_int_equal(weir_chain_destroy(chain), 0);
	pair_end(&p);
	wire_end(&l);
}

/* Each call ends once, and the next is refused. */
static void a_lost_connection_ends_calls(void **state)
{
	struct weir_sync_call calls[2];
	struct rec rec[2];
	struct wire l;
	struct pair p;
	int i;

	wire_begin(&l, state);
	pair_begin(&p, &l, LOOK | SIGNAL);
	start_wait(&p, WEIR_SYNC_EQ, 99);
	some_turns(l.r, 20);
	wire_revoke(&l);
	assert_int_equal(weir_sync_destroy(p.sync), 0);
	p.sync = NULL;
	assert_int_equal(weir_mmap_stop(p.theirs, NULL, NULL), 0);
	for (i = 0; i < 2; i++) {
		rec_init(&rec[i]);
		STARTS(weir_sync_remote_add(p.remote, &rec[i].op, &calls[i],
					    1));
	}
	UNTIL(l.r, rec[0].calls && rec[1].calls && p.rec.calls);
	assert_true(rec[0].res < 0 && rec[1].res < 0 && p.rec.res < 0);
	assert_int_equal(rec[0].calls + rec[1].calls + p.rec.calls, 3);
	UNTIL(l.r, l.e.n_ends[0]);
	assert_int_equal(weir_sync_remote_get(p.remote, &p.rec.op, &p.call),
			 -ENOTCONN);
	pair_end(&p);
	wire_end(&l);
}

/* docs/internals/rdma.md, "remote sync event: call by state" */

enum column { IDLE, UNDER_WAY, LOOKED_AT, SIGNALLED, DESTROYED, ALONE };

static const char *const columns[] = {
	"idle", "a call is in flight", "may only be looked at",
	"may only be signalled", "destroyed by its creator", "not connected",
};

struct cell {
	struct wire *l;
	struct pair p, other;
	struct weir_domain *nobody;
};

static void cell_begin(struct cell *g, struct wire *l, enum column column)
{
	static const uint32_t rights[] = {
		[LOOKED_AT] = LOOK, [SIGNALLED] = SIGNAL,
		[ALONE] = LOOK | SIGNAL,
	};

	g->l = l;
	assert_int_equal(weir_domain_remote_create(&g->nobody, NULL), 0);
	pair_open(&g->p, l, rights[column] ? rights[column] : LOOK | SIGNAL,
		  column == ALONE ? g->nobody : l->there);
	rec_init(&g->other.rec);
	if (column == UNDER_WAY)
		STARTS(weir_sync_remote_wait(g->p.remote, &g->other.rec.op,
					     &g->other.call, WEIR_SYNC_EQ, 99,
					     WEIR_SYNC_ALL));
	if (column != DESTROYED)
		return;
	assert_int_equal(weir_sync_destroy(g->p.sync), 0);
	g->p.sync = NULL;
}

static void cell_end(struct cell *g, enum column column)
{
	if (column == UNDER_WAY) {
		weir_op_cancel(&g->other.rec.op);
		assert_int_equal(finish(g->l->r, &g->other.rec), -ECANCELED);
	}
	pair_end(&g->p);
	assert_int_equal(weir_domain_destroy(g->nobody), 0);
}

/* What it is refused with, or comes to. */
#define CALL(name, ...)                                                    \
	static int call_##name(void *cell)                                 \
	{                                                                  \
		struct pair *p = &((struct cell *)cell)->p;                \
		int err = weir_sync_remote_##name(p->remote, &p->rec.op,   \
						  &p->call, ##__VA_ARGS__); \
		return err ? err :                                         \
			     (int)finish(((struct cell *)cell)->l->r,      \
					 &p->rec);                         \
	}

CALL(add, 1)
CALL(set, 1)
CALL(get)
CALL(wait, WEIR_SYNC_EQ, 0, WEIR_SYNC_ALL)

static int call_destroy(void *cell)
{
	struct pair *p = &((struct cell *)cell)->p;
	int err = weir_sync_remote_destroy(p->remote);

	if (!err)
		p->remote = NULL;
	return err;
}

static void the_table_of_the_page_holds(void **state)
{
	static const struct table_call calls[] = {
		{ "add", call_add }, { "set", call_set }, { "get", call_get },
		{ "wait", call_wait }, { "destroy", call_destroy },
	};
	struct table_cell c;
	struct table t;
	struct wire l;
	struct cell g;

	wire_begin(&l, state);
	table_open(&t, "docs/internals/rdma.md", "remote sync event: call by state",
		   calls, N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		cell_begin(&g, &l, (enum column)c.column);
		table_result(&c, c.call->fn(&g));
		cell_end(&g, (enum column)c.column);
	}
	table_close(&t);
	wire_end(&l);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_peer_signals_and_its_owner_is_woken),
		CASE(remote_set_overwrites_the_signals_of_others),
		REAL(a_thread_that_blocks_hears_of_it),
		CASE(owner_may_not_signal_an_event_that_a_device_signals),
		CASE(a_peer_waits_for_its_owner),
		CASE(a_wait_ends_early),
		CASE(remote_value_is_polled),
		CASE(remote_sync_event_that_does_not_fit_is_refused),
		CASE(a_chain_signals_and_waits),
		CASE(a_lost_connection_ends_calls),
		CASE(the_table_of_the_page_holds),
	};

	return run_over_rdma(cases, N_OF(cases));
}
