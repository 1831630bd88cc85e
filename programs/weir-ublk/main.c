/* SPDX-License-Identifier: CC0-1.0 */
/* The program: a device, with each of its queues on a reactor of a group. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include <weir/stats.h>
#include <weir/watch.h>

#include "weir-ublk.h"

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
#define SIGNALS ((int)(sizeof(signals) / sizeof(signals[0])))

static struct {
	struct server *server;
	struct weir_signal *signals[SIGNALS];
} program;

static void on_signal(struct weir_signal *signal, const struct signalfd_siginfo *info,
		      void *arg)
{
	(void)signal, (void)arg;
	if (info->ssi_signo == SIGHUP)
		server_resize(program.server);
	else
		server_stop(program.server);
}

static void end_core(struct weir_group *group, uint32_t core, void *arg)
{
	(void)group, (void)arg;
	for (int i = 0; i < SIGNALS && core == 0; i++) {
		weir_signal_destroy(program.signals[i]);
		program.signals[i] = NULL;
	}
	queue_end(&program.server->queues[core]);
}

static int begin_core(struct weir_group *group, uint32_t core, void *arg)
{
	struct queue *q = &program.server->queues[core];
	int err;

	q->server = program.server;
	q->index = core;
	q->reactor = weir_group_reactor(group, core);
	err = queue_begin(q);
	for (int i = 0; i < SIGNALS && core == 0 && !err; i++)
		err = weir_signal_create(&program.signals[i], q->reactor, signals[i],
					 on_signal, NULL);
	if (err)
		end_core(group, core, arg);
	return err;
}

static int make_group(struct server *s)
{
	/* A place for each command, and for what it asks of the disk. */
	struct weir_reactor_opts reactor = {
		.size = sizeof(reactor), .backend = WEIR_BACKEND_URING, .sqe128 = 1,
		.ring_entries = s->info.depth > 128 ? 2048 : 256,
	};
	struct weir_group_opts opts = {
		.size = sizeof(opts), .n_cores = s->info.queues, .flags = WEIR_GROUP_ADOPT | WEIR_GROUP_NO_PIN,
		.reactor = &reactor,
	};
	int err = weir_group_create(&s->group, &opts);

	s->queues = calloc(s->info.queues, sizeof(*s->queues));
	if (!s->queues)
		return -ENOMEM;
	return err ? err : weir_group_set_core_fns(s->group, begin_core, end_core, NULL);
}

static int begin(struct server *s)
{
	int err = server_open(s);

	if (err)
		return err;
	if (s->opts.stats && weir_stats_publish(NULL))
		say("no numbers for 'weir top': %s", weir_why());
	err = make_group(s);
	if (!err)
		err = weir_group_start(s->group);
	if (err)
		say("start: %s", *weir_why() ? weir_why() : strerror(-err));
	return err ? err : server_start(s);
}

static void print_stats(const struct server *s)
{
	struct counts sum = { .errors = 0 };
	const struct { const char *name; const uint64_t *n; } all[] = {
		{ "reads", &sum.reads }, { "writes", &sum.writes },
		{ "flushes", &sum.flushes }, { "trims", &sum.trims },
		{ "zeroes", &sum.zeroes }, { "bytes-read", &sum.read },
		{ "bytes-written", &sum.written }, { "errors", &sum.errors },
	};

	for (uint32_t i = 0; i < s->info.queues; i++) {
		const struct counts *c = &s->queues[i].counts;

		sum.reads += c->reads;
		sum.writes += c->writes;
		sum.flushes += c->flushes;
		sum.trims += c->trims;
		sum.zeroes += c->zeroes;
		sum.read += c->read;
		sum.written += c->written;
		sum.errors += c->errors;
	}
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		printf(s->opts.json ? "%s\"%s\":%" PRIu64 : "%s%s %" PRIu64 "\n",
		       s->opts.json ? i ? "," : "{" : "", all[i].name, *all[i].n);
	if (s->opts.json)
		printf("}\n");
}

static int serve(struct server *s)
{
	int status = EXIT_SETUP;

	program.server = s;
	/* Memory that is short is found by writing to devices, perhaps to this one: threads
	 * that are made from now on do not wait for that.  It takes a privilege. */
	(void)prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
	if (!begin(s)) {
		status = weir_group_run(s->group) || s->failed ? EXIT_FAILED : EXIT_OK;
		if (s->failed && !s->started)
			status = EXIT_SETUP;
		if (s->opts.stats)
			print_stats(s);
	}
	if (weir_group_destroy(s->group))
		say("%s", weir_why());
	server_close(s);
	return status;
}

int main(int argc, char **argv)
{
	struct server *s = server_new();
	int status;

	if (!s) {
		say("start: %s", strerror(ENOMEM));
		return EXIT_SETUP;
	}
	status = options_parse(s, argc, argv);
	if (status < 0 && s->opts.list)
		status = list_devices(s->opts.json);
	else if (status < 0 && s->opts.stop != UINT32_MAX)
		status = stop_device(s->opts.stop, s->opts.force);
	else if (status < 0)
		status = serve(s);
	server_free(s);
	if (fflush(stdout) || ferror(stdout)) {
		say("write the output: %s", strerror(errno));
		status = EXIT_FAILED;
	}
	return status;
}
