/* SPDX-License-Identifier: BSD-3-Clause */
/* What an RDMA device can do, as its driver says. */

#include <infiniband/verbs.h>

#include "rdma/device.h"

/* Told, and not used: where soft-RoCE takes it the data are wrong. */
static bool has_odp(const struct ibv_odp_caps *odp)
{
	const uint32_t both = IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;

	return odp->general_caps & IBV_ODP_SUPPORT &&
	       (odp->per_transport_caps.rc_odp_caps & both) == both;
}

static bool has_mws(const struct ibv_device_attr *attr)
{
	return attr->max_mw > 0 &&
	       attr->device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A |
					 IBV_DEVICE_MEM_WINDOW_TYPE_2B);
}

uint32_t device_verbs_caps(const struct ibv_device_attr_ex *ex)
{
	const struct ibv_device_attr *attr = &ex->orig_attr;
	uint32_t caps = 0;

	if (has_odp(&ex->odp_caps))
		caps |= WEIR_DEVICE_CAP_ODP;
	if (has_mws(attr))
		caps |= WEIR_DEVICE_CAP_MW;
	if (attr->atomic_cap != IBV_ATOMIC_NONE)
		caps |= WEIR_DEVICE_CAP_ATOMIC;
	if (attr->atomic_cap == IBV_ATOMIC_GLOB)
		caps |= WEIR_DEVICE_CAP_ATOMIC_ALL;
	if (attr->max_srq > 0)
		caps |= WEIR_DEVICE_CAP_SRQ;
	return caps;
}
