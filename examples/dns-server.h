/* SPDX-License-Identifier: CC0-1.0 */
/* A DNS server on loopback, for 30-resolver.c: each name but "silent..." has
 * one address. */
#ifndef EXAMPLES_DNS_SERVER_H
#define EXAMPLES_DNS_SERVER_H

#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include <weir/reactor.h>
#include <weir/socket.h>

#define DNS_ANSWER 0xc0000207u	/* 192.0.2.7 */
#define DNS_HEADER 12

struct dns_server {
	struct weir_op op;
	struct weir_reactor *r;
	struct sockaddr_in from;
	struct iovec iov;
	struct msghdr msg;
	unsigned char packet[576];
	int fd, port;
	int sends, stops, busy;
};

static int dns_receive(struct dns_server *s)
{
	s->sends = 0;
	s->iov = (struct iovec){ s->packet, 512 };
	s->msg = (struct msghdr){
		.msg_name = &s->from, .msg_namelen = sizeof(s->from),
		.msg_iov = &s->iov, .msg_iovlen = 1,
	};
	return weir_recvmsg(s->r, &s->op, s->fd, &s->msg, 0);
}

/* The question as it came, and one record.  Returns the bytes, or 0. */
static size_t dns_answer(unsigned char *p, size_t len)
{
	static const unsigned char record[] = {
		0xc0, DNS_HEADER, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4,
		DNS_ANSWER >> 24, DNS_ANSWER >> 16 & 255,
		DNS_ANSWER >> 8 & 255, DNS_ANSWER & 255,
	};
	size_t end = DNS_HEADER;

	if (len < DNS_HEADER + 7 || !memcmp(p + end, "\6silent", 7))
		return 0;
	while (end < len && p[end])
		end += p[end] + 1u;
	end += 5; /* The last label, the type and the class. */
	if (end > len)
		return 0;
	p[2] |= 0x80;	/* An answer */
	p[3] = 0x80;	/* without errors. */
	memcpy(p + 4, "\0\1\0\1\0\0\0", 8);
	memcpy(p + end, record, sizeof(record));
	return end + sizeof(record);
}

static void dns_next(struct weir_op *op, int64_t res)
{
	struct dns_server *s = weir_container_of(op, struct dns_server, op);
	size_t len = 0;

	s->busy = 0;
	if (s->stops)
		return;
	if (!s->sends && res > 0)
		len = dns_answer(s->packet, (size_t)res);
	s->iov.iov_len = len;
	s->sends = len > 0;
	s->busy = !(len ? weir_sendmsg(s->r, &s->op, s->fd, &s->msg, 0) :
		    dns_receive(s));
}

static int dns_server_start(struct dns_server *s, struct weir_reactor *r)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(addr);

	s->r = r;
	s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s->fd < 0 || bind(s->fd, (struct sockaddr *)&addr, len) ||
	    getsockname(s->fd, (struct sockaddr *)&addr, &len))
		return -1;
	s->port = ntohs(addr.sin_port);
	weir_op_init(&s->op, dns_next);
	s->busy = 1;
	return dns_receive(s);
}

static int dns_server_stop(struct dns_server *s)
{
	s->stops = 1;
	if (s->busy)
		weir_op_cancel(&s->op);
	while (s->busy)
		if (weir_reactor_turn(s->r, WEIR_FOREVER) < 0)
			return -1;
	return close(s->fd);
}

#endif /* EXAMPLES_DNS_SERVER_H */
