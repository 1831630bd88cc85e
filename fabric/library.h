/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FABRIC_LIBRARY_H
#define FABRIC_LIBRARY_H

/*
 * What is used of libfabric's exported functions; the others are inline, and call
 * through tables of their objects.
 */

#include <stdbool.h>

#include <rdma/fabric.h>

#define FABRIC_API FI_VERSION(1, 17)

struct fabric_library {
	uint32_t (*version)(void);
	int (*getinfo)(uint32_t version, const char *node, const char *service,
		       uint64_t flags, const struct fi_info *hints,
		       struct fi_info **info);
	void (*freeinfo)(struct fi_info *info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
		      void *context);
	const char *(*error)(int err);
};

/* The library, which the first call loads, which may take half a second; or NULL
 * with *@why set. */
const struct fabric_library *fabric_library(const char **why);

/* Whether it is one that is made for simulated worlds. */
bool fabric_library_is_simulated(void);

/* An errno for what libfabric has returned, whose codes may be positive, and its
 * own. */
int fabric_errno(long err);

/* @err as text for people. */
const char *fabric_error(long err);

#endif /* FABRIC_LIBRARY_H */
