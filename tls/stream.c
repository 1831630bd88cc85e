/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS as the transport of a stream.
 *
 *	stream --> SSL --> BIO --> lower stream --> socket
 *
 * The BIO copies from and to the buffers of the lower stream, so OpenSSL keeps no
 * more than a record.  When it lacks bytes or capacity, one operation on the
 * lower stream waits for them, and then all that waits here is tried again:
 * go_on().  Those operations are the connection's own, so one that is cancelled
 * leaves nothing behind.  A record that is encrypted but does not fit must be
 * offered again with the same length, also if its write was cancelled: .owed.
 */

#include "tls/tls.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"

#define RECORD 16384		/* Bytes of the caller's in one. */

struct conn {
	struct weir_reactor *reactor;
	struct weir_stream *lower;
	struct weir_tls_context *ctx;
	struct tls_keys *keys;		/* Of the context when it began. */
	SSL *ssl;
	SSL_SESSION *session;		/* The newest. */

	struct weir_op in, out;		/* On the lower stream. */
	bool in_busy, out_busy;
	bool lower_ended, closing;
	int lower_err;

	struct weir_op *handshake, *recv, *send, *shut;
	void *buf;			/* Of recv. */
	size_t buf_len;
	const struct iovec *iov;	/* Of send. */
	uint32_t n, seg;
	size_t seg_off, done;
	size_t tried;			/* Of a record that did not fit; */
	size_t owed;			/* the same, and its write is gone. */
	bool established, said_end, flushed;
	bool covers;			/* The flush in flight: the end, too. */
	bool entered, again;		/* In go_on(), which calls the user's. */
	int failed;			/* An errno, for good. */
	char error[256];
};

static void go_on(struct conn *c);

/* ---- The BIO ---- */

static int bio_read(BIO *bio, char *buf, int len)
{
	struct conn *c = BIO_get_data(bio);
	const void *data;
	size_t n = weir_stream_peek(c->lower, &data);

	BIO_clear_retry_flags(bio);
	if (n > (size_t)len)
		n = (size_t)len;
	if (n) {
		memcpy(buf, data, n);
		return weir_stream_consume(c->lower, n) ? -1 : (int)n;
	}
	if (c->lower_ended)
		return 0;
	if (!c->lower_err)
		BIO_set_retry_read(bio);
	return -1;
}

/* As much as there is capacity for; a lower buffer may be less than a record. */
static int bio_write(BIO *bio, const char *buf, int len)
{
	struct conn *c = BIO_get_data(bio);
	size_t n = (size_t)len;
	int err;

	BIO_clear_retry_flags(bio);
	while ((err = weir_stream_put(c->lower, buf, n, 0)) == -EMSGSIZE)
		n = (n + 1) / 2;
	if (!err)
		return (int)n;
	if (err == -EAGAIN)
		BIO_set_retry_write(bio);
	else
		c->lower_err = err;
	return -1;
}

static long bio_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
	struct conn *c = BIO_get_data(bio);

	(void)num, (void)ptr;
	return cmd == BIO_CTRL_FLUSH ? 1 :
	       cmd == BIO_CTRL_EOF ? c->lower_ended : 0;
}

static BIO_METHOD *method;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_method(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() |
				     BIO_TYPE_SOURCE_SINK, "weir stream");

	if (!m)
		return;
	BIO_meth_set_read(m, bio_read);
	BIO_meth_set_write(m, bio_write);
	BIO_meth_set_ctrl(m, bio_ctrl);
	method = m;
}

/* ---- The connection ---- */

static void finish(struct weir_op **op, int64_t res)
{
	struct weir_op *ended = *op;

	*op = NULL;
	if (ended)
		weir_op_finish(ended, res);
}

/* End the write with what was sent, or @err.  A record that is on its way counts
 * as sent. */
static void leave_send(struct conn *c, int err)
{
	size_t sent = c->done + c->tried;

	c->owed += c->tried;	/* One of them is 0. */
	c->done = c->tried = 0;
	finish(&c->send, sent ? (int64_t)sent : err);
}

/* End all that waits, with @err, which is no end of the connection. */
static void cannot_wait(struct conn *c, int err)
{
	finish(&c->handshake, err);
	finish(&c->recv, err);
	leave_send(c, err);
	finish(&c->shut, err);
}

static void fail(struct conn *c, int err)
{
	c->failed = err;
	finish(&c->send, err);
	cannot_wait(c, err);
}

/* What OpenSSL has failed with; its words are kept. */
static int errno_of(struct conn *c)
{
	unsigned long code = ERR_peek_last_error();
	const char *text = ERR_reason_error_string(code);
	long verify = SSL_get_verify_result(c->ssl);
	bool of_cert = ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED;

	if (c->lower_err)
		return c->lower_err;
	snprintf(c->error, sizeof(c->error), "%s%s%s",
		 text ? text : "the peer has ended the connection",
		 of_cert ? ": " : "",
		 of_cert ? X509_verify_cert_error_string(verify) : "");
	if (of_cert)
		return verify == X509_V_ERR_CERT_HAS_EXPIRED ? -EKEYEXPIRED :
							       -EKEYREJECTED;
	if (c->lower_ended && (!code || ERR_GET_REASON(code) ==
			       SSL_R_UNEXPECTED_EOF_WHILE_READING))
		return -ECONNABORTED;
	return -EPROTO;
}

static void await(struct conn *c, int want)
{
	int err = 0;

	if (want == SSL_ERROR_WANT_READ && !c->in_busy) {
		c->in_busy = true;
		err = weir_stream_read(c->lower, &c->in, NULL, 0);
		c->in_busy = !err;
	} else if (want == SSL_ERROR_WANT_WRITE && !c->out_busy) {
		c->out_busy = true;
		c->covers = c->said_end;
		err = weir_stream_flush(c->lower, &c->out);
		c->out_busy = !err;
	}
	if (err)
		cannot_wait(c, err);
}

/* A call of OpenSSL's has returned @ret, which is no success.  Returns false if
 * the connection has failed. */
static bool must_wait(struct conn *c, int ret)
{
	int want = SSL_get_error(c->ssl, ret);

	if (want == SSL_ERROR_WANT_READ || want == SSL_ERROR_WANT_WRITE) {
		await(c, want);
		return true;
	}
	fail(c, errno_of(c));
	return false;
}

static bool has_handshake(struct conn *c)
{
	int ret;

	if (!c->established) {
		ERR_clear_error();
		ret = SSL_do_handshake(c->ssl);
		if (ret != 1) {
			must_wait(c, ret);
			return false;
		}
		c->established = true;
	}
	finish(&c->handshake, 0);
	return true;
}

static void try_recv(struct conn *c)
{
	size_t n;
	int ret;

	ERR_clear_error();
	ret = SSL_read_ex(c->ssl, c->buf, c->buf_len, &n);
	if (ret == 1)
		finish(&c->recv, (int64_t)n);
	else if (SSL_get_error(c->ssl, ret) == SSL_ERROR_ZERO_RETURN)
		finish(&c->recv, 0);
	else
		must_wait(c, ret);
}

/* A record that was encrypted for a write that is gone. */
static bool try_owed(struct conn *c)
{
	static const char zeros[RECORD];
	size_t n;
	int ret;

	if (!c->owed)
		return true;
	ERR_clear_error();
	ret = SSL_write_ex(c->ssl, zeros, c->owed, &n);
	if (ret != 1) {
		must_wait(c, ret);
		return false;
	}
	c->owed = 0;
	return true;
}

static void try_send(struct conn *c)
{
	const struct iovec *v;
	size_t len, n;
	int ret;

	while (c->send) {
		while (c->seg < c->n && c->iov[c->seg].iov_len == c->seg_off) {
			c->seg++;
			c->seg_off = 0;
		}
		if (c->seg == c->n) {
			finish(&c->send, (int64_t)c->done);
			return;
		}
		v = &c->iov[c->seg];
		len = v->iov_len - c->seg_off;
		len = len < RECORD ? len : RECORD;
		ERR_clear_error();
		ret = SSL_write_ex(c->ssl, (const char *)v->iov_base +
				   c->seg_off, len, &n);
		c->tried = ret == 1 ? 0 : len;
		if (ret != 1) {
			must_wait(c, ret);
			return;
		}
		c->seg_off += n;
		c->done += n;
	}
}

static void try_shut(struct conn *c)
{
	int ret;

	if (!c->said_end) {
		ERR_clear_error();
		ret = SSL_shutdown(c->ssl);
		if (ret < 0) {
			must_wait(c, ret);
			return;
		}
		c->said_end = true;
	}
	if (c->flushed)
		finish(&c->shut, 0);
	else if (c->lower_err)
		fail(c, c->lower_err);
	else
		await(c, SSL_ERROR_WANT_WRITE);
}

static void go_once(struct conn *c)
{
	if (c->closing ||
	    !(c->handshake || c->recv || c->send || c->shut || c->owed))
		return;
	if (c->failed) {
		fail(c, c->failed);
		return;
	}
	if (!has_handshake(c))
		return;
	if (c->recv)
		try_recv(c);
	if ((c->send || c->shut || c->owed) && !c->failed && try_owed(c)) {
		if (c->send)
			try_send(c);
		if (c->shut && !c->send && !c->failed)
			try_shut(c);
	}
}

/* OpenSSL removes the session of a connection without close_notify; a program may
 * close one for other reasons. */
static void conn_free(struct conn *c)
{
	if (c->ssl && !c->failed)
		SSL_set_shutdown(c->ssl, SSL_SENT_SHUTDOWN |
				 SSL_RECEIVED_SHUTDOWN);
	SSL_free(c->ssl);
	SSL_SESSION_free(c->session);
	tls_keys_put(c->keys);
	weir_tls_context_destroy(c->ctx);
	free(c);
}

static void free_if_idle(struct conn *c)
{
	if (c->closing && !c->in_busy && !c->out_busy && !c->entered)
		conn_free(c);
}

/* The functions that choose a name or a protocol may start operations on the
 * stream, or close it: then OpenSSL is left first. */
static void go_on(struct conn *c)
{
	c->again = true;
	if (c->entered)
		return;
	c->entered = true;
	while (c->again) {
		c->again = false;
		go_once(c);
	}
	c->entered = false;
	free_if_idle(c);
}

static void lower_ended(struct conn *c, int64_t res)
{
	if (c->closing) {
		free_if_idle(c);
		return;
	}
	if (res == -ECANCELED || res == -EAGAIN || res == -ESHUTDOWN) {
		cannot_wait(c, (int)res);
		return;
	}
	if (res < 0)
		c->lower_err = (int)res;
	go_on(c);
}

static void on_in(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, in);

	c->in_busy = false;
	c->lower_ended |= res == 0;
	lower_ended(c, res);
}

static void on_out(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, out);

	c->out_busy = false;
	c->flushed = c->covers && res >= 0;
	lower_ended(c, res);
}

/* ---- The transport ---- */

static void cancel_recv(struct weir_op *op, void *arg)
{
	struct conn *c = arg;

	(void)op;
	finish(&c->recv, -ECANCELED);
}

static int tls_recv(void *arg, struct weir_op *op, void *buf, size_t len)
{
	struct conn *c = arg;
	int err = weir_op_start(c->reactor, op, cancel_recv, c);

	if (err)
		return err;
	c->recv = op;
	c->buf = buf;
	c->buf_len = len;
	go_on(c);
	return 0;
}

static void cancel_send(struct weir_op *op, void *arg)
{
	(void)op;
	leave_send(arg, -ECANCELED);
}

static int tls_send(void *arg, struct weir_op *op, const struct iovec *iov,
		    uint32_t n, uint32_t flags)
{
	struct conn *c = arg;
	int err = weir_op_start(c->reactor, op, cancel_send, c);

	(void)flags;
	if (err)
		return err;
	c->send = op;
	c->iov = iov;
	c->n = n;
	c->seg = 0;
	c->seg_off = c->done = c->tried = 0;
	go_on(c);
	return 0;
}

static void cancel_shut(struct weir_op *op, void *arg)
{
	struct conn *c = arg;

	(void)op;
	finish(&c->shut, -ECANCELED);
}

static int tls_shutdown(void *arg, struct weir_op *op)
{
	struct conn *c = arg;
	int err = weir_op_start(c->reactor, op, cancel_shut, c);

	if (err)
		return err;
	c->shut = op;
	go_on(c);
	return 0;
}

/* What waits on the lower stream ends by its close, before @op. */
static int tls_close(void *arg, struct weir_op *op)
{
	struct conn *c = arg;
	int err;

	c->closing = true;
	finish(&c->handshake, -ECANCELED);
	err = weir_stream_close(c->lower, op);
	free_if_idle(c);
	return err;
}

static const struct weir_stream_ops tls_ops = {
	.size = sizeof(tls_ops),
	.name = "tls",
	.recv = tls_recv,
	.send = tls_send,
	.shutdown = tls_shutdown,
	.close = tls_close,
};

/* ---- For the user ---- */

static struct conn *conn_of(const struct weir_stream *s)
{
	return weir_stream_transport(s, &tls_ops);
}

int tls_new_session(SSL *ssl, SSL_SESSION *session)
{
	struct conn *c = SSL_get_app_data(ssl);

	SSL_SESSION_free(c->session);
	c->session = session;
	return 1;
}

const struct tls_keys *tls_keys_of(SSL *ssl, const char **name)
{
	struct conn *c = SSL_get_app_data(ssl);

	if (name)
		*name = c->ctx->psk_name;
	return c->keys;
}

/* Neither SNI nor certificates have the dot at the end of an absolute name. */
static int set_host(SSL *ssl, const char *host)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
	char name[TLSEXT_MAXLEN_host_name + 1];
	size_t len = strlen(host);

	if (X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1)
		return 0;
	X509_VERIFY_PARAM_set_hostflags(param,
					X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	len -= len && host[len - 1] == '.';
	if (len && len < sizeof(name)) {
		memcpy(name, host, len);
		name[len] = 0;
	}
	if (!len || len >= sizeof(name) || SSL_set1_host(ssl, name) != 1 ||
	    SSL_set_tlsext_host_name(ssl, name) != 1)
		return why(-EINVAL, "weir_tls_stream_create: .host is no name, "
			   "or too long");
	return 0;
}

static int prepare(struct conn *c, const struct weir_tls_stream_opts *o)
{
	SSL_CTX *use = tls_context_use(c->ctx, &c->keys);
	BIO *bio = method ? BIO_new(method) : NULL;

	c->ssl = SSL_new(use);
	SSL_CTX_free(use);
	if (!c->ssl || !bio) {
		BIO_free(bio);
		return why(-ENOMEM, "weir_tls_stream_create: no memory");
	}
	BIO_set_data(bio, c);
	BIO_set_init(bio, 1);
	SSL_set_bio(c->ssl, bio, bio);
	SSL_set_app_data(c->ssl, c);
	if (c->ctx->opts.flags & WEIR_TLS_SERVER) {
		SSL_set_accept_state(c->ssl);
		return 0;
	}
	SSL_set_connect_state(c->ssl);
	if (o->session)
		SSL_set_session(c->ssl, (SSL_SESSION *)(uintptr_t)o->session);
	return o->host ? set_host(c->ssl, o->host) : 0;
}

int weir_tls_stream_create(struct weir_stream **ret, struct weir_reactor *r,
			   struct weir_stream *lower,
			   struct weir_tls_context *ctx,
			   const struct weir_tls_stream_opts *user)
{
	struct weir_tls_stream_opts o;
	struct conn *c;
	int err = opts_load(&o, sizeof(o), user, "weir_tls_stream_create");

	if (err)
		return err;
	pthread_once(&once, make_method);
	c = mem_calloc(1, sizeof(*c));
	if (!c)
		return why(-ENOMEM, "weir_tls_stream_create: no memory");
	c->reactor = r;
	c->lower = lower;
	c->ctx = ctx;
	tls_context_ref(ctx);
	weir_op_init(&c->in, on_in);
	weir_op_init(&c->out, on_out);
	err = prepare(c, &o);
	if (!err)
		err = weir_stream_create(ret, r, &tls_ops, c, o.stream);
	if (err)
		conn_free(c);
	return err;
}

static void cancel_handshake(struct weir_op *op, void *arg)
{
	struct conn *c = arg;

	(void)op;
	finish(&c->handshake, -ECANCELED);
}

int weir_tls_handshake(struct weir_stream *s, struct weir_op *op)
{
	struct conn *c = conn_of(s);
	int err;

	if (!c)
		return why(-EINVAL, "weir_tls_handshake: the stream is "
				  "none of weir_tls_stream_create()");
	if (c->handshake)
		return why(-EBUSY, "weir_tls_handshake: a handshake is "
				  "in flight");
	err = weir_op_start(c->reactor, op, cancel_handshake, c);
	if (err)
		return err;
	c->handshake = op;
	go_on(c);
	return 0;
}

static int64_t seconds(const ASN1_TIME *time)
{
	ASN1_TIME *zero = ASN1_TIME_set(NULL, 0);
	int days = 0, secs = 0;

	ASN1_TIME_diff(&days, &secs, zero, time);
	ASN1_TIME_free(zero);
	return (int64_t)days * 86400 + secs;
}

static void tell_cert(struct weir_tls_info *info, X509 *cert)
{
	unsigned int len = sizeof(info->sha256);

	X509_NAME_oneline(X509_get_subject_name(cert), info->subject,
			  sizeof(info->subject));
	X509_NAME_oneline(X509_get_issuer_name(cert), info->issuer,
			  sizeof(info->issuer));
	info->not_before = seconds(X509_get0_notBefore(cert));
	info->not_after = seconds(X509_get0_notAfter(cert));
	X509_digest(cert, EVP_sha256(), info->sha256, &len);
}

int weir_tls_info(const struct weir_stream *s, struct weir_tls_info *ret)
{
	struct conn *c = conn_of(s);
	struct weir_tls_info info = { 0 };
	const unsigned char *alpn;
	unsigned int alpn_len;
	const char *name;

	if (!c)
		return why(-EINVAL, "weir_tls_info: the stream is none of "
			   "weir_tls_stream_create()");
	if (c->established) {
		info.version = (uint32_t)SSL_version(c->ssl);
		info.resumed = (uint32_t)SSL_session_reused(c->ssl);
		snprintf(info.cipher, sizeof(info.cipher), "%s",
			 SSL_get_cipher_name(c->ssl));
		SSL_get0_alpn_selected(c->ssl, &alpn, &alpn_len);
		snprintf(info.alpn, sizeof(info.alpn), "%.*s", (int)alpn_len,
			 alpn ? (const char *)alpn : "");
		name = SSL_get_servername(c->ssl, TLSEXT_NAMETYPE_host_name);
		snprintf(info.server_name, sizeof(info.server_name), "%s",
			 name ? name : "");
		if (SSL_get0_peer_certificate(c->ssl))
			tell_cert(&info, SSL_get0_peer_certificate(c->ssl));
	}
	return opts_give(ret, &info, sizeof(info), "weir_tls_info");
}

const char *weir_tls_error(const struct weir_stream *s)
{
	struct conn *c = conn_of(s);

	return c ? c->error : "";
}

int weir_tls_session_take(struct weir_stream *s, struct weir_tls_session **ret)
{
	struct conn *c = conn_of(s);

	if (!c)
		return why(-EINVAL, "weir_tls_session_take: the stream is none "
			   "of weir_tls_stream_create()");
	if (!c->session)
		return why(-EAGAIN, "weir_tls_session_take: the server "
				  "has sent no session yet");
	*ret = (struct weir_tls_session *)c->session;
	c->session = NULL;
	return 0;
}

void weir_tls_session_free(struct weir_tls_session *session)
{
	SSL_SESSION_free((SSL_SESSION *)session);
}
