/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Segments: flags, zeroing, and locking in memory.
 *
 * The kernel does not count locks of a page.  So lists that share pages are
 * looked at here: what another locked list needs stays locked.  A lock of our
 * own sees to it that nobody else locks or unlocks in between; it comes before
 * the table's.  It may be held for as long as it takes to fault memory in, so
 * that the removal of a list that nobody locked does not touch it.
 */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/fault.h"
#include "base/why.h"
#include "mem/segment-table.h"

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

/*
 * The flag goes first: what somebody sets while we write stays set.  The
 * barrier is for compilers that see that nobody reads the memory again.
 */
int weir_segment_clean(uint64_t id)
{
	struct segment_list *list;
	struct weir_segment seg;
	bool dirty = false;
	int err = 0;

	segments_lock();
	list = list_by_id(id);
	if (!list)
		err = no_list(id, "weir_segment_clean");
	else if (!list->writable)
		err = why(-EACCES, "weir_segment_clean: the mmap of list %llu "
			  "is not writable", (unsigned long long)id);
	if (!err) {
		seg = list->whole;
		dirty = seg.flags & WEIR_SEGMENT_DIRTY;
		list->whole.flags &= ~WEIR_SEGMENT_DIRTY;
	}
	segments_unlock();
	if (err || !dirty)
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

/*
 * The list, with a reference, or NULL.  Not one that is being removed: that its
 * pages were unlocked may be behind us.
 */
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

static int lock_pages(struct segment_list *list)
{
	const struct weir_segment *seg = &list->whole;
	int err = 0;

	if (fault("mlock"))
		err = -ENOMEM;
	else if (mlock(seg->addr, seg->len))
		err = -errno;
	if (err)
		return say_mlock(err, seg);
	set_locked(list, true);
	return 0;
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

/*
 * From page address *@at on, the first page that no locked list has, and up to
 * which it is so; false: there is none up to @last.  Under the table's lock.
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

/* What only @list has locked; its own flag is off already. */
static void unlock_gaps(const struct segment_list *list)
{
	uintptr_t at = page_begin(list->first), last = page_last(list->last);
	uintptr_t to;

	segments_lock();
	while (at <= last && next_gap(&at, &to, last)) {
		munlock((void *)at, to - at + 1);
		if (to == last)
			break;
		at = to + 1;
	}
	segments_unlock();
}

static void unlock_pages(struct segment_list *list)
{
	bool was;

	segments_lock();
	was = list->whole.flags & WEIR_SEGMENT_LOCKED;
	segments_unlock();
	if (!was)
		return;
	set_locked(list, false);
	unlock_gaps(list);
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

/* Nobody new can begin to lock it: it is LEAVING. */
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
