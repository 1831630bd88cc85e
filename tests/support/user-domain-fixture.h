/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_USER_DOMAIN_FIXTURE_H
#define TESTS_USER_DOMAIN_FIXTURE_H

/*
 * A user's domain for tests: an array whose addresses are offsets.  It stores
 * bytes inverted, and makes moves at once or later, or refuses them.
 */

#include "tests/support/job-fixture.h"

#include <weir/domain-user.h>

#define LEN 65536u

enum when { INSIDE, LATER };

/* What a domain has been called with, and how it is to behave. */
struct user_domain {
	struct weir_domain *d;
	char mem[LEN];
	enum when when;
	int refuse; /* What the next calls return. */
	int64_t end; /* < 0: with which they end. */
	uint64_t most; /* They move no more than this. */
	int32_t code;
	const uint32_t *key; /* NULL, or what .ctx has to be. */

	int calls, cancels, translates, invalidates;
	const char *called;
	struct weir_domain *domain;
	struct weir_reactor *r;
	struct weir_op *op;
	const struct weir_domain_move *move;
	uint64_t moved; /* To say when it ends. */
	struct iovec answer[2]; /* Of a translation. */
};

static inline struct user_domain *user_domain_of(struct weir_domain *d)
{
	return weir_domain_ctx(d);
}

static inline char *at(const struct weir_domain_side *side, uint64_t n)
{
	uintptr_t addr = side_at(side, n);

	if (!side->domain || weir_domain_kind(side->domain) < WEIR_DOMAIN_USER)
		return (char *)addr;
	assert_true(addr < LEN);
	return user_domain_of(side->domain)->mem + addr;
}

static inline void end_op(struct user_domain *s)
{
	struct weir_op_detail detail = { .bytes = s->moved, .code = s->code };
	struct weir_op *op = s->op;

	s->op = NULL;
	weir_domain_set_detail(op, &detail);
	weir_domain_complete(op, s->end ? s->end : (int64_t)s->moved);
}

static inline int called(struct user_domain *s, const char *what,
			 struct weir_domain *d, struct weir_reactor *r,
			 struct weir_op *op, const struct weir_domain_move *m,
			 bool invert)
{
	const void *ctx = m->src.ctx ? m->src.ctx : m->dst.ctx;
	uint64_t n = side_total(&m->dst), i;

	s->calls++;
	s->called = what;
	s->domain = d;
	s->r = r;
	s->move = m;
	if (s->refuse)
		return s->refuse;
	if (s->key && (!ctx || *(const uint32_t *)ctx != *s->key))
		return -EBADMSG;
	if (s->most && s->most < n)
		n = s->most;
	for (i = 0; i < n; i++)
		*at(&m->dst, i) =
			m->src.iov ?
				(char)(*at(&m->src, i) ^ (invert ? 0xff : 0)) :
				(char)~(m->pattern >> (i & 7) * 8);
	s->op = op;
	s->moved = n;
	weir_domain_set_op_data(op, s);
	if (s->when == INSIDE)
		end_op(s);
	return 0;
}

#define MOVER(name, invert) \
	static inline int user_domain_##name(struct weir_domain *d, \
					     struct weir_reactor *r, \
					     struct weir_op *op, \
					     const struct weir_domain_move *m) \
	{ \
		return called(user_domain_of(d), #name, d, r, op, m, invert); \
	}

MOVER(pull, true)
MOVER(push, true)
MOVER(transfer, false)
MOVER(fill, false)

static inline void user_domain_cancel(struct weir_domain *d, struct weir_op *op)
{
	struct user_domain *s = weir_domain_op_data(op);

	assert_ptr_equal(d, s->d);
	assert_ptr_equal(op, s->op);
	s->cancels++;
	s->end = -ECANCELED;
	end_op(s);
	s->end = 0;
}

static inline void user_domain_init_with(struct user_domain *s, const char *id,
					 struct weir_domain_opts opts)
{
	opts.size = sizeof(opts);
	opts.kind = WEIR_DOMAIN_USER;
	opts.id = id;
	opts.ctx = s;
	memset(s, 0, sizeof(*s));
	assert_int_equal(weir_domain_create(&s->d, &opts), 0);
}

static inline void user_domain_init(struct user_domain *s, const char *id)
{
	user_domain_init_with(s, id, (struct weir_domain_opts){ 0 });
}

static inline void user_domain_can_all(struct user_domain *s)
{
	assert_int_equal(weir_domain_set_pull(s->d, user_domain_pull), 0);
	assert_int_equal(weir_domain_set_push(s->d, user_domain_push), 0);
	assert_int_equal(weir_domain_set_transfer(s->d, user_domain_transfer),
			 0);
	assert_int_equal(weir_domain_set_fill(s->d, user_domain_fill), 0);
}

static inline void user_domain_end(struct user_domain *s)
{
	assert_int_equal(weir_domain_users(s->d), 0);
	assert_int_equal(weir_domain_destroy(s->d), 0);
}

/* Clear all functions, or be refused. */
static inline void set_all(struct weir_domain *d, int err)
{
	assert_int_equal(weir_domain_set_pull(d, NULL), err);
	assert_int_equal(weir_domain_set_push(d, NULL), err);
	assert_int_equal(weir_domain_set_transfer(d, NULL), err);
	assert_int_equal(weir_domain_set_fill(d, NULL), err);
	assert_int_equal(weir_domain_set_translate(d, NULL), err);
	assert_int_equal(weir_domain_set_invalidate(d, NULL), err);
	assert_int_equal(weir_domain_set_cancel(d, NULL), err);
	if (err)
		assert_starts_with(weir_why(), "weir_domain_set_cancel: ");
}

/* Two stores and memory, and a move between any two of them. */
struct fixture {
	struct weir_reactor *r;
	struct user_domain a, b;
	char mem[LEN];
	struct iovec src, dst;
	struct weir_domain_move m;
	struct rec rec;
};

static inline struct fixture *fixture_begin(void **state)
{
	struct fixture *g = calloc(1, sizeof(*g));

	assert_non_null(g);
	g->r = start_reactor(state);
	user_domain_init(&g->a, "a");
	user_domain_init(&g->b, "b");
	fill_pattern(g->mem, LEN, 0, 1);
	rec_init(&g->rec);
	return g;
}

static inline void fixture_end(struct fixture *g)
{
	user_domain_end(&g->a);
	user_domain_end(&g->b);
	free(g);
}

static inline struct weir_domain_move *move(struct fixture *g,
					    struct weir_domain *dst,
					    struct weir_domain *src)
{
	g->dst = (struct iovec){ dst ? (void *)16 : g->mem, 64 };
	g->src = (struct iovec){ src ? (void *)16 : g->mem, 64 };
	g->m = (struct weir_domain_move){
		.size = sizeof(g->m),
		.src = { .domain = src, .iov = &g->src, .n_iov = 1 },
		.dst = { .domain = dst, .iov = &g->dst, .n_iov = 1 },
	};
	return &g->m;
}

#endif /* TESTS_USER_DOMAIN_FIXTURE_H */
