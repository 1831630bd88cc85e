/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider: devices, their memory, and page-locking of memory of this process. */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/domain-user.h>
#include <weir/job.h>

#include "cuda/cuda.h"

_Atomic uint64_t cuda_frees;

static struct weir_provider *provider;

/* The open devices.  A caller of cuda_device_of() uses the domain of its device, which
 * keeps that one open; other devices may be closed meanwhile, so only their place
 * here is read. */
static struct {
	_Atomic(struct weir_domain *) domain;
	struct cuda_device *device;	/* NULL: the place is free. */
} opened[CUDA_DEVICES_MAX];

/* All GPUs and this process have one address space. */
static const char place;

CUresult cuda_enter(const struct cuda_device *device)
{
	CUresult err = atomic_load_explicit(&device->lost, memory_order_relaxed);

	return err ? err : device->driver->ctx_push(device->ctx);
}

void cuda_leave(const struct cuda_device *device)
{
	CUcontext ctx;

	device->driver->ctx_pop(&ctx);
}

bool cuda_is_fatal(CUresult err)
{
	switch (err) {
	case CUDA_SUCCESS:
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_OUT_OF_MEMORY:
	case CUDA_ERROR_NOT_READY:
	case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
	case CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:
	case CUDA_ERROR_NOT_PERMITTED:
	case CUDA_ERROR_NOT_SUPPORTED:
		return false;
	default:
		return true;
	}
}

void cuda_lose(struct cuda_device *device, CUresult err)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&device->lost, &none, err) &&
	    device->dev)
		weir_provider_lost(device->dev);
}

void cuda_keep(struct cuda_device *device, struct engine *engine,
	       struct engine **next)
{
	*next = atomic_load(&device->kept);
	while (!atomic_compare_exchange_weak(&device->kept, next, engine))
		;
}

/* @err of a call for @what, as an errno with its message. */
static int failed(struct cuda_device *device, const char *call,
		  const char *what, CUresult err)
{
	if (!err)
		return 0;
	if (cuda_is_fatal(err)) {
		cuda_lose(device, err);
		return weir_why_set(-EIO, "%s: cuda%d has failed: %s; the driver "
				    "works again in another process", call,
				    device->number, cuda_error(err));
	}
	return weir_why_set(cuda_errno(err), "%s: %s: %s", call, what,
			    cuda_error(err));
}

struct cuda_device *cuda_device_of(const struct weir_domain *domain)
{
	for (int i = 0; domain && i < CUDA_DEVICES_MAX; i++)
		if (atomic_load_explicit(&opened[i].domain,
					 memory_order_acquire) == domain)
			return opened[i].device;
	return NULL;
}

struct cuda_range cuda_look_up(const struct cuda_device *device, uint64_t addr)
{
	unsigned int type = 0;
	int ordinal = -1;
	CUdeviceptr start = 0;
	size_t len = 0;
	int what[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,
	};
	void *data[] = { &type, &ordinal, &start, &len };
	struct cuda_range ret = { .len = 0 };

	if (device->driver->pointer_attributes(4, what, data, addr) ||
	    (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE))
		return ret;
	ret.start = start;
	ret.len = len;
	ret.is_host = type == CU_MEMORYTYPE_HOST;
	ret.device = ordinal;
	return ret;
}

/* Devices. */

static int add_device(const struct cuda_driver *driver,
		      struct weir_provider_list *list, CUdevice number)
{
	struct weir_device_caps caps = {
		.size = sizeof(caps), .kind = WEIR_DEVICE_CUDA,
		.flags = WEIR_DEVICE_USABLE, .caps = WEIR_DEVICE_CAP_MMAP,
		.numa_node = -1, .max_segments = WEIR_JOB_PIECES_MAX,
		.address_bits = 64,
		.domains = WEIR_DEVICE_BIT(WEIR_DOMAIN_SYSTEM) |
			   WEIR_DEVICE_BIT(WEIR_DOMAIN_HUGEPAGE),
		.jobs = WEIR_DEVICE_BIT(WEIR_JOB_COPY) |
			WEIR_DEVICE_BIT(WEIR_JOB_PULL) |
			WEIR_DEVICE_BIT(WEIR_JOB_PUSH) |
			WEIR_DEVICE_BIT(WEIR_JOB_FILL),
	};
	size_t bytes = 0;
	int unified = 0;

	snprintf(caps.name, sizeof(caps.name), "cuda%d", number);
	driver->device_memory(&bytes, number);
	caps.dm_size = bytes;
	driver->device_attribute(&unified,
				 CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
				 number);
	if (!unified) {
		caps.flags = 0;
		snprintf(caps.why, sizeof(caps.why), "the device and this "
			 "process have no common addresses: use a 64-bit "
			 "system and a newer device");
	}
	return weir_provider_list_add(list, &caps);
}

static int list_devices(void *arg, struct weir_provider_list *list)
{
	struct weir_device_caps none = {
		.size = sizeof(none), .name = "cuda", .kind = WEIR_DEVICE_CUDA,
		.numa_node = -1,
	};
	const char *why;
	const struct cuda_driver *driver = cuda_driver(&why);
	int n = 0, err = 0;

	(void)arg;
	if (driver && (driver->device_count(&n) || !n))
		why = "the driver has no device";
	if (!driver || !n) {
		snprintf(none.why, sizeof(none.why), "%s", why);
		return weir_provider_list_add(list, &none);
	}
	for (int i = 0; i < n && i < CUDA_DEVICES_MAX && !err; i++)
		err = add_device(driver, list, i);
	return err;
}

static int make_domain(struct cuda_device *device, const char *name)
{
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_CUDA, .id = name,
		.ctx = device, .place = &place,
	};

	return weir_domain_create(&device->domain, &opts);
}

static int open_device(void *arg, struct weir_device *dev, void **card)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	const char *why = "";
	const struct cuda_driver *driver = cuda_driver(&why);
	struct cuda_device *device;
	CUresult res;
	int err;

	(void)arg;
	if (!driver)
		return weir_why_set(-ENODEV, "weir_device_open: %s", why);
	weir_devinfo_caps(weir_device_info(dev), &caps);
	device = weir_fault("malloc") ? NULL : calloc(1, sizeof(*device));
	if (!device)
		return -ENOMEM;
	device->driver = driver;
	device->dev = dev;
	device->number = atoi(caps.name + strlen("cuda"));
	res = driver->ctx_retain(&device->ctx, device->number);
	if (res) {
		free(device);
		return weir_why_set(cuda_errno(res), "weir_device_open: %s: %s%s",
				    caps.name, cuda_error(res),
				    cuda_is_fatal(res) ? "; the driver may work "
				    "in another process" : "");
	}
	err = make_domain(device, caps.name);
	if (err) {
		driver->ctx_release(device->number);
		free(device);
		return err;
	}
	atomic_init(&device->refs, 1);
	/* One at a time in the process. */
	for (int i = 0; i < CUDA_DEVICES_MAX; i++)
		if (!opened[i].device) {
			opened[i].device = device;
			atomic_store(&opened[i].domain, device->domain);
			*card = device;
			return 0;
		}
	weir_domain_destroy(device->domain);
	driver->ctx_release(device->number);
	free(device);
	return weir_why_set(-ENOSPC, "weir_device_open: %d devices are open, "
			    "lost ones counted", CUDA_DEVICES_MAX);
}

static void close_device(void *card)
{
	struct cuda_device *device = card;
	int i = 0;

	while (opened[i].device != device)
		i++;
	/* Before its address can be another domain's. */
	atomic_store(&opened[i].domain, NULL);
	if (!weir_domain_destroy(device->domain)) {
		opened[i].device = NULL;
		cuda_unref(device);
		return;
	}
	/* A domain that is in use is kept, and the device with it, but for what
	 * the library has of it. */
	device->dev = NULL;
	atomic_store(&opened[i].domain, device->domain);
}

void cuda_ref(struct cuda_device *device)
{
	atomic_fetch_add(&device->refs, 1);
}

void cuda_unref(struct cuda_device *device)
{
	if (atomic_fetch_sub(&device->refs, 1) > 1)
		return;
	device->driver->ctx_release(device->number);
	cuda_engines_free(atomic_load(&device->kept));
	free(device);
}

/* Memory of this process becomes page-locked, and known to all devices. */
static int lock_pages(void *card, const struct weir_provider_range *range,
		      struct weir_provider_key *ret)
{
	struct cuda_device *device = card;
	unsigned int flags = CU_MEMHOSTREGISTER_PORTABLE;
	CUresult err;

	if (range->kind != WEIR_PROVIDER_RANGE_MEM || !range->addr)
		return weir_why_set(-EOPNOTSUPP, "weir_mmap_add_device: cuda%d "
				    "takes memory of this process only",
				    device->number);
	err = cuda_enter(device);
	if (!err) {
		err = device->driver->host_register(range->addr, range->len,
						    flags);
		/* So it is for a mapping that may not be written. */
		if (err == CUDA_ERROR_INVALID_VALUE)
			err = device->driver->host_register(
				range->addr, range->len,
				flags | CU_MEMHOSTREGISTER_READ_ONLY);
		cuda_leave(device);
	}
	if (err)
		return failed(device, "weir_mmap_keys",
			      "the pages cannot be locked; see ulimit -l", err);
	ret->data = range->addr;
	return 0;
}

static int unlock_pages(void *card, const struct weir_provider_key *key)
{
	struct cuda_device *device = card;
	CUresult err = cuda_enter(device);

	atomic_fetch_add(&cuda_frees, 1);
	/* What a dead context knew is forgotten. */
	if (err)
		return 0;
	err = device->driver->host_unregister(key->data);
	cuda_leave(device);
	return cuda_is_fatal(err) ? 0 : failed(device, "weir_mmap_stop",
					       "the pages stay locked", err);
}

static const struct weir_provider_ops ops = {
	.size = sizeof(ops), .name = "cuda", .list = list_devices,
	.open = open_device, .close = close_device,
	.mem_register = lock_pages, .mem_deregister = unlock_pages,
	.engine = &cuda_engine_ops, .engine_open = cuda_engine_open,
	.engine_close = cuda_engine_close,
};

static void register_provider(void)
{
	weir_provider_register(&provider, &ops, NULL);
}

__attribute__((constructor)) void weir_cuda_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_provider);
}

/* Public calls. */

static struct cuda_device *device_of(const struct weir_device *dev)
{
	return provider && dev ? weir_provider_card(provider, dev) : NULL;
}

static int not_ours(const char *call)
{
	return weir_why_set(-EINVAL, "%s: the device is not one of libweir-cuda: "
			    "open \"cuda0\", say", call);
}

struct weir_domain *weir_cuda_domain(const struct weir_device *dev)
{
	struct cuda_device *device = device_of(dev);

	return device ? device->domain : NULL;
}

/* What weir_cuda_alloc() has given, of all devices. */

struct allocation {
	struct allocation *next;
	uint64_t addr;
};

static struct allocation *allocations;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool cuda_has_allocated(uint64_t addr)
{
	const struct allocation *a;

	pthread_mutex_lock(&lock);
	for (a = allocations; a && a->addr != addr; a = a->next)
		;
	pthread_mutex_unlock(&lock);
	return a;
}

static void allocation_add(struct allocation *a, uint64_t addr)
{
	a->addr = addr;
	pthread_mutex_lock(&lock);
	a->next = allocations;
	allocations = a;
	pthread_mutex_unlock(&lock);
}

static struct allocation *allocation_take(uint64_t addr)
{
	struct allocation **at = &allocations, *a;

	pthread_mutex_lock(&lock);
	while ((a = *at) && a->addr != addr)
		at = &a->next;
	if (a)
		*at = a->next;
	atomic_fetch_add(&cuda_frees, 1);
	pthread_mutex_unlock(&lock);
	return a;
}

int weir_cuda_alloc(struct weir_device *dev, uint64_t *addr, size_t len)
{
	struct cuda_device *device = device_of(dev);
	struct allocation *a;
	CUdeviceptr got = 0;
	CUresult err;

	if (!device)
		return not_ours("weir_cuda_alloc");
	if (!addr || !len)
		return weir_why_set(-EINVAL, "weir_cuda_alloc: %s",
				    addr ? "there is nothing to allocate" :
					   "addr is NULL");
	a = weir_fault("malloc") ? NULL : malloc(sizeof(*a));
	if (!a)
		return weir_why_set(-ENOMEM, "weir_cuda_alloc: no memory");
	err = cuda_enter(device);
	if (!err) {
		err = device->driver->mem_alloc(&got, len);
		cuda_leave(device);
	}
	if (err) {
		free(a);
		return failed(device, "weir_cuda_alloc", "no memory of the GPU",
			      err);
	}
	allocation_add(a, got);
	*addr = got;
	return 0;
}

int weir_cuda_free(struct weir_device *dev, uint64_t addr)
{
	struct cuda_device *device = device_of(dev);
	struct allocation *a;
	CUresult err;

	if (!device)
		return not_ours("weir_cuda_free");
	if (!addr)
		return 0;
	a = allocation_take(addr);
	if (!a)
		return weir_why_set(-EINVAL, "weir_cuda_free: the address is not "
				    "one of weir_cuda_alloc()");
	free(a);
	err = cuda_enter(device);
	if (!err) {
		err = device->driver->mem_free(addr);
		cuda_leave(device);
	}
	return failed(device, "weir_cuda_free", "the GPU's memory", err);
}

int weir_cuda_pointer(struct weir_device *dev, uint64_t addr,
		      struct weir_cuda_pointer *ret)
{
	struct cuda_device *device = device_of(dev);
	struct weir_cuda_pointer full;
	struct cuda_range range;
	CUresult err;

	if (!device)
		return not_ours("weir_cuda_pointer");
	if (!ret || ret->size < sizeof(ret->size))
		return weir_why_set(-EINVAL, "weir_cuda_pointer: .size of the "
				    "answer is not set");
	err = cuda_enter(device);
	if (err)
		return failed(device, "weir_cuda_pointer", "", err);
	range = cuda_look_up(device, addr);
	cuda_leave(device);
	if (!range.len)
		return weir_why_set(-EFAULT, "weir_cuda_pointer: the driver does "
				    "not know the address");
	full = (struct weir_cuda_pointer){
		.size = ret->size, .start = range.start, .len = range.len,
		.device = range.device, .is_host = range.is_host,
	};
	memcpy(ret, &full, ret->size < sizeof(full) ? ret->size : sizeof(full));
	return 0;
}

int weir_cuda_dmabuf(struct weir_device *dev, uint64_t addr, size_t len, int *fd)
{
	struct cuda_device *device = device_of(dev);
	int got = -1, has = 0;
	CUresult err;

	if (!device)
		return not_ours("weir_cuda_dmabuf");
	if (!addr || !len || !fd)
		return weir_why_set(-EINVAL, "weir_cuda_dmabuf: an argument is 0");
	device->driver->device_attribute(
		&has, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device->number);
	if (!device->driver->range_handle || !has)
		return weir_why_set(-EOPNOTSUPP, "weir_cuda_dmabuf: %s",
				    has ? "the driver is older than CUDA 11.7" :
				    "the device has no dma-bufs; the open kernel "
				    "modules of NVIDIA have them");
	err = cuda_enter(device);
	if (!err) {
		err = device->driver->range_handle(
			&got, addr, len, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
		cuda_leave(device);
	}
	if (err)
		return failed(device, "weir_cuda_dmabuf",
			      "not whole pages of the GPU's memory", err);
	*fd = got;
	return 0;
}
