/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive free list as a ring of provided buffers: the kernel takes one
 * when data come, so a receiver that waits has none.
 */

#include <sys/mman.h>

#include "base/fault.h"
#include "reactor/rx.h"
#include "reactor/uring/uring.h"

#define RX_GROUP 0		/* The only group of buffers. */

static size_t ring_bytes(const struct rx_free_list *rx)
{
	return (size_t)rx->n * sizeof(struct io_uring_buf);
}

static void provide(struct uring *u, uint32_t id, int place)
{
	struct rx_free_list *rx = u->r->rx;

	io_uring_buf_ring_add(u->rx_ring, rx_buf(rx, (int)id), rx->size,
			      (uint16_t)id, (int)rx->n - 1, place);
}

/* The kernel requires the ring in pages of its own, so it is not on the
 * heap. */
void uring_rx_setup(struct uring *u)
{
	struct rx_free_list *rx = u->r->rx;
	struct io_uring_buf_reg reg = { .ring_entries = rx->n };
	uint32_t i;
	void *p;

	reactor_check_thread(u->r);
	u->rx_tried = true;
	/* Buffers that are in use now could not be told from those in the
	 * ring. */
	if (rx->n_free != rx->n || fault("mmap"))
		return;
	p = mmap(NULL, ring_bytes(rx), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return;
	reg.ring_addr = (uintptr_t)p;
	reg.bgid = RX_GROUP;
	if (fault("io_uring_register") ||
	    io_uring_register_buf_ring(&u->ring, &reg, 0)) {
		munmap(p, ring_bytes(rx));
		return;
	}
	rx->in_kernel = true;
	rx->n_free = 0;
	u->rx_ring = p;
	u->rx_left = rx->n;
	u->rx_bytes = ring_bytes(rx);
	io_uring_buf_ring_init(u->rx_ring);
	for (i = 0; i < rx->n; i++)
		provide(u, i, (int)i);
	io_uring_buf_ring_advance(u->rx_ring, (int)rx->n);
}

void uring_rx_fini(struct uring *u)
{
	reactor_check_thread(u->r);
	if (!u->rx_ring)
		return;
	io_uring_unregister_buf_ring(&u->ring, RX_GROUP);
	munmap(u->rx_ring, u->rx_bytes);
	u->rx_ring = NULL;
}

/* Starving receivers are fed in the next turn, or before the next sleep. */
void uring_rx_returned(struct weir_reactor *r, unsigned int id)
{
	struct uring *u = uring_of(r);

	reactor_check_thread(r);
	if (!u->rx_ring)
		return;
	u->rx_left++;
	provide(u, id, 0);
	io_uring_buf_ring_advance(u->rx_ring, 1);
}
