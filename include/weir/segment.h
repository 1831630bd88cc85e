/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SEGMENT_H
#define WEIR_SEGMENT_H

/*
 * Segments: the map of all memory that weir knows.
 *
 * A list is one registered range: a started mmap whose memory the processor can
 * reach (a pool's too), or external memory, which was registered here.  A
 * segment is the piece of a list that is in one page.  Lists of mmaps may
 * overlap each other; where several hold an address, external memory answers
 * for it first, then the one that came first.
 *
 * External memory is memory that something else manages, and of which only that
 * knows how devices see it.  An mmap that lies in external memory as a whole is
 * external too, and has its pages and its IOVAs.
 *
 * An IOVA is an address that a device uses.  Without a table of an IOMMU it is
 * the virtual address.
 *
 * Walks go over copies that are taken before the first callback: a callback may
 * call anything, and keep what it saw.  What it saw may have been stopped and
 * unmapped since; who can bring that about must see to it.
 *
 * The map belongs to the process.  A child of fork() has a copy of its own.
 *
 * Re-creates rte_memory: memory segments and external memory.  Who is told of
 * changes, and who is asked about growth, is in <weir/segment-event.h>, which
 * this header includes.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* weir_segment.flags */
#define WEIR_SEGMENT_EXTERNAL 1u	/* Registered here, or lies in it. */
#define WEIR_SEGMENT_IMPORTED 2u	/* Another process's. */
#define WEIR_SEGMENT_HUGE 4u		/* Its pages are huge pages. */
#define WEIR_SEGMENT_DO_NOT_FREE 8u	/* Stays: removing it is refused. */
#define WEIR_SEGMENT_DIRTY 16u		/* May hold something but zeros. */
#define WEIR_SEGMENT_LOCKED 32u		/* weir_segment_lock() */

/* weir_segment.iova of external memory that was registered without a table. */
#define WEIR_SEGMENT_NO_IOVA UINT64_MAX

/* Lists of external memory that there can be. */
#define WEIR_SEGMENT_EXTERNAL_MAX 1024

/* A segment, a list, or a run of adjoining lists. */
struct weir_segment {
	size_t size;		/* Of the struct; set by the caller. */
	void *addr;
	size_t len;
	size_t page_size;	/* Of a run: the smallest. */
	uint64_t list;		/* The list's id, never used twice; a run's
				   first. */
	uint64_t iova;		/* Of the first byte, or WEIR_SEGMENT_NO_IOVA */
	uint64_t fd_off;	/* Of the first byte in the file behind it. */
	int32_t fd;		/* Behind it, the mmap's own; -1: none. */
	int32_t node;		/* NUMA node; -1: unknown, or several. */
	uint32_t domain_kind;	/* WEIR_DOMAIN_, see <weir/domain.h> */
	uint32_t flags;		/* WEIR_SEGMENT_; of a run: what all have. */
};

/* Called by walks.  Returns 0 to go on; anything else ends the walk. */
typedef int weir_segment_fn(const struct weir_segment *segment, void *arg);

/*
 * Call @fn(segment, @arg) for each segment, in the order of addresses.  Of
 * lists that overlap each has its own segments.
 *
 * Returns 0 when all have been seen, or what @fn returned to end it: 1, say, if
 * it has found what it looked for, or a negative errno; or
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
 * Call @fn(list, @arg) for each list, as one segment as long as the list, in
 * the order of addresses.
 *
 * Returns what weir_segment_walk() returns.
 *
 * Any thread, callbacks too.  Re-creates rte_memseg_list_walk().
 */
WEIR_API int weir_segment_walk_lists(weir_segment_fn *fn, void *arg);

/*
 * Call @fn(run, @arg) for each run of virtual addresses that are known without
 * a gap, whatever lists they are of.  Its IOVAs need not be contiguous.
 *
 * Returns what weir_segment_walk() returns.
 *
 * Any thread, callbacks too.  Re-creates rte_memseg_contig_walk().
 */
WEIR_API int weir_segment_walk_runs(weir_segment_fn *fn, void *arg);

/*
 * Copy the segment that holds @addr to *@ret, whose .size the caller has set.
 *
 * Returns 0, or
 *   -ENOENT  no list holds @addr
 *   -EINVAL  @addr is NULL, or .size is smaller than the member itself
 *
 * Any thread, callbacks too.  Re-creates rte_mem_virt2memseg().
 */
WEIR_API int weir_segment_find(struct weir_segment *ret, const void *addr);

/*
 * Copy the list that holds @addr to *@ret, as one segment as long as the list.
 * The caller has set .size.
 *
 * Returns 0, or
 *   -ENOENT  no list holds @addr
 *   -EINVAL  @addr is NULL, or .size is smaller than the member itself
 *
 * Any thread, callbacks too.  Re-creates rte_mem_virt2memseg_list().
 */
WEIR_API int weir_segment_find_list(struct weir_segment *ret, const void *addr);

/*
 * Get a descriptor of the file behind the memory at @addr, and in *@off the
 * offset of @addr in it.  The descriptor is a duplicate, to be closed by the
 * caller.
 *
 * Returns 0 with *@ret and *@off set, or
 *   -EINVAL      @ret, @off or @addr is NULL
 *   -ENOENT      no list holds @addr
 *   -EOPNOTSUPP  external memory: its manager knows
 *   -ENODEV      there is no file behind it
 *   -EMFILE      no descriptor is left; see ulimit -n
 *
 * Any thread, callbacks too.  Re-creates rte_memseg_get_fd() and
 * rte_memseg_get_fd_offset().
 */
WEIR_API int weir_segment_fd(int *ret, uint64_t *off, const void *addr);

/*
 * Set *@ret to the IOVA of @addr.
 *
 * Returns 0, or
 *   -EINVAL      @ret or @addr is NULL
 *   -ENOENT      no list holds @addr
 *   -EOPNOTSUPP  external memory that was registered without a table
 *
 * Any thread, callbacks too.  Re-creates rte_mem_virt2iova().
 */
WEIR_API int weir_segment_iova(uint64_t *ret, const void *addr);

/*
 * Set *@ret to the virtual address whose IOVA is @iova.  External memory is
 * asked first; if several of its pages have the IOVA, any of them may answer.
 *
 * Returns 0, or
 *   -EINVAL  @ret is NULL
 *   -ENOENT  it is in no list
 *
 * Any thread, callbacks too.  Re-creates rte_mem_iova2virt().
 */
WEIR_API int weir_segment_from_iova(void **ret, uint64_t iova);

/*
 * Set *@ret to the physical address of @addr, which may be any memory of the
 * process.
 *
 * It is the address now: the kernel moves pages, locked ones too.  Only pages
 * that have been written to have one: memory that was never touched has no
 * page, and memory that was only read shares one page of zeros with all others,
 * that has no IOVA.
 *
 * Returns 0, or
 *   -EINVAL  @ret is NULL
 *   -ENOENT  it has no page of its own now: it is not mapped, was never written
 *            to, or is swapped out; weir_why() says which
 *   -EPERM   the kernel does not tell this process: it has no CAP_SYS_ADMIN, or
 *            may not open /proc/self/pagemap
 *   -EIO     the kernel could not be asked
 *
 * Any thread, callbacks too.  A few system calls.  Re-creates
 * rte_mem_virt2phy().
 */
WEIR_API int weir_segment_phys(uint64_t *ret, const void *addr);

/*
 * Whether this process can learn physical addresses.
 *
 * Returns 0 if so, or
 *   -EPERM  the kernel does not tell it; weir_why() says why
 *   -EIO    the kernel could not be asked
 *
 * Any thread, callbacks too.  Re-creates rte_eal_using_phys_addrs().
 */
WEIR_API int weir_segment_phys_allowed(void);

/* All memory in figures; weir_segment_stats(). */
struct weir_segment_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t lists;
	uint64_t bytes;		/* This process's own, each byte once. */
	uint64_t external;	/* Bytes of external memory. */
	uint64_t imported;	/* Bytes of other processes. */
	uint32_t nodes;		/* NUMA nodes of the machine. */
	uint32_t channels;	/* Of memory, by EDAC; 0: unknown. */
	uint32_t ranks;		/* On a memory module, by DMI; 0: unknown. */
	uint32_t mask_bits;	/* weir_segment_check_mask(); 0: none. */
};

/*
 * Copy the figures to *@ret, whose .size the caller has set.
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
 * Bytes of this process's own memory on NUMA node @node; external and imported
 * memory is not counted, and memory that is in two mmaps once.
 *
 * A list counts for one node, where its first page is when it is added.  If
 * that page has not been touched, the node of the processor that adds it is
 * taken.  What the kernel does not tell counts for node 0.
 *
 * Any thread, callbacks too.  Re-creates rte_malloc_get_socket_stats().
 */
WEIR_API uint64_t weir_segment_node_bytes(int node);

/*
 * Write the map to @fd, for people to read: a line per list and one of totals.
 *
 * Returns 0, or
 *   -ENOMEM  no memory for the copies
 *   -EBADF, -ENOSPC, -EPIPE, ...  what write(2) answered
 *
 * Any thread, callbacks too.  Re-creates rte_dump_physmem_layout().
 */
WEIR_API int weir_segment_dump(int fd);

/*
 * Register the @len bytes at @addr, which something else manages, as a list of
 * external memory.  They must stay as they are until they are unregistered.
 *
 * @iova_table, if not NULL, says how devices see them: the IOVA of each of the
 * @n pages of @page_size bytes, a power of 2.  It is copied.  Without it the
 * IOVAs are unknown, and @n is ignored.
 *
 * Events of adding are told before it returns.  Nothing is registered with any
 * device or backend: make an mmap over it for that, afterwards.
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
 * Forget external memory: exactly the range that was registered.  Events of
 * removal are told before it returns, and before it is forgotten.
 *
 * Returns 0, or
 *   -EINVAL  @addr is NULL, or @len is 0
 *   -ENOENT  no external memory was registered there with this length
 *   -EPERM   it was attached: use weir_segment_detach()
 *   -EBUSY   a started mmap lies in it, it has WEIR_SEGMENT_DO_NOT_FREE, or it
 *            is being added or removed already
 *
 * Any thread, callbacks too.  Re-creates rte_extmem_unregister().
 */
WEIR_API int weir_segment_unregister(void *addr, size_t len);

/*
 * Describe external memory to another process: in *@ret is a descriptor that
 * weir_segment_attach() takes there, once it got there (over a UNIX socket, or
 * by fork()).  The description cannot be changed by anyone, and gives no access
 * to the memory, which must get there in its own way.  The caller closes it.
 *
 * Returns 0 with *@ret set, or
 *   -EINVAL  @addr is NULL, or @len is 0
 *   -ENOENT  no external memory was registered there with this length
 *   -EMFILE, -ENFILE, -ENOMEM  no descriptor or no memory for it
 *
 * Any thread, callbacks too.  Re-creates what rte_extmem_attach() needs of a
 * primary process.
 */
WEIR_API int weir_segment_share(int *ret, void *addr, size_t len);

/*
 * Register the @len bytes at @addr as external memory that another process has
 * registered and described in @fd: with its page size and IOVAs, and flagged
 * WEIR_SEGMENT_IMPORTED too.  Where @addr is, is this process's affair.
 *
 * The description is as old as weir_segment_share(): that the other process has
 * unregistered the memory since, or died, changes nothing here.  Neither does
 * anything that happens here, attached or dead, change anything there.
 *
 * Returns 0, or
 *   -ENOENT  @fd describes no memory of this length: the other process has not
 *            registered it
 *   -EBADF   @fd is not open
 *   -EINVAL  @fd is not from weir_segment_share(), or @addr is NULL
 *   -EINVAL, -EEXIST, -ENOSPC, -ERANGE, -ENOMEM
 *            what weir_segment_register() says
 *
 * Any thread, callbacks too.  Re-creates rte_extmem_attach().
 */
WEIR_API int weir_segment_attach(void *addr, size_t len, int fd);

/*
 * Forget external memory that was attached: exactly that range.
 *
 * Returns 0, or
 *   -EINVAL  @addr is NULL, or @len is 0
 *   -ENOENT  no external memory was attached there with this length
 *   -EPERM   it was registered: use weir_segment_unregister()
 *   -EBUSY   what weir_segment_unregister() says
 *
 * Any thread, callbacks too.  Re-creates rte_extmem_detach().
 */
WEIR_API int weir_segment_detach(void *addr, size_t len);

/*
 * Set the flags @set of the list @list, and clear @clear of the others:
 * WEIR_SEGMENT_DO_NOT_FREE, with which stopping the mmap or unregistering the
 * memory is -EBUSY, and WEIR_SEGMENT_DIRTY.
 *
 * Returns 0, or
 *   -EINVAL  another flag, or one in both
 *   -ENOENT  there is no such list
 *   -EBUSY   it is being removed
 *
 * Any thread, callbacks too.  Re-creates RTE_MEMSEG_FLAG_DO_NOT_FREE and
 * RTE_MEMSEG_FLAG_DIRTY.
 */
WEIR_API int weir_segment_set_flags(uint64_t list, uint32_t set,
				    uint32_t clear);

/*
 * Make the list @list zero, if it has WEIR_SEGMENT_DIRTY, and clear the flag.
 *
 * Every list is dirty when it is added, for its previous user may have
 * written to it.  After this, a write sets the flag again.
 *
 * Returns 1 if it was zeroed, 0 if it was not dirty, or
 *   -ENOENT  there is no such list
 *   -EACCES  its mmap is not writable
 *   -EFAULT  part of it is not mapped, or cannot be written; nothing is zeroed,
 *            and weir_why() says from which address on
 *
 * Any thread, while the memory is neither used nor removed.  Takes as long as
 * writing to all of it.
 */
WEIR_API int weir_segment_clean(uint64_t list);

/*
 * Lock the list @list in memory, so that it is not swapped out; all its pages
 * are faulted in.  It ends with weir_segment_unlock() or when the list is
 * removed.  Locking what is locked has no effect.
 *
 * Pages that the program itself had locked before, by mlock(2) or mlockall(2),
 * stay locked after the end.  The kernel does not count locks: what the program
 * locks or unlocks while the list is locked is not seen, and neither is, where
 * /proc is not mounted, what it locked before.
 *
 * Returns 0, or
 *   -ENOENT  there is no such list
 *   -ENOMEM  more than the limit of locked memory allows, or part of it is not
 *            mapped, and nothing of it is locked then; weir_why() says the
 *            limit
 *   -EPERM   no memory may be locked
 *   -EAGAIN  part of it could not be faulted in
 *
 * Any thread, callbacks too.  Takes as long as faulting it in, and, if
 * something is locked already, as the kernel takes to look at all memory of
 * the process.
 *
 * Re-creates mlock(2).
 */
WEIR_API int weir_segment_lock(uint64_t list);

/*
 * Undo weir_segment_lock().  Pages that another locked list has too, and those
 * that the program had locked before, stay locked.  Unlocking what is not
 * locked has no effect.
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
 * Check that a device with addresses of @bits bits reaches all memory, and hold
 * all further memory to it: starting an mmap, or registering external memory,
 * with an IOVA beyond is then -ERANGE.  The smallest @bits that succeeded is
 * kept.  Unknown IOVAs pass.
 *
 * Returns 0, or, with nothing kept:
 *   -EINVAL  @bits is 0 or more than 63
 *   -ERANGE  memory that is there is beyond; weir_why() says which
 *
 * Any thread, callbacks too.  Re-creates rte_mem_check_dma_mask().
 */
WEIR_API int weir_segment_check_mask(unsigned int bits);

/*
 * Set the mask that weir_segment_check_mask() keeps, whatever it was, without
 * looking at the memory that is there.  0 means none.
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
