/* SPDX-License-Identifier: CC0-1.0 */
#ifndef WEIR_NBD_PLUGIN_H
#define WEIR_NBD_PLUGIN_H

/*
 * A plugin: a shared object that brings weir-nbd an export of its own, which is
 * memory in a domain of weir.  The server moves bytes by jobs (<weir/job.h>):
 * whatever a job can reach can be served.
 *
 *	#include <weir-nbd/plugin.h>
 *
 *	const struct nbd_plugin nbd_plugin = {
 *		.size = sizeof(struct nbd_plugin),
 *		.open = open_it,
 *		.close = close_it,
 *		.flush = flush_it,
 *	};
 *
 *	cc -shared -fPIC -o mine.so mine.c $(pkg-config --cflags --libs weir)
 *	weir-nbd --export=name=mine,plugin=./mine.so,args=TEXT
 *
 * A plugin is linked with the shared libweir, as the server is, so that there
 * is one of it in the process.  cipher.c and import.c are two that are
 * complete.
 *
 * Jobs run on all cores of the server at the same time, and so do the functions
 * of a user's domain (<weir/domain-user.h>): nothing keeps two of them from the
 * same bytes, if clients do not.  A function that has no capacity returns
 * -EAGAIN and is called again a little later.  An error becomes one of the
 * protocol's:
 * -ENOSPC stays itself, what the protocol does not know is its EIO.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_domain;
struct weir_mmap;
struct weir_op;
struct weir_reactor;

/* Flags. */
#define NBD_PLUGIN_READ_ONLY 1u /* Nothing is written. */
#define NBD_PLUGIN_FILLS \
	2u /* The domain's fill is faster than a write, or
				 * gives capacity back: trims and fast zeroes
				 * are done by it, and are refused otherwise. */

/*
 * What is served: either an mmap that is started, all of it or its first .bytes
 * bytes; or .bytes bytes from .addr on of a domain.  It must stay until it is
 * closed.  Everything else may stay 0, as it is when the plugin is asked.
 */
struct nbd_plugin_export {
	size_t size; /* What the server has capacity for. */
	uint64_t bytes;
	struct weir_mmap *mmap;
	struct weir_domain *domain;
	uint64_t addr;
	void *arg; /* For .close and .flush. */
	uint32_t block; /* Requests are multiples of it: a power of 2,
				 * up to 4096; 0: any number of bytes. */
	uint32_t flags; /* NBD_PLUGIN_ */
};

/*
 * What a plugin has.  .size is that of the struct when it was compiled: a
 * plugin that is older than the server lacks what is not there; one that is
 * newer is refused if it uses what the server does not know.
 */
struct nbd_plugin {
	size_t size;

	/*
	 * Open the export that @args means ("" if there are none) and say in
	 * *@ret what it is.  @flags may have NBD_PLUGIN_READ_ONLY.  Called once
	 * for each --export, before there are clients; it may block.
	 *
	 * Returns 0, or a negative errno, and then no client is served; it
	 * may say more on stderr.
	 */
	int (*open)(const char *args, uint32_t flags,
		    struct nbd_plugin_export *ret);

	/*
	 * It is not used any more: no job is in flight, and no reactor has it
	 * attached.  Called once for each open that has returned 0.
	 */
	void (*close)(void *arg);

	/*
	 * Make what was written last: start @op in @r, by the contract of
	 * <weir/op.h>, to end when all jobs that have ended before are where
	 * they are safe.  Any core.
	 *
	 * NULL: there is no such place.  Then clients are told that they can
	 * neither flush nor write with FUA.
	 */
	int (*flush)(void *arg, struct weir_reactor *r, struct weir_op *op);
};

/* What the server looks for, and finds whatever the plugin is compiled with. */
extern __attribute__((visibility("default")))
const struct nbd_plugin nbd_plugin;

#ifdef __cplusplus
}
#endif

#endif /* WEIR_NBD_PLUGIN_H */
