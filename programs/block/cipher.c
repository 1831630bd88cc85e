/* SPDX-License-Identifier: CC0-1.0 */
/*
 * A plugin for weir-nbd: a file in which everything is enciphered.
 *
 *	weir-nbd --export=plugin=cipher.so,args=FILE:KEY
 *
 * The file is there already, and as long as the export.  What a client reads
 * and writes is a domain of our own, whose functions encipher on the way to the
 * file and decipher on the way back.  So it can be copied from: how a domain
 * does many moves at a time, each by an operation of weir.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/domain-user.h>
#include <weir/file.h>

#include "plugin.h"

/* The server asks for less at a time. */
#define MOVE_MAX (1u << 20)

struct image {
	int fd;
	uint64_t key;
	struct weir_domain *domain;
};

/* A move in flight.  There are as many as clients have requests, which the
 * server bounds. */
struct move {
	struct weir_op op;		/* Our own read or write. */
	struct weir_op *user;		/* What it is for. */
	const struct weir_domain_move *what;
	const struct image *image;
	bool pulls;
	uint8_t copy[];		/* Enciphered, on the way to the file. */
};

static uint64_t offset(const struct weir_domain_side *side)
{
	return (uintptr_t)side->iov->iov_base;
}

/* Bytes to hide others with.  Put a cipher here that was made for disks. */
static uint64_t pad(const struct image *image, uint64_t off)
{
	uint64_t x = (image->key + off / 8) * UINT64_C(0x9e3779b97f4a7c15);

	return x ^ x >> 31;
}

/* Encipher or decipher @n bytes, which are at @off of the image. */
static void cipher(const struct image *image, uint8_t *to, const uint8_t *from,
		   size_t n, uint64_t off)
{
	uint64_t x = pad(image, off) >> off % 8 * 8;

	for (size_t i = 0; i < n; i++) {
		to[i] = from[i] ^ (uint8_t)x;
		x = ++off % 8 ? x >> 8 : pad(image, off);
	}
}

/* The first @n bytes of the memory of a pull are there. */
static void decipher(const struct move *m, uint64_t n)
{
	uint64_t off = offset(&m->what->src);

	for (const struct iovec *v = m->what->dst.iov; n; v++) {
		size_t here = v->iov_len < n ? v->iov_len : n;

		cipher(m->image, v->iov_base, v->iov_base, here, off);
		off += here;
		n -= here;
	}
}

/* The file has done its part. */
static void on_file(struct weir_op *op, int64_t res)
{
	struct move *m = weir_container_of(op, struct move, op);
	struct weir_op *user = m->user;

	if (m->pulls && res > 0)
		decipher(m, (uint64_t)res);
	free(m);
	weir_domain_complete(user, res);
}

/* Returns a move with space for @copy bytes, or NULL. */
static struct move *move_new(struct weir_domain *domain, struct weir_op *user,
			     const struct weir_domain_move *what, size_t copy)
{
	struct move *m = malloc(sizeof(*m) + copy);

	if (!m)
		return NULL;
	weir_op_init(&m->op, on_file);
	m->user = user;
	m->what = what;
	m->pulls = !copy;
	m->image = weir_domain_ctx(domain);
	weir_domain_set_op_data(user, m);
	return m;
}

static int check(const struct weir_domain_side *side)
{
	if (side->n_iov != 1 || side->iov->iov_len > MOVE_MAX)
		return -EMSGSIZE;
	return 0;
}

/* What is in flight is on_file()'s; what is not has never been. */
static int started(struct move *m, int err)
{
	if (err)
		free(m);
	return err;
}

static int pull(struct weir_domain *domain, struct weir_reactor *r,
		struct weir_op *op, const struct weir_domain_move *what)
{
	int err = check(&what->src);
	struct move *m;

	if (err)
		return err;
	m = move_new(domain, op, what, 0);
	if (!m)
		return -ENOMEM;
	return started(m, weir_readv(r, &m->op, m->image->fd, what->dst.iov,
				     what->dst.n_iov, offset(&what->src)));
}

static int write_copy(struct weir_reactor *r, struct move *m)
{
	const struct weir_domain_side *dst = &m->what->dst;

	return started(m, weir_write(r, &m->op, m->image->fd, m->copy,
				     dst->iov->iov_len, offset(dst)));
}

static int push(struct weir_domain *domain, struct weir_reactor *r,
		struct weir_op *op, const struct weir_domain_move *what)
{
	const struct weir_domain_side *src = &what->src;
	int err = check(&what->dst);
	size_t done = 0;
	struct move *m;

	if (err)
		return err;
	m = move_new(domain, op, what, what->dst.iov->iov_len);
	if (!m)
		return -ENOMEM;
	for (uint32_t i = 0; i < src->n_iov; i++) {
		cipher(m->image, m->copy + done, src->iov[i].iov_base,
		       src->iov[i].iov_len, offset(&what->dst) + done);
		done += src->iov[i].iov_len;
	}
	return write_copy(r, m);
}

/* The server fills with zeroes alone; a domain may be asked for any pattern. */
static int fill(struct weir_domain *domain, struct weir_reactor *r,
		struct weir_op *op, const struct weir_domain_move *what)
{
	size_t len = what->dst.iov->iov_len;
	int err = check(&what->dst);
	struct move *m;

	if (err)
		return err;
	m = move_new(domain, op, what, len);
	if (!m)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++)
		m->copy[i] = (uint8_t)(what->pattern >> i % 8 * 8);
	cipher(m->image, m->copy, m->copy, len, offset(&what->dst));
	return write_copy(r, m);
}

static void cancel(struct weir_domain *domain, struct weir_op *op)
{
	struct move *m = weir_domain_op_data(op);

	(void)domain;
	weir_op_cancel(&m->op);
}

static int make_domain(struct image *image)
{
	struct weir_domain_opts opts = { .size = sizeof(opts), .ctx = image,
					 .kind = WEIR_DOMAIN_USER,
					 .id = "cipher" };
	int err = weir_domain_create(&image->domain, &opts);

	if (!err)
		err = weir_domain_set_pull(image->domain, pull);
	if (!err)
		err = weir_domain_set_push(image->domain, push);
	if (!err)
		err = weir_domain_set_fill(image->domain, fill);
	if (!err)
		err = weir_domain_set_cancel(image->domain, cancel);
	return err;
}

static void image_close(void *arg)
{
	struct image *image = arg;

	weir_domain_destroy(image->domain);
	if (image->fd >= 0)
		close(image->fd);
	free(image);
}

static int open_file(struct image *image, const char *args, uint32_t flags)
{
	int how = flags & NBD_PLUGIN_READ_ONLY ? O_RDONLY : O_RDWR;
	const char *colon = strrchr(args, ':');
	char *path;

	if (!colon || !colon[1])
		return -EINVAL;
	image->key = UINT64_C(0xcbf29ce484222325);
	for (const char *p = colon + 1; *p; p++)
		image->key = (image->key ^ (uint8_t)*p) *
			     UINT64_C(0x100000001b3);
	path = strndup(args, (size_t)(colon - args));
	if (!path)
		return -ENOMEM;
	/* Without O_NONBLOCK, to open a FIFO is to wait for its other end. */
	image->fd = open(path, how | O_CLOEXEC | O_NONBLOCK);
	free(path);
	return image->fd < 0 ? -errno : 0;
}

/* Returns the size of the file, or an errno: -EINVAL, it is none. */
static int64_t measure(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK))
		return -errno;
	return st.st_size;
}

static int image_open(const char *args, uint32_t flags,
		      struct nbd_plugin_export *ret)
{
	struct image *image = calloc(1, sizeof(*image));
	int64_t size = 0;
	int err;

	if (!image)
		return -ENOMEM;
	image->fd = -1;
	err = open_file(image, args, flags);
	if (!err)
		size = measure(image->fd);
	if (size < 0)
		err = (int)size;
	if (!err)
		err = make_domain(image);
	if (err) {
		image_close(image);
		return err;
	}
	ret->bytes = (uint64_t)size;
	ret->domain = image->domain;
	ret->arg = image;
	return 0;
}

static int image_flush(void *arg, struct weir_reactor *r, struct weir_op *op)
{
	const struct image *image = arg;

	return weir_fsync(r, op, image->fd, WEIR_FSYNC_DATA);
}

const struct nbd_plugin nbd_plugin = {
	.size = sizeof(struct nbd_plugin),
	.open = image_open,
	.close = image_close,
	.flush = image_flush,
};
