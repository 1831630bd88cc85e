/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_ACCEL_FIXTURE_H
#define TESTS_ACCEL_FIXTURE_H

/* What the tests of libweir-accel share. */

#include "tests/support/job-fixture.h"

#include <sys/mman.h>

#include <weir/accel/kinds.h>
#include <weir/kind.h>

/* Run a job of the kind @which from @src to @dst, and return its result. */
static inline int64_t run_kind(struct weir_dma *dma, struct jrec *j,
			       uint32_t which, struct weir_operand dst,
			       struct weir_operand src, const void *args)
{
	jrec_init(j);
	weir_job_registered(&j->job, weir_accel_kind(which), dst, src, args);
	return jrec_run(dma, j);
}

/* The same of memory; @cap may be 0. */
static inline int64_t run_mem(struct weir_dma *dma, struct jrec *j,
			      uint32_t which, void *dst, size_t cap,
			      const void *src, size_t len, const void *args)
{
	return run_kind(dma, j, which, weir_operand_mem(cap ? dst : NULL, cap),
			weir_operand_mem(src, len), args);
}

/* What the start of such a job returns; it must refuse. */
static inline int refused(struct weir_dma *dma, uint32_t which, void *dst,
			  size_t cap, const void *src, size_t len,
			  const void *args)
{
	struct jrec j;

	jrec_init(&j);
	weir_job_registered(&j.job, weir_accel_kind(which),
			    weir_operand_mem(cap ? dst : NULL, cap),
			    weir_operand_mem(src, len), args);
	return weir_job_start(dma, &j.job);
}

#endif /* TESTS_ACCEL_FIXTURE_H */
