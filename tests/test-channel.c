/* SPDX-License-Identifier: BSD-3-Clause */

/* Completion channels, as <weir/channel.h> promises them, over a device that
 * is none: completions come when the test says so. */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/channel-kit.h"

#include <pthread.h>
#include <sys/epoll.h>

#include <weir/timer.h>
#include <weir/verbs-event.h>
#include <weir/watch.h>

#include "base/fault.h"
#include "tests/standin-verbs-internal.h"
#include "tests/table-kit.h"

static void bad_arguments_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel_opts opts = { .size = sizeof(opts) };
	struct weir_channel *ch = (void *)0x77;

	assert_int_equal(weir_channel_create(&ch, r, NULL, NULL), -EINVAL);
	opts.vector = (uint32_t)ctx->num_comp_vectors;
	assert_int_equal(weir_channel_create(&ch, r, ctx, &opts), -EINVAL);
	opts.vector = 0;
	opts.depth = STANDIN_MAX_CQE + 1;
	assert_int_equal(weir_channel_create(&ch, r, ctx, &opts), -EINVAL);
	opts.depth = UINT32_MAX;
	assert_int_equal(weir_channel_create(&ch, r, ctx, &opts), -EINVAL);
	opts.depth = 0;
	opts.reserved = 1;
	assert_int_equal(weir_channel_create(&ch, r, ctx, &opts), -EINVAL);
	opts.reserved = 0;
	opts.size = 3;
	assert_int_equal(weir_channel_create(&ch, r, ctx, &opts), -EINVAL);
	assert_ptr_equal(ch, (void *)0x77);
	assert_int_equal(weir_channel_destroy(NULL), 0);
	kit_close_device(ctx);
}

static void a_completion_is_told_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel *ch = kit_channel(r, ctx, 0, 0);
	struct item item;

	some_turns(r, 3);
	item_init(&item, ch);
	item_complete(&item);
	assert_int_equal(item.calls, 0);
	UNTIL(r, item.calls);
	some_turns(r, 5);
	assert_int_equal(item.calls, 1);
	assert_int_equal(item.status, IBV_WC_SUCCESS);
	assert_int_equal(kit_stats(ch).completions, 1);
	kit_destroy(ch);
	kit_close_device(ctx);
}

/* B3.5 */
static void of_an_error_status_and_owner_are_told(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel *ch = kit_channel(r, ctx, 0, 0);
	struct item item;

	item_init(&item, ch);
	standin_complete(weir_channel_cq(ch), (uintptr_t)&item.wr,
			 IBV_WC_RETRY_EXC_ERR, false);
	UNTIL(r, item.calls);
	assert_int_equal(item.status, IBV_WC_RETRY_EXC_ERR);
	kit_destroy(ch);
	kit_close_device(ctx);
}

static void nobody_is_told_of_work_that_is_nobodys(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel *ch = kit_channel(r, ctx, 0, 0);
	struct item item;

	item_init(&item, ch);
	standin_complete(weir_channel_cq(ch), 0, IBV_WC_SUCCESS, false);
	item_complete(&item);
	UNTIL(r, item.calls);
	assert_int_equal(kit_stats(ch).completions, 1);
	kit_destroy(ch);
	kit_close_device(ctx);
}

/* What comes at a moment that was chosen. */

enum moment { BEFORE, AT_POLL, BEFORE_ARM, AFTER_ARM, AFTER_POLL, MOMENTS };

static struct {
	int (*poll)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
	int (*arm)(struct ibv_cq *cq, int solicited_only);
	enum moment at;
	struct item *item;
	int fail;
} gate;

static void pass(enum moment at)
{
	struct item *item = gate.item;

	if (!item || gate.at != at)
		return;
	gate.item = NULL;
	item_complete(item);
}

static int gate_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int res;

	if (gate.fail)
		return -1;
	res = gate.poll(cq, n, wc);
	if (!res)
		pass(standin_is_armed(cq) ? AFTER_POLL : AT_POLL);
	return res;
}

static int gate_arm(struct ibv_cq *cq, int solicited_only)
{
	int res;

	pass(BEFORE_ARM);
	res = gate.arm(cq, solicited_only);
	pass(AFTER_ARM);
	return gate.fail ? EIO : res;
}

static void gate_install(struct ibv_context *ctx)
{
	memset(&gate, 0, sizeof(gate));
	gate.poll = ctx->ops.poll_cq;
	gate.arm = ctx->ops.req_notify_cq;
	ctx->ops.poll_cq = gate_poll;
	ctx->ops.req_notify_cq = gate_arm;
}

/* B3.2: whenever it comes; lost, the reactor would sleep for ever. */
static void no_completion_is_lost_whenever_it_comes(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel *ch;
	struct item item;
	int i, turns;

	gate_install(ctx);
	ch = kit_channel(r, ctx, 0, 0);
	for (i = 0; i < 200; i++) {
		if (standin_is_armed(weir_channel_cq(ch)))
			standin_fire(weir_channel_cq(ch));
		some_turns(r, 2);
		item_init(&item, ch);
		gate.at = (enum moment)(i % MOMENTS);
		gate.item = &item;
		pass(BEFORE);
		for (turns = 0; !item.calls; turns++) {
			assert_true(turns < 4);
			assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
		}
		some_turns(r, 2);
		assert_int_equal(item.calls, 1);
	}
	kit_destroy(ch);
	kit_close_device(ctx);
}

/* And B3.4: each is acknowledged, in fewer calls than there are. */
static void a_spurious_event_is_no_harm(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel *ch = kit_channel(r, ctx, 0, 0);
	struct item item;
	int i;

	for (i = 1; i <= 100; i++) {
		standin_fire(weir_channel_cq(ch));
		UNTIL(r, kit_stats(ch).empty_events == (uint64_t)i);
	}
	assert_int_equal(kit_stats(ch).completions, 0);
	item_init(&item, ch);
	item_complete(&item);
	UNTIL(r, item.calls);
	standin()->acks = 0;
	kit_destroy(ch);
	assert_true(standin()->acks <= 1);
	kit_close_device(ctx);
}

static void *complete_when_armed(void *arg)
{
	struct item *item = arg;

	while (!standin_is_armed(weir_channel_cq(item->ch)))
		sched_yield();
	standin_complete(weir_channel_cq(item->ch), (uintptr_t)&item->wr,
			 IBV_WC_SUCCESS, false);
	return NULL;
}

static void a_sleeping_reactor_is_woken(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel *ch = kit_channel(r, ctx, 0, 0);
	struct item item;
	pthread_t thread;
	int i;

	for (i = 0; i < 50; i++) {
		item_init(&item, ch);
		pthread_create(&thread, NULL, complete_when_armed, &item);
		while (!item.calls)
			assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
		pthread_join(thread, NULL);
		assert_int_equal(item.calls, 1);
	}
	assert_true(kit_stats(ch).events > 0);
	kit_destroy(ch);
	kit_close_device(ctx);
}

/* Turns and polls are counted; time is not looked at. */
static void idle_it_is_armed_once_and_the_reactor_sleeps(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
			(struct weir_reactor_opts){
				.size = sizeof(struct weir_reactor_opts),
				.spin_ns = WEIR_SPIN_NONE });
	struct ibv_context *ctx = kit_open_device();
	struct weir_reactor_stats before = { .size = sizeof(before) };
	struct weir_reactor_stats after = { .size = sizeof(after) };
	struct weir_channel *ch = kit_channel(r, ctx, 0, 0);
	int i;

	some_turns(r, 3);
	weir_reactor_stats(r, &before);
	for (i = 0; i < 20; i++)
		assert_int_equal(weir_reactor_turn(r, WEIR_USEC), 0);
	weir_reactor_stats(r, &after);
	assert_int_equal(after.sleeps - before.sleeps, 20);
	assert_int_equal(kit_stats(ch).arms, 1);
	/* A world looks now and then, too. */
	assert_true(kit_stats(ch).polls <= 20 * (harness_sim ? 8 : 3) + 4);
	assert_int_equal(kit_stats(ch).events, 0);
	kit_destroy(ch);
	kit_close_device(ctx);
}

static int keep_busy(struct weir_poller *poller, void *arg)
{
	(void)poller;
	(void)arg;
	return 1;
}

static void awake_it_polls_and_never_arms(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel *ch = kit_channel(r, ctx, 0, 0);
	struct weir_poller *poller;
	struct item item;
	int i;

	assert_int_equal(weir_poller_create(&poller, r, 0, keep_busy, NULL),
			 0);
	for (i = 0; i < 100; i++) {
		item_init(&item, ch);
		item_complete(&item);
		UNTIL(r, item.calls);
	}
	assert_int_equal(kit_stats(ch).arms, 0);
	assert_int_equal(kit_stats(ch).events, 0);
	weir_poller_destroy(poller);
	kit_destroy(ch);
	kit_close_device(ctx);
}

struct ticks {
	int n;
	struct weir_channel *ch;
	uint64_t told;
};

static void on_tick(struct weir_timer *timer, uint64_t n, void *arg)
{
	struct ticks *t = arg;

	(void)timer;
	(void)n;
	t->n++;
	t->told = kit_stats(t->ch).completions;
}

static void a_flood_gets_its_share_and_no_more(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct ticks t = { .ch = kit_channel(r, ctx, 1000, 8) };
	struct weir_timer *timer;
	struct item items[1000];
	int i;

	assert_int_equal(weir_timer_create(&timer, r, on_tick, &t), 0);
	for (i = 0; i < 1000; i++) {
		item_init(&items[i], t.ch);
		item_complete(&items[i]);
	}
	weir_timer_start(timer, 0, 0);
	assert_true(weir_reactor_turn(r, 0) >= 0);
	assert_true(kit_stats(t.ch).completions <= 8);
	UNTIL(r, t.n);
	assert_true(t.told <= 24);
	/* And the reactor does not sleep while there are more. */
	while (kit_stats(t.ch).completions < 1000)
		assert_true(weir_reactor_turn(r, WEIR_FOREVER) > 0);
	for (i = 0; i < 1000; i++)
		assert_int_equal(items[i].calls, 1);
	weir_timer_destroy(timer);
	kit_destroy(t.ch);
	kit_close_device(ctx);
}

/* B3.6 */
static void there_is_no_credit_for_one_too_many(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel *ch = kit_channel(r, ctx, 100, 0);
	uint32_t room = kit_stats(ch).room;

	assert_int_equal(room, weir_channel_cq(ch)->cqe);
	assert_true(room >= 100);
	assert_int_equal(weir_channel_reserve(ch, room + 1), -EAGAIN);
	assert_int_equal(weir_channel_reserve(ch, UINT32_MAX), -EAGAIN);
	assert_int_equal(weir_channel_reserve(ch, room - 1), 0);
	assert_int_equal(weir_channel_reserve(ch, 2), -EAGAIN);
	assert_int_equal(weir_channel_reserve(ch, 1), 0);
	assert_int_equal(weir_channel_reserve(ch, 1), -EAGAIN);
	assert_int_equal(weir_channel_reserve(ch, 0), 0);
	assert_int_equal(kit_stats(ch).reserved, room);
	weir_channel_release(ch, 5);
	assert_int_equal(weir_channel_reserve(ch, 6), -EAGAIN);
	assert_int_equal(weir_channel_reserve(ch, 5), 0);
	assert_int_equal(weir_channel_destroy(ch), -EBUSY);
	weir_channel_release(ch, room);
	kit_destroy(ch);
	kit_close_device(ctx);
}

/* Destroying. */

static void destroy_its_channel(struct item *item)
{
	kit_destroy(item->ch);
}

static void its_callback_may_destroy_it(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel *ch = kit_channel(r, ctx, 0, 0);
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
	kit_close_device(ctx);
}

static struct weir_channel *victims[3];

static void destroy_the_others(struct item *item)
{
	int i;

	for (i = 0; i < 3; i++)
		if (victims[i] != item->ch)
			kit_destroy(victims[i]);
}

static void a_callback_may_destroy_others_that_are_due(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct item items[3];
	int i, which, sum;

	for (which = 0; which < 3; which++) {
		for (i = 0; i < 3; i++) {
			victims[i] = kit_channel(r, ctx, 0, 0);
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
		kit_destroy(victims[which]);
	}
	kit_close_device(ctx);
}

/* B3.4: armed; with an event that was not read; with one that was. */
static void it_may_be_destroyed_armed_and_with_events_out(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel *ch;
	struct item item;
	int i;

	for (i = 0; i < 3; i++) {
		ch = kit_channel(r, ctx, 0, 0);
		item_init(&item, ch);
		while (!standin_is_armed(weir_channel_cq(ch)))
			weir_reactor_turn(r, WEIR_USEC);
		if (i)
			item_complete(&item);
		if (i == 2)
			UNTIL(r, item.calls && kit_stats(ch).events);
		kit_destroy(ch);
		some_turns(r, 3);
		assert_int_equal(item.calls, i == 2);
	}
	kit_close_device(ctx);
}

static void a_queue_that_is_in_use_is_not_destroyed(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel *ch = kit_channel(r, ctx, 0, 0);
	struct standin_cq *cq = (struct standin_cq *)weir_channel_cq(ch);
	struct item item;

	cq->users = 1;
	assert_int_equal(weir_channel_destroy(ch), -EBUSY);
	item_init(&item, ch);
	item_complete(&item);
	UNTIL(r, item.calls);
	cq->users = 0;
	kit_destroy(ch);
	kit_close_device(ctx);
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

/* Whether they are polled already, or not: in a callback, and outside. */
static void what_is_forgotten_is_not_told_and_the_rest_is(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct item items[64];
	struct weir_channel *ch;
	int i, round;

	gate_install(ctx);
	ctx->ops.poll_cq = numbering_poll;
	numbered = items;
	ch = kit_channel(r, ctx, 63, 16);
	for (round = 0; round < 4; round++) {
		for (i = 0; i < 60; i++) {
			item_init(&items[i], ch);
			numbers[i] = i % 3 ? 7 : 8;
			item_complete(&items[i]);
		}
		items[round * 3].then = forget_seven;
		if (round == 3)
			weir_channel_forget(ch, 7);
		UNTIL(r, items[57].calls);
		some_turns(r, 3);
		for (i = 0; i < 60; i++)
			assert_int_equal(items[i].calls, i % 3 == 0 ||
					 (round < 3 && i < round * 3));
	}
	kit_destroy(ch);
	kit_close_device(ctx);
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
		kit_destroy(ch);
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
static void an_error_of_the_queue_ends_it(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel *ch, *other = kit_channel(r, ctx, 0, 0);
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
		standin_overrun(weir_channel_cq(ch));
		UNTIL(r, f.calls);
		some_turns(r, 5);
		assert_int_equal(f.calls, 1);
		assert_int_equal(f.err, -EIO);
		if (i)
			continue;
		assert_int_equal(weir_channel_reserve(ch, 1), -EIO);
		assert_int_equal(kit_stats(ch).failed, 1);
		assert_int_equal(weir_channel_destroy(ch), -EBUSY);
		weir_channel_release(ch, 1);
		kit_destroy(ch);
	}
	/* It is not the others'. */
	assert_int_equal(weir_channel_reserve(other, 1), 0);
	weir_channel_release(other, 1);
	item_init(&item, other);
	item_complete(&item);
	UNTIL(r, item.calls);
	weir_verbs_event_destroy(ev);
	kit_destroy(other);
	kit_close_device(ctx);
}

/* As of a device that was removed: what was told before stays told. */
static void a_device_that_refuses_ends_it(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel *ch;
	struct failure f;
	struct item item;

	gate_install(ctx);
	ch = failing_channel(r, ctx, &f);
	item_init(&item, ch);
	item_complete(&item);
	UNTIL(r, item.calls);
	gate.fail = 1;
	UNTIL(r, f.calls);
	some_turns(r, 5);
	assert_int_equal(f.calls, 1);
	assert_int_equal(weir_channel_reserve(ch, 1), -EIO);
	kit_destroy(ch);
	kit_close_device(ctx);
}

/* Stopping. */

static void completions_are_told_while_the_reactor_stops(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel *ch = kit_channel(r, ctx, 0, 0), *none;
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
	kit_destroy(ch);
	kit_close_device(ctx);
}

static void a_reactor_with_a_channel_is_not_destroyed(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel *ch = kit_channel(r, ctx, 0, 0);

	assert_int_equal(weir_reactor_destroy(r), -EBUSY);
	kit_destroy(ch);
	kit_close_device(ctx);
}

static void host_settle(struct weir_reactor *r, int epoll)
{
	struct epoll_event in;
	int i;

	for (i = 0; epoll_wait(epoll, &in, 1, 0) > 0; i++) {
		assert_true(i < 100);
		assert_true(weir_reactor_turn(r, 0) >= 0);
	}
}

/* Hosted: the host sleeps without a timeout, so what is not told hangs. */
static void a_host_is_told(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct epoll_event in = { .events = EPOLLIN };
	int epoll = epoll_create1(EPOLL_CLOEXEC), i, j;
	struct weir_channel *ch;
	struct item items[20];

	gate_install(ctx);
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, weir_reactor_fd(r),
				   &in), 0);
	ch = kit_channel(r, ctx, 0, 4);
	for (i = 0; i < 100; i++) {
		host_settle(r, epoll);
		assert_true(standin_is_armed(weir_channel_cq(ch)));
		for (j = 0; j < 20; j++)
			item_init(&items[j], ch);
		gate.at = (enum moment)(i % MOMENTS);
		gate.item = &items[0];
		if (gate.at != BEFORE)
			standin_fire(weir_channel_cq(ch));
		pass(BEFORE);
		for (j = 1; i % 2 && j < 20; j++)
			item_complete(&items[j]);
		while (!items[0].calls || (i % 2 && !items[19].calls)) {
			assert_int_equal(epoll_wait(epoll, &in, 1, -1), 1);
			assert_true(weir_reactor_turn(r, 0) >= 0);
		}
	}
	host_settle(r, epoll);
	kit_destroy(ch);
	close(epoll);
	kit_close_device(ctx);
}

static void any_failure_inside_leaves_nothing_behind(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = kit_open_device();
	struct weir_channel *ch;
	struct item item;
	int err, n = 0, fired;

	do {
		ch = NULL;
		fault_arm(n++);
		err = weir_channel_create(&ch, r, ctx, NULL);
		fired = fault_disarm();
		assert_true(fired ? err < 0 && !ch : !err);
		if (err) {
			assert_non_null(strstr(weir_why(), ": "));
			assert_int_equal(standin()->cqs, 0);
			assert_int_equal(standin()->channels, 0);
		}
	} while (fired);
	assert_true(n > 4);
	item_init(&item, ch);
	item_complete(&item);
	UNTIL(r, item.calls);
	kit_destroy(ch);
	kit_close_device(ctx);
}

/* The page's table. */

enum column { OPEN, RESERVED, FAILED };
static const char *const columns[] = { "OPEN", "RESERVED", "FAILED" };

struct rig {
	struct weir_reactor *r;
	struct ibv_context *ctx;
	struct weir_channel *ch;
	struct failure f;
	struct item item;
	bool gone;
};

static int call_cq(void *arg)
{
	struct rig *g = arg;

	return weir_channel_cq(g->ch) ? 0 : -EINVAL;
}

static int call_reserve(void *arg)
{
	struct rig *g = arg;
	int err = weir_channel_reserve(g->ch, 1);

	if (!err)
		weir_channel_release(g->ch, 1);
	return err;
}

static int call_stats(void *arg)
{
	struct rig *g = arg;

	return kit_stats(g->ch).room ? 0 : -EINVAL;
}

static int call_forget(void *arg)
{
	struct rig *g = arg;

	weir_channel_forget(g->ch, 99);
	return 0;
}

/* A completion: 1 if it was told. */
static int call_completion(void *arg)
{
	struct rig *g = arg;

	standin_complete(weir_channel_cq(g->ch), (uintptr_t)&g->item.wr, 0,
			 false);
	some_turns(g->r, 3);
	return g->item.calls;
}

static int call_destroy(void *arg)
{
	struct rig *g = arg;
	int err = weir_channel_destroy(g->ch);

	g->gone = !err;
	return err;
}

static void rig_begin(struct rig *g, enum column column)
{
	g->ch = failing_channel(g->r, g->ctx, &g->f);
	item_init(&g->item, g->ch);
	g->gone = false;
	if (column == RESERVED)
		assert_int_equal(weir_channel_reserve(g->ch, 3), 0);
	gate.fail = column == FAILED;
	if (column == FAILED)
		UNTIL(g->r, g->f.calls);
	gate.fail = 0;
}

static void rig_end(struct rig *g, enum column column)
{
	if (column == RESERVED)
		weir_channel_release(g->ch, 3);
	if (!g->gone)
		kit_destroy(g->ch);
}

static void the_table_of_the_page_holds(void **state)
{
	static const struct table_call calls[] = {
		{ "cq", call_cq }, { "reserve", call_reserve },
		{ "stats", call_stats }, { "forget", call_forget },
		{ "a completion", call_completion },
		{ "destroy", call_destroy },
	};
	struct rig g = { .r = start_reactor(state) };
	struct table_cell c;
	struct table t;

	g.ctx = kit_open_device();
	gate_install(g.ctx);
	table_open(&t, "reactor/README.md", "channel: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		rig_begin(&g, (enum column)c.column);
		table_result(&c, c.call->fn(&g));
		rig_end(&g, (enum column)c.column);
	}
	table_close(&t);
	kit_close_device(g.ctx);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(bad_arguments_are_refused),
		CASE(a_completion_is_told_once),
		CASE(of_an_error_status_and_owner_are_told),
		CASE(nobody_is_told_of_work_that_is_nobodys),
		CASE(no_completion_is_lost_whenever_it_comes),
		CASE(a_spurious_event_is_no_harm),
		REAL(a_sleeping_reactor_is_woken),
		CASE(idle_it_is_armed_once_and_the_reactor_sleeps),
		CASE(awake_it_polls_and_never_arms),
		CASE(a_flood_gets_its_share_and_no_more),
		CASE(there_is_no_credit_for_one_too_many),
		CASE(its_callback_may_destroy_it),
		CASE(a_callback_may_destroy_others_that_are_due),
		CASE(it_may_be_destroyed_armed_and_with_events_out),
		CASE(a_queue_that_is_in_use_is_not_destroyed),
		CASE(what_is_forgotten_is_not_told_and_the_rest_is),
		CASE(an_error_of_the_queue_ends_it),
		CASE(a_device_that_refuses_ends_it),
		CASE(completions_are_told_while_the_reactor_stops),
		CASE(a_reactor_with_a_channel_is_not_destroyed),
		REAL(a_host_is_told),
		CASE(any_failure_inside_leaves_nothing_behind),
		CASE(the_table_of_the_page_holds),
	};

	return harness_run_all(cases, N_OF(cases));
}
