/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Segments: memory that another process has, external or imported.  The numbers
 * are those of the rules and cases that are re-created, of DPDK's rte_extmem.
 */

#include "tests/support/export-fixture.h"
#include "tests/support/segment-fixture.h"

#define N 8
#define LEN EXT_LEN

/* The other process: its own mapping of the memory that fds[0] is. */
static void second_process(int fds[2], int done)
{
	struct weir_segment seg = SEGMENT;
	struct weir_segment_stats stats = { .size = sizeof(stats) };
	char *q = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0],
		       0);
	uint64_t iova;

	WANT(q != MAP_FAILED);
	WANT(weir_segment_detach(q, LEN) == -ENOENT);
	WANT(weir_segment_attach(q, PAGE, fds[1]) == -ENOENT);
	WANT(!weir_segment_attach(q, LEN, fds[1]));
	WANT(!weir_segment_find(&seg, q + PAGE) && seg.iova == ext_iovas[1]);
	WANT(seg.flags == (WEIR_SEGMENT_EXTERNAL | WEIR_SEGMENT_IMPORTED |
			   WEIR_SEGMENT_DIRTY));
	WANT(!weir_segment_iova(&iova, q + 9) && iova == ext_iovas[0] + 9);
	WANT(!weir_segment_stats(&stats) && stats.external == 2 * LEN);
	q[PAGE] = 'q';
	WANT(!weir_segment_detach(q, LEN));
	WANT(weir_segment_detach(q, LEN) == -ENOENT);
	WANT(!weir_segment_attach(q, LEN, fds[1]));
	WANT(write(done, "x", 1) == 1);
	pause();
}

/* C1.9, 56 */
static void a_process_that_dies_attached_leaves_the_owner_whole(void **state)
{
	int fds[2] = { memfd_create("shared", MFD_CLOEXEC), -1 }, pipe[2];
	char *p, byte;
	pid_t pid;
	uint64_t iova;

	(void)state;
	assert_int_equal(ftruncate(fds[0], LEN), 0);
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	assert_true(p != MAP_FAILED);
	assert_int_equal(weir_segment_register(p, LEN, ext_iovas, 2, PAGE), 0);
	assert_int_equal(weir_segment_share(&fds[1], p, LEN), 0);
	pipe_pair(pipe);
	pid = fork();
	if (!pid)
		second_process(fds, pipe[1]);
	close(pipe[1]);
	if (read(pipe[0], &byte, 1) != 1)
		join_child(pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(n_lists(), 1);
	assert_int_equal(p[PAGE], 'q');
	assert_int_equal(weir_segment_iova(&iova, p + PAGE), 0);
	assert_int_equal(iova, ext_iovas[1]);
	assert_int_equal(weir_segment_unregister(p, LEN), 0);
	assert_int_equal(n_lists(), 0);
	munmap(p, LEN);
	close(fds[0]);
	close(fds[1]);
	close(pipe[0]);
}

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* A sealed memfd with @len bytes of @data. */
static int sealed(const void *data, size_t len, int seals)
{
	int fd = memfd_create("bad", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(write(fd, data, len), (ssize_t)len);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static int try_attach(char *p, const void *data, size_t len, int seals)
{
	int fd = sealed(data, len, seals);
	int err = weir_segment_attach(p, LEN, fd);

	if (!err)
		assert_int_equal(weir_segment_detach(p, LEN), 0);
	assert_int_equal(n_lists(), 0);
	close(fd);
	return err;
}

/* All truncations, all single bits; IOVAs may be anything that fits. */
static void descriptions_are_hostile_input(void **state)
{
	unsigned char good[64], bad[64];
	char *p = pages(N);
	int fd = description(p), pipe[2], err;
	ssize_t len = pread(fd, good, sizeof(good), 0);
	size_t i;

	(void)state;
	assert_int_equal(len, 32 + 16);
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(try_attach(p, good, (size_t)len, SEALS), 0);
	for (i = 0; i < (size_t)len; i++)
		assert_int_equal(try_attach(p, good, i, SEALS), -EINVAL);
	for (i = 0; i < 32 * 8; i++) {
		memcpy(bad, good, sizeof(bad));
		bad[i / 8] ^= (unsigned char)(1u << i % 8);
		err = try_attach(p, bad, (size_t)len, SEALS);
		if (err != (i / 64 == 1 ? -ENOENT : -EINVAL))
			fail_msg("bit %zu: %d: %s", i, err, weir_why());
	}
	assert_int_equal(try_attach(p, good, (size_t)len, F_SEAL_WRITE),
			 -EINVAL);
	memset(good + 32, 0xff, 8);
	assert_int_equal(try_attach(p, good, (size_t)len, SEALS), -EINVAL);
	assert_int_equal(weir_segment_attach(p, LEN, -1), -EBADF);
	assert_int_equal(weir_segment_attach(NULL, LEN, fd), -EINVAL);
	assert_int_equal(weir_segment_attach(p + 1, LEN, fd), -EINVAL);
	pipe_pair(pipe);
	assert_int_equal(weir_segment_attach(p, LEN, pipe[0]), -EINVAL);
	close_pair(pipe);
	close(fd);
	pages_end(p, N);
}

static void count_event(int event, const struct weir_segment *list, void *arg)
{
	int *counts = arg;

	EXPECT(list->len == FIXTURE_LEN);
	EXPECT(list->flags & WEIR_SEGMENT_IMPORTED);
	counts[event]++;
}

static int refuse(int node, uint64_t limit, uint64_t total, void *arg)
{
	(void)node, (void)limit, (void)total, (void)arg;
	return -EPERM;
}

static void look_at(char *p)
{
	struct weir_segment_stats stats = { .size = sizeof(stats) };
	struct weir_segment seg = SEGMENT;
	char byte = 0;
	uint64_t off;
	int fd;

	EXPECT(!weir_segment_find(&seg, p + 2 * PAGE));
	EXPECT(seg.flags == (WEIR_SEGMENT_IMPORTED | WEIR_SEGMENT_DIRTY));
	EXPECT(seg.len == FIXTURE_LEN - 2 * PAGE);
	EXPECT(!weir_segment_stats(&stats));
	EXPECT(stats.imported == FIXTURE_LEN && !stats.bytes &&
	       !stats.external);
	EXPECT(!weir_segment_fd(&fd, &off, p + 7));
	EXPECT(pread(fd, &byte, 1, (off_t)off) == 1 && byte == p[7]);
	close(fd);
}

/* Nobody is asked about it: it is the other's growth. */
static void import_twice(int sock, void *arg)
{
	struct weir_mmap *m = NULL;
	struct parcel parcel;
	int counts[3] = { 0 };

	(void)arg;
	weir_segment_event_register("count", count_event, counts);
	weir_segment_validator_register("no", refuse, NULL, 0, 0);
	EXPECT(!parcel_recv(sock, &parcel));
	EXPECT(!parcel_import(&m, &parcel, NULL));
	EXPECT(counts[WEIR_SEGMENT_ADDED] == 1);
	look_at(fixture_addr(m));
	EXPECT(!weir_mmap_destroy(m));
	EXPECT(counts[WEIR_SEGMENT_REMOVING] == 1 && !n_lists());
	EXPECT(!parcel_import(&m, &parcel, NULL));
	EXPECT(!weir_segment_lock(list_of(fixture_addr(m))));
	fixture_addr(m)[5] = 'i';
	EXPECT(!say(sock));
	pause();
}

static void death_of_an_importer_leaves_the_exporter_whole(void **state)
{
	struct weir_segment seg = SEGMENT;
	struct weir_mmap *m;
	struct parcel parcel;
	struct proc proc;

	(void)state;
	proc_begin(&proc, import_twice, NULL);
	m = fixture_started(FIXTURE_LEN, RW);
	fill_pattern(fixture_addr(m), FIXTURE_LEN, 0, 1);
	parcel_of(&parcel, m, NULL);
	assert_int_equal(parcel_send(proc.sock, &parcel), 0);
	assert_int_equal(hear(proc.sock), 0);
	proc_kill(&proc);
	assert_int_equal(fixture_addr(m)[5], 'i');
	assert_int_equal(weir_segment_find_list(&seg, fixture_addr(m)), 0);
	assert_int_equal(seg.flags, WEIR_SEGMENT_DIRTY);
	assert_int_equal(own_bytes(), FIXTURE_LEN);
	parcel_drop(&parcel);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(n_lists(), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_process_that_dies_attached_leaves_the_owner_whole),
		CASE(descriptions_are_hostile_input),
		CASE(death_of_an_importer_leaves_the_exporter_whole),
	};

	return harness_run_plain(cases, N_OF(cases));
}
