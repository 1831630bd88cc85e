/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory in software, with the rules of the real one. */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/domain.h>

#include "base/fault.h"
#include "base/why.h"
#include "mem/device-internal.h"
#include "mem/dm-internal.h"
#include "mem/mmap-internal.h"


static int list_soft(const struct device_class *cls, struct device_list *list)
{
	struct weir_devinfo *info = device_list_add(list, cls, "soft-dm");

	if (!info)
		return -ENOMEM;
	info->caps.flags = WEIR_DEVICE_USABLE | WEIR_DEVICE_SOFTWARE;
	info->caps.caps = WEIR_DEVICE_CAP_DM | WEIR_DEVICE_CAP_DM_IMPORT;
	info->caps.domains = WEIR_DEVICE_BIT(WEIR_DOMAIN_DEVICE);
	info->caps.dm_size = DM_SOFT_CAPACITY;
	info->caps.align = DM_WORD;
	info->caps.address_bits = 64;
	return 0;
}

static const struct dm_ops dm_soft_ops;

const struct device_class device_soft_dm = {
	.kind = WEIR_DEVICE_SOFT_DM,
	.list = list_soft,
	.dm = &dm_soft_ops,
};

/*
 * Device memory without a device: the software twin.
 *
 * Its limits are those of a ConnectX card: a small capacity that all users
 * share, pieces of 64 bytes, copies of whole words of 4 bytes, and random
 * contents after an allocation.  Each allocation is a memfd, so that it can be
 * imported.  The memfd is sealed, so that a change of its size cannot harm the
 * importer.  Its part of the capacity is free again when the last handle in
 * this process has gone.
 */

#define UNIT 64u
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* The system sets it by default where vm.memfd_noexec is set. */
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20
#endif

/* A card does not promise zeros, so programs must not rely on them. */
#define NOISE 0xdb

/* Guards the capacity that is left, and the list of all handles. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t capacity = DM_SOFT_CAPACITY;
static struct weir_dm *handles;

static int take_capacity(struct weir_dm *dm, uint32_t log_align)
{
	uint32_t unit = 1u << log_align, left;
	bool fits;

	if (unit < UNIT)
		unit = UNIT;
	dm->capacity = ((uint32_t)dm->len + unit - 1) & ~(unit - 1);
	pthread_mutex_lock(&lock);
	left = capacity;
	fits = dm->capacity <= left;
	if (fits)
		capacity -= dm->capacity;
	pthread_mutex_unlock(&lock);
	if (fits)
		return 0;
	return why(-ENOMEM,
		   "weir_dm_alloc: %zu bytes take %u with alignment; "
		   "soft-dm has %u of %u left; free some",
		   dm->len, dm->capacity, left, DM_SOFT_CAPACITY);
}

static void give_capacity(struct weir_dm *dm)
{
	pthread_mutex_lock(&lock);
	capacity += dm->capacity;
	pthread_mutex_unlock(&lock);
}

/*
 * Add to the list of handles.  Two imports of the same memory have one inode.
 */
static int enter(struct weir_dm *dm, const char *call)
{
	struct stat st;

	if (fault("fstat") ? (errno = ENOMEM, -1) : fstat(dm->fd, &st))
		return why(-ENOMEM, "%s: no inode: %s", call, strerror(errno));
	dm->ino = st.st_ino;
	pthread_mutex_lock(&lock);
	dm->next_soft = handles;
	handles = dm;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* Remove from the list.  The memory lives as long as any handle of it.  So the
 * capacity passes to another handle, and is free with the last one. */
static void leave(struct weir_dm *dm)
{
	struct weir_dm **p, *other;

	pthread_mutex_lock(&lock);
	for (p = &handles; *p != dm; p = &(*p)->next_soft)
		;
	*p = dm->next_soft;
	for (other = handles; other && other->ino != dm->ino;
	     other = other->next_soft)
		;
	if (other)
		other->capacity += dm->capacity;
	else
		capacity += dm->capacity;
	pthread_mutex_unlock(&lock);
}

static int map(struct weir_dm *dm, const char *call)
{
	void *p = MAP_FAILED;

	errno = ENOMEM;
	if (!fault("mmap"))
		p = mmap(NULL, dm->len, PROT_READ | PROT_WRITE, MAP_SHARED,
			 dm->fd, 0);
	if (p == MAP_FAILED)
		return why(-errno, "%s: cannot map %zu bytes: %s", call,
			   dm->len, strerror(errno));
	dm->priv = p;
	dm->copies = true;
	return 0;
}

static int map_and_enter(struct weir_dm *dm, const char *call)
{
	int err = map(dm, call);

	if (err)
		return err;
	err = enter(dm, call);
	if (err)
		munmap(dm->priv, dm->len);
	return err;
}

/*
 * Allocate all pages now: a page that is missing later would be a SIGBUS.  A
 * thread that has closed an io_uring may get one EINTR without a signal when
 * the kernel has finished that work.
 */
static int allocate(int fd, size_t len)
{
	int err;

	do {
		err = posix_fallocate(fd, 0, (off_t)len);
	} while (err == EINTR);
	return err;
}

static int size_and_seal(int fd, size_t len)
{
	int err;

	if (fault("ftruncate") || ftruncate(fd, (off_t)len))
		return why(-ENOMEM, "weir_dm_alloc: cannot size the memory");
	err = fault("fallocate") ? ENOMEM : allocate(fd, len);
	if (err)
		return why(-ENOMEM, "weir_dm_alloc: no memory for %zu bytes: "
			   "%s", len, strerror(err));
	if (fault("fcntl") || fcntl(fd, F_ADD_SEALS, SEALS))
		return why(-ENOMEM, "weir_dm_alloc: cannot seal the memory");
	return 0;
}

static int make(struct weir_dm *dm)
{
	int err;

	dm->fd = fault("memfd_create") ? (errno = EMFILE, -1) :
		 memfd_create("weir-soft-dm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (dm->fd < 0)
		return why(-errno, "weir_dm_alloc: memfd_create: %s",
			   strerror(errno));
	err = size_and_seal(dm->fd, dm->len);
	if (!err)
		err = map_and_enter(dm, "weir_dm_alloc");
	if (err)
		close(dm->fd);
	else
		memset(dm->priv, NOISE, dm->len);
	return err;
}

static int soft_alloc(struct weir_dm *dm, uint32_t log_align)
{
	int err;

	if (log_align > DM_SOFT_LOG_ALIGN_MAX)
		return why(-EINVAL, "weir_dm_alloc: soft-dm aligns to at most "
			   "2^%u, not 2^%u", DM_SOFT_LOG_ALIGN_MAX, log_align);
	err = take_capacity(dm, log_align);
	if (err)
		return err;
	err = make(dm);
	if (err)
		give_capacity(dm);
	return err;
}

/* Whether it is one of ours: other memfds are sealed differently. */
static int check_token(const struct weir_dm_token *token)
{
	int seals = fcntl(token->fd, F_GET_SEALS);
	int flags = fcntl(token->fd, F_GETFL);
	struct stat st;

	if (seals < 0 || (seals & ~F_SEAL_EXEC) != SEALS || flags < 0 ||
	    (flags & O_ACCMODE) != O_RDWR || fstat(token->fd, &st))
		return why(-EINVAL, "weir_dm_import: fd %d is no memory of a "
			   "soft-dm device", token->fd);
	if ((uint64_t)st.st_size != token->len)
		return why(-EINVAL, "weir_dm_import: the memory of fd %d has "
			   "%lld bytes, not %llu", token->fd,
			   (long long)st.st_size,
			   (unsigned long long)token->len);
	return 0;
}

static int soft_import(struct weir_dm *dm, const struct weir_dm_token *token)
{
	int err = check_token(token);

	if (err)
		return err;
	dm->fd = mmap_dup_fd(token->fd, "weir_dm_import");
	if (dm->fd < 0)
		return dm->fd;
	err = map_and_enter(dm, "weir_dm_import");
	if (err)
		close(dm->fd);
	return err;
}

static int soft_release(struct weir_dm *dm)
{
	leave(dm);
	munmap(dm->priv, dm->len);
	close(dm->fd);
	return 0;
}

/* Copy word by word, each with one access, as the bus does. */

static int soft_copy_to(struct weir_dm *dm, uint64_t off, const void *src,
			size_t len)
{
	_Atomic uint32_t *to = (_Atomic uint32_t *)dm->priv + off / DM_WORD;
	const char *from = src;
	uint32_t word;
	size_t i;

	for (i = 0; i < len / DM_WORD; i++) {
		memcpy(&word, from + i * DM_WORD, DM_WORD);
		atomic_store_explicit(&to[i], word, memory_order_relaxed);
	}
	return 0;
}

static int soft_copy_from(void *dst, struct weir_dm *dm, uint64_t off,
			  size_t len)
{
	_Atomic uint32_t *from = (_Atomic uint32_t *)dm->priv + off / DM_WORD;
	char *to = dst;
	uint32_t word;
	size_t i;

	for (i = 0; i < len / DM_WORD; i++) {
		word = atomic_load_explicit(&from[i], memory_order_relaxed);
		memcpy(to + i * DM_WORD, &word, DM_WORD);
	}
	return 0;
}

static int soft_export(struct weir_dm *dm, struct weir_dm_token *token)
{
	int fd = mmap_dup_fd(dm->fd, "weir_dm_export");

	if (fd < 0)
		return fd;
	token->fd = fd;
	return 0;
}

static const struct dm_ops dm_soft_ops = {
	.alloc = soft_alloc,
	.import = soft_import,
	.release = soft_release,
	.copy_to = soft_copy_to,
	.copy_from = soft_copy_from,
	.export = soft_export,
};
