/* SPDX-License-Identifier: BSD-3-Clause */

/* Buffered streams, as <weir/stream.h> promises them. */

#include "tests/support/harness.h"

#include <signal.h>
#include <sys/syscall.h>

#include <weir/sim/file.h>
#include <weir/stream.h>
#include <weir/timer.h>

#include "tests/support/ignore.h"
#include "tests/support/sim-calls.h"

#define RUN(r, call)                    \
	({                              \
		rec_init(&rec);         \
		STARTS(call);           \
		result(r, &rec);        \
	})

static struct rec rec;

/* Of what may have ended in an earlier turn. */
static int64_t result(struct weir_reactor *r, struct rec *of)
{
	UNTIL(r, of->calls);
	assert_int_equal(of->calls, 1);
	return of->res;
}

/* A stream with small buffers at one end, .peer at the other. */
static struct weir_stream *small(struct weir_reactor *r, int fd[2], size_t in,
				 size_t out)
{
	struct weir_stream_opts opts = {
		.size = sizeof(opts), .in_size = in, .out_size = out,
	};
	struct weir_stream *s;

	socket_pair(fd);
	assert_int_equal(weir_stream_create_fd(&s, r, fd[0], fd[0], &opts), 0);
	return s;
}

static void end_stream(struct weir_reactor *r, struct weir_stream *s)
{
	struct rec closed;

	rec_init(&closed);
	STARTS(weir_stream_close(s, &closed.op));
	assert_int_equal(result(r, &closed), 0);
}

static void say(int fd, const char *text, size_t len)
{
	assert_int_equal(write(fd, text, len), len);
}

/* What the peer gets, without waiting: at most @max. */
static size_t hear(int fd, char *buf, size_t max)
{
	ssize_t n = recv(fd, buf, max, MSG_DONTWAIT);

	return n > 0 ? (size_t)n : 0;
}

static void hear_all(struct weir_reactor *r, int fd, char *buf, size_t len)
{
	size_t got = 0;

	UNTIL(r, (got += hear(fd, buf + got, len - got)) == len);
}

static void expect_buffered(struct weir_stream *s, const char *text)
{
	const void *data;
	size_t n = weir_stream_peek(s, &data);

	assert_int_equal(n, strlen(text));
	assert_memory_equal(data, text, n);
}

/* ---- Reading ---- */

static void read_takes_what_is_there(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char buf[16] = "";
	struct weir_stream *s;
	int fd[2];

	s = small(r, fd, 64, 64);
	say(fd[1], "abcdef", 6);
	assert_int_equal(RUN(r, weir_stream_read(s, &rec.op, NULL, 0)), 6);
	expect_buffered(s, "abcdef");
	assert_int_equal(RUN(r, weir_stream_read(s, &rec.op, buf, 4)), 4);
	assert_memory_equal(buf, "abcd", 4);
	assert_int_equal(RUN(r, weir_stream_read(s, &rec.op, buf, 16)), 2);
	assert_memory_equal(buf, "ef", 2);
	end_stream(r, s);
	close(fd[1]);
}

static void end_of_stream_is_no_error(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char buf[16] = "";
	struct weir_stream *s;
	int fd[2];

	s = small(r, fd, 64, 64);
	say(fd[1], "left", 4);
	assert_int_equal(shutdown(fd[1], SHUT_WR), 0);
	assert_int_equal(RUN(r, weir_stream_read_until(s, &rec.op, buf, 16,
						       "\n", 1)), -ENODATA);
	expect_buffered(s, "left");
	assert_int_equal(RUN(r, weir_stream_read_exact(s, &rec.op, NULL, 9)),
			 4);
	assert_int_equal(RUN(r, weir_stream_read_exact(s, &rec.op, buf, 9)), 4);
	assert_memory_equal(buf, "left", 4);
	assert_int_equal(RUN(r, weir_stream_read_exact(s, &rec.op, buf, 9)), 0);
	assert_int_equal(RUN(r, weir_stream_read(s, &rec.op, buf, 9)), 0);
	assert_int_equal(RUN(r, weir_stream_read_until(s, &rec.op, buf, 16,
						       "\n", 1)), 0);
	assert_int_equal(RUN(r, weir_stream_read_exact(s, &rec.op, buf, 0)), 0);
	/* The other direction is open. */
	assert_int_equal(RUN(r, weir_stream_write(s, &rec.op, "yes", 3, 0)), 3);
	assert_int_equal(RUN(r, weir_stream_flush(s, &rec.op)), 0);
	hear_all(r, fd[1], buf, 3);
	end_stream(r, s);
	close(fd[1]);
}

/* The text in two parts, cut at @at. */
static void split_once(struct weir_reactor *r, const char *delim, size_t at)
{
	static const char text[] = "GET /\r\nA: b\r\r\n\n\r\n\r\nrest";
	char buf[32] = "";
	size_t len = strlen(delim);
	struct weir_stream *s;
	const char *want = strstr(text, delim);
	int fd[2];

	s = small(r, fd, 32, 32);
	rec_init(&rec);
	STARTS(weir_stream_read_until(s, &rec.op, buf, 32, delim, len));
	say(fd[1], text, at);
	some_turns(r, 3);
	say(fd[1], text + at, sizeof(text) - 1 - at);
	assert_int_equal(result(r, &rec), want - text + (ptrdiff_t)len);
	assert_memory_equal(buf, text, (size_t)rec.res);
	assert_int_equal(buf[rec.res], 0);
	end_stream(r, s);
	close(fd[1]);
}

static void delimiter_is_found_wherever_it_is_cut(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	size_t at;

	for (at = 1; at < 24; at++) {
		split_once(r, "\r\n", at);
		split_once(r, "\r\n\r\n", at);
		split_once(r, "\n", at);
		split_once(r, "\r\r\n\n\r", at);
	}
}

static void delimiter_is_found_byte_by_byte(void **state)
{
	static const char text[] = "aabaabaaab|aaab";
	struct weir_reactor *r = start_reactor(state);
	char buf[32] = "";
	struct weir_stream *s;
	int fd[2];

	s = small(r, fd, 32, 32);
	rec_init(&rec);
	STARTS(weir_stream_read_until(s, &rec.op, buf, 32, "aaab", 4));
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		say(fd[1], text + i, 1);
		some_turns(r, 2);
	}
	assert_int_equal(result(r, &rec), 10);
	assert_memory_equal(buf, text, 10);
	assert_int_equal(RUN(r, weir_stream_read_until(s, &rec.op, NULL, 32,
						       "aaab", 4)), 5);
	expect_buffered(s, "|aaab");
	end_stream(r, s);
	close(fd[1]);
}

static void line_beyond_its_limit_stays_in_the_stream(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char buf[16];
	struct weir_stream *s;
	int fd[2];

	s = small(r, fd, 16, 16);
	say(fd[1], "0123456789\n", 11);
	assert_int_equal(RUN(r, weir_stream_read_until(s, &rec.op, buf, 10,
						       "\n", 1)), -EMSGSIZE);
	expect_buffered(s, "0123456789\n");
	assert_int_equal(RUN(r, weir_stream_read_until(s, &rec.op, buf, 11,
						       "\n", 1)), 11);
	say(fd[1], "0123456789abcdef\n", 17);
	assert_int_equal(RUN(r, weir_stream_read_until(s, &rec.op, buf, 16,
						       "\n", 1)), -EMSGSIZE);
	assert_int_equal(RUN(r, weir_stream_read(s, &rec.op, buf, 16)), 16);
	end_stream(r, s);
	close(fd[1]);
}

/* Reads of every length, of bytes that come in parts of every length. */
static void reads_of_every_length_get_all_bytes(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char sent[64], got[64];
	struct weir_stream *s;
	int fd[2];

	fill_pattern(sent, sizeof(sent), 0, 1);
	for (size_t in = 8; in <= 24; in += 16)
		for (size_t len = 1; len <= 60; len += in == 8 ? 1 : 7)
			for (size_t part = 1; part <= len; part += 1 + part / 4) {
				s = small(r, fd, in, 16);
				memset(got, 0, sizeof(got));
				rec_init(&rec);
				STARTS(weir_stream_read_exact(s, &rec.op, got,
							      len));
				for (size_t n = 0; n < len; n += part) {
					say(fd[1], sent + n, part < len - n ?
					    part : len - n);
					weir_reactor_turn(r, 0);
				}
				assert_int_equal(result(r, &rec), len);
				assert_int_equal(rec.detail.bytes, len);
				assert_memory_equal(got, sent, len);
				end_stream(r, s);
				close(fd[1]);
			}
}

static void cancelled_read_loses_no_bytes(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char buf[16] = "";
	struct weir_stream *s;
	int fd[2];

	s = small(r, fd, 32, 32);
	rec_init(&rec);
	STARTS(weir_stream_read_exact(s, &rec.op, buf, 8));
	say(fd[1], "abc", 3);
	some_turns(r, 4);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(result(r, &rec), -ECANCELED);
	assert_int_equal(rec.detail.bytes, 0);
	/* What arrives between two reads is kept, too. */
	say(fd[1], "de", 2);
	some_turns(r, 4);
	rec_init(&rec);
	weir_op_set_deadline(&rec.op, weir_reactor_now(r) + 1000);
	STARTS(weir_stream_read_until(s, &rec.op, buf, 16, "\n", 1));
	assert_int_equal(result(r, &rec), -ETIMEDOUT);
	assert_true(weir_op_is_late(&rec.op));
	say(fd[1], "\n", 1);
	assert_int_equal(RUN(r, weir_stream_read_until(s, &rec.op, buf, 16,
						       "\n", 1)), 6);
	assert_memory_equal(buf, "abcde\n", 6);
	end_stream(r, s);
	close(fd[1]);
}

static void large_read_tells_what_it_has_taken(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char buf[64] = "", sent[64];
	struct weir_stream *s;
	size_t taken;
	int fd[2];

	fill_pattern(sent, sizeof(sent), 0, 3);
	s = small(r, fd, 8, 8);
	say(fd[1], sent, 8);
	assert_int_equal(RUN(r, weir_stream_read(s, &rec.op, NULL, 0)), 8);
	rec_init(&rec);
	STARTS(weir_stream_read_exact(s, &rec.op, buf, 64));
	say(fd[1], sent + 8, 21);
	some_turns(r, 10);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(result(r, &rec), -ECANCELED);
	/* Eight were in the buffer; of the others it may have some. */
	taken = rec.detail.bytes;
	assert_true(taken >= 8 && taken <= 29);
	assert_memory_equal(buf, sent, taken);
	say(fd[1], sent + 29, 35);
	assert_int_equal(RUN(r, weir_stream_read_exact(s, &rec.op, buf + taken,
						       64 - taken)),
			 64 - taken);
	assert_memory_equal(buf, sent, 64);
	end_stream(r, s);
	close(fd[1]);
}

static void bytes_are_taken_and_returned(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char buf[16];
	struct weir_stream *s;
	int fd[2];

	s = small(r, fd, 16, 16);
	expect_buffered(s, "");
	assert_int_equal(weir_stream_consume(s, 1), -ERANGE);
	say(fd[1], "0123456789", 10);
	assert_int_equal(RUN(r, weir_stream_read(s, &rec.op, buf, 4)), 4);
	assert_int_equal(weir_stream_consume(s, 2), 0);
	expect_buffered(s, "6789");
	assert_int_equal(weir_stream_unread(s, "45", 2), 0);
	assert_int_equal(weir_stream_unread(s, "0123", 4), 0);
	expect_buffered(s, "0123456789");
	assert_int_equal(weir_stream_unread(s, "abcdef", 6), 0);
	expect_buffered(s, "abcdef0123456789");
	assert_int_equal(weir_stream_unread(s, "x", 1), -EMSGSIZE);
	assert_int_equal(weir_stream_unread(s, NULL, 0), 0);
	assert_int_equal(weir_stream_put(s, NULL, 0, 0), 0);
	assert_int_equal(RUN(r, weir_stream_write(s, &rec.op, NULL, 0, 0)), 0);
	assert_int_equal(weir_stream_consume(s, 17), -ERANGE);
	assert_int_equal(weir_stream_consume(s, 16), 0);
	rec_init(&rec);
	STARTS(weir_stream_read(s, &rec.op, buf, 1));
	assert_int_equal(weir_stream_consume(s, 0), -EBUSY);
	assert_int_equal(weir_stream_unread(s, "x", 1), -EBUSY);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(result(r, &rec), -ECANCELED);
	/* The buffer's memory is the kernel's now. */
	assert_int_equal(weir_stream_unread(s, "x", 1), -EMSGSIZE);
	end_stream(r, s);
	close(fd[1]);
}

static void second_read_is_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *s, *to;
	int fd[2], fd2[2];
	struct rec two;
	char buf[8];

	s = small(r, fd, 16, 16);
	to = small(r, fd2, 16, 16);
	rec_init(&rec);
	rec_init(&two);
	STARTS(weir_stream_read(s, &rec.op, buf, 8));
	assert_int_equal(weir_stream_read(s, &two.op, buf, 8), -EBUSY);
	assert_int_equal(weir_stream_read_exact(s, &two.op, buf, 8), -EBUSY);
	assert_int_equal(weir_stream_read_until(s, &two.op, buf, 8, "x", 1),
			 -EBUSY);
	assert_int_equal(weir_stream_pipe(s, &two.op, to, 1, 0), -EBUSY);
	assert_int_equal(weir_stream_read(s, &rec.op, buf, 8), -EBUSY);
	assert_int_equal(weir_stream_write(s, &rec.op, buf, 8, 0), -EINVAL);
	end_stream(r, s);
	end_stream(r, to);
	assert_int_equal(rec.res, -ECANCELED);
	assert_int_equal(two.calls, 0);
	close(fd[1]);
	close(fd2[1]);
}

/* ---- Writing ---- */

static void writes_of_every_length_arrive_in_order(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char sent[128], got[128];
	struct rec recs[4];
	struct weir_stream *s;
	struct iovec iov[3];
	size_t at, sum;
	int fd[2];

	fill_pattern(sent, sizeof(sent), 0, 5);
	for (size_t out = 2; out < 40; out += 5) {
		for (size_t len = 0; len <= 32; len++) {
			s = small(r, fd, 16, out);
			for (int i = 0; i < 4; i++)
				rec_init(&recs[i]);
			STARTS(weir_stream_write(s, &recs[0].op, sent, len,
						 0));
			iov[0] = (struct iovec){ sent + len, len / 3 };
			iov[1] = (struct iovec){ NULL, 0 };
			iov[2] = (struct iovec){ sent + len + len / 3, len };
			STARTS(weir_stream_writev(s, &recs[1].op, iov, 3, 0));
			at = 2 * len + len / 3;
			STARTS(weir_stream_write(s, &recs[2].op, sent + at, 3,
						 0));
			STARTS(weir_stream_shutdown(s, &recs[3].op));
			sum = at + 3;
			hear_all(r, fd[1], got, sum);
			assert_memory_equal(got, sent, sum);
			UNTIL(r, recs[3].calls);
			assert_int_equal(recs[0].res, len);
			assert_int_equal(recs[1].res, len + len / 3);
			assert_int_equal(recs[1].detail.bytes, len + len / 3);
			assert_int_equal(recs[2].res, 3);
			assert_int_equal(recs[3].res, 0);
			assert_int_equal(read(fd[1], got, 1), 0);
			end_stream(r, s);
			close(fd[1]);
		}
	}
}

/* A peer that reads nothing: one write after the other, until one waits. */
static size_t write_until_full(struct weir_reactor *r, struct weir_stream *s,
			       const char *data, size_t len, size_t *waits)
{
	size_t sum = 0, n = 0;

	for (;; n++) {
		rec_init(&rec);
		STARTS(weir_stream_write(s, &rec.op, data, len, 0));
		/* In a world its bytes may be late. */
		some_turns(r, harness_sim ? 1000 : 6);
		if (!rec.calls)
			break;
		assert_int_equal(rec.res, len);
		sum += len;
		assert_true(n < 100000);
	}
	*waits = n;
	return sum;
}

static void write_waits_for_capacity(void **state)
{
	static char data[1000], got[1000];
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *s;
	size_t sum, n, k;
	int fd[2];

	s = small(r, fd, 16, 4096);
	sum = write_until_full(r, s, data, sizeof(data), &n);
	assert_true(weir_stream_unsent(s) > 3000);
	assert_true(weir_stream_unsent(s) <= 4096);
	assert_int_equal(weir_stream_put(s, data, 1, 0), -EAGAIN);
	for (k = 0; !rec.calls; k++) {
		hear(fd[1], got, sizeof(got));
		some_turns(r, 2);
		assert_true(k < 100000);
	}
	assert_int_equal(rec.res, sizeof(data));
	assert_true(weir_stream_unsent(s) <= 4096);
	assert_true(sum >= k);
	end_stream(r, s);
	close(fd[1]);
}

static void cancelled_write_tells_what_is_in_the_stream(void **state)
{
	static char data[20000], got[20000];
	struct weir_reactor *r = start_reactor(state);
	size_t sum, n, heard = 0, more;
	struct weir_stream *s;
	struct rec behind;
	int fd[2];

	fill_pattern(data, sizeof(data), 0, 7);
	s = small(r, fd, 16, 4096);
	sum = write_until_full(r, s, data, sizeof(data), &n);
	rec_init(&behind);
	STARTS(weir_stream_write(s, &behind.op, "tail", 4, 0));
	assert_int_equal(weir_op_cancel(&behind.op), 0);
	assert_int_equal(result(r, &behind), -ECANCELED);
	assert_int_equal(behind.detail.bytes, 0);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(result(r, &rec), -ECANCELED);
	assert_true(rec.detail.bytes < sizeof(data));
	sum += rec.detail.bytes;
	rec_init(&behind);
	STARTS(weir_stream_shutdown(s, &behind.op));
	UNTIL(r, ({
		more = hear(fd[1], got, sizeof(got));
		for (size_t i = 0; i < more; i++)
			assert_int_equal(got[i],
					 data[(heard + i) % sizeof(data)]);
		heard += more;
		heard >= sum && behind.calls;
	}));
	assert_int_equal(heard, sum);
	assert_int_equal(behind.res, 0);
	assert_int_equal(read(fd[1], got, 1), 0);
	end_stream(r, s);
	close(fd[1]);
}

static void held_bytes_wait_for_more(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char got[16];
	struct weir_stream *s;
	int fd[2];

	s = small(r, fd, 16, 16);
	assert_int_equal(weir_stream_put(s, "ab", 2, WEIR_STREAM_MORE), 0);
	assert_int_equal(RUN(r, weir_stream_write(s, &rec.op, "cd", 2,
						  WEIR_STREAM_MORE)), 2);
	some_turns(r, 3);
	assert_int_equal(hear(fd[1], got, 16), 0);
	assert_int_equal(weir_stream_unsent(s), 4);
	assert_int_equal(RUN(r, weir_stream_flush(s, &rec.op)), 0);
	assert_int_equal(weir_stream_unsent(s), 0);
	hear_all(r, fd[1], got, 4);
	assert_memory_equal(got, "abcd", 4);
	/* A buffer that is full is sent, whatever follows. */
	assert_int_equal(weir_stream_put(s, "0123456789", 10,
					 WEIR_STREAM_MORE), 0);
	assert_int_equal(weir_stream_put(s, "0123456789", 10, 0), -EAGAIN);
	hear_all(r, fd[1], got, 10);
	assert_int_equal(weir_stream_put(s, "01234567890123456", 17, 0),
			 -EMSGSIZE);
	assert_int_equal(RUN(r, weir_stream_write(s, &rec.op,
						  "0123456789abcdef", 8,
						  WEIR_STREAM_MORE)), 8);
	assert_int_equal(RUN(r, weir_stream_write(s, &rec.op,
						  "89abcdef", 8, 0)), 8);
	hear_all(r, fd[1], got, 16);
	assert_memory_equal(got, "0123456789abcdef", 16);
	end_stream(r, s);
	close(fd[1]);
}

static void stream_that_was_shut_refuses_writes(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *s;
	char buf[8];
	int fd[2];

	s = small(r, fd, 16, 16);
	assert_int_equal(weir_stream_put(s, "last", 4, WEIR_STREAM_MORE), 0);
	assert_int_equal(RUN(r, weir_stream_shutdown(s, &rec.op)), 0);
	hear_all(r, fd[1], buf, 4);
	assert_int_equal(read(fd[1], buf, 1), 0);
	assert_int_equal(weir_stream_put(s, "x", 1, 0), -EPIPE);
	assert_int_equal(RUN(r, weir_stream_write(s, &rec.op, "x", 1, 0)),
			 -EPIPE);
	assert_int_equal(RUN(r, weir_stream_shutdown(s, &rec.op)), 0);
	assert_int_equal(RUN(r, weir_stream_flush(s, &rec.op)), 0);
	say(fd[1], "back", 4);
	assert_int_equal(RUN(r, weir_stream_read_exact(s, &rec.op, buf, 4)), 4);
	end_stream(r, s);
	close(fd[1]);
}

/* They end together, and one that is cancelled leaves it to the other. */
static void second_shutdown_waits_for_the_first(void **state)
{
	static char data[1 << 20], got[1 << 20];
	struct weir_reactor *r = start_reactor(state);
	struct rec write, shut[2];
	struct weir_stream *s;
	int fd[2];

	for (int cancels = 0; cancels < 2; cancels++) {
		s = small(r, fd, 16, 64);
		rec_init(&write);
		STARTS(weir_stream_write(s, &write.op, data, sizeof(data), 0));
		for (int i = 0; i < 2; i++) {
			rec_init(&shut[i]);
			STARTS(weir_stream_shutdown(s, &shut[i].op));
		}
		some_turns(r, 5);
		assert_int_equal(shut[1].calls, 0);
		if (cancels) {
			assert_int_equal(weir_op_cancel(&shut[0].op), 0);
			assert_int_equal(result(r, &shut[0]), -ECANCELED);
		}
		assert_int_equal(weir_stream_put(s, "x", 1, 0), -EPIPE);
		hear_all(r, fd[1], got, sizeof(got));
		assert_int_equal(result(r, &shut[1]), 0);
		assert_int_equal(result(r, &shut[0]), cancels ? -ECANCELED : 0);
		assert_int_equal(read(fd[1], got, 1), 0);
		end_stream(r, s);
		close(fd[1]);
	}
}

static void broken_connection_fails_all_writes(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec recs[3];
	static char data[100000];
	struct weir_stream *s;
	int fd[2];

	s = small(r, fd, 16, 1024);
	for (int i = 0; i < 3; i++) {
		rec_init(&recs[i]);
		STARTS(weir_stream_write(s, &recs[i].op, data, sizeof(data),
					 0));
	}
	some_turns(r, 3);
	close(fd[1]);
	UNTIL(r, recs[2].calls);
	assert_true(recs[2].res == -EPIPE || recs[2].res == -ECONNRESET);
	assert_int_equal(weir_stream_put(s, data, 1, 0), (int)recs[2].res);
	assert_int_equal(RUN(r, weir_stream_flush(s, &rec.op)), recs[2].res);
	end_stream(r, s);
}

static void descriptors_with_one_direction_have_one(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *in, *out;
	struct weir_stream_opts keep = {
		.size = sizeof(keep), .flags = WEIR_STREAM_KEEP_FDS,
	};
	char buf[8];
	int fd[2];

	pipe_pair(fd);
	assert_int_equal(weir_stream_create_fd(&in, r, fd[0], -1, NULL), 0);
	assert_int_equal(weir_stream_create_fd(&out, r, -1, fd[1], NULL), 0);
	assert_int_equal(weir_stream_read(out, &rec.op, buf, 1), -EOPNOTSUPP);
	assert_int_equal(weir_stream_write(in, &rec.op, buf, 1, 0),
			 -EOPNOTSUPP);
	assert_int_equal(weir_stream_pipe(out, &rec.op, in, 1, 0), -EOPNOTSUPP);
	assert_int_equal(RUN(r, weir_stream_write(out, &rec.op, "pipes", 5,
						  0)), 5);
	assert_int_equal(RUN(r, weir_stream_shutdown(out, &rec.op)), 0);
	assert_int_equal(RUN(r, weir_stream_read_exact(in, &rec.op, buf, 8)),
			 5);
	assert_int_equal(RUN(r, weir_stream_read(in, &rec.op, buf, 8)), 0);
	end_stream(r, in);
	end_stream(r, out);
	/* The program's descriptors stay open. */
	pipe_pair(fd);
	assert_int_equal(weir_stream_create_fd(&out, r, fd[0], fd[1], &keep),
			 0);
	assert_int_equal(RUN(r, weir_stream_shutdown(out, &rec.op)), 0);
	end_stream(r, out);
	say(fd[1], "open", 4);
	close_pair(fd);
}

static void file_is_read_to_its_end(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 5000, 9);
	int to = test_file(state, "copy", 0, 0);
	struct weir_stream *in, *out;
	char buf[5001];

	assert_int_equal(weir_stream_create_fd(&in, r, fd, -1, NULL), 0);
	assert_int_equal(weir_stream_create_fd(&out, r, -1, to, NULL), 0);
	assert_int_equal(RUN(r, weir_stream_pipe(in, &rec.op, out,
						 WEIR_FOREVER,
						 WEIR_STREAM_KEEP_OPEN)),
			 5000);
	assert_int_equal(RUN(r, weir_stream_flush(out, &rec.op)), 0);
	assert_int_equal(pread(to, buf, sizeof(buf), 0), 5000);
	assert_true(is_pattern(buf, 5000, 0, 9));
	end_stream(r, in);
	end_stream(r, out);
}

/* ---- Files ---- */

/* The file's bytes from @off, after "head", to a peer that hears all. */
static void send_part(struct weir_reactor *r, int fd, size_t off, size_t len, size_t want)
{
	static char got[4 << 20];
	struct rec last;
	struct weir_stream *s;
	int pair[2];

	tcp_pair(pair);
	assert_int_equal(weir_stream_create_fd(&s, r, pair[0], pair[0], NULL),
			 0);
	rec_init(&rec);
	rec_init(&last);
	assert_int_equal(weir_stream_put(s, "head", 4, WEIR_STREAM_MORE), 0);
	STARTS(weir_stream_sendfile(s, &rec.op, fd, off, len, 0));
	STARTS(weir_stream_write(s, &last.op, "tail", 4, 0));
	hear_all(r, pair[1], got, want + 8);
	UNTIL(r, last.calls && rec.calls);
	assert_int_equal(rec.res, want);
	assert_int_equal(rec.detail.bytes, want);
	assert_memory_equal(got, "head", 4);
	assert_true(is_pattern(got + 4, want, off, 11));
	assert_memory_equal(got + 4 + want, "tail", 4);
	end_stream(r, s);
	close(pair[1]);
}

static void file_is_sent_to_a_socket(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	size_t size = 3000001;
	int fd = test_file(state, "file", size, 11);

	send_part(r, fd, 0, size, size);
	send_part(r, fd, 0, size + 99, size);
	send_part(r, fd, 1234567, 1 << 20, 1 << 20);
	send_part(r, fd, size - 1, 5, 1);
	send_part(r, fd, size, 5, 0);
	send_part(r, fd, size + 7, 5, 0);
	send_part(r, fd, 7, 0, 0);
	for (size_t len = 1; len < 200000; len = len * 3 + 1)
		send_part(r, fd, len / 2, len, len);
	close(fd);
}

/* Whether the kernel tells that the last byte of the file is in the page cache. */
static bool kernel_tells_of_cache(int fd, size_t size)
{
	uint64_t range[2] = { 0, size }, counts[5] = { 0 };
	char byte;
	struct iovec v = { &byte, 1 };

	return !syscall(451, fd, range, counts, 0) && counts[0] &&
	       preadv2(fd, &v, 1, (off_t)size - 1, RWF_NOWAIT) == 1;
}

/* So the bytes are not in the output buffer. */
static void file_in_the_page_cache_is_not_copied(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	static char got[200000], out[4096];
	struct weir_stream_opts opts = {
		.size = sizeof(opts), .out = out, .out_size = sizeof(out),
	};
	int fd = test_file(state, "file", sizeof(got), 11), pair[2];
	struct weir_stream *s;

	memset(out, 0, sizeof(out));
	tcp_pair(pair);
	assert_int_equal(weir_stream_create_fd(&s, r, pair[0], pair[0], &opts),
			 0);
	rec_init(&rec);
	STARTS(weir_stream_sendfile(s, &rec.op, fd, 0, sizeof(got), 0));
	hear_all(r, pair[1], got, sizeof(got));
	assert_int_equal(result(r, &rec), sizeof(got));
	assert_true(is_pattern(got, sizeof(got), 0, 11));
	if (kernel_tells_of_cache(fd, sizeof(got)))
		assert_memory_equal(out, (char[sizeof(out)]){ 0 }, sizeof(out));
	end_stream(r, s);
	close(pair[1]);
	close(fd);
}

/* Nothing of it is in the page cache, where the file system can do that. */
static void file_that_is_on_disk_is_sent(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 3000000, 11);

	if (!harness_sim) {
		assert_int_equal(fsync(fd), 0);
		assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED),
				 0);
	}
	send_part(r, fd, 0, 3000000, 3000000);
	close(fd);
}

static void file_is_sent_to_a_pipe(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 300000, 13), pair[2];
	static char got[300000];
	struct weir_stream *in, *out;

	pipe_pair(pair);
	assert_int_equal(weir_stream_create_fd(&in, r, pair[0], -1, NULL), 0);
	assert_int_equal(weir_stream_create_fd(&out, r, -1, pair[1], NULL), 0);
	rec_init(&rec);
	STARTS(weir_stream_sendfile(out, &rec.op, fd, 100, 400000, 0));
	{
		struct rec all;

		rec_init(&all);
		STARTS(weir_stream_read_exact(in, &all.op, got, 299900));
		assert_int_equal(result(r, &all), 299900);
	}
	assert_int_equal(result(r, &rec), 299900);
	assert_true(is_pattern(got, 299900, 100, 13));
	end_stream(r, in);
	end_stream(r, out);
	close(fd);
}

static void cancelled_file_tells_what_was_sent(void **state)
{
	static char got[65536];
	struct weir_reactor *r = start_reactor(state);
	size_t size = 20 << 20, heard = 0, n;
	int fd = test_file(state, "file", size, 15), pair[2];
	struct weir_stream *s;
	struct rec shut;

	tcp_pair(pair);
	assert_int_equal(weir_stream_create_fd(&s, r, pair[0], pair[0], NULL),
			 0);
	rec_init(&rec);
	rec_init(&shut);
	STARTS(weir_stream_sendfile(s, &rec.op, fd, 0, size, 0));
	some_turns(r, 30);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(result(r, &rec), -ECANCELED);
	assert_true(rec.detail.bytes > 0);
	assert_true(rec.detail.bytes < size);
	STARTS(weir_stream_shutdown(s, &shut.op));
	UNTIL(r, ({
		n = hear(pair[1], got, sizeof(got));
		assert_true(is_pattern(got, n, heard, 15));
		heard += n;
		shut.calls && heard >= rec.detail.bytes;
	}));
	assert_int_equal(heard, rec.detail.bytes);
	end_stream(r, s);
	close(pair[1]);
	close(fd);
}

static volatile sig_atomic_t sigpipes;

static void on_sigpipe(int signo)
{
	(void)signo;
	sigpipes++;
}

/* The kernel refuses the second part of the first call, after sending one. */
static void file_to_a_peer_that_left_raises_no_signal(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 3 << 20, 1), pair[2];
	struct weir_stream *s;

	sigpipes = 0;
	signal(SIGPIPE, on_sigpipe);
	for (int i = 0; i < 20; i++) {
		tcp_pair(pair);
		assert_int_equal(weir_stream_create_fd(&s, r, pair[0], pair[0],
						       NULL), 0);
		close(pair[1]);
		rec_init(&rec);
		STARTS(weir_stream_sendfile(s, &rec.op, fd, 0, 3 << 20, 0));
		result(r, &rec);
		assert_true(rec.res == -EPIPE || rec.res == -ECONNRESET);
		end_stream(r, s);
	}
	assert_int_equal(sigpipes, 0);
	signal(SIGPIPE, SIG_DFL);
	close(fd);
}

static void file_that_cannot_be_read_fails_its_send_alone(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *s;
	char buf[4];
	int fd[2];

	s = small(r, fd, 16, 16);
	assert_int_equal(RUN(r, weir_stream_sendfile(s, &rec.op, -1, 0, 5, 0)),
			 -EBADF);
	assert_int_equal(RUN(r, weir_stream_write(s, &rec.op, "on", 2, 0)), 2);
	hear_all(r, fd[1], buf, 2);
	end_stream(r, s);
	close(fd[1]);
}

/* ---- From one to another ---- */

static void pipe_moves_all_and_the_end(void **state)
{
	static char sent[200000], got[200000];
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *from, *to;
	size_t said = 0, heard = 0;
	int a[2], b[2];
	ssize_t n;

	fill_pattern(sent, sizeof(sent), 0, 17);
	from = small(r, a, 1000, 16);
	to = small(r, b, 16, 700);
	set_nonblock(a[1]);
	rec_init(&rec);
	STARTS(weir_stream_pipe(from, &rec.op, to, WEIR_FOREVER, 0));
	UNTIL(r, ({
		n = said < sizeof(sent) ?
			    write(a[1], sent + said, sizeof(sent) - said) : 0;
		if (n > 0 && (said += (size_t)n) == sizeof(sent))
			shutdown(a[1], SHUT_WR);
		heard += hear(b[1], got + heard, 3001 < sizeof(got) - heard ?
			      3001 : sizeof(got) - heard);
		rec.calls && heard == sizeof(got);
	}));
	assert_int_equal(rec.res, sizeof(sent));
	assert_memory_equal(got, sent, sizeof(sent));
	assert_int_equal(read(b[1], got, 1), 0);
	end_stream(r, from);
	end_stream(r, to);
	close(a[1]);
	close(b[1]);
}

static void pipe_ends_at_its_limit(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *from, *to;
	char buf[16];
	int a[2], b[2];

	from = small(r, a, 16, 16);
	to = small(r, b, 16, 16);
	say(a[1], "0123456789", 10);
	assert_int_equal(RUN(r, weir_stream_pipe(from, &rec.op, to, 4, 0)), 4);
	assert_int_equal(RUN(r, weir_stream_write(to, &rec.op, "|", 1, 0)), 1);
	hear_all(r, b[1], buf, 5);
	assert_memory_equal(buf, "0123|", 5);
	expect_buffered(from, "456789");
	shutdown(a[1], SHUT_WR);
	assert_int_equal(RUN(r, weir_stream_pipe(from, &rec.op, to, 100,
						 WEIR_STREAM_KEEP_OPEN)), 6);
	assert_int_equal(RUN(r, weir_stream_write(to, &rec.op, "open", 4, 0)),
			 4);
	hear_all(r, b[1], buf, 10);
	assert_memory_equal(buf, "456789open", 10);
	end_stream(r, from);
	end_stream(r, to);
	close(a[1]);
	close(b[1]);
}

static void pipe_refuses_what_follows_its_shutdown(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec write, flush, shut, pipe;
	struct weir_stream *from, *to, *other;
	int a[2], b[2], c[2];
	char buf[8];

	from = small(r, a, 16, 16);
	to = small(r, b, 16, 16);
	other = small(r, c, 16, 16);
	rec_init(&rec);
	rec_init(&write);
	rec_init(&flush);
	rec_init(&shut);
	rec_init(&pipe);
	STARTS(weir_stream_pipe(from, &rec.op, to, WEIR_FOREVER, 0));
	STARTS(weir_stream_write(to, &write.op, "lost", 4, 0));
	STARTS(weir_stream_flush(to, &flush.op));
	STARTS(weir_stream_pipe(other, &pipe.op, to, WEIR_FOREVER, 0));
	STARTS(weir_stream_shutdown(to, &shut.op));
	say(a[1], "piped", 5);
	shutdown(a[1], SHUT_WR);
	assert_int_equal(result(r, &rec), 5);
	assert_int_equal(rec.detail.code, 0);
	assert_int_equal(result(r, &write), -EPIPE);
	assert_int_equal(write.detail.bytes, 0);
	assert_int_equal(result(r, &flush), 0);
	assert_int_equal(result(r, &pipe), -EPIPE);
	assert_int_equal(pipe.detail.code, WEIR_STREAM_TO);
	assert_int_equal(result(r, &shut), 0);
	hear_all(r, b[1], buf, 5);
	assert_memory_equal(buf, "piped", 5);
	assert_int_equal(read(b[1], buf, 1), 0);
	end_stream(r, from);
	end_stream(r, to);
	end_stream(r, other);
	close(a[1]);
	close(b[1]);
	close(c[1]);
}

static void cancelled_pipe_loses_no_bytes(void **state)
{
	static char sent[100000], got[100001];
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *from, *to;
	size_t said = 0, heard = 0, rest;
	int a[2], b[2];
	ssize_t n;

	fill_pattern(sent, sizeof(sent), 0, 19);
	from = small(r, a, 4096, 16);
	to = small(r, b, 16, 512);
	set_nonblock(a[1]);
	n = write(a[1], sent, sizeof(sent));
	assert_true(n > 0);
	said = (size_t)n;
	rec_init(&rec);
	STARTS(weir_stream_pipe(from, &rec.op, to, WEIR_FOREVER, 0));
	some_turns(r, 7);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(result(r, &rec), -ECANCELED);
	assert_true(rec.detail.bytes <= said);
	shutdown(a[1], SHUT_WR);
	rest = said - rec.detail.bytes;
	{
		struct rec left;

		rec_init(&left);
		STARTS(weir_stream_read_exact(from, &left.op, got +
					      rec.detail.bytes, rest + 1));
		UNTIL(r, ({
			heard += hear(b[1], got + heard,
				      rec.detail.bytes - heard);
			left.calls && heard == rec.detail.bytes;
		}));
		assert_int_equal(left.res, rest);
	}
	assert_memory_equal(got, sent, said);
	end_stream(r, from);
	end_stream(r, to);
	close(a[1]);
	close(b[1]);
}

static void pipe_tells_which_side_failed(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *from, *to;
	int a[2], b[2];

	from = small(r, a, 16, 16);
	to = small(r, b, 16, 16);
	close(b[1]);
	say(a[1], "0123456789", 10);
	rec_init(&rec);
	STARTS(weir_stream_pipe(from, &rec.op, to, WEIR_FOREVER, 0));
	assert_true(result(r, &rec) < 0);
	assert_int_equal(rec.detail.code, WEIR_STREAM_TO);
	assert_int_equal(RUN(r, weir_stream_pipe(from, &rec.op, to, 1, 0)),
			 rec.res);
	assert_int_equal(rec.detail.code, WEIR_STREAM_TO);
	end_stream(r, from);
	end_stream(r, to);
	close(a[1]);
}

static void closed_stream_ends_its_pipe(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *from, *to;
	int a[2], b[2];

	for (int which = 0; which < 2; which++) {
		from = small(r, a, 16, 16);
		to = small(r, b, 16, 16);
		rec_init(&rec);
		STARTS(weir_stream_pipe(from, &rec.op, to, WEIR_FOREVER, 0));
		some_turns(r, 2);
		end_stream(r, which ? from : to);
		assert_int_equal(rec.calls, 1);
		assert_int_equal(rec.res, -ECANCELED);
		end_stream(r, which ? to : from);
		close(a[1]);
		close(b[1]);
	}
}

/* ---- Transports of the program's ---- */

/* Bytes come back, at most .step at a time; errors when asked. */
struct loop {
	struct weir_reactor *r;
	struct weir_stream *s;
	struct weir_op *waits;		/* A receive, for bytes. */
	char *to;
	size_t to_len;
	char bytes[256];
	size_t len, step;
	int refuse, fail, closed;
	bool close_inside;		/* .recv closes the stream. */
	bool ended;
};

static void loop_give(struct loop *l)
{
	size_t n = l->len < l->to_len ? l->len : l->to_len;
	struct weir_op *op = l->waits;

	n = n < l->step ? n : l->step;
	if (!op || (!n && !l->ended && !l->fail))
		return;
	l->waits = NULL;
	if (n) {
		memcpy(l->to, l->bytes, n);
		memmove(l->bytes, l->bytes + n, l->len - n);
		l->len -= n;
	}
	weir_op_finish(op, n ? (int64_t)n : l->fail);
}

static void loop_cancel(struct weir_op *op, void *arg)
{
	struct loop *l = arg;

	l->waits = NULL;
	weir_op_finish(op, -ECANCELED);
}

static int loop_recv(void *arg, struct weir_op *op, void *buf, size_t len)
{
	struct loop *l = arg;
	int err;

	if (l->refuse)
		return l->refuse;
	if (l->close_inside) {
		l->close_inside = false;
		weir_stream_close(l->s, NULL);
	}
	err = weir_op_start(l->r, op, loop_cancel, l);
	if (err)
		return err;
	l->waits = op;
	l->to = buf;
	l->to_len = len;
	loop_give(l);
	return 0;
}

static int loop_send(void *arg, struct weir_op *op, const struct iovec *iov,
		     uint32_t n, uint32_t flags)
{
	struct loop *l = arg;
	size_t sum = 0;
	int err = weir_op_start(l->r, op, NULL, NULL);

	(void)flags;
	if (err)
		return err;
	for (uint32_t i = 0; i < n; i++) {
		assert_true(l->len + iov[i].iov_len <= sizeof(l->bytes));
		memcpy(l->bytes + l->len, iov[i].iov_base, iov[i].iov_len);
		l->len += iov[i].iov_len;
		sum += iov[i].iov_len;
	}
	weir_op_finish(op, (int64_t)sum);
	loop_give(l);
	return 0;
}

static int loop_shutdown(void *arg, struct weir_op *op)
{
	struct loop *l = arg;
	int err = weir_op_start(l->r, op, NULL, NULL);

	if (err)
		return err;
	l->ended = true;
	weir_op_finish(op, 0);
	loop_give(l);
	return 0;
}

static int loop_close(void *arg, struct weir_op *op)
{
	struct loop *l = arg;
	int err = weir_op_start(l->r, op, NULL, NULL);

	l->closed++;
	if (err)
		return err;
	weir_op_finish(op, -EIO);
	return 0;
}

static const struct weir_stream_ops loop_ops = {
	.size = sizeof(loop_ops), .name = "loop", .recv = loop_recv,
	.send = loop_send, .shutdown = loop_shutdown, .close = loop_close,
};

static void transport_of_the_program_moves_bytes(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct loop l = { .r = r, .step = 1 };
	struct weir_stream_ops others = loop_ops;
	struct rec closed;
	char buf[64];

	assert_int_equal(weir_stream_create(&l.s, r, &loop_ops, &l, NULL), 0);
	assert_ptr_equal(weir_stream_transport(l.s, &loop_ops), &l);
	others.recv = NULL;
	assert_null(weir_stream_transport(l.s, &others));
	assert_int_equal(RUN(r, weir_stream_write(l.s, &rec.op, "one\ntwo\n", 8,
						  0)), 8);
	assert_int_equal(RUN(r, weir_stream_read_until(l.s, &rec.op, buf, 64,
						       "\n", 1)), 4);
	assert_int_equal(RUN(r, weir_stream_read_until(l.s, &rec.op, buf, 64,
						       "\n", 1)), 4);
	assert_memory_equal(buf, "two\n", 4);
	assert_int_equal(RUN(r, weir_stream_shutdown(l.s, &rec.op)), 0);
	assert_int_equal(RUN(r, weir_stream_read(l.s, &rec.op, buf, 64)), 0);
	rec_init(&closed);
	STARTS(weir_stream_close(l.s, &closed.op));
	assert_int_equal(result(r, &closed), -EIO);
	assert_int_equal(l.closed, 1);
}

/* Sends end when the test says so. */
static struct weir_op *held;

static int held_send(void *arg, struct weir_op *op, const struct iovec *iov,
		     uint32_t n, uint32_t flags)
{
	(void)iov, (void)n, (void)flags;
	held = op;
	return weir_op_start(arg, op, NULL, NULL);
}

struct refusing {
	struct weir_reactor *r;
	int refusals, calls;
	bool late;			/* By a completion. */
	uint32_t flags;			/* Of the last send. */
};

/* Refuses @op, or completes it with @res. */
static int refusing_end(struct refusing *l, struct weir_op *op, int64_t res)
{
	bool refused = l->calls++ < l->refusals;
	int err = refused && !l->late ? -EAGAIN :
					weir_op_start(l->r, op, NULL, NULL);

	if (!err)
		weir_op_finish(op, refused ? -EAGAIN : res);
	return err;
}

static int refusing_recv(void *arg, struct weir_op *op, void *buf, size_t len)
{
	memset(buf, 'x', len);
	return refusing_end(arg, op, (int64_t)len);
}

static int refusing_send(void *arg, struct weir_op *op, const struct iovec *iov,
			 uint32_t n, uint32_t flags)
{
	size_t sum = 0;

	((struct refusing *)arg)->flags = flags;
	for (uint32_t i = 0; i < n; i++)
		sum += iov[i].iov_len;
	return refusing_end(arg, op, (int64_t)sum);
}

/* The kernel delays a part that it is told more follows. */
static void pipe_that_keeps_open_does_not_delay_bytes(void **state)
{
	static const struct weir_stream_ops ops = {
		.size = sizeof(ops), .name = "refusing", .send = refusing_send,
	};
	struct weir_reactor *r = start_reactor(state);
	struct refusing l = { .r = r, .flags = WEIR_STREAM_MORE };
	struct weir_stream *from, *to;
	int fd[2];

	from = small(r, fd, 16, 16);
	assert_int_equal(weir_stream_create(&to, r, &ops, &l, NULL), 0);
	say(fd[1], "hello", 5);
	rec_init(&rec);
	STARTS(weir_stream_pipe(from, &rec.op, to, WEIR_FOREVER,
				WEIR_STREAM_KEEP_OPEN));
	UNTIL(r, l.calls);
	assert_int_equal(l.flags, 0);
	shutdown(fd[1], SHUT_WR);
	assert_int_equal(finish(r, &rec), 5);
	end_stream(r, from);
	end_stream(r, to);
	close(fd[1]);
}

/* The bytes stay for the next call: that of a flush, here. */
static void refused_send_is_not_tried_again_at_once(void **state)
{
	static const struct weir_stream_ops ops = {
		.size = sizeof(ops), .name = "refusing", .send = refusing_send,
	};
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *s;

	for (int late = 0; late < 2; late++) {
		struct refusing l = { .r = r, .refusals = 2, .late = late };

		assert_int_equal(weir_stream_create(&s, r, &ops, &l, NULL), 0);
		assert_int_equal(weir_stream_put(s, "hello", 5, 0), 0);
		some_turns(r, 3);
		assert_int_equal(l.calls, 1);
		assert_int_equal(weir_stream_unsent(s), 5);
		assert_int_equal(RUN(r, weir_stream_flush(s, &rec.op)),
				 -EAGAIN);
		assert_int_equal(RUN(r, weir_stream_flush(s, &rec.op)), 0);
		assert_int_equal(l.calls, 3);
		assert_int_equal(weir_stream_unsent(s), 0);
		end_stream(r, s);
	}
}

static void refused_receive_fails_the_read_that_waits(void **state)
{
	static const struct weir_stream_ops ops = {
		.size = sizeof(ops), .name = "refusing", .recv = refusing_recv,
	};
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *s, *to;
	char buf[64];
	int fd[2];

	to = small(r, fd, 64, 64);
	for (int late = 0; late < 2; late++) {
		struct refusing l = { .r = r, .refusals = 3, .late = late };

		assert_int_equal(weir_stream_create(&s, r, &ops, &l,
				 &(struct weir_stream_opts){
					 .size = sizeof(struct
							weir_stream_opts),
					 .in_size = 32 }), 0);
		assert_int_equal(RUN(r, weir_stream_read(s, &rec.op, buf, 8)),
				 -EAGAIN);
		assert_int_equal(RUN(r, weir_stream_read_exact(s, &rec.op, buf,
							       64)), -EAGAIN);
		assert_int_equal(RUN(r, weir_stream_pipe(s, &rec.op, to, 9,
							 0)), -EAGAIN);
		assert_int_equal(rec.detail.code, WEIR_STREAM_FROM);
		assert_int_equal(l.calls, 3);
		assert_int_equal(RUN(r, weir_stream_read(s, &rec.op, buf, 8)),
				 8);
		end_stream(r, s);
	}
	end_stream(r, to);
	close(fd[1]);
}

/* Each function of a transport cancels what it is called for. */
struct inside {
	struct weir_reactor *r;
	struct weir_op *cancel;
};

static void inside_cancelled(struct weir_op *op, void *arg)
{
	(void)arg;
	weir_op_finish(op, -ECANCELED);
}

static int inside_begin(struct inside *l, struct weir_op *op)
{
	assert_int_equal(weir_op_cancel(l->cancel), 0);
	return weir_op_start(l->r, op, inside_cancelled, l);
}

static int inside_recv(void *arg, struct weir_op *op, void *buf, size_t len)
{
	(void)buf, (void)len;
	return inside_begin(arg, op);
}

static int inside_send(void *arg, struct weir_op *op, const struct iovec *iov,
		       uint32_t n, uint32_t flags)
{
	(void)iov, (void)n, (void)flags;
	return inside_begin(arg, op);
}

static int inside_shutdown(void *arg, struct weir_op *op)
{
	return inside_begin(arg, op);
}

static void transport_may_cancel_what_it_is_called_for(void **state)
{
	static const struct weir_stream_ops ops = {
		.size = sizeof(ops), .name = "inside", .recv = inside_recv,
		.send = inside_send, .shutdown = inside_shutdown,
	};
	struct weir_stream_opts opts = {
		.size = sizeof(opts), .in_size = 16, .out_size = 16,
	};
	struct weir_reactor *r = start_reactor(state);
	struct inside l = { .r = r, .cancel = &rec.op };
	struct weir_stream *s;
	char buf[64] = "";

	assert_int_equal(weir_stream_create(&s, r, &ops, &l, &opts), 0);
	assert_int_equal(RUN(r, weir_stream_read(s, &rec.op, buf, 64)),
			 -ECANCELED);
	assert_int_equal(RUN(r, weir_stream_read(s, &rec.op, buf, 8)),
			 -ECANCELED);
	assert_int_equal(RUN(r, weir_stream_write(s, &rec.op, buf, 64, 0)),
			 -ECANCELED);
	assert_int_equal(RUN(r, weir_stream_shutdown(s, &rec.op)), -ECANCELED);
	end_stream(r, s);
}

static void writes_go_on_at_the_low_mark(void **state)
{
	static const struct weir_stream_ops ops = {
		.size = sizeof(ops), .name = "held", .send = held_send,
	};
	struct weir_stream_opts opts = {
		.size = sizeof(opts), .out_size = 64, .out_low = 20,
	};
	struct weir_reactor *r = start_reactor(state);
	static const char data[60];
	struct weir_stream *s;

	assert_int_equal(weir_stream_create(&s, r, &ops, r, &opts), 0);
	assert_int_equal(weir_stream_put(s, data, 30, 0), 0);
	assert_int_equal(weir_stream_put(s, data, 30, 0), 0);
	rec_init(&rec);
	STARTS(weir_stream_write(s, &rec.op, data, 10, 0));
	assert_int_equal(weir_stream_unsent(s), 64);
	/* 34 bytes are left, more than the mark. */
	weir_op_finish(held, 30);
	some_turns(r, 3);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(weir_stream_unsent(s), 34);
	weir_op_finish(held, 34);
	assert_int_equal(result(r, &rec), 10);
	weir_op_finish(held, 6);
	end_stream(r, s);
}

static void error_comes_after_the_bytes_before_it(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct loop l = { .r = r, .step = 100, .fail = -ECONNRESET };
	struct weir_stream *s;
	char buf[64];

	assert_int_equal(weir_stream_create(&s, r, &loop_ops, &l, NULL), 0);
	memcpy(l.bytes, "abc", l.len = 3);
	assert_int_equal(RUN(r, weir_stream_read_exact(s, &rec.op, buf, 9)),
			 -ECONNRESET);
	assert_int_equal(RUN(r, weir_stream_read_until(s, &rec.op, buf, 9, "\n",
						       1)), -ECONNRESET);
	assert_int_equal(RUN(r, weir_stream_read(s, &rec.op, buf, 9)), 3);
	assert_int_equal(RUN(r, weir_stream_read(s, &rec.op, buf, 9)),
			 -ECONNRESET);
	/* It is for good, as the bytes in between would be missing. */
	l.fail = 0;
	assert_int_equal(RUN(r, weir_stream_read(s, &rec.op, buf, 9)),
			 -ECONNRESET);
	l.refuse = -EPROTO;
	assert_int_equal(weir_stream_close(s, NULL), 0);
	UNTIL(r, l.closed);
	assert_int_equal(weir_stream_create(&s, r, &loop_ops, &l, NULL), 0);
	assert_int_equal(RUN(r, weir_stream_read(s, &rec.op, buf, 9)),
			 -EPROTO);
	assert_int_equal(weir_stream_close(s, NULL), 0);
	UNTIL(r, l.closed == 2);
}

static void transport_may_close_its_stream(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct loop l = { .r = r, .step = 100, .close_inside = true };
	char buf[8];

	assert_int_equal(weir_stream_create(&l.s, r, &loop_ops, &l, NULL), 0);
	assert_int_equal(RUN(r, weir_stream_read(l.s, &rec.op, buf, 8)),
			 -ECANCELED);
	UNTIL(r, l.closed);
	some_turns(r, 3);
}

/* ---- Its life ---- */

struct last {
	struct rec reads, writes, closed;
	struct weir_stream *s;
	int order;
};

static void on_last_read(struct weir_op *op, int64_t res)
{
	struct last *l = weir_container_of(op, struct last, reads.op);

	rec_done(op, res);
	if (l->s)
		assert_int_equal(weir_stream_close(l->s, &l->closed.op), 0);
	l->s = NULL;
}

static void callback_may_close_its_stream(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	static char data[1 << 20];
	struct last l;
	char buf[8];
	int fd[2];

	l.s = small(r, fd, 16, 16);
	rec_init(&l.reads);
	rec_init(&l.writes);
	rec_init(&l.closed);
	l.reads.op.fn = on_last_read;
	STARTS(weir_stream_read(l.s, &l.reads.op, buf, 8));
	STARTS(weir_stream_write(l.s, &l.writes.op, data, sizeof(data), 0));
	say(fd[1], "x", 1);
	UNTIL(r, l.closed.calls);
	assert_int_equal(l.reads.res, 1);
	assert_int_equal(l.writes.calls, 1);
	assert_int_equal(l.writes.res, -ECANCELED);
	assert_int_equal(l.closed.res, 0);
	close(fd[1]);
}

static void close_ends_all_operations_before_it(void **state)
{
	static char data[1 << 20], buf[1 << 16];
	struct weir_reactor *r = start_reactor(state);
	int file = test_file(state, "file", 1 << 20, 1), fd[2];
	struct rec recs[6], closed;
	struct weir_stream *s;

	for (int direct = 0; direct < 2; direct++) {
		s = small(r, fd, 32, 64);
		for (int i = 0; i < 6; i++)
			rec_init(&recs[i]);
		rec_init(&closed);
		STARTS(weir_stream_read_exact(s, &recs[0].op, buf,
					      direct ? sizeof(buf) : 30));
		STARTS(weir_stream_write(s, &recs[1].op, data, direct ?
					 sizeof(data) : 20, 0));
		STARTS(weir_stream_sendfile(s, &recs[2].op, file, 0, 1 << 20,
					    0));
		STARTS(weir_stream_write(s, &recs[3].op, data, 10, 0));
		STARTS(weir_stream_flush(s, &recs[4].op));
		STARTS(weir_stream_shutdown(s, &recs[5].op));
		some_turns(r, direct * 5);
		STARTS(weir_stream_close(s, &closed.op));
		assert_int_equal(result(r, &closed), 0);
		for (int i = 0; i < 6; i++) {
			assert_int_equal(recs[i].calls, 1);
			if (i != 1 || direct)
				assert_int_equal(recs[i].res, -ECANCELED);
		}
		close(fd[1]);
	}
	close(file);
}

static void buffers_of_the_program_are_its_own_again(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char *in = malloc(64), *out = malloc(64), buf[8];
	struct weir_stream_opts opts = {
		.size = sizeof(opts), .in = in, .out = out, .in_size = 64,
		.out_size = 64, .out_low = 10,
	};
	struct weir_stream *s;
	int fd[2];

	socket_pair(fd);
	assert_int_equal(weir_stream_create_fd(&s, r, fd[0], fd[0], &opts), 0);
	assert_int_equal(weir_stream_close(s, NULL), -EINVAL);
	rec_init(&rec);
	STARTS(weir_stream_read_exact(s, &rec.op, buf, 8));
	assert_int_equal(weir_stream_put(s, "bytes", 5, 0), 0);
	some_turns(r, 3);
	end_stream(r, s);
	memset(in, 1, 64);
	memset(out, 1, 64);
	free(in);
	free(out);
	assert_int_equal(rec.res, -ECANCELED);
	close(fd[1]);
}

static void stopped_reactor_cancels_and_closes(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	static char data[1 << 20];
	struct rec writes;
	struct weir_stream *s;
	char buf[8];
	int fd[2];

	s = small(r, fd, 16, 64);
	rec_init(&rec);
	rec_init(&writes);
	STARTS(weir_stream_read(s, &rec.op, buf, 8));
	STARTS(weir_stream_write(s, &writes.op, data, sizeof(data), 0));
	some_turns(r, 3);
	weir_reactor_stop(r);
	UNTIL(r, weir_reactor_state(r) == WEIR_REACTOR_STOPPED);
	assert_int_equal(rec.res, -ECANCELED);
	assert_int_equal(writes.calls, 1);
	assert_int_equal(weir_stream_read(s, &rec.op, buf, 8), -ESHUTDOWN);
	assert_int_equal(weir_stream_put(s, buf, 8, 0), -ESHUTDOWN);
	assert_int_equal(weir_reactor_destroy(r), -EBUSY);
	assert_non_null(strstr(weir_why(), "weir_stream"));
	assert_int_equal(weir_stream_close(s, NULL), 0);
	end_reactor(state);
	close(fd[1]);
}

static void transport_is_closed_in_a_stopped_reactor(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct loop l = { .r = r };
	struct weir_stream *s;

	assert_int_equal(weir_stream_create(&s, r, &loop_ops, &l, NULL), 0);
	weir_reactor_stop(r);
	UNTIL(r, weir_reactor_state(r) == WEIR_REACTOR_STOPPED);
	assert_int_equal(RUN(r, weir_stream_close(s, &rec.op)), -ESHUTDOWN);
	assert_int_equal(l.closed, 1);
}

static void restarted_reactor_goes_on_with_its_streams(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *s;
	char buf[8];
	int fd[2];

	s = small(r, fd, 16, 64);
	rec_init(&rec);
	STARTS(weir_stream_read_exact(s, &rec.op, buf, 8));
	say(fd[1], "abc", 3);
	some_turns(r, 4);
	weir_reactor_stop(r);
	UNTIL(r, weir_reactor_state(r) == WEIR_REACTOR_STOPPED);
	assert_int_equal(rec.res, -ECANCELED);
	assert_int_equal(weir_reactor_start(r), 0);
	say(fd[1], "defgh", 5);
	assert_int_equal(RUN(r, weir_stream_read_exact(s, &rec.op, buf, 8)), 8);
	assert_memory_equal(buf, "abcdefgh", 8);
	assert_int_equal(RUN(r, weir_stream_write(s, &rec.op, "on", 2, 0)), 2);
	hear_all(r, fd[1], buf, 2);
	end_stream(r, s);
	close(fd[1]);
}

static void stream_works_with_a_full_reactor(void **state)
{
	struct weir_reactor *r = start_reactor_with(state, (struct
				weir_reactor_opts){ .ops_max = 2 });
	struct rec writes;
	struct weir_stream *s;
	char buf[8];
	int fd[2];

	s = small(r, fd, 16, 16);
	rec_init(&rec);
	rec_init(&writes);
	STARTS(weir_stream_read_exact(s, &rec.op, buf, 4));
	STARTS(weir_stream_write(s, &writes.op, "0123456789abcdef0123", 20,
				 0));
	say(fd[1], "full", 4);
	assert_int_equal(result(r, &rec), 4);
	hear_all(r, fd[1], buf, 8);
	hear_all(r, fd[1], buf, 8);
	hear_all(r, fd[1], buf, 4);
	assert_int_equal(result(r, &writes), 20);
	end_stream(r, s);
	close(fd[1]);
}

/* Each operation of streams once: -ENOENT is no more. */
static int start_nth(int n, struct weir_stream *s, struct weir_stream *to,
		     struct weir_op *op)
{
	static struct iovec iov = { (char *)"v", 1 };
	static char buf[8];

	switch (n) {
	case 0:
		return weir_stream_read(s, op, buf, 8);
	case 1:
		return weir_stream_read_exact(s, op, buf, 8);
	case 2:
		return weir_stream_read_until(s, op, buf, 8, "\n", 1);
	case 3:
		return weir_stream_write(s, op, buf, 8, 0);
	case 4:
		return weir_stream_writev(s, op, &iov, 1, 0);
	case 5:
		return weir_stream_flush(s, op);
	case 6:
		return weir_stream_shutdown(s, op);
	case 7:
		return weir_stream_sendfile(s, op, 0, 0, 8, 0);
	case 8:
		return weir_stream_pipe(s, op, to, 8, 0);
	default:
		return -ENOENT;
	}
}

static void operations_are_refused_alike(void **state)
{
	struct weir_reactor *r = start_reactor_with(state, (struct
				weir_reactor_opts){ .ops_max = 1 });
	struct weir_stream *s, *to;
	struct weir_op none;
	int a[2], b[2], n, err;
	struct rec one;
	char buf[8];

	s = small(r, a, 16, 16);
	to = small(r, b, 16, 16);
	weir_op_init(&none, NULL);
	for (n = 0; (err = start_nth(n, s, to, &none)) != -ENOENT; n++)
		assert_int_equal(err, -EINVAL);
	rec_init(&one);
	STARTS(weir_stream_read(to, &one.op, buf, 8));
	rec_init(&rec);
	for (n = 0; (err = start_nth(n, s, to, &rec.op)) != -ENOENT; n++)
		assert_int_equal(err, -EAGAIN);
	assert_int_equal(n, 9);
	weir_reactor_stop(r);
	UNTIL(r, weir_reactor_state(r) == WEIR_REACTOR_STOPPED);
	for (n = 0; (err = start_nth(n, s, to, &rec.op)) != -ENOENT; n++)
		assert_int_equal(err, -ESHUTDOWN);
	assert_int_equal(rec.calls, 0);
	end_stream(r, s);
	end_stream(r, to);
	close(a[1]);
	close(b[1]);
}

static void arguments_are_checked(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *s, *to, *in;
	int a[2], b[2], c[2];
	struct iovec iov = { NULL, 1 };
	struct weir_op *op = &rec.op;
	char buf[8];

	s = small(r, a, 16, 16);
	to = small(r, b, 16, 16);
	pipe_pair(c);
	assert_int_equal(weir_stream_create_fd(&in, r, c[0], -1, NULL), 0);
	rec_init(&rec);
	assert_int_equal(weir_stream_read(s, op, buf, 0), -EINVAL);
	assert_int_equal(weir_stream_read(s, op, buf, SIZE_MAX), -EINVAL);
	assert_int_equal(weir_stream_read_exact(s, op, NULL, 17), -EMSGSIZE);
	assert_int_equal(weir_stream_read_until(s, op, buf, 17, "x", 1),
			 -EMSGSIZE);
	assert_int_equal(weir_stream_read_until(s, op, buf, 8, "x", 0),
			 -EINVAL);
	assert_int_equal(weir_stream_read_until(s, op, buf, 8, NULL, 1),
			 -EINVAL);
	assert_int_equal(weir_stream_read_until(s, op, buf, 0, "x", 1),
			 -EINVAL);
	assert_int_equal(weir_stream_write(s, op, NULL, 1, 0), -EINVAL);
	assert_int_equal(weir_stream_write(s, op, buf, 1, 8), -EINVAL);
	assert_int_equal(weir_stream_put(s, buf, 1, 8), -EINVAL);
	assert_int_equal(weir_stream_writev(s, op, &iov, 1, 0), -EINVAL);
	assert_int_equal(weir_stream_writev(s, op, &iov, 1025, 0), -EMSGSIZE);
	assert_int_equal(weir_stream_sendfile(s, op, 0, UINT64_MAX, 1, 0),
			 -EINVAL);
	assert_int_equal(weir_stream_pipe(s, op, s, 1, 0), -EINVAL);
	assert_int_equal(weir_stream_pipe(s, op, to, 0, 0), -EINVAL);
	assert_int_equal(weir_stream_put(in, buf, 1, 0), -EOPNOTSUPP);
	assert_int_equal(weir_stream_writev(in, op, &iov, 1, 0), -EOPNOTSUPP);
	assert_int_equal(weir_stream_flush(in, op), -EOPNOTSUPP);
	assert_int_equal(weir_stream_shutdown(in, op), -EOPNOTSUPP);
	assert_int_equal(weir_stream_sendfile(in, op, 0, 0, 1, 0),
			 -EOPNOTSUPP);
	assert_int_equal(weir_stream_pipe(s, op, in, 1, 0), -EOPNOTSUPP);
	assert_int_equal(weir_stream_close(s, &(struct weir_op){ 0 }),
			 -EINVAL);
	assert_int_equal(rec.calls, 0);
	end_stream(r, s);
	end_stream(r, to);
	end_stream(r, in);
	assert_int_equal(weir_stream_create_fd(&in, r, -1, c[1], NULL), 0);
	assert_int_equal(weir_stream_read_exact(in, op, buf, 1), -EOPNOTSUPP);
	assert_int_equal(weir_stream_read_until(in, op, buf, 1, "x", 1),
			 -EOPNOTSUPP);
	end_stream(r, in);
	close(a[1]);
	close(b[1]);
}

static void refusals_name_the_call(void **state)
{
	static const char *const names[] = {
		"weir_stream_read: ", "weir_stream_read_exact: ",
		"weir_stream_read_until: ", "weir_stream_write: ",
		"weir_stream_writev: ", "weir_stream_flush: ",
		"weir_stream_shutdown: ", "weir_stream_sendfile: ",
		"weir_stream_pipe: ",
	};
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream *in, *out;
	int fd[2];

	pipe_pair(fd);
	assert_int_equal(weir_stream_create_fd(&in, r, fd[0], -1, NULL), 0);
	assert_int_equal(weir_stream_create_fd(&out, r, -1, fd[1], NULL), 0);
	rec_init(&rec);
	for (int n = 0; n < (int)N_OF(names); n++) {
		assert_int_equal(start_nth(n, n < 3 ? out : in, in, &rec.op),
				 -EOPNOTSUPP);
		assert_starts_with(weir_why(), names[n]);
	}
	assert_int_equal(weir_stream_put(in, "x", 1, 0), -EOPNOTSUPP);
	assert_starts_with(weir_why(), "weir_stream_put: ");
	end_stream(r, in);
	end_stream(r, out);
}

static void creation_says_what_is_wrong(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_stream_opts opts = { .size = sizeof(opts) };
	struct weir_stream_ops ops = loop_ops;
	struct weir_stream *s = NULL;
	struct {
		struct weir_stream_ops ops;
		char newer[8];
	} later = { loop_ops, "newer" };
	int fd[2];

	later.ops.size = sizeof(later);
	assert_int_equal(weir_stream_create(&s, r, &later.ops, NULL, NULL),
			 -E2BIG);
	socket_pair(fd);
	assert_int_equal(weir_stream_create_fd(&s, r, -1, -1, NULL), -EINVAL);
	assert_starts_with(weir_why(), "weir_stream_create_fd: ");
	assert_int_equal(weir_stream_create_fd(&s, r, 99999, -1, NULL), -EBADF);
	{
		struct {
			struct weir_stream_opts opts;
			char newer[8];
		} more = { { .size = sizeof(more) }, "newer" };

		assert_int_equal(weir_stream_create_fd(&s, r, fd[0], fd[0],
						       &more.opts), -E2BIG);
	}
	opts.flags = 8;
	assert_int_equal(weir_stream_create_fd(&s, r, fd[0], fd[0], &opts),
			 -EINVAL);
	opts.flags = 0;
	opts.out_low = 1 << 20;
	assert_int_equal(weir_stream_create(&s, r, &ops, NULL, &opts),
			 -EINVAL);
	opts.out_low = 0;
	opts.in = fd;
	assert_int_equal(weir_stream_create(&s, r, &ops, NULL, &opts),
			 -EINVAL);
	ops.name = NULL;
	assert_int_equal(weir_stream_create(&s, r, &ops, NULL, NULL), -EINVAL);
	ops = (struct weir_stream_ops){ .size = sizeof(ops), .name = "none" };
	assert_int_equal(weir_stream_create(&s, r, &ops, NULL, NULL), -EINVAL);
	assert_int_equal(weir_stream_create(&s, r, NULL, NULL, NULL), -EINVAL);
	assert_null(s);
	close_pair(fd);
}

/* ---- Against a model, over many seeds ---- */

#define TOTAL 30000

struct side {
	struct weir_reactor *r;
	struct weir_stream *s;
	struct rec in, out, shut;
	unsigned int seed;		/* Of the bytes that it sends. */
	char buf[TOTAL], piece[TOTAL];
	struct iovec iov[2];
	size_t sent, got;
	int64_t asked;
	bool reads, writes, said_all, heard_end, until;
};

static uint64_t lot;

static size_t draw(size_t n)
{
	lot = lot * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (size_t)(lot >> 33) % n;
}

static void read_something(struct side *a)
{
	size_t n = 1 + draw(draw(3) ? 50 : 3000);

	rec_init(&a->in);
	a->reads = true;
	a->until = false;
	if (!draw(4)) {
		a->until = true;
		a->piece[0] = 0;
		STARTS(weir_stream_read_until(a->s, &a->in.op, a->piece, 300,
					      "\x07", 1));
	} else if (draw(2)) {
		STARTS(weir_stream_read(a->s, &a->in.op, a->piece, n));
	} else {
		STARTS(weir_stream_read_exact(a->s, &a->in.op, a->piece, n));
	}
}

static void has_read(struct side *a, const struct side *peer)
{
	int64_t n = a->in.res;

	a->reads = false;
	if (n < 0) {
		assert_true(n == -ECANCELED || (a->until &&
			    (n == -EMSGSIZE || n == -ENODATA)));
		n = (int64_t)a->in.detail.bytes;
	} else if (!n) {
		a->heard_end = true;
	}
	assert_true(is_pattern(a->piece, (size_t)n, a->got, peer->seed));
	if (a->until && a->in.res > 0) {
		assert_int_equal(a->piece[n - 1], 7);
		assert_ptr_equal(memchr(a->piece, 7, (size_t)n),
				 a->piece + n - 1);
	}
	a->got += (size_t)n;
}

static void write_something(struct side *a)
{
	size_t n = draw(draw(3) ? 100 : 4000);

	if (n > TOTAL - a->sent)
		n = TOTAL - a->sent;
	rec_init(&a->out);
	a->writes = true;
	a->asked = (int64_t)n;
	if (draw(3) || !n) {
		STARTS(weir_stream_write(a->s, &a->out.op, a->buf + a->sent, n,
					 draw(2) * WEIR_STREAM_MORE));
	} else {
		a->iov[0] = (struct iovec){ a->buf + a->sent, n / 3 };
		a->iov[1] = (struct iovec){ a->buf + a->sent + n / 3,
					    n - n / 3 };
		STARTS(weir_stream_writev(a->s, &a->out.op, a->iov, 2, 0));
	}
}

static void has_written(struct side *a)
{
	a->writes = false;
	assert_true(a->out.res == a->asked || a->out.res == -ECANCELED);
	a->sent += (size_t)a->out.detail.bytes;
}

static void act(struct side *a, const struct side *peer)
{
	if (a->reads && a->in.calls)
		has_read(a, peer);
	if (a->writes && a->out.calls)
		has_written(a);
	if (!a->reads && !a->heard_end)
		read_something(a);
	if (!a->writes && a->sent < TOTAL)
		write_something(a);
	if (a->reads && !a->in.calls && !draw(10))
		weir_op_cancel(&a->in.op);
	if (a->writes && !a->out.calls && !draw(10))
		weir_op_cancel(&a->out.op);
	if (!a->writes && a->sent == TOTAL && !a->said_all) {
		a->said_all = true;
		rec_init(&a->shut);
		STARTS(weir_stream_shutdown(a->s, &a->shut.op));
	}
}

static void one_seed(struct weir_reactor *r, uint64_t seed)
{
	struct side *sides = calloc(2, sizeof(*sides));
	struct weir_stream_opts opts = { .size = sizeof(opts) };
	size_t turns = 0;
	int fd[2];

	assert_non_null(sides);
	lot = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	socket_pair(fd);
	for (int i = 0; i < 2; i++) {
		struct side *a = &sides[i];

		opts.in_size = 300 + draw(3000);
		opts.out_size = 1 + draw(3000);
		a->r = r;
		a->seed = (unsigned int)(seed * 2) + (unsigned int)i;
		fill_pattern(a->buf, TOTAL, 0, a->seed);
		assert_int_equal(weir_stream_create_fd(&a->s, r, fd[i], fd[i],
						       &opts), 0);
	}
	while (!(sides[0].heard_end && sides[1].heard_end &&
		 sides[0].said_all && sides[1].said_all)) {
		act(&sides[0], &sides[1]);
		act(&sides[1], &sides[0]);
		assert_true(weir_reactor_turn(r, 0) >= 0);
		if (++turns > 2000000)
			fail_msg("seed %d: %zu %zu of %zu %zu", (int)seed,
				 sides[0].got, sides[1].got, sides[1].sent,
				 sides[0].sent);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sides[i].got, TOTAL);
		end_stream(r, sides[i].s);
		assert_int_equal(sides[i].shut.res, 0);
	}
	free(sides);
}

static void streams_agree_with_their_model(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	unsigned int n = scaled(200);

	for (uint64_t seed = 1; seed <= n; seed++)
		one_seed(r, seed);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(read_takes_what_is_there),
		CASE(end_of_stream_is_no_error),
		CASE(delimiter_is_found_wherever_it_is_cut),
		CASE(delimiter_is_found_byte_by_byte),
		CASE(line_beyond_its_limit_stays_in_the_stream),
		CASE(reads_of_every_length_get_all_bytes),
		CASE(cancelled_read_loses_no_bytes),
		CASE(large_read_tells_what_it_has_taken),
		CASE(bytes_are_taken_and_returned),
		CASE(second_read_is_refused),
		CASE(writes_of_every_length_arrive_in_order),
		CASE(write_waits_for_capacity),
		CASE(cancelled_write_tells_what_is_in_the_stream),
		CASE(held_bytes_wait_for_more),
		CASE(stream_that_was_shut_refuses_writes),
		CASE(second_shutdown_waits_for_the_first),
		CASE(broken_connection_fails_all_writes),
		CASE(descriptors_with_one_direction_have_one),
		CASE(file_is_read_to_its_end),
		CASE(file_is_sent_to_a_socket),
		CASE(file_in_the_page_cache_is_not_copied),
		CASE(file_that_is_on_disk_is_sent),
		CASE(file_is_sent_to_a_pipe),
		CASE(cancelled_file_tells_what_was_sent),
		CASE(file_to_a_peer_that_left_raises_no_signal),
		CASE(file_that_cannot_be_read_fails_its_send_alone),
		CASE(pipe_moves_all_and_the_end),
		CASE(pipe_ends_at_its_limit),
		CASE(pipe_that_keeps_open_does_not_delay_bytes),
		CASE(pipe_refuses_what_follows_its_shutdown),
		CASE(cancelled_pipe_loses_no_bytes),
		CASE(pipe_tells_which_side_failed),
		CASE(closed_stream_ends_its_pipe),
		CASE(transport_of_the_program_moves_bytes),
		CASE(refused_send_is_not_tried_again_at_once),
		CASE(refused_receive_fails_the_read_that_waits),
		CASE(transport_may_cancel_what_it_is_called_for),
		CASE(writes_go_on_at_the_low_mark),
		CASE(error_comes_after_the_bytes_before_it),
		CASE(transport_may_close_its_stream),
		CASE(callback_may_close_its_stream),
		CASE(close_ends_all_operations_before_it),
		CASE(buffers_of_the_program_are_its_own_again),
		CASE(stopped_reactor_cancels_and_closes),
		CASE(transport_is_closed_in_a_stopped_reactor),
		CASE(restarted_reactor_goes_on_with_its_streams),
		CASE(stream_works_with_a_full_reactor),
		CASE(operations_are_refused_alike),
		CASE(arguments_are_checked),
		CASE(refusals_name_the_call),
		CASE(creation_says_what_is_wrong),
		CASE(streams_agree_with_their_model),
	};

	return harness_run_all(cases, N_OF(cases));
}
