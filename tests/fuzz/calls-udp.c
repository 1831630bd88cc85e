/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls to UDP sockets: each sends to itself. */

#include <netinet/in.h>

#include "tests/fuzz/calls.h"

static union weir_udp_addr loopback(uint32_t port)
{
	union weir_udp_addr a;

	memset(&a, 0, sizeof(a));
	a.in.sin_family = AF_INET;
	a.in.sin_addr.s_addr = htonl(w.sim ? INADDR_ANY : INADDR_LOOPBACK);
	a.in.sin_port = htons((in_port_t)port);
	return a;
}

static union weir_udp_addr own_address(int fd)
{
	union weir_udp_addr a = loopback(0);
	socklen_t len = sizeof(a);

	MUST(!(w.sim ? weir_sim_getsockname(fd, &a.any, &len) :
		       getsockname(fd, &a.any, &len)));
	return a;
}

static struct object *datagram_fd(void)
{
	union weir_udp_addr any_port = loopback(0);
	int fd;

	if (w.sim) {
		MUST(CALL(weir_udp_open, &fd, NULL, NULL, 0) == -EINVAL);
		if (weir_sim_datagram(w.sim, NULL, &fd, AF_INET))
			return NULL;
		MUST(!weir_sim_bind(fd, &any_port.any, sizeof(any_port.in)));
		return fd_new(fd, FD_DATAGRAMS);
	}
	if (CALL(weir_udp_open, &fd, &any_port.any, NULL, 0))
		return NULL;
	return fd_new(fd, FD_DATAGRAMS);
}

static int on_datagram(struct weir_udp *udp, const struct weir_udp_msg *msg,
		       int err, void *arg)
{
	struct object *o = arg, *kept = NULL;

	MUST(o->h == udp && !msg == !!err);
	if (msg) {
		memset(msg->data, 0, msg->len);
		kept = one_in(3) ? object_new(A_DATAGRAM, o->core) : NULL;
	}
	if (kept)
		object_pin(kept, o);
	act(o);
	if (kept)
		kept->h = msg->data;
	return kept ? WEIR_UDP_KEEP : WEIR_UDP_DONE;
}

static void call_open(struct core *c)
{
	(void)c;
	(void)datagram_fd();
}

static void call_create(struct core *c)
{
	struct weir_udp_opts opts = {
		.size = sizeof(opts),
		.flags = rnd(8),
		.bufs = 1u << rnd(5),
		.buf_size = one_in(2) ? 16 : 0,
		.sends_max = rnd(8),
	};
	struct object *o, *fd = datagram_fd();
	struct weir_udp *udp;

	o = fd ? object_new(A_UDP, c) : NULL;
	if (!o)
		return;
	object_pin(o, fd);
	o->fd = fd->fd;
	object_made(o, &udp, CALL(weir_udp_create, &udp, c->r, fd->fd, &opts,
				  on_datagram, o));
}

static void call_send(struct core *c)
{
	struct object *o = any_on(A_UDP, c);
	struct weir_udp_msg msg = { .segment = one_in(3) ? 100 : 0 };
	struct task *t = o ? task_new(c) : NULL;

	if (!t)
		return;
	task_buf(t);
	t->any_errno = true;
	msg.data = t->buf;
	msg.len = (uint32_t)t->len;
	if (!one_in(8))
		msg.peer = own_address(o->fd);
	START(t, weir_udp_send, o->h, OP(t), &msg);
}

static void call_set(struct core *c)
{
	struct object *o = any_on(A_UDP, c);

	if (o)
		(void)CALL(weir_udp_set, o->h, (int)rnd(2));
}

static void call_is_ended(struct core *c)
{
	struct object *o = any_on(A_UDP, c);

	if (o)
		(void)GOT(weir_udp_is_ended, o->h);
}

static void call_option(struct core *c)
{
	struct object *o = any_on(A_UDP, c);

	if (o)
		(void)CALL(weir_udp_option, o->h, rnd(8), rnd(300));
}

static struct sockaddr_in some_group(void)
{
	union weir_udp_addr a = loopback(0);

	a.in.sin_addr.s_addr = htonl((one_in(4) ? 0xc0000200u : 0xef010200u) +
				     rnd(2));
	return a.in;
}

static void call_join(struct core *c)
{
	struct object *o = any_on(A_UDP, c);
	struct sockaddr_in group = some_group();

	if (o)
		(void)CALL(weir_udp_join, o->h, (struct sockaddr *)&group, NULL,
			   1);
}

static void call_leave(struct core *c)
{
	struct object *o = any_on(A_UDP, c);
	struct sockaddr_in group = some_group();

	if (o)
		(void)CALL(weir_udp_leave, o->h, (struct sockaddr *)&group,
			   NULL, 1);
}

static void call_release(struct core *c)
{
	struct object *o = any_on(A_DATAGRAM, c);

	if (o)
		object_destroy(o);
}

static void call_destroy(struct core *c)
{
	struct object *o = any_on(A_UDP, c);

	if (o)
		object_destroy(o);
}

const struct call calls_udp[] = {
	{ "weir_udp_open", call_open, 1 },
	{ "weir_udp_create", call_create, 8 },
	{ "weir_udp_send", call_send, 24 },
	{ "weir_udp_set", call_set, 6 },
	{ "weir_udp_is_ended", call_is_ended, 2 },
	{ "weir_udp_option", call_option, 4 },
	{ "weir_udp_join", call_join, 3 },
	{ "weir_udp_leave", call_leave, 3 },
	{ "weir_udp_release", call_release, 8 },
	{ "weir_udp_destroy", call_destroy, 6 },
	{ NULL, NULL, 0 },
};
