/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections, and what is on its way by them: in order to each side of one, and in
 * any order otherwise.
 */

#include "tests/support/mock-fabric-internal.h"

static struct m_packet *wire, **last_of_wire = &wire;
static struct m_conn *conns;
static struct m_pep *peps;

static void packet_free(struct m_packet *p)
{
	free(p->copy);
	free(p);
}

static void take_off(struct m_packet **at)
{
	*at = (*at)->next;
	if (!*at)
		last_of_wire = at;
}

static bool is_data(const struct m_packet *p)
{
	return p->what >= WRITE;
}

/* Frees what is on its way by @conn: to @to, or with -1 to both sides. */
static void drop(struct m_conn *conn, int to, bool only_data)
{
	struct m_packet **at = &wire, *p;

	while ((p = *at)) {
		if (p->conn != conn || (to >= 0 && p->to != to) ||
		    (only_data && !is_data(p))) {
			at = &p->next;
			continue;
		}
		take_off(at);
		packet_free(p);
	}
}

static void drop_inbox(struct m_ep *ep)
{
	struct m_packet *p;

	while (ep && (p = ep->inbox)) {
		ep->inbox = p->next;
		packet_free(p);
	}
	if (ep)
		ep->last = &ep->inbox;
}

/* Operations. */

/* What has been sent of it has reached the network, or has not. */
static void leave_op(struct m_packet *p, const struct m_op *op, bool copies)
{
	size_t i, n = 0;

	for (; p; p = p->next) {
		if (p->op != op)
			continue;
		p->op = NULL;
		if (!copies || p->what != WRITE || mock_below(2))
			continue;
		p->copy = mock_alloc(p->len);
		for (i = 0; i < op->n_iov; n += op->iov[i++].iov_len)
			memcpy(p->copy + n, op->iov[i].iov_base,
			       op->iov[i].iov_len);
	}
}

static void op_free(struct m_op *op, bool copies)
{
	struct m_ep *ep = op->ep, *peer = ep->conn->ep[!ep->side];
	struct m_op **at = &ep->ops;

	leave_op(wire, op, copies);
	leave_op(ep->inbox, op, false);
	if (peer)
		leave_op(peer->inbox, op, copies);
	while (*at != op)
		at = &(*at)->next;
	*at = op->next;
	if (!*at)
		ep->last_op = at;
	free(op);
}

void mock_op_end(struct m_op *op, int err)
{
	if (!op->was_told)
		mock_complete(op->ep, op->context, err);
	op_free(op, false);
}

static void flush(struct m_ep *ep)
{
	static const int causes[] = { FI_ECANCELED, FI_ECONNRESET, FI_EIO,
				      FI_ENOTCONN, FI_EOTHER };

	while (ep && ep->ops)
		mock_op_end(ep->ops, causes[mock_below(5)]);
}

/* Connections. */

struct m_conn *mock_conn_new(struct m_ep *client, uint16_t port)
{
	struct m_conn *conn = mock_alloc(sizeof(*conn));

	conn->ep[0] = client;
	conn->port = port;
	conn->next = conns;
	conns = conn;
	mock_left.conns++;
	return conn;
}

void mock_conn_left(struct m_conn *conn)
{
	struct m_conn **at = &conns;

	if (conn->ep[0] || conn->ep[1] || conn->request)
		return;
	drop(conn, -1, false);
	while (*at != conn)
		at = &(*at)->next;
	*at = conn->next;
	free(conn);
	mock_left.conns--;
}

/* The events or the completions of it come first. */
static void send_end(struct m_conn *conn, int to)
{
	bool flushes_first = mock_below(2);

	if (flushes_first)
		mock_send(conn, to, FLUSH);
	mock_send(conn, to, END);
	if (!flushes_first)
		mock_send(conn, to, FLUSH);
}

void mock_conn_kill(struct m_conn *conn)
{
	int side;

	if (conn->is_dead)
		return;
	conn->is_dead = true;
	drop(conn, -1, true);
	for (side = 0; side < 2; side++)
		drop_inbox(conn->ep[side]);
	for (side = 0; side < 2; side++)
		send_end(conn, side);
}

void mock_wire_close(struct m_ep *ep)
{
	struct m_conn *conn = ep->conn;

	if (!conn)
		return;
	while (ep->ops)
		op_free(ep->ops, true);
	drop_inbox(ep);
	conn->ep[ep->side] = NULL;
	drop(conn, ep->side, false);
	if (conn->ep[!ep->side])
		send_end(conn, !ep->side);
	mock_conn_left(conn);
}

/* Arrivals. */

void mock_pep_add(struct m_pep *pep)
{
	pep->next = peps;
	peps = pep;
}

void mock_pep_del(struct m_pep *pep)
{
	struct m_pep **at = &peps;

	while (*at != pep)
		at = &(*at)->next;
	*at = pep->next;
}

static void on_connect(struct m_packet *p)
{
	struct m_conn *conn = p->conn;
	struct m_request *request;
	struct m_event *event;
	struct m_pep *pep = peps;

	while (pep && (!pep->listens || pep->port != conn->port))
		pep = pep->next;
	if (!pep) {
		mock_send(conn, 0, REJECT);
		return;
	}
	request = mock_alloc(sizeof(*request));
	request->conn = conn;
	request->fid.fclass = FI_CLASS_CONNREQ;
	conn->request = request;
	mock_left.requests++;
	event = mock_tell(pep->eq, &pep->fid.fid, FI_CONNREQ, 0);
	event->info = mock_info_dup(pep->info);
	event->info->handle = &request->fid;
	event->len = p->n;
	memcpy(event->data, p->data, p->n);
}

static void tell_end(struct m_ep *ep)
{
	struct m_conn *conn = ep->conn;

	conn->is_dead = true;
	if (!ep->eq)
		return;
	if (conn->is_up)
		mock_tell(ep->eq, &ep->fid.fid, FI_SHUTDOWN, 0);
	else
		mock_tell(ep->eq, &ep->fid.fid, 0, FI_ECONNREFUSED);
}

static void tell_reject(struct m_ep *ep, const struct m_packet *p)
{
	struct m_event *event = mock_tell(ep->eq, &ep->fid.fid, 0,
					  FI_ECONNREFUSED);

	/* Perhaps padded. */
	event->len = p->n && mock_below(2) ? p->n + 8 : p->n;
	memcpy(event->data, p->data, p->n);
	ep->conn->is_dead = true;
}

static void tell_up(struct m_conn *conn)
{
	int side;

	conn->is_up = true;
	conn->is_full = mock_fault(MOCK_FABRIC_AGAIN);
	for (side = 0; side < 2; side++)
		if (conn->ep[side])
			mock_tell(conn->ep[side]->eq, &conn->ep[side]->fid.fid,
				  FI_CONNECTED, 0);
}

static void to_inbox(struct m_ep *ep, struct m_packet *p)
{
	p->next = NULL;
	*ep->last = p;
	ep->last = &p->next;
	mock_ring(ep->cq->fd);
	while (mock_world.flags & MOCK_FABRIC_AUTO && mock_progress(ep))
		;
}

static void arrive(struct m_packet *p)
{
	struct m_conn *conn = p->conn;
	struct m_ep *ep = conn->ep[p->to];

	if (p->what == CONNECT) {
		on_connect(p);
	} else if (p->what == ACCEPT) {
		if (ep && !conn->is_dead)
			tell_up(conn);
	} else if (!ep) {
		/* It is closed. */
	} else if (p->what == REJECT) {
		tell_reject(ep, p);
	} else if (p->what == END) {
		tell_end(ep);
	} else if (p->what == FLUSH) {
		flush(ep);
	} else {
		to_inbox(ep, p);
		return;
	}
	packet_free(p);
}

/* Whether something else goes to that side before @p. */
static bool has_to_wait(const struct m_packet *p)
{
	const struct m_packet *before = wire;

	while (before != p && (before->conn != p->conn || before->to != p->to))
		before = before->next;
	return before != p || p->conn->is_silent;
}

EXPORT int mock_fabric_step(void)
{
	struct m_packet **at, **picked = NULL, *p;
	uint32_t n = 0;

	for (at = &wire; *at; at = &(*at)->next)
		if (!has_to_wait(*at) && !mock_below(++n))
			picked = at;
	if (!picked)
		return 0;
	p = *picked;
	if (mock_fault(MOCK_FABRIC_SILENT)) {
		p->conn->is_silent = true;
		return 1;
	}
	if (is_data(p) && mock_fault(MOCK_FABRIC_LOST)) {
		mock_conn_kill(p->conn);
		return 1;
	}
	take_off(picked);
	arrive(p);
	return wire != NULL;
}

void mock_arrive_all(void)
{
	if (!mock_world.later)
		while (mock_fabric_step())
			;
}

struct m_packet *mock_send(struct m_conn *conn, int to, enum m_what what)
{
	struct m_packet *p = mock_alloc(sizeof(*p));

	p->conn = conn;
	p->to = to;
	p->what = what;
	*last_of_wire = p;
	last_of_wire = &p->next;
	if (mock_world.later)
		mock_world.later(mock_world.arg);
	return p;
}

/* What is in the inbox of an endpoint. */

static uint64_t chunk(const struct m_packet *p)
{
	uint64_t left = p->len - p->done;

	return left > 1 && mock_below(4) ? 1 + mock_below((uint32_t)left - 1) : left;
}

/* @n bytes at @off of the operation's memory. */
static void move(const struct m_op *op, uint64_t off, uint8_t *with, uint64_t n,
		 bool into)
{
	size_t i = 0, some;

	for (; n; i++) {
		if (off >= op->iov[i].iov_len) {
			off -= op->iov[i].iov_len;
			continue;
		}
		some = op->iov[i].iov_len - off < n ? op->iov[i].iov_len - off : n;
		if (into)
			memcpy((uint8_t *)op->iov[i].iov_base + off, with, some);
		else
			memcpy(with, (uint8_t *)op->iov[i].iov_base + off, some);
		with += some;
		n -= some;
		off = 0;
	}
}

/* Once for each operation: then the region may be closed. */
static bool check_key(struct m_ep *ep, struct m_packet *p, uint64_t access)
{
	struct m_mr *mr = mock_mr_find(ep->domain, p->key);

	if (!mr || !(mr->access & access) || p->addr < mr->base ||
	    p->addr - mr->base > mr->len ||
	    p->len > mr->len - (p->addr - mr->base))
		return false;
	p->at = mr->mem + (p->addr - mr->base);
	return true;
}

/* Returns whether it is done. */
static bool write_some(struct m_ep *ep, struct m_packet *p)
{
	uint64_t n = chunk(p);

	if (p->copy)
		memcpy(p->at + p->done, p->copy + p->done, n);
	else if (p->op)
		move(p->op, p->done, p->at + p->done, n, false);
	else
		return true;
	p->done += n;
	if (p->done < p->len)
		return false;
	if (p->op)
		mock_send(ep->conn, !ep->side, DONE)->op = p->op;
	return true;
}

static void answer_read(struct m_ep *ep, const struct m_packet *p)
{
	struct m_packet *answer;

	if (!p->op)
		return;
	answer = mock_send(ep->conn, !ep->side, BYTES);
	answer->op = p->op;
	answer->len = p->len;
	answer->copy = mock_alloc(p->len);
	memcpy(answer->copy, p->at, p->len);
}

static bool read_some(struct m_packet *p)
{
	uint64_t n = chunk(p);

	if (!p->op)
		return true;
	move(p->op, p->done, p->copy + p->done, n, true);
	p->done += n;
	return p->done == p->len;
}

bool mock_progress(struct m_ep *ep)
{
	struct m_packet *p = ep->inbox;
	struct m_op *op;

	if (!p)
		return false;
	if (p->what <= READ && !p->at &&
	    !check_key(ep, p, p->what == WRITE ? FI_REMOTE_WRITE : FI_REMOTE_READ)) {
		if (ep->conn->is_dead)
			drop_inbox(ep);
		mock_conn_kill(ep->conn);
		return true;
	}
	if (p->what == WRITE && !write_some(ep, p))
		return true;
	if (p->what == READ)
		answer_read(ep, p);
	if (p->what == BYTES && !read_some(p))
		return true;
	op = p->what >= DONE ? p->op : NULL;
	ep->inbox = p->next;
	if (!ep->inbox)
		ep->last = &ep->inbox;
	packet_free(p);
	if (op)
		mock_op_end(op, 0);
	return true;
}
