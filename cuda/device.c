/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider: devices, their memory, and page-locking of memory of this process. */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/domain-user.h>
#include <weir/job.h>
#include <weir/mmap.h>

#include "cuda/share.h"

_Atomic uint64_t cuda_frees;

static struct weir_provider *provider;

/* A caller of cuda_space_of() uses the domain, which keeps its space; others may go
 * meanwhile, so only their .domain is read. */
static struct cuda_space spaces[CUDA_SPACES_MAX];
static atomic_int n_spaces;	/* Places that were ever used. */
static pthread_mutex_t spaces_lock = PTHREAD_MUTEX_INITIALIZER;

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
	struct weir_device *dev;
	int none = 0;

	if (!atomic_compare_exchange_strong(&device->lost, &none, err))
		return;
	/* Another thread may close it meanwhile. */
	dev = atomic_load(&device->dev);
	if (dev)
		weir_provider_lost(dev);
}

void cuda_keep(struct cuda_device *device, struct engine *engine,
	       struct engine **next)
{
	*next = atomic_load(&device->kept);
	while (!atomic_compare_exchange_weak(&device->kept, next, engine))
		;
}

int cuda_failed(struct cuda_device *device, const char *call, const char *what,
		CUresult err)
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

const struct cuda_space *cuda_space_of(const struct weir_domain *domain)
{
	int n = atomic_load_explicit(&n_spaces, memory_order_acquire);

	for (int i = 0; domain && i < n; i++)
		if (atomic_load_explicit(&spaces[i].domain,
					 memory_order_acquire) == domain)
			return &spaces[i];
	return NULL;
}

bool cuda_is_imported(uint64_t start)
{
	int n = atomic_load_explicit(&n_spaces, memory_order_acquire), i = 0;

	while (i < n && atomic_load_explicit(&spaces[i].start,
					     memory_order_relaxed) != start)
		i++;
	return i < n;
}

/* A free place, under the lock. */
static struct cuda_space *free_space(void)
{
	int i = 0;

	while (i < CUDA_SPACES_MAX && spaces[i].device)
		i++;
	if (i == CUDA_SPACES_MAX)
		return NULL;
	if (i == atomic_load(&n_spaces))
		atomic_store(&n_spaces, i + 1);
	return &spaces[i];
}

int cuda_space_add(struct weir_domain **ret, struct cuda_device *device,
		   struct cuda_import *import, uint64_t addr, uint64_t len,
		   bool is_read_only)
{
	char id[16];
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_CUDA, .id = id,
		.flags = is_read_only ? WEIR_DOMAIN_READ_ONLY : 0,
		.ctx = device, .addr = addr, .len = len, .place = &place,
	};
	struct cuda_space *space;
	int err;

	snprintf(id, sizeof(id), "cuda%d", device->number);
	err = weir_domain_create(ret, &opts);
	if (err)
		return err;
	pthread_mutex_lock(&spaces_lock);
	space = free_space();
	if (space) {
		space->device = device;
		space->import = import;
		atomic_store(&space->start, import ? import->start : 0);
		atomic_store(&space->domain, *ret);
	}
	pthread_mutex_unlock(&spaces_lock);
	if (space)
		return 0;
	weir_domain_destroy(*ret);
	return weir_why_set(-ENOSPC, "cuda: %d devices and imports are open, lost "
			    "ones counted", CUDA_SPACES_MAX);
}

int cuda_space_del(struct weir_domain *domain)
{
	struct cuda_space *space = (struct cuda_space *)cuda_space_of(domain);
	int err;

	/* Its users look it up. */
	if (weir_domain_users(domain))
		return -EBUSY;
	pthread_mutex_lock(&spaces_lock);
	/* Before its address can be another domain's. */
	atomic_store(&space->domain, NULL);
	err = weir_domain_destroy(domain);
	if (err)
		atomic_store(&space->domain, domain);
	else
		atomic_store(&space->start, 0);
	if (!err)
		space->device = NULL;
	pthread_mutex_unlock(&spaces_lock);
	return err;
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
		.flags = WEIR_DEVICE_USABLE, .caps = WEIR_DEVICE_CAP_MMAP |
						       WEIR_DEVICE_CAP_DOMAIN,
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

	if (driver->ipc_get && driver->ipc_open && driver->ipc_close &&
	    driver->device_uuid)
		caps.caps |= WEIR_DEVICE_CAP_EXPORT | WEIR_DEVICE_CAP_IMPORT;
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
	atomic_init(&device->dev, dev);
	device->number = atoi(caps.name + strlen("cuda"));
	res = driver->ctx_retain(&device->ctx, device->number);
	if (res) {
		free(device);
		return weir_why_set(cuda_errno(res), "weir_device_open: %s: %s%s",
				    caps.name, cuda_error(res),
				    cuda_is_fatal(res) ? "; the driver may work "
				    "in another process" : "");
	}
	err = cuda_space_add(&device->domain, device, NULL, 0, 0, false);
	if (err) {
		driver->ctx_release(device->number);
		free(device);
		return err;
	}
	atomic_init(&device->refs, 1);
	*card = device;
	return 0;
}

/* A domain that is in use is kept, and the device with it. */
static void close_device(void *card)
{
	struct cuda_device *device = card;

	cuda_imports_retry();
	/* Engines and imports may have the device still. */
	atomic_store(&device->dev, NULL);
	if (!cuda_space_del(device->domain))
		cuda_unref(device);
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

/* Registrations.  What a device knows of an mmap is one of three. */
struct registration {
	void *pages;	/* Page-locked; NULL: memory of the GPU. */
	void *share;	/* Exported; NULL: for this process alone. */
};

/* Memory of this process becomes page-locked, and known to all devices. */
static int lock_pages(struct cuda_device *device,
		      const struct weir_provider_range *range)
{
	unsigned int flags = CU_MEMHOSTREGISTER_PORTABLE;
	CUresult err = cuda_enter(device);

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
	return cuda_failed(device, "weir_mmap_keys",
			   "the pages cannot be locked; see ulimit -l", err);
}

static int unlock_pages(struct cuda_device *device, void *pages)
{
	CUresult err = cuda_enter(device);

	atomic_fetch_add(&cuda_frees, 1);
	/* What a dead context knew is forgotten. */
	if (err)
		return 0;
	err = device->driver->host_unregister(pages);
	cuda_leave(device);
	return cuda_is_fatal(err) ? 0 : cuda_failed(device, "weir_mmap_stop",
						    "the pages stay locked", err);
}

static int register_memory(struct cuda_device *device,
			   const struct weir_provider_range *range, bool is_export,
			   struct registration *ret)
{
	if (range->kind == WEIR_PROVIDER_RANGE_DOMAIN &&
	    range->domain == device->domain)
		return is_export ? cuda_share(device, (uintptr_t)range->addr,
					      range->len, &ret->share) : 0;
	if (range->kind != WEIR_PROVIDER_RANGE_MEM || !range->addr || is_export)
		return weir_why_set(-EOPNOTSUPP, "weir_mmap_keys: cuda%d takes "
				    "memory of this process, and of its own GPU, "
				    "and exports the latter", device->number);
	ret->pages = range->addr;
	return lock_pages(device, range);
}

static int mem_register(void *card, const struct weir_provider_range *range,
			struct weir_provider_key *ret)
{
	bool is_export = range->permissions &
			 (WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE);
	struct registration *r = weir_fault("malloc") ? NULL :
							calloc(1, sizeof(*r));
	int err;

	if (!r)
		return weir_why_set(-ENOMEM, "weir_mmap_keys: no memory");
	err = register_memory(card, range, is_export, r);
	if (err)
		free(r);
	else
		ret->data = r;
	return err;
}

static int mem_deregister(void *card, const struct weir_provider_key *key)
{
	struct registration *r = key->data;
	int err = 0;

	if (r->pages)
		err = unlock_pages(card, r->pages);
	else if (r->share)
		err = cuda_share_end(r->share);
	if (!err)
		free(r);
	return err;
}

static int describe(void *card, const struct weir_provider_key *key,
		    struct weir_provider_desc *desc)
{
	const struct registration *r = key->data;

	(void)card;
	cuda_share_describe(r->share, desc);
	return 0;
}

static int import(void *card, const struct weir_provider_desc *desc,
		  struct weir_provider_import *ret)
{
	return cuda_import(card, desc, ret);
}

static void import_end(void *card, const struct weir_provider_import *import)
{
	(void)card;
	cuda_import_end(import->data);
}

static const struct weir_provider_ops ops = {
	.size = sizeof(ops), .name = "cuda", .list = list_devices,
	.open = open_device, .close = close_device,
	.mem_register = mem_register, .mem_deregister = mem_deregister,
	.describe = describe, .import = import, .import_end = import_end,
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
	size_t len;		/* Of pages, */
	CUmemHandle pages;	/* and the driver's handle; .len is 0 without. */
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

static struct allocation *allocation_new(const char *call)
{
	struct allocation *a = weir_fault("malloc") ? NULL :
						      calloc(1, sizeof(*a));

	if (!a)
		weir_why_set(-ENOMEM, "%s: no memory", call);
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
	a = allocation_new("weir_cuda_alloc");
	if (!a)
		return -ENOMEM;
	err = cuda_enter(device);
	if (!err) {
		err = device->driver->mem_alloc(&got, len);
		cuda_leave(device);
	}
	if (err) {
		free(a);
		return cuda_failed(device, "weir_cuda_alloc", "no memory of the GPU",
				   err);
	}
	allocation_add(a, got);
	*addr = got;
	return 0;
}

/* Memory in pages of its own: made, given an address, and access. */

#define PAGES "weir_cuda_alloc_pages"

static void drop_pages(const struct cuda_driver *d, CUdeviceptr addr, size_t len,
		       CUmemHandle pages, bool is_mapped)
{
	if (is_mapped)
		d->unmap(addr, len);
	if (addr)
		d->unreserve(addr, len);
	d->mem_release(pages);
}

static CUresult make_pages(const struct cuda_driver *d,
			   const CUmemAllocationProp *prop, size_t granularity,
			   struct allocation *a, CUdeviceptr *ret)
{
	const CUmemAccessDesc access = {
		prop->location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUdeviceptr at = 0;
	bool is_mapped;
	CUresult err;

	err = d->mem_create(&a->pages, a->len, prop, 0);
	if (err)
		return err;
	err = d->reserve(&at, a->len, granularity, 0, 0);
	if (!err)
		err = d->map(at, a->len, 0, a->pages, 0);
	is_mapped = !err;
	if (!err)
		err = d->set_access(at, a->len, &access, 1);
	if (err)
		drop_pages(d, at, a->len, a->pages, is_mapped);
	*ret = at;
	return err;
}

static int load_opts(struct weir_cuda_alloc_opts *opts,
		     const struct weir_cuda_alloc_opts *user)
{
	size_t size = user ? user->size : sizeof(*opts), known = sizeof(*opts);

	*opts = (struct weir_cuda_alloc_opts){ .size = sizeof(*opts) };
	if (size < sizeof(opts->size))
		return weir_why_set(-EINVAL, PAGES ": .size is not set");
	for (size_t i = known; i < size; i++)
		if (((const char *)user)[i])
			return weir_why_set(-E2BIG, PAGES ": fields of a later "
					    "version are set");
	if (user)
		memcpy(opts, user, size < known ? size : known);
	if (opts->flags & ~WEIR_CUDA_ALLOC_RDMA || opts->reserved)
		return weir_why_set(-EINVAL, PAGES ": unknown flags");
	return 0;
}

/* Why there is no such memory, or 0. */
static int check_pages(struct cuda_device *device,
		       const struct weir_cuda_alloc_opts *opts, size_t len,
		       size_t least, size_t *granularity)
{
	int rdma = 0;

	if (opts->granularity)
		*granularity = opts->granularity;
	if (*granularity & (*granularity - 1) || *granularity < least || !len ||
	    len % *granularity)
		return weir_why_set(-EINVAL, PAGES ": %zu bytes are not whole pages "
				    "of %zu, of which this device has powers of two "
				    "from %zu on", len, *granularity, least);
	device->driver->device_attribute(
		&rdma, CU_DEVICE_ATTRIBUTE_RDMA_WITH_VMM_SUPPORTED,
		device->number);
	return opts->flags & WEIR_CUDA_ALLOC_RDMA && !rdma ?
		       weir_why_set(-EOPNOTSUPP, PAGES ": the device has no such "
				    "memory for RDMA") : 0;
}

static int alloc_pages(struct cuda_device *device, uint64_t *addr, size_t len,
		       const struct weir_cuda_alloc_opts *opts)
{
	const struct cuda_driver *d = device->driver;
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, device->number },
		.flags.rdma = opts->flags & WEIR_CUDA_ALLOC_RDMA ? 1 : 0,
	};
	size_t least = 0, granularity = 0;
	struct allocation *a;
	CUdeviceptr got = 0;
	CUresult res;
	int err;

	res = d->granularity(&least, &prop, 0);
	if (!res)
		res = d->granularity(&granularity, &prop,
				     CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
	if (res)
		return cuda_failed(device, PAGES, "no granularity", res);
	err = check_pages(device, opts, len, least, &granularity);
	if (err)
		return err;
	a = allocation_new(PAGES);
	if (!a)
		return -ENOMEM;
	a->len = len;
	res = make_pages(d, &prop, granularity, a, &got);
	if (res) {
		free(a);
		return cuda_failed(device, PAGES, "no memory of the GPU", res);
	}
	allocation_add(a, got);
	*addr = got;
	return 0;
}

int weir_cuda_alloc_pages(struct weir_device *dev, uint64_t *addr, size_t len,
			  const struct weir_cuda_alloc_opts *user)
{
	struct cuda_device *device = device_of(dev);
	struct weir_cuda_alloc_opts opts;
	CUresult res;
	int err;

	if (!device)
		return not_ours(PAGES);
	if (!addr)
		return weir_why_set(-EINVAL, PAGES ": addr is NULL");
	err = load_opts(&opts, user);
	if (err)
		return err;
	if (!device->driver->granularity || !device->driver->set_access)
		return weir_why_set(-EOPNOTSUPP, PAGES ": the driver is older than "
				    "CUDA 10.2");
	res = cuda_enter(device);
	if (res)
		return cuda_failed(device, PAGES, "", res);
	err = alloc_pages(device, addr, len, &opts);
	cuda_leave(device);
	return err;
}

static CUresult give_back(const struct cuda_driver *d, const struct allocation *a)
{
	CUresult err;

	if (!a->len)
		return d->mem_free(a->addr);
	err = d->unmap(a->addr, a->len);
	if (!err)
		err = d->unreserve(a->addr, a->len);
	return err ? err : d->mem_release(a->pages);
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
	if (cuda_is_shared(addr))
		return weir_why_set(-EBUSY, "weir_cuda_free: the memory is exported; "
				    "stop its mmap first");
	a = allocation_take(addr);
	if (!a)
		return weir_why_set(-EINVAL, "weir_cuda_free: the address is not "
				    "one of weir_cuda_alloc()");
	err = cuda_enter(device);
	if (!err) {
		err = give_back(device->driver, a);
		cuda_leave(device);
	}
	free(a);
	return cuda_failed(device, "weir_cuda_free", "the GPU's memory", err);
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
		return cuda_failed(device, "weir_cuda_pointer", "", err);
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
		return cuda_failed(device, "weir_cuda_dmabuf",
				   "not whole pages of the GPU's memory", err);
	*fd = got;
	return 0;
}
