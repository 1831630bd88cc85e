/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMA_DEVICE_H
#define RDMA_DEVICE_H

/*
 * An open RDMA device, for code that makes QPs and the like in its protection
 * domain.
 */

#include "mem/device-internal.h"

extern const struct device_class device_verbs;

struct ibv_context;
struct ibv_device_attr_ex;
struct ibv_pd;

struct device_verbs_open {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
};

/* Returns the part of an open device; NULL if it is no RDMA device. */
static inline const struct device_verbs_open *device_verbs_of(
	const struct weir_device *dev)
{
	return dev->info.caps.kind == WEIR_DEVICE_RDMA ? dev->priv : NULL;
}

/*
 * mw.c: free the windows on the memory of @md, under its mmap's lock. Returns
 * 0, or the driver's errno, with a message.
 */
int mmap_mws_drop(struct mmap_device *md);

/* The path of /sys; tests have a tree of their own. */
extern const char *device_sysfs;

/*
 * device-id.c: add the RDMA devices of /sys that @list does not have, as
 * unusable for @reason.  Returns 0 or -ENOMEM.
 */
int device_rdma_rest(struct device_list *list, const char *reason);

/* Find the RDMA device of @info in /sys: ->sysfs, and its NUMA node. */
void device_rdma_locate(struct weir_devinfo *info);

#endif /* RDMA_DEVICE_H */
