/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The sockets of a configuration.  All that is new is opened before anything of
 * it is in force, so that a configuration that cannot be had changes nothing.
 *
 * Of a TCP address each core has a socket of its own (SO_REUSEPORT), and the
 * kernel spreads connections; of a UNIX name all have the same one.  The first
 * of the sockets is made without SO_REUSEPORT, and gets it then: so the address
 * of another proxy is refused, although that has SO_REUSEPORT, too.
 *
 * When the program starts, an address that is taken is waited for: the kernel
 * frees what a killed one had a little later.  A reload does not wait.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <weir/socket.h>

#include "../common/listen-unix.h"
#include "weir-proxy.h"

#define BACKLOG 4096

static const char *unix_path(const struct address *a)
{
	return ((const struct sockaddr_un *)&a->sa)->sun_path;
}

static int listen_at(int *fd, const struct address *a, mode_t mode, bool wait)
{
	if (a->sa.ss_family == AF_UNIX)
		return (wait ? listen_unix_wait : listen_unix)(
			fd, unix_path(a), mode, BACKLOG);
	return weir_listen(fd, (const struct sockaddr *)&a->sa, a->len,
			   BACKLOG, wait ? WEIR_LISTEN_WAIT : 0);
}

/* The socket of another core. */
static int listen_again(int *fd, const struct address *a, int first)
{
	int one = 1;

	if (a->sa.ss_family == AF_UNIX) {
		*fd = fcntl(first, F_DUPFD_CLOEXEC, 0);
		return *fd < 0 ? -errno : 0;
	}
	if (setsockopt(first, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)))
		return -errno;
	return weir_listen(fd, (const struct sockaddr *)&a->sa, a->len,
			   BACKLOG, WEIR_LISTEN_REUSEPORT);
}

/* The sockets of one address for each core; the lists have one order. */
static int open_one(struct proxy *p, struct listen **at, mode_t mode)
{
	bool is_unix = at[0]->addr.sa.ss_family == AF_UNIX;
	int err = listen_at(&at[0]->fd, &at[0]->addr, mode, !p->config);
	uint32_t i;

	for (i = 1; i < p->n_cores && !err; i++)
		err = listen_again(&at[i]->fd, &at[i]->addr, at[0]->fd);
	if (err)
		complain("%s: %s", at[0]->name,
			 is_unix ? strerror(-err) : weir_why());
	return err;
}

/* Remove names that were made just now. */
static void names_undo(const struct config *c)
{
	const struct listen *l;

	for (l = c->listens; l; l = l->next)
		if (l->addr.sa.ss_family == AF_UNIX && l->fd >= 0)
			unlink(unix_path(&l->addr));
}

static int open_all(struct proxy *p, struct config **each)
{
	struct listen **at = calloc(p->n_cores, sizeof(*at));
	uint32_t i;
	int err = at ? 0 : -ENOMEM;

	for (i = 0; !err && i < p->n_cores; i++)
		at[i] = each[i]->listens;
	while (!err && at[0]) {
		if (!p->config || !config_listen(p->config, at[0]->name))
			err = open_one(p, at, (mode_t)each[0]->unix_mode);
		for (i = 0; i < p->n_cores; i++)
			at[i] = at[i]->next;
	}
	free(at);
	return err;
}

void configs_close(struct proxy *p, struct config **each)
{
	uint32_t i;

	for (i = 0; each && i < p->n_cores; i++)
		config_put(each[i]);
	free(each);
}

static struct config **parse_all(struct proxy *p, const char *text,
				 const struct config *plan)
{
	struct config **each = calloc(p->n_cores, sizeof(*each));
	uint32_t i;

	for (i = 0; each && i < p->n_cores; i++) {
		each[i] = config_parse(text, plan);
		if (!each[i]) {
			configs_close(p, each);
			return NULL;
		}
		each[i]->core = &p->cores[i];
	}
	return each;
}

/*
 * Read the configuration: a copy for each core, with the sockets that are new,
 * and one in *@plan to compare with.  NULL: it is wrong; a message says why.
 */
struct config **configs_open(struct proxy *p, struct config **plan)
{
	struct config **each = NULL;
	char *text = config_text(&p->o);

	*plan = text ? config_parse(text, NULL) : NULL;
	if (*plan)
		each = parse_all(p, text, *plan);
	free(text);
	if (each && !open_all(p, each))
		return each;
	if (each) {
		names_undo(each[0]);
		configs_close(p, each);
	}
	config_put(*plan);
	*plan = NULL;
	return NULL;
}

/* Remove names of UNIX sockets that @old has and @now, if any, has not. */
void names_remove(const struct config *old, const struct config *now)
{
	const struct listen *l;

	for (l = old->listens; l; l = l->next)
		if (l->addr.sa.ss_family == AF_UNIX &&
		    (!now || !config_listen(now, l->name)))
			unlink(unix_path(&l->addr));
}
