/* SPDX-License-Identifier: BSD-3-Clause */

/* Jobs to and from a domain of the user's own. */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tests/store-kit.h"

#include <weir/buf.h>
#include <weir/inventory.h>

struct job_rig {
	struct rig *g;
	struct weir_dma *dma;
	struct weir_inventory *inv;
	struct weir_mmap *m;
	struct weir_domain *file;
	int fd;
	struct jrec j;
};

static void jobs_begin(struct job_rig *w, void **state)
{
	w->g = rig_begin(state);
	w->dma = start_dma(w->g->r, (struct weir_dma_opts){ 0 });
	w->m = start_mmap(w->g->mem, LEN, WEIR_MMAP_WRITE);
	assert_int_equal(weir_inventory_create(&w->inv, w->g->r, NULL), 0);
	assert_int_equal(weir_inventory_attach(w->inv, w->m), 0);
	w->fd = test_file(state, "f", LEN, 2);
	w->file = file_domain(w->fd);
	jrec_init(&w->j);
}

static void jobs_end(struct job_rig *w)
{
	assert_int_equal(weir_dma_destroy(w->dma), 0);
	assert_int_equal(weir_inventory_destroy(w->inv), 0);
	assert_int_equal(weir_mmap_destroy(w->m), 0);
	assert_int_equal(weir_domain_destroy(w->file), 0);
	close(w->fd);
	rig_end(w->g);
}

static struct weir_loc mem_at(struct job_rig *w, size_t off, size_t len)
{
	return weir_loc_mem(w->g->mem + off, len);
}

static struct weir_buf *take(struct job_rig *w, size_t off, size_t len,
			     size_t data_len)
{
	struct weir_buf *buf = NULL;

	assert_int_equal(weir_inventory_get(&buf, w->inv, w->m,
					    w->g->mem + off, len, NULL,
					    data_len), 0);
	return buf;
}

enum { NONE, PULL, PUSH, TRANSFER, FILL, N_SETS };

static void only(struct weir_domain *d, int set)
{
	int err = set == PULL ? weir_domain_set_pull(d, store_pull) :
		  set == PUSH ? weir_domain_set_push(d, store_push) :
		  set == FILL ? weir_domain_set_fill(d, store_fill) :
				weir_domain_set_transfer(d, store_transfer);

	assert_int_equal(err, 0);
}

/* The table "who can, with a user's domain" of dma/README.md. */
static void what_a_job_can_do_is_what_is_set(void **state)
{
	enum { M, U, V, F };	/* Memory, store a, store b, a file. */
	static const struct {
		uint32_t kind;
		int src, dst;
		int want[N_SETS];	/* With only this set, in both. */
	} rows[] = {
#define X -EXDEV
#define N -EINVAL
		{ WEIR_JOB_COPY, U, M, { X, 0, X, X, X } },
		{ WEIR_JOB_COPY, M, U, { X, X, 0, 0, X } },
		{ WEIR_JOB_COPY, U, V, { X, X, X, 0, X } },
		{ WEIR_JOB_COPY, F, U, { X, X, X, X, X } },
		{ WEIR_JOB_COPY, U, F, { X, X, X, X, X } },
		{ WEIR_JOB_PULL, U, M, { X, 0, X, X, X } },
		{ WEIR_JOB_PULL, M, U, { N, N, N, N, N } },
		{ WEIR_JOB_PULL, U, V, { N, N, N, N, N } },
		{ WEIR_JOB_PUSH, M, U, { X, X, 0, 0, X } },
		{ WEIR_JOB_PUSH, U, M, { N, N, N, N, N } },
		{ WEIR_JOB_PUSH, U, V, { N, N, N, N, N } },
		{ WEIR_JOB_FILL, M, U, { X, X, X, X, 0 } },
		{ WEIR_JOB_CRC32C, U, M, { X, X, X, X, X } },
		{ WEIR_JOB_COPY_CRC32C, U, M, { X, X, X, X, X } },
		{ WEIR_JOB_COMPARE, U, M, { X, X, X, X, X } },
#undef X
#undef N
	};
	struct job_rig w;
	struct store *s;
	size_t i;
	int set, err, n;

	jobs_begin(&w, state);
	for (set = 0; set < N_SETS; set++) {
		for (n = 0; n < 2; n++) {
			s = n ? &w.g->a : &w.g->b;
			set_all(s->d, 0);
			if (set)
				only(s->d, set);
		}
		for (i = 0; i < N_OF(rows); i++) {
			struct weir_loc locs[4] = {
				mem_at(&w, 0, 64),
				weir_loc_at(w.g->a.d, 0, 64),
				weir_loc_at(w.g->b.d, 0, 64),
				weir_loc_at(w.file, 0, 64),
			};

			jrec_init(&w.j);
			weir_job_copy(&w.j.job, locs[rows[i].dst],
				      locs[rows[i].src]);
			w.j.job.kind = rows[i].kind;
			err = weir_job_start(w.dma, &w.j.job);
			if (err != rows[i].want[set])
				fail_msg("row %zu, set %d: %d, not %d", i, set,
					 err, rows[i].want[set]);
			if (!err)
				assert_int_equal(jrec_finish(w.g->r, &w.j),
						 64);
		}
	}
	jobs_end(&w);
}

/* The pieces, contexts and translations arrive as they were given. */
static void a_job_hands_on_what_it_was_given(void **state)
{
	struct weir_translation t = { .size = sizeof(t) };
	struct iovec from[2] = { { (void *)0, 50 }, { (void *)200, 14 } };
	const struct weir_domain_move *m;
	struct job_rig w;
	int ctx[2];

	jobs_begin(&w, state);
	store_can_all(&w.g->b);
	w.g->b.when = LATER;
	weir_job_copy(&w.j.job, weir_loc_at(w.g->b.d, 7, 64),
		      weir_loc_iov(w.g->a.d, from, 2));
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
	weir_job_fill(&w.j.job, weir_loc_at(w.g->b.d, 3, 9),
		      0x0807060504030201);
	w.g->b.when = INSIDE;
	assert_int_equal(jrec_run(w.dma, &w.j), 9);
	assert_memory_equal(w.g->b.mem + 3,
			    "\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7\xfe", 9);
	jobs_end(&w);
}

/* Lists of bufs go over some pieces at a time, and both ways come back. */
static void bufs_are_handed_over_in_steps(void **state)
{
	unsigned int seed = 9, round, rounds = scaled(300);
	struct weir_buf *list, *buf;
	struct iovec iov[20];
	struct job_rig w;
	size_t len, at, n, i;
	uint32_t k;
	int dir;

	jobs_begin(&w, state);
	store_can_all(&w.g->a);
	for (round = 0; round < rounds; round++) {
		len = 1 + (size_t)rand_r(&seed) % (LEN / 4);
		for (i = 0; i < LEN; i++)
			w.g->a.mem[i] = (char)~(i * 31 >> 3);
		for (k = 0, at = 0; at < len && k < N_OF(iov); k++, at += n) {
			n = k + 1 == N_OF(iov) ? len - at :
			    (size_t)rand_r(&seed) % (len - at + 1);
			iov[k] = (struct iovec){ (void *)(at + 40), n };
		}
		/* Without pieces, or with the last of them made to fit. */
		if (at < len)
			iov[k - 1].iov_len += len - at;
		list = NULL;
		for (at = 0; at < len; at += n) {
			n = 1 + (size_t)rand_r(&seed) % len;
			if (n > len - at)
				n = len - at;
			buf = take(&w, at, n, 0);
			if (list)
				assert_int_equal(weir_buf_chain(list, buf), 0);
			else
				list = buf;
		}
		for (dir = 0; dir < 2; dir++) {
			struct weir_loc there = weir_loc_at(w.g->a.d, 40, len);

			if (round % 2)
				there = weir_loc_iov(w.g->a.d, iov, k);
			jrec_init(&w.j);
			if (dir)
				weir_job_copy(&w.j.job, there,
					      weir_loc_buf(list));
			else
				weir_job_copy(&w.j.job, weir_loc_buf(list),
					      there);
			w.g->a.when = INSIDE;
			assert_int_equal(jrec_run(w.dma, &w.j), len);
			assert_int_equal(w.j.detail.bytes, len);
			for (i = 0; i < len; i++)
				if ((w.g->mem[i] ^ w.g->a.mem[i + 40]) !=
				    (char)0xff)
					fail_msg("byte %zu of %zu", i, len);
			memset(w.g->a.mem, 0, LEN);
		}
		weir_buf_put(list);
	}
	jobs_end(&w);
}

static void a_job_ends_as_the_domain_says(void **state)
{
	struct weir_dma_stats before = { .size = sizeof(before) };
	struct weir_dma_stats after = { .size = sizeof(after) };
	struct weir_buf *list, *buf;
	struct job_rig w;
	struct store *s;
	int flag, i;

	jobs_begin(&w, state);
	s = &w.g->a;
	store_can_all(s);

	/* The source ends early. */
	for (flag = 0; flag < 2; flag++) {
		jrec_init(&w.j);
		s->most = 10;
		weir_job_copy(&w.j.job, mem_at(&w, 0, 64),
			      weir_loc_at(s->d, 0, 64));
		w.j.job.flags = flag ? WEIR_JOB_SHORT_OK : 0;
		assert_int_equal(jrec_run(w.dma, &w.j), flag ? 10 : -ENODATA);
		assert_int_equal(w.j.detail.bytes, 10);
	}

	/* An error, with what was done and a code of the domain's. */
	jrec_init(&w.j);
	s->end = -EREMOTEIO;
	s->code = 4711;
	weir_job_copy(&w.j.job, mem_at(&w, 0, 64), weir_loc_at(s->d, 0, 64));
	assert_int_equal(jrec_run(w.dma, &w.j), -EREMOTEIO);
	assert_int_equal(w.j.detail.bytes, 10);
	assert_int_equal(w.j.detail.code, 4711);

	/* More than there is is not believed. */
	s->end = 65;
	assert_int_equal(jrec_run(w.dma, &w.j), -EIO);
	assert_int_equal(w.j.detail.bytes, 10);
	s->end = 0;
	s->most = 0;

	/* What it refuses has not begun. */
	assert_int_equal(weir_dma_stats(w.dma, &before), 0);
	jrec_init(&w.j);
	s->refuse = -EAGAIN;
	list = take(&w, 0, 10, 0);
	weir_job_copy(&w.j.job, weir_loc_buf(list), weir_loc_at(s->d, 0, 10));
	assert_int_equal(weir_job_start(w.dma, &w.j.job), -EAGAIN);
	some_turns(w.g->r, 2);
	assert_int_equal(w.j.calls, 0);
	assert_int_equal(weir_op_is_busy(&w.j.job.op), 0);
	assert_int_equal(weir_buf_refs(list), 1);
	assert_int_equal(weir_buf_set_data(list, weir_buf_addr(list), 0), 0);
	assert_int_equal(weir_domain_users(s->d), 0);
	assert_int_equal(weir_dma_stats(w.dma, &after), 0);
	assert_memory_equal(&before, &after, sizeof(after));
	s->refuse = 0;
	assert_int_equal(jrec_run(w.dma, &w.j), 10);
	weir_buf_put(list);

	/* In the second step: what the first did is told, not committed. */
	list = take(&w, 0, 10, 0);
	for (i = 1; i < 8; i++) {
		buf = take(&w, (size_t)i * 10, 10, 0);
		assert_int_equal(weir_buf_chain(list, buf), 0);
	}
	jrec_init(&w.j);
	s->when = LATER;
	weir_job_copy(&w.j.job, weir_loc_buf(list), weir_loc_at(s->d, 0, 80));
	STARTS(weir_job_start(w.dma, &w.j.job));
	end_op(s);
	s->refuse = -ENXIO;
	assert_int_equal(jrec_finish(w.g->r, &w.j), -ENXIO);
	assert_int_equal(w.j.detail.bytes, 30);
	assert_int_equal(weir_buf_list_data_len(list), 0);
	s->refuse = 0;
	weir_buf_put(list);
	jobs_end(&w);
}

static void a_cancel_of_a_job_reaches_the_domain(void **state)
{
	struct weir_buf *list;
	struct job_rig w;
	struct store *s;
	struct rec stop;
	int i;

	jobs_begin(&w, state);
	s = &w.g->a;
	store_can_all(s);
	s->when = LATER;

	/* It cannot cancel: it ends between two steps. */
	list = take(&w, 0, 10, 10);
	for (i = 1; i < 8; i++)
		assert_int_equal(weir_buf_chain(list, take(&w, (size_t)i * 10,
							   10, 10)), 0);
	weir_job_copy(&w.j.job, weir_loc_at(s->d, 0, 80), weir_loc_buf(list));
	STARTS(weir_job_start(w.dma, &w.j.job));
	assert_int_equal(weir_op_cancel(&w.j.job.op), 0);
	some_turns(w.g->r, 2);
	assert_int_equal(w.j.calls, 0);
	end_op(s);
	assert_int_equal(jrec_finish(w.g->r, &w.j), -ECANCELED);
	assert_int_equal(w.j.detail.bytes, 30);
	assert_int_equal(s->calls, 1);
	weir_buf_put(list);

	assert_int_equal(weir_domain_set_cancel(s->d, store_cancel), 0);
	jrec_init(&w.j);
	weir_job_copy(&w.j.job, weir_loc_at(s->d, 0, 64), mem_at(&w, 0, 64));
	weir_op_set_deadline(&w.j.job.op, weir_reactor_now(w.g->r) + 1);
	assert_int_equal(jrec_run(w.dma, &w.j), -ETIMEDOUT);
	assert_int_equal(s->cancels, 1);

	/* A context that stops. */
	jrec_init(&w.j);
	weir_job_copy(&w.j.job, weir_loc_at(s->d, 0, 64), mem_at(&w, 0, 64));
	STARTS(weir_job_start(w.dma, &w.j.job));
	rec_init(&stop);
	STARTS(weir_dma_stop(w.dma, &stop.op));
	assert_int_equal(finish(w.g->r, &stop), 0);
	assert_int_equal(w.j.res, -ECANCELED);
	assert_int_equal(s->cancels, 2);
	jobs_end(&w);
}

/*
 * Cases 30 and 31: random reads and writes in slots with a key each, verified
 * against a shadow; a key that is wrong now and then fails exactly those.
 */
static void random_work_is_right_and_wrong_keys_fail_alone(void **state)
{
	enum { SLOT = 1024, SLOTS = LEN / SLOT, EVERY = 7 };
	unsigned int seed = 5, i, n = scaled(20000), bad = 0, failed = 0;
	uint32_t key = 0x1234, wrong = 0x1235;
	char *shadow = calloc(1, LEN);
	struct weir_domain_move *m;
	struct job_rig w;
	struct store *s;

	jobs_begin(&w, state);
	s = &w.g->a;
	store_can_all(s);
	memset(s->mem, 0xff, LEN);
	s->key = &key;
	for (i = 0; i < n; i++) {
		size_t off = (size_t)rand_r(&seed) % SLOTS * SLOT;
		size_t len = 1 + (size_t)rand_r(&seed) % SLOT;
		struct weir_loc there = weir_loc_at(s->d, off, len);
		unsigned int what = (unsigned int)rand_r(&seed) % 3;

		there.ctx = i % EVERY ? &key : &wrong;
		bad += there.ctx == &wrong;
		jrec_init(&w.j);
		if (what == 0) {
			weir_job_copy(&w.j.job, mem_at(&w, 0, len), there);
		} else if (what == 1) {
			fill_pattern(w.g->mem, len, off, i);
			weir_job_copy(&w.j.job, there, mem_at(&w, 0, len));
		} else {
			weir_job_fill(&w.j.job, there,
				      UINT64_C(0x0101010101010101) *
				      (i & 0xff));
		}
		if (there.ctx == &wrong) {
			assert_int_equal(weir_job_start(w.dma, &w.j.job),
					 -EBADMSG);
			failed++;
			continue;
		}
		assert_int_equal(jrec_run(w.dma, &w.j), len);
		if (what == 1)
			memcpy(shadow + off, w.g->mem, len);
		else if (what == 2)
			memset(shadow + off, (int)(i & 0xff), len);
		else
			assert_memory_equal(shadow + off, w.g->mem, len);
	}
	assert_int_equal(failed, bad);

	/* All of it, by a direct pull. */
	s->key = NULL;
	m = move(w.g, NULL, s->d);
	w.g->src = (struct iovec){ NULL, LEN };
	w.g->dst = (struct iovec){ w.g->mem, LEN };
	STARTS(weir_domain_pull(w.g->r, &w.g->rec.op, m));
	assert_int_equal(finish(w.g->r, &w.g->rec), LEN);
	assert_memory_equal(w.g->mem, shadow, LEN);
	free(shadow);
	jobs_end(&w);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(what_a_job_can_do_is_what_is_set),
		CASE(a_job_hands_on_what_it_was_given),
		CASE(bufs_are_handed_over_in_steps),
		CASE(a_job_ends_as_the_domain_says),
		CASE(a_cancel_of_a_job_reaches_the_domain),
		CASE(random_work_is_right_and_wrong_keys_fail_alone),
	};

	return harness_run(cases, N_OF(cases));
}
