/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The uring backend over the model of the kernel (tests/support/mock-uring.h): what
 * it makes of each version, and its contract while that kernel refuses, delays,
 * cuts short and ends what it can.
 *
 * A run of the contract is a seed: random transfers, polls, cancels and deadlines
 * beside a receiver, an acceptor and watches.  Bytes are numbered, so each that is
 * lost, doubled, or written after the end shows.
 */

#include "tests/support/harness.h"

#include <poll.h>
#include <sys/un.h>

#include <weir/file.h>
#include <weir/socket.h>
#include <weir/uring.h>
#include <weir/watch.h>

#include "reactor/rx.h"
#include "reactor/uring/uring.h"
#include "tests/support/mock-uring.h"

#define SEEDS 60		/* Of each version; with WEIR_TEST_LONG=1: */
#define SEEDS_LONG 3000
#define ACTIONS 250
#define SLOTS 24
#define PIECE 600
#define FILE_BYTES 8192
#define FILLER 0x5c
#define RX_BUFS 4
/* A cancel takes so many turns of those that are counted: it misses three times, and is
 * late after that. */
#define BOUND 100

enum what { NOP, SEND, RECV, SEND_ZC, RECV_TCP, PIPE_WRITE, PIPE_READ, FILE_READ,
	    FILE_SYNC, POLL, CONNECT, WHATS };

struct play;

struct slot {
	struct weir_op op;
	struct play *play;
	enum what what;
	bool busy, cancelled;
	uint32_t len;
	uint64_t off;
	int fd;			/* Of a connect. */
	char buf[PIECE];
};

/* A stream with one writer and one reader at a time, and its bytes so far. */
struct stream {
	int fd[2];
	bool writing, reading;
	uint64_t in, out;
};

struct play {
	struct weir_reactor *r;
	uint64_t draws;
	int begun, ended, file, listener;
	struct sockaddr_un un;
	struct stream socket, tcp, pipe, fed;	/* The last one: by send(2). */
	struct slot slots[SLOTS];
	struct weir_receiver *receiver;
	struct weir_acceptor *acceptor;
	struct weir_watch *level, *edge;
	int level_pipe[2], edge_pipe[2];
	/* A connect that was cancelled may have come through. */
	int called, perhaps, accepted, written, levels, edges;
	bool told_end, silent, closed;	/* Of the watch, and the acceptor. */
	void *kept;
	bool own;		/* The receiver has buffers of its own. */
};

static void release_kept(struct play *p)
{
	if (p->kept && p->own)
		weir_receiver_release_own(p->receiver, p->kept);
	else if (p->kept)
		weir_receiver_release(p->r, p->kept);
	p->kept = NULL;
}

static uint32_t below(struct play *p, uint32_t n)
{
	p->draws = p->draws * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(p->draws >> 33) % n;
}

static struct stream *stream_of(struct slot *s)
{
	switch (s->what) {
	case SEND:
	case RECV:
		return &s->play->socket;
	case SEND_ZC:
	case RECV_TCP:
		return &s->play->tcp;
	default:
		return &s->play->pipe;
	}
}

static bool is_out(const struct slot *s)
{
	return s->what == SEND || s->what == SEND_ZC || s->what == PIPE_WRITE;
}

static bool is_in(const struct slot *s)
{
	return s->what == RECV || s->what == RECV_TCP || s->what == PIPE_READ;
}

static bool is_untouched(const struct slot *s)
{
	for (int i = 0; i < PIECE; i++)
		if (s->buf[i] != FILLER)
			return false;
	return true;
}

static void check_moved(struct slot *s, int64_t res)
{
	struct stream *stream = stream_of(s);
	struct weir_op_detail detail;

	assert_int_equal(weir_op_get_detail(&s->op, &detail), 0);
	assert_true(detail.bytes <= s->len);
	if (res >= 0 && s->what != POLL)
		assert_int_equal(detail.bytes, res);
	if (is_out(s)) {
		stream->writing = false;
		stream->in += detail.bytes;
		if (res >= 0)
			assert_int_equal(res, s->len);
	} else if (is_in(s)) {
		stream->reading = false;
		assert_true(is_pattern(s->buf, detail.bytes, stream->out, 1));
		stream->out += detail.bytes;
		assert_true(res != 0);
	} else if (s->what == FILE_READ) {
		assert_true(is_pattern(s->buf, detail.bytes, s->off, 2));
		if (res >= 0)
			assert_int_equal(res, s->len);
	} else if (s->what == CONNECT) {
		if (res)
			s->play->perhaps++;
		else
			s->play->called++;
		close(s->fd);
	}
}

static void on_end(struct weir_op *op, int64_t res)
{
	struct slot *s = weir_container_of(op, struct slot, op);

	assert_true(s->busy);
	assert_int_equal(harness_starting, 0);
	s->busy = false;
	s->play->ended++;
	if (res < 0 && res != -ETIMEDOUT)
		assert_true(res == -ECANCELED && s->cancelled);
	check_moved(s, res);
	/* From here on it is the program's. */
	memset(s->buf, FILLER, sizeof(s->buf));
}

static int launch(struct play *p, struct slot *s)
{
	struct stream *stream = stream_of(s);
	struct weir_reactor *r = p->r;

	if (is_out(s))
		fill_pattern(s->buf, s->len, stream->in, 1);
	switch (s->what) {
	case NOP:
		return weir_nop(r, &s->op);
	case SEND:
		return weir_send(r, &s->op, stream->fd[1], s->buf, s->len, 0);
	case SEND_ZC:
		return weir_send(r, &s->op, stream->fd[1], s->buf, s->len,
				 WEIR_SOCK_ZEROCOPY);
	case RECV:
	case RECV_TCP:
		return weir_recv(r, &s->op, stream->fd[0], s->buf, s->len, 0);
	case PIPE_WRITE:
		return weir_write(r, &s->op, stream->fd[1], s->buf, s->len,
				  WEIR_OFF_STREAM);
	case PIPE_READ:
		return weir_read(r, &s->op, stream->fd[0], s->buf, s->len,
				 WEIR_OFF_STREAM);
	case FILE_READ:
		s->off = below(p, FILE_BYTES - PIECE);
		return weir_read(r, &s->op, p->file, s->buf, s->len, s->off);
	case FILE_SYNC:
		return weir_fsync(r, &s->op, p->file, 0);
	case CONNECT:
		s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC |
			       (below(p, 2) ? SOCK_NONBLOCK : 0), 0);
		return weir_connect(r, &s->op, s->fd, (struct sockaddr *)&p->un,
				    sizeof(p->un));
	default:
		return weir_poll(r, &s->op, p->socket.fd[0], WEIR_READABLE);
	}
}

static void start_one(struct play *p, struct slot *s)
{
	struct stream *stream;
	int err;

	s->play = p;
	s->what = (enum what)below(p, WHATS);
	stream = stream_of(s);
	if ((is_out(s) && stream->writing) || (is_in(s) && stream->reading))
		return;
	s->len = 1 + below(p, PIECE);
	s->cancelled = false;
	weir_op_init(&s->op, on_end);
	if (!below(p, 4))
		weir_op_set_deadline(&s->op, weir_reactor_now(p->r) +
				     below(p, 300000));
	s->busy = true;
	p->begun++;
	harness_starting++;
	err = launch(p, s);
	harness_starting--;
	assert_int_equal(err, 0);
	stream->writing |= is_out(s);
	stream->reading |= is_in(s);
}

static int on_data(struct weir_receiver *receiver, void *data, int64_t len,
		   void *arg)
{
	struct play *p = arg;

	(void)receiver;
	assert_false(p->told_end);
	p->told_end = !len;
	if (!len)
		return WEIR_RECEIVER_DONE;
	assert_true(len > 0);
	assert_true(is_pattern(data, (size_t)len, p->fed.out, 3));
	p->fed.out += (uint64_t)len;
	if (p->kept)
		return WEIR_RECEIVER_DONE;
	p->kept = data;
	return WEIR_RECEIVER_KEEP;
}

static void on_call(struct weir_acceptor *acceptor, int fd, void *arg)
{
	struct play *p = arg;

	(void)acceptor;
	assert_false(p->closed);
	assert_true(fd >= 0);
	close(fd);
	p->accepted++;
}

static void on_level(struct weir_watch *watch, uint32_t events, void *arg)
{
	struct play *p = arg;
	char c;

	(void)watch;
	assert_false(p->silent);
	assert_int_equal(events, WEIR_READABLE);
	if (read(p->level_pipe[0], &c, 1) == 1)
		p->levels++;
}

static void on_edge(struct weir_watch *watch, uint32_t events, void *arg)
{
	(void)watch, (void)events;
	((struct play *)arg)->edges++;
}

static void call(struct play *p)
{
	int c = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	p->called += !connect(c, (struct sockaddr *)&p->un, sizeof(p->un));
	close(c);
}

static void feed(struct play *p)
{
	char buf[PIECE];
	ssize_t n = 1 + (ssize_t)below(p, PIECE);

	fill_pattern(buf, (size_t)n, p->fed.in, 3);
	n = send(p->fed.fd[1], buf, (size_t)n, MSG_DONTWAIT);
	p->fed.in += n > 0 ? (uint64_t)n : 0;
}

static void set_sources(struct play *p, bool silent, bool closed)
{
	p->silent = silent;
	p->closed = closed;
	assert_int_equal(weir_watch_set(p->level, silent ? 0 : WEIR_READABLE),
			 0);
	assert_int_equal(weir_acceptor_set(p->acceptor, !closed), 0);
}

static void act(struct play *p)
{
	struct slot *s = &p->slots[below(p, SLOTS)];

	switch (below(p, 12)) {
	case 0:
		if (s->busy && !weir_op_cancel(&s->op))
			s->cancelled = true;
		break;
	case 1:
		call(p);
		break;
	case 2:
		feed(p);
		break;
	case 3:
		assert_int_equal(write(p->level_pipe[1], "x", 1), 1);
		p->written++;
		break;
	case 4:
		release_kept(p);
		break;
	case 5:
		set_sources(p, !below(p, 2), !below(p, 2));
		break;
	case 6:
	case 7:
		assert_true(weir_reactor_turn(p->r, 0) >= 0);
		break;
	default:
		if (!s->busy)
			start_one(p, s);
		break;
	}
}

static int open_listener(void **state, struct sockaddr_un *un)
{
	static unsigned int n;
	int l;

	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(un->sun_path, sizeof(un->sun_path), "%.80s%u",
		 test_path(state, "l"), n++);
	assert_int_equal(weir_listen(&l, (struct sockaddr *)un, sizeof(*un),
				     1, 0), 0);
	return l;
}

static void open_play(void **state, struct play *p)
{
	const struct weir_receiver_opts own = { .size = sizeof(own), .bufs = RX_BUFS };

	p->r = start_reactor_with(state, (struct weir_reactor_opts){
		.rx_bufs = RX_BUFS, .rx_buf_size = 256,
	});
	for (int i = 0; i < SLOTS; i++)
		memset(p->slots[i].buf, FILLER, PIECE);
	p->file = test_file(state, "file", FILE_BYTES, 2);
	p->listener = open_listener(state, &p->un);
	socket_pair(p->socket.fd);
	socket_pair(p->fed.fd);
	tcp_pair(p->tcp.fd);
	pipe_pair(p->pipe.fd);
	pipe_pair(p->level_pipe);
	pipe_pair(p->edge_pipe);
	set_nonblock(p->level_pipe[0]);
	if (below(p, 2))
		set_nonblock(p->socket.fd[0]);
	if (below(p, 2))
		set_nonblock(p->pipe.fd[0]);
	p->own = below(p, 2);
	assert_int_equal(weir_receiver_create(&p->receiver, p->r, p->fed.fd[0],
					      p->own ? &own : NULL, on_data, p), 0);
	assert_int_equal(weir_acceptor_create(&p->acceptor, p->r, p->listener,
					      on_call, p), 0);
	assert_int_equal(weir_watch_create(&p->level, p->r, p->level_pipe[0],
					   WEIR_READABLE, on_level, p), 0);
	assert_int_equal(weir_watch_create(&p->edge, p->r, p->edge_pipe[0],
					   WEIR_READABLE | WEIR_EDGE, on_edge,
					   p), 0);
}

/*
 * Turns are counted a millisecond after one another, as cancels are repeated: others, for
 * which there is something to do at once, may be any number, also on a busy machine.
 */
struct turns {
	int n;
	uint64_t next_ns;
};

static void turn(struct play *p, struct turns *turns, int bound)
{
	assert_true(weir_reactor_turn(p->r, 100 * WEIR_MSEC) >= 0);
	if (weir_reactor_now(p->r) < turns->next_ns)
		return;
	turns->next_ns = weir_reactor_now(p->r) + WEIR_MSEC;
	assert_in_range(++turns->n, 0, bound);
}

static void cancel_all(struct play *p)
{
	struct turns turns = { 0 };

	for (int i = 0; i < SLOTS; i++)
		if (p->slots[i].busy && !weir_op_cancel(&p->slots[i].op))
			p->slots[i].cancelled = true;
	while (p->ended < p->begun)
		turn(p, &turns, BOUND);
}

/* They end without a cancel as soon as the peer accepts. */
static void await_connects(struct play *p)
{
	struct turns turns = { 0 };

	set_sources(p, p->silent, false);
	for (int i = 0; i < SLOTS; i++)
		while (p->slots[i].busy && p->slots[i].what == CONNECT)
			turn(p, &turns, 20 * BOUND);
}

/* All that was sent to a source arrives, none of it is late or lost. */
static void settle(struct play *p)
{
	struct turns turns = { 0 };
	int before = p->edges;

	assert_int_equal(write(p->edge_pipe[1], "x", 1), 1);
	while (p->fed.out < p->fed.in || p->accepted < p->called ||
	       p->levels < p->written || p->edges == before) {
		release_kept(p);
		turn(p, &turns, 20 * BOUND);
	}
	release_kept(p);
	assert_true(p->accepted <= p->called + p->perhaps);
	shutdown(p->fed.fd[1], SHUT_WR);
	turns.n = 0;
	while (!p->told_end)
		turn(p, &turns, BOUND);
}

/* Only the wake-up is out, and all is as it was at the begin. */
static void check_idle(struct play *p)
{
	struct uring *u = uring_of(p->r);
	struct turns turns = { 0 };

	while (u->stale.first || !u->wake_polled || mock_uring_in_flight() > 1)
		turn(p, &turns, 20 * BOUND);
	assert_true(u->begun == u->ended);
	assert_null(u->backlog.first);
	assert_null(u->connects.first);
	assert_null(u->retry.first);
	assert_null(u->starving.first);
	assert_int_equal(reactor_in_flight(p->r), 0);
	if (p->own) {
		assert_null(p->r->rx);
		assert_int_equal(u->n_rx_rings, 0);
	} else if (p->r->rx->ring) {
		assert_int_equal(p->r->rx->left, p->r->rx->n);
	} else {
		assert_int_equal(p->r->rx->n_free, p->r->rx->n);
	}
	some_turns(p->r, 2);
	assert_int_equal(u->limit, u->window);
}

static void close_play(void **state, struct play *p)
{
	weir_receiver_destroy(p->receiver);
	weir_acceptor_destroy(p->acceptor);
	weir_watch_destroy(p->level);
	weir_watch_destroy(p->edge);
	for (int i = 0; i < SLOTS; i++)
		assert_true(is_untouched(&p->slots[i]));
	check_idle(p);
	end_reactor(state);
	close_pair(p->socket.fd);
	close_pair(p->fed.fd);
	close_pair(p->tcp.fd);
	close_pair(p->pipe.fd);
	close_pair(p->level_pipe);
	close_pair(p->edge_pipe);
	close(p->listener);
	close(p->file);
}

static void run_seed(void **state, const char *version, uint64_t seed)
{
	struct play *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	alarm(60);
	mock_uring_use(version, seed);
	p->draws = seed;
	/* Some runs are rough, some smooth, and some wrong in one way only. */
	mock_uring_set_odds(2 + below(p, 12));
	if (!below(p, 4))
		mock_uring.odds = (struct mock_uring_odds){ .late = 2 };
	if (!below(p, 4))
		mock_uring.odds = (struct mock_uring_odds){ .miss = 1,
							    .end = 1 };
	mock_uring.no_buf_rings = !below(p, 4);
	open_play(state, p);
	for (int i = 0; i < ACTIONS; i++)
		act(p);
	if (below(p, 2))
		await_connects(p);
	cancel_all(p);
	set_sources(p, false, false);
	settle(p);
	close_play(state, p);
	mock_uring.no_buf_rings = false;
	free(p);
}

static void contract_holds_whatever_the_kernel_answers(void **state)
{
	const struct world *w = *state;
	uint64_t n = want_long() ? SEEDS_LONG : SEEDS, seed;
	const char *only = getenv("WEIR_TEST_SEED");
	const char *version = strchr(w->backend, '-') + 1;

	if (only) {
		run_seed(state, version, strtoull(only, NULL, 0));
		return;
	}
	for (seed = 1; seed <= n; seed++) {
		printf("# WEIR_TEST_SEED=%llu\n", (unsigned long long)seed);
		run_seed(state, version, seed);
	}
	/* It did what it is for. */
	assert_true(mock_uring.missed && mock_uring.cut && mock_uring.refused);
	assert_true(mock_uring.ended || !strcmp(version, "5.11"));
}

static void features_are_those_of_the_version(void **state)
{
	static const struct { const char *version, *flags; uint32_t has; } row[] = {
		{ "5.11", "no flags", 0 },
		{ "5.15", "no flags", 0 },
		{ "5.19", "with COOP_TASKRUN;", WEIR_URING_COOP_TASKRUN |
		  WEIR_URING_RING_FD | WEIR_URING_FILES | WEIR_URING_BUFFERS |
		  WEIR_URING_CQE_SKIP },
		{ "6.1", "SINGLE_ISSUER DEFER_TASKRUN", WEIR_URING_COOP_TASKRUN |
		  WEIR_URING_RING_FD | WEIR_URING_FILES | WEIR_URING_BUFFERS |
		  WEIR_URING_CQE_SKIP | WEIR_URING_DEFER_TASKRUN |
		  WEIR_URING_SEND_ZC },
		{ "6.18", "SINGLE_ISSUER DEFER_TASKRUN", WEIR_URING_COOP_TASKRUN |
		  WEIR_URING_RING_FD | WEIR_URING_FILES | WEIR_URING_BUFFERS |
		  WEIR_URING_CQE_SKIP | WEIR_URING_DEFER_TASKRUN |
		  WEIR_URING_SEND_ZC | WEIR_URING_RECV_BUNDLES },
	};
	const struct world *w = *state;
	struct weir_uring_info info = { .size = sizeof(info) };
	struct weir_reactor *r;
	size_t i = 0;

	harness_model->calm(w->backend);
	r = start_reactor(state);
	while (i + 1 < N_OF(row) && strcmp(strchr(w->backend, '-') + 1,
					   row[i].version) != 0)
		i++;
	assert_int_equal(weir_uring_get_info(r, &info), 0);
	assert_int_equal(info.features, row[i].has);
	if (!strstr(weir_reactor_describe(r), row[i].flags))
		fail_msg("%s", weir_reactor_describe(r));
}

static int create(struct weir_reactor **ret)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_URING,
	};

	return weir_reactor_create(ret, &opts);
}

static void kernel_that_is_too_old_is_refused(void **state)
{
	struct weir_reactor *r;

	(void)state;
	mock_uring_use("5.10", 1);
	assert_int_equal(create(&r), -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), "no waits with a timeout"));
}

/* Nor is it a seccomp filter. */
static void kernel_without_memory_for_a_request_is_enomem(void **state)
{
	const struct world *w = *state;
	struct weir_reactor *r;

	harness_model->calm(w->backend);
	mock_uring.no_memory = true;
	assert_int_equal(create(&r), -ENOMEM);
	assert_non_null(strstr(weir_why(), "no memory"));
	mock_uring.no_memory = false;
	mock_uring.odds.memory = 1;
	assert_int_equal(create(&r), -ENOMEM);
	assert_non_null(strstr(weir_why(), "no memory"));
	mock_uring.odds.memory = 2;
	for (int i = 0; i < 20; i++) {
		assert_int_equal(create(&r), 0);
		assert_int_equal(weir_reactor_destroy(r), 0);
	}
}

/* Two of each kind are refused in one turn where the version has no multishot
 * requests.  An edge is told once, whatever takes their place. */
static void sources_work_with_and_without_multishot_requests(void **state)
{
	const struct weir_receiver_opts own = { .size = sizeof(own), .bufs = 4 };
	const struct world *w = *state;
	struct play *p = calloc(2, sizeof(*p));
	int i, k;

	assert_non_null(p);
	harness_model->calm(w->backend);
	p[0].r = p[1].r = start_reactor(state);
	for (k = 0; k < 2; k++) {
		socket_pair(p[k].fed.fd);
		pipe_pair(p[k].edge_pipe);
		p[k].listener = open_listener(state, &p[k].un);
		p[k].own = k;
		assert_int_equal(weir_receiver_create(&p[k].receiver, p[k].r,
						      p[k].fed.fd[0], k ? &own : NULL,
						      on_data, &p[k]), 0);
		assert_int_equal(weir_acceptor_create(&p[k].acceptor, p[k].r,
						      p[k].listener, on_call,
						      &p[k]), 0);
		assert_int_equal(weir_watch_create(&p[k].edge, p[k].r,
						   p[k].edge_pipe[0],
						   WEIR_READABLE | WEIR_EDGE,
						   on_edge, &p[k]), 0);
	}
	for (i = 1; i <= 3; i++) {
		for (k = 0; k < 2; k++) {
			call(&p[k]);
			feed(&p[k]);
			assert_int_equal(write(p[k].edge_pipe[1], "x", 1), 1);
		}
		for (k = 0; k < 2; k++)
			UNTIL(p[k].r, p[k].accepted == i &&
			      p[k].fed.out == p[k].fed.in && p[k].edges >= i);
		some_turns(p[0].r, 5);
		assert_int_equal(p[0].edges, i);
		assert_int_equal(p[1].edges, i);
	}
	for (k = 0; k < 2; k++) {
		release_kept(&p[k]);
		weir_receiver_destroy(p[k].receiver);
		weir_acceptor_destroy(p[k].acceptor);
		weir_watch_destroy(p[k].edge);
		close_pair(p[k].fed.fd);
		close_pair(p[k].edge_pipe);
		close(p[k].listener);
	}
	free(p);
}

/* What its acceptor has asked for is over when it says that it has stopped. */
static void stopped_reactor_takes_nothing_though_cancels_miss(void **state)
{
	const struct world *w = *state;
	struct play *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	harness_model->calm(w->backend);
	mock_uring.odds.miss = 1;
	p->r = start_reactor(state);
	p->listener = open_listener(state, &p->un);
	assert_int_equal(weir_acceptor_create(&p->acceptor, p->r, p->listener,
					      on_call, p), 0);
	some_turns(p->r, 2);
	weir_reactor_stop(p->r);
	assert_int_equal(weir_reactor_run(p->r), 0);
	call(p);
	some_turns(p->r, 5);
	assert_int_equal(p->accepted, 0);
	assert_int_equal(weir_reactor_start(p->r), 0);
	UNTIL(p->r, p->accepted == 1);
	weir_acceptor_destroy(p->acceptor);
	close(p->listener);
	free(p);
}

/* The kernel takes the request after its descriptor has become another file. */
static void request_that_was_not_taken_takes_nothing_from_another_file(
	void **state)
{
	const struct weir_receiver_opts own = { .size = sizeof(own), .bufs = 4 };
	const struct world *w = *state;
	struct play *p = calloc(2, sizeof(*p));
	int c = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), i;
	char in[3];

	assert_non_null(p);
	harness_model->calm(w->backend);
	p->r = start_reactor(state);
	for (i = 0; i < 2; i++) {
		socket_pair(p[i].fed.fd);
		p[i].listener = open_listener(state, &p[i].un);
		set_nonblock(p[i].listener);
	}
	assert_int_equal(write(p[1].fed.fd[1], "abc", 3), 3);
	assert_int_equal(connect(c, (struct sockaddr *)&p[1].un,
				 sizeof(p[1].un)), 0);
	some_turns(p->r, 2);
	mock_uring.odds.memory = 1;
	assert_int_equal(weir_receiver_create(&p->receiver, p->r, p->fed.fd[0], NULL,
					      on_data, p), 0);
	assert_int_equal(weir_acceptor_create(&p->acceptor, p->r, p->listener,
					      on_call, p), 0);
	weir_receiver_destroy(p->receiver);
	weir_acceptor_destroy(p->acceptor);
	assert_int_equal(dup2(p[1].fed.fd[0], p->fed.fd[0]), p->fed.fd[0]);
	assert_int_equal(dup2(p[1].listener, p->listener), p->listener);
	mock_uring.odds.memory = 0;
	some_turns(p->r, 5);
	assert_int_equal(recv(p->fed.fd[0], in, 3, MSG_DONTWAIT), 3);
	i = accept(p->listener, NULL, NULL);
	assert_true(i >= 0);
	close(i);
	check_idle(p);
	for (i = 0; i < 2; i++) {
		close_pair(p[i].fed.fd);
		close(p[i].listener);
	}
	close(c);
	free(p);
}

/* Nor does it lose its file when that is not registered any more. */
static void request_that_was_not_taken_keeps_its_unregistered_file(void **state)
{
	const struct world *w = *state;
	struct weir_reactor *r;
	struct rec rec;
	char in[3];
	int fd[2];

	harness_model->calm(w->backend);
	r = start_reactor(state);
	socket_pair(fd);
	weir_fd_register(r, fd[0]);
	some_turns(r, 2);
	mock_uring.odds.memory = 1;
	rec_init(&rec);
	STARTS(weir_recv(r, &rec.op, fd[0], in, 3, 0));
	weir_fd_unregister(r, fd[0]);
	mock_uring.odds.memory = 0;
	some_turns(r, 2);
	assert_int_equal(write(fd[1], "abc", 3), 3);
	assert_int_equal(finish(r, &rec), 3);
	assert_memory_equal(in, "abc", 3);
	close_pair(fd);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(contract_holds_whatever_the_kernel_answers),
		CASE(features_are_those_of_the_version),
		CASE(kernel_that_is_too_old_is_refused),
		CASE(kernel_without_memory_for_a_request_is_enomem),
		CASE(request_that_was_not_taken_keeps_its_unregistered_file),
		CASE(request_that_was_not_taken_takes_nothing_from_another_file),
		CASE(sources_work_with_and_without_multishot_requests),
		CASE(stopped_reactor_takes_nothing_though_cancels_miss),
	};

	return harness_run(cases, N_OF(cases));
}
