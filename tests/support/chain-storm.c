/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A storm of chains over all engines and domains, with failures, cancels and
 * deadlines at random.  Every callback comes once, each step says what became
 * of it, the bytes are what a model says, and at the end no buffer is missing.
 *
 * A ring runs one chain after another.  A chain has two tracks, each a sequence
 * of moves inside a region that is its own in every place; so the model can do
 * the same moves afterwards, as far as the steps say that they were done.  What
 * a step that failed was to write is old or new, byte by byte.
 *
 * WEIR_TEST_SEED sets the seed, which is printed.
 */

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/support/chain-storm.h"

#include <weir/buf.h>
#include <weir/chain.h>
#include <weir/crc32c.h>
#include <weir/inventory.h>
#include <weir/pool.h>

#include "base/fault.h"

#define FLOWS 16
#define TRACKS 2
#define REGION 16384u
#define PLACE_BYTES (FLOWS * TRACKS * REGION)
#define MOVES 4			/* Of a track, at most. */
#define STEPS (TRACKS * (MOVES + 2) + 2)

_Static_assert(PLACE_BYTES <= STORM_BYTES, "what places have");

/* BUF and FAR_BUF are MEM and FAR by other names; POOL is a buffer of the chain's own,
 * and last. */
enum place { MEM, FIL, PROC, USER, FAR, BUF, FAR_BUF, POOL, N_PLACES };

/* Bytes of a region: where they are really. */
struct move {
	struct weir_job job;
	struct flow *flow;
	int step;
	uint32_t kind;
	bool broken;			/* On purpose. */
	enum place src, dst;
	uint32_t src_off, dst_off, len, crc;
	uint64_t pattern;
	struct weir_buf *src_buf, *dst_buf;	/* Of BUF and FAR_BUF. */
};

struct track {
	struct move moves[MOVES];
	int n;
	struct weir_buf *pool_buf;
	char shadow[N_PLACES][REGION];
};

struct flow {
	struct weir_op op;
	struct storm *storm;
	int index;
	struct weir_chain *chain, *outer;
	unsigned int runs;		/* Of this chain, still to come. */
	bool busy;
	struct track tracks[TRACKS];
};

struct storm {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_mmap *m;
	struct weir_inventory *inv;
	struct weir_pool *pool;
	uint64_t rng;
	unsigned int left, started, ended;
	uint64_t done, failed, cut;	/* Steps. */
	char *mem, *view, *child_mem;
	char *far_mem;			/* What was seen of it last. */
	const struct storm_far *far;	/* NULL: there is none. */
	struct slow user;
	struct weir_domain *file, *process;
	pid_t child;
	int fd;
	struct flow flows[FLOWS];
};

static uint64_t rnd(struct storm *s, uint64_t n)
{
	s->rng ^= s->rng << 13;
	s->rng ^= s->rng >> 7;
	s->rng ^= s->rng << 17;
	return s->rng % n;
}

static bool one_in(struct storm *s, uint64_t n)
{
	return rnd(s, n) == 0;
}

/* Where things are. */

static size_t base_of(const struct flow *l, const struct track *t)
{
	return ((size_t)l->index * TRACKS + (size_t)(t - l->tracks)) * REGION;
}

/* The bytes of @place, for the test to see. */
static char *bytes_of(struct flow *l, struct track *t, enum place place)
{
	struct storm *s = l->storm;
	char *const all[] = { s->mem, s->view, s->child_mem, s->user.mem,
			      s->far_mem, s->mem, s->far_mem };

	return place == POOL ? weir_buf_addr(t->pool_buf) :
			       all[place] + base_of(l, t);
}

/* The same, when they are needed. */
static const char *look_at(struct flow *l, struct track *t, enum place place)
{
	char *bytes = bytes_of(l, t, place);

	if (place == FAR || place == FAR_BUF)
		l->storm->far->see(l->storm->far->addr + base_of(l, t), bytes,
				   REGION, false);
	return bytes;
}

static enum place real_place(enum place place)
{
	return place == BUF ? MEM : place == FAR_BUF ? FAR : place;
}

static char *shadow_of(struct track *t, enum place place)
{
	return t->shadow[real_place(place)];
}

/* NULL if @place is neither BUF nor FAR_BUF. */
static struct weir_buf *take_buf(struct flow *l, struct track *t,
				 enum place place, uint32_t off, uint32_t len)
{
	struct storm *s = l->storm;
	struct weir_buf *buf = NULL;
	struct weir_mmap *m = s->m;
	char *addr = s->mem;

	if (place != BUF && place != FAR_BUF)
		return NULL;
	if (place == FAR_BUF) {
		m = s->far->m;
		addr = (char *)(uintptr_t)s->far->addr;
	}
	assert_int_equal(weir_inventory_get(&buf, s->inv, m,
					    addr + base_of(l, t) + off, len,
					    NULL, 0), 0);
	return buf;
}

static struct weir_operand operand_of(struct flow *l, struct track *t,
				      enum place place, uint32_t off,
				      uint32_t len, struct weir_buf *buf)
{
	struct storm *s = l->storm;
	char *p = bytes_of(l, t, place) + off;

	switch (place) {
	case FIL:
		return weir_operand_at(s->file, base_of(l, t) + off, len);
	case PROC:
		return weir_operand_at(s->process, (uintptr_t)p, len);
	case USER:
		return weir_operand_at(s->user.d, base_of(l, t) + off, len);
	case FAR:
		return weir_operand_at(s->far->domain, s->far->addr +
				       base_of(l, t) + off, len);
	case BUF:
	case FAR_BUF:
		return weir_operand_buf(buf);
	default:
		return weir_operand_mem(p, len);
	}
}

/* Building a chain. */

static enum place some_place(struct storm *s, bool with_pool)
{
	enum place place = (enum place)rnd(s, with_pool ? POOL + 1 : POOL);

	return (place == PROC && !s->process) ||
		       (real_place(place) == FAR && !s->far) ? MEM : place;
}

static bool has_dst(uint32_t kind)
{
	return kind != WEIR_JOB_CRC32C && kind != WEIR_JOB_COMPARE;
}

/* Half of the region is for sources, half for destinations, but a move may read
 * what the one before has written. */
static void choose(struct flow *l, struct track *t, struct move *m)
{
	static const uint32_t kinds[] = {
		WEIR_JOB_COPY, WEIR_JOB_COPY, WEIR_JOB_COPY, WEIR_JOB_FILL,
		WEIR_JOB_CRC32C, WEIR_JOB_COPY_CRC32C, WEIR_JOB_COMPARE,
	};
	struct storm *s = l->storm;
	uint32_t half = REGION / 2;
	bool swap = one_in(s, 2);

	m->kind = kinds[rnd(s, N_OF(kinds))];
	m->src = some_place(s, t->pool_buf);
	m->dst = some_place(s, t->pool_buf);
	m->len = 1 + (uint32_t)rnd(s, one_in(s, 30) ? half : 500);
	m->src_off = (uint32_t)rnd(s, half - m->len + 1) + (swap ? half : 0);
	m->dst_off = (uint32_t)rnd(s, half - m->len + 1) + (swap ? 0 : half);
	m->crc = (uint32_t)rnd(s, 3);
	m->pattern = s->rng;
	m->broken = one_in(s, 60);
}

/* The CRC of what was just copied: one pass, if it is memory. */
static void choose_crc_of(struct move *m, const struct move *copy, bool src)
{
	m->kind = WEIR_JOB_CRC32C;
	m->src = src ? copy->src : copy->dst;
	m->src_off = src ? copy->src_off : copy->dst_off;
	m->len = copy->len;
	m->dst = MEM;
	m->dst_off = 0;
	m->broken = false;
}

static void set_data(struct weir_buf *buf, size_t len)
{
	assert_int_equal(weir_buf_set_data(buf, weir_buf_addr(buf), len), 0);
}

/* Say what the job does; before each run, for bufs have changed by then. */
static void describe(struct flow *l, struct track *t, struct move *m)
{
	struct weir_operand src, dst;

	if (m->src_buf)
		set_data(m->src_buf, m->len);
	if (m->dst_buf)
		set_data(m->dst_buf, has_dst(m->kind) ? 0 : m->len);
	src = operand_of(l, t, m->src, m->src_off, m->len, m->src_buf);
	dst = operand_of(l, t, m->dst, m->dst_off, m->len, m->dst_buf);
	weir_job_copy(&m->job, dst, src);
	if (m->kind == WEIR_JOB_CRC32C)
		m->job.dst = weir_operand_mem(NULL, 0);
	if (m->kind == WEIR_JOB_FILL)
		m->job.src = weir_operand_mem(NULL, 0);
	m->job.kind = m->broken ? 77 : m->kind;
	m->job.pattern = m->pattern;
	m->job.crc = m->crc;
}

static void make_move(struct flow *l, struct track *t, struct move *m)
{
	struct storm *s = l->storm;

	memset(m, 0, sizeof(*m));
	weir_job_init(&m->job, NULL);
	m->flow = l;
	choose(l, t, m);
	if (m > t->moves && m[-1].kind == WEIR_JOB_COPY && one_in(s, 3))
		choose_crc_of(m, m - 1, one_in(s, 2));
	m->src_buf = take_buf(l, t, m->src, m->src_off, m->len);
	m->dst_buf = take_buf(l, t, m->dst, m->dst_off, m->len);
}

static int64_t on_call(struct weir_chain *chain, uint32_t step, void *arg)
{
	struct flow *l = arg;
	struct storm *s = l->storm;

	(void)chain, (void)step;
	assert_true(l->busy);
	if (one_in(s, 30))
		weir_op_cancel(&l->op);
	return one_in(s, 50) ? -EDOM : 0;
}

static void make_track(struct flow *l, struct track *t)
{
	struct storm *s = l->storm;
	int after = WEIR_CHAIN_FIRST, i;

	t->pool_buf = NULL;
	if (one_in(s, 2))
		weir_pool_get(&t->pool_buf, s->pool);
	if (t->pool_buf)
		memcpy(t->shadow[POOL], weir_buf_addr(t->pool_buf), REGION);
	t->n = 1 + (int)rnd(s, MOVES);
	for (i = 0; i < t->n; i++) {
		make_move(l, t, &t->moves[i]);
		after = weir_chain_add_job(l->chain, after, s->dma,
					   &t->moves[i].job);
		assert_true(after >= 0);
		t->moves[i].step = after;
	}
	if (one_in(s, 3)) {
		i = weir_chain_add_call(l->chain, after, on_call, l);
		assert_int_equal(weir_chain_add_dep(l->chain, (uint32_t)i,
						    (uint32_t)after,
						    WEIR_CHAIN_ON_FAILED), 0);
	}
}

static void make_outer(struct flow *l)
{
	l->outer = NULL;
	if (!one_in(l->storm, 4))
		return;
	assert_int_equal(weir_chain_create(&l->outer, l->storm->r, NULL), 0);
	assert_int_equal(weir_chain_add_chain(l->outer, WEIR_CHAIN_FIRST,
					      l->chain), 0);
}

static void flow_build(struct flow *l)
{
	struct weir_chain_opts opts = {
		.size = sizeof(opts), .steps = STEPS, .deps = 4 * STEPS,
	};
	struct storm *s = l->storm;
	int i;

	fault_disarm();
	assert_int_equal(weir_chain_create(&l->chain, s->r, &opts), 0);
	for (i = 0; i < TRACKS; i++) {
		make_track(l, &l->tracks[i]);
		if (one_in(s, 8))
			weir_chain_add_fence(l->chain);
	}
	if (one_in(s, 2))
		weir_chain_add_fence(l->chain);
	i = weir_chain_add_call(l->chain, WEIR_CHAIN_FIRST, on_call, l);
	assert_true(i >= 0);
	make_outer(l);
	l->runs = 1 + (unsigned int)rnd(s, 4);
}

static void put(struct weir_buf **buf)
{
	if (*buf)
		weir_buf_put(*buf);
	*buf = NULL;
}

static void flow_clear(struct flow *l)
{
	struct track *t;
	struct move *m;

	assert_int_equal(weir_chain_destroy(l->outer), 0);
	assert_int_equal(weir_chain_destroy(l->chain), 0);
	l->chain = l->outer = NULL;
	for (t = l->tracks; t < l->tracks + TRACKS; t++) {
		for (m = t->moves; m < t->moves + t->n; m++) {
			put(&m->src_buf);
			put(&m->dst_buf);
		}
		put(&t->pool_buf);
		t->n = 0;
	}
}

/* The model. */

static void model_write(struct move *m, char *to, const char *from)
{
	uint32_t i;

	for (i = 0; i < m->len; i++)
		to[i] = m->kind == WEIR_JOB_FILL ?
			(char)(m->pattern >> (i & 7) * 8) : from[i];
}

static void model_done(struct track *t, struct move *m, int64_t res)
{
	char *src = shadow_of(t, m->src) + m->src_off;
	char *dst = shadow_of(t, m->dst) + m->dst_off;
	uint32_t same = 0;

	if (has_dst(m->kind))
		model_write(m, dst, src);
	if (m->kind == WEIR_JOB_COMPARE) {
		while (same < m->len && src[same] == dst[same])
			same++;
		assert_int_equal(res, same);
		return;
	}
	assert_int_equal(res, m->len);
	if (m->kind == WEIR_JOB_CRC32C || m->kind == WEIR_JOB_COPY_CRC32C)
		assert_int_equal(m->job.crc, weir_crc32c(m->crc, src, m->len));
}

/* What it has begun to write is old or new. */
static void model_broken_off(struct flow *l, struct track *t, struct move *m)
{
	char *dst = shadow_of(t, m->dst) + m->dst_off;
	const char *real;
	char fresh[REGION];
	uint32_t i;

	if (!has_dst(m->kind))
		return;
	real = look_at(l, t, m->dst) + m->dst_off;
	model_write(m, fresh, shadow_of(t, m->src) + m->src_off);
	for (i = 0; i < m->len; i++) {
		if (real[i] != dst[i] && real[i] != fresh[i])
			fail_msg("byte %u is neither old nor new", i);
		dst[i] = real[i];
	}
}

static void model_step(struct flow *l, struct track *t, struct move *m)
{
	struct weir_chain_step st = { .size = sizeof(st) };
	struct storm *s = l->storm;

	assert_int_equal(weir_chain_get_step(l->chain, (uint32_t)m->step, &st),
			 0);
	switch (st.state) {
	case WEIR_STEP_DONE:
		assert_false(m->broken);
		s->done++;
		model_done(t, m, st.res);
		break;
	case WEIR_STEP_FAILED:
		assert_true(st.res < 0);
		s->failed++;
		model_broken_off(l, t, m);
		break;
	case WEIR_STEP_CANCELLED:
		assert_int_equal(st.res, -ECANCELED);
		s->cut++;
		model_broken_off(l, t, m);
		break;
	default:
		assert_int_equal(st.state, WEIR_STEP_SKIPPED);
		break;
	}
}

static void model_compare(struct flow *l, struct track *t)
{
	int place;

	for (place = MEM; place < N_PLACES; place++) {
		if (real_place((enum place)place) != (enum place)place ||
		    (place == POOL && !t->pool_buf) ||
		    (place == FAR && !l->storm->far) ||
		    (place == PROC && !l->storm->process))
			continue;
		if (memcmp(look_at(l, t, (enum place)place), t->shadow[place],
			   REGION))
			fail_msg("ring %d: bytes in place %d differ", l->index,
				 place);
	}
}

static void check_result(struct flow *l, int64_t res)
{
	struct weir_chain_step st = { .size = sizeof(st) };
	int failed = weir_chain_failed_step(l->chain);

	if (res == -ETIMEDOUT || res == -ECANCELED)
		return;
	assert_true((failed < 0) == (res >= 0));
	if (failed < 0)
		return;
	assert_int_equal(weir_chain_get_step(l->chain, (uint32_t)failed, &st),
			 0);
	assert_int_equal(st.state, WEIR_STEP_FAILED);
	assert_int_equal(st.res, res);
}

/* A chain inside another may never have been reached: then what its steps say
 * is of the run before. */
static bool has_run(struct flow *l)
{
	struct weir_chain_step st = { .size = sizeof(st) };

	if (!l->outer)
		return true;
	assert_int_equal(weir_chain_get_step(l->outer, 0, &st), 0);
	return st.state != WEIR_STEP_SKIPPED;
}

/* Running. */

static void flow_start(struct flow *l);

static void flow_ended(struct weir_op *op, int64_t res)
{
	struct flow *l = weir_container_of(op, struct flow, op);
	struct storm *s = l->storm;
	struct track *t;
	bool ran;
	int i;

	assert_int_equal(harness_starting, 0);
	assert_true(l->busy);
	l->busy = false;
	s->ended++;
	fault_disarm();
	ran = has_run(l);
	if (ran)
		check_result(l, res);
	for (t = l->tracks; t < l->tracks + TRACKS; t++) {
		for (i = 0; ran && i < t->n; i++)
			model_step(l, t, &t->moves[i]);
		model_compare(l, t);
	}
	if (!--l->runs)
		flow_clear(l);
	if (s->left && one_in(s, 2))
		flow_start(l);
}

static void flow_start(struct flow *l)
{
	struct storm *s = l->storm;
	struct track *t;
	int i;

	if (!l->chain)
		flow_build(l);
	for (t = l->tracks; t < l->tracks + TRACKS; t++)
		for (i = 0; i < t->n; i++)
			describe(l, t, &t->moves[i]);
	if (one_in(s, 10))
		weir_op_set_deadline(&l->op, weir_reactor_now(s->r) +
				     rnd(s, 200 * WEIR_USEC));
	s->left--;
	s->started++;
	l->busy = true;
	STARTS(weir_chain_start(l->outer ? l->outer : l->chain, &l->op));
	if (one_in(s, 40))
		fault_arm((long)rnd(s, 20));
}

static void turn(struct storm *s)
{
	bool any = false;
	int i, n;

	for (i = 0; i < 8; i++)
		any |= slow_pump(&s->user);
	n = weir_reactor_turn(s->r, any ? 0 : WEIR_MSEC);
	/* The fault may have hit the wait, which says so and can be repeated. */
	assert_true(n >= 0 || fault_disarm());
	if (one_in(s, 6))
		weir_op_cancel(&s->flows[rnd(s, FLOWS)].op);
}

/* Setting up. */

static void child_begin(struct storm *s)
{
	int err;

	s->child_mem = mmap(NULL, PLACE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(s->child_mem, MAP_FAILED);
	s->child = fork();
	if (!s->child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	err = weir_domain_process_create(&s->process, s->child, NULL);
	if (err)
		print_message("# without processes: %s\n", weir_why());
}

static uint64_t seed_of_test(void)
{
	const char *text = getenv("WEIR_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : 20260101;

	print_message("# WEIR_TEST_SEED=%llu\n", (unsigned long long)seed);
	return seed ? seed : 1;
}

static void flows_begin(struct storm *s)
{
	struct flow *l;
	int t, p;

	fill_pattern(s->mem, PLACE_BYTES, 0, 1);
	fill_pattern(s->view, PLACE_BYTES, 0, 2);
	fill_pattern(s->child_mem, PLACE_BYTES, 0, 3);
	fill_pattern(s->user.mem, PLACE_BYTES, 0, 4);
	fill_pattern(s->far_mem, PLACE_BYTES, 0, 5);
	if (s->far)
		s->far->see(s->far->addr, s->far_mem, PLACE_BYTES, true);
	for (l = s->flows; l < s->flows + FLOWS; l++) {
		weir_op_init(&l->op, flow_ended);
		l->storm = s;
		l->index = (int)(l - s->flows);
		for (t = 0; t < TRACKS; t++)
			for (p = MEM; p < BUF; p++)
				memcpy(l->tracks[t].shadow[p],
				       bytes_of(l, &l->tracks[t],
						(enum place)p), REGION);
	}
}

static void memory_begin(struct storm *s, void **state)
{
	struct weir_pool_opts opts = {
		.size = sizeof(opts),
		.bufs = FLOWS,
		.buf_size = REGION,
	};

	s->mem = calloc(1, PLACE_BYTES);
	s->far_mem = calloc(1, PLACE_BYTES);
	s->m = start_mmap(s->mem, PLACE_BYTES, WEIR_MMAP_WRITE);
	assert_int_equal(weir_inventory_create(&s->inv, s->r, NULL), 0);
	assert_int_equal(weir_inventory_attach(s->inv, s->m), 0);
	if (s->far)
		assert_int_equal(weir_inventory_attach(s->inv, s->far->m), 0);
	assert_int_equal(weir_pool_create(&s->pool, s->r, &opts), 0);
	s->fd = test_file(state, "f", PLACE_BYTES, 0);
	s->file = file_domain(s->fd);
	s->view = mmap(NULL, PLACE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		       s->fd, 0);
	assert_ptr_not_equal(s->view, MAP_FAILED);
}

static void storm_begin(struct storm *s, void **state)
{
	child_begin(s);
	s->r = start_reactor(state);
	s->dma = start_dma(s->r, (struct weir_dma_opts){
		.jobs_max = 20, .turn_bytes = 8192, .staging_bufs = 2,
		.staging_size = 4096, .worker_min = 7000, .stream_min = 3000 });
	memory_begin(s, state);
	slow_init(&s->user, 5);
	s->user.fail_in = 40;
	s->user.refuse_in = 10;
	s->rng = seed_of_test();
	flows_begin(s);
}

static void assert_nothing_is_out(struct storm *s)
{
	struct weir_inventory_stats inv = { .size = sizeof(inv) };
	struct weir_pool_stats pool = { .size = sizeof(pool) };

	assert_int_equal(weir_inventory_stats(s->inv, &inv), 0);
	assert_int_equal(inv.out, 0);
	assert_int_equal(inv.free, inv.total);
	assert_int_equal(weir_pool_stats(s->pool, &pool), 0);
	assert_int_equal(pool.out, 0);
	assert_int_equal(pool.free, FLOWS);
	assert_int_equal(weir_domain_users(s->file), 0);
}

static void storm_end(struct storm *s)
{
	assert_int_equal(weir_dma_destroy(s->dma), 0);
	assert_int_equal(weir_inventory_destroy(s->inv), 0);
	assert_int_equal(weir_pool_destroy(s->pool), 0);
	assert_int_equal(weir_mmap_destroy(s->m), 0);
	munmap(s->view, PLACE_BYTES);
	assert_int_equal(weir_domain_destroy(s->file), 0);
	close(s->fd);
	slow_end(&s->user);
	assert_int_equal(weir_domain_destroy(s->process), 0);
	kill(s->child, SIGKILL);
	assert_int_equal(waitpid(s->child, NULL, 0), s->child);
	munmap(s->child_mem, PLACE_BYTES);
	free(s->mem);
	free(s->far_mem);
}

static bool is_quiet(struct storm *s)
{
	struct weir_dma_stats stats = { .size = sizeof(stats) };

	assert_int_equal(weir_dma_stats(s->dma, &stats), 0);
	return s->started == s->ended && !stats.quarantined && !s->user.n_asked;
}

/* Engines and passes that all of this has been through. */
static void assert_all_was_used(struct storm *s)
{
	struct weir_dma_stats d = { .size = sizeof(d) };

	assert_int_equal(weir_dma_stats(s->dma, &d), 0);
	assert_true(d.cpu_jobs && d.file_jobs && d.domain_jobs && d.bounced &&
		    d.fused);
	assert_true(!s->process || d.process_jobs);
	assert_true(s->done && s->failed && s->cut);
	print_message("# steps: %llu done, %llu failed, %llu cancelled; %llu "
		      "fused, %llu bounced\n", (unsigned long long)s->done,
		      (unsigned long long)s->failed, (unsigned long long)s->cut,
		      (unsigned long long)d.fused,
		      (unsigned long long)d.bounced);
}

void chain_storm(void **state, const struct storm_far *far)
{
	struct storm *s = calloc(1, sizeof(*s));
	unsigned int n = want_long() ? 500000 : scaled(4000) + 500;
	int i;

	s->far = far;
	storm_begin(s, state);
	s->left = n;
	while (s->left || !is_quiet(s)) {
		for (i = 0; i < FLOWS && s->left; i++)
			if (!s->flows[i].busy && one_in(s, 2))
				flow_start(&s->flows[i]);
		turn(s);
	}
	for (i = 0; i < FLOWS; i++)
		if (s->flows[i].chain)
			flow_clear(&s->flows[i]);
	assert_int_equal(s->ended, n);
	fault_disarm();
	some_turns(s->r, 3);
	assert_nothing_is_out(s);
	assert_all_was_used(s);
	storm_end(s);
	free(s);
}
