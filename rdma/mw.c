/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory windows: keys that are bound to a part of an mmap for one connection,
 * and the calls of <weir/rdma/mw.h>.
 */

#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/mmap.h>
#include <weir/rdma/export.h>
#include <weir/rdma/mw.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "rdma/device.h"
#include "rdma/engine.h"
#include "rdma/export.h"
#include "rdma/mmap-mw.h"

#define RDMA_RIGHTS \
	(WEIR_MMAP_RDMA_READ | WEIR_MMAP_RDMA_WRITE | WEIR_MMAP_RDMA_ATOMIC)

/*
 * Memory windows.  A window belongs to its maker until it is abandoned, and is
 * on the mmap's device.  The maker and the mmap may be destroyed in either
 * order, on different threads.  So one lock protects all windows; it is taken
 * inside the mmap's.
 */

/* The state of a window. */
enum place {
	FREE, /* Its key opens nothing yet, or any more. */
	POSTED, /* A work request is about to change that. */
	BOUND,
	STALE, /* Gone from the device. */
};

struct mmap_mw {
	struct mmap_mw *next; /* Of the mmap's device, unless it is */
	struct mmap_mw **pprev; /* stale. */
	struct weir_device *device;
	enum place place;
	bool narrow; /* Else there is none, and the key is */
	struct ibv_mw *mw; /* that of the region. */
	struct weir_provider_key own; /* A region for this part alone; */
	bool has_own; /* else it is the mmap's. */
	bool abandoned; /* Only the mmap has it. */
	uint32_t rkey;
	struct ibv_mw_bind_info info;
};

static pthread_mutex_t mw_lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned int access_of(uint32_t permissions)
{
	return (permissions & WEIR_MMAP_RDMA_READ ? IBV_ACCESS_REMOTE_READ :
						    0u) |
	       (permissions & WEIR_MMAP_RDMA_WRITE ? IBV_ACCESS_REMOTE_WRITE :
						     0u) |
	       (permissions & WEIR_MMAP_RDMA_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC :
						      0u);
}

static const char *name_of(const struct weir_device *device)
{
	return device_verbs_of(device)->name;
}

static size_t len_of(const struct weir_mmap *mmap)
{
	size_t len = 0;
	void *addr;

	(void)weir_mmap_memrange(mmap, &addr, &len);
	return len;
}

/* Of device memory and of dma-bufs there are no windows. */
static bool has_mws(const struct weir_mmap *mmap,
		    const struct weir_device *device)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_provider_range range = { .size = sizeof(range) };

	weir_devinfo_caps(weir_device_info(device), &caps);
	return !weir_mmap_part(mmap, 0, 1, 0, &range) &&
	       caps.caps & WEIR_DEVICE_CAP_MW &&
	       range.kind == WEIR_PROVIDER_RANGE_MEM && range.addr;
}

static int check_opts(const struct weir_mmap *mmap,
		      const struct weir_device *device,
		      const struct mmap_mw_opts *opts, const char *call)
{
	uint32_t has = weir_mmap_permissions(mmap) & RDMA_RIGHTS;
	size_t len = len_of(mmap);

	if (opts->narrow && !has_mws(mmap, device))
		return why(-EOPNOTSUPP,
			   "%s: device %s has no memory windows, "
			   "or none over memory of this kind",
			   call, name_of(device));
	if (!opts->permissions || opts->permissions & ~has)
		return why(-EACCES,
			   "%s: a window with permissions %#x, and "
			   "the mmap has %#x",
			   call, opts->permissions, has);
	if (!opts->len || opts->off >= len || opts->len > len - opts->off)
		return why(-ERANGE,
			   "%s: a window that is not within the %zu "
			   "bytes of the mmap",
			   call, len);
	return 0;
}

/* Without a window its rights are the region's; else the region has none. */
static int register_own(struct mmap_mw *w, const struct weir_mmap *mmap,
			const struct mmap_mw_opts *opts)
{
	struct weir_provider_range range = { .size = sizeof(range) };
	int err = weir_mmap_part(mmap, opts->off, opts->len,
				 opts->permissions, &range);

	if (err)
		return err;
	range.flags = w->narrow ? WEIR_PROVIDER_RANGE_MW : 0;
	if (w->narrow)
		range.permissions &= ~RDMA_RIGHTS;
	err = device_mr_register((void *)(uintptr_t)device_verbs_of(w->device),
				 &range, &w->own);
	w->has_own = !err;
	if (err || w->narrow)
		return err;
	w->rkey = w->own.rkey;
	w->place = BOUND;
	return 0;
}

static struct ibv_mw *alloc_mw(const struct weir_device *device)
{
	errno = 0;
	if (weir_fault("ibv_alloc_mw")) {
		errno = ENOMEM;
		return NULL;
	}
	return ibv_alloc_mw(device_verbs_of(device)->pd, IBV_MW_TYPE_2);
}

static int make_mw(struct mmap_mw *w, const char *call)
{
	int err;

	debug_check(!w->mw);
	w->mw = alloc_mw(w->device);
	if (w->mw)
		return 0;
	err = errno > 0 ? errno : EIO;
	return why(-err, "%s: %s makes no memory window: %s", call,
		   name_of(w->device), strerror(err));
}

static void mmap_mw_abandon(struct mmap_mw *w);

static void link_to(struct mmap_mw *w, struct mmap_mw **first)
{
	pthread_mutex_lock(&mw_lock);
	w->next = *first;
	w->pprev = first;
	if (w->next)
		w->next->pprev = &w->next;
	*first = w;
	pthread_mutex_unlock(&mw_lock);
}

/* What make() is to make. */
struct making {
	struct mmap_mw *w;
	const struct weir_mmap *mmap;
	const struct mmap_mw_opts *opts;
	const char *call;
};

/* For weir_mmap_bind().  All of the mmap is one region already. */
static int make(void *arg, const struct weir_provider_binding *binding)
{
	const struct making *m = arg;
	struct mmap_mw *w = m->w;
	int err = 0;

	if (w->narrow && m->opts->len == len_of(m->mmap) && binding->registered)
		w->info.mr = binding->key.data;
	else
		err = register_own(w, m->mmap, m->opts);
	if (err)
		return err;
	if (w->has_own)
		w->info.mr = w->own.data;
	link_to(w, (struct mmap_mw **)(void *)binding->slot);
	return w->narrow ? make_mw(w, m->call) : 0;
}

static int nothing(void *arg, const struct weir_provider_binding *binding)
{
	(void)arg, (void)binding;
	return 0;
}

/* Whether the mmap is started and has the device. */
static int check_mmap(struct weir_mmap *mmap, struct weir_device *device,
		      const char *call)
{
	int err = weir_mmap_bind(mmap, device, nothing, NULL);

	return err ? why_call(err, "weir_mmap_bind", call) : 0;
}

/* Report the first error, and not one of the clean-up. */
static int back_out(struct mmap_mw *w, int err)
{
	char first[512];

	snprintf(first, sizeof(first), "%s", weir_why());
	mmap_mw_abandon(w);
	return why(err, "%s", first);
}

int mmap_mw_create(struct mmap_mw **ret, struct weir_mmap *mmap,
		   struct weir_device *device, const struct mmap_mw_opts *opts,
		   const char *call)
{
	struct weir_provider_range range = { .size = sizeof(range) };
	struct mmap_mw *w;
	int err = check_mmap(mmap, device, call);

	if (!err)
		err = check_opts(mmap, device, opts, call);
	if (!err && opts->len == len_of(mmap) && has_mws(mmap, device))
		err = weir_mmap_keys(mmap, device, NULL, NULL);
	if (!err)
		err = weir_mmap_part(mmap, opts->off, opts->len,
				     opts->permissions, &range);
	if (err)
		return err;
	w = mem_calloc(1, sizeof(*w));
	if (!w)
		return why(-ENOMEM, "%s: no memory", call);
	w->device = device;
	w->narrow = has_mws(mmap, device);
	w->info.addr = device_range_start(&range);
	w->info.length = opts->len;
	w->info.mw_access_flags = access_of(opts->permissions);
	err = weir_mmap_bind(mmap, device, make,
			     &(struct making){ w, mmap, opts, call });
	if (!err)
		*ret = w;
	else if (w->pprev)
		return back_out(w, err);
	else
		free(w);
	return why_call(err, "weir_mmap_bind", call);
}

/* Whether it has to be bound; else it has its key already. */
static bool mmap_mw_is_narrow(const struct mmap_mw *w)
{
	return w->narrow;
}

/* Under the lock: why no work request can take it from @from, or 0. */
static int refuse(const struct mmap_mw *w, enum place from)
{
	debug_check(mutex_is_held(&mw_lock));
	if (w->place == STALE || !w->mw)
		return why(-ESTALE, "a memory window's mmap was stopped");
	if (w->place == from)
		return 0;
	return w->place == FREE ?
		       why(-ENOKEY, "a memory window is not bound") :
		       why(-EBUSY,
			   "a memory window is bound already, or is about to "
			   "be");
}

/* The provider still needs the old key to find it. */
int mmap_mw_bind(struct mmap_mw *w, struct ibv_send_wr *wr)
{
	int err;

	pthread_mutex_lock(&mw_lock);
	err = refuse(w, FREE);
	if (!err) {
		w->place = POSTED;
		w->rkey = ibv_inc_rkey(w->mw->rkey);
		wr->opcode = IBV_WR_BIND_MW;
		wr->bind_mw.mw = w->mw;
		wr->bind_mw.rkey = w->rkey;
		wr->bind_mw.bind_info = w->info;
	}
	pthread_mutex_unlock(&mw_lock);
	return err;
}

int mmap_mw_invalidate(struct mmap_mw *w, struct ibv_send_wr *wr)
{
	int err;

	pthread_mutex_lock(&mw_lock);
	err = refuse(w, BOUND);
	if (!err) {
		w->place = POSTED;
		wr->opcode = IBV_WR_LOCAL_INV;
		wr->invalidate_rkey = w->rkey;
	}
	pthread_mutex_unlock(&mw_lock);
	return err;
}

void mmap_mw_done(struct mmap_mw *w, bool bound)
{
	pthread_mutex_lock(&mw_lock);
	if (w->place == POSTED)
		w->place = bound ? BOUND : FREE;
	if (w->mw && bound)
		w->mw->rkey = w->rkey;
	pthread_mutex_unlock(&mw_lock);
}

int mmap_mw_key(const struct mmap_mw *w, uint64_t *addr, uint32_t *rkey)
{
	int err = 0;

	pthread_mutex_lock(&mw_lock);
	if (w->place == STALE)
		err = -ESTALE;
	else if (w->place != BOUND)
		err = -ENOKEY;
	if (!err) {
		*addr = w->info.addr;
		*rkey = w->rkey;
	}
	pthread_mutex_unlock(&mw_lock);
	return err;
}

static int free_mw(struct mmap_mw *w)
{
	int err = weir_fault("ibv_dealloc_mw") ? EBUSY : ibv_dealloc_mw(w->mw);

	debug_check(mutex_is_held(&mw_lock) && w->mw);
	if (err)
		return why(-err, "a memory window cannot be freed: %s",
			   strerror(err));
	w->mw = NULL;
	w->place = FREE;
	return 0;
}

/* Under the lock: off its device, which may keep it. */
static int drop(struct mmap_mw *w)
{
	int err = w->mw ? free_mw(w) : 0;

	debug_check(mutex_is_held(&mw_lock));
	if (!err && w->has_own) {
		err = device_mr_deregister(
			(void *)(uintptr_t)device_verbs_of(w->device), &w->own);
		w->has_own = err;
	}
	if (err || w->place == STALE)
		return err;
	*w->pprev = w->next;
	if (w->next)
		w->next->pprev = w->pprev;
	w->place = STALE;
	return 0;
}

/* Make the window stale, as a stop does.  Returns as mmap_mw_destroy(). */
static int mmap_mw_drop(struct mmap_mw *w)
{
	int err;

	pthread_mutex_lock(&mw_lock);
	err = drop(w);
	pthread_mutex_unlock(&mw_lock);
	return err;
}

int mmap_mw_destroy(struct mmap_mw *w)
{
	int err = w ? mmap_mw_drop(w) : 0;

	if (!err)
		free(w);
	return err;
}

/*
 * The same for a window of which nothing was posted.  It is tried only once:
 * what the device keeps of it is freed when the mmap is stopped.
 */
static void mmap_mw_abandon(struct mmap_mw *w)
{
	int err;

	pthread_mutex_lock(&mw_lock);
	if (w->place == POSTED)
		w->place = FREE;
	err = drop(w);
	w->abandoned = err;
	pthread_mutex_unlock(&mw_lock);
	if (!err)
		free(w);
}

/* Refuse the stop if it cannot drop all windows. */
static int refuse_drop(const struct mmap_mw *w)
{
	debug_check(mutex_is_held(&mw_lock));
	for (; w; w = w->next)
		if (w->place == POSTED)
			return why(-EBUSY,
				   "a work request that binds or "
				   "invalidates a memory window of the mmap "
				   "is in flight");
	return 0;
}

int mmap_mws_drop(void *card, void **slot)
{
	struct mmap_mw **first = (struct mmap_mw **)(void *)slot, *w;
	int err;

	(void)card;
	pthread_mutex_lock(&mw_lock);
	err = refuse_drop(*first);
	while (!err && (w = *first)) {
		err = drop(w);
		if (!err && w->abandoned)
			free(w);
	}
	pthread_mutex_unlock(&mw_lock);
	return err;
}

/*
 * Windows for the peer of a connection.
 *
 * All checks come before the work request that binds a window is placed: by
 * then the key and the bytes of the descriptor are known.  A window that is
 * over has left its connection, and waits to be destroyed.
 *
 * Soft-RoCE does not destroy a queue pair before the windows that are bound to
 * it, so they are destroyed first.
 */

#define CALL "weir_mw_create"

struct weir_mw {
	struct weir_object *obj;
	struct weir_reactor *r;
	struct weir_conn *conn; /* NULL: it is over. */
	struct weir_mw *next, **pprev; /* Of the connection's. */
	struct mmap_mw *key;
	struct verbs_request request;
	struct weir_op *op; /* NULL also while its end revokes it. */
	const struct weir_op_kind *op_kind;
	bool posted; /* .request is in flight, perhaps without an operation. */
	struct weir_timer *timer;
	uint64_t end; /* 0: none. */
	uint32_t state; /* WEIR_MW_ */
	uint32_t qp_num;
	size_t len;
	_Alignas(8) uint8_t bytes[WEIR_DESCRIPTOR_MAX];
};

/* Posted work cannot be withdrawn; end the connection if it does not
 * complete. */
static void cancel(struct weir_op *op, void *mw)
{
	struct weir_mw *w = mw;

	(void)op;
	if (w->conn)
		verbs_overdue(w->conn->queue, w->conn->queue->tail);
}

static const struct weir_op_kind bind_kind = {
	.size = sizeof(bind_kind),
	.name = "memory window",
	.cancel = cancel,
};
static const struct weir_op_kind revoke_kind = {
	.size = sizeof(revoke_kind),
	.name = "its revocation",
	.cancel = cancel,
};

static void windows_end(struct weir_conn *c);
static void on_time(struct weir_timer *timer, uint64_t n, void *mw);

static void mw_link_to(struct weir_mw *w, struct weir_conn *c)
{
	w->conn = c;
	w->next = c->windows;
	w->pprev = &c->windows;
	if (w->next)
		w->next->pprev = &w->next;
	c->windows = w;
	c->windows_end = windows_end;
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

/* Returns the device's errno.  If the device has kept something, destroying the
 * window or stopping the mmap tries again. */
static int be_over(struct weir_mw *w)
{
	w->state = WEIR_MW_OVER;
	weir_timer_stop(w->timer);
	leave(w);
	return mmap_mw_drop(w->key);
}

static void windows_end(struct weir_conn *c)
{
	while (c->windows)
		be_over(c->windows);
}

static void mw_op_set(struct weir_mw *w, struct weir_op *op,
		      const struct weir_op_kind *kind)
{
	w->op = op;
	w->op_kind = kind;
}

static void complete(struct weir_mw *w, int err, int32_t code)
{
	struct weir_op *op = w->op;

	if (!op)
		return;
	w->op = NULL;
	rdma_op_finish(op, err, code, 0);
}

/* When it is open. */
static void arm(struct weir_mw *w)
{
	weir_timer_stop(w->timer);
	if (!w->end || w->state != WEIR_MW_OPEN)
		return;
	weir_timer_start(w->timer, w->end, 0);
}

static void on_bound(struct verbs_request *request, int err, int32_t code)
{
	struct weir_mw *w = weir_container_of(request, struct weir_mw, request);

	debug_check(w->state == WEIR_MW_BINDING);
	w->posted = false;
	mmap_mw_done(w->key, !err);
	w->state = WEIR_MW_OPEN;
	if (err)
		be_over(w);
	else
		arm(w);
	complete(w, err == -ECANCELED ? -ENOTCONN : err, code);
}

/* However it ended: a queue pair that has failed serves no peer. */
static void on_invalidated(struct verbs_request *request, int err, int32_t code)
{
	struct weir_mw *w = weir_container_of(request, struct weir_mw, request);

	(void)err, (void)code;
	w->posted = false;
	mmap_mw_done(w->key, false);
	be_over(w);
	complete(w, 0, 0);
}

/* The key, and the work request for it if it takes one. */
static int get_key(struct weir_mw *w, uint64_t *addr, struct rdma_key *key)
{
	int err;

	if (!mmap_mw_is_narrow(w->key))
		return mmap_mw_key(w->key, addr, &key->rkey);
	err = mmap_mw_bind(w->key, &w->request.send);
	if (err)
		return err;
	*addr = w->request.send.bind_mw.bind_info.addr;
	key->rkey = w->request.send.bind_mw.rkey;
	key->qp_num = w->qp_num;
	return 0;
}

struct described {
	struct weir_mw *w;
	struct weir_conn *c;
	struct weir_mmap *mmap;
	uint64_t off;
	bool narrow;
};

/* For weir_mmap_describe(), which has checked what is asked for. */
static int make_key(void *arg, const struct weir_provider_key *none,
		    struct weir_provider_desc *desc)
{
	const struct described *d = arg;
	const struct conn_device *device = d->c->device_ref->device;
	const struct mmap_mw_opts part = {
		.off = d->off,
		.len = desc->len,
		.permissions = desc->permissions,
		.narrow = d->narrow,
	};
	struct rdma_key key = { .node = be64toh(device->attr.node_guid) };
	int err = mmap_mw_create(&d->w->key, d->mmap, device->dev, &part, CALL);

	(void)none;
	if (err)
		return err;
	d->w->qp_num = mmap_mw_is_narrow(d->w->key) ? d->c->qp->qp_num : 0;
	err = get_key(d->w, &desc->addr, &key);
	if (!err)
		rdma_key_write(desc, &key);
	return err;
}

static int describe(struct weir_mw *w, struct weir_conn *c,
		    struct weir_mmap *mmap,
		    const struct weir_export_rdma_opts *opts)
{
	struct weir_describe_opts what = rdma_describe_opts(opts);
	struct described d = {
		w, c, mmap, opts->off, opts->flags & WEIR_EXPORT_BOUND,
	};
	struct weir_export_desc desc = { .size = sizeof(desc) };
	int err;

	what.bytes = w->bytes;
	err = weir_mmap_describe(verbs_provider, mmap,
				 c->device_ref->device->dev, &what, make_key,
				 &d, &desc);
	if (err)
		return why_call(err, "weir_mmap_describe", CALL);
	w->len = desc.len;
	return 0;
}

static const struct weir_object_ops object_ops = {
	.size = sizeof(object_ops),
	.name = "weir_mw",
};

static void mw_free(struct weir_mw *w)
{
	weir_timer_destroy(w->timer);
	weir_object_destroy(w->obj);
	free(w);
}

/* Undo a window of which nothing is posted. */
static void undo(struct weir_mw *w)
{
	if (w->key)
		mmap_mw_abandon(w->key);
	mw_free(w);
}

static int mw_make(struct weir_mw **ret, struct weir_conn *c,
		   struct weir_mmap *mmap,
		   const struct weir_export_rdma_opts *opts)
{
	struct weir_mw *w = mem_calloc(1, sizeof(*w));
	int err;

	if (!w)
		return why(-ENOMEM, CALL ": no memory");
	w->r = c->r;
	err = describe(w, c, mmap, opts);
	if (!err) {
		err = weir_object_create(&w->obj, c->r, &object_ops, "", w);
		if (err)
			why_call(err, "weir_object_create", CALL);
	}
	if (!err)
		err = weir_timer_create(&w->timer, c->r, on_time, w);
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
	w->posted = true;
	verbs_request(w->conn->queue, &w->request);
}

int weir_mw_create(struct weir_mw **ret, struct weir_conn *c,
		   struct weir_op *op, struct weir_mmap *mmap,
		   const struct weir_export_rdma_opts *user)
{
	struct weir_export_rdma_opts opts;
	struct weir_mw *w = NULL;
	int err = opts_load(&opts, sizeof(opts), user, CALL);

	if (err)
		return err;
	if (opts.flags & ~WEIR_EXPORT_BOUND)
		return why(-EINVAL, CALL ": unknown .flags %#x", opts.flags);
	if (c->state != WEIR_CONN_ESTABLISHED)
		return why(-ENOTCONN, CALL ": the connection is not "
			   "established");
	err = mw_make(&w, c, mmap, &opts);
	if (err)
		return err;
	err = rdma_op_begin(c->r, op, &bind_kind, w, CALL);
	if (err < 0) {
		undo(w);
		return err;
	}
	/* Late or not, there is a window then, for the caller to destroy. */
	*ret = w;
	if (err) {
		mmap_mw_done(w->key, false);	/* Nothing is posted. */
		be_over(w);
		return 0;
	}
	mw_op_set(w, op, &bind_kind);
	w->state = WEIR_MW_BINDING;
	mw_link_to(w, c);
	if (w->qp_num)
		post(w, on_bound);
	else
		on_bound(&w->request, 0, 0);
	return 0;
}

/* A stop of an mmap does not tell its windows.  The device may keep a part of a
 * window, but that opens nothing. */
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
	if (w->op)
		return why(-EBUSY, "%s: an operation is in flight: %s", call,
			   w->op_kind->name);
	return 0;
}

/* Whether a queue pair can do it in order with what was posted. */
static bool prepare_revoke(struct weir_mw *w)
{
	return w->qp_num && w->conn &&
	       w->conn->state == WEIR_CONN_ESTABLISHED &&
	       !mmap_mw_invalidate(w->key, &w->request.send);
}

/* Post what revokes it, or revoke it at once.  Returns the device's errno. */
static int begin_revoke(struct weir_mw *w)
{
	w->request.send = (struct ibv_send_wr){ .wr_id = 0 };
	if (!prepare_revoke(w))
		return be_over(w);
	w->state = WEIR_MW_REVOKING;
	weir_timer_stop(w->timer);
	post(w, on_invalidated);
	return 0;
}

int weir_mw_revoke(struct weir_mw *w, struct weir_op *op)
{
	int err = refuse_busy(w, "weir_mw_revoke");

	if (err)
		return err;
	err = rdma_op_begin(w->r, op, &revoke_kind, w, "weir_mw_revoke");
	if (err)
		return err < 0 ? err : 0;
	mw_op_set(w, op, &revoke_kind);
	if (w->posted) /* By its end. */
		return 0;
	err = begin_revoke(w);
	if (w->state == WEIR_MW_OVER)
		complete(w, err, 0);
	return 0;
}

/* What the device may keep opens nothing; the stop of the mmap frees it. */
static void on_time(struct weir_timer *timer, uint64_t n, void *mw)
{
	(void)timer, (void)n;
	(void)begin_revoke(mw);
}

int weir_mw_renew(struct weir_mw *w, uint64_t duration_ns)
{
	uint64_t now = weir_reactor_now(w->r);
	uint32_t state = state_of(w);

	if (state != WEIR_MW_OPEN && state != WEIR_MW_BINDING)
		return why(-ESTALE, "weir_mw_renew: the window is over, or is "
			   "being revoked");
	w->end = duration_ns && duration_ns < UINT64_MAX - now ?
			 now + duration_ns : 0;
	arm(w);
	return 0;
}

int weir_mw_destroy(struct weir_mw *w)
{
	int err = w ? refuse_busy(w, "weir_mw_destroy") : 0;

	if (!err && w && w->posted)
		err = why(-EBUSY, "weir_mw_destroy: its end is revoking it");
	if (!err && w)
		err = mmap_mw_destroy(w->key);
	if (err || !w)
		return err;
	leave(w);
	mw_free(w);
	return 0;
}
