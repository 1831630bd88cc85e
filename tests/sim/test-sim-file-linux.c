/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulated files beside those of Linux: the same calls, by chance, have the
 * same results. */

#include "tests/support/sim-file-fixture.h"

#include <limits.h>
#include <linux/falloc.h>

#define NAMES 5
#define FDS 4
#define MOST 20000

static const char *const names[NAMES] = { "a", "b", "c", "d", "dir/e" };

struct pair {
	struct sim_world w;
	int dir;		/* Of Linux. */
	int fd[FDS], sim[FDS];
	char *mem[2];
	uint64_t seed;
	unsigned int step;
	const char *what;
};

static uint64_t draw(struct pair *p, uint64_t n)
{
	return weir_sim_random(p->w.sim) % n;
}

static int64_t result(int64_t res)
{
	return res < 0 ? -errno : res;
}

static void same(struct pair *p, int64_t ours, int64_t theirs)
{
	if (ours != theirs)
		fail_msg("seed %llu, step %u: %s: %lld, Linux: %lld",
			 (unsigned long long)p->seed, p->step, p->what,
			 (long long)ours, (long long)theirs);
}

static void open_one(struct pair *p, unsigned int i)
{
	static const int modes[] = { O_RDONLY, O_WRONLY, O_RDWR, O_RDWR };
	static const int more[] = { 0, 0, O_CREAT, O_CREAT, O_CREAT | O_EXCL,
				    O_TRUNC, O_CREAT | O_TRUNC,
				    O_CREAT | O_APPEND, O_DIRECTORY, O_PATH };
	int flags = modes[draw(p, N_OF(modes))] | more[draw(p, N_OF(more))];
	const char *name = names[draw(p, NAMES)];

	p->what = "open";
	/* What Linux leaves undefined. */
	if ((flags & O_ACCMODE) == O_RDONLY && flags & O_TRUNC)
		flags |= O_RDWR;
	p->fd[i] = (int)result(openat(p->dir, name, flags | O_CLOEXEC, 0644));
	p->sim[i] = sim_open(&p->w, name, flags);
	same(p, p->sim[i] < 0 ? p->sim[i] : 0, p->fd[i] < 0 ? p->fd[i] : 0);
}

static void close_one(struct pair *p, unsigned int i)
{
	p->what = "close";
	same(p, SIM_CALL(&p->w, close, p->sim[i]), result(close(p->fd[i])));
	p->fd[i] = -1;
}

static void write_one(struct pair *p, unsigned int i, bool stream)
{
	size_t len = draw(p, 2) ? draw(p, 40) : draw(p, MOST / 2);
	uint64_t off = draw(p, MOST / 2);
	int64_t theirs;

	p->what = stream ? "write" : "pwrite";
	fill_pattern(p->mem[0], len, 0, p->step);
	theirs = stream ? write(p->fd[i], p->mem[0], len) :
			  pwrite(p->fd[i], p->mem[0], len, (off_t)off);
	theirs = result(theirs);
	same(p, SIM_CALL(&p->w, write, p->sim[i], p->mem[0], len,
			 stream ? WEIR_OFF_STREAM : off), theirs);
}

static void read_one(struct pair *p, unsigned int i, bool stream)
{
	uint64_t off = draw(p, MOST);
	size_t len = draw(p, MOST);
	int64_t theirs;

	p->what = stream ? "read" : "pread";
	theirs = stream ? read(p->fd[i], p->mem[1], len) :
			  pread(p->fd[i], p->mem[1], len, (off_t)off);
	theirs = result(theirs);
	same(p, SIM_CALL(&p->w, read, p->sim[i], p->mem[0], len,
			 stream ? WEIR_OFF_STREAM : off), theirs);
	if (theirs > 0)
		assert_memory_equal(p->mem[0], p->mem[1], theirs);
}

static void allocate_one(struct pair *p, unsigned int i)
{
	static const int modes[] = {
		0, FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE,
		FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
	};
	int mode = modes[draw(p, N_OF(modes))];
	uint64_t off = draw(p, MOST / 2), len = draw(p, MOST / 2);
	int64_t theirs = result(fallocate(p->fd[i], mode, (off_t)off,
					  (off_t)len));

	p->what = "fallocate";
	/* Not every file system can all of it. */
	if (theirs == -EOPNOTSUPP)
		return;
	same(p, SIM_CALL(&p->w, fallocate, p->sim[i], mode, off, len), theirs);
}

static void copy_one(struct pair *p, unsigned int i)
{
	unsigned int j = (unsigned int)draw(p, FDS);
	uint64_t from = draw(p, MOST), to = draw(p, MOST / 2);
	size_t len = 1 + draw(p, MOST / 2);
	int64_t theirs, n = 0;
	off_t a = (off_t)from, b = (off_t)to;

	if (p->fd[j] < 0)
		return;
	p->what = "copy";
	do {
		theirs = result(copy_file_range(p->fd[i], &a, p->fd[j], &b,
						len - (size_t)n, 0));
		n += theirs > 0 ? theirs : 0;
	} while (theirs > 0 && n < (int64_t)len);
	if (theirs == -EXDEV || theirs == -EOPNOTSUPP)
		return;
	same(p, SIM_CALL(&p->w, copy_range, p->sim[i], from, p->sim[j], to,
			 len), theirs < 0 ? theirs : n);
}

static void rename_one(struct pair *p)
{
	static const unsigned int flags[] = { 0, 0, RENAME_NOREPLACE,
					      RENAME_EXCHANGE, 3 };
	const char *from = names[draw(p, NAMES)], *to = names[draw(p, NAMES)];
	unsigned int flag = flags[draw(p, N_OF(flags))];
	int64_t theirs = result(renameat2(p->dir, from, p->dir, to, flag));

	p->what = "rename";
	/* Some file systems know no flags. */
	if (flag && flag != 3 && theirs == -EINVAL)
		skip_because("renameat2() has no flags here");
	same(p, SIM_CALL(&p->w, rename, AT_FDCWD, from, AT_FDCWD,
			 to, flag), theirs);
}

static void unlink_one(struct pair *p)
{
	const char *name = names[draw(p, NAMES)];
	int flag = draw(p, 6) ? 0 : AT_REMOVEDIR;
	int64_t theirs = result(unlinkat(p->dir, name, flag));

	p->what = "unlink";
	same(p, SIM_CALL(&p->w, unlink, AT_FDCWD, name, flag), theirs);
}

static void stat_one(struct pair *p, int fd, int sim, const char *name)
{
	int flags = *name ? 0 : AT_EMPTY_PATH;
	struct statx ours, theirs;
	int64_t res = result(statx(fd, name, flags, STATX_BASIC_STATS,
				   &theirs));

	p->what = "statx";
	same(p, SIM_CALL(&p->w, statx, sim, name, flags, STATX_BASIC_STATS,
			 &ours), res);
	if (res)
		return;
	same(p, (int64_t)ours.stx_size, (int64_t)theirs.stx_size);
	same(p, ours.stx_nlink, theirs.stx_nlink);
	same(p, ours.stx_mode & S_IFMT, theirs.stx_mode & S_IFMT);
}

static void on_descriptor(struct pair *p, unsigned int i)
{
	switch (draw(p, 12)) {
	case 0:
		close_one(p, i);
		break;
	case 1: case 2: case 3: case 4:
		write_one(p, i, draw(p, 2));
		break;
	case 5: case 6: case 7:
		read_one(p, i, draw(p, 2));
		break;
	case 8:
		allocate_one(p, i);
		break;
	case 9:
		copy_one(p, i);
		break;
	case 10:
		p->what = "fsync";
		same(p, sim_sync(&p->w, p->sim[i]), result(fsync(p->fd[i])));
		break;
	default:
		stat_one(p, p->fd[i], p->sim[i], "");
	}
}

static void do_one(struct pair *p)
{
	unsigned int i = (unsigned int)draw(p, FDS);

	if (p->fd[i] < 0)
		open_one(p, i);
	else
		on_descriptor(p, i);
	switch (draw(p, 16)) {
	case 0:
		rename_one(p);
		break;
	case 1:
		unlink_one(p);
		break;
	case 2:
		stat_one(p, p->dir, AT_FDCWD, names[draw(p, NAMES)]);
		break;
	}
}

static void compare_all(struct pair *p)
{
	int64_t n;
	int fd;

	for (unsigned int i = 0; i < NAMES; i++) {
		p->what = names[i];
		fd = openat(p->dir, names[i], O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? -errno : pread(fd, p->mem[1], 4 * MOST, 0);
		same(p, weir_sim_file_read(p->w.sim, names[i], p->mem[0],
					   4 * MOST, 0), n);
		if (n > 0)
			assert_memory_equal(p->mem[0], p->mem[1], n);
		if (fd >= 0)
			close(fd);
		unlinkat(p->dir, names[i], 0);
	}
}

static void calls_by_chance_end_as_those_of_linux(void **state)
{
	unsigned int steps = want_long() ? 4000 : 400;
	struct pair p = { .dir = -1 };

	p.dir = open(test_dir(state), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(p.dir >= 0);
	assert_int_equal(mkdirat(p.dir, "dir", 0755), 0);
	p.mem[0] = malloc(4 * MOST);
	p.mem[1] = malloc(4 * MOST);
	for (p.seed = 0; p.seed < 20; p.seed++) {
		sim_world_begin(&p.w, p.seed, 0, 0);
		weir_sim_mkdir(p.w.sim, "dir");
		for (unsigned int i = 0; i < FDS; i++)
			p.fd[i] = -1;
		for (p.step = 0; p.step < steps; p.step++)
			do_one(&p);
		compare_all(&p);
		for (unsigned int i = 0; i < FDS; i++)
			if (p.fd[i] >= 0)
				close(p.fd[i]);
		sim_world_end(&p.w);
	}
	free(p.mem[0]);
	free(p.mem[1]);
	close(p.dir);
}

static const struct harness_case cases[] = {
	CASE(calls_by_chance_end_as_those_of_linux),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
