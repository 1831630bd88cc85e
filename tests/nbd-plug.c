/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A plug for weir-nbd that makes trouble: memory in a domain of its own, where
 * some places refuse, fail, are busy, late, or never done.  What an export is
 * like is said by its arguments.
 *
 * NBD_PLUG_SIZE in the environment makes it a plug of another version: what is
 * in its struct behind the members of this one is not 0.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <weir/domain-user.h>
#include <weir/op.h>
#include <weir/reactor.h>

#include "programs/weir-nbd/plug.h"
#include "tests/nbd-plug.h"

struct plug {
	struct weir_domain *domain;
	bool flush_fails;	/* Once, as fsync() of a file does. */
	_Atomic unsigned int busy;	/* Times that a busy place was asked. */
	uint8_t bytes[PLUG_BYTES];
};

/* A move that does not end at once. */
struct late {
	struct weir_op op;
	struct weir_op *user;
	int64_t len;
};

static void on_late(struct weir_op *op, int64_t res)
{
	struct late *late = weir_container_of(op, struct late, op);
	struct weir_op *user = late->user;
	int64_t len = late->len;

	free(late);
	weir_domain_complete(user, res < 0 ? res : len);
}

/* Nothing moves, but it is said that @len bytes have. */
static int delay(struct weir_reactor *r, struct weir_op *op, size_t len,
		 uint64_t until)
{
	struct late *late = malloc(sizeof(*late));

	if (!late)
		return -ENOMEM;
	weir_op_init(&late->op, on_late);
	late->user = op;
	late->len = (int64_t)len;
	weir_domain_set_op_data(op, late);
	if (weir_sleep_until(r, &late->op, until)) {
		free(late);
		return -EIO;
	}
	return 0;
}

static void cancel(struct weir_domain *domain, struct weir_op *op)
{
	struct late *late = weir_domain_op_data(op);

	(void)domain;
	if (late)
		weir_op_cancel(&late->op);
}

/* Returns 1 if there is no trouble at @at. */
static int trouble(struct plug *plug, struct weir_reactor *r,
		   struct weir_op *op, uint64_t at, size_t len)
{
	uint64_t soon = weir_reactor_now(r) + 20 * WEIR_MSEC;

	switch (at) {
	case PLUG_REFUSES:
		return -ENOSPC;
	case PLUG_FAILS:
		weir_domain_complete(op, -EIO);
		return 0;
	case PLUG_ENDS_EARLY:
		weir_domain_complete(op, 1);
		return 0;
	case PLUG_BUSY:
		return ++plug->busy % 3 ? -EAGAIN : 1;
	case PLUG_LATE:
		return delay(r, op, len, soon);
	case PLUG_NEVER:
		return delay(r, op, len, WEIR_FOREVER);
	default:
		return 1;
	}
}

/* Copy between memory and the store; the longer list of pieces is memory's. */
static void copy(struct plug *plug, const struct weir_domain_side *memory,
		 uint64_t at, bool to_memory)
{
	uint8_t *p = plug->bytes + at;

	for (uint32_t i = 0; i < memory->n_iov; i++) {
		const struct iovec *v = &memory->iov[i];

		memcpy(to_memory ? v->iov_base : p,
		       to_memory ? p : v->iov_base, v->iov_len);
		p += v->iov_len;
	}
}

static int move(struct weir_domain *domain, struct weir_reactor *r,
		struct weir_op *op, const struct weir_domain_move *m)
{
	struct plug *plug = weir_domain_ctx(domain);
	bool pulls = m->src.domain == domain;
	const struct weir_domain_side *ours = pulls ? &m->src : &m->dst;
	uint64_t at = (uintptr_t)ours->iov->iov_base - PLUG_ADDR;
	int res = trouble(plug, r, op, at, ours->iov->iov_len);

	if (res <= 0)
		return res;
	copy(plug, pulls ? &m->dst : &m->src, at, pulls);
	weir_domain_complete(op, (int64_t)ours->iov->iov_len);
	return 0;
}

/* Only zeroes are asked for; they are marked, so that tests know that it was
 * this that was called. */
static int fill(struct weir_domain *domain, struct weir_reactor *r,
		struct weir_op *op, const struct weir_domain_move *m)
{
	struct plug *plug = weir_domain_ctx(domain);
	uint64_t at = (uintptr_t)m->dst.iov->iov_base - PLUG_ADDR;

	(void)r;
	memset(plug->bytes + at, PLUG_FILLED, m->dst.iov->iov_len);
	weir_domain_complete(op, (int64_t)m->dst.iov->iov_len);
	return 0;
}

static int make_domain(struct plug *plug, bool fills)
{
	struct weir_domain_opts opts = { .size = sizeof(opts), .ctx = plug,
					 .kind = WEIR_DOMAIN_USER };
	int err = weir_domain_create(&plug->domain, &opts);

	if (!err)
		err = weir_domain_set_pull(plug->domain, move);
	if (!err)
		err = weir_domain_set_push(plug->domain, move);
	if (!err && fills)
		err = weir_domain_set_fill(plug->domain, fill);
	if (!err)
		err = weir_domain_set_cancel(plug->domain, cancel);
	return err;
}

static void plug_close(void *arg)
{
	struct plug *plug = arg;

	if (weir_domain_destroy(plug->domain))
		abort();
	free(plug);
}

static int plug_open(const char *args, uint32_t flags,
		     struct nbd_plug_export *ret)
{
	struct plug *plug;

	(void)flags;
	if (strstr(args, "refuse"))
		return -ENXIO;
	plug = calloc(1, sizeof(*plug));
	if (!plug || make_domain(plug, strstr(args, "fill")))
		abort();
	plug->flush_fails = strstr(args, "unsafe");
	ret->bytes = strstr(args, "empty") ? 0 : PLUG_BYTES;
	ret->domain = plug->domain;
	ret->addr = PLUG_ADDR;
	ret->arg = plug;
	ret->block = strstr(args, "block") ? 512 : 0;
	ret->flags = (strstr(args, "fill") ? NBD_PLUG_FILLS : 0) |
		     (strstr(args, "read") ? NBD_PLUG_READ_ONLY : 0) |
		     (strstr(args, "strange") ? 1u << 31 : 0);
	return 0;
}

static int plug_flush(void *arg, struct weir_reactor *r, struct weir_op *op)
{
	struct plug *plug = arg;
	bool fails = plug->flush_fails;

	plug->flush_fails = false;
	return fails ? -EIO : weir_defer(r, op);
}

/* As much as the server knows, and what it does not. */
struct nbd_plug_later {
	struct nbd_plug now;
	void *more[2];
};

extern __attribute__((visibility("default")))
struct nbd_plug_later later __asm__("nbd_plug");
struct nbd_plug_later later = {
	.now = {
		.size = sizeof(struct nbd_plug),
		.open = plug_open,
		.close = plug_close,
		.flush = plug_flush,
	},
	.more = { NULL, plug_open },
};

__attribute__((constructor)) static void choose_version(void)
{
	const char *size = getenv("NBD_PLUG_SIZE");

	if (size)
		later.now.size = strtoul(size, NULL, 10);
}
