/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The storm of test-chain-storm.c with the memory of a GPU among its places, by address
 * and by bufs.  It has libweir-cuda's files, because it makes calls fail inside.
 */

#include "tests/support/chain-storm.h"
#include "tests/support/cuda-bare.h"

static void chains_weather_a_storm_that_has_a_gpu(void **state)
{
	struct storm_far far = { .see = cuda_bare_see };
	unsigned int copies = count ? count(MOCK_CUDA_COPY) : 0;
	struct weir_device *dev;

	assert_int_equal(weir_device_open_name(&dev, "cuda0"), 0);
	assert_int_equal(weir_cuda_alloc(dev, &far.addr, STORM_BYTES), 0);
	far.domain = weir_cuda_domain(dev);
	assert_int_equal(weir_mmap_create(&far.m, NULL), 0);
	assert_int_equal(weir_mmap_set_domain(far.m, far.domain, far.addr,
					      STORM_BYTES), 0);
	assert_int_equal(weir_mmap_set_permissions(far.m, WEIR_MMAP_WRITE), 0);
	assert_int_equal(weir_mmap_add_device(far.m, dev), 0);
	assert_int_equal(weir_mmap_start(far.m), 0);
	cuda_bare_begin();

	chain_storm(state, &far);
	if (count)
		assert_true(count(MOCK_CUDA_COPY) > copies + 1000);

	cuda_bare_end();
	assert_int_equal(weir_mmap_destroy(far.m), 0);
	assert_int_equal(weir_cuda_free(dev, far.addr), 0);
	assert_int_equal(weir_device_close(dev), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(chains_weather_a_storm_that_has_a_gpu),
	};

	return cuda_bare_find() ? harness_run(cases, N_OF(cases)) : 0;
}
