/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A dma-buf as the range of an mmap: memory of a driver, identified by a
 * descriptor.
 *
 * Memory that the processor can reach is mapped and used like any other.  The
 * driver is notified when that use begins and ends, at the start and stop of
 * the mmap.  Other memory has no addresses in this process; devices reach it
 * through the descriptor.
 */

#include <errno.h>
#include <linux/dma-buf.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/why.h"
#include "mem/domain-internal.h"
#include "mem/mmap-internal.h"

#define PAGE 4096u

static int ask_kernel(int fd, unsigned long request, void *arg)
{
	return fault("ioctl") ? (errno = EIO, -1) : ioctl(fd, request, arg);
}

int (*dmabuf_ioctl)(int fd, unsigned long request, void *arg) = ask_kernel;

static const struct domain_class class_dmabuf = {
	.is_device = true,
};

/* One domain for all: an address is an offset in the range of an mmap. */
static struct weir_domain domain = {
	.cls = &class_dmabuf,
	.kind = WEIR_DOMAIN_DMABUF,
	.size = UINT64_MAX,
	.id = "dma-buf",
	.immortal = true,
};

static void list_domain(void)
{
	domain_add(&domain);
}

static struct weir_domain *dmabuf_domain(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, list_domain);
	return &domain;
}

static int sync_dmabuf(int fd, uint64_t flags)
{
	struct dma_buf_sync arg = { .flags = flags };
	int err;

	do {
		err = dmabuf_ioctl(fd, DMA_BUF_IOCTL_SYNC, &arg) ? -errno : 0;
	} while (err == -EINTR || err == -EAGAIN);
	return err;
}

/* A sync in no direction has no effect.  A dma-buf answers EINVAL; no other
 * file knows the request. */
static int check_dmabuf(int fd, uint64_t off, size_t len)
{
	int err = sync_dmabuf(fd, 0);
	int64_t size;

	if (err == -EBADF)
		return why(err, "weir_mmap_set_dmabuf: fd %d is not open", fd);
	if (err && err != -EINVAL)
		return why(-EINVAL, "weir_mmap_set_dmabuf: fd %d is no dma-buf "
			   "(%s)", fd, strerror(-err));
	if (off & (PAGE - 1))
		return why(-EINVAL, "weir_mmap_set_dmabuf: offset %llu is no "
			   "multiple of %u", (unsigned long long)off, PAGE);
	size = lseek(fd, 0, SEEK_END);
	if (size > 0 && off + len > (uint64_t)size)
		return why(-ERANGE, "weir_mmap_set_dmabuf: the range ends at "
			   "%llu, the dma-buf at %lld",
			   (unsigned long long)(off + len), (long long)size);
	return 0;
}

int weir_mmap_set_dmabuf(struct weir_mmap *mmap, int fd, uint64_t off,
			 size_t len)
{
	int err = mmap_refuse_range(mmap, "weir_mmap_set_dmabuf", off, len);

	if (!err)
		err = check_dmabuf(fd, off, len);
	if (err)
		return err;
	fd = mmap_dup_fd(fd, "weir_mmap_set_dmabuf");
	if (fd < 0)
		return fd;
	mmap->fd = fd;
	mmap->fd_off = off;
	mmap->len = len;
	mmap->page_size = PAGE;
	if (mmap_map_fd(mmap)) {
		mmap->readonly = false;
		mmap_set_domain(mmap, dmabuf_domain());
	}
	mmap->release = mmap_unmap;
	mmap->range = MMAP_DMABUF;
	mmap->has_range = true;
	return 0;
}

static uint64_t direction(const struct weir_mmap *mmap)
{
	return mmap->permissions & WEIR_MMAP_WRITE ? DMA_BUF_SYNC_RW :
						     DMA_BUF_SYNC_READ;
}

int dmabuf_begin(struct weir_mmap *mmap)
{
	int err;

	if (mmap->range != MMAP_DMABUF || !mmap->cpu)
		return 0;
	err = sync_dmabuf(mmap->fd, DMA_BUF_SYNC_START | direction(mmap));
	if (err)
		return why(err, "weir_mmap_start: the driver of the dma-buf "
			   "does not let the processor use it: %s",
			   strerror(-err));
	return 0;
}

void dmabuf_end(struct weir_mmap *mmap)
{
	if (mmap->range == MMAP_DMABUF && mmap->cpu)
		(void)sync_dmabuf(mmap->fd,
				  DMA_BUF_SYNC_END | direction(mmap));
}
