/* SPDX-License-Identifier: CC0-1.0 */
/* Exports that a shared object brings: loaded, looked at, and given back. */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include <weir/mmap.h>

#include "backing.h"

#define FLAGS_KNOWN (NBD_PLUGIN_READ_ONLY | NBD_PLUGIN_FILLS)

/* More is no struct of any version. */
#define SIZE_MAX_SANE 4096u

static int refuse(struct block *b, const char *why)
{
	b->why = why;
	return -ELIBBAD;
}

/* What a struct of another version has more or less than ours must be 0. */
static int load_fns(struct block *b, const struct nbd_plugin *theirs)
{
	struct nbd_plugin *fns = &b->plugin.fns;
	const uint8_t *p = (const uint8_t *)theirs;
	size_t n = theirs->size;

	if (n < offsetof(struct nbd_plugin, flush) || n > SIZE_MAX_SANE)
		return refuse(b, "made for no version of weir-nbd");
	for (size_t i = sizeof(*fns); i < n; i++)
		if (p[i])
			return refuse(b, "made for a later weir-nbd");
	memset(fns, 0, sizeof(*fns));
	memcpy(fns, theirs, n < sizeof(*fns) ? n : sizeof(*fns));
	if (!fns->open || !fns->close)
		return refuse(b, "it cannot open or not close");
	return 0;
}

/* dlerror() begins with the path, which the message has already. */
static int refuse_unloaded(struct block *b)
{
	const char *why = dlerror();
	size_t n = strlen(b->plugin.path);

	if (!strncmp(why, b->plugin.path, n) && !strncmp(why + n, ": ", 2))
		why += n + 2;
	return refuse(b, why);
}

static int load(struct block *b)
{
	const struct nbd_plugin *theirs;

	b->plugin.handle = dlopen(b->plugin.path, RTLD_NOW | RTLD_LOCAL);
	if (!b->plugin.handle)
		return refuse_unloaded(b);
	theirs = dlsym(b->plugin.handle, "nbd_plugin");
	if (!theirs)
		return refuse(b, "no plugin: it has no 'nbd_plugin'");
	return load_fns(b, theirs);
}

/* All of an mmap, unless it says less. */
static bool fits_mmap(struct nbd_plugin_export *e)
{
	void *addr;
	size_t len;

	if (!e->mmap)
		return true;
	if (e->domain || weir_mmap_memrange(e->mmap, &addr, &len) ||
	    weir_mmap_state(e->mmap) != WEIR_MMAP_STARTED)
		return false;
	if (!e->bytes)
		e->bytes = len - len % e->block;
	if (!(weir_mmap_permissions(e->mmap) & WEIR_MMAP_WRITE))
		e->flags |= NBD_PLUGIN_READ_ONLY;
	e->addr = (uintptr_t)addr;
	return e->bytes <= len;
}

/* Whether what it brings makes sense; fills in what it may leave out. */
static bool makes_sense(struct nbd_plugin_export *e)
{
	if (!e->block)
		e->block = 1;
	if (e->block > BLOCK_MIN_MAX || e->block & (e->block - 1) ||
	    e->flags & ~FLAGS_KNOWN)
		return false;
	if ((!e->mmap && !e->domain) || !fits_mmap(e))
		return false;
	return e->bytes && e->bytes <= INT64_MAX && e->bytes % e->block == 0 &&
	       e->bytes <= UINT64_MAX - e->addr;
}

static uint32_t can_of(const struct block *b)
{
	uint32_t can = b->plugin.fns.flush ? BLOCK_CAN_FLUSH : 0;

	if (b->read_only)
		return can;
	if (b->plugin.brought.flags & NBD_PLUGIN_FILLS)
		can |= BLOCK_CAN_TRIM;
	return can | BLOCK_CAN_WRITE | BLOCK_CAN_ZERO;
}

int plugin_open(struct block *b)
{
	struct nbd_plugin_export *e = &b->plugin.brought;
	int err = load(b);

	if (err)
		return err;
	*e = (struct nbd_plugin_export){ .size = sizeof(*e) };
	err = b->plugin.fns.open(b->plugin.args,
				 b->read_only ? NBD_PLUGIN_READ_ONLY : 0, e);
	if (err)
		return err < 0 ? err : -EIO;
	b->plugin.open = true;
	if (!makes_sense(e))
		return refuse(b, "what it brings makes no sense");
	b->backing = &domain_backing;
	b->size = e->bytes;
	b->block_min = e->block;
	b->read_only |= e->flags & NBD_PLUGIN_READ_ONLY;
	b->can = can_of(b);
	return 0;
}

void plugin_close(struct block *b)
{
	if (b->plugin.open)
		b->plugin.fns.close(b->plugin.brought.arg);
	b->plugin.open = false;
	if (b->plugin.handle)
		dlclose(b->plugin.handle);
	b->plugin.handle = NULL;
}
