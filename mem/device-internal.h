/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_DEVICE_INTERNAL_H
#define WEIR_MEM_DEVICE_INTERNAL_H

/*
 * Devices, as mmaps and device memory use them, and the table that a class of
 * devices fills.
 *
 * All calls of a class but list() are made for an open device that has the
 * capability that the call needs; the caller checks that.  A class may leave
 * out calls that none of its devices supports.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include <weir/device.h>
#include <weir/engine.h>
#include <weir/provider.h>

struct device_class;
struct dm_ops;
struct weir_dm;
struct weir_domain;

struct weir_devinfo {
	const struct device_class *cls;
	struct weir_device_caps caps;
};

struct weir_device {
	struct weir_devinfo info;
	uint32_t refs;		/* Opens without a close, by the one lock. */
	atomic_uint users;	/* Mmaps, and device memory. */
	bool dead;		/* It was removed or reset, by the one lock. */
	struct weir_device *next;
	void *priv;		/* The class's, from its open(). */
};

/* The memory that mr_register() registers. */
enum device_range_kind { DEVICE_RANGE_MEM, DEVICE_RANGE_DMABUF,
			 DEVICE_RANGE_DM, DEVICE_RANGE_DOMAIN };

struct device_range {
	enum device_range_kind kind;
	uint32_t permissions;	/* WEIR_MMAP_ */
	bool windows;		/* May be bound to it.  MEM */
	void *addr;		/* MEM, DOMAIN */
	size_t len;
	int fd;			/* DMABUF */
	uint64_t off;		/* DMABUF, DM */
	struct weir_dm *dm;	/* DM */
	struct weir_domain *domain; /* DOMAIN */
};

/* The result of the registration. */
struct device_mr {
	void *priv;
	uint32_t lkey, rkey;	/* The keys for the device and for its peers. */
};

/* A list that is being built. */
struct device_list {
	/* With space for one more, and a NULL. */
	struct weir_devinfo **entries;
	size_t n;
	/* The only device to list, because querying each device is slow.  NULL:
	 * all. */
	const char *only;
};

static inline bool device_list_wants(const struct device_list *list,
				     const char *name)
{
	return !list->only || !strcmp(list->only, name);
}

/*
 * The device of @dev was removed or reset: from now on, an open of that name
 * makes another handle.  @dev is still to be closed, or was closed meanwhile.  Any
 * thread.  Returns 0, -EDEADLK, or -EPERM if it is always there, with a message of
 * @call.
 */
int device_is_dead(struct weir_device *dev, const char *call);

/* Where an import is reached. */
struct device_import {
	struct weir_domain *domain;
	uint64_t addr;
	void *data;
};

/* A class that can be removed lives as long as entries of lists and open
 * devices refer to it. */
struct device_owner {
	char name[WEIR_PROVIDER_NAME_MAX + 1];
	atomic_uint refs;
	bool gone;		/* It was removed, by the one lock. */
	uint32_t n_open;	/* Devices, by the one lock. */
	void (*free)(struct device_owner *owner);	/* The last reference. */
};

static inline void device_owner_put(struct device_owner *owner)
{
	if (owner && atomic_fetch_sub_explicit(&owner->refs, 1,
					       memory_order_acq_rel) == 1)
		owner->free(owner);
}

/*
 * Each call returns 0 or a negative errno, with a message left (base/why.h);
 * its outputs are untouched on failure.  They are serialised where two threads
 * could meet: list(), open() and close() run under the lock of devices.  Those
 * of a class with an owner are of the user's, and may try to take it again: the
 * calls that need it refuse that with -EDEADLK.
 */
struct device_class {
	uint32_t kind;		/* WEIR_DEVICE_ */

	/* Set for a class that can be removed. */
	struct device_owner *owner;

	/* Add the devices of class @cls to @list, with device_list_add(). */
	int (*list)(const struct device_class *cls, struct device_list *list);

	/* The first open and the last close.  May be NULL. */
	int (*open)(struct weir_device *dev);
	void (*close)(struct weir_device *dev);

	/* WEIR_DEVICE_CAP_DM; NULL: none of its devices has memory. */
	const struct dm_ops *dm;

	/* WEIR_DEVICE_CAP_MMAP, for memory: one per mmap and device.  NULL:
	 * this device needs none. */
	int (*mr_register)(struct weir_device *dev,
			   const struct device_range *range,
			   struct device_mr *ret);
	int (*mr_deregister)(struct weir_device *dev,
			     const struct device_mr *mr);

	/* Called before mr_deregister(): end what weir_mmap_bind() has put into
	 * *@slot.  NULL: nothing is. */
	int (*unbind)(struct weir_device *dev, void **slot);

	/* WEIR_DEVICE_CAP_EXPORT and _IMPORT, see export/device.c, for classes
	 * with an owner. */
	int (*describe)(struct weir_device *dev, const struct device_mr *mr,
			struct weir_provider_desc *desc);
	int (*import)(struct weir_device *dev,
		      const struct weir_provider_desc *desc,
		      struct device_import *ret);
	void (*import_end)(struct weir_device *dev,
			   const struct device_import *import);
};

extern const struct device_class device_soft_dm;

/* A provider.  All behind the first two members is dma/provider.c's alone. */
struct weir_provider {
	struct device_class cls;
	struct device_owner owner;
	struct weir_provider_ops ops;
	struct weir_engine_ops engine;	/* If .ops.engine is set. */
	struct weir_provider_dm_ops dm;	/* If .ops.dm is. */
	void *arg;
	uint32_t n_contexts;		/* By the lock, */
	bool is_leaving;		/* as this: it gets no more of them. */
};

/* Register the class of a provider, which then lists and opens its devices. */
void device_class_add(const struct device_class *cls);

/* Whether a class is being asked on this thread: 0, or -EDEADLK with a message
 * that begins with @call. */
int device_refuse_nested(const char *call);

/* Remove @cls, which has an owner.  Returns 0, or -EBUSY if devices are open,
 * with a message that begins with @call. */
int device_class_del(const struct device_class *cls, const char *call);

/*
 * A new entry of @list, of @cls, with its name, and kind, and no capability;
 * or NULL with a message.
 */
struct weir_devinfo *device_list_add(struct device_list *list,
				     const struct device_class *cls,
				     const char *name);

/*
 * An mmap or device memory holds @dev, so that the last close refuses.  The
 * caller makes sure that @dev is open.
 */
static inline void device_use(struct weir_device *dev)
{
	atomic_fetch_add_explicit(&dev->users, 1, memory_order_relaxed);
}

/* Release order: the user's accesses come before the close of the device. */
static inline void device_unuse(struct weir_device *dev)
{
	atomic_fetch_sub_explicit(&dev->users, 1, memory_order_release);
}

static inline const char *device_name(const struct weir_device *dev)
{
	return dev->info.caps.name;
}

/* Whether @dev has all of @caps. */
static inline bool device_can(const struct weir_device *dev, uint32_t caps)
{
	return (dev->info.caps.caps & caps) == caps;
}

#endif /* WEIR_MEM_DEVICE_INTERNAL_H */
