/* SPDX-License-Identifier: BSD-3-Clause */

/* Child processes, <weir/child.h>. */

#include "tests/support/harness.h"

#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <weir/child.h>
#include <weir/file.h>
#include <weir/socket.h>
#include <weir/watch.h>

#include "tests/support/fault-fixture.h"

#define NULL_IO { WEIR_STDIO_NULL, 0 }
#define TO { WEIR_STDIO_PIPE_TO, 0 }
#define FROM { WEIR_STDIO_PIPE_FROM, 0 }

static struct rec rec;

/* The reactor, where there can be children. */
static struct weir_reactor *start(void **state)
{
	close(own_pidfd());
	return start_reactor(state);
}

/* A child that runs @script, with pipes to and from it. */
static struct weir_child_opts script(const char *const *argv)
{
	return (struct weir_child_opts){
		.size = sizeof(struct weir_child_opts),
		.argv = (char *const *)(uintptr_t)argv,
		.io = { TO, FROM, NULL_IO },
	};
}

#define SH(text) script((const char *const[]){ "sh", "-c", text, NULL })

static struct weir_child *create(struct weir_reactor *r,
				 const struct weir_child_opts *opts)
{
	struct weir_child *child = NULL;

	if (weir_child_create(&child, r, opts))
		fail_msg("%s", weir_why());
	return child;
}

static int64_t wait_for(struct weir_reactor *r, struct weir_child *child,
			struct weir_child_status *ret)
{
	rec_init(&rec);
	STARTS(weir_child_wait(child, &rec.op, ret));
	return finish(r, &rec);
}

/* All that the child writes to @fd. */
static const char *output(struct weir_reactor *r, int fd)
{
	static char text[8192];
	size_t len = 0;
	int64_t n;

	do {
		rec_init(&rec);
		STARTS(weir_read(r, &rec.op, fd, text + len,
				 sizeof(text) - 1 - len, WEIR_OFF_STREAM));
		n = finish(r, &rec);
		assert_true(n >= 0);
		len += (size_t)n;
	} while (n);
	text[len] = 0;
	return text;
}

/* Run it to its end, which must be an exit with @code; what it wrote. */
static const char *run(struct weir_reactor *r,
		       const struct weir_child_opts *opts, int code)
{
	struct weir_child *child = create(r, opts);
	int out = weir_child_take_fd(child, 1);
	struct weir_child_status status;
	const char *text;

	assert_true(out >= 0);
	text = output(r, out);
	assert_int_equal(wait_for(r, child, &status), 0);
	assert_int_equal(status.signo, 0);
	assert_int_equal(status.code, code);
	weir_child_destroy(child);
	close(out);
	return text;
}

static void child_reads_and_writes_through_pipes(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("cat; exit 3");
	struct weir_child *child = create(r, &opts);
	int in = weir_child_take_fd(child, 0), out = weir_child_take_fd(child, 1);
	struct weir_child_status status;

	assert_true(weir_child_pid(child) > 0);
	assert_int_equal(fcntl(in, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(weir_child_take_fd(child, 0), -EBADF);
	assert_int_equal(weir_child_take_fd(child, 2), -EBADF);
	assert_int_equal(weir_child_take_fd(child, 1000), -EBADF);
	rec_init(&rec);
	STARTS(weir_write(r, &rec.op, in, "hello", 5, WEIR_OFF_STREAM));
	assert_int_equal(finish(r, &rec), 5);
	rec_init(&rec);
	STARTS(weir_close(r, &rec.op, in));
	finish(r, &rec);
	assert_string_equal(output(r, out), "hello");
	assert_int_equal(wait_for(r, child, &status), 0);
	assert_int_equal(status.code, 3);
	assert_true(status.usage.ru_maxrss > 0);
	/* Waits after the end complete, too. */
	assert_int_equal(wait_for(r, child, NULL), 0);
	assert_int_equal(weir_child_kill(child, SIGTERM), -ESRCH);
	weir_child_destroy(child);
	close(out);
}

static void status_has_signal_and_core_of_a_killed_child(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("exec sleep 1000");
	struct weir_child *child = create(r, &opts);
	struct weir_child_status status;
	struct rec other;

	rec_init(&rec);
	rec_init(&other);
	STARTS(weir_child_wait(child, &rec.op, &status));
	STARTS(weir_child_wait(child, &other.op, NULL));
	assert_int_equal(weir_child_wait(child, &other.op, NULL), -EINVAL);
	assert_int_equal(weir_child_kill(child, 0), 0);
	assert_int_equal(weir_child_kill(child, 1000), -EINVAL);
	some_turns(r, 3);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(weir_child_kill(child, SIGTERM), 0);
	assert_int_equal(finish(r, &rec), 0);
	some_turns(r, 1);
	assert_int_equal(other.calls, 1);
	assert_int_equal(other.res, 0);
	assert_int_equal(status.code, -1);
	assert_int_equal(status.signo, SIGTERM);
	assert_int_equal(status.core, 0);
	weir_child_destroy(child);
}

static void wait_is_cancelled_and_late_and_the_child_runs_on(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("exec sleep 1000");
	struct weir_child *child = create(r, &opts);

	rec_init(&rec);
	STARTS(weir_child_wait(child, &rec.op, NULL));
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	rec_init(&rec);
	weir_op_set_deadline(&rec.op, weir_reactor_now(r) + WEIR_MSEC);
	STARTS(weir_child_wait(child, &rec.op, NULL));
	assert_int_equal(finish(r, &rec), -ETIMEDOUT);
	assert_int_equal(weir_child_kill(child, 0), 0);
	rec_init(&rec);
	STARTS(weir_child_wait(child, &rec.op, NULL));
	weir_child_destroy(child);
	assert_int_equal(finish(r, &rec), -ECANCELED);
}

static void expect_refusal(struct weir_reactor *r,
			   const struct weir_child_opts *opts, int err,
			   const char *part)
{
	struct weir_child *child = NULL;
	int fds = count_fds(), got = weir_child_create(&child, r, opts);

	if (got != err || !strstr(weir_why(), part))
		fail_msg("%d, not %d: %s", got, err, weir_why());
	assert_null(child);
	assert_int_equal(count_fds(), fds);
}

static volatile sig_atomic_t n_sigchld;

static void on_sigchld(int signo)
{
	(void)signo;
	n_sigchld++;
}

static void failed_start_is_told_by_its_errno_alone(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("exit 0");
	struct sigaction old, act = { .sa_handler = on_sigchld };
	int fd = test_file(state, "no-program", 10, 1);

	n_sigchld = 0;
	sigaction(SIGCHLD, &act, &old);
	opts.program = "/no/such/program";
	expect_refusal(r, &opts, -ENOENT, "cannot execute '/no/such/program'");
	opts.program = "weir-no-such-program";
	expect_refusal(r, &opts, -ENOENT, "weir-no-such-program");
	opts.program = "";
	expect_refusal(r, &opts, -ENOENT, "is empty");
	opts.program = test_path(state, "no-program");
	expect_refusal(r, &opts, -EACCES, "no-program");
	assert_int_equal(fchmod(fd, 0700), 0);
	close(fd);
	expect_refusal(r, &opts, -ENOEXEC, "no-program");
	opts.program = NULL;
	opts.dir = "/no/such/dir";
	expect_refusal(r, &opts, -ENOENT, "cannot enter .dir");
	opts.dir = NULL;
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(errno, ECHILD);
	assert_int_equal(n_sigchld, 0);
	sigaction(SIGCHLD, &old, NULL);
}

/* If no directory has it, and a file of one may not be executed. */
static void search_in_path_remembers_eacces(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("exit 0");
	char path[128];
	char *env[] = { path, NULL };

	close(test_file(state, "no-program", 10, 1));
	snprintf(path, sizeof(path), "PATH=/nowhere:%s:/nowhere",
		 test_dir(state));
	opts.program = "no-program";
	opts.envp = env;
	expect_refusal(r, &opts, -EACCES, "no-program");
	opts.program = "no-other";
	expect_refusal(r, &opts, -ENOENT, "no-other");
}

static void options_that_are_none_are_refused(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("exit 0");
	static const char *const none[] = { NULL };
	char big[sizeof(opts) + 8] = "";
	struct weir_child_io io = { WEIR_STDIO_FD, 1 << 20 };

	expect_refusal(r, NULL, -EINVAL, "no options");
	opts.size = 0;
	expect_refusal(r, &opts, -EINVAL, "size");
	opts = script(none);
	expect_refusal(r, &opts, -EINVAL, ".argv");
	opts = SH("exit 0");
	opts.flags = 1u << 30;
	expect_refusal(r, &opts, -EINVAL, "unknown flags");
	opts.flags = 0;
	opts.io[2].kind = 17;
	expect_refusal(r, &opts, -EINVAL, "unknown kind 17");
	opts.io[2] = io;
	expect_refusal(r, &opts, -EBADF, "not open");
	opts = SH("exit 0");
	opts.n_more = 1;
	expect_refusal(r, &opts, -EINVAL, ".more");
	opts.more = &io;
	opts.n_more = WEIR_CHILD_FDS_MAX;
	expect_refusal(r, &opts, -EINVAL, ".more");
	opts.n_more = 0;
	memcpy(big, &opts, sizeof(opts));
	big[sizeof(opts)] = 1;
	((struct weir_child_opts *)(void *)big)->size = sizeof(big);
	expect_refusal(r, (struct weir_child_opts *)(void *)big, -E2BIG,
		       "weir_child_create");
}

static void child_has_no_other_descriptors(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("ls /proc/self/fd | tr '\\n' ' '");
	int stray[40];

	/* Not close-on-exec: only the child closes them. */
	for (size_t i = 0; i < N_OF(stray); i++)
		stray[i] = dup(0);
	/* ls has one open on the directory. */
	assert_string_equal(run(r, &opts, 0), "0 1 2 3 ");
	for (size_t i = 0; i < N_OF(stray); i++)
		close(stray[i]);
}

/* Each is the other's number. */
static void descriptors_are_placed_whatever_their_numbers(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("echo A; echo B >&2; echo C >&3; cat <&4");
	const struct weir_child_io more[] = { { WEIR_STDIO_PIPE_FROM, 0 },
					      { WEIR_STDIO_PIPE_TO, 0 } };
	struct weir_child *child;
	int a[2], b[2], saved[2], in;
	char got[4] = "";

	pipe_pair(a);
	pipe_pair(b);
	fflush(stdout);
	saved[0] = fcntl(1, F_DUPFD_CLOEXEC, 10);
	saved[1] = fcntl(2, F_DUPFD_CLOEXEC, 10);
	dup2(a[1], 1);
	dup2(b[1], 2);
	opts.io[0] = (struct weir_child_io)NULL_IO;
	opts.io[1] = (struct weir_child_io){ WEIR_STDIO_FD, 2 };
	opts.io[2] = (struct weir_child_io){ WEIR_STDIO_FD, 1 };
	opts.more = more;
	opts.n_more = 2;
	child = create(r, &opts);
	dup2(saved[0], 1);
	dup2(saved[1], 2);
	close(saved[0]);
	close(saved[1]);
	close(a[1]);
	close(b[1]);
	in = weir_child_take_fd(child, 4);
	assert_int_equal(write(in, "D", 1), 1);
	close(in);
	in = weir_child_take_fd(child, 3);
	assert_string_equal(output(r, in), "C\n");
	close(in);
	assert_string_equal(output(r, b[0]), "A\nD");
	assert_int_equal(read(a[0], got, 4), 2);
	assert_string_equal(got, "B\n");
	assert_int_equal(wait_for(r, child, NULL), 0);
	weir_child_destroy(child);
	close(a[0]);
	close(b[0]);
}

static void child_runs_where_and_with_what_it_is_told(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("echo $0 $X $Y $PWD");
	char *env[] = { "X=one", "Y=two", "PATH=/nowhere:/bin:/usr/bin", NULL };
	const char *text;

	opts.envp = env;
	opts.dir = "/";
	assert_string_equal(run(r, &opts, 0), "sh one two /\n");
	/* The environment is this process's, if there is none. */
	assert_int_equal(setenv("X", "three", 1), 0);
	opts.envp = NULL;
	opts.dir = test_dir(state);
	opts.program = "/bin/sh";
	text = run(r, &opts, 0);
	assert_memory_equal(text, "sh three /", 10);
	assert_non_null(strstr(text, test_dir(state)));
	unsetenv("X");
}

static void child_can_be_another_user_without_groups(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("id -u; id -g; id -G");
	gid_t groups[] = { 7, 8 };
	int dumpable = prctl(PR_GET_DUMPABLE);

	opts.flags = WEIR_CHILD_UID | WEIR_CHILD_GID;
	opts.uid = 4711;
	opts.gid = 4712;
	if (geteuid()) {
		expect_refusal(r, &opts, -EPERM, "groups");
		return;
	}
	assert_int_equal(setgroups(2, groups), 0);
	assert_string_equal(run(r, &opts, 0), "4711\n4712\n4712\n");
	assert_int_equal(setgroups(0, NULL), 0);
	assert_int_equal(geteuid(), 0);
	assert_int_equal(prctl(PR_GET_DUMPABLE), dumpable);
	opts.program = "/no/such/program";
	expect_refusal(r, &opts, -ENOENT, "cannot execute");
	assert_int_equal(prctl(PR_GET_DUMPABLE), dumpable);
}

static void child_leads_a_group_or_a_session(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts =
		SH("read a b c d pgrp session rest </proc/$$/stat;"
		   "echo $((pgrp - $$)) $((session - $$))");
	int group, session;

	assert_int_equal(sscanf(run(r, &opts, 0), "%d %d", &group, &session),
			 2);
	assert_true(group && session);
	opts.flags = WEIR_CHILD_GROUP;
	assert_int_equal(sscanf(run(r, &opts, 0), "%d %d", &group, &session),
			 2);
	assert_true(!group && session);
	opts.flags = WEIR_CHILD_SESSION | WEIR_CHILD_GROUP;
	assert_int_equal(sscanf(run(r, &opts, 0), "%d %d", &group, &session),
			 2);
	assert_true(!group && !session);
}

static void child_has_the_default_signals(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts =
		SH("grep -E 'Sig(Blk|Ign)' /proc/self/status | cut -f2");
	struct sigaction old, act = { .sa_handler = SIG_IGN };
	sigset_t set, mask;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, &mask);
	sigaction(SIGUSR1, &act, &old);
	assert_string_equal(run(r, &opts, 0), "0000000000000000\n"
			    "0000000000000000\n");
	sigaction(SIGUSR1, &old, NULL);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

/* Whether the kernel knows the end of a process that others have reaped. */
static bool kernel_remembers(void)
{
	return !kernel_is_before(6, 15);
}

static void assert_lost(int64_t res, const struct weir_child_status *status,
			int code)
{
	if (!kernel_remembers()) {
		assert_int_equal(res, -ECHILD);
		return;
	}
	assert_int_equal(res, 0);
	assert_int_equal(status->code, code);
	assert_int_equal(status->signo, 0);
}

static void program_may_reap_the_child_itself(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("exit 5");
	struct weir_child *child = create(r, &opts);
	struct weir_child_status status;
	int code;

	assert_int_equal(waitpid(-1, &code, 0), weir_child_pid(child));
	assert_int_equal(WEXITSTATUS(code), 5);
	assert_lost(wait_for(r, child, &status), &status, 5);
	assert_int_equal(weir_child_kill(child, SIGTERM), -ESRCH);
	weir_child_destroy(child);
}

static void program_may_ignore_sigchld(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("exit 6");
	struct sigaction old, act = { .sa_handler = SIG_IGN };
	struct weir_child_status status;
	struct weir_child *child;

	sigaction(SIGCHLD, &act, &old);
	child = create(r, &opts);
	assert_lost(wait_for(r, child, &status), &status, 6);
	weir_child_destroy(child);
	sigaction(SIGCHLD, &old, NULL);
}

static void programs_handler_of_sigchld_stays(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("exit 0");
	struct sigaction old, act = { .sa_handler = on_sigchld };
	struct weir_child *child;

	sigaction(SIGCHLD, &act, &old);
	n_sigchld = 0;
	child = create(r, &opts);
	assert_int_equal(wait_for(r, child, NULL), 0);
	assert_int_equal(n_sigchld, 1);
	weir_child_destroy(child);
	sigaction(SIGCHLD, NULL, &act);
	assert_true(act.sa_handler == on_sigchld);
	sigaction(SIGCHLD, &old, NULL);
}

/* The pid of a child that was destroyed while it ran is no process's. */
static void assert_reaped(struct weir_reactor *r, pid_t pid)
{
	for (int i = 0; i < 100000 && !kill(pid, 0); i++) {
		some_turns(r, 1);
		sched_yield();
	}
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(errno, ESRCH);
}

static void destroy_kills_and_the_loop_reaps(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("trap '' TERM; exec sleep 1000");
	struct weir_child *child = create(r, &opts);
	pid_t pid = weir_child_pid(child);

	weir_child_destroy(child);
	weir_child_destroy(NULL);
	assert_reaped(r, pid);
}

static void reactor_waits_for_the_killed_at_its_end(void **state)
{
	struct weir_reactor_opts longest = { .drain_ms = INT32_MAX };
	struct weir_child_opts opts = SH("exec sleep 1000");
	struct weir_child *child;
	struct weir_reactor *r;
	pid_t pids[20];

	close(own_pidfd());
	r = start_reactor_with(state, longest);
	for (size_t i = 0; i < N_OF(pids); i++) {
		child = create(r, &opts);
		pids[i] = weir_child_pid(child);
		weir_child_destroy(child);
	}
	end_reactor(state);
	for (size_t i = 0; i < N_OF(pids); i++)
		assert_int_equal(kill(pids[i], 0), -1);
}

/* Whether a process may trace one that is not its child. */
static void skip_without_ptrace(void)
{
	pid_t pid = fork();
	int code;

	assert_true(pid >= 0);
	if (!pid)
		_exit(!!ptrace(PTRACE_SEIZE, getppid(), NULL, NULL));
	assert_int_equal(waitpid(pid, &code, 0), pid);
	if (code)
		skip_because("no process may be traced here");
}

/* A process that traces others: when these have ended, they cannot be reaped
 * before that process has ended. */
struct tracer {
	pid_t pid;
	int fd;
};

static void trace_and_wait(const pid_t *pids, size_t n, int fd, int said)
{
	char c = 'y';

	for (size_t i = 0; i < n; i++)
		if (ptrace(PTRACE_SEIZE, pids[i], NULL, NULL))
			_exit(1);
	if (write(said, &c, 1) == 1)
		(void)!read(fd, &c, 1);
	_exit(0);
}

static struct tracer trace(const pid_t *pids, size_t n)
{
	struct tracer t;
	int to[2], from[2];
	char c = 0;

	pipe_pair(to);
	pipe_pair(from);
	t.pid = fork();
	assert_true(t.pid >= 0);
	if (!t.pid) {
		close(to[1]);
		trace_and_wait(pids, n, to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	t.fd = to[1];
	assert_int_equal(read(from[0], &c, 1), 1);
	close(from[0]);
	return t;
}

static void tracer_end(const struct tracer *t)
{
	close(t->fd);
	assert_int_equal(waitpid(t->pid, NULL, 0), t->pid);
}

static void await_end(pid_t pid)
{
	struct pollfd p = { (int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0 };

	assert_true(p.fd >= 0);
	assert_int_equal(poll(&p, 1, -1), 1);
	close(p.fd);
}

static void loop_sleeps_while_a_dead_child_is_traced(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("exec sleep 1000");
	struct weir_child_status status;
	struct weir_child *child;
	struct tracer t;
	int n, calls = 0;
	pid_t pid;

	skip_without_ptrace();
	child = create(r, &opts);
	pid = weir_child_pid(child);
	t = trace(&pid, 1);
	rec_init(&rec);
	STARTS(weir_child_wait(child, &rec.op, &status));
	assert_int_equal(weir_child_kill(child, SIGKILL), 0);
	await_end(pid);
	for (int i = 0; i < 1000; i++) {
		n = weir_reactor_turn(r, 0);
		assert_true(n >= 0);
		calls += n;
	}
	assert_in_range(calls, 0, 500);
	assert_int_equal(rec.calls, 0);
	tracer_end(&t);
	assert_int_equal(finish(r, &rec), 0);
	assert_int_equal(status.signo, SIGKILL);
	/* Nor is one forgotten that was destroyed. */
	weir_child_destroy(child);
	child = create(r, &opts);
	pid = weir_child_pid(child);
	t = trace(&pid, 1);
	weir_child_destroy(child);
	await_end(pid);
	some_turns(r, 3);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(weir_reactor_start(r), 0);
	tracer_end(&t);
	assert_reaped(r, pid);
}

/* It waits for all of them as long as for one: otherwise the watchdog comes. */
static void reactor_leaves_those_that_cannot_be_reaped(void **state)
{
	struct weir_reactor_opts short_drain = { .drain_ms = 700 };
	struct weir_child_opts opts = SH("exec sleep 1000");
	struct weir_child *children[100];
	pid_t pids[N_OF(children)];
	struct weir_reactor *r;
	struct tracer t;

	close(own_pidfd());
	skip_without_ptrace();
	r = start_reactor_with(state, short_drain);
	opts.io[0] = opts.io[1] = opts.io[2];
	for (size_t i = 0; i < N_OF(children); i++) {
		children[i] = create(r, &opts);
		pids[i] = weir_child_pid(children[i]);
	}
	t = trace(pids, N_OF(pids));
	for (size_t i = 0; i < N_OF(children); i++)
		weir_child_destroy(children[i]);
	end_reactor(state);
	tracer_end(&t);
	for (size_t i = 0; i < N_OF(pids); i++)
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
}

static void reactor_with_a_child_is_not_destroyed(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("exec sleep 1000");
	struct weir_child *child = create(r, &opts);

	assert_int_equal(weir_reactor_destroy(r), -EBUSY);
	assert_non_null(strstr(weir_why(), "weir_child 1"));
	weir_child_destroy(child);
}

static void stopped_reactor_learns_of_the_end_when_it_starts(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("read x; exit 7");
	struct weir_child *child = create(r, &opts), *other;
	struct weir_child_status status;

	rec_init(&rec);
	STARTS(weir_child_wait(child, &rec.op, &status));
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(rec.res, -ECANCELED);
	assert_int_equal(weir_child_wait(child, &rec.op, &status), -ESHUTDOWN);
	assert_int_equal(weir_child_create(&other, r, &opts), -ESHUTDOWN);
	close(weir_child_take_fd(child, 0));
	assert_int_equal(weir_reactor_start(r), 0);
	assert_int_equal(wait_for(r, child, &status), 0);
	assert_int_equal(status.code, 7);
	weir_child_destroy(child);
}

struct chain {
	struct weir_op op;
	struct weir_reactor *r;
	struct weir_child *child;
	struct weir_child_status status;
	int left;
};

static void start_next(struct chain *c);

static void on_end(struct weir_op *op, int64_t res)
{
	struct chain *c = weir_container_of(op, struct chain, op);

	assert_int_equal(res, 0);
	assert_int_equal(c->status.code, c->left % 100);
	weir_child_destroy(c->child);
	c->child = NULL;
	if (--c->left)
		start_next(c);
}

static void start_next(struct chain *c)
{
	char text[32];
	const char *const argv[] = { "sh", "-c", text, NULL };
	struct weir_child_opts opts = script(argv);

	snprintf(text, sizeof(text), "exit %d", c->left % 100);
	c->child = create(c->r, &opts);
	STARTS(weir_child_wait(c->child, &c->op, &c->status));
}

static void callback_may_destroy_its_child_and_start_another(void **state)
{
	struct weir_reactor *r = start(state);
	struct chain chains[8];
	int busy = N_OF(chains), fds = count_fds();

	for (size_t i = 0; i < N_OF(chains); i++) {
		chains[i] = (struct chain){ .r = r, .left = 1 + (int)i };
		weir_op_init(&chains[i].op, on_end);
		start_next(&chains[i]);
	}
	while (busy) {
		assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
		busy = 0;
		for (size_t i = 0; i < N_OF(chains); i++)
			busy += chains[i].left > 0;
	}
	assert_int_equal(count_fds(), fds);
}

static void old_kernels_close_what_proc_lists(void **state)
{
	unlike = "close_range";
	fault_ask(differ);
	child_has_no_other_descriptors(state);
	fault_ask(NULL);
}

static void old_kernels_forget_whom_others_have_reaped(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("exit 5");
	struct weir_child *child = create(r, &opts);
	struct weir_child_status status;

	unlike = "pidfd_info";
	fault_ask(differ);
	assert_int_equal(waitpid(-1, NULL, 0), weir_child_pid(child));
	assert_int_equal(wait_for(r, child, &status), -ECHILD);
	assert_int_equal(wait_for(r, child, &status), -ECHILD);
	fault_ask(NULL);
	weir_child_destroy(child);
}

static void child_without_pidfds_is_eopnotsupp(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("exit 5");
	struct weir_child *child;

	unlike = "pidfd";
	fault_ask(differ);
	assert_int_equal(weir_child_create(&child, r, &opts), -EOPNOTSUPP);
	fault_ask(NULL);
}

static void child_whose_watch_failed_is_watched_again(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("read x; exit 7");
	struct weir_child *child = create(r, &opts);
	struct weir_child_status status;

	restart_unwatched(r);
	close(weir_child_take_fd(child, 0));
	assert_reaped(r, weir_child_pid(child));
	assert_int_equal(wait_for(r, child, &status), 0);
	assert_int_equal(status.code, 7);
	weir_child_destroy(child);
}

/* Of the first, the second, ... failure nothing remains. */
static void failed_start_leaves_nothing(void **state)
{
	struct weir_reactor *r = start(state);
	struct weir_child_opts opts = SH("exec sleep 1000");
	struct weir_child *child = create(r, &opts);
	int fds, err = -1, seen = 0;
	pid_t pid = weir_child_pid(child);

	weir_child_destroy(child);
	assert_reaped(r, pid);
	fds = count_fds();
	for (long nth = 0; err; nth++) {
		child = NULL;
		fault_arm(nth);
		err = weir_child_create(&child, r, &opts);
		fault_disarm();
		if (!err)
			break;
		assert_null(child);
		if (err != -ENOMEM && err != -EMFILE && err != -EAGAIN)
			fail_msg("%d: %s, after %s", err, weir_why(), fault_last());
		for (int i = 0; i < 100000 && count_fds() != fds; i++) {
			some_turns(r, 1);
			sched_yield();
		}
		if (count_fds() != fds)
			fail_msg("%d descriptors, not %d, after %s",
				 count_fds(), fds, fault_last());
		seen |= err == -ENOMEM ? 1 : err == -EMFILE ? 2 : 4;
	}
	assert_int_equal(seen, 7);
	weir_child_destroy(child);
}

static void wait_is_refused_beyond_ops_max(void **state)
{
	struct weir_reactor_opts one = { .ops_max = 1 };
	struct weir_child_opts opts = SH("exec sleep 1000");
	struct weir_child *child;
	struct weir_reactor *r;
	struct rec other;

	close(own_pidfd());
	r = start_reactor_with(state, one);
	child = create(r, &opts);
	rec_init(&rec);
	rec_init(&other);
	STARTS(weir_child_wait(child, &rec.op, NULL));
	assert_int_equal(weir_child_wait(child, &other.op, NULL), -EAGAIN);
	weir_child_destroy(child);
	assert_int_equal(finish(r, &rec), -ECANCELED);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(child_reads_and_writes_through_pipes),
		CASE(status_has_signal_and_core_of_a_killed_child),
		CASE(wait_is_cancelled_and_late_and_the_child_runs_on),
		CASE(wait_is_refused_beyond_ops_max),
		CASE(failed_start_is_told_by_its_errno_alone),
		CASE(failed_start_leaves_nothing),
		CASE(search_in_path_remembers_eacces),
		CASE(options_that_are_none_are_refused),
		CASE(child_has_no_other_descriptors),
		CASE(old_kernels_close_what_proc_lists),
		CASE(descriptors_are_placed_whatever_their_numbers),
		CASE(child_runs_where_and_with_what_it_is_told),
		CASE(child_can_be_another_user_without_groups),
		CASE(child_leads_a_group_or_a_session),
		CASE(child_has_the_default_signals),
		CASE(program_may_reap_the_child_itself),
		CASE(program_may_ignore_sigchld),
		CASE(programs_handler_of_sigchld_stays),
		CASE(old_kernels_forget_whom_others_have_reaped),
		CASE(child_without_pidfds_is_eopnotsupp),
		CASE(destroy_kills_and_the_loop_reaps),
		CASE(reactor_waits_for_the_killed_at_its_end),
		CASE(loop_sleeps_while_a_dead_child_is_traced),
		CASE(reactor_leaves_those_that_cannot_be_reaped),
		CASE(child_whose_watch_failed_is_watched_again),
		CASE(reactor_with_a_child_is_not_destroyed),
		CASE(stopped_reactor_learns_of_the_end_when_it_starts),
		CASE(callback_may_destroy_its_child_and_start_another),
	};

	return harness_run(cases, N_OF(cases));
}
