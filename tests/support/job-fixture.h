/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_JOB_FIXTURE_H
#define TESTS_JOB_FIXTURE_H

/* What the tests of memory and DMA share: jobs that are recorded, mmaps. */

#include "tests/support/harness.h"

#include <weir/dma.h>
#include <weir/domain-user.h>
#include <weir/inventory.h>
#include <weir/job.h>
#include <weir/mmap.h>

/* What a job came to. */
struct jrec {
	struct weir_job job;
	int calls;
	int64_t res;
	struct weir_op_detail detail;
};

static inline void jrec_done(struct weir_op *op, int64_t res)
{
	struct jrec *j = weir_container_of(op, struct jrec, job.op);

	assert_int_equal(harness_starting, 0);
	j->calls++;
	j->res = res;
	assert_int_equal(weir_op_get_detail(op, &j->detail), 0);
}

static inline void jrec_init(struct jrec *j)
{
	memset(j, 0, sizeof(*j));
	weir_job_init(&j->job, jrec_done);
}

static inline int64_t jrec_finish(struct weir_reactor *r, struct jrec *j)
{
	int before = j->calls;

	UNTIL(r, j->calls > before);
	assert_int_equal(j->calls, before + 1);
	return j->res;
}

/* Start @j, which must be possible, and run it to its end. */
static inline int64_t jrec_run(struct weir_dma *dma, struct jrec *j)
{
	STARTS(weir_job_start(dma, &j->job));
	return jrec_finish(weir_dma_reactor(dma), j);
}

static inline struct weir_dma *start_dma(struct weir_reactor *r,
					 struct weir_dma_opts opts)
{
	struct weir_dma *dma = NULL;

	opts.size = sizeof(opts);
	assert_int_equal(weir_dma_create(&dma, r, &opts), 0);
	assert_int_equal(weir_dma_start(dma), 0);
	return dma;
}

static inline struct weir_dma_stats dma_stats_of(const struct weir_dma *dma)
{
	struct weir_dma_stats s = { .size = sizeof(s) };

	assert_int_equal(weir_dma_stats(dma, &s), 0);
	assert_int_equal(s.started,
			 s.completed + s.failed + s.cancelled + s.in_flight);
	return s;
}

/* Use up what the cpu engine may do in this turn, so that the next job waits.
 * @turn_bytes is the context's, @mem as much memory. */
static inline void spend_budget(struct weir_dma *dma, struct jrec *j, void *mem,
				size_t turn_bytes)
{
	struct weir_reactor *r = weir_dma_reactor(dma);

	some_turns(r, 1);
	jrec_init(j);
	weir_job_fill(&j->job, weir_operand_mem(mem, turn_bytes), 0);
	STARTS(weir_job_start(dma, &j->job));
}

/* With @dev, unless it is NULL. */
static inline struct weir_mmap *start_mmap_on(struct weir_device *dev,
					      void *mem, size_t len,
					      uint32_t permissions)
{
	struct weir_mmap *m = NULL;

	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	if (dev)
		assert_int_equal(weir_mmap_add_device(m, dev), 0);
	assert_int_equal(weir_mmap_set_memrange(m, mem, len), 0);
	assert_int_equal(weir_mmap_set_permissions(m, permissions), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	return m;
}

static inline struct weir_mmap *start_mmap(void *mem, size_t len,
					   uint32_t permissions)
{
	return start_mmap_on(NULL, mem, len, permissions);
}

/* Of @m's bufs. */
static inline struct weir_inventory *start_inventory(struct weir_reactor *r,
						     struct weir_mmap *m)
{
	struct weir_inventory *inv = NULL;

	assert_int_equal(weir_inventory_create(&inv, r, NULL), 0);
	assert_int_equal(weir_inventory_attach(inv, m), 0);
	return inv;
}

static inline struct weir_buf *get_buf(struct weir_inventory *inv,
				       struct weir_mmap *m, char *addr,
				       size_t len, size_t data_len)
{
	struct weir_buf *buf = NULL;

	assert_int_equal(
		weir_inventory_get(&buf, inv, m, addr, len, NULL, data_len), 0);
	return buf;
}

static inline struct weir_domain *file_domain(int fd)
{
	struct weir_domain *d = NULL;

	assert_int_equal(weir_domain_file_create(&d, fd, NULL), 0);
	return d;
}

/* The bytes of a side of a move. */
static inline uint64_t side_total(const struct weir_domain_side *side)
{
	uint64_t n = 0;
	uint32_t i;

	for (i = 0; i < side->n_iov; i++)
		n += side->iov[i].iov_len;
	return n;
}

/* The address of its byte @n, in its domain. */
static inline uintptr_t side_at(const struct weir_domain_side *side, uint64_t n)
{
	uint32_t i = 0;

	while (n >= side->iov[i].iov_len)
		n -= side->iov[i++].iov_len;
	return (uintptr_t)side->iov[i].iov_base + n;
}

#endif /* TESTS_JOB_FIXTURE_H */
