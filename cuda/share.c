/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <weir/domain-user.h>
#include <weir/mmap.h>

#include "cuda/share.h"

#define BLOCK ((uint64_t)2 << 20)	/* What the driver maps is whole ones. */

struct share {
	struct share *next;
	struct cuda_page *page;
	int fd;
	uint64_t addr, len;
	struct cuda_said said;
};

static struct share *shares;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct cuda_page *map_page(int fd)
{
	void *p = weir_fault("mmap") ? MAP_FAILED :
		  mmap(NULL, sizeof(struct cuda_page), PROT_READ | PROT_WRITE,
		       MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static struct flock place_lock(uint32_t place, short type)
{
	return (struct flock){ .l_type = type, .l_whence = SEEK_SET,
			       .l_start = (off_t)place, .l_len = 1 };
}

/* Processes. */

struct process {
	char state;
	long threads;
	long long start;	/* Clock ticks. */
};

static bool look_at(int32_t pid, struct process *ret)
{
	char path[40], text[1024], *p;
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
	}
	text[n] = '\0';
	p = strrchr(text, ')');		/* The name is in front of it. */
	return p && sscanf(p + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			   "%*s %*s %*s %*s %*s %ld %*s %lld", &ret->state,
			   &ret->threads, &ret->start) == 3;
}

/* Whether the importer of @place has ended.  Its threads have closed their files
 * before they are zombies.  When in doubt it has not. */
static bool has_ended(const struct cuda_place *place, int32_t exporter)
{
	int32_t pid = atomic_load(&place->pid);
	struct process it, its_exporter;

	if (kill(pid, 0) && errno == ESRCH)
		return true;
	if (!look_at(pid, &it) || !look_at(exporter, &its_exporter))
		return false;
	return (it.state == 'Z' && it.threads == 1) ||
	       llabs(it.start - its_exporter.start - atomic_load(&place->began)) > 1;
}

/* The exporter. */

static int make_page(struct share *s)
{
	s->fd = weir_fault("memfd_create") ? -1 :
		memfd_create("weir-cuda", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (s->fd < 0)
		return -EMFILE;
	if (ftruncate(s->fd, sizeof(*s->page)) ||
	    fcntl(s->fd, F_ADD_SEALS, CUDA_PAGE_SEALS) || !(s->page = map_page(s->fd)))
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
	struct cuda_range range;
	CUresult err = cuda_enter(device);

	if (err)
		return cuda_failed(device, "weir_mmap_export_device", "", err);
	range = cuda_look_up(device, addr);
	cuda_leave(device);
	if (range.len && range.device != device->number)
		return weir_why_set(-EOPNOTSUPP, "weir_mmap_export_device: cuda%d has "
				    "the memory, not cuda%d: export it there",
				    range.device, device->number);
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
	s->said.version = CUDA_SAID_VERSION;
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

static bool is_locked(const struct share *s, uint32_t place)
{
	struct flock there = place_lock(place, F_WRLCK);

	return fcntl(s->fd, F_OFD_GETLK, &there) || there.l_type != F_UNLCK;
}

static bool is_busy(const struct share *s, uint32_t place)
{
	const struct cuda_place *p = &s->page->places[place];

	return atomic_load(&p->jobs) &&
	       (is_locked(s, place) || !has_ended(p, s->said.pid));
}

int cuda_share_end(void *share)
{
	struct share *s = share, **at = &shares;
	uint32_t i = 0;

	atomic_store(&s->page->revoked, 1);
	while (i < CUDA_PLACES && !is_busy(s, i))
		i++;
	if (i < CUDA_PLACES)
		return weir_why_set(-EINPROGRESS, "process %d",
				    atomic_load(&s->page->places[i].pid));
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

/* Numbers of processes mean the same here and there. */
static bool is_of_our_namespace(int32_t pid)
{
	struct stat here, there;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	return !stat("/proc/self/ns/pid", &here) && !stat(path, &there) &&
	       here.st_ino == there.st_ino;
}

/* What is at the other end of a link may block, or do something when it is opened:
 * only a memfd is. */
static bool may_be_page(int fd)
{
	struct statfs fs;
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size == 4096 &&
	       !fstatfs(fd, &fs) && fs.f_type == TMPFS_MAGIC;
}

static int refuse_open(void)
{
	if (errno == EMFILE || errno == ENFILE)
		return weir_why_set(-errno, "weir_mmap_import_device: %s; see "
				    "ulimit -n", strerror(errno));
	return refuse_page("it has ended, or is of another user or PID namespace");
}

/* Opens the page as a file of our own, by which it can be locked. */
static int open_page(struct cuda_import *im, const struct cuda_said *said)
{
	char path[64];
	int fd, seals;

	if (!is_of_our_namespace(said->pid))
		return refuse_page("it has ended, or is of another user or PID "
				   "namespace");
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", said->pid, said->fd);
	fd = weir_fault("open") ? -1 : open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return refuse_open();
	if (!may_be_page(fd)) {
		close(fd);
		return refuse_page("its descriptor has another file");
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	im->fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	close(fd);
	if (im->fd < 0)
		return refuse_open();
	seals = fcntl(im->fd, F_GET_SEALS);
	if (seals < 0 || (seals & (CUDA_PAGE_SEALS | F_SEAL_WRITE)) != CUDA_PAGE_SEALS)
		return refuse_page("its file has other seals");
	im->page = map_page(im->fd);
	if (!im->page)
		return weir_why_set(-ENOMEM, "weir_mmap_import_device: no memory");
	return memcmp(im->page->nonce, said->nonce, sizeof(said->nonce)) ?
		       refuse_page("its number is another process's now") : 0;
}

/* Takes place @i, if it is free and nothing of an earlier importer is in flight. */
static bool take_place(struct cuda_import *im, uint32_t i, int32_t exporter)
{
	struct cuda_place *p = &im->page->places[i];
	struct flock here = place_lock(i, F_WRLCK);

	if (fcntl(im->fd, F_OFD_SETLK, &here))
		return false;
	if (!atomic_load(&p->jobs) || has_ended(p, exporter))
		return true;
	here = place_lock(i, F_UNLCK);
	fcntl(im->fd, F_OFD_SETLK, &here);
	return false;
}

static int claim_place(struct cuda_import *im, const struct cuda_said *said)
{
	struct process here, there;
	struct cuda_place *p;
	uint32_t i = 0;

	if (!look_at(getpid(), &here) || !look_at(said->pid, &there))
		return refuse_page("/proc does not say when it began");
	while (i < CUDA_PLACES && !take_place(im, i, said->pid))
		i++;
	if (i == CUDA_PLACES)
		return weir_why_set(-EAGAIN, "weir_mmap_import_device: the export has "
				    "%u importers, and cannot have more", CUDA_PLACES);
	p = &im->page->places[i];
	im->place = i;
	atomic_store(&p->jobs, 0);
	atomic_store(&p->pid, getpid());
	atomic_store(&p->began, here.start - there.start);
	return 0;
}

/* The driver does not map memory of a process there. */
static uint64_t own_memory(const struct cuda_said *said, uint64_t len)
{
	const struct share *s;
	uint64_t addr = 0;

	pthread_mutex_lock(&lock);
	for (s = shares; s; s = s->next)
		if (!memcmp(&s->said, said, sizeof(*said)) && s->len == len)
			addr = s->addr;
	pthread_mutex_unlock(&lock);
	return addr;
}

static int map_memory(struct cuda_import *im, const struct cuda_said *said, uint64_t len,
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
		      const struct weir_provider_desc *desc, struct cuda_said *said)
{
	char gpu[CUDA_UUID];

	if (desc->n_bytes != sizeof(*said))
		return weir_why_set(-EBADMSG, "weir_mmap_import_device: no "
				    "descriptor of libweir-cuda");
	memcpy(said, desc->bytes, sizeof(*said));
	if (said->version != CUDA_SAID_VERSION || said->reserved)
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
	struct cuda_said said;
	int err = check_said(im->device, desc, &said);

	if (!err)
		err = open_page(im, &said);
	if (!err)
		err = claim_place(im, &said);
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

static struct cuda_import *endings;
static pthread_mutex_t endings_lock = PTHREAD_MUTEX_INITIALIZER;

void cuda_imports_retry(void)
{
	struct cuda_import **at = &endings, *im;

	pthread_mutex_lock(&endings_lock);
	while ((im = *at))
		if (cuda_space_del(im->domain)) {
			at = &im->next;
		} else {
			*at = im->next;
			free_import(im);
		}
	pthread_mutex_unlock(&endings_lock);
}

/* A program may still use the domain, which it has from weir_mmap_domain(). */
void cuda_import_end(struct cuda_import *im)
{
	pthread_mutex_lock(&endings_lock);
	im->next = endings;
	endings = im;
	pthread_mutex_unlock(&endings_lock);
	cuda_imports_retry();
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
