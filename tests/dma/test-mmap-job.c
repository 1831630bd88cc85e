/* SPDX-License-Identifier: BSD-3-Clause */

/* Jobs on bufs of all kinds of mmaps: a table of docs/internals/dma.md. */

#include "tests/support/job-fixture.h"
#include "tests/support/table-fixture.h"

#include <sys/eventfd.h>
#include <sys/mman.h>

#include <weir/buf.h>
#include <weir/device.h>
#include <weir/dm.h>
#include <weir/inventory.h>

#include "mem/mmap-internal.h"

#include "tests/support/sim-calls.h"

#define LEN 4096
#define N 512

enum column { HUGE, MAPPED, UNMAPPED, DM, REVOKED, COLUMNS };

static const char *const columns[COLUMNS] = {
	[HUGE] = "huge pages",
	[MAPPED] = "mapped dma-buf",
	[UNMAPPED] = "dma-buf that cannot be mapped",
	[DM] = "device memory",
	[REVOKED] = "revoked import",
};

struct fixture {
	struct weir_reactor *r;
	struct weir_inventory *inv;
	struct weir_dma *dma;
	struct weir_device *dev;
	struct weir_dm *dm;
	struct weir_mmap *m, *mem;	/* The kind, and plain memory. */
	struct weir_mmap *twin;		/* Another of the kind. */
	struct weir_buf *it, *plain, *other;
	struct mmap_import import;
	_Atomic uint64_t generation;
	_Atomic uint32_t busy;
	char *memory;
	int fd;
};

/* What the kernel says of any dma-buf. */
static int like_dmabuf(int fd, unsigned long request, void *arg)
{
	(void)fd, (void)request;
	errno = EINVAL;
	return *(uint64_t *)arg ? 0 : -1;
}

static int set_range(struct fixture *g, struct weir_mmap *m, enum column col)
{
	int fd, err;

	switch (col) {
	case HUGE:
		return weir_mmap_alloc(m, LEN, WEIR_MMAP_ALLOC_HUGE_2M);
	case DM:
		return weir_mmap_set_dm(m, g->dm, 0, LEN);
	case REVOKED:
		return weir_mmap_alloc(m, LEN, 0);
	default:
		fd = col == MAPPED ? memfd_create("test", MFD_CLOEXEC) :
				     eventfd(0, EFD_CLOEXEC);
		if (col == MAPPED)
			assert_int_equal(ftruncate(fd, LEN), 0);
		err = weir_mmap_set_dmabuf(m, fd, 0, LEN);
		close(fd);
		return err;
	}
}

static struct weir_mmap *make(struct fixture *g, enum column col)
{
	struct weir_mmap *m = NULL;

	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_set_permissions(m, WEIR_MMAP_WRITE), 0);
	assert_int_equal(set_range(g, m, col), 0);
	if (col == HUGE)
		/* Whatever there was to be had. */
		mmap_set_domain(m, weir_domain_hugepage());
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_inventory_attach(g->inv, m), 0);
	return m;
}

static struct weir_buf *take(struct fixture *g, struct weir_mmap *m)
{
	struct weir_buf *buf = NULL;
	void *addr;

	assert_int_equal(weir_mmap_memrange(m, &addr, NULL), 0);
	assert_int_equal(weir_inventory_get(&buf, g->inv, m, addr, 2 * N, NULL,
					    N), 0);
	return buf;
}

/* As if @m had been imported; and as if it had been revoked since. */
static void import_it(struct fixture *g, struct weir_mmap *m)
{
	atomic_store(&g->generation, 1);
	import_init(&g->import, &g->generation, 1);
	g->import.busy = &g->busy;
	m->import = &g->import;
}

static void revoke_it(struct fixture *g, struct weir_mmap *m)
{
	import_it(g, m);
	atomic_store(&g->generation, 2);
}

static void fixture_begin(struct fixture *g, void **state, enum column col)
{
	memset(g, 0, sizeof(*g));
	dmabuf_ioctl = like_dmabuf;
	g->r = start_reactor(state);
	g->dma = start_dma(g->r, (struct weir_dma_opts){ .size = 0 });
	assert_int_equal(weir_inventory_create(&g->inv, g->r, NULL), 0);
	assert_int_equal(weir_device_open_name(&g->dev, "soft-dm"), 0);
	assert_int_equal(weir_dm_alloc(&g->dm, g->dev, LEN, 0), 0);
	g->fd = test_file(state, "file", LEN, 1);
	g->memory = aligned_alloc(LEN, LEN);
	memset(g->memory, 0, LEN);
	g->mem = start_mmap(g->memory, LEN, WEIR_MMAP_WRITE);
	assert_int_equal(weir_inventory_attach(g->inv, g->mem), 0);
	g->m = make(g, col);
	g->twin = make(g, col);
	g->it = take(g, g->m);
	g->other = take(g, g->twin);
	g->plain = take(g, g->mem);
	if (col == REVOKED)
		revoke_it(g, g->m);
}

static void fixture_end(struct fixture *g, void **state)
{
	struct rec rec;

	weir_buf_put(g->it);
	weir_buf_put(g->other);
	weir_buf_put(g->plain);
	g->m->import = NULL;
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	assert_int_equal(weir_mmap_destroy(g->twin), 0);
	assert_int_equal(weir_mmap_destroy(g->mem), 0);
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_dm_free(g->dm), 0);
	assert_int_equal(weir_device_close(g->dev), 0);
	rec_init(&rec);
	STARTS(weir_dma_stop(g->dma, &rec.op));
	assert_int_equal(finish(g->r, &rec), 0);
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	close(g->fd);
	free(g->memory);
	end_reactor(state);
}

/* What the job comes to: 0 if it does all it should. */
static int run(struct fixture *g, struct jrec *j)
{
	int err = weir_job_start(g->dma, &j->job);
	int64_t res = err ? err : jrec_finish(g->r, j);

	return res == N || res == 2 * N || res == 1 ? 0 : (int)res;
}

static int copy(struct fixture *g, struct weir_buf *dst, struct weir_buf *src)
{
	struct jrec j;

	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_buf(dst), weir_operand_buf(src));
	return run(g, &j);
}

static int call_copy_to(void *fixture)
{
	struct fixture *g = fixture;

	return copy(g, g->it, g->plain);
}

static int call_copy_from(void *fixture)
{
	struct fixture *g = fixture;

	return copy(g, g->plain, g->it);
}

static int call_copy_twin(void *fixture)
{
	struct fixture *g = fixture;

	return copy(g, g->it, g->other);
}

static int call_fill(void *fixture)
{
	struct fixture *g = fixture;
	struct jrec j;

	jrec_init(&j);
	weir_job_fill(&j.job, weir_operand_buf(g->it), 1);
	return run(g, &j);
}

static int crc(struct fixture *g, struct weir_buf *buf)
{
	struct jrec j;

	jrec_init(&j);
	weir_job_crc32c(&j.job, weir_operand_buf(buf), 0);
	return run(g, &j);
}

static int call_crc(void *fixture)
{
	struct fixture *g = fixture;

	return crc(g, g->it);
}

static int crc_list(struct fixture *g, struct weir_buf *head,
		    struct weir_buf *tail)
{
	int err;

	assert_int_equal(weir_buf_chain(head, tail), 0);
	err = crc(g, head);
	assert_int_equal(weir_buf_unchain(head, tail), 0);
	return err;
}

static int call_crc_it_first(void *fixture)
{
	struct fixture *g = fixture;

	return crc_list(g, g->it, g->plain);
}

static int call_crc_it_last(void *fixture)
{
	struct fixture *g = fixture;

	return crc_list(g, g->plain, g->it);
}

static int call_compare(void *fixture)
{
	struct fixture *g = fixture;
	struct jrec j;
	int err;

	jrec_init(&j);
	weir_job_compare(&j.job, weir_operand_buf(g->it),
			 weir_operand_buf(g->plain));
	err = run(g, &j);
	return err == -EILSEQ ? 0 : err;
}

static int file_job(struct fixture *g, uint32_t kind)
{
	struct weir_domain *d = file_domain(g->fd);
	bool pull = kind == WEIR_JOB_PULL;
	struct jrec j;
	int err;

	jrec_init(&j);
	weir_job_copy(&j.job,
		      pull ? weir_operand_buf(g->it) : weir_operand_at(d, 0, N),
		      pull ? weir_operand_at(d, 0, N) :
			     weir_operand_buf(g->it));
	j.job.kind = kind;
	err = run(g, &j);
	assert_int_equal(weir_domain_destroy(d), 0);
	return err;
}

static int call_pull(void *fixture)
{
	return file_job(fixture, WEIR_JOB_PULL);
}

static int call_push(void *fixture)
{
	return file_job(fixture, WEIR_JOB_PUSH);
}

static const struct table_call calls[] = {
	{ "copy memory to it", call_copy_to },
	{ "copy it to memory", call_copy_from },
	{ "copy it to another of its kind", call_copy_twin },
	{ "fill it", call_fill },
	{ "checksum it", call_crc },
	{ "checksum a list of it and memory", call_crc_it_first },
	{ "checksum a list of memory and it", call_crc_it_last },
	{ "compare it with memory", call_compare },
	{ "pull a file into it", call_pull },
	{ "push it to a file", call_push },
};

static void job_over_mmaps_answers_as_the_table_says(void **state)
{
	struct table_cell c;
	struct table t;
	struct fixture g;

	table_open(&t, "docs/internals/dma.md",
		   "job: by what the bufs of the mmap are", calls, N_OF(calls),
		   columns, COLUMNS);
	while (table_next(&t, &c)) {
		fixture_begin(&g, state, (enum column)c.column);
		table_result(&c, c.call->fn(&g));
		fixture_end(&g, state);
	}
	table_close(&t);
}

/* A1.22, acceptance 23 */
static void a_job_under_way_ends_when_the_exporter_revokes(void **state)
{
	struct weir_inventory *inv;
	char *big, *out;
	struct fixture g;
	struct jrec j;
	const size_t len = 8u << 20;
	struct weir_mmap *m;
	struct weir_buf *buf;

	fixture_begin(&g, state, REVOKED);
	big = calloc(1, len);
	out = calloc(1, len);
	m = start_mmap(big, len, WEIR_MMAP_WRITE);
	assert_int_equal(weir_inventory_create(&inv, g.r, NULL), 0);
	assert_int_equal(weir_inventory_attach(inv, m), 0);
	assert_int_equal(weir_inventory_get(&buf, inv, m, big, len, NULL, 0),
			 0);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_buf(buf),
		      weir_operand_mem(out, len));
	import_it(&g, m);
	STARTS(weir_job_start(g.dma, &j.job));
	some_turns(g.r, 1);
	assert_int_equal(j.calls, 0);
	assert_int_equal(g.busy, 1);
	revoke_it(&g, m);
	assert_int_equal(jrec_finish(g.r, &j), -ESTALE);
	assert_int_equal(g.busy, 0);
	assert_true(j.detail.bytes < len);
	assert_int_equal(weir_buf_data_len(buf), 0);
	m->import = NULL;
	weir_buf_put(buf);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	free(big);
	free(out);
	fixture_end(&g, state);
}

static void no_buf_is_made_of_what_is_revoked(void **state)
{
	struct weir_buf *buf = NULL;
	struct fixture g;
	void *addr;

	fixture_begin(&g, state, REVOKED);
	assert_int_equal(weir_mmap_memrange(g.m, &addr, NULL), 0);
	assert_int_equal(weir_inventory_get(&buf, g.inv, g.m, addr, 1, NULL, 0),
			 -ESTALE);
	assert_int_equal(weir_inventory_dup(&buf, g.inv, g.it), -ESTALE);
	assert_null(buf);
	fixture_end(&g, state);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(job_over_mmaps_answers_as_the_table_says),
		CASE(a_job_under_way_ends_when_the_exporter_revokes),
		CASE(no_buf_is_made_of_what_is_revoked),
	};

	return harness_run_all(cases, N_OF(cases));
}
