/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Every engine does what the cpu engine does: the same result, checksum and
 * bytes, and no others, between any two places, at every size, alignment and
 * number of pieces.  Each job is done twice: in plain memory, by the reactor's
 * own thread; and between the places in question.
 */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tests/job-kit.h"

#include <weir/domain-user.h>

#define GUARD 64u
#define GAP 3u			/* Between pieces. */
#define LARGEST (want_long() ? (size_t)64 << 20 : (size_t)2 << 20)

/* The file engine has two, one of them without the page cache. */
enum where { MEMORY, FILE_CACHED, FILE_DIRECT, PROCESS, USER, PLACES };

/* What a place has: a source, a destination, and one more of either. */
enum { SRC, DST, MORE, AREAS };

struct place {
	struct weir_domain *d[AREAS];	/* NULL: memory of this process. */
	int fd[AREAS];			/* To look at it; -1: it is .mem. */
	int direct[AREAS];
	char *mem[AREAS];
	uint64_t base[AREAS];		/* The address of its first byte. */
	bool there;
};

struct rig {
	struct weir_reactor *r;
	struct weir_dma *dma;		/* Of what is tried. */
	struct weir_dma *cpu;		/* Of the reference. */
	size_t area;
	struct place place[PLACES], ref;
	char *seen;
};

/* A job to be tried. */
struct spec {
	uint32_t kind;
	size_t len;
	size_t off[AREAS];
	uint32_t n[AREAS];		/* Pieces. */
	unsigned int seed;
};

static char *byte_at(const struct weir_domain_side *side, uint64_t n,
		     uint64_t *left)
{
	uint32_t i = 0;

	while (n >= side->iov[i].iov_len)
		n -= side->iov[i++].iov_len;
	*left = side->iov[i].iov_len - n;
	n += (uintptr_t)side->iov[i].iov_base;
	if (!side->domain || weir_domain_kind(side->domain) < WEIR_DOMAIN_USER)
		return (char *)(uintptr_t)n;
	return (char *)weir_domain_ctx(side->domain) + n;
}

/* The user's domain: its addresses begin at 0. */
static int user_move(struct weir_domain *d, struct weir_reactor *r,
		     struct weir_op *op, const struct weir_domain_move *m)
{
	uint64_t total = 0, at, a, b;
	char *to, *from;
	uint32_t i;

	(void)d, (void)r;
	for (i = 0; i < m->dst.n_iov; i++)
		total += m->dst.iov[i].iov_len;
	for (at = 0; at < total; at += a) {
		to = byte_at(&m->dst, at, &a);
		from = byte_at(&m->src, at, &b);
		a = a < b ? a : b;
		memcpy(to, from, a);
	}
	weir_domain_complete(op, (int64_t)total);
	return 0;
}

static void look(const struct place *p, int area, size_t off, char *buf,
		 size_t len)
{
	if (p->fd[area] >= 0)
		assert_int_equal(pread(p->fd[area], buf, len, (off_t)off), len);
	else
		memcpy(buf, p->mem[area] + off, len);
}

static void put(const struct place *p, int area, size_t off, const char *buf,
		size_t len)
{
	if (p->fd[area] >= 0)
		assert_int_equal(pwrite(p->fd[area], buf, len, (off_t)off),
				 len);
	else
		memcpy(p->mem[area] + off, buf, len);
}

static void fill_area(struct rig *g, struct place *p, int area)
{
	fill_pattern(g->seen, g->area, 0, 1 + (unsigned int)area);
	put(p, area, 0, g->seen, g->area);
}

static void memory_begin(struct rig *g, struct place *p, int area)
{
	p->mem[area] = aligned_alloc(4096, g->area);
	assert_non_null(p->mem[area]);
	p->base[area] = (uintptr_t)p->mem[area];
	p->fd[area] = -1;
	p->direct[area] = -1;
	p->there = true;
}

static void file_begin(void **state, struct place *p, int area, bool direct)
{
	const char *names[] = { "a", "b", "c", "da", "db", "dc" };
	const char *name = names[area + 3 * direct];
	int fd;

	fd = p->fd[area] = test_file(state, name, 0, 0);
	p->direct[area] = direct ? open(test_path(state, name),
					O_RDWR | O_DIRECT | O_CLOEXEC) : -1;
	p->there = !direct || p->direct[area] >= 0;
	if (p->there && direct)
		fd = p->direct[area];
	p->d[area] = file_domain(fd);
}

static void user_begin(struct place *p, int area)
{
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_USER,
		.ctx = p->mem[area],
	};
	struct weir_domain *d = NULL;

	assert_int_equal(weir_domain_create(&d, &opts), 0);
	assert_int_equal(weir_domain_set_pull(d, user_move), 0);
	assert_int_equal(weir_domain_set_push(d, user_move), 0);
	p->d[area] = d;
	p->base[area] = 0;
}

static void place_begin(struct rig *g, void **state, int where, int area)
{
	struct place *p = &g->place[where];

	if (where == FILE_CACHED || where == FILE_DIRECT)
		file_begin(state, p, area, where == FILE_DIRECT);
	else
		memory_begin(g, p, area);
	if (where == PROCESS)
		p->there = !weir_domain_process_create(&p->d[area], getpid(),
						       NULL);
	if (where == USER)
		user_begin(p, area);
	fill_area(g, p, area);
}

static void rig_begin(struct rig *g, void **state, size_t max,
		      struct weir_dma_opts opts)
{
	int where, area;

	memset(g, 0, sizeof(*g));
	g->r = start_reactor(state);
	g->dma = start_dma(g->r, opts);
	g->cpu = start_dma(g->r, (struct weir_dma_opts){ 0 });
	g->area = (max + 2 * GUARD + 256 * GAP + 128 + 4095) & ~(size_t)4095;
	g->seen = malloc(g->area);
	for (area = 0; area < AREAS; area++) {
		memory_begin(g, &g->ref, area);
		fill_area(g, &g->ref, area);
		for (where = 0; where < PLACES; where++)
			place_begin(g, state, where, area);
	}
}

static void place_end(struct place *p)
{
	int i;

	for (i = 0; i < AREAS; i++) {
		assert_int_equal(weir_domain_destroy(p->d[i]), 0);
		if (p->fd[i] >= 0)
			close(p->fd[i]);
		if (p->direct[i] >= 0)
			close(p->direct[i]);
		free(p->mem[i]);
	}
}

static void rig_end(struct rig *g)
{
	int where;

	assert_int_equal(weir_dma_destroy(g->dma), 0);
	assert_int_equal(weir_dma_destroy(g->cpu), 0);
	for (where = 0; where < PLACES; where++)
		place_end(&g->place[where]);
	place_end(&g->ref);
	free(g->seen);
}

/* The same cuts whatever the place. */
static struct weir_loc cut(const struct place *p, int area,
			   const struct spec *s, struct iovec *iov)
{
	uint64_t at = p->base[area] + s->off[area];
	unsigned int seed = s->seed + (unsigned int)area;
	uint32_t i, n = s->n[area];
	size_t left = s->len, some;

	if (n <= 1)
		return weir_loc_at(p->d[area], at, s->len);
	for (i = 0; i < n; i++) {
		some = i + 1 == n ? left :
		       (size_t)rand_r(&seed) % (2 * (left / (n - i)) + 1);
		some = some < left ? some : left;
		iov[i] = (struct iovec){ (void *)(uintptr_t)at, some };
		at += some + GAP;
		left -= some;
	}
	return weir_loc_iov(p->d[area], iov, n);
}

static int64_t run_on(struct weir_dma *dma, const struct place *src,
		      const struct place *dst, const struct spec *s,
		      struct jrec *j)
{
	static struct iovec iov[AREAS][WEIR_JOB_PIECES_MAX];
	const struct place *more = s->kind == WEIR_JOB_XOR ? src : dst;
	struct weir_loc loc = cut(more, MORE, s, iov[MORE]);
	struct weir_job *job = &j->job;

	jrec_init(j);
	weir_job_copy(job, cut(dst, DST, s, iov[DST]),
		      cut(src, SRC, s, iov[SRC]));
	job->kind = s->kind;
	job->crc = s->seed;
	job->pattern = UINT64_C(0x0123456789abcdef) * s->seed;
	if (s->kind == WEIR_JOB_XOR || s->kind == WEIR_JOB_DUALCAST) {
		job->more = &loc;
		job->n_more = 1;
	}
	return jrec_run(dma, j);
}

/* What is there, and a guard's length around it. */
static void same_bytes(struct rig *g, const struct place *p, int area,
		       const struct spec *s, const char *what)
{
	size_t len = s->len + 2 * GUARD + s->n[area] * GAP;
	size_t from = s->off[area] - GUARD;

	look(p, area, from, g->seen, len);
	if (memcmp(g->seen, g->ref.mem[area] + from, len))
		fail_msg("%s: kind %u, %zu bytes at %zu to %zu, in %u and %u "
			 "pieces: other bytes in area %d", what, s->kind,
			 s->len, s->off[SRC], s->off[DST], s->n[SRC],
			 s->n[DST], area);
}

/* The same everywhere: one byte of the destination is another. */
static void spoil(struct rig *g, struct place *dst, const struct spec *s)
{
	size_t at = s->off[DST] + s->seed % s->len;
	char byte = (char)(g->ref.mem[DST][at] + 1);

	put(&g->ref, DST, at, &byte, 1);
	put(dst, DST, at, &byte, 1);
}

static void try_kind(struct rig *g, struct place *src, struct place *dst,
		     struct spec *s, const char *what)
{
	struct jrec want, got;
	int area;

	run_on(g->cpu, &g->ref, &g->ref, s, &want);
	run_on(g->dma, src, dst, s, &got);
	if (got.res != want.res || got.job.crc != want.job.crc)
		fail_msg("%s: kind %u, %zu bytes at %zu to %zu: %lld, not "
			 "%lld; %x, not %x", what, s->kind, s->len,
			 s->off[SRC], s->off[DST], (long long)got.res,
			 (long long)want.res, got.job.crc, want.job.crc);
	assert_int_equal(got.detail.bytes, want.detail.bytes);
	for (area = 0; area < AREAS; area++)
		same_bytes(g, area == SRC || (area == MORE &&
			   s->kind == WEIR_JOB_XOR) ? src : dst, area, s,
			   what);
}

/* A destination begins as it is in the reference. */
static void equal_before(struct rig *g, struct place *dst, const struct spec *s)
{
	int area;

	for (area = DST; area < AREAS; area++) {
		size_t len = s->len + 2 * GUARD + s->n[area] * GAP;
		size_t from = s->off[area] - GUARD;

		put(dst, area, from, g->ref.mem[area] + from, len);
	}
}

static void try_all_kinds(struct rig *g, int from, int to, struct spec *s)
{
	static const uint32_t kinds[] = {
		WEIR_JOB_COPY, WEIR_JOB_COMPARE, WEIR_JOB_CRC32C,
		WEIR_JOB_FILL, WEIR_JOB_COPY_CRC32C, WEIR_JOB_COMPARE,
		WEIR_JOB_DUALCAST, WEIR_JOB_XOR,
	};
	static const char *const names[] = {
		"memory", "file", "O_DIRECT", "process", "user",
	};
	struct place *src = &g->place[from], *dst = &g->place[to];
	char what[64];
	size_t i;

	snprintf(what, sizeof(what), "%s to %s", names[from], names[to]);
	equal_before(g, dst, s);
	equal_before(g, src, s);
	for (i = 0; i < N_OF(kinds); i++) {
		s->kind = kinds[i];
		if (kinds[i] == WEIR_JOB_COMPARE && s->seed % 2)
			spoil(g, dst, s);
		try_kind(g, src, dst, s, what);
	}
}

/* Whether it is worth the time: what waits for a disk is slow, and what goes
 * through staging is pulled from and pushed to memory as well. */
static bool is_tried(const struct rig *g, int from, int to)
{
	bool waits = from == FILE_DIRECT || to == FILE_DIRECT;

	if (!g->place[from].there || !g->place[to].there)
		return false;
	return want_long() || !waits || from == MEMORY || to == MEMORY;
}

/* Between any two of the places. */
static void try_all(struct rig *g, struct spec *s)
{
	int from, to;

	s->seed++;
	for (from = 0; from < PLACES; from++)
		for (to = 0; to < PLACES; to++)
			if (is_tried(g, from, to))
				try_all_kinds(g, from, to, s);
}

static void every_size_is_as_in_memory(void **state)
{
	static const size_t lens[] = {
		1, 2, 7, 8, 63, 64, 65, 511, 513, 4095, 4096, 4097, 65537,
		262143, 262144, 262145, 1 << 20, 2 << 20, 16 << 20, 64 << 20,
	};
	struct spec s = { .off = { GUARD, GUARD, GUARD }, .n = { 1, 1, 1 } };
	struct rig g;
	size_t i;

	rig_begin(&g, state, LARGEST, (struct weir_dma_opts){ 0 });
	for (i = 0; i < N_OF(lens) && lens[i] <= LARGEST; i++) {
		s.len = lens[i];
		try_all(&g, &s);
	}
	rig_end(&g);
}

/* Those of both sides; in short, each of one side with one of the other. */
static void every_alignment_is_as_in_memory(void **state)
{
	struct spec s = { .len = 200, .n = { 1, 1, 1 } };
	size_t a, b, step = want_long() ? 1 : 64;
	struct rig g;

	rig_begin(&g, state, 4096, (struct weir_dma_opts){ 0 });
	for (a = 0; a < 64; a++)
		for (b = 0; b < 64; b += step) {
			s.off[SRC] = GUARD + a;
			s.off[DST] = GUARD + (a * 37 + b) % 64;
			s.off[MORE] = GUARD + (a * 11 + b) % 64;
			try_all(&g, &s);
		}
	rig_end(&g);
}

static void every_shape(struct rig *g)
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

static void every_number_of_pieces_is_as_in_memory(void **state)
{
	struct rig g;

	rig_begin(&g, state, 4096, (struct weir_dma_opts){ 0 });
	every_shape(&g);
	rig_end(&g);
}

/* Blocks of staging that the pieces do not fit into, and other threads. */
static void so_it_is_by_workers_and_in_small_blocks(void **state)
{
	struct spec s = { .off = { GUARD + 5, GUARD + 9, GUARD },
			  .n = { 3, 4, 2 } };
	struct rig g;

	rig_begin(&g, state, 100000, (struct weir_dma_opts){
		.worker_min = 1, .staging_bufs = 1, .staging_size = 4096 });
	for (s.len = 10; s.len < 100000; s.len = s.len * 3 + 1)
		try_all(&g, &s);
	rig_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(every_size_is_as_in_memory),
		CASE(every_alignment_is_as_in_memory),
		CASE(every_number_of_pieces_is_as_in_memory),
		CASE(so_it_is_by_workers_and_in_small_blocks),
	};

	return harness_run(cases, N_OF(cases));
}
