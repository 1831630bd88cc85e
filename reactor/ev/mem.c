/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libev must not end the process.  It calls abort() when its allocator returns
 * NULL, and when epoll fails and no callback is set for that.
 *
 * Its arrays grow in calls that cannot fail (ev_io_start(), ev_run()).  So each
 * loop has a reserve: blocks of one size, which holds any array of libev's as
 * long as descriptors are below b->n_fds.  Our allocator gives libev one of
 * these for each array.  An array that has a block never needs another until
 * b->n_fds grows, which ev_reserve() does, and may refuse.  So nothing below
 * n_fds allocates.
 *
 * libev has one allocator for the process, and no call that returns the present
 * one.  Ours is set once; on a thread that is not inside a call of ours it does
 * what libev does by itself, and all that it returns comes from malloc(), so a
 * program can replace it at any time.
 */

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "reactor/ev/ev.h"
#include "reactor/group/spsc.h"

/*
 * Blocks that libev may take: for its table of descriptors, the changes, what
 * is pending, epoll's events, files that epoll refuses; and at the beginning
 * the loop itself, prepare and fork watchers.
 */
#define EV_BLOCKS 8

/* Bytes of a block.  libev needs at most 16 for each descriptor, and up to
 * twice as many items as it has asked for; its epoll set, made by itself, may
 * have a number above all others. */
#define BLOCK_SIZE(n_fds) (64 * (size_t)(n_fds) + 8192)

struct ev_block {
	struct ev_block *next;
};

/* The backend that is calling libev on this thread. */
static _Thread_local struct ev_backend *here RINGS_TLS;

/* As libev itself: what is not ours. */
static void *alloc_plain(void *p, size_t size)
{
	if (size)
		return realloc(p, size);
	free(p);
	return NULL;
}

static void give_block(struct ev_backend *b, void *p, size_t size)
{
	struct ev_block *block = p;

	if (size < b->block_size) {
		free(p);
		return;
	}
	block->next = b->blocks;
	b->blocks = block;
}

static void *alloc(void *p, long want)
{
	struct ev_backend *b = here;
	size_t had, size = (size_t)want;
	struct ev_block *block;

	if (!b)
		return alloc_plain(p, size);
	had = p ? malloc_usable_size(p) : 0;
	if (size && size <= had)
		return p;
	if (!size) {
		if (p)
			give_block(b, p, had);
		return NULL;
	}
	block = b->blocks;
	debug_check(block && size <= b->block_size);
	if (!block || size > b->block_size)
		return alloc_plain(p, size);
	b->blocks = block->next;
	if (p) {
		memcpy(block, p, had);
		give_block(b, p, had);
	}
	return block;
}

/*
 * libev goes on when this returns: after epoll_wait() as if nothing were ready,
 * but after epoll_create() it tries again, for ever.
 */
static void on_error(const char *what)
{
	struct ev_backend *b = here;

	if (!b) {
		perror(what);
		abort();	/* As libev itself. */
	}
	b->err = errno ? -errno : -EIO;
	if (!strstr(what, "epoll_wait"))
		longjmp(b->give_up, 1);
}

static void set_hooks(void)
{
	ev_set_allocator(alloc);
	ev_set_syserr_cb(on_error);
}

void ev_enter(struct ev_backend *b)
{
	here = b;
}

void ev_leave(void)
{
	here = NULL;
}

static void free_blocks(struct ev_block *block)
{
	struct ev_block *next;

	for (; block; block = next) {
		next = block->next;
		free(block);
	}
}

void ev_reserve_free(struct ev_backend *b)
{
	free_blocks(b->blocks);
	b->blocks = NULL;
}

static int fill(struct ev_backend *b, uint32_t n_fds)
{
	struct ev_block *made = NULL, *block;
	int i;

	for (i = 0; i < EV_BLOCKS; i++) {
		block = fault("malloc") ? NULL : malloc(BLOCK_SIZE(n_fds));
		if (!block) {
			free_blocks(made);
			return -ENOMEM;
		}
		block->next = made;
		made = block;
	}
	free_blocks(b->blocks);
	b->blocks = made;
	b->block_size = BLOCK_SIZE(n_fds);
	return 0;
}

int ev_reserve(struct ev_backend *b, uint32_t n_fds)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint32_t n = EV_FD_CHUNK;

	pthread_once(&once, set_hooks);
	while (n < n_fds)
		n *= 2;
	if (n <= b->n_fds)
		return 0;
	if (fill(b, n))
		return -ENOMEM;
	b->n_fds = n;
	return 0;
}
