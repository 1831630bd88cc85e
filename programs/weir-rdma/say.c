/* SPDX-License-Identifier: CC0-1.0 */
/* What is said: errors, results, progress; as text or as JSON. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "../common/option.h"
#include "weir-rdma.h"

#define PERIOD_TTY (250 * WEIR_MSEC)
#define PERIOD WEIR_SEC

void say_usage_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	option_usage("weir-rdma", fmt, ap);
	va_end(ap);
}

/* Names come from strangers: no control character reaches a terminal, and what
 * is no ASCII is written in JSON as the byte that it is. */
static void print_string(FILE *out, const char *s, bool json)
{
	putc(json ? '"' : '\'', out);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c < 0x20 || c == 0x7f || (json && c > 0x7f))
			fprintf(out, json ? "\\u%04x" : "\\%03o", c);
		else if (c == '\\' || (json && c == '"'))
			fprintf(out, "\\%c", c);
		else
			putc(c, out);
	}
	putc(json ? '"' : '\'', out);
}

static const char *cause(int err)
{
	switch (err) {
	case -EXDEV:
		return "it is outside of the directory that is served";
	case -EROFS:
		return "it is read-only";
	case -EMEDIUMTYPE:
		return "it is not a regular file";
	case -ENOSPC:
		return "no space is left on its disk";
	case -ENODATA:
		return "it has become shorter meanwhile";
	case -EDESTADDRREQ:
		return "there is no such host";
	case -ECONNREFUSED:
		return "there is no server";
	case -ENODEV:
		return "no RDMA device here has a way to it";
	default:
		return strerror(-err);
	}
}

/* One message for each failure. */
static void explain(const struct transfer *t, char *text, size_t size)
{
	static const char *const what[FAILS] = {
		[FAIL_CONNECT] = "cannot connect",
		[FAIL_MEMORY] = "has no memory to move it through",
		[FAIL_OPEN] = "cannot open the file",
		[FAIL_READ] = "cannot read the file",
		[FAIL_WRITE] = "cannot write the file",
		[FAIL_NAME] = "cannot give the file its name",
		[FAIL_PROTOCOL] = "does not understand the other end",
	};
	const char *side = t->serving ? "the client" : "the server";

	if (!t->fail_there)
		side = "this end";
	if (t->fail == FAIL_CHECKSUM)
		snprintf(text, size, "the checksums differ: what came is not "
			 "what was sent; nothing of it is kept");
	else if (t->fail == FAIL_BUSY)
		snprintf(text, size, "the server has as many clients as it "
			 "takes");
	else if (t->fail == FAIL_STOPPED)
		snprintf(text, size, "%s was stopped", side);
	else if (t->fail == FAIL_PEER && t->err == -ETIMEDOUT)
		snprintf(text, size, "the other end does not answer");
	else if (t->fail == FAIL_PEER)
		snprintf(text, size, "the connection was lost: %s",
			 cause(t->err == -ECANCELED ? -ECONNRESET : t->err));
	else
		snprintf(text, size, "%s %s: %s", side, what[t->fail],
			 cause(t->err));
}

static void print_size(char *buf, size_t len, double bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	int i = 0;

	for (; bytes >= 1000 && i < 4; i++)
		bytes /= 1024;
	snprintf(buf, len, i && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes,
		 units[i]);
}

static double seconds(const struct transfer *t)
{
	uint64_t now = weir_reactor_now(t->app->reactor);

	return (double)((t->ended_ns ? t->ended_ns : now) - t->started_ns) /
	       1e9;
}

static const char *verb(const struct transfer *t)
{
	return t->file.sink == t->serving ? "put" : "get";
}

static void json_result(const struct transfer *t, const char *error)
{
	printf("{\"type\":\"transfer\",\"command\":\"%s\",\"file\":", verb(t));
	print_string(stdout, t->file.name, true);
	printf(",\"peer\":");
	print_string(stdout, t->peer, true);
	printf(",\"bytes\":%" PRIu64 ",\"seconds\":%.3f,", t->moved,
	       seconds(t));
	if (t->fail) {
		printf("\"error\":");
		print_string(stdout, error, true);
		printf("}\n");
	} else {
		printf("\"crc32c\":\"%08" PRIx32 "\"}\n", t->crc);
	}
}

static void text_result(const struct transfer *t, const char *error)
{
	char size[16], rate[16];
	double s = seconds(t);

	fprintf(stderr, "weir-rdma: %s ", verb(t));
	print_string(stderr, t->file.name, false);
	fprintf(stderr, ", %s: ", t->peer);
	if (t->fail) {
		fprintf(stderr, "%s\n", error);
		return;
	}
	print_size(size, sizeof(size), (double)t->moved);
	print_size(rate, sizeof(rate), s > 0 ? (double)t->moved / s : 0);
	fprintf(stderr, "%s in %.1f s, %s/s, crc32c %08" PRIx32 "\n", size, s,
		rate, t->crc);
}

static void clear(struct app *app)
{
	if (app->shown && isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	app->shown = false;
}

void say_result(struct transfer *t)
{
	const struct opts *o = &t->app->opts;
	char error[256] = "";

	t->app->failed = t->fail != FAIL_NOT;
	if (t->fail)
		explain(t, error, sizeof(error));
	clear(t->app);
	if (o->json)
		json_result(t, error);
	if (!o->json ? t->fail || !o->quiet : t->fail && !o->quiet)
		text_result(t, error);
	fflush(stdout);
}

void say_setup_error(struct app *app, const char *what, int err)
{
	const char *why = weir_why();

	if (app->opts.json) {
		printf("{\"type\":\"error\",\"error\":");
		print_string(stdout, *why ? why : cause(err), true);
		printf("}\n");
	}
	if (err == -ENODEV || err == -EOPNOTSUPP)
		fprintf(stderr, "weir-rdma: there is no RDMA device to be used "
			"here: %s\n", why);
	else
		fprintf(stderr, "weir-rdma: %s%s%s%s%s\n", what ? what : "",
			what ? ": " : "", cause(err), *why ? "; " : "", why);
}

/* So that one knows the port, if any would do. */
void say_listening(struct app *app)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	char host[64] = "?", port[16] = "?";

	if (!weir_listener_address(app->listener, (struct sockaddr *)&addr,
				   &len))
		getnameinfo((struct sockaddr *)&addr, len, host, sizeof(host),
			    port, sizeof(port), NI_NUMERICHOST |
			    NI_NUMERICSERV);
	if (app->opts.json)
		printf("{\"type\":\"listening\",\"address\":\"%s\","
		       "\"port\":%s}\n", host, port);
	else if (!app->opts.quiet)
		fprintf(stderr, "weir-rdma: listening at %s, port %s\n", host,
			port);
	fflush(stdout);
}

/* How far the client is. */
static void on_timer(struct weir_timer *timer, uint64_t n, void *arg)
{
	struct app *app = arg;
	const struct transfer *t = app->transfers;
	char done[16], size[16], rate[16];
	double s = t ? seconds(t) : 0;

	(void)timer, (void)n;
	if (!t || !t->sized)
		return;
	clear(app);
	print_size(done, sizeof(done), (double)t->moved);
	print_size(size, sizeof(size), (double)t->file.size);
	print_size(rate, sizeof(rate), s > 0 ? (double)t->moved / s : 0);
	fprintf(stderr, "%s of %s, %.0f %%, %s/s", done, size, t->file.size ?
		(double)t->moved * 100 / (double)t->file.size : 100, rate);
	if (!isatty(STDERR_FILENO))
		putc('\n', stderr);
	app->shown = true;
}

int progress_start(struct app *app)
{
	uint64_t period = isatty(STDERR_FILENO) ? PERIOD_TTY : PERIOD;
	int err;

	if (app->opts.quiet || (!isatty(STDERR_FILENO) && !app->opts.progress))
		return 0;
	err = weir_timer_create(&app->timer, app->reactor, on_timer, app);
	if (!err)
		weir_timer_start(app->timer, weir_reactor_now(app->reactor) +
				 period, period);
	return err;
}

void progress_stop(struct app *app)
{
	clear(app);
	weir_timer_destroy(app->timer);
}
