/* SPDX-License-Identifier: CC0-1.0 */

/*
 * An HTTP/1.1 server of the files below a directory.
 *
 *	43-http-files PORT DIRECTORY
 *
 * A connection is a stream: a request is what comes before an empty line, the
 * answer a header that is written to the stream and a file that is sent by it.
 * The constants below bound what a client may cost.  Nothing outside of the
 * directory is opened, whatever a path or a symbolic link says.
 *
 * Without a port it serves a file to itself, and ends.
 */

#define _GNU_SOURCE 1
#include <arpa/inet.h>
#include <errno.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/file.h>
#include <weir/reactor.h>
#include <weir/socket.h>
#include <weir/stream.h>

#include "http.h"

#define CLIENTS_MAX 10000
#define IDLE (30 * WEIR_SEC)	/* Until a request is complete. */
#define RATE_MIN 10000		/* Bytes per second that a client must take. */

struct client {
	struct weir_op op;
	struct weir_stream *s;
	int fd;			/* The file, or -1. */
	uint64_t until, off, len;
	struct request rq;
	char head[HEAD_MAX], answer[HEAD_MAX + 512];
};

static struct weir_reactor *reactor;
static struct weir_acceptor *acceptor;
static int root, clients, result = 1;
static char got[4096];		/* The answer to serve_itself(). */

static void next_request(struct client *c);

static void on_closed(struct weir_op *op, int64_t res)
{
	(void)res;
	free(weir_container_of(op, struct client, op));
	if (clients-- == CLIENTS_MAX)
		weir_acceptor_set(acceptor, 1);
}

static void hang_up(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->op.fn = on_closed;
	weir_stream_close(c->s, &c->op);
}

/* A close with bytes of the client unread would destroy what it has not got. */
static void on_rest(struct weir_op *op, int64_t res)
{
	struct client *c = weir_container_of(op, struct client, op);
	const void *data;

	weir_stream_consume(c->s, weir_stream_peek(c->s, &data));
	weir_op_set_deadline(op, c->until);
	if (res <= 0 || weir_stream_read(c->s, op, NULL, 0))
		hang_up(c);
}

static void on_shut(struct weir_op *op, int64_t res)
{
	struct client *c = weir_container_of(op, struct client, op);

	op->fn = on_rest;
	c->until = weir_reactor_now(reactor) + WEIR_SEC;
	on_rest(op, res < 0 ? res : 1);
}

static void on_sent(struct weir_op *op, int64_t res)
{
	struct client *c = weir_container_of(op, struct client, op);

	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	op->fn = on_shut;
	if (res < (int64_t)c->len)
		hang_up(c);	/* A file that became shorter, too. */
	else if (c->rq.keep)
		next_request(c);
	else if (weir_stream_shutdown(c->s, op))
		hang_up(c);
}

static void on_header(struct weir_op *op, int64_t res)
{
	struct client *c = weir_container_of(op, struct client, op);

	op->fn = on_sent;
	weir_op_set_deadline(op, c->until);
	if (res < 0 || weir_stream_sendfile(c->s, op, c->fd, c->off, c->len, 0))
		hang_up(c);
}

/* Send the header, with @extra fields, and @len bytes at @off of the file. */
static void answer(struct client *c, int status, const char *extra,
		   int64_t off, int64_t len)
{
	char now[40];
	int n;

	http_date(now, time(NULL));
	n = snprintf(c->answer, sizeof(c->answer), "HTTP/1.1 %d %s\r\n"
		     "Date: %s\r\n%s%s", status, http_reason(status), now, extra,
		     c->rq.keep ? "" : "Connection: close\r\n");
	if (status != 304)
		n += sprintf(c->answer + n, "Content-Length: %lld\r\n",
			     (long long)len);
	n += sprintf(c->answer + n, "\r\n");
	if (c->rq.is_head || status == 304 || c->fd < 0)
		len = 0;
	c->op.fn = len ? on_header : on_sent;
	c->off = (uint64_t)off;
	c->len = (uint64_t)len;
	c->until = weir_reactor_now(reactor) + IDLE + c->len / RATE_MIN * WEIR_SEC;
	weir_op_set_deadline(&c->op, c->until);
	if (weir_stream_write(c->s, &c->op, c->answer, (size_t)n,
			      len ? WEIR_STREAM_MORE : 0))
		hang_up(c);
}

static void answer_error(struct client *c, int status)
{
	answer(c, status, status == 405 ? "Allow: GET, HEAD\r\n" : "", 0, 0);
}

static void answer_file(struct client *c, const struct stat *st)
{
	int64_t first = 0, last = st->st_size - 1;
	char fields[400], when[40];
	int status, n;

	http_date(when, st->st_mtime);
	n = sprintf(fields, "Last-Modified: %s\r\nContent-Type: %s\r\n"
		    "Accept-Ranges: bytes\r\n", when, http_type(c->rq.path));
	status = http_choose(&c->rq, st->st_size, st->st_mtime, &first, &last);
	if (status == 206)
		sprintf(fields + n, "Content-Range: bytes %lld-%lld/%lld\r\n",
			(long long)first, (long long)last,
			(long long)st->st_size);
	if (status == 416)
		sprintf(fields, "Content-Range: bytes */%lld\r\n",
			(long long)st->st_size);
	answer(c, status, fields, first, last - first + 1);
}

static void on_open(struct weir_op *op, int64_t res)
{
	struct client *c = weir_container_of(op, struct client, op);
	struct stat st = { 0 };

	c->fd = (int)res;
	if (res < 0)
		answer_error(c, res == -EACCES ? 403 : res == -ENAMETOOLONG ?
			     414 : res == -EMFILE ? 503 : 404);
	else if (fstat(c->fd, &st) || !S_ISREG(st.st_mode))
		answer_error(c, S_ISDIR(st.st_mode) ? 404 : 403);
	else
		answer_file(c, &st);
}

/* Without openat2(2) a link may lead out, so a file must not be one. */
static void open_file(struct client *c)
{
	struct open_how how = {
		.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	int err;

	c->op.fn = on_open;
	weir_op_set_deadline(&c->op, weir_reactor_now(reactor) + IDLE);
	err = weir_open_how(reactor, &c->op, root, c->rq.path, &how,
			    sizeof(how));
	if (err == -EOPNOTSUPP)
		err = weir_open(reactor, &c->op, root, c->rq.path,
				O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0);
	if (err)
		hang_up(c);
}

static void on_request(struct weir_op *op, int64_t res)
{
	struct client *c = weir_container_of(op, struct client, op);
	int status;

	if (res == -EMSGSIZE) {
		c->rq.keep = 0;
		answer_error(c, 431);
	} else if (res <= 0) {
		hang_up(c);
	} else if ((status = http_parse(&c->rq, c->head, (size_t)res)) == 200) {
		open_file(c);
	} else {
		answer_error(c, status);
	}
}

static void next_request(struct client *c)
{
	c->op.fn = on_request;
	weir_op_set_deadline(&c->op, weir_reactor_now(reactor) + IDLE);
	if (weir_stream_read_until(c->s, &c->op, c->head, HEAD_MAX, "\r\n\r\n",
				   4))
		hang_up(c);
}

static void on_connection(struct weir_acceptor *a, int fd, void *arg)
{
	struct client *c = calloc(1, sizeof(*c));

	(void)a, (void)arg;
	if (fd < 0 || !c || weir_stream_create_fd(&c->s, reactor, fd, fd, NULL)) {
		close(fd);
		free(c);
		return;
	}
	c->fd = -1;
	if (++clients == CLIENTS_MAX)
		weir_acceptor_set(acceptor, 0);
	next_request(c);
}

/* What serve_itself() has asked for ends with "hello". */
static void on_answer(struct weir_op *op, int64_t res)
{
	(void)op;
	result = res < 5 || memcmp(got + res - 5, "hello", 5) != 0;
	puts(got);
	weir_reactor_stop(reactor);
}

static int serve_itself(const struct sockaddr_in *to)
{
	static const char ask[] = "GET /%68ello.txt HTTP/1.1\r\nHost: me\r\n"
				  "Range: bytes=0-4\r\nConnection: close\r\n\r\n";
	static struct weir_op op;
	struct weir_stream *s;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int file = openat(root, "hello.txt", O_CREAT | O_WRONLY, 0600);
	int bad = file < 0 || write(file, "hello, world\n", 13) != 13 ||
		  connect(fd, (const struct sockaddr *)to, sizeof(*to)) ||
		  weir_stream_create_fd(&s, reactor, fd, fd, NULL);

	weir_op_init(&op, on_answer);
	bad = bad || weir_stream_put(s, ask, sizeof(ask) - 1, 0) ||
	      weir_stream_read_exact(s, &op, got, sizeof(got));
	if (!bad)
		bad = weir_reactor_run(reactor) || weir_stream_close(s, NULL);
	return close(file) || unlinkat(root, "hello.txt", 0) || bad || result;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	char dir[] = "/tmp/43-http-files.XXXXXX";
	socklen_t len = sizeof(at);
	int fd, failed;

	if (argc != 1 && argc != 3)
		return fprintf(stderr, "43-http-files [PORT DIRECTORY]\n"), 2;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	at.sin_port = htons(argc > 1 ? (uint16_t)atoi(argv[1]) : 0);
	root = argc > 1 || mkdtemp(dir) ? open(argc > 1 ? argv[2] : dir,
				       O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (root < 0 || weir_listen(&fd, (struct sockaddr *)&at, len, 1024, 0) ||
	    getsockname(fd, (struct sockaddr *)&at, &len) ||
	    weir_reactor_create(&reactor, NULL) ||
	    weir_acceptor_create(&acceptor, reactor, fd, on_connection, NULL)) {
		fprintf(stderr, "43-http-files: %s\n", root < 0 ?
			strerror(errno) : weir_why());
		return 1;
	}
	printf("http://127.0.0.1:%d/\n", ntohs(at.sin_port));
	fflush(stdout);
	failed = argc > 1 ? weir_reactor_run(reactor) : serve_itself(&at);
	if (argc == 1)
		rmdir(dir);
	weir_acceptor_destroy(acceptor);
	close(fd);
	return weir_reactor_destroy(reactor) || failed;
}
