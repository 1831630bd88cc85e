/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Commands to the driver's control device.  They block in the kernel, which has a thread
 * for them, and some wait for what the queues do.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "weir-ublk.h"

#define CONTROL "ublk-control"

const char *device_dir = "/dev";

void control_path(char path[PATH_LEN], uint32_t dev_id)
{
	snprintf(path, PATH_LEN, "%s/ublkc%u", device_dir, dev_id);
}

void control_set(struct control *c, int fd, uint32_t code, uint32_t dev_id, bool with_path,
		 const void *payload, size_t len, uint64_t data)
{
	char path[PATH_LEN] = "";
	size_t path_len = 0;

	if (with_path) {
		control_path(path, dev_id);
		path_len = PATH_LEN;
	}
	*c = (struct control){ .fd = fd, .code = code };
	memcpy(c->bytes, path, path_len);
	if (payload)
		memcpy(c->bytes + path_len, payload, len);
	c->command = (struct ublk_command){
		.dev_id = dev_id, .queue_id = UINT16_MAX,
		.len = (uint16_t)(path_len + len),
		.addr = path_len + len ? (uintptr_t)c->bytes : 0,
		.data = data, .path_len = (uint16_t)path_len,
	};
}

static void fill(struct io_uring_sqe *sqe, void *arg)
{
	const struct control *c = arg;

	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = c->fd;
	sqe->cmd_op = c->code;
	memcpy(sqe->cmd, &c->command, sizeof(c->command));
}

static void on_done(struct weir_op *op, int64_t res)
{
	struct control *c = weir_container_of(op, struct control, op);

	c->fn(c, (int)res);
}

int control_start(struct control *c, struct weir_reactor *r,
		  void (*fn)(struct control *c, int res))
{
	c->fn = fn;
	weir_op_init(&c->op, on_done);
	return weir_uring_submit(r, &c->op, fill, c);
}

struct waiting {
	struct weir_op op;
	bool done;
	int64_t res;
};

static void on_waited(struct weir_op *op, int64_t res)
{
	struct waiting *w = weir_container_of(op, struct waiting, op);

	w->done = true;
	w->res = res;
}

/* Returns 0 with *@res set, or an errno: it could not be begun. */
static int control_wait(struct control *c, int *res)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_URING, .sqe128 = 1,
	};
	struct waiting w = { .done = false };
	struct weir_reactor *r;
	int err = weir_reactor_create(&r, &opts);

	if (err)
		return err;
	weir_op_init(&w.op, on_waited);
	err = weir_uring_submit(r, &w.op, fill, c);
	while (!err && !w.done)
		err = weir_reactor_turn(r, WEIR_FOREVER) < 0 ? -EIO : 0;
	weir_reactor_destroy(r);
	*res = (int)w.res;
	return err;
}

int control_do(int fd, uint32_t code, uint32_t dev_id, bool with_path, void *data, size_t len,
	       uint64_t number, bool *begun)
{
	struct control c;
	int res = 0, err;

	control_set(&c, fd, code, dev_id, with_path, data, len, number);
	err = control_wait(&c, &res);
	if (begun)
		*begun = !err;
	if (!err && res >= 0 && data)
		memcpy(data, c.bytes + c.command.path_len, len);
	return err ? err : res;
}

static int explain(int err, char *why, size_t len)
{
	switch (err) {
	case -ENOENT:
		snprintf(why, len, "this kernel has no ublk driver, or it is not loaded: "
			 "modprobe ublk_drv");
		break;
	case -EACCES:
	case -EPERM:
		snprintf(why, len, "%s/" CONTROL ": %s; root may, or whom a udev rule lets",
			 device_dir, strerror(-err));
		break;
	default:
		snprintf(why, len, "%s/" CONTROL ": %s", device_dir, strerror(-err));
		break;
	}
	return err;
}

int control_open(char *why, size_t len)
{
	uint64_t features = 0;
	char path[PATH_LEN];
	bool begun;
	int err, fd;

	snprintf(path, sizeof(path), "%s/" CONTROL, device_dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return explain(-errno, why, len);
	err = control_do(fd, UBLK_GET_FEATURES, UINT32_MAX, false, &features,
			 sizeof(features), 0, &begun);
	if (err >= 0)
		return fd;
	close(fd);
	if (begun)
		snprintf(why, len, "the ublk driver is older than that of Linux 6.5");
	else
		snprintf(why, len, "it takes io_uring: %s", weir_why());
	return err;
}
