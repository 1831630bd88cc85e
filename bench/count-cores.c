/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between two reactors, which have their turns one after the other on
 * this thread: so neither sleeps or spins, and what is counted is always the
 * same.  A group would have a thread for each, so rings are made by hand.
 */

#include <weir/call.h>
#include <weir/reactor.h>

#include "bench/bench.h"
#include "bench/count.h"
#include "reactor/group/spsc.h"
#include "reactor/reactor-internal.h"

#define SPSC 1024

struct pair {
	struct weir_reactor *r[2];
	struct ring_matrix *mesh; /* NULL: they are of no group. */
	struct call {
		struct weir_op op;
		struct pair *pair;
	} calls[BATCH];
	struct weir_op sender;
	uint64_t to_send, to_end;
};

#define CROWD 64u		/* Cores of a group, of which one turns. */

static struct pair group, others, crowd;

/* Until all has ended; which reactor's thread this is changes. */
static void run(struct pair *p)
{
	while (p->to_end)
		for (int i = 0; i < 2; i++) {
			rings_here = p->mesh ? p->r[i] : NULL;
			if (weir_reactor_turn(p->r[i], 0) < 0)
				bench_must(-EIO, "weir_reactor_turn");
		}
	rings_here = NULL;
}

/* The first messages, or all of them, are sent in a turn. */
static void begin(struct pair *p, weir_op_fn *first)
{
	p->to_send = p->to_end = ROUNDS;
	weir_op_init(&p->sender, first);
	bench_must(weir_defer(p->r[0], &p->sender), "weir_defer");
	run(p);
}

/* Calls. */

static int64_t serve(void *arg)
{
	(void)arg;
	return 0;
}

static void make_call(struct call *c)
{
	c->pair->to_send--;
	bench_must(weir_call(c->pair->r[0], &c->op, c->pair->r[1], serve, c),
		   "weir_call");
}

static void on_answer(struct weir_op *op, int64_t res)
{
	struct call *c = weir_container_of(op, struct call, op);

	bench_must((int)res, "an answer");
	c->pair->to_end--;
	if (c->pair->to_send)
		make_call(c);
}

static void call_one(struct weir_op *op, int64_t res)
{
	struct pair *p = weir_container_of(op, struct pair, sender);

	(void)res;
	make_call(&p->calls[0]);
}

static void call_many(struct weir_op *op, int64_t res)
{
	struct pair *p = weir_container_of(op, struct pair, sender);

	(void)res;
	for (int i = 0; i < BATCH; i++)
		make_call(&p->calls[i]);
}

void call_1(void)
{
	begin(&group, call_one);
}

void call_32(void)
{
	begin(&group, call_many);
}

void call_other_32(void)
{
	begin(&others, call_many);
}

/* Posts. */

static void on_post(void *arg)
{
	struct pair *p = arg;

	p->to_end--;
}

/* So many in each turn. */
static void post_many(struct weir_op *op, int64_t res)
{
	struct pair *p = weir_container_of(op, struct pair, sender);

	(void)res;
	for (int i = 0; i < BATCH && p->to_send; i++, p->to_send--)
		bench_must(weir_post(p->r[1], on_post, p), "weir_post");
	if (p->to_send)
		bench_must(weir_defer(p->r[0], op), "weir_defer");
}

void post_spsc_32(void)
{
	begin(&group, post_many);
}

void post_other_32(void)
{
	begin(&others, post_many);
}

/* What a turn costs a core that has nothing to do, by the size of its group. */
static void turn(struct pair *p)
{
	rings_here = p->r[0];
	for (int i = 0; i < ROUNDS; i++)
		if (weir_reactor_turn(p->r[0], 0) < 0)
			bench_must(-EIO, "weir_reactor_turn");
	rings_here = NULL;
}

void turn_2(void)
{
	turn(&group);
}

void turn_64(void)
{
	turn(&crowd);
}

static void make_pair(struct pair *p)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .spin_ns = WEIR_SPIN_NONE,
	};

	for (int i = 0; i < 2; i++)
		bench_must(weir_reactor_create(&p->r[i], &opts),
			   "weir_reactor_create");
	for (int i = 0; i < BATCH; i++) {
		weir_op_init(&p->calls[i].op, on_answer);
		p->calls[i].pair = p;
	}
}

void cores_make(void)
{
	make_pair(&group);
	make_pair(&others);
	group.mesh = ring_matrix_create(2, SPSC);
	if (!group.mesh)
		bench_must(-ENOMEM, "ring_matrix_create");
	for (uint32_t i = 0; i < 2; i++)
		rings_join(group.mesh, i, group.r[i]);
	make_pair(&crowd);
	crowd.mesh = ring_matrix_create(CROWD, 32);
	if (!crowd.mesh)
		bench_must(-ENOMEM, "ring_matrix_create");
	/* All others are one reactor, which has no turn. */
	for (uint32_t i = 0; i < CROWD; i++)
		rings_join(crowd.mesh, i, crowd.r[i > 0]);
}

static void end_pair(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		p->r[i]->mailbox.rings = NULL;
		mailbox_note_more(&p->r[i]->mailbox);
		bench_must(weir_reactor_destroy(p->r[i]),
			   "weir_reactor_destroy");
	}
	ring_matrix_destroy(p->mesh);
}

void cores_end(void)
{
	end_pair(&group);
	end_pair(&others);
	end_pair(&crowd);
}
