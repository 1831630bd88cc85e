/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SOCKET_H
#define WEIR_SOCKET_H

/*
 * Operations on sockets, TCP and UNIX.
 *
 * Sockets are plain descriptors: make them with socket(2), or with
 * weir_listen().  The operations follow <weir/op.h> and share the conditions of
 * <weir/file.h>: 0, or -EINVAL, -EAGAIN, -ESHUTDOWN; on the reactor's thread;
 * never block; never allocate; buffers and addresses lent until the callback.
 *
 * For servers there are two sources that deliver again and again from one
 * submission: the acceptor (connections) and the receiver (data, in buffers of
 * the reactor's own free list, so that a thousand idle connections need none).
 *
 * A connection is a descriptor, so any core of a group can serve it.  Who has
 * taken it hands it over with weir_post() or weir_call(), and the other core
 * begins there what it would begin with one of its own.  Refused (-EAGAIN,
 * -ESHUTDOWN) it is still the sender's; a post that was taken is run, also
 * while that core stops, when starting on it is -ESHUTDOWN and it is to be
 * closed. Hand it over before anything is started on it: what a receiver has
 * taken from it does not move along, and weir_fd_register() is one reactor's.
 *
 * Or each core has a listener of its own: weir_listen() with
 * WEIR_LISTEN_REUSEPORT on one address, and the kernel picks by a hash of both
 * addresses.  That saves the message, and accepts scale with cores.  But few
 * connections are spread unevenly, none goes where there is time for it
 * (weir_group_load() cannot be asked), what queues for a core that is busy
 * waits for that one, and what queues for one that closes its listener is
 * reset.  So: many short connections, a listener for each core; few and long
 * ones, or ones that should go to a certain core, one acceptor that hands
 * them over.
 */

#include <sys/socket.h>
#include <sys/uio.h>

#include <weir/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of the operations below. */
#define WEIR_SOCK_ALL 1u	/* recv: until the buffer is full. */
#define WEIR_SOCK_ZEROCOPY 2u	/* send: see weir_send(). */
#define WEIR_SOCK_MORE 4u	/* send: more follows (MSG_MORE). */
#define WEIR_SOCK_VOLATILE 8u	/* send: the data may change meanwhile. */

/* The detail's code of a send with WEIR_SOCK_ZEROCOPY. */
#define WEIR_SOCK_COPIED 1

/* Flags of weir_listen(). */
#define WEIR_LISTEN_REUSEPORT 1u /* Several sockets share one port. */
#define WEIR_LISTEN_WAIT 2u	/* While it is taken, try for a second. */

/*
 * Make a socket that listens at @addr.
 *
 * TCP sockets get SO_REUSEADDR and TCP_NODELAY is inherited by connections.
 * For a UNIX socket a stale name is not removed: that is -EADDRINUSE.
 *
 * With WEIR_LISTEN_WAIT the call sleeps and tries again for about a second
 * while the address is taken.  A server that was killed leaves its socket to
 * its ring of io_uring, which the kernel frees some 20 ms later: a server
 * that is started anew gives this flag.  Do not give it in a callback of a
 * reactor, whose thread must not sleep.
 *
 * Returns 0 with *@ret_fd set, the caller's to close, or
 *   -EINVAL        @addr is no address of a stream socket, or unknown @flags
 *   -EADDRINUSE    the address is taken
 *   -EACCES        no right to it: a port below 1024, say
 *   -EADDRNOTAVAIL not an address of this machine
 *   -ENOENT, -ENOTDIR  the directory of a UNIX path is not there, or is none
 *   -EMFILE        no descriptor left
 *
 * Any thread.  Does not wait without WEIR_LISTEN_WAIT.
 */
WEIR_API int weir_listen(int *ret_fd, const struct sockaddr *addr,
			 socklen_t addrlen, int backlog, uint32_t flags);

/*
 * Take one connection from the listening socket @fd.
 *
 * Completes with the new descriptor, close-on-exec and the caller's, or a
 * negative errno of accept4(2).
 */
WEIR_API int weir_accept(struct weir_reactor *r, struct weir_op *op, int fd);

/*
 * Connect the socket @fd to @addr.
 *
 * Where the backlog of a UNIX listener is full it waits for capacity,
 * whatever the mode of @fd.  On uring, if @fd lacks O_NONBLOCK, one of
 * .workers threads of the kernel waits for it.
 *
 * Completes with 0 when the connection stands, or a negative errno of
 * connect(2).  Give it a deadline: the kernel's own timeout is minutes.
 */
WEIR_API int weir_connect(struct weir_reactor *r, struct weir_op *op, int fd,
			  const struct sockaddr *addr, socklen_t addrlen);

/*
 * Receive up to @len bytes from @fd into @buf.
 *
 * Completes when something is there, with the number of bytes; with
 * WEIR_SOCK_ALL when @buf is full, or the end came.  0 means that the peer
 * sends no more.
 */
WEIR_API int weir_recv(struct weir_reactor *r, struct weir_op *op, int fd,
		       void *buf, size_t len, uint32_t flags);

/*
 * Send @len bytes of @buf through @fd, all of them.
 *
 * Have one send at a time in flight on a stream: on uring the kernel has all of
 * them at once, and where one is cut short the bytes of another may come before
 * its rest; on ev each waits for those that were started before it.  The same
 * is so of weir_write() to a socket or a pipe, and of receives and reads,
 * each of which takes what is there when it is tried.
 *
 * With WEIR_SOCK_ZEROCOPY the kernel may send from @buf itself; the callback
 * then comes when it has let go of the memory, not before: through a network
 * that is when the peer has acknowledged the bytes.  It is a wish: where the
 * kernel, the socket or the device cannot, as the loopback device, the data are
 * copied, and the detail's code is WEIR_SOCK_COPIED.  Kernels before 6.3 do not
 * say so of devices; the code is 0 then, as after a send without a copy.
 *
 * Builds that check memory (ASan, valgrind, --enable-debug) end a program that
 * changes @buf before the callback.  Give WEIR_SOCK_VOLATILE if that is
 * intended: a server that sends from memory which other clients may write,
 * say.  The peer receives, of each byte, some value that it had meanwhile.
 *
 * Completes with @len, or a negative errno; then the detail says how many bytes
 * the kernel took.  A broken connection is -EPIPE, without a signal.
 */
WEIR_API int weir_send(struct weir_reactor *r, struct weir_op *op, int fd,
		       const void *buf, size_t len, uint32_t flags);

/*
 * Send the @n pieces of @iov, in order; otherwise as weir_send().
 *
 * Returns also
 *   -EMSGSIZE  @n is more than IOV_MAX (1024)
 */
WEIR_API int weir_sendv(struct weir_reactor *r, struct weir_op *op, int fd,
			const struct iovec *iov, uint32_t n, uint32_t flags);

/*
 * Send one message with all that sendmsg(2) can carry: descriptors over a UNIX
 * socket, an address.  A single transfer: it may be short.
 *
 * Completes with the bytes sent, or a negative errno of sendmsg(2).
 *
 * Re-creates sendmsg(2), as an operation.
 */
WEIR_API int weir_sendmsg(struct weir_reactor *r, struct weir_op *op, int fd,
			  const struct msghdr *msg, uint32_t flags);

/*
 * Receive one message with all that recvmsg(2) can carry.  Descriptors that
 * come with it are close-on-exec.
 *
 * Completes with the bytes received and @msg filled in, or a negative errno.
 *
 * Re-creates recvmsg(2), as an operation.
 */
WEIR_API int weir_recvmsg(struct weir_reactor *r, struct weir_op *op, int fd,
			  struct msghdr *msg, uint32_t flags);

/*
 * Shut down one or both directions of @fd: @how is SHUT_RD, SHUT_WR or
 * SHUT_RDWR.
 *
 * Completes with 0, or a negative errno of shutdown(2).
 */
WEIR_API int weir_shutdown(struct weir_reactor *r, struct weir_op *op, int fd,
			   int how);

/*
 * Wait until @fd is ready for one of @events (WEIR_READABLE, WEIR_WRITABLE),
 * once.
 *
 * Completes with the set of what is so, which may hold WEIR_HANGUP and
 * WEIR_ERROR too, or a negative errno.
 */
WEIR_API int weir_poll(struct weir_reactor *r, struct weir_op *op, int fd,
		       uint32_t events);

/*
 * Move up to @len bytes from @in to @out, of which one is a pipe and the other
 * a socket or another pipe.  The kernel hands over pages and copies none, where
 * it can: a relay of much data takes less than half of the CPU in this way.
 *
 * A single transfer, which may be short: it waits while @in has nothing or @out
 * has no capacity, and completes when something was moved.  The bytes of a
 * short one that lie in the pipe stay there.  What can move at once is moved
 * inside the start; the callback comes in a turn, as always.
 *
 * What is no pipe goes by its own mode, so if it lacks O_NONBLOCK, it has it
 * while the kernel is asked, which costs two system calls, and who has the same
 * file open may see that.  Two threads that do this to one socket take the mode
 * from each other, and one of their loops hangs: set O_NONBLOCK on what more
 * than one thread may use at a time.
 * There is no SIGPIPE: it is blocked while splice(2) runs, and taken away.
 *
 * Completes with the bytes moved, 0 if @in sends no more, or a negative errno
 * of splice(2), among them
 *   -EAGAIN  the socket @in has something that splice(2) does not move, such as
 *            an urgent byte (MSG_OOB) and what follows: receive it
 *   -EINVAL  none is a pipe, both are the same one, or one is a file or a block
 *            device, which would hold up the loop, whatever its mode
 *   -EPIPE   the peer does not read any more
 *
 * Returns also
 *   -EINVAL      @len is 0, or more than INT64_MAX
 *   -EOPNOTSUPP  the reactor is simulated
 *
 * Re-creates IORING_OP_SPLICE, which takes a thread of the kernel for each
 * transfer.
 */
WEIR_API int weir_splice(struct weir_reactor *r, struct weir_op *op, int in,
			 int out, size_t len);

struct weir_acceptor;

/*
 * Called with each new connection @fd, which is the callee's, close-on-exec; or
 * with a negative errno if taking one failed.  After -EMFILE, -ENFILE, -ENOBUFS
 * and -ENOMEM the acceptor pauses for 100 ms and goes on; after another error
 * it has ended, and is only to be destroyed.
 */
typedef void weir_acceptor_fn(struct weir_acceptor *acceptor, int fd,
			      void *arg);

/*
 * Take connections from the listening socket @fd until destroyed.
 *
 * Returns 0 with *@ret set, to be freed by weir_acceptor_destroy(), or
 *   -EINVAL     @fn is NULL, or @fd does not listen
 *   -EBADF, -ENOTSOCK  @fd is not a socket
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.
 *
 * Re-creates IORING_ACCEPT_MULTISHOT and uv_listen().
 */
WEIR_API int weir_acceptor_create(struct weir_acceptor **ret,
				  struct weir_reactor *r, int fd,
				  weir_acceptor_fn *fn, void *arg);

/*
 * Stop taking connections and free @acceptor; the listening socket stays the
 * caller's.  NULL is allowed, and so is the acceptor's own callback.  A
 * connection that the kernel hands out meanwhile is closed.
 *
 * Call on the acceptor's reactor.
 */
WEIR_API void weir_acceptor_destroy(struct weir_acceptor *acceptor);

struct weir_receiver;

/*
 * Called with @len bytes at @data that came in.  0 is the end: the peer sends
 * no more.  A negative @len is an errno, and the end too; @data is then NULL.
 *
 * @data is the callee's until it returns; if it returns WEIR_RECEIVER_KEEP,
 * until weir_receiver_release().  After the end the receiver is only to be
 * destroyed.
 */
typedef int weir_receiver_fn(struct weir_receiver *receiver, void *data,
			     int64_t len, void *arg);

/* What a weir_receiver_fn returns. */
#define WEIR_RECEIVER_DONE 0	/* The buffer may be used again. */
#define WEIR_RECEIVER_KEEP 1	/* The callee keeps it for now. */

/*
 * Receive from the connected stream socket @fd until destroyed.
 *
 * Data arrive in buffers of the reactor's free list (.rx_bufs of .rx_buf_size),
 * which all its receivers share.  When the free list is empty, receivers wait
 * for a buffer to be released, in turn: what is kept for long holds up
 * others.
 *
 * Returns 0 with *@ret set, to be freed by weir_receiver_destroy(), or
 *   -EINVAL     @fn is NULL, or @fd is a socket for messages, not a stream
 *   -EBADF, -ENOTSOCK  @fd is not a socket
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.
 *
 * Re-creates multishot IORING_OP_RECV with provided buffers, and
 * uv_read_start().
 */
WEIR_API int weir_receiver_create(struct weir_receiver **ret,
				  struct weir_reactor *r, int fd,
				  weir_receiver_fn *fn, void *arg);

/*
 * Give back @data, which a callback kept, to the free list of reactor @r.  The
 * receiver it came from may be gone.
 *
 * Call on @r's thread.  Never blocks.
 */
WEIR_API void weir_receiver_release(struct weir_reactor *r, void *data);

/*
 * Stop receiving (@on = 0) or go on (1).  What the kernel had delivered by then
 * is kept and comes when it goes on: so back-pressure is as exact as the
 * buffers that are on their way.
 *
 * Returns 0, or
 *   -ESHUTDOWN  the reactor is stopping
 *
 * Call on the receiver's reactor.
 */
WEIR_API int weir_receiver_set(struct weir_receiver *receiver, int on);

/*
 * Stop receiving and free @receiver; the socket stays the caller's.  NULL is
 * allowed, and so is the receiver's own callback.
 *
 * Call on the receiver's reactor.
 */
WEIR_API void weir_receiver_destroy(struct weir_receiver *receiver);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_SOCKET_H */
