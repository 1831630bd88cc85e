/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A server for one NBD client, as the floor for weir-nbd: it maps the file, so a read
 * copies nothing but what the socket does, answers all requests of a recv(2) by one
 * sendmsg(2), and checks little.
 */

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench/bare-nbd.h"
#include "bench/nbd-proto.h"

#define BATCH 256
#define RX (BATCH * 4200u)

enum { READ, WRITE, DISCONNECT };

static char *map;
static size_t size;
static char rx[RX];
static size_t have;
static struct reply replies[BATCH];
static struct iovec iov[2 * BATCH];
static int n_replies, n_iov;

static int fail(const char *what)
{
	perror(what);
	return 1;
}

static int accept_at(const char *where)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	bool is_tcp = isdigit((unsigned char)where[0]);
	int one = 1, fd;

	fd = socket(is_tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (is_tcp) {
		in.sin_port = htons((uint16_t)atoi(where));
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, (struct sockaddr *)&in, sizeof(in)))
			return -1;
	} else {
		snprintf(un.sun_path, sizeof(un.sun_path), "%s", where);
		if (bind(fd, (struct sockaddr *)&un, sizeof(un)))
			return -1;
	}
	if (listen(fd, 1))
		return -1;
	fd = accept(fd, NULL, NULL);
	if (fd >= 0 && is_tcp)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* The client asks by the oldest option, which has no answer but the size. */
static bool shake_hands(int fd)
{
	static const char greeting[18] = "NBDMAGICIHAVEOPT\0\3";
	struct {
		uint64_t size;
		uint16_t flags;
	} __attribute__((packed)) answer = { htobe64(size), htobe16(1) };
	char ask[20], name[256];
	uint32_t len;

	if (write(fd, greeting, sizeof(greeting)) != sizeof(greeting) ||
	    recv(fd, ask, sizeof(ask), MSG_WAITALL) != sizeof(ask))
		return false;
	memcpy(&len, ask + 16, sizeof(len));
	len = be32toh(len);
	return len <= sizeof(name) &&
	       recv(fd, name, len, MSG_WAITALL) == (ssize_t)len &&
	       write(fd, &answer, sizeof(answer)) == sizeof(answer);
}

static bool flush(int fd)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = (size_t)n_iov };
	ssize_t n;

	while (msg.msg_iovlen) {
		n = sendmsg(fd, &msg, MSG_NOSIGNAL);
		if (n < 0)
			return false;
		while (msg.msg_iovlen && (size_t)n >= msg.msg_iov->iov_len) {
			n -= (ssize_t)msg.msg_iov->iov_len;
			msg.msg_iov++;
			msg.msg_iovlen--;
		}
		if (msg.msg_iovlen) {
			msg.msg_iov->iov_base = (char *)msg.msg_iov->iov_base + n;
			msg.msg_iov->iov_len -= (size_t)n;
		}
	}
	n_replies = n_iov = 0;
	return true;
}

/* All whole requests that there are.  False: the end. */
static bool serve(int fd)
{
	struct request r;
	uint64_t offset;
	size_t at = 0;
	uint32_t len;

	while (have - at >= sizeof(r)) {
		memcpy(&r, rx + at, sizeof(r));
		offset = be64toh(r.offset);
		len = be32toh(r.len);
		if (be16toh(r.type) == DISCONNECT || offset > size ||
		    len > size - offset)
			return false;
		if (be16toh(r.type) == WRITE) {
			if (have - at < sizeof(r) + len)
				break;
			memcpy(map + offset, rx + at + sizeof(r), len);
			at += len;
		}
		at += sizeof(r);
		replies[n_replies] = (struct reply){ htobe32(REPLY_MAGIC), 0,
						     r.handle };
		iov[n_iov++] = (struct iovec){ &replies[n_replies++],
					       sizeof(struct reply) };
		if (be16toh(r.type) == READ)
			iov[n_iov++] = (struct iovec){ map + offset, len };
		if (n_replies == BATCH && !flush(fd))
			return false;
	}
	have -= at;
	memmove(rx, rx + at, have);
	return flush(fd);
}

int bare_nbd(const char *where, const char *file)
{
	struct stat st;
	ssize_t n;
	int fd;

	fd = open(file, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return fail(file);
	size = (size_t)st.st_size;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		   fd, 0);
	if (map == MAP_FAILED)
		return fail("mmap");
	fd = accept_at(where);
	if (fd < 0)
		return fail(where);
	if (!shake_hands(fd))
		return fail("no handshake");
	do {
		n = recv(fd, rx + have, sizeof(rx) - have, 0);
		have += n > 0 ? (size_t)n : 0;
	} while (n > 0 && serve(fd));
	return 0;
}
