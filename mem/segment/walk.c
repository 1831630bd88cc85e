/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Walks over a copy of the table, and look-ups in the table.
 *
 * The copy has lists.  Segments, of which there may be a million, are made from
 * them one by one.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/segment/table.h"

struct copy {
	struct weir_segment whole;
	struct iova_table *iovas;
	size_t iova_skip;
};

struct snapshot {
	size_t n;
	struct copy lists[];
};

int segment_copy_out(struct weir_segment *ret, const struct weir_segment *seg,
		     const char *call)
{
	return opts_give(ret, seg, sizeof(*seg), call);
}

uint64_t segment_iova_at(const struct weir_segment *whole,
			 const struct iova_table *iovas, size_t skip,
			 size_t off)
{
	if (iovas)
		return iovas->iova[(skip + off) / whole->page_size] +
		       (skip + off) % whole->page_size;
	if (whole->iova == WEIR_SEGMENT_NO_IOVA)
		return WEIR_SEGMENT_NO_IOVA;
	return (uintptr_t)whole->addr + off;
}

/* The segment of @whole that contains the byte at @off. */
static struct weir_segment piece(const struct weir_segment *whole,
				 const struct iova_table *iovas, size_t skip,
				 size_t off)
{
	uintptr_t base = (uintptr_t)whole->addr;
	size_t page = whole->page_size, in_page = (base + off) & (page - 1);
	size_t from = off > in_page ? off - in_page : 0;
	size_t to = off + (page - in_page);
	struct weir_segment seg = *whole;

	if (to > whole->len)
		to = whole->len;
	seg.addr = (char *)whole->addr + from;
	seg.len = to - from;
	seg.iova = segment_iova_at(whole, iovas, skip, from);
	if (seg.fd >= 0)
		seg.fd_off += from;
	return seg;
}

static void snapshot_free(struct snapshot *snap)
{
	size_t i;

	for (i = 0; i < snap->n; i++)
		iova_table_put(snap->lists[i].iovas);
	free(snap);
}

static void copy_list(struct snapshot *snap, const struct segment_list *list)
{
	struct copy *copy = &snap->lists[snap->n++];

	copy->whole = list->whole;
	copy->iovas = list->iovas;
	copy->iova_skip = list->iova_skip;
	if (copy->iovas)
		atomic_fetch_add(&copy->iovas->refs, 1);
}

/* All lists, or the one with this id; NULL: no memory. */
static struct snapshot *take_snapshot(uint64_t id)
{
	struct segment_list *list;
	struct snapshot *snap;
	size_t i;

	segments_lock();
	snap = mem_calloc(1, sizeof(*snap) + segments.n * sizeof(struct copy));
	for (i = 0; snap && i < segments.n; i++) {
		list = segments.lists[i];
		if (list->state != LIST_PENDING &&
		    (!id || list->whole.list == id))
			copy_list(snap, list);
	}
	segments_unlock();
	return snap;
}

static int visit_pieces(const struct copy *copy, weir_segment_fn *fn, void *arg)
{
	struct weir_segment seg;
	size_t off;
	int res;

	for (off = 0; off < copy->whole.len; off += seg.len) {
		seg = piece(&copy->whole, copy->iovas, copy->iova_skip, off);
		res = fn(&seg, arg);
		if (res)
			return res;
	}
	return 0;
}

static int visit_whole(const struct copy *copy, weir_segment_fn *fn, void *arg)
{
	return fn(&copy->whole, arg);
}

typedef int visit_fn(const struct copy *copy, weir_segment_fn *fn, void *arg);

static int walk(const char *call, uint64_t id, visit_fn *visit,
		weir_segment_fn *fn, void *arg)
{
	struct snapshot *snap;
	int res = 0;
	size_t i;

	if (!fn)
		return why(-EINVAL, "%s: no callback", call);
	snap = take_snapshot(id);
	if (!snap)
		return why(-ENOMEM, "%s: no memory for the copies", call);
	if (id && !snap->n)
		res = why(-ENOENT, "%s: there is no list %llu", call,
			  (unsigned long long)id);
	for (i = 0; i < snap->n && !res; i++)
		res = visit(&snap->lists[i], fn, arg);
	snapshot_free(snap);
	return res;
}

int weir_segment_walk(weir_segment_fn *fn, void *arg)
{
	return walk("weir_segment_walk", 0, visit_pieces, fn, arg);
}

int weir_segment_walk_list(uint64_t list, weir_segment_fn *fn, void *arg)
{
	if (!list)
		return why(-ENOENT, "weir_segment_walk_list: no list has id 0");
	return walk("weir_segment_walk_list", list, visit_pieces, fn, arg);
}

int weir_segment_walk_lists(weir_segment_fn *fn, void *arg)
{
	return walk("weir_segment_walk_lists", 0, visit_whole, fn, arg);
}

/* Extend @run by @next, which begins in it or where it ends. */
static void join(struct weir_segment *run, const struct weir_segment *next)
{
	uintptr_t begin = (uintptr_t)run->addr;
	size_t reach = (uintptr_t)next->addr - begin + next->len;

	if (reach > run->len)
		run->len = reach;
	if (next->page_size < run->page_size)
		run->page_size = next->page_size;
	if (next->node != run->node)
		run->node = -1;
	run->flags &= next->flags;
}

static int walk_runs(const struct snapshot *snap, weir_segment_fn *fn,
		     void *arg)
{
	const struct weir_segment *next;
	struct weir_segment run;
	size_t i = 0;
	int res = 0;

	while (i < snap->n && !res) {
		run = snap->lists[i++].whole;
		for (; i < snap->n; i++) {
			next = &snap->lists[i].whole;
			if ((uintptr_t)next->addr - (uintptr_t)run.addr >
			    run.len)
				break;
			join(&run, next);
		}
		res = fn(&run, arg);
	}
	return res;
}

int weir_segment_walk_runs(weir_segment_fn *fn, void *arg)
{
	struct snapshot *snap;
	int res;

	if (!fn)
		return why(-EINVAL, "weir_segment_walk_runs: no callback");
	snap = take_snapshot(0);
	if (!snap)
		return why(-ENOMEM,
			   "weir_segment_walk_runs: no memory for the copies");
	res = walk_runs(snap, fn, arg);
	snapshot_free(snap);
	return res;
}

/* The list that contains @addr, with the lock held.  NULL: there is none; *@err
 * is set, and the lock is not held. */
static struct segment_list *look_up(const void *addr, const char *call,
				    int *err)
{
	struct segment_list *list;

	if (!addr) {
		*err = why(-EINVAL, "%s: no address", call);
		return NULL;
	}
	segments_lock();
	list = list_at(addr);
	if (list)
		return list;
	segments_unlock();
	*err = why(-ENOENT, "%s: no started mmap and no external memory holds "
		   "%p", call, addr);
	return NULL;
}

static size_t offset_in(const struct segment_list *list, const void *addr)
{
	return (uintptr_t)addr - list->first;
}

int weir_segment_find(struct weir_segment *ret, const void *addr)
{
	struct segment_list *list;
	struct weir_segment seg;
	int err;

	list = look_up(addr, "weir_segment_find", &err);
	if (!list)
		return err;
	seg = piece(&list->whole, list->iovas, list->iova_skip,
		    offset_in(list, addr));
	segments_unlock();
	return segment_copy_out(ret, &seg, "weir_segment_find");
}

int weir_segment_find_list(struct weir_segment *ret, const void *addr)
{
	struct segment_list *list;
	struct weir_segment seg;
	int err;

	list = look_up(addr, "weir_segment_find_list", &err);
	if (!list)
		return err;
	seg = list->whole;
	segments_unlock();
	return segment_copy_out(ret, &seg, "weir_segment_find_list");
}

static int dup_fd(int fd)
{
	int copy = fault("dup") ? (errno = EMFILE, -1) :
				  fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (copy < 0)
		return why(-errno, "weir_segment_fd: %s", strerror(errno));
	return copy;
}

/* Under the lock, so that the mmap cannot close it meanwhile. */
int weir_segment_fd(int *ret, uint64_t *off, const void *addr)
{
	struct segment_list *list;
	int fd, err;

	if (!ret || !off)
		return why(-EINVAL, "weir_segment_fd: nowhere to put it");
	list = look_up(addr, "weir_segment_fd", &err);
	if (!list)
		return err;
	if (list->whole.flags & WEIR_SEGMENT_EXTERNAL)
		fd = why(-EOPNOTSUPP, "weir_segment_fd: %p is external memory; "
			 "who registered it knows", addr);
	else if (list->whole.fd < 0)
		fd = why(-ENODEV, "weir_segment_fd: there is no file behind "
			 "%p; WEIR_MMAP_ALLOC_MEMFD makes one", addr);
	else
		fd = dup_fd(list->whole.fd);
	if (fd >= 0)
		*off = list->whole.fd_off + offset_in(list, addr);
	segments_unlock();
	if (fd < 0)
		return fd;
	*ret = fd;
	return 0;
}

int weir_segment_iova(uint64_t *ret, const void *addr)
{
	struct segment_list *list;
	uint64_t iova;
	int err;

	if (!ret)
		return why(-EINVAL, "weir_segment_iova: nowhere to put it");
	list = look_up(addr, "weir_segment_iova", &err);
	if (!list)
		return err;
	iova = segment_iova_at(&list->whole, list->iovas, list->iova_skip,
			       offset_in(list, addr));
	segments_unlock();
	if (iova == WEIR_SEGMENT_NO_IOVA)
		return why(-EOPNOTSUPP, "weir_segment_iova: %p is external "
			   "memory, and was registered without its IOVAs",
			   addr);
	*ret = iova;
	return 0;
}

/* By a table of external memory.  Under the lock. */
static void *by_table(uint64_t iova)
{
	struct segment_list *list;
	size_t i, off;

	for (i = 0; i < segments.n_external; i++) {
		list = segments.external[i];
		if (list->iovas && iova_table_find(list->iovas, iova, &off))
			return (char *)list->whole.addr + off;
	}
	return NULL;
}

int weir_segment_from_iova(void **ret, uint64_t iova)
{
	struct segment_list *list;
	void *addr;

	if (!ret)
		return why(-EINVAL, "weir_segment_from_iova: nowhere to put "
			   "it");
	segments_lock();
	addr = by_table(iova);
	if (!addr && iova == (uintptr_t)iova) {
		list = list_at((void *)(uintptr_t)iova);
		if (list && !list->iovas &&
		    list->whole.iova != WEIR_SEGMENT_NO_IOVA)
			addr = (void *)(uintptr_t)iova;
	}
	segments_unlock();
	if (!addr)
		return why(-ENOENT, "weir_segment_from_iova: %#llx is in no "
			   "list", (unsigned long long)iova);
	*ret = addr;
	return 0;
}
