/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A connection to a name, as one operation: both families are looked up, and their
 * addresses tried, until one is connected or the time is over.
 *
 *	44-connect-by-name www.example.org 80
 *
 * Without arguments it connects to a listener of its own, which the resolver's table
 * gives a name of two addresses, the first of which has no listener.
 */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <weir/reactor.h>
#include <weir/resolve/resolve.h>
#include <weir/socket.h>

#define TRIED_MAX 16

struct request {
	struct weir_op op;
	struct weir_reactor *r;
	struct weir_connect_report report;
	struct weir_resolve_address tried[TRIED_MAX];
	int64_t res;
};

static void on_connected(struct weir_op *op, int64_t res)
{
	struct request *rq = weir_container_of(op, struct request, op);

	rq->res = res;
	weir_reactor_break(rq->r);
}

static void print(const struct weir_resolve_address *a)
{
	char text[INET6_ADDRSTRLEN];

	if (a->addr.sa.sa_family == AF_INET)
		inet_ntop(AF_INET, &a->addr.in.sin_addr, text, sizeof(text));
	else
		inet_ntop(AF_INET6, &a->addr.in6.sin6_addr, text, sizeof(text));
	printf("%s: %s\n", text, a->err ? strerror(-a->err) : "connected");
}

static int connect_to(struct weir_resolver *v, struct request *rq,
		      const char *name, const char *service)
{
	struct weir_resolve_query q = {
		.size = sizeof(q), .name = name, .service = service,
	};
	struct weir_resolver_stats stats = { .size = sizeof(stats) };
	int err;

	rq->report = (struct weir_connect_report){
		.size = sizeof(rq->report), .addresses = rq->tried,
		.addresses_max = TRIED_MAX,
	};
	weir_op_init(&rq->op, on_connected);
	weir_op_set_deadline(&rq->op, weir_reactor_now(rq->r) + 10 * WEIR_SEC);
	err = weir_connect_name(v, &rq->op, &q, NULL, &rq->report);
	if (err) {
		fprintf(stderr, "%s\n", weir_why());
		return 1;
	}
	weir_reactor_run(rq->r);
	weir_resolver_stats(v, &stats);
	printf("%s: %llu attempts, by %s\n", name,
	       (unsigned long long)stats.attempts, weir_resolver_source(v));
	for (uint32_t i = 0; i < rq->report.n_addresses && i < TRIED_MAX; i++)
		print(&rq->tried[i]);
	if (rq->res < 0) {
		fprintf(stderr, "%s: %s\n", name, weir_resolve_error(rq->res));
		return 1;
	}
	return close((int)rq->res);
}

/* A listener on loopback; its port as text. */
static int listen_here(char *port, size_t capacity)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(in);
	int fd;

	if (weir_listen(&fd, (struct sockaddr *)&in, len, 1, 0) ||
	    getsockname(fd, (struct sockaddr *)&in, &len))
		return -1;
	snprintf(port, capacity, "%d", ntohs(in.sin_port));
	return fd;
}

int main(int argc, char **argv)
{
	struct weir_resolver_opts opts = {
		.size = sizeof(opts),
		.table = "127.0.0.2 twofold\n127.0.0.1 twofold\n",
	};
	struct request rq = { .res = 0 };
	struct weir_resolver *v;
	char port[8];
	int fd, bad;

	if (argc != 1 && argc != 3) {
		fputs("usage: 44-connect-by-name [NAME SERVICE]\n", stderr);
		return 2;
	}
	fd = listen_here(port, sizeof(port));
	if (fd < 0 || weir_reactor_create(&rq.r, NULL) ||
	    weir_resolver_create(&v, rq.r, &opts)) {
		fprintf(stderr, "44-connect-by-name: %s\n", weir_why());
		return 1;
	}
	bad = argc == 3 ? connect_to(v, &rq, argv[1], argv[2]) :
			  connect_to(v, &rq, "twofold", port);
	close(fd);
	return weir_resolver_destroy(v) || weir_reactor_destroy(rq.r) || bad;
}
