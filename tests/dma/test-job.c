/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Jobs and DMA contexts: the tables of docs/internals/dma.md, refusals that
 * change nothing, every shape of source and destination, short files, cancel.
 */

#include "tests/support/job-fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <weir/buf.h>
#include <weir/crc32c.h>
#include <weir/inventory.h>

#include "base/fault.h"

#include "tests/support/sim-calls.h"

#define LEN (1u << 20)

struct fixture {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_inventory *inv;
	struct weir_mmap *m;		/* Readable and writable. */
	struct weir_mmap *ro;		/* The second half, readable only. */
	char *mem;			/* Twice LEN. */
	int fd[2];
	struct weir_domain *file[2];
};

static void fixture_begin(struct fixture *g, void **state,
			  struct weir_dma_opts opts)
{
	int i;

	g->r = start_reactor(state);
	g->dma = start_dma(g->r, opts);
	g->mem = aligned_alloc(4096, 2 * LEN);
	fill_pattern(g->mem, 2 * LEN, 0, 1);
	g->m = start_mmap(g->mem, 2 * LEN, WEIR_MMAP_WRITE);
	g->ro = start_mmap(g->mem + LEN, LEN, WEIR_MMAP_READ);
	g->inv = start_inventory(g->r, g->m);
	assert_int_equal(weir_inventory_attach(g->inv, g->ro), 0);
	for (i = 0; i < 2; i++) {
		g->fd[i] = test_file(state, i ? "b" : "a", LEN, 2 + i);
		g->file[i] = file_domain(g->fd[i]);
	}
}

static void fixture_end(struct fixture *g)
{
	int i;

	for (i = 0; i < 2; i++) {
		assert_int_equal(weir_domain_users(g->file[i]), 0);
		assert_int_equal(weir_domain_destroy(g->file[i]), 0);
		close(g->fd[i]);
	}
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	assert_int_equal(weir_mmap_destroy(g->ro), 0);
	free(g->mem);
}

static struct weir_buf *take(struct fixture *g, size_t off, size_t len,
			     size_t data_len)
{
	return get_buf(g->inv, g->m, g->mem + off, len, data_len);
}

static struct weir_operand mem_at(struct fixture *g, size_t off, size_t len)
{
	return weir_operand_mem(g->mem + off, len);
}

static struct weir_operand file_at(struct fixture *g, int i, uint64_t off,
				   uint64_t len)
{
	return weir_operand_at(g->file[i], off, len);
}

static void refused(struct fixture *g, struct jrec *j, int err)
{
	uint64_t before = dma_stats_of(g->dma).started;
	int got = weir_job_start(g->dma, &j->job);

	if (got != err)
		fail_msg("kind %u: %d, not %d", j->job.kind, got, err);
	assert_int_equal(dma_stats_of(g->dma).started, before);
	assert_int_equal(weir_op_is_busy(&j->job.op), 0);
	assert_int_equal(j->calls, 0);
}

/* A7.5, A7.6, A8.3 */
static void bad_job_is_refused_before_it_starts(void **state)
{
	struct iovec iov[WEIR_JOB_PIECES_MAX + 1];
	struct jrec j;
	struct fixture g;
	size_t i;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	for (i = 0; i < N_OF(iov); i++)
		iov[i] = (struct iovec){ g.mem + i, 1 };
	jrec_init(&j);
	j.job.kind = 0;
	refused(&g, &j, -EINVAL);
	j.job.kind = 99;
	refused(&g, &j, -EINVAL);

	weir_job_copy(&j.job, mem_at(&g, 0, 10), mem_at(&g, 100, 10));
	j.job.flags = 0x40;
	refused(&g, &j, -EINVAL);
	j.job.flags = 0;
	j.job.op.fn = NULL;
	refused(&g, &j, -EINVAL);
	j.job.op.fn = jrec_done;

	/* Lengths. */
	weir_job_copy(&j.job, mem_at(&g, 0, 0), mem_at(&g, 100, 0));
	refused(&g, &j, -EINVAL);
	weir_job_copy(&j.job, mem_at(&g, 0, 0), mem_at(&g, 100, 10));
	refused(&g, &j, -EINVAL);
	weir_job_copy(&j.job, weir_operand_buf(NULL), mem_at(&g, 100, 10));
	refused(&g, &j, -EINVAL);
	weir_job_copy(&j.job, mem_at(&g, 0, 9), mem_at(&g, 100, 10));
	refused(&g, &j, -EMSGSIZE);
	weir_job_copy(&j.job, mem_at(&g, 0, 11), mem_at(&g, 100, 10));
	refused(&g, &j, -EMSGSIZE);
	weir_job_compare(&j.job, mem_at(&g, 0, 11), mem_at(&g, 100, 10));
	refused(&g, &j, -EMSGSIZE);
	weir_job_crc32c(&j.job, weir_operand_iov(NULL, iov, N_OF(iov)), 0);
	refused(&g, &j, -EMSGSIZE);
	weir_job_crc32c(&j.job, weir_operand_iov(NULL, NULL, 3), 0);
	refused(&g, &j, -EINVAL);

	weir_job_copy(&j.job, mem_at(&g, 0, 10), mem_at(&g, 100, 10));
	j.job.src.translation = (void *)1;
	refused(&g, &j, -EINVAL);
	j.job.src.translation = NULL;
	j.job.dst.reserved0 = 1;
	refused(&g, &j, -EINVAL);

	/* Ranges. */
	weir_job_copy(&j.job, weir_operand_mem(NULL, 10), mem_at(&g, 100, 10));
	refused(&g, &j, -EINVAL);
	weir_job_crc32c(&j.job, weir_operand_at(NULL, UINT64_MAX - 5, 10), 0);
	refused(&g, &j, -ERANGE);
	weir_job_copy(&j.job, mem_at(&g, 0, 10),
		      file_at(&g, 0, INT64_MAX - 5, 10));
	refused(&g, &j, -ERANGE);
	weir_job_copy(&j.job, file_at(&g, 0, UINT64_MAX - 5, 10),
		      mem_at(&g, 0, 10));
	refused(&g, &j, -ERANGE);

	/* Together they wrap around to 10. */
	iov[0] = iov[1] = (struct iovec){ NULL, INT64_MAX };
	iov[2] = (struct iovec){ NULL, 12 };
	weir_job_copy(&j.job, weir_operand_iov(g.file[0], iov, 3),
		      mem_at(&g, 0, 10));
	refused(&g, &j, -ERANGE);

	/* Overlap. */
	weir_job_copy(&j.job, mem_at(&g, 0, 10), mem_at(&g, 9, 10));
	refused(&g, &j, -EINVAL);
	weir_job_copy(&j.job, file_at(&g, 0, 0, 10), file_at(&g, 0, 9, 10));
	refused(&g, &j, -EINVAL);
	fixture_end(&g);
}

/* Through staging a block would be read that has been written already. */
static void overlap_is_seen_across_two_domains_of_one_file(void **state)
{
	struct weir_domain *twin;
	struct jrec j;
	struct fixture g;
	int fd;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	fd = open(test_path(state, "a"), O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	twin = file_domain(fd);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_at(twin, 0, 10),
		      file_at(&g, 0, 9, 10));
	refused(&g, &j, -EINVAL);
	weir_job_copy(&j.job, weir_operand_at(twin, 0, 10),
		      file_at(&g, 0, 10, 10));
	assert_int_equal(jrec_run(g.dma, &j), 10);
	weir_job_copy(&j.job, weir_operand_at(twin, 0, 10),
		      file_at(&g, 1, 0, 10));
	assert_int_equal(jrec_run(g.dma, &j), 10);
	assert_int_equal(weir_domain_destroy(twin), 0);
	close(fd);
	fixture_end(&g);
}

/* A8.4 */
static void bufs_are_checked_before_it_starts(void **state)
{
	struct weir_buf *src, *dst, *tail, *ro = NULL, *many;
	struct jrec j;
	struct fixture g;
	int i;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	src = take(&g, 0, 100, 60);
	tail = take(&g, 100, 100, 40);
	dst = take(&g, 200, 99, 0);
	assert_int_equal(weir_buf_chain(src, tail), 0);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_buf(dst), weir_operand_buf(src));
	refused(&g, &j, -EMSGSIZE);
	weir_job_copy(&j.job, weir_operand_buf(dst), weir_operand_buf(tail));
	refused(&g, &j, -EPERM);
	weir_job_copy(&j.job, weir_operand_buf(tail), weir_operand_buf(dst));
	refused(&g, &j, -EPERM);
	weir_job_copy(&j.job, weir_operand_buf(src), weir_operand_buf(src));
	refused(&g, &j, -EINVAL);

	weir_job_copy(&j.job, weir_operand_buf(dst), weir_operand_buf(src));
	j.job.src.addr = 101;
	refused(&g, &j, -ERANGE);
	j.job.src.addr = 50;
	j.job.src.len = 51;
	refused(&g, &j, -ERANGE);
	j.job.src.len = 50;
	j.job.dst.addr = 1;
	refused(&g, &j, -ERANGE);
	j.job.dst.addr = 0;
	j.job.dst.len = 100;
	refused(&g, &j, -EMSGSIZE);
	j.job.dst.len = 49;
	refused(&g, &j, -EMSGSIZE);

	assert_int_equal(weir_inventory_get(&ro, g.inv, g.ro, g.mem + LEN, 100,
					    NULL, 0), 0);
	weir_job_copy(&j.job, weir_operand_buf(ro), mem_at(&g, 0, 10));
	refused(&g, &j, -EACCES);
	weir_job_fill(&j.job, weir_operand_buf(ro), 0);
	refused(&g, &j, -EACCES);

	many = take(&g, 0, 1, 1);
	for (i = 0; i < WEIR_JOB_PIECES_MAX; i++)
		assert_int_equal(weir_buf_chain(many, take(&g, 0, 1, 1)), 0);
	weir_job_crc32c(&j.job, weir_operand_buf(many), 0);
	refused(&g, &j, -EMSGSIZE);

	assert_int_equal(weir_buf_data_len(dst), 0);
	assert_int_equal(weir_buf_refs(src), 1);
	weir_buf_put(many);
	weir_buf_put(ro);
	weir_buf_put(src);
	weir_buf_put(dst);
	fixture_end(&g);
}

static void the_mode_of_a_file_is_its_right(void **state)
{
	struct weir_domain *reads, *writes;
	struct jrec j;
	struct fixture g;
	int r, w;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	r = open(test_path(state, "a"), O_RDONLY | O_CLOEXEC);
	w = open(test_path(state, "a"), O_WRONLY | O_CLOEXEC);
	reads = file_domain(r);
	writes = file_domain(w);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_at(reads, 0, 9), mem_at(&g, 0, 9));
	refused(&g, &j, -EACCES);
	weir_job_copy(&j.job, mem_at(&g, 0, 9), weir_operand_at(writes, 0, 9));
	refused(&g, &j, -EACCES);
	weir_job_copy(&j.job, mem_at(&g, 0, 9), weir_operand_at(reads, 0, 9));
	assert_int_equal(jrec_run(g.dma, &j), 9);
	assert_int_equal(weir_domain_destroy(reads), 0);
	assert_int_equal(weir_domain_destroy(writes), 0);
	close(r);
	close(w);
	fixture_end(&g);
}

/* The table "how it goes, by kind and domains" of docs/internals/dma.md. */
static void job_is_routed_as_the_table_says(void **state)
{
	enum { M = 0, F = 1 };
	static const struct {
		uint32_t kind;
		int want[4];	/* M->M, M->F, F->M, F->F */
	} rows[] = {
		{ WEIR_JOB_COPY, { 0, 0, 0, 0 } },
		{ WEIR_JOB_PULL, { -EINVAL, -EINVAL, 0, -EINVAL } },
		{ WEIR_JOB_PUSH, { -EINVAL, 0, -EINVAL, -EINVAL } },
		{ WEIR_JOB_COPY_CRC32C, { 0, 0, 0, 0 } },
		{ WEIR_JOB_COMPARE, { 0, 0, 0, 0 } },
		{ WEIR_JOB_CRC32C, { 0, 0, 0, 0 } },
		{ WEIR_JOB_FILL, { 0, 0, 0, 0 } },
	};
	struct jrec j;
	struct fixture g;
	size_t i;
	int c;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	for (i = 0; i < N_OF(rows); i++)
		for (c = 0; c < 4; c++) {
			jrec_init(&j);
			j.job.kind = rows[i].kind;
			j.job.src = c & 2 ? file_at(&g, 0, 0, 64) :
					    mem_at(&g, 0, 64);
			j.job.dst = c & 1 ? file_at(&g, 1, 0, 64) :
					    mem_at(&g, 64, 64);
			if (rows[i].want[c])
				refused(&g, &j, rows[i].want[c]);
			else
				assert_true(jrec_run(g.dma, &j) >= 0);
		}
	fixture_end(&g);
}

/* The domain of huge pages has the same addresses. */
static void huge_pages_are_memory(void **state)
{
	struct weir_domain *huge = weir_domain_hugepage();
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	jrec_init(&j);
	weir_job_copy(&j.job,
		      weir_operand_at(huge, (uintptr_t)g.mem + LEN, 100),
		      mem_at(&g, 0, 100));
	assert_int_equal(jrec_run(g.dma, &j), 100);
	assert_true(is_pattern(g.mem + LEN, 100, 0, 1));
	weir_job_copy(&j.job, file_at(&g, 1, 0, 100),
		      weir_operand_at(huge, (uintptr_t)g.mem, 100));
	assert_int_equal(jrec_run(g.dma, &j), 100);

	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_at(huge, (uintptr_t)g.mem + 9, 10),
		      mem_at(&g, 0, 10));
	refused(&g, &j, -EINVAL);
	weir_job_copy(&j.job, weir_operand_at(huge, (uintptr_t)g.mem + 100, 10),
		      mem_at(&g, 0, 10));
	j.job.kind = WEIR_JOB_PUSH;
	refused(&g, &j, -EINVAL);
	weir_job_copy(&j.job, mem_at(&g, 0, 10), weir_operand_at(huge, 0, 10));
	refused(&g, &j, -EINVAL);
	fixture_end(&g);
}

/* A8.2, A8.3, A8.5; acceptance 21 */
static void a_copy_appends_and_a_flag_overwrites(void **state)
{
	struct weir_buf *src, *dst;
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	src = take(&g, 0, 40, 40);
	dst = take(&g, 1000, 100, 0);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_buf(dst), weir_operand_buf(src));
	assert_int_equal(jrec_run(g.dma, &j), 40);
	assert_int_equal(weir_buf_data_len(dst), 40);
	assert_int_equal(jrec_run(g.dma, &j), 40);
	assert_int_equal(weir_buf_data_len(dst), 80);
	assert_memory_equal(g.mem + 1000, g.mem, 40);
	assert_memory_equal(g.mem + 1040, g.mem, 40);

	/* The third does not fit, and leaves it as it was. */
	assert_int_equal(weir_job_start(g.dma, &j.job), -EMSGSIZE);
	assert_int_equal(weir_buf_data_len(dst), 80);

	weir_job_copy(&j.job, weir_operand_buf(dst), mem_at(&g, 500, 7));
	j.job.flags = WEIR_JOB_OVERWRITE;
	assert_int_equal(jrec_run(g.dma, &j), 7);
	assert_int_equal(weir_buf_data_len(dst), 7);
	assert_ptr_equal(weir_buf_data(dst), g.mem + 1000);
	assert_memory_equal(g.mem + 1000, g.mem + 500, 7);

	/* A part of the source's data. */
	weir_job_copy(&j.job, weir_operand_buf(dst), weir_operand_buf(src));
	j.job.src.addr = 30;
	j.job.src.len = 5;
	assert_int_equal(jrec_run(g.dma, &j), 5);
	assert_int_equal(weir_buf_data_len(dst), 12);
	assert_memory_equal(g.mem + 1007, g.mem + 30, 5);
	weir_buf_put(src);
	weir_buf_put(dst);
	fixture_end(&g);
}

static void computations_are_right(void **state)
{
	struct jrec j;
	struct fixture g;
	uint32_t crc;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	crc = weir_crc32c(0, g.mem, 1000);
	jrec_init(&j);
	weir_job_crc32c(&j.job, mem_at(&g, 0, 400), 0);
	assert_int_equal(jrec_run(g.dma, &j), 400);
	weir_job_crc32c(&j.job, mem_at(&g, 400, 600), j.job.crc);
	assert_int_equal(jrec_run(g.dma, &j), 600);
	assert_int_equal(j.job.crc, crc);
	assert_int_equal(weir_crc32c_combine(weir_crc32c(0, g.mem, 300),
					     weir_crc32c(0, g.mem + 300, 700),
					     700), crc);

	weir_job_copy_crc32c(&j.job, mem_at(&g, 5000, 1000), mem_at(&g, 0, 1000),
			     0);
	assert_int_equal(jrec_run(g.dma, &j), 1000);
	assert_int_equal(j.job.crc, crc);
	assert_memory_equal(g.mem, g.mem + 5000, 1000);

	weir_job_compare(&j.job, mem_at(&g, 0, 1000), mem_at(&g, 5000, 1000));
	assert_int_equal(jrec_run(g.dma, &j), 1000);
	g.mem[5777] ^= 1;
	assert_int_equal(jrec_run(g.dma, &j), 777);
	assert_int_equal(jrec_run(g.dma, &j), 777);

	weir_job_fill(&j.job, mem_at(&g, 1, 21), 0x0807060504030201);
	assert_int_equal(jrec_run(g.dma, &j), 21);
	assert_memory_equal(g.mem + 1, "\1\2\3\4\5\6\7\10\1\2\3\4\5\6\7\10"
			    "\1\2\3\4\5", 21);
	fixture_end(&g);
}

/* Flips the last byte of a page, as a peer that shares it may. */
struct flipper {
	atomic_bool quit;
	char *page;
};

/* Racing on purpose. */
__attribute__((no_sanitize("thread"))) static void *flip(void *arg)
{
	struct flipper *f = arg;

	while (!atomic_load(&f->quit))
		*(volatile char *)(f->page + 4095) ^= 1;
	return NULL;
}

static void a_compare_stays_inside_what_others_change(void **state)
{
	char *mem = malloc(8192);
	struct flipper f = { .page = mem + 4096 };
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	unsigned int rounds = scaled(20000);
	pthread_t thread;
	struct jrec j;

	if (UNDER_TSAN) {
		assert_int_equal(weir_dma_destroy(dma), 0);
		free(mem);
		skip_because("races on purpose");
	}
	memset(mem, 0, 8192);
	jrec_init(&j);
	weir_job_compare(&j.job, weir_operand_mem(mem, 4096),
			 weir_operand_mem(f.page, 4096));
	assert_int_equal(pthread_create(&thread, NULL, flip, &f), 0);
	while (rounds--) {
		jrec_run(dma, &j);
		assert_in_range(j.res, 4095, 4096);
	}
	atomic_store(&f.quit, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
	free(mem);
}

static void a_pattern_goes_on_over_pieces(void **state)
{
	struct weir_buf *a, *b;
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	a = take(&g, 0, 3, 0);
	b = take(&g, 3, 10, 0);
	assert_int_equal(weir_buf_chain(a, b), 0);
	jrec_init(&j);
	weir_job_fill(&j.job, weir_operand_buf(a), 0x0807060504030201);
	assert_int_equal(jrec_run(g.dma, &j), 13);
	assert_memory_equal(g.mem, "\1\2\3\4\5\6\7\10\1\2\3\4\5", 13);
	assert_int_equal(weir_buf_list_data_len(a), 13);
	weir_buf_put(a);
	fixture_end(&g);
}

static void fill_at(struct fixture *g, size_t off, size_t len, uint64_t pattern)
{
	struct jrec j;
	size_t i;

	memset(g->mem, 0x55, off + len + 64);
	jrec_init(&j);
	weir_job_fill(&j.job, mem_at(g, off, len), pattern);
	assert_int_equal(jrec_run(g->dma, &j), len);
	for (i = 0; i < off + len + 64; i++)
		if ((uint8_t)g->mem[i] != (i < off || i >= off + len ? 0x55 :
				(uint8_t)(pattern >> 8 * ((i - off) % 8))))
			fail_msg("%zu at %zu: byte %zu", len, off, i);
}

/* By words, by memset(), past the cache; at once and in slices. */
static void fill_writes_its_pattern_at_any_place_and_length(void **state)
{
	static const uint64_t patterns[] = {
		0, 0xababababababababu, 0x0807060504030201u,
	};
	static const uint64_t stream_mins[] = { UINT64_MAX, 1 };
	struct fixture g;
	size_t i, k, off, len;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	for (i = 0; i < N_OF(stream_mins); i++) {
		assert_int_equal(weir_dma_destroy(g.dma), 0);
		g.dma = start_dma(g.r, (struct weir_dma_opts){
			.turn_bytes = 4099, .stream_min = stream_mins[i] });
		for (k = 0; k < N_OF(patterns); k++) {
			for (off = 64; off < 130; off += 5)
				for (len = 1; len < 200; len += 13)
					fill_at(&g, off, len, patterns[k]);
			fill_at(&g, 67, 20011, patterns[k]);
		}
	}
	fixture_end(&g);
}

/*
 * Shapes: the first half of the memory, or file 0, is cut into random pieces,
 * and copied to the second half, or to file 1, in other pieces.
 */
enum shape { RANGE, IOV, BUFS, FILE_RANGE, FILE_IOV, SHAPES };

static struct weir_operand cut(struct fixture *g, enum shape shape, bool dst,
			       size_t len, struct iovec *iov,
			       unsigned int *seed)
{
	size_t base = dst ? LEN : 0, at = 0, n;
	struct weir_buf *list = NULL, *buf;
	bool file = shape >= FILE_RANGE;
	uint32_t k = 0, max = 1 + (uint32_t)rand_r(seed) % 40;

	if (shape == RANGE)
		return mem_at(g, base, len);
	if (shape == FILE_RANGE)
		return file_at(g, dst, 0, len);
	while (at < len) {
		n = 1 + (size_t)rand_r(seed) % (2 * len / max + 1);
		if (n > len - at || k + 1 == max)
			n = len - at;
		if (shape == BUFS) {
			buf = take(g, base + at, n, dst ? 0 : n);
			if (list)
				assert_int_equal(weir_buf_chain(list, buf), 0);
			else
				list = buf;
		} else {
			iov[k].iov_base = file ? (void *)(uintptr_t)at :
						 g->mem + base + at;
			iov[k].iov_len = n;
		}
		k++;
		at += n;
	}
	return shape == BUFS ?
		       weir_operand_buf(list) :
		       weir_operand_iov(file ? g->file[dst] : NULL, iov, k);
}

static void check_copied(struct fixture *g, enum shape from, enum shape to,
			 size_t len)
{
	char *got = to >= FILE_RANGE ? malloc(len) : g->mem + LEN;

	if (to >= FILE_RANGE)
		assert_int_equal(pread(g->fd[1], got, len, 0), len);
	assert_true(is_pattern(got, len, 0, from >= FILE_RANGE ? 2 : 1));
	if (to >= FILE_RANGE)
		free(got);
}

static void try_shape(struct fixture *g, enum shape from, enum shape to,
		      size_t len, unsigned int *seed)
{
	struct iovec src_iov[64], dst_iov[64];
	struct weir_operand src = cut(g, from, false, len, src_iov, seed);
	struct weir_operand dst = cut(g, to, true, len, dst_iov, seed);
	struct jrec j;
	int64_t res;

	memset(g->mem + LEN, 0, LEN);
	assert_int_equal(ftruncate(g->fd[1], 0), 0);
	jrec_init(&j);
	weir_job_copy(&j.job, dst, src);
	res = jrec_run(g->dma, &j);
	assert_int_equal(res, len);
	assert_int_equal(j.detail.bytes, len);
	check_copied(g, from, to, len);
	if (dst.buf)
		assert_int_equal(weir_buf_list_data_len(dst.buf), len);
	if (src.buf)
		assert_int_equal(weir_buf_list_data_len(src.buf), len);
	weir_buf_put(dst.buf);
	weir_buf_put(src.buf);
}

static void copy_takes_any_shape_to_any_shape(void **state)
{
	static const size_t lens[] = { 1, 7, 64, 4095, 70000, LEN };
	unsigned int seed = 3, rounds = scaled(20);
	struct fixture g;
	size_t i;
	int from, to;

	fixture_begin(&g, state,
		      (struct weir_dma_opts){ .turn_bytes = 65536,
					      .file_slice = 300000,
					      .stream_min = 50000 });
	while (rounds--)
		for (from = 0; from < SHAPES; from++)
			for (to = 0; to < SHAPES; to++)
				for (i = 0; i < N_OF(lens); i += 1 + rounds % 2)
					try_shape(&g, (enum shape)from,
						  (enum shape)to, lens[i],
						  &seed);
	fixture_end(&g);
}

/* A8.5 */
static void a_source_that_ends_early_is_an_error_or_short(void **state)
{
	struct weir_buf *dst;
	struct jrec j;
	struct fixture g;
	int flag;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	dst = take(&g, 0, 5000, 0);
	for (flag = 0; flag < 2; flag++) {
		jrec_init(&j);
		weir_job_copy(&j.job, weir_operand_buf(dst),
			      file_at(&g, 0, LEN - 100, 5000));
		j.job.flags = flag ? WEIR_JOB_SHORT_OK : 0;
		assert_int_equal(jrec_run(g.dma, &j), flag ? 100 : -ENODATA);
		assert_int_equal(j.detail.bytes, 100);
		assert_int_equal(weir_buf_data_len(dst), flag ? 100 : 0);
	}

	/* Nothing at all, and between files. */
	jrec_init(&j);
	weir_job_copy(&j.job, mem_at(&g, 0, 10), file_at(&g, 0, LEN, 10));
	j.job.flags = WEIR_JOB_SHORT_OK;
	assert_int_equal(jrec_run(g.dma, &j), 0);
	weir_job_copy(&j.job, file_at(&g, 1, 0, 5000),
		      file_at(&g, 0, LEN - 100, 5000));
	assert_true(jrec_run(g.dma, &j) < 0);
	if (j.res == -ENODATA)
		assert_int_equal(j.detail.bytes, 100);
	weir_buf_put(dst);
	fixture_end(&g);
}

static void offsets_may_be_beyond_4_gib(void **state)
{
	uint64_t far = (UINT64_C(5) << 30) + 3;
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	jrec_init(&j);
	weir_job_copy(&j.job, file_at(&g, 0, far, 1000), mem_at(&g, 0, 1000));
	assert_int_equal(jrec_run(g.dma, &j), 1000);
	weir_job_copy(&j.job, mem_at(&g, LEN, 1000), file_at(&g, 0, far, 1000));
	assert_int_equal(jrec_run(g.dma, &j), 1000);
	assert_memory_equal(g.mem, g.mem + LEN, 1000);
	fixture_end(&g);
}

static struct weir_domain *direct_domain(void **state, int fd[2], bool both)
{
	struct weir_domain_file_opts opts = {
		.size = sizeof(opts), .flags = WEIR_DOMAIN_FILE_DIRECT_ONLY,
	};
	struct weir_domain *d = NULL;

	fd[0] = open(test_path(state, "a"), O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd[0] < 0)
		return NULL;
	fd[1] = open(test_path(state, "a"), O_RDWR | O_CLOEXEC);
	if (both) {
		opts.flags = WEIR_DOMAIN_FILE_BUFFERED;
		opts.buffered_fd = fd[1];
	}
	assert_int_equal(weir_domain_file_create(&d, fd[0], &opts), 0);
	return d;
}

static void direct_files_take_any_offset_and_length(void **state)
{
	static const struct { uint64_t off, len; size_t mem; } tries[] = {
		{ 0, 8192, 0 }, { 0, 10000, 0 }, { 4096, 1, 0 }, { 5, 3, 0 },
		{ 5, 20000, 0 }, { 4096, 8192, 7 }, { 100, 4096, 64 },
	};
	struct weir_domain *d;
	struct jrec j;
	struct fixture g;
	size_t i;
	int fd[2];

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	d = direct_domain(state, fd, true);
	for (i = 0; d && i < N_OF(tries); i++) {
		fill_pattern(g.mem, LEN, 0, 1);
		jrec_init(&j);
		weir_job_copy(&j.job,
			      weir_operand_at(d, tries[i].off, tries[i].len),
			      mem_at(&g, tries[i].mem, tries[i].len));
		assert_int_equal(jrec_run(g.dma, &j), tries[i].len);
		weir_job_copy(&j.job,
			      mem_at(&g, LEN + tries[i].mem, tries[i].len),
			      weir_operand_at(d, tries[i].off, tries[i].len));
		assert_int_equal(jrec_run(g.dma, &j), tries[i].len);
		assert_memory_equal(g.mem + tries[i].mem,
				    g.mem + LEN + tries[i].mem, tries[i].len);
	}
	if (d) {
		/* The end of the file, which is not aligned. */
		assert_int_equal(ftruncate(fd[1], 10001), 0);
		jrec_init(&j);
		weir_job_copy(&j.job, mem_at(&g, 0, 65536),
			      weir_operand_at(d, 0, 65536));
		j.job.flags = WEIR_JOB_SHORT_OK;
		assert_int_equal(jrec_run(g.dma, &j), 10001);
		assert_int_equal(weir_domain_destroy(d), 0);
		close_pair(fd);
	}
	fixture_end(&g);
	if (!d)
		skip_because("no O_DIRECT here");
}

static void direct_file_without_a_buffered_way_wants_alignment(void **state)
{
	struct weir_domain *d;
	struct iovec iov[2];
	struct jrec j;
	struct fixture g;
	int fd[2];

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	d = direct_domain(state, fd, false);
	if (d) {
		jrec_init(&j);
		weir_job_copy(&j.job, mem_at(&g, 0, 100),
			      weir_operand_at(d, 0, 100));
		refused(&g, &j, -EINVAL);
		weir_job_copy(&j.job, weir_operand_at(d, 7, 4096),
			      mem_at(&g, 0, 4096));
		refused(&g, &j, -EINVAL);
		weir_job_copy(&j.job, mem_at(&g, 1, 4096),
			      weir_operand_at(d, 0, 4096));
		refused(&g, &j, -EINVAL);
		weir_job_copy(&j.job, weir_operand_iov(NULL, iov, 2),
			      weir_operand_at(d, 0, 8192));
		iov[0] = (struct iovec){ g.mem, 512 };
		iov[1] = (struct iovec){ g.mem + 512, 8192 - 512 };
		refused(&g, &j, -EINVAL);
		iov[0] = (struct iovec){ g.mem + 8192, 4096 };
		iov[1] = (struct iovec){ g.mem, 4096 };
		assert_int_equal(jrec_run(g.dma, &j), 8192);
		weir_job_copy(&j.job, mem_at(&g, 0, 8192),
			      weir_operand_at(d, 4096, 8192));
		assert_int_equal(jrec_run(g.dma, &j), 8192);

		assert_int_equal(ftruncate(fd[1], 10001), 0);
		weir_job_copy(&j.job, mem_at(&g, 0, 65536),
			      weir_operand_at(d, 0, 65536));
		j.job.flags = WEIR_JOB_SHORT_OK;
		assert_int_equal(jrec_run(g.dma, &j), 10001);
		assert_int_equal(weir_domain_destroy(d), 0);
		close_pair(fd);
	}
	fixture_end(&g);
	if (!d)
		skip_because("no O_DIRECT here");
}

static void an_error_of_a_file_is_the_jobs(void **state)
{
	struct weir_buf *dst;
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	dst = take(&g, 0, 100, 0);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_buf(dst), file_at(&g, 0, 0, 100));
	/* The descriptor now is a directory. */
	{
		int dir = open(test_dir(state), O_RDONLY | O_CLOEXEC);

		assert_true(dup3(dir, g.fd[0], O_CLOEXEC) == g.fd[0]);
		close(dir);
	}
	assert_int_equal(jrec_run(g.dma, &j), -EISDIR);
	assert_int_equal(weir_buf_data_len(dst), 0);
	assert_int_equal(j.detail.bytes, 0);
	weir_buf_put(dst);
	fixture_end(&g);
}

static void a_large_job_is_spread_over_turns(void **state)
{
	struct jrec big, small;
	struct fixture g;
	int turns = 0;

	fixture_begin(&g, state, (struct weir_dma_opts){ .turn_bytes = 65536 });
	jrec_init(&big);
	jrec_init(&small);
	weir_job_copy(&big.job, mem_at(&g, LEN, LEN), mem_at(&g, 0, LEN));
	weir_job_crc32c(&small.job, mem_at(&g, 0, 64), 0);
	STARTS(weir_job_start(g.dma, &big.job));
	STARTS(weir_job_start(g.dma, &small.job));
	while (!big.calls) {
		assert_true(weir_reactor_turn(g.r, 0) >= 0);
		turns++;
		/* It does not wait for the large one's end. */
		if (turns == 6)
			assert_int_equal(small.calls, 1);
	}
	assert_true(turns >= 16);
	assert_int_equal(big.res, LEN);
	assert_memory_equal(g.mem, g.mem + LEN, LEN);
	fixture_end(&g);
}

#define N_SRCS 16

/* Every source and every destination counts. */
static void turn_touches_no_more_than_its_budget(void **state)
{
	static const struct {
		uint32_t kind;
		uint64_t locations;
	} kinds[] = {
		{ WEIR_JOB_FILL, 1 }, { WEIR_JOB_CRC32C, 1 },
		{ WEIR_JOB_COPY, 2 }, { WEIR_JOB_COPY_CRC32C, 2 },
		{ WEIR_JOB_COMPARE, 2 }, { WEIR_JOB_DUALCAST, 3 },
		{ WEIR_JOB_XOR, N_SRCS + 1 },
	};
	const uint64_t len = 65536, turn_bytes = 65536;
	struct weir_operand srcs[N_SRCS];
	struct jrec j;
	struct fixture g;
	uint64_t turns;
	size_t i;

	fixture_begin(&g, state, (struct weir_dma_opts){ .turn_bytes = 65536 });
	for (i = 0; i < N_SRCS; i++)
		srcs[i] = mem_at(&g, i * len, len);
	memset(g.mem, 0, 2 * LEN);
	for (i = 0; i < N_OF(kinds); i++) {
		jrec_init(&j);
		weir_job_copy(&j.job, mem_at(&g, LEN + len, len), srcs[0]);
		j.job.kind = kinds[i].kind;
		if (kinds[i].kind == WEIR_JOB_XOR)
			weir_job_xor(&j.job, mem_at(&g, LEN, len), srcs,
				     N_SRCS);
		if (kinds[i].kind == WEIR_JOB_DUALCAST)
			weir_job_dualcast(&j.job, mem_at(&g, LEN, len),
					  &srcs[1], srcs[0]);
		some_turns(g.r, 1);
		STARTS(weir_job_start(g.dma, &j.job));
		for (turns = 0; !j.calls; turns++)
			assert_true(weir_reactor_turn(g.r, 0) >= 0);
		assert_int_equal(j.res, len);
		if (turns * turn_bytes < kinds[i].locations * len)
			fail_msg("kind %u: %llu turns", kinds[i].kind,
				 (unsigned long long)turns);
	}
	fixture_end(&g);
}

static void a_job_that_waits_can_be_cancelled(void **state)
{
	struct weir_buf *src, *dst;
	struct jrec first, j;
	struct fixture g;
	int late;

	fixture_begin(&g, state, (struct weir_dma_opts){ .turn_bytes = 4096 });
	src = take(&g, 0, 65536, 65536);
	dst = take(&g, LEN, 65536, 0);
	for (late = 0; late < 2; late++) {
		spend_budget(g.dma, &first, g.mem + 100000, 4096);
		jrec_init(&j);
		weir_job_copy(&j.job, weir_operand_buf(dst),
			      weir_operand_buf(src));
		STARTS(weir_job_start(g.dma, &j.job));
		assert_int_equal(weir_buf_refs(src), 2);
		if (late)
			some_turns(g.r, 3);
		assert_int_equal(weir_op_cancel(&j.job.op), 0);
		assert_int_equal(jrec_finish(g.r, &j), -ECANCELED);
		assert_true(late ? j.detail.bytes > 0 && j.detail.bytes < 65536 :
				   !j.detail.bytes);
		assert_int_equal(weir_buf_data_len(dst), 0);
		assert_int_equal(weir_buf_refs(src), 1);
	}
	weir_buf_put(src);
	weir_buf_put(dst);
	fixture_end(&g);
}

static void a_deadline_ends_a_job(void **state)
{
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ .turn_bytes = 4096 });
	jrec_init(&j);
	weir_job_copy(&j.job, mem_at(&g, LEN, LEN), mem_at(&g, 0, LEN));
	assert_int_equal(weir_op_set_deadline(&j.job.op, 1), 0);
	STARTS(weir_job_start(g.dma, &j.job));
	assert_int_equal(jrec_finish(g.r, &j), -ETIMEDOUT);
	fixture_end(&g);
}

static void late_job_touches_nothing(void **state)
{
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	jrec_init(&j);
	weir_job_fill(&j.job, mem_at(&g, 0, 100), 0);
	STARTS(weir_job_start(g.dma, &j.job));
	assert_int_equal(jrec_finish(g.r, &j), 100);
	jrec_init(&j);
	weir_job_fill(&j.job, mem_at(&g, 0, 100), 0x5a5a5a5a5a5a5a5a);
	weir_op_set_deadline(&j.job.op, weir_reactor_now(g.r));
	STARTS(weir_job_start(g.dma, &j.job));
	assert_int_equal(jrec_finish(g.r, &j), -ETIMEDOUT);
	for (int i = 0; i < 100; i++)
		assert_int_equal(g.mem[i], 0);
	/* The next start has no deadline. */
	jrec_init(&j);
	weir_job_fill(&j.job, mem_at(&g, 0, 100), 0x5a5a5a5a5a5a5a5a);
	STARTS(weir_job_start(g.dma, &j.job));
	assert_int_equal(jrec_finish(g.r, &j), 100);
	assert_int_equal(g.mem[99], 0x5a);
	fixture_end(&g);
}

static void a_cancel_too_late_changes_nothing(void **state)
{
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	jrec_init(&j);
	weir_job_copy(&j.job, mem_at(&g, LEN, 100), mem_at(&g, 0, 100));
	assert_int_equal(weir_op_cancel(&j.job.op), -EINVAL);
	STARTS(weir_job_start(g.dma, &j.job));
	assert_int_equal(weir_job_start(g.dma, &j.job), -EINVAL);
	assert_int_equal(weir_op_cancel(&j.job.op), 0);
	assert_int_equal(jrec_finish(g.r, &j), 100);
	assert_int_equal(weir_op_cancel(&j.job.op), -EINVAL);
	fixture_end(&g);
}

static void a_cancelled_file_job_lets_go_of_its_bufs(void **state)
{
	struct weir_buf *dst;
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	dst = take(&g, 0, LEN, 0);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_buf(dst), file_at(&g, 0, 0, LEN));
	STARTS(weir_job_start(g.dma, &j.job));
	assert_int_equal(weir_domain_users(g.file[0]), 1);
	assert_int_equal(weir_domain_destroy(g.file[0]), -EBUSY);
	assert_int_equal(weir_op_cancel(&j.job.op), 0);
	jrec_finish(g.r, &j);
	assert_true(j.res == LEN || j.res == -ECANCELED);
	assert_int_equal(weir_buf_data_len(dst), j.res == LEN ? LEN : 0);
	assert_int_equal(weir_buf_reset(dst), 0);
	weir_buf_put(dst);
	fixture_end(&g);
}

/* Whether the worker has the first slice or not yet, there is no second. */
static void copy_between_files_is_cancelled_between_slices(void **state)
{
	int rounds = 100, yields;
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ .file_slice = 4096 });
	jrec_init(&j);
	weir_job_copy(&j.job, file_at(&g, 1, 0, LEN), file_at(&g, 0, 0, LEN));
	while (rounds--) {
		STARTS(weir_job_start(g.dma, &j.job));
		for (yields = rounds % 10; yields; yields--)
			sched_yield();
		assert_int_equal(weir_op_cancel(&j.job.op), 0);
		jrec_finish(g.r, &j);
		assert_int_equal(j.res, -ECANCELED);
		assert_true(j.detail.bytes <= 4096);
	}
	fixture_end(&g);
}

static void workers_do_what_is_large(void **state)
{
	struct weir_dma_stats s = { .size = sizeof(s) };
	struct jrec j, small;
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ .worker_min = 65536 });
	jrec_init(&j);
	jrec_init(&small);
	weir_job_copy_crc32c(&j.job, mem_at(&g, LEN, LEN), mem_at(&g, 0, LEN),
			     0);
	STARTS(weir_job_start(g.dma, &j.job));
	weir_job_crc32c(&small.job, mem_at(&g, 0, 100), 0);
	assert_int_equal(jrec_run(g.dma, &small), 100);
	if (!j.calls)
		jrec_finish(g.r, &j);
	assert_int_equal(j.res, LEN);
	assert_int_equal(j.job.crc, weir_crc32c(0, g.mem, LEN));
	assert_memory_equal(g.mem, g.mem + LEN, LEN);
	assert_int_equal(weir_dma_stats(g.dma, &s), 0);
	assert_int_equal(s.worker_jobs, 1);
	assert_int_equal(s.cpu_jobs, 2);

	/* A cancel, at whatever point it gets there. */
	weir_job_copy(&j.job, mem_at(&g, LEN, LEN), mem_at(&g, 0, LEN));
	STARTS(weir_job_start(g.dma, &j.job));
	assert_int_equal(weir_op_cancel(&j.job.op), 0);
	jrec_finish(g.r, &j);
	assert_true(j.res == LEN || j.res == -ECANCELED);
	fixture_end(&g);
}

static void job_runs_without_a_worker(void **state)
{
	struct weir_dma_stats s = { .size = sizeof(s) };
	int n = 0, fired;
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ .worker_min = 65536 });
	jrec_init(&j);
	weir_job_copy(&j.job, mem_at(&g, LEN, LEN), mem_at(&g, 0, LEN));
	do {
		fault_arm(n++);
		STARTS(weir_job_start(g.dma, &j.job));
		fired = fault_disarm();
		assert_int_equal(jrec_finish(g.r, &j), LEN);
		assert_int_equal(weir_dma_stats(g.dma, &s), 0);
		assert_int_equal(s.worker_jobs, !fired);
	} while (fired);
	assert_int_equal(n, 3);
	fixture_end(&g);
}

static void readers_share_and_writers_do_not(void **state)
{
	struct jrec first, a, b, c;
	struct weir_buf *src, *dst;
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ .turn_bytes = 4096 });
	src = take(&g, 0, 5000, 5000);
	dst = take(&g, LEN, 20000, 0);
	spend_budget(g.dma, &first, g.mem + 100000, 4096);
	jrec_init(&a);
	jrec_init(&b);
	jrec_init(&c);
	weir_job_copy(&a.job, weir_operand_buf(dst), weir_operand_buf(src));
	weir_job_crc32c(&b.job, weir_operand_buf(src), 0);
	STARTS(weir_job_start(g.dma, &a.job));
	STARTS(weir_job_start(g.dma, &b.job));
	weir_job_crc32c(&c.job, weir_operand_buf(dst), 0);
	refused(&g, &c, -EBUSY);
	weir_job_copy(&c.job, weir_operand_buf(dst), mem_at(&g, 100000, 1));
	refused(&g, &c, -EBUSY);
	weir_job_copy(&c.job, weir_operand_buf(src), mem_at(&g, 100000, 1));
	refused(&g, &c, -EBUSY);
	jrec_finish(g.r, &a);
	if (!b.calls)
		jrec_finish(g.r, &b);
	assert_int_equal(b.job.crc, weir_crc32c(0, g.mem, 5000));
	weir_buf_put(src);
	weir_buf_put(dst);
	fixture_end(&g);
}

/* 2.3; A7.1, A7.2, A7.3, A7.4; acceptance 16 */
static void context_answers_as_its_state_table_says(void **state)
{
	struct weir_dma_opts opts = { .size = sizeof(opts), .jobs_max = 2,
				      .turn_bytes = 4096 };
	struct weir_reactor *r = start_reactor(state);
	char *mem = calloc(1, 65536);
	struct jrec first, j, more;
	struct weir_dma *dma = NULL;
	struct rec stop, second;

	assert_int_equal(weir_dma_create(&dma, r, &opts), 0);
	jrec_init(&first);
	jrec_init(&more);
	rec_init(&stop);
	rec_init(&second);

	/* STOPPED */
	assert_int_equal(weir_dma_state(dma), WEIR_DMA_STOPPED);
	weir_job_fill(&more.job, weir_operand_mem(mem, 8), 0);
	assert_int_equal(weir_job_start(dma, &more.job), -EBADFD);
	STARTS(weir_dma_stop(dma, &stop.op));
	assert_int_equal(finish(r, &stop), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);

	/* RUNNING, idle */
	assert_int_equal(weir_dma_create(&dma, r, &opts), 0);
	assert_int_equal(weir_dma_start(dma), 0);
	assert_int_equal(weir_dma_start(dma), 0);
	assert_int_equal(weir_dma_state(dma), WEIR_DMA_RUNNING);
	assert_int_equal(jrec_run(dma, &more), 8);
	STARTS(weir_dma_stop(dma, &stop.op));
	assert_int_equal(weir_dma_state(dma), WEIR_DMA_STOPPED);
	assert_int_equal(finish(r, &stop), 0);
	assert_int_equal(weir_dma_start(dma), 0);

	/* Jobs in flight */
	spend_budget(dma, &first, mem, 4096);
	jrec_init(&j);
	weir_job_fill(&j.job, weir_operand_mem(mem, 65536), 0);
	STARTS(weir_job_start(dma, &j.job));
	assert_int_equal(weir_dma_start(dma), 0);
	assert_int_equal(weir_job_start(dma, &more.job), -EAGAIN);
	assert_int_equal(weir_dma_destroy(dma), -EBUSY);
	STARTS(weir_dma_stop(dma, &stop.op));

	/* The jobs here end at once; so this is the moment before. */
	assert_int_equal(weir_job_start(dma, &more.job), -EBADFD);
	assert_int_equal(finish(r, &stop), 0);
	assert_int_equal(j.calls, 1);
	assert_int_equal(j.res, -ECANCELED);
	assert_int_equal(weir_dma_state(dma), WEIR_DMA_STOPPED);
	assert_int_equal(weir_dma_destroy(dma), 0);
	assert_int_equal(weir_dma_destroy(NULL), 0);
	free(mem);
}

/* A worker's job cannot end at once. */
static void a_context_that_is_stopping_refuses_all(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){
		.worker_min = 1 });
	char *mem = calloc(1, 8 * LEN);
	struct rec stop, second;
	struct jrec j;

	rec_init(&stop);
	rec_init(&second);
	jrec_init(&j);
	weir_job_fill(&j.job, weir_operand_mem(mem, 8 * LEN), 1);
	STARTS(weir_job_start(dma, &j.job));
	STARTS(weir_dma_stop(dma, &stop.op));
	if (weir_dma_state(dma) == WEIR_DMA_STOPPING) {
		assert_int_equal(weir_dma_stop(dma, &second.op), -EBUSY);
		assert_int_equal(weir_dma_start(dma), -EBUSY);
		assert_int_equal(weir_dma_destroy(dma), -EBUSY);
		assert_int_equal(weir_job_start(dma, &j.job), -EINVAL);
	}
	assert_int_equal(finish(r, &stop), 0);
	assert_int_equal(j.calls, 1);
	assert_int_equal(weir_dma_destroy(dma), 0);
	free(mem);
}

static void a_stopping_reactor_ends_the_jobs(void **state)
{
	struct jrec cpu, file, work;
	struct fixture g;

	fixture_begin(&g, state,
		      (struct weir_dma_opts){ .turn_bytes = 4096,
					      .worker_min = LEN });
	jrec_init(&cpu);
	jrec_init(&file);
	jrec_init(&work);
	weir_job_fill(&cpu.job, mem_at(&g, 0, LEN / 4), 0);
	weir_job_copy(&file.job, mem_at(&g, LEN / 2, LEN / 2),
		      file_at(&g, 0, 0, LEN / 2));
	weir_job_fill(&work.job, mem_at(&g, LEN, LEN), 0);
	STARTS(weir_job_start(g.dma, &cpu.job));
	STARTS(weir_job_start(g.dma, &file.job));
	STARTS(weir_job_start(g.dma, &work.job));
	weir_reactor_stop(g.r);
	assert_int_equal(weir_reactor_run(g.r), 0);
	assert_int_equal(cpu.calls + file.calls + work.calls, 3);
	assert_int_equal(cpu.res, -ECANCELED);
	assert_int_equal(weir_job_start(g.dma, &cpu.job), -ESHUTDOWN);
	fixture_end(&g);
}

static void bad_options_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	static const struct weir_dma_opts bad[] = {
		{ .jobs_max = (1u << 24) + 1 },
		{ .turn_bytes = 4095 },
		{ .file_slice = 1 },
	};
	struct weir_dma_opts opts;
	struct weir_dma *dma = NULL;
	size_t i;

	for (i = 0; i < N_OF(bad); i++) {
		opts = bad[i];
		opts.size = sizeof(opts);
		assert_int_equal(weir_dma_create(&dma, r, &opts), -EINVAL);
	}
	assert_null(dma);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(bad_job_is_refused_before_it_starts),
		CASE(overlap_is_seen_across_two_domains_of_one_file),
		CASE(bufs_are_checked_before_it_starts),
		CASE(the_mode_of_a_file_is_its_right),
		CASE(job_is_routed_as_the_table_says),
		REAL(huge_pages_are_memory),
		CASE(a_copy_appends_and_a_flag_overwrites),
		CASE(computations_are_right),
		CASE(a_compare_stays_inside_what_others_change),
		CASE(a_pattern_goes_on_over_pieces),
		CASE(fill_writes_its_pattern_at_any_place_and_length),
		CASE(copy_takes_any_shape_to_any_shape),
		CASE(a_source_that_ends_early_is_an_error_or_short),
		CASE(offsets_may_be_beyond_4_gib),
		CASE(direct_files_take_any_offset_and_length),
		CASE(direct_file_without_a_buffered_way_wants_alignment),
		REAL(an_error_of_a_file_is_the_jobs),
		CASE(a_large_job_is_spread_over_turns),
		CASE(turn_touches_no_more_than_its_budget),
		CASE(a_job_that_waits_can_be_cancelled),
		CASE(a_deadline_ends_a_job),
		CASE(late_job_touches_nothing),
		CASE(a_cancel_too_late_changes_nothing),
		CASE(a_cancelled_file_job_lets_go_of_its_bufs),
		CASE(copy_between_files_is_cancelled_between_slices),
		CASE(workers_do_what_is_large),
		REAL(job_runs_without_a_worker),
		CASE(readers_share_and_writers_do_not),
		CASE(context_answers_as_its_state_table_says),
		CASE(a_context_that_is_stopping_refuses_all),
		CASE(a_stopping_reactor_ends_the_jobs),
		CASE(bad_options_are_refused),
	};

	return harness_run_all(cases, N_OF(cases));
}
