/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive free list; the header has the states of a buffer. */

#include "reactor/rx.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/own.h"
#include "reactor/op-inline.h"

#include <weir/socket.h>

#define PAGE 4096

int rx_create(struct weir_reactor *r)
{
	struct rx_free_list *rx;

	reactor_check_thread(r);
	if (r->rx)
		return 0;
	rx = mem_calloc(1, sizeof(*rx));
	if (!rx)
		return -ENOMEM;
	rx->n = r->opts.rx_bufs;
	rx->size = r->opts.rx_buf_size;
	rx->mem = mem_aligned(PAGE, (size_t)rx->n * rx->size);
	rx->free = mem_calloc(rx->n, sizeof(*rx->free));
	rx->info = mem_calloc(rx->n, sizeof(*rx->info));
	r->rx = rx;
	if (!rx->mem || !rx->free || !rx->info) {
		rx->n = 0;
		rx_destroy(r);
		return -ENOMEM;
	}
	while (rx->n_free < rx->n) {
		own_release_in(rx_buf(rx, (int)rx->n_free), rx->size);
		rx->free[rx->n_free] = (uint16_t)rx->n_free;
		rx->n_free++;
	}
	return 0;
}

void rx_destroy(struct weir_reactor *r)
{
	struct rx_free_list *rx = r->rx;

	reactor_check_thread(r);
	if (!rx)
		return;
	for (uint32_t i = 0; i < rx->n; i++)
		if (!rx->info[i].out)
			own_acquire_in(rx_buf(rx, (int)i), rx->size, 0);
	free(rx->mem);
	free(rx->free);
	free(rx->info);
	free(rx);
	r->rx = NULL;
}

int rx_take(struct rx_free_list *rx)
{
	return rx->n_free ? rx->free[--rx->n_free] : -ENOBUFS;
}

void rx_out(struct rx_free_list *rx, int id, uint32_t len)
{
	rx->info[id].out = true;
	rx->info[id].len = len;
	own_acquire_in(rx_buf(rx, id), rx->size, len);
}

void rx_put(struct weir_reactor *r, int id)
{
	struct rx_free_list *rx = r->rx;

	reactor_check_thread(r);
	if (rx->info[id].out)
		own_release_in(rx_buf(rx, id), rx->size);
	rx->info[id].out = false;
	if (!rx->in_kernel)
		rx->free[rx->n_free++] = (uint16_t)id;
	r->backend->rx_returned(r, (unsigned int)id);
}

/* A pointer that is no such buffer, or is returned twice, is a bug of the
 * caller that ends the process. */
void weir_receiver_release(struct weir_reactor *r, void *data)
{
	struct rx_free_list *rx = r->rx;
	uint64_t at;

	reactor_check_thread(r);
	check(rx);
	at = (uint64_t)((char *)data - rx->mem);
	check(at / rx->size < rx->n && at % rx->size == 0);
	check(rx->info[at / rx->size].out);
	rx_put(r, (int)(at / rx->size));
	reactor_touch(r);
}
