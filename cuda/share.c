/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <weir/domain-user.h>
#include <weir/mmap.h>

#include "cuda/share.h"

#define BLOCK ((uint64_t)2 << 20)	/* What the driver maps is whole ones. */
#define PLACES 63u
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define LOOKS 20			/* At importers that are busy, */
#define LOOK_NS 100000			/* with a pause of so much. */
#define FORMAT 1u

struct place {
	_Atomic uint32_t jobs;
	_Atomic int32_t pid;		/* For messages. */
	uint64_t reserved[7];
};

struct share_page {
	uint64_t nonce[2];		/* Also in the descriptor. */
	_Atomic uint32_t revoked;
	uint32_t reserved0;
	uint64_t reserved[5];
	struct place places[PLACES];
};

_Static_assert(sizeof(struct share_page) == 4096, "a page");

/* What a descriptor says; exporter and importer are on one machine. */
struct said {
	uint32_t version;
	int32_t pid;			/* The exporter's, */
	int32_t fd;			/* and of the page, there. */
	uint32_t reserved;
	uint64_t nonce[2];
	char gpu[CUDA_UUID];
	CUipcMemHandle handle;
};

_Static_assert(sizeof(struct said) <= WEIR_PROVIDER_DESC_MAX, "it fits");

struct share {
	struct share *next;
	struct share_page *page;
	int fd;
	uint64_t addr, len;
	struct said said;
};

static struct share *shares;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct share_page *map_page(int fd)
{
	void *p = weir_fault("mmap") ? MAP_FAILED :
		  mmap(NULL, sizeof(struct share_page), PROT_READ | PROT_WRITE,
		       MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static struct flock place_lock(uint32_t place, short type)
{
	return (struct flock){ .l_type = type, .l_whence = SEEK_SET,
			       .l_start = (off_t)place, .l_len = 1 };
}

/* The exporter. */

static int make_page(struct share *s)
{
	s->fd = weir_fault("memfd_create") ? -1 :
		memfd_create("weir-cuda", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (s->fd < 0)
		return -EMFILE;
	if (ftruncate(s->fd, sizeof(*s->page)) ||
	    fcntl(s->fd, F_ADD_SEALS, SEALS) || !(s->page = map_page(s->fd)))
		return -ENOMEM;
	if (getrandom(s->page->nonce, sizeof(s->page->nonce), 0) !=
	    (ssize_t)sizeof(s->page->nonce))
		return -EIO;
	return 0;
}

static void free_share(struct share *s)
{
	if (s->page)
		munmap(s->page, sizeof(*s->page));
	if (s->fd >= 0)
		close(s->fd);
	free(s);
}

/* The driver gives importers all of an allocation, in whole blocks. */
static int check_range(struct cuda_device *device, uint64_t addr, uint64_t len)
{
	struct cuda_range range = { .len = 0 };

	if (!cuda_enter(device)) {
		range = cuda_look_up(device, addr);
		cuda_leave(device);
	}
	if (range.start == addr && range.len == len && !(len % BLOCK))
		return 0;
	return weir_why_set(-EOPNOTSUPP, "weir_mmap_export_device: importers get "
			    "all of an allocation, and what is beside it in a "
			    "block of 2 MiB: export one that is a multiple of "
			    "2 MiB, as a whole");
}

static int get_handle(struct cuda_device *device, struct share *s)
{
	const struct cuda_driver *d = device->driver;
	CUresult err = cuda_enter(device);

	if (!err) {
		err = d->device_uuid(s->said.gpu, device->number);
		if (!err)
			err = d->ipc_get(&s->said.handle, s->addr);
		cuda_leave(device);
	}
	/* It says so of memory of cuMemCreate(), for example. */
	if (err == CUDA_ERROR_INVALID_VALUE)
		err = CUDA_ERROR_NOT_SUPPORTED;
	return err ? weir_why_set(cuda_errno(err), "weir_mmap_export_device: the "
				  "driver gives no handle for the memory: %s",
				  cuda_error(err)) : 0;
}

int cuda_share(struct cuda_device *device, uint64_t addr, uint64_t len, void **ret)
{
	int err = check_range(device, addr, len);
	struct share *s;

	if (err)
		return err;
	s = weir_fault("malloc") ? NULL : calloc(1, sizeof(*s));
	if (!s)
		return weir_why_set(-ENOMEM, "weir_mmap_export_device: no memory");
	s->addr = addr;
	s->len = len;
	err = make_page(s);
	if (err)
		weir_why_set(err, "weir_mmap_export_device: no page to share with "
			     "importers: %s", strerror(-err));
	else
		err = get_handle(device, s);
	if (err) {
		free_share(s);
		return err;
	}
	s->said.version = FORMAT;
	s->said.pid = getpid();
	s->said.fd = s->fd;
	memcpy(s->said.nonce, s->page->nonce, sizeof(s->said.nonce));
	pthread_mutex_lock(&lock);
	s->next = shares;
	shares = s;
	pthread_mutex_unlock(&lock);
	*ret = s;
	return 0;
}

void cuda_share_describe(const void *share, struct weir_provider_desc *desc)
{
	const struct share *s = share;

	desc->n_bytes = sizeof(s->said);
	memcpy(desc->bytes, &s->said, sizeof(s->said));
}

bool cuda_is_shared(uint64_t addr)
{
	const struct share *s;

	pthread_mutex_lock(&lock);
	for (s = shares; s && (addr < s->addr || addr - s->addr >= s->len);
	     s = s->next)
		;
	pthread_mutex_unlock(&lock);
	return s;
}

/* The process that has jobs in @place, or 0: there are none, or it has ended. */
static int32_t busy_process(const struct share *s, uint32_t place)
{
	const struct place *p = &s->page->places[place];
	struct flock there = place_lock(place, F_WRLCK);

	if (!atomic_load(&p->jobs) ||
	    (!fcntl(s->fd, F_OFD_GETLK, &there) && there.l_type == F_UNLCK))
		return 0;
	return atomic_load(&p->pid) ? atomic_load(&p->pid) : -1;
}

static int32_t any_busy_process(const struct share *s)
{
	int32_t pid = 0;

	for (uint32_t i = 0; i < PLACES && !pid; i++)
		pid = busy_process(s, i);
	return pid;
}

int cuda_share_end(void *share)
{
	static const struct timespec pause = { 0, LOOK_NS };
	struct share *s = share, **at = &shares;
	int32_t pid;

	atomic_store(&s->page->revoked, 1);
	pid = any_busy_process(s);
	/* A copy that was begun takes a millisecond at most, if its reactor runs. */
	for (int i = 0; i < LOOKS && pid; i++) {
		nanosleep(&pause, NULL);
		pid = any_busy_process(s);
	}
	if (pid)
		return weir_why_set(-EBUSY, "weir_mmap_stop: process %d still uses "
				    "memory of the GPU that it has imported; ask "
				    "again", pid);
	pthread_mutex_lock(&lock);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	pthread_mutex_unlock(&lock);
	free_share(s);
	return 0;
}

/* The importer.  Whatever it reads may be an enemy's. */

static int refuse_page(const char *why)
{
	return weir_why_set(-ESRCH, "weir_mmap_import_device: the exporter cannot be "
			    "found: %s", why);
}

/* Opens the page as a file of our own, by which it can be locked. */
static int open_page(struct cuda_import *im, const struct said *said)
{
	char path[64];
	struct stat st;
	int fd, seals;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", said->pid, said->fd);
	/* What is at the other end of the link may block, or do something when it is
	 * opened: only a memfd is. */
	fd = weir_fault("open") ? -1 : open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return refuse_page("it has ended, or is of another user or PID "
				   "namespace");
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size != 4096) {
		close(fd);
		return refuse_page("its descriptor has another file");
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	im->fd = open(path, O_RDWR | O_CLOEXEC);
	close(fd);
	if (im->fd < 0)
		return refuse_page(strerror(errno));
	seals = fcntl(im->fd, F_GET_SEALS);
	if (seals < 0 || (seals & SEALS) != SEALS)
		return refuse_page("its file is not sealed");
	im->page = map_page(im->fd);
	if (!im->page)
		return weir_why_set(-ENOMEM, "weir_mmap_import_device: no memory");
	return memcmp(im->page->nonce, said->nonce, sizeof(said->nonce)) ?
		       refuse_page("its number is another process's now") : 0;
}

static int claim_place(struct cuda_import *im)
{
	struct flock here;
	uint32_t i;

	for (i = 0; i < PLACES; i++) {
		here = place_lock(i, F_WRLCK);
		if (!fcntl(im->fd, F_OFD_SETLK, &here))
			break;
	}
	if (i == PLACES)
		return weir_why_set(-EAGAIN, "weir_mmap_import_device: the export has "
				    "%u importers, and cannot have more", PLACES);
	im->place = i;
	atomic_store(&im->page->places[i].jobs, 0);
	atomic_store(&im->page->places[i].pid, getpid());
	return 0;
}

/* The driver does not map memory of a process there. */
static uint64_t own_memory(const struct said *said, uint64_t len)
{
	const struct share *s;
	uint64_t addr = 0;

	pthread_mutex_lock(&lock);
	for (s = shares; s; s = s->next)
		if (!memcmp(s->said.nonce, said->nonce, sizeof(said->nonce)) &&
		    s->len == len)
			addr = s->addr;
	pthread_mutex_unlock(&lock);
	return addr;
}

static int map_memory(struct cuda_import *im, const struct said *said, uint64_t len,
		      uint64_t *addr)
{
	const struct cuda_driver *d = im->device->driver;
	struct cuda_range range = { .len = 0 };
	CUdeviceptr at = 0;
	CUresult err;

	*addr = own_memory(said, len);
	if (*addr)
		return 0;
	err = cuda_enter(im->device);
	if (!err) {
		err = d->ipc_open(&at, said->handle, CU_IPC_MEM_LAZY_ENABLE_PEER);
		if (!err) {
			im->start = at;
			range = cuda_look_up(im->device, at);
		}
		cuda_leave(im->device);
	}
	if (err)
		return weir_why_set(err == CUDA_ERROR_INVALID_HANDLE ? -ESRCH :
				    cuda_errno(err), "weir_mmap_import_device: the "
				    "driver does not map the memory: %s",
				    cuda_error(err));
	if (range.is_host || range.start != at || range.len < len)
		return weir_why_set(-EBADMSG, "weir_mmap_import_device: the memory is "
				    "not what the descriptor says");
	*addr = at;
	return 0;
}

static int check_said(struct cuda_device *device,
		      const struct weir_provider_desc *desc, struct said *said)
{
	char gpu[CUDA_UUID];

	if (desc->n_bytes != sizeof(*said))
		return weir_why_set(-EBADMSG, "weir_mmap_import_device: no "
				    "descriptor of libweir-cuda");
	memcpy(said, desc->bytes, sizeof(*said));
	if (said->version != FORMAT || said->reserved)
		return weir_why_set(-EPROTONOSUPPORT, "weir_mmap_import_device: the "
				    "exporter has another version of libweir-cuda");
	if (device->driver->device_uuid(gpu, device->number) ||
	    memcmp(gpu, said->gpu, sizeof(gpu)))
		return weir_why_set(-EXDEV, "weir_mmap_import_device: the memory is of "
				    "another GPU than cuda%d", device->number);
	return 0;
}

static void free_import(struct cuda_import *im)
{
	if (im->start && !cuda_enter(im->device)) {
		im->device->driver->ipc_close(im->start);
		cuda_leave(im->device);
	}
	atomic_fetch_add(&cuda_frees, 1);
	if (im->page)
		munmap(im->page, sizeof(*im->page));
	if (im->fd >= 0)
		close(im->fd);
	cuda_unref(im->device);
	free(im);
}

static int reach(struct cuda_import *im, const struct weir_provider_desc *desc,
		 uint64_t *addr)
{
	struct said said;
	int err = check_said(im->device, desc, &said);

	if (!err)
		err = open_page(im, &said);
	if (!err)
		err = claim_place(im);
	if (!err && cuda_import_is_stale(im))
		err = weir_why_set(-ESTALE, "weir_mmap_import_device: the exporter "
				   "has taken it back");
	if (!err)
		err = map_memory(im, &said, desc->len, addr);
	return err ? err : cuda_space_add(&im->domain, im->device, im, *addr,
					  desc->len, !(desc->permissions &
						       WEIR_MMAP_PEER_WRITE));
}

int cuda_import(struct cuda_device *device, const struct weir_provider_desc *desc,
		struct weir_provider_import *ret)
{
	struct cuda_import *im = weir_fault("malloc") ? NULL :
						       calloc(1, sizeof(*im));
	uint64_t addr = 0;
	int err;

	if (!im)
		return weir_why_set(-ENOMEM, "weir_mmap_import_device: no memory");
	im->device = device;
	im->fd = -1;
	cuda_ref(device);
	err = reach(im, desc, &addr);
	if (err) {
		free_import(im);
		return err;
	}
	ret->domain = im->domain;
	ret->addr = addr;
	ret->data = im;
	return 0;
}

/* A program may still use the domain, which it has from weir_mmap_domain(): then all
 * of it is kept. */
void cuda_import_end(struct cuda_import *im)
{
	if (!cuda_space_del(im->domain))
		free_import(im);
}

bool cuda_import_is_stale(const struct cuda_import *im)
{
	return atomic_load(&im->page->revoked);
}

int cuda_import_enter(struct cuda_import *im)
{
	atomic_fetch_add(&im->page->places[im->place].jobs, 1);
	if (!cuda_import_is_stale(im))
		return 0;
	cuda_import_leave(im);
	return -ESTALE;
}

void cuda_import_leave(struct cuda_import *im)
{
	atomic_fetch_sub(&im->page->places[im->place].jobs, 1);
}
