/* SPDX-License-Identifier: CC0-1.0 */
/* The command line. */
#define _GNU_SOURCE 1
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

#include "../common/number.h"
#include "../common/option.h"
#include "weir-vhost.h"

enum { OPT_UNIX = 256, OPT_QUEUES, OPT_TRUST, OPT_STATS, OPT_JSON,
       OPT_VERSION };

static const char shorts[] = ":hq";
static const struct option options[] = {
	{ "unix", required_argument, NULL, OPT_UNIX },
	{ "queues", required_argument, NULL, OPT_QUEUES },
	{ "trust-memory", no_argument, NULL, OPT_TRUST },
	{ "stats", no_argument, NULL, OPT_STATS },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: weir-vhost [options] --unix=PATH EXPORT\n"
"Serve a file, a block device, memory or what a plugin brings to a virtual\n"
"machine, by vhost-user-blk.  EXPORT is one of\n"
"\n"
"  FILE\n"
"  path=FILE[,ro][,direct][,name=SERIAL]\n"
"  size=SIZE[,ro][,name=SERIAL]\n"
"  plugin=OBJECT[,args=ARGS][,ro][,name=SERIAL]\n"
"\n"
"Where:\n"
"      --unix=PATH       the socket for the virtual machine's monitor, which is\n"
"                        the owner's alone\n"
"      --queues=N        at most (64)\n"
"      --trust-memory    take memory that could be made shorter: if it is, this\n"
"                        process ends\n"
"\n"
"Output:\n"
"      --stats           numbers for 'weir top', and at the end on stdout\n"
"      --json            what is on stdout is JSON, a line for each object\n"
"  -q, --quiet           do not say where it listens\n"
"  -h, --help            this text\n"
"      --version         the version of the library\n"
"\n"
"Examples:\n"
"  weir-vhost --unix=/run/disk.sock disk.img\n"
"  qemu-system-x86_64 -m 1G -object memory-backend-memfd,id=m,size=1G,share=on \\\n"
"    -numa node,memdev=m -chardev socket,id=c,path=/run/disk.sock,reconnect=1 \\\n"
"    -device vhost-user-blk-pci,chardev=c ...\n"
"\n"
"SIGHUP measures the file again, and tells the guest of its new size.\n"
"Exit status: 0 it was stopped; 1 it failed; 2 wrong usage; 3 nothing could be\n"
"begun.  weir-vhost(1) has the details.\n";

static __attribute__((format(printf, 1, 2)))
void usage_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	option_usage("weir-vhost", fmt, ap);
	va_end(ap);
}

static int parse_one(struct device *dev, int c, const char *arg)
{
	struct opts *o = &dev->opts;
	uint64_t n;

	switch (c) {
	case OPT_UNIX:
		o->unix_path = arg;
		break;
	case OPT_QUEUES:
		if (number_parse(arg, 1, QUEUES_MAX, &n)) {
			usage_error("--queues=%s: give a number from 1 to %u",
				    arg, QUEUES_MAX);
			return -1;
		}
		o->queues = (uint32_t)n;
		break;
	case OPT_TRUST:
		o->trust = true;
		break;
	case OPT_STATS:
		o->stats = true;
		break;
	case OPT_JSON:
		o->json = true;
		break;
	default:
		o->quiet = true;
		break;
	}
	return 0;
}

/* Returns -1 to go on, or the status to exit with. */
int options_parse(struct device *dev, int argc, char **argv)
{
	char wrong[OPTION_TEXT];
	int c;

	opterr = 0;
	dev->opts = (struct opts){ .queues = QUEUES_MAX };
	while ((c = getopt_long(argc, argv, shorts, options, NULL)) >= 0) {
		if (c == 'h' || c == OPT_VERSION) {
			printf("%s", c == 'h' ? help : "weir-vhost ");
			if (c == OPT_VERSION)
				printf("%s\n", weir_version());
			return 0;
		}
		if (c == '?' || c == ':') {
			usage_error("%s", option_wrong(wrong, c, argv, shorts,
						       options));
			return EXIT_USAGE;
		}
		if (parse_one(dev, c, optarg))
			return EXIT_USAGE;
	}
	if (optind + 1 != argc || !dev->opts.unix_path) {
		usage_error("give --unix and one export");
		return EXIT_USAGE;
	}
	if (block_parse_operand(&dev->block, "weir-vhost", argv[optind],
				usage_error))
		return EXIT_USAGE;
	return -1;
}
