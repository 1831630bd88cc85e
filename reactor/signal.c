/* SPDX-License-Identifier: BSD-3-Clause */
/* A signal, blocked and read from a signalfd: no handler, so no surprises. */

#include <weir/watch.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "reactor/op-inline.h"
#include "reactor/source.h"

static const char signal_name[] = "weir_signal";

struct weir_signal {
	struct source source;
	weir_signal_fn *fn;
	void *arg;
	int fd;
	int signo;
	bool was_blocked;	/* Blocked before: then it stays so. */
};

static bool take(const struct weir_signal *sig, struct signalfd_siginfo *ret)
{
	if (!fd_is_virtual(sig->fd))
		return read(sig->fd, ret, sizeof(*ret)) == sizeof(*ret);
	*ret = (struct signalfd_siginfo){ .ssi_signo = (uint32_t)sig->signo };
	return vfd_ops->signals->take(sig->fd);
}

/* One at a time, because the callback may destroy the object; the watch is
 * level-triggered and reports the next. */
static void deliver(struct source *s, int64_t res, int rx_id)
{
	struct weir_signal *sig = weir_container_of(s, struct weir_signal,
						    source);
	struct signalfd_siginfo info;

	(void)res, (void)rx_id;
	if (take(sig, &info))
		sig->fn(sig, &info, sig->arg);
}

static void release(struct source *s)
{
	free(weir_container_of(s, struct weir_signal, source));
}

static bool is_taken(const struct weir_reactor *r, int signo)
{
	const struct reactor_obj *obj;

	for (obj = r->objs; obj; obj = obj->next)
		if (obj->what == signal_name &&
		    weir_container_of(obj, struct weir_signal,
				      source.obj)->signo == signo)
			return true;
	return false;
}

static int check_signo(const struct weir_reactor *r, int signo)
{
	sigset_t set;

	sigemptyset(&set);
	if (sigaddset(&set, signo) || signo == SIGKILL || signo == SIGSTOP)
		return why(-EINVAL, "weir_signal_create: signal %d does not "
			   "exist or cannot be caught", signo);
	if (is_taken(r, signo))
		return why(-EBUSY, "weir_signal_create: signal %d has a "
			   "weir_signal in this reactor already", signo);
	return 0;
}

/* Unblock only a signal that this object has blocked. */
static void signal_close(struct weir_signal *sig)
{
	sigset_t set;

	if (fd_is_virtual(sig->fd)) {
		vfd_ops->close(sig->fd);
		return;
	}
	close(sig->fd);
	if (sig->was_blocked)
		return;
	sigemptyset(&set);
	sigaddset(&set, sig->signo);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static int signal_open(struct weir_signal *sig, struct weir_reactor *r)
{
	sigset_t set, old;
	int err;

	if (r->backend->isolated) {
		sig->fd = vfd_ops->signals->open(r, sig->signo);
		return sig->fd < 0 ? why_no_fd(sig->fd, "weir_signal_create",
					       "a simulated signal") : 0;
	}
	sigemptyset(&set);
	sigaddset(&set, sig->signo);
	sig->fd = fault("signalfd") ? (errno = EMFILE, -1) :
		  signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (sig->fd < 0)
		return why_no_fd(-errno, "weir_signal_create", "a signalfd");
	err = pthread_sigmask(SIG_BLOCK, &set, &old);
	if (err) {
		close(sig->fd);
		return why(-err, "weir_signal_create: cannot block signal %d",
			   sig->signo);
	}
	sig->was_blocked = sigismember(&old, sig->signo) == 1;
	return 0;
}

static int signal_start(struct weir_signal *sig, struct weir_reactor *r)
{
	int err = signal_open(sig, r);

	if (err)
		return err;
	sig->source.deliver = deliver;
	sig->source.release = release;
	sig->source.events = WEIR_READABLE;
	err = source_init(&sig->source, r, signal_name, SOURCE_WATCH, sig->fd);
	if (err)
		signal_close(sig);
	return err;
}

int weir_signal_create(struct weir_signal **ret, struct weir_reactor *r,
		       int signo, weir_signal_fn *fn, void *arg)
{
	struct weir_signal *sig;
	int err;

	reactor_check_thread(r);
	if (!fn)
		return why(-EINVAL, "weir_signal_create: no callback");
	err = check_signo(r, signo);
	if (err)
		return err;
	sig = mem_calloc(1, sizeof(*sig));
	if (!sig)
		return why(-ENOMEM, "weir_signal_create: no memory");
	sig->fn = fn;
	sig->arg = arg;
	sig->signo = signo;
	err = signal_start(sig, r);
	if (err) {
		free(sig);
		return err;
	}
	err = source_arm(&sig->source);
	if (err) {
		weir_signal_destroy(sig);
		return why(err, "weir_signal_create: no capacity to watch it");
	}
	*ret = sig;
	return 0;
}

void weir_signal_destroy(struct weir_signal *signal)
{
	struct weir_signal copy;

	if (!signal)
		return;
	copy = *signal;
	source_destroy(&signal->source);
	signal_close(&copy);
}
