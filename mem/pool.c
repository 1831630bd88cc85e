/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/*
 * Pools: a stock of bufs, each with memory of its own, and those who wait.
 *
 * Waiters exist only while nothing is free: a buffer that comes back is handed
 * over at once, not when the waiter's callback runs.  In between a newcomer
 * would find it free and overtake.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/pool.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/buf-internal.h"
#include "mem/pages.h"
#include "reactor/op-inline.h"

#define BUFS_DEFAULT 64
#define BUFS_MAX (1u << 24)
#define BUF_SIZE_DEFAULT ((size_t)64 << 10)
#define ALIGN_DEFAULT ((size_t)4096)
#define ALIGN_MAX ((size_t)1 << 30)
#define PAGE ((size_t)4096)

struct weir_pool {
	struct buf_stock stock;
	struct op_queue waiters;
	uint64_t n_waiting;
	uint32_t waiters_max;	/* 0: no limit. */
	size_t buf_size;
	uint64_t gets;
	uint64_t empty;
	struct mmap_link link;
	struct weir_mmap *mmap;
	bool own_mmap;
	bool huge;
	struct weir_buf *bufs;
	struct reactor_obj obj;
};

static int load_opts(struct weir_pool_opts *opts,
		     const struct weir_pool_opts *user)
{
	int err = opts_load(opts, sizeof(*opts), user, "weir_pool_create");

	if (err)
		return err;
	if (!opts->buf_size)
		opts->buf_size = BUF_SIZE_DEFAULT;
	if (!opts->align)
		opts->align = ALIGN_DEFAULT;
	if (!opts->bufs && !opts->mmap)
		opts->bufs = BUFS_DEFAULT;
	if (opts->reserved)
		return why(-E2BIG, "weir_pool_create: .reserved is unknown to "
			   "this version");
	if (opts->flags & ~(WEIR_POOL_NO_REGISTER | WEIR_POOL_NO_HUGE))
		return why(-EINVAL, "weir_pool_create: unknown .flags %x",
			   opts->flags);
	if (opts->align & (opts->align - 1) || opts->align > ALIGN_MAX)
		return why(-EINVAL, "weir_pool_create: .align %zu is no power "
			   "of 2 up to 1 GiB", opts->align);
	if (opts->bufs > BUFS_MAX || opts->buf_size > PTRDIFF_MAX / 2 ||
	    (opts->bufs && opts->buf_size + opts->align >
				   PTRDIFF_MAX / 2 / opts->bufs))
		return why(-EINVAL, "weir_pool_create: %u buffers of %zu bytes "
			   "are too much", opts->bufs, opts->buf_size);
	return 0;
}

static size_t stride(const struct weir_pool_opts *opts)
{
	return (opts->buf_size + opts->align - 1) & ~(opts->align - 1);
}

static void free_pages(void *addr, size_t len, void *arg)
{
	(void)arg;
	pages_free(addr, len);
}

/* An mmap over memory of the pool's own. */
static int make_mmap(struct weir_pool *pool, const struct weir_pool_opts *opts)
{
	size_t align = opts->align < PAGE ? PAGE : opts->align;
	size_t len = (stride(opts) * opts->bufs + PAGE - 1) & ~(PAGE - 1);
	void *mem;
	int err;

	err = weir_mmap_create(&pool->mmap, NULL);
	if (err)
		return err;
	pool->own_mmap = true;
	pool->huge = !(opts->flags & WEIR_POOL_NO_HUGE);
	mem = pages_alloc(len, align, &pool->huge);
	if (!mem)
		return why(-ENOMEM, "weir_pool_create: no %zu bytes of memory "
			   "for %u buffers", len, opts->bufs);
	weir_mmap_set_memrange(pool->mmap, mem, len);
	weir_mmap_set_permissions(pool->mmap, WEIR_MMAP_WRITE);
	weir_mmap_set_free_cb(pool->mmap, free_pages, NULL);
	return weir_mmap_start(pool->mmap);
}

/* Check the mmap that was given in, and how many buffers it has room for. */
static int take_mmap(struct weir_pool *pool, struct weir_pool_opts *opts)
{
	struct weir_mmap *mmap = opts->mmap;
	size_t skip = (size_t)-(uintptr_t)mmap->addr & (opts->align - 1);
	size_t room, fit = 0;

	if (weir_mmap_state(mmap) != WEIR_MMAP_STARTED)
		return why(-EBADFD, "weir_pool_create: .mmap is not started");
	if (!(mmap->permissions & WEIR_MMAP_WRITE))
		return why(-EINVAL, "weir_pool_create: .mmap is not writable");
	room = mmap->len > skip ? mmap->len - skip : 0;
	if (room >= opts->buf_size)
		fit = (room - opts->buf_size) / stride(opts) + 1;
	if (!opts->bufs)
		opts->bufs = fit > BUFS_MAX ? BUFS_MAX : (uint32_t)fit;
	if (!fit || fit < opts->bufs)
		return why(-ERANGE, "weir_pool_create: .mmap has room for %zu "
			   "buffers of %zu bytes", fit, opts->buf_size);
	pool->mmap = mmap;
	return 0;
}

/* Serve the first who waits, or keep it. */
static void returned(struct buf_stock *stock, struct weir_buf *buf)
{
	struct weir_pool *pool = weir_container_of(stock, struct weir_pool,
						   stock);
	struct weir_op *op = op_queue_pop(&pool->waiters);

	if (!op) {
		stock_push(stock, buf);
		return;
	}
	pool->n_waiting--;
	pool->gets++;
	buf->data = buf->addr;
	buf->data_len = 0;
	buf_out(buf);
	op->u.words[0] = (uintptr_t)buf;
	op_complete(op, (int64_t)pool->buf_size);
}

static void fill(struct weir_pool *pool, const struct weir_pool_opts *opts)
{
	char *base = pool->mmap->addr;
	uint32_t i = opts->bufs;
	struct weir_buf *buf;

	base += (size_t)-(uintptr_t)base & (opts->align - 1);
	while (i--) {
		buf = &pool->bufs[i];
		buf->use = pool->link.use;
		buf->addr = base + i * stride(opts);
		buf->len = opts->buf_size;
		buf->index = mmap_use_index(buf->use, buf->addr, buf->len);
		stock_push(&pool->stock, buf);
	}
	pool->stock.total = pool->stock.n_free;
}

static void pool_free(struct weir_pool *pool)
{
	if (pool->link.use)
		mmap_detach(&pool->link);
	if (pool->own_mmap)
		check(!weir_mmap_destroy(pool->mmap));
	free(pool->bufs);
	free(pool);
}

static int set_up(struct weir_pool *pool, struct weir_reactor *r,
		  struct weir_pool_opts *opts)
{
	int err = opts->mmap ? take_mmap(pool, opts) : make_mmap(pool, opts);

	if (err)
		return err;
	pool->bufs = stock_alloc_bufs(&pool->stock, opts->bufs);
	if (!pool->bufs)
		return why(-ENOMEM, "weir_pool_create: no memory for %u bufs",
			   opts->bufs);
	pool->link.is_pool = true;
	err = mmap_attach(pool->mmap, r, &pool->link,
			  !(opts->flags & WEIR_POOL_NO_REGISTER));
	if (err)
		return err;
	return reactor_attach(r, &pool->obj, "pool");
}

int weir_pool_create(struct weir_pool **ret, struct weir_reactor *r,
		     const struct weir_pool_opts *user)
{
	struct weir_pool_opts opts;
	struct weir_pool *pool;
	int err;

	err = load_opts(&opts, user);
	if (err)
		return err;
	pool = mem_calloc(1, sizeof(*pool));
	if (!pool)
		return why(-ENOMEM, "weir_pool_create: no memory");
	err = set_up(pool, r, &opts);
	if (err) {
		pool_free(pool);
		return err;
	}
	stock_init(&pool->stock, r);
	pool->stock.returned = returned;
	pool->buf_size = opts.buf_size;
	pool->waiters_max = opts.waiters_max;
	op_queue_init(&pool->waiters);
	fill(pool, &opts);
	*ret = pool;
	return 0;
}

int weir_pool_destroy(struct weir_pool *pool)
{
	unsigned long long out;

	if (!pool)
		return 0;
	stock_bring_home(&pool->stock);
	out = pool->stock.total - pool->stock.n_free;
	if (out || pool->n_waiting)
		return why(-EBUSY, "weir_pool_destroy: %llu buffers are out "
			   "and %llu operations wait", out,
			   (unsigned long long)pool->n_waiting);
	stock_fini(&pool->stock);
	reactor_detach(&pool->obj);
	pool_free(pool);
	return 0;
}

static struct weir_buf *take(struct weir_pool *pool)
{
	struct weir_buf *buf = stock_pop(&pool->stock);

	buf->data = buf->addr;
	buf->data_len = 0;
	buf_out(buf);
	pool->gets++;
	return buf;
}

int weir_pool_get(struct weir_buf **ret, struct weir_pool *pool)
{
	reactor_check_thread(pool->stock.r);
	if (unlikely(!pool->stock.free)) {
		pool->empty++;
		return -EAGAIN;
	}
	*ret = take(pool);
	return 0;
}

/* Its place in the queue says which pool it waits for. */
static void wait_cancel(struct weir_op *op)
{
	struct weir_pool *pool = (struct weir_pool *)(uintptr_t)op->u.words[1];

	op_queue_del(&pool->waiters, op);
	pool->n_waiting--;
	op_complete(op, -ECANCELED);
}

static const struct weir_op_class wait_class = {
	.name = "pool wait",
	.cancel = wait_cancel,
};

int weir_pool_wait(struct weir_pool *pool, struct weir_op *op)
{
	bool none = !pool->stock.free;
	int err;

	if (none && pool->waiters_max && pool->n_waiting >= pool->waiters_max)
		return -EAGAIN;
	err = op_begin(pool->stock.r, op, &wait_class);
	if (err)
		return err;
	op->u.words[0] = 0;
	op->u.words[1] = (uintptr_t)pool;
	if (none) {
		op_queue_push(&pool->waiters, op);
		pool->n_waiting++;
		return 0;
	}
	op->u.words[0] = (uintptr_t)take(pool);
	op_complete(op, (int64_t)pool->buf_size);
	return 0;
}

struct weir_buf *weir_pool_taken(const struct weir_op *op)
{
	if (op->cls != &wait_class)
		return NULL;
	return (struct weir_buf *)(uintptr_t)op->u.words[0];
}

struct weir_mmap *weir_pool_mmap(const struct weir_pool *pool)
{
	return pool->mmap;
}

size_t weir_pool_buf_size(const struct weir_pool *pool)
{
	return pool->buf_size;
}

int weir_pool_stats(const struct weir_pool *pool, struct weir_pool_stats *ret)
{
	struct weir_pool_stats stats = {
		.size = ret->size,
		.total = pool->stock.total,
		.free = pool->stock.n_free,
		.out = pool->stock.total - pool->stock.n_free,
		.waiting = pool->n_waiting,
		.gets = pool->gets,
		.empty = pool->empty,
		.registered = pool->link.use->registered,
		.huge = pool->huge,
	};

	if (ret->size < sizeof(ret->size))
		return -EINVAL;
	memcpy(ret, &stats, ret->size < sizeof(stats) ? ret->size :
						       sizeof(stats));
	return 0;
}
