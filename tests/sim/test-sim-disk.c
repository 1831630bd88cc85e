/* SPDX-License-Identifier: BSD-3-Clause */
/* What is under simulated files: O_DIRECT, full disks, bad sectors, time. */

#include "tests/support/sim-file-fixture.h"

#include <linux/falloc.h>

static void o_direct_wants_what_is_aligned(void **state)
{
	static const struct {
		uint64_t off;
		size_t at, len;
		int64_t res;
	} table[] = {
		{ 0, 0, 4096, 4096 }, { 4096, 8, 8192, 8192 },
		{ 512, 0, 4096, -EINVAL }, { 0, 0, 512, -EINVAL },
		{ 0, 2, 4096, -EINVAL }, { 0, 4, 4096, 4096 },
		{ 1 << 20, 0, 4096, -ENOSPC },
		{ (1 << 20) - 4096, 0, 8192, -ENOSPC },
	};
	struct sim_world w;
	int64_t res;
	char *mem;
	int fd;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	mem = calloc(1, 16384);
	assert_int_equal(weir_sim_disk(w.sim, "disk", 1 << 20, 4096), 0);
	assert_int_equal(weir_sim_disk(w.sim, "x", 4096, 100), -EINVAL);
	assert_int_equal(weir_sim_disk(w.sim, "x", 5000, 4096), -EINVAL);
	assert_int_equal(weir_sim_disk(w.sim, "disk", 4096, 512), -EEXIST);
	fd = sim_open(&w, "disk", O_RDWR | O_DIRECT);
	for (size_t i = 0; i < N_OF(table); i++) {
		res = SIM_CALL(&w, write, fd, mem + table[i].at, table[i].len,
			       table[i].off);
		if (res != table[i].res)
			fail_msg("%zu: %lld", i, (long long)res);
	}
	assert_int_equal(w.detail.bytes, 4096);
	assert_int_equal(SIM_CALL(&w, read, fd, mem, 4096, 1 << 20), 0);
	assert_int_equal(SIM_CALL(&w, read, fd, mem, 8192, (1 << 20) - 4096),
			 4096);
	fd = sim_open(&w, "disk", O_RDWR);
	assert_int_equal(SIM_CALL(&w, write, fd, mem, 100, (1 << 20) - 50),
			 -ENOSPC);
	assert_int_equal(w.detail.bytes, 50);
	assert_int_equal(SIM_CALL(&w, fallocate, fd, 0, 0, 4096), -EOPNOTSUPP);
	assert_int_equal(SIM_CALL(&w, fallocate, fd, FALLOC_FL_ZERO_RANGE, 4096,
				  4096), 0);
	assert_int_equal(SIM_CALL(&w, fallocate, fd, FALLOC_FL_ZERO_RANGE, 1,
				  4096), -EINVAL);
	free(mem);
	sim_world_end(&w);
}

static void o_direct_short_by_chance_is_so_by_sectors(void **state)
{
	struct sim_world w;
	char *out = malloc(65536), *in = malloc(65536);
	int fd;

	(void)state;
	fill_pattern(out, 65536, 0, 1);
	for (uint64_t seed = 0; seed < 50; seed++) {
		sim_world_begin(&w, seed, 1u << WEIR_SIM_SHORT, 2);
		fd = sim_open(&w, "f", O_RDWR | O_CREAT | O_DIRECT);
		assert_int_equal(SIM_CALL(&w, write, fd, out, 65536, 512),
				 65536);
		assert_int_equal(SIM_CALL(&w, read, fd, in, 65536, 512), 65536);
		assert_memory_equal(in, out, 65536);
		sim_world_end(&w);
	}
	free(out);
	free(in);
}

static void a_full_disk_is_enospc_at_the_byte(void **state)
{
	struct sim_world w;
	char *out = malloc(20000);
	int fd, other;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	fill_pattern(out, 20000, 0, 1);
	fd = sim_open(&w, "d/f", O_RDWR | O_CREAT);
	other = sim_open(&w, "e/f", O_RDWR | O_CREAT);
	weir_sim_space(w.sim, "d/", 10001);
	assert_int_equal(SIM_CALL(&w, write, fd, out, 20000, 3), -ENOSPC);
	assert_int_equal(w.detail.bytes, 10001);
	assert_int_equal(weir_sim_file_size(w.sim, "d/f"), 10004);
	/* What has its place can be written again; elsewhere there is
	 * capacity. */
	assert_int_equal(SIM_CALL(&w, write, fd, out, 10001, 3), 10001);
	assert_int_equal(SIM_CALL(&w, write, fd, out, 1, 0), -ENOSPC);
	assert_int_equal(SIM_CALL(&w, write, other, out, 20000, 0), 20000);
	assert_int_equal(SIM_CALL(&w, fallocate, fd, 0, 0, 10005), -ENOSPC);
	assert_int_equal(SIM_CALL(&w, fallocate, fd, FALLOC_FL_PUNCH_HOLE |
				  FALLOC_FL_KEEP_SIZE, 5000, 100), 0);
	assert_int_equal(SIM_CALL(&w, write, fd, out, 200, 20000), -ENOSPC);
	assert_int_equal(w.detail.bytes, 100);
	weir_sim_space(w.sim, "d/", UINT64_MAX);
	assert_int_equal(SIM_CALL(&w, write, fd, out, 200, 20000), 200);
	free(out);
	sim_world_end(&w);
}

static void short_direct_io_ends_at_a_sector(void **state)
{
	char *out = calloc(1, 16384);
	struct sim_world w;
	int fd;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	fd = sim_open(&w, "f", O_RDWR | O_CREAT | O_DIRECT);
	weir_sim_space(w.sim, "f", 10000);
	assert_int_equal(SIM_CALL(&w, write, fd, out, 16384, 0), -ENOSPC);
	assert_int_equal(w.detail.bytes, 9728);
	free(out);
	sim_world_end(&w);
}

/* How many bytes of a write have capacity, by a map of each byte. */
static size_t capacity(const bool *held, size_t space, size_t off, size_t len)
{
	size_t used = 0, n;

	for (size_t i = 0; i < 400; i++)
		used += held[i];
	for (n = 0; n < len; n++)
		if (!held[off + n] && used++ >= space)
			break;
	return n;
}

static void space_is_what_is_no_hole(void **state)
{
	size_t space = 100, off, len, n;
	struct sim_world w;
	char out[100] = { 1 };
	bool held[400];
	int fd;

	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		sim_world_begin(&w, seed, 0, 0);
		memset(held, 0, sizeof(held));
		fd = sim_open(&w, "f", O_RDWR | O_CREAT);
		weir_sim_space(w.sim, "f", space);
		for (int step = 0; step < 200; step++) {
			off = weir_sim_random(w.sim) % 300;
			len = 1 + weir_sim_random(w.sim) % 60;
			if (weir_sim_random(w.sim) % 3 == 0) {
				SIM_CALL(&w, fallocate, fd,
					 FALLOC_FL_PUNCH_HOLE |
					 FALLOC_FL_KEEP_SIZE, off, len);
				memset(held + off, 0, len);
				continue;
			}
			n = capacity(held, space, off, len);
			assert_int_equal(SIM_CALL(&w, write, fd, out, len, off),
					 n == len ? (int64_t)len : -ENOSPC);
			assert_int_equal(w.detail.bytes, n);
			memset(held + off, 1, n);
		}
		sim_world_end(&w);
	}
}

static void bad_sectors_are_eio_and_what_is_before_them_is_not(void **state)
{
	struct sim_world w;
	char *mem = calloc(1, 8192);
	int fd, direct;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	weir_sim_file_write(w.sim, "f", mem, 8192, 0);
	fd = sim_open(&w, "f", O_RDWR);
	direct = sim_open(&w, "f", O_RDWR | O_DIRECT);
	assert_int_equal(weir_sim_bad_sectors(w.sim, "f", 2050, 1,
					      WEIR_SIM_BAD_READS), 0);
	assert_int_equal(weir_sim_bad_sectors(w.sim, "f", 0, 0, 0), -EINVAL);
	assert_int_equal(weir_sim_bad_sectors(w.sim, "g", 0, 1, 0), -ENOENT);
	assert_int_equal(SIM_CALL(&w, read, fd, mem, 8192, 0), -EIO);
	assert_int_equal(w.detail.bytes, 2048);
	assert_int_equal(SIM_CALL(&w, read, fd, mem, 8192, WEIR_OFF_STREAM),
			 2048);
	assert_int_equal(SIM_CALL(&w, read, fd, mem, 8192, WEIR_OFF_STREAM),
			 -EIO);
	assert_int_equal(SIM_CALL(&w, read, fd, mem, 5632, 2560), 5632);
	assert_int_equal(SIM_CALL(&w, write, direct, mem, 8192, 0), 8192);
	weir_sim_bad_sectors(w.sim, "f", 2048, 512, WEIR_SIM_BAD_WRITES);
	assert_int_equal(SIM_CALL(&w, read, fd, mem, 8192, 0), 8192);
	assert_int_equal(SIM_CALL(&w, write, direct, mem, 8192, 0), -EIO);
	assert_int_equal(w.detail.bytes, 2048);
	/* The cache takes it; the sync says so, to each, once. */
	memset(mem, 1, 8192);
	assert_int_equal(SIM_CALL(&w, write, fd, mem, 8192, 0), 8192);
	assert_int_equal(sim_sync(&w, fd), -EIO);
	assert_int_equal(sim_sync(&w, fd), 0);
	assert_int_equal(sim_sync(&w, direct), -EIO);
	assert_int_equal(sim_sync(&w, direct), 0);
	assert_int_equal(weir_sim_file_durable(w.sim, "f", mem, 8192, 0), 8192);
	for (size_t i = 0; i < 8192; i++)
		assert_int_equal(mem[i], i / 512 != 4);
	weir_sim_bad_sectors(w.sim, "f", 0, 8192, 0);
	assert_int_equal(SIM_CALL(&w, write, fd, mem, 512, 2048), 512);
	assert_int_equal(sim_sync(&w, fd), 0);
	free(mem);
	sim_world_end(&w);
}

/* O_DIRECT and a sync are the disk's, the rest the cache's. */
static void disk_io_takes_its_time(void **state)
{
	char *mem = calloc(1, 512);
	struct sim_world w;
	uint64_t begun;
	int fd, direct;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	weir_sim_set_latency(w.sim, WEIR_SIM_DISK, WEIR_SEC, 0);
	fd = sim_open(&w, "f", O_RDWR | O_CREAT);
	direct = sim_open(&w, "f", O_RDWR | O_DIRECT);
	begun = weir_sim_now(w.sim);
	assert_int_equal(SIM_CALL(&w, write, fd, mem, 512, 0), 512);
	assert_true(weir_sim_now(w.sim) - begun < WEIR_SEC);
	assert_int_equal(SIM_CALL(&w, read, direct, mem, 512, 0), 512);
	assert_int_equal(sim_sync(&w, fd), 0);
	begun = weir_sim_now(w.sim) - begun;
	assert_true(begun >= 2 * WEIR_SEC && begun < 3 * WEIR_SEC);
	free(mem);
	sim_world_end(&w);
}

static const struct harness_case cases[] = {
	CASE(o_direct_wants_what_is_aligned),
	CASE(o_direct_short_by_chance_is_so_by_sectors),
	CASE(a_full_disk_is_enospc_at_the_byte),
	CASE(short_direct_io_ends_at_a_sector),
	CASE(space_is_what_is_no_hole),
	CASE(bad_sectors_are_eio_and_what_is_before_them_is_not),
	CASE(disk_io_takes_its_time),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
