/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DOMAIN_H
#define WEIR_DOMAIN_H

/*
 * A domain: an address space that bytes can be in.
 *
 * The domain gives an address its meaning: in the system domain it is a pointer,
 * in a file domain an offset.  A domain only describes; jobs move bytes, see
 * <weir/job.h>.
 *
 * Domains belong to the process.  Each has a kind, an id for messages, and a
 * context pointer of the user.
 *
 * A user's own kind of domain has functions that reach it: see
 * <weir/domain-user.h>.
 *
 * Re-creates spdk_memory_domain.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_domain;

/* Kinds of domains.  From WEIR_DOMAIN_USER on they are the user's. */
#define WEIR_DOMAIN_SYSTEM 1	/* This process; address = pointer. */
#define WEIR_DOMAIN_FILE 2	/* A file; address = offset. */
#define WEIR_DOMAIN_HUGEPAGE 3	/* This process, in huge pages; as SYSTEM. */
#define WEIR_DOMAIN_PROCESS 4	/* Another process; address = its pointer. */
#define WEIR_DOMAIN_REMOTE 5	/* A peer, by RDMA. */
#define WEIR_DOMAIN_DEVICE 6	/* Memory of a device; address from 0. */
#define WEIR_DOMAIN_DMABUF 7	/* A dma-buf; address = offset. */
#define WEIR_DOMAIN_USER 1000

/* weir_domain_file_opts.flags */
#define WEIR_DOMAIN_FILE_BUFFERED 1u	/* .buffered_fd is set. */
#define WEIR_DOMAIN_FILE_DIRECT_ONLY 2u	/* Nothing goes round O_DIRECT. */

/*
 * Options of weir_domain_file_create().  Set .size to the size of the struct
 * and leave the other fields at 0.
 */
struct weir_domain_file_opts {
	size_t size;
	uint32_t flags;		/* WEIR_DOMAIN_FILE_ */
	int32_t buffered_fd;	/* The same file without O_DIRECT. */
	uint32_t align;		/* Of O_DIRECT, power of 2; 0: the kernel's. */
	uint32_t reserved;
	const char *id;		/* For messages, copied; NULL: "file". */
	void *ctx;		/* For weir_domain_ctx(). */
};

/*
 * The memory of this process.  It always exists and is never destroyed.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates spdk_memory_domain_get_system_domain().
 */
WEIR_API struct weir_domain *weir_domain_system(void);

/*
 * The memory of this process that is in huge pages: the same addresses as in the
 * system domain, and reached in the same ways.  It only records where memory
 * comes from.  It always exists and is never destroyed.
 *
 * Any thread.  Never blocks.
 */
WEIR_API struct weir_domain *weir_domain_hugepage(void);

/*
 * The domain after @prev with the id @id, in the order in which they were
 * created; NULL for @prev means from the first, NULL for @id any id.  The first
 * of all is the system domain, the second that of huge pages.
 *
 * The returned domain is held: it cannot be destroyed until the caller passes it
 * to the next call as @prev, or to weir_domain_put() to stop early.  So a walk
 * is safe while other threads create and destroy domains:
 *
 *	for (d = weir_domain_next(NULL, id); d; d = weir_domain_next(d, id))
 *
 * Returns the domain, or NULL if there is none; @prev is given back either way.
 *
 * Any thread.  Takes a lock.
 *
 * Re-creates spdk_memory_domain_get_first() and spdk_memory_domain_get_next().
 */
WEIR_API struct weir_domain *weir_domain_next(struct weir_domain *prev,
					      const char *id);

/*
 * Give back a domain that weir_domain_next() has returned.  NULL is allowed.
 *
 * Any thread.  Takes a lock.  Re-creates doca_devinfo_destroy_list(), for
 * domains.
 */
WEIR_API void weir_domain_put(struct weir_domain *domain);

/*
 * Make a domain of the file that @fd is open on; addresses are offsets in it.
 *
 * @fd stays the caller's, and must stay open until the domain is destroyed.
 * Its mode gives the domain's rights: what was opened for reading only is not
 * written to.
 *
 * If @fd is O_DIRECT, jobs may still move any range, to and from any memory.
 * Aligned parts go directly.  Unaligned parts, such as the last bytes of a file,
 * go through a second descriptor without O_DIRECT: .buffered_fd if it is set,
 * or one that the domain opens, and closes when it is destroyed.  .buffered_fd
 * must be open on the same file with at least the same rights; this is checked
 * even if @fd is not O_DIRECT, although it is not used then.  With a second
 * descriptor at least whole pages go directly, whatever .align says: if a page
 * were written both ways, either part could be lost.
 *
 * If the domain cannot open one (there is no /proc, or the process has dropped
 * the rights), or WEIR_DOMAIN_FILE_DIRECT_ONLY forbids it, the start of a job
 * over a range that is not aligned to .align returns -EINVAL, and weir_why()
 * says why.  A process that holds record locks of fcntl(2) on the file needs
 * that flag, or a .buffered_fd: the kernel drops such locks when any descriptor
 * of the file is closed.
 *
 * Returns 0 with *@ret set, to be freed by weir_domain_destroy(), or
 *   -EINVAL  @fd is a directory, or was opened with O_PATH, or for writing
 *            with O_APPEND; .align is no power of 2; .buffered_fd is
 *            O_DIRECT itself, has fewer rights or is open on another file; or
 *            an unknown flag, or both flags
 *   -EBADF   @fd or .buffered_fd is not open
 *   -ESPIPE  @fd cannot be positioned: a pipe, a socket, a terminal
 *   -E2BIG   @opts uses fields or flags of a later version
 *   -ENOMEM  no memory
 *
 * Any thread.  Some system calls; one opens a file, if @fd is O_DIRECT.
 */
WEIR_API int weir_domain_file_create(struct weir_domain **ret, int fd,
				     const struct weir_domain_file_opts *opts);

/* weir_domain_process_opts.flags */
#define WEIR_DOMAIN_PROCESS_READ_ONLY 1u	/* Nothing is written there. */

/*
 * Options of weir_domain_process_create().  Set .size to the size of the struct
 * and leave the other fields at 0.
 */
struct weir_domain_process_opts {
	size_t size;
	uint32_t flags;		/* WEIR_DOMAIN_PROCESS_ */
	uint32_t reserved;
	const char *id;		/* For messages, copied; NULL: "process PID". */
	void *ctx;		/* For weir_domain_ctx(). */
};

/*
 * Make a domain of the memory of the process @pid; addresses are its pointers.
 *
 * The domain holds a pidfd of the process, so that a later process with the same
 * number is not taken for it.  A job that comes to a page that is not mapped, or
 * that the process itself may not read or write, ends with -EFAULT; the detail
 * has the exact number of bytes before it.  After the process has ended, jobs
 * end with -ESRCH.  After an execve() the process has other memory, which the
 * domain does not detect.
 *
 * Jobs move between it and memory of this process, by copying, on workers;
 * nothing is atomic towards the process, which runs on meanwhile.
 *
 * Returns 0 with *@ret set, to be freed by weir_domain_destroy(), or
 *   -EINVAL      @pid is no process's number (a thread's, say), or an unknown
 *                flag
 *   -ESRCH       there is no such process, or it has ended
 *   -EPERM       it may not be reached: another user's, or the system restricts
 *                ptrace(2); weir_why() says which, and the remedy
 *   -EOPNOTSUPP  the kernel or the sandbox has no pidfds, or no
 *                process_vm_readv(2)
 *   -EMFILE      no descriptor left
 *   -E2BIG       @opts uses fields or flags of a later version
 *   -ENOMEM      no memory
 *
 * Any thread.  Some system calls that do not block.
 */
WEIR_API int weir_domain_process_create(
	struct weir_domain **ret, int pid,
	const struct weir_domain_process_opts *opts);

/*
 * As weir_domain_process_create(), of the process that @pidfd refers to.
 * @pidfd stays the caller's and may be closed.
 *
 * Returns 0 with *@ret set, to be freed by weir_domain_destroy(), or
 *   -EINVAL      @pidfd is no pidfd, or an unknown flag
 *   -EBADF       @pidfd is not open
 *   -EOPNOTSUPP  the process has no number in our PID namespace; or as above
 *   -ESRCH, -EPERM, -EMFILE, -E2BIG, -ENOMEM  as above
 *
 * Any thread.  Some system calls that do not block.  Re-creates the target of
 * process_madvise(2), for process_vm_readv(2).
 */
WEIR_API int weir_domain_process_create_pidfd(
	struct weir_domain **ret, int pidfd,
	const struct weir_domain_process_opts *opts);

/*
 * The number of the process whose memory @domain is; -1 if it is none.
 *
 * Any thread.  Never blocks.  Re-creates uv_process_get_pid().
 */
WEIR_API int weir_domain_process_pid(const struct weir_domain *domain);

/*
 * Options of weir_domain_remote_create().  Set .size to the size of the struct
 * and leave the other fields at 0.
 */
struct weir_domain_remote_opts {
	size_t size;
	uint32_t flags;		/* 0 */
	uint32_t reserved;
	const char *id;		/* For messages, copied; NULL: "remote". */
	void *ctx;		/* For weir_domain_ctx(). */
};

/*
 * Make a domain of the memory of a peer that is reached by RDMA; addresses are
 * those that the peer has exported.  The domain only describes; a connection
 * that is attached to it (weir_conn_attach()) reaches the memory.  An export of the peer becomes an
 * mmap in it, see weir_mmap_import_rdma().
 *
 * This works in every build, with or without RDMA devices.
 *
 * Returns 0 with *@ret set, to be freed by weir_domain_destroy(), or
 *   -EINVAL  an unknown flag
 *   -E2BIG   @opts uses fields or flags of a later version
 *   -ENOMEM  no memory
 *
 * Any thread.  Never blocks.
 */
WEIR_API int weir_domain_remote_create(
	struct weir_domain **ret, const struct weir_domain_remote_opts *opts);

/*
 * Attach @link to @domain, a remote one: what reaches the memory, a connection of
 * the caller's, say.
 *
 * For engines that reach peers: their functions get it by weir_domain_link() from
 * the domain of a job.  @name is what it is, for messages, and must stay valid
 * until weir_domain_detach(); until then @domain cannot be destroyed.
 *
 * Returns 0, or
 *   -EINVAL    @domain is no remote one, or @link is NULL
 *   -EALREADY  @domain has this link
 *   -EBUSY     @domain has another one
 *
 * Any thread.  Never blocks.
 *
 * Re-creates fi_av_insert(), for one peer.
 */
WEIR_API int weir_domain_attach(struct weir_domain *domain, void *link,
				const char *name);

/*
 * Detach @link from @domain.  The caller makes sure that no job uses it any more.
 *
 * The call has no effect if @domain has another link.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates fi_av_remove().
 */
WEIR_API void weir_domain_detach(struct weir_domain *domain, void *link);

/*
 * Get the link of @domain, or NULL if it has none or is no remote one.
 *
 * Returns the link.  Any thread.  Never blocks.
 *
 * Re-creates fi_av_lookup().
 */
WEIR_API void *weir_domain_link(const struct weir_domain *domain);

/*
 * The key of a peer for a piece of its memory: .ctx of an operand with addresses
 * in a remote domain.  It must stay until the job's callback.
 */
struct weir_remote_key {
	uint32_t rkey;
	uint32_t reserved;	/* 0 */
};

/*
 * Free @domain.  NULL is allowed.
 *
 * Returns 0, or, with @domain as it was:
 *   -EBUSY  an mmap is made in it, a job or operation in flight or a
 *           translation uses it, a connection is attached to it, or a walk
 *           holds it
 *   -EPERM  it is always there: the system domain, or that of huge pages
 *
 * Any thread, one at a time; callbacks too.  Takes a lock.
 *
 * Re-creates spdk_memory_domain_destroy().
 */
WEIR_API int weir_domain_destroy(struct weir_domain *domain);

/*
 * The kind of @domain: WEIR_DOMAIN_SYSTEM, ...
 *
 * Any thread.  Never blocks.
 *
 * Re-creates spdk_memory_domain_get_dma_device_type().
 */
WEIR_API uint32_t weir_domain_kind(const struct weir_domain *domain);

/*
 * Tell whether the addresses of @domain are pointers of this process, as those of
 * weir_domain_system() are.
 *
 * Returns 1 or 0.  Any thread.  Never blocks.
 *
 * Re-creates a comparison with SPDK_DMA_DEVICE_TYPE_SYSTEM.
 */
WEIR_API int weir_domain_is_memory(const struct weir_domain *domain);

/*
 * The id of @domain.  The string is the domain's and lives as long.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates spdk_memory_domain_get_dma_device_id().
 */
WEIR_API const char *weir_domain_id(const struct weir_domain *domain);

/*
 * The user's pointer that @domain was created with; NULL for a domain that is
 * always there.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates spdk_memory_domain_get_user_context().
 */
WEIR_API void *weir_domain_ctx(const struct weir_domain *domain);

/*
 * The bytes of context that @domain has copied, see weir_domain_opts; 0: none.
 *
 * Any thread.  Never blocks.  Re-creates the size that
 * spdk_memory_domain_get_user_context() gives.
 */
WEIR_API size_t weir_domain_ctx_size(const struct weir_domain *domain);

/*
 * The number of mmaps, of translations, of connections, and of jobs and
 * operations in flight that use @domain.  While other threads work with it, it
 * may be old when it is returned.
 *
 * Any thread.  Never blocks.
 */
WEIR_API uint32_t weir_domain_users(const struct weir_domain *domain);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_DOMAIN_H */
