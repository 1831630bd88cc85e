/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulated files without power cuts and faults: what Linux would do. */

#include "tests/support/sim-file-fixture.h"

#include <dirent.h>
#include <linux/falloc.h>

#include <weir/alarm.h>
#include <weir/child.h>
#include <weir/fs.h>
#include <weir/fswatch.h>
#include <weir/sim/socket.h>

#define BIG ((uint64_t)1 << 40)

static void written_bytes_are_read_back(void **state)
{
	char out[10000], in[12000];
	struct sim_world w;
	int fd;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	fill_pattern(out, sizeof(out), 0, 1);
	fd = sim_open(&w, "a/log", O_RDWR | O_CREAT);
	assert_true(fd >= 0);
	assert_int_equal(SIM_CALL(&w, write, fd, out, sizeof(out), 700),
			 sizeof(out));
	assert_int_equal(SIM_CALL(&w, read, fd, in, sizeof(in), 700),
			 sizeof(out));
	assert_memory_equal(in, out, sizeof(out));
	assert_int_equal(SIM_CALL(&w, read, fd, in, 700, 0), 700);
	for (size_t i = 0; i < 700; i++)
		assert_int_equal(in[i], 0);
	assert_int_equal(SIM_CALL(&w, read, fd, in, 1, 10700), 0);
	assert_int_equal(SIM_CALL(&w, close, fd), 0);
	assert_int_equal(SIM_CALL(&w, read, fd, in, 1, 0), -EBADF);
	assert_int_equal(weir_sim_file_size(w.sim, "/a//./log"), 10700);
	assert_int_equal(weir_sim_file_read(w.sim, "a/log", in, 5, 10698), 2);
	assert_memory_equal(in, out + 9998, 2);
	sim_world_end(&w);
}

static void a_file_of_terabytes_takes_what_was_written(void **state)
{
	struct sim_world w;
	char c[3] = "abc";
	int fd;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	fd = sim_open(&w, "f", O_RDWR | O_CREAT);
	for (uint64_t i = 0; i < 40; i++)
		assert_int_equal(SIM_CALL(&w, write, fd, c, 3, i * BIG + i), 3);
	assert_int_equal(SIM_CALL(&w, fallocate, fd, 0, 0, 100 * BIG), 0);
	assert_int_equal(SIM_CALL(&w, read, fd, c, 3, 39 * BIG + 38), 3);
	assert_memory_equal(c, "\0ab", 3);
	assert_int_equal(SIM_CALL(&w, fallocate, fd, FALLOC_FL_PUNCH_HOLE |
				  FALLOC_FL_KEEP_SIZE, 0, 99 * BIG), 0);
	assert_int_equal(SIM_CALL(&w, read, fd, c, 3, 39 * BIG + 38), 3);
	assert_memory_equal(c, "\0\0\0", 3);
	assert_int_equal(weir_sim_file_size(w.sim, "f"), 100 * BIG);
	sim_world_end(&w);
}

static void vectors_are_filled_in_order(void **state)
{
	char out[3000], in[3000];
	struct iovec iov[4] = { { in, 0 }, { in, 1000 }, { in + 1000, 0 },
				{ in + 1000, 2000 } };
	struct sim_world w;
	int fd;

	(void)state;
	/* Cut short at nearly every step. */
	for (uint64_t seed = 0; seed < 20; seed++) {
		sim_world_begin(&w, seed, seed ? 1u << WEIR_SIM_SHORT : 0, 2);
		fill_pattern(out, sizeof(out), 0, 1);
		memcpy(in, out, sizeof(in));
		fd = sim_open(&w, "f", O_RDWR | O_CREAT);
		assert_int_equal(SIM_CALL(&w, writev, fd, iov, 4, 5), 3000);
		memset(in, 0, sizeof(in));
		assert_int_equal(SIM_CALL(&w, readv, fd, iov, 4, 5), 3000);
		assert_memory_equal(in, out, sizeof(in));
		sim_world_end(&w);
	}
}

static void a_stream_has_its_own_position(void **state)
{
	struct sim_world w;
	int fd, other;
	char in[8];

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	fd = sim_open(&w, "f", O_RDWR | O_CREAT);
	other = sim_open(&w, "f", O_RDWR | O_APPEND);
	assert_int_equal(SIM_CALL(&w, write, fd, "abcd", 4, WEIR_OFF_STREAM),
			 4);
	assert_int_equal(SIM_CALL(&w, write, other, "ef", 2, 0), 2);
	assert_int_equal(SIM_CALL(&w, read, fd, in, 8, WEIR_OFF_STREAM), 2);
	assert_memory_equal(in, "ef", 2);
	assert_int_equal(SIM_CALL(&w, read, fd, in, 8, WEIR_OFF_STREAM), 0);
	assert_int_equal(SIM_CALL(&w, read, other, in, 8, WEIR_OFF_STREAM), 6);
	assert_memory_equal(in, "abcdef", 6);
	assert_int_equal(SIM_CALL(&w, write, other, "g", 1, WEIR_OFF_STREAM),
			 1);
	assert_int_equal(weir_sim_file_size(w.sim, "f"), 7);
	sim_world_end(&w);
}

static void opens_are_refused_as_by_linux(void **state)
{
	static const struct {
		const char *path;
		int flags;
		int res;
	} table[] = {
		{ "none", O_RDONLY, -ENOENT },
		{ "", O_RDONLY, -ENOENT },
		{ "f", O_RDWR | O_CREAT | O_EXCL, -EEXIST },
		{ "f", O_RDONLY | O_DIRECTORY, -ENOTDIR },
		{ "f/below", O_RDONLY, -ENOTDIR },
		{ "f/below", O_RDWR | O_CREAT, -ENOTDIR },
		{ "d", O_RDWR, -EISDIR },
		{ "d", O_RDONLY | O_CREAT, -EISDIR },
		{ "d", O_RDONLY | O_CREAT | O_EXCL, -EEXIST },
		{ "d", O_RDONLY | O_DIRECT, -EINVAL },
		{ "implied", O_WRONLY, -EISDIR },
		{ "new", O_RDWR | O_CREAT | O_DIRECTORY, -EINVAL },
		{ "d", O_RDONLY | O_TMPFILE, -EINVAL },
		{ "none", O_RDWR | O_TMPFILE, -ENOENT },
		{ "f", O_RDWR | O_TMPFILE, -ENOTDIR },
	};
	struct sim_world w;
	char name[300];

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	assert_int_equal(weir_sim_mkdir(w.sim, "d"), 0);
	assert_int_equal(weir_sim_mkdir(w.sim, "d/"), -EEXIST);
	assert_int_equal(weir_sim_file_write(w.sim, "f", "x", 1, 0), 1);
	assert_int_equal(weir_sim_file_write(w.sim, "implied/f", "x", 1, 0), 1);
	assert_int_equal(weir_sim_mkdir(w.sim, "implied"), -EEXIST);
	assert_int_equal(weir_sim_mkdir(w.sim, "f/below"), -ENOTDIR);
	for (size_t i = 0; i < N_OF(table); i++)
		if (sim_open(&w, table[i].path, table[i].flags) !=
		    table[i].res)
			fail_msg("%s %x: %lld", table[i].path, table[i].flags,
				 (long long)w.res);
	memset(name, 'n', sizeof(name));
	name[256] = 0;
	assert_int_equal(sim_open(&w, name, O_RDWR | O_CREAT), -ENAMETOOLONG);
	assert_int_equal(weir_sim_file_open(w.sim, "none", O_RDONLY, 0),
			 -ENOENT);
	assert_int_equal(SIM_CALL(&w, open, 3, "f", O_RDONLY, 0), -EBADF);
	assert_int_equal(weir_sim_file_list(w.sim, "", NULL, NULL), 3);
	sim_world_end(&w);
}

static void modes_decide_what_a_descriptor_may(void **state)
{
	struct sim_world w;
	int r, wr, dir, path;
	char c;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	wr = sim_open(&w, "d/f", O_WRONLY | O_CREAT);
	r = sim_open(&w, "d/f", O_RDONLY);
	dir = sim_open(&w, "d", O_RDONLY);
	path = sim_open(&w, "d/f", O_PATH);
	assert_int_equal(SIM_CALL(&w, read, wr, &c, 1, 0), -EBADF);
	assert_int_equal(SIM_CALL(&w, write, r, "x", 1, 0), -EBADF);
	assert_int_equal(SIM_CALL(&w, read, path, &c, 1, 0), -EBADF);
	assert_int_equal(sim_sync(&w, path), -EBADF);
	assert_int_equal(SIM_CALL(&w, fallocate, r, 0, 0, 1), -EBADF);
	assert_int_equal(SIM_CALL(&w, fallocate, wr, 0, 0, 0), -EINVAL);
	assert_int_equal(SIM_CALL(&w, fallocate, wr, FALLOC_FL_PUNCH_HOLE, 0,
				  1), -EOPNOTSUPP);
	assert_int_equal(SIM_CALL(&w, fallocate, wr, FALLOC_FL_COLLAPSE_RANGE,
				  0, 4096), -EOPNOTSUPP);
	assert_int_equal(SIM_CALL(&w, read, dir, &c, 1, 0), -EISDIR);
	assert_int_equal(SIM_CALL(&w, write, dir, "x", 1, 0), -EBADF);
	assert_int_equal(sim_sync(&w, r), 0);
	assert_int_equal(weir_fd_register(w.r, r), 0);
	weir_fd_unregister(w.r, r);
	assert_int_equal(weir_fd_register(w.r, r + 100), -EBADF);
	/* Seen from the directory, a name is the same. */
	assert_int_equal(SIM_CALL(&w, unlink, dir, "f", 0), 0);
	assert_int_equal(weir_sim_file_size(w.sim, "d/f"), -ENOENT);
	assert_int_equal(SIM_CALL(&w, unlink, r, "f", 0), -ENOTDIR);
	sim_world_end(&w);
}

/* A file of O_TMPFILE is kept if it, its name and its directory are synced. */
static void unnamed_file_is_lost_unless_it_gets_a_name(void **state)
{
	struct sim_world w;
	struct statx st;
	int fd;

	(void)state;
	for (int named = 0; named <= 2; named++) {
		sim_world_begin(&w, 1, 0, 0);
		assert_int_equal(weir_sim_mkdir(w.sim, "d"), 0);
		fd = sim_open(&w, "d", O_RDWR | O_TMPFILE);
		assert_true(fd >= 0);
		assert_int_equal(SIM_CALL(&w, write, fd, "abc", 3, 0), 3);
		assert_int_equal(sim_sync(&w, fd), 0);
		assert_int_equal(SIM_CALL(&w, statx, fd, "", AT_EMPTY_PATH,
					  STATX_BASIC_STATS, &st), 0);
		assert_int_equal(st.stx_nlink, 0);
		assert_int_equal(weir_sim_file_list(w.sim, "d/", NULL, NULL),
				 0);
		if (named) {
			assert_int_equal(weir_sim_link(fd, "d/f"), 0);
			assert_int_equal(weir_sim_link(fd, "d/f"), -EEXIST);
			assert_int_equal(weir_sim_file_size(w.sim, "d/f"), 3);
		}
		if (named == 2)
			sim_sync_dir(&w, "d");
		weir_sim_power_cut(w.sim, "d/");
		if (named != 1)
			assert_int_equal(weir_sim_file_size(w.sim, "d/f"),
					 named ? 3 : -ENOENT);
		assert_int_equal(weir_sim_link(fd, "d/g"), -EIO);
		sim_world_end(&w);
	}
}

/* What programs call that do not wait for an operation. */
static void calls_at_once_are_as_on_linux(void **state)
{
	struct sim_world w;
	struct stat st;
	int fd, dir, p[2];

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	assert_int_equal(weir_sim_mkdir(w.sim, "d"), 0);
	fd = weir_sim_file_open(w.sim, "d/f", O_RDWR | O_CREAT, 0640);
	dir = weir_sim_file_open(w.sim, "d", O_RDONLY, 0);
	assert_int_equal(weir_sim_pipe(w.sim, p), 0);
	assert_int_equal(weir_sim_pwrite(fd, "0123", 4, 8192), 4);
	assert_int_equal(weir_sim_fallocate(fd, 0, 20000, 10), 0);
	assert_int_equal(weir_sim_fallocate(fd, 0, 0, 0), -EINVAL);
	assert_int_equal(weir_sim_fallocate(fd, 0, INT64_MAX, 2), -EFBIG);
	assert_int_equal(weir_sim_fallocate(dir, 0, 0, 1), -EISDIR);
	assert_int_equal(weir_sim_fallocate(p[0], 0, 0, 1), -ESPIPE);
	assert_int_equal(weir_sim_lseek(fd, 0, SEEK_DATA), 8192);
	assert_int_equal(weir_sim_lseek(fd, 8192, SEEK_HOLE), 8196);
	assert_int_equal(weir_sim_lseek(fd, 8200, SEEK_DATA), 20000);
	assert_int_equal(weir_sim_lseek(fd, 30000, SEEK_DATA), -ENXIO);
	assert_int_equal(weir_sim_fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 20010);
	assert_int_equal(st.st_mode, S_IFREG | 0640);
	assert_int_equal(weir_sim_stat(w.sim, "d", &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(weir_sim_stat(w.sim, "none", &st), -ENOENT);
	assert_int_equal(weir_sim_stat(w.sim, "d/f/x", &st), -ENOTDIR);
	assert_int_equal(weir_sim_fstat(p[0], &st), 0);
	assert_true(S_ISFIFO(st.st_mode));
	assert_int_equal(weir_sim_get_flags(fd), O_RDWR);
	assert_int_equal(weir_sim_set_flags(fd, O_APPEND), 0);
	assert_int_equal(weir_sim_get_flags(fd), O_RDWR | O_APPEND);
	assert_int_equal(weir_sim_pwrite(fd, "x", 1, 0), 1);
	assert_int_equal(weir_sim_file_size(w.sim, "d/f"), 20011);
	assert_int_equal(weir_sim_fsync(fd), 0);
	assert_int_equal(weir_sim_fsync(dir), 0);
	assert_int_equal(weir_sim_fsync(p[0]), -EINVAL);
	assert_int_equal(weir_sim_file_durable(w.sim, "d/f", &st, 1, 0), 1);
	assert_int_equal(weir_sim_rename(w.sim, "d/f", "d/g", 0), 0);
	assert_int_equal(weir_sim_unlink(w.sim, "d/f", 0), -ENOENT);
	assert_int_equal(weir_sim_unlink(w.sim, "d/g", 0), 0);
	assert_int_equal(weir_sim_link(dir, "x"), -EPERM);
	assert_int_equal(weir_sim_link(p[0], "x"), -EINVAL);
	assert_int_equal(weir_sim_close(fd), 0);
	assert_int_equal(weir_sim_fstat(fd, &st), -EBADF);
	assert_int_equal(weir_sim_get_flags(fd), -EBADF);
	assert_int_equal(weir_sim_set_flags(fd, 0), -EBADF);
	assert_int_equal(weir_sim_fsync(fd), -EBADF);
	assert_int_equal(weir_sim_link(fd, "x"), -EBADF);
	sim_world_end(&w);
}

static void a_file_without_a_name_lives_while_it_is_open(void **state)
{
	struct sim_world w;
	struct statx st;
	char in[3];
	int fd;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	fd = sim_open(&w, "f", O_RDWR | O_CREAT);
	assert_int_equal(SIM_CALL(&w, write, fd, "abc", 3, 0), 3);
	assert_int_equal(SIM_CALL(&w, unlink, AT_FDCWD, "f", 0), 0);
	assert_int_equal(SIM_CALL(&w, read, fd, in, 3, 0), 3);
	assert_int_equal(SIM_CALL(&w, statx, fd, "", AT_EMPTY_PATH,
				  STATX_BASIC_STATS, &st), 0);
	assert_int_equal(st.stx_nlink, 0);
	assert_int_equal(st.stx_size, 3);
	assert_int_equal(SIM_CALL(&w, unlink, AT_FDCWD, "f", 0), -ENOENT);
	assert_int_equal(SIM_CALL(&w, close, fd), 0);
	sim_world_end(&w);
}

static void stat_tells_what_it_is(void **state)
{
	struct statx st, other;
	struct sim_world w;
	int fd;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	fd = (int)SIM_CALL(&w, open, AT_FDCWD, "d/f", O_RDWR | O_CREAT, 0640);
	assert_int_equal(SIM_CALL(&w, write, fd, "abc", 3, 70000), 3);
	assert_int_equal(SIM_CALL(&w, statx, AT_FDCWD, "d/f", 0,
				  STATX_BASIC_STATS, &st), 0);
	assert_int_equal(st.stx_size, 70003);
	assert_int_equal(st.stx_mode, S_IFREG | 0640);
	assert_int_equal(st.stx_nlink, 1);
	assert_int_equal(st.stx_blocks, 1);
	assert_int_equal(SIM_CALL(&w, statx, fd, "", AT_EMPTY_PATH,
				  STATX_BASIC_STATS, &other), 0);
	assert_memory_equal(&st, &other, sizeof(st));
	assert_int_equal(SIM_CALL(&w, statx, fd, "", 0, STATX_BASIC_STATS,
				  &st), -ENOENT);
	assert_int_equal(SIM_CALL(&w, statx, AT_FDCWD, "d", 0,
				  STATX_BASIC_STATS, &st), 0);
	assert_true(S_ISDIR(st.stx_mode));
	assert_int_equal(weir_sim_disk(w.sim, "disk", 1 << 20, 4096), 0);
	assert_int_equal(SIM_CALL(&w, statx, AT_FDCWD, "disk", 0,
				  STATX_BASIC_STATS, &st), 0);
	assert_true(S_ISBLK(st.stx_mode));
	assert_int_equal(SIM_CALL(&w, statx, AT_FDCWD, "d/f/g", 0, 0, &st),
			 -ENOTDIR);
	assert_int_equal(SIM_CALL(&w, statx, AT_FDCWD, "d/g", 0, 0, &st),
			 -ENOENT);
	sim_world_end(&w);
}

static char byte_of(struct sim_world *w, const char *path)
{
	char c = 0;

	return weir_sim_file_read(w->sim, path, &c, 1, 0) == 1 ? c : 0;
}

static void names_are_moved_and_removed(void **state)
{
	struct sim_world w;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	weir_sim_mkdir(w.sim, "d");
	weir_sim_file_write(w.sim, "a", "a", 1, 0);
	weir_sim_file_write(w.sim, "b", "b", 1, 0);
	assert_int_equal(SIM_CALL(&w, rename, AT_FDCWD, "a", AT_FDCWD,
				  "b", RENAME_NOREPLACE), -EEXIST);
	assert_int_equal(SIM_CALL(&w, rename, AT_FDCWD, "a", AT_FDCWD,
				  "c", RENAME_EXCHANGE), -ENOENT);
	assert_int_equal(SIM_CALL(&w, rename, AT_FDCWD, "a", AT_FDCWD,
				  "b", RENAME_EXCHANGE), 0);
	assert_int_equal(byte_of(&w, "a"), 'b');
	assert_int_equal(byte_of(&w, "b"), 'a');
	assert_int_equal(SIM_CALL(&w, rename, AT_FDCWD, "a", AT_FDCWD,
				  "a", 0), 0);
	assert_int_equal(SIM_CALL(&w, rename, AT_FDCWD, "a", AT_FDCWD,
				  "d/b", 0), 0);
	assert_int_equal(SIM_CALL(&w, rename, AT_FDCWD, "b", AT_FDCWD,
				  "d/b", 0), 0);
	assert_int_equal(byte_of(&w, "d/b"), 'a');
	assert_int_equal(weir_sim_file_size(w.sim, "a"), -ENOENT);
	assert_int_equal(SIM_CALL(&w, rename, AT_FDCWD, "a", AT_FDCWD,
				  "b", 0), -ENOENT);
	assert_int_equal(SIM_CALL(&w, rename, AT_FDCWD, "d", AT_FDCWD,
				  "d/b/e", 0), -EINVAL);
	assert_int_equal(SIM_CALL(&w, rename, AT_FDCWD, "d", AT_FDCWD,
				  "e", RENAME_EXCHANGE), -EXDEV);
	assert_int_equal(SIM_CALL(&w, rename, AT_FDCWD, "d/b", AT_FDCWD,
				  "d", 0),
			 -EISDIR);
	assert_int_equal(SIM_CALL(&w, rename, AT_FDCWD, "d/b", AT_FDCWD,
				  "d/b/c", 0),
			 -ENOTDIR);
	assert_int_equal(SIM_CALL(&w, rename, AT_FDCWD, "d/b", AT_FDCWD,
				  "c", RENAME_NOREPLACE | RENAME_EXCHANGE), -EINVAL);
	assert_int_equal(SIM_CALL(&w, unlink, AT_FDCWD, "d", 0), -EISDIR);
	assert_int_equal(SIM_CALL(&w, unlink, AT_FDCWD, "d", AT_REMOVEDIR),
			 -ENOTEMPTY);
	assert_int_equal(SIM_CALL(&w, unlink, AT_FDCWD, "d/b", AT_REMOVEDIR),
			 -ENOTDIR);
	assert_int_equal(SIM_CALL(&w, unlink, AT_FDCWD, "d/b", 0), 0);
	assert_int_equal(SIM_CALL(&w, unlink, AT_FDCWD, "d", AT_REMOVEDIR), 0);
	assert_int_equal(weir_sim_file_list(w.sim, "", NULL, NULL), 0);
	sim_world_end(&w);
}

static void opening_can_truncate(void **state)
{
	struct sim_world w;
	char in[9];
	int fd;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	weir_sim_file_write(w.sim, "f", "abcdefgh", 8, 0);
	fd = sim_open(&w, "f", O_WRONLY | O_TRUNC);
	assert_int_equal(weir_sim_file_size(w.sim, "f"), 0);
	assert_int_equal(SIM_CALL(&w, write, fd, "x", 1, 4), 1);
	assert_int_equal(weir_sim_file_read(w.sim, "f", in, 9, 0), 5);
	assert_memory_equal(in, "\0\0\0\0x", 5);
	/* Not yet on the medium. */
	assert_int_equal(weir_sim_file_durable(w.sim, "f", in, 9, 0), 8);
	assert_memory_equal(in, "abcdefgh", 8);
	assert_int_equal(sim_sync(&w, fd), 0);
	assert_int_equal(weir_sim_file_durable(w.sim, "f", in, 9, 0), 5);
	assert_memory_equal(in, "\0\0\0\0x", 5);
	sim_world_end(&w);
}

static void ranges_are_zeroed_and_allocated(void **state)
{
	char out[8192], in[9000];
	struct sim_world w;
	struct statx st;
	int fd;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	fill_pattern(out, sizeof(out), 0, 1);
	fd = sim_open(&w, "f", O_RDWR | O_CREAT);
	assert_int_equal(SIM_CALL(&w, write, fd, out, 8192, 0), 8192);
	assert_int_equal(SIM_CALL(&w, fallocate, fd, FALLOC_FL_PUNCH_HOLE |
				  FALLOC_FL_KEEP_SIZE, 100, 5000), 0);
	memset(out + 100, 0, 5000);
	assert_int_equal(SIM_CALL(&w, fallocate, fd, FALLOC_FL_ZERO_RANGE,
				  8000, 1000), 0);
	memset(out + 8000, 0, 192);
	assert_int_equal(weir_sim_file_read(w.sim, "f", in, 9100, 0), 9000);
	assert_memory_equal(in, out, 8192);
	assert_int_equal(SIM_CALL(&w, fallocate, fd, FALLOC_FL_KEEP_SIZE, 0,
				  1 << 20), 0);
	assert_int_equal(SIM_CALL(&w, statx, AT_FDCWD, "f", 0,
				  STATX_BASIC_STATS, &st), 0);
	assert_int_equal(st.stx_size, 9000);
	assert_int_equal(st.stx_blocks, (1 << 20) / 512);
	assert_int_equal(SIM_CALL(&w, fallocate, fd, 0, 0, 10000), 0);
	assert_int_equal(weir_sim_file_size(w.sim, "f"), 10000);
	sim_world_end(&w);
}

static void ranges_are_copied(void **state)
{
	char out[30000], in[30000];
	struct sim_world w;
	int a, b, ap;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	fill_pattern(out, sizeof(out), 0, 1);
	weir_sim_file_write(w.sim, "a", out, sizeof(out), 0);
	a = sim_open(&w, "a", O_RDWR);
	b = sim_open(&w, "b", O_RDWR | O_CREAT);
	ap = sim_open(&w, "b", O_RDWR | O_APPEND);
	assert_int_equal(SIM_CALL(&w, copy_range, a, 777, b, 1, 40000), 29223);
	assert_int_equal(w.detail.bytes, 29223);
	assert_int_equal(weir_sim_file_read(w.sim, "b", in, 30000, 1), 29223);
	assert_memory_equal(in, out + 777, 29223);
	assert_int_equal(SIM_CALL(&w, copy_range, a, 0, a, 100, 101), -EINVAL);
	assert_int_equal(SIM_CALL(&w, copy_range, a, 0, a, 100, 100), 100);
	assert_int_equal(SIM_CALL(&w, copy_range, a, 40000, b, 0, 1), 0);
	assert_int_equal(SIM_CALL(&w, copy_range, a, 0, ap, 0, 1), -EBADF);
	assert_int_equal(SIM_CALL(&w, copy_range, a, 0, b + 50, 0, 1), -EBADF);
	weir_sim_bad_sectors(w.sim, "a", 10000, 1, WEIR_SIM_BAD_READS);
	assert_int_equal(SIM_CALL(&w, copy_range, a, 0, b, 0, 20000), -EIO);
	assert_int_equal(w.detail.bytes, 9728);
	weir_sim_space(w.sim, "c", 10000);
	b = sim_open(&w, "c", O_RDWR | O_CREAT);
	assert_int_equal(SIM_CALL(&w, copy_range, a, 15000, b, 0, 15000),
			 -ENOSPC);
	assert_int_equal(w.detail.bytes, 10000);
	sim_world_end(&w);
}

static void world_has_the_system_calls_on_files(void **state)
{
	int fd, ro, dir, pipe[2];
	struct sim_world w;
	char in[8];

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	assert_int_equal(weir_sim_pipe(w.sim, pipe), 0);
	fd = weir_sim_file_open(w.sim, "d/f", O_RDWR | O_CREAT, 0600);
	ro = weir_sim_file_open(w.sim, "d/f", O_RDONLY, 0);
	dir = weir_sim_file_open(w.sim, "d", O_RDONLY, 0);
	assert_int_equal(weir_sim_pwrite(fd, "abcdef", 6, 10), 6);
	assert_int_equal(weir_sim_pwrite(ro, "x", 1, 10), -EBADF);
	assert_int_equal(weir_sim_pwrite(fd, "x", 1, UINT64_MAX), -EINVAL);
	assert_int_equal(weir_sim_pread(ro, in, 8, 12), 4);
	assert_memory_equal(in, "cdef", 4);
	assert_int_equal(weir_sim_pread(ro, in, 8, UINT64_MAX), -EINVAL);
	assert_int_equal(weir_sim_pread(dir, in, 8, 0), -EISDIR);
	assert_int_equal(weir_sim_pread(pipe[0], in, 8, 0), -ESPIPE);
	assert_int_equal(weir_sim_pread(fd + 99, in, 8, 0), -EBADF);
	assert_int_equal(weir_sim_lseek(fd, -2, SEEK_END), 14);
	assert_int_equal(weir_sim_read(fd, in, 8), 2);
	assert_int_equal(weir_sim_lseek(fd, -17, SEEK_CUR), -EINVAL);
	assert_int_equal(weir_sim_lseek(fd, INT64_MAX, SEEK_CUR), -EINVAL);
	assert_int_equal(weir_sim_lseek(fd, 0, 77), -EINVAL);
	assert_int_equal(weir_sim_lseek(fd, 0, SEEK_CUR), 16);
	assert_int_equal(weir_sim_lseek(pipe[0], 0, SEEK_SET), -ESPIPE);
	assert_int_equal(weir_sim_ftruncate(fd, 11), 0);
	assert_int_equal(weir_sim_ftruncate(fd, 13), 0);
	assert_int_equal(weir_sim_ftruncate(ro, 13), -EINVAL);
	assert_int_equal(weir_sim_ftruncate(dir, 13), -EINVAL);
	assert_int_equal(weir_sim_ftruncate(pipe[1], 13), -EINVAL);
	assert_int_equal(weir_sim_pread(ro, in, 8, 10), 3);
	assert_memory_equal(in, "a\0\0", 3);
	weir_sim_power_cut(w.sim, "d/");
	assert_int_equal(weir_sim_pread(ro, in, 8, 10), -EIO);
	assert_int_equal(weir_sim_lseek(fd, 0, SEEK_CUR), -EIO);
	assert_int_equal(weir_sim_ftruncate(fd, 0), -EIO);
	sim_world_end(&w);
}

static void a_byte_can_rot(void **state)
{
	struct sim_world w;
	char in[3];

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	weir_sim_file_write(w.sim, "f", "abc", 3, 0);
	assert_int_equal(weir_sim_file_corrupt(w.sim, "f", 1, 1), 0);
	assert_int_equal(weir_sim_file_corrupt(w.sim, "f", 3, 1), -ERANGE);
	assert_int_equal(weir_sim_file_durable(w.sim, "f", in, 3, 0), 3);
	assert_memory_equal(in, "acc", 3);
	assert_int_equal(weir_sim_file_read(w.sim, "f", in, 3, 0), 3);
	assert_memory_equal(in, "acc", 3);
	sim_world_end(&w);
}

/* SIM_CALL() with @flags set. */
#define SIM_CALL_HOW(w, flags, ...) \
	(assert_int_equal(weir_op_set_rw(&(w)->op, flags, 0), 0), \
	 SIM_CALL(w, __VA_ARGS__))

static void durable_write_survives_a_power_cut(void **state)
{
	static const uint32_t how[] = { 0, WEIR_RW_DSYNC, WEIR_RW_SYNC };
	struct sim_world w;
	char in[4];
	int fd;

	(void)state;
	for (size_t i = 0; i < N_OF(how); i++) {
		sim_world_begin(&w, 1, 0, 0);
		weir_sim_file_write(w.sim, "f", "....", 4, 0);
		fd = (int)SIM_CALL(&w, open, AT_FDCWD, "f", O_RDWR, 0);
		assert_int_equal(SIM_CALL_HOW(&w, how[i], write, fd, "abcd", 4,
					      0), 4);
		assert_int_equal(weir_sim_file_durable(w.sim, "f", in, 4, 0),
				 4);
		assert_memory_equal(in, how[i] ? "abcd" : "....", 4);
		sim_world_end(&w);
	}
}

static void sync_of_a_range_leaves_the_rest(void **state)
{
	struct sim_world w;
	char in[1];
	int fd;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	weir_sim_file_write(w.sim, "f", "", 1, 9999);
	fd = (int)SIM_CALL(&w, open, AT_FDCWD, "f", O_RDWR, 0);
	assert_int_equal(SIM_CALL(&w, write, fd, "a", 1, 0), 1);
	assert_int_equal(SIM_CALL(&w, write, fd, "b", 1, 8192), 1);
	assert_int_equal(SIM_CALL(&w, fsync_range, fd, 0, 8192, 1), 0);
	assert_int_equal(weir_sim_file_durable(w.sim, "f", in, 1, 0), 1);
	assert_int_equal(in[0], 0);
	assert_int_equal(weir_sim_file_durable(w.sim, "f", in, 1, 8192), 1);
	assert_int_equal(in[0], 'b');
	assert_int_equal(SIM_CALL(&w, fsync_range, fd, 0, 0, 0), 0);
	assert_int_equal(weir_sim_file_durable(w.sim, "f", in, 1, 0), 1);
	assert_int_equal(in[0], 'a');
	sim_world_end(&w);
}

static void file_takes_flags_that_mean_nothing_in_a_world(void **state)
{
	const uint32_t all = WEIR_RW_HIPRI | WEIR_RW_NOWAIT | WEIR_RW_DONTCACHE;
	struct sim_world w;
	char in[4];
	int fd;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	weir_sim_file_write(w.sim, "f", "....", 4, 0);
	fd = (int)SIM_CALL(&w, open, AT_FDCWD, "f", O_RDWR, 0);
	assert_int_equal(SIM_CALL_HOW(&w, all, write, fd, "abcd", 4, 0), 4);
	assert_int_equal(SIM_CALL_HOW(&w, all, read, fd, in, 4, 0), 4);
	assert_memory_equal(in, "abcd", 4);
	assert_int_equal(SIM_CALL_HOW(&w, WEIR_RW_ATOMIC, write, fd, "abcd", 4,
				      0), -EOPNOTSUPP);
	sim_world_end(&w);
}

static void nowait_on_a_file_may_be_eagain_by_a_fault(void **state)
{
	struct sim_world w;
	char in[4];
	int fd;

	(void)state;
	sim_world_begin(&w, 1, 1u << WEIR_SIM_EAGAIN, 1);
	weir_sim_file_write(w.sim, "f", "....", 4, 0);
	fd = (int)SIM_CALL(&w, open, AT_FDCWD, "f", O_RDWR, 0);
	assert_int_equal(SIM_CALL_HOW(&w, WEIR_RW_NOWAIT, read, fd, in, 4, 0),
			 -EAGAIN);
	assert_int_equal(SIM_CALL(&w, read, fd, in, 4, 0), 4);
	sim_world_end(&w);
}

/* Before "a", which is a directory for what is in it alone, comes "a.b". */
static void directory_is_found_by_what_is_in_it(void **state)
{
	static const char *const files[] = { "d/a/x", "d/a/y/z", "d/a.b", "d/c",
					     "d/e/g", "dd" };
	const struct weir_dirent *e;
	char names[256] = "";
	struct sim_world w;
	uint64_t buf[64];
	int64_t n;
	size_t at;
	int d;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	assert_int_equal(weir_sim_mkdir(w.sim, "d/e"), 0);
	for (size_t i = 0; i < N_OF(files); i++)
		sim_open(&w, files[i], O_RDWR | O_CREAT);
	d = sim_open(&w, "d", O_RDONLY | O_DIRECTORY);
	while ((n = SIM_CALL(&w, readdir, d, buf, 40)) > 0)
		for (at = 0; (e = weir_dirent_next(buf, n, &at));)
			snprintf(names + strlen(names), 64, "%s%s ", e->name,
				 e->type == DT_DIR ? "/" : "");
	assert_int_equal(n, 0);
	assert_string_equal(names, "./ ../ a.b a/ c e/ ");
	sim_world_end(&w);
}

static void no_change(struct weir_fswatch *watch,
		      const struct weir_fswatch_event *event, void *arg)
{
	(void)watch, (void)event, (void)arg;
}

static void no_alarm(struct weir_alarm *alarm, uint32_t events, void *arg)
{
	(void)alarm, (void)events, (void)arg;
}

static void world_refuses_what_it_has_not(void **state)
{
	struct weir_child_opts opts = { .size = sizeof(opts),
					.argv = (char *[]){ "true", NULL } };
	struct weir_fswatch *watch;
	struct weir_alarm *alarm;
	struct weir_child *child;
	struct sim_world w;
	char buf[8];
	int fd;

	(void)state;
	sim_world_begin(&w, 1, 0, 0);
	fd = sim_open(&w, "f", O_RDWR | O_CREAT);
#define HAS_NOT(...) assert_int_equal(SIM_CALL(&w, __VA_ARGS__), -EOPNOTSUPP)
	HAS_NOT(symlink, "x", AT_FDCWD, "l");
	HAS_NOT(readlink, AT_FDCWD, "l", buf, 8);
	HAS_NOT(link, AT_FDCWD, "f", AT_FDCWD, "g", AT_EMPTY_PATH);
	HAS_NOT(chmod, AT_FDCWD, "f", 0600, 0);
	HAS_NOT(chown, AT_FDCWD, "f", 0, 0, 0);
	HAS_NOT(utimens, AT_FDCWD, "f", NULL, 0);
	HAS_NOT(xattr_get, fd, "user.x", buf, 8);
	HAS_NOT(xattr_set, fd, "user.x", buf, 8, 0);
	HAS_NOT(xattr_list, fd, buf, 8);
	HAS_NOT(xattr_remove, fd, "user.x");
	assert_int_equal(weir_fswatch_create(&watch, w.r, no_change, NULL),
			 -EOPNOTSUPP);
	assert_int_equal(weir_alarm_create(&alarm, w.r, no_alarm, NULL),
			 -EOPNOTSUPP);
	assert_int_equal(weir_child_create(&child, w.r, &opts), -EOPNOTSUPP);
	sim_world_end(&w);
}

static const struct harness_case cases[] = {
	CASE(directory_is_found_by_what_is_in_it),
	CASE(world_refuses_what_it_has_not),
	CASE(durable_write_survives_a_power_cut),
	CASE(sync_of_a_range_leaves_the_rest),
	CASE(file_takes_flags_that_mean_nothing_in_a_world),
	CASE(nowait_on_a_file_may_be_eagain_by_a_fault),
	CASE(written_bytes_are_read_back),
	CASE(a_file_of_terabytes_takes_what_was_written),
	CASE(vectors_are_filled_in_order),
	CASE(a_stream_has_its_own_position),
	CASE(opens_are_refused_as_by_linux),
	CASE(modes_decide_what_a_descriptor_may),
	CASE(unnamed_file_is_lost_unless_it_gets_a_name),
	CASE(calls_at_once_are_as_on_linux),
	CASE(a_file_without_a_name_lives_while_it_is_open),
	CASE(stat_tells_what_it_is),
	CASE(names_are_moved_and_removed),
	CASE(opening_can_truncate),
	CASE(ranges_are_zeroed_and_allocated),
	CASE(ranges_are_copied),
	CASE(world_has_the_system_calls_on_files),
	CASE(a_byte_can_rot),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
