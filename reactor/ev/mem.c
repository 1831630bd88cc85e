/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keep libev from ending the process.  libev calls abort() when its allocator
 * returns NULL, and when epoll fails and no callback is set for that.
 *
 * libev's arrays grow in calls that cannot fail (ev_io_start(), ev_run()).  So
 * each loop has a reserve of blocks of one size, each large enough for any
 * array of libev's as long as all descriptors are below b->n_fds.  Our
 * allocator gives libev one of these blocks for each array.  An array that has
 * a block needs no other until ev_reserve() makes b->n_fds larger, and
 * ev_reserve() may fail.  So for descriptors below n_fds libev allocates
 * nothing.
 *
 * libev has one allocator for the process, and no call that returns the present
 * one.  Ours is set once.  On a thread that is not inside a call of ours it
 * does what libev does by default, and all that it returns comes from malloc(),
 * so a program can replace it at any time.
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

/* Bytes of a block.  libev needs at most 16 for each descriptor, and allocates
 * up to twice as many items as it needs; its epoll set, which it opens itself,
 * may have a number above all others. */
#define BLOCK_SIZE(n_fds) (64 * (size_t)(n_fds) + 8192)

struct ev_block {
	struct ev_block *next;
};

/* The backend that is calling libev on this thread. */
static _Thread_local struct ev_backend *here RINGS_TLS;

/* What libev does by default, for memory that is not ours. */
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
 * If this returned, libev would continue: after epoll_wait() as if nothing were
 * ready, but after epoll_create() it would try again, for ever.
 */
static void on_error(const char *what)
{
	struct ev_backend *b = here;

	if (!b) {
		perror(what);
		abort();	/* What libev does by default. */
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
