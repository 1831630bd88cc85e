/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program with many writes and syncs in flight, faults, and a power cut at
 * any moment.  After it, each sector is what one write made of it; not what
 * came before a write that was synced.
 */

#include "tests/support/sim-file-fixture.h"

#define SECTOR 512
#define SECTORS 32
#define AT_ONCE 10
#define OPS 150
#define DISK_BYTES (64 * SECTOR)

/* One that was begun, and when, and when it had ended; 0: it has not. */
struct event {
	unsigned int first, n;	/* Sectors; 0: a sync. */
	unsigned int begun, ended;
	int64_t res;
};

struct slot {
	struct weir_op op;
	struct program *p;
	unsigned int which;
	uint64_t mem[8 * SECTOR / 8];
};

struct program {
	struct weir_sim *sim;
	struct weir_reactor *r;
	struct slot slot[AT_ONCE];
	struct event event[OPS + 1];	/* From 1: it is what they write. */
	unsigned int n_events, clock;
	int fd[2];		/* Through the cache, and not. */
	bool cut;
};

static unsigned int draw(struct program *p, unsigned int n)
{
	return (unsigned int)(weir_sim_random(p->sim) % n);
}

static void begin(struct slot *s)
{
	struct program *p = s->p;
	struct event *e;
	int fd = p->fd[draw(p, 2)];

	if (p->cut || p->n_events == OPS)
		return;
	s->which = ++p->n_events;
	e = &p->event[s->which];
	e->begun = ++p->clock;
	if (!draw(p, 6)) {
		assert_int_equal(weir_fsync(p->r, &s->op, fd, draw(p, 2)), 0);
		return;
	}
	e->n = 1 + draw(p, 8);
	e->first = draw(p, SECTORS - e->n + 1);
	for (size_t i = 0; i < N_OF(s->mem); i++)
		s->mem[i] = s->which;
	assert_int_equal(weir_write(p->r, &s->op, fd, s->mem,
				    (size_t)e->n * SECTOR,
				    (uint64_t)e->first * SECTOR), 0);
}

static void done(struct weir_op *op, int64_t res)
{
	struct slot *s = weir_container_of(op, struct slot, op);
	struct event *e = &s->p->event[s->which];

	assert_int_equal(e->ended, 0);
	e->ended = ++s->p->clock;
	e->res = res;
	/* What comes after a cut may be news of before it, or -EIO. */
	begin(s);
}

static bool covers(const struct event *e, unsigned int sector)
{
	return e->n && e->first <= sector && sector < e->first + e->n;
}

/* Whether a sync tells a lie about what it was to save, as on Linux. */
static bool spoilt(const struct program *p, unsigned int from, unsigned int to)
{
	const struct event *e;

	for (unsigned int i = 1; i <= p->n_events; i++) {
		e = &p->event[i];
		if (!e->n && (!e->ended || e->res) && e->begun < to &&
		    (!e->ended || e->ended > from))
			return true;
	}
	return false;
}

static bool is_synced(const struct program *p, const struct event *w)
{
	const struct event *e;

	if (!w->ended || w->res < 0)
		return false;
	for (unsigned int i = 1; i <= p->n_events; i++) {
		e = &p->event[i];
		if (!e->n && e->ended && !e->res && e->begun > w->ended &&
		    !spoilt(p, w->begun, e->ended))
			return true;
	}
	return false;
}

/* @is is what sector @s is: had it been written over by what was synced? */
static bool is_too_old(const struct program *p, unsigned int s, uint64_t is)
{
	const struct event *w;

	for (unsigned int i = 1; i <= p->n_events; i++) {
		w = &p->event[i];
		if (i == is || !covers(w, s) || !is_synced(p, w))
			continue;
		if (!is || (p->event[is].ended &&
			    p->event[is].ended < w->begun))
			return true;
	}
	return false;
}

static unsigned int check_sector(struct program *p, unsigned int s,
				 const char *path, uint64_t seed)
{
	uint64_t now[SECTOR / 8];

	assert_int_equal(weir_sim_file_read(p->sim, path, now, SECTOR,
					    (uint64_t)s * SECTOR), SECTOR);
	for (size_t i = 1; i < SECTOR / 8; i++)
		if (now[i] != now[0])
			fail_msg("seed %llu: sector %u is torn",
				 (unsigned long long)seed, s);
	if (now[0] > p->n_events || (now[0] && !covers(&p->event[now[0]], s)))
		fail_msg("seed %llu: nobody wrote sector %u",
			 (unsigned long long)seed, s);
	if (is_too_old(p, s, now[0]))
		fail_msg("seed %llu: sector %u has lost what was synced",
			 (unsigned long long)seed, s);
	return now[0] && !p->event[now[0]].ended;
}

/* What was in flight ends soon, and has done nothing more. */
static void check_the_end(struct program *p, const char *path)
{
	char *then = malloc(DISK_BYTES), *now = malloc(DISK_BYTES);
	int64_t n = weir_sim_file_read(p->sim, path, then, DISK_BYTES, 0);

	weir_sim_run(p->sim, 20 * WEIR_SEC, 0);
	for (unsigned int i = 1; i <= p->n_events; i++)
		assert_true(p->event[i].ended);
	assert_int_equal(weir_sim_file_read(p->sim, path, now, DISK_BYTES, 0),
			 n);
	assert_memory_equal(now, then, n);
	free(then);
	free(now);
}

static uint64_t run_a_seed(uint64_t seed, unsigned int *early)
{
	const char *path = seed & 2 ? "disk" : "f";
	struct weir_sim_opts opts = { .size = sizeof(opts), .rate = 24,
				      .flags = WEIR_SIM_SWARM };
	struct weir_reactor_opts ropts = { .size = sizeof(ropts) };
	struct program *p = calloc(1, sizeof(*p));
	static const char zeros[DISK_BYTES];
	uint64_t digest;

	opts.faults = WEIR_SIM_ALL_FAULTS & ~(UINT64_C(1) << WEIR_SIM_CLOCK);
	/* A write through the cache may be cut short within a sector. */
	if (!(seed & 1))
		opts.faults &= ~(UINT64_C(1) << WEIR_SIM_SHORT);
	assert_int_equal(weir_sim_create(&p->sim, seed, &opts), 0);
	ropts.sim = p->sim;
	assert_int_equal(weir_reactor_create(&p->r, &ropts), 0);
	weir_sim_disk(p->sim, "disk", DISK_BYTES, SECTOR);
	weir_sim_file_write(p->sim, "f", zeros, SECTORS * SECTOR, 0);
	for (int i = 0; i < 2; i++)
		p->fd[i] = weir_sim_file_open(p->sim, path, O_RDWR |
					      (i || seed & 1 ? O_DIRECT : 0),
					      0);
	for (int i = 0; i < AT_ONCE; i++) {
		p->slot[i].p = p;
		weir_op_init(&p->slot[i].op, done);
		begin(&p->slot[i]);
	}
	weir_sim_run(p->sim, WEIR_FOREVER, 1 + draw(p, 600));
	p->cut = true;
	weir_sim_power_cut(p->sim, "");
	for (unsigned int s = 0; s < SECTORS; s++)
		*early += check_sector(p, s, path, seed);
	check_the_end(p, path);
	digest = weir_sim_digest(p->sim);
	assert_int_equal(weir_reactor_destroy(p->r), 0);
	assert_int_equal(weir_sim_destroy(p->sim), 0);
	free(p);
	return digest;
}

static void crash_keeps_synced_bytes_and_invents_none(void **state)
{
	unsigned int seeds = want_long() ? 20000 : 200, early = 0, twice = 0;

	(void)state;
	for (uint64_t seed = 0; seed < seeds; seed++)
		assert_true(run_a_seed(seed, &early) ==
			    run_a_seed(seed, &twice));
	assert_int_equal(early, twice);
	/* Some were on the medium before their callback came. */
	assert_true(early > 0);
}

static const struct harness_case cases[] = {
	CASE(crash_keeps_synced_bytes_and_invents_none),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
