/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rte_dmadev over dma_skeleton, DPDK's software in place of a device: a thread
 * takes copies from a ring and makes them with memcpy(); we look whether they
 * are done.  It runs between dmadev_open() and dmadev_close(), on another CPU.
 */

#include <errno.h>

#include "bench/bench.h"
#include "bench/dpdk.h"

#ifdef HAVE_DPDK

#define ALLOW_EXPERIMENTAL_API 1	/* dmadev is that, in DPDK 22.11. */

#pragma GCC diagnostic push
#include "bench/dpdk-quiet.h"
#include <rte_dev.h>
#include <rte_dmadev.h>
#pragma GCC diagnostic pop

#define NAME "dma_skeleton"
#define CAPACITY 128

static int16_t dev = -1;

static bool attach(void)
{
	if (dev < 0 && rte_eal_hotplug_add("vdev", NAME, "") == 0)
		dev = (int16_t)rte_dma_get_dev_id_by_name(NAME);
	return dev >= 0;
}

bool dmadev_open(const char **reason)
{
	struct rte_dma_conf conf = { .nb_vchans = 1 };
	struct rte_dma_vchan_conf vchan = {
		.direction = RTE_DMA_DIR_MEM_TO_MEM,
		.nb_desc = CAPACITY,
	};

	if (!dpdk_start(reason))
		return false;
	*reason = "DPDK's " NAME " is not there (librte-dma-skeleton)";
	if (!attach())
		return false;
	*reason = NAME " does not start";
	return !rte_dma_configure(dev, &conf) &&
	       !rte_dma_vchan_setup(dev, 0, &vchan) && !rte_dma_start(dev);
}

void dmadev_close(void)
{
	rte_dma_stop(dev);
}

static void copy_batch(void *dst, const void *src, size_t size, size_t batch)
{
	size_t done = 0;
	bool error = false;

	for (size_t i = 0; i < batch; i++)
		bench_must(rte_dma_copy(dev, 0, (uintptr_t)src, (uintptr_t)dst,
					(uint32_t)size,
					i + 1 < batch ? 0 :
					RTE_DMA_OP_FLAG_SUBMIT),
			   "rte_dma_copy");
	while (done < batch && !error)
		done += rte_dma_completed(dev, 0, (uint16_t)batch, NULL,
					  &error);
	if (error)
		bench_die("rte_dma_completed", EIO);
}

double dmadev_run(void *dst, const void *src, size_t size, size_t batch,
		  uint64_t n)
{
	uint64_t begun = bench_wall_ns();

	for (uint64_t i = 0; i < n; i += batch)
		copy_batch(dst, src, size, batch);
	return (double)(bench_wall_ns() - begun) / (double)n;
}

#else

bool dmadev_open(const char **reason)
{
	return dpdk_start(reason);
}

void dmadev_close(void)
{
}

double dmadev_run(void *dst, const void *src, size_t size, size_t batch,
		  uint64_t n)
{
	(void)dst, (void)src, (void)size, (void)batch, (void)n;
	return 0;
}

#endif
