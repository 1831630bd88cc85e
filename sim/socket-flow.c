/* SPDX-License-Identifier: BSD-3-Clause */
/* One direction of a connection: bytes, and ends of the stream, on their
 * way. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/socket.h"

#define SIDE_MAX 65536u
#define PIPE_SEND 4096u
#define PIPE_RECV (SIDE_MAX - PIPE_SEND)
#define STALL_LONGEST 18	/* 2^17 ms are two minutes. */

static void flow_fire(struct weir_sim *sim, struct sim_event *ev);

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
	if (!sim->fault_rate[WEIR_SIM_SHORT])
		return SIDE_MAX;
	return 1024u << sim_below(&sim->fault_rng[WEIR_SIM_SHORT], 7);
}

void flow_init(struct flow *fl, struct conn *conn, uint32_t side)
{
	fl->conn = conn;
	fl->side = side;
	fl->event.fire = flow_fire;
	fl->send_max = conn->pipe ? PIPE_SEND : draw_max(conn->part->sim);
	fl->recv_max = conn->pipe ? PIPE_RECV : draw_max(conn->part->sim);
}

void flow_fini(struct flow *fl)
{
	flow_drop_all(fl);
	free(fl->ring);
}

static uint64_t capacity_of(const struct flow *fl)
{
	return fl->recv_max - (fl->arrived - fl->read);
}

uint64_t flow_space(const struct flow *fl)
{
	return fl->send_max - (fl->sent - fl->arrived);
}

/* When data that are sent now arrive, unless earlier data delay them. */
static uint64_t arrival(struct flow *fl)
{
	struct weir_sim *sim = sim_of_flow(fl);

	if (fl->conn->pipe)
		return sim->now_ns;
	return sim->now_ns + sim_latency(sim, WEIR_SIM_WIRE);
}

static void add_part(struct flow *fl, enum part_what what, uint64_t end)
{
	uint64_t at = arrival(fl);
	struct part *last;

	if (what == PART_DATA && fl->n >= PARTS_OF_DATA) {
		last = &fl->parts[(fl->first + fl->n - 1) % PARTS];
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
	if (conn->part->partitions &&
	    sockets_parted(conn->part, conn->name[0], conn->name[1]))
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

void flow_schedule(struct flow *fl)
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
	draw = sim_rng(&sim->fault_rng[WEIR_SIM_STALL]);
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
	draw_stall(fl);
	add_parts(fl, fl->sent, fl->sent + n);
	fl->sent += n;
	fl->conn->part->sent += n;
	conn_trouble(fl->conn);
	kick(fl);
	return (int64_t)n;
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
	at_ring(fl->ring, fl->capacity, fl->read, n, step, copy_out);
	if (peek)
		return (int64_t)n;
	fl->read += n;
	fl->conn->part->received += n;
	open_window(fl);
	return (int64_t)n;
}

void flow_tell(struct flow *fl, enum part_what what)
{
	add_part(fl, what, fl->sent);
	kick(fl);
}

void flow_drop(struct flow *fl)
{
	fl->conn->part->lost += fl->sent - fl->arrived;
	fl->sent = fl->arrived;
	fl->n = 0;
	sim_unqueue(sim_of_flow(fl), &fl->event);
}

void flow_drop_all(struct flow *fl)
{
	flow_drop(fl);
	fl->conn->part->lost += fl->arrived - fl->read;
	fl->read = fl->arrived;
}

void flow_heal(struct flow *fl)
{
	fl->stalled_ns = 0;
	flow_schedule(fl);
}
