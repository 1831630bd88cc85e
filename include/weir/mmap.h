/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MMAP_H
#define WEIR_MMAP_H

/*
 * An mmap: one range of memory in a domain, with permissions and a life.
 *
 *	create -> set_memrange, set_permissions, ... -> start -> stop -> destroy
 *	                ^                                  |
 *	                +----------------------------------+
 *
 * The caller sets the range once.  It is memory of the caller's, a file, pages
 * that the mmap allocates, a dma-buf, memory on a device, or a part of a domain
 * of the program's own.
 *
 * A started mmap can be attached to inventories and pools, which make bufs of
 * it.  Attaching registers the memory with the reactor's backend, if it has
 * such registrations (io_uring's fixed buffers): then the kernel does not look
 * up and pin the pages for each transfer.  RLIMIT_MEMLOCK limits this: weir
 * registers as much as it may, uses the rest of the memory without, and
 * weir_mmap_registered() returns how much it is.  weir tries again to register
 * the rest when something else is attached to the mmap on the reactor, and
 * after 2 ms, 4 ms, and so on up to 2 s.  Memory of pools has priority: for it,
 * weir takes back registrations of other mmaps of the reactor that have no pool
 * and no buf out.
 *
 * An mmap belongs to the process and can be attached on many reactors.  One
 * thread at a time makes its control calls.
 *
 * Re-creates doca_mmap.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_device;
struct weir_dm;
struct weir_domain;
struct weir_mmap;
struct weir_op;
struct weir_reactor;

/* Permissions.  Reading is always allowed. */
#define WEIR_MMAP_READ 1u
#define WEIR_MMAP_WRITE 2u
#define WEIR_MMAP_PEER_READ 4u	/* Another process, through an export. */
#define WEIR_MMAP_PEER_WRITE 8u
#define WEIR_MMAP_RDMA_READ 16u	/* Another machine. */
#define WEIR_MMAP_RDMA_WRITE 32u
#define WEIR_MMAP_RDMA_ATOMIC 64u
#define WEIR_MMAP_RELAXED_ORDERING 128u	/* Devices may reorder writes. */

/* Flags of weir_mmap_set_fd(). */
#define WEIR_MMAP_FD_TRUSTED 1u	/* The file will not be truncated. */

/* Flags of weir_mmap_alloc(). */
#define WEIR_MMAP_ALLOC_HUGE_2M 1u	/* Pages of 2 MiB, if there are. */
#define WEIR_MMAP_ALLOC_HUGE_1G 2u	/* Of 1 GiB; if not, of 2 MiB. */
#define WEIR_MMAP_ALLOC_MEMFD 4u	/* Of a memfd, which can be shared. */

/* States; weir_mmap_state(). */
#define WEIR_MMAP_STOPPED 1	/* Can be configured. */
#define WEIR_MMAP_STARTED 2	/* Can be used. */
#define WEIR_MMAP_STOPPING 3	/* Visits the reactors that use it. */

/* Called by weir_mmap_destroy() with the range, so that it can be freed.  May
 * call any function, but not with the mmap. */
typedef void weir_mmap_free_fn(void *addr, size_t len, void *arg);

/*
 * Create an mmap in @domain; NULL means the system domain.  Some kinds of range
 * change the domain, see weir_mmap_domain().
 *
 * The mmap is stopped.  It has no range, the permission to read, and no user
 * data.
 *
 * Returns 0 with *@ret set, to be freed by weir_mmap_destroy(), or
 *   -EOPNOTSUPP  @domain is not memory of this process
 *   -ENOMEM      no memory
 *
 * Any thread.
 *
 * Re-creates doca_mmap_create().
 */
WEIR_API int weir_mmap_create(struct weir_mmap **ret,
			      struct weir_domain *domain);

/*
 * Set the range: @len bytes at @addr.  The memory stays the caller's.
 * weir_mmap_start() checks that it is mapped with the necessary rights; the
 * caller must keep it so until the mmap is stopped.  Otherwise a job that
 * touches it raises SIGSEGV.
 *
 * Returns 0, or
 *   -EINVAL  @addr is NULL, @len is 0, or the range wraps around
 *   -EPERM   it has a range already, or is imported
 *   -EBADFD  it is started
 *
 * The owner's thread.
 *
 * Re-creates doca_mmap_set_memrange().
 */
WEIR_API int weir_mmap_set_memrange(struct weir_mmap *mmap, void *addr,
				    size_t len);

/*
 * Set the range: @len bytes of the file @fd from @off, mapped shared.  @fd is
 * duplicated and stays the caller's.
 *
 * If another process truncated the file, an access would raise SIGBUS.  So @fd
 * must be a memfd sealed with F_SEAL_SHRINK, or @flags have
 * WEIR_MMAP_FD_TRUSTED.  A file that cannot be mapped for writing is mapped for
 * reading only; starting with WEIR_MMAP_WRITE then returns -EACCES.  The kernel
 * does not register mapped files on disks, see weir_mmap_registered().
 *
 * Returns 0, or, with the mmap as it was:
 *   -EINVAL  @len is 0, @off is no multiple of the page size (that of huge
 *            pages, if the file has such), @fd is no file, is not sealed, or
 *            an unknown flag
 *   -ERANGE  the range ends behind the end of the file
 *   -EBADF   @fd is not open
 *   -EACCES  @fd is not open for reading
 *   -EPERM   it has a range already, or is imported
 *   -EBADFD  it is started
 *   -EMFILE, -ENOMEM  no descriptor or no address space is left
 *
 * The owner's thread.  Re-creates doca_mmap_set_dmabuf_memrange(), for other
 * files.
 */
WEIR_API int weir_mmap_set_fd(struct weir_mmap *mmap, int fd, uint64_t off,
			      size_t len, uint32_t flags);

/*
 * Set the range: @len bytes of the dma-buf @fd from @off.  @fd is duplicated
 * and stays the caller's.
 *
 * If the driver can map it, it is memory of this process, which the processor
 * can move.  The start and the stop of the mmap call DMA_BUF_IOCTL_SYNC.  So on
 * a machine whose devices do not see the processor's caches, a device sees
 * after the stop what the processor has written.  If the driver cannot map it,
 * addresses are offsets in the range, from 0: only devices that serve dma-bufs
 * reach it, and jobs of the processor are refused with -EXDEV.  In both cases
 * it is not registered with io_uring.
 *
 * Returns 0, or, with the mmap as it was:
 *   -EINVAL  @len is 0, @off is no multiple of 4096, or @fd is no dma-buf
 *   -ERANGE  the range ends behind the end of the dma-buf
 *   -EBADF   @fd is not open
 *   -EPERM   it has a range already, or is imported
 *   -EBADFD  it is started
 *   -EMFILE  no descriptor is left
 *
 * The owner's thread.
 *
 * Re-creates doca_mmap_set_dmabuf_memrange().
 */
WEIR_API int weir_mmap_set_dmabuf(struct weir_mmap *mmap, int fd, uint64_t off,
				  size_t len);

/*
 * Set the range: @len bytes of the device memory @dm from @off.  Addresses are
 * offsets in the range, from 0; there are no pointers to it.  @dm cannot be
 * freed before the mmap is destroyed.
 *
 * Returns 0, or, with the mmap as it was:
 *   -EINVAL  @len is 0
 *   -ERANGE  the range ends behind the end of @dm
 *   -EPERM   it has a range already, or is imported
 *   -EBADFD  it is started
 *
 * The owner's thread.
 *
 * Re-creates ibv_reg_dm_mr().
 */
WEIR_API int weir_mmap_set_dm(struct weir_mmap *mmap, struct weir_dm *dm,
			      uint64_t off, size_t len);

/*
 * Set the range: @len bytes at @addr of @domain, which is one of
 * weir_domain_create(): a card's or a GPU's memory, say.
 *
 * Bufs of the mmap have addresses of @domain, which are no pointers, and jobs
 * with them are what jobs with these addresses would be.  @domain cannot be
 * destroyed before the mmap.
 *
 * Devices that reach the memory register it (WEIR_DEVICE_CAP_DOMAIN), and can
 * export it: see weir_mmap_export_device().
 *
 * Returns 0, or, with the mmap as it was:
 *   -EINVAL  @len is 0, or @domain is not one of weir_domain_create()
 *   -ERANGE  @domain does not have all of the range
 *   -EPERM   it has a range already, or is imported
 *   -EBADFD  it is started
 *
 * The owner's thread.
 *
 * Re-creates the buffers of a memory domain in spdk_bdev_ext_io_opts.
 */
WEIR_API int weir_mmap_set_domain(struct weir_mmap *mmap,
				  struct weir_domain *domain, uint64_t addr,
				  size_t len);

/*
 * Set the range: @len bytes of memory that the mmap allocates, zeroed, and
 * frees when it is destroyed.
 *
 * @flags may request huge pages.  weir tries pages of 1 GiB, of 2 MiB, and
 * ordinary ones, from the largest requested size on.  In the domain of
 * weir_domain_hugepage() it requests 2 MiB in any case.  A lack of huge pages
 * is not an error: weir_mmap_page_size() returns the size that was used, with
 * the reason and a remedy.  For ordinary pages weir requests transparent huge
 * pages.  With WEIR_MMAP_ALLOC_MEMFD the memory belongs to a memfd which holds
 * nothing else, cannot be truncated, and can be exported without a copy.
 *
 * The call populates all pages.  It refuses to use more memory than is left, so
 * that the kernel does not kill a process: by /proc/meminfo for the machine,
 * and by the memory cgroups of this process that it can see.  It repeats this
 * estimate after each 256 MiB.  The estimate does not include memory that other
 * processes take at the same moment, or limits that no file shows.
 *
 * Returns 0, or, with the mmap as it was:
 *   -EINVAL  @len is 0, or an unknown flag
 *   -ENOMEM  no memory, of any kind; weir_why() says how much is left
 *   -EPERM   it has a range already, or is imported
 *   -EBADFD  it is started
 *   -EMFILE, -ENFILE  no descriptor is left
 *
 * The owner's thread.  May take long: 1 GiB is a second or several, if the host
 * of a virtual machine has to find the pages, too.
 *
 * Re-creates rte_malloc()'s huge pages and doca_mmap's 1.x populate.
 */
WEIR_API int weir_mmap_alloc(struct weir_mmap *mmap, size_t len,
			     uint32_t flags);

/*
 * The size of the pages of the range: 2 MiB or 1 GiB for huge pages that
 * weir_mmap_alloc() got, else 4096; 0 if there is no range, or it is device
 * memory.
 *
 * If weir_mmap_alloc() was asked for larger pages than it got, and @why is not
 * NULL, *@why is a message with the reason and the remedy; otherwise "".  The
 * message is valid as long as the mmap.
 *
 * Any thread.  Never blocks.
 */
WEIR_API size_t weir_mmap_page_size(const struct weir_mmap *mmap,
				    const char **why);

/*
 * Set what may be done with the range: any of WEIR_MMAP_READ, ...  Reading is
 * allowed in any case.
 *
 * Returns 0, or
 *   -EINVAL  unknown bits; WEIR_MMAP_PEER_WRITE, WEIR_MMAP_RDMA_WRITE or
 *            WEIR_MMAP_RDMA_ATOMIC without WEIR_MMAP_WRITE; or
 *            WEIR_MMAP_RELAXED_ORDERING with one of WEIR_MMAP_PEER_
 *   -EBADFD  it is started
 *   -EPERM   it is imported
 *
 * The owner's thread.
 *
 * Re-creates doca_mmap_set_permissions().
 */
WEIR_API int weir_mmap_set_permissions(struct weir_mmap *mmap,
				       uint32_t permissions);

/*
 * Let @device access the range.  weir registers the range with the device when
 * that is first needed, see weir_mmap_keys().  The last weir_device_close() of
 * the device returns -EBUSY until it is removed from the mmap.
 *
 * The processor and io_uring work without being added.
 *
 * Returns 0, or
 *   -EOPNOTSUPP  @device serves no memory, or not this kind of range
 *   -EEXIST      it was added before
 *   -ENOSPC      there are as many as weir_mmap_set_max_devices() allows
 *   -EBADFD      the mmap is started
 *   -EPERM       the mmap is imported
 *   -ENOMEM      no memory
 *
 * The owner's thread.
 *
 * Re-creates doca_mmap_add_dev().
 */
WEIR_API int weir_mmap_add_device(struct weir_mmap *mmap,
				  struct weir_device *device);

/*
 * Undo weir_mmap_add_device().
 *
 * Returns 0, or
 *   -ENOENT  @device was not added
 *   -EBADFD  the mmap is started
 *   -EPERM   the mmap is imported
 *
 * The owner's thread.
 *
 * Re-creates doca_mmap_rm_dev().
 */
WEIR_API int weir_mmap_rm_device(struct weir_mmap *mmap,
				 struct weir_device *device);

/*
 * Bound the devices that can be added to @n; it is 16 otherwise.
 *
 * Returns 0, or
 *   -EINVAL  @n is 0, more than 1024, or less than there are
 *   -EBADFD  the mmap is started
 *   -EPERM   it was started before, or is imported
 *
 * The owner's thread.
 *
 * Re-creates doca_mmap_set_max_num_devices().
 */
WEIR_API int weir_mmap_set_max_devices(struct weir_mmap *mmap, uint32_t n);

/*
 * How many devices can be added at most.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates doca_mmap_get_max_num_devices().
 */
WEIR_API uint32_t weir_mmap_max_devices(const struct weir_mmap *mmap);

/*
 * How many devices were added.
 *
 * Any thread.  Never blocks.  Re-creates doca_mmap_get_max_num_devices(), of
 * one mmap.
 */
WEIR_API uint32_t weir_mmap_num_devices(const struct weir_mmap *mmap);

/*
 * Have @fn(addr, len, @arg) called, once, when the mmap is destroyed, if it was
 * ever started; NULL for nothing.
 *
 * Returns 0, or
 *   -EBADFD  it is started
 *   -EPERM   it is imported
 *
 * The owner's thread.
 *
 * Re-creates doca_mmap_set_free_cb().
 */
WEIR_API int weir_mmap_set_free_cb(struct weir_mmap *mmap,
				   weir_mmap_free_fn *fn, void *arg);

/*
 * Keep @data for weir_mmap_user_data().
 *
 * Returns 0, or
 *   -EBADFD  it is started
 *   -EPERM   it is imported
 *
 * The owner's thread.
 *
 * Re-creates doca_mmap_set_user_data().
 */
WEIR_API int weir_mmap_set_user_data(struct weir_mmap *mmap, void *data);

/*
 * What weir_mmap_set_user_data() has kept; NULL before.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates doca_mmap_get_user_data().
 */
WEIR_API void *weir_mmap_user_data(const struct weir_mmap *mmap);

/*
 * Make @mmap usable.  Starting a started mmap has no effect.
 *
 * The call checks memory of the caller's against the kernel's list of mappings
 * and touches no page.  That takes a few system calls for each mapping in the
 * range, and before Linux 6.11 a read of all of /proc/self/maps.  If /proc is
 * not mounted, the call still detects memory that is not mapped, but not its
 * rights.  It does not detect guard pages of MADV_GUARD_INSTALL, or pages
 * behind the end of a mapped file.
 *
 * Returns 0, or
 *   -EINVAL  it has no range
 *   -EACCES  WEIR_MMAP_WRITE is set, but the file or dma-buf that the range is
 *            of can only be read
 *   -EFAULT  part of the range of weir_mmap_set_memrange() is not mapped,
 *            cannot be read, or, with WEIR_MMAP_WRITE, cannot be written;
 *            weir_why() says from which address on, and which rights it has
 *   -EOPNOTSUPP  a device does not serve this kind of range
 *   -EBUSY   a stop is in flight; or this is a callback of <weir/segment.h>
 *            that is told of its removal, or asked about it
 *   -EPERM   it is imported
 *   -ERANGE  it is beyond the mask of weir_segment_check_mask()
 *   -ENOMEM  no memory
 *   what a validator of <weir/segment.h> answers
 *
 * The owner's thread.
 *
 * Re-creates doca_mmap_start(), ibv_reg_mr(), ucp_mem_map(), spdk_mem_register()
 * and io_uring_register_buffers().
 */
WEIR_API int weir_mmap_start(struct weir_mmap *mmap);

/*
 * Stop @mmap: take back its registrations, detach it from inventories, revoke
 * its exports, and make it configurable again.  No buf of it may be out, and no
 * pool be made of it.  Stopping a stopped mmap has no effect.
 *
 * What it was exported as is revoked, as by weir_mmap_revoke(): when the stop
 * has ended, no importer reads or writes the memory any more.
 *
 * With @op NULL, all must be attached on reactors of the calling thread, and no
 * importer be using it.  With @op, an operation on @r, the mmap is STOPPING, and
 * no buf of it can be taken, while the reactors of other threads are visited,
 * which they must turn for, and until the jobs of importers have ended.  Then
 * @op completes with 0, or, with the mmap started again, with
 *   -EBUSY       a buf had been taken on another thread before it was visited
 *   -ECANCELED, -ETIMEDOUT  it was ended early; weir_why() names importers that
 *                it waited for.  Once all are idle it goes on to its end
 * What was revoked by then stays so.
 *
 * Returns 0, or, with the mmap as it was:
 *   -EBUSY  bufs of it are out; it backs a pool; a sync event lies in it,
 *           see <weir/sync.h>; a stop is in flight; its memory is not to be
 *           freed, see weir_segment_set_flags(); or, with @op NULL, a reactor
 *           of another thread has it attached, or a job of an importer is using
 *           it; weir_why() says which.  If such a job begins in the same moment
 *           and takes longer than some ms, the exports are revoked all the same;
 *           so they are if it is an importer by weir_mmap_import_device(), for
 *           devices know of its jobs only afterwards
 *   -EPERM  it is imported
 *   -EINVAL  @op without @r
 *   another  the errno of a device's driver that keeps its registration; with
 *            @op, that is what it completes with
 *   -EINVAL, -EAGAIN, -ESHUTDOWN  @op cannot be started, see <weir/op.h>
 *
 * The owner's thread, which is @r's.  The callbacks of <weir/segment.h> that
 * are told of the removal run in this call or, with @op, in a turn of @r.
 *
 * Re-creates doca_mmap_stop(), ibv_dereg_mr(), spdk_mem_unregister() and
 * io_uring_unregister_buffers().
 */
WEIR_API int weir_mmap_stop(struct weir_mmap *mmap, struct weir_reactor *r,
			    struct weir_op *op);

/*
 * Stop @mmap as weir_mmap_stop() does with @op, but wait for bufs that are out
 * instead of refusing: from now on none can be taken, importers are revoked,
 * and it ends when the last buf has come back and the last importer has
 * stopped.  Pools that are made of it, and sync events that lie in it, are
 * refused as there.  While it waits @mmap is STOPPING.
 *
 * Completes with 0, or, with @mmap started again, and weir_why() saying what it
 * waited for, with
 *   -ECANCELED, -ETIMEDOUT  it was ended early
 *   another      the errno of a device's driver that keeps its registration
 *
 * Returns 0, or, with the mmap as it was:
 *   -EBUSY   a pool is made of it; a sync event lies in it; a stop is in flight;
 *            its memory is not to be freed, see weir_segment_set_flags()
 *   -EPERM   it is imported
 *   -EINVAL  @op or @r is NULL
 *   -EINVAL, -EAGAIN, -ESHUTDOWN  @op cannot be started, see <weir/op.h>
 *
 * The owner's thread, which is @r's.
 *
 * Re-creates doca_mmap_stop(), which waits for nothing.
 */
WEIR_API int weir_mmap_drain(struct weir_mmap *mmap, struct weir_reactor *r,
			     struct weir_op *op);

/*
 * Stop @mmap, if that can be done at once, and free it.  NULL is allowed.  The
 * free callback is called if it was ever started.
 *
 * Returns 0, or, with the mmap as it was:
 *   -EBUSY  what weir_mmap_stop() says; or a weir_mmap_revoke() is in flight
 *
 * The owner's thread; callbacks too.
 *
 * In a child that the owner has forked, this frees what the child has of the mmap.
 * It revokes nothing of the owner's, and leaves what the owner has registered with
 * rings and devices.  It is -EBUSY there if the mmap has memory windows.
 *
 * Re-creates doca_mmap_destroy().
 */
WEIR_API int weir_mmap_destroy(struct weir_mmap *mmap);

/*
 * The state of @mmap: WEIR_MMAP_STOPPED, WEIR_MMAP_STARTED or
 * WEIR_MMAP_STOPPING.
 *
 * Any thread.  Never blocks.
 */
WEIR_API int weir_mmap_state(const struct weir_mmap *mmap);

/*
 * Copy the range to *@addr and *@len, either of which may be NULL.
 *
 * Returns 0, or
 *   -ENOENT  it has none yet
 *
 * Any thread.  Never blocks.
 *
 * Re-creates doca_mmap_get_memrange().
 */
WEIR_API int weir_mmap_memrange(const struct weir_mmap *mmap, void **addr,
				size_t *len);

/*
 * The permissions of @mmap.
 *
 * Any thread.  Never blocks.
 */
WEIR_API uint32_t weir_mmap_permissions(const struct weir_mmap *mmap);

/*
 * The domain that addresses in @mmap belong to: the one that it was created in;
 * the hugepage domain, if it has huge pages; that of device memory or of
 * dma-bufs, if it has no addresses of this process.
 *
 * Any thread.  Never blocks.  Re-creates spdk_bdev_get_memory_domains().
 */
WEIR_API struct weir_domain *weir_mmap_domain(const struct weir_mmap *mmap);

/*
 * Whether @mmap is exported now: 1 or 0.
 *
 * The owner's thread.  Never blocks.
 *
 * Re-creates doca_mmap_get_exported().
 */
WEIR_API int weir_mmap_is_exported(const struct weir_mmap *mmap);

/*
 * Whether @mmap is another process's, imported: 1 or 0.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates doca_mmap_get_from_export().
 */
WEIR_API int weir_mmap_is_imported(const struct weir_mmap *mmap);

/*
 * The number of bufs of @mmap that are out.  While other threads take and put
 * bufs, it may be old when it is returned.
 *
 * Any thread.
 *
 * Re-creates doca_mmap_get_num_bufs().
 */
WEIR_API uint64_t weir_mmap_num_bufs(const struct weir_mmap *mmap);

/*
 * How many bytes of @mmap, from its beginning, are registered with the backend
 * of @r.  It may change in turns of @r, and when something is attached there.
 * A buf that lies in them uses the registration, unless it lies across the
 * border of two pieces: of 1 GiB, or smaller where a limit leaves capacity
 * for those alone. A buf of a pool uses what is registered now, one of an
 * inventory what was when it was made.  If it is less than all, @why (if not
 * NULL) is set to a message that says the reason and what would help, else to
 * "".  The string is the mmap's and is valid as long as it is attached to @r.
 *
 * Returns the number of bytes, or
 *   -ENOENT  it is attached to no inventory or pool of @r
 *
 * Call on @r's thread.
 */
WEIR_API int64_t weir_mmap_registered(struct weir_mmap *mmap,
				      struct weir_reactor *r,
				      const char **why);

/*
 * The keys by which @device (*@lkey) and its peers (*@rkey) name the range of
 * @mmap; either may be NULL.  The first call registers it there, with access
 * as the permissions say; the stop takes that back, and then the keys are dead.
 * Addresses are those of the range; of device memory, offsets in it; of a
 * dma-buf that has no address here, offsets in the dma-buf.
 *
 * Returns 0, or
 *   -EBADFD      @mmap is not started
 *   -ESTALE      it is an import that its exporter has revoked
 *   -ENOENT      @device is none of @mmap's, see weir_mmap_add_device()
 *   -EOPNOTSUPP  @device registers no memory, or none of this kind, or the
 *                range is another device's memory
 *   -ENOMEM      the limit of locked memory is too low, weir_why() has the
 *                numbers, or there is no memory
 *   -EFAULT      not all of the range is mapped, or it cannot be written to
 *                although the permissions say so
 *   another      the errno of the device's driver
 *
 * Any thread.  The first call takes time for each page.
 *
 * Re-creates doca_rdma_bridge_get_buf_mkey() and ibv_reg_mr().
 */
WEIR_API int weir_mmap_keys(struct weir_mmap *mmap, struct weir_device *device,
			    uint32_t *lkey, uint32_t *rkey);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_MMAP_H */
