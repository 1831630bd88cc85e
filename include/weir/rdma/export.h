/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_RDMA_EXPORT_H
#define WEIR_RDMA_EXPORT_H

/*
 * Memory for peers by RDMA: an export is bytes alone, which hold an address and
 * a remote key.  <weir/rdma/mw.h> makes one that is good on one connection.
 *
 *	exporter                                     importer
 *	weir_mmap_export_rdma() --- bytes --------> weir_mmap_import_rdma()
 *
 * Re-creates doca_mmap_export_rdma().
 */

#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of struct weir_export_rdma_opts. */
#define WEIR_EXPORT_BOUND 1u	/* Of weir_mw_create() alone: not with a key
				 * that is good on any queue pair. */

/*
 * Options of weir_mmap_export_rdma().  Set .size to the size of the struct and
 * leave what you do not care about at 0.
 */
struct weir_export_rdma_opts {
	size_t size;
	uint32_t flags;		/* WEIR_EXPORT_BOUND */
	uint32_t permissions;	/* WEIR_MMAP_RDMA_; 0: all of the mmap's. */
	uint64_t off;		/* Where in the range it begins. */
	uint64_t len;		/* 0: up to the end of the range. */
	uint64_t not_after;	/* Seconds of the epoch; 0: no end. */
	const void *key;	/* NULL: no MAC.  Copied, not kept. */
	size_t key_len;		/* 16 to 64 bytes. */
};

/*
 * Export @mmap, or a part of it, to peers of @device, which is one of its
 * devices: fill *@ret with the bytes that a peer needs to import it.  No file
 * descriptors go with them.  They belong to the mmap and are good until it is
 * stopped; exporting again with the same options gives the same.
 *
 * The bytes hold the address and the remote key, and are a capability: a peer
 * that has a queue pair of @device and knows them may do what they say, without
 * a trace here; what weir_mw_create() makes is good on one queue pair alone.
 * All of the range with all rights is known by the key that weir_mmap_keys()
 * gives.  A part of it, or fewer rights, is registered by itself, so that its
 * key is good for that and no more.  The MAC and .not_after are checked by the
 * importer and bind no other process.
 *
 * Stopping the mmap takes the registrations back before the memory can be used
 * for anything else: a late access of a peer ends in its error, and changes
 * nothing here.
 *
 * Returns 0, or, with *@ret as it was:
 *   -EBADFD      @mmap is not started
 *   -EPERM       @mmap is imported
 *   -EACCES      it has none of WEIR_MMAP_RDMA_, or not what is asked for
 *   -ENOENT      @device is none of @mmap's, see weir_mmap_add_device()
 *   -ERANGE      .off and .len are not within the range
 *   -EOPNOTSUPP  @device is no RDMA device; or a key, and no libsodium
 *   -EINVAL      unknown flags or permissions, or a key of a wrong length
 *   -E2BIG       @opts asks for what this version does not know
 *   -EAGAIN      exported with 256 different options already
 *   -ENOMEM, -EFAULT, ...  it cannot be registered, see weir_mmap_keys()
 *
 * The owner's thread.  Registering takes time for each page.
 *
 * Re-creates doca_mmap_export_rdma().
 */
WEIR_API int weir_mmap_export_rdma(struct weir_mmap *mmap,
				   struct weir_device *device,
				   const struct weir_export_rdma_opts *opts,
				   struct weir_export_desc *ret);

/*
 * Import what a peer has exported by weir_mmap_export_rdma(): the @len bytes at
 * @bytes, as they came, into @domain, a remote one that reaches this peer; see
 * weir_domain_remote_create().  They stay the caller's.
 *
 * The mmap is started, for good, and can be used in all ways but to be set up,
 * stopped or exported.  Its addresses are the exporter's, and are no pointers
 * here: bufs of it are for jobs alone.  That the exporter has stopped is found
 * out by the job that fails.  weir_mmap_destroy() gives it back.
 *
 * Of @opts .flags and .peer have no meaning and are left at 0; .permissions may
 * be WEIR_MMAP_READ, WEIR_MMAP_WRITE and WEIR_MMAP_RDMA_ATOMIC.
 *
 * Everything that was received is checked; but whose memory it is that the key
 * opens is known by the peer alone.
 *
 * Returns 0 with *@ret set, to be freed by weir_mmap_destroy(), or
 *   -EBADMSG          the bytes are not a descriptor
 *   -EPROTONOSUPPORT  made by a version that says what we do not know
 *   -EKEYREJECTED     the MAC is wrong, missing, or there for no key
 *   -EKEYEXPIRED      it is after the end
 *   -EACCES           .permissions asks for what was not given
 *   -EOPNOTSUPP       it is not for RDMA, see weir_mmap_import(); a key, and no
 *                     libsodium; or libweir-rdma could not register its
 *                     provider
 *   -EINVAL           @bytes is NULL, @domain is no remote one, unknown flags
 *                     or permissions, or a key of a wrong length
 *   -E2BIG            @opts asks for what this version does not know
 *   -ENOMEM           no memory
 *
 * Any thread.
 *
 * Re-creates doca_mmap_create_from_export() for RDMA.
 */
WEIR_API int weir_mmap_import_rdma(struct weir_mmap **ret,
				   struct weir_domain *domain,
				   const void *bytes, size_t len,
				   const struct weir_import_opts *opts);

/* What an import by RDMA is known by; weir_mmap_import_info(). */
struct weir_import_info {
	size_t size;		/* Set by the caller: what it can hold. */
	uint32_t qp_num;	/* The exporter's, that the key is good on; 0:
				 * any of its device's. */
	uint32_t rkey;
	uint64_t node;		/* GUID of the exporter's node; 0: not said. */
};

/*
 * Copy what the descriptor of @mmap, an import by RDMA, said of its key to
 * *@ret, whose .size the caller has set.  A key that is good on one queue pair
 * is of no use on another: jobs are refused, -ESTALE, where the connection that
 * the domain is attached to leads elsewhere, as after it was established again.
 *
 * Returns 0, or
 *   -EPERM   @mmap is no import by RDMA
 *   -EINVAL  .size is too small to hold even itself
 *
 * Any thread.  Never blocks.  Re-creates the rkey that ucp_ep_rkey_unpack()
 * gives.
 */
WEIR_API int weir_mmap_import_info(const struct weir_mmap *mmap,
				   struct weir_import_info *ret);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_RDMA_EXPORT_H */
