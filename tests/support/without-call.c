/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * without-call NAME ERRNO COMMAND...: run a command where one system call is
 * answered with an errno, as filters of containers do.  77: no filter can be
 * set here.
 */

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct { const char *name; uint32_t nr; } calls[] = {
	{ "copy_file_range", SYS_copy_file_range },
	{ "fsync", SYS_fsync },
	{ "renameat2", SYS_renameat2 },
	{ "sendfile", SYS_sendfile },
};

int main(int argc, char **argv)
{
	uint32_t err = argc > 3 ? (uint32_t)atoi(argv[2]) : 0;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };
	size_t i, n = sizeof(calls) / sizeof(calls[0]);

	if (argc < 4)
		return 2;
	for (i = 0; i < n && strcmp(calls[i].name, argv[1]); i++)
		;
	if (i == n)
		return 2;
	code[1].k = calls[i].nr;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		return 77;
	execvp(argv[3], argv + 3);
	perror(argv[3]);
	return 127;
}
