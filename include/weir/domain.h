/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DOMAIN_H
#define WEIR_DOMAIN_H

/*
 * A domain: an address space that bytes can be in.
 *
 * What an address means is the domain's: in the system domain a pointer, in a
 * file domain an offset.  A domain describes; moving is what jobs do, see
 * <weir/job.h>.
 *
 * Domains belong to the process.  Each has a kind, an id for people, and a
 * pointer of the user's.
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

/*
 * Options of weir_domain_file_create().  Set .size to the size of the struct
 * and leave what you do not care about at 0.
 */
struct weir_domain_file_opts {
	size_t size;
	uint32_t flags;		/* WEIR_DOMAIN_FILE_ */
	int32_t buffered_fd;	/* The same file without O_DIRECT. */
	uint32_t align;		/* Of O_DIRECT, power of 2; 0: the kernel's. */
	uint32_t reserved;
	const char *id;		/* For people, copied; NULL: "file". */
	void *ctx;		/* For weir_domain_ctx(). */
};

/*
 * The memory of this process.  It is always there and is never destroyed.
 *
 * Any thread.  Never blocks.
 */
WEIR_API struct weir_domain *weir_domain_system(void);

/*
 * The memory of this process that lies in huge pages: the same addresses as in
 * the system domain, and reached in the same ways.  It says where memory comes
 * from, to whom it matters.  Always there and never destroyed.
 *
 * Any thread.  Never blocks.
 */
WEIR_API struct weir_domain *weir_domain_hugepage(void);

/*
 * The domain after @prev with the id @id, in the order in which they were
 * created; NULL for @prev means from the first, NULL for @id any id.  The first
 * of all is the system domain, the second that of huge pages.
 *
 * What is returned is held: it cannot be destroyed until it is given back, to
 * the next call as @prev, or to weir_domain_put() by who stops early.  So a walk
 * is safe whatever other threads, or the walker, create and destroy meanwhile:
 *
 *	for (d = weir_domain_next(NULL, id); d; d = weir_domain_next(d, id))
 *
 * Returns the domain, or NULL if there is none; @prev is given back either way.
 *
 * Any thread.  Takes a lock.
 *
 * Re-creates spdk_memory_domain_get_first() and _get_next().
 */
WEIR_API struct weir_domain *weir_domain_next(struct weir_domain *prev,
					      const char *id);

/*
 * Give back a domain that weir_domain_next() has returned.  NULL is allowed.
 *
 * Any thread.  Takes a lock.
 */
WEIR_API void weir_domain_put(struct weir_domain *domain);

/*
 * Make a domain of the file that @fd is open on; addresses are offsets in it.
 *
 * @fd stays the caller's, and must stay open until the domain is destroyed.
 * Its mode gives the domain's rights: what was opened for reading only is not
 * written to.  If it is O_DIRECT, what is not aligned as the file needs it (the
 * last bytes of a file, say) goes through .buffered_fd, which must be open on
 * the same file with at least the same rights; without one it is -EINVAL when
 * the job starts.  With one, whole pages at least go directly, whatever .align
 * says: of a page written both ways, either part could be lost.
 *
 * Returns 0 with *@ret set, to be freed by weir_domain_destroy(), or
 *   -EINVAL  @fd is a directory, or was opened with O_PATH, or for writing
 *            with O_APPEND; .align is no power of 2; .buffered_fd is
 *            O_DIRECT itself, has fewer rights or is open on another file; or
 *            an unknown flag
 *   -EBADF   @fd or .buffered_fd is not open
 *   -ESPIPE  @fd cannot be positioned: a pipe, a socket, a terminal
 *   -E2BIG   @opts asks for what this version does not know
 *   -ENOMEM  no memory
 *
 * Any thread.  Two or three system calls that do not block.
 */
WEIR_API int weir_domain_file_create(struct weir_domain **ret, int fd,
				     const struct weir_domain_file_opts *opts);

/*
 * Free @domain.  NULL is allowed.
 *
 * Returns 0, or, with @domain as it was:
 *   -EBUSY  an mmap is made in it, a job or operation under way or a
 *           translation uses it, or a walk holds it
 *   -EPERM  it is always there: the system domain, or that of huge pages
 *
 * Any thread, one at a time; callbacks too.  Takes a lock.
 */
WEIR_API int weir_domain_destroy(struct weir_domain *domain);

/*
 * The kind of @domain: WEIR_DOMAIN_SYSTEM, ...
 *
 * Any thread.  Never blocks.
 */
WEIR_API uint32_t weir_domain_kind(const struct weir_domain *domain);

/*
 * The id of @domain.  The string is the domain's and lives as long.
 *
 * Any thread.  Never blocks.
 */
WEIR_API const char *weir_domain_id(const struct weir_domain *domain);

/*
 * The user's pointer that @domain was created with; NULL for a domain that is
 * always there.
 *
 * Any thread.  Never blocks.
 */
WEIR_API void *weir_domain_ctx(const struct weir_domain *domain);

/*
 * The number of mmaps and of jobs under way that use @domain.  While other
 * threads work with it, it may be old when it is returned.
 *
 * Any thread.  Never blocks.
 */
WEIR_API uint32_t weir_domain_users(const struct weir_domain *domain);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_DOMAIN_H */
