/* SPDX-License-Identifier: CC0-1.0 */
#ifndef WEIR_VHOST_H
#define WEIR_VHOST_H

/*
 * weir-vhost: a disk for virtual machines, by vhost-user-blk.  README.md says
 * how it is built.  In the sources begin with ring_run() in ring.c, by which
 * every request comes.
 *
 * Everything that a front end sends, and everything in its memory, is hostile:
 * it is read once, and checked before it is used.
 */

#include <linux/virtio_blk.h>
#include <linux/virtio_ring.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include <weir/mmap.h>
#include <weir/op.h>
#include <weir/poll-hook.h>
#include <weir/reactor.h>
#include <weir/socket.h>
#include <weir/watch.h>

#include "../block/block.h"

/* Bounds. */
#define QUEUES_MAX 64u
#define RING_MAX 1024u		/* Descriptors of a ring. */
#define REQUESTS 128u		/* Of a ring, in flight. */
#define SEG_MAX 126u		/* Segments of data in a request, */
#define DESCS_MAX (SEG_MAX + 2)	/* and with its header and its status. */
#define PIECES_MAX 192u		/* Of these, where they cross regions. */
#define REGIONS_MAX 32u
#define FDS_MAX 8u		/* That come with a message. */
#define PAYLOAD_MAX 1024u
#define AT_ONCE 64u		/* Requests of a ring that begin in one turn. */
#define REQUEST_BYTES (1u << 30) /* Of data, in one. */
#define ZEROES_MAX (UINT32_C(1) << 22) /* Sectors of a trim, of zeroes. */
#define SECTOR 512u

/* The protocol, with the names that its document has. */
enum {
	VHOST_USER_GET_FEATURES = 1, VHOST_USER_SET_FEATURES,
	VHOST_USER_SET_OWNER, VHOST_USER_RESET_OWNER,
	VHOST_USER_SET_MEM_TABLE, VHOST_USER_SET_LOG_BASE,
	VHOST_USER_SET_LOG_FD, VHOST_USER_SET_VRING_NUM,
	VHOST_USER_SET_VRING_ADDR, VHOST_USER_SET_VRING_BASE,
	VHOST_USER_GET_VRING_BASE, VHOST_USER_SET_VRING_KICK,
	VHOST_USER_SET_VRING_CALL, VHOST_USER_SET_VRING_ERR,
	VHOST_USER_GET_PROTOCOL_FEATURES, VHOST_USER_SET_PROTOCOL_FEATURES,
	VHOST_USER_GET_QUEUE_NUM, VHOST_USER_SET_VRING_ENABLE,
	VHOST_USER_SET_BACKEND_REQ_FD = 21, VHOST_USER_GET_CONFIG = 24,
	VHOST_USER_SET_CONFIG, VHOST_USER_GET_INFLIGHT_FD = 31,
	VHOST_USER_SET_INFLIGHT_FD, VHOST_USER_RESET_DEVICE = 34,
	VHOST_USER_GET_MAX_MEM_SLOTS = 36, VHOST_USER_ADD_MEM_REG,
	VHOST_USER_REM_MEM_REG, VHOST_USERS
};

#define VHOST_USER_BACKEND_CONFIG_CHANGE_MSG 2u

enum { VHOST_USER_VERSION = 1, VHOST_USER_REPLY = 4,
       VHOST_USER_NEED_REPLY = 8 };

#define VHOST_F_LOG_ALL 26
#define VHOST_USER_F_PROTOCOL_FEATURES 30
#define VRING_F_LOG 1u
#define VRING_INDEX 0xffu
#define VRING_NOFD 0x100u

enum {
	VHOST_USER_PROTOCOL_F_MQ = 0,
	VHOST_USER_PROTOCOL_F_LOG_SHMFD = 1,
	VHOST_USER_PROTOCOL_F_REPLY_ACK = 3,
	VHOST_USER_PROTOCOL_F_BACKEND_REQ = 5,
	VHOST_USER_PROTOCOL_F_CONFIG = 9,
	VHOST_USER_PROTOCOL_F_BACKEND_SEND_FD = 10,
	VHOST_USER_PROTOCOL_F_INFLIGHT_SHMFD = 12,
	VHOST_USER_PROTOCOL_F_RESET_DEVICE = 13,
	VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS = 15,
};

#define BIT(n) (UINT64_C(1) << (n))

/* On the wire numbers are those of the machine, and nothing is aligned. */
struct __attribute__((packed)) message {
	struct { uint32_t request, flags, size; } head;
	union {
		uint64_t u64;
		struct { uint32_t index, num; } state;
		struct {
			uint32_t index, flags;
			uint64_t desc, used, avail, log;
		} addr;
		struct {
			uint32_t n, padding;
			struct { uint64_t gpa, size, uva, offset; } of[8];
		} memory;
		struct {
			uint64_t padding;
			struct { uint64_t gpa, size, uva, offset; } of;
		} region;
		struct { uint32_t offset, size, flags; uint8_t at[256]; } config;
		struct { uint64_t size, offset; } log;
		struct {
			uint64_t size, offset;
			uint16_t n_queues, queue_size;
		} inflight;
		uint8_t bytes[PAYLOAD_MAX];
	} __attribute__((packed)) u;
};

struct device;

/* memory.c: the front end's. */

struct region {
	struct weir_mmap *mmap;
	uint64_t gpa, size, uva;
	uint8_t *at;		/* Where it is here. */
};

struct memory {
	struct region regions[REGIONS_MAX];
	uint32_t n;
	struct weir_mmap *log_mmap;
	uint64_t *log;		/* A bit for each page; NULL: there is none. */
	uint64_t log_words;
};

/* A mapping of @size bytes of @fd.  Returns 0, or an errno; weir_why() says
 * more. */
int map_fd(struct weir_mmap **ret, uint8_t **at, int fd, uint64_t offset,
	   uint64_t size, bool trust);
int memory_add(struct memory *m, int fd, uint64_t gpa, uint64_t size,
	       uint64_t uva, uint64_t offset, bool trust);
int memory_remove(struct memory *m, uint64_t gpa, uint64_t size, uint64_t uva);
void memory_clear(struct memory *m);
void memory_clear_regions(struct memory *m);	/* Not its log. */
int memory_set_log(struct memory *m, int fd, uint64_t offset, uint64_t size,
		   bool trust);

/* @len bytes at the front end's address @uva, in one region; NULL: there are
 * none. */
void *memory_at_uva(const struct memory *m, uint64_t uva, uint64_t len);

/* @len bytes at the guest's address @gpa, appended to @iov, which has @max
 * places, of which *@n are taken.  Returns 0, -EFAULT or -E2BIG. */
int memory_map(const struct memory *m, uint64_t gpa, uint64_t len,
	       struct iovec *iov, uint32_t *n, uint32_t max);

/* Written to, and therefore to be copied once more. */
void memory_log_gpa(const struct memory *m, uint64_t gpa, uint64_t len);
void memory_log(const struct memory *m, const void *p, uint64_t len);

/* ring.c */

struct ring;

struct request {
	struct block_io io;
	struct ring *ring;
	struct request *next;	/* Among those that are free, or done. */
	uint16_t head;
	uint32_t used_len;
	uint8_t *status;	/* The guest's; NULL: it left no place for it. */
	struct iovec *data;	/* Of .pieces. */
	uint32_t n_out, n_in;	/* Of .pieces. */
	struct iovec pieces[PIECES_MAX];
};

/* In memory that outlives this process; as the document has it. */
struct inflight_desc {
	uint8_t inflight, padding[5];
	uint16_t next;
	uint64_t counter;
};

struct inflight {
	uint64_t features;
	uint16_t version, desc_num, last_batch_head, used_idx;
	struct inflight_desc desc[];
};

/* A request that another server has left. */
struct again {
	uint64_t counter;
	uint16_t head;
};

struct ring {
	struct device *dev;
	uint32_t index;
	uint32_t num;
	struct { uint64_t desc, used, avail, log; uint32_t flags; } addr;
	struct vring_desc *desc;	/* The front end's, like the others. */
	struct vring_avail *avail;
	struct vring_used *used;
	struct inflight *inflight;	/* NULL: it keeps none. */
	uint16_t last_avail, used_idx;
	bool signalled_valid;
	int kick, call, err;
	bool enabled;
	bool started;		/* From SET_VRING_KICK to GET_VRING_BASE. */
	bool broken;		/* It makes no sense, and is not read any more. */
	struct weir_poll_hook *hook;
	struct block_queue queue;
	struct request *requests, *free;
	struct request *done, **done_end;	/* To be told. */
	uint32_t busy;		/* Requests that are not answered yet. */
	struct weir_op flush_op;
	bool flushing;
	struct again *again;	/* Requests to be done once more. */
	uint32_t n_again, at_again;
	uint64_t counter;
};

void ring_init(struct ring *ring, struct device *dev, uint32_t index);
/* Start @ring, of which all is set.  Returns 0 or an errno. */
int ring_start(struct ring *ring);
/* Stop it if it is started, and close its descriptors; nothing is in flight. */
void ring_close(struct ring *ring);
/* Find its parts again, as memory has changed. */
int ring_find(struct ring *ring);
int ring_watch(struct ring *ring);	/* Its kick. */
bool ring_can_run(const struct ring *ring);
void ring_kick(struct ring *ring);
bool ring_is_busy(const struct ring *ring);
void ring_break(struct ring *ring, const char *why);

/* blk.c: requests to a disk. */

/* .pieces have been found.  Returns as block_submit() does; request_done()
 * follows in any case. */
void request_begin(struct request *rq);
void request_done(struct request *rq);	/* ring.c */
void blk_on_io(struct block_io *io, int64_t res);
void blk_config(const struct device *dev, struct virtio_blk_config *ret);
uint64_t blk_features(const struct device *dev);
bool blk_is_writethrough(const struct device *dev);

/* message.c */

void message_begin(struct device *dev, int fd);	/* A front end has come. */
void message_resume(struct device *dev);	/* It was waited for. */
int message_config_changed(struct device *dev);
void message_quit(struct device *dev);	/* As the server ends. */

/* device.c */

struct opts {
	const char *unix_path;
	uint32_t queues;
	bool trust, stats, json, quiet;
};

struct counts {
	uint64_t read, written;	/* Bytes, */
	uint64_t reads, writes, flushes, trims, zeroes, others, errors;
	uint64_t kicks, calls, spared;	/* Calls that were not needed. */
	uint64_t connections, again;
};

struct device {
	struct opts opts;
	struct block block;
	struct block_core core;
	struct weir_reactor *reactor;
	int listener;
	struct weir_acceptor *acceptor;
	bool stopping;
	void (*stopped)(struct device *dev, int err);
	struct weir_op sync_op;
	struct counts counts;

	int fd;			/* Of the front end; -1: there is none. */
	struct weir_watch *watch;
	int backend_fd;		/* For what it is to be told. */
	struct message msg;
	uint32_t got;		/* Bytes of it. */
	int fds[FDS_MAX];
	uint32_t n_fds;
	bool closing;
	bool waiting;		/* For requests in flight; none begins. */
	int (*then)(struct device *dev);
	bool replied;
	bool writeback;		/* As the guest has set it. */
	uint64_t features, protocol_features;
	struct memory memory;
	struct weir_mmap *inflight_mmap;
	uint8_t *inflight;
	uint32_t inflight_queues, inflight_num, inflight_ring;
	struct ring rings[QUEUES_MAX];
};

struct device *device_new(void (*stopped)(struct device *dev, int err));
int device_open(struct device *dev);
int device_begin(struct device *dev, struct weir_reactor *r);
void device_end(struct device *dev);
/* Finish what is in flight, and sync; .stopped follows. */
void device_stop(struct device *dev);
/* Measure the disk again. */
void device_resize(struct device *dev);
/* Disconnect the front end. */
void device_drop(struct device *dev, const char *why);
/* Something has ended: go on if it was the last. */
void device_check(struct device *dev);
bool device_has(const struct device *dev, unsigned int feature);
void close_one(int *fd);	/* If it is not -1. */

/* options.c */

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_SETUP };

int options_parse(struct device *dev, int argc, char **argv);

#endif /* WEIR_VHOST_H */
