/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Targets that are names: looked up when the configuration begins, and again and
 * again.  Each address is a server.  Servers come and go with the addresses; those
 * of a lookup that fails stay.
 *
 *	LOOKUP of IPv6 and of IPv4 <---> WAIT for the time to live, at most `resolve`
 *
 * There is a lookup for each family, so that silence about one does not withhold
 * the other.  A target is always in one of both states, until its configuration
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

static bool has_found(const struct lookup *l, const struct server *s)
{
	struct address a;

	for (int64_t i = 0; i < l->res; i++) {
		a = address_of(&l->found[i]);
		if (is_at(s, &a))
			return true;
	}
	return false;
}

/* The servers of its family are what it has found.  Some go before others come, so
 * that those have bits of their own. */
static void update(const struct lookup *l)
{
	struct target *t = l->target;
	struct server *s, *next;
	struct address a;

	for (s = t->route->servers; s; s = next) {
		next = s->next;
		if (s->target == t && s->addr.sa.ss_family == l->family &&
		    !has_found(l, s))
			server_remove(s);
	}
	for (int64_t i = 0; i < l->res; i++) {
		a = address_of(&l->found[i]);
		s = server_of(t, &a) ? NULL : server_add(t, &a);
		if (s)
			check_begin(s);
	}
}

/* One family has addresses: servers of another that has none go. */
static void remove_others(const struct target *t)
{
	for (const struct lookup *l = t->lookups; l < t->lookups + 2; l++)
		if (l->res == -ENODATA || l->res == -ENOENT)
			update(l);
}

/* How long the answers hold. */
static uint64_t holds_ns(const struct target *t)
{
	uint64_t ns = t->route->config->resolve_ns, its;

	for (const struct lookup *l = t->lookups; l < t->lookups + 2; l++) {
		for (int64_t i = 0; i < l->res; i++) {
			its = l->found[i].ttl * WEIR_SEC;
			if (l->found[i].ttl != UINT32_MAX && its < ns)
				ns = its;
		}
	}
	return ns < WEIR_SEC ? WEIR_SEC : ns;
}

/* Why neither lookup has found an address: what is said of the servers of DNS
 * outdoes what they say of the name. */
static int64_t failure_of(const struct target *t)
{
	int64_t a = t->lookups[0].res, b = t->lookups[1].res;

	return a == -ENOENT || (a == -ENODATA && b != -ENOENT) ? b : a;
}

/* Both lookups have ended, or did not start. */
static void conclude(struct target *t)
{
	uint64_t ns = t->route->config->resolve_ns;
	bool found = t->lookups[0].res > 0 || t->lookups[1].res > 0;
	int64_t err = found ? 0 : failure_of(t);

	if (t->route->config->retired) {
		config_put(t->route->config);
		return;
	}
	if (found) {
		remove_others(t);
		ns = holds_ns(t);
	} else if (AGAIN_NS < ns) {
		ns = AGAIN_NS;
	}
	/* If too many are in flight nothing is known of the name. */
	if (err != -EAGAIN) {
		if (err && err != -ECANCELED && !t->failed && !core_of(t)->index)
			complain("%s: %s", t->host, weir_resolve_error(err));
		t->failed = err;
		t->known = true;
		core_names_known(core_of(t));
	}
	wait_for(t, ns);
}

static void on_found(struct weir_op *op, int64_t res)
{
	struct lookup *l = weir_container_of(op, struct lookup, op);
	struct target *t = l->target;

	l->res = res;
	if (res > 0 && !t->route->config->retired) {
		update(l);
		core_names_known(core_of(t));
	}
	if (!--t->n_lookups)
		conclude(t);
}

static void look_up(struct target *t)
{
	struct weir_resolve_query q = {
		.size = sizeof(q), .name = t->host, .port = t->port,
	};
	struct weir_reactor *r = core_of(t)->r;

	for (int i = 0; i < 2; i++) {
		struct lookup *l = &t->lookups[i];

		q.family = l->family = i ? AF_INET : AF_INET6;
		l->target = t;
		l->found = t->found + i * ADDRESSES;
		l->op.fn = on_found;
		weir_op_set_deadline(&l->op, weir_reactor_now(r) + LOOKUP_NS);
		l->res = weir_resolve(t->route->config->resolver, &l->op, &q,
				      l->found, ADDRESSES);
		t->n_lookups += !l->res;
	}
	if (!t->n_lookups)
		conclude(t);
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

/* Its configuration has retired. */
void names_end(struct target *t)
{
	if (weir_op_is_busy(&t->op))
		weir_op_cancel(&t->op);
	for (int i = 0; i < 2; i++)
		if (weir_op_is_busy(&t->lookups[i].op))
			weir_op_cancel(&t->lookups[i].op);
}
