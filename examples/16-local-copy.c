/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A copy from memory to memory, with every object that takes part: the device,
 * the two ranges, the set of descriptors, a descriptor for each side, the
 * context, the job.  Then all of it goes, in reverse.
 *
 * This is the long way, that of DOCA's guide.  Memory that is not shared needs
 * none of it but the context: weir_operand_mem() names it as it is.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/buf.h>
#include <weir/device.h>
#include <weir/dma.h>
#include <weir/inventory.h>
#include <weir/job.h>
#include <weir/mmap.h>
#include <weir/reactor.h>

static char from[4096], to[4096];

static void step(const char *what, int err)
{
	printf("%s: %s\n", what, err ? weir_why() : "done");
	if (err)
		exit(1);
}

/* A range, what may be done with it, and by which device. */
static struct weir_mmap *map(const char *what, void *mem, size_t len,
			     uint32_t permissions, struct weir_device *dev)
{
	struct weir_mmap *mmap = NULL;
	int err = weir_mmap_create(&mmap, NULL);

	if (!err)
		err = weir_mmap_set_memrange(mmap, mem, len);
	if (!err)
		err = weir_mmap_set_permissions(mmap, permissions);
	if (!err)
		err = weir_mmap_add_device(mmap, dev);
	step(what, err ? err : weir_mmap_start(mmap));
	return mmap;
}

/* The job has ended: what it came to goes where .data says. */
static void on_copied(struct weir_op *op, int64_t res)
{
	*(int64_t *)op->data = res;
}

int main(void)
{
	struct weir_reactor *r;
	struct weir_device *dev;
	struct weir_mmap *src_map, *dst_map;
	struct weir_inventory *inv;
	struct weir_buf *src = NULL, *dst = NULL;
	struct weir_dma *dma;
	struct weir_job job;
	int64_t res = 0;
	int same;

	memset(from, 'w', sizeof(from));
	step("1. the reactor, which makes everything happen",
	     weir_reactor_create(&r, NULL));
	step("2. the device: the processor",
	     weir_device_open_name(&dev, "cpu"));
	src_map = map("3. the range of the source", from, sizeof(from),
		      WEIR_MMAP_READ, dev);
	dst_map = map("4. the range of the destination", to, sizeof(to),
		      WEIR_MMAP_WRITE, dev);
	step("5. the inventory, a set of bufs",
	     weir_inventory_create(&inv, r, NULL) ||
	     weir_inventory_attach(inv, src_map) ||
	     weir_inventory_attach(inv, dst_map));
	step("6. a buf that is full, and one that is empty",
	     weir_inventory_get_by_data(&src, inv, src_map, from,
					sizeof(from)) ||
	     weir_inventory_get_by_addr(&dst, inv, dst_map, to, sizeof(to)));
	step("7. the context, in which jobs run",
	     weir_dma_create(&dma, r, NULL) || weir_dma_start(dma));

	weir_job_init(&job, on_copied);
	job.op.data = &res;
	weir_job_copy(&job, weir_operand_buf(dst), weir_operand_buf(src));
	step("8. the job", weir_job_start(dma, &job));
	while (weir_op_is_busy(&job.op))
		weir_reactor_turn(r, WEIR_FOREVER);
	same = res == sizeof(to) && weir_buf_data_len(dst) == sizeof(to) &&
	       !memcmp(from, to, sizeof(to));
	printf("9. it copied %lld bytes, which are %s\n", (long long)res,
	       same ? "the same" : "not the same");

	/* What is put, stopped and destroyed in this order is not in use. */
	weir_buf_put(dst);
	weir_buf_put(src);
	step("10. all goes again, in reverse",
	     weir_dma_destroy(dma) || weir_inventory_destroy(inv) ||
	     weir_mmap_destroy(dst_map) || weir_mmap_destroy(src_map) ||
	     weir_device_close(dev) || weir_reactor_destroy(r));
	return !same;
}
