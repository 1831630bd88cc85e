/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_DM_INTERNAL_H
#define WEIR_MEM_DM_INTERNAL_H

/*
 * Device memory, and what a class of devices does for it.
 *
 * dm.c checks what is the same for all devices, in the order that mlx5 has, and
 * calls the device's dm_ops.  Each of them may be NULL: -EOPNOTSUPP.  They
 * leave a message when they fail, and return a negative errno.
 */

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/dm.h>

struct weir_dm {
	struct weir_device *device;
	struct weir_dm *next;		/* Of all that there are, see dm.c. */
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
	/* .device and .len are set; sets the rest. */
	int (*alloc)(struct weir_dm *dm, uint32_t log_align);
	int (*import)(struct weir_dm *dm, const struct weir_dm_token *token);

	/* Frees what alloc has made, or lets go of what import has. */
	int (*release)(struct weir_dm *dm);

	/* The range is inside, and whole words. */
	int (*copy_to)(struct weir_dm *dm, uint64_t off, const void *src,
		       size_t len);
	int (*copy_from)(void *dst, struct weir_dm *dm, uint64_t off,
			 size_t len);

	int (*export)(struct weir_dm *dm, struct weir_dm_token *token);
	int (*dmabuf_fd)(struct weir_dm *dm);
};

/* Of the software device: what it has, and what it can align to. */
#define DM_SOFT_CAPACITY (256u << 10)
#define DM_SOFT_LOG_ALIGN_MAX 12u

struct weir_domain;

/* The domain of all mmaps of device memory; immortal. */
struct weir_domain *dm_domain(void);

/* An mmap has it for its range: it cannot be freed. */
static inline void dm_use(struct weir_dm *dm)
{
	atomic_fetch_add_explicit(&dm->users, 1, memory_order_relaxed);
}

/* Release: what the user did comes before it can be freed. */
static inline void dm_unuse(struct weir_dm *dm)
{
	atomic_fetch_sub_explicit(&dm->users, 1, memory_order_release);
}

#endif /* WEIR_MEM_DM_INTERNAL_H */
