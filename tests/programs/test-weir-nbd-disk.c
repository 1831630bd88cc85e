/* SPDX-License-Identifier: BSD-3-Clause */

/* weir-nbd and what it stores things on, which may be full, or be gone round
 * the page cache, or outlive the server; and that thousands of clients leave
 * nothing behind. */

#include "tests/support/loopdev.h"
#include "tests/support/nbd-fixture.h"

#include <sys/resource.h>

#define BLOCK 4096u

/* A server that cannot make any file longer than 1 MiB: a disk that is full. */
static void start_on_full_disk(void **state)
{
	const struct rlimit limit = { .rlim_cur = MIB, .rlim_max = MIB };
	void (*was)(int signo) = signal(SIGXFSZ, SIG_IGN);

	nbd_start(state);
	signal(SIGXFSZ, was);
	assert_int_equal(prlimit(nbd_pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

static void a_full_disk_is_told(void **state)
{
	static const uint64_t offs[] = { 0, 2 * MIB, BLOCK, 4 * MIB };
	uint8_t said[N_OF(offs)][28 + BLOCK] = { { 0 } };
	uint8_t *big = calloc(1, MIB);
	int fd;

	start_on_full_disk(state);
	fd = nbd_open("file", true);
	/* Of a batch, those fail that do not fit. */
	for (size_t i = 0; i < N_OF(offs); i++)
		make_request(said[i], 0, NBD_CMD_WRITE, i, offs[i], BLOCK);
	tell(fd, said, sizeof(said));
	for (size_t i = 0; i < N_OF(offs); i++)
		assert_int_equal(hear_error(fd, i),
				 offs[i] < MIB ? 0 : NBD_ENOSPC);
	assert_int_equal(do_write(fd, 0, 2 * MIB, MIB, big), NBD_ENOSPC);
	assert_int_equal(do_write(fd, NBD_CMD_FLAG_FUA, 2 * MIB, 512, big),
			 NBD_ENOSPC);
	assert_int_equal(do_write(fd, NBD_CMD_FLAG_FUA, 512, 512, big), 0);
	do_read(fd, true, 2 * MIB, MIB, big);
	disconnect(fd);
	nbd_stop();
	free(big);
}

static bool goes_direct(const char *path)
{
	int fd = open(path, O_RDWR | O_DIRECT);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void a_direct_export_wants_whole_blocks(void **state)
{
	uint8_t *buf = malloc(2 * MIB);
	char export[300];
	int fd;

	close(test_file(state, "direct", FILE_SIZE, 2));
	if (!goes_direct(test_path(state, "direct"))) {
		free(buf);
		skip_because("this file system has no O_DIRECT");
	}
	snprintf(export, sizeof(export), "--export=name=direct,direct,path=%s",
		 test_path(state, "direct"));
	nbd_start_with(state, (const char *const[]){ export, NULL });
	fd = nbd_open("direct", true);
	do_read(fd, true, BLOCK, MIB, buf);
	assert_true(is_pattern(buf, MIB, BLOCK, 2));
	for (uint32_t len = BLOCK; len <= MIB; len *= 4) {
		fill_pattern(buf, len, len, 3);
		assert_int_equal(do_write(fd, NBD_CMD_FLAG_FUA, len, len, buf),
				 0);
		do_read(fd, true, len, len, buf + MIB);
		assert_memory_equal(buf, buf + MIB, len);
	}
	assert_int_equal(do_write(fd, 0, 0, 512, buf), NBD_EINVAL);
	assert_int_equal(do_write(fd, 0, 512, BLOCK, buf), NBD_EINVAL);
	assert_int_equal(do_command(fd, 0, NBD_CMD_WRITE_ZEROES, 0, MIB), 0);
	assert_int_equal(do_command(fd, 0, NBD_CMD_TRIM, MIB, MIB), 0);
	do_read(fd, true, 0, MIB, buf);
	for (uint32_t i = 0; i < MIB; i++)
		assert_int_equal(buf[i], 0);
	disconnect(fd);
	nbd_stop();
	free(buf);
}

/* What a device does to whole sectors only is done to other ranges, too. */
static const struct odd_range {
	uint64_t off;
	uint32_t len;
} odd_ranges[] = {
	{ 1, 100 }, { BLOCK - 1, BLOCK + 2 }, { 70001, 300000 },
};

static void change_odd_range(int fd, const struct odd_range *range,
			     unsigned int flags, uint8_t *want, uint8_t *got)
{
	fill_pattern(want, MIB, 0, 4);
	assert_int_equal(do_write(fd, 0, 0, MIB, want), 0);
	assert_int_equal(do_command(fd, 0, NBD_CMD_TRIM, range->off,
				    range->len), 0);
	assert_int_equal(do_command(fd, NBD_CMD_FLAG_FAST_ZERO | flags,
				    NBD_CMD_WRITE_ZEROES, range->off,
				    range->len), NBD_ENOTSUP);
	assert_int_equal(do_command(fd, flags, NBD_CMD_WRITE_ZEROES, range->off,
				    range->len), 0);
	memset(want + range->off, 0, range->len);
	do_read(fd, true, 0, MIB, got);
	assert_memory_equal(got, want, MIB);
}

static void a_device_zeroes_parts_of_sectors(void **state)
{
	uint8_t *want, *got;
	char export[300];
	struct loopdev l;
	int fd;

	if (loopdev_open(&l, MIB, 512))
		skip_because("no loop device can be had");
	want = malloc(MIB);
	got = malloc(MIB);
	snprintf(export, sizeof(export), "--export=name=device,path=%s",
		 l.path);
	nbd_start_with(state, (const char *const[]){ export, NULL });
	fd = nbd_open("device", true);
	for (size_t i = 0; i < N_OF(odd_ranges); i++) {
		change_odd_range(fd, &odd_ranges[i], 0, want, got);
		change_odd_range(fd, &odd_ranges[i], NBD_CMD_FLAG_NO_HOLE,
				 want, got);
	}
	disconnect(fd);
	nbd_stop();
	loopdev_close(&l);
	free(want);
	free(got);
}

#define WRITERS 4u	/* Each has a connection, */
#define SLOTS 256u	/* and blocks that it writes again and again. */

static uint64_t place_of(uint64_t n)
{
	return (n % WRITERS * SLOTS + n / WRITERS % SLOTS) * BLOCK;
}

static unsigned int seed_of(uint64_t n)
{
	return 100 + (unsigned int)(n / WRITERS / SLOTS);
}

static bool try_send(int fd, const void *said, size_t len)
{
	return send(fd, said, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static bool is_answered(int fd)
{
	uint8_t back[16];

	if (recv(fd, back, 16, MSG_WAITALL) != 16)
		return false;
	assert_int_equal(get32(back + 4), 0);
	return true;
}

static bool try_flush(int fd)
{
	uint8_t said[28];

	make_request(said, 0, NBD_CMD_FLUSH, 1, 0, 0);
	return try_send(fd, said, 28) && is_answered(fd);
}

/*
 * A write by each writer, all in flight at the same time.  Every second one is
 * safe by itself; the others are by a flush, on a connection that did not write
 * them.  False: the server was killed.
 */
static bool try_round(const int *fds, uint64_t n)
{
	uint8_t said[28 + BLOCK];
	bool ok = true;

	for (unsigned int i = 0; i < WRITERS; i++) {
		make_request(said, i % 2 ? NBD_CMD_FLAG_FUA : 0, NBD_CMD_WRITE,
			     n, place_of(n + i), BLOCK);
		fill_pattern(said + 28, BLOCK, place_of(n + i), seed_of(n + i));
		ok &= try_send(fds[i], said, sizeof(said));
	}
	for (unsigned int i = 0; i < WRITERS; i++)
		ok &= is_answered(fds[i]);
	return ok && try_flush(fds[n / WRITERS % 2 ? 1 : 3]);
}

static pid_t kill_server_in(unsigned int ms)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		poll(NULL, 0, (int)ms);
		kill(nbd_pid, SIGKILL);
		_exit(0);
	}
	return pid;
}

/* Blocks that were flushed are there, each as it was written last. */
static void check_flushed(void **state, uint64_t n)
{
	const uint64_t all = WRITERS * SLOTS;
	int fd = open(test_path(state, "file"), O_RDONLY);
	uint8_t buf[BLOCK];

	/* The last round may have written again what is oldest. */
	for (uint64_t i = n < all ? 0 : n + WRITERS - all; i < n; i++) {
		uint64_t off = place_of(i);

		assert_int_equal(pread(fd, buf, BLOCK, (off_t)off), BLOCK);
		assert_true(is_pattern(buf, BLOCK, off, seed_of(i)));
	}
	close(fd);
}

static void flushed_data_outlives_a_kill_at_any_time(void **state)
{
	unsigned int rounds = want_long() ? 500 : 3;

	for (unsigned int i = 1; i <= rounds; i++) {
		int fds[WRITERS];
		uint64_t n = 0;
		pid_t killer;

		nbd_start(state);
		for (unsigned int k = 0; k < WRITERS; k++)
			fds[k] = nbd_open("file", false);
		killer = kill_server_in(i * 7 % 50);
		while (try_round(fds, n))
			n += WRITERS;
		for (unsigned int k = 0; k < WRITERS; k++)
			close(fds[k]);
		assert_int_equal(waitpid(killer, NULL, 0), killer);
		assert_int_equal(nbd_wait(), 128 + SIGKILL);
		check_flushed(state, n);
	}
}

/* Its descriptors when the last client has gone, and only the listening socket is
 * left. */
static unsigned int idle_fds(void)
{
	while (fds_of(nbd_pid, "socket:") > 1)
		poll(NULL, 0, 1);
	return fds_of(nbd_pid, "");
}

/* KiB of memory that the server has in use, without what is mapped from files:
 * how much of that is there depends on what else the machine does. */
static long server_kib(void)
{
	return status_of(nbd_pid, "RssAnon:") + status_of(nbd_pid, "RssShmem:");
}

/* One of several ways to do wrong.  Not all at one place: what is changed by
 * two at a time, each on a core of its own, is a race in memory. */
static void abuse(unsigned int how)
{
	const char *name = how & 8 ? "file" : "memory";
	uint8_t buf[28 + BLOCK] = { 0 };
	int fd;

	if (how % 8 < 2) {
		fd = nbd_connect(3);
		tell(fd, buf, how % 8 ? 16 : 3);
	} else {
		fd = nbd_open(name, how & 16);
		make_request(buf, 0, how % 8 - 2, 1, how % 64 * BLOCK, BLOCK);
		buf[0] ^= how % 64 == 63;
		tell(fd, buf, how & 32 ? 28 : 28 + BLOCK / 2);
	}
	close(fd);
}

static void abuse_much(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		abuse(i);
	check_served("file");
}

static void clients_leave_nothing_behind(void **state)
{
	unsigned int fds;
	long kib;

	nbd_start(state);
	abuse_much(256);
	fds = idle_fds();
	kib = server_kib();
	abuse_much(want_long() ? 24000 : 256);
	assert_int_equal(idle_fds(), fds);
	kib = server_kib() - kib;
	if (want_long())
		print_message("# %ld KiB more\n", kib);
	/* Sanitizers and valgrind keep what was freed. */
	assert_true(kib < 1024 || UNDER_ASAN || UNDER_TSAN ||
		    getenv("WEIR_NBD"));
	nbd_stop();
}

/* What sanitizers and valgrind keep is not the server's. */
static bool can_measure(void)
{
	return !UNDER_ASAN && !UNDER_TSAN && !getenv("WEIR_NBD");
}

/* Buffers take memory when they are used, and as much of it as is used. */
static void idle_connection_takes_little_memory(void **state)
{
	int fds[32];
	long kib;

	nbd_start_with(state, (const char *const[]){ "--connections=32", NULL });
	kib = server_kib();
	assert_true(kib < 8 << 10 || !can_measure());
	for (size_t i = 0; i < N_OF(fds); i++)
		fds[i] = nbd_open(i % 2 ? "file" : "memory", true);
	assert_true(server_kib() - kib < 4 << 10 || !can_measure());
	for (size_t i = 0; i < N_OF(fds); i++)
		disconnect(fds[i]);
	nbd_stop();
}

/* Of the file, whose length is now MIB. */
static void check_truncated(int fd, uint8_t *buf)
{
	uint32_t extents[16], n;
	uint64_t off = MIB - 65536;

	do_read(fd, true, off, 65536, buf);
	ask(fd, 0, NBD_CMD_READ, 2 * MIB, BLOCK);
	assert_int_equal(hear_error(fd, 2 * MIB), NBD_EIO);
	ask(fd, 0, NBD_CMD_READ, MIB - 512, BLOCK);
	assert_int_equal(hear_error(fd, MIB - 512), NBD_EIO);
	n = do_status(fd, 0, off, 4 * MIB, extents, 8);
	for (uint32_t i = 0; i < n; i++, off += extents[2 * i - 2])
		assert_true(!extents[2 * i + 1] ||
			    off + extents[2 * i] <= MIB);
}

/* What a client asks for beyond the end was there, and is lost. */
static void read_beyond_truncated_end_is_an_error(void **state)
{
	uint8_t *buf = calloc(1, MIB), got[BLOCK];
	int fd, simple;

	nbd_start(state);
	fd = nbd_open("file", true);
	simple = nbd_open("file", false);
	assert_int_equal(truncate(test_path(state, "file"), MIB), 0);
	check_truncated(fd, buf);
	/* With a hole at its new end, too. */
	assert_int_equal(truncate(test_path(state, "file"), MIB / 2), 0);
	assert_int_equal(truncate(test_path(state, "file"), MIB), 0);
	check_truncated(fd, buf);
	ask(simple, 0, NBD_CMD_READ, 2 * MIB, BLOCK);
	assert_int_equal(hear_error(simple, 2 * MIB), NBD_EIO);
	/* Writes and zeroes make the file longer, and nothing of them is
	 * lost. */
	fill_pattern(buf, BLOCK, 2 * MIB, 9);
	assert_int_equal(do_write(fd, 0, 2 * MIB, BLOCK, buf), 0);
	do_read(fd, true, 2 * MIB, BLOCK, got);
	assert_memory_equal(buf, got, BLOCK);
	assert_int_equal(do_command(fd, NBD_CMD_FLAG_NO_HOLE,
				    NBD_CMD_WRITE_ZEROES, 3 * MIB, BLOCK), 0);
	do_read(fd, true, 3 * MIB, BLOCK, got);
	for (uint32_t i = 0; i < BLOCK; i++)
		assert_int_equal(got[i], 0);
	disconnect(simple);
	disconnect(fd);
	nbd_stop();
	free(buf);
}

/* As other servers take it: no option but where to listen. */
static void file_alone_is_the_default_export(void **state)
{
	const char *args[8] = { NULL };
	uint8_t buf[BLOCK];
	int fd;

	close(test_file(state, "a,ro,size=1", MIB, 4));
	args[0] = test_path(state, "a,ro,size=1");
	nbd_spawn(state, args);
	nbd_await(NULL);
	fd = nbd_open("", true);
	do_read(fd, true, BLOCK, BLOCK, buf);
	assert_true(is_pattern(buf, BLOCK, BLOCK, 4));
	assert_int_equal(do_write(fd, 0, 0, BLOCK, buf), 0);
	disconnect(fd);
	nbd_stop();

	/* The same for reading only, beside another one. */
	args[0] = test_path(state, "a,ro,size=1");
	args[1] = "-r";
	args[2] = "name=m,size=1M";
	nbd_spawn(state, args);
	nbd_await(NULL);
	for (int i = 0; i < 2; i++) {
		fd = nbd_open(i ? "m" : "", true);
		assert_int_equal(do_write(fd, 0, 0, BLOCK, buf), NBD_EPERM);
		do_read(fd, true, 0, BLOCK, buf);
		disconnect(fd);
	}
	nbd_stop();

	/* Two without a name are one too many. */
	args[1] = "--export=size=1M";
	args[2] = NULL;
	nbd_spawn(state, args);
	assert_int_equal(nbd_wait(), 2);
}

static const struct harness_case cases[] = {
	CASE(file_alone_is_the_default_export),
	CASE(a_full_disk_is_told),
	CASE(a_direct_export_wants_whole_blocks),
	CASE(a_device_zeroes_parts_of_sectors),
	CASE(flushed_data_outlives_a_kill_at_any_time),
	CASE(clients_leave_nothing_behind),
	CASE(idle_connection_takes_little_memory),
	CASE(read_beyond_truncated_end_is_an_error),
};

int main(void)
{
	return harness_run(cases, N_OF(cases));
}
