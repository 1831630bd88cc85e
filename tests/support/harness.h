/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

/*
 * What the tests of weir share, over cmocka.
 *
 * A program hands its cases to harness_run(), which runs each once per backend,
 * under names like "ev: a cancelled read completes once"; the tests of a
 * backend that this machine refuses are skipped.  harness_run_all() runs them
 * in a simulated world, too, with its files and connections, but for the cases
 * that are REAL: those need the system, or threads.  harness_run_plain() runs
 * them once.  A test gets a world: its backend, a reactor when it asks for one,
 * and a directory.  After each test the reactor must be destroyable, and no
 * descriptor may be left open.
 *
 * A test that hangs is ended by SIGALRM; nothing else depends on real time.
 *
 * Environment: WEIR_TEST_BACKEND=uring|ev|sim runs one backend alone,
 * WEIR_TEST_IN_TURN=1 each case over only one of uring and ev, in turn, and =2 over
 * the other one, WEIR_TEST_SIM=0 none in a simulated world,
 * WEIR_TEST_FILTER=*PATTERN* the tests whose name matches, WEIR_TEST_LONG=1 all
 * in full length.  In a world, WEIR_TEST_SEED=N is its seed, and
 * WEIR_TEST_FAULTS=MASK has a swarm of these faults in it: of those which only
 * delay (0x112c) no case may take notice.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/op.h>
#include <weir/reactor.h>

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_ASAN
#define UNDER_ASAN 0
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

struct harness_case {
	const char *name;	/* Its _ are shown as blanks, but in weir_x. */
	void (*fn)(void **state);
	const void *arg;	/* world->arg */
	bool real;		/* Not in a simulated world. */
};

#define CASE(fn) { #fn, fn, NULL, false }
#define REAL(fn) { #fn, fn, NULL, true }
#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

struct world {
	const char *backend;		/* "uring", "ev", "sim", "model-..." */
	const void *arg;
	struct weir_reactor *r;		/* NULL until asked for. */
	char dir[64];			/* Empty until asked for. */
	int n_fds;			/* Open when the test began. */
};

int harness_run(const struct harness_case *cases, size_t n);
int harness_run_all(const struct harness_case *cases, size_t n);
int harness_run_plain(const struct harness_case *cases, size_t n);

/*
 * A model of io_uring that the program is linked with (mock-uring.h): it takes
 * the place of all backends, under these names.  @use is called before a test;
 * tests that it has not are left out.
 */
struct harness_model {
	const char **names;
	size_t n_names;
	void (*use)(const char *name);
	void (*calm)(const char *name);	/* The same, with nothing drawn. */
	bool (*has)(const char *name, const char *test);
};

extern const struct harness_model *harness_model;

/* harness-sim.c: the world of the test that runs, or NULL. */
extern struct weir_sim *harness_sim;
void sim_begin(void);
int sim_end(void);

/* Say why, and end this test as skipped. */
__attribute__((format(printf, 1, 2), noreturn)) void skip_because(
	const char *fmt, ...);

int under_valgrind(void);

/* Whether Linux is older than that: what only newer ones do, do not expect. */
int kernel_is_before(int major, int minor);

/* A pidfd of this process, to be closed; skips where there are none, as under
 * valgrind 3.19. */
int own_pidfd(void);

/* Skips where the kernel, or valgrind 3.19, has no openat2(2). */
void skip_without_openat2(void);

int want_long(void);

/* @n, or a hundredth of it where every step costs much more. */
unsigned int scaled(unsigned int n);

/* WEIR_BACKEND_ of the test's backend. */
uint32_t backend_of(const struct world *w);

/* The test's reactor, made now; destroyed after the test, unless it did. */
struct weir_reactor *start_reactor(void **state);
struct weir_reactor *start_reactor_with(void **state,
					struct weir_reactor_opts opts);

/* Destroy it now; must succeed. */
void end_reactor(void **state);

/* The test's directory, made when first asked for, removed after the test. */
const char *test_dir(void **state);

/* A path in it; good until the fourth call after this one. */
const char *test_path(void **state, const char *name);

/* A file in it with @len bytes of pattern(@seed), open for reading and
 * writing. */
int test_file(void **state, const char *name, size_t len, unsigned int seed);

/* A directory in it. */
void test_mkdir(void **state, const char *name);

void fill_pattern(void *buf, size_t len, uint64_t off, unsigned int seed);
bool is_pattern(const void *buf, size_t len, uint64_t off, unsigned int seed);

/* Connected stream sockets, and a pipe; blocking mode as the kernel makes
 * them. */
void socket_pair(int fd[2]);
void tcp_pair(int fd[2]);
void pipe_pair(int fd[2]);
void close_pair(int fd[2]);
void set_nonblock(int fd);

/* Fill what a writer may put into @fd without waiting.  Returns the bytes. */
size_t stuff(int fd);

/* The entries of a directory, without hidden ones; the descriptors of this
 * process; and its threads, those that the kernel made for it included. */
int count_entries(const char *dir);
int count_fds(void);
int count_threads(void);

/* The descriptors of process @pid whose link begins with @kind, such as
 * "socket:"; "": all.  A descriptor that is closed meanwhile does not count. */
unsigned int fds_of(pid_t pid, const char *kind);

/* The number in the line @name, such as "VmRSS:", of /proc/PID/status; -1: no
 * such line. */
long status_of(pid_t pid, const char *name);

/* What an operation came to. */
struct rec {
	struct weir_op op;
	int calls;
	int64_t res;
	struct weir_op_detail detail;
	struct weir_reactor *stop;	/* Stopped by the callback, if set. */
};

void rec_init(struct rec *rec);
void rec_done(struct weir_op *op, int64_t res);

/* > 0 while a start function runs: no callback may. */
extern int harness_starting;

#define STARTS(call)                                   \
	do {                                           \
		int err_;                              \
		harness_starting++;                    \
		err_ = (call);                         \
		harness_starting--;                    \
		if (err_)                              \
			print_error("%s: %d\n", #call, err_); \
		assert_int_equal(err_, 0);             \
	} while (0)

/*
 * Make turns until @cond holds; the bound is far beyond what is needed.  A turn
 * is short, for what @cond waits for may be nothing that wakes @r: a buf that
 * is returned, or the word of another process.  In a world no turn sleeps: other
 * threads are let run.
 */
#define TURNS_MAX 1000000
#define UNTIL(r, cond)                                                    \
	do {                                                              \
		unsigned int turns_ = 0;                                  \
		while (!(cond)) {                                         \
			int n_ = weir_reactor_turn(r, WEIR_SEC / 100);    \
			if (n_ < 0 || ++turns_ > TURNS_MAX)               \
				fail_msg("turn %u: %d, waiting for: %s", \
					 turns_, n_, #cond);              \
			if (!n_)                                          \
				sched_yield();                            \
		}                                                         \
	} while (0)

/* @n turns that do not wait. */
void some_turns(struct weir_reactor *r, int n);

/* Run @rec to its end, which must be its first, and return its result. */
int64_t finish(struct weir_reactor *r, struct rec *rec);

#define assert_starts_with(s, prefix) \
	assert_int_equal(strncmp(s, prefix, strlen(prefix)), 0)

#endif /* TESTS_HARNESS_H */
