/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_CONN_H
#define WEIR_CONN_H

/*
 * Connections: two ends that reach each other's memory by RDMA.
 *
 * Addresses are IPv4 and IPv6; rdma_cm finds the RDMA device of an address.
 * Each connection is one reliable queue pair (QP), made in the protection
 * domain of the open weir_device of that name, so that it can use mmaps that
 * are registered with this device.
 *
 * A client makes each call when the operation before it has completed:
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
 * States; docs/internals/rdma.md has the tables of all calls and events:
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
 * The library detects at once that a peer disconnects or its process ends.  The
 * loss of the peer's machine or link is detected only by work that is sent to
 * it: by the program's, or by keepalive (.keepalive_ns).
 *
 * The calls are in libweir-rdma.  They make system calls that take some
 * microseconds; creating a QP may take some milliseconds.
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
#define WEIR_CONN_REQUESTED 3	/* A peer has requested it. */
#define WEIR_CONN_ACCEPTING 4	/* The peer has not confirmed it yet. */
#define WEIR_CONN_ESTABLISHED 5
#define WEIR_CONN_CLOSING 6	/* Work in flight is being flushed. */
#define WEIR_CONN_ENDED 7

/* Private data: the maximum bytes in each message of the exchange. */
#define WEIR_CONN_CONNECT_DATA 56
#define WEIR_CONN_ACCEPT_DATA 196
#define WEIR_CONN_REJECT_DATA 148

/* As .retries and .rnr_retries: do not retry. */
#define WEIR_CONN_NO_RETRY 255

/* As @why of a weir_conn_end_fn: the connection is established again. */
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
	uint32_t max_sge;	/* Pieces of one; 0: 16, or the maximum. */
	uint32_t max_inline;	/* Bytes inside one; 0: 64, or the maximum. */
	uint32_t reads;		/* Reads and atomics in flight, in each
				 * direction; 0: 16, or the maximum. */
	uint8_t retries;	/* Without an answer, up to 7; 0: 6, because
				 * soft-RoCE takes 7 for unlimited. */
	uint8_t rnr_retries;	/* If the peer has posted no receive; 7, and
				 * 0: unlimited, but see .stall_ns. */
	uint8_t ack_timeout;	/* Before the first retry: 4.096 us times 2 to
				 * the power of this, up to 31; 0: by the
				 * route. */
	uint8_t rnr_timer;	/* The pause of a peer before it retries, as
				 * IBTA encodes it, up to 31; 0: 0.64 ms. */
	struct weir_srq *srq;	/* Messages are received into it, see
				 * <weir/message.h>; of the same reactor;
				 * destroy it later. */
	uint32_t resolve_ms;	/* For each of address and route; 0: 5000. */

	/* Reconnect after an end that this side did not request: */
	uint32_t attempts;	/* Attempts for each end; 0: do not. */
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
				 * with -ECONNRESET if no answer arrives.  The
				 * peer's program does not see it, but its QP
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

/* State and parameters of a connection; weir_conn_info(). */
struct weir_conn_info {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint32_t state;		/* WEIR_CONN_ */
	uint32_t qp_num;	/* 0: there is no QP. */
	uint32_t sends, recvs;	/* The actual values of the options. */
	uint32_t max_sge;
	uint32_t max_inline;
	uint32_t reads_out;	/* In flight at the peer, at most, */
	uint32_t reads_in;	/* and here. */
	uint64_t posted;	/* Work requests in flight. */
	uint64_t connects;	/* Times that it was established. */
	uint64_t attempts;	/* Attempts to connect. */
	char device[64];	/* "": not known yet. */
};

/*
 * Create a connection that weir_conn_connect() can establish.
 *
 * Its completions arrive on @channel, which must belong to @r and to the device
 * that will be used, and must be destroyed later; several connections may share
 * it.  NULL: the connection has one of its own, as long as it has a QP.
 *
 * Returns 0 with *@ret set, to be freed by weir_conn_destroy(), or
 *   -EINVAL      an option is out of its range
 *   -EXDEV       .srq belongs to another reactor
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
 * Connect to @to, from the address @from or, with NULL, any suitable one.
 *
 * The peer gets the @len bytes at @data, padded with zeros to
 * WEIR_CONN_CONNECT_DATA.  The addresses and the data are copied.  Set a
 * deadline: if the peer's machine does not answer, rdma_cm retries for more
 * than a minute.
 *
 * Completes with 0 when the connection is established, or
 *   -ECONNREFUSED  the peer has rejected it, with weir_conn_peer_data(); or
 *                  there is no listener
 *   -EHOSTUNREACH  no host has that address, or there is no route
 *   -ETIMEDOUT     there was no answer, or the deadline has passed
 *   -ECONNRESET    the peer gave up during the exchange
 *   -ECANCELED     it was cancelled
 *   -ENODEV        no RDMA device reaches @to, or it was removed
 *   -EXDEV         the device is not that of the channel, or of .srq
 *   -EOPNOTSUPP    it is an iWARP device, which weir does not support
 *   -EAGAIN        the channel has no capacity for .sends, and the device
 *                  does not enlarge its completion queue
 *   -EINVAL, -ENOMEM, -EIO and others  the device refuses the QP; weir_why()
 *                  says more, on this thread and until another call fails
 * and then the state is ENDED.  The code of the detail is rdma_cm's own status.
 *
 * Returns 0, or
 *   -EINVAL       @to or @from is no IPv4 or IPv6 address
 *   -EMSGSIZE     @len is more than WEIR_CONN_CONNECT_DATA
 *   -EBADFD       @c is neither IDLE nor ENDED
 *   -EPERM        @c came from a listener: only its peer can connect again
 *   -ENETUNREACH  there is no route to @to
 *   -EAGAIN, -ESHUTDOWN, -ENOMEM and others  see <weir/op.h>, and errnos of
 *                 rdma_cm
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
 * Accept a connection that a peer has requested, with @len bytes of private
 * data at @data, which are copied.
 *
 * Completes with 0 when the connection is established, or
 *   -ECONNRESET  the peer has given up
 *   -ETIMEDOUT   it has not answered, or the deadline has passed
 *   -ECANCELED   it was cancelled
 *   -ENODEV      the device was removed
 *   -EIO         the QP failed first, for example because no posted buffer could
 *                hold the first message of the peer
 * and then the state is ENDED.
 *
 * Returns 0, or, with nothing changed:
 *   -EMSGSIZE    @len is more than WEIR_CONN_ACCEPT_DATA
 *   -EBADFD      @c is not REQUESTED
 *   -ECONNRESET  the peer has given up already
 *   -EXDEV       the device is not that of the listener's channel, or .srq
 *   -EOPNOTSUPP  it is an iWARP device, which weir does not support
 *   -EAGAIN      the channel or the reactor has no capacity
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
 * Reject a connection that a peer has requested, with @len bytes of private
 * data at @data.
 *
 * Its state is then ENDED.
 *
 * Returns 0, also if the peer has given up, or, with nothing changed:
 *   -EMSGSIZE  @len is more than WEIR_CONN_REJECT_DATA
 *   -EBADFD    @c is not REQUESTED
 *   -ENOMEM, -EIO and others  errnos of rdma_cm
 *
 * Call on the connection's reactor.
 *
 * Re-creates rdma_reject().
 */
WEIR_API int weir_conn_reject(struct weir_conn *c, const void *data,
			      size_t len);

/*
 * Disconnect @c from its peer and flush work in flight.
 *
 * The end function is not called, and @c does not reconnect.
 *
 * Completes with 0 when no work is posted any more and the peer has answered;
 * it waits for the answer up to 5 s.  A cancel and a deadline end the wait for
 * the answer (-ECANCELED, -ETIMEDOUT), but not the wait for the work.  The
 * state is ENDED afterwards in any case.  The operation does not wait for
 * rdma_cm's TIMEWAIT_EXIT.
 *
 * Returns 0, or
 *   -ENOTCONN  @c is neither connected nor reconnecting
 *   -EBUSY     another operation on @c is in flight
 *   -EAGAIN, -EINVAL, -ESHUTDOWN  see <weir/op.h>
 *
 * Call on the connection's reactor.
 *
 * Re-creates rdma_disconnect().
 */
WEIR_API int weir_conn_disconnect(struct weir_conn *c, struct weir_op *op);

/*
 * Called when an established connection has ended and no work is in flight on
 * it any more.  @why is
 *
 *	0            the peer has disconnected
 *	-ENODEV      the device was removed
 *	-ECONNRESET  the peer does not answer: retries were exhausted; or it gave
 *	             up while it was being connected
 *	-ETIMEDOUT   posted work did not end: see .stall_ns and .grace_ns
 *	-EIO and others  the QP failed
 *
 * If @c reconnects, the function is called again with WEIR_CONN_AGAIN when it
 * is established, or with an errno when the last attempt has failed.
 * weir_conn_state() tells whether @c will reconnect: CONNECTING, or ENDED.
 *
 * May destroy @c.  Runs from the loop.
 */
typedef void weir_conn_end_fn(struct weir_conn *c, int why, void *arg);

/*
 * Set @fn, which is called with @arg when @c ends without a request of this
 * side.
 *
 * NULL removes the callback.
 *
 * Call on the connection's reactor.  Never blocks.
 */
WEIR_API void weir_conn_set_end_fn(struct weir_conn *c, weir_conn_end_fn *fn,
				   void *arg);

/*
 * Get the state of @c, WEIR_CONN_.
 *
 * Returns the state.  Call on the connection's reactor.  Never blocks.
 */
WEIR_API int weir_conn_state(const struct weir_conn *c);

/*
 * Get the private data that the peer has sent last: with its request, its
 * answer, or its rejection.
 *
 * *@len is set to their number of bytes.  The fabric pads them with zeros, so
 * it may be more than the peer has sent.
 *
 * Returns the data, at a multiple of 8, valid until the next connect; NULL with
 * *@len 0 if the peer has sent none.
 *
 * Call on the connection's reactor.  Never blocks.
 */
WEIR_API const void *weir_conn_peer_data(const struct weir_conn *c,
					 size_t *len);

/*
 * Get the address of the peer, in the *@len bytes at @addr.
 *
 * Returns 0 with *@len set to its length, or
 *   -ENOTCONN  there is no peer
 *   -EMSGSIZE  it does not fit; a struct sockaddr_storage is enough
 *
 * Call on the connection's reactor.  Never blocks.
 */
WEIR_API int weir_conn_peer_address(const struct weir_conn *c,
				    struct sockaddr *addr, socklen_t *len);

/*
 * Get the state and parameters of @c.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the connection's reactor.  Never blocks.
 */
WEIR_API int weir_conn_info(const struct weir_conn *c,
			    struct weir_conn_info *ret);

/*
 * Attach @c to @domain, the memory of its peer, so that jobs can reach it.
 *
 * Jobs of contexts on its reactor that name the domain use @c, also after it
 * has reconnected.  While @c is not established such jobs are refused with
 * -ENOTCONN. If it ends, all jobs in flight end: one with the cause, the others
 * with -ECANCELED.  The bytes done of a job are then its beginning.
 *
 * Returns 0, or
 *   -EINVAL       @domain is no remote domain
 *   -EALREADY     @c is attached to it already
 *   -EBUSY        another connection is attached to it
 *
 * Call on the connection's reactor.  Never blocks.
 *
 * Re-creates the part of spdk_rdma_utils that has a domain for a protection
 * domain.
 */
WEIR_API int weir_conn_attach(struct weir_conn *c, struct weir_domain *domain);

/*
 * Detach @c from @domain.
 *
 * Returns 0, or
 *   -ENOENT  @c is not attached to @domain
 *   -EBUSY   work is in flight on @c
 *
 * Call on the connection's reactor.  Never blocks.
 */
WEIR_API int weir_conn_detach(struct weir_conn *c, struct weir_domain *domain);

/*
 * Free @c.
 *
 * If it is connected, or its peer waits for an accept, the peer is informed.
 * NULL is allowed.  With .srq its QP, and so its channel, stays in use for
 * about 100 ms at most, until the device has released it, or until the queue is
 * destroyed.
 *
 * Returns 0, or, with nothing changed:
 *   -EBUSY  an operation on @c, or work, is in flight, or @c is attached to a
 *           domain
 *
 * Call on the connection's reactor.
 *
 * Re-creates rdma_destroy_qp() and rdma_destroy_id().
 */
WEIR_API int weir_conn_destroy(struct weir_conn *c);

/*
 * Options of weir_listener_create().  Set .size to the size of the struct; 0
 * is the default of every other member.
 */
struct weir_listener_opts {
	size_t size;
	uint32_t backlog;	/* Waiting requests; 0: 64.  Others are
				 * rejected. */
	uint32_t reserved;	/* 0 */
	struct weir_channel *channel;	/* Of its connections; see
					 * weir_conn_create(). */
	const struct weir_conn_opts *conn;	/* Of its connections; copied.
						 * NULL: the defaults. */
};

/*
 * Listen for connections at @addr, whose port may be 0: any.
 *
 * Returns 0 with *@ret set, to be freed by weir_listener_destroy(), or
 *   -EINVAL         @addr is no IPv4 or IPv6 address, or an option is out of
 *                   its range
 *   -EXDEV          .srq of its connections belongs to another reactor
 *   -E2BIG          @opts sets a member that this version does not have
 *   -EADDRINUSE     the port is in use
 *   -EADDRNOTAVAIL  @addr is not an address of this machine
 *   -ENODEV         no RDMA device has @addr; or there is no rdma_cm
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
 * Get the address at which @l listens, with its port, in the *@len bytes at
 * @addr.
 *
 * Returns 0 with *@len set to its length, or
 *   -EMSGSIZE  it does not fit; a struct sockaddr_storage is enough
 *
 * Call on the listener's reactor.  Never blocks.
 */
WEIR_API int weir_listener_address(const struct weir_listener *l,
				   struct sockaddr *addr, socklen_t *len);

/*
 * Take the next connection that a peer requests.
 *
 * Requests are taken in order.  Several operations may wait; they are served in
 * order too.
 *
 * Completes with 0 and *@ret set to a connection in state REQUESTED, which the
 * caller owns: accept or reject it, and free it by weir_conn_destroy(); or
 *   -ECANCELED, -ETIMEDOUT  no request has arrived
 *   -ENODEV                 the device was removed
 *
 * A peer that gives up meanwhile is not detected before weir_conn_accept().
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
 * Stop listening and free @l.
 *
 * Waiting requests are rejected; connections that were taken stay valid.  NULL
 * is allowed.
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
