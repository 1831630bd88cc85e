/* SPDX-License-Identifier: BSD-3-Clause */
/* The processor: it reaches all that has an address or a descriptor here. */

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <weir/domain.h>
#include <weir/job.h>

#include "base/fault.h"
#include "mem/device-internal.h"

#define DOMAINS (WEIR_DEVICE_BIT(WEIR_DOMAIN_SYSTEM) | \
		 WEIR_DEVICE_BIT(WEIR_DOMAIN_HUGEPAGE) | \
		 WEIR_DEVICE_BIT(WEIR_DOMAIN_FILE))

#define JOBS (WEIR_DEVICE_BIT(WEIR_JOB_COPY) | \
	      WEIR_DEVICE_BIT(WEIR_JOB_PULL) | \
	      WEIR_DEVICE_BIT(WEIR_JOB_PUSH) | \
	      WEIR_DEVICE_BIT(WEIR_JOB_FILL) | \
	      WEIR_DEVICE_BIT(WEIR_JOB_CRC32C) | \
	      WEIR_DEVICE_BIT(WEIR_JOB_COPY_CRC32C) | \
	      WEIR_DEVICE_BIT(WEIR_JOB_COMPARE) | \
	      WEIR_DEVICE_BIT(WEIR_JOB_DUALCAST) | \
	      WEIR_DEVICE_BIT(WEIR_JOB_XOR) | \
	      WEIR_DEVICE_BIT(WEIR_JOB_FETCH_ADD) | \
	      WEIR_DEVICE_BIT(WEIR_JOB_COMPARE_SWAP))

/* The kernel is old, or a filter refuses.  Ask of ourselves, for nothing. */
static bool reaches_processes(void)
{
	long fd = fault("pidfd_open") ? -1 :
				       syscall(SYS_pidfd_open, getpid(), 0);

	if (fd < 0)
		return false;
	close((int)fd);
	return !fault("process_vm_readv") &&
	       !process_vm_readv(getpid(), NULL, 0, NULL, 0, 0);
}

static int list_cpu(struct device_list *list)
{
	struct weir_devinfo *info = device_list_add(list, &device_cpu, "cpu");

	if (!info)
		return -ENOMEM;
	info->caps.flags = WEIR_DEVICE_USABLE | WEIR_DEVICE_SOFTWARE;
	info->caps.caps = WEIR_DEVICE_CAP_MMAP | WEIR_DEVICE_CAP_DMABUF |
			  WEIR_DEVICE_CAP_EXPORT | WEIR_DEVICE_CAP_IMPORT;
	info->caps.domains = DOMAINS;
	if (reaches_processes())
		info->caps.domains |= WEIR_DEVICE_BIT(WEIR_DOMAIN_PROCESS);
	info->caps.jobs = JOBS;
	info->caps.max_segments = WEIR_JOB_PIECES_MAX;
	info->caps.address_bits = 8 * sizeof(void *);
	return 0;
}

const struct device_class device_cpu = {
	.kind = WEIR_DEVICE_CPU,
	.list = list_cpu,
};
