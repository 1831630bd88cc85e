/* SPDX-License-Identifier: CC0-1.0 */
/* Exports that a shared object brings: loaded, looked at, and given back. */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include <weir/mmap.h>

#include "weir-nbd.h"

#define FLAGS_KNOWN (NBD_PLUGIN_READ_ONLY | NBD_PLUGIN_FILLS)
#define FLAGS_ALWAYS (NBD_FLAG_HAS_FLAGS | NBD_FLAG_CAN_MULTI_CONN)
#define FLAGS_TO_FLUSH (NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA)
#define FLAGS_TO_WRITE (NBD_FLAG_SEND_WRITE_ZEROES | NBD_FLAG_SEND_FAST_ZERO)

/* More is no struct of any version. */
#define SIZE_MAX_SANE 4096u

static int refuse(struct export *x, const char *why)
{
	x->why = why;
	return -ELIBBAD;
}

/* What a struct of another version has more or less than ours must be 0. */
static int load_fns(struct export *x, const struct nbd_plugin *theirs)
{
	struct nbd_plugin *fns = &x->plugin.fns;
	const uint8_t *p = (const uint8_t *)theirs;
	size_t n = theirs->size;

	if (n < offsetof(struct nbd_plugin, flush) || n > SIZE_MAX_SANE)
		return refuse(x, "made for no version of weir-nbd");
	for (size_t i = sizeof(*fns); i < n; i++)
		if (p[i])
			return refuse(x, "made for a later weir-nbd");
	memset(fns, 0, sizeof(*fns));
	memcpy(fns, theirs, n < sizeof(*fns) ? n : sizeof(*fns));
	if (!fns->open || !fns->close)
		return refuse(x, "it cannot open or not close");
	return 0;
}

/* dlerror() begins with the path, which the message has already. */
static int refuse_unloaded(struct export *x)
{
	const char *why = dlerror();
	size_t n = strlen(x->plugin.path);

	if (!strncmp(why, x->plugin.path, n) && !strncmp(why + n, ": ", 2))
		why += n + 2;
	return refuse(x, why);
}

static int load(struct export *x)
{
	const struct nbd_plugin *theirs;

	x->plugin.handle = dlopen(x->plugin.path, RTLD_NOW | RTLD_LOCAL);
	if (!x->plugin.handle)
		return refuse_unloaded(x);
	theirs = dlsym(x->plugin.handle, "nbd_plugin");
	if (!theirs)
		return refuse(x, "no plugin: it has no 'nbd_plugin'");
	return load_fns(x, theirs);
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
	if (e->block > CELL || e->block & (e->block - 1) ||
	    e->flags & ~FLAGS_KNOWN)
		return false;
	if ((!e->mmap && !e->domain) || !fits_mmap(e))
		return false;
	return e->bytes && e->bytes <= INT64_MAX && e->bytes % e->block == 0 &&
	       e->bytes <= UINT64_MAX - e->addr;
}

static uint16_t flags_of(const struct export *x)
{
	unsigned int flags = FLAGS_ALWAYS;

	if (x->plugin.fns.flush)
		flags |= FLAGS_TO_FLUSH;
	if (x->read_only)
		return (uint16_t)(flags | NBD_FLAG_READ_ONLY);
	if (x->plugin.brought.flags & NBD_PLUGIN_FILLS)
		flags |= NBD_FLAG_SEND_TRIM;
	return (uint16_t)(flags | FLAGS_TO_WRITE);
}

int plugin_open(struct export *x)
{
	struct nbd_plugin_export *e = &x->plugin.brought;
	int err = load(x);

	if (err)
		return err;
	*e = (struct nbd_plugin_export){ .size = sizeof(*e) };
	err = x->plugin.fns.open(x->plugin.args,
				 x->read_only ? NBD_PLUGIN_READ_ONLY : 0, e);
	if (err)
		return err < 0 ? err : -EIO;
	x->plugin.open = true;
	if (!makes_sense(e))
		return refuse(x, "what it brings makes no sense");
	x->backing = &domain_backing;
	x->size = e->bytes;
	x->block_min = e->block;
	x->read_only |= e->flags & NBD_PLUGIN_READ_ONLY;
	x->flags = flags_of(x);
	return 0;
}

void plugin_close(struct export *x)
{
	if (x->plugin.open)
		x->plugin.fns.close(x->plugin.brought.arg);
	x->plugin.open = false;
	if (x->plugin.handle)
		dlclose(x->plugin.handle);
	x->plugin.handle = NULL;
}
