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
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <weir/provider.h>
#include <weir/rdma/export.h>

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

static inline struct rdma_key rdma_key_read(const struct weir_provider_desc *desc)
{
	struct rdma_key le;

	memcpy(&le, desc->bytes, RDMA_KEY_LEN);
	return (struct rdma_key){
		.node = le64toh(le.node),
		.rkey = le32toh(le.rkey),
		.qp_num = le32toh(le.qp_num),
	};
}

/* Whether a descriptor, which may be hostile, has a key; imports have one. */
static inline bool rdma_key_is_there(const struct weir_provider_desc *desc)
{
	struct rdma_key key = rdma_key_read(desc);

	return desc->n_bytes == RDMA_KEY_LEN && key.rkey && !(key.qp_num >> 24);
}

/* What weir_mmap_describe() is to do for @opts, but for flags and bytes. */
static inline struct weir_describe_opts
rdma_describe_opts(const struct weir_export_rdma_opts *opts)
{
	return (struct weir_describe_opts){
		.size = sizeof(struct weir_describe_opts),
		.permissions = opts->permissions,
		.off = opts->off,
		.len = opts->len,
		.not_after = opts->not_after,
		.key = opts->key,
		.key_len = opts->key_len,
	};
}

#endif /* RDMA_EXPORT_H */
