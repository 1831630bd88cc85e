/* SPDX-License-Identifier: CC0-1.0 */
/*
 * What the program is told, on core 0: SIGHUP reads the configuration again,
 * SIGTERM drains, SIGINT (or a second SIGTERM) stops.
 */
#include <signal.h>
#include <stdlib.h>

#include "weir-proxy.h"

static struct weir_reactor *reactor(const struct proxy *p, uint32_t core)
{
	return weir_group_reactor(p->group, core);
}

static void tell_all(struct proxy *p, void (*fn)(void *arg))
{
	uint32_t i;

	for (i = 0; i < p->n_cores; i++)
		if (weir_post(reactor(p, i), fn, &p->cores[i]))
			complain("core %u does not listen", i);
}

/* ---- reload ---- */

static void hand_out(struct proxy *p, struct config **each)
{
	uint32_t i;

	for (i = 0; i < p->n_cores; i++) {
		if (weir_post(reactor(p, i), core_take_post, each[i]))
			complain("core %u keeps its configuration", i);
		else
			each[i] = NULL;
	}
	configs_close(p, each);
}

static void reload(struct proxy *p)
{
	struct config *plan;
	struct config **each = configs_open(p, &plan);

	if (!each) {
		complain("the configuration stays as it was");
		return;
	}
	names_remove(p->config, plan);
	config_put(p->config);
	p->config = plan;
	log_open(&p->log, plan->log);
	hand_out(p, each);
}

/* ---- drain and stop ---- */

/* Once: from then on the names may be another's. */
static void withdraw(struct proxy *p)
{
	if (!p->draining)
		names_remove(p->config, NULL);
	p->draining = true;
}

static void stop(struct proxy *p)
{
	withdraw(p);
	tell_all(p, core_kill);
}

static void on_drain_over(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer, (void)n;
	stop(arg);
}

static void drain(struct proxy *p)
{
	uint64_t now = weir_reactor_now(reactor(p, 0));

	withdraw(p);
	weir_timer_start(p->drain, now + p->config->drain_ns, 0);
	tell_all(p, core_drain);
}

/* A core has nothing left; the last one turns off the light. */
void control_drained(void *arg)
{
	struct proxy *p = ((struct core *)arg)->proxy;

	if (++p->n_drained < p->n_cores)
		return;
	log_leave(&p->log);
	weir_group_stop(p->group);
}

static void on_signal(struct weir_signal *signal,
		      const struct signalfd_siginfo *info, void *arg)
{
	struct proxy *p = arg;

	(void)signal;
	if (info->ssi_signo == SIGHUP && !p->draining)
		reload(p);
	else if (info->ssi_signo == SIGTERM && !p->draining)
		drain(p);
	else if (info->ssi_signo != SIGHUP)
		stop(p);
}

int control_begin(struct proxy *p)
{
	static const int numbers[] = { SIGHUP, SIGTERM, SIGINT };
	struct weir_reactor *r = reactor(p, 0);
	int i, err = weir_timer_create(&p->drain, r, on_drain_over, p);

	for (i = 0; i < 3 && !err; i++)
		err = weir_signal_create(&p->signals[i], r, numbers[i],
					 on_signal, p);
	if (err)
		control_end(p);
	return err;
}

void control_end(struct proxy *p)
{
	int i;

	for (i = 0; i < 3; i++)
		weir_signal_destroy(p->signals[i]);
	weir_timer_destroy(p->drain);
}
