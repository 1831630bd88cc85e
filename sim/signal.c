/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals: a descriptor for each that a program waits for, as signalfd(2) makes. */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include <weir/watch.h>

#include "base/why.h"
#include "sim/world.h"

struct signal_fd {
	struct sim_fd f;
	int signo;
	bool pending;	/* Once, however often it was sent. */
};

static struct signal_fd *signal_of(struct sim_fd *f)
{
	return weir_container_of(f, struct signal_fd, f);
}

static uint32_t events(struct sim_fd *f)
{
	return signal_of(f)->pending ? WEIR_READABLE : 0;
}

static void release(struct sim_fd *f)
{
	free(signal_of(f));
}

static const struct sim_fd_class signal_class = {
	.name = "signal",
	.device = WEIR_SIM_FILE,
	.waits = true,
	.events = events,
	.release = release,
};

static int signal_open(struct weir_reactor *r, int signo)
{
	struct signal_fd *s = calloc(1, sizeof(*s));
	int fd;

	reactor_check_thread(r);
	if (!s)
		return -ENOMEM;
	s->signo = signo;
	s->f.host = sim_of(r)->host;
	fd = sim_fd_open(sim_of(r)->sim, &s->f, &signal_class);
	if (fd < 0)
		free(s);
	return fd;
}

static bool signal_take(int fd)
{
	struct signal_fd *s = signal_of(sim_fd_find(fd));
	bool was = s->pending;

	s->pending = false;
	return was;
}

const struct vfd_signal_ops sim_signal_ops = {
	.open = signal_open,
	.take = signal_take,
};

static struct signal_fd *find(struct weir_sim *sim,
			      const struct weir_sim_host *host, int signo)
{
	struct sim_fd *f;

	for (uint32_t i = 0; i < sim->n_fds; i++) {
		f = sim->fds[i];
		if (f && f->cls == &signal_class && f->host == host &&
		    signal_of(f)->signo == signo)
			return signal_of(f);
	}
	return NULL;
}

static int is_ignored(int signo)
{
	return signo == SIGCHLD || signo == SIGURG || signo == SIGWINCH;
}

/* What the kernel does where the program has not asked for it. */
static int by_default(struct weir_sim_host *host, int signo)
{
	switch (signo) {
	case SIGSTOP: case SIGTSTP: case SIGTTIN: case SIGTTOU:
		if (host->state == WEIR_SIM_HOST_RUNNING)
			weir_sim_host_pause(host, 1);
		return 0;
	case SIGCONT:
		if (host->state == WEIR_SIM_HOST_PAUSED)
			weir_sim_host_pause(host, 0);
		return 0;
	default:
		return is_ignored(signo) ? 0 : weir_sim_host_kill(host);
	}
}

int weir_sim_signal(struct weir_sim *sim, struct weir_sim_host *host, int signo)
{
	struct signal_fd *s;

	if (signo < 1 || signo > SIGRTMAX || (host && host->sim != sim))
		return why(-EINVAL, "weir_sim_signal: there is no signal %d, or "
			   "the host is of another world", signo);
	if (host && (host->state < WEIR_SIM_HOST_RUNNING || host->ending))
		return why(-ESRCH, "weir_sim_signal: the program of '%s' does "
			   "not run", host->name);
	s = find(sim, host, signo);
	if (!s && !host)
		return why(-ESRCH, "weir_sim_signal: no weir_signal of a "
			   "program that is on no host waits for signal %d",
			   signo);
	sim_trace(sim, "%s%ssignal %d", host ? host->name : "",
		  host ? ": " : "", signo);
	sim_mix(sim, (uint64_t)signo);
	if (!s)
		return by_default(host, signo);
	s->pending = true;
	sim_fd_changed(&s->f);
	return 0;
}
