/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMA_EXPORT_H
#define RDMA_EXPORT_H

/*
 * What a descriptor of an export by RDMA has beside the address: a key, of a region
 * or of a memory window.  It is in the bytes of the provider "verbs", little endian:
 *
 *	 0  8  GUID of the exporter's node; 0: not known
 *	 8  4  remote key, never 0
 *	12  4  number of the exporter's queue pair that the key is good on; 0: any
 *	       of its device's
 */

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <weir/domain.h>
#include <weir/provider.h>

#include "rdma/device.h"

#define RDMA_KEY_LEN 16

struct rdma_key {
	uint64_t node;
	uint32_t rkey, qp_num;
};

static inline void rdma_key_write(struct weir_provider_desc *desc,
				  const struct rdma_key *key)
{
	const struct rdma_key le = {
		.node = htole64(key->node),
		.rkey = htole32(key->rkey),
		.qp_num = htole32(key->qp_num),
	};

	_Static_assert(sizeof(le) == RDMA_KEY_LEN, "it has no padding");
	memcpy(desc->bytes, &le, RDMA_KEY_LEN);
	desc->n_bytes = RDMA_KEY_LEN;
}

/* Returns 0 or -EBADMSG. */
static inline int rdma_key_read(struct rdma_key *ret,
				const struct weir_provider_desc *desc)
{
	struct rdma_key le;

	if (desc->n_bytes != RDMA_KEY_LEN)
		return -EBADMSG;
	memcpy(&le, desc->bytes, RDMA_KEY_LEN);
	ret->node = le64toh(le.node);
	ret->rkey = le32toh(le.rkey);
	ret->qp_num = le32toh(le.qp_num);
	return !ret->rkey || ret->qp_num >> 24 ? -EBADMSG : 0;
}

/* The key of @mmap, if it is an import by RDMA.  Returns whether it is one. */
static inline bool rdma_key_of(struct rdma_key *ret, const struct weir_mmap *mmap)
{
	const struct weir_provider_desc *desc =
		verbs_provider ? weir_mmap_desc(mmap, verbs_provider) : NULL;

	return desc && !rdma_key_read(ret, desc);
}

static inline bool rdma_is_remote(const struct weir_domain *domain)
{
	return domain && weir_domain_kind(domain) == WEIR_DOMAIN_REMOTE;
}

#endif /* RDMA_EXPORT_H */
