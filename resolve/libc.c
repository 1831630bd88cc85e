/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The source that blocks: getaddrinfo(3), on a few of the reactor's worker threads.
 *
 * Nothing can stop that call.  A lookup that is cancelled ends at once, and its
 * thread lingers with memory of the resolver's.  Lookups wait in a queue of the
 * resolver's and not in that of the workers, so that names never keep all workers
 * from files.
 *
 *	IDLE -> WAITING -> RUNNING -> IDLE
 *	           |          | cancel: the lookup ends; the thread goes on
 *	           +-> IDLE   +-> RUNNING, without an operation
 */

#include <errno.h>
#include <netdb.h>
#include <resolv.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "resolve/resolve.h"

#define DNS_PORT 53
#define TIMEOUT_DEFAULT (5 * WEIR_SEC) /* As glibc's. */

/* .state of a lookup. */
struct work {
	struct weir_op op;
	struct lookup *l;
	bool running;
	struct found found;	/* The thread's, while it runs. */
};

/* On the thread. */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * WEIR_SEC + (uint64_t)ts.tv_nsec;
}

#ifdef __GLIBC__
/* "192.0.2.53:5353" or without a port; returns whether it is one. */
static bool parse_server(struct sockaddr_in *in, const char *text)
{
	struct weir_resolve_address a;
	char host[64], *colon, *end;
	unsigned long port = DNS_PORT;

	if (strlen(text) >= sizeof(host))
		return false;
	strcpy(host, text);
	colon = strchr(host, ':');
	if (colon) {
		*colon = 0;
		port = strtoul(colon + 1, &end, 10);
		if (!colon[1] || *end || !port || port > 65535)
			return false;
	}
	if (!address_parse(&a, host) || a.addr.sa.sa_family != AF_INET)
		return false;
	*in = a.addr.in;
	in->sin_port = htons((uint16_t)port);
	return true;
}

static int parse_servers(struct sockaddr_in *servers, const char *text)
{
	char *copy = strdup(text), *save, *word;
	int n = 0;

	if (!copy)
		return -ENOMEM;
	for (word = strtok_r(copy, ", ", &save); word;
	     word = strtok_r(NULL, ", ", &save)) {
		if (n == MAXNS || !parse_server(&servers[n], word)) {
			n = -EOPNOTSUPP;
			break;
		}
		n++;
	}
	free(copy);
	return n ? n : -EOPNOTSUPP;
}

/*
 * glibc's configuration is one of each thread, and a thread that changes it is
 * served by it.  The thread is the reactor's: what was changed is undone.
 */
static void configure(const struct weir_resolver *v)
{
	size_t at = 0, len;
	const char *word;
	int n = 0;

	if (res_init())
		return;
	if (v->servers) {
		n = parse_servers(_res.nsaddr_list, v->servers);
		_res.nscount = n > 0 ? n : 0;
	}
	if (v->timeout_ns)
		_res.retrans = (int)((v->timeout_ns + WEIR_SEC - 1) / WEIR_SEC);
	if (v->tries)
		_res.retry = (int)v->tries;
	if (!v->search)
		return;
	for (n = 0, word = v->search; n < MAXDNSRCH; n++, word += len) {
		word += strspn(word, " \t");
		len = strcspn(word, " \t");
		if (!len || at + len >= sizeof(_res.defdname))
			break;
		_res.dnsrch[n] = memcpy(_res.defdname + at, word, len);
		_res.defdname[at + len] = 0;
		at += len + 1;
	}
	_res.dnsrch[n] = NULL;
	if (!n)
		_res.options &= ~(unsigned long)(RES_DNSRCH | RES_DEFNAMES);
}

static bool has_config(const struct weir_resolver *v)
{
	return v->servers || v->search || v->timeout_ns || v->tries;
}
#endif

static int errno_of(int err, uint64_t took_ns, uint64_t timeout_ns)
{
	switch (err) {
	case 0:
		return 0;
	case EAI_NONAME:
		return -ENOENT;
#ifdef EAI_NODATA
	case EAI_NODATA:
#endif
#ifdef EAI_ADDRFAMILY
	case EAI_ADDRFAMILY:
#endif
		return -ENODATA;
	case EAI_AGAIN:
		return took_ns >= timeout_ns ? -ETIMEDOUT : -EREMOTEIO;
	case EAI_MEMORY:
		return -ENOMEM;
	case EAI_SYSTEM:
		return errno == EMFILE || errno == ENFILE ? -EMFILE :
		       errno == ENOMEM ? -ENOMEM : -EREMOTEIO;
	default:
		return -EREMOTEIO;
	}
}

static int64_t look_up(void *arg)
{
	struct work *w = arg;
	const struct weir_resolver *v = w->l->v;
	struct addrinfo *list = NULL, hints = {
		.ai_family = w->l->q.family, .ai_socktype = SOCK_STREAM,
	};
	uint64_t began_ns, took_ns, timeout_ns = TIMEOUT_DEFAULT;
	int err;

#ifdef __GLIBC__
	if (has_config(v))
		configure(v);
#endif
	began_ns = now_ns();
	err = getaddrinfo(w->l->q.name, NULL, &hints, &list);
	took_ns = now_ns() - began_ns;
#ifdef __GLIBC__
	timeout_ns = (uint64_t)_res.retrans * WEIR_SEC;
#endif
	err = errno_of(err, took_ns, timeout_ns);
#ifdef __GLIBC__
	if (has_config(v))
		(void)res_init();
#endif
	for (const struct addrinfo *i = list; i; i = i->ai_next)
		found_add(&w->found, i->ai_addr, UINT32_MAX, w->l->q.port);
	if (list)
		freeaddrinfo(list);
	sort_addresses(&w->found);
	return err;
}

/* On the reactor. */

static void run_waiting(struct weir_resolver *v);

static void on_done(struct weir_op *op, int64_t res)
{
	struct work *w = weir_container_of(op, struct work, op);
	struct lookup *l = w->l;
	struct weir_resolver *v = l->v;

	w->running = false;
	v->n_workers--;
	if (l->op) {
		l->found = w->found;
		lookup_end(l, (int)res);
	}
	run_waiting(v);
	lookup_put(l); /* May free the resolver. */
}

static void run(struct lookup *l)
{
	struct work *w = l->state;
	int err;

	w->found.n = 0;
	weir_op_init(&w->op, on_done);
	err = weir_work(l->v->r, &w->op, look_up, w);
	if (err) {
		lookup_end(l, err == -EAGAIN ? -ENOMEM : err);
		lookup_put(l);
		return;
	}
	w->running = true;
	l->v->n_workers++;
}

static void run_waiting(struct weir_resolver *v)
{
	struct lookup *l;

	while (v->waiting && v->n_workers < v->workers_max) {
		l = v->waiting;
		v->waiting = l->next;
		if (!v->waiting)
			v->waiting_end = &v->waiting;
		l->next = NULL;
		run(l);
	}
}

static void start(struct lookup *l)
{
	struct weir_resolver *v = l->v;

	if (!l->state)
		l->state = calloc(1, sizeof(struct work));
	if (!l->state) {
		lookup_end(l, -ENOMEM);
		lookup_put(l);
		return;
	}
	((struct work *)l->state)->l = l;
	*v->waiting_end = l;
	v->waiting_end = &l->next;
	run_waiting(v);
}

static void cancel(struct lookup *l)
{
	struct weir_resolver *v = l->v;
	struct work *w = l->state;
	struct lookup **at = &v->waiting;

	if (w->running) {
		lookup_end(l, -ECANCELED);
		/* Work that has not begun ends now, and on_done() follows. */
		(void)weir_op_cancel(&w->op);
		return;
	}
	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	if (!*at)
		v->waiting_end = at;
	l->next = NULL;
	lookup_end(l, -ECANCELED);
	lookup_put(l);
}

static void fini(struct lookup *l)
{
	free(l->state);
}

static int init(struct weir_resolver *v, const char *call)
{
#ifdef __GLIBC__
	struct sockaddr_in servers[MAXNS];
	int n = v->servers ? parse_servers(servers, v->servers) : 1;

	if (n == -ENOMEM)
		return weir_why_set(n, "%s: no memory", call);
	if (n < 0)
		return weir_why_set(n, "%s: getaddrinfo can ask up to %d servers of "
				    "IPv4, \"192.0.2.53\" or \"192.0.2.53:5353\"",
				    call, MAXNS);
#else
	if (v->servers || v->search || v->timeout_ns || v->tries)
		return weir_why_set(-EOPNOTSUPP, "%s: this C library's getaddrinfo "
				    "takes its options from resolv.conf only",
				    call);
#endif
	return 0;
}

static const char *name(void)
{
	return "getaddrinfo";
}

const struct source source_libc = {
	.name = name, .init = init, .start = start, .cancel = cancel,
	.fini = fini,
};
