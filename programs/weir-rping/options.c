/* SPDX-License-Identifier: CC0-1.0 */
/* The command line: rping's letters, where they make sense here. */
#define _GNU_SOURCE 1
#include <getopt.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../common/number.h"
#include "../common/option.h"
#include "weir-rping.h"

#define NOT_GIVEN UINT64_MAX

enum { OPT_HELP = 256, OPT_VERSION };

static const char shorts[] = ":sca:p:I:C:S:PVv";
static const struct option longs[] = {
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: weir-rping -s [-a ADDRESS] [options]\n"
"       weir-rping -c -a ADDRESS [options]\n"
"Ping by RDMA reads and writes, with rping or weir-rping at the other end.\n"
"\n"
"Which end:\n"
"  -s                    server\n"
"  -c                    client\n"
"  -P                    serve one client after the other, and many at a time\n"
"\n"
"Where:\n"
"  -a ADDRESS            the server's, IPv4 or IPv6; or where it listens (all)\n"
"  -p PORT               the server's (7174)\n"
"  -I ADDRESS            a client's, to connect from\n"
"\n"
"What:\n"
"  -C COUNT              a client's pings; 0: until it is ended (0)\n"
"  -S SIZE               bytes of a ping, 26 to 65535 (64); a server's most\n"
"                        (65535)\n"
"  -V                    verify the bytes\n"
"\n"
"Output:\n"
"  -v                    show them\n"
"      --help            this text\n"
"      --version         the version of the library\n"
"\n"
"Examples:\n"
"  weir-rping -s -a 10.0.0.1\n"
"  weir-rping -c -a 10.0.0.1 -C 10 -V\n"
"\n"
"Exit status: 0 all went well; 1 it did not; 2 wrong usage.\n"
"weir-rping(1) has the details.\n";

static int usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	option_usage("weir-rping", fmt, ap);
	va_end(ap);
	return -1;
}

static int number(char letter, const char *arg, uint64_t min, uint64_t max,
		  uint64_t *ret)
{
	if (!number_parse(arg, min, max, ret))
		return 0;
	return usage("-%c %s: give a number from %llu to %llu", letter,
		     arg, (unsigned long long)min, (unsigned long long)max);
}

static int address(char letter, const char *arg, struct address *ret)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC,
				  .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	int err = getaddrinfo(arg, NULL, &hints, &found);

	if (err)
		return usage("-%c %s: %s", letter, arg, gai_strerror(err));
	memcpy(&ret->sa, found->ai_addr, found->ai_addrlen);
	ret->len = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

static void set_port(struct address *a, uint16_t port)
{
	if (a->sa.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&a->sa)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)&a->sa)->sin_port = htons(port);
}

/* What has a value. */
static int valued(struct options *o, int c, const char *arg, uint64_t *port)
{
	uint64_t n = 0;
	int err = 0;

	switch (c) {
	case 'a':
		return address('a', arg, &o->addr);
	case 'I':
		return address('I', arg, &o->from);
	case 'p':
		return number('p', arg, 1, 65535, port);
	case 'C':
		return number('C', arg, 0, UINT32_MAX, &o->count);
	default:
		err = number('S', arg, RPING_SIZE_MIN, RPING_SIZE_MAX, &n);
		o->size = (uint32_t)n;
		return err;
	}
}

/* 0; 1: that is all that there is to do; -1. */
static int one(struct options *o, int c, char **argv, int *role, uint64_t *port)
{
	char wrong[OPTION_TEXT];

	switch (c) {
	case 's':
	case 'c':
		if (*role && *role != c)
			return usage("-s or -c, not both");
		*role = c;
		return 0;
	case 'P':
		o->persistent = true;
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	case 'V':
		o->verify = true;
		return 0;
	case OPT_HELP:
		fputs(help, stdout);
		return 1;
	case OPT_VERSION:
		printf("weir-rping %s\n", weir_version());
		return 1;
	case '?':
	case ':':
		return usage("%s", option_wrong(wrong, c, argv, shorts, longs));
	default:
		return valued(o, c, optarg, port);
	}
}

static int check(struct options *o, int role, uint64_t port, bool more)
{
	if (!role)
		return usage("give -s to serve, or -c to connect");
	if (more)
		return usage("there are too many arguments");
	if (role == 'c' && !o->addr.len)
		return usage("-c requires -a ADDRESS");
	if (role == 's' && o->from.len)
		return usage("-I is for a client");
	if (role == 's' && o->count != NOT_GIVEN)
		return usage("-C is for a client");
	if (role == 'c' && o->persistent)
		return usage("-P is for a server");
	o->server = role == 's';
	if (o->count == NOT_GIVEN)
		o->count = 0;
	if (!o->addr.len) {
		o->addr.sa.ss_family = AF_INET;
		o->addr.len = sizeof(struct sockaddr_in);
	}
	set_port(&o->addr, (uint16_t)port);
	if (!o->size)
		o->size = o->server ? RPING_SIZE_MAX : RPING_SIZE;
	return 0;
}

int parse_options(struct options *o, int argc, char **argv, int *status)
{
	uint64_t port = RPING_PORT;
	int c, role = 0, done = 0;

	opterr = 0;
	o->count = NOT_GIVEN;
	*status = 2;
	while (!done && (c = getopt_long(argc, argv, shorts, longs,
					 NULL)) != -1)
		done = one(o, c, argv, &role, &port);
	if (done > 0)
		*status = 0;
	return done ? -1 : check(o, role, port, optind < argc);
}
