/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections: how they end.  Either by both closes; or by a reset, which one
 * end sees at once and the other when it arrives; or by a power cut, after
 * which the other end is reset, or gets no answer until the world is healed.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/why.h"
#include "sim/socket.h"

static void trouble_fire(struct weir_sim *sim, struct sim_event *ev);

bool has_prefix(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix));
}

static struct sockets *part_of(struct sim_part *part)
{
	return weir_container_of(part, struct sockets, part);
}

struct conn *conn_new(struct sockets *s, struct end *a, struct end *b)
{
	struct conn *conn = calloc(1, sizeof(*conn));
	struct end *ends[2] = { a, b };

	if (!conn)
		return NULL;
	conn->part = s;
	conn->serial = ++s->serial;
	conn->pipe = a->f.cls == &pipe_class;
	conn->trouble.fire = trouble_fire;
	for (uint32_t i = 0; i < 2; i++) {
		conn->end[i] = ends[i];
		ends[i]->conn = conn;
		ends[i]->side = i;
		memcpy(conn->name[i], ends[i]->name, sizeof(conn->name[i]));
		flow_init(&conn->flow[i], conn, i);
	}
	conn->next = s->conns;
	conn->pprev = &s->conns;
	if (conn->next)
		conn->next->pprev = &conn->next;
	s->conns = conn;
	s->connections++;
	return conn;
}

static void conn_free(struct conn *conn)
{
	flow_fini(&conn->flow[0]);
	flow_fini(&conn->flow[1]);
	sim_unqueue(conn->part->sim, &conn->trouble);
	*conn->pprev = conn->next;
	if (conn->next)
		conn->next->pprev = conn->pprev;
	free(conn);
}

/* Data that have arrived can still be read; then @err is reported, and the
 * connection is over. */
static void break_end(struct end *e, int err)
{
	e->state = END_BROKEN;
	e->err = err;
	sim_fd_changed(&e->f);
}

void conn_reset(struct conn *conn, uint32_t side, int err)
{
	struct weir_sim *sim = conn->part->sim;
	struct end *e = conn->end[side];

	debug_check(side < 2);
	sim_trace(sim, "connection %llu (%s, %s): a reset at side %u",
		  (unsigned long long)conn->serial, conn->name[0],
		  conn->name[1], side);
	sim_mix(sim, conn->serial << 1 | side);
	conn->part->resets++;
	sim_unqueue(sim, &conn->trouble);
	flow_drop(&conn->flow[0]);
	flow_drop(&conn->flow[1]);
	if (e)
		break_end(e, err);
	if (conn->end[!side])
		flow_tell(&conn->flow[side], PART_RESET);
}

static void trouble_fire(struct weir_sim *sim, struct sim_event *ev)
{
	struct conn *conn = weir_container_of(ev, struct conn, trouble);
	uint32_t side = sim_rng(&sim->fault_rng[WEIR_SIM_RESET]) & 1;

	if (!conn->end[side])
		side = !side;
	if (conn->end[side]->state == END_UP && !conn->silent)
		conn_reset(conn, side, -ECONNRESET);
}

void conn_trouble(struct conn *conn)
{
	struct weir_sim *sim = conn->part->sim;
	const struct latency *wire = &sim->latency[WEIR_SIM_WIRE];
	uint64_t near = 20 * (wire->min_ns + wire->mean_ns) + 1;

	if (conn->pipe || conn->trouble.queued ||
	    !sim_fault(sim, WEIR_SIM_RESET, conn->name[0]))
		return;
	sim_at(sim, &conn->trouble,
	       sim_below(&sim->fault_rng[WEIR_SIM_RESET], near));
}

void conn_leave(struct end *e)
{
	struct conn *conn = e->conn;
	struct flow *in = &conn->flow[!e->side];
	bool unread = in->arrived > in->read;

	debug_check(e->conn && e->conn->end[e->side] == e);
	e->conn = NULL;
	conn->end[e->side] = NULL;
	conn->part->lost += in->arrived - in->read;
	in->read = in->arrived;
	if (conn->pipe)
		flow_drop(in);
	if (!conn->end[!e->side])
		conn_free(conn);
	else if (e->state == END_BROKEN || conn->silent)
		return;
	else if (unread && !conn->pipe)
		conn_reset(conn, e->side, 0);
	else
		flow_tell(&conn->flow[e->side], PART_CLOSED);
}

/* As on Linux: the end of the stream that was reported before is not taken
 * back. */
static void hears_reset(struct end *e)
{
	if (e->state == END_CALLING) {
		conn_leave(e);
		e->state = END_IDLE;
		e->err = -ECONNREFUSED;
		sim_fd_changed(&e->f);
	} else if (e->state == END_UP) {
		flow_drop(&e->conn->flow[e->side]);
		break_end(e, e->no_more ? -EPIPE : -ECONNRESET);
	}
}

void end_hears(struct end *e, enum part_what what)
{
	if (what == PART_RESET) {
		hears_reset(e);
		return;
	}
	if (e->state == END_BROKEN)
		return;		/* A reset is the last that it hears. */
	if (what == PART_UP && e->state == END_CALLING)
		e->state = END_UP;
	if (what == PART_END || what == PART_CLOSED)
		e->no_more = true;
	if (what == PART_CLOSED)
		e->peer_closed = true;
	sim_fd_changed(&e->f);
}

static void end_cut(struct end *e)
{
	struct weir_sim *sim = e->f.sim;
	struct conn *conn = e->conn;

	sim_unqueue(sim, &e->call);
	sim_fd_kill(&e->f);
	if (!conn || e->state == END_BROKEN || conn->silent)
		return;
	if (sim->healed || conn->pipe || sim_rng(&sim->chance) & 1) {
		conn_reset(conn, e->side, -EIO);
		return;
	}
	sim_trace(sim, "connection %llu: %s is silent",
		  (unsigned long long)conn->serial, conn->name[e->side]);
	conn->silent = true;
	e->state = END_BROKEN;
	flow_drop_all(&conn->flow[!e->side]);
	flow_drop(&conn->flow[e->side]);
}

static void cut(struct sim_part *part, const char *prefix)
{
	struct sockets *s = part_of(part);
	struct listener *l;
	struct end *e;

	for (l = s->listeners; l; l = l->next)
		if (!l->f.dead && has_prefix(l->name, prefix))
			listener_cut(l, !s->sim->healed &&
				     sim_rng(&s->sim->chance) & 1);
	for (e = s->ends; e; e = e->next)
		if (!e->f.dead && has_prefix(e->name, prefix))
			end_cut(e);
}

/* A host that has power again does not know the connection. */
static void heal_conn(struct conn *conn)
{
	uint32_t gone = conn->end[0] && !conn->end[0]->f.dead;
	bool silent = conn->silent;

	debug_check(conn->pipe || conn->pprev);
	conn->silent = false;
	flow_heal(&conn->flow[0]);
	flow_heal(&conn->flow[1]);
	if (silent)
		conn_reset(conn, gone, 0);
}

static void heal(struct sim_part *part)
{
	struct conn *conn, *next;

	for (conn = part_of(part)->conns; conn; conn = next) {
		next = conn->next;
		heal_conn(conn);
	}
}

static void destroy(struct sim_part *part)
{
	struct sockets *s = part_of(part);
	struct partition *p;

	while ((p = s->partitions)) {
		s->partitions = p->next;
		free(p);
	}
	free(s);
}

struct sockets *sockets_of(struct weir_sim *sim)
{
	struct sim_part *part = sim_part(sim, "sockets");
	struct sockets *s;

	if (part)
		return part_of(part);
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->sim = sim;
	s->part.name = "sockets";
	s->part.cut = cut;
	s->part.heal = heal;
	s->part.destroy = destroy;
	sim_part_add(sim, &s->part);
	return s;
}

/* Partitions. */

static bool parts(const struct partition *p, const char *a, const char *b)
{
	if (!*a || !*b)
		return false;
	return (has_prefix(a, p->a) && has_prefix(b, p->b)) ||
	       (has_prefix(a, p->b) && has_prefix(b, p->a));
}

bool sockets_parted(const struct sockets *s, const char *a, const char *b)
{
	const struct partition *p;

	for (p = s->partitions; p; p = p->next)
		if (parts(p, a, b))
			return true;
	return false;
}

static bool is_between(const struct partition *p, const char *a, const char *b)
{
	return (!strcmp(p->a, a) && !strcmp(p->b, b)) ||
	       (!strcmp(p->a, b) && !strcmp(p->b, a));
}

/* Find that of @a and @b in either order: a partition has no direction. */
static struct partition **find_partition(struct sockets *s, const char *a,
					 const char *b)
{
	struct partition **at = &s->partitions;

	while (*at && !is_between(*at, a, b))
		at = &(*at)->next;
	return at;
}

/* After a long partition one end may have given up. */
static void lift(struct conn *conn)
{
	struct weir_sim *sim = conn->part->sim;
	uint32_t side = 0;

	flow_schedule(&conn->flow[0]);
	flow_schedule(&conn->flow[1]);
	if (conn->flow[1].n && !conn->flow[0].n)
		side = 1;
	if ((conn->flow[0].n || conn->flow[1].n) && !sim->healed &&
	    conn->end[side] && conn->end[side]->state == END_UP &&
	    !conn->silent && !sim_below(&sim->chance, 4))
		conn_reset(conn, side, -ETIMEDOUT);
}

static void each_parted(struct sockets *s, const struct partition *p,
			void (*fn)(struct conn *conn))
{
	struct conn *conn, *next;

	for (conn = s->conns; conn; conn = next) {
		next = conn->next;
		if (!conn->pipe && parts(p, conn->name[0], conn->name[1]))
			fn(conn);
	}
}

static void hold(struct conn *conn)
{
	flow_schedule(&conn->flow[0]);
	flow_schedule(&conn->flow[1]);
}

static int set_partition(struct sockets *s, struct partition **at,
			 const char *a, const char *b)
{
	struct partition *p;

	if (*at)
		return why(-EEXIST, "weir_sim_partition: '%s' and '%s' are "
			   "parted already", a, b);
	p = calloc(1, sizeof(*p));
	if (!p)
		return why(-ENOMEM, "weir_sim_partition: no memory");
	strcpy(p->a, a);
	strcpy(p->b, b);
	*at = p;
	sim_trace(s->sim, "partition between '%s' and '%s'", a, b);
	each_parted(s, p, hold);
	return 0;
}

static int lift_partition(struct sockets *s, struct partition **at,
			  const char *a, const char *b)
{
	struct partition *p = *at;

	if (!p)
		return why(-ENOENT, "weir_sim_partition: '%s' and '%s' are not "
			   "parted", a, b);
	*at = p->next;
	sim_trace(s->sim, "no partition between '%s' and '%s'", a, b);
	each_parted(s, p, lift);
	free(p);
	return 0;
}

int weir_sim_partition(struct weir_sim *sim, const char *a, const char *b,
		       int on)
{
	struct partition **at;
	struct sockets *s;

	if (!a || !b || strlen(a) >= WEIR_SIM_NAME_MAX ||
	    strlen(b) >= WEIR_SIM_NAME_MAX)
		return why(-EINVAL, "weir_sim_partition: no name, or longer "
			   "than %d bytes", WEIR_SIM_NAME_MAX - 1);
	s = sockets_of(sim);
	if (!s)
		return why(-ENOMEM, "weir_sim_partition: no memory");
	at = find_partition(s, a, b);
	return on ? set_partition(s, at, a, b) : lift_partition(s, at, a, b);
}
