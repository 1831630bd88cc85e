/* SPDX-License-Identifier: BSD-3-Clause */

/* The outcome as text, as JSON, and as a report. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "sim-command.h"

static void tell_json(struct json *j, const struct params *params,
		      const struct progress *p, const struct outcome *found)
{
	char digest[32], again[512];

	params_print(again, sizeof(again), params);
	snprintf(digest, sizeof(digest), "%016" PRIx64, p->sum.digest);
	json_open(j, NULL, '{');
	json_string(j, "scenario", params->scenario->name);
	json_number(j, "seeds", p->sum.seeds);
	json_number(j, "completions", p->sum.completions);
	json_number(j, "events", p->sum.events);
	json_number(j, "bytes_verified", p->sum.verified);
	json_string(j, "digest", digest);
	json_open(j, "faults", '{');
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		json_number(j, weir_sim_fault_name(i), p->sum.faults[i]);
	json_close(j, '}');
	json_bool(j, "well", !found);
	json_string(j, "rule", found ? found->rule : NULL);
	json_string(j, "text", found ? found->text : NULL);
	json_string(j, "again", found ? again : NULL);
	json_close(j, '}');
}

static void tell_text(const char *name, const struct progress *p)
{
	printf("%-10s %" PRIu64 " seeds, %" PRIu64 " completions, %" PRIu64
	       " faults, %" PRIu64 " bytes verified, digest %016" PRIx64
	       ", %.1f s\n", name, p->sum.seeds, p->sum.completions,
	       outcome_faults(&p->sum), p->sum.verified, p->sum.digest,
	       p->seconds);
}

void tell_begin(struct command *c)
{
	if (!c->json)
		return;
	json_open(&c->out, NULL, '{');
	json_string(&c->out, "version", weir_version());
	json_open(&c->out, "scenarios", '[');
}

void tell(struct command *c, const struct params *params,
	  const struct progress *p, const struct outcome *found)
{
	if (c->n_told < TOLD_MAX)
		c->told[c->n_told++] = (struct told){ params->scenario, *p,
						      found != NULL };
	if (c->json)
		tell_json(&c->out, params, p, found);
	else if (!c->quiet && !found)
		tell_text(params->scenario->name, p);
	if (!c->quiet)
		fflush(stdout);
}

static struct progress sum_of(const struct command *c, uint32_t *failed)
{
	struct progress sum = { 0 };

	*failed = 0;
	for (uint32_t i = 0; i < c->n_told; i++) {
		outcome_add(&sum.sum, &c->told[i].progress.sum);
		sum.seconds += c->told[i].progress.seconds;
		*failed += c->told[i].failed;
	}
	return sum;
}

static void report_row(FILE *f, const char *name, const struct progress *p,
		       uint32_t failed)
{
	fprintf(f, "%-11s %12" PRIu64 " %14" PRIu64 " %12" PRIu64 " %16" PRIu64
		" %10.1f %10u  %016" PRIx64 "\n", name, p->sum.seeds,
		p->sum.completions, outcome_faults(&p->sum), p->sum.verified,
		p->seconds, failed, p->sum.digest);
}

static void report_head(FILE *f, const struct command *c)
{
	struct utsname system;
	time_t now = time(NULL);
	struct tm tm;
	char date[32] = "";

	if (gmtime_r(&now, &tm))
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &tm);
	memset(&system, 0, sizeof(system));
	uname(&system);
	fprintf(f, "date      %s\nweir      %s\n", date, weir_version());
#ifdef __clang__
	fprintf(f, "compiler  %s\n", __VERSION__);
#else
	fprintf(f, "compiler  gcc %s\n", __VERSION__);
#endif
	fprintf(f, "kernel    %s %s %s\njobs      %u\n\n", system.sysname,
		system.release, system.machine, c->jobs);
}

static void report(FILE *f, const struct command *c)
{
	uint32_t failed;
	struct progress sum = sum_of(c, &failed);

	report_head(f, c);
	fprintf(f, "%-11s %12s %14s %12s %16s %10s %10s  %s\n", "scenario",
		"seeds", "completions", "faults", "bytes verified", "seconds",
		"violations", "digest");
	for (uint32_t i = 0; i < c->n_told; i++)
		report_row(f, c->told[i].scenario->name, &c->told[i].progress,
			   c->told[i].failed);
	report_row(f, "all", &sum, failed);
	fputs("\nfaults by kind\n", f);
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		fprintf(f, "  %-10s %12" PRIu64 "\n", weir_sim_fault_name(i),
			sum.sum.faults[i]);
}

static int complain(const char *path)
{
	fprintf(stderr, "weir-sim: %s: %s\n", path, strerror(errno));
	return EXIT_FAILED;
}

int report_open(const struct command *c)
{
	FILE *f = c->report ? fopen(c->report, "ae") : NULL;

	if (c->report && !f)
		return complain(c->report);
	if (f)
		fclose(f);
	return EXIT_OK;
}

static int write_report(const struct command *c)
{
	FILE *f = fopen(c->report, "we");
	bool bad;

	if (!f)
		return complain(c->report);
	report(f, c);
	bad = fflush(f) || ferror(f);
	if (fclose(f) || bad)
		return complain(c->report);
	return EXIT_OK;
}

int tell_end(struct command *c)
{
	uint32_t failed;
	struct progress sum = sum_of(c, &failed);

	if (c->json) {
		json_close(&c->out, ']');
		json_close(&c->out, '}');
	} else if (!c->quiet && c->n_told > 1 && !failed) {
		tell_text("all", &sum);
	}
	return c->report ? write_report(c) : EXIT_OK;
}
