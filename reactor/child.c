/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Child processes: a watch on a pidfd, which is readable when the process has
 * ended.  Then waitid(2) reaps it, with what it used.
 *
 *	RUNS --- the pidfd is readable ---> ENDED	waits complete
 *	  |                                   |
 *	  | destroy: SIGKILL                  | destroy
 *	  v                                   v
 *	KILLED ------ readable -----------> freed
 *
 * IORING_OP_WAITID would not tell what the child used, and so needs the same
 * system call after it; and a poll is the same on both backends.
 *
 * A KILLED child belongs to the reactor, which waits for it at its own end.
 *
 * A process that has ended cannot be reaped while another process traces it, and
 * a watch can fail: then the child is looked at again every RETRY_MS.
 */

#include <weir/child.h>

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/watch.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/libc.h"
#include "base/opts.h"
#include "base/why.h"
#include "reactor/op-inline.h"
#include "reactor/source.h"

/*
 * From options to a process that runs the program.
 *
 * The child shares this process's memory until it executes the program, as after
 * vfork(2), and the calling thread waits.  It runs on a stack of its own and
 * makes system calls only.  The child reports the failing step in this mapping,
 * which is shared, so that it also works if an emulator turns the vfork into a
 * fork.  Until execve(2) it has no exit signal: a failed start sends no SIGCHLD.
 */

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif
#define WAIT_PIDFD ((idtype_t)3)	/* P_PIDFD, of Linux 5.4 */

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define SIGNALS 64
#define SIGSET_BYTES (SIGNALS / 8)
#define STACK_BYTES (64u << 10)

enum step {
	STEP_EXEC,
	STEP_SESSION,
	STEP_GROUP,
	STEP_FDS,
	STEP_DIR,
	STEP_GROUPS,
	STEP_GID,
	STEP_UID,
	STEP_CLOSE,
};

/* What the child works on; the stack is behind it. */
struct spawn {
	const char *program;
	const char *path;	/* Where to search; NULL: nowhere. */
	char *const *argv, *const *envp;
	const char *dir;
	uint32_t flags;
	uid_t uid;
	gid_t gid;
	bool drops_groups;
	bool no_close_range;
	uint32_t n;
	int fds[WEIR_CHILD_FDS_MAX];
	char file[PATH_MAX];
	volatile int err;
	volatile enum step step;
};

#define SPAWN_BYTES ((sizeof(struct spawn) + 4095) & ~(size_t)4095)

/* Sanitizers must not instrument it: they do not know of this thread. */
#define IN_CHILD \
	__attribute__((no_sanitize("address"), no_sanitize("thread"), \
		       no_sanitize("undefined")))

IN_CHILD static int failed(struct spawn *s, enum step step, int err)
{
	s->step = step;
	s->err = err;
	return -1;
}

IN_CHILD static void reset_signals(void)
{
	/* Larger than any kernel's struct sigaction: SIG_DFL, no flags. */
	static const uint64_t none[8];

	for (int i = 1; i <= SIGNALS; i++)
		syscall(SYS_rt_sigaction, i, none, NULL, SIGSET_BYTES);
}

/* The numbers below .n are about to be replaced, so none there may be needed
 * later: it moves above. */
IN_CHILD static int place_fds(struct spawn *s)
{
	long fd;

	for (uint32_t i = 0; i < s->n; i++) {
		if (s->fds[i] < 0 || s->fds[i] >= (int)s->n ||
		    s->fds[i] == (int)i)
			continue;
		fd = syscall(SYS_fcntl, s->fds[i], F_DUPFD_CLOEXEC, s->n);
		if (fd < 0)
			return failed(s, STEP_FDS, errno);
		s->fds[i] = (int)fd;
	}
	for (uint32_t i = 0; i < s->n; i++) {
		fd = 0;
		if (s->fds[i] < 0)
			syscall(SYS_close, i);
		else if (s->fds[i] == (int)i)
			fd = syscall(SYS_fcntl, i, F_SETFD, 0);
		else
			fd = syscall(SYS_dup3, s->fds[i], i, 0);
		if (fd < 0)
			return failed(s, STEP_FDS, errno);
	}
	return 0;
}

struct entry {
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

IN_CHILD static int number_of(const char *name)
{
	int n = 0;

	for (; *name >= '0' && *name <= '9'; name++)
		n = 10 * n + (*name - '0');
	return *name ? -1 : n;
}

/* Before Linux 5.9: those that /proc lists, again and again, because closing
 * changes the list. */
IN_CHILD static int close_listed(const struct spawn *s)
{
	long dir = syscall(SYS_openat, AT_FDCWD, "/proc/self/fd",
			   O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	uint64_t buf[128];
	const struct entry *e;
	bool some = true;
	long n, at;
	int fd;

	if (dir < 0)
		return -1;
	while (some) {
		some = false;
		syscall(SYS_lseek, dir, 0, SEEK_SET);
		while ((n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0)
			for (at = 0; at < n; at += e->len) {
				e = (const struct entry *)(const void *)
					    ((const char *)buf + at);
				fd = e->name[0] == '.' ? -1 : number_of(e->name);
				if (fd < (int)s->n || fd == dir)
					continue;
				syscall(SYS_close, fd);
				some = true;
			}
	}
	syscall(SYS_close, dir);
	return 0;
}

IN_CHILD static int close_others(struct spawn *s)
{
	if (!s->no_close_range &&
	    !syscall(SYS_close_range, s->n, ~0u, 0))
		return 0;
	if (!s->no_close_range && errno != ENOSYS && errno != EPERM)
		return failed(s, STEP_CLOSE, errno);
	return close_listed(s) ? failed(s, STEP_CLOSE, errno) : 0;
}

IN_CHILD static int become(struct spawn *s)
{
	if (s->drops_groups && syscall(SYS_setgroups, 0, NULL))
		return failed(s, STEP_GROUPS, errno);
	if (s->flags & WEIR_CHILD_GID &&
	    syscall(SYS_setresgid, s->gid, s->gid, s->gid))
		return failed(s, STEP_GID, errno);
	if (s->flags & WEIR_CHILD_UID &&
	    syscall(SYS_setresuid, s->uid, s->uid, s->uid))
		return failed(s, STEP_UID, errno);
	return 0;
}

IN_CHILD static int prepare(struct spawn *s)
{
	if (s->flags & WEIR_CHILD_SESSION && syscall(SYS_setsid) < 0)
		return failed(s, STEP_SESSION, errno);
	if (s->flags & WEIR_CHILD_GROUP && !(s->flags & WEIR_CHILD_SESSION) &&
	    syscall(SYS_setpgid, 0, 0))
		return failed(s, STEP_GROUP, errno);
	if (place_fds(s))
		return -1;
	if (s->dir && syscall(SYS_chdir, s->dir))
		return failed(s, STEP_DIR, errno);
	if (become(s))
		return -1;
	return close_others(s);
}

/* The file of .program in the directory at the start of @dir; false: its name
 * is too long. */
IN_CHILD static bool join(struct spawn *s, const char *dir)
{
	size_t n = 0;

	while (dir[n] && dir[n] != ':' && n < PATH_MAX - 2) {
		s->file[n] = dir[n];
		n++;
	}
	if (n)
		s->file[n++] = '/';
	for (const char *p = s->program; n < PATH_MAX; p++, n++) {
		s->file[n] = *p;
		if (!*p)
			return true;
	}
	return false;
}

/* Errors after which the search goes on, as in execvp(3). */
IN_CHILD static bool may_be_elsewhere(int err)
{
	return err == ENOENT || err == ENOTDIR || err == EACCES ||
	       err == ENAMETOOLONG || err == ENODEV || err == ESTALE;
}

IN_CHILD static void execute(struct spawn *s)
{
	const char *dir = s->path;
	int err = ENOENT;

	if (!dir) {
		syscall(SYS_execve, s->program, s->argv, s->envp);
		failed(s, STEP_EXEC, errno);
		return;
	}
	for (;;) {
		if (join(s, dir)) {
			syscall(SYS_execve, s->file, s->argv, s->envp);
			if (!may_be_elsewhere(errno)) {
				failed(s, STEP_EXEC, errno);
				return;
			}
			if (errno == EACCES)
				err = EACCES;
		}
		while (*dir && *dir != ':')
			dir++;
		if (!*dir++)
			break;
	}
	failed(s, STEP_EXEC, err);
}

IN_CHILD static int child_main(void *arg)
{
	struct spawn *s = arg;
	uint64_t none = 0;

	/* Before the mask is empty: no handler of ours may run here. */
	reset_signals();
	if (!prepare(s)) {
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL,
			SIGSET_BYTES);
		execute(s);
	}
	syscall(SYS_exit_group, 127);
	return 0;
}

/* The options and what the child is to have; all descriptors here. */
struct plan {
	const struct weir_child_opts *opts;
	int fds[WEIR_CHILD_FDS_MAX];	/* For the child; -1: none. */
	int ends[WEIR_CHILD_FDS_MAX];	/* Of pipes, for this process; or -1. */
	uint32_t n;
};

static const struct weir_child_io *io_at(const struct weir_child_opts *o,
					 uint32_t i)
{
	return i < 3 ? &o->io[i] : &o->more[i - 3];
}

static int make_pipe(struct plan *plan, uint32_t i, bool to_child)
{
	int p[2];

	if (fault("pipe2") ? (errno = EMFILE, -1) : pipe2(p, O_CLOEXEC))
		return -errno;
	plan->fds[i] = p[!to_child];
	plan->ends[i] = p[to_child];
	return 0;
}

static int plan_fd(struct plan *plan, uint32_t i)
{
	const struct weir_child_io *io = io_at(plan->opts, i);

	switch (io->kind) {
	case WEIR_STDIO_INHERIT:
		plan->fds[i] = fcntl((int)i, F_GETFD) < 0 ? -1 : (int)i;
		return 0;
	case WEIR_STDIO_NULL:
		plan->fds[i] = fault("open") ? (errno = EMFILE, -1) :
			       open("/dev/null", O_RDWR | O_CLOEXEC);
		return plan->fds[i] < 0 ? -errno : 0;
	case WEIR_STDIO_FD:
		plan->fds[i] = io->fd;
		return 0;
	default:
		return make_pipe(plan, i, io->kind == WEIR_STDIO_PIPE_TO);
	}
}

/* Whether .fds has a descriptor that was made for the child. */
static bool is_made(const struct plan *plan, uint32_t i)
{
	uint32_t kind = io_at(plan->opts, i)->kind;

	return kind != WEIR_STDIO_INHERIT && kind != WEIR_STDIO_FD;
}

static void plan_end(struct plan *plan, bool all)
{
	for (uint32_t i = 0; i < plan->n; i++) {
		if (is_made(plan, i) && plan->fds[i] >= 0)
			close(plan->fds[i]);
		if (all && plan->ends[i] >= 0)
			close(plan->ends[i]);
	}
}

static int plan_make(struct plan *plan, const struct weir_child_opts *opts)
{
	int err = 0;

	plan->opts = opts;
	plan->n = 3 + opts->n_more;
	memset(plan->fds, -1, sizeof(plan->fds));
	memset(plan->ends, -1, sizeof(plan->ends));
	for (uint32_t i = 0; i < plan->n && !err; i++)
		err = plan_fd(plan, i);
	if (!err)
		return 0;
	plan_end(plan, true);
	return why_no_fd(err, "weir_child_create", "a pipe to the child");
}

static const char *path_in(char *const *envp)
{
	for (; envp && *envp; envp++)
		if (!strncmp(*envp, "PATH=", 5))
			return *envp + 5;
	return "/bin:/usr/bin";
}

static void spawn_fill(struct spawn *s, const struct plan *plan)
{
	const struct weir_child_opts *o = plan->opts;

	s->program = o->program ? o->program : o->argv[0];
	s->argv = o->argv;
	s->envp = o->envp ? o->envp : environ;
	if (!strchr(s->program, '/'))
		s->path = path_in(s->envp);
	s->dir = o->dir;
	s->flags = o->flags;
	s->uid = o->uid;
	s->gid = o->gid;
	s->drops_groups = (o->flags & WEIR_CHILD_UID && o->uid != geteuid()) ||
			  (o->flags & WEIR_CHILD_GID && o->gid != getegid());
	s->no_close_range = fault_choice("close_range");
	s->n = plan->n;
	memcpy(s->fds, plan->fds, sizeof(s->fds));
}

static const char *const steps[] = {
	[STEP_EXEC] = "execute",
	[STEP_SESSION] = "make a session for",
	[STEP_GROUP] = "make a process group for",
	[STEP_FDS] = "give its descriptors to",
	[STEP_DIR] = "enter .dir for",
	[STEP_GROUPS] = "drop the groups for",
	[STEP_GID] = "become group .gid for",
	[STEP_UID] = "become user .uid for",
	[STEP_CLOSE] = "close other descriptors for",
};

/* The child has ended, or is about to: without SIGCHLD. */
static int refuse(struct spawn *s, int pidfd)
{
	siginfo_t info;
	int err = s->err;

	while (waitid(WAIT_PIDFD, (id_t)pidfd, &info, WEXITED | __WALL) &&
	       errno == EINTR)
		;
	close(pidfd);
	return why(-err, "weir_child_create: cannot %s '%s': %s",
		   steps[s->step], s->program, strerror(err));
}

/*
 * No signal may be delivered to a child with our memory, not even libc's.
 *
 * If the child becomes another user, the kernel makes that memory undumpable:
 * this process would leave no core dump, and others of its user could not read
 * it.  Starts of this kind are one after the other, so that each finds the flag
 * as the program has set it.
 */
static pid_t clone_child(struct spawn *s, char *stack_end, int *pidfd)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	bool changes_user = s->flags & (WEIR_CHILD_UID | WEIR_CHILD_GID);
	uint64_t all = UINT64_MAX, old;
	int dumpable = 0, err;
	pid_t pid;

	*pidfd = -1;
	if (fault("clone")) {
		errno = EAGAIN;
		return -1;
	}
	if (changes_user) {
		pthread_mutex_lock(&lock);
		dumpable = prctl(PR_GET_DUMPABLE);
	}
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, SIGSET_BYTES);
	pid = clone(child_main, stack_end, CLONE_VM | CLONE_VFORK | CLONE_PIDFD,
		    s, pidfd);
	err = errno;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, SIGSET_BYTES);
	if (changes_user) {
		if (prctl(PR_GET_DUMPABLE) != dumpable)
			prctl(PR_SET_DUMPABLE, dumpable);
		pthread_mutex_unlock(&lock);
	}
	errno = err;
	return pid;
}

static pid_t spawn(const struct plan *plan, int *pidfd)
{
	size_t bytes = SPAWN_BYTES + STACK_BYTES;
	struct spawn *s;
	pid_t pid;

	s = fault("mmap") ? MAP_FAILED :
	    mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		return why(-ENOMEM, "weir_child_create: no memory");
	spawn_fill(s, plan);
	pid = clone_child(s, (char *)s + bytes, pidfd);
	if (pid < 0)
		pid = why(-errno, "weir_child_create: no process can be made "
			  "for '%s': %s", s->program, strerror(errno));
	else if (s->err)
		pid = refuse(s, *pidfd);
	munmap(s, bytes);
	return pid;
}

/* The kernel's record of one that others have reaped: Linux 6.15. */
struct info {
	uint64_t mask, cgroup;
	uint32_t ids[11];
	int32_t exit;		/* As wait(2) has it. */
};

#define INFO_EXIT 8u		/* PIDFD_INFO_EXIT */
#define GET_INFO _IOWR(0xff, 11, struct info) /* PIDFD_GET_INFO */

static void decode(struct weir_child_status *ret, int status)
{
	bool exited = WIFEXITED(status);

	ret->code = exited ? WEXITSTATUS(status) : -1;
	ret->signo = exited ? 0 : WTERMSIG(status);
	ret->core = !exited && WCOREDUMP(status);
}

static int ask_kernel(int pidfd, struct weir_child_status *ret)
{
	struct info info = { .mask = INFO_EXIT };

	if (fault_choice("pidfd_info") || ioctl(pidfd, GET_INFO, &info) ||
	    !(info.mask & INFO_EXIT))
		return -ECHILD;
	decode(ret, info.exit);
	return 1;
}

static int reap(int pidfd, struct weir_child_status *ret)
{
	siginfo_t info = { 0 };
	bool exited;

	*ret = (struct weir_child_status){ 0 };
	if (syscall(SYS_waitid, WAIT_PIDFD, pidfd, &info,
		    WEXITED | WNOHANG | __WALL, &ret->usage))
		return errno == ECHILD ? ask_kernel(pidfd, ret) : 0;
	if (!info.si_pid)
		return 0;
	exited = info.si_code == CLD_EXITED;
	ret->code = exited ? info.si_status : -1;
	ret->signo = exited ? 0 : info.si_status;
	ret->core = info.si_code == CLD_DUMPED;
	return 1;
}

/* For this process, which is not its own child. */
static bool ask_pidfd(void)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	siginfo_t info;
	bool has;

	if (fd < 0)
		return false;
	has = waitid(WAIT_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG) &&
	      errno == ECHILD;
	close(fd);
	return has;
}

static bool has_pidfd(void)
{
	static atomic_int known; /* 0: not known yet, 1: no, 2: yes. */
	int n = atomic_load(&known);

	if (fault_choice("pidfd"))
		return false;
	if (!n) {
		n = ask_pidfd() ? 2 : 1;
		atomic_store(&known, n);
	}
	return n == 2;
}

struct weir_child {
	struct source source;	/* On the pidfd. */
	pid_t pid;
	int res;		/* 1: it runs; 0: it ended; or an errno. */
	bool killed;
	struct weir_child_status status;
	struct op_queue waits;
	struct weir_timer_node timer; /* To look at it again. */
	int ends[WEIR_CHILD_FDS_MAX];	/* Of pipes; -1. */
};

#define RUNS 1
#define RETRY_MS 10

static struct weir_child *child_of(struct source *s)
{
	return weir_container_of(s, struct weir_child, source);
}

/* The parameters of a wait. */
enum { WAIT_CHILD, WAIT_RET };

static void wait_cancel(struct weir_op *op)
{
	struct weir_child *c = (void *)(uintptr_t)op->u.words[WAIT_CHILD];

	op_queue_del(&c->waits, op);
	op_complete(op, -ECANCELED);
}

static const struct weir_op_class wait_class = {
	.name = "child wait",
	.cancel = wait_cancel,
};

static void tell(const struct weir_child *c, struct weir_child_status *ret)
{
	if (ret && !c->res)
		*ret = c->status;
}

static void end_waits(struct weir_child *c, int res)
{
	struct weir_op *op;

	while ((op = op_queue_pop(&c->waits))) {
		tell(c, (void *)(uintptr_t)op->u.words[WAIT_RET]);
		op_complete(op, res);
	}
}

/* The source is released at once, or when the kernel has no request of it. */
static void child_free(struct weir_child *c)
{
	int fd = c->source.fd;

	wheel_del(&c->source.reactor->wheel, &c->timer);
	source_destroy(&c->source);
	close(fd);
}

static void release(struct source *s)
{
	free(child_of(s));
}

static void watch_later(struct weir_child *c)
{
	struct weir_reactor *r = c->source.reactor;

	wheel_rearm(&r->wheel, &c->timer,
		    reactor_now(r) + RETRY_MS * WEIR_MSEC);
}

static void on_timer(struct weir_timer_node *node)
{
	struct weir_child *c = weir_container_of(node, struct weir_child,
						 timer);

	if (source_arm(&c->source))
		watch_later(c);
}

/* The pidfd is readable, or cannot be watched any more. */
static void deliver(struct source *s, int64_t res, int rx_id)
{
	struct weir_child *c = child_of(s);
	int ended = reap(s->fd, &c->status);

	(void)res, (void)rx_id;
	if (!ended) {
		source_disarm(s);
		watch_later(c);
	} else if (c->killed) {
		child_free(c);
	} else {
		source_disarm(s);
		c->res = ended < 0 ? ended : 0;
		end_waits(c, c->res);
	}
}

static int check_io(const struct weir_child_io *io, uint32_t n)
{
	if (io->kind > WEIR_STDIO_FD)
		return why(-EINVAL, "weir_child_create: descriptor %u has an "
			   "unknown kind %u: use those of WEIR_STDIO_", n,
			   io->kind);
	if (io->kind == WEIR_STDIO_FD && fcntl(io->fd, F_GETFD) < 0)
		return why(-EBADF, "weir_child_create: descriptor %d, which "
			   "is to be the child's %u, is not open", io->fd, n);
	return 0;
}

#define FLAGS_ALL \
	(WEIR_CHILD_UID | WEIR_CHILD_GID | WEIR_CHILD_GROUP | \
	 WEIR_CHILD_SESSION)

static int check_opts(const struct weir_child_opts *o)
{
	int err = 0;

	if (!o->argv || !o->argv[0])
		return why(-EINVAL, "weir_child_create: .argv is NULL or empty; "
			   "its first member is the program's name");
	if (!(o->program ? o->program : o->argv[0])[0])
		return why(-ENOENT, "weir_child_create: the name of the program "
			   "is empty");
	if (o->flags & ~FLAGS_ALL)
		return why(-EINVAL, "weir_child_create: unknown flags %#x",
			   o->flags & ~FLAGS_ALL);
	if (o->n_more > WEIR_CHILD_FDS_MAX - 3 || (o->n_more && !o->more))
		return why(-EINVAL, "weir_child_create: .more is NULL, or has "
			   "more than %d descriptors", WEIR_CHILD_FDS_MAX - 3);
	for (uint32_t i = 0; i < 3 && !err; i++)
		err = check_io(&o->io[i], i);
	for (uint32_t i = 0; i < o->n_more && !err; i++)
		err = check_io(&o->more[i], 3 + i);
	return err;
}

static int load_opts(struct weir_child_opts *o, struct weir_reactor *r,
		     const struct weir_child_opts *user)
{
	int err = user ? opts_load(o, sizeof(*o), user, "weir_child_create") :
			 why(-EINVAL, "weir_child_create: no options");

	if (!err)
		err = check_opts(o);
	if (err)
		return err;
	if (r->attention & ATTENTION_STOPPING)
		return why(-ESHUTDOWN, "weir_child_create: the reactor is "
			   "stopping or stopped");
	if (r->backend->isolated)
		return why(-EOPNOTSUPP, "weir_child_create: a simulated world "
			   "has no processes");
	if (!has_pidfd())
		return why(-EOPNOTSUPP, "weir_child_create: this kernel has no "
			   "pidfds to wait for, which Linux 5.4 has, or a "
			   "filter of system calls refuses them");
	return 0;
}

/* The process runs: from here on nothing may fail but the watch. */
static int begin(struct weir_child *c, struct weir_reactor *r, int pidfd)
{
	struct source *s = &c->source;
	int err;

	s->deliver = deliver;
	s->release = release;
	s->events = WEIR_READABLE;
	c->timer.fire = on_timer;
	op_queue_init(&c->waits);
	c->res = RUNS;
	(void)source_init(s, r, "weir_child", SOURCE_WATCH, pidfd);
	err = source_arm(s);
	if (!err)
		return 0;
	weir_child_destroy(c);
	return why(err, "weir_child_create: no capacity to watch the process");
}

/* Make the process: 0 or a negative errno. */
static int launch(struct weir_child *c, const struct weir_child_opts *opts,
		  int *pidfd)
{
	struct plan plan;
	int err = plan_make(&plan, opts);

	if (err)
		return err;
	c->pid = spawn(&plan, pidfd);
	plan_end(&plan, c->pid < 0);
	memcpy(c->ends, plan.ends, sizeof(c->ends));
	return c->pid < 0 ? c->pid : 0;
}

int weir_child_create(struct weir_child **ret, struct weir_reactor *r,
		      const struct weir_child_opts *user)
{
	struct weir_child_opts opts;
	struct weir_child *c;
	int err, pidfd;

	reactor_check_thread(r);
	err = load_opts(&opts, r, user);
	if (err)
		return err;
	c = mem_calloc(1, sizeof(*c));
	if (!c)
		return why(-ENOMEM, "weir_child_create: no memory");
	err = launch(c, &opts, &pidfd);
	if (err) {
		free(c);
		return err;
	}
	err = begin(c, r, pidfd);
	if (!err)
		*ret = c;
	return err;
}

int weir_child_take_fd(struct weir_child *child, uint32_t n)
{
	int fd = n < WEIR_CHILD_FDS_MAX ? child->ends[n] : -1;

	reactor_check_thread(child->source.reactor);
	if (fd < 0)
		return why(-EBADF, "weir_child_take_fd: the child's descriptor "
			   "%u is no pipe, or was taken already", n);
	child->ends[n] = -1;
	return fd;
}

pid_t weir_child_pid(const struct weir_child *child)
{
	return child->pid;
}

int weir_child_kill(struct weir_child *child, int signo)
{
	reactor_check_thread(child->source.reactor);
	if (!syscall(SYS_pidfd_send_signal, child->source.fd, signo, NULL, 0))
		return 0;
	return why(-errno, "weir_child_kill: signal %d to process %d: %s",
		   signo, child->pid, strerror(errno));
}

int weir_child_wait(struct weir_child *child, struct weir_op *op,
		    struct weir_child_status *ret)
{
	struct weir_reactor *r = child->source.reactor;
	int err = op_admit(r, op);

	if (err)
		return op_refused(err, op, "weir_child_wait");
	if (child->res != RUNS) {
		tell(child, ret);
		op_begin_ready(r, op, &wait_class, child->res, op_time_now(r));
		return 0;
	}
	/* Unless watching it has failed, it is armed. */
	if (source_arm(&child->source))
		watch_later(child);
	op->u.words[WAIT_CHILD] = (uintptr_t)child;
	op->u.words[WAIT_RET] = (uintptr_t)ret;
	op_enlist(r, op, &wait_class);
	op_queue_push(&child->waits, op);
	return 0;
}

/* Until it has ended and was reaped, or the time has come. */
static void wait_for(struct weir_child *c, uint64_t until_ns)
{
	struct pollfd p = { .fd = c->source.fd, .events = POLLIN };
	struct weir_reactor *r = c->source.reactor;
	uint64_t now, ms, most = 1000;

	while (!reap(c->source.fd, &c->status) &&
	       (now = r->backend->now(r)) < until_ns) {
		ms = (until_ns - now) / WEIR_MSEC + 1;
		if (poll(&p, 1, (int)(ms < most ? ms : most)) > 0) {
			/* It is still traced: from here on poll only sleeps. */
			p.fd = -1;
			most = RETRY_MS;
		}
	}
}

/* The reactor is about to be destroyed. */
static void settle(struct reactor_obj *obj, uint64_t until_ns)
{
	struct weir_child *c = weir_container_of(obj, struct weir_child,
						 source.obj);

	debug_check(c->killed);
	wait_for(c, until_ns);
	child_free(c);
}

void weir_child_destroy(struct weir_child *child)
{
	if (!child)
		return;
	reactor_check_thread(child->source.reactor);
	end_waits(child, -ECANCELED);
	for (uint32_t i = 0; i < WEIR_CHILD_FDS_MAX; i++)
		if (child->ends[i] >= 0)
			close(child->ends[i]);
	if (child->res != RUNS) {
		child_free(child);
		return;
	}
	child->killed = true;
	child->source.obj.settle = settle;
	syscall(SYS_pidfd_send_signal, child->source.fd, SIGKILL, NULL, 0);
	if (reap(child->source.fd, &child->status))
		child_free(child);
	else
		on_timer(&child->timer);
}

