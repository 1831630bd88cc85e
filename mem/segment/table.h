/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_SEGMENT_TABLE_H
#define WEIR_MEM_SEGMENT_TABLE_H

/*
 * The table of lists, which the files of segments share.
 *
 *	segment.c		the table; mmaps come and go
 *	segment/external.c	memory that others manage
 *	segment/event.c		listeners and validators
 *	segment/walk.c		copies of it, and look-ups in it
 *	segment/size.c		sums, and the address mask
 *	segment/flags.c		flags, zeroing, locking in memory
 *	segment/phys.c		physical addresses
 *	segment/dump.c		for people
 *
 * A list is PENDING while validators are asked; only sums include it then.  It
 * is LIVE, and at last LEAVING while its removal is reported.
 *
 * One lock guards the table and its contents.  It is never held while a user's
 * function is called; what that needs is copied, or kept by a reference.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <weir/segment.h>

struct weir_mmap;

/* Contiguous IOVAs, from a byte of external memory on. */
struct iova_run {
	uint64_t first, last;
	size_t off;
};

/* The addresses of a list's pages as devices see them; never changes.  The runs
 * are the reverse map: sorted, and no IOVA is in two. */
struct iova_table {
	atomic_uint refs;
	size_t n;
	size_t n_runs;
	struct iova_run *runs;
	uint64_t iova[];
};

/* Whole pages, by the addresses of their first and last byte. */
struct page_range {
	uintptr_t first, last;
	struct page_range *next;
};

enum list_state { LIST_PENDING, LIST_LIVE, LIST_LEAVING };

struct segment_list {
	struct weir_segment whole;
	enum list_state state;
	unsigned int refs;
	uintptr_t first, last;	/* Addresses of its first and last byte. */
	/* The largest of it and all before it in the table. */
	uintptr_t max_last;
	struct iova_table *iovas;	/* NULL: none. */
	/* Bytes from the table's beginning to this list's. */
	size_t iova_skip;
	struct weir_mmap *mmap;	/* NULL: it was registered or attached. */
	bool attached;
	bool writable;
	bool going;		/* Its removal has been decided. */
	unsigned int lockers;	/* Threads that lock or unlock its pages. */
	/* Its pages that only lists have locked. segment/flags.c's, under its
	 * lock. */
	struct page_range *ours;

	/* The last hook that was notified of its adding.  A removal that comes
	 * before the others were notified is not reported to them. */
	uint64_t told;
	bool telling;		/* By this thread: */
	pthread_t teller;
};

struct segment_table {
	pthread_mutex_t lock;
	struct segment_list **lists;	/* By first address, then id. */
	size_t n;
	size_t capacity;
	/* Registered and attached, which never share a byte: by first address,
	 * too. */
	size_t n_external;
	struct segment_list *external[WEIR_SEGMENT_EXTERNAL_MAX];
	uint64_t last_id;
	unsigned int mask_bits;	/* 0: none. */
};

extern struct segment_table segments;

static inline void segments_lock(void)
{
	pthread_mutex_lock(&segments.lock);
}

static inline void segments_unlock(void)
{
	pthread_mutex_unlock(&segments.lock);
}

/* The page size of the system. */
size_t segment_base_page(void);

/* Make a list that is not in the table, with one reference; NULL: no memory. */
struct segment_list *list_create(void *addr, size_t len, size_t page_size);
void list_put_locked(struct segment_list *list);
void list_put(struct segment_list *list);

/*
 * What follows is called under the lock.
 *
 * list_insert() checks the address mask and enters it: 0, -ERANGE or -ENOMEM.
 * The table has a reference then.
 */
int list_insert(struct segment_list *list, const char *call);
void list_erase(struct segment_list *list);

/*
 * The list that answers for @addr, or NULL; the external memory there alone,
 * which takes no longer where many lists overlap; and the one with this id.
 */
struct segment_list *list_at(const void *addr);
struct segment_list *external_at(const void *addr);
struct segment_list *list_by_id(uint64_t id);

/* The next list from *@i on that shares a byte with the range, or NULL. */
struct segment_list *list_in(size_t *i, uintptr_t first, uintptr_t last);

/* Whether it was registered or attached, not an mmap. */
static inline bool list_is_registered(const struct segment_list *list)
{
	return !list->mmap;
}

/* The IOVA of the byte at @off. */
uint64_t segment_iova_at(const struct weir_segment *whole,
			 const struct iova_table *iovas, size_t skip,
			 size_t off);

/* -ERANGE if it needs more than @bits bits; leaves a message. */
int list_check_mask(const struct segment_list *list, unsigned int bits,
		    const char *call);

void iova_table_put(struct iova_table *table);

/* Build .runs from .iova, of pages of @page bytes.  0 or -ENOMEM. */
int iova_table_index(struct iova_table *table, size_t page);

/* Whether @iova is in @table, and at which byte of its memory. */
bool iova_table_find(const struct iova_table *table, uint64_t iova,
		     size_t *off);

/* Bytes of the process's own memory on @node (-1: all), with those that are
 * PENDING if requested. */
uint64_t segments_own_bytes(int node, bool pending);

/*
 * What follows is called without the lock.
 */

/* Copy as many bytes as the caller's .size says.  0 or -EINVAL. */
int segment_copy_out(struct weir_segment *ret, const struct weir_segment *seg,
		     const char *call);

/* Report @list, of which the caller has a reference. */
void segment_tell_added(struct segment_list *list);

/* Report the removal of @list, which is LEAVING, and delete it. */
void segment_forget(struct segment_list *list);
void segment_tell_removing(struct segment_list *list);

/* Ask the validators of the node of @list, which is PENDING. */
int segment_validate(struct segment_list *list);

/* Unlock the pages that it has locked in memory; the list is about to be
 * removed. */
void segment_release_pages(struct segment_list *list);

/* The node of the page at @addr, or of the place that it would get; -1:
 * unknown. */
int segment_host_node_of(void *addr);
uint32_t segment_host_nodes(void);

/* For tests: the directory of /sys; discards what was read before. */
void segment_host_set_sysfs(const char *path);

#endif /* WEIR_MEM_SEGMENT_TABLE_H */
