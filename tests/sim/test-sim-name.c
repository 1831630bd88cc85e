/* SPDX-License-Identifier: BSD-3-Clause */
/* Which names of simulated files a power cut keeps: those of some time. */

#include "tests/support/sim-file-fixture.h"

#define NAMES 6
#define STEPS 40

struct names {
	char is[STEPS + 1][NAMES];	/* What is in which file; 0: none. */
	unsigned int n, durable;
};

static void read_names(struct sim_world *w, char *ret)
{
	char path[8];

	for (int i = 0; i < NAMES; i++) {
		snprintf(path, sizeof(path), "a/%d", i);
		ret[i] = 0;
		if (weir_sim_file_size(w->sim, path) >= 0)
			assert_int_equal(weir_sim_file_read(w->sim, path,
							    ret + i, 1, 0), 1);
	}
}

static void change_a_name(struct sim_world *w, struct names *m)
{
	char *now = m->is[m->n], *next = m->is[m->n + 1], path[8], to[8], c;
	unsigned int a = weir_sim_random(w->sim) % NAMES;
	unsigned int b = weir_sim_random(w->sim) % NAMES;
	int fd;

	snprintf(path, sizeof(path), "a/%u", a);
	snprintf(to, sizeof(to), "a/%u", b);
	memcpy(next, now, NAMES);
	if (!now[a]) {
		fd = sim_open(w, path, O_RDWR | O_CREAT | O_DSYNC);
		c = next[a] = (char)('A' + m->n);
		assert_int_equal(SIM_CALL(w, write, fd, &c, 1, 0), 1);
		SIM_CALL(w, close, fd);
	} else if (weir_sim_random(w->sim) % 4 == 0) {
		assert_int_equal(SIM_CALL(w, unlink, AT_FDCWD, path, 0), 0);
		next[a] = 0;
	} else if (now[b] && weir_sim_random(w->sim) % 2) {
		assert_int_equal(SIM_CALL(w, rename, AT_FDCWD, path,
					  AT_FDCWD, to,
					  RENAME_EXCHANGE), 0);
		next[a] = now[b];
		next[b] = now[a];
	} else {
		assert_int_equal(SIM_CALL(w, rename, AT_FDCWD, path,
					  AT_FDCWD, to, 0), 0);
		next[a] = 0;
		next[b] = now[a];
	}
	m->n++;
}

static unsigned int cut_names(uint64_t seed)
{
	struct names m = { .n = 0 };
	unsigned int i, steps;
	char now[NAMES];
	struct sim_world w;

	sim_world_begin(&w, seed, 0, 0);
	weir_sim_mkdir(w.sim, "a");
	for (steps = weir_sim_random(w.sim) % STEPS; steps; steps--) {
		change_a_name(&w, &m);
		read_names(&w, now);
		assert_memory_equal(now, m.is[m.n], NAMES);
		if (weir_sim_random(w.sim) % 12 == 0) {
			sim_sync_dir(&w, "a");
			m.durable = m.n;
		}
	}
	weir_sim_power_cut(w.sim, "a/");
	read_names(&w, now);
	for (i = m.durable; memcmp(now, m.is[i], NAMES); i++)
		if (i == m.n)
			fail_msg("seed %llu: names as they never were",
				 (unsigned long long)seed);
	weir_sim_power_cut(w.sim, "a/");
	read_names(&w, now);
	assert_memory_equal(now, m.is[i], NAMES);
	sim_world_end(&w);
	return i != m.durable && i != m.n;
}

static void names_are_as_they_were_at_some_time_since_the_sync(void **state)
{
	unsigned int between = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 200; seed++)
		between += cut_names(seed);
	assert_true(between > 50);
}

/* A sync of one directory says nothing of another, but takes both halves. */
static void a_sync_is_of_a_directory(void **state)
{
	unsigned int kept = 0;
	struct sim_world w;
	int fd;

	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		sim_world_begin(&w, seed, 0, 0);
		fd = sim_open(&w, "h/d/x", O_WRONLY | O_CREAT | O_DSYNC);
		SIM_CALL(&w, write, fd, "x", 1, 0);
		fd = sim_open(&w, "h/d/other", O_WRONLY | O_CREAT);
		assert_int_equal(SIM_CALL(&w, rename, AT_FDCWD, "h/d/x", AT_FDCWD,
					  "h/e/y", 0), 0);
		sim_sync_dir(&w, "h/e");
		weir_sim_power_cut(w.sim, "h/");
		assert_int_equal(weir_sim_file_size(w.sim, "h/d/x"), -ENOENT);
		assert_int_equal(weir_sim_file_size(w.sim, "h/e/y"), 1);
		kept += weir_sim_file_size(w.sim, "h/d/other") == 0;
		sim_world_end(&w);
	}
	assert_in_range(kept, 20, 80);
}

static int exists(struct sim_world *w, const char *path)
{
	return weir_sim_file_size(w->sim, path) >= 0;
}

static void directory_is_renamed_as_a_whole(void **state)
{
	unsigned int kept = 0, old = 0;
	struct sim_world w;
	int fd, dir;

	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		sim_world_begin(&w, seed, 0, 0);
		assert_int_equal(weir_sim_file_write(w.sim, "h/d/x", "x", 1, 0),
				 1);
		assert_int_equal(weir_sim_file_write(w.sim, "h/d/s/y", "y", 1,
						     0), 1);
		dir = sim_open(&w, "h/d/s", O_RDONLY);
		fd = sim_open(&w, "h/d/new", O_WRONLY | O_CREAT);
		assert_int_equal(SIM_CALL(&w, rename, AT_FDCWD, "h/d", AT_FDCWD,
					  "h/e", 0), 0);
		assert_int_equal(exists(&w, "h/d"), 0);
		assert_true(exists(&w, "h/e/x") && exists(&w, "h/e/s/y") &&
			    exists(&w, "h/e/new"));
		/* An open directory goes with it. */
		assert_int_equal(SIM_CALL(&w, open, dir, "y", O_RDONLY, 0) >= 0,
				 1);
		assert_int_equal(SIM_CALL(&w, close, fd), 0);
		if (seed & 1)
			sim_sync_dir(&w, "h");
		weir_sim_power_cut(w.sim, "h/");
		assert_int_equal(exists(&w, "h/e/x"), !exists(&w, "h/d/x"));
		assert_int_equal(exists(&w, "h/e/s/y"), exists(&w, "h/e/x"));
		/* What was there before the rename is kept with it. */
		if (exists(&w, "h/e/x"))
			assert_true(exists(&w, "h/e/new"));
		kept += seed & 1 && exists(&w, "h/e/x");
		old += !(seed & 1) && exists(&w, "h/d/x");
		sim_world_end(&w);
	}
	assert_int_equal(kept, 50);
	assert_in_range(old, 15, 45);
}

static void renames_of_directories_are_refused_as_by_linux(void **state)
{
	static const struct {
		const char *from, *to;
		uint32_t flags;
		int res;
	} table[] = {
		{ "d", "d/s/e", 0, -EINVAL },
		{ "d", "f", 0, -ENOTDIR },
		{ "d", "f/e", 0, -ENOTDIR },
		{ "d", "full", 0, -ENOTEMPTY },
		{ "d", "empty", RENAME_NOREPLACE, -EEXIST },
		{ "d", "f", RENAME_NOREPLACE, -EEXIST },
		{ "d", "full", RENAME_EXCHANGE, -EXDEV },
		{ ".", "e", 0, -EBUSY },
		{ "d", "d", 0, 0 },
		{ "d", "empty", 0, 0 },
	};
	struct sim_world w;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	assert_int_equal(weir_sim_file_write(w.sim, "d/s/x", "x", 1, 0), 1);
	assert_int_equal(weir_sim_file_write(w.sim, "full/x", "x", 1, 0), 1);
	assert_int_equal(weir_sim_file_write(w.sim, "f", "x", 1, 0), 1);
	assert_int_equal(weir_sim_mkdir(w.sim, "empty"), 0);
	for (size_t i = 0; i < N_OF(table); i++)
		if (SIM_CALL(&w, rename, AT_FDCWD, table[i].from, AT_FDCWD,
			     table[i].to, table[i].flags) != table[i].res)
			fail_msg("%s to %s: %lld", table[i].from, table[i].to,
				 (long long)w.res);
	assert_true(exists(&w, "empty/s/x"));
	sim_world_end(&w);
}

static const struct harness_case cases[] = {
	CASE(directory_is_renamed_as_a_whole),
	CASE(renames_of_directories_are_refused_as_by_linux),
	CASE(names_are_as_they_were_at_some_time_since_the_sync),
	CASE(a_sync_is_of_a_directory),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
