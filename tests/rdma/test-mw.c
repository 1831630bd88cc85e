/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Windows for the peer of a connection: how they open and end, and what of it
 * can be asked for when.  What peers try to do with them is test-rogue.c's.
 */


#include <weir/rdma/export.h>
#include "tests/support/mw-fixture.h"

#include "base/fault.h"
#include "tests/support/table-fixture.h"

static uint32_t state_of_mw(const struct sharing *s)
{
	struct weir_mw_info info = { .size = sizeof(info) };

	assert_int_equal(weir_mw_info(s->w, &info), 0);
	return info.state;
}

static void part_of_a_memory_window_is_open_to_the_peer(void **state)
{
	struct weir_mw_info info = { .size = sizeof(info) };
	struct weir_import_info im = { .size = sizeof(im) };
	struct sharing s;
	struct jrec j;

	sharing_begin(&s, state);
	sharing_export(&s, R | W);
	assert_int_equal(weir_mmap_is_exported(s.m), 1);
	assert_int_equal(weir_mw_info(s.w, &info), 0);
	assert_int_equal(info.state, WEIR_MW_OPEN);
	assert_int_equal(info.qp_num, s.e.server->qp->qp_num);
	sharing_import(&s);
	assert_int_equal(weir_mmap_import_info(s.im, &im), 0);
	assert_int_equal(im.qp_num, info.qp_num);
	assert_int_equal(
		be64toh(im.node ?
				s.e.server->device_ref->device->attr.node_guid :
				0),
		im.node);
	assert_int_equal(weir_mmap_permissions(s.im),
			 WEIR_MMAP_READ | WEIR_MMAP_WRITE);
	assert_int_equal(sharing_write(&s, &j, 0, PART_LEN), PART_LEN);
	assert_true(all_are(s.mem + PART_OFF, PART_LEN, 'n'));
	assert_true(all_are(s.mem, PART_OFF, 'm'));
	assert_true(all_are(s.mem + PART_OFF + PART_LEN,
			    MEM_LEN - PART_OFF - PART_LEN, 'm'));
	memset(s.mem + PART_OFF, 'x', PART_LEN);
	assert_int_equal(sharing_read(&s, &j, 10, 100), 100);
	assert_true(all_are(s.near, 100, 'x'));
	sharing_end(&s);
}

static void memory_window_may_cover_an_mmap_with_all_rights(void **state)
{
	struct sharing s;
	struct jrec j;

	sharing_begin(&s, state);
	assert_int_equal(sharing_window(&s, NULL), 0);
	sharing_import(&s);
	assert_int_equal(sharing_write(&s, &j, 100, 7), 7);
	assert_true(all_are(s.mem + PART_OFF + 100, 7, 'n'));
	assert_int_equal(sharing_revoke(&s), 0);
	sharing_end(&s);
}

/* The rest of the mmap, and a window beside it, are as they were. */
static void a_revocation_ends_one_and_no_other(void **state)
{
	struct weir_mw *other;
	struct sharing s;
	struct jrec j;

	sharing_begin(&s, state);
	sharing_export(&s, R);
	other = s.w;
	s.w = NULL;
	sharing_export(&s, R | W);
	assert_int_equal(sharing_revoke(&s), 0);
	assert_int_equal(state_of_mw(&s), WEIR_MW_OVER);
	assert_int_equal(sharing_revoke(&s), 0);
	assert_int_equal(weir_mw_destroy(s.w), 0);
	s.w = other;
	sharing_import(&s);
	assert_int_equal(sharing_read(&s, &j, 0, 99), 99);
	assert_true(all_are(s.near, 99, 'm'));
	sharing_end(&s);
}

static void turn_until_over(struct sharing *s)
{
	while (state_of_mw(s) != WEIR_MW_OVER)
		assert_true(weir_reactor_turn(s->r, WEIR_SEC) >= 0);
}

static void window_is_over_when_its_time_is(void **state)
{
	struct sharing s;
	struct jrec j;

	sharing_begin(&s, state);
	sharing_export(&s, R | W);
	sharing_import(&s);
	assert_int_equal(weir_mw_renew(s.w, 1), 0);
	assert_int_equal(weir_mw_renew(s.w, UINT64_MAX), 0);
	assert_int_equal(sharing_read(&s, &j, 0, 99), 99);
	assert_int_equal(weir_mw_renew(s.w, WEIR_MSEC), 0);
	turn_until_over(&s);
	assert_int_equal(sharing_read(&s, &j, 0, 99), -EACCES);
	assert_int_equal(weir_mw_renew(s.w, WEIR_SEC), -ESTALE);
	sharing_end(&s);
}

static void window_can_be_revoked_while_its_end_does_so(void **state)
{
	struct sharing s;

	if (!mocked)
		skip_because("soft-RoCE does not wait to be told");
	sharing_begin(&s, state);
	sharing_export(&s, R | W);
	mock_hold(true);
	assert_int_equal(weir_mw_renew(s.w, WEIR_MSEC), 0);
	while (state_of_mw(&s) != WEIR_MW_REVOKING)
		assert_true(weir_reactor_turn(s.r, WEIR_SEC) >= 0);
	assert_int_equal(weir_mw_destroy(s.w), -EBUSY);
	rec_init(&s.revoked);
	STARTS(weir_mw_revoke(s.w, &s.revoked.op));
	mock_hold(false);
	assert_int_equal(result_of(s.r, &s.revoked), 0);
	assert_int_equal(state_of_mw(&s), WEIR_MW_OVER);
	sharing_end(&s);
}

/* The work request that revokes it comes back later than the connection ends. */
static void window_whose_end_is_in_flight_outlives_its_connection(void **state)
{
	struct sharing s;
	int err;

	if (!mocked)
		skip_because("soft-RoCE does not wait to be told");
	sharing_begin(&s, state);
	sharing_export(&s, R | W);
	mock_hold(true);
	assert_int_equal(weir_mw_renew(s.w, WEIR_MSEC), 0);
	while (state_of_mw(&s) != WEIR_MW_REVOKING)
		assert_true(weir_reactor_turn(s.r, WEIR_SEC) >= 0);
	mock_break(s.e.server->qp);
	assert_int_equal(weir_mw_destroy(s.w), -EBUSY);
	mock_hold(false);
	while ((err = weir_mw_destroy(s.w)) == -EBUSY)
		some_turns(s.r, 1);
	assert_int_equal(err, 0);
	s.w = NULL;
	UNTIL(s.r, s.e.n_ends[1]);
	sharing_end(&s);
}

static void a_stop_of_the_mmap_is_its_end(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct sharing s;
	struct jrec j;

	sharing_begin(&s, state);
	sharing_export(&s, R | W);
	sharing_import(&s);
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), 0);
	assert_int_equal(state_of_mw(&s), WEIR_MW_OVER);
	assert_int_equal(weir_mw_export(s.w, &desc), -ESTALE);
	assert_int_equal(sharing_write(&s, &j, 0, 64), -EACCES);
	assert_int_equal(j.detail.code, IBV_WC_REM_ACCESS_ERR);
	nothing_has_changed(&s);
	UNTIL(s.r, s.e.n_ends[0] && s.e.n_ends[1]);
	assert_int_equal(sharing_revoke(&s), 0);
	sharing_end(&s);
}

/* What the device keeps is over for us, and asked for again. */
static void a_device_that_keeps_it_does_not_keep_it_open(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct sharing s;

	if (!mocked)
		skip_because("soft-RoCE keeps nothing");
	sharing_begin(&s, state);
	sharing_export(&s, R | W);
	mocked()->bound = true;
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), -EBUSY);
	assert_int_equal(state_of_mw(&s), WEIR_MW_OVER);
	assert_int_equal(weir_mw_export(s.w, &desc), -ESTALE);
	assert_int_equal(sharing_revoke(&s), -EBUSY);
	assert_int_equal(weir_mw_destroy(s.w), -EBUSY);
	mocked()->bound = false;
	assert_int_equal(sharing_revoke(&s), 0);
	sharing_end(&s);
}

/* The device keeps one that was never opened: the mmap has it alone. */
static void window_that_stays_after_a_refused_bind_belongs_to_the_mmap(void **state)
{
	struct weir_mw *none = NULL;
	struct sharing s;
	struct rec busy;

	if (!mocked)
		skip_because("soft-RoCE keeps nothing");
	sharing_begin(&s, state);
	rec_init(&busy);
	assert_int_equal(weir_sleep_until(s.r, &busy.op, UINT64_MAX), 0);
	mocked()->bound = true;
	assert_int_equal(
		weir_mw_create(
			&none, s.e.server, &busy.op, s.m,
			&(struct weir_export_rdma_opts){
				.size = sizeof(struct weir_export_rdma_opts),
				.len = PART_LEN }),
		-EINVAL);
	assert_null(none);
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), -EBUSY);
	mocked()->bound = false;
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), 0);
	assert_int_equal(weir_op_cancel(&busy.op), 0);
	assert_int_equal(finish(s.r, &busy), -ECANCELED);
	sharing_end(&s);
}

/* What is in the middle of it holds up a stop, and is not pulled away. */
static void mmap_is_not_stopped_while_a_window_is_being_bound(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct sharing s;

	if (!mocked)
		skip_because("soft-RoCE does not wait to be told");
	sharing_begin(&s, state);
	mock_hold(true);
	rec_init(&s.opened);
	STARTS(weir_mw_create(&s.w, s.e.server, &s.opened.op, s.m, NULL));
	assert_int_equal(state_of_mw(&s), WEIR_MW_BINDING);
	assert_int_equal(weir_mw_export(s.w, &desc), -EBUSY);
	assert_int_equal(weir_mw_destroy(s.w), -EBUSY);
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), -EBUSY);
	weir_op_cancel(&s.opened.op);
	some_turns(s.r, 3);
	assert_int_equal(s.opened.calls, 0);
	mock_hold(false);
	assert_int_equal(result_of(s.r, &s.opened), 0);
	assert_int_equal(weir_mw_export(s.w, &desc), 0);
	mock_hold(true);
	rec_init(&s.revoked);
	STARTS(weir_mw_revoke(s.w, &s.revoked.op));
	assert_int_equal(state_of_mw(&s), WEIR_MW_REVOKING);
	assert_int_equal(weir_mw_export(s.w, &desc), -ESTALE);
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), -EBUSY);
	mock_hold(false);
	assert_int_equal(result_of(s.r, &s.revoked), 0);
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), 0);
	sharing_end(&s);
}

/* A send queue of one. */
static void bind_waits_for_capacity_like_any_work(void **state)
{
	struct weir_mw *first;
	struct rec opened;
	struct sharing s;

	sharing_init(&s, state);
	s.e.opts.sends = 1;
	sharing_open(&s);
	if (mocked)
		mock_hold(true);
	rec_init(&opened);
	rec_init(&s.opened);
	STARTS(weir_mw_create(&first, s.e.server, &opened.op, s.m, NULL));
	STARTS(weir_mw_create(&s.w, s.e.server, &s.opened.op, s.m, NULL));
	if (mocked)
		mock_hold(false);
	assert_int_equal(result_of(s.r, &opened), 0);
	assert_int_equal(result_of(s.r, &s.opened), 0);
	assert_int_equal(weir_mw_destroy(first), 0);
	sharing_end(&s);
}

static void disconnect_both(struct sharing *s)
{
	assert_int_equal(do_disconnect(&s->e, s->e.client), 0);
	UNTIL(s->r, s->e.n_ends[1]);
}

/* Whoever connects next has another queue pair. */
static void the_end_of_the_connection_is_its_end(void **state)
{
	struct sharing s;
	struct jrec j;

	sharing_begin(&s, state);
	sharing_export(&s, R | W);
	sharing_import(&s);
	disconnect_both(&s);
	assert_int_equal(state_of_mw(&s), WEIR_MW_OVER);
	if (mocked)
		assert_int_equal(mocked()->mws, 0);
	assert_int_equal(sharing_write(&s, &j, 0, 64), -ENOTCONN);
	assert_int_equal(weir_conn_destroy(s.e.server), 0);
	sharing_connect(&s);
	assert_int_equal(sharing_write(&s, &j, 0, 64), -ESTALE);
	assert_starts_with(weir_why(), "weir_job_start: the peer has exported");
	assert_int_equal(sharing_read(&s, &j, 0, PART_LEN), -ESTALE);
	nothing_has_changed(&s);
	sharing_forget(&s);
	assert_int_equal(weir_mw_destroy(s.w), 0);
	sharing_export(&s, W);
	sharing_import(&s);
	assert_int_equal(sharing_write(&s, &j, 0, 64), 64);
	sharing_end(&s);
}

/* Its blocks have the key as well, and the connection stays. */
static void key_of_an_earlier_connection_is_refused_through_staging(
	void **state)
{
	struct weir_operand far;
	struct sharing s;
	struct jrec j;

	sharing_begin(&s, state);
	sharing_export(&s, R | W);
	sharing_import(&s);
	disconnect_both(&s);
	assert_int_equal(weir_conn_destroy(s.e.server), 0);
	sharing_connect(&s);
	far = by_buf(&s, 0, 64, true);
	jrec_init(&j);
	weir_job_crc32c(&j.job, far, 0);
	assert_int_equal(jrec_run(s.dma, &j), -ESTALE);
	weir_buf_put(far.buf);
	assert_int_equal(weir_conn_state(s.e.client), WEIR_CONN_ESTABLISHED);
	sharing_forget(&s);
	assert_int_equal(weir_mw_destroy(s.w), 0);
	sharing_export(&s, R);
	sharing_import(&s);
	assert_int_equal(sharing_read(&s, &j, 0, 64), 64);
	sharing_end(&s);
}

/* There is a window all the same, which is over; and nothing is posted. */
static void window_that_is_late_is_not_opened(void **state)
{
	struct weir_export_rdma_opts opts = {
		.size = sizeof(opts),
		.permissions = R,
		.off = PART_OFF,
		.len = PART_LEN,
	};
	unsigned int posts = 0;
	struct sharing s;

	sharing_begin(&s, state);
	if (mocked)
		posts = mocked()->posts;
	rec_init(&s.opened);
	weir_op_set_deadline(&s.opened.op, weir_reactor_now(s.r));
	STARTS(weir_mw_create(&s.w, s.e.server, &s.opened.op, s.m, &opts));
	assert_int_equal(result_of(s.r, &s.opened), -ETIMEDOUT);
	assert_int_equal(weir_op_is_late(&s.opened.op), 1);
	assert_int_equal(state_of_mw(&s), WEIR_MW_OVER);
	if (mocked)
		assert_int_equal(mocked()->posts, posts);
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), 0);
	sharing_end(&s);
}

static void a_link_that_breaks_ends_what_is_under_way(void **state)
{
	struct sharing s;

	if (!mocked)
		skip_because("soft-RoCE breaks when it wants");
	sharing_begin(&s, state);
	mock_hold(true);
	rec_init(&s.opened);
	STARTS(weir_mw_create(&s.w, s.e.server, &s.opened.op, s.m, NULL));
	mock_break(s.e.server->qp);
	mock_hold(false);
	assert_int_equal(result_of(s.r, &s.opened), -ENOTCONN);
	assert_int_equal(s.opened.detail.code, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(state_of_mw(&s), WEIR_MW_OVER);
	UNTIL(s.r, s.e.n_ends[1]);
	assert_int_equal(weir_mw_destroy(s.w), 0);
	assert_int_equal(weir_mw_create(&s.w, s.e.server, &s.opened.op, s.m,
					NULL),
			 -ENOTCONN);
	s.w = NULL;
	sharing_end(&s);
}

/* And so it says: its key is good on any queue pair. */
static void a_device_without_windows_registers_the_part(void **state)
{
	struct weir_export_rdma_opts bound = {
		.size = sizeof(bound),
		.flags = WEIR_EXPORT_BOUND,
	};
	struct weir_mw_info info = { .size = sizeof(info) };
	struct weir_import_info im = { .size = sizeof(im) };
	struct sharing s;
	struct jrec j;

	if (!mocked)
		skip_because("soft-RoCE has windows");
	mocked()->cm_device = "mock_mana";
	sharing_begin(&s, state);
	rec_init(&s.opened);
	assert_int_equal(weir_mw_create(&s.w, s.e.server, &s.opened.op, s.m,
					&bound),
			 -EOPNOTSUPP);
	sharing_export(&s, R | W);
	assert_int_equal(mocked()->mws, 0);
	assert_int_equal(weir_mw_info(s.w, &info), 0);
	assert_int_equal(info.qp_num, 0);
	sharing_import(&s);
	assert_int_equal(weir_mmap_import_info(s.im, &im), 0);
	assert_int_equal(im.qp_num, 0);
	assert_int_equal(sharing_write(&s, &j, 0, PART_LEN), PART_LEN);
	memset(s.mem, 'm', MEM_LEN);
	assert_int_equal(sharing_revoke(&s), 0);
	assert_int_equal(sharing_write(&s, &j, 0, PART_LEN), -EACCES);
	nothing_has_changed(&s);
	UNTIL(s.r, s.e.n_ends[0] && s.e.n_ends[1]);
	sharing_end(&s);
	mocked()->cm_device = NULL;
}

static void mmap_that_cannot_be_exported_gets_no_window(void **state)
{
	static const struct {
		struct weir_export_rdma_opts opts;
		int want;
	} asked[] = {
		{ { .flags = 2 }, -EINVAL },
		{ { .permissions = WEIR_MMAP_READ }, -EINVAL },
		{ { .permissions = WEIR_MMAP_PEER_READ }, -EINVAL },
		{ { .off = MEM_LEN }, -ERANGE },
		{ { .off = MEM_LEN - 1, .len = 2 }, -ERANGE },
		{ { .off = 1, .len = UINT64_MAX }, -ERANGE },
		{ { .key_len = 16 }, -EINVAL },
		{ { .flags = WEIR_EXPORT_BOUND, .off = MEM_LEN - 1 }, 0 },
	};
	struct weir_export_rdma_opts opts;
	struct sharing s;
	size_t i;

	sharing_begin(&s, state);
	for (i = 0; i < N_OF(asked); i++) {
		opts = asked[i].opts;
		opts.size = sizeof(opts);
		rec_init(&s.opened);
		assert_int_equal(weir_mw_create(&s.w, s.e.server, &s.opened.op,
						s.m, &opts),
				 asked[i].want);
	}
	assert_int_equal(result_of(s.r, &s.opened), 0);
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), 0);
	rec_init(&s.opened);
	assert_int_equal(weir_mw_create(&s.w, s.e.server, &s.opened.op, s.m,
					NULL),
			 -EBADFD);
	assert_int_equal(weir_mw_create(&s.w, s.e.server, &s.opened.op, s.mine,
					NULL),
			 -EACCES);
	sharing_end(&s);
}

/* One cell is a run of its own. */

enum column { BINDING, OPEN, REVOKING, REVOKED, STOPPED, ENDED };
static const char *const columns[] = {
	[BINDING] = "BINDING",
	[OPEN] = "OPEN",
	[REVOKING] = "REVOKING",
	[REVOKED] = "OVER: revoked",
	[STOPPED] = "OVER: the mmap has stopped",
	[ENDED] = "OVER: the connection has ended",
};

static int call_export(void *arg)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };

	return weir_mw_export(((struct sharing *)arg)->w, &desc);
}

static int call_info(void *arg)
{
	struct weir_mw_info info = { .size = sizeof(info) };

	return weir_mw_info(((struct sharing *)arg)->w, &info);
}

static int call_revoke(void *arg)
{
	static struct rec rec;

	rec_init(&rec);
	return weir_mw_revoke(((struct sharing *)arg)->w, &rec.op);
}

static int call_renew(void *arg)
{
	return weir_mw_renew(((struct sharing *)arg)->w, 1000 * WEIR_SEC);
}

static int call_destroy(void *arg)
{
	struct sharing *s = arg;
	int err = weir_mw_destroy(s->w);

	if (!err)
		s->w = NULL;
	return err;
}

static int call_stop(void *arg)
{
	return weir_mmap_stop(((struct sharing *)arg)->m, NULL, NULL);
}

static const struct table_call calls[] = {
	{ "export", call_export },         { "info", call_info },
	{ "renew", call_renew },           { "revoke", call_revoke },
	{ "destroy", call_destroy },       { "stop of the mmap", call_stop },
};

static void cell_begin(struct sharing *s, void **state, int column)
{
	sharing_begin(s, state);
	mock_hold(column == BINDING);
	rec_init(&s->opened);
	STARTS(weir_mw_create(&s->w, s->e.server, &s->opened.op, s->m, NULL));
	if (column == BINDING)
		return;
	assert_int_equal(result_of(s->r, &s->opened), 0);
	mock_hold(column == REVOKING);
	rec_init(&s->revoked);
	if (column == REVOKING)
		STARTS(weir_mw_revoke(s->w, &s->revoked.op));
	if (column == REVOKED)
		assert_int_equal(sharing_revoke(s), 0);
	if (column == STOPPED)
		assert_int_equal(call_stop(s), 0);
	if (column == ENDED)
		disconnect_both(s);
}

static const char *state_word(const struct sharing *s)
{
	static const char *const words[] = {
		[WEIR_MW_BINDING] = "BINDING",
		[WEIR_MW_OPEN] = "OPEN",
		[WEIR_MW_REVOKING] = "REVOKING",
		[WEIR_MW_OVER] = "OVER",
	};

	return s->w ? words[state_of_mw(s)] : "gone";
}

static void the_table_is_true(void **state)
{
	struct table_cell cell;
	struct table t;
	struct sharing s;

	if (!mocked)
		skip_because("soft-RoCE does not wait to be told");
	table_open(&t, "docs/internals/rdma.md", "window: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &cell)) {
		cell_begin(&s, state, cell.column);
		table_result(&cell, cell.call->fn(&s));
		mock_hold(false);
		some_turns(s.r, 5);
		if (*cell.then)
			assert_string_equal(state_word(&s), cell.then);
		sharing_end(&s);
	}
	table_close(&t);
}

static void failed_bind_leaves_nothing_behind(void **state)
{
	struct weir_export_rdma_opts opts = {
		.size = sizeof(opts),
		.off = PART_OFF,
		.len = PART_LEN,
	};
	struct weir_export_desc desc = { .size = sizeof(desc) };
	int err, n = 0, fired, before = 0;
	struct sharing s;

	sharing_begin(&s, state);
	/* The id of its exports stays; each try does the same from here on. */
	assert_int_equal(weir_mmap_export_rdma(s.m, s.dev, NULL, &desc), 0);
	if (mocked)
		before = mocked()->mrs;
	do {
		rec_init(&s.opened);
		fault_arm(n++);
		err = weir_mw_create(&s.w, s.e.server, &s.opened.op, s.m,
				     &opts);
		fired = fault_disarm();
		if (err && mocked)
			assert_int_equal(mocked()->mrs, before);
		if (err && mocked)
			assert_int_equal(mocked()->mws, 0);
	} while (err);
	assert_true(fired); /* The doorbell, and all is undone by it. */
	assert_true(n > 4);
	assert_int_equal(result_of(s.r, &s.opened), -ENOMEM);
	assert_int_equal(state_of_mw(&s), WEIR_MW_OVER);
	UNTIL(s.r, s.e.n_ends[1]);
	sharing_end(&s);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(part_of_a_memory_window_is_open_to_the_peer),
		CASE(memory_window_may_cover_an_mmap_with_all_rights),
		CASE(a_revocation_ends_one_and_no_other),
		CASE(window_is_over_when_its_time_is),
		CASE(window_can_be_revoked_while_its_end_does_so),
		CASE(window_whose_end_is_in_flight_outlives_its_connection),
		CASE(a_stop_of_the_mmap_is_its_end),
		CASE(a_device_that_keeps_it_does_not_keep_it_open),
		CASE(window_that_stays_after_a_refused_bind_belongs_to_the_mmap),
		CASE(mmap_is_not_stopped_while_a_window_is_being_bound),
		CASE(bind_waits_for_capacity_like_any_work),
		CASE(the_end_of_the_connection_is_its_end),
		CASE(key_of_an_earlier_connection_is_refused_through_staging),
		CASE(window_that_is_late_is_not_opened),
		CASE(a_link_that_breaks_ends_what_is_under_way),
		CASE(a_device_without_windows_registers_the_part),
		CASE(mmap_that_cannot_be_exported_gets_no_window),
		CASE(the_table_is_true),
		CASE(failed_bind_leaves_nothing_behind),
	};

	return run_over_rdma(cases, N_OF(cases));
}
