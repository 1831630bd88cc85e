/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TLS_TLS_H
#define TLS_TLS_H

/* What the files of libweir-tls share. */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <openssl/ssl.h>

#include <weir/tls/tls.h>

struct weir_tls_context {
	atomic_uint refs;		/* The caller's, and its streams'. */
	pthread_mutex_t lock;		/* Of .use. */
	SSL_CTX *use;			/* For the next connection. */
	struct weir_tls_opts opts;	/* Its text is the caller's: not valid. */
	char *cert_file, *key_file, *ca_file, *ca_dir, *ciphers, *suites;
	unsigned char alpn[256];	/* As on the wire. */
	unsigned int alpn_len;
};

/* A reference of what @ctx uses at present. */
SSL_CTX *tls_context_use(struct weir_tls_context *ctx);

/* One more, that weir_tls_context_destroy() ends. */
void tls_context_ref(struct weir_tls_context *ctx);

/* OpenSSL has a session of the connection @ssl. */
int tls_new_session(SSL *ssl, SSL_SESSION *session);

#endif /* TLS_TLS_H */
