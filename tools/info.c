/* SPDX-License-Identifier: BSD-3-Clause */

/* weir info: what weir finds on this system, and why the rest is not used. */

#include <dlfcn.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "info.h"
#include "tool.h"

enum { OPT_JSON = 256, OPT_HELP, OPT_PROVIDER };

static const struct option options[] = {
	{ "json", no_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, 'q' },
	{ "provider", required_argument, NULL, OPT_PROVIDER },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

struct asked {
	bool json, quiet, help;
};

void *add_item(struct info *info, void *array, size_t *n, size_t size)
{
	char **items = array;
	char *more = realloc(*items, (*n + 1) * size);

	if (!more) {
		info->no_memory = true;
		return NULL;
	}
	*items = more;
	return memset(more + (*n)++ * size, 0, size);
}

static void help(void)
{
	puts("Usage: weir info [--json] [--quiet] [--provider FILE]\n"
	     "\n"
	     "Show the backends, devices, kinds of domains and limits that\n"
	     "weir finds, what is not used, why, and what would change that.\n"
	     "\n"
	     "  --json       as one JSON object; its members are in weir(1)\n"
	     "  -q, --quiet  show nothing: only the exit status\n"
	     "  --provider FILE\n"
	     "               load a shared object that registers devices of its\n"
	     "               own; can be given several times\n"
	     "      --help   this text\n"
	     "\n"
	     "Examples:\n"
	     "  weir info --json | jq '.unused'\n"
	     "  weir info --quiet || echo 'weir cannot run here'\n"
	     "\n"
	     "Exit status: 0 if weir can run here, 1 if not, 2 for a command\n"
	     "line that makes no sense.");
}

/* The option that getopt() has just refused, as the user wrote it. */
static const char *refused(char **argv)
{
	static char letter[] = "-?";

	if (optopt && optopt < 256) {
		letter[1] = (char)optopt;
		return letter;
	}
	return argv[optind - 1];
}

/* The file registers its provider as it is loaded, and stays. */
static int load_provider(const char *path)
{
	return dlopen(path, RTLD_NOW | RTLD_LOCAL) ? 0 :
	       failed("info: cannot load the provider: %s", dlerror());
}

/* 0, or an exit status. */
static int parse(int argc, char **argv, struct asked *asked)
{
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "q", options, NULL)) != -1) {
		if (c == OPT_JSON)
			asked->json = true;
		else if (c == 'q')
			asked->quiet = true;
		else if (c == OPT_HELP)
			asked->help = true;
		else if (c == OPT_PROVIDER && !load_provider(optarg))
			continue;
		else if (c == OPT_PROVIDER)
			return EXIT_FAILED;
		else
			return usage_error("info: there is no option '%s', or "
					   "it takes no value, or needs one; weir info "
					   "--help lists them", refused(argv));
	}
	if (optind < argc)
		return usage_error("info: '%s' is too much; it takes options "
				   "only", argv[optind]);
	return 0;
}

static void show(const struct info *info, const struct asked *asked)
{
	if (asked->quiet)
		return;
	if (asked->json)
		show_json(info);
	else
		show_text(info);
}

int cmd_info(int argc, char **argv)
{
	struct asked asked = { 0 };
	struct info info = { 0 };
	int status = parse(argc, argv, &asked);

	if (status)
		return status;
	if (asked.help) {
		help();
		return EXIT_OK;
	}
	find_weir(&info);
	find_system(&info);
	find_unused(&info);
	if (info.no_memory)
		status = failed("info: no memory");
	else
		show(&info, &asked);
	if (!status && !info.chosen)
		status = failed("info: weir cannot run here: %s",
				info.chosen_why);
	free(info.devices);
	free(info.nodes);
	free(info.unused);
	return status;
}
