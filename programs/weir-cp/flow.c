/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Flows: the pipelines that the blocks of all files pass through.
 *
 *	copy	 read -> crc32c -> write	in a buffer of the pool
 *	kernel	 copy				from file to file, no buffer
 *	compare	 read source -+
 *		 read copy   -+-> compare	in the halves of a buffer
 *	convert	 see convert.c
 *
 * One window serves all files: a large one fills it, and small ones share it.
 * What is in flight is bounded by the depth whatever the number of files.  A
 * flow is made when the first file needs it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/chain.h>
#include <weir/crc32c.h>
#include <weir/pipeline.h>

#include "weir-cp.h"

static void no_fn(struct weir_op *op, int64_t res)
{
	(void)op;
	(void)res;
}

static int add(struct weir_slot *slot, int after, struct flow *flow,
	       struct weir_job *job)
{
	weir_job_init(job, no_fn);
	return weir_chain_add_job(weir_slot_chain(slot), after, flow->cp->dma,
				  job);
}

static int build_copy(struct weir_slot *slot, void *arg)
{
	struct unit *u = weir_slot_data(slot);
	struct flow *flow = arg;
	int step = add(slot, WEIR_CHAIN_FIRST, flow, &u->first);

	if (step >= 0 && flow->cp->opts.checksum)
		step = add(slot, step, flow, &u->second);
	if (step >= 0)
		step = add(slot, step, flow, &u->third);
	return step < 0 ? step : 0;
}

static int build_kernel(struct weir_slot *slot, void *arg)
{
	struct unit *u = weir_slot_data(slot);
	int step = add(slot, WEIR_CHAIN_FIRST, arg, &u->first);

	return step < 0 ? step : 0;
}

static int build_compare(struct weir_slot *slot, void *arg)
{
	struct unit *u = weir_slot_data(slot);
	int a = add(slot, WEIR_CHAIN_FIRST, arg, &u->first);
	int b = add(slot, WEIR_CHAIN_FIRST, arg, &u->second);
	int c;

	if (a < 0 || b < 0)
		return a < 0 ? a : b;
	c = add(slot, a, arg, &u->third);
	if (c < 0)
		return c;
	return weir_chain_add_dep(weir_slot_chain(slot), (uint32_t)c,
				  (uint32_t)b, WEIR_CHAIN_ON_DONE);
}

static void set_copy(struct weir_slot *slot, struct unit *u)
{
	struct weir_buf *buf = weir_slot_buf(slot);
	struct file *f = u->file;

	weir_job_copy(&u->first, weir_operand_buf(buf),
		      weir_operand_at(f->src_domain, u->off, u->len));
	weir_job_crc32c(&u->second, weir_operand_buf(buf), 0);
	weir_job_copy(&u->third, weir_operand_at(f->dst_domain, u->off, u->len),
		      weir_operand_buf(buf));
}

static void set_kernel(struct unit *u)
{
	struct file *f = u->file;

	weir_job_copy(&u->first, weir_operand_at(f->dst_domain, u->off, u->len),
		      weir_operand_at(f->src_domain, u->off, u->len));
}

static void set_compare(struct weir_slot *slot, struct unit *u)
{
	struct weir_buf *buf = weir_slot_buf(slot);
	struct weir_operand a = weir_operand_mem(weir_buf_addr(buf), u->len);
	struct weir_operand b = weir_operand_mem(
		(char *)weir_buf_addr(buf) + weir_buf_len(buf) / 2, u->len);

	weir_job_copy(&u->first, a,
		      weir_operand_at(u->file->src_domain, u->off, u->len));
	weir_job_copy(&u->second, b,
		      weir_operand_at(u->file->dst_domain, u->off, u->len));
	weir_job_compare(&u->third, a, b);
}

static uint32_t which(const struct flow *flow)
{
	return (uint32_t)(flow - flow->cp->flows);
}

static size_t block_of(const struct flow *flow)
{
	size_t block = flow->cp->opts.block;

	if (which(flow) == FLOW_KERNEL)
		return SLICE;
	return which(flow) == FLOW_COMPARE ? block / 2 : block;
}

/* Cut the next block off the extents of @f. */
static void cut(struct file *f, struct unit *u, size_t block)
{
	struct extent *e = &f->ext[f->cur_ext];

	u->file = f;
	u->off = e->off;
	/* In step with the file's own blocks, so that O_DIRECT stays aligned
	 * after a hole. */
	u->len = block - e->off % block;
	if (u->len > e->end - e->off)
		u->len = e->end - e->off;
	e->off += u->len;
	if (e->off == e->end)
		f->cur_ext++;
}

static void unqueue(struct flow *flow)
{
	struct file *f = flow->first;

	flow->first = f->next;
	if (!flow->first)
		flow->last = &flow->first;
	f->next = NULL;
	f->queued = false;
}

/* The first file gives way to the others: its blocks are converted one after
 * the other, theirs at the same time. */
static void rotate(struct flow *flow)
{
	struct file *f = flow->first;

	if (!f->next)
		return;
	flow->first = f->next;
	f->next = NULL;
	*flow->last = f;
	flow->last = &f->next;
}

static int next(struct weir_slot *slot, void *arg)
{
	struct unit *u = weir_slot_data(slot);
	struct flow *flow = arg;
	struct file *f = flow->first;

	/* Files that failed meanwhile have no more blocks. */
	while (f && (f->err || f->fallback || f->ended_early)) {
		unqueue(flow);
		if (f->in_flight == 0)
			file_moved(f);
		f = flow->first;
	}
	if (!f)
		return -EAGAIN;
	cut(f, u, block_of(flow));
	f->in_flight++;
	if (f->cur_ext == f->n_ext)
		unqueue(flow);
	else if (which(flow) == FLOW_CONVERT)
		rotate(flow);
	if (which(flow) == FLOW_CONVERT)
		convert_set(slot, u);
	else if (which(flow) == FLOW_COPY)
		set_copy(slot, u);
	else if (which(flow) == FLOW_KERNEL)
		set_kernel(u);
	else
		set_compare(slot, u);
	weir_slot_set_bytes(slot, u->len);
	return WEIR_PIPELINE_UNIT;
}

/* Which side a failure was on, for the message. */
static const char *what_failed(struct weir_slot *slot, const struct flow *flow)
{
	int step = weir_chain_failed_step(weir_slot_chain(slot));

	if (which(flow) == FLOW_KERNEL)
		return "copy";
	if (step == 0)
		return "read";
	return which(flow) == FLOW_COPY ? "write the copy of" :
					  "read back the copy of";
}

static void unit_failed(struct weir_slot *slot, struct flow *flow, int err)
{
	const struct unit *u = weir_slot_data(slot);
	struct file *f = u->file;

	if (err == -ENODATA && which(flow) == FLOW_COMPARE)
		file_wrong(f, "differs from its copy", 0);
	else if (err == -ENODATA)
		f->ended_early = true;
	else if (err == -ECANCELED && flow->cp->ending)
		file_wrong(f, NULL, -ECANCELED);
	else if (which(flow) == FLOW_CONVERT && !f->ended_early)
		file_wrong(f, convert_failed(slot, u, err),
			   err == -EBADMSG ? 0 : err);
	else if (which(flow) == FLOW_CONVERT)
		return;
	else
		file_fail(f, what_failed(slot, flow), err);
}

/*
 * CRCs are linear, so the blocks may end in any order: each adds its CRC,
 * moved by the bytes that come after it.
 */
static void unit_done(struct weir_slot *slot, struct flow *flow)
{
	const struct unit *u = weir_slot_data(slot);
	struct weir_chain_step compare = { .size = sizeof(compare) };
	struct file *f = u->file;
	uint64_t end = u->off + u->len;

	if (which(flow) == FLOW_COMPARE) {
		weir_chain_get_step(weir_slot_chain(slot), 2, &compare);
		if (compare.res != (int64_t)u->len)
			file_wrong(f, "differs from its copy", 0);
		return;
	}
	if (flow->cp->opts.checksum)
		f->crc ^= weir_crc32c_combine(u->second.crc, 0,
					      (uint64_t)f->st.st_size - end);
	f->data += u->len;
	f->counted += u->len;
	flow->cp->bytes += u->len;
	if (which(flow) != FLOW_CONVERT && end > f->written)
		f->written = end;
}

static int done(struct weir_slot *slot, int64_t res, void *arg)
{
	struct unit *u = weir_slot_data(slot);
	struct flow *flow = arg;
	struct file *f = u->file;

	if (res < 0)
		unit_failed(slot, flow, (int)res);
	else
		unit_done(slot, flow);
	f->in_flight--;
	if (which(flow) == FLOW_CONVERT)
		convert_done(u);
	if (f->in_flight == 0 && !f->queued)
		file_moved(f);
	return 0;
}

static void on_ended(struct weir_op *op, int64_t res)
{
	struct flow *flow = weir_container_of(op, struct flow, op);

	(void)res;
	flow->open = false;
	while (flow->first) {
		struct file *f = flow->first;

		unqueue(flow);
		file_wrong(f, NULL, -ECANCELED);
		if (f->in_flight == 0)
			file_moved(f);
	}
	flow->cp->flows_open--;
	cp_check_end(flow->cp);
}

static int pool_open(struct cp *cp)
{
	struct weir_pool_opts o = {
		.size = sizeof(o),
		.bufs = cp->opts.depth,
		.buf_size = cp->opts.convert ? convert_buf_size(cp) :
					       cp->opts.block,
	};

	return cp->pool ? 0 : weir_pool_create(&cp->pool, cp->reactor, &o);
}

static int flows_open(struct cp *cp, uint32_t n)
{
	static weir_pipeline_build_fn *const build[FLOWS] = {
		[FLOW_COPY] = build_copy,
		[FLOW_KERNEL] = build_kernel,
		[FLOW_COMPARE] = build_compare,
		[FLOW_CONVERT] = convert_build,
	};
	struct flow *flow = &cp->flows[n];
	struct weir_pipeline_opts o = {
		.size = sizeof(o),
		.build = build[n],
		.next = next,
		.done = done,
		.arg = flow,
		.depth = n == FLOW_KERNEL ? 2 : cp->opts.depth,
		.data_size = sizeof(struct unit),
		.steps = 3,
	};
	int err = n == FLOW_KERNEL ? 0 : pool_open(cp);

	if (err)
		return err;
	flow->cp = cp;
	flow->last = &flow->first;
	weir_op_init(&flow->op, on_ended);
	if (n != FLOW_KERNEL)
		o.pool = cp->pool;
	if (!flow->pipeline)
		err = weir_pipeline_create(&flow->pipeline, cp->reactor, &o);
	if (!err)
		err = weir_pipeline_start(flow->pipeline, &flow->op);
	if (err)
		return err;
	flow->open = true;
	return 0;
}

/* Have the blocks of @f, as far as they are known, moved in flow @n. */
int flow_add(struct cp *cp, uint32_t n, struct file *f)
{
	struct flow *flow = &cp->flows[n];
	int err;

	if (cp->ending)
		return -ECANCELED;
	if (!flow->open) {
		err = flows_open(cp, n);
		if (err)
			return err;
		cp->flows_open++;
	}
	f->next = NULL;
	f->queued = true;
	*flow->last = f;
	flow->last = &f->next;
	weir_pipeline_kick(flow->pipeline);
	return 0;
}

/* No more files will come. */
void flows_end(struct cp *cp)
{
	for (int i = 0; i < FLOWS; i++)
		if (cp->flows[i].open)
			weir_pipeline_stop(cp->flows[i].pipeline);
}

void flows_cancel(struct cp *cp)
{
	for (int i = 0; i < FLOWS; i++)
		if (cp->flows[i].open)
			weir_op_cancel(&cp->flows[i].op);
}

void flows_destroy(struct cp *cp)
{
	for (int i = 0; i < FLOWS; i++)
		weir_pipeline_destroy(cp->flows[i].pipeline);
	weir_pool_destroy(cp->pool);
}
