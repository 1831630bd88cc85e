/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMA_DEVICE_H
#define RDMA_DEVICE_H

/*
 * An open RDMA device, for code that makes QPs and the like in its protection
 * domain.
 */

#include <stdbool.h>

#include <weir/device.h>
#include <weir/domain.h>
#include <weir/provider.h>

struct ibv_context;
struct ibv_pd;

#define DEVICE_PATH 128		/* Capacity for a path under /sys. */

/* The provider of RDMA devices. */
extern struct weir_provider *verbs_provider;
void device_provide(struct weir_provider_ops *ops); /* Its devices. */

struct device_verbs_open {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	char name[64];
};

/* Returns the part of an open device; NULL if it is no RDMA device. */
static inline const struct device_verbs_open *device_verbs_of(
	const struct weir_device *dev)
{
	return weir_provider_card(verbs_provider, dev);
}

/* Whether @domain is a peer's. */
static inline bool rdma_is_remote(const struct weir_domain *domain)
{
	return domain && weir_domain_kind(domain) == WEIR_DOMAIN_REMOTE;
}

/* .mem_register() and .mem_deregister() of the provider. */
int device_mr_register(void *card, const struct weir_provider_range *range,
		       struct weir_provider_key *ret);
int device_mr_deregister(void *card, const struct weir_provider_key *key);

/* The address at which a device sees @range. */
uint64_t device_range_start(const struct weir_provider_range *range);

/* mw.c: .unbind() of the provider: free the windows on the memory of an mmap. */
int mmap_mws_drop(void *card, void **slot);

/* The path of /sys; tests have a tree of their own. */
extern const char *device_sysfs;

/* The directory there of the RDMA device @name. */
void device_rdma_path(char path[DEVICE_PATH], const char *name);

/*
 * device-id.c: add the RDMA devices of /sys that @list does not have, as
 * unusable for @reason.  Returns 0 or -ENOMEM.
 */
int device_rdma_rest(struct weir_provider_list *list, const char *reason);

/* Set the name and the NUMA node of an RDMA device, and what else is the same for
 * each. */
void device_rdma_begin(struct weir_device_caps *caps, const char *name);

#endif /* RDMA_DEVICE_H */
