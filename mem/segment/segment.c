/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The table of lists, and how mmaps are entered.
 *
 * Lists are sorted by address.  Each records how far all lists up to it reach,
 * so that a look-up is a binary search and a few steps back, even if lists
 * overlap.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/why.h"
#include "mem/domain-internal.h"
#include "mem/mmap-internal.h"
#include "mem/segment/internal.h"
#include "mem/segment/table.h"

#define CAPACITY_FIRST 64

struct segment_table segments = { .lock = PTHREAD_MUTEX_INITIALIZER };

size_t segment_base_page(void)
{
	long n = sysconf(_SC_PAGESIZE);

	return n > 0 ? (size_t)n : 4096;
}

struct segment_list *list_create(void *addr, size_t len, size_t page_size)
{
	struct segment_list *list = mem_calloc(1, sizeof(*list));

	if (!list)
		return NULL;
	list->refs = 1;
	list->first = (uintptr_t)addr;
	list->last = list->first + len - 1;
	list->whole.size = sizeof(list->whole);
	list->whole.addr = addr;
	list->whole.len = len;
	list->whole.page_size = page_size;
	list->whole.iova = list->first;
	list->whole.fd = -1;
	list->whole.node = segment_host_node_of(addr);
	list->whole.domain_kind = WEIR_DOMAIN_SYSTEM;
	list->whole.flags = WEIR_SEGMENT_DIRTY;
	if (page_size > segment_base_page())
		list->whole.flags |= WEIR_SEGMENT_HUGE;
	return list;
}

void iova_table_put(struct iova_table *table)
{
	if (!table || atomic_fetch_sub(&table->refs, 1) != 1)
		return;
	free(table->runs);
	free(table);
}

/* The number of runs of contiguous pages; they are stored in @runs, if any. */
static size_t join_pages(const struct iova_table *table, size_t page,
			 struct iova_run *runs)
{
	size_t i, n = 0;

	for (i = 0; i < table->n; i++) {
		if (i && table->iova[i] == table->iova[i - 1] + page) {
			if (runs)
				runs[n - 1].last += page;
			continue;
		}
		if (runs) {
			runs[n].first = table->iova[i];
			runs[n].last = table->iova[i] + (page - 1);
			runs[n].off = i * page;
		}
		n++;
	}
	return n;
}

static int by_iova(const void *va, const void *vb)
{
	const struct iova_run *a = va, *b = vb;

	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	return a->off < b->off ? -1 : a->off > b->off;
}

/*
 * Remove the parts that an earlier run has.  Returns the number of runs left.
 */
static size_t part_runs(struct iova_run *runs, size_t n)
{
	size_t i, left = 0;
	uint64_t cut;

	for (i = 0; i < n; i++) {
		if (left && runs[i].first <= runs[left - 1].last) {
			if (runs[i].last <= runs[left - 1].last)
				continue;
			cut = runs[left - 1].last + 1 - runs[i].first;
			runs[i].first += cut;
			runs[i].off += cut;
		}
		runs[left++] = runs[i];
	}
	return left;
}

int iova_table_index(struct iova_table *table, size_t page)
{
	size_t n = join_pages(table, page, NULL);

	debug_check(!table->runs);
	table->runs = mem_calloc(n, sizeof(*table->runs));
	if (!table->runs)
		return -ENOMEM;
	join_pages(table, page, table->runs);
	qsort(table->runs, n, sizeof(*table->runs), by_iova);
	table->n_runs = part_runs(table->runs, n);
	return 0;
}

bool iova_table_find(const struct iova_table *table, uint64_t iova,
		     size_t *off)
{
	size_t low = 0, high = table->n_runs, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (table->runs[mid].last < iova)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == table->n_runs || table->runs[low].first > iova)
		return false;
	*off = table->runs[low].off + (iova - table->runs[low].first);
	return true;
}

void list_put_locked(struct segment_list *list)
{
	debug_check(list->refs > 0);
	if (--list->refs)
		return;
	iova_table_put(list->iovas);
	free(list);
}

void list_put(struct segment_list *list)
{
	segments_lock();
	list_put_locked(list);
	segments_unlock();
}

/* The number of the @n lists that begin at or before @addr. */
static size_t n_before(struct segment_list *const *lists, size_t n,
		       uintptr_t addr)
{
	size_t low = 0, high = n, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (lists[mid]->first <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static size_t n_up_to(uintptr_t addr)
{
	return n_before(segments.lists, segments.n, addr);
}

struct segment_list *external_at(const void *addr)
{
	uintptr_t at = (uintptr_t)addr;
	size_t n = n_before(segments.external, segments.n_external, at);

	if (!n || segments.external[n - 1]->last < at)
		return NULL;
	return segments.external[n - 1];
}

/* The caller has checked that there is capacity. */
static void external_insert(struct segment_list *list)
{
	struct segment_list **all = segments.external;
	size_t i = n_before(all, segments.n_external, list->first);

	memmove(&all[i + 1], &all[i],
		(segments.n_external - i) * sizeof(struct segment_list *));
	all[i] = list;
	segments.n_external++;
}

static void external_erase(const struct segment_list *list)
{
	struct segment_list **all = segments.external;
	size_t n = n_before(all, segments.n_external, list->first);

	memmove(&all[n - 1], &all[n],
		(segments.n_external - n) * sizeof(struct segment_list *));
	debug_check(segments.n_external > 0);
	segments.n_external--;
}

/* Update from @i on.  Once an entry is correct, all further ones are. */
static void set_max_last(size_t i)
{
	uintptr_t max = i ? segments.lists[i - 1]->max_last : 0;

	for (; i < segments.n; i++) {
		if (segments.lists[i]->last > max)
			max = segments.lists[i]->last;
		if (segments.lists[i]->max_last == max)
			break;
		segments.lists[i]->max_last = max;
	}
}

static int make_capacity(void)
{
	size_t capacity =
		segments.capacity ? segments.capacity * 2 : CAPACITY_FIRST;
	struct segment_list **lists;

	if (segments.n < segments.capacity)
		return 0;
	lists = mem_calloc(capacity, sizeof(struct segment_list *));
	if (!lists)
		return -ENOMEM;
	if (segments.n)
		memcpy(lists, segments.lists, segments.n * sizeof(*lists));
	free(segments.lists);
	segments.lists = lists;
	segments.capacity = capacity;
	return 0;
}

int list_insert(struct segment_list *list, const char *call)
{
	int err = list_check_mask(list, segments.mask_bits, call);
	size_t i;

	if (err)
		return err;
	if (make_capacity())
		return why(-ENOMEM, "%s: no memory for %zu segment lists", call,
			   segments.n + 1);
	i = n_up_to(list->first);
	memmove(&segments.lists[i + 1], &segments.lists[i],
		(segments.n - i) * sizeof(struct segment_list *));
	segments.lists[i] = list;
	segments.n++;
	if (list_is_registered(list))
		external_insert(list);
	set_max_last(i);
	list->whole.list = ++segments.last_id;
	list->refs++;
	return 0;
}

void list_erase(struct segment_list *list)
{
	size_t i = n_up_to(list->first);

	while (segments.lists[--i] != list)
		;
	debug_check(segments.n > 0);
	segments.n--;
	if (list_is_registered(list))
		external_erase(list);
	memmove(&segments.lists[i], &segments.lists[i + 1],
		(segments.n - i) * sizeof(struct segment_list *));
	set_max_last(i);
	list_put_locked(list);
	if (!segments.n) {
		free(segments.lists);
		segments.lists = NULL;
		segments.capacity = 0;
	}
}

struct segment_list *list_at(const void *addr)
{
	uintptr_t at = (uintptr_t)addr;
	struct segment_list *list, *best = external_at(addr);
	size_t i = n_up_to(at);

	if (best)
		return best;
	while (i-- && segments.lists[i]->max_last >= at) {
		list = segments.lists[i];
		if (list->last < at || list->state == LIST_PENDING)
			continue;
		if (!best || list->whole.list < best->whole.list)
			best = list;
	}
	return best;
}

struct segment_list *list_by_id(uint64_t id)
{
	size_t i;

	for (i = 0; i < segments.n; i++)
		if (segments.lists[i]->whole.list == id &&
		    segments.lists[i]->state != LIST_PENDING)
			return segments.lists[i];
	return NULL;
}

struct segment_list *list_in(size_t *i, uintptr_t first, uintptr_t last)
{
	struct segment_list *list;

	while (*i < segments.n) {
		list = segments.lists[(*i)++];
		if (list->first > last)
			return NULL;
		if (list->last >= first)
			return list;
	}
	return NULL;
}

/* The external memory that contains @list, or NULL. */
static struct segment_list *external_around(const struct segment_list *list)
{
	struct segment_list *ext = external_at(list->whole.addr);

	return ext && ext->last >= list->last ? ext : NULL;
}

/* The properties of external memory hold for an mmap in it, too. */
static int inherit(struct segment_list *list, const char *call)
{
	struct segment_list *ext = external_around(list);
	size_t off;

	if (!ext)
		return 0;
	if (ext->state == LIST_LEAVING)
		return why(-EBUSY, "%s: the external memory at %p is being "
			   "removed", call, ext->whole.addr);
	off = list->first - ext->first;
	list->whole.page_size = ext->whole.page_size;
	list->whole.node = ext->whole.node;
	list->whole.flags |= ext->whole.flags &
			     (WEIR_SEGMENT_EXTERNAL | WEIR_SEGMENT_IMPORTED |
			      WEIR_SEGMENT_HUGE);
	list->whole.iova = segment_iova_at(&ext->whole, ext->iovas, 0, off);
	if (ext->iovas) {
		atomic_fetch_add(&ext->iovas->refs, 1);
		list->iovas = ext->iovas;
		list->iova_skip = off;
	}
	return 0;
}

static struct segment_list *list_of_mmap(struct weir_mmap *mmap)
{
	size_t page = mmap->page_size ? mmap->page_size : segment_base_page();
	struct segment_list *list = list_create(mmap->addr, mmap->len, page);

	if (!list)
		return NULL;
	list->mmap = mmap;
	list->writable = (mmap->permissions & WEIR_MMAP_WRITE) &&
			 !mmap->readonly;
	list->whole.domain_kind = mmap->domain->kind;
	list->whole.fd = mmap->fd;
	list->whole.fd_off = mmap->fd >= 0 ? mmap->fd_off : 0;
	if (mmap->range == MMAP_IMPORT)
		list->whole.flags |= WEIR_SEGMENT_IMPORTED;
	return list;
}

static int enter(struct segment_list *list, struct weir_mmap *mmap,
		 const char *call)
{
	int err;

	segments_lock();
	if (mmap->segment)
		err = why(-EBUSY, "%s: the mmap is being started or stopped, "
			  "and this is a callback of that", call);
	else
		err = inherit(list, call);
	if (!err)
		err = list_insert(list, call);
	if (!err)
		mmap->segment = list;
	segments_unlock();
	return err;
}

int segment_add(struct weir_mmap *mmap)
{
	const char *call = mmap->import ? "weir_mmap_import" :
					  "weir_mmap_start";
	struct segment_list *list;
	int err;

	if (!mmap->cpu || !mmap->addr)
		return 0;
	list = list_of_mmap(mmap);
	if (!list)
		return why(-ENOMEM, "%s: no memory", call);
	err = enter(list, mmap, call);
	if (err) {
		list_put(list);
		return err;
	}
	err = segment_validate(list);
	segments_lock();
	if (err) {
		mmap->segment = NULL;
		list_erase(list);
	} else {
		list->state = LIST_LIVE;
	}
	list_put_locked(list);
	segments_unlock();
	return err;
}

void segment_added(struct weir_mmap *mmap)
{
	struct segment_list *list;

	segments_lock();
	list = mmap->segment;
	if (list)
		list->refs++;
	segments_unlock();
	if (!list)
		return;
	segment_tell_added(list);
	list_put(list);
}

int segment_may_remove(const struct weir_mmap *mmap, const char *call)
{
	struct segment_list *list;
	int err = 0;

	segments_lock();
	list = mmap->segment;
	if (list && list->state != LIST_LIVE)
		err = why(-EBUSY, "%s: the mmap is being started or stopped, "
			  "and this is a callback of that", call);
	else if (list && (list->whole.flags & WEIR_SEGMENT_DO_NOT_FREE))
		err = why(-EBUSY, "%s: its memory is not to be freed; clear "
			  "WEIR_SEGMENT_DO_NOT_FREE of list %llu", call,
			  (unsigned long long)list->whole.list);
	segments_unlock();
	return err;
}

void segment_let_go(struct weir_mmap *mmap)
{
	segments_lock();
	if (mmap->segment) {
		mmap->segment->whole.flags &= ~WEIR_SEGMENT_DO_NOT_FREE;
		mmap->segment->going = true;
	}
	segments_unlock();
}

void segment_remove(struct weir_mmap *mmap)
{
	struct segment_list *list;

	segments_lock();
	list = mmap->segment;
	if (list)
		list->state = LIST_LEAVING;
	segments_unlock();
	if (list)
		segment_forget(list);
}

/* During the callbacks the list still has its mmap, so the mmap cannot be
 * started. */
void segment_forget(struct segment_list *list)
{
	segment_tell_removing(list);
	segment_release_pages(list);
	segments_lock();
	if (list->mmap)
		list->mmap->segment = NULL;
	list_erase(list);
	segments_unlock();
}
