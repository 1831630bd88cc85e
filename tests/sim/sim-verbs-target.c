/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an end may reach: memory that the other end exports.  It may be stopped
 * at any time; what comes later must be an error there, and change nothing.
 */

#include "tests/sim/sim-verbs.h"

#include <stdlib.h>

#include <weir/rdma/export.h>

static void *some_memory(size_t len)
{
	void *mem = aligned_alloc(4096, len);

	must(mem, "memory for the scenario", "%zu bytes", len);
	return mem;
}

static struct weir_mmap *make_mmap(struct program *p, void *mem, size_t len,
				   uint32_t perms)
{
	struct weir_mmap *m = NULL;
	int err = weir_mmap_create(&m, NULL);

	if (!err)
		err = weir_mmap_set_memrange(m, mem, len);
	if (!err)
		err = weir_mmap_set_permissions(m, WEIR_MMAP_READ |
						WEIR_MMAP_WRITE | perms);
	if (!err)
		err = weir_mmap_add_device(m, p->device);
	must(!err, "an mmap can be made", "%d: %s", err, weir_why());
	return m;
}

static void start(struct weir_mmap *m)
{
	int err = weir_mmap_start(m);

	must(!err, "an mmap can be started", "%d: %s", err, weir_why());
}

struct weir_mmap *target_mmap(struct end *e, void *mem, size_t len,
			      uint32_t perms)
{
	struct weir_mmap *m = make_mmap(e->link->program, mem, len, perms);

	start(m);
	return m;
}

void target_set_up(struct end *e)
{
	struct weir_inventory_opts inv = { .size = sizeof(inv), .bufs = 64 };
	struct program *p = e->link->program;
	int err;

	e->mem = some_memory(END_MEM);
	e->near = target_mmap(e, e->mem, END_MEM, 0);
	e->target.mem = some_memory(SLOTS * CAPACITY);
	e->target.theirs =
		make_mmap(p, e->target.mem, SLOTS * CAPACITY,
			  WEIR_MMAP_RDMA_READ | WEIR_MMAP_RDMA_WRITE |
				  WEIR_MMAP_RDMA_ATOMIC);
	err = weir_domain_remote_create(&e->there, NULL);
	if (!err)
		err = weir_inventory_create(&e->inventory, e->host->r, &inv);
	if (!err)
		err = weir_inventory_attach(e->inventory, e->near);
	must(!err, "an inventory can be made", "%d: %s", err, weir_why());
	target_open(e);
}

/* Exported there, imported here. */
void target_open(struct end *e)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct target *t = &e->target;
	int err;

	start(t->theirs);
	err = weir_mmap_export_rdma(t->theirs, e->link->program->device, NULL,
				    &desc);
	if (!err)
		err = weir_mmap_import_rdma(&t->ours, e->there, desc.bytes,
					    desc.len, NULL);
	if (!err)
		err = weir_inventory_attach(e->inventory, t->ours);
	if (!err)
		err = weir_mmap_keys(t->theirs, e->link->program->device, NULL,
				     &t->rkey);
	must(!err, "what is exported can be imported", "%d: %s", err,
	     weir_why());
	t->is_open = true;
}

void target_close(struct end *e)
{
	struct target *t = &e->target;
	int err = weir_inventory_detach(e->inventory, t->ours);

	if (!err)
		err = weir_mmap_destroy(t->ours);
	must(!err, "an import that nobody uses can go", "%d: %s", err,
	     weir_why());
	t->ours = NULL;
}

void target_revoke(struct end *e)
{
	struct target *t = &e->target;
	int err = weir_mmap_stop(t->theirs, NULL, NULL);

	must(!err, "an exporter can stop at any time", "%d: %s", err,
	     weir_why());
	t->is_open = false;
	t->revoked++;
}

void target_take_down(struct end *e)
{
	int err;

	target_close(e);
	err = weir_inventory_destroy(e->inventory);
	if (!err)
		err = weir_mmap_destroy(e->near);
	if (!err)
		err = weir_mmap_destroy(e->target.theirs);
	if (!err)
		err = weir_domain_destroy(e->there);
	must(!err, "nobody uses the memory", "%d: %s", err, weir_why());
	free(e->mem);
	free(e->target.mem);
}
