/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of what passes among the cores of a simulated world. */

#include "tests/support/harness.h"

#include <weir/sim/world.h>

#define CORES 3
#define MESSAGES 40

struct core {
	struct cores *all;
	struct weir_reactor *r;
	struct rec defer;
	unsigned int id, sent[CORES], got[CORES], n_full;
};

struct message {
	struct core *to;
	unsigned int from, seq;
};

struct cores {
	struct weir_sim *sim;
	struct core core[CORES];
	struct message msg[CORES][CORES][MESSAGES];
	uint64_t order;		/* In which they came, all together. */
};

static void on_message(void *arg)
{
	struct message *m = arg;
	struct core *c = m->to;

	/* Once each, and in the sender's order. */
	assert_int_equal(m->seq, c->got[m->from]);
	c->got[m->from]++;
	c->all->order = c->all->order * 31 + c->id * CORES + m->from;
}

static bool post_one(struct core *c, unsigned int to)
{
	struct message *m = &c->all->msg[c->id][to][c->sent[to]];
	int err;

	*m = (struct message){ &c->all->core[to], c->id, c->sent[to] };
	err = weir_post(m->to->r, on_message, m);
	if (!err)
		c->sent[to]++;
	else
		assert_int_equal(err, -EAGAIN);
	c->n_full += !!err;
	return !err;
}

static void post_some(struct weir_op *op, int64_t res)
{
	struct core *c = weir_container_of(op, struct core, defer.op);
	unsigned int left = 0, n = 8;

	rec_done(op, res);
	for (unsigned int i = 0; i < CORES; i++) {
		while (n && c->sent[i] < MESSAGES && post_one(c, i))
			n--;
		left += MESSAGES - c->sent[i];
	}
	if (left)
		assert_int_equal(weir_defer(c->r, op), 0);
}

static uint64_t order_of(uint64_t seed, unsigned int *full)
{
	struct weir_reactor_opts ropts = { .size = sizeof(ropts),
					   .mailbox = 8 };
	struct cores *all = calloc(1, sizeof(*all));
	uint64_t order;

	assert_non_null(all);
	assert_int_equal(weir_sim_create(&all->sim, seed, NULL), 0);
	ropts.sim = all->sim;
	for (unsigned int i = 0; i < CORES; i++) {
		struct core *c = &all->core[i];

		c->all = all;
		c->id = i;
		assert_int_equal(weir_reactor_create(&c->r, &ropts), 0);
		rec_init(&c->defer);
		c->defer.op.fn = post_some;
		assert_int_equal(weir_defer(c->r, &c->defer.op), 0);
	}
	assert_int_equal(weir_sim_run(all->sim, WEIR_FOREVER, 0), 0);
	for (unsigned int i = 0; i < CORES * CORES; i++) {
		assert_int_equal(all->core[i / CORES].got[i % CORES],
				 MESSAGES);
		*full += all->core[i / CORES].n_full;
	}
	for (unsigned int i = 0; i < CORES; i++)
		assert_int_equal(weir_reactor_destroy(all->core[i].r), 0);
	assert_int_equal(weir_sim_destroy(all->sim), 0);
	order = all->order;
	free(all);
	return order;
}

static void posts_come_once_in_their_senders_order(void **state)
{
	uint64_t order[20];
	unsigned int full = 0, same = 0;

	(void)state;
	for (uint64_t seed = 0; seed < N_OF(order); seed++) {
		order[seed] = order_of(seed, &full);
		assert_true(order[seed] == order_of(seed, &full));
		for (uint64_t i = 0; i < seed; i++)
			same += order[i] == order[seed];
	}
	/* Mailboxes were full, and no two seeds went alike. */
	assert_true(full > 0);
	assert_int_equal(same, 0);
}

static const struct harness_case cases[] = {
	CASE(posts_come_once_in_their_senders_order),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
