/* SPDX-License-Identifier: BSD-3-Clause */

/* The errnos that the headers about other loops document: hosts and guests. */

#include "tests/support/errnos-fixture.h"
#include "tests/support/ignore.h"

#include <pthread.h>
#include <sys/wait.h>

#include <weir/host.h>
#include <weir/watch.h>
#ifdef HAVE_GLIB
#include <weir/host/glib.h>
#endif
#ifdef HAVE_LIBEV
#include <weir/host/libev.h>
#endif
#ifdef HAVE_LIBUV
#include <weir/host/libuv.h>
#endif
#ifdef HAVE_SYSTEMD
#include <weir/host/sd-event.h>
#endif

/* What @call returns of a reactor that has something, and was not made to be
 * hosted. */
__attribute__((unused)) static int64_t used(
	void **state, int64_t (*call)(struct weir_reactor *r))
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_event *event = NULL;
	int64_t err;

	assert_int_equal(weir_event_create(&event, r, ignore_event, NULL), 0);
	err = call(r);
	weir_event_destroy(event);
	return err;
}

/* A reactor whose descriptor is not made yet, and cannot be. */
__attribute__((unused)) static int64_t without(
	void **state, void (*scarce)(void),
	int64_t (*call)(struct weir_reactor *r))
{
	struct weir_reactor *r = start_reactor(state);

	scarce();
	return plenty(call(r));
}

static int asleep(struct weir_guest *guest, uint64_t *ns)
{
	(void)guest, (void)ns;
	return WEIR_GUEST_ASLEEP;
}

static int64_t attach_fd(struct weir_reactor *r, int fd)
{
	static struct weir_guest guest;

	memset(&guest, 0, sizeof(guest));
	return weir_guest_attach(&guest, r, fd, asleep);
}

static int guest_fd[2];

static int64_t attach_pipe(struct weir_reactor *r)
{
	return attach_fd(r, guest_fd[0]);
}

static int64_t attach_pipe_without(void **state, void (*scarce)(void))
{
	struct weir_reactor *r = start_reactor(state);
	int64_t err;

	pipe_pair(guest_fd);
	scarce();
	err = plenty(attach_pipe(r));
	close_pair(guest_fd);
	return err;
}

RETURNS(weir_guest_attach, EBADF)
{
	return attach_fd(start_reactor(state), 1 << 20);
}

RETURNS(weir_guest_attach, EPERM)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 1, 1);
	int64_t err = attach_fd(r, fd);

	close(fd);
	return err;
}

RETURNS(weir_guest_attach, ENOMEM)
{
	return attach_pipe_without(state, no_memory);
}

RETURNS(weir_guest_attach, ESHUTDOWN)
{
	struct weir_reactor *r = stopped_reactor(state);
	int64_t err;

	pipe_pair(guest_fd);
	err = attach_pipe(r);
	close_pair(guest_fd);
	return err;
}

#ifdef HAVE_GLIB
static GMainContext *context;

static int64_t host_glib(struct weir_reactor *r)
{
	struct weir_host_glib host;

	return weir_host_glib_attach(&host, context, r, NULL);
}

static int64_t guest_glib(struct weir_reactor *r)
{
	static struct weir_guest_glib guest;

	return weir_guest_glib_attach(&guest, r, context, NULL);
}

RETURNS(weir_host_glib_attach, EMFILE)
{
	return without(state, no_descriptors, host_glib);
}

RETURNS(weir_host_glib_attach, EBUSY)
{
	return used(state, host_glib);
}

static int64_t on_context(struct weir_reactor *r, void (*scarce)(void))
{
	int64_t err;

	context = g_main_context_new();
	if (scarce)
		scarce();
	err = plenty(guest_glib(r));
	g_main_context_unref(context);
	context = NULL;
	return err;
}

static void *own_context(void *arg)
{
	assert_true(g_main_context_acquire(arg));
	return NULL;
}

/* A thread that has ended owns it still. */
RETURNS(weir_guest_glib_attach, EBUSY)
{
	struct weir_reactor *r = start_reactor(state);
	pthread_t thread;
	int64_t err;

	context = g_main_context_new();
	assert_int_equal(pthread_create(&thread, NULL, own_context, context),
			 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	err = guest_glib(r);
	g_main_context_unref(context);
	context = NULL;
	return err;
}

RETURNS(weir_guest_glib_attach, EMFILE)
{
	return on_context(start_reactor(state), no_descriptors);
}

RETURNS(weir_guest_glib_attach, ENOMEM)
{
	return on_context(start_reactor(state), no_memory);
}

RETURNS(weir_guest_glib_attach, ESHUTDOWN)
{
	return on_context(stopped_reactor(state), NULL);
}
#endif

#ifdef HAVE_LIBEV
static int64_t host_libev(struct weir_reactor *r)
{
	struct weir_host_libev host;

	return weir_host_libev_attach(&host, NULL, r, NULL);
}

RETURNS(weir_host_libev_attach, EMFILE)
{
	return without(state, no_descriptors, host_libev);
}

RETURNS(weir_host_libev_attach, EBUSY)
{
	return used(state, host_libev);
}

static int64_t guest_libev(struct weir_reactor *r, unsigned int flags,
			   uint64_t tick_ns, void (*scarce)(void))
{
	struct ev_loop *loop = ev_loop_new(flags | EVFLAG_NOENV);
	static struct weir_guest_libev guest;
	int64_t err;

	assert_non_null(loop);
	if (scarce)
		scarce();
	err = plenty(weir_guest_libev_attach(&guest, r, loop, tick_ns, NULL));
	ev_loop_destroy(loop);
	return err;
}

RETURNS(weir_guest_libev_attach, EINVAL)
{
	return guest_libev(start_reactor(state), EVBACKEND_EPOLL, 0, NULL);
}

RETURNS(weir_guest_libev_attach, EOPNOTSUPP)
{
	return guest_libev(start_reactor(state), EVBACKEND_POLL, 1, NULL);
}

RETURNS(weir_guest_libev_attach, ESHUTDOWN)
{
	return guest_libev(stopped_reactor(state), EVBACKEND_EPOLL, 1, NULL);
}
#endif

#ifdef HAVE_LIBUV
static int64_t host_libuv(struct weir_reactor *r)
{
	struct weir_host_libuv host;

	return weir_host_libuv_attach(&host, NULL, r, NULL);
}

RETURNS(weir_host_libuv_attach, EMFILE)
{
	return without(state, no_descriptors, host_libuv);
}

RETURNS(weir_host_libuv_attach, EBUSY)
{
	return used(state, host_libuv);
}

static int64_t guest_libuv(struct weir_reactor *r, void (*scarce)(void))
{
	static struct weir_guest_libuv guest;
	uv_loop_t loop;
	int64_t err;

	assert_int_equal(uv_loop_init(&loop), 0);
	if (scarce)
		scarce();
	err = plenty(weir_guest_libuv_attach(&guest, r, &loop));
	assert_int_equal(uv_loop_close(&loop), 0);
	return err;
}

RETURNS(weir_guest_libuv_attach, ENOMEM)
{
	return guest_libuv(start_reactor(state), no_memory);
}

RETURNS(weir_guest_libuv_attach, ESHUTDOWN)
{
	return guest_libuv(stopped_reactor(state), NULL);
}
#endif

#ifdef HAVE_SYSTEMD
static int64_t host_sd_event(struct weir_reactor *r)
{
	struct weir_host_sd_event host;

	return weir_host_sd_event_attach(&host, NULL, r, NULL);
}

RETURNS(weir_host_sd_event_attach, EMFILE)
{
	return without(state, no_descriptors, host_sd_event);
}

RETURNS(weir_host_sd_event_attach, EBUSY)
{
	return used(state, host_sd_event);
}

static int64_t host_sd_event_of(struct weir_reactor *r, sd_event *event)
{
	struct weir_host_sd_event host;

	return weir_host_sd_event_attach(&host, event, r, NULL);
}

RETURNS(weir_host_sd_event_attach, ESTALE)
{
	struct weir_reactor *r = start_reactor(state);
	sd_event *event = NULL;
	int64_t err;

	assert_true(sd_event_new(&event) >= 0);
	assert_true(sd_event_exit(event, 0) >= 0);
	assert_true(sd_event_run(event, 0) >= 0);
	err = host_sd_event_of(r, event);
	sd_event_unref(event);
	return err;
}

RETURNS(weir_host_sd_event_attach, ECHILD)
{
	struct weir_reactor *r = start_reactor(state);
	sd_event *event = NULL;
	int status;
	pid_t pid;

	assert_true(sd_event_new(&event) >= 0);
	assert_true(weir_reactor_fd(r) >= 0);
	pid = fork();
	if (!pid)
		_exit((int)-host_sd_event_of(r, event));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	sd_event_unref(event);
	return -WEXITSTATUS(status);
}

static int64_t guest_sd_event(struct weir_reactor *r, void (*scarce)(void))
{
	static struct weir_guest_sd_event guest;
	sd_event *event = NULL;
	int64_t err;

	assert_true(sd_event_new(&event) >= 0);
	if (scarce)
		scarce();
	err = plenty(weir_guest_sd_event_attach(&guest, r, event, NULL));
	sd_event_unref(event);
	return err;
}

RETURNS(weir_guest_sd_event_attach, EBADF)
{
	static struct weir_guest_sd_event guest;

	return weir_guest_sd_event_attach(&guest, start_reactor(state), NULL,
					  NULL);
}

RETURNS(weir_guest_sd_event_attach, ENOMEM)
{
	return guest_sd_event(start_reactor(state), no_memory);
}

RETURNS(weir_guest_sd_event_attach, ESHUTDOWN)
{
	return guest_sd_event(stopped_reactor(state), NULL);
}
#endif

int main(void)
{
#ifdef HAVE_LIBUV
	uv_loop_t loop;

	/* The first loop opens what libuv keeps. */
	if (uv_loop_init(&loop) || uv_loop_close(&loop))
		return 99;
#endif
	return run_errno_rows();
}
