/* SPDX-License-Identifier: BSD-3-Clause */

/* Channels, as <weir/rdma/channel.h> promises them: how they end, what is forgotten,
 * and the table of the page. */

#include "tests/support/channel-fixture.h"

#include <weir/rdma/verbs-event.h>

#include "tests/support/mock-verbs-internal.h"
#include "tests/support/table-fixture.h"

/* Destroying. */

static void destroy_its_channel(struct item *item)
{
	fixture_destroy(item->ch);
}

static void channel_callback_may_destroy_its_channel(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch = fixture_channel(r, ctx, 0, 0);
	struct item items[10];
	int i;

	for (i = 0; i < 10; i++) {
		item_init(&items[i], ch);
		item_complete(&items[i]);
	}
	items[3].then = destroy_its_channel;
	UNTIL(r, items[3].calls);
	some_turns(r, 5);
	for (i = 0; i < 10; i++)
		assert_int_equal(items[i].calls, i <= 3);
	fixture_close_device(ctx);
}

static struct weir_channel *victims[3];

static void destroy_the_others(struct item *item)
{
	int i;

	for (i = 0; i < 3; i++)
		if (victims[i] != item->ch)
			fixture_destroy(victims[i]);
}

static void a_callback_may_destroy_others_that_are_due(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct item items[3];
	int i, which, sum;

	for (which = 0; which < 3; which++) {
		for (i = 0; i < 3; i++) {
			victims[i] = fixture_channel(r, ctx, 0, 0);
			item_init(&items[i], victims[i]);
		}
		some_turns(r, 1);
		for (i = 0; i < 3; i++)
			item_complete(&items[i]);
		items[which].then = destroy_the_others;
		UNTIL(r, items[which].calls);
		sum = items[0].calls + items[1].calls + items[2].calls;
		some_turns(r, 5);
		assert_int_equal(sum, items[0].calls + items[1].calls +
				 items[2].calls);
		fixture_destroy(victims[which]);
	}
	fixture_close_device(ctx);
}

/* B3.4: armed; with an event that was not read; with one that was. */
static void channel_is_destroyed_armed_and_with_unacknowledged_events(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch;
	struct item item;
	int i;

	for (i = 0; i < 3; i++) {
		ch = fixture_channel(r, ctx, 0, 0);
		item_init(&item, ch);
		UNTIL(r, mock_is_armed(weir_channel_cq(ch)));
		if (i)
			item_complete(&item);
		if (i == 2)
			UNTIL(r, item.calls && fixture_stats(ch).events);
		fixture_destroy(ch);
		some_turns(r, 3);
		assert_int_equal(item.calls, i == 2);
	}
	fixture_close_device(ctx);
}

static void a_queue_that_is_in_use_is_not_destroyed(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch = fixture_channel(r, ctx, 0, 0);
	struct mock_cq *cq = (struct mock_cq *)weir_channel_cq(ch);
	struct item item;

	cq->users = 1;
	assert_int_equal(weir_channel_destroy(ch), -EBUSY);
	item_init(&item, ch);
	item_complete(&item);
	UNTIL(r, item.calls);
	cq->users = 0;
	fixture_destroy(ch);
	fixture_close_device(ctx);
}

/* Forgetting. */

static uint32_t numbers[64];	/* By wr_id's place among the items. */
static struct item *numbered;

static int numbering_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int i, res = gate.poll(cq, n, wc);
	struct item *item;

	for (i = 0; i < res; i++) {
		item = weir_container_of((struct weir_wr *)(uintptr_t)
					 wc[i].wr_id, struct item, wr);
		wc[i].qp_num = numbers[item - numbered];
	}
	return res;
}

static void forget_seven(struct item *item)
{
	weir_channel_forget(item->ch, 7);
}

static void in_batches_until(struct weir_reactor *r, struct weir_channel *ch,
			     const struct item *last)
{
	uint64_t before;

	while (!last->calls) {
		before = fixture_stats(ch).completions;
		assert_true(weir_reactor_turn(r, WEIR_SEC) >= 0);
		assert_true(fixture_stats(ch).completions <= before + 16);
	}
}

/* Whether they are polled already, or not: in a callback, and outside. */
static void forgotten_completions_are_not_reported(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct item items[64];
	struct weir_channel *ch;
	int i, round;

	gate_install(ctx);
	ctx->ops.poll_cq = numbering_poll;
	numbered = items;
	ch = fixture_channel(r, ctx, 63, 16);
	for (round = 0; round < 4; round++) {
		for (i = 0; i < 60; i++) {
			item_init(&items[i], ch);
			numbers[i] = i % 3 == 1 ? 7 : 8;
			item_complete(&items[i]);
		}
		items[round * 3].then = forget_seven;
		if (round == 3)
			weir_channel_forget(ch, 7);
		in_batches_until(r, ch, &items[57]);
		some_turns(r, 3);
		for (i = 0; i < 60; i++)
			assert_int_equal(items[i].calls, i % 3 != 1 ||
					 (round < 3 && i < round * 3));
	}
	fixture_destroy(ch);
	fixture_close_device(ctx);
}

/* Failing. */

struct failure {
	int calls;
	int err;
	bool destroy;
};

static void on_failed(struct weir_channel *ch, int err, void *arg)
{
	struct failure *f = arg;

	f->calls++;
	f->err = err;
	if (f->destroy)
		fixture_destroy(ch);
}

static struct weir_channel *failing_channel(struct weir_reactor *r,
					    struct ibv_context *ctx,
					    struct failure *f)
{
	struct weir_channel_opts opts = {
		.size = sizeof(opts), .failed = on_failed, .arg = f,
	};
	struct weir_channel *ch;

	*f = (struct failure){ 0 };
	assert_int_equal(weir_channel_create(&ch, r, ctx, &opts), 0);
	return ch;
}

static void on_async(struct weir_verbs_event *source,
		     const struct ibv_async_event *event, void *arg)
{
	(void)source;
	(void)event;
	(void)arg;
}

/* B3.6 */
static void error_of_the_queue_ends_a_channel(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch, *other = fixture_channel(r, ctx, 0, 0);
	struct weir_verbs_event *ev;
	struct failure f;
	struct item item;
	int i;

	assert_int_equal(weir_verbs_event_create(&ev, r, ctx, on_async, NULL),
			 0);
	for (i = 0; i < 2; i++) {
		ch = failing_channel(r, ctx, &f);
		f.destroy = i;
		assert_int_equal(weir_channel_reserve(ch, 1), 0);
		if (i)
			weir_channel_release(ch, 1);
		mock_overrun(weir_channel_cq(ch));
		UNTIL(r, f.calls);
		some_turns(r, 5);
		assert_int_equal(f.calls, 1);
		assert_int_equal(f.err, -EIO);
		if (i)
			continue;
		assert_int_equal(weir_channel_reserve(ch, 1), -EIO);
		assert_int_equal(fixture_stats(ch).failed, 1);
		assert_int_equal(weir_channel_destroy(ch), -EBUSY);
		weir_channel_release(ch, 1);
		fixture_destroy(ch);
	}
	/* It is not the others'. */
	assert_int_equal(weir_channel_reserve(other, 1), 0);
	weir_channel_release(other, 1);
	item_init(&item, other);
	item_complete(&item);
	UNTIL(r, item.calls);
	weir_verbs_event_destroy(ev);
	fixture_destroy(other);
	fixture_close_device(ctx);
}

/* As of a device that was removed: what was told before stays told. */
static void device_that_refuses_ends_a_channel(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch;
	struct failure f;
	struct item item;
	int i;

	gate_install(ctx);
	for (i = 0; i < 2; i++) {
		ch = failing_channel(r, ctx, &f);
		item_init(&item, ch);
		item_complete(&item);
		UNTIL(r, item.calls);
		gate.refuse_poll = i == 0;
		gate.refuse_arm = i == 1;
		UNTIL(r, f.calls);
		gate.refuse_poll = gate.refuse_arm = false;
		some_turns(r, 5);
		assert_int_equal(f.calls, 1);
		assert_int_equal(weir_channel_reserve(ch, 1), -EIO);
		fixture_destroy(ch);
	}
	fixture_close_device(ctx);
}

/* A busy machine may end a turn before its sleep. */
static void until_it_has_slept(struct weir_reactor *r)
{
	struct weir_reactor_stats stats = { .size = sizeof(stats) };
	uint64_t before;

	assert_int_equal(weir_reactor_stats(r, &stats), 0);
	before = stats.sleeps;
	while (stats.sleeps == before) {
		assert_true(weir_reactor_turn(r, WEIR_MSEC) >= 0);
		assert_int_equal(weir_reactor_stats(r, &stats), 0);
	}
}

/* As of a device that was removed: the descriptor is ready, and not to be
 * read. */
static void unreadable_events_end_a_channel(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct failure f;
	struct weir_channel *ch = failing_channel(r, ctx, &f);
	int fd = weir_channel_cq(ch)->channel->fd, saved = dup(fd);
	int unreadable = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t one = 1;

	/* The reactor watches it from its first sleep on. */
	until_it_has_slept(r);
	assert_int_equal(dup2(unreadable, fd), fd);
	assert_int_equal(write(saved, &one, sizeof(one)), sizeof(one));
	UNTIL(r, f.calls);
	assert_int_equal(f.err, -EIO);
	assert_int_equal(dup2(saved, fd), fd);
	close(saved);
	close(unreadable);
	fixture_destroy(ch);
	fixture_close_device(ctx);
}

/* Stopping. */

static void completions_are_told_while_the_reactor_stops(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch = fixture_channel(r, ctx, 0, 0), *none;
	struct item item;

	some_turns(r, 2);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(weir_channel_create(&none, r, ctx, NULL),
			 -ESHUTDOWN);
	item_init(&item, ch);
	item_complete(&item);
	UNTIL(r, item.calls);
	assert_int_equal(weir_reactor_start(r), 0);
	item_init(&item, ch);
	item_complete(&item);
	UNTIL(r, item.calls);
	fixture_destroy(ch);
	fixture_close_device(ctx);
}

static void a_reactor_with_a_channel_is_not_destroyed(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch = fixture_channel(r, ctx, 0, 0);

	assert_int_equal(weir_reactor_destroy(r), -EBUSY);
	fixture_destroy(ch);
	fixture_close_device(ctx);
}

/* The page's table. */

enum column { OPEN, RESERVED, FAILED };
static const char *const columns[] = { "OPEN", "RESERVED", "FAILED" };

struct fixture {
	struct weir_reactor *r;
	struct ibv_context *ctx;
	struct weir_channel *ch;
	struct failure f;
	struct item item;
	bool gone;
};

static int call_cq(void *arg)
{
	struct fixture *g = arg;

	return weir_channel_cq(g->ch) ? 0 : -EINVAL;
}

static int call_reserve(void *arg)
{
	struct fixture *g = arg;
	int err = weir_channel_reserve(g->ch, 1);

	if (!err)
		weir_channel_release(g->ch, 1);
	return err;
}

static int call_stats(void *arg)
{
	struct fixture *g = arg;

	return fixture_stats(g->ch).capacity ? 0 : -EINVAL;
}

static int call_forget(void *arg)
{
	struct fixture *g = arg;

	weir_channel_forget(g->ch, 99);
	return 0;
}

/* A completion: 1 if it was told. */
static int call_completion(void *arg)
{
	struct fixture *g = arg;

	mock_complete(weir_channel_cq(g->ch), (uintptr_t)&g->item.wr, 0, false);
	some_turns(g->r, 3);
	return g->item.calls;
}

static int call_destroy(void *arg)
{
	struct fixture *g = arg;
	int err = weir_channel_destroy(g->ch);

	g->gone = !err;
	return err;
}

static void fixture_begin(struct fixture *g, enum column column)
{
	g->ch = failing_channel(g->r, g->ctx, &g->f);
	item_init(&g->item, g->ch);
	g->gone = false;
	if (column == RESERVED)
		assert_int_equal(weir_channel_reserve(g->ch, 3), 0);
	gate.refuse_poll = column == FAILED;
	if (column == FAILED)
		UNTIL(g->r, g->f.calls);
	gate.refuse_poll = false;
}

static void fixture_end(struct fixture *g, enum column column)
{
	if (column == RESERVED)
		weir_channel_release(g->ch, 3);
	if (!g->gone)
		fixture_destroy(g->ch);
}

static void the_table_of_the_page_holds(void **state)
{
	static const struct table_call calls[] = {
		{ "cq", call_cq }, { "reserve", call_reserve },
		{ "stats", call_stats }, { "forget", call_forget },
		{ "a completion", call_completion },
		{ "destroy", call_destroy },
	};
	struct fixture g = { .r = start_reactor(state) };
	struct table_cell c;
	struct table t;

	g.ctx = fixture_open_device();
	gate_install(g.ctx);
	table_open(&t, "docs/internals/rdma.md", "channel: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		fixture_begin(&g, (enum column)c.column);
		table_result(&c, c.call->fn(&g));
		fixture_end(&g, (enum column)c.column);
	}
	table_close(&t);
	fixture_close_device(g.ctx);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(channel_callback_may_destroy_its_channel),
		CASE(a_callback_may_destroy_others_that_are_due),
		CASE(channel_is_destroyed_armed_and_with_unacknowledged_events),
		CASE(a_queue_that_is_in_use_is_not_destroyed),
		CASE(forgotten_completions_are_not_reported),
		CASE(error_of_the_queue_ends_a_channel),
		CASE(device_that_refuses_ends_a_channel),
		CASE(unreadable_events_end_a_channel),
		CASE(completions_are_told_while_the_reactor_stops),
		CASE(a_reactor_with_a_channel_is_not_destroyed),
		CASE(the_table_of_the_page_holds),
	};

	return harness_run_all(cases, N_OF(cases));
}
