/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Segments: external memory, and the tables of mem/README.md, cell by cell.
 * The numbers are those of the rules and cases that are re-created, of DPDK's
 * rte_extmem and test_external_mem.c.
 */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tests/segment-kit.h"
#include "tests/table-kit.h"

#define N 8
#define LEN (2 * PAGE)

static const uint64_t iovas[] = { 0x40000000, 0x10000000 };

/* The columns of the table of external memory. */
enum column { UNKNOWN, EXTERNAL, ATTACHED, WITH_MMAP, KEPT, REMOVING };

static const char *const columns[] = {
	"unknown", "registered", "attached", "registered, an mmap lies in it",
	"registered, do not free", "its removal is being told",
};

struct rig {
	char *p;
	struct weir_mmap *m;	/* WITH_MMAP: lies in it. */
	int fd;			/* Of the description. */
	uint64_t id;
};

static int do_register(void *rig)
{
	struct rig *g = rig;
	return weir_segment_register(g->p, LEN, iovas, 2, PAGE);
}

static int do_unregister(void *rig)
{
	struct rig *g = rig;
	return weir_segment_unregister(g->p, LEN);
}

static int do_attach(void *rig)
{
	struct rig *g = rig;
	return weir_segment_attach(g->p, LEN, g->fd);
}

static int do_detach(void *rig)
{
	struct rig *g = rig;
	return weir_segment_detach(g->p, LEN);
}

static int do_share(void *rig)
{
	struct rig *g = rig;
	int fd, err = weir_segment_share(&fd, g->p, LEN);

	if (!err)
		close(fd);
	return err;
}

static int do_start_in_it(void *rig)
{
	struct rig *g = rig;
	struct weir_mmap *m = stopped_mmap(g->p + 50, 100);
	int err = weir_mmap_start(m);

	assert_int_equal(weir_mmap_destroy(m), 0);
	return err;
}

static int do_find(void *rig)
{
	struct rig *g = rig;
	struct weir_segment seg = SEGMENT;

	return weir_segment_find(&seg, g->p);
}

static int do_iova(void *rig)
{
	struct rig *g = rig;
	uint64_t iova;

	return weir_segment_iova(&iova, g->p);
}

static int do_fd(void *rig)
{
	struct rig *g = rig;
	uint64_t off;
	int fd;

	return weir_segment_fd(&fd, &off, g->p);
}

static int do_set_flags(void *rig)
{
	struct rig *g = rig;
	return weir_segment_set_flags(g->id, WEIR_SEGMENT_DIRTY, 0);
}

static int do_clean(void *rig)
{
	struct rig *g = rig;
	int res = weir_segment_clean(g->id);

	return res > 0 ? 0 : res;
}

static int do_lock(void *rig)
{
	struct rig *g = rig;
	return weir_segment_lock(g->id);
}

static int do_unlock(void *rig)
{
	struct rig *g = rig;
	return weir_segment_unlock(g->id);
}

static const struct table_call calls[] = {
	{ "register", do_register },
	{ "attach", do_attach },
	{ "unregister", do_unregister },
	{ "detach", do_detach },
	{ "share", do_share },
	{ "mmap_start in it", do_start_in_it },
	{ "find", do_find },
	{ "iova", do_iova },
	{ "fd", do_fd },
	{ "set_flags", do_set_flags },
	{ "clean", do_clean },
	{ "lock", do_lock },
	{ "unlock", do_unlock },
};

/* The description of a range of this length, as another process would have. */
static int description(char *p)
{
	int fd;

	assert_int_equal(weir_segment_register(p, LEN, iovas, 2, PAGE), 0);
	assert_int_equal(weir_segment_share(&fd, p, LEN), 0);
	assert_int_equal(weir_segment_unregister(p, LEN), 0);
	return fd;
}

static void rig_begin(struct rig *g, char *p, enum column col)
{
	memset(g, 0, sizeof(*g));
	g->p = p;
	g->fd = description(p);
	if (col == ATTACHED)
		assert_int_equal(do_attach(g), 0);
	else if (col != UNKNOWN)
		assert_int_equal(do_register(g), 0);
	g->id = list_of(p);
	if (col == WITH_MMAP)
		g->m = started_mmap(p + PAGE, 10);
	if (col == KEPT)
		assert_int_equal(weir_segment_set_flags(g->id,
					WEIR_SEGMENT_DO_NOT_FREE, 0), 0);
}

static void rig_end(struct rig *g)
{
	weir_mmap_destroy(g->m);
	weir_segment_set_flags(g->id, 0, WEIR_SEGMENT_DO_NOT_FREE);
	if (do_unregister(g) == -EPERM)
		assert_int_equal(do_detach(g), 0);
	assert_int_equal(n_lists(), 0);
	close(g->fd);
}

struct in_removal {
	struct rig *g;
	const struct table_cell *cell;
	int calls;
	int res;
};

static void on_removal(int event, const struct weir_segment *list, void *arg)
{
	struct in_removal *in = arg;

	(void)list;
	if (event != WEIR_SEGMENT_REMOVING || in->calls++)
		return;
	in->res = in->cell->call->fn(in->g);
}

static int call_in_removal(struct rig *g, const struct table_cell *cell)
{
	struct in_removal in = { g, cell, 0, 1 };

	assert_int_equal(weir_segment_event_register("cell", on_removal, &in),
			 0);
	assert_int_equal(do_unregister(g), 0);
	assert_int_equal(weir_segment_event_unregister("cell", &in), 0);
	assert_int_equal(in.calls, 1);
	return in.res;
}

/* 54, 56 */
static void every_cell_of_the_table_is_so(void **state)
{
	char *p = pages(N);
	struct table t;
	struct table_cell c;
	struct rig g;

	(void)state;
	table_open(&t, "mem/README.md", "external memory: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		rig_begin(&g, p, (enum column)c.column);
		table_result(&c, c.column == REMOVING ?
					 call_in_removal(&g, &c) :
					 c.call->fn(&g));
		rig_end(&g);
	}
	table_close(&t);
	pages_end(p, N);
}

/* C1.9, 51 */
static void bad_ranges_and_tables_are_refused(void **state)
{
	static const uint64_t wraps[] = { 0, UINT64_MAX - PAGE + 1 };
	char *p = pages(N);
	const struct {
		void *addr;
		size_t len;
		const uint64_t *iovas;
		size_t n;
		size_t page;
	} bad[] = {
		{ NULL, LEN, iovas, 2, PAGE },
		{ p, 0, iovas, 0, PAGE },
		{ p, LEN, iovas, 2, 0 },
		{ p, LEN, iovas, 2, PAGE - 1 },
		{ p, LEN, iovas, 2, 3 * PAGE },
		{ p + 1, LEN, iovas, 2, PAGE },
		{ p, LEN + 1, iovas, 2, PAGE },
		{ p, LEN, iovas, 1, PAGE },
		{ p, LEN, iovas, 3, PAGE },
		{ p, LEN, iovas, 0, PAGE },
		{ p, LEN, wraps, 2, PAGE },
		{ p, SIZE_MAX - PAGE + 1, NULL, 0, PAGE },
	};
	size_t i;

	(void)state;
	for (i = 0; i < N_OF(bad); i++)
		if (weir_segment_register(bad[i].addr, bad[i].len, bad[i].iovas,
					  bad[i].n, bad[i].page) != -EINVAL)
			fail_msg("row %zu is not refused", i);
	assert_int_equal(weir_segment_unregister(NULL, LEN), -EINVAL);
	assert_int_equal(weir_segment_unregister(p, 0), -EINVAL);
	assert_int_equal(weir_segment_detach(NULL, LEN), -EINVAL);
	assert_int_equal(weir_segment_share(&(int){ 0 }, NULL, LEN), -EINVAL);
	assert_int_equal(n_lists(), 0);
	pages_end(p, N);
}

/* C1.9, 56 */
static void only_the_exact_range_is_unregistered(void **state)
{
	char *p = pages(N);
	int fd;

	(void)state;
	assert_int_equal(weir_segment_register(p + PAGE, LEN, NULL, 0, PAGE),
			 0);
	assert_int_equal(weir_segment_unregister(p + PAGE, PAGE), -ENOENT);
	assert_int_equal(weir_segment_unregister(p + 2 * PAGE, PAGE), -ENOENT);
	assert_int_equal(weir_segment_unregister(p, 3 * PAGE), -ENOENT);
	assert_int_equal(weir_segment_share(&fd, p + PAGE, PAGE), -ENOENT);
	assert_int_equal(weir_segment_unregister(p + PAGE, LEN), 0);
	assert_int_equal(weir_segment_unregister(p + PAGE, LEN), -ENOENT);
	pages_end(p, N);
}

/* C1.9, 56 */
static void what_is_known_cannot_be_registered(void **state)
{
	static const struct { int from, n; } over[] = {
		{ 2, 2 }, { 1, 2 }, { 3, 2 }, { 1, 4 }, { 2, 1 },
	};
	char *p = pages(N);
	struct weir_mmap *m;
	size_t i, round;

	(void)state;
	for (round = 0; round < 2; round++) {
		m = round ? started_mmap(p + LEN, LEN) : NULL;
		if (!round)
			assert_int_equal(weir_segment_register(p + LEN, LEN,
						NULL, 0, PAGE), 0);
		for (i = 0; i < N_OF(over); i++)
			assert_int_equal(weir_segment_register(
				p + (size_t)over[i].from * PAGE,
				(size_t)over[i].n * PAGE, NULL, 0, PAGE),
				-EEXIST);
		assert_int_equal(weir_segment_register(p, LEN, NULL, 0, PAGE),
				 0);
		assert_int_equal(weir_segment_register(p + 2 * LEN, LEN, NULL,
						       0, PAGE), 0);
		assert_int_equal(weir_segment_unregister(p, LEN), 0);
		assert_int_equal(weir_segment_unregister(p + 2 * LEN, LEN), 0);
		if (!round)
			assert_int_equal(weir_segment_unregister(p + LEN, LEN),
					 0);
		weir_mmap_destroy(m);
	}
	pages_end(p, N);
}

/* C1.9 */
static void there_is_a_limit_to_external_memory(void **state)
{
	size_t i, n = WEIR_SEGMENT_EXTERNAL_MAX;
	char *p = pages(n + 1);

	(void)state;
	for (i = 0; i < n; i++)
		assert_int_equal(weir_segment_register(p + i * PAGE, PAGE, NULL,
						       0, PAGE), 0);
	assert_int_equal(weir_segment_register(p + n * PAGE, PAGE, NULL, 0,
					       PAGE), -ENOSPC);
	for (i = 0; i < n; i++)
		assert_int_equal(weir_segment_unregister(p + i * PAGE, PAGE),
				 0);
	assert_int_equal(n_lists(), 0);
	pages_end(p, n + 1);
}

/* C1.8, C1.9, 55, 56: with a table */
static void a_table_gives_the_iovas(void **state)
{
	struct weir_segment seg = SEGMENT;
	char *p = pages(N);
	uint64_t iova;
	void *back;

	(void)state;
	assert_int_equal(weir_segment_register(p, LEN, iovas, 2, PAGE), 0);
	assert_int_equal(weir_segment_iova(&iova, p + PAGE + 17), 0);
	assert_int_equal(iova, iovas[1] + 17);
	assert_int_equal(weir_segment_from_iova(&back, iova), 0);
	assert_ptr_equal(back, p + PAGE + 17);
	assert_int_equal(weir_segment_from_iova(&back, iovas[1] + PAGE),
			 -ENOENT);
	assert_int_equal(weir_segment_from_iova(&back, (uintptr_t)p), -ENOENT);
	assert_int_equal(weir_segment_find(&seg, p + PAGE), 0);
	assert_int_equal(seg.iova, iovas[1]);
	assert_int_equal(weir_segment_find_list(&seg, p + PAGE), 0);
	assert_int_equal(seg.iova, iovas[0]);
	assert_int_equal(seg.flags, WEIR_SEGMENT_EXTERNAL | WEIR_SEGMENT_DIRTY);
	assert_int_equal(weir_segment_iova(NULL, p), -EINVAL);
	assert_int_equal(weir_segment_iova(&iova, NULL), -EINVAL);
	assert_int_equal(weir_segment_from_iova(NULL, 0), -EINVAL);
	assert_int_equal(weir_segment_unregister(p, LEN), 0);
	pages_end(p, N);
}

/* C1.9, 55, 56: without one */
static void without_a_table_the_iovas_are_unknown(void **state)
{
	struct weir_segment seg = SEGMENT;
	char *p = pages(N);
	uint64_t iova = 5;
	void *back;

	(void)state;
	assert_int_equal(weir_segment_register(p, LEN, NULL, 0, PAGE), 0);
	assert_int_equal(weir_segment_iova(&iova, p), -EOPNOTSUPP);
	assert_int_equal(iova, 5);
	assert_int_equal(weir_segment_from_iova(&back, (uintptr_t)p), -ENOENT);
	assert_int_equal(weir_segment_find(&seg, p + PAGE), 0);
	assert_true(seg.iova == WEIR_SEGMENT_NO_IOVA);
	assert_int_equal(weir_segment_unregister(p, LEN), 0);
	pages_end(p, N);
}

static void an_mmap_in_external_memory_is_external(void **state)
{
	struct weir_segment seg = SEGMENT, list = SEGMENT;
	struct weir_mmap *m, *over;
	char *p = pages(N);
	uint64_t iova;

	(void)state;
	assert_int_equal(weir_segment_register(p, LEN, iovas, 2, PAGE), 0);
	m = started_mmap(p + PAGE + 5, 20);
	over = started_mmap(p + PAGE + 100, 2 * PAGE);	/* Not wholly in it. */
	assert_int_equal(weir_segment_iova(&iova, p + PAGE + 6), 0);
	assert_int_equal(iova, iovas[1] + 6);
	assert_int_equal(weir_segment_find_list(&list, p + PAGE + 6), 0);
	assert_ptr_equal(list.addr, p);
	assert_int_equal(weir_segment_find_list(&seg, p + LEN), 0);
	assert_int_equal(seg.flags, WEIR_SEGMENT_DIRTY);
	assert_int_equal(weir_segment_find_list(&seg, p + LEN - 1), 0);
	assert_ptr_equal(seg.addr, p);
	weir_mmap_destroy(over);
	weir_mmap_destroy(m);
	assert_int_equal(weir_segment_unregister(p, LEN), 0);
	pages_end(p, N);
}

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
	WANT(!weir_segment_find(&seg, q + PAGE) && seg.iova == iovas[1]);
	WANT(seg.flags == (WEIR_SEGMENT_EXTERNAL | WEIR_SEGMENT_IMPORTED |
			   WEIR_SEGMENT_DIRTY));
	WANT(!weir_segment_iova(&iova, q + 9) && iova == iovas[0] + 9);
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
	assert_int_equal(weir_segment_register(p, LEN, iovas, 2, PAGE), 0);
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
	assert_int_equal(iova, iovas[1]);
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
	memset(good + 32, 0xff, 8);
	assert_int_equal(try_attach(p, good, (size_t)len, SEALS), -EINVAL);
	assert_int_equal(try_attach(p, good, (size_t)len, F_SEAL_WRITE),
			 -EINVAL);
	assert_int_equal(weir_segment_attach(p, LEN, -1), -EBADF);
	assert_int_equal(weir_segment_attach(NULL, LEN, fd), -EINVAL);
	assert_int_equal(weir_segment_attach(p + 1, LEN, fd), -EINVAL);
	pipe_pair(pipe);
	assert_int_equal(weir_segment_attach(p, LEN, pipe[0]), -EINVAL);
	close_pair(pipe);
	close(fd);
	pages_end(p, N);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(every_cell_of_the_table_is_so),
		CASE(bad_ranges_and_tables_are_refused),
		CASE(only_the_exact_range_is_unregistered),
		CASE(what_is_known_cannot_be_registered),
		CASE(there_is_a_limit_to_external_memory),
		CASE(a_table_gives_the_iovas),
		CASE(without_a_table_the_iovas_are_unknown),
		CASE(an_mmap_in_external_memory_is_external),
		CASE(a_process_that_dies_attached_leaves_the_owner_whole),
		CASE(descriptions_are_hostile_input),
	};

	return harness_run_plain(cases, N_OF(cases));
}
