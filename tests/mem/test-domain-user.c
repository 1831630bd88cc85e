/* SPDX-License-Identifier: BSD-3-Clause */

/* Domains of the user's own, called directly. */

#include "tests/support/user-domain-fixture.h"

#include "base/fault.h"

#include "tests/support/sim-calls.h"

/* S1, case 25 */
static void user_domain_with_bad_attributes_is_not_created(void **state)
{
	static const struct { struct weir_domain_opts o; int err; } rows[] = {
		{ { .size = sizeof(rows[0].o), .kind = WEIR_DOMAIN_USER - 1 },
		  -EINVAL },
		{ { .size = sizeof(rows[0].o), .kind = 0 }, -EINVAL },
		{ { .size = 0, .kind = WEIR_DOMAIN_USER }, -EINVAL },
		{ { .size = sizeof(rows[0].o), .kind = WEIR_DOMAIN_USER,
		    .ctx_size = 1 }, -EINVAL },
		{ { .size = sizeof(rows[0].o), .kind = WEIR_DOMAIN_USER,
		    .flags = 4 }, -E2BIG },
		{ { .size = sizeof(rows[0].o), .kind = WEIR_DOMAIN_USER,
		    .flags = WEIR_DOMAIN_READ_ONLY | WEIR_DOMAIN_WRITE_ONLY },
		  -EINVAL },
		{ { .size = sizeof(rows[0].o), .kind = WEIR_DOMAIN_USER,
		    .addr = 2, .len = UINT64_MAX - 1 }, -EINVAL },
		{ { .size = sizeof(rows[0].o), .kind = WEIR_DOMAIN_USER,
		    .ctx = (void *)1, .ctx_size = SIZE_MAX }, -ENOMEM },
	};
	struct weir_domain_opts opts = { .size = sizeof(opts),
					 .kind = WEIR_DOMAIN_USER };
	struct weir_domain *d = (void *)1;
	size_t i;

	(void)state;
	assert_int_equal(weir_domain_create(NULL, &opts), -EINVAL);
	assert_int_equal(weir_domain_create(&d, NULL), -EINVAL);
	for (i = 0; i < N_OF(rows); i++) {
		assert_int_equal(weir_domain_create(&d, &rows[i].o),
				 rows[i].err);
		assert_ptr_equal(d, (void *)1);
		assert_starts_with(weir_why(), "weir_domain_create: ");
	}
}

/* S1, S8 */
static void user_domain_has_its_attributes(void **state)
{
	struct { uint64_t a; char b; } ctx = { 7, 'x' }, *copy;
	char id[] = "mine";
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = 1999, .id = id,
		.ctx = &ctx,
	};
	struct weir_domain *d, *twin;

	(void)state;
	assert_int_equal(weir_domain_create(&d, &opts), 0);
	assert_int_equal(weir_domain_create(&twin, &opts), 0);
	id[0] = 'M';
	assert_int_equal(weir_domain_kind(d), 1999);
	assert_string_equal(weir_domain_id(d), "mine");
	assert_string_equal(weir_domain_id(twin), "mine");
	assert_ptr_equal(weir_domain_ctx(d), &ctx);
	assert_int_equal(weir_domain_ctx_size(d), 0);
	assert_int_equal(weir_domain_destroy(d), 0);
	assert_int_equal(weir_domain_destroy(twin), 0);

	opts.ctx_size = sizeof(ctx);
	opts.id = NULL;
	assert_int_equal(weir_domain_create(&d, &opts), 0);
	copy = weir_domain_ctx(d);
	assert_ptr_not_equal(copy, &ctx);
	assert_int_equal((uintptr_t)copy % _Alignof(max_align_t), 0);
	assert_int_equal(copy->a, 7);
	assert_int_equal(copy->b, 'x');
	assert_int_equal(weir_domain_ctx_size(d), sizeof(ctx));
	assert_string_equal(weir_domain_id(d), "user");
	assert_int_equal(weir_domain_destroy(d), 0);
	assert_int_equal(weir_domain_ctx_size(weir_domain_system()), 0);
}

static void shipped_domains_keep_their_functions(void **state)
{
	int fd = test_file(state, "f", 1, 0);
	struct weir_domain *file = file_domain(fd);

	set_all(weir_domain_system(), -EPERM);
	set_all(weir_domain_hugepage(), -EPERM);
	set_all(file, -EPERM);
	assert_int_equal(weir_domain_destroy(file), 0);
	close(fd);
}

static struct weir_domain_move *fill_move(struct fixture *g,
					  struct weir_domain *dst)
{
	move(g, dst, NULL);
	memset(&g->m.src, 0, sizeof(g->m.src));
	g->m.pattern = 0x0807060504030201;
	return &g->m;
}

typedef int starter(struct weir_reactor *r, struct weir_op *op,
		    const struct weir_domain_move *m);

/* The four, whose function each needs, and what it moves between. */
struct kind {
	const char *name;
	starter *start;
	int (*set)(struct weir_domain *d, weir_domain_move_fn *fn);
	weir_domain_move_fn *fn;
	bool src_is_store, dst_is_store, src_does;
};

static const struct kind kinds[] = {
	{ "pull", weir_domain_pull, weir_domain_set_pull, user_domain_pull,
	  true, false, true },
	{ "push", weir_domain_push, weir_domain_set_push, user_domain_push,
	  false, true, false },
	{ "transfer", weir_domain_transfer, weir_domain_set_transfer,
	  user_domain_transfer, true, true, false },
	{ "fill", weir_domain_fill, weir_domain_set_fill, user_domain_fill,
	  false, true, false },
};

static struct weir_domain_move *move_for(struct fixture *g,
					 const struct kind *k)
{
	if (k->start == weir_domain_fill)
		return fill_move(g, g->b.d);
	return move(g, k->dst_is_store ? g->b.d : NULL,
		    k->src_is_store ? g->a.d : NULL);
}

/* S2, S3, S4, cases 26 and 29 */
static void user_domain_calls_the_function_that_was_set(void **state)
{
	struct fixture *g = fixture_begin(state);
	struct user_domain *does, *other;
	size_t i;

	for (i = 0; i < N_OF(kinds); i++) {
		const struct kind *k = &kinds[i];
		struct weir_domain_move *m = move_for(g, k);

		does = k->src_does ? &g->a : &g->b;
		other = k->src_does ? &g->b : &g->a;
		assert_int_equal(k->start(g->r, &g->rec.op, m), -EOPNOTSUPP);

		/* Easily set on the wrong side. */
		assert_int_equal(k->set(other->d, k->fn), 0);
		assert_int_equal(k->start(g->r, &g->rec.op, m), -EOPNOTSUPP);
		assert_int_equal(k->set(other->d, NULL), 0);

		/* Replaced, and called with what was given. */
		assert_int_equal(k->set(does->d, user_domain_transfer), 0);
		assert_int_equal(k->set(does->d, k->fn), 0);
		rec_init(&g->rec);
		STARTS(k->start(g->r, &g->rec.op, m));
		assert_string_equal(does->called, k->name);
		assert_ptr_equal(does->domain, does->d);
		assert_ptr_equal(does->r, g->r);
		assert_ptr_equal(does->move, m);
		assert_int_equal(finish(g->r, &g->rec), 64);
		assert_int_equal(g->rec.detail.bytes, 64);

		/* Refused by it: passed through, no callback, as before. */
		does->refuse = -ENXIO;
		rec_init(&g->rec);
		assert_int_equal(k->start(g->r, &g->rec.op, m), -ENXIO);
		assert_int_equal(weir_op_is_busy(&g->rec.op), 0);
		some_turns(g->r, 3);
		assert_int_equal(g->rec.calls, 0);
		does->refuse = 0;
		STARTS(k->start(g->r, &g->rec.op, m));
		finish(g->r, &g->rec);

		assert_int_equal(k->set(does->d, NULL), 0);
		assert_int_equal(k->start(g->r, &g->rec.op, m), -EOPNOTSUPP);
		assert_int_equal(other->calls, 0);
		does->calls = 0;
	}
	fixture_end(g);
}

/* What can be wrong with a move. */
enum wrong {
	SIZE, MORE, DST_DOMAIN, SRC_DOMAIN, NO_IOV, NO_PIECES, RESERVED,
	NO_BYTES, WRAPS, MANY, TOTALS, WRONGS,
};

/* The largest move, and something behind it. */
struct newer {
	struct weir_domain_move m;
	uint64_t more;
	struct iovec many[WEIR_DOMAIN_PIECES_MAX + 1];
};

static int spoil_domains(struct fixture *g, const struct kind *k,
			 enum wrong wrong, struct weir_domain_move *m)
{
	if (wrong == DST_DOMAIN)
		m->dst.domain = k->dst_is_store ? NULL : g->b.d;
	else if (k->start == weir_domain_fill)
		m->src.ctx = m;
	else
		m->src.domain = k->src_is_store ? NULL : g->a.d;
	return -EINVAL;
}

/* Make @n wrong, and return how that is refused; 0 if it is none of @k's. */
static int spoil(struct fixture *g, const struct kind *k, enum wrong wrong,
		 struct newer *n)
{
	switch (wrong) {
	case SIZE:
		n->m.size = sizeof(n->m) - 1;
		return -EINVAL;
	case MORE:
		n->m.size += sizeof(n->more);
		n->more = 1;
		return -E2BIG;
	case NO_IOV:
		n->m.dst.iov = NULL;
		return -EINVAL;
	case NO_PIECES:
		n->m.dst.n_iov = 0;
		return -EINVAL;
	case RESERVED:
		n->m.dst.reserved = 1;
		return -EINVAL;
	case NO_BYTES:
		g->dst.iov_len = g->src.iov_len = 0;
		return -EINVAL;
	case WRAPS:
		g->dst.iov_base = (void *)(UINTPTR_MAX - 10);
		return -ERANGE;
	case MANY:
		n->m.dst.iov = n->many;
		n->m.dst.n_iov = N_OF(n->many);
		return -EMSGSIZE;
	case TOTALS:
		g->dst.iov_len--;
		return k->start == weir_domain_fill ? 0 : -EMSGSIZE;
	default:
		return spoil_domains(g, k, wrong, &n->m);
	}
}

/* S7 */
static void user_domain_refuses_bad_calls(void **state)
{
	struct fixture *g = fixture_begin(state);
	struct newer n;
	size_t i;
	int wrong, want, got;

	user_domain_can_all(&g->a);
	user_domain_can_all(&g->b);
	for (i = 0; i < N_OF(n.many); i++)
		n.many[i] = (struct iovec){ (void *)(i + 1), 1 };
	for (i = 0; i < N_OF(kinds); i++) {
		assert_int_equal(kinds[i].start(g->r, &g->rec.op, NULL),
				 -EINVAL);
		for (wrong = 0; wrong < WRONGS; wrong++) {
			n.m = *move_for(g, &kinds[i]);
			n.more = 0;
			want = spoil(g, &kinds[i], (enum wrong)wrong, &n);
			if (!want)
				continue;
			got = kinds[i].start(g->r, &g->rec.op, &n.m);
			if (got != want)
				fail_msg("%s, %d: %d, not %d", kinds[i].name,
					 wrong, got, want);
		}
	}
	assert_int_equal(g->a.calls + g->b.calls, 0);
	fixture_end(g);
}

/* It is not to be called. */
static int no_translate(struct weir_domain *src, void *src_ctx,
			struct weir_domain *dst, void *dst_ctx, uint64_t addr,
			size_t len, struct weir_translation *t)
{
	(void)src, (void)src_ctx, (void)dst, (void)dst_ctx, (void)addr;
	(void)len, (void)t;
	fail();
	return -EIO;
}

/* Each kind of move, with the domain's function on one side. */
static void bounds_and_rights_of_domain_hold_for_moves(void **state)
{
	struct fixture *g = fixture_begin(state);
	struct weir_domain_opts opts = { .addr = 4096, .len = 4096 };
	struct weir_translation t = { .size = sizeof(t) };
	struct user_domain *s = malloc(sizeof(*s));
	struct weir_domain_move *m;

	assert_non_null(s);
	user_domain_init_with(s, "bounded", opts);
	user_domain_can_all(s);
	assert_int_equal(weir_domain_set_translate(s->d, no_translate), 0);
	m = move(g, NULL, s->d);
	g->src.iov_base = (void *)(uintptr_t)4095;
	assert_int_equal(weir_domain_pull(g->r, &g->rec.op, m), -ERANGE);
	g->src.iov_base = (void *)(uintptr_t)(8192 - g->src.iov_len + 1);
	assert_int_equal(weir_domain_pull(g->r, &g->rec.op, m), -ERANGE);
	assert_starts_with(weir_why(), "weir_domain_pull: a piece ");
	g->src.iov_base = (void *)(uintptr_t)(8192 - g->src.iov_len);
	STARTS(weir_domain_pull(g->r, &g->rec.op, m));
	finish(g->r, &g->rec);
	assert_int_equal(weir_domain_translate(s->d, NULL, s->d, NULL, 8191, 2,
					       &t), -ERANGE);
	assert_int_equal(weir_domain_destroy(s->d), 0);

	opts = (struct weir_domain_opts){ .flags = WEIR_DOMAIN_READ_ONLY };
	user_domain_init_with(s, "read-only", opts);
	user_domain_can_all(s);
	m = move(g, s->d, NULL);
	assert_int_equal(weir_domain_push(g->r, &g->rec.op, m), -EACCES);
	m = move(g, s->d, g->a.d);
	assert_int_equal(weir_domain_transfer(g->r, &g->rec.op, m), -EACCES);
	memset(&m->src, 0, sizeof(m->src));
	assert_int_equal(weir_domain_fill(g->r, &g->rec.op, m), -EACCES);
	m = move(g, NULL, s->d);
	STARTS(weir_domain_pull(g->r, &g->rec.op, m));
	finish(g->r, &g->rec);
	assert_int_equal(weir_domain_destroy(s->d), 0);

	opts.flags = WEIR_DOMAIN_WRITE_ONLY;
	user_domain_init_with(s, "write-only", opts);
	user_domain_can_all(s);
	m = move(g, NULL, s->d);
	assert_int_equal(weir_domain_pull(g->r, &g->rec.op, m), -EACCES);
	assert_int_equal(s->calls, 0);
	assert_int_equal(weir_domain_destroy(s->d), 0);
	free(s);
	fixture_end(g);
}

/* In a store, and not in memory, which has no functions either. */
static void an_address_may_be_0(void **state)
{
	struct fixture *g = fixture_begin(state);
	struct weir_domain_move *m = move(g, NULL, g->a.d);

	user_domain_can_all(&g->a);
	g->dst.iov_base = NULL;
	assert_int_equal(weir_domain_pull(g->r, &g->rec.op, m), -EINVAL);
	m = move(g, NULL, g->a.d);
	g->src.iov_base = NULL;
	STARTS(weir_domain_pull(g->r, &g->rec.op, m));
	finish(g->r, &g->rec);

	m = move(g, NULL, weir_domain_system());
	assert_int_equal(weir_domain_pull(g->r, &g->rec.op, m), -EOPNOTSUPP);
	fixture_end(g);
}

static void shapes_may_differ(void **state)
{
	struct iovec from[3] = { { (void *)5, 1 }, { (void *)900, 0 },
				 { (void *)7, 30 } };
	struct iovec to[2];
	struct fixture *g = fixture_begin(state);
	struct weir_domain_move *m = move(g, NULL, g->a.d);
	size_t i;

	user_domain_can_all(&g->a);
	for (i = 0; i < LEN; i++)
		g->a.mem[i] = (char)~i;
	to[0] = (struct iovec){ g->mem, 20 };
	to[1] = (struct iovec){ g->mem + 100, 11 };
	m->src.iov = from;
	m->src.n_iov = 3;
	m->dst.iov = to;
	m->dst.n_iov = 2;
	STARTS(weir_domain_pull(g->r, &g->rec.op, m));
	assert_int_equal(finish(g->r, &g->rec), 31);
	assert_int_equal(g->mem[0], 5);
	assert_int_equal(g->mem[1], 7);
	assert_int_equal(g->mem[19], 25);
	assert_int_equal(g->mem[100], 26);
	assert_int_equal(g->mem[110], 36);
	fixture_end(g);
}

/* The table "user's domain: call by state" of docs/internals/mem.md. */
static void user_domain_in_use_is_not_changed(void **state)
{
	struct fixture *g = fixture_begin(state);
	struct weir_domain_move *m = move(g, g->b.d, g->a.d);
	struct weir_domain *held;
	size_t i;

	/* Idle, and held by a walk: may be configured. */
	held = weir_domain_next(NULL, "b");
	assert_ptr_equal(held, g->b.d);
	set_all(g->b.d, 0);
	assert_int_equal(weir_domain_destroy(g->b.d), -EBUSY);
	weir_domain_put(held);

	/* Both are in use while it moves. */
	user_domain_can_all(&g->b);
	g->b.when = LATER;
	STARTS(weir_domain_transfer(g->r, &g->rec.op, m));
	some_turns(g->r, 3);
	assert_int_equal(g->rec.calls, 0);
	for (i = 0; i < 2; i++) {
		struct weir_domain *d = i ? g->a.d : g->b.d;

		assert_int_equal(weir_domain_users(d), 1);
		assert_int_equal(weir_domain_destroy(d), -EBUSY);
		set_all(d, -EBUSY);
	}
	assert_int_equal(weir_domain_transfer(g->r, &g->rec.op, m), -EINVAL);
	end_op(&g->b);
	assert_int_equal(weir_domain_users(g->a.d), 0);
	assert_int_equal(g->rec.calls, 0);
	assert_int_equal(finish(g->r, &g->rec), 64);
	set_all(g->b.d, 0);
	fixture_end(g);
}

static void the_end_is_what_the_domain_says(void **state)
{
	struct fixture *g = fixture_begin(state);
	struct weir_domain_move *m = move(g, g->b.d, NULL);

	user_domain_can_all(&g->b);
	g->b.most = 10;
	STARTS(weir_domain_push(g->r, &g->rec.op, m));
	assert_int_equal(finish(g->r, &g->rec), 10);
	assert_int_equal(g->rec.detail.bytes, 10);

	g->b.end = -EREMOTEIO;
	g->b.code = 77;
	rec_init(&g->rec);
	STARTS(weir_domain_push(g->r, &g->rec.op, m));
	assert_int_equal(finish(g->r, &g->rec), -EREMOTEIO);
	assert_int_equal(g->rec.detail.bytes, 10);
	assert_int_equal(g->rec.detail.code, 77);

	/* More than there was to move is not believed. */
	g->b.end = 65;
	rec_init(&g->rec);
	STARTS(weir_domain_push(g->r, &g->rec.op, m));
	assert_int_equal(finish(g->r, &g->rec), -EIO);

	/* Nor is what is no errno. */
	g->b.end = -(INT64_C(1) << 32);
	rec_init(&g->rec);
	STARTS(weir_domain_push(g->r, &g->rec.op, m));
	assert_int_equal(finish(g->r, &g->rec), -EIO);
	fixture_end(g);
}

#define NEVER (3600 * WEIR_SEC)	/* A deadline that does not come. */

static void a_cancel_and_a_deadline_reach_the_domain(void **state)
{
	struct fixture *g = fixture_begin(state);
	struct weir_domain_move *m = move(g, g->b.d, NULL);
	uint64_t deadline;
	int calls;

	user_domain_can_all(&g->b);
	g->b.when = LATER;

	/* Without a function for it, it goes on. */
	STARTS(weir_domain_push(g->r, &g->rec.op, m));
	assert_int_equal(weir_op_cancel(&g->rec.op), 0);
	some_turns(g->r, 2);
	assert_int_equal(g->rec.calls, 0);
	end_op(&g->b);
	assert_int_equal(finish(g->r, &g->rec), 64);

	assert_int_equal(weir_domain_set_cancel(g->b.d, user_domain_cancel), 0);
	rec_init(&g->rec);
	STARTS(weir_domain_push(g->r, &g->rec.op, m));
	assert_int_equal(weir_op_cancel(&g->rec.op), 0);
	assert_int_equal(weir_op_cancel(&g->rec.op), 0);
	assert_int_equal(finish(g->r, &g->rec), -ECANCELED);
	assert_int_equal(g->b.cancels, 1);

	/* A deadline that was set before stays when it is refused. */
	rec_init(&g->rec);
	deadline = weir_reactor_now(g->r) + NEVER;
	weir_op_set_deadline(&g->rec.op, deadline);
	g->b.refuse = -EAGAIN;
	assert_int_equal(weir_domain_push(g->r, &g->rec.op, m), -EAGAIN);
	assert_int_equal(g->rec.op.deadline.expires_ns, deadline);
	g->b.refuse = 0;
	STARTS(weir_domain_push(g->r, &g->rec.op, m));
	weir_op_set_deadline(&g->rec.op, weir_reactor_now(g->r) + 1);
	assert_int_equal(finish(g->r, &g->rec), -ETIMEDOUT);
	assert_int_equal(g->b.cancels, 2);

	/* What is late at the start does not reach it. */
	rec_init(&g->rec);
	calls = g->b.calls;
	weir_op_set_deadline(&g->rec.op, weir_reactor_now(g->r));
	STARTS(weir_domain_push(g->r, &g->rec.op, m));
	assert_int_equal(finish(g->r, &g->rec), -ETIMEDOUT);
	assert_int_equal(g->b.calls, calls);
	assert_int_equal(g->b.cancels, 2);
	fixture_end(g);
}

static void the_bound_of_operations_holds(void **state)
{
	struct fixture *g = calloc(1, sizeof(*g));
	struct weir_domain_move *m;
	struct rec more;
	int i;

	g->r = start_reactor_with(state, (struct weir_reactor_opts){
		.ops_max = 1 });
	user_domain_init(&g->a, "a");
	user_domain_init(&g->b, "b");
	user_domain_can_all(&g->b);
	rec_init(&g->rec);
	rec_init(&more);
	m = move(g, g->b.d, NULL);
	g->b.when = LATER;
	STARTS(weir_domain_push(g->r, &g->rec.op, m));
	assert_int_equal(weir_domain_push(g->r, &more.op, m), -EAGAIN);
	assert_int_equal(g->b.calls, 1);
	end_op(&g->b);
	finish(g->r, &g->rec);

	/* What is refused does not count. */
	g->b.refuse = -EBUSY;
	for (i = 0; i < 3; i++)
		assert_int_equal(weir_domain_push(g->r, &more.op, m), -EBUSY);
	g->b.refuse = 0;
	g->b.when = INSIDE;
	STARTS(weir_domain_push(g->r, &more.op, m));
	assert_int_equal(finish(g->r, &more), 64);
	weir_reactor_stop(g->r);
	some_turns(g->r, 1);
	assert_int_equal(weir_domain_push(g->r, &more.op, m), -ESHUTDOWN);
	fixture_end(g);
}

/* How the translator of the next tests answers. */
static int user_domain_translate(struct weir_domain *src, void *src_ctx,
				 struct weir_domain *dst, void *dst_ctx,
				 uint64_t addr, size_t len,
				 struct weir_translation *t)
{
	struct user_domain *s = user_domain_of(src);

	s->translates++;
	assert_ptr_equal(src_ctx, s);
	assert_ptr_equal(dst_ctx, &s->answer);
	if (s->refuse)
		return s->refuse;
	t->domain = dst;
	t->lkey = 5;
	t->rkey = 6;
	t->data = s;
	if (s->most) {
		s->answer[0] = (struct iovec){ s->mem + addr, len - s->most };
		s->answer[1] = (struct iovec){ s->mem, s->most };
		t->iovs = s->answer;
		t->n_iov = 2;
	} else {
		t->iov = (struct iovec){ s->mem + addr, len };
		t->n_iov = 1;
	}
	switch ((int)s->end) {
	case 1:
		t->iov.iov_len--;
		break;
	case 2:
		t->iov.iov_len++;
		break;
	case 3:
		t->n_iov = 0;
		break;
	case 4:
		t->n_iov = 2;
		break;
	case 5:
		t->domain = NULL;
		break;
	case 6:
		t->iovs = s->answer;
		t->n_iov = WEIR_DOMAIN_PIECES_MAX + 1;
		break;
	case 7:
		t->domain = weir_domain_system();
		t->iov.iov_base = NULL;
		break;
	case 8:
		t->iov.iov_base = (void *)(UINTPTR_MAX - 4);
		break;
	default:
		break;
	}
	return 0;
}

static void user_domain_invalidate(struct weir_domain *d, void *ctx,
				   const struct weir_translation *t)
{
	struct user_domain *s = user_domain_of(d);

	assert_ptr_equal(ctx, s);
	assert_ptr_equal(t->data, s);
	s->invalidates++;
}

/* S3, S6, cases 26, 27 and 29 */
static void a_translation_is_good_until_it_is_invalidated_once(void **state)
{
	struct weir_translation t = { .size = sizeof(t) }, none = t;
	struct weir_domain *sys = weir_domain_system();
	struct fixture *g = fixture_begin(state);
	struct user_domain *s = &g->a;

	t.lkey = 99;
#define ASK(addr, len) \
	weir_domain_translate(s->d, s, sys, &s->answer, addr, len, &t)
	assert_int_equal(ASK(100, 10), -EOPNOTSUPP);
	assert_int_equal(
		weir_domain_set_translate(g->b.d, user_domain_translate), 0);
	assert_int_equal(ASK(100, 10), -EOPNOTSUPP);
	assert_int_equal(weir_domain_set_translate(s->d, user_domain_translate),
			 0);
	s->refuse = -ENXIO;
	assert_int_equal(ASK(100, 10), -ENXIO);
	s->refuse = 0;
	assert_int_equal(t.lkey, 99);
	assert_int_equal(weir_domain_users(s->d), 0);

	/* Without a function for it the end is silent. */
	assert_int_equal(ASK(100, 10), 0);
	assert_int_equal(weir_domain_users(s->d), 1);
	assert_int_equal(weir_domain_destroy(s->d), -EBUSY);
	set_all(s->d, -EBUSY);
	assert_ptr_equal(t.domain, sys);
	assert_int_equal(t.lkey, 5);
	assert_int_equal(t.rkey, 6);
	assert_ptr_equal(weir_translation_iov(&t), &t.iov);
	assert_ptr_equal(t.iov.iov_base, s->mem + 100);
	weir_domain_invalidate(&t);
	weir_domain_invalidate(&t);
	weir_domain_invalidate(&none);
	assert_int_equal(weir_domain_users(s->d), 0);

	/* With one it is told, once, of an array of its own. */
	assert_int_equal(
		weir_domain_set_invalidate(s->d, user_domain_invalidate), 0);
	s->most = 4;
	assert_int_equal(ASK(100, 10), 0);
	assert_int_equal(t.n_iov, 2);
	assert_ptr_equal(weir_translation_iov(&t), s->answer);
	weir_domain_invalidate(&t);
	weir_domain_invalidate(&t);
	assert_int_equal(s->invalidates, 1);
	s->most = 0;
	fixture_end(g);
}

static void an_answer_that_makes_no_sense_is_not_believed(void **state)
{
	struct weir_translation t = { .size = sizeof(t) };
	struct weir_domain *sys = weir_domain_system();
	struct fixture *g = fixture_begin(state);
	struct user_domain *s = &g->a;

	assert_int_equal(weir_domain_set_translate(s->d, user_domain_translate),
			 0);
	assert_int_equal(
		weir_domain_set_invalidate(s->d, user_domain_invalidate), 0);
	for (s->end = 1; s->end <= 8; s->end++) {
		assert_int_equal(ASK(100, 10), -EIO);
		assert_null(t.domain);
		assert_int_equal(s->invalidates, s->end);
	}
	assert_int_equal(weir_domain_users(s->d), 0);

	assert_int_equal(ASK(100, 0), -EINVAL);
	assert_int_equal(ASK(UINT64_MAX - 5, 10), -ERANGE);
	t.size = sizeof(t) - 1;
	assert_int_equal(ASK(100, 10), -EINVAL);
	t.size = (size_t)-1;
	assert_int_equal(ASK(100, 10), -EINVAL);
	t.size = sizeof(t);
	assert_int_equal(weir_domain_translate(NULL, NULL, sys, NULL, 1, 1,
					       &t), -EINVAL);
	assert_int_equal(weir_domain_translate(sys, NULL, NULL, NULL, 1, 1,
					       &t), -EINVAL);
	assert_int_equal(weir_domain_translate(sys, NULL, sys, NULL, 1, 1,
					       NULL), -EINVAL);
	assert_int_equal(weir_domain_translate(sys, NULL, sys, NULL, 0, 1,
					       &t), -EINVAL);
	assert_int_equal(s->translates, 8);
	fixture_end(g);
}

static void memory_is_where_it_is(void **state)
{
	struct weir_domain *mem[2] = { weir_domain_system(),
				       weir_domain_hugepage() };
	struct weir_translation t = { .size = sizeof(t) };
	char byte[9];
	int i;

	(void)state;
	for (i = 0; i < 4; i++) {
		assert_int_equal(weir_domain_translate(mem[i & 1], NULL,
						       mem[i / 2], NULL,
						       (uintptr_t)byte, 9, &t),
				 0);
		assert_ptr_equal(t.domain, mem[i / 2]);
		assert_ptr_equal(t.iov.iov_base, byte);
		assert_int_equal(t.iov.iov_len, 9);
		assert_int_equal(t.n_iov, 1);
		weir_domain_invalidate(&t);
	}
}

/* What is in flight when the reactor goes is asked to end, and waited for. */
static void destroyed_reactor_ends_its_moves_of_a_user_domain(void **state)
{
	struct fixture *g = fixture_begin(state);
	struct weir_domain_move *m = move(g, g->b.d, NULL);

	user_domain_can_all(&g->b);
	assert_int_equal(weir_domain_set_cancel(g->b.d, user_domain_cancel), 0);
	g->b.when = LATER;
	STARTS(weir_domain_push(g->r, &g->rec.op, m));
	end_reactor(state);
	assert_int_equal(g->rec.calls, 1);
	assert_int_equal(g->rec.res, -ECANCELED);
	fixture_end(g);
}

static void failed_user_domain_call_leaves_nothing_behind(void **state)
{
	struct weir_domain_opts opts = { .size = sizeof(opts),
					 .kind = WEIR_DOMAIN_USER };
	struct weir_domain *d = NULL;
	int err, n = 0, fired;

	(void)state;
	do {
		fault_arm(n++);
		err = weir_domain_create(&d, &opts);
		fired = fault_disarm();
		if (fired)
			assert_true(err == -ENOMEM && !d);
	} while (fired);
	assert_int_equal(n, 2);
	assert_int_equal(weir_domain_destroy(d), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(user_domain_with_bad_attributes_is_not_created),
		CASE(user_domain_has_its_attributes),
		CASE(shipped_domains_keep_their_functions),
		CASE(user_domain_calls_the_function_that_was_set),
		CASE(user_domain_refuses_bad_calls),
		CASE(bounds_and_rights_of_domain_hold_for_moves),
		CASE(an_address_may_be_0),
		CASE(shapes_may_differ),
		CASE(user_domain_in_use_is_not_changed),
		CASE(the_end_is_what_the_domain_says),
		CASE(a_cancel_and_a_deadline_reach_the_domain),
		CASE(the_bound_of_operations_holds),
		CASE(a_translation_is_good_until_it_is_invalidated_once),
		CASE(an_answer_that_makes_no_sense_is_not_believed),
		CASE(memory_is_where_it_is),
		CASE(destroyed_reactor_ends_its_moves_of_a_user_domain),
		CASE(failed_user_domain_call_leaves_nothing_behind),
	};

	return harness_run_all(cases, N_OF(cases));
}
