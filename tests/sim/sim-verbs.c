/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scenario: bytes by RDMA between hosts whose connections, devices and wire
 * fail, over the mock.
 */

#include <errno.h>
#include <string.h>

#include <infiniband/verbs.h>

#include <weir/rdma/device.h>

#include "tests/sim/sim-verbs.h"

static void make_host(struct program *p, struct host *h,
		      struct weir_reactor *r)
{
	struct weir_dma_opts opts = { .size = sizeof(opts) };
	int err;

	h->program = p;
	h->r = r;
	opts.jobs_max = one_in(p->run, 4) ? 1 + rnd(p->run, 6) : 0;
	opts.staging_bufs = 1 + rnd(p->run, 3);
	opts.staging_size = 4096u << rnd(p->run, 2);
	err = weir_dma_create(&h->dma, r, &opts);
	if (!err)
		err = weir_dma_start(h->dma);
	must(!err, "a context can be made", "%d: %s", err, weir_why());
	if (p->peers)
		peers_set_up(h);
	host_listen(h);
}

/* What happens to all at once. */

static void cut_the_wire(struct program *p)
{
	mock_set_link(MOCK_LOST);
	p->healed_ns = weir_sim_now(p->run->sim) + 1 +
		       rnd(p->run, 20 * 1000000);
}

static void mend_the_wire(struct program *p)
{
	p->healed_ns = 0;
	mock_set_link(MOCK_UP);
}

static void device_fails(struct program *p)
{
	struct ibv_async_event ev = { .event_type = IBV_EVENT_DEVICE_FATAL };

	mock_async(weir_device_verbs(p->device), &ev);
}

static void revoke_or_renew(struct program *p)
{
	struct end *e = &p->links[rnd(p->run, p->n_links)].end[rnd(p->run, 2)];

	if (e->target.is_open) {
		if (one_in(p->run, 20))
			target_revoke(e);
	} else if (slots_idle(e)) {
		target_close(e);
		target_open(e);
	}
}

static void disturb(void *program)
{
	struct program *p = program;
	struct run *run = p->run;

	if (p->healed_ns && p->healed_ns <= weir_sim_now(run->sim))
		mend_the_wire(p);
	if (run->trial->faults) {
		if (!p->healed_ns && one_in(run, 300))
			cut_the_wire(p);
		if (one_in(run, 600))
			mock_cm_remove_device();
		if (one_in(run, 600))
			device_fails(p);
		revoke_or_renew(p);
	}
	link_act(&p->links[rnd(run, p->n_links)]);
}

/* The end of it. */

static bool is_done(struct run *run)
{
	struct program *p = run->program;
	bool done = true;
	uint32_t i;

	if (!run->ending)
		return false;
	if (p->healed_ns)
		mend_the_wire(p);
	for (i = 0; i < p->n_links; i++)
		done = link_end(&p->links[i]) && done;
	for (i = 0; i < p->n_hosts; i++)
		if (p->hosts[i].next.is_under_way)
			task_cancel(&p->hosts[i].next);
	return done;
}

static void nothing_is_left(void)
{
	const struct mock *s = mocked();

	must(!s->qps && !s->cqs && !s->channels && !s->ids && !s->cm_channels &&
	     !s->srqs && !s->mrs && !s->mws && !s->pds && !s->contexts &&
	     !s->unacked, "all is given back", "qps %d, srqs %d, cqs %d, "
	     "channels %d, ids %d, mrs %d, mws %d, pds %d, contexts %d, "
	     "unacknowledged %d", s->qps, s->srqs, s->cqs, s->channels, s->ids,
	     s->mrs, s->mws, s->pds, s->contexts, s->unacked);
}

static void take_down(struct program *p)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < p->n_hosts && !err; i++)
		err = weir_listener_destroy(p->hosts[i].listener);
	must(!err, "a listener can go", "%d: %s", err, weir_why());
	(void)weir_sim_run(p->run->sim, WEIR_SEC, 0);
	for (i = 0; i < p->n_hosts && p->peers; i++)
		peers_take_down(&p->hosts[i]);
	for (i = 0; i < p->n_hosts && !err; i++)
		err = weir_dma_destroy(p->hosts[i].dma);
	must(!err, "an idle context can go", "%d: %s", err, weir_why());
	for (i = 0; i < p->n_links; i++)
		link_take_down(&p->links[i]);
	err = weir_device_close(p->device);
	must(!err, "nobody uses the device", "%d: %s", err, weir_why());
	end_reactors(p->run);
	nothing_is_left();
	mock_leave();
}

static void set_up(struct program *p)
{
	struct run *run = p->run;
	int err = weir_device_open_name(&p->device, "mock_mlx5");
	uint8_t i;

	must(!err, "a device can be opened", "%d: %s", err, weir_why());
	p->n_hosts = 1 + rnd(run, HOSTS);
	p->n_links = 1 + rnd(run, LINKS);
	p->peers = one_in(run, 2);
	p->windows = one_in(run, 2);
	make_reactors(run, p->n_hosts);
	for (i = 0; i < p->n_hosts; i++)
		make_host(p, &p->hosts[i], run->reactors[i]);
	for (i = 0; i < p->n_links; i++)
		link_set_up(p, &p->links[i], i);
}

static void run_verbs(struct weir_sim_trial *trial)
{
	struct run *run = run_begin(trial);
	static struct program p;

	program_begin(run, &p, sizeof(p));
	p.run = run;
	mock_enter(run->sim);
	set_up(&p);
	run_budget(run, 40, 60, disturb);
	run_to_end(run, WEIR_MSEC, is_done);
	take_down(&p);
}

static const struct weir_sim_scenario scenario_verbs = {
	.size = sizeof(scenario_verbs),
	.name = "verbs",
	.what = "RDMA between hosts, over a mock, while connections fail",
	.run = run_verbs,
	.faults = WEIR_SIM_ALL_FAULTS,
	.ops = 200,
};

const struct weir_sim_scenario *const scenarios[] = { &scenario_verbs, NULL };
