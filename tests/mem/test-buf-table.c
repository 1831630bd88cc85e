/* SPDX-License-Identifier: BSD-3-Clause */

/* The table of bufs in docs/internals/mem.md, cell by cell. */

#include "tests/support/job-fixture.h"
#include "tests/support/table-fixture.h"

#include <weir/inventory.h>

#include "mem/buf-internal.h"

#define LEN 4096

enum { ONE, MANY, MEMBER, USED, USED_MEMBER };

static const char *const states[] = {
	"HEAD, 1 reference", "HEAD, 65535 references", "MEMBER of a list",
	"HEAD, a job uses it", "MEMBER, a job uses it",
};

/* "it" is the buf that the table is about. */
enum { HEAD, IT, NEXT, OTHER, FOREIGN, TARGET, DUP, N_BUFS };

struct stand {
	struct weir_reactor *r, *remote;
	struct weir_inventory *inv, *inv_remote;
	struct weir_mmap *m;
	struct weir_dma *dma;
	struct jrec spent, j;
	struct weir_buf *buf[N_BUFS];
	char mem[2 * LEN] __attribute__((aligned(4096)));
};

static int call_ref(void *arg)
{
	struct stand *s = arg;

	return weir_buf_ref(s->buf[IT]);
}

static int call_put(void *arg)
{
	struct stand *s = arg;
	uint32_t refs = weir_buf_refs(s->buf[IT]);

	weir_buf_put(s->buf[IT]);
	assert_int_equal(weir_buf_refs(s->buf[IT]), refs - 1);
	return 0;
}

static int call_set_data(void *arg)
{
	struct stand *s = arg;

	return weir_buf_set_data(s->buf[IT], weir_buf_addr(s->buf[IT]), 1);
}

static int call_reset(void *arg)
{
	struct stand *s = arg;

	return weir_buf_reset(s->buf[IT]);
}

static int call_chain_it_other(void *arg)
{
	struct stand *s = arg;

	return weir_buf_chain(s->buf[IT], s->buf[OTHER]);
}

static int call_chain_other_it(void *arg)
{
	struct stand *s = arg;

	return weir_buf_chain(s->buf[OTHER], s->buf[IT]);
}

static int call_chain_foreign(void *arg)
{
	struct stand *s = arg;
	int err = weir_buf_chain(s->buf[IT], s->buf[FOREIGN]);

	assert_int_equal(weir_buf_chain(s->buf[FOREIGN], s->buf[IT]), err);
	return err;
}

static int call_unchain(void *arg)
{
	struct stand *s = arg;

	return weir_buf_unchain(s->buf[IT], s->buf[NEXT]);
}

static int call_list_len(void *arg)
{
	struct stand *s = arg;

	return (int)weir_buf_list_len(s->buf[IT]);
}

static int call_dup(void *arg)
{
	struct stand *s = arg;

	return weir_inventory_dup(&s->buf[DUP], s->inv, s->buf[IT]);
}

static struct weir_inventory *make_inventory(struct stand *s,
					     struct weir_reactor *r)
{
	struct weir_inventory *inv = NULL;

	assert_int_equal(weir_inventory_create(&inv, r, NULL), 0);
	assert_int_equal(weir_inventory_attach(inv, s->m), 0);
	return inv;
}

static void take_all(struct stand *s)
{
	struct weir_inventory *inv;
	int i;

	for (i = HEAD; i < TARGET; i++) {
		inv = i == FOREIGN ? s->inv_remote : s->inv;
		assert_int_equal(weir_inventory_get_by_data(&s->buf[i], inv,
							    s->m,
							    s->mem + i * 64,
							    64), 0);
	}
	assert_int_equal(weir_inventory_get_by_addr(&s->buf[TARGET], s->inv,
						    s->m, s->mem + LEN, LEN),
			 0);
}

/* A job that reads the list and does not get to it before the next turn. */
static void use(struct stand *s, struct weir_buf *list)
{
	spend_budget(s->dma, &s->spent, s->mem, LEN);
	jrec_init(&s->j);
	weir_job_copy(&s->j.job, weir_operand_buf(s->buf[TARGET]),
		      weir_operand_buf(list));
	STARTS(weir_job_start(s->dma, &s->j.job));
}

static void stand_begin(struct stand *s, void **state, int column)
{
	struct weir_dma_opts dopts = { .turn_bytes = LEN };
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = backend_of(*state),
		.sim = harness_sim,
	};
	bool member = column == MEMBER || column == USED_MEMBER;
	int i;

	memset(s, 0, sizeof(*s));
	s->r = start_reactor(state);
	assert_int_equal(weir_reactor_create(&s->remote, &opts), 0);
	s->m = start_mmap(s->mem, sizeof(s->mem), WEIR_MMAP_WRITE);
	s->inv = make_inventory(s, s->r);
	s->inv_remote = make_inventory(s, s->remote);
	s->dma = start_dma(s->r, dopts);
	take_all(s);
	if (member)
		assert_int_equal(weir_buf_chain(s->buf[HEAD], s->buf[IT]), 0);
	assert_int_equal(weir_buf_chain(s->buf[member ? HEAD : IT],
					s->buf[NEXT]), 0);
	for (i = 1; column == MANY && i < WEIR_BUF_REFS_MAX; i++)
		assert_int_equal(weir_buf_ref(s->buf[IT]), 0);
	if (column >= USED)
		use(s, s->buf[member ? HEAD : IT]);
}

static void stand_end(struct stand *s, void **state)
{
	int i;

	if (weir_op_is_busy(&s->j.job.op))
		assert_true(jrec_finish(s->r, &s->j) >= 0);
	for (i = 0; i < N_BUFS; i++)
		while (s->buf[i] && weir_buf_refs(s->buf[i]))
			weir_buf_put(s->buf[i]);
	assert_int_equal(weir_mmap_num_bufs(s->m), 0);
	assert_int_equal(weir_dma_destroy(s->dma), 0);
	assert_int_equal(weir_inventory_destroy(s->inv), 0);
	assert_int_equal(weir_inventory_destroy(s->inv_remote), 0);
	assert_int_equal(weir_reactor_destroy(s->remote), 0);
	assert_int_equal(weir_mmap_destroy(s->m), 0);
	end_reactor(state);
}

/* 2.2; acceptance 16 */
static void buf_answers_as_its_state_table_says(void **state)
{
	static const struct table_call calls[] = {
		{ "ref", call_ref }, { "put", call_put },
		{ "set_data", call_set_data }, { "reset", call_reset },
		{ "chain(it, other)", call_chain_it_other },
		{ "chain(other, it)", call_chain_other_it },
		{ "chain with one of another reactor", call_chain_foreign },
		{ "unchain(it, next)", call_unchain },
		{ "list_len", call_list_len }, { "dup", call_dup },
	};
	static struct stand s;
	struct table_cell c;
	struct table t;

	table_open(&t, "docs/internals/mem.md", "buf: call by state", calls,
		   N_OF(calls), states, N_OF(states));
	while (table_next(&t, &c)) {
		stand_begin(&s, state, c.column);
		table_result(&c, c.call->fn(&s));
		if (!strcmp(c.then, "MEMBER"))
			assert_int_equal(s.buf[IT]->state, BUF_MEMBER);
		if (!strcmp(c.then, "returned"))
			assert_int_equal(s.buf[NEXT]->state, BUF_FREE);
		stand_end(&s, state);
	}
	table_close(&t);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(buf_answers_as_its_state_table_says),
	};

	return harness_run_all(cases, N_OF(cases));
}
