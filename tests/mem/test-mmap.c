/* SPDX-License-Identifier: BSD-3-Clause */

/* Mmaps: the table of docs/internals/mem.md, cell by cell. */

#include "tests/support/peer-fixture.h"
#include "tests/support/table-fixture.h"

#include <sys/mman.h>

#include <weir/device.h>
#include <weir/dm.h>
#include <weir/domain-user.h>
#include <weir/domain.h>
#include <weir/inventory.h>
#include <weir/mmap.h>
#include <weir/pool.h>

#include "mem/mmap-internal.h"

#include "tests/support/sim-calls.h"

#define LEN 65536

/* The columns of the table. */
enum column {
	NEW, STOPPED, STARTED, ATTACHED, OUT, ELSEWHERE, STOPPING, COLUMNS,
};

struct fixture {
	struct weir_reactor *r;
	struct weir_inventory *inv;
	struct weir_mmap *m;
	struct weir_buf *buf;
	char *mem;
	int frees;
	struct peer peer;
	struct weir_inventory *theirs;	/* NULL: there is no peer. */
	struct rec stop;		/* In STOPPING. */
	struct weir_device *cpu, *soft;
	struct weir_dm *dm;
	struct weir_domain *domain;
};

static int64_t attach_there(struct peer *p, void *arg)
{
	struct fixture *g = arg;
	int err = weir_inventory_create(&g->theirs, p->r, NULL);

	return err ? err : weir_inventory_attach(g->theirs, g->m);
}

static int64_t leave_there(struct peer *p, void *arg)
{
	struct fixture *g = arg;

	(void)p;
	return weir_inventory_destroy(g->theirs);
}

static void on_free(void *addr, size_t len, void *arg)
{
	struct fixture *g = arg;

	assert_ptr_equal(addr, g->mem);
	assert_int_equal(len, LEN);
	g->frees++;
}

static void fixture_begin(struct fixture *g, void **state, enum column col)
{
	memset(g, 0, sizeof(*g));
	g->r = start_reactor(state);
	g->mem = aligned_alloc(4096, LEN);
	assert_int_equal(weir_inventory_create(&g->inv, g->r, NULL), 0);
	assert_int_equal(weir_mmap_create(&g->m, NULL), 0);
	assert_int_equal(weir_mmap_set_free_cb(g->m, on_free, g), 0);
	assert_int_equal(weir_mmap_set_permissions(g->m, WEIR_MMAP_WRITE), 0);
	assert_int_equal(weir_device_open_name(&g->cpu, "cpu"), 0);
	assert_int_equal(weir_device_open_name(&g->soft, "soft-dm"), 0);
	assert_int_equal(weir_dm_alloc(&g->dm, g->soft, 4096, 0), 0);
	assert_int_equal(weir_domain_create(&g->domain,
					    &(struct weir_domain_opts){
		.size = sizeof(struct weir_domain_opts),
		.kind = WEIR_DOMAIN_USER }), 0);
	assert_int_equal(weir_mmap_add_device(g->m, g->cpu), 0);
	if (col >= STOPPED)
		assert_int_equal(weir_mmap_set_memrange(g->m, g->mem, LEN), 0);
	if (col >= STARTED)
		assert_int_equal(weir_mmap_start(g->m), 0);
	if (col >= ATTACHED)
		assert_int_equal(weir_inventory_attach(g->inv, g->m), 0);
	if (col == OUT)
		assert_int_equal(weir_inventory_get(&g->buf, g->inv, g->m,
						    g->mem, 16, NULL, 0), 0);
	if (col >= ELSEWHERE) {
		peer_begin(&g->peer, state);
		assert_int_equal(peer_do(&g->peer, attach_there, g), 0);
	}
	rec_init(&g->stop);
	if (col == STOPPING)
		STARTS(weir_mmap_stop(g->m, g->r, &g->stop.op));
}

/* Turn, both, until @rec is over. */
static int64_t finish_both(struct fixture *g, struct rec *rec)
{
	while (!rec->calls) {
		if (g->theirs)
			peer_turn(&g->peer);
		some_turns(g->r, 1);
	}
	return rec->res;
}

static void fixture_end(struct fixture *g)
{
	weir_buf_put(g->buf);
	if (weir_op_is_busy(&g->stop.op))
		assert_int_equal(finish_both(g, &g->stop), 0);
	if (g->theirs) {
		assert_int_equal(peer_do(&g->peer, leave_there, g), 0);
		peer_end(&g->peer);
	}
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_dm_free(g->dm), 0);
	assert_int_equal(weir_domain_destroy(g->domain), 0);
	assert_int_equal(weir_device_close(g->cpu), 0);
	assert_int_equal(weir_device_close(g->soft), 0);
	free(g->mem);
}

static int call_set_memrange(void *fixture)
{
	struct fixture *g = fixture;

	return weir_mmap_set_memrange(g->m, g->mem, LEN);
}

static int call_set_fd(void *fixture)
{
	struct fixture *g = fixture;
	int fd = memfd_create("test", MFD_CLOEXEC), err;

	assert_int_equal(ftruncate(fd, LEN), 0);
	err = weir_mmap_set_fd(g->m, fd, 0, LEN, WEIR_MMAP_FD_TRUSTED);
	close(fd);
	return err;
}

/* A dma-buf by its looks; see test-mmap-range.c for what is done with one. */
static int like_dmabuf(int fd, unsigned long request, void *arg)
{
	(void)fd, (void)request, (void)arg;
	errno = EINVAL;
	return -1;
}

static int call_set_dmabuf(void *fixture)
{
	int (*real)(int, unsigned long, void *) = dmabuf_ioctl;
	struct fixture *g = fixture;
	int fd = memfd_create("test", MFD_CLOEXEC), err;

	assert_int_equal(ftruncate(fd, LEN), 0);
	dmabuf_ioctl = like_dmabuf;
	err = weir_mmap_set_dmabuf(g->m, fd, 0, LEN);
	dmabuf_ioctl = real;
	close(fd);
	return err;
}

static int call_set_dm(void *fixture)
{
	struct fixture *g = fixture;

	return weir_mmap_set_dm(g->m, g->dm, 0, 4096);
}

static int call_set_domain(void *fixture)
{
	struct fixture *g = fixture;

	return weir_mmap_set_domain(g->m, g->domain, 64, LEN);
}

static int call_alloc(void *fixture)
{
	struct fixture *g = fixture;

	return weir_mmap_alloc(g->m, LEN, 0);
}

static int call_set_permissions(void *fixture)
{
	struct fixture *g = fixture;

	return weir_mmap_set_permissions(g->m, WEIR_MMAP_WRITE);
}

static int call_set_free_cb(void *fixture)
{
	struct fixture *g = fixture;

	return weir_mmap_set_free_cb(g->m, on_free, g);
}

static int call_set_user_data(void *fixture)
{
	struct fixture *g = fixture;

	return weir_mmap_set_user_data(g->m, g);
}

static int call_add_device(void *fixture)
{
	struct fixture *g = fixture;

	weir_mmap_rm_device(g->m, g->cpu);	/* Refused when it must be. */
	return weir_mmap_add_device(g->m, g->cpu);
}

static int call_rm_device(void *fixture)
{
	struct fixture *g = fixture;

	return weir_mmap_rm_device(g->m, g->cpu);
}

static int call_set_max_devices(void *fixture)
{
	struct fixture *g = fixture;

	return weir_mmap_set_max_devices(g->m, 2);
}

static int call_keys(void *fixture)
{
	struct fixture *g = fixture;

	return weir_mmap_keys(g->m, g->cpu, NULL, NULL);
}

static int call_start(void *fixture)
{
	struct fixture *g = fixture;

	return weir_mmap_start(g->m);
}

static int call_attach(void *fixture)
{
	struct fixture *g = fixture;

	return weir_inventory_attach(g->inv, g->m);
}

static int call_get(void *fixture)
{
	struct fixture *g = fixture;
	struct weir_buf *buf;
	int err = weir_inventory_get(&buf, g->inv, g->m, g->mem, 1, NULL, 0);

	if (!err)
		weir_buf_put(buf);
	return err;
}

static int call_stop(void *fixture)
{
	struct fixture *g = fixture;

	return weir_mmap_stop(g->m, NULL, NULL);
}

static int call_stop_op(void *fixture)
{
	struct fixture *g = fixture;
	struct rec rec;
	int err;

	rec_init(&rec);
	err = weir_mmap_stop(g->m, g->r, &rec.op);
	if (!err)
		assert_int_equal(finish_both(g, &rec), 0);
	else
		assert_int_equal(weir_op_is_busy(&rec.op), 0);
	return err;
}

static int call_drain(void *fixture)
{
	struct fixture *g = fixture;
	struct rec rec;
	int err;

	rec_init(&rec);
	err = weir_mmap_drain(g->m, g->r, &rec.op);
	if (!err && g->buf) {
		some_turns(g->r, 5);
		assert_int_equal(rec.calls, 0);
		weir_buf_put(g->buf);
		g->buf = NULL;
	}
	if (!err)
		assert_int_equal(finish_both(g, &rec), 0);
	return err;
}

static int call_destroy(void *fixture)
{
	struct fixture *g = fixture;
	int err = weir_mmap_destroy(g->m);

	if (!err)
		g->m = NULL;
	return err;
}

static int call_memrange(void *fixture)
{
	struct fixture *g = fixture;
	void *addr = NULL;
	size_t len = 0;
	int err = weir_mmap_memrange(g->m, &addr, &len);

	if (!err) {
		assert_ptr_equal(addr, g->mem);
		assert_int_equal(len, LEN);
	}
	return err;
}

static int call_registered(void *fixture)
{
	struct fixture *g = fixture;
	int64_t n = weir_mmap_registered(g->m, g->r, NULL);

	return n < 0 ? (int)n : 0;
}

static int call_pool_over(void *fixture)
{
	struct fixture *g = fixture;
	struct weir_pool_opts opts = {
		.size = sizeof(opts), .mmap = g->m, .buf_size = 4096,
	};
	struct weir_pool *pool;
	int err = weir_pool_create(&pool, g->r, &opts);

	if (!err) {
		assert_int_equal(weir_mmap_stop(g->m, NULL, NULL), -EBUSY);
		assert_int_equal(weir_mmap_destroy(g->m), -EBUSY);
		assert_int_equal(weir_pool_destroy(pool), 0);
	}
	return err;
}

static const struct table_call calls[] = {
	{ "set_memrange", call_set_memrange },
	{ "set_fd", call_set_fd },
	{ "set_dmabuf", call_set_dmabuf },
	{ "set_dm", call_set_dm },
	{ "set_domain", call_set_domain },
	{ "alloc", call_alloc },
	{ "add_device", call_add_device },
	{ "rm_device", call_rm_device },
	{ "set_max_devices", call_set_max_devices },
	{ "keys of a device without registration", call_keys },
	{ "set_permissions", call_set_permissions },
	{ "set_free_cb", call_set_free_cb },
	{ "set_user_data", call_set_user_data },
	{ "start", call_start },
	{ "inventory_attach", call_attach },
	{ "inventory_get", call_get },
	{ "pool_create over it", call_pool_over },
	{ "stop", call_stop },
	{ "stop with an op", call_stop_op },
	{ "drain", call_drain },
	{ "destroy", call_destroy },
	{ "memrange", call_memrange },
	{ "registered", call_registered },
};

static const char *const columns[COLUMNS] = {
	[NEW] = "new (no range)",
	[STOPPED] = "STOPPED (range set)",
	[STARTED] = "STARTED",
	[ATTACHED] = "STARTED, attached",
	[OUT] = "STARTED, bufs out",
	[ELSEWHERE] = "STARTED, attached on another thread too",
	[STOPPING] = "STOPPING",
};

/* "0 → STARTED": the state that follows; else it is as it was. */
static int state_after(const struct table_cell *c, int before)
{
	return !strcmp(c->then, "STARTED") ? WEIR_MMAP_STARTED :
	       !strcmp(c->then, "STOPPED") ? WEIR_MMAP_STOPPED : before;
}

static void try_cell(void **state, const struct table_cell *c)
{
	struct fixture g;
	int before;

	fixture_begin(&g, state, (enum column)c->column);
	before = weir_mmap_state(g.m);
	assert_int_equal(before, c->column < STARTED ? WEIR_MMAP_STOPPED :
				 c->column == STOPPING ? WEIR_MMAP_STOPPING :
							 WEIR_MMAP_STARTED);
	table_result(c, c->call->fn(&g));
	if (g.m) {
		assert_int_equal(weir_mmap_state(g.m), state_after(c, before));
	} else {
		assert_string_equal(c->then, "gone");
		assert_int_equal(g.frees, c->column >= STARTED);
	}
	fixture_end(&g);
	end_reactor(state);
}

/* 2.1; A1.3, A1.5 to A1.15; acceptance 15 */
static void state_table_holds_in_each_cell(void **state)
{
	struct table_cell c;
	struct table t;

	table_open(&t, "docs/internals/mem.md", "mmap: call by state", calls,
		   N_OF(calls), columns, COLUMNS);
	while (table_next(&t, &c))
		try_cell(state, &c);
	table_close(&t);
}

static void bad_ranges_and_permissions_are_refused(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, NEW);
	assert_int_equal(weir_mmap_set_memrange(g.m, NULL, 1), -EINVAL);
	assert_int_equal(weir_mmap_set_memrange(g.m, g.mem, 0), -EINVAL);
	assert_int_equal(weir_mmap_set_memrange(g.m, g.mem, SIZE_MAX), -EINVAL);
	assert_int_equal(weir_mmap_set_permissions(g.m, 0), 0);
	assert_int_equal(weir_mmap_set_permissions(g.m, 256), -EINVAL);
	assert_int_equal(weir_mmap_permissions(g.m), WEIR_MMAP_READ);
	assert_int_equal(weir_mmap_set_permissions(g.m, WEIR_MMAP_WRITE), 0);
	assert_int_equal(weir_mmap_permissions(g.m),
			 WEIR_MMAP_READ | WEIR_MMAP_WRITE);
	assert_null(weir_mmap_user_data(g.m));
	assert_int_equal(weir_mmap_set_user_data(g.m, &g), 0);
	assert_ptr_equal(weir_mmap_user_data(g.m), &g);
	assert_int_equal(weir_mmap_destroy(NULL), 0);
	fixture_end(&g);
}

/* A1.8, B2.1 */
static void rights_of_others_are_within_our_own(void **state)
{
	static const struct {
		uint32_t permissions;
		int want;
	} tries[] = {
		{ WEIR_MMAP_PEER_READ, 0 },
		{ WEIR_MMAP_RDMA_READ, 0 },
		{ WEIR_MMAP_PEER_WRITE, -EINVAL },
		{ WEIR_MMAP_RDMA_WRITE, -EINVAL },
		{ WEIR_MMAP_RDMA_ATOMIC, -EINVAL },
		{ WEIR_MMAP_RELAXED_ORDERING, 0 },
		{ WEIR_MMAP_RELAXED_ORDERING | WEIR_MMAP_RDMA_READ, 0 },
		{ WEIR_MMAP_RELAXED_ORDERING | WEIR_MMAP_PEER_READ, -EINVAL },
		{ 256, -EINVAL }, { 1u << 31, -EINVAL },
	};
	uint32_t before, p;
	struct fixture g;
	size_t i;

	fixture_begin(&g, state, NEW);
	assert_int_equal(weir_mmap_set_permissions(g.m, 0), 0);
	for (i = 0; i < N_OF(tries); i++) {
		before = weir_mmap_permissions(g.m);
		p = tries[i].permissions;
		assert_int_equal(weir_mmap_set_permissions(g.m, p),
				 tries[i].want);
		assert_int_equal(weir_mmap_permissions(g.m), tries[i].want ?
				 before : (p | WEIR_MMAP_READ));
		p |= WEIR_MMAP_WRITE;
		assert_int_equal(weir_mmap_set_permissions(g.m, p),
				 p > 255 || (p & 128 && p & 12) ? -EINVAL : 0);
		assert_int_equal(weir_mmap_set_permissions(g.m, 0), 0);
	}
	fixture_end(&g);
}

/* A1.5, A1.6, A1.7 */
static void devices_are_counted_held_and_bounded(void **state)
{
	struct weir_mmap *m = NULL;
	struct fixture g;

	fixture_begin(&g, state, NEW);
	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_max_devices(m), 16);
	assert_int_equal(weir_mmap_set_max_devices(m, 0), -EINVAL);
	assert_int_equal(weir_mmap_set_max_devices(m, 1025), -EINVAL);
	assert_int_equal(weir_mmap_set_max_devices(m, 1), 0);
	assert_int_equal(weir_mmap_rm_device(m, g.cpu), -ENOENT);
	assert_int_equal(weir_mmap_add_device(m, g.cpu), 0);
	assert_int_equal(weir_mmap_add_device(m, g.cpu), -EEXIST);
	assert_int_equal(weir_mmap_add_device(m, g.soft), -ENOSPC);
	assert_int_equal(weir_mmap_set_max_devices(m, 2), 0);
	assert_int_equal(weir_mmap_add_device(m, g.soft), 0);
	assert_int_equal(weir_mmap_set_max_devices(m, 1), -EINVAL);
	assert_int_equal(weir_mmap_num_devices(m), 2);
	assert_int_equal(weir_device_close(g.soft), -EBUSY);

	assert_int_equal(weir_mmap_set_memrange(m, g.mem, LEN), 0);
	assert_int_equal(weir_mmap_start(m), -EOPNOTSUPP);
	assert_int_equal(weir_mmap_rm_device(m, g.soft), 0);
	assert_int_equal(weir_mmap_add_device(m, g.soft), -EOPNOTSUPP);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_set_max_devices(m, 3), -EPERM);
	assert_int_equal(weir_mmap_max_devices(m), 2);
	assert_int_equal(weir_mmap_num_devices(m), 1);
	assert_int_equal(weir_mmap_destroy(m), 0);
	fixture_end(&g);
}

/* A1.2, A1.10 */
static void a_new_mmap_has_nothing(void **state)
{
	struct weir_mmap *m = NULL;

	(void)state;
	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_state(m), WEIR_MMAP_STOPPED);
	assert_int_equal(weir_mmap_permissions(m), WEIR_MMAP_READ);
	assert_null(weir_mmap_user_data(m));
	assert_int_equal(weir_mmap_num_bufs(m), 0);
	assert_int_equal(weir_mmap_num_devices(m), 0);
	assert_int_equal(weir_mmap_memrange(m, NULL, NULL), -ENOENT);
	assert_int_equal(weir_mmap_page_size(m, NULL), 0);
	assert_int_equal(weir_mmap_is_exported(m), 0);
	assert_int_equal(weir_mmap_is_imported(m), 0);
	assert_ptr_equal(weir_mmap_domain(m), weir_domain_system());
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* A1.9; acceptance 18 */
static void the_free_callback_runs_once_and_not_at_a_stop(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, ATTACHED);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);
	assert_int_equal(g.frees, 0);
	assert_int_equal(weir_mmap_start(g.m), 0);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);
	assert_int_equal(g.frees, 0);
	assert_int_equal(weir_mmap_destroy(g.m), 0);
	assert_int_equal(g.frees, 1);
	g.m = NULL;
	fixture_end(&g);
}

/* A1.9; acceptance 18 */
static void a_free_callback_that_was_taken_back_does_not_run(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, STARTED);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_set_free_cb(g.m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_destroy(g.m), 0);
	assert_int_equal(g.frees, 0);
	g.m = NULL;
	fixture_end(&g);
}

/* A1.15, A1.16; acceptance 17 */
static void bufs_are_counted_and_hold_the_mmap(void **state)
{
	struct weir_buf *more;
	struct fixture g;

	fixture_begin(&g, state, OUT);
	assert_int_equal(weir_mmap_num_bufs(g.m), 1);
	assert_int_equal(weir_inventory_get(&more, g.inv, g.m, g.mem, 1, NULL,
					    0), 0);
	assert_int_equal(weir_mmap_num_bufs(g.m), 2);
	weir_buf_put(more);
	weir_buf_put(g.buf);
	g.buf = NULL;
	assert_int_equal(weir_mmap_num_bufs(g.m), 0);
	assert_int_equal(weir_mmap_destroy(g.m), 0);
	g.m = NULL;
	fixture_end(&g);
}

static void a_stop_that_cannot_begin_changes_nothing(void **state)
{
	struct rec rec;
	struct fixture g;

	fixture_begin(&g, state, ELSEWHERE);
	rec_init(&rec);
	assert_int_equal(weir_mmap_stop(g.m, NULL, &rec.op), -EINVAL);
	assert_int_equal(weir_op_is_busy(&rec.op), 0);
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STARTED);
	STARTS(weir_defer(g.r, &rec.op));
	assert_int_equal(weir_mmap_stop(g.m, g.r, &rec.op), -EINVAL);
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STARTED);
	assert_int_equal(call_get(&g), 0);
	assert_int_equal(finish(g.r, &rec), 0);
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		REAL(state_table_holds_in_each_cell),
		CASE(bad_ranges_and_permissions_are_refused),
		CASE(rights_of_others_are_within_our_own),
		CASE(devices_are_counted_held_and_bounded),
		CASE(the_free_callback_runs_once_and_not_at_a_stop),
		CASE(a_new_mmap_has_nothing),
		CASE(a_free_callback_that_was_taken_back_does_not_run),
		CASE(bufs_are_counted_and_hold_the_mmap),
		REAL(a_stop_that_cannot_begin_changes_nothing),
	};

	return harness_run_all(cases, N_OF(cases));
}
