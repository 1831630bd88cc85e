/* SPDX-License-Identifier: CC0-1.0 */
/* The life of the program: make the objects, run the loop, say how it went. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "weir-rdma.h"

/* Exit status; the manual page has them too. */
#define EXIT_OK 0
#define EXIT_FAILED 1
#define EXIT_SETUP 3

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

void app_check_end(struct app *app)
{
	bool serving = app->opts.command == CMD_SERVE && !app->ending;

	if (!serving && !app->listening && !app->n_transfers)
		weir_reactor_break(app->reactor);
}

static void on_signal(struct weir_signal *signal,
		      const struct signalfd_siginfo *info, void *arg)
{
	struct app *app = arg;

	(void)signal, (void)info;
	if (!app->ending)
		serve_stop(app);
}

static int setup(struct app *app)
{
	int err = weir_reactor_create(&app->reactor, NULL);

	for (int i = 0; i < 3 && !err; i++)
		err = weir_signal_create(&app->signals[i], app->reactor,
					 signals[i], on_signal, app);
	if (!err)
		err = weir_dma_create(&app->dma, app->reactor, NULL);
	if (!err)
		err = weir_dma_start(app->dma);
	if (!err)
		err = weir_srq_create(&app->srq, app->reactor, NULL);
	return err;
}

static int begin(struct app *app)
{
	int err = setup(app);

	if (err) {
		say_setup_error(app, NULL, err);
		return err;
	}
	if (app->opts.command == CMD_SERVE)
		return serve_begin(app);
	err = client_begin(app);
	return err ? err : progress_start(app);
}

static void teardown(struct app *app)
{
	progress_stop(app);
	weir_listener_destroy(app->listener);
	weir_srq_destroy(app->srq);
	weir_dma_destroy(app->dma);
	for (int i = 0; i < 3; i++)
		weir_signal_destroy(app->signals[i]);
	if (weir_reactor_destroy(app->reactor))
		fprintf(stderr, "weir-rdma: %s\n", weir_why());
	if (app->root >= 0)
		close(app->root);
}

int main(int argc, char **argv)
{
	struct app app = { .root = -1 };
	int status = options_parse(&app.opts, argc, argv);

	if (status >= 0)
		return status;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	status = EXIT_SETUP;
	if (begin(&app) == 0) {
		status = weir_reactor_run(app.reactor) < 0 ? EXIT_FAILED :
							     EXIT_OK;
		if (app.failed && app.opts.command != CMD_SERVE)
			status = EXIT_FAILED;
	}
	teardown(&app);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "weir-rdma: write the output: %s\n",
			strerror(errno));
		status = EXIT_FAILED;
	}
	return status;
}
