/* SPDX-License-Identifier: BSD-3-Clause */

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/driver.h"

static struct cuda_driver driver;
static char missing[256];		/* "": it is there. */
static char reason[256];		/* "": it works. */
static atomic_bool in_child;

static void forked(void)
{
	atomic_store(&in_child, true);
}

static int find(void *library)
{
#define X(name, symbol, parameters)                                  \
	*(void **)&driver.name = dlsym(library, #symbol);             \
	if (!driver.name) {                                          \
		snprintf(missing, sizeof(missing),                     \
			 "the driver has no %s: install a newer one", \
			 #symbol);                                   \
		return -1;                                           \
	}
	CUDA_FUNCTIONS(X)
#undef X
#define X(name, symbol, parameters) \
	*(void **)&driver.name = dlsym(library, #symbol);
	CUDA_OPTIONAL(X)
#undef X
	return 0;
}

static const char *remedy(CUresult err)
{
	switch (err) {
	case CUDA_ERROR_NO_DEVICE:
		return "no device is visible: see nvidia-smi, and "
		       "CUDA_VISIBLE_DEVICES";
	case CUDA_ERROR_NOT_PERMITTED:
	case CUDA_ERROR_NOT_SUPPORTED:
		return "allow this process the device files /dev/nvidia*";
	default:
		return "see nvidia-smi, and the kernel's log";
	}
}

static void load(void)
{
	const char *name = getenv("WEIR_CUDA_LIBRARY");
	void *library;

	if (!name || !*name)
		name = "libcuda.so.1";
	library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(missing, sizeof(missing),
			 "%.150s cannot be loaded: install NVIDIA's driver",
			 name);
		return;
	}
	if (find(library)) {
		memset(&driver, 0, sizeof(driver));
		dlclose(library);
		return;
	}
	pthread_atfork(NULL, NULL, forked);
}

bool cuda_driver_is_there(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	return !*missing && !atomic_load(&in_child);
}

static void initialize(void)
{
	CUresult err;

	if (!cuda_driver_is_there()) {
		snprintf(reason, sizeof(reason), "%s", missing);
		return;
	}
	err = driver.init(0);
	if (err)
		snprintf(reason, sizeof(reason), "cuInit: %s: %s",
			 cuda_error(err), remedy(err));
}

const struct cuda_driver *cuda_driver(const char **why)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static const char child[] =
		"CUDA does not work in a child of fork(): call exec there";

	pthread_once(&once, initialize);
	if (!*reason && !atomic_load(&in_child))
		return &driver;
	*why = *reason ? reason : child;
	return NULL;
}

const char *cuda_error(CUresult err)
{
	const char *name = NULL;

	if (!driver.error_name || driver.error_name(err, &name) || !name)
		return "an unknown error";
	return name;
}

int cuda_errno(CUresult err)
{
	switch (err) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_INVALID_HANDLE:
		return -EINVAL;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return -ENOMEM;
	case CUDA_ERROR_NO_DEVICE:
	case CUDA_ERROR_INVALID_DEVICE:
	case CUDA_ERROR_NOT_INITIALIZED:
	case CUDA_ERROR_DEINITIALIZED:
	case CUDA_ERROR_INVALID_CONTEXT:
		return -ENODEV;
	case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
		return -EEXIST;
	case CUDA_ERROR_NOT_PERMITTED:
		return -EPERM;
	case CUDA_ERROR_NOT_SUPPORTED:
		return -EOPNOTSUPP;
	default:
		return -EIO;
	}
}
