/* SPDX-License-Identifier: CC0-1.0 */
/*
 * A line of the access log: the time of the end, the client, the listener, the
 * target, the bytes up and down, the time to connect and in all, and the result.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "weir-proxy.h"

static const char *const ends[] = {
	[END_OPEN] = "open",
	[END_DONE] = "done",
	[END_RESET] = "reset",
	[END_IDLE] = "idle",
	[END_NO_TARGET] = "no-target",
	[END_STOPPED] = "stopped",
	[END_BAD_HEADER] = "bad-header",
	[END_BAD_TLS] = "bad-tls",
};

/* The name of a client's UNIX socket is the client's choice; a word stays
 * one. */
static void make_word(char *name)
{
	for (; *name; name++)
		if (!isgraph((unsigned char)*name))
			*name = '?';
}

size_t log_line(char *to, size_t capacity, const struct log_record *rec)
{
	time_t seconds = (time_t)(rec->ended_ns / WEIR_SEC);
	char client[NAME_MAX_ADDRESS], when[32];
	struct tm tm;
	int len;

	address_print(client, &rec->client);
	make_word(client);
	gmtime_r(&seconds, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	len = snprintf(to, capacity,
		       "%s.%03uZ %s %s %s up=%" PRIu64 " down=%" PRIu64
		       " connect=%" PRIu64 "us time=%" PRIu64 "us %s\n",
		       when,
		       (unsigned int)(rec->ended_ns % WEIR_SEC / WEIR_MSEC),
		       client, rec->listen, rec->target, rec->up, rec->down,
		       rec->connect_ns / 1000, rec->lasted_ns / 1000,
		       ends[rec->end]);
	if (len < 0)
		return 0;
	return (size_t)len < capacity ? (size_t)len : capacity - 1;
}
