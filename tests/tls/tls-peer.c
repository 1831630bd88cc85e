/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of TLS connections, for test-tls-openssl.sh.
 *
 *	tls-peer server CERT [ALPN [VERSION]]	prints its port, and sends back
 *						what it gets, until it is killed
 *	tls-peer client PORT HOST CA [VERSION [CIPHER]]
 *						sends its standard input, and
 *						prints what it gets
 *
 * A connection is a line on standard error: version, cipher, protocol, 1 if it
 * was resumed, and its result.  The server says the end in its turn.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/reactor.h>
#include <weir/socket.h>
#include <weir/tls/tls.h>

struct conn {
	struct weir_op op, out;
	struct weir_stream *s;
	char buf[20000];
	int is_client;
};

static struct weir_reactor *reactor;
static struct weir_tls_context *ctx;

static void on_closed(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, op);

	(void)res;
	if (c->is_client)
		weir_reactor_stop(reactor);
	free(c);
}

static void end(struct conn *c, int64_t res)
{
	struct weir_tls_info info = { .size = sizeof(info) };

	weir_tls_info(c->s, &info);
	fprintf(stderr, "%x %s %s %u %s\n", info.version,
		*info.cipher ? info.cipher : "-", *info.alpn ? info.alpn : "-",
		info.resumed, res < 0 ? strerrorname_np((int)-res) : "end");
	c->op.fn = on_closed;
	weir_stream_close(c->s, &c->op);
}

static void on_shut(struct weir_op *op, int64_t res)
{
	end(weir_container_of(op, struct conn, op), res);
}

static void on_read(struct weir_op *op, int64_t res);

static void on_written(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, op);

	op->fn = on_read;
	if (res < 0 ||
	    weir_stream_read(c->s, op, c->buf, sizeof(c->buf)))
		end(c, res < 0 ? res : -EIO);
}

static void on_read(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, op);
	int err;

	if (res < 0 || (!res && c->is_client)) {
		end(c, res);
		return;
	}
	if (c->is_client) {
		fwrite(c->buf, 1, (size_t)res, stdout);
		fflush(stdout);
		err = weir_stream_read(c->s, op, c->buf, sizeof(c->buf));
	} else if (!res) {
		op->fn = on_shut;
		err = weir_stream_shutdown(c->s, op);
	} else {
		op->fn = on_written;
		err = weir_stream_write(c->s, op, c->buf, (size_t)res, 0);
	}
	if (err)
		end(c, err);
}

static void on_said(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, out);

	if (res < 0)
		fprintf(stderr, "write: %s\n", strerrorname_np((int)-res));
	(void)c;
}

static void on_handshake(struct weir_op *op, int64_t res)
{
	static char text[1 << 20];
	struct conn *c = weir_container_of(op, struct conn, op);

	if (res < 0) {
		fprintf(stderr, "%s\n", weir_tls_error(c->s));
		end(c, res);
		return;
	}
	if (c->is_client) {
		weir_op_init(&c->out, on_said);
		weir_stream_write(c->s, &c->out, text,
				  fread(text, 1, sizeof(text), stdin), 0);
	}
	on_written(op, 0);
}

static void begin(int fd, const char *host)
{
	struct weir_tls_stream_opts opts = { .size = sizeof(opts),
					     .host = host };
	struct conn *c = calloc(1, sizeof(*c));
	struct weir_stream *lower;

	c->is_client = host != NULL;
	weir_op_init(&c->op, on_handshake);
	weir_op_set_deadline(&c->op, weir_reactor_now(reactor) + 20 * WEIR_SEC);
	if (weir_stream_create_fd(&lower, reactor, fd, fd, NULL) ||
	    weir_tls_stream_create(&c->s, reactor, lower, ctx, &opts) ||
	    weir_tls_handshake(c->s, &c->op)) {
		fprintf(stderr, "%s\n", weir_why());
		exit(1);
	}
}

static void on_connection(struct weir_acceptor *a, int fd, void *arg)
{
	(void)a, (void)arg;
	if (fd >= 0)
		begin(fd, NULL);
}

static uint16_t version(const char *text)
{
	return !strcmp(text, "1.2") ? WEIR_TLS_1_2 :
	       !strcmp(text, "1.3") ? WEIR_TLS_1_3 : 0;
}

static int serve(struct sockaddr_in *at)
{
	struct weir_acceptor *acceptor;
	socklen_t len = sizeof(*at);
	int fd;

	if (weir_listen(&fd, (struct sockaddr *)at, len, 16, 0) ||
	    weir_acceptor_create(&acceptor, reactor, fd, on_connection, NULL) ||
	    getsockname(fd, (struct sockaddr *)at, &len))
		return -1;
	printf("%d\n", ntohs(at->sin_port));
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	struct weir_tls_opts opts = { .size = sizeof(opts) };
	struct sockaddr_in at = { .sin_family = AF_INET };
	int fd, is_client = argc > 4 && !strcmp(argv[1], "client");

	if (argc < 3)
		return 2;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (is_client) {
		at.sin_port = htons((uint16_t)atoi(argv[2]));
		opts.ca_file = argv[4];
		opts.min_version = opts.max_version =
			argc > 5 ? version(argv[5]) : 0;
		if (argc > 6 && opts.max_version == WEIR_TLS_1_2)
			opts.ciphers = argv[6];
		else if (argc > 6)
			opts.ciphersuites = argv[6];
		opts.alpn = "test";
	} else {
		opts.flags = WEIR_TLS_SERVER;
		opts.cert_file = argv[2];
		opts.alpn = argc > 3 && *argv[3] ? argv[3] : NULL;
		opts.min_version = opts.max_version =
			argc > 4 ? version(argv[4]) : 0;
	}
	if (weir_reactor_create(&reactor, NULL) ||
	    weir_tls_context_create(&ctx, &opts)) {
		fprintf(stderr, "%s\n", weir_why());
		return 1;
	}
	if (is_client) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(fd, (struct sockaddr *)&at, sizeof(at)))
			return 1;
		begin(fd, argv[3]);
	} else if (serve(&at)) {
		return 1;
	}
	weir_reactor_run(reactor);
	weir_tls_context_destroy(ctx);
	return weir_reactor_destroy(reactor) != 0;
}
