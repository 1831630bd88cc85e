/* SPDX-License-Identifier: BSD-3-Clause */

/* Pools: the table of docs/internals/mem.md, waiting in order, exact counts. */

#include "tests/support/ignore.h"
#include "tests/support/job-fixture.h"
#include "tests/support/table-fixture.h"

#include <weir/chain.h>
#include <weir/device.h>
#include <weir/dm.h>
#include <weir/pipeline.h>
#include <weir/pool.h>
#include <weir/shared-pool.h>

#include "base/fault.h"

struct taker {
	struct weir_op op;
	struct weir_buf *buf;
	int64_t res;
	int calls;
};

static void on_taken(struct weir_op *op, int64_t res)
{
	struct taker *t = weir_container_of(op, struct taker, op);

	assert_int_equal(harness_starting, 0);
	t->calls++;
	t->res = res;
	t->buf = weir_pool_taken(op);
	assert_int_equal(!t->buf, res < 0);
}

static void wait_for(struct weir_pool *pool, struct taker *t)
{
	memset(t, 0, sizeof(*t));
	weir_op_init(&t->op, on_taken);
	STARTS(weir_pool_wait(pool, &t->op));
}

static struct weir_pool *make(struct weir_reactor *r, uint32_t bufs,
			      uint32_t waiters_max)
{
	struct weir_pool_opts opts = {
		.size = sizeof(opts), .bufs = bufs, .buf_size = 5000,
		.waiters_max = waiters_max,
	};
	struct weir_pool *pool = NULL;

	assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
	return pool;
}

static struct weir_buf *take(struct weir_pool *pool)
{
	struct weir_buf *buf = NULL;

	assert_int_equal(weir_pool_get(&buf, pool), 0);
	return buf;
}

static struct weir_pool_stats look(struct weir_pool *pool)
{
	struct weir_pool_stats s = { .size = sizeof(s) };

	assert_int_equal(weir_pool_stats(pool, &s), 0);
	assert_int_equal(s.free + s.out, s.total);
	assert_true(!s.waiting || !s.free);
	return s;
}

static void bad_options_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	static const struct weir_pool_opts bad[] = {
		{ .flags = 0x100 },
		{ .align = 48 },
		{ .align = (size_t)2 << 30 },
		{ .bufs = (1u << 24) + 1 },
		{ .bufs = 1u << 24, .buf_size = (size_t)1 << 50 },
		{ .bufs = 2, .buf_size = SIZE_MAX - 5 },
	};
	struct weir_pool_opts opts;
	struct weir_pool *pool = NULL;
	size_t i;

	for (i = 0; i < N_OF(bad); i++) {
		opts = bad[i];
		opts.size = sizeof(opts);
		assert_int_equal(weir_pool_create(&pool, r, &opts), -EINVAL);
		assert_starts_with(weir_why(), "weir_pool_create: ");
	}
	assert_null(pool);
	assert_int_equal(weir_pool_destroy(NULL), 0);
}

static void reserved_fields_of_a_pool_are_0(void **state)
{
	struct weir_pool_opts opts = { .size = sizeof(opts), .reserved = 1 };
	struct weir_pool *pool = NULL;

	assert_int_equal(weir_pool_create(&pool, start_reactor(state), &opts),
			 -E2BIG);
	assert_null(pool);
}

static void buffers_are_aligned_apart_and_writable(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	static const size_t aligns[] = { 1, 64, 4096, 65536 };
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 5 };
	struct weir_pool *pool = NULL;
	struct weir_buf *buf[5];
	size_t i, j;

	for (i = 0; i < N_OF(aligns); i++) {
		opts.align = aligns[i];
		opts.buf_size = 3000 + i;
		assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
		assert_int_equal(weir_pool_buf_size(pool), 3000 + i);
		for (j = 0; j < 5; j++) {
			buf[j] = take(pool);
			assert_int_equal(weir_buf_len(buf[j]), 3000 + i);
			assert_int_equal(weir_buf_data_len(buf[j]), 0);
			assert_int_equal((uintptr_t)weir_buf_addr(buf[j]) %
					 aligns[i], 0);
			memset(weir_buf_addr(buf[j]), (int)j + 1, 3000 + i);
		}
		for (j = 0; j < 5; j++) {
			char *p = weir_buf_addr(buf[j]);

			assert_int_equal(p[0], j + 1);
			assert_int_equal(p[2999 + i], j + 1);
			weir_buf_put(buf[j]);
		}
		assert_int_equal(weir_pool_destroy(pool), 0);
	}
}

static void buf_put_back_is_empty_again(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool *pool = make(r, 1, 0);
	struct weir_buf *buf = take(pool);
	char *addr = weir_buf_addr(buf);

	assert_int_equal(weir_buf_set_data(buf, addr + 10, 20), 0);
	weir_buf_put(buf);
	buf = take(pool);
	assert_ptr_equal(weir_buf_data(buf), addr);
	assert_int_equal(weir_buf_data_len(buf), 0);
	weir_buf_put(buf);
	assert_int_equal(weir_pool_destroy(pool), 0);
}

static void an_empty_pool_says_again_and_counts(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool *pool = make(r, 2, 0);
	struct weir_buf *a = take(pool), *b = take(pool), *c = NULL;

	assert_int_equal(weir_pool_get(&c, pool), -EAGAIN);
	assert_null(c);
	assert_int_equal(look(pool).out, 2);
	assert_int_equal(look(pool).empty, 1);
	assert_int_equal(weir_pool_destroy(pool), -EBUSY);
	assert_starts_with(weir_why(), "weir_pool_destroy: 2 buffers are out");
	weir_buf_put(a);
	assert_int_equal(weir_pool_destroy(pool), -EBUSY);
	weir_buf_put(b);
	assert_int_equal(look(pool).free, 2);
	assert_int_equal(look(pool).gets, 2);
	assert_int_equal(weir_pool_destroy(pool), 0);
}

static void a_wait_is_served_at_once_if_something_is_free(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool *pool = make(r, 1, 0);
	struct taker t;

	wait_for(pool, &t);
	assert_int_equal(look(pool).free, 0);
	assert_int_equal(look(pool).waiting, 0);
	UNTIL(r, t.calls);
	assert_int_equal(t.res, 5000);
	weir_buf_put(t.buf);
	assert_int_equal(weir_pool_destroy(pool), 0);
}

static void waiters_are_served_in_the_order_they_came(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool *pool = make(r, 1, 0);
	struct weir_buf *buf = take(pool), *none = NULL;
	struct taker first, second, late;

	wait_for(pool, &first);
	wait_for(pool, &second);
	assert_int_equal(look(pool).waiting, 2);

	/* A buffer is back, but two were here before this one. */
	weir_buf_put(buf);
	assert_int_equal(weir_pool_get(&none, pool), -EAGAIN);
	wait_for(pool, &late);
	UNTIL(r, first.calls);
	some_turns(r, 3);
	assert_int_equal(second.calls + late.calls, 0);
	weir_buf_put(first.buf);
	UNTIL(r, second.calls);
	some_turns(r, 3);
	assert_int_equal(late.calls, 0);
	weir_buf_put(second.buf);
	UNTIL(r, late.calls);
	weir_buf_put(late.buf);
	assert_int_equal(look(pool).free, 1);
	assert_int_equal(weir_pool_destroy(pool), 0);
}

static void a_waiter_in_the_middle_can_leave(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool *pool = make(r, 1, 0);
	struct weir_buf *buf = take(pool);
	struct taker a, b, c;

	wait_for(pool, &a);
	wait_for(pool, &b);
	wait_for(pool, &c);
	assert_int_equal(weir_pool_destroy(pool), -EBUSY);
	assert_int_equal(weir_op_cancel(&b.op), 0);
	UNTIL(r, b.calls);
	assert_int_equal(b.res, -ECANCELED);
	assert_int_equal(look(pool).waiting, 2);
	weir_buf_put(buf);
	UNTIL(r, a.calls);
	weir_buf_put(a.buf);
	UNTIL(r, c.calls);
	weir_buf_put(c.buf);
	assert_int_equal(weir_pool_destroy(pool), 0);
}

static void a_cancel_that_is_too_late_brings_the_buffer(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool *pool = make(r, 1, 0);
	struct weir_buf *buf = take(pool);
	struct taker t;

	wait_for(pool, &t);
	weir_buf_put(buf);
	assert_int_equal(weir_op_cancel(&t.op), 0);
	UNTIL(r, t.calls);
	assert_int_equal(t.res, 5000);
	weir_buf_put(t.buf);
	assert_int_equal(weir_pool_destroy(pool), 0);
}

static void pool_with_a_waiter_is_not_destroyed(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 1,
				       .buf_size = 64 };
	struct weir_pool *pool;
	struct weir_buf *buf;
	struct taker t;

	assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
	assert_int_equal(weir_pool_get(&buf, pool), 0);
	wait_for(pool, &t);
	assert_int_equal(weir_pool_destroy(pool), -EBUSY);
	/* It has the buf, though its callback is to come. */
	weir_buf_put(buf);
	assert_int_equal(weir_pool_destroy(pool), -EBUSY);
	UNTIL(r, !weir_op_is_busy(&t.op));
	weir_buf_put(t.buf);
	assert_int_equal(weir_pool_destroy(pool), 0);
}

static void a_deadline_ends_a_wait(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool *pool = make(r, 1, 0);
	struct weir_buf *buf = take(pool);
	struct taker t;

	memset(&t, 0, sizeof(t));
	weir_op_init(&t.op, on_taken);
	assert_int_equal(weir_op_set_deadline(&t.op, weir_reactor_now(r) +
					      WEIR_MSEC), 0);
	STARTS(weir_pool_wait(pool, &t.op));
	UNTIL(r, t.calls);
	assert_int_equal(t.res, -ETIMEDOUT);
	assert_int_equal(look(pool).waiting, 0);
	weir_buf_put(buf);
	assert_int_equal(weir_pool_destroy(pool), 0);
}

static void a_stopping_reactor_ends_the_waits(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool *pool = make(r, 1, 0);
	struct weir_buf *buf = take(pool);
	struct taker t, refused;

	wait_for(pool, &t);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(t.res, -ECANCELED);
	weir_op_init(&refused.op, on_taken);
	assert_int_equal(weir_pool_wait(pool, &refused.op), -ESHUTDOWN);
	weir_buf_put(buf);
	assert_int_equal(weir_pool_destroy(pool), 0);
}

static void waiting_is_bounded_if_asked_for(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool *pool = make(r, 1, 1);
	struct weir_buf *buf = take(pool);
	struct taker t, refused;

	wait_for(pool, &t);
	weir_op_init(&refused.op, on_taken);
	assert_int_equal(weir_pool_wait(pool, &refused.op), -EAGAIN);
	assert_int_equal(weir_op_is_busy(&refused.op), 0);
	weir_buf_put(buf);
	UNTIL(r, t.calls);
	weir_buf_put(t.buf);
	assert_int_equal(weir_pool_destroy(pool), 0);
}

static void a_list_goes_home_to_all_its_pools(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool *a = make(r, 2, 0), *b = make(r, 1, 0);
	struct weir_buf *list = take(a);

	assert_int_equal(weir_buf_chain(list, take(b)), 0);
	assert_int_equal(weir_buf_chain(list, take(a)), 0);
	weir_buf_put(list);
	assert_int_equal(look(a).free, 2);
	assert_int_equal(look(b).free, 1);
	assert_int_equal(weir_pool_destroy(a), 0);
	assert_int_equal(weir_pool_destroy(b), 0);
}

static void memory_can_be_given_in(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool_opts opts = { .size = sizeof(opts),
				       .buf_size = 4096, .align = 4096 };
	char *mem = aligned_alloc(4096, 5 * 4096);
	struct weir_pool *pool = NULL;

	opts.mmap = start_mmap(mem + 8, 4 * 4096, WEIR_MMAP_READ);
	assert_int_equal(weir_pool_create(&pool, r, &opts), -EINVAL);
	assert_int_equal(weir_mmap_destroy(opts.mmap), 0);

	opts.mmap = start_mmap(mem + 8, 4 * 4096, WEIR_MMAP_WRITE);
	opts.bufs = 4;
	assert_int_equal(weir_pool_create(&pool, r, &opts), -ERANGE);
	opts.bufs = 0;
	assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
	assert_int_equal(look(pool).total, 3);
	assert_ptr_equal(weir_pool_mmap(pool), opts.mmap);
	assert_int_equal(weir_mmap_stop(opts.mmap, NULL, NULL), -EBUSY);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_mmap_stop(opts.mmap, NULL, NULL), 0);
	opts.bufs = 1;
	assert_int_equal(weir_pool_create(&pool, r, &opts), -EBADFD);
	assert_int_equal(weir_mmap_destroy(opts.mmap), 0);
	free(mem);
}

static void pools_never_hand_out_the_same_memory(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 4,
				       .buf_size = 4096 };
	char *mem = aligned_alloc(4096, 8 * 4096);
	struct weir_mmap *all = start_mmap(mem, 8 * 4096, WEIR_MMAP_WRITE);
	struct weir_mmap *tail = start_mmap(mem + 4 * 4096, 4 * 4096,
					    WEIR_MMAP_WRITE);
	struct weir_mmap *middle = start_mmap(mem + 3 * 4096, 2 * 4096,
					      WEIR_MMAP_WRITE);
	struct weir_pool *first = NULL, *second = NULL;

	opts.mmap = all;
	assert_int_equal(weir_pool_create(&first, r, &opts), 0);
	opts.bufs = 1;
	assert_int_equal(weir_pool_create(&second, r, &opts), -EBUSY);
	assert_non_null(strstr(weir_why(), "another pool"));
	assert_null(second);
	opts.mmap = middle;
	assert_int_equal(weir_pool_create(&second, r, &opts), -EBUSY);
	/* Of the first mmap, these pages are in no pool. */
	opts.mmap = tail;
	assert_int_equal(weir_pool_create(&second, r, &opts), 0);
	assert_int_equal(weir_pool_destroy(first), 0);
	opts.mmap = all;
	opts.bufs = 5;
	assert_int_equal(weir_pool_create(&first, r, &opts), -EBUSY);
	assert_int_equal(weir_pool_destroy(second), 0);
	assert_int_equal(weir_pool_create(&first, r, &opts), 0);
	assert_int_equal(weir_pool_destroy(first), 0);
	assert_int_equal(weir_mmap_destroy(all), 0);
	assert_int_equal(weir_mmap_destroy(tail), 0);
	assert_int_equal(weir_mmap_destroy(middle), 0);
	free(mem);
}

static void no_pool_is_made_of_what_another_has_allocated(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 4,
				       .buf_size = 4096 };
	struct weir_pool *own = NULL, *other = NULL;
	void *addr;
	size_t len;

	assert_int_equal(weir_pool_create(&own, r, &opts), 0);
	assert_int_equal(weir_mmap_memrange(weir_pool_mmap(own), &addr, &len),
			 0);
	opts.mmap = start_mmap(addr, len, WEIR_MMAP_WRITE);
	assert_int_equal(weir_pool_create(&other, r, &opts), -EBUSY);
	assert_int_equal(weir_mmap_destroy(opts.mmap), 0);
	assert_int_equal(weir_pool_destroy(own), 0);
}

/* Of a place that both mmaps have, which are destroyed. */
static void pools_exclude_each_other(struct weir_reactor *r, struct weir_mmap **m)
{
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 2,
				       .buf_size = 64, .align = 64 };
	struct weir_pool *first = NULL, *second = NULL;

	opts.mmap = m[0];
	assert_int_equal(weir_pool_create(&first, r, &opts), 0);
	opts.mmap = m[1];
	assert_int_equal(weir_pool_create(&second, r, &opts), -EBUSY);
	assert_int_equal(weir_pool_destroy(first), 0);
	assert_int_equal(weir_pool_create(&second, r, &opts), 0);
	assert_int_equal(weir_pool_destroy(second), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(weir_mmap_destroy(m[i]), 0);
}

static void pools_of_device_memory_do_not_overlap(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_device *dev;
	struct weir_mmap *m[2];
	struct weir_dm *dm;
	int i;

	assert_int_equal(weir_device_open_name(&dev, "soft-dm"), 0);
	assert_int_equal(weir_dm_alloc(&dm, dev, 256, 0), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(weir_mmap_create(&m[i], NULL), 0);
		assert_int_equal(weir_mmap_set_permissions(m[i],
							   WEIR_MMAP_WRITE), 0);
		assert_int_equal(weir_mmap_set_dm(m[i], dm, 64 * i, 192), 0);
		assert_int_equal(weir_mmap_start(m[i]), 0);
	}
	pools_exclude_each_other(r, m);
	assert_int_equal(weir_dm_free(dm), 0);
	assert_int_equal(weir_device_close(dev), 0);
}

static void pools_of_one_domain_do_not_overlap(void **state)
{
	struct weir_domain_opts of = { .size = sizeof(of),
				       .kind = WEIR_DOMAIN_USER };
	struct weir_reactor *r = start_reactor(state);
	struct weir_domain *domain;
	struct weir_mmap *m[2];
	int i;

	assert_int_equal(weir_domain_create(&domain, &of), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(weir_mmap_create(&m[i], NULL), 0);
		assert_int_equal(weir_mmap_set_permissions(m[i],
							   WEIR_MMAP_WRITE), 0);
		assert_int_equal(weir_mmap_set_domain(m[i], domain,
						      64 + 64 * (uint64_t)i,
						      192), 0);
		assert_int_equal(weir_mmap_start(m[i]), 0);
	}
	pools_exclude_each_other(r, m);
	assert_int_equal(weir_domain_destroy(domain), 0);
}

static void pool_works_whatever_could_be_registered(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 4,
				       .flags = WEIR_POOL_NO_REGISTER };
	struct weir_pool *pool = NULL;
	const char *text = NULL;

	assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
	assert_int_equal(look(pool).registered, 0);
	assert_int_equal(weir_mmap_registered(weir_pool_mmap(pool), r, &text),
			 0);
	assert_string_equal(text, "not asked for");
	weir_buf_put(take(pool));
	assert_int_equal(weir_pool_destroy(pool), 0);
}

/* The limit of locked memory, as a fault: half is let in, and no more. */
static int n_registers;

static int let_half_in(const char *name)
{
	return !strcmp(name, "io_uring_register") && n_registers++ != 1;
}

static void memory_above_the_limit_works_unregistered(void **state)
{
	struct weir_dma_stats stats = { .size = sizeof(stats) };
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 4 };
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	int fd = test_file(state, "f", 65536, 4), i;
	struct weir_domain *file = file_domain(fd);
	struct weir_pool *pool = NULL;
	struct weir_buf *buf[4];
	const char *text = NULL;
	struct jrec j;

	n_registers = 0;
	fault_ask(let_half_in);
	assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
	if (strcmp(weir_reactor_backend(r), "uring") == 0 &&
	    look(pool).registered) {
		assert_int_equal(look(pool).registered, 2 * 65536);
		weir_mmap_registered(weir_pool_mmap(pool), r, &text);
		assert_non_null(strstr(text, "ulimit -l"));
	}
	for (i = 0; i < 4; i++) {
		buf[i] = take(pool);
		jrec_init(&j);
		weir_job_copy(&j.job, weir_operand_buf(buf[i]),
			      weir_operand_at(file, 0, 65536));
		assert_int_equal(jrec_run(dma, &j), 65536);
		assert_true(is_pattern(weir_buf_data(buf[i]), 65536, 0, 4));
	}
	assert_int_equal(weir_dma_stats(dma, &stats), 0);
	assert_int_equal(stats.fixed, look(pool).registered / 65536);
	fault_ask(NULL);
	for (i = 0; i < 4; i++)
		weir_buf_put(buf[i]);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
	assert_int_equal(weir_domain_destroy(file), 0);
	close(fd);
}

/* Puts, gets and waits at random; every waiter is served in the end. */
static void random_use_loses_nothing(void **state)
{
	enum { N = 7, T = 20 };
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool *pool = make(r, N, 0);
	struct weir_buf *held[N] = { NULL }, *buf;
	unsigned int seed = 7, i, steps = scaled(20000);
	struct taker t[T];
	int n = 0, k;

	memset(t, 0, sizeof(t));
	for (i = 0; i < T; i++)
		weir_op_init(&t[i].op, on_taken);
	for (i = 0; i < steps; i++) {
		k = rand_r(&seed) % T;
		switch (rand_r(&seed) % 4) {
		case 0:
			if (!weir_pool_get(&buf, pool))
				held[n++] = buf;
			break;
		case 1:
			if (n)
				weir_buf_put(held[--n]);
			break;
		case 2:
			if (!weir_op_is_busy(&t[k].op) && !t[k].buf)
				STARTS(weir_pool_wait(pool, &t[k].op));
			break;
		default:
			weir_buf_put(t[k].buf);
			t[k].buf = NULL;
			if (i % 3 == 0 && weir_op_is_busy(&t[k].op))
				weir_op_cancel(&t[k].op);
		}
		if (i % 5 == 0)
			some_turns(r, 1);
		look(pool);
	}
	while (n)
		weir_buf_put(held[--n]);
	for (i = 0; look(pool).out || look(pool).waiting; i++) {
		some_turns(r, 1);
		weir_buf_put(t[i % T].buf);
		t[i % T].buf = NULL;
	}
	assert_int_equal(look(pool).free, N);
	assert_int_equal(weir_pool_destroy(pool), 0);
}

/* The table of docs/internals/mem.md, for a pool of its own and for one of a
 * shared_pool. */
#define STAND_BUFS 4

enum { ALL_IN, SOME_OUT, ALL_OUT, WAITING, OF_PIPELINE };

static const char *const states[] = {
	"all in", "some out", "all out", "operations wait",
	"all in, a pipeline has it",
};

static const int bufs_out[] = { 0, 2, STAND_BUFS, STAND_BUFS, 0 };

struct stand {
	struct weir_reactor *r;
	struct weir_shared_pool *shared_pool; /* NULL: the pool's own. */
	struct weir_pool *pool;
	struct weir_pipeline *pipeline;
	struct weir_buf *buf[2 * STAND_BUFS];
	int n;
	struct taker first, more;
	bool gone;
};

static int call_get(void *arg)
{
	struct stand *s = arg;
	int err = weir_pool_get(&s->buf[s->n], s->pool);

	s->n += !err;
	return err;
}

static int call_get_sized(void *arg)
{
	struct stand *s = arg;
	int err = weir_pool_get_sized(&s->buf[s->n], s->pool, 5000);

	s->n += !err;
	return err;
}

static int get_bulk(struct stand *s, int n)
{
	int err = weir_pool_get_bulk(&s->buf[s->n], s->pool, 1, (uint32_t)n);

	if (!err)
		s->n += n;
	return err;
}

static int call_get_one(void *arg)
{
	return get_bulk(arg, 1);
}

static int call_get_all(void *arg)
{
	return get_bulk(arg, STAND_BUFS);
}

static int call_grow(void *arg)
{
	struct stand *s = arg;

	if (!s->shared_pool)
		return weir_pool_grow(s->pool, 1);
	assert_int_equal(weir_pool_grow(s->pool, 1), -EPERM);
	return weir_shared_pool_grow(s->shared_pool, 5000, 1);
}

static int call_wait(void *arg)
{
	struct stand *s = arg;

	return weir_pool_wait(s->pool, &s->more.op);
}

static int call_wait_sized(void *arg)
{
	struct stand *s = arg;

	return weir_pool_wait_sized(s->pool, &s->more.op, 5000);
}

static int call_put(void *arg)
{
	struct stand *s = arg;

	weir_buf_put(s->buf[--s->n]);
	return 0;
}

static int call_destroy(void *arg)
{
	struct stand *s = arg;
	int err = weir_pool_destroy(s->pool);

	s->gone = !err;
	return err;
}

static int build(struct weir_slot *slot, void *arg)
{
	(void)arg;
	return weir_chain_add_call(weir_slot_chain(slot), WEIR_CHAIN_FIRST,
				   ignore_step, NULL);
}

static int no_next(struct weir_slot *slot, void *arg)
{
	(void)slot, (void)arg;
	return WEIR_PIPELINE_END;
}

static struct weir_pipeline *pipeline_of(struct weir_pool *pool,
					 struct weir_reactor *r)
{
	struct weir_pipeline_opts opts = {
		.size = sizeof(opts),
		.build = build,
		.next = no_next,
		.done = ignore_unit,
		.pool = pool,
	};
	struct weir_pipeline *p = NULL;

	assert_int_equal(weir_pipeline_create(&p, r, &opts), 0);
	return p;
}

static void stand_begin(struct stand *s, void **state, bool shared, int column)
{
	struct weir_shared_pool_class one = { .buf_size = 5000,
					      .bufs = STAND_BUFS };
	struct weir_shared_pool_opts sopts = {
		.size = sizeof(sopts),
		.classes = &one,
		.n_classes = 1,
	};
	struct weir_pool_opts opts = { .size = sizeof(opts),
				       .waiters_max = 1, .cache = 2 };

	memset(s, 0, sizeof(*s));
	s->r = start_reactor(state);
	weir_op_init(&s->first.op, on_taken);
	weir_op_init(&s->more.op, on_taken);
	if (shared) {
		assert_int_equal(weir_shared_pool_create(&s->shared_pool, &sopts), 0);
		opts.shared_pool = s->shared_pool;
		assert_int_equal(weir_pool_create(&s->pool, s->r, &opts), 0);
	} else {
		s->pool = make(s->r, STAND_BUFS, 1);
	}
	if (column == OF_PIPELINE)
		s->pipeline = pipeline_of(s->pool, s->r);
	while (s->n < bufs_out[column])
		assert_int_equal(call_get(s), 0);
	if (column == WAITING)
		STARTS(weir_pool_wait(s->pool, &s->first.op));
}

/* What waits is served by what is put. */
static void stand_end(struct stand *s, void **state)
{
	struct taker *t[] = { &s->first, &s->more };
	size_t i;

	while (s->n)
		call_put(s);
	for (i = 0; i < N_OF(t); i++)
		if (weir_op_is_busy(&t[i]->op)) {
			UNTIL(s->r, t[i]->calls);
			weir_buf_put(t[i]->buf);
		}
	assert_int_equal(weir_pipeline_destroy(s->pipeline), 0);
	if (!s->gone)
		assert_int_equal(weir_pool_destroy(s->pool), 0);
	assert_int_equal(weir_shared_pool_destroy(s->shared_pool), 0);
	end_reactor(state);
}

static void go_through_table(void **state, bool shared)
{
	static const struct table_call calls[] = {
		{ "get", call_get }, { "get_sized", call_get_sized },
		{ "get_bulk of one", call_get_one },
		{ "get_bulk of all", call_get_all }, { "grow", call_grow },
		{ "wait", call_wait }, { "wait_sized", call_wait_sized },
		{ "put", call_put }, { "destroy", call_destroy },
	};
	struct table_cell c;
	struct stand s;
	struct table t;

	table_open(&t, "docs/internals/mem.md", "pool: call by state", calls,
		   N_OF(calls), states, N_OF(states));
	while (table_next(&t, &c)) {
		stand_begin(&s, state, shared, c.column);
		table_result(&c, c.call->fn(&s));
		assert_int_equal(s.gone, !strcmp(c.then, "gone"));
		stand_end(&s, state);
	}
	table_close(&t);
}

static void pool_answers_as_its_state_table_says(void **state)
{
	go_through_table(state, false);
}

static void and_for_a_pool_of_a_store(void **state)
{
	go_through_table(state, true);
}

static void failed_pool_call_leaves_nothing_behind(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 2 };
	struct weir_pool *pool;
	int err, n = 0, fired;

	do {
		pool = NULL;
		fault_arm(n++);
		err = weir_pool_create(&pool, r, &opts);
		fired = fault_disarm();
		assert_true(err == 0 || (fired && err == -ENOMEM && !pool));
		if (!err) {
			weir_buf_put(take(pool));
			assert_int_equal(weir_pool_destroy(pool), 0);
		}
	} while (fired);
	assert_true(n > 5);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(pool_with_a_waiter_is_not_destroyed),
		CASE(bad_options_are_refused),
		CASE(reserved_fields_of_a_pool_are_0),
		CASE(buffers_are_aligned_apart_and_writable),
		CASE(buf_put_back_is_empty_again),
		CASE(an_empty_pool_says_again_and_counts),
		CASE(a_wait_is_served_at_once_if_something_is_free),
		CASE(waiters_are_served_in_the_order_they_came),
		CASE(a_waiter_in_the_middle_can_leave),
		CASE(a_cancel_that_is_too_late_brings_the_buffer),
		CASE(a_deadline_ends_a_wait),
		CASE(a_stopping_reactor_ends_the_waits),
		CASE(waiting_is_bounded_if_asked_for),
		CASE(a_list_goes_home_to_all_its_pools),
		CASE(memory_can_be_given_in),
		CASE(pools_never_hand_out_the_same_memory),
		CASE(no_pool_is_made_of_what_another_has_allocated),
		CASE(pools_of_device_memory_do_not_overlap),
		CASE(pools_of_one_domain_do_not_overlap),
		CASE(pool_works_whatever_could_be_registered),
		REAL(memory_above_the_limit_works_unregistered),
		CASE(random_use_loses_nothing),
		CASE(pool_answers_as_its_state_table_says),
		CASE(and_for_a_pool_of_a_store),
		CASE(failed_pool_call_leaves_nothing_behind),
	};

	return harness_run_all(cases, N_OF(cases));
}
