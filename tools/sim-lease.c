/* SPDX-License-Identifier: BSD-3-Clause */

/* Leases of exported memory: they end when they are told to, at their time, and
 * with the export, and never otherwise. */

#include <errno.h>
#include <string.h>

#include "sim-export.h"

static uint64_t now_of(const struct lease *lease)
{
	return weir_sim_now(lease->share->program->run->sim);
}

/* From here on importers find it revoked. */
static void lease_ended(struct lease *lease)
{
	lease->is_open = false;
	lease->ends++;
	weir_sim_note(lease->share->program->run->sim, "lease ended", lease->ends);
}

void leases_revoked(struct share *s)
{
	for (uint32_t i = 0; i < LEASES; i++)
		if (s->leases[i].is_open)
			lease_ended(&s->leases[i]);
}

static bool is_awaited(const struct lease *lease)
{
	return lease->revoke.is_under_way || lease->wait.is_under_way;
}

bool leases_are_awaited(const struct share *s)
{
	for (uint32_t i = 0; i < LEASES; i++)
		if (is_awaited(&s->leases[i]))
			return true;
	return false;
}

/* Its time is over; the reactor that ends it may not have had its turn yet. */
static bool may_have_ended(const struct lease *lease)
{
	return lease->is_open && lease->not_after && now_of(lease) >= lease->not_after;
}

bool is_stale(const struct import *im)
{
	struct lease *lease = im->lease;

	if (lease && im->ends == lease->ends && may_have_ended(lease) && im->mmap &&
	    weir_mmap_is_stale(im->mmap))
		lease_ended(lease);
	return im->stops != im->share->stops || (lease && im->ends != lease->ends);
}

struct lease *lease_pick(struct share *s)
{
	struct lease *lease = &s->leases[rnd(s->program->run, LEASES)];

	return lease->is_open && !may_have_ended(lease) ? lease : NULL;
}

static uint32_t state_of(const struct lease *lease)
{
	struct weir_lease_info info = { .size = sizeof(info) };
	int err = weir_lease_info(lease->handle, &info);

	must(!err, "a lease tells its state", "%d: %s", err, weir_why());
	return info.state;
}

static void lease_check(struct lease *lease)
{
	bool is_open;

	if (!lease->handle)
		return;
	is_open = state_of(lease) == WEIR_LEASE_OPEN;
	if (!is_open && may_have_ended(lease))
		lease_ended(lease);
	must(is_open == lease->is_open, "a lease ends for a cause, and only so",
	     "it is %s", is_open ? "open" : "over");
	if (may_have_ended(lease))
		due_pending(lease->share->program->run, &lease->due,
			    lease->share->program->cores[0].r, 1,
			    "the end of a lease");
}

void leases_check(struct program *p)
{
	for (uint32_t i = 0; i < SHARES; i++)
		for (uint32_t j = 0; j < LEASES; j++)
			lease_check(&p->shares[i].leases[j]);
}

/* No importer uses it any more. */
static void lease_over(struct lease *lease)
{
	must(!lease->is_open, "what is over has ended",
	     "a lease until %llu", (unsigned long long)lease->not_after);
	share_freeze(lease->share, lease, 0);
}

/* How long the next one lasts; 0: for ever. */
static uint64_t draw_duration(struct lease *lease)
{
	struct run *run = lease->share->program->run;
	uint64_t duration = one_in(run, 3) ? 0 : 1 + rnd(run, 3000000);

	lease->not_after = duration ? now_of(lease) + duration : 0;
	if (duration)
		due_set_timer(run, &lease->due, lease->share->program->cores[0].r,
			      lease->not_after);
	return duration;
}

static void lease_make(struct lease *lease)
{
	struct weir_lease_opts opts = {
		.size = sizeof(opts), .duration_ns = draw_duration(lease),
	};
	struct share *s = lease->share;
	int err = weir_lease_create(&lease->handle, s->program->cores[0].r,
				    s->mmap, &opts);

	if (!went_well(s->program, err, "a lease")) {
		lease->handle = NULL;
		return;
	}
	lease->desc = (struct weir_export_desc){ .size = sizeof(lease->desc) };
	err = weir_lease_export(lease->handle, &lease->desc);
	must(!err, "an open lease can be handed out", "%d: %s", err,
	     weir_why());
	lease->is_open = true;
}

static void lease_renew(struct lease *lease)
{
	bool over = may_have_ended(lease);
	uint64_t before = lease->not_after;
	int err = weir_lease_renew(lease->handle, draw_duration(lease));

	must(err == (over ? -ESTALE : 0), "an open lease can be renewed",
	     "%d: %s", err, weir_why());
	if (!err)
		return;
	lease->not_after = before;
	lease_ended(lease);
}

static void task_end(struct task *task, int64_t res)
{
	struct lease *lease = task->op.data;
	bool waits = task == &lease->wait;

	must(!res || task_was_ended(task, res),
	     "the end of a lease comes, and no other", "%lld", (long long)res);
	if (!res && waits && may_have_ended(lease))
		lease_ended(lease);
	if (!res)
		lease_over(lease);
}

static bool lease_task(struct lease *lease, struct task *task, const char *what,
		       int (*start)(struct weir_lease *, struct weir_op *))
{
	int err;

	task_init(task, lease->share->program->run, what, task_end);
	task->op.data = lease;
	err = start(lease->handle, &task->op);
	return (err == -EAGAIN ||
		went_well(lease->share->program, err, what)) &&
	       task_began(task, err);
}

static void lease_revoke(struct lease *lease)
{
	bool busy = is_busy(lease->share, lease), began = true;
	int err;

	if (lease->revoke.is_under_way) {
		task_cancel(&lease->revoke);
		return;
	}
	if (one_in(lease->share->program->run, 2)) {
		began = lease_task(lease, &lease->revoke, "revoke of a lease",
				   weir_lease_revoke);
		err = -EINPROGRESS;
	} else {
		err = weir_lease_revoke(lease->handle, NULL);
		must(!err || (err == -EINPROGRESS && busy),
		     "a lease that no one uses is over at once", "%d: %s", err,
		     weir_why());
	}
	if (began && lease->is_open)
		lease_ended(lease);
	if (!err)
		lease_over(lease);
}

static void lease_destroy(struct lease *lease)
{
	bool busy = is_awaited(lease) || is_busy(lease->share, lease);
	int err = weir_lease_destroy(lease->handle);

	must(err || !is_awaited(lease), "what is in use is busy", "a lease");
	must(!err || (err == -EBUSY && busy),
	     "a lease that no one uses can be freed", "%d: %s", err,
	     weir_why());
	if (err)
		return;
	if (lease->is_open)
		lease_ended(lease);
	lease_over(lease);
	lease->handle = NULL;
}

void lease_drop(struct lease *lease)
{
	if (lease->handle)
		lease_destroy(lease);
}

void lease_act(void *arg)
{
	struct lease *lease = arg;
	struct share *s = lease->share;

	if (!lease->handle) {
		if (s->is_started && s->mmap)
			lease_make(lease);
		return;
	}
	switch (rnd(s->program->run, 8)) {
	case 0:
		lease_revoke(lease);
		break;
	case 1:
		lease_destroy(lease);
		break;
	case 2:
		if (lease->wait.is_under_way)
			task_cancel(&lease->wait);
		else
			(void)lease_task(lease, &lease->wait, "wait for a lease",
				       weir_lease_wait);
		break;
	default:
		if (lease->is_open)
			lease_renew(lease);
		else if (one_in(s->program->run, 2))
			lease_destroy(lease);
	}
}
