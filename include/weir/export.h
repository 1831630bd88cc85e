/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_EXPORT_H
#define WEIR_EXPORT_H

/*
 * Share memory with other processes of this machine: export and import.
 * <weir/lease.h> has exports that can be revoked one by one, and that end by
 * themselves.  <weir/rdma/export.h> exports to other machines.
 *
 *	exporter                                importer
 *	weir_mmap_export() -- bytes and fds --> weir_mmap_import()
 *	weir_exporter_create(), _add() <------- weir_mmap_import_from()
 *	weir_mmap_revoke() -- revoked --------> -ESTALE, weir_mmap_watch()
 *
 * An export is a memfd that holds the range of the mmap and nothing else, some
 * file descriptors beside it, and bytes, the descriptor, that describe them.
 * The importer maps the memfd, and jobs move data in it as in any memory.  The
 * memfd is sealed: no process can shorten it, and an importer that may only
 * read cannot write, even if it opens the file again.  The importer treats the
 * bytes and the file descriptors as hostile input.
 *
 * Any process that has the bytes and the file descriptors can use them: give
 * them to no other process.
 *
 * weir_mmap_revoke(), weir_mmap_stop() and weir_mmap_drain() take the access
 * back.  From their start on, imports fail with -ESTALE, and jobs of importers
 * are refused with -ESTALE.  When they end with 0, no job of an importer reads
 * or writes the memory any more: a job checks before each slice of at most 1
 * MiB whether its memory is revoked, and the exporter waits for the last slice.
 *
 * This covers jobs whose operands are bufs of the import.  It cannot cover the
 * following, because no process can take mapped pages from another one:
 *
 *   - pointers that an importer got from weir_mmap_memrange(), also as
 *     arguments of weir_read() or as operands of a job
 *   - programs that use the file descriptors without this library
 *   - children that an importer has forked
 *
 * If an importer is not trusted to avoid these, export memory to it that holds
 * nothing else, and do not use that memory again.
 *
 * The importers of one export must trust each other: one of them could make the
 * exporter wait for an importer that is idle, or not wait for one that is busy.
 *
 * If either process ends, the other one keeps the pages.
 *
 * Re-creates doca_mmap_export_pci() and doca_mmap_create_from_export().
 */

#include <sys/types.h>

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_device;
struct weir_domain;
struct weir_exporter;
struct weir_mmap;
struct weir_op;
struct weir_reactor;

/* The most file descriptors that come with a descriptor. */
#define WEIR_EXPORT_FDS 8

/* Flags of struct weir_export_opts. */
#define WEIR_EXPORT_COPY 1u	/* What cannot be shared goes by copying. */

/*
 * Options of weir_mmap_export().  Set .size to the size of the struct and leave
 * what you do not care about at 0.
 */
struct weir_export_opts {
	size_t size;
	uint32_t flags;		/* WEIR_EXPORT_ */
	uint32_t permissions;	/* WEIR_MMAP_PEER_; 0: all of the mmap's. */
	uint64_t not_after;	/* Seconds of the epoch; 0: no end. */
	const void *key;	/* NULL: no MAC.  Copied, not kept. */
	size_t key_len;		/* 16 to 64 bytes. */
};

/* What weir_mmap_export() gives: all of it is to be sent. */
struct weir_export_desc {
	size_t size;		/* Set by the caller: what it can hold. */
	const void *bytes;	/* The mmap's, as are the descriptors. */
	size_t len;
	uint32_t n_fds;
	int fds[WEIR_EXPORT_FDS];
};

/*
 * Export @mmap: fill *@ret with the bytes and the file descriptors that another
 * process needs to import it.  They belong to the mmap and are valid until it
 * is stopped or revoked.  A second call with the same options gives the same
 * bytes; with other options, other bytes that are valid beside the first.
 *
 * The mmap is started, has WEIR_MMAP_PEER_READ or WEIR_MMAP_PEER_WRITE, which
 * includes reading, and its range is all that is in its memfd: what
 * weir_mmap_alloc() makes with WEIR_MMAP_ALLOC_MEMFD, or a memfd given to
 * weir_mmap_set_fd() in whole, made with MFD_ALLOW_SEALING.  The memfd may end
 * anywhere in the last page of the range; importers see that page as a whole,
 * so all of it behind the range must be 0.  The memfd is sealed; so its right
 * is decided by the first export and is the same for all.
 *
 * Memory that cannot be shared like that is refused, or, with WEIR_EXPORT_COPY,
 * exported by copying: the importer reads and writes the memory of this process
 * with process_vm_readv(2) and process_vm_writev(2).  The importer needs the
 * same user id, and the system may forbid it (ptrace(2), "Ptrace access mode
 * checking").  It has to be in the PID namespace of this process or in one that
 * this one's is within (pid_namespaces(7)); only a memfd reaches the importers of
 * other containers.  The exporter cannot enforce rights then: the importer could do
 * the same without an export.
 *
 * With a key the bytes have a MAC.  The bytes also name the files that the file
 * descriptors refer to.  So without the key a process cannot make or change an
 * export, or exchange its file descriptors for others on the way.
 * libsodium is loaded when the process uses its first key: use one before the
 * process is confined to files that it has open.
 *
 * Returns 0, or, with *@ret as it was:
 *   -EBADFD      @mmap is not started
 *   -EPERM       @mmap is imported
 *   -EACCES      it has none of WEIR_MMAP_PEER_, or not what is asked for; or
 *                its memfd was exported with another right
 *   -EOPNOTSUPP  the memory cannot be shared, see above; huge pages, to be
 *                written by importers; or a key, and no libsodium
 *   -EINVAL      unknown flags or permissions, or a key of a wrong length
 *   -E2BIG       @opts asks for what this version does not know
 *   -EAGAIN      exported with 256 different options already
 *   -EMFILE, -ENFILE, -ENOMEM  no descriptor or no memory left
 *
 * The owner's thread.
 *
 * Re-creates doca_mmap_export_pci().
 */
WEIR_API int weir_mmap_export(struct weir_mmap *mmap,
			      const struct weir_export_opts *opts,
			      struct weir_export_desc *ret);

/*
 * Export @mmap to peers of @device, which is one of its devices and belongs to a
 * provider, see <weir/provider.h>: fill *@ret with the bytes that a peer needs
 * to import it.  No file descriptors go with them.  They belong to the mmap and
 * are valid until it is stopped or revoked; exporting again with the same
 * options gives the same bytes.
 *
 * .permissions are WEIR_MMAP_PEER_READ or WEIR_MMAP_PEER_WRITE, which includes
 * reading; .flags are 0.  The memory is registered with the device by itself,
 * with these rights: stopping or revoking the mmap takes that registration back.
 * From then on the device refuses its peers.  Which processes can use the bytes,
 * and whether the device enforces the rights, is what the provider says.
 *
 * With a key the bytes have a MAC, over those of the provider as well.
 *
 * Returns 0, or, with *@ret as it was:
 *   -EBADFD      @mmap is not started
 *   -EPERM       @mmap is imported
 *   -EACCES      it has none of WEIR_MMAP_PEER_, or not what is asked for
 *   -ENOENT      @device is none of @mmap's, see weir_mmap_add_device()
 *   -EOPNOTSUPP  @device does not export (WEIR_DEVICE_CAP_EXPORT); or a key,
 *                and no libsodium
 *   -EINVAL      unknown flags or permissions, or a key of a wrong length
 *   -E2BIG       @opts asks for what this version does not know
 *   -EAGAIN      exported with 256 different options already
 *   -EIO         the provider describes it with more bytes than a descriptor
 *                has capacity for
 *   -ENOMEM      no memory
 *   other errnos  returned by the provider
 *
 * The owner's thread.
 *
 * Re-creates doca_mmap_export_pci(), for any device.
 */
WEIR_API int weir_mmap_export_device(struct weir_mmap *mmap,
				     struct weir_device *device,
				     const struct weir_export_opts *opts,
				     struct weir_export_desc *ret);

/*
 * Revoke all exports of @mmap, and end all of its leases.  This process can go on
 * using the memory: bufs may be out, and jobs in flight.  The mmap can be exported
 * again, with new bytes and file descriptors, also while importers still use the old
 * ones.
 *
 * @op is an operation on @r.  It completes with 0 when no importer uses the
 * memory any more.  If it is cancelled, or its deadline passes, it completes
 * with -ECANCELED or -ETIMEDOUT; the exports stay revoked, and weir_why() names
 * the processes that still use the memory.  Call again to go on waiting.
 *
 * The exporter polls: after 50 us, and then at growing intervals of up to 10
 * ms.  It does not wait for importers that have ended.  It waits for one that
 * is stopped (SIGSTOP) in the middle of a job.  If a device cannot take an export
 * back, @op completes with the errno of its driver.  While @op is in flight, @mmap
 * cannot be destroyed.
 *
 * If @op is NULL, the call revokes and does not wait.
 *
 * Exports by RDMA end before this call returns: it takes back the keys of parts
 * and memory windows.  It also takes back the key of the whole range if a peer
 * has it, but jobs of this process may be using that key: see -EBUSY.
 *
 * Returns 0, also if @mmap is not exported, or, with the exports as they were:
 *   -EPERM   @mmap is imported
 *   -EINVAL  @op without @r
 *   -EBUSY   a peer has the key of the whole range, and bufs are out or another
 *            thread has the mmap attached; export parts or memory windows to
 *            revoke in that state
 *   -ENOMEM  no memory
 *   another  the errno of a device's driver that keeps a registration
 *   -EINVAL, -EAGAIN, -ESHUTDOWN  @op cannot be started, see <weir/op.h>
 * or, with the exports revoked:
 *   -EINPROGRESS  @op is NULL and importers still use the memory; weir_why()
 *                 says which processes, or which device's
 *
 * The owner's thread, which is @r's.
 *
 * Re-creates nothing: fi_close() of a region and ucp_mem_unmap() do not wait
 * for peers.
 */
WEIR_API int weir_mmap_revoke(struct weir_mmap *mmap, struct weir_reactor *r,
			      struct weir_op *op);

/*
 * Whether @mmap is an import that its exporter has revoked, or whose exporter
 * has ended according to weir_mmap_watch(): 1 or 0.  It is 0 for imports by
 * RDMA, which cannot detect either.
 *
 * Any thread.  Never blocks.
 */
WEIR_API int weir_mmap_is_stale(const struct weir_mmap *mmap);

/* The peer of a socket, as the kernel reports it. */
struct weir_exporter_peer {
	pid_t pid;		/* 0: not in our PID namespace. */
	uid_t uid;
	gid_t gid;
};

/* Flags of struct weir_import_opts. */
#define WEIR_IMPORT_COPY 1u	/* What can only be copied, too. */

/*
 * Options of weir_mmap_import().  Set .size to the size of the struct and leave
 * what you do not care about at 0.
 */
struct weir_import_opts {
	size_t size;
	uint32_t flags;		/* WEIR_IMPORT_ */
	uint32_t permissions;	/* READ, or WRITE too; 0: all that we may. */
	const void *key;	/* NULL: no MAC is expected. */
	size_t key_len;
	void *user_data;	/* For weir_mmap_user_data(). */

	/* Who sent it, for WEIR_IMPORT_COPY; see SO_PEERCRED in unix(7). */
	const struct weir_exporter_peer *peer;
};

/*
 * Import what another process has exported: the @len bytes at @bytes and the
 * @n_fds file descriptors at @fds, as they came, in their order.  They stay the
 * caller's, and can be closed and freed after the call.
 *
 * The mmap is started, and stays so: it cannot be configured, stopped or
 * exported.  weir_mmap_memrange() says where it is mapped in this process.
 * weir_mmap_destroy() unmaps it.
 *
 * With WEIR_IMPORT_COPY, exports by copying are accepted, too.  Such an mmap is
 * in a domain of the kind WEIR_DOMAIN_PROCESS, see weir_mmap_domain().  Jobs
 * move data in it by copying; its addresses are those of the exporter, and are
 * not pointers here.  The domain reaches the exported range and nothing else.
 * The caller names the sender in .peer, and only memory of that process is
 * accepted: otherwise a sender could name another process, which this one may
 * reach and the sender may not.
 *
 * The call checks everything that was received.  So a hostile sender can change
 * the data and nothing else; it cannot shorten the file, for example, which
 * would raise SIGBUS here.
 *
 * Returns 0 with *@ret set, to be freed by weir_mmap_destroy(), or
 *   -EBADMSG          the bytes are not a descriptor, or the file descriptors
 *                     not what it says: of other files, not sealed, too short,
 *                     in wrong order
 *   -EPROTONOSUPPORT  made by a version that says what we do not know
 *   -EKEYREJECTED     the MAC is wrong, missing, or there for no key
 *   -EKEYEXPIRED      it is after the end
 *   -ESTALE           the exporter has revoked it already
 *   -EAGAIN           the export has as many importers as it can: 4095, each
 *                     with a place, and one more for each reactor that uses it
 *   -EACCES           .permissions asks for what was not given; by copying,
 *                     and the process is not .peer
 *   -EPERM, -ESRCH    by copying, and the process may not be reached, or has
 *                     ended
 *   -EOPNOTSUPP       a kind that cannot be imported here: RDMA, see
 *                     weir_mmap_import_rdma(); by a device, see
 *                     weir_mmap_import_device(); huge pages, to be written; by
 *                     copying, without WEIR_IMPORT_COPY, or from a process of
 *                     a PID namespace that is neither ours nor within ours; or
 *                     a key, and no libsodium
 *   -EINVAL           @bytes or @fds is NULL, unknown flags or permissions, or
 *                     a key of a wrong length
 *   -E2BIG            @opts asks for what this version does not know
 *   -EMFILE, -ENFILE, -ENOMEM  no descriptor or no memory left
 *   -ERANGE           it is mapped beyond the mask of
 *                     weir_segment_check_mask()
 *
 * Any thread.
 *
 * Re-creates doca_mmap_create_from_export().
 */
WEIR_API int weir_mmap_import(struct weir_mmap **ret, const void *bytes,
			      size_t len, const int *fds, uint32_t n_fds,
			      const struct weir_import_opts *opts);

/*
 * Import what weir_mmap_export_device() has exported, the @len bytes at @bytes,
 * by @device, which belongs to the same provider.
 *
 * The mmap is started, and stays so.  Its domain and its addresses are the
 * provider's choice, see weir_mmap_domain(): jobs with bufs of it are done by
 * the functions of that domain or by an engine.  While it exists, @device cannot
 * be closed.
 *
 * Returns 0 with *@ret set, to be freed by weir_mmap_destroy(), or
 *   -EBADMSG          the bytes are not a descriptor
 *   -EPROTONOSUPPORT  made by a version that says what we do not know
 *   -EKEYREJECTED     the MAC is wrong, missing, or there for no key
 *   -EKEYEXPIRED      it is after the end
 *   -EACCES           .permissions asks for what was not given
 *   -EOPNOTSUPP       the export is not by a device, or by one of another
 *                     provider; @device does not import
 *                     (WEIR_DEVICE_CAP_IMPORT), as those of RDMA, see
 *                     weir_mmap_import_rdma(); or a key, and no libsodium
 *   -EINVAL           @bytes is NULL, .flags or .peer is set, unknown
 *                     permissions, or a key of a wrong length
 *   -EIO              the provider's answer makes no sense
 *   -E2BIG            @opts asks for what this version does not know
 *   -ENOMEM           no memory
 *   other errnos  returned by the provider
 *
 * Any thread.
 *
 * Re-creates doca_mmap_create_from_export(), for any device.
 */
WEIR_API int weir_mmap_import_device(struct weir_mmap **ret,
				     struct weir_device *device,
				     const void *bytes, size_t len,
				     const struct weir_import_opts *opts);

/*
 * Wait on @r until the exporter of @mmap, an import, has revoked it or is dead.
 *
 * Completes with -ESTALE then, and jobs with @mmap are refused with -ESTALE from
 * then on.  An exporter that exited without revoking is detected only if the
 * import is being watched.  If it is ended early, it completes with -ECANCELED
 * or -ETIMEDOUT.  While it is in flight, @mmap cannot be destroyed.
 *
 * A pidfd detects the exporter's exit.  If the exporter is in another PID
 * namespace, or the kernel has no pidfds, a pipe does, which children that the
 * exporter has forked hold open: then these must end or call exec, too.
 *
 * Returns 0, or
 *   -EINVAL  @mmap is no import, or @op is in flight or without callback
 *   -EOPNOTSUPP  @mmap is reached by RDMA or by another provider, which says
 *                when that ends
 *   -ENOMEM  no memory
 *   -EAGAIN, -ESHUTDOWN  @op cannot be started, see <weir/op.h>
 *
 * Call on @r's thread.
 */
WEIR_API int weir_mmap_watch(struct weir_mmap *mmap, struct weir_reactor *r,
			     struct weir_op *op);

/*
 * Called for each request: @peer wants @name, which may not exist.  Returns 0
 * if it may have it, anything else if not.  May add and remove names, and
 * destroy the exporter.
 */
typedef int weir_exporter_accept_fn(struct weir_exporter *exporter,
				    const struct weir_exporter_peer *peer,
				    const char *name, void *arg);

/*
 * Options of weir_exporter_create().  Set .size to the size of the struct and
 * leave what you do not care about at 0.
 */
struct weir_exporter_opts {
	size_t size;
	weir_exporter_accept_fn *accept; /* NULL: our effective user only. */
	void *arg;		/* For it. */
	uint64_t timeout_ns;	/* For a request and its answer; 0: 5 s. */
	uint32_t mode;		/* Of the socket; 0: 0600. */
	uint32_t names;		/* At most; 0: 64. */
	uint32_t connections;	/* At a time; 0: 16. */
	uint32_t reserved;	/* 0 */
};

/*
 * Make a server that hands out exports by name, at the UNIX socket @path.
 *
 * Only what weir_exporter_add() has added can be had.  Any process that can
 * reach the socket is decided by its mode and its directory, before anybody
 * can connect; who gets something, by .accept.  A peer that says nothing, too
 * much or too slowly is cut off.  More connections than .connections are told
 * -EAGAIN.
 *
 * A socket that another process listens at is left alone; one whose process has
 * ended is replaced, also while a child that it had forked, or the kernel, still
 * holds it open.  Two that start at once do not take it from
 * each other.  Names without a path ("abstract" sockets) have no owner and no
 * mode, and are not possible.
 *
 * Returns 0 with *@ret set, to be freed by weir_exporter_destroy(), or
 *   -EINVAL      @path is empty, .mode is more than 0777, or a limit is absurd
 *   -EMSGSIZE    @path is longer than 99 bytes
 *   -EADDRINUSE  another process listens there
 *   -EEXIST      there is a file that is no socket, or another user's
 *   -EBUSY       another process replaces the same dead socket
 *   -EACCES, -ENOENT, ...  what the file system has to say
 *   -E2BIG       @opts asks for what this version does not know
 *   -EMFILE, -ENFILE, -ENOMEM  no descriptor or no memory left
 *   -ESHUTDOWN   @r is stopping
 *   -EOPNOTSUPP  @r is in a simulated world
 *
 * Call on @r's thread.
 */
WEIR_API int weir_exporter_create(struct weir_exporter **ret,
				  struct weir_reactor *r, const char *path,
				  const struct weir_exporter_opts *opts);

/*
 * Hand out @mmap as @name, 1 to 255 bytes, from now on.  It is exported by
 * weir_mmap_export(), with @opts.  After a stop of it importers are told
 * -ESTALE, until the name is removed, and added again.
 *
 * Returns 0, or
 *   -EINVAL  @name is too short or too long
 *   -EEXIST  there is one of that name
 *   -EAGAIN  there are .names
 *   -ENOMEM, -EMFILE, -ENFILE  no memory or no descriptor left
 *   and what weir_mmap_export() returns
 *
 * Call on the exporter's reactor, which is on the thread of the mmap's owner.
 */
WEIR_API int weir_exporter_add(struct weir_exporter *exporter,
			       const char *name, struct weir_mmap *mmap,
			       const struct weir_export_opts *opts);

/*
 * Hand out @name no more.  Importers keep what they have: see weir_mmap_stop().
 *
 * Returns 0, or
 *   -ENOENT  there is no such name
 *
 * Call on the exporter's reactor.
 */
WEIR_API int weir_exporter_remove(struct weir_exporter *exporter,
				  const char *name);

/*
 * Close the server, remove its socket, and free @exporter; requests in flight
 * are cut off.  What was imported stays so.  NULL is allowed.  In a child that
 * was forked it closes what the child has of it, and nothing else.
 *
 * Call on the exporter's reactor; callbacks too.
 */
WEIR_API void weir_exporter_destroy(struct weir_exporter *exporter);

/*
 * Import @name from the exporter at the UNIX socket @path: ask for it, and do
 * weir_mmap_import() with @opts.  All is copied; .peer is found out.
 *
 * Completes with 0: then weir_mmap_imported() gives the mmap, and has to be
 * called lest it is lost.  Also if it was cancelled too late.  Or with
 *   -ENOENT        there is no such socket, or nothing of that name
 *   -EACCES        the socket's mode or the exporter refuses us
 *   -ECONNREFUSED  no process listens there any more
 *   -EAGAIN        it has too many connections
 *   -ESTALE        the mmap is stopped
 *   -ECONNRESET    the exporter ended, or cut us off
 *   -EPROTO        what answered is no exporter
 *   -ECANCELED, -ETIMEDOUT
 *   and what weir_mmap_import() returns.
 * Give it a deadline: an exporter that is busy can take its time.
 *
 * Returns 0, or
 *   -EINVAL    @path or @name is NULL, empty or too long, as weir_mmap_import()
 *              has it, or @op is in flight or without callback
 *   -E2BIG     @opts asks for what this version does not know
 *   -EMFILE, -ENFILE, -ENOMEM  no descriptor or no memory left
 *   -EAGAIN, -ESHUTDOWN  @op cannot be started, see <weir/op.h>
 *   -EOPNOTSUPP  @r is in a simulated world
 *
 * Call on @r's thread.
 */
WEIR_API int weir_mmap_import_from(struct weir_reactor *r, struct weir_op *op,
				   const char *path, const char *name,
				   const struct weir_import_opts *opts);

/*
 * Take the mmap that weir_mmap_import_from() has imported, to be freed by
 * weir_mmap_destroy().  To be called in the callback.
 *
 * Returns the mmap, or NULL: the import failed, or it was taken already.
 *
 * Call on the reactor's thread.
 */
WEIR_API struct weir_mmap *weir_mmap_imported(struct weir_op *op);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_EXPORT_H */
