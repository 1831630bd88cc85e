/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SEGMENT_H
#define WEIR_SEGMENT_H

/*
 * Segments: the map of all memory that weir knows.
 *
 * A list is one registered range: a started mmap whose memory the processor can
 * reach (a pool's too), or external memory, which was registered here.  A
 * segment is the part of a list in one page.  Lists of mmaps may overlap.  If
 * several lists contain an address, a look-up returns external memory first,
 * then the list that was added first.
 *
 * External memory is managed by other code, which also knows the addresses that
 * devices use for it.  An mmap that lies completely in external memory is
 * external too, and has its pages and its IOVAs.
 *
 * An IOVA is an address that a device uses.  Without the table of an IOMMU it
 * is the virtual address.
 *
 * A walk works on copies that it makes before the first callback, so a callback
 * may call any function and keep the entries.  Memory of an entry may have been
 * stopped and unmapped since; the program must prevent that if it accesses it.
 *
 * The map belongs to the process.  A child of fork() has a copy of its own.
 *
 * Re-creates rte_memory: memory segments and external memory.  Callbacks for
 * changes and validators of growth are in <weir/segment-event.h>, which this
 * header includes.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* weir_segment.flags */
#define WEIR_SEGMENT_EXTERNAL 1u	/* External memory, or in it. */
#define WEIR_SEGMENT_IMPORTED 2u	/* Of another process. */
#define WEIR_SEGMENT_HUGE 4u		/* Its pages are huge pages. */
#define WEIR_SEGMENT_DO_NOT_FREE 8u	/* Removing it is refused. */
#define WEIR_SEGMENT_DIRTY 16u		/* May have bytes other than zeros. */
#define WEIR_SEGMENT_LOCKED 32u		/* weir_segment_lock() */

/* weir_segment.iova of external memory that was registered without a table. */
#define WEIR_SEGMENT_NO_IOVA UINT64_MAX

/* The maximum number of lists of external memory. */
#define WEIR_SEGMENT_EXTERNAL_MAX 1024

/* A segment, a list, or a run of adjoining lists. */
struct weir_segment {
	size_t size;		/* Of the struct; set by the caller. */
	void *addr;
	size_t len;
	size_t page_size;	/* Of a run: the smallest. */
	uint64_t list;		/* The list's id, never reused; of a run, that
				   of its first list. */
	uint64_t iova;		/* Of the first byte, or WEIR_SEGMENT_NO_IOVA */
	uint64_t fd_off;	/* Offset of the first byte in its file. */
	int32_t fd;		/* Its file, the mmap's own; -1: none. */
	int32_t node;		/* NUMA node; -1: unknown, or several. */
	uint32_t domain_kind;	/* WEIR_DOMAIN_, see <weir/domain.h> */
	uint32_t flags;		/* WEIR_SEGMENT_; of a run: those of all. */
};

/* Called by walks.  Returns 0 to continue; any other value ends the walk. */
typedef int weir_segment_fn(const struct weir_segment *segment, void *arg);

/*
 * Call @fn(segment, @arg) for each segment, in the order of addresses.
 *
 * Lists that overlap have segments of their own.
 *
 * Returns 0 after the last segment, or the value other than 0 with which @fn
 * has ended the walk, for example 1 or a negative errno; or
 *   -EINVAL  @fn is NULL
 *   -ENOMEM  no memory for the copies
 *
 * Any thread, callbacks too.  Re-creates rte_memseg_walk().
 */
WEIR_API int weir_segment_walk(weir_segment_fn *fn, void *arg);

/*
 * Call @fn(segment, @arg) for each segment of the list @list.
 *
 * Returns what weir_segment_walk() returns, or
 *   -ENOENT  there is no such list
 *
 * Any thread, callbacks too.
 *
 * Re-creates rte_memseg_list_walk().
 */
WEIR_API int weir_segment_walk_list(uint64_t list, weir_segment_fn *fn,
				    void *arg);

/*
 * Call @fn(list, @arg) for each list, in the order of addresses.
 *
 * The list is passed as one segment.
 *
 * Returns what weir_segment_walk() returns.
 *
 * Any thread, callbacks too.  Re-creates rte_memseg_list_walk().
 */
WEIR_API int weir_segment_walk_lists(weir_segment_fn *fn, void *arg);

/*
 * Call @fn(run, @arg) for each run of adjoining lists, without a gap of virtual
 * addresses.
 *
 * The IOVAs of a run need not be contiguous.
 *
 * Returns what weir_segment_walk() returns.
 *
 * Any thread, callbacks too.  Re-creates rte_memseg_contig_walk().
 */
WEIR_API int weir_segment_walk_runs(weir_segment_fn *fn, void *arg);

/*
 * Get the segment that contains @addr.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -ENOENT  no list contains @addr
 *   -EINVAL  @addr is NULL, or .size is smaller than the member itself
 *
 * Any thread, callbacks too.  Re-creates rte_mem_virt2memseg().
 */
WEIR_API int weir_segment_find(struct weir_segment *ret, const void *addr);

/*
 * Get the list that contains @addr, as one segment.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -ENOENT  no list contains @addr
 *   -EINVAL  @addr is NULL, or .size is smaller than the member itself
 *
 * Any thread, callbacks too.  Re-creates rte_mem_virt2memseg_list().
 */
WEIR_API int weir_segment_find_list(struct weir_segment *ret, const void *addr);

/*
 * Get a descriptor of the file of the memory at @addr, and the offset of @addr
 * in it.
 *
 * The descriptor is a duplicate, to be closed by the caller.
 *
 * Returns 0 with *@ret and *@off set, or
 *   -EINVAL      @ret, @off or @addr is NULL
 *   -ENOENT      no list contains @addr
 *   -EOPNOTSUPP  it is external memory, whose file weir does not know
 *   -ENODEV      the memory has no file
 *   -EMFILE      no descriptor is left; see ulimit -n
 *
 * Any thread, callbacks too.  Re-creates rte_memseg_get_fd() and
 * rte_memseg_get_fd_offset().
 */
WEIR_API int weir_segment_fd(int *ret, uint64_t *off, const void *addr);

/*
 * Get the IOVA of @addr.
 *
 * Returns 0, or
 *   -EINVAL      @ret or @addr is NULL
 *   -ENOENT      no list contains @addr
 *   -EOPNOTSUPP  it is external memory that was registered without a table
 *
 * Any thread, callbacks too.  Re-creates rte_mem_virt2iova().
 */
WEIR_API int weir_segment_iova(uint64_t *ret, const void *addr);

/*
 * Get the virtual address whose IOVA is @iova.
 *
 * External memory is searched first; if several of its pages have the IOVA, the
 * result is any of them.
 *
 * Returns 0, or
 *   -EINVAL  @ret is NULL
 *   -ENOENT  no list has @iova
 *
 * Any thread, callbacks too.  Re-creates rte_mem_iova2virt().
 */
WEIR_API int weir_segment_from_iova(void **ret, uint64_t iova);

/*
 * Get the physical address of @addr, which may be any memory of the process.
 *
 * The address is valid only now, because the kernel moves pages, also locked
 * ones.  Only pages that have been written to have one: memory that was never
 * touched has no page, and memory that was only read shares one page of zeros.
 *
 * Returns 0, or
 *   -EINVAL  @ret is NULL
 *   -ENOENT  @addr has no page of its own now: it is not mapped, was never
 *            written to, or is swapped out; weir_why() says which
 *   -EPERM   the kernel refuses this process: it has no CAP_SYS_ADMIN, or may
 *            not open /proc/self/pagemap
 *   -EIO     reading from the kernel failed
 *
 * Any thread, callbacks too.  A few system calls.  Re-creates
 * rte_mem_virt2phy().
 */
WEIR_API int weir_segment_phys(uint64_t *ret, const void *addr);

/*
 * Tell whether this process may read physical addresses.
 *
 * Returns 0 if it may, or
 *   -EPERM  the kernel refuses; weir_why() says why
 *   -EIO    reading from the kernel failed
 *
 * Any thread, callbacks too.  Re-creates rte_eal_using_phys_addrs().
 */
WEIR_API int weir_segment_phys_allowed(void);

/* Totals of the map; weir_segment_stats(). */
struct weir_segment_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t lists;
	uint64_t bytes;		/* Of this process, each byte once. */
	uint64_t external;	/* Bytes of external memory. */
	uint64_t imported;	/* Bytes of other processes. */
	uint32_t nodes;		/* NUMA nodes of the machine. */
	uint32_t channels;	/* Of memory, by EDAC; 0: unknown. */
	uint32_t ranks;		/* On a memory module, by DMI; 0: unknown. */
	uint32_t mask_bits;	/* weir_segment_check_mask(); 0: none. */
};

/*
 * Get the totals of the map, and the memory's nodes, channels and ranks.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Any thread, callbacks too.  Reads /sys.  Re-creates
 * rte_eal_get_physmem_size(), rte_memory_get_nchannel() and
 * rte_memory_get_nrank().
 */
WEIR_API int weir_segment_stats(struct weir_segment_stats *ret);

/*
 * Get the number of bytes of this process's own memory on NUMA node @node.
 *
 * External and imported memory is not counted, and memory that is in two mmaps
 * is counted once.  A list counts for one node: that of its first page when it
 * is added, or, if that page has not been touched, that of the processor that
 * adds it.  If the kernel does not report the node, it counts for node 0.
 *
 * Returns the number of bytes.  Any thread, callbacks too.  Re-creates
 * rte_malloc_get_socket_stats().
 */
WEIR_API uint64_t weir_segment_node_bytes(int node);

/*
 * Write the map to @fd as text: a line for each list, and one of totals.
 *
 * Returns 0, or
 *   -ENOMEM  no memory for the copies
 *   -EBADF, -ENOSPC, -EPIPE, ...  the errno of write(2)
 *
 * Any thread, callbacks too.  Re-creates rte_dump_physmem_layout().
 */
WEIR_API int weir_segment_dump(int fd);

/*
 * Register the @len bytes at @addr, which other code manages, as a list of
 * external memory.
 *
 * Their mapping must not change until they are unregistered.  @iova_table, if
 * not NULL, has the IOVA of each of the @n pages of @page_size bytes, a power
 * of 2.  It is copied.  Without it the IOVAs are unknown, and @n is ignored.
 *
 * Callbacks for the addition run before the call returns.  The call registers
 * the memory with no device or backend; make an mmap over it for that.
 *
 * Returns 0, or
 *   -EINVAL  @addr is NULL, @len is 0, @page_size is no power of 2, @addr or
 *            @len is no multiple of it, the range or an IOVA wraps around, or
 *            @n is not the number of pages
 *   -EEXIST  part of it is in a list already
 *   -ENOSPC  there are WEIR_SEGMENT_EXTERNAL_MAX lists of external memory
 *   -ERANGE  an IOVA is beyond the mask of weir_segment_check_mask()
 *   -ENOMEM  no memory
 *
 * Any thread, callbacks too.  Re-creates rte_extmem_register().
 */
WEIR_API int weir_segment_register(void *addr, size_t len,
				   const uint64_t *iova_table, size_t n,
				   size_t page_size);

/*
 * Unregister external memory: exactly the range that was registered.
 *
 * Callbacks for the removal run before the list is removed.
 *
 * Returns 0, or
 *   -EINVAL  @addr is NULL, or @len is 0
 *   -ENOENT  no external memory was registered there with this length
 *   -EPERM   it was attached: use weir_segment_detach()
 *   -EBUSY   a started mmap lies in it, it has WEIR_SEGMENT_DO_NOT_FREE, or
 *            another call is adding or removing it
 *
 * Any thread, callbacks too.  Re-creates rte_extmem_unregister().
 */
WEIR_API int weir_segment_unregister(void *addr, size_t len);

/*
 * Get a descriptor that describes external memory to another process.
 *
 * Pass the descriptor to that process (over a UNIX socket, or by fork()), which
 * calls weir_segment_attach() with it.  The description cannot be changed, and
 * gives no access to the memory, which must be shared by other means.  The
 * caller closes the descriptor.
 *
 * Returns 0 with *@ret set, or
 *   -EINVAL  @addr is NULL, or @len is 0
 *   -ENOENT  no external memory was registered there with this length
 *   -EMFILE, -ENFILE, -ENOMEM  no descriptor or no memory for it
 *
 * Any thread, callbacks too.  Re-creates the part of a primary process for
 * rte_extmem_attach().
 */
WEIR_API int weir_segment_share(int *ret, void *addr, size_t len);

/*
 * Register the @len bytes at @addr as external memory that another process has
 * registered and described in @fd.
 *
 * The list has the page size and IOVAs of the description, and the flag
 * WEIR_SEGMENT_IMPORTED.  @addr may differ from the address in the other
 * process.
 *
 * The description is that of the time of weir_segment_share(): if the other
 * process unregisters the memory or exits, nothing changes here.  This process
 * does not affect the other one either.
 *
 * Returns 0, or
 *   -ENOENT  @fd describes no memory of this length
 *   -EBADF   @fd is not open
 *   -EINVAL  @fd is not from weir_segment_share(), or @addr is NULL
 *   -EINVAL, -EEXIST, -ENOSPC, -ERANGE, -ENOMEM
 *            as of weir_segment_register()
 *
 * Any thread, callbacks too.  Re-creates rte_extmem_attach().
 */
WEIR_API int weir_segment_attach(void *addr, size_t len, int fd);

/*
 * Detach external memory that was attached: exactly that range.
 *
 * Returns 0, or
 *   -EINVAL  @addr is NULL, or @len is 0
 *   -ENOENT  no external memory was attached there with this length
 *   -EPERM   it was registered: use weir_segment_unregister()
 *   -EBUSY   as of weir_segment_unregister()
 *
 * Any thread, callbacks too.  Re-creates rte_extmem_detach().
 */
WEIR_API int weir_segment_detach(void *addr, size_t len);

/*
 * Set the flags @set of the list @list, and clear the flags @clear.
 *
 * With WEIR_SEGMENT_DO_NOT_FREE stopping the mmap or unregistering the memory
 * is -EBUSY.  The other flag is WEIR_SEGMENT_DIRTY.
 *
 * Returns 0, or
 *   -EINVAL  another flag, or a flag in both
 *   -ENOENT  there is no such list
 *   -EBUSY   it is being removed
 *
 * Any thread, callbacks too.  Re-creates RTE_MEMSEG_FLAG_DO_NOT_FREE and
 * RTE_MEMSEG_FLAG_DIRTY.
 */
WEIR_API int weir_segment_set_flags(uint64_t list, uint32_t set,
				    uint32_t clear);

/*
 * Fill the list @list with zeros if it has WEIR_SEGMENT_DIRTY, and clear the
 * flag.
 *
 * Every list is dirty when it is added, because its previous user may have
 * written to it.  A later write sets the flag again.
 *
 * Returns 1 if the list was zeroed, 0 if it was not dirty, or
 *   -ENOENT  there is no such list
 *   -EACCES  its mmap is not writable
 *   -EFAULT  part of it is not mapped, or cannot be written; nothing is zeroed,
 *            and weir_why() says from which address on
 *
 * Any thread, while the memory is neither used nor removed.  Takes the time of
 * writing all of it.
 */
WEIR_API int weir_segment_clean(uint64_t list);

/*
 * Lock the list @list in memory, so that it is not swapped out.
 *
 * All its pages are faulted in.  The lock ends with weir_segment_unlock() or
 * when the list is removed.  The call has no effect if the list is locked.
 *
 * Pages that the program had locked before by mlock(2) or mlockall(2) stay
 * locked afterwards.  The kernel does not count locks, so weir does not detect
 * pages that the program locks or unlocks while the list is locked; without
 * /proc it does not detect earlier ones either.
 *
 * Returns 0, or
 *   -ENOENT  there is no such list
 *   -ENOMEM  it exceeds the limit of locked memory, or part of it is not
 *            mapped; nothing is locked; weir_why() says the limit
 *   -EPERM   this process may not lock memory
 *   -EAGAIN  part of it could not be faulted in
 *
 * Any thread, callbacks too.  Takes the time of faulting it in, and, if other
 * memory is locked already, the time that the kernel takes to list all memory
 * of the process.
 *
 * Re-creates mlock(2).
 */
WEIR_API int weir_segment_lock(uint64_t list);

/*
 * Unlock the list @list.
 *
 * Pages that are also in another locked list, and those that the program had
 * locked before, stay locked.  The call has no effect if the list is not
 * locked.
 *
 * Returns 0, or
 *   -ENOENT  there is no such list
 *
 * Any thread, callbacks too.
 *
 * Re-creates munlock(2).
 */
WEIR_API int weir_segment_unlock(uint64_t list);

/*
 * Check that a device with addresses of @bits bits reaches all memory, and
 * refuse later memory that it does not reach.
 *
 * Starting an mmap, or registering external memory, with an IOVA beyond @bits
 * is then -ERANGE.  The smallest @bits that has succeeded is kept.  Unknown
 * IOVAs are accepted.
 *
 * Returns 0, or, with the mask unchanged:
 *   -EINVAL  @bits is 0 or more than 63
 *   -ERANGE  present memory is beyond the mask; weir_why() says which
 *
 * Any thread, callbacks too.  Re-creates rte_mem_check_dma_mask().
 */
WEIR_API int weir_segment_check_mask(unsigned int bits);

/*
 * Set the mask of weir_segment_check_mask() without checking present memory.
 *
 * 0 removes the mask.
 *
 * Returns 0, or
 *   -EINVAL  @bits is more than 63
 *
 * Any thread, callbacks too.  Never blocks.  Re-creates
 * rte_mem_set_dma_mask().
 */
WEIR_API int weir_segment_set_mask(unsigned int bits);

#ifdef __cplusplus
}
#endif

#include <weir/segment-event.h>

#endif /* WEIR_SEGMENT_H */
