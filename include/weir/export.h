/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_EXPORT_H
#define WEIR_EXPORT_H

/*
 * Memory for another process of this machine, or by RDMA of another one:
 * export, import, and how it gets from one to the other.
 *
 *	exporter                                importer
 *	weir_mmap_export() -- bytes and fds --> weir_mmap_import()
 *	weir_exporter_create(), _add() <------- weir_mmap_import_from()
 *	weir_mmap_revoke() -- revoked --------> -ESTALE, weir_mmap_watch()
 *
 * What is exported is a memfd that holds the range of the mmap and nothing
 * else; the importer maps it, and jobs move data in it as in any memory.  It is
 * sealed: no process can make it shorter, and none that was given it to read
 * can write, however it is opened again.  The bytes, the descriptor, say what
 * the file descriptors are; they are checked as what an enemy has sent.
 *
 * The holder of descriptor and file descriptors can use them: give them to no
 * one else.
 *
 * weir_mmap_revoke() and weir_mmap_stop() take the access back.  From their
 * begin on imports fail and jobs of importers are refused with -ESTALE.  When
 * they have ended with 0, no job of an importer reads or writes a byte of the
 * memory any more: each one checks before it moves the next MiB at most, and
 * the exporter waits until the last one has stopped.
 *
 * That holds for jobs whose operands are bufs of the import.  Three accesses
 * are not seen, and nothing on Linux could take them back, for the pages are
 * shared: by pointers that weir_mmap_memrange() has given to an importer, also
 * if it passes them to weir_read() or to a job; by a program that uses the
 * file descriptors without this library; and by a process that was forked from
 * an importer.  To be safe from these, export to each importer memory of its
 * own, or with WEIR_EXPORT_COPY, and end the process.
 *
 * Importers of one export could harm each other: each can make the exporter
 * wait for one that is idle, or not wait for one that is busy.
 *
 * A process that dies takes nothing with it: pages live as long as one of the
 * two has them.
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
 * process needs to import it.  They belong to the mmap and are good until it is
 * stopped.  Exporting again gives what is as good; with the same options, the
 * same.
 *
 * The mmap is started, has WEIR_MMAP_PEER_READ or WEIR_MMAP_PEER_WRITE, which
 * includes reading, and its range is all that is in its memfd: what
 * weir_mmap_alloc() makes with WEIR_MMAP_ALLOC_MEMFD, or a memfd given to
 * weir_mmap_set_fd() in whole, made with MFD_ALLOW_SEALING.  The memfd may end
 * anywhere in the last page of the range; importers see that page as a whole,
 * so all of it behind the range must be 0.  The memfd is sealed; so its right
 * is decided by the first export and is the same for all.
 *
 * What cannot be shared like that is refused, or, with WEIR_EXPORT_COPY, goes
 * by copying: the importer reads and writes our memory by the means of a
 * debugger, which needs our user id and may be forbidden (ptrace(2), "ptrace
 * access mode checking").  Rights are then a promise of the importer's: it
 * could do the same without a descriptor.
 *
 * A key makes a MAC: without the key it is not possible to make or change a
 * descriptor, which also names the files that the file descriptors are of.  So
 * neither bytes nor descriptors can be exchanged for others on their way.
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
 * Revoke all that @mmap was exported as, while this process goes on using it:
 * bufs of it may be out, and jobs in flight.  Exporting it again makes new
 * bytes and file descriptors, which are as good as the first ones were.
 *
 * With @op, an operation on @r that may have a deadline, it ends when no importer
 * uses the memory any more: with 0.  Or, with the exports revoked all the same,
 * and busy importers named by weir_why(), with
 *   -ECANCELED, -ETIMEDOUT  it was ended early
 * Call it again to go on waiting.  The exporter looks for importers that are
 * busy after 50 us, and then less often, up to 10 ms apart.  It does not wait
 * for a process that has ended; for one that is stopped (SIGSTOP) in the middle
 * of a job it does.  While the operation is in flight @mmap cannot be
 * destroyed.
 *
 * With @op NULL it does not wait.
 *
 * What was exported by RDMA ends at once: the keys of parts and of memory
 * windows are taken back, and so is the key of the whole range, if peers have
 * it; but that key may be one that jobs of this process use.
 *
 * Returns 0, also if @mmap is not exported, or, with the exports as they were:
 *   -EPERM   @mmap is imported
 *   -EINVAL  @op without @r
 *   -EBUSY   peers have the key of the whole range, and bufs of it are out or
 *            another thread has it attached; export parts, or memory windows
 *   -ENOMEM  no memory
 *   another  the errno of a device's driver that keeps a registration
 *   -EINVAL, -EAGAIN, -ESHUTDOWN  @op cannot be started, see <weir/op.h>
 * or, with the exports revoked:
 *   -EINPROGRESS  @op is NULL and importers still use the memory; weir_why()
 *                 says which processes
 *
 * The owner's thread, which is @r's.
 *
 * Re-creates nothing: fi_close() of a region and ucp_mem_unmap() do not wait
 * for peers.
 */
WEIR_API int weir_mmap_revoke(struct weir_mmap *mmap, struct weir_reactor *r,
			      struct weir_op *op);

/*
 * Whether @mmap is an import that its exporter has revoked, or whose end was
 * seen by weir_mmap_watch(): 1 or 0.  By RDMA nothing tells, and it is 0.
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
 * The mmap is started, for good: it can be used in all ways, but not be set up,
 * stopped or exported.  weir_mmap_memrange() says where it is in this process.
 * weir_mmap_destroy() gives it back.
 *
 * With WEIR_IMPORT_COPY also memory that cannot be shared is imported: an mmap
 * in a domain of the kind WEIR_DOMAIN_PROCESS, see weir_mmap_domain().  Jobs
 * move data in it, as far as weir_domain_process_create() could; but its
 * addresses are the exporter's, and are no pointers here.  That it is the
 * exporter's memory, and not that of somebody else whom we could reach and it
 * could not, is found out by .peer.
 *
 * Everything that was received is checked, so that no sender can do more than
 * change the data: by cutting the file, say, which would be a SIGBUS.
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
 *                     weir_mmap_import_rdma(); huge pages, to be written; by
 *                     copying, without WEIR_IMPORT_COPY; or a key, and no
 *                     libsodium
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
 * Wait on @r until the exporter of @mmap, an import, has revoked it or is dead.
 *
 * Completes with -ESTALE then; from there on jobs with @mmap are refused with
 * -ESTALE.  An exporter that exited without revoking is detected only if the
 * import is being watched.  Else with -ECANCELED or -ETIMEDOUT.  While it is
 * in flight @mmap cannot be destroyed.
 *
 * Death is seen by a pidfd of the exporter; and, if it is in another PID
 * namespace, or there are no pidfds, by a pipe whose other end it has: then a
 * child that it has forked, and that has called no exec, must end as well.
 *
 * Returns 0, or
 *   -EINVAL  @mmap is no import, or @op is in flight or without callback
 *   -EOPNOTSUPP  @mmap is reached by RDMA; its connection says when that ends
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
