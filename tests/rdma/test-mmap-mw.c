/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory windows over an mmap, B2.8: good on one queue pair, within their range
 * and rights, until they are taken back or the mmap is stopped.  Windows go
 * before their queue pair, for which soft-RoCE waits else.  Over the
 * mock, or, in the program without it, over soft-RoCE in the guest.
 */


#include <weir/rdma/export.h>
#include "rdma/export.h"
#include "tests/support/rdma-fixture.h"

#include "base/fault.h"
#include "mem/export/internal.h"
#include "rdma/mmap-mw.h"
#include "tests/support/table-fixture.h"

static const struct mmap_mw_opts usual = {
	.off = PART_OFF,
	.len = PART_LEN,
	.permissions = WEIR_MMAP_RDMA_WRITE,
};

/* The exporter's end of @p is 1. */
static int bind_on(struct mmap_mw *w, struct pair *p)
{
	struct ibv_send_wr wr = { .send_flags = IBV_SEND_SIGNALED };
	int err = mmap_mw_bind(w, &wr);

	if (!err)
		mmap_mw_done(w, do_wr(p, 1, &wr) == IBV_WC_SUCCESS);
	return err;
}

static int invalidate_on(struct mmap_mw *w, struct pair *p)
{
	struct ibv_send_wr wr = { .send_flags = IBV_SEND_SIGNALED };
	int err = mmap_mw_invalidate(w, &wr);

	if (!err)
		mmap_mw_done(w, do_wr(p, 1, &wr) != IBV_WC_SUCCESS);
	return err;
}

static struct mmap_mw *window_on(struct fixture *g, struct pair *p,
				 uint64_t *addr, uint32_t *rkey)
{
	struct mmap_mw *w = NULL;

	assert_int_equal(mmap_mw_create(&w, g->m, g->dev, &usual, "test"), 0);
	assert_int_equal(mmap_mw_key(w, addr, rkey), -ENOKEY);
	assert_int_equal(bind_on(w, p), 0);
	assert_int_equal(mmap_mw_key(w, addr, rkey), 0);
	assert_int_equal(*addr, (uintptr_t)g->mem + PART_OFF);
	return w;
}

static void memory_window_opens_its_range_to_its_queue_pair(void **state)
{
	char buf[PART_LEN] = "through the window";
	struct mmap_mw *w;
	struct pair p;
	struct fixture g;
	uint64_t addr;
	uint32_t rkey;

	(void)state;
	fixture_begin(&g, ALL);
	pair_begin(&p, &g);
	w = window_on(&g, &p, &addr, &rkey);
	assert_int_equal(access_by(&g, &p, IBV_WR_RDMA_WRITE, addr, rkey, buf,
				   PART_LEN),
			 IBV_WC_SUCCESS);
	assert_string_equal(g.mem + PART_OFF, "through the window");
	assert_int_equal(g.mem[PART_OFF - 1], 'm');
	assert_int_equal(g.mem[PART_OFF + PART_LEN], 'm');
	assert_int_equal(mmap_mw_destroy(w), 0);
	pair_end(&p);
	fixture_end(&g);
}

struct window_key {
	uint64_t addr;
	struct rdma_key key;
};

static int describe_window(void *arg, const struct weir_provider_key *none,
			   struct weir_provider_desc *desc)
{
	const struct window_key *w = arg;

	assert_int_equal(none->rkey, 0);
	desc->addr = w->addr;
	rdma_key_write(desc, &w->key);
	return 0;
}

/* The bytes name the queue pair, for who imports them. */
static void memory_window_is_exported_for_its_connection(void **state)
{
	uint8_t bytes[WEIR_DESCRIPTOR_MAX];
	const struct weir_describe_opts opts = {
		.size = sizeof(opts),
		.off = usual.off,
		.len = usual.len,
		.permissions = usual.permissions,
		.bytes = bytes,
	};
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_import_info info = { .size = sizeof(info) };
	struct weir_mmap *im = NULL;
	struct window_key key = { .key.node = 77 };
	struct mmap_mw *w;
	struct pair p;
	struct fixture g;
	void *addr;

	(void)state;
	fixture_begin(&g, ALL);
	pair_begin(&p, &g);
	w = window_on(&g, &p, &key.addr, &key.key.rkey);
	key.key.qp_num = p.qp[1]->qp_num;
	assert_int_equal(weir_mmap_describe(verbs_provider, g.m, g.dev, &opts,
					    describe_window, &key, &desc),
			 0);
	assert_ptr_equal(desc.bytes, bytes);
	assert_int_equal(weir_mmap_is_exported(g.m), 1);
	assert_int_equal(weir_mmap_import_rdma(&im, g.domain, bytes, desc.len,
					       NULL),
			 0);
	assert_int_equal(weir_mmap_import_info(im, &info), 0);
	assert_int_equal(info.qp_num, key.key.qp_num);
	assert_int_equal(info.rkey, key.key.rkey);
	assert_int_equal(info.node, 77);
	assert_int_equal(weir_mmap_import_info(g.m, &info), -EPERM);
	info.size = 0;
	assert_int_equal(weir_mmap_import_info(im, &info), -EINVAL);
	assert_int_equal(weir_mmap_permissions(im), WEIR_MMAP_WRITE);
	assert_int_equal(weir_mmap_memrange(im, &addr, NULL), 0);
	assert_int_equal((uintptr_t)addr, key.addr);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(mmap_mw_destroy(w), 0);
	pair_end(&p);
	fixture_end(&g);
}

/* What a rogue does with the key, and how far it comes. */
static const struct rogue {
	const char *name;
	bool other_qp;
	enum ibv_wr_opcode opcode;
	int64_t off;
	size_t len;
	uint32_t key;
} rogues[] = {
	{ "another queue pair", true, IBV_WR_RDMA_WRITE, 0, 1, 0 },
	{ "one before", false, IBV_WR_RDMA_WRITE, -1, 1, 0 },
	{ "one behind", false, IBV_WR_RDMA_WRITE, 1, PART_LEN, 0 },
	{ "reading", false, IBV_WR_RDMA_READ, 0, 1, 0 },
	{ "another key", false, IBV_WR_RDMA_WRITE, 0, 1, 1 },
};

static void a_rogue_peer_changes_nothing(void **state)
{
	char buf[PART_LEN];
	struct mmap_mw *w;
	struct pair p;
	struct fixture g;
	uint64_t addr;
	uint32_t rkey;
	size_t i, j;

	(void)state;
	memset(buf, 'x', sizeof(buf));
	for (i = 0; i < N_OF(rogues); i++) {
		fixture_begin(&g, ALL);
		pair_begin(&p, &g);
		w = window_on(&g, &p, &addr, &rkey);
		if (access_by(&g, rogues[i].other_qp ? NULL : &p,
			      rogues[i].opcode, addr + (uint64_t)rogues[i].off,
			      rkey ^ rogues[i].key, buf,
			      rogues[i].len) == IBV_WC_SUCCESS)
			fail_msg("%s", rogues[i].name);
		for (j = 0; j < LEN; j++)
			assert_int_equal(g.mem[j], 'm');
		assert_int_equal(mmap_mw_destroy(w), 0);
		pair_end(&p);
		fixture_end(&g);
	}
}

/* B2.4: a stop takes windows back, bound or not, and then the memory. */
static void a_stop_frees_what_is_bound(void **state)
{
	struct mmap_mw *w, *idle = NULL;
	char buf[8] = "late";
	struct pair p;
	struct fixture g;
	uint64_t addr;
	uint32_t rkey;
	size_t i;

	(void)state;
	fixture_begin(&g, ALL);
	pair_begin(&p, &g);
	w = window_on(&g, &p, &addr, &rkey);
	assert_int_equal(mmap_mw_create(&idle, g.m, g.dev, &usual, "test"), 0);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);
	assert_int_not_equal(access_by(&g, &p, IBV_WR_RDMA_WRITE, addr, rkey,
				       buf, 4),
			     IBV_WC_SUCCESS);
	for (i = 0; i < LEN; i++)
		assert_int_equal(g.mem[i], 'm');
	assert_int_equal(mmap_mw_key(w, &addr, &rkey), -ESTALE);
	pair_end(&p);
	fixture_end(&g);
	assert_int_equal(mmap_mw_destroy(w), 0);
	assert_int_equal(mmap_mw_destroy(idle), 0);
	assert_int_equal(mmap_mw_destroy(NULL), 0);
}

static void an_invalidated_one_can_be_bound_again(void **state)
{
	char buf[8] = "again";
	struct mmap_mw *w;
	struct pair p;
	struct fixture g;
	uint64_t addr;
	uint32_t rkey, old;

	(void)state;
	fixture_begin(&g, ALL);
	pair_begin(&p, &g);
	w = window_on(&g, &p, &addr, &old);
	assert_int_equal(bind_on(w, &p), -EBUSY);
	assert_int_equal(invalidate_on(w, &p), 0);
	assert_int_equal(invalidate_on(w, &p), -ENOKEY);
	assert_int_equal(bind_on(w, &p), 0);
	assert_int_equal(mmap_mw_key(w, &addr, &rkey), 0);
	assert_int_not_equal(rkey, old);
	assert_int_equal(access_by(&g, &p, IBV_WR_RDMA_WRITE, addr, rkey, buf,
				   6),
			 IBV_WC_SUCCESS);
	assert_int_not_equal(access_by(&g, &p, IBV_WR_RDMA_WRITE, addr, old,
				       buf, 6),
			     IBV_WC_SUCCESS);
	assert_int_equal(mmap_mw_destroy(w), 0);
	pair_end(&p);
	fixture_end(&g);
}

static void memory_window_beyond_the_mmap_is_refused(void **state)
{
	static const struct {
		struct mmap_mw_opts opts;
		int want;
	} asked[] = {
		{ { 0, LEN, WEIR_MMAP_RDMA_READ, true }, 0 },
		{ { 0, 0, WEIR_MMAP_RDMA_READ, true }, -ERANGE },
		{ { LEN, 1, WEIR_MMAP_RDMA_READ, true }, -ERANGE },
		{ { 1, LEN, WEIR_MMAP_RDMA_READ, true }, -ERANGE },
		{ { 1, UINT64_MAX, WEIR_MMAP_RDMA_READ, true }, -ERANGE },
		{ { 0, 1, 0, true }, -EACCES },
		{ { 0, 1, WEIR_MMAP_RDMA_WRITE, true }, -EACCES },
		{ { 0, 1, WEIR_MMAP_READ, true }, -EACCES },
	};
	struct mmap_mw *w = NULL;
	struct fixture g;
	size_t i;

	(void)state;
	fixture_begin(&g, WEIR_MMAP_RDMA_READ);
	for (i = 0; i < N_OF(asked); i++) {
		assert_int_equal(mmap_mw_create(&w, g.m, g.dev, &asked[i].opts,
						"test"),
				 asked[i].want);
		if (!asked[i].want)
			assert_int_equal(mmap_mw_destroy(w), 0);
	}
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);
	assert_int_equal(mmap_mw_create(&w, g.m, g.dev, &asked[0].opts, "test"),
			 -EBADFD);
	fixture_end(&g);
}

static void failed_memory_window_leaves_nothing_behind(void **state)
{
	struct mmap_mw *w = NULL;
	int err, n = 0, fired;
	struct fixture g;

	(void)state;
	fixture_begin(&g, ALL);
	do {
		fault_arm(n++);
		err = mmap_mw_create(&w, g.m, g.dev, &usual, "test");
		fired = fault_disarm();
		if (fired)
			assert_true(err < 0 && !w);
		if (fired && mocked)
			assert_int_equal(mocked()->mrs, 0);
	} while (fired);
	assert_int_equal(err, 0);
	fault_arm(0);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), -EBUSY);
	assert_int_equal(fault_disarm(), 1);
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STARTED);
	fault_arm(0);
	assert_int_equal(mmap_mw_destroy(w), -EBUSY);
	assert_int_equal(fault_disarm(), 1);
	assert_int_equal(mmap_mw_destroy(w), 0);
	fixture_end(&g);
}

static int makes_no_window(const char *name)
{
	return !strcmp(name, "ibv_alloc_mw") || !strcmp(name, "ibv_dereg_mr");
}

/* Its region is the mmap's then. */
static void first_failure_of_a_stop_is_reported(void **state)
{
	struct mmap_mw *w = NULL;
	struct fixture g;

	(void)state;
	fixture_begin(&g, ALL);
	fault_ask(makes_no_window);
	assert_int_equal(mmap_mw_create(&w, g.m, g.dev, &usual, "test"),
			 -ENOMEM);
	fault_ask(NULL);
	assert_non_null(strstr(weir_why(), "makes no memory window"));
	assert_null(w);
	fixture_end(&g);
}

/* All of an mmap needs no second registration; a part has a key of its own. */
static void part_of_an_mmap_is_registered_by_itself(void **state)
{
	struct mmap_mw_opts all = {
		.len = LEN,
		.permissions = WEIR_MMAP_RDMA_READ,
		.narrow = true,
	};
	struct mmap_mw *w = NULL, *part = NULL;
	struct fixture g;

	(void)state;
	if (!mocked)
		skip_because("soft-RoCE does not count registrations");
	fixture_begin(&g, ALL);
	assert_int_equal(mmap_mw_create(&part, g.m, g.dev, &usual, "test"), 0);
	assert_int_equal(mocked()->mrs, 1);
	assert_int_equal(mocked()->access,
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	assert_int_equal(mocked()->len, PART_LEN);
	assert_int_equal(mmap_mw_create(&w, g.m, g.dev, &all, "test"), 0);
	assert_int_equal(mocked()->mrs, 2);
	assert_int_equal(mmap_mw_destroy(w), 0);
	assert_int_equal(mmap_mw_destroy(part), 0);
	assert_int_equal(mocked()->mrs, 1);
	fixture_end(&g);
}

/* Between post and completion nothing can be stopped. */
static void a_stop_waits_for_what_is_posted(void **state)
{
	struct ibv_send_wr wr = { .wr_id = 0 };
	struct mmap_mw *w = NULL;
	uint64_t addr;
	uint32_t rkey;
	struct fixture g;

	(void)state;
	fixture_begin(&g, ALL);
	assert_int_equal(mmap_mw_create(&w, g.m, g.dev, &usual, "test"), 0);
	assert_int_equal(mmap_mw_bind(w, &wr), 0);
	assert_int_equal(mmap_mw_key(w, &addr, &rkey), -ENOKEY);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), -EBUSY);
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STARTED);
	mmap_mw_done(w, false);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);
	assert_int_equal(mmap_mw_destroy(w), 0);
	fixture_end(&g);
}

/* The table. */

struct cell {
	struct fixture g;
	struct pair p;
	struct mmap_mw *w;
};

static int call_bind(void *arg)
{
	struct cell *c = arg;

	return bind_on(c->w, &c->p);
}

static int call_invalidate(void *arg)
{
	struct cell *c = arg;

	return invalidate_on(c->w, &c->p);
}

static int call_key(void *arg)
{
	struct cell *c = arg;
	uint64_t addr;
	uint32_t rkey;

	return mmap_mw_key(c->w, &addr, &rkey);
}

static int call_stop(void *arg)
{
	struct cell *c = arg;

	return weir_mmap_stop(c->g.m, NULL, NULL);
}

static int call_destroy(void *arg)
{
	struct cell *c = arg;
	int err = mmap_mw_destroy(c->w);

	c->w = err ? c->w : NULL;
	return err;
}

static const struct table_call calls[] = {
	{ "bind", call_bind },       { "invalidate", call_invalidate },
	{ "key", call_key },         { "stop of the mmap", call_stop },
	{ "destroy", call_destroy },
};

static const char *const columns[] = { "free", "bound", "stale" };

static const char *state_of(struct cell *c)
{
	int err = c->w ? call_key(c) : 1;

	return err == 1       ? "gone" :
	       !err           ? "bound" :
	       err == -ESTALE ? "stale" :
				"free";
}

static void the_table_is_true(void **state)
{
	struct table_cell cell;
	struct table t;

	(void)state;
	table_open(&t, "docs/internals/rdma.md", "memory window: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &cell)) {
		struct cell c = { .w = NULL };

		fixture_begin(&c.g, ALL);
		pair_begin(&c.p, &c.g);
		assert_int_equal(mmap_mw_create(&c.w, c.g.m, c.g.dev, &usual,
						"test"),
				 0);
		if (cell.column == 1)
			assert_int_equal(call_bind(&c), 0);
		if (cell.column == 2)
			assert_int_equal(call_stop(&c), 0);
		table_result(&cell, cell.call->fn(&c));
		assert_string_equal(state_of(&c), *cell.then ?
							  cell.then :
							  columns[cell.column]);
		assert_int_equal(mmap_mw_destroy(c.w), 0);
		pair_end(&c.p);
		fixture_end(&c.g);
	}
	table_close(&t);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(memory_window_opens_its_range_to_its_queue_pair),
		CASE(memory_window_is_exported_for_its_connection),
		CASE(a_rogue_peer_changes_nothing),
		CASE(a_stop_frees_what_is_bound),
		CASE(an_invalidated_one_can_be_bound_again),
		CASE(memory_window_beyond_the_mmap_is_refused),
		CASE(failed_memory_window_leaves_nothing_behind),
		CASE(first_failure_of_a_stop_is_reported),
		CASE(part_of_an_mmap_is_registered_by_itself),
		CASE(a_stop_waits_for_what_is_posted),
		CASE(the_table_is_true),
	};

	return harness_run_plain(cases, N_OF(cases));
}
