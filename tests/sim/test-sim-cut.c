/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What simulated files keep when their power is cut, against a model: of each
 * sector what was synced and every state since.
 */

#include "tests/support/sim-file-fixture.h"

#define SECTOR 512
#define SECTORS 24
#define LEN (SECTORS * SECTOR)
#define STATES 64

/* What the file may be after a cut; the last of each is what it is now. */
struct model {
	unsigned char sector[SECTORS][STATES][SECTOR];
	unsigned int n_states[SECTORS];
	uint64_t size[STATES];
	unsigned int n_sizes;
	unsigned char now[LEN];
};

static void model_init(struct model *m)
{
	memset(m, 0, sizeof(*m));
	for (unsigned int s = 0; s < SECTORS; s++)
		m->n_states[s] = 1;
	m->n_sizes = 1;
}

static void model_take(struct model *m, unsigned int s)
{
	unsigned int n = m->n_states[s];

	assert_true(n < STATES);
	memcpy(m->sector[s][n], m->now + s * SECTOR, SECTOR);
	m->n_states[s]++;
}

static void model_size(struct model *m, uint64_t size)
{
	if (m->size[m->n_sizes - 1] == size)
		return;
	assert_true(m->n_sizes < STATES);
	m->size[m->n_sizes++] = size;
}

static void model_write(struct model *m, const void *buf, size_t len,
			uint64_t off)
{
	memcpy(m->now + off, buf, len);
	for (uint64_t s = off / SECTOR; s <= (off + len - 1) / SECTOR; s++)
		model_take(m, (unsigned int)s);
	if (off + len > m->size[m->n_sizes - 1])
		model_size(m, off + len);
}

static void model_zero(struct model *m, uint64_t from, uint64_t to)
{
	if (from >= to)
		return;
	memset(m->now + from, 0, to - from);
	for (uint64_t s = from / SECTOR; s <= (to - 1) / SECTOR; s++)
		model_take(m, (unsigned int)s);
}

static void model_sync(struct model *m)
{
	for (unsigned int s = 0; s < SECTORS; s++) {
		memcpy(m->sector[s][0], m->now + s * SECTOR, SECTOR);
		m->n_states[s] = 1;
	}
	m->size[0] = m->size[m->n_sizes - 1];
	m->n_sizes = 1;
}

/* Whether @len bytes of @in can be what is left of sector @s. */
static bool is_state(const struct model *m, unsigned int s, const void *in,
		     size_t len)
{
	for (unsigned int i = 0; i < m->n_states[s]; i++)
		if (!memcmp(m->sector[s][i], in, len))
			return true;
	return false;
}

static bool is_size(const struct model *m, uint64_t size)
{
	for (unsigned int i = 0; i < m->n_sizes; i++)
		if (m->size[i] == size)
			return true;
	return false;
}

static void check(struct sim_world *w, const struct model *m, uint64_t seed)
{
	unsigned char in[LEN + 1];
	int64_t n = weir_sim_file_read(w->sim, "a/f", in, sizeof(in), 0);
	size_t len;

	if (n < 0 || !is_size(m, (uint64_t)n))
		fail_msg("seed %llu: size %lld", (unsigned long long)seed,
			 (long long)n);
	for (unsigned int s = 0; s < SECTORS && s * SECTOR < n; s++) {
		len = (size_t)n - s * SECTOR;
		if (len > SECTOR)
			len = SECTOR;
		if (!is_state(m, s, in + s * SECTOR, len))
			fail_msg("seed %llu: sector %u is what it never was",
				 (unsigned long long)seed, s);
	}
}

/* What is certain is what was synced. */
static void check_durable(struct sim_world *w, const struct model *m)
{
	unsigned char in[LEN];
	int64_t n = weir_sim_file_durable(w->sim, "a/f", in, LEN, 0);

	assert_int_equal(n, m->size[0]);
	for (unsigned int s = 0; s < SECTORS && (s + 1) * SECTOR <= n; s++)
		assert_memory_equal(in + s * SECTOR, m->sector[s][0], SECTOR);
}

static void write_somewhere(struct sim_world *w, struct model *m, int fd,
			    bool direct)
{
	unsigned char *out = malloc(LEN);
	uint64_t off = weir_sim_random(w->sim) % (LEN - 1);
	size_t len = 1 + weir_sim_random(w->sim) % (LEN - off) / 3;

	if (direct) {
		off -= off % SECTOR;
		len = (len + SECTOR - 1) / SECTOR * SECTOR;
	}
	fill_pattern(out, len, off, (unsigned int)weir_sim_random(w->sim));
	assert_int_equal(SIM_CALL(w, write, fd, out, len, off), len);
	model_write(m, out, len, off);
	free(out);
}

static void do_something(struct sim_world *w, struct model *m, int fd,
			 int direct)
{
	uint64_t size = m->size[m->n_sizes - 1], from;
	int other;

	switch (weir_sim_random(w->sim) % 16) {
	case 0: case 1:
		assert_int_equal(sim_sync(w, fd), 0);
		model_sync(m);
		break;
	case 2:
		other = sim_open(w, "a/f", O_RDWR | O_TRUNC);
		model_zero(m, 0, size);
		model_size(m, 0);
		SIM_CALL(w, close, other);
		break;
	case 3:
		from = weir_sim_random(w->sim) % LEN;
		assert_int_equal(SIM_CALL(w, fallocate, fd,
					  3 /* a hole */, from, 1000), 0);
		model_zero(m, from, from + 1000 < size ? from + 1000 : size);
		break;
	case 4: case 5: case 6:
		write_somewhere(w, m, direct, true);
		break;
	default:
		write_somewhere(w, m, fd, false);
	}
}

/* After every cut it goes on with what there is. */
static void take_over(struct sim_world *w, struct model *m)
{
	int64_t n;

	memset(m->now, 0, LEN);
	n = weir_sim_file_read(w->sim, "a/f", m->now, LEN, 0);
	assert_true(n >= 0);
	m->n_sizes = 1;
	m->size[0] = (uint64_t)n;
	for (unsigned int s = 0; s < SECTORS; s++) {
		memcpy(m->sector[s][0], m->now + s * SECTOR, SECTOR);
		m->n_states[s] = 1;
	}
}

static uint64_t run_a_seed(uint64_t seed, struct model *m)
{
	unsigned int n, cuts;
	struct sim_world w;
	uint64_t digest;
	int fd, direct;
	char c;

	sim_world_begin(&w, seed, 0, 0);
	model_init(m);
	weir_sim_file_write(w.sim, "a/f", "", 0, 0);
	for (cuts = 0; cuts < 4; cuts++) {
		fd = sim_open(&w, "a/f", O_RDWR);
		direct = sim_open(&w, "a/f", O_RDWR | O_DIRECT);
		for (n = weir_sim_random(w.sim) % 24; n; n--) {
			do_something(&w, m, fd, direct);
			check_durable(&w, m);
		}
		weir_sim_power_cut(w.sim, "b/");
		assert_int_equal(weir_sim_file_size(w.sim, "a/f"),
				 m->size[m->n_sizes - 1]);
		weir_sim_power_cut(w.sim, "a/");
		check(&w, m, seed);
		take_over(&w, m);
		/* It stays so, and nothing of before can change it. */
		weir_sim_power_cut(w.sim, "a/");
		check(&w, m, seed);
		assert_int_equal(SIM_CALL(&w, read, fd, &c, 1, 0), -EIO);
		assert_int_equal(SIM_CALL(&w, write, fd, "x", 1, 0), -EIO);
		assert_int_equal(sim_sync(&w, fd), -EIO);
		assert_int_equal(SIM_CALL(&w, close, fd), 0);
		assert_int_equal(SIM_CALL(&w, read, fd, &c, 1, 0), -EBADF);
		SIM_CALL(&w, close, direct);
	}
	digest = weir_sim_digest(w.sim);
	sim_world_end(&w);
	return digest;
}

static void power_cut_leaves_each_sector_as_synced_or_as_written_since(void **state)
{
	struct model *m = malloc(sizeof(*m));

	(void)state;
	for (uint64_t seed = 0; seed < 200; seed++)
		assert_true(run_a_seed(seed, m) == run_a_seed(seed, m));
	free(m);
}

/* Every mixture that may come does come. */
static void power_cut_leaves_each_legal_state_for_some_seed(void **state)
{
	unsigned int seen[3] = { 0 }, mixed = 0;
	unsigned char in[2 * SECTOR];
	struct sim_world w;
	int fd;

	(void)state;
	for (uint64_t seed = 0; seed < 200; seed++) {
		sim_world_begin(&w, seed, 0, 0);
		memset(in, 'a', sizeof(in));
		weir_sim_file_write(w.sim, "f", in, sizeof(in), 0);
		fd = sim_open(&w, "f", O_RDWR);
		for (char c = 'b'; c < 'd'; c++) {
			memset(in, c, sizeof(in));
			SIM_CALL(&w, write, fd, in, sizeof(in), 0);
		}
		weir_sim_power_cut(w.sim, "");
		weir_sim_file_read(w.sim, "f", in, sizeof(in), 0);
		assert_in_range(in[0], 'a', 'c');
		seen[in[0] - 'a']++;
		mixed += in[0] != in[SECTOR];
		sim_world_end(&w);
	}
	for (int i = 0; i < 3; i++)
		assert_in_range(seen[i], 20, 120);
	assert_in_range(mixed, 40, 160);
}

static void a_write_with_dsync_is_durable_when_it_ends(void **state)
{
	static const int flags[] = { O_DSYNC, O_SYNC, O_DSYNC | O_DIRECT };
	char *out = calloc(1, 4096), in[4096];
	struct sim_world w;
	int fd;

	(void)state;
	for (uint64_t seed = 0; seed < 60; seed++) {
		sim_world_begin(&w, seed, 0, 0);
		memset(out, 'x', 4096);
		fd = sim_open(&w, "f", O_RDWR | O_CREAT | flags[seed % 3]);
		SIM_CALL(&w, write, fd, out, 2048, 1024);
		assert_int_equal(weir_sim_file_durable(w.sim, "f", in, 4096, 0),
				 -ENOENT);
		sim_sync_dir(&w, ".");
		weir_sim_power_cut(w.sim, "");
		assert_int_equal(weir_sim_file_read(w.sim, "f", in, 4096, 0),
				 3072);
		assert_memory_equal(in + 1024, out, 2048);
		sim_world_end(&w);
	}
	free(out);
}

/* A file of "x", over which "y" was written, whose sync has failed. */
static int fail_sync(struct sim_world *w, uint64_t seed, unsigned char *in,
		     size_t len)
{
	int fd;

	sim_world_begin(w, seed, UINT64_C(1) << WEIR_SIM_ERROR, 1);
	memset(in, 'x', len);
	weir_sim_file_write(w->sim, "f", in, len, 0);
	fd = weir_sim_file_open(w->sim, "f", O_RDWR, 0);
	weir_sim_set_faults(w->sim, 0);
	memset(in, 'y', len);
	SIM_CALL(w, write, fd, in, len, 0);
	weir_sim_set_faults(w->sim, 1);
	assert_true(sim_sync(w, fd) < 0);
	weir_sim_set_faults(w->sim, 0);
	return fd;
}

/* As Linux: told once, and lost in silence after. */
static void a_sync_that_failed_is_not_made_good_by_the_next(void **state)
{
	unsigned int lost = 0, kept = 0;
	unsigned char in[SECTOR * 4];
	struct sim_world w;
	int fd;

	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		fd = fail_sync(&w, seed, in, sizeof(in));
		assert_int_equal(sim_sync(&w, fd), 0);
		/* The cache knows nothing of it. */
		SIM_CALL(&w, read, fd, in, sizeof(in), 0);
		for (size_t i = 0; i < sizeof(in); i++)
			assert_int_equal(in[i], 'y');
		memset(in, 'z', SECTOR);
		SIM_CALL(&w, write, fd, in, SECTOR, 0);
		assert_int_equal(sim_sync(&w, fd), 0);
		weir_sim_power_cut(w.sim, "");
		weir_sim_file_read(w.sim, "f", in, sizeof(in), 0);
		assert_int_equal(in[0], 'z');
		for (size_t s = 1; s < 4; s++) {
			lost += in[s * SECTOR] == 'x';
			kept += in[s * SECTOR] == 'y';
		}
		sim_world_end(&w);
	}
	assert_int_equal(lost + kept, 300);
	assert_in_range(lost, 100, 200);
}

/* By one open file; the other one still tells it. */
static void failed_durable_write_may_lose_what_was_written_before(void **state)
{
	const uint64_t faults = UINT64_C(1) << WEIR_SIM_ERROR;
	unsigned int ends[2] = { 0, 0 };

	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		struct sim_world w;
		int fd, durable;
		bool io_error;

		sim_world_begin(&w, seed, faults, 1);
		weir_sim_set_faults(w.sim, 0);
		fd = sim_open(&w, "f", O_RDWR | O_CREAT);
		durable = sim_open(&w, "f", O_RDWR | O_DSYNC);
		SIM_CALL(&w, write, fd, "x", 1, 0);
		weir_sim_set_faults(w.sim, 1);
		io_error = SIM_CALL(&w, write, durable, "y", 1, 1) == -EIO;
		weir_sim_set_faults(w.sim, 0);
		assert_int_equal(SIM_CALL(&w, write, durable, "y", 1, 1), 1);
		assert_int_equal(sim_sync(&w, durable), 0);
		assert_int_equal(sim_sync(&w, fd), io_error ? -EIO : 0);
		assert_int_equal(sim_sync(&w, fd), 0);
		ends[io_error]++;
		sim_world_end(&w);
	}
	assert_true(ends[0] && ends[1]);
}

/* Past the cache, it may have been done in part; into it, not at all. */
static void a_write_that_fails_leaves_whole_sectors(void **state)
{
	unsigned char *mem = malloc(8 * SECTOR);
	unsigned int written = 0, mixed = 0;
	struct sim_world w;
	int fd;

	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		sim_world_begin(&w, seed, UINT64_C(1) << WEIR_SIM_ERROR, 1);
		memset(mem, 'x', 8 * SECTOR);
		weir_sim_file_write(w.sim, "f", mem, 8 * SECTOR, 0);
		fd = weir_sim_file_open(w.sim, "f", O_RDWR |
					(seed & 1 ? O_DIRECT : 0), 0);
		memset(mem, 'y', 8 * SECTOR);
		assert_true(SIM_CALL(&w, write, fd, mem, 8 * SECTOR, 0) < 0);
		assert_int_equal(w.detail.bytes, 0);
		weir_sim_file_read(w.sim, "f", mem, 8 * SECTOR, 0);
		for (size_t i = 0; i < 8 * SECTOR; i++) {
			assert_int_equal(mem[i], mem[i / SECTOR * SECTOR]);
			written += mem[i] == 'y';
		}
		mixed += !!memchr(mem, 'y', 8 * SECTOR) &&
			 !!memchr(mem, 'x', 8 * SECTOR);
		if (!(seed & 1))
			assert_int_equal(written, 0);
		written = 0;
		sim_world_end(&w);
	}
	assert_true(mixed > 40);
	free(mem);
}

/* Written again, and cut: what was lost was never on the medium. */
static void data_lost_by_a_failed_sync_does_not_come_back(void **state)
{
	unsigned char in[SECTOR];
	struct sim_world w;
	char medium;
	int fd;

	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		fd = fail_sync(&w, seed, in, sizeof(in));
		weir_sim_file_durable(w.sim, "f", &medium, 1, 0);
		assert_true(medium == 'x' || medium == 'y');
		memset(in, 'z', sizeof(in));
		SIM_CALL(&w, write, fd, in, sizeof(in), 0);
		weir_sim_power_cut(w.sim, "");
		weir_sim_file_read(w.sim, "f", in, sizeof(in), 0);
		assert_true(in[0] == medium || in[0] == 'z');
		sim_world_end(&w);
	}
}

struct cut_fixture {
	struct sim_world w;
	struct rec rec[6];
	struct weir_op start;
	int fd, dir;
	bool started;
};

/* In the world's time, so that faults can be. */
static void start_all(struct weir_op *op, int64_t res)
{
	struct cut_fixture *g =
		weir_container_of(op, struct cut_fixture, start);
	struct weir_reactor *r = g->w.r;

	assert_int_equal(res, 0);
	for (size_t i = 0; i < N_OF(g->rec); i++)
		rec_init(&g->rec[i]);
	g->started = true;
	assert_int_equal(weir_write(r, &g->rec[0].op, g->fd, "y", 1, 0), 0);
	assert_int_equal(weir_rename(r, &g->rec[1].op, AT_FDCWD, "a/f",
				     AT_FDCWD, "a/g", 0), 0);
	assert_int_equal(weir_unlink(r, &g->rec[2].op, AT_FDCWD, "a/f", 0), 0);
	assert_int_equal(weir_open(r, &g->rec[3].op, AT_FDCWD, "a/new",
				   O_RDWR | O_CREAT, 0), 0);
	assert_int_equal(weir_open(r, &g->rec[4].op, AT_FDCWD, "a",
				   O_RDONLY | O_DIRECTORY, 0), 0);
	assert_int_equal(weir_rename(r, &g->rec[5].op, AT_FDCWD, "b/f",
				     AT_FDCWD, "b/g",
				     0), 0);
}

/* What had begun before ends with -EIO, and has done nothing since. */
static void operation_in_flight_in_a_power_cut_fails(void **state)
{
	struct cut_fixture g;

	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		memset(&g, 0, sizeof(g));
		sim_world_begin(&g.w, seed, seed & 1 ? UINT64_C(1) <<
				WEIR_SIM_STUCK : 0, 1);
		weir_sim_file_write(g.w.sim, "a/f", "x", 1, 0);
		weir_sim_file_write(g.w.sim, "b/f", "x", 1, 0);
		g.fd = weir_sim_file_open(g.w.sim, "a/f", O_RDWR, 0);
		g.dir = weir_sim_file_open(g.w.sim, "a", O_RDONLY, 0);
		weir_op_init(&g.start, start_all);
		assert_int_equal(weir_defer(g.w.r, &g.start), 0);
		while (!g.started)
			weir_sim_run(g.w.sim, WEIR_FOREVER, 1);
		weir_sim_power_cut(g.w.sim, "a/");
		weir_sim_run(g.w.sim, WEIR_SEC, 0);
		for (size_t i = 0; i < 5; i++) {
			assert_int_equal(g.rec[i].calls, 1);
			assert_int_equal(g.rec[i].res, -EIO);
		}
		assert_int_equal(weir_sim_file_size(g.w.sim, "a/f"), 1);
		assert_int_equal(weir_sim_file_size(g.w.sim, "a/new"), -ENOENT);
		assert_int_equal(g.rec[5].calls, !(seed & 1));
		weir_sim_set_faults(g.w.sim, 0);
		weir_sim_run(g.w.sim, WEIR_SEC, 0);
		assert_int_equal(g.rec[5].res, 0);
		assert_int_equal(weir_sim_file_size(g.w.sim, "b/g"), 1);
		assert_int_equal(sim_sync(&g.w, g.dir), -EIO);
		assert_int_equal(SIM_CALL(&g.w, unlink, g.dir, "f", 0), -EIO);
		sim_world_end(&g.w);
	}
}

static const struct harness_case cases[] = {
	CASE(power_cut_leaves_each_sector_as_synced_or_as_written_since),
	CASE(power_cut_leaves_each_legal_state_for_some_seed),
	CASE(a_write_with_dsync_is_durable_when_it_ends),
	CASE(a_sync_that_failed_is_not_made_good_by_the_next),
	CASE(failed_durable_write_may_lose_what_was_written_before),
	CASE(a_write_that_fails_leaves_whole_sectors),
	CASE(data_lost_by_a_failed_sync_does_not_come_back),
	CASE(operation_in_flight_in_a_power_cut_fails),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
