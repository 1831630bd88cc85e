/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Destroy drains: after it neither the kernel nor a worker touches the
 * application's memory, and what cannot be drained is not freed.
 */

#include "tests/support/gate-fixture.h"

#include <time.h>

#include <weir/file.h>
#include <weir/socket.h>
#include <weir/timer.h>

#include "tests/support/ignore.h"
#include "tests/support/sim-calls.h"

#define N_READS 64
#define BLOCK 65536

/*
 * Reads from a disk are not to be cancelled once it works on them.  The file
 * is larger than what is read, and not in the cache, as far as we can say so.
 */
static int cold_file(void **state, size_t len)
{
	int fd = test_file(state, "cold", len, 3), direct;

	fsync(fd);
	posix_fadvise(fd, 0, (off_t)len, POSIX_FADV_DONTNEED);
	direct = open(test_path(state, "cold"), O_RDONLY | O_DIRECT |
		      O_CLOEXEC);
	close(fd);
	return direct;
}

static void destroyed_reactor_writes_nothing(void **state)
{
	int fd = cold_file(state, (size_t)N_READS * BLOCK), i, round;
	struct timespec later = { .tv_nsec = 20 * 1000 * 1000 };
	struct weir_reactor *r;
	struct rec rec[N_READS];
	char *mem = NULL;
	size_t j;

	if (fd < 0)
		skip_because("no O_DIRECT in this directory");
	assert_int_equal(posix_memalign((void **)&mem, 4096,
					(size_t)N_READS * BLOCK), 0);
	for (round = 0; round < 5; round++) {
		r = start_reactor(state);
		for (i = 0; i < N_READS; i++) {
			rec_init(&rec[i]);
			STARTS(weir_read(r, &rec[i].op, fd, mem + i * BLOCK,
					 BLOCK, (uint64_t)i * BLOCK));
		}
		some_turns(r, round);
		end_reactor(state);
		memset(mem, 0xc3, (size_t)N_READS * BLOCK);
		for (i = 0; i < N_READS; i++) {
			assert_int_equal(rec[i].calls, 1);
			assert_true(rec[i].res == BLOCK ||
				    rec[i].res == -ECANCELED);
		}
		/* No wait for anything: a time in which a disk would come. */
		nanosleep(&later, NULL);
		for (j = 0; j < (size_t)N_READS * BLOCK; j++)
			if (mem[j] != (char)0xc3)
				fail_msg("byte %zu was written", j);
	}
	free(mem);
	close(fd);
}

/* What a read that completed has brought is there, all of it. */
static void operation_completed_in_the_drain_is_whole(void **state)
{
	int fd = cold_file(state, (size_t)N_READS * BLOCK), i;
	struct weir_reactor *r = start_reactor(state);
	struct rec rec[N_READS];
	char *mem = NULL;

	if (fd < 0)
		skip_because("no O_DIRECT in this directory");
	assert_int_equal(posix_memalign((void **)&mem, 4096,
					(size_t)N_READS * BLOCK), 0);
	for (i = 0; i < N_READS; i++) {
		rec_init(&rec[i]);
		STARTS(weir_read(r, &rec[i].op, fd, mem + i * BLOCK, BLOCK,
				 (uint64_t)i * BLOCK));
	}
	some_turns(r, 2);
	end_reactor(state);
	for (i = 0; i < N_READS; i++)
		if (rec[i].res == BLOCK)
			assert_true(is_pattern(mem + i * BLOCK, BLOCK,
					       (uint64_t)i * BLOCK, 3));
	free(mem);
	close(fd);
}

static void sockets_that_wait_are_let_go(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec recv[20], send;
	static char in[20][64], out[1 << 20];
	int sv[2], full[2], i;

	socket_pair(sv);
	socket_pair(full);
	for (i = 0; i < 20; i++) {
		rec_init(&recv[i]);
		STARTS(weir_recv(r, &recv[i].op, sv[0], in[i], 64, 0));
	}
	rec_init(&send);
	STARTS(weir_send(r, &send.op, full[0], out, sizeof(out),
			 WEIR_SOCK_ZEROCOPY));
	some_turns(r, 3);
	end_reactor(state);
	for (i = 0; i < 20; i++)
		assert_int_equal(recv[i].res, -ECANCELED);
	assert_int_equal(send.res, -ECANCELED);
	assert_int_equal(send.calls, 1);
	memset(in, 0x55, sizeof(in));
	assert_true(write(sv[1], "hello", 5) == 5);
	for (i = 0; i < 20; i++)
		assert_int_equal(in[i][0], 0x55);
	close_pair(sv);
	close_pair(full);
}

static void stuck_work_keeps_its_reactor(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .drain_ms = 10, .workers = 1 });
	struct world *w = *state;
	struct rec runs, waits;
	struct gate g;
	int i, err;

	gate_make(&g);
	rec_init(&runs);
	rec_init(&waits);
	STARTS(weir_work(r, &runs.op, pass_gate, &g));
	STARTS(weir_work(r, &waits.op, pass_gate, &g));
	some_turns(r, 1);
	gate_wait(&g);

	for (i = 0; i < 2; i++) {
		assert_int_equal(weir_reactor_destroy(r), -EBUSY);
		/* By its name. */
		assert_non_null(strstr(weir_why(), "work"));
		assert_int_equal(weir_reactor_state(r),
				 WEIR_REACTOR_STOPPING);
		assert_int_equal(weir_reactor_start(r), -EBUSY);
	}
	assert_int_equal(waits.calls, 1);
	assert_int_equal(waits.res, -ECANCELED);
	assert_int_equal(runs.calls, 0);
	assert_int_equal(weir_nop(r, &waits.op), -ESHUTDOWN);

	/* And later it can be, when the worker has run, within one drain or more. */
	gate_open(&g);
	w->r = NULL;
	do {
		err = weir_reactor_destroy(r);
	} while (err == -EBUSY);
	assert_int_equal(err, 0);
	assert_int_equal(runs.calls, 1);
	assert_int_equal(runs.res, 1);
	gate_free(&g);
}

/* Callbacks that start more: refused, so that it ends. */
struct more {
	struct rec rec;
	struct weir_reactor *r;
	int err;
};

static void start_more(struct weir_op *op, int64_t res)
{
	struct more *m = weir_container_of(op, struct more, rec.op);

	rec_done(op, res);
	m->err = weir_sleep_until(m->r, op, WEIR_FOREVER - 1);
}

static void callbacks_in_the_drain_cannot_prolong_the_drain(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct more m[10];
	int i;

	for (i = 0; i < 10; i++) {
		m[i] = (struct more){ .r = r };
		rec_init(&m[i].rec);
		m[i].rec.op.fn = start_more;
		if (i % 2)
			STARTS(weir_nop(r, &m[i].rec.op));
		else
			STARTS(weir_sleep_until(r, &m[i].rec.op,
						WEIR_FOREVER - 1));
	}
	end_reactor(state);
	for (i = 0; i < 10; i++) {
		assert_int_equal(m[i].rec.calls, 1);
		assert_int_equal(m[i].err, -ESHUTDOWN);
	}
}

/* A callback of the drain may close: a descriptor is never stuck. */
struct closer {
	struct rec rec, close;
	struct weir_reactor *r;
	int fd;
};

static void close_then(struct weir_op *op, int64_t res)
{
	struct closer *c = weir_container_of(op, struct closer, rec.op);

	rec_done(op, res);
	assert_int_equal(weir_close(c->r, &c->close.op, c->fd), 0);
}

static void callbacks_in_the_drain_may_close(void **state)
{
	struct closer c = { .r = start_reactor(state) };
	char byte;
	int sv[2];

	socket_pair(sv);
	rec_init(&c.rec);
	rec_init(&c.close);
	c.fd = sv[0];
	c.rec.op.fn = close_then;
	STARTS(weir_recv(c.r, &c.rec.op, sv[0], &byte, 1, 0));
	end_reactor(state);
	assert_int_equal(c.rec.res, -ECANCELED);
	assert_int_equal(c.close.calls, 1);
	assert_int_equal(c.close.res, 0);
	assert_int_equal(fcntl(sv[0], F_GETFD), -1);
	close(sv[1]);
}

static void close_after_the_stop_is_drained(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int sv[2], fd = test_file(state, "file", 10, 1);
	struct rec rec[2];

	socket_pair(sv);
	rec_init(&rec[0]);
	rec_init(&rec[1]);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	STARTS(weir_close(r, &rec[0].op, sv[0]));
	STARTS(weir_close(r, &rec[1].op, fd));
	end_reactor(state);
	assert_int_equal(rec[0].calls, 1);
	assert_int_equal(rec[1].calls, 1);
	assert_int_equal(fcntl(sv[0], F_GETFD), -1);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	close(sv[1]);
}

/* A timer may be made at any time, so also in the drain. */
struct late {
	struct rec rec;
	struct weir_reactor *r;
	struct weir_timer *timer;
};

static void make_timer(struct weir_op *op, int64_t res)
{
	struct late *l = weir_container_of(op, struct late, rec.op);

	rec_done(op, res);
	assert_int_equal(weir_timer_create(&l->timer, l->r, ignore_timer, NULL),
			 0);
}

static void timer_made_in_the_drain_keeps_the_drain_going(void **state)
{
	struct late l = { .r = start_reactor(state) };

	rec_init(&l.rec);
	l.rec.op.fn = make_timer;
	STARTS(weir_sleep_until(l.r, &l.rec.op, WEIR_FOREVER - 1));
	assert_int_equal(weir_reactor_destroy(l.r), -EBUSY);
	assert_non_null(strstr(weir_why(), "timer"));
	weir_timer_destroy(l.timer);
	end_reactor(state);
}

/* The kernel may have data for receivers that end after the stop. */
#define N_EARS 100

struct peers {
	struct rec rec, nop;
	struct weir_reactor *r;
	int sv[N_EARS][2];
};

static void peers_and_stop(struct weir_op *op, int64_t res)
{
	struct peers *t = weir_container_of(op, struct peers, rec.op);
	int i;

	rec_done(op, res);
	for (i = 0; i < N_EARS; i++)
		assert_int_equal(write(t->sv[i][1], "data", 4), 4);
	assert_int_equal(weir_nop(t->r, &t->nop.op), 0);
	weir_reactor_stop(t->r);
}

static void receivers_that_end_after_the_stop_are_drained(void **state)
{
	struct peers t = { .r = start_reactor_with(state,
						   (struct weir_reactor_opts){
							   .turn_max = 8 }) };
	struct weir_receiver *ears[N_EARS];
	int i;

	rec_init(&t.rec);
	rec_init(&t.nop);
	t.rec.op.fn = peers_and_stop;
	for (i = 0; i < N_EARS; i++) {
		socket_pair(t.sv[i]);
		assert_int_equal(weir_receiver_create(&ears[i], t.r, t.sv[i][0], NULL,
						      ignore_data, NULL),
				 0);
	}
	some_turns(t.r, 30);
	STARTS(weir_defer(t.r, &t.rec.op));
	assert_int_equal(weir_reactor_run(t.r), 0);
	for (i = 0; i < N_EARS; i++) {
		weir_receiver_destroy(ears[i]);
		close_pair(t.sv[i]);
	}
	end_reactor(state);
}

static void file_work_in_the_drain_is_done_with_its_memory(void **state)
{
	int fd = test_file(state, "file", 1 << 20, 4), i;
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .workers = 2 });
	struct rec rec[16];
	char *mem[16];

	for (i = 0; i < 16; i++) {
		mem[i] = malloc(BLOCK);
		assert_non_null(mem[i]);
		rec_init(&rec[i]);
		STARTS(weir_read(r, &rec[i].op, fd, mem[i], BLOCK, 0));
	}
	end_reactor(state);
	for (i = 0; i < 16; i++) {
		assert_int_equal(rec[i].calls, 1);
		if (rec[i].res == BLOCK)
			assert_true(is_pattern(mem[i], BLOCK, 0, 4));
		free(mem[i]);
	}
	close(fd);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(destroyed_reactor_writes_nothing),
		CASE(operation_completed_in_the_drain_is_whole),
		CASE(sockets_that_wait_are_let_go),
		REAL(stuck_work_keeps_its_reactor),
		CASE(callbacks_in_the_drain_cannot_prolong_the_drain),
		CASE(callbacks_in_the_drain_may_close),
		CASE(close_after_the_stop_is_drained),
		CASE(timer_made_in_the_drain_keeps_the_drain_going),
		CASE(receivers_that_end_after_the_stop_are_drained),
		CASE(file_work_in_the_drain_is_done_with_its_memory),
	};

	return harness_run_all(cases, N_OF(cases));
}
