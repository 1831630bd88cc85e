/* SPDX-License-Identifier: BSD-3-Clause */

/* Jobs to and from a domain of the user's own. */

#include "tests/support/user-domain-fixture.h"

#include <weir/buf.h>
#include <weir/inventory.h>

#include "tests/support/sim-calls.h"

struct job_fixture {
	struct fixture *g;
	struct weir_dma *dma;
	struct weir_inventory *inv;
	struct weir_mmap *m;
	struct weir_domain *file;
	int fd;
	struct jrec j;
};

static void jobs_begin(struct job_fixture *w, void **state)
{
	w->g = fixture_begin(state);
	w->dma = start_dma(w->g->r, (struct weir_dma_opts){ 0 });
	w->m = start_mmap(w->g->mem, LEN, WEIR_MMAP_WRITE);
	w->inv = start_inventory(w->g->r, w->m);
	w->fd = test_file(state, "f", LEN, 2);
	w->file = file_domain(w->fd);
	jrec_init(&w->j);
}

static void jobs_end(struct job_fixture *w)
{
	assert_int_equal(weir_dma_destroy(w->dma), 0);
	assert_int_equal(weir_inventory_destroy(w->inv), 0);
	assert_int_equal(weir_mmap_destroy(w->m), 0);
	assert_int_equal(weir_domain_destroy(w->file), 0);
	close(w->fd);
	fixture_end(w->g);
}

static struct weir_operand mem_at(struct job_fixture *w, size_t off, size_t len)
{
	return weir_operand_mem(w->g->mem + off, len);
}

static struct weir_buf *take(struct job_fixture *w, size_t off, size_t len,
			     size_t data_len)
{
	return get_buf(w->inv, w->m, w->g->mem + off, len, data_len);
}

enum { NONE, PULL, PUSH, TRANSFER, FILL, N_SETS };

static void only(struct weir_domain *d, int set)
{
	int err =
		set == PULL ? weir_domain_set_pull(d, user_domain_pull) :
		set == PUSH ? weir_domain_set_push(d, user_domain_push) :
		set == FILL ? weir_domain_set_fill(d, user_domain_fill) :
			      weir_domain_set_transfer(d, user_domain_transfer);

	assert_int_equal(err, 0);
}

enum place { M, U, V, F, N_PLACES }; /* Memory, two stores, a file. */

/* The table "what the functions of a user's domain add" of
 * docs/internals/dma.md. */
static const struct row {
	uint32_t kind;
	enum place src, dst;
	int want[N_SETS];	/* With only this set, in both. */
} rows[] = {
#define X -EXDEV
#define N -EINVAL
	{ WEIR_JOB_COPY, U, M, { X, 0, X, X, X } },
	{ WEIR_JOB_COPY, M, U, { X, X, 0, 0, X } },
	{ WEIR_JOB_COPY, U, V, { X, X, X, 0, X } },
	{ WEIR_JOB_COPY, F, U, { X, X, 0, 0, X } },
	{ WEIR_JOB_COPY, U, F, { X, 0, X, X, X } },
	{ WEIR_JOB_PULL, U, M, { X, 0, X, X, X } },
	{ WEIR_JOB_PULL, M, U, { N, N, N, N, N } },
	{ WEIR_JOB_PULL, U, V, { N, N, N, N, N } },
	{ WEIR_JOB_PUSH, M, U, { X, X, 0, 0, X } },
	{ WEIR_JOB_PUSH, U, M, { N, N, N, N, N } },
	{ WEIR_JOB_PUSH, U, V, { N, N, N, N, N } },
	{ WEIR_JOB_FILL, M, U, { X, X, 0, 0, 0 } },
	{ WEIR_JOB_CRC32C, U, M, { X, 0, X, X, X } },
	{ WEIR_JOB_COPY_CRC32C, U, M, { X, 0, X, X, X } },
	{ WEIR_JOB_COMPARE, U, M, { X, 0, X, X, X } },
	{ WEIR_JOB_DUALCAST, M, U, { X, X, 0, 0, X } },
	{ WEIR_JOB_DUALCAST, U, M, { X, 0, X, X, X } },
	{ WEIR_JOB_XOR, M, U, { X, X, 0, 0, X } },
	{ WEIR_JOB_XOR, U, M, { X, 0, X, X, X } },
#undef X
#undef N
};

static void try_row(struct job_fixture *w, const struct row *row, int set)
{
	struct weir_operand operands[N_PLACES] = {
		mem_at(w, 0, 64),
		weir_operand_at(w->g->a.d, 0, 64),
		weir_operand_at(w->g->b.d, 0, 64),
		weir_operand_at(w->file, 0, 64),
	};
	struct weir_operand more;
	int err;

	jrec_init(&w->j);
	weir_job_copy(&w->j.job, operands[row->dst], operands[row->src]);
	w->j.job.kind = row->kind;
	if (row->kind == WEIR_JOB_DUALCAST || row->kind == WEIR_JOB_XOR) {
		more = operands[row->kind == WEIR_JOB_XOR ? row->src :
							    row->dst];
		more.addr += 100;
		w->j.job.more = &more;
		w->j.job.n_extra = 1;
	}
	err = weir_job_start(w->dma, &w->j.job);
	if (err != row->want[set])
		fail_msg("row %d, set %d: %d, not %d", (int)(row - rows), set,
			 err, row->want[set]);
	if (!err)
		assert_in_range(jrec_finish(w->g->r, &w->j),
				row->kind == WEIR_JOB_COMPARE ? 0 : 64, 64);
}

static void domain_serves_the_kinds_of_job_that_are_set(void **state)
{
	struct job_fixture w;
	size_t i;
	int set;

	jobs_begin(&w, state);
	for (set = 0; set < N_SETS; set++) {
		set_all(w.g->a.d, 0);
		set_all(w.g->b.d, 0);
		if (set) {
			only(w.g->a.d, set);
			only(w.g->b.d, set);
		}
		for (i = 0; i < N_OF(rows); i++)
			try_row(&w, &rows[i], set);
	}
	jobs_end(&w);
}

/* The pieces, contexts and translations arrive as they were given. */
static void a_job_hands_on_what_it_was_given(void **state)
{
	struct weir_translation t = { .size = sizeof(t) };
	struct iovec from[2] = { { (void *)0, 50 }, { (void *)200, 14 } };
	const struct weir_domain_move *m;
	struct job_fixture w;
	int ctx[2];

	jobs_begin(&w, state);
	user_domain_can_all(&w.g->b);
	w.g->b.when = LATER;
	weir_job_copy(&w.j.job, weir_operand_at(w.g->b.d, 7, 64),
		      weir_operand_iov(w.g->a.d, from, 2));
	w.j.job.src.ctx = &ctx[0];
	w.j.job.dst.ctx = &ctx[1];
	w.j.job.src.translation = &t;
	STARTS(weir_job_start(w.dma, &w.j.job));
	m = w.g->b.move;
	assert_ptr_equal(m->src.domain, w.g->a.d);
	assert_ptr_equal(m->dst.domain, w.g->b.d);
	assert_ptr_equal(m->src.iov, from);
	assert_int_equal(m->src.n_iov, 2);
	assert_int_equal(m->dst.n_iov, 1);
	assert_int_equal((uintptr_t)m->dst.iov[0].iov_base, 7);
	assert_int_equal(m->dst.iov[0].iov_len, 64);
	assert_ptr_equal(m->src.ctx, &ctx[0]);
	assert_ptr_equal(m->dst.ctx, &ctx[1]);
	assert_ptr_equal(m->src.translation, &t);
	assert_null(m->dst.translation);
	assert_int_equal(weir_domain_users(w.g->a.d), 1);
	assert_int_equal(weir_domain_users(w.g->b.d), 1);
	assert_int_equal(weir_domain_destroy(w.g->b.d), -EBUSY);
	end_op(&w.g->b);
	assert_int_equal(jrec_finish(w.g->r, &w.j), 64);

	jrec_init(&w.j);
	weir_job_fill(&w.j.job, weir_operand_at(w.g->b.d, 3, 9),
		      0x0807060504030201);
	w.g->b.when = INSIDE;
	assert_int_equal(jrec_run(w.dma, &w.j), 9);
	assert_memory_equal(w.g->b.mem + 3,
			    "\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7\xfe", 9);
	jobs_end(&w);
}

/* @len bytes from 40 on of a store, in at most @max pieces. */
static uint32_t cut(struct iovec *iov, uint32_t max, size_t len,
		    unsigned int *seed)
{
	size_t at, n;
	uint32_t k = 0;

	for (at = 0; at < len; at += n, k++) {
		n = (size_t)rand_r(seed) % (len - at + 1);
		if (k + 1 == max)
			n = len - at;
		iov[k] = (struct iovec){ (void *)(at + 40), n };
	}
	return k;
}

static struct weir_buf *list_of(struct job_fixture *w, size_t len,
				unsigned int *seed)
{
	struct weir_buf *list = NULL, *buf;
	size_t at, n;

	for (at = 0; at < len; at += n) {
		n = 1 + (size_t)rand_r(seed) % len;
		if (n > len - at)
			n = len - at;
		buf = take(w, at, n, 0);
		if (list)
			assert_int_equal(weir_buf_chain(list, buf), 0);
		else
			list = buf;
	}
	return list;
}

static void there_and_back(struct job_fixture *w, struct weir_operand here,
			   struct weir_operand there, size_t len)
{
	size_t i;
	int dir;

	for (i = 0; i < LEN; i++)
		w->g->a.mem[i] = (char)~(i * 31 >> 3);
	for (dir = 0; dir < 2; dir++) {
		jrec_init(&w->j);
		if (dir)
			weir_job_copy(&w->j.job, there, here);
		else
			weir_job_copy(&w->j.job, here, there);
		assert_int_equal(jrec_run(w->dma, &w->j), len);
		assert_int_equal(w->j.detail.bytes, len);
		for (i = 0; i < len; i++)
			if ((w->g->mem[i] ^ w->g->a.mem[i + 40]) != (char)0xff)
				fail_msg("byte %zu of %zu", i, len);
		memset(w->g->a.mem, 0, LEN);
	}
}

/* Lists of bufs go over some pieces at a time, and both ways come back. */
static void bufs_are_handed_over_in_steps(void **state)
{
	unsigned int seed = 9, round, rounds = scaled(300);
	struct weir_buf *list;
	struct weir_operand there;
	struct iovec iov[20];
	struct job_fixture w;
	size_t len;

	jobs_begin(&w, state);
	user_domain_can_all(&w.g->a);
	for (round = 0; round < rounds; round++) {
		len = 1 + (size_t)rand_r(&seed) % (LEN / 4);
		there = weir_operand_at(w.g->a.d, 40, len);
		if (round % 2)
			there = weir_operand_iov(
				w.g->a.d, iov, cut(iov, N_OF(iov), len, &seed));
		list = list_of(&w, len, &seed);
		there_and_back(&w, weir_operand_buf(list), there, len);
		weir_buf_put(list);
	}
	jobs_end(&w);
}

static void the_source_of_a_job_may_end_early(void **state)
{
	struct job_fixture w;
	int flag;

	jobs_begin(&w, state);
	user_domain_can_all(&w.g->a);
	w.g->a.most = 10;
	for (flag = 0; flag < 2; flag++) {
		jrec_init(&w.j);
		weir_job_copy(&w.j.job, mem_at(&w, 0, 64),
			      weir_operand_at(w.g->a.d, 0, 64));
		w.j.job.flags = flag ? WEIR_JOB_SHORT_OK : 0;
		assert_int_equal(jrec_run(w.dma, &w.j), flag ? 10 : -ENODATA);
		assert_int_equal(w.j.detail.bytes, 10);
	}
	jobs_end(&w);
}

static void a_job_ends_as_the_domain_says(void **state)
{
	struct job_fixture w;
	struct user_domain *s;

	jobs_begin(&w, state);
	s = &w.g->a;
	user_domain_can_all(s);
	s->most = 10;
	s->end = -EREMOTEIO;
	s->code = 4711;
	weir_job_copy(&w.j.job, mem_at(&w, 0, 64),
		      weir_operand_at(s->d, 0, 64));
	assert_int_equal(jrec_run(w.dma, &w.j), -EREMOTEIO);
	assert_int_equal(w.j.detail.bytes, 10);
	assert_int_equal(w.j.detail.code, 4711);

	/* More than there is is not believed. */
	s->end = 65;
	assert_int_equal(jrec_run(w.dma, &w.j), -EIO);
	assert_int_equal(w.j.detail.bytes, 10);
	jobs_end(&w);
}

static void a_job_that_the_domain_refuses_has_not_begun(void **state)
{
	struct weir_dma_stats before = { .size = sizeof(before) };
	struct weir_dma_stats after = { .size = sizeof(after) };
	struct weir_buf *buf;
	struct job_fixture w;
	struct user_domain *s;

	jobs_begin(&w, state);
	s = &w.g->a;
	user_domain_can_all(s);
	assert_int_equal(weir_dma_stats(w.dma, &before), 0);
	s->refuse = -EAGAIN;
	buf = take(&w, 0, 10, 0);
	weir_job_copy(&w.j.job, weir_operand_buf(buf),
		      weir_operand_at(s->d, 0, 10));
	assert_int_equal(weir_job_start(w.dma, &w.j.job), -EAGAIN);
	some_turns(w.g->r, 2);
	assert_int_equal(w.j.calls, 0);
	assert_int_equal(weir_op_is_busy(&w.j.job.op), 0);
	assert_int_equal(weir_buf_refs(buf), 1);
	assert_int_equal(weir_buf_set_data(buf, weir_buf_addr(buf), 0), 0);
	assert_int_equal(weir_domain_users(s->d), 0);
	assert_int_equal(weir_dma_stats(w.dma, &after), 0);
	assert_memory_equal(&before, &after, sizeof(after));
	s->refuse = 0;
	assert_int_equal(jrec_run(w.dma, &w.j), 10);
	weir_buf_put(buf);
	jobs_end(&w);
}

static struct weir_buf *eight_tens(struct job_fixture *w, size_t data_len)
{
	struct weir_buf *list = take(w, 0, 10, data_len);
	size_t i;

	for (i = 1; i < 8; i++)
		assert_int_equal(weir_buf_chain(list, take(w, i * 10, 10,
							   data_len)), 0);
	return list;
}

/* What the first step did is told, and not committed. */
static void a_refusal_in_the_middle_ends_the_job(void **state)
{
	struct weir_buf *list;
	struct job_fixture w;
	struct user_domain *s;

	jobs_begin(&w, state);
	s = &w.g->a;
	user_domain_can_all(s);
	list = eight_tens(&w, 0);
	s->when = LATER;
	weir_job_copy(&w.j.job, weir_operand_buf(list),
		      weir_operand_at(s->d, 0, 80));
	STARTS(weir_job_start(w.dma, &w.j.job));
	end_op(s);
	s->refuse = -ENXIO;
	assert_int_equal(jrec_finish(w.g->r, &w.j), -ENXIO);
	assert_int_equal(w.j.detail.bytes, 30);
	assert_int_equal(weir_buf_list_data_len(list), 0);
	weir_buf_put(list);
	jobs_end(&w);
}

static void a_cancel_of_a_job_reaches_the_domain(void **state)
{
	struct weir_buf *list;
	struct job_fixture w;
	struct user_domain *s;
	struct rec stop;

	jobs_begin(&w, state);
	s = &w.g->a;
	user_domain_can_all(s);
	s->when = LATER;

	/* It cannot cancel: it ends between two steps. */
	list = eight_tens(&w, 10);
	weir_job_copy(&w.j.job, weir_operand_at(s->d, 0, 80),
		      weir_operand_buf(list));
	STARTS(weir_job_start(w.dma, &w.j.job));
	assert_int_equal(weir_op_cancel(&w.j.job.op), 0);
	some_turns(w.g->r, 2);
	assert_int_equal(w.j.calls, 0);
	end_op(s);
	assert_int_equal(jrec_finish(w.g->r, &w.j), -ECANCELED);
	assert_int_equal(w.j.detail.bytes, 30);
	assert_int_equal(s->calls, 1);
	weir_buf_put(list);

	assert_int_equal(weir_domain_set_cancel(s->d, user_domain_cancel), 0);
	jrec_init(&w.j);
	weir_job_copy(&w.j.job, weir_operand_at(s->d, 0, 64),
		      mem_at(&w, 0, 64));
	STARTS(weir_job_start(w.dma, &w.j.job));
	weir_op_set_deadline(&w.j.job.op, weir_reactor_now(w.g->r) + 1);
	assert_int_equal(jrec_finish(w.g->r, &w.j), -ETIMEDOUT);
	assert_int_equal(s->cancels, 1);

	/* A context that stops. */
	jrec_init(&w.j);
	weir_job_copy(&w.j.job, weir_operand_at(s->d, 0, 64),
		      mem_at(&w, 0, 64));
	STARTS(weir_job_start(w.dma, &w.j.job));
	rec_init(&stop);
	STARTS(weir_dma_stop(w.dma, &stop.op));
	assert_int_equal(finish(w.g->r, &stop), 0);
	assert_int_equal(w.j.res, -ECANCELED);
	assert_int_equal(s->cancels, 2);
	jobs_end(&w);
}

enum { SLOT = 1024, SLOTS = LEN / SLOT, EVERY = 7 };

/* Random work: the store's key, a wrong one, and what the store should hold. */
struct work {
	struct job_fixture w;
	uint32_t key, wrong;
	char shadow[LEN];
	unsigned int seed;
};

/* One read, write or fill in a slot; every so often with the wrong key. */
static void work_once(struct work *k, unsigned int i)
{
	size_t off = (size_t)rand_r(&k->seed) % SLOTS * SLOT;
	size_t len = 1 + (size_t)rand_r(&k->seed) % SLOT;
	struct weir_operand there = weir_operand_at(k->w.g->a.d, off, len);
	struct weir_operand here = mem_at(&k->w, 0, len);
	unsigned int what = (unsigned int)rand_r(&k->seed) % 3;
	struct weir_job *job = &k->w.j.job;
	char byte = (char)i;

	there.ctx = i % EVERY ? &k->key : &k->wrong;
	jrec_init(&k->w.j);
	if (what == 0) {
		weir_job_copy(job, here, there);
	} else if (what == 1) {
		fill_pattern(k->w.g->mem, len, off, i);
		weir_job_copy(job, there, here);
	} else {
		weir_job_fill(job, there, UINT64_C(0x0101010101010101) *
					  (unsigned char)byte);
	}
	if (there.ctx == &k->wrong) {
		assert_int_equal(weir_job_start(k->w.dma, job), -EBADMSG);
		return;
	}
	assert_int_equal(jrec_run(k->w.dma, &k->w.j), len);
	if (what == 1)
		memcpy(k->shadow + off, k->w.g->mem, len);
	else if (what == 2)
		memset(k->shadow + off, byte, len);
	else
		assert_memory_equal(k->shadow + off, k->w.g->mem, len);
}

/* Cases 30 and 31: all is verified, and a wrong key fails alone. */
static void random_work_is_right_and_wrong_keys_fail_alone(void **state)
{
	struct work *k = calloc(1, sizeof(*k));
	unsigned int i, n = scaled(20000);
	struct weir_domain_move *m;
	struct fixture *g;

	jobs_begin(&k->w, state);
	g = k->w.g;
	user_domain_can_all(&g->a);
	memset(g->a.mem, 0xff, LEN);
	k->seed = 5;
	k->key = 0x1234;
	k->wrong = 0x1235;
	g->a.key = &k->key;
	for (i = 0; i < n; i++)
		work_once(k, i);

	/* All of it, by a direct pull. */
	g->a.key = NULL;
	m = move(g, NULL, g->a.d);
	g->src = (struct iovec){ NULL, LEN };
	g->dst = (struct iovec){ g->mem, LEN };
	STARTS(weir_domain_pull(g->r, &g->rec.op, m));
	assert_int_equal(finish(g->r, &g->rec), LEN);
	assert_memory_equal(g->mem, k->shadow, LEN);
	jobs_end(&k->w);
	free(k);
}

static int start_copy(struct job_fixture *w, struct weir_operand to,
		      struct weir_operand from)
{
	weir_job_copy(&w->j.job, to, from);
	return weir_job_start(w->dma, &w->j.job);
}

static void bounds_and_rights_of_domain_hold_for_jobs(void **state)
{
	struct weir_domain_opts opts = { .addr = 100, .len = 50 };
	struct user_domain *s = malloc(sizeof(*s));
	struct job_fixture w;
	struct iovec iov[2] = { { (void *)100, 10 }, { (void *)145, 6 } };

	assert_non_null(s);
	jobs_begin(&w, state);
	user_domain_init_with(s, "bounded", opts);
	user_domain_can_all(s);
	assert_int_equal(start_copy(&w, mem_at(&w, 0, 10),
				    weir_operand_at(s->d, 99, 10)), -ERANGE);
	assert_int_equal(start_copy(&w, weir_operand_at(s->d, 141, 10),
				    mem_at(&w, 0, 10)), -ERANGE);
	assert_int_equal(start_copy(&w, weir_operand_iov(s->d, iov, 2),
				    mem_at(&w, 0, 16)), -ERANGE);
	iov[1].iov_len = 5;
	assert_int_equal(start_copy(&w, weir_operand_iov(s->d, iov, 2),
				    mem_at(&w, 0, 15)), 0);
	jrec_finish(w.g->r, &w.j);
	assert_int_equal(s->calls, 1);
	assert_int_equal(weir_domain_destroy(s->d), 0);

	opts = (struct weir_domain_opts){ .flags = WEIR_DOMAIN_READ_ONLY };
	user_domain_init_with(s, "read-only", opts);
	user_domain_can_all(s);
	assert_int_equal(start_copy(&w, weir_operand_at(s->d, 0, 10),
				    mem_at(&w, 0, 10)), -EACCES);
	assert_int_equal(s->calls, 0);
	assert_int_equal(start_copy(&w, mem_at(&w, 0, 10),
				    weir_operand_at(s->d, 0, 10)), 0);
	jrec_finish(w.g->r, &w.j);
	assert_int_equal(weir_domain_destroy(s->d), 0);

	opts.flags = WEIR_DOMAIN_WRITE_ONLY;
	user_domain_init_with(s, "write-only", opts);
	user_domain_can_all(s);
	assert_int_equal(start_copy(&w, mem_at(&w, 0, 10),
				    weir_operand_at(s->d, 0, 10)), -EACCES);
	assert_int_equal(s->calls, 0);
	assert_int_equal(weir_domain_destroy(s->d), 0);
	free(s);
	jobs_end(&w);
}

/* Two views of one card, and one of another. */
static void domains_of_one_place_overlap(void **state)
{
	static const char one, other;
	struct weir_domain_opts opts = { .place = &one };
	struct user_domain *s = calloc(3, sizeof(*s));
	struct job_fixture w;
	int i;

	assert_non_null(s);
	jobs_begin(&w, state);
	for (i = 0; i < 3; i++) {
		opts.place = i < 2 ? &one : &other;
		user_domain_init_with(&s[i], "view", opts);
		user_domain_can_all(&s[i]);
	}
	assert_int_equal(start_copy(&w, weir_operand_at(s[1].d, 10, 10),
				    weir_operand_at(s[0].d, 1, 10)), -EINVAL);
	assert_int_equal(s[1].calls, 0);
	assert_int_equal(start_copy(&w, weir_operand_at(s[1].d, 11, 10),
				    weir_operand_at(s[0].d, 1, 10)), 0);
	jrec_finish(w.g->r, &w.j);
	assert_int_equal(start_copy(&w, weir_operand_at(s[2].d, 10, 10),
				    weir_operand_at(s[0].d, 1, 10)), 0);
	jrec_finish(w.g->r, &w.j);
	assert_int_equal(start_copy(&w, weir_operand_at(w.g->a.d, 10, 10),
				    weir_operand_at(s[0].d, 1, 10)), -EXDEV);
	for (i = 0; i < 3; i++)
		assert_int_equal(weir_domain_destroy(s[i].d), 0);
	free(s);
	jobs_end(&w);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(domain_serves_the_kinds_of_job_that_are_set),
		CASE(a_job_hands_on_what_it_was_given),
		CASE(bufs_are_handed_over_in_steps),
		CASE(the_source_of_a_job_may_end_early),
		CASE(a_job_ends_as_the_domain_says),
		CASE(a_job_that_the_domain_refuses_has_not_begun),
		CASE(a_refusal_in_the_middle_ends_the_job),
		CASE(a_cancel_of_a_job_reaches_the_domain),
		CASE(bounds_and_rights_of_domain_hold_for_jobs),
		CASE(domains_of_one_place_overlap),
		CASE(random_work_is_right_and_wrong_keys_fail_alone),
	};

	return harness_run_all(cases, N_OF(cases));
}
