// SPDX-License-Identifier: BSD-3-Clause
/*
 * relay BOOT WHOLE VIRTIOFSD... -- QEMU...
 *
 * The host's side of a guest: starts the server of its files and QEMU, passes
 * on what the guest says, ends both, and exits with the command's status.
 * BOOT seconds are given to the boot and WHOLE to everything.  How it ended is
 * in the file `how`: done, boot, died or time.
 *
 * It is a program, not a part of the script, because nothing must be left
 * whatever happens: both children die with it, and it dies with the script.
 * Descriptor 3 is the server's listening socket (fs.sock in the working
 * directory) and descriptor 4 where QEMU writes what comes from the port.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "frame.h"

enum { FD_LISTEN = 3, FD_PORT = 4 };

static pid_t server, qemu;
static int how_fd;
static volatile sig_atomic_t started;

/* Called by the handlers of signals, too. */
static void kill_and_wait(pid_t pid)
{
	if (pid > 0) {
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
}

static void end(int status, const char *how)
{
	ssize_t n;

	/* The guest first: it waits for its files in no state to be killed. */
	kill_and_wait(qemu);
	kill_and_wait(server);
	n = write(how_fd, how, strlen(how));
	_exit(n < 0 ? 125 : status);
}

static void on_alarm(int sig)
{
	(void)sig;
	end(124, started ? "time" : "boot");
}

static void on_signal(int sig)
{
	end(128 + sig, "signal");
}

static void fail(const char *what)
{
	fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
	end(125, "fail");
}

static int listen_for_qemu(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX,
				 .sun_path = "fs.sock"};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	unlink(to.sun_path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof(to)) ||
	    listen(fd, 1))
		fail("fs.sock");
	return fd;
}

/*
 * Runs argv with the descriptor fd as `as`, and its complaints in a file.
 * In a group of its own: a Ctrl-C is ours to handle.
 */
static pid_t spawn(char **argv, int fd, int as, const char *log)
{
	pid_t parent = getpid(), pid = fork();
	int err, null;

	if (pid < 0)
		fail("fork");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(125);
	setpgid(0, 0);
	signal(SIGPIPE, SIG_DFL);
	/* Out of the way of the low numbers, then to where it is expected. */
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 16);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	err = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || null < 0 || err < 0 || dup2(null, 0) < 0 ||
	    dup2(err, 1) < 0 || dup2(err, 2) < 0 || dup2(fd, as) < 0)
		_exit(125);
	execvp(argv[0], argv);
	dprintf(2, "%s: %s\n", argv[0], strerror(errno));
	_exit(125);
}

/* Whether all of it came, before QEMU was gone. */
static int get(int fd, void *buf, size_t n)
{
	ssize_t got;

	for (char *p = buf; n; p += got, n -= got) {
		got = read(fd, p, n);
		if (got <= 0)
			return 0;
	}
	return 1;
}

static void put(int fd, const char *p, size_t n)
{
	ssize_t put;

	for (; n; p += put, n -= put) {
		put = write(fd, p, n);
		if (put < 0 && errno == EAGAIN) {
			/* Somebody else made it so: wait. */
			poll(&(struct pollfd){fd, POLLOUT, 0}, 1, -1);
			put = 0;
		} else if (put < 0) {
			/* As of any program whose reader has gone. */
			end(errno == EPIPE ? 128 + SIGPIPE : 125, "output");
		}
	}
}

static void pass_on(int port, unsigned int seconds_left)
{
	static char bytes[FRAME_MOST];
	struct frame frame;
	int status = 125;

	while (get(port, &frame, sizeof(frame)) &&
	       frame.length <= sizeof(bytes) &&
	       get(port, bytes, frame.length)) {
		switch (frame.kind) {
		case FRAME_STARTED:
			started = 1;
			alarm(seconds_left);
			break;
		case FRAME_OUT:
		case FRAME_ERR:
			put(frame.kind, bytes, frame.length);
			break;
		case FRAME_STATUS:
			memcpy(&status, bytes, sizeof(status));
			end(status, "done");
		}
	}
	end(125, started ? "died" : "boot");
}

static void set_handlers(void)
{
	static const int fatal[] = {SIGHUP, SIGINT, SIGTERM, SIGQUIT};
	struct sigaction sa = {.sa_handler = on_signal};

	/* One at a time: each of them ends us. */
	sigfillset(&sa.sa_mask);
	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
		sigaction(fatal[i], &sa, NULL);
	sa.sa_handler = on_alarm;
	sigaction(SIGALRM, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
}

int main(int argc, char **argv)
{
	pid_t script = getppid();
	char **words = argv + 3;
	int port[2], fd, boot, whole;

	while (argc > 3 && *words && strcmp(*words, "--"))
		words++;
	if (argc <= 3 || !*words)
		return 2;
	*words = NULL;
	boot = atoi(argv[1]);
	whole = atoi(argv[2]);

	set_handlers();
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != script)
		return 125;
	how_fd = open("how", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	fd = listen_for_qemu();
	if (how_fd < 0 || pipe2(port, O_CLOEXEC))
		fail("pipe");
	alarm(boot);
	server = spawn(argv + 3, fd, FD_LISTEN, "virtiofsd.log");
	qemu = spawn(words + 1, port[1], FD_PORT, "qemu.log");
	close(fd);
	close(port[1]);
	pass_on(port[0], whole);
	return 125;
}
