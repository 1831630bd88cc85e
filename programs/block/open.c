/* SPDX-License-Identifier: CC0-1.0 */
/* What is served: found, opened, measured. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/file.h>

#include "../common/number.h"
#include "backing.h"

enum {
	SUB_NAME,
	SUB_PATH,
	SUB_SIZE,
	SUB_PLUGIN,
	SUB_ARGS,
	SUB_TEXT,
	SUB_RO,
	SUB_DIRECT
};

static char *const subs[] = {
	[SUB_NAME] = "name",   [SUB_PATH] = "path",     [SUB_SIZE] = "size",
	[SUB_PLUGIN] = "plugin", [SUB_ARGS] = "args",     [SUB_TEXT] = "text",
	[SUB_RO] = "ro",       [SUB_DIRECT] = "direct", NULL
};

typedef void usage_fn(const char *fmt, ...);

static int parse_size(const char *arg, uint64_t *ret, usage_fn *usage_error)
{
	if (!size_parse(arg, 1, INT64_MAX, ret))
		return 0;
	usage_error("size=%s: give a number of bytes, or one with K, M, G "
		    "or T", arg);
	return -1;
}

static const char **place(struct block *b, int sub)
{
	switch (sub) {
	case SUB_NAME:
		return &b->name;
	case SUB_PATH:
		return &b->path;
	case SUB_PLUGIN:
		return &b->plugin.path;
	case SUB_ARGS:
		return &b->plugin.args;
	default:
		return &b->text;
	}
}

static int parse_sub(struct block *b, int sub, const char *value,
		     usage_fn *usage_error)
{
	bool told = sub == SUB_NAME || sub == SUB_TEXT;	/* To clients. */

	if (sub == SUB_RO || sub == SUB_DIRECT) {
		b->read_only |= sub == SUB_RO;
		b->direct |= sub == SUB_DIRECT;
		return 0;
	}
	if (!value || (told && strlen(value) > BLOCK_TEXT_MAX)) {
		usage_error("%s=: give a value of at most %u bytes",
			    subs[sub], BLOCK_TEXT_MAX);
		return -1;
	}
	if (sub == SUB_SIZE)
		return parse_size(value, &b->size, usage_error);
	*place(b, sub) = value;
	return 0;
}

static int check(const struct block *b, usage_fn *usage_error)
{
	if (!!b->path + !!b->size + !!b->plugin.path != 1) {
		usage_error("export '%s': give one of path=, plugin= or, for "
			    "memory, size=", b->name);
		return -1;
	}
	return 0;
}

static void init(struct block *b, const char *program)
{
	*b = (struct block){ .program = program, .name = "", .text = "",
			     .fd = -1, .durable_fd = -1, .plugin.args = "" };
}

/* @arg is cut to pieces, which stay in use. */
int block_parse(struct block *b, const char *program, char *arg,
		usage_fn *usage_error)
{
	init(b, program);
	while (*arg) {
		char *value, *was = arg;
		int sub = getsubopt(&arg, subs, &value);

		if (sub < 0) {
			usage_error("%s: give name, path, size, plugin, args, "
				    "text, ro or direct", was);
			return -1;
		}
		if (parse_sub(b, sub, value, usage_error))
			return -1;
	}
	return check(b, usage_error);
}

int block_parse_operand(struct block *b, const char *program, char *arg,
			usage_fn *usage_error)
{
	for (char *const *sub = subs; *sub; sub++) {
		size_t len = strlen(*sub);

		if (!strncmp(arg, *sub, len) && arg[len] == '=')
			return block_parse(b, program, arg, usage_error);
	}
	init(b, program);
	b->path = arg;
	return 0;
}

/* io_uring would answer -EAGAIN where it has to wait. */
static int make_blocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) ? -errno : 0;
}

int block_measure(struct block *b)
{
	struct stat st;
	uint64_t size;
	uint32_t min = b->block_min;
	int sector = 512;

	if (b->fd < 0)
		return 0;
	if (fstat(b->fd, &st))
		return -errno;
	size = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode)) {
		if (ioctl(b->fd, BLKGETSIZE64, &size) ||
		    ioctl(b->fd, BLKSSZGET, &sector))
			return -errno;
	} else if (!S_ISREG(st.st_mode)) {
		b->why = "neither a file nor a block device";
		return -ENOTBLK;
	}
	if (b->direct)
		min = S_ISBLK(st.st_mode) ? (uint32_t)sector : BLOCK_MIN_MAX;
	/* Other cores read it. */
	if (min != b->block_min)
		b->block_min = min;
	size -= size % min;
	if (size == b->size)
		return 0;
	b->size = size;
	return 1;
}

/* The name may have become that of another file. */
static int open_durable(struct block *b, int flags)
{
	struct stat st, was;

	b->durable_fd = open(b->path, flags | O_DSYNC);
	if (b->durable_fd < 0 || fstat(b->durable_fd, &st) ||
	    fstat(b->fd, &was))
		return -errno;
	if (st.st_dev != was.st_dev || st.st_ino != was.st_ino)
		return -ESTALE;
	return make_blocking(b->durable_fd);
}

static int file_open(struct block *b)
{
	/* The open of a FIFO would wait for its other end. */
	int flags = O_CLOEXEC | O_NONBLOCK |
		    (b->read_only ? O_RDONLY : O_RDWR) |
		    (b->direct ? O_DIRECT : 0);
	int err;

	b->backing = &file_backing;
	b->fd = open(b->path, flags);
	if (b->fd < 0)
		return -errno;
	err = block_measure(b);
	if (err >= 0)
		err = make_blocking(b->fd);
	return err || b->read_only ? err : open_durable(b, flags);
}

int block_open(struct block *b)
{
	int err;

	if (b->plugin.path)
		return plugin_open(b);
	b->block_min = 1;
	b->backing = &memory_backing;
	err = b->path ? file_open(b) : memory_open(b);
	if (err)
		return err;
	b->can = BLOCK_CAN_FLUSH | BLOCK_CAN_CACHE;
	if (!b->read_only)
		b->can |= BLOCK_CAN_WRITE | BLOCK_CAN_TRIM | BLOCK_CAN_ZERO;
	return 0;
}

void block_close(struct block *b)
{
	plugin_close(b);
	memory_close(b);
	if (b->fd >= 0)
		close(b->fd);
	if (b->durable_fd >= 0)
		close(b->durable_fd);
	b->fd = -1;
	b->durable_fd = -1;
}

const char *block_why(const struct block *b, int err)
{
	return b->why ? b->why : strerror(-err);
}

const char *block_title(const struct block *b)
{
	if (b->plugin.path)
		return b->plugin.path;
	return b->path ? b->path : "memory";
}

int block_sync(const struct block *b, struct weir_reactor *r,
	       struct weir_op *op)
{
	if (b->plugin.fns.flush)
		return b->plugin.fns.flush(b->plugin.brought.arg, r, op);
	return b->fd < 0 ? -EOPNOTSUPP : weir_fsync(r, op, b->fd, 0);
}
