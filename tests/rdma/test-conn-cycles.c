/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A link that is cut, a peer that is killed, a QP that is forced into error,
 * over and over, under a stream of jobs: each job ends once, the first that
 * failed with the cause and the others flushed, bytes are where the jobs say
 * and nowhere else, and the connection comes back by its policy; B3.5, B4.2.
 *
 * Over the mock, and, in a guest, between two processes on the two ends of
 * a link.  200 cycles of each with WEIR_TEST_LONG=1; build-aux/rdma-report.sh
 * has docs/rdma.txt of the lines "# cycles".
 */

#include "tests/rdma/cycles-near.h"

#include <malloc.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

/* What strikes, and what is done about it. */
struct blow {
	const char *name;
	uint64_t first_ns;	/* Of the policy. */
	void (*strike)(struct near *n, unsigned int i);
	void (*mend)(struct near *n, unsigned int i);
	bool (*is_due)(int why_ended, const struct failure *first);
};

/* The link.  Who cuts it, so to speak, is another program. */

static pid_t cutting;

static const char *end_of(unsigned int i)
{
	return i % 2 ? "rdma1" : "rdma0";
}

/* Loss of all that leaves one end: what is asked, or what is answered. */
static void start_tc(const char *verb, unsigned int i)
{
	char *add[] = { "tc", "qdisc", (char *)(uintptr_t)verb, "dev",
			(char *)(uintptr_t)end_of(i), "root", "netem", "loss",
			"100%", NULL };

	if (!strcmp(verb, "del"))
		add[6] = NULL;
	assert_int_equal(posix_spawnp(&cutting, "tc", NULL, NULL, add,
				      environ), 0);
}

static void finish_tc(void)
{
	int status;

	assert_int_equal(waitpid(cutting, &status, 0), cutting);
	assert_int_equal(status, 0);
}

static void cut_link(struct near *n, unsigned int i)
{
	(void)n;
	if (mocked)
		mock_set_link(MOCK_LOST);
	else
		start_tc("add", i);
}

/* In the long form sometimes only when an attempt to reconnect has begun. */
static void mend_link(struct near *n, unsigned int i)
{
	if (mocked) {
		mock_set_link(MOCK_UP);
		return;
	}
	finish_tc();
	if (i % 16 == 15)
		UNTIL(n->r, n->c->step != CONN_BACKOFF);
	start_tc("del", i);
	finish_tc();
}

/*
 * To soft-RoCE an answer that it takes for that to another request, of which
 * some were lost on the way, is IBV_WC_FATAL_ERR; and sometimes it flushes all
 * and tells no cause.
 */
static bool is_odd(int why_ended, const struct failure *first)
{
	if (mocked || why_ended != -EIO)
		return false;
	return first->code == (first->res == -EIO ? IBV_WC_FATAL_ERR :
						    IBV_WC_WR_FLUSH_ERR);
}

static bool is_due_to_cut(int why_ended, const struct failure *first)
{
	return is_odd(why_ended, first) ||
	       (why_ended == -ECONNRESET && first->res == -ETIMEDOUT &&
		first->code == IBV_WC_RETRY_EXC_ERR);
}

/* The peer.  Its kernel says that it has gone, or it does not answer because
 * its QP went first: whichever is noticed sooner. */

static void kill_peer(struct near *n, unsigned int i)
{
	(void)i;
	far_kill();
	if (!mocked)
		far_start(n->r, n->backend, n->port);
}

static void revive_peer(struct near *n, unsigned int i)
{
	(void)i;
	if (mocked)
		far_start(n->r, n->backend, n->port);
	assert_int_equal(far_wait(), n->port);
}

static bool is_due_to_kill(int why_ended, const struct failure *first)
{
	if (!why_ended && first->res == -ECANCELED)
		return first->code == IBV_WC_WR_FLUSH_ERR;
	return is_due_to_cut(why_ended ? why_ended : -ECONNRESET, first);
}

/* The QP: our own, the peer's, or both by a key that is wrong. */

static void fail_qp(struct near *n, unsigned int i)
{
	if (i % 3 == 0)
		conn_qp_error(n->c);
	else if (i % 3 == 1)
		far_break();
	else
		near_start_wrong(n);
}

static void leave(struct near *n, unsigned int i)
{
	(void)n, (void)i;
}

static bool is_due_to_error(int why_ended, const struct failure *first)
{
	if (why_ended == -EIO)
		return first->code == (first->res == -EACCES ?
			IBV_WC_REM_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR);
	return is_due_to_cut(why_ended, first);
}

/* What is left. */

/* All objects of RDMA that the kernel knows. */
static void kernel_objects(char *text, size_t size)
{
	FILE *f = mocked ? NULL : popen("rdma resource show", "r");

	*text = '\0';
	if (!f)
		return;
	text[fread(text, 1, size - 1, f)] = '\0';
	assert_int_equal(pclose(f), 0);
}

static void assert_kernel_has(const char *before)
{
	char now[1024];
	int tries = 100;

	do
		kernel_objects(now, sizeof(now));
	while (strcmp(before, now) && tries-- && !poll(NULL, 0, 20));
	assert_string_equal(now, before);
}

/* 0 where the C library does not say. */
static long heap_in_use(void)
{
#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 33)
	return (long)mallinfo2().uordblks;
#endif
#endif
	return 0;
}

/* A cycle. */

/* At most one has a cause, and it is the first. */
static void check_outcome(const struct near *n, const char *name,
			  bool (*is_due)(int why, const struct failure *first))
{
	const struct failure *f = n->failures;
	unsigned int i;

	if (!is_due(n->why, f))
		fail_msg("%s: ended with %d, the first of %u with %lld (%d)",
			 name, n->why, n->n_failures, (long long)f->res,
			 f->code);
	for (i = 1; i < n->n_failures; i++)
		if (f[i].res != -ECANCELED)
			fail_msg("%s: %lld (%d) is number %u of %u, after %lld",
				 name, (long long)f[i].res, f[i].code, i,
				 n->n_failures, (long long)f->res);
}

/*
 * False: it ended before it was struck.  That is so where the guest had no
 * processor for longer than the QP waits, and is no cycle.
 */
static bool cycle(struct near *n, const struct blow *blow, unsigned int i)
{
	unsigned int enough = 5 + i * 7 % 23, ends = n->n_ends;
	unsigned int agains = n->n_agains;
	bool struck;

	alarm(600);		/* The usual one is for one cycle. */
	near_start(n);
	UNTIL(n->r, n->done_now >= enough || n->n_ends > ends);
	struck = n->n_ends == ends;
	if (struck)
		blow->strike(n, i);
	UNTIL(n->r, n->n_ends > ends);
	assert_int_equal(n->n_ends, ends + 1);
	assert_int_equal(n->under_way, 0);
	check_outcome(n, blow->name, struck ? blow->is_due : is_due_to_cut);
	if (struck)
		blow->mend(n, i);
	UNTIL(n->r, n->n_agains > agains);
	near_reconnected(n);
	near_check(n);
	return struck;
}

static unsigned int n_cycles(void)
{
	if (under_valgrind() || UNDER_ASAN)
		return want_long() ? 20 : 3;
	return want_long() ? 200 : 6;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void report(const struct near *n, const struct blow *blow,
		   unsigned int cycles, unsigned int early, double took,
		   long heap)
{
	struct weir_conn_info info = { .size = sizeof(info) };

	assert_int_equal(weir_conn_info(n->c, &info), 0);
	assert_int_equal(info.connects, cycles + early + 1);
	assert_true(n->n_started == n->n_done + n->n_causes + n->n_flushed);
	printf("# cycles: %s %s: %u cycles, %llu jobs: %llu done, %llu failed, "
	       "%llu flushed; %llu attempts to reconnect; %u ends for want of "
	       "a processor; heap %+ld bytes; %.1f s\n",
	       n->backend, blow->name, cycles,
	       (unsigned long long)n->n_started,
	       (unsigned long long)n->n_done, (unsigned long long)n->n_causes,
	       (unsigned long long)n->n_flushed,
	       (unsigned long long)info.attempts - 1, early, heap, took);
}

static void over_and_over(void **state, const struct blow *blow)
{
	unsigned int i = 0, early = 0, cycles = n_cycles();
	char objects[1024];
	double began;
	struct near n;
	long heap = 0;

	kernel_objects(objects, sizeof(objects));
	near_begin(&n, state, mocked ? WEIR_MSEC : blow->first_ns);
	began = seconds();
	while (i < cycles) {
		if (!cycle(&n, blow, i)) {
			assert_true(++early <= cycles);
			continue;
		}
		if (++i == cycles / 2)
			heap = heap_in_use();
	}
	report(&n, blow, cycles, early, seconds() - began,
	       heap_in_use() - heap);
	near_end(&n);
	assert_kernel_has(objects);
}

static void a_link_is_cut_and_mended(void **state)
{
	static const struct blow cut = { "link cut", 200 * WEIR_MSEC, cut_link,
					 mend_link, is_due_to_cut };

	over_and_over(state, &cut);
}

static void a_peer_is_killed_and_comes_back(void **state)
{
	static const struct blow killed = { "peer killed", 10 * WEIR_MSEC,
					    kill_peer, revive_peer,
					    is_due_to_kill };

	over_and_over(state, &killed);
}

static void a_qp_fails(void **state)
{
	static const struct blow failed = { "QP in error", 10 * WEIR_MSEC,
					    fail_qp, leave, is_due_to_error };

	over_and_over(state, &failed);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_link_is_cut_and_mended),
		CASE(a_peer_is_killed_and_comes_back),
		CASE(a_qp_fails),
	};

	far_prepare();
	return run_over_rdma(cases, N_OF(cases));
}
