/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_FORBID_H
#define TESTS_FORBID_H

/* System calls that a seccomp filter refuses, for this process and its
 * children, for ever. */

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define FORBID_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define FORBID_ARCH AUDIT_ARCH_AARCH64
#endif

/* From now on the calls from @first to @last have @action, a SECCOMP_RET_.
 * Returns 0, or 77: not possible here. */
static inline int forbid_range(uint32_t first, uint32_t last, uint32_t action)
{
#ifdef FORBID_ARCH
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FORBID_ARCH, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 1),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, action),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		return 77;
	return 0;
#else
	(void)first, (void)last, (void)action;
	return 77;
#endif
}

/* The call @nr fails with errno @err. */
static inline int forbid_call(long nr, int err)
{
	return forbid_range((uint32_t)nr, (uint32_t)nr,
			    SECCOMP_RET_ERRNO | (uint32_t)err);
}

/* io_uring_setup, _enter and _register have the same numbers everywhere. */
#define NR_URING_SETUP 425
#define NR_URING_ENTER 426
#define NR_URING_REGISTER 427

static inline int forbid_uring(uint32_t action)
{
	return forbid_range(NR_URING_SETUP, NR_URING_REGISTER, action);
}

#endif /* TESTS_FORBID_H */
