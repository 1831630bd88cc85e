/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RESOLVE_RESOLVE_H
#define RESOLVE_RESOLVE_H

/*
 * libweir-resolve, inside.
 *
 *	resolver.c  the resolver; a lookup from its start to its end
 *	query.c     what a query means; numeric addresses
 *	table.c     the resolver's own names
 *	cares.c     the source that asks servers: c-ares on the reactor
 *	libc.c      the source that blocks: getaddrinfo on worker threads
 *	sort.c      the order of RFC 6724
 *	connect.c   happy eyeballs
 */

#include <stdbool.h>
#include <stdint.h>

#include <weir/object.h>
#include <weir/op.h>
#include <weir/reactor.h>
#include <weir/resolve/resolve.h>
#include <weir/timer.h>
#include <weir/watch.h>

#define ADDRESSES_MAX WEIR_RESOLVE_ADDRESSES_MAX

/* A list of addresses that grows while there is capacity. */
struct found {
	uint32_t n;
	struct weir_resolve_address at[ADDRESSES_MAX];
};

/* A query that was checked. */
struct query {
	char name[WEIR_RESOLVE_NAME_MAX + 3]; /* With a dot at its end, and the
					 * zone of an address. */
	uint16_t port;
	int family;		/* AF_UNSPEC, AF_INET, AF_INET6. */
	bool numeric;		/* .addr is its answer. */
	struct weir_resolve_address addr;
};

struct entry {
	char *name;
	struct weir_resolve_address addr;
};

/*
 * A lookup.  It is the resolver's memory and outlives the caller's operation only
 * while getaddrinfo lingers.
 *
 *	free -> started (.op) -> ended (free)
 *	                      -> ended, lingering (.op is NULL) -> free
 */
struct lookup {
	struct weir_resolver *v;
	struct weir_op *op;	/* NULL: its callback is due. */
	struct weir_resolve_address *ret;
	uint32_t ret_max;
	struct query q;
	struct found found;
	struct lookup *next;	/* Free, or waiting for a worker. */
	void *state;		/* The source's; kept while it is free. */
};

/* Where addresses of names come from. */
struct source {
	const char *(*name)(void);
	int (*init)(struct weir_resolver *v, const char *call);
	/* Ends the lookup by lookup_end(), at once or later. */
	void (*start)(struct lookup *l);
	/* The same at once, if it is in flight. */
	void (*cancel)(struct lookup *l);
	/* Frees .state of a free lookup. */
	void (*fini)(struct lookup *l);
};

extern const struct source source_cares, source_libc;

struct connect;

struct weir_resolver {
	struct weir_reactor *r;
	struct weir_object *obj;
	const struct source *source;
	bool simulated;
	bool destroyed;		/* Only lingering lookups are left. */
	struct lookup *free;
	struct lookup *waiting, **waiting_end; /* For a worker. */
	uint32_t n_lookups;	/* Started, or lingering. */
	uint32_t n_workers;
	struct connect *connects; /* Free ones. */
	uint32_t n_connects;	/* In flight. */
	uint32_t lookups_max, connects_max, workers_max;
	char *servers, *search;
	uint64_t timeout_ns;
	uint32_t tries;
	struct entry *table;
	uint32_t n_table;
	struct weir_resolver_stats stats;
};

/* resolver.c */
void lookup_end(struct lookup *l, int err);
void lookup_put(struct lookup *l);
void resolver_free(struct weir_resolver *v);

/* query.c */
int query_check(struct query *q, const struct weir_resolve_query *src,
		const char *call);
bool address_parse(struct weir_resolve_address *ret, const char *text);
void address_set_port(struct weir_resolve_address *a, uint16_t port);
bool address_equal(const struct weir_resolve_address *a,
		   const struct weir_resolve_address *b);
/* Adds what is new; @sa of another family is left out. */
void found_add(struct found *f, const struct sockaddr *sa, uint32_t ttl,
	       uint16_t port);

/* table.c */
int table_load(struct weir_resolver *v, const char *text);
void table_free(struct weir_resolver *v);
/* Returns whether @v has the name, of whatever family. */
bool table_find(const struct weir_resolver *v, const struct query *q,
		struct found *ret);

/* sort.c */
struct source_address {
	bool is_reached;	/* There is a route, from this: */
	struct in6_addr addr;
};
void sort_find_source(const struct weir_resolve_address *dst,
		      struct source_address *ret);
int sort_compare(const struct weir_resolve_address *a,
		 const struct source_address *from_a,
		 const struct weir_resolve_address *b,
		 const struct source_address *from_b);
void sort_addresses(struct found *f);

/* connect.c */
void connects_free(struct weir_resolver *v);

#endif /* RESOLVE_RESOLVE_H */
