/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Must fail: programs that break the rule "from the start to the callback the
 * op and its buffers belong to the library", each in a child that the
 * sanitizer, or valgrind, has to stop; and beside each one that does the same
 * by the rule, and must not be stopped.
 *
 * In an ordinary build there is nobody to stop them.
 */

#include "tests/support/harness.h"

#include <signal.h>
#include <sys/wait.h>

#include <weir/file.h>
#include <weir/socket.h>

#ifdef WEIR_VALGRIND
#include <valgrind/memcheck.h>
#include <valgrind/valgrind.h>
#endif

enum { LEN = 256 };

struct sharing {
	struct weir_reactor *r;
	struct rec rec;
	int sv[2];
	int file;
	char *buf;
	volatile char sink;
};

static int sharing_open(struct sharing *s, uint32_t backend)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };

	opts.backend = backend;
	s->buf = malloc(LEN);
	if (!s->buf || weir_reactor_create(&s->r, &opts) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, s->sv))
		return 1;
	s->file = open("/dev/zero", O_RDONLY);
	rec_init(&s->rec);
	return 0;
}

/* End what was started, which is where a wrong ending is noticed. */
static void sharing_end(struct sharing *s)
{
	if (write(s->sv[1], "0123456789", 10) != 10)
		abort();
	while (!s->rec.calls)
		if (weir_reactor_turn(s->r, WEIR_SEC) < 0)
			abort();
	if (weir_reactor_destroy(s->r))
		abort();
}

static void start_recv(struct sharing *s)
{
	if (weir_recv(s->r, &s->rec.op, s->sv[0], s->buf, LEN, 0))
		abort();
	weir_reactor_turn(s->r, 0);
}

static void by_the_rule(struct sharing *s)
{
	memset(s->buf, 1, LEN);
	start_recv(s);
	sharing_end(s);
	s->sink = s->buf[5];
	s->buf[200] = 7;
	free(s->buf);
}

static void writes_to_a_buffer_in_flight(struct sharing *s)
{
	start_recv(s);
	s->buf[100] = 1;
	sharing_end(s);
	free(s->buf);
}

static void reads_a_buffer_in_flight(struct sharing *s)
{
	memset(s->buf, 1, LEN);
	start_recv(s);
	s->sink = s->buf[100];
	sharing_end(s);
	free(s->buf);
}

static void frees_a_buffer_in_flight(struct sharing *s)
{
	start_recv(s);
	free(s->buf);
	sharing_end(s);
}

static void frees_and_reuses_a_buffer_in_flight(struct sharing *s)
{
	char *again[64];
	int i;

	start_recv(s);
	free(s->buf);
	for (i = 0; i < 64; i++) {
		again[i] = malloc(LEN);
		memset(again[i], 3, LEN);
	}
	sharing_end(s);
	for (i = 0; i < 64; i++)
		free(again[i]);
}

static void sends_from_freed_memory(struct sharing *s)
{
	free(s->buf);
	if (weir_send(s->r, &s->rec.op, s->sv[0], s->buf, LEN, 0))
		abort();
	sharing_end(s);
}

static void gives_more_than_it_has(struct sharing *s)
{
	if (weir_recv(s->r, &s->rec.op, s->sv[0], s->buf, LEN + 64, 0))
		abort();
	sharing_end(s);
	free(s->buf);
}

static void sends_what_it_never_wrote(struct sharing *s)
{
	if (weir_send(s->r, &s->rec.op, s->sv[0], s->buf, LEN, 0))
		abort();
	sharing_end(s);
	free(s->buf);
}

static void writes_to_a_piece_of_a_vector(struct sharing *s)
{
	struct iovec iov[2] = { { s->buf, 128 }, { s->buf + 128, 128 } };
	int p[2];

	if (pipe(p) || weir_readv(s->r, &s->rec.op, p[0], iov, 2,
				  WEIR_OFF_STREAM))
		abort();
	weir_reactor_turn(s->r, 0);
	s->buf[200] = 1;
	if (write(p[1], "x", 1) != 1)
		abort();
	sharing_end(s);
	free(s->buf);
}

/* A send that waits for its peer to read; then the peer reads. */
static void start_send_with(struct sharing *s, uint32_t flags)
{
	memset(s->buf, 1, LEN);
	while (send(s->sv[0], s->buf, LEN, MSG_DONTWAIT) > 0)
		;
	if (weir_send(s->r, &s->rec.op, s->sv[0], s->buf, LEN,
		      flags))
		abort();
	weir_reactor_turn(s->r, 0);
}

static void start_send(struct sharing *s)
{
	start_send_with(s, 0);
}

static void send_end(struct sharing *s)
{
	char sink[4096];

	while (recv(s->sv[1], sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
	sharing_end(s);
}

static void sends_by_the_rule(struct sharing *s)
{
	start_send(s);
	s->sink = s->buf[5];
	send_end(s);
	s->buf[5] = 2;
	free(s->buf);
}

static void changes_a_buffer_that_is_volatile(struct sharing *s)
{
	start_send_with(s, WEIR_SOCK_VOLATILE);
	s->buf[100] = 2;
	send_end(s);
	free(s->buf);
}

static void changes_a_buffer_that_is_sent(struct sharing *s)
{
	start_send(s);
	s->buf[100] = 2;
	send_end(s);
	free(s->buf);
}

static void frees_a_buffer_that_is_sent(struct sharing *s)
{
	start_send(s);
	free(s->buf);
	send_end(s);
}

/* What a device writes to, or reads, for an operation of the program's own. */
static void lend(struct sharing *s, uint32_t how)
{
	if (weir_op_start(s->r, &s->rec.op, NULL, NULL) ||
	    weir_op_lend(&s->rec.op, s->buf, LEN, how))
		abort();
}

static void lend_end(struct sharing *s)
{
	if (weir_op_finish(&s->rec.op, 0))
		abort();
	sharing_end(s);
	free(s->buf);
}

static void lends_by_the_rule(struct sharing *s)
{
	lend(s, WEIR_LEND_IN);
	if (weir_op_finish(&s->rec.op, 0))
		abort();
	while (!s->rec.calls)
		weir_reactor_turn(s->r, 0);
	s->rec.calls = 0;
	s->sink = s->buf[100];
	s->buf[100] = 1;
	memset(s->buf, 2, LEN);
	lend(s, WEIR_LEND_OUT);
	lend_end(s);
}

static void writes_to_a_lent_buffer(struct sharing *s)
{
	lend(s, WEIR_LEND_IN);
	s->buf[100] = 1;
	lend_end(s);
}

static void frees_a_lent_buffer(struct sharing *s)
{
	lend(s, WEIR_LEND_IN);
	free(s->buf);
	s->buf = NULL;
	lend_end(s);
}

static void changes_a_lent_buffer_that_is_read(struct sharing *s)
{
	memset(s->buf, 1, LEN);
	lend(s, WEIR_LEND_OUT);
	s->buf[100]++;
	lend_end(s);
}

/* Which tools can see it. */
enum { BY_ASAN = 1, BY_VALGRIND = 2, BY_TSAN = 4, BY_DEBUG = 8, BY_TOOLS = 7 };

static const struct crime {
	const char *name;
	void (*commit)(struct sharing *s);
	int seen;
} crimes[] = {
	{ "writes to a buffer in flight", writes_to_a_buffer_in_flight,
	  BY_TOOLS },
	{ "reads a buffer in flight", reads_a_buffer_in_flight,
	  BY_TOOLS },
	{ "frees a buffer in flight", frees_a_buffer_in_flight,
	  BY_TOOLS },
	{ "frees and reuses a buffer in flight",
	  frees_and_reuses_a_buffer_in_flight, BY_TOOLS },
	{ "changes a buffer that is sent", changes_a_buffer_that_is_sent,
	  BY_ASAN | BY_VALGRIND | BY_DEBUG },
	{ "frees a buffer that is sent", frees_a_buffer_that_is_sent,
	  BY_ASAN | BY_VALGRIND },
	{ "sends from freed memory", sends_from_freed_memory,
	  BY_ASAN | BY_VALGRIND },
	{ "gives more memory than it has", gives_more_than_it_has,
	  BY_ASAN | BY_VALGRIND },
	{ "sends what it never wrote", sends_what_it_never_wrote,
	  BY_VALGRIND },
	{ "writes to a piece of a vector", writes_to_a_piece_of_a_vector,
	  BY_TOOLS },
	{ "writes to a lent buffer", writes_to_a_lent_buffer, BY_TOOLS },
	{ "frees a lent buffer", frees_a_lent_buffer, BY_TOOLS },
	{ "changes a lent buffer that is read",
	  changes_a_lent_buffer_that_is_read,
	  BY_ASAN | BY_VALGRIND | BY_DEBUG },
};

static unsigned int errors_so_far(void)
{
#ifdef WEIR_VALGRIND
	return VALGRIND_COUNT_ERRORS;
#else
	return 0;
#endif
}

/* 0: nobody said a word.  Else somebody did. */
static int in_a_child(void (*commit)(struct sharing *s), uint32_t backend)
{
	int status, null;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		static struct sharing s;
		unsigned int before = errors_so_far();

		/* What is said is what is wanted, and fills the log. */
		null = open("/dev/null", O_WRONLY);
		dup2(null, 2);
		alarm(60);
		if (sharing_open(&s, backend))
			_exit(0);
		commit(&s);
		_exit(errors_so_far() > before ? 5 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_false(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
	return status;
}

static void somebody_must_see_it(void **state)
{
	const struct world *w = *state;
	const struct crime *crime = w->arg;
	int tool = UNDER_ASAN ? BY_ASAN : UNDER_TSAN ? BY_TSAN :
		   under_valgrind() ? BY_VALGRIND : 0;

#ifdef WEIR_DEBUG
	if (!UNDER_TSAN)
		tool |= BY_DEBUG;
#endif
	if (!tool)
		skip_because("only with ASan, TSan, valgrind or debugging");
	if (!(crime->seen & tool))
		skip_because("this tool does not look at that");
	assert_int_not_equal(in_a_child(crime->commit, backend_of(w)), 0);
}

static void program_that_keeps_the_rule_is_not_stopped(void **state)
{
	assert_int_equal(in_a_child(by_the_rule, backend_of(*state)), 0);
	assert_int_equal(in_a_child(sends_by_the_rule, backend_of(*state)), 0);
	assert_int_equal(in_a_child(lends_by_the_rule, backend_of(*state)), 0);
	assert_int_equal(in_a_child(changes_a_buffer_that_is_volatile,
				    backend_of(*state)), 0);
}

int main(void)
{
	struct harness_case cases[N_OF(crimes) + 1] = {
		CASE(program_that_keeps_the_rule_is_not_stopped),
	};
	static char names[N_OF(crimes)][100];
	size_t i;

	for (i = 0; i < N_OF(crimes); i++) {
		snprintf(names[i], sizeof(names[i]), "caught: a program that "
			 "%s", crimes[i].name);
		cases[i + 1] = (struct harness_case){
			names[i], somebody_must_see_it, &crimes[i], true };
	}
	return harness_run(cases, N_OF(cases));
}
