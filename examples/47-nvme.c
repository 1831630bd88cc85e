/* SPDX-License-Identifier: CC0-1.0 */
/*
 * What an NVMe device says of itself and the checksum of its first MiB, read past the
 * kernel's block layer.  It writes nothing.
 *
 *	47-nvme [DEVICE]	"ng0n1"; the first one that can be used
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/dma.h>
#include <weir/job.h>
#include <weir/nvme/nvme.h>
#include <weir/reactor.h>

#define LEN (1 << 20)

static struct weir_reactor *reactor;
static int status = 1;

static void on_read(struct weir_op *op, int64_t res)
{
	struct weir_op_detail detail;

	weir_op_get_detail(op, &detail);
	if (res < 0)
		fprintf(stderr, "47-nvme: %s: %s\n", strerror((int)-res),
			weir_nvme_status_text(detail.code));
	else
		printf("%lld bytes, CRC-32C %08x\n", (long long)res,
		       weir_job_of(op)->crc);
	status = res < 0;
	weir_reactor_stop(reactor);
}

/* A flush: of a device with a cache it makes durable what was written before. */
static void on_flushed(struct weir_op *op, int64_t res)
{
	const struct weir_nvme_cmd *cmd = op->data;

	printf("flush: %s\n", res < 0 && !cmd->status ? strerror((int)-res) :
	       weir_nvme_status_text(cmd->status));
}

static int open_first(struct weir_device **dev)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_devinfo **list;
	size_t n, i;
	int err = -1;

	if (weir_device_list(&list, &n))
		return -1;
	for (i = 0; i < n && err; i++) {
		weir_devinfo_caps(list[i], &caps);
		if (caps.kind != WEIR_DEVICE_NVME)
			continue;
		if (caps.flags & WEIR_DEVICE_USABLE)
			err = weir_device_open(dev, list[i]);
		else
			fprintf(stderr, "%s\n", caps.why);
	}
	weir_device_list_free(list);
	return err;
}

static int run(struct weir_device *dev, struct weir_dma *dma)
{
	static struct weir_nvme_cmd flush = { .size = sizeof(flush) };
	static struct weir_op flushed = { .fn = on_flushed, .data = &flush };
	struct weir_domain *domain = weir_nvme_domain(dev);
	struct weir_nvme_queue *queue;
	char *memory = aligned_alloc(4096, LEN);
	struct weir_job job;

	weir_job_init(&job, on_read);
	weir_job_copy_crc32c(&job, weir_operand_mem(memory, LEN),
			     weir_operand_at(domain, 0, LEN), 0);
	if (!domain || !memory ||
	    weir_nvme_queue_create(&queue, reactor, dev, NULL) ||
	    weir_nvme_submit(queue, &flushed, &flush) ||
	    weir_dma_start(dma) || weir_job_start(dma, &job)) {
		fprintf(stderr, "47-nvme: %s\n", weir_why());
		return 1;
	}
	weir_reactor_run(reactor);
	weir_nvme_queue_destroy(queue);
	free(memory);
	return status;
}

int main(int argc, char **argv)
{
	struct weir_nvme_info info = { .size = sizeof(info) };
	struct weir_device *dev;
	struct weir_dma *dma;

	weir_nvme_init();
	if (argc > 1 ? weir_device_open_name(&dev, argv[1]) : open_first(&dev)) {
		fprintf(stderr, argc > 1 ? "47-nvme: %s\n" :
			"there is no NVMe device that can be used\n", weir_why());
		return argc > 1 ? 1 : 77;
	}
	if (weir_nvme_info(dev, &info) || weir_reactor_create(&reactor, NULL) ||
	    weir_dma_create(&dma, reactor, NULL)) {
		fprintf(stderr, "47-nvme: %s\n", weir_why());
		return 1;
	}
	printf("%s, serial %s, firmware %s: %llu blocks of %u bytes\n", info.model,
	       info.serial, info.firmware, (unsigned long long)info.blocks,
	       info.block_size);
	status = run(dev, dma);
	weir_dma_destroy(dma);
	weir_device_close(dev);
	return weir_reactor_destroy(reactor) || status;
}
