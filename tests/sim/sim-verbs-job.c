/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs over a link, and what must have become of the bytes.
 *
 * What is known of a slot's memory is in .was, for all of it.  A job that has
 * ended well has changed the bytes of its shape, each to what it should be; one
 * that has failed has changed the beginning of them, as long as it says, and of
 * the rest some; nothing has changed anywhere else, or later.
 */

#include <errno.h>
#include <string.h>

#include <weir/crc32c.h>

#include "mem/device-internal.h"
#include "tests/sim/sim-verbs.h"

/* Shapes. */

static void draw_shape(struct run *run, struct shape *shape, uint32_t len,
		       uint32_t most)
{
	uint32_t off = rnd(run, 64), left = len, i;

	shape->n = 1 + rnd(run, most);
	if (shape->n > len)
		shape->n = len;
	for (i = 0; i < shape->n; i++) {
		uint32_t others = shape->n - 1 - i;
		uint32_t some = others ? 1 + rnd(run, left - others) : left;

		shape->piece[i] = (struct piece){ off, some };
		off += some + rnd(run, 256);
		left -= some;
	}
}

/* The @i-th byte of a shape, as an offset; @i goes up by one each time. */
struct walk {
	const struct shape *shape;
	uint32_t n, at;
};

static uint32_t walk_on(struct walk *w)
{
	while (w->at == w->shape->piece[w->n].len) {
		w->n++;
		w->at = 0;
	}
	return w->shape->piece[w->n].off + w->at++;
}

static void gather(const struct ground *g, const struct shape *shape,
		   unsigned char *bytes, uint32_t len)
{
	struct walk w = { shape, 0, 0 };
	uint32_t i;

	for (i = 0; i < len; i++)
		bytes[i] = g->mem[walk_on(&w)];
}

/* Memory. */

static void ground_fill(struct program *p, struct ground *g)
{
	pattern_fill(g->mem, CAPACITY, ++p->stamps, 0);
	memcpy(g->was, g->mem, CAPACITY);
}

static void ground_check(struct slot *s, const struct ground *g,
			 const char *where)
{
	must(!memcmp(g->mem, g->was, CAPACITY),
	     "memory changes by what is asked for, and then", "%s, link %u",
	     where, s->end->link->number);
	run_of(s->end)->trial->verified += CAPACITY;
}

/* @g is where the bytes of @s went, of which @done are told to be there. */
static void ground_take(struct slot *s, struct ground *g,
			const struct shape *shape, uint32_t done)
{
	struct walk w = { shape, 0, 0 };
	uint32_t i, off;

	for (i = 0; i < s->len; i++) {
		off = walk_on(&w);
		must(g->mem[off] == s->bytes[i] ||
		     (i >= done && g->mem[off] == g->was[off]),
		     "what a job has done is there", "byte %u of %u, %u done",
		     i, s->len, done);
		g->was[off] = g->mem[off];
	}
}

bool slot_has_landed(const struct slot *s)
{
	struct walk w = { &s->there_at, 0, 0 };
	uint32_t i;

	for (i = 0; i < s->len; i++)
		if (s->there.mem[walk_on(&w)] != s->bytes[i])
			return false;
	return true;
}

void slots_set_up(struct end *e)
{
	struct program *p = e->link->program;
	uint32_t i;

	for (i = 0; i < SLOTS; i++) {
		struct slot *s = &e->slots[i];

		s->end = e;
		s->number = i;
		s->here.mem = e->mem + i * CAPACITY;
		s->there.mem = e->target.mem + i * CAPACITY;
		ground_fill(p, &s->here);
		ground_fill(p, &s->there);
	}
}

void slots_check(struct end *e)
{
	uint32_t i;

	for (i = 0; i < SLOTS; i++)
		if (!e->slots[i].busy) {
			ground_check(&e->slots[i], &e->slots[i].here, "here");
			ground_check(&e->slots[i], &e->slots[i].there,
				     "at the peer");
		}
}

bool slots_idle(const struct end *e)
{
	uint32_t i;

	for (i = 0; i < SLOTS; i++)
		if (e->slots[i].busy)
			return false;
	return true;
}

/* Places. */

static uint32_t fill_iov(struct iovec *iov, const struct ground *g,
			 const struct shape *shape)
{
	uint32_t i;

	for (i = 0; i < shape->n; i++)
		iov[i] = (struct iovec){ g->mem + shape->piece[i].off,
					 shape->piece[i].len };
	return shape->n;
}

/* NULL if there are no bufs left, or no memory. */
static struct weir_buf *get_bufs(struct end *e, struct weir_mmap *m,
				 const struct ground *g,
				 const struct shape *shape, bool data)
{
	struct weir_buf *first = NULL, *buf;
	uint32_t i;

	for (i = 0; i < shape->n; i++) {
		unsigned char *at = g->mem + shape->piece[i].off;
		uint32_t len = shape->piece[i].len;

		if (weir_inventory_get(&buf, e->inventory, m, at, len, at,
				       data ? len : 0)) {
			weir_buf_put(first);
			return NULL;
		}
		if (!first)
			first = buf;
		else
			must(!weir_buf_chain(first, buf), "a list of bufs",
			     "%u", i);
	}
	return first;
}

static struct weir_operand place_here(struct slot *s, bool data)
{
	struct end *e = s->end;

	if (!one_in(run_of(e), 3))
		s->here_buf = get_bufs(e, e->near, &s->here, &s->here_at, data);
	if (s->here_buf)
		return weir_operand_buf(s->here_buf);
	return weir_operand_iov(NULL, s->here_iov,
				fill_iov(s->here_iov, &s->here, &s->here_at));
}

/* By addresses, of which the last is beyond the end, or a key that is no good.
 * So short that it is one work request, of which nothing is done. */
static struct weir_operand place_wrong(struct slot *s)
{
	struct end *e = s->end;
	struct weir_operand operand;

	if (s->wrong == TOO_FAR) {
		operand = weir_operand_at(e->there,
					  (uintptr_t)e->target.mem +
						  SLOTS * CAPACITY - s->len + 1,
					  s->len);
	} else {
		s->key.rkey ^= 0x5a5a00;
		operand = weir_operand_at(e->there, (uintptr_t)s->there.mem,
					  s->len);
	}
	operand.ctx = &s->key;
	return operand;
}

static struct weir_operand place_there(struct slot *s, bool data)
{
	struct end *e = s->end;
	struct weir_operand operand;

	s->key = (struct weir_remote_key){ .rkey = e->target.rkey };
	if (s->wrong)
		return place_wrong(s);
	if (one_in(run_of(e), 2))
		s->there_buf = get_bufs(e, e->target.ours, &s->there,
					&s->there_at, data);
	if (s->there_buf)
		return weir_operand_buf(s->there_buf);
	operand = weir_operand_iov(e->there, s->there_iov,
				   fill_iov(s->there_iov, &s->there,
					    &s->there_at));
	operand.ctx = &s->key;
	return operand;
}

static void put_bufs(struct slot *s)
{
	weir_buf_put(s->here_buf);
	weir_buf_put(s->there_buf);
	s->here_buf = s->there_buf = NULL;
}

/* Jobs. */

static struct slot *slot_of(struct weir_op *op)
{
	return weir_container_of(op, struct slot, job.op);
}

static bool is_connected(const struct end *e)
{
	return e->conn && e->attached &&
	       weir_conn_state(e->conn) == WEIR_CONN_ESTABLISHED;
}

/*
 * What begins later, or goes through staging, may find no connection then.  If
 * the device has failed, later connections are on a context of their own, where
 * the keys of the old one are no good.
 */
static void check_cause(struct slot *s, int64_t res)
{
	struct end *e = s->end;
	bool faults = run_of(e)->trial->faults;

	s->disturbed |= !is_connected(e);

	must(res != 0, "a job moves bytes, or fails", "%s", "0");
	if (res > 0)
		return;
	must(res != -EACCES || s->wrong || s->revoked != e->target.revoked ||
	     !e->target.is_open || e->link->program->device->dead,
	     "access is denied for a cause", "link %u", e->link->number);
	must(faults || s->disturbed || s->wrong, "a job fails for a cause",
	     "%lld on link %u", (long long)res, e->link->number);
	must(res != -ENOTCONN || s->disturbed, "a connection is there",
	     "link %u", e->link->number);
	must(res != -EAGAIN, "a result that is documented", "%s", "-EAGAIN");
}

static void check_sum(const struct slot *s)
{
	if (s->job.kind == WEIR_JOB_CRC32C ||
	    s->job.kind == WEIR_JOB_COPY_CRC32C)
		must(s->job.crc == weir_crc32c(0, s->bytes, s->len),
		     "a checksum is that of the bytes", "of %u", s->len);
}

/* Done or not: of one that has failed nobody knows. */
static void check_atomic(struct slot *s, int64_t res)
{
	const struct shape *at = &s->there_at;
	const unsigned char *now = s->there.mem + at->piece[0].off;
	unsigned char *was = s->there.was + at->piece[0].off;

	must(res < 0 || weir_job_old(&s->job) == s->old,
	     "an atomic tells what was there", "link %u",
	     s->end->link->number);
	must(!memcmp(now, s->bytes, 8) || (res < 0 && !memcmp(now, was, 8)),
	     "an atomic is done once or not at all", "link %u",
	     s->end->link->number);
	memcpy(was, now, 8);
}

static void on_job(struct weir_op *op, int64_t res)
{
	struct weir_op_detail detail = { .bytes = 0 };
	struct slot *s = slot_of(op);
	struct run *run = run_of(s->end);

	must(s->busy, "one completion for each operation", "link %u",
	     s->end->link->number);
	s->busy = false;
	run->under_way--;
	must(!weir_op_get_detail(op, &detail), "a detail", "%s", "none");
	check_cause(s, res);
	must(res < 0 || (res == s->len && detail.bytes == s->len && !s->wrong),
	     "a job that ends well has done all of it", "%lld of %u",
	     (long long)res, s->len);
	must(detail.bytes <= s->len, "no more bytes than asked for", "%llu",
	     (unsigned long long)detail.bytes);
	if (res > 0)
		check_sum(s);
	if (s->atomic)
		check_atomic(s, res);
	else if (s->has_target && !s->wrong)
		ground_take(s, s->reads ? &s->here : &s->there,
			    s->reads ? &s->here_at : &s->there_at,
			    (uint32_t)detail.bytes);
	ground_check(s, &s->here, "here");
	ground_check(s, &s->there, "at the peer");
	put_bufs(s);
	weir_sim_note(run->sim, "job", (uint64_t)(res & 0xffffffff));
	if (one_in(run, 2))
		slots_act(s->end);
}

static void begin(struct slot *s)
{
	s->number += SLOTS;
	s->atomic = false;
	s->has_target = true;
	s->wrong = RIGHT;
	s->disturbed = !is_connected(s->end);
	s->revoked = s->end->target.revoked;
	weir_job_init(&s->job, on_job);
}

/* A word at the peer: something is added to it, or it is perhaps replaced. */
static void prepare_atomic(struct slot *s)
{
	struct run *run = run_of(s->end);
	uint64_t n = ++s->end->link->program->stamps, to;
	struct weir_operand there;

	begin(s);
	s->atomic = true;
	s->reads = false;
	s->len = 8;
	s->there_at =
		(struct shape){ .piece = { { 8 * rnd(run, CAPACITY / 8), 8 } },
				.n = 1 };
	there = place_there(s, true);
	memcpy(&s->old, s->there.mem + s->there_at.piece[0].off, 8);
	to = s->old + n;
	if (one_in(run, 2)) {
		weir_job_fetch_add(&s->job, there, n);
	} else if (one_in(run, 2)) {
		weir_job_compare_swap(&s->job, there, s->old, to);
	} else {
		to = s->old;
		weir_job_compare_swap(&s->job, there, ~s->old, n);
	}
	memcpy(s->bytes, &to, 8);
}

static void prepare(struct slot *s)
{
	struct run *run = run_of(s->end);
	struct weir_operand here, there;

	begin(s);
	s->reads = one_in(run, 2);
	s->wrong = one_in(run, 200) ? 1 + rnd(run, 2) : RIGHT;
	s->len = one_in(run, 3) || s->wrong ? 1 + rnd(run, 100) :
					      1 + rnd(run, MOST);
	draw_shape(run, &s->here_at, s->len, s->wrong ? 1 : PIECES);
	draw_shape(run, &s->there_at, s->len, PIECES);
	here = place_here(s, !s->reads);
	there = place_there(s, s->reads);
	if (s->reads)
		weir_job_copy(&s->job, here, there);
	else
		weir_job_copy(&s->job, there, here);
	gather(s->reads ? &s->there : &s->here,
	       s->reads ? &s->there_at : &s->here_at, s->bytes, s->len);
}

/* Not what goes through staging. */
static bool can_signal(const struct slot *s)
{
	return s->end->host->srq && s->here_buf && !s->reads && !s->wrong &&
	       (s->job.kind == WEIR_JOB_COPY || s->job.kind == WEIR_JOB_PUSH);
}

/* Others than plain copies go through staging. */
static void choose_kind(struct slot *s)
{
	struct run *run = run_of(s->end);

	switch (rnd(run, 16)) {
	case 0:
		s->job.kind = WEIR_JOB_COPY_CRC32C;
		break;
	case 1:
		if (!s->reads)
			break;
		weir_job_crc32c(&s->job, s->job.src, 0);
		s->has_target = false;
		break;
	case 2:
		s->job.kind = s->reads ? WEIR_JOB_PULL : WEIR_JOB_PUSH;
		break;
	case 3:
		if (s->reads)
			break;
		weir_job_fill(&s->job, s->job.dst, 0x0101010101010101u * 7);
		memset(s->bytes, 7, s->len);
		break;
	default:
		break;
	}
	if (can_signal(s) && one_in(run, 3)) {
		s->job.flags |= WEIR_JOB_SIGNAL;
		s->job.signal = s->number;
	}
	if (one_in(run, 8))
		s->job.flags |= WEIR_JOB_LAZY;
	if (one_in(run, 16))
		s->job.flags |= WEIR_JOB_FENCE;
}

static void check_refusal(const struct slot *s, int err)
{
	const struct end *e = s->end;
	bool faults = run_of(e)->trial->faults;

	must(err == -ENOTCONN ? !is_connected(e) : err == -EAGAIN || faults,
	     "a job is refused for a cause", "%d: %s", err, weir_why());
}

static void start_one(struct slot *s)
{
	struct end *e = s->end;
	int err;

	ground_check(s, &s->here, "here");
	ground_check(s, &s->there, "at the peer");
	ground_fill(e->link->program, s->reads ? &s->there : &s->here);
	if (one_in(run_of(e), 10)) {
		prepare_atomic(s);
	} else {
		prepare(s);
		choose_kind(s);
	}
	err = weir_job_start(e->host->dma, &s->job);
	if (err) {
		check_refusal(s, err);
		put_bufs(s);
		return;
	}
	s->busy = true;
	run_of(e)->under_way++;
}

static void disturb(struct slot *s)
{
	struct run *run = run_of(s->end);
	int err;

	s->disturbed = true;
	if (one_in(run, 2))
		err = weir_op_cancel(&s->job.op);
	else
		err = weir_op_set_deadline(&s->job.op, weir_sim_now(run->sim) +
					   rnd(run, 100000));
	must(!err || err == -EINVAL, "it may be ended at any time", "%d", err);
}

void end_disturb(struct end *e)
{
	uint32_t i;

	for (i = 0; i < SLOTS; i++)
		e->slots[i].disturbed = true;
}

/* On the end's reactor. */
void slots_act(struct end *e)
{
	struct program *p = e->link->program;
	struct slot *s;
	uint32_t n;

	for (n = 1 + rnd(p->run, 4); n && p->run->budget && !p->run->ending; n--) {
		s = &e->slots[rnd(p->run, SLOTS)];
		if (s->busy) {
			if (one_in(p->run, 8))
				disturb(s);
			continue;
		}
		if (!e->target.is_open || !e->attached)
			return;
		p->run->budget--;
		start_one(s);
	}
	if (one_in(p->run, 4))
		weir_dma_flush(e->host->dma);
}
