/* SPDX-License-Identifier: BSD-3-Clause */

/* Which pages of statistics are not even opened. */

#include "tests/support/stats-fixture.h"

#include <sys/file.h>
#include <sys/wait.h>

#include "reactor/stats/layout.h"
#include "reactor/stats/place.h"

static void wrong_pids_are_told(void **state)
{
	struct weir_stats *s = NULL;
	pid_t pid = fork();
	int status;

	(void)state;
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(weir_stats_open(&s, pid), -ESRCH);
	assert_int_equal(weir_stats_open(&s, 0), -ESRCH);
	assert_int_equal(weir_stats_open(&s, -1), -ESRCH);
	assert_int_equal(weir_stats_open(&s, INT64_MAX), -ESRCH);
	assert_int_equal(weir_stats_open(&s, getpid()), -ENOENT);
	assert_null(s);
}

/* The page of this process, made by hand of what is no page. */
static void a_page_that_is_something_else_is_refused(void **state)
{
	char name[PAGE_NAME_MAX], path[256];
	struct weir_stats *s = NULL;

	assert_int_equal(chmod(test_dir(state), 0700), 0);
	assert_int_equal(setenv("WEIR_STATS", test_dir(state), 1), 0);
	page_name(name, getpid(), own_pid_ns());
	snprintf(path, sizeof(path), "%s/%s", test_dir(state), name);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(weir_stats_open(&s, getpid()), -EACCES);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(weir_stats_open(&s, getpid()), -EBADMSG);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(weir_stats_open(&s, getpid()), -EBADMSG);
	assert_int_equal(rmdir(path), 0);
	unsetenv("WEIR_STATS");
}

/* As a newer libweir may leave it, whose process lives: it has the lock. */
static void a_page_of_another_version_is_refused(void **state)
{
	const struct stats_header h = {
		.magic = STATS_MAGIC, .version = (STATS_MAJOR + 1) << 16,
	};
	char name[PAGE_NAME_MAX], path[256];
	struct weir_stats *s = NULL;
	int fd;

	assert_int_equal(chmod(test_dir(state), 0700), 0);
	assert_int_equal(setenv("WEIR_STATS", test_dir(state), 1), 0);
	page_name(name, getpid(), own_pid_ns());
	snprintf(path, sizeof(path), "%s/%s", test_dir(state), name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(write(fd, &h, sizeof(h)), sizeof(h));
	assert_int_equal(weir_stats_open(&s, getpid()), -EOPNOTSUPP);
	assert_null(s);
	assert_non_null(strstr(weir_why(), "version 2"));
	close(fd);
	assert_int_equal(unlink(path), 0);
	unsetenv("WEIR_STATS");
}

/* As user 65533: 0, or the line. */
static int ask_as_nobody(pid_t pid)
{
	struct weir_stats *s;

	if (setresuid(65533, 65533, 65533))
		return __LINE__;
	if (weir_stats_open(&s, pid) != -EACCES)
		return __LINE__;
	return strstr(weir_why(), "user 0's") ? 0 : __LINE__;
}

static void page_of_another_user_is_refused(void **state)
{
	char name[PAGE_NAME_MAX], path[256];
	struct weir_stats *s = NULL;
	int status;
	pid_t pid;

	if (geteuid())
		skip_because("this takes two users, and so root");
	publish_here(state);
	pid = fork();
	if (!pid)
		_exit(ask_as_nobody(getppid()) & 0xff);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* One that somebody else has put there. */
	page_name(name, getpid(), own_pid_ns());
	snprintf(path, sizeof(path), "%s/%s", test_dir(state), name);
	assert_int_equal(chown(path, 65533, 65533), 0);
	assert_int_equal(weir_stats_open(&s, getpid()), -EACCES);
	assert_non_null(strstr(weir_why(), "belongs to user 65533"));
	assert_int_equal(chown(path, 0, 0), 0);
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(weir_stats_open(&s, getpid()), -EACCES);
	publish_no_more(state);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(wrong_pids_are_told),
		CASE(a_page_that_is_something_else_is_refused),
		CASE(a_page_of_another_version_is_refused),
		CASE(page_of_another_user_is_refused),
	};

	return harness_run_plain(cases, N_OF(cases));
}
