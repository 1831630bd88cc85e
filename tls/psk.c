/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys that both ends have (PSK), from a file in the format of psktool(1): lines
 * "NAME:KEY", the key in hexadecimal.  Connections keep those that they began with.
 */

#include "tls/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "base/alloc.h"
#include "base/why.h"

#define KEY_MIN 16u		/* Bytes: fewer can be guessed. */
#define KEY_MAX 256u
#define NAME_MAX_LEN 127u	/* OpenSSL allows no longer ones in TLS 1.2. */
#define LINE_BYTES (NAME_MAX_LEN + 1 + 2 * KEY_MAX + 2)

struct key {
	char name[NAME_MAX_LEN + 1];
	unsigned char bytes[KEY_MAX];
	unsigned int len;
};

struct tls_keys {
	atomic_uint refs;
	uint32_t n, max;
	struct key *keys;
};

static int digit(char c)
{
	static const char digits[] = "0123456789abcdefABCDEF";
	const char *at = c ? strchr(digits, c) : NULL;
	long i = at ? at - digits : -1;

	return (int)(i > 15 ? i - 6 : i);
}

/* Returns what is wrong with the line, or NULL. */
static const char *parse(struct key *key, const char *line)
{
	const char *hex = strchr(line, ':');

	if (!hex || hex == line)
		return "a line is NAME:KEY";
	if ((size_t)(hex - line) > NAME_MAX_LEN)
		return "a name has at most 127 bytes";
	memcpy(key->name, line, (size_t)(hex - line));
	for (hex++; digit(hex[0]) >= 0 && digit(hex[1]) >= 0; hex += 2) {
		if (key->len == KEY_MAX)
			return "a key has at most 256 bytes";
		key->bytes[key->len++] = (unsigned char)(digit(hex[0]) << 4 |
							 digit(hex[1]));
	}
	if (*hex)
		return "a key is an even number of hexadecimal digits";
	return key->len < KEY_MIN ? "a key has at least 16 bytes" : NULL;
}

static const struct key *find(const struct tls_keys *keys, const char *name)
{
	for (uint32_t i = 0; keys && name && i < keys->n; i++)
		if (!strcmp(keys->keys[i].name, name))
			return &keys->keys[i];
	return NULL;
}

static int add(struct tls_keys *keys, const char *line, const char **wrong)
{
	struct key key = { .len = 0 };

	*wrong = parse(&key, line);
	if (!*wrong && find(keys, key.name))
		*wrong = "the name is there twice";
	if (!*wrong && mem_grow(&keys->keys, sizeof(key), keys->n, &keys->max))
		return -ENOMEM;
	if (!*wrong)
		keys->keys[keys->n++] = key;
	OPENSSL_cleanse(&key, sizeof(key));
	return *wrong ? -EKEYREJECTED : 0;
}

static int read_lines(struct tls_keys *keys, FILE *f, const char *path,
		      const char *call)
{
	char line[LINE_BYTES];
	unsigned int at = 0;
	const char *wrong;
	int err = 0;

	while (!err && fgets(line, sizeof(line), f)) {
		size_t len = strcspn(line, "\r\n");

		at++;
		wrong = "the line is too long";
		if (!line[len] && !feof(f))
			err = -EKEYREJECTED;
		line[len] = 0;
		if (!err && len && *line != '#')
			err = add(keys, line, &wrong);
		if (err == -EKEYREJECTED)
			why(err, "%s: %s, line %u: %s", call, path, at, wrong);
	}
	OPENSSL_cleanse(line, sizeof(line));
	if (err == -ENOMEM)
		return why(err, "%s: no memory", call);
	if (!err && ferror(f))
		return why(-ENOENT, "%s: cannot read %s", call, path);
	if (!err && !keys->n)
		return why(-EKEYREJECTED, "%s: %s has no keys", call, path);
	return err;
}

int tls_keys_load(struct tls_keys **ret, const char *path, const char *name,
		  const char *call)
{
	struct tls_keys *keys = mem_calloc(1, sizeof(*keys));
	FILE *f;
	int err;

	if (!keys)
		return why(-ENOMEM, "%s: no memory", call);
	atomic_init(&keys->refs, 1);
	f = fopen(path, "re");
	if (f) {
		err = read_lines(keys, f, path, call);
		fclose(f);
	} else {
		err = why(-ENOENT, "%s: cannot read %s", call, path);
	}
	if (!err && name && !find(keys, name))
		err = why(-ENOENT, "%s: %s has no key of %s", call, path, name);
	if (err)
		tls_keys_put(keys);
	else
		*ret = keys;
	return err;
}

struct tls_keys *tls_keys_get(struct tls_keys *keys)
{
	if (keys)
		atomic_fetch_add(&keys->refs, 1);
	return keys;
}

void tls_keys_put(struct tls_keys *keys)
{
	if (!keys || atomic_fetch_sub(&keys->refs, 1) != 1)
		return;
	if (keys->keys)
		OPENSSL_cleanse(keys->keys, keys->n * sizeof(keys->keys[0]));
	free(keys->keys);
	free(keys);
}

/* ---- What OpenSSL calls ---- */

static unsigned int give(const struct key *key, unsigned char *ret,
			 unsigned int max)
{
	if (!key || key->len > max)
		return 0;
	memcpy(ret, key->bytes, key->len);
	return key->len;
}

/* A name that is unknown may be that of a session; if not, the client is asked to
 * believe a certificate. */
static unsigned int of_client(SSL *ssl, const char *name, unsigned char *ret,
			      unsigned int max)
{
	return give(find(tls_keys_of(ssl, NULL), name), ret, max);
}

static unsigned int of_server(SSL *ssl, const char *hint, char *name,
			      unsigned int name_max, unsigned char *ret,
			      unsigned int max)
{
	const char *own;
	const struct tls_keys *keys = tls_keys_of(ssl, &own);
	const struct key *key = find(keys, own);

	(void)hint;
	if (!key || strlen(own) >= name_max)
		return 0;
	strcpy(name, own);
	return give(key, ret, max);
}

/* The server takes its first cipher that the client has, too.  By suites with another
 * hash than SHA-256, OpenSSL does not take keys in TLS 1.3. */
void tls_keys_use(SSL_CTX *use, bool is_server, bool has_ciphers, bool has_suites)
{
	if (is_server)
		SSL_CTX_set_psk_server_callback(use, of_client);
	else
		SSL_CTX_set_psk_client_callback(use, of_server);
	if (!has_ciphers)
		SSL_CTX_set_cipher_list(use, "kECDHEPSK:kDHEPSK:DEFAULT:!eNULL");
	if (!has_suites)
		SSL_CTX_set_ciphersuites(use, "TLS_AES_128_GCM_SHA256:"
					 "TLS_CHACHA20_POLY1305_SHA256:"
					 "TLS_AES_256_GCM_SHA384");
}
