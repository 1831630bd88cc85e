/* SPDX-License-Identifier: BSD-3-Clause */
/* Cards: their making, what a test may do with one, and where the bytes of one
 * that is MAPPED are: each answer is counted, and taken back once. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/opts.h"
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

const struct sim_mem_class sim_card_class = {
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

static void set_functions(struct weir_sim_card *c)
{
	sim_card_set_moves(c);
	if (!(c->flags & WEIR_SIM_CARD_MAPPED))
		return;
	weir_domain_set_translate(c->mem.domain, translate);
	weir_domain_set_invalidate(c->mem.domain, invalidate);
}

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
