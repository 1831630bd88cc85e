/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A DNS query as an operation: c-ares does the work, and weir_op_start() gives
 * it a callback from the loop, a deadline, a cancel and an end at the stop.
 * The server is one of our own, which answers all names but "silent".
 */

#include <ares.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "dns-server.h"

#include <weir/timer.h>
#include <weir/watch.h>

#define SOCKETS_MAX 16
struct resolver {
	struct weir_reactor *r;
	ares_channel channel;
	struct weir_timer *timer;
	struct { int fd; struct weir_watch *watch; } sockets[SOCKETS_MAX];
};

/* It outlives the operation: c-ares cannot end one query of a channel. */
struct query {
	struct weir_op *op;	/* NULL: it was cancelled. */
	struct sockaddr_in *ret;
};

/* When c-ares wants to be called again, if nothing comes. */
static void set_timer(struct resolver *v)
{
	struct timeval tv, *next = ares_timeout(v->channel, NULL, &tv);

	weir_timer_stop(v->timer);
	if (next)
		weir_timer_start(v->timer, weir_reactor_now(v->r) +
				 (uint64_t)tv.tv_sec * WEIR_SEC +
				 (uint64_t)tv.tv_usec * WEIR_USEC, 0);
}

static void on_timer(struct weir_timer *timer, uint64_t n, void *arg)
{
	struct resolver *v = arg;

	(void)timer, (void)n;
	ares_process_fd(v->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	set_timer(v);
}

/* This may destroy the watch. */
static void on_ready(struct weir_watch *watch, uint32_t events, void *arg)
{
	struct resolver *v = arg;
	int i = 0;

	(void)events;
	while (v->sockets[i].watch != watch)
		i++;
	ares_process_fd(v->channel, v->sockets[i].fd, v->sockets[i].fd);
	set_timer(v);
}

/* c-ares waits for @fd to be readable or writable, or closes it.  If there is no
 * place for another, the query times out. */
static void on_socket(void *arg, int fd, int readable, int writable)
{
	struct resolver *v = arg;
	uint32_t events = (readable ? WEIR_READABLE : 0u) |
			  (writable ? WEIR_WRITABLE : 0u);

	for (int i = 0; i < SOCKETS_MAX; i++)
		if (v->sockets[i].watch && v->sockets[i].fd == fd) {
			weir_watch_destroy(v->sockets[i].watch);
			v->sockets[i].watch = NULL;
		}
	for (int i = 0; events && i < SOCKETS_MAX; i++)
		if (!v->sockets[i].watch) {
			v->sockets[i].fd = fd;
			weir_watch_create(&v->sockets[i].watch, v->r, fd,
					  events, on_ready, v);
			break;
		}
}

static int errno_of(int status)
{
	return !status ? 0 : status == ARES_ENOTFOUND ? -ENOENT :
	       status == ARES_ETIMEOUT ? -ETIMEDOUT : -EIO;
}

static void on_answer(void *arg, int status, int timeouts,
		      struct ares_addrinfo *res)
{
	struct query *q = arg;

	(void)timeouts;
	if (q->op) {
		if (res && res->nodes)
			memcpy(q->ret, res->nodes->ai_addr, sizeof(*q->ret));
		weir_op_finish(q->op, errno_of(status));
	}
	ares_freeaddrinfo(res);
	free(q);
}

static void on_cancel(struct weir_op *op, void *arg)
{
	((struct query *)arg)->op = NULL;
	weir_op_finish(op, -ECANCELED);
}

/* Look up @name, and complete @op with 0 or an errno, like any operation. */
static int resolve(struct resolver *v, struct weir_op *op, const char *name,
		   struct sockaddr_in *ret)
{
	struct ares_addrinfo_hints hints = { .ai_family = AF_INET };
	struct query *q = calloc(1, sizeof(*q));
	int err = q ? weir_op_start(v->r, op, on_cancel, q) : -ENOMEM;

	if (err) {
		free(q);
		return err;
	}
	q->op = op;
	q->ret = ret;
	/* It may call on_answer() at once. */
	ares_getaddrinfo(v->channel, name, NULL, &hints, on_answer, q);
	set_timer(v);
	return 0;
}

static int resolver_init(struct resolver *v, struct weir_reactor *r, int port)
{
	struct ares_options opts = {
		.lookups = (char[]){ "b" }, .flags = ARES_FLAG_NOSEARCH,
		.sock_state_cb = on_socket, .sock_state_cb_data = v,
	};
	char server[32];

	*v = (struct resolver){ .r = r };
	snprintf(server, sizeof(server), "127.0.0.1:%d", port);
	return weir_timer_create(&v->timer, r, on_timer, v) ||
	       ares_init_options(&v->channel, &opts, ARES_OPT_LOOKUPS |
				 ARES_OPT_FLAGS | ARES_OPT_SOCK_STATE_CB) ||
	       ares_set_servers_ports_csv(v->channel, server);
}

struct request {
	struct weir_op op;
	struct weir_reactor *r;
	struct sockaddr_in addr;
	int64_t res;
};

static void on_resolved(struct weir_op *op, int64_t res)
{
	struct request *rq = weir_container_of(op, struct request, op);

	rq->res = res;
	weir_reactor_break(rq->r);
}

static int64_t look_up(struct resolver *v, struct request *rq,
		       const char *name, uint64_t timeout)
{
	weir_op_init(&rq->op, on_resolved);
	weir_op_set_deadline(&rq->op, weir_reactor_now(rq->r) + timeout);
	rq->res = resolve(v, &rq->op, name, &rq->addr);
	if (!rq->res)
		weir_reactor_run(rq->r);
	printf("%s: %s\n", name, rq->res ? strerror((int)-rq->res) : "found");
	return rq->res;
}

int main(void)
{
	static struct dns_server server;
	static struct resolver v;
	struct request rq = { .res = 1 };
	int bad;

	if (weir_reactor_create(&rq.r, NULL) ||
	    dns_server_start(&server, rq.r) ||
	    ares_library_init(ARES_LIB_INIT_ALL) ||
	    resolver_init(&v, rq.r, server.port))
		return 1;
	bad = look_up(&v, &rq, "weir.example", 10 * WEIR_SEC) ||
	      rq.addr.sin_addr.s_addr != htonl(DNS_ANSWER) ||
	      look_up(&v, &rq, "silent.example", 50 * WEIR_MSEC) != -ETIMEDOUT ||
	      look_up(&v, &rq, "192.0.2.9", WEIR_SEC);
	ares_destroy(v.channel);
	ares_library_cleanup();
	weir_timer_destroy(v.timer);
	return bad || dns_server_stop(&server) || weir_reactor_destroy(rq.r);
}
