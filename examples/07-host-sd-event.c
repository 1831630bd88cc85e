/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A reactor in a systemd event loop: a service on sd-event gains what weir can
 * do, and its loop, watchdog and all, stays its own.
 */

#include <weir/host/sd-event.h>

#include "hosted.h"

static sd_event *event;
static sd_event_source *timer;

/* A callback of sd-event's, outside of any turn of the reactor. */
static int on_timer(sd_event_source *source, uint64_t usec, void *data)
{
	(void)source, (void)usec, (void)data;
	hosted_next();
	return 0;
}

static void later(unsigned int ms)
{
	timer = sd_event_source_unref(timer);
	if (sd_event_add_time_relative(event, &timer, CLOCK_MONOTONIC,
				       ms * 1000, 0, on_timer, NULL) < 0)
		abort();
}

/* The reactor has stopped. */
static void on_end(struct weir_host *host, int err)
{
	(void)host;
	sd_event_exit(event, err);
}

int main(void)
{
	struct weir_host_sd_event host = { 0 };
	struct weir_reactor *reactor;
	int err;

	reactor = hosted_create(later);
	if (!reactor || sd_event_new(&event) < 0)
		return 1;

	err = weir_host_sd_event_attach(&host, event, reactor, on_end);
	if (err)
		return fprintf(stderr, "07-host-sd-event: %d\n", err), 1;
	later(5);
	err = sd_event_loop(event);

	sd_event_source_unref(timer);
	sd_event_unref(event);
	return hosted_destroy(err);
}
