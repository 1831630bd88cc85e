/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The source that asks servers: c-ares, whose sockets the reactor watches.
 *
 * Each lookup has a channel of its own.  c-ares can end only all queries of a
 * channel; with one lookup in it a cancel ends that lookup, at once, and closes its
 * sockets.  One channel for all would keep what was cancelled until it times out.
 * Channels are kept with their lookups, and made again when resolv.conf(5) has
 * changed.
 *
 * The sockets are made here, because c-ares would write to a TCP socket in a way
 * that raises SIGPIPE.
 */

#define CARES_NO_DEPRECATED
#include <ares.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "resolve/resolve.h"

/* A UDP and a TCP socket for each of so many servers; c-ares reads three from
 * resolv.conf(5), and a program may name more. */
#define SOCKETS_MAX 32
#define SEARCH_MAX 32
#define RESOLV_CONF "/etc/resolv.conf"

struct socket_watch {
	int fd;
	uint32_t events;
	struct weir_watch *watch;
};

/* .state of a lookup. */
struct channel {
	struct lookup *l;
	ares_channel ares;
	struct weir_timer *timer;
	struct socket_watch sockets[SOCKETS_MAX];
	struct timespec conf_time;	/* Of the resolv.conf that it has read. */
	ino_t conf_ino;
	int err;		/* A descriptor could not be made or watched. */
	bool busy;		/* c-ares has the lookup. */
	bool ended;		/* By us: what c-ares has found does not count. */
};

static void end(struct channel *ch, int err)
{
	ch->err = err;
	ch->ended = true;
	ares_cancel(ch->ares);
}

/* After each call of c-ares that may end the lookup. */
static void leave(struct channel *ch)
{
	struct timeval tv, *next;
	struct weir_resolver *v = ch->l->v;

	if (ch->busy && ch->err)
		end(ch, ch->err);
	if (!ch->busy) {
		weir_timer_stop(ch->timer);
		lookup_put(ch->l);
		return;
	}
	next = ares_timeout(ch->ares, NULL, &tv);
	if (next)
		weir_timer_start(ch->timer, weir_reactor_now(v->r) +
				 (uint64_t)tv.tv_sec * WEIR_SEC +
				 (uint64_t)tv.tv_usec * WEIR_USEC, 0);
}

static void on_timer(struct weir_timer *timer, uint64_t n, void *arg)
{
	struct channel *ch = arg;

	(void)timer, (void)n;
	if (!ch->busy)
		return;
	ares_process_fd(ch->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	leave(ch);
}

/* c-ares may close the socket, and so destroy the watch, in here. */
static void on_ready(struct weir_watch *watch, uint32_t events, void *arg)
{
	struct channel *ch = arg;
	const uint32_t failed = WEIR_HANGUP | WEIR_ERROR;
	int i = 0;

	while (i < SOCKETS_MAX && ch->sockets[i].watch != watch)
		i++;
	if (i == SOCKETS_MAX || !ch->busy)
		return;
	ares_process_fd(ch->ares, events & (WEIR_READABLE | failed) ?
			ch->sockets[i].fd : ARES_SOCKET_BAD,
			events & (WEIR_WRITABLE | failed) ?
			ch->sockets[i].fd : ARES_SOCKET_BAD);
	leave(ch);
}

/* Sockets. */

static struct socket_watch *find_socket(struct channel *ch, int fd)
{
	for (int i = 0; i < SOCKETS_MAX; i++)
		if (ch->sockets[i].fd == fd)
			return &ch->sockets[i];
	return NULL;
}

static ares_socket_t open_socket(int family, int type, int proto, void *arg)
{
	struct channel *ch = arg;
	struct socket_watch *s = find_socket(ch, -1);
	int fd = -1;

	errno = EMFILE;
	if (s)
		fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, proto);
	if (fd < 0) {
		/* A family that this machine has not is no fault of the lookup. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
		    errno == ENOMEM)
			ch->err = errno == EMFILE || errno == ENFILE ? -EMFILE :
								       -ENOMEM;
		return -1;
	}
	*s = (struct socket_watch){ .fd = fd };
	ch->l->v->stats.sockets++;
	return fd;
}

static int close_socket(ares_socket_t fd, void *arg)
{
	struct channel *ch = arg;
	struct socket_watch *s = find_socket(ch, fd);

	weir_watch_destroy(s->watch);
	*s = (struct socket_watch){ .fd = -1 };
	ch->l->v->stats.sockets--;
	return close(fd);
}

static int connect_socket(ares_socket_t fd, const struct sockaddr *addr,
			  ares_socklen_t len, void *arg)
{
	(void)arg;
	return connect(fd, addr, len);
}

static ares_ssize_t receive(ares_socket_t fd, void *buf, size_t len, int flags,
			    struct sockaddr *from, ares_socklen_t *from_len,
			    void *arg)
{
	(void)arg;
	return recvfrom(fd, buf, len, flags, from, from_len);
}

static ares_ssize_t send_vector(ares_socket_t fd, const struct iovec *iov, int n,
				void *arg)
{
	struct msghdr msg = {
		.msg_iov = (struct iovec *)(uintptr_t)iov,
		.msg_iovlen = (size_t)n,
	};

	(void)arg;
	return sendmsg(fd, &msg, MSG_NOSIGNAL);
}

static const struct ares_socket_functions socket_functions = {
	.asocket = open_socket, .aclose = close_socket,
	.aconnect = connect_socket, .arecvfrom = receive,
	.asendv = send_vector,
};

/* c-ares waits for @fd to be readable or writable, or is about to close it. */
static void on_interest(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct channel *ch = arg;
	struct socket_watch *s = find_socket(ch, fd);
	uint32_t events = (readable ? WEIR_READABLE : 0u) |
			  (writable ? WEIR_WRITABLE : 0u);
	int err = 0;

	if (!s || events == s->events)
		return;
	s->events = events;
	if (s->watch)
		err = weir_watch_set(s->watch, events);
	else if (events)
		err = weir_watch_create(&s->watch, ch->l->v->r, fd, events,
					on_ready, ch);
	if (err)
		ch->err = err;
}

/* Channels. */

static void channel_free(struct channel *ch)
{
	if (ch->ares)
		ares_destroy(ch->ares);
	weir_timer_destroy(ch->timer);
	free(ch);
}

static int errno_of(int status)
{
	switch (status) {
	case ARES_SUCCESS:
		return 0;
	case ARES_ENOTFOUND:
		return -ENOENT;
	case ARES_ENODATA:
		return -ENODATA;
	case ARES_ETIMEOUT:
		return -ETIMEDOUT;
	case ARES_ENOMEM:
		return -ENOMEM;
	case ARES_ECANCELLED:
	case ARES_EDESTRUCTION:
		return -ECANCELED;
	default:
		return -EREMOTEIO;
	}
}

/* Splits @text at blanks; returns how many words there are. */
static int split(char *text, char **words, int max)
{
	char *save, *word;
	int n = 0;

	for (word = strtok_r(text, " \t", &save); word && n < max;
	     word = strtok_r(NULL, " \t", &save))
		words[n++] = word;
	return n;
}

static int ares_make(ares_channel *ret, struct weir_resolver *v,
		     struct channel *ch)
{
	char *domains[SEARCH_MAX], *search = NULL;
	struct ares_options o = {
		.sock_state_cb = on_interest, .sock_state_cb_data = ch,
	};
	int mask = ARES_OPT_SOCK_STATE_CB, status;

	if (v->timeout_ns) {
		o.timeout = (int)(v->timeout_ns / WEIR_MSEC);
		mask |= ARES_OPT_TIMEOUTMS;
	}
	if (v->tries) {
		o.tries = (int)v->tries;
		mask |= ARES_OPT_TRIES;
	}
	if (v->search) {
		search = strdup(v->search);
		if (!search)
			return ARES_ENOMEM;
		o.domains = domains;
		o.ndomains = split(search, domains, SEARCH_MAX);
		mask |= ARES_OPT_DOMAINS;
	}
	status = ares_init_options(ret, &o, mask);
	free(search);
	if (status)
		return status;
	if (v->servers)
		status = ares_set_servers_ports_csv(*ret, v->servers);
	if (status)
		ares_destroy(*ret);
	return status;
}

static bool is_current(const struct channel *ch, const struct stat *conf)
{
	return ch->conf_ino == conf->st_ino &&
	       ch->conf_time.tv_sec == conf->st_mtim.tv_sec &&
	       ch->conf_time.tv_nsec == conf->st_mtim.tv_nsec;
}

/* The channel of @l, which has read the present resolv.conf.  0 or an errno. */
static int channel_of(struct lookup *l)
{
	struct channel *ch = l->state;
	struct stat conf = { 0 };
	int status;

	if (!l->v->servers || !l->v->search)
		(void)stat(RESOLV_CONF, &conf);
	if (ch && is_current(ch, &conf))
		return 0;
	if (ch)
		channel_free(ch);
	l->state = NULL;
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return -ENOMEM;
	ch->l = l;
	ch->conf_ino = conf.st_ino;
	ch->conf_time = conf.st_mtim;
	for (int i = 0; i < SOCKETS_MAX; i++)
		ch->sockets[i].fd = -1;
	if (weir_timer_create(&ch->timer, l->v->r, on_timer, ch)) {
		free(ch);
		return -ENOMEM;
	}
	status = ares_make(&ch->ares, l->v, ch);
	if (status) {
		ch->ares = NULL;
		channel_free(ch);
		return errno_of(status);
	}
	ares_set_socket_functions(ch->ares, &socket_functions, ch);
	l->state = ch;
	return 0;
}

/* "localhost" and names that end so, with a dot or without, which are this machine by
 * RFC 6761. */
static bool is_localhost(const char *name)
{
	static const char local[] = "localhost";
	size_t len = strlen(name), n = sizeof(local) - 1;

	len -= len && name[len - 1] == '.';
	return len >= n && !strncasecmp(name + len - n, local, n) &&
	       (len == n || name[len - n - 1] == '.');
}

/* What no hosts file says of it. */
static void add_loopback(struct lookup *l)
{
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	found_add(&l->found, l->q.family == AF_INET6 ? (void *)&in6 :
		  (void *)&in, 0, l->q.port);
}

static void on_answer(void *arg, int status, int timeouts,
		      struct ares_addrinfo *res)
{
	struct channel *ch = arg;
	struct lookup *l = ch->l;
	int err = errno_of(status);

	(void)timeouts;
	for (struct ares_addrinfo_node *i = err || !res ? NULL : res->nodes; i;
	     i = i->ai_next)
		if (!l->q.family || i->ai_family == l->q.family)
			found_add(&l->found, i->ai_addr, i->ai_ttl < 0 ? 0 :
				  (uint32_t)i->ai_ttl, l->q.port);
	ares_freeaddrinfo(res);
	if ((!err || err == -ENOENT) && !l->found.n && is_localhost(l->q.name)) {
		add_loopback(l);
		err = 0;
	}
	sort_addresses(&l->found);
	ch->busy = false;
	lookup_end(l, ch->err && (err || ch->ended) ? ch->err : err);
}

static void start(struct lookup *l)
{
	struct ares_addrinfo_hints hints = {
		.ai_flags = ARES_AI_NOSORT, .ai_family = l->q.family,
		.ai_socktype = SOCK_STREAM,
	};
	int err = channel_of(l);
	struct channel *ch = l->state;
	const char *name = l->q.name;
	char plain[sizeof(l->q.name)];

	if (err) {
		lookup_end(l, err);
		lookup_put(l);
		return;
	}
	ch->err = 0;
	ch->busy = true;
	ch->ended = false;
	/* c-ares 1.18 leaks the name if the hosts file has an address of the other
	 * family only; and with a dot it asks servers. */
	if (is_localhost(l->q.name)) {
		hints.ai_family = AF_UNSPEC;
		snprintf(plain, sizeof(plain), "%s", name);
		if (plain[strlen(plain) - 1] == '.')
			plain[strlen(plain) - 1] = 0;
		name = plain;
	}
	ares_getaddrinfo(ch->ares, name, NULL, &hints, on_answer, ch);
	leave(ch);
}

static void cancel(struct lookup *l)
{
	struct channel *ch = l->state;

	end(ch, -ECANCELED);
	leave(ch);
}

static void fini(struct lookup *l)
{
	if (l->state)
		channel_free(l->state);
}

static char library_name[32] = "c-ares ";

static void library_init(void)
{
	(void)ares_library_init(ARES_LIB_INIT_ALL);
	strncat(library_name, ares_version(NULL), 16);
}

static const char *name(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, library_init);
	return library_name;
}

/* What c-ares makes of the options, once, so that bad ones are refused. */
static int init(struct weir_resolver *v, const char *call)
{
	ares_channel trial;
	int status;

	(void)name(); /* The library is initialized. */
	status = ares_make(&trial, v, NULL);
	if (!status)
		ares_destroy(trial);
	if (status == ARES_ENOMEM)
		return weir_why_set(-ENOMEM, "%s: no memory", call);
	if (status)
		return weir_why_set(-EINVAL, "%s: c-ares refuses the servers, or "
				    RESOLV_CONF ": %s", call,
				    ares_strerror(status));
	return 0;
}

const struct source source_cares = {
	.name = name, .init = init, .start = start, .cancel = cancel,
	.fini = fini,
};
