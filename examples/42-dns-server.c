/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A DNS server: each datagram is a question, and its answer is a copy of the
 * description of it, so that it leaves from the address that was asked, also where
 * this machine has several.
 *
 *	42-dns-server 5353 weir.example 192.0.2.7 other.example 192.0.2.8 &
 *	dig @127.0.0.1 -p 5353 weir.example
 *
 * Without arguments it asks itself, and ends.
 */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <weir/reactor.h>
#include <weir/udp.h>

#define HEADER 12
#define PACKET 512
#define ANSWERS 256		/* In flight; a question that comes then is lost. */

struct answer {
	struct weir_op op;
	struct answer *next;
	unsigned char packet[PACKET];
};

struct server {
	struct answer answers[ANSWERS], *free;
	char **names;		/* Name, address, name, address, ... */
	int n;
};

static struct server server;
static struct weir_reactor *reactor;

static void on_sent(struct weir_op *op, int64_t res)
{
	struct answer *a = weir_container_of(op, struct answer, op);

	if (res < 0)
		fprintf(stderr, "an answer was not sent: %s\n",
			strerror((int)-res));
	a->next = server.free;
	server.free = a;
}

/* The name at @p as text.  Returns what follows it, or NULL if it is none. */
static const unsigned char *read_name(const unsigned char *p,
				      const unsigned char *end, char *ret)
{
	char *at = ret;

	while (p < end && *p) {
		if (*p > 63 || end - p <= *p || at - ret + *p > 254)
			return NULL;
		memcpy(at, p + 1, *p);
		at += *p;
		*at++ = '.';
		p += *p + 1;
	}
	at[at > ret ? -1 : 0] = 0;
	return p < end ? p + 1 : NULL;
}

static const char *find(const struct server *s, const char *name)
{
	for (int i = 0; i + 1 < s->n; i += 2)
		if (!strcasecmp(s->names[i], name))
			return s->names[i + 1];
	return NULL;
}

/* Fill @p with the answer to the question @q; its bytes, or 0 for none. */
static uint32_t answer(const struct server *s, unsigned char *p,
		       const unsigned char *q, uint32_t len)
{
	static const unsigned char record[] = { 0xc0, HEADER, 0, 1, 0, 1,
						0, 0, 0, 60, 0, 4 };
	const unsigned char *end = q + len, *after;
	const char *address;
	uint32_t n;
	char name[256];

	if (len < HEADER || len > PACKET || q[2] & 0x80)
		return 0; /* Not a question: an answer to it would go on for ever. */
	after = read_name(q + HEADER, end, name);
	if (memcmp(q + 4, "\0\1", 2) || !after || end - after < 4)
		return 0;
	n = (uint32_t)(after + 4 - q);
	memcpy(p, q, n);
	address = find(s, name);
	p[2] = (unsigned char)(0x84 | (q[2] & 0x79)); /* With authority. */
	p[3] = address ? 0 : 3;			       /* NXDOMAIN */
	memset(p + 6, 0, 6);
	/* Of type A, class IN. */
	if (!address || memcmp(after, "\0\1\0\1", 4) ||
	    n + sizeof(record) + 4 > PACKET)
		return n;
	p[7] = 1;
	memcpy(p + n, record, sizeof(record));
	inet_pton(AF_INET, address, p + n + sizeof(record));
	return n + (uint32_t)sizeof(record) + 4;
}

static int on_question(struct weir_udp *udp, const struct weir_udp_msg *msg,
		       int err, void *arg)
{
	struct server *s = arg;
	struct weir_udp_msg reply;
	struct answer *a = s->free;

	if (err && weir_udp_is_ended(udp)) {
		fprintf(stderr, "the socket: %s\n", strerror(-err));
		weir_reactor_break(reactor);
	}
	if (err || !a)
		return WEIR_UDP_DONE;
	reply = *msg;
	reply.data = a->packet;
	reply.len = answer(s, a->packet, msg->data, msg->len);
	if (!reply.len)
		return WEIR_UDP_DONE;
	s->free = a->next;
	if (weir_udp_send(udp, &a->op, &reply))
		on_sent(&a->op, 0);
	return WEIR_UDP_DONE;
}

/* The client of the self-test: one question, one answer. */

static int found;

static int on_answer(struct weir_udp *udp, const struct weir_udp_msg *msg,
		     int err, void *arg)
{
	const unsigned char *p = msg ? msg->data : NULL;

	(void)udp, (void)arg;
	found = !err && msg->len > 4 && p[3] == 0 &&
		!memcmp(p + msg->len - 4, "\xc0\0\2\7", 4);
	printf("weir.example: %s\n", found ? "192.0.2.7" : "not found");
	weir_reactor_break(reactor);
	return WEIR_UDP_DONE;
}

static void ignore(struct weir_op *op, int64_t res)
{
	(void)op, (void)res;
}

static int ask(const struct sockaddr *server_addr)
{
	static char question[] = "\x12\x34\1\0\0\1\0\0\0\0\0\0"
				 "\4weir\7example\0\0\1\0\1";
	struct weir_udp_msg msg = { .data = question,
				    .len = sizeof(question) - 1 };
	static struct weir_op op = { .fn = ignore };
	struct weir_udp *udp;
	int fd;

	if (weir_udp_open(&fd, NULL, server_addr, 0) ||
	    weir_udp_create(&udp, reactor, fd, NULL, on_answer, NULL) ||
	    weir_udp_send(udp, &op, &msg))
		return -1;
	weir_reactor_run(reactor);
	weir_udp_destroy(udp);
	return close(fd) || !found;
}

int main(int argc, char **argv)
{
	static char *example[] = { "weir.example", "192.0.2.7" };
	struct weir_udp_opts opts = { .size = sizeof(opts),
				      .flags = WEIR_UDP_LOCAL };
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof(addr);
	struct weir_udp *udp;
	int fd, bad = 0;

	server.names = argc > 2 ? argv + 2 : example;
	server.n = argc > 2 ? argc - 2 : 2;
	for (int i = 1; i < server.n; i += 2)
		if (inet_pton(AF_INET, server.names[i], &addr.sin_addr) != 1) {
			fprintf(stderr, "%s is not an IPv4 address\n",
				server.names[i]);
			return 2;
		}
	addr.sin_port = htons((in_port_t)(argc > 1 ? atoi(argv[1]) : 0));
	addr.sin_addr.s_addr = htonl(argc > 1 ? INADDR_ANY : INADDR_LOOPBACK);
	for (int i = 0; i < ANSWERS; i++) {
		weir_op_init(&server.answers[i].op, on_sent);
		on_sent(&server.answers[i].op, 0);
	}
	if (weir_reactor_create(&reactor, NULL) ||
	    weir_udp_open(&fd, (struct sockaddr *)&addr, NULL, 0) ||
	    weir_udp_create(&udp, reactor, fd, &opts, on_question, &server)) {
		fprintf(stderr, "%s\n", weir_why());
		return 1;
	}
	getsockname(fd, (struct sockaddr *)&addr, &len);
	printf("port %u\n", ntohs(addr.sin_port));
	fflush(stdout);
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (argc > 1)
		weir_reactor_run(reactor);
	else
		bad = ask((struct sockaddr *)&addr);
	weir_udp_destroy(udp);
	return close(fd) || bad || weir_reactor_destroy(reactor);
}
