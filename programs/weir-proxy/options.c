/* SPDX-License-Identifier: CC0-1.0 */
/* The command line; most of it is a configuration of a few lines. */
#define _GNU_SOURCE 1
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/number.h"
#include "../common/option.h"
#include "weir-proxy.h"

enum { OPT_VERSION = 256 };

static const char shorts[] = ":f:s:n:ch";
static const struct option longs[] = {
	{ "file", required_argument, NULL, 'f' },
	{ "set", required_argument, NULL, 's' },
	{ "cores", required_argument, NULL, 'n' },
	{ "check", no_argument, NULL, 'c' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: weir-proxy [options] LISTEN TARGET...\n"
"       weir-proxy [options] --file=FILE\n"
"Take TCP and UNIX connections, and pass them on.\n"
"\n"
"Addresses are 127.0.0.1:80, [::1]:80, *:80 or unix:/path; a TARGET may be\n"
"app.example.org:80, too.\n"
"\n"
"Configuration:\n"
"  -f, --file=FILE       the configuration; read again at SIGHUP\n"
"  -s, --set=LINE        a line of the configuration, as 'idle-timeout 60'\n"
"  -n, --cores=N         so many cores (all)\n"
"\n"
"Output:\n"
"  -c, --check           look at the configuration only\n"
"  -h, --help            this text\n"
"      --version         the version of the library\n"
"\n"
"Examples:\n"
"  weir-proxy '*:8080' 10.0.0.1:80 10.0.0.2:80\n"
"  weir-proxy --set='idle-timeout 60' '*:80' unix:/run/app.sock\n"
"  weir-proxy --check --file=/etc/weir/proxy.conf\n"
"\n"
"SIGTERM: take no more, end with the last connection; SIGINT: end at once.\n"
"Exit status: 0 ended by a signal; 1 it could not begin; 2 wrong usage.\n"
"weir-proxy(1) has the details.\n";

static int usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	option_usage("weir-proxy", fmt, ap);
	va_end(ap);
	return -1;
}

static int append(struct options *o, const char *word, const char *after)
{
	char *text;

	if (asprintf(&text, "%s%s%s", o->text ? o->text : "", word, after) < 0)
		return usage("no memory");
	free(o->text);
	o->text = text;
	return 0;
}

static int set_cores(struct options *o, const char *arg)
{
	uint64_t n;

	if (number_parse(arg, 1, WEIR_GROUP_CORES_MAX, &n))
		return usage("-n %s: give a number from 1 to %d", arg,
			     WEIR_GROUP_CORES_MAX);
	o->cores = (uint32_t)n;
	return 0;
}

/* 0; 1: that is all that there is to do; -1. */
static int one(struct options *o, int c, char **argv)
{
	char wrong[OPTION_TEXT];

	switch (c) {
	case 'f':
		o->file = optarg;
		return 0;
	case 's':
		return append(o, optarg, "\n");
	case 'n':
		return set_cores(o, optarg);
	case 'c':
		o->check = true;
		return 0;
	case 'h':
		fputs(help, stdout);
		return 1;
	case OPT_VERSION:
		printf("weir-proxy %s\n", weir_version());
		return 1;
	default:
		return usage("%s", option_wrong(wrong, c, argv, shorts, longs));
	}
}

/* LISTEN TARGET...: a line of the configuration. */
static int route(struct options *o, int argc, char **argv)
{
	int err;

	if (optind == argc)
		return o->file ? append(o, "", "")
			       : usage("give LISTEN TARGET... or --file");
	if (argc - optind < 2)
		return usage("give a TARGET");
	err = append(o, "listen ", argv[optind++]);
	if (!err)
		err = append(o, " to", "");
	while (!err && optind < argc)
		err = append(o, " ", argv[optind++]);
	return err ? err : append(o, "\n", "");
}

int parse_options(struct options *o, int argc, char **argv, int *status)
{
	int c, done = 0;

	opterr = 0;
	*status = 2;
	while (!done && (c = getopt_long(argc, argv, shorts, longs,
					 NULL)) != -1)
		done = one(o, c, argv);
	if (!done)
		done = route(o, argc, argv);
	if (!done)
		return 0;
	if (done > 0)
		*status = 0;
	free(o->text);
	return -1;
}
