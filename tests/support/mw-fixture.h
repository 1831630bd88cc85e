/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_WINDOW_FIXTURE_H
#define TESTS_WINDOW_FIXTURE_H

/*
 * An exporter and an importer with a connection between them: the server's end
 * has an mmap with a part to be exported, the client's end a remote domain and
 * memory of its own.  Over the mock, or over soft-RoCE in the guest, where
 * each has a device of its own if there are two.
 */

#include "tests/support/conn-fixture.h"
#include "tests/support/job-fixture.h"

#include <weir/device.h>
#include <weir/export.h>
#include <weir/inventory.h>
#include <weir/rdma/export.h>
#include <weir/rdma/mw.h>

#define MEM_LEN 16384u
#define PART_OFF 4000u /* Page boundaries mean nothing here. */
#define PART_LEN 5000u
#define R WEIR_MMAP_RDMA_READ
#define W WEIR_MMAP_RDMA_WRITE

struct sharing {
	struct ends e;
	struct weir_reactor *r;
	struct weir_device *dev, *near_dev;
	char *mem; /* The exporter's, all 'm', */
	struct weir_mmap *m; /* its mmap, with all rights, */
	struct weir_mw *w; /* and a window over its part. */
	struct rec opened, revoked;
	char *near; /* The importer's, all 'n'. */
	struct weir_mmap *mine, *im;
	struct weir_inventory *inv;
	struct weir_domain *there;
	struct weir_dma *dma;
};

static inline char *filled(int c)
{
	char *mem = aligned_alloc(4096, MEM_LEN);

	memset(mem, c, MEM_LEN);
	return mem;
}

/* Connect, or connect again. */
static inline void sharing_connect(struct sharing *s)
{
	ends_establish(&s->e);
}

/* All of the mmap is known to the device as well; e.opts may have been set. */
static inline void sharing_open(struct sharing *s)
{
	ends_open(&s->e);
	sharing_connect(s);
	assert_int_equal(
		weir_device_open_name(&s->dev,
				      s->e.server->device_ref->device->name),
		0);
	assert_int_equal(
		weir_device_open_name(&s->near_dev,
				      s->e.client->device_ref->device->name),
		0);
	s->mem = filled('m');
	s->m = start_mmap_on(s->dev, s->mem, MEM_LEN,
			     WEIR_MMAP_WRITE | R | W | WEIR_MMAP_RDMA_ATOMIC);
	assert_int_equal(weir_mmap_keys(s->m, s->dev, NULL, NULL), 0);
	s->near = filled('n');
	s->mine = start_mmap_on(s->near_dev, s->near, MEM_LEN,
				WEIR_MMAP_READ | WEIR_MMAP_WRITE);
	assert_int_equal(weir_inventory_create(&s->inv, s->r, NULL), 0);
	assert_int_equal(weir_inventory_attach(s->inv, s->mine), 0);
	assert_int_equal(weir_domain_remote_create(&s->there, NULL), 0);
	assert_int_equal(weir_conn_attach(s->e.client, s->there), 0);
	s->dma = start_dma(s->r, (struct weir_dma_opts){ .staging_size = 4096,
							 .staging_bufs = 1 });
}

static inline void sharing_init(struct sharing *s, void **state)
{
	memset(s, 0, sizeof(*s));
	ends_init(&s->e, state, AF_INET);
	s->r = s->e.r;
	if (mocked || !getenv("WEIR_RDMA_ADDRESS2"))
		return;
	s->e.from = s->e.addr;
	s->e.addr = ip(getenv("WEIR_RDMA_ADDRESS2"), 0);
}

static inline void sharing_begin(struct sharing *s, void **state)
{
	sharing_init(s, state);
	sharing_open(s);
}

static inline int64_t sharing_window(struct sharing *s,
				     const struct weir_export_rdma_opts *opts)
{
	rec_init(&s->opened);
	STARTS(weir_mw_create(&s->w, s->e.server, &s->opened.op, s->m, opts));
	return result_of(s->r, &s->opened);
}

/* Of the part. */
static inline void sharing_export(struct sharing *s, uint32_t permissions)
{
	struct weir_export_rdma_opts opts = {
		.size = sizeof(opts),
		.permissions = permissions,
		.off = PART_OFF,
		.len = PART_LEN,
	};

	assert_int_equal(sharing_window(s, &opts), 0);
}

static inline void sharing_import(struct sharing *s)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };

	assert_int_equal(weir_mw_export(s->w, &desc), 0);
	assert_int_equal(desc.n_fds, 0);
	assert_int_equal(weir_mmap_import_rdma(&s->im, s->there, desc.bytes,
					       desc.len, NULL),
			 0);
	assert_int_equal(weir_inventory_attach(s->inv, s->im), 0);
}

static inline int64_t sharing_revoke(struct sharing *s)
{
	rec_init(&s->revoked);
	STARTS(weir_mw_revoke(s->w, &s->revoked.op));
	return result_of(s->r, &s->revoked);
}

static inline void sharing_forget(struct sharing *s)
{
	if (!s->im)
		return;
	assert_int_equal(weir_inventory_detach(s->inv, s->im), 0);
	assert_int_equal(weir_mmap_destroy(s->im), 0);
	s->im = NULL;
}

static inline void sharing_end(struct sharing *s)
{
	some_turns(s->r, 3);
	sharing_forget(s);
	assert_int_equal(weir_mw_destroy(s->w), 0);
	assert_int_equal(weir_dma_destroy(s->dma), 0);
	assert_int_equal(weir_conn_detach(s->e.client, s->there), 0);
	assert_int_equal(weir_domain_destroy(s->there), 0);
	assert_int_equal(weir_inventory_destroy(s->inv), 0);
	assert_int_equal(weir_mmap_destroy(s->mine), 0);
	assert_int_equal(weir_mmap_destroy(s->m), 0);
	assert_int_equal(weir_device_close(s->dev), 0);
	assert_int_equal(weir_device_close(s->near_dev), 0);
	ends_destroy(&s->e);
	if (mocked && !s->e.others)
		assert_int_equal(mocked()->mrs + mocked()->mws, 0);
	free(s->mem);
	free(s->near);
}

/* Moves, by the importer. */

static inline struct weir_buf *buf_of(struct sharing *s, struct weir_mmap *m,
				      void *at, size_t len, bool data)
{
	return get_buf(s->inv, m, at, len, data ? len : 0);
}

/* What is exported at @off of the part, as a place for @len bytes. */
static inline struct weir_operand by_buf(struct sharing *s, uint64_t off,
					 size_t len, bool data)
{
	return weir_operand_buf(
		buf_of(s, s->im, s->mem + PART_OFF + off, len, data));
}

/* Set @j up to write to @far, or to read from it. */
static inline void move_init(struct sharing *s, struct jrec *j,
			     struct weir_operand far, size_t len, bool read)
{
	struct weir_buf *near = buf_of(s, s->mine, s->near, len, !read);

	jrec_init(j);
	weir_job_copy(&j->job, read ? weir_operand_buf(near) : far,
		      read ? far : weir_operand_buf(near));
}

/* And give back what it was set up with. */
static inline void move_fini(struct jrec *j)
{
	if (j->job.src.buf)
		weir_buf_put(j->job.src.buf);
	if (j->job.dst.buf)
		weir_buf_put(j->job.dst.buf);
}

static inline int64_t move_by(struct sharing *s, struct jrec *j,
			      struct weir_operand far, size_t len, bool read)
{
	int64_t res;

	move_init(s, j, far, len, read);
	res = weir_job_start(s->dma, &j->job);
	if (!res)
		res = jrec_finish(s->r, j);
	move_fini(j);
	return res;
}

/* @len bytes at @off of the part. */
static inline int64_t sharing_write(struct sharing *s, struct jrec *j,
				    uint64_t off, size_t len)
{
	return move_by(s, j, by_buf(s, off, len, false), len, false);
}

static inline int64_t sharing_read(struct sharing *s, struct jrec *j,
				   uint64_t off, size_t len)
{
	return move_by(s, j, by_buf(s, off, len, true), len, true);
}

static inline bool all_are(const char *mem, size_t len, int c)
{
	size_t i;

	for (i = 0; i < len && mem[i] == c; i++)
		;
	return i == len;
}

static inline void nothing_has_changed(const struct sharing *s)
{
	assert_true(all_are(s->mem, MEM_LEN, 'm'));
}

#endif /* TESTS_WINDOW_FIXTURE_H */
