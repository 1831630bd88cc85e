/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys: of memory here, for the device of a connection; and of a peer's.
 *
 * A buf is known by its mmap's key, if the device is one of the mmap's.
 * Staging is registered when a context first bounces over a device, once for
 * all its connections, until the context goes or the last of them.
 */

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "rdma/engine.h"
#include "mem/buf-internal.h"

static bool is_staging(const struct weir_dma *dma, uint64_t addr)
{
	size_t len = bounce_staging_len(dma);

	return addr - (uintptr_t)dma->staging < len;
}

uint32_t verbs_place;

static struct verbs_staging *find(const struct verbs_queue *q,
				  const struct weir_dma *dma)
{
	struct verbs_staging *s;

	for (s = verbs_dma(dma)->staging; s && s->device_ref != q->conn->device_ref;
	     s = s->next_of_dma)
		;
	return s;
}

static int staging_get(struct verbs_queue *q, struct weir_dma *dma)
{
	size_t len = bounce_staging_len(dma);
	struct conn_device_ref *device_ref = q->conn->device_ref;
	struct verbs_staging *s;

	if (find(q, dma))
		return 0;
	s = mem_calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	errno = fault("ibv_reg_mr") ? ENOMEM : 0;
	s->mr = errno ? NULL :
			ibv_reg_mr(device_ref->device->pd, dma->staging, len,
				   IBV_ACCESS_LOCAL_WRITE);
	if (!s->mr) {
		free(s);
		return why(conn_error(),
			   "weir_job_start: %s does not register "
			   "%zu bytes of staging; is ulimit -l too low?",
			   device_ref->device->name, len);
	}
	s->dma = dma;
	s->device_ref = device_ref;
	s->next_of_ref = device_ref->staging;
	device_ref->staging = s;
	s->next_of_dma = verbs_dma(dma)->staging;
	verbs_dma(dma)->staging = s;
	return 0;
}

static void drop(struct verbs_staging *s)
{
	struct verbs_staging **at = &verbs_dma(s->dma)->staging;

	while (*at != s)
		at = &(*at)->next_of_dma;
	*at = s->next_of_dma;
	at = &s->device_ref->staging;
	while (*at != s)
		at = &(*at)->next_of_ref;
	*at = s->next_of_ref;
	ibv_dereg_mr(s->mr);
	free(s);
}

void verbs_staging_drop(struct conn_device_ref *device_ref)
{
	while (device_ref->staging)
		drop(device_ref->staging);
}

void verbs_fini(struct weir_dma *dma)
{
	while (verbs_dma(dma)->staging)
		drop(verbs_dma(dma)->staging);
}

/* Bufs of other reactors are no business of ours, but the key is. */
int verbs_buf_lkey(const struct verbs_queue *q, const struct weir_buf *buf,
		   uint32_t *lkey)
{
	struct weir_device *device = q->conn->device_ref->device->dev;

	if (likely(buf->use->r == q->conn->r))
		return mmap_use_key(buf->use, device, lkey);
	return weir_mmap_keys(buf->use->mmap, device, lkey, NULL);
}

int verbs_lkey(struct verbs_queue *q, struct weir_job *job,
	       const struct cursor *c, uint32_t *lkey)
{
	const struct verbs_staging *s;

	*lkey = 0;
	if (verbs_job(job)->inlined)
		return 0;
	if (c->buf)
		return verbs_buf_lkey(q, c->buf, lkey);
	if (!is_staging(job_priv(job)->dma, c->addr))
		return -ENOENT;
	s = find(q, job_priv(job)->dma);
	if (!s)
		return -ENOENT;
	*lkey = s->mr->lkey;
	return 0;
}

int verbs_rkey(const struct cursor *c, uint32_t need, uint32_t *rkey)
{
	const struct weir_remote_key *key = c->operand->ctx;

	if (c->buf)
		return mmap_remote_key(c->buf->use->mmap, need, rkey);
	*rkey = key->rkey;
	return 0;
}

int verbs_check_rkeys(const struct weir_operand *operand, uint32_t need)
{
	const struct weir_buf *buf;
	uint32_t rkey;
	int err = 0;

	if (!operand->buf && !operand->ctx)
		return why(-EACCES, "weir_job_start: addresses at a peer have "
			   "no key: use bufs of an mmap that was imported, or "
			   "set .ctx to a struct weir_remote_key");
	for (buf = operand->buf; buf && !err; buf = buf->next)
		err = mmap_remote_key(buf->use->mmap, need, &rkey);
	return !err ? 0 : why(err, "weir_job_start: the peer does not give this "
			      "right");
}

int verbs_check_peer(const struct verbs_queue *q, struct weir_job *job)
{
	const struct weir_buf *buf = verbs_there(job)->buf;
	uint32_t bound_to;

	for (; buf; buf = buf->next) {
		bound_to = mmap_remote_qp(buf->use->mmap);
		if (unlikely(bound_to && bound_to != q->conn->peer_qp))
			return why(-ESTALE, "weir_job_start: the peer has "
				   "exported this for its QP %u, and the "
				   "connection leads to QP %u; ask it for "
				   "another", bound_to, q->conn->peer_qp);
	}
	return 0;
}

int verbs_check_keys(struct verbs_queue *q, struct weir_job *job)
{
	const struct weir_buf *buf = verbs_here(job)->buf;
	uint32_t lkey;
	int err = 0;

	if (!buf && !job_priv(job)->is_step)
		return -ENOENT;
	if (!buf)
		return staging_get(q, job_priv(job)->dma);
	for (; buf && !err; buf = buf->next)
		err = verbs_buf_lkey(q, buf, &lkey);
	return err;
}
