/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory in a world that belongs to a peer or a card: the common part. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/why.h"
#include "mem/domain-internal.h"
#include "sim/memory.h"

#define BYTES_IN_NS 16		/* That move, beside the latency. */
#define STUCK_NS (30 * WEIR_SEC)

/* All of a world. */
struct memory_part {
	struct sim_part part;
	struct sim_mem *first;
};

static struct memory_part *memory_of(struct sim_part *part)
{
	return weir_container_of(part, struct memory_part, part);
}

static void cut(struct sim_part *part, const char *prefix)
{
	struct sim_mem *m;

	for (m = memory_of(part)->first; m; m = m->next)
		if (!strncmp(m->name, prefix, strlen(prefix)))
			m->cls->cut(m);
}

static void heal(struct sim_part *part)
{
	struct sim_mem *m;

	for (m = memory_of(part)->first; m; m = m->next)
		m->cls->heal(m);
}

/* When a world has been destroyed, none of it is in use: no move is left, and a
 * user's report that it has finished would call freed memory. */
static int may_destroy(const struct sim_part *part)
{
	const struct sim_mem *m = memory_of((struct sim_part *)part)->first;
	int err = 0;

	for (; m && !err; m = m->next)
		err = domain_may_destroy(m->domain, "weir_sim_destroy");
	return err;
}

/* Only if no other thread has begun to use it since the check. */
static void destroy(struct sim_part *part)
{
	struct sim_mem *m;

	while ((m = memory_of(part)->first)) {
		memory_of(part)->first = m->next;
		if (m->next)
			m->next->pprev = &memory_of(part)->first;
		m->pprev = NULL;
		if (!weir_domain_destroy(m->domain))
			m->cls->free(m);
	}
	free(memory_of(part));
}

static struct memory_part *memory_in(struct weir_sim *sim)
{
	struct sim_part *part = sim_part(sim, "memory");
	struct memory_part *mp;

	if (part)
		return memory_of(part);
	mp = calloc(1, sizeof(*mp));
	if (!mp)
		return NULL;
	mp->part.name = "memory";
	mp->part.cut = cut;
	mp->part.heal = heal;
	mp->part.may_destroy = may_destroy;
	mp->part.destroy = destroy;
	sim_part_add(sim, &mp->part);
	return mp;
}

int sim_mem_init(struct sim_mem *m, struct weir_sim *sim,
		 const struct sim_mem_class *cls, const char *name,
		 uint64_t len)
{
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_USER, .id = name,
		.ctx = m,
	};
	struct memory_part *mp = memory_in(sim);
	struct sim_mem **end;

	m->sim = sim;
	m->cls = cls;
	m->len = len;
	m->name = strdup(name);
	m->bytes = len > SIZE_MAX ? NULL : calloc(1, (size_t)len);
	if (!mp || !m->name || !m->bytes ||
	    weir_domain_create(&m->domain, &opts)) {
		sim_mem_fini(m);
		return why(-ENOMEM, "a simulated %s: no memory", cls->what);
	}
	for (end = &mp->first; *end; end = &(*end)->next)
		;
	m->pprev = end;
	*end = m;
	return 0;
}

struct sim_mem *sim_mem_find(struct weir_sim *sim,
			     const struct weir_domain *domain)
{
	struct memory_part *mp = memory_in(sim);
	struct sim_mem *m = mp ? mp->first : NULL;

	while (m && m->domain != domain)
		m = m->next;
	return m;
}

void sim_mem_fini(struct sim_mem *m)
{
	if (m->pprev) {
		*m->pprev = m->next;
		if (m->next)
			m->next->pprev = m->pprev;
	}
	free(m->name);
	free(m->bytes);
}

const struct weir_domain_side *sim_side(const struct weir_domain_move *move,
					enum sim_move kind)
{
	return kind == SIM_PULL ? &move->src : &move->dst;
}

uint64_t sim_side_len(const struct weir_domain_side *side)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < side->n_iov; i++)
		sum += side->iov[i].iov_len;
	return sum;
}

int sim_mem_check(const struct sim_mem *m, const struct weir_domain_side *side,
		  uint32_t align)
{
	uint64_t addr, len;

	for (uint32_t i = 0; i < side->n_iov; i++) {
		addr = (uintptr_t)side->iov[i].iov_base;
		len = side->iov[i].iov_len;
		if (addr > m->len || len > m->len - addr)
			return -ERANGE;
		if (addr % align || len % align)
			return -EINVAL;
	}
	return 0;
}

/* A position in the pieces of a side. */
struct place {
	const struct iovec *iov;
	uint64_t skip;
	char *base;		/* What the addresses are offsets from. */
};

/* The bytes at the position that are in one piece, at most @max. */
static char *next(struct place *p, uint64_t max, uint64_t *len)
{
	char *at;

	while (p->skip == p->iov->iov_len) {
		p->iov++;
		p->skip = 0;
	}
	at = (char *)((uintptr_t)p->base + (uintptr_t)p->iov->iov_base) +
	     p->skip;
	*len = p->iov->iov_len - p->skip;
	if (*len > max)
		*len = max;
	return at;
}

static void fill(char *to, uint64_t n, uint64_t pattern, uint64_t phase)
{
	for (uint64_t i = 0; i < n; i++)
		to[i] = (char)(pattern >> ((phase + i) & 7) * 8);
}

static void fill_all(struct place to, uint64_t n, uint64_t pattern)
{
	uint64_t some, done;
	char *t;

	for (done = 0; done < n; done += some) {
		t = next(&to, n - done, &some);
		fill(t, some, pattern, done);
		to.skip += some;
	}
}

void sim_mem_move(struct sim_mem *m, const struct weir_domain_move *move,
		  enum sim_move kind, const struct sim_mem *from, uint64_t n)
{
	struct place src = { move->src.iov, 0, NULL };
	struct place dst = { move->dst.iov, 0, NULL };
	uint64_t there, some;
	char *s, *d;

	if (kind == SIM_PULL)
		src.base = m->bytes;
	else
		dst.base = m->bytes;
	if (kind == SIM_TRANSFER)
		src.base = from->bytes;
	if (kind == SIM_FILL) {
		fill_all(dst, n, move->pattern);
		return;
	}
	for (; n; n -= some) {
		s = next(&src, n, &there);
		d = next(&dst, there, &some);
		memmove(d, s, some);
		src.skip += some;
		dst.skip += some;
	}
}

static const char *const kinds[] = { "read", "write", "fill", "transfer" };

void sim_mem_begins(struct sim_mem *m, enum sim_move kind, uint32_t serial,
		    uint64_t len)
{
	if (sim_traced(m->sim))
		sim_trace(m->sim, "%s %s: %s %u of %llu bytes begins",
			  m->cls->what, m->name, kinds[kind], serial,
			  (unsigned long long)len);
}

void sim_mem_ends(struct sim_mem *m, enum sim_move kind, uint32_t serial,
		  int64_t res)
{
	sim_mix(m->sim, (uint64_t)serial << 8 | 0x80 | (uint64_t)kind);
	sim_mix(m->sim, (uint64_t)res);
	if (sim_traced(m->sim))
		sim_trace(m->sim, "%s %s: %s %u: %lld", m->cls->what, m->name,
			  kinds[kind], serial, (long long)res);
}

uint64_t sim_mem_latency(struct sim_mem *m, uint64_t len)
{
	uint64_t ns = sim_latency(m->sim, WEIR_SIM_MEMORY) + len / BYTES_IN_NS;

	if (sim_fault(m->sim, WEIR_SIM_DELAY, m->name))
		ns *= 2 + sim_below(sim_fault_rng(m->sim, WEIR_SIM_DELAY), 1000);
	return ns;
}

uint64_t sim_mem_stuck(struct sim_mem *m)
{
	return sim_rng(sim_fault_rng(m->sim, WEIR_SIM_STUCK)) & 1 ? STUCK_NS :
								 WEIR_FOREVER;
}
