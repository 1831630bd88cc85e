/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Late writes by RDMA: a peer has many writes in flight when its access ends.
 * The memory is painted when the end has completed, and keeps the paint until
 * the last write of the peer has failed.
 *
 * Over the mock, where a random number of the writes are done before the end;
 * and over soft-RoCE in the guest, where they go on beside it.  With
 * WEIR_TEST_LONG=1 10,000 endings.
 */

#include "tests/support/mw-fixture.h"

#define JOBS 8
#define PAINT 'p'

enum ending {
	WINDOW_REVOKED,
	WINDOW_TIMED_OUT,
	WINDOW_DESTROYED,
	EXPORTS_REVOKED,
	MMAP_STOPPED,
	DISCONNECTED,
	N_ENDINGS
};

static const char *const names[] = {
	"a window is revoked", "a window ends by its time",
	"a window is destroyed", "the exports of the mmap are revoked",
	"the mmap is stopped", "the connection ends",
};

struct late {
	struct sharing s;
	struct jrec jobs[JOBS];
	int started;
	uint64_t random;
};

static uint32_t rnd(struct late *l, uint32_t n)
{
	l->random = l->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(l->random >> 33) % n;
}

static void start_writes(struct late *l)
{
	struct jrec *j;

	for (l->started = 0; l->started < JOBS; l->started++) {
		j = &l->jobs[l->started];
		move_init(&l->s, j, by_buf(&l->s, 0, PART_LEN, false), PART_LEN,
			  false);
		STARTS(weir_job_start(l->s.dma, &j->job));
	}
}

static bool writes_are_over(const struct late *l)
{
	int i;

	for (i = 0; i < l->started; i++)
		if (!l->jobs[i].calls)
			return false;
	return true;
}

static void finish_writes(struct late *l)
{
	int i;

	UNTIL(l->s.r, writes_are_over(l));
	for (i = 0; i < l->started; i++) {
		assert_int_equal(l->jobs[i].calls, 1);
		move_fini(&l->jobs[i]);
	}
}

static uint32_t state_of_window(const struct sharing *s)
{
	struct weir_mw_info info = { .size = sizeof(info) };

	assert_int_equal(weir_mw_info(s->w, &info), 0);
	return info.state;
}

/* Over the mock one work request is done in each turn, of any side. */
static void turn(struct late *l)
{
	if (mocked)
		mock_step(1);
	assert_true(weir_reactor_turn(l->s.r, mocked ? 0 : WEIR_SEC) >= 0);
}

/* The result of what was started with l->s.revoked. */
static int64_t end_of(struct late *l)
{
	while (!l->s.revoked.calls)
		turn(l);
	return l->s.revoked.res;
}

static void end_access(struct late *l, enum ending ending)
{
	struct sharing *s = &l->s;
	struct weir_op *op = &s->revoked.op;

	rec_init(&s->revoked);
	switch (ending) {
	case WINDOW_REVOKED:
		STARTS(weir_mw_revoke(s->w, op));
		assert_int_equal(end_of(l), 0);
		break;
	case WINDOW_TIMED_OUT:
		assert_int_equal(weir_mw_renew(s->w, 1 + rnd(l, 50000)), 0);
		while (state_of_window(s) != WEIR_MW_OVER)
			turn(l);
		break;
	case WINDOW_DESTROYED:
		assert_int_equal(weir_mw_destroy(s->w), 0);
		s->w = NULL;
		break;
	case EXPORTS_REVOKED:
		STARTS(weir_mmap_revoke(s->m, s->r, op));
		assert_int_equal(end_of(l), 0);
		break;
	case MMAP_STOPPED:
		assert_int_equal(weir_mmap_stop(s->m, NULL, NULL), 0);
		break;
	default:
		STARTS(weir_conn_disconnect(s->e.server, op));
		assert_int_equal(end_of(l), 0);
	}
}

/* What failed has ended the connection; otherwise it ends now. */
static void connect_anew(struct late *l)
{
	struct sharing *s = &l->s;

	if (weir_conn_state(s->e.client) == WEIR_CONN_ESTABLISHED)
		assert_int_equal(do_disconnect(&s->e, s->e.client), 0);
	UNTIL(s->r, weir_conn_state(s->e.client) == WEIR_CONN_ENDED &&
		    weir_conn_state(s->e.server) == WEIR_CONN_ENDED);
	sharing_forget(s);
	assert_int_equal(weir_mw_destroy(s->w), 0);
	s->w = NULL;
	if (weir_mmap_state(s->m) == WEIR_MMAP_STOPPED)
		assert_int_equal(weir_mmap_start(s->m), 0);
	assert_int_equal(weir_conn_destroy(s->e.server), 0);
	sharing_connect(s);
}

static void end_once(struct late *l, enum ending ending)
{
	struct sharing *s = &l->s;

	sharing_export(s, R | W);
	sharing_import(s);
	if (mocked)
		mock_hold(true);
	start_writes(l);
	if (mocked)
		mock_step(rnd(l, 2 * JOBS));
	else
		some_turns(s->r, (int)rnd(l, 20));
	end_access(l, ending);
	memset(s->mem, PAINT, MEM_LEN);
	if (mocked)
		mock_hold(false);
	finish_writes(l);
	if (!all_are(s->mem, MEM_LEN, PAINT))
		fail_msg("late bytes after: %s", names[ending]);
	connect_anew(l);
}

static void no_write_of_a_peer_lands_late(void **state)
{
	int i, n = (want_long() ? 10000 : mocked ? 600 : 60) / N_ENDINGS;
	struct late l = { .random = 1 };
	int ending;

	sharing_begin(&l.s, state);
	for (i = 0; i < n; i++)
		for (ending = 0; ending < N_ENDINGS; ending++)
			end_once(&l, (enum ending)ending);
	sharing_end(&l.s);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(no_write_of_a_peer_lands_late),
	};

	return run_over_rdma(cases, N_OF(cases));
}
