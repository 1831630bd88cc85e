/* SPDX-License-Identifier: CC0-1.0 */
/*
 * A configuration: lines of words, of which the first says what it is about.
 *
 *	listen 127.0.0.1:80 unix:/run/p to 10.0.0.1:80 app.example:80 weight=2
 *	idle-timeout 60
 *
 * It is parsed once for each core: then nothing of it is shared, and which
 * target rests is the core's own affair.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/number.h"
#include "weir-proxy.h"

#define BLANK " \t\r"
/* In a text, this line is before those of the command line. */
#define GIVEN "#\f"

/* A line that is read, word by word. */
struct line {
	unsigned int number;	/* 0: of the command line. */
	char *rest;
	const struct config *like; /* See config_parse(). */
};

/* A word "KEY=TEXT", and where the text is kept. */
struct tls_text {
	const char *key;
	char **text;
};

/* Seconds are kept as nanoseconds; the mode of a file is octal. */
enum unit { COUNT, SECONDS, OCTAL };

struct setting {
	const char *name;
	size_t offset;		/* Of the uint64_t in struct config. */
	double min, max;
	enum unit unit;
};

#define SETTING(name, member, min, max, unit) \
	{ name, offsetof(struct config, member), min, max, unit }

static const struct setting settings[] = {
	SETTING("connect-timeout", connect_ns, 0, 86400, SECONDS),
	SETTING("idle-timeout", idle_ns, 0, 31536000, SECONDS),
	SETTING("rest", rest_ns, 0, 86400, SECONDS),
	SETTING("drain", drain_ns, 0, 86400, SECONDS),
	SETTING("resolve", resolve_ns, 1, 86400, SECONDS),
	SETTING("rise", rise, 1, 1000, COUNT),
	SETTING("fall", fall, 1, 1000, COUNT),
	SETTING("connections", connections, 1, 1e7, COUNT),
	SETTING("buffer", buffer, BUFFER_MIN, BUFFER_MAX, COUNT),
	SETTING("zerocopy", zerocopy, 0, 1e9, COUNT),
	SETTING("splice", splice, 0, 1e9, COUNT),
	SETTING("unix-mode", unix_mode, 0, 0777, OCTAL),
};

static int wrong(const struct line *line, const char *what, const char *word)
{
	char where[48] = "command line";

	if (line->number)
		snprintf(where, sizeof(where), "configuration, line %u",
			 line->number);
	complain("%s: %s%s%s", where, what, word ? ": " : "",
		 word ? word : "");
	return -1;
}

static char *next_word(struct line *line)
{
	char *word = strtok_r(NULL, BLANK, &line->rest);

	return word && *word != '#' ? word : NULL;
}

static int parse_number(const char *word, double min, double max, enum unit unit,
			uint64_t *ret)
{
	char *end;
	double n = unit == OCTAL ? (double)strtoul(word, &end, 8)
				 : strtod(word, &end);

	if (end == word || *end || !(n >= min && n <= max))
		return -1;
	*ret = (uint64_t)(unit == SECONDS ? n * (double)WEIR_SEC : n);
	return 0;
}

static int set_number(struct config *c, const struct setting *s,
		      struct line *line)
{
	const char *word = next_word(line);

	if (!word || parse_number(word, s->min, s->max, s->unit,
				  (void *)((char *)c + s->offset)))
		return wrong(line, "not a number in range", word);
	return 0;
}

static int set_text(char **text, struct line *line, const char *what)
{
	const char *word = next_word(line);

	if (!word)
		return wrong(line, what, NULL);
	free(*text);
	*text = strdup(word);
	return *text ? 0 : wrong(line, "no memory", NULL);
}

/* "192.0.2.53", "2001:db8::53" or "[2001:db8::53]", the first and the last also with
 * a port. */
static bool is_nameserver(const char *text)
{
	const char *colon = strchr(text, ':');
	size_t quoted = *text == '[', len = strlen(text);
	char host[64];
	struct weir_resolve_query q = {
		.size = sizeof(q), .name = host, .flags = WEIR_RESOLVE_NUMERIC,
	};
	uint64_t port;

	if (quoted)
		len = strcspn(++text, "]");
	else if (colon && !strchr(colon + 1, ':'))
		len = (size_t)(colon - text);
	if (len >= sizeof(host))
		return false;
	memcpy(host, text, len);
	host[len] = 0;
	text += len;
	if (quoted && *text++ != ']')
		return false;
	return !weir_resolve_check(&q) &&
	       (!*text || (*text == ':' &&
			   !number_parse(text + 1, 1, 65535, &port)));
}

static int set_nameservers(struct config *c, struct line *line)
{
	char *copy, *save, *text;
	unsigned int n = 0;

	if (set_text(&c->nameservers, line,
		     "give addresses, separated by commas"))
		return -1;
	copy = strdup(c->nameservers);
	if (!copy)
		return wrong(line, "no memory", NULL);
	text = strtok_r(copy, ",", &save);
	while (text && is_nameserver(text)) {
		n++;
		text = strtok_r(NULL, ",", &save);
	}
	free(copy);
	return n && !text ? 0 : wrong(line, "not the addresses of nameservers",
				      c->nameservers);
}

/* ---- listen ... to ... ---- */

static bool has_port(const struct address *a)
{
	if (a->sa.ss_family == AF_INET)
		return ((const struct sockaddr_in *)&a->sa)->sin_port;
	if (a->sa.ss_family == AF_INET6)
		return ((const struct sockaddr_in6 *)&a->sa)->sin6_port;
	return true;
}

static int add_listen(struct config *c, struct route *route, struct line *line,
		      const char *word)
{
	struct listen *l = calloc(1, sizeof(*l));

	if (!l)
		return wrong(line, "no memory", NULL);
	l->fd = -1;
	l->route = route;
	if (address_parse(&l->addr, word) || !has_port(&l->addr)) {
		free(l);
		return wrong(line, "not an address to listen at", word);
	}
	address_print(l->name, &l->addr);
	if (config_listen(c, l->name)) {
		free(l);
		return wrong(line, "this address is there twice", word);
	}
	l->next = c->listens;
	c->listens = l;
	return 0;
}

/* What follows "KEY=" in @word; NULL: it is another word. */
static const char *value_of(const char *word, const char *key)
{
	size_t len = strlen(key);

	return !strncmp(word, key, len) && word[len] == '=' ? word + len + 1 :
							      NULL;
}

/* accept-proxy=NET,NET... */
static int add_nets(struct route *route, struct line *line, const char *word,
		    const char *value)
{
	char *copy = strdup(value), *save, *text;
	struct net *nets;
	int err = copy ? 0 : -1;

	for (text = copy ? strtok_r(copy, ",", &save) : NULL; text && !err;
	     text = strtok_r(NULL, ",", &save)) {
		nets = realloc(route->nets, (route->n_nets + 1) * sizeof(*nets));
		err = nets ? 0 : -1;
		if (nets)
			route->nets = nets;
		if (!err)
			err = net_parse(&nets[route->n_nets++], text);
	}
	free(copy);
	return err || !route->n_nets ?
	       wrong(line, "not the networks of proxies", word) : 0;
}

/* By an address it has a server at once, by name one for each that is found. */
static int add_target(struct route *route, struct line *line, const char *word)
{
	struct target *t = target_add(route);
	char host[512];
	struct weir_resolve_query q = { .size = sizeof(q), .name = host };

	if (!t)
		return wrong(line, "no memory", NULL);
	if (!address_parse(&t->addr, word)) {
		if (!has_port(&t->addr))
			return wrong(line, "not the address of a target", word);
		return server_add(t, &t->addr) ? 0 :
		       wrong(line, "no memory", NULL);
	}
	if (strlen(word) >= sizeof(host) || address_split(word, host, &t->port) ||
	    weir_resolve_check(&q))
		return wrong(line, "not the address of a target", word);
	t->host = strdup(host);
	t->found = calloc(2 * WEIR_RESOLVE_ADDRESSES_MAX, sizeof(*t->found));
	return t->host && t->found ? 0 : wrong(line, "no memory", NULL);
}

static int set_weight(struct route *route, struct line *line, const char *word,
		      const char *value)
{
	struct target *t = weir_container_of(route->targets_end, struct target,
					     next);
	uint64_t n;

	if (!route->targets || number_parse(value, 1, 1000, &n))
		return wrong(line, "a weight is 1 to 1000, after its target",
			     word);
	t->weight = (unsigned int)n;
	return 0;
}

static int set_check(struct route *route, struct line *line, const char *word,
		     const char *value)
{
	if (parse_number(value, 0.01, 86400, SECONDS, &route->check_ns))
		return wrong(line, "not a number of seconds in range", word);
	return 0;
}

/* A word of @words whose value is text: 1 if @word was one, or -1. */
static int set_tls_text(struct line *line, const char *word,
			const struct tls_text *words)
{
	const char *value;

	for (; words->key; words++) {
		value = value_of(word, words->key);
		if (!value)
			continue;
		if (!*value)
			return wrong(line, "a value is missing", word);
		if (*words->text)
			return wrong(line, "this is there twice", word);
		*words->text = strdup(value);
		return *words->text ? 1 : wrong(line, "no memory", NULL);
	}
	return 0;
}

/* Of clients: before "to". */
static int set_tls_in(struct route *route, struct line *line, const char *word)
{
	struct tls_words *w = &route->tls;

	return set_tls_text(line, word, (const struct tls_text[]){
		{ "cert", &w->cert }, { "key", &w->key }, { "alpn", &w->alpn },
		{ "client-ca", &w->client_ca }, { NULL, NULL } });
}

/* Of targets: after it. */
static int set_tls_out(struct route *route, struct line *line, const char *word)
{
	struct tls_words *w = &route->tls;

	if (!strcmp(word, "tls"))
		w->to_target = true;
	else if (!strcmp(word, "tls-verify=no"))
		w->no_verify = true;
	else
		return set_tls_text(line, word, (const struct tls_text[]){
			{ "tls-ca", &w->ca }, { "tls-name", &w->name },
			{ NULL, NULL } });
	return 1;
}

static int check_tls(const struct route *route, struct line *line)
{
	const struct tls_words *w = &route->tls;
	struct weir_resolve_query q = { .size = sizeof(q), .name = w->name };

	if (!w->cert && (w->key || w->alpn || w->client_ca))
		return wrong(line, "key, alpn and client-ca need cert=FILE", NULL);
	if (!w->to_target && (w->ca || w->name || w->no_verify))
		return wrong(line, "tls-ca, tls-name and tls-verify need tls",
			     NULL);
	if (w->name && weir_resolve_check(&q))
		return wrong(line, "tls-name is not a name", w->name);
	if (w->to_target && route->check_path)
		return wrong(line, "check-get is for targets without tls", NULL);
	return 0;
}

static int set_check_path(struct route *route, struct line *line,
			  const char *word, const char *value)
{
	if (*value != '/' || strlen(value) > 200)
		return wrong(line, "not a path of at most 200 bytes", word);
	free(route->check_path);
	route->check_path = strdup(value);
	return route->check_path ? 0 : wrong(line, "no memory", NULL);
}

static int add_word(struct route *route, struct line *line, const char *word)
{
	int did = set_tls_out(route, line, word);
	const char *value;

	if (did)
		return did < 0 ? -1 : 0;
	if (!strcmp(word, "proxy-v2")) {
		route->header = HEADER_V2;
	} else if (!strcmp(word, "proxy-v1")) {
		route->header = HEADER_V1;
	} else if ((value = value_of(word, "weight"))) {
		return set_weight(route, line, word, value);
	} else if ((value = value_of(word, "check"))) {
		return set_check(route, line, word, value);
	} else if ((value = value_of(word, "check-get"))) {
		return set_check_path(route, line, word, value);
	} else if ((value = value_of(word, "balance"))) {
		route->least = !strcmp(value, "leastconn");
		if (!route->least && strcmp(value, "roundrobin"))
			return wrong(line, "roundrobin or leastconn", word);
	} else {
		return add_target(route, line, word);
	}
	return 0;
}

static int add_targets(struct route *route, struct line *line)
{
	const char *word;

	while ((word = next_word(line)))
		if (add_word(route, line, word))
			return -1;
	if (!route->targets)
		return wrong(line, "no target", NULL);
	if (route->check_path && !route->check_ns)
		return wrong(line, "check-get needs check=SECONDS", NULL);
	return check_tls(route, line);
}

/* The one of @like that is where @route, the last, is. */
static const struct route *same_route(const struct config *c,
				      const struct config *like)
{
	const struct route *route, *at = like->routes;
	int n = 0;

	for (route = at; route; route = route->next)
		n++;
	for (route = c->routes; route; route = route->next)
		n--;
	while (n--)
		at = at->next;
	return at;
}

/* A word before "to": 0, 1 if it is an address to listen at, or -1. */
static int add_front(struct config *c, struct route *route, struct line *line,
		     const char *word)
{
	const char *nets = value_of(word, "accept-proxy");
	int did = nets ? 0 : set_tls_in(route, line, word);

	if (nets)
		return add_nets(route, line, word, nets);
	if (did)
		return did < 0 ? -1 : 0;
	return add_listen(c, route, line, word) ? -1 : 1;
}

static int add_route(struct config *c, struct line *line)
{
	struct route *route = calloc(1, sizeof(*route));
	const char *word;
	int n = 0, did;

	if (!route)
		return wrong(line, "no memory", NULL);
	route->config = c;
	route->targets_end = &route->targets;
	route->next = c->routes;
	c->routes = route;
	while ((word = next_word(line)) && strcmp(word, "to")) {
		did = add_front(c, route, line, word);
		if (did < 0)
			return -1;
		n += did;
	}
	if (!n || !word)
		return wrong(line, "give 'listen ADDRESS... to TARGET...'",
			     NULL);
	if (add_targets(route, line))
		return -1;
	return tls_make(route, line->like ? same_route(c, line->like) : NULL);
}

/* ---- the whole ---- */

static int parse_line(struct config *c, struct line *line, const char *word)
{
	size_t i;
	int err = -1;

	if (!strcmp(word, "listen"))
		return add_route(c, line);
	if (!strcmp(word, "log")) {
		err = set_text(&c->log, line, "give the path of a log");
	} else if (!strcmp(word, "nameservers")) {
		err = set_nameservers(c, line);
	} else {
		for (i = 0; i < sizeof(settings) / sizeof(*settings); i++)
			if (!strcmp(word, settings[i].name))
				break;
		if (i == sizeof(settings) / sizeof(*settings))
			return wrong(line, "unknown word", word);
		err = set_number(c, &settings[i], line);
	}
	if (!err && (word = next_word(line)))
		return wrong(line, "a word too many", word);
	return err;
}

static int parse_lines(struct config *c, char *text, const struct config *like)
{
	struct line line = { .like = like };
	char *next = text, *at, *word;
	bool given = false;

	while ((at = strsep(&next, "\n"))) {
		given |= !strcmp(at, GIVEN);
		line.number = given ? 0 : line.number + 1;
		word = strtok_r(at, BLANK, &line.rest);
		if (word && *word != '#' && parse_line(c, &line, word))
			return -1;
	}
	if (c->listens)
		return 0;
	complain("configuration: nowhere to listen");
	return -1;
}

struct config *config_parse(const char *text, const struct config *like)
{
	struct config *c = calloc(1, sizeof(*c));
	char *copy = strdup(text);

	if (!c || !copy) {
		free(c);
		free(copy);
		complain("configuration: no memory");
		return NULL;
	}
	c->users = 1;
	c->connect_ns = 5 * WEIR_SEC;
	c->idle_ns = 300 * WEIR_SEC;
	c->rest_ns = 10 * WEIR_SEC;
	c->drain_ns = 30 * WEIR_SEC;
	c->resolve_ns = 30 * WEIR_SEC;
	c->rise = 2;
	c->fall = 3;
	c->connections = 10000;
	c->buffer = 65536;
	c->splice = 16384;
	c->unix_mode = 0600;
	if (parse_lines(c, copy, like)) {
		config_put(c);
		c = NULL;
	}
	free(copy);
	return c;
}

struct listen *config_listen(const struct config *c, const char *name)
{
	struct listen *l;

	for (l = c->listens; l; l = l->next)
		if (!strcmp(l->name, name))
			return l;
	return NULL;
}

struct config *config_get(struct config *c)
{
	c->users++;
	return c;
}

static void free_routes(struct config *c)
{
	struct route *route;

	while ((route = c->routes)) {
		c->routes = route->next;
		route_free(route);
	}
}

void config_put(struct config *c)
{
	struct listen *l;

	if (!c || --c->users)
		return;
	while ((l = c->listens)) {
		c->listens = l->next;
		if (l->fd >= 0)
			close(l->fd);
		free(l);
	}
	free_routes(c);
	(void)weir_resolver_destroy(c->resolver); /* It has nothing to do. */
	free(c->nameservers);
	free(c->log);
	free(c);
}

/* The text: the file's, and the command line's after it; to be freed. */
char *config_text(const struct options *o)
{
	char *text = NULL, *both = NULL;
	size_t capacity = 0;
	FILE *in;

	if (!o->file)
		return asprintf(&both, GIVEN "\n%s", o->text) < 0 ? NULL : both;
	in = fopen(o->file, "re");
	if (!in || getdelim(&text, &capacity, 0, in) < 0) {
		complain("%s: %s", o->file,
			 in && feof(in) ? "it is empty" : strerror(errno));
	} else if (asprintf(&both, "%s\n" GIVEN "\n%s", text,
			    o->text) < 0) {
		both = NULL;
	}
	if (in)
		fclose(in);
	free(text);
	return both;
}
