/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues: create and destroy, and what there is to know. */

#include <stdio.h>
#include <stdlib.h>

#include <weir/pool.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "rdma/srq-internal.h"
#include "mem/shared-pool-internal.h"

#define RECVS_DEFAULT 256
#define BUF_SIZE_DEFAULT 4096
#define MOST (1u << 20)

static void fill_in(struct weir_srq_opts *opts)
{
	if (!opts->recvs)
		opts->recvs = RECVS_DEFAULT;
	if (!opts->batch)
		opts->batch = (opts->recvs + 15) / 16;
	if (!opts->low)
		opts->low = (opts->recvs + 3) / 4;
	if (!opts->bufs)
		opts->bufs = 2 * opts->recvs;
	if (!opts->buf_size)
		opts->buf_size = BUF_SIZE_DEFAULT;
}

static int load_opts(struct weir_srq_opts *opts,
		     const struct weir_srq_opts *user,
		     const struct weir_reactor *r)
{
	int err = opts_load(opts, sizeof(*opts), user, "weir_srq_create");

	if (err)
		return err;
	if (opts->pool && (opts->bufs || opts->buf_size))
		return why(-EINVAL, "weir_srq_create: .bufs and .buf_size are "
			   "the pool's, if there is .pool");
	if (opts->pool && opts->pool->r != r)
		return why(-EXDEV, "weir_srq_create: .pool is another "
			   "reactor's");
	if (opts->recvs > MOST || opts->bufs > 2 * MOST ||
	    opts->buf_size > MOST)
		return why(-EINVAL, "weir_srq_create: .recvs and .buf_size are "
			   "at most %u, .bufs %u", MOST, 2 * MOST);
	fill_in(opts);
	if (opts->batch > opts->recvs || opts->low > opts->recvs)
		return why(-EINVAL, "weir_srq_create: .batch and .low are at "
			   "most .recvs, %u", opts->recvs);
	return 0;
}

int weir_srq_create(struct weir_srq **ret, struct weir_reactor *r,
		    const struct weir_srq_opts *user)
{
	struct weir_srq_opts opts;
	struct weir_srq *srq;
	int err = load_opts(&opts, user, r);

	if (err)
		return err;
	srq = mem_calloc(1, sizeof(*srq));
	if (!srq)
		return why(-ENOMEM, "weir_srq_create: no memory");
	srq->r = r;
	srq->opts = opts;
	deferred_init(&srq->deferred, r, srq_run);
	err = srq_slots_create(srq);
	if (!err)
		err = reactor_attach(r, &srq->obj, "weir_srq");
	if (err) {
		srq_slots_destroy(srq);
		free(srq);
		return err;
	}
	*ret = srq;
	return 0;
}

/* What users have of a pool that goes with the queue. */
static uint64_t n_out(const struct weir_srq *srq)
{
	struct weir_pool_stats stats = { .size = sizeof(stats) };

	if (!srq->mmap || !srq->pool)
		return 0;
	weir_pool_stats(srq->pool, &stats);
	return stats.out + stats.in_transit - srq_n_bufs(srq);
}

int weir_srq_destroy(struct weir_srq *srq)
{
	int err;

	if (!srq)
		return 0;
	if (srq->n_users)
		return why(-EBUSY, "weir_srq_destroy: %u connections or "
			   "listeners use it", srq->n_users);
	if (n_out(srq))
		return why(-EBUSY, "weir_srq_destroy: %llu bufs of messages "
			   "were not put", (unsigned long long)n_out(srq));
	srq_bury_all(srq);
	srq_unbind(srq);
	err = srq_free_memory(srq);
	if (err)
		return err;
	deferred_finish(&srq->deferred);
	srq_slots_destroy(srq);
	reactor_detach(&srq->obj);
	free(srq);
	return 0;
}

int weir_srq_stats(const struct weir_srq *srq, struct weir_srq_stats *ret)
{
	struct weir_srq_stats stats = srq->stats;

	stats.recvs = srq->opts.recvs;
	stats.posted = srq->n_posted;
	stats.held = srq->n_held;
	stats.users = srq->n_users;
	stats.leaving = srq->n_leaving;
	if (srq->device_ref)
		snprintf(stats.device, sizeof(stats.device), "%s",
			 srq->device_ref->device->name);
	return opts_give(ret, &stats, sizeof(stats), "weir_srq_stats");
}
