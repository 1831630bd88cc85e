/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_CONFORM_FIXTURE_H
#define TESTS_CONFORM_FIXTURE_H

/*
 * Jobs between any two places, against the cpu engine in plain memory: the same
 * result, checksum and bytes, and no others around them.  A place is filled
 * in by the test: where its bytes are seen, and how a job names them.
 */

#include "tests/support/job-fixture.h"

#include <weir/dm.h>
#include <weir/inventory.h>

#define GUARD 64u
#define GAP 3u /* Between pieces. */

/* What a place has: a source, a destination, and one more of either. */
enum { SRC, DST, MORE, AREAS };

/* An area is seen at .fd, in .dm or at .mem, and named by bufs of .m, or by
 * addresses of .d from .base on. */
struct place {
	const char *name;
	struct weir_domain *d[AREAS]; /* NULL: memory of this process. */
	int fd[AREAS]; /* -1: none, */
	int direct[AREAS]; /* nor without the page cache. */
	struct weir_dm *dm[AREAS];
	char *mem[AREAS];
	struct weir_mmap *m[AREAS];
	/* Bytes that are seen by a call: to or from an address of the area. */
	void (*see)(uint64_t addr, char *buf, size_t len, bool put);
	const void *ctx[AREAS]; /* Of its locations. */
	uint64_t base[AREAS]; /* The address of its first byte. */
	bool there;
	bool moves_only; /* Nobody computes over it. */
	bool remote;
};

#define PLACES_MAX 7

struct fixture {
	struct weir_reactor *r;
	struct weir_dma *dma; /* Of what is tried. */
	struct weir_dma *cpu; /* Of the reference. */
	struct weir_inventory *inv; /* For places that have mmaps. */
	size_t area;
	struct place place[PLACES_MAX], ref;
	int places;
	bool (*is_tried)(const struct fixture *g, int from, int to);
	char *seen;
};

/* A job to be tried. */
struct spec {
	uint32_t kind;
	bool narrow; /* A COPY is a PUSH or a PULL. */
	size_t len;
	size_t off[AREAS];
	uint32_t n[AREAS]; /* Pieces. */
	unsigned int seed;
};

/* Whether this takes twenty times as long as elsewhere, and is not to. */
static inline bool is_short(void)
{
	return !want_long() && (under_valgrind() || UNDER_TSAN);
}

/* The largest size that is tried; those beyond some blocks of staging take no other
 * ways. */
static inline size_t conform_largest(void)
{
	return (size_t)(want_long() ? 64 << 20 : is_short() ? 262145 : 2 << 20);
}

/* Device memory is copied in words; what is beside them stays. */
static inline void look_dm(struct weir_dm *dm, size_t off, char *buf,
			   size_t len)
{
	size_t from = off & ~(size_t)3, to = (off + len + 3) & ~(size_t)3;
	char *words = malloc(to - from);

	assert_int_equal(weir_dm_copy_from(words, dm, from, to - from), 0);
	memcpy(buf, words + (off - from), len);
	free(words);
}

static inline void put_dm(struct weir_dm *dm, size_t off, const char *buf,
			  size_t len)
{
	size_t from = off & ~(size_t)3, to = (off + len + 3) & ~(size_t)3;
	char *words = malloc(to - from);

	assert_int_equal(weir_dm_copy_from(words, dm, from, to - from), 0);
	memcpy(words + (off - from), buf, len);
	assert_int_equal(weir_dm_copy_to(dm, from, words, to - from), 0);
	free(words);
}

static inline void look(const struct place *p, int area, size_t off, char *buf,
			size_t len)
{
	if (p->see)
		p->see(p->base[area] + off, buf, len, false);
	else if (p->fd[area] >= 0)
		assert_int_equal(pread(p->fd[area], buf, len, (off_t)off), len);
	else if (p->dm[area])
		look_dm(p->dm[area], off, buf, len);
	else
		memcpy(buf, p->mem[area] + off, len);
}

static inline void put(const struct place *p, int area, size_t off,
		       const char *buf, size_t len)
{
	if (p->see)
		p->see(p->base[area] + off, (char *)buf, len, true);
	else if (p->fd[area] >= 0)
		assert_int_equal(pwrite(p->fd[area], buf, len, (off_t)off),
				 len);
	else if (p->dm[area])
		put_dm(p->dm[area], off, buf, len);
	else
		memcpy(p->mem[area] + off, buf, len);
}

static inline void fill_area(struct fixture *g, struct place *p, int area)
{
	fill_pattern(g->seen, g->area, 0, 1 + (unsigned int)area);
	put(p, area, 0, g->seen, g->area);
}

static inline void memory_begin(struct fixture *g, struct place *p, int area)
{
	p->mem[area] = aligned_alloc(4096, g->area);
	assert_non_null(p->mem[area]);
	p->base[area] = (uintptr_t)p->mem[area];
	p->fd[area] = -1;
	p->direct[area] = -1;
	p->there = true;
}

/* The reference, and capacity for jobs of up to @max bytes in places. */
static inline void fixture_init(struct fixture *g, struct weir_reactor *r,
				size_t max, struct weir_dma_opts opts)
{
	int area;

	memset(g, 0, sizeof(*g));
	g->r = r;
	g->dma = start_dma(r, opts);
	g->cpu = start_dma(r, (struct weir_dma_opts){ 0 });
	g->area = (max + 2 * GUARD + 256 * GAP + 128 + 4095) & ~(size_t)4095;
	g->seen = malloc(g->area);
	for (area = 0; area < AREAS; area++) {
		memory_begin(g, &g->ref, area);
		fill_area(g, &g->ref, area);
	}
}

static inline void fixture_fini(struct fixture *g)
{
	int area;

	assert_int_equal(weir_dma_destroy(g->dma), 0);
	assert_int_equal(weir_dma_destroy(g->cpu), 0);
	for (area = 0; area < AREAS; area++)
		free(g->ref.mem[area]);
	free(g->seen);
}

/* Pieces as one list, with data in them if they are a source. */
static inline struct weir_operand list_of(struct fixture *g,
					  const struct place *p, int area,
					  const struct weir_operand *operand,
					  bool data)
{
	struct iovec one = { (void *)(uintptr_t)operand->addr, operand->len };
	const struct iovec *iov = operand->iov ? operand->iov : &one;
	uint32_t i, n = operand->iov ? operand->n_iov : 1;
	struct weir_buf *head = NULL, *b;

	for (i = 0; i < n; i++) {
		if (!iov[i].iov_len)
			continue;
		b = NULL;
		assert_int_equal(weir_inventory_get(&b, g->inv, p->m[area],
						    iov[i].iov_base,
						    iov[i].iov_len,
						    iov[i].iov_base,
						    data ? iov[i].iov_len : 0),
				 0);
		if (head)
			assert_int_equal(weir_buf_chain(head, b), 0);
		else
			head = b;
	}
	return weir_operand_buf(head);
}

/* The same cuts whatever the place. */
static inline struct weir_operand cut(struct fixture *g, const struct place *p,
				      int area, const struct spec *s, bool data)
{
	static struct iovec all[AREAS][WEIR_JOB_PIECES_MAX];
	struct iovec *iov = all[area];
	uint64_t at = p->base[area] + s->off[area];
	unsigned int seed = s->seed + (unsigned int)area;
	struct weir_operand operand = weir_operand_at(p->d[area], at, s->len);
	uint32_t i, n = s->n[area];
	size_t left = s->len, some;

	for (i = 0; i < n && n > 1; i++) {
		some = i + 1 == n ? left :
				    (size_t)rand_r(&seed) %
					    (2 * (left / (n - i)) + 1);
		some = some < left ? some : left;
		iov[i] = (struct iovec){ (void *)(uintptr_t)at, some };
		at += some + GAP;
		left -= some;
	}
	if (n > 1)
		operand = weir_operand_iov(p->d[area], iov, n);
	operand.ctx = (void *)(uintptr_t)p->ctx[area];
	return p->m[area] ? list_of(g, p, area, &operand, data) : operand;
}

static inline void give_back(const struct weir_operand *operand)
{
	if (operand->buf)
		weir_buf_put(operand->buf);
}

/* Whether one side is memory of this process, and the other is not. */
static inline bool is_narrow(const struct place *src, const struct place *dst)
{
	return src->remote != dst->remote && !src->moves_only &&
	       !dst->moves_only;
}

static inline int64_t run_on(struct fixture *g, struct weir_dma *dma,
			     const struct place *src, const struct place *dst,
			     const struct spec *s, struct jrec *j)
{
	bool xor = s->kind == WEIR_JOB_XOR, dual = s->kind == WEIR_JOB_DUALCAST;
	struct weir_operand more = { .buf = NULL };
	struct weir_job *job = &j->job;
	int64_t res;

	jrec_init(j);
	weir_job_copy(job, cut(g, dst, DST, s, s->kind == WEIR_JOB_COMPARE),
		      cut(g, src, SRC, s, true));
	job->kind = s->kind;
	if (s->narrow && s->kind == WEIR_JOB_COPY && is_narrow(src, dst))
		job->kind = src->remote ? WEIR_JOB_PULL : WEIR_JOB_PUSH;
	job->crc = s->seed;
	job->pattern = UINT64_C(0x0123456789abcdef) * s->seed;
	if (xor || dual) {
		more = cut(g, xor? src : dst, MORE, s, xor);
		job->more = &more;
		job->n_extra = 1;
	}
	res = jrec_run(dma, j);
	give_back(&job->src);
	give_back(&job->dst);
	give_back(&more);
	return res;
}

/* What is there, and a guard's length around it. */
static inline void same_bytes(struct fixture *g, const struct place *p,
			      int area, const struct spec *s, const char *what)
{
	size_t len = s->len + 2 * GUARD + s->n[area] * GAP;
	size_t from = s->off[area] - GUARD;

	look(p, area, from, g->seen, len);
	if (memcmp(g->seen, g->ref.mem[area] + from, len))
		fail_msg("%s: kind %u, %zu bytes at %zu to %zu, in %u and %u "
			 "pieces: other bytes in area %d",
			 what, s->kind, s->len, s->off[SRC], s->off[DST],
			 s->n[SRC], s->n[DST], area);
}

/* The same everywhere: one byte of the destination is another. */
static inline void spoil(struct fixture *g, struct place *dst,
			 const struct spec *s)
{
	size_t at = s->off[DST] + s->seed % s->len;
	char byte = (char)(g->ref.mem[DST][at] + 1);

	put(&g->ref, DST, at, &byte, 1);
	put(dst, DST, at, &byte, 1);
}

static inline void try_kind(struct fixture *g, struct place *src,
			    struct place *dst, struct spec *s, const char *what)
{
	struct jrec want, got;
	int area;

	run_on(g, g->cpu, &g->ref, &g->ref, s, &want);
	run_on(g, g->dma, src, dst, s, &got);
	if (got.res != want.res || got.job.crc != want.job.crc)
		fail_msg("%s: kind %u, %zu bytes at %zu to %zu: %lld, not "
			 "%lld; %x, not %x",
			 what, s->kind, s->len, s->off[SRC], s->off[DST],
			 (long long)got.res, (long long)want.res, got.job.crc,
			 want.job.crc);
	assert_int_equal(got.detail.bytes, want.detail.bytes);
	for (area = 0; area < AREAS; area++)
		same_bytes(g,
			   area == SRC || (area == MORE &&
					   s->kind == WEIR_JOB_XOR) ?
				   src :
				   dst,
			   area, s, what);
}

/* What will be written, or added to a source, begins as in the reference. */
static inline void equal_before(struct fixture *g, struct place *dst,
				const struct spec *s)
{
	int area;

	for (area = DST; area < AREAS; area++) {
		size_t len = s->len + 2 * GUARD + s->n[area] * GAP;
		size_t from = s->off[area] - GUARD;

		put(dst, area, from, g->ref.mem[area] + from, len);
	}
}

static inline void try_all_kinds(struct fixture *g, int from, int to,
				 struct spec *s)
{
	static const uint32_t kinds[] = {
		WEIR_JOB_COPY,     WEIR_JOB_COMPARE,     WEIR_JOB_CRC32C,
		WEIR_JOB_FILL,     WEIR_JOB_COPY_CRC32C, WEIR_JOB_COMPARE,
		WEIR_JOB_DUALCAST, WEIR_JOB_XOR,
	};
	struct place *src = &g->place[from], *dst = &g->place[to];
	size_t i, n = src->moves_only || dst->moves_only ? 1 : N_OF(kinds);
	char what[64];

	snprintf(what, sizeof(what), "%s to %s", src->name, dst->name);
	equal_before(g, dst, s);
	for (i = 0; i < n; i++) {
		s->kind = kinds[i];
		if (kinds[i] == WEIR_JOB_COPY || kinds[i] == WEIR_JOB_XOR)
			equal_before(g, src, s);
		if (kinds[i] == WEIR_JOB_COMPARE && s->seed % 2)
			spoil(g, dst, s);
		try_kind(g, src, dst, s, what);
	}
}

/* Between any two of the places. */
static inline void try_all(struct fixture *g, struct spec *s)
{
	int from, to;

	s->seed++;
	for (from = 0; from < g->places; from++)
		for (to = 0; to < g->places; to++)
			if (g->place[from].there && g->place[to].there &&
			    g->is_tried(g, from, to))
				try_all_kinds(g, from, to, s);
}

/*
 * The table that every engine passes, whatever the places: each size up to
 * @largest, each alignment, each number of pieces, and sizes for small blocks.
 */
static inline void conform_sizes(struct fixture *g, size_t largest)
{
	static const size_t lens[] = {
		1, 2, 7, 8, 63, 64, 65, 511, 513, 4095, 4096, 4097, 65537,
		262143, 262144, 262145, 1 << 20, 2 << 20, 16 << 20, 64 << 20,
	};
	struct spec s = { .off = { GUARD, GUARD, GUARD }, .n = { 1, 1, 1 } };
	size_t i;

	for (i = 0; i < N_OF(lens) && lens[i] <= largest; i++) {
		s.len = lens[i];
		try_all(g, &s);
	}
}

/* Those of both sides; in short, each of one side with one of the other. */
/* One of so many alignments of the destination to the source. */
static inline size_t conform_step(void)
{
	return want_long() ? 1 : 64;
}

static inline void conform_alignments(struct fixture *g, size_t step)
{
	struct spec s = { .len = 200, .n = { 1, 1, 1 } };
	size_t a, b;

	for (a = 0; a < 64; a++)
		for (b = 0; b < 64; b += step) {
			s.off[SRC] = GUARD + a;
			s.off[DST] = GUARD + (a * 37 + b) % 64;
			s.off[MORE] = GUARD + (a * 11 + b) % 64;
			try_all(g, &s);
		}
}

static inline void conform_shapes(struct fixture *g)
{
	static const uint32_t n[] = { 256, 1, 5, 65, 2, 4, 17, 64, 255 };
	struct spec s = { .off = { GUARD, GUARD + 1, GUARD + 2 } };
	size_t a, b, n_tried = want_long() ? N_OF(n) : 4;

	for (a = 0; a < n_tried; a++)
		for (b = 0; b < n_tried; b++) {
			s.len = 1000 + 61 * (a + b);
			s.n[SRC] = n[a];
			s.n[DST] = n[b];
			s.n[MORE] = n[(a + b) % N_OF(n)];
			try_all(g, &s);
		}
}

/* Up to 100000 bytes, for a context with blocks of staging that the pieces do
 * not fit into, and with workers. */
#define CONFORM_BLOCKS \
	((struct weir_dma_opts){ .worker_min = 1, .staging_bufs = 1, \
				 .staging_size = 4096 })

static inline void conform_blocks(struct fixture *g)
{
	struct spec s = { .off = { GUARD + 5, GUARD + 9, GUARD },
			  .n = { 3, 4, 2 } };

	for (s.len = 10; s.len < 100000; s.len = s.len * 3 + 1)
		try_all(g, &s);
}

#endif /* TESTS_CONFORM_FIXTURE_H */
