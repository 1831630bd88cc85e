/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which reactor has the next turn.
 *
 * In a world of few reactors each step evaluates all of them, so that it also
 * finds work for which its reactor was not woken.  In a world of many, a step
 * evaluates those that were touched since the last one: by their own turn, the
 * end of an operation, a change of a descriptor that they watch, a wake-up.  A
 * reactor is
 *
 *	READY	in .ready, in no order: it may have its turn
 *	ASLEEP	in .sleepers, a heap by the time at which it is due
 *	IDLE	in neither: only a touch makes it due
 */

#include <stdlib.h>
#include <string.h>

#include "sim/world.h"

#define FEW 32

enum { IDLE, READY, ASLEEP };

uint64_t sim_next_turn(const struct sim_reactor *sr)
{
	return sim_world_time(sr->host, reactor_next_turn(sr->r));
}

/* When @sr can have its next turn: now, later, or WEIR_FOREVER. */
static uint64_t turn_due(const struct sim_reactor *sr)
{
	uint64_t at;

	if (reactor_is_entered(sr->r) || !sim_host_runs(sr->host))
		return WEIR_FOREVER;
	at = sim_next_turn(sr);
	return at > sr->free_at_ns ? at : sr->free_at_ns < WEIR_FOREVER &&
	       at != WEIR_FOREVER ? sr->free_at_ns : at;
}

void sim_touch_all(struct weir_sim *sim)
{
	struct sim_reactor *sr;

	for (sr = sim->n_live > FEW ? sim->reactors : NULL; sr; sr = sr->next)
		sim_touch(sr);
}

/* The heap. */

static void put(struct weir_sim *sim, struct sim_reactor *sr, uint32_t i)
{
	sim->sleepers[i] = sr;
	sr->index = i;
}

static bool is_before(const struct sim_reactor *a, const struct sim_reactor *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->id < b->id;
}

static void sift(struct weir_sim *sim, struct sim_reactor *sr, uint32_t i)
{
	struct sim_reactor **heap = sim->sleepers;
	uint32_t child;

	for (; i && is_before(sr, heap[(i - 1) / 2]); i = (i - 1) / 2)
		put(sim, heap[(i - 1) / 2], i);
	while ((child = 2 * i + 1) < sim->n_sleepers) {
		if (child + 1 < sim->n_sleepers &&
		    is_before(heap[child + 1], heap[child]))
			child++;
		if (!is_before(heap[child], sr))
			break;
		put(sim, heap[child], i);
		i = child;
	}
	put(sim, sr, i);
}

static void leave(struct sim_reactor *sr)
{
	struct weir_sim *sim = sr->sim;
	struct sim_reactor *last;

	if (sr->place == READY) {
		last = sim->ready[--sim->n_ready];
		sim->ready[sr->index] = last;
		last->index = sr->index;
	} else if (sr->place == ASLEEP) {
		last = sim->sleepers[--sim->n_sleepers];
		if (last != sr)
			sift(sim, last, sr->index);
	}
	sr->place = IDLE;
}

static void get_ready(struct sim_reactor *sr)
{
	leave(sr);
	sr->place = READY;
	sr->index = sr->sim->n_ready;
	sr->sim->ready[sr->sim->n_ready++] = sr;
}

/* Evaluate it, and put it where it belongs. */
static void place(struct sim_reactor *sr)
{
	struct weir_sim *sim = sr->sim;
	uint64_t due = turn_due(sr);

	if (due <= sim->now_ns) {
		if (sr->place != READY)
			get_ready(sr);
		return;
	}
	leave(sr);
	if (due != WEIR_FOREVER) {
		sr->place = ASLEEP;
		sr->due_ns = due;
		sift(sim, sr, sim->n_sleepers++);
	}
	/* Whoever has work for it wakes it from now on. */
	if (!reactor_is_entered(sr->r))
		sim_fall_asleep(sr);
}

/* Hooks find work that the world does not know of: ask them in each step. */
static void place_touched(struct weir_sim *sim)
{
	struct sim_reactor *sr, *next = sim->touched;

	sim->touched = NULL;
	while ((sr = next)) {
		next = sr->next_touched;
		sr->touched = false;
		place(sr);
		if (sr->r->n_hooks)
			sim_touch(sr);
	}
}

static struct sim_reactor *pick_of_many(struct weir_sim *sim,
					uint64_t *next_ns)
{
	struct sim_reactor *sr;

	place_touched(sim);
	while (sim->n_sleepers && sim->sleepers[0]->due_ns <= sim->now_ns)
		get_ready(sim->sleepers[0]);
	while (sim->n_ready) {
		sr = sim->ready[sim_below(&sim->order, sim->n_ready)];
		if (turn_due(sr) <= sim->now_ns) {
			*next_ns = sim->now_ns;
			return sr;
		}
		place(sr);	/* Another one has taken what it was for. */
	}
	*next_ns = sim->n_sleepers ? sim->sleepers[0]->due_ns : WEIR_FOREVER;
	return NULL;
}

static struct sim_reactor *pick_of_few(struct weir_sim *sim, uint64_t *next_ns)
{
	struct sim_reactor *sr, *picked = NULL;
	uint64_t at;
	uint32_t n = 0;

	*next_ns = WEIR_FOREVER;
	for (sr = sim->reactors; sr; sr = sr->next) {
		at = turn_due(sr);
		if (at < *next_ns)
			*next_ns = at;
		if (at <= sim->now_ns && !sim_below(&sim->order, ++n))
			picked = sr;
	}
	return picked;
}

struct sim_reactor *sim_pick(struct weir_sim *sim, uint64_t *next_ns)
{
	return sim->n_live > FEW ? pick_of_many(sim, next_ns) :
				   pick_of_few(sim, next_ns);
}

int sim_schedule_add(struct sim_reactor *sr)
{
	struct weir_sim *sim = sr->sim;
	uint32_t max = sim->max_live ? 2 * sim->max_live : 16;
	struct sim_reactor **ready, **sleepers;

	if (sim->n_live == sim->max_live) {
		ready = realloc(sim->ready, max * sizeof(*ready));
		if (!ready)
			return -ENOMEM;
		sim->ready = ready;
		sleepers = realloc(sim->sleepers, max * sizeof(*sleepers));
		if (!sleepers)
			return -ENOMEM;
		sim->sleepers = sleepers;
		sim->max_live = max;
	}
	/* The first of many: the others were not touched before. */
	if (++sim->n_live == FEW + 1)
		sim_touch_all(sim);
	sim_touch(sr);
	return 0;
}

void sim_schedule_del(struct sim_reactor *sr)
{
	struct sim_reactor **at = &sr->sim->touched;

	leave(sr);
	sr->sim->n_live--;
	if (!sr->touched)
		return;
	while (*at != sr)
		at = &(*at)->next_touched;
	*at = sr->next_touched;
}
