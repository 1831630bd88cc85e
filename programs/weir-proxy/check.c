/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Health checks: a connection, and, if that is wanted, a GET that has to be
 * answered by a status below 400.
 *
 *	WAIT --> CONNECT --> [SEND --> RECEIVE] --> WAIT
 *
 * `fall` failures in a row make a server down, `rise` successes up.  The one
 * operation of a server is always at one of these, until the server is gone or its
 * configuration retires; it holds both.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weir/socket.h>

#include "weir-proxy.h"

#define TIMEOUT_NS (5 * WEIR_SEC)	/* If there is no connect-timeout. */

static struct server *server_of(struct weir_op *op)
{
	return weir_container_of(op, struct server, check.op);
}

static struct config *config_of(const struct server *s)
{
	return s->target->route->config;
}

static struct weir_reactor *reactor_of(const struct server *s)
{
	return config_of(s)->core->r;
}

static void close_it(struct server *s)
{
	struct linger none = { .l_onoff = 1, .l_linger = 0 };

	if (s->check.fd < 0)
		return;
	/* No TIME_WAIT for each check. */
	setsockopt(s->check.fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(s->check.fd);
	s->check.fd = -1;
}

static void finish(struct server *s)
{
	struct config *c = config_of(s);

	close_it(s);
	server_put(s);
	config_put(c);
}

static bool is_over(const struct server *s)
{
	return s->gone || config_of(s)->retired;
}

static void probe(struct server *s);

static void on_waited(struct weir_op *op, int64_t res)
{
	struct server *s = server_of(op);

	if (res < 0 || is_over(s))
		finish(s);
	else
		probe(s);
}

/* ---- the result ---- */

static void judge(struct server *s, bool good)
{
	uint64_t wanted = s->down ? config_of(s)->rise : config_of(s)->fall;

	if (good != s->down) {
		s->check.streak = 0;
		return;
	}
	if (++s->check.streak < wanted)
		return;
	s->check.streak = 0;
	s->down = !good;
	if (good)
		s->rests_until = 0;
	if (!config_of(s)->core->index)
		complain("%s is %s", s->name, good ? "up" : "down");
}

/* And again after a while. */
static void wait_for_next(struct server *s)
{
	struct weir_reactor *r = reactor_of(s);

	close_it(s);
	s->check.op.fn = on_waited;
	/* One that was set for a start that failed is still there. */
	weir_op_set_deadline(&s->check.op, WEIR_FOREVER);
	if (is_over(s) ||
	    weir_sleep_until(r, &s->check.op, weir_reactor_now(r) +
			     s->target->route->check_ns))
		finish(s); /* It is stopping. */
}

static void conclude(struct server *s, bool good)
{
	if (!is_over(s))
		judge(s, good);
	wait_for_next(s);
}

/* ---- the probe ---- */

static void set_deadline(struct server *s)
{
	uint64_t ns = config_of(s)->connect_ns;

	weir_op_set_deadline(&s->check.op, weir_reactor_now(reactor_of(s)) +
			     (ns ? ns : TIMEOUT_NS));
}

static void on_answer(struct weir_op *op, int64_t res)
{
	struct server *s = server_of(op);
	const char *a = s->check.answer;

	conclude(s, res == sizeof(s->check.answer) &&
		 !memcmp(a, "HTTP/1.", 7) && a[8] == ' ' &&
		 (a[9] == '2' || a[9] == '3'));
}

static void on_asked(struct weir_op *op, int64_t res)
{
	struct server *s = server_of(op);

	s->check.op.fn = on_answer;
	set_deadline(s);
	if (res < 0 || is_over(s) ||
	    weir_recv(reactor_of(s), &s->check.op, s->check.fd,
		      s->check.answer, sizeof(s->check.answer), WEIR_SOCK_ALL))
		conclude(s, false);
}

static void on_connected(struct weir_op *op, int64_t res)
{
	struct server *s = server_of(op);
	const char *path = s->target->route->check_path;
	int len;

	if (res == -ECANCELED) {
		wait_for_next(s);
		return;
	}
	if (res < 0 || !path || is_over(s)) {
		conclude(s, !res);
		return;
	}
	len = snprintf(s->check.request, sizeof(s->check.request),
		       "GET %s HTTP/1.0\r\nHost: %s\r\n"
		       "User-Agent: weir-proxy\r\n\r\n", path,
		       s->target->host ? s->target->host : s->name);
	s->check.op.fn = on_asked;
	set_deadline(s);
	if (weir_send(reactor_of(s), &s->check.op, s->check.fd,
		      s->check.request, (size_t)len, 0))
		conclude(s, false);
}

static void probe(struct server *s)
{
	s->check.fd = socket(s->addr.sa.ss_family,
			     SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	s->check.op.fn = on_connected;
	if (s->check.fd >= 0)
		set_deadline(s);
	if (s->check.fd < 0 ||
	    weir_connect(reactor_of(s), &s->check.op, s->check.fd,
			 (const struct sockaddr *)&s->addr.sa, s->addr.len))
		wait_for_next(s); /* It says nothing of the server. */
}

/* Once for each server that comes. */
void check_begin(struct server *s)
{
	if (!s->target->route->check_ns)
		return;
	config_get(config_of(s));
	s->users++;
	probe(s);
}
