/* SPDX-License-Identifier: BSD-3-Clause */

/* The progress of each scenario, a line each in a file, so that a long run can
 * be stopped at any time and continued. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim-command.h"

#define LINE 4096

static int complain(const char *path, const char *what, int err)
{
	fprintf(stderr, "weir-sim: %s: %s\n", path, what);
	return err;
}

/* The line ends with the run's parameters: sums of other runs do not count. */
static void print_line(FILE *f, const struct params *params,
		       const struct progress *p)
{
	char with[512];

	params_print(with, sizeof(with), params);
	fprintf(f, "%s next %" PRIu64 " seeds %" PRIu64 " completions %" PRIu64
		" events %" PRIu64 " verified %" PRIu64 " digest %" PRIu64
		" ms %.0f faults", params->scenario->name, p->next,
		p->sum.seeds, p->sum.completions, p->sum.events,
		p->sum.verified, p->sum.digest, p->seconds * 1e3);
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		fprintf(f, " %" PRIu64, p->sum.faults[i]);
	fprintf(f, " of %s\n", with);
}

static bool is_of(const char *line, const struct scenario *scenario)
{
	size_t len = strlen(scenario->name);

	return !strncmp(line, scenario->name, len) && line[len] == ' ';
}

/* NULL: it is not a line of a state.  Otherwise the text after its counts. */
static const char *read_line(const char *line, struct progress *p)
{
	double ms;
	int at = 0;

	if (sscanf(line, "%*s next %" SCNu64 " seeds %" SCNu64 " completions %"
		   SCNu64 " events %" SCNu64 " verified %" SCNu64 " digest %"
		   SCNu64 " ms %lf faults%n", &p->next, &p->sum.seeds,
		   &p->sum.completions, &p->sum.events, &p->sum.verified,
		   &p->sum.digest, &ms, &at) != 7 || !at)
		return NULL;
	p->seconds = ms / 1e3;
	line += at;
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++) {
		char *end;

		p->sum.faults[i] = strtoull(line, &end, 10);
		if (end == line)
			return NULL;
		line = end;
	}
	return strncmp(line, " of ", 4) ? NULL : line + 4;
}

int state_load(const char *path, const struct params *params,
	       struct progress *p)
{
	FILE *f = fopen(path, "re");
	struct progress got = { 0 };
	char line[LINE], with[512];
	const char *of;
	int err = 0;

	if (!f)
		return errno == ENOENT ? 0 :
		       complain(path, strerror(errno), -errno);
	params_print(with, sizeof(with), params);
	while (!err && fgets(line, sizeof(line), f)) {
		of = read_line(line, &got);
		line[strcspn(line, "\n")] = 0;
		if (!of)
			err = complain(path, "this is no state of weir-sim",
				       -EINVAL);
		else if (is_of(line, params->scenario) && strcmp(of, with))
			err = complain(path, "it is of a run with other "
				       "options; go on with those, or without "
				       "it", -EINVAL);
		else if (is_of(line, params->scenario))
			*p = got;
	}
	fclose(f);
	return err;
}

static int write_lines(FILE *f, const char *path, const struct params *params,
		       const struct progress *p)
{
	FILE *old = fopen(path, "re");
	char line[LINE];
	int err = 0;

	while (old && fgets(line, sizeof(line), old))
		if (!is_of(line, params->scenario))
			fputs(line, f);
	if (old)
		fclose(old);
	print_line(f, params, p);
	if (fflush(f) || fsync(fileno(f)))
		err = -errno;
	if (fclose(f) && !err)
		err = -errno;
	return err;
}

/* Copy the lines of other scenarios.  The file is replaced as a whole or not at
 * all. */
int state_save(const char *path, const struct params *params,
	       const struct progress *p)
{
	char temp[4096];
	FILE *f;
	int err;

	snprintf(temp, sizeof(temp), "%s.new", path);
	f = fopen(temp, "we");
	err = f ? write_lines(f, path, params, p) : -errno;
	if (!err && rename(temp, path))
		err = -errno;
	return err ? complain(path, strerror(-err), err) : 0;
}
