/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* RDMA devices. */

#include "mem/device-internal.h"

static int list_rdma(struct device_list *list)
{
	(void)list;
	return 0;
}

const struct device_class device_rdma = {
	.kind = WEIR_DEVICE_RDMA,
	.list = list_rdma,
};
