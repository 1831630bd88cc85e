/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DEVICE_H
#define WEIR_DEVICE_H

/*
 * A device: hardware or software that can move memory, or that has memory.
 *
 *	cpu       the processor, with the system calls that move memory
 *	io_uring  the kernel, through its rings; it can register memory
 *	soft-dm   device memory in software, with the rules of the real one
 *	mlx5_0    an RDMA device, by the name that the kernel gave it
 *
 * A program can add devices of its own, see <weir/provider.h>.
 *
 * The capabilities of a device are known before it is opened:
 * weir_device_list() makes a snapshot of the devices, and weir_devinfo_caps()
 * reads it.  Devices that cannot be used are listed too, with a message that
 * says why, and what would change that.
 *
 * A call that needs a capability which the device lacks returns -EOPNOTSUPP.
 *
 * Devices belong to the process.  An open device has one instance, with a
 * reference count.
 *
 * Re-creates doca_devinfo and doca_dev.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_device;
struct weir_devinfo;

/* Kinds of devices; weir_device_caps.kind. */
#define WEIR_DEVICE_CPU 1
#define WEIR_DEVICE_IO_URING 2
#define WEIR_DEVICE_SOFT_DM 3
#define WEIR_DEVICE_RDMA 4
#define WEIR_DEVICE_USER 1000	/* And more: see <weir/provider.h>. */

/* weir_device_caps.flags */
#define WEIR_DEVICE_USABLE 1u	/* It can be opened; else see .why. */
#define WEIR_DEVICE_SOFTWARE 2u	/* The processor emulates it. */

/*
 * Capabilities of a device; weir_device_caps.caps.  Without the bit the call
 * beside it returns -EOPNOTSUPP.
 */
#define WEIR_DEVICE_CAP_MMAP 1u		/* weir_mmap_add_device(), for memory */
#define WEIR_DEVICE_CAP_DMABUF 2u	/* The same, for a dma-buf */
#define WEIR_DEVICE_CAP_DM 4u		/* weir_dm_alloc() */
#define WEIR_DEVICE_CAP_DM_IMPORT 8u	/* weir_dm_export(), _import() */
#define WEIR_DEVICE_CAP_DM_DMABUF 16u	/* weir_dm_dmabuf_fd() */
#define WEIR_DEVICE_CAP_EXPORT 32u	/* weir_mmap_export(), or _device() */
#define WEIR_DEVICE_CAP_IMPORT 64u	/* weir_mmap_import(), or _device() */

/* Capabilities of the driver that no call of this library needs. */
#define WEIR_DEVICE_CAP_ODP 128u	/* On-demand paging: registers memory
					 * that is not pinned; not used. */
#define WEIR_DEVICE_CAP_MW 256u /* Memory windows of type 2. */
#define WEIR_DEVICE_CAP_SRQ 512u	/* Shared receive queues. */

/*
 * Atomics at peers, and of peers here: atomic to all accesses through this
 * device; and, with the second bit, to the processors of this machine too.
 */
#define WEIR_DEVICE_CAP_ATOMIC 1024u
#define WEIR_DEVICE_CAP_ATOMIC_ALL 2048u

/* weir_mmap_add_device(), for memory of the provider's own domains. */
#define WEIR_DEVICE_CAP_DOMAIN 4096u

/*
 * The bit of a kind of domain in weir_device_caps.domains, or of a kind of job
 * in .jobs.  User kinds of domains have none.
 */
#define WEIR_DEVICE_BIT(kind) (UINT64_C(1) << (kind))

/*
 * Properties and capabilities of a device; weir_devinfo_caps().
 */
struct weir_device_caps {
	size_t size;		/* Set by the caller: the size of the struct. */
	char name[64];
	char why[256];		/* If it is not usable: why, and what would
				 * change that.  Else "". */
	uint32_t kind;		/* WEIR_DEVICE_ */
	uint32_t flags;		/* WEIR_DEVICE_USABLE, _SOFTWARE */
	uint32_t caps;		/* WEIR_DEVICE_CAP_ */
	int32_t numa_node;	/* -1: none, or not known. */
	uint64_t domains;	/* Kinds that it reaches, as bits. */
	uint64_t jobs;		/* WEIR_JOB_ kinds that it does, as bits. */
	uint64_t max_size;	/* Bytes in one job; 0: no limit of its own. */
	uint64_t max_register;	/* Bytes in one registration; 0: the same. */
	uint64_t dm_size;	/* Bytes of device memory. */
	uint32_t max_segments;	/* Pieces of each side of a job. */
	uint32_t align;		/* Of addresses and lengths; 1: none. */
	uint32_t address_bits;	/* Of its addresses. */
	uint32_t reserved;
};

/*
 * List the devices of this system.
 *
 * *@ret is set to an array of *@n entries, followed by NULL.  Entries are valid
 * as long as their list; a device that was opened from one stays valid.
 *
 * The call tests io_uring with a ring that it closes again, unless
 * WEIR_BACKEND=ev is set.
 *
 * Returns 0 with *@ret and *@n set, *@ret to be freed by
 * weir_device_list_free(), or
 *   -ENOMEM   no memory
 *   -EDEADLK  called by a provider's .list(), .open() or .close()
 *   other errnos  returned by a provider's .list()
 *
 * Any thread.  Some system calls.
 *
 * Re-creates doca_devinfo_create_list() and ibv_get_device_list().
 */
WEIR_API int weir_device_list(struct weir_devinfo ***ret, size_t *n);

/*
 * Free @list and its entries.  NULL is allowed.
 *
 * Any thread.
 *
 * Re-creates doca_devinfo_destroy_list() and ibv_free_device_list().
 */
WEIR_API void weir_device_list_free(struct weir_devinfo **list);

/*
 * Get the properties and capabilities of a device.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Any thread.  Never blocks.
 *
 * Re-creates ibv_query_device() and rte_dma_info_get().
 */
WEIR_API int weir_devinfo_caps(const struct weir_devinfo *info,
			       struct weir_device_caps *ret);

/*
 * Open the device of @info.
 *
 * If it is open already, *@ret is the same instance; each open needs a close.
 *
 * Returns 0 with *@ret set, to be closed by weir_device_close(), or
 *   -EOPNOTSUPP  the device cannot be used; weir_why() has the reason
 *   -ENODEV      the device was removed since the list was made
 *   -EMFILE      no descriptor left, or the device is open UINT32_MAX times
 *   -ENOMEM      no memory
 *   -EDEADLK     called by a provider's .list(), .open() or .close()
 *   other errnos  returned by a provider's .open()
 *
 * Any thread.
 *
 * Re-creates doca_dev_open() and ibv_open_device().
 */
WEIR_API int weir_device_open(struct weir_device **ret,
			      const struct weir_devinfo *info);

/*
 * Open the device that is called @name, as weir_device_open() does.
 *
 * Returns 0 with *@ret set, to be closed by weir_device_close(), or
 *   -ENOENT  there is no such device; weir_why() lists the names
 *   -EOPNOTSUPP, -EMFILE, -ENOMEM, -EDEADLK  see weir_device_open()
 *
 * Any thread.
 */
WEIR_API int weir_device_open_name(struct weir_device **ret, const char *name);

/*
 * Close @dev once; the last close frees it.
 *
 * NULL is allowed.
 *
 * Returns 0, or, with nothing changed:
 *   -EBUSY    it would be the last close, and an mmap or device memory holds
 *             @dev
 *   -EDEADLK  called by a provider's .list(), .open() or .close()
 *
 * Any thread.
 *
 * Re-creates doca_dev_close() and ibv_close_device().
 */
WEIR_API int weir_device_close(struct weir_device *dev);

/*
 * Get the entry of an open device, for its capabilities.
 *
 * It is valid as long as @dev is open.
 *
 * Returns the entry.  Any thread.  Never blocks.
 *
 * Re-creates doca_dev_as_devinfo().
 */
WEIR_API const struct weir_devinfo *weir_device_info(
	const struct weir_device *dev);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_DEVICE_H */
