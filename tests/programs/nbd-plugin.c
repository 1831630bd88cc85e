/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A plugin for weir-nbd that makes trouble: memory in a domain of its own,
 * where some places refuse, fail, are busy, late, or never done.  What an
 * export is like is said by its arguments.
 *
 * NBD_PLUGIN_SIZE in the environment makes it a plugin of another version:
 * what is in its struct behind the members of this one is not 0.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <weir/domain-user.h>
#include <weir/op.h>
#include <weir/reactor.h>

#include "programs/block/plugin.h"
#include "tests/programs/nbd-plugin.h"

struct plugin {
	struct weir_domain *domain;
	int flush_err; /* Once, as of fsync() of a file. */
	_Atomic unsigned int busy; /* Times that a busy place was asked. */
	uint8_t bytes[PLUGIN_BYTES];
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
static int trouble(struct plugin *plugin, struct weir_reactor *r,
		   struct weir_op *op, uint64_t at, size_t len)
{
	uint64_t soon = weir_reactor_now(r) + 20 * WEIR_MSEC;

	switch (at) {
	case PLUGIN_REFUSES:
		return -ENOSPC;
	case PLUGIN_FAILS:
		weir_domain_complete(op, -EIO);
		return 0;
	case PLUGIN_ENDS_EARLY:
		weir_domain_complete(op, 1);
		return 0;
	case PLUGIN_BUSY:
		return ++plugin->busy % 3 ? -EAGAIN : 1;
	case PLUGIN_LATE:
		return delay(r, op, len, soon);
	case PLUGIN_NEVER:
		return delay(r, op, len, WEIR_FOREVER);
	default:
		return 1;
	}
}

/* Copy between memory and the store; the longer list of pieces is memory's. */
static void copy(struct plugin *plugin, const struct weir_domain_side *memory,
		 uint64_t at, bool to_memory)
{
	uint8_t *p = plugin->bytes + at;

	for (uint32_t i = 0; i < memory->n_iov; i++) {
		const struct iovec *v = &memory->iov[i];

		memcpy(to_memory ? v->iov_base : p, to_memory ? p : v->iov_base,
		       v->iov_len);
		p += v->iov_len;
	}
}

static int move(struct weir_domain *domain, struct weir_reactor *r,
		struct weir_op *op, const struct weir_domain_move *m)
{
	struct plugin *plugin = weir_domain_ctx(domain);
	bool pulls = m->src.domain == domain;
	const struct weir_domain_side *ours = pulls ? &m->src : &m->dst;
	uint64_t at = (uintptr_t)ours->iov->iov_base - PLUGIN_ADDR;
	int res = trouble(plugin, r, op, at, ours->iov->iov_len);

	if (res <= 0)
		return res;
	copy(plugin, pulls ? &m->dst : &m->src, at, pulls);
	weir_domain_complete(op, (int64_t)ours->iov->iov_len);
	return 0;
}

/* Only zeroes are asked for; they are marked, so that tests know that it was
 * this that was called. */
static int fill(struct weir_domain *domain, struct weir_reactor *r,
		struct weir_op *op, const struct weir_domain_move *m)
{
	struct plugin *plugin = weir_domain_ctx(domain);
	uint64_t at = (uintptr_t)m->dst.iov->iov_base - PLUGIN_ADDR;

	(void)r;
	memset(plugin->bytes + at, PLUGIN_FILLED, m->dst.iov->iov_len);
	weir_domain_complete(op, (int64_t)m->dst.iov->iov_len);
	return 0;
}

static int make_domain(struct plugin *plugin, bool fills)
{
	struct weir_domain_opts opts = { .size = sizeof(opts),
					 .ctx = plugin,
					 .kind = WEIR_DOMAIN_USER };
	int err = weir_domain_create(&plugin->domain, &opts);

	if (!err)
		err = weir_domain_set_pull(plugin->domain, move);
	if (!err)
		err = weir_domain_set_push(plugin->domain, move);
	if (!err && fills)
		err = weir_domain_set_fill(plugin->domain, fill);
	if (!err)
		err = weir_domain_set_cancel(plugin->domain, cancel);
	return err;
}

static void plugin_close(void *arg)
{
	struct plugin *plugin = arg;

	if (weir_domain_destroy(plugin->domain))
		abort();
	free(plugin);
}

static int plugin_open(const char *args, uint32_t flags,
		       struct nbd_plugin_export *ret)
{
	struct plugin *plugin;

	(void)flags;
	if (strstr(args, "refuse"))
		return -ENXIO;
	plugin = calloc(1, sizeof(*plugin));
	if (!plugin || make_domain(plugin, strstr(args, "fill")))
		abort();
	if (strstr(args, "unsafe"))
		plugin->flush_err = -EIO;
	if (strstr(args, "unsafe="))
		plugin->flush_err = -atoi(strstr(args, "unsafe=") + 7);
	ret->bytes = strstr(args, "empty") ? 0 : PLUGIN_BYTES;
	ret->domain = plugin->domain;
	ret->addr = PLUGIN_ADDR;
	ret->arg = plugin;
	ret->block = strstr(args, "block") ? 512 : 0;
	ret->flags = (strstr(args, "fill") ? NBD_PLUGIN_FILLS : 0) |
		     (strstr(args, "read") ? NBD_PLUGIN_READ_ONLY : 0) |
		     (strstr(args, "strange") ? 1u << 31 : 0);
	return 0;
}

static int plugin_flush(void *arg, struct weir_reactor *r, struct weir_op *op)
{
	struct plugin *plugin = arg;
	int err = plugin->flush_err;

	plugin->flush_err = 0;
	return err ? err : weir_defer(r, op);
}

/* As much as the server knows, and what it does not. */
struct nbd_plugin_later {
	struct nbd_plugin now;
	void *more[2];
};

extern __attribute__((visibility(
	"default"))) struct nbd_plugin_later later __asm__("nbd_plugin");
struct nbd_plugin_later later = {
	.now = {
		.size = sizeof(struct nbd_plugin),
		.open = plugin_open,
		.close = plugin_close,
		.flush = plugin_flush,
	},
	.more = { NULL, plugin_open },
};

__attribute__((constructor)) static void choose_version(void)
{
	const char *size = getenv("NBD_PLUGIN_SIZE");

	if (size)
		later.now.size = strtoul(size, NULL, 10);
}
