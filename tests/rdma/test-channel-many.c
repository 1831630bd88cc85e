/* SPDX-License-Identifier: BSD-3-Clause */

/* Many channels on one reactor: a turn is bounded, and each has its share. */

#include "tests/support/channel-fixture.h"

#include <weir/poll-hook.h>

#define CROWD 150
#define EACH 20

struct crowd {
	struct ibv_context *ctx;
	struct weir_channel *ch[CROWD];
	struct item item[CROWD][EACH];
};

static void crowd_begin(struct crowd *c, struct weir_reactor *r,
			void (*then)(struct item *item), int each)
{
	int i, k;

	c->ctx = fixture_open_device();
	for (i = 0; i < CROWD; i++) {
		c->ch[i] = fixture_channel(r, c->ctx, EACH, 0);
		for (k = 0; k < each; k++) {
			item_init(&c->item[i][k], c->ch[i]);
			c->item[i][k].then = then;
			item_complete(&c->item[i][k]);
		}
	}
}

static void crowd_end(struct crowd *c)
{
	int i;

	for (i = 0; i < CROWD; i++)
		fixture_destroy(c->ch[i]);
	fixture_close_device(c->ctx);
}

static int told(const struct crowd *c)
{
	int i, k, n = 0;

	for (i = 0; i < CROWD; i++)
		for (k = 0; k < EACH; k++)
			n += c->item[i][k].calls;
	return n;
}

/* All have something at any time; each has its turn. */
static void channel_does_not_wait_for_the_other_channels(void **state)
{
	struct crowd *c = calloc(1, sizeof(*c));
	struct weir_reactor *r = start_reactor(state);
	int i, before, calls, least = CROWD, most = 0;

	crowd_begin(c, r, item_complete, 1);
	for (i = 0; i < 40; i++) {
		before = told(c);
		assert_true(weir_reactor_turn(r, 0) >= 0);
		assert_in_range(told(c) - before, 1, WEIR_POLL_HOOKS_AT_ONCE);
	}
	for (i = 0; i < CROWD; i++) {
		calls = c->item[i][0].calls;
		least = calls < least ? calls : least;
		most = calls > most ? calls : most;
	}
	assert_true(least > 0 && most - least <= 1);
	crowd_end(c);
	free(c);
}

/* What they have together is bounded as other callbacks are. */
static void channels_share_a_turn(void **state)
{
	struct crowd *c = calloc(1, sizeof(*c));
	struct weir_reactor *r = start_reactor(state);
	int before;

	crowd_begin(c, r, NULL, EACH);
	while (told(c) < CROWD * EACH) {
		before = told(c);
		assert_true(weir_reactor_turn(r, 0) >= 0);
		assert_in_range(told(c) - before, 1, 256 + EACH);
	}
	crowd_end(c);
	free(c);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(channel_does_not_wait_for_the_other_channels),
		CASE(channels_share_a_turn),
	};

	return harness_run_all(cases, N_OF(cases));
}
