/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A card with memory of its own.  Each move has a slot, and an event at which
 * it is done all at once; so they end in any order.
 *
 * The memory is poisoned while no move is being done, so that ASan and valgrind
 * report who else touches it; unless it is MAPPED.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/op.h>

#include "base/own.h"
#include "sim/card.h"

#ifdef OWN_ASAN
#include <sanitizer/asan_interface.h>
#endif
#ifdef WEIR_VALGRIND
#include <valgrind/memcheck.h>
#endif

#define CODE_RESET 1
#define CODE_FAULT 2
#define NOISE 0xdb

void sim_card_close_memory(struct weir_sim_card *c)
{
	if (c->flags & WEIR_SIM_CARD_MAPPED)
		return;
#ifdef OWN_ASAN
	__asan_poison_memory_region(c->mem.bytes, (size_t)c->mem.len);
#endif
#ifdef WEIR_VALGRIND
	VALGRIND_MAKE_MEM_NOACCESS(c->mem.bytes, c->mem.len);
#endif
}

void sim_card_open_memory(struct weir_sim_card *c)
{
	if (c->flags & WEIR_SIM_CARD_MAPPED)
		return;
#ifdef OWN_ASAN
	__asan_unpoison_memory_region(c->mem.bytes, (size_t)c->mem.len);
#endif
#ifdef WEIR_VALGRIND
	VALGRIND_MAKE_MEM_DEFINED(c->mem.bytes, c->mem.len);
#endif
}

/* Where an answer is good, somebody may be at it: the processor, or a read. */
void sim_card_set_memory(struct weir_sim_card *c, int byte)
{
	if (c->answers)
		return;
	sim_card_open_memory(c);
	memset(c->mem.bytes, byte, (size_t)c->mem.len);
	sim_card_close_memory(c);
}

void sim_card_put_slot(struct work *w)
{
	w->op = NULL;
	w->next = w->card->free;
	w->card->free = w;
}

static void finish(struct work *w, uint64_t n, int64_t res, int32_t code)
{
	struct weir_op_detail detail = { .bytes = n, .code = code };
	struct weir_sim_card *c = w->card;
	struct weir_op *op = w->op;

	sim_unqueue(c->mem.sim, &w->done);
	c->stats.ended++;
	c->stats.failed += res < 0;
	sim_mem_ends(&c->mem, (enum sim_move)w->kind, w->serial, res);
	sim_card_put_slot(w);
	weir_domain_set_detail(op, &detail);
	weir_domain_complete(op, res);
}

static void move(struct work *w, uint64_t n)
{
	struct weir_sim_card *c = w->card;

	sim_card_open_memory(c);
	if (w->from)
		sim_card_open_memory(w->from);
	sim_mem_move(&c->mem, w->move, (enum sim_move)w->kind,
		     w->from ? &w->from->mem : NULL, n);
	if (w->from)
		sim_card_close_memory(w->from);
	sim_card_close_memory(c);
}

/* A part of it, and then @err. */
static void fail_half(struct work *w, int err, int32_t code)
{
	uint64_t n = sim_below(&w->card->mem.sim->chance, w->len);

	move(w, n);
	finish(w, n, err, code);
}

static void reset(struct weir_sim_card *c)
{
	struct work *w;

	sim_trace(c->mem.sim, "card %s is reset", c->mem.name);
	c->open = false;
	c->stats.resets++;
	sim_card_set_memory(c, NOISE);
	for (w = c->works; w < c->works + c->depth; w++)
		if (w->op)
			finish(w, 0, -ENODEV, CODE_RESET);
}

static bool is_short(struct work *w)
{
	return w->card->flags & WEIR_SIM_CARD_SHORT && w->len > 1 &&
	       sim_fault(w->card->mem.sim, WEIR_SIM_SHORT, w->card->mem.name);
}

static void do_work(struct work *w)
{
	struct weir_sim_card *c = w->card;
	struct weir_sim *sim = c->mem.sim;
	uint64_t n = w->len;

	if (w->cancelled) {
		fail_half(w, -ECANCELED, 0);
	} else if (w->from && w->from->stats.resets != w->from_resets) {
		finish(w, 0, -ENODEV, CODE_RESET);
	} else if (sim_fault(sim, WEIR_SIM_CRASH, c->mem.name)) {
		reset(c);
	} else if (sim_fault(sim, WEIR_SIM_ERROR, c->mem.name)) {
		fail_half(w, -EIO, CODE_FAULT);
	} else {
		if (is_short(w))
			n = sim_below(&sim->fault_rng[WEIR_SIM_SHORT], n);
		move(w, n);
		finish(w, n, (int64_t)n, 0);
	}
}

void sim_card_done(struct weir_sim *sim, struct sim_event *ev)
{
	(void)sim;
	do_work(weir_container_of(ev, struct work, done));
}

/* Give it time; or do it at once, and tell in the start that it is done. */
static void begin(struct work *w)
{
	struct weir_sim_card *c = w->card;
	struct weir_sim *sim = c->mem.sim;
	uint64_t ns;

	if (c->flags & WEIR_SIM_CARD_EAGER && sim_rng(&sim->chance) & 1) {
		c->stats.in_start++;
		do_work(w);
		return;
	}
	ns = sim_mem_latency(&c->mem, w->len);
	w->stuck = sim_fault(sim, WEIR_SIM_STUCK, c->mem.name);
	if (w->stuck)
		ns = sim_mem_stuck(&c->mem);
	if (ns != WEIR_FOREVER)
		sim_at(sim, &w->done, ns);
}

static int refuse(struct weir_sim_card *c, const struct weir_domain_move *move,
		  enum sim_move kind, struct weir_sim_card *from)
{
	int err;

	if (!c->open || (from && !from->open))
		return -ENODEV;
	err = sim_mem_check(&c->mem, sim_side(move, kind), c->align);
	if (!err && from)
		err = sim_mem_check(&from->mem, &move->src, from->align);
	if (err)
		return err;
	if (!c->free || sim_fault(c->mem.sim, WEIR_SIM_REFUSED, c->mem.name))
		return -EAGAIN;
	return 0;
}

static int start(struct weir_sim_card *c, struct weir_op *op,
		 const struct weir_domain_move *move, enum sim_move kind,
		 struct weir_sim_card *from)
{
	struct work *w = c->free;
	int err = refuse(c, move, kind, from);

	if (err) {
		c->stats.refused++;
		return err;
	}
	c->free = w->next;
	c->stats.started++;
	w->op = op;
	w->move = move;
	w->from = from;
	w->from_resets = from ? from->stats.resets : 0;
	w->kind = (uint8_t)kind;
	w->stuck = false;
	w->cancelled = false;
	w->len = sim_side_len(sim_side(move, kind));
	w->serial = ++c->mem.sim->serial;
	sim_mem_begins(&c->mem, kind, w->serial, w->len);
	weir_domain_set_op_data(op, w);
	begin(w);
	return 0;
}

static int pull(struct weir_domain *domain, struct weir_reactor *r,
		struct weir_op *op, const struct weir_domain_move *move)
{
	(void)r;
	return start(weir_domain_ctx(domain), op, move, SIM_PULL, NULL);
}

static int push(struct weir_domain *domain, struct weir_reactor *r,
		struct weir_op *op, const struct weir_domain_move *move)
{
	(void)r;
	return start(weir_domain_ctx(domain), op, move, SIM_PUSH, NULL);
}

static int fill(struct weir_domain *domain, struct weir_reactor *r,
		struct weir_op *op, const struct weir_domain_move *move)
{
	(void)r;
	return start(weir_domain_ctx(domain), op, move, SIM_FILL, NULL);
}

static int transfer(struct weir_domain *domain, struct weir_reactor *r,
		    struct weir_op *op, const struct weir_domain_move *move)
{
	struct weir_sim_card *c = weir_domain_ctx(domain);
	struct sim_mem *from = sim_mem_find(c->mem.sim, move->src.domain);

	(void)r;
	if (!from || from->cls != &sim_card_class)
		return -EXDEV;
	return start(c, op, move, SIM_TRANSFER, sim_card_of(from));
}

/* It may be too late for what is not stuck. */
static void cancel(struct weir_domain *domain, struct weir_op *op)
{
	struct weir_sim_card *c = weir_domain_ctx(domain);
	struct work *w = weir_domain_op_data(op);
	struct weir_sim *sim = c->mem.sim;

	if (!w->stuck && !(sim_rng(&sim->chance) & 3))
		return;
	w->cancelled = true;
	sim_unqueue(sim, &w->done);
	sim_at(sim, &w->done, sim_latency(sim, WEIR_SIM_MEMORY));
}

void sim_card_cut(struct sim_mem *m)
{
	reset(sim_card_of(m));
}

void sim_card_heal(struct sim_mem *m)
{
	struct weir_sim_card *c = sim_card_of(m);
	struct work *w;

	for (w = c->works; w < c->works + c->depth; w++) {
		if (!w->op || !w->stuck || w->cancelled)
			continue;
		w->stuck = false;
		sim_unqueue(m->sim, &w->done);
		sim_at(m->sim, &w->done, sim_latency(m->sim,
						     WEIR_SIM_MEMORY));
	}
}

void sim_card_set_moves(struct weir_sim_card *c)
{
	weir_domain_set_pull(c->mem.domain, pull);
	weir_domain_set_push(c->mem.domain, push);
	weir_domain_set_fill(c->mem.domain, fill);
	weir_domain_set_cancel(c->mem.domain, cancel);
	if (c->flags & WEIR_SIM_CARD_TRANSFER)
		weir_domain_set_transfer(c->mem.domain, transfer);
}
