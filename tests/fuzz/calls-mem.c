/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls to mmaps, bufs, pools, inventories, and memory of devices. */

#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/calls.h"

/* Mmaps. */

static void on_free(void *addr, size_t len, void *arg)
{
	struct object *o = arg;

	MUST(!o->mem || (addr == o->mem && len == MEMORY));
	act(NULL);
}

static void call_mmap_create(struct core *c)
{
	struct object *o = object_new(A_MMAP, NULL);
	struct weir_mmap *mmap;

	(void)c;
	if (o)
		object_made(o, &mmap, CALL(weir_mmap_create, &mmap, NULL));
}

static void call_mmap_set_memrange(struct core *c)
{
	struct object *o = any(A_MMAP);
	char *mem;

	(void)c;
	if (!o)
		return;
	mem = aligned_alloc(4096, MEMORY);
	MUST(mem);
	memset(mem, 0, MEMORY);
	if (CALL(weir_mmap_set_memrange, o->h, mem, MEMORY))
		free(mem);
	else
		o->mem = mem;
}

static void call_mmap_alloc(struct core *c)
{
	struct object *o = any(A_MMAP);

	(void)c;
	if (o)
		(void)CALL(weir_mmap_alloc, o->h, MEMORY,
			   rnd(4) ? WEIR_MMAP_ALLOC_MEMFD : 0);
}

static void call_mmap_set_fd(struct core *c)
{
	struct object *o = any(A_MMAP);
	int fd;

	(void)c;
	if (!o)
		return;
	fd = memfd_create("calls", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	MUST(fd >= 0 && !ftruncate(fd, MEMORY));
	(void)CALL(weir_mmap_set_fd, o->h, fd, 0, MEMORY,
		   rnd(2) * WEIR_MMAP_FD_TRUSTED);
	(void)CALL(weir_mmap_set_dmabuf, o->h, fd, 0, MEMORY);
	close(fd);
}

static void call_mmap_set_dm(struct core *c)
{
	struct object *o = any(A_MMAP), *dm = any(A_DM);

	(void)c;
	if (o && dm)
		(void)CALL(weir_mmap_set_dm, o->h, dm->h, 0, 64);
}

static void call_mmap_set_domain(struct core *c)
{
	struct object *o = any(A_MMAP), *domain = any(A_DOMAIN);

	(void)c;
	if (o && domain)
		(void)CALL(weir_mmap_set_domain, o->h, domain->h, rnd(128), 64);
}

static void call_mmap_set_permissions(struct core *c)
{
	struct object *o = any(A_MMAP);

	(void)c;
	if (o)
		(void)CALL(weir_mmap_set_permissions, o->h,
			   rnd(8) ? WEIR_MMAP_READ | WEIR_MMAP_WRITE |
				    WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE :
				    rnd(16));
}

static void call_mmap_set_free_cb(struct core *c)
{
	struct object *o = any(A_MMAP);

	(void)c;
	if (o)
		(void)CALL(weir_mmap_set_free_cb, o->h,
			   rnd(4) ? on_free : NULL, o);
}

static void call_mmap_set(struct core *c)
{
	struct object *o = any(A_MMAP), *dev = any(A_DEVICE);

	(void)c;
	if (!o)
		return;
	(void)CALL(weir_mmap_set_user_data, o->h, o);
	(void)CALL(weir_mmap_set_max_devices, o->h, rnd(4));
	if (!dev)
		return;
	(void)CALL(weir_mmap_add_device, o->h, dev->h);
	(void)CALL(weir_mmap_keys, o->h, dev->h, NULL, NULL);
	(void)CALL(weir_mmap_rm_device, o->h, dev->h);
}

static void call_mmap_start(struct core *c)
{
	struct object *o = any(A_MMAP);

	(void)c;
	if (o)
		(void)CALL(weir_mmap_start, o->h);
}

static void call_mmap_stop(struct core *c)
{
	struct object *o = any(A_MMAP);
	struct task *t;

	if (!o)
		return;
	if (rnd(2)) {
		(void)CALL(weir_mmap_stop, o->h, NULL, NULL);
		return;
	}
	t = task_new(c);
	if (!t)
		return;
	t->any_errno = true;
	START(t, weir_mmap_stop, o->h, c->r, OP(t));
}

static void call_mmap_drain(struct core *c)
{
	struct object *o = any(A_MMAP);
	struct task *t = o ? task_new(c) : NULL;

	if (!t)
		return;
	t->any_errno = true;
	START(t, weir_mmap_drain, o->h, c->r, OP(t));
}

static void call_mmap_destroy(struct core *c)
{
	struct object *o = any(A_MMAP);

	(void)c;
	if (o)
		object_destroy(o);
}

static void call_mmap_get(struct core *c)
{
	struct object *o = any(A_MMAP);
	const char *why;
	size_t len;
	void *addr;

	if (!o)
		return;
	(void)GOT(weir_mmap_state, o->h);
	(void)CALL(weir_mmap_memrange, o->h, &addr, &len);
	(void)GOT(weir_mmap_permissions, o->h);
	(void)GOT(weir_mmap_domain, o->h);
	(void)GOT(weir_mmap_is_exported, o->h);
	(void)GOT(weir_mmap_is_imported, o->h);
	(void)GOT(weir_mmap_is_stale, o->h);
	(void)GOT(weir_mmap_num_bufs, o->h);
	(void)GOT(weir_mmap_num_devices, o->h);
	(void)GOT(weir_mmap_max_devices, o->h);
	(void)GOT(weir_mmap_user_data, o->h);
	(void)GOT(weir_mmap_page_size, o->h, &why);
	(void)CALL(weir_mmap_registered, o->h, c->r, &why);
}

/* Pools and inventories. */

static void call_pool_create(struct core *c)
{
	struct weir_pool_opts opts = { .size = sizeof(opts) };
	struct object *o = object_new(A_POOL, c);
	struct object *mmap = any(A_MMAP), *shared = any(A_SHARED_POOL);
	struct weir_pool *pool;

	if (!o)
		return;
	opts.flags = WEIR_POOL_NO_HUGE | rnd(2) * WEIR_POOL_NO_REGISTER;
	if (shared && rnd(2)) {
		opts.shared_pool = shared->h;
		opts.cache = rnd(3);
	} else {
		opts.bufs = 2;
		opts.buf_size = 2048;
		if (mmap && one_in(3))
			opts.mmap = mmap->h;
	}
	opts.waiters_max = rnd(3);
	object_made(o, &pool, CALL(weir_pool_create, &pool, c->r, &opts));
}

static void call_pool_destroy(struct core *c)
{
	struct object *o = any(A_POOL);

	(void)c;
	if (o)
		object_destroy(o);
}

static struct object *keep_buf(struct weir_buf *buf, struct core *c)
{
	struct object *o = object_new(A_BUF, c);

	if (o)
		o->h = buf;
	else
		CALLV(weir_buf_put, buf);
	return o;
}

/* Its memory is another buf's, too: not for jobs. */
static void keep_twin(struct weir_buf *buf, struct core *c)
{
	struct object *o = keep_buf(buf, c);

	if (o)
		o->flag = true;
}

static void call_pool_get(struct core *c)
{
	struct object *o = any(A_POOL);
	struct weir_buf *buf;

	(void)c;
	if (o && !CALL(weir_pool_get, &buf, o->h))
		keep_buf(buf, o->core);
}

static void call_pool_get_sized(struct core *c)
{
	struct object *o = any(A_POOL);
	struct weir_buf *buf;

	(void)c;
	if (o && !CALL(weir_pool_get_sized, &buf, o->h, rnd(4096)))
		keep_buf(buf, o->core);
}

static void call_pool_get_bulk(struct core *c)
{
	struct object *o = any(A_POOL);
	struct weir_buf *bufs[2];

	(void)c;
	if (o && !CALL(weir_pool_get_bulk, bufs, o->h, 0, 2)) {
		keep_buf(bufs[0], o->core);
		keep_buf(bufs[1], o->core);
	}
}

static void pool_waited(struct task *t, int64_t res)
{
	struct weir_buf *buf = GOT(weir_pool_taken, OP(t));

	MUST((res >= 0) == (buf != NULL));
	if (buf)
		keep_buf(buf, t->core);
}

static void call_pool_wait(struct core *c)
{
	struct object *o = any(A_POOL);
	struct task *t = o ? task_new(o->core) : NULL;

	(void)c;
	if (!t)
		return;
	t->end = pool_waited;
	START(t, weir_pool_wait, o->h, OP(t));
}

static void call_pool_wait_sized(struct core *c)
{
	struct object *o = any(A_POOL);
	struct task *t = o ? task_new(o->core) : NULL;

	(void)c;
	if (!t)
		return;
	t->end = pool_waited;
	START(t, weir_pool_wait_sized, o->h, OP(t), rnd(4096));
}

static void call_pool_grow(struct core *c)
{
	struct object *o = any(A_POOL);

	(void)c;
	if (o)
		(void)CALL(weir_pool_grow, o->h, 1);
}

static void call_pool_get_stats(struct core *c)
{
	struct weir_pool_stats stats = { .size = sizeof(stats) };
	struct object *o = any(A_POOL);
	struct weir_buf_owner owner;

	(void)c;
	if (!o)
		return;
	MUST(!CALL(weir_pool_stats, o->h, &stats));
	MUST(stats.free + stats.out + stats.in_transit == stats.total);
	(void)GOT(weir_pool_owners, o->h, &owner, 1);
	(void)GOT(weir_pool_mmap, o->h);
	(void)GOT(weir_pool_buf_size, o->h);
	(void)GOT(weir_pool_reactor, o->h);
}

/* That of a pool, too. */
struct weir_mmap *some_mmap(void)
{
	struct object *o = any(rnd(4) ? A_MMAP : A_POOL);

	if (!o)
		return NULL;
	return o->what == A_POOL ? GOT(weir_pool_mmap, o->h) : o->h;
}

static void call_inventory_create(struct core *c)
{
	struct weir_inventory_opts opts = { .size = sizeof(opts) };
	struct object *o = object_new(AN_INVENTORY, c);
	struct weir_inventory *inventory;

	if (!o)
		return;
	opts.bufs = 3;
	opts.mmaps = 2;
	object_made(o, &inventory, CALL(weir_inventory_create, &inventory,
					c->r, &opts));
}

static void call_inventory_destroy(struct core *c)
{
	struct object *o = any(AN_INVENTORY);

	(void)c;
	if (o)
		object_destroy(o);
}

static void call_inventory_attach(struct core *c)
{
	struct object *o = any(AN_INVENTORY);
	struct weir_mmap *mmap = some_mmap();

	(void)c;
	if (o && mmap)
		(void)CALL(weir_inventory_attach, o->h, mmap);
}

static void call_inventory_detach(struct core *c)
{
	struct object *o = any(AN_INVENTORY), *mmap = any(A_MMAP);

	(void)c;
	if (o && mmap)
		(void)CALL(weir_inventory_detach, o->h, mmap->h);
}

static void call_inventory_get(struct core *c)
{
	struct object *o = any(AN_INVENTORY);
	bool is_pools = one_in(4);
	struct object *of = any(is_pools ? A_POOL : A_MMAP);
	struct weir_mmap *mmap;
	struct weir_buf *buf;
	size_t len;
	char *addr;
	void *at;

	(void)c;
	if (!o || !of)
		return;
	mmap = is_pools ? GOT(weir_pool_mmap, of->h) : of->h;
	if (weir_mmap_memrange(mmap, &at, &len))
		return;
	addr = at;
	if (!CALL(weir_inventory_get, &buf, o->h, mmap,
		  addr + w.windows++ % 60 * 64, 64, NULL, rnd(2) * 32)) {
		if (is_pools)
			keep_twin(buf, o->core);
		else
			keep_buf(buf, o->core);
	}
}

static void call_inventory_dup(struct core *c)
{
	struct object *o = any(AN_INVENTORY), *of = any(A_BUF);
	struct weir_buf *buf;

	(void)c;
	if (o && of && !CALL(weir_inventory_dup, &buf, o->h, of->h))
		keep_twin(buf, o->core);
}

static void call_inventory_expand(struct core *c)
{
	struct object *o = any(AN_INVENTORY);

	(void)c;
	if (o)
		(void)CALL(weir_inventory_expand, o->h, 1);
}

static void call_inventory_stats(struct core *c)
{
	struct weir_inventory_stats stats = { .size = sizeof(stats) };
	struct object *o = any(AN_INVENTORY);

	(void)c;
	if (!o)
		return;
	MUST(!CALL(weir_inventory_stats, o->h, &stats));
	MUST(stats.free + stats.out == stats.total);
}

/* Bufs: each object is the head of a list, and has one reference. */

static void call_buf_put(struct core *c)
{
	struct object *o = any(A_BUF);

	(void)c;
	if (o)
		object_destroy(o);
}

static void call_buf_ref(struct core *c)
{
	struct object *o = any(A_BUF);

	(void)c;
	if (o && !o->flag && !CALL(weir_buf_ref, o->h))
		keep_buf(o->h, o->core);
}

static void call_buf_chain(struct core *c)
{
	struct object *o = any(A_BUF), *tail = any(A_BUF);

	(void)c;
	if (o && tail && o->flag == tail->flag &&
	    !CALL(weir_buf_chain, o->h, tail->h))
		object_free(tail);
}

static void call_buf_unchain(struct core *c)
{
	struct object *o = any(A_BUF);
	struct weir_buf *next;

	(void)c;
	next = o ? GOT(weir_buf_next, o->h) : NULL;
	if (next && !CALL(weir_buf_unchain, o->h, next)) {
		if (o->flag)
			keep_twin(next, o->core);
		else
			keep_buf(next, o->core);
	}
}

static void call_buf_set(struct core *c)
{
	struct object *o = any(A_BUF);
	void *addr;

	(void)c;
	if (!o)
		return;
	addr = GOT(weir_buf_addr, o->h);
	(void)CALL(weir_buf_set_data, o->h, addr, rnd(5000));
	if (rnd(2))
		(void)CALL(weir_buf_reset, o->h);
	CALLV(weir_buf_set_tag, o->h, "calls");
}

static void call_buf_get(struct core *c)
{
	struct object *o = any(A_BUF);
	uint32_t n;

	if (!o)
		return;
	if (GOT(weir_buf_hold, o->h, c->r, &n) >= 0)
		CALLV(weir_buf_release, o->h, c->r);
	MUST(GOT(weir_buf_refs, o->h));
	MUST(GOT(weir_buf_headroom, o->h) + GOT(weir_buf_data_len, o->h) +
	     GOT(weir_buf_tailroom, o->h) == GOT(weir_buf_len, o->h));
	(void)GOT(weir_buf_data, o->h);
	(void)GOT(weir_buf_tag, o->h);
	(void)GOT(weir_buf_mmap, o->h);
	(void)GOT(weir_buf_next, o->h);
	(void)GOT(weir_buf_last, o->h);
	(void)GOT(weir_buf_is_in_list, o->h);
	MUST(CALL(weir_buf_list_len, o->h) > 0);
	(void)GOT(weir_buf_list_data_len, o->h);
}

/* Shared pools. */

static void call_shared_pool_create(struct core *c)
{
	struct weir_shared_pool_class classes[] = {
		{ .buf_size = 1024, .bufs = 4 },
		{ .buf_size = 2048, .bufs = 2 },
	};
	struct weir_shared_pool_opts opts = {
		.size = sizeof(opts),
		.classes = classes,
		.n_classes = 2,
		.flags = WEIR_SHARED_POOL_NO_HUGE,
	};
	struct object *o = object_new(A_SHARED_POOL, NULL);
	struct weir_shared_pool *shared;

	(void)c;
	if (o)
		object_made(o, &shared, CALL(weir_shared_pool_create, &shared,
					     &opts));
}

static void call_shared_pool_destroy(struct core *c)
{
	struct object *o = any(A_SHARED_POOL);

	(void)c;
	if (o)
		object_destroy(o);
}

static void call_shared_pool_grow(struct core *c)
{
	struct object *o = any(A_SHARED_POOL);

	(void)c;
	if (o)
		(void)CALL(weir_shared_pool_grow, o->h, 1024 + rnd(2) * 1024,
			   1);
}

static void call_shared_pool_stats(struct core *c)
{
	struct weir_shared_pool_stats stats = { .size = sizeof(stats) };
	struct object *o = any(A_SHARED_POOL);
	char text[256];

	(void)c;
	if (!o)
		return;
	MUST(!CALL(weir_shared_pool_stats, o->h, 0, &stats));
	MUST(stats.free + stats.held + stats.in_transit == stats.total);
	(void)GOT(weir_shared_pool_describe, o->h, text, sizeof(text));
}

static void call_shared_pool_count(struct core *c)
{
	struct object *o = any(A_SHARED_POOL);
	struct task *t = o ? task_new(c) : NULL;

	if (!t)
		return;
	t->count.size = sizeof(t->count);
	START(t, weir_shared_pool_count, o->h, c->r, OP(t), &t->count);
}

/* Devices, and their memory. */

static void call_device_list(struct core *c)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_devinfo **list;
	struct weir_device *dev;
	struct object *o;
	size_t n;

	(void)c;
	MUST(!CALL(weir_device_list, &list, &n));
	o = n ? object_new(A_DEVICE, NULL) : NULL;
	if (o) {
		(void)CALL(weir_devinfo_caps, list[0], &caps);
		object_made(o, &dev, CALL(weir_device_open, &dev, list[0]));
	}
	CALLV(weir_device_list_free, list);
}

static void call_device_open_name(struct core *c)
{
	struct object *o = object_new(A_DEVICE, NULL);
	struct weir_device *dev;

	(void)c;
	if (o)
		object_made(o, &dev, CALL(weir_device_open_name, &dev,
					  "soft-dm"));
}

static void call_device_close(struct core *c)
{
	struct object *o = any(A_DEVICE);

	(void)c;
	if (o)
		object_destroy(o);
}

static void call_device_info(struct core *c)
{
	struct object *o = any(A_DEVICE);

	(void)c;
	if (o)
		MUST(GOT(weir_device_info, o->h));
}

static void call_dm_alloc(struct core *c)
{
	struct object *dev = any(A_DEVICE), *o;
	struct weir_dm *dm;

	(void)c;
	o = dev ? object_new(A_DM, NULL) : NULL;
	if (o)
		object_made(o, &dm, CALL(weir_dm_alloc, &dm, dev->h, 64, 2));
}

static void call_dm_free(struct core *c)
{
	struct object *o = any(A_DM);

	(void)c;
	if (o)
		object_destroy(o);
}

static void call_dm_copy(struct core *c)
{
	struct object *o = any(A_DM);
	char mem[64] = { 0 };
	int fd;

	(void)c;
	if (!o)
		return;
	(void)CALL(weir_dm_copy_to, o->h, rnd(3) * 2, mem, 32);
	(void)CALL(weir_dm_copy_from, mem, o->h, rnd(3) * 2, 32);
	(void)GOT(weir_dm_len, o->h);
	(void)GOT(weir_dm_device, o->h);
	(void)GOT(weir_dm_is_imported, o->h);
	fd = (int)CALL(weir_dm_dmabuf_fd, o->h);
	if (fd >= 0)
		close(fd);
}

static void call_dm_export(struct core *c)
{
	struct weir_dm_token token = { .size = sizeof(token), .fd = -1 };
	struct object *dm = any(A_DM), *o;
	struct weir_device *dev;
	struct weir_dm *imported;

	(void)c;
	o = dm ? object_new(A_DM, NULL) : NULL;
	if (!o)
		return;
	if (CALL(weir_dm_export, dm->h, &token)) {
		object_free(o);
		return;
	}
	dev = GOT(weir_dm_device, dm->h);
	object_made(o, &imported, CALL(weir_dm_import, &imported, dev,
				       &token));
	if (token.fd >= 0)
		close(token.fd);
}

const struct call calls_mem[] = {
	{ "weir_mmap_create", call_mmap_create, 16 },
	{ "weir_mmap_set_memrange", call_mmap_set_memrange, 8 },
	{ "weir_mmap_alloc", call_mmap_alloc, 16 },
	{ "weir_mmap_set_fd", call_mmap_set_fd, 2 },
	{ "weir_mmap_set_dm", call_mmap_set_dm, 1 },
	{ "weir_mmap_set_domain", call_mmap_set_domain, 1 },
	{ "weir_mmap_set_permissions", call_mmap_set_permissions, 24 },
	{ "weir_mmap_set_free_cb", call_mmap_set_free_cb, 12 },
	{ "weir_mmap_set_user_data", call_mmap_set, 4 },
	{ "weir_mmap_start", call_mmap_start, 32 },
	{ "weir_mmap_stop", call_mmap_stop, 12 },
	{ "weir_mmap_drain", call_mmap_drain, 6 },
	{ "weir_mmap_destroy", call_mmap_destroy, 12 },
	{ "weir_mmap_state", call_mmap_get, 4 },
	{ "weir_pool_create", call_pool_create, 10 },
	{ "weir_pool_destroy", call_pool_destroy, 8 },
	{ "weir_pool_get", call_pool_get, 16 },
	{ "weir_pool_get_sized", call_pool_get_sized, 6 },
	{ "weir_pool_get_bulk", call_pool_get_bulk, 6 },
	{ "weir_pool_wait", call_pool_wait, 24 },
	{ "weir_pool_wait_sized", call_pool_wait_sized, 12 },
	{ "weir_pool_grow", call_pool_grow, 2 },
	{ "weir_pool_stats", call_pool_get_stats, 4 },
	{ "weir_inventory_create", call_inventory_create, 8 },
	{ "weir_inventory_destroy", call_inventory_destroy, 4 },
	{ "weir_inventory_attach", call_inventory_attach, 24 },
	{ "weir_inventory_detach", call_inventory_detach, 6 },
	{ "weir_inventory_get", call_inventory_get, 48 },
	{ "weir_inventory_dup", call_inventory_dup, 12 },
	{ "weir_inventory_expand", call_inventory_expand, 1 },
	{ "weir_inventory_stats", call_inventory_stats, 4 },
	{ "weir_buf_put", call_buf_put, 64 },
	{ "weir_buf_ref", call_buf_ref, 8 },
	{ "weir_buf_chain", call_buf_chain, 12 },
	{ "weir_buf_unchain", call_buf_unchain, 8 },
	{ "weir_buf_set_data", call_buf_set, 16 },
	{ "weir_buf_len", call_buf_get, 4 },
	{ "weir_shared_pool_create", call_shared_pool_create, 2 },
	{ "weir_shared_pool_destroy", call_shared_pool_destroy, 2 },
	{ "weir_shared_pool_grow", call_shared_pool_grow, 1 },
	{ "weir_shared_pool_stats", call_shared_pool_stats, 4 },
	{ "weir_shared_pool_count", call_shared_pool_count, 6 },
	{ "weir_device_list", call_device_list, 1 },
	{ "weir_device_open_name", call_device_open_name, 4 },
	{ "weir_device_close", call_device_close, 4 },
	{ "weir_device_info", call_device_info, 1 },
	{ "weir_dm_alloc", call_dm_alloc, 4 },
	{ "weir_dm_free", call_dm_free, 4 },
	{ "weir_dm_copy_to", call_dm_copy, 2 },
	{ "weir_dm_export", call_dm_export, 2 },
	{ NULL, NULL, 0 },
};
