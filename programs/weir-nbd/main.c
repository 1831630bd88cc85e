/* SPDX-License-Identifier: CC0-1.0 */
/* The program: a server on the reactors of a group, which signals stop, or have read
 * its certificate again. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include <weir/group.h>
#include <weir/stats.h>

#include "weir-nbd.h"

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
#define SIGNALS ((int)(sizeof(signals) / sizeof(signals[0])))

static struct {
	struct server *server;
	struct weir_group *group;
	struct weir_signal *signals[SIGNALS];
	bool stopping, failed;
} program;

static void on_stopped(struct server *server, int err, void *arg)
{
	(void)server, (void)arg;
	program.failed = err != 0;
	weir_group_stop(program.group);
}

/* The first signal asks the server to come to an end, the next one insists. */
static void on_signal(struct weir_signal *signal,
		      const struct signalfd_siginfo *info, void *arg)
{
	(void)signal, (void)arg;
	if (info->ssi_signo == SIGHUP) {
		tls_reload(program.server);
		return;
	}
	if (program.stopping)
		weir_group_stop(program.group);
	else
		server_stop(program.server, on_stopped, NULL);
	program.stopping = true;
}

static void end_core(struct weir_group *group, uint32_t core, void *arg)
{
	(void)group, (void)arg;
	for (int i = 0; i < SIGNALS && core == 0; i++) {
		weir_signal_destroy(program.signals[i]);
		program.signals[i] = NULL;
	}
	core_end(program.server, core);
}

/* On each core's thread, one after the other; core 0 first, which has the
 * signals, too. */
static int begin_core(struct weir_group *group, uint32_t core, void *arg)
{
	struct weir_reactor *reactor = weir_group_reactor(group, core);
	/* Without TLS there is nothing to read, and a hangup is the end. */
	int n = program.server->opts.tls ? SIGNALS : SIGNALS - 1;
	int err = core_begin(program.server, core, reactor);

	if (err)
		return err;
	for (int i = 0; i < n && core == 0 && !err; i++)
		err = weir_signal_create(&program.signals[i], reactor,
					 signals[i], on_signal, NULL);
	if (err)
		end_core(group, core, arg);
	return err;
}

static int make_group(uint32_t n_cores)
{
	struct weir_group_opts opts = { .size = sizeof(opts),
					.n_cores = n_cores,
					.flags = WEIR_GROUP_ADOPT };
	int err = weir_group_create(&program.group, &opts);

	if (err)
		return err;
	program.server->n_cores = weir_group_size(program.group);
	if (program.server->n_cores > CORES_MAX) {
		weir_group_destroy(program.group);
		return make_group(CORES_MAX);
	}
	return weir_group_set_core_fns(program.group, begin_core, end_core,
				       NULL);
}

static int begin(void)
{
	const struct opts *o = &program.server->opts;
	int err = server_open(program.server);

	if (err)
		return err;
	if (o->stats && weir_stats_publish(NULL))
		fprintf(stderr, "weir-nbd: no numbers for 'weir top': %s\n",
			weir_why());
	err = make_group(o->cores);
	if (!err)
		err = weir_group_start(program.group);
	if (err)
		say(*weir_why() ? weir_why() : "start", err);
	else
		listen_say(program.server);
	return err;
}

static void print_stats(const struct server *server)
{
	static const char *const names[NBD_CMDS] = {
		"read", "write", "disc", "flush", "trim", "cache",
		"write-zeroes", "block-status"
	};
	struct counts sum = { .errors = 0 };

	for (uint32_t i = 0; i < server->n_cores; i++) {
		const struct counts *c = &server->cores[i].counts;

		for (int k = 0; k < NBD_CMDS; k++)
			sum.requests[k] += c->requests[k];
		sum.read += c->read;
		sum.written += c->written;
		sum.errors += c->errors;
		sum.sends += c->sends;
		sum.refused += c->refused;
	}
	for (int k = 0; k < NBD_CMDS; k++)
		if (k != NBD_CMD_DISC)
			printf("%s %" PRIu64 "\n", names[k], sum.requests[k]);
	printf("bytes-read %" PRIu64 "\nbytes-written %" PRIu64 "\n"
	       "errors %" PRIu64 "\nsends %" PRIu64 "\nrefused %" PRIu64 "\n",
	       sum.read, sum.written, sum.errors, sum.sends, sum.refused);
}

static void end(void)
{
	if (weir_group_destroy(program.group))
		fprintf(stderr, "weir-nbd: %s\n", weir_why());
	server_destroy(program.server);
}

int main(int argc, char **argv)
{
	int status = server_create(&program.server, argc, argv);

	if (status >= 0)
		return status;
	status = EXIT_SETUP;
	if (begin() == 0) {
		status = weir_group_run(program.group) || program.failed ?
			 EXIT_FAILED : EXIT_OK;
		if (program.server->opts.stats)
			print_stats(program.server);
	}
	end();
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "weir-nbd: write the output: %s\n",
			strerror(errno));
		status = EXIT_FAILED;
	}
	return status;
}
