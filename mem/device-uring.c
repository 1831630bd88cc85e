/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel as a device: io_uring.  Memory is registered with it by reactor,
 * when an inventory or a pool attaches the mmap, so that there is nothing to
 * do for the device as such.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir/domain.h>
#include <weir/job.h>
#include <weir/uring.h>

#include "mem/device-internal.h"

#define DOMAINS (WEIR_DEVICE_BIT(WEIR_DOMAIN_SYSTEM) | \
		 WEIR_DEVICE_BIT(WEIR_DOMAIN_HUGEPAGE) | \
		 WEIR_DEVICE_BIT(WEIR_DOMAIN_FILE))

#define JOBS (WEIR_DEVICE_BIT(WEIR_JOB_COPY) | \
	      WEIR_DEVICE_BIT(WEIR_JOB_PULL) | \
	      WEIR_DEVICE_BIT(WEIR_JOB_PUSH))

#define MAX_REGISTER ((uint64_t)1 << 30)	/* The kernel's. */

static void refused(struct weir_devinfo *info)
{
	const char *at = strstr(weir_why(), ": ");

	snprintf(info->caps.why, sizeof(info->caps.why), "%s",
		 at ? at + 2 : weir_why());
}

static int list_uring(struct device_list *list)
{
	struct weir_uring_info uring = { .size = sizeof(uring) };
	struct weir_devinfo *info = device_list_add(list, &device_uring,
						    "io_uring");

	if (!info)
		return -ENOMEM;
	info->caps.flags = WEIR_DEVICE_SOFTWARE;
	if (weir_uring_probe(&uring)) {
		refused(info);
		return 0;
	}
	info->caps.flags |= WEIR_DEVICE_USABLE;
	if (uring.features & WEIR_URING_BUFFERS) {
		info->caps.caps = WEIR_DEVICE_CAP_MMAP;
		info->caps.max_register = MAX_REGISTER;
	}
	info->caps.domains = DOMAINS;
	info->caps.jobs = JOBS;
	info->caps.max_segments = WEIR_JOB_PIECES_MAX;
	info->caps.address_bits = 8 * sizeof(void *);
	return 0;
}

const struct device_class device_uring = {
	.kind = WEIR_DEVICE_IO_URING,
	.list = list_uring,
};
