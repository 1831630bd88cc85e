/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir trace: the lines that job-events.bt prints, as Chrome's trace format.
 *
 * A line is NANOSECONDS THREAD EVENT OBJECT [VALUE...].  Turns and sleeps nest on
 * their thread; jobs and steps of chains overlap, and are told apart by their
 * addresses.
 */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tool.h"

#define VALUES 3

struct event {
	uint64_t ns;
	unsigned int thread;
	char name[24], object[24];
	char value[VALUES][40];
};

/* How an event of weir is drawn. */
static const struct row {
	const char *name;
	const char *drawn;	/* Its name there. */
	const char *category;
	char phase;		/* Of the format: B E nest, b e n have an id. */
	const char *values[VALUES];
} rows[] = {
	{ "turn_begin", "turn", "reactor", 'B', { NULL } },
	{ "turn_end", "turn", "reactor", 'E', { "callbacks" } },
	{ "sleep", "sleep", "reactor", 'B', { "at most ns" } },
	{ "awake", "sleep", "reactor", 'E', { "result" } },
	{ "wake", "wake-up", "reactor", 'i', { NULL } },
	{ "job_submit", "job", "job", 'b', { "kind", "bytes" } },
	{ "job_step", "engine", "job", 'n', { "engine", "bytes" } },
	{ "job_refused", "job", "job", 'e', { "errno" } },
	{ "job_done", "job", "job", 'e', { "result", "bytes done" } },
	{ "chain_step", "step", "chain", 'b', { "number" } },
	{ "chain_step_done", "step", "chain", 'e', { "state", "result" } },
};

static const char help[] =
"Usage: weir trace [FILE]\n"
"\n"
"Read what job-events.bt has printed, from FILE or standard input,\n"
"and write Chrome's trace format, which ui.perfetto.dev draws.\n"
"\n"
"  -h, --help\n"
"\n"
"Example:\n"
"  bpftrace -q -p PID job-events.bt >events\n"
"  weir trace events >trace.json\n"
"\n"
"Exit status: 0, 1 if there is no event or FILE cannot be read, 2\n"
"for a command line that makes no sense.\n";

static const struct row *row_of(const char *name)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	return NULL;
}

/* Whatever the file has, the strings are valid in JSON. */
static void clean(char *s)
{
	for (; *s; s++)
		if (*s < ' ' || *s > '~' || *s == '"' || *s == '\\')
			*s = '?';
}

/* Returns the row of the event on @line, or NULL if there is none. */
static const struct row *parse(const char *line, struct event *e)
{
	int n;

	memset(e, 0, sizeof(*e));
	n = sscanf(line, "%" SCNu64 " %u %23s %23s %39s %39s %39s", &e->ns,
		   &e->thread, e->name, e->object, e->value[0], e->value[1],
		   e->value[2]);
	if (n < 4)
		return NULL;
	clean(e->object);
	for (int i = 0; i < VALUES; i++)
		clean(e->value[i]);
	return row_of(e->name);
}

static void print_event(const struct event *e, const struct row *row,
			uint64_t begin, unsigned int n)
{
	uint64_t ns = e->ns > begin ? e->ns - begin : 0;

	printf("%s\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"%c\","
	       "\"ts\":%" PRIu64 ".%03u,\"pid\":1,\"tid\":%u",
	       n ? "," : "", row->drawn, row->category, row->phase, ns / 1000,
	       (unsigned int)(ns % 1000), e->thread);
	if (strchr("ben", row->phase))
		printf(",\"id\":\"%s\"", e->object);
	if (row->phase == 'i')
		printf(",\"s\":\"t\"");
	printf(",\"args\":{\"object\":\"%s\"", e->object);
	for (int i = 0; i < VALUES && row->values[i]; i++)
		printf(",\"%s\":\"%s\"", row->values[i], e->value[i]);
	printf("}}");
}

/* Returns the number of events. */
static unsigned int convert(FILE *from)
{
	const struct row *row;
	unsigned int n = 0;
	uint64_t begin = 0;
	struct event e;
	char line[256];

	printf("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
	while (fgets(line, sizeof(line), from)) {
		row = parse(line, &e);
		if (!row)
			continue;
		if (!n)
			begin = e.ns;
		print_event(&e, row, begin, n++);
	}
	printf("\n]}\n");
	return n;
}

int cmd_trace(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	FILE *from = stdin;
	const char *name;
	unsigned int n;
	int c, err;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c != 'h')
			return EXIT_USAGE;
		fputs(help, stdout);
		return EXIT_OK;
	}
	if (argc - optind > 1)
		return usage_error("trace: give one file; weir trace --help");
	name = optind < argc ? argv[optind] : "standard input";
	if (optind < argc)
		from = fopen(name, "re");
	if (!from)
		return failed("%s: %s", name, strerror(errno));
	n = convert(from);
	err = ferror(from);
	if (from != stdin)
		fclose(from);
	if (err)
		return failed("%s: cannot be read", name);
	return n ? EXIT_OK : failed("%s: there is no event of weir", name);
}
