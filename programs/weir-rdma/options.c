/* SPDX-License-Identifier: CC0-1.0 */
/* The command line. */
#define _GNU_SOURCE 1
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "../common/number.h"
#include "../common/option.h"
#include "weir-rdma.h"

#define EXIT_USAGE 2
#define STRING_(n) #n
#define STRING(n) STRING_(n)

enum { OPT_LISTEN = 256, OPT_FROM, OPT_PORT, OPT_READ_ONLY, OPT_CLIENTS,
       OPT_BLOCK, OPT_DEPTH, OPT_TIMEOUT, OPT_FSYNC, OPT_PROGRESS, OPT_JSON,
       OPT_VERSION };

static const char shorts[] = ":hq";
static const struct option options[] = {
	{ "listen", required_argument, NULL, OPT_LISTEN },
	{ "from", required_argument, NULL, OPT_FROM },
	{ "port", required_argument, NULL, OPT_PORT },
	{ "read-only", no_argument, NULL, OPT_READ_ONLY },
	{ "clients", required_argument, NULL, OPT_CLIENTS },
	{ "block", required_argument, NULL, OPT_BLOCK },
	{ "depth", required_argument, NULL, OPT_DEPTH },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "fsync", no_argument, NULL, OPT_FSYNC },
	{ "progress", no_argument, NULL, OPT_PROGRESS },
	{ "quiet", no_argument, NULL, 'q' },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static const char *const commands[] = { "serve", "put", "get" };

static const char help[] =
"Usage: weir-rdma serve [options] DIR\n"
"       weir-rdma put [options] FILE HOST:NAME\n"
"       weir-rdma get [options] HOST:NAME FILE\n"
"Copy files between hosts by RDMA.\n"
"\n"
"Of all commands:\n"
"      --port=PORT       of the server (" STRING(PORT) ")\n"
"      --timeout=SECONDS give up when nothing has come for so long (30)\n"
"\n"
"Of serve:\n"
"      --listen=ADDRESS  one of ours; all of them, unless given\n"
"      --read-only       take no files\n"
"      --clients=N       at a time, 1 to 64 (16)\n"
"\n"
"Of serve and get:\n"
"      --fsync           have a file written out before it gets its name\n"
"\n"
"Of put and get:\n"
"      --from=ADDRESS    of ours, to connect from\n"
"      --block=SIZE      bytes that move together, 4K to 1M (256K)\n"
"      --depth=N         blocks in flight, 1 to 64 (16)\n"
"      --progress        show it also if it is no terminal\n"
"\n"
"Output:\n"
"  -q, --quiet           only errors\n"
"      --json            results as lines of JSON\n"
"  -h, --help            this text\n"
"      --version         the version of the library\n"
"\n"
"Examples:\n"
"  weir-rdma serve --read-only /srv\n"
"  weir-rdma get 10.0.0.1:disk.img disk.img\n"
"  weir-rdma put disk.img '[fd77::1]:disk.img'\n"
"\n"
"HOST that has colons is written in brackets.\n"
"Exit status: 0 all went well; 1 the file was not copied; 2 wrong usage;\n"
"3 nothing could be begun.  weir-rdma(1) has the details.\n";

/* A number; with an optional K or M if it is @bytes. */
static int parse_number(const char *name, const char *arg, bool bytes,
			uint64_t min, uint64_t max, uint64_t *ret)
{
	int err = bytes ? size_parse(arg, min, max, ret) :
			  number_parse(arg, min, max, ret);

	if (err)
		say_usage_error("--%s=%s: give a number from %llu to %llu",
				name, arg, (unsigned long long)min,
				(unsigned long long)max);
	return err;
}

static int parse_numbers(struct opts *o, int c, const char *arg)
{
	uint64_t n = 0;
	int err;

	switch (c) {
	case OPT_CLIENTS:
		err = parse_number("clients", arg, false, 1, CLIENTS_MAX, &n);
		o->clients = (uint32_t)n;
		return err;
	case OPT_DEPTH:
		err = parse_number("depth", arg, false, 1, SLOTS_MAX, &n);
		o->depth = (uint32_t)n;
		return err;
	case OPT_BLOCK:
		err = parse_number("block", arg, true, BLOCK_MIN, BLOCK_MAX,
				   &n);
		o->block = n;
		return err;
	case OPT_PORT:
		o->port = arg;
		return parse_number("port", arg, false, 0, 65535, &n);
	default:
		err = parse_number("timeout", arg, false, 1, 86400, &n);
		o->timeout_ns = n * WEIR_SEC;
		return err;
	}
}

/* By whom an option is heeded; the others refuse it. */
static unsigned int heeded_by(int c)
{
	switch (c) {
	case OPT_LISTEN:
	case OPT_READ_ONLY:
	case OPT_CLIENTS:
		return 1u << CMD_SERVE;
	case OPT_FROM:
	case OPT_BLOCK:
	case OPT_DEPTH:
	case OPT_PROGRESS:
		return 1u << CMD_PUT | 1u << CMD_GET;
	case OPT_FSYNC:
		return 1u << CMD_SERVE | 1u << CMD_GET;
	default:
		return ~0u;
	}
}

/* @given: a bit for each option that was, by its place in the list. */
static int check_given(const struct opts *o, unsigned int given)
{
	unsigned int i;

	for (i = 0; options[i].name; i++) {
		if (!(given & 1u << i) ||
		    heeded_by(options[i].val) & 1u << o->command)
			continue;
		say_usage_error("--%s is not for %s", options[i].name,
				commands[o->command]);
		return -1;
	}
	return 0;
}

static int parse_one(struct opts *o, int c, const char *arg)
{
	switch (c) {
	case OPT_LISTEN:
		o->listen = arg;
		break;
	case OPT_FROM:
		o->from = arg;
		break;
	case OPT_READ_ONLY:
		o->read_only = true;
		break;
	case OPT_FSYNC:
		o->fsync = true;
		break;
	case OPT_PROGRESS:
		o->progress = true;
		break;
	case OPT_JSON:
		o->json = true;
		break;
	case 'q':
		o->quiet = true;
		break;
	default:
		return parse_numbers(o, c, arg);
	}
	return 0;
}

/* HOST:NAME or [HOST]:NAME, which is cut in two. */
static int parse_host(struct opts *o, char *arg)
{
	char *end = *arg == '[' ? strchr(arg, ']') : strchr(arg, ':');
	char *colon = end && *end == ']' ? end + 1 : end;

	if (!end || *colon != ':' || !colon[1] || end == arg + (*arg == '[') ||
	    strlen(colon + 1) >= NAME_BYTES) {
		say_usage_error("%s: give HOST:NAME, with a NAME of less "
				"than %u bytes", arg, NAME_BYTES);
		return -1;
	}
	o->host = arg + (*arg == '[');
	o->name = colon + 1;
	*end = 0;
	*colon = 0;
	return 0;
}

static int parse_file(struct opts *o, const char *arg)
{
	o->path = arg;
	if (*arg && strlen(arg) < NAME_BYTES)
		return 0;
	say_usage_error("'%.64s': give a name of 1 to %u bytes", arg,
			NAME_BYTES - 1);
	return -1;
}

static int parse_operands(struct opts *o, int n, char **args)
{
	int wanted;

	for (o->command = 0; o->command < 3; o->command++)
		if (n > 0 && !strcmp(args[0], commands[o->command]))
			break;
	wanted = o->command == CMD_SERVE ? 2 : 3;
	if (o->command > CMD_GET || n != wanted) {
		say_usage_error("give serve DIR, put FILE HOST:NAME or "
				"get HOST:NAME FILE");
		return -1;
	}
	if (o->command == CMD_SERVE)
		return parse_file(o, args[1]);
	if (parse_host(o, args[o->command == CMD_PUT ? 2 : 1]))
		return -1;
	return parse_file(o, args[o->command == CMD_PUT ? 1 : 2]);
}

static int say_about(int c)
{
	printf("%s", c == 'h' ? help : "weir-rdma ");
	if (c == OPT_VERSION)
		printf("%s\n", weir_version());
	return 0;
}

/* Returns -1 to go on, or the status to exit with. */
int options_parse(struct opts *o, int argc, char **argv)
{
	unsigned int given = 0;
	char wrong[OPTION_TEXT];
	int c, at = 0;

	opterr = 0;
	*o = (struct opts){ .port = STRING(PORT), .depth = 16, .clients = 16,
			    .block = 256 << 10, .timeout_ns = 30 * WEIR_SEC };
	while ((c = getopt_long(argc, argv, shorts, options, &at)) >= 0) {
		if (c == 'h' || c == OPT_VERSION)
			return say_about(c);
		if (c == '?' || c == ':') {
			say_usage_error("%s", option_wrong(wrong, c, argv,
							   shorts, options));
			return EXIT_USAGE;
		}
		if (parse_one(o, c, optarg))
			return EXIT_USAGE;
		if (c != 'q')
			given |= 1u << at;
	}
	if (parse_operands(o, argc - optind, argv + optind) ||
	    check_given(o, given))
		return EXIT_USAGE;
	return -1;
}
