/* SPDX-License-Identifier: CC0-1.0 */
/* The command line. */
#define _GNU_SOURCE 1
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "../common/number.h"
#include "../common/option.h"
#include "weir-ublk.h"

enum { OPT_ID = 256, OPT_QUEUES, OPT_DEPTH, OPT_NO_RECOVERY, OPT_LIST, OPT_STOP, OPT_FORCE,
       OPT_STATS, OPT_JSON, OPT_VERSION };

#define QUEUES 4u		/* By default, if there are as many CPUs. */
#define DEPTH 64u

static const char shorts[] = ":hq";
static const struct option options[] = {
	{ "id", required_argument, NULL, OPT_ID },
	{ "queues", required_argument, NULL, OPT_QUEUES },
	{ "depth", required_argument, NULL, OPT_DEPTH },
	{ "no-recovery", no_argument, NULL, OPT_NO_RECOVERY },
	{ "list", no_argument, NULL, OPT_LIST },
	{ "stop", required_argument, NULL, OPT_STOP },
	{ "force", no_argument, NULL, OPT_FORCE },
	{ "stats", no_argument, NULL, OPT_STATS },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: weir-ublk [options] EXPORT\n"
"       weir-ublk --list [--json]\n"
"       weir-ublk --stop=N [--force]\n"
"Make a block device of a file, a block device, memory or what a plugin brings:\n"
"/dev/ublkbN, by the kernel's driver ublk.  EXPORT is one of\n"
"\n"
"  FILE\n"
"  path=FILE[,ro][,direct]\n"
"  size=SIZE[,ro]\n"
"  plugin=OBJECT[,args=ARGS][,ro]\n"
"\n"
"The device:\n"
"      --id=N            its number; if it has lost its server, take it over\n"
"                        (the first that is free)\n"
"      --queues=N        each with a thread (as many as CPUs, up to 4)\n"
"      --depth=N         requests of a queue at a time (64)\n"
"      --no-recovery     remove it if this process is killed; otherwise requests\n"
"                        wait for --id=N, except to memory\n"
"\n"
"Others:\n"
"      --list            what devices there are\n"
"      --stop=N          remove a device, unless it is in use\n"
"      --force           also if it is\n"
"\n"
"Output:\n"
"      --stats           numbers for 'weir top', and at the end on stdout\n"
"      --json            what is on stdout is JSON, a line for each object\n"
"  -q, --quiet           do not say which device it is\n"
"  -h, --help            this text\n"
"      --version         the version of the library\n"
"\n"
"Examples:\n"
"  weir-ublk --id=0 disk.img &\n"
"  mount /dev/ublkb0 /mnt\n"
"  weir-ublk --stop=0\n"
"\n"
"SIGINT and SIGTERM remove the device; while it is in use it takes two of them.\n"
"SIGHUP measures the file again.\n"
"Exit status: 0 the device was removed; 1 it failed; 2 wrong usage; 3 nothing\n"
"could be begun.  weir-ublk(1) has the details.\n";

static __attribute__((format(printf, 1, 2)))
void usage_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	option_usage("weir-ublk", fmt, ap);
	va_end(ap);
}

static int parse_number(const char *name, const char *arg, uint32_t min, uint32_t max,
			uint32_t *ret)
{
	uint64_t n;

	if (number_parse(arg, min, max, &n)) {
		usage_error("--%s=%s: give a number from %u to %u", name, arg, min, max);
		return -1;
	}
	*ret = (uint32_t)n;
	return 0;
}

static int parse_one(struct opts *o, int c, const char *arg)
{
	switch (c) {
	case OPT_ID:
		return parse_number("id", arg, 0, DEVICES_MAX - 1, &o->id);
	case OPT_QUEUES:
		return parse_number("queues", arg, 1, QUEUES_MAX, &o->queues);
	case OPT_DEPTH:
		return parse_number("depth", arg, 1, DEPTH_MAX, &o->depth);
	case OPT_STOP:
		return parse_number("stop", arg, 0, DEVICES_MAX - 1, &o->stop);
	case OPT_NO_RECOVERY:
		o->keep = false;
		return 0;
	case OPT_LIST:
		o->list = true;
		return 0;
	case OPT_FORCE:
		o->force = true;
		return 0;
	case OPT_STATS:
		o->stats = true;
		return 0;
	case OPT_JSON:
		o->json = true;
		return 0;
	default:
		o->quiet = true;
		return 0;
	}
}

static uint32_t default_queues(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : n > (long)QUEUES ? QUEUES : (uint32_t)n;
}

/* Returns -1 to go on, or the status to exit with. */
int options_parse(struct server *s, int argc, char **argv)
{
	struct opts *o = &s->opts;
	char wrong[OPTION_TEXT];
	bool alone;
	int c;

	opterr = 0;
	*o = (struct opts){ .id = UINT32_MAX, .stop = UINT32_MAX, .depth = DEPTH,
			    .queues = default_queues(), .keep = true };
	while ((c = getopt_long(argc, argv, shorts, options, NULL)) >= 0) {
		if (c == 'h' || c == OPT_VERSION) {
			printf("%s", c == 'h' ? help : "weir-ublk ");
			if (c == OPT_VERSION)
				printf("%s\n", weir_version());
			return 0;
		}
		if (c == '?' || c == ':') {
			usage_error("%s", option_wrong(wrong, c, argv, shorts, options));
			return EXIT_USAGE;
		}
		if (parse_one(o, c, optarg))
			return EXIT_USAGE;
	}
	alone = o->list || o->stop != UINT32_MAX;
	if (optind + !alone != argc || (o->list && o->stop != UINT32_MAX)) {
		usage_error("give one export, --list or --stop=N");
		return EXIT_USAGE;
	}
	if (o->force && o->stop == UINT32_MAX) {
		usage_error("--force goes with --stop=N");
		return EXIT_USAGE;
	}
	if (!alone && block_parse_operand(&s->block, "weir-ublk", argv[optind], usage_error))
		return EXIT_USAGE;
	return -1;
}
