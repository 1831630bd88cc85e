/* SPDX-License-Identifier: BSD-3-Clause */
/* Cards in a world: creation, the calls of tests, and moves.  The answers of a
 * MAPPED card (where its bytes are) are counted; each is taken back once. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/op.h>

#include "base/opts.h"
#include "base/own.h"
#include "base/why.h"
#include "sim/card.h"


#define DEPTH 64
#define DEPTH_MAX 65536
#define FLAGS (WEIR_SIM_CARD_TRANSFER | WEIR_SIM_CARD_MAPPED | \
	       WEIR_SIM_CARD_EAGER | WEIR_SIM_CARD_SHORT)

static int translate(struct weir_domain *src, void *src_ctx,
		     struct weir_domain *dst, void *dst_ctx, uint64_t addr,
		     size_t len, struct weir_translation *ret)
{
	struct weir_sim_card *c = weir_domain_ctx(src);
	struct answer *a;

	(void)src_ctx, (void)dst_ctx;
	if (!c->open)
		return -ENODEV;
	if (addr > c->mem.len || len > c->mem.len - addr)
		return -ERANGE;
	if (weir_domain_kind(dst) != WEIR_DOMAIN_SYSTEM ||
	    sim_fault(c->mem.sim, WEIR_SIM_REFUSED, c->mem.name))
		return -EOPNOTSUPP;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->id = (uintptr_t)++c->stats.translated;
	a->next = c->answers;
	c->answers = a;
	ret->domain = dst;
	ret->iov.iov_base = c->mem.bytes + addr;
	ret->iov.iov_len = len;
	ret->n_iov = 1;
	ret->data = (void *)a->id;
	return 0;
}

static void invalidate(struct weir_domain *domain, void *ctx,
		       const struct weir_translation *t)
{
	struct weir_sim_card *c = weir_domain_ctx(domain);
	struct answer **at = &c->answers, *a;

	(void)ctx;
	while (*at && (*at)->id != (uintptr_t)t->data)
		at = &(*at)->next;
	a = *at;
	if (!a) {
		c->stats.unknown++;
		return;
	}
	*at = a->next;
	free(a);
	c->stats.invalidated++;
}

static void sim_card_open_memory(struct weir_sim_card *c);

static void card_free(struct sim_mem *m)
{
	struct weir_sim_card *c = sim_card_of(m);
	struct answer *a;

	while ((a = c->answers)) {
		c->answers = a->next;
		free(a);
	}
	for (uint32_t i = 0; i < c->depth; i++)
		sim_unqueue(m->sim, &c->works[i].done);
	sim_card_open_memory(c);
	sim_mem_fini(m);
	free(c);
}

static void sim_card_cut(struct sim_mem *m);
static void sim_card_heal(struct sim_mem *m);

static const struct sim_mem_class sim_card_class = {
	.what = "card",
	.cut = sim_card_cut,
	.heal = sim_card_heal,
	.free = card_free,
};

static int check_opts(const struct weir_sim_card_opts *opts)
{
	if (opts->bytes && opts->depth <= DEPTH_MAX && !opts->reserved &&
	    !(opts->align & (opts->align - 1)) && !(opts->flags & ~FLAGS))
		return 0;
	return why(-EINVAL, "weir_sim_card_create: .bytes is 0, .depth is more "
		   "than %d, .align no power of 2, or .flags or .reserved has "
		   "bits that mean nothing", DEPTH_MAX);
}

static void sim_card_done(struct weir_sim *sim, struct sim_event *ev);
static void sim_card_put_slot(struct work *w);

static struct weir_sim_card *make(const struct weir_sim_card_opts *opts)
{
	uint32_t depth = opts->depth ? opts->depth : DEPTH;
	struct weir_sim_card *c;

	c = calloc(1, sizeof(*c) + depth * sizeof(c->works[0]));
	if (!c)
		return NULL;
	c->flags = opts->flags;
	c->align = opts->align ? opts->align : 1;
	c->depth = depth;
	c->open = true;
	while (depth--) {
		c->works[depth].card = c;
		c->works[depth].done.fire = sim_card_done;
		sim_card_put_slot(&c->works[depth]);
	}
	return c;
}

static void sim_card_set_moves(struct weir_sim_card *c);

static void set_functions(struct weir_sim_card *c)
{
	sim_card_set_moves(c);
	if (!(c->flags & WEIR_SIM_CARD_MAPPED))
		return;
	weir_domain_set_translate(c->mem.domain, translate);
	weir_domain_set_invalidate(c->mem.domain, invalidate);
}

static void sim_card_close_memory(struct weir_sim_card *c);

int weir_sim_card_create(struct weir_sim_card **ret, struct weir_sim *sim,
			 const struct weir_sim_card_opts *user)
{
	struct weir_sim_card_opts opts;
	struct weir_sim_card *c;
	int err = opts_load(&opts, sizeof(opts), user, "weir_sim_card_create");

	if (!err)
		err = check_opts(&opts);
	if (err)
		return err;
	c = make(&opts);
	if (!c)
		return why(-ENOMEM, "weir_sim_card_create: no memory");
	err = sim_mem_init(&c->mem, sim, &sim_card_class,
			   opts.name ? opts.name : "card", opts.bytes);
	if (err) {
		free(c);
		return err;
	}
	set_functions(c);
	sim_card_close_memory(c);
	*ret = c;
	return 0;
}

int weir_sim_card_destroy(struct weir_sim_card *c)
{
	int err = c ? weir_domain_destroy(c->mem.domain) : 0;

	if (c && !err)
		card_free(&c->mem);
	return err;
}

struct weir_domain *weir_sim_card_domain(const struct weir_sim_card *c)
{
	return c->mem.domain;
}

static int check_range(const struct weir_sim_card *c, uint64_t addr, size_t len,
		       const char *call)
{
	if (addr <= c->mem.len && len <= c->mem.len - addr)
		return 0;
	return why(-ERANGE, "%s: %zu bytes from %llu on; the card has %llu",
		   call, len, (unsigned long long)addr,
		   (unsigned long long)c->mem.len);
}

int weir_sim_card_put(struct weir_sim_card *c, uint64_t addr, const void *src,
		      size_t len)
{
	int err = check_range(c, addr, len, "weir_sim_card_put");

	if (err)
		return err;
	sim_card_open_memory(c);
	memcpy(c->mem.bytes + addr, src, len);
	sim_card_close_memory(c);
	return 0;
}

int weir_sim_card_get(struct weir_sim_card *c, uint64_t addr, void *dst,
		      size_t len)
{
	int err = check_range(c, addr, len, "weir_sim_card_get");

	if (err)
		return err;
	sim_card_open_memory(c);
	memcpy(dst, c->mem.bytes + addr, len);
	sim_card_close_memory(c);
	return 0;
}

void weir_sim_card_reset(struct weir_sim_card *c)
{
	sim_card_cut(&c->mem);
}

static void sim_card_set_memory(struct weir_sim_card *c, int byte);

int weir_sim_card_open(struct weir_sim_card *c)
{
	if (c->open)
		return why(-EALREADY, "weir_sim_card_open: card %s is open",
			   c->mem.name);
	sim_card_set_memory(c, 0);
	c->open = true;
	return 0;
}

int weir_sim_card_stats(const struct weir_sim_card *c,
			struct weir_sim_card_stats *ret)
{
	return opts_give(ret, &c->stats, sizeof(c->stats),
			 "weir_sim_card_stats");
}

/*
 * A card with memory of its own.  Each move has a slot, and an event at which
 * the whole move is made; so moves end in any order.
 *
 * Except during a move the memory is poisoned, so that ASan and valgrind report
 * other accesses; the memory of a MAPPED card is not.
 */

#ifdef OWN_ASAN
#include <sanitizer/asan_interface.h>
#endif
#ifdef WEIR_VALGRIND
#include <valgrind/memcheck.h>
#endif

#define CODE_RESET 1
#define CODE_FAULT 2
#define NOISE 0xdb

static void sim_card_close_memory(struct weir_sim_card *c)
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

/* Allow and forbid accesses to its memory, around each of its own. */
static void sim_card_open_memory(struct weir_sim_card *c)
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

/* While an answer is valid, the processor or a read may access the memory. */
static void sim_card_set_memory(struct weir_sim_card *c, int byte)
{
	if (c->answers)
		return;
	sim_card_open_memory(c);
	memset(c->mem.bytes, byte, (size_t)c->mem.len);
	sim_card_close_memory(c);
}

/* Free the slot of @w. */
static void sim_card_put_slot(struct work *w)
{
	debug_check(!w->next || w->op);
	w->op = NULL;
	w->next = w->card->free;
	w->card->free = w;
}

static void finish(struct work *w, uint64_t n, int64_t res, int32_t code)
{
	struct weir_op_detail detail = { .bytes = n, .code = code };
	struct weir_sim_card *c = w->card;
	struct weir_op *op = w->op;

	debug_check(w->op && n <= w->len);
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

	debug_check(n <= w->len);
	sim_card_open_memory(c);
	if (w->from)
		sim_card_open_memory(w->from);
	sim_mem_move(&c->mem, w->move, (enum sim_move)w->kind,
		     w->from ? &w->from->mem : NULL, n);
	if (w->from)
		sim_card_close_memory(w->from);
	sim_card_close_memory(c);
}

/* Move a part of it, and then fail with @err. */
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

	debug_check(w->op);
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
			n = sim_below(sim_fault_rng(sim, WEIR_SIM_SHORT), n);
		move(w, n);
		finish(w, n, (int64_t)n, 0);
	}
}

/* The event of a slot. */
static void sim_card_done(struct weir_sim *sim, struct sim_event *ev)
{
	(void)sim;
	do_work(weir_container_of(ev, struct work, done));
}

/* Schedule it; or make the move at once, and report in the start that it is
 * complete. */
static void begin(struct work *w)
{
	struct weir_sim_card *c = w->card;
	struct weir_sim *sim = c->mem.sim;
	uint64_t ns;

	debug_check(w->op);
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

	if (c->mem.sim->here)
		return -EOPNOTSUPP;	/* A kill could not take it back. */
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

/* A move that is not stuck may complete before the cancel takes effect. */
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

static void sim_card_cut(struct sim_mem *m)
{
	reset(sim_card_of(m));
}

static void sim_card_heal(struct sim_mem *m)
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

/* Make it the functions of a domain. */
static void sim_card_set_moves(struct weir_sim_card *c)
{
	weir_domain_set_pull(c->mem.domain, pull);
	weir_domain_set_push(c->mem.domain, push);
	weir_domain_set_fill(c->mem.domain, fill);
	weir_domain_set_cancel(c->mem.domain, cancel);
	if (c->flags & WEIR_SIM_CARD_TRANSFER)
		weir_domain_set_transfer(c->mem.domain, transfer);
}
