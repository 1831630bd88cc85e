/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A client for the examples 27 and 28, which have an NBD server inside: a
 * thread with plain blocking calls.  It writes a block, reads it back, and asks
 * the process to end as a user would, by SIGTERM.
 */

#ifndef NBD_VISITOR_H
#define NBD_VISITOR_H

#include <endian.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define VISITOR_BLOCK 4096

static struct {
	char export[64], socket[64];	/* Arguments of the server. */
	char dir[32];
	pthread_t thread;
	int fd;
	int served;		/* All was as it should be. */
} visitor = { .dir = "/tmp/nbd-visitor-XXXXXX" };

static int visitor_say(const void *p, size_t len)
{
	return send(visitor.fd, p, len, MSG_NOSIGNAL) == (ssize_t)len ? 0 : -1;
}

static int visitor_hear(void *p, size_t len)
{
	return recv(visitor.fd, p, len, MSG_WAITALL) == (ssize_t)len ? 0 : -1;
}

/* The shortest of all handshakes: of the export without a name. */
static int visitor_greet(void)
{
	struct __attribute__((packed)) {
		uint32_t flags;
		uint64_t magic;
		uint32_t option, len;
	} hello = { htobe32(3), htobe64(0x49484156454f5054), htobe32(1), 0 };
	char greeting[18], size_and_flags[10];

	return visitor_hear(greeting, sizeof(greeting)) ||
	       visitor_say(&hello, sizeof(hello)) ||
	       visitor_hear(size_and_flags, sizeof(size_and_flags));
}

/* Of the first block: @type 0 reads it, 1 writes it, 2 disconnects. */
static int visitor_ask(uint16_t type)
{
	struct __attribute__((packed)) {
		uint32_t magic;
		uint16_t flags, type;
		uint64_t cookie, off;
		uint32_t len;
	} request = { htobe32(0x25609513), 0, htobe16(type), 0, 0,
		      htobe32(type == 2 ? 0 : VISITOR_BLOCK) };

	return visitor_say(&request, sizeof(request));
}

/* The reply to either: a magic number, an error, and a cookie. */
static int visitor_is_told(void)
{
	uint32_t reply[4];

	return visitor_hear(reply, sizeof(reply)) || reply[1];
}

static int visitor_talk(void)
{
	char out[VISITOR_BLOCK], in[VISITOR_BLOCK];

	memset(out, 'w', sizeof(out));
	if (visitor_greet() ||
	    visitor_ask(1) || visitor_say(out, sizeof(out)) ||
	    visitor_is_told() ||
	    visitor_ask(0) || visitor_is_told() ||
	    visitor_hear(in, sizeof(in)) || visitor_ask(2))
		return -1;
	return memcmp(in, out, sizeof(out)) ? -1 : 0;
}

static void *visitor_run(void *arg)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	strcpy(sun.sun_path, strchr(visitor.socket, '=') + 1);
	visitor.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	visitor.served = !connect(visitor.fd, (void *)&sun, sizeof(sun)) &&
			 !visitor_talk();
	close(visitor.fd);
	usleep(20000); /* For the host's timer. */
	kill(getpid(), SIGTERM);
	return arg;
}

/* Fill in the default arguments of a server: memory, at a socket in a directory
 * of its own.  Returns how many, or -1. */
static int visitor_args(char *argv[4])
{
	if (!mkdtemp(visitor.dir))
		return -1;
	sprintf(visitor.socket, "--unix=%s/socket", visitor.dir);
	strcpy(visitor.export, "--export=size=64M");
	argv[1] = visitor.export;
	argv[2] = visitor.socket;
	argv[3] = NULL;
	return 3;
}

/* The server listens. */
static int visitor_come(void)
{
	alarm(20); /* Should it never answer. */
	return pthread_create(&visitor.thread, NULL, visitor_run, NULL);
}

/* Returns whether it was served well, and @ticks of a host's timer went by. */
static int visitor_go(unsigned int ticks)
{
	pthread_join(visitor.thread, NULL);
	rmdir(visitor.dir);
	printf("served: %s; %u ticks beside it\n",
	       visitor.served ? "yes" : "NO", ticks);
	return visitor.served && ticks;
}

#endif /* NBD_VISITOR_H */
