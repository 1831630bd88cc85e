/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The schedule of events, and random streams.
 *
 * The schedule is a pairing heap, because its links are in the events: it
 * allocates nothing, so scheduling cannot fail, and any event can be removed.
 * Events of the same time are ordered by a draw.
 */

#include "sim/world.h"

#define GAMMA UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* The streams of a seed are independent: without one kind of fault, the other
 * streams are unchanged. */
void sim_rng_init(struct sim_rng *rng, uint64_t seed, uint64_t stream)
{
	rng->state = mix(mix(seed + GAMMA) + stream * GAMMA);
}

uint64_t sim_rng(struct sim_rng *rng)
{
	rng->state += GAMMA;
	return mix(rng->state);
}

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->tie < b->tie;
}

/* Merge two trees. */
static struct sim_event *meld(struct sim_event *a, struct sim_event *b)
{
	struct sim_event *low;

	if (!a || !b)
		return a ? a : b;
	if (is_before(b, a)) {
		low = b;
		b = a;
	} else {
		low = a;
	}
	b->next = low->child;
	if (b->next)
		b->next->pprev = &b->next;
	b->pprev = &low->child;
	low->child = b;
	return low;
}

/* Merge a list of siblings to one tree: by pairs, and then the results. */
static struct sim_event *meld_all(struct sim_event *list)
{
	struct sim_event *pairs = NULL, *root = NULL, *a, *b;

	while ((a = list)) {
		b = a->next;
		list = b ? b->next : NULL;
		a->next = NULL;
		if (b)
			b->next = NULL;
		a = meld(a, b);
		a->next = pairs;
		pairs = a;
	}
	while ((a = pairs)) {
		pairs = a->next;
		a->next = NULL;
		root = meld(root, a);
	}
	return root;
}

static void set_root(struct weir_sim *sim, struct sim_event *root)
{
	sim->heap = root;
	if (root) {
		root->next = NULL;
		root->pprev = &sim->heap;
	}
}

void sim_at(struct weir_sim *sim, struct sim_event *ev, uint64_t delay_ns)
{
	ev->at_ns = delay_ns < WEIR_FOREVER - sim->now_ns ?
			    sim->now_ns + delay_ns : WEIR_FOREVER - 1;
	ev->tie = (uint32_t)sim_rng(&sim->order);
	ev->child = NULL;
	ev->next = NULL;
	ev->queued = true;
	set_root(sim, meld(sim->heap, ev));
}

void sim_unqueue(struct weir_sim *sim, struct sim_event *ev)
{
	struct sim_event *below;

	if (!ev->queued)
		return;
	ev->queued = false;
	below = meld_all(ev->child);
	if (sim->heap == ev) {
		set_root(sim, below);
		return;
	}
	*ev->pprev = ev->next;
	if (ev->next)
		ev->next->pprev = ev->pprev;
	set_root(sim, meld(sim->heap, below));
}

uint64_t sim_latency_of(struct weir_sim *sim, const struct latency *l)
{
	uint64_t ns = l->min_ns, part, draw;

	/* Halve at random, again and again: a geometric draw, in integers. */
	part = l->mean_ns;
	draw = sim_rng(&sim->time);
	while (part && draw & 1) {
		ns += part;
		draw >>= 1;
		if (!draw)
			break;
	}
	return ns + (part ? (draw >> 32) % part : 0);
}
