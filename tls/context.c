/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts: an SSL_CTX, which a reload replaces by another one, and what its
 * callbacks need.  Connections keep a reference of both.
 */

#include "tls/tls.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"

#define CALL "weir_tls_context_create"
#define KNOWN (WEIR_TLS_SERVER | WEIR_TLS_NO_VERIFY | WEIR_TLS_ASK_CERT | \
	       WEIR_TLS_NEED_CERT)
#define TICKET_KEYS 80		/* Bytes, as OpenSSL has them. */

static const char *reason(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_last_error());

	return text ? text : "no reason";
}

/*
 * OpenSSL takes whom it trusts from @other, too, but not whether it asks clients
 * for a certificate: both stay those of the connection.  It calls twice in a
 * handshake with a second hello.
 */
static void change_certificate(SSL *ssl, struct weir_tls_context *other)
{
	SSL_CTX *use = tls_context_use(other, NULL);
	STACK_OF(X509_NAME) *names = SSL_get_client_CA_list(ssl);
	X509_STORE *trusted = NULL;

	SSL_get0_verify_cert_store(ssl, &trusted);
	if (!trusted)
		trusted = SSL_CTX_get_cert_store(SSL_get_SSL_CTX(ssl));
	X509_STORE_up_ref(trusted);
	names = names ? SSL_dup_CA_list(names) : sk_X509_NAME_new_null();
	SSL_set_SSL_CTX(ssl, use);
	SSL_set0_verify_cert_store(ssl, trusted);
	SSL_set_client_CA_list(ssl, names);
	SSL_CTX_free(use);
}

static int choose_name(SSL *ssl, int *alert, void *arg)
{
	struct weir_tls_context *ctx = arg, *other = NULL;
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

	if (!name)
		return SSL_TLSEXT_ERR_NOACK;
	if (ctx->opts.choose_name(ctx->opts.arg, name, &other) < 0) {
		*alert = SSL_AD_UNRECOGNIZED_NAME;
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	}
	if (other)
		change_certificate(ssl, other);
	return SSL_TLSEXT_ERR_OK;
}

static int choose_alpn(SSL *ssl, const unsigned char **ret,
		       unsigned char *ret_len, const unsigned char *offer,
		       unsigned int len, void *arg)
{
	struct weir_tls_context *ctx = arg;
	unsigned int at;
	char name[256];

	(void)ssl;
	if (!ctx->opts.choose_alpn)
		return SSL_select_next_proto((unsigned char **)(uintptr_t)ret,
					     ret_len, ctx->alpn, ctx->alpn_len,
					     offer, len) ==
				       OPENSSL_NPN_NEGOTIATED ?
			       SSL_TLSEXT_ERR_OK :
			       SSL_TLSEXT_ERR_ALERT_FATAL;
	/* OpenSSL has checked the lengths. */
	for (at = 0; at < len; at += 1u + offer[at]) {
		memcpy(name, offer + at + 1, offer[at]);
		name[offer[at]] = 0;
		if (ctx->opts.choose_alpn(ctx->opts.arg, name) != 1)
			continue;
		*ret = offer + at + 1;
		*ret_len = offer[at];
		return SSL_TLSEXT_ERR_OK;
	}
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* "h2,http/1.1" as ALPN has it: each after its length. */
static int load_alpn(struct weir_tls_context *ctx, const char *list)
{
	size_t n;

	while (list) {
		n = strcspn(list, ",");
		if (!n || n > 63 || ctx->alpn_len + n + 1 > sizeof(ctx->alpn))
			return why(-EINVAL, CALL ": .alpn has a name that is "
				   "empty or too long");
		ctx->alpn[ctx->alpn_len++] = (unsigned char)n;
		memcpy(ctx->alpn + ctx->alpn_len, list, n);
		ctx->alpn_len += (unsigned int)n;
		list = list[n] ? list + n + 1 : NULL;
	}
	return 0;
}

static int load_pair(const struct weir_tls_context *ctx, SSL_CTX *use,
		     const char *call)
{
	const char *key = ctx->key_file ? ctx->key_file : ctx->cert_file;

	if (!ctx->cert_file)
		return 0;
	if (access(ctx->cert_file, R_OK) || access(key, R_OK))
		return why(-ENOENT, "%s: cannot read %s or %s", call,
			   ctx->cert_file, key);
	ERR_clear_error();
	if (SSL_CTX_use_certificate_chain_file(use, ctx->cert_file) != 1 ||
	    SSL_CTX_use_PrivateKey_file(use, key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(use) != 1)
		return why(-EKEYREJECTED, "%s: %s and %s are no certificate and "
			   "its key: %s", call, ctx->cert_file, key, reason());
	return 0;
}

static int load_trust(const struct weir_tls_context *ctx, SSL_CTX *use)
{
	const char *file = ctx->ca_file, *dir = ctx->ca_dir;

	if (!file && !dir) {
		SSL_CTX_set_default_verify_paths(use);
		return 0;
	}
	if ((file && access(file, R_OK)) || (dir && access(dir, R_OK)))
		return why(-ENOENT, CALL ": cannot read %s",
			   file && access(file, R_OK) ? file : dir);
	ERR_clear_error();
	if (SSL_CTX_load_verify_locations(use, file, dir) != 1)
		return why(-EKEYREJECTED, CALL ": %s has no certificates: %s",
			   file ? file : dir, reason());
	if (file && ctx->opts.flags & WEIR_TLS_SERVER)
		SSL_CTX_set_client_CA_list(use, SSL_load_client_CA_file(file));
	return 0;
}

static int verify_mode(uint32_t flags)
{
	if (!(flags & WEIR_TLS_SERVER))
		return flags & WEIR_TLS_NO_VERIFY ? SSL_VERIFY_NONE :
						    SSL_VERIFY_PEER;
	if (flags & WEIR_TLS_NEED_CERT)
		return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
	return flags & WEIR_TLS_ASK_CERT ? SSL_VERIFY_PEER : SSL_VERIFY_NONE;
}

static void set_callbacks(struct weir_tls_context *ctx, SSL_CTX *use)
{
	if (!(ctx->opts.flags & WEIR_TLS_SERVER)) {
		SSL_CTX_set_alpn_protos(use, ctx->alpn, ctx->alpn_len);
		SSL_CTX_set_session_cache_mode(use, SSL_SESS_CACHE_CLIENT |
					       SSL_SESS_CACHE_NO_INTERNAL);
		SSL_CTX_sess_set_new_cb(use, tls_new_session);
		return;
	}
	if (ctx->alpn_len || ctx->opts.choose_alpn)
		SSL_CTX_set_alpn_select_cb(use, choose_alpn, ctx);
	if (ctx->opts.choose_name) {
		SSL_CTX_set_tlsext_servername_callback(use, choose_name);
		SSL_CTX_set_tlsext_servername_arg(use, ctx);
	}
	/* Sessions are in tickets, which need no memory here. */
	SSL_CTX_set_session_id_context(use, (const unsigned char *)"weir", 4);
	SSL_CTX_set_session_cache_mode(use, SSL_SESS_CACHE_OFF);
}

static int load(struct weir_tls_context *ctx, SSL_CTX *use,
		struct tls_keys **keys, const char *call)
{
	const struct weir_tls_opts *o = &ctx->opts;
	int err;

	SSL_CTX_set_options(use, SSL_OP_NO_RENEGOTIATION |
			    SSL_OP_NO_COMPRESSION |
			    SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_mode(use, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
			 SSL_MODE_ENABLE_PARTIAL_WRITE |
			 SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_verify(use, verify_mode(o->flags), NULL);
	set_callbacks(ctx, use);
	if (SSL_CTX_set_min_proto_version(use, o->min_version ? o->min_version :
					  WEIR_TLS_1_2) != 1 ||
	    SSL_CTX_set_max_proto_version(use, o->max_version) != 1)
		return why(-EINVAL, "%s: OpenSSL has not these versions", call);
	if ((ctx->ciphers && SSL_CTX_set_cipher_list(use, ctx->ciphers) != 1) ||
	    (ctx->suites && SSL_CTX_set_ciphersuites(use, ctx->suites) != 1))
		return why(-EINVAL, "%s: there are no such ciphers", call);
	err = load_pair(ctx, use, call);
	if (err || !ctx->psk_file)
		return err;
	tls_keys_use(use, o->flags & WEIR_TLS_SERVER, ctx->ciphers,
		     ctx->suites);
	return tls_keys_load(keys, ctx->psk_file, ctx->psk_name, call);
}

static SSL_CTX *new_ctx(const struct weir_tls_context *ctx)
{
	return SSL_CTX_new(ctx->opts.flags & WEIR_TLS_SERVER ?
			   TLS_server_method() : TLS_client_method());
}

static int check(const struct weir_tls_opts *o)
{
	if (o->flags & ~KNOWN)
		return why(-EINVAL, CALL ": unknown flags");
	if (o->flags & WEIR_TLS_SERVER && !o->cert_file && !o->psk_file)
		return why(-EINVAL, CALL ": a server needs .cert_file or "
			   ".psk_file");
	if (o->flags & WEIR_TLS_SERVER ? o->psk_name != NULL :
					 !o->psk_file != !o->psk_name)
		return why(-EINVAL, CALL ": a client needs .psk_name with "
			   ".psk_file, and a server has none");
	if ((o->min_version && (o->min_version < WEIR_TLS_1_2 ||
				o->min_version > WEIR_TLS_1_3)) ||
	    (o->max_version && (o->max_version < WEIR_TLS_1_2 ||
				o->max_version > WEIR_TLS_1_3)) ||
	    (o->max_version && o->min_version > o->max_version))
		return why(-EINVAL, CALL ": versions are WEIR_TLS_1_2 and "
			   "WEIR_TLS_1_3, the lower one first");
	return 0;
}

static int copy(char **ret, const char *text)
{
	*ret = text ? strdup(text) : NULL;
	return text && !*ret ? -ENOMEM : 0;
}

static int keep(struct weir_tls_context *ctx, const struct weir_tls_opts *o)
{
	if (copy(&ctx->cert_file, o->cert_file) ||
	    copy(&ctx->key_file, o->key_file) ||
	    copy(&ctx->ca_file, o->ca_file) || copy(&ctx->ca_dir, o->ca_dir) ||
	    copy(&ctx->ciphers, o->ciphers) ||
	    copy(&ctx->suites, o->ciphersuites) ||
	    copy(&ctx->psk_file, o->psk_file) ||
	    copy(&ctx->psk_name, o->psk_name))
		return why(-ENOMEM, CALL ": no memory");
	return load_alpn(ctx, o->alpn);
}

int weir_tls_context_create(struct weir_tls_context **ret,
			    const struct weir_tls_opts *user)
{
	struct weir_tls_context *ctx;
	struct weir_tls_opts o;
	int err = user ? opts_load(&o, sizeof(o), user, CALL) :
			 why(-EINVAL, CALL ": no options");

	if (!err)
		err = check(&o);
	if (err)
		return err;
	ctx = mem_calloc(1, sizeof(*ctx));
	if (!ctx)
		return why(-ENOMEM, CALL ": no memory");
	atomic_init(&ctx->refs, 1);
	pthread_mutex_init(&ctx->lock, NULL);
	ctx->opts = o;
	ctx->use = new_ctx(ctx);
	err = ctx->use ? keep(ctx, &o) : why(-ENOMEM, CALL ": no memory");
	if (!err)
		err = load(ctx, ctx->use, &ctx->keys, CALL);
	if (!err)
		err = load_trust(ctx, ctx->use);
	if (err)
		weir_tls_context_destroy(ctx);
	else
		*ret = ctx;
	return err;
}

/* The keys of tickets and the certificates that are trusted stay. */
int weir_tls_context_reload(struct weir_tls_context *ctx)
{
	SSL_CTX *fresh = new_ctx(ctx), *old, *replaced;
	struct tls_keys *keys = NULL, *replaced_keys;
	unsigned char ticket_keys[TICKET_KEYS];
	int err;

	if (!fresh)
		return why(-ENOMEM, "weir_tls_context_reload: no memory");
	err = load(ctx, fresh, &keys, "weir_tls_context_reload");
	if (err) {
		SSL_CTX_free(fresh);
		return err;
	}
	old = tls_context_use(ctx, NULL);
	X509_STORE_up_ref(SSL_CTX_get_cert_store(old));
	SSL_CTX_set_cert_store(fresh, SSL_CTX_get_cert_store(old));
	if (ctx->ca_file && ctx->opts.flags & WEIR_TLS_SERVER)
		SSL_CTX_set_client_CA_list(fresh, SSL_dup_CA_list(
				SSL_CTX_get_client_CA_list(old)));
	if (SSL_CTX_get_tlsext_ticket_keys(old, ticket_keys,
					   sizeof(ticket_keys)) == 1)
		SSL_CTX_set_tlsext_ticket_keys(fresh, ticket_keys,
					       sizeof(ticket_keys));
	pthread_mutex_lock(&ctx->lock);
	replaced = ctx->use;
	replaced_keys = ctx->keys;
	ctx->use = fresh;
	ctx->keys = keys;
	pthread_mutex_unlock(&ctx->lock);
	tls_keys_put(replaced_keys);
	SSL_CTX_free(replaced);
	SSL_CTX_free(old);
	return 0;
}

SSL_CTX *tls_context_use(struct weir_tls_context *ctx, struct tls_keys **keys)
{
	SSL_CTX *use;

	pthread_mutex_lock(&ctx->lock);
	use = ctx->use;
	SSL_CTX_up_ref(use);
	if (keys)
		*keys = tls_keys_get(ctx->keys);
	pthread_mutex_unlock(&ctx->lock);
	return use;
}

void tls_context_ref(struct weir_tls_context *ctx)
{
	atomic_fetch_add(&ctx->refs, 1);
}

void weir_tls_context_destroy(struct weir_tls_context *ctx)
{
	if (!ctx || atomic_fetch_sub(&ctx->refs, 1) != 1)
		return;
	SSL_CTX_free(ctx->use);
	tls_keys_put(ctx->keys);
	pthread_mutex_destroy(&ctx->lock);
	free(ctx->cert_file);
	free(ctx->key_file);
	free(ctx->ca_file);
	free(ctx->ca_dir);
	free(ctx->ciphers);
	free(ctx->suites);
	free(ctx->psk_file);
	free(ctx->psk_name);
	free(ctx);
}
