/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_RX_H
#define WEIR_REACTOR_RX_H

/*
 * A receive free list: buffers that a backend takes when data come, so that an
 * idle connection has none.  The receivers of a reactor share one (r->rx), but for those
 * that have their own; each UDP socket has its own.
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
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/provider.h"

struct source;
struct weir_reactor;

#define RX_BUFS_MAX 32768u
#define RX_BUF_MAX (1u << 20)

/* The state of a buffer. */
struct rx_info {
	uint32_t len;		/* Bytes in it. */
	int16_t next;		/* In a receiver's queue; -1: the last. */
	uint16_t place;		/* uring's: in the ring; */
	uint16_t behind;	/* and the one that the kernel takes next. */
	bool out;		/* Delivered, not returned. */
};

struct rx_free_list {
	struct source *source;	/* The only one that uses it; NULL: all. */
	char *mem;
	uint32_t n;		/* Buffers, a power of 2. */
	uint32_t size;		/* Bytes in each. */
	uint32_t n_free;	/* On the stack. */
	bool in_kernel;		/* The backend has them all: no stack. */
	uint16_t *free;		/* Stack of ids. */
	struct rx_info *info;

	/* uring's: the ring by which the kernel takes them. */
	void *ring;		/* NULL: none. */
	size_t ring_bytes;
	uint32_t left;		/* Buffers in it. */
	uint32_t last;		/* Of them, the last one. */
	uint16_t group;		/* Its number in the kernel. */
	bool tried;		/* Whether there can be one is known. */
};

/* A new one of @n buffers, a power of 2, of @size bytes.  0 or -ENOMEM. */
int rx_make(struct rx_free_list **ret, uint32_t n, uint32_t size);

/* Free it, when no request uses it any more.  NULL is allowed. */
void rx_end(struct weir_reactor *r, struct rx_free_list *rx);

/* Make r->rx if it is not there yet.  0 or -ENOMEM. */
int rx_create(struct weir_reactor *r);

static inline void *rx_buf(const struct rx_free_list *rx, int id)
{
	return rx->mem + (uint64_t)id * rx->size;
}

/* Take a buffer off the stack: its id, or -ENOBUFS. */
int rx_take(struct rx_free_list *rx) PROVIDER_API(rx_take);

/* Buffer @id goes to a callee, or waits for it, with @len bytes in it. */
void rx_out(struct rx_free_list *rx, int id, uint32_t len)
	PROVIDER_API(rx_out);

/* Give back buffer @id, out or not: to the stack, and to the backend. */
void rx_put(struct weir_reactor *r, struct rx_free_list *rx, int id)
	PROVIDER_API(rx_put);

/* The id of the buffer that @data is in, which is out; a pointer that is none
 * of @rx, or was returned already, is a bug of the caller that ends the process. */
int rx_id_of(const struct rx_free_list *rx, const void *data);

/* Buffers that wait to be handed out, linked by their info. */
struct rx_queue {
	int first, last;	/* -1: empty. */
};

static inline void rx_queue_init(struct rx_queue *q)
{
	q->first = -1;
}

static inline bool rx_queue_empty(const struct rx_queue *q)
{
	return q->first < 0;
}

static inline void rx_queue_push(struct rx_free_list *rx, struct rx_queue *q,
				 int id)
{
	rx->info[id].next = -1;
	if (q->first < 0)
		q->first = id;
	else
		rx->info[q->last].next = (int16_t)id;
	q->last = id;
}

static inline int rx_queue_pop(const struct rx_free_list *rx,
			       struct rx_queue *q)
{
	int id = q->first;

	q->first = rx->info[id].next;
	return id;
}

/*
 * Datagrams: the kernel puts this before each, in the same buffer, as does what
 * takes its place.  It is struct io_uring_recvmsg_out, for a message with
 * RX_NAME and RX_CONTROL bytes for the address and the ancillary data.
 */
#define RX_NAME 32		/* A struct sockaddr_in6, and 4 of padding. */
#define RX_CONTROL 128
#define RX_HEAD ((uint32_t)sizeof(struct rx_head))

struct rx_head {
	uint32_t namelen;
	uint32_t controllen;
	uint32_t payloadlen;
	uint32_t flags;		/* MSG_ */
	char name[RX_NAME];
	_Alignas(8) char control[RX_CONTROL];
};

/* Write ancillary data at @at, and return the bytes that they take. */
static inline size_t rx_put_control(void *at, int level, int type,
				    const void *data, size_t len)
{
	struct cmsghdr *c = at;

	memset(c, 0, CMSG_SPACE(len));
	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), data, len);
	return CMSG_SPACE(len);
}

#define RX_BATCH 64u		/* Datagrams of one system call. */

/*
 * For backends, when the SOURCE_DATAGRAM @s is readable: take what is there with one
 * system call, at most @max and RX_BATCH, and deliver it.  @s must be engaged, so that
 * it may be destroyed meanwhile.  Returns how many there were, or a negative errno,
 * with -EAGAIN if there is nothing and -ENOBUFS if there is no buffer.
 */
int rx_take_datagrams(struct source *s, unsigned int max);

/* Whether @err is of an earlier datagram or of the network, and the socket goes
 * on. */
bool rx_error_passes(int64_t err) PROVIDER_API(rx_error_passes);

#endif /* WEIR_REACTOR_RX_H */
