/* SPDX-License-Identifier: CC0-1.0 */
/* The program: a device on one reactor, which signals stop. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <weir/stats.h>

#include "../common/json.h"
#include "weir-vhost.h"

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
#define SIGNALS 3

static struct {
	struct device *dev;
	struct weir_reactor *reactor;
	struct weir_signal *signals[SIGNALS];
	bool failed;
} program;

static void on_stopped(struct device *dev, int err)
{
	if (err && err != -ECANCELED) {
		fprintf(stderr, "weir-vhost: %s: %s\n",
			block_title(&dev->block), strerror(-err));
		program.failed = true;
	}
	weir_reactor_stop(program.reactor);
}

/* The first signal asks the server to come to an end, the next one insists. */
static void on_signal(struct weir_signal *signal,
		      const struct signalfd_siginfo *info, void *arg)
{
	struct device *dev = arg;

	(void)signal;
	if (info->ssi_signo == SIGHUP)
		device_resize(dev);
	else if (dev->stopping)
		weir_reactor_stop(program.reactor);
	else
		device_stop(dev);
}

static int begin_reactor(void)
{
	int err = weir_reactor_create(&program.reactor, NULL);

	if (!err)
		err = device_begin(program.dev, program.reactor);
	for (int i = 0; i < SIGNALS && !err; i++)
		err = weir_signal_create(&program.signals[i], program.reactor,
					 signals[i], on_signal, program.dev);
	if (err)
		fprintf(stderr, "weir-vhost: start: %s\n",
			*weir_why() ? weir_why() : strerror(-err));
	return err;
}

static void say_where(const struct device *dev)
{
	if (dev->opts.quiet)
		return;
	if (dev->opts.json) {
		printf("{\"listening\":");
		json_put_string(stdout, dev->opts.unix_path);
		printf(",\"size\":%" PRIu64 "}\n", dev->block.size);
	} else {
		printf("listening at %s\n", dev->opts.unix_path);
	}
	fflush(stdout);
}

static void print_stats(const struct device *dev)
{
	const struct counts *c = &dev->counts;
	const struct { const char *name; uint64_t n; } all[] = {
		{ "reads", c->reads }, { "writes", c->writes },
		{ "flushes", c->flushes }, { "trims", c->trims },
		{ "zeroes", c->zeroes }, { "others", c->others },
		{ "bytes-read", c->read }, { "bytes-written", c->written },
		{ "errors", c->errors }, { "again", c->again },
		{ "kicks", c->kicks }, { "calls", c->calls },
		{ "calls-spared", c->spared },
		{ "connections", c->connections },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		printf(dev->opts.json ? "%s\"%s\":%" PRIu64 :
					"%s%s %" PRIu64 "\n",
		       dev->opts.json ? i ? "," : "{" : "", all[i].name,
		       all[i].n);
	if (dev->opts.json)
		printf("}\n");
}

static int begin(void)
{
	struct device *dev = program.dev;
	int err = device_open(dev);

	if (err)
		return err;
	if (dev->opts.stats && weir_stats_publish(NULL))
		fprintf(stderr, "weir-vhost: no numbers for 'weir top': %s\n",
			weir_why());
	err = begin_reactor();
	if (!err)
		say_where(dev);
	return err;
}

static void end(void)
{
	for (int i = 0; i < SIGNALS; i++)
		weir_signal_destroy(program.signals[i]);
	device_end(program.dev);
	if (program.reactor && weir_reactor_destroy(program.reactor))
		fprintf(stderr, "weir-vhost: %s\n", weir_why());
	free(program.dev);
}

int main(int argc, char **argv)
{
	int status;

	/* The call descriptor may be a pipe without a reader. */
	signal(SIGPIPE, SIG_IGN);
	program.dev = device_new(on_stopped);
	if (!program.dev) {
		fprintf(stderr, "weir-vhost: start: %s\n", strerror(ENOMEM));
		return EXIT_SETUP;
	}
	status = options_parse(program.dev, argc, argv);
	if (status >= 0) {
		free(program.dev);
		return status;
	}
	status = EXIT_SETUP;
	if (!begin()) {
		status = weir_reactor_run(program.reactor) < 0 ||
			 program.failed ? EXIT_FAILED : EXIT_OK;
		if (program.dev->opts.stats)
			print_stats(program.dev);
	}
	end();
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "weir-vhost: write the output: %s\n",
			strerror(errno));
		status = EXIT_FAILED;
	}
	return status;
}
