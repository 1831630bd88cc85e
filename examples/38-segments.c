/* SPDX-License-Identifier: CC0-1.0 */

/*
 * The map of all memory that weir knows: a callback hears of each change, a walk
 * visits each piece, and an address leads to its piece.
 */

#include <stdio.h>

#include <weir/mmap.h>
#include <weir/segment.h>

static int added, removed;

static void on_change(int event, const struct weir_segment *list, void *arg)
{
	(void)arg;
	printf("%s: %zu bytes\n",
	       event == WEIR_SEGMENT_ADDED ? "added" : "removing", list->len);
	*(event == WEIR_SEGMENT_ADDED ? &added : &removed) += 1;
}

static int on_segment(const struct weir_segment *segment, void *arg)
{
	printf("  %zu bytes in pages of %zu, on node %d\n", segment->len,
	       segment->page_size, segment->node);
	*(size_t *)arg += segment->len;
	return 0;		/* Go on. */
}

int main(void)
{
	struct weir_segment found = { .size = sizeof(found) };
	struct weir_mmap *mmap;
	size_t len, total = 0;
	void *addr;
	int err;

	err = weir_segment_event_register("38-segments", on_change, NULL);
	if (!err)
		err = weir_mmap_create(&mmap, NULL);
	if (!err)
		err = weir_mmap_alloc(mmap, 4 * 4096, 0);
	if (!err)
		err = weir_mmap_start(mmap);
	if (!err)
		err = weir_mmap_memrange(mmap, &addr, &len);
	if (err)
		return fprintf(stderr, "38-segments: %s\n", weir_why()), 1;

	err = weir_segment_walk(on_segment, &total);
	if (!err)
		err = weir_segment_find(&found, (char *)addr + len / 2);
	if (!err)
		printf("the middle is in list %llu\n",
		       (unsigned long long)found.list);
	if (!err)
		err = weir_mmap_destroy(mmap);
	if (!err)
		err = weir_segment_event_unregister("38-segments", NULL);
	return err || total < len || added != 1 || removed != 1;
}
