/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Late writes by RDMA: a peer has many writes in flight when its access ends.
 * The memory is painted when the end has completed, and keeps the paint until
 * the last write of the peer has failed.
 *
 * Over the mock, where a random number of the writes are done before the end;
 * and over soft-RoCE in the guest, where they go on beside it, over a link that is
 * slow enough for the end to come before the last.  With
 * WEIR_TEST_LONG=1 10,000 endings, half of them over each backend.
 *
 * WEIR_LATE_KEEP is a file to which lines as those of bench-late are added now and
 * then, so that a run may be ended at any time: `make late-rdma`.
 */

#include "tests/support/mw-fixture.h"

#include <time.h>
#include <unistd.h>

#define JOBS 8
#define ENDING_S 120	/* May take less than this, where all is slow. */
#define KEEP 300	/* Endings, before their sums are kept. */
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
	struct {
		unsigned int tried, over;	/* Over before it was ended. */
		uint64_t worst_ns;		/* The longest end. */
	} sums[N_ENDINGS];
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

static int writes_ended(const struct late *l)
{
	int i, n = 0;

	for (i = 0; i < l->started; i++)
		n += l->jobs[i].calls > 0;
	return n;
}

static void finish_writes(struct late *l)
{
	int i;

	UNTIL(l->s.r, writes_ended(l) == l->started);
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

/* From the importer on: tc(8). */
static void make_link_slow(bool slow)
{
	const char *dev = getenv("WEIR_RDMA_NETDEV");
	char command[100];

	if (mocked || !dev || !getenv("WEIR_RDMA_ADDRESS2"))
		return;
	snprintf(command, sizeof(command), slow ?
		 "tc qdisc replace dev %s root netem rate 20mbit" :
		 "tc qdisc del dev %s root", dev);
	assert_int_equal(system(command), 0);
}

/* Some of the writes are done, or none is. */
static void proceed(struct late *l)
{
	int n = (int)rnd(l, JOBS);

	if (mocked) {
		mock_step(rnd(l, 2 * JOBS));
		return;
	}
	some_turns(l->s.r, 1);
	UNTIL(l->s.r, writes_ended(l) >= n);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * WEIR_SEC + (uint64_t)ts.tv_nsec;
}

static void end_once(struct late *l, enum ending ending)
{
	struct sharing *s = &l->s;
	uint64_t begun, took;

	sharing_export(s, R | W);
	sharing_import(s);
	if (mocked)
		mock_hold(true);
	start_writes(l);
	proceed(l);
	l->sums[ending].tried++;
	l->sums[ending].over += writes_ended(l) == l->started;
	begun = now_ns();
	end_access(l, ending);
	took = now_ns() - begun;
	memset(s->mem, PAINT, MEM_LEN);
	if (took > l->sums[ending].worst_ns)
		l->sums[ending].worst_ns = took;
	if (mocked)
		mock_hold(false);
	finish_writes(l);
	if (!all_are(s->mem, MEM_LEN, PAINT))
		fail_msg("late bytes after: %s", names[ending]);
	connect_anew(l);
}

/* A late byte has failed the test, and so has a write that did not complete once. */
static void keep(struct late *l, const char *backend)
{
	const char *path = mocked ? NULL : getenv("WEIR_LATE_KEEP");
	FILE *out = path ? fopen(path, "ae") : NULL;
	int i;

	if (!path)
		return;
	assert_non_null(out);
	for (i = 0; i < N_ENDINGS; i++)
		fprintf(out, "{\"bench\":\"late\",\"ending\":\"%s\","
			"\"who\":\"weir\",\"version\":\"%s\","
			"\"engine\":\"verbs, soft-RoCE\",\"backend\":\"%s\","
			"\"size\":%u,\"tried\":%u,\"late\":0,\"most\":0,"
			"\"worst_ns\":%llu,\"over\":%u,"
			"\"contract\":\"no byte after the end\"}\n",
			names[i], weir_version(), backend, JOBS * PART_LEN,
			l->sums[i].tried,
			(unsigned long long)l->sums[i].worst_ns,
			l->sums[i].over);
	fclose(out);
	memset(l->sums, 0, sizeof(l->sums));
}

static void no_write_of_a_peer_lands_late(void **state)
{
	int all = want_long() ? 5000 : mocked ? 600 : 60;
	const struct world *w = *state;
	struct late l = { .random = mocked ? 1 : now_ns() };
	int i;

	make_link_slow(true);
	sharing_begin(&l.s, state);
	for (i = 0; i < all || i % N_ENDINGS; i++) {
		if (i && i % KEEP == 0)
			keep(&l, w->backend);
		/* All of them take longer than a test may. */
		alarm(ENDING_S);
		end_once(&l, (enum ending)(i % N_ENDINGS));
	}
	sharing_end(&l.s);
	make_link_slow(false);
	keep(&l, w->backend);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(no_write_of_a_peer_lands_late),
	};

	return run_over_rdma(cases, N_OF(cases));
}
