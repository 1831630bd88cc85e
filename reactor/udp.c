/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UDP sockets: datagrams in, from a source with buffers of its own, and out.
 *
 * A send waits in a queue until the end of the turn, when one sendmmsg(2) takes up
 * to OUT_BATCH of them; that costs less than an entry of a ring for each, and is
 * the same over every backend.  If the socket has no capacity, a watch tells when
 * it has.  So the kernel never has a send that is not complete, and a cancel only
 * takes it out of the queue.
 *
 *	              end of turn         no capacity
 *	send() --> QUEUED -----> sendmmsg() ------> QUEUED, and .out is armed
 *	              | cancel        | taken, error
 *	              +----> ended <--+
 *
 * Sends that follow each other, of one size to one peer, become one message, which
 * the kernel cuts (GSO, UDP_SEGMENT): its way through the kernel is most of what a
 * datagram costs.  Where there is no GSO, a send of several segments becomes as many
 * messages.
 */

#include <weir/udp.h>

#include <netinet/udp.h>
#include <linux/net_tstamp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <weir/watch.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/opts.h"
#include "base/own.h"
#include "base/why.h"
#include "reactor/op-inline.h"
#include "reactor/rx.h"
#include "reactor/source.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define OUT_BATCH 64u		/* Messages of one system call, */
#define OUT_PIECES 256u		/* which have so many datagrams. */
#define LEN_MAX_4 65507u	/* Bytes of a datagram: 65535 less the headers. */
#define LEN_MAX_6 65527u
#define BUFS_MAX 32768u
#define BUF_MAX 65535u
#define LEARN_EVERY 1024u	/* Messages until GSO is tried again. */

#define FLAGS \
	(WEIR_UDP_LOCAL | WEIR_UDP_TIMES | WEIR_UDP_GRO | WEIR_UDP_TXTIME)

struct weir_udp {
	struct source in;
	struct source out;	/* Armed while sends wait for capacity. */
	uint32_t n_sources;	/* Of the two, those that are not released. */
	weir_udp_fn *fn;
	void *arg;
	struct rx_free_list *rx;
	struct msghdr shape;
	int family;
	in_port_t port;
	struct in_addr bound;	/* IPv4: what it is bound to. */
	bool no_gso;
	uint32_t join_max;	/* Bytes of sends that may become one. */
	uint32_t n_taken;	/* Messages since these two were set. */

	struct rx_queue kept;	/* Came while it was paused. */
	struct weir_op later;	/* Its callback hands out that, */
	int passing;		/* an error that ends nothing, */
	int end;		/* and one that does; 0: none. */
	bool ended;
	bool paused;
	uint32_t entered;	/* Calls of .fn on the stack. */

	struct op_queue sends;
	uint32_t n_sends, sends_max;
	struct flush_node flush;
};

/* A send, in the words of its operation; with .local and .peer in those of the
 * backend, after the two that belong to a timed operation. */
struct send {
	struct weir_udp *udp;
	const char *data;
	uint64_t depart_ns;
	uint32_t len;
	uint32_t done;		/* Bytes of segments that were taken. */
	uint32_t ifindex;
	uint32_t sum;		/* Of the data; see base/own.h. */
	uint16_t segment;	/* 0: one datagram. */
	bool apart;		/* It, or each segment, is a message alone. */
	int16_t before;		/* Error of its first try, which may belong to an
				 * earlier datagram; 0: none. */
	bool has_local;
};

struct send_addr {
	struct in6_addr local;	/* IPv4: the first four bytes. */
	union weir_udp_addr peer;
};

_Static_assert(sizeof(struct send) <= sizeof(((struct weir_op *)0)->u) &&
	       sizeof(struct send_addr) <= 6 * sizeof(uint64_t),
	       "a send lives in its operation");
_Static_assert(sizeof(union weir_udp_addr) == sizeof(struct sockaddr_in6) &&
	       sizeof(struct sockaddr_in6) <= RX_NAME, "the largest");

static struct send *send_of(struct weir_op *op)
{
	return (struct send *)(void *)&op->u;
}

static struct send_addr *addr_of(struct weir_op *op)
{
	return (struct send_addr *)(void *)&op->backend[2];
}

static int family_of(const struct sockaddr *addr)
{
	return addr->sa_family;
}

static bool is_ip(int family)
{
	return family == AF_INET || family == AF_INET6;
}

static socklen_t len_of(const struct sockaddr *addr)
{
	return family_of(addr) == AF_INET ? sizeof(struct sockaddr_in) :
	       family_of(addr) == AF_INET6 ? sizeof(struct sockaddr_in6) : 0;
}

static int set(int fd, int level, int name, const void *value, socklen_t len)
{
	if (fd_is_virtual(fd))
		return vfd_ops->option(fd, level, name);
	if (fault("setsockopt"))
		return -ENOBUFS;
	return setsockopt(fd, level, name, value, len) ? -errno : 0;
}

static int set_int(int fd, int level, int name, int value)
{
	return set(fd, level, name, &value, sizeof(value));
}

/* A datagram that has arrived: what is before it in the buffer, as a message. */

static void take_local(struct weir_udp *udp, struct weir_udp_msg *msg,
		       const struct cmsghdr *c)
{
	struct in6_pktinfo six;
	struct in_pktinfo four;

	if (c->cmsg_level == IPPROTO_IP) {
		memcpy(&four, CMSG_DATA(c), sizeof(four));
		msg->ifindex = (uint32_t)four.ipi_ifindex;
		msg->local.in.sin_family = AF_INET;
		msg->local.in.sin_port = udp->port;
		msg->local.in.sin_addr =
			IN_MULTICAST(ntohl(four.ipi_addr.s_addr)) ?
				four.ipi_addr : four.ipi_spec_dst;
		return;
	}
	memcpy(&six, CMSG_DATA(c), sizeof(six));
	msg->ifindex = six.ipi6_ifindex;
	msg->local.in6.sin6_family = AF_INET6;
	msg->local.in6.sin6_port = udp->port;
	msg->local.in6.sin6_addr = six.ipi6_addr;
}

static bool is(const struct cmsghdr *c, int level, int type, size_t len)
{
	return c->cmsg_level == level && c->cmsg_type == type &&
	       c->cmsg_len >= CMSG_LEN(len);
}

static void take_control(struct weir_udp *udp, struct weir_udp_msg *msg,
			 struct rx_head *head)
{
	struct msghdr all = { .msg_control = head->control,
			      .msg_controllen = head->controllen };
	struct cmsghdr *c;
	struct timespec ts;
	int size;

	for (c = CMSG_FIRSTHDR(&all); c; c = CMSG_NXTHDR(&all, c)) {
		if (is(c, IPPROTO_IP, IP_PKTINFO, sizeof(struct in_pktinfo)) ||
		    is(c, IPPROTO_IPV6, IPV6_PKTINFO,
		       sizeof(struct in6_pktinfo))) {
			take_local(udp, msg, c);
		} else if (is(c, SOL_SOCKET, SO_TIMESTAMPNS, sizeof(ts))) {
			memcpy(&ts, CMSG_DATA(c), sizeof(ts));
			msg->arrived_ns = (uint64_t)ts.tv_sec * WEIR_SEC +
					  (uint64_t)ts.tv_nsec;
		} else if (is(c, IPPROTO_UDP, UDP_GRO, sizeof(size))) {
			memcpy(&size, CMSG_DATA(c), sizeof(size));
			if (size > 0 && (uint32_t)size < msg->len)
				msg->segment = (uint32_t)size;
		}
	}
}

static void describe(struct weir_udp *udp, struct weir_udp_msg *msg, int id)
{
	struct rx_head *head = rx_buf(udp->rx, id);
	uint32_t len = udp->rx->info[id].len;

	memset(msg, 0, sizeof(*msg));
	msg->data = head + 1;
	msg->len = len > RX_HEAD ? len - RX_HEAD : 0;
	msg->flags = head->flags & MSG_TRUNC ? WEIR_UDP_TRUNCATED : 0;
	memcpy(&msg->peer, head->name,
	       head->namelen < sizeof(msg->peer) ? head->namelen :
						   sizeof(msg->peer));
	if (head->controllen && head->controllen <= RX_CONTROL)
		take_control(udp, msg, head);
}

/* Reporting to the function of the user's, which may destroy the socket. */

static void free_if_unused(struct weir_udp *udp)
{
	if (udp->n_sources || udp->entered || weir_op_is_busy(&udp->later))
		return;
	rx_end(udp->in.reactor, udp->rx);
	free(udp);
}

/* Called in the course of a source_destroy(), of one or both. */
static void release_in(struct source *s)
{
	struct weir_udp *udp = weir_container_of(s, struct weir_udp, in);

	udp->n_sources--;
	free_if_unused(udp);
}

static void release_out(struct source *s)
{
	struct weir_udp *udp = weir_container_of(s, struct weir_udp, out);

	udp->n_sources--;
	free_if_unused(udp);
}

static void leave(struct weir_udp *udp)
{
	udp->entered--;
	free_if_unused(udp);
}

static void give(struct weir_udp *udp, int id)
{
	struct weir_udp_msg msg;

	describe(udp, &msg, id);
	udp->entered++;
	if (udp->fn(udp, &msg, 0, udp->arg) != WEIR_UDP_KEEP)
		rx_put(udp->in.reactor, udp->rx, id);
	leave(udp);
}

static void tell(struct weir_udp *udp, int err)
{
	udp->entered++;
	udp->fn(udp, NULL, err, udp->arg);
	leave(udp);
}

static bool is_silent(const struct weir_udp *udp)
{
	return udp->paused ||
	       udp->in.reactor->state != WEIR_REACTOR_RUNNING;
}

static bool has_kept(const struct weir_udp *udp)
{
	return !rx_queue_empty(&udp->kept) || udp->passing || udp->end;
}

/* Never inside a call: what was kept comes from the loop. */
static void hand_out_later(struct weir_udp *udp)
{
	if (has_kept(udp) && !is_silent(udp) && !weir_op_is_busy(&udp->later))
		op_defer(udp->in.reactor, &udp->later);
}

static int take(int *err)
{
	int ret = *err;

	*err = 0;
	return ret;
}

/* The callback may pause the socket, or destroy it: then nothing is left. */
static void on_later(struct weir_op *op, int64_t res)
{
	struct weir_udp *udp = weir_container_of(op, struct weir_udp, later);

	(void)res;
	udp->entered++;
	while (!is_silent(udp) && !rx_queue_empty(&udp->kept))
		give(udp, rx_queue_pop(udp->rx, &udp->kept));
	if (!is_silent(udp) && udp->passing)
		tell(udp, take(&udp->passing));
	if (!is_silent(udp) && udp->end)
		tell(udp, take(&udp->end));
	leave(udp);
}

static void deliver_in(struct source *s, int64_t res, int rx_id)
{
	struct weir_udp *udp = weir_container_of(s, struct weir_udp, in);
	bool later = is_silent(udp) || has_kept(udp);

	if (res >= 0) {
		if (later)
			rx_queue_push(udp->rx, &udp->kept, rx_id);
		else
			give(udp, rx_id);
		return;
	}
	if (!rx_error_passes(res)) {
		source_disarm(s);
		udp->ended = true;
	}
	if (!later)
		tell(udp, (int)res);
	else if (udp->ended)
		udp->end = (int)res;
	else
		udp->passing = (int)res;
}

/* Sends: into the queue; from there to the kernel. */

/* @s goes on, or ends with @res: an error before was not its own. */
static void settle(struct weir_udp *udp, struct send *s, int64_t res)
{
	if (s->before && res != s->before) {
		udp->passing = s->before;
		hand_out_later(udp);
	}
	s->before = 0;
}

static void send_end(struct weir_op *op, int64_t res)
{
	struct send *s = send_of(op);
	struct weir_udp *udp = s->udp;

	op_queue_del(&udp->sends, op);
	udp->n_sends--;
	if (own_heard() && own_acquire_out(s->data, s->len, 0) != s->sum)
		own_was_changed();
	op->detail.bytes = s->done;
	settle(udp, s, res);
	op_complete(op, res);
	if (op_queue_empty(&udp->sends)) {
		flush_del(&udp->flush);
		if (udp->out.wanted)
			source_disarm(&udp->out);
	}
}

static void send_cancel(struct weir_op *op)
{
	send_end(op, -ECANCELED);
}

static const struct weir_op_class send_class = {
	.name = "udp_send",
	.cancel = send_cancel,
};

union control {
	char buf[CMSG_SPACE(sizeof(struct in6_pktinfo)) +
		 CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(uint64_t))];
	struct cmsghdr align;
};

/* Messages for the kernel, and the first and number of the operations of each. */
struct batch {
	struct mmsghdr msgs[OUT_BATCH];
	struct weir_op *first[OUT_BATCH];
	uint32_t n_ops[OUT_BATCH];
	uint32_t len[OUT_BATCH];
	union control control[OUT_BATCH];
	struct iovec iov[OUT_PIECES];
	uint32_t n, n_iov;
};

static void put_control(struct msghdr *msg, int level, int type,
			const void *data, size_t len)
{
	msg->msg_controllen += rx_put_control(
		(char *)msg->msg_control + msg->msg_controllen, level, type,
		data, len);
}

static void put_local(struct msghdr *msg, const struct weir_udp *udp,
		      struct weir_op *op)
{
	const struct send *s = send_of(op);
	struct in6_pktinfo six = { .ipi6_ifindex = s->ifindex };
	struct in_pktinfo four = { .ipi_ifindex = (int)s->ifindex };

	if (!s->has_local && !s->ifindex)
		return;
	if (udp->family == AF_INET) {
		/* None would not leave it as it is, but be any. */
		four.ipi_spec_dst = udp->bound;
		if (s->has_local)
			memcpy(&four.ipi_spec_dst, &addr_of(op)->local,
			       sizeof(four.ipi_spec_dst));
		put_control(msg, IPPROTO_IP, IP_PKTINFO, &four, sizeof(four));
		return;
	}
	/* To IPv4 the kernel wants an address of IPv4, if only 0.0.0.0. */
	if (s->has_local)
		six.ipi6_addr = addr_of(op)->local;
	else if (IN6_IS_ADDR_V4MAPPED(&addr_of(op)->peer.in6.sin6_addr))
		six.ipi6_addr.s6_addr32[2] = htonl(0xffff);
	put_control(msg, IPPROTO_IPV6, IPV6_PKTINFO, &six, sizeof(six));
}

static bool is_apart(const struct weir_udp *udp, const struct send *s)
{
	return udp->no_gso || s->apart;
}

static void put_piece(struct batch *b, struct weir_op *op, uint32_t at,
		      uint32_t len)
{
	b->iov[b->n_iov++] = (struct iovec){
		(char *)(uintptr_t)send_of(op)->data + at, len
	};
	b->len[b->n] += len;
}

/* One message for @op, from @at on: all of it, or a segment. */
static void put_first(struct batch *b, const struct weir_udp *udp,
		      struct weir_op *op, uint32_t at)
{
	const struct send *s = send_of(op);
	uint32_t len = s->len - at;

	if (s->segment && is_apart(udp, s) && len > s->segment)
		len = s->segment;
	b->msgs[b->n].msg_hdr.msg_iov = &b->iov[b->n_iov];
	b->first[b->n] = op;
	b->n_ops[b->n] = 1;
	b->len[b->n] = 0;
	put_piece(b, op, at, len);
}

static bool may_join(const struct weir_udp *udp, const struct send *s)
{
	return !is_apart(udp, s) && !s->segment && !s->depart_ns && s->len &&
	       s->len <= udp->join_max;
}

/* Whether @next can be a segment after @op, none of which is longer. */
static bool joins(const struct weir_udp *udp, struct weir_op *op,
		  struct weir_op *next)
{
	const struct send *s = send_of(op), *t = send_of(next);
	/* By bytes: what is different in padding alone is not joined. */
	const void *to = addr_of(op), *then_to = addr_of(next);

	return may_join(udp, t) && t->len <= s->len &&
	       s->has_local == t->has_local && s->ifindex == t->ifindex &&
	       !memcmp(to, then_to, sizeof(struct send_addr));
}

/* Sends after @op that become segments of its message: all of its size but the
 * last.  Returns the one after them. */
static struct weir_op *put_joined(struct batch *b, const struct weir_udp *udp,
				  struct weir_op *op)
{
	uint32_t size = send_of(op)->len, last = size;
	struct weir_op *next = op->next;

	if (!may_join(udp, send_of(op)))
		return next;
	while (next && last == size && b->n_iov < OUT_PIECES &&
	       b->n_ops[b->n] < WEIR_UDP_SEGMENTS_MAX &&
	       joins(udp, op, next) &&
	       b->len[b->n] + send_of(next)->len <= LEN_MAX_4) {
		last = send_of(next)->len;
		put_piece(b, next, 0, last);
		b->n_ops[b->n]++;
		next = next->next;
	}
	return next;
}

static void put_header(struct batch *b, const struct weir_udp *udp)
{
	struct msghdr *msg = &b->msgs[b->n].msg_hdr;
	struct weir_op *op = b->first[b->n];
	const struct send *s = send_of(op);
	struct send_addr *a = addr_of(op);
	uint16_t segment = b->n_ops[b->n] > 1 ? (uint16_t)s->len : s->segment;
	bool named = a->peer.any.sa_family;

	*msg = (struct msghdr){
		.msg_name = named ? &a->peer : NULL,
		.msg_namelen = named ? len_of(&a->peer.any) : 0,
		.msg_iov = msg->msg_iov,
		.msg_iovlen = (size_t)(&b->iov[b->n_iov] - msg->msg_iov),
		.msg_control = b->control[b->n].buf,
	};
	put_local(msg, udp, op);
	if (segment && b->len[b->n] > segment)
		put_control(msg, IPPROTO_UDP, UDP_SEGMENT, &segment,
			    sizeof(segment));
	if (s->depart_ns)
		put_control(msg, SOL_SOCKET, SCM_TXTIME, &s->depart_ns,
			    sizeof(s->depart_ns));
	if (!msg->msg_controllen)
		msg->msg_control = NULL;
	b->n++;
}

static bool is_full(const struct batch *b)
{
	return b->n == OUT_BATCH || b->n_iov == OUT_PIECES;
}

static void fill(struct batch *b, const struct weir_udp *udp)
{
	struct weir_op *op = udp->sends.first, *next;
	uint32_t at;

	b->n = b->n_iov = 0;
	for (; op && !is_full(b); op = next) {
		at = send_of(op)->done;
		do {
			put_first(b, udp, op, at);
			next = put_joined(b, udp, op);
			at += b->len[b->n];
			put_header(b, udp);
		} while (at < send_of(op)->len && !is_full(b));
	}
}

static int64_t send_virtual(int fd, struct batch *b)
{
	unsigned int n;
	int64_t res;

	for (n = 0; n < b->n; n++) {
		b->msgs[n].msg_hdr.msg_control = NULL;
		b->msgs[n].msg_hdr.msg_controllen = 0;
		res = vfd_ops->sendmsg(fd, &b->msgs[n].msg_hdr);
		if (res < 0)
			return n ? (int64_t)n : res;
	}
	return n;
}

/* Whether the kernel is asked to cut the first message. */
static bool is_cut(const struct batch *b)
{
	const struct send *s = send_of(b->first[0]);

	return b->n_ops[0] > 1 || (s->segment && b->len[0] > s->segment);
}

/* Returns how many were taken, or why the first was not. */
static int64_t send_batch(struct weir_udp *udp, struct batch *b)
{
	long n;

	if (fd_is_virtual(udp->in.fd))
		return send_virtual(udp->in.fd, b);
	if (fault("sendmmsg"))
		return -ENOBUFS;
	if (fault_choice("udp_full"))
		return -EAGAIN;
	if (is_cut(b) && fault_choice("udp_offload"))
		return -EIO;
	if (is_cut(b) && fault_choice("udp_mtu"))
		return -EINVAL;
	if (is_cut(b) && fault_choice("udp_pmtu"))
		return -EMSGSIZE;
	do {
		n = syscall(SYS_sendmmsg, udp->in.fd, b->msgs, b->n,
			    MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	udp->in.reactor->stats.syscalls++;
	return n < 0 ? -errno : n;
}

static bool has_gso(int fd)
{
	socklen_t len = sizeof(int);
	int value;

	return !fd_is_virtual(fd) && !fault_choice("udp_gso") &&
	       !getsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &value, &len);
}

/* What is refused to one peer, on one route, for now, is not so to all. */
static void assume_gso(struct weir_udp *udp)
{
	udp->no_gso = !has_gso(udp->in.fd);
	udp->join_max = BUF_MAX;
	udp->n_taken = 0;
}

static void taken(struct weir_udp *udp, const struct batch *b, uint32_t n)
{
	struct weir_op *op, *next;
	struct send *s;

	udp->n_taken += n;
	if (udp->n_taken >= LEARN_EVERY)
		assume_gso(udp);
	for (uint32_t i = 0; i < n; i++) {
		op = b->first[i];
		for (uint32_t left = b->n_ops[i]; left--; op = next) {
			next = op->next;
			s = send_of(op);
			settle(udp, s, 0);
			s->done += b->n_ops[i] > 1 ? s->len : b->len[i];
			if (s->done == s->len)
				send_end(op, s->len);
		}
	}
}

/*
 * The kernel, or the device, does not cut the first message of @b: they go one by
 * one, which will show what is wrong with them in any case.  EINVAL, or EMSGSIZE on
 * newer kernels, also means segments over the MTU.
 */
static bool cut_ourselves(struct weir_udp *udp, const struct batch *b,
			  int64_t err)
{
	struct weir_op *op = b->first[0];
	struct send *s = send_of(op);

	if ((err != -EIO && err != -EINVAL && err != -EMSGSIZE) || !is_cut(b))
		return false;
	if (s->before == err)
		s->before = 0; /* It was this one's. */
	if (err == -EIO)
		udp->no_gso = true;
	else if (b->n_ops[0] > 1)
		udp->join_max = s->len - 1;
	for (uint32_t n = b->n_ops[0]; n--; op = op->next)
		send_of(op)->apart = true;
	return true;
}

/*
 * The first of the queue was not taken.  An error of the network may be of an
 * earlier datagram, and is then gone: it is reported to the socket's callback.
 * Returns whether to go on.
 */
static bool not_taken(struct weir_udp *udp, const struct batch *b, int64_t err)
{
	struct weir_op *op = udp->sends.first;
	struct send *s = send_of(op);

	if (err == -EAGAIN) {
		err = source_arm(&udp->out);
		if (!err)
			return false;
	} else if (rx_error_passes(err) && !s->before) {
		s->before = (int16_t)err;
		return true;
	} else if (cut_ourselves(udp, b, err)) {
		return true;
	}
	send_end(op, err);
	return true;
}

static void flush(struct flush_node *node)
{
	struct weir_udp *udp = weir_container_of(node, struct weir_udp, flush);
	bool go_on = true;
	struct batch b;
	int64_t n;

	while (go_on && !op_queue_empty(&udp->sends)) {
		fill(&b, udp);
		n = send_batch(udp, &b);
		if (n > 0)
			taken(udp, &b, (uint32_t)n);
		else
			go_on = not_taken(udp, &b, n ? n : -EAGAIN);
	}
}

static void deliver_out(struct source *s, int64_t res, int rx_id)
{
	struct weir_udp *udp = weir_container_of(s, struct weir_udp, out);

	(void)res, (void)rx_id;
	source_disarm(s);
	if (!op_queue_empty(&udp->sends))
		flush_add(s->reactor, &udp->flush);
}

static bool is_multicast(const union weir_udp_addr *a)
{
	const struct in6_addr *six = &a->in6.sin6_addr;

	if (a->any.sa_family == AF_INET)
		return IN_MULTICAST(ntohl(a->in.sin_addr.s_addr));
	return IN6_IS_ADDR_MULTICAST(six) ||
	       (IN6_IS_ADDR_V4MAPPED(six) &&
		IN_MULTICAST(ntohl(six->s6_addr32[3])));
}

static bool is_any(const union weir_udp_addr *a)
{
	return a->any.sa_family == AF_INET ?
		       !a->in.sin_addr.s_addr :
		       IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr);
}

static bool needs_interface(const union weir_udp_addr *peer)
{
	return is_multicast(peer) ||
	       (peer->any.sa_family == AF_INET6 &&
		IN6_IS_ADDR_LINKLOCAL(&peer->in6.sin6_addr));
}

static bool suits(const struct weir_udp *udp, const union weir_udp_addr *a)
{
	return !a->any.sa_family || a->any.sa_family == udp->family;
}

static bool is_reserved_used(const struct weir_udp_msg *msg)
{
	return msg->reserved[0] | msg->reserved[1] | msg->reserved[2] |
	       msg->reserved[3];
}

static int check_send(const struct weir_udp *udp,
		      const struct weir_udp_msg *msg)
{
	uint32_t max = udp->family == AF_INET ? LEN_MAX_4 : LEN_MAX_6;

	if (!msg || (msg->len && !msg->data))
		return why(-EINVAL, "weir_udp_send: no message, or bytes without "
			   "an address");
	if (!suits(udp, &msg->peer) || !suits(udp, &msg->local))
		return why(-EINVAL, "weir_udp_send: .peer or .local is no "
			   "address of the socket's family");
	/* The port is at the same place for both families. */
	if (msg->peer.any.sa_family && !msg->peer.in.sin_port)
		return why(-EINVAL, "weir_udp_send: .peer has port 0, to "
			   "which nothing can be sent");
	if (is_reserved_used(msg) ||
	    (msg->depart_ns && !(udp->in.udp_flags & WEIR_UDP_TXTIME)))
		return why(-EINVAL, "weir_udp_send: .depart_ns is set without "
			   "WEIR_UDP_TXTIME, or a reserved word is not 0");
	if (msg->len > max ||
	    (msg->segment && (uint64_t)msg->segment * WEIR_UDP_SEGMENTS_MAX <
			     msg->len))
		return why(-EMSGSIZE, "weir_udp_send: longer than a datagram "
			   "may be, or more than %d segments",
			   WEIR_UDP_SEGMENTS_MAX);
	return 0;
}

static void describe_send(struct weir_udp *udp, struct weir_op *op,
			  const struct weir_udp_msg *msg)
{
	struct send *s = send_of(op);
	struct send_addr *a = addr_of(op);

	*s = (struct send){
		.udp = udp,
		.data = msg->data,
		.depart_ns = msg->depart_ns,
		.len = msg->len,
		.segment = msg->segment < msg->len ? (uint16_t)msg->segment : 0,
	};
	*a = (struct send_addr){ .peer = msg->peer };
	if (msg->peer.any.sa_family && needs_interface(&msg->peer))
		s->ifindex = msg->ifindex;
	if (!msg->local.any.sa_family || is_multicast(&msg->local) ||
	    is_any(&msg->local))
		return;
	s->has_local = true;
	if (msg->local.any.sa_family == AF_INET)
		memcpy(&a->local, &msg->local.in.sin_addr,
		       sizeof(msg->local.in.sin_addr));
	else
		a->local = msg->local.in6.sin6_addr;
}

int weir_udp_send(struct weir_udp *udp, struct weir_op *op,
		  const struct weir_udp_msg *msg)
{
	struct weir_reactor *r = udp->in.reactor;
	int err = check_send(udp, msg);

	if (unlikely(err))
		return err;
	if (unlikely(udp->n_sends >= udp->sends_max))
		return -EAGAIN;
	err = op_begin(r, op, &send_class);
	if (unlikely(err))
		return op_refused(err, op, "weir_udp_send");
	/* Where the words of a timed operation are none of ours. */
	describe_send(udp, op, msg);
	if (own_heard())
		send_of(op)->sum = own_release_out(msg->data, msg->len, 0);
	op_queue_push(&udp->sends, op);
	udp->n_sends++;
	if (!udp->out.wanted)
		flush_add(r, &udp->flush);
	return 0;
}

/* The life of a socket. */

int weir_udp_open(int *ret_fd, const struct sockaddr *local,
		  const struct sockaddr *peer, uint32_t flags)
{
	const struct sockaddr *one = local ? local : peer;
	int fd, err = 0;

	if (!ret_fd || !one || !is_ip(family_of(one)) ||
	    (local && peer && family_of(local) != family_of(peer)))
		return why(-EINVAL, "weir_udp_open: no address, one that is not "
			   "of IPv4 or IPv6, or two of different families");
	if (flags & ~(WEIR_UDP_REUSEPORT | WEIR_UDP_REUSEADDR |
		      WEIR_UDP_V6ONLY))
		return why(-EINVAL, "weir_udp_open: unknown flags %#x", flags);
	fd = fault("socket") ? (errno = EMFILE, -1) :
	     socket(family_of(one), SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return why(-errno, "weir_udp_open: socket: %s", strerror(errno));
	if (flags & WEIR_UDP_REUSEADDR)
		err = set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (!err && flags & WEIR_UDP_REUSEPORT)
		err = set_int(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (!err && family_of(one) == AF_INET6)
		err = set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY,
			      !!(flags & WEIR_UDP_V6ONLY));
	if (!err && local && bind(fd, local, len_of(local)))
		err = -errno;
	if (!err && peer && connect(fd, peer, len_of(peer)))
		err = -errno;
	if (err) {
		close(fd);
		return why(err, "weir_udp_open: %s: %s",
			   local ? "bind, or connect" : "connect",
			   strerror(-err));
	}
	*ret_fd = fd;
	return 0;
}

/* The socket's own address, and whether it is one of UDP. */
static int look_at(struct weir_udp *udp, struct weir_reactor *r, int fd)
{
	struct sockaddr_storage name = { 0 };
	socklen_t len = sizeof(int), n = sizeof(name);
	int type = 0, proto = 0, err = 0;

	if (r->backend->check_fd) {
		err = r->backend->check_fd(r, SOURCE_DATAGRAM, fd,
					   "weir_udp_create");
		if (!err)
			err = vfd_ops->name(fd, &name, &n);
	} else if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) ||
		   getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &proto, &len) ||
		   getsockname(fd, (struct sockaddr *)&name, &n)) {
		return why(-errno, "weir_udp_create: descriptor %d is not a "
			   "socket", fd);
	} else if (type != SOCK_DGRAM || proto != IPPROTO_UDP) {
		return why(-EINVAL, "weir_udp_create: descriptor %d is not a "
			   "socket of UDP; see weir_udp_open()", fd);
	}
	if (err)
		return err;
	if (!is_ip(name.ss_family))
		return why(-EINVAL, "weir_udp_create: descriptor %d is not a "
			   "socket of IPv4 or IPv6", fd);
	udp->family = name.ss_family;
	if (udp->family == AF_INET)
		udp->bound = ((struct sockaddr_in *)&name)->sin_addr;
	udp->port = udp->family == AF_INET ?
			    ((struct sockaddr_in *)&name)->sin_port :
			    ((struct sockaddr_in6 *)&name)->sin6_port;
	return 0;
}

static int set_txtime(int fd)
{
	struct sock_txtime how = { .clockid = CLOCK_MONOTONIC };
	int err = set(fd, SOL_SOCKET, SO_TXTIME, &how, sizeof(how));

	return err == -ENOPROTOOPT ? -EOPNOTSUPP : err;
}

/* Where there is no GRO, nothing is joined. */
static int set_flags(const struct weir_udp *udp, int fd)
{
	uint32_t flags = udp->in.udp_flags;
	bool six = udp->family == AF_INET6;
	int err = 0;

	if (flags & WEIR_UDP_LOCAL)
		err = six ? set_int(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) :
			    set_int(fd, IPPROTO_IP, IP_PKTINFO, 1);
	if (!err && flags & WEIR_UDP_TIMES)
		err = set_int(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1);
	if (!err && flags & WEIR_UDP_GRO && !fault_choice("udp_gro")) {
		err = set_int(fd, IPPROTO_UDP, UDP_GRO, 1);
		if (err == -ENOPROTOOPT)
			err = 0;
	}
	if (!err && flags & WEIR_UDP_TXTIME)
		err = set_txtime(fd);
	return err ? why(err, "weir_udp_create: an option of descriptor %d "
			 "cannot be set: %s", fd, strerror(-err)) : 0;
}

static int load_opts(struct weir_udp_opts *o, const struct weir_udp_opts *opts)
{
	int err = opts_load(o, sizeof(*o), opts, "weir_udp_create");
	bool gro;

	if (err)
		return err;
	gro = o->flags & WEIR_UDP_GRO;
	if (!o->bufs)
		o->bufs = gro ? 32 : 128;
	if (!o->buf_size)
		o->buf_size = gro ? BUF_MAX : 2048;
	if (!o->sends_max)
		o->sends_max = 1024;
	if (o->flags & ~FLAGS)
		return why(-EINVAL, "weir_udp_create: unknown .flags %#x",
			   o->flags);
	if (o->bufs & (o->bufs - 1) || o->bufs > BUFS_MAX ||
	    o->buf_size > BUF_MAX)
		return why(-EINVAL, "weir_udp_create: .bufs is no power of 2 up "
			   "to %u, or .buf_size is over %u", BUFS_MAX, BUF_MAX);
	return 0;
}

static void on_start(struct reactor_obj *obj)
{
	struct weir_udp *udp = weir_container_of(obj, struct weir_udp, in.obj);

	hand_out_later(udp);
	source_start(obj);
}

/* The reactor's program was killed. */
static void abandon(struct reactor_obj *obj)
{
	struct weir_udp *udp = weir_container_of(obj, struct weir_udp, in.obj);

	op_queue_init(&udp->sends);
	weir_udp_destroy(udp);
}

static int attach(struct weir_udp *udp, struct weir_reactor *r, int fd)
{
	int err;

	udp->in.deliver = deliver_in;
	udp->in.release = release_in;
	udp->in.rx = udp->rx;
	udp->shape.msg_namelen = RX_NAME;
	udp->shape.msg_controllen = RX_CONTROL;
	udp->in.shape = &udp->shape;
	udp->rx->source = &udp->in;
	err = source_init(&udp->in, r, "weir_udp", SOURCE_DATAGRAM, fd);
	if (err)
		return err;
	udp->in.obj.start = on_start;
	udp->in.obj.abandon = abandon;
	/* It follows .in, which is the one that hangs on the reactor. */
	udp->out.reactor = r;
	udp->out.kind = SOURCE_WATCH;
	udp->out.fd = fd;
	udp->out.events = WEIR_WRITABLE;
	udp->out.deliver = deliver_out;
	udp->out.release = release_out;
	udp->n_sources = 2;
	assume_gso(udp);
	return 0;
}

static void init(struct weir_udp *udp, const struct weir_udp_opts *o,
		 weir_udp_fn *fn, void *arg)
{
	udp->fn = fn;
	udp->arg = arg;
	udp->in.udp_flags = o->flags;
	udp->sends_max = o->sends_max;
	udp->flush.fn = flush;
	op_queue_init(&udp->sends);
	rx_queue_init(&udp->kept);
	weir_op_init(&udp->later, on_later);
}

int weir_udp_create(struct weir_udp **ret, struct weir_reactor *r, int fd,
		    const struct weir_udp_opts *opts, weir_udp_fn *fn,
		    void *arg)
{
	struct weir_udp_opts o;
	struct weir_udp *udp;
	int err = load_opts(&o, opts);

	if (!err && !fn)
		err = why(-EINVAL, "weir_udp_create: no callback");
	if (err)
		return err;
	udp = mem_calloc(1, sizeof(*udp));
	if (!udp)
		return why(-ENOMEM, "weir_udp_create: no memory");
	init(udp, &o, fn, arg);
	err = look_at(udp, r, fd);
	if (!err)
		err = set_flags(udp, fd);
	if (!err && rx_make(&udp->rx, o.bufs, (RX_HEAD + o.buf_size + 7) & ~7u))
		err = why(-ENOMEM, "weir_udp_create: no memory for %u buffers "
			  "of %u bytes", o.bufs, o.buf_size);
	if (!err)
		err = attach(udp, r, fd);
	if (err) {
		rx_end(r, udp->rx);
		free(udp);
		return err;
	}
	err = source_arm(&udp->in);
	if (err) {
		weir_udp_destroy(udp);
		return why(err, "weir_udp_create: no capacity for descriptor %d",
			   fd);
	}
	*ret = udp;
	return 0;
}

int weir_udp_set(struct weir_udp *udp, int on)
{
	struct source *s = &udp->in;
	int err;

	reactor_check_thread(s->reactor);
	if (s->reactor->attention & ATTENTION_STOPPING)
		return why(-ESHUTDOWN, "weir_udp_set: the reactor is stopping "
			   "or stopped");
	if (udp->paused == !on)
		return 0;
	if (!on) {
		udp->paused = true;
		source_disarm(s);
		return 0;
	}
	err = udp->ended ? 0 : source_arm(s);
	if (err)
		return why(err, "weir_udp_set: no capacity for descriptor %d; "
			   "the socket is still paused", s->fd);
	udp->paused = false;
	hand_out_later(udp);
	return 0;
}

int weir_udp_is_ended(const struct weir_udp *udp)
{
	reactor_check_thread(udp->in.reactor);
	return udp->ended;
}

void weir_udp_release(struct weir_udp *udp, const void *data)
{
	struct weir_reactor *r = udp->in.reactor;

	reactor_check_thread(r);
	rx_put(r, udp->rx, rx_id_of(udp->rx, data));
	reactor_touch(r);
}

void weir_udp_destroy(struct weir_udp *udp)
{
	if (!udp)
		return;
	reactor_check_thread(udp->in.reactor);
	while (!op_queue_empty(&udp->sends))
		send_end(udp->sends.first, -ECANCELED);
	flush_del(&udp->flush);
	while (!rx_queue_empty(&udp->kept))
		rx_put(udp->in.reactor, udp->rx,
		       rx_queue_pop(udp->rx, &udp->kept));
	udp->passing = udp->end = 0;
	/* The second one may free it. */
	source_destroy(&udp->out);
	source_destroy(&udp->in);
}

/* Options. */

static int change_group(struct weir_udp *udp, const char *call, bool join,
			const struct sockaddr *group,
			const struct sockaddr *source, uint32_t ifindex)
{
	int level = udp->family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
	struct group_source_req of = { .gsr_interface = ifindex };
	struct group_req any = { .gr_interface = ifindex };
	int err;

	reactor_check_thread(udp->in.reactor);
	if (!group || family_of(group) != udp->family ||
	    !is_multicast((const union weir_udp_addr *)(const void *)group) ||
	    (source && family_of(source) != udp->family))
		return why(-EINVAL, "%s: the group is no multicast address of "
			   "the socket's family, or the source is no address "
			   "of it", call);
	memcpy(&any.gr_group, group, len_of(group));
	memcpy(&of.gsr_group, group, len_of(group));
	if (source)
		memcpy(&of.gsr_source, source, len_of(source));
	err = source ? set(udp->in.fd, level,
			   join ? MCAST_JOIN_SOURCE_GROUP :
				  MCAST_LEAVE_SOURCE_GROUP, &of, sizeof(of)) :
		       set(udp->in.fd, level,
			   join ? MCAST_JOIN_GROUP : MCAST_LEAVE_GROUP, &any,
			   sizeof(any));
	return err ? why(err, "%s: interface %u: %s", call, ifindex,
			 strerror(-err)) : 0;
}

int weir_udp_join(struct weir_udp *udp, const struct sockaddr *group,
		  const struct sockaddr *source, uint32_t ifindex)
{
	return change_group(udp, "weir_udp_join", true, group, source, ifindex);
}

int weir_udp_leave(struct weir_udp *udp, const struct sockaddr *group,
		   const struct sockaddr *source, uint32_t ifindex)
{
	return change_group(udp, "weir_udp_leave", false, group, source,
			    ifindex);
}

static int set_interface(int fd, bool six, int ifindex)
{
	struct ip_mreqn four = { .imr_ifindex = ifindex };
	int err = six ? set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, ifindex) :
			set(fd, IPPROTO_IP, IP_MULTICAST_IF, &four,
			    sizeof(four));

	return err == -EADDRNOTAVAIL ? -ENODEV : err;
}

/* The largest value of each option. */
static const uint64_t value_max[] = {
	[WEIR_UDP_TTL] = 255,
	[WEIR_UDP_MULTICAST_TTL] = 255,
	[WEIR_UDP_MULTICAST_LOOP] = 1,
	[WEIR_UDP_MULTICAST_IF] = INT32_MAX,
	[WEIR_UDP_BROADCAST] = 1,
	[WEIR_UDP_PACING] = UINT64_MAX,
};

static int set_option(int fd, bool six, uint32_t option, uint64_t value)
{
	int v = (int)value;

	switch (option) {
	case WEIR_UDP_TTL:
		return six ? set_int(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, v) :
			     set_int(fd, IPPROTO_IP, IP_TTL, v);
	case WEIR_UDP_MULTICAST_TTL:
		return six ? set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, v) :
			     set_int(fd, IPPROTO_IP, IP_MULTICAST_TTL, v);
	case WEIR_UDP_MULTICAST_LOOP:
		return six ? set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, v) :
			     set_int(fd, IPPROTO_IP, IP_MULTICAST_LOOP, v);
	case WEIR_UDP_MULTICAST_IF:
		return set_interface(fd, six, v);
	case WEIR_UDP_BROADCAST:
		return set_int(fd, SOL_SOCKET, SO_BROADCAST, v);
	default:
		if (!value)
			value = UINT64_MAX;
		return set(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &value,
			   sizeof(value));
	}
}

int weir_udp_option(struct weir_udp *udp, uint32_t option, uint64_t value)
{
	int err;

	reactor_check_thread(udp->in.reactor);
	if (!option || option > WEIR_UDP_PACING || value > value_max[option] ||
	    (option == WEIR_UDP_TTL && !value))
		return why(-EINVAL, "weir_udp_option: unknown option %u, or its "
			   "value is out of range", option);
	err = set_option(udp->in.fd, udp->family == AF_INET6, option, value);
	return err ? why(err, "weir_udp_option: option %u of descriptor %d: %s",
			 option, udp->in.fd, strerror(-err)) : 0;
}
