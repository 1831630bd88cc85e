/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_FABRIC_FIXTURE_H
#define TESTS_FABRIC_FIXTURE_H

/* Memory that is exported and imported by libweir-fabric, on one reactor. */

#include "tests/support/job-fixture.h"

#include <weir/device.h>
#include <weir/export.h>
#include <weir/fabric/device.h>
#include <weir/lease.h>

#define DEVICE "tcp@127.0.0.1"
#define LEN ((size_t)4 << 20)
#define BYTES_MAX 1024		/* Of a descriptor. */
#define RO WEIR_MMAP_PEER_READ
#define RW (WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE)

/* Both sides, on one reactor. */
struct both {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_device *dev;
	struct weir_mmap *m;		/* Exported, LEN bytes at .far, */
	struct weir_lease *lease;	/* by this. */
	struct weir_mmap *import;
	struct weir_domain *d;
	uint64_t addr;			/* Of the first byte in .d. */
	char *far, *mem;
	struct jrec j;
};

static inline void import_bytes(struct both *b, const void *bytes, size_t len)
{
	void *addr = NULL;

	assert_int_equal(weir_mmap_import_device(&b->import, b->dev, bytes, len,
						 NULL), 0);
	b->d = weir_mmap_domain(b->import);
	assert_int_equal(weir_domain_kind(b->d), WEIR_DOMAIN_FABRIC);
	assert_int_equal(weir_mmap_memrange(b->import, &addr, NULL), 0);
	b->addr = (uintptr_t)addr;
}

static inline void make_lease(struct both *b, uint32_t permissions)
{
	struct weir_lease_opts opts = {
		.size = sizeof(opts), .device = b->dev,
		.permissions = permissions,
	};
	struct weir_export_desc desc = { .size = sizeof(desc) };

	assert_int_equal(weir_lease_create(&b->lease, b->r, b->m, &opts), 0);
	assert_int_equal(weir_lease_export(b->lease, &desc), 0);
	assert_int_equal(desc.n_fds, 0);
	import_bytes(b, desc.bytes, desc.len);
}

static inline void both_begin_on(struct both *b, struct weir_reactor *r,
				 uint32_t permissions)
{
	memset(b, 0, sizeof(*b));
	b->r = r;
	b->dma = start_dma(b->r, (struct weir_dma_opts){ 0 });
	assert_int_equal(weir_device_open_name(&b->dev, DEVICE), 0);
	b->far = aligned_alloc(4096, LEN);
	b->mem = aligned_alloc(4096, 2 * LEN);
	fill_pattern(b->mem, LEN, 0, 1);
	memset(b->mem + LEN, 0, LEN);
	memset(b->far, 0, LEN);
	b->m = start_mmap_on(b->dev, b->far, LEN,
			     RW | WEIR_MMAP_READ | WEIR_MMAP_WRITE);
	make_lease(b, permissions);
	jrec_init(&b->j);
}

static inline void both_begin(struct both *b, void **state, uint32_t permissions)
{
	both_begin_on(b, start_reactor(state), permissions);
}

static inline void both_end(struct both *b)
{
	if (b->import)
		assert_int_equal(weir_mmap_destroy(b->import), 0);
	assert_int_equal(weir_lease_destroy(b->lease), 0);
	assert_int_equal(weir_mmap_destroy(b->m), 0);
	assert_int_equal(weir_dma_destroy(b->dma), 0);
	assert_int_equal(weir_device_close(b->dev), 0);
	free(b->far);
	free(b->mem);
}

static inline struct weir_operand there(const struct both *b, size_t at, size_t len)
{
	return weir_operand_at(b->d, b->addr + at, len);
}

static inline int64_t copy(struct both *b, struct weir_operand to,
		    struct weir_operand from)
{
	weir_job_copy(&b->j.job, to, from);
	return jrec_run(b->dma, &b->j);
}

static inline int64_t put(struct both *b, size_t at, size_t len)
{
	return copy(b, there(b, at, len), weir_operand_mem(b->mem, len));
}

static inline int64_t get(struct both *b, size_t at, size_t len)
{
	return copy(b, weir_operand_mem(b->mem + LEN, len), there(b, at, len));
}

static inline struct weir_fabric_stats stats_of(const struct weir_device *dev)
{
	struct weir_fabric_stats s = { .size = sizeof(s) };

	assert_int_equal(weir_fabric_stats(dev, &s), 0);
	return s;
}

#endif /* TESTS_FABRIC_FIXTURE_H */
