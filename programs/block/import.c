/* SPDX-License-Identifier: CC0-1.0 */
/*
 * A plugin for weir-nbd: memory of another process.
 *
 *	weir-nbd --export=plugin=import.so,args=SOCKET:NAME
 *
 * A program exports it by weir_exporter_create() and weir_exporter_add(), as
 * examples/13-export.c does; clients then read and write that program's memory.
 * When it takes the memory back, they get errors.  There is nothing to flush:
 * what is written is where it belongs.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/export.h>
#include <weir/mmap.h>
#include <weir/op.h>
#include <weir/reactor.h>

#include "plugin.h"

/* With an exporter that says nothing. */
#define TIMEOUT (10 * WEIR_SEC)

struct import {
	struct weir_op op;
	struct weir_mmap *mmap;
	int64_t res;
};

static void on_import(struct weir_op *op, int64_t res)
{
	struct import *import = weir_container_of(op, struct import, op);

	import->res = res;
	import->mmap = weir_mmap_imported(op);
}

/* There is no loop yet, so here is one of our own for as long as it takes. */
static int import_now(struct import *import, const char *path,
		      const char *name, uint32_t permissions)
{
	struct weir_import_opts opts = { .size = sizeof(opts),
					 .flags = WEIR_IMPORT_COPY,
					 .permissions = permissions };
	struct weir_reactor *r;
	int err = weir_reactor_create(&r, NULL);

	if (err)
		return err;
	weir_op_init(&import->op, on_import);
	weir_op_set_deadline(&import->op, weir_reactor_now(r) + TIMEOUT);
	err = weir_mmap_import_from(r, &import->op, path, name, &opts);
	while (!err && weir_op_is_busy(&import->op))
		weir_reactor_turn(r, WEIR_FOREVER);
	weir_reactor_destroy(r);
	return err ? err : (int)import->res;
}

static void import_close(void *mmap)
{
	if (weir_mmap_destroy(mmap))
		fprintf(stderr, "import: %s\n", weir_why());
}

static int import_open(const char *args, uint32_t flags,
		       struct nbd_plugin_export *ret)
{
	uint32_t permissions =
		flags & NBD_PLUGIN_READ_ONLY ? WEIR_MMAP_READ : 0;
	const char *colon = strrchr(args, ':');
	struct import import = { .res = -EIO };
	char *path;
	int err;

	if (!colon)
		return -EINVAL;
	path = strndup(args, (size_t)(colon - args));
	if (!path)
		return -ENOMEM;
	err = import_now(&import, path, colon + 1, permissions);
	free(path);
	if (err)
		return err;
	ret->mmap = import.mmap;
	ret->arg = import.mmap;
	return 0;
}

const struct nbd_plugin nbd_plugin = {
	.size = sizeof(struct nbd_plugin),
	.open = import_open,
	.close = import_close,
};
