/* SPDX-License-Identifier: CC0-1.0 */
/* The life of the program: make the objects, run the loop, say how it went. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <weir/dma.h>
#include <weir/srq.h>
#include <weir/watch.h>

#include "weir-rping.h"

void complain(struct rping *rp, const char *fmt, ...)
{
	va_list ap;

	rp->status = 1;
	fputs("weir-rping: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

const char *reason(int64_t err)
{
	const char *why = weir_why();

	return why && *why ? why : strerror((int)-err);
}

/* The last one turns off the light. */
void rping_left(struct rping *rp)
{
	if (rp->sessions || (rp->o.persistent && !rp->ending))
		return;
	weir_reactor_break(rp->r);
}

static void on_signal(struct weir_signal *signal,
		      const struct signalfd_siginfo *info, void *arg)
{
	struct rping *rp = arg;
	struct session *s, *next;

	(void)signal, (void)info;
	rp->ending = true;
	for (s = rp->sessions; s; s = next) {
		next = s->next;
		session_end(s);
	}
	if (weir_op_is_busy(&rp->next))
		weir_op_cancel(&rp->next);
	rping_left(rp);
}

static int open_all(struct rping *rp)
{
	struct weir_srq_opts srq = { .size = sizeof(srq), .recvs = 64,
				     .buf_size = 256 };
	int err = weir_reactor_create(&rp->r, NULL);

	if (!err)
		err = weir_srq_create(&rp->srq, rp->r, &srq);
	if (!err)
		err = weir_dma_create(&rp->dma, rp->r, NULL);
	if (!err)
		err = weir_dma_start(rp->dma);
	if (err)
		complain(rp, "cannot begin: %s", reason(err));
	return err;
}

static void close_all(struct rping *rp)
{
	while (rp->sessions)
		session_free(rp->sessions);
	weir_listener_destroy(rp->listener);
	weir_srq_destroy(rp->srq);
	weir_dma_destroy(rp->dma);
	weir_reactor_destroy(rp->r);
}

static int run(struct rping *rp)
{
	struct weir_signal *interrupt, *terminate;
	int err = weir_signal_create(&interrupt, rp->r, SIGINT, on_signal, rp);

	if (err) {
		complain(rp, "no signals: %s", reason(err));
		return err;
	}
	err = weir_signal_create(&terminate, rp->r, SIGTERM, on_signal, rp);
	if (err)
		complain(rp, "no signals: %s", reason(err));
	else
		err = rp->o.server ? server_start(rp) : client_start(rp);
	if (!err)
		weir_reactor_run(rp->r);
	weir_signal_destroy(terminate);
	weir_signal_destroy(interrupt);
	return err;
}

int main(int argc, char **argv)
{
	struct rping rp = { .status = 0 };
	int status;

	if (parse_options(&rp.o, argc, argv, &status))
		return status;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!open_all(&rp))
		run(&rp);
	close_all(&rp);
	if (fflush(stdout) || ferror(stdout))
		complain(&rp, "stdout: %s", strerror(errno));
	return rp.status;
}
