/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_UDP_H
#define WEIR_UDP_H

/*
 * UDP: datagrams in and out, many with one system call.
 *
 * A struct weir_udp receives from one socket until it is destroyed, and sends
 * through it.  Each datagram that arrives is one call of a function, with the
 * peer's address, and if wanted the local address, the time of arrival, and the
 * datagrams that the kernel has joined (GRO).  Each datagram that is sent is an
 * operation, with a deadline and a cancel; those that were started in one turn of
 * the reactor go to the kernel together.
 *
 * A server answers a datagram by sending a copy of its description, with other
 * data; the answer then leaves from the address that the question was sent to:
 *
 *	static int on_datagram(struct weir_udp *udp,
 *			       const struct weir_udp_msg *msg, int err, void *arg)
 *	{
 *		struct answer *a;
 *
 *		if (err)
 *			return WEIR_UDP_DONE;
 *		a = take_answer(arg);
 *		a->msg = *msg;
 *		a->msg.data = a->text;
 *		a->msg.len = fill(a->text, msg->data, msg->len);
 *		if (weir_udp_send(udp, &a->op, &a->msg))
 *			give_back(a);
 *		return WEIR_UDP_DONE;
 *	}
 *
 * The socket is a plain descriptor, of the caller: make it with weir_udp_open(),
 * or with socket(2).  While it has a struct weir_udp, do not receive from it in
 * another way, and do not set IP_RECVERR: the library does not read the error
 * queue.
 *
 * In a simulated world it is weir_sim_datagram()'s.  GRO joins nothing there, and
 * multicast, WEIR_UDP_TXTIME and the options of weir_udp_option() are not simulated
 * (-EOPNOTSUPP).
 */

#include <netinet/in.h>
#include <sys/socket.h>

#include <weir/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An address and port of IPv4 or IPv6; .any.sa_family 0 (AF_UNSPEC): none. */
union weir_udp_addr {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* Flags of a datagram that has arrived. */
#define WEIR_UDP_TRUNCATED 1u	/* It did not fit into the buffer. */

/*
 * A datagram that has arrived, or is to be sent.
 *
 * Before it fills one in, a caller that sends sets all of it to 0.  A send ignores
 * the members marked "In"; received messages have 0 in those marked "Out".
 */
struct weir_udp_msg {
	void *data;
	uint32_t len;		/* Bytes at .data; 0 is a datagram, too. */
	uint32_t flags;		/* In: WEIR_UDP_TRUNCATED. */

	/*
	 * Several datagrams of this size, one after the other in .data, of which
	 * the last may be shorter; 0: it is one.  In: joined by the kernel, with
	 * WEIR_UDP_GRO.  Out: to be cut, at most WEIR_UDP_SEGMENTS_MAX; by the
	 * kernel or the device (GSO) where they can.
	 */
	uint32_t segment;

	/*
	 * In: the interface by which it came, with WEIR_UDP_LOCAL.  Out: that by
	 * which it goes, if .peer is a multicast or link-local address; otherwise
	 * the route selects the interface.
	 */
	uint32_t ifindex;

	/* In: CLOCK_REALTIME when the kernel got it, with WEIR_UDP_TIMES. */
	uint64_t arrived_ns;

	/* Out: when it shall leave, as weir_reactor_now(), with
	 * WEIR_UDP_TXTIME; 0: at once. */
	uint64_t depart_ns;

	/* Where it is from, or goes to.  Out: none, if the socket is connected
	 * and it goes to that peer. */
	union weir_udp_addr peer;

	/*
	 * In: the address of this machine that it was sent to, with
	 * WEIR_UDP_LOCAL; for a broadcast, our address there (IPv4 sockets
	 * only).  Out: the address that it shall come from; none, or a multicast
	 * address: the kernel chooses.  The port is always the socket's.
	 */
	union weir_udp_addr local;

	uint64_t reserved[4];	/* 0. */
};

/* Segments of a send, at most. */
#define WEIR_UDP_SEGMENTS_MAX 64

/* Flags of weir_udp_opts. */
#define WEIR_UDP_LOCAL 1u	/* Report .local and .ifindex: IP_PKTINFO. */
#define WEIR_UDP_TIMES 2u	/* Report .arrived_ns: SO_TIMESTAMPNS. */
#define WEIR_UDP_GRO 4u		/* Let the kernel join datagrams: UDP_GRO. */
#define WEIR_UDP_TXTIME 8u	/* .depart_ns is heeded: SO_TXTIME. */

/* Options of weir_udp_create(); all may be 0. */
struct weir_udp_opts {
	size_t size;		/* sizeof(struct weir_udp_opts) */
	uint32_t flags;		/* WEIR_UDP_ */
	uint32_t bufs;		/* Buffers to receive into, a power of 2, at
				 * most 32768; 0: 128, with GRO 32. */
	uint32_t buf_size;	/* Bytes of a datagram, at most 65535; 0: 2048,
				 * with GRO 65535. */
	uint32_t sends_max;	/* Sends that may be in flight; 0: 1024. */
};

struct weir_udp;

/*
 * Called with each datagram, and @err 0; or with @msg NULL, and @err a negative
 * errno.
 *
 * An error of the network, such as -ECONNREFUSED for an earlier datagram of a
 * connected socket (an ICMP message), does not end anything; see
 * weir_udp_is_ended() for others.  Errors that come faster than they are reported
 * become one.
 *
 * The callback may use @msg until it returns, and the data as well, or, if it
 * returns WEIR_UDP_KEEP, until weir_udp_release().
 */
typedef int weir_udp_fn(struct weir_udp *udp, const struct weir_udp_msg *msg,
			int err, void *arg);

/* Results of a weir_udp_fn. */
#define WEIR_UDP_DONE 0		/* The library may reuse the buffer. */
#define WEIR_UDP_KEEP 1		/* The callback keeps it for now. */

/* Flags of weir_udp_open(). */
#define WEIR_UDP_REUSEPORT 1u	/* Several sockets share one port. */
#define WEIR_UDP_REUSEADDR 2u	/* The same for multicast. */
#define WEIR_UDP_V6ONLY 4u	/* IPv6: not for IPv4 as well. */

/*
 * Make a UDP socket that is bound to @local, connected to @peer, or both.
 *
 * Either may be NULL; both are a struct sockaddr_in or sockaddr_in6.  A connected
 * socket receives from its peer only, and reports -ECONNREFUSED when the peer's
 * port is closed.
 * An IPv6 socket serves IPv4, too, as mapped addresses, unless WEIR_UDP_V6ONLY is
 * set.
 *
 * Returns 0 with *@ret_fd set, to be closed by the caller, or
 *   -EINVAL        no address, one that is not of IPv4 or IPv6, two of different
 *                  families, or unknown @flags
 *   -EADDRINUSE    the address is in use
 *   -EACCES        no permission, as for a port below 1024
 *   -EADDRNOTAVAIL @local is not an address of this machine
 *   -ENETUNREACH   there is no route to @peer
 *   -EAFNOSUPPORT  the kernel has no IPv6
 *   -EMFILE        no descriptor left
 *   -ENOBUFS, -ENOMEM  no memory
 *
 * Any thread.  Does not block.
 *
 * Re-creates uv_udp_bind() and uv_udp_connect().
 */
WEIR_API int weir_udp_open(int *ret_fd, const struct sockaddr *local,
			   const struct sockaddr *peer, uint32_t flags);

/*
 * Receive from, and send through, the UDP socket @fd until destroyed.
 *
 * Datagrams arrive in .bufs buffers that are this socket's own, so a callback that
 * keeps them delays no other socket.  When all are kept, datagrams wait in the
 * kernel's queue of the socket (SO_RCVBUF), which drops those that do not fit.
 * @opts may be NULL.
 *
 * WEIR_UDP_GRO has no effect where the kernel is older than Linux 5.0.
 *
 * Returns 0 with *@ret set, to be freed by weir_udp_destroy(), or
 *   -EINVAL     @fn is NULL, @fd is not a UDP socket of IPv4 or IPv6, or a value
 *               of @opts is out of its range
 *   -E2BIG      @opts has more than this library knows
 *   -EBADF, -ENOTSOCK  @fd is not a socket
 *   -EOPNOTSUPP WEIR_UDP_TXTIME: the kernel is older than Linux 4.19; or the world
 *               is simulated
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *   other errnos  of setsockopt(2), which cannot set what .flags ask for
 *
 * Call on @r's thread.
 *
 * Re-creates io_uring_prep_recvmsg_multishot() with provided buffers, recvmmsg(2)
 * and uv_udp_recv_start().
 */
WEIR_API int weir_udp_create(struct weir_udp **ret, struct weir_reactor *r,
			     int fd, const struct weir_udp_opts *opts,
			     weir_udp_fn *fn, void *arg);

/*
 * Send @msg, which is copied but for its data: those stay the caller's to keep
 * until the callback.
 *
 * The kernel gets it at the end of the turn, together with all others.  If it has
 * no capacity for more (SO_SNDBUF), those that are left wait for it, in their
 * order.
 *
 * Completes with .len when the kernel has taken all of it, which does not mean
 * that it arrives, or a negative errno of sendmsg(2), such as
 *   -EMSGSIZE      it is longer than a datagram may be
 *   -EDESTADDRREQ  it has no peer, and the socket is not connected
 *   -EINVAL, -ENETUNREACH  .local is no address of this machine
 *
 * A pending error of an earlier datagram is not this one's: it is reported to the
 * socket's callback, and @msg is sent.  The detail has the bytes that the
 * kernel has taken.
 *
 * Returns 0, or
 *   -EINVAL     there are bytes without an address, an address is not of IPv4 or
 *               IPv6 or of the socket's family, .peer has port 0, a reserved
 *               word is not 0, or .depart_ns is set without WEIR_UDP_TXTIME
 *   -EMSGSIZE   .len is over 65,507 bytes, with IPv6 65,527, or there would be
 *               more than WEIR_UDP_SEGMENTS_MAX segments
 *   -EAGAIN     .sends_max are in flight already
 *   -ESHUTDOWN  the reactor is stopping
 *
 * Call on the socket's reactor.  Never blocks, never allocates.
 *
 * Re-creates sendmmsg(2), uv_udp_send(), and UDP_SEGMENT.
 */
WEIR_API int weir_udp_send(struct weir_udp *udp, struct weir_op *op,
			   const struct weir_udp_msg *msg);

/*
 * Return @data, which a callback has kept, to the buffers of @udp.
 *
 * Any address within the datagram will do.
 *
 * Call on the socket's reactor.  Never blocks.
 */
WEIR_API void weir_udp_release(struct weir_udp *udp, const void *data);

/*
 * Pause (@on = 0) or resume (1) receiving, for backpressure.
 *
 * Datagrams that the kernel has delivered before the pause are kept and reported
 * after the resume.  Sends go on.
 *
 * Returns 0, or
 *   -ESHUTDOWN  the reactor is stopping
 *   other errnos  of a resume, after which the socket is still paused
 *
 * Call on the socket's reactor.
 *
 * Re-creates uv_udp_recv_stop().
 */
WEIR_API int weir_udp_set(struct weir_udp *udp, int on);

/*
 * Whether receiving has ended.
 *
 * It does so after an error that is not the network's, which is reported to the
 * callback.  It receives nothing more; sends still go to the kernel.
 *
 * Returns 1 if it has, else 0.
 *
 * Call on the socket's reactor.
 */
WEIR_API int weir_udp_is_ended(const struct weir_udp *udp);

/*
 * Join the multicast group @group, on the interface @ifindex, or with 0 on one
 * that the kernel chooses; with @source not NULL, for datagrams of that address
 * only.
 *
 * Bind the socket to the port, and to the group's address or to none.  With
 * WEIR_UDP_LOCAL .local says which group a datagram was sent to: a socket may get
 * those of groups that others have joined.
 *
 * Returns 0, or
 *   -EINVAL      @group is not a multicast address, or is of another family than
 *                the socket, or @source is
 *   -ENODEV      there is no such interface
 *   -EADDRINUSE  it has joined this group there already
 *   -ENOBUFS     more groups than net.ipv4.igmp_max_memberships
 *   -EOPNOTSUPP  the world is simulated
 *
 * Call on the socket's reactor.  Does not block.
 *
 * Re-creates uv_udp_set_membership() and uv_udp_set_source_membership().
 */
WEIR_API int weir_udp_join(struct weir_udp *udp, const struct sockaddr *group,
			   const struct sockaddr *source, uint32_t ifindex);

/*
 * Leave the group that weir_udp_join() with the same arguments has joined.
 *
 * A close leaves all.
 *
 * Returns 0, or
 *   -EINVAL         as weir_udp_join()
 *   -EADDRNOTAVAIL  it has not joined this group there
 *   -EOPNOTSUPP     the world is simulated
 *
 * Call on the socket's reactor.  Does not block.
 *
 * Re-creates uv_udp_set_membership(), with UV_LEAVE_GROUP.
 */
WEIR_API int weir_udp_leave(struct weir_udp *udp, const struct sockaddr *group,
			    const struct sockaddr *source, uint32_t ifindex);

/* Options of weir_udp_option(), for the family of the socket. */
#define WEIR_UDP_TTL 1u		/* Hops of a datagram, 1 to 255. */
#define WEIR_UDP_MULTICAST_TTL 2u /* The same to a group, 0 to 255; at first 1. */
#define WEIR_UDP_MULTICAST_LOOP 3u /* This machine gets its own, 0 or 1. */
#define WEIR_UDP_MULTICAST_IF 4u /* Index of the interface; 0: the route's. */
#define WEIR_UDP_BROADCAST 5u	/* IPv4: may send to broadcast addresses. */
#define WEIR_UDP_PACING 6u	/* Bytes a second at most; 0: any rate. */

/*
 * Set an option of the socket: @option is WEIR_UDP_TTL or one of those after it.
 *
 * WEIR_UDP_PACING, as .depart_ns, is heeded by the packet scheduler "fq" of the
 * interface (tc-fq(8)); others send at once.
 *
 * Returns 0, or
 *   -EINVAL      unknown @option, or @value is out of its range
 *   -ENODEV      WEIR_UDP_MULTICAST_IF: there is no such interface
 *   -EOPNOTSUPP  the world is simulated
 *
 * Call on the socket's reactor.  Does not block.
 *
 * Re-creates uv_udp_set_ttl(), uv_udp_set_multicast_ttl(),
 * uv_udp_set_multicast_loop(), uv_udp_set_multicast_interface() and
 * uv_udp_set_broadcast().
 */
WEIR_API int weir_udp_option(struct weir_udp *udp, uint32_t option,
			     uint64_t value);

/*
 * Stop receiving, and free @udp.
 *
 * Sends that the kernel has not taken complete with -ECANCELED, in a later turn.
 * Buffers that the callback has kept are gone.  The caller still owns the socket.
 * NULL is allowed, and any callback may make this call, the socket's own as well.
 *
 * Call on the socket's reactor.
 */
WEIR_API void weir_udp_destroy(struct weir_udp *udp);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_UDP_H */
