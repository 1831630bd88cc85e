/* SPDX-License-Identifier: CC0-1.0 */

/*
 * The replicated log in simulated worlds, each with its own bad luck.
 *
 *	23-replicated-log		300 seeds
 *	23-replicated-log SEED		one, with all that happens
 *
 * However power and connections fail, a record that was acknowledged is on two
 * disks of three; and when all is well again, all of them are everywhere.
 */
#ifdef WITHOUT_FSYNC			/* What if somebody forgets it? */
#include <weir/file.h>
#define weir_fsync(r, op, fd, flags) weir_nop(r, op)
#endif
#include "23-replicated-log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include <weir/sim-file.h>
#include <weir/sim-socket.h>

#define SEEDS 300
#define NODES 3			/* The first is the leader. */

/* A name begins with a host, for power cuts and partitions. */
static const char *const hosts[] = { "a/", "b/", "c/" };
static const char *const files[] = { "a/log", "b/log", "c/log" };
static const struct sockaddr_un ports[] = {
	{ AF_UNIX, "a/port" }, { AF_UNIX, "b/port" }, { AF_UNIX, "c/port" },
};

static struct weir_sim *sim;
static uint64_t seed;
static struct node nodes[NODES];
static struct record acked[LOG_MAX];	/* What the client relies on. */
static uint64_t n_acked;

static void fail(const char *what, uint64_t number)
{
	printf("seed %llu: record %llu %s\n", (unsigned long long)seed,
	       (unsigned long long)number, what);
	exit(1);
}

/* The test's own calls, which no fault reaches. */
static void must(int err)
{
	if (err < 0)
		fail(weir_why(), 0);
}

/* The client appends the next as soon as one is acknowledged. */
static void on_ack(struct node *n, const struct record *rec)
{
	weir_sim_note(sim, "acknowledged", rec->number);
	if (rec->number > n_acked)
		acked[n_acked++] = *rec;
	else if (rec->value != acked[rec->number - 1].value)
		fail("is another one now", rec->number);
	log_append(n, weir_sim_random(sim));
}

static void dial(struct link *l, struct weir_op *op)
{
	const struct sockaddr_un *to = &ports[1 + (l - l->node->links)];

	must(weir_sim_socket(sim, &l->fd, hosts[0]));
	weir_connect(l->node->r, op, l->fd, (const struct sockaddr *)to,
		     sizeof(*to));
}

static void start(int i)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts), .sim = sim,
					  .drain_ms = 3600000 };
	struct node *n = &nodes[i];

	*n = (struct node){ .dial = i ? NULL : dial, .on_ack = on_ack };
	must(weir_reactor_create(&n->r, &opts));
	must(n->file = weir_sim_file_open(sim, files[i], O_RDWR, 0));
	must(weir_sim_listen(sim, &n->listener, ports[i].sun_path, 16));
	node_start(n, weir_sim_file_read(sim, files[i], n->log,
					 sizeof(n->log), 0));
}

static void stop(int i)
{
	must(weir_reactor_destroy(nodes[i].r));
	must(weir_sim_close(nodes[i].file));
	must(weir_sim_close(nodes[i].listener));
}

static void check(void)
{
	struct record rec;
	int64_t got;

	for (uint64_t k = 0; k < n_acked; k++) {
		int disks = 0;

		for (int i = 0; i < NODES; i++) {
			got = weir_sim_file_read(sim, files[i], &rec,
						 sizeof(rec), k * sizeof(rec));
			disks += got == sizeof(rec) &&
				 !memcmp(&rec, &acked[k], sizeof(rec));
		}
		if (disks < 2)
			fail("was acknowledged, and is lost", k + 1);
	}
}

/* Somewhere, or with "" everywhere.  Then it comes back. */
static void power_cut(const char *where)
{
	weir_sim_power_cut(sim, where);
	check();
	for (int i = 0; i < NODES; i++) {
		if (strncmp(hosts[i], where, strlen(where)))
			continue;
		stop(i);
		start(i);
	}
}

static void go_on_for_a_while(void)
{
	uint64_t dice = weir_sim_random(sim) % 8;
	const char *other = hosts[1 + dice % 2];

	log_append(&nodes[0], weir_sim_random(sim));
	weir_sim_run(sim, weir_sim_random(sim) % (5 * WEIR_MSEC), 0);
	if (dice < 3)
		power_cut(hosts[dice]);
	else if (dice == 3)
		power_cut("");
	else
		weir_sim_partition(sim, hosts[0], other, dice > 5);
}

/* Then it must go on, and catch up. */
static void all_is_well_again(void)
{
	if (seed % 4)			/* Others have none: see run(). */
		weir_sim_set_faults(sim, 0);
	for (int i = 1; i < NODES; i++)
		weir_sim_partition(sim, hosts[0], hosts[i], 0);
	power_cut("");
	log_append(&nodes[0], weir_sim_random(sim));
	weir_sim_run(sim, WEIR_MSEC, 0);
	power_cut(hosts[1]);		/* Do the others notice? */
	weir_sim_run(sim, 10 * WEIR_SEC, 0);
	check();
	for (int i = 0; i < NODES; i++)
		if (n_acked < LOG_MAX || nodes[i].count < LOG_MAX)
			fail("is the last that is everywhere", nodes[i].count);
}

static void print_line(const char *line, void *arg)
{
	(void)arg;
	puts(line);
}

static void run(int with_trace)
{
	struct weir_sim_opts opts = { .size = sizeof(opts),
				      .flags = WEIR_SIM_SWARM };

	/* If all faults are taken away, who was silent answers again.  So some
	 * worlds have no more than what is done in here. */
	opts.faults = seed % 4 ? WEIR_SIM_ALL_FAULTS : 0;
	opts.trace = with_trace ? print_line : NULL;
	must(weir_sim_create(&sim, seed, &opts));
	n_acked = 0;
	for (int i = 0; i < NODES; i++) {
		must((int)weir_sim_file_write(sim, files[i], "", 0, 0));
		start(i);
	}
	for (int i = 0; i < 40; i++)
		go_on_for_a_while();
	all_is_well_again();
	for (int i = 0; i < NODES; i++)
		stop(i);
	must(weir_sim_destroy(sim));
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		seed = strtoull(argv[1], NULL, 10);
		run(1);
		return 0;
	}
	for (seed = 1; seed <= SEEDS; seed++)
		run(0);
	printf("%d seeds, and no acknowledged record was lost\n", SEEDS);
	return 0;
}
