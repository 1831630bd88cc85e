/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Scenario: memory is exported, leased, imported, used, and revoked at any moment.
 * Both sides are in one world.  The real parts, mappings and descriptors,
 * decide nothing.
 */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "sim-export.h"

bool went_well(struct program *p, int err, const char *what)
{
	must(!err || p->run->trial->faults, "nothing fails without a cause",
	     "%s: %d: %s", what, err, weir_why());
	return !err;
}

/* The exporter. */

static void share_start(struct share *s)
{
	s->is_started = went_well(s->program, weir_mmap_start(s->mmap),
				  "a start");
}

static void share_make(struct share *s)
{
	uint32_t rights = WEIR_MMAP_WRITE | WEIR_MMAP_PEER_READ;
	size_t len = sizeof(s->shadow);
	struct weir_mmap *mmap;
	void *at = NULL;
	int err = weir_mmap_create(&mmap, weir_domain_system());

	s->may_write = !one_in(s->program->run, 3);
	if (s->may_write)
		rights |= WEIR_MMAP_PEER_WRITE;
	if (!went_well(s->program, err, "an mmap"))
		return;
	err = weir_mmap_set_permissions(mmap, rights);
	if (!err)
		err = weir_mmap_alloc(mmap, len, WEIR_MMAP_ALLOC_MEMFD);
	if (!err)
		err = weir_mmap_memrange(mmap, &at, &len);
	if (!went_well(s->program, err, "memory")) {
		must(!weir_mmap_destroy(mmap), "the memory is unused", "new");
		return;
	}
	s->mmap = mmap;
	s->bytes = at;
	memset(s->shadow, 0, sizeof(s->shadow));
	share_start(s);
}

/* From here on importers find it revoked. */
static void share_revoked(struct share *s)
{
	s->stops++;
	leases_revoked(s);
	weir_sim_note(s->program->run->sim, "revoked", s->number);
}

static void share_stopped(struct share *s)
{
	s->is_started = false;
	share_revoked(s);
}

bool is_busy(const struct share *s, const struct lease *lease)
{
	const struct program *p = s->program;

	for (uint32_t i = 0; i < IMPORTS; i++) {
		const struct import *im = &p->imports[i];

		if (im->share != s || (lease && im->lease != lease))
			continue;
		for (uint32_t j = 0; j < MOVES; j++)
			if (im->moves[j].is_under_way &&
			    im->moves[j].lives == s->lives)
				return true;
	}
	return false;
}

static void stop_end(struct task *task, int64_t res)
{
	struct share *s = task->op.data;

	must(!res || task_was_ended(task, res), "an exporter can stop",
	     "%lld", (long long)res);
	/* A revoked import stays revoked. */
	s->is_started = res != 0;
	if (!res)
		share_freeze(s, NULL, s->stops);
}

/* The stop waits for the jobs of importers. */
static void share_stop_slowly(struct share *s)
{
	struct weir_reactor *r = s->program->cores[0].r;
	int err;

	task_init(&s->stop, s->program->run, "stop of an mmap", stop_end);
	s->stop.op.data = s;
	err = weir_mmap_stop(s->mmap, r, &s->stop.op);
	must(!err || err == -EAGAIN, "an exporter can stop at any time",
	     "%d: %s", err, weir_why());
	if (task_began(&s->stop, err))
		share_stopped(s);
}

static void share_stop(struct share *s)
{
	bool busy = is_busy(s, NULL);
	int err;

	if (one_in(s->program->run, 2)) {
		share_stop_slowly(s);
		return;
	}
	err = weir_mmap_stop(s->mmap, NULL, NULL);
	must(!err || (err == -EBUSY && busy),
	     "an exporter that no one uses can stop", "%d: %s", err,
	     weir_why());
	if (err)
		return;
	share_stopped(s);
	share_freeze(s, NULL, s->stops);
}

static void revoke_end(struct task *task, int64_t res)
{
	struct share *s = task->op.data;

	must(!res || task_was_ended(task, res), "an exporter can revoke",
	     "%lld", (long long)res);
	/* It may have been revoked again before this callback. */
	if (!res)
		share_freeze(s, NULL, s->revoke_stops);
}

/* The exporter goes on with the memory, and may export it anew. */
static void share_revoke(struct share *s)
{
	bool busy = is_busy(s, NULL);
	int err;

	if (s->revoke.is_under_way) {
		if (one_in(s->program->run, 4))
			task_cancel(&s->revoke);
		return;
	}
	if (one_in(s->program->run, 4)) {
		err = weir_mmap_revoke(s->mmap, NULL, NULL);
		must(!err || (err == -EINPROGRESS && busy),
		     "an export that no one uses is revoked at once", "%d: %s",
		     err, weir_why());
		share_revoked(s);
		if (!err)
			share_freeze(s, NULL, s->stops);
		return;
	}
	task_init(&s->revoke, s->program->run, "revoke of an mmap", revoke_end);
	s->revoke.op.data = s;
	err = weir_mmap_revoke(s->mmap, s->program->cores[0].r, &s->revoke.op);
	if ((err == -EAGAIN || went_well(s->program, err, "a revoke")) &&
	    task_began(&s->revoke, err)) {
		share_revoked(s);
		s->revoke_stops = s->stops;
	}
}

static void share_unmake(struct share *s)
{
	bool busy = is_busy(s, NULL) || leases_are_awaited(s) ||
		    s->revoke.is_under_way;
	int err;

	share_check(s);
	err = weir_mmap_destroy(s->mmap);
	must(!err || (err == -EBUSY && busy),
	     "an exporter that no one uses can end", "%d: %s", err,
	     weir_why());
	if (err)
		return;
	if (s->is_started)
		share_stopped(s);
	s->mmap = NULL;
	s->lives++;
	memset(s->busy, 0, sizeof(s->busy));
}

/* Importers see the exporter's writes. */
static void share_write(struct share *s)
{
	uint32_t region = rnd(s->program->run, REGIONS);
	char *shadow = s->shadow + (size_t)region * REGION;

	if (s->busy[region])
		return;
	pattern_fill(shadow, 256, ++s->program->stamps, 0);
	memcpy(s->bytes + (size_t)region * REGION, shadow, 256);
}

static void share_act(void *arg)
{
	struct share *s = arg;

	if (!s->mmap) {
		share_make(s);
		return;
	}
	if (s->stop.is_under_way) {
		must(weir_mmap_state(s->mmap) != WEIR_MMAP_STOPPING ||
		     weir_mmap_destroy(s->mmap) == -EBUSY,
		     "what is in use is busy", "an mmap that is stopping");
		if (one_in(s->program->run, 4))
			task_cancel(&s->stop);
		return;
	}
	if (!s->is_started) {
		if (one_in(s->program->run, 2))
			share_unmake(s);
		else
			share_start(s);
		return;
	}
	switch (rnd(s->program->run, 8)) {
	case 0:
	case 1:
		share_stop(s);
		break;
	case 2:
		share_unmake(s);
		break;
	case 3:
		share_check(s);
		break;
	case 4:
	case 5:
		share_revoke(s);
		break;
	default:
		share_write(s);
	}
}

/* Importers. */

static int import_attach(struct import *im, struct weir_mmap *mmap)
{
	struct weir_inventory_opts opts = { .size = sizeof(opts), .bufs = 8 };
	struct weir_inventory *inventory;
	int err = weir_inventory_create(&inventory, im->core->r, &opts);

	if (err)
		return err;
	err = weir_inventory_attach(inventory, mmap);
	if (err) {
		must(!weir_inventory_destroy(inventory), "no buf is out",
		     "new");
		return err;
	}
	im->inventory = inventory;
	return 0;
}

static int import_open(struct import *im, struct share *s, uint32_t rights,
		       struct weir_mmap **ret)
{
	struct lease *lease = one_in(im->program->run, 2) ? lease_pick(s) : NULL;
	struct weir_import_opts opts = { .size = sizeof(opts) };
	struct weir_export_desc desc = { .size = sizeof(desc) };
	int err = 0;

	opts.permissions = rights;
	im->may_write = s->may_write && rights != WEIR_MMAP_READ;
	im->lease = lease;
	if (lease) {
		im->ends = lease->ends;
		desc = lease->desc;
	} else {
		err = weir_mmap_export(s->mmap, NULL, &desc);
	}
	if (!err)
		err = weir_mmap_import(ret, desc.bytes, desc.len, desc.fds,
				       desc.n_fds, &opts);
	return err;
}

static void check_rights(struct import *im, struct weir_mmap *mmap)
{
	bool writes = weir_mmap_permissions(mmap) & WEIR_MMAP_WRITE;
	size_t len = 0;
	void *at = NULL;

	must(writes == im->may_write, "rights are what was granted",
	     "import %u: %x", im->number, weir_mmap_permissions(mmap));
	must(!weir_mmap_memrange(mmap, &at, &len) &&
	     len == sizeof(im->share->shadow),
	     "an import is as long as what was exported", "%zu", len);
	im->bytes = at;
}

static void import_one(struct import *im)
{
	static const uint32_t asks[] = { 0, WEIR_MMAP_READ, WEIR_MMAP_WRITE };
	struct program *p = im->program;
	struct share *s = &p->shares[rnd(p->run, SHARES)];
	uint32_t rights = asks[rnd(p->run, 3)];
	struct weir_mmap *mmap;
	int err;

	if (!s->is_started)
		return;
	err = import_open(im, s, rights, &mmap);
	if (rights == WEIR_MMAP_WRITE && !s->may_write) {
		must(err == -EACCES || (err && p->run->trial->faults),
		     "no more than was granted", "%d", err);
		return;
	}
	if (!went_well(p, err, "an import"))
		return;
	im->share = s;
	im->stops = s->stops;
	im->over_ns = 0;
	check_rights(im, mmap);
	if (!went_well(p, import_attach(im, mmap), "an inventory"))
		must(!weir_mmap_destroy(mmap), "an import is unused", "new");
	else
		im->mmap = mmap;
	im->is_detached = false;
}

static void watch_end(struct task *task, int64_t res)
{
	struct import *im = task->op.data;

	must((res == -ESTALE && is_stale(im)) || task_was_ended(task, res),
	     "the end of an exporter is told, and nothing else", "%lld",
	     (long long)res);
}

static void import_watch(struct import *im)
{
	int err;

	if (im->watch.is_under_way) {
		if (one_in(im->program->run, 4))
			task_cancel(&im->watch);
		return;
	}
	if (im->program->run->ending)
		return;
	task_init(&im->watch, im->program->run, "watch", watch_end);
	im->watch.op.data = im;
	im->watch.ends_at_once = true;
	err = weir_mmap_watch(im->mmap, im->core->r, &im->watch.op);
	if (err != -EAGAIN && went_well(im->program, err, "a watch"))
		task_began(&im->watch, 0);
}

static bool is_used(const struct import *im)
{
	for (uint32_t i = 0; i < MOVES; i++)
		if (im->moves[i].is_under_way)
			return true;
	return false;
}

/* Only a watch holds it; without an inventory it is not used any more. */
static void import_misuse(struct import *im)
{
	int err = weir_inventory_detach(im->inventory, im->mmap);

	must(!err, "an unused mmap can be detached", "%d: %s", err,
	     weir_why());
	must(weir_mmap_destroy(im->mmap) == -EBUSY, "what is in use is busy",
	     "import %u has a watch", im->number);
	err = weir_inventory_attach(im->inventory, im->mmap);
	im->is_detached = !went_well(im->program, err, "an attach");
}

static void import_drop(struct import *im)
{
	int err;

	if (is_used(im)) {
		must(weir_inventory_destroy(im->inventory) == -EBUSY,
		     "what is in use is busy", "import %u", im->number);
		return;
	}
	if (im->watch.is_under_way) {
		if (!im->watch.may_be_cancelled && !im->is_detached &&
		    !is_stale(im))
			import_misuse(im);
		return;
	}
	err = weir_inventory_destroy(im->inventory);
	if (!err)
		err = weir_mmap_destroy(im->mmap);
	must(!err, "an import can be given back", "%d: %s", err, weir_why());
	im->mmap = NULL;
}

static void check_stale(struct import *im)
{
	struct weir_inventory_opts opts = { .size = sizeof(opts), .bufs = 1 };
	struct weir_inventory *inventory;
	int err;

	if (weir_inventory_create(&inventory, im->core->r, &opts))
		return;
	err = weir_inventory_attach(inventory, im->mmap);
	must(err == -ESTALE || (err && im->program->run->trial->faults),
	     "what is stale is refused", "an attach: %d", err);
	must(!weir_inventory_destroy(inventory), "no buf is out", "new");
}

static void import_act(void *arg)
{
	struct import *im = arg;

	if (!im->mmap) {
		import_one(im);
		return;
	}
	must(weir_mmap_is_stale(im->mmap) == is_stale(im),
	     "an import is stale exactly if its export has ended",
	     "import %u", im->number);
	switch (rnd(im->program->run, 16)) {
	case 0:
		import_watch(im);
		break;
	case 1:
		import_drop(im);
		break;
	default:
		if (is_stale(im) && one_in(im->program->run, 2)) {
			import_drop(im);
			break;
		}
		if (is_stale(im))
			check_stale(im);
		for (uint32_t n = 1 + rnd(im->program->run, 6);
		     n && !im->is_detached; n--)
			move_one(im);
	}
}

/* All of them. */

/* Run on its reactor, so that its calls may fail as in a real program. */
static void let_act(struct program *p)
{
	struct import *im = &p->imports[rnd(p->run, IMPORTS)];
	struct share *s = &p->shares[rnd(p->run, SHARES)];

	struct lease *lease = &s->leases[rnd(p->run, LEASES)];

	if (one_in(p->run, 6))
		(void)weir_post(p->cores[0].r, share_act, s);
	else if (one_in(p->run, 8))
		(void)weir_post(p->cores[0].r, lease_act, lease);
	else
		(void)weir_post(im->core->r, import_act, im);
}

static bool is_done(struct run *run)
{
	struct program *p = run->program;

	for (uint32_t i = 0; i < IMPORTS; i++)
		if (p->imports[i].watch.is_under_way)
			task_cancel(&p->imports[i].watch);
	for (uint32_t i = 0; i < SHARES; i++)
		for (uint32_t j = 0; j < LEASES; j++)
			if (p->shares[i].leases[j].wait.is_under_way)
				task_cancel(&p->shares[i].leases[j].wait);
	return true;
}

static void set_up(struct program *p)
{
	struct weir_dma_opts opts = { .size = sizeof(opts) };
	uint32_t i;
	int err;

	make_reactors(p->run, 1 + rnd(p->run, REACTORS));
	/* Exporters stop while requests are being processed. */
	(void)weir_sim_set_latency(p->run->sim, WEIR_SIM_FILE, 500,
				   rnd(p->run, 3000000));
	for (i = 0; i < p->run->n_reactors; i++) {
		p->cores[i].r = p->run->reactors[i];
		opts.turn_bytes = one_in(p->run, 2) ? 4096 : 0;
		err = weir_dma_create(&p->cores[i].dma, p->cores[i].r, &opts);
		if (!err)
			err = weir_dma_start(p->cores[i].dma);
		must(!err, "a context can be made", "%d: %s", err, weir_why());
	}
	files_set_up(p);
	for (i = 0; i < SHARES; i++) {
		p->shares[i].program = p;
		p->shares[i].number = i;
		for (uint32_t j = 0; j < LEASES; j++)
			p->shares[i].leases[j].share = &p->shares[i];
	}
	for (i = 0; i < IMPORTS; i++) {
		p->imports[i].program = p;
		p->imports[i].number = i;
		p->imports[i].core = &p->cores[rnd(p->run, p->run->n_reactors)];
	}
}

static void take_down(struct program *p)
{
	int err = 0;
	uint32_t i;

	for (i = 0; i < IMPORTS; i++)
		if (p->imports[i].mmap)
			import_drop(&p->imports[i]);
	for (i = 0; i < SHARES; i++) {
		for (uint32_t j = 0; j < LEASES; j++)
			lease_drop(&p->shares[i].leases[j]);
		if (p->shares[i].mmap)
			share_unmake(&p->shares[i]);
	}
	/* Changes of state have yet to be reported. */
	(void)weir_sim_run(p->run->sim, WEIR_SEC, 0);
	for (i = 0; !err && i < p->run->n_reactors; i++)
		err = weir_dma_destroy(p->cores[i].dma);
	must(!err, "an idle context can be destroyed", "%d: %s", err,
	     weir_why());
	files_take_down(p);
	end_reactors(p->run);
}

/* The lowest free descriptor: a leaked one would be below it. */
static int free_fd(void)
{
	int fd = dup(STDERR_FILENO);

	close(fd);
	return fd;
}

static void run_export(struct weir_sim_trial *trial)
{
	struct run *run = run_begin(trial);
	static struct program p;
	int fd = free_fd();

	program_begin(run, &p, sizeof(p));
	p.run = run;
	set_up(&p);
	for (uint32_t i = 0; run->budget && i < 40 * run->trial->ops; i++) {
		for (uint32_t n = rnd(run, 8); n; n--)
			let_act(&p);
		(void)weir_sim_run(run->sim, WEIR_MSEC, 1 + rnd(run, 12));
		leases_check(&p);
	}
	run_to_end(run, WEIR_SEC, is_done);
	/* Actors that have not acted yet. */
	(void)weir_sim_run(run->sim, WEIR_SEC, 0);
	run_to_end(run, WEIR_SEC, is_done);
	weir_sim_note(run->sim, "stale", p.stale);
	take_down(&p);
	must(free_fd() == fd, "all descriptors are given back", "%d, not %d",
	     free_fd(), fd);
}

const struct weir_sim_scenario scenario_export = {
	.size = sizeof(scenario_export),
	.name = "export",
	.what = "jobs over imported memory that its exporter takes back",
	.run = run_export,
	.faults = WEIR_SIM_ALL_FAULTS,
	.ops = 400,
};
