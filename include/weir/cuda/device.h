/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_CUDA_DEVICE_H
#define WEIR_CUDA_DEVICE_H

/*
 * The memory of NVIDIA's GPUs as a domain, and their copy engines as an engine.
 *
 * A program that is linked with libweir-cuda has the devices "cuda0", "cuda1", ...
 * beside the others in weir_device_list(), and in each DMA context an engine
 * "cuda" for jobs with a side on a GPU:
 *
 *	weir_device_open_name(&dev, "cuda0");
 *	weir_cuda_alloc(dev, &addr, len);
 *	weir_job_copy(&job, weir_operand_at(weir_cuda_domain(dev), addr, len),
 *		      weir_operand_mem(here, len));
 *	weir_job_start(dma, &job);
 *
 * The driver's library, libcuda.so.1, is opened when devices are first listed.
 * Where there is none, the list has an entry "cuda" that says why, and what would
 * change that.  Neither the toolkit nor its headers are needed.
 *
 * Addresses are the driver's, as CUdeviceptr has them; memory that the program has
 * allocated by cuMemAlloc(), cudaMalloc() or another library can be used as well.
 * Everything happens in the device's primary context, the one that CUDA's runtime
 * uses.  The context that is current on a thread is the same after a call as before.
 *
 * Copies, pulls, pushes and fills are the GPU's.  Other kinds of jobs, and files and
 * peers as the other side, go through staging in memory of this process.
 *
 * The GPU's memory can be the range of an mmap, by weir_mmap_set_domain(), and
 * inventories and pools make bufs of it.  With the device among its devices the mmap
 * can be exported to other processes of the same user and PID namespace, by
 * weir_mmap_export_device() or a lease.  Importers use the same GPU.
 *
 * The driver maps all of an allocation into the importer, in blocks of 2 MiB, and
 * cannot take it back.  So only a whole allocation is exported, whose length is a
 * multiple of 2 MiB, and importers count their jobs in a page that they share with the
 * exporter.  From a stop, revoke or end of a lease on new jobs of theirs are refused
 * with -ESTALE, jobs that wait end with it, and an operation of the exporter waits for
 * what the GPU has begun.  When it has ended, no job with bufs of the import reads or
 * writes the memory.  An importer learns of it by its next job, or by one that ends so,
 * not by weir_mmap_watch().
 *
 * An importer that is killed is waited for until its process has ended.  So is one
 * whose GPU has failed, which has to end anyway, and one that calls exec() with jobs in
 * flight: end them first.  Importers should not have children of fork() that do not
 * call exec(), for these keep the driver's files: such a child is waited for as well,
 * but not beyond the moment when the kernel has closed the first of its files.
 *
 * An export has at most 63 importers: weir_mmap_import_device() is -EAGAIN for one
 * more.  It is -ENOSPC if the process has 256 devices and imports.
 *
 * An importer that does not use this library can read and write the memory as long as
 * it likes, also if the export is for reading: do not export to one that is not
 * trusted.  If either process ends, the other one keeps the memory.
 *
 * NVIDIA calls it undefined to free memory while another process has it mapped, which
 * an importer has until it destroys its mmap.  A driver that was tried (docs/cuda.md)
 * leaves the memory with the importer.  To rely on what is defined, let importers
 * destroy their mmaps before you call weir_cuda_free().
 *
 * Memory of this process is reached directly if it is page-locked: bufs of an mmap
 * with the device (weir_mmap_add_device(), weir_pool_mmap()), or memory of
 * cuMemHostAlloc() and cuMemHostRegister().  Other memory goes through page-locked
 * staging of the engine, 4 MiB for each device and context, in which both halves of
 * a copy overlap.
 *
 * A copy that the GPU has begun cannot be taken back.  Jobs of which nothing was
 * begun end at once when they are cancelled, or at their deadline; of the others no
 * further part is begun, and they end when the GPU has finished what it has, at
 * most 32 MiB in each direction.
 *
 * A copy or fill that the driver refuses after its start ends its job with -EFAULT, if
 * the driver calls the address invalid, or with the errno of its code, which is .code
 * of weir_op_get_detail().
 *
 * An error that makes the context unusable (an illegal address in a kernel, a
 * memory error) ends all jobs of that device with -EIO; the driver's code is .code
 * of weir_op_get_detail().  CUDA does not work in that process any more, and opening
 * the device again is -EIO: end the process, and start another one.
 *
 * CUDA does not work in a child of fork(), which has no devices.
 *
 * The calls are in libweir-cuda.
 */

#include <weir/device.h>
#include <weir/domain.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kind of the domain of a GPU's memory. */
#define WEIR_DOMAIN_CUDA (WEIR_DOMAIN_USER + 0x6375)

/* The kind of its device. */
#define WEIR_DEVICE_CUDA (WEIR_DEVICE_USER + 0x6375)

/*
 * Register GPUs with weir_device_list(), and the engine "cuda" with DMA contexts that
 * are created from now on.
 *
 * Loading libweir-cuda does that too.  Call this function in a program that makes no
 * other call of libweir-cuda, so that the linker keeps the library.  A second call
 * has no effect.
 *
 * Any thread.  Never blocks.  Re-creates cuInit(), at the first use of a device.
 */
WEIR_API void weir_cuda_init(void);

/*
 * Get the domain of the memory of @dev.
 *
 * It is valid until @dev is closed.  Memory of all GPUs has one address space, so a
 * job may have sides on two GPUs.
 *
 * Returns it, or NULL if @dev is not a device of this library.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates doca_gpu_mem_alloc() and the memory domains of SPDK's users.
 */
WEIR_API struct weir_domain *weir_cuda_domain(const struct weir_device *dev);

/*
 * Allocate @len bytes of the memory of @dev, aligned to 256.
 *
 * Returns 0 with *@addr set, to be freed by weir_cuda_free(), or
 *   -EINVAL  an argument is NULL or 0, or @dev is not a device of this library
 *   -ENOMEM  the GPU has not so much left
 *   -EIO     the device has failed; weir_why() has the driver's error
 *
 * Any thread.  May wait for the GPU.
 *
 * Re-creates cuMemAlloc().
 */
WEIR_API int weir_cuda_alloc(struct weir_device *dev, uint64_t *addr,
			     size_t len);

/* weir_cuda_alloc_opts.flags */
#define WEIR_CUDA_ALLOC_RDMA 1u	/* For network cards: GPUDirect RDMA. */

/*
 * Options of weir_cuda_alloc_pages().  Set .size to the size of the struct and leave
 * what you do not care about at 0.
 */
struct weir_cuda_alloc_opts {
	size_t size;
	uint64_t granularity;	/* A power of two; 0: what the driver recommends. */
	uint32_t flags;		/* WEIR_CUDA_ALLOC_ */
	uint32_t reserved;
};

/*
 * Allocate @len bytes of the memory of @dev in pages of their own, which hold nothing
 * else: address and length are multiples of .granularity.
 *
 * The driver does not let other processes map such memory, so it cannot be exported;
 * a dma-buf of it is possible.
 *
 * Returns 0 with *@addr set, to be freed by weir_cuda_free(), or
 *   -EINVAL      an argument is NULL; @dev is not a device of this library; @len is 0
 *                or not a multiple of the granularity; that is no power of two, or
 *                less than what the driver can; unknown flags
 *   -E2BIG       @opts uses fields of a later version
 *   -ENOMEM      the GPU has not so much left
 *   -EOPNOTSUPP  the driver has no such memory, or the device none for RDMA
 *   -EIO         the device has failed
 *
 * Any thread.  May wait for the GPU.
 *
 * Re-creates cuMemCreate(), cuMemAddressReserve(), cuMemMap() and cuMemSetAccess().
 */
WEIR_API int weir_cuda_alloc_pages(struct weir_device *dev, uint64_t *addr,
				   size_t len,
				   const struct weir_cuda_alloc_opts *opts);

/*
 * Free memory of weir_cuda_alloc() or weir_cuda_alloc_pages().  No job may use it any
 * more.  0 is allowed.
 *
 * Returns 0, or
 *   -EINVAL  @dev is not a device of this library, or @addr was not allocated
 *   -EBUSY   it is exported; stop or revoke its mmap
 *   -EIO     the device has failed
 *
 * Any thread.  Waits for what the GPU has begun.
 *
 * Re-creates cuMemFree().
 */
WEIR_API int weir_cuda_free(struct weir_device *dev, uint64_t addr);

/*
 * What an address is; weir_cuda_pointer().
 */
struct weir_cuda_pointer {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t start;		/* Of the allocation or registration, */
	uint64_t len;		/* and its bytes. */
	int32_t device;		/* The number of the GPU that has it. */
	int32_t is_host;	/* 1: page-locked memory of this process. */
};

/*
 * Ask the driver what @addr is.
 *
 * Returns 0, or, with *@ret unchanged:
 *   -EINVAL  @dev is not a device of this library, or .size is too small
 *   -EFAULT  the driver does not know the address, as that of memory that is not
 *            page-locked
 *   -EIO     the device has failed
 *
 * Any thread.  Does not wait for the GPU.
 *
 * Re-creates cuPointerGetAttributes().
 */
WEIR_API int weir_cuda_pointer(struct weir_device *dev, uint64_t addr,
			       struct weir_cuda_pointer *ret);

/*
 * Make a dma-buf of memory of @dev, for devices that take one: see
 * weir_mmap_set_dmabuf().
 *
 * @addr and @len are multiples of the page size of this machine.
 *
 * Returns 0 with *@fd set, which the caller closes, or
 *   -EINVAL      an argument is bad, or the range is not memory of @dev
 *   -EOPNOTSUPP  the driver or the device has no dma-bufs; weir_why() says which
 *   -EIO         the device has failed
 *
 * Any thread.
 *
 * Re-creates cuMemGetHandleForAddressRange() and doca_gpu_dmabuf_fd().
 */
WEIR_API int weir_cuda_dmabuf(struct weir_device *dev, uint64_t addr,
			      size_t len, int *fd);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_CUDA_DEVICE_H */
