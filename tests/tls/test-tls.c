/* SPDX-License-Identifier: BSD-3-Clause */

/* TLS as streams, as <weir/tls/tls.h> promises it: two ends in one process. */

#include "tests/support/harness.h"

#include <weir/socket.h>
#include <weir/tls/tls.h>

#include "tests/support/tls-fixture.h"

#include "tests/support/sim-calls.h"

static struct rec rec;

static int64_t result(struct weir_reactor *r, struct rec *of)
{
	UNTIL(r, of->calls);
	assert_int_equal(of->calls, 1);
	return of->res;
}

#define RUN(r, call)             \
	({                       \
		rec_init(&rec);  \
		STARTS(call);    \
		result(r, &rec); \
	})

/* A client and a server, and the handshake of each. */
struct pair {
	struct weir_reactor *r;
	struct weir_tls_context *ctx[2];	/* Client, server. */
	struct weir_stream *s[2];
	struct rec shook[2];
	size_t lower_size;			/* Of the lower buffers; 0: usual. */
	const char *host;
	const struct weir_tls_session *session;
};

enum { CLIENT, SERVER };

static struct weir_tls_opts client_opts(void)
{
	return (struct weir_tls_opts){
		.size = sizeof(struct weir_tls_opts),
		.ca_file = tls_path("ca.pem"),
	};
}

static struct weir_tls_opts server_opts(const char *cert)
{
	return (struct weir_tls_opts){
		.size = sizeof(struct weir_tls_opts), .flags = WEIR_TLS_SERVER,
		.cert_file = tls_path(cert), .ca_file = tls_path("ca.pem"),
	};
}

static void pair_begin(struct pair *p, void **state,
		       const struct weir_tls_opts *client,
		       const struct weir_tls_opts *server)
{
	struct weir_tls_opts c = client_opts(), s = server_opts("server.pem");

	memset(p, 0, sizeof(*p));
	p->r = start_reactor(state);
	p->host = "server.test";
	if (weir_tls_context_create(&p->ctx[CLIENT], client ? client : &c) ||
	    weir_tls_context_create(&p->ctx[SERVER], server ? server : &s))
		fail_msg("%s", weir_why());
}

static struct weir_stream *over(struct pair *p, int which, int fd)
{
	struct weir_tls_stream_opts opts = { .size = sizeof(opts) };
	struct weir_stream_opts lower_opts = {
		.size = sizeof(lower_opts), .in_size = p->lower_size,
		.out_size = p->lower_size ? p->lower_size + 1 : 0,
	};
	struct weir_stream *lower, *s;

	assert_int_equal(weir_stream_create_fd(&lower, p->r, fd, fd,
					       &lower_opts), 0);
	if (which == CLIENT) {
		opts.host = p->host;
		opts.session = p->session;
	}
	assert_int_equal(weir_tls_stream_create(&s, p->r, lower, p->ctx[which],
						&opts), 0);
	return s;
}

/* Connect them, and begin both handshakes. */
static void pair_connect(struct pair *p)
{
	int fd[2];

	socket_pair(fd);
	for (int i = 0; i < 2; i++) {
		p->s[i] = over(p, i, fd[i]);
		rec_init(&p->shook[i]);
		STARTS(weir_tls_handshake(p->s[i], &p->shook[i].op));
	}
}

static void pair_shake(struct pair *p)
{
	pair_connect(p);
	for (int i = 0; i < 2; i++)
		if (result(p->r, &p->shook[i]))
			fail_msg("%d: %d %s", i, (int)p->shook[i].res,
				 weir_tls_error(p->s[i]));
}

static void close_one(struct pair *p, int which)
{
	struct rec closed;

	rec_init(&closed);
	STARTS(weir_stream_close(p->s[which], &closed.op));
	assert_int_equal(result(p->r, &closed), 0);
	p->s[which] = NULL;
}

static void pair_close(struct pair *p)
{
	for (int i = 0; i < 2; i++)
		if (p->s[i])
			close_one(p, i);
}

static void pair_end(struct pair *p)
{
	pair_close(p);
	weir_tls_context_destroy(p->ctx[CLIENT]);
	weir_tls_context_destroy(p->ctx[SERVER]);
}

static struct weir_tls_info info_of(struct pair *p, int which)
{
	struct weir_tls_info info = { .size = sizeof(info) };

	assert_int_equal(weir_tls_info(p->s[which], &info), 0);
	return info;
}

/* @len bytes from one to the other, which reads @part at a time. */
static void move(struct pair *p, int from, size_t len, size_t part)
{
	char *sent = malloc(len + 1), *got = malloc(len + 1);
	struct rec out, in;
	size_t n = 0;

	assert_true(sent && got);
	fill_pattern(sent, len, 0, (unsigned int)len);
	rec_init(&out);
	STARTS(weir_stream_write(p->s[from], &out.op, sent, len, 0));
	while (n < len) {
		rec_init(&in);
		STARTS(weir_stream_read_exact(p->s[!from], &in.op, got + n,
					      part < len - n ? part : len - n));
		n += (size_t)result(p->r, &in);
		assert_true(in.res > 0);
	}
	assert_memory_equal(sent, got, len);
	assert_int_equal(result(p->r, &out), len);
	free(sent);
	free(got);
}

static void bytes_go_both_ways(void **state)
{
	struct pair p;

	pair_begin(&p, state, NULL, NULL);
	pair_shake(&p);
	for (size_t len = 1; len < 400000; len = len * 5 + 1) {
		move(&p, CLIENT, len, 7000);
		move(&p, SERVER, len, 100000);
	}
	pair_end(&p);
}

static void versions_and_ciphers_all_work(void **state)
{
	static const struct {
		uint16_t version;
		const char *cert, *cipher, *name;
	} rows[] = {
		{ WEIR_TLS_1_3, "server.pem", "TLS_AES_128_GCM_SHA256", NULL },
		{ WEIR_TLS_1_3, "rsa.pem", "TLS_AES_256_GCM_SHA384", NULL },
		{ WEIR_TLS_1_3, "server.pem", "TLS_CHACHA20_POLY1305_SHA256",
		  NULL },
		{ WEIR_TLS_1_2, "server.pem", "ECDHE-ECDSA-AES128-GCM-SHA256",
		  NULL },
		{ WEIR_TLS_1_2, "server.pem", "ECDHE-ECDSA-CHACHA20-POLY1305",
		  NULL },
		{ WEIR_TLS_1_2, "rsa.pem", "ECDHE-RSA-AES256-GCM-SHA384",
		  NULL },
		{ WEIR_TLS_1_2, "rsa.pem", "AES128-GCM-SHA256", NULL },
		{ WEIR_TLS_1_2, "rsa.pem", "ECDHE-RSA-AES128-SHA256", NULL },
	};
	struct weir_tls_info info;
	struct pair p;

	for (size_t i = 0; i < N_OF(rows); i++) {
		struct weir_tls_opts c = client_opts();
		struct weir_tls_opts s = server_opts(rows[i].cert);

		c.min_version = c.max_version = rows[i].version;
		if (rows[i].version == WEIR_TLS_1_3)
			c.ciphersuites = rows[i].cipher;
		else
			c.ciphers = rows[i].cipher;
		if (i == 0)
			pair_begin(&p, state, &c, &s);
		else
			assert_int_equal(weir_tls_context_create(&p.ctx[0],
								 &c) ||
					 weir_tls_context_create(&p.ctx[1],
								 &s), 0);
		pair_shake(&p);
		for (int j = 0; j < 2; j++) {
			info = info_of(&p, j);
			assert_int_equal(info.version, rows[i].version);
			assert_string_equal(info.cipher, rows[i].cipher);
			assert_int_equal(info.resumed, 0);
		}
		move(&p, CLIENT, 40000, 40000);
		move(&p, SERVER, 40000, 999);
		pair_end(&p);
	}
}

static void records_are_whole_however_they_are_cut(void **state)
{
	struct pair p;

	pair_begin(&p, state, NULL, NULL);
	for (p.lower_size = 1; p.lower_size < 2000;
	     p.lower_size = p.lower_size * 2 + 1) {
		pair_shake(&p);
		move(&p, CLIENT, 1000, 100);
		move(&p, SERVER, 1000, 1000);
		pair_close(&p);
	}
	pair_end(&p);
}

static void peer_is_described(void **state)
{
	struct weir_tls_info info = { .size = sizeof(info) };
	struct pair p;

	pair_begin(&p, state, NULL, NULL);
	pair_connect(&p);
	assert_int_equal(weir_tls_info(p.s[CLIENT], &info), 0);
	assert_int_equal(info.version, 0);
	result(p.r, &p.shook[CLIENT]);
	info = info_of(&p, CLIENT);
	assert_string_equal(info.subject, "/CN=server.test");
	assert_string_equal(info.issuer, "/CN=test CA");
	assert_true(info.not_after - info.not_before == 86400 + 7200);
	assert_true(info.sha256[0] || info.sha256[1] || info.sha256[2]);
	result(p.r, &p.shook[SERVER]);
	info = info_of(&p, SERVER);
	assert_string_equal(info.server_name, "server.test");
	assert_string_equal(info.subject, "");
	pair_end(&p);
}

/* The client refuses @cert for @host: @err and words. */
static void refused(void **state, struct pair *p, const char *cert,
		    const char *host, int err, const char *words)
{
	struct weir_tls_opts s = server_opts(cert);

	if (!p->r)
		pair_begin(p, state, NULL, &s);
	else
		assert_int_equal(weir_tls_context_create(&p->ctx[SERVER], &s),
				 0);
	p->host = host;
	pair_connect(p);
	assert_int_equal(result(p->r, &p->shook[CLIENT]), err);
	if (!strstr(weir_tls_error(p->s[CLIENT]), words))
		fail_msg("%s, not %s", weir_tls_error(p->s[CLIENT]), words);
	pair_close(p);
	weir_tls_context_destroy(p->ctx[SERVER]);
	p->ctx[SERVER] = NULL;
}

static void wrong_certificates_are_refused(void **state)
{
	struct pair p = { 0 };

	refused(state, &p, "other.pem", "server.test", -EKEYREJECTED,
		"hostname mismatch");
	refused(state, &p, "server.pem", "127.0.0.2", -EKEYREJECTED,
		"IP address mismatch");
	refused(state, &p, "expired.pem", "server.test", -EKEYEXPIRED,
		"expired");
	weir_tls_context_destroy(p.ctx[CLIENT]);
	/* Whom it does not know. */
	{
		struct weir_tls_opts c = client_opts();

		c.ca_file = tls_path("other.pem");
		assert_int_equal(weir_tls_context_create(&p.ctx[CLIENT], &c),
				 0);
		refused(state, &p, "server.pem", "server.test", -EKEYREJECTED,
			"certificate verify failed");
		weir_tls_context_destroy(p.ctx[CLIENT]);
		c.flags = WEIR_TLS_NO_VERIFY;
		assert_int_equal(weir_tls_context_create(&p.ctx[CLIENT], &c),
				 0);
	}
	{
		struct weir_tls_opts s = server_opts("expired.pem");

		assert_int_equal(weir_tls_context_create(&p.ctx[SERVER], &s),
				 0);
	}
	pair_shake(&p);
	pair_close(&p);
	p.host = "127.0.0.1";
	pair_shake(&p);
	pair_end(&p);
}

static void dot_at_the_end_of_a_name_is_not_sent(void **state)
{
	struct pair p;

	pair_begin(&p, state, NULL, NULL);
	p.host = "server.test.";
	pair_connect(&p);
	assert_int_equal(result(p.r, &p.shook[CLIENT]), 0);
	assert_int_equal(result(p.r, &p.shook[SERVER]), 0);
	assert_string_equal(info_of(&p, SERVER).server_name, "server.test");
	pair_end(&p);
}

static void clients_have_certificates_if_needed(void **state)
{
	struct weir_tls_opts s = server_opts("server.pem"), c = client_opts();
	struct weir_tls_info info;
	struct pair p;
	char buf[8];

	s.flags |= WEIR_TLS_NEED_CERT;
	pair_begin(&p, state, NULL, &s);
	pair_connect(&p);
	assert_int_equal(result(p.r, &p.shook[SERVER]), -EPROTO);
	/* In TLS 1.3 the client learns of it by its first read. */
	assert_int_equal(RUN(p.r, weir_stream_read(p.s[CLIENT], &rec.op, buf,
						   8)), -EPROTO);
	pair_close(&p);
	weir_tls_context_destroy(p.ctx[CLIENT]);
	c.cert_file = tls_path("client.pem");
	assert_int_equal(weir_tls_context_create(&p.ctx[CLIENT], &c), 0);
	pair_shake(&p);
	info = info_of(&p, SERVER);
	assert_string_equal(info.subject, "/CN=client.test");
	pair_end(&p);
}

static const char *keys_file(const char *lines)
{
	FILE *f = fopen(tls_path("keys.psk"), "w");

	assert_non_null(f);
	fputs(lines, f);
	assert_int_equal(fclose(f), 0);
	return tls_path("keys.psk");
}

#define KEY_1 "000102030405060708090a0b0c0d0e0f"
#define KEY_2 "101112131415161718191A1B1C1D1E1F"
#define ANNS "ann:" KEY_1 "\n"

/* A client with the keys in @client, and a server with those in @server. */
static void keys_begin(struct pair *p, void **state, const char *client,
		       const char *name, const char *server, const char *cert,
		       uint16_t version)
{
	struct weir_tls_opts c = client_opts(), s = server_opts("server.pem");

	if (!p->r)
		p->r = start_reactor(state);
	p->host = "server.test";
	c.psk_name = name;
	s.cert_file = cert;
	c.max_version = version;
	c.psk_file = keys_file(client);
	if (weir_tls_context_create(&p->ctx[CLIENT], &c))
		fail_msg("%s", weir_why());
	s.psk_file = keys_file(server);
	if (weir_tls_context_create(&p->ctx[SERVER], &s))
		fail_msg("%s", weir_why());
}

static void keys_in_common_need_no_certificates(void **state)
{
	static const uint16_t versions[] = { WEIR_TLS_1_2, WEIR_TLS_1_3 };
	struct pair p = { 0 };

	for (size_t i = 0; i < 2 * N_OF(versions); i++) {
		keys_begin(&p, state, ANNS "# bob is away\n\n", "ann",
			   "bob:" KEY_2 "\n" ANNS,
			   i & 2 ? tls_path("server.pem") : NULL, versions[i & 1]);
		pair_shake(&p);
		assert_int_equal(info_of(&p, CLIENT).version, versions[i & 1]);
		assert_string_equal(info_of(&p, CLIENT).subject, "");
		move(&p, CLIENT, 100000, 5000);
		move(&p, SERVER, 100000, 5000);
		pair_end(&p);
	}
}

/* Nor a name that is not known, without a certificate to fall back to. */
static void keys_that_differ_fail_the_handshake(void **state)
{
	static const uint16_t versions[] = { WEIR_TLS_1_2, WEIR_TLS_1_3 };
	static const char *const servers[] = { "ann:" KEY_2 "\n",
					       "ann:" KEY_1 "00\n",
					       "anna:" KEY_1 "\n" };
	struct pair p = { 0 };

	for (size_t i = 0; i < 2 * N_OF(servers); i++) {
		keys_begin(&p, state, ANNS, "ann", servers[i / 2], NULL,
			   versions[i % 2]);
		pair_connect(&p);
		assert_int_equal(result(p.r, &p.shook[SERVER]), -EPROTO);
		assert_int_equal(result(p.r, &p.shook[CLIENT]), -EPROTO);
		pair_end(&p);
	}
}

static void server_without_the_name_shows_its_certificate(void **state)
{
	struct pair p = { 0 };

	keys_begin(&p, state, ANNS, "ann", "bob:" KEY_2 "\n",
		   tls_path("server.pem"), 0);
	pair_shake(&p);
	assert_string_equal(info_of(&p, CLIENT).subject, "/CN=server.test");
	pair_close(&p);
	/* Which is believed only for its name. */
	p.host = "other.test";
	pair_connect(&p);
	assert_int_equal(result(p.r, &p.shook[CLIENT]), -EKEYREJECTED);
	pair_end(&p);
}

static void keys_are_reloaded(void **state)
{
	struct pair p = { 0 }, old;

	keys_begin(&p, state, ANNS, "ann", ANNS, NULL, 0);
	pair_shake(&p);
	old = p;
	keys_file("bob:" KEY_2 "\n");
	assert_int_equal(weir_tls_context_reload(p.ctx[SERVER]), 0);
	assert_int_equal(weir_tls_context_reload(p.ctx[CLIENT]), -ENOENT);
	pair_connect(&p);
	assert_int_equal(result(p.r, &p.shook[CLIENT]), -EPROTO);
	move(&old, CLIENT, 1000, 1000);
	pair_close(&old);
	pair_close(&p);
	keys_file(ANNS);
	assert_int_equal(weir_tls_context_reload(p.ctx[SERVER]), 0);
	pair_shake(&p);
	pair_close(&p);
	/* A reload that fails changes nothing. */
	keys_file("ann:" KEY_1 "0\n");
	assert_int_equal(weir_tls_context_reload(p.ctx[SERVER]),
			 -EKEYREJECTED);
	pair_shake(&p);
	pair_end(&p);
}

static int likes(void *arg, const char *name)
{
	return !strcmp(name, arg);
}

static void protocols_are_agreed_on(void **state)
{
	struct weir_tls_opts c = client_opts(), s = server_opts("server.pem");
	struct pair p;

	c.alpn = "h2,http/1.1";
	s.alpn = "http/1.1,h2";
	pair_begin(&p, state, &c, &s);
	pair_shake(&p);
	for (int i = 0; i < 2; i++)
		assert_string_equal(info_of(&p, i).alpn, "http/1.1");
	pair_close(&p);
	weir_tls_context_destroy(p.ctx[SERVER]);
	s.alpn = "spdy";
	assert_int_equal(weir_tls_context_create(&p.ctx[SERVER], &s), 0);
	pair_connect(&p);
	assert_int_equal(result(p.r, &p.shook[SERVER]), -EPROTO);
	assert_int_equal(result(p.r, &p.shook[CLIENT]), -EPROTO);
	pair_close(&p);
	weir_tls_context_destroy(p.ctx[SERVER]);
	s.alpn = NULL;
	s.choose_alpn = likes;
	s.arg = (void *)(uintptr_t)"h2";
	assert_int_equal(weir_tls_context_create(&p.ctx[SERVER], &s), 0);
	pair_shake(&p);
	assert_string_equal(info_of(&p, CLIENT).alpn, "h2");
	pair_end(&p);
}

static int by_name(void *arg, const char *name, struct weir_tls_context **ret)
{
	if (!strcmp(name, "nobody.test"))
		return -ENOENT;
	if (!strcmp(name, "other.test"))
		*ret = arg;
	return 0;
}

static void names_choose_contexts(void **state)
{
	struct weir_tls_opts s = server_opts("server.pem");
	struct weir_tls_opts o = server_opts("other.pem");
	struct weir_tls_context *other;
	struct pair p;

	assert_int_equal(weir_tls_context_create(&other, &o), 0);
	s.choose_name = by_name;
	s.arg = other;
	pair_begin(&p, state, NULL, &s);
	pair_shake(&p);
	assert_string_equal(info_of(&p, CLIENT).subject, "/CN=server.test");
	pair_close(&p);
	p.host = "other.test";
	pair_shake(&p);
	assert_string_equal(info_of(&p, CLIENT).subject, "/CN=other.test");
	pair_close(&p);
	p.host = "nobody.test";
	pair_connect(&p);
	assert_int_equal(result(p.r, &p.shook[CLIENT]), -EPROTO);
	pair_end(&p);
	weir_tls_context_destroy(other);
}

/* Trust is the connection's, whatever the chosen context would trust. */
static void chosen_context_changes_no_trust(void **state)
{
	struct weir_tls_opts s = server_opts("server.pem"), c = client_opts();
	struct weir_tls_opts o = server_opts("other.pem");
	struct weir_tls_context *other;
	struct pair p;

	c.cert_file = tls_path("client.pem");
	s.flags |= WEIR_TLS_NEED_CERT;
	s.choose_name = by_name;
	for (int known = 0; known < 2; known++) {
		s.ca_file = tls_path(known ? "ca.pem" : "other.pem");
		o.ca_file = tls_path(known ? "other.pem" : "ca.pem");
		assert_int_equal(weir_tls_context_create(&other, &o), 0);
		s.arg = other;
		if (!known)
			pair_begin(&p, state, &c, &s);
		else
			assert_int_equal(weir_tls_context_create(&p.ctx[SERVER],
								 &s), 0);
		p.host = "other.test";
		pair_connect(&p);
		assert_int_equal(result(p.r, &p.shook[SERVER]),
				 known ? 0 : -EKEYREJECTED);
		assert_string_equal(info_of(&p, CLIENT).subject,
				    "/CN=other.test");
		pair_close(&p);
		weir_tls_context_destroy(p.ctx[SERVER]);
		weir_tls_context_destroy(other);
	}
	weir_tls_context_destroy(p.ctx[CLIENT]);
}

/* Closes the server's stream, which asks by it. */
static int close_it(void *arg, const char *name, struct weir_tls_context **ret)
{
	struct weir_stream **s = arg;

	(void)name, (void)ret;
	assert_int_equal(weir_stream_close(*s, NULL), 0);
	*s = NULL;
	return 0;
}

static void name_function_may_close_its_stream(void **state)
{
	struct weir_tls_opts s = server_opts("server.pem");
	struct pair p;

	s.choose_name = close_it;
	s.arg = &p.s[SERVER];
	pair_begin(&p, state, NULL, &s);
	pair_connect(&p);
	assert_int_equal(result(p.r, &p.shook[SERVER]), -ECANCELED);
	assert_true(result(p.r, &p.shook[CLIENT]) < 0);
	pair_end(&p);
	some_turns(p.r, 5);
}

static void sessions_are_resumed(void **state)
{
	struct weir_tls_session *session;
	struct pair p;

	for (uint16_t v = WEIR_TLS_1_2; v <= WEIR_TLS_1_3; v++) {
		struct weir_tls_opts c = client_opts();

		c.max_version = v;
		if (v == WEIR_TLS_1_2)
			pair_begin(&p, state, &c, NULL);
		else
			assert_int_equal(weir_tls_context_create(&p.ctx[CLIENT],
								 &c), 0);
		pair_shake(&p);
		move(&p, SERVER, 10, 10);
		assert_int_equal(weir_tls_session_take(p.s[CLIENT], &session),
				 0);
		assert_int_equal(weir_tls_session_take(p.s[CLIENT],
						       &(struct
							 weir_tls_session *){
							       0 }), -EAGAIN);
		pair_close(&p);
		/* A reload keeps the keys of sessions. */
		assert_int_equal(weir_tls_context_reload(p.ctx[SERVER]), 0);
		p.session = session;
		pair_shake(&p);
		for (int i = 0; i < 2; i++)
			assert_int_equal(info_of(&p, i).resumed, 1);
		move(&p, CLIENT, 10000, 10);
		weir_tls_session_free(session);
		p.session = NULL;
		pair_close(&p);
		weir_tls_context_destroy(p.ctx[CLIENT]);
	}
	weir_tls_context_destroy(p.ctx[SERVER]);
}

static void copy_cert(const char *name)
{
	char text[8192];
	FILE *from = fopen(tls_path(name), "r");
	FILE *to = fopen(tls_path("live.pem"), "w");
	size_t n;

	assert_true(from && to);
	n = fread(text, 1, sizeof(text), from);
	assert_int_equal(fwrite(text, 1, n, to), n);
	fclose(from);
	fclose(to);
}

static void certificates_are_reloaded(void **state)
{
	struct weir_tls_opts s;
	struct pair p, old;

	copy_cert("server.pem");
	s = server_opts("live.pem");
	pair_begin(&p, state, NULL, &s);
	pair_shake(&p);
	old = p;
	copy_cert("other.pem");
	assert_int_equal(weir_tls_context_reload(p.ctx[SERVER]), 0);
	p.host = "other.test";
	pair_shake(&p);
	assert_string_equal(info_of(&p, CLIENT).subject, "/CN=other.test");
	move(&old, CLIENT, 1000, 1000);
	move(&p, SERVER, 1000, 1000);
	pair_close(&old);
	pair_close(&p);
	/* A reload that fails changes nothing. */
	copy_cert("ca.pem");
	assert_int_equal(weir_tls_context_reload(p.ctx[SERVER]),
			 -EKEYREJECTED);
	unlink(tls_path("live.pem"));
	assert_int_equal(weir_tls_context_reload(p.ctx[SERVER]), -ENOENT);
	pair_shake(&p);
	pair_end(&p);
}

static void *reload_often(void *ctx)
{
	for (int i = 0; i < 300; i++)
		assert_int_equal(weir_tls_context_reload(ctx), 0);
	return NULL;
}

static void threads_reload_at_the_same_time(void **state)
{
	struct weir_tls_opts s = server_opts("server.pem");
	struct weir_tls_context *ctx;
	pthread_t threads[4];

	(void)state;
	assert_int_equal(weir_tls_context_create(&ctx, &s), 0);
	for (size_t i = 0; i < N_OF(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, reload_often,
						ctx), 0);
	for (size_t i = 0; i < N_OF(threads); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	weir_tls_context_destroy(ctx);
}

static void directions_end_alone(void **state)
{
	struct pair p;
	char buf[8];

	pair_begin(&p, state, NULL, NULL);
	pair_shake(&p);
	assert_int_equal(weir_stream_put(p.s[CLIENT], "last", 4, 0), 0);
	assert_int_equal(RUN(p.r, weir_stream_shutdown(p.s[CLIENT], &rec.op)),
			 0);
	assert_int_equal(RUN(p.r, weir_stream_read_exact(p.s[SERVER], &rec.op,
							 buf, 8)), 4);
	assert_int_equal(RUN(p.r, weir_stream_read(p.s[SERVER], &rec.op, buf,
						   8)), 0);
	move(&p, SERVER, 100000, 100000);
	assert_int_equal(RUN(p.r, weir_stream_shutdown(p.s[SERVER], &rec.op)),
			 0);
	assert_int_equal(RUN(p.r, weir_stream_read(p.s[CLIENT], &rec.op, buf,
						   8)), 0);
	pair_end(&p);
}

static void shutdown_fails_with_the_connection(void **state)
{
	struct pair p;

	pair_begin(&p, state, NULL, NULL);
	pair_shake(&p);
	close_one(&p, SERVER);
	assert_true(RUN(p.r, weir_stream_shutdown(p.s[CLIENT], &rec.op)) < 0);
	pair_end(&p);
}

/* Between the two: so many bytes of the server's pass, and then it is cut. */
static int64_t cut_after(struct pair *p, size_t max, size_t *passed)
{
	int a[2], b[2];
	char buf[256];
	ssize_t n;

	socket_pair(a);
	socket_pair(b);
	set_nonblock(a[1]);
	set_nonblock(b[1]);
	p->s[CLIENT] = over(p, CLIENT, a[0]);
	p->s[SERVER] = over(p, SERVER, b[0]);
	assert_int_equal(weir_stream_put(p->s[SERVER], "data", 4, 0), 0);
	rec_init(&rec);
	STARTS(weir_stream_shutdown(p->s[SERVER], &rec.op));
	{
		struct rec in;
		char got[8];

		rec_init(&in);
		STARTS(weir_stream_read_exact(p->s[CLIENT], &in.op, got, 8));
		UNTIL(p->r, ({
			n = recv(a[1], buf, sizeof(buf), MSG_DONTWAIT);
			if (n > 0)
				assert_int_equal(write(b[1], buf, (size_t)n),
						 n);
			n = *passed < max ?
				    recv(b[1], buf, max - *passed < sizeof(buf)
						     ? max - *passed :
						       sizeof(buf),
					 MSG_DONTWAIT) : 0;
			if (n > 0) {
				assert_int_equal(write(a[1], buf, (size_t)n),
						 n);
				*passed += (size_t)n;
			}
			if (*passed == max)
				shutdown(a[1], SHUT_WR);
			in.calls;
		}));
		close(a[1]);
		close(b[1]);
		pair_close(p);
		return in.res;
	}
}

static void connection_that_was_cut_has_not_ended(void **state)
{
	size_t whole = 0, n, max, step = want_long() ? 1 : 7;
	struct pair p;
	int64_t res;

	for (int v = WEIR_TLS_1_2; v <= WEIR_TLS_1_3; v++) {
		struct weir_tls_opts c = client_opts();

		c.max_version = (uint16_t)v;
		if (v == WEIR_TLS_1_2)
			pair_begin(&p, state, &c, NULL);
		else
			assert_int_equal(weir_tls_context_create(&p.ctx[CLIENT],
								 &c), 0);
		whole = 0;
		assert_int_equal(cut_after(&p, SIZE_MAX, &whole), 4);
		/* Signatures differ by some bytes. */
		for (max = 0; max < whole - 12;
		     max += max + 60 > whole ? 1 : step) {
			n = 0;
			res = cut_after(&p, max, &n);
			if (res != -ECONNABORTED)
				fail_msg("after %zu of %zu: %d", max, whole,
					 (int)res);
		}
		weir_tls_context_destroy(p.ctx[CLIENT]);
	}
	weir_tls_context_destroy(p.ctx[SERVER]);
}

static void handshake_has_a_deadline_and_a_cancel(void **state)
{
	struct pair p;
	int fd[2];

	pair_begin(&p, state, NULL, NULL);
	socket_pair(fd);
	p.s[CLIENT] = over(&p, CLIENT, fd[0]);
	rec_init(&rec);
	weir_op_set_deadline(&rec.op, weir_reactor_now(p.r) + WEIR_MSEC);
	STARTS(weir_tls_handshake(p.s[CLIENT], &rec.op));
	assert_int_equal(weir_tls_handshake(p.s[CLIENT], &p.shook[0].op),
			 -EBUSY);
	assert_int_equal(result(p.r, &rec), -ETIMEDOUT);
	rec_init(&rec);
	STARTS(weir_tls_handshake(p.s[CLIENT], &rec.op));
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(result(p.r, &rec), -ECANCELED);
	/* It goes on with a peer that is late. */
	p.s[SERVER] = over(&p, SERVER, fd[1]);
	move(&p, CLIENT, 100, 100);
	assert_int_equal(RUN(p.r, weir_tls_handshake(p.s[CLIENT], &rec.op)),
			 0);
	pair_end(&p);
}

/* Returns how many of @len bytes are in the stream. */
static size_t cancelled_write(struct pair *p, const char *data, size_t len)
{
	struct rec out;

	rec_init(&out);
	STARTS(weir_stream_write(p->s[CLIENT], &out.op, data, len, 0));
	some_turns(p->r, 50);
	assert_int_equal(out.calls, 0);
	assert_int_equal(weir_op_cancel(&out.op), 0);
	assert_int_equal(result(p->r, &out), -ECANCELED);
	assert_true(out.detail.bytes < len);
	return out.detail.bytes;
}

static void cancelled_operations_leave_a_sound_connection(void **state)
{
	static char sent[3000000], got[3000000];
	struct rec in, out, shut;
	size_t sum = 0, n = 0;
	struct pair p;

	fill_pattern(sent, sizeof(sent), 0, 1);
	pair_begin(&p, state, NULL, NULL);
	pair_shake(&p);
	for (int i = 0; i < 5; i++) {
		rec_init(&in);
		STARTS(weir_stream_read_exact(p.s[SERVER], &in.op, got, 5));
		assert_int_equal(weir_op_cancel(&in.op), 0);
		assert_int_equal(result(p.r, &in), -ECANCELED);
	}
	/* The peer does not read, so the writes cannot end. */
	for (int i = 0; i < 3; i++)
		sum += cancelled_write(&p, sent + sum, sizeof(sent) - sum);
	rec_init(&out);
	rec_init(&shut);
	STARTS(weir_stream_write(p.s[CLIENT], &out.op, sent + sum,
				 sizeof(sent) - sum, 0));
	STARTS(weir_stream_shutdown(p.s[CLIENT], &shut.op));
	while (n < sizeof(sent)) {
		rec_init(&in);
		STARTS(weir_stream_read(p.s[SERVER], &in.op, got + n,
					sizeof(sent) - n));
		if (result(p.r, &in) <= 0)
			fail_msg("%d after %zu of %zu", (int)in.res, n, sum);
		n += (size_t)in.res;
	}
	assert_memory_equal(sent, got, sizeof(sent));
	assert_int_equal(RUN(p.r, weir_stream_read(p.s[SERVER], &rec.op, got,
						   1)), 0);
	assert_int_equal(result(p.r, &shut), 0);
	pair_end(&p);
}

/* Its last record, too, which had no capacity when it was cancelled. */
static void cancelled_write_is_sent_without_another(void **state)
{
	static char sent[3000000], got[3000000];
	struct pair p;
	size_t sum;

	fill_pattern(sent, sizeof(sent), 0, 1);
	pair_begin(&p, state, NULL, NULL);
	pair_shake(&p);
	sum = cancelled_write(&p, sent, sizeof(sent));
	assert_int_equal(RUN(p.r, weir_stream_read_exact(p.s[SERVER], &rec.op,
							 got, sum)), sum);
	assert_memory_equal(sent, got, sum);
	pair_end(&p);
}

/* A transport whose next receive, or send, has no capacity. */
struct busy {
	struct weir_reactor *r;
	int fd;
	bool recv_fails, send_fails;
};

static int busy_fail(struct busy *b, struct weir_op *op)
{
	int err = weir_op_start(b->r, op, NULL, NULL);

	if (!err)
		weir_op_finish(op, -EAGAIN);
	return err;
}

static int busy_recv(void *arg, struct weir_op *op, void *buf, size_t len)
{
	struct busy *b = arg;
	bool fails = b->recv_fails;

	b->recv_fails = false;
	return fails ? busy_fail(b, op) :
		       weir_recv(b->r, op, b->fd, buf, len, 0);
}

static int busy_send(void *arg, struct weir_op *op, const struct iovec *iov,
		     uint32_t n, uint32_t flags)
{
	struct busy *b = arg;
	bool fails = b->send_fails;

	(void)flags;
	b->send_fails = false;
	return fails ? busy_fail(b, op) :
		       weir_sendv(b->r, op, b->fd, iov, n, 0);
}

static void lack_of_capacity_below_is_no_end(void **state)
{
	static const struct weir_stream_ops ops = {
		.size = sizeof(ops), .name = "busy", .recv = busy_recv,
		.send = busy_send,
	};
	struct weir_tls_stream_opts opts = {
		.size = sizeof(opts), .host = "server.test",
	};
	struct weir_stream *lower;
	struct busy b = { 0 };
	struct pair p;
	int fd[2];

	pair_begin(&p, state, NULL, NULL);
	socket_pair(fd);
	b.r = p.r;
	b.fd = fd[0];
	p.s[SERVER] = over(&p, SERVER, fd[1]);
	assert_int_equal(weir_stream_create(&lower, p.r, &ops, &b, NULL), 0);
	assert_int_equal(weir_tls_stream_create(&p.s[CLIENT], p.r, lower,
						p.ctx[CLIENT], &opts), 0);
	b.recv_fails = true;
	assert_int_equal(RUN(p.r, weir_tls_handshake(p.s[CLIENT], &rec.op)),
			 -EAGAIN);
	assert_string_equal(weir_tls_error(p.s[CLIENT]), "");
	move(&p, CLIENT, 1000, 1000);
	b.send_fails = true;
	move(&p, CLIENT, 300000, 1000);
	b.send_fails = true;
	assert_int_equal(RUN(p.r, weir_stream_shutdown(p.s[CLIENT], &rec.op)),
			 -EAGAIN);
	assert_int_equal(RUN(p.r, weir_stream_shutdown(p.s[CLIENT], &rec.op)),
			 0);
	pair_end(&p);
	close(fd[0]);
}

static void close_ends_what_is_in_flight(void **state)
{
	struct rec in, out;
	static char data[1 << 20];
	struct pair p;

	pair_begin(&p, state, NULL, NULL);
	for (int turns = 0; turns < 12; turns++) {
		pair_connect(&p);
		rec_init(&in);
		rec_init(&out);
		STARTS(weir_stream_read(p.s[CLIENT], &in.op, data, 10));
		STARTS(weir_stream_write(p.s[CLIENT], &out.op, data,
					 sizeof(data), 0));
		some_turns(p.r, turns);
		close_one(&p, CLIENT);
		assert_int_equal(in.res, -ECANCELED);
		assert_int_equal(out.res, -ECANCELED);
		assert_int_equal(p.shook[CLIENT].calls, 1);
		close_one(&p, SERVER);
		assert_int_equal(p.shook[SERVER].calls, 1);
	}
	pair_end(&p);
}

static void rubbish_is_no_handshake(void **state)
{
	struct pair p;
	int fd[2];

	pair_begin(&p, state, NULL, NULL);
	socket_pair(fd);
	p.s[SERVER] = over(&p, SERVER, fd[0]);
	assert_int_equal(write(fd[1], "GET / HTTP/1.1\r\n\r\n", 18), 18);
	assert_int_equal(RUN(p.r, weir_tls_handshake(p.s[SERVER], &rec.op)),
			 -EPROTO);
	assert_true(*weir_tls_error(p.s[SERVER]));
	/* It stays so. */
	assert_int_equal(RUN(p.r, weir_tls_handshake(p.s[SERVER], &rec.op)),
			 -EPROTO);
	assert_int_equal(RUN(p.r, weir_stream_write(p.s[SERVER], &rec.op, "x",
						    1, 0)), 1);
	assert_int_equal(RUN(p.r, weir_stream_flush(p.s[SERVER], &rec.op)),
			 -EPROTO);
	close_one(&p, SERVER);
	close(fd[1]);
	pair_end(&p);
}

static void versions_in_common_are_needed(void **state)
{
	struct weir_tls_opts c = client_opts(), s = server_opts("server.pem");
	struct pair p;

	c.max_version = WEIR_TLS_1_2;
	s.min_version = WEIR_TLS_1_3;
	pair_begin(&p, state, &c, &s);
	pair_connect(&p);
	assert_int_equal(result(p.r, &p.shook[SERVER]), -EPROTO);
	assert_int_equal(result(p.r, &p.shook[CLIENT]), -EPROTO);
	pair_end(&p);
}

static void full_and_stopped_reactors_refuse(void **state)
{
	struct weir_reactor *r = start_reactor_with(state, (struct
				weir_reactor_opts){ .ops_max = 1 });
	struct weir_tls_stream_opts opts = { .size = sizeof(opts) };
	struct weir_tls_opts c = client_opts();
	struct weir_stream *lower[2], *s, *late = NULL;
	struct weir_tls_context *ctx;
	struct rec read;
	int fd[2];
	char buf[8];

	socket_pair(fd);
	assert_int_equal(weir_tls_context_create(&ctx, &c), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(weir_stream_create_fd(&lower[i], r, fd[i],
						       fd[i], NULL), 0);
	assert_int_equal(weir_tls_stream_create(&s, r, lower[0], ctx, &opts),
			 0);
	rec_init(&rec);
	rec_init(&read);
	STARTS(weir_stream_read(lower[1], &read.op, buf, 8));
	assert_int_equal(weir_tls_handshake(s, &rec.op), -EAGAIN);
	weir_reactor_stop(r);
	UNTIL(r, weir_reactor_state(r) == WEIR_REACTOR_STOPPED);
	assert_int_equal(weir_tls_handshake(s, &rec.op), -ESHUTDOWN);
	assert_int_equal(weir_tls_stream_create(&late, r, lower[1], ctx,
						&opts), -ESHUTDOWN);
	assert_int_equal(weir_stream_close(s, NULL), 0);
	assert_int_equal(weir_stream_close(lower[1], NULL), 0);
	weir_tls_context_destroy(ctx);
	end_reactor(state);
}

static int context_err(struct weir_tls_opts opts)
{
	struct weir_tls_context *ctx = NULL;
	int err = weir_tls_context_create(&ctx, &opts);

	assert_null(ctx);
	assert_starts_with(weir_why(), "weir_tls_context_create: ");
	return err;
}

static void contexts_say_what_is_wrong(void **state)
{
	struct weir_tls_opts c, s;
	struct weir_tls_context *ctx = NULL;
	FILE *f = fopen(tls_path("rubbish.pem"), "w");
	struct {
		struct weir_tls_opts opts;
		char newer[8];
	} more = { client_opts(), "newer" };

	(void)state;
	fputs("rubbish", f);
	fclose(f);
	more.opts.size = sizeof(more);
	assert_int_equal(weir_tls_context_create(&ctx, &more.opts), -E2BIG);
	assert_int_equal(weir_tls_context_create(&ctx, NULL), -EINVAL);
#define WRONG(err, set)                                   \
	do {                                              \
		c = client_opts();                        \
		s = server_opts("server.pem");            \
		set;                                      \
		assert_int_equal(context_err(c.arg ? s : c), err); \
	} while (0)
	WRONG(-EINVAL, c.flags = 256);
	WRONG(-EINVAL, c.min_version = 0x301);
	WRONG(-EINVAL, (c.min_version = 0x304, c.max_version = 0x303));
	WRONG(-EINVAL, c.ciphers = "NONE-SUCH");
	WRONG(-EINVAL, c.ciphersuites = "NONE-SUCH");
	WRONG(-EINVAL, c.alpn = "a,,b");
	WRONG(-ENOENT, c.ca_file = "missing.pem");
	WRONG(-EKEYREJECTED, c.ca_file = tls_path("rubbish.pem"));
	WRONG(-EINVAL, (c.arg = &c, s.cert_file = NULL));
	WRONG(-ENOENT, (c.arg = &c, s.cert_file = "missing.pem"));
	WRONG(-EKEYREJECTED, (c.arg = &c,
			      s.key_file = tls_path("other.pem")));
	WRONG(-EKEYREJECTED, (c.arg = &c,
			      s.cert_file = tls_path("rubbish.pem")));
	WRONG(-EINVAL, c.psk_name = "ann");
	WRONG(-EINVAL, c.psk_file = keys_file(ANNS));
	WRONG(-EINVAL, (c.arg = &c, s.psk_file = keys_file(ANNS),
			s.psk_name = "ann"));
	WRONG(-ENOENT, (c.psk_file = "missing.psk", c.psk_name = "ann"));
	WRONG(-ENOENT, (c.psk_file = keys_file(ANNS), c.psk_name = "bob"));
#define WRONG_KEYS(words, lines)                                             \
	do {                                                                 \
		WRONG(-EKEYREJECTED, (c.psk_file = keys_file(lines),         \
				      c.psk_name = "ann"));                  \
		assert_non_null(strstr(weir_why(), words));                  \
	} while (0)
	WRONG_KEYS("has no keys", "# none\n");
	WRONG_KEYS("line 2: a line is NAME:KEY", ANNS "bob\n");
	WRONG_KEYS("line 1: a line is NAME:KEY", ":" KEY_1 "\n");
	WRONG_KEYS("hexadecimal", "ann:" KEY_1 "0\n");
	WRONG_KEYS("hexadecimal", "ann:" KEY_1 "0g\n");
	WRONG_KEYS("at least 16 bytes", "ann:0001020304\n");
	WRONG_KEYS("there twice", ANNS ANNS);
	{
		char line[2000];

		memset(line, '0', sizeof(line));
		memcpy(line, "ann:", 4);
		line[4 + 2 * 257] = 0;
		WRONG_KEYS("at most 256 bytes", line);
		line[1000] = 0;
		memset(line, '0', 999);
		WRONG_KEYS("too long", line);
		memset(line, 'a', 128);
		strcpy(line + 128, ":" KEY_1);
		WRONG_KEYS("at most 127 bytes", line);
	}
	weir_tls_context_destroy(NULL);
	weir_tls_session_free(NULL);
}

static void streams_without_tls_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_tls_info info = { .size = sizeof(info) };
	struct weir_tls_stream_opts opts = { .size = sizeof(opts), .host = "" };
	struct weir_tls_session *session = NULL;
	struct weir_tls_opts c = client_opts();
	struct weir_tls_context *ctx;
	struct weir_stream *s, *t = NULL;
	struct {
		struct weir_tls_stream_opts opts;
		char newer[8];
	} more = { { .size = sizeof(more) }, "newer" };
	int fd[2];

	socket_pair(fd);
	assert_int_equal(weir_tls_context_create(&ctx, &c), 0);
	assert_int_equal(weir_stream_create_fd(&s, r, fd[0], fd[0], NULL), 0);
	rec_init(&rec);
	assert_int_equal(weir_tls_handshake(s, &rec.op), -EINVAL);
	assert_int_equal(weir_tls_info(s, &info), -EINVAL);
	assert_int_equal(weir_tls_session_take(s, &session), -EINVAL);
	assert_string_equal(weir_tls_error(s), "");
	assert_int_equal(weir_tls_stream_create(&t, r, s, ctx, &opts),
			 -EINVAL);
	assert_int_equal(weir_tls_stream_create(&t, r, s, ctx, &more.opts),
			 -E2BIG);
	assert_null(t);
	assert_int_equal(weir_stream_close(s, NULL), 0);
	some_turns(r, 3);
	weir_tls_context_destroy(ctx);
	close(fd[1]);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(bytes_go_both_ways),
		CASE(versions_and_ciphers_all_work),
		CASE(records_are_whole_however_they_are_cut),
		CASE(peer_is_described),
		CASE(wrong_certificates_are_refused),
		CASE(dot_at_the_end_of_a_name_is_not_sent),
		CASE(clients_have_certificates_if_needed),
		CASE(protocols_are_agreed_on),
		CASE(names_choose_contexts),
		CASE(chosen_context_changes_no_trust),
		CASE(name_function_may_close_its_stream),
		CASE(sessions_are_resumed),
		CASE(keys_in_common_need_no_certificates),
		CASE(keys_that_differ_fail_the_handshake),
		CASE(server_without_the_name_shows_its_certificate),
		CASE(keys_are_reloaded),
		CASE(certificates_are_reloaded),
		REAL(threads_reload_at_the_same_time),
		CASE(directions_end_alone),
		CASE(shutdown_fails_with_the_connection),
		CASE(connection_that_was_cut_has_not_ended),
		CASE(handshake_has_a_deadline_and_a_cancel),
		CASE(cancelled_operations_leave_a_sound_connection),
		CASE(cancelled_write_is_sent_without_another),
		CASE(lack_of_capacity_below_is_no_end),
		CASE(close_ends_what_is_in_flight),
		CASE(rubbish_is_no_handshake),
		CASE(versions_in_common_are_needed),
		CASE(full_and_stopped_reactors_refuse),
		CASE(contexts_say_what_is_wrong),
		CASE(streams_without_tls_are_refused),
	};
	int failed;

	tls_begin();
	failed = harness_run_all(cases, N_OF(cases));
	tls_end();
	return failed;
}
