/* SPDX-License-Identifier: CC0-1.0 */
/*
 * What each core has: listeners, connections, buffers and a copy of the
 * configuration.  Other cores touch none of it; core 0 says what is to be done
 * by posts.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "weir-proxy.h"

/* Its share of what all cores may have. */
bool core_is_full(const struct core *c)
{
	uint64_t n = c->proxy->n_cores, all = c->config->connections;

	if (all > c->proxy->conns_max)
		all = c->proxy->conns_max;
	return c->n_conns >= (all + n - 1) / n ||
	       c->n_conns >= CORE_CONNS_MAX;
}

/* What is in the new configuration too, keeps its socket. */
static void keep_or_close(struct core *c, const struct config *config)
{
	struct listener **at = &c->listeners, *l;
	struct listen *listen;

	while ((l = *at)) {
		listen = config_listen(config, l->name);
		if (listen) {
			l->listen = listen;
			at = &l->next;
			continue;
		}
		*at = l->next;
		listener_close(l);
	}
}

/* @config is in force from here on; connections keep what they have. */
void core_take(struct core *c, struct config *config)
{
	struct config *old = c->config;
	struct listener *l;
	struct listen *listen;

	c->config = config;
	config_begin(config, old);
	keep_or_close(c, config);
	for (listen = config->listens; listen; listen = listen->next)
		if (listen->fd >= 0 && listener_create(c, listen))
			complain("%s: no memory to listen", listen->name);
	for (l = c->listeners; l; l = l->next)
		listener_go_on(l); /* There may be capacity now. */
	if (old)
		config_retire(old);
	config_put(old);
}

void core_take_post(void *arg)
{
	struct config *config = arg;

	if (config->core->draining)
		config_put(config);
	else
		core_take(config->core, config);
}

static void check_drained(struct core *c)
{
	int err;

	if (!c->draining || c->drained || c->n_conns || c->n_listeners)
		return;
	err = weir_post(weir_group_reactor(c->proxy->group, 0),
			control_drained, c);
	c->drained = !err;
	if (err)
		weir_timer_start(c->again, weir_reactor_now(c->r) + WEIR_MSEC,
				 0);
}

/* Core 0 had no space for the post. */
static void on_again(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer, (void)n;
	check_drained(arg);
}

/* Start the listeners that waited for the addresses of a name. */
void core_names_known(struct core *c)
{
	struct listener *l;

	for (l = c->listeners; l; l = l->next)
		listener_go_on(l);
}

/* There is capacity for another, or no client is left. */
void core_left(struct core *c)
{
	core_names_known(c);
	check_drained(c);
}

static void close_listeners(struct core *c)
{
	struct listener *l;

	while ((l = c->listeners)) {
		c->listeners = l->next;
		listener_close(l);
	}
}

static void end_conns(struct core *c)
{
	struct conn *conn, *next;

	for (conn = c->conns; conn; conn = next) {
		next = conn->next;
		conn_end(conn, END_STOPPED);
		conn_check(conn);
	}
}

/* Take no more; what is there goes on. */
void core_drain(void *arg)
{
	struct core *c = arg;

	c->draining = true;
	close_listeners(c);
	check_drained(c);
}

/* What is still there has had its time. */
void core_kill(void *arg)
{
	core_drain(arg);
	end_conns(arg);
}

int core_begin(struct weir_group *group, uint32_t index, void *arg)
{
	struct proxy *p = arg;
	struct core *c = &p->cores[index];
	int err;

	c->r = weir_group_reactor(group, index);
	c->buffer_size = (uint32_t)p->first[index]->buffer;
	c->log.records = calloc(LOG_RECORDS, sizeof(*c->log.records));
	if (!c->log.records)
		return -ENOMEM;
	err = weir_timer_create(&c->again, c->r, on_again, c);
	if (!err && !index)
		err = control_begin(p);
	if (err) {
		weir_timer_destroy(c->again);
		return err;
	}
	core_take(c, p->first[index]);
	p->first[index] = NULL;
	return 0;
}

/* The reactor has stopped: no operation is in flight. */
void core_end(struct weir_group *group, uint32_t index, void *arg)
{
	struct proxy *p = arg;
	struct core *c = &p->cores[index];

	(void)group;
	c->draining = c->drained = true;
	close_listeners(c);
	end_conns(c);
	buffers_free(c);
	pipes_free(c);
	if (c->config)
		config_retire(c->config);
	config_put(c->config);
	weir_timer_destroy(c->again);
	if (!index)
		control_end(p);
}
