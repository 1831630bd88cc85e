/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world: which reactor has a turn, when time advances, and the trace.
 *
 * A step is one turn of one reactor that has something to do and whose core is
 * free, or one event.  The clock stands still while any reactor can have a
 * turn.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/opts.h"
#include "base/why.h"
#include "sim/world.h"

#define SLOW_NS (WEIR_MSEC)
#define JUMP_NS (60 * WEIR_SEC)

static const struct latency usual[WEIR_SIM_DEVICES] = {
	[WEIR_SIM_TURN] = { 200, 500 },
	[WEIR_SIM_WORKER] = { 5000, 20000 },
	[WEIR_SIM_NOP] = { 100, 500 },
	[WEIR_SIM_FILE] = { 1000, 4000 },
	[WEIR_SIM_DISK] = { 20000, 80000 },
	[WEIR_SIM_SOCKET] = { 1000, 2000 },
	[WEIR_SIM_WIRE] = { 5000, 20000 },
	[WEIR_SIM_MEMORY] = { 1000, 3000 },
};

static void look_now(struct weir_sim *sim, struct sim_event *ev);

static bool fd_is_open(int fd)
{
	return sim_fd_find(fd) != NULL;
}

static void fd_close(int fd)
{
	struct sim_fd *f = sim_fd_find(fd);

	if (f)
		sim_fd_drop(f, fd);
}

static struct weir_sim *find_world(void)
{
	return sim_acting ? sim_acting->sim : NULL;
}

static const struct vfd_ops sim_vfd_ops = {
	.is_open = fd_is_open,
	.close = fd_close,
	.info = sim_file_info,
	.reopen = sim_file_reopen,
	.peer = sim_socket_peer,
	.name = sim_socket_name,
	.option = sim_datagram_option,
	.sendmsg = sim_datagram_send,
	.counters = &sim_counter_ops,
	.world_here = find_world,
	.signals = &sim_signal_ops,
};

__attribute__((constructor)) static void provide(void)
{
	vfd_ops = &sim_vfd_ops;
}

static int take_slot(struct weir_sim *sim)
{
	for (uint32_t i = 0; i < SIM_WORLDS; i++)
		if (!sim_worlds[i]) {
			sim->slot = i;
			sim_worlds[i] = sim;
			return 0;
		}
	return why(-EMFILE, "weir_sim_create: there are %d worlds already; "
		   "destroy one", SIM_WORLDS);
}

static void seed_chances(struct weir_sim *sim)
{
	sim_rng_init(&sim->order, sim->seed, 1);
	sim_rng_init(&sim->time, sim->seed, 2);
	sim_rng_init(&sim->chance, sim->seed, 3);
	sim_rng_init(&sim->user, sim->seed, 4);
}

int weir_sim_create(struct weir_sim **ret, uint64_t seed,
		    const struct weir_sim_opts *user)
{
	struct weir_sim_opts opts;
	struct weir_sim *sim;
	int err = opts_load(&opts, sizeof(opts), user, "weir_sim_create");

	if (err)
		return err;
	if (opts.flags & ~WEIR_SIM_SWARM || opts.faults & ~WEIR_SIM_ALL_FAULTS)
		return why(-EINVAL, "weir_sim_create: .flags or .faults has "
			   "bits that mean nothing");
	sim = calloc(1, sizeof(*sim));
	if (!sim)
		return why(-ENOMEM, "weir_sim_create: no memory");
	err = take_slot(sim);
	if (err) {
		free(sim);
		return err;
	}
	sim->world.backend = &sim_backend;
	sim->seed = seed;
	sim->now_ns = sim->target_ns = SIM_BEGINNING;
	sim->disturbed_max = UINT32_MAX;
	sim->trace = opts.trace;
	sim->trace_arg = opts.trace_arg;
	memcpy(sim->latency, usual, sizeof(usual));
	sim->observation.fire = look_now;
	op_queue_init(&sim->stuck);
	seed_chances(sim);
	sim->opts = opts;
	sim->faults_max = opts.faults_max ? opts.faults_max : UINT64_MAX;
	sim->faults = &sim->own_faults;
	sim_faults_init(sim, &sim->own_faults, opts.faults, opts.rate, 100);
	*ret = sim;
	return 0;
}

static int ask_parts(const struct weir_sim *sim)
{
	const struct sim_part *part;
	int err = 0;

	for (part = sim->parts; part && !err; part = part->next)
		if (part->may_destroy)
			err = part->may_destroy(part);
	return err;
}

/* Those of hosts end with their programs. */
static bool has_reactors(const struct weir_sim *sim)
{
	const struct sim_reactor *sr = sim->reactors;

	while (sr && sr->host)
		sr = sr->next;
	return sr;
}

int weir_sim_destroy(struct weir_sim *sim)
{
	struct sim_part *part;
	int err;

	if (!sim)
		return 0;
	if (has_reactors(sim) || sim->depth)
		return why(-EBUSY, "weir_sim_destroy: %s", sim->depth ?
			   "called from a callback in the world" :
			   "it still has reactors; destroy them first");
	err = ask_parts(sim);
	if (err)
		return err;
	for (part = sim->parts; part; part = part->next)
		if (part->end)
			part->end(part);
	while (sim->observers)
		observer_del(sim->observers);
	sim_fds_close(sim, NULL);
	while ((part = sim->parts)) {
		sim->parts = part->next;
		part->destroy(part);
	}
	sim_worlds[sim->slot] = NULL;
	free(sim->ready);
	free(sim->sleepers);
	free(sim->fds);
	free(sim);
	return 0;
}

static void look_now(struct weir_sim *sim, struct sim_event *ev)
{
	struct observer *observer, *next;

	(void)ev;
	for (observer = sim->observers; observer; observer = next) {
		next = observer->next;
		observer->fn(observer);
	}
}

bool sim_is_here(const struct weir_reactor *r)
{
	const struct weir_sim *sim = sim_of(r)->sim;
	const struct sim_reactor *sr = sim->reactors;

	if (!pthread_equal(r->thread, pthread_self()))
		return false;
	if (reactor_is_entered(r))
		return true;
	if (sim->turning && sim->turning->r->in_turn)
		return false;
	while (sr && !sr->r->in_turn)
		sr = sr->next;
	return !sr;
}

static bool is_running(const struct sim_reactor *sr)
{
	return sr->r->state == WEIR_REACTOR_RUNNING;
}

/* After a turn that ran @n callbacks of .turn_max, at most, of each kind. */
static void note_turn(struct weir_sim *sim, struct sim_reactor *sr, int n)
{
	struct weir_sim_turns *t = &sr->turns;

	if (n < 0 || (uint32_t)n >= sr->r->turn_max || sr->full ||
	    !is_running(sr))
		return;
	t->whole_before = t->whole;
	t->whole_before_ns = t->whole_ns;
	t->whole = t->turns;
	t->whole_ns = sim->now_ns;
}

/* Whether it still sleeps and has only work from others: neither the time, nor
 * a device, nor work that its own thread has begun meanwhile. */
static bool wakes_unasked(struct weir_sim *sim, struct sim_reactor *sr)
{
	struct weir_reactor *r = sr->r;

	return atomic_exchange(&r->mailbox.asleep, false) &&
	       (mailbox_has(&r->mailbox) || reactor_requested(r)) &&
	       sim->now_ns < sr->asleep_until_ns && !r->ready &&
	       !r->deferred && !r->backend->ready(r);
}

/* Limit the turn to a few callbacks, or not: the fewer, the more orders. */
static void turn(struct weir_sim *sim, struct sim_reactor *sr)
{
	struct weir_sim_host *outer = sim_enter(sim, sr->host);
	struct sim_reactor *turning = sim->turning;
	uint64_t draw = sim_rng(&sim->order);
	bool running = is_running(sr);
	bool unasked = wakes_unasked(sim, sr);
	bool requested = reactor_requested(sr->r);
	int n;

	sr->r->turn_max = draw & 3 ? sr->turn_max : 1 +
			  (uint32_t)(draw >> 2) % sr->turn_max;
	sr->turns.turns++;
	sr->turns.free_ns = sr->free_at_ns;
	sim->turning = sr;
	n = weir_reactor_turn(sr->r, 0);
	sim->turning = turning;
	sim_touch(sr);
	sr->turns.unwoken += unasked && (n || requested);
	sim_fall_asleep(sr);
	if (running)
		note_turn(sim, sr, n);
	sr->r->turn_max = sr->turn_max;
	/* At least a little, or the clock would not advance. */
	sr->free_at_ns = sim->now_ns + 1 + sim_latency(sim, WEIR_SIM_TURN);
	if (sim_fault(sim, WEIR_SIM_SLOW, NULL))
		sr->free_at_ns += sim_below(&sim->time, 100 * SLOW_NS);
	sim->stats.turns++;
	sim_mix(sim, sim->now_ns);
	sim_mix(sim, (uint64_t)sr->id << 32 | (uint32_t)n);
	if (sim_traced(sim) && n)
		sim_trace(sim, "%s: a turn with %d callbacks", sr->label, n);
	sim_enter(sim, outer);
}

static void pass_time(struct weir_sim *sim, uint64_t to_ns, uint64_t until_ns)
{
	if (to_ns > sim->now_ns)
		sim->target_ns = to_ns;
	if (to_ns > sim->now_ns && sim_fault(sim, WEIR_SIM_CLOCK, NULL))
		to_ns += sim_below(&sim->time, JUMP_NS);
	if (to_ns > until_ns)
		to_ns = until_ns;
	if (to_ns > sim->now_ns)
		sim->now_ns = to_ns;
}

static void fire(struct weir_sim *sim)
{
	struct sim_event *ev = sim->heap;

	sim_unqueue(sim, ev);
	ev->fire(sim, ev);
	if (ev == &sim->observation) /* Nothing has happened by that. */
		return;
	sim->stats.events++;
	sim_happened(sim);
}

static bool step(struct weir_sim *sim, uint64_t until_ns)
{
	bool all = false;
	struct sim_reactor *sr;
	uint64_t next;

	for (;;) {
		sr = sim_pick(sim, &next);
		if (sr) {
			sim->stats.events++;
			turn(sim, sr);
			sim_happened(sim);
			return true;
		}
		if (sim->heap && sim->heap->at_ns < next)
			next = sim->heap->at_ns;
		if (next > until_ns && all)
			return false;
		if (next > until_ns) {
			/* Before it ends: was a reactor forgotten? */
			all = true;
			sim_touch_all(sim);
			continue;
		}
		pass_time(sim, next, until_ns);
		if (sim->heap && sim->heap->at_ns <= sim->now_ns) {
			fire(sim);
			return true;
		}
	}
}

bool sim_step(struct weir_sim *sim, uint64_t until_ns)
{
	struct weir_sim_host *outer = sim_enter(sim, NULL);
	bool did;

	if (!sim->depth++)
		sim_faults_enter(sim);
	backend_isolates++;
	did = step(sim, until_ns);
	backend_isolates--;
	if (!--sim->depth)
		sim_faults_leave(sim);
	sim_enter(sim, outer);
	return did;
}

/* Part of a step of the world, of a turn from outside, or of a start. */
static bool in_callback(const struct weir_sim *sim)
{
	const struct sim_reactor *sr;

	for (sr = sim->reactors; sr; sr = sr->next)
		if (reactor_is_entered(sr->r))
			return true;
	return sim->depth;
}

/* A paused program waits for a call of the test, and time goes on until then. */
static bool has_paused(const struct weir_sim *sim)
{
	const struct weir_sim_host *h = sim->hosts;

	while (h && h->state != WEIR_SIM_HOST_PAUSED)
		h = h->next;
	return h;
}

int weir_sim_run(struct weir_sim *sim, uint64_t ns, uint64_t events)
{
	uint64_t until = ns < WEIR_FOREVER - 1 - sim->now_ns ?
				 sim->now_ns + ns : WEIR_FOREVER - 1;
	uint64_t begun = sim->stats.events;
	uint64_t next;
	bool is_left;

	if (in_callback(sim))
		return why(-EBUSY, "weir_sim_run: called from a callback in "
			   "the world");
	sim_happened(sim);
	sim_touch_all(sim);
	while (!events || sim->stats.events - begun < events)
		if (!sim_step(sim, until))
			break;
	is_left = sim_pick(sim, &next) || sim->heap || next != WEIR_FOREVER ||
		  (ns != WEIR_FOREVER && has_paused(sim));
	if ((is_left || ns != WEIR_FOREVER) &&
	    (!events || sim->stats.events - begun < events))
		sim->now_ns = sim->target_ns = until;
	return is_left;
}

uint64_t weir_sim_now(const struct weir_sim *sim)
{
	return sim->now_ns;
}

uint64_t weir_sim_random(struct weir_sim *sim)
{
	return sim_rng(&sim->user);
}

void weir_sim_power_cut(struct weir_sim *sim, const char *prefix)
{
	struct sim_part *part;

	sim_trace(sim, "power cut: '%s'", prefix);
	for (part = sim->parts; part; part = part->next)
		if (part->cut)
			part->cut(part, prefix);
}

int weir_sim_set_latency(struct weir_sim *sim, enum weir_sim_device device,
			 uint64_t min_ns, uint64_t mean_ns)
{
	if ((unsigned int)device >= WEIR_SIM_DEVICES)
		return why(-EINVAL, "weir_sim_set_latency: there is no device "
			   "%u", (unsigned int)device);
	sim->latency[device] = (struct latency){ min_ns, mean_ns };
	return 0;
}

int weir_sim_stats(const struct weir_sim *sim, struct weir_sim_stats *ret)
{
	struct weir_sim_stats s = sim->stats;
	const struct sim_reactor *sr;

	for (sr = sim->reactors; sr; sr = sr->next) {
		s.started += sr->r->n_begun;
		s.completions += sr->r->begun_max - sr->r->ops_max;
	}
	return opts_give(ret, &s, sizeof(s), "weir_sim_stats");
}

int weir_sim_turns(const struct weir_reactor *r, struct weir_sim_turns *ret)
{
	struct weir_sim_turns t;

	if (r->backend != &sim_backend)
		return why(-EINVAL, "weir_sim_turns: the reactor is in no "
			   "world; see weir_reactor_opts.sim");
	t = sim_of(r)->turns;
	t.target_ns = sim_of(r)->sim->target_ns;
	return opts_give(ret, &t, sizeof(t), "weir_sim_turns");
}

void weir_sim_set_faults(struct weir_sim *sim, int on)
{
	struct sim_part *part;

	sim->healed = !on;
	if (on)
		return;
	sim_trace(sim, "no more faults");
	sim_stuck_heal(sim);
	for (part = sim->parts; part; part = part->next)
		if (part->heal)
			part->heal(part);
}
