/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sync events at a peer.  A call is an operation with a job in it:
 *
 *	add    one atomic
 *	set    compare and swap, until the value found is the one expected
 *	get    one read of the whole word, which is also checked to be one
 *	wait   such reads, with longer and longer pauses between them
 *
 * The peer's word is in the peer's byte order, which its magic number shows;
 * atomics take and return numbers.
 */

#include <byteswap.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/domain.h>
#include <weir/sync-remote.h>

#include "base/alloc.h"
#include "base/why.h"
#include "dma/flow/chain-internal.h"
#include "dma/sync/internal.h"
#include "mem/mmap-internal.h"

#define OPEN "weir_sync_remote_open"

struct weir_sync_remote {
	struct weir_dma *dma;
	struct weir_mmap *mmap;
	uint64_t addr;			/* At the peer. */
	struct weir_remote_key key;
	uint32_t permissions;
	uint32_t n_calls;		/* In flight. */
	uint64_t last;			/* Value that was seen: a guess. */
};

/* A call's part of its struct. */
struct call {
	struct weir_job job;
	struct weir_timer_node nap;
	struct weir_sync_remote *sync;
	struct weir_op *op;
	struct sync_cond cond;
	uint64_t value;			/* To store. */
	uint32_t action;		/* WEIR_SYNC_DO_ */
	uint32_t tries;			/* Looks that were in vain. */
	_Alignas(8) uint8_t word[WEIR_SYNC_LEN];	/* As read. */
};

_Static_assert(sizeof(struct call) <=
	       sizeof(((struct weir_sync_call *)0)->words), "capacity for it");

static struct call *priv(struct weir_sync_call *call)
{
	return (struct call *)(void *)call->words;
}

static struct weir_sync_call *call_of(struct call *c)
{
	return (void *)((char *)c - offsetof(struct weir_sync_call, words));
}

static struct weir_operand there(struct weir_sync_remote *sync, uint64_t off,
				 uint64_t len)
{
	struct weir_operand operand =
		weir_operand_at(sync->mmap->domain, sync->addr + off, len);

	operand.ctx = &sync->key;
	return operand;
}

#define VALUE_AT offsetof(struct sync_word, value)

static void prepare(struct call *c)
{
	struct weir_sync_remote *sync = c->sync;

	switch (c->action) {
	case WEIR_SYNC_DO_ADD:
		weir_job_fetch_add(&c->job, there(sync, VALUE_AT, 8),
				   c->value);
		break;
	case WEIR_SYNC_DO_SET:
		weir_job_compare_swap(&c->job, there(sync, VALUE_AT, 8),
				      sync->last, c->value);
		break;
	default:
		weir_job_copy(&c->job, weir_operand_mem(c->word, WEIR_SYNC_LEN),
			      there(sync, 0, WEIR_SYNC_LEN));
		break;
	}
}

static void finish(struct call *c, int64_t res)
{
	struct weir_op *op = c->op;

	debug_check(c->sync->n_calls > 0);
	c->sync->n_calls--;
	op_complete(op, res);
}

/* Again, with what is known now. */
static void again(struct call *c)
{
	int err;

	prepare(c);
	err = weir_job_start(c->sync->dma, &c->job);
	if (err == -EAGAIN)
		wheel_add(&c->sync->dma->r->wheel, &c->nap,
			  reactor_now(c->sync->dma->r) + WEIR_MSEC);
	else if (err)
		finish(c, err);
}

static void nap_over(struct weir_timer_node *node)
{
	again(weir_container_of(node, struct call, nap));
}

/* The condition does not hold yet: pause. */
static void nap(struct call *c)
{
	struct weir_reactor *r = c->sync->dma->r;
	uint64_t ns = chain_backoff(c->tries++);

	if (op_cancel_wanted(c->op))
		finish(c, -ECANCELED);
	else if (!ns)
		again(c);
	else
		wheel_add(&r->wheel, &c->nap, reactor_now(r) + ns);
}

/* Check the word that was read: 0, or an errno if it is no sync event, or
 * closed. */
static int read_word(struct call *c, uint64_t *value)
{
	uint64_t magic;
	uint32_t flags;
	bool swapped;

	memcpy(&magic, c->word, sizeof(magic));
	memcpy(value, c->word + VALUE_AT, sizeof(*value));
	memcpy(&flags, c->word + offsetof(struct sync_word, flags),
	       sizeof(flags));
	swapped = (bswap_64(magic) & ~SYNC_MAGIC_VERSION) == SYNC_MAGIC_NAME;
	if (swapped) {
		magic = bswap_64(magic);
		*value = bswap_64(*value);
		flags = bswap_32(flags);
	}
	if ((magic & ~SYNC_MAGIC_VERSION) != SYNC_MAGIC_NAME)
		return -EBADMSG;
	if (magic != SYNC_MAGIC)
		return -EPROTONOSUPPORT;
	return flags & SYNC_FLAG_CLOSED ? -ESTALE : 0;
}

/* A word was read, by a get or a wait. */
static void hooked(struct call *c)
{
	uint64_t value;
	int err = read_word(c, &value);
	bool is_one = !err || err == -ESTALE;

	if (is_one && c->action == WEIR_SYNC_DO_WAIT &&
	    sync_cond_holds(&c->cond, value))
		err = 0;
	else if (!err && c->action == WEIR_SYNC_DO_WAIT) {
		nap(c);
		return;
	}
	if (!err) {
		call_of(c)->got = value;
		c->sync->last = value;
	}
	finish(c, err);
}

/* An atomic was done. */
static void signalled(struct call *c)
{
	struct weir_sync_remote *sync = c->sync;
	uint64_t old = weir_job_old(&c->job), expected = c->job.compare;

	sync->last = c->action == WEIR_SYNC_DO_SET ? c->value : old + c->value;
	if (c->action == WEIR_SYNC_DO_SET && old != expected) {
		sync->last = old;
		if (op_cancel_wanted(c->op))
			finish(c, -ECANCELED);
		else
			again(c);
		return;
	}
	call_of(c)->got = old;
	finish(c, 0);
}

static void job_done(struct weir_op *op, int64_t res)
{
	struct call *c = weir_container_of(weir_job_of(op), struct call, job);

	if (res < 0)
		finish(c, res);
	else if (kind_is_atomic(c->job.kind))
		signalled(c);
	else
		hooked(c);
}

/* A job that is posted is cancelled; a pause ends now. */
static void cancel(struct weir_op *op)
{
	struct call *c = (struct call *)(uintptr_t)op->u.words[0];

	debug_check(op_cancel_wanted(op));
	if (!wheel_pending(&c->nap)) {
		weir_op_cancel(&c->job.op);
		return;
	}
	wheel_del(&c->sync->dma->r->wheel, &c->nap);
	finish(c, -ECANCELED);
}

static const struct weir_op_class call_class = {
	.name = "remote sync event",
	.cancel = cancel,
};

static int start(struct weir_sync_remote *sync, struct weir_op *op,
		 struct weir_sync_call *call, uint32_t need, const char *name)
{
	struct call *c = priv(call);
	int err = op_admit(sync->dma->r, op);

	if (err)
		return op_refused(err, op, name);
	if (!(sync->permissions & need))
		return why(-EACCES, "%s: the exporter has not granted that",
			   name);
	c->sync = sync;
	c->op = op;
	c->tries = 0;
	c->nap.pprev = NULL;
	c->nap.fire = nap_over;
	weir_job_init(&c->job, job_done);
	prepare(c);
	err = weir_job_start(sync->dma, &c->job);
	if (err)
		return err;
	op_enlist(sync->dma->r, op, &call_class);
	op->u.words[0] = (uintptr_t)c;
	sync->n_calls++;
	return 0;
}

int weir_sync_remote_add(struct weir_sync_remote *sync, struct weir_op *op,
			 struct weir_sync_call *call, uint64_t n)
{
	priv(call)->action = WEIR_SYNC_DO_ADD;
	priv(call)->value = n;
	return start(sync, op, call, WEIR_MMAP_RDMA_ATOMIC,
		     "weir_sync_remote_add");
}

int weir_sync_remote_set(struct weir_sync_remote *sync, struct weir_op *op,
			 struct weir_sync_call *call, uint64_t value)
{
	priv(call)->action = WEIR_SYNC_DO_SET;
	priv(call)->value = value;
	return start(sync, op, call, WEIR_MMAP_RDMA_ATOMIC,
		     "weir_sync_remote_set");
}

int weir_sync_remote_get(struct weir_sync_remote *sync, struct weir_op *op,
			 struct weir_sync_call *call)
{
	priv(call)->action = WEIR_SYNC_DO_GET;
	return start(sync, op, call, WEIR_MMAP_READ, "weir_sync_remote_get");
}

int weir_sync_remote_wait(struct weir_sync_remote *sync, struct weir_op *op,
			  struct weir_sync_call *call, uint32_t cond,
			  uint64_t value, uint64_t mask)
{
	struct sync_cond c = { cond, value, mask };
	int err = sync_cond_check(&c);

	if (err)
		return why(err, "weir_sync_remote_wait: unknown condition, or "
			   "a mask without bits");
	priv(call)->action = WEIR_SYNC_DO_WAIT;
	priv(call)->cond = c;
	return start(sync, op, call, WEIR_MMAP_READ, "weir_sync_remote_wait");
}

static int check_place(const struct weir_mmap *mmap, uint64_t off)
{
	if (!mmap->import || !mmap->import->rkey)
		return why(-EINVAL, OPEN ": the mmap is no import by RDMA; see "
			   "weir_sync_open()");
	if (((uintptr_t)mmap->addr + off) % 8)
		return why(-EINVAL, OPEN ": at offset %llu it is not aligned "
			   "to 8 bytes", (unsigned long long)off);
	if (off > mmap->len || mmap->len - off < WEIR_SYNC_LEN)
		return why(-ERANGE, OPEN ": %d bytes at offset %llu reach "
			   "beyond the end of the mmap, %zu", WEIR_SYNC_LEN,
			   (unsigned long long)off, mmap->len);
	return 0;
}

int weir_sync_remote_open(struct weir_sync_remote **ret, struct weir_dma *dma,
			  struct weir_mmap *mmap, uint64_t off)
{
	struct weir_sync_remote *sync;
	int err = check_place(mmap, off);

	if (err)
		return err;
	sync = mem_calloc(1, sizeof(*sync));
	if (!sync)
		return why(-ENOMEM, OPEN ": no memory");
	sync->dma = dma;
	sync->mmap = mmap;
	sync->addr = (uintptr_t)mmap->addr + off;
	sync->key.rkey = mmap->import->rkey;
	sync->permissions = mmap->permissions;
	atomic_fetch_add(&mmap->n_syncs, 1);
	atomic_fetch_add(&dma->n_hops, 1);
	*ret = sync;
	return 0;
}

int weir_sync_remote_destroy(struct weir_sync_remote *sync)
{
	if (!sync)
		return 0;
	if (sync->n_calls)
		return why(-EBUSY, "weir_sync_remote_destroy: calls are in "
			   "flight: %u; cancel them first", sync->n_calls);
	atomic_fetch_sub(&sync->mmap->n_syncs, 1);
	atomic_fetch_sub(&sync->dma->n_hops, 1);
	free(sync);
	return 0;
}

static int start_step(struct weir_chain *chain, uint32_t n, struct weir_op *op,
		      void *arg)
{
	struct weir_sync_remote_step *step = arg;
	struct weir_sync_call *call = &step->call;

	(void)chain, (void)n;
	switch (step->action) {
	case WEIR_SYNC_DO_WAIT:
		return weir_sync_remote_wait(step->sync, op, call, step->cond,
					     step->value, step->mask ?
					     step->mask : WEIR_SYNC_ALL);
	case WEIR_SYNC_DO_SET:
		return weir_sync_remote_set(step->sync, op, call, step->value);
	case WEIR_SYNC_DO_ADD:
		return weir_sync_remote_add(step->sync, op, call, step->value);
	case WEIR_SYNC_DO_GET:
		return weir_sync_remote_get(step->sync, op, call);
	default:
		return -EINVAL;
	}
}

int weir_chain_add_sync_remote(struct weir_chain *chain, int after,
			       struct weir_sync_remote_step *step)
{
	if (!step)
		return why(-EINVAL, "weir_chain_add_sync_remote: step is NULL");
	return chain_add_op("weir_chain_add_sync_remote", chain, after,
			    start_step, step);
}
