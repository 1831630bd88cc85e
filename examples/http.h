/* SPDX-License-Identifier: CC0-1.0 */
/* HTTP/1.1 as text: what a client asks for, and what there is to say to it, for
 * 43-http-files.c.  No I/O, so that a fuzzer can have it all. */
#ifndef EXAMPLES_HTTP_H
#define EXAMPLES_HTTP_H

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define HEAD_MAX 8192		/* Bytes of a request. */

struct request {
	char path[HEAD_MAX];	/* Decoded, without a leading slash. */
	int is_head, keep, has_range, has_since, has_if_range;
	int64_t first, last;	/* -1: not given. */
	time_t since, if_range;
};

static int hex(int c)
{
	return isdigit(c) ? c - '0' : isxdigit(c) ? (c | 32) - 'a' + 10 : -1;
}

/* Decode the target's path.  Returns an HTTP status. */
static int parse_target(struct request *rq, const char *p)
{
	size_t n = 0;
	int c, high, low;

	if (!strncasecmp(p, "http://", 7))
		p = strchrnul(p + 7, '/');
	if (*p != '/')
		return 400;
	while (*p == '/')
		p++;
	while (*p && *p != '?') {
		c = (unsigned char)*p++;
		if (c == '%') {
			high = hex((unsigned char)p[0]);
			low = high < 0 ? -1 : hex((unsigned char)p[1]);
			if (low < 0)
				return 400;
			c = high * 16 + low;
			p += 2;
		}
		if (c < ' ' || c == 127)
			return 400;
		if (c == '/' && !n)
			continue;
		if (n + sizeof("index.html") >= sizeof(rq->path))
			return 414;
		rq->path[n++] = (char)c;
	}
	if (!n || rq->path[n - 1] == '/')
		n += (size_t)sprintf(rq->path + n, "index.html");
	rq->path[n] = 0;
	for (p = rq->path; p; p = strchr(p, '/')) {
		p += *p == '/';
		if (!strncmp(p, "..", 2) && (p[2] == '/' || !p[2]))
			return 404;
	}
	return 200;
}

static int64_t number(const char **p)
{
	int64_t n = -1;

	for (; isdigit((unsigned char)**p) && n < INT64_MAX / 20; (*p)++)
		n = (n < 0 ? 0 : n) * 10 + **p - '0';
	return n;
}

/* One range; anything else is ignored, as it may be. */
static void parse_range(struct request *rq, const char *p)
{
	rq->has_range = 0;
	if (strncasecmp(p, "bytes=", 6))
		return;
	p += 6;
	rq->first = number(&p);
	if (*p++ != '-')
		return;
	rq->last = number(&p);
	rq->has_range = !*p && (rq->first >= 0 || rq->last >= 0) &&
			(rq->last < 0 || rq->first <= rq->last);
}

static int parse_date(time_t *ret, const char *p)
{
	struct tm tm = { 0 };
	const char *end = strptime(p, "%a, %d %b %Y %H:%M:%S GMT", &tm);

	*ret = timegm(&tm);
	return end && !*end;
}

static int parse_field(struct request *rq, char *line, int *hosts)
{
	char *value = strchr(line, ':'), *end;

	if (!value || value == line || strcspn(line, " \t") < (size_t)
	    (value - line))
		return 400;
	*value++ = 0;
	value += strspn(value, " \t");
	for (end = value + strlen(value); end > value && strchr(" \t", end[-1]);)
		*--end = 0;
	if (!strcasecmp(line, "Host"))
		(*hosts)++;
	else if (!strcasecmp(line, "Connection"))
		rq->keep = strcasestr(value, "close") ? 0 :
			   strcasestr(value, "keep-alive") ? 1 : rq->keep;
	else if (!strcasecmp(line, "Range"))
		parse_range(rq, value);
	else if (!strcasecmp(line, "If-Modified-Since"))
		rq->has_since = parse_date(&rq->since, value);
	else if (!strcasecmp(line, "If-Range"))
		rq->has_if_range = parse_date(&rq->if_range, value) ? 1 : -1;
	else if (!strcasecmp(line, "Transfer-Encoding") ||
		 (!strcasecmp(line, "Content-Length") && strcmp(value, "0")))
		return 413;	/* What follows would be taken for a request. */
	return 200;
}

/* Parse @head, which ends with an empty line.  Returns an HTTP status.  Without 200
 * .keep is 0: there may be fields, and a body, that were not understood. */
static int http_parse(struct request *rq, char *head, size_t len)
{
	char *line = head, *next, *target, *version;
	int status, hosts = 0;

	memset(rq, 0, sizeof(*rq));
	rq->first = rq->last = -1;
	if (memchr(head, 0, len))
		return 400;
	head[len - 2] = 0;		/* The empty line. */
	next = strstr(line, "\r\n");
	*next = 0;
	target = strchr(line, ' ');
	version = target ? strchr(target + 1, ' ') : NULL;
	if (!version || strchr(version + 1, ' ') || strpbrk(line, "\r\n\t"))
		return 400;
	*target++ = *version++ = 0;
	if (strncmp(version, "HTTP/1.", 7) ||
	    !isdigit((unsigned char)version[7]) || version[8])
		return strncmp(version, "HTTP/", 5) ? 400 : 505;
	rq->is_head = !strcmp(line, "HEAD");
	if (!rq->is_head && strcmp(line, "GET"))
		return 405;
	rq->keep = version[7] != '0';
	status = parse_target(rq, target);
	for (line = next + 2; status == 200 && *line; line = next + 2) {
		next = strstr(line, "\r\n");
		*next = 0;
		status = strpbrk(line, "\r\n") ? 400 :
						parse_field(rq, line, &hosts);
	}
	if (status == 200 && hosts != 1 && version[7] != '0')
		status = 400;
	rq->keep &= status == 200;
	return status;
}

/*
 * The status for a file of @size bytes, as old as @mtime, and, in *@first and
 * *@last, which of its bytes; none if @last is less.
 */
static int http_choose(const struct request *rq, int64_t size, time_t mtime,
		       int64_t *first, int64_t *last)
{
	*first = 0;
	*last = size - 1;
	if (rq->has_since && mtime <= rq->since)
		return 304;
	if (!rq->has_range || rq->is_head || (rq->has_if_range &&
	    (rq->has_if_range < 0 || rq->if_range != mtime)))
		return 200;
	if (rq->first < 0)
		*first = rq->last < size ? size - rq->last : 0;
	else
		*first = rq->first;
	if (rq->first >= 0 && rq->last >= 0 && rq->last < size)
		*last = rq->last;
	if (*first <= *last)
		return 206;
	*first = 0;
	*last = -1;
	return 416;
}

static const char *http_reason(int status)
{
	switch (status) {
	case 200: return "OK";
	case 206: return "Partial Content";
	case 304: return "Not Modified";
	case 403: return "Forbidden";
	case 404: return "Not Found";
	case 405: return "Method Not Allowed";
	case 413: return "Content Too Large";
	case 414: return "URI Too Long";
	case 416: return "Range Not Satisfiable";
	case 431: return "Request Header Fields Too Large";
	case 503: return "Service Unavailable";
	case 505: return "HTTP Version Not Supported";
	default: return "Bad Request";
	}
}

static const char *http_type(const char *path)
{
	static const char *const types[][2] = {
		{ ".html", "text/html; charset=utf-8" }, { ".css", "text/css" },
		{ ".js", "text/javascript" }, { ".txt", "text/plain" },
		{ ".json", "application/json" }, { ".png", "image/png" },
		{ ".jpg", "image/jpeg" }, { ".svg", "image/svg+xml" },
	};
	const char *dot = strrchr(path, '.');

	for (size_t i = 0; dot && i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcasecmp(dot, types[i][0]))
			return types[i][1];
	return "application/octet-stream";
}

static void http_date(char *buf, time_t when)
{
	struct tm tm;

	strftime(buf, 40, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&when, &tm));
}

#endif /* EXAMPLES_HTTP_H */
