/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A systemd event loop in a reactor: code that needs sd-event goes on working
 * in a program whose loop is weir's.
 */

#include <stdlib.h>
#include <sys/eventfd.h>

#include <weir/host/sd-event.h>

#include "guested.h"

static sd_event *event;
static sd_event_source *timer, *io;
static int wake_fd;

static int on_timer(sd_event_source *source, uint64_t usec, void *data)
{
	(void)source, (void)usec, (void)data;
	guested_check(1, "a timer of sd-event's");
	return 0;
}

static int on_readable(sd_event_source *source, int fd, uint32_t revents,
		       void *data)
{
	char byte;

	(void)source, (void)revents, (void)data;
	io = sd_event_source_disable_unref(io);
	guested_check(read(fd, &byte, 1) == 1, "an fd of sd-event's");
	return 0;
}

/* sd-event has no call for other threads: they write to a descriptor. */
static int on_wake(sd_event_source *source, int fd, uint32_t revents,
		   void *data)
{
	eventfd_t n;

	(void)source, (void)revents, (void)data;
	guested_check(!eventfd_read(fd, &n), "sd-event woken by a thread");
	return 0;
}

static void set_timer(unsigned int ms)
{
	if (sd_event_add_time_relative(event, &timer, CLOCK_MONOTONIC,
				       ms * 1000, 0, on_timer, NULL) < 0)
		abort();
}

static void watch(int fd)
{
	if (sd_event_add_io(event, &io, fd, EPOLLIN, on_readable, NULL) < 0)
		abort();
}

static void wake(void)
{
	eventfd_write(wake_fd, 1);
}

int main(void)
{
	struct weir_guest_sd_event guest = { 0 };
	struct weir_reactor *reactor;
	int err;

	wake_fd = eventfd(0, EFD_CLOEXEC);
	if (sd_event_new(&event) < 0 ||
	    sd_event_add_io(event, NULL, wake_fd, EPOLLIN, on_wake, NULL) < 0)
		return 1;

	guested.set_timer = set_timer;
	guested.watch = watch;
	guested.wake = wake;
	guested.turns_max = 3;
	reactor = guested_create();
	if (!reactor)
		return 1;

	err = weir_guest_sd_event_attach(&guest, reactor, event, NULL);
	if (!err)
		err = weir_reactor_run(reactor);
	if (err)
		fprintf(stderr, "11-sd-event-in-weir: error %d\n", err);

	weir_guest_sd_event_detach(&guest);
	sd_event_source_unref(timer);
	sd_event_unref(event);
	close(wake_fd);
	return guested_destroy() || err;
}
