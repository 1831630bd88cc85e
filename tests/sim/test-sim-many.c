/* SPDX-License-Identifier: BSD-3-Clause */
/* Worlds of many reactors, of which a step evaluates only those that may have
 * become due. */

#include "tests/support/harness.h"

#include <weir/call.h>
#include <weir/group.h>
#include <weir/reactor.h>
#include <weir/sim/socket.h>
#include <weir/sim/world.h>
#include <weir/socket.h>
#include <weir/timer.h>
#include <weir/watch.h>

#define MANY 100
#define LAPS 20

static struct weir_sim *sim;

/* A reactor that passes on what it gets, by a way that its number chooses. */
static struct node {
	struct weir_reactor *r;
	struct weir_event *event;
	struct weir_receiver *receiver;
	struct weir_op op;
	struct weir_timer *timer;
	int fds[2];		/* From the one before to it. */
	int passed;
} nodes[MANY];

/* One that always has something to do: the world never evaluates all reactors
 * because it is idle. */
static struct weir_reactor *busy;
static struct weir_timer *tick;

static void on_tick(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer, (void)n, (void)arg;
}

static struct node *after(const struct node *n)
{
	return &nodes[(n - nodes + 1) % MANY];
}

static void on_post(void *arg);

static void pass_on(struct node *n)
{
	struct node *next = after(n);

	if (n->passed++ == LAPS)
		return;
	switch ((next - nodes) % 3) {
	case 0:
		assert_int_equal(weir_post(next->r, on_post, next), 0);
		break;
	case 1:
		weir_event_signal(next->event);
		break;
	default:
		assert_int_equal(weir_sim_write(next->fds[0], "x", 1), 1);
	}
}

static void on_post(void *arg)
{
	pass_on(arg);
}

static void on_event(struct weir_event *event, uint64_t n, void *arg)
{
	(void)event, (void)n;
	pass_on(arg);
}

/* Through a timer and an operation, too. */
static void on_timer(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer, (void)n;
	pass_on(arg);
}

static void on_nop(struct weir_op *op, int64_t res)
{
	struct node *n = weir_container_of(op, struct node, op);

	assert_int_equal(res, 0);
	weir_timer_start(n->timer, weir_reactor_now(n->r) + WEIR_MSEC, 0);
}

static int on_data(struct weir_receiver *receiver, void *data, int64_t len,
		   void *arg)
{
	struct node *n = arg;

	(void)receiver, (void)data;
	assert_int_equal(len, 1);
	assert_int_equal(weir_nop(n->r, &n->op), 0);
	return 0;
}

static void begin(uint64_t seed)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts), .rx_bufs = 2,
					  .ops_max = 16 };

	assert_int_equal(weir_sim_create(&sim, seed, NULL), 0);
	opts.sim = sim;
	assert_int_equal(weir_reactor_create(&busy, &opts), 0);
	assert_int_equal(weir_timer_create(&tick, busy, on_tick, NULL), 0);
	weir_timer_start(tick, 0, WEIR_MSEC / 4);
	memset(nodes, 0, sizeof(nodes));
	for (struct node *n = nodes; n < nodes + MANY; n++) {
		n->op.fn = on_nop;
		assert_int_equal(weir_reactor_create(&n->r, &opts), 0);
		assert_int_equal(weir_event_create(&n->event, n->r, on_event,
						   n), 0);
		assert_int_equal(weir_timer_create(&n->timer, n->r, on_timer,
						   n), 0);
		assert_int_equal(weir_sim_socket_pair(sim, n->fds), 0);
		assert_int_equal(weir_receiver_create(&n->receiver, n->r,
						      n->fds[1], NULL, on_data, n),
				 0);
	}
}

static void end_node(struct node *n)
{
	weir_event_destroy(n->event);
	weir_timer_destroy(n->timer);
	weir_receiver_destroy(n->receiver);
	assert_int_equal(weir_reactor_destroy(n->r), 0);
	n->r = NULL;
}

static uint64_t end(void)
{
	uint64_t digest = weir_sim_digest(sim);

	for (struct node *n = nodes; n < nodes + MANY; n++)
		if (n->r)
			end_node(n);
	weir_timer_destroy(tick);
	assert_int_equal(weir_reactor_destroy(busy), 0);
	assert_int_equal(weir_sim_destroy(sim), 0);
	return digest;
}

static uint64_t go_round(uint64_t seed)
{
	struct weir_sim_turns turns = { .size = sizeof(turns) };

	begin(seed);
	assert_int_equal(weir_post(nodes[0].r, on_post, &nodes[0]), 0);
	assert_int_equal(weir_sim_run(sim, 2 * WEIR_SEC, 0), 1);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(nodes[i].passed, LAPS + !i);
		assert_int_equal(weir_sim_turns(nodes[i].r, &turns), 0);
		assert_int_equal(turns.unwoken, 0);
	}
	return end();
}

static void message_goes_round_a_world_of_many_reactors(void **state)
{
	(void)state;
	go_round(1);
}

static void seed_repeats_in_a_world_of_many_reactors(void **state)
{
	uint64_t digest = go_round(2);

	(void)state;
	assert_int_equal(go_round(2), digest);
	assert_true(go_round(3) != digest);
}

/* So the world is one of few at the end. */
static void reactors_of_many_can_be_destroyed(void **state)
{
	(void)state;
	begin(4);
	for (int i = 0; i < MANY - 1; i++) {
		assert_int_equal(weir_post(nodes[MANY - 1].r, on_post,
					   &nodes[MANY - 1]), 0);
		nodes[MANY - 1].passed = LAPS;
		assert_int_equal(weir_sim_run(sim, WEIR_MSEC, 0), 1);
		assert_int_equal(nodes[MANY - 1].passed, LAPS + 1);
		end_node(&nodes[i]);
	}
	end();
}

static void on_readable(struct weir_watch *watch, uint32_t events, void *arg)
{
	(void)events;
	++*(int *)arg;
	weir_watch_set(watch, 0);
}

static void descriptor_wakes_all_reactors_that_watch_it(void **state)
{
	struct weir_watch *watches[MANY];
	int fds[2], seen[MANY] = { 0 };

	(void)state;
	begin(5);
	assert_int_equal(weir_sim_pipe(sim, fds), 0);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(weir_watch_create(&watches[i], nodes[i].r,
						   fds[0], WEIR_READABLE,
						   on_readable, &seen[i]), 0);
	assert_int_equal(weir_sim_run(sim, WEIR_MSEC, 0), 1);
	assert_int_equal(weir_sim_write(fds[1], "x", 1), 1);
	assert_int_equal(weir_sim_run(sim, WEIR_MSEC, 0), 1);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(seen[i], 1);
		weir_watch_destroy(watches[i]);
	}
	end();
}

static void reactor_of_many_can_make_its_own_turns(void **state)
{
	struct node *n = &nodes[7];

	(void)state;
	begin(6);
	weir_timer_start(n->timer, weir_reactor_now(n->r) + WEIR_SEC, 0);
	n->passed = LAPS;
	while (n->passed == LAPS)
		assert_true(weir_reactor_turn(n->r, WEIR_FOREVER) >= 0);
	n->passed = LAPS;
	weir_event_signal(n->event);
	while (n->passed == LAPS)
		assert_true(weir_reactor_turn(n->r, WEIR_FOREVER) >= 0);
	end();
}

/* A group of 64 cores, of which 63 call the first one all the time. */

#define CORES 64
#define CALLS 4			/* Of each core, in flight. */
#define TURN 16			/* Messages, at most. */
#define EACH 200		/* Calls of each core, on the average. */

static struct caller {
	struct weir_reactor *r;
	struct call {
		struct weir_op op;
		struct caller *caller;
		unsigned int since;	/* Calls that were served before it. */
	} calls[CALLS];
	unsigned int served, ended;
} callers[CORES];

static unsigned int n_served, longest;
static bool is_over;

static int64_t serve(void *arg)
{
	struct call *call = arg;
	unsigned int others = n_served++ - call->since;

	call->caller->served++;
	if (longest < others)
		longest = others;
	return 0;
}

static void call(struct call *call)
{
	call->since = n_served;
	assert_int_equal(weir_call(call->caller->r, &call->op, callers[0].r,
				   serve, call), 0);
}

static void call_again(struct weir_op *op, int64_t res)
{
	struct call *ended = weir_container_of(op, struct call, op);

	assert_int_equal(res, 0);
	ended->caller->ended++;
	if (!is_over)
		call(ended);
}

/* In a turn of the caller's own, as on its thread. */
static void begin_to_call(void *arg)
{
	struct caller *c = arg;

	for (int i = 0; i < CALLS; i++) {
		weir_op_init(&c->calls[i].op, call_again);
		c->calls[i].caller = c;
		call(&c->calls[i]);
	}
}

static unsigned int ended_of_all(void)
{
	unsigned int n = 0;

	for (int i = 1; i < CORES; i++)
		n += callers[i].ended;
	return n;
}

static void cores_of_a_large_group_are_served_alike(void **state)
{
	struct weir_group_opts opts = { .size = sizeof(opts), .n_cores = CORES };
	struct weir_reactor_opts reactor = { .size = sizeof(reactor),
					     .turn_max = TURN };
	struct weir_reactor_stats s = { .size = sizeof(s) };
	struct weir_group *group = NULL;

	(void)state;
	memset(callers, 0, sizeof(callers));
	n_served = longest = 0;
	is_over = false;
	assert_int_equal(weir_sim_create(&sim, 7, NULL), 0);
	reactor.sim = sim;
	opts.reactor = &reactor;
	assert_int_equal(weir_group_create(&group, &opts), 0);
	assert_int_equal(weir_group_start(group), 0);
	for (uint32_t i = 0; i < CORES; i++)
		callers[i].r = weir_group_reactor(group, i);
	for (int i = 1; i < CORES; i++)
		assert_int_equal(weir_post(callers[i].r, begin_to_call,
					   &callers[i]), 0);
	while (n_served < EACH * (CORES - 1))
		assert_int_equal(weir_sim_run(sim, WEIR_MSEC, 0), 1);
	is_over = true;
	while (ended_of_all() < n_served)
		weir_sim_run(sim, WEIR_MSEC, 0);

	/* Each waits for what the others have in flight once; and once more if a turn ends
	 * in the middle of what its core has sent. */
	assert_in_range(longest, 0, 2 * (CORES * CALLS + TURN));
	for (int i = 1; i < CORES; i++)
		assert_int_equal(callers[i].ended, callers[i].served);
	assert_int_equal(weir_reactor_stats(callers[0].r, &s), 0);
	assert_true(s.posts >= n_served);
	assert_int_equal(weir_group_stop(group), 0);
	assert_int_equal(weir_group_run(group), 0);
	assert_int_equal(weir_group_destroy(group), 0);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static const struct harness_case cases[] = {
	CASE(cores_of_a_large_group_are_served_alike),
	CASE(message_goes_round_a_world_of_many_reactors),
	CASE(seed_repeats_in_a_world_of_many_reactors),
	CASE(reactors_of_many_can_be_destroyed),
	CASE(descriptor_wakes_all_reactors_that_watch_it),
	CASE(reactor_of_many_can_make_its_own_turns),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
