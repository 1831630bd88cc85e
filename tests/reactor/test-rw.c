/* SPDX-License-Identifier: BSD-3-Clause */

/* How reads and writes are done, and what else files are asked for: flags,
 * priorities, ranges, ways to resolve a path, two directories. */

#include "tests/support/harness.h"

#include <linux/ioprio.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include <weir/file.h>

#include "tests/support/sim-calls.h"

static struct rec rec;

/* @call with @flags and @prio set for its operation. */
#define RUN_HOW(r, flags, prio, call) \
	(rec_init(&rec), set_how(flags, prio), end_of(r, call))
#define RUN(r, call) RUN_HOW(r, 0, 0, call)

/* Its result, or why it was not started. */
static int64_t end_of(struct weir_reactor *r, int err)
{
	return err ? err : finish(r, &rec);
}

static void set_how(uint32_t flags, int prio)
{
	assert_int_equal(weir_op_set_rw(&rec.op, flags, (uint16_t)prio), 0);
}

static void append_goes_to_the_end_whatever_the_offset(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 10, 1);
	struct iovec iov[2] = { { "ab", 2 }, { "cd", 2 } };
	char got[8] = "";

	assert_int_equal(RUN_HOW(r, WEIR_RW_APPEND, 0, weir_write(r, &rec.op,
				 fd, "xyz", 3, 0)), 3);
	assert_int_equal(RUN_HOW(r, WEIR_RW_APPEND, 0, weir_writev(r, &rec.op,
				 fd, iov, 2, 5)), 4);
	assert_int_equal(pread(fd, got, 8, 10), 7);
	assert_string_equal(got, "xyzabcd");
	close(fd);
}

static void flags_concern_one_start_and_outlive_a_refusal(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 10, 1);
	char got[2];

	rec_init(&rec);
	set_how(WEIR_RW_APPEND, 0);
	assert_int_equal(weir_write(r, &rec.op, fd, NULL, 1, 0), -EINVAL);
	STARTS(weir_nop(r, &rec.op));
	assert_int_equal(finish(r, &rec), 0);
	rec.calls = 0;
	STARTS(weir_write(r, &rec.op, fd, "x", 1, 0));
	assert_int_equal(finish(r, &rec), 1);
	assert_int_equal(pread(fd, got, 2, 10), 1);
	assert_int_equal(got[0], 'x');
	rec.calls = 0;
	STARTS(weir_write(r, &rec.op, fd, "y", 1, 0));
	assert_int_equal(finish(r, &rec), 1);
	assert_int_equal(pread(fd, got, 2, 10), 1);
	assert_int_equal(pread(fd, got, 1, 0), 1);
	assert_int_equal(got[0], 'y');
	close(fd);
}

static void late_write_takes_its_flags_with_it(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 10, 1);
	char got[2];

	rec_init(&rec);
	set_how(WEIR_RW_APPEND, 0);
	assert_int_equal(weir_op_set_deadline(&rec.op, 0), 0);
	STARTS(weir_write(r, &rec.op, fd, "x", 1, 0));
	assert_int_equal(finish(r, &rec), -ETIMEDOUT);
	rec.calls = 0;
	STARTS(weir_write(r, &rec.op, fd, "y", 1, 0));
	assert_int_equal(finish(r, &rec), 1);
	assert_int_equal(pread(fd, got, 2, 10), 0);
	close(fd);
}

static void bad_ways_are_refused(void **state)
{
	static const uint32_t writes[] = { WEIR_RW_DSYNC, WEIR_RW_SYNC,
					   WEIR_RW_APPEND, WEIR_RW_ATOMIC };
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 10, 1);
	struct iovec iov;
	char buf[4];

	rec_init(&rec);
	iov = (struct iovec){ buf, sizeof(buf) };
	assert_int_equal(weir_op_set_rw(&rec.op, 0x20, 0), -EINVAL);
	assert_int_equal(weir_op_set_rw(&rec.op, 0x1000, 0), -EINVAL);
	assert_int_equal(weir_op_set_rw(&rec.op, 0, 7), -EINVAL);
	assert_int_equal(weir_op_set_rw(&rec.op, 0, 4 << 13), -EINVAL);
	for (size_t i = 0; i < N_OF(writes); i++) {
		set_how(writes[i], 0);
		assert_int_equal(weir_read(r, &rec.op, fd, buf, 4, 0),
				 -EINVAL);
		assert_non_null(strstr(weir_why(), "weir_read: "));
		assert_int_equal(weir_readv(r, &rec.op, fd, &iov, 1, 0),
				 -EINVAL);
	}
	set_how(0, 0);
	STARTS(weir_read(r, &rec.op, fd, buf, 4, 0));
	assert_int_equal(weir_op_set_rw(&rec.op, 0, 0), -EINVAL);
	assert_int_equal(finish(r, &rec), 4);
	close(fd);
}

/* Before Linux 6.4 no transfer of a pipe or a socket is known not to wait, so
 * it is refused, whether it would wait or not. */
static bool streams_have_nowait(void)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	long n;
	int p[2];

	if (harness_sim)
		return true;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	n = syscall(SYS_preadv2, p[0], &iov, 1, -1L, -1L, WEIR_RW_NOWAIT);
	assert_int_equal(n, -1);
	n = errno == EAGAIN;
	close_pair(p);
	return n;
}

static void nowait_is_eagain_where_others_wait(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int p[2], full[2], sv[2];
	char buf[10];
	int64_t n;

	pipe_pair(p);
	pipe_pair(full);
	socket_pair(sv);
	stuff(full[1]);
	assert_int_equal(RUN_HOW(r, WEIR_RW_NOWAIT, 0, weir_read(r, &rec.op,
				 p[0], buf, 10, WEIR_OFF_STREAM)), -EAGAIN);
	assert_int_equal(RUN_HOW(r, WEIR_RW_NOWAIT, 0, weir_read(r, &rec.op,
				 sv[0], buf, 10, WEIR_OFF_STREAM)), -EAGAIN);
	assert_int_equal(RUN_HOW(r, WEIR_RW_NOWAIT, 0, weir_write(r, &rec.op,
				 full[1], buf, 10, WEIR_OFF_STREAM)), -EAGAIN);
	assert_int_equal(write(p[1], "abc", 3), 3);
	n = RUN_HOW(r, WEIR_RW_NOWAIT, 0, weir_read(r, &rec.op, p[0], buf, 10,
						    WEIR_OFF_STREAM));
	assert_true(n == 3 || (n == -EAGAIN && !streams_have_nowait()));
	close_pair(p);
	close_pair(full);
	close_pair(sv);
}

static void nowait_does_not_join_those_who_wait(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec waits;
	char buf[10], one;
	int p[2];

	pipe_pair(p);
	rec_init(&waits);
	STARTS(weir_read(r, &waits.op, p[0], &one, 1, WEIR_OFF_STREAM));
	some_turns(r, 3);
	assert_int_equal(RUN_HOW(r, WEIR_RW_NOWAIT, 0, weir_read(r, &rec.op,
				 p[0], buf, 10, WEIR_OFF_STREAM)), -EAGAIN);
	assert_int_equal(waits.calls, 0);
	assert_int_equal(write(p[1], "z", 1), 1);
	assert_int_equal(finish(r, &waits), 1);
	close_pair(p);
}

static void nowait_write_is_not_continued(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	static char many[200000];
	int64_t n;
	int p[2];

	pipe_pair(p);
	n = RUN_HOW(r, WEIR_RW_NOWAIT, 0, weir_write(r, &rec.op, p[1], many,
		    sizeof(many), WEIR_OFF_STREAM));
	if (n != -EAGAIN || streams_have_nowait()) {
		assert_in_range(n, 1, sizeof(many) - 1);
		assert_int_equal(rec.detail.bytes, n);
	}
	close_pair(p);
}

/* What the kernel says to a call of our own.  Of a file where no write can be
 * without waiting it says that in another way, which depends on the call. */
static int64_t kernels(bool out, int fd, void *buf, size_t len, uint32_t flags)
{
	struct iovec iov = { buf, len };
	long n = syscall(out ? SYS_pwritev2 : SYS_preadv2, fd, &iov, 1, 0L, 0L,
			 flags);

	if (n < 0 && errno == EOPNOTSUPP && flags & WEIR_RW_NOWAIT)
		return -EAGAIN;
	return n < 0 ? -errno : n;
}

/* The answer to the start, or the result. */
static int64_t ours(struct weir_reactor *r, bool out, int fd, void *buf,
		    size_t len, uint32_t flags)
{
	int err;

	rec_init(&rec);
	set_how(flags, 0);
	err = out ? weir_write(r, &rec.op, fd, buf, len, 0) :
		    weir_read(r, &rec.op, fd, buf, len, 0);
	return err ? err : finish(r, &rec);
}

static void flags_have_the_kernels_answer(void **state)
{
	static const uint32_t flags[] = {
		WEIR_RW_HIPRI, WEIR_RW_DSYNC, WEIR_RW_SYNC, WEIR_RW_NOWAIT,
		WEIR_RW_APPEND, WEIR_RW_ATOMIC, WEIR_RW_DONTCACHE,
		WEIR_RW_DSYNC | WEIR_RW_APPEND,
		WEIR_RW_NOWAIT | WEIR_RW_DSYNC,
		WEIR_RW_HIPRI | WEIR_RW_DONTCACHE,
	};
	struct weir_reactor *r = start_reactor(state);
	const uint32_t of_reads = WEIR_RW_HIPRI | WEIR_RW_NOWAIT |
				  WEIR_RW_DONTCACHE;
	static _Alignas(4096) char buf[4096];
	int fd = test_file(state, "file", 4096, 1), p[2], sv[2];

	pipe_pair(p);
	socket_pair(sv);
	for (size_t i = 0; i < N_OF(flags); i++) {
		assert_int_equal(ours(r, true, fd, buf, 4096, flags[i]),
				 kernels(true, fd, buf, 4096, flags[i]));
		if (!(flags[i] & ~of_reads))
			assert_int_equal(ours(r, false, fd, buf, 4096,
					      flags[i]),
					 kernels(false, fd, buf, 4096,
						 flags[i]));
		/* Neither has offsets: there the kernel does not get as far. */
		if (flags[i] & (WEIR_RW_ATOMIC | WEIR_RW_DONTCACHE)) {
			assert_int_equal(RUN_HOW(r, flags[i], 0, weir_write(r,
					 &rec.op, sv[0], buf, 10,
					 WEIR_OFF_STREAM)), -EOPNOTSUPP);
			assert_int_equal(RUN_HOW(r, flags[i], 0, weir_write(r,
					 &rec.op, p[1], buf, 10,
					 WEIR_OFF_STREAM)), -EOPNOTSUPP);
			continue;
		}
		if (flags[i] & WEIR_RW_NOWAIT && !streams_have_nowait())
			continue;
		assert_int_equal(RUN_HOW(r, flags[i], 0, weir_write(r, &rec.op,
				 sv[0], buf, 10, WEIR_OFF_STREAM)), 10);
		assert_int_equal(RUN_HOW(r, flags[i], 0, weir_write(r, &rec.op,
				 p[1], buf, 10, WEIR_OFF_STREAM)), 10);
	}
	close_pair(p);
	close_pair(sv);
	close(fd);
}

static int64_t priority_of_this_thread(void *arg)
{
	(void)arg;
	return syscall(SYS_ioprio_get, 1, 0);
}

static void priorities_are_the_kernels_and_end_with_the_call(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	const int low = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 7);
	const int high = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_RT, 0);
	int fd = test_file(state, "file", 100, 1);
	int64_t before, expected = 10;
	char buf[10] = "";

	before = RUN(r, weir_work(r, &rec.op, priority_of_this_thread, NULL));
	assert_int_equal(RUN_HOW(r, 0, low, weir_write(r, &rec.op, fd, buf, 10,
						       0)), 10);
	assert_int_equal(RUN_HOW(r, 0, low, weir_read(r, &rec.op, fd, buf, 10,
						      0)), 10);
	for (int i = 0; i < 8; i++)
		assert_int_equal(RUN(r, weir_work(r, &rec.op,
						  priority_of_this_thread,
						  NULL)), before);
	if (!harness_sim && syscall(SYS_ioprio_set, 1, 0, high))
		expected = -errno;
	else if (!harness_sim)
		syscall(SYS_ioprio_set, 1, 0, 0);
	assert_int_equal(RUN_HOW(r, 0, high, weir_read(r, &rec.op, fd, buf, 10,
						       0)), expected);
	close(fd);
}

static void ranges_are_synced(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 10000, 1);

	assert_int_equal(RUN(r, weir_fsync_range(r, &rec.op, fd, 0, 4096,
						 100)), 0);
	assert_int_equal(RUN(r, weir_fsync_range(r, &rec.op, fd,
						 WEIR_FSYNC_DATA, 5, 0)), 0);
	assert_int_equal(RUN(r, weir_fsync_range(r, &rec.op, fd, 0, 0,
						 INT64_MAX)), 0);
	assert_int_equal(RUN(r, weir_fsync_range(r, &rec.op, -1, 0, 0, 1)),
			 -EBADF);
	rec_init(&rec);
	assert_int_equal(weir_fsync_range(r, &rec.op, fd, 2, 0, 0), -EINVAL);
	assert_int_equal(weir_fsync_range(r, &rec.op, fd, 0, UINT64_MAX, 0),
			 -EINVAL);
	assert_int_equal(weir_fsync_range(r, &rec.op, fd, 0, INT64_MAX, 1),
			 -EINVAL);
	close(fd);
}

static int64_t open_how(struct weir_reactor *r, int dir, const char *path,
			struct open_how how)
{
	return RUN(r, weir_open_how(r, &rec.op, dir, path, &how, sizeof(how)));
}

static void paths_stay_where_resolve_says(void **state)
{
	struct weir_reactor *r;
	int dir, fd;

	skip_without_openat2();
	r = start_reactor(state);
	close(test_file(state, "file", 10, 1));
	test_mkdir(state, "sub");
	dir = open(test_path(state, "sub"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = (int)open_how(r, dir, "new", (struct open_how){
		.flags = O_RDWR | O_CREAT, .mode = 0600,
		.resolve = RESOLVE_BENEATH });
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	close(fd);
	assert_int_equal(open_how(r, dir, "../file", (struct open_how){
				  .resolve = RESOLVE_BENEATH }), -EXDEV);
	assert_int_equal(open_how(r, dir, "/file", (struct open_how){
				  .resolve = RESOLVE_BENEATH }), -EXDEV);
	fd = (int)open_how(r, dir, "/new", (struct open_how){
		.resolve = RESOLVE_IN_ROOT });
	assert_true(fd >= 0);
	close(fd);
	fd = (int)open_how(r, dir, "new", (struct open_how){ .flags = 0 });
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(open_how(r, dir, "other", (struct open_how){
				  .flags = O_RDWR | O_CREAT, .mode = 0600,
				  .resolve = RESOLVE_CACHED }), -EAGAIN);
	assert_int_equal(open_how(r, dir, "new", (struct open_how){
				  .mode = 0600 }), -EINVAL);
	assert_int_equal(open_how(r, dir, "new", (struct open_how){
				  .resolve = 1 << 20 }), -EINVAL);
	close(dir);
}

static void symbolic_link_is_eloop_if_resolve_forbids_it(void **state)
{
	struct weir_reactor *r;
	char link[4096];

	skip_without_openat2();
	r = start_reactor(state);
	close(test_file(state, "file", 10, 1));
	snprintf(link, sizeof(link), "%s", test_path(state, "link"));
	assert_int_equal(symlink("file", link), 0);
	assert_int_equal(open_how(r, AT_FDCWD, link, (struct open_how){
				  .resolve = RESOLVE_NO_SYMLINKS }), -ELOOP);
}

static void bad_structs_of_openat2_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct {
		struct open_how how;
		uint64_t newer;
	} big = { .how = { .flags = O_RDONLY } };

	close(test_file(state, "file", 10, 1));
	rec_init(&rec);
	assert_int_equal(weir_open_how(r, &rec.op, AT_FDCWD, "x", NULL, 24),
			 -EINVAL);
	assert_int_equal(weir_open_how(r, &rec.op, AT_FDCWD, NULL, &big.how,
				       24), -EINVAL);
	assert_int_equal(weir_open_how(r, &rec.op, AT_FDCWD, "x", &big.how,
				       23), -EINVAL);
	big.newer = 1;
	assert_int_equal(weir_open_how(r, &rec.op, AT_FDCWD, "x", &big.how,
				       sizeof(big)), -E2BIG);
	big.newer = 0;
	big.how.flags = UINT64_C(1) << 40;
	assert_int_equal(weir_open_how(r, &rec.op, AT_FDCWD, "x", &big.how,
				       sizeof(big)), -EINVAL);
}

static void rename_goes_from_one_directory_to_another(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int from, to, fd;

	test_mkdir(state, "from");
	test_mkdir(state, "to");
	from = open(test_path(state, "from"), O_RDONLY | O_DIRECTORY);
	to = open(test_path(state, "to"), O_RDONLY | O_DIRECTORY);
	fd = (int)RUN(r, weir_open(r, &rec.op, from, "a", O_RDWR | O_CREAT,
				   0600));
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(RUN(r, weir_rename(r, &rec.op, from, "a", to, "b",
					    0)), 0);
	assert_int_equal(RUN(r, weir_open(r, &rec.op, from, "a", O_RDONLY, 0)),
			 -ENOENT);
	fd = (int)RUN(r, weir_open(r, &rec.op, to, "b", O_RDONLY, 0));
	assert_true(fd >= 0);
	close(fd);
	close(from);
	close(to);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(append_goes_to_the_end_whatever_the_offset),
		CASE(flags_concern_one_start_and_outlive_a_refusal),
		CASE(late_write_takes_its_flags_with_it),
		CASE(bad_ways_are_refused),
		CASE(nowait_is_eagain_where_others_wait),
		CASE(nowait_does_not_join_those_who_wait),
		CASE(nowait_write_is_not_continued),
		REAL(flags_have_the_kernels_answer),
		CASE(priorities_are_the_kernels_and_end_with_the_call),
		CASE(ranges_are_synced),
		CASE(paths_stay_where_resolve_says),
		REAL(symbolic_link_is_eloop_if_resolve_forbids_it),
		CASE(bad_structs_of_openat2_are_refused),
		CASE(rename_goes_from_one_directory_to_another),
	};

	return harness_run_all(cases, N_OF(cases));
}
