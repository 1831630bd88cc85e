/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_TLS_FIXTURE_H
#define TESTS_TLS_FIXTURE_H

/*
 * For tests of TLS: certificates, in files of a directory that tls_end() removes.
 *
 *	ca.pem			trusted by all
 *	NAME.pem		certificate and key, by that CA
 */

#include "tests/support/harness.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

static char tls_dir[] = "./test-tls.XXXXXX";
static EVP_PKEY *tls_ca_key;
static X509 *tls_ca;

/* A path in the directory; good until 63 others were made. */
static inline const char *tls_path(const char *name)
{
	static char paths[64][128];
	static unsigned int n;
	char *path = paths[n++ % 64];

	snprintf(path, sizeof(paths[0]), "%s/%s", tls_dir, name);
	return path;
}

static inline void tls_extend(X509 *cert, int nid, const char *value)
{
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	assert_non_null(e);
	assert_int_equal(X509_add_ext(cert, e, -1), 1);
	X509_EXTENSION_free(e);
}

/* A certificate for @host, valid until @until seconds from now. */
static inline X509 *tls_cert(EVP_PKEY *key, const char *host, long until)
{
	static long serial = 1;
	X509 *cert = X509_new();
	X509_NAME *name = X509_get_subject_name(cert);
	char alt[128];

	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
	X509_gmtime_adj(X509_getm_notBefore(cert), -7200);
	X509_gmtime_adj(X509_getm_notAfter(cert), until);
	X509_set_pubkey(cert, key);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
				   (const unsigned char *)host, -1, -1, 0);
	X509_set_issuer_name(cert, tls_ca ? X509_get_subject_name(tls_ca) :
					    name);
	snprintf(alt, sizeof(alt), "DNS:%s,IP:127.0.0.1", host);
	if (tls_ca)
		tls_extend(cert, NID_subject_alt_name, alt);
	else
		tls_extend(cert, NID_basic_constraints, "critical,CA:TRUE");
	assert_true(X509_sign(cert, tls_ca ? tls_ca_key : key, EVP_sha256()) >
		    0);
	return cert;
}

static inline void tls_write(const char *file, X509 *cert, EVP_PKEY *key)
{
	FILE *f = fopen(tls_path(file), "w");

	assert_non_null(f);
	assert_int_equal(PEM_write_X509(f, cert), 1);
	if (key)
		assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0,
						      NULL, NULL), 1);
	assert_int_equal(fclose(f), 0);
}

static inline void tls_make(const char *file, EVP_PKEY *key, const char *host,
			    long until)
{
	X509 *cert = tls_cert(key, host, until);

	tls_write(file, cert, key);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static inline void tls_begin(void)
{
	assert_non_null(mkdtemp(tls_dir));
	tls_ca_key = EVP_EC_gen("P-256");
	tls_ca = tls_cert(tls_ca_key, "test CA", 86400);
	tls_write("ca.pem", tls_ca, NULL);
	tls_make("server.pem", EVP_EC_gen("P-256"), "server.test", 86400);
	tls_make("rsa.pem", EVP_RSA_gen(2048), "server.test", 86400);
	tls_make("other.pem", EVP_EC_gen("P-256"), "other.test", 86400);
	tls_make("expired.pem", EVP_EC_gen("P-256"), "server.test", -3600);
	tls_make("client.pem", EVP_EC_gen("P-256"), "client.test", 86400);
}

static inline void tls_end(void)
{
	static const char *const names[] = {
		"ca.pem", "server.pem", "rsa.pem", "other.pem", "expired.pem",
		"client.pem", "live.pem", "rubbish.pem", "keys.psk",
	};

	for (size_t i = 0; i < N_OF(names); i++)
		unlink(tls_path(names[i]));
	rmdir(tls_dir);
	X509_free(tls_ca);
	EVP_PKEY_free(tls_ca_key);
}

#endif /* TESTS_TLS_FIXTURE_H */
