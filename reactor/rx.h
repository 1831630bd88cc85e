/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_RX_H
#define WEIR_REACTOR_RX_H

/*
 * The receive free list: buffers that all receivers of a reactor share.  The
 * backend takes them when data come, so an idle connection has none.
 *
 *	IN_FREE_LIST --> (rx_take(), or the kernel) --> delivered --> OUT, with the
 *	    ^                                                     callee, or kept
 *	    +---------------- rx_put() ------------------------- by a receiver
 *
 * On uring they are in a provided-buffer ring, and the kernel takes them; on
 * ev, and on kernels without such rings, rx_take() does.  A buffer in the free
 * list may not be touched: it is released, in the terms of base/own.h.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/provider.h"

struct weir_reactor;

/* The state of a buffer. */
struct rx_info {
	uint32_t len;		/* Bytes in it. */
	int16_t next;		/* In a receiver's queue; -1: the last. */
	bool out;		/* Delivered, not returned. */
};

struct rx_free_list {
	char *mem;
	uint32_t n;		/* Buffers, a power of 2. */
	uint32_t size;		/* Bytes in each. */
	uint32_t n_free;	/* On the stack. */
	bool in_kernel;		/* The backend has them all: no stack. */
	uint16_t *free;		/* Stack of ids. */
	struct rx_info *info;
};

/* Make r->rx if it is not there yet.  0 or -ENOMEM. */
int rx_create(struct weir_reactor *r);
void rx_destroy(struct weir_reactor *r);

static inline void *rx_buf(const struct rx_free_list *rx, int id)
{
	return rx->mem + (uint64_t)id * rx->size;
}

/* Take a buffer off the stack: its id, or -ENOBUFS. */
int rx_take(struct rx_free_list *rx) PROVIDER_API(rx_take);

/* Buffer @id goes to a callee, or waits for it, with @len bytes in it. */
void rx_out(struct rx_free_list *rx, int id, uint32_t len);

/* Give back buffer @id, out or not: to the stack, and to the backend. */
void rx_put(struct weir_reactor *r, int id) PROVIDER_API(rx_put);

#endif /* WEIR_REACTOR_RX_H */
