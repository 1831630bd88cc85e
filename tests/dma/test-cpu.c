/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The cpu engine against a naive reference: every kind at every size and
 * alignment, with what lies around the destination untouched; jobs with more
 * than two locations; and that nothing is allocated and no page touched first
 * in steady state.
 */

#include "tests/support/alloc-fixture.h"
#include "tests/support/job-fixture.h"

#include <weir/buf.h>
#include <weir/inventory.h>

#include "tests/support/sim-calls.h"

#define GUARD 64
#define SOURCES 5		/* Of an XOR. */
#define LARGE ((size_t)64 << 20)

struct fixture {
	struct weir_reactor *r;
	struct weir_dma *dma;
	size_t max;		/* Largest job. */
	unsigned char *src[SOURCES];
	unsigned char *dst[2];
	unsigned char *want;
	struct jrec j;
};

static unsigned char *memory(size_t len)
{
	unsigned char *p = aligned_alloc(4096, (len + 4095) & ~(size_t)4095);

	assert_non_null(p);
	return p;
}

static void fixture_begin(struct fixture *g, void **state, size_t max,
			  struct weir_dma_opts opts)
{
	size_t len = max + 2 * GUARD + 64;
	int i;

	g->r = start_reactor(state);
	g->dma = start_dma(g->r, opts);
	g->max = max;
	for (i = 0; i < SOURCES; i++) {
		g->src[i] = memory(len);
		fill_pattern(g->src[i], len, 0, (unsigned int)i + 1);
	}
	for (i = 0; i < 2; i++) {
		g->dst[i] = memory(len);
		memset(g->dst[i], 0xa5, len);
	}
	g->want = memory(len);
	jrec_init(&g->j);
}

static void fixture_end(struct fixture *g)
{
	int i;

	for (i = 0; i < SOURCES; i++)
		free(g->src[i]);
	for (i = 0; i < 2; i++)
		free(g->dst[i]);
	free(g->want);
	assert_int_equal(weir_dma_destroy(g->dma), 0);
}

/* The reference: a bit at a time. */
static uint32_t naive_crc32c(uint32_t crc, const unsigned char *p, size_t n)
{
	static uint32_t table[256];
	uint32_t i, k, c;

	for (i = 0; i < 256 && !table[255]; i++) {
		for (c = i, k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? 0x82f63b78 : 0);
		table[i] = c;
	}
	for (crc = ~crc; n; n--)
		crc = crc >> 8 ^ table[(crc ^ *p++) & 0xff];
	return ~crc;
}

#define PATTERN 0x8877665544332211u

/* What is to be in the destination. */
static void reference(struct fixture *g, uint32_t kind, size_t from, size_t len)
{
	size_t i, k;

	for (i = 0; i < len; i++) {
		if (kind == WEIR_JOB_FILL) {
			g->want[i] = (unsigned char)(PATTERN >> i % 8 * 8);
			continue;
		}
		g->want[i] = g->src[0][from + i];
		for (k = 1; kind == WEIR_JOB_XOR && k < SOURCES; k++)
			g->want[i] ^= g->src[k][from + k + i];
	}
}

static void untouched(const unsigned char *p)
{
	size_t i;

	for (i = 0; i < GUARD; i++)
		assert_int_equal(p[i], 0xa5);
}

/* @at of @dst has what is wanted and no more; and is as before again. */
static void is_right(struct fixture *g, unsigned char *dst, size_t at,
		     size_t len)
{
	if (memcmp(dst + at, g->want, len))
		fail_msg("kind %u, %zu bytes at %zu", g->j.job.kind, len, at);
	untouched(dst + at - GUARD);
	untouched(dst + at + len);
	memset(dst + at, 0xa5, len);
}

static void set_up(struct fixture *g, uint32_t kind, size_t from, size_t to,
		   size_t len, struct weir_operand *more)
{
	struct weir_operand src = weir_operand_mem(g->src[0] + from, len);
	struct weir_operand dst = weir_operand_mem(g->dst[0] + to, len);
	struct weir_job *job = &g->j.job;
	size_t k;

	switch (kind) {
	case WEIR_JOB_COPY:
		weir_job_copy(job, dst, src);
		break;
	case WEIR_JOB_COPY_CRC32C:
		weir_job_copy_crc32c(job, dst, src, 7);
		break;
	case WEIR_JOB_CRC32C:
		weir_job_crc32c(job, src, 7);
		break;
	case WEIR_JOB_FILL:
		weir_job_fill(job, dst, PATTERN);
		break;
	case WEIR_JOB_COMPARE:
		memcpy(g->dst[0] + to, g->src[0] + from, len);
		weir_job_compare(job, src, dst);
		break;
	case WEIR_JOB_DUALCAST:
		more[0] = weir_operand_mem(g->dst[1] + to, len);
		weir_job_dualcast(job, dst, more, src);
		break;
	default:
		for (k = 0; k < SOURCES; k++)
			more[k] = weir_operand_mem(g->src[k] + from + k, len);
		weir_job_xor(job, dst, more, SOURCES);
		break;
	}
}

/* One job of @len bytes from @from to @to, both at least GUARD. */
static void one(struct fixture *g, uint32_t kind, size_t from, size_t to,
		size_t len)
{
	struct weir_operand more[SOURCES];

	set_up(g, kind, from, to, len, more);
	assert_int_equal(jrec_run(g->dma, &g->j), len);
	if (kind == WEIR_JOB_CRC32C || kind == WEIR_JOB_COPY_CRC32C)
		assert_int_equal(g->j.job.crc,
				 naive_crc32c(7, g->src[0] + from, len));
	if (kind == WEIR_JOB_CRC32C)
		return;
	reference(g, kind, from, len);
	is_right(g, g->dst[0], to, len);
	if (kind == WEIR_JOB_DUALCAST)
		is_right(g, g->dst[1], to, len);
}

static const uint32_t kinds[] = {
	WEIR_JOB_COPY, WEIR_JOB_FILL, WEIR_JOB_CRC32C, WEIR_JOB_COPY_CRC32C,
	WEIR_JOB_COMPARE, WEIR_JOB_DUALCAST, WEIR_JOB_XOR,
};

/* Sizes differ from pair to pair, and wrap at a prime.  Under TSan, which sees one
 * thread here and takes ten times as long, each of one side meets some of the other. */
static void every_pair(struct fixture *g, size_t base)
{
	size_t a, b, k, n = 0, step = UNDER_TSAN && !want_long() ? 13 : 1;

	for (k = 0; k < N_OF(kinds); k++)
		for (a = 0; a < 64; a++)
			for (b = a % step; b < 64; b += step, n++)
				one(g, kinds[k], GUARD + a, GUARD + b,
				    base + n % 331);
}

static void cpu_engine_is_right_at_every_alignment(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, 8192, (struct weir_dma_opts){ 0 });
	every_pair(&g, 1);
	if (want_long())
		every_pair(&g, 4000);
	fixture_end(&g);
}

static void copies_past_the_cache_are_right_at_every_alignment(void **state)
{
	size_t base = want_long() ? 16384 : 4096;
	struct fixture g;

	if (under_valgrind())
		skip();
	fixture_begin(&g, state, 32768,
		      (struct weir_dma_opts){ .stream_min = 1 });
	every_pair(&g, base);
	if (want_long())
		every_pair(&g, 1);
	fixture_end(&g);
}

static void every_kind(struct fixture *g, size_t len)
{
	size_t k;

	for (k = 0; k < N_OF(kinds); k++)
		one(g, kinds[k], GUARD + len % 64, GUARD + len / 3 % 64, len);
}

static void cpu_engine_is_right_at_every_size(void **state)
{
	size_t small = want_long() ? 8400 : 600;
	size_t max = want_long() ? LARGE : (size_t)(UNDER_TSAN ? 1 : 4) << 20;
	struct fixture g;
	size_t len;

	fixture_begin(&g, state, max, (struct weir_dma_opts){ 0 });
	for (len = 1; len <= small; len++)
		every_kind(&g, len);
	for (len = 1024; len <= max; len *= 2) {
		every_kind(&g, len - 1);
		every_kind(&g, len);
		if (len < max)
			every_kind(&g, len + 1);
	}
	fixture_end(&g);
}

static void worker_agrees_with_the_reference(void **state)
{
	struct fixture g;
	size_t len;

	fixture_begin(&g, state, 1 << 20,
		      (struct weir_dma_opts){ .worker_min = 1 });
	for (len = 1; len <= 1 << 20; len *= 8)
		every_kind(&g, len);
	fixture_end(&g);
}

/* Cut @len bytes at @p into pieces by @seed.  Returns how many. */
static uint32_t cut(struct iovec *iov, unsigned char *p, size_t len,
		    unsigned int seed)
{
	size_t some;
	uint32_t n;

	for (n = 0; len; n++) {
		some = 1 + (seed = seed * 1103515245 + 12345) / 65536 % 9000;
		if (some > len || n == WEIR_JOB_PIECES_MAX - 1)
			some = len;
		iov[n] = (struct iovec){ p, some };
		p += some;
		len -= some;
	}
	return n;
}

static void operand_may_be_in_pieces_of_its_own(void **state)
{
	static struct iovec iov[SOURCES + 2][WEIR_JOB_PIECES_MAX];
	size_t len = 200000;
	struct weir_operand src[SOURCES], dst[2];
	struct fixture g;
	unsigned int seed, k;

	fixture_begin(&g, state, len, (struct weir_dma_opts){ 0 });
	for (seed = 0; seed < 20; seed++) {
		for (k = 0; k < SOURCES; k++)
			src[k] = weir_operand_iov(NULL, iov[k],
						  cut(iov[k],
						      g.src[k] + GUARD + k, len,
						      10 * seed + k));
		for (k = 0; k < 2; k++)
			dst[k] = weir_operand_iov(NULL, iov[SOURCES + k],
						  cut(iov[SOURCES + k],
						      g.dst[k] + GUARD, len,
						      10 * seed + 8 + k));
		weir_job_xor(&g.j.job, dst[0], src, SOURCES);
		assert_int_equal(jrec_run(g.dma, &g.j), len);
		reference(&g, WEIR_JOB_XOR, GUARD, len);
		is_right(&g, g.dst[0], GUARD, len);

		weir_job_dualcast(&g.j.job, dst[0], &dst[1], src[0]);
		assert_int_equal(jrec_run(g.dma, &g.j), len);
		reference(&g, WEIR_JOB_DUALCAST, GUARD, len);
		is_right(&g, g.dst[0], GUARD, len);
		is_right(&g, g.dst[1], GUARD, len);
	}
	fixture_end(&g);
}

static void refused(struct fixture *g, int err)
{
	assert_int_equal(weir_job_start(g->dma, &g->j.job), err);
	assert_int_equal(weir_op_is_busy(&g->j.job.op), 0);
}

static void extra_operands_are_checked_like_the_first_two(void **state)
{
	struct weir_operand more[SOURCES];
	struct weir_job *job;
	struct fixture g;

	fixture_begin(&g, state, 4096, (struct weir_dma_opts){ 0 });
	job = &g.j.job;

	set_up(&g, WEIR_JOB_DUALCAST, GUARD, GUARD, 100, more);
	job->n_extra = 0;
	refused(&g, -EINVAL);
	job->n_extra = 2;
	refused(&g, -EINVAL);
	job->n_extra = 1;
	job->more = NULL;
	refused(&g, -EINVAL);
	job->more = more;
	job->kind = WEIR_JOB_COPY;
	refused(&g, -EINVAL);
	job->kind = WEIR_JOB_DUALCAST;
	more[0].len = 99;
	refused(&g, -EMSGSIZE);
	more[0] = weir_operand_mem(NULL, 100);
	refused(&g, -EINVAL);
	more[0] = weir_operand_mem((void *)(UINTPTR_MAX - 50), 100);
	refused(&g, -ERANGE);
	more[0] = weir_operand_mem(g.dst[0] + GUARD + 99, 100);
	refused(&g, -EINVAL);
	more[0] = weir_operand_mem(g.src[0] + GUARD + 99, 100);
	refused(&g, -EINVAL);
	more[0] = weir_operand_mem(g.src[0] + GUARD + 100, 100);
	more[0].reserved0 = 1;
	refused(&g, -EINVAL);

	set_up(&g, WEIR_JOB_XOR, GUARD, GUARD, 100, more);
	job->n_extra = WEIR_JOB_EXTRA_MAX + 1;
	refused(&g, -EINVAL);
	job->n_extra = SOURCES - 1;
	more[SOURCES - 1].len = 101;
	refused(&g, -EMSGSIZE);
	more[SOURCES - 1] = weir_operand_mem(g.dst[0] + GUARD - 99, 100);
	refused(&g, -EINVAL);
	fixture_end(&g);
}

static void sources_of_an_xor_may_be_the_same(void **state)
{
	struct weir_operand more[2];
	struct fixture g;

	fixture_begin(&g, state, 4096, (struct weir_dma_opts){ 0 });
	more[0] = weir_operand_mem(g.src[0], 1000);
	more[1] = weir_operand_mem(g.src[0], 1000);
	weir_job_xor(&g.j.job, weir_operand_mem(g.dst[0] + GUARD, 1000), more,
		     2);
	assert_int_equal(jrec_run(g.dma, &g.j), 1000);
	memset(g.want, 0, 1000);
	is_right(&g, g.dst[0], GUARD, 1000);
	fixture_end(&g);
}

struct bufs {
	struct weir_mmap *m, *ro;
	struct weir_inventory *inv;
	struct weir_buf *buf[4];	/* 0: full; 1 to 3: empty. */
};

#define PART 1024

static void bufs_begin(struct bufs *b, struct fixture *g)
{
	int i;

	b->m = start_mmap(g->src[0], 4 * PART, WEIR_MMAP_WRITE);
	b->ro = start_mmap(g->src[1], PART, WEIR_MMAP_READ);
	assert_int_equal(weir_inventory_create(&b->inv, g->r, NULL), 0);
	assert_int_equal(weir_inventory_attach(b->inv, b->m), 0);
	assert_int_equal(weir_inventory_attach(b->inv, b->ro), 0);
	for (i = 0; i < 4; i++)
		assert_int_equal(weir_inventory_get(&b->buf[i], b->inv, b->m,
					g->src[0] + i * PART, PART, NULL,
					i ? 0 : PART), 0);
}

static void bufs_end(struct bufs *b)
{
	int i;

	for (i = 0; i < 4; i++) {
		assert_int_equal(weir_buf_refs(b->buf[i]), 1);
		weir_buf_put(b->buf[i]);
	}
	assert_int_equal(weir_inventory_destroy(b->inv), 0);
	assert_int_equal(weir_mmap_destroy(b->m), 0);
	assert_int_equal(weir_mmap_destroy(b->ro), 0);
}

/* A8.2, A8.3, A8.5 for a second destination. */
static void dualcast_appends_to_both_destinations(void **state)
{
	struct weir_operand second;
	struct weir_buf *ro = NULL;
	struct bufs b;
	struct fixture g;

	fixture_begin(&g, state, 8192, (struct weir_dma_opts){ 0 });
	bufs_begin(&b, &g);
	second = weir_operand_buf(b.buf[2]);
	weir_job_dualcast(&g.j.job, weir_operand_buf(b.buf[1]), &second,
			  weir_operand_mem(g.src[2], 600));
	assert_int_equal(jrec_run(g.dma, &g.j), 600);
	assert_int_equal(weir_buf_data_len(b.buf[1]), 600);
	assert_int_equal(weir_buf_data_len(b.buf[2]), 600);
	assert_memory_equal(g.src[0] + 2 * PART, g.src[2], 600);

	refused(&g, -EMSGSIZE);
	weir_job_dualcast(&g.j.job, weir_operand_buf(b.buf[3]), &second,
			  weir_operand_mem(g.src[2], 600));
	refused(&g, -EMSGSIZE);
	g.j.job.flags = WEIR_JOB_OVERWRITE | WEIR_JOB_LAZY;
	STARTS(weir_job_start(g.dma, &g.j.job));
	assert_int_equal(weir_buf_refs(b.buf[2]), 2);
	assert_int_equal(weir_op_cancel(&g.j.job.op), 0);
	assert_int_equal(jrec_finish(g.r, &g.j), -ECANCELED);
	assert_int_equal(weir_buf_data_len(b.buf[2]), 600);
	assert_int_equal(weir_buf_data_len(b.buf[3]), 0);

	second = weir_operand_buf(b.buf[3]);
	weir_job_dualcast(&g.j.job, weir_operand_buf(b.buf[3]), &second,
			  weir_operand_mem(g.src[2], 600));
	refused(&g, -EINVAL);
	assert_int_equal(weir_inventory_get(&ro, b.inv, b.ro, g.src[1], PART,
					    NULL, 0), 0);
	second = weir_operand_buf(ro);
	refused(&g, -EACCES);
	weir_buf_put(ro);
	bufs_end(&b);
	fixture_end(&g);
}

static void a_list_may_be_several_sources(void **state)
{
	struct weir_operand srcs[3];
	struct bufs b;
	struct fixture g;

	fixture_begin(&g, state, 8192, (struct weir_dma_opts){ 0 });
	bufs_begin(&b, &g);
	srcs[0] = srcs[1] = srcs[2] = weir_operand_buf(b.buf[0]);
	weir_job_xor(&g.j.job, weir_operand_buf(b.buf[1]), srcs, 3);
	g.j.job.flags = WEIR_JOB_LAZY;
	STARTS(weir_job_start(g.dma, &g.j.job));
	assert_int_equal(weir_buf_refs(b.buf[0]), 4);
	assert_int_equal(jrec_finish(g.r, &g.j), PART);
	assert_memory_equal(g.src[0], g.src[0] + PART, PART);
	bufs_end(&b);
	fixture_end(&g);
}

static void many(struct fixture *g, struct jrec *file, int n)
{
	struct weir_operand more[SOURCES];
	int i;

	for (i = 0; i < n; i++) {
		set_up(g, kinds[(size_t)i % N_OF(kinds)], GUARD, GUARD, 4096,
		       more);
		assert_int_equal(jrec_run(g->dma, &g->j), 4096);
		if (i % 16 == 0)
			assert_int_equal(jrec_run(g->dma, file), 4096);
	}
}

static void cpu_engine_in_steady_state_allocates_and_faults_nothing(void **state)
{
	struct weir_domain *d;
	struct jrec file;
	unsigned int before;
	int n = 2000, fd;
	long faults;
	struct fixture g;

	need_counts();
	fd = test_file(state, "f", 4096, 9);
	d = file_domain(fd);
	fixture_begin(&g, state, 8192, (struct weir_dma_opts){ 0 });
	jrec_init(&file);
	weir_job_copy(&file.job, weir_operand_mem(g.dst[1], 4096),
		      weir_operand_at(d, 0, 4096));
	many(&g, &file, n / 10);
	before = atomic_load(&allocations);
	faults = minor_faults();
	many(&g, &file, n);
	faults = minor_faults() - faults;
	assert_int_equal(atomic_load(&allocations) - before, 0);

	/* The kernel may move a page or two meanwhile. */
	assert_in_range(faults, 0, n / 100);
	fixture_end(&g);
	assert_int_equal(weir_domain_destroy(d), 0);
	close(fd);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(operand_may_be_in_pieces_of_its_own),
		CASE(extra_operands_are_checked_like_the_first_two),
		CASE(sources_of_an_xor_may_be_the_same),
		CASE(dualcast_appends_to_both_destinations),
		CASE(a_list_may_be_several_sources),
		CASE(worker_agrees_with_the_reference),
		CASE(cpu_engine_in_steady_state_allocates_and_faults_nothing),
		CASE(cpu_engine_is_right_at_every_alignment),
		CASE(copies_past_the_cache_are_right_at_every_alignment),
		CASE(cpu_engine_is_right_at_every_size),
	};

	return harness_run_all(cases, N_OF(cases));
}
