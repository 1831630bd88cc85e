// SPDX-License-Identifier: BSD-3-Clause
/*
 * The first process of the guest.  It starts in a small initramfs, loads the
 * modules listed in /modules there, makes the host's files its root, runs the
 * command and tells the host what it writes and how it ends.
 *
 * The root is an overlay: the host's files beneath, a tmpfs above, so nothing
 * done to it reaches the host; only the directories in RUN/rw are the host's
 * own.  RUN, from the kernel's command line, is a directory of the host:
 *
 *	argv env rw	words, each ended by a null
 *	cwd		where the command runs
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "frame.h"

#define ROOT "/root"
#define HOST "/host"

static int port = -1;

/* The kernel's log is what the host shows when a guest dies. */
static void say(const char *what)
{
	int err = errno, fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		dprintf(fd, "<3>init: %s: %s\n", what, strerror(err));
		close(fd);
	}
}

/* A kernel without its first process panics, and QEMU ends. */
static void die(const char *what)
{
	say(what);
	_exit(1);
}

static void mount_at(const char *from, const char *at, const char *type,
		     unsigned long flags, const char *options)
{
	mkdir(at, 0755);
	if (mount(from, at, type, flags, options))
		say(at);
}

static char *join(const char *a, const char *b)
{
	char *s;

	if (asprintf(&s, "%s%s", a, b) < 0)
		die("memory");
	return s;
}

/* All of a file of the run directory, and a null. */
static char *slurp(const char *run, const char *name, size_t *len)
{
	char *path = join(run, name), *text = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	*len = 0;
	if (fd < 0)
		die(path);
	do {
		text = realloc(text, *len + 65537);
		if (!text)
			die("memory");
		n = read(fd, text + *len, 65536);
		*len += n > 0 ? n : 0;
	} while (n > 0);
	text[*len] = 0;
	close(fd);
	free(path);
	return text;
}

/* The words of such a file; the list ends with NULL. */
static char **words(const char *run, const char *name)
{
	size_t len, n = 0;
	char *text = slurp(run, name, &len);
	char **list = calloc(len + 1, sizeof(*list));

	if (!list)
		die("memory");
	for (char *p = text; p < text + len; p += strlen(p) + 1)
		list[n++] = p;
	return list;
}

static void load_modules(void)
{
	FILE *list = fopen("/modules", "r");
	char line[256];

	while (list && fgets(line, sizeof(line), list)) {
		line[strcspn(line, "\n")] = 0;
		int fd = open(line, O_RDONLY | O_CLOEXEC);

		if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) &&
			       errno != EEXIST))
			say(line);
		close(fd);
	}
	if (list)
		fclose(list);
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

/* The device appears some time after its driver. */
static void open_port(void)
{
	glob_t found;

	for (int i = 0; i < 2000; i++, nap()) {
		if (glob("/dev/vport*", 0, NULL, &found))
			continue;
		port = open(found.gl_pathv[0], O_RDWR | O_CLOEXEC);
		globfree(&found);
		if (port >= 0)
			return;
	}
	die("no port to the host");
}

static void tell(uint32_t kind, const void *bytes, uint32_t length)
{
	struct {
		struct frame frame;
		char bytes[FRAME_MOST];
	} all = {.frame = {.kind = kind, .length = length}};
	size_t n = sizeof(all.frame) + length;
	ssize_t put;

	memcpy(all.bytes, bytes, length);
	for (char *p = (char *)&all; n; p += put, n -= put) {
		put = write(port, p, n);
		if (put < 0 && errno != EINTR && errno != EAGAIN)
			die("the port to the host");
		if (put < 0)
			put = 0;
	}
}

static void mount_host(void)
{
	mkdir(HOST, 0755);
	for (int i = 0; mount("host", HOST, "virtiofs", 0, NULL); i++, nap())
		if (i == 1000)
			die("virtiofs");
}

static void mount_root(const char *run)
{
	char **rw = words(run, "/rw");

	mount_at("upper", "/upper", "tmpfs", 0, "size=80%");
	mkdir("/upper/u", 0755);
	mkdir("/upper/w", 0755);
	mkdir(ROOT, 0755);
	if (mount("root", ROOT, "overlay", 0, "lowerdir=" HOST
		  ",upperdir=/upper/u,workdir=/upper/w"))
		die("overlay");
	for (; *rw; rw++) {
		char *at = join(ROOT, *rw), *from = join(HOST, *rw);

		mount_at(from, at, NULL, MS_BIND, NULL);
	}
}

/* A root of its own, not a chroot: user namespaces are refused in those. */
static void enter_root(void)
{
	if (chdir(ROOT) || mount(".", "/", NULL, MS_MOVE, NULL) ||
	    chroot(".") || chdir("/"))
		die("root");
	mount_at("proc", "/proc", "proc", 0, NULL);
	mount_at("sysfs", "/sys", "sysfs", 0, NULL);
	mount_at("dev", "/dev", "devtmpfs", 0, NULL);
	mount_at("devpts", "/dev/pts", "devpts", 0, "ptmxmode=666");
	mount_at("shm", "/dev/shm", "tmpfs", 0, "mode=1777");
	mount_at("run", "/run", "tmpfs", 0, "mode=755");
	mount_at("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	mount_at("cgroup", "/sys/fs/cgroup", "cgroup2", 0, NULL);
	if (symlink("/proc/self/fd", "/dev/fd") ||
	    symlink("/proc/self/fd/0", "/dev/stdin") ||
	    symlink("/proc/self/fd/1", "/dev/stdout") ||
	    symlink("/proc/self/fd/2", "/dev/stderr"))
		say("/dev/fd");
}

/* modprobe looks for modules by the kernel's version. */
static void link_modules(const char *modules)
{
	const char *at = strrchr(modules, '/');
	char *link = join("/lib/modules", at ? at : "/none");

	mkdir("/lib/modules", 0755);
	if (symlink(modules, link) && errno != EEXIST)
		say(link);
	free(link);
}

/*
 * The kernel boots with one processor and the others come now: with several
 * from the start, one boot in some dozens dies under emulation.
 */
static void bring_up_processors(void)
{
	for (int i = 1; i < 64; i++) {
		char path[64];
		int fd;

		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%d/online", i);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			return;
		if (write(fd, "1", 1) != 1)
			say(path);
		close(fd);
	}
}

static void bring_up_loopback(void)
{
	struct ifreq lo = {.ifr_name = "lo",
			   .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo))
		say("lo");
	close(fd);
}

static void set_limits(void)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
	const struct rlimit many = {65536, 65536};

	setrlimit(RLIMIT_MEMLOCK, &none);
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	setrlimit(RLIMIT_NOFILE, &many);
}

/* The child: becomes the command. */
static void become(const char *run, int out, int err)
{
	char **argv = words(run, "/argv"), **env = words(run, "/env");
	char *cwd = words(run, "/cwd")[0];
	sigset_t none;
	int failed;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
	dup2(out, 1);
	dup2(err, 2);
	clearenv();
	for (; *env; env++)
		putenv(*env); /* The last of a name counts. */
	if (!cwd || chdir(cwd)) {
		dprintf(2, "run: no directory '%s' in the guest: %s\n",
			cwd ? cwd : "", strerror(errno));
		_exit(125);
	}
	execvp(argv[0], argv);
	failed = errno;
	dprintf(2, "run: cannot run '%s': %s\n", argv[0], strerror(failed));
	_exit(failed == ENOENT ? 127 : 126);
}

/* Passes on what there is of one stream; -1 at its end, or when it is empty. */
static ssize_t pump(int fd, uint32_t kind)
{
	static char bytes[FRAME_MOST];
	ssize_t n = read(fd, bytes, sizeof(bytes));

	if (n > 0)
		tell(kind, bytes, n);
	return n > 0 ? n : -1;
}

/* Reaps whoever died; whether it was the command. */
static int reap(pid_t command, int *status)
{
	int st, found = 0;
	pid_t pid;

	while ((pid = waitpid(-1, &st, WNOHANG)) > 0) {
		if (pid != command)
			continue;
		*status = WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
		found = 1;
	}
	return found;
}

/*
 * Until the command ends; what it left running, with the same output, is not
 * waited for.
 */
static int attend(pid_t command, int signals, int out, int err)
{
	struct pollfd fds[] = {{signals, POLLIN, 0},
			       {out, POLLIN, 0},
			       {err, POLLIN, 0}};
	struct signalfd_siginfo info;
	int status = 125;

	for (;;) {
		if (poll(fds, 3, -1) < 0)
			continue;
		for (int i = 1; i < 3; i++)
			if (fds[i].revents && pump(fds[i].fd, i) < 0 &&
			    fds[i].revents & POLLHUP)
				fds[i].fd = -1;
		if (fds[0].revents &&
		    read(signals, &info, sizeof(info)) > 0 &&
		    reap(command, &status))
			break;
	}
	while (pump(out, FRAME_OUT) > 0)
		;
	while (pump(err, FRAME_ERR) > 0)
		;
	return status;
}

static int run_command(const char *run)
{
	int out[2], err[2], signals;
	sigset_t child;
	pid_t pid;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	signals = signalfd(-1, &child, SFD_CLOEXEC);
	if (signals < 0 || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid)
		become(run, out[1], err[1]);
	close(out[1]);
	close(err[1]);
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(err[0], F_SETFL, O_NONBLOCK);
	return attend(pid, signals, out[0], err[0]);
}

int main(void)
{
	const char *run = getenv("RUN"), *modules = getenv("MODULES");
	int status;

	mount_at("dev", "/dev", "devtmpfs", 0, NULL);
	if (!run || !modules)
		die("RUN and MODULES are not in the environment");
	load_modules();
	open_port();
	mount_host();
	mount_root(join(HOST, run));
	enter_root();
	link_modules(modules);
	bring_up_processors();
	bring_up_loopback();
	set_limits();
	if (sethostname("guest", 5))
		say("hostname");
	tell(FRAME_STARTED, "", 0);
	status = run_command(run);
	/* What is mapped and written is the host's only now. */
	sync();
	tell(FRAME_STATUS, &status, sizeof(status));
	for (;;)
		pause();
}
