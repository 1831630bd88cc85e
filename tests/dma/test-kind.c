/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered kinds of jobs: what their functions get, on every route. */

#include "tests/support/bounce-fixture.h"
#include "tests/support/gate-fixture.h"

#include <weir/chain.h>
#include <weir/engine.h>
#include <weir/kind.h>

/* Each byte becomes another. */
static int rot_run(struct weir_kind_run *run)
{
	size_t n = run->in_len < run->out_len ? run->in_len : run->out_len;
	const unsigned char *in = run->in;
	unsigned char *out = run->out;
	size_t i;

	for (i = 0; i < n; i++)
		out[i] = (unsigned char)(in[i] + 1);
	run->consumed = run->produced = n;
	run->result[0] += n;
	return run->last && n == run->in_len;
}

/* 7 bytes become 9: themselves, their sum, and how many units were before. */
#define IN 7
#define OUT 9

static int frame_shape(const struct weir_job *job, uint64_t bytes,
		       struct weir_kind_shape *ret)
{
	if (weir_job_args(job) && !*(const char *)weir_job_args(job))
		return -EDOM;
	ret->in_unit = IN;
	ret->out_unit = OUT;
	ret->out_min = bytes / IN * OUT;
	return 0;
}

static void frame(unsigned char *out, const unsigned char *in, uint64_t i)
{
	int k;

	memmove(out, in, IN);
	out[IN] = 0;
	for (k = 0; k < IN; k++)
		out[IN] = (unsigned char)(out[IN] + out[k]);
	out[IN + 1] = (unsigned char)i;
}

static int frame_run(struct weir_kind_run *run)
{
	size_t done;

	for (done = 0; (done + 1) * IN <= run->in_len &&
		       (done + 1) * OUT <= run->out_len; done++)
		frame((unsigned char *)run->out + done * OUT,
		      (const unsigned char *)run->in + done * IN,
		      run->offset / IN + done);
	run->consumed = done * IN;
	run->produced = done * OUT;
	return run->last && run->consumed == run->in_len;
}

/* A byte that says how often, and a byte: the output is as long as it is. */
static int expand_run(struct weir_kind_run *run)
{
	const unsigned char *in = run->in;
	unsigned char *out = run->out;
	uint64_t *left = &run->state[0], *byte = &run->state[1];
	uint64_t *have = &run->state[2];

	for (;;) {
		if (*left && run->produced == run->out_len)
			return 0;
		if (*left) {
			out[run->produced++] = (unsigned char)*byte;
			--*left;
		} else if (run->consumed == run->in_len) {
			return run->last ? *have ? -EBADMSG : 1 : 0;
		} else if (!*have) {
			*have = in[run->consumed++] + 1u;
		} else {
			*byte = in[run->consumed++];
			*left = *have - 1;
			*have = 0;
		}
	}
}

/* The sum of all bytes, by units of 5. */
static int sum_shape(const struct weir_job *job, uint64_t bytes,
		     struct weir_kind_shape *ret)
{
	(void)job, (void)bytes;
	ret->in_unit = 5;
	return 0;
}

static int sum_run(struct weir_kind_run *run)
{
	const unsigned char *in = run->in;

	if (run->out || run->out_len || run->in_len % 5)
		return -EPROTO;
	for (; run->consumed < run->in_len; run->consumed++)
		run->result[0] += in[run->consumed];
	return run->last;
}

/* One job at a time, by the argument. */
struct stream {
	int begun, ended, refuse;
	int64_t res;
	bool busy;
};

static int claim(const struct weir_job *job)
{
	struct stream *s = (struct stream *)weir_job_args(job);

	if (s->busy || s->refuse)
		return s->refuse ? s->refuse : -EBUSY;
	s->busy = true;
	s->begun++;
	return 0;
}

static void release(const struct weir_job *job, int64_t res)
{
	struct stream *s = (struct stream *)weir_job_args(job);

	s->busy = false;
	s->ended++;
	s->res = res;
}

/* What goes wrong when, by the argument. */
static int bad_run(struct weir_kind_run *run)
{
	switch (*(const int *)run->args) {
	case 1:
		run->consumed = run->in_len + 1;
		return 0;
	case 2:
		run->produced = run->out_len + 1;
		return 0;
	case 3:
		return 0;
	case 4:
		return 2;
	default:
		return -EILSEQ;
	}
}

static int whole_run(struct weir_kind_run *run)
{
	if (!run->last || run->state[0]++)
		return -EPROTO;
	return rot_run(run);
}

/* 100 bytes in a call, each of which waits at the gate that is the argument. */
static int gated_run(struct weir_kind_run *run)
{
	if (pass_gate((struct gate *)run->args) != 1)
		return -EIO;
	run->consumed = run->in_len < 100 ? run->in_len : 100;
	return run->last && run->consumed == run->in_len;
}

/* Units of 40 bytes, which more pieces divide than a step can have. */
#define WIDE 40

static int wide_shape(const struct weir_job *job, uint64_t bytes,
		      struct weir_kind_shape *ret)
{
	(void)job;
	ret->in_unit = ret->out_unit = WIDE;
	ret->out_min = bytes;
	return 0;
}

static int wide_run(struct weir_kind_run *run)
{
	size_t len = run->in_len;

	if (len % WIDE)
		return -EPROTO;
	run->in_len = len < WIDE ? len : WIDE;
	rot_run(run);
	return run->last && run->consumed == len;
}

static uint32_t wide, rot, frames, expand, sum, streams, bad, whole, heavy;
static uint32_t gated;

static uint32_t add(const char *name, uint32_t flags, struct weir_kind_ops ops)
{
	uint32_t kind = weir_kind_find(name);

	if (kind)
		return kind;
	ops.size = sizeof(ops);
	ops.name = name;
	ops.flags = flags;
	assert_int_equal(weir_kind_register(&ops, &kind), 0);
	assert_int_equal(weir_kind_find(name), kind);
	assert_string_equal(weir_kind_name(kind), name);
	return kind;
}

static void add_kinds(void)
{
	rot = add("rot", WEIR_KIND_OUTPUT | WEIR_KIND_IN_PLACE,
		  (struct weir_kind_ops){ .run = rot_run });
	wide = add("wide", WEIR_KIND_OUTPUT,
		   (struct weir_kind_ops){ .run = wide_run,
					   .shape = wide_shape });
	frames = add("frame", WEIR_KIND_OUTPUT,
		     (struct weir_kind_ops){ .run = frame_run,
					     .shape = frame_shape });
	expand = add("expand", WEIR_KIND_OUTPUT | WEIR_KIND_EMPTY,
		     (struct weir_kind_ops){ .run = expand_run });
	sum = add("sum", 0, (struct weir_kind_ops){ .run = sum_run,
						    .shape = sum_shape });
	streams = add("stream", WEIR_KIND_OUTPUT,
		      (struct weir_kind_ops){ .run = rot_run, .begin = claim,
					      .end = release });
	bad = add("bad", WEIR_KIND_OUTPUT,
		  (struct weir_kind_ops){ .run = bad_run });
	whole = add("whole", WEIR_KIND_OUTPUT | WEIR_KIND_WHOLE,
		    (struct weir_kind_ops){ .run = whole_run });
	heavy = add("heavy", WEIR_KIND_OUTPUT,
		    (struct weir_kind_ops){ .run = frame_run,
					    .shape = frame_shape, .weight = 64,
					    .worker_min = 20000 });
	/* A slice is 128 bytes. */
	gated = add("gated", 0, (struct weir_kind_ops){ .run = gated_run,
							.weight = 4096,
							.worker_min = 1 });
}

static void begin(struct fixture *g, void **state, uint32_t bufs, uint32_t size)
{
	add_kinds();
	fixture_begin(g, state, (struct weir_dma_opts){
						.staging_bufs = bufs,
						.staging_size = size });
}

static void try_frames(struct fixture *g, uint32_t kind, enum place from,
		       enum place to, size_t n)
{
	char *src = bytes_of(g, from, 0), *dst = bytes_of(g, to, 1);
	unsigned char want[OUT];
	struct jrec j;
	size_t i;

	if ((from == PROC || to == PROC) && !g->self)
		return;
	jrec_init(&j);
	fill_pattern(src, LEN, 0, (unsigned int)n);
	memset(dst, 0x55, LEN);
	weir_job_registered(&j.job, kind,
			    operand_of(g, to, 1, OFF, n * OUT + 2),
			    operand_of(g, from, 0, OFF, n * IN), NULL);
	if (run(g, &j) != (int64_t)(n * OUT))
		fail_msg("%zu units from %d to %d: %lld", n, from, to,
			 (long long)j.res);
	assert_int_equal(j.detail.bytes, j.res);
	for (i = 0; i < n; i++) {
		frame(want, (unsigned char *)src + OFF + i * IN, i);
		assert_memory_equal(dst + OFF + i * OUT, want, OUT);
	}
	assert_true(is_untouched(dst, 0, OFF));
	assert_true(is_untouched(dst, OFF + n * OUT, LEN));
	assert_int_equal(route_of(&j),
			 from == MEM && to == MEM ? WEIR_ROUTE_DIRECT :
						    WEIR_ROUTE_BOUNCE);
}

/* Units that divide no block, and an output that is longer than the input. */
static void units_become_others_between_any_two_places(void **state)
{
	static const size_t counts[] = { 1, 2, 585, 586, 1171, 4000, 14000 };
	struct fixture g;
	uint32_t size;
	size_t i;
	int from, to;

	for (size = 4096; size <= 262144; size *= 8) {
		begin(&g, state, 1, size);
		for (i = 0; i < N_OF(counts); i++)
			for (from = 0; from < N_PLACES; from++)
				for (to = 0; to < N_PLACES; to++) {
					try_frames(&g, frames, (enum place)from,
						   (enum place)to, counts[i]);
					try_frames(&g, heavy, (enum place)from,
						   (enum place)to, counts[i]);
				}
		fixture_end(&g);
		end_reactor(state);
	}
}

/* Pieces that divide every unit. */
static void units_are_whole_in_lists_of_odd_pieces(void **state)
{
	struct iovec src[200], dst[200];
	unsigned char want[OUT];
	struct fixture g;
	struct jrec j;
	int from, to;
	size_t i, n = 0, m = 0;

	begin(&g, state, 1, 4096);
	for (i = 0; i < 200; i++) {
		src[i] = (struct iovec){ (void *)(uintptr_t)n, 1 + i % 9 };
		n += src[i].iov_len;
	}
	src[199].iov_len += IN - n % IN;
	n += IN - n % IN;
	for (i = 0; i < 200; i++) {
		dst[i] = (struct iovec){ (void *)(uintptr_t)m, 1 + i % 13 };
		m += dst[i].iov_len;
	}
	assert_true(m >= n / IN * OUT);
	for (from = 0; from < 3; from++)
		for (to = 0; to < 3; to++) {
			struct iovec a[200], b[200];
			/* In memory, a user's domain, a file. */
			enum place p[] = { MEM, USER, FIL };
			char *s = bytes_of(&g, p[from], 0);
			char *d = bytes_of(&g, p[to], 1);
			struct weir_domain *ds = p[from] == USER ? g.user[0].d :
				p[from] == FIL ? g.file[0] : NULL;
			struct weir_domain *dd = p[to] == USER ? g.user[1].d :
				p[to] == FIL ? g.file[1] : NULL;

			for (i = 0; i < 200; i++) {
				a[i] = src[i];
				b[i] = dst[i];
				if (p[from] == MEM)
					a[i].iov_base = s + (uintptr_t)
						src[i].iov_base;
				if (p[to] == MEM)
					b[i].iov_base = d + (uintptr_t)
						dst[i].iov_base;
			}
			fill_pattern(s, LEN, 0, 3);
			memset(d, 0x55, LEN);
			jrec_init(&j);
			weir_job_registered(&j.job, frames,
					    weir_operand_iov(dd, b, 200),
					    weir_operand_iov(ds, a, 200), NULL);
			assert_int_equal(run(&g, &j), n / IN * OUT);
			for (i = 0; i < n / IN; i++) {
				frame(want, (unsigned char *)s + i * IN, i);
				assert_memory_equal(d + i * OUT, want, OUT);
			}
			assert_true(is_untouched(d, n / IN * OUT, LEN));
		}
	fixture_end(&g);
}

static void unit_comes_together_from_several_pulls(void **state)
{
	struct iovec src[200];
	struct fixture g;
	struct jrec j;
	size_t i;

	for (uint32_t size = 4096; size <= 32768; size *= 8) {
		begin(&g, state, 1, size);
		fill_pattern(g.user[0].mem, LEN, 0, 3);
		for (i = 0; i < 200; i++)
			src[i] = (struct iovec){ (void *)(uintptr_t)i, 1 };
		jrec_init(&j);
		weir_job_registered(&j.job, wide,
				    operand_of(&g, FIL, 1, 0, 200),
				    weir_operand_iov(g.user[0].d, src, 200),
				    NULL);
		assert_int_equal(run(&g, &j), 200);
		for (i = 0; i < 200; i++)
			assert_int_equal(g.view[1][i],
					 (char)(g.user[0].mem[i] + 1));
		fixture_end(&g);
		end_reactor(state);
	}
}

static void sum_without_destination_is_the_result(void **state)
{
	static const enum place places[] = { MEM, FIL, USER };
	struct fixture g;
	uint64_t want;
	struct jrec j;
	size_t i, k;

	begin(&g, state, 1, 4096);
	for (k = 0; k < N_OF(places); k++) {
		unsigned char *src = (unsigned char *)bytes_of(&g, places[k],
							       0);

		fill_pattern((char *)src, LEN, 0, 9);
		for (i = 0, want = 0; i < 100000; i++)
			want += src[OFF + i];
		jrec_init(&j);
		weir_job_registered(&j.job, sum, weir_operand_mem(NULL, 0),
				    operand_of(&g, places[k], 0, OFF, 100000),
				    NULL);
		assert_int_equal(run(&g, &j), 100000);
		assert_int_equal(weir_job_result(&j.job)[0], want);
	}
	fixture_end(&g);
}

/* 2 bytes become up to 255; the job knows only when it is there. */
static void output_of_unknown_length_is_bounded_by_capacity(void **state)
{
	static const enum place places[] = { MEM, FIL, USER };
	struct fixture g;
	struct jrec j;
	size_t a, b, i;

	begin(&g, state, 1, 4096);
	for (a = 0; a < N_OF(places); a++) {
		for (b = 0; b < N_OF(places); b++) {
			char *src = bytes_of(&g, places[a], 0);
			char *dst = bytes_of(&g, places[b], 1);

			for (i = 0; i < 200; i += 2) {
				src[i] = (char)250;
				src[i + 1] = (char)i;
			}
			memset(dst, 0x55, LEN);
			jrec_init(&j);
			weir_job_registered(
				&j.job, expand,
				operand_of(&g, places[b], 1, OFF, 25000),
				operand_of(&g, places[a], 0, 0, 200), NULL);
			assert_int_equal(run(&g, &j), 25000);
			for (i = 0; i < 25000; i++)
				assert_int_equal(dst[OFF + i],
						 (char)(i / 250 * 2));
			memset(dst, 0x55, LEN);
			weir_job_registered(
				&j.job, expand,
				operand_of(&g, places[b], 1, OFF, 24999),
				operand_of(&g, places[a], 0, 0, 200), NULL);
			j.calls = 0;
			assert_int_equal(run(&g, &j), -ENOSPC);
			assert_in_range(j.detail.bytes, 0, 24999);
			assert_true(is_untouched(dst, OFF + 24999, LEN));
			assert_true(is_untouched(dst, 0, OFF));
		}
	}
	fixture_end(&g);
}

static void input_of_no_bytes_is_for_kinds_that_say_so(void **state)
{
	struct fixture g;
	struct jrec j;

	begin(&g, state, 1, 4096);
	jrec_init(&j);
	weir_job_registered(&j.job, expand, operand_of(&g, FIL, 1, 0, 10),
			    operand_of(&g, FIL, 0, 0, 0), NULL);
	assert_int_equal(run(&g, &j), 0);
	weir_job_registered(&j.job, expand, operand_of(&g, MEM, 1, 0, 10),
			    weir_operand_mem(g.mem, 0), NULL);
	j.calls = 0;
	assert_int_equal(run(&g, &j), 0);
	weir_job_registered(&j.job, rot, operand_of(&g, MEM, 1, 0, 10),
			    weir_operand_mem(g.mem, 0), NULL);
	assert_int_equal(weir_job_start(g.dma, &j.job), -EINVAL);
	fixture_end(&g);
}

static void check_refusal(struct fixture *g, struct jrec *j, int err,
			  const char *words)
{
	char text[600];

	assert_int_equal(weir_job_start(g->dma, &j->job), err);
	assert_int_equal(weir_route_explain(g->dma, &j->job, text,
					    sizeof(text)), err);
	if (!strstr(text, words))
		fail_msg("'%s' is not in '%s'", words, text);
}

static void job_that_makes_no_sense_is_refused_before_anything(void **state)
{
	struct weir_operand there, here;
	struct iovec two[2];
	struct fixture g;
	struct jrec j;

	begin(&g, state, 1, 4096);
	jrec_init(&j);
	here = operand_of(&g, MEM, 0, 0, 70);
	there = operand_of(&g, MEM, 1, 0, 89);
	memset(g.mem, 0x55, 2 * LEN);
	weir_job_registered(&j.job, frames, there, here, NULL);
	check_refusal(&g, &j, -EMSGSIZE, "capacity for 89 bytes, and may need "
		      "90");
	here.len = 69;
	there.len = 100;
	weir_job_registered(&j.job, frames, there, here, NULL);
	check_refusal(&g, &j, -EINVAL, "multiple of the unit");
	here.len = 70;
	weir_job_registered(&j.job, frames, there, here, "");
	check_refusal(&g, &j, -EDOM, strerror(EDOM));
	weir_job_registered(&j.job, WEIR_JOB_USER + WEIR_KINDS_MAX, there, here,
			    NULL);
	check_refusal(&g, &j, -EINVAL, "no such .kind");
	weir_job_registered(&j.job, UINT32_MAX, there, here, NULL);
	check_refusal(&g, &j, -EINVAL, "no such .kind");
	weir_job_registered(&j.job, rot, there, here, NULL);
	j.job.more = &there;
	j.job.n_extra = 1;
	check_refusal(&g, &j, -EINVAL, ".n_extra");
	/* The output may overlap only if the kind and the ranges allow it. */
	weir_job_registered(&j.job, frames,
			    weir_operand_mem(g.mem + 69, 90),
			    weir_operand_mem(g.mem, 70), NULL);
	check_refusal(&g, &j, -EINVAL, "overlaps");
	weir_job_registered(&j.job, rot, weir_operand_mem(g.mem + 1, 90),
			    weir_operand_mem(g.mem, 70), NULL);
	check_refusal(&g, &j, -EINVAL, "overlaps");
	two[0] = (struct iovec){ g.mem, 10 };
	two[1] = (struct iovec){ g.mem + 20, 10 };
	weir_job_registered(&j.job, whole, there, weir_operand_iov(NULL, two,
								   2), NULL);
	check_refusal(&g, &j, -EMSGSIZE, "one piece");
	weir_job_registered(&j.job, whole, there,
			    operand_of(&g, FIL, 0, 0, 20), NULL);
	check_refusal(&g, &j, -EXDEV, "all of both sides in memory");
	assert_true(is_untouched(g.mem, 0, 2 * LEN));
	fixture_end(&g);
}

static void range_is_changed_in_place(void **state)
{
	struct fixture g;
	struct jrec j;
	size_t i;

	begin(&g, state, 1, 4096);
	fill_pattern(g.mem, LEN, 0, 1);
	memcpy(g.mem + LEN, g.mem, LEN);
	jrec_init(&j);
	weir_job_registered(&j.job, rot, weir_operand_mem(g.mem, LEN),
			    weir_operand_mem(g.mem, LEN), NULL);
	assert_int_equal(run(&g, &j), LEN);
	for (i = 0; i < LEN; i++)
		assert_int_equal(g.mem[i], (char)(g.mem[LEN + i] + 1));
	fixture_end(&g);
}

static void whole_range_is_one_call(void **state)
{
	struct fixture g;
	struct jrec j;

	begin(&g, state, 1, 4096);
	jrec_init(&j);
	weir_job_registered(&j.job, whole, weir_operand_mem(g.mem + LEN, LEN),
			    weir_operand_mem(g.mem, LEN), NULL);
	assert_int_equal(run(&g, &j), LEN);
	assert_int_equal(weir_job_result(&j.job)[0], LEN);
	fixture_end(&g);
}

/* The data of bufs are set if the job succeeds, and only then. */
static void bufs_have_what_was_written(void **state)
{
	struct weir_inventory *inv;
	struct weir_buf *src, *dst, *more;
	struct weir_mmap *m;
	struct fixture g;
	struct jrec j;

	begin(&g, state, 1, 4096);
	m = start_mmap(g.mem, LEN, WEIR_MMAP_READ | WEIR_MMAP_WRITE);
	inv = start_inventory(g.r, m);
	src = get_buf(inv, m, g.mem, 100, 70);
	dst = get_buf(inv, m, g.mem + 1000, 100, 20);
	more = get_buf(inv, m, g.mem + 2000, 100, 0);
	assert_int_equal(weir_buf_chain(dst, more), 0);
	jrec_init(&j);
	weir_job_registered(&j.job, frames, weir_operand_buf(dst),
			    weir_operand_buf(src), NULL);
	assert_int_equal(run(&g, &j), 90);
	assert_int_equal(weir_buf_data_len(dst), 100);
	assert_int_equal(weir_buf_data_len(more), 10);
	memset(g.mem, 255, 70);
	weir_job_registered(&j.job, expand, weir_operand_buf(dst),
			    weir_operand_buf(src), NULL);
	j.calls = 0;
	assert_int_equal(run(&g, &j), -ENOSPC);
	assert_int_equal(weir_buf_data_len(more), 10);
	weir_buf_put(src);
	weir_buf_put(dst);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	fixture_end(&g);
}

static void begin_and_end_are_called_once_each(void **state)
{
	static const enum place places[] = { MEM, FIL, USER };
	struct stream s = { 0 };
	struct fixture g;
	struct jrec j[2];
	size_t i;

	begin(&g, state, 1, 4096);
	for (i = 0; i < N_OF(places); i++) {
		memset(&s, 0, sizeof(s));
		jrec_init(&j[0]);
		jrec_init(&j[1]);
		weir_job_registered(&j[0].job, streams,
				    operand_of(&g, places[i], 1, 0, LEN),
				    operand_of(&g, places[i], 0, 0, LEN), &s);
		j[1].job = j[0].job;
		if (places[i] == MEM)	/* Else it is over at once. */
			spend_budget(g.dma, &j[1], g.mem, 1u << 17);
		while (places[i] == MEM && !j[1].calls)
			pump(&g);
		weir_job_registered(&j[1].job, streams,
				    operand_of(&g, places[i], 3, 0, LEN),
				    operand_of(&g, places[i], 2, 0, LEN), &s);
		s.refuse = -ENOTUNIQ;
		assert_int_equal(weir_job_start(g.dma, &j[0].job), -ENOTUNIQ);
		assert_non_null(strstr(weir_why(), "kind cannot begin"));
		s.refuse = 0;
		assert_int_equal(s.begun + s.ended, 0);
		STARTS(weir_job_start(g.dma, &j[0].job));
		assert_int_equal(s.begun, 1);
		if (s.busy)
			assert_int_equal(weir_job_start(g.dma, &j[1].job),
					 -EBUSY);
		PUMP_UNTIL(&g, j[0].calls);
		assert_int_equal(s.ended, 1);
		assert_int_equal(s.res, LEN);
		assert_false(s.busy);
		/* One that is held begins late, and ends by the refusal. */
		j[1].calls = 0;
		j[1].job.flags = WEIR_JOB_LAZY;
		STARTS(weir_job_start(g.dma, &j[1].job));
		assert_int_equal(s.begun, 1);
		s.refuse = -ENOTUNIQ;
		PUMP_UNTIL(&g, j[1].calls);
		assert_int_equal(j[1].res, -ENOTUNIQ);
		assert_int_equal(s.begun, 1);
		assert_int_equal(s.ended, 1);
	}
	fixture_end(&g);
}

static void kind_that_breaks_its_promises_ends_its_job(void **state)
{
	static const int want[] = { 0, -EIO, -EIO, -ENOSPC, -EIO, -EILSEQ };
	struct fixture g;
	struct jrec j;
	int how, place;

	begin(&g, state, 1, 4096);
	for (how = 1; how <= 5; how++)
		for (place = 0; place < 2; place++) {
			jrec_init(&j);
			weir_job_registered(&j.job, bad,
					    operand_of(&g, (enum place)place, 1,
						       0, 100),
					    operand_of(&g, (enum place)place, 0,
						       0, 100), &how);
			assert_int_equal(run(&g, &j), want[how]);
			assert_int_equal(j.detail.bytes, 0);
		}
	fixture_end(&g);
}

/* At each turn of its life, in each place. */
static void job_is_cancelled_at_any_time(void **state)
{
	static const enum place places[] = { MEM, FIL, USER };
	uint32_t kind[2];
	struct fixture g;
	struct jrec j;
	int turns, i;
	size_t k, n;

	for (k = 0; k < N_OF(places); k++) {
		begin(&g, state, 1, 4096);
		kind[0] = frames;
		kind[1] = heavy;
		for (n = 0; n < 2; n++)
			for (turns = 0; turns < 40; turns++) {
				jrec_init(&j);
				memset(bytes_of(&g, places[k], 1), 0x55, LEN);
				weir_job_registered(
					&j.job, kind[n],
					operand_of(&g, places[k], 1, 0, 63000),
					operand_of(&g, places[k], 0, 0, 49000),
					NULL);
				STARTS(weir_job_start(g.dma, &j.job));
				for (i = 0; i < turns && !j.calls; i++)
					pump(&g);
				weir_op_cancel(&j.job.op);
				PUMP_UNTIL(&g, j.calls);
				assert_true(j.res == 63000 ||
					    j.res == -ECANCELED);
				assert_true(is_untouched(
					bytes_of(&g, places[k], 1),
					j.res < 0 ? j.detail.bytes + 8192 :
						    63000, LEN));
			}
		while (stats_of(&g).quarantined)
			pump(&g);
		fixture_end(&g);
		end_reactor(state);
	}
}

static void deadline_ends_a_job_of_a_registered_kind(void **state)
{
	struct fixture g;
	struct jrec j;

	begin(&g, state, 1, 4096);
	g.user[0].stuck = true;
	jrec_init(&j);
	weir_job_registered(&j.job, rot, operand_of(&g, FIL, 1, 0, 9000),
			    operand_of(&g, USER, 0, 0, 9000), NULL);
	weir_op_set_deadline(&j.job.op, weir_reactor_now(g.r) + WEIR_MSEC);
	STARTS(weir_job_start(g.dma, &j.job));
	PUMP_UNTIL(&g, j.calls);
	assert_int_equal(j.res, -ETIMEDOUT);
	g.user[0].stuck = false;
	while (stats_of(&g).quarantined)
		pump(&g);
	fixture_end(&g);
}

/* The file is shorter than the range. */
static void source_that_ends_early_is_the_callers_choice(void **state)
{
	struct fixture g;
	struct jrec j;

	begin(&g, state, 1, 4096);
	assert_int_equal(ftruncate(g.fd[0], 5001), 0);
	jrec_init(&j);
	weir_job_registered(&j.job, rot, operand_of(&g, MEM, 1, 0, 9000),
			    operand_of(&g, FIL, 0, 0, 9000), NULL);
	assert_int_equal(run(&g, &j), -ENODATA);
	j.job.flags = WEIR_JOB_SHORT_OK;
	j.calls = 0;
	assert_int_equal(run(&g, &j), 5001);
	/* A unit that is cut off is none. */
	weir_job_registered(&j.job, frames, operand_of(&g, MEM, 1, 0, 20000),
			    operand_of(&g, FIL, 0, 0, 7000), NULL);
	j.job.flags = WEIR_JOB_SHORT_OK;
	j.calls = 0;
	assert_int_equal(run(&g, &j), -ENODATA);
	fixture_end(&g);
}

static void jobs_take_turns_at_one_block_of_staging(void **state)
{
	enum { N = 20, EACH = 6300 };
	struct jrec j[N];
	struct fixture g;
	unsigned char want[OUT];
	size_t i, k;

	begin(&g, state, 1, 4096);
	fill_pattern(g.user[0].mem, LEN, 0, 1);
	for (i = 0; i < N; i++) {
		jrec_init(&j[i]);
		weir_job_registered(&j[i].job, i % 2 ? frames : heavy,
				    operand_of(&g, FIL, (int)(i % 3) + 1,
					       (i / 3) * 9000, 9000),
				    operand_of(&g, USER, 0, i * EACH, EACH),
				    NULL);
		STARTS(weir_job_start(g.dma, &j[i].job));
	}
	for (i = 0; i < N; i++) {
		PUMP_UNTIL(&g, j[i].calls);
		assert_int_equal(j[i].res, EACH / IN * OUT);
	}
	for (i = 0; i < N; i++)
		for (k = 0; k < EACH / IN; k++) {
			frame(want, (unsigned char *)g.user[0].mem + i * EACH +
			      k * IN, k);
			assert_memory_equal(g.view[i % 3 + 1] +
					    (i / 3) * 9000 + k * OUT, want,
					    OUT);
		}
	fixture_end(&g);
}

static void chain_goes_from_kind_to_kind(void **state)
{
	struct weir_chain *chain = NULL;
	struct weir_chain_opts opts = { .size = sizeof(opts) };
	unsigned char want[OUT];
	struct fixture g;
	struct jrec a, b;
	struct rec rec;
	size_t i;

	begin(&g, state, 1, 4096);
	fill_pattern(g.view[0], LEN, 0, 5);
	jrec_init(&a);
	jrec_init(&b);
	rec_init(&rec);
	weir_job_registered(&a.job, rot, operand_of(&g, MEM, 1, 0, 7000),
			    operand_of(&g, FIL, 0, 0, 7000), NULL);
	weir_job_registered(&b.job, frames, operand_of(&g, USER, 2, 0, 9000),
			    operand_of(&g, MEM, 1, 0, 7000), NULL);
	assert_int_equal(weir_chain_create(&chain, g.r, &opts), 0);
	assert_int_equal(weir_chain_add_job(chain, WEIR_CHAIN_FIRST, g.dma,
					    &a.job), 0);
	assert_int_equal(weir_chain_add_job(chain, 0, g.dma, &b.job), 1);
	STARTS(weir_chain_start(chain, &rec.op));
	PUMP_UNTIL(&g, rec.calls);
	assert_int_equal(rec.res, 2);
	for (i = 0; i < 1000; i++) {
		char in[IN];
		int k;

		for (k = 0; k < IN; k++)
			in[k] = (char)(g.view[0][i * IN + (size_t)k] + 1);
		frame(want, (unsigned char *)in, i);
		assert_memory_equal(g.user[2].mem + i * OUT, want, OUT);
	}
	assert_int_equal(weir_chain_destroy(chain), 0);
	fixture_end(&g);
}

/* An engine that does "rot" itself, and says so by its result. */
static int card_can(void *arg, const struct weir_engine_query *q,
		    const char **why)
{
	(void)arg;
	*why = "not that kind";
	return q->kind == rot;
}

static int card_start(void *arg, struct weir_job *job)
{
	struct iovec src, dst;
	size_t i, n;

	++*(int *)arg;
	assert_int_equal(weir_job_pieces(job, WEIR_JOB_SRC, 0, &src, 1), 1);
	assert_int_equal(weir_job_pieces(job, WEIR_JOB_DST, 0, &dst, 1), 1);
	n = weir_job_bytes(job);
	assert_int_equal(src.iov_len, n);
	memset(weir_job_area(job), 0xee, WEIR_JOB_AREA);
	for (i = 0; i < n; i++)
		((char *)dst.iov_base)[i] = (char)(((char *)src.iov_base)[i] +
						   1);
	for (i = 0; i < WEIR_KIND_RESULT; i++)
		weir_job_set_result(job, (uint32_t)i, 40 + i);
	weir_job_end(job, dst.iov_len == 17 ? 18 : n - 1, 0, 0);
	return 0;
}

static void engine_of_the_programs_does_a_registered_kind(void **state)
{
	static const struct weir_engine_ops ops = {
		.size = sizeof(ops), .name = "card", .can = card_can,
		.start = card_start,
	};
	struct fixture g;
	int starts = 0;
	struct rec rec;
	struct jrec j;
	size_t i;

	begin(&g, state, 1, 4096);
	rec_init(&rec);
	STARTS(weir_dma_stop(g.dma, &rec.op));
	PUMP_UNTIL(&g, rec.calls);
	assert_int_equal(weir_dma_add_engine(g.dma, &ops, &starts), 0);
	assert_int_equal(weir_dma_start(g.dma), 0);
	jrec_init(&j);
	weir_job_registered(&j.job, rot, weir_operand_mem(g.mem + LEN, 200),
			    weir_operand_mem(g.mem, 100), NULL);
	/* It may write less than it has read. */
	assert_int_equal(run(&g, &j), 99);
	assert_int_equal(starts, 1);
	for (i = 0; i < WEIR_KIND_RESULT; i++)
		assert_int_equal(weir_job_result(&j.job)[i], 40 + i);
	/* But not more than there is capacity. */
	weir_job_registered(&j.job, rot, weir_operand_mem(g.mem + LEN, 17),
			    weir_operand_mem(g.mem, 10), NULL);
	j.calls = 0;
	assert_int_equal(run(&g, &j), -EIO);
	/* What it cannot, the cpu does. */
	weir_job_registered(&j.job, frames, weir_operand_mem(g.mem + LEN, 200),
			    weir_operand_mem(g.mem, 70), NULL);
	j.calls = 0;
	assert_int_equal(run(&g, &j), 90);
	assert_int_equal(starts, 2);
	fixture_end(&g);
}

static void registration_is_checked(void **state)
{
	struct weir_kind_ops ops = { .size = sizeof(ops), .name = "checked",
				     .run = rot_run };
	uint32_t kind = 7;

	add_kinds();
	(void)state;
	assert_int_equal(weir_kind_register(NULL, &kind), -EINVAL);
	assert_int_equal(weir_kind_register(&ops, NULL), -EINVAL);
	ops.run = NULL;
	assert_int_equal(weir_kind_register(&ops, &kind), -EINVAL);
	ops.run = rot_run;
	ops.name = "";
	assert_int_equal(weir_kind_register(&ops, &kind), -EINVAL);
	ops.name = "12345678901234567890123456789012";
	assert_int_equal(weir_kind_register(&ops, &kind), -EINVAL);
	ops.name = "checked";
	ops.flags = 16;
	assert_int_equal(weir_kind_register(&ops, &kind), -EINVAL);
	ops.flags = WEIR_KIND_IN_PLACE;
	assert_int_equal(weir_kind_register(&ops, &kind), -EINVAL);
	ops.flags = 0;
	ops.weight = 4097;
	assert_int_equal(weir_kind_register(&ops, &kind), -EINVAL);
	ops.weight = 0;
	ops.size += 8;
	assert_int_equal(weir_kind_register((void *)&(struct {
		struct weir_kind_ops ops;
		uint64_t later;
	}){ ops, 1 }, &kind), -E2BIG);
	ops.size -= 8;
	ops.name = "rot";
	assert_int_equal(weir_kind_register(&ops, &kind), -EEXIST);
	assert_int_equal(kind, 7);
	assert_int_equal(weir_kind_find("checked"), 0);
	assert_null(weir_kind_name(WEIR_JOB_USER + WEIR_KINDS_MAX));
	assert_null(weir_kind_name(WEIR_JOB_COPY));
}

/* The last case: there is no place for more. */
static void table_of_kinds_is_full(void **state)
{
	struct weir_kind_ops ops = { .size = sizeof(ops), .run = rot_run };
	char name[20];
	uint32_t kind;
	int i, err = 0;

	(void)state;
	for (i = 0; i <= WEIR_KINDS_MAX && !err; i++) {
		snprintf(name, sizeof(name), "more-%d", i);
		ops.name = name;
		if (!weir_kind_find(name))
			err = weir_kind_register(&ops, &kind);
	}
	assert_int_equal(err, -ENOSPC);
}

/* The worker is in the first of ten calls, and a slice has two. */
static void cancelled_job_of_a_worker_stops_after_the_step(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	struct gate g;
	struct jrec j;
	char in[1000];
	int i;

	add_kinds();
	gate_make(&g);
	jrec_init(&j);
	weir_job_registered(&j.job, gated, (struct weir_operand){ 0 },
			    weir_operand_mem(in, sizeof(in)), &g);
	STARTS(weir_job_start(dma, &j.job));
	some_turns(r, 1);
	gate_wait(&g);
	assert_int_equal(weir_op_cancel(&j.job.op), 0);
	for (i = 0; i < 10; i++)
		gate_open(&g);
	UNTIL(r, j.calls);
	assert_int_equal(j.res, -ECANCELED);
	assert_true(atomic_load(&g.ran) <= 2);
	assert_int_equal(weir_dma_destroy(dma), 0);
	gate_free(&g);
}

/* Without files: by the loop, by a worker, and through staging. */
static void kinds_run_in_virtual_time_too(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){
						    .staging_bufs = 1,
						    .staging_size = 4096 });
	unsigned char want[OUT], *mem = malloc(3 * LEN);
	struct slow slow;
	struct jrec j[3];
	size_t i, k;

	add_kinds();
	slow_init(&slow, 1);
	fill_pattern((char *)mem, 3 * LEN, 0, 3);
	for (i = 0; i < 3; i++)
		jrec_init(&j[i]);
	weir_job_registered(&j[0].job, heavy, weir_operand_mem(mem + LEN, LEN),
			    weir_operand_mem(mem, 70000), NULL);
	weir_job_registered(&j[1].job, frames,
			    weir_operand_at(slow.d, 0, LEN),
			    weir_operand_mem(mem, 70000), NULL);
	weir_job_registered(&j[2].job, heavy,
			    weir_operand_at(slow.d, LEN, LEN),
			    weir_operand_mem(mem, 70000), NULL);
	for (i = 0; i < 3; i++)
		STARTS(weir_job_start(dma, &j[i].job));
	while (!j[0].calls || !j[1].calls || !j[2].calls)
		assert_true(weir_reactor_turn(r, slow_pump(&slow) ? 0 :
					      WEIR_MSEC) >= 0);
	assert_int_equal(dma_stats_of(dma).worker_jobs, 1);
	for (i = 0; i < 10000; i++) {
		frame(want, mem + i * IN, i);
		for (k = 0; k < 3; k++)
			assert_memory_equal((k ? (unsigned char *)slow.mem +
						 (k - 1) * LEN : mem + LEN) +
					    i * OUT, want, OUT);
	}
	for (i = 0; i < 3; i++)
		assert_int_equal(j[i].res, 90000);
	assert_int_equal(weir_dma_destroy(dma), 0);
	slow_end(&slow);
	free(mem);
}

int main(void)
{
	static const struct harness_case cases[] = {
		REAL(units_become_others_between_any_two_places),
		REAL(units_are_whole_in_lists_of_odd_pieces),
		REAL(unit_comes_together_from_several_pulls),
		REAL(sum_without_destination_is_the_result),
		REAL(cancelled_job_of_a_worker_stops_after_the_step),
		REAL(output_of_unknown_length_is_bounded_by_capacity),
		REAL(input_of_no_bytes_is_for_kinds_that_say_so),
		REAL(job_that_makes_no_sense_is_refused_before_anything),
		REAL(range_is_changed_in_place),
		REAL(whole_range_is_one_call),
		REAL(bufs_have_what_was_written),
		REAL(begin_and_end_are_called_once_each),
		REAL(kind_that_breaks_its_promises_ends_its_job),
		REAL(job_is_cancelled_at_any_time),
		REAL(deadline_ends_a_job_of_a_registered_kind),
		REAL(source_that_ends_early_is_the_callers_choice),
		REAL(jobs_take_turns_at_one_block_of_staging),
		REAL(chain_goes_from_kind_to_kind),
		REAL(engine_of_the_programs_does_a_registered_kind),
		CASE(kinds_run_in_virtual_time_too),
		CASE(registration_is_checked),
		CASE(table_of_kinds_is_full),
	};

	return harness_run_all(cases, N_OF(cases));
}
