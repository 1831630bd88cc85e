/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_VHOST_FRONT_H
#define TESTS_VHOST_FRONT_H

/*
 * A front end of vhost-user-blk, as a virtual machine has one: memory, rings,
 * and whatever one wants to put into them.  Of tests and of benchmarks: what
 * must not fail ends the program.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "programs/weir-vhost/weir-vhost.h"

#define FRONT_MUST(cond)                                                \
	do {                                                            \
		if (!(cond)) {                                          \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__,    \
				__LINE__, #cond, strerror(errno));      \
			abort();                                        \
		}                                                       \
	} while (0)

#define FRONT_QUEUES 4u
#define FRONT_RING_BYTES (64u << 10)	/* For the rings of a queue. */
#define FRONT_GPA 0x100000u		/* Where the guest's memory begins. */

struct front_queue {
	uint32_t index, num;
	struct vring_desc *desc;
	struct vring_avail *avail;
	struct vring_used *used;
	uint64_t gpa;			/* Of .desc. */
	int kick, call, err;
	uint16_t avail_idx, seen;
	uint16_t kicked;		/* The index that it was told of. */
};

struct front {
	int fd;
	int memfd;
	uint8_t *mem;
	size_t size;
	uint64_t half;			/* Where the second region begins. */
	uint64_t offered, features, protocol;
	int inflight_fd, backend_fd;
	uint64_t inflight_size;
	struct front_queue queues[FRONT_QUEUES];
};

/* The guest's address of what is at @off of its memory. */
static inline uint64_t front_gpa(uint64_t off)
{
	return FRONT_GPA + off;
}

/* Memory that cannot be made shorter, but for @open_ended. */
static inline void front_memory(struct front *f, size_t size, bool open_ended)
{
	*f = (struct front){ .fd = -1, .inflight_fd = -1, .backend_fd = -1,
			     .size = size, .half = size / 2 };
	f->memfd = memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	FRONT_MUST(f->memfd >= 0 && !ftruncate(f->memfd, (off_t)size));
	FRONT_MUST(open_ended || !fcntl(f->memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	f->mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, f->memfd,
		      0);
	FRONT_MUST(f->mem != MAP_FAILED);
	for (uint32_t i = 0; i < FRONT_QUEUES; i++) {
		struct front_queue *q = &f->queues[i];

		q->index = i;
		q->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		q->call = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		q->err = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		FRONT_MUST(q->kick >= 0 && q->call >= 0 && q->err >= 0);
	}
}

static inline void front_disconnect(struct front *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	if (f->backend_fd >= 0)
		close(f->backend_fd);
	f->backend_fd = -1;
}

static inline void front_end(struct front *f)
{
	front_disconnect(f);
	for (uint32_t i = 0; i < FRONT_QUEUES; i++) {
		close(f->queues[i].kick);
		close(f->queues[i].call);
		close(f->queues[i].err);
	}
	munmap(f->mem, f->size);
	close(f->memfd);
	if (f->inflight_fd >= 0)
		close(f->inflight_fd);
}

/* Returns whether there is somebody at @path. */
static inline bool front_connect(struct front *f, const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	FRONT_MUST(strlen(path) < sizeof(sun.sun_path));
	memcpy(sun.sun_path, path, strlen(path));
	f->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	FRONT_MUST(f->fd >= 0);
	if (!connect(f->fd, (struct sockaddr *)&sun, sizeof(sun)))
		return true;
	front_disconnect(f);
	return false;
}

/* Send @len bytes of @m's payload, and @n descriptors.  Returns whether the
 * server still takes it. */
static inline bool front_send(struct front *f, struct message *m, uint32_t len,
			      const int *fds, uint32_t n)
{
	union {
		char bytes[CMSG_SPACE(64 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { m, sizeof(m->head) + len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	memset(&control, 0, sizeof(control));
	m->head.size = len;
	if (n) {
		struct cmsghdr *c = &control.align;

		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	return sendmsg(f->fd, &msg, MSG_NOSIGNAL) == (ssize_t)iov.iov_len;
}

/* The answer, with a descriptor if @fd is not NULL.  Returns whether there is
 * one. */
static inline bool front_receive(int from, struct message *m, int *fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { m, sizeof(m->head) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *c;

	if (recvmsg(from, &msg, MSG_WAITALL | MSG_CMSG_CLOEXEC) !=
	    (ssize_t)sizeof(m->head))
		return false;
	c = CMSG_FIRSTHDR(&msg);
	if (fd && c)
		memcpy(fd, CMSG_DATA(c), sizeof(int));
	return !m->head.size ||
	       recv(from, &m->u, m->head.size, MSG_WAITALL) ==
	       (ssize_t)m->head.size;
}

static inline struct message front_message(uint32_t request)
{
	struct message m;

	memset(&m, 0, sizeof(m));
	m.head.request = request;
	m.head.flags = VHOST_USER_VERSION;
	return m;
}

/* Send it and have it acknowledged.  Returns what the server says: 0, it is
 * done; 1, it is not; -1, it has gone. */
static inline int front_tell(struct front *f, struct message *m, uint32_t len,
			     const int *fds, uint32_t n)
{
	m->head.flags = VHOST_USER_VERSION | VHOST_USER_NEED_REPLY;
	if (!front_send(f, m, len, fds, n) || !front_receive(f->fd, m, NULL))
		return -1;
	return (int)m->u.u64;
}

static inline int front_tell_u64(struct front *f, uint32_t request, uint64_t n)
{
	struct message m = front_message(request);

	m.u.u64 = n;
	return front_tell(f, &m, sizeof(n), NULL, 0);
}

static inline int front_tell_state(struct front *f, uint32_t request,
				   uint32_t index, uint32_t num)
{
	struct message m = front_message(request);

	m.u.state.index = index;
	m.u.state.num = num;
	return front_tell(f, &m, sizeof(m.u.state), NULL, 0);
}

static inline uint64_t front_ask(struct front *f, uint32_t request)
{
	struct message m = front_message(request);

	FRONT_MUST(front_send(f, &m, 0, NULL, 0));
	FRONT_MUST(front_receive(f->fd, &m, NULL));
	return m.u.u64;
}

/* Two regions that meet in the guest, and not in us: the first is where rings
 * may be. */
static inline void front_regions(const struct front *f, struct message *m)
{
	uint64_t uva = (uintptr_t)f->mem;

	*m = front_message(VHOST_USER_SET_MEM_TABLE);
	m->u.memory.n = 2;
	m->u.memory.of[0].gpa = front_gpa(0);
	m->u.memory.of[0].size = f->half;
	m->u.memory.of[0].uva = uva;
	m->u.memory.of[1].gpa = front_gpa(f->half);
	m->u.memory.of[1].size = f->size - f->half;
	m->u.memory.of[1].uva = uva + f->size;
	m->u.memory.of[1].offset = f->half;
}

static inline int front_set_memory(struct front *f)
{
	const int fds[2] = { f->memfd, f->memfd };
	struct message m;

	front_regions(f, &m);
	return front_tell(f, &m, 8 + 2 * sizeof(m.u.memory.of[0]), fds, 2);
}

/* All but its rings; without the features of @without. */
static inline void front_hello(struct front *f, uint64_t without)
{
	f->offered = front_ask(f, VHOST_USER_GET_FEATURES);
	f->features = f->offered & ~without;
	f->protocol = front_ask(f, VHOST_USER_GET_PROTOCOL_FEATURES);
	if (!(f->protocol & BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK))) {
		fprintf(stderr, "it acknowledges nothing\n");
		abort();
	}
	{
		struct message m =
			front_message(VHOST_USER_SET_PROTOCOL_FEATURES);

		m.u.u64 = f->protocol &= 
			BIT(VHOST_USER_PROTOCOL_F_MQ) |
			BIT(VHOST_USER_PROTOCOL_F_LOG_SHMFD) |
			BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK) |
			BIT(VHOST_USER_PROTOCOL_F_BACKEND_REQ) |
			BIT(VHOST_USER_PROTOCOL_F_CONFIG) |
			BIT(VHOST_USER_PROTOCOL_F_INFLIGHT_SHMFD);
		FRONT_MUST(front_send(f, &m, 8, NULL, 0));
	}
	FRONT_MUST(!front_tell_u64(f, VHOST_USER_SET_FEATURES, f->features));
	FRONT_MUST(!front_set_memory(f));
}

static inline int front_tell_fd(struct front *f, uint32_t request,
				uint32_t index, int fd)
{
	struct message m = front_message(request);

	m.u.u64 = index;
	return front_tell(f, &m, 8, &fd, 1);
}

static inline int front_set_addr(struct front *f, const struct front_queue *q,
				 uint32_t flags)
{
	struct message m = front_message(VHOST_USER_SET_VRING_ADDR);

	m.u.addr.index = q->index;
	m.u.addr.flags = flags;
	m.u.addr.desc = (uintptr_t)q->desc;
	m.u.addr.avail = (uintptr_t)q->avail;
	m.u.addr.used = (uintptr_t)q->used;
	m.u.addr.log = q->gpa + (uint64_t)((uint8_t *)q->used -
					   (uint8_t *)q->desc);
	return front_tell(f, &m, sizeof(m.u.addr), NULL, 0);
}

/* Have the rings of @q in memory, which @fresh makes empty. */
static inline void front_place(struct front *f, struct front_queue *q,
			       uint32_t num, bool fresh)
{
	uint8_t *at = f->mem + q->index * FRONT_RING_BYTES;

	q->num = num;
	q->gpa = front_gpa(q->index * FRONT_RING_BYTES);
	q->desc = (void *)at;
	q->avail = (void *)(at + num * sizeof(*q->desc));
	q->used = (void *)(at + FRONT_RING_BYTES / 2);
	if (!fresh)
		return;
	memset(at, 0, FRONT_RING_BYTES);
	q->avail_idx = 0;
	q->seen = 0;
	q->kicked = 0;
}

/* Start @q; returns what the server says. */
static inline int front_start(struct front *f, struct front_queue *q)
{
	int res = front_tell_state(f, VHOST_USER_SET_VRING_NUM, q->index,
				   q->num);

	/* As QEMU does: what the used ring says. */
	res |= front_tell_state(f, VHOST_USER_SET_VRING_BASE, q->index,
				q->used->idx);
	res |= front_set_addr(f, q, 0);
	res |= front_tell_fd(f, VHOST_USER_SET_VRING_ERR, q->index, q->err);
	res |= front_tell_fd(f, VHOST_USER_SET_VRING_CALL, q->index, q->call);
	res |= front_tell_fd(f, VHOST_USER_SET_VRING_KICK, q->index, q->kick);
	res |= front_tell_state(f, VHOST_USER_SET_VRING_ENABLE, q->index, 1);
	return res;
}

/* Stop it; returns where the server was. */
static inline uint32_t front_stop(struct front *f, struct front_queue *q)
{
	struct message m = front_message(VHOST_USER_GET_VRING_BASE);

	m.u.state.index = q->index;
	FRONT_MUST(front_send(f, &m, sizeof(m.u.state), NULL, 0));
	FRONT_MUST(front_receive(f->fd, &m, NULL));
	return m.u.state.num;
}

/* Memory for what is in flight, which outlives the server. */
static inline void front_get_inflight(struct front *f, uint32_t n, uint32_t num)
{
	struct message m = front_message(VHOST_USER_GET_INFLIGHT_FD);

	m.u.inflight.n_queues = (uint16_t)n;
	m.u.inflight.queue_size = (uint16_t)num;
	FRONT_MUST(front_send(f, &m, 20, NULL, 0));
	FRONT_MUST(front_receive(f->fd, &m, &f->inflight_fd));
	f->inflight_size = m.u.inflight.size;
}

static inline int front_set_inflight(struct front *f, uint32_t n, uint32_t num)
{
	struct message m = front_message(VHOST_USER_SET_INFLIGHT_FD);

	m.u.inflight.size = f->inflight_size;
	m.u.inflight.n_queues = (uint16_t)n;
	m.u.inflight.queue_size = (uint16_t)num;
	return front_tell(f, &m, 20, &f->inflight_fd, 1);
}

static inline void front_desc(struct front_queue *q, uint32_t i, uint64_t gpa,
			      uint32_t len, unsigned int flags, uint32_t next)
{
	q->desc[i].addr = gpa;
	q->desc[i].len = len;
	q->desc[i].flags = (uint16_t)flags;
	q->desc[i].next = (uint16_t)next;
}

/* The chain at @head is for the server; it is seen by front_kick(). */
static inline void front_offer(struct front_queue *q, uint32_t head)
{
	q->avail->ring[q->avail_idx++ & (q->num - 1)] = (uint16_t)head;
}

/* Show what was offered, and say so if the server wants to be told. */
static inline void front_kick(const struct front *f, struct front_queue *q)
{
	uint16_t *event = (uint16_t *)(void *)&q->used->ring[q->num];
	uint64_t one = 1;
	bool needed;

	__atomic_store_n(&q->avail->idx, q->avail_idx, __ATOMIC_SEQ_CST);
	if (f->features & BIT(VIRTIO_RING_F_EVENT_IDX))
		needed = vring_need_event(__atomic_load_n(event,
							  __ATOMIC_SEQ_CST),
					  q->avail_idx, q->kicked);
	else
		needed = !(__atomic_load_n(&q->used->flags, __ATOMIC_SEQ_CST) &
			   VRING_USED_F_NO_NOTIFY);
	q->kicked = q->avail_idx;
	if (needed)
		FRONT_MUST(write(q->kick, &one, sizeof(one)) == sizeof(one));
}

/* Whether there is an answer; it becomes *@ret. */
static inline bool front_take(struct front_queue *q,
			      struct vring_used_elem *ret)
{
	if (__atomic_load_n(&q->used->idx, __ATOMIC_SEQ_CST) == q->seen)
		return false;
	*ret = q->used->ring[q->seen++ & (q->num - 1)];
	return true;
}

/* Wait for one, @ms at most.  Returns whether there is one. */
static inline bool front_wait(struct front_queue *q,
			      struct vring_used_elem *ret, int ms)
{
	struct pollfd p = { .fd = q->call, .events = POLLIN };
	uint16_t *event = &q->avail->ring[q->num];
	uint64_t n;

	for (;;) {
		if (front_take(q, ret))
			return true;
		__atomic_store_n(event, q->seen, __ATOMIC_SEQ_CST);
		if (front_take(q, ret))
			return true;
		if (poll(&p, 1, ms) <= 0)
			return front_take(q, ret);
		FRONT_MUST(read(q->call, &n, sizeof(n)) > 0 ||
			   errno == EAGAIN);
	}
}

/* A request of three descriptors from 3 * @slot on: its header and its status
 * are at @off of memory, its data at @data. */
static inline void front_request(struct front *f, struct front_queue *q,
				 uint32_t slot, uint32_t type, uint64_t sector,
				 uint64_t off, uint64_t data, uint32_t len)
{
	struct virtio_blk_outhdr head = { .type = type, .sector = sector };
	uint32_t d = 3 * slot;
	unsigned int in = type == VIRTIO_BLK_T_OUT ||
			  type == VIRTIO_BLK_T_DISCARD ||
			  type == VIRTIO_BLK_T_WRITE_ZEROES ?
			  0 : VRING_DESC_F_WRITE;

	memcpy(f->mem + off, &head, sizeof(head));
	f->mem[off + sizeof(head)] = 0xff;
	front_desc(q, d, front_gpa(off), sizeof(head), VRING_DESC_F_NEXT,
		   len ? d + 1 : d + 2);
	front_desc(q, d + 1, front_gpa(data), len, VRING_DESC_F_NEXT | in,
		   d + 2);
	front_desc(q, d + 2, front_gpa(off + sizeof(head)), 1,
		   VRING_DESC_F_WRITE, 0);
	front_offer(q, d);
}

#endif /* TESTS_VHOST_FRONT_H */
