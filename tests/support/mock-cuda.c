/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A driver of CUDA without a GPU, as a shared object that WEIR_CUDA_LIBRARY names.  It
 * moves real bytes, on a thread for each stream, and has the rules of the real one
 * that libweir-cuda depends on; tests/cuda/test-cuda-rules.c holds them against both.
 *
 *   - memory of the GPU cannot be touched by the program: it is mapped twice, and the
 *     program's addresses have no rights
 *   - a copy of memory that is not page-locked is done when the call returns
 *   - an address that is in no allocation is one of this process: a copy to memory
 *     of the GPU that was freed is a segmentation fault
 *   - an error of the GPU's is found later, by any call, and stays until the process
 *     ends
 *   - a function of cuLaunchHostFunc() may not call the driver
 *   - what another process has of an allocation by a handle stays there, also when
 *     the allocation is freed or its process has ended
 *
 * Tests steer it by functions that they find with dlsym(), see mock-cuda.h.
 */

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda/driver.h"
#include "tests/support/mock-cuda.h"

#define EXPORT __attribute__((visibility("default")))
#define X(name, symbol, parameters) EXPORT CUresult symbol parameters;
CUDA_FUNCTIONS(X)
CUDA_SHARING(X)
CUDA_PAGES(X)
#undef X
#define ARENA ((size_t)256 << 20)	/* Of all devices. */
#define PAGES ((size_t)64 << 20)	/* At the end of it, for pages. */
#define GRANULARITY ((size_t)2 << 20)
#define ALLOCS (ARENA - PAGES)
#define RANGES 4096
#define DEVICES 2
#define ALIGN ((size_t)512)

enum what { COPY, FILL, RECORD, WAIT, CALL };

struct CUevent_st {
	struct CUevent_st *next;	/* In the list of all. */
	uint64_t recorded, done;
};

struct item {
	struct item *next;
	enum what what;
	char *to;
	const char *from;
	size_t len, pitch, width, height;
	unsigned int value, unit;
	CUevent event;
	uint64_t count;			/* Of the event. */
	CUhostFn fn;
	void *arg;
};

struct CUstream_st {
	struct CUstream_st *next;	/* In the list of all. */
	struct item *first, **last;
	pthread_t thread;
	bool quits, is_busy;
};

struct range {
	uintptr_t start;
	size_t len;
	bool is_host, is_ours;
	int device;
	char *bytes;			/* Our view of a GPU's. */
	bool is_given;			/* Another process may have it, */
	bool is_gone;			/* and it was freed here. */
	unsigned int opens;		/* Of another process's. */
	struct handle *handle;
};

/* What is in a CUipcMemHandle. */
struct handle {
	int pid, fd;
	uint64_t at, len, number;	/* In the arena. */
};

static CUstream streams;
static CUevent events;
static struct range ranges[RANGES];
static char *arena, *seen;		/* Ours, and the program's view. */
static int arena_fd;
static int active[DEVICES];		/* Retains of the primary contexts. */
static CUresult sticky;
static bool held;
static unsigned int n_calls[MOCK_CUDA_CALLS];
static struct {
	int call;
	unsigned int after;
	CUresult err;			/* 0: nothing is refused. */
} refuse;
static __thread CUcontext current[16];
static __thread int n_current;
static __thread bool in_host_func;
static bool initialized;
static pid_t owner;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* What tests ask for. */

EXPORT void mock_cuda_hold(int hold)
{
	pthread_mutex_lock(&lock);
	held = hold;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

EXPORT void mock_cuda_break(int err)
{
	pthread_mutex_lock(&lock);
	sticky = err;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

EXPORT unsigned int mock_cuda_count(int call)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = n_calls[call];
	pthread_mutex_unlock(&lock);
	return n;
}

EXPORT void mock_cuda_refuse(int call, unsigned int after, int err)
{
	pthread_mutex_lock(&lock);
	refuse.call = call;
	refuse.after = after;
	refuse.err = err;
	pthread_mutex_unlock(&lock);
}

static CUresult refused(int call)
{
	CUresult err = refuse.err;

	if (!err || refuse.call != call || refuse.after--)
		return CUDA_SUCCESS;
	refuse.err = CUDA_SUCCESS;
	return err;
}

/* Every call that needs a context begins so. */
static CUresult begin(void)
{
	if (in_host_func)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!initialized || owner != getpid())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!n_current)
		return CUDA_ERROR_INVALID_CONTEXT;
	return sticky;
}

/* Ranges that the driver knows. */

static struct range *find(uintptr_t addr)
{
	for (int i = 0; i < RANGES; i++)
		if (ranges[i].len && !ranges[i].is_gone &&
		    addr >= ranges[i].start &&
		    addr - ranges[i].start < ranges[i].len)
			return &ranges[i];
	return NULL;
}

static struct range *add(uintptr_t start, size_t len, bool is_host, bool is_ours)
{
	for (int i = 0; i < RANGES; i++)
		if (!ranges[i].len) {
			ranges[i] = (struct range){
				.start = start, .len = len, .is_host = is_host,
				.is_ours = is_ours, .bytes = is_host ? NULL :
				arena + (start - (uintptr_t)seen),
				.device =
				(int)(uintptr_t)current[n_current - 1] - 1,
			};
			return &ranges[i];
		}
	return NULL;
}

static bool overlaps(uintptr_t start, size_t len)
{
	for (int i = 0; i < RANGES; i++)
		if (ranges[i].len && start < ranges[i].start + ranges[i].len &&
		    ranges[i].start < start + len)
			return true;
	return false;
}

/* Our view of @addr, of which @len bytes are in one range, or memory of the program's.
 * NULL: the driver refuses it. */
static char *view(uintptr_t addr, size_t len)
{
	struct range *r = find(addr);

	if (!r || r->is_host)
		return (char *)addr;
	if (len > r->len - (addr - r->start))
		return NULL;
	return r->bytes + (addr - r->start);
}

/* Streams. */

static void fill(const struct item *it)
{
	for (size_t y = 0; y < it->height; y++)
		for (size_t x = 0; x < it->width; x++)
			memcpy(it->to + y * it->pitch + x * it->unit, &it->value,
			       it->unit);
}

/* Without the lock. */
static void execute(const struct item *it)
{
	if (it->what == COPY)
		memmove(it->to, it->from, it->len);
	else if (it->what == FILL)
		fill(it);
	else if (it->what == CALL)
		it->fn(it->arg);
}

static void *stream_thread(void *arg)
{
	CUstream s = arg;
	struct item *it;
	bool broken;

	pthread_mutex_lock(&lock);
	for (;;) {
		while (!(it = s->first) || (held && !sticky && it->what != CALL) ||
		       (it->what == WAIT && it->event->done < it->count &&
			!sticky)) {
			if (s->quits && !it)
				goto out;
			pthread_cond_wait(&changed, &lock);
		}
		s->first = it->next;
		if (!s->first)
			s->last = &s->first;
		s->is_busy = true;
		broken = sticky;
		pthread_mutex_unlock(&lock);
		in_host_func = it->what == CALL;
		if (!broken)
			execute(it);
		in_host_func = false;
		pthread_mutex_lock(&lock);
		if (it->what == RECORD && it->event->done < it->count)
			it->event->done = it->count;
		s->is_busy = false;
		pthread_cond_broadcast(&changed);
		free(it);
	}
out:
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void push(CUstream s, struct item what)
{
	struct item *it = malloc(sizeof(*it));

	if (!it)
		abort();
	*it = what;
	it->next = NULL;
	*s->last = it;
	s->last = &it->next;
	pthread_cond_broadcast(&changed);
}

static void drain(CUstream s)
{
	while ((s->first || s->is_busy) && !sticky)
		pthread_cond_wait(&changed, &lock);
	while (s->is_busy)
		pthread_cond_wait(&changed, &lock);
}

/* The driver's functions.  Their lock is one, and each returns once. */
#define LOCKED(call, ...)                             \
	CUresult err;                                 \
                                                      \
	pthread_mutex_lock(&lock);                    \
	n_calls[call]++;                              \
	err = begin();                                \
	if (!err)                                     \
		err = refused(call);                  \
	if (!err)                                     \
		err = __VA_ARGS__;                    \
	pthread_mutex_unlock(&lock);                  \
	return err

EXPORT CUresult cuInit(unsigned int flags)
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (getenv("WEIR_MOCK_CUDA_INIT"))
		return atoi(getenv("WEIR_MOCK_CUDA_INIT"));
	if (initialized)
		return owner == getpid() ? 0 : CUDA_ERROR_NOT_INITIALIZED;
	arena_fd = memfd_create("mock-cuda", MFD_CLOEXEC);
	if (arena_fd < 0 || ftruncate(arena_fd, ARENA))
		return CUDA_ERROR_OUT_OF_MEMORY;
	arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED, arena_fd,
		     0);
	seen = mmap(NULL, ARENA + 4 * GRANULARITY, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (seen != MAP_FAILED)
		seen = mmap(seen + 4 * GRANULARITY -
				    (uintptr_t)seen % (4 * GRANULARITY), ARENA,
			    PROT_NONE, MAP_SHARED | MAP_FIXED, arena_fd, 0);
	if (arena == MAP_FAILED || seen == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	owner = getpid();
	initialized = true;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
	*version = 13000;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *n)
{
	*n = DEVICES;
	return initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

EXPORT CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	(void)dev;
	strncpy(name, "mock", (size_t)len);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *ret, int attribute, CUdevice dev)
{
	(void)dev;
	*ret = attribute == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	(void)dev;
	*bytes = ARENA;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	CUresult err;

	if (dev < 0 || dev >= DEVICES)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	err = sticky;
	active[dev] += !err;
	*ctx = (CUcontext)(uintptr_t)(dev + 1);
	pthread_mutex_unlock(&lock);
	return err;
}

/* The last release ends the contexts and what is in them, but for an error: that is the
 * process's. */
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	bool is_last;

	pthread_mutex_lock(&lock);
	is_last = !--active[dev] && !active[!dev];
	pthread_mutex_unlock(&lock);
	while (is_last && streams)
		cuStreamDestroy_v2(streams);
	while (is_last && events)
		cuEventDestroy_v2(events);
	if (is_last)
		memset(ranges, 0, sizeof(ranges));
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	if (in_host_func)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!ctx || n_current == 16)
		return CUDA_ERROR_INVALID_CONTEXT;
	current[n_current++] = ctx;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *ctx)
{
	if (!n_current)
		return CUDA_ERROR_INVALID_CONTEXT;
	*ctx = current[--n_current];
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult err, const char **name)
{
	*name = err == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" :
		err == CUDA_ERROR_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" :
		err == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" :
		err == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" :
						  "CUDA_ERROR";
	return CUDA_SUCCESS;
}

static CUresult alloc(CUdeviceptr *addr, size_t len)
{
	size_t at;

	len = (len + ALIGN - 1) & ~(ALIGN - 1);
	if (!len)
		return CUDA_ERROR_INVALID_VALUE;
	for (at = 0; len <= ALLOCS && at <= ALLOCS - len; at += ALIGN)
		if (!overlaps((uintptr_t)seen + at, len)) {
			if (!add((uintptr_t)seen + at, len, false, true))
				break;
			*addr = (uintptr_t)seen + at;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *addr, size_t len)
{
	LOCKED(MOCK_CUDA_ALLOC, alloc(addr, len));
}

static CUresult drop(uintptr_t addr, bool is_host, bool is_ours, CUresult unknown)
{
	struct range *r = find(addr);

	if (!r || r->start != addr || r->is_host != is_host ||
	    r->is_ours != is_ours)
		return unknown;
	if (r->is_given)
		r->is_gone = true; /* Nothing else comes to its place. */
	else
		r->len = 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr addr)
{
	LOCKED(MOCK_CUDA_FREE,
	       drop(addr, false, true, CUDA_ERROR_INVALID_VALUE));
}

/* Memory in pages: handles are numbers, and addresses are reserved in a part of the
 * arena of which nothing else is allocated. */

static size_t page_lens[64];		/* Of handles; 0: free. */
static size_t reserved[PAGES / GRANULARITY]; /* Lengths, where they begin. */

EXPORT CUresult cuMemGetAllocationGranularity(size_t *ret,
					      const CUmemAllocationProp *prop,
					      int which)
{
	(void)which;
	*ret = GRANULARITY;
	return prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ?
		       CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult create_pages(CUmemHandle *handle, size_t len)
{
	if (!len || len % GRANULARITY)
		return CUDA_ERROR_INVALID_VALUE;
	if (len > PAGES)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (int i = 1; i < 64; i++)
		if (!page_lens[i]) {
			page_lens[i] = len;
			*handle = (CUmemHandle)i;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemCreate(CUmemHandle *handle, size_t len,
			    const CUmemAllocationProp *prop,
			    unsigned long long flags)
{
	(void)prop, (void)flags;
	LOCKED(MOCK_CUDA_CREATE, create_pages(handle, len));
}

static CUresult release_pages(CUmemHandle handle)
{
	if (handle >= 64 || !page_lens[handle])
		return CUDA_ERROR_INVALID_VALUE;
	page_lens[handle] = 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemRelease(CUmemHandle handle)
{
	LOCKED(MOCK_CUDA_RELEASE, release_pages(handle));
}

static CUresult reserve(CUdeviceptr *addr, size_t len, size_t align)
{
	size_t base = (uintptr_t)seen + ARENA - PAGES, n = PAGES / GRANULARITY;
	size_t free_from = 0;

	for (size_t i = 0; i < n; i++) {
		CUdeviceptr at = base + i * GRANULARITY;

		if (reserved[i]) {
			free_from = i + reserved[i] / GRANULARITY;
			i = free_from - 1;
			continue;
		}
		/* A gap that is large enough, and aligned. */
		for (size_t k = i; k < n && !reserved[k] &&
		     i >= free_from && !(at % (align ? align : 1)); k++)
			if ((k - i + 1) * GRANULARITY == len) {
				reserved[i] = len;
				*addr = at;
				return CUDA_SUCCESS;
			}
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *addr, size_t len, size_t align,
				    CUdeviceptr at, unsigned long long flags)
{
	(void)at, (void)flags;
	LOCKED(MOCK_CUDA_RESERVE, reserve(addr, len, align));
}

static size_t *reservation(CUdeviceptr addr, size_t len)
{
	size_t base = (uintptr_t)seen + ARENA - PAGES;
	size_t i = (addr - base) / GRANULARITY;

	return addr >= base && i < PAGES / GRANULARITY && reserved[i] == len ?
		       &reserved[i] : NULL;
}

static CUresult unreserve(CUdeviceptr addr, size_t len)
{
	size_t *r = reservation(addr, len);

	if (!r || find(addr))
		return CUDA_ERROR_INVALID_VALUE;
	*r = 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr addr, size_t len)
{
	LOCKED(MOCK_CUDA_RESERVE, unreserve(addr, len));
}

/* The program cannot use it before it has set who may. */
static CUresult map_pages(CUdeviceptr addr, size_t len, CUmemHandle handle)
{
	struct range *r;

	if (!reservation(addr, len) || handle >= 64 || page_lens[handle] != len)
		return CUDA_ERROR_INVALID_VALUE;
	r = add(addr, len, false, false);
	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemMap(CUdeviceptr addr, size_t len, size_t off,
			 CUmemHandle handle, unsigned long long flags)
{
	(void)off, (void)flags;
	LOCKED(MOCK_CUDA_MAP, map_pages(addr, len, handle));
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr addr, size_t len,
			       const CUmemAccessDesc *desc, size_t n)
{
	(void)desc, (void)n;
	LOCKED(MOCK_CUDA_MAP, find(addr) && reservation(addr, len) ?
				      CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuMemUnmap(CUdeviceptr addr, size_t len)
{
	LOCKED(MOCK_CUDA_MAP, reservation(addr, len) ?
		drop(addr, false, false, CUDA_ERROR_INVALID_VALUE) :
		CUDA_ERROR_INVALID_VALUE);
}

/* Handles for other processes. */

EXPORT CUresult cuDeviceGetUuid(char *uuid, CUdevice dev)
{
	memset(uuid, 'm', CUDA_UUID);
	uuid[0] = (char)('0' + dev);
	return CUDA_SUCCESS;
}

static CUresult give(CUipcMemHandle *handle, CUdeviceptr addr)
{
	static uint64_t number;
	struct range *r = find(addr);
	struct handle h = { .pid = getpid(), .fd = arena_fd };

	if (!r || r->is_host || !r->is_ours)
		return CUDA_ERROR_INVALID_VALUE;
	if (!r->is_given)
		number++;
	r->is_given = true;
	h.at = r->start - (uintptr_t)seen;
	h.len = r->len;
	h.number = number;
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &h, sizeof(h));
	return CUDA_SUCCESS;
}

EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr addr)
{
	LOCKED(MOCK_CUDA_IPC, give(handle, addr));
}

static CUresult open_new(CUdeviceptr *addr, const struct handle *h)
{
	char path[64], *bytes, *view;
	struct range *r;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", h->pid, h->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_INVALID_HANDLE;
	bytes = mmap(NULL, h->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		     (off_t)h->at);
	view = mmap(NULL, h->len, PROT_NONE, MAP_SHARED, fd, (off_t)h->at);
	close(fd);
	if (bytes == MAP_FAILED || view == MAP_FAILED)
		return CUDA_ERROR_INVALID_HANDLE;
	r = add((uintptr_t)view, h->len, false, false);
	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r->bytes = bytes;
	r->opens = 1;
	r->handle = malloc(sizeof(*h));
	if (!r->handle)
		abort();
	*r->handle = *h;
	*addr = r->start;
	return CUDA_SUCCESS;
}

static CUresult take(CUdeviceptr *addr, const CUipcMemHandle *handle)
{
	struct handle h;

	memcpy(&h, handle, sizeof(h));
	if (h.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	for (int i = 0; i < RANGES; i++)
		if (ranges[i].len && ranges[i].handle &&
		    !memcmp(ranges[i].handle, &h, sizeof(h))) {
			ranges[i].opens++;
			*addr = ranges[i].start;
			return CUDA_SUCCESS;
		}
	return open_new(addr, &h);
}

EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *addr, CUipcMemHandle handle,
				      unsigned int flags)
{
	(void)flags;
	LOCKED(MOCK_CUDA_IPC, take(addr, &handle));
}

static CUresult shut(CUdeviceptr addr)
{
	struct range *r = find(addr);

	if (!r || !r->handle || r->start != addr)
		return CUDA_ERROR_INVALID_VALUE;
	if (--r->opens)
		return CUDA_SUCCESS;
	munmap(r->bytes, r->len);
	munmap((void *)r->start, r->len);
	free(r->handle);
	*r = (struct range){ .len = 0 };
	return CUDA_SUCCESS;
}

EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr addr)
{
	LOCKED(MOCK_CUDA_IPC, shut(addr));
}

static CUresult host_alloc(void **p, size_t len)
{
	if (posix_memalign(p, 4096, len))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return add((uintptr_t)*p, len, true, true) ? CUDA_SUCCESS :
						     CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemHostAlloc(void **p, size_t len, unsigned int flags)
{
	(void)flags;
	LOCKED(MOCK_CUDA_HOST_ALLOC, host_alloc(p, len));
}

EXPORT CUresult cuMemFreeHost(void *p)
{
	CUresult err;

	pthread_mutex_lock(&lock);
	err = drop((uintptr_t)p, true, true, CUDA_ERROR_INVALID_VALUE);
	pthread_mutex_unlock(&lock);
	if (!err)
		free(p);
	return err;
}

static CUresult host_register(void *p, size_t len)
{
	if (!p || !len)
		return CUDA_ERROR_INVALID_VALUE;
	if (overlaps((uintptr_t)p, len))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	return add((uintptr_t)p, len, true, false) ? CUDA_SUCCESS :
						     CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemHostRegister_v2(void *p, size_t len, unsigned int flags)
{
	(void)flags;
	LOCKED(MOCK_CUDA_REGISTER, host_register(p, len));
}

EXPORT CUresult cuMemHostUnregister(void *p)
{
	LOCKED(MOCK_CUDA_UNREGISTER,
	       drop((uintptr_t)p, true, false,
		    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED));
}

static CUresult attributes(unsigned int n, const int *what, void **data,
			   CUdeviceptr addr)
{
	const struct range *r = find(addr);

	for (unsigned int i = 0; i < n; i++)
		switch (what[i]) {
		case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
			*(unsigned int *)data[i] = !r ? 0 :
				r->is_host ? CU_MEMORYTYPE_HOST :
					     CU_MEMORYTYPE_DEVICE;
			break;
		case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
			*(int *)data[i] = r ? r->device : -2;
			break;
		case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
			*(CUdeviceptr *)data[i] = r ? r->start : 0;
			break;
		case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
			*(size_t *)data[i] = r ? r->len : 0;
			break;
		default:
			return CUDA_ERROR_INVALID_VALUE;
		}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuPointerGetAttributes(unsigned int n, int *what, void **data,
				       CUdeviceptr addr)
{
	LOCKED(MOCK_CUDA_ATTRIBUTES, attributes(n, what, data, addr));
}

static CUresult copy(CUdeviceptr dst, CUdeviceptr src, size_t len, CUstream s)
{
	struct item it = { .what = COPY, .to = view(dst, len),
			   .from = view(src, len), .len = len };

	if (!len)
		return CUDA_SUCCESS;
	if (!it.to || !it.from)
		return CUDA_ERROR_INVALID_VALUE;
	push(s, it);
	/* Memory that is not page-locked is the caller's again at the return. */
	if (!find(dst) || !find(src))
		drain(s);
	return sticky;
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t len,
			      CUstream stream)
{
	LOCKED(MOCK_CUDA_COPY, copy(dst, src, len, stream));
}

static CUresult fill_2d(CUdeviceptr dst, size_t pitch, unsigned int value,
			unsigned int unit, size_t width, size_t height,
			CUstream s)
{
	struct item it = {
		.what = FILL, .value = value, .unit = unit, .width = width,
		.height = height, .pitch = height > 1 ? pitch : width * unit,
	};

	if (!width || !height)
		return CUDA_SUCCESS;
	it.to = view(dst, (height - 1) * it.pitch + width * unit);
	if (!it.to || dst % unit || it.pitch < width * unit)
		return CUDA_ERROR_INVALID_VALUE;
	push(s, it);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n,
				CUstream stream)
{
	LOCKED(MOCK_CUDA_FILL, fill_2d(dst, n, value, 1, n, 1, stream));
}

EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch,
				  unsigned char value, size_t width,
				  size_t height, CUstream stream)
{
	LOCKED(MOCK_CUDA_FILL,
	       fill_2d(dst, pitch, value, 1, width, height, stream));
}

EXPORT CUresult cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch,
				   unsigned int value, size_t width,
				   size_t height, CUstream stream)
{
	LOCKED(MOCK_CUDA_FILL,
	       fill_2d(dst, pitch, value, 4, width, height, stream));
}

static CUresult make_stream(CUstream *ret)
{
	CUstream s = calloc(1, sizeof(*s));

	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->last = &s->first;
	if (pthread_create(&s->thread, NULL, stream_thread, s)) {
		free(s);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	s->next = streams;
	streams = s;
	*ret = s;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	(void)flags;
	LOCKED(MOCK_CUDA_STREAM, make_stream(stream));
}

/* Returns when its work is done; the real one does at once, and frees it then. */
EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
	CUstream *at = &streams;

	pthread_mutex_lock(&lock);
	while (*at && *at != stream)
		at = &(*at)->next;
	if (*at)
		*at = stream->next;
	stream->quits = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	pthread_join(stream->thread, NULL);
	free(stream);
	return CUDA_SUCCESS;
}

static CUresult push_event(CUstream s, enum what what, CUevent event)
{
	push(s, (struct item){ .what = what, .event = event,
			       .count = what == RECORD ? ++event->recorded :
							 event->recorded });
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event,
				  unsigned int flags)
{
	(void)flags;
	LOCKED(MOCK_CUDA_WAIT, push_event(stream, WAIT, event));
}

/* Also after an error: then the GPU does nothing any more. */
EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
	CUresult err;

	pthread_mutex_lock(&lock);
	n_calls[MOCK_CUDA_SYNC]++;
	drain(stream);
	err = begin();
	pthread_mutex_unlock(&lock);
	return err;
}

static CUresult make_event(CUevent *ret)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*ret)->next = events;
	events = *ret;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	(void)flags;
	LOCKED(MOCK_CUDA_EVENT, make_event(event));
}

EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
	CUevent *at = &events;

	pthread_mutex_lock(&lock);
	while (*at && *at != event)
		at = &(*at)->next;
	if (*at)
		*at = event->next;
	pthread_mutex_unlock(&lock);
	free(event);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
	LOCKED(MOCK_CUDA_RECORD, push_event(stream, RECORD, event));
}

EXPORT CUresult cuEventQuery(CUevent event)
{
	LOCKED(MOCK_CUDA_QUERY, event->done < event->recorded ?
					CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}

static CUresult push_call(CUstream s, CUhostFn fn, void *arg)
{
	push(s, (struct item){ .what = CALL, .fn = fn, .arg = arg });
	return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *arg)
{
	LOCKED(MOCK_CUDA_HOST_FUNC, push_call(stream, fn, arg));
}
