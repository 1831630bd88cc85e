/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive free lists as rings of provided buffers: the kernel takes a buffer when
 * data come, so a receiver that waits has none.
 */

#include <sys/mman.h>

#include "base/fault.h"
#include "reactor/rx.h"
#include "reactor/uring/uring.h"

static void provide(struct rx_free_list *rx, uint32_t id, int place)
{
	struct io_uring_buf_ring *ring = rx->ring;

	rx->info[rx->last].behind = (uint16_t)id;
	rx->last = id;
	rx->info[id].place = (uint16_t)((ring->tail + (uint32_t)place) & (rx->n - 1));
	io_uring_buf_ring_add(ring, rx_buf(rx, (int)id), rx->size,
			      (uint16_t)id, (int)rx->n - 1, place);
}

uint32_t uring_rx_len(const struct rx_free_list *rx, int id)
{
	const struct io_uring_buf_ring *ring = rx->ring;
	const struct io_uring_buf *buf = &ring->bufs[rx->info[id].place];

	return buf->bid == id ? buf->len : rx->size;
}

/* Numbers go round, so the next one may be in use: but not more than there are
 * rings. */
static int register_ring(struct uring *u, struct io_uring_buf_reg *reg)
{
	int err = -EEXIST;

	for (uint32_t n = 0; n <= u->n_rx_rings && err == -EEXIST; n++) {
		reg->bgid = ++u->rx_group;
		err = fault("io_uring_register") ?
			      -ENOMEM :
			      io_uring_register_buf_ring(&u->ring, reg, 0);
	}
	return err;
}

/* The kernel requires the ring in pages of its own, so it is not on the
 * heap. */
void uring_rx_setup(struct uring *u, struct rx_free_list *rx)
{
	struct io_uring_buf_reg reg = { .ring_entries = rx->n };
	uint32_t i;
	void *p;

	reactor_check_thread(u->r);
	rx->tried = true;
	rx->ring_bytes = (size_t)rx->n * sizeof(struct io_uring_buf);
	/* Buffers that are in use now could not be told from those in the
	 * ring. */
	if (rx->n_free != rx->n || fault("mmap"))
		return;
	p = mmap(NULL, rx->ring_bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return;
	reg.ring_addr = (uintptr_t)p;
	if (register_ring(u, &reg)) {
		munmap(p, rx->ring_bytes);
		return;
	}
	u->n_rx_rings++;
	rx->group = reg.bgid;
	rx->in_kernel = true;
	rx->n_free = 0;
	rx->ring = p;
	rx->left = rx->n;
	io_uring_buf_ring_init(rx->ring);
	for (i = 0; i < rx->n; i++)
		provide(rx, i, (int)i);
	io_uring_buf_ring_advance(rx->ring, (int)rx->n);
}

/* Those that are not out were the ring's. */
void uring_rx_end(struct weir_reactor *r, struct rx_free_list *rx)
{
	struct uring *u = uring_of(r);

	reactor_check_thread(r);
	if (!rx->ring)
		return;
	io_uring_unregister_buf_ring(&u->ring, rx->group);
	u->n_rx_rings--;
	munmap(rx->ring, rx->ring_bytes);
	rx->ring = NULL;
	rx->in_kernel = false;
	for (uint32_t i = 0; i < rx->n; i++)
		if (!rx->info[i].out)
			rx->free[rx->n_free++] = (uint16_t)i;
}

/* Starving receivers are fed in the next turn, or before the next sleep; the only
 * source of a list now, if it has no request. */
void uring_rx_returned(struct weir_reactor *r, struct rx_free_list *rx,
		       unsigned int id)
{
	reactor_check_thread(r);
	if (rx->ring) {
		rx->left++;
		provide(rx, id, 0);
		io_uring_buf_ring_advance(rx->ring, 1);
	}
	if (rx->source && rx->source->armed)
		uring_arm(r, rx->source);
}
