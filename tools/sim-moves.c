/* SPDX-License-Identifier: BSD-3-Clause */

/* Jobs over imported memory, and checks that they write what they should and
 * nothing else. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <weir/sim/file.h>

#include "sim-export.h"

#define PATH "importers/file"
#define MARK 0x5a

void files_set_up(struct program *p)
{
	char nothing = 0;
	int err;

	must(weir_sim_file_write(p->run->sim, PATH, &nothing, 1,
				 IMPORTS * MOVES * REGION - 1) == 1,
	     "a test can write a file", PATH);
	p->fd = weir_sim_file_open(p->run->sim, PATH, O_RDWR, 0);
	must(p->fd >= 0, "a file can be opened", "%d", p->fd);
	err = weir_domain_file_create(&p->file, p->fd, NULL);
	must(!err, "a domain can be made", "%d: %s", err, weir_why());
}

void files_take_down(struct program *p)
{
	int err = weir_domain_destroy(p->file);

	must(!err, "the file is unused", "%d: %s", err, weir_why());
}

/* Shares. */

void share_check(struct share *s)
{
	for (uint32_t i = 0; i < REGIONS; i++) {
		struct move *m = s->busy[i];
		uint64_t at = (uint64_t)i * REGION, end = at + REGION;
		uint64_t from = end, to = end;

		if (m && m->writes) {
			from = m->off;
			to = m->off + m->len;
		}
		must(!memcmp(s->bytes + at, s->shadow + at, from - at) &&
		     !memcmp(s->bytes + to, s->shadow + to, end - to),
		     "no byte outside of what was granted changes",
		     "share %u, region %u", s->number, i);
	}
	s->program->run->trial->verified += sizeof(s->shadow);
}

/* A failed write may have stopped anywhere, but what it wrote is its data. */
static void take_over(struct move *m)
{
	struct share *s = m->share;
	char want[REGION];

	pattern_fill(want, m->len, m->stamp, 0);
	for (size_t i = 0; i < m->len; i++) {
		char is = s->bytes[m->off + i];

		must(is == want[i] || is == s->shadow[m->off + i],
		     "a byte is old or new", "share %u at %llu", s->number,
		     (unsigned long long)m->off + i);
		s->shadow[m->off + i] = is;
	}
}

/* Jobs. */

static uint64_t file_off(const struct move *m)
{
	return ((uint64_t)m->import->number * MOVES + m->slot) * REGION;
}

static struct weir_operand local_of(struct move *m)
{
	return m->by_file ? weir_operand_at(m->import->program->file,
					    file_off(m), m->len) :
			    weir_operand_mem(m->local, m->len);
}

/* The importer's side of a job; a job that wrote there must have stopped where
 * it should. */
static void get_local(struct move *m)
{
	if (m->by_file)
		must(weir_sim_file_read(m->import->program->run->sim, PATH,
					m->local, REGION, file_off(m)) ==
		     REGION, "a file keeps its size", PATH);
	for (size_t i = m->len; i < REGION; i++)
		must(m->local[i] == MARK, "a job ends where it should",
		     "%zu bytes, byte %zu", m->len, i);
}

static void put_local(struct move *m)
{
	memset(m->local, MARK, REGION);
	if (m->writes)
		pattern_fill(m->local, m->len, m->stamp, 0);
	if (m->by_file)
		must(weir_sim_file_write(m->import->program->run->sim, PATH,
					 m->local, REGION, file_off(m)) ==
		     REGION, "a test can write a file", PATH);
}

/* So old that no operation that has ended since was in flight then. */
static bool is_long_stale(const struct import *im)
{
	const struct run *run = im->program->run;

	return im->over_ns && !run->trial->faults &&
	       weir_sim_now(run->sim) > im->over_ns + WEIR_MSEC;
}

static bool may_end_so(const struct move *m, int64_t res)
{
	if (res >= 0 && is_long_stale(m->import))
		return false;
	if (res == -ESTALE)
		return is_stale(m->import);
	if (res == -ECANCELED)
		return m->cancelled;
	if (res == -ETIMEDOUT && m->has_deadline)
		return true;
	return res == (int64_t)m->len ||
	       (res < 0 && m->by_file && m->import->program->run->trial->faults);
}

static void check_bytes(struct move *m, int64_t res)
{
	struct share *s = m->share;
	const char *want = m->writes ? m->local : s->shadow + m->off;
	const char *is = m->writes ? s->bytes + m->off : m->local;

	if (m->writes)
		pattern_fill(m->local, m->len, m->stamp, 0);
	else
		get_local(m);
	if (res >= 0) {
		must(!memcmp(is, want, m->len), "what is done is there",
		     "%zu bytes %s share %u", m->len, m->writes ? "to" : "of",
		     s->number);
		s->program->run->trial->verified += m->len;
	}
	if (m->writes)
		take_over(m);
}

void share_freeze(struct share *s, const struct lease *lease, uint64_t stops)
{
	struct program *p = s->program;

	for (uint32_t i = 0; i < IMPORTS; i++) {
		struct import *im = &p->imports[i];

		if (im->share != s || (lease ? im->lease != lease || !is_stale(im) :
					       im->stops >= stops))
			continue;
		if (!im->over_ns)
			im->over_ns = weir_sim_now(p->run->sim);
		for (uint32_t j = 0; j < MOVES; j++) {
			struct move *m = &im->moves[j];

			if (!m->is_under_way || m->lives != s->lives ||
			    !m->writes)
				continue;
			m->is_frozen = true;
			memcpy(m->frozen, s->bytes + m->off, m->len);
		}
	}
}

static void move_ended(struct weir_op *op, int64_t res)
{
	struct move *m = weir_container_of(weir_job_of(op), struct move, job);
	struct program *p = m->import->program;

	must(m->is_under_way, "one completion for each operation", "a job");
	must(may_end_so(m, res), "a job ends for a cause",
	     "%zu bytes %s %s import: %lld", m->len, m->writes ? "to" : "of",
	     is_stale(m->import) ? "a stale" : "an", (long long)res);
	m->is_under_way = false;
	p->run->under_way--;
	p->stale += res == -ESTALE;
	weir_sim_note(p->run->sim, "moved", (uint64_t)res);
	weir_buf_put(m->buf);
	if (m->lives != m->share->lives)
		return;		/* That memory is gone. */
	must(!m->is_frozen || !memcmp(m->frozen, m->share->bytes + m->off,
				      m->len), "nothing lands late",
	     "%zu bytes in share %u", m->len, m->share->number);
	check_bytes(m, res);
	m->share->busy[m->region] = NULL;
	if (one_in(p->run, 16))
		share_check(m->share);
}

/* A part of a region that no other job uses. */
static bool draw_place(struct move *m)
{
	struct run *run = m->import->program->run;
	uint64_t from = rnd(run, REGION / 2);

	m->region = rnd(run, REGIONS);
	m->off = (uint64_t)m->region * REGION + from;
	m->len = 1 + rnd(run, one_in(run, 2) ? 300 : REGION - (uint32_t)from);
	return !m->share->busy[m->region];
}

/* A range at the end of the memory: refused if it goes beyond. */
static void try_beyond(struct import *im)
{
	size_t from = sizeof(im->share->shadow) - rnd(im->program->run, 32);
	size_t len = 1 + rnd(im->program->run, 64);
	bool fits = from + len <= sizeof(im->share->shadow);
	struct weir_buf *buf;
	int err = weir_inventory_get(&buf, im->inventory, im->mmap,
				     im->bytes + from, len, NULL, 0);

	must(err == (fits ? 0 : -ERANGE) || (err == -ESTALE && is_stale(im)),
	     "a range inside is taken, one beyond is not", "%zu at %zu: %d",
	     len, from, err);
	must(err || !is_stale(im), "what is stale is refused", "%zu at %zu",
	     len, from);
	if (!err)
		weir_buf_put(buf);
}

static bool take_buf(struct move *m)
{
	struct import *im = m->import;
	void *at = im->bytes + m->off;
	int err = weir_inventory_get(&m->buf, im->inventory, im->mmap, at,
				     m->len, at, m->writes ? 0 : m->len);

	must(err == (is_stale(im) ? -ESTALE : 0), "what is stale is refused",
	     "a buf, %d: %s", err, weir_why());
	return !err;
}

static void begin(struct move *m)
{
	struct import *im = m->import;
	struct run *run = im->program->run;
	bool may = im->may_write || !m->writes;
	struct weir_operand there = weir_operand_buf(m->buf),
			    here = local_of(m);
	int err;

	weir_job_init(&m->job, move_ended);
	weir_job_copy(&m->job, m->writes ? there : here,
		      m->writes ? here : there);
	m->job.flags = one_in(run, 4) ? WEIR_JOB_LAZY : 0;
	err = weir_job_start(im->core->dma, &m->job);
	must(may ? !err || err == -EAGAIN : err == -EACCES,
	     "a job is refused for want of a right, and only so",
	     "%s: %d: %s", may ? "it may" : "it may not", err, weir_why());
	if (err) {
		weir_buf_put(m->buf);
		return;
	}
	m->is_under_way = true;
	m->is_frozen = false;
	m->lives = m->share->lives;
	m->share->busy[m->region] = m;
	run->under_way++;
}

static void move_prepare(struct move *m)
{
	struct run *run = m->import->program->run;

	m->share = m->import->share;
	m->writes = one_in(run, 2);
	m->by_file = one_in(run, 3);
	m->cancelled = m->has_deadline = false;
	m->stamp = ++m->import->program->stamps;
	if (!draw_place(m) || !take_buf(m))
		return;
	put_local(m);
	begin(m);
}

void move_one(struct import *im)
{
	struct program *p = im->program;
	uint32_t slot = rnd(p->run, MOVES);
	struct move *m = &im->moves[slot];

	if (one_in(p->run, 16)) {
		try_beyond(im);
	} else if (m->is_under_way) {
		move_disturb(m);
	} else if (budget_take(p->run)) {
		m->import = im;
		m->slot = slot;
		move_prepare(m);
	}
}

void move_disturb(struct move *m)
{
	struct run *run = m->import->program->run;
	int err;

	if (one_in(run, 4)) {
		must(!weir_op_cancel(&m->job.op),
		     "a cancel is taken while it is in flight", "a job");
		m->cancelled = true;
	} else if (one_in(run, 4)) {
		err = weir_op_set_deadline(&m->job.op,
					   weir_sim_now(run->sim) +
					   rnd(run, 50000));
		m->has_deadline |= !err;
	}
}
