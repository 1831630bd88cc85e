/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_LOOPDEV_H
#define TESTS_LOOPDEV_H

/*
 * A loop device over anonymous memory of tmpfs: a block device that every
 * machine can have whose root we are, and whose disk is never what takes time.
 *
 * Nothing has to be undone.  The kernel detaches the device when nobody has it
 * open any more, and frees the memory with it, however the process ends.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOOPDEV_TRIES 16

struct loopdev {
	char path[32];
	int fd;		/* O_DIRECT; it is there while this is open. */
	int memory;	/* What it is made of. */
};

/* Through /proc, so that it has what only an open() gives: O_DIRECT. */
static inline int loopdev_memory(size_t size)
{
	int fd = memfd_create("loopdev", MFD_CLOEXEC), direct;
	char path[32];

	if (fd < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	direct = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (direct >= 0) {
		close(fd);
		fd = direct;
	}
	if (!ftruncate(fd, (off_t)size) && !fallocate(fd, 0, 0, (off_t)size))
		return fd;
	close(fd);
	return -1;
}

/* One try: somebody else may take the number that was free. */
static inline int loopdev_try(struct loopdev *l, int control,
			      const struct loop_config *config)
{
	int n = ioctl(control, LOOP_CTL_GET_FREE);

	if (n < 0)
		return -errno;
	snprintf(l->path, sizeof(l->path), "/dev/loop%d", n);
	l->fd = open(l->path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (l->fd < 0)
		return -errno;
	if (!ioctl(l->fd, LOOP_CONFIGURE, config))
		return 0;
	n = -errno;
	close(l->fd);
	return n;
}

static inline int loopdev_attach(struct loopdev *l, uint32_t block)
{
	struct loop_config config = {
		.fd = (uint32_t)l->memory,
		.block_size = block,
		.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
	};
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), err, i;

	if (control < 0)
		return -errno;
	for (i = 0; i < LOOPDEV_TRIES; i++) {
		err = loopdev_try(l, control, &config);
		if (err == -EINVAL)	/* Direct I/O below it: not here. */
			config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
		else if (err != -EBUSY && err != -ENXIO)
			break;
	}
	close(control);
	return err;
}

/* @size bytes in blocks of @block.  Returns 0 or an errno; usually root's. */
static inline int loopdev_open(struct loopdev *l, size_t size, uint32_t block)
{
	int err;

	l->memory = loopdev_memory(size);
	if (l->memory < 0)
		return -errno;
	err = loopdev_attach(l, block);
	if (err)
		close(l->memory);
	return err;
}

static inline void loopdev_close(struct loopdev *l)
{
	close(l->fd);
	close(l->memory);
}

#endif /* TESTS_LOOPDEV_H */
