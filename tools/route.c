/* SPDX-License-Identifier: BSD-3-Clause */

/* weir route: the way of bytes between two places, and why. */

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/dma.h>
#include <weir/reactor.h>
#include <weir/route.h>

#include "json.h"
#include "route.h"
#include "tool.h"

#define TEXT_MAX 4096
#define BYTES_DEFAULT (1u << 20)

enum { OPT_JSON = 256, OPT_HELP, OPT_KIND, OPT_BYTES };

static const struct option options[] = {
	{ "json", no_argument, NULL, OPT_JSON },
	{ "kind", required_argument, NULL, OPT_KIND },
	{ "bytes", required_argument, NULL, OPT_BYTES },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static const struct kind {
	const char *name;
	uint32_t kind;
	bool src, dst;		/* The sides that it has. */
} kinds[] = {
	{ "copy", WEIR_JOB_COPY, true, true },
	{ "pull", WEIR_JOB_PULL, true, true },
	{ "push", WEIR_JOB_PUSH, true, true },
	{ "fill", WEIR_JOB_FILL, false, true },
	{ "crc32c", WEIR_JOB_CRC32C, true, false },
	{ "copy+crc32c", WEIR_JOB_COPY_CRC32C, true, true },
	{ "compare", WEIR_JOB_COMPARE, true, true },
	{ "fetch-add", WEIR_JOB_FETCH_ADD, false, true },
	{ "compare-swap", WEIR_JOB_COMPARE_SWAP, false, true },
};

static bool is_atomic(const struct kind *kind)
{
	return kind->kind == WEIR_JOB_FETCH_ADD ||
	       kind->kind == WEIR_JOB_COMPARE_SWAP;
}

struct asked {
	bool json, quiet, help;
	const struct kind *kind;
	uint64_t bytes;
	const char *src, *dst;
};

static void help(void)
{
	puts("Usage: weir route [OPTION...] SRC DST\n"
	     "       weir route [OPTION...] --kind crc32c SRC\n"
	     "       weir route [OPTION...] --kind fill DST\n"
	     "       weir route [OPTION...] --kind fetch-add DST\n"
	     "\n"
	     "Show which way bytes would go from SRC to DST, and for each\n"
	     "better way why not. Nothing is moved.\n"
	     "\n"
	     "Places:\n"
	     "  system, hugepage  memory of a process\n"
	     "  file:PATH         a file or block device\n"
	     "  direct:PATH       the same, opened with O_DIRECT\n"
	     "  process:PID       memory of another process\n"
	     "  user[:FN,...]     a domain of a program's own, with these of\n"
	     "                    pull, push, transfer, fill; else the first two\n"
	     "  remote            memory of a peer, by RDMA\n"
	     "  device            memory of a device\n"
	     "  dmabuf            a dma-buf, made by udmabuf\n"
	     "\n"
	     "Options:\n"
	     "  --kind KIND       copy (the default), pull, push, fill, crc32c,\n"
	     "                    copy+crc32c, compare, fetch-add or\n"
	     "                    compare-swap\n"
	     "  --bytes N         that many; K, M or G may follow; else 1M, or\n"
	     "                    the 8 of an atomic\n"
	     "  --json            as one JSON object; its members are in weir(1)\n"
	     "  -q, --quiet       show nothing: only the exit status\n"
	     "      --help        this text\n"
	     "\n"
	     "Examples:\n"
	     "  weir route file:disk.img system\n"
	     "  weir route --kind crc32c --bytes 4K process:$$\n"
	     "\n"
	     "Exit status: 0 if there is a way, 1 if there is none, 2 for a\n"
	     "command line that makes no sense.");
}

static int parse_kind(const char *text, struct asked *asked)
{
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].name, text)) {
			asked->kind = &kinds[i];
			return 0;
		}
	return usage_error("route: there is no kind '%s'; weir route --help "
			   "lists them", text);
}

static int parse_bytes(const char *text, struct asked *asked)
{
	static const char units[] = "KMG";
	unsigned long long n;
	const char *unit;
	char *end;
	int shift = 0;

	errno = 0;
	n = strtoull(text, &end, 10);
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		shift = 10 * (int)(unit - units + 1);
		end++;
	}
	if (errno || *text < '0' || *text > '9' || *end || !n ||
	    n > (UINT64_MAX >> 1) >> shift)
		return usage_error("route: '%s' is no number of bytes", text);
	asked->bytes = (uint64_t)n << shift;
	return 0;
}

static int parse_option(int c, char **argv, struct asked *asked)
{
	switch (c) {
	case OPT_JSON:
		asked->json = true;
		return 0;
	case 'q':
		asked->quiet = true;
		return 0;
	case OPT_HELP:
		asked->help = true;
		return 0;
	case OPT_KIND:
		return parse_kind(optarg, asked);
	case OPT_BYTES:
		return parse_bytes(optarg, asked);
	default:
		return usage_error("route: there is no option '%s', or its "
				   "value is missing or too much; weir route "
				   "--help lists them", argv[optind - 1]);
	}
}

static int parse(int argc, char **argv, struct asked *asked)
{
	int c, status, want;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "q", options, NULL)) != -1) {
		status = parse_option(c, argv, asked);
		if (status)
			return status;
	}
	if (!asked->bytes)
		asked->bytes = is_atomic(asked->kind) ? 8 : BYTES_DEFAULT;
	want = asked->kind->src + asked->kind->dst;
	if (asked->help)
		return 0;
	if (argc - optind != want)
		return usage_error("route: %s takes %d place%s, not %d; weir "
				   "route --help says which", asked->kind->name,
				   want, want > 1 ? "s" : "", argc - optind);
	if (asked->kind->src)
		asked->src = argv[optind++];
	if (asked->kind->dst)
		asked->dst = argv[optind];
	return 0;
}

/* The lines of @text: the first is the plan, the others are reasons. */
static void show_json(const struct asked *asked, int err, char *text)
{
	struct json j = { 0 };
	char *line, *save;

	line = strtok_r(text, "\n", &save);
	json_open(&j, NULL, '{');
	json_string(&j, "kind", asked->kind->name);
	json_number(&j, "bytes", asked->bytes);
	json_string(&j, "source", asked->src);
	json_string(&j, "destination", asked->dst);
	json_bool(&j, "possible", !err);
	json_number(&j, "errno", (uint64_t)-err);
	json_string(&j, "plan", line);
	json_open(&j, "reasons", '[');
	while ((line = strtok_r(NULL, "\n", &save)))
		json_string(&j, NULL, line + strspn(line, " "));
	json_close(&j, ']');
	json_close(&j, '}');
}

static void unused(struct weir_op *op, int64_t res)
{
	(void)op, (void)res;
}

/* A device that is missing here would make it possible. */
static int not_here(char *text, size_t size)
{
	char plan[128];

	snprintf(plan, sizeof(plan), "%.*s", (int)strcspn(text, "\n"), text);
	snprintf(text, size, "refused: No such device\n"
		 "  no device that can be used here reaches the memory of a "
		 "peer: weir info says why\n"
		 "  with one, and a connection: %s\n", plan);
	return -ENODEV;
}

static int explain(const struct asked *asked, struct weir_dma *dma,
		   const struct place *src, const struct place *dst)
{
	struct weir_job job;
	char text[TEXT_MAX];
	int err;

	weir_job_init(&job, unused);
	weir_job_copy(&job, dst->operand, src->operand);
	job.kind = asked->kind->kind;
	err = weir_route_explain(dma, &job, text, sizeof(text));
	if (!err && !(place_is_reached(src) && place_is_reached(dst)))
		err = not_here(text, sizeof(text));
	if (asked->json && !asked->quiet)
		show_json(asked, err, text);
	else if (!asked->quiet)
		fputs(text, stdout);
	return err ? EXIT_FAILED : EXIT_OK;
}

static int with_places(const struct asked *asked, struct weir_reactor *r,
		       struct weir_dma *dma)
{
	struct place src = { .fd = -1 }, dst = { .fd = -1 };
	int status = EXIT_OK;

	if (asked->src)
		status = place_begin(&src, r, asked->src, asked->bytes, 0);
	/* Both sides of a comparison are sources. */
	if (!status && asked->dst)
		status = place_begin(&dst, r, asked->dst, asked->bytes,
				     asked->kind->kind != WEIR_JOB_COMPARE ?
					     1 : 2);
	if (!status)
		status = explain(asked, dma, &src, &dst);
	place_end(&dst);
	place_end(&src);
	return status;
}

int cmd_route(int argc, char **argv)
{
	struct asked asked = { .kind = &kinds[0] };
	struct weir_reactor *r = NULL;
	struct weir_dma *dma = NULL;
	int status = parse(argc, argv, &asked);

	if (status)
		return status;
	if (asked.help) {
		help();
		return EXIT_OK;
	}
	if (weir_reactor_create(&r, NULL) || weir_dma_create(&dma, r, NULL) ||
	    weir_dma_start(dma))
		status = failed("route: %s", weir_why());
	else
		status = with_places(&asked, r, dma);
	weir_dma_destroy(dma);
	weir_reactor_destroy(r);
	return status;
}
