/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of shared pools: one mmap per class and growth step, in the
 * largest pages and on the node that were requested, as far as the system has
 * them.
 */

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "mem/domain-internal.h"
#include "mem/pages.h"
#include "mem/segment/internal.h"
#include "mem/shared-pool-internal.h"

#define PAGE ((size_t)4096)

/* From <linux/mempolicy.h>, which some systems lack. */
#define POLICY_BIND 2
#define POLICY_MOVE 2

/*
 * Map reserved pages of 2^@shift bytes for *@len, or return NULL.  They are
 * touched here, because the kernel may refuse even a reserved page, for example
 * because of a cgroup.
 */
static void *try_reserved(size_t *len, size_t align, unsigned int shift,
			  struct shared_pool_slab *slab)
{
	size_t page = (size_t)1 << shift;
	size_t round = pages_round(*len, page);
	char *p;

	if (align > page || pages_map_huge(&p, round, page))
		return NULL;
	if (pages_populate(p, round, page)) {
		pages_free(p, round);
		return NULL;
	}
	*len = round;
	slab->page_size = page;
	return p;
}

/* Try the page sizes from the largest requested one down to ordinary pages. */
static void *alloc(const struct shared_pool_class *cls, size_t *len,
		   struct shared_pool_slab *slab)
{
	uint32_t flags = cls->shared_pool->flags;
	size_t align = cls->align < PAGE ? PAGE : cls->align;
	bool huge = !(flags & WEIR_SHARED_POOL_NO_HUGE);
	void *p = NULL;

	if (flags & WEIR_SHARED_POOL_HUGE_1G)
		p = try_reserved(len, align, 30, slab);
	if (!p && flags & (WEIR_SHARED_POOL_HUGE_1G | WEIR_SHARED_POOL_HUGE_2M))
		p = try_reserved(len, align, 21, slab);
	if (!p) {
		p = pages_alloc(*len, align, &huge);
		slab->transparent = huge;
	}
	return p;
}

/* The pages were touched already, so they move, at their first use. */
static int bind_to_node(void *p, size_t len, uint32_t node)
{
	unsigned long mask[16] = { 0 };
	const uint32_t bits = 8 * sizeof(mask[0]);

	if (node >= bits * 16)
		return -EINVAL;
	mask[node / bits] = 1ul << node % bits;
	if (fault("mbind"))
		return -EPERM;
#ifdef SYS_mbind
	return syscall(SYS_mbind, p, len, POLICY_BIND, mask, bits * 16 + 1,
		       POLICY_MOVE) ?
		       -errno :
		       0;
#else
	(void)p, (void)len;
	return -ENOSYS;
#endif
}

static void free_pages(void *addr, size_t len, void *arg)
{
	(void)arg;
	pages_free(addr, len);
}

static int make_mmap(struct shared_pool_slab *slab,
		     const struct shared_pool_class *cls, uint32_t n,
		     const char *call)
{
	size_t len = pages_round(shared_pool_stride(cls) * n, PAGE);
	void *mem;
	int err;

	err = weir_mmap_create(&slab->mmap, NULL);
	if (err)
		return err;
	slab->own_mmap = true;
	mem = alloc(cls, &len, slab);
	if (!mem)
		return why(-ENOMEM, "%s: no %zu bytes of memory for %u buffers",
			   call, len, n);
	if (cls->shared_pool->flags & WEIR_SHARED_POOL_NUMA)
		slab->node_err =
			bind_to_node(mem, len, cls->shared_pool->numa_node);
	weir_mmap_set_memrange(slab->mmap, mem, len);
	weir_mmap_set_permissions(slab->mmap, WEIR_MMAP_WRITE);
	weir_mmap_set_free_cb(slab->mmap, free_pages, NULL);
	err = weir_mmap_start(slab->mmap);
	if (err)
		pages_free(mem, len);
	return err;
}

/*
 * The memory of a slab's buffers.  No byte is in two slabs of the process: two
 * pools over one mmap, or over mmaps that overlap, would hand out the same
 * memory.
 */
struct slab_range {
	/* NULL: addresses are pointers; otherwise offsets in this object. */
	const void *space;
	uint64_t first, last;
	struct slab_range *next;
};

static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER;
static struct slab_range *ranges;

static bool overlap(const struct slab_range *a, const struct slab_range *b)
{
	return a->space == b->space && a->first <= b->last &&
	       b->first <= a->last;
}

static struct slab_range *range_of(const struct shared_pool_slab *slab,
				   const struct shared_pool_class *cls)
{
	const struct weir_mmap *mmap = slab->mmap;
	const struct weir_buf *last = &slab->bufs[slab->n - 1];
	struct slab_range *range = mem_calloc(1, sizeof(*range));

	if (!range)
		return NULL;
	range->first = (uintptr_t)slab->bufs[0].addr;
	range->last = (uintptr_t)last->addr + cls->buf_size - 1;
	if (mmap->dm) {
		range->space = mmap->dm;
		range->first += mmap->dm_off;
		range->last += mmap->dm_off;
	} else if (!mmap->cpu) {
		range->space = domain_is_user(mmap->domain) ?
				       (const void *)mmap->domain : mmap;
	}
	return range;
}

static int range_add(struct shared_pool_slab *slab,
		     const struct shared_pool_class *cls, const char *call)
{
	struct slab_range *range = range_of(slab, cls), *other;

	if (!range)
		return why(-ENOMEM, "%s: no memory", call);
	pthread_mutex_lock(&ranges_lock);
	for (other = ranges; other && !overlap(range, other);
	     other = other->next)
		;
	if (!other) {
		range->next = ranges;
		ranges = range;
		slab->range = range;
	}
	pthread_mutex_unlock(&ranges_lock);
	if (!other)
		return 0;
	free(range);
	return why(
		-EBUSY,
		"%s: another pool hands out memory of .mmap; destroy "
		"it first, give each pool an mmap over memory of its own, or "
		"share buffers by .shared_pool",
		call);
}

static void range_del(struct slab_range *range)
{
	struct slab_range **p;

	if (!range)
		return;
	pthread_mutex_lock(&ranges_lock);
	for (p = &ranges; *p != range; p = &(*p)->next)
		;
	*p = range->next;
	pthread_mutex_unlock(&ranges_lock);
	free(range);
}

static void fill(struct shared_pool_slab *slab,
		 const struct shared_pool_class *cls)
{
	char *base = slab->mmap->addr;
	uint32_t i;

	base += (size_t) - (uintptr_t)base & (cls->align - 1);
	for (i = 0; i < slab->n; i++) {
		slab->bufs[i].addr = base + i * shared_pool_stride(cls);
		slab->bufs[i].len = cls->buf_size;
	}
}

int slab_make(struct shared_pool_slab *slab,
	      const struct shared_pool_class *cls, uint32_t n,
	      struct weir_mmap *mmap, const char *call)
{
	int err = 0;

	*slab = (struct shared_pool_slab){ .mmap = mmap,
					   .n = n,
					   .page_size = PAGE };
	if (!mmap)
		err = make_mmap(slab, cls, n, call);
	if (!err) {
		slab->bufs = free_list_alloc_bufs(NULL, n);
		if (!slab->bufs)
			err = why(-ENOMEM, "%s: no memory for %u bufs", call,
				  n);
	}
	if (!err) {
		fill(slab, cls);
		err = range_add(slab, cls, call);
	}
	if (err)
		slab_free(slab);
	return err;
}

/* Remove the range before the memory is freed: the next slab may get the same
 * memory. */
void slab_free(struct shared_pool_slab *slab)
{
	range_del(slab->range);
	if (slab->own_mmap) {
		segment_let_go(slab->mmap);
		check(!weir_mmap_destroy(slab->mmap));
	}
	free(slab->bufs);
}
