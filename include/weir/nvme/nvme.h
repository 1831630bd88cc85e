/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_NVME_NVME_H
#define WEIR_NVME_NVME_H

/*
 * NVMe namespaces without the kernel's block layer: jobs and commands by passthrough.
 *
 * A program that is linked with libweir-nvme has a device for each /dev/ngXnY, called
 * "ng0n1", say.  Its domain has the bytes of the namespace, and jobs with a side in it
 * are done by an engine "nvme" that each DMA context has:
 *
 *	weir_device_open_name(&dev, "ng0n1");
 *	weir_dma_create(&dma, r, NULL);
 *	weir_job_copy(&job, weir_operand_mem(mem, 65536),
 *		      weir_operand_at(weir_nvme_domain(dev), 1 << 20, 65536));
 *	weir_job_start(dma, &job);
 *
 * Any other command is an operation on a queue:
 *
 *	weir_nvme_queue_create(&q, r, dev, NULL);
 *	cmd = (struct weir_nvme_cmd){ .size = sizeof(cmd), .opcode = 0x00 };
 *	weir_nvme_submit(q, &op, &cmd);		// a flush
 *
 * Commands go to the driver by io_uring (IORING_OP_URING_CMD, from Linux 5.19 on), many
 * with one system call; on both backends, because a queue has a ring of its own.  Where
 * that is not possible a worker thread of the reactor executes each by ioctl(2), which
 * is slower; weir_nvme_stats() counts these.
 *
 * No page cache and no file system is between, so nothing here is coherent with what
 * the kernel has cached of the block device: do not use both at the same time.  A write
 * is durable after a flush if the device has a volatile cache (WEIR_NVME_CACHE), or if
 * it was made with FUA.
 *
 * Jobs are copies between memory of this process and a namespace, copies within a
 * namespace that has the Copy command, and fills.  Other kinds, files and other
 * devices go through staging.  Addresses and lengths in the domain are multiples of
 * .block_size; memory may have any address.  Large jobs are divided into commands, of
 * which several are in flight.  A command that fails is sent again, up to
 * WEIR_NVME_TRIES times, unless the device forbids it (Do Not Retry); then the job ends
 * with one of these, with the bytes before the first that failed in .bytes of
 * weir_op_get_detail(), and the status in .code, as weir_nvme_status_text() takes it:
 *
 *	-EIO         the medium, the device or the way to it has failed
 *	-ENODATA     the block was never written, or is deallocated, and the device
 *	             reports that as an error
 *	-EILSEQ      protection information does not match; a comparison found a
 *	             difference
 *	-EACCES      the device refuses access
 *	-EROFS       the namespace is write protected
 *	-EBADE       a reservation of another host
 *	-ENOSPC      no capacity left to allocate
 *	-ERANGE      beyond the namespace, which has become smaller
 *	-EINVAL      the device does not take a field of the command
 *	-EOPNOTSUPP  it does not know the command
 *	-ENODEV      it was removed
 *	-EPERM       the kernel does not allow the command
 *	-EAGAIN      .ops_max operations are in flight, where workers send commands
 *
 * A command that was sent is not taken back: after a cancel or a deadline no more are
 * sent, and the job ends when those in flight have.  The driver resets a controller that
 * does not answer in its timeout (30 s, or .timeout_ms).
 *
 * Opening /dev/ngXnY takes its permissions; before Linux 6.2 also CAP_SYS_ADMIN.
 * WEIR_NVME_DEVICES names the files to be used instead of all that are in /dev,
 * separated by colons.
 *
 * A DMA context that has had a job with a device keeps its file open until the context
 * is destroyed.
 *
 * The calls are in libweir-nvme.
 */

#include <sys/uio.h>

#include <weir/device.h>
#include <weir/domain.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_nvme_queue;
struct weir_op;
struct weir_reactor;

/* The kind of the domain of a namespace, and of the devices. */
#define WEIR_DOMAIN_NVME (WEIR_DOMAIN_USER + 0x6e76)
#define WEIR_DEVICE_NVME (WEIR_DEVICE_USER + 0x6e76)

/* Times that a command of a job is sent, if it fails and may be repeated. */
#define WEIR_NVME_TRIES 5

/*
 * Register the devices with weir_device_list(), and the engine "nvme" with DMA
 * contexts that are created from now on.
 *
 * Loading libweir-nvme does that too.  Call this function in a program that makes no
 * other call of libweir-nvme, so that the linker keeps the library.  A second call
 * has no effect.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates spdk_nvme_probe(), at the first list of devices.
 */
WEIR_API void weir_nvme_init(void);

/* weir_nvme_info.flags */
#define WEIR_NVME_READ_ONLY 1u	/* Write protected, or opened for reading only. */
#define WEIR_NVME_CACHE 2u	/* It has a volatile write cache. */
#define WEIR_NVME_COMPARE 4u	/* Optional commands that it has. */
#define WEIR_NVME_DSM 8u	/* Dataset Management: deallocate. */
#define WEIR_NVME_WRITE_ZEROES 16u
#define WEIR_NVME_COPY 32u
#define WEIR_NVME_PI 64u	/* It is formatted with protection information, which
				 * the device makes and checks in jobs (PRACT). */

/* What the device says of itself (Identify); weir_nvme_info(). */
struct weir_nvme_info {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t blocks;	/* Of the namespace. */
	uint32_t block_size;	/* In bytes. */
	uint32_t metadata_size;	/* In bytes, of each block. */
	uint32_t nsid;
	uint32_t flags;		/* WEIR_NVME_ */
	uint32_t max_transfer;	/* Bytes that a job puts into one command. */
	uint32_t max_copy;	/* What the device takes for Copy; 0: jobs do not use
				 * that command. */
	char serial[24];
	char model[48];
	char firmware[16];
};

/*
 * Get what the device says of itself, as it was when it was opened.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -EINVAL  @dev is not a device of this library, or .size is smaller than the
 *            member itself
 *
 * Any thread.  Never blocks.
 *
 * Re-creates spdk_nvme_ctrlr_get_data() and spdk_nvme_ns_get_data().
 */
WEIR_API int weir_nvme_info(const struct weir_device *dev,
			    struct weir_nvme_info *ret);

/*
 * Get the domain with the bytes of the namespace, from 0 on.
 *
 * It is valid as long as @dev is open; it is not to be destroyed.  It is read only if
 * the device could be opened for reading only.
 *
 * Returns the domain, or NULL with a message in weir_why():
 *   @dev is not a device of this library, or its blocks have metadata that is no
 *   protection information, so that only commands can be used
 *
 * Any thread.  Never blocks.
 *
 * Re-creates spdk_bdev_get_memory_domains(), for the bytes of the device itself.
 */
WEIR_API struct weir_domain *weir_nvme_domain(const struct weir_device *dev);

/* Commands that a queue has in flight at most. */
#define WEIR_NVME_DEPTH_MAX 1024

/*
 * Options of weir_nvme_queue_create().  Set .size to the size of the struct and
 * leave the other fields at 0.
 */
struct weir_nvme_queue_opts {
	size_t size;
	uint32_t depth;		/* Commands in flight; default 128. */
	uint32_t reserved;
};

/*
 * Create a queue of commands for @dev on @r.  DMA contexts have their own.
 *
 * Returns 0 with *@ret set, to be freed by weir_nvme_queue_destroy(), or
 *   -EINVAL     an argument is NULL; @dev is not a device of this library; .size is
 *               not set; or .depth is above WEIR_NVME_DEPTH_MAX
 *   -E2BIG      @opts sets a member that this version does not have
 *   -EOPNOTSUPP @r is one of a simulated world
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.  Some system calls.
 *
 * Re-creates spdk_nvme_ctrlr_alloc_io_qpair().
 */
WEIR_API int weir_nvme_queue_create(struct weir_nvme_queue **ret,
				    struct weir_reactor *r,
				    struct weir_device *dev,
				    const struct weir_nvme_queue_opts *opts);

/*
 * Free @queue.  NULL is allowed.
 *
 * Returns 0, or, with nothing changed:
 *   -EBUSY  commands are in flight
 *
 * Call on the queue's reactor.
 *
 * Re-creates spdk_nvme_ctrlr_free_io_qpair().
 */
WEIR_API int weir_nvme_queue_destroy(struct weir_nvme_queue *queue);

/* weir_nvme_cmd.flags */
#define WEIR_NVME_ADMIN 1u	/* An admin command; a worker thread sends it. */

/*
 * A command, by the names of the NVM Express specification.  Set .size to the size of
 * the struct, and what the command does not need to 0.  It and its memory stay until
 * the callback.
 */
struct weir_nvme_cmd {
	size_t size;
	uint8_t opcode;		/* Its lowest two bits say which way data goes. */
	uint8_t reserved0[3];
	uint32_t flags;		/* WEIR_NVME_ADMIN */
	uint32_t nsid;		/* 0: that of the device, except for an admin
				 * command. */
	uint32_t timeout_ms;	/* 0: the driver's. */
	uint32_t cdw2, cdw3;
	uint32_t cdw10, cdw11, cdw12, cdw13, cdw14, cdw15;
	void *data;		/* Or */
	const struct iovec *iov; /* .n_iov pieces; not of an admin command. */
	uint32_t data_len;	/* Bytes at .data. */
	uint32_t n_iov;
	void *metadata;		/* If that is separate. */
	uint32_t metadata_len;

	/* Out. */
	uint16_t status;	/* Status code and type, with Do Not Retry; 0 if the
				 * command has succeeded, or has not been executed. */
	uint16_t reserved1;
	uint64_t result;	/* Dwords 0 and 1 of the completion. */
};

/* Pieces that .iov may have. */
#define WEIR_NVME_PIECES_MAX 256

/*
 * Send @cmd to the device.
 *
 * Completes with 0, with .status and .result set; or with one of the errnos that
 * <weir/nvme/nvme.h> lists for jobs; -EINTR: the driver has cancelled it in a reset of the
 * controller; or -ENOMEM: there is no worker thread for it.
 *
 * It is sent once.  Nothing is checked of the command but its memory: a wrong one can
 * destroy data, and the kernel decides which ones a program may send.
 *
 * A cancel or a deadline has no effect on a command that was sent by io_uring, and ends
 * one that waits for a worker.
 *
 * Returns 0, or, with nothing sent:
 *   -EINVAL     an argument is NULL; .size is not set; .flags or the reserved members
 *               have unknown bits; .data and .iov are both set; a length is without
 *               its pointer; an admin command has .iov; or @op is in flight or has no
 *               callback
 *   -E2BIG      @cmd sets a member that this version does not have
 *   -EMSGSIZE   .iov has more than WEIR_NVME_PIECES_MAX pieces
 *   -EAGAIN     .depth commands are in flight, or .ops_max operations
 *   -ESHUTDOWN  the reactor is stopping
 *
 * Call on the queue's reactor.  Never blocks; never allocates but a worker.  Commands of
 * a turn are sent with one system call.
 *
 * Re-creates spdk_nvme_ctrlr_cmd_io_raw(), spdk_nvme_ctrlr_cmd_admin_raw() and
 * NVME_URING_CMD_IO.
 */
WEIR_API int weir_nvme_submit(struct weir_nvme_queue *queue, struct weir_op *op,
			      struct weir_nvme_cmd *cmd);

/* Counters of a queue; weir_nvme_stats(). */
struct weir_nvme_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t commands;	/* Sent, the repeated ones included. */
	uint64_t failed;	/* Of them. */
	uint64_t repeated;	/* Sent again, see WEIR_NVME_TRIES. */
	uint64_t submits;	/* System calls that sent some by io_uring. */
	uint64_t by_ioctl;	/* Commands that a worker sent. */
	uint32_t in_flight;	/* Now. */
	uint32_t reserved;
};

/*
 * Get the counters of @queue.
 *
 * The caller sets .size of *@ret.  They are also on the page of statistics, as a
 * section "nvme_queue" of the reactor's, and those of DMA contexts too.
 *
 * Returns 0, or
 *   -EINVAL  @queue is NULL, or .size is smaller than the member itself
 *
 * Call on the queue's reactor.  Never blocks.
 *
 * Re-creates spdk_nvme_qpair_get_num_outstanding_reqs().
 */
WEIR_API int weir_nvme_stats(const struct weir_nvme_queue *queue,
			     struct weir_nvme_stats *ret);

/*
 * Get a text for @status, of weir_nvme_cmd.status or of a job's .code: "unrecovered
 * read error".
 *
 * A negative number is an errno of the kernel's.
 *
 * Returns a string that is always valid: "unknown status" at the least.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates spdk_nvme_cpl_get_status_string().
 */
WEIR_API const char *weir_nvme_status_text(int status);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_NVME_NVME_H */
