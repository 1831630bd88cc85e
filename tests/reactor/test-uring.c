/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the uring backend: features it does without, and full queues. */

#include "tests/support/harness.h"

#include <poll.h>
#include <pthread.h>
#include <sys/un.h>

#include <weir/file.h>
#include <weir/host.h>
#include <weir/socket.h>
#include <weir/uring.h>
#include <weir/watch.h>

#include "base/fault.h"
#include "reactor/uring/uring.h"

#define SQ 8			/* A submission queue that is soon full. */
#define WINDOW 12		/* So is one of operations. */
#define CROWD (20 * WINDOW)

static struct weir_reactor *make(uint32_t entries)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts),
		.backend = WEIR_BACKEND_URING,
		.ring_entries = entries,
	};
	struct weir_reactor *r;

	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	return r;
}

static void unmake(struct weir_reactor *r)
{
	assert_int_equal(weir_reactor_destroy(r), 0);
}

/* One trip through the kernel, and a wake-up from outside. */
static void assert_works(struct weir_reactor *r)
{
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_nop(r, &rec.op));
	assert_int_equal(finish(r, &rec), 0);
	weir_reactor_break(r);
	assert_int_equal(weir_reactor_run(r), 1);
}

static void failing_call_of_setup_is_an_error_or_done_without(void **state)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_URING,
		.napi_us = 50,
	};
	bool fired = true;
	int err;

	(void)state;
	for (long nth = 0; fired; nth++) {
		struct weir_reactor *r = NULL;

		assert_true(nth < 100);
		fault_arm(nth);
		err = weir_reactor_create(&r, &opts);
		if (!err) {
			assert_works(r);
			unmake(r);
		}
		fired = fault_disarm();
		assert_true(fired || !err);
		if (err) {
			/* Its calls that the kernel refuses: no such backend. */
			if (!strcmp(fault_last(), "io_uring_probe") ||
			    !strcmp(fault_last(), "io_uring_enter_first"))
				assert_int_equal(err, -EOPNOTSUPP);
			else
				assert_true(err == -ENOMEM || err == -EMFILE);
			assert_starts_with(weir_why(), "weir_reactor_create: ");
			assert_null(r);
		}
	}
}

static void flags_that_the_kernel_refuses_are_dropped(void **state)
{
	struct weir_reactor *r;
	unsigned int fallback = 0;

	(void)state;
	for (long nth = 0; !fallback && nth < 20; nth++) {
		struct weir_reactor_opts opts = {
			.size = sizeof(opts), .backend = WEIR_BACKEND_URING,
		};

		fault_arm(nth);
		if (weir_reactor_create(&r, &opts))
			continue;
		if (!strcmp(fault_last(), "io_uring_setup"))
			fallback = uring_of(r)->fallback;
		fault_disarm();
		assert_works(r);
		unmake(r);
	}
	fault_disarm();
	assert_true(fallback > 0);
}

static void submission_without_capacity_waits_and_is_done(void **state)
{
	struct weir_reactor *r = make(SQ);
	unsigned int n = uring_of(r)->limit * 2, i, left;
	struct rec *recs = calloc(n, sizeof(*recs));

	(void)state;
	assert_non_null(recs);
	for (i = 0; i < n; i++) {
		rec_init(&recs[i]);
		STARTS(weir_nop(r, &recs[i].op));
	}
	assert_int_equal(uring_in_flight(uring_of(r)), uring_of(r)->limit);
	assert_false(op_queue_empty(&uring_of(r)->backlog));
	/* From the middle of the backlog. */
	assert_int_equal(weir_op_cancel(&recs[n - 2].op), 0);
	do {
		assert_true(weir_reactor_turn(r, 0) >= 0);
		for (i = 0, left = 0; i < n; i++)
			left += !recs[i].calls;
	} while (left);
	for (i = 0; i < n; i++) {
		assert_int_equal(recs[i].calls, 1);
		assert_int_equal(recs[i].res, i == n - 2 ? -ECANCELED : 0);
	}
	unmake(r);
	free(recs);
}

static struct weir_reactor *make_narrow(void)
{
	struct weir_reactor *r = make(SQ);
	struct uring *u = uring_of(r);

	some_turns(r, 2);
	u->window = u->limit = WINDOW;
	return r;
}

static void start_reads(struct weir_reactor *r, struct rec *recs, int n, int fd)
{
	static char bytes[CROWD];

	for (int i = 0; i < n; i++) {
		rec_init(&recs[i]);
		STARTS(weir_read(r, &recs[i].op, fd, &bytes[i], 1, 0));
	}
}

static void end_reads(struct weir_reactor *r, struct rec *recs, int n, int fd)
{
	for (int i = 0; i < n; i++)
		assert_int_equal(write(fd, "x", 1), 1);
	for (int i = 0; i < n; i++) {
		UNTIL(r, recs[i].calls);
		assert_int_equal(recs[i].res, 1);
	}
}

static void start_syncs(struct weir_reactor *r, struct rec *recs, int n, int fd)
{
	for (int i = 0; i < n; i++) {
		rec_init(&recs[i]);
		STARTS(weir_fsync(r, &recs[i].op, fd, 0));
	}
}

/* All to their end, never more than the window of them in the kernel. */
static void end_syncs(struct weir_reactor *r, struct rec *recs, int n)
{
	for (int i = 0; i < n; i++)
		while (!recs[i].calls) {
			assert_true(weir_reactor_turn(r, WEIR_SEC) >= 0);
			assert_in_range(uring_sure(uring_of(r)), 0, WINDOW);
		}
}

/* A thread of the kernel has them: in many a turn none ends. */
static void operations_sure_to_end_stay_within_the_window(void **state)
{
	struct weir_reactor *r = make_narrow();
	struct rec syncs[CROWD], reads[2 * WINDOW];
	FILE *file = tmpfile();
	int p[2];

	(void)state;
	assert_non_null(file);
	start_syncs(r, syncs, CROWD, fileno(file));
	end_syncs(r, syncs, CROWD);
	assert_int_equal(uring_of(r)->limit, WINDOW);
	/* Beside what waits, too, and when that has ended. */
	pipe_pair(p);
	start_reads(r, reads, 2 * WINDOW, p[0]);
	start_syncs(r, syncs, CROWD, fileno(file));
	end_syncs(r, syncs, CROWD);
	assert_int_equal(uring_in_flight(uring_of(r)), 2 * WINDOW);
	end_reads(r, reads, 2 * WINDOW, p[1]);
	some_turns(r, 1);
	assert_int_equal(uring_of(r)->limit, WINDOW);
	assert_int_equal(uring_sure(uring_of(r)), 0);
	unmake(r);
	close_pair(p);
	fclose(file);
}

/* Who is about to sleep, and finds that the kernel takes entries again. */
static struct weir_reactor *insomniac;

static int refuse_while_awake(const char *name)
{
	return !strcmp(name, "io_uring_enter") &&
	       !atomic_load(&insomniac->mailbox.asleep);
}

static void reactor_does_not_sleep_on_capacity_just_taken(void **state)
{
	struct weir_reactor_stats st = { .size = sizeof(st) };
	struct weir_reactor *r = make_narrow();
	struct rec reads[2 * WINDOW];
	int p[2];

	(void)state;
	pipe_pair(p);
	insomniac = r;
	fault_ask(refuse_while_awake);
	start_reads(r, reads, 2 * WINDOW, p[0]);
	assert_int_equal(uring_in_flight(uring_of(r)), SQ);
	/* The first few may spin only, and sleep the longer the later. */
	while (uring_in_flight(uring_of(r)) < WINDOW)
		assert_int_equal(weir_reactor_turn(r, 5 * WEIR_SEC), 0);
	fault_ask(NULL);
	weir_reactor_stats(r, &st);
	assert_true(st.sleep_ns < 5 * WEIR_SEC);
	end_reads(r, reads, 2 * WINDOW, p[1]);
	unmake(r);
	close_pair(p);
}

static int refused_asleep;

/* And then finds none, once, before they are pushed out after all. */
static int refuse_while_awake_and_once(const char *name)
{
	if (strcmp(name, "io_uring_enter"))
		return 0;
	return !atomic_load(&insomniac->mailbox.asleep) || !refused_asleep++;
}

static void reactor_does_not_sleep_on_work_that_found_no_entry(void **state)
{
	struct weir_reactor_stats st = { .size = sizeof(st) };
	struct weir_reactor *r = make(SQ);
	struct rec waits[SQ], last;
	int p[2];

	(void)state;
	pipe_pair(p);
	some_turns(r, 2);
	insomniac = r;
	refused_asleep = 0;
	fault_ask(refuse_while_awake_and_once);
	for (int i = 0; i < SQ; i++) {
		rec_init(&waits[i]);
		STARTS(weir_poll(r, &waits[i].op, p[0], WEIR_READABLE));
	}
	rec_init(&last);
	STARTS(weir_poll(r, &last.op, p[1], WEIR_WRITABLE));
	while (!refused_asleep)
		assert_int_equal(weir_reactor_turn(r, 5 * WEIR_SEC), 0);
	fault_ask(NULL);
	weir_reactor_stats(r, &st);
	assert_true(st.sleep_ns < 5 * WEIR_SEC);
	assert_int_equal(finish(r, &last), WEIR_WRITABLE);
	unmake(r);
	close_pair(p);
}

/* To wait for what another ring has out would be in vain, and take long. */
static void the_ring_that_a_host_does_not_want_goes_at_once(void **state)
{
	struct weir_reactor_stats st = { .size = sizeof(st) };
	struct weir_reactor *r = make(SQ);

	(void)state;
	assert_true(weir_reactor_fd(r) >= 0);
	assert_false(uring_of(r)->ring.flags & IORING_SETUP_DEFER_TASKRUN);
	weir_reactor_stats(r, &st);
	assert_true(st.syscalls < 20);
	assert_works(r);
	unmake(r);
}

/* The kernel tells a host of a deferred ring late. */
static void ring_made_for_a_host_is_not_deferred(void **state)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_URING,
		.hosted = 1,
	};
	struct weir_reactor *r;

	(void)state;
	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	assert_false(uring_of(r)->ring.flags & IORING_SETUP_DEFER_TASKRUN);
	assert_works(r);
	assert_true(weir_reactor_fd(r) >= 0);
	unmake(r);
}

static void host_is_refused_where_no_ring_can_be_made(void **state)
{
	struct weir_reactor *r = make(SQ);

	(void)state;
	if (uring_of(r)->ring.flags & IORING_SETUP_DEFER_TASKRUN) {
		fault_arm(0);
		assert_int_equal(weir_reactor_fd(r), -ENOMEM);
		fault_disarm();
		assert_starts_with(weir_why(), "weir_reactor_fd: ");
		assert_works(r);
	}
	assert_true(weir_reactor_fd(r) >= 0);
	unmake(r);
}

static void a_cancel_without_capacity_is_made_later(void **state)
{
	struct weir_reactor *r = make(SQ);
	struct rec waits, nops[SQ];
	int p[2];

	(void)state;
	pipe_pair(p);
	rec_init(&waits);
	STARTS(weir_poll(r, &waits.op, p[0], WEIR_READABLE));
	some_turns(r, 2);
	for (int i = 0; i < SQ; i++) {
		rec_init(&nops[i]);
		STARTS(weir_nop(r, &nops[i].op));
	}
	fault_arm(0);
	assert_int_equal(weir_op_cancel(&waits.op), 0);
	assert_int_equal(fault_disarm(), 1);
	assert_ptr_equal(r->repeats.asked, &waits.op);
	assert_int_equal(finish(r, &waits), -ECANCELED);
	unmake(r);
	close_pair(p);
}

static void on_watch(struct weir_watch *watch, uint32_t events, void *arg)
{
	unsigned int *seen = arg;

	(void)events;
	(*seen)++;
	weir_watch_set(watch, 0);
}

/* Operations alone fit; sources on top of them do not. */
static void a_full_completion_queue_loses_nothing(void **state)
{
	struct weir_reactor *r = make(0);
	unsigned int n = uring_of(r)->limit, n_watches = 2 * URING_RESERVE;
	struct rec *recs = calloc(n, sizeof(*recs));
	struct weir_watch **watches = calloc(n_watches, sizeof(*watches));
	struct weir_reactor_stats stats = { .size = sizeof(stats) };
	unsigned int i, seen = 0;
	int p[2];

	(void)state;
	assert_true(recs && watches);
	pipe_pair(p);
	assert_int_equal(write(p[1], "x", 1), 1);
	for (i = 0; i < n; i++) {
		rec_init(&recs[i]);
		STARTS(weir_nop(r, &recs[i].op));
	}
	for (i = 0; i < n_watches; i++)
		assert_int_equal(weir_watch_create(&watches[i], r, p[0],
						   WEIR_READABLE, on_watch,
						   &seen), 0);
	UNTIL(r, seen == n_watches);
	for (i = 0; i < n; i++)
		UNTIL(r, recs[i].calls == 1);
	assert_int_equal(weir_reactor_stats(r, &stats), 0);
	assert_true(stats.overflows > 0);
	for (i = 0; i < n_watches; i++)
		weir_watch_destroy(watches[i]);
	unmake(r);
	close_pair(p);
	free(watches);
	free(recs);
}

/* The kernel may raise it after we have taken in what it was raised for. */
static void a_stale_flag_of_the_ring_does_not_keep_us_awake(void **state)
{
	struct weir_reactor_stats stats = { .size = sizeof(stats) };
	struct weir_reactor *r = make(SQ);
	struct uring *u = uring_of(r);

	(void)state;
	some_turns(r, 4);
	__atomic_fetch_or(u->ring.sq.kflags, IORING_SQ_TASKRUN,
			  __ATOMIC_SEQ_CST);
	/* Long enough that to be put off the CPU does not count. */
	assert_int_equal(weir_reactor_turn(r, 100 * WEIR_MSEC), 0);
	assert_int_equal(weir_reactor_stats(r, &stats), 0);
	assert_int_equal(stats.sleeps, 1);
	assert_works(r);
	unmake(r);
}

static int to_refuse;

static int refuse_some(const char *name)
{
	return !strcmp(name, "io_uring_enter") && to_refuse-- > 0;
}

/* A host sleeps on the descriptor: something has to bring the next turn. */
static void host_is_woken_for_what_the_kernel_did_not_take(void **state)
{
	struct weir_reactor *r = make(0);
	struct pollfd p = { .fd = weir_reactor_fd(r), .events = POLLIN };
	struct rec rec;

	(void)state;
	assert_true(p.fd >= 0);
	while (poll(&p, 1, 0) == 1)
		assert_true(weir_reactor_turn(r, 0) >= 0);
	for (int n = 0; n < 5; n++) {
		rec_init(&rec);
		to_refuse = n;
		fault_ask(refuse_some);
		STARTS(weir_nop(r, &rec.op));
		while (!rec.calls) {
			assert_int_equal(poll(&p, 1, 10000), 1);
			assert_true(weir_reactor_turn(r, 0) >= 0);
		}
		fault_ask(NULL);
	}
	unmake(r);
}

static int cancels_to_miss;

static int miss(const char *name)
{
	return !strcmp(name, "cancel") && cancels_to_miss-- > 0;
}

/* The kernel says that there is no such request, and goes on with it. */
static void cancel_that_misses_is_repeated(void **state)
{
	struct weir_reactor *r = make(0);
	struct weir_watch *watch;
	unsigned int seen = 0;
	struct rec rec;
	int sv[2];
	char c;

	(void)state;
	socket_pair(sv);
	fault_ask(miss);
	/* That of a watch, of which nothing else is told. */
	assert_int_equal(weir_watch_create(&watch, r, sv[0], WEIR_READABLE,
					   on_watch, &seen), 0);
	some_turns(r, 2);
	cancels_to_miss = 3;
	weir_watch_destroy(watch);
	while (cancels_to_miss >= 0)
		assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
	for (int n = 0; n < 4; n++) {
		rec_init(&rec);
		STARTS(weir_recv(r, &rec.op, sv[0], &c, 1, 0));
		some_turns(r, 2);
		cancels_to_miss = n;
		assert_int_equal(weir_op_cancel(&rec.op), 0);
		while (!rec.calls)
			assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
		assert_int_equal(rec.res, -ECANCELED);
	}
	unmake(r);
	fault_ask(NULL);
	close_pair(sv);
}

static int refuse_multishot(const char *name)
{
	return !strcmp(name, "multishot");
}

struct served {
	struct weir_receiver *receiver;
	struct weir_reactor *r;
	int connections, bytes, edges;
	bool posted;
};

static int on_bytes(struct weir_receiver *receiver, void *data, int64_t len,
		    void *arg)
{
	struct served *s = arg;

	(void)receiver, (void)data;
	s->bytes += len > 0 ? (int)len : 0;
	return WEIR_RECEIVER_DONE;
}

static void on_client(struct weir_acceptor *acceptor, int fd, void *arg)
{
	struct served *s = arg;

	(void)acceptor;
	assert_true(fd >= 0);
	s->connections++;
	close(fd);
}

static void on_edge(struct weir_watch *watch, uint32_t events, void *arg)
{
	struct served *s = arg;

	(void)watch, (void)events;
	s->edges++;
}

static void on_post(void *arg)
{
	((struct served *)arg)->posted = true;
}

static void *post(void *arg)
{
	struct served *s = arg;

	assert_int_equal(weir_post(s->r, on_post, s), 0);
	return NULL;
}

/* As before Linux 5.13 to 6.0: each answer asks for the next one.  Two sources of
 * each kind are refused in the same turn. */
static void kernel_without_multishot_requests_serves_all_sources(void **state)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct weir_acceptor *acceptor[2];
	struct served s[2] = { { .r = NULL }, { .r = NULL } };
	struct weir_watch *watch[2];
	struct weir_reactor *r = make(0);
	int l[2], p[2][2], sv[2][2], i, k, c;
	pthread_t thread;
	char name[] = "l0";

	fault_ask(refuse_multishot);
	for (k = 0; k < 2; k++) {
		name[1] = (char)('0' + k);
		s[k].r = r;
		snprintf(un.sun_path, sizeof(un.sun_path), "%s",
			 test_path(state, name));
		assert_int_equal(weir_listen(&l[k], (struct sockaddr *)&un,
					     sizeof(un), 8, 0), 0);
		pipe_pair(p[k]);
		socket_pair(sv[k]);
		assert_int_equal(weir_acceptor_create(&acceptor[k], r, l[k],
						      on_client, &s[k]), 0);
		assert_int_equal(weir_receiver_create(&s[k].receiver, r,
						      sv[k][0], NULL, on_bytes,
						      &s[k]), 0);
		assert_int_equal(weir_watch_create(&watch[k], r, p[k][0],
						   WEIR_READABLE | WEIR_EDGE,
						   on_edge, &s[k]), 0);
	}
	for (i = 1; i <= 3; i++) {
		for (k = 0; k < 2; k++) {
			name[1] = (char)('0' + k);
			snprintf(un.sun_path, sizeof(un.sun_path), "%s",
				 test_path(state, name));
			c = socket(AF_UNIX, SOCK_STREAM, 0);
			assert_int_equal(connect(c, (struct sockaddr *)&un,
						 sizeof(un)), 0);
			assert_int_equal(write(p[k][1], "x", 1), 1);
			assert_int_equal(write(sv[k][1], "xyz", 3), 3);
			UNTIL(r, s[k].connections == i &&
				 s[k].bytes == 3 * i && s[k].edges >= i);
			close(c);
		}
		/* It is readable all the time. */
		some_turns(r, 5);
		assert_int_equal(s[0].edges, i);
		assert_int_equal(s[1].edges, i);
	}
	assert_true(uring_of(r)->no_poll_multi);
	assert_true(uring_of(r)->no_accept_multi);
	assert_true(uring_of(r)->no_recv_multi);
	/* One that is armed later knows. */
	weir_watch_destroy(watch[1]);
	assert_int_equal(weir_watch_create(&watch[1], r, p[1][0],
					   WEIR_READABLE | WEIR_EDGE, on_edge,
					   &s[1]), 0);
	UNTIL(r, s[1].edges == 4);
	some_turns(r, 5);
	assert_int_equal(s[1].edges, 4);
	/* The wake-up is a poll, too. */
	for (i = 0; i < 3; i++) {
		s[0].posted = false;
		assert_int_equal(pthread_create(&thread, NULL, post, &s[0]), 0);
		while (!s[0].posted)
			assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
		pthread_join(thread, NULL);
	}
	fault_ask(NULL);
	for (k = 0; k < 2; k++) {
		weir_acceptor_destroy(acceptor[k]);
		weir_receiver_destroy(s[k].receiver);
		weir_watch_destroy(watch[k]);
	}
	unmake(r);
	for (k = 0; k < 2; k++) {
		close(l[k]);
		close_pair(p[k]);
		close_pair(sv[k]);
	}
}

static void kernel_without_multishot_polls_wakes_the_reactor(void **state)
{
	struct served s = { .r = NULL };
	pthread_t thread;

	(void)state;
	fault_ask(refuse_multishot);
	s.r = make(0);
	for (int i = 0; i < 3; i++) {
		s.posted = false;
		assert_int_equal(pthread_create(&thread, NULL, post, &s), 0);
		while (!s.posted)
			assert_true(weir_reactor_turn(s.r, WEIR_FOREVER) >= 0);
		pthread_join(thread, NULL);
	}
	assert_true(uring_of(s.r)->no_poll_multi);
	fault_ask(NULL);
	unmake(s.r);
}

/* Loopback has none to poll, so a message arrives as it does otherwise. */
static void cards_are_polled_if_asked_for_and_the_kernel_can(void **state)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_URING,
		.napi_us = 50, .napi_prefer = 1,
	};
	struct weir_uring_info here = { .size = sizeof(here) }, info = here;
	struct weir_reactor *r;
	struct rec rec;
	char in[3];
	int sv[2];

	(void)state;
	assert_int_equal(weir_uring_probe(&here), 0);
	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	assert_int_equal(weir_uring_get_info(r, &info), 0);
	assert_int_equal(info.features & WEIR_URING_NAPI,
			 here.features & WEIR_URING_NAPI);
	tcp_pair(sv);
	rec_init(&rec);
	STARTS(weir_recv(r, &rec.op, sv[0], in, sizeof(in), 0));
	some_turns(r, 3);
	assert_int_equal(write(sv[1], "abc", 3), 3);
	assert_int_equal(finish(r, &rec), 3);
	close_pair(sv);
	unmake(r);
	r = make(0);
	assert_int_equal(weir_uring_get_info(r, &info), 0);
	assert_int_equal(info.features & WEIR_URING_NAPI, 0);
	unmake(r);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(cards_are_polled_if_asked_for_and_the_kernel_can),
		CASE(host_is_woken_for_what_the_kernel_did_not_take),
		CASE(cancel_that_misses_is_repeated),
		CASE(kernel_without_multishot_polls_wakes_the_reactor),
		CASE(kernel_without_multishot_requests_serves_all_sources),
		CASE(failing_call_of_setup_is_an_error_or_done_without),
		CASE(flags_that_the_kernel_refuses_are_dropped),
		CASE(submission_without_capacity_waits_and_is_done),
		CASE(operations_sure_to_end_stay_within_the_window),
		CASE(reactor_does_not_sleep_on_capacity_just_taken),
		CASE(reactor_does_not_sleep_on_work_that_found_no_entry),
		CASE(the_ring_that_a_host_does_not_want_goes_at_once),
		CASE(ring_made_for_a_host_is_not_deferred),
		CASE(host_is_refused_where_no_ring_can_be_made),
		CASE(a_cancel_without_capacity_is_made_later),
		CASE(a_full_completion_queue_loses_nothing),
		CASE(a_stale_flag_of_the_ring_does_not_keep_us_awake),
	};
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_URING,
	};
	struct weir_reactor *r;

	if (weir_reactor_create(&r, &opts)) {
		printf("1..0 # SKIP %s\n", weir_why());
		return 0;
	}
	unmake(r);
	return harness_run_plain(cases, N_OF(cases));
}
