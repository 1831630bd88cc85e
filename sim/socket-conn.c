/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections: each direction, with bytes and ends of the stream on their way;
 * and how they end.  Either by both closes; or by a reset, which one
 * end sees at once and the other when it arrives; or by a power cut, after
 * which the other end is reset, or gets no answer until the world is healed.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/crc32c.h>

#include "base/why.h"
#include "sim/socket.h"

#define SIDE_MAX 65536u
#define PIPE_SEND 4096u
#define PIPE_RECV (SIDE_MAX - PIPE_SEND)
#define PAGE 4096u
#define PIPE_MAX (1u << 20)	/* Of a user without privileges. */
#define STALL_LONGEST 18	/* 2^17 ms are two minutes. */

static void end_hears(struct end *e, enum part_what what);
static void flow_drop(struct flow *fl);
static void flow_fire(struct weir_sim *sim, struct sim_event *ev);
static void flow_schedule(struct flow *fl);

static struct weir_sim *sim_of_flow(const struct flow *fl)
{
	return fl->conn->part->sim;
}

static struct end *reader(const struct flow *fl)
{
	return fl->conn->end[!fl->side];
}

static uint32_t draw_max(struct weir_sim *sim)
{
	if (!sim->faults->rate[WEIR_SIM_SHORT])
		return SIDE_MAX;
	return 1024u << sim_below(sim_fault_rng(sim, WEIR_SIM_SHORT), 7);
}

static void flow_init(struct flow *fl, struct conn *conn, uint32_t side)
{
	fl->conn = conn;
	fl->side = side;
	fl->event.fire = flow_fire;
	fl->send_max = conn->pipe ? PIPE_SEND : draw_max(conn->part->sim);
	fl->recv_max = conn->pipe ? PIPE_RECV : draw_max(conn->part->sim);
}

static uint64_t capacity_of(const struct flow *fl)
{
	return fl->recv_max - (fl->arrived - fl->read);
}

uint64_t flow_space(const struct flow *fl)
{
	return fl->send_max - (fl->sent - fl->acked);
}

static struct sim_link *link_from(const struct conn *conn, uint32_t side)
{
	return conn->host[side] && conn->host[!side] ?
		       sim_link(conn->host[side], conn->host[!side]) : NULL;
}

/* Whether nothing passes from @side to the other. */
static bool is_cut(const struct conn *conn, uint32_t side)
{
	return (conn->part->partitions &&
		sockets_parted(conn->part, conn->name[0], conn->name[1])) ||
	       sim_link_is_cut(link_from(conn, side));
}

static void acknowledge(struct flow *fl)
{
	if (!is_cut(fl->conn, !fl->side))
		fl->acked = fl->arrived;
}

/* When data that are sent now arrive, unless earlier data delay them. */
static uint64_t arrival(struct flow *fl, uint64_t bytes)
{
	struct weir_sim *sim = sim_of_flow(fl);
	struct sim_link *link;
	uint64_t at = sim->now_ns;

	if (fl->conn->pipe)
		return at;
	link = link_from(fl->conn, fl->side);
	if (link && link->bytes_per_s) {
		if (link->free_ns > at)
			at = link->free_ns;
		at += bytes * WEIR_SEC / link->bytes_per_s;
		link->free_ns = at;
	}
	if (link && (link->latency.min_ns || link->latency.mean_ns))
		return at + sim_latency_of(sim, &link->latency);
	return at + sim_latency(sim, WEIR_SIM_WIRE);
}

static void add_part(struct flow *fl, enum part_what what, uint64_t end)
{
	struct part *last = &fl->parts[(fl->first + fl->n + PARTS - 1) % PARTS];
	uint64_t at = arrival(fl, end - (fl->n ? last->end : fl->arrived));

	if (what == PART_DATA && fl->n >= PARTS_OF_DATA) {
		last->end = end;
		return;
	}
	fl->parts[(fl->first + fl->n++) % PARTS] = (struct part){
		.end = end, .at_ns = at, .what = what };
}

/* Cut the data that were just written into parts of drawn size. */
static void add_parts(struct flow *fl, uint64_t from, uint64_t to)
{
	struct weir_sim *sim = sim_of_flow(fl);
	uint64_t cuts = sim_below(&sim->chance, 8);

	for (cuts = cuts > 4 ? cuts - 4 : 0; cuts && to - from > 1; cuts--) {
		from += 1 + sim_below(&sim->chance, to - from - 1);
		add_part(fl, PART_DATA, from);
	}
	add_part(fl, PART_DATA, to);
}

static void pop_part(struct flow *fl)
{
	fl->first = (fl->first + 1) % PARTS;
	debug_check(fl->n > 0);
	fl->n--;
}

/* When the next part arrives.  WEIR_FOREVER: something else must happen
 * first. */
static uint64_t next_arrival(const struct flow *fl)
{
	const struct part *p = &fl->parts[fl->first];
	const struct conn *conn = fl->conn;
	const struct end *to = reader(fl);

	if (!fl->n || conn->silent)
		return WEIR_FOREVER;
	if (p->what == PART_DATA && to && !capacity_of(fl) &&
	    to->state != END_BROKEN)
		return WEIR_FOREVER;
	if (is_cut(conn, fl->side))
		return WEIR_FOREVER;
	return p->at_ns > fl->stalled_ns ? p->at_ns : fl->stalled_ns;
}

/* The receiver has gone. */
static void lose_part(struct flow *fl)
{
	struct conn *conn = fl->conn;

	flow_drop(fl);
	if (!reader(fl))
		conn_reset(conn, !fl->side, 0);
}

/* Returns whether all of it fitted. */
static bool data_arrives(struct flow *fl, struct part *p)
{
	uint64_t n = p->end - fl->arrived;

	if (n > capacity_of(fl))
		n = capacity_of(fl);
	fl->arrived += n;
	acknowledge(fl);
	sim_mix(sim_of_flow(fl), fl->conn->serial << 1 | fl->side);
	sim_mix(sim_of_flow(fl), n);
	return fl->arrived == p->end;
}

/* Returns false if @fl may be freed. */
static bool part_arrives(struct flow *fl)
{
	struct part *p = &fl->parts[fl->first];
	enum part_what what = p->what;
	struct end *to = reader(fl);

	if (what == PART_DATA) {
		if (!to || to->state == END_BROKEN) {
			lose_part(fl);
			return false;
		}
		if (data_arrives(fl, p))
			pop_part(fl);
		return true;
	}
	pop_part(fl);
	if (to)
		end_hears(to, what);
	return what != PART_RESET;
}

/* Deliver all parts that have arrived by now. */
static void deliver(struct flow *fl)
{
	struct weir_sim *sim = sim_of_flow(fl);
	uint64_t before = fl->arrived;

	while (next_arrival(fl) <= sim->now_ns)
		if (!part_arrives(fl))
			return;
	if (fl->arrived != before) {
		sim_fd_changed(&reader(fl)->f);
		if (fl->conn->end[fl->side])
			sim_fd_changed(&fl->conn->end[fl->side]->f);
	}
	flow_schedule(fl);
}

static void flow_fire(struct weir_sim *sim, struct sim_event *ev)
{
	(void)sim;
	deliver(weir_container_of(ev, struct flow, event));
}

/* Schedule the arrival of the next part again. */
static void flow_schedule(struct flow *fl)
{
	struct weir_sim *sim = sim_of_flow(fl);
	uint64_t at = next_arrival(fl);

	sim_unqueue(sim, &fl->event);
	if (at != WEIR_FOREVER)
		sim_at(sim, &fl->event, at > sim->now_ns ? at - sim->now_ns :
							   0);
}

/* A part without latency arrives at once. */
static void kick(struct flow *fl)
{
	if (next_arrival(fl) <= sim_of_flow(fl)->now_ns)
		deliver(fl);
	else
		flow_schedule(fl);
}

/* Call @fn for each piece of the ring from @pos on. */
static void at_ring(char *ring, uint64_t capacity, uint64_t pos, uint64_t len,
		    const struct io_step *step,
		    void (*fn)(const struct io_step *step, uint64_t skip,
			       char *mem, uint64_t len))
{
	uint64_t at = pos & (capacity - 1), n = capacity - at;

	if (n > len)
		n = len;
	fn(step, 0, ring + at, n);
	if (len > n)
		fn(step, n, ring, len - n);
}

static void copy_in(const struct io_step *step, uint64_t skip, char *mem,
		    uint64_t len)
{
	sim_step_drain(step, skip, mem, len);
}

static void copy_out(const struct io_step *step, uint64_t skip, char *mem,
		     uint64_t len)
{
	sim_step_fill(step, skip, mem, len);
}

static int make_capacity(struct flow *fl, uint64_t wanted)
{
	uint32_t capacity = fl->capacity ? fl->capacity : 512;
	struct io_step all;
	char *ring;

	while (capacity < wanted)
		capacity *= 2;
	if (capacity == fl->capacity)
		return 0;
	ring = malloc(capacity);
	if (!ring)
		return -ENOBUFS;
	for (uint64_t pos = fl->read; pos < fl->sent; pos += all.len) {
		all = (struct io_step){ .addr = ring + (pos & (capacity - 1)) };
		all.len = fl->capacity - (pos & (fl->capacity - 1));
		if (all.len > capacity - (pos & (capacity - 1)))
			all.len = capacity - (pos & (capacity - 1));
		if (all.len > fl->sent - pos)
			all.len = fl->sent - pos;
		memcpy(all.addr, fl->ring + (pos & (fl->capacity - 1)),
		       all.len);
	}
	free(fl->ring);
	fl->ring = ring;
	fl->capacity = capacity;
	return 0;
}

uint64_t wire_stall(struct weir_sim *sim, const char *name)
{
	uint64_t draw;

	if (!sim_fault(sim, WEIR_SIM_STALL, name))
		return 0;
	draw = sim_rng(sim_fault_rng(sim, WEIR_SIM_STALL));
	if (!(draw & 3))
		return WEIR_FOREVER;
	return sim->now_ns + (WEIR_MSEC << (draw >> 2) % STALL_LONGEST);
}

static void draw_stall(struct flow *fl)
{
	uint64_t until;

	if (fl->conn->pipe)
		return;
	until = wire_stall(sim_of_flow(fl), fl->conn->name[fl->side]);
	if (until > fl->stalled_ns)
		fl->stalled_ns = until;
}

/* What is sent is part of what has happened. */
static void mix_ring(const struct flow *fl, uint64_t pos, uint64_t len)
{
	uint64_t at = pos & (fl->capacity - 1), n = fl->capacity - at;
	uint32_t crc;

	if (n > len)
		n = len;
	crc = weir_crc32c(0, fl->ring + at, n);
	sim_mix(sim_of_flow(fl), weir_crc32c(crc, fl->ring, len - n));
}

int64_t flow_send(struct flow *fl, const struct io_step *step)
{
	uint64_t n = sim_step_len(step);
	int err;

	if (n > flow_space(fl))
		n = flow_space(fl);
	err = make_capacity(fl, fl->sent + n - fl->read);
	if (err)
		return err;
	at_ring(fl->ring, fl->capacity, fl->sent, n, step, copy_in);
	mix_ring(fl, fl->sent, n);
	draw_stall(fl);
	add_parts(fl, fl->sent, fl->sent + n);
	fl->sent += n;
	fl->conn->part->sent += n;
	conn_trouble(fl->conn);
	kick(fl);
	return (int64_t)n;
}

/* Descriptors on their way. */

static void doom_fire(struct weir_sim *sim, struct sim_event *ev)
{
	struct rights *r = weir_container_of(ev, struct rights, event), **at;

	(void)sim;
	for (at = &r->part->doomed; *at != r; at = &(*at)->next)
		;
	*at = r->next;
	for (uint32_t i = 0; i < r->n; i++)
		sim_fd_drop(r->f[i], -1);
	free(r);
}

/* A little later: what is closed may be a connection that is just being looked at. */
void rights_doom(struct rights *rights)
{
	struct sockets *s = rights->part;

	rights->next = s->doomed;
	s->doomed = rights;
	rights->event.fire = doom_fire;
	sim_at(s->sim, &rights->event, 0);
}

/* What was read, or will never arrive. */
static void rights_trim(struct flow *fl)
{
	struct rights *r, **at = &fl->rights;

	while ((r = *at)) {
		if (r->pos >= fl->read && r->pos < fl->sent) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		rights_doom(r);
	}
}

/* A read ends where others begin than are with its first byte. */
static uint64_t until_rights(const struct flow *fl, uint64_t n)
{
	const struct rights *r = fl->rights;

	while (r && r->pos <= fl->read)
		r = r->next;
	return r && r->pos - fl->read < n ? r->pos - fl->read : n;
}

/* The sender learns, a little later, that there is capacity again. */
static void open_window(struct flow *fl)
{
	struct part *p = &fl->parts[fl->first];
	uint64_t at = sim_of_flow(fl)->now_ns;

	if (!fl->n || fl->event.queued)
		return;
	if (!fl->conn->pipe)
		at += sim_latency(sim_of_flow(fl), WEIR_SIM_WIRE);
	for (uint32_t i = 0; i < fl->n; i++) {
		p = &fl->parts[(fl->first + i) % PARTS];
		if (p->at_ns < at)
			p->at_ns = at;
	}
	kick(fl);
}

int64_t flow_receive(struct flow *fl, const struct io_step *step, bool peek)
{
	uint64_t n = sim_step_len(step);

	if (n > fl->arrived - fl->read)
		n = fl->arrived - fl->read;
	n = until_rights(fl, n);
	at_ring(fl->ring, fl->capacity, fl->read, n, step, copy_out);
	if (peek)
		return (int64_t)n;
	fl->read += n;
	rights_trim(fl);
	fl->conn->part->received += n;
	open_window(fl);
	return (int64_t)n;
}

void flow_tell(struct flow *fl, enum part_what what)
{
	add_part(fl, what, fl->sent);
	kick(fl);
}

/* Drop what is on its way. */
static void flow_drop(struct flow *fl)
{
	fl->conn->part->lost += fl->sent - fl->arrived;
	fl->sent = fl->arrived;
	fl->acked = fl->arrived;
	fl->n = 0;
	rights_trim(fl);
	sim_unqueue(sim_of_flow(fl), &fl->event);
}

/* The same, and what has arrived. */
static void flow_drop_all(struct flow *fl)
{
	flow_drop(fl);
	fl->conn->part->lost += fl->arrived - fl->read;
	fl->read = fl->arrived;
	rights_trim(fl);
}

static void flow_fini(struct flow *fl)
{
	flow_drop_all(fl);
	free(fl->ring);
}

static void flow_heal(struct flow *fl)
{
	fl->stalled_ns = 0;
	flow_schedule(fl);
}

/* Ends of connections. */

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
		conn->host[i] = ends[i]->f.host;
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
	uint32_t side = sim_rng(sim_fault_rng(sim, WEIR_SIM_RESET)) & 1;

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
	       sim_below(sim_fault_rng(sim, WEIR_SIM_RESET), near));
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
	rights_trim(in);
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

static void end_hears(struct end *e, enum part_what what)
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

/* The world is about to be destroyed. */
static void rights_end(struct sim_part *part)
{
	struct sockets *s = part_of(part);
	struct conn *conn;
	struct rights *r;

	for (conn = s->conns; conn; conn = conn->next)
		for (int i = 0; i < 2; i++)
			while ((r = conn->flow[i].rights)) {
				conn->flow[i].rights = r->next;
				rights_doom(r);
			}
	while ((r = s->doomed)) {
		sim_unqueue(s->sim, &r->event);
		doom_fire(s->sim, &r->event);
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

/* What did not arrive while a direction was cut. */
static void heal_link(struct conn *conn)
{
	for (int i = 0; i < 2; i++) {
		acknowledge(&conn->flow[i]);
		if (conn->end[i])
			sim_fd_changed(&conn->end[i]->f);
	}
	lift(conn);
}

static void hold(struct conn *conn);

static void link_changed(struct sim_part *part, struct weir_sim_host *from,
			 struct weir_sim_host *to)
{
	bool cut = sim_link_is_cut(sim_link(from, to));
	struct conn *conn, *next;

	for (conn = part_of(part)->conns; conn; conn = next) {
		next = conn->next;
		if ((conn->host[0] == from && conn->host[1] == to) ||
		    (conn->host[0] == to && conn->host[1] == from))
			cut ? hold(conn) : heal_link(conn);
	}
}

/* Its ends are closed after this, and tell their peers nothing. */
static void host_off(struct sim_part *part, struct weir_sim_host *host)
{
	struct listener *l;
	struct conn *conn;

	for (conn = part_of(part)->conns; conn; conn = conn->next)
		for (int i = 0; i < 2; i++)
			if (conn->host[i] == host && conn->end[i])
				conn->silent = true;
	for (l = part_of(part)->listeners; l; l = l->next)
		if (l->f.host == host && !l->f.dead && l->f.fd >= 0)
			listener_cut(l, true);
}

static void host_on(struct sim_part *part, struct weir_sim_host *host)
{
	struct conn *conn;

	for (conn = part_of(part)->conns; conn; conn = conn->next) {
		if (!conn->silent || (conn->host[0] != host &&
				      conn->host[1] != host))
			continue;
		conn->silent = false;
		flow_schedule(&conn->flow[0]);
		flow_schedule(&conn->flow[1]);
	}
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
	s->part.off = host_off;
	s->part.on = host_on;
	s->part.link = link_changed;
	s->part.end = rights_end;
	s->part.destroy = destroy;
	sim_part_add(sim, &s->part);
	return s;
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

int weir_sim_pipe_size(int fd, uint32_t bytes)
{
	struct sim_fd *f = sim_fd_find(fd);
	uint32_t size = PAGE;
	struct flow *fl;

	if (!f || f->cls != &pipe_class)
		return -EBADF;
	if (bytes > PIPE_MAX)
		return -EPERM;
	fl = &end_of(f)->conn->flow[1];
	while (size < bytes)
		size *= 2;
	if (bytes && size < PIPE_SEND + (fl->arrived - fl->read))
		return -EBUSY;
	/* What is not in the part that a reader sees. */
	if (bytes)
		fl->recv_max = size > PIPE_SEND ? size - PIPE_SEND : PIPE_SEND;
	return (int)(fl->recv_max + PIPE_SEND);
}
