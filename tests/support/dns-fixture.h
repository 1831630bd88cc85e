/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_DNS_FIXTURE_H
#define TESTS_DNS_FIXTURE_H

/*
 * A DNS server on loopback, UDP and TCP, on the reactor of the test: it answers by
 * the names that it is given, or behaves badly as they say.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/reactor.h>
#include <weir/watch.h>

#include "tests/support/harness.h"

#define DNS_A 1
#define DNS_AAAA 28
#define DNS_HELD_MAX 32
#define DNS_CONNS_MAX 8
#define DNS_ADDRESSES_MAX 40

/* What it does with queries for a name. */
enum {
	DNS_SILENT_A = 1,
	DNS_SILENT_AAAA = 2,
	DNS_TRUNCATED = 4,	/* By UDP: ask by TCP. */
	DNS_LIES = 8,		/* First answers that must not count. */
	DNS_HOLD_A = 16,	/* Until dns_release(). */
	DNS_HOLD_AAAA = 32,
	DNS_GARBAGE = 64,	/* The bytes behind the question are none. */
	DNS_FEW = 128,		/* It has the answers, but promises one more. */
};

struct dns_name {
	const char *name;
	const char *addresses;	/* Separated by blanks; both families. */
	int rcode;		/* 2: failure; 5: refused. */
	unsigned int flags;
	uint32_t ttl;
};

struct dns_held {
	struct sockaddr_in from;
	size_t len;
	unsigned char packet[512];
};

struct dns;

struct dns_conn {
	struct dns *d;
	int fd;			/* 0: free. */
	struct weir_watch *watch;
};

struct dns {
	struct weir_reactor *r;
	const struct dns_name *names;
	size_t n_names;
	int udp, tcp;
	struct weir_watch *udp_watch, *tcp_watch;
	struct dns_conn conns[DNS_CONNS_MAX];
	char server[32];	/* For .servers. */
	unsigned int queries, by_tcp, n_held;
	struct dns_held held[DNS_HELD_MAX];
};

/* The name of the question, and where its type is; 0: there is none. */
static inline size_t dns_question(const unsigned char *p, size_t len, char *name)
{
	size_t at = 12, out = 0, n;

	while (at < len && p[at]) {
		n = p[at++];
		if (n > 63 || at + n >= len || out + n + 2 > 256)
			return 0;
		if (out)
			name[out++] = '.';
		memcpy(name + out, p + at, n);
		out += n;
		at += n;
	}
	name[out] = 0;
	return at + 5 <= len ? at + 1 : 0;
}

static inline const struct dns_name *dns_find(const struct dns *d,
					      const char *name)
{
	for (size_t i = 0; i < d->n_names; i++)
		if (!strcasecmp(d->names[i].name, name))
			return &d->names[i];
	return NULL;
}

/* Append @name's records of @type at @p; returns the bytes. */
static inline size_t dns_records(unsigned char *p, const struct dns_name *name,
				 int type, unsigned int *n)
{
	const size_t size = type == DNS_A ? 4 : 16;
	char copy[2048], *save, *word;
	unsigned char addr[16], *at = p;

	*n = 0;
	snprintf(copy, sizeof(copy), "%s", name->addresses ? name->addresses : "");
	for (word = strtok_r(copy, " ", &save); word;
	     word = strtok_r(NULL, " ", &save)) {
		if (inet_pton(type == DNS_A ? AF_INET : AF_INET6, word, addr) != 1)
			continue;
		memcpy(at, (unsigned char[]){
			0xc0, 12, 0, (unsigned char)type, 0, 1,
			(unsigned char)(name->ttl >> 24),
			(unsigned char)(name->ttl >> 16),
			(unsigned char)(name->ttl >> 8),
			(unsigned char)name->ttl, 0, (unsigned char)size }, 12);
		memcpy(at + 12, addr, size);
		at += 12 + size;
		++*n;
	}
	return (size_t)(at - p);
}

/* The answer to the @len bytes at @p, in @out (4096 bytes); 0: none. */
static inline size_t dns_answer(struct dns *d, const unsigned char *p, size_t len,
				unsigned char *out, bool udp)
{
	char text[256];
	size_t at = len < 17 ? 0 : dns_question(p, len, text), end;
	const struct dns_name *name;
	unsigned int n = 0;
	int type;

	if (!at)
		return 0;
	type = p[at] << 8 | p[at + 1];
	name = dns_find(d, text);
	if (name && name->flags & (type == DNS_A ? DNS_SILENT_A : DNS_SILENT_AAAA))
		return 0;
	end = at + 4;
	memcpy(out, p, end);
	out[2] = 0x81;
	out[3] = (unsigned char)(0x80 | (name ? name->rcode : 3));
	memset(out + 6, 0, 6);
	if (name && name->flags & DNS_TRUNCATED && udp) {
		out[2] |= 2;
	} else if (name && name->flags & DNS_GARBAGE) {
		memset(out + end, 0xff, 40);
		end += 40;
		n = 2;
	} else if (name && !name->rcode) {
		end += dns_records(out + end, name, type, &n);
		n += name->flags & DNS_FEW ? 1 : 0;
	}
	out[6] = (unsigned char)(n >> 8);
	out[7] = (unsigned char)n;
	return end;
}

static inline void dns_send(struct dns *d, const struct dns_held *q)
{
	const socklen_t from_len = sizeof(q->from);
	unsigned char out[4096];
	char text[256];
	size_t at = dns_question(q->packet, q->len, text);
	size_t len = dns_answer(d, q->packet, q->len, out, true);
	const struct dns_name *name = at ? dns_find(d, text) : NULL;

	if (!len)
		return;
	if (name && name->flags & DNS_LIES) {
		out[0] ^= 0x55; /* Of another query; with another address. */
		out[len - 1] ^= 0xff;
		(void)sendto(d->udp, out, len, 0, (const void *)&q->from,
			     from_len);
		out[0] ^= 0x55;
		out[14] ^= 1;	/* Of another name. */
		(void)sendto(d->udp, out, len, 0, (const void *)&q->from,
			     from_len);
		out[14] ^= 1;
		out[len - 1] ^= 0xff;
	}
	(void)sendto(d->udp, out, len, 0, (const void *)&q->from, from_len);
}

static inline bool dns_holds(const struct dns *d, const struct dns_held *q)
{
	char text[256];
	size_t at = q->len < 17 ? 0 : dns_question(q->packet, q->len, text);
	const struct dns_name *name = at ? dns_find(d, text) : NULL;

	return name && name->flags & (q->packet[at + 1] == DNS_A ? DNS_HOLD_A :
							DNS_HOLD_AAAA);
}

static inline void dns_on_udp(struct weir_watch *watch, uint32_t events, void *arg)
{
	struct dns *d = arg;
	struct dns_held q;
	socklen_t len = sizeof(q.from);
	ssize_t n = recvfrom(d->udp, q.packet, sizeof(q.packet), MSG_DONTWAIT,
			     (void *)&q.from, &len);

	(void)watch, (void)events;
	if (n < 0)
		return;
	q.len = (size_t)n;
	d->queries++;
	if (!dns_holds(d, &q))
		dns_send(d, &q);
	else if (d->n_held < DNS_HELD_MAX)
		d->held[d->n_held++] = q;
}

/* Answer what was held. */
static inline void dns_release(struct dns *d)
{
	for (unsigned int i = 0; i < d->n_held; i++)
		dns_send(d, &d->held[i]);
	d->n_held = 0;
}

static inline void dns_on_conn(struct weir_watch *watch, uint32_t events, void *arg)
{
	struct dns_conn *c = arg;
	unsigned char in[514], out[4098];
	ssize_t n = recv(c->fd, in, sizeof(in), MSG_DONTWAIT);
	size_t len;

	(void)events;
	if (n <= 2) {
		weir_watch_destroy(watch);
		close(c->fd);
		*c = (struct dns_conn){ .fd = 0 };
		return;
	}
	c->d->by_tcp++;
	len = dns_answer(c->d, in + 2, (size_t)n - 2, out + 2, false);
	out[0] = (unsigned char)(len >> 8);
	out[1] = (unsigned char)len;
	if (len)
		(void)send(c->fd, out, len + 2, MSG_NOSIGNAL);
}

static inline void dns_on_tcp(struct weir_watch *watch, uint32_t events, void *arg)
{
	struct dns *d = arg;
	struct dns_conn *c = d->conns;
	int fd = accept4(d->tcp, NULL, NULL, SOCK_CLOEXEC);

	(void)watch, (void)events;
	if (fd < 0)
		return;
	while (c->fd)
		c++;
	assert_true(c < d->conns + DNS_CONNS_MAX);
	*c = (struct dns_conn){ .d = d, .fd = fd };
	assert_int_equal(weir_watch_create(&c->watch, d->r, fd, WEIR_READABLE,
					   dns_on_conn, c), 0);
}

static inline void dns_start(struct dns *d, struct weir_reactor *r,
			     const struct dns_name *names, size_t n_names)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(addr);

	*d = (struct dns){ .r = r, .names = names, .n_names = n_names };
	d->udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(d->udp, (void *)&addr, len), 0);
	assert_int_equal(getsockname(d->udp, (void *)&addr, &len), 0);
	d->tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(d->tcp, (void *)&addr, len)) {
		/* Another process has that port. */
		close(d->tcp);
		close(d->udp);
		dns_start(d, r, names, n_names);
		return;
	}
	assert_int_equal(listen(d->tcp, 8), 0);
	snprintf(d->server, sizeof(d->server), "127.0.0.1:%d",
		 ntohs(addr.sin_port));
	assert_int_equal(weir_watch_create(&d->udp_watch, r, d->udp,
					   WEIR_READABLE, dns_on_udp, d), 0);
	assert_int_equal(weir_watch_create(&d->tcp_watch, r, d->tcp,
					   WEIR_READABLE, dns_on_tcp, d), 0);
}

static inline void dns_stop(struct dns *d)
{
	weir_watch_destroy(d->udp_watch);
	weir_watch_destroy(d->tcp_watch);
	for (int i = 0; i < DNS_CONNS_MAX; i++)
		if (d->conns[i].fd) {
			weir_watch_destroy(d->conns[i].watch);
			close(d->conns[i].fd);
		}
	close(d->udp);
	close(d->tcp);
}

#endif /* TESTS_DNS_FIXTURE_H */
