/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cpu engine: memory to memory, and computations over memory.  Every other
 * engine is tested against it.
 *
 * The reactor's thread does the work, but touches only so many bytes in a turn,
 * those it reads and those it writes: a job that is too large for what is
 * left of the turn's budget waits in a queue, and the queue is served in the
 * next turns, slice by slice, all jobs in rotation.
 * From .worker_min bytes on a worker does all of it, if there can be one.
 */

#include <errno.h>
#include <string.h>

#include "base/copy.h"
#include "base/crc32c.h"
#include "dma/kind.h"
#include "reactor/io.h"

/* Bytes touched in a slice: 10 to 50 us, depending on what the caches hold. */
#define SLICE ((uint64_t)512 << 10)

#define ONE_SIDED (1u << WEIR_JOB_FILL | 1u << WEIR_JOB_CRC32C | \
		   1u << WEIR_JOB_FETCH_ADD | 1u << WEIR_JOB_COMPARE_SWAP)

static inline unsigned int is_two_sided(const struct weir_job *job)
{
	return ~(ONE_SIDED >> job->kind) & 1;
}

/* Bytes that are touched, read or written, for each byte that @job does. */
static inline uint64_t touches(const struct weir_job *job)
{
	if (unlikely(kind_is_user(job->kind)))
		return kind_of(job)->weight;
	return 1 + is_two_sided(job) + job->n_extra;
}

static int can(void *arg, const struct weir_engine_query *q, const char **why)
{
	(void)arg;
	*why = "only memory of this process";
	return (!q->src || domain_is_memory(q->src)) &&
	       (!q->dst || domain_is_memory(q->dst));
}

/* The block of a job with more than two operands: an XOR reads its destination
 * again, and a copy to two places its source. */
#define XOR_BLOCK ((uint64_t)4 << 10)
#define DUALCAST_BLOCK ((uint64_t)64 << 10)

static void *at(const struct cursor *c)
{
	return (void *)(uintptr_t)c->addr;
}

typedef uint64_t vector __attribute__((vector_size(32), aligned(1), may_alias));

/* The next 8 bytes of @pattern, which is as in memory, after @phase of them. */
static uint64_t word_at(uint64_t pattern, uint64_t phase)
{
	unsigned int shift = (unsigned int)(phase & 7) * 8;
	char bytes[8];
	uint64_t word;
	size_t i;

	for (i = 0; i < 8; i++)
		bytes[i] = (char)(pattern >> ((shift + 8 * i) & 63));
	memcpy(&word, bytes, 8);
	return word;
}

static void fill_words(char *p, size_t len, uint64_t word)
{
	vector words = { word, word, word, word };
	size_t i;

	for (i = 0; i + sizeof(words) <= len; i += sizeof(words))
		*(vector *)(p + i) = words;
	memcpy(p + i, &words, len - i);
}

/* Continue the pattern where the last piece ended.  If all its bytes are equal,
 * memset() fills. */
static void fill(char *p, size_t len, uint64_t pattern, uint64_t phase)
{
	uint8_t byte = (uint8_t)pattern;

	if (pattern == byte * UINT64_C(0x0101010101010101))
		memset(p, byte, len);
	else
		fill_words(p, len, word_at(pattern, phase));
}

/* The same past the cache. */
static void fill_past(char *p, size_t len, uint64_t pattern, uint64_t phase)
{
	size_t head = copy_to_line(p), lines;

	if (head > len)
		head = len;
	lines = (len - head) & ~(COPY_LINE - 1);
	fill(p, head, pattern, phase);
	fill_stream(p + head, word_at(pattern, phase + head), lines);
	fill(p + head + lines, len - head - lines, pattern, phase + head);
}

/* Another process may share the memory: what differed may be equal by now. */
static size_t equal_bytes(const char *a, const char *b, size_t len)
{
	size_t i = 0;

	if (!memcmp(a, b, len))
		return len;
	while (i + 64 <= len && !memcmp(a + i, b + i, 64))
		i += 64;
	while (i < len && a[i] == b[i])
		i++;
	return i;
}

/* *@to ^= *@from */
static void xor_into(char *to, const char *from, size_t n)
{
	size_t i;

	for (i = 0; i + sizeof(vector) <= n; i += sizeof(vector))
		*(vector *)(to + i) ^= *(const vector *)(from + i);
	for (; i < n; i++)
		to[i] ^= from[i];
}

/* Copy @n bytes, of a job of p->total. */
static void copy(const struct job_priv *p, void *to, const void *from, size_t n)
{
	if (p->total < p->dma->stream_min)
		memcpy(to, from, n);
	else
		copy_stream(to, from, n);
}

/* The same for each operand beside: at most a block, all in the cache. */
static void piece_extra(struct weir_job *job, struct job_priv *p, size_t n)
{
	bool is_xor = job->kind == WEIR_JOB_XOR;
	struct cursor c;
	uint64_t done, some;
	uint32_t i;

	for (i = 0; i < job->n_extra; i++) {
		extra_cursor(job, i, p->done, &c);
		for (done = 0; done < n; done += some) {
			some = n - done < c.len ? n - done : c.len;
			if (is_xor)
				xor_into((char *)at(&p->dst) + done, at(&c),
					 some);
			else
				copy(p, at(&c), (char *)at(&p->src) + done,
				     some);
			cursor_advance(&c, some);
		}
	}
}

/* Process @n bytes, which lie in one piece of each side.  Returns how many. */
static size_t piece(struct weir_job *job, struct job_priv *p, size_t n)
{
	size_t same;

	switch (job->kind) {
	case WEIR_JOB_FILL:
		if (p->total < p->dma->stream_min)
			fill(at(&p->dst), n, job->pattern, p->done);
		else
			fill_past(at(&p->dst), n, job->pattern, p->done);
		return n;
	case WEIR_JOB_CRC32C:
		p->crc = crc32c(p->crc, at(&p->src), n);
		return n;
	case WEIR_JOB_COPY_CRC32C:
		p->crc = p->total < p->dma->stream_min ?
			crc32c_copy(p->crc, at(&p->dst), at(&p->src), n) :
			crc32c_copy_stream(p->crc, at(&p->dst), at(&p->src), n);
		return n;
	case WEIR_JOB_COMPARE:
		same = equal_bytes(at(&p->src), at(&p->dst), n);
		p->differ = same < n;
		return same;
	case WEIR_JOB_XOR:
		memcpy(at(&p->dst), at(&p->src), n);
		piece_extra(job, p, n);
		return n;
	case WEIR_JOB_FETCH_ADD:
	case WEIR_JOB_COMPARE_SWAP:
		p->old = atomic_do(job, at(&p->dst));
		return n;
	case WEIR_JOB_DUALCAST:
		copy(p, at(&p->dst), at(&p->src), n);
		piece_extra(job, p, n);
		return n;
	default:
		copy(p, at(&p->dst), at(&p->src), n);
		return n;
	}
}

static bool finished(const struct job_priv *p)
{
	return p->done == p->total || p->differ;
}

/* The same of any job: what a registered kind has done is its output, and it
 * tells when that is complete. */
static bool finished_any(const struct weir_job *job)
{
	const struct job_priv *p = job_priv((struct weir_job *)job);

	return unlikely(kind_is_user(job->kind)) ? p->differ : finished(p);
}

static uint64_t at_most_a_block(const struct weir_job *job, uint64_t n)
{
	uint64_t block = job->kind == WEIR_JOB_XOR ? XOR_BLOCK : DUALCAST_BLOCK;

	return n < block ? n : block;
}

/* Do at most @max bytes, as far as there are. */
static void slice(struct weir_job *job, uint64_t max)
{
	struct job_priv *p = job_priv(job);
	uint64_t n;

	while (max && !finished(p)) {
		n = max;
		if (p->src.side && p->src.len < n)
			n = p->src.len;
		if (p->dst.side && p->dst.len < n)
			n = p->dst.len;
		if (unlikely(job->n_extra))
			n = at_most_a_block(job, n);
		max -= n;
		n = piece(job, p, n);
		p->done += n;
		if (p->src.side)
			cursor_advance(&p->src, n);
		if (p->dst.side)
			cursor_advance(&p->dst, n);
	}
}

/* Registered kinds: .run() gets the pieces of the operands themselves. */

/* The least that a call gets, so that a nearly spent turn does not make many
 * small ones. */
#define STEP_MIN ((uint64_t)4 << 10)

/* Returns how much of @c a call gets: whole units; 0: a piece ends before
 * one. */
static size_t part_of(const struct cursor *c, uint64_t max, uint32_t unit)
{
	uint64_t n = c->len < max ? c->len : max;

	return (size_t)(n - n % unit);
}

static void gather(char *to, struct cursor c, size_t n)
{
	size_t some;

	for (; n; n -= some) {
		some = c.len < n ? (size_t)c.len : n;
		memcpy(to, (const void *)(uintptr_t)c.addr, some);
		to += some;
		cursor_advance(&c, some);
	}
}

static void scatter(struct cursor c, const char *from, size_t n)
{
	size_t some;

	for (; n; n -= some) {
		some = c.len < n ? (size_t)c.len : n;
		memcpy((void *)(uintptr_t)c.addr, from, some);
		from += some;
		cursor_advance(&c, some);
	}
}

/* The work of call_once() where a unit is divided between two pieces. */
struct divided {
	char in[WEIR_KIND_UNIT_MAX];
	char out[WEIR_KIND_UNIT_MAX];
};

/* One unit, or the few bytes that are left. */
static int call_divided(struct weir_job *job, struct kind_piece *piece)
{
	struct job_priv *p = job_priv(job);
	const struct kind_state *st = kind_state(job);
	struct divided d;
	int res;

	piece->in_len = p->src.left < st->in_unit ? (size_t)p->src.left :
						    st->in_unit;
	piece->last = piece->in_len == p->src.left;
	gather(d.in, p->src, piece->in_len);
	piece->in = d.in;
	piece->out = NULL;
	piece->out_len = 0;
	if (p->dst.side) {
		piece->out_len = p->dst.left < st->out_unit ?
			(size_t)p->dst.left : st->out_unit;
		piece->is_all = piece->out_len == p->dst.left;
		piece->out = d.out;
	}
	res = kind_step(job, piece);
	if (res >= 0 && p->dst.side)
		scatter(p->dst, d.out, piece->out_len);
	return res;
}

/* One call of .run(), for about @max bytes; whole ones get everything. */
static int call_once(struct weir_job *job, uint64_t max,
		     struct kind_piece *piece)
{
	struct job_priv *p = job_priv(job);
	const struct kind_state *st = kind_state(job);
	bool whole = kind_of(job)->flags & WEIR_KIND_WHOLE;

	if (max < STEP_MIN)
		max = STEP_MIN;
	if (whole)
		max = UINT64_MAX;
	piece->in = (const char *)(uintptr_t)p->src.addr;
	piece->in_len = part_of(&p->src, max < st->in_unit ? st->in_unit : max,
				st->in_unit);
	piece->last = piece->in_len == p->src.left;
	piece->out = NULL;
	piece->out_len = 0;
	piece->is_all = true;
	if (!piece->in_len && p->src.left)
		return call_divided(job, piece);
	if (p->dst.side) {
		piece->out = (char *)(uintptr_t)p->dst.addr;
		piece->out_len = part_of(&p->dst,
					 max < st->out_unit ? st->out_unit :
							      max, 1);
		piece->is_all = piece->out_len == p->dst.left;
		if (piece->out_len < st->out_unit && !piece->is_all)
			return call_divided(job, piece);
	}
	return kind_step(job, piece);
}

/*
 * Do about @max bytes of @job, of a registered kind.  Sets .differ when it is
 * complete.  Returns how many, or an errno.
 */
static int64_t kind_slice(struct weir_job *job, uint64_t max)
{
	struct job_priv *p = job_priv(job);
	struct kind_piece piece;
	uint64_t used = 0, some;
	int res;

	do {
		res = call_once(job, max - used, &piece);
		if (res < 0)
			return res;
		cursor_skip(&p->src, piece.in_len);
		if (p->dst.side)
			cursor_skip(&p->dst, piece.out_len);
		p->done += p->dst.side ? piece.out_len : piece.in_len;
		p->differ = res == 1;
		some = piece.in_len > piece.out_len ? piece.in_len :
						      piece.out_len;
		used += some ? some : 1;
	} while (!p->differ && used < max);
	return (int64_t)used;
}

/* Do the next slice, unless the memory is revoked.  Returns how many bytes it
 * had, or -ESTALE, or the errno of a registered kind. */
static int64_t next_slice(struct weir_job *job, uint64_t max)
{
	const struct job_priv *p = job_priv(job);
	uint64_t before = p->done;

	if (unlikely(job_is_stale(job)))
		return -ESTALE;
	if (unlikely(kind_is_user(job->kind)))
		return kind_slice(job, max);
	slice(job, max);
	return (int64_t)(p->done - before);
}

static void enqueue(struct weir_dma *dma, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	p->q_next = NULL;
	p->q_pprev = dma->queue_last;
	*dma->queue_last = job;
	dma->queue_last = &p->q_next;
}

static void dequeue(struct weir_dma *dma, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	*p->q_pprev = p->q_next;
	if (p->q_next)
		job_priv(p->q_next)->q_pprev = p->q_pprev;
	else
		dma->queue_last = p->q_pprev;
	p->q_pprev = NULL;
}

/* Have the queue served in the next turn. */
static void arm_tick(struct weir_dma *dma)
{
	static const struct weir_op_class tick_class = { .name = "DMA turn" };

	if (weir_op_is_busy(&dma->tick))
		return;
	op_enlist(dma->r, &dma->tick, &tick_class);
	op_complete(&dma->tick, 0);
}

static uint64_t budget(struct weir_dma *dma)
{
	if (dma->budget_turn != dma->r->stats.turns) {
		dma->budget_turn = dma->r->stats.turns;
		dma->budget = dma->turn_bytes;
	}
	return dma->budget;
}

/* Take @bytes from the turn's budget.  False: too few are left, or other jobs
 * wait for it already. */
static inline bool spend(struct weir_dma *dma, uint64_t bytes)
{
	if (unlikely(dma->queue || bytes > budget(dma)))
		return false;
	dma->budget -= bytes;
	return true;
}

/* A job that compares may be done with fewer bytes than it was given. */
static void serve(struct weir_op *op, int64_t res)
{
	struct weir_dma *dma = weir_container_of(op, struct weir_dma, tick);
	struct weir_job *job;
	uint64_t max, spent;
	int64_t n;

	(void)res;
	while ((job = dma->queue) && (max = budget(dma) / touches(job))) {
		n = next_slice(job, max < SLICE / touches(job) ?
					    max : SLICE / touches(job));
		/* One of a registered kind may have been a little more. */
		spent = n > 0 ? (uint64_t)n * touches(job) : 0;
		dma->budget -= spent < dma->budget ? spent : dma->budget;
		dequeue(dma, job);
		if (n < 0 || finished_any(job))
			job_end(job, n < 0 ? n : 0);
		else
			enqueue(dma, job);
	}
	if (dma->queue)
		arm_tick(dma);
}

/* Runs on a worker.  The count of bytes is in p->done. */
static int64_t work(void *arg)
{
	struct weir_job *job = arg;
	struct job_priv *p = job_priv(job);
	int64_t n = 0;

	while (n >= 0 && !finished_any(job)) {
		if (atomic_load_explicit(&p->stop, memory_order_relaxed))
			return -ECANCELED;
		n = next_slice(job, SLICE / touches(job));
	}
	return n < 0 ? n : 0;
}

/* A job of a registered kind: at once, if it is small, by a worker if it is
 * large, or else in slices. */
static int start_kind(struct weir_dma *dma, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);
	uint64_t total = p->total < UINT32_MAX ? p->total : UINT32_MAX;
	int64_t n;
	int err = kind_begin(job);

	if (err)
		return err;
	if ((p->total >= dma->worker_min ||
	     p->total >= kind_worker_min(job)) && !worker_ensure(dma->r)) {
		dma->stats.worker_jobs++;
		job_work(job, work);
	} else if (job_slice(p, total) == p->total &&
		   spend(dma, total * touches(job))) {
		do
			n = next_slice(job, SLICE / touches(job));
		while (n >= 0 && !finished_any(job) &&
		       spend(dma, (uint64_t)n * touches(job)));
		if (n < 0 || finished_any(job)) {
			job_end(job, n < 0 ? n : 0);
			return 0;
		}
		enqueue(dma, job);
		arm_tick(dma);
	} else {
		enqueue(dma, job);
		arm_tick(dma);
	}
	return 0;
}

static int start(void *arg, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);
	struct weir_dma *dma = arg;

	if (unlikely(kind_is_user(job->kind)))
		return start_kind(dma, job);
	if (p->total >= dma->worker_min && !worker_ensure(dma->r)) {
		dma->stats.worker_jobs++;
		job_work(job, work);
	} else if (p->total < UINT32_MAX && job_slice(p, p->total) == p->total &&
		   spend(dma, p->total * touches(job))) {
		slice(job, p->total);
		job_end(job, 0);
	} else {
		enqueue(dma, job);
		arm_tick(dma);
	}
	return 0;
}

bool cpu_at_once(struct weir_dma *dma, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);
	struct engine *e = &dma->engines[ENGINE_CPU];

	reactor_check_thread(dma->r);
	/* One operand or two, so this does not wrap around. */
	if (p->total >= dma->worker_min ||
	    !spend(dma, p->total << is_two_sided(job)))
		return false;
	p->dma = dma;
	p->crc = job->crc;
	p->done = 0;
	p->src.addr = job->src.addr;
	p->dst.addr = job->dst.addr;
	p->done = piece(job, p, p->total);
	e->stats.jobs++;
	e->stats.bytes += p->done;
	return true;
}

static void cancel(void *arg, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	if (p->q_pprev) {
		dequeue(arg, job);
		job_end(job, -ECANCELED);
		return;
	}
	job_work_cancel(job);
}

void cpu_init(struct weir_dma *dma)
{
	reactor_check_thread(dma->r);
	dma->queue_last = &dma->queue;
	if (!dma->stream_min)
		dma->stream_min = copy_stream_min();
	dma->budget_turn = UINT64_MAX;
	weir_op_init(&dma->tick, serve);
}

const struct engine_kind engine_cpu = {
	.ops = {
		.size = sizeof(struct weir_engine_ops),
		.name = "cpu",
		.can = can,
		.start = start,
		.cancel = cancel,
	},
};
