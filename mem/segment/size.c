/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Segments: how much memory there is, and how far up its addresses go.
 *
 * Lists overlap, and a byte counts once: sums are of what lists cover together.
 * Own memory is what is covered at all, less what external and imported lists
 * cover.
 */

#include <errno.h>

#include "base/opts.h"
#include "base/why.h"
#include "mem/segment/table.h"

#define OWN 1u
#define EXTERNAL 2u
#define IMPORTED 4u

static unsigned int class_of(const struct segment_list *list)
{
	if (list->whole.flags & WEIR_SEGMENT_EXTERNAL)
		return EXTERNAL;
	return list->whole.flags & WEIR_SEGMENT_IMPORTED ? IMPORTED : OWN;
}

static int node_of(const struct segment_list *list)
{
	return list->whole.node < 0 ? 0 : list->whole.node;
}

/*
 * Bytes that the lists of @classes cover together; of our own only those on
 * @node, if that is not -1, and those that are PENDING only if @pending.
 */
static uint64_t covered(unsigned int classes, int node, bool pending)
{
	struct segment_list *list;
	uint64_t sum = 0;
	uintptr_t next = 0;	/* The first byte that is not counted yet. */
	size_t i;

	for (i = 0; i < segments.n; i++) {
		list = segments.lists[i];
		if (!(class_of(list) & classes) || list->last < next)
			continue;
		if (list->state == LIST_PENDING && !pending)
			continue;
		if (class_of(list) == OWN && node >= 0 && node_of(list) != node)
			continue;
		if (list->first > next)
			next = list->first;
		sum += list->last - next + 1;
		next = list->last + 1;
		if (!next)
			break;
	}
	return sum;
}

uint64_t segments_own_bytes(int node, bool pending)
{
	return covered(OWN | EXTERNAL | IMPORTED, node, pending) -
	       covered(EXTERNAL | IMPORTED, -1, pending);
}

uint64_t weir_segment_node_bytes(int node)
{
	uint64_t n;

	if (node < 0)
		return 0;
	segments_lock();
	n = segments_own_bytes(node, false);
	segments_unlock();
	return n;
}

static uint64_t n_visible(void)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < segments.n; i++)
		n += segments.lists[i]->state != LIST_PENDING;
	return n;
}

int weir_segment_stats(struct weir_segment_stats *ret)
{
	struct weir_segment_stats stats = { .size = sizeof(stats) };

	stats.nodes = segment_host_nodes();
	stats.channels = segment_host_channels();
	stats.ranks = segment_host_ranks();
	segments_lock();
	stats.lists = n_visible();
	stats.bytes = segments_own_bytes(-1, false);
	stats.external = covered(EXTERNAL, -1, false);
	stats.imported = covered(EXTERNAL | IMPORTED, -1, false) -
			 stats.external;
	stats.mask_bits = segments.mask_bits;
	segments_unlock();
	return opts_give(ret, &stats, sizeof(stats), "weir_segment_stats");
}

/*
 * The last IOVA of the list, 0 if unknown.  Of an mmap in external memory only
 * its own pages count.
 */
static uint64_t last_iova(const struct segment_list *list)
{
	size_t page = list->whole.page_size, i, end;
	uint64_t max = 0;

	if (list->whole.iova == WEIR_SEGMENT_NO_IOVA)
		return 0;
	if (!list->iovas)
		return list->last;
	end = (list->iova_skip + list->whole.len - 1) / page;
	for (i = list->iova_skip / page; i <= end; i++)
		if (list->iovas->iova[i] > max)
			max = list->iovas->iova[i];
	return max + page - 1;
}

/* Whether all IOVAs of the table that it is in are in the mask. */
static bool table_fits(const struct segment_list *list, unsigned int bits)
{
	const struct iova_table *table = list->iovas;

	return table && !(table->runs[table->n_runs - 1].last >> bits);
}

int list_check_mask(const struct segment_list *list, unsigned int bits,
		    const char *call)
{
	uint64_t last;

	if (!bits || table_fits(list, bits))
		return 0;
	last = last_iova(list);
	if (!(last >> bits))
		return 0;
	return why(-ERANGE, "%s: the IOVAs of %zu bytes at %p reach to %#llx, "
		   "beyond %u bits", call, list->whole.len, list->whole.addr,
		   (unsigned long long)last, bits);
}

int weir_segment_check_mask(unsigned int bits)
{
	int err = 0;
	size_t i;

	if (!bits || bits > 63)
		return why(-EINVAL, "weir_segment_check_mask: %u bits; 1 to 63 "
			   "make a mask", bits);
	segments_lock();
	for (i = 0; i < segments.n && !err; i++)
		err = list_check_mask(segments.lists[i], bits,
				      "weir_segment_check_mask");
	if (!err && (!segments.mask_bits || bits < segments.mask_bits))
		segments.mask_bits = bits;
	segments_unlock();
	return err;
}

int weir_segment_set_mask(unsigned int bits)
{
	if (bits > 63)
		return why(-EINVAL, "weir_segment_set_mask: %u bits; 1 to 63 "
			   "make a mask, 0 none", bits);
	segments_lock();
	segments.mask_bits = bits;
	segments_unlock();
	return 0;
}
