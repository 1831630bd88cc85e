/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices of every machine, the list of devices, and open devices. */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <weir/domain.h>
#include <weir/job.h>
#include <weir/provider.h>
#include <weir/uring.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/fault.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/device-internal.h"

/* The processor reaches everything that has an address or a descriptor here. */

#define DOMAINS (WEIR_DEVICE_BIT(WEIR_DOMAIN_SYSTEM) | \
		 WEIR_DEVICE_BIT(WEIR_DOMAIN_HUGEPAGE) | \
		 WEIR_DEVICE_BIT(WEIR_DOMAIN_FILE))

#define CPU_JOBS \
	(WEIR_DEVICE_BIT(WEIR_JOB_COPY) | \
	 WEIR_DEVICE_BIT(WEIR_JOB_PULL) | \
	 WEIR_DEVICE_BIT(WEIR_JOB_PUSH) | \
	 WEIR_DEVICE_BIT(WEIR_JOB_FILL) | \
	 WEIR_DEVICE_BIT(WEIR_JOB_CRC32C) | \
	 WEIR_DEVICE_BIT(WEIR_JOB_COPY_CRC32C) | \
	 WEIR_DEVICE_BIT(WEIR_JOB_COMPARE) | \
	 WEIR_DEVICE_BIT(WEIR_JOB_DUALCAST) | \
	 WEIR_DEVICE_BIT(WEIR_JOB_XOR) | \
	 WEIR_DEVICE_BIT(WEIR_JOB_FETCH_ADD) | \
	 WEIR_DEVICE_BIT(WEIR_JOB_COMPARE_SWAP))

/* An old kernel or a filter may refuse the call.  Try it on this process, with
 * no bytes. */
static bool reaches_processes(void)
{
	long fd = fault("pidfd_open") ? -1 :
				       syscall(SYS_pidfd_open, getpid(), 0);

	if (fd < 0)
		return false;
	close((int)fd);
	return !fault("process_vm_readv") &&
	       !process_vm_readv(getpid(), NULL, 0, NULL, 0, 0);
}

static int list_cpu(const struct device_class *cls, struct device_list *list)
{
	struct weir_devinfo *info = device_list_add(list, cls, "cpu");

	if (!info)
		return -ENOMEM;
	info->caps.flags = WEIR_DEVICE_USABLE | WEIR_DEVICE_SOFTWARE;
	info->caps.caps = WEIR_DEVICE_CAP_MMAP | WEIR_DEVICE_CAP_DMABUF |
			  WEIR_DEVICE_CAP_EXPORT | WEIR_DEVICE_CAP_IMPORT;
	info->caps.domains = DOMAINS;
	if (reaches_processes())
		info->caps.domains |= WEIR_DEVICE_BIT(WEIR_DOMAIN_PROCESS);
	info->caps.jobs = CPU_JOBS;
	info->caps.max_segments = WEIR_JOB_PIECES_MAX;
	info->caps.address_bits = 8 * sizeof(void *);
	return 0;
}

static const struct device_class device_cpu = {
	.kind = WEIR_DEVICE_CPU,
	.list = list_cpu,
};

/*
 * The kernel as a device: io_uring.  An inventory or a pool registers memory
 * with it by reactor when it attaches an mmap, so the device itself has nothing
 * to register.
 */

#define URING_JOBS \
	(WEIR_DEVICE_BIT(WEIR_JOB_COPY) | \
	 WEIR_DEVICE_BIT(WEIR_JOB_PULL) | \
	 WEIR_DEVICE_BIT(WEIR_JOB_PUSH))

#define MAX_REGISTER ((uint64_t)1 << 30)	/* The kernel's bound. */

static void refused(struct weir_devinfo *info)
{
	const char *at = strstr(weir_why(), ": ");

	snprintf(info->caps.why, sizeof(info->caps.why), "%s",
		 at ? at + 2 : weir_why());
}

static int list_uring(const struct device_class *cls, struct device_list *list)
{
	struct weir_uring_info uring = { .size = sizeof(uring) };
	struct weir_devinfo *info = device_list_add(list, cls, "io_uring");

	if (!info)
		return -ENOMEM;
	info->caps.flags = WEIR_DEVICE_SOFTWARE;
	if (weir_uring_probe(&uring)) {
		refused(info);
		return 0;
	}
	info->caps.flags |= WEIR_DEVICE_USABLE;
	if (uring.features & WEIR_URING_BUFFERS) {
		info->caps.caps = WEIR_DEVICE_CAP_MMAP;
		info->caps.max_register = MAX_REGISTER;
	}
	info->caps.domains = DOMAINS;
	info->caps.jobs = URING_JOBS;
	info->caps.max_segments = WEIR_JOB_PIECES_MAX;
	info->caps.address_bits = 8 * sizeof(void *);
	return 0;
}

static const struct device_class device_uring = {
	.kind = WEIR_DEVICE_IO_URING,
	.list = list_uring,
};

/*
 * One lock guards the chain of open devices and their counts.  It is held
 * during the first open and the last close of a device, so that two threads
 * that open the same device get the same instance.
 */

#define MESSAGE_MAX 512
#define CLASSES_MAX (3 + WEIR_PROVIDERS_MAX)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct device_class *classes[CLASSES_MAX] = {
	&device_cpu,
	&device_uring,
	&device_soft_dm,
};
static size_t n_classes = 3;
static struct weir_device *open_devices;

/* Inside a user's function that has the lock. */
static _Thread_local unsigned int n_inside;

/* list(), open() and close() of a class with an owner may try to take the lock
 * again. */
int device_refuse_nested(const char *call)
{
	return n_inside ? why(-EDEADLK, "%s: called by .list(), .open() or "
			      ".close() of a provider, which is asked already",
			      call) : 0;
}

struct weir_devinfo *device_list_add(struct device_list *list,
				     const struct device_class *cls,
				     const char *name)
{
	struct weir_devinfo **entries = mem_calloc(list->n + 2,
						   sizeof(*entries));
	struct weir_devinfo *info = mem_calloc(1, sizeof(*info));

	if (!entries || !info) {
		free(entries);
		free(info);
		why(-ENOMEM, "weir_device_list: no memory");
		return NULL;
	}
	info->cls = cls;
	if (cls->owner)
		atomic_fetch_add(&cls->owner->refs, 1);
	info->caps.kind = cls->kind;
	info->caps.numa_node = -1;
	info->caps.align = 1;
	snprintf(info->caps.name, sizeof(info->caps.name), "%s", name);
	if (list->n)
		memcpy(entries, list->entries, list->n * sizeof(*entries));
	free(list->entries);
	list->entries = entries;
	entries[list->n++] = info;
	return info;
}

void device_class_add(const struct device_class *cls)
{
	pthread_mutex_lock(&lock);
	check(n_classes < CLASSES_MAX);
	classes[n_classes++] = cls;
	pthread_mutex_unlock(&lock);
}

int device_class_del(const struct device_class *cls, const char *call)
{
	size_t i = 0;
	int err = 0;

	pthread_mutex_lock(&lock);
	if (cls->owner->n_open)
		err = why(-EBUSY, "%s: %u devices of provider %s are open; close "
			  "them first", call, cls->owner->n_open,
			  cls->owner->name);
	while (!err && classes[i] != cls)
		i++;
	if (!err) {
		memmove(&classes[i], &classes[i + 1],
			(n_classes - i - 1) * sizeof(classes[0]));
		n_classes--;
		cls->owner->gone = true;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

void weir_device_list_free(struct weir_devinfo **list)
{
	struct device_owner *owner;
	size_t i;

	for (i = 0; list && list[i]; i++) {
		owner = list[i]->cls->owner;
		free(list[i]);
		device_owner_put(owner);
	}
	free(list);
}

/* The lock is held, so classes need no lock of their own. */
static int list_all(struct device_list *list)
{
	size_t i;
	int err = 0;

	for (i = 0; i < n_classes && !err; i++) {
		n_inside += classes[i]->owner != NULL;
		err = classes[i]->list(classes[i], list);
		n_inside -= classes[i]->owner != NULL;
	}
	if (err)
		weir_device_list_free(list->entries);
	return err;
}

static int list_devices(struct weir_devinfo ***ret, size_t *n,
			const char *only)
{
	struct device_list list = { .only = only };
	char before[MESSAGE_MAX];
	int err = device_refuse_nested("weir_device_list");

	if (err)
		return err;
	snprintf(before, sizeof(before), "%s", weir_why());
	pthread_mutex_lock(&lock);
	err = list_all(&list);
	pthread_mutex_unlock(&lock);
	if (err)
		return err;
	/* A device that cannot be used does not make this call fail. */
	why(0, "%s", before);
	*ret = list.entries;
	*n = list.n;
	return 0;
}

int weir_device_list(struct weir_devinfo ***ret, size_t *n)
{
	return list_devices(ret, n, NULL);
}

int weir_devinfo_caps(const struct weir_devinfo *info,
		      struct weir_device_caps *ret)
{
	return opts_give(ret, &info->caps, sizeof(info->caps),
			 "weir_devinfo_caps");
}

static struct weir_device *find_open(const struct weir_devinfo *info)
{
	struct weir_device *dev;

	for (dev = open_devices; dev; dev = dev->next)
		if (!dev->dead && dev->info.cls == info->cls &&
		    !strcmp(device_name(dev), info->caps.name))
			return dev;
	return NULL;
}

static int open_first(struct weir_device **ret, const struct weir_devinfo *info)
{
	struct weir_device *dev;
	int err = 0;

	if (!(info->caps.flags & WEIR_DEVICE_USABLE))
		return why(-EOPNOTSUPP, "weir_device_open: %s: %s",
			   info->caps.name, info->caps.why);
	dev = mem_calloc(1, sizeof(*dev));
	if (!dev)
		return why(-ENOMEM, "weir_device_open: no memory");
	dev->info = *info;
	n_inside += info->cls->owner != NULL;
	if (info->cls->open)
		err = info->cls->open(dev);
	n_inside -= info->cls->owner != NULL;
	if (err) {
		free(dev);
		return err;
	}
	if (info->cls->owner)
		info->cls->owner->n_open++;
	dev->next = open_devices;
	open_devices = dev;
	*ret = dev;
	return 0;
}

/* The lock is held. */
static int open_one(struct weir_device **ret, const struct weir_devinfo *info)
{
	const struct device_owner *owner = info->cls->owner;
	struct weir_device *dev = find_open(info);
	int err = 0;

	if (owner && owner->gone)
		err = why(-ENODEV, "weir_device_open: provider %s of %s was "
			  "unregistered", owner->name, info->caps.name);
	else if (!dev)
		err = open_first(&dev, info);
	else if (dev->refs == UINT32_MAX)
		err = why(-EMFILE, "weir_device_open: %s is open %u times",
			  device_name(dev), dev->refs);
	if (err)
		return err;
	dev->refs++;
	*ret = dev;
	return 0;
}

int weir_device_open(struct weir_device **ret, const struct weir_devinfo *info)
{
	int err = device_refuse_nested("weir_device_open");

	if (err)
		return err;
	pthread_mutex_lock(&lock);
	err = open_one(ret, info);
	pthread_mutex_unlock(&lock);
	return err;
}

int device_is_dead(struct weir_device *dev, const char *call)
{
	int err = device_refuse_nested(call);
	struct weir_device *open;

	if (err)
		return err;
	pthread_mutex_lock(&lock);
	open = open_devices;
	while (open && open != dev)
		open = open->next;
	if (open && !open->info.cls->close)
		err = why(-EPERM, "%s: device %s is always there", call,
			  device_name(open));
	else if (open)
		open->dead = true;
	pthread_mutex_unlock(&lock);
	return err;
}

static int no_such_device(const char *name)
{
	struct weir_devinfo **list;
	char names[160];
	size_t len = 0, i;
	int err = weir_device_list(&list, &i);

	if (err)
		return err;
	names[0] = 0;
	for (i = 0; list[i] && len < sizeof(names); i++)
		len += (size_t)snprintf(names + len, sizeof(names) - len,
					"%s%s", i ? ", " : "",
					list[i]->caps.name);
	weir_device_list_free(list);
	return why(-ENOENT, "weir_device_open_name: there is no device %s; "
		   "there are %s", name, names);
}

int weir_device_open_name(struct weir_device **ret, const char *name)
{
	struct weir_devinfo **list;
	size_t n, i;
	int err = list_devices(&list, &n, name);

	if (err)
		return err;
	for (i = 0; i < n && strcmp(list[i]->caps.name, name); i++)
		;
	if (i < n)
		err = weir_device_open(ret, list[i]);
	else
		err = no_such_device(name);
	weir_device_list_free(list);
	return err;
}

/* The lock is held, and this is the last reference. */
static int close_last(struct weir_device *dev)
{
	unsigned int n = atomic_load_explicit(&dev->users,
					      memory_order_acquire);
	struct weir_device **at = &open_devices;

	if (n)
		return why(-EBUSY, "weir_device_close: %u mmaps or pieces of "
			   "device memory hold %s; destroy them first", n,
			   device_name(dev));
	while (*at != dev)
		at = &(*at)->next;
	*at = dev->next;
	n_inside += dev->info.cls->owner != NULL;
	if (dev->info.cls->close)
		dev->info.cls->close(dev);
	n_inside -= dev->info.cls->owner != NULL;
	if (dev->info.cls->owner)
		dev->info.cls->owner->n_open--;
	free(dev);
	return 0;
}

int weir_device_close(struct weir_device *dev)
{
	int err;

	if (!dev)
		return 0;
	err = device_refuse_nested("weir_device_close");
	if (err)
		return err;
	pthread_mutex_lock(&lock);
	if (dev->refs > 1)
		dev->refs--;
	else
		err = close_last(dev);
	pthread_mutex_unlock(&lock);
	return err;
}

const struct weir_devinfo *weir_device_info(const struct weir_device *dev)
{
	return &dev->info;
}
