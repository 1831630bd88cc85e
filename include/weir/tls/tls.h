/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_TLS_TLS_H
#define WEIR_TLS_TLS_H

/*
 * TLS 1.2 and 1.3, client and server, as streams: libweir-tls, on OpenSSL.
 *
 *	weir_stream_create_fd(&lower, r, fd, fd, NULL);
 *	weir_tls_stream_create(&s, r, lower, ctx, &conn);
 *	weir_tls_handshake(s, &rq->op);
 *
 * A TLS stream is a stream of <weir/stream.h> whose transport is another one,
 * over a socket, a pipe, or whatever there is; so bytes that were read before,
 * of a STARTTLS or a PROXY protocol, are where they belong.  Its reads, writes,
 * deadlines and cancels are those of streams.
 *
 * The end of a peer that has said close_notify is the end of the stream, 0.  One
 * that ends without it was cut: reads fail with -ECONNABORTED.  A violation of
 * the protocol is -EPROTO.  weir_stream_shutdown() sends a close_notify and
 * leaves the other direction open, as TLS 1.3 has it.
 * Renegotiation is refused; key updates of TLS 1.3 are answered.
 *
 * All cryptography runs on the reactor's thread.  By OpenSSL 3.0 on a Xeon, both
 * sides of a handshake together took 1.1 ms of it with ECDSA P-256 and 1.4 ms with
 * RSA 2048, whose signature costs the server more.  The kernel does not encrypt for
 * it (kTLS): the records go through the buffers of the lower stream, which need not
 * be a socket; so weir_stream_sendfile() reads the file.
 *
 * A stream needs capacity for up to two operations of its own beside those of the
 * caller; without it, what waits completes with -EAGAIN.
 *
 * A context may be used by any number of reactors.
 */

#include <stddef.h>
#include <stdint.h>

#include <weir/op.h>
#include <weir/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_tls_context;
struct weir_tls_session;

/* Versions. */
#define WEIR_TLS_1_2 0x0303
#define WEIR_TLS_1_3 0x0304

/* weir_tls_opts.flags */
#define WEIR_TLS_SERVER 1u	/* It accepts; otherwise it connects. */
#define WEIR_TLS_NO_VERIFY 2u	/* Client: any certificate will do. */
#define WEIR_TLS_ASK_CERT 4u	/* Server: verify the client's, if it has one. */
#define WEIR_TLS_NEED_CERT 8u	/* Server: refuse a client that has none. */

/*
 * Called by a server for each protocol that a client offers by ALPN, in the
 * client's order, until one is chosen; if none is, the handshake fails.
 *
 * It is called on the thread of the stream's reactor, for several reactors at the
 * same time.  It may call any function, also weir_stream_close() of that stream.
 *
 * Returns 1 to choose @name, or 0.
 */
typedef int weir_tls_alpn_fn(void *arg, const char *name);

/*
 * Called by a server with the name that a client asks for (SNI).  It may set
 * *@ret to the context whose certificate is to be used; that must stay until the
 * streams are closed.  Whom the server trusts, and whether it asks for a
 * certificate, remains as in the stream's own context.
 * It is called as weir_tls_alpn_fn is.
 *
 * Returns 0, or a negative errno: the handshake fails, and the client is told that
 * there is no such name.
 */
typedef int weir_tls_name_fn(void *arg, const char *name,
			     struct weir_tls_context **ret);

/*
 * Options of a context.  Set .size to the size of the struct; 0 is the default of
 * every other member.
 *
 * .psk_file has lines "NAME:KEY", the key of 16 to 256 bytes in hexadecimal, as
 * psktool(1) writes them; lines that begin with # are comments.  Two ends that have
 * the same key under the same name need no certificates: a client that proves to have
 * one is not asked for its certificate, also with WEIR_TLS_NEED_CERT.  In TLS 1.3, a
 * server that does not know the client's name shows its certificate instead, if it has
 * one; and keys need a suite of .ciphersuites with SHA-256, the server's first.  A key
 * that is not the same fails the handshake.
 */
struct weir_tls_opts {
	size_t size;
	uint32_t flags;			/* WEIR_TLS_ */
	uint16_t min_version;		/* 0: WEIR_TLS_1_2 */
	uint16_t max_version;		/* 0: the newest. */
	const char *cert_file;		/* PEM, with the chain; servers need it,
					 * or .psk_file. */
	const char *key_file;		/* PEM; NULL: in .cert_file. */
	const char *ca_file;		/* PEM; NULL: with .ca_dir, none, */
	const char *ca_dir;		/* without both, those of the system. */
	const char *ciphers;		/* Of TLS 1.2, as of ciphers(1). */
	const char *ciphersuites;	/* Of TLS 1.3. */
	const char *alpn;		/* "h2,http/1.1", by preference. */
	weir_tls_alpn_fn *choose_alpn;	/* Server: instead of .alpn. */
	weir_tls_name_fn *choose_name;	/* Server: by SNI. */
	void *arg;			/* Of these functions. */
	const char *psk_file;		/* Keys that both ends have; NULL: none. */
	const char *psk_name;		/* Client: whose of them it is. */
};

/*
 * Create a context: a certificate, the trusted CAs, keys, and what it allows.
 *
 * It reads files.
 *
 * Returns 0 with *@ret set, to be freed by weir_tls_context_destroy(), or
 *   -EINVAL       @opts is NULL or has no .size, unknown flags or versions, an
 *                 empty name in .alpn, or ciphers that do not exist; a server has
 *                 neither .cert_file nor .psk_file, or .psk_name; or a client has
 *                 only one of .psk_file and .psk_name
 *   -E2BIG        @opts sets a member that this version does not have
 *   -ENOENT       a file is missing or cannot be read, or has no key of .psk_name
 *   -EKEYREJECTED a file is no certificate or key, or they do not belong
 *                 together; weir_why() has OpenSSL's reason, or the line of
 *                 .psk_file
 *   -ENOMEM       no memory
 *
 * Any thread.  Blocks while it reads the files.
 *
 * Re-creates SSL_CTX_new() and tls_config_new() of LibreSSL.
 */
WEIR_API int weir_tls_context_create(struct weir_tls_context **ret,
				     const struct weir_tls_opts *opts);

/*
 * Read the certificate and the keys of @ctx again, from the files it was created
 * with, for streams that are created from now on.
 *
 * Streams go on, and sessions of before can be resumed.  If it fails, nothing
 * has changed.
 *
 * Returns 0, or
 *   -ENOENT       a file is missing or cannot be read, or has no key of .psk_name
 *   -EKEYREJECTED a file is no certificate or key, or they do not belong
 *                 together
 *   -ENOMEM       no memory
 *
 * Any thread.  Blocks while it reads the files.
 *
 * Re-creates the reload of nginx and haproxy.
 */
WEIR_API int weir_tls_context_reload(struct weir_tls_context *ctx);

/*
 * Free @ctx; streams that were created with it keep what they need.  NULL is
 * allowed.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates SSL_CTX_free().
 */
WEIR_API void weir_tls_context_destroy(struct weir_tls_context *ctx);

/*
 * Options of a TLS stream.  Set .size to the size of the struct; 0 is the default
 * of every other member.
 */
struct weir_tls_stream_opts {
	size_t size;
	const char *host;	/* Client: the name, also with a dot at its end,
				 * or address to verify; NULL: only the chain. */
	const struct weir_tls_session *session; /* Client: to resume. */
	const struct weir_stream_opts *stream;	/* Its buffers. */
};

/*
 * Create a TLS stream over the stream @lower, by @ctx.
 *
 * The TLS stream owns @lower: weir_stream_close() of it closes both.  Its
 * handshake begins with weir_tls_handshake(), or with the first read or write.
 *
 * Returns 0 with *@ret set, to be ended by weir_stream_close(), or, with @lower
 * still the caller's:
 *   -EINVAL     .host is no name or too long, or the options of the stream are
 *               invalid
 *   -E2BIG      @opts sets a member that this version does not have
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread, to which @lower belongs.
 *
 * Re-creates SSL_new() with SSL_set_bio(), and bufferevent_openssl_filter_new().
 */
WEIR_API int weir_tls_stream_create(struct weir_stream **ret,
				    struct weir_reactor *r,
				    struct weir_stream *lower,
				    struct weir_tls_context *ctx,
				    const struct weir_tls_stream_opts *opts);

/*
 * Do the handshake of the TLS stream @s.
 *
 * A cancel leaves the handshake where it is; another call, or a read or a write,
 * continues it.
 *
 * Completes with 0, or a negative errno, for which weir_tls_error() has words:
 *   -EKEYREJECTED  the peer's certificate is not trusted, or is of another host
 *   -EKEYEXPIRED   it has expired
 *   -ECONNABORTED  the peer has ended the connection
 *   -EPROTO        the two have no version, cipher or protocol in common, or the
 *                  peer has refused, or does not speak TLS
 *
 * Returns 0, or
 *   -EINVAL     @s is no TLS stream, or @op is in flight or has no callback
 *   -EBUSY      a handshake of @s is in flight
 *   -EAGAIN     .ops_max operations are in flight
 *   -ESHUTDOWN  the reactor is stopping
 *
 * Call on the stream's reactor.  Never blocks.
 *
 * Re-creates SSL_do_handshake(), as an operation.
 */
WEIR_API int weir_tls_handshake(struct weir_stream *s, struct weir_op *op);

/*
 * About a connection; weir_tls_info().  Text is empty, and numbers are 0, where
 * there is nothing to tell; text that is too long is cut.
 */
struct weir_tls_info {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint32_t version;	/* WEIR_TLS_1_2 or WEIR_TLS_1_3; 0: none yet. */
	uint32_t resumed;	/* 1: of an earlier session. */
	char cipher[64];
	char alpn[64];		/* The protocol that was chosen. */
	char server_name[256];	/* That the client has asked for. */
	char subject[256];	/* The peer's certificate: */
	char issuer[256];
	int64_t not_before;	/* seconds since 1970 */
	int64_t not_after;
	uint8_t sha256[32];	/* of all of it. */
};

/*
 * Get what is known of the connection of the TLS stream @s and of its peer's
 * certificate.
 *
 * Returns 0 with *@ret filled in, or
 *   -EINVAL  @s is no TLS stream, or .size is smaller than the member itself
 *
 * Call on the stream's reactor.  Never blocks; may allocate.
 *
 * Re-creates SSL_get_version(), SSL_get0_peer_certificate() and
 * SSL_get0_alpn_selected().
 */
WEIR_API int weir_tls_info(const struct weir_stream *s,
			   struct weir_tls_info *ret);

/*
 * Get words for the error that has ended the TLS stream @s, such as "certificate
 * verify failed: hostname mismatch".
 *
 * Returns a string that is valid until the stream is closed; empty if there was
 * no error, or @s is no TLS stream.  Call on the stream's reactor.  Never blocks.
 *
 * Re-creates ERR_reason_error_string() and X509_verify_cert_error_string().
 */
WEIR_API const char *weir_tls_error(const struct weir_stream *s);

/*
 * Take the newest session of the client's TLS stream @s, for .session of a later
 * stream.
 *
 * TLS 1.3 servers send sessions after the handshake, so take it after a read.
 *
 * Returns 0 with *@ret set, to be freed by weir_tls_session_free(), or
 *   -EINVAL  @s is no TLS stream
 *   -EAGAIN  the server has sent none
 *
 * Call on the stream's reactor.  Never blocks.
 *
 * Re-creates SSL_get1_session().
 */
WEIR_API int weir_tls_session_take(struct weir_stream *s,
				   struct weir_tls_session **ret);

/*
 * Free @session, which streams that were created with it do not need any more.
 * NULL is allowed.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates SSL_SESSION_free().
 */
WEIR_API void weir_tls_session_free(struct weir_tls_session *session);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_TLS_TLS_H */
