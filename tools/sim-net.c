/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Scenario: connections between hosts "a" and "b", whose bytes both ends know,
 * through resets, partitions, power cuts and cancels. sim-net-end.c has the
 * code of an end.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include <weir/socket.h>
#include <weir/sim/socket.h>

#include "sim-net.h"

static void accept_next(struct pair *pair);

static void accept_end(struct task *task, int64_t res)
{
	struct pair *pair = task->op.data;
	struct run *run = pair->program->run;

	if (res >= 0)
		net_end_create(pair, false, (int)res);
	else
		must(run->trial->faults || task_was_ended(task, res),
		     "nothing fails without a cause", "an accept: %lld",
		     (long long)res);
	if (pair->program->ends || !pair->program->closing)
		accept_next(pair);
}

static void accept_next(struct pair *pair)
{
	struct task *task = &pair->accept;

	task_init(task, pair->program->run, "accept", accept_end);
	task->ends_at_once = true;
	task->op.data = pair;
	task_began(task, weir_accept(pair->program->server, &task->op,
				     pair->listener, NULL, NULL, 0));
}

static void connect_one(struct pair *pair)
{
	char name[16];
	int fd, err;

	err = weir_sim_socket(pair->program->run->sim, &fd, "a");
	must(!err, "a socket can be made", "%d: %s", err, weir_why());
	snprintf(name, sizeof(name), "b:%u", pair->id);
	pair->epoch = ++pair->program->epochs;
	pair->up = pair->down = (struct flow){ 0 };
	pair->is_known = false;
	pair->client = net_end_create(pair, true, fd);
	net_end_connect(pair->client, name);
}

/* Called outside the loop: connect pairs that are not, and disturb. */
static void act(void *program)
{
	struct program *p = program;
	struct run *run = p->run;
	struct pair *pair = &p->pairs[rnd(run, PAIRS)];

	if (!pair->accept.is_under_way)
		accept_next(pair);
	if (!pair->client && budget_take(run)) {
		connect_one(pair);
	} else if (pair->client && one_in(run, 3)) {
		net_end_disturb(pair->client);
	}
	if (!run->trial->faults || !one_in(run, 20))
		return;
	if (one_in(run, 4))
		weir_sim_power_cut(run->sim, "a");
	else
		weir_sim_partition(run->sim, "a", "b", one_in(run, 2));
}

/* Few receive buffers, but capacity for all operations that may wait for
 * ever. */
static void make_two(struct run *run)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	int err = 0;

	opts.sim = run->sim;
	for (unsigned int i = 0; !err && i < 2; i++) {
		opts.ops_max = 4 * PAIRS + rnd(run, 40);
		opts.turn_max = one_in(run, 2) ? 1 + rnd(run, 20) : 0;
		opts.rx_bufs = 1u << rnd(run, 5);
		opts.rx_buf_size = 64 + rnd(run, 4000);
		err = weir_reactor_create(&run->reactors[i], &opts);
		run->n_reactors += !err;
	}
	must(!err, "a reactor can be made", "%d: %s", err, weir_why());
}

static void set_up(struct program *p)
{
	char name[16];
	int err;

	make_two(p->run);
	p->client = p->run->reactors[0];
	p->server = p->run->reactors[1];
	for (unsigned int i = 0; i < PAIRS; i++) {
		struct pair *pair = &p->pairs[i];

		pair->program = p;
		pair->id = i;
		snprintf(name, sizeof(name), "b:%u", i);
		err = weir_sim_listen(p->run->sim, &pair->listener, name,
				      1 + (int)rnd(p->run, 4));
		must(!err, "one can listen", "%d: %s", err, weir_why());
		accept_next(pair);
	}
}

/* When all ends are closed, nothing is left to wait for. */
static bool is_done(struct run *run)
{
	struct program *p = run->program;

	net_ends_go_on(p);
	for (unsigned int i = 0; p->ends && i < PAIRS; i++)
		if (!p->pairs[i].accept.is_under_way)
			accept_next(&p->pairs[i]);
	if (p->ends)
		return false;
	p->closing = true;
	for (unsigned int i = 0; i < PAIRS; i++)
		if (p->pairs[i].accept.is_under_way &&
		    !p->pairs[i].accept.may_be_cancelled)
			task_cancel(&p->pairs[i].accept);
	return true;
}

static void run_net(struct weir_sim_trial *trial)
{
	struct run *run = run_begin(trial);
	static struct program p;

	program_begin(run, &p, sizeof(p));
	p.run = run;
	set_up(&p);
	run_budget(run, 50, 200, act);
	weir_sim_partition(run->sim, "a", "b", 0);
	run_to_end(run, WEIR_SEC, is_done);
	end_reactors(run);
}

const struct weir_sim_scenario scenario_net = {
	.size = sizeof(scenario_net),
	.name = "net",
	.what = "connections through resets, partitions and power cuts",
	.run = run_net,
	.faults = WEIR_SIM_ALL_FAULTS,
	.ops = 30,
};
