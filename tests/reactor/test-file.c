/* SPDX-License-Identifier: BSD-3-Clause */

/* Operations on files, as <weir/file.h> promises them: on real files, and on
 * simulated ones. */

#include "tests/support/harness.h"

#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <weir/file.h>
#include <weir/socket.h>

#include "tests/support/sim-calls.h"

#define FAR ((uint64_t)5 << 30)	/* Past 4 GiB. */

static struct rec rec;

/* Start it, run it to its end, and give its result. */
#define RUN(r, call) \
	(rec_init(&rec), start_it(call), finish(r, &rec))

static void start_it(int err)
{
	assert_int_equal(err, 0);
}

static void written_bytes_are_read_back(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 0, 0);
	char out[10000], in[10000];

	fill_pattern(out, sizeof(out), 0, 3);
	assert_int_equal(RUN(r, weir_write(r, &rec.op, fd, out, sizeof(out),
					   77)), sizeof(out));
	assert_int_equal(rec.detail.bytes, sizeof(out));
	assert_int_equal(RUN(r, weir_read(r, &rec.op, fd, in, sizeof(in),
					  77)), sizeof(in));
	assert_memory_equal(in, out, sizeof(in));
	assert_int_equal(lseek(fd, 0, SEEK_END), sizeof(out) + 77);
	close(fd);
}

static void a_read_is_short_only_at_the_end(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 1000, 3);
	char in[2000];

	memset(in, 0x11, sizeof(in));
	assert_int_equal(RUN(r, weir_read(r, &rec.op, fd, in, 2000, 0)), 1000);
	assert_int_equal(rec.detail.bytes, 1000);
	assert_true(is_pattern(in, 1000, 0, 3));
	assert_int_equal(in[1000], 0x11);
	assert_int_equal(RUN(r, weir_read(r, &rec.op, fd, in, 2000, 900)),
			 100);
	assert_true(is_pattern(in, 100, 900, 3));
	assert_int_equal(RUN(r, weir_read(r, &rec.op, fd, in, 2000, 1000)), 0);
	assert_int_equal(RUN(r, weir_read(r, &rec.op, fd, in, 2000, FAR)), 0);
	assert_int_equal(RUN(r, weir_read(r, &rec.op, fd, in, 0, 0)), 0);
	assert_int_equal(RUN(r, weir_write(r, &rec.op, fd, in, 0, 0)), 0);
	close(fd);
}

static void offsets_go_past_4_gib(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 0, 0);
	char out[5000], in[5000];
	struct iovec iov[2] = { { in, 1 }, { in + 1, sizeof(in) - 1 } };

	fill_pattern(out, sizeof(out), 0, 3);
	assert_int_equal(RUN(r, weir_write(r, &rec.op, fd, out, sizeof(out),
					   FAR - 100)), sizeof(out));
	assert_int_equal(RUN(r, weir_readv(r, &rec.op, fd, iov, 2,
					   FAR - 100)), sizeof(in));
	assert_memory_equal(in, out, sizeof(in));
	assert_int_equal(lseek(fd, 0, SEEK_END), FAR - 100 + sizeof(out));
	close(fd);
}

static void lengths_go_past_4_gib(void **state)
{
	size_t len = (size_t)FAR;
	struct weir_reactor *r;
	char *area;
	int fd, null;

	if (!want_long() || UNDER_ASAN || UNDER_TSAN || under_valgrind())
		skip_because("moves 5 GiB; WEIR_TEST_LONG=1 asks for it");
	r = start_reactor(state);
	fd = test_file(state, "file", 0, 0);
	area = mmap(NULL, len, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(area != MAP_FAILED);
	/* The pages of nothing all read as one: it costs no memory. */
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	assert_int_equal(RUN(r, weir_write(r, &rec.op, fd, area, 4096,
					   len - 4096)), 4096);
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_int_equal(RUN(r, weir_write(r, &rec.op, null, area, len, 0)),
			 len);
	assert_int_equal(rec.detail.bytes, len);
	assert_int_equal(RUN(r, weir_copy_range(r, &rec.op, fd, 0, fd, len,
						4096)), 4096);
	munmap(area, len);
	close(null);
	close(fd);
}

static void odd_segments_are_filled_in_order(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 5000, 3);
	int fd2 = test_file(state, "file2", 0, 0);
	char in[5000], back[5000];
	struct iovec iov[7] = {
		{ NULL, 0 }, { in, 1 }, { in + 1, 0 }, { in + 1, 4095 },
		{ in + 4096, 3 }, { NULL, 0 }, { in + 4099, 901 },
	};

	assert_int_equal(RUN(r, weir_readv(r, &rec.op, fd, iov, 7, 0)), 5000);
	assert_true(is_pattern(in, 5000, 0, 3));
	assert_int_equal(RUN(r, weir_writev(r, &rec.op, fd2, iov, 7, 11)),
			 5000);
	assert_int_equal(pread(fd2, back, 5000, 11), 5000);
	assert_true(is_pattern(back, 5000, 0, 3));

	/* To the end, in the middle of a segment. */
	memset(in, 0, sizeof(in));
	assert_int_equal(RUN(r, weir_readv(r, &rec.op, fd, iov, 7, 2000)),
			 3000);
	assert_true(is_pattern(in, 3000, 2000, 3));
	assert_int_equal(in[3000], 0);

	/* Nothing but nothing, and none at all. */
	assert_int_equal(RUN(r, weir_readv(r, &rec.op, fd, iov, 1, 0)), 0);
	assert_int_equal(RUN(r, weir_writev(r, &rec.op, fd2, iov, 1, 0)), 0);
	assert_int_equal(RUN(r, weir_readv(r, &rec.op, fd, iov, 0, 0)), 0);
	close(fd);
	close(fd2);
}

static void iov_max_segments_are_the_limit(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", IOV_MAX, 3);
	struct iovec iov[IOV_MAX + 1];
	char in[IOV_MAX + 1];
	int i;

	for (i = 0; i <= IOV_MAX; i++)
		iov[i] = (struct iovec){ in + i, 1 };
	assert_int_equal(RUN(r, weir_readv(r, &rec.op, fd, iov, IOV_MAX, 0)),
			 IOV_MAX);
	assert_true(is_pattern(in, IOV_MAX, 0, 3));
	rec_init(&rec);
	assert_int_equal(weir_readv(r, &rec.op, fd, iov, IOV_MAX + 1, 0),
			 -EMSGSIZE);
	assert_int_equal(weir_writev(r, &rec.op, fd, iov, IOV_MAX + 1, 0),
			 -EMSGSIZE);
	assert_int_equal(weir_sendv(r, &rec.op, fd, iov, IOV_MAX + 1, 0),
			 -EMSGSIZE);
	some_turns(r, 2);
	assert_int_equal(rec.calls, 0);
	close(fd);
}

static void absurd_arguments_are_einval(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 10, 3);
	char buf[10];
	struct iovec iov[2] = { { buf, SIZE_MAX / 2 }, { buf, SIZE_MAX / 2 } };
	struct iovec hole = { NULL, 5 };
	struct statx stx;

	rec_init(&rec);
	assert_int_equal(weir_read(r, &rec.op, fd, NULL, 5, 0), -EINVAL);
	assert_int_equal(weir_write(r, &rec.op, fd, NULL, 5, 0), -EINVAL);
	assert_int_equal(weir_read(r, &rec.op, fd, buf, SIZE_MAX, 0), -EINVAL);
	assert_int_equal(weir_read(r, &rec.op, fd, buf, 5,
				   (uint64_t)INT64_MAX + 1), -EINVAL);
	assert_int_equal(weir_write(r, &rec.op, fd, buf, 5,
				    UINT64_MAX - 1), -EINVAL);
	assert_int_equal(weir_readv(r, &rec.op, fd, iov, 2, 0), -EINVAL);
	assert_int_equal(weir_readv(r, &rec.op, fd, &hole, 1, 0), -EINVAL);
	assert_int_equal(weir_writev(r, &rec.op, fd, NULL, 1, 0), -EINVAL);
	assert_int_equal(weir_open(r, &rec.op, AT_FDCWD, NULL, 0, 0), -EINVAL);
	assert_int_equal(weir_unlink(r, &rec.op, AT_FDCWD, NULL, 0), -EINVAL);
	assert_int_equal(weir_rename(r, &rec.op, AT_FDCWD, "x", AT_FDCWD,
				     NULL, 0),
			 -EINVAL);
	assert_int_equal(weir_statx(r, &rec.op, AT_FDCWD, NULL, 0, 0, &stx),
			 -EINVAL);
	assert_int_equal(weir_statx(r, &rec.op, AT_FDCWD, "x", 0, 0, NULL),
			 -EINVAL);
	assert_int_equal(weir_fsync(r, &rec.op, fd, 99), -EINVAL);
	some_turns(r, 2);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(weir_op_is_busy(&rec.op), 0);
	close(fd);
}

static void bad_descriptors_are_told_by_the_completion(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 10, 1);
	int ro = open(test_path(state, "file"), O_RDONLY | O_CLOEXEC);
	int bad[] = { -1, 1 << 20, INT_MAX };
	char buf[10];
	size_t i;

	for (i = 0; i < N_OF(bad); i++) {
		assert_int_equal(RUN(r, weir_read(r, &rec.op, bad[i], buf, 5,
						  0)), -EBADF);
		assert_int_equal(RUN(r, weir_write(r, &rec.op, bad[i], buf, 5,
						   WEIR_OFF_STREAM)), -EBADF);
		assert_int_equal(RUN(r, weir_fsync(r, &rec.op, bad[i], 0)),
				 -EBADF);
		assert_int_equal(RUN(r, weir_close(r, &rec.op, bad[i])),
				 -EBADF);
		assert_int_equal(RUN(r, weir_recv(r, &rec.op, bad[i], buf, 5,
						  0)), -EBADF);
		assert_int_equal(RUN(r, weir_poll(r, &rec.op, bad[i], 1)),
				 -EBADF);
		assert_int_equal(RUN(r, weir_accept(r, &rec.op, bad[i], NULL, NULL, 0)),
				 -EBADF);
	}
	assert_int_equal(RUN(r, weir_write(r, &rec.op, ro, buf, 5, 0)),
			 -EBADF);
	assert_int_equal(RUN(r, weir_recv(r, &rec.op, ro, buf, 5, 0)),
			 -ENOTSOCK);
	close(ro);
	close(fd);
}

static void a_directory_cannot_be_read(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = open(test_dir(state), O_RDONLY | O_CLOEXEC);
	char buf[10];

	assert_int_equal(RUN(r, weir_read(r, &rec.op, fd, buf, 5, 0)),
			 -EISDIR);
	close(fd);
}

static void a_stream_offset_is_the_descriptors_own(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 1000, 3);
	char in[600];

	assert_int_equal(lseek(fd, 100, SEEK_SET), 100);
	assert_int_equal(RUN(r, weir_read(r, &rec.op, fd, in, 600,
					  WEIR_OFF_STREAM)), 600);
	assert_true(is_pattern(in, 600, 100, 3));
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 700);
	assert_int_equal(RUN(r, weir_read(r, &rec.op, fd, in, 600,
					  WEIR_OFF_STREAM)), 300);
	assert_int_equal(RUN(r, weir_write(r, &rec.op, fd, in, 10,
					   WEIR_OFF_STREAM)), 10);
	assert_int_equal(lseek(fd, 0, SEEK_END), 1010);
	/* With an offset it stays where it is. */
	assert_int_equal(lseek(fd, 5, SEEK_SET), 5);
	assert_int_equal(RUN(r, weir_read(r, &rec.op, fd, in, 10, 0)), 10);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 5);
	close(fd);
}

/* More than a pipe holds: it goes on by itself as the reader reads. */
static void a_long_write_to_a_pipe_is_continued(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	size_t len = 1 << 20, got = 0;
	char *out = malloc(len), *in = malloc(len);
	struct iovec iov[3] = {
		{ out, 70001 }, { out + 70001, 0 },
		{ out + 70001, len - 70001 },
	};
	int p[2], vec;
	ssize_t n;

	assert_non_null(out);
	assert_non_null(in);
	fill_pattern(out, len, 0, 9);
	for (vec = 0; vec < 2; vec++) {
		pipe_pair(p);
		set_nonblock(p[0]);
		rec_init(&rec);
		if (vec)
			STARTS(weir_writev(r, &rec.op, p[1], iov, 3,
					   WEIR_OFF_STREAM));
		else
			STARTS(weir_write(r, &rec.op, p[1], out, len,
					  WEIR_OFF_STREAM));
		for (got = 0; got < len; got += n > 0 ? (size_t)n : 0) {
			n = read(p[0], in + got, len - got < 1777 ?
				 len - got : 1777);
			if (n <= 0)
				assert_true(weir_reactor_turn(r, WEIR_MSEC) >=
					    0);
		}
		UNTIL(r, rec.calls);
		assert_int_equal(rec.res, len);
		assert_int_equal(rec.detail.bytes, len);
		assert_memory_equal(in, out, len);
		close_pair(p);
	}
	free(out);
	free(in);
}

static void a_cancelled_write_says_how_much_went(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	size_t len = 1 << 20, got = 0;
	char *out = calloc(1, len), in[4096];
	int p[2];
	ssize_t n;

	assert_non_null(out);
	pipe_pair(p);
	rec_init(&rec);
	STARTS(weir_write(r, &rec.op, p[1], out, len, WEIR_OFF_STREAM));
	/* Where a worker writes, it begins when it likes. */
	set_nonblock(p[0]);
	while ((n = read(p[0], in, sizeof(in))) < 0)
		assert_true(weir_reactor_turn(r, WEIR_MSEC) >= 0);
	assert_int_equal(rec.calls, 0);
	weir_op_cancel(&rec.op);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	do
		got += (size_t)n;
	while ((n = read(p[0], in, sizeof(in))) > 0);
	assert_int_equal(rec.detail.bytes, got);
	free(out);
	close_pair(p);
}

static void an_eventfd_is_a_stream(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = eventfd(0, EFD_CLOEXEC);
	uint64_t n = 0, three = 3;
	struct rec w;

	rec_init(&rec);
	rec_init(&w);
	STARTS(weir_read(r, &rec.op, fd, &n, 8, WEIR_OFF_STREAM));
	some_turns(r, 3);
	assert_int_equal(rec.calls, 0);
	STARTS(weir_write(r, &w.op, fd, &three, 8, WEIR_OFF_STREAM));
	finish(r, &w);
	UNTIL(r, rec.calls);
	assert_int_equal(rec.res, 8);
	assert_int_equal(n, 3);
	close(fd);
}

static void the_kernels_errors_come_through(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int full = open("/dev/full", O_RDWR | O_CLOEXEC);
	char buf[100] = "";

	if (full < 0)
		skip_because("no /dev/full");
	assert_int_equal(RUN(r, weir_write(r, &rec.op, full, buf, 100, 0)),
			 -ENOSPC);
	assert_int_equal(rec.detail.bytes, 0);
	close(full);
}

/* The error comes after some bytes: the result is the error, the detail says
 * the bytes. */
static void an_error_on_the_way_says_how_far_it_came(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 0, 0);
	struct rlimit old, small;
	char buf[10000] = "";

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = old;
	small.rlim_cur = 6000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	rec_init(&rec);
	STARTS(weir_write(r, &rec.op, fd, buf, sizeof(buf), 0));
	UNTIL(r, rec.calls);
	setrlimit(RLIMIT_FSIZE, &old);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(rec.res, -EFBIG);
	assert_int_equal(rec.detail.bytes, 6000);
	assert_int_equal(lseek(fd, 0, SEEK_END), 6000);
	close(fd);
}

/* A file system of two pages, in a name space of a child's own. */
static int write_to_a_full_disk(const char *dir, uint32_t backend)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	static char buf[65536];
	struct weir_reactor *r;
	char path[200];
	int fd;

	if (unshare(CLONE_NEWNS) ||
	    mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", dir, "tmpfs", 0, "size=8192"))
		return 77;
	opts.backend = backend;
	snprintf(path, sizeof(path), "%s/file", dir);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || weir_reactor_create(&r, &opts))
		return 2;
	rec_init(&rec);
	if (weir_write(r, &rec.op, fd, buf, sizeof(buf), 0))
		return 3;
	while (!rec.calls)
		if (weir_reactor_turn(r, WEIR_SEC) < 0)
			return 4;
	if (rec.res != -ENOSPC)
		return 5;
	if (rec.detail.bytes != (uint64_t)lseek(fd, 0, SEEK_END))
		return 6;
	return weir_reactor_destroy(r) ? 7 : 0;
}

static void a_full_disk_is_enospc_after_what_fitted(void **state)
{
	const char *dir = test_dir(state);
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(write_to_a_full_disk(dir, backend_of(*state)));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip_because("may not mount; needs root");
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void names_are_made_moved_and_removed(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	const char *dir = test_dir(state);
	int d = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;
	struct statx stx;

	fd = (int)RUN(r, weir_open(r, &rec.op, d, "a", O_RDWR | O_CREAT, 0640));
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(RUN(r, weir_fallocate(r, &rec.op, fd, 0, 0, 5000)),
			 0);
	/* What no file system can. */
	assert_int_equal(RUN(r, weir_fallocate(r, &rec.op, fd, 1 << 30, 0,
					       4096)), -EOPNOTSUPP);
	assert_int_equal(RUN(r, weir_fsync(r, &rec.op, fd, 0)), 0);
	assert_int_equal(RUN(r, weir_statx(r, &rec.op, d, "a", 0, STATX_SIZE,
					   &stx)), 0);
	assert_int_equal(stx.stx_size, 5000);
	assert_int_equal(RUN(r, weir_statx(r, &rec.op, fd, "", AT_EMPTY_PATH,
					   STATX_SIZE, &stx)), 0);
	assert_int_equal(stx.stx_size, 5000);
	assert_int_equal(RUN(r, weir_rename(r, &rec.op, d, "a", d, "b", 0)), 0);
	assert_int_equal(RUN(r, weir_rename(r, &rec.op, d, "a", d, "b", 0)),
			 -ENOENT);
	assert_int_equal(RUN(r, weir_statx(r, &rec.op, d, "b", 0, STATX_SIZE,
					   &stx)), 0);
	assert_int_equal(RUN(r, weir_open(r, &rec.op, d, "b",
					  O_RDWR | O_CREAT | O_EXCL, 0600)),
			 -EEXIST);
	assert_int_equal(RUN(r, weir_unlink(r, &rec.op, d, "b", 0)), 0);
	assert_int_equal(RUN(r, weir_unlink(r, &rec.op, d, "b", 0)), -ENOENT);
	test_mkdir(state, "sub");
	assert_true(RUN(r, weir_unlink(r, &rec.op, d, "sub", 0)) < 0);
	assert_int_equal(RUN(r, weir_unlink(r, &rec.op, d, "sub",
					    AT_REMOVEDIR)), 0);
	assert_int_equal(RUN(r, weir_close(r, &rec.op, fd)), 0);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(RUN(r, weir_statx(r, &rec.op, d, "b", 0, STATX_SIZE,
					   &stx)), -ENOENT);
	close(d);
}

static void ranges_are_copied(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	size_t len = 300000;
	int src = test_file(state, "src", len, 4);
	int dst = test_file(state, "dst", 0, 0);
	int p[2];
	char *in = malloc(len);
	int64_t res;

	assert_non_null(in);
	res = RUN(r, weir_copy_range(r, &rec.op, src, 0, dst, 0, len));
	if (res == -EXDEV || res == -EOPNOTSUPP)
		skip_because("the kernel cannot copy ranges here");
	assert_int_equal(res, len);
	/* Past the end: as far as it goes. */
	assert_int_equal(RUN(r, weir_copy_range(r, &rec.op, src, len - 100,
						dst, len, 5000)), 100);
	assert_int_equal(rec.detail.bytes, 100);
	assert_int_equal(RUN(r, weir_copy_range(r, &rec.op, src, len, dst, 0,
						5000)), 0);
	assert_int_equal(pread(dst, in, len, 0), len);
	assert_true(is_pattern(in, len, 0, 4));
	assert_int_equal(lseek(dst, 0, SEEK_END), len + 100);

	pipe_pair(p);
	assert_true(RUN(r, weir_copy_range(r, &rec.op, p[0], 0, dst, 0, 10)) <
		    0);
	close_pair(p);
	free(in);
	close(src);
	close(dst);
}

static void direct_io_moves_whole_blocks(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 1 << 20, 5), direct;
	char *in = NULL;
	struct iovec iov[2];

	direct = open(test_path(state, "file"), O_RDONLY | O_DIRECT |
		      O_CLOEXEC);
	if (direct < 0) {
		close(fd);
		skip_because("no O_DIRECT here");
	}
	assert_int_equal(posix_memalign((void **)&in, 4096, 1 << 20), 0);
	assert_int_equal(RUN(r, weir_read(r, &rec.op, direct, in, 1 << 20,
					  0)), 1 << 20);
	assert_true(is_pattern(in, 1 << 20, 0, 5));
	iov[0] = (struct iovec){ in + 4096, 4096 };
	iov[1] = (struct iovec){ in, 4096 };
	assert_int_equal(RUN(r, weir_readv(r, &rec.op, direct, iov, 2, 8192)),
			 8192);
	assert_true(is_pattern(in + 4096, 4096, 8192, 5));
	assert_true(is_pattern(in, 4096, 12288, 5));
	free(in);
	close(direct);
	close(fd);
}

static void registered_descriptors_do_the_same(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 1000, 3), other, fd2;
	char in[1000];
	int i;

	assert_int_equal(weir_fd_register(r, 1 << 20), -EBADF);
	for (i = 0; i < 3; i++) {
		assert_true(weir_fd_register(r, fd) >= 0);
		assert_int_equal(RUN(r, weir_read(r, &rec.op, fd, in, 1000,
						  0)), 1000);
		assert_true(is_pattern(in, 1000, 0, 3));
		weir_fd_unregister(r, fd);
		weir_fd_unregister(r, fd);
	}
	/* What is in flight keeps the file. */
	assert_true(weir_fd_register(r, fd) >= 0);
	rec_init(&rec);
	STARTS(weir_read(r, &rec.op, fd, in, 1000, 0));
	weir_fd_unregister(r, fd);
	assert_int_equal(finish(r, &rec), 1000);

	/* A close ends it: the number means another file next. */
	assert_true(weir_fd_register(r, fd) >= 0);
	assert_int_equal(RUN(r, weir_close(r, &rec.op, fd)), 0);
	other = test_file(state, "other", 1000, 8);
	fd2 = other == fd ? fd : dup2(other, fd);
	assert_int_equal(fd2, fd);
	assert_int_equal(RUN(r, weir_read(r, &rec.op, fd2, in, 1000, 0)),
			 1000);
	assert_true(is_pattern(in, 1000, 0, 8));
	close(fd2);
	if (other != fd2)
		close(other);
}

static void reads_at_once_find_their_own_bytes(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	unsigned int n = scaled(2000), i;
	int fd = test_file(state, "file", 1 << 20, 6);
	struct rec *recs = calloc(n, sizeof(*recs));
	char (*in)[512] = calloc(n, sizeof(*in));

	assert_non_null(recs);
	assert_non_null(in);
	for (i = 0; i < n; i++) {
		rec_init(&recs[i]);
		STARTS(weir_read(r, &recs[i].op, fd, in[i], 512,
				 i * 511u % ((1 << 20) - 512)));
	}
	for (i = 0; i < n; i++) {
		UNTIL(r, recs[i].calls);
		assert_int_equal(recs[i].res, 512);
		assert_true(is_pattern(in[i], 512,
				       i * 511u % ((1 << 20) - 512), 6));
	}
	free(recs);
	free(in);
	close(fd);
}

/* Of the harness: else a test that asks which of two files it has says yes. */
static void patterns_differ_by_seed_and_offset(void **state)
{
	unsigned char a[64], b[64];
	unsigned int seed;

	(void)state;
	fill_pattern(a, sizeof(a), 0, 0);
	assert_true(is_pattern(a, sizeof(a), 0, 0));
	assert_false(is_pattern(a, sizeof(a), 1, 0));
	for (seed = 1; seed < 1000; seed++) {
		fill_pattern(b, sizeof(b), 0, seed);
		assert_true(is_pattern(b, sizeof(b), 0, seed));
		assert_memory_not_equal(a, b, sizeof(a));
		assert_false(is_pattern(b, sizeof(b), 0, seed - 1));
	}
}

static int open_terminal(int *master)
{
	int fd;

	*master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (*master < 0)
		skip_because("no terminal can be made");
	if (grantpt(*master) || unlockpt(*master))
		fail_msg("grantpt: %d", errno);
	fd = open(ptsname(*master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) {
		close(*master);
		skip_because("no terminal can be opened");
	}
	return fd;
}

/* It is a device, but has no offsets, nor a read that does not wait. */
static void terminal_is_read_line_by_line_and_written(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char got[8];
	struct rec in, out;
	int master, fd = open_terminal(&master);

	rec_init(&in);
	STARTS(weir_read(r, &in.op, fd, got, sizeof(got), 0));
	assert_int_equal(write(master, "one\ntwo", 7), 7);
	some_turns(r, 3);
	assert_int_equal(in.calls, 0);
	assert_int_equal(write(master, "\n", 1), 1);
	assert_int_equal(finish(r, &in), 8);
	assert_memory_equal(got, "one\ntwo\n", 8);
	rec_init(&out);
	STARTS(weir_write(r, &out.op, fd, "end", 3, 0));
	assert_int_equal(finish(r, &out), 3);
	close(fd);
	close(master);
}

int main(void)
{
	static const struct harness_case cases[] = {
		REAL(terminal_is_read_line_by_line_and_written),
		CASE(patterns_differ_by_seed_and_offset),
		CASE(written_bytes_are_read_back),
		CASE(a_read_is_short_only_at_the_end),
		CASE(offsets_go_past_4_gib),
		REAL(lengths_go_past_4_gib),
		CASE(odd_segments_are_filled_in_order),
		CASE(iov_max_segments_are_the_limit),
		CASE(absurd_arguments_are_einval),
		CASE(bad_descriptors_are_told_by_the_completion),
		CASE(a_directory_cannot_be_read),
		CASE(a_stream_offset_is_the_descriptors_own),
		CASE(a_long_write_to_a_pipe_is_continued),
		CASE(a_cancelled_write_says_how_much_went),
		REAL(an_eventfd_is_a_stream),
		REAL(the_kernels_errors_come_through),
		REAL(an_error_on_the_way_says_how_far_it_came),
		REAL(a_full_disk_is_enospc_after_what_fitted),
		CASE(names_are_made_moved_and_removed),
		CASE(ranges_are_copied),
		CASE(direct_io_moves_whole_blocks),
		CASE(registered_descriptors_do_the_same),
		CASE(reads_at_once_find_their_own_bytes),
	};

	return harness_run_all(cases, N_OF(cases));
}
