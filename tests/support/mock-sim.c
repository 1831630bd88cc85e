/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The mock as a device of a simulated world.
 *
 * Each QP that has something to do has an event of the world's, by which it
 * does some of it: so each does its own in order, and QPs overtake each
 * other.  A device goes on while a processor looks at it; so whenever a queue
 * is polled or armed, one of them may come first.
 *
 * Nothing real may decide what happens, so not even where malloc() puts a QP:
 * one that is destroyed is the next that is made.
 */

#include "tests/support/mock-cm-internal.h"

#include <stdlib.h>
#include <string.h>

#define STALL_NS (100 * WEIR_MSEC)
#define BURST 8 /* Work requests at a time, at most. */
#define MEANWHILE 8 /* Once in so many looks. */

static struct weir_sim *world;
static struct mock_qp *spare; /* Destroyed, the last one first. */
static uint32_t n_made; /* QPs, in this world. */

static struct mock_qp *qp_of(struct sim_event *ev)
{
	return weir_container_of(ev, struct mock_qp, timer);
}

bool mock_in_world(void)
{
	return world;
}

static uint64_t delay(enum weir_sim_device device)
{
	uint64_t ns = sim_latency(world, device);

	if (sim_fault(world, WEIR_SIM_DELAY, "verbs"))
		ns *= 2 + sim_below(sim_fault_rng(world, WEIR_SIM_DELAY), 1000);
	return ns;
}

/* What goes wrong with a QP, instead of what it was to do. */

static void stall(struct mock_qp *qp)
{
	sim_at(world, &qp->timer, sim_below(&world->chance, STALL_NS));
}

static void kill_peer(const struct mock_qp *qp)
{
	struct mock_qp *peer = mock_qp_find(qp->attr.dest_qp_num);

	if (peer)
		peer->killed = true;
}

static void fail_next(struct mock_qp *qp)
{
	static const enum ibv_wc_status causes[] = {
		IBV_WC_LOC_QP_OP_ERR, IBV_WC_LOC_PROT_ERR,  IBV_WC_REM_OP_ERR,
		IBV_WC_REM_ABORT_ERR, IBV_WC_RETRY_EXC_ERR, IBV_WC_FATAL_ERR,
	};
	size_t n = sizeof(causes) / sizeof(causes[0]);

	mock_fail_next(qp, causes[sim_below(&world->chance, n)]);
}

static bool has_failed(struct mock_qp *qp)
{
	if (qp->state != IBV_QPS_RTS)
		return false;
	if (sim_fault(world, WEIR_SIM_STALL, "queue pair")) {
		stall(qp);
		return true;
	}
	if (sim_fault(world, WEIR_SIM_CRASH, "a peer's process"))
		kill_peer(qp);
	if (sim_fault(world, WEIR_SIM_RESET, "queue pair"))
		mock_break(&qp->qp);
	else if (sim_fault(world, WEIR_SIM_FULL, "completion queue"))
		mock_overrun(qp->qp.send_cq);
	else if (sim_fault(world, WEIR_SIM_ERROR, "work request"))
		fail_next(qp);
	return false;
}

/* What is no news, or not true. */
static void tell_something(const struct mock_qp *qp)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_QP_FATAL,      IBV_EVENT_QP_REQ_ERR,
		IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_COMM_EST,
		IBV_EVENT_SQ_DRAINED,    IBV_EVENT_PATH_MIG,
		IBV_EVENT_PATH_MIG_ERR,  IBV_EVENT_PORT_ACTIVE,
		IBV_EVENT_PORT_ERR,      IBV_EVENT_LID_CHANGE,
		IBV_EVENT_PKEY_CHANGE,   IBV_EVENT_SM_CHANGE,
		IBV_EVENT_GID_CHANGE,
	};
	size_t n = sizeof(types) / sizeof(types[0]);
	struct ibv_async_event ev;

	memset(&ev, 0, sizeof(ev));
	ev.event_type = types[sim_below(&world->chance, n)];
	if (ev.event_type <= IBV_EVENT_PATH_MIG_ERR)
		ev.element.qp = (struct ibv_qp *)&qp->qp;
	else
		ev.element.port_num = 1;
	mock_async(qp->qp.context, &ev);
}

/* Some of what it has; what is done may give others something to do. */
static void work(struct mock_qp *qp)
{
	uint64_t n = 1, draw = sim_rng(&world->chance);

	if (draw & 1)
		n += (draw >> 1) % BURST;
	if (sim_fault(world, WEIR_SIM_REORDER, "asynchronous event"))
		tell_something(qp);
	if (has_failed(qp))
		return;
	while (n-- && !qp->blocked)
		qp->blocked = !mock_step_qp(qp);
	qp->blocked = qp->blocked && mock_qp_is_due(qp);
	mock_sim_pump();
}

static void fire(struct weir_sim *sim, struct sim_event *ev)
{
	(void)sim;
	mock_lock();
	work(qp_of(ev));
	mock_unlock();
}

void mock_sim_pump(void)
{
	struct mock_qp *qp;

	for (qp = mock_qps; qp; qp = qp->next)
		if (!qp->timer.queued && !qp->blocked && mock_qp_is_due(qp))
			sim_at(world, &qp->timer, delay(WEIR_SIM_WIRE));
}

/* One of those that are due does not wait. */
void mock_sim_meanwhile(void)
{
	struct mock_qp *qp, *picked = NULL;
	uint64_t n = 0;

	if (!world || !world->depth || sim_below(&world->chance, MEANWHILE))
		return;
	for (qp = mock_qps; qp; qp = qp->next)
		if (qp->timer.queued && !sim_below(&world->chance, ++n))
			picked = qp;
	if (!picked)
		return;
	sim_unqueue(world, &picked->timer);
	work(picked);
}

void mock_sim_ended(const struct mock_qp *qp, const struct ibv_wc *wc)
{
	if (!world)
		return;
	sim_mix(world, (uint64_t)qp->number << 32 | (uint32_t)wc->status);
	if (sim_traced(world) && wc->status != IBV_WC_SUCCESS)
		sim_trace(world, "queue pair %u: status %d", qp->number,
			  wc->status);
}

bool mock_sim_refuses(const struct mock_qp *qp)
{
	return world && qp->state == IBV_QPS_RTS &&
	       sim_fault(world, WEIR_SIM_REFUSED, "ibv_post_send");
}

struct mock_qp *mock_sim_qp(void)
{
	struct mock_qp *qp = world ? spare : NULL;

	if (qp) {
		spare = qp->next;
		memset(qp, 0, sizeof(*qp));
	} else {
		qp = calloc(1, sizeof(*qp));
	}
	qp->timer.fire = fire;
	qp->number = n_made++;
	return qp;
}

void mock_sim_qp_free(struct mock_qp *qp)
{
	if (!world) {
		free(qp);
		return;
	}
	sim_unqueue(world, &qp->timer);
	memset(qp, 0xa5, sizeof(*qp));
	qp->next = spare;
	spare = qp;
}

bool mock_sim_loses(void)
{
	return world && sim_fault(world, WEIR_SIM_STALL, "rdma_cm");
}

bool mock_sim_flips(void)
{
	return world && sim_below(&world->chance, 2);
}

/* What is no news at any time. */
static void tell_nothing(struct mock_id *id)
{
	static const enum rdma_cm_event_type types[] = {
		RDMA_CM_EVENT_ADDR_CHANGE,
		RDMA_CM_EVENT_MULTICAST_JOIN,
		RDMA_CM_EVENT_MULTICAST_ERROR,
	};

	mock_cm_tell(id, types[sim_below(&world->chance, 3)], 0, MOCK_CM_IDLE);
}

/* To one id in order, and not at the same time. */
void mock_sim_tell(struct sim_event *ev, struct mock_id *id)
{
	uint64_t at = world->now_ns + delay(WEIR_SIM_WIRE);

	if (at <= id->last_ns)
		at = id->last_ns + 1;
	id->last_ns = at;
	sim_at(world, ev, at - world->now_ns);
	if (sim_fault(world, WEIR_SIM_REORDER, "rdma_cm"))
		tell_nothing(id);
}

void mock_sim_untell(struct sim_event *ev)
{
	if (world)
		sim_unqueue(world, ev);
}

void mock_enter(struct weir_sim *sim)
{
	world = sim;
	n_made = 0;
}

void mock_leave(void)
{
	struct mock_qp *qp;

	while ((qp = spare)) {
		spare = qp->next;
		free(qp);
	}
	world = NULL;
}
