/* SPDX-License-Identifier: CC0-1.0 */
/* The command line. */
#define _GNU_SOURCE 1
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../common/number.h"
#include "../common/option.h"
#include "weir-nbd.h"

#define STRING_(n) #n
#define STRING(n) STRING_(n)

enum { OPT_EXPORT = 256, OPT_UNIX, OPT_ADDRESS, OPT_PORT, OPT_CORES,
       OPT_CONNECTIONS, OPT_PER_PEER, OPT_TIMEOUT, OPT_HANDSHAKE, OPT_IDLE,
       OPT_GRACE, OPT_TLS, OPT_TLS_CERTIFICATES, OPT_TLS_PSK,
       OPT_TLS_VERIFY_PEER, OPT_STATS, OPT_VERSION };

static const char shorts[] = ":hqr";
static const struct option options[] = {
	{ "export", required_argument, NULL, OPT_EXPORT },
	{ "read-only", no_argument, NULL, 'r' },
	{ "unix", required_argument, NULL, OPT_UNIX },
	{ "address", required_argument, NULL, OPT_ADDRESS },
	{ "port", required_argument, NULL, OPT_PORT },
	{ "tls", required_argument, NULL, OPT_TLS },
	{ "tls-certificates", required_argument, NULL, OPT_TLS_CERTIFICATES },
	{ "tls-psk", required_argument, NULL, OPT_TLS_PSK },
	{ "tls-verify-peer", no_argument, NULL, OPT_TLS_VERIFY_PEER },
	{ "cores", required_argument, NULL, OPT_CORES },
	{ "connections", required_argument, NULL, OPT_CONNECTIONS },
	{ "per-peer", required_argument, NULL, OPT_PER_PEER },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "handshake", required_argument, NULL, OPT_HANDSHAKE },
	{ "idle", required_argument, NULL, OPT_IDLE },
	{ "grace", required_argument, NULL, OPT_GRACE },
	{ "stats", no_argument, NULL, OPT_STATS },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: weir-nbd [options] [FILE | EXPORT]... [--export=EXPORT]...\n"
"Serve files, block devices, memory and whatever plugins bring as network block\n"
"devices.\n"
"\n"
"What is served: FILE, a file or block device, and each\n"
"      --export=[name=NAME,]path=PATH[,ro][,direct][,text=TEXT]\n"
"                        a file or block device\n"
"      --export=[name=NAME,]size=SIZE[,ro][,text=TEXT]\n"
"                        memory, which is forgotten\n"
"      --export=[name=NAME,]plugin=OBJECT[,args=ARGS][,ro][,text=TEXT]\n"
"                        what a shared object brings\n"
"  -r, --read-only       no client may write, to any of them\n"
"\n"
"Where:\n"
"      --unix=PATH       listen at a UNIX socket, which is the owner's alone\n"
"      --address=ADDRESS listen at a TCP address (127.0.0.1)\n"
"      --port=PORT       of it; 0: any that is free (" STRING(PORT) ")\n"
"\n"
"TLS, as nbdkit has it:\n"
"      --tls=MODE        off; on: clients may use it; require: they must\n"
"                        (require with one of the next two, otherwise off)\n"
"      --tls-certificates=DIR\n"
"                        with server-cert.pem, server-key.pem and ca-cert.pem\n"
"      --tls-psk=FILE    keys that clients have, too, as psktool(1) makes them\n"
"      --tls-verify-peer clients need a certificate by ca-cert.pem\n"
"\n"
"Limits:\n"
"      --cores=N         reactors; 0: one for each CPU (0)\n"
"      --connections=N   at a time; up to 2 MiB of memory for each (32)\n"
"      --per-peer=N      of them from one IP address (half of --connections)\n"
"      --timeout=SECONDS for half of a request, and for replies that are\n"
"                        not taken (30)\n"
"      --handshake=SECONDS\n"
"                        until a client has chosen its export (10)\n"
"      --idle=SECONDS    without a request, then the client is disconnected;\n"
"                        0: never (0)\n"
"      --grace=SECONDS   for what is in flight when a signal says stop (5)\n"
"\n"
"Output:\n"
"      --stats           numbers for 'weir top', and at the end on stdout\n"
"  -q, --quiet           do not say where it listens\n"
"  -h, --help            this text\n"
"      --version         the version of the library\n"
"\n"
"Examples:\n"
"  weir-nbd disk.img\n"
"  weir-nbd -r disk.img --unix=/run/disk.sock\n"
"  weir-nbd --export=name=scratch,size=1G --address=10.0.0.1\n"
"\n"
"Without --unix, --address, --port and sockets of a service manager it listens\n"
"at 127.0.0.1.\n"
"Exit status: 0 it was stopped; 1 it failed; 2 wrong usage; 3 nothing could be\n"
"begun.  weir-nbd(1) has the details.\n";

void usage_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	option_usage("weir-nbd", fmt, ap);
	va_end(ap);
}

static int parse_number(const char *name, const char *arg, unsigned long min,
			unsigned long max, uint32_t *ret)
{
	uint64_t n;

	if (number_parse(arg, min, max, &n)) {
		usage_error("--%s=%s: give a number from %lu to %lu", name,
			    arg, min, max);
		return -1;
	}
	*ret = (uint32_t)n;
	return 0;
}

typedef int parse_fn(struct block *b, const char *program, char *arg,
		     void (*usage)(const char *fmt, ...));

static int parse_export(struct server *server, char *arg, parse_fn *parse)
{
	struct block *x = &server->exports[server->n_exports];

	if (server->n_exports == EXPORTS_MAX) {
		usage_error("more than %u exports", EXPORTS_MAX);
		return -1;
	}
	if (parse(x, "weir-nbd", arg, usage_error))
		return -1;
	for (struct block *y = server->exports; y < x; y++)
		if (!strcmp(y->name, x->name)) {
			usage_error("two exports are named '%s'; give one of "
				    "them a name, --export=name=NAME,...",
				    x->name);
			return -1;
		}
	server->n_exports++;
	return 0;
}

static int parse_tcp(struct opts *o, int c, const char *arg)
{
	uint32_t port;

	o->tcp = true;
	if (c == OPT_ADDRESS) {
		o->address = arg;
		return 0;
	}
	o->port = arg;
	return parse_number("port", arg, 0, 65535, &port);
}

static int parse_tls(enum tls_mode *ret, const char *arg)
{
	static const char *const modes[] = { "off", "on", "require" };

	for (int i = TLS_OFF; i <= TLS_REQUIRE; i++)
		if (!strcmp(arg, modes[i])) {
			*ret = (enum tls_mode)i;
			return 0;
		}
	usage_error("--tls=%s: it is off, on or require", arg);
	return -1;
}

/* @said: --tls was given. */
static int check_tls(struct opts *o, bool said)
{
	bool has_keys = o->tls_dir || o->tls_psk;

	if (!said)
		o->tls = has_keys ? TLS_REQUIRE : TLS_OFF;
	if (o->tls && !has_keys)
		usage_error("--tls needs --tls-certificates or --tls-psk");
	else if (o->tls_verify_peer && !o->tls_dir)
		usage_error("--tls-verify-peer needs --tls-certificates");
	else
		return 0;
	return -1;
}

static int parse_one(struct server *server, int c, char *arg)
{
	struct opts *o = &server->opts;

	switch (c) {
	case OPT_EXPORT:
		return parse_export(server, arg, block_parse);
	case 'r':
		o->read_only = true;
		return 0;
	case OPT_UNIX:
		o->unix_path = arg;
		return 0;
	case OPT_ADDRESS:
	case OPT_PORT:
		return parse_tcp(o, c, arg);
	case OPT_CORES:
		return parse_number("cores", arg, 0, CORES_MAX, &o->cores);
	case OPT_CONNECTIONS:
		return parse_number("connections", arg, 1, CONNECTIONS_MAX,
				    &o->connections);
	case OPT_PER_PEER:
		return parse_number("per-peer", arg, 1, CONNECTIONS_MAX,
				    &o->per_peer);
	case OPT_HANDSHAKE:
		return parse_number("handshake", arg, 1, 86400,
				    &o->handshake_s);
	case OPT_IDLE:
		return parse_number("idle", arg, 0, 86400, &o->idle_s);
	case OPT_TIMEOUT:
		return parse_number("timeout", arg, 1, 86400, &o->timeout_s);
	case OPT_GRACE:
		return parse_number("grace", arg, 0, 86400, &o->grace_s);
	case OPT_TLS:
		return parse_tls(&o->tls, arg);
	case OPT_TLS_CERTIFICATES:
		o->tls_dir = arg;
		return 0;
	case OPT_TLS_PSK:
		o->tls_psk = arg;
		return 0;
	case OPT_TLS_VERIFY_PEER:
		o->tls_verify_peer = true;
		return 0;
	case OPT_STATS:
		o->stats = true;
		return 0;
	default:
		o->quiet = true;
		return 0;
	}
}

/* Returns -1 to go on, or the status to exit with. */
int options_parse(struct server *server, int argc, char **argv)
{
	char wrong[OPTION_TEXT];
	bool said_tls = false;
	int c;

	opterr = 0;
	server->opts = (struct opts){ .address = "127.0.0.1",
				      .port = STRING(PORT), .connections = 32,
				      .timeout_s = 30, .handshake_s = 10,
				      .grace_s = 5 };
	while ((c = getopt_long(argc, argv, shorts, options, NULL)) >= 0) {
		if (c == 'h' || c == OPT_VERSION) {
			printf("%s", c == 'h' ? help : "weir-nbd ");
			if (c == OPT_VERSION)
				printf("%s\n", weir_version());
			return 0;
		}
		if (c == '?' || c == ':') {
			usage_error("%s", option_wrong(wrong, c, argv, shorts,
						       options));
			return EXIT_USAGE;
		}
		if (parse_one(server, c, optarg))
			return EXIT_USAGE;
		said_tls |= c == OPT_TLS;
	}
	if (check_tls(&server->opts, said_tls))
		return EXIT_USAGE;
	for (; optind < argc; optind++)
		if (parse_export(server, argv[optind], block_parse_operand))
			return EXIT_USAGE;
	if (!server->n_exports) {
		usage_error("give the FILE that is to be served, or --export");
		return EXIT_USAGE;
	}
	for (uint32_t i = 0; i < server->n_exports; i++)
		server->exports[i].read_only |= server->opts.read_only;
	if (!server->opts.per_peer)
		server->opts.per_peer = (server->opts.connections + 1) / 2;
	return -1;
}
