/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Memory between the file and the connection, known to the RDMA device.
 *
 * The client exports its own, for as long as the transfer takes, and for
 * nothing but what the server is to do with it: read it or write it.  The
 * server imports that, and exports nothing: no client ever has a key to its
 * memory.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <string.h>

#include <weir/device.h>
#include <weir/export.h>
#include <weir/rdma/export.h>

#include "weir-rdma.h"

static int open_device(struct transfer *t)
{
	struct weir_conn_info info = { .size = sizeof(info) };
	int err = weir_conn_info(t->conn, &info);

	return err ? err : weir_device_open_name(&t->staging.device,
						 info.device);
}

/* Behind the slots there is space for one long message. */
int staging_create(struct transfer *t, uint32_t permissions)
{
	uint32_t n = t->serving ? t->bufs : t->slots;
	struct staging *s = &t->staging;
	void *base = NULL;
	int err = open_device(t);

	if (!err)
		err = weir_mmap_create(&s->mmap, NULL);
	if (!err)
		err = weir_mmap_alloc(s->mmap, n * t->block + NOTE_BYTES, 0);
	if (!err)
		err = weir_mmap_set_permissions(s->mmap, permissions |
						WEIR_MMAP_READ |
						WEIR_MMAP_WRITE);
	if (!err)
		err = weir_mmap_add_device(s->mmap, s->device);
	if (!err)
		err = weir_mmap_start(s->mmap);
	if (!err)
		err = weir_mmap_memrange(s->mmap, &base, NULL);
	if (!err)
		err = weir_inventory_create(&s->inventory, t->app->reactor,
					    NULL);
	if (!err)
		err = weir_inventory_attach(s->inventory, s->mmap);
	s->base = base;
	return err;
}

int staging_export(struct transfer *t, struct note *hello)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_export_rdma_opts opts = {
		.size = sizeof(opts),
		.len = t->slots * t->block,
	};
	int err = weir_mmap_export_rdma(t->staging.mmap, t->staging.device,
					&opts, &desc);

	if (err)
		return err;
	hello->desc = desc.bytes;
	hello->desc_len = desc.len;
	return 0;
}

/* The bytes come from a stranger; the library looks at all of them. */
static int import(struct transfer *t, const struct note *hello)
{
	struct staging *s = &t->staging;
	void *base = NULL;
	size_t len = 0;
	int err = weir_domain_remote_create(&s->there, NULL);

	if (!err)
		err = weir_conn_attach(t->conn, s->there);
	s->attached = !err;
	if (!err)
		err = weir_mmap_import_rdma(&s->theirs, s->there, hello->desc,
					    hello->desc_len, NULL);
	if (!err)
		err = weir_mmap_memrange(s->theirs, &base, &len);
	s->their_base = base;
	if (!err && len < t->slots * t->block)
		err = -ERANGE;
	return err;
}

int staging_import(struct transfer *t, const struct note *hello)
{
	struct staging *s = &t->staging;
	struct weir_pool_opts opts = {
		.size = sizeof(opts),
		.bufs = t->bufs,
		.buf_size = t->block,
	};
	int err = import(t, hello);

	opts.mmap = s->mmap;
	if (!err)
		err = weir_inventory_attach(s->inventory, s->theirs);
	if (!err)
		err = weir_pool_create(&s->pool, t->app->reactor, &opts);
	return err;
}

void staging_destroy(struct transfer *t)
{
	struct staging *s = &t->staging;

	weir_pool_destroy(s->pool);
	weir_inventory_destroy(s->inventory);
	weir_mmap_destroy(s->theirs);
	if (s->attached)
		weir_conn_detach(t->conn, s->there);
	weir_domain_destroy(s->there);
	weir_mmap_destroy(s->mmap);
	weir_device_close(s->device);
	memset(s, 0, sizeof(*s));
}
