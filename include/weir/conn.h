/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_CONN_H
#define WEIR_CONN_H

/*
 * Connections: two ends that reach each other's memory by RDMA.
 *
 * Addresses are those of IP, IPv4 and IPv6; rdma_cm finds the RDMA device that
 * has them.  Each connection is one reliable queue pair (QP), made in the
 * protection domain of the open weir_device of that name, so that mmaps which
 * are registered with this device can be used on it.
 *
 * A client, each line when the operation of the one before has completed:
 *
 *	weir_conn_create(&c, r, NULL, NULL);
 *	weir_conn_connect(c, &op, to, to_len, NULL, 0, NULL, 0);
 *	...
 *	weir_conn_disconnect(c, &op);
 *	weir_conn_destroy(c);
 *
 * A server; weir_conn_set_end_fn() tells it that the client has disconnected:
 *
 *	weir_listener_create(&l, r, to, to_len, NULL);
 *	weir_listener_next(l, &op, &c);
 *	weir_conn_accept(c, &op, NULL, 0);
 *	...
 *	weir_conn_destroy(c);
 *
 * States; docs/internals/dma.md has the tables of what each call and event
 * does:
 *
 *	        connect              the answer
 *	IDLE --------> CONNECTING -----------------+
 *	  ended client |  ^ reconnect              v          end, disconnect
 *	       ^       v  |                   ESTABLISHED -----> CLOSING
 *	       +----- ENDED <-----------+          ^                |
 *	                ^    refused    |          | it is there    v
 *	REQUESTED ------+---------- ACCEPTING -----+              ENDED
 *	   |  reject                    ^
 *	   +---- accept ----------------+
 *
 * To find out that it has ended: a peer that disconnects, or whose process
 * ends, is noticed at once.  A peer whose machine or link has gone is noticed
 * by the work that is sent to it, and by nothing else: an idle connection
 * cannot tell.
 *
 * Without verbs, every call here that makes something is -EOPNOTSUPP.
 *
 * The calls make system calls which take some microseconds, QPs up to some
 * milliseconds.
 */

#include <sys/socket.h>

#include <weir/domain.h>
#include <weir/op.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_channel;
struct weir_conn;
struct weir_domain;
struct weir_listener;
struct weir_srq;

/* States; weir_conn_state(). */
#define WEIR_CONN_IDLE 1	/* It was never connected. */
#define WEIR_CONN_CONNECTING 2	/* Also while it waits to reconnect. */
#define WEIR_CONN_REQUESTED 3	/* A peer wants it; no answer yet. */
#define WEIR_CONN_ACCEPTING 4	/* The peer has still to hear of it. */
#define WEIR_CONN_ESTABLISHED 5
#define WEIR_CONN_CLOSING 6	/* Work in flight is being flushed. */
#define WEIR_CONN_ENDED 7

/* Private data: bytes that can go with each message of the exchange. */
#define WEIR_CONN_CONNECT_DATA 56
#define WEIR_CONN_ACCEPT_DATA 196
#define WEIR_CONN_REJECT_DATA 148

/* As .retries and .rnr_retries: not even once. */
#define WEIR_CONN_NO_RETRY 255

/* What a weir_conn_end_fn may be told beside 0 and errnos. */
#define WEIR_CONN_AGAIN 1

/*
 * Options of a connection.  Set .size to the size of the struct; 0
 * is the default of every other member.
 */
struct weir_conn_opts {
	size_t size;
	uint32_t sends;		/* Work requests in flight; 0: 64. */
	uint32_t recvs;		/* With .srq: messages that may wait for a
				 * callback; 0: 128.  Without, nothing is
				 * received: 0. */
	uint32_t max_sge;	/* Pieces of one; 0: 16, or what there is. */
	uint32_t max_inline;	/* Bytes inside one; 0: 64, or what there is. */
	uint32_t reads;		/* Reads and atomics in flight, in each
				 * direction; 0: 16, or what there is. */
	uint8_t retries;	/* If nothing comes back, up to 7; 0: 6,
				 * because soft-RoCE takes 7 for unlimited. */
	uint8_t rnr_retries;	/* If the peer has posted no receive; 7, and
				 * 0: unlimited, but see .stall_ns. */
	uint8_t ack_timeout;	/* Before the first retry: 4.096 us times 2 to
				 * the power of this, up to 31; 0: by the
				 * route. */
	uint8_t rnr_timer;	/* What we ask a peer to wait, as IBTA encodes
				 * it, up to 31; 0: 0.64 ms. */
	struct weir_srq *srq;	/* Messages are received into it, see
				 * <weir/message.h>; on the same reactor, and
				 * it must live longer. */
	uint32_t resolve_ms;	/* For each of address and route; 0: 5000. */

	/* Reconnect after an end that this side did not ask for: */
	uint32_t attempts;	/* How often for each end; 0: do not. */
	uint64_t first_ns;	/* Wait before the first; 0: 100 ms. */
	uint64_t most_ns;	/* It doubles each time up to this; 0: 10 s.
				 * Each wait is shortened by a random part, up
				 * to half of it. */

	/*
	 * A connection whose peer does not answer ends by itself.  For each:
	 * 0: the default; WEIR_FOREVER: not at all.
	 */
	uint64_t keepalive_ns;	/* If nothing was sent for so long, write 0
				 * bytes to the peer, which ends the connection
				 * with -ECONNRESET if no answer comes.  The
				 * peer's program takes no notice, but its QP
				 * must allow remote writes, as those of
				 * librdmacm do.  At least 1 ms; default 10 s.
				 * WEIR_FOREVER: an idle connection causes no
				 * wake-up, and a dead peer is not detected. */
	uint64_t stall_ns;	/* End the connection with -ETIMEDOUT if work
				 * is posted and none of it has ended for so
				 * long; detected up to one .keepalive_ns later.
				 * At least 1 ms; default 30 s. */
	uint64_t grace_ns;	/* End the connection with -ETIMEDOUT if posted
				 * work was cancelled, or its deadline has
				 * passed, and no work has ended for so long
				 * since.  At least 1 ms; default 1 s.
				 * WEIR_FOREVER: a cancel and a deadline do not
				 * end posted work. */
};

/* What there is to know about a connection; weir_conn_info(). */
struct weir_conn_info {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint32_t state;		/* WEIR_CONN_ */
	uint32_t qp_num;	/* 0: there is no QP. */
	uint32_t sends, recvs;	/* As above, as they are. */
	uint32_t max_sge;
	uint32_t max_inline;
	uint32_t reads_out;	/* That we may have in flight at the peer, */
	uint32_t reads_in;	/* and it here. */
	uint64_t posted;	/* Pieces of work in flight. */
	uint64_t connects;	/* Times that it was established. */
	uint64_t attempts;	/* Times that it was tried. */
	char device[64];	/* "": not known yet. */
};

/*
 * Create a connection that weir_conn_connect() can establish.
 *
 * Its completions come through @channel, which must be on @r and of the device
 * that will be used, and must live longer; several connections may share it.
 * NULL: the connection has one of its own, as long as it has a QP.
 *
 * Returns 0 with *@ret set, to be freed by weir_conn_destroy(), or
 *   -EINVAL      an option is out of its range
 *   -EXDEV       .srq is another reactor's
 *   -E2BIG       @opts sets a member that this version does not have
 *   -ENODEV, -EACCES, -EMFILE and others  rdma_cm cannot be opened;
 *                weir_why() says more
 *   -ENOMEM      no memory
 *   -ESHUTDOWN   @r is stopping
 *
 * Call on @r's thread.
 *
 * Re-creates rdma_create_id() and rdma_create_qp().
 */
WEIR_API int weir_conn_create(struct weir_conn **ret, struct weir_reactor *r,
			      struct weir_channel *channel,
			      const struct weir_conn_opts *opts);

/*
 * Connect to @to, from the address @from or, with NULL, whichever fits.
 *
 * The peer gets the @len bytes at @data, filled up with zeros to
 * WEIR_CONN_CONNECT_DATA.  All is copied.  Give it a deadline: if the peer's
 * machine does not answer, rdma_cm tries for more than a minute.
 *
 * Completes with 0 when the connection stands, or
 *   -ECONNREFUSED  the peer has rejected it, weir_conn_peer_data() is what it
 *                  said; or no listener is there
 *   -EHOSTUNREACH  no host has that address, or there is no route
 *   -ETIMEDOUT     no answer, or the deadline
 *   -ECONNRESET    the peer gave up in the middle of it
 *   -ECANCELED     cancelled
 *   -ENODEV        no RDMA device reaches @to, or it was removed
 *   -EXDEV         the device that does is not that of the channel, or of .srq
 *   -EOPNOTSUPP    it is an iWARP device, which weir does not use
 *   -EAGAIN        the channel has no capacity for .sends, and the device
 *                  does not make its completion queue larger
 *   -EINVAL, -ENOMEM, -EIO and others  the device refuses the QP; weir_why()
 *                  says more, on this thread and until another call fails
 * and then the state is ENDED.  The code of the detail is rdma_cm's own status.
 *
 * Returns 0, or
 *   -EINVAL       no address of IPv4 or IPv6
 *   -EMSGSIZE     @len is more than WEIR_CONN_CONNECT_DATA
 *   -EBADFD       it is neither IDLE nor ENDED
 *   -EPERM        it came from a listener: its peer connects again
 *   -ENETUNREACH  there is no way to @to
 *   -EAGAIN, -ESHUTDOWN, -ENOMEM and others  see <weir/op.h>, and what
 *                 rdma_cm says
 *
 * Call on the connection's reactor.
 *
 * Re-creates rdma_resolve_addr(), rdma_resolve_route() and rdma_connect().
 */
WEIR_API int weir_conn_connect(struct weir_conn *c, struct weir_op *op,
			       const struct sockaddr *to, socklen_t to_len,
			       const struct sockaddr *from,
			       socklen_t from_len, const void *data,
			       size_t len);

/*
 * Accept a connection that a peer has asked for, with @len bytes of private
 * data at @data, which are copied.
 *
 * Completes with 0 when the connection stands, or
 *   -ECONNRESET  the peer has given up
 *   -ETIMEDOUT   it has not answered; or the deadline
 *   -ECANCELED   cancelled
 *   -ENODEV      the device was removed
 * and then the state is ENDED.
 *
 * Returns 0, or, with nothing changed:
 *   -EMSGSIZE    @len is more than WEIR_CONN_ACCEPT_DATA
 *   -EBADFD      it is not REQUESTED
 *   -ECONNRESET  the peer has given up already
 *   -EXDEV       the device is not that of the listener's channel, or .srq
 *   -EOPNOTSUPP  it is an iWARP device, which weir does not use
 *   -EAGAIN      that has no capacity, or the reactor
 *   -EINVAL, -ENOMEM, -EIO and others  the device refuses the QP; weir_why()
 *                says more
 *   -ESHUTDOWN   the reactor is stopping
 *
 * Call on the connection's reactor.
 *
 * Re-creates rdma_accept().
 */
WEIR_API int weir_conn_accept(struct weir_conn *c, struct weir_op *op,
			      const void *data, size_t len);

/*
 * Reject a connection that a peer has asked for, with @len bytes of private
 * data at @data; its state is then ENDED.
 *
 * Returns 0, also if the peer has given up, or, with nothing changed:
 *   -EMSGSIZE  @len is more than WEIR_CONN_REJECT_DATA
 *   -EBADFD    it is not REQUESTED
 *   -ENOMEM, -EIO and others  what rdma_cm says
 *
 * Call on the connection's reactor.
 *
 * Re-creates rdma_reject().
 */
WEIR_API int weir_conn_reject(struct weir_conn *c, const void *data,
			      size_t len);

/*
 * End a connection.  The peer is told; work that is in flight ends, flushed;
 * no end function is called, and nothing is reconnected.
 *
 * Completes with 0 when no work is posted any more and the peer has answered,
 * which it waits for up to 5 s; a cancel and a deadline end that wait
 * (-ECANCELED, -ETIMEDOUT), not the wait for the work.  Then the state is ENDED
 * in any case.  It does not wait for rdma_cm's TIMEWAIT_EXIT.
 *
 * Returns 0, or
 *   -ENOTCONN  there is no connection, nor one to wait for
 *   -EBUSY     another operation on it is in flight
 *   -EAGAIN, -EINVAL, -ESHUTDOWN  see <weir/op.h>
 *
 * Call on the connection's reactor.
 *
 * Re-creates rdma_disconnect().
 */
WEIR_API int weir_conn_disconnect(struct weir_conn *c, struct weir_op *op);

/*
 * Called when an established connection has ended and nothing is in flight on
 * it any more: @why is
 *
 *	0            the peer has disconnected
 *	-ENODEV      the device was removed
 *	-ECONNRESET  the peer does not answer: retries were exhausted; or it gave
 *	             up while it was being connected
 *	-ETIMEDOUT   posted work did not end: see .stall_ns and .grace_ns
 *	-EIO and others  the QP failed
 *
 * or, with reconnecting, WEIR_CONN_AGAIN when it is established again, and once
 * more an errno when the last attempt has failed.  weir_conn_state() says
 * whether it is going to be tried: CONNECTING, or ENDED.
 *
 * May destroy @c.  Runs from the loop.
 */
typedef void weir_conn_end_fn(struct weir_conn *c, int why, void *arg);

/*
 * Have @fn called with @arg when @c ends without being asked to.  NULL: no
 * callback.
 *
 * Call on the connection's reactor.  Never blocks.
 */
WEIR_API void weir_conn_set_end_fn(struct weir_conn *c, weir_conn_end_fn *fn,
				   void *arg);

/*
 * The state of @c, WEIR_CONN_.
 *
 * Call on the connection's reactor.  Never blocks.
 */
WEIR_API int weir_conn_state(const struct weir_conn *c);

/*
 * The private data that the peer has sent last: with its request, its answer,
 * or its refusal; *@len bytes of it.  The fabric fills them up with zeros, so
 * *@len is not what the peer has given.
 *
 * Returns them, @c's own until the next connect, at a multiple of 8; NULL with
 * *@len 0 if it has sent none.
 *
 * Call on the connection's reactor.  Never blocks.
 */
WEIR_API const void *weir_conn_peer_data(const struct weir_conn *c,
					 size_t *len);

/*
 * The address of the peer, in the *@len bytes at @addr.
 *
 * Returns 0 with *@len set to what it takes, or
 *   -ENOTCONN  there is none
 *   -EMSGSIZE  it does not fit; a struct sockaddr_storage is enough
 *
 * Call on the connection's reactor.  Never blocks.
 */
WEIR_API int weir_conn_peer_address(const struct weir_conn *c,
				    struct sockaddr *addr, socklen_t *len);

/*
 * Copy what there is to know about @c to *@ret, whose .size the caller has
 * set.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the connection's reactor.  Never blocks.
 */
WEIR_API int weir_conn_info(const struct weir_conn *c,
			    struct weir_conn_info *ret);

/*
 * Have @c reach the peer whose memory @domain is: jobs of contexts on its
 * reactor that name the domain go by it, also after it has reconnected.
 *
 * While there is no connection such jobs are refused, -ENOTCONN.  If it ends,
 * all that are in flight end: one with what has happened, the others with
 * -ECANCELED.  What was done of a job is then its beginning.
 *
 * Returns 0, or
 *   -EINVAL       @domain is no remote one
 *   -EALREADY     @c reaches it already
 *   -EBUSY        another connection does
 *
 * Call on the connection's reactor.  Never blocks.
 *
 * Re-creates the side of spdk_rdma_utils that has a domain for a protection
 * domain.
 */
WEIR_API int weir_conn_attach(struct weir_conn *c, struct weir_domain *domain);

/*
 * Undo weir_conn_attach().
 *
 * Returns 0, or
 *   -ENOENT  @c does not reach it
 *   -EBUSY   work is in flight on @c
 *
 * Call on the connection's reactor.  Never blocks.
 */
WEIR_API int weir_conn_detach(struct weir_conn *c, struct weir_domain *domain);

/*
 * Free @c.  If it is connected, or a peer waits for it to be accepted, the
 * peer finds out.  NULL is allowed.  With .srq its QP, and so the channel
 * that it uses, stays in use for some 100 ms at most, until the device has
 * done with it; or until the queue is destroyed.
 *
 * Returns 0, or, with nothing changed:
 *   -EBUSY  an operation on it, or work, is in flight, or it is attached to a
 *           domain
 *
 * Call on the connection's reactor.
 */
WEIR_API int weir_conn_destroy(struct weir_conn *c);

/*
 * Options of weir_listener_create().  Set .size to the size of the struct; 0
 * is the default of every other member.
 */
struct weir_listener_opts {
	size_t size;
	uint32_t backlog;	/* Requests that may wait; 0: 64.  Others are
				 * refused. */
	uint32_t reserved;	/* 0 */
	struct weir_channel *channel;	/* Of its connections; see
					 * weir_conn_create(). */
	const struct weir_conn_opts *conn;	/* Theirs; copied.  NULL: the
						 * defaults. */
};

/*
 * Listen for connections at @addr, whose port may be 0: any.
 *
 * Returns 0 with *@ret set, to be freed by weir_listener_destroy(), or
 *   -EINVAL         no address of IPv4 or IPv6, or an option is out of range
 *   -EXDEV          .srq of its connections is another reactor's
 *   -E2BIG          @opts sets a member that this version does not have
 *   -EADDRINUSE     the port is taken
 *   -EADDRNOTAVAIL  not an address of this machine
 *   -ENODEV         no RDMA device has it; or rdma_cm is not there
 *   -ENOMEM         no memory
 *   -ESHUTDOWN      @r is stopping
 *   and others      rdma_cm cannot be opened; weir_why() says more
 *
 * Call on @r's thread.
 *
 * Re-creates rdma_bind_addr() and rdma_listen().
 */
WEIR_API int weir_listener_create(struct weir_listener **ret,
				  struct weir_reactor *r,
				  const struct sockaddr *addr, socklen_t len,
				  const struct weir_listener_opts *opts);

/*
 * The address at which @l listens, with its port, in the *@len bytes at @addr.
 *
 * Returns 0 with *@len set to what it takes, or
 *   -EMSGSIZE  it does not fit; a struct sockaddr_storage is enough
 *
 * Call on the listener's reactor.  Never blocks.
 */
WEIR_API int weir_listener_address(const struct weir_listener *l,
				   struct sockaddr *addr, socklen_t *len);

/*
 * Take the next connection that a peer asks for: first come, first served; so
 * are operations, of which there may be several.
 *
 * Completes with 0 and *@ret set to a connection in state REQUESTED, which is
 * the caller's, to be accepted or rejected, and freed by weir_conn_destroy();
 * or
 *   -ECANCELED, -ETIMEDOUT  no request came
 *   -ENODEV                 the device was removed
 *
 * A peer that gives up meanwhile is not noticed before weir_conn_accept().
 *
 * Returns 0, or
 *   -ENODEV  the device was removed
 *   -EAGAIN, -EINVAL, -ESHUTDOWN  see <weir/op.h>
 *
 * Call on the listener's reactor.
 *
 * Re-creates rdma_get_request().
 */
WEIR_API int weir_listener_next(struct weir_listener *l, struct weir_op *op,
				struct weir_conn **ret);

/*
 * Stop listening and free @l.  Peers that wait to be accepted are refused;
 * connections that were taken live on.  NULL is allowed.
 *
 * Returns 0, or, with nothing changed:
 *   -EBUSY  operations of weir_listener_next() are in flight
 *
 * Call on the listener's reactor.
 */
WEIR_API int weir_listener_destroy(struct weir_listener *l);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_CONN_H */
