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

struct tls_keys;

struct weir_tls_context {
	atomic_uint refs;		/* The caller's, and its streams'. */
	pthread_mutex_t lock;		/* Of .use and .keys. */
	SSL_CTX *use;			/* For the next connection. */
	struct tls_keys *keys;		/* For it, too; NULL: none. */
	struct weir_tls_opts opts;	/* Its text is the caller's: not valid. */
	char *cert_file, *key_file, *ca_file, *ca_dir, *ciphers, *suites;
	char *psk_file, *psk_name;
	unsigned char alpn[256];	/* As on the wire. */
	unsigned int alpn_len;
};

/* References of what @ctx uses at present; of its keys, if @keys is not NULL. */
SSL_CTX *tls_context_use(struct weir_tls_context *ctx, struct tls_keys **keys);

/* One more, that weir_tls_context_destroy() ends. */
void tls_context_ref(struct weir_tls_context *ctx);

/* OpenSSL has a session of the connection @ssl. */
int tls_new_session(SSL *ssl, SSL_SESSION *session);

/* psk.c: the keys in the file @path, in which @name has one if it is not NULL.
 * Returns 0, -ENOENT, -EKEYREJECTED or -ENOMEM. */
int tls_keys_load(struct tls_keys **ret, const char *path, const char *name,
		  const char *call);
struct tls_keys *tls_keys_get(struct tls_keys *keys);
void tls_keys_put(struct tls_keys *keys);

/* Have connections by @use ask for them; @has_: the user has chosen those. */
void tls_keys_use(SSL_CTX *use, bool is_server, bool has_ciphers, bool has_suites);

/* stream.c: those of the connection @ssl, and whose of them it is. */
const struct tls_keys *tls_keys_of(SSL *ssl, const char **name);

#endif /* TLS_TLS_H */
