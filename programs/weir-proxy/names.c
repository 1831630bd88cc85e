/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Targets that are names: looked up when the configuration begins, and again and
 * again.  Each address is a server.  Servers come and go with the addresses; those
 * of a lookup that fails stay.
 *
 *	LOOKUP <---> WAIT for the time to live, at most `resolve`
 *
 * The one operation of a target is always one of both, until its configuration
 * retires; it holds that.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "weir-proxy.h"

#define ADDRESSES WEIR_RESOLVE_ADDRESSES_MAX
#define LOOKUP_NS (10 * WEIR_SEC)
#define AGAIN_NS (5 * WEIR_SEC)	/* After a failure. */

static void look_up(struct target *t);

static struct core *core_of(const struct target *t)
{
	return t->route->config->core;
}

static void on_waited(struct weir_op *op, int64_t res)
{
	struct target *t = weir_container_of(op, struct target, op);

	if (res < 0 || t->route->config->retired)
		config_put(t->route->config);
	else
		look_up(t);
}

static void wait_for(struct target *t, uint64_t ns)
{
	struct weir_reactor *r = core_of(t)->r;

	t->op.fn = on_waited;
	if (weir_sleep_until(r, &t->op, weir_reactor_now(r) + ns))
		config_put(t->route->config); /* It is stopping. */
}

static struct address address_of(const struct weir_resolve_address *found)
{
	struct address a = { .len = found->len };

	memcpy(&a.sa, &found->addr, found->len);
	return a;
}

static bool is_at(const struct server *s, const struct address *a)
{
	return s->addr.len == a->len && !memcmp(&s->addr.sa, &a->sa, a->len);
}

static struct server *server_of(struct target *t, const struct address *a)
{
	struct server *s;

	for (s = t->route->servers; s; s = s->next)
		if (s->target == t && is_at(s, a))
			return s;
	return NULL;
}

static void add_server(struct target *t, const struct address *a)
{
	struct server *s = server_of(t, a) ? NULL : server_add(t, a);

	if (s)
		check_begin(s);
}

/* The servers are what the first @n of .found say. */
static void update(struct target *t, size_t n)
{
	struct server *s, *next;
	struct address a;
	size_t i;

	for (i = 0; i < n; i++) {
		a = address_of(&t->found[i]);
		add_server(t, &a);
	}
	for (s = t->route->servers; s; s = next) {
		next = s->next;
		for (i = 0; i < n; i++) {
			a = address_of(&t->found[i]);
			if (is_at(s, &a))
				break;
		}
		if (s->target == t && i == n)
			server_remove(s);
	}
}

/* How long the answer holds. */
static uint64_t holds_ns(const struct target *t)
{
	uint64_t most = t->route->config->resolve_ns, ns;

	if (t->found[0].ttl == UINT32_MAX)
		return most;
	ns = t->found[0].ttl * WEIR_SEC;
	ns = ns < WEIR_SEC ? WEIR_SEC : ns;
	return ns < most ? ns : most;
}

static void on_found(struct weir_op *op, int64_t res)
{
	struct target *t = weir_container_of(op, struct target, op);
	uint64_t most = t->route->config->resolve_ns, ns = most;

	if (t->route->config->retired) {
		config_put(t->route->config);
		return;
	}
	if (res > 0) {
		update(t, (size_t)res);
		ns = holds_ns(t);
	} else if (AGAIN_NS < most) {
		ns = AGAIN_NS;
	}
	if (res < 0 && !t->failed && res != -ECANCELED)
		complain("%s: %s", t->host, weir_resolve_error(res));
	t->failed = res < 0;
	t->known = true;
	wait_for(t, ns);
	core_names_known(core_of(t));
}

static void look_up(struct target *t)
{
	struct weir_resolve_query q = {
		.size = sizeof(q), .name = t->host, .port = t->port,
	};
	struct weir_reactor *r = core_of(t)->r;
	int err;

	t->op.fn = on_found;
	weir_op_set_deadline(&t->op, weir_reactor_now(r) + LOOKUP_NS);
	err = weir_resolve(t->route->config->resolver, &t->op, &q, t->found,
			   ADDRESSES);
	if (!err)
		return;
	/* Too many may be in flight; all else will not change. */
	if (err != -EAGAIN) {
		if (!t->failed)
			complain("%s: %s", t->host, weir_why());
		t->failed = t->known = true;
	}
	wait_for(t, AGAIN_NS);
}

/* The servers of the name, as the configuration before had them. */
void names_inherit(struct target *t, const struct target *from)
{
	const struct server *s;
	struct address a;

	for (s = from->route->servers; s; s = s->next) {
		if (s->target != from)
			continue;
		a = s->addr;
		address_set_port(&a, t->port);
		if (!server_of(t, &a))
			(void)server_add(t, &a);
	}
	t->known = from->known;
}

void names_begin(struct target *t)
{
	config_get(t->route->config);
	look_up(t);
}
