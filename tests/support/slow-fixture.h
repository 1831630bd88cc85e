/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_SLOW_FIXTURE_H
#define TESTS_SLOW_FIXTURE_H

/*
 * A domain of the user's own that takes its time: what it is asked waits until
 * slow_pump() does it, in any order, well or badly.  Its addresses are offsets
 * in .mem.
 */

#include "tests/support/job-fixture.h"

#include <weir/domain-user.h>

#define SLOW_LEN (1u << 19)
#define SLOW_ASKED 256

struct asked {
	struct weir_op *op;
	const struct weir_domain_move *move;
	bool cancelled;
};

struct slow {
	struct weir_domain *d;
	char *mem;
	unsigned int seed;
	unsigned int fail_in; /* One in so many fails; 0: none. */
	unsigned int refuse_in; /* Is refused, with -EAGAIN. */
	bool stuck; /* Does nothing. */
	int n_asked;
	struct asked asked[SLOW_ASKED];
	uint64_t n_done, n_cancelled;
};

static inline struct slow *slow_of(struct weir_domain *d)
{
	return weir_domain_ctx(d);
}

static inline int slow_ask(struct weir_domain *d, struct weir_reactor *r,
			   struct weir_op *op, const struct weir_domain_move *m)
{
	struct slow *s = slow_of(d);

	(void)r;
	if (s->refuse_in && !((unsigned int)rand_r(&s->seed) % s->refuse_in))
		return -EAGAIN;
	assert_in_range(s->n_asked, 0, SLOW_ASKED - 1);
	s->asked[s->n_asked++] = (struct asked){ .op = op, .move = m };
	return 0;
}

static inline void slow_cancel(struct weir_domain *d, struct weir_op *op)
{
	struct slow *s = slow_of(d);
	int i;

	for (i = 0; i < s->n_asked; i++)
		if (s->asked[i].op == op)
			s->asked[i].cancelled = true;
	s->n_cancelled++;
}

/* Byte by byte: the pieces of the two sides have nothing in common. */
static inline char *slow_at(const struct weir_domain_side *side, uint64_t n)
{
	uintptr_t at = side_at(side, n);

	if (!side->domain || weir_domain_kind(side->domain) < WEIR_DOMAIN_USER)
		return (char *)at;
	assert_in_range(at, 0, SLOW_LEN - 1);
	return slow_of(side->domain)->mem + at;
}

static inline void slow_move(const struct weir_domain_move *m, uint64_t n)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		*slow_at(&m->dst, i) = *slow_at(&m->src, i);
}

/* Do one of those that wait.  Returns whether there was one. */
static inline bool slow_pump(struct slow *s)
{
	struct weir_op_detail detail = { 0 };
	struct asked a;
	uint64_t n;
	int i;

	if (!s->n_asked || s->stuck)
		return false;
	i = rand_r(&s->seed) % s->n_asked;
	a = s->asked[i];
	s->asked[i] = s->asked[--s->n_asked];
	n = side_total(&a.move->dst);
	s->n_done++;
	if (a.cancelled) {
		weir_domain_complete(a.op, -ECANCELED);
		return true;
	}
	if (s->fail_in && !((unsigned int)rand_r(&s->seed) % s->fail_in)) {
		detail.bytes = (uint64_t)rand_r(&s->seed) % n;
		detail.code = 77;
		slow_move(a.move, detail.bytes);
		weir_domain_set_detail(a.op, &detail);
		weir_domain_complete(a.op, -EREMOTEIO);
		return true;
	}
	slow_move(a.move, n);
	weir_domain_complete(a.op, (int64_t)n);
	return true;
}

static inline void slow_init(struct slow *s, unsigned int seed)
{
	struct weir_domain_opts opts = {
		.size = sizeof(opts),
		.kind = WEIR_DOMAIN_USER,
		.id = "slow",
		.ctx = s,
	};

	memset(s, 0, sizeof(*s));
	s->seed = seed;
	s->mem = calloc(1, SLOW_LEN);
	assert_int_equal(weir_domain_create(&s->d, &opts), 0);
	assert_int_equal(weir_domain_set_pull(s->d, slow_ask), 0);
	assert_int_equal(weir_domain_set_push(s->d, slow_ask), 0);
	assert_int_equal(weir_domain_set_cancel(s->d, slow_cancel), 0);
}

static inline void slow_end(struct slow *s)
{
	assert_int_equal(s->n_asked, 0);
	assert_int_equal(weir_domain_users(s->d), 0);
	assert_int_equal(weir_domain_destroy(s->d), 0);
	free(s->mem);
}

#endif /* TESTS_SLOW_FIXTURE_H */
