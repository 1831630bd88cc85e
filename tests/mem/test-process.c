/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Process domains, with real children: their memory is at addresses that we
 * know, because it was mapped before the fork.
 */

#include "tests/support/gate-fixture.h"
#include "tests/support/job-fixture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <weir/buf.h>
#include <weir/domain-user.h>
#include <weir/inventory.h>

#include "base/fault.h"
#include "mem/domain-internal.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

#define PAGE 4096u
#define LEN ((size_t)4 << 20)

/* In the child: a page without rights, one that is not written to, and another
 * without rights in the second slice. */
#define BAD ((size_t)6 * PAGE)
#define READ_ONLY ((size_t)8 * PAGE)
#define FAR_BAD (((size_t)3 << 19) + 5 * PAGE)
#define SEED 7
#define WORKERS 4	/* That a reactor has, unless told. */

/* What a child is asked: whether so much of its memory is that pattern. */
struct question {
	uint64_t off, len;
	unsigned int seed;
};

struct child {
	pid_t pid;
	int to, from;
	char *mem;		/* Here as well, with other bytes. */
};

static void child_main(int in, int out, char *mem)
{
	struct question q;
	char yes;

	fill_pattern(mem, LEN, 0, SEED);
	if (mprotect(mem + BAD, PAGE, PROT_NONE) ||
	    mprotect(mem + FAR_BAD, PAGE, PROT_NONE) ||
	    mprotect(mem + READ_ONLY, PAGE, PROT_READ) ||
	    write(out, "r", 1) != 1)
		_exit(1);
	while (read(in, &q, sizeof(q)) == (ssize_t)sizeof(q)) {
		yes = is_pattern(mem + q.off, q.len, 0, q.seed) ? 'y' : 'n';
		if (write(out, &yes, 1) != 1)
			break;
	}
	_exit(0);
}

/* Valgrind 3.19 has no pidfds, and a sandbox may forbid the rest. */
static void need_processes(void)
{
	struct weir_domain *d = NULL;
	int err = weir_domain_process_create(&d, getpid(), NULL);

	if (err == -EPERM || err == -EOPNOTSUPP)
		skip_because("%s", weir_why());
	assert_int_equal(err, 0);
	assert_int_equal(weir_domain_destroy(d), 0);
}

static void child_begin(struct child *c)
{
	int to[2], from[2];
	char ready = 0;

	need_processes();
	c->mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(c->mem, MAP_FAILED);
	pipe_pair(to);
	pipe_pair(from);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (!c->pid) {
		close(to[1]);
		close(from[0]);
		child_main(to[0], from[1], c->mem);
	}
	close(to[0]);
	close(from[1]);
	c->to = to[1];
	c->from = from[0];
	assert_int_equal(read(c->from, &ready, 1), 1);
}

static bool ask(struct child *c, uint64_t off, uint64_t len, unsigned int seed)
{
	struct question q = { off, len, seed };
	char yes = 0;

	assert_int_equal(write(c->to, &q, sizeof(q)), sizeof(q));
	assert_int_equal(read(c->from, &yes, 1), 1);
	return yes == 'y';
}

static void child_kill(struct child *c)
{
	assert_int_equal(kill(c->pid, SIGKILL), 0);
	assert_int_equal(waitpid(c->pid, NULL, 0), c->pid);
	c->pid = 0;
}

static void child_end(struct child *c)
{
	if (c->pid)
		child_kill(c);
	close(c->to);
	close(c->from);
	munmap(c->mem, LEN);
}

static struct weir_domain *process_domain(pid_t pid)
{
	struct weir_domain *d = NULL;

	assert_int_equal(weir_domain_process_create(&d, pid, NULL), 0);
	return d;
}

struct fixture {
	struct child c;
	struct weir_domain *d;
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_mmap *m;
	struct weir_inventory *inv;
	char *mem;
	struct jrec j;
};

static void fixture_begin(struct fixture *g, void **state)
{
	child_begin(&g->c);
	g->d = process_domain(g->c.pid);
	g->r = start_reactor(state);
	g->dma = start_dma(g->r, (struct weir_dma_opts){ 0 });
	g->mem = calloc(1, LEN);
	assert_non_null(g->mem);
	g->m = start_mmap(g->mem, LEN, WEIR_MMAP_WRITE);
	assert_int_equal(weir_inventory_create(&g->inv, g->r, NULL), 0);
	assert_int_equal(weir_inventory_attach(g->inv, g->m), 0);
	jrec_init(&g->j);
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_domain_users(g->d), 0);
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	assert_int_equal(weir_domain_destroy(g->d), 0);
	free(g->mem);
	child_end(&g->c);
}

static struct weir_operand there(struct fixture *g, size_t off, size_t len)
{
	return weir_operand_at(g->d, (uintptr_t)g->c.mem + off, len);
}

static struct weir_operand here(struct fixture *g, size_t off, size_t len)
{
	return weir_operand_mem(g->mem + off, len);
}

static int64_t copy(struct fixture *g, struct weir_operand dst,
		    struct weir_operand src)
{
	jrec_init(&g->j);
	weir_job_copy(&g->j.job, dst, src);
	return jrec_run(g->dma, &g->j);
}

static void process_domain_has_its_attributes(void **state)
{
	struct weir_domain_process_opts opts = { .size = sizeof(opts) };
	struct weir_domain *d;
	struct child c;
	char id[32];
	int fd;

	(void)state;
	child_begin(&c);
	d = process_domain(c.pid);
	snprintf(id, sizeof(id), "process %d", c.pid);
	assert_int_equal(weir_domain_kind(d), WEIR_DOMAIN_PROCESS);
	assert_string_equal(weir_domain_id(d), id);
	assert_null(weir_domain_ctx(d));
	assert_int_equal(weir_domain_process_pid(d), c.pid);
	assert_int_equal(weir_domain_destroy(d), 0);

	opts.id = "worker";
	opts.ctx = &c;
	fd = (int)syscall(SYS_pidfd_open, c.pid, 0);
	assert_int_equal(weir_domain_process_create_pidfd(&d, fd, &opts), 0);
	close(fd);
	assert_string_equal(weir_domain_id(d), "worker");
	assert_ptr_equal(weir_domain_ctx(d), &c);
	assert_int_equal(weir_domain_process_pid(d), c.pid);
	assert_int_equal(weir_domain_set_pull(d, NULL), -EPERM);
	assert_ptr_equal(weir_domain_next(NULL, "worker"), d);
	assert_int_equal(weir_domain_destroy(d), -EBUSY);
	weir_domain_put(d);
	assert_int_equal(weir_domain_destroy(d), 0);
	assert_int_equal(weir_domain_process_pid(weir_domain_system()), -1);
	child_end(&c);
}

static void refuse(int err, pid_t pid,
		   const struct weir_domain_process_opts *opts)
{
	struct weir_domain *d = (void *)1;
	int got = weir_domain_process_create(&d, pid, opts);

	if (got != err)
		fail_msg("%d, not %d: %s", got, err, weir_why());
	assert_ptr_equal(d, (void *)1);
	assert_starts_with(weir_why(), "weir_domain_process_create: ");
}

static void *report_tid(void *arg)
{
	int *fd = arg;
	pid_t tid = (pid_t)syscall(SYS_gettid);
	char end;

	if (write(fd[1], &tid, sizeof(tid)) == (ssize_t)sizeof(tid))
		(void)!read(fd[0], &end, 1);
	return NULL;
}

static void pid_of_no_process_is_refused(void **state)
{
	struct weir_domain_process_opts opts = { .size = sizeof(opts) };
	struct { struct weir_domain_process_opts o; uint64_t more; } newer;
	struct child c;
	pthread_t thread;
	int sv[2];
	pid_t pid, tid = 0;
	char end = 0;

	(void)state;
	child_begin(&c);
	pid = c.pid;
	assert_int_equal(weir_domain_destroy(process_domain(pid)), 0);
	refuse(-EINVAL, 0, NULL);
	refuse(-EINVAL, -1, NULL);
	opts.flags = 0x40;
	refuse(-EINVAL, pid, &opts);
	opts.flags = 0;
	opts.reserved = 1;
	refuse(-E2BIG, pid, &opts);
	memset(&newer, 0, sizeof(newer));
	newer.o.size = sizeof(newer);
	newer.more = 1;
	refuse(-E2BIG, pid, &newer.o);

	/* A thread of ours. */
	socket_pair(sv);
	assert_int_equal(pthread_create(&thread, NULL, report_tid,
					(int[]){ sv[0], sv[0] }), 0);
	assert_int_equal(read(sv[1], &tid, sizeof(tid)), sizeof(tid));
	refuse(-EINVAL, tid, NULL);
	assert_int_equal(write(sv[1], &end, 1), 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	close_pair(sv);

	/* Ended, but not yet noted by its parent; and gone. */
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOWAIT), 0);
	refuse(-ESRCH, pid, NULL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	c.pid = 0;
	refuse(-ESRCH, pid, NULL);
	child_end(&c);
}

static void fd_that_is_no_pidfd_is_refused(void **state)
{
	struct weir_domain *d = (void *)1;
	struct child c;
	int fd;

	child_begin(&c);
	assert_int_equal(weir_domain_process_create_pidfd(&d, -1, NULL),
			 -EBADF);
	fd = test_file(state, "f", 10, 0);
	assert_int_equal(weir_domain_process_create_pidfd(&d, fd, NULL),
			 -EINVAL);
	close(fd);
	fd = (int)syscall(SYS_pidfd_open, c.pid, 0);
	child_kill(&c);
	assert_int_equal(weir_domain_process_create_pidfd(&d, fd, NULL),
			 -ESRCH);
	assert_ptr_equal(d, (void *)1);
	close(fd);
	child_end(&c);
}

/* Tells on @out what comes of reaching @pid as nobody. */
static void try_as_nobody(int out, pid_t pid)
{
	struct weir_domain *d;
	char said[512];
	int err;

	if (setgid(65534) || setuid(65534))
		_exit(1);
	err = weir_domain_process_create(&d, pid, NULL);
	snprintf(said, sizeof(said), "%d %s", err, weir_why());
	_exit(write(out, said, strlen(said)) < 0);
}

/* 3.7: other uid -> -EPERM */
static void process_of_another_user_is_refused(void **state)
{
	char said[512] = "", want[80];
	pid_t pid, me = getpid();
	int fd[2];

	(void)state;
	need_processes();
	if (geteuid())
		skip_because("needs root, to become somebody else");
	pipe_pair(fd);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		try_as_nobody(fd[1], me);
	close(fd[1]);
	assert_true(read(fd[0], said, sizeof(said) - 1) > 0);
	close(fd[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	snprintf(want, sizeof(want), "-1 weir_domain_process_create: process "
		 "%d belongs to user 0", (int)me);
	assert_starts_with(said, want);
	assert_non_null(strstr(said, "CAP_SYS_PTRACE"));
}

static void bytes_go_both_ways(void **state)
{
	static const size_t lens[] = { 1, 7, 4095, 4097, BAD - 100 };
	struct fixture g;
	size_t i, off;

	fixture_begin(&g, state);
	for (i = 0; i < N_OF(lens); i++) {
		off = 100 - i;
		assert_int_equal(copy(&g, here(&g, 0, lens[i]),
				      there(&g, off, lens[i])), lens[i]);
		assert_true(is_pattern(g.mem, lens[i], off, SEED));
		assert_int_equal(g.j.detail.bytes, lens[i]);
	}
	for (i = 0; i < N_OF(lens); i++) {
		fill_pattern(g.mem, lens[i], 0, 20);
		assert_int_equal(copy(&g, there(&g, 5, lens[i]),
				      here(&g, 0, lens[i])), lens[i]);
		assert_true(ask(&g.c, 5, lens[i], 20));
	}
	/* Over many slices, and not a byte beside it. */
	fill_pattern(g.mem, LEN, 0, 21);
	off = FAR_BAD + PAGE;
	assert_int_equal(copy(&g, there(&g, off, LEN - off - 1),
			      here(&g, 0, LEN - off - 1)), LEN - off - 1);
	assert_true(ask(&g.c, off, LEN - off - 1, 21));
	memset(g.mem, 0, LEN);
	assert_int_equal(copy(&g, here(&g, 1, LEN - off),
			      there(&g, off, LEN - off)), LEN - off);
	assert_true(is_pattern(g.mem + 1, LEN - off - 1, 0, 21));
	assert_int_equal(g.mem[0], 0);
	fixture_end(&g);
}

enum { PIECES = 200 };

/* Random pieces in the child, and the same lengths here in reverse order. */
static size_t cut(struct fixture *g, struct iovec *far_iov,
		  struct iovec *near_iov, unsigned int *seed)
{
	size_t len = 0, at = 0, n, i;

	for (i = 0; i < PIECES; i++, len += n) {
		n = (size_t)rand_r(seed) % 100;
		if (len + n > BAD)
			n = 0;
		far_iov[i] = (struct iovec){ g->c.mem + len, n };
		near_iov[PIECES - 1 - i].iov_len = n;
	}
	for (i = 0; i < PIECES; at += near_iov[i++].iov_len)
		near_iov[i].iov_base = g->mem + at;
	return len;
}

/* A list of full bufs over @iov. */
static struct weir_buf *list_of(struct fixture *g, const struct iovec *iov)
{
	struct weir_buf *list = NULL, *buf = NULL;
	size_t i;

	for (i = 0; i < PIECES; i++) {
		if (!iov[i].iov_len)
			continue;
		assert_int_equal(weir_inventory_get(&buf, g->inv, g->m,
						    iov[i].iov_base,
						    iov[i].iov_len, NULL,
						    iov[i].iov_len), 0);
		if (list)
			assert_int_equal(weir_buf_chain(list, buf), 0);
		else
			list = buf;
	}
	return list;
}

/* Bufs and pieces, in shapes that differ, on both sides. */
static void process_domain_moves_any_shape(void **state)
{
	struct iovec far_iov[PIECES], near_iov[PIECES];
	unsigned int seed = 4, round, rounds = scaled(200);
	struct weir_operand far_operand, near_operand;
	struct weir_buf *list;
	struct fixture g;
	size_t len;

	fixture_begin(&g, state);
	far_operand = weir_operand_iov(g.d, far_iov, PIECES);
	for (round = 0; round < rounds; round++) {
		len = cut(&g, far_iov, near_iov, &seed);
		list = round % 2 ? list_of(&g, near_iov) : NULL;
		near_operand = list ? weir_operand_buf(list) :
				      weir_operand_iov(NULL, near_iov, PIECES);
		fill_pattern(g.mem, len, 0, round);
		assert_int_equal(copy(&g, far_operand, near_operand), len);
		assert_true(ask(&g.c, 0, len, round));

		memset(g.mem, 0, len);
		jrec_init(&g.j);
		weir_job_copy(&g.j.job, near_operand, far_operand);
		g.j.job.flags = WEIR_JOB_OVERWRITE;
		assert_int_equal(jrec_run(g.dma, &g.j), len);
		assert_true(is_pattern(g.mem, len, 0, round));
		weir_buf_put(list);
	}
	fixture_end(&g);
}

/* What is done of a move that meets a page without the right. */
static const struct bad_row {
	size_t off, len, done;
	bool push;
} bad_rows[] = {
	{ BAD - PAGE, 2 * PAGE, PAGE, false },
	{ BAD - 1, 2, 1, false },
	{ BAD - 5 * PAGE - 77, 7 * PAGE, 5 * PAGE + 77, false },
	{ BAD, 1, 0, false },
	{ BAD - PAGE, 2 * PAGE, PAGE, true },
	{ READ_ONLY - 9, PAGE, 9, true },
	{ READ_ONLY - 9, PAGE, PAGE, false },
	{ BAD + PAGE, LEN - BAD - PAGE, FAR_BAD - BAD - PAGE, false },
	{ READ_ONLY + PAGE + 3, LEN / 2, FAR_BAD - READ_ONLY - PAGE - 3, true },
};

static void try_bad_row(struct fixture *g, const struct bad_row *row)
{
	struct weir_operand far_operand = there(g, row->off, row->len);
	struct weir_operand near_operand = here(g, 0, row->len);
	int64_t want = row->done == row->len ? (int64_t)row->len : -EFAULT;
	int64_t res;

	memset(g->mem, 0, LEN);
	if (row->push)
		fill_pattern(g->mem, LEN, row->off, SEED);
	res = row->push ? copy(g, far_operand, near_operand) :
			  copy(g, near_operand, far_operand);
	if (res != want || g->j.detail.bytes != row->done)
		fail_msg("row %d: %lld, %llu bytes", (int)(row - bad_rows),
			 (long long)res,
			 (unsigned long long)g->j.detail.bytes);
	if (row->push)
		return;
	assert_true(is_pattern(g->mem, row->done, row->off, SEED));
	assert_int_equal(g->mem[row->done], 0);
}

/* 3.7: a short count at a page without rights; fully bad -> -EFAULT */
static void a_bad_page_is_an_error_with_the_exact_bytes(void **state)
{
	struct iovec iov[3];
	struct weir_buf *buf;
	struct fixture g;
	size_t i;

	fixture_begin(&g, state);
	for (i = 0; i < N_OF(bad_rows); i++)
		try_bad_row(&g, &bad_rows[i]);

	/* In the middle of pieces; bufs keep their lengths. */
	iov[0] = (struct iovec){ g.c.mem, 10 };
	iov[1] = (struct iovec){ g.c.mem + BAD - 20, 30 };
	iov[2] = (struct iovec){ g.c.mem, 10 };
	assert_int_equal(weir_inventory_get(&buf, g.inv, g.m, g.mem, 100, NULL,
					    3), 0);
	assert_int_equal(copy(&g, weir_operand_buf(buf),
			      weir_operand_iov(g.d, iov, 3)),
			 -EFAULT);
	assert_int_equal(g.j.detail.bytes, 30);
	assert_int_equal(g.j.detail.segment, 1);
	assert_int_equal(weir_buf_data_len(buf), 3);
	weir_buf_put(buf);

	/* Where nobody has anything. */
	assert_int_equal(copy(&g, here(&g, 0, 9), weir_operand_at(g.d, 0, 9)),
			 -EFAULT);
	fixture_end(&g);
}

/* 3.7: dead pid -> -ESRCH */
static void ended_process_stays_gone(void **state)
{
	struct child other;
	struct fixture g;
	pid_t pid;

	fixture_begin(&g, state);
	child_begin(&other);
	pid = g.c.pid;
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOWAIT), 0);
	assert_int_equal(copy(&g, here(&g, 0, 9), there(&g, 0, 9)), -ESRCH);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	g.c.pid = 0;
	assert_int_equal(copy(&g, here(&g, 0, 9), there(&g, 0, 9)), -ESRCH);

	/* Its number is somebody else's now: who is left alone. */
	domain_to_process(g.d)->pid = other.pid;
	fill_pattern(g.mem, 100, 0, 50);
	assert_int_equal(copy(&g,
			      weir_operand_at(g.d, (uintptr_t)other.mem, 100),
			      here(&g, 0, 100)),
			 -ESRCH);
	assert_int_equal(g.j.detail.bytes, 0);
	assert_true(ask(&other, 0, 100, SEED));
	assert_int_equal(copy(&g, here(&g, 0, 100),
			      weir_operand_at(g.d, (uintptr_t)other.mem, 100)),
			 -ESRCH);
	assert_true(is_pattern(g.mem, 100, 0, 50));
	child_end(&other);
	fixture_end(&g);
}

/* Whenever it ends, the job has moved all, or says how far it came. */
static void process_may_end_in_the_middle_of_a_job(void **state)
{
	unsigned int round, rounds = want_long() ? 200 : scaled(12);
	size_t off = FAR_BAD + PAGE, len = LEN - off;
	struct fixture g;

	for (round = 0; round < rounds; round++) {
		fixture_begin(&g, state);
		jrec_init(&g.j);
		weir_job_copy(&g.j.job, here(&g, 0, len), there(&g, off, len));
		STARTS(weir_job_start(g.dma, &g.j.job));
		if (round % 3)
			usleep(round % 3 * 50);
		child_kill(&g.c);
		jrec_finish(g.r, &g.j);
		if (g.j.res < 0)
			assert_true(g.j.res == -ESRCH || g.j.res == -EFAULT);
		else
			assert_int_equal(g.j.res, len);
		assert_true(is_pattern(g.mem, g.j.detail.bytes, off, SEED));
		fixture_end(&g);
		end_reactor(state);
	}
}

static void read_only_memory_of_a_process_is_not_written(void **state)
{
	struct weir_domain_process_opts opts = {
		.size = sizeof(opts), .flags = WEIR_DOMAIN_PROCESS_READ_ONLY,
	};
	struct fixture g;

	fixture_begin(&g, state);
	assert_int_equal(weir_domain_destroy(g.d), 0);
	assert_int_equal(weir_domain_process_create(&g.d, g.c.pid, &opts), 0);
	assert_int_equal(copy(&g, here(&g, 0, 9), there(&g, 0, 9)), 9);
	jrec_init(&g.j);
	weir_job_copy(&g.j.job, there(&g, 0, 9), here(&g, 0, 9));
	assert_int_equal(weir_job_start(g.dma, &g.j.job), -EACCES);
	fixture_end(&g);
}

enum place { M, P, Q, F }; /* Memory, two processes, a file. */

/* The table "how it goes, by kind and domains" of docs/internals/dma.md. */
static const struct route_row {
	uint32_t kind;
	enum place src, dst;
	int want;
} route_rows[] = {
	{ WEIR_JOB_COPY, M, P, 0 },
	{ WEIR_JOB_COPY, P, M, 0 },
	{ WEIR_JOB_COPY, P, P, 0 },
	{ WEIR_JOB_COPY, P, Q, 0 },
	{ WEIR_JOB_COPY, P, F, 0 },
	{ WEIR_JOB_COPY, F, P, 0 },
	{ WEIR_JOB_PULL, P, M, 0 },
	{ WEIR_JOB_PULL, M, P, -EINVAL },
	{ WEIR_JOB_PULL, P, Q, -EINVAL },
	{ WEIR_JOB_PUSH, M, P, 0 },
	{ WEIR_JOB_PUSH, P, M, -EINVAL },
	{ WEIR_JOB_PUSH, P, Q, -EINVAL },
	{ WEIR_JOB_FILL, M, P, 0 },
	{ WEIR_JOB_CRC32C, P, M, 0 },
	{ WEIR_JOB_COPY_CRC32C, P, M, 0 },
	{ WEIR_JOB_COMPARE, P, M, 0 },
};

/* 64 bytes at @off, in each place. */
static struct weir_operand in(struct fixture *g, enum place place, size_t off,
			      struct weir_domain *self,
			      struct weir_domain *file)
{
	switch (place) {
	case M:
		return here(g, off, 64);
	case P:
		return there(g, off, 64);
	case Q:
		return weir_operand_at(self, (uintptr_t)g->mem + off, 64);
	default:
		return weir_operand_at(file, off, 64);
	}
}

static void job_on_a_process_is_routed_as_the_table_says(void **state)
{
	struct weir_domain *self, *file;
	const struct route_row *row;
	struct fixture g;
	int fd, err;

	fixture_begin(&g, state);
	self = process_domain(getpid());
	fd = test_file(state, "f", 1000, 0);
	file = file_domain(fd);
	for (row = route_rows; row < route_rows + N_OF(route_rows); row++) {
		jrec_init(&g.j);
		weir_job_copy(&g.j.job, in(&g, row->dst, 0, self, file),
			      in(&g, row->src, 64, self, file));
		g.j.job.kind = row->kind;
		err = weir_job_start(g.dma, &g.j.job);
		if (err != row->want)
			fail_msg("row %d: %d, not %d", (int)(row - route_rows),
				 err, row->want);
		if (!err)
			assert_in_range(jrec_finish(g.r, &g.j),
					row->kind != WEIR_JOB_COMPARE ? 64 :
					0, 64);
	}

	/* We are a process too. */
	fill_pattern(g.mem, 64, 0, 9);
	assert_int_equal(copy(&g, here(&g, 64, 64), in(&g, Q, 0, self, file)),
			 64);
	assert_true(is_pattern(g.mem + 64, 64, 0, 9));
	assert_int_equal(weir_domain_destroy(self), 0);
	assert_int_equal(weir_domain_destroy(file), 0);
	close(fd);
	fixture_end(&g);
}

/* Its addresses are those of memory. */
static void own_process_and_memory_overlap(void **state)
{
	struct weir_domain *self;
	struct weir_operand mem, far;
	struct fixture g;

	need_processes();
	fixture_begin(&g, state);
	self = process_domain(getpid());
	mem = weir_operand_at(NULL, (uintptr_t)g.mem, 64);
	far = weir_operand_at(self, (uintptr_t)g.mem + 63, 64);
	weir_job_copy(&g.j.job, mem, far);
	assert_int_equal(weir_job_start(g.dma, &g.j.job), -EINVAL);
	weir_job_copy(&g.j.job, far, mem);
	assert_int_equal(weir_job_start(g.dma, &g.j.job), -EINVAL);
	far.addr++;
	weir_job_copy(&g.j.job, far, mem);
	assert_int_equal(jrec_run(g.dma, &g.j), 64);
	assert_int_equal(weir_domain_destroy(self), 0);
	fixture_end(&g);
}

static void a_cancel_between_slices_loses_nothing(void **state)
{
	size_t off = FAR_BAD + PAGE, len = LEN - off;
	struct jrec many[16];
	struct fixture g;
	size_t i;

	fixture_begin(&g, state);
	for (i = 0; i < N_OF(many); i++) {
		jrec_init(&many[i]);
		weir_job_copy(&many[i].job, here(&g, i, len),
			      there(&g, off, len));
		STARTS(weir_job_start(g.dma, &many[i].job));
	}
	assert_int_equal(weir_domain_users(g.d), N_OF(many));
	assert_int_equal(weir_domain_destroy(g.d), -EBUSY);
	for (i = 0; i < N_OF(many); i++)
		assert_int_equal(weir_op_cancel(&many[i].job.op), 0);
	for (i = 0; i < N_OF(many); i++) {
		UNTIL(g.r, many[i].calls);
		if (many[i].res != -ECANCELED)
			assert_int_equal(many[i].res, len);
		else
			assert_true(many[i].detail.bytes < len);
	}
	fixture_end(&g);
}

/* All workers wait for us, so it has not begun. */
static void a_cancel_before_the_first_slice_moves_nothing(void **state)
{
	struct rec busy[WORKERS];
	struct gate gate;
	struct fixture g;
	size_t i;

	fixture_begin(&g, state);
	gate_make(&gate);
	for (i = 0; i < N_OF(busy); i++) {
		rec_init(&busy[i]);
		STARTS(weir_work(g.r, &busy[i].op, pass_gate, &gate));
	}
	some_turns(g.r, 1);
	for (i = 0; i < N_OF(busy); i++)
		gate_wait(&gate);

	weir_job_copy(&g.j.job, here(&g, 0, PAGE), there(&g, 0, PAGE));
	STARTS(weir_job_start(g.dma, &g.j.job));
	some_turns(g.r, 1);
	assert_int_equal(weir_op_cancel(&g.j.job.op), 0);
	UNTIL(g.r, g.j.calls);
	assert_int_equal(g.j.res, -ECANCELED);
	assert_int_equal(g.j.detail.bytes, 0);

	for (i = 0; i < N_OF(busy); i++)
		gate_open(&gate);
	for (i = 0; i < N_OF(busy); i++)
		UNTIL(g.r, busy[i].calls);
	gate_free(&gate);
	fixture_end(&g);
}

static void failed_process_call_leaves_nothing_behind(void **state)
{
	struct weir_domain *d = NULL;
	struct fixture g;
	int err, n, fired, by_fd, fd;

	fixture_begin(&g, state);
	fd = (int)syscall(SYS_pidfd_open, g.c.pid, 0);
	for (by_fd = 0; by_fd < 2; by_fd++) {
		n = 0;
		do {
			d = NULL;
			fault_arm(n++);
			err = by_fd ?
				weir_domain_process_create_pidfd(&d, fd, NULL) :
				weir_domain_process_create(&d, g.c.pid, NULL);
			fired = fault_disarm();
			if (fired)
				assert_true(err < 0 && !d);
		} while (fired);
		assert_int_equal(err, 0);
		assert_true(n > 4);
		assert_int_equal(weir_domain_destroy(d), 0);
	}
	close(fd);

	fixture_end(&g);
}

/* A job ends whatever fails, and says how.  Whether the process lives is asked
 * before and after: then its bytes are there, and not counted.  The reactor's
 * own points come in between as they like. */
static void a_job_ends_whatever_fails(void **state)
{
	int n, fired, before = 0, after = 0, tries = 10000;
	struct fixture g;

	fixture_begin(&g, state);
	for (n = 0; tries && !(n == 0 && before && after); n = (n + 1) % 8) {
		tries--;
		g.mem[0] = 0;
		jrec_init(&g.j);
		weir_job_copy(&g.j.job, here(&g, 0, 99), there(&g, 0, 99));
		fault_arm(n);
		STARTS(weir_job_start(g.dma, &g.j.job));
		while (!g.j.calls)
			weir_reactor_turn(g.r, WEIR_MSEC);
		fired = fault_disarm();
		if (g.j.res < 0)
			assert_true(fired && g.j.detail.bytes == 0);
		else
			assert_int_equal(g.j.res, 99);
		if (g.j.res == -ESRCH) {
			before += !g.mem[0];
			after += g.mem[0] != 0;
		}
	}
	assert_true(before && after);
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(process_domain_has_its_attributes),
		CASE(pid_of_no_process_is_refused),
		CASE(fd_that_is_no_pidfd_is_refused),
		CASE(process_of_another_user_is_refused),
		CASE(bytes_go_both_ways),
		CASE(process_domain_moves_any_shape),
		CASE(a_bad_page_is_an_error_with_the_exact_bytes),
		CASE(ended_process_stays_gone),
		CASE(process_may_end_in_the_middle_of_a_job),
		CASE(read_only_memory_of_a_process_is_not_written),
		CASE(job_on_a_process_is_routed_as_the_table_says),
		CASE(own_process_and_memory_overlap),
		CASE(a_cancel_between_slices_loses_nothing),
		CASE(a_cancel_before_the_first_slice_moves_nothing),
		CASE(failed_process_call_leaves_nothing_behind),
		CASE(a_job_ends_whatever_fails),
	};

	return harness_run(cases, N_OF(cases));
}
