/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A program that copies a file like weir-cp: through a pipeline into a
 * temporary file, which is synced and renamed when it is complete; then the
 * directory is synced.  A failed copy leaves nothing behind.
 *
 * weir-cp makes most of these calls on workers, which a simulated world lacks.
 * The ring is the same.
 */

#include "sim-cp.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <weir/crc32c.h>
#include <weir/domain.h>
#include <weir/file.h>

#define TRIES 100	/* To remove the temporary file. */

/* The ring. */

struct block {
	struct weir_job read, sum, write;
	uint64_t off, len;
};

static void no_fn(struct weir_op *op, int64_t res)
{
	(void)op, (void)res;
}

static int add(struct weir_slot *slot, int after, struct copier *c,
	       struct weir_job *job)
{
	weir_job_init(job, no_fn);
	return weir_chain_add_job(weir_slot_chain(slot), after, c->host->dma,
				  job);
}

static int build(struct weir_slot *slot, void *arg)
{
	struct block *b = weir_slot_data(slot);
	int step = add(slot, WEIR_CHAIN_FIRST, arg, &b->read);

	if (step >= 0)
		step = add(slot, step, arg, &b->sum);
	if (step >= 0)
		step = add(slot, step, arg, &b->write);
	return step < 0 ? step : 0;
}

static int next(struct weir_slot *slot, void *arg)
{
	struct block *b = weir_slot_data(slot);
	struct weir_buf *buf = weir_slot_buf(slot);
	struct copier *c = arg;

	if (c->off == c->st.stx_size)
		return WEIR_PIPELINE_END;
	b->off = c->off;
	b->len = c->host->block;
	if (b->len > c->st.stx_size - b->off)
		b->len = c->st.stx_size - b->off;
	c->off += b->len;
	weir_job_copy(&b->read, weir_operand_buf(buf),
		      weir_operand_at(c->from_domain, b->off, b->len));
	weir_job_crc32c(&b->sum, weir_operand_buf(buf), 0);
	weir_job_copy(&b->write, weir_operand_at(c->to_domain, b->off, b->len),
		      weir_operand_buf(buf));
	return WEIR_PIPELINE_UNIT;
}

/* CRCs are linear, so the blocks may end in any order. */
static int done(struct weir_slot *slot, int64_t res, void *arg)
{
	struct block *b = weir_slot_data(slot);
	struct copier *c = arg;

	if (res < 0)
		return (int)res;
	c->crc ^= weir_crc32c_combine(b->sum.crc, 0, c->st.stx_size - b->off -
				      b->len);
	return 0;
}

static int start_move(struct copier *c)
{
	int err = 0;

	if (!c->from_domain)
		err = weir_domain_file_create(&c->from_domain, c->source, NULL);
	if (!err && !c->to_domain)
		err = weir_domain_file_create(&c->to_domain, c->temp, NULL);
	if (err)
		return err;
	c->off = c->crc = 0;
	return weir_pipeline_start(c->pipeline, &c->task.op);
}

void copier_set_up(struct copier *c)
{
	struct run *run = c->host->program->run;
	struct weir_pipeline_opts opts = {
		.size = sizeof(opts), .build = build, .next = next,
		.done = done, .arg = c, .pool = c->host->pool, .steps = 3,
		.data_size = sizeof(struct block),
	};
	int err;

	opts.depth = 1 + rnd(run, 6);
	err = weir_pipeline_create(&c->pipeline, c->host->r, &opts);
	must(!err, "a pipeline can be made", "%d: %s", err, weir_why());
	c->dir = c->source = c->temp = -1;
}

/* The stages. */

static void stage_ended(struct task *task, int64_t res);

static int start_stage(struct copier *c)
{
	struct weir_reactor *r = c->host->r;
	struct weir_op *op = &c->task.op;
	struct run *run = c->task.run;

	switch (c->stage) {
	case OPEN_DIR:
		return weir_open(r, op, AT_FDCWD, c->host->out,
				 O_RDONLY | O_DIRECTORY, 0);
	case CLEAN:	/* What a crash has left. */
		c->may_have_temp = true;
		/* Fall through. */
	case DROP:
		return weir_unlink(r, op, c->dir, c->temp_name, 0);
	case OPEN_SOURCE:
		return weir_open(r, op, AT_FDCWD, c->host->sources[c->from],
				 O_RDONLY, 0);
	case OPEN_TEMP:
		return weir_open(r, op, c->dir, c->temp_name,
				 O_RDWR | O_CREAT | O_EXCL |
				 (one_in(run, 4) ? O_DIRECT : 0), 0600);
	case LOOK:
		return weir_statx(r, op, c->source, "", AT_EMPTY_PATH,
				  STATX_SIZE, &c->st);
	case MOVE:
		return start_move(c);
	case SYNC:
		return weir_fsync(r, op, c->temp, 0);
	case RENAME:
		c->allowed |= 1u << c->from;
		return weir_rename(r, op, c->dir, c->temp_name, c->dir, c->name,
				   0);
	case SYNC_DIR:
		return weir_fsync(r, op, c->dir, 0);
	case CLOSE_TEMP:
		return weir_close(r, op, c->temp);
	case CLOSE_SOURCE:
		return weir_close(r, op, c->source);
	default:
		return weir_close(r, op, c->dir);
	}
}

static bool has_stage(const struct copier *c)
{
	switch (c->stage) {
	case DROP:
		return c->err && c->may_have_temp && !c->cut;
	case CLOSE_TEMP:
		return c->temp >= 0;
	case CLOSE_SOURCE:
		return c->source >= 0;
	case CLOSE_DIR:
		return c->dir >= 0;
	default:
		return !c->err;
	}
}

static void drop_domains(struct copier *c)
{
	int err = weir_domain_destroy(c->from_domain);

	if (!err)
		err = weir_domain_destroy(c->to_domain);
	must(!err, "a domain is unused when the pipeline has ended",
	     "%d: %s", err, weir_why());
	c->from_domain = c->to_domain = NULL;
}

/* One request.  Some have a deadline, so that a stuck disk does not hold up the
 * copy for ever. */
static void begin_stage(struct copier *c)
{
	static const char *const names[STAGES] = {
		"open", "unlink", "open", "open", "statx", "pipeline", "fsync",
		"rename", "fsync", "unlink", "close", "close", "close",
	};
	struct run *run = c->task.run;
	int err;

	task_init(&c->task, run, names[c->stage], stage_ended);
	c->task.op.data = c;
	err = start_stage(c);
	c->is_waiting = err == -EAGAIN;
	if (c->is_waiting)
		return;
	if (!task_began(&c->task, err)) {
		stage_ended(&c->task, err);
	} else if (c->stage < CLOSE_TEMP && one_in(run, 3)) {
		task_deadline(&c->task, rnd(run, 1000000000));
		c->may_fail = true;
	}
}

static void go_on(struct copier *c)
{
	while (c->stage < STAGES && !has_stage(c))
		c->stage++;
	if (c->stage < STAGES) {
		begin_stage(c);
		return;
	}
	c->is_busy = false;
	copier_ended(c);
}

/* Whether a failure of the stage is a failure of the copy. */
static bool counts(const struct copier *c, int64_t res)
{
	return res < 0 && c->stage < DROP &&
	       !(c->stage == CLEAN && res == -ENOENT);
}

/* If the open succeeded there is a descriptor, even after a cancel. */
static void note_result(struct copier *c, int64_t res)
{
	switch (c->stage) {
	case OPEN_DIR:
		c->dir = (int)res;
		break;
	case OPEN_SOURCE:
		c->source = (int)res;
		break;
	case OPEN_TEMP:
		c->temp = (int)res;
		break;
	case CLOSE_TEMP:
		c->temp = -1;
		break;
	case CLOSE_SOURCE:
		c->source = -1;
		break;
	case CLOSE_DIR:
		c->dir = -1;
		break;
	default:
		break;
	}
}

static void stage_ended(struct task *task, int64_t res)
{
	struct copier *c = task->op.data;

	note_result(c, res);
	if (counts(c, res) && !c->err)
		c->err = (int)res;
	must(c->stage != MOVE || c->err ||
	     c->crc == c->host->crcs[c->from],
	     "what went through the pipeline was the source", "copier %u",
	     c->number);
	/* The rename may have been done, although it returned an error. */
	if (c->stage == DROP && res < 0 && res != -ENOENT && !c->cut &&
	    ++c->tries < TRIES) {
		begin_stage(c);
		return;
	}
	if (c->stage == MOVE)
		drop_domains(c);
	c->stage++;
	go_on(c);
}

void copier_start(struct copier *c, uint32_t from)
{
	c->is_busy = true;
	c->from = from;
	c->stage = OPEN_DIR;
	c->err = 0;
	c->tries = 0;
	c->cut = c->may_have_temp = false;
	c->task.run = c->host->program->run;
	go_on(c);
}

void copier_go_on(struct copier *c)
{
	if (c->is_waiting)
		begin_stage(c);
}
