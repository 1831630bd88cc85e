/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Flags, zeroing, and locking in memory.
 *
 * The kernel does not count locks of a page.  So this file checks lists that
 * share pages: pages that another locked list needs stay locked.  A lock of its
 * own excludes other threads between the check and the call; it is taken before
 * the table's.  It may be held while memory is faulted in, so the removal of a
 * list that was not locked does not take it.
 *
 * Pages that the program itself had locked stay locked, too.  So before a list
 * is locked, this file notes the pages that are not locked, and those that only
 * other lists have locked (the kernel reports this by VMA).  Only these are
 * unlocked later.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "mem/segment/table.h"
#include "mem/vma.h"

#define SETTABLE (WEIR_SEGMENT_DO_NOT_FREE | WEIR_SEGMENT_DIRTY)

static pthread_mutex_t locking = PTHREAD_MUTEX_INITIALIZER;

static int no_list(uint64_t id, const char *call)
{
	return why(-ENOENT, "%s: there is no list %llu", call,
		   (unsigned long long)id);
}

int weir_segment_set_flags(uint64_t id, uint32_t set, uint32_t clear)
{
	static const char call[] = "weir_segment_set_flags";
	struct segment_list *list;
	int err = 0;

	if ((set | clear) & ~SETTABLE || (set & clear))
		return why(-EINVAL, "%s: to set %x and clear %x; only %x are "
			   "to be set or cleared", call, set, clear, SETTABLE);
	segments_lock();
	list = list_by_id(id);
	if (!list) {
		err = no_list(id, call);
	} else if (list->state == LIST_LEAVING || list->going) {
		err = why(-EBUSY, "%s: list %llu is being removed", call,
			  (unsigned long long)id);
	} else {
		list->whole.flags |= set;
		list->whole.flags &= ~clear;
	}
	segments_unlock();
	return err;
}

/* Copy the list that is to be zeroed, or also take its flag. */
static int get_dirty(struct weir_segment *ret, uint64_t id, bool take,
		     const char *call)
{
	struct segment_list *list;
	int err = 0;

	segments_lock();
	list = list_by_id(id);
	if (!list)
		err = no_list(id, call);
	else if (!list->writable)
		err = why(-EACCES, "%s: the mmap of list %llu is not writable",
			  call, (unsigned long long)id);
	else
		*ret = list->whole;
	if (!err && take)
		list->whole.flags &= ~WEIR_SEGMENT_DIRTY;
	segments_unlock();
	return err;
}

/*
 * Clear the flag before the memory is written, so that a flag that another
 * thread sets meanwhile survives.  The barrier is for compilers that see that
 * the memory is not read again.
 */
int weir_segment_clean(uint64_t id)
{
	static const char call[] = "weir_segment_clean";
	struct weir_segment seg;
	int err = get_dirty(&seg, id, false, call);

	if (err || !(seg.flags & WEIR_SEGMENT_DIRTY))
		return err;
	err = vma_check(seg.addr, seg.len, true, call);
	if (!err)
		err = get_dirty(&seg, id, true, call);
	if (err)
		return err;
	memset(seg.addr, 0, seg.len);
	__asm__ __volatile__("" : : "r"(seg.addr) : "memory");
	return 1;
}

static uintptr_t page_begin(uintptr_t addr)
{
	return addr & ~(segment_base_page() - 1);
}

static uintptr_t page_last(uintptr_t addr)
{
	return addr | (segment_base_page() - 1);
}

static int say_mlock(int err, const struct weir_segment *seg)
{
	struct rlimit lim = { .rlim_cur = RLIM_INFINITY };

	getrlimit(RLIMIT_MEMLOCK, &lim);
	if (err == -EAGAIN || lim.rlim_cur == RLIM_INFINITY)
		return why(err, "weir_segment_lock: %zu bytes at %p cannot be "
			   "locked: %s", seg->len, seg->addr, strerror(-err));
	return why(err, "weir_segment_lock: %zu bytes at %p cannot be locked: "
		   "either part of it is not mapped, or the limit of locked "
		   "memory, %llu KiB, is reached; raise it with ulimit -l or "
		   "LimitMEMLOCK=", seg->len, seg->addr,
		   (unsigned long long)lim.rlim_cur >> 10);
}

/* The list, with a reference, or NULL.  Not a list that is being removed: its
 * pages may have been unlocked already. */
static struct segment_list *hold(uint64_t id)
{
	struct segment_list *list;

	segments_lock();
	list = list_by_id(id);
	if (list && list->state != LIST_LIVE)
		list = NULL;
	if (list) {
		list->refs++;
		list->lockers++;
	}
	segments_unlock();
	return list;
}

static void let_go(struct segment_list *list)
{
	segments_lock();
	debug_check(list->lockers > 0);
	list->lockers--;
	list_put_locked(list);
	segments_unlock();
}

static void set_locked(struct segment_list *list, bool on)
{
	segments_lock();
	if (on)
		list->whole.flags |= WEIR_SEGMENT_LOCKED;
	else
		list->whole.flags &= ~WEIR_SEGMENT_LOCKED;
	segments_unlock();
}

/* Whether this process has locked memory; true if the kernel does not tell. */
static bool anything_is_locked(void)
{
	FILE *f = fault("open") ? NULL : fopen("/proc/self/status", "re");
	unsigned long kib = 1;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmLck: %lu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

/* Whether a list has locked the page at @at, which was not locked before.
 * *@last is lowered to the last address with the same answer. */
static bool is_locked_by_list(uintptr_t at, uintptr_t *last)
{
	const struct page_range *range;
	size_t i;

	for (i = 0; i < segments.n; i++)
		for (range = segments.lists[i]->ours; range;
		     range = range->next) {
			if (range->last < at || range->first > *last)
				continue;
			if (range->first > at) {
				*last = range->first - 1;
				continue;
			}
			if (range->last < *last)
				*last = range->last;
			return true;
		}
	return false;
}

static int add_ours(struct segment_list *list, uintptr_t first, uintptr_t last)
{
	struct page_range *range = list->ours;

	if (range && range->last + 1 == first) {
		range->last = last;
		return 0;
	}
	range = mem_calloc(1, sizeof(*range));
	if (!range)
		return -ENOMEM;
	range->first = first;
	range->last = last;
	range->next = list->ours;
	list->ours = range;
	return 0;
}

/* Note those of the pages from @at to @last that are ours; all are in @vma. */
static int note_vma(struct segment_list *list, const struct vma *vma,
		    uintptr_t at, uintptr_t last)
{
	uintptr_t to;
	bool ours;
	int err = 0;

	for (; !err; at = to + 1) {
		to = last;
		segments_lock();
		ours = !vma->locked || is_locked_by_list(at, &to);
		segments_unlock();
		if (ours)
			err = add_ours(list, at, to);
		if (to == last)
			break;
	}
	return err;
}

/* Called before @list is locked.  Where the kernel does not tell, all pages are
 * ours; where nothing is mapped, the lock fails anyway. */
static int note_ours(struct segment_list *list)
{
	uintptr_t at = page_begin(list->first), last = page_last(list->last);
	struct vma_walk w;
	struct vma vma;
	int err = 0;

	if (!anything_is_locked() || vma_begin(&w, true))
		return add_ours(list, at, last);
	while (!err && vma_next(&w, at, &vma) > 0 && vma.first <= at) {
		if (vma.last >= last) {
			err = note_vma(list, &vma, at, last);
			break;
		}
		err = note_vma(list, &vma, at, vma.last);
		at = vma.last + 1;
	}
	vma_end(&w);
	return err;
}

/*
 * Find the first page from *@at on that no locked list has, and the last
 * address for which that holds.  False: there is none up to @last.  Under the
 * table's lock.
 */
static bool next_gap(uintptr_t *at, uintptr_t *to, uintptr_t last)
{
	struct segment_list *list;
	uintptr_t first, end;
	size_t i;

	*to = last;
	for (i = 0; i < segments.n; i++) {
		list = segments.lists[i];
		if (!(list->whole.flags & WEIR_SEGMENT_LOCKED))
			continue;
		first = page_begin(list->first);
		end = page_last(list->last);
		if (end < *at)
			continue;
		if (first > *at) {
			if (first <= last)
				*to = first - 1;
			return true;
		}
		if (end >= last)
			return false;
		*at = end + 1;
	}
	return true;
}

static void unlock_gaps(uintptr_t at, uintptr_t last)
{
	uintptr_t to;

	while (at <= last && next_gap(&at, &to, last)) {
		munlock((void *)at, to - at + 1);
		if (to == last)
			break;
		at = to + 1;
	}
}

/* Unlock what only @list has locked; its own flag is off. */
static void unlock_ours(struct segment_list *list)
{
	struct page_range *range, *next;

	segments_lock();
	for (range = list->ours; range; range = next) {
		next = range->next;
		unlock_gaps(range->first, range->last);
		free(range);
	}
	list->ours = NULL;
	segments_unlock();
}

static bool is_locked(const struct segment_list *list)
{
	bool locked;

	segments_lock();
	locked = list->whole.flags & WEIR_SEGMENT_LOCKED;
	segments_unlock();
	return locked;
}

static int lock_pages(struct segment_list *list)
{
	const struct weir_segment *seg = &list->whole;
	int err;

	if (is_locked(list))
		return 0;
	if (note_ours(list))
		err = why(-ENOMEM, "weir_segment_lock: no memory");
	else if (fault("mlock"))
		err = say_mlock(-ENOMEM, seg);
	else if (mlock(seg->addr, seg->len))
		err = say_mlock(-errno, seg);
	else
		err = 0;
	if (err)
		unlock_ours(list);
	else
		set_locked(list, true);
	return err;
}

int weir_segment_lock(uint64_t id)
{
	struct segment_list *list;
	int err;

	pthread_mutex_lock(&locking);
	list = hold(id);
	err = list ? lock_pages(list) : no_list(id, "weir_segment_lock");
	if (list)
		let_go(list);
	pthread_mutex_unlock(&locking);
	return err;
}

static void unlock_pages(struct segment_list *list)
{
	if (!is_locked(list))
		return;
	set_locked(list, false);
	unlock_ours(list);
}

int weir_segment_unlock(uint64_t id)
{
	struct segment_list *list;
	int err = 0;

	pthread_mutex_lock(&locking);
	list = hold(id);
	if (list) {
		unlock_pages(list);
		let_go(list);
	} else {
		err = no_list(id, "weir_segment_unlock");
	}
	pthread_mutex_unlock(&locking);
	return err;
}

/* No thread can begin to lock it, because it is LEAVING. */
void segment_release_pages(struct segment_list *list)
{
	bool needed;

	segments_lock();
	needed = list->lockers || (list->whole.flags & WEIR_SEGMENT_LOCKED);
	segments_unlock();
	if (!needed)
		return;
	pthread_mutex_lock(&locking);
	unlock_pages(list);
	pthread_mutex_unlock(&locking);
}
