/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer's memory behind a queue pair.
 *
 * The send queue is a ring, which is processed in order from its head.  Rights
 * are checked when an operation is processed; its key is the one at its start.
 *
 *	READY --the head fails--> ERROR: all behind it is flushed
 *	  ^                         |
 *	  +------- reset() ---------+
 *
 * If the peer is down, or does not know the queue pair, the head waits for an
 * answer until it times out.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/op.h>

#include "base/opts.h"
#include "base/why.h"
#include "sim/memory.h"

#define DEPTH 64
#define DEPTH_MAX 65536
#define RETRY_NS (500 * WEIR_MSEC)
#define BACK_NS (2 * WEIR_SEC)		/* At most, after a fault. */
#define RIGHTS (WEIR_SIM_PEER_READ | WEIR_SIM_PEER_WRITE)

/* Of verbs' enum ibv_wc_status. */
enum {
	WC_WR_FLUSH_ERR = 5,
	WC_REM_ACCESS_ERR = 10,
	WC_REM_OP_ERR = 11,
	WC_RETRY_EXC_ERR = 12,
	WC_GENERAL_ERR = 21,
};

/* A place in the send queue. */
struct sent {
	struct weir_op *op;
	const struct weir_domain_move *move;
	uint64_t len;
	uint64_t at_ns;		/* Not done before. */
	uint32_t serial;
	uint32_t key;
	uint8_t kind;		/* enum sim_move */
};

struct weir_sim_peer {
	struct sim_mem mem;
	struct sim_event turn;	/* Of the head. */
	struct sim_event back;	/* From a fault. */
	uint64_t retry_ns;
	uint32_t flags;
	uint32_t rights;
	uint32_t key;
	uint32_t fault_rights;	/* To be granted again. */
	bool up;
	bool connected;		/* The peer knows the queue pair. */
	bool error;
	bool retries;		/* The head has had no answer yet. */
	bool stuck;
	bool fault_down;
	uint32_t depth;
	uint32_t head;
	uint32_t n;
	struct sent ring[];
};

static struct weir_sim_peer *peer_of(struct sim_mem *m)
{
	return weir_container_of(m, struct weir_sim_peer, mem);
}

static struct sent *head_of(struct weir_sim_peer *p)
{
	return &p->ring[p->head];
}

/* Schedule the head, which was not processed yet. */
static void schedule(struct weir_sim_peer *p)
{
	uint64_t now = p->mem.sim->now_ns, at, ns;

	if (!p->n)
		return;
	at = head_of(p)->at_ns;
	p->retries = false;
	p->stuck = sim_fault(p->mem.sim, WEIR_SIM_STUCK, p->mem.name);
	if (p->stuck) {
		ns = sim_mem_stuck(&p->mem);
		if (ns == WEIR_FOREVER)
			return;
		at = now + ns;
	}
	sim_at(p->mem.sim, &p->turn, at > now ? at - now : 0);
}

static void finish(struct weir_sim_peer *p, int64_t res, int32_t code)
{
	struct sent *q = head_of(p);
	struct weir_op_detail detail = { .code = code };

	p->head = (p->head + 1) % p->depth;
	debug_check(p->n > 0);
	p->n--;
	sim_mem_ends(&p->mem, (enum sim_move)q->kind, q->serial, res);
	weir_domain_set_detail(q->op, &detail);
	weir_domain_complete(q->op, res);
}

static void flush(struct weir_sim_peer *p)
{
	sim_unqueue(p->mem.sim, &p->turn);
	p->stuck = false;
	while (p->n)
		finish(p, -ECANCELED, WC_WR_FLUSH_ERR);
}

/* Report the cause first. */
static void fail(struct weir_sim_peer *p, int err, int32_t code)
{
	p->error = true;
	finish(p, err, code);
	flush(p);
}

static void lose(struct weir_sim_peer *p)
{
	memset(p->mem.bytes, 0, (size_t)p->mem.len);
}

static void go_down(struct weir_sim_peer *p, bool forgets)
{
	if (p->up)
		sim_trace(p->mem.sim, "peer %s is down", p->mem.name);
	p->up = false;
	p->connected = false;
	if (forgets)
		lose(p);
	/* Stuck operations get no answer either. */
	if (p->stuck && !p->turn.queued)
		sim_at(p->mem.sim, &p->turn, 0);
	p->stuck = false;
}

static void go_up(struct weir_sim_peer *p)
{
	p->up = true;
	p->fault_down = false;
	sim_trace(p->mem.sim, "peer %s is up", p->mem.name);
}

static void grant(struct weir_sim_peer *p, uint32_t rights)
{
	p->rights = rights;
	p->fault_rights = 0;
	p->key++;
	sim_trace(p->mem.sim, "peer %s grants %u, key %u", p->mem.name, rights,
		  p->key);
}

static void come_back(struct weir_sim_peer *p)
{
	sim_unqueue(p->mem.sim, &p->back);
	if (p->fault_down)
		go_up(p);
	if (p->fault_rights)
		grant(p, p->fault_rights);
}

static void back(struct weir_sim *sim, struct sim_event *ev)
{
	(void)sim;
	come_back(weir_container_of(ev, struct weir_sim_peer, back));
}

static void back_later(struct weir_sim_peer *p)
{
	struct weir_sim *sim = p->mem.sim;

	if (!p->back.queued)
		sim_at(sim, &p->back, sim_below(&sim->chance, BACK_NS));
}

/* Draw the faults of the head, before its rights are checked. */
static void draw_faults(struct weir_sim_peer *p)
{
	struct weir_sim *sim = p->mem.sim;

	if (p->up && sim_fault(sim, WEIR_SIM_CRASH, p->mem.name)) {
		go_down(p, p->flags & WEIR_SIM_PEER_FORGETS);
		p->fault_down = true;
		back_later(p);
	}
	if (p->rights && sim_fault(sim, WEIR_SIM_REVOKE, p->mem.name)) {
		p->fault_rights = p->rights;
		p->rights = 0;
		back_later(p);
	}
}

static void move(struct weir_sim_peer *p, uint64_t n)
{
	struct sent *q = head_of(p);

	sim_mem_move(&p->mem, q->move, (enum sim_move)q->kind, NULL, n);
}

static bool may(const struct weir_sim_peer *p, const struct sent *q)
{
	return q->key == p->key &&
	       p->rights & (q->kind == SIM_PULL ? WEIR_SIM_PEER_READ :
						  WEIR_SIM_PEER_WRITE);
}

/* It fails on the way; how much has arrived is drawn. */
static void fail_half(struct weir_sim_peer *p)
{
	struct weir_sim *sim = p->mem.sim;

	move(p, sim_below(&sim->chance, head_of(p)->len + 1));
	if (sim_rng(sim_fault_rng(sim, WEIR_SIM_ERROR)) & 1)
		fail(p, -EREMOTEIO, WC_REM_OP_ERR);
	else
		fail(p, -EIO, WC_GENERAL_ERR);
}

static void no_answer(struct weir_sim_peer *p)
{
	if (p->retries) {
		fail(p, -ETIMEDOUT, WC_RETRY_EXC_ERR);
		return;
	}
	p->retries = true;
	sim_at(p->mem.sim, &p->turn, p->retry_ns);
}

static void turn(struct weir_sim *sim, struct sim_event *ev)
{
	struct weir_sim_peer *p =
		weir_container_of(ev, struct weir_sim_peer, turn);
	struct sent *q = head_of(p);

	p->stuck = false;
	if (p->error) {
		flush(p);
		return;
	}
	draw_faults(p);
	if (!p->connected) {
		no_answer(p);
	} else if (!may(p, q)) {
		fail(p, -EACCES, WC_REM_ACCESS_ERR);
	} else if (sim_fault(sim, WEIR_SIM_ERROR, p->mem.name)) {
		fail_half(p);
	} else {
		move(p, q->len);
		finish(p, (int64_t)q->len, 0);
		schedule(p);
	}
}

static int post(struct weir_domain *domain, struct weir_op *op,
		const struct weir_domain_move *move, enum sim_move kind)
{
	struct weir_sim_peer *p = weir_domain_ctx(domain);
	const struct weir_domain_side *side = sim_side(move, kind);
	struct weir_sim *sim = p->mem.sim;
	int err = sim_mem_check(&p->mem, side, 1);
	struct sent *q;

	if (err)
		return err;
	if (sim->here)
		return -EOPNOTSUPP;	/* A kill could not take it back. */
	if (p->n == p->depth || sim_fault(sim, WEIR_SIM_REFUSED, p->mem.name))
		return -EAGAIN;
	q = &p->ring[(p->head + p->n++) % p->depth];
	*q = (struct sent){
		.op = op, .move = move, .len = sim_side_len(side),
		.serial = ++sim->serial, .key = p->key, .kind = (uint8_t)kind,
	};
	q->at_ns = sim->now_ns + sim_mem_latency(&p->mem, q->len);
	sim_mem_begins(&p->mem, kind, q->serial, q->len);
	if (p->n == 1)
		schedule(p);
	return 0;
}

static int pull(struct weir_domain *domain, struct weir_reactor *r,
		struct weir_op *op, const struct weir_domain_move *move)
{
	(void)r;
	return post(domain, op, move, SIM_PULL);
}

static int push(struct weir_domain *domain, struct weir_reactor *r,
		struct weir_op *op, const struct weir_domain_move *move)
{
	(void)r;
	return post(domain, op, move, SIM_PUSH);
}

static void peer_cut(struct sim_mem *m)
{
	go_down(peer_of(m), true);
}

static void peer_heal(struct sim_mem *m)
{
	struct weir_sim_peer *p = peer_of(m);

	come_back(p);
	if (!p->stuck)
		return;
	sim_unqueue(m->sim, &p->turn);
	schedule(p);
}

static void peer_free(struct sim_mem *m)
{
	sim_unqueue(m->sim, &peer_of(m)->turn);
	sim_unqueue(m->sim, &peer_of(m)->back);
	sim_mem_fini(m);
	free(peer_of(m));
}

static const struct sim_mem_class peer_class = {
	.what = "peer",
	.cut = peer_cut,
	.heal = peer_heal,
	.free = peer_free,
};

static int check_opts(const struct weir_sim_peer_opts *opts)
{
	if (opts->bytes && opts->depth <= DEPTH_MAX &&
	    !(opts->flags & ~WEIR_SIM_PEER_FORGETS))
		return 0;
	return why(-EINVAL, "weir_sim_peer_create: .bytes is 0, .depth is more "
		   "than %d, or .flags has bits that mean nothing", DEPTH_MAX);
}

int weir_sim_peer_create(struct weir_sim_peer **ret, struct weir_sim *sim,
			 const struct weir_sim_peer_opts *user)
{
	struct weir_sim_peer_opts opts;
	struct weir_sim_peer *p;
	int err = opts_load(&opts, sizeof(opts), user, "weir_sim_peer_create");

	if (!err)
		err = check_opts(&opts);
	if (err)
		return err;
	if (!opts.depth)
		opts.depth = DEPTH;
	p = calloc(1, sizeof(*p) + opts.depth * sizeof(p->ring[0]));
	if (!p)
		return why(-ENOMEM, "weir_sim_peer_create: no memory");
	p->turn.fire = turn;
	p->back.fire = back;
	p->depth = opts.depth;
	p->flags = opts.flags;
	p->retry_ns = opts.retry_ns ? opts.retry_ns : RETRY_NS;
	p->rights = RIGHTS;
	p->up = true;
	p->connected = true;
	err = sim_mem_init(&p->mem, sim, &peer_class,
			   opts.name ? opts.name : "peer", opts.bytes);
	if (err) {
		free(p);
		return err;
	}
	weir_domain_set_pull(p->mem.domain, pull);
	weir_domain_set_push(p->mem.domain, push);
	*ret = p;
	return 0;
}

int weir_sim_peer_destroy(struct weir_sim_peer *p)
{
	int err = p ? weir_domain_destroy(p->mem.domain) : 0;

	if (p && !err)
		peer_free(&p->mem);
	return err;
}

struct weir_domain *weir_sim_peer_domain(const struct weir_sim_peer *p)
{
	return p->mem.domain;
}

void *weir_sim_peer_bytes(const struct weir_sim_peer *p)
{
	return p->mem.bytes;
}

int weir_sim_peer_grant(struct weir_sim_peer *p, uint32_t rights)
{
	if (rights & ~RIGHTS)
		return why(-EINVAL, "weir_sim_peer_grant: %#x has bits that "
			   "mean nothing", rights);
	grant(p, rights);
	return 0;
}

void weir_sim_peer_revoke(struct weir_sim_peer *p)
{
	grant(p, 0);
}

void weir_sim_peer_crash(struct weir_sim_peer *p)
{
	if (p->up)
		go_down(p, p->flags & WEIR_SIM_PEER_FORGETS);
}

int weir_sim_peer_restart(struct weir_sim_peer *p)
{
	if (p->up)
		return why(-EALREADY, "weir_sim_peer_restart: peer %s is up",
			   p->mem.name);
	go_up(p);
	return 0;
}

int weir_sim_peer_reset(struct weir_sim_peer *p)
{
	flush(p);
	if (!p->up)
		return why(-EHOSTUNREACH, "weir_sim_peer_reset: peer %s is "
			   "down", p->mem.name);
	p->error = false;
	p->connected = true;
	return 0;
}

uint32_t weir_sim_peer_state(const struct weir_sim_peer *p)
{
	return (p->up ? WEIR_SIM_PEER_UP : 0) |
	       (p->error ? WEIR_SIM_PEER_ERROR : 0) |
	       (p->rights ? WEIR_SIM_PEER_GRANTS : 0);
}
