/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages over a link, and signals.  Each has the number of its connection's
 * messages so far in it: they come in order, each once, and none is left out
 * but what was cancelled.  When a signal comes the bytes of its job have
 * landed.
 */

#include <errno.h>
#include <string.h>

#include <weir/message.h>
#include <weir/srq.h>

#include "tests/sim/sim-verbs.h"

/* What a message begins with. */
struct header {
	uint64_t seq;
	uint32_t len;
	uint8_t link, server;
	uint8_t zero[2];
};

void peers_set_up(struct host *h)
{
	struct weir_srq_opts opts = { .size = sizeof(opts) };
	struct run *run = h->program->run;
	int err;

	opts.recvs = 4 + rnd(run, 12);
	opts.buf_size = SAYING;
	err = weir_srq_create(&h->srq, h->r, &opts);
	must(!err, "a receive queue can be made", "%d: %s", err, weir_why());
}

void peers_take_down(struct host *h)
{
	int err = weir_srq_destroy(h->srq);

	must(!err, "a receive queue that nobody uses can go", "%d: %s", err,
	     weir_why());
}

/* Receiving. */

static void heard_signal(struct end *from, const struct weir_message *m)
{
	struct slot *s = &from->slots[m->imm % SLOTS];

	if (s->number != m->imm)	/* It has ended, and is used again. */
		return;
	must(s->job.flags & WEIR_JOB_SIGNAL && m->len <= s->len,
	     "a signal is of a job", "%u", m->imm);
	must(slot_has_landed(s), "bytes have landed before their signal",
	     "link %u", from->link->number);
}

static void heard(struct end *e, const struct weir_message *m)
{
	struct end *from = peer_of(e);
	struct header head;

	must(m->len >= sizeof(head) && m->buf, "a message arrives whole",
	     "%llu bytes", (unsigned long long)m->len);
	memcpy(&head, m->data, sizeof(head));
	must(head.link == e->link->number && head.server == from->is_server &&
	     head.len == m->len, "a message is the peer's", "%u bytes",
	     head.len);
	must(pattern_is(run_of(e), (const char *)m->data + sizeof(head),
			m->len - sizeof(head), head.seq, 0),
	     "a message has the bytes that were sent", "link %u", head.link);
	must(head.seq >= e->n_heard, "messages come in order, and once",
	     "%llu after %llu", (unsigned long long)head.seq,
	     (unsigned long long)e->n_heard);
	e->n_missing += head.seq - e->n_heard;
	must(e->n_missing <= from->n_unsent, "no message is left out",
	     "%llu of %llu", (unsigned long long)e->n_missing,
	     (unsigned long long)head.seq);
	e->n_heard = head.seq + 1;
}

/* Some bufs are kept for a while, which holds up who sends. */
static void keep(struct end *e, struct weir_buf *buf)
{
	struct weir_buf **at = &e->kept[rnd(run_of(e), KEPT)];

	if (!one_in(run_of(e), 4) || run_of(e)->ending) {
		weir_buf_put(buf);
		return;
	}
	weir_buf_put(*at);
	*at = buf;
}

void peers_put_kept(struct end *e)
{
	uint32_t i;

	for (i = 0; i < KEPT; i++) {
		weir_buf_put(e->kept[i]);
		e->kept[i] = NULL;
	}
}

static void on_message(struct weir_conn *c, const struct weir_message *m,
		       void *arg)
{
	struct end *e = arg;

	must(c == e->conn && e->up, "a message comes while it is connected",
	     "link %u", e->link->number);
	weir_sim_note(run_of(e)->sim, "message", m->flags);
	if (m->flags & WEIR_MESSAGE_SIGNAL)
		heard_signal(peer_of(e), m);
	else
		heard(e, m);
	keep(e, m->buf);
}

void peers_listen(struct end *e)
{
	int err = weir_conn_set_message_fn(e->conn, on_message, e);

	must(!err, "messages can be listened to", "%d: %s", err, weir_why());
}

/* A new connection begins with nothing said. */
void peers_begin(struct end *e)
{
	e->n_said = e->n_heard = 0;
	e->n_missing = 0;
	e->n_unsent = 0;
	e->said_too_much = false;
}

/* Sending. */

static void on_said(struct task *task, int64_t res)
{
	struct saying *s = weir_container_of(task, struct saying, task);
	struct run *run = task->run;

	must(res == s->len || res < 0, "a message is sent whole", "%lld of %u",
	     (long long)res, s->len);
	must(res > 0 || run->trial->faults || s->too_large ||
	     task_was_ended(task, res) || !s->end->up || !s->end->conn ||
	     weir_conn_state(s->end->conn) != WEIR_CONN_ESTABLISHED,
	     "a message fails for a cause", "%lld", (long long)res);
	weir_sim_note(run->sim, "said", (uint32_t)res);
	weir_buf_put(s->buf);
	s->buf = NULL;
}

static uint32_t max_inline(const struct end *e)
{
	struct weir_conn_info info = { .size = sizeof(info) };

	must(!weir_conn_info(e->conn, &info), "there is something to know",
	     "link %u", e->link->number);
	return info.max_inline;
}

static void write_down(struct end *e, struct saying *s)
{
	struct header head = { .seq = e->n_said, .len = s->len,
			       .link = e->link->number,
			       .server = e->is_server };

	memcpy(s->bytes, &head, sizeof(head));
	pattern_fill(s->bytes + sizeof(head), s->len - sizeof(head), head.seq,
		     0);
}

/* false: there are no bufs. */
static bool wrap(struct end *e, struct saying *s, struct weir_message *m)
{
	if (s->len <= max_inline(e)) {
		m->data = s->bytes;
		m->len = s->len;
		return true;
	}
	if (weir_inventory_get(&s->buf, e->inventory, e->near, s->bytes,
			       s->len, s->bytes, s->len))
		return false;
	m->buf = s->buf;
	return true;
}

static void say(struct end *e, struct saying *s)
{
	struct weir_message m = { .size = sizeof(m) };
	struct run *run = run_of(e);
	int err;

	s->end = e;
	s->too_large = one_in(run, 200);
	e->said_too_much |= s->too_large;
	s->len = s->too_large ? SAYING + 1 : (uint32_t)sizeof(struct header) +
		 rnd(run, one_in(run, 2) ? 32 : SAYING - 32);
	s->bytes = e->mem + SLOTS * CAPACITY +
		   (size_t)(s - e->sayings) * 2 * SAYING;
	write_down(e, s);
	if (!wrap(e, s, &m))
		return;
	task_init(&s->task, run, "message", on_said);
	s->task.may_be_flushed = true;
	err = weir_message_send(e->conn, &s->task.op, &m);
	must(!err || err == -ENOTCONN || err == -EAGAIN || run->trial->faults,
	     "a message is refused for a cause", "%d: %s", err, weir_why());
	if (task_began(&s->task, err)) {
		e->n_said++;
		return;
	}
	weir_buf_put(s->buf);
	s->buf = NULL;
}

/* On the end's reactor. */
void peers_act(struct end *e)
{
	struct run *run = run_of(e);
	struct saying *s = &e->sayings[rnd(run, SAYINGS)];

	if (run->ending || !e->up || !e->conn)
		return;
	if (one_in(run, 3))
		peers_put_kept(e);
	if (!s->task.is_under_way) {
		say(e, s);
	} else if (one_in(run, 4)) {
		e->n_unsent++;
		task_cancel(&s->task);
	}
}
