/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CUDA_SHARE_H
#define CUDA_SHARE_H

/*
 * Memory of a GPU that other processes use: exports and imports.
 *
 * The driver maps an allocation into another process by a handle, and leaves it there
 * until that process closes it, whatever the exporter does.  So a page of memory is
 * shared beside it, in which each importer counts its jobs and sees that the export
 * was revoked:
 *
 *	importer				exporter
 *	jobs++					revoked = 1
 *	revoked? then refuse			jobs == 0? then nobody uses it
 *	copies, each after a look at revoked
 *	jobs--
 *
 * Each writes first and reads then, so one of them sees the other.  A place in the page
 * is its importer's while that holds a lock on the byte of its number, which the
 * kernel takes from a process that has ended.
 */

#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/cuda.h"

struct share_page;

/* An import.  Its domain has the range, and nothing else. */
struct cuda_import {
	struct cuda_device *device;
	struct weir_domain *domain;
	struct share_page *page;
	int fd;			/* Of the page; its description has the lock. */
	uint32_t place;
	uint64_t start;		/* Of the driver's mapping; 0: it is our own memory. */
};

/* Count a job that uses @import; -ESTALE, and it is not counted, if the exporter has
 * taken the memory back.  Any thread. */
int cuda_import_enter(struct cuda_import *import);
void cuda_import_leave(struct cuda_import *import);
bool cuda_import_is_stale(const struct cuda_import *import);

/* For the table of the provider. */
int cuda_share(struct cuda_device *device, uint64_t addr, uint64_t len,
	       void **share);
int cuda_share_end(void *share);
void cuda_share_describe(const void *share, struct weir_provider_desc *desc);
int cuda_import(struct cuda_device *device, const struct weir_provider_desc *desc,
		struct weir_provider_import *ret);
void cuda_import_end(struct cuda_import *import);

/* Whether memory at @addr is exported. */
bool cuda_is_shared(uint64_t addr);

#endif /* CUDA_SHARE_H */
