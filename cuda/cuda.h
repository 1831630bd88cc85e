/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H

/* Between the device and the engine. */

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/cuda/device.h>
#include <weir/engine.h>
#include <weir/provider.h>

#include "cuda/driver.h"

#define CUDA_DEVICES_MAX 16	/* In this system. */
#define CUDA_SPACES_MAX 256	/* Open devices and imports. */

struct cuda_import;
struct engine;

struct cuda_device {
	const struct cuda_driver *driver;
	_Atomic(struct weir_device *) dev; /* NULL: closed, but it is in use. */
	struct weir_domain *domain;
	CUcontext ctx;
	CUdevice number;
	atomic_uint refs;	/* Of its opening, and of engines. */
	atomic_int lost;	/* The driver's error that has ended it; 0: none. */
	_Atomic(struct engine *) kept;	/* Engines that end with the context. */
};

/* Memory that the driver knows; .len is 0 if it does not. */
struct cuda_range {
	uint64_t start;
	uint64_t len;
	bool is_host;
	int device;
};

/* Counts what was freed: a range that was looked up before may be gone. */
extern _Atomic uint64_t cuda_frees;

extern const struct weir_engine_ops cuda_engine_ops;
int cuda_engine_open(void *arg, struct weir_reactor *r, void **engine);
void cuda_engine_close(void *engine);
void cuda_engines_free(struct engine *first);

/* A domain of this library: all of a device, or an import.  It is valid while @domain
 * is used. */
struct cuda_space {
	_Atomic(struct weir_domain *) domain;
	struct cuda_device *device;	/* NULL: the place is free. */
	struct cuda_import *import;	/* NULL: all of it. */
	_Atomic uint64_t start;		/* Of its mapping; 0: none. */
};

/* The space of @domain, or NULL: it is none of this library's.  Any thread, never
 * blocks. */
const struct cuda_space *cuda_space_of(const struct weir_domain *domain);

/* Whether the driver maps memory of another process at @start.  Any thread. */
bool cuda_is_imported(uint64_t start);

/* Make a domain; @len is 0 for all of @device.  Returns 0, or a negative errno with a
 * message. */
int cuda_space_add(struct weir_domain **ret, struct cuda_device *device,
		   struct cuda_import *import, uint64_t addr, uint64_t len,
		   bool is_read_only);

/* Destroy it.  -EBUSY: it is in use, and stays. */
int cuda_space_del(struct weir_domain *domain);

/* An engine may outlive the opening of a device that it has used. */
void cuda_ref(struct cuda_device *device);
void cuda_unref(struct cuda_device *device);

/* Makes the context of @device current, until cuda_leave(). */
CUresult cuda_enter(const struct cuda_device *device);
void cuda_leave(const struct cuda_device *device);

/* Whether weir_cuda_alloc() has returned @addr, and it was not freed. */
bool cuda_has_allocated(uint64_t addr);

/* Looks @addr up.  The device's context is current. */
struct cuda_range cuda_look_up(const struct cuda_device *device, uint64_t addr);

/* @err of a call for @what, as an errno with its message, which begins with @call. */
int cuda_failed(struct cuda_device *device, const char *call, const char *what,
		CUresult err);

/* After @err the context of @device is of no use any more. */
bool cuda_is_fatal(CUresult err);
void cuda_lose(struct cuda_device *device, CUresult err);

/* Keeps @engine, whose @next is linked to others, until the context of @device ends. */
void cuda_keep(struct cuda_device *device, struct engine *engine,
	       struct engine **next);

#endif /* CUDA_CUDA_H */
