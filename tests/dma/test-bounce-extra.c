/* SPDX-License-Identifier: BSD-3-Clause */
/* Through staging with more than two places: copies to two, and XORs. */

#include "tests/support/bounce-fixture.h"

#include <weir/buf.h>
#include <weir/inventory.h>

/* A job with its places; the last has the destination. */
struct more {
	enum place at[SIDES];
	struct weir_operand operand[SIDES];
	struct jrec j;
};

static bool is_there(const struct fixture *g, const struct more *m,
			    int n)
{
	int i;

	for (i = 0; i < n; i++)
		if (m->at[i] == PROC && !g->self)
			return false;
	return true;
}

/* @m->j copies from side 0 to sides 1 and 2. */
static void set_dualcast(struct fixture *g, struct more *m, uint64_t off,
				size_t len)
{
	int i;

	for (i = 0; i < 3; i++)
		m->operand[i] = operand_of(g, m->at[i], i, off, len);
	jrec_init(&m->j);
	weir_job_dualcast(&m->j.job, m->operand[1], &m->operand[2],
			  m->operand[0]);
}

/* It makes side 3 of sides 0 to 2. */
static void set_xor(struct fixture *g, struct more *m, uint64_t off,
			   size_t len)
{
	int i;

	for (i = 0; i < SIDES; i++)
		m->operand[i] = operand_of(g, m->at[i], i, off, len);
	jrec_init(&m->j);
	weir_job_xor(&m->j.job, m->operand[3], m->operand, 3);
}

/* Of @len bytes, @done have arrived, and nothing beside all of them. */
static void check_copy(struct fixture *g, const struct more *m,
			      size_t len, uint64_t done)
{
	const char *src = bytes_of(g, m->at[0], 0), *dst;
	int i;

	for (i = 1; i < 3; i++) {
		dst = bytes_of(g, m->at[i], i);
		if (memcmp(src + OFF, dst + OFF, done) ||
		    !is_untouched(dst, 0, OFF) ||
		    !is_untouched(dst, OFF + len, OFF + len + 64))
			fail_msg("from %d to %d and %d, %zu bytes: side %d",
				 m->at[0], m->at[1], m->at[2], len, i);
	}
}

static void check_xor(struct fixture *g, const struct more *m,
			     size_t len, uint64_t done)
{
	const char *from[3], *dst = bytes_of(g, m->at[3], 3);
	size_t i;

	for (i = 0; i < 3; i++)
		from[i] = bytes_of(g, m->at[i], (int)i);
	for (i = OFF; i < OFF + done; i++)
		if (dst[i] != (from[0][i] ^ from[1][i] ^ from[2][i]))
			fail_msg("of %d, %d, %d to %d, %zu bytes: byte %zu",
				 m->at[0], m->at[1], m->at[2], m->at[3], len,
				 i - OFF);
	assert_true(is_untouched(dst, 0, OFF));
	assert_true(is_untouched(dst, OFF + len, OFF + len + 64));
}

/* Sources have a pattern each, destinations none; @dst is the first. */
static void fill_all(struct fixture *g, const struct more *m, int dst,
			    int n, size_t len)
{
	int i;

	for (i = 0; i < n; i++)
		if (i < dst)
			fill_pattern(bytes_of(g, m->at[i], i), OFF + len, 0,
				     (unsigned int)i + 1);
		else
			memset(bytes_of(g, m->at[i], i), 0x55, OFF + len + 64);
}

/* The places of the @k-th combination of @n.  False: there is no such one. */
static bool choose(struct more *m, int k, int n)
{
	int i;

	for (i = 0; i < n; i++, k /= N_PLACES)
		m->at[i] = (enum place)(k % N_PLACES);
	return !k;
}

static void all_copies(struct fixture *g, size_t len)
{
	struct more m;
	int k;

	for (k = 0; choose(&m, k, 3); k++) {
		if (!is_there(g, &m, 3))
			continue;
		fill_all(g, &m, 1, 3, len);
		set_dualcast(g, &m, OFF, len);
		assert_int_equal(run(g, &m.j), len);
		assert_int_equal(m.j.detail.bytes, len);
		assert_int_equal(route_of(&m.j),
				 k ? WEIR_ROUTE_BOUNCE : WEIR_ROUTE_DIRECT);
		check_copy(g, &m, len, len);
	}
}

static void all_xors(struct fixture *g, size_t len)
{
	struct more m;
	int k;

	for (k = 0; choose(&m, k, SIDES); k++) {
		if (!is_there(g, &m, SIDES))
			continue;
		fill_all(g, &m, 3, SIDES, len);
		set_xor(g, &m, OFF, len);
		assert_int_equal(run(g, &m.j), len);
		assert_int_equal(m.j.detail.bytes, len);
		assert_int_equal(route_of(&m.j),
				 k ? WEIR_ROUTE_BOUNCE : WEIR_ROUTE_DIRECT);
		check_xor(g, &m, len, len);
	}
}

static void bounced_job_moves_every_byte_between_any_places(void **state)
{
	static const size_t lens[] = { 1, 4096, 4097, 13000 };
	struct fixture g;
	size_t i, size;

	for (size = 4096; size <= 262144; size *= 64) {
		fixture_begin(&g, state,
			      (struct weir_dma_opts){ .staging_bufs = 1,
						      .staging_size =
							      (uint32_t)size });
		for (i = 0; i < N_OF(lens) - (under_valgrind() ? 2 : 0); i++) {
			all_copies(&g, lens[i]);
			all_xors(&g, lens[i]);
		}
		fixture_end(&g);
		end_reactor(state);
	}
}

static void the_longest_xor_is_that_of_sixteen_files(void **state)
{
	struct weir_operand operand[WEIR_JOB_EXTRA_MAX + 1];
	const size_t n = 9000;
	struct jrec j;
	struct fixture g;
	size_t i, k;
	char want;

	fixture_begin(&g, state,
		      (struct weir_dma_opts){ .staging_bufs = 1,
					      .staging_size = 4096 });
	fill_pattern(g.view[0], LEN, 0, 5);
	for (k = 0; k < N_OF(operand); k++)
		operand[k] = operand_of(&g, FIL, 0, k * 1001, n);
	jrec_init(&j);
	weir_job_xor(&j.job, operand_of(&g, FIL, 1, OFF, n), operand,
		     N_OF(operand));
	assert_int_equal(run(&g, &j), n);
	for (i = 0; i < n; i++) {
		for (want = 0, k = 0; k < N_OF(operand); k++)
			want ^= g.view[0][k * 1001 + i];
		if (g.view[1][OFF + i] != want)
			fail_msg("byte %zu", i);
	}
	fixture_end(&g);
}

/* A file for each side, of which @short_one is cut off after @end bytes. */
static void cut_short(struct fixture *g, struct more *m, int short_one,
		      size_t end)
{
	const size_t len = 20000;
	int flag;

	assert_int_equal(ftruncate(g->fd[short_one], (off_t)(OFF + end)), 0);
	for (flag = 0; flag < 2; flag++) {
		memset(g->user[3].mem, 0x55, LEN);
		set_xor(g, m, OFF, len);
		m->j.job.flags = flag ? WEIR_JOB_SHORT_OK : 0;
		assert_int_equal(run(g, &m->j), flag ? (int64_t)end : -ENODATA);
		assert_int_equal(m->j.detail.bytes, end);
		check_xor(g, m, end, end);
	}
	assert_int_equal(ftruncate(g->fd[short_one], LEN), 0);
}

static void an_xor_ends_with_its_shortest_source(void **state)
{
	static const size_t ends[] = { 0, 1, 4095, 4096, 10000, 19999 };
	struct more m = { .at = { FIL, FIL, FIL, USER } };
	struct fixture g;
	size_t i;
	int k;

	fixture_begin(&g, state,
		      (struct weir_dma_opts){ .staging_bufs = 1,
					      .staging_size = 4096 });
	for (k = 0; k < 3; k++)
		for (i = 0; i < N_OF(ends); i++) {
			fill_all(&g, &m, 3, SIDES, 20000);
			cut_short(&g, &m, k, ends[i]);
		}
	fixture_end(&g);
}

static void a_copy_to_two_ends_with_its_source(void **state)
{
	struct more m = { .at = { FIL, USER, FIL } };
	struct fixture g;

	fixture_begin(&g, state,
		      (struct weir_dma_opts){ .staging_bufs = 1,
					      .staging_size = 4096 });
	fill_all(&g, &m, 1, 3, 20000);
	assert_int_equal(ftruncate(g.fd[0], OFF + 9000), 0);
	set_dualcast(&g, &m, OFF, 20000);
	m.j.job.flags = WEIR_JOB_SHORT_OK;
	assert_int_equal(run(&g, &m.j), 9000);
	check_copy(&g, &m, 9000, 9000);
	set_dualcast(&g, &m, OFF, 20000);
	assert_int_equal(run(&g, &m.j), -ENODATA);
	assert_int_equal(m.j.detail.bytes, 9000);
	fixture_end(&g);
}

/* The first destination takes all, the second nothing. */
static void dualcast_may_fail_at_one_destination(void **state)
{
	struct more m = { .at = { MEM, FIL, USER } };
	struct fixture g;

	fixture_begin(&g, state,
		      (struct weir_dma_opts){ .staging_bufs = 1,
					      .staging_size = 4096 });
	fill_all(&g, &m, 1, 3, 20000);
	set_dualcast(&g, &m, OFF, 20000);
	g.user[2].fail_in = 1;
	assert_int_equal(run(&g, &m.j), -EREMOTEIO);
	assert_int_equal(m.j.detail.code, 77);
	assert_in_range(m.j.detail.bytes, 0, 4095);
	check_copy(&g, &m, 20000, m.j.detail.bytes);
	assert_memory_equal(g.view[1] + OFF, g.mem + OFF, 4096);

	/* The other way round. */
	m.at[1] = USER;
	m.at[2] = FIL;
	fill_all(&g, &m, 1, 3, 20000);
	set_dualcast(&g, &m, OFF, 20000);
	g.user[1].fail_in = 1;
	assert_int_equal(run(&g, &m.j), -EREMOTEIO);
	assert_int_equal(m.j.detail.bytes, 0);
	assert_true(is_untouched(g.view[2], 0, 20000));
	fixture_end(&g);
}

struct bufs {
	struct weir_mmap *m;
	struct weir_inventory *inv;
	struct weir_buf *buf[3];
};

/* Lists of two, with 100 bytes of data in the first buf. */
static void bufs_begin(struct bufs *b, struct fixture *g)
{
	struct weir_buf *second;
	char *at = g->mem + 3 * LEN;
	int i;

	b->m = start_mmap(at, LEN, WEIR_MMAP_WRITE);
	assert_int_equal(weir_inventory_create(&b->inv, g->r, NULL), 0);
	assert_int_equal(weir_inventory_attach(b->inv, b->m), 0);
	for (i = 0; i < 3; i++, at += 20000) {
		assert_int_equal(weir_inventory_get(&b->buf[i], b->inv, b->m,
						    at, 7000, NULL, 100),
				 0);
		assert_int_equal(weir_inventory_get(&second, b->inv, b->m,
						    at + 8000, 9000, NULL, 0),
				 0);
		assert_int_equal(weir_buf_chain(b->buf[i], second), 0);
	}
}

static void bufs_end(struct bufs *b)
{
	int i;

	for (i = 0; i < 3; i++) {
		assert_int_equal(weir_buf_refs(b->buf[i]), 1);
		weir_buf_put(b->buf[i]);
	}
	assert_int_equal(weir_inventory_destroy(b->inv), 0);
	assert_int_equal(weir_mmap_destroy(b->m), 0);
}

static void set_list_copy(struct fixture *g, struct bufs *b, struct jrec *j,
			  struct weir_operand *second)
{
	*second = weir_operand_buf(b->buf[1]);
	jrec_init(j);
	weir_job_dualcast(&j->job, weir_operand_buf(b->buf[0]), second,
			  operand_of(g, USER, 0, 0, 12000));
}

static void lists_of_bufs_are_appended_to_if_all_goes_well(void **state)
{
	struct weir_operand second, from[2];
	char *first, *next;
	struct bufs b;
	struct jrec j;
	struct fixture g;
	int i;

	fixture_begin(&g, state,
		      (struct weir_dma_opts){ .staging_bufs = 1,
					      .staging_size = 4096 });
	bufs_begin(&b, &g);
	fill_pattern(g.user[0].mem, LEN, 0, 9);
	set_list_copy(&g, &b, &j, &second);
	g.user[0].fail_in = 1;
	assert_int_equal(run(&g, &j), -EREMOTEIO);
	g.user[0].fail_in = 0;
	for (i = 0; i < 2; i++)
		assert_int_equal(weir_buf_list_data_len(b.buf[i]), 100);

	set_list_copy(&g, &b, &j, &second);
	assert_int_equal(run(&g, &j), 12000);
	for (i = 0; i < 2; i++) {
		first = weir_buf_addr(b.buf[i]);
		next = weir_buf_addr(weir_buf_next(b.buf[i]));
		assert_int_equal(weir_buf_data_len(b.buf[i]), 7000);
		assert_int_equal(weir_buf_list_data_len(b.buf[i]), 12100);
		assert_true(is_pattern(first + 100, 6900, 0, 9));
		assert_true(is_pattern(next, 5100, 6900, 9));
	}

	/* A list as a source, here beside a file, of the same bytes. */
	fill_pattern(g.view[0], LEN, 0, 9);
	from[0] = operand_of(&g, FIL, 0, 0, 12000);
	from[1] = weir_operand_buf(b.buf[0]);
	from[1].addr = 100;
	jrec_init(&j);
	weir_job_xor(&j.job, operand_of(&g, USER, 1, 0, 12000), from, 2);
	memset(g.user[1].mem, 0x55, LEN);
	assert_int_equal(run(&g, &j), 12000);
	for (i = 0; i < 12000; i++)
		assert_int_equal(g.user[1].mem[i], 0);
	bufs_end(&b);
	fixture_end(&g);
}

/* What is left of a place when others get the slot is found again. */
static void a_hundred_of_them_share_one_block_of_4_kib(void **state)
{
	enum { N = 100, EACH = 1280 };
	struct more *m = calloc(N, sizeof(*m));
	struct fixture g;
	int i, k;

	fixture_begin(&g, state,
		      (struct weir_dma_opts){ .staging_bufs = 1,
					      .staging_size = 4096 });
	for (i = 0; i < 3; i++)
		fill_pattern(g.user[i].mem, LEN, 0, (unsigned int)i);
	for (i = 0; i < N; i++) {
		for (k = 0; k < SIDES; k++)
			m[i].at[k] = USER;
		m[i].at[2] = i % 2 ? FIL : USER;
		if (i % 3)
			m[i].at[1] = FIL;
		if (i % 2)
			set_dualcast(&g, &m[i], (uint64_t)i * EACH, EACH);
		else
			set_xor(&g, &m[i], (uint64_t)i * EACH, EACH);
		STARTS(weir_job_start(g.dma, &m[i].j.job));
	}
	assert_int_equal(stats_of(&g).bounce_waits, N - 1);
	for (i = 0; i < N; i++) {
		PUMP_UNTIL(&g, m[i].j.calls);
		assert_int_equal(m[i].j.res, EACH);
	}
	assert_int_equal(stats_of(&g).bounced, N);
	assert_int_equal(stats_of(&g).bounced_bytes, N * EACH);
	free(m);
	fixture_end(&g);
}

/* Long ones, which give up the slot in between, and short ones. */
static void long_ones_take_turns(void **state)
{
	struct more m[2] = {
		{ .at = { USER, FIL, USER } },
		{ .at = { FIL, USER, PROC, MEM } },
	};
	struct jrec small;
	struct fixture g;

	fixture_begin(&g, state,
		      (struct weir_dma_opts){ .staging_bufs = 1,
					      .staging_size = 4096 });
	if (!g.self)
		m[1].at[2] = MEM;
	fill_all(&g, &m[1], 3, SIDES, LEN - 64 - OFF);
	set_xor(&g, &m[1], OFF, LEN - 64 - OFF);
	STARTS(weir_job_start(g.dma, &m[1].j.job));
	jrec_init(&small);
	weir_job_copy(&small.job, operand_of(&g, USER, 3, 0, 100),
		      operand_of(&g, FIL, 0, 0, 100));
	STARTS(weir_job_start(g.dma, &small.job));
	PUMP_UNTIL(&g, small.calls);
	assert_int_equal(m[1].j.calls, 0);
	PUMP_UNTIL(&g, m[1].j.calls);
	assert_int_equal(m[1].j.res, LEN - 64 - OFF);
	check_xor(&g, &m[1], LEN - 64 - OFF, LEN - 64 - OFF);

	fill_all(&g, &m[0], 1, 3, LEN - 64 - OFF);
	set_dualcast(&g, &m[0], OFF, LEN - 64 - OFF);
	set_xor(&g, &m[1], OFF, 5000);
	STARTS(weir_job_start(g.dma, &m[0].j.job));
	STARTS(weir_job_start(g.dma, &m[1].j.job));
	PUMP_UNTIL(&g, m[1].j.calls);
	assert_int_equal(m[0].j.calls, 0);
	PUMP_UNTIL(&g, m[0].j.calls);
	check_copy(&g, &m[0], LEN - 64 - OFF, LEN - 64 - OFF);
	fixture_end(&g);
}

static void try_storm(struct fixture *g, struct more *m, unsigned int *seed)
{
	bool copies = rand_r(seed) % 2;
	size_t len = 1 + (size_t)rand_r(seed) % 30000;
	int i, n = copies ? 3 : SIDES, dst = copies ? 1 : 3;

	for (i = 0; i < SIDES; i++) {
		g->user[i].fail_in = (unsigned int)rand_r(seed) % 3 * 20;
		g->user[i].refuse_in = (unsigned int)rand_r(seed) % 2 * 5;
	}
	do {
		choose(m, rand_r(seed) % 256, SIDES);
	} while (!is_there(g, m, SIDES));
	fill_all(g, m, dst, n, len);
	if (copies)
		set_dualcast(g, m, OFF, len);
	else
		set_xor(g, m, OFF, len);
	if (!(rand_r(seed) % 4))
		weir_op_set_deadline(&m->j.job.op,
				     weir_reactor_now(g->r) +
					     (uint64_t)rand_r(seed) % 50000);
	STARTS(weir_job_start(g->dma, &m->j.job));
	while (!m->j.calls) {
		if (!(rand_r(seed) % 64) && weir_op_is_busy(&m->j.job.op))
			weir_op_cancel(&m->j.job.op);
		pump(g);
	}
	if (m->j.res >= 0)
		assert_int_equal(m->j.res, len);
	else if (m->j.res != -ECANCELED && m->j.res != -ETIMEDOUT)
		assert_int_equal(m->j.res, -EREMOTEIO);
	if (copies)
		check_copy(g, m, len, m->j.detail.bytes);
	else
		check_xor(g, m, len, m->j.detail.bytes);
	PUMP_UNTIL(g, !stats_of(g).quarantined);
	assert_int_equal(m->j.calls, 1);
}

static void bounced_job_reports_the_bytes_that_it_moved(void **state)
{
	unsigned int rounds = scaled(want_long() ? 30000 : 1500);
	unsigned int seed = 17, i, ok = 0, bad = 0;
	struct more m;
	struct fixture g;

	fixture_begin(&g, state,
		      (struct weir_dma_opts){ .staging_bufs = 2,
					      .staging_size = 4096 });
	for (i = 0; i < rounds; i++) {
		try_storm(&g, &m, &seed);
		ok += m.j.res >= 0;
		bad += m.j.res < 0;
	}
	assert_true(ok > 0 && bad > 0);
	fixture_end(&g);
}

/* A source beside is the caller's to be waited for, or not, as any other. */
static void a_stuck_source_beside_is_quarantined(void **state)
{
	struct more m = { .at = { FIL, USER, FIL, FIL } };
	struct fixture g;
	int ctx, i;

	fixture_begin(&g, state, (struct weir_dma_opts){ .staging_bufs = 1 });
	for (i = 0; i < 2; i++) {
		g.user[1].stuck = true;
		set_xor(&g, &m, 0, 5000);
		if (i)
			m.operand[1].ctx = &ctx;
		STARTS(weir_job_start(g.dma, &m.j.job));
		PUMP_UNTIL(&g, g.user[1].n_asked);
		assert_int_equal(weir_op_cancel(&m.j.job.op), 0);
		some_turns(g.r, 3);
		assert_int_equal(m.j.calls, !i);
		assert_int_equal(stats_of(&g).quarantined, !i);
		g.user[1].stuck = false;
		PUMP_UNTIL(&g, m.j.calls && !stats_of(&g).quarantined);
		assert_int_equal(m.j.res, -ECANCELED);
	}
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(bounced_job_moves_every_byte_between_any_places),
		CASE(the_longest_xor_is_that_of_sixteen_files),
		CASE(an_xor_ends_with_its_shortest_source),
		CASE(a_copy_to_two_ends_with_its_source),
		CASE(dualcast_may_fail_at_one_destination),
		CASE(lists_of_bufs_are_appended_to_if_all_goes_well),
		CASE(a_hundred_of_them_share_one_block_of_4_kib),
		CASE(long_ones_take_turns),
		CASE(bounced_job_reports_the_bytes_that_it_moved),
		CASE(a_stuck_source_beside_is_quarantined),
	};

	return harness_run(cases, N_OF(cases));
}
