/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links: a connection on each of two reactors.  Whatever is told of one must
 * fit with what was told before.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "tests/sim/sim-verbs.h"

static void went_up(struct end *e)
{
	must(!e->up, "a connection is established once", "link %u",
	     e->link->number);
	e->up = true;
	e->ups++;
	peers_begin(e);
	weir_sim_note(run_of(e)->sim, e->is_server ? "server up" : "client up",
		      e->link->number);
}

static void went_down(struct end *e)
{
	e->up = false;
	end_disturb(e);
}

/* Destroying and making. */

static bool try_destroy(struct end *e)
{
	int err;

	if (!e->conn || e->op.is_under_way)
		return !e->conn;
	if (e->attached) {
		err = weir_conn_detach(e->conn, e->there);
		must(!err || err == -EBUSY, "an idle connection is detached",
		     "%d: %s", err, weir_why());
		e->attached = err;
		if (err)
			return false;
	}
	err = weir_conn_destroy(e->conn);
	must(!err || err == -EBUSY, "an idle connection is destroyed",
	     "%d: %s", err, weir_why());
	if (err)
		return false;
	went_down(e);
	e->conn = NULL;
	return true;
}

static bool is_cause(int why)
{
	return why == 0 || why == -ENODEV || why == -ECONNRESET ||
	       why == -EIO || why == -ENOMEM || why == -EMSGSIZE ||
	       why == -ENOBUFS;
}

/* Of a reconnect that has failed for good the cause may be any. */
static void on_end(struct weir_conn *c, int why_told, void *arg)
{
	struct end *e = arg;
	int state = weir_conn_state(c);

	must(c == e->conn, "told of the connection that it is about",
	     "link %u", e->link->number);
	must(!(e->op.is_under_way && e->leaving),
	     "nobody is told of an end that was asked for", "link %u",
	     e->link->number);
	weir_sim_note(run_of(e)->sim, "end", (uint32_t)why_told);
	if (why_told == WEIR_CONN_AGAIN) {
		must(state == WEIR_CONN_ESTABLISHED, "the state is so",
		     "%d", state);
		went_up(e);
		return;
	}
	must(e->up ? is_cause(why_told) : why_told < 0 && !e->is_server,
	     "an end is told once, with its cause", "%d on link %u",
	     why_told, e->link->number);
	must(state == WEIR_CONN_ENDED || (state == WEIR_CONN_CONNECTING &&
	     !e->is_server), "the state is so", "%d", state);
	went_down(e);
	if (one_in(run_of(e), 4))
		try_destroy(e);
}

/* What jobs go by. */
static void attach(struct end *e)
{
	int err = weir_conn_attach(e->conn, e->there);

	must(!err, "a domain can be attached", "%d: %s", err, weir_why());
	e->attached = true;
	if (e->host->srq)
		peers_listen(e);
	weir_conn_set_end_fn(e->conn, on_end, e);
}

/* Operations. */

static void on_left(struct task *task, int64_t res)
{
	struct end *e = task->op.data;

	must(res == 0 || task_was_ended(task, res),
	     "a result that is documented", "a disconnect: %lld",
	     (long long)res);
	must(weir_conn_state(e->conn) == WEIR_CONN_ENDED, "it has ended",
	     "%d", weir_conn_state(e->conn));
	e->leaving = false;
	went_down(e);
	if (one_in(run_of(e), 3))
		try_destroy(e);
}

static void on_made(struct task *task, int64_t res)
{
	struct end *e = task->op.data;
	int state = weir_conn_state(e->conn);

	must(res <= 0, "a result that is documented", "%lld", (long long)res);
	must(run_of(e)->trial->faults || !res || res == -ECONNREFUSED ||
	     res == -ECONNRESET || res == -ETIMEDOUT || res == -EHOSTUNREACH ||
	     (res == -EIO && e->is_server && peer_of(e)->said_too_much) ||
	     task_was_ended(task, res), "a connect fails for a cause", "%lld",
	     (long long)res);
	must(res ? state == WEIR_CONN_ENDED : state == WEIR_CONN_ESTABLISHED ||
	     state == WEIR_CONN_CLOSING,
	     "the state is so", "%d after %lld", state, (long long)res);
	weir_sim_note(run_of(e)->sim, "made", (uint32_t)res);
	if (!res) {
		went_up(e);
	} else if (one_in(run_of(e), 3)) {
		try_destroy(e);
	}
}

static void begin(struct end *e, const char *what,
		  void (*end)(struct task *task, int64_t res))
{
	task_init(&e->op, run_of(e), what, end);
	e->op.op.data = e;
	e->op.may_be_flushed = true;
}

static void leave(struct end *e)
{
	int err;

	begin(e, "disconnect", on_left);
	err = weir_conn_disconnect(e->conn, &e->op.op);
	must(!err || err == -ENOTCONN || err == -EAGAIN,
	     "a disconnect is refused for a cause", "%d: %s", err, weir_why());
	e->leaving = task_began(&e->op, err);
}

/* The server's side. */

static void answer(struct end *e)
{
	struct run *run = run_of(e);
	char data[8] = "come in";
	int err;

	if (run->ending || one_in(run, 8)) {
		err = weir_conn_reject(e->conn, data, sizeof(data));
		must(!err || run->trial->faults, "a reject", "%d", err);
		if (!err)
			try_destroy(e);
		return;
	}
	begin(e, "accept", on_made);
	err = weir_conn_accept(e->conn, &e->op.op, data, sizeof(data));
	must(!err || run->trial->faults || err == -ECONNRESET ||
	     err == -EAGAIN, "an accept is refused for a cause", "%d: %s", err,
	     weir_why());
	task_began(&e->op, err);
	if (err)
		try_destroy(e);
}

/* By private data a client says who it is. */
static struct end *end_of(struct host *h, const struct weir_conn *c)
{
	size_t len;
	const uint8_t *data = weir_conn_peer_data(c, &len);

	must(data && len && *data < h->program->n_links,
	     "private data arrive", "%zu bytes", len);
	return &h->program->links[*data].end[1];
}

static void turn_away(struct weir_conn *c)
{
	int err = weir_conn_destroy(c);

	must(!err, "a request can be refused", "%d: %s", err, weir_why());
}

static void next(struct host *h);

static void on_came(struct task *task, int64_t res)
{
	struct host *h = task->op.data;
	struct end *e;

	must(!res || res == -ENODEV || task_was_ended(task, res),
	     "a result that is documented", "%lld", (long long)res);
	if (!res) {
		e = end_of(h, h->came);
		if (e->conn && !try_destroy(e)) {
			turn_away(h->came);
		} else {
			e->conn = h->came;
			attach(e);
			if (one_in(task->run, 2))
				answer(e);
		}
	}
	next(h);
}

static void next(struct host *h)
{
	struct run *run = h->program->run;
	int err;

	if (run->ending)
		return;
	task_init(&h->next, run, "next", on_came);
	h->next.op.data = h;
	err = weir_listener_next(h->listener, &h->next.op, &h->came);
	must(!err || err == -EAGAIN || err == -ENODEV,
	     "a next is refused for a cause", "%d: %s", err, weir_why());
	task_began(&h->next, err);
}

void host_listen(struct host *h)
{
	struct weir_conn_opts conn = { .size = sizeof(conn) };
	struct weir_listener_opts opts = { .size = sizeof(opts),
					   .conn = &conn };
	struct run *run = h->program->run;
	socklen_t len = sizeof(h->addr);
	int err;

	conn.sends = 1 + rnd(run, 32);
	conn.recvs = 4;
	conn.max_sge = 1 + rnd(run, 4);
	conn.srq = h->srq;
	opts.backlog = one_in(run, 4) ? 1 : 0;
	h->addr.sin_family = AF_INET;
	h->addr.sin_addr.s_addr = htonl(0x0a4d0001u +
					(uint32_t)(h - h->program->hosts));
	err = weir_listener_create(&h->listener, h->r,
				   (const struct sockaddr *)&h->addr, len,
				   &opts);
	if (!err)
		err = weir_listener_address(h->listener,
					    (struct sockaddr *)&h->addr, &len);
	must(!err, "a listener can be made", "%d: %s", err, weir_why());
	next(h);
}

/* The client's side. */

static void make_client(struct end *e)
{
	struct weir_conn_opts opts = { .size = sizeof(opts) };
	struct run *run = run_of(e);
	int err;

	opts.sends = 1 + rnd(run, 40);
	opts.recvs = 4;
	opts.max_sge = 1 + rnd(run, 6);
	opts.reads = 1 + rnd(run, 8);
	opts.max_inline = one_in(run, 3) ? 1 + rnd(run, 200) : 0;
	opts.attempts = one_in(run, 2) ? rnd(run, 4) : 0;
	opts.srq = e->host->srq;
	opts.first_ns = (1 + rnd(run, 20)) * WEIR_MSEC;
	err = weir_conn_create(&e->conn, e->host->r, NULL, &opts);
	must(!err || run->trial->faults, "a connection can be made", "%d: %s",
	     err, weir_why());
	if (err)
		e->conn = NULL;
	else
		attach(e);
}

/* Where nobody listens, or nobody is, sometimes. */
static void connect_client(struct end *e)
{
	struct sockaddr_in to = peer_of(e)->host->addr;
	struct run *run = run_of(e);
	int err;

	if (one_in(run, 16))
		to.sin_port ^= htons(0x4000);
	else if (one_in(run, 16))
		to.sin_addr.s_addr = htonl(0xc6336401);
	begin(e, "connect", on_made);
	err = weir_conn_connect(e->conn, &e->op.op,
				(const struct sockaddr *)&to, sizeof(to), NULL,
				0, &e->link->number, 1);
	must(!err || run->trial->faults || err == -EAGAIN,
	     "a connect is refused for a cause", "%d: %s", err, weir_why());
	if (task_began(&e->op, err) && one_in(run, 8))
		task_deadline(&e->op, rnd(run, 200000));
}

static void end_act(struct end *e)
{
	struct run *run = run_of(e);
	int state;

	if (!e->conn && !e->is_server)
		make_client(e);
	if (!e->conn)
		return;
	state = weir_conn_state(e->conn);
	if (e->op.is_under_way) {
		if (one_in(run, 16))
			task_cancel(&e->op);
	} else if (state == WEIR_CONN_REQUESTED) {
		answer(e);
	} else if (!e->is_server && (state == WEIR_CONN_IDLE ||
				     state == WEIR_CONN_ENDED)) {
		connect_client(e);
	} else if (state == WEIR_CONN_ENDED || one_in(run, 100)) {
		try_destroy(e);
	} else if (one_in(run, 60)) {
		leave(e);
	}
}

/* In a turn of the end's own reactor. */
static void act(void *arg)
{
	struct end *e = arg;

	if (run_of(e)->ending)
		return;
	end_act(e);
	if (!e->host->next.is_under_way)
		next(e->host);
	slots_act(e);
	if (e->host->srq)
		peers_act(e);
	if (e->link->program->windows)
		window_act(e);
}

void link_act(struct link *l)
{
	struct end *e = &l->end[rnd(l->program->run, 2)];

	(void)weir_post(e->host->r, act, e);
}

/* Its life. */

void link_set_up(struct program *p, struct link *l, uint8_t number)
{
	uint32_t from = rnd(p->run, p->n_hosts), i;

	l->program = p;
	l->number = number;
	for (i = 0; i < 2; i++) {
		struct end *e = &l->end[i];

		e->link = l;
		e->is_server = i;
		e->host = &p->hosts[i ? rnd(p->run, p->n_hosts) : from];
		target_set_up(e);
		window_set_up(e);
		slots_set_up(e);
	}
}

static bool end_ends(struct end *e)
{
	int state = e->conn ? weir_conn_state(e->conn) : 0;

	peers_put_kept(e);
	if (!e->conn || (e->op.is_under_way && e->leaving))
		return !e->conn;
	if (e->op.is_under_way)
		task_cancel(&e->op);
	else if (state == WEIR_CONN_ESTABLISHED && one_in(run_of(e), 2))
		leave(e);
	else
		return try_destroy(e);
	return false;
}

bool link_end(struct link *l)
{
	bool done[2] = { end_ends(&l->end[0]), end_ends(&l->end[1]) };

	return done[0] && done[1] && slots_idle(&l->end[0]) &&
	       slots_idle(&l->end[1]) && !l->end[0].poking &&
	       !l->end[1].poking;
}

void link_take_down(struct link *l)
{
	uint32_t i;

	for (i = 0; i < 2; i++) {
		slots_check(&l->end[i]);
		window_take_down(&l->end[i]);
		target_take_down(&l->end[i]);
	}
}
