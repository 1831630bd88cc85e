/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_STREAM_H
#define WEIR_STREAM_H

/*
 * Buffered streams: read until a delimiter, write with backpressure, over
 * sockets, pipes, files, and transports of the program's own.
 *
 *	weir_stream_create_fd(&s, r, fd, fd, NULL);
 *	weir_stream_read_until(s, &rq->op, rq->block, 4096, "\n", 1);
 *	...
 *	weir_stream_write(s, &rq->op, "yes\n", 4, 0);
 *	...
 *	weir_stream_close(s, &rq->op);
 *
 * A stream has one buffer for each direction, of a size that is fixed when it is
 * created, and allocates nothing after that.  It receives only while a read
 * waits for bytes, so a peer is slowed down by a program that does not read.
 *
 * Reads take bytes out of the input buffer.  One read at a time is in flight;
 * with a buffer of NULL it only waits until the bytes are there, and leaves
 * them in the stream for weir_stream_peek().  A read that is cancelled, or whose
 * deadline passes, takes nothing: what the stream has received stays in its
 * buffer, for the next read.  The one exception is a weir_stream_read_exact() of
 * more than the buffer holds.
 *
 * Writes put bytes into the output buffer, in the order in which they were
 * started, any number at a time.  A write ends when its last byte is in the
 * buffer, or has been sent from the caller's memory, which is done with large
 * ones.  When the buffer is full, writes wait until no more than .out_low bytes
 * of it are left.  weir_stream_flush() ends when all earlier bytes have been
 * sent.  The detail of a cancelled write (weir_op_get_detail()) has the number of
 * its bytes in the stream; 0 if it was still queued.
 *
 * The end of the peer's bytes is no error: reads tell it apart from one.  After
 * an error of the transport, reads return what is buffered first, and then that
 * error; all later writes return the error of the writing direction.
 *
 * Each operation starts @op by the contract of <weir/op.h>, with its deadline
 * and cancel.  All of them return 0, or
 *
 *   -EINVAL      an argument is invalid: @op is in flight or has no callback, a
 *               length is beyond INT64_MAX, or unknown flags
 *   -EAGAIN      .ops_max operations are in flight
 *   -ESHUTDOWN  the reactor is stopping, or weir_stream_close() was called
 *
 * and the errors that their own comment lists; errors of the transport come
 * with the completion.  All of them are called on the stream's reactor, never
 * block and never allocate.  The library uses buffers, iovecs and delimiters until
 * the callback.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <weir/op.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_reactor;
struct weir_stream;

/* weir_stream_opts.flags */
#define WEIR_STREAM_KEEP_FDS 1u	/* Do not close the descriptors. */

/* Flags of weir_stream_write() and others. */
#define WEIR_STREAM_MORE 1u	/* More follows: no need to send it yet. */

/* Flags of weir_stream_pipe(). */
#define WEIR_STREAM_KEEP_OPEN 1u /* At the end, do not shut @to down. */

/*
 * Options of a stream.  Set .size to the size of the struct; 0 is the default
 * of every other member.
 *
 * The buffers are the program's, for example of a pool, until the callback of
 * weir_stream_close(); or, with NULL, the stream allocates them when it is
 * created.
 */
struct weir_stream_opts {
	size_t size;
	void *in;		/* Input buffer; NULL: allocated. */
	void *out;		/* Output buffer; NULL: allocated. */
	size_t in_size;		/* Bytes in it; 0: 16 KiB. */
	size_t out_size;	/* The same: the high mark; 0: 64 KiB. */
	size_t out_low;		/* Writes go on at so few bytes; 0: half. */
	uint32_t flags;		/* WEIR_STREAM_KEEP_FDS */
	uint32_t reserved;
};

/*
 * A transport: what moves a stream's bytes.  Set .size to the size of the
 * struct; zero what it does not have.
 *
 * Each function starts @op, by any operation of the library or by
 * weir_op_start(), and returns 0, or a negative errno; the contract of
 * <weir/op.h> holds.  One .recv and one of the others are in flight at a time.
 * They may be cancelled.  They are called on the reactor's thread.
 */
struct weir_stream_ops {
	size_t size;
	const char *name;	/* "tls" */

	/* Receive up to @len bytes into @buf.  Completes with their number, 0 at
	 * the end of the stream, or an errno. */
	int (*recv)(void *arg, struct weir_op *op, void *buf, size_t len);

	/*
	 * Send all bytes of the @n pieces; @flags may have WEIR_STREAM_MORE.
	 * Completes with their number, or an errno: -EAGAIN, -ECANCELED and
	 * -ESHUTDOWN fail what waits, and later operations try again; any other
	 * one ends the direction, here as for .recv.  When it is cancelled, it
	 * completes with the number sent so far, or with -ECANCELED and that
	 * number in its detail.
	 */
	int (*send)(void *arg, struct weir_op *op, const struct iovec *iov,
		    uint32_t n, uint32_t flags);

	/* Tell the peer that nothing follows; it may still send. */
	int (*shutdown)(void *arg, struct weir_op *op);

	/* Nothing else is in flight: release what it has.  The result is that
	 * of weir_stream_close().  While the reactor stops, weir_op_start() is
	 * refused: release what can be released, and return its errno.
	 * NULL: there is nothing to do. */
	int (*close)(void *arg, struct weir_op *op);
};

/*
 * Create a stream over descriptors: it reads @in and writes @out.
 *
 * For a socket both are the same; weir_stream_shutdown() is shutdown(2) then.
 * Two pipes are two; a shutdown closes @out.  -1 is a direction that the stream
 * does not have.  Files are read and written at the descriptor's own position.
 * The stream owns the descriptors, unless WEIR_STREAM_KEEP_FDS is set; then a
 * shutdown of two leaves @out open.
 *
 * Returns 0 with *@ret set, to be ended by weir_stream_close(), or
 *   -EINVAL     both are -1, one is a socket for messages, an unknown flag, or
 *               .out_low is not less than .out_size
 *   -EBADF      one is not open
 *   -E2BIG      @opts sets a member that this version does not have
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * If it fails the caller still owns the descriptors.
 *
 * Call on @r's thread.
 *
 * Re-creates fdopen(3), bufferevent_socket_new() of libevent, and uv_tcp_open().
 */
WEIR_API int weir_stream_create_fd(struct weir_stream **ret,
				   struct weir_reactor *r, int in, int out,
				   const struct weir_stream_opts *opts);

/*
 * Create a stream over a transport of the program's own, whose functions @ops
 * are called with @arg.
 *
 * The library copies @ops.
 *
 * Returns 0 with *@ret set, to be ended by weir_stream_close(), or
 *   -EINVAL     .name is NULL, .size of @ops was not set, there is neither .recv
 *               nor .send, an unknown flag, or .out_low is not less than
 *               .out_size
 *   -E2BIG      @ops or @opts sets a member that this version does not have
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.
 *
 * Re-creates fopencookie(3), BIO_meth_new() of OpenSSL, and a bufferevent with
 * filters.
 */
WEIR_API int weir_stream_create(struct weir_stream **ret,
				struct weir_reactor *r,
				const struct weir_stream_ops *ops, void *arg,
				const struct weir_stream_opts *opts);

/*
 * Close @s and free it.
 *
 * Operations in flight are cancelled, and their callbacks run before that of
 * @op.  Bytes that were not sent are dropped: flush or shut down the stream
 * first.  From this call on the stream must not be used; it is freed when the
 * callback of @op begins, and the descriptors, which it owns, are closed.  The
 * call may be made by any callback, also of its own operations.  @op may be NULL
 * if the buffers are the stream's own: then there is no callback.
 *
 * Completes with 0, or a negative errno of close(2) or of the transport; the
 * stream is gone in any case.  It cannot be cancelled.
 *
 * Returns 0, or
 *   -EINVAL  @op is in flight or without callback; or it is NULL, and the
 *            buffers are the caller's
 *
 * Re-creates uv_close(), bufferevent_free() and fclose(3), as an operation.
 */
WEIR_API int weir_stream_close(struct weir_stream *s, struct weir_op *op);

/*
 * Read up to @len bytes into @buf, as soon as there are some.
 *
 * If @buf is NULL, it waits for bytes without taking them; the result is the
 * number that is buffered, and @len is ignored.
 *
 * Completes with the number of bytes, 0 at the end of the stream, or a negative
 * errno.
 *
 * Returns also
 *   -EBUSY       another read of @s is in flight
 *   -EOPNOTSUPP  @s is only for writing
 *
 * Re-creates read(2), bufferevent_read() and uv_read_start(), as an operation.
 */
WEIR_API int weir_stream_read(struct weir_stream *s, struct weir_op *op,
			      void *buf, size_t len);

/*
 * Read exactly @len bytes into @buf.
 *
 * If @buf is NULL, it waits until so many are buffered, without taking them.
 *
 * If @len is more than the input buffer holds, the bytes are stored to @buf as
 * they arrive; if it fails, the detail has the number of bytes that were taken
 * from the stream and are at the beginning of @buf.
 *
 * Completes with @len, or with what was left if the stream has ended before, 0
 * if nothing was; or a negative errno.
 *
 * Returns also
 *   -EBUSY       another read of @s is in flight
 *   -EMSGSIZE    @buf is NULL, and the input buffer is smaller than @len
 *   -EOPNOTSUPP  @s is only for writing
 *
 * Re-creates fread(3), and io_uring_prep_recv() with MSG_WAITALL.
 */
WEIR_API int weir_stream_read_exact(struct weir_stream *s, struct weir_op *op,
				    void *buf, size_t len);

/*
 * Read until @delim, which has @delim_len bytes, and which is the end of what is
 * read: at most @max bytes into @buf.
 *
 * If @buf is NULL, it leaves the bytes in the stream: weir_stream_peek().
 *
 * Completes with the number of bytes, those of the delimiter included; 0 if the
 * stream has ended and nothing is left; or a negative errno, and what was
 * received stays in the stream:
 *   -EMSGSIZE  there is no delimiter in the first @max bytes
 *   -ENODATA   the stream has ended before a delimiter
 *
 * Returns also
 *   -EBUSY       another read of @s is in flight
 *   -EINVAL      @max or @delim_len is 0, or @delim is NULL
 *   -EMSGSIZE    @max is more than the input buffer holds
 *   -EOPNOTSUPP  @s is only for writing
 *
 * Re-creates getdelim(3), evbuffer_readln() and async_read_until() of Asio.
 */
WEIR_API int weir_stream_read_until(struct weir_stream *s, struct weir_op *op,
				    void *buf, size_t max, const void *delim,
				    size_t delim_len);

/*
 * Get the bytes that are buffered and not yet read.
 *
 * *@ret points to them until the next call that reads, consumes or returns
 * bytes; if there are none it is not NULL either.
 *
 * Returns their number.
 *
 * Call on the stream's reactor.  Never blocks.
 *
 * Re-creates evbuffer_peek() and MSG_PEEK of recv(2).
 */
WEIR_API size_t weir_stream_peek(const struct weir_stream *s,
				 const void **ret);

/*
 * Take the first @len bytes that are buffered out of the stream.
 *
 * Returns 0, or
 *   -ERANGE  fewer are buffered
 *   -EBUSY   a read is in flight
 *
 * Call on the stream's reactor.  Never blocks.
 *
 * Re-creates evbuffer_drain().
 */
WEIR_API int weir_stream_consume(struct weir_stream *s, size_t len);

/*
 * Return @len bytes at @buf to the beginning of the input, to be read again.
 *
 * Bytes that were just taken, in one or several calls, and without a read that
 * had to wait since, can always be returned.
 *
 * Returns 0, or
 *   -EMSGSIZE  the input buffer has no capacity for them now
 *   -EBUSY     a read is in flight
 *
 * Call on the stream's reactor.  Never blocks.
 *
 * Re-creates ungetc(3) and evbuffer_prepend().
 */
WEIR_API int weir_stream_unread(struct weir_stream *s, const void *buf,
				size_t len);

/*
 * Put @len bytes of @buf into the output buffer at once, if all of them fit.
 *
 * As weir_stream_write(), without an operation.
 *
 * Returns 0, or
 *   -EAGAIN      there is no capacity now, or writes wait for some:
 *               weir_stream_write() waits
 *   -EMSGSIZE    the output buffer is smaller than @len
 *   -EINVAL      unknown @flags
 *   -EOPNOTSUPP  @s is only for reading
 *   -EPIPE       the stream was shut down
 *   -ESHUTDOWN   the reactor is stopping, or weir_stream_close() was called
 *   another      the error of the transport that has ended this direction
 *
 * Call on the stream's reactor.  Never blocks, never allocates.
 *
 * Re-creates fwrite(3), evbuffer_add() and uv_try_write().
 */
WEIR_API int weir_stream_put(struct weir_stream *s, const void *buf, size_t len,
			     uint32_t flags);

/*
 * Write @len bytes of @buf.
 *
 * With WEIR_STREAM_MORE the stream keeps them, as far as its buffer has
 * capacity, until the next write without that flag, a flush, a shutdown or a
 * file, so that they share packets.
 *
 * Completes with @len, or a negative errno; then the detail has the number of
 * bytes that are in the stream, or sent.  -EPIPE: the peer does not read any
 * more, or the stream was shut down.
 *
 * Returns also
 *   -EOPNOTSUPP  @s is only for reading
 *
 * Re-creates bufferevent_write() and uv_write().
 */
WEIR_API int weir_stream_write(struct weir_stream *s, struct weir_op *op,
			       const void *buf, size_t len, uint32_t flags);

/*
 * Write the @n pieces of @iov, in order (a gather list).
 *
 * Otherwise as weir_stream_write().
 *
 * Returns also
 *   -EMSGSIZE    @n is more than IOV_MAX (1024)
 *   -EOPNOTSUPP  @s is only for reading
 *
 * Re-creates writev(2) and uv_write(), as operations.
 */
WEIR_API int weir_stream_writev(struct weir_stream *s, struct weir_op *op,
				const struct iovec *iov, uint32_t n,
				uint32_t flags);

/*
 * Wait until all bytes of earlier writes have been sent: the kernel or the
 * transport has them.
 *
 * Completes with 0, or a negative errno of a send.
 *
 * Returns also
 *   -EOPNOTSUPP  @s is only for reading
 *
 * Re-creates fflush(3) and bufferevent_flush(), as an operation.
 */
WEIR_API int weir_stream_flush(struct weir_stream *s, struct weir_op *op);

/*
 * Send all bytes of earlier writes, and then the end of the stream: half close.
 *
 * The stream can still be read.  Writes that are started afterwards complete
 * with -EPIPE.
 *
 * Completes with 0, or a negative errno.
 *
 * Returns also
 *   -EOPNOTSUPP  @s is only for reading, or its transport has no half close
 *
 * Re-creates shutdown(2) with SHUT_WR, uv_shutdown() and SSL_shutdown().
 */
WEIR_API int weir_stream_shutdown(struct weir_stream *s, struct weir_op *op);

/*
 * Get the number of bytes in the output buffer that have not been sent.
 *
 * Returns the number.
 *
 * Call on the stream's reactor.  Never blocks.
 *
 * Re-creates uv_stream_get_write_queue_size().
 */
WEIR_API size_t weir_stream_unsent(const struct weir_stream *s);

/*
 * Write @len bytes at @off of the file @fd.
 *
 * Over a socket the kernel sends the pages of the file, without a copy, by
 * sendfile(2), where they are in the page cache; it tells since Linux 6.5, newer
 * kernels only of a file that the process owns or may write.
 * What is not there, and all where the kernel or the transport cannot, is read
 * into the output buffer first.  A file that another process cuts or changes
 * meanwhile is sent as it is found.
 *
 * Completes with @len, or with fewer if the file has ended before; or a negative
 * errno; then the detail has the number of bytes that are in the stream, or
 * sent.
 *
 * Returns also
 *   -EOPNOTSUPP  @s is only for reading
 *
 * Re-creates sendfile(2), uv_fs_sendfile() and evbuffer_add_file().
 */
WEIR_API int weir_stream_sendfile(struct weir_stream *s, struct weir_op *op,
				  int fd, uint64_t off, uint64_t len,
				  uint32_t flags);

/*
 * Move bytes from @from to @to, at most @max, until @from ends.
 *
 * It is the read in flight of @from, and a write of @to: with
 * WEIR_STREAM_KEEP_OPEN, what is written to @to afterwards follows.  @from is
 * slowed down to what @to takes.  When @from ends, @to is flushed and shut down,
 * unless @flags has WEIR_STREAM_KEEP_OPEN; writes that were queued behind it then
 * complete with -EPIPE.  After @max bytes it ends without that.  WEIR_FOREVER is
 * no limit.  Bytes that were received and not moved stay in @from.
 *
 * Completes with the number of bytes, or a negative errno; then the detail has
 * the number, and its code tells the side: WEIR_STREAM_FROM or WEIR_STREAM_TO.
 *
 * Returns also
 *   -EBUSY       another read of @from is in flight
 *   -EINVAL      the two are one, or of different reactors, or @max is 0
 *   -EOPNOTSUPP  @from is only for writing, or @to only for reading or, without
 *               WEIR_STREAM_KEEP_OPEN, without half close
 *
 * Re-creates pipe() of Node's streams, and uv_read_start() with uv_write().
 */
WEIR_API int weir_stream_pipe(struct weir_stream *from, struct weir_op *op,
			      struct weir_stream *to, uint64_t max,
			      uint32_t flags);

/* Code in the detail of a failed weir_stream_pipe(). */
#define WEIR_STREAM_FROM 1
#define WEIR_STREAM_TO 2

/*
 * Get the @arg of a stream that was created with the functions @ops: those have
 * the same .recv and .send.
 *
 * Returns it; NULL if @s has another transport.
 *
 * Call on the stream's reactor.  Never blocks.
 *
 * Re-creates BIO_get_data().
 */
WEIR_API void *weir_stream_transport(const struct weir_stream *s,
				     const struct weir_stream_ops *ops);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_STREAM_H */
