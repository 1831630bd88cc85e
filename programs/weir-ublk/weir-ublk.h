/* SPDX-License-Identifier: CC0-1.0 */
#ifndef WEIR_UBLK_H
#define WEIR_UBLK_H

/*
 * weir-ublk: block devices for this kernel, by its driver ublk.  README.md says how it
 * is built.  In the sources begin with on_request() in queue.c, by which every request
 * comes.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include <weir/group.h>
#include <weir/op.h>
#include <weir/reactor.h>
#include <weir/uring.h>

#include "../block/block.h"

/* Bounds. */
#define QUEUES_MAX 64u
#define DEPTH_MAX 1024u		/* Requests of a queue, in flight. */
#define IO_MAX (512u << 10)	/* Bytes of data in one. */
#define ZEROES_MAX (UINT32_C(1) << 22) /* Sectors of a trim, of zeroes. */
#define SECTOR 512u
#define DEVICES_MAX (UINT32_C(1) << 20)
#define PATH_LEN 32u		/* /dev/ublkc1048575 */

/*
 * The driver's interface, which Debian 12's headers have in part only.  All structs are
 * as the kernel has them.
 */

struct ublk_command {		/* Of the control device; in an SQE of 128 bytes. */
	uint32_t dev_id;
	uint16_t queue_id;	/* UINT16_MAX: of none. */
	uint16_t len;
	uint64_t addr;
	uint64_t data;
	uint16_t path_len;	/* Of the path that .addr begins with. */
	uint16_t padding;
	uint32_t reserved;
};

struct ublk_info {
	uint16_t queues, depth, state, padding;
	uint32_t io_max;
	uint32_t dev_id;
	int32_t pid;
	uint32_t padding2;
	uint64_t flags;
	uint64_t server_flags;	/* The kernel keeps them for the server. */
	uint32_t uid, gid;
	uint64_t reserved[2];
};

struct ublk_params {
	uint32_t len, types;
	struct {
		uint32_t attrs;
		uint8_t logical_shift, physical_shift, io_opt_shift, io_min_shift;
		uint32_t max_sectors, chunk_sectors;
		uint64_t sectors;
		uint64_t virt_boundary_mask;
	} basic;
	struct {
		uint32_t alignment, granularity, max_sectors, max_zeroes_sectors;
		uint16_t max_segments, reserved;
	} discard;
};

struct ublk_request {		/* In memory that the driver shares. */
	uint32_t op_flags;
	uint32_t sectors;
	uint64_t sector;
	uint64_t addr;
};

struct ublk_io_command {	/* Of a device; in any SQE. */
	uint16_t queue, tag;
	int32_t result;
	uint64_t addr;
};

_Static_assert(sizeof(struct ublk_command) == 32 &&
	       sizeof(struct ublk_info) == 64 &&
	       sizeof(struct ublk_params) == 64 &&
	       sizeof(struct ublk_request) == 24 &&
	       sizeof(struct ublk_io_command) == 16, "as the kernel has them");

#define UBLK_ADD _IOWR('u', 0x04, struct ublk_command)
#define UBLK_DELETE _IOWR('u', 0x05, struct ublk_command)
#define UBLK_START _IOWR('u', 0x06, struct ublk_command)
#define UBLK_STOP _IOWR('u', 0x07, struct ublk_command)
#define UBLK_SET_PARAMS _IOWR('u', 0x08, struct ublk_command)
#define UBLK_GET_PARAMS _IOR('u', 0x09, struct ublk_command)
#define UBLK_START_RECOVERY _IOWR('u', 0x10, struct ublk_command)
#define UBLK_END_RECOVERY _IOWR('u', 0x11, struct ublk_command)
#define UBLK_GET_INFO _IOR('u', 0x12, struct ublk_command)	/* GET_DEV_INFO2 */
#define UBLK_GET_FEATURES _IOR('u', 0x13, struct ublk_command)
#define UBLK_UPDATE_SIZE _IOWR('u', 0x15, struct ublk_command)
#define UBLK_FETCH _IOWR('u', 0x20, struct ublk_io_command)
#define UBLK_COMMIT_AND_FETCH _IOWR('u', 0x21, struct ublk_io_command)

#define UBLK_PARAMS_LEN 60u	/* The compiler adds 4 bytes. */

#define UBLK_F_RECOVERY (UINT64_C(1) << 3)
#define UBLK_F_REISSUE (UINT64_C(1) << 4)
#define UBLK_F_UNPRIVILEGED (UINT64_C(1) << 5)
#define UBLK_F_IOCTL_ENCODE (UINT64_C(1) << 6)
#define UBLK_F_USER_COPY (UINT64_C(1) << 7)
#define UBLK_F_UPDATE_SIZE (UINT64_C(1) << 10)

enum { UBLK_DEAD, UBLK_LIVE, UBLK_QUIESCED, UBLK_FAILING };

enum { UBLK_PARAM_BASIC = 1, UBLK_PARAM_DISCARD = 2 };
enum { UBLK_READ_ONLY = 1, UBLK_VOLATILE_CACHE = 4, UBLK_FUA = 8 };

enum { UBLK_READ, UBLK_WRITE, UBLK_FLUSH, UBLK_DISCARD, UBLK_WRITE_ZEROES = 5 };
#define UBLK_OP(op_flags) ((op_flags) & 0xff)
#define UBLK_IO_FUA (1u << 13)
#define UBLK_IO_NO_UNMAP (1u << 15)

#define UBLK_ABORTED (-ENODEV)	/* The result of a fetch. */
#define UBLK_QUEUE_BYTES (4096u * sizeof(struct ublk_request)) /* Between two. */
#define UBLK_DATA_AT UINT64_C(0x80000000)
#define UBLK_DATA_TAG 25
#define UBLK_DATA_QUEUE 41

/* control.c */

#define CONTROL_BYTES 128u

/* A command to the control device. */
struct control {
	struct weir_op op;
	int fd;
	uint32_t code;
	struct ublk_command command;
	uint8_t bytes[CONTROL_BYTES];	/* A path, and what the command takes. */
	void (*fn)(struct control *c, int res);
};

/* Where devices are: /dev, but for tests. */
extern const char *device_dir;

/* Open the control device.  Returns a descriptor, or an errno; @why, of @len bytes, then
 * says what it was and what helps. */
int control_open(char *why, size_t len);

/* Path of a device's character device. */
void control_path(char path[PATH_LEN], uint32_t dev_id);

/* Fill in *@c: @code for the device @dev_id, with @len bytes at @payload.  If @with_path,
 * the device may be one that no privileged user has made, or @code is UBLK_GET_INFO. */
void control_set(struct control *c, int fd, uint32_t code, uint32_t dev_id, bool with_path,
		 const void *payload, size_t len, uint64_t data);

/* Start it on @r; .fn is called at its end, once.  Returns 0 or an errno. */
int control_start(struct control *c, struct weir_reactor *r,
		  void (*fn)(struct control *c, int res));

/*
 * Do a command, with @len bytes in and out at @data, and wait.  Returns the driver's result,
 * which is an errno if it is negative; or an errno with *@begun false: there is no io_uring
 * for it, and weir_why() says why.  @begun may be NULL.
 */
int control_do(int fd, uint32_t code, uint32_t dev_id, bool with_path, void *data, size_t len,
	       uint64_t number, bool *begun);

/* list.c */

int list_devices(bool json);
int stop_device(uint32_t dev_id, bool force);

/* Whether /dev/ublkb@dev_id is mounted, or of something else that has it to itself. */
bool device_is_in_use(uint32_t dev_id);

/* queue.c */

struct server;
struct queue;

struct request {
	struct block_io io;
	struct weir_op op;	/* The next fetch. */
	struct queue *queue;
	struct iovec iov;
	uint8_t *data;		/* NULL: of memory, which needs none. */
	int32_t result;
	uint16_t tag;
};

struct counts {
	uint64_t read, written;	/* Bytes, */
	uint64_t reads, writes, flushes, trims, zeroes, errors;
};

/* On a core, and a thread, of its own. */
struct queue {
	struct server *server;
	struct weir_reactor *reactor;
	struct block_core core;
	struct block_queue block;
	const struct ublk_request *shared;	/* The driver's, by tag. */
	struct request *requests;
	uint8_t *data;
	struct weir_op kick_op;
	bool kick_due;
	uint32_t index;
	uint32_t busy;		/* Requests that are not over. */
	bool over;		/* The driver sends no more, and core 0 knows. */
	struct counts counts;
};

/* Have the driver's memory, and buffers.  On its thread.  Returns 0 or an errno, said.
 * Call queue_end() in any case. */
int queue_begin(struct queue *q);
void queue_end(struct queue *q);

/* Have the driver send requests.  On its thread. */
void queue_fetch(void *queue);

/* server.c */

struct opts {
	uint32_t id;		/* UINT32_MAX: any. */
	uint32_t queues, depth;
	bool keep;		/* The device is kept if this process is killed. */
	bool stats, json, quiet;
	bool list, force;
	uint32_t stop;		/* UINT32_MAX: none. */
};

struct server {
	struct opts opts;
	struct block block;
	struct weir_group *group;
	struct queue *queues;
	int control_fd, fd;
	struct ublk_info info;
	bool recovered;
	bool made;		/* There is a device. */
	bool started;
	bool stopping, stop_sent, stop_done, ending;
	bool failed;
	uint64_t insist_until;	/* Then a signal stops it although it is in use. */
	uint32_t queues_over;
	uint32_t block_size;
	_Atomic uint64_t sectors;
	struct control control;
	struct weir_op sync_op, again_op;
};

/* To have what another process has, 50 ms after each other; fewer in tests. */
extern unsigned int attempts;

struct server *server_new(void);
void server_free(struct server *s);

/* Open what is served, and make or find the device.  Returns 0, or an errno, said. */
int server_open(struct server *s);

/* All queues have begun: let the kernel have the device.  Returns 0, or an errno, said. */
int server_start(struct server *s);
void server_stop(struct server *s);	/* A signal has come. */
void server_resize(struct server *s);
void server_queue_over(void *server);	/* One has; on core 0. */
void server_close(struct server *s);	/* The group has ended. */
bool server_copies(const struct server *s);	/* UBLK_F_USER_COPY */

/* On standard error. */
__attribute__((format(printf, 1, 2))) void say(const char *fmt, ...);

/* options.c */

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_SETUP };

int options_parse(struct server *s, int argc, char **argv);

#endif /* WEIR_UBLK_H */
