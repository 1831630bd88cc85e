/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory: the checks that are the same for all devices, and their order.
 *
 * All handles are in one list, so that a second free is detected and does not
 * reach memory that belongs to another user by then.
 */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/device-internal.h"
#include "mem/dm-internal.h"
#include "mem/domain-internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir_dm *handles;

static const struct domain_class class_device = {
	.is_device = true,
};

/* One domain for all: an address is an offset in the range of an mmap. */
static struct weir_domain domain = {
	.cls = &class_device,
	.kind = WEIR_DOMAIN_DEVICE,
	.size = UINT64_MAX,
	.id = "device",
	.immortal = true,
};

static void list_domain(void)
{
	domain_add(&domain);
}

struct weir_domain *dm_domain(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, list_domain);
	return &domain;
}

static void add_handle(struct weir_dm *dm)
{
	pthread_mutex_lock(&lock);
	dm->next = handles;
	handles = dm;
	pthread_mutex_unlock(&lock);
}

/* Does not read *@dm, because it may be any pointer. */
static struct weir_dm **find_handle(const struct weir_dm *dm)
{
	struct weir_dm **at = &handles;

	while (*at && *at != dm)
		at = &(*at)->next;
	return at;
}

static const struct dm_ops *ops_of(const struct weir_device *device)
{
	return device->info.cls->dm;
}

/* Whether @device has @caps and a table for them. */
static int refuse_device(const struct weir_device *device, uint32_t caps,
			 const char *call)
{
	if (device_can(device, caps) && ops_of(device))
		return 0;
	if (!device_can(device, WEIR_DEVICE_CAP_DM))
		return why(-EOPNOTSUPP, "%s: device %s has no memory of its "
			   "own; soft-dm has, in software", call,
			   device_name(device));
	return why(-EOPNOTSUPP, "%s: the driver of device %s cannot do it",
		   call, device_name(device));
}

static struct weir_dm *new_handle(struct weir_device *device, size_t len)
{
	struct weir_dm *dm = mem_calloc(1, sizeof(*dm));

	if (!dm)
		return NULL;
	dm->device = device;
	dm->len = len;
	dm->fd = -1;
	return dm;
}

/* @err is the result of the device's attempt to make @dm. */
static int finish_handle(struct weir_dm **ret, struct weir_dm *dm, int err)
{
	if (err) {
		free(dm);
		return err;
	}
	device_use(dm->device);
	add_handle(dm);
	*ret = dm;
	return 0;
}

int weir_dm_alloc(struct weir_dm **ret, struct weir_device *device, size_t len,
		  uint32_t log_align)
{
	struct weir_dm *dm;
	int err = refuse_device(device, WEIR_DEVICE_CAP_DM, "weir_dm_alloc");

	if (err)
		return err;
	if (!len || len > device->info.caps.dm_size)
		return why(-EINVAL, "weir_dm_alloc: %zu bytes; %s gives 1 to "
			   "%llu", len, device_name(device),
			   (unsigned long long)device->info.caps.dm_size);
	dm = new_handle(device, len);
	if (!dm)
		return why(-ENOMEM, "weir_dm_alloc: no memory");
	return finish_handle(ret, dm, ops_of(device)->alloc(dm, log_align));
}

static int refuse_free(const struct weir_dm *dm)
{
	unsigned int n;

	if (!*find_handle(dm))
		return why(-EINVAL, "weir_dm_free: %p is no device memory, or "
			   "was freed before", (const void *)dm);
	n = atomic_load_explicit(&dm->users, memory_order_acquire);
	if (n)
		return why(-EBUSY, "weir_dm_free: %u mmaps have it for their "
			   "range; destroy them first", n);
	return 0;
}

int weir_dm_free(struct weir_dm *dm)
{
	int err;

	if (!dm)
		return 0;
	pthread_mutex_lock(&lock);
	err = refuse_free(dm);
	if (!err)
		err = ops_of(dm->device)->release(dm);
	if (!err)
		*find_handle(dm) = dm->next;
	pthread_mutex_unlock(&lock);
	if (err)
		return err;
	device_unuse(dm->device);
	free(dm);
	return 0;
}

/* The order of mlx5: check the end first, then the words. */
static int refuse_copy(const struct weir_dm *dm, uint64_t off, size_t len,
		       const char *call)
{
	if (!dm->copies)
		return why(-EOPNOTSUPP, "%s: the driver of device %s cannot "
			   "copy", call, device_name(dm->device));
	if (off > dm->len || len > dm->len - off)
		return why(-EFAULT, "%s: %zu bytes from %llu on; the memory "
			   "has %zu", call, len, (unsigned long long)off,
			   dm->len);
	if (off % DM_WORD || len % DM_WORD || !len)
		return why(-EINVAL, "%s: %zu bytes from %llu on are not whole "
			   "words of %u", call, len, (unsigned long long)off,
			   DM_WORD);
	return 0;
}

int weir_dm_copy_to(struct weir_dm *dm, uint64_t off, const void *src,
		    size_t len)
{
	int err = refuse_copy(dm, off, len, "weir_dm_copy_to");

	return err ? err : ops_of(dm->device)->copy_to(dm, off, src, len);
}

int weir_dm_copy_from(void *dst, struct weir_dm *dm, uint64_t off, size_t len)
{
	int err = refuse_copy(dm, off, len, "weir_dm_copy_from");

	return err ? err : ops_of(dm->device)->copy_from(dst, dm, off, len);
}

size_t weir_dm_len(const struct weir_dm *dm)
{
	return dm->len;
}

struct weir_device *weir_dm_device(const struct weir_dm *dm)
{
	return dm->device;
}

int weir_dm_is_imported(const struct weir_dm *dm)
{
	return dm->imported;
}

int weir_dm_export(struct weir_dm *dm, struct weir_dm_token *token)
{
	struct weir_dm_token out = { .size = token->size, .fd = -1 };
	int err = refuse_device(dm->device, WEIR_DEVICE_CAP_DM_IMPORT,
				"weir_dm_export");

	if (err)
		return err;
	if (token->size < sizeof(out))
		return why(-EINVAL, "weir_dm_export: .size is %zu; set it to "
			   "sizeof of the struct", token->size);
	out.len = dm->len;
	err = ops_of(dm->device)->export(dm, &out);
	if (!err)
		*token = out;
	return err;
}

int weir_dm_import(struct weir_dm **ret, struct weir_device *device,
		   const struct weir_dm_token *user)
{
	struct weir_dm_token token;
	struct weir_dm *dm;
	int err = refuse_device(device, WEIR_DEVICE_CAP_DM_IMPORT,
				"weir_dm_import");

	if (!err)
		err = opts_load(&token, sizeof(token), user, "weir_dm_import");
	if (err)
		return err;
	if (!token.len || token.len > device->info.caps.dm_size)
		return why(-EINVAL, "weir_dm_import: a length of %llu; %s has "
			   "1 to %llu", (unsigned long long)token.len,
			   device_name(device),
			   (unsigned long long)device->info.caps.dm_size);
	dm = new_handle(device, (size_t)token.len);
	if (!dm)
		return why(-ENOMEM, "weir_dm_import: no memory");
	dm->imported = true;
	return finish_handle(ret, dm, ops_of(device)->import(dm, &token));
}

int weir_dm_dmabuf_fd(struct weir_dm *dm)
{
	int err = refuse_device(dm->device, WEIR_DEVICE_CAP_DM_DMABUF,
				"weir_dm_dmabuf_fd");

	return err ? err : ops_of(dm->device)->dmabuf_fd(dm);
}
