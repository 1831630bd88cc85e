/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_CUDA_BARE_H
#define TESTS_CUDA_BARE_H

/* The driver itself, by which a test sees what is in the memory of a GPU. */

#include "tests/support/cuda-fixture.h"

#include "cuda/driver.h"

static struct {
	const struct cuda_driver *cu;
	CUcontext ctx;
	CUstream stream;
} bare;

/* As cuda_begin(). */
static inline bool cuda_bare_find(void)
{
	const char *why;

	if (!cuda_begin())
		return false;
	bare.cu = cuda_driver(&why);
	if (bare.cu)
		cuda_say();
	else
		printf("1..0 # SKIP %s\n", why);
	return bare.cu;
}

static inline void cuda_bare_begin(void)
{
	assert_int_equal(bare.cu->ctx_retain(&bare.ctx, 0), 0);
	assert_int_equal(bare.cu->ctx_push(bare.ctx), 0);
	assert_int_equal(bare.cu->stream_create(&bare.stream,
						CU_STREAM_NON_BLOCKING), 0);
}

static inline void cuda_bare_end(void)
{
	assert_int_equal(bare.cu->stream_destroy(bare.stream), 0);
	assert_int_equal(bare.cu->ctx_pop(&bare.ctx), 0);
	assert_int_equal(bare.cu->ctx_release(0), 0);
}

/* Copy @len bytes of the GPU's at @addr to @buf or, with @put, from there. */
static inline void cuda_bare_see(uint64_t addr, char *buf, size_t len, bool put)
{
	uint64_t here = (uintptr_t)buf;

	assert_int_equal(bare.cu->copy(put ? addr : here, put ? here : addr, len,
				       bare.stream), 0);
	assert_int_equal(bare.cu->stream_sync(bare.stream), 0);
}

#endif /* TESTS_CUDA_BARE_H */
