/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_DEVICE_VERBS_H
#define WEIR_MEM_DEVICE_VERBS_H

/*
 * What an open RDMA device is: for who makes QPs and the like in its protection
 * domain.  Only where HAVE_VERBS is.
 */

#include "mem/device-internal.h"

struct ibv_context;
struct ibv_device_attr_ex;
struct ibv_pd;

struct device_verbs_open {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
};

/* Of an open device; NULL if it is no RDMA device. */
static inline const struct device_verbs_open *device_verbs_of(
	const struct weir_device *dev)
{
	return dev->info.caps.kind == WEIR_DEVICE_RDMA ? dev->priv : NULL;
}

/*
 * mmap-mw.c: free what is bound to the memory of @md, under its mmap's lock.
 * Returns 0, or what the driver says, with a message.
 */
int mmap_mws_drop(struct mmap_device *md);

/* device-verbs.c: _WINDOW, _ODP, _ATOMIC and the like of WEIR_DEVICE_CAP_, as
 * the driver says. */
uint32_t device_verbs_caps(const struct ibv_device_attr_ex *attr);

#endif /* WEIR_MEM_DEVICE_VERBS_H */
