/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets of datagrams, as UDP has them: each datagram arrives as a whole, late, out
 * of order, twice, or never.
 *
 * A socket has a name, as a listener has, but of a name space of its own.  A
 * datagram is an event, which finds the socket of that name when it arrives.
 */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/crc32c.h>
#include <weir/udp.h>
#include <weir/watch.h>

#include "base/why.h"
#include "reactor/rx.h"
#include "sim/socket.h"

#define DATAGRAM_MAX 65507u	/* Bytes, as of UDP over IPv4. */
#define QUEUE_BYTES 212992u	/* That wait to be read; more are lost. */
#define PORT_FIRST 32768u	/* Of those that a send chooses. */
#define PORT_LAST 60999u

struct datagram {
	struct sim_event event;
	struct datagrams *part;
	struct datagram *next, **pprev;	/* All on their way, or of a queue. */
	char from[WEIR_SIM_NAME_MAX], to[WEIR_SIM_NAME_MAX];
	uint32_t len;
	char data[];
};

struct dgram {
	struct sim_fd f;
	struct datagrams *part;
	struct dgram *next, **pprev;
	struct datagram *first, **last;	/* To be read, */
	uint32_t bytes;			/* of so many. */
	int family;
	int err;			/* To be reported once. */
	char name[WEIR_SIM_NAME_MAX];	/* "": none yet. */
	char peer[WEIR_SIM_NAME_MAX];	/* "": not connected. */
};

struct datagrams {
	struct sim_part part;
	struct weir_sim *sim;
	struct dgram *sockets;
	struct datagram *flying;
};

static struct dgram *dgram_of(struct sim_fd *f)
{
	return weir_container_of(f, struct dgram, f);
}

static struct datagrams *part_of(struct sim_part *part)
{
	return weir_container_of(part, struct datagrams, part);
}

static struct dgram *find(const struct datagrams *all, const char *name)
{
	struct dgram *d = all->sockets;

	while (d && (d->f.fd < 0 || d->f.dead || strcmp(d->name, name)))
		d = d->next;
	return d;
}

/* A datagram: on its way, arriving, read. */

static void leave_list(struct datagram *m)
{
	*m->pprev = m->next;
	if (m->next)
		m->next->pprev = m->pprev;
}

static bool is_unreachable(struct datagrams *all, const char *from,
			   const char *to)
{
	struct weir_sim_host *a = sim_host_named(all->sim, from);
	struct weir_sim_host *b = sim_host_named(all->sim, to);
	const struct sockets *s = sockets_of(all->sim);

	return (s && sockets_parted(s, from, to)) ||
	       (b && b->state == WEIR_SIM_HOST_OFF) ||
	       (a && b && sim_link_is_cut(sim_link(a, b)));
}

/* A connected socket is told that no socket has that address. */
static void refuse(struct datagrams *all, const struct datagram *m)
{
	struct dgram *from = find(all, m->from);

	if (!from || strcmp(from->peer, m->to) ||
	    is_unreachable(all, m->to, m->from))
		return;
	from->err = -ECONNREFUSED;
	sim_fd_changed(&from->f);
}

static void arrive(struct weir_sim *sim, struct sim_event *ev)
{
	struct datagram *m = weir_container_of(ev, struct datagram, event);
	struct datagrams *all = m->part;
	struct dgram *to = find(all, m->to);
	bool lost = is_unreachable(all, m->from, m->to);

	leave_list(m);
	if (!lost && !to)
		refuse(all, m);
	if (lost || !to || (*to->peer && strcmp(to->peer, m->from)) ||
	    to->bytes + m->len > QUEUE_BYTES) {
		sim_trace(sim, "a datagram from '%s' to '%s' is lost", m->from,
			  m->to);
		free(m);
		return;
	}
	m->next = NULL;
	*to->last = m;
	to->last = &m->next;
	to->bytes += m->len;
	sim_fd_changed(&to->f);
}

static uint64_t delay(struct weir_sim *sim, const struct datagram *m)
{
	struct weir_sim_host *from = sim_host_named(sim, m->from);
	struct weir_sim_host *to = sim_host_named(sim, m->to);
	struct sim_link *link = from && to ? sim_link(from, to) : NULL;
	uint64_t ns = 0;

	if (link && link->bytes_per_s) {
		if (link->free_ns < sim->now_ns)
			link->free_ns = sim->now_ns;
		link->free_ns += m->len * WEIR_SEC / link->bytes_per_s;
		ns = link->free_ns - sim->now_ns;
	}
	if (sim_fault(sim, WEIR_SIM_DELAY, "datagram"))
		ns += WEIR_MSEC * sim_below(&sim->chance, 1000);
	if (link && (link->latency.min_ns || link->latency.mean_ns))
		return ns + sim_latency_of(sim, &link->latency);
	return ns + sim_latency(sim, WEIR_SIM_WIRE);
}

static int fly(struct datagrams *all, const struct dgram *from, const char *to,
	       const struct io_step *step, uint32_t len)
{
	struct datagram *m = calloc(1, sizeof(*m) + len);

	if (!m)
		return -ENOMEM;
	m->event.fire = arrive;
	m->part = all;
	m->len = len;
	strcpy(m->from, from->name);
	strcpy(m->to, to);
	sim_step_drain(step, 0, m->data, len);
	sim_mix(all->sim, weir_crc32c(0, m->data, len));
	m->next = all->flying;
	m->pprev = &all->flying;
	if (m->next)
		m->next->pprev = &m->next;
	all->flying = m;
	sim_at(all->sim, &m->event, delay(all->sim, m));
	return 0;
}

/* As the kernel does when a socket without an address sends. */
static int take_port(struct dgram *d, const char *host)
{
	char name[WEIR_SIM_NAME_MAX];

	for (uint32_t n = PORT_FIRST; n <= PORT_LAST && !*d->name; n++) {
		if (snprintf(name, sizeof(name), "%s:%u", host, n) >=
		    (int)sizeof(name))
			break;
		if (!find(d->part, name))
			strcpy(d->name, name);
	}
	return *d->name ? 0 : -EAGAIN;
}

static int64_t send_to(struct dgram *d, const char *to,
		       const struct io_step *step)
{
	struct weir_sim *sim = d->f.sim;
	uint64_t len = sim_step_len(step);
	int err = d->err;

	d->err = 0;
	if (err)
		return err;
	if (!*to)
		return -EDESTADDRREQ;
	if (len > DATAGRAM_MAX)
		return -EMSGSIZE;
	err = take_port(d, d->f.host ? d->f.host->name : "");
	if (err)
		return err;
	if (sim_fault(sim, WEIR_SIM_RESET, "datagram") ||
	    sim_fault(sim, WEIR_SIM_STALL, "datagram"))
		return (int64_t)len;	/* It is lost. */
	err = fly(d->part, d, to, step, (uint32_t)len);
	if (!err && sim_fault(sim, WEIR_SIM_REORDER, "datagram"))
		err = fly(d->part, d, to, step, (uint32_t)len);
	return err ? err : (int64_t)len;
}

/* The next one, into @step: its length, of which what does not fit is lost. */
static int64_t take(struct dgram *d, const struct io_step *step, bool peek,
		    char *from)
{
	uint64_t space = sim_step_len(step);
	struct datagram *m = d->first;
	int64_t len;
	int err = d->err;

	d->err = 0;
	if (err)
		return err;
	if (!m)
		return SIM_NOT_YET;
	len = m->len;
	sim_step_fill(step, 0, m->data, m->len < space ? m->len : space);
	strcpy(from, m->from);
	if (peek)
		return len;
	d->first = m->next;
	if (!d->first)
		d->last = &d->first;
	d->bytes -= m->len;
	free(m);
	return len;
}

/* Calls on the sockets. */

static int64_t dgram_read(struct sim_fd *f, const struct io_step *step)
{
	int64_t space = (int64_t)sim_step_len(step), len;
	char from[WEIR_SIM_NAME_MAX];

	if (f->fd < 0)
		return -EBADF;
	if (step->off != WEIR_OFF_STREAM)
		return -ESPIPE;
	len = take(dgram_of(f), step, false, from);
	return len < space ? len : space;
}

static int64_t dgram_write(struct sim_fd *f, const struct io_step *step)
{
	if (f->fd < 0)
		return -EBADF;
	if (step->off != WEIR_OFF_STREAM)
		return -ESPIPE;
	return send_to(dgram_of(f), dgram_of(f)->peer, step);
}

static struct io_step step_of(const struct msghdr *msg)
{
	return (struct io_step){ .off = WEIR_OFF_STREAM, .iov = msg->msg_iov,
				 .n = (uint32_t)msg->msg_iovlen };
}

static int64_t send_message(struct dgram *d, const struct weir_op *op)
{
	const struct msghdr *msg =
		(const struct msghdr *)(uintptr_t)op->u.io.addr;
	struct io_step step = step_of(msg);
	char to[WEIR_SIM_NAME_MAX];
	int err;

	if (msg->msg_controllen)
		return -EOPNOTSUPP;
	if (!msg->msg_name)
		return send_to(d, d->peer, &step);
	err = address_name(&d->f, msg->msg_name, msg->msg_namelen, true, to);
	return err ? err : send_to(d, to, &step);
}

static int64_t receive_message(struct dgram *d, const struct weir_op *op)
{
	struct msghdr *msg = (struct msghdr *)(uintptr_t)op->u.io.addr;
	struct io_step step = step_of(msg);
	int64_t space = (int64_t)sim_step_len(&step), len;
	struct sockaddr_storage from;
	char name[WEIR_SIM_NAME_MAX];
	socklen_t n = sizeof(from);

	if (op->u.io.flags & MSG_ERRQUEUE)
		return SIM_NOT_YET;	/* It is always empty. */
	len = take(d, &step, op->u.io.flags & MSG_PEEK, name);
	if (len < 0)
		return len;
	if (msg->msg_name) {
		address_give(d->f.sim, name, d->family, &from, &n);
		memcpy(msg->msg_name, &from,
		       n < msg->msg_namelen ? n : msg->msg_namelen);
		msg->msg_namelen = n;
	}
	msg->msg_controllen = 0;
	msg->msg_flags = len > space ? MSG_TRUNC : 0;
	return len < space || op->u.io.flags & MSG_TRUNC ? len : space;
}

static void put(struct rx_head *head, int level, int type, const void *data,
		size_t len)
{
	head->controllen += (uint32_t)rx_put_control(
		head->control + head->controllen, level, type, data, len);
}

/* The address of the host that it is on. */
static void put_local(const struct dgram *d, struct rx_head *head)
{
	struct in6_pktinfo six = { .ipi6_ifindex = 1 };
	struct in_pktinfo four = { .ipi_ifindex = 1 };
	struct sockaddr_storage name;
	socklen_t n = sizeof(name);

	address_give(d->f.sim, d->name, d->family, &name, &n);
	if (d->family == AF_INET) {
		four.ipi_addr = ((struct sockaddr_in *)&name)->sin_addr;
		four.ipi_spec_dst = four.ipi_addr;
		put(head, IPPROTO_IP, IP_PKTINFO, &four, sizeof(four));
	} else {
		six.ipi6_addr = ((struct sockaddr_in6 *)&name)->sin6_addr;
		put(head, IPPROTO_IPV6, IPV6_PKTINFO, &six, sizeof(six));
	}
}

static void put_time(const struct dgram *d, struct rx_head *head)
{
	uint64_t ns = d->f.host ? weir_sim_host_wall(d->f.host) :
				  d->f.sim->now_ns;
	struct timespec ts = { .tv_sec = (time_t)(ns / WEIR_SEC),
			       .tv_nsec = (long)(ns % WEIR_SEC) };

	put(head, SOL_SOCKET, SO_TIMESTAMPNS, &ts, sizeof(ts));
}

static int64_t dgram_datagram(struct sim_fd *f, void *buf, uint32_t size,
			      uint32_t flags)
{
	struct dgram *d = dgram_of(f);
	struct rx_head *head = buf;
	struct io_step step = { .off = WEIR_OFF_STREAM, .addr = head + 1,
				.len = size - RX_HEAD };
	struct sockaddr_storage name;
	char from[WEIR_SIM_NAME_MAX];
	socklen_t n = sizeof(name);
	int64_t len = take(d, &step, false, from);

	if (len < 0)
		return len;
	address_give(f->sim, from, d->family, &name, &n);
	*head = (struct rx_head){ .namelen = n };
	memcpy(head->name, &name, n);
	if (len > (int64_t)step.len) {
		head->flags = MSG_TRUNC;
		len = (int64_t)step.len;
	}
	head->payloadlen = (uint32_t)len;
	if (flags & WEIR_UDP_LOCAL)
		put_local(d, head);
	if (flags & WEIR_UDP_TIMES)
		put_time(d, head);
	return RX_HEAD + len;
}

/* A name that it sends to, and receives from; or none any more. */
static int64_t connect_to(struct dgram *d, const struct sockaddr *addr,
			  size_t len)
{
	char name[WEIR_SIM_NAME_MAX];
	int err;

	if (addr->sa_family == AF_UNSPEC) {
		d->peer[0] = 0;
		return 0;
	}
	err = address_name(&d->f, addr, len, true, name);
	if (!err)
		err = take_port(d, d->f.host ? d->f.host->name : "");
	if (!err)
		strcpy(d->peer, name);
	return err;
}

static int64_t dgram_call(struct sim_fd *f, struct weir_op *op)
{
	struct dgram *d = dgram_of(f);

	if (f->fd < 0)
		return -EBADF;
	switch (op->kind) {
	case IO_CONNECT:
		return connect_to(d, (const struct sockaddr *)(uintptr_t)
				  op->u.io.addr, op->u.io.len);
	case IO_SENDMSG:
		return send_message(d, op);
	case IO_RECVMSG:
		return receive_message(d, op);
	case IO_SHUTDOWN:
		return *d->peer ? 0 : -ENOTCONN;
	default:
		return -EINVAL;
	}
}

static uint32_t dgram_events(struct sim_fd *f)
{
	const struct dgram *d = dgram_of(f);
	uint32_t events = WEIR_WRITABLE | (d->err ? WEIR_ERROR : 0);

	return d->first || d->err ? events | WEIR_READABLE : events;
}

static int dgram_bind(struct sim_fd *f, const struct sockaddr *addr,
		      socklen_t len)
{
	struct dgram *d = dgram_of(f);
	char name[WEIR_SIM_NAME_MAX];
	size_t n;
	int err;

	if (*d->name || !addr || len < sizeof(addr->sa_family))
		return -EINVAL;
	if (addr->sa_family != d->family)
		return -EAFNOSUPPORT;
	err = address_name(f, addr, len, true, name);
	if (err)
		return err;
	n = strlen(name);
	if (d->family != AF_UNIX && n > 1 && !strcmp(name + n - 2, ":0")) {
		name[n - 2] = 0;
		return take_port(d, name);
	}
	if (find(d->part, name))
		return -EADDRINUSE;
	strcpy(d->name, name);
	return 0;
}

static const char *dgram_name(struct sim_fd *f, bool peer, int *family)
{
	const struct dgram *d = dgram_of(f);

	*family = d->family;
	if (peer)
		return *d->peer ? d->peer : NULL;
	return d->name;
}

static void dgram_describe(struct sim_fd *f, char *ret, size_t capacity)
{
	const struct dgram *d = dgram_of(f);

	snprintf(ret, capacity, *d->peer ? ", '%s' to '%s'" : ", '%s'", d->name,
		 d->peer);
}

static void dgram_release(struct sim_fd *f)
{
	struct dgram *d = dgram_of(f);
	struct datagram *m;

	while ((m = d->first)) {
		d->first = m->next;
		free(m);
	}
	*d->pprev = d->next;
	if (d->next)
		d->next->pprev = d->pprev;
	free(d);
}

static const struct sim_fd_class dgram_class = {
	.name = "datagram socket",
	.device = WEIR_SIM_SOCKET,
	.waits = true,
	.socket = true,
	.datagrams = true,
	.datagram = dgram_datagram,
	.read = dgram_read,
	.write = dgram_write,
	.call = dgram_call,
	.events = dgram_events,
	.bind = dgram_bind,
	.get_name = dgram_name,
	.describe = dgram_describe,
	.release = dgram_release,
};

/* The part of the world. */

static void cut(struct sim_part *part, const char *prefix)
{
	struct dgram *d;

	for (d = part_of(part)->sockets; d; d = d->next)
		if (!d->f.dead && has_prefix(d->name, prefix))
			sim_fd_kill(&d->f);
}

static void destroy(struct sim_part *part)
{
	struct datagrams *all = part_of(part);
	struct datagram *m;

	while ((m = all->flying)) {
		all->flying = m->next;
		sim_unqueue(all->sim, &m->event);
		free(m);
	}
	free(all);
}

static struct datagrams *datagrams_of(struct weir_sim *sim)
{
	struct sim_part *part = sim_part(sim, "datagrams");
	struct datagrams *all;

	if (part)
		return part_of(part);
	all = calloc(1, sizeof(*all));
	if (!all)
		return NULL;
	all->sim = sim;
	all->part.name = "datagrams";
	all->part.cut = cut;
	all->part.destroy = destroy;
	sim_part_add(sim, &all->part);
	return all;
}

int weir_sim_datagram(struct weir_sim *sim, struct weir_sim_host *host,
		      int *ret_fd, int family)
{
	struct datagrams *all;
	struct dgram *d;
	int fd;

	if (family != AF_UNIX && family != AF_INET && family != AF_INET6)
		return why(-EAFNOSUPPORT, "weir_sim_datagram: sockets of "
			   "family %d are not simulated", family);
	all = datagrams_of(sim);
	d = all ? calloc(1, sizeof(*d)) : NULL;
	if (!d)
		return why(-ENOMEM, "weir_sim_datagram: no memory");
	d->part = all;
	d->family = family;
	d->last = &d->first;
	d->f.host = host;
	fd = sim_fd_open(sim, &d->f, &dgram_class);
	if (fd < 0) {
		free(d);
		return why(fd, "weir_sim_datagram: the world has no descriptor "
			   "left; close some");
	}
	d->next = all->sockets;
	d->pprev = &all->sockets;
	if (d->next)
		d->next->pprev = &d->next;
	all->sockets = d;
	*ret_fd = fd;
	return 0;
}

static int find_dgram(int fd, struct dgram **ret)
{
	struct sim_fd *f = sim_fd_find(fd);

	if (!f)
		return -EBADF;
	if (f->dead)
		return -EIO;
	if (f->cls != &dgram_class)
		return -ENOTSOCK;
	*ret = dgram_of(f);
	return 0;
}

ssize_t weir_sim_sendto(int fd, const void *buf, size_t len,
			const struct sockaddr *addr, socklen_t addr_len)
{
	struct io_step step = { .off = WEIR_OFF_STREAM,
				.addr = (void *)(uintptr_t)buf, .len = len };
	char to[WEIR_SIM_NAME_MAX];
	struct dgram *d;
	int err = find_dgram(fd, &d);

	if (err)
		return err;
	if (!addr)
		return (ssize_t)send_to(d, d->peer, &step);
	if (addr_len < sizeof(addr->sa_family))
		return -EINVAL;
	err = address_name(&d->f, addr, addr_len, true, to);
	return err ? err : (ssize_t)send_to(d, to, &step);
}

ssize_t weir_sim_recvfrom(int fd, void *buf, size_t len, struct sockaddr *addr,
			  socklen_t *addr_len)
{
	struct io_step step = { .off = WEIR_OFF_STREAM, .addr = buf,
				.len = len };
	struct sockaddr_storage from;
	char name[WEIR_SIM_NAME_MAX];
	socklen_t n = sizeof(from);
	struct dgram *d;
	int err = find_dgram(fd, &d);
	int64_t got;

	if (err)
		return err;
	got = take(d, &step, false, name);
	if (got < 0)
		return got == SIM_NOT_YET ? -EAGAIN : (ssize_t)got;
	if (addr) {
		address_give(d->f.sim, name, d->family, &from, &n);
		memcpy(addr, &from, n < *addr_len ? n : *addr_len);
		*addr_len = n;
	}
	return got < (int64_t)len ? (ssize_t)got : (ssize_t)len;
}

/* vfd_ops */

/* What a socket reports beside the data, it is asked for with each; and GRO joins
 * nothing here. */
int sim_datagram_option(int fd, int level, int name)
{
	(void)fd;
	if ((level == IPPROTO_IP && name == IP_PKTINFO) ||
	    (level == IPPROTO_IPV6 && name == IPV6_RECVPKTINFO) ||
	    (level == SOL_SOCKET && name == SO_TIMESTAMPNS) ||
	    (level == IPPROTO_UDP && name == UDP_GRO))
		return 0;
	return -EOPNOTSUPP;
}

int64_t sim_datagram_send(int fd, const struct msghdr *msg)
{
	struct io_step step = step_of(msg);
	char to[WEIR_SIM_NAME_MAX];
	struct dgram *d;
	int err = find_dgram(fd, &d);

	if (err)
		return err;
	if (!msg->msg_name)
		return send_to(d, d->peer, &step);
	err = address_name(&d->f, msg->msg_name, msg->msg_namelen, true, to);
	return err ? err : send_to(d, to, &step);
}
