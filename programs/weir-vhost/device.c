/* SPDX-License-Identifier: CC0-1.0 */
/* The device: one front end at a time, from its connection to its end. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/file.h>

#include "../common/listen-unix.h"
#include "weir-vhost.h"

#define BACKLOG 4

struct device *device_new(void (*stopped)(struct device *dev, int err))
{
	struct device *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return NULL;
	dev->stopped = stopped;
	dev->listener = -1;
	dev->fd = -1;
	dev->backend_fd = -1;
	for (uint32_t i = 0; i < QUEUES_MAX; i++)
		ring_init(&dev->rings[i], dev, i);
	return dev;
}

static bool is_busy(const struct device *dev)
{
	for (uint32_t i = 0; i < QUEUES_MAX; i++)
		if (dev->rings[i].started && ring_is_busy(&dev->rings[i]))
			return true;
	return false;
}

void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void reset(struct device *dev)
{
	for (uint32_t i = 0; i < QUEUES_MAX; i++) {
		ring_close(&dev->rings[i]);
		ring_init(&dev->rings[i], dev, i);
	}
}

static void on_synced(struct weir_op *op, int64_t res)
{
	struct device *dev = weir_container_of(op, struct device, sync_op);

	dev->stopped(dev, res < 0 ? (int)res : dev->block.lost);
}

/* What the guest has not flushed is worth keeping, too. */
static void sync_disk(struct device *dev)
{
	int err = -EOPNOTSUPP;

	weir_op_init(&dev->sync_op, on_synced);
	if (!dev->block.read_only)
		err = block_sync(&dev->block, dev->reactor, &dev->sync_op);
	if (err)
		dev->stopped(dev, err == -EOPNOTSUPP ? 0 : err);
}

/* The front end has gone, and nothing of its memory is in use. */
static void forget(struct device *dev)
{
	reset(dev);
	memory_clear(&dev->memory);
	weir_mmap_destroy(dev->inflight_mmap);
	dev->inflight_mmap = NULL;
	dev->inflight = NULL;
	close_one(&dev->backend_fd);
	while (dev->n_fds)
		close(dev->fds[--dev->n_fds]);
	close_one(&dev->fd);
	dev->closing = false;
	dev->waiting = false;
	dev->then = NULL;
	dev->features = 0;
	dev->protocol_features = 0;
	if (dev->stopping)
		sync_disk(dev);
	else
		weir_acceptor_set(dev->acceptor, 1);
}

void device_check(struct device *dev)
{
	if (is_busy(dev))
		return;
	if (dev->closing)
		forget(dev);
	else if (dev->waiting)
		message_resume(dev);
}

/* Its requests are not answered: what it has asked to be remembered stays in
 * flight, for the next connection. */
void device_drop(struct device *dev, const char *why)
{
	if (dev->fd < 0 || dev->closing)
		return;
	if (why)
		fprintf(stderr, "weir-vhost: the front end is disconnected: "
			"%s\n", why);
	weir_watch_destroy(dev->watch);
	dev->watch = NULL;
	dev->closing = true;
	for (uint32_t i = 0; i < QUEUES_MAX; i++)
		if (dev->rings[i].started)
			block_queue_cancel(&dev->rings[i].queue);
	device_check(dev);
}

static void on_accept(struct weir_acceptor *acceptor, int fd, void *arg)
{
	struct device *dev = arg;

	if (fd < 0) {
		fprintf(stderr, "weir-vhost: take a connection: %s\n",
			strerror(-fd));
		return;
	}
	if (dev->fd >= 0) {
		close(fd);
		return;
	}
	weir_acceptor_set(acceptor, 0);
	dev->counts.connections++;
	message_begin(dev, fd);
}

int device_open(struct device *dev)
{
	int err = block_open(&dev->block);

	if (err) {
		fprintf(stderr, "weir-vhost: %s: %s\n",
			block_title(&dev->block),
			block_why(&dev->block, err));
		return err;
	}
	dev->writeback = dev->block.can & BLOCK_CAN_FLUSH;
	err = listen_unix_wait(&dev->listener, dev->opts.unix_path, 0600,
			       BACKLOG);
	if (err)
		fprintf(stderr, "weir-vhost: %s: %s\n", dev->opts.unix_path,
			strerror(-err));
	return err;
}

int device_begin(struct device *dev, struct weir_reactor *r)
{
	int err;

	dev->reactor = r;
	err = block_core_begin(&dev->core, r, &dev->block, 1,
			       REQUESTS * QUEUES_MAX);
	if (!err)
		err = weir_acceptor_create(&dev->acceptor, r, dev->listener,
					   on_accept, dev);
	return err;
}

void device_stop(struct device *dev)
{
	dev->stopping = true;
	weir_acceptor_destroy(dev->acceptor);
	dev->acceptor = NULL;
	if (dev->fd < 0)
		sync_disk(dev);
	else if (!dev->closing)
		message_quit(dev);
}

void device_end(struct device *dev)
{
	weir_acceptor_destroy(dev->acceptor);
	if (dev->core.reactor)
		block_core_end(&dev->core);
	if (dev->listener >= 0) {
		/* Once it is closed, the name may be another server's. */
		unlink(dev->opts.unix_path);
		close(dev->listener);
	}
	block_close(&dev->block);
}

void device_resize(struct device *dev)
{
	int res = block_measure(&dev->block);

	if (res < 0)
		fprintf(stderr, "weir-vhost: %s: %s\n",
			block_title(&dev->block), strerror(-res));
	if (res > 0 && dev->fd >= 0 && !dev->closing)
		message_config_changed(dev);
}
