/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exporter's side: what an mmap has given away, until it is stopped.
 *
 * One lifeline and one export id for all that it was exported as.  Descriptors
 * with different options are different bytes, which are kept: the ones made
 * first are still in somebody's hands.  Equal options give equal bytes, so that
 * exporting again and again needs no more memory, and no key is kept.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/export/internal.h"

#define CALL "weir_mmap_export"
#define PEER (WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE)
#define BLOBS_MAX 256

/* Before the memfd is sealed, which cannot be undone. */
static int check_opts(const struct weir_export_opts *opts)
{
	uint8_t mac[DESCRIPTOR_MAC_LEN];

	if (opts->flags & ~WEIR_EXPORT_COPY)
		return why(-EINVAL, CALL ": unknown .flags %#x", opts->flags);
	if (opts->permissions & ~PEER)
		return why(-EINVAL, CALL ": .permissions are WEIR_MMAP_PEER_ "
			   "ones, not %#x", opts->permissions);
	if (!opts->key && opts->key_len)
		return why(-EINVAL, CALL ": .key_len without .key");
	if (!opts->key)
		return 0;
	return descriptor_mac(mac, "", 0, opts->key, opts->key_len, CALL);
}

static int check_mmap(const struct weir_mmap *mmap,
		      const struct weir_export_opts *opts)
{
	if (mmap->import)
		return why(-EPERM, CALL ": the mmap is imported; only its "
			   "owner can export it");
	if (!mmap_is_started(mmap))
		return why(-EBADFD, CALL ": the mmap is not started");
	if (!(mmap->permissions & PEER))
		return why(-EACCES, CALL ": the mmap has neither "
			   "WEIR_MMAP_PEER_READ nor WEIR_MMAP_PEER_WRITE");
	if ((opts->permissions & WEIR_MMAP_PEER_WRITE) &&
	    !(mmap->permissions & WEIR_MMAP_PEER_WRITE))
		return why(-EACCES, CALL ": .permissions want "
			   "WEIR_MMAP_PEER_WRITE, which the mmap does not "
			   "have");
	return 0;
}

static bool may_write(const struct weir_mmap *mmap,
		      const struct weir_export_opts *opts)
{
	uint32_t p = opts->permissions ? opts->permissions : mmap->permissions;

	return p & WEIR_MMAP_PEER_WRITE;
}

struct mmap_export *export_get(const struct weir_mmap *mmap, const char *call)
{
	struct mmap_export *x = mmap->export;

	if (x)
		return x;
	x = mem_calloc(1, sizeof(*x));
	if (x)
		x->pidfd = -1;
	else
		why(-ENOMEM, "%s: no memory", call);
	return x;
}

void export_free(struct mmap_export *x)
{
	struct export_blob *blob;

	if (x->line.page)
		lifeline_cut(&x->line);
	while ((blob = x->blobs)) {
		x->blobs = blob->next;
		free(blob);
	}
	if (x->pidfd >= 0)
		close(x->pidfd);
	free(x);
}

/* The same bytes again, or kept for as long as the mmap is exported. */
int export_keep(struct export_blob **ret, struct mmap_export *x, uint32_t kind,
		const uint8_t *bytes, size_t len, const char *call)
{
	struct export_blob *blob;

	for (blob = x->blobs; blob; blob = blob->next)
		if (blob->len == len && !memcmp(blob->bytes, bytes, len))
			break;
	if (!blob && x->n_blobs == BLOBS_MAX)
		return why(-EAGAIN, "%s: exported with %d different options "
			   "already; stop the mmap to forget them", call,
			   BLOBS_MAX);
	if (!blob) {
		blob = mem_calloc(1, sizeof(*blob) + len);
		if (!blob)
			return why(-ENOMEM, "%s: no memory", call);
		memcpy(blob->bytes, bytes, len);
		blob->len = len;
		blob->kind = kind;
		blob->next = x->blobs;
		x->blobs = blob;
		x->n_blobs++;
	}
	*ret = blob;
	return 0;
}

static int describe(struct export_blob **ret, const struct weir_mmap *mmap,
		    struct mmap_export *x, const struct weir_export_opts *opts,
		    bool copy)
{
	uint8_t bytes[DESCRIPTOR_MAX];
	struct descriptor d = {
		.generation = atomic_load(&x->line.page->generation),
		.len = mmap->len,
		.not_after = opts->not_after,
		.kind = DESCRIPTOR_MEMFD,
		.permissions = DESCRIPTOR_READ |
			       (may_write(mmap, opts) ? DESCRIPTOR_WRITE : 0),
	};
	int n = copy ? process_export(&d, &x->pidfd, mmap) : 0;

	if (n)
		return n;

	memcpy(d.export_id, x->line.page->export_id, sizeof(d.export_id));
	n = descriptor_format(bytes, &d, opts->key, opts->key_len, CALL);
	return n < 0 ? n : export_keep(ret, x, d.kind, bytes, (size_t)n, CALL);
}

static int export_with(struct export_blob **ret, struct weir_mmap *mmap,
		       const struct weir_export_opts *opts)
{
	int err = memfd_seal(mmap, may_write(mmap, opts));
	bool copy = (err == -EOPNOTSUPP || err == -EACCES) &&
		    opts->flags & WEIR_EXPORT_COPY;
	struct mmap_export *x;

	if (err && !copy)
		return err;
	x = export_get(mmap, CALL);
	if (!x)
		return -ENOMEM;
	err = x->line.page ? 0 : lifeline_open(&x->line);
	if (!err)
		err = describe(ret, mmap, x, opts, copy);
	if (!err)
		mmap->export = x;
	else if (x != mmap->export)
		export_free(x);
	return err;
}

int weir_mmap_export(struct weir_mmap *mmap,
		     const struct weir_export_opts *user,
		     struct weir_export_desc *ret)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_export_opts opts;
	struct export_blob *blob = NULL;
	int err = opts_capacity(ret, CALL);

	if (!err)
		err = opts_load(&opts, sizeof(opts), user, CALL);
	if (!err)
		err = check_opts(&opts);
	if (!err)
		err = check_mmap(mmap, &opts);
	if (!err)
		err = export_with(&blob, mmap, &opts);
	if (err)
		return err;
	desc.bytes = blob->bytes;
	desc.len = blob->len;
	desc.n_fds = EXPORT_FDS;
	desc.fds[EXPORT_FD_RANGE] = blob->kind == DESCRIPTOR_PROCESS ?
				    mmap->export->pidfd : mmap->fd;
	desc.fds[EXPORT_FD_CONTROL] = mmap->export->line.page_fd;
	desc.fds[EXPORT_FD_LIFELINE] = mmap->export->line.read_fd;
	desc.fds[EXPORT_FDS] = -1;
	return opts_give(ret, &desc, sizeof(desc), CALL);
}

void export_revoke(struct weir_mmap *mmap)
{
	struct mmap_export *x = mmap->export;

	mmap->export = NULL;
	export_free(x);
}
