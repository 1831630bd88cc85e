/* SPDX-License-Identifier: CC0-1.0 */
/* A TLS server on loopback, for 31-tls-client.c: it answers the first message in
 * capitals and waits for the end.  Its certificate is its own, which the client
 * trusts. */
#ifndef EXAMPLES_TLS_SERVER_H
#define EXAMPLES_TLS_SERVER_H

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

struct tls_server {
	SSL_CTX *ctx;
	X509 *cert;
	EVP_PKEY *key;
	pthread_t thread;
	int fd;
};

/* For "localhost", for an hour. */
static int tls_make_cert(struct tls_server *s)
{
	X509_NAME *name;

	s->key = EVP_EC_gen("P-256");
	s->cert = X509_new();
	if (!s->key || !s->cert)
		return -1;
	X509_set_version(s->cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(s->cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(s->cert), -3600);
	X509_gmtime_adj(X509_getm_notAfter(s->cert), 3600);
	X509_set_pubkey(s->cert, s->key);
	name = X509_get_subject_name(s->cert);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
				   (const unsigned char *)"localhost", -1, -1,
				   0);
	X509_set_issuer_name(s->cert, name);
	return X509_sign(s->cert, s->key, EVP_sha256()) ? 0 : -1;
}

static void *tls_serve(void *arg)
{
	struct tls_server *s = arg;
	SSL *ssl = SSL_new(s->ctx);
	int fd = accept(s->fd, NULL, NULL), n;
	char buf[64];

	SSL_set_fd(ssl, fd);
	if (SSL_accept(ssl) > 0) {
		n = SSL_read(ssl, buf, sizeof(buf));
		for (int i = 0; i < n; i++)
			buf[i] = (char)toupper((unsigned char)buf[i]);
		if (n > 0)
			SSL_write(ssl, buf, n);
		SSL_read(ssl, buf, sizeof(buf));
	}
	SSL_free(ssl);
	close(fd);
	return NULL;
}

static int tls_server_start(struct tls_server *s, struct sockaddr_in *addr)
{
	socklen_t len = sizeof(*addr);

	/* OpenSSL writes to sockets by write(2). */
	signal(SIGPIPE, SIG_IGN);
	s->ctx = SSL_CTX_new(TLS_server_method());
	if (!s->ctx || tls_make_cert(s) ||
	    SSL_CTX_use_certificate(s->ctx, s->cert) != 1 ||
	    SSL_CTX_use_PrivateKey(s->ctx, s->key) != 1)
		return -1;
	*addr = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->fd < 0 || bind(s->fd, (struct sockaddr *)addr, len) ||
	    listen(s->fd, 1) ||
	    getsockname(s->fd, (struct sockaddr *)addr, &len))
		return -1;
	return pthread_create(&s->thread, NULL, tls_serve, s) ? -1 : 0;
}

static void tls_server_stop(struct tls_server *s)
{
	pthread_join(s->thread, NULL);
	close(s->fd);
	SSL_CTX_free(s->ctx);
	X509_free(s->cert);
	EVP_PKEY_free(s->key);
}

/* A client's side, over a socket that does not block. */
static SSL *tls_client_new(const struct tls_server *s)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl;

	if (!ctx)
		return NULL;
	X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), s->cert);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	ssl = SSL_new(ctx);
	SSL_CTX_free(ctx); /* The connection keeps it. */
	if (!ssl || SSL_set1_host(ssl, "localhost") != 1 ||
	    SSL_set_fd(ssl, socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK |
				   SOCK_CLOEXEC, 0)) != 1)
		return NULL;
	return ssl;
}

static void tls_client_free(SSL *ssl)
{
	int fd = SSL_get_fd(ssl);

	SSL_shutdown(ssl);
	SSL_free(ssl);
	close(fd);
}

#endif /* EXAMPLES_TLS_SERVER_H */
