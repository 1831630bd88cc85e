/* SPDX-License-Identifier: BSD-3-Clause */

/* The data of pipelines in their scenario, and checks that they arrive. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include <weir/domain.h>
#include <weir/sim/file.h>

#include "sim-pipelines.h"

#define MARK 0xa5

/* Ends of streams. */

static void put(struct line *l, struct end *e, uint64_t off, const void *buf,
		size_t len)
{
	if (!e->is_file)
		memcpy(e->bytes + off, buf, len);
	else
		must(weir_sim_file_write(l->program->run->sim, e->path, buf,
					 len, off) == (int64_t)len,
		     "a test can write a file", "%s", e->path);
}

static void get(struct line *l, struct end *e, uint64_t off, void *buf,
		size_t len)
{
	if (!e->is_file)
		memcpy(buf, e->bytes + off, len);
	else
		must(weir_sim_file_read(l->program->run->sim, e->path, buf, len,
					off) == (int64_t)len,
		     "a file keeps its size", "%s", e->path);
}

static struct weir_operand location(struct end *e, uint64_t off, size_t len)
{
	return e->is_file ? weir_operand_at(e->domain, off, len) :
			    weir_operand_mem(e->bytes + off, len);
}

static void end_set_up(struct line *l, struct end *e, const char *what)
{
	struct run *run = l->program->run;
	char nothing = 0;
	int err;

	e->is_file = one_in(run, 2);
	if (!e->is_file)
		return;
	snprintf(e->path, sizeof(e->path), "%s%u", what, l->number);
	/* The length is final. */
	put(l, e, UNITS * BLOCK - 1, &nothing, 1);
	e->fd = weir_sim_file_open(run->sim, e->path, O_RDWR |
				   (one_in(run, 4) ? O_DIRECT : 0), 0);
	must(e->fd >= 0, "a file can be opened", "%s: %d", e->path, e->fd);
	err = weir_domain_file_create(&e->domain, e->fd, NULL);
	must(!err, "a domain can be made", "%d: %s", err, weir_why());
}

static void end_take_down(struct end *e)
{
	int err = weir_domain_destroy(e->domain);

	must(!err, "the files are unused", "%d: %s", err, weir_why());
}

/* Steps. */

static int64_t on_call(struct weir_chain *chain, uint32_t step, void *arg)
{
	struct slot_data *data = arg;

	(void)chain, (void)step;
	return data->line->units[data->n].failing ? -EDOM : 0;
}

static int on_op(struct weir_chain *chain, uint32_t step, struct weir_op *op,
		 void *arg)
{
	struct slot_data *data = arg;
	struct line *l = data->line;
	uint64_t ns = l->units[data->n].sleep_ns;

	(void)chain, (void)step;
	if (!ns)
		return 1;
	return weir_sleep_until(l->core->r, op,
				weir_sim_now(l->program->run->sim) + ns);
}

static void no_fn(struct weir_op *op, int64_t res)
{
	(void)op, (void)res;
}

/* A unit: in, perhaps a call and an operation, and out. */
static int build(struct weir_slot *slot, void *arg)
{
	struct line *l = arg;
	struct run *run = l->program->run;
	struct slot_data *data = weir_slot_data(slot);
	struct weir_chain *chain = weir_slot_chain(slot);
	struct core *other = &l->program->cores[rnd(run, run->n_reactors)];
	int step = WEIR_CHAIN_FIRST;

	data->line = l;
	weir_job_init(&data->in, no_fn);
	weir_job_init(&data->out, no_fn);
	if (l->has_pool)
		step = weir_chain_add_job(chain, step, one_in(run, 4) ?
					  other->dma : l->core->dma, &data->in);
	if (one_in(run, 2))
		step = weir_chain_add_op(chain, step, on_op, data);
	step = weir_chain_add_call(chain, step, on_call, data);
	step = weir_chain_add_job(chain, step, one_in(run, 4) ? other->dma :
				  l->core->dma, &data->out);
	must(step >= 0, "a step can be added", "%d", step);
	data->steps = (uint32_t)step + 1;
	return 0;
}

/* Units. */

static void set_jobs(struct line *l, struct weir_slot *slot)
{
	struct slot_data *data = weir_slot_data(slot);
	uint64_t off = (uint64_t)data->n * BLOCK;
	size_t len = l->units[data->n].len;
	struct weir_operand src = location(&l->src, off, len);
	struct weir_operand dst = location(&l->dst, off, len);

	if (!l->has_pool) {
		weir_job_copy(&data->out, dst, src);
		return;
	}
	weir_job_copy(&data->in, weir_operand_buf(weir_slot_buf(slot)), src);
	weir_job_copy(&data->out, dst, weir_operand_buf(weir_slot_buf(slot)));
}

static void check_next(struct line *l, struct weir_slot *slot)
{
	must(!l->in_fn, "one function at a time", "line %u", l->number);
	must(!l->paused && !l->ended && !l->cancelled && !l->idle &&
	     !l->failure.where && l->task.is_under_way,
	     "next() is called only if a unit may begin", "line %u", l->number);
	must(weir_slot_unit(slot) == l->brought, "units are numbered",
	     "%llu, not %u", (unsigned long long)weir_slot_unit(slot),
	     l->brought);
	must(under_way(l) < l->window, "never more than the window in flight",
	     "%u of %u", under_way(l), l->window);
	must(!weir_slot_buf(slot) == !l->has_pool, "a slot has its buf",
	     "line %u", l->number);
	must(!l->has_pool || !weir_buf_data_len(weir_slot_buf(slot)),
	     "a buf is empty at first", "line %u", l->number);
}

static void fails_at_next(struct line *l, int64_t err)
{
	if (l->cancelled)
		return;
	l->failure.where = WEIR_PIPELINE_AT_NEXT;
	l->failure.unit = l->brought;
	l->failure.res = err;
}

static int bring(struct line *l, struct weir_slot *slot)
{
	struct slot_data *data = weir_slot_data(slot);
	struct run *run = l->program->run;

	if (l->brought == l->total) {
		l->ended = true;
		return WEIR_PIPELINE_END;
	}
	if (!run->ending && one_in(run, 8)) {
		l->idle = true;
		return -EAGAIN;
	}
	if (one_in(run, 200)) {
		bool is_error = one_in(run, 2);

		fails_at_next(l, is_error ? -ENOBUFS : -EINVAL);
		return is_error ? -ENOBUFS : 7;
	}
	data->n = l->brought++;
	l->units[data->n].state = UNIT_UNDER_WAY;
	set_jobs(l, slot);
	weir_slot_set_bytes(slot, l->units[data->n].len);
	return WEIR_PIPELINE_UNIT;
}

static int on_next(struct weir_slot *slot, void *arg)
{
	struct line *l = arg;
	int ret;

	check_next(l, slot);
	l->next.is_set = false;
	l->in_fn = true;
	if (!l->program->run->ending && one_in(l->program->run, 16))
		meddle(l);
	ret = bring(l, slot);
	l->in_fn = false;
	return ret;
}

static void check_bytes(struct line *l, uint32_t n)
{
	size_t len = l->units[n].len;
	uint64_t off = (uint64_t)n * BLOCK;
	char buf[BLOCK];

	get(l, &l->dst, off, buf, len);
	must(pattern_is(l->program->run, buf, len, l->stamp, off),
	     "what is done is there", "unit %u of %u: %zu bytes", n, l->number,
	     len);
}

/* Without a cause a failure would be the library's. */
static bool may_fail(const struct line *l, const struct unit *u, int64_t res)
{
	if (u->failing && res == -EDOM)
		return true;
	if (l->cancelled || l->failure.where || l->task.has_deadline)
		return true;
	return l->program->run->trial->faults != 0;
}

static void check_done(struct line *l, struct weir_slot *slot, int64_t res)
{
	struct slot_data *data = weir_slot_data(slot);
	struct unit *u = &l->units[data->n];

	must(!l->in_fn, "one function at a time", "line %u", l->number);
	must(weir_slot_unit(slot) == data->n && data->n < l->brought &&
	     u->state == UNIT_UNDER_WAY,
	     "each unit is done once", "unit %u of %u", data->n, l->number);
	must(!l->ordered || data->n == l->done + l->failed,
	     "units are done in order", "unit %u of %u", data->n, l->number);
	must(!weir_slot_buf(slot) == !l->has_pool, "a slot has its buf",
	     "line %u", l->number);
	must(res == data->steps || (res < 0 && may_fail(l, u, res)),
	     "a unit ends with a cause", "unit %u: %lld", data->n,
	     (long long)res);
	must(res != -EXDEV && res != -EOPNOTSUPP,
	     "what the kernel cannot copy the library does",
	     "unit %u: %lld", data->n, (long long)res);
	if (res >= 0)
		check_bytes(l, data->n);
}

/* The return value of done().  The first error must become the pipeline's. */
static int answer(struct line *l, uint32_t n, int64_t res)
{
	struct run *run = l->program->run;
	int ret = 0;

	if (res < 0 && one_in(run, 2))
		ret = (int)res;
	else if (one_in(run, 100))
		ret = -EPROTO;
	if (!ret || l->failure.where || l->cancelled)
		return ret;
	l->failure.where = res < 0 ? WEIR_PIPELINE_AT_STEP :
				     WEIR_PIPELINE_AT_DONE;
	l->failure.unit = n;
	l->failure.res = ret;
	return ret;
}

static int on_done(struct weir_slot *slot, int64_t res, void *arg)
{
	struct line *l = arg;
	struct slot_data *data = weir_slot_data(slot);
	struct unit *u = &l->units[data->n];
	int ret;

	check_done(l, slot, res);
	l->in_fn = true;
	if (!l->program->run->ending && one_in(l->program->run, 16))
		meddle(l);
	l->in_fn = false;
	u->state = UNIT_DONE;
	l->cut |= res < 0 && l->cancelled;
	l->done += res >= 0;
	l->failed += res < 0;
	l->bytes += res >= 0 ? u->len : 0;
	ret = answer(l, data->n, res);
	weir_sim_note(l->program->run->sim, "done", data->n);
	return ret;
}

/* Streams. */

void stream_set_up(struct line *l, struct weir_pipeline_opts *opts)
{
	opts->build = build;
	opts->next = on_next;
	opts->done = on_done;
	opts->arg = l;
	opts->data_size = sizeof(struct slot_data);
	end_set_up(l, &l->src, "src/");
	end_set_up(l, &l->dst, "dst/");
}

void stream_take_down(struct line *l)
{
	end_take_down(&l->src);
	end_take_down(&l->dst);
}

void stream_prepare(struct line *l)
{
	struct run *run = l->program->run;
	char buf[BLOCK];

	l->stamp = ++l->program->stamps;
	l->total = rnd(run, UNITS + 1);
	for (uint32_t i = 0; i < l->total; i++) {
		struct unit *u = &l->units[i];
		uint64_t off = (uint64_t)i * BLOCK;

		u->state = UNIT_AHEAD;
		u->len = 1 + rnd(run, one_in(run, 4) ? BLOCK : 300);
		u->failing = one_in(run, 60);
		u->sleep_ns = one_in(run, 2) ? rnd(run, 100000) : 0;
		pattern_fill(buf, u->len, l->stamp, off);
		put(l, &l->src, off, buf, u->len);
		memset(buf, MARK, u->len);
		put(l, &l->dst, off, buf, u->len);
	}
}

static bool is_marked(const char *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)buf[i] != MARK)
			return false;
	return true;
}

void stream_check(struct line *l)
{
	char buf[BLOCK];

	for (uint32_t i = 0; i < l->total; i++) {
		struct unit *u = &l->units[i];

		must(u->state == (i < l->brought ? UNIT_DONE : UNIT_AHEAD),
		     "each unit is done once", "unit %u of %u", i, l->number);
		if (u->state == UNIT_DONE)
			continue;
		get(l, &l->dst, (uint64_t)i * BLOCK, buf, u->len);
		must(is_marked(buf, u->len), "what was not brought has changed "
		     "nothing", "unit %u of %u", i, l->number);
	}
}
