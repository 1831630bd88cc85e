/* SPDX-License-Identifier: BSD-3-Clause */

/* Completion channels, as <weir/rdma/channel.h> promises them, over a device that
 * is none: completions come when the test says so. */

#include "tests/support/channel-fixture.h"

#include <pthread.h>
#include <sys/epoll.h>

#include <weir/timer.h>
#include <weir/watch.h>

#include "base/fault.h"

static void bad_arguments_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel_opts opts = { .size = sizeof(opts) };
	struct weir_channel *ch = (void *)0x77;

	assert_int_equal(weir_channel_create(&ch, r, NULL, NULL), -EINVAL);
	opts.vector = (uint32_t)ctx->num_comp_vectors;
	assert_int_equal(weir_channel_create(&ch, r, ctx, &opts), -EINVAL);
	opts.vector = 0;
	opts.depth = MOCK_MAX_CQE + 1;
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
	fixture_close_device(ctx);
}

static void a_completion_is_told_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch = fixture_channel(r, ctx, 0, 0);
	struct item item;

	some_turns(r, 3);
	item_init(&item, ch);
	item_complete(&item);
	assert_int_equal(item.calls, 0);
	UNTIL(r, item.calls);
	some_turns(r, 5);
	assert_int_equal(item.calls, 1);
	assert_int_equal(item.status, IBV_WC_SUCCESS);
	assert_int_equal(fixture_stats(ch).completions, 1);
	fixture_destroy(ch);
	fixture_close_device(ctx);
}

/* B3.5 */
static void failed_completion_tells_status_and_owner(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch = fixture_channel(r, ctx, 0, 0);
	struct item item;

	item_init(&item, ch);
	mock_complete(weir_channel_cq(ch), (uintptr_t)&item.wr,
		      IBV_WC_RETRY_EXC_ERR, false);
	UNTIL(r, item.calls);
	assert_int_equal(item.status, IBV_WC_RETRY_EXC_ERR);
	fixture_destroy(ch);
	fixture_close_device(ctx);
}

static void completion_without_an_owner_is_dropped(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch = fixture_channel(r, ctx, 0, 0);
	struct item item;

	item_init(&item, ch);
	mock_complete(weir_channel_cq(ch), 0, IBV_WC_SUCCESS, false);
	item_complete(&item);
	UNTIL(r, item.calls);
	assert_int_equal(fixture_stats(ch).completions, 1);
	fixture_destroy(ch);
	fixture_close_device(ctx);
}

/* B3.2: whenever it comes; lost, the reactor would sleep for ever. */
static void no_completion_is_lost_whenever_it_comes(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch;
	struct item item;
	int i, turns;

	gate_install(ctx);
	ch = fixture_channel(r, ctx, 0, 0);
	for (i = 0; i < 200; i++) {
		if (mock_is_armed(weir_channel_cq(ch)))
			mock_fire(weir_channel_cq(ch));
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
	fixture_destroy(ch);
	fixture_close_device(ctx);
}

/* And B3.4: each is acknowledged, in fewer calls than there are. */
static void a_spurious_event_is_no_harm(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch = fixture_channel(r, ctx, 0, 0);
	struct item item;
	int i;

	for (i = 1; i <= 100; i++) {
		mock_fire(weir_channel_cq(ch));
		UNTIL(r, fixture_stats(ch).empty_events == (uint64_t)i);
	}
	assert_int_equal(fixture_stats(ch).completions, 0);
	item_init(&item, ch);
	item_complete(&item);
	UNTIL(r, item.calls);
	mocked()->acks = 0;
	fixture_destroy(ch);
	assert_true(mocked()->acks <= 1);
	fixture_close_device(ctx);
}

static void *complete_when_armed(void *arg)
{
	struct item *item = arg;

	while (!mock_is_armed(weir_channel_cq(item->ch)))
		sched_yield();
	mock_complete(weir_channel_cq(item->ch), (uintptr_t)&item->wr,
		      IBV_WC_SUCCESS, false);
	return NULL;
}

static void a_sleeping_reactor_is_woken(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch = fixture_channel(r, ctx, 0, 0);
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
	assert_true(fixture_stats(ch).events > 0);
	fixture_destroy(ch);
	fixture_close_device(ctx);
}

/* Turns and polls are counted; time is not looked at. */
static void idle_it_is_armed_once_and_the_reactor_sleeps(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
			(struct weir_reactor_opts){
				.size = sizeof(struct weir_reactor_opts),
				.spin_ns = WEIR_SPIN_NONE });
	struct ibv_context *ctx = fixture_open_device();
	struct weir_reactor_stats before = { .size = sizeof(before) };
	struct weir_reactor_stats after = { .size = sizeof(after) };
	struct weir_channel *ch = fixture_channel(r, ctx, 0, 0);
	int i;

	some_turns(r, 3);
	weir_reactor_stats(r, &before);
	for (i = 0; i < 20 || after.sleeps < before.sleeps + 20; i++) {
		assert_true(i < 1000);
		assert_int_equal(weir_reactor_turn(r, WEIR_MSEC), 0);
		weir_reactor_stats(r, &after);
	}
	assert_int_equal(fixture_stats(ch).arms, 1);
	/* A world looks now and then, too. */
	assert_true(fixture_stats(ch).polls <=
		    (unsigned int)i * (harness_sim ? 8 : 3) + 4);
	assert_int_equal(fixture_stats(ch).events, 0);
	fixture_destroy(ch);
	fixture_close_device(ctx);
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
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch = fixture_channel(r, ctx, 0, 0);
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
	assert_int_equal(fixture_stats(ch).arms, 0);
	assert_int_equal(fixture_stats(ch).events, 0);
	weir_poller_destroy(poller);
	fixture_destroy(ch);
	fixture_close_device(ctx);
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
	t->told = fixture_stats(t->ch).completions;
}

static void a_flood_gets_its_share_and_no_more(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct ticks t = { .ch = fixture_channel(r, ctx, 1000, 8) };
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
	assert_true(fixture_stats(t.ch).completions <= 8);
	UNTIL(r, t.n);
	assert_true(t.told <= 24);
	/* And the reactor does not sleep while there are more. */
	while (fixture_stats(t.ch).completions < 1000)
		assert_true(weir_reactor_turn(r, WEIR_FOREVER) > 0);
	for (i = 0; i < 1000; i++)
		assert_int_equal(items[i].calls, 1);
	weir_timer_destroy(timer);
	fixture_destroy(t.ch);
	fixture_close_device(ctx);
}

/* B3.6 */
static void channel_has_no_credit_for_one_too_many(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch = fixture_channel(r, ctx, 100, 0);
	uint32_t capacity = fixture_stats(ch).capacity;

	assert_int_equal(capacity, weir_channel_cq(ch)->cqe);
	assert_true(capacity >= 100);
	assert_int_equal(weir_channel_reserve(ch, capacity + 1), -EAGAIN);
	assert_int_equal(weir_channel_reserve(ch, UINT32_MAX), -EAGAIN);
	assert_int_equal(weir_channel_reserve(ch, capacity - 1), 0);
	assert_int_equal(weir_channel_reserve(ch, 2), -EAGAIN);
	assert_int_equal(weir_channel_reserve(ch, 1), 0);
	assert_int_equal(weir_channel_reserve(ch, 1), -EAGAIN);
	assert_int_equal(weir_channel_reserve(ch, 0), 0);
	assert_int_equal(fixture_stats(ch).reserved, capacity);
	weir_channel_release(ch, 5);
	assert_int_equal(weir_channel_reserve(ch, 6), -EAGAIN);
	assert_int_equal(weir_channel_reserve(ch, 5), 0);
	assert_int_equal(weir_channel_destroy(ch), -EBUSY);
	weir_channel_release(ch, capacity);
	fixture_destroy(ch);
	fixture_close_device(ctx);
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
	struct ibv_context *ctx = fixture_open_device();
	struct epoll_event in = { .events = EPOLLIN };
	int epoll = epoll_create1(EPOLL_CLOEXEC), i, j;
	struct weir_channel *ch;
	struct item items[20];

	gate_install(ctx);
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, weir_reactor_fd(r),
				   &in), 0);
	ch = fixture_channel(r, ctx, 0, 4);
	for (i = 0; i < 100; i++) {
		host_settle(r, epoll);
		assert_true(mock_is_armed(weir_channel_cq(ch)));
		for (j = 0; j < 20; j++)
			item_init(&items[j], ch);
		gate.at = (enum moment)(i % MOMENTS);
		gate.item = &items[0];
		if (gate.at != BEFORE)
			mock_fire(weir_channel_cq(ch));
		pass(BEFORE);
		for (j = 1; i % 2 && j < 20; j++)
			item_complete(&items[j]);
		while (!items[0].calls || (i % 2 && !items[19].calls)) {
			assert_int_equal(epoll_wait(epoll, &in, 1, -1), 1);
			assert_true(weir_reactor_turn(r, 0) >= 0);
		}
	}
	host_settle(r, epoll);
	fixture_destroy(ch);
	close(epoll);
	fixture_close_device(ctx);
}

static void failed_channel_call_leaves_nothing_behind(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
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
			assert_int_equal(mocked()->cqs, 0);
			assert_int_equal(mocked()->channels, 0);
		}
	} while (fired);
	assert_true(n > 4);
	item_init(&item, ch);
	item_complete(&item);
	UNTIL(r, item.calls);
	fixture_destroy(ch);
	fixture_close_device(ctx);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(bad_arguments_are_refused),
		CASE(a_completion_is_told_once),
		CASE(failed_completion_tells_status_and_owner),
		CASE(completion_without_an_owner_is_dropped),
		CASE(no_completion_is_lost_whenever_it_comes),
		CASE(a_spurious_event_is_no_harm),
		REAL(a_sleeping_reactor_is_woken),
		CASE(idle_it_is_armed_once_and_the_reactor_sleeps),
		CASE(awake_it_polls_and_never_arms),
		CASE(a_flood_gets_its_share_and_no_more),
		CASE(channel_has_no_credit_for_one_too_many),
		REAL(a_host_is_told),
		CASE(failed_channel_call_leaves_nothing_behind),
	};

	return harness_run_all(cases, N_OF(cases));
}
