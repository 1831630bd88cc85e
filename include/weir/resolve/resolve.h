/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_RESOLVE_RESOLVE_H
#define WEIR_RESOLVE_RESOLVE_H

/*
 * Addresses of names, and connections to names, as operations.
 *
 *	struct weir_resolver *v;
 *	struct weir_resolve_query q = {
 *		.size = sizeof(q), .name = "www.example.org", .service = "443",
 *	};
 *
 *	weir_resolver_create(&v, reactor, NULL);
 *	weir_op_init(&rq->op, on_connected);
 *	weir_op_set_deadline(&rq->op, weir_reactor_now(reactor) + 10 * WEIR_SEC);
 *	err = weir_connect_name(v, &rq->op, &q, NULL, NULL);
 *
 * weir_resolve() answers with an ordered list of addresses, weir_connect_name()
 * with a connected socket.
 *
 * A name is looked for in this order, and the first place that has it decides:
 *
 *   - a numeric address ("192.0.2.1", "2001:db8::1", "fe80::1%eth0") is its own
 *     answer; no server is queried
 *   - the resolver's own table, .table of its options
 *   - /etc/hosts, and servers of DNS, with the search domains of resolv.conf(5);
 *     nsswitch.conf(5) says which of the two comes first
 *
 * There are two sources for the last step.  c-ares, if the library was built with
 * it, asks servers through sockets that the reactor watches; no thread waits.
 * It reads resolv.conf(5) and /etc/hosts on the reactor's thread.
 * Without c-ares getaddrinfo(3) is called on .workers_max of the reactor's worker
 * threads; further lookups wait for one.  weir_resolver_source() tells which
 * source it is.  Their results are the same, with these exceptions: getaddrinfo
 * reports no times to live; addresses that are equally good are in its own order,
 * not the server's; it cannot be stopped, so that after a cancel or a
 * deadline, which end the lookup at once, its thread goes on until the C library's
 * own timeouts, and is counted as .lingering; and it looks wherever nsswitch.conf(5)
 * says, also in mDNS or LDAP.
 *
 * A name of a service is looked up as nsswitch.conf(5) says, on the reactor's thread;
 * this waits if that names more than files.  Give .port to avoid it.
 *
 * In a simulated world numeric addresses and names of the table are found.  Others
 * are refused with -EOPNOTSUPP, as is weir_connect_name().
 *
 * With c-ares, "localhost" is this machine, and so are names below it that neither
 * /etc/hosts nor a server knows (RFC 6761).
 *
 * A lookup ends with
 *
 *	-ENOENT     the name does not exist
 *	-ENODATA    the name exists, without an address of that family
 *	-EREMOTEIO  no server can be reached, or the servers have failed, refused, or
 *	            sent malformed answers
 *	-ETIMEDOUT  no server has answered in time, or the deadline has passed
 *	-ECANCELED  it was cancelled
 *	-ENOMEM, -EMFILE  no memory or descriptor for the query
 *	-ESHUTDOWN  the reactor is stopping
 *
 * weir_resolve_error() has these as text, and weir_op_is_late() tells a deadline from
 * servers that have not answered.  The C library does not tell a failure of
 * the servers from silence; what took no less than the first timeout counts as
 * silence.
 *
 * The calls are in libweir-resolve.
 */

#include <netinet/in.h>
#include <sys/socket.h>

#include <weir/op.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_resolver;

/* The most addresses that a lookup has; others are dropped. */
#define WEIR_RESOLVE_ADDRESSES_MAX 64

/* The longest name, in bytes without the 0. */
#define WEIR_RESOLVE_NAME_MAX 253

/* Sources; weir_resolver_opts.source. */
#define WEIR_RESOLVE_AUTO 0	/* c-ares, if the library was built with it. */
#define WEIR_RESOLVE_CARES 1
#define WEIR_RESOLVE_LIBC 2	/* getaddrinfo(3), on worker threads. */

/*
 * Options of weir_resolver_create().  Set .size to the size of the struct; 0 is the
 * default of every other member.  Texts are copied.
 */
struct weir_resolver_opts {
	size_t size;
	uint32_t source;	/* WEIR_RESOLVE_ */
	uint32_t lookups_max;	/* In flight; at most 4096; default twice
				 * .connects_max.  With getaddrinfo those that
				 * linger count. */
	uint32_t connects_max;	/* In flight; default 64, at most 4096.  Each
				 * takes up to two lookups. */
	uint32_t workers_max;	/* Worker threads for getaddrinfo; default 2. */
	/*
	 * Servers to ask instead of those of resolv.conf(5), separated by commas:
	 * "192.0.2.53,[2001:db8::53]:5353".  With getaddrinfo at most three, and
	 * none of IPv6.
	 */
	const char *servers;
	const char *search;	/* Search domains, separated by blanks, instead
				 * of those of resolv.conf(5); "": none. */
	uint64_t timeout_ns;	/* For a server's answer to a first query;
				 * default: of resolv.conf(5).  getaddrinfo
				 * rounds it up to seconds. */
	uint32_t tries;		/* Of each server; default: of resolv.conf(5). */
	uint32_t reserved;	/* 0 */
	/*
	 * Names of the program's own: lines as in hosts(5), "192.0.2.1 name
	 * alias...", of at most 4096 addresses.  A name of several lines has
	 * several addresses.
	 */
	const char *table;
};

/*
 * Create a resolver on @r.
 *
 * Returns 0 with *@ret set, to be freed by weir_resolver_destroy(), or
 *   -EINVAL      an option is out of its range; .servers, .search or .table cannot
 *                be parsed; weir_why() says what is wrong
 *   -E2BIG       @opts sets a member that this version does not have
 *   -EOPNOTSUPP  the library was built without c-ares, and .source is
 *                WEIR_RESOLVE_CARES; or getaddrinfo cannot ask these .servers
 *   -ENOMEM      no memory
 *   -ESHUTDOWN   @r is stopping
 *
 * Call on @r's thread.
 *
 * Re-creates ares_init_options() and evdns_base_new().
 */
WEIR_API int weir_resolver_create(struct weir_resolver **ret,
				  struct weir_reactor *r,
				  const struct weir_resolver_opts *opts);

/*
 * Free @v.  NULL is allowed.
 *
 * A call of getaddrinfo that lingers on a worker thread goes on; its reactor cannot
 * be destroyed before it has ended.
 *
 * Returns 0, or
 *   -EBUSY  lookups or connects are in flight: cancel them, and wait for their
 *           callbacks
 *
 * Call on the resolver's reactor, callbacks included.  Never blocks.
 *
 * Re-creates ares_destroy() and evdns_base_free().
 */
WEIR_API int weir_resolver_destroy(struct weir_resolver *v);

/*
 * Get the name of @v's source: "c-ares 1.18.1", or "getaddrinfo".  The string is
 * static.
 *
 * Returns the name.  Call on the resolver's reactor.  Never blocks.
 */
WEIR_API const char *weir_resolver_source(const struct weir_resolver *v);

/* Counters of a resolver; weir_resolver_stats(). */
struct weir_resolver_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t lookups;	/* Started, */
	uint64_t found;		/* and ended with addresses. */
	uint64_t local;		/* Answered without asking the source. */
	uint64_t connects;	/* Of weir_connect_name(): started, */
	uint64_t connected;	/* and ended with a connection. */
	uint64_t attempts;	/* Connections that were tried. */
	uint64_t in_flight;	/* Lookups now. */
	uint64_t lingering;	/* Calls of getaddrinfo now whose lookup has
				 * ended. */
	uint64_t sockets;	/* Open now, to servers.  c-ares only. */
};

/*
 * Get the counters of @v.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the resolver's reactor.  Never blocks.
 */
WEIR_API int weir_resolver_stats(const struct weir_resolver *v,
				 struct weir_resolver_stats *ret);

/* An address of a name. */
struct weir_resolve_address {
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} addr;
	uint32_t len;		/* Bytes of .addr that are used. */
	uint32_t ttl;		/* Seconds that it may be used; UINT32_MAX: not
				 * known. */
	int32_t err;		/* Why weir_connect_name() could not connect to
				 * it; -EINPROGRESS: it was not decided. */
	uint32_t reserved;
};

/* Flags of a query. */
#define WEIR_RESOLVE_NUMERIC 1u	/* Accept only a numeric address. */

/*
 * What to look up.  Set .size to the size of the struct.  The library copies the
 * texts.
 */
struct weir_resolve_query {
	size_t size;
	const char *name;	/* A host, or a numeric address.  With a dot at
				 * its end, search domains are not tried. */
	const char *service;	/* A port, "443", or a name of services(5); NULL:
				 * .port. */
	uint32_t port;
	uint32_t family;	/* AF_INET, AF_INET6; 0 (AF_UNSPEC): both. */
	uint32_t flags;		/* WEIR_RESOLVE_ */
	uint32_t reserved;	/* 0 */
};

/*
 * Look up the addresses of a name, and store up to @n of them at @ret.
 *
 * They are in the order of RFC 6724: the one that is most likely to work comes
 * first.  Those of the table keep their order there.  None occurs twice.
 *
 * A name is made of labels of 1 to 63 bytes.  Names in other scripts have to be in
 * their ASCII form ("xn--...").  A name whose last label is a number is refused, as
 * browsers do: "127.1" and "0x7f.0.0.1" are addresses to some programs and names to
 * others.
 *
 * Completes with the number of addresses, at least 1, or one of the errnos above.
 * @ret is not touched if it fails.
 *
 * Returns 0, or
 *   -EINVAL        the name, service, port, family or a flag is none; @ret is NULL
 *                  or @n is 0; or the op is in flight or has no callback
 *   -ENAMETOOLONG  the name is longer than WEIR_RESOLVE_NAME_MAX
 *   -E2BIG         @query sets a member that this version does not have
 *   -EAGAIN        .lookups_max lookups are in flight, or the reactor's .ops_max
 *                  operations
 *   -EOPNOTSUPP    a name that is not in the table, in a simulated world
 *   -ENOMEM        no memory
 *   -ESHUTDOWN     the reactor is stopping
 *
 * @ret belongs to the operation until the callback.
 *
 * Call on the resolver's reactor.  May read files of the system, as described
 * above; never waits for a server.
 *
 * Re-creates getaddrinfo(3), uv_getaddrinfo() and ares_getaddrinfo().
 */
WEIR_API int weir_resolve(struct weir_resolver *v, struct weir_op *op,
			  const struct weir_resolve_query *query,
			  struct weir_resolve_address *ret, uint32_t n);

/*
 * Check a query without looking it up: a program that reads names from a file can
 * refuse at once what weir_resolve() and weir_connect_name() would.
 *
 * Returns 0, or
 *   -EINVAL        the name, service, port, family or a flag is none; weir_why()
 *                  says what is wrong
 *   -ENAMETOOLONG  the name is longer than WEIR_RESOLVE_NAME_MAX
 *   -E2BIG         @query sets a member that this version does not have
 *
 * Any thread.  Blocks only to look up .service, as described above.
 */
WEIR_API int weir_resolve_check(const struct weir_resolve_query *query);

/*
 * Called with each new socket of weir_connect_name(), before it is connected to
 * @addr: to bind it, or to set its options.  0, or a negative errno, with which this
 * address counts as failed.
 */
typedef int weir_connect_prepare_fn(int fd, const struct sockaddr *addr,
				    void *arg);

/* The most attempts of a weir_connect_name() that are in flight at a time. */
#define WEIR_CONNECT_ATTEMPTS_MAX 8

/*
 * Options of weir_connect_name().  Set .size to the size of the struct; 0 is the
 * default of every other member.
 */
struct weir_connect_opts {
	size_t size;
	uint64_t stagger_ns;	/* Between two attempts, unless one fails
				 * earlier; default 250 ms, at least 10 ms. */
	uint64_t delay_ns;	/* IPv4 addresses are known: how long to wait for
				 * those of IPv6; default 50 ms. */
	weir_connect_prepare_fn *prepare; /* NULL: none. */
	void *arg;		/* For .prepare. */
};

/*
 * What weir_connect_name() has done.  Set .size to the size of the struct, and
 * .addresses and .addresses_max, or leave these 0.
 */
struct weir_connect_report {
	size_t size;
	struct weir_resolve_address *addresses; /* Tried, in this order; .err of
				 * each is its outcome. */
	uint32_t addresses_max;	/* How many fit there. */
	uint32_t n_addresses;	/* How many were tried. */
	uint32_t connected;	/* The index of the one that is connected;
				 * UINT32_MAX: none. */
	int32_t err_in;		/* Of the lookup of IPv4 addresses; 0: found, or
				 * not looked for. */
	int32_t err_in6;	/* Of that of IPv6 addresses. */
	uint32_t reserved;
};

/*
 * Connect a TCP socket to the host and port of @query (happy eyeballs, RFC 8305).
 *
 * Looks up IPv6 and IPv4 addresses at the same time.  Begins when those of IPv6 are
 * known, or those of IPv4 and .delay_ns have passed.  Tries the addresses of both
 * families in turn, the best of each first: the next one when the one before has
 * failed, or after .stagger_ns, while the earlier attempts go on.  The first
 * that is connected wins; all others are cancelled, and closed before the callback.
 *
 * Completes with the connected descriptor, which is close-on-exec, O_NONBLOCK and
 * owned by the caller; or with
 *   -ETIMEDOUT, -ECANCELED  by a deadline, a cancel, or as below
 *   the errno of the attempt that has failed last, of connect(2), socket(2) or
 *                  .prepare, if there were addresses
 *   the errno of the lookup, as above, if there were none
 *
 * @report, if it is not NULL, has the details when the callback runs, also after a
 * failure.  It belongs to the operation until then.
 *
 * Returns 0, or
 *   -EINVAL        as weir_resolve(), or the port is 0; .stagger_ns is too small; a
 *                  .size is not set; or .addresses is NULL and .addresses_max is not
 *                  0
 *   -ENAMETOOLONG, -E2BIG, -ENOMEM, -ESHUTDOWN  as weir_resolve()
 *   -EAGAIN        .connects_max are in flight; or the lookups for it, two or, with
 *                  .family or a numeric address, one, would be more than
 *                  .lookups_max; or the reactor's .ops_max operations are in flight
 *   -EOPNOTSUPP    the reactor is simulated
 *
 * Call on the resolver's reactor.  Never waits for a peer.
 *
 * Re-creates bufferevent_socket_connect_hostname() and libcurl's happy eyeballs.
 */
WEIR_API int weir_connect_name(struct weir_resolver *v, struct weir_op *op,
			       const struct weir_resolve_query *query,
			       const struct weir_connect_opts *opts,
			       struct weir_connect_report *report);

/*
 * Get a text for the errno of a lookup: "the name does not exist".
 *
 * Returns a static string; for other errnos that of strerrordesc_np(3).  Any thread.
 * Never blocks.
 *
 * Re-creates gai_strerror(3).
 */
WEIR_API const char *weir_resolve_error(int64_t err);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_RESOLVE_RESOLVE_H */
