/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_LEASE_H
#define WEIR_LEASE_H

/*
 * Leases: exports that can be revoked one by one, and that can end by themselves.
 *
 *	exporter                                 importer
 *	weir_lease_create()
 *	weir_lease_export() -- bytes and fds --> weir_mmap_import()
 *	weir_lease_renew()
 *	weir_lease_revoke(), or its end -------> -ESTALE, weir_mmap_watch()
 *
 * weir_mmap_export() gives all importers of an mmap the same export, which ends
 * for all of them at once.  A lease is an export of its own, for one importer or
 * for a group that may lose access together.  Revoking it does not disturb the
 * importers of other leases.
 *
 * A lease may have an end.  When that has passed, imports fail with -ESTALE, and
 * jobs of importers are refused with -ESTALE or end with it before their next
 * slice of at most 1 MiB.  Importers of this library check the time themselves:
 * the end holds while the exporter is stopped or busy, too.  The end is a time of
 * CLOCK_MONOTONIC, so exporter and importers must be in one time namespace
 * (time_namespaces(7)).  The exporter's reactor ends the lease as well, which
 * importers that wait in weir_mmap_watch() notice at once.
 *
 * An end alone says nothing about a slice that an importer has just begun.  Do not
 * use the memory for anything else before weir_lease_revoke() or
 * weir_lease_wait() has completed with 0.
 *
 * What <weir/export.h> says about importers that do not use this library holds
 * for leases, too.  Leases of one mmap show the same pages.
 *
 * With .device the lease is by a provider's device (<weir/provider.h>): the
 * device gets a registration for this lease alone, and its peers import the bytes
 * with weir_mmap_import_device().  The end of the lease takes the registration
 * back, which is the device's .mem_deregister().  A device that cannot do so at
 * once returns an errno and is asked again by each wait, info and destroy, and by a
 * stop, drain or revoke of the mmap.  The
 * time of the end is the exporter's reactor's alone.
 *
 * Memory windows, <weir/rdma/mw.h>, are leases by RDMA.
 */

#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_device;
struct weir_lease;

/*
 * Options of weir_lease_create().  Set .size to the size of the struct and leave
 * what you do not care about at 0.
 */
struct weir_lease_opts {
	size_t size;
	uint32_t flags;		/* WEIR_EXPORT_COPY */
	uint32_t permissions;	/* WEIR_MMAP_PEER_; 0: all of the mmap's. */
	uint64_t duration_ns;	/* From now to its end; 0: it has no end. */
	const void *key;	/* NULL: no MAC.  Copied, not kept. */
	size_t key_len;		/* 16 to 64 bytes. */
	struct weir_device *device; /* One of the mmap's.  NULL: none. */
};

/*
 * Create a lease of @mmap on @r.
 *
 * The rules of weir_mmap_export() hold.  So all leases of an mmap that share its
 * memfd have the right that the first export has decided; leases by copying
 * (WEIR_EXPORT_COPY) cannot enforce rights.  With .device it is the rules of
 * weir_mmap_export_device() that hold.
 *
 * A lease takes four file descriptors and two pages of memory, or with .device a
 * registration.  It ends by
 * weir_lease_revoke(), by its time, by weir_lease_destroy(), and with all exports
 * of @mmap: by weir_mmap_revoke(), weir_mmap_stop() and weir_mmap_drain().
 * @mmap can be destroyed before the lease.
 *
 * Returns 0 with *@ret set, to be freed by weir_lease_destroy(), or
 *   -ESHUTDOWN  @r is stopping
 *   -ENOMEM, -EMFILE, -ENFILE  no memory or no file descriptor left
 *   and what weir_mmap_export(), or weir_mmap_export_device(), returns
 *
 * Call on @r's thread, which is that of the mmap's owner.
 *
 *	struct weir_lease_opts opts = {
 *		.size = sizeof(opts),
 *		.permissions = WEIR_MMAP_PEER_READ,
 *		.duration_ns = 10 * WEIR_SEC,
 *	};
 *	struct weir_export_desc desc = { .size = sizeof(desc) };
 *	struct weir_lease *lease;
 *	int err = weir_lease_create(&lease, r, m, &opts);
 *
 *	if (!err)
 *		err = weir_lease_export(lease, &desc);
 *
 * Re-creates nothing of libfabric or UCX: their remote keys have no end.
 */
WEIR_API int weir_lease_create(struct weir_lease **ret, struct weir_reactor *r,
			       struct weir_mmap *mmap,
			       const struct weir_lease_opts *opts);

/*
 * Get the bytes and the file descriptors that an importer of @lease needs, as
 * from weir_mmap_export().  Importers use weir_mmap_import(), or
 * weir_mmap_import_device() for the bytes alone of a lease by a device.
 *
 * @lease owns them; they are valid until it ends.  Each call gives the same.
 *
 * Returns 0, or, with *@ret unchanged:
 *   -ESTALE  @lease has ended
 *   -EINVAL  .size of *@ret is smaller than the member itself
 *
 * Call on the lease's reactor.  Never blocks.
 *
 * Re-creates doca_mmap_export_pci(), for one importer.
 */
WEIR_API int weir_lease_export(const struct weir_lease *lease,
			       struct weir_export_desc *ret);

/*
 * Move the end of @lease to @duration_ns from now; 0: it has no end any more.
 * Importers need not do anything.
 *
 * Returns 0, or
 *   -ESTALE  @lease has ended
 *
 * Call on the lease's reactor.  Never blocks.
 *
 * Re-creates the renewal of a lease of etcd or of an NFSv4 client.
 */
WEIR_API int weir_lease_renew(struct weir_lease *lease, uint64_t duration_ns);

/*
 * End @lease now, and complete @op when no importer uses the memory by it any
 * more.  Other leases and exports of the mmap are not affected.
 *
 * @op is an operation on the lease's reactor.  It completes with 0; if it is
 * cancelled, or its deadline passes, with -ECANCELED or -ETIMEDOUT, and
 * weir_why() names the processes or the device that still use the memory.  The
 * lease has ended in any case.  Call again to go on waiting.
 *
 * If @op is NULL, the call ends the lease and does not wait.
 *
 * Returns 0, also if the lease had ended before, or, with the lease as it was:
 *   -ENOMEM  no memory
 *   -EINVAL, -EAGAIN, -ESHUTDOWN  @op cannot be started, see <weir/op.h>
 * or, with the lease ended:
 *   -EINPROGRESS  @op is NULL and importers still use the memory; weir_why()
 *                 says which processes, or which device
 *
 * Call on the lease's reactor.
 *
 * Re-creates nothing: see weir_mmap_revoke().
 */
WEIR_API int weir_lease_revoke(struct weir_lease *lease, struct weir_op *op);

/*
 * Complete @op when @lease has ended, by whatever cause, and no importer uses the
 * memory by it any more.
 *
 * Completes with 0.  If it is cancelled, or its deadline passes, it completes
 * with -ECANCELED or -ETIMEDOUT, and the lease stays as it is.
 *
 * Returns 0, or
 *   -EBUSY   another wait is in flight
 *   -ENOMEM  no memory
 *   -EINVAL, -EAGAIN, -ESHUTDOWN  @op cannot be started, see <weir/op.h>
 *
 * Call on the lease's reactor.
 *
 * Re-creates nothing: see weir_mmap_revoke().
 */
WEIR_API int weir_lease_wait(struct weir_lease *lease, struct weir_op *op);

/* States of a lease; weir_lease_info(). */
#define WEIR_LEASE_OPEN 1
#define WEIR_LEASE_ENDING 2	/* It has ended; importers may be busy. */
#define WEIR_LEASE_OVER 3	/* No importer uses the memory by it. */

/* What weir_lease_info() gives. */
struct weir_lease_info {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint32_t state;		/* WEIR_LEASE_ */
	uint32_t busy;		/* Reactors of importers that have jobs in it;
				 * 1: a device that has not let go of it. */
	uint64_t left_ns;	/* To its end; WEIR_FOREVER: it has none. */
};

/*
 * Get the state of @lease.
 *
 * The caller sets .size of *@ret.  The call looks at each importer, which takes a
 * system call for each that is busy.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the lease's reactor.
 *
 * Re-creates nothing.
 */
WEIR_API int weir_lease_info(const struct weir_lease *lease,
			     struct weir_lease_info *ret);

/*
 * Free @lease; end it first if it is open.  NULL is allowed.
 *
 * In a child that the owner has forked it frees what the child has of the lease,
 * and nothing else.
 *
 * Returns 0, or
 *   -EBUSY  jobs of importers use the memory by it, see weir_lease_revoke(); or an
 *           operation on it is in flight
 *
 * Call on the lease's reactor.
 *
 * Re-creates doca_mmap_destroy(), for one importer.
 */
WEIR_API int weir_lease_destroy(struct weir_lease *lease);

/*
 * Hand out @lease as @name from now on, as weir_exporter_add() does with an mmap.
 * When the lease has ended, importers are told -ESTALE, until the name is removed
 * and added again.
 *
 * To give each peer a lease of its own, add it in the function .accept of the
 * exporter, before that returns 0.
 *
 * Returns 0, or
 *   -EINVAL  @name is too short or too long
 *   -EOPNOTSUPP  @lease is by a device
 *   -EEXIST  there is one of that name
 *   -EAGAIN  there are as many names as .names of the exporter
 *   -ESTALE  @lease has ended
 *   -ENOMEM, -EMFILE, -ENFILE  no memory or no file descriptor left
 *
 * Call on the exporter's reactor.
 *
 * Re-creates nothing.
 */
WEIR_API int weir_exporter_add_lease(struct weir_exporter *exporter,
				     const char *name,
				     const struct weir_lease *lease);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_LEASE_H */
