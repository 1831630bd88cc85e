/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_CHILD_FIXTURE_H
#define TESTS_CHILD_FIXTURE_H

/* Functions that run in a child, because they set filters and limits. */

#include "tests/support/forbid.h"
#include "tests/support/harness.h"

#include <sys/wait.h>

/* The function returns 1 if @cond is false. */
#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "line %d: not: %s; why: %s\n", \
				__LINE__, #cond, weir_why()); \
			return 1; \
		} \
	} while (0)

/* Run @fn in a child; skip if it returns 77.  Returns the wait status. */
static inline int in_child(int (*fn)(void))
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip_because("no seccomp filter can be set");
	return status;
}

#endif /* TESTS_CHILD_FIXTURE_H */
