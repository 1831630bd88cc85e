/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_CHILD_H
#define WEIR_CHILD_H

/*
 * Child processes: start a program, talk to it through pipes, kill it, and learn
 * how it ended.
 *
 *	struct weir_child_opts opts = {
 *		.size = sizeof(opts),
 *		.argv = (char *[]){ "gzip", "-c", NULL },
 *		.io = { { WEIR_STDIO_PIPE_TO, 0 }, { WEIR_STDIO_PIPE_FROM, 0 } },
 *	};
 *
 *	err = weir_child_create(&child, reactor, &opts);
 *	in = weir_child_take_fd(child, 0);
 *	out = weir_child_take_fd(child, 1);
 *	err = weir_child_wait(child, &rq->op, &rq->status);
 *
 * The ends of pipes are descriptors as any other: use weir_write(), weir_read()
 * with WEIR_OFF_STREAM, and weir_close().
 *
 * The child has no descriptors but those that it is given, an empty signal mask,
 * and the default action for every signal.  The library knows it by a pidfd, so
 * that a signal never reaches another process, and installs no handler: a
 * program may have a handler of SIGCHLD, or ignore that signal.  A part of the
 * program that calls wait(2) or waitpid(-1) may reap the child before the
 * library, which then asks the kernel how it ended (Linux 6.15); see
 * weir_child_wait().
 *
 * Needs Linux 5.4.  There are no processes in a simulated world.
 */

#include <sys/resource.h>
#include <sys/types.h>

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_child;
struct weir_op;
struct weir_reactor;

/* What a descriptor of the child is. */
#define WEIR_STDIO_INHERIT 0u	/* That of the same number here, if open. */
#define WEIR_STDIO_NULL 1u	/* /dev/null */
#define WEIR_STDIO_PIPE_TO 2u	/* A pipe from which the child reads. */
#define WEIR_STDIO_PIPE_FROM 3u	/* A pipe to which the child writes. */
#define WEIR_STDIO_FD 4u	/* A duplicate of .fd. */

struct weir_child_io {
	uint32_t kind;		/* WEIR_STDIO_ */
	int32_t fd;		/* Of WEIR_STDIO_FD. */
};

#define WEIR_CHILD_FDS_MAX 64	/* Descriptors that a child can be given. */

/* For .flags. */
#define WEIR_CHILD_UID 1u	/* Run as user .uid. */
#define WEIR_CHILD_GID 2u	/* Run as group .gid. */
#define WEIR_CHILD_GROUP 4u	/* In a process group of its own. */
#define WEIR_CHILD_SESSION 8u	/* In a session of its own: setsid(2). */

/* The program, what it has, and as whom it runs.  Zero is the default. */
struct weir_child_opts {
	size_t size;
	char *const *argv;	/* Ends with NULL; at least the name. */

	/* Its file.  A name without a slash is searched for in the PATH of
	 * .envp, or of this process; without PATH there, in /bin:/usr/bin.
	 * NULL: argv[0]. */
	const char *program;
	char *const *envp;	/* Ends with NULL.  NULL: this process's. */
	const char *dir;	/* Where it runs; NULL: as here. */

	uint32_t flags;		/* WEIR_CHILD_ */
	uid_t uid;		/* If the user or the group changes, all */
	gid_t gid;		/* supplementary groups are dropped. */

	uint32_t n_more;
	struct weir_child_io io[3]; /* Standard input, output and error. */
	const struct weir_child_io *more; /* Descriptors 3 and on. */
};

/* How a child ended. */
struct weir_child_status {
	int32_t code;		/* What it gave to exit(3); -1: a signal. */
	int32_t signo;		/* The signal that ended it; 0: none. */
	uint32_t core;		/* 1: it left a core dump. */
	uint32_t reserved;
	struct rusage usage;	/* What it used; 0 if others have reaped it. */
};

/*
 * Start the program that @opts describes, as a child of this process.
 *
 * Blocks until the kernel has loaded the program: as long as its file system
 * takes.  All steps are made by the child, so that a failure is the result of
 * this call: which one is in the message.  Nothing of a failed start remains,
 * and no SIGCHLD is sent for it, unless the program was started and the reactor
 * has no capacity to watch it.  A relative .program is looked for in .dir.
 *
 * Returns 0 with *@ret set, to be freed by weir_child_destroy(), or
 *   -EINVAL      @opts or its .size or .argv is missing, a flag or kind is
 *                unknown, or .n_more is too large
 *   -E2BIG       @opts sets a member that this version does not have; or the
 *                arguments are longer than the kernel takes
 *   -EBADF       a .fd is not open
 *   -ENOENT      there is no such program, its interpreter or .dir, or its
 *                name is empty
 *   -EACCES      the program is not executable, or a directory not searchable
 *   -ENOEXEC     it is in no format that the kernel executes
 *   -EPERM       this process may not become .uid or .gid
 *   -EMFILE      no descriptor left
 *   -EAGAIN      the user has too many processes
 *   -ENOMEM      no memory
 *   -EOPNOTSUPP  the kernel has no pidfds, as in a simulated world
 *   -ESHUTDOWN   @r is stopping
 *
 * Other errnos of execve(2), chdir(2) and setresuid(2) are returned, too.
 *
 * Call on @r's thread.
 *
 * Re-creates uv_spawn(), posix_spawn(3) and ev_child_init().
 */
WEIR_API int weir_child_create(struct weir_child **ret, struct weir_reactor *r,
			       const struct weir_child_opts *opts);

/*
 * Take this process's end of the pipe that is the child's descriptor @n.
 *
 * The caller owns it and closes it, which ends the child's input.  Ends that are
 * not taken are closed by weir_child_destroy().
 *
 * Returns the descriptor, or
 *   -EBADF  the child's descriptor @n is no pipe, or it was taken already
 *
 * Call on the child's reactor.  Never blocks.
 *
 * Re-creates uv_stdio_container_t.
 */
WEIR_API int weir_child_take_fd(struct weir_child *child, uint32_t n);

/*
 * Get the process id of @child, for messages.
 *
 * After it has ended, the kernel may give the number to another process.
 *
 * Returns the id.  Any thread.  Never blocks.
 *
 * Re-creates uv_process_get_pid().
 */
WEIR_API pid_t weir_child_pid(const struct weir_child *child);

/*
 * Send @signo to @child, by its pidfd; 0 only asks whether it is there.
 *
 * Returns 0, or
 *   -EINVAL  @signo is no signal
 *   -ESRCH   it has ended and was reaped
 *   -EPERM   it has become another user's
 *
 * Call on the child's reactor.  Never blocks.
 *
 * Re-creates uv_process_kill() and pidfd_send_signal(2).
 */
WEIR_API int weir_child_kill(struct weir_child *child, int signo);

/*
 * Wait for the end of @child, and have how it ended in *@ret, which may be NULL.
 *
 * The library reaps the child when it ends, whether anybody waits or not; this
 * completes then, or at once if that is past.  There may be several waits.  A
 * cancel or a deadline ends the wait and leaves the child running.
 *
 * Completes with 0, or a negative errno: -ECANCELED if weir_child_destroy() was
 * called; -ECHILD if another part of the program has reaped it, or ignores
 * SIGCHLD, so that the kernel has, and how it ended is not known; from Linux 6.15
 * on it is, without .usage.
 *
 * Returns 0, or
 *   -EINVAL     @op is in flight or has no callback
 *   -EAGAIN     .ops_max operations are in flight
 *   -ESHUTDOWN  the reactor is stopping
 *
 * Call on the child's reactor.  Never blocks, never allocates.
 *
 * Re-creates uv_exit_cb, ev_child and waitid(2), as an operation.
 */
WEIR_API int weir_child_wait(struct weir_child *child, struct weir_op *op,
			     struct weir_child_status *ret);

/*
 * Free @child.  If it is running, it is killed by SIGKILL.
 *
 * Waits complete with -ECANCELED.  The reactor reaps the killed process later,
 * from its loop; until then it does not keep the reactor.
 * weir_reactor_destroy() waits for all of these together, as long as .drain_ms;
 * a process that takes longer to die is left for the end of this program.  A
 * process that the child has started is not killed.
 *
 * NULL is allowed.
 *
 * Call on the child's reactor, from any callback.  Never blocks.
 */
WEIR_API void weir_child_destroy(struct weir_child *child);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_CHILD_H */
