/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_DM_INTERNAL_H
#define WEIR_MEM_DM_INTERNAL_H

/*
 * Device memory, and the functions of a class of devices for it.
 *
 * dm.c makes the checks that are the same for all devices, in the order of
 * mlx5, and calls the device's dm_ops.  Each of them may be NULL: -EOPNOTSUPP.
 * They return a negative errno and leave a message when they fail.
 */

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/dm.h>

struct weir_dm {
	struct weir_device *device;
	struct weir_dm *next;		/* In the list of all; see dm.c. */
	size_t len;
	atomic_uint users;		/* Mmaps. */
	bool imported;
	bool copies;			/* The driver can copy. */

	/* The device's own. */
	int fd;				/* soft */
	uint32_t capacity; /* soft: what it takes, with padding;
					 * 0: another handle of it counts. */
	uint64_t ino;			/* soft: of .fd. */
	struct weir_dm *next_soft;
	void *priv;
};

/* The smallest piece and step of a copy. */
#define DM_WORD 4u

struct dm_ops {
	/* .device and .len are set; set the rest. */
	int (*alloc)(struct weir_dm *dm, uint32_t log_align);
	int (*import)(struct weir_dm *dm, const struct weir_dm_token *token);

	/* Free what alloc made, or release what import has. */
	int (*release)(struct weir_dm *dm);

	/* The caller has checked that the range is inside and whole words. */
	int (*copy_to)(struct weir_dm *dm, uint64_t off, const void *src,
		       size_t len);
	int (*copy_from)(void *dst, struct weir_dm *dm, uint64_t off,
			 size_t len);

	int (*export)(struct weir_dm *dm, struct weir_dm_token *token);
	int (*dmabuf_fd)(struct weir_dm *dm);
};

/* Limits of the software device: capacity and alignment. */
#define DM_SOFT_CAPACITY (256u << 10)
#define DM_SOFT_LOG_ALIGN_MAX 12u

struct weir_domain;

/* The domain of all mmaps of device memory; immortal. */
struct weir_domain *dm_domain(void);

/* An mmap uses it as its range, so it cannot be freed. */
static inline void dm_use(struct weir_dm *dm)
{
	atomic_fetch_add_explicit(&dm->users, 1, memory_order_relaxed);
}

/* Release order: the user's accesses come before the free. */
static inline void dm_unuse(struct weir_dm *dm)
{
	atomic_fetch_sub_explicit(&dm->users, 1, memory_order_release);
}

#endif /* WEIR_MEM_DM_INTERNAL_H */
