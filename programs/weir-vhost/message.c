/* SPDX-License-Identifier: CC0-1.0 */
/*
 * What a front end says on its socket: read, checked, done, answered.  What
 * changes memory or stops a ring waits until no request is in flight; meanwhile
 * no other message is read.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weir-vhost.h"

#define HEAD_BYTES ((uint32_t)sizeof(((struct message *)NULL)->head))
#define MESSAGES_AT_ONCE 16
#define WAITS 1		/* The result of what is done later. */
#define INFLIGHT_ALIGN 64u

#define PROTOCOL_FEATURES ( \
	BIT(VHOST_USER_PROTOCOL_F_MQ) | BIT(VHOST_USER_PROTOCOL_F_LOG_SHMFD) | \
	BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK) | \
	BIT(VHOST_USER_PROTOCOL_F_BACKEND_REQ) | \
	BIT(VHOST_USER_PROTOCOL_F_CONFIG) | \
	BIT(VHOST_USER_PROTOCOL_F_INFLIGHT_SHMFD) | \
	BIT(VHOST_USER_PROTOCOL_F_RESET_DEVICE) | \
	BIT(VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS))

static bool speaks(const struct device *dev, unsigned int feature)
{
	return dev->protocol_features & BIT(feature);
}

/* A descriptor that has come becomes the caller's; -1: there is none. */
static int take_fd(struct device *dev)
{
	int fd;

	if (!dev->n_fds)
		return -1;
	fd = dev->fds[0];
	dev->n_fds--;
	memmove(dev->fds, dev->fds + 1, dev->n_fds * sizeof(*dev->fds));
	return fd;
}

static void close_fds(struct device *dev)
{
	while (dev->n_fds)
		close(take_fd(dev));
}

/* Send @len bytes of .u, and @fd if it is not -1.  A front end that does not read
 * its replies is disconnected. */
static int send_message(int to, struct message *m, uint32_t len, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { .bytes = { 0 } };
	struct iovec iov = { m, HEAD_BYTES + len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	m->head.size = len;
	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	do
		n = sendmsg(to, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == iov.iov_len ? 0 : -EAGAIN;
}

static int reply_with(struct device *dev, uint32_t len, int fd)
{
	dev->msg.head.flags = VHOST_USER_VERSION | VHOST_USER_REPLY;
	dev->replied = true;
	return send_message(dev->fd, &dev->msg, len, fd);
}

static int reply_u64(struct device *dev, uint64_t n)
{
	dev->msg.u.u64 = n;
	return reply_with(dev, sizeof(n), -1);
}

static int refuse(int err, const char *why)
{
	return weir_why_set(err, "%s", why);
}

static struct ring *ring_of(struct device *dev, uint32_t index)
{
	if (index < dev->opts.queues)
		return &dev->rings[index];
	refuse(-EINVAL, "a queue that there is not");
	return NULL;
}

static int get_features(struct device *dev)
{
	return reply_u64(dev, blk_features(dev));
}

static int set_features(struct device *dev)
{
	uint64_t features = dev->msg.u.u64;

	if (features & ~blk_features(dev))
		return refuse(-EINVAL, "a feature that was not offered");
	dev->features = features;
	return 0;
}

static int nothing(struct device *dev)
{
	(void)dev;
	return 0;
}

/* What is in flight must end first; @then is called when it has. */
static int wait_for_rings(struct device *dev, int (*then)(struct device *dev))
{
	dev->then = then;
	dev->waiting = true;
	return WAITS;
}

/* Started rings have moved with the memory, or have gone with it.  @err: how
 * its change has failed. */
static int find_rings(struct device *dev, int err)
{
	for (uint32_t i = 0; i < dev->opts.queues; i++) {
		struct ring *ring = &dev->rings[i];

		if (ring->started && ring_find(ring))
			ring_break(ring, "its memory has gone");
	}
	return err;
}

static int add_region(struct device *dev, uint64_t gpa, uint64_t size,
		      uint64_t uva, uint64_t offset)
{
	int fd = take_fd(dev), err;

	if (fd < 0)
		return refuse(-EINVAL, "memory without a descriptor");
	err = memory_add(&dev->memory, fd, gpa, size, uva, offset,
			 dev->opts.trust);
	close(fd);
	return err;
}

static int set_memory(struct device *dev)
{
	const struct message *m = &dev->msg;
	uint32_t n = m->u.memory.n;
	int err = 0;

	if (n > 8 || m->head.size < 8 + n * sizeof(m->u.memory.of[0]))
		return refuse(-EINVAL, "a table of memory that is too short");
	memory_clear_regions(&dev->memory);
	for (uint32_t i = 0; i < n && !err; i++)
		err = add_region(dev, m->u.memory.of[i].gpa,
				 m->u.memory.of[i].size, m->u.memory.of[i].uva,
				 m->u.memory.of[i].offset);
	return find_rings(dev, err);
}

static int set_mem_table(struct device *dev)
{
	return wait_for_rings(dev, set_memory);
}

static int add_memory(struct device *dev)
{
	const struct message *m = &dev->msg;

	return add_region(dev, m->u.region.of.gpa, m->u.region.of.size,
			  m->u.region.of.uva, m->u.region.of.offset);
}

static int remove_memory(struct device *dev)
{
	const struct message *m = &dev->msg;
	int err = memory_remove(&dev->memory, m->u.region.of.gpa,
				m->u.region.of.size, m->u.region.of.uva);

	return find_rings(dev, err);
}

static int rem_mem_reg(struct device *dev)
{
	return wait_for_rings(dev, remove_memory);
}

static int get_max_mem_slots(struct device *dev)
{
	return reply_u64(dev, REGIONS_MAX);
}

static int set_log_base(struct device *dev)
{
	int fd = take_fd(dev), err;

	if (fd < 0)
		return refuse(-EINVAL, "a log without a descriptor");
	err = memory_set_log(&dev->memory, fd, dev->msg.u.log.offset,
			     dev->msg.u.log.size, dev->opts.trust);
	close(fd);
	return err ? err : reply_u64(dev, 0);
}

static int set_vring_num(struct device *dev)
{
	struct ring *ring = ring_of(dev, dev->msg.u.state.index);
	uint32_t num = dev->msg.u.state.num;

	if (!ring)
		return -EINVAL;
	if (!num || num > RING_MAX || num & (num - 1))
		return refuse(-EINVAL, "a ring of a size that cannot be");
	if (ring->started)
		return refuse(-EBUSY, "the ring is started");
	ring->num = num;
	return 0;
}

static int set_vring_addr(struct device *dev)
{
	const struct message *m = &dev->msg;
	struct ring *ring = ring_of(dev, m->u.addr.index);

	if (!ring)
		return -EINVAL;
	/* What changes then is whether it is logged. */
	if (ring->started && (m->u.addr.desc != ring->addr.desc ||
			      m->u.addr.avail != ring->addr.avail ||
			      m->u.addr.used != ring->addr.used))
		return refuse(-EBUSY, "the ring is started");
	ring->addr.desc = m->u.addr.desc;
	ring->addr.avail = m->u.addr.avail;
	ring->addr.used = m->u.addr.used;
	ring->addr.log = m->u.addr.log;
	ring->addr.flags = m->u.addr.flags;
	return 0;
}

static int set_vring_base(struct device *dev)
{
	struct ring *ring = ring_of(dev, dev->msg.u.state.index);

	if (!ring || dev->msg.u.state.num > UINT16_MAX)
		return -EINVAL;
	if (ring->started)
		return refuse(-EBUSY, "the ring is started");
	ring->last_avail = (uint16_t)dev->msg.u.state.num;
	return 0;
}

static int get_base(struct device *dev)
{
	struct ring *ring = ring_of(dev, dev->msg.u.state.index);

	ring_close(ring);
	dev->msg.u.state.num = ring->last_avail;
	return reply_with(dev, sizeof(dev->msg.u.state), -1);
}

static int get_vring_base(struct device *dev)
{
	return ring_of(dev, dev->msg.u.state.index) ?
	       wait_for_rings(dev, get_base) : -EINVAL;
}

/* What can be waited for: a pipe, a socket, and an eventfd, which has no type. */
static bool is_event(int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) &&
	       (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) ||
		!(st.st_mode & S_IFMT));
}

/* The descriptor of a ring, which replaces *@fd.  It must not block. */
static int take_vring_fd(struct device *dev, int *fd)
{
	bool none = dev->msg.u.u64 & VRING_NOFD;
	int got = none ? -1 : take_fd(dev);

	if (!none && (!is_event(got) || fcntl(got, F_SETFL, O_NONBLOCK))) {
		close_one(&got);
		return refuse(-EINVAL, "no descriptor to notify by");
	}
	close_one(fd);
	*fd = got;
	return 0;
}

static struct inflight *inflight_of(const struct device *dev, uint32_t index)
{
	if (!dev->inflight || index >= dev->inflight_queues)
		return NULL;
	return (struct inflight *)(void *)(dev->inflight +
					   index * dev->inflight_ring);
}

static int set_vring_kick(struct device *dev)
{
	struct ring *ring = ring_of(dev, dev->msg.u.u64 & VRING_INDEX);
	int err, was;

	if (!ring)
		return -EINVAL;
	was = ring->kick;
	if (dev->msg.u.u64 & VRING_NOFD)
		return refuse(-EOPNOTSUPP, "a ring without a kick");
	if (!ring->num)
		return refuse(-EBADFD, "a ring without a size");
	/* The one that was watched is closed when it is not any more. */
	ring->kick = -1;
	err = take_vring_fd(dev, &ring->kick);
	if (!err && ring->started)
		err = ring_watch(ring);
	if (err && ring->kick < 0) {
		ring->kick = was;
		return err;
	}
	if (was >= 0)
		close(was);
	if (err || ring->started)
		return err;
	if (!device_has(dev, VHOST_USER_F_PROTOCOL_FEATURES))
		ring->enabled = true;
	ring->inflight = inflight_of(dev, ring->index);
	return ring_start(ring);
}

static int set_vring_call(struct device *dev)
{
	struct ring *ring = ring_of(dev, dev->msg.u.u64 & VRING_INDEX);
	int err = ring ? take_vring_fd(dev, &ring->call) : -EINVAL;

	/* What was answered before has not been told to this one. */
	if (!err)
		ring->signalled_valid = false;
	return err;
}

static int set_vring_err(struct device *dev)
{
	struct ring *ring = ring_of(dev, dev->msg.u.u64 & VRING_INDEX);

	return ring ? take_vring_fd(dev, &ring->err) : -EINVAL;
}

static int set_vring_enable(struct device *dev)
{
	struct ring *ring = ring_of(dev, dev->msg.u.state.index);

	if (!ring)
		return -EINVAL;
	ring->enabled = dev->msg.u.state.num;
	ring_kick(ring);
	return 0;
}

static int get_protocol_features(struct device *dev)
{
	return reply_u64(dev, PROTOCOL_FEATURES);
}

static int set_protocol_features(struct device *dev)
{
	if (dev->msg.u.u64 & ~PROTOCOL_FEATURES)
		return refuse(-EINVAL,
			      "a feature of the protocol that was not offered");
	dev->protocol_features = dev->msg.u.u64;
	return 0;
}

static int get_queue_num(struct device *dev)
{
	return reply_u64(dev, dev->opts.queues);
}

static int set_backend_req_fd(struct device *dev)
{
	int fd = take_fd(dev);

	if (fd < 0)
		return refuse(-EINVAL, "no socket");
	close_one(&dev->backend_fd);
	dev->backend_fd = fd;
	return 0;
}

static bool config_range(const struct message *m)
{
	uint32_t max = sizeof(m->u.config.at);

	return m->head.size >= 12 && m->u.config.size <= max &&
	       m->head.size >= 12 + m->u.config.size &&
	       m->u.config.offset <= max &&
	       m->u.config.size <= max - m->u.config.offset;
}

static int get_config(struct device *dev)
{
	struct message *m = &dev->msg;
	struct virtio_blk_config config;
	uint8_t all[sizeof(m->u.config.at)] = { 0 };

	if (!config_range(m))
		return refuse(-EINVAL, "a part of the configuration that there "
			      "is not");
	blk_config(dev, &config);
	memcpy(all, &config, sizeof(config));
	memcpy(m->u.config.at, all + m->u.config.offset, m->u.config.size);
	return reply_with(dev, 12 + m->u.config.size, -1);
}

/* Only whether writes are cached can be set. */
static int set_config(struct device *dev)
{
	const struct message *m = &dev->msg;
	uint32_t at = offsetof(struct virtio_blk_config, wce);

	if (!config_range(m))
		return refuse(-EINVAL, "a part of the configuration that there "
			      "is not");
	if (m->u.config.offset > at ||
	    at - m->u.config.offset >= m->u.config.size)
		return refuse(-EINVAL, "a configuration that cannot be set");
	if (device_has(dev, VIRTIO_BLK_F_CONFIG_WCE))
		dev->writeback = m->u.config.at[at - m->u.config.offset];
	return 0;
}

static uint32_t inflight_bytes(uint32_t num)
{
	size_t n = sizeof(struct inflight) +
		   num * sizeof(struct inflight_desc);

	return (uint32_t)((n + INFLIGHT_ALIGN - 1) / INFLIGHT_ALIGN *
			  INFLIGHT_ALIGN);
}

static void drop_inflight(struct device *dev)
{
	for (uint32_t i = 0; i < QUEUES_MAX; i++)
		dev->rings[i].inflight = NULL;
	weir_mmap_destroy(dev->inflight_mmap);
	dev->inflight_mmap = NULL;
	dev->inflight = NULL;
}

/* Use the @size bytes of @fd at @offset, for @n rings of @num. */
static int use_inflight(struct device *dev, int fd, uint64_t size,
			uint64_t offset, uint32_t n, uint32_t num)
{
	int err;

	for (uint32_t i = 0; i < QUEUES_MAX; i++)
		if (dev->rings[i].started)
			return refuse(-EBUSY, "a ring is started");
	if (!n || n > QUEUES_MAX || !num || num > RING_MAX || offset % 8 ||
	    size < (uint64_t)n * inflight_bytes(num))
		return refuse(-EINVAL, "requests in flight of no such rings");
	drop_inflight(dev);
	err = map_fd(&dev->inflight_mmap, &dev->inflight, fd, offset, size,
		     dev->opts.trust);
	dev->inflight_queues = n;
	dev->inflight_num = num;
	dev->inflight_ring = inflight_bytes(num);
	return err;
}

static int get_inflight_fd(struct device *dev)
{
	struct message *m = &dev->msg;
	uint32_t n = m->u.inflight.n_queues, num = m->u.inflight.queue_size;
	uint64_t size = (uint64_t)n * inflight_bytes(num);
	int err = 0, fd = memfd_create("inflight", MFD_CLOEXEC |
						   MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, size ? (off_t)size : 1) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		err = -errno;
	if (!err)
		err = use_inflight(dev, fd, size, 0, n, num);
	for (uint32_t i = 0; i < n && !err; i++)
		inflight_of(dev, i)->desc_num = (uint16_t)num;
	m->u.inflight.size = size;
	m->u.inflight.offset = 0;
	if (!err)
		err = reply_with(dev, sizeof(m->u.inflight), fd);
	close(fd);
	return err;
}

static int set_inflight_fd(struct device *dev)
{
	const struct message *m = &dev->msg;
	int fd = take_fd(dev), err;

	if (fd < 0)
		return refuse(-EINVAL, "no descriptor");
	err = use_inflight(dev, fd, m->u.inflight.size, m->u.inflight.offset,
			   m->u.inflight.n_queues, m->u.inflight.queue_size);
	close(fd);
	return err;
}

static int reset_rings(struct device *dev)
{
	for (uint32_t i = 0; i < QUEUES_MAX; i++) {
		ring_close(&dev->rings[i]);
		dev->rings[i].enabled = false;
		dev->rings[i].last_avail = 0;
	}
	dev->writeback = dev->block.can & BLOCK_CAN_FLUSH;
	return 0;
}

static int reset_device(struct device *dev)
{
	return wait_for_rings(dev, reset_rings);
}

/* .size: what there must be at least. */
static const struct {
	int (*fn)(struct device *dev);
	uint32_t size;
} messages[VHOST_USERS] = {
	[VHOST_USER_GET_FEATURES] = { get_features, 0 },
	[VHOST_USER_SET_FEATURES] = { set_features, 8 },
	[VHOST_USER_SET_OWNER] = { nothing, 0 },
	[VHOST_USER_RESET_OWNER] = { nothing, 0 },
	[VHOST_USER_SET_MEM_TABLE] = { set_mem_table, 8 },
	[VHOST_USER_SET_LOG_BASE] = { set_log_base, 16 },
	[VHOST_USER_SET_LOG_FD] = { nothing, 0 },
	[VHOST_USER_SET_VRING_NUM] = { set_vring_num, 8 },
	[VHOST_USER_SET_VRING_ADDR] = { set_vring_addr, 40 },
	[VHOST_USER_SET_VRING_BASE] = { set_vring_base, 8 },
	[VHOST_USER_GET_VRING_BASE] = { get_vring_base, 8 },
	[VHOST_USER_SET_VRING_KICK] = { set_vring_kick, 8 },
	[VHOST_USER_SET_VRING_CALL] = { set_vring_call, 8 },
	[VHOST_USER_SET_VRING_ERR] = { set_vring_err, 8 },
	[VHOST_USER_GET_PROTOCOL_FEATURES] = { get_protocol_features, 0 },
	[VHOST_USER_SET_PROTOCOL_FEATURES] = { set_protocol_features, 8 },
	[VHOST_USER_GET_QUEUE_NUM] = { get_queue_num, 0 },
	[VHOST_USER_SET_VRING_ENABLE] = { set_vring_enable, 8 },
	[VHOST_USER_SET_BACKEND_REQ_FD] = { set_backend_req_fd, 0 },
	[VHOST_USER_GET_CONFIG] = { get_config, 12 },
	[VHOST_USER_SET_CONFIG] = { set_config, 12 },
	[VHOST_USER_GET_INFLIGHT_FD] = { get_inflight_fd, 20 },
	[VHOST_USER_SET_INFLIGHT_FD] = { set_inflight_fd, 20 },
	[VHOST_USER_RESET_DEVICE] = { reset_device, 0 },
	[VHOST_USER_GET_MAX_MEM_SLOTS] = { get_max_mem_slots, 0 },
	[VHOST_USER_ADD_MEM_REG] = { add_memory, 40 },
	[VHOST_USER_REM_MEM_REG] = { rem_mem_reg, 40 },
};

/* A message is done, well or badly.  One that asks for it is told; another
 * front end would go on as if nothing had happened. */
static void finish(struct device *dev, int err)
{
	uint32_t request = dev->msg.head.request;
	bool ack = dev->msg.head.flags & VHOST_USER_NEED_REPLY &&
		   speaks(dev, VHOST_USER_PROTOCOL_F_REPLY_ACK);
	char why[256];

	close_fds(dev);
	dev->got = 0;
	if (err)
		snprintf(why, sizeof(why), "message %u: %s (%s)", request,
			 weir_why(), strerror(-err));
	if (ack && !dev->replied) {
		if (err)
			fprintf(stderr, "weir-vhost: %s\n", why);
		err = reply_u64(dev, err != 0);
		snprintf(why, sizeof(why), "it takes no answers");
	}
	if (err)
		device_drop(dev, why);
}

static void handle(struct device *dev)
{
	uint32_t request = dev->msg.head.request;
	int err = -EOPNOTSUPP;

	dev->replied = false;
	refuse(-EOPNOTSUPP, "it makes no sense");
	if ((dev->msg.head.flags & 3) != VHOST_USER_VERSION)
		err = refuse(-EPROTO, "another version of the protocol");
	else if (request < VHOST_USERS && messages[request].fn)
		err = dev->msg.head.size < messages[request].size ?
		      refuse(-EINVAL, "a message that is too short") :
		      messages[request].fn(dev);
	if (err == WAITS)
		device_check(dev);
	else
		finish(dev, err);
}

void message_resume(struct device *dev)
{
	int (*then)(struct device *dev) = dev->then;

	dev->then = NULL;
	dev->waiting = false;
	finish(dev, then(dev));
	if (dev->fd < 0 || dev->closing)
		return;
	weir_watch_set(dev->watch, WEIR_READABLE);
	for (uint32_t i = 0; i < QUEUES_MAX; i++)
		ring_kick(&dev->rings[i]);
}

static int keep_fds(struct device *dev, struct msghdr *msg)
{
	bool all = !(msg->msg_flags & MSG_CTRUNC);

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		uint32_t n = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) /
					sizeof(int));

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (uint32_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int),
			       sizeof(int));
			if (dev->n_fds < FDS_MAX) {
				dev->fds[dev->n_fds++] = fd;
			} else {
				close(fd);
				all = false;
			}
		}
	}
	return all ? 0 : refuse(-EMFILE, "too many descriptors");
}

/* Read @len bytes more at most.  Returns how many, or an errno. */
static int64_t receive(struct device *dev, uint32_t len)
{
	union {
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { (uint8_t *)&dev->msg + dev->got, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	ssize_t n;
	int err;

	do
		n = recvmsg(dev->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (!n)
		return -ENOTCONN;
	err = keep_fds(dev, &msg);
	return err ? err : n;
}

/* Returns 1: there is a message; 0: not yet; or an errno. */
static int read_message(struct device *dev)
{
	for (;;) {
		uint32_t want = HEAD_BYTES;
		int64_t n;

		if (dev->got >= HEAD_BYTES) {
			if (dev->msg.head.size > PAYLOAD_MAX)
				return refuse(-EMSGSIZE,
					      "a message that is too long");
			want += dev->msg.head.size;
			if (dev->got == want)
				return 1;
		}
		n = receive(dev, want - dev->got);
		if (n < 0)
			return n == -EAGAIN ? 0 : (int)n;
		dev->got += (uint32_t)n;
	}
}

static void on_socket(struct weir_watch *watch, uint32_t events, void *arg)
{
	struct device *dev = arg;

	(void)watch, (void)events;
	for (int i = 0; i < MESSAGES_AT_ONCE && !dev->waiting; i++) {
		int res = read_message(dev);

		if (!res)
			return;
		if (res < 0) {
			device_drop(dev, res == -ENOTCONN ||
					 res == -ECONNRESET ? NULL :
					 weir_why());
			return;
		}
		handle(dev);
		if (dev->fd < 0 || dev->closing)
			return;
	}
	if (dev->waiting)
		weir_watch_set(dev->watch, 0);
}

void message_begin(struct device *dev, int fd)
{
	int err;

	dev->fd = fd;
	dev->got = 0;
	dev->writeback = dev->block.can & BLOCK_CAN_FLUSH;
	err = weir_watch_create(&dev->watch, dev->reactor, fd, WEIR_READABLE,
				on_socket, dev);
	if (err)
		device_drop(dev, strerror(-err));
}

int message_config_changed(struct device *dev)
{
	struct message m = { .head = { VHOST_USER_BACKEND_CONFIG_CHANGE_MSG,
				       VHOST_USER_VERSION, 0 } };

	if (dev->backend_fd < 0)
		return -ENOTCONN;
	return send_message(dev->backend_fd, &m, 0, -1);
}

static int quit(struct device *dev)
{
	device_drop(dev, NULL);
	return 0;
}

/* What is in flight is answered, then it is disconnected. */
void message_quit(struct device *dev)
{
	close_fds(dev);
	dev->then = quit;
	dev->waiting = true;
	weir_watch_set(dev->watch, 0);
	device_check(dev);
}
