/* SPDX-License-Identifier: BSD-3-Clause */

/* Seeds in rounds, so that a run can be interrupted and gone on with; and the
 * telling of it. */

#define _GNU_SOURCE 1
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "json.h"
#include "sim-command.h"

#define ROUND 512	/* Seeds between two looks at the clock and the state. */

/* How far a scenario is: a line of the state file. */
struct progress {
	uint64_t next;		/* The seed to go on with. */
	struct outcome sum;
	double seconds;
};

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void save_line(FILE *f, const struct scenario *scenario,
		      const struct progress *p)
{
	fprintf(f, "%s next %" PRIu64 " seeds %" PRIu64 " completions %" PRIu64
		" events %" PRIu64 " verified %" PRIu64 " digest %" PRIu64
		" ms %.0f faults", scenario->name, p->next, p->sum.seeds,
		p->sum.completions, p->sum.events, p->sum.verified,
		p->sum.digest, p->seconds * 1e3);
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		fprintf(f, " %" PRIu64, p->sum.faults[i]);
	fputs("\n", f);
}

static bool load_line(const char *line, const struct scenario *scenario,
		      struct progress *p)
{
	struct progress got = { 0 };
	size_t len = strlen(scenario->name);
	double ms;
	int at = 0;

	if (strncmp(line, scenario->name, len) || line[len] != ' ')
		return false;
	line += len;
	if (sscanf(line, " next %" SCNu64 " seeds %" SCNu64 " completions %"
		   SCNu64 " events %" SCNu64 " verified %" SCNu64 " digest %"
		   SCNu64 " ms %lf faults%n", &got.next, &got.sum.seeds,
		   &got.sum.completions, &got.sum.events, &got.sum.verified,
		   &got.sum.digest, &ms, &at) != 7 || !at)
		return false;
	got.seconds = ms / 1e3;
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++) {
		char *end;

		got.sum.faults[i] = strtoull(line + at, &end, 10);
		at = (int)(end - line);
	}
	*p = got;
	return true;
}

static void load_state(const char *path, const struct scenario *scenario,
		       struct progress *p)
{
	FILE *f = fopen(path, "re");
	char line[2048];

	if (!f)
		return;
	while (fgets(line, sizeof(line), f) &&
	       !load_line(line, scenario, p))
		;
	fclose(f);
}

/* The lines of the others as they are; whole, or as it was. */
static int save_state(const char *path, const struct scenario *scenario,
		      const struct progress *p)
{
	FILE *old = fopen(path, "re"), *f;
	char line[2048], temp[4096];
	struct progress other;
	int err = 0;

	snprintf(temp, sizeof(temp), "%s.new", path);
	f = fopen(temp, "we");
	if (!f) {
		err = -errno;
	} else {
		while (old && fgets(line, sizeof(line), old))
			if (!load_line(line, scenario, &other))
				fputs(line, f);
		save_line(f, scenario, p);
		if (fflush(f) || fsync(fileno(f)))
			err = -errno;
		if (fclose(f) && !err)
			err = -errno;
		if (!err && rename(temp, path))
			err = -errno;
	}
	if (old)
		fclose(old);
	if (err)
		fprintf(stderr, "weir-sim: %s: %s\n", path, strerror(-err));
	return err;
}

static void add(struct outcome *sum, const struct outcome *out)
{
	sum->seeds += out->seeds;
	sum->completions += out->completions;
	sum->events += out->events;
	sum->verified += out->verified;
	sum->digest += out->digest;
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		sum->faults[i] += out->faults[i];
}

static uint64_t faults_of(const struct outcome *out)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		n += out->faults[i];
	return n;
}

static void print_json(const struct scenario *scenario,
		       const struct progress *p, const struct outcome *found,
		       const char *again)
{
	struct json j = { 0 };
	char digest[32];

	snprintf(digest, sizeof(digest), "%016" PRIx64, p->sum.digest);
	json_open(&j, NULL, '{');
	json_string(&j, "scenario", scenario->name);
	json_number(&j, "seeds", p->sum.seeds);
	json_number(&j, "completions", p->sum.completions);
	json_number(&j, "events", p->sum.events);
	json_number(&j, "bytes_verified", p->sum.verified);
	json_string(&j, "digest", digest);
	json_open(&j, "faults", '{');
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		json_number(&j, weir_sim_fault_name(i), p->sum.faults[i]);
	json_close(&j, '}');
	json_bool(&j, "well", !found);
	json_string(&j, "rule", found ? found->rule : NULL);
	json_string(&j, "text", found ? found->text : NULL);
	json_string(&j, "again", again);
	json_close(&j, '}');
}

static void print_sum(FILE *f, const struct scenario *scenario,
		      const struct progress *p)
{
	fprintf(f, "%-10s %" PRIu64 " seeds, %" PRIu64 " completions, %" PRIu64
		" faults, %" PRIu64 " bytes verified, digest %016" PRIx64
		", %.1f s\n", scenario->name, p->sum.seeds, p->sum.completions,
		faults_of(&p->sum), p->sum.verified, p->sum.digest,
		p->seconds);
}

static void write_report(const char *path, const struct scenario *scenario,
			 const struct progress *p, const struct outcome *found)
{
	FILE *f = fopen(path, "ae");

	if (!f) {
		fprintf(stderr, "weir-sim: %s: %s\n", path, strerror(errno));
		return;
	}
	print_sum(f, scenario, p);
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		if (p->sum.faults[i])
			fprintf(f, "  %-10s %" PRIu64 "\n",
				weir_sim_fault_name(i), p->sum.faults[i]);
	fprintf(f, "  violations: %s%s\n", found ? "1, " : "none",
		found ? found->rule : "");
	if (fclose(f))
		fprintf(stderr, "weir-sim: %s: %s\n", path, strerror(errno));
}

static void tell_failure(const struct command *c, struct params *params,
			 struct outcome *found, char *again, size_t size)
{
	if (!c->no_shrink && !c->trace)
		shrink(params, found, c->quiet);
	params_print(again, size, params);
	fprintf(stderr, "weir-sim: %s, seed %" PRIu64 ", event %" PRIu64
		": '%s' does not hold: %s\nweir-sim: again: weir-sim %s "
		"--trace\n", params->scenario->name, params->seed,
		found->at_event, found->rule, found->text, again);
}

static void conclude(const struct command *c, struct params *params,
		     const struct progress *p, struct outcome *found)
{
	char again[512];

	if (found)
		tell_failure(c, params, found, again, sizeof(again));
	if (c->json)
		print_json(params->scenario, p, found, found ? again : NULL);
	else if (!c->quiet && !found)
		print_sum(stdout, params->scenario, p);
	if (c->report)
		write_report(c->report, params->scenario, p, found);
}

static struct params params_of(const struct command *c,
			       const struct scenario *scenario)
{
	struct params params;

	params_default(&params, scenario);
	params.seed = c->first;
	params.rate = c->rate;
	params.steady = c->steady;
	params.faults_max = c->faults_max;
	if (c->ops)
		params.ops = c->ops;
	if (c->has_faults)
		params.faults = c->faults;
	return params;
}

static bool is_done(const struct command *c, const struct progress *p)
{
	return c->completions ? p->sum.completions >= c->completions :
				p->next - c->first >= c->seeds;
}

static uint64_t round_of(const struct command *c, const struct progress *p)
{
	uint64_t left = c->seeds - (p->next - c->first);

	if (c->completions || left > (uint64_t)ROUND * c->jobs)
		return (uint64_t)ROUND * c->jobs;
	return left;
}

int command_run(const struct command *c, const struct scenario *scenario)
{
	struct params params = params_of(c, scenario);
	struct progress p = { .next = c->first };
	struct outcome out;
	double begun;
	uint64_t n;
	bool well;

	if (c->state)
		load_state(c->state, scenario, &p);
	while (!is_done(c, &p)) {
		n = round_of(c, &p);
		params.seed = p.next;
		begun = now_s();
		well = c->trace ? run_seeds(&params, n, true, &out) :
				  run_many(&params, n, c->jobs, &out);
		p.seconds += now_s() - begun;
		add(&p.sum, &out);
		if (!well) {
			params.seed = out.seed;
			conclude(c, &params, &p, &out);
			return EXIT_FAILED;
		}
		p.next += n;
		if (c->state && save_state(c->state, scenario, &p))
			return EXIT_FAILED;
	}
	conclude(c, &params, &p, NULL);
	return EXIT_OK;
}

int command_run_file(const struct command *c, const char *path)
{
	struct progress p = { 0 };
	struct params params;
	struct outcome out;
	int err = params_load(&params, path);
	bool well;

	if (err) {
		fprintf(stderr, "weir-sim: %s: %s\n", path,
			err == -ENOENT ? "no such file, or no such scenario" :
			err == -EINVAL ? "an option in it makes no sense" :
			err == -ENODATA ? "there is nothing in it" :
					  strerror(-err));
		return EXIT_USAGE;
	}
	well = run_seeds(&params, 1, c->trace, &out);
	add(&p.sum, &out);
	conclude(c, &params, &p, well ? NULL : &out);
	return well ? EXIT_OK : EXIT_FAILED;
}
