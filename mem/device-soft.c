/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory in software. */

#include <errno.h>

#include <weir/domain.h>

#include "mem/device-internal.h"
#include "mem/dm-internal.h"

static int list_soft(struct device_list *list)
{
	struct weir_devinfo *info = device_list_add(list, &device_soft_dm,
						    "soft-dm");

	if (!info)
		return -ENOMEM;
	info->caps.flags = WEIR_DEVICE_USABLE | WEIR_DEVICE_SOFTWARE;
	info->caps.caps = WEIR_DEVICE_CAP_DM | WEIR_DEVICE_CAP_DM_IMPORT;
	info->caps.domains = WEIR_DEVICE_BIT(WEIR_DOMAIN_DEVICE);
	info->caps.dm_size = DM_SOFT_CAPACITY;
	info->caps.align = DM_WORD;
	info->caps.address_bits = 64;
	return 0;
}

const struct device_class device_soft_dm = {
	.kind = WEIR_DEVICE_SOFT_DM,
	.list = list_soft,
	.dm = &dm_soft_ops,
};
