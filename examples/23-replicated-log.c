/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A log on two hosts, and its test in simulated worlds.
 *
 *	23-replicated-log		300 seeds
 *	23-replicated-log SEED		one, with all that happens
 *
 * The primary sends a record to the backup, which stores it and sends it back.
 * Then the primary stores it, too, and acknowledges it.  However power and
 * connections fail, it is on both disks; and once all is well, the log goes on.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

#include <weir/file.h>
#include <weir/reactor.h>
#include <weir/sim/file.h>
#include <weir/sim/socket.h>
#include <weir/socket.h>

#ifdef WITHOUT_FSYNC			/* The bug to find: no fsync. */
#define weir_fsync(r, op, fd, flags) weir_nop(r, op)
#endif

#define LEN ((int)sizeof(struct record))

struct record {
	uint64_t number;		/* From 0. */
	char text[1008];		/* Two sectors: one may be missing. */
	uint64_t check;			/* ~number */
};

/* What a node does, again and again; if a step fails it goes on at CLOSE. */
enum step { CONNECT, ACCEPT, SEND, RECEIVE, WRITE, SYNC, ACK, CLOSE };
static const enum step
	primary[] = { CONNECT, SEND, RECEIVE, WRITE, SYNC, ACK, CLOSE },
	backup[] = { ACCEPT, RECEIVE, WRITE, SYNC, SEND, CLOSE };

struct node {
	struct weir_op op;
	struct weir_reactor *r;
	const enum step *steps, *step;
	int file, listener, peer;
	uint64_t count;			/* Of the primary: on both disks. */
	struct record rec;
};

static struct weir_sim *sim;
static unsigned long long seed;
static const char *const hosts[] = { "a/", "b/", "" };	/* "": both. */
static const char *const files[] = { "a/log", "b/log" };
static const struct sockaddr_un port = { AF_UNIX, "b/port" };
static struct node nodes[2];
static uint64_t n_acked;		/* What the client relies on. */

/* Only a reactor that stops refuses an operation: then it is over. */
static int begin(struct node *n)
{
	struct weir_op *op = &n->op;
	uint64_t off = n->rec.number * LEN;

	weir_op_set_deadline(op, weir_reactor_now(n->r) + WEIR_SEC);
	switch (*n->step) {
	case CONNECT:
		n->rec = (struct record){ n->count, "text", ~n->count };
		weir_sim_socket(sim, &n->peer, hosts[0]);
		return weir_connect(n->r, op, n->peer, (const void *)&port,
				    sizeof(port));
	case ACCEPT:
		return weir_accept(n->r, op, n->listener, NULL, NULL, 0);
	case SEND:
		return weir_send(n->r, op, n->peer, &n->rec, LEN, 0);
	case RECEIVE:
		return weir_recv(n->r, op, n->peer, &n->rec, LEN,
				 WEIR_SOCK_ALL);
	case WRITE:
		return weir_write(n->r, op, n->file, &n->rec, LEN, off);
	case SYNC:
		return weir_fsync(n->r, op, n->file, 0);
	case ACK:
		weir_sim_note(sim, "acknowledged", n->count);
		n_acked = ++n->count;
		return weir_nop(n->r, op);
	default:
		return weir_close(n->r, op, n->peer);
	}
}

static void on_end(struct weir_op *op, int64_t res)
{
	struct node *n = weir_container_of(op, struct node, op);
	enum step step = *n->step++;

	if (step == ACCEPT)
		n->peer = (int)res;
	if (step == CLOSE)
		n->step = n->steps;
	else if (res < 0 || (step == RECEIVE && res < LEN))
		while (*n->step != CLOSE)
			n->step++;
	begin(n);
}

/* Go on after what is whole.  At the primary, that is at the backup, too. */
static void start(int i)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts), .sim = sim,
					  .drain_ms = 3600000 };
	struct node *n = &nodes[i];

	weir_reactor_destroy(n->r);
	*n = (struct node){ .op.fn = on_end, .steps = i ? backup : primary };
	n->step = n->steps;
	weir_reactor_create(&n->r, &opts);
	weir_sim_file_write(sim, files[i], "", 0, 0);	/* If there is none. */
	n->file = weir_sim_file_open(sim, files[i], O_RDWR, 0);
	if (i)
		weir_sim_listen(sim, &n->listener, port.sun_path, 16);
	while (weir_sim_pread(n->file, &n->rec, LEN, n->count * LEN) == LEN &&
	       n->rec.check == ~n->rec.number)
		n->count++;
	begin(n);
}

/* The test: at a host, or at both (2).  What was acknowledged must be there. */
static void power_cut(int where)
{
	struct record rec;

	weir_sim_power_cut(sim, hosts[where]);
	for (uint64_t i = 0; i < 2 * n_acked; i++)
		if (weir_sim_file_read(sim, files[i % 2], &rec, LEN,
				       i / 2 * LEN) < LEN ||
		    rec.number != i / 2 || rec.check != ~rec.number)
			errx(1, "seed %llu: acknowledged record %d is lost",
			     seed, (int)i / 2);
	for (int i = 0; i < 2; i++)
		if (where == i || where == 2)
			start(i);
	if (nodes[0].count < n_acked)
		errx(1, "seed %llu: the primary does not find all", seed);
}

static void print_line(const char *line, void *arg)
{
	(void)arg;
	fprintf(stderr, "%s\n", line);
}

static void run(int with_trace)
{
	struct weir_sim_opts opts = { .size = sizeof(opts),
				      .flags = WEIR_SIM_SWARM };
	uint64_t before, dice;

	/* A world that is healed answers for the silent: some are not. */
	opts.faults = seed % 4 ? WEIR_SIM_ALL_FAULTS : 0;
	opts.trace = with_trace ? print_line : NULL;
	weir_sim_create(&sim, seed, &opts);
	n_acked = 0;
	power_cut(2);
	for (int i = 0; i < 40; i++) {
		weir_sim_run(sim, weir_sim_random(sim) % (5 * WEIR_MSEC), 0);
		dice = weir_sim_random(sim) % 6;
		if (dice < 3)
			power_cut((int)dice);
		else
			weir_sim_partition(sim, "a/", "b/", dice == 3);
	}
	if (seed % 4)
		weir_sim_set_faults(sim, 0);
	weir_sim_partition(sim, "a/", "b/", 0);
	before = n_acked;
	weir_sim_run(sim, 10 * WEIR_SEC, 5000);
	power_cut(2);
	if (n_acked == before)
		errx(1, "seed %llu: the log does not go on", seed);
	for (int i = 0; i < 2; i++)
		weir_reactor_destroy(nodes[i].r);
	nodes[0].r = nodes[1].r = NULL;
	weir_sim_destroy(sim);
}

int main(int argc, char **argv)
{
	unsigned long long last = argc > 1 ? strtoull(argv[1], NULL, 10) : 300;

	for (seed = argc > 1 ? last : 1; seed <= last; seed++)
		run(argc > 1);
	puts("no acknowledged record was lost");
	return 0;
}
