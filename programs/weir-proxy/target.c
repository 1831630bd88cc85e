/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The targets of a route, and which of their servers a connection gets.
 *
 * A server is an address.  One that has failed rests, and one whose checks fail is
 * down; both are passed over, unless there is no other.  All of this is a core's own:
 * each core chooses, checks and counts by itself, so cores share nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "weir-proxy.h"

struct target *target_add(struct route *route)
{
	struct target *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->route = route;
	t->weight = 1;
	*route->targets_end = t;
	route->targets_end = &t->next;
	return t;
}

/* One that no other server of the route has, unless 64 have one. */
static uint64_t free_bit(const struct route *route)
{
	uint64_t used = 0;

	for (const struct server *s = route->servers; s; s = s->next)
		used |= s->bit;
	return ~used ? ~used & (used + 1) :
	       UINT64_C(1) << route->n_servers % 64;
}

struct server *server_add(struct target *t, const struct address *addr)
{
	struct route *route = t->route;
	struct server **at = &route->servers, *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->target = t;
	s->addr = *addr;
	s->check.fd = -1;
	s->bit = free_bit(route);
	address_print(s->name, addr);
	while (*at)
		at = &(*at)->next;
	*at = s;
	route->n_servers++;
	return s;
}

/* It gets no more connections; those that it has go on. */
void server_remove(struct server *s)
{
	struct route *route = s->target->route;
	struct server **at = &route->servers;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	route->n_servers--;
	s->gone = true;
	s->users++;
	if (weir_op_is_busy(&s->check.op))
		weir_op_cancel(&s->check.op);
	server_put(s);
}

void server_put(struct server *s)
{
	if (!--s->users && s->gone)
		free(s);
}

/* ---- the choice ---- */

/* Smooth weighted round robin: each server gains its weight; the chosen one loses the
 * sum of all weights. */
static bool has_turn(const struct server *s, const struct server *best)
{
	return s->current > best->current;
}

static bool has_less(const struct server *s, const struct server *best)
{
	uint64_t mine = (uint64_t)s->n_conns * best->target->weight;
	uint64_t its = (uint64_t)best->n_conns * s->target->weight;

	return mine < its || (mine == its && s->chosen < best->chosen);
}

static struct server *choose_well(struct route *route, uint64_t now,
				  uint64_t tried)
{
	struct server *s, *best = NULL;
	int64_t all = 0;

	for (s = route->servers; s; s = s->next) {
		if (s->down || s->rests_until > now || tried & s->bit)
			continue;
		s->current += s->target->weight;
		all += s->target->weight;
		if (!best || (route->least ? has_less : has_turn)(s, best))
			best = s;
	}
	if (best)
		best->current -= all;
	return best;
}

/* All have failed: any that was not tried, in turns.  Of more than 64 some share a bit:
 * then any, in turns. */
static struct server *choose_any(struct route *route, uint64_t tried)
{
	uint64_t skip = route->turn % route->n_servers;
	struct server *s, *first = NULL, *turn = NULL;

	for (s = route->servers; s; s = s->next) {
		if (!skip--)
			turn = s;
		if (tried & s->bit)
			continue;
		if (turn)
			return s;
		if (!first)
			first = s;
	}
	return first ? first : turn;
}

/* NULL: there is none at all. */
struct server *server_choose(struct route *route, uint64_t now, uint64_t tried)
{
	struct server *s;

	if (!route->n_servers)
		return NULL;
	s = choose_well(route, now, tried);
	if (!s)
		s = choose_any(route, tried);
	s->chosen = ++route->turn;
	return s;
}

/* ---- the servers of a configuration ---- */

/* Most is known of one that is checked. */
static struct server *find_server(const struct config *c, const char *name)
{
	const struct route *route;
	struct server *s, *found = NULL;

	for (route = c->routes; route; route = route->next)
		for (s = route->servers; s; s = s->next)
			if (!strcmp(s->name, name) &&
			    (!found || route->check_ns))
				found = s;
	return found;
}

static const struct target *find_name(const struct config *c, const char *host)
{
	const struct route *route;
	const struct target *t;

	for (route = c->routes; route; route = route->next)
		for (t = route->targets; t; t = t->next)
			if (t->host && !strcmp(t->host, host))
				return t;
	return NULL;
}

/* What was learnt of a target before a reload is as true after it. */
static void inherit(struct route *route, const struct config *before)
{
	const struct server *old;
	const struct target *named;
	struct target *t;
	struct server *s;

	for (t = route->targets; t; t = t->next) {
		named = t->host ? find_name(before, t->host) : NULL;
		if (named)
			names_inherit(t, named);
	}
	for (s = route->servers; s; s = s->next) {
		old = find_server(before, s->name);
		if (!old)
			continue;
		s->rests_until = old->rests_until;
		s->down = old->down && route->check_ns;
	}
}

static bool has_names(const struct config *c)
{
	const struct route *route;
	const struct target *t;

	for (route = c->routes; route; route = route->next)
		for (t = route->targets; t; t = t->next)
			if (t->host)
				return true;
	return false;
}

static void make_resolver(struct config *c)
{
	struct weir_resolver_opts opts = {
		.size = sizeof(opts), .servers = c->nameservers,
		.lookups_max = 2048,
	};

	if (has_names(c) && weir_resolver_create(&c->resolver, c->core->r, &opts))
		complain("no names: %s", weir_why());
}

/* @c is in force on its core: look up its names, and check its servers. */
void config_begin(struct config *c, const struct config *before)
{
	struct route *route;
	struct target *t;
	struct server *s;

	make_resolver(c);

	for (route = c->routes; route; route = route->next) {
		if (before)
			inherit(route, before);
		for (s = route->servers; s; s = s->next)
			check_begin(s);
		for (t = route->targets; t; t = t->next)
			if (t->host && c->resolver)
				names_begin(t);
			else
				t->known = true;
	}
}

/* No more lookups and checks.  Connections that have it go on. */
void config_retire(struct config *c)
{
	struct route *route;
	struct target *t;
	struct server *s;

	c->retired = true;
	for (route = c->routes; route; route = route->next) {
		for (t = route->targets; t; t = t->next)
			names_end(t);
		for (s = route->servers; s; s = s->next)
			if (weir_op_is_busy(&s->check.op))
				weir_op_cancel(&s->check.op);
	}
}

/* Whether a connection has somewhere to go, or never will. */
bool route_is_ready(const struct route *route)
{
	const struct target *t;

	if (route->n_servers)
		return true;
	for (t = route->targets; t; t = t->next)
		if (t->host && !t->known)
			return false;
	return true;
}

void route_free(struct route *route)
{
	struct target *t;

	while (route->servers)
		server_remove(route->servers);
	while ((t = route->targets)) {
		route->targets = t->next;
		free(t->host);
		free(t->found);
		free(t);
	}
	tls_free(route);
	free(route->tls.cert);
	free(route->tls.key);
	free(route->tls.alpn);
	free(route->tls.client_ca);
	free(route->tls.ca);
	free(route->tls.name);
	free(route->nets);
	free(route->check_path);
	free(route);
}
