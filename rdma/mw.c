/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows for the peer of a connection.
 *
 * All that can be refused is refused before the work request that binds one is
 * placed: its key is known by then, and so are the bytes.  What is over has
 * left its connection, and waits to be destroyed.
 *
 * Soft-RoCE does not let a queue pair go before the windows that are bound to
 * it, so they go first.
 */

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include <weir/rdma/export.h>
#include <weir/rdma/mw.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "rdma/engine.h"
#include "rdma/export.h"
#include "rdma/mmap-mw.h"

#define CALL "weir_mw_create"

struct weir_mw {
	struct reactor_obj obj;
	struct weir_reactor *r;
	struct weir_conn *conn; /* NULL: it is over. */
	struct weir_mw *next, **pprev; /* Of the connection's. */
	struct mmap_mw *key;
	struct verbs_request request;
	struct weir_op *op;
	uint32_t state; /* WEIR_MW_ */
	uint32_t qp_num;
	size_t len;
	_Alignas(8) uint8_t bytes[DESCRIPTOR_MAX];
};

/* What is posted cannot be recalled. */
static void cancel(struct weir_op *op)
{
	struct weir_mw *w = (struct weir_mw *)(uintptr_t)op->u.words[0];

	if (w->conn)
		verbs_overdue(w->conn->queue, w->conn->queue->tail);
}

static const struct weir_op_class bind_class = {
	.name = "memory window",
	.cancel = cancel,
};
static const struct weir_op_class revoke_class = {
	.name = "its revocation",
	.cancel = cancel,
};

static void link_to(struct weir_mw *w, struct weir_conn *c)
{
	w->conn = c;
	w->next = c->windows;
	w->pprev = &c->windows;
	if (w->next)
		w->next->pprev = &w->next;
	c->windows = w;
}

static void leave(struct weir_mw *w)
{
	if (!w->conn)
		return;
	*w->pprev = w->next;
	if (w->next)
		w->next->pprev = w->pprev;
	w->conn = NULL;
}

/* Returns what the device says.  What it keeps it is asked for again when the
 * window is destroyed, or the mmap stopped. */
static int be_over(struct weir_mw *w)
{
	w->state = WEIR_MW_OVER;
	leave(w);
	return mmap_mw_drop(w->key);
}

void mws_end(struct weir_conn *c)
{
	while (c->windows)
		be_over(c->windows);
}

static void complete(struct weir_mw *w, int err, int32_t code)
{
	struct weir_op *op = w->op;

	w->op = NULL;
	op->detail.code = code;
	op_complete(op, err);
}

static void on_bound(struct verbs_request *request, int err, int32_t code)
{
	struct weir_mw *w = weir_container_of(request, struct weir_mw, request);

	mmap_mw_done(w->key, !err);
	w->state = WEIR_MW_OPEN;
	if (err)
		be_over(w);
	complete(w, err == -ECANCELED ? -ENOTCONN : err, code);
}

/* However it ended: a queue pair that has failed serves no peer. */
static void on_invalidated(struct verbs_request *request, int err, int32_t code)
{
	struct weir_mw *w = weir_container_of(request, struct weir_mw, request);

	(void)err, (void)code;
	mmap_mw_done(w->key, false);
	be_over(w);
	complete(w, 0, 0);
}

static int check_asked(struct weir_conn *c, struct weir_mmap *mmap,
		       struct weir_export_rdma_opts *opts, bool *narrow)
{
	if (opts->flags & ~WEIR_EXPORT_BOUND)
		return why(-EINVAL, CALL ": unknown .flags %#x", opts->flags);
	*narrow = opts->flags & WEIR_EXPORT_BOUND;
	opts->flags = 0;
	if (c->state != WEIR_CONN_ESTABLISHED)
		return why(-ENOTCONN, CALL ": the connection is not "
					   "established");
	return export_rdma_check(mmap, c->device_ref->device->dev, opts);
}

/* The key, and the work request for it if it takes one. */
static int get_key(struct weir_mw *w, struct export_key *key)
{
	int err;

	if (!mmap_mw_is_narrow(w->key))
		return mmap_mw_key(w->key, &key->addr, &key->rkey);
	err = mmap_mw_bind(w->key, &w->request.send);
	if (err)
		return err;
	key->addr = w->request.send.bind_mw.bind_info.addr;
	key->rkey = w->request.send.bind_mw.rkey;
	key->qp_num = w->qp_num;
	return 0;
}

static int describe(struct weir_mw *w, struct weir_conn *c,
		    struct weir_mmap *mmap,
		    const struct weir_export_rdma_opts *opts)
{
	struct export_key key = {
		.node = be64toh(c->device_ref->device->attr.node_guid),
	};
	int n;

	w->qp_num = mmap_mw_is_narrow(w->key) ? c->qp->qp_num : 0;
	n = get_key(w, &key);
	if (!n)
		n = export_rdma_key(w->bytes, mmap, opts, &key);
	w->len = n > 0 ? (size_t)n : 0;
	return n < 0 ? n : 0;
}

/* Nothing of it is posted. */
static void undo(struct weir_mw *w)
{
	if (w->key)
		mmap_mw_abandon(w->key);
	reactor_detach(&w->obj);
	free(w);
}

static int make(struct weir_mw **ret, struct weir_conn *c,
		struct weir_mmap *mmap,
		const struct weir_export_rdma_opts *opts, bool narrow)
{
	const struct mmap_mw_opts part = {
		.off = opts->off,
		.len = opts->len,
		.permissions = opts->permissions,
		.narrow = narrow,
	};
	struct weir_mw *w = mem_calloc(1, sizeof(*w));
	int err;

	if (!w)
		return why(-ENOMEM, CALL ": no memory");
	w->r = c->r;
	err = reactor_attach(c->r, &w->obj, "weir_mw");
	if (err) {
		free(w);
		return err;
	}
	err = mmap_mw_create(&w->key, mmap, c->device_ref->device->dev, &part,
			     CALL);
	if (!err)
		err = describe(w, c, mmap, opts);
	if (err)
		undo(w);
	else
		*ret = w;
	return err;
}

/* It has a connection, so this is not refused. */
static void post(struct weir_mw *w,
		 void (*done)(struct verbs_request *, int, int32_t))
{
	w->request.done = done;
	verbs_request(w->conn->queue, &w->request);
}

int weir_mw_create(struct weir_mw **ret, struct weir_conn *c,
		   struct weir_op *op, struct weir_mmap *mmap,
		   const struct weir_export_rdma_opts *user)
{
	struct weir_export_rdma_opts opts;
	struct weir_mw *w = NULL;
	bool narrow = false;
	int err = opts_load(&opts, sizeof(opts), user, CALL);

	if (!err)
		err = check_asked(c, mmap, &opts, &narrow);
	if (!err)
		err = make(&w, c, mmap, &opts, narrow);
	if (err)
		return err;
	/* Late or not, there is a window then, for the caller to destroy. */
	err = op_may_begin(c->r, op);
	if (err) {
		undo(w);
		return err;
	}
	op_enlist(c->r, op, &bind_class);
	*ret = w;
	op->u.words[0] = (uintptr_t)w;
	w->op = op;
	w->state = WEIR_MW_BINDING;
	link_to(w, c);
	if (w->qp_num)
		post(w, on_bound);
	else
		on_bound(&w->request, 0, 0);
	return 0;
}

/* An mmap is stopped without asking us; a device may keep a part of it, which
 * opens nothing then. */
static uint32_t state_of(const struct weir_mw *w)
{
	uint64_t addr;
	uint32_t rkey;

	if (w->state == WEIR_MW_OPEN && mmap_mw_key(w->key, &addr, &rkey))
		return WEIR_MW_OVER;
	return w->state;
}

int weir_mw_export(const struct weir_mw *w, struct weir_export_desc *ret)
{
	struct weir_export_desc desc = {
		.size = sizeof(desc),
		.bytes = w->bytes,
		.len = w->len,
	};
	uint32_t state = state_of(w);
	int err = opts_capacity(ret, "weir_mw_export");

	if (err)
		return err;
	if (state == WEIR_MW_BINDING)
		return why(-EBUSY, "weir_mw_export: it is not open yet");
	if (state != WEIR_MW_OPEN)
		return why(-ESTALE, "weir_mw_export: the window is over");
	memset(desc.fds, 0xff, sizeof(desc.fds));
	return opts_give(ret, &desc, sizeof(desc), "weir_mw_export");
}

int weir_mw_info(const struct weir_mw *w, struct weir_mw_info *ret)
{
	struct weir_mw_info info = {
		.size = sizeof(info),
		.state = state_of(w),
		.qp_num = w->qp_num,
	};

	return opts_give(ret, &info, sizeof(info), "weir_mw_info");
}

static int refuse_busy(const struct weir_mw *w, const char *call)
{
	return !w->op ? 0 :
			why(-EBUSY, "%s: an operation is in flight: %s", call,
			    w->op->cls->name);
}

/* Whether there is somebody to do it in order with what was posted. */
static bool prepare_revoke(struct weir_mw *w)
{
	return w->qp_num && w->conn &&
	       w->conn->state == WEIR_CONN_ESTABLISHED &&
	       !mmap_mw_invalidate(w->key, &w->request.send);
}

int weir_mw_revoke(struct weir_mw *w, struct weir_op *op)
{
	int err = refuse_busy(w, "weir_mw_revoke");

	if (!err)
		err = op_begin(w->r, op, &revoke_class);
	if (err)
		return op_admitted(err);
	op->u.words[0] = (uintptr_t)w;
	w->op = op;
	w->request.send = (struct ibv_send_wr){ .wr_id = 0 };
	if (prepare_revoke(w)) {
		w->state = WEIR_MW_REVOKING;
		post(w, on_invalidated);
		return 0;
	}
	complete(w, be_over(w), 0);
	return 0;
}

int weir_mw_destroy(struct weir_mw *w)
{
	int err = w ? refuse_busy(w, "weir_mw_destroy") : 0;

	if (!err && w)
		err = mmap_mw_destroy(w->key);
	if (err || !w)
		return err;
	leave(w);
	reactor_detach(&w->obj);
	free(w);
	return 0;
}
