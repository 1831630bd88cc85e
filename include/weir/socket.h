/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SOCKET_H
#define WEIR_SOCKET_H

/*
 * Operations on sockets, TCP and UNIX.
 *
 * Sockets are plain descriptors: create them with socket(2), or with
 * weir_listen().  The operations follow <weir/op.h> and share the conditions of
 * <weir/file.h>: 0, or -EINVAL, -EAGAIN, -ESHUTDOWN; on the reactor's thread;
 * never block; never allocate; the library uses buffers and addresses until the
 * callback.
 *
 * Servers have two sources that deliver any number of results from one
 * submission: the acceptor (connections) and the receiver (data, in buffers of
 * the reactor's free list, so that a thousand idle connections need none).
 *
 * A connection is a descriptor, so any core of a group can serve it.  The core
 * that has accepted it passes it to another core with weir_post() or
 * weir_call(), and the other core starts its operations on it.  If the post is
 * refused (-EAGAIN, -ESHUTDOWN) the sender still owns the connection.  A post
 * that was accepted runs, also while that core stops; starts there return
 * -ESHUTDOWN, and the function must close the connection.  Pass a connection on
 * before an operation is started on it: data that a receiver has taken do not
 * move along, and weir_fd_register() is valid for one reactor.
 *
 * Alternatively each core has a listener: weir_listen() with
 * WEIR_LISTEN_REUSEPORT on one address.  The kernel then picks a core by a hash
 * of both addresses.  This saves the message, and accepts scale with cores.
 * But few connections are spread unevenly, the kernel ignores the load of the
 * cores (weir_group_load()), connections in the queue of a busy core wait for
 * that core, and those in the queue of a listener that is closed are reset.  So
 * use a listener for each core for many short connections; use one acceptor
 * that passes connections on if they are few and long, or belong to certain
 * cores.
 */

#include <sys/socket.h>
#include <sys/uio.h>

#include <weir/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Flags of the operations below.  The first three have the values of MSG_ flags,
 * by whose names they may be passed, too; weir_sendmsg() and weir_recvmsg() have
 * more of these.
 */
#define WEIR_SOCK_ALL 0x100u	/* recv: until the buffer is full: MSG_WAITALL. */
#define WEIR_SOCK_MORE 0x8000u	/* send: more follows: MSG_MORE. */
#define WEIR_SOCK_ZEROCOPY 0x4000000u /* send: see weir_send(): MSG_ZEROCOPY. */
#define WEIR_SOCK_VOLATILE 0x80000000u /* send: the data may change meanwhile. */

/* Code in the detail of a send with WEIR_SOCK_ZEROCOPY. */
#define WEIR_SOCK_COPIED 1

/* Flags of weir_listen(). */
#define WEIR_LISTEN_REUSEPORT 1u /* Several sockets share one port. */
#define WEIR_LISTEN_WAIT 2u	/* Retry for a second if it is in use. */

/*
 * Create a socket that listens at @addr.
 *
 * TCP sockets get SO_REUSEADDR; connections inherit TCP_NODELAY.  The call does
 * not remove a stale name of a UNIX socket, but returns -EADDRINUSE.
 *
 * With WEIR_LISTEN_WAIT the call sleeps and retries for about a second while
 * the address is in use.  When a server is killed, the kernel frees its
 * io_uring ring, and with it the socket, some 20 ms later; so a server that may
 * be restarted uses this flag.  Do not use it in a callback of a reactor, whose
 * thread must not sleep.
 *
 * Returns 0 with *@ret_fd set, to be closed by the caller, or
 *   -EINVAL        @addr is no address of a stream socket, or unknown @flags
 *   -EADDRINUSE    the address is in use
 *   -EACCES        no permission, for example for a port below 1024
 *   -EADDRNOTAVAIL @addr is not an address of this machine
 *   -ENOENT, -ENOTDIR  the directory of a UNIX path does not exist, or is no
 *                  directory
 *   -EMFILE        no descriptor left
 *
 * Any thread.  Blocks only with WEIR_LISTEN_WAIT.
 */
WEIR_API int weir_listen(int *ret_fd, const struct sockaddr *addr,
			 socklen_t addrlen, int backlog, uint32_t flags);

/*
 * Accept one connection from the listening socket @fd: accept4(2).
 *
 * If @addr is not NULL it gets the peer's address, of which *@addrlen is the
 * capacity before and the length after; both must stay until the callback.
 * @flags may have SOCK_NONBLOCK; SOCK_CLOEXEC is added.
 *
 * Completes with the new descriptor, which is close-on-exec and owned by the
 * caller, or a negative errno of accept4(2).
 *
 * Re-creates io_uring_prep_accept() and uv_accept().
 */
WEIR_API int weir_accept(struct weir_reactor *r, struct weir_op *op, int fd,
			 struct sockaddr *addr, socklen_t *addrlen, int flags);

/*
 * Connect the socket @fd to @addr.
 *
 * If the backlog of a UNIX listener is full the operation waits for capacity,
 * whatever the mode of @fd.  On uring, if @fd lacks O_NONBLOCK, one of .workers
 * threads of the kernel waits for it.
 *
 * Completes with 0 when the connection is established, or a negative errno of
 * connect(2).  Set a deadline: the kernel's own timeout is minutes.
 *
 * Re-creates io_uring_prep_connect() and uv_tcp_connect().
 */
WEIR_API int weir_connect(struct weir_reactor *r, struct weir_op *op, int fd,
			  const struct sockaddr *addr, socklen_t addrlen);

/*
 * Receive up to @len bytes from @fd into @buf.
 *
 * Completes with the number of bytes when data have arrived; with WEIR_SOCK_ALL
 * when @buf is full or the stream has ended.  0 means that the peer sends no
 * more.
 *
 * Re-creates io_uring_prep_recv().
 */
WEIR_API int weir_recv(struct weir_reactor *r, struct weir_op *op, int fd,
		       void *buf, size_t len, uint32_t flags);

/*
 * Send all @len bytes of @buf through @fd.
 *
 * Keep one send at a time in flight on a stream.  On uring the kernel has all
 * of them at once; if one is short, bytes of another may be sent before its
 * rest.  On ev each send waits for those that were started before it.  The same
 * holds for weir_write() to a socket or a pipe, and for receives and reads,
 * each of which takes the data that are there when it is tried.
 *
 * With WEIR_SOCK_ZEROCOPY the kernel may send from @buf itself (zero copy). The
 * callback then runs when the kernel has released the memory; over a network,
 * that is when the peer has acknowledged the bytes.  If the kernel, the socket
 * or the device (for example the loopback device) does not support this, the
 * data are copied, and the detail's code is WEIR_SOCK_COPIED.  Kernels before
 * 6.3 do not report this for devices; the code is then 0, as without a copy.
 *
 * Builds that check memory (ASan, valgrind, --enable-debug) end a program that
 * changes @buf before the callback.  Use WEIR_SOCK_VOLATILE if that is
 * intended, for example in a server that sends from memory which other clients
 * may write.  For each byte the peer receives a value that it had meanwhile.
 *
 * Completes with @len, or a negative errno; then the detail has the number of
 * bytes that the kernel accepted.  A broken connection is -EPIPE, without a
 * signal.
 *
 * Re-creates io_uring_prep_send() and uv_write().
 */
WEIR_API int weir_send(struct weir_reactor *r, struct weir_op *op, int fd,
		       const void *buf, size_t len, uint32_t flags);

/*
 * Send the @n pieces of @iov, in order (a gather list).
 *
 * Otherwise as weir_send().
 *
 * Returns also
 *   -EMSGSIZE  @n is more than IOV_MAX (1024)
 */
WEIR_API int weir_sendv(struct weir_reactor *r, struct weir_op *op, int fd,
			const struct iovec *iov, uint32_t n, uint32_t flags);

/*
 * Send one message by sendmsg(2), with ancillary data such as descriptors over
 * a UNIX socket, or an address.
 *
 * @flags may have WEIR_SOCK_MORE, WEIR_SOCK_VOLATILE and these of the system:
 *
 *	MSG_DONTWAIT	-EAGAIN instead of waiting for capacity
 *	MSG_OOB		the last byte is urgent
 *	MSG_EOR		it ends a record, of a SOCK_SEQPACKET socket
 *	MSG_CONFIRM	the peer's address in the neighbour table is valid
 *	MSG_DONTROUTE	only to hosts of a network of this machine
 *
 * It is a single transfer, which may be short.
 *
 * Completes with the bytes sent, or a negative errno of sendmsg(2).
 *
 * Re-creates io_uring_prep_sendmsg() and sendmsg(2), as an operation.
 */
WEIR_API int weir_sendmsg(struct weir_reactor *r, struct weir_op *op, int fd,
			  const struct msghdr *msg, uint32_t flags);

/*
 * Receive one message by recvmsg(2), with its address and ancillary data.
 *
 * Descriptors that come with it are close-on-exec.  @flags may have
 *
 *	MSG_DONTWAIT	-EAGAIN instead of waiting for data
 *	MSG_PEEK	the data stay, and the next receive gets them again
 *	MSG_TRUNC	the result is the length of the message, also if it
 *			did not fit; a TCP socket drops the data
 *	MSG_OOB		the urgent byte; never waits
 *	MSG_ERRQUEUE	from the queue of errors, which has for example the
 *			times of sends; never waits: -EAGAIN if it is empty.
 *			A watch reports WEIR_ERROR when it is not
 *
 * Completes with the bytes received and @msg filled in, or a negative errno.
 *
 * Re-creates io_uring_prep_recvmsg() and recvmsg(2), as an operation.
 */
WEIR_API int weir_recvmsg(struct weir_reactor *r, struct weir_op *op, int fd,
			  struct msghdr *msg, uint32_t flags);

/*
 * Shut down one or both directions of @fd: @how is SHUT_RD, SHUT_WR or
 * SHUT_RDWR.
 *
 * Completes with 0, or a negative errno of shutdown(2).
 *
 * Re-creates io_uring_prep_shutdown() and uv_shutdown().
 */
WEIR_API int weir_shutdown(struct weir_reactor *r, struct weir_op *op, int fd,
			   int how);

/*
 * Wait until @fd is ready for one of @events (WEIR_READABLE, WEIR_WRITABLE),
 * once.
 *
 * Completes with the set of events that apply, which may include WEIR_HANGUP
 * and WEIR_ERROR, or a negative errno.
 *
 * Re-creates io_uring_prep_poll_add().
 */
WEIR_API int weir_poll(struct weir_reactor *r, struct weir_op *op, int fd,
		       uint32_t events);

/*
 * Move up to @len bytes from @in to @out, of which one is a pipe and the other
 * a socket or another pipe, without a copy where the kernel can.
 *
 * The kernel passes pages on, so a relay of bulk data needs less than half of
 * the CPU time.
 *
 * The operation is a single transfer, which may be short: it waits while @in
 * has no data or @out has no capacity, and completes when bytes were moved.
 * Bytes of a short transfer that are in the pipe stay there.  If bytes can move
 * at once, the start moves them; the callback still runs in a turn.
 *
 * splice(2) uses the mode of a socket.  If a socket lacks O_NONBLOCK, the call
 * sets it during splice(2), which costs two system calls, and which others who
 * have the same file open may see.  If two threads do this to one socket they
 * may undo each other's setting, and one of their loops blocks: set O_NONBLOCK
 * on a socket that several threads may use at a time.
 * There is no SIGPIPE: the call blocks it during splice(2), and discards it.
 *
 * Completes with the bytes moved, 0 if @in sends no more, or a negative errno
 * of splice(2), among them
 *   -EAGAIN  the socket @in has data that splice(2) does not move, such as an
 *            urgent byte (MSG_OOB) and what follows it: receive them
 *   -EINVAL  neither is a pipe, both are the same pipe, or one is a file or a
 *            block device, which would block the loop, whatever its mode
 *   -EPIPE   the peer does not read any more
 *
 * Returns also
 *   -EINVAL      @len is 0, or more than INT64_MAX
 *
 * Re-creates io_uring_prep_splice(), which uses a thread of the kernel for each
 * transfer.
 */
WEIR_API int weir_splice(struct weir_reactor *r, struct weir_op *op, int in,
			 int out, size_t len);

struct weir_acceptor;

/*
 * Called with each new connection @fd, which is close-on-exec and owned by the
 * callback; or with a negative errno if an accept failed.  After -EMFILE,
 * -ENFILE, -ENOBUFS and -ENOMEM the acceptor pauses for 100 ms and continues;
 * after another error it has ended, and can only be destroyed.
 * weir_acceptor_peer() returns the peer's address.
 */
typedef void weir_acceptor_fn(struct weir_acceptor *acceptor, int fd,
			      void *arg);

/*
 * Accept connections from the listening socket @fd until destroyed.
 *
 * Returns 0 with *@ret set, to be freed by weir_acceptor_destroy(), or
 *   -EINVAL     @fn is NULL, or @fd does not listen
 *   -EBADF, -ENOTSOCK  @fd is not a socket
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.
 *
 * Re-creates io_uring_prep_multishot_accept() and uv_listen().
 */
WEIR_API int weir_acceptor_create(struct weir_acceptor **ret,
				  struct weir_reactor *r, int fd,
				  weir_acceptor_fn *fn, void *arg);

/*
 * Pause (@on = 0) or resume (1) accepting, for example at a limit of
 * connections.
 *
 * No callback runs during the pause; connections wait in the kernel, as many as
 * the backlog of the listening socket allows, and other processes that listen
 * on the same socket may accept them.  Connections that the kernel has accepted
 * for this acceptor before the pause are kept, and delivered after the resume.
 * An acceptor that has ended after an error stays so.
 *
 * Returns 0, or
 *   -ESHUTDOWN  the reactor is stopping
 *
 * Call on the acceptor's reactor.
 *
 * Re-creates evconnlistener_disable() and evconnlistener_enable() of libevent.
 */
WEIR_API int weir_acceptor_set(struct weir_acceptor *acceptor, int on);

/*
 * Get the address of the peer of the connection for which the callback of
 * @acceptor is running.
 *
 * On demand, because it takes a system call (getpeername(2)).  In a simulated
 * world it is the name of the peer's host, as the path of a struct sockaddr_un.
 *
 * Returns 0 with *@ret and *@ret_len set, or
 *   -EINVAL    @ret or @ret_len is NULL; the callback is not running, or was
 *              called with an error
 *   -ENOTCONN  the connection is broken already
 *   -EBADF     the callback has closed the connection
 *
 * Call on the acceptor's reactor, in its callback.
 *
 * Re-creates accept4(2)'s address, and uv_tcp_getpeername().
 */
WEIR_API int weir_acceptor_peer(const struct weir_acceptor *acceptor,
				struct sockaddr_storage *ret,
				socklen_t *ret_len);

/*
 * Stop accepting connections and free @acceptor.
 *
 * The caller still owns the listening socket.  NULL is allowed, and the
 * acceptor's own callback may make this call.  A connection that the kernel
 * accepts meanwhile, or that is kept because of a pause, is closed.
 *
 * Call on the acceptor's reactor.
 */
WEIR_API void weir_acceptor_destroy(struct weir_acceptor *acceptor);

struct weir_receiver;

/* Options of weir_receiver_create(); all may be 0. */
struct weir_receiver_opts {
	size_t size;		/* sizeof(struct weir_receiver_opts) */
	uint32_t bufs;		/* Buffers of its own, a power of 2, at most 32768;
				 * 0: those of the reactor. */
	uint32_t buf_size;	/* Bytes in each, at most 1 MiB; 0: .rx_buf_size of
				 * the reactor.  With .bufs only. */
};

/*
 * Called with @len received bytes at @data.  0 is the end: the peer sends no
 * more.  A negative @len is an errno, and the end too; @data is then NULL.
 *
 * The callback may use @data until it returns.  If it returns WEIR_RECEIVER_KEEP, it
 * may use them until weir_receiver_release(); a receiver with buffers of its own has
 * weir_receiver_release_own() in its place.  After the end the receiver can only be
 * destroyed.
 */
typedef int weir_receiver_fn(struct weir_receiver *receiver, void *data,
			     int64_t len, void *arg);

/* Results of a weir_receiver_fn. */
#define WEIR_RECEIVER_DONE 0	/* The library may reuse the buffer. */
#define WEIR_RECEIVER_KEEP 1	/* The callback keeps it for now. */

/*
 * Receive from the connected stream socket @fd until destroyed.
 *
 * Data arrive in buffers of the reactor's free list (.rx_bufs of .rx_buf_size),
 * which its receivers share.  When the free list is empty, receivers wait
 * in turn for a buffer to be released, so a buffer that is kept for long delays
 * other receivers.
 *
 * With .bufs of @opts, which may be NULL, the receiver has buffers of its own: it
 * neither delays others nor waits for them.  They are allocated as long as it exists.
 *
 * Returns 0 with *@ret set, to be freed by weir_receiver_destroy(), or
 *   -EINVAL     @fn is NULL; @fd is a socket for messages, not a stream; a value
 *               of @opts is out of its range, or .buf_size is set without .bufs
 *   -E2BIG      @opts has more than this library knows
 *   -EBADF, -ENOTSOCK  @fd is not a socket
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.
 *
 * Re-creates io_uring_prep_recv_multishot() with provided buffers, and
 * uv_read_start().
 */
WEIR_API int weir_receiver_create(struct weir_receiver **ret,
				  struct weir_reactor *r, int fd,
				  const struct weir_receiver_opts *opts,
				  weir_receiver_fn *fn, void *arg);

/*
 * Return @data, which a callback has kept, to the free list of reactor @r.
 *
 * Its receiver may have been destroyed.
 *
 * Call on @r's thread.  Never blocks.
 *
 * Re-creates io_uring_buf_ring_add().
 */
WEIR_API void weir_receiver_release(struct weir_reactor *r, void *data);

/*
 * Return @data, which a callback of @receiver has kept, to the buffers that are its
 * own (.bufs).
 *
 * Call on the receiver's reactor.  Never blocks.
 *
 * Re-creates io_uring_buf_ring_add(), in a buffer group of a connection's own.
 */
WEIR_API void weir_receiver_release_own(struct weir_receiver *receiver,
					void *data);

/*
 * Pause (@on = 0) or resume (1) receiving, for backpressure.
 *
 * Data that the kernel has delivered before the pause are kept and delivered
 * after the resume; these buffers are the only data beyond the pause.
 *
 * Returns 0, or
 *   -ESHUTDOWN  the reactor is stopping
 *
 * Call on the receiver's reactor.
 *
 * Re-creates uv_read_stop().
 */
WEIR_API int weir_receiver_set(struct weir_receiver *receiver, int on);

/*
 * Stop receiving and free @receiver.
 *
 * Its own buffers are freed, also those that the callback has kept: first end the
 * operations that use them.  Those of the reactor still have to be released.  The
 * caller still owns the socket.  NULL is allowed, and the
 * receiver's own callback may make this call.
 *
 * Call on the receiver's reactor.
 */
WEIR_API void weir_receiver_destroy(struct weir_receiver *receiver);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_SOCKET_H */
