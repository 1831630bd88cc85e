/* SPDX-License-Identifier: CC0-1.0 */
/* What is served: found, opened, described to clients. */
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
#include "weir-nbd.h"

/* One descriptor serves all connections, so they see what each has flushed. */
#define FLAGS_ALWAYS (NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | \
		      NBD_FLAG_SEND_FUA | NBD_FLAG_CAN_MULTI_CONN | \
		      NBD_FLAG_SEND_CACHE)
#define FLAGS_TO_WRITE (NBD_FLAG_SEND_TRIM | NBD_FLAG_SEND_WRITE_ZEROES | \
			NBD_FLAG_SEND_FAST_ZERO)

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

static int parse_size(const char *arg, uint64_t *ret)
{
	if (!size_parse(arg, 1, INT64_MAX, ret))
		return 0;
	usage_error("size=%s: give a number of bytes, or one with K, M, G "
		    "or T", arg);
	return -1;
}

static const char **place(struct export *x, int sub)
{
	switch (sub) {
	case SUB_NAME:
		return &x->name;
	case SUB_PATH:
		return &x->path;
	case SUB_PLUGIN:
		return &x->plugin.path;
	case SUB_ARGS:
		return &x->plugin.args;
	default:
		return &x->text;
	}
}

static int parse_sub(struct export *x, int sub, const char *value)
{
	bool told = sub == SUB_NAME || sub == SUB_TEXT;	/* To clients. */

	if (sub == SUB_RO || sub == SUB_DIRECT) {
		x->read_only |= sub == SUB_RO;
		x->direct |= sub == SUB_DIRECT;
		return 0;
	}
	if (!value || (told && strlen(value) > TEXT_MAX)) {
		usage_error("%s=: give a value of at most %u bytes",
			    subs[sub], TEXT_MAX);
		return -1;
	}
	if (sub == SUB_SIZE)
		return parse_size(value, &x->size);
	*place(x, sub) = value;
	return 0;
}

static int check(const struct export *x)
{
	if (!!x->path + !!x->size + !!x->plugin.path != 1) {
		usage_error("export '%s': give one of path=, plugin= or, for "
			    "memory, size=", x->name);
		return -1;
	}
	return 0;
}

/* @arg is cut to pieces, which stay in use. */
int export_parse(struct export *x, char *arg)
{
	*x = (struct export){
		.name = "", .text = "", .fd = -1, .plugin.args = ""
	};
	while (*arg) {
		char *value, *was = arg;
		int sub = getsubopt(&arg, subs, &value);

		if (sub < 0) {
			usage_error("%s: give name, path, size, plugin, args, "
				    "text, ro or direct", was);
			return -1;
		}
		if (parse_sub(x, sub, value))
			return -1;
	}
	return check(x);
}

static int measure(struct export *x)
{
	struct stat st;
	int sector = 512;

	if (fstat(x->fd, &st))
		return -errno;
	x->size = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode)) {
		if (ioctl(x->fd, BLKGETSIZE64, &x->size) ||
		    ioctl(x->fd, BLKSSZGET, &sector))
			return -errno;
	} else if (!S_ISREG(st.st_mode)) {
		x->why = "neither a file nor a block device";
		return -ENOTBLK;
	}
	/* io_uring would answer -EAGAIN where it has to wait. */
	if (fcntl(x->fd, F_SETFL, fcntl(x->fd, F_GETFL) & ~O_NONBLOCK))
		return -errno;
	if (x->direct)
		x->block_min = S_ISBLK(st.st_mode) ? (uint32_t)sector : CELL;
	x->size -= x->size % x->block_min;
	return 0;
}

static int file_open(struct export *x)
{
	/* The open of a FIFO would wait for its other end. */
	int flags = O_CLOEXEC | O_NONBLOCK |
		    (x->read_only ? O_RDONLY : O_RDWR) |
		    (x->direct ? O_DIRECT : 0);

	x->backing = &file_backing;
	x->fd = open(x->path, flags);
	return x->fd < 0 ? -errno : measure(x);
}

int export_open(struct export *x)
{
	int err;

	if (x->plugin.path)
		return plugin_open(x);
	x->block_min = 1;
	x->backing = &memory_backing;
	err = x->path ? file_open(x) : memory_open(x);
	if (err)
		return err;
	x->flags = x->read_only ? FLAGS_ALWAYS | NBD_FLAG_READ_ONLY :
				  FLAGS_ALWAYS | FLAGS_TO_WRITE;
	return 0;
}

void export_close(struct export *x)
{
	plugin_close(x);
	memory_close(x);
	if (x->fd >= 0)
		close(x->fd);
	x->fd = -1;
}

/* Where its bytes are, for messages. */
const char *export_title(const struct export *x)
{
	if (x->plugin.path)
		return x->plugin.path;
	return x->path ? x->path : "memory";
}

/* Start @op, to end when what was written is safe.  Returns 0, or an errno:
 * -EOPNOTSUPP if there is nothing that could be done for that. */
int export_sync(const struct export *x, struct weir_reactor *r,
		struct weir_op *op)
{
	if (x->plugin.fns.flush)
		return x->plugin.fns.flush(x->plugin.brought.arg, r, op);
	return x->fd < 0 ? -EOPNOTSUPP : weir_fsync(r, op, x->fd, 0);
}

/* No name means the one that has none, or the only one. */
struct export *export_find(struct server *server, const void *name, size_t len)
{
	for (uint32_t i = 0; i < server->n_exports; i++) {
		struct export *x = &server->exports[i];

		if (strlen(x->name) == len && !memcmp(x->name, name, len))
			return x;
	}
	return !len && server->n_exports == 1 ? server->exports : NULL;
}
