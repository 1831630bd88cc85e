/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SIM_SOCKET_H
#define WEIR_SIM_SOCKET_H

/*
 * Connections in a simulated world (<weir/sim/world.h>).
 *
 *	weir_sim_listen(sim, &l, "server:7000", 16);
 *	weir_sim_socket(sim, &c, "client");
 *	...
 *	struct sockaddr_un to = { AF_UNIX, "server:7000" };
 *	weir_connect(r, &op, c, (struct sockaddr *)&to, sizeof(to));
 *
 * They are streams as on Linux.  All of <weir/socket.h>, weir_read(),
 * weir_write(), weir_close() and watches work on them.  An address is the name
 * of a listener: the path of a struct sockaddr_un, or the text of a struct
 * sockaddr_in or sockaddr_in6: "127.0.0.1:7000", "[::1]:7000".  A name begins
 * with its host; power cuts and partitions select hosts by prefixes.
 *
 * To programs of hosts (<weir/sim/host.h>) the IP address of a host is as good as
 * its name: 10.0.0.1 is the first that was created, 10.0.0.2 the next, and
 * 10.0.0.1:7000 is "a:7000" if that is the host "a".  127.0.0.1, ::1 and the
 * addresses that mean any are the host itself, and a path that is no name of a
 * listener is one in its root directory: "s" is "a/s".
 *
 * Data are cut into parts and joined by chance, also without faults.  Each part
 * takes the time of WEIR_SIM_WIRE, and none overtakes another.  If the wire
 * takes no time, all bytes arrive at once and together.  64 KiB fit at either
 * side of each direction; with the fault WEIR_SIM_SHORT it may be much less.
 *
 * Faults: WEIR_SIM_RESET; WEIR_SIM_STALL in one direction, for a millisecond to
 * some minutes, or until faults are switched off; and WEIR_SIM_EAGAIN, with
 * which a call on a descriptor that was reported ready would block.
 *
 * weir_sendmsg() and weir_recvmsg() pass descriptors of the world between sockets
 * of AF_UNIX (SCM_RIGHTS): they come with the byte that they were sent with, and
 * are closed if they are not received.  Other control data are -EOPNOTSUPP, and so is
 * urgent data (MSG_OOB), and weir_recvmsg() with MSG_TRUNC.  The queue of errors
 * (MSG_ERRQUEUE) is always empty; WEIR_PRI never occurs.
 */

#include <sys/socket.h>
#include <sys/types.h>

#include <weir/sim/world.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_sim_host;

/* The maximum size of a name, with its 0. */
#define WEIR_SIM_NAME_MAX 108

/*
 * Create two connected sockets in @sim.
 *
 * They belong to no host: no partition separates them, and only a power cut of
 * "" affects them.
 *
 * Returns 0 with both of @fds set, to be closed by the caller, or
 *   -EMFILE  no descriptor left
 *   -ENOMEM  no memory
 *
 * Call on @sim's thread.
 *
 * Re-creates socketpair(2).
 */
WEIR_API int weir_sim_socket_pair(struct weir_sim *sim, int fds[2]);

/*
 * Create a pipe in @sim, from @fds[1] to @fds[0].
 *
 * It takes no time, and holds 64 KiB; see weir_sim_pipe_size().
 *
 * Returns 0 with both of @fds set, to be closed by the caller, or
 *   -EMFILE  no descriptor left
 *   -ENOMEM  no memory
 *
 * Call on @sim's thread.
 *
 * Re-creates pipe(2).
 */
WEIR_API int weir_sim_pipe(struct weir_sim *sim, int fds[2]);

/*
 * Set the capacity of the pipe of the simulated @fd to at least @bytes, at most
 * 1 MiB, or, with 0, only ask for it.
 *
 * Returns the capacity, or
 *   -EBADF  @fd is not open, or no pipe
 *   -EPERM  @bytes is too much
 *   -EBUSY  more bytes are in it
 *
 * Call on the world's thread.
 *
 * Re-creates fcntl(2) with F_SETPIPE_SZ and F_GETPIPE_SZ, on a descriptor of a
 * world.
 */
WEIR_API int weir_sim_pipe_size(int fd, uint32_t bytes);

/*
 * Create a socket of host @name in @sim, to be connected by weir_connect().
 *
 * Returns 0 with *@ret_fd set, to be closed by the caller, or
 *   -EINVAL  @name is NULL or too long
 *   -EMFILE  no descriptor left
 *   -ENOMEM  no memory
 *
 * Call on @sim's thread.
 */
WEIR_API int weir_sim_socket(struct weir_sim *sim, int *ret_fd,
			     const char *name);

/*
 * Listen at @name in @sim.
 *
 * At most @backlog connections wait to be accepted; more are refused.
 *
 * Returns 0 with *@ret_fd set, to be closed by the caller, or
 *   -EINVAL      @name is NULL, empty or too long, or @backlog below 1
 *   -EADDRINUSE  another socket listens there
 *   -EMFILE      no descriptor left
 *   -ENOMEM      no memory
 *
 * Call on @sim's thread.
 */
WEIR_API int weir_sim_listen(struct weir_sim *sim, int *ret_fd,
			     const char *name, int backlog);

/*
 * Create a socket of the program of @host, for addresses of @family: AF_UNIX,
 * AF_INET or AF_INET6.
 *
 * Returns 0 with *@ret_fd set, to be closed by the caller, or
 *   -EAFNOSUPPORT  @family is another
 *   -EMFILE        no descriptor left
 *   -ENOMEM        no memory
 *
 * Call on the world's thread.
 *
 * Re-creates socket(2) with SOCK_STREAM, in a world.
 */
WEIR_API int weir_sim_host_socket(struct weir_sim_host *host, int *ret_fd,
				  int family);

/*
 * Create a socket of datagrams in @sim, for addresses of @family: AF_UNIX, AF_INET
 * or AF_INET6.  It is of the program of @host, or, if that is NULL, of none.
 *
 * Each datagram arrives as a whole, after the time of WEIR_SIM_WIRE or of the link,
 * so one may overtake another.  It is lost by the faults WEIR_SIM_RESET and
 * WEIR_SIM_STALL, by partitions, if no socket has that address, and if 208 KiB wait
 * to be read; it arrives twice by WEIR_SIM_REORDER, and late by WEIR_SIM_DELAY.  Paths of
 * AF_UNIX are those of @host.  weir_sendmsg() and weir_recvmsg() have addresses,
 * weir_connect() chooses one peer, and a receiver refuses the socket (-EINVAL).
 *
 * Returns 0 with *@ret_fd set, to be closed by the caller, or
 *   -EAFNOSUPPORT  @family is another
 *   -EMFILE        no descriptor left
 *   -ENOMEM        no memory
 *
 * Call on the world's thread.
 *
 * Re-creates socket(2) with SOCK_DGRAM, in a world.
 */
WEIR_API int weir_sim_datagram(struct weir_sim *sim, struct weir_sim_host *host,
			       int *ret_fd, int family);

/*
 * Send the @len bytes of @buf as a datagram from the simulated @fd to @addr, or, if
 * that is NULL, to the peer.
 *
 * Returns @len, also if it will be lost, or
 *   -EBADF         @fd is not open
 *   -ENOTSOCK      @fd is no socket of datagrams
 *   -EDESTADDRREQ  @addr is NULL, and @fd is not connected
 *   -EMSGSIZE      @len is more than 65,507
 *   -EINVAL, -EAFNOSUPPORT  @addr is no address
 *   -ECONNREFUSED  no socket had the address of an earlier one
 *   -EIO           its power was cut
 *   -ENOMEM        no memory
 *
 * Call on the world's thread.  Never blocks.
 *
 * Re-creates sendto(2), on a descriptor of a world.
 */
WEIR_API ssize_t weir_sim_sendto(int fd, const void *buf, size_t len,
				 const struct sockaddr *addr,
				 socklen_t addr_len);

/*
 * Receive a datagram from the simulated @fd into the @len bytes of @buf; what does
 * not fit is lost.  The sender's address is stored in the *@addr_len bytes at @addr,
 * if that is not NULL.
 *
 * Returns the number of bytes, or
 *   -EAGAIN        there is none
 *   -EBADF         @fd is not open
 *   -ENOTSOCK      @fd is no socket of datagrams
 *   -ECONNREFUSED  no socket had the address of an earlier one
 *   -EIO           its power was cut
 *
 * Call on the world's thread.  Never blocks.
 *
 * Re-creates recvfrom(2), on a descriptor of a world.
 */
WEIR_API ssize_t weir_sim_recvfrom(int fd, void *buf, size_t len,
				   struct sockaddr *addr, socklen_t *addr_len);

/*
 * Give the simulated socket @fd the address @addr; port 0 means one that is free.
 *
 * Returns 0, or
 *   -EBADF         @fd is not open
 *   -ENOTSOCK      @fd is not a socket
 *   -EINVAL        @fd has an address, or is connected; or @addr is no address
 *   -EAFNOSUPPORT  @addr is not of the socket's family
 *   -EADDRINUSE    a socket listens there
 *   -EIO           its power was cut
 *
 * Call on the world's thread.
 *
 * Re-creates bind(2), on a descriptor of a world.
 */
WEIR_API int weir_sim_bind(int fd, const struct sockaddr *addr, socklen_t len);

/*
 * Listen at the address of the simulated socket @fd, which weir_sim_bind() gave
 * it.
 *
 * At most @backlog connections wait to be accepted, and at least one.
 *
 * Returns 0, or
 *   -EBADF       @fd is not open
 *   -ENOTSOCK    @fd is not a socket
 *   -EINVAL      @fd has no address, is connected, or is in use
 *   -EADDRINUSE  another socket listens there
 *   -EIO         its power was cut
 *   -ENOMEM      no memory
 *
 * Call on the world's thread.
 *
 * Re-creates listen(2), on a descriptor of a world.
 */
WEIR_API int weir_sim_bound_listen(int fd, int backlog);

/*
 * Get the address of the simulated socket @fd, in the *@len bytes at @addr, cut to
 * these as getsockname(2) does.
 *
 * Returns 0 with *@len set to its length, or
 *   -EBADF     @fd is not open
 *   -ENOTSOCK  @fd is not a socket
 *   -EIO       its power was cut
 *
 * Call on the world's thread.
 *
 * Re-creates getsockname(2), on a descriptor of a world.
 */
WEIR_API int weir_sim_getsockname(int fd, struct sockaddr *addr,
				  socklen_t *len);

/*
 * Get the address of the peer of the simulated socket @fd, likewise.
 *
 * Returns 0 with *@len set to its length, or
 *   -EBADF     @fd is not open
 *   -ENOTSOCK  @fd is not a socket
 *   -ENOTCONN  @fd is not connected
 *   -EIO       its power was cut
 *
 * Call on the world's thread.
 *
 * Re-creates getpeername(2), on a descriptor of a world.
 */
WEIR_API int weir_sim_getpeername(int fd, struct sockaddr *addr,
				  socklen_t *len);

/*
 * Get which of @events, WEIR_READABLE and the like, hold for the simulated @fd, and
 * which of WEIR_HANGUP and WEIR_ERROR.
 *
 * Returns these bits, or
 *   -EBADF  @fd is not open
 *
 * Call on the world's thread.  Never blocks.
 *
 * Re-creates poll(2) with a timeout of 0, on a descriptor of a world.
 */
WEIR_API int weir_sim_poll(int fd, uint32_t events);

/*
 * Get the error of the simulated socket @fd, as of a connect that has failed, and
 * clear it.
 *
 * Returns 0 if there is none, that error, or
 *   -EBADF     @fd is not open
 *   -ENOTSOCK  @fd is not a socket
 *
 * Call on the world's thread.
 *
 * Re-creates getsockopt(2) with SO_ERROR, on a descriptor of a world.
 */
WEIR_API int weir_sim_take_error(int fd);

/*
 * Have the close of the simulated socket @fd reset its connection, if @on is not
 * 0.
 *
 * Returns 0, or
 *   -EBADF     @fd is not open
 *   -ENOTSOCK  @fd is not a socket
 *   -EIO       its power was cut
 *
 * Call on the world's thread.
 *
 * Re-creates SO_LINGER of socket(7) with a time of 0, on a descriptor of a world.
 */
WEIR_API int weir_sim_close_resets(int fd, int on);

/*
 * Read up to @len bytes from the simulated @fd into @buf, as read(2) with
 * O_NONBLOCK, for callbacks of watches.
 *
 * Returns the number of bytes, 0 at the end, or
 *   -EAGAIN  there are no data
 *   -EBADF   @fd is not open, or cannot be read from
 *   or what weir_read() completes with
 *
 * Call on the world's thread.  Never blocks.
 *
 * Re-creates read(2), on a descriptor of a world.
 */
WEIR_API ssize_t weir_sim_read(int fd, void *buf, size_t len);

/*
 * Write up to @len bytes of @buf to the simulated @fd, as write(2) with
 * O_NONBLOCK, for callbacks of watches.
 *
 * Returns the number of bytes, or
 *   -EAGAIN  there is no capacity
 *   -EBADF   @fd is not open, or cannot be written to
 *   or what weir_write() completes with
 *
 * Call on the world's thread.  Never blocks.
 *
 * Re-creates write(2), on a descriptor of a world.
 */
WEIR_API ssize_t weir_sim_write(int fd, const void *buf, size_t len);

/*
 * Begin to connect the simulated socket @fd to @addr, as connect(2) with
 * O_NONBLOCK.
 *
 * @fd is writable when it is connected, and has an error if that fails.
 *
 * Returns 0 if it is connected at once, as when the wire takes no time, or
 *   -EINPROGRESS   the connect has begun
 *   -EALREADY      a connect had begun before
 *   -EBADF         @fd is not open
 *   -ENOTSOCK      @fd is not a socket
 *   -EISCONN       @fd is connected
 *   -EINVAL, -EAFNOSUPPORT  @addr is no address
 *   -ECONNREFUSED  no socket listens there
 *
 * Call on the world's thread.  Never blocks.
 *
 * Re-creates connect(2), on a descriptor of a world.
 */
WEIR_API int weir_sim_connect(int fd, const struct sockaddr *addr,
			      socklen_t len);

/*
 * Accept a connection from the simulated @fd, as accept(2) with O_NONBLOCK.
 *
 * Returns its descriptor, to be closed by the caller, or
 *   -EAGAIN  there is no connection
 *   -EBADF   @fd is not open
 *   -EINVAL  @fd does not listen
 *   -EMFILE  no descriptor left
 *   -ENOMEM  no memory
 *
 * Call on the world's thread.  Never blocks.
 *
 * Re-creates accept(2), on a descriptor of a world.
 */
WEIR_API int weir_sim_accept(int fd);

/*
 * Shut down one or both directions of the simulated @fd: @how is SHUT_RD,
 * SHUT_WR or SHUT_RDWR.
 *
 * Returns 0, or
 *   -EINVAL    @how is none of these
 *   -EBADF     @fd is not open
 *   -ENOTSOCK  @fd is not a socket
 *   -ENOTCONN  @fd is not connected
 *
 * Call on the world's thread.  Never blocks.
 *
 * Re-creates shutdown(2), on a descriptor of a world.
 */
WEIR_API int weir_sim_shutdown(int fd, int how);

/*
 * Close the simulated @fd at once.
 *
 * Returns 0, or
 *   -EBADF  @fd is not open
 *
 * Call on the world's thread.  Never blocks.
 *
 * Re-creates close(2), on a descriptor of a world.
 */
WEIR_API int weir_sim_close(int fd);

/*
 * Reset the connection of the simulated @fd: its own side gets -ECONNRESET at
 * once, and the other side a little later.
 *
 * Returns 0, or
 *   -EBADF     @fd is not open
 *   -ENOTSOCK  @fd is not a socket
 *   -ENOTCONN  @fd is not connected
 *
 * Call on the world's thread.  Never blocks.  Re-creates a close(2) with
 * SO_LINGER and a time of 0, as an event for the program.
 */
WEIR_API int weir_sim_reset(int fd);

/*
 * Create a partition between hosts whose names begin with @a and hosts whose
 * names begin with @b, or remove it.
 *
 * If @on is not 0, no data pass in either direction.  If @on is 0 the partition
 * ends: held data arrive, or, by chance, the connection has timed out.  A
 * connect meanwhile is retried for two minutes, with growing pauses.  The order
 * of @a and @b does not matter.
 *
 * Returns 0, or
 *   -EINVAL  a name is NULL or too long
 *   -EEXIST  the partition exists
 *   -ENOENT  there is no such partition
 *   -ENOMEM  no memory
 *
 * Call on @sim's thread, callbacks included.
 */
WEIR_API int weir_sim_partition(struct weir_sim *sim, const char *a,
				const char *b, int on);

/*
 * Bytes of all connections and pipes of a world.  At any time
 * .sent == .received + .lost + .held.
 */
struct weir_sim_socket_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t sent;		/* Bytes that writes have accepted. */
	uint64_t received;	/* By readers. */
	uint64_t lost;		/* In a reset, a close or a power cut. */
	uint64_t held;		/* On the way, or unread. */
	uint64_t connections;	/* Made. */
	uint64_t resets;	/* Seen by one end or both. */
};

/*
 * Get the bytes that connections in @sim have moved.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -EINVAL  .size is too small
 *
 * Call on @sim's thread.  Never blocks.  Re-creates TCP_INFO of tcp(7), for all
 * connections.
 */
WEIR_API int weir_sim_socket_stats(struct weir_sim *sim,
				   struct weir_sim_socket_stats *ret);

#ifdef __cplusplus
}
#endif
#endif /* WEIR_SIM_SOCKET_H */
