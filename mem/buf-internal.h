/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_BUF_INTERNAL_H
#define WEIR_MEM_BUF_INTERNAL_H

/*
 * A buf, and the free list it is returned to.
 *
 *	FREE    in its free list's list, by next
 *	HEAD    out; refs >= 1; the list hangs on it by next, last is its end
 *	MEMBER  out, in a list whose head has the references
 *
 * References are counted on the owner, the thread of the free list's reactor.
 * A put on another thread increments .puts.  The thread that increments it from
 * 0 pushes the buf on the free list's stack of returned bufs; the owner
 * subtracts .puts from the references.
 */

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/buf.h>

#include "base/check.h"
#include "mem/mmap-internal.h"
#include "reactor/group/deferred.h"
#include "reactor/reactor-internal.h"

enum buf_state {
	BUF_FREE,
	BUF_HEAD,
	BUF_MEMBER,
};

struct weir_buf {
	char *data;
	size_t data_len;
	char *addr;
	size_t len;
	struct weir_buf *next;
	struct weir_buf *last;	/* Of the list; valid in its head. */
	struct mmap_use *use;
	struct buf_free_list *free_list;
	int32_t index;		/* Registered buffer, plus 1; 0: none. */
	uint16_t refs;
	uint8_t state;		/* enum buf_state */
	uint8_t writing;	/* In a head: a job fills the list. */
	uint32_t readers;	/* In a head: jobs that read the list. */
	uint32_t slab;		/* Of a pool's buf: the slab of its class. */
	/* By other threads, not yet subtracted from refs. */
	atomic_uint puts;
	struct weir_buf *behind; /* The next that is being returned. */
	/* Its holder, set by the user; NULL: unset. */
	_Atomic(const char *) tag;
} __attribute__((aligned(64)));

/* The free descriptors of an inventory or a pool.  A stack, because the buf
 * that was returned last is still in the processor's cache. */
struct buf_free_list {
	/* Of .r, as thread_here() returns it there; NULL: .r is in a simulated
	 * world, which must be queried. */
	const void *thread;
	struct weir_reactor *r;
	struct weir_buf *free;
	uint64_t n_free;
	uint64_t total;

	/* Takes a returned buf, which is FREE but not in the list.  NULL: put
	 * it there. */
	void (*returned)(struct buf_free_list *free_list, struct weir_buf *buf);

	/* From other threads. */
	_Atomic(struct weir_buf *) arrivals;
	atomic_uint senders;	/* Threads that are sending now. */
	struct deferred deferred;
};

/* A value that is unique to this thread: pthread_self(), without the call where
 * the compiler allows it, because every put compares it. */
static inline const void *thread_here(void)
{
#if defined(__has_builtin)
#if __has_builtin(__builtin_thread_pointer)
	return __builtin_thread_pointer();
#else
	return (const void *)pthread_self();
#endif
#else
	return (const void *)pthread_self();
#endif
}

/* On @r's thread. */
void free_list_init(struct buf_free_list *free_list, struct weir_reactor *r);

/* On the owner: process returned bufs without waiting for the deferred call. */
void free_list_collect(struct buf_free_list *free_list);

/* On the owner, when all bufs are back: wait until the thread that returned the
 * last one has left the free list. */
void free_list_fini(struct buf_free_list *free_list);

/* Allocate @n descriptors of @free_list in one piece, zeroed; free() frees
 * them. */
struct weir_buf *free_list_alloc_bufs(struct buf_free_list *free_list,
				      size_t n);

/* Whether this is the thread of the free list's reactor. */
static inline bool free_list_is_here(const struct buf_free_list *free_list)
{
	return free_list->thread == thread_here();
}

/*
 * Whether @buf is on its owner @r, where jobs take references, set marks and
 * use its registered buffer.  Elsewhere a job relies on the holder's reference.
 */
static inline bool buf_is_owned_by(const struct weir_buf *buf,
				   const struct weir_reactor *r)
{
	return buf->free_list->r == r;
}

static inline void free_list_push(struct buf_free_list *free_list,
				  struct weir_buf *buf)
{
	buf->next = free_list->free;
	free_list->free = buf;
	free_list->n_free++;
}

/* FREE -> HEAD, counted as out. */
static inline void buf_out(struct weir_buf *buf)
{
	buf->refs = 1;
	buf->state = BUF_HEAD;
	/* Already 0; written so that the compiler merges three stores
	 * into one. */
	buf->writing = 0;
	buf->next = NULL;
	buf->last = buf;
	atomic_store_explicit(&buf->tag, NULL, memory_order_relaxed);
	mmap_use_count(buf->use, 1);
}

/* The first of the free list, which is not empty; still FREE. */
static inline struct weir_buf *free_list_pop(struct buf_free_list *free_list)
{
	struct weir_buf *buf = free_list->free;

	free_list->free = buf->next;
	free_list->n_free--;
	return buf;
}

/* weir_buf_put() on the owner; the reference is seldom the last one. */
static inline void buf_put_on_owner(struct weir_buf *buf)
{
	if (likely(buf->refs > 1))
		buf->refs--;
	else
		weir_buf_put(buf);
}

static inline size_t buf_tailroom(const struct weir_buf *buf)
{
	return buf->len - (size_t)(buf->data - buf->addr) - buf->data_len;
}

#endif /* WEIR_MEM_BUF_INTERNAL_H */
