/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts: programs that are started and killed, clocks, links, disturbances.
 *
 *	DOWN, OFF -- start --> STARTING --> RUNNING <-- pause --> PAUSED
 *	   ^                                   |                    |
 *	   +------- kill, power off -----------+--------------------+
 *
 * A disturbance is drawn (.trouble is queued), begins, and ends (.relief).
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/sim/file.h>

#include "base/opts.h"
#include "base/why.h"
#include "sim/world.h"

#define WALL_BEGINNING (UINT64_C(1000000000) * WEIR_SEC)
#define STREAMS 1000		/* Of a host: from here times its number. */
#define RARE 8			/* A disturbance is so much rarer. */
#define DRIFT_MAX 100000000
#define TROUBLE_NS (200 * WEIR_USEC)	/* After the draw, at most. */
#define RELIEF_LONGEST 13		/* 2^12 ms are four seconds. */
#define NAME_MAX_LEN 63

/* Reactors that could not be freed; they are reachable for leak checkers. */
static struct kept {
	struct weir_reactor *r;
	struct kept *next;
} *kept_reactors;

uint64_t weir_sim_host_now(const struct weir_sim_host *host)
{
	return sim_clock(host->sim, host);
}

uint64_t weir_sim_host_wall(const struct weir_sim_host *host)
{
	return weir_sim_host_now(host) + host->wall_ns;
}

void weir_sim_host_set_wall(struct weir_sim_host *host, uint64_t ns)
{
	host->wall_ns = ns - weir_sim_host_now(host);
	sim_trace(host->sim, "host %s: the wall clock is set", host->name);
}

static bool is_drift(int32_t drift)
{
	return drift >= -DRIFT_MAX && drift <= DRIFT_MAX;
}

int weir_sim_host_set_drift(struct weir_sim_host *host, int32_t drift)
{
	if (!is_drift(drift))
		return why(-EINVAL, "weir_sim_host_set_drift: %d is more than a "
			   "tenth of a second in a second", drift);
	host->clock_ns = weir_sim_host_now(host);
	host->since_ns = host->sim->now_ns;
	host->drift = drift;
	return 0;
}

/* Its program: started, ended, paused. */

static void say(struct weir_sim_host *h, const char *what)
{
	sim_touch_all(h->sim);
	sim_trace(h->sim, "host %s %s", h->name, what);
	sim_mix(h->sim, h->id);
	for (; *what; what++)
		sim_mix(h->sim, (unsigned char)*what);
}

static void keep(struct weir_reactor *r)
{
	struct kept *k = malloc(sizeof(*k));

	if (!k)
		return;
	k->r = r;
	k->next = kept_reactors;
	kept_reactors = k;
}

static void forget_observers(struct sim_reactor *sr)
{
	struct observer *o, *next;

	for (o = sr->sim->observers; o; o = next) {
		next = o->next;
		if (o->reactor == sr->r)
			observer_del(o);
	}
}

static struct sim_reactor *first_of(const struct weir_sim_host *h)
{
	struct sim_reactor *sr = h->sim->reactors;

	while (sr && sr->host != h)
		sr = sr->next;
	return sr;
}

static void program_ends(struct weir_sim_host *h, bool off)
{
	struct weir_sim_host *outer = sim_enter(h->sim, NULL);
	bool ran = h->state == WEIR_SIM_HOST_RUNNING ||
		   h->state == WEIR_SIM_HOST_PAUSED;
	struct sim_reactor *sr;
	struct sim_part *part;
	struct weir_reactor *r;

	say(h, off ? "loses power" : "is killed");
	h->ending = false;
	sim_unqueue(h->sim, &h->starts);
	h->state = off ? WEIR_SIM_HOST_OFF : WEIR_SIM_HOST_DOWN;
	for (sr = h->sim->reactors; sr; sr = sr->next)
		if (sr->host == h)
			sim_ops_forget(sr);
	while ((sr = first_of(h))) {
		r = sr->r;
		forget_observers(sr);
		if (!reactor_abandon(r))
			keep(r);
	}
	for (part = h->sim->parts; part && off; part = part->next)
		if (part->off)
			part->off(part, h);
	sim_fds_close(h->sim, h);
	if (ran && h->gone)
		h->gone(h->arg);
	sim_enter(h->sim, outer);
}

static void ends_fire(struct weir_sim *sim, struct sim_event *ev)
{
	struct weir_sim_host *h = weir_container_of(ev, struct weir_sim_host,
						    ends);

	program_ends(h, h->ending_off);
	if (!h->restart_ns || h->state != WEIR_SIM_HOST_DOWN)
		return;
	h->state = WEIR_SIM_HOST_STARTING;
	sim_at(sim, &h->starts, h->restart_ns);
}

/* Whether a function of its program is on the stack. */
static bool acts(const struct weir_sim_host *h)
{
	const struct sim_reactor *sr;

	if (h->sim->here == h)
		return true;
	for (sr = h->sim->reactors; sr; sr = sr->next)
		if (sr->host == h && reactor_is_entered(sr->r))
			return true;
	return false;
}

static void end(struct weir_sim_host *h, bool off)
{
	if (!acts(h)) {
		program_ends(h, off);
		return;
	}
	h->ending_off = off || (h->ending && h->ending_off);
	if (!h->ending)
		sim_at(h->sim, &h->ends, 0);
	h->ending = true;
}

int weir_sim_host_kill(struct weir_sim_host *host)
{
	if (host->state <= WEIR_SIM_HOST_OFF || host->ending)
		return why(-EALREADY, "weir_sim_host_kill: the program of '%s' "
			   "does not run", host->name);
	end(host, false);
	return 0;
}

int weir_sim_host_power_off(struct weir_sim_host *host)
{
	if (host->state == WEIR_SIM_HOST_OFF ||
	    (host->ending && host->ending_off))
		return why(-EALREADY, "weir_sim_host_power_off: '%s' has no "
			   "power", host->name);
	end(host, true);
	return 0;
}

static void starts_fire(struct weir_sim *sim, struct sim_event *ev)
{
	struct weir_sim_host *h = weir_container_of(ev, struct weir_sim_host,
						    starts);
	struct weir_sim_host *outer = sim_enter(sim, h);

	say(h, "starts");
	h->state = WEIR_SIM_HOST_RUNNING;
	sim->faults = &sim->no_faults;
	h->start(h, h->arg);
	sim_enter(sim, outer);
}

int weir_sim_host_start(struct weir_sim_host *host)
{
	struct sim_part *part;

	if (host->state > WEIR_SIM_HOST_OFF)
		return why(-EALREADY, "weir_sim_host_start: the program of '%s' "
			   "runs", host->name);
	for (part = host->sim->parts; part; part = part->next)
		if (host->state == WEIR_SIM_HOST_OFF && part->on)
			part->on(part, host);
	host->state = WEIR_SIM_HOST_STARTING;
	sim_at(host->sim, &host->starts, 0);
	return 0;
}

int weir_sim_host_pause(struct weir_sim_host *host, int on)
{
	if (host->state < WEIR_SIM_HOST_RUNNING)
		return why(-ESRCH, "weir_sim_host_pause: the program of '%s' "
			   "does not run", host->name);
	if (on ? host->state == WEIR_SIM_HOST_PAUSED :
		 host->state == WEIR_SIM_HOST_RUNNING)
		return why(-EALREADY, "weir_sim_host_pause: '%s' %s",
			   host->name, on ? "is paused" : "runs");
	say(host, on ? "is paused" : "runs on");
	host->state = on ? WEIR_SIM_HOST_PAUSED : WEIR_SIM_HOST_RUNNING;
	return 0;
}

/* Links. */

static void link_changed(struct weir_sim_host *from, struct weir_sim_host *to)
{
	struct sim_part *part;

	sim_trace(from->sim, "the link from %s to %s %s", from->name, to->name,
		  sim_link_is_cut(sim_link(from, to)) ? "is cut" : "works");
	for (part = from->sim->parts; part; part = part->next)
		if (part->link)
			part->link(part, from, to);
}

static struct sim_link *link_make(struct weir_sim_host *from,
				  struct weir_sim_host *to)
{
	struct sim_link *link = sim_link(from, to);

	if (link)
		return link;
	link = calloc(1, sizeof(*link));
	if (!link)
		return NULL;
	link->to = to;
	link->next = from->links;
	from->links = link;
	return link;
}

int weir_sim_host_link(struct weir_sim_host *from, struct weir_sim_host *to,
		       const struct weir_sim_link *user)
{
	struct weir_sim_link opts;
	struct sim_link *link;
	int err = opts_load(&opts, sizeof(opts), user, "weir_sim_host_link");
	bool was_cut;

	if (err)
		return err;
	if (from == to || from->sim != to->sim)
		return why(-EINVAL, "weir_sim_host_link: '%s' and '%s' are not "
			   "two hosts of a world", from->name, to->name);
	link = link_make(from, to);
	if (!link)
		return why(-ENOMEM, "weir_sim_host_link: no memory");
	was_cut = sim_link_is_cut(link);
	link->cut = opts.cut;
	link->latency = (struct latency){ opts.min_ns, opts.mean_ns };
	link->bytes_per_s = opts.bytes_per_s;
	if (was_cut != sim_link_is_cut(link))
		link_changed(from, to);
	return 0;
}

/* All hosts of a world. */
struct hosts {
	struct sim_part part;
	struct weir_sim *sim;
};

static struct weir_sim *sim_of_part(struct sim_part *part)
{
	return weir_container_of(part, struct hosts, part)->sim;
}

/* Disturbances. */

void weir_sim_hosts_max_disturbed(struct weir_sim *sim, uint32_t n)
{
	sim->disturbed_max = n;
}

static bool is_disturbed(const struct weir_sim_host *h)
{
	return h->troubled || h->trouble.queued || h->ending ||
	       h->state != WEIR_SIM_HOST_RUNNING ||
	       h->well_ns > h->sim->now_ns;
}

static bool quorum_is_kept(const struct weir_sim_host *h)
{
	const struct weir_sim_host *other;
	uint32_t n = 1;

	for (other = h->sim->hosts; other; other = other->next)
		n += other != h && is_disturbed(other);
	return n <= h->sim->disturbed_max;
}

/* An operation begins on @h. */
static void begins(struct weir_sim_host *h)
{
	struct weir_sim_host *outer;

	if (h->troubled || h->trouble.queued || h->sim->healed ||
	    !sim_host_runs(h) ||
	    (h->sim->disturbed_max != UINT32_MAX && !quorum_is_kept(h)))
		return;
	outer = sim_enter(h->sim, h);
	for (int kind = WEIR_SIM_KILL; kind <= WEIR_SIM_PARTITION; kind++) {
		if (!sim_fault(h->sim, (enum weir_sim_fault)kind, NULL))
			continue;
		h->kind = (enum weir_sim_fault)kind;
		sim_at(h->sim, &h->trouble, sim_below(&h->rng, TROUBLE_NS));
		break;
	}
	sim_enter(h->sim, outer);
}

/* Cut it, or not any more, because of a disturbance of the one or the other. */
static void trouble_link(struct weir_sim_host *from, struct weir_sim_host *to,
			 uint32_t whose, bool cut)
{
	struct sim_link *link = cut ? link_make(from, to) : sim_link(from, to);
	bool was_cut = sim_link_is_cut(link);

	if (!link)
		return;
	link->troubles = cut ? link->troubles | whose :
			       link->troubles & ~whose;
	if (sim_link_is_cut(link) != was_cut)
		link_changed(from, to);
}

/* From each of the others, by chance, in one direction or both: but from one
 * at least. */
static void part(struct weir_sim_host *h)
{
	struct weir_sim_host *other;
	bool did = false;
	uint64_t draw;

	for (other = h->sim->hosts; other; other = other->next) {
		if (other == h)
			continue;
		draw = sim_below(&h->rng, did ? 6 : 3);
		if (draw == 0 || draw == 2)
			trouble_link(h, other, TROUBLE_OF_FROM, true);
		if (draw == 1 || draw == 2)
			trouble_link(other, h, TROUBLE_OF_TO, true);
		did = true;
	}
}

static void unpart(struct weir_sim_host *h)
{
	struct weir_sim_host *other;

	for (other = h->sim->hosts; other; other = other->next) {
		trouble_link(h, other, TROUBLE_OF_FROM, false);
		trouble_link(other, h, TROUBLE_OF_TO, false);
	}
}

static void trouble_fire(struct weir_sim *sim, struct sim_event *ev)
{
	struct weir_sim_host *h = weir_container_of(ev, struct weir_sim_host,
						    trouble);

	if (!sim_host_runs(h) || sim->healed)
		return;
	h->troubled = true;
	if (h->kind == WEIR_SIM_PAUSE) {
		weir_sim_host_pause(h, 1);
	} else if (h->kind == WEIR_SIM_PARTITION) {
		say(h, "is partitioned");
		part(h);
	} else {
		end(h, h->kind == WEIR_SIM_POWER);
	}
	sim_at(sim, &h->relief, sim_below(&h->rng, WEIR_MSEC <<
					  sim_below(&h->rng, RELIEF_LONGEST)));
}

static void relieve(struct weir_sim_host *h)
{
	h->troubled = false;
	h->well_ns = h->sim->now_ns + h->recovery_ns;
	if (h->kind == WEIR_SIM_PARTITION) {
		say(h, "is reachable");
		unpart(h);
	} else if (h->state == WEIR_SIM_HOST_PAUSED) {
		weir_sim_host_pause(h, 0);
	} else if (h->state <= WEIR_SIM_HOST_OFF) {
		weir_sim_host_start(h);
	}
}

static void relief_fire(struct weir_sim *sim, struct sim_event *ev)
{
	(void)sim;
	relieve(weir_container_of(ev, struct weir_sim_host, relief));
}

static void heal(struct sim_part *part)
{
	struct weir_sim *sim = sim_of_part(part);
	struct weir_sim_host *h;

	for (h = sim->hosts; h; h = h->next) {
		sim_unqueue(sim, &h->trouble);
		sim_unqueue(sim, &h->relief);
		if (h->troubled)
			relieve(h);
	}
}

/* Their life. */

static bool is_name(const char *name)
{
	return name && *name && strlen(name) <= NAME_MAX_LEN &&
	       !strpbrk(name, "/:,");
}

/* Whether @name is in @list, with commas between. */
static bool is_listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (; *list; list += strcspn(list, ",") + 1) {
		if (!strncmp(list, name, len) &&
		    (!list[len] || list[len] == ','))
			return true;
		if (!list[strcspn(list, ",")])
			break;
	}
	return false;
}

static void set_faults(struct weir_sim_host *h,
		       const struct weir_sim_host_opts *opts)
{
	const struct weir_sim_opts *world = &h->sim->opts;
	uint64_t faults = opts->faults ? opts->faults : world->faults;

	if (opts->flags & WEIR_SIM_HOST_HEALTHY ||
	    (world->faulty_hosts && !is_listed(world->faulty_hosts, h->name)))
		faults = 0;
	sim_faults_init(h->sim, &h->faults, faults,
		       opts->rate ? opts->rate : world->rate,
		       (h->id + 1) * STREAMS);
	for (int kind = WEIR_SIM_KILL; kind <= WEIR_SIM_PARTITION; kind++)
		h->faults.rate[kind] *= RARE;
	sim_rng_init(&h->rng, h->sim->seed, (h->id + 1) * STREAMS + 500);
}

static void host_free(struct weir_sim_host *h)
{
	struct sim_link *link;

	while ((link = h->links)) {
		h->links = link->next;
		free(link);
	}
	free(h->name);
	free(h);
}

static void end_all(struct sim_part *part)
{
	struct weir_sim_host *h;

	for (h = sim_of_part(part)->hosts; h; h = h->next)
		if (h->state > WEIR_SIM_HOST_OFF)
			program_ends(h, false);
}

static void destroy(struct sim_part *part)
{
	struct weir_sim *sim = sim_of_part(part);
	struct weir_sim_host *h;

	while ((h = sim->hosts)) {
		sim->hosts = h->next;
		host_free(h);
	}
	free(weir_container_of(part, struct hosts, part));
}

static int make_part(struct weir_sim *sim)
{
	struct hosts *hosts;

	if (sim_part(sim, "hosts"))
		return 0;
	hosts = calloc(1, sizeof(*hosts));
	if (!hosts)
		return -ENOMEM;
	hosts->sim = sim;
	hosts->part.name = "hosts";
	hosts->part.heal = heal;
	hosts->part.end = end_all;
	hosts->part.destroy = destroy;
	sim_part_add(sim, &hosts->part);
	return 0;
}

/* The root directory of its program. */
static int make_root(const struct weir_sim_host *h)
{
	char byte;

	if (weir_sim_file_read(h->sim, h->name, &byte, 1, 0) == -EISDIR)
		return 0;
	return weir_sim_mkdir(h->sim, h->name);
}

static int check_opts(struct weir_sim *sim,
		      const struct weir_sim_host_opts *opts)
{
	if (!is_name(opts->name) || !opts->start)
		return why(-EINVAL, "weir_sim_host_create: no .start, or .name "
			   "is no name of at most %d bytes without '/', ':' and "
			   "','", NAME_MAX_LEN);
	if (opts->faults & ~WEIR_SIM_ALL_FAULTS ||
	    opts->flags & ~WEIR_SIM_HOST_HEALTHY || !is_drift(opts->drift))
		return why(-EINVAL, "weir_sim_host_create: .faults or .flags "
			   "has bits that mean nothing, or .drift is more than "
			   "a tenth");
	if (sim_host_named(sim, opts->name))
		return why(-EEXIST, "weir_sim_host_create: there is a host "
			   "'%s'", opts->name);
	return 0;
}

int weir_sim_host_create(struct weir_sim_host **ret, struct weir_sim *sim,
			 const struct weir_sim_host_opts *user)
{
	struct weir_sim_host_opts opts;
	struct weir_sim_host *h, **at;
	int err = opts_load(&opts, sizeof(opts), user, "weir_sim_host_create");

	if (!err)
		err = check_opts(sim, &opts);
	if (err)
		return err;
	h = calloc(1, sizeof(*h));
	if (h)
		h->name = strdup(opts.name);
	if (!h || !h->name) {
		free(h);
		return why(-ENOMEM, "weir_sim_host_create: no memory");
	}
	h->sim = sim;
	h->id = sim->n_hosts;
	h->start = opts.start;
	h->gone = opts.gone;
	h->arg = opts.arg;
	h->recovery_ns = opts.recovery_ns;
	h->restart_ns = opts.restart_ns;
	h->since_ns = sim->now_ns;
	h->clock_ns = sim->now_ns + opts.ahead_ns;
	h->drift = opts.drift;
	h->wall_ns = (opts.wall_ns ? opts.wall_ns : WALL_BEGINNING) -
		     h->clock_ns;
	h->begins = begins;
	h->starts.fire = starts_fire;
	h->ends.fire = ends_fire;
	h->trouble.fire = trouble_fire;
	h->relief.fire = relief_fire;
	err = make_part(sim);
	if (!err)
		err = make_root(h);
	if (err) {
		host_free(h);
		return why(err, "weir_sim_host_create: '%s': %s", opts.name,
			   strerror(-err));
	}
	set_faults(h, &opts);
	sim->n_hosts++;
	for (at = &sim->hosts; *at; at = &(*at)->next)
		;
	*at = h;
	*ret = h;
	return 0;
}

struct weir_sim *weir_sim_host_world(const struct weir_sim_host *host)
{
	return host->sim;
}

const char *weir_sim_host_name(const struct weir_sim_host *host)
{
	return host->name;
}

uint32_t weir_sim_host_address(const struct weir_sim_host *host)
{
	return sim_host_ip(host);
}

struct weir_sim_host *weir_sim_host_here(void)
{
	return sim_acting;
}

int weir_sim_host_state(const struct weir_sim_host *host)
{
	return host->state;
}

