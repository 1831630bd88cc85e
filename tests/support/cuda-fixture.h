/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_CUDA_FIXTURE_H
#define TESTS_CUDA_FIXTURE_H

/* The driver of the tests of libweir-cuda: libcuda.so.1 or whatever else
 * WEIR_CUDA_LIBRARY names, or else the mock.  The output says which. */

#include "tests/support/job-fixture.h"

#include <dlfcn.h>
#include <limits.h>

#include <weir/cuda/device.h>
#include <weir/device.h>

#include "tests/support/mock-cuda.h"

static void (*hold)(int hold);		/* NULL: a real device. */
static void (*break_it)(int err);
static void (*refuse)(int call, unsigned int after, int err);
static unsigned int (*count)(int call);

/* Whether there is one; or else the tests are skipped. */
static inline bool cuda_begin(void)
{
	const char *given = getenv("WEIR_CUDA_LIBRARY");
	struct weir_device *dev;
	char path[PATH_MAX];
	void *driver;

	if (!given && !realpath("tests/.libs/mock-cuda.so", path)) {
		printf("1..0 # SKIP there is no mock, and WEIR_CUDA_LIBRARY names "
		       "no driver\n");
		return false;
	}
	if (!given)
		setenv("WEIR_CUDA_LIBRARY", path, 1);
	driver = dlopen(getenv("WEIR_CUDA_LIBRARY"), RTLD_NOW);
	if (driver) {
		hold = (void (*)(int))dlsym(driver, "mock_cuda_hold");
		break_it = (void (*)(int))dlsym(driver, "mock_cuda_break");
		refuse = (void (*)(int, unsigned int, int))dlsym(
			driver, "mock_cuda_refuse");
		count = (unsigned int (*)(int))dlsym(driver, "mock_cuda_count");
	}
	/* A real driver opens files at its first use, and keeps them. */
	if (!weir_device_open_name(&dev, "cuda0"))
		weir_device_close(dev);
	return true;
}

static inline void cuda_say(void)
{
	printf("# %s\n", hold ? "over the mock" : "over a real driver");
}

#endif /* TESTS_CUDA_FIXTURE_H */
