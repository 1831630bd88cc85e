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
 *	if revoked: refuse			if jobs == 0: it is unused
 *	copy, and look at revoked before each slice
 *	jobs--
 *
 * Each writes first and reads then, so one of them sees the other.
 *
 * A place in the page is its importer's while that holds a lock on the byte of its
 * number.  The kernel closes the files of a process that is killed one by one, the
 * driver's before or after the page, so a free lock does not say that the driver has
 * ended the last copies: the end of the process does.  A child of fork() that has not
 * called exec() has the driver's files and the lock, so that counts, too.  When such a
 * child is killed with the process, the lock may be the first of its files to go.
 */

#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/cuda.h"

#define CUDA_PLACES 63u
#define CUDA_PAGE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define CUDA_SAID_VERSION 1u

struct cuda_place {
	_Atomic uint32_t jobs;
	_Atomic int32_t pid;
	_Atomic int64_t began;		/* So many ticks after the exporter: the same in
					 * all time namespaces, but for rounding. */
	uint64_t reserved[6];
};

struct cuda_page {
	uint64_t nonce[2];		/* Also in the descriptor. */
	_Atomic uint32_t revoked;
	uint32_t reserved0;
	uint64_t reserved[5];
	struct cuda_place places[CUDA_PLACES];
};

_Static_assert(sizeof(struct cuda_page) == 4096, "a page");

/* What a descriptor says; exporter and importer are on one machine. */
struct cuda_said {
	uint32_t version;
	int32_t pid;			/* The exporter's, */
	int32_t fd;			/* and of the page, there. */
	uint32_t reserved;
	uint64_t nonce[2];
	char gpu[CUDA_UUID];
	CUipcMemHandle handle;
};

_Static_assert(sizeof(struct cuda_said) <= WEIR_PROVIDER_DESC_MAX, "it fits");

/* An import.  Its domain has the range, and nothing else. */
struct cuda_import {
	struct cuda_import *next;	/* Of those that wait for their end. */
	struct cuda_device *device;
	struct weir_domain *domain;
	struct cuda_page *page;
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
/* -EINPROGRESS: importers have copies in flight; ask again. */
int cuda_share_end(void *share);
void cuda_share_describe(const void *share, struct weir_provider_desc *desc);
int cuda_import(struct cuda_device *device, const struct weir_provider_desc *desc,
		struct weir_provider_import *ret);
void cuda_import_end(struct cuda_import *import);

/* End imports whose domain was in use at their end, as the end of another does. */
void cuda_imports_retry(void);

/* Whether memory at @addr is exported. */
bool cuda_is_shared(uint64_t addr);

#endif /* CUDA_SHARE_H */
