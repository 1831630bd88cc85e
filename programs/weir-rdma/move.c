/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The blocks of a file.  They move through a pipeline at each end:
 *
 *	         client                             server
 *	put      file -> slot, its CRC      ==>     slot -> buf, CRC, -> file
 *	get      slot's CRC, -> file        <==     file -> buf, CRC, -> slot
 *
 * The slots are the client's memory, and the arrow in the middle is the
 * server's RDMA read or write.  The sender of the file says BLOCK when a slot
 * is full, with its CRC; the receiver says TAKEN when it is empty again, and
 * that is the window.  Blocks come in order: the CRC of the file grows with
 * them.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <string.h>

#include <weir/chain.h>
#include <weir/crc32c.h>

#include "weir-rdma.h"

struct unit {
	struct weir_job jobs[3];
	struct weir_buf *far;	/* The slot, at the peer; of a server. */
	uint32_t slot;
	uint32_t len, crc;
	uint64_t off;
};

static void no_fn(struct weir_op *op, int64_t res)
{
	(void)op, (void)res;
}

static uint32_t steps_of(const struct transfer *t)
{
	return t->serving ? 3 : 2;
}

static int build(struct weir_slot *slot, void *arg)
{
	struct unit *u = weir_slot_data(slot);
	struct transfer *t = arg;
	int step = WEIR_CHAIN_FIRST;

	for (uint32_t i = 0; i < steps_of(t) && (!i || step >= 0); i++) {
		weir_job_init(&u->jobs[i], no_fn);
		step = weir_chain_add_job(weir_slot_chain(slot), step,
					  t->app->dma, &u->jobs[i]);
	}
	return step < 0 ? step : 0;
}

/* The client's: everything lies in its own memory. */
static void set_near(struct transfer *t, struct unit *u)
{
	struct weir_operand mem =
		weir_operand_mem(t->staging.base + u->slot * t->block, u->len);
	struct weir_operand disk = weir_operand_at(t->disk, u->off, u->len);

	weir_job_crc32c(&u->jobs[!t->file.sink], mem, 0);
	if (t->file.sink)
		weir_job_copy(&u->jobs[1], disk, mem);
	else
		weir_job_copy(&u->jobs[0], mem, disk);
}

/* The server's: by way of a buf. */
static int set_far(struct transfer *t, struct unit *u, struct weir_buf *buf)
{
	struct staging *s = &t->staging;
	struct weir_operand disk = weir_operand_at(t->disk, u->off, u->len);
	struct weir_operand near = weir_operand_buf(buf);
	char *at = s->their_base + u->slot * t->block;
	int err = weir_inventory_get(&u->far, s->inventory, s->theirs, at,
				     u->len, at, t->file.sink ? u->len : 0);

	if (err)
		return err;
	weir_job_crc32c(&u->jobs[1], near, 0);
	weir_job_copy(&u->jobs[0], near,
		      t->file.sink ? weir_operand_buf(u->far) : disk);
	weir_job_copy(&u->jobs[2],
		      t->file.sink ? disk : weir_operand_buf(u->far), near);
	return 0;
}

/* Cut the next block off the file, if there is a slot for it. */
static int cut(struct transfer *t, struct unit *u)
{
	uint64_t left = t->file.size - t->off;

	if (!left)
		return WEIR_PIPELINE_END;
	if (!t->n_free)
		return -EAGAIN;
	u->slot = t->free[--t->n_free];
	u->off = t->off;
	u->len = (uint32_t)(left < t->block ? left : t->block);
	t->off += u->len;
	return WEIR_PIPELINE_UNIT;
}

/* The next block that the peer has said is there. */
static int pick(struct transfer *t, struct unit *u)
{
	const struct note *n = &t->queue[t->taken % SLOTS_MAX];

	if (t->taken == t->queued)
		return t->ended ? WEIR_PIPELINE_END : -EAGAIN;
	t->taken++;
	u->slot = n->slot;
	u->off = n->off;
	u->len = n->len;
	u->crc = n->crc;
	return WEIR_PIPELINE_UNIT;
}

static int next(struct weir_slot *slot, void *arg)
{
	struct unit *u = weir_slot_data(slot);
	struct transfer *t = arg;
	int res = t->file.sink ? pick(t, u) : cut(t, u);
	int err = 0;

	if (res != WEIR_PIPELINE_UNIT)
		return res;
	if (t->serving)
		err = set_far(t, u, weir_slot_buf(slot));
	else
		set_near(t, u);
	return err ? err : res;
}

/* Which side a failure was on. */
static enum fail which(const struct transfer *t, int step)
{
	if (!t->file.sink)
		return step == 0 ? FAIL_READ : FAIL_PEER;
	return step == (int)steps_of(t) - 1 ? FAIL_WRITE : FAIL_PEER;
}

static uint32_t crc_of(const struct transfer *t, const struct unit *u)
{
	return u->jobs[t->serving || !t->file.sink].crc;
}

static int hand_over(struct transfer *t, struct unit *u)
{
	struct note n = { .type = NOTE_BLOCK, .slot = u->slot, .off = u->off,
			  .len = u->len, .crc = crc_of(t, u) };

	t->out[u->slot] = true;
	transfer_say(t, &n);
	return 0;
}

static int give_back(struct transfer *t, struct unit *u)
{
	struct note n = { .type = NOTE_TAKEN, .slot = u->slot };

	if (crc_of(t, u) != u->crc) {
		transfer_fail(t, FAIL_CHECKSUM, -EBADMSG);
		return -EBADMSG;
	}
	t->out[u->slot] = false;
	transfer_say(t, &n);
	return 0;
}

static int done(struct weir_slot *slot, int64_t res, void *arg)
{
	struct unit *u = weir_slot_data(slot);
	struct transfer *t = arg;

	if (u->far)
		weir_buf_put(u->far);
	u->far = NULL;
	if (res < 0) {
		transfer_fail(t, which(t, weir_chain_failed_step(
					  weir_slot_chain(slot))), (int)res);
		return (int)res;
	}
	t->moved += u->len;
	t->crc = weir_crc32c_combine(t->crc, crc_of(t, u), u->len);
	return t->file.sink ? give_back(t, u) : hand_over(t, u);
}

/* All of it has gone through here. */
static void all_moved(struct transfer *t)
{
	struct note n = { .type = NOTE_END, .off = t->file.size,
			  .crc = t->crc };

	if (!t->file.sink)
		transfer_say(t, &n);
	else if (t->moved != t->file.size || t->crc != t->peer_crc)
		transfer_fail(t, FAIL_CHECKSUM, -EBADMSG);
	else
		transfer_finish(t);
}

static void on_moved(struct weir_op *op, int64_t res)
{
	struct transfer *t = weir_container_of(op, struct transfer, move_op);

	t->moving = false;
	if (res < 0)
		transfer_fail(t, FAIL_MEMORY, (int)res);
	else if (t->state != STATE_DONE)
		all_moved(t);
	transfer_idle(t);
}

int move_begin(struct transfer *t)
{
	struct weir_pipeline_opts opts = {
		.size = sizeof(opts),
		.build = build,
		.next = next,
		.done = done,
		.arg = t,
		.depth = t->serving ? t->bufs : t->slots,
		.flags = WEIR_PIPELINE_ORDERED,
		.data_size = sizeof(struct unit),
	};
	int err;

	opts.pool = t->staging.pool;
	for (uint32_t i = 0; i < t->slots && !t->file.sink; i++)
		t->free[t->n_free++] = i;
	t->state = STATE_MOVING;
	err = weir_pipeline_create(&t->pipeline, t->app->reactor, &opts);
	weir_op_init(&t->move_op, on_moved);
	if (!err)
		err = weir_pipeline_start(t->pipeline, &t->move_op);
	if (err)
		return err;
	t->moving = true;
	transfer_busy(t);
	return 0;
}

void move_cancel(struct transfer *t)
{
	if (t->moving)
		weir_op_cancel(&t->move_op);
}

/* Notes about blocks: a peer may say what it likes. */

static int note_block(struct transfer *t, const struct note *n)
{
	if (n->slot >= t->slots || t->out[n->slot] || n->off != t->off ||
	    !n->len || n->len > t->block || n->len > t->file.size - t->off ||
	    t->ended)
		return -EPROTO;
	t->out[n->slot] = true;
	t->off += n->len;
	t->queue[t->queued++ % SLOTS_MAX] = *n;
	return 0;
}

static int note_taken(struct transfer *t, const struct note *n)
{
	if (n->slot >= t->slots || !t->out[n->slot])
		return -EPROTO;
	t->out[n->slot] = false;
	t->free[t->n_free++] = n->slot;
	return 0;
}

static int note_end(struct transfer *t, const struct note *n)
{
	if (t->ended || n->off != t->off || t->off != t->file.size)
		return -EPROTO;
	t->ended = true;
	t->peer_crc = n->crc;
	return 0;
}

/* The peer has the file, under its name. */
static int note_done(struct transfer *t, const struct note *n)
{
	if (!t->pipeline || t->moving || t->n_free != t->slots)
		return -EPROTO;
	if (n->crc != t->crc)
		transfer_fail(t, FAIL_CHECKSUM, -EBADMSG);
	else
		transfer_done(t);
	return 0;
}

static int to_sink(struct transfer *t, const struct note *n)
{
	if (!t->sized || n->type == NOTE_TAKEN || n->type == NOTE_DONE)
		return -EPROTO;
	return n->type == NOTE_BLOCK ? note_block(t, n) : note_end(t, n);
}

static int to_source(struct transfer *t, const struct note *n)
{
	if (n->type == NOTE_BLOCK || n->type == NOTE_END)
		return -EPROTO;
	return n->type == NOTE_TAKEN ? note_taken(t, n) : note_done(t, n);
}

void move_note(struct transfer *t, const struct note *n)
{
	int err = t->file.sink ? to_sink(t, n) : to_source(t, n);

	if (err)
		transfer_fail(t, FAIL_PROTOCOL, err);
	else if (t->pipeline)
		weir_pipeline_kick(t->pipeline);
}
