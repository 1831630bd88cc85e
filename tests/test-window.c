/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Windows for the peer of a connection: how they open and end, and what of it
 * can be asked for when.  What peers try to do with them is test-rogue.c's.
 */

#include "tests/window-kit.h"

#include "base/fault.h"
#include "tests/table-kit.h"

static void its_part_is_open_to_the_peer(void **state)
{
	struct weir_window_info info = { .size = sizeof(info) };
	struct weir_import_info im = { .size = sizeof(im) };
	struct scene s;
	struct jrec j;

	scene_begin(&s, state);
	scene_export(&s, R | W);
	assert_int_equal(weir_mmap_is_exported(s.m), 1);
	assert_int_equal(weir_window_info(s.w, &info), 0);
	assert_int_equal(info.state, WEIR_WINDOW_OPEN);
	assert_int_equal(info.qp_num, s.e.server->qp->qp_num);
	scene_import(&s);
	assert_int_equal(weir_mmap_import_info(s.im, &im), 0);
	assert_int_equal(im.qp_num, info.qp_num);
	assert_int_equal(be64toh(im.node ? s.e.server->tap->device->
				 attr.node_guid : 0), im.node);
	assert_int_equal(weir_mmap_permissions(s.im),
			 WEIR_MMAP_READ | WEIR_MMAP_WRITE);
	assert_int_equal(scene_write(&s, &j, 0, PART_LEN), PART_LEN);
	assert_true(all_are(s.mem + PART_OFF, PART_LEN, 'n'));
	assert_true(all_are(s.mem, PART_OFF, 'm'));
	assert_true(all_are(s.mem + PART_OFF + PART_LEN,
			    MEM_LEN - PART_OFF - PART_LEN, 'm'));
	memset(s.mem + PART_OFF, 'x', PART_LEN);
	assert_int_equal(scene_read(&s, &j, 10, 100), 100);
	assert_true(all_are(s.near, 100, 'x'));
	scene_end(&s);
}

static void all_of_an_mmap_with_all_rights_can_have_one(void **state)
{
	struct scene s;
	struct jrec j;

	scene_begin(&s, state);
	assert_int_equal(scene_window(&s, NULL), 0);
	scene_import(&s);
	assert_int_equal(scene_write(&s, &j, 100, 7), 7);
	assert_true(all_are(s.mem + PART_OFF + 100, 7, 'n'));
	assert_int_equal(scene_revoke(&s), 0);
	scene_end(&s);
}

/* The rest of the mmap, and a window beside it, are as they were. */
static void a_revocation_ends_one_and_no_other(void **state)
{
	struct weir_window *other;
	struct scene s;
	struct jrec j;

	scene_begin(&s, state);
	scene_export(&s, R);
	other = s.w;
	s.w = NULL;
	scene_export(&s, R | W);
	assert_int_equal(scene_revoke(&s), 0);
	assert_int_equal(state_of_window(&s), WEIR_WINDOW_OVER);
	assert_int_equal(scene_revoke(&s), 0);
	assert_int_equal(weir_window_destroy(s.w), 0);
	s.w = other;
	scene_import(&s);
	assert_int_equal(scene_read(&s, &j, 0, 99), 99);
	assert_true(all_are(s.near, 99, 'm'));
	scene_end(&s);
}

static void a_stop_of_the_mmap_is_its_end(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct scene s;
	struct jrec j;

	scene_begin(&s, state);
	scene_export(&s, R | W);
	scene_import(&s);
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), 0);
	assert_int_equal(state_of_window(&s), WEIR_WINDOW_OVER);
	assert_int_equal(weir_window_export(s.w, &desc), -ESTALE);
	assert_int_equal(scene_write(&s, &j, 0, 64), -EACCES);
	assert_int_equal(j.detail.code, IBV_WC_REM_ACCESS_ERR);
	nothing_has_changed(&s);
	UNTIL(s.r, s.e.n_ends[0] && s.e.n_ends[1]);
	assert_int_equal(scene_revoke(&s), 0);
	scene_end(&s);
}

/* What the device keeps is over for us, and asked for again. */
static void a_device_that_keeps_it_does_not_keep_it_open(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct scene s;

	if (!standin)
		skip_because("soft-RoCE keeps nothing");
	scene_begin(&s, state);
	scene_export(&s, R | W);
	standin()->bound = true;
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), -EBUSY);
	assert_int_equal(state_of_window(&s), WEIR_WINDOW_OVER);
	assert_int_equal(weir_window_export(s.w, &desc), -ESTALE);
	assert_int_equal(scene_revoke(&s), -EBUSY);
	assert_int_equal(weir_window_destroy(s.w), -EBUSY);
	standin()->bound = false;
	assert_int_equal(scene_revoke(&s), 0);
	scene_end(&s);
}

/* The device keeps one that was never opened: the mmap has it alone. */
static void what_was_refused_is_the_mmaps_to_free(void **state)
{
	struct weir_window *none = NULL;
	struct scene s;
	struct rec busy;

	if (!standin)
		skip_because("soft-RoCE keeps nothing");
	scene_begin(&s, state);
	rec_init(&busy);
	assert_int_equal(weir_sleep_until(s.r, &busy.op, UINT64_MAX), 0);
	standin()->bound = true;
	assert_int_equal(weir_window_create(&none, s.e.server, &busy.op, s.m,
			 &(struct weir_export_rdma_opts){
			 .size = sizeof(struct weir_export_rdma_opts),
			 .len = PART_LEN }), -EINVAL);
	assert_null(none);
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), -EBUSY);
	standin()->bound = false;
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), 0);
	assert_int_equal(weir_op_cancel(&busy.op), 0);
	assert_int_equal(finish(s.r, &busy), -ECANCELED);
	scene_end(&s);
}

/* What is in the middle of it holds up a stop, and is not pulled away. */
static void nothing_is_stopped_while_it_is_being_bound(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct scene s;

	if (!standin)
		skip_because("soft-RoCE does not wait to be told");
	scene_begin(&s, state);
	standin_hold(true);
	rec_init(&s.opened);
	STARTS(weir_window_create(&s.w, s.e.server, &s.opened.op, s.m, NULL));
	assert_int_equal(state_of_window(&s), WEIR_WINDOW_BINDING);
	assert_int_equal(weir_window_export(s.w, &desc), -EBUSY);
	assert_int_equal(weir_window_destroy(s.w), -EBUSY);
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), -EBUSY);
	weir_op_cancel(&s.opened.op);
	some_turns(s.r, 3);
	assert_int_equal(s.opened.calls, 0);
	standin_hold(false);
	assert_int_equal(result_of(s.r, &s.opened), 0);
	assert_int_equal(weir_window_export(s.w, &desc), 0);
	standin_hold(true);
	rec_init(&s.revoked);
	STARTS(weir_window_revoke(s.w, &s.revoked.op));
	assert_int_equal(state_of_window(&s), WEIR_WINDOW_REVOKING);
	assert_int_equal(weir_window_export(s.w, &desc), -ESTALE);
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), -EBUSY);
	standin_hold(false);
	assert_int_equal(result_of(s.r, &s.revoked), 0);
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), 0);
	scene_end(&s);
}

/* A send queue of one. */
static void it_waits_for_room_like_any_work(void **state)
{
	struct weir_window *first;
	struct rec opened;
	struct scene s;

	scene_init(&s, state);
	s.e.opts.sends = 1;
	scene_open(&s);
	if (standin)
		standin_hold(true);
	rec_init(&opened);
	rec_init(&s.opened);
	STARTS(weir_window_create(&first, s.e.server, &opened.op, s.m, NULL));
	STARTS(weir_window_create(&s.w, s.e.server, &s.opened.op, s.m, NULL));
	if (standin)
		standin_hold(false);
	assert_int_equal(result_of(s.r, &opened), 0);
	assert_int_equal(result_of(s.r, &s.opened), 0);
	assert_int_equal(weir_window_destroy(first), 0);
	scene_end(&s);
}

static void disconnect_both(struct scene *s)
{
	assert_int_equal(do_disconnect(&s->e, s->e.client), 0);
	UNTIL(s->r, s->e.n_ends[1]);
}

/* Whoever connects next has another queue pair. */
static void the_end_of_the_connection_is_its_end(void **state)
{
	struct scene s;
	struct jrec j;

	scene_begin(&s, state);
	scene_export(&s, R | W);
	scene_import(&s);
	disconnect_both(&s);
	assert_int_equal(state_of_window(&s), WEIR_WINDOW_OVER);
	if (standin)
		assert_int_equal(standin()->mws, 0);
	assert_int_equal(scene_write(&s, &j, 0, 64), -ENOTCONN);
	assert_int_equal(weir_conn_destroy(s.e.server), 0);
	scene_connect(&s);
	assert_int_equal(scene_write(&s, &j, 0, 64), -ESTALE);
	assert_starts_with(weir_why(), "weir_job_start: the peer has exported");
	assert_int_equal(scene_read(&s, &j, 0, PART_LEN), -ESTALE);
	nothing_has_changed(&s);
	scene_forget(&s);
	assert_int_equal(weir_window_destroy(s.w), 0);
	scene_export(&s, W);
	scene_import(&s);
	assert_int_equal(scene_write(&s, &j, 0, 64), 64);
	scene_end(&s);
}

static void a_link_that_breaks_ends_what_is_under_way(void **state)
{
	struct scene s;

	if (!standin)
		skip_because("soft-RoCE breaks when it wants");
	scene_begin(&s, state);
	standin_hold(true);
	rec_init(&s.opened);
	STARTS(weir_window_create(&s.w, s.e.server, &s.opened.op, s.m, NULL));
	standin_break(s.e.server->qp);
	standin_hold(false);
	assert_int_equal(result_of(s.r, &s.opened), -ENOTCONN);
	assert_int_equal(s.opened.detail.code, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(state_of_window(&s), WEIR_WINDOW_OVER);
	UNTIL(s.r, s.e.n_ends[1]);
	assert_int_equal(weir_window_destroy(s.w), 0);
	assert_int_equal(weir_window_create(&s.w, s.e.server, &s.opened.op,
					    s.m, NULL), -ENOTCONN);
	s.w = NULL;
	scene_end(&s);
}

/* And so it says: its key is good on any queue pair. */
static void a_device_without_windows_registers_the_part(void **state)
{
	struct weir_export_rdma_opts bound = {
		.size = sizeof(bound), .flags = WEIR_EXPORT_BOUND,
	};
	struct weir_window_info info = { .size = sizeof(info) };
	struct weir_import_info im = { .size = sizeof(im) };
	struct scene s;
	struct jrec j;

	if (!standin)
		skip_because("soft-RoCE has windows");
	standin()->cm_device = "standin_mana";
	scene_begin(&s, state);
	rec_init(&s.opened);
	assert_int_equal(weir_window_create(&s.w, s.e.server, &s.opened.op,
					    s.m, &bound), -EOPNOTSUPP);
	scene_export(&s, R | W);
	assert_int_equal(standin()->mws, 0);
	assert_int_equal(weir_window_info(s.w, &info), 0);
	assert_int_equal(info.qp_num, 0);
	scene_import(&s);
	assert_int_equal(weir_mmap_import_info(s.im, &im), 0);
	assert_int_equal(im.qp_num, 0);
	assert_int_equal(scene_write(&s, &j, 0, PART_LEN), PART_LEN);
	memset(s.mem, 'm', MEM_LEN);
	assert_int_equal(scene_revoke(&s), 0);
	assert_int_equal(scene_write(&s, &j, 0, PART_LEN), -EACCES);
	nothing_has_changed(&s);
	UNTIL(s.r, s.e.n_ends[0] && s.e.n_ends[1]);
	scene_end(&s);
	standin()->cm_device = NULL;
}

static void what_cannot_be_exported_gets_none(void **state)
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
	struct scene s;
	size_t i;

	scene_begin(&s, state);
	for (i = 0; i < N_OF(asked); i++) {
		opts = asked[i].opts;
		opts.size = sizeof(opts);
		rec_init(&s.opened);
		assert_int_equal(weir_window_create(&s.w, s.e.server,
						    &s.opened.op, s.m, &opts),
				 asked[i].want);
	}
	assert_int_equal(result_of(s.r, &s.opened), 0);
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), 0);
	rec_init(&s.opened);
	assert_int_equal(weir_window_create(&s.w, s.e.server, &s.opened.op,
					    s.m, NULL), -EBADFD);
	assert_int_equal(weir_window_create(&s.w, s.e.server, &s.opened.op,
					    s.mine, NULL), -EACCES);
	scene_end(&s);
}

/* One cell is a run of its own. */

enum column { BINDING, OPEN, REVOKING, REVOKED, STOPPED, ENDED };
static const char *const columns[] = {
	[BINDING] = "BINDING", [OPEN] = "OPEN", [REVOKING] = "REVOKING",
	[REVOKED] = "OVER: revoked", [STOPPED] = "OVER: the mmap has stopped",
	[ENDED] = "OVER: the connection has ended",
};

static int call_export(void *arg)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };

	return weir_window_export(((struct scene *)arg)->w, &desc);
}

static int call_info(void *arg)
{
	struct weir_window_info info = { .size = sizeof(info) };

	return weir_window_info(((struct scene *)arg)->w, &info);
}

static int call_revoke(void *arg)
{
	static struct rec rec;

	rec_init(&rec);
	return weir_window_revoke(((struct scene *)arg)->w, &rec.op);
}

static int call_destroy(void *arg)
{
	struct scene *s = arg;
	int err = weir_window_destroy(s->w);

	if (!err)
		s->w = NULL;
	return err;
}

static int call_stop(void *arg)
{
	return weir_mmap_stop(((struct scene *)arg)->m, NULL, NULL);
}

static const struct table_call calls[] = {
	{ "export", call_export },
	{ "info", call_info },
	{ "revoke", call_revoke },
	{ "destroy", call_destroy },
	{ "stop of the mmap", call_stop },
};

static void cell_begin(struct scene *s, void **state, int column)
{
	scene_begin(s, state);
	standin_hold(column == BINDING);
	rec_init(&s->opened);
	STARTS(weir_window_create(&s->w, s->e.server, &s->opened.op, s->m,
				  NULL));
	if (column == BINDING)
		return;
	assert_int_equal(result_of(s->r, &s->opened), 0);
	standin_hold(column == REVOKING);
	rec_init(&s->revoked);
	if (column == REVOKING)
		STARTS(weir_window_revoke(s->w, &s->revoked.op));
	if (column == REVOKED)
		assert_int_equal(scene_revoke(s), 0);
	if (column == STOPPED)
		assert_int_equal(call_stop(s), 0);
	if (column == ENDED)
		disconnect_both(s);
}

static const char *state_word(const struct scene *s)
{
	static const char *const words[] = {
		[WEIR_WINDOW_BINDING] = "BINDING", [WEIR_WINDOW_OPEN] = "OPEN",
		[WEIR_WINDOW_REVOKING] = "REVOKING",
		[WEIR_WINDOW_OVER] = "OVER",
	};

	return s->w ? words[state_of_window(s)] : "gone";
}

static void the_table_is_true(void **state)
{
	struct table_cell cell;
	struct table t;
	struct scene s;

	if (!standin)
		skip_because("soft-RoCE does not wait to be told");
	table_open(&t, "dma/README.md", "window: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &cell)) {
		cell_begin(&s, state, cell.column);
		table_result(&cell, cell.call->fn(&s));
		standin_hold(false);
		some_turns(s.r, 5);
		if (*cell.then)
			assert_string_equal(state_word(&s), cell.then);
		scene_end(&s);
	}
	table_close(&t);
}

static void any_failure_inside_leaves_nothing_behind(void **state)
{
	struct weir_export_rdma_opts opts = {
		.size = sizeof(opts), .off = PART_OFF, .len = PART_LEN,
	};
	int err, n = 0, fired, before = 0;
	struct scene s;

	scene_begin(&s, state);
	if (standin)
		before = standin()->mrs;
	do {
		rec_init(&s.opened);
		fault_arm(n++);
		err = weir_window_create(&s.w, s.e.server, &s.opened.op, s.m,
					 &opts);
		fired = fault_disarm();
		if (err && standin)
			assert_int_equal(standin()->mrs, before);
		if (err && standin)
			assert_int_equal(standin()->mws, 0);
	} while (err);
	assert_true(fired);	/* The doorbell, and all is undone by it. */
	assert_true(n > 4);
	assert_int_equal(result_of(s.r, &s.opened), -ENOMEM);
	assert_int_equal(state_of_window(&s), WEIR_WINDOW_OVER);
	UNTIL(s.r, s.e.n_ends[1]);
	scene_end(&s);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(its_part_is_open_to_the_peer),
		CASE(all_of_an_mmap_with_all_rights_can_have_one),
		CASE(a_revocation_ends_one_and_no_other),
		CASE(a_stop_of_the_mmap_is_its_end),
		CASE(a_device_that_keeps_it_does_not_keep_it_open),
		CASE(what_was_refused_is_the_mmaps_to_free),
		CASE(nothing_is_stopped_while_it_is_being_bound),
		CASE(it_waits_for_room_like_any_work),
		CASE(the_end_of_the_connection_is_its_end),
		CASE(a_link_that_breaks_ends_what_is_under_way),
		CASE(a_device_without_windows_registers_the_part),
		CASE(what_cannot_be_exported_gets_none),
		CASE(the_table_is_true),
		CASE(any_failure_inside_leaves_nothing_behind),
	};

	return run_over_rdma(cases, N_OF(cases));
}
