/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Scenario: files are copied on hosts whose power is cut at any moment and
 * whose disks are full, have bad sectors or get stuck.  The hosts start again
 * with the data that the disks have kept.
 */

#include "sim-cp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir/crc32c.h>
#include <weir/sim/file.h>

#define BYTES_MAX (SOURCES * SPAN)

/* The files. */

/* The source that the file @path is a copy of, or ABSENT. */
static uint32_t what_is(struct host *h, const char *path)
{
	static char buf[BYTES_MAX + 1];
	struct run *run = h->program->run;
	int64_t n = weir_sim_file_read(run->sim, path, buf, sizeof(buf), 0);

	if (n == -ENOENT)
		return ABSENT;
	for (uint32_t i = 0; i < SOURCES; i++)
		if (n == (int64_t)h->sizes[i] &&
		    pattern_is(run, buf, (size_t)n, h->stamps[i], 0))
			return i;
	must(false, "a destination is whole, or as it was",
	     "%s has %lld bytes that are no source's", path, (long long)n);
	return ABSENT;
}

static void check_copy(struct copier *c)
{
	uint32_t is = what_is(c->host, c->path);

	must(c->allowed >> is & 1, "a destination is whole, or as it was",
	     "%s is %u, which it cannot be (%x)", c->path, is, c->allowed);
}

static void check_sources(struct host *h)
{
	for (uint32_t i = 0; i < SOURCES; i++)
		must(what_is(h, h->sources[i]) == i,
		     "a source is never changed", "%s", h->sources[i]);
}

/* Ends. */

static bool temp_is_there(const struct copier *c)
{
	return weir_sim_file_size(c->host->program->run->sim, c->temp_path) >=
	       0;
}

void copier_ended(struct copier *c)
{
	struct program *p = c->host->program;

	weir_sim_note(p->run->sim, c->path, (uint64_t)-(int64_t)c->err);
	if (c->err) {
		p->failed++;
		must(c->may_fail || c->cut || p->run->trial->faults,
		     "a copy fails for a cause", "%s: %d", c->path, c->err);
		must(c->cut || !c->may_have_temp || !temp_is_there(c),
		     "a copy that failed leaves nothing behind", "%s: %d",
		     c->temp_path, c->err);
		check_copy(c);
		return;
	}
	p->copied++;
	must(what_is(c->host, c->path) == c->from,
	     "a copy that was reported is there", "%s", c->path);
	c->allowed = 1u << c->from;
}

static bool is_resting(const struct host *h)
{
	for (uint32_t i = 0; i < COPIERS; i++)
		if (h->copiers[i].is_busy)
			return false;
	return true;
}

static bool is_down(const struct host *h)
{
	for (uint32_t i = 0; i < COPIERS; i++)
		if (h->copiers[i].is_busy && h->copiers[i].cut)
			return true;
	return false;
}

/* Faults of hosts. */

/* Read what the disk has kept. */
static void look_after_cut(struct host *h)
{
	for (uint32_t i = 0; i < COPIERS; i++) {
		struct copier *c = &h->copiers[i];

		check_copy(c);
		c->allowed = 1u << what_is(h, c->path);
		c->cut = true;
	}
	check_sources(h);
}

static void cut_power(struct program *p)
{
	uint32_t which = rnd(p->run, 2 * HOSTS);

	weir_sim_power_cut(p->run->sim, which < HOSTS ?
			   p->hosts[which].prefix : "");
	for (uint32_t i = 0; i < HOSTS; i++)
		if (which >= HOSTS || which == i)
			look_after_cut(&p->hosts[i]);
}

static void expect_failures(struct host *h)
{
	for (uint32_t i = 0; i < COPIERS; i++)
		h->copiers[i].may_fail = true;
}

static void set_space(struct host *h, bool is_full)
{
	struct run *run = h->program->run;
	char prefix[16];

	snprintf(prefix, sizeof(prefix), "%sout/", h->prefix);
	must(!weir_sim_space(run->sim, prefix, is_full ?
			     rnd(run, 2 * BYTES_MAX) : UINT64_MAX),
	     "a disk can be filled", "%s", prefix);
	h->is_full = is_full;
	expect_failures(h);
}

static void set_bad(struct host *h, bool is_bad)
{
	struct run *run = h->program->run;
	struct copier *c = &h->copiers[rnd(run, COPIERS)];

	for (uint32_t i = 0; i < SOURCES; i++)
		(void)weir_sim_bad_sectors(run->sim, h->sources[i],
					   is_bad ? rnd(run, BYTES_MAX) : 0,
					   is_bad ? 512 : BYTES_MAX,
					   is_bad ? WEIR_SIM_BAD_READS : 0);
	if (is_bad)
		(void)weir_sim_bad_sectors(run->sim, c->temp_path,
					   rnd(run, BYTES_MAX), 512,
					   WEIR_SIM_BAD_WRITES);
	h->is_bad = is_bad;
	expect_failures(h);
}

static void cancel_one(struct copier *c)
{
	if (!c->task.is_under_way || c->stage >= CLOSE_TEMP)
		return;
	c->may_fail = true;
	task_cancel(&c->task);
}

static void start_one(struct copier *c)
{
	struct host *h = c->host;
	struct program *p = h->program;

	if (c->is_busy) {
		copier_go_on(c);
		return;
	}
	if (is_down(h) || !budget_take(p->run))
		return;
	c->may_fail = h->is_full || h->is_bad;
	copier_start(c, rnd(p->run, SOURCES));
}

static void disturb(struct program *p)
{
	struct host *h = &p->hosts[rnd(p->run, HOSTS)];
	struct copier *c = &h->copiers[rnd(p->run, COPIERS)];

	switch (rnd(p->run, 32)) {
	case 0:
	case 1:
		cut_power(p);
		break;
	case 2:
		set_space(h, !h->is_full);
		break;
	case 3:
		set_bad(h, !h->is_bad);
		break;
	case 4:
		cancel_one(c);
		break;
	case 5:
		check_copy(c);
		break;
	default:
		start_one(c);
	}
}

/* Set up and end. */

static void make_sources(struct host *h)
{
	static char buf[BYTES_MAX];
	struct run *run = h->program->run;

	for (uint32_t i = 0; i < SOURCES; i++) {
		snprintf(h->sources[i], sizeof(h->sources[i]), "%sin/s%c",
			 h->prefix, '0' + (char)i);
		h->sizes[i] = i * SPAN + rnd(run, SPAN);
		h->stamps[i] = weir_sim_random(run->sim);
		pattern_fill(buf, h->sizes[i], h->stamps[i], 0);
		h->crcs[i] = weir_crc32c(0, buf, h->sizes[i]);
		must(weir_sim_file_write(run->sim, h->sources[i], buf,
					 h->sizes[i], 0) >= 0,
		     "a test can write a file", "%s", h->sources[i]);
	}
}

static void host_open(struct host *h)
{
	struct weir_pool_opts pool = {
		.size = sizeof(pool), .flags = WEIR_POOL_NO_HUGE,
	};
	struct run *run = h->program->run;
	int err = weir_dma_create(&h->dma, h->r, NULL);

	if (!err)
		err = weir_dma_start(h->dma);
	h->block = (size_t)512 << rnd(run, 5);
	pool.bufs = 1 + rnd(run, 8);
	pool.buf_size = h->block;
	if (!err)
		err = weir_pool_create(&h->pool, h->r, &pool);
	must(!err, "a host can be made", "%d: %s", err, weir_why());
}

static void host_set_up(struct program *p, uint32_t n)
{
	struct host *h = &p->hosts[n];

	h->program = p;
	h->r = p->run->reactors[n % p->run->n_reactors];
	snprintf(h->prefix, sizeof(h->prefix), "%c/", 'a' + (char)n);
	snprintf(h->out, sizeof(h->out), "%sout", h->prefix);
	must(!weir_sim_mkdir(p->run->sim, h->out), "a directory can be made",
	     "%s", h->out);
	host_open(h);
	make_sources(h);
	for (uint32_t i = 0; i < COPIERS; i++) {
		struct copier *c = &h->copiers[i];

		c->host = h;
		c->number = i;
		c->allowed = 1u << ABSENT;
		snprintf(c->name, sizeof(c->name), "f%c", '0' + (char)i);
		snprintf(c->temp_name, sizeof(c->temp_name), ".f%c",
			 '0' + (char)i);
		snprintf(c->path, sizeof(c->path), "%s/%s", h->out, c->name);
		snprintf(c->temp_path, sizeof(c->temp_path), "%s/%s", h->out,
			 c->temp_name);
		copier_set_up(c);
	}
}

static void host_take_down(struct host *h)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < COPIERS; i++) {
		check_copy(&h->copiers[i]);
		err = weir_pipeline_destroy(h->copiers[i].pipeline);
	}
	if (!err)
		err = weir_pool_destroy(h->pool);
	if (!err)
		err = weir_dma_destroy(h->dma);
	must(!err, "all is back, so it can be destroyed", "%d: %s", err,
	     weir_why());
}

static bool is_done(struct run *run)
{
	struct program *p = run->program;
	bool done = true;

	for (uint32_t i = 0; i < HOSTS; i++) {
		for (uint32_t j = 0; j < COPIERS; j++)
			copier_go_on(&p->hosts[i].copiers[j]);
		done = is_resting(&p->hosts[i]) && done;
	}
	return done;
}

static void take_down(struct program *p)
{
	weir_sim_power_cut(p->run->sim, "");
	for (uint32_t i = 0; i < HOSTS; i++)
		look_after_cut(&p->hosts[i]);
	/* Changes of state have yet to be reported. */
	(void)weir_sim_run(p->run->sim, WEIR_SEC, 0);
	for (uint32_t i = 0; i < HOSTS; i++)
		host_take_down(&p->hosts[i]);
	end_reactors(p->run);
}

static void run_cp(struct weir_sim_trial *trial)
{
	struct run *run = run_begin(trial);
	static struct program p;
	uint32_t i;

	program_begin(run, &p, sizeof(p));
	p.run = run;
	make_reactors(run, 1 + rnd(run, HOSTS));
	for (i = 0; i < HOSTS; i++)
		host_set_up(&p, i);
	for (i = 0; run->budget && i < 40 * run->trial->ops; i++) {
		disturb(&p);
		(void)weir_sim_run(run->sim, WEIR_SEC, 1 + rnd(run, 60));
	}
	run_to_end(run, WEIR_SEC, is_done);
	take_down(&p);
}

const struct weir_sim_scenario scenario_cp = {
	.size = sizeof(scenario_cp),
	.name = "cp",
	.what = "files copied as by weir-cp, through power cuts and full disks",
	.run = run_cp,
	.faults = WEIR_SIM_ALL_FAULTS,
	.ops = 30,
};
