/* SPDX-License-Identifier: BSD-3-Clause */

/* A client that batches: see the header. */

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/nbd-client.h"
#include "bench/nbd-proto.h"

#define DEPTH_MAX 128
#define BLOCK_MAX ((size_t)1 << 20)
#define WRITES_MAX (DEPTH_MAX * ((size_t)4 << 10))	/* Or a few large ones. */
#define RX ((size_t)1 << 20)
#define TX (WRITES_MAX + 4 * BLOCK_MAX + DEPTH_MAX * sizeof(struct request))

struct nbd_conn {
	int fd;
	uint32_t under_way;
	size_t skip;		/* Bytes of data still to come. */
	size_t have;		/* Of a header, at the beginning of rx. */
	size_t to_send;
	uint64_t now_ns;	/* When something came, and what that sends. */
	struct bench_hist *latency;
	char rx[RX], tx[TX];
};

static int read_all(int fd, void *to, size_t len)
{
	char *at = to;

	while (len) {
		ssize_t n = read(fd, at, len);

		if (n <= 0)
			return n ? -errno : -EPIPE;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static int write_all(int fd, const void *from, size_t len)
{
	const char *at = from;

	while (len) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

		if (n <= 0)
			return -errno;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static int connect_to(const struct nbd_place *at)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(at->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd, err, one = 1;

	fd = socket(at->path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (at->path) {
		snprintf(un.sun_path, sizeof(un.sun_path), "%s", at->path);
		err = connect(fd, (struct sockaddr *)&un, sizeof(un));
	} else {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		err = connect(fd, (struct sockaddr *)&in, sizeof(in));
	}
	if (!err)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* The oldest way to choose an export: there is nothing more that we need. */
static int shake_hands(int fd, const char *name, uint64_t *size)
{
	struct {
		uint32_t flags;
		uint64_t magic;
		uint32_t option, len;
	} __attribute__((packed)) ask = {
		.flags = htobe32(FIXED_NO_ZEROES),
		.magic = htobe64(OPTIONS_MAGIC),
		.option = htobe32(OPT_EXPORT_NAME),
		.len = htobe32((uint32_t)strlen(name)),
	};
	char greeting[18], answer[10];
	int err;

	err = read_all(fd, greeting, sizeof(greeting));
	if (!err)
		err = write_all(fd, &ask, sizeof(ask));
	if (!err)
		err = write_all(fd, name, strlen(name));
	if (!err)
		err = read_all(fd, answer, sizeof(answer));
	if (err)
		return err;
	memcpy(size, answer, sizeof(*size));
	*size = be64toh(*size);
	return 0;
}

static int open_one(struct nbd_client *c, const struct nbd_place *at,
		    const char *name)
{
	struct nbd_conn *conn;
	int err, fd = connect_to(at);

	if (fd < 0)
		return fd;
	err = shake_hands(fd, name, &c->size);
	conn = err ? NULL : calloc(1, sizeof(*conn));
	if (!conn) {
		close(fd);
		return err ? err : -ENOMEM;
	}
	conn->fd = fd;
	c->conn[c->n++] = conn;
	return 0;
}

int nbd_open(struct nbd_client *c, const struct nbd_place *at, const char *name,
	     int n)
{
	int err = 0;

	memset(c, 0, sizeof(*c));
	c->random = 0x9e3779b97f4a7c15;
	while (c->n < n && !err)
		err = open_one(c, at, name);
	if (err)
		nbd_close(c);
	return err;
}

void nbd_close(struct nbd_client *c)
{
	while (c->n) {
		struct nbd_conn *conn = c->conn[--c->n];

		close(conn->fd);
		free(conn);
	}
}

static uint64_t next_offset(struct nbd_client *c, const struct nbd_work *work)
{
	uint64_t blocks = c->size / work->block;
	uint64_t k = work->sequential ? c->next++ : bench_random(&c->random);

	return k % blocks * work->block;
}

static void ask(struct nbd_client *c, struct nbd_conn *conn,
		const struct nbd_work *work)
{
	struct request r = {
		.magic = htobe32(REQUEST_MAGIC), .type = htobe16(work->write),
		.handle = conn->now_ns, .offset = htobe64(next_offset(c, work)),
		.len = htobe32(work->block),
	};

	memcpy(conn->tx + conn->to_send, &r, sizeof(r));
	conn->to_send += sizeof(r) + (work->write ? work->block : 0);
	conn->under_way++;
}

static void flush(struct nbd_conn *conn)
{
	bench_must(write_all(conn->fd, conn->tx, conn->to_send), "to a server");
	conn->to_send = 0;
}

static void take_reply(struct nbd_conn *conn, const char *at,
		       const struct nbd_work *work)
{
	struct reply r;

	memcpy(&r, at, sizeof(r));
	if (be32toh(r.magic) != REPLY_MAGIC)
		bench_die("no reply of a server", EPROTO);
	if (r.error)
		bench_die("a server", (int)be32toh(r.error));
	if (conn->latency)
		bench_hist_add(conn->latency, conn->now_ns - r.handle);
	conn->skip = work->write ? 0 : work->block;
}

/* How many requests have their answer, to the last byte, by @len bytes more. */
static uint32_t parse(struct nbd_conn *conn, size_t len,
		      const struct nbd_work *work)
{
	size_t at = 0, step;
	uint32_t done = 0;

	len += conn->have;
	for (;;) {
		step = conn->skip < len - at ? conn->skip : len - at;
		conn->skip -= step;
		at += step;
		if (conn->skip || len - at < sizeof(struct reply))
			break;
		take_reply(conn, conn->rx + at, work);
		at += sizeof(struct reply);
		done++;
	}
	conn->have = len - at;
	memmove(conn->rx, conn->rx + at, conn->have);
	return done;
}

/* Whatever has come.  A reply whose data are still to come counts as done: it
 * is one of so many. */
static uint32_t receive(struct nbd_conn *conn, const struct nbd_work *work)
{
	ssize_t n = read(conn->fd, conn->rx + conn->have, RX - conn->have);
	uint32_t done;

	if (n <= 0)
		bench_die("a server has left", n ? errno : EPIPE);
	conn->now_ns = bench_wall_ns();
	done = parse(conn, (size_t)n, work);
	conn->under_way -= done;
	return done;
}

/* The connections that have something, or the only one. */
static void wait_for(struct nbd_client *c, bool *ready)
{
	struct pollfd p[NBD_CONNS_MAX];

	for (int i = 0; i < c->n; i++)
		p[i] = (struct pollfd){ c->conn[i]->fd, POLLIN, 0 };
	if (c->n > 1 && poll(p, (nfds_t)c->n, -1) < 0)
		bench_die("poll", errno);
	for (int i = 0; i < c->n; i++)
		ready[i] = c->n == 1 || p[i].revents;
}

static bool is_waiting(const struct nbd_client *c)
{
	for (int i = 0; i < c->n; i++)
		if (c->conn[i]->under_way || c->conn[i]->skip)
			return true;
	return false;
}

/* One turn; while there is @more to do, each answer makes another request. */
static uint64_t turn(struct nbd_client *c, const struct nbd_work *work,
		     bool more)
{
	bool ready[NBD_CONNS_MAX];
	uint64_t sum = 0;
	uint32_t done;

	wait_for(c, ready);
	for (int i = 0; i < c->n; i++) {
		if (!ready[i])
			continue;
		done = receive(c->conn[i], work);
		sum += done;
		while (more && done--)
			ask(c, c->conn[i], work);
		flush(c->conn[i]);
	}
	return sum;
}

uint64_t nbd_run(struct nbd_client *c, const struct nbd_work *work, uint64_t ns,
		 uint64_t *took)
{
	uint64_t begun = bench_wall_ns(), done = 0;

	for (int i = 0; i < c->n; i++) {
		c->conn[i]->now_ns = begun;
		c->conn[i]->latency = c->latency;
		for (uint32_t k = 0; k < work->depth; k++)
			ask(c, c->conn[i], work);
		flush(c->conn[i]);
	}
	while (is_waiting(c))
		done += turn(c, work, bench_wall_ns() - begun < ns);
	*took = bench_wall_ns() - begun;
	return done;
}
