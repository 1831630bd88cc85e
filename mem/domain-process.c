/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Process domains.  The creation tries once whether this process may access the
 * other one.  Before each move the pidfd is polled, to check that the process
 * still exists.
 *
 * The system calls are made by number: glibc has wrappers for pidfds only since
 * 2.36, and sanitizers would take an intercepted call for an access by the
 * caller.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/domain-internal.h"

/* The same on all architectures. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

bool process_lives(const struct domain_process *process)
{
	struct pollfd p = { .fd = process->pidfd, .events = POLLIN };
	int n;

	if (fault("pidfd poll"))
		return false;
	do {
		n = poll(&p, 1, 0);
	} while (n < 0 && errno == EINTR);
	return n == 0;
}

/* Yama's setting; 0 if it has none. */
static int ptrace_scope(void)
{
	char text[16] = "";
	int fd = open("/proc/sys/kernel/yama/ptrace_scope",
		      O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 ? atoi(text) : 0;
}

static int explain_eperm(const char *call, int pid)
{
	char path[32];
	struct stat st;
	int scope = ptrace_scope();

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (!stat(path, &st) && st.st_uid != geteuid())
		return why(-EPERM, "%s: process %d belongs to user %u, or is "
			   "not dumpable (see prctl(2)); run as that user, or "
			   "with CAP_SYS_PTRACE", call, pid,
			   (unsigned int)st.st_uid);
	if (scope == 1)
		return why(-EPERM, "%s: process %d may be reached by its "
			   "parents only, as kernel.yama.ptrace_scope is 1; "
			   "have it call prctl(PR_SET_PTRACER), set that to 0, "
			   "or run with CAP_SYS_PTRACE", call, pid);
	if (scope > 1)
		return why(-EPERM, "%s: kernel.yama.ptrace_scope is %d; set it "
			   "to 0 or 1 (from 3 only a reboot leads back), or at "
			   "2 run with CAP_SYS_PTRACE", call, scope);
	return why(-EPERM, "%s: process %d may not be reached: it has other "
		   "rights than we, or is not dumpable (see prctl(2)), or a "
		   "sandbox forbids process_vm_readv(2); run with its rights, "
		   "or with CAP_SYS_PTRACE", call, pid);
}

static int explain(const char *call, int pid, int err)
{
	switch (err) {
	case EPERM:
	case EACCES:
		return explain_eperm(call, pid);
	case ESRCH:
		return why(-ESRCH, "%s: there is no process %d, or it has "
			   "ended", call, pid);
	case ENOSYS:
		return why(-EOPNOTSUPP, "%s: the kernel, or the sandbox we are "
			   "in, has no pidfds or no process_vm_readv(2); Linux "
			   "5.3 has", call);
	case EINVAL:
		return why(-EINVAL, "%s: %d is no process; a thread has a "
			   "number too, but no memory of its own", call, pid);
	default:
		return why(-err, "%s: process %d: %s", call, pid,
			   strerror(err));
	}
}

/* May we?  Reads a byte where normally nothing is. */
static int try_it(const char *call, int pid)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { NULL, 1 };
	long n;

	if (fault("process_vm_readv")) {
		errno = EPERM;
		n = -1;
	} else {
		n = syscall(SYS_process_vm_readv, pid, &here, 1, &there, 1, 0);
	}
	return n >= 0 || errno == EFAULT ? 0 : explain(call, pid, errno);
}

static int check_opts(const char *call,
		      const struct weir_domain_process_opts *opts)
{
	if (opts->flags & ~WEIR_DOMAIN_PROCESS_READ_ONLY)
		return why(-EINVAL, "%s: unknown .flags %x", call, opts->flags);
	if (opts->reserved)
		return why(-E2BIG, "%s: .reserved is unknown to this version",
			   call);
	return 0;
}

static struct domain_place place(const struct weir_domain *domain)
{
	return (struct domain_place){
		PLACE_PROCESS,
		{ (uint64_t)((const struct domain_process *)domain)->pid },
	};
}

const struct domain_class domain_class_process = {
	.place = place,
};

static void release(struct weir_domain *domain)
{
	close(domain_to_process(domain)->pidfd);
}

/* Takes @pidfd over, whatever comes of it. */
static int make(struct weir_domain **ret, int pid, int pidfd, const char *call,
		const struct weir_domain_process_opts *opts)
{
	struct domain_process *process;
	const char *id = opts->id;
	char own_id[24];
	int err;

	if (!id) {
		snprintf(own_id, sizeof(own_id), "process %d", pid);
		id = own_id;
	}
	process = mem_calloc(1, sizeof(*process) + strlen(id) + 1);
	if (!process) {
		close(pidfd);
		return why(-ENOMEM, "%s: no memory", call);
	}
	memcpy(process->id_mem, id, strlen(id) + 1);
	process->domain.cls = &domain_class_process;
	process->domain.kind = WEIR_DOMAIN_PROCESS;
	process->domain.size = UINT64_MAX;
	process->domain.id = process->id_mem;
	process->domain.ctx = opts->ctx;
	process->domain.release = release;
	process->pid = pid;
	process->pidfd = pidfd;
	process->domain.no_write = opts->flags & WEIR_DOMAIN_PROCESS_READ_ONLY;

	err = try_it(call, pid);
	if (!err && !process_lives(process))
		err = explain(call, pid, ESRCH);
	if (err) {
		release(&process->domain);
		free(process);
		return err;
	}
	domain_add(&process->domain);
	*ret = &process->domain;
	return 0;
}

int weir_domain_process_create(struct weir_domain **ret, int pid,
			       const struct weir_domain_process_opts *user)
{
	static const char call[] = "weir_domain_process_create";
	struct weir_domain_process_opts opts;
	int err = opts_load(&opts, sizeof(opts), user, call);
	long fd;

	if (!err)
		err = check_opts(call, &opts);
	if (err)
		return err;
	if (pid <= 0)
		return explain(call, pid, EINVAL);
	fd = fault("pidfd_open") ? (errno = EMFILE, -1) :
				   syscall(SYS_pidfd_open, pid, 0);
	/* A thread's number: ENOENT since 6.15, EINVAL before. */
	if (fd < 0)
		return explain(call, pid, errno == ENOENT ? EINVAL : errno);
	return make(ret, pid, (int)fd, call, &opts);
}

/* The number of the process of @pidfd, 0: none here, -1: it has ended. */
static int pid_of(const char *call, int pidfd, int *pid)
{
	char path[40], line[128];
	int found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	f = fault("fopen") ? (errno = EMFILE, NULL) : fopen(path, "re");
	if (!f)
		return why(errno == ENOENT ? -EBADF : -errno,
			   "%s: fd %d is not open, or /proc is not there: %s",
			   call, pidfd, strerror(errno));
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, "Pid: %d", pid) == 1;
	fclose(f);
	return found ? 0 : why(-EINVAL, "%s: fd %d is no pidfd", call, pidfd);
}

int weir_domain_process_create_pidfd(
	struct weir_domain **ret, int pidfd,
	const struct weir_domain_process_opts *user)
{
	static const char call[] = "weir_domain_process_create_pidfd";
	struct weir_domain_process_opts opts;
	int err = opts_load(&opts, sizeof(opts), user, call);
	int pid, fd;

	if (!err)
		err = check_opts(call, &opts);
	if (!err)
		err = pid_of(call, pidfd, &pid);
	if (err)
		return err;
	if (pid < 0)
		return explain(call, pid, ESRCH);
	if (!pid)
		return why(-EOPNOTSUPP, "%s: the process of fd %d is in "
			   "another PID namespace, where we cannot name it",
			   call, pidfd);
	fd = fault("fcntl") ? (errno = EMFILE, -1) :
			      fcntl(pidfd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return why(-errno, "%s: fd %d: %s", call, pidfd,
			   strerror(errno));
	return make(ret, pid, fd, call, &opts);
}

int weir_domain_process_pid(const struct weir_domain *domain)
{
	if (!domain_is_process(domain))
		return -1;
	return ((const struct domain_process *)domain)->pid;
}
