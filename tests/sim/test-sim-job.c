/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs by chance, in a world where everything goes wrong: of all kinds, between
 * all places, on three reactors, cancelled and timed out, and chains of them
 * that hop between the reactors.
 *
 * A shadow has the bytes that each place must have.  A job locks the slots that
 * it is about, so it is known at its start what its destination will be.  When
 * it has ended:
 *
 *   - its callback has come once, and none comes for a start that was refused;
 *   - what it says that it has moved is there, and what it was not to write is
 *     as it was; of what lies between, each byte is old or new;
 *   - a CRC, the result of a comparison and the data length of a buf are right,
 *     or as before if it has failed;
 *   - the error is one of those that the place can have.
 *
 * When there are no more faults all that is in flight ends, all can be
 * destroyed, and a second run of the seed is the same one.
 */

#include "tests/support/sim-fixture.h"

#include <weir/buf.h>
#include <weir/chain.h>
#include <weir/crc32c.h>
#include <weir/inventory.h>
#include <weir/sim/file.h>

#define N_REACTORS 3
#define SLOT 20011
#define N_SLOTS 12
#define SIZE (SLOT * N_SLOTS)
#define N_JOBS 12		/* In flight at once. */
#define N_CHAINS 2
#define STEPS 3
#define ACTIONS 80
#define PIECES 3
#define BUFS 6

enum { MEMORY, PEER, PEER2, CARD, CARD2, MAPPED, FILE1, DIRECT, N_PLACES };

static const char *const paths[N_PLACES] = {
	[FILE1] = "a file", [DIRECT] = "a direct file",
};

/* Where bytes are, and what they must be. */
struct place {
	struct weir_domain *domain;	/* NULL: memory. */
	struct weir_sim_peer *peer;
	struct weir_sim_card *card;
	const char *path;
	unsigned char shadow[SIZE];
	int readers[N_SLOTS];
	bool writer[N_SLOTS];
	uint64_t opened, epoch;		/* Of what was lost. */
};

/* A range in a slot. */
struct range {
	struct place *p;
	unsigned int slot;
	unsigned int off, len;
	struct iovec iov[PIECES];
	uint64_t epoch;
};

struct run;

struct work {
	struct jrec rec;
	struct run *run;
	bool busy;
	struct range src, src2, dst, dst2;
	struct weir_operand more;
	struct weir_buf *src_buf;	/* That it is about, or NULL. */
	struct weir_buf *buf;		/* Of the destination, */
	unsigned int buf_len;		/* with so much data. */
	uint32_t crc;
	unsigned char new[SLOT];
};

struct line {
	struct weir_chain *chain;
	struct weir_op op;
	struct run *run;
	bool busy;
	int calls;
	struct weir_job jobs[STEPS];
	struct range from, middle, to;
	uint32_t crc;
};

struct driver {
	struct weir_op op;
	struct weir_op stop;		/* Of the context. */
	struct run *run;
	unsigned int left;
};

struct run {
	struct weir_sim *sim;
	struct weir_reactor *r[N_REACTORS];
	struct weir_dma *dma[N_REACTORS];
	struct weir_inventory *inv[N_REACTORS];
	struct weir_mmap *mmap;
	struct driver drivers[N_REACTORS];
	struct place places[N_PLACES];
	unsigned char memory[SIZE];
	struct work works[N_JOBS];
	struct line lines[N_CHAINS];
	uint64_t started, refused, ended, failed, short_ones, chains, lost;
};

static uint64_t below(struct run *run, uint64_t n)
{
	return weir_sim_random(run->sim) % n;
}

/* Places. */

static void peek(struct run *run, const struct place *p, unsigned int slot,
		 unsigned char *ret)
{
	size_t at = (size_t)slot * SLOT;

	if (p->peer)
		memcpy(ret, (char *)weir_sim_peer_bytes(p->peer) + at, SLOT);
	else if (p->card)
		assert_int_equal(weir_sim_card_get(p->card, at, ret, SLOT), 0);
	else if (p->path)
		assert_int_equal(weir_sim_file_read(run->sim, p->path, ret,
						    SLOT, at), SLOT);
	else
		memcpy(ret, run->memory + at, SLOT);
}

/* Changes when all that was there is lost. */
static uint64_t epoch_of(const struct place *p)
{
	struct weir_sim_card_stats stats = { .size = sizeof(stats) };

	if (!p->card)
		return 0;
	assert_int_equal(weir_sim_card_stats(p->card, &stats), 0);
	return stats.resets + p->opened;
}

static void believe(struct run *run, struct place *p, unsigned int slot)
{
	peek(run, p, slot, p->shadow + (size_t)slot * SLOT);
}

/* What is lost is lost; slots that are being written are looked at later. */
static void catch_up(struct run *run, struct place *p)
{
	uint64_t epoch = epoch_of(p);

	if (epoch == p->epoch)
		return;
	p->epoch = epoch;
	run->lost++;
	for (unsigned int i = 0; i < N_SLOTS; i++)
		if (!p->writer[i])
			believe(run, p, i);
}

static bool is_lost(const struct range *x)
{
	return x->p && x->epoch != epoch_of(x->p);
}

static unsigned char *shadow_of(const struct range *x)
{
	return x->p->shadow + (size_t)x->slot * SLOT + x->off;
}

/* A free range of @len bytes; to be written, or only read. */
static bool draw_range(struct run *run, struct range *x, struct place *p,
		       unsigned int len, bool write)
{
	memset(x, 0, sizeof(*x));
	catch_up(run, p);
	x->slot = (unsigned int)below(run, N_SLOTS);
	if (p->writer[x->slot] || (write && p->readers[x->slot]))
		return false;
	x->len = len;
	x->off = (unsigned int)below(run, SLOT - len + 1);
	x->epoch = p->epoch;
	x->p = p;
	if (write)
		p->writer[x->slot] = true;
	else
		p->readers[x->slot]++;
	return true;
}

static void unlock(struct range *x, bool write)
{
	if (!x->p)
		return;
	if (write)
		x->p->writer[x->slot] = false;
	else
		x->p->readers[x->slot]--;
	x->p = NULL;
}

/* In one piece, or in several that lie behind each other. */
static struct weir_operand operand_of(struct run *run, struct range *x)
{
	uint64_t at = (uint64_t)x->slot * SLOT + x->off;
	unsigned int n = 1 + (unsigned int)below(run, PIECES), done = 0, len;

	if (!x->p->domain)
		at += (uintptr_t)run->memory;
	if (n == 1 || x->len < n)
		return weir_operand_at(x->p->domain, at, x->len);
	for (unsigned int i = 0; i < n; i++) {
		len = i + 1 < n ? (unsigned int)below(run, x->len - done) :
				  x->len - done;
		x->iov[i].iov_base = (void *)(uintptr_t)(at + done);
		x->iov[i].iov_len = len;
		done += len;
	}
	return weir_operand_iov(x->p->domain, x->iov, n);
}

/* Looking at what has happened. */

static void check_error(int64_t res)
{
	static const int known[] = {
		-EACCES, -EREMOTEIO, -ETIMEDOUT, -EIO, -ECANCELED, -ENODEV,
		-ENODATA, -EBADFD, -ENOSPC, -EDQUOT, -ENOMEM,
		-EFBIG, -EPERM, -ENOBUFS,
	};

	for (size_t i = 0; i < N_OF(known); i++)
		if (res == known[i])
			return;
	fail_msg("a job has ended with %lld", (long long)res);
}

/*
 * The slot of @x: what is not of @x is as it was; the first @n bytes of it are
 * @new, and of the rest each is old or, if @maybe, new.
 */
static void check_slot(struct run *run, struct range *x,
		       const unsigned char *new, uint64_t n, bool maybe)
{
	unsigned char *old = x->p->shadow + (size_t)x->slot * SLOT;
	unsigned char is[SLOT];

	peek(run, x->p, x->slot, is);
	if (!is_lost(x)) {
		assert_memory_equal(is, old, x->off);
		assert_memory_equal(is + x->off, new, n);
		for (unsigned int i = (unsigned int)n; i < x->len; i++)
			if (is[x->off + i] != old[x->off + i] &&
			    (!maybe || is[x->off + i] != new[i]))
				fail_msg("byte %u of %u is neither", i,
					 x->len);
		assert_memory_equal(is + x->off + x->len,
				    old + x->off + x->len,
				    SLOT - x->off - x->len);
	}
	memcpy(old, is, SLOT);
}

static void check_source(struct run *run, const struct range *x)
{
	unsigned char is[SLOT];

	if (!x->p || is_lost(x))
		return;
	peek(run, x->p, x->slot, is);
	assert_memory_equal(is, x->p->shadow + (size_t)x->slot * SLOT, SLOT);
}

static uint64_t first_difference(const unsigned char *a,
				 const unsigned char *b, uint64_t n)
{
	uint64_t i = 0;

	while (i < n && a[i] == b[i])
		i++;
	return i;
}

static uint64_t same_bytes(const struct work *w)
{
	return first_difference(w->new, shadow_of(&w->dst), w->dst.len);
}

static bool has_crc(const struct weir_job *job)
{
	return job->kind == WEIR_JOB_CRC32C ||
	       job->kind == WEIR_JOB_COPY_CRC32C;
}

static void check_result(struct work *w, int64_t res)
{
	const struct weir_job *job = &w->rec.job;
	uint64_t n = w->rec.detail.bytes;
	bool lost = is_lost(&w->src) || is_lost(&w->src2);

	assert_true(n <= (w->src.p ? w->src.len : w->dst.len));
	if (res < 0) {
		check_error(res);
		if (has_crc(job))
			assert_int_equal(job->crc, w->crc);
		return;
	}
	assert_int_equal(res, (int64_t)n);
	if (job->kind == WEIR_JOB_COMPARE && !lost && !is_lost(&w->dst))
		assert_true(job->flags & WEIR_JOB_SHORT_OK ?
			    (uint64_t)res <= same_bytes(w) :
			    (uint64_t)res == same_bytes(w));
	else if (job->kind != WEIR_JOB_COMPARE &&
		 !(job->flags & WEIR_JOB_SHORT_OK))
		assert_int_equal(n, w->src.p ? w->src.len : w->dst.len);
	if (has_crc(job) && !lost)
		assert_int_equal(job->crc, weir_crc32c(w->crc, w->new, n));
}

static void check_buf(struct work *w, int64_t res)
{
	if (w->buf)
		assert_int_equal(weir_buf_list_data_len(w->buf), w->buf_len +
				 (res < 0 ? 0 : (uint64_t)res));
	if (w->src_buf)
		assert_int_equal(weir_buf_list_data_len(w->src_buf),
				 w->src.len);
}

static void check_bytes(struct work *w, int64_t res)
{
	uint64_t n = w->rec.detail.bytes;
	bool maybe = res < 0;

	check_source(w->run, &w->src);
	check_source(w->run, &w->src2);
	if (w->rec.job.kind == WEIR_JOB_COMPARE) {
		check_source(w->run, &w->dst);
		return;
	}
	/* A source that was lost meanwhile may have been read before it was. */
	if (is_lost(&w->src) || is_lost(&w->src2)) {
		if (w->dst.p)
			believe(w->run, w->dst.p, w->dst.slot);
		if (w->dst2.p)
			believe(w->run, w->dst2.p, w->dst2.slot);
		return;
	}
	if (w->dst.p)
		check_slot(w->run, &w->dst, w->new, n, maybe);
	if (w->dst2.p)
		check_slot(w->run, &w->dst2, w->new, n, maybe);
}

static void put_bufs(struct work *w)
{
	if (w->buf)
		weir_buf_put(w->buf);
	if (w->src_buf)
		weir_buf_put(w->src_buf);
	w->buf = NULL;
	w->src_buf = NULL;
}

static void let_go(struct work *w)
{
	bool compares = w->rec.job.kind == WEIR_JOB_COMPARE;

	unlock(&w->src, false);
	unlock(&w->src2, false);
	unlock(&w->dst, !compares);
	unlock(&w->dst2, true);
	w->busy = false;
}

static void start_one(struct run *run, unsigned int i);

static void job_ended(struct weir_op *op, int64_t res)
{
	struct work *w = weir_container_of(op, struct work, rec.job.op);
	struct run *run = w->run;

	assert_true(w->busy);
	jrec_done(op, res);
	assert_int_equal(w->rec.calls, 1);
	w->run->ended++;
	w->run->failed += res < 0;
	w->run->short_ones += res >= 0 && w->rec.job.flags & WEIR_JOB_SHORT_OK;
	weir_sim_note(w->run->sim, "job", (uint64_t)res);
	weir_sim_note(w->run->sim, "bytes", w->rec.detail.bytes);
	check_result(w, res);
	check_bytes(w, res);
	check_buf(w, res);
	put_bufs(w);
	let_go(w);
	/* Another one from the callback, if not for ever. */
	if (!below(run, 4))
		start_one(run, op->reactor == run->r[0] ? 0 :
			       op->reactor == run->r[1] ? 1 : 2);
}

/* Making jobs. */

static unsigned int draw_len(struct run *run)
{
	static const unsigned int most[] = { 16, 600, SLOT, SLOT };

	return 1 + (unsigned int)below(run, most[below(run, 4)]);
}

static struct place *draw_place(struct run *run)
{
	return &run->places[below(run, N_PLACES)];
}

/* The window from @from to @to of a slot, with @data bytes of data, as the last
 * of the list @head.  Returns the head. */
static struct weir_buf *add_buf(struct run *run, unsigned int i,
				struct weir_buf *head, unsigned char *slot,
				unsigned int from, unsigned int to,
				unsigned int data)
{
	struct weir_buf *buf;

	assert_int_equal(weir_inventory_get(&buf, run->inv[i], run->mmap,
					    slot + from, to - from, NULL,
					    data), 0);
	if (!head)
		return buf;
	assert_int_equal(weir_buf_chain(head, buf), 0);
	return head;
}

/* @x as the data of some bufs; or as their tail capacities, the first of
 * which has some data before. */
static struct weir_buf *as_bufs(struct run *run, unsigned int i,
				const struct range *x, bool empty)
{
	unsigned char *slot = run->memory + (size_t)x->slot * SLOT;
	unsigned int n = 1 + (unsigned int)below(run, BUFS), at, left, some;
	struct weir_buf *head = NULL;

	at = empty ? 0 : x->off;
	left = x->len;
	for (unsigned int k = 0; left; k++) {
		some = k + 1 < n ? 1 + (unsigned int)below(run, left) : left;
		left -= some;
		if (empty && !k)
			some += x->off;
		head = add_buf(run, i, head, slot, at, at + some, !empty ?
			       some : k ? 0 : x->off);
		at += some;
	}
	return head;
}

static void use_bufs(struct work *w, unsigned int i)
{
	struct run *run = w->run;
	struct place *memory = &run->places[MEMORY];
	uint32_t kind = w->rec.job.kind;

	if (w->src.p == memory && !below(run, 3)) {
		w->src_buf = as_bufs(run, i, &w->src, false);
		w->rec.job.src = weir_operand_buf(w->src_buf);
	}
	if (w->dst.p == memory && kind != WEIR_JOB_COMPARE && below(run, 2)) {
		w->buf_len = w->dst.off;
		w->buf = as_bufs(run, i, &w->dst, true);
		w->rec.job.dst = weir_operand_buf(w->buf);
	}
}

static bool draw_sides(struct work *w, uint32_t kind, unsigned int len)
{
	struct run *run = w->run;
	struct place *p = draw_place(run);

	if (kind != WEIR_JOB_FILL && !draw_range(run, &w->src, p, len, false))
		return false;
	if (kind == WEIR_JOB_XOR && !draw_range(run, &w->src2, p, len, false))
		return false;
	if (kind == WEIR_JOB_CRC32C)
		return true;
	p = draw_place(run);
	if (!draw_range(run, &w->dst, p, len, kind != WEIR_JOB_COMPARE))
		return false;
	return kind != WEIR_JOB_DUALCAST ||
	       draw_range(run, &w->dst2, p, len, true);
}

static uint32_t draw_kind(struct run *run)
{
	static const uint32_t kinds[] = {
		WEIR_JOB_COPY, WEIR_JOB_COPY, WEIR_JOB_COPY, WEIR_JOB_FILL,
		WEIR_JOB_CRC32C, WEIR_JOB_COPY_CRC32C, WEIR_JOB_COMPARE,
		WEIR_JOB_DUALCAST, WEIR_JOB_XOR,
	};

	return kinds[below(run, N_OF(kinds))];
}

/* What the destination is to be. */
static void expect(struct work *w)
{
	struct weir_job *job = &w->rec.job;

	if (job->kind == WEIR_JOB_FILL)
		for (unsigned int i = 0; i < w->dst.len; i++)
			w->new[i] = (unsigned char)(job->pattern >>
						    (i & 7) * 8);
	else
		memcpy(w->new, shadow_of(&w->src), w->src.len);
	if (job->kind == WEIR_JOB_XOR)
		for (unsigned int i = 0; i < w->dst.len; i++)
			w->new[i] ^= shadow_of(&w->src2)[i];
}

static void fill_in(struct work *w, uint32_t kind, unsigned int i)
{
	struct weir_job *job = &w->rec.job;
	struct run *run = w->run;

	jrec_init(&w->rec);
	job->op.fn = job_ended;
	job->kind = kind;
	w->crc = (uint32_t)weir_sim_random(run->sim);
	job->crc = w->crc;
	job->pattern = weir_sim_random(run->sim);
	if (w->src.p)
		job->src = operand_of(run, &w->src);
	if (w->dst.p)
		job->dst = operand_of(run, &w->dst);
	if (w->src2.p || w->dst2.p) {
		w->more = operand_of(run, w->src2.p ? &w->src2 : &w->dst2);
		job->more = &w->more;
		job->n_extra = 1;
	}
	expect(w);
	if (!below(run, 4))
		job->flags |= WEIR_JOB_SHORT_OK;
	if (!below(run, 16))
		job->flags |= WEIR_JOB_FENCE;
	if (!below(run, 16))
		job->flags |= WEIR_JOB_LAZY;
	if (!job->n_extra)
		use_bufs(w, i);
	if (!below(run, 8))
		weir_op_set_deadline(&job->op, weir_sim_now(run->sim) +
				     below(run, 200 * WEIR_USEC));
}

static void start_one(struct run *run, unsigned int i)
{
	struct work *w = &run->works[below(run, N_JOBS)];
	uint32_t kind = draw_kind(run);
	int err;

	if (w->busy)
		return;
	memset(&w->src, 0, sizeof(w->src));
	memset(&w->src2, 0, sizeof(w->src2));
	memset(&w->dst, 0, sizeof(w->dst));
	memset(&w->dst2, 0, sizeof(w->dst2));
	w->run = run;
	w->rec.job.kind = kind;
	if (!draw_sides(w, kind, draw_len(run))) {
		let_go(w);
		return;
	}
	fill_in(w, kind, i);
	w->busy = true;
	harness_starting++;
	err = weir_job_start(run->dma[i], &w->rec.job);
	harness_starting--;
	weir_sim_note(run->sim, "start", (uint64_t)err);
	if (!err) {
		run->started++;
		return;
	}
	if (err != -EAGAIN && err != -ENODEV && err != -EBADFD)
		fail_msg("kind %u from %d to %d: %d: %s", kind,
			 w->src.p ? (int)(w->src.p - run->places) : -1,
			 w->dst.p ? (int)(w->dst.p - run->places) : -1, err,
			 weir_why());
	run->refused++;
	put_bufs(w);
	let_go(w);
}

/* Chains: from one place to memory, its CRC, and on to another place, each on
 * any reactor's context. */

static void check_line(struct line *l, int64_t res)
{
	struct run *run = l->run;
	const unsigned char *data = shadow_of(&l->from);
	uint64_t n = res < 0 ? 0 : l->from.len;

	if (res < 0)
		check_error(res);
	if (is_lost(&l->from)) {
		believe(run, l->middle.p, l->middle.slot);
		believe(run, l->to.p, l->to.slot);
		return;
	}
	check_source(run, &l->from);
	if (res >= 0)
		assert_int_equal(l->jobs[1].crc, weir_crc32c(l->crc, data, n));
	check_slot(run, &l->to, data, n, true);
	check_slot(run, &l->middle, data, n, true);
}

static void line_ended(struct weir_op *op, int64_t res)
{
	struct line *l = weir_container_of(op, struct line, op);

	assert_true(l->busy);
	l->busy = false;
	assert_int_equal(++l->calls, 1);
	weir_sim_note(l->run->sim, "chain", (uint64_t)res);
	check_line(l, res);
	unlock(&l->from, false);
	unlock(&l->middle, true);
	unlock(&l->to, true);
	l->run->chains++;
}

static void make_chain(struct line *l, struct weir_reactor *r)
{
	struct run *run = l->run;
	int after = WEIR_CHAIN_FIRST;

	if (weir_chain_create(&l->chain, r, NULL)) {
		l->chain = NULL;
		return;
	}
	for (unsigned int i = 0; i < STEPS; i++) {
		after = weir_chain_add_job(l->chain, after,
					   run->dma[below(run, N_REACTORS)],
					   &l->jobs[i]);
		assert_true(after >= 0);
	}
}

static void fill_line(struct line *l)
{
	struct run *run = l->run;
	struct weir_operand here = weir_operand_mem(
		run->memory + (size_t)l->middle.slot * SLOT + l->middle.off,
		l->middle.len);

	for (unsigned int i = 0; i < STEPS; i++)
		weir_job_init(&l->jobs[i], NULL);
	l->crc = (uint32_t)weir_sim_random(run->sim);
	weir_job_copy(&l->jobs[0], here, operand_of(run, &l->from));
	weir_job_crc32c(&l->jobs[1], here, l->crc);
	weir_job_copy(&l->jobs[2], operand_of(run, &l->to), here);
	weir_op_init(&l->op, line_ended);
	if (!below(run, 4))
		weir_op_set_deadline(&l->op, weir_sim_now(run->sim) +
				     below(run, 200 * WEIR_USEC));
	l->calls = 0;
}

static void start_line(struct run *run, unsigned int i)
{
	struct line *l = &run->lines[below(run, N_CHAINS)];
	unsigned int len = draw_len(run);

	if (l->busy || l->op.reactor == NULL)
		l->run = run;
	if (l->busy)
		return;
	memset(&l->middle, 0, sizeof(l->middle));
	memset(&l->to, 0, sizeof(l->to));
	if (!draw_range(run, &l->from, draw_place(run), len, false) ||
	    !draw_range(run, &l->middle, &run->places[MEMORY], len, true) ||
	    !draw_range(run, &l->to, draw_place(run), len, true))
		goto no;
	assert_int_equal(weir_chain_destroy(l->chain), 0);
	fill_line(l);
	make_chain(l, run->r[i]);
	l->busy = true;
	if (l->chain && !weir_chain_start(l->chain, &l->op))
		return;
	l->busy = false;
no:
	unlock(&l->from, false);
	unlock(&l->middle, true);
	unlock(&l->to, true);
}

/* What is done by chance, on each reactor. */

static void recover(struct run *run)
{
	struct place *p = draw_place(run);

	if (p->peer && !(weir_sim_peer_state(p->peer) & WEIR_SIM_PEER_UP))
		(void)weir_sim_peer_restart(p->peer);
	if (p->peer)
		(void)weir_sim_peer_reset(p->peer);
	if (p->card && !weir_sim_card_open(p->card)) {
		p->opened++;
		catch_up(run, p);
	}
}

static void cancel_one(struct run *run, struct weir_reactor *r)
{
	struct work *w = &run->works[below(run, N_JOBS)];
	struct line *l = &run->lines[below(run, N_CHAINS)];

	if (w->busy && w->rec.job.op.reactor == r)
		assert_int_equal(weir_op_cancel(&w->rec.job.op), 0);
	if (l->busy && l->op.reactor == r)
		assert_int_equal(weir_op_cancel(&l->op), 0);
}

static void stopped(struct weir_op *op, int64_t res)
{
	struct driver *d = weir_container_of(op, struct driver, stop);
	struct run *run = d->run;

	assert_int_equal(res, 0);
	assert_int_equal(weir_dma_start(run->dma[d - run->drivers]), 0);
}

/* A context stops, and is started again when it has. */
static void stop_context(struct run *run, unsigned int i)
{
	if (!weir_op_is_busy(&run->drivers[i].stop))
		STARTS(weir_dma_stop(run->dma[i], &run->drivers[i].stop));
}

static void act(struct run *run, unsigned int i)
{
	switch (below(run, 16)) {
	case 0: case 1:
		cancel_one(run, run->r[i]);
		break;
	case 2: case 3:
		recover(run);
		break;
	case 4:
		start_line(run, i);
		break;
	case 5:
		weir_dma_flush(run->dma[i]);
		if (!below(run, 8))
			stop_context(run, i);
		break;
	default:
		start_one(run, i);
	}
}

static void drive(struct weir_op *op, int64_t res)
{
	struct driver *d = weir_container_of(op, struct driver, op);
	struct run *run = d->run;
	unsigned int i = (unsigned int)(d - run->drivers);

	(void)res;
	for (uint64_t n = 1 + below(run, 3); n && d->left; n--, d->left--)
		act(run, i);
	if (d->left)
		assert_int_equal(weir_sleep_until(run->r[i], op,
			weir_sim_now(run->sim) +
			below(run, 1 + (UINT64_C(1) << below(run, 20)))), 0);
}

/* The run. */

static void make_places(struct run *run)
{
	struct weir_sim_peer_opts peer = {
		.size = sizeof(peer), .bytes = SIZE, .depth = 4,
		.retry_ns = 50 * WEIR_USEC,
	};
	struct weir_sim_card_opts card = {
		.size = sizeof(card), .bytes = SIZE, .depth = 4,
		.flags = WEIR_SIM_CARD_TRANSFER,
	};
	struct place *p = run->places;

	for (int i = PEER; i <= PEER2; i++) {
		assert_int_equal(weir_sim_peer_create(&p[i].peer, run->sim,
						      &peer), 0);
		p[i].domain = weir_sim_peer_domain(p[i].peer);
		peer.depth = 64;
	}
	for (int i = CARD; i <= MAPPED; i++) {
		if (i == MAPPED)
			card.flags = WEIR_SIM_CARD_MAPPED |
				     WEIR_SIM_CARD_EAGER |
				     WEIR_SIM_CARD_SHORT;
		assert_int_equal(weir_sim_card_create(&p[i].card, run->sim,
						      &card), 0);
		p[i].domain = weir_sim_card_domain(p[i].card);
	}
}

/* After the bytes are there. */
static void make_files(struct run *run)
{
	int fd;

	for (int i = FILE1; i <= DIRECT; i++) {
		fd = weir_sim_file_open(run->sim, paths[i], O_RDWR |
					(i == DIRECT ? O_DIRECT : 0), 0);
		assert_true(fd >= 0);
		run->places[i].domain = file_domain(fd);
	}
}

static void fill_places(struct run *run)
{
	struct place *p;

	for (int i = 0; i < N_PLACES; i++) {
		p = &run->places[i];
		fill_pattern(p->shadow, SIZE, 0, (unsigned int)i + 1);
		if (p->peer)
			memcpy(weir_sim_peer_bytes(p->peer), p->shadow, SIZE);
		else if (p->card)
			assert_int_equal(weir_sim_card_put(p->card, 0,
							   p->shadow, SIZE), 0);
		else if (p->path)
			assert_int_equal(weir_sim_file_write(run->sim, p->path,
							     p->shadow, SIZE,
							     0), SIZE);
		else
			memcpy(run->memory, p->shadow, SIZE);
	}
}

static void make_core(struct run *run, unsigned int i)
{
	struct weir_dma_opts opts = {
		.jobs_max = i ? 0 : 3, .staging_size = 4096,
		.staging_bufs = i, .turn_bytes = 4096u << i,
		.worker_min = i == 1 ? 9000 : 0,
	};

	run->r[i] = sim_reactor_in(run->sim);
	run->dma[i] = start_dma(run->r[i], opts);
	assert_int_equal(weir_inventory_create(&run->inv[i], run->r[i], NULL),
			 0);
	assert_int_equal(weir_inventory_attach(run->inv[i], run->mmap), 0);
	run->drivers[i].run = run;
	run->drivers[i].left = ACTIONS;
	weir_op_init(&run->drivers[i].op, drive);
	weir_op_init(&run->drivers[i].stop, stopped);
	assert_int_equal(weir_defer(run->r[i], &run->drivers[i].op), 0);
}

static struct run *begin(uint64_t seed, const struct weir_sim_opts *opts)
{
	struct run *run = calloc(1, sizeof(*run));

	assert_non_null(run);
	assert_int_equal(weir_sim_create(&run->sim, seed, opts), 0);
	make_places(run);
	for (int i = FILE1; i <= DIRECT; i++)
		run->places[i].path = paths[i];
	fill_places(run);
	make_files(run);
	run->mmap = start_mmap(run->memory, SIZE, WEIR_MMAP_WRITE);
	for (unsigned int i = 0; i < N_REACTORS; i++)
		make_core(run, i);
	return run;
}

static void end(struct run *run)
{
	for (unsigned int i = 0; i < N_CHAINS; i++)
		assert_int_equal(weir_chain_destroy(run->lines[i].chain), 0);
	for (unsigned int i = 0; i < N_REACTORS; i++) {
		assert_int_equal(weir_inventory_destroy(run->inv[i]), 0);
		sim_end_dma(run->sim, run->dma[i]);
		assert_int_equal(weir_reactor_destroy(run->r[i]), 0);
	}
	for (unsigned int i = 0; i < N_PLACES; i++) {
		assert_int_equal(weir_sim_peer_destroy(run->places[i].peer), 0);
		assert_int_equal(weir_sim_card_destroy(run->places[i].card), 0);
		if (run->places[i].path)
			assert_int_equal(weir_domain_destroy(
				run->places[i].domain), 0);
	}
	assert_int_equal(weir_mmap_destroy(run->mmap), 0);
	assert_int_equal(weir_sim_destroy(run->sim), 0);
	free(run);
}

/* All has ended, and all that was not written to is as it was. */
static void check_end(struct run *run)
{
	struct weir_sim_card_stats stats = { .size = sizeof(stats) };
	struct weir_sim_stats sum = { .size = sizeof(sum) };
	struct place *p;

	/* Nobody has been at it all the time. */
	assert_int_equal(weir_sim_stats(run->sim, &sum), 0);
	assert_true(sum.events < 200000);
	for (unsigned int i = 0; i < N_JOBS; i++)
		assert_false(run->works[i].busy);
	for (unsigned int i = 0; i < N_CHAINS; i++)
		assert_false(run->lines[i].busy);
	assert_int_equal(run->started, run->ended);
	for (p = run->places; p < run->places + N_PLACES; p++) {
		for (unsigned int i = 0; i < N_SLOTS; i++) {
			struct range all = { .p = p, .slot = i,
					     .epoch = epoch_of(p) };

			assert_false(p->writer[i]);
			assert_int_equal(p->readers[i], 0);
			if (p->epoch == all.epoch)
				check_source(run, &all);
		}
		if (!p->card)
			continue;
		assert_int_equal(weir_sim_card_stats(p->card, &stats), 0);
		assert_int_equal(stats.started, stats.ended);
		assert_int_equal(stats.translated, stats.invalidated);
		assert_int_equal(stats.unknown, 0);
	}
}

struct sums {
	uint64_t started, failed, short_ones, chains, lost, refused;
};

static uint64_t one_run(uint64_t seed, const struct weir_sim_opts *opts,
			struct sums *sums)
{
	struct run *run = begin(seed, opts);
	uint64_t digest;

	weir_sim_run(run->sim, 10 * WEIR_SEC, 0);
	weir_sim_set_faults(run->sim, 0);
	sim_idle(run->sim);
	check_end(run);
	digest = weir_sim_digest(run->sim);
	sums->started += run->started;
	sums->failed += run->failed;
	sums->short_ones += run->short_ones;
	sums->chains += run->chains;
	sums->lost += run->lost;
	sums->refused += run->refused;
	end(run);
	return digest;
}

static uint64_t seed_now;

/* WEIR_TEST_SEED=N: that seed alone, with its trace; WEIR_TEST_FIRST_SEED=N:
 * from there on. */
static void trace(const char *line, void *arg)
{
	(void)arg;
	fprintf(stderr, "%s\n", line);
}

static void all_seeds(const struct weir_sim_opts *opts, unsigned int n,
		      struct sums *sums)
{
	const char *only = getenv("WEIR_TEST_SEED");
	const char *first = getenv("WEIR_TEST_FIRST_SEED");
	uint64_t from = first ? strtoull(first, NULL, 0) : 0;
	struct weir_sim_opts with = *opts;
	uint64_t seed, digest;

	if (only) {
		with.trace = trace;
		(void)one_run(strtoull(only, NULL, 0), &with, sums);
		skip_because("one seed alone");
	}
	for (seed = from; seed < from + n; seed++) {
		seed_now = seed;
		digest = one_run(seed, opts, sums);
		if (digest != one_run(seed, opts, sums))
			fail_msg("two runs of seed %llu differ",
				 (unsigned long long)seed);
	}
}

static void job_without_faults_does_what_it_should(void **state)
{
	struct weir_sim_opts opts = { .size = sizeof(opts) };
	struct sums sums = { 0 };

	(void)state;
	all_seeds(&opts, want_long() ? 1000 : 50, &sums);
	assert_true(sums.started > 5000);
	assert_true(sums.chains > 50);
	assert_int_equal(sums.lost, 0);
}

static void job_with_faults_ends_and_tells_the_truth(void **state)
{
	struct weir_sim_opts opts = {
		.size = sizeof(opts), .faults = WEIR_SIM_ALL_FAULTS,
		.flags = WEIR_SIM_SWARM, .rate = 32,
	};
	struct sums sums = { 0 };

	(void)state;
	all_seeds(&opts, want_long() ? 3000 : 150, &sums);
	assert_true(sums.failed > 1000);
	assert_true(sums.short_ones > 1000);
	assert_true(sums.lost > 10);
	assert_true(sums.refused > 1000);
}

static const struct harness_case cases[] = {
	CASE(job_without_faults_does_what_it_should),
	CASE(job_with_faults_ends_and_tells_the_truth),
};

int main(void)
{
	int failed = harness_run_plain(cases, N_OF(cases));

	if (failed)
		print_message("# in seed %llu; WEIR_TEST_SEED=%llu runs it "
			      "alone, with its trace\n",
			      (unsigned long long)seed_now,
			      (unsigned long long)seed_now);
	return failed;
}
