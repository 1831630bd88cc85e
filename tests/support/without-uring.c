/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * without-uring ERRNO[:FIRST[-LAST]] COMMAND...: run a command where io_uring
 * is answered with an errno (1 is EPERM, 38 ENOSYS), as in most containers;
 * or the system calls from number FIRST to LAST instead.  77: no filter can
 * be set here.
 */

#include "tests/support/forbid.h"

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	unsigned int err, first = NR_URING_SETUP, last = NR_URING_REGISTER;
	int n = argc > 2 ? sscanf(argv[1], "%u:%u-%u", &err, &first, &last) : 0;

	if (n < 1)
		return 2;
	if (n == 2)
		last = first;
	if (forbid_range(first, last, SECCOMP_RET_ERRNO | err))
		return 77;
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
