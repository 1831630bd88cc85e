/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * without-uring ERRNO COMMAND...: run a command where io_uring is answered with
 * an errno (1 is EPERM, 38 ENOSYS), as in most containers.  77: no filter can
 * be set here.
 */

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

/* io_uring_setup, _enter and _register have the same numbers everywhere. */
#define NR_FIRST 425
#define NR_LAST 427

int main(int argc, char **argv)
{
	uint32_t err = argc > 2 ? (uint32_t)atoi(argv[1]) : 0;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, NR_FIRST, 0, 2),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, NR_LAST, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	if (argc < 3)
		return 2;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		return 77;
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
