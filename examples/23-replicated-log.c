/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A log on two hosts, and its test in simulated worlds.
 *
 *	23-replicated-log			100 seeds
 *	23-replicated-log --seeds 1000 log	more
 *	23-replicated-log --seeds 200 torn	a bug, which some seed finds
 *	23-replicated-log --list		all of them
 *
 * The client sends records to the primary.  The primary lets the backup store
 * each, stores it itself, and acknowledges it.  However hosts fail, an
 * acknowledged record is on both disks, once; and when all is well, the log
 * goes on.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/un.h>

#include <weir/file.h>
#include <weir/reactor.h>
#include <weir/sim/file.h>
#include <weir/sim/host.h>
#include <weir/sim/runner.h>
#include <weir/sim/socket.h>
#include <weir/socket.h>
#include <weir/timer.h>

/* Mistakes that one can make. */
enum bug { NONE, EARLY_ACK, TORN, TWICE, NO_DIRECTORY, SYNC_AGAIN };
static enum bug bug;

/* The program.  It knows nothing of worlds: its main() gives it an env. */

struct env {
	struct weir_reactor *r;
	int listener;
	int (*socket)(void *arg);	/* Make one, as socket(2). */
	void (*quit)(void *arg);	/* As exit(3). */
	void (*acked)(void *arg, uint64_t id);	/* The client's. */
	void *arg;
};

#define LEN ((int)sizeof(struct record))

struct record {
	uint64_t number;		/* Its place in the log, from 0. */
	uint64_t id;			/* The client's, from 1. */
	char text[1000];		/* Two sectors: one may be missing. */
	uint64_t check;			/* ~id */
};

/*
 * What a node does: once, and then the rest again and again.  If a step on the
 * network fails, it goes on at HANG_UP.  If one on the disk fails, it quits: what
 * the disk has is then known only after a new start.
 */
enum step {
	OPEN_DIR, OPEN_LOG, SYNC_DIR, LOAD, WRITE_LAST, SYNC_LAST,
	ACCEPT, RECEIVE, CALL, FORWARD, ANSWER, WRITE, SYNC, REPLY,
	SEND, CONFIRM, HANG_UP, CLOSE, PAUSE, AGAIN,
};
static const enum step
	primary[] = { OPEN_DIR, OPEN_LOG, SYNC_DIR, LOAD, WRITE_LAST, SYNC_LAST,
		      ACCEPT, RECEIVE, CALL, FORWARD, ANSWER, WRITE, SYNC,
		      REPLY, HANG_UP, CLOSE, AGAIN },
	backup[] = { OPEN_DIR, OPEN_LOG, SYNC_DIR, LOAD, WRITE_LAST, SYNC_LAST,
		     ACCEPT, RECEIVE, WRITE, SYNC, REPLY, HANG_UP, CLOSE,
		     AGAIN },
	early[] = { OPEN_DIR, OPEN_LOG, SYNC_DIR, LOAD, WRITE_LAST, SYNC_LAST,
		    ACCEPT, RECEIVE, WRITE, REPLY, SYNC, HANG_UP, CLOSE,
		    AGAIN },
	client[] = { CALL, SEND, CONFIRM, HANG_UP, PAUSE, AGAIN };

struct node {
	struct weir_op op;
	struct env env;
	const enum step *steps, *step;
	enum step first;		/* After AGAIN. */
	struct sockaddr_un peer;	/* Whom it calls. */
	int dir, log, in, out;		/* Descriptors. */
	uint64_t count, last_id;	/* Of the log. */
	struct record rec, read;
};

static void go_to(struct node *n, enum step step)
{
	for (n->step = n->steps; *n->step != step; n->step++)
		;
}

static bool is_whole(const struct record *rec, uint64_t number)
{
	return rec->number == number && rec->check == ~rec->id;
}

/* Only a reactor that stops refuses an operation: then it is over. */
static int begin(struct node *n)
{
	struct weir_reactor *r = n->env.r;
	struct weir_op *op = &n->op;
	uint64_t end = n->count * LEN;

	if (*n->step >= RECEIVE && *n->step <= CONFIRM &&
	    *n->step != WRITE && *n->step != SYNC)
		weir_op_set_deadline(op, weir_reactor_now(r) + WEIR_SEC);
	switch (*n->step) {
	case OPEN_DIR:
		return weir_open(r, op, AT_FDCWD, "/", O_RDONLY | O_DIRECTORY,
				 0);
	case OPEN_LOG:
		return weir_open(r, op, n->dir, "log", O_RDWR | O_CREAT, 0644);
	case SYNC_DIR:
		return bug == NO_DIRECTORY ? weir_nop(r, op) :
					     weir_fsync(r, op, n->dir, 0);
	case LOAD:
		return weir_read(r, op, n->log, &n->read, LEN, end);
	case WRITE_LAST:	/* It may be in the cache only. */
		return n->count ? weir_write(r, op, n->log, &n->rec, LEN,
					     end - LEN) : weir_nop(r, op);
	case ACCEPT:
		return weir_accept(r, op, n->env.listener, NULL, NULL, 0);
	case RECEIVE:
		return weir_recv(r, op, n->in, &n->rec, LEN, WEIR_SOCK_ALL);
	case CALL:
		n->out = n->env.socket(n->env.arg);
		return weir_connect(r, op, n->out, (void *)&n->peer,
				    sizeof(n->peer));
	case FORWARD:
		n->rec.number = n->count;
		return weir_send(r, op, n->out, &n->rec, LEN, 0);
	case SEND:
		n->rec = (struct record){ .id = n->last_id + 1 };
		n->rec.check = ~n->rec.id;
		return weir_send(r, op, n->out, &n->rec, LEN, 0);
	case ANSWER:
	case CONFIRM:
		return weir_recv(r, op, n->out, &n->read, LEN, WEIR_SOCK_ALL);
	case WRITE:
		return weir_write(r, op, n->log, &n->rec, LEN,
				  n->rec.number * LEN);
	case SYNC_LAST:
	case SYNC:
		return weir_fsync(r, op, n->log, 0);
	case REPLY:
		return weir_send(r, op, n->in, &n->rec, LEN, 0);
	case HANG_UP:
		return n->out >= 0 ? weir_close(r, op, n->out) :
				     weir_nop(r, op);
	case CLOSE:
		return n->in >= 0 ? weir_close(r, op, n->in) : weir_nop(r, op);
	default:
		return weir_sleep_until(r, op, weir_reactor_now(r) + WEIR_MSEC);
	}
}

/* A step on the disk has ended.  Returns false if the node quits. */
static bool disk_did(struct node *n, enum step step, int64_t res)
{
	bool syncs = step == SYNC || step == SYNC_LAST;

	if (res < 0 && bug == SYNC_AGAIN && syncs) {
		n->step--;		/* The next sync says that all is well. */
		return true;
	}
	if (res < 0 || ((step == WRITE) && res < LEN)) {
		n->env.quit(n->env.arg);
		return false;
	}
	if (step == OPEN_DIR)
		n->dir = (int)res;
	if (step == OPEN_LOG)
		n->log = (int)res;
	if (step == LOAD && res == LEN &&
	    (is_whole(&n->read, n->count) || bug == TORN)) {
		n->rec = n->read;
		n->last_id = n->rec.id;
		n->count++;
		n->step--;		/* The next one. */
	}
	if (step == SYNC && n->steps == primary) {
		n->last_id = n->rec.id;
		n->count++;
	}
	return true;
}

/* A step on the network has ended. */
static void network_did(struct node *n, enum step step, int64_t res)
{
	if (step == HANG_UP || step == CLOSE) {
		*(step == CLOSE ? &n->in : &n->out) = -1;
	} else if (res < 0 || ((step == RECEIVE || step == ANSWER ||
				step == CONFIRM) && res < LEN)) {
		go_to(n, HANG_UP);
	} else if (step == ACCEPT) {
		n->in = (int)res;
	} else if (step == RECEIVE && n->steps == primary &&
		   n->rec.id <= n->last_id && bug != TWICE) {
		go_to(n, REPLY);	/* A retry: it is in the log. */
	} else if (step == CONFIRM && n->read.id == n->rec.id) {
		n->last_id = n->rec.id;
		n->env.acked(n->env.arg, n->last_id);
	}
}

static void on_end(struct weir_op *op, int64_t res)
{
	struct node *n = weir_container_of(op, struct node, op);
	enum step step = *n->step++;

	if (step <= SYNC_LAST || step == WRITE || step == SYNC) {
		if (!disk_did(n, step, res))
			return;
	} else {
		network_did(n, step, res);
	}
	if (*n->step == AGAIN)
		go_to(n, n->first);
	begin(n);
}

static void run_node(struct node *n, const enum step *steps,
		     const char *peer)
{
	n->op.fn = on_end;
	n->steps = n->step = steps;
	n->first = steps == client ? CALL : ACCEPT;
	n->in = n->out = -1;
	n->peer.sun_family = AF_UNIX;
	for (int i = 0; peer[i]; i++)
		n->peer.sun_path[i] = peer[i];
	begin(n);
}

/* The set-up in a world, instead of main(). */

static const char *const names[] = { "a", "b", "client" };

struct machine {
	struct weir_sim_host *host;
	struct node *node;
	int number;			/* In names. */
	uint64_t acked;			/* Of the client. */
};

static int make_socket(void *arg)
{
	struct machine *m = arg;
	int fd = -1;

	weir_sim_socket(weir_sim_host_world(m->host), &fd, names[m->number]);
	return fd;
}

static void quit(void *arg)
{
	weir_sim_host_kill(((struct machine *)arg)->host);
}

static void acked(void *arg, uint64_t id)
{
	struct machine *m = arg;

	m->acked = id;
	weir_sim_note(weir_sim_host_world(m->host), "acknowledged", id);
}

static void start(struct weir_sim_host *host, void *arg)
{
	static const enum step *const steps[] = { primary, backup, client };
	static const char *const peers[] = { "b:1", "", "a:1" };
	struct machine *m = arg;
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct node *n = calloc(1, sizeof(*n));
	int i = m->number;

	opts.sim = weir_sim_host_world(host);
	m->node = n;
	n->env = (struct env){ .socket = make_socket, .quit = quit,
			       .acked = acked, .arg = m };
	weir_reactor_create(&n->env.r, &opts);
	if (i < 2)
		weir_sim_listen(opts.sim, &n->env.listener, i ? "b:1" : "a:1",
				4);
	run_node(n, i == 1 && bug == EARLY_ACK ? early : steps[i], peers[i]);
}

static void gone(void *arg)
{
	free(((struct machine *)arg)->node);
}

/* The rules. */
static void check(struct weir_sim *sim, const char *path, uint64_t n)
{
	struct record rec;
	uint64_t next = 1;

	for (uint64_t i = 0; weir_sim_file_read(sim, path, &rec, LEN,
						i * LEN) > 0; i++) {
		if (!is_whole(&rec, i))
			weir_sim_violation("the log is whole", "%s: record %d",
					   path, (int)i);
		if (rec.id != next++)
			weir_sim_violation("a record is in the log once",
					   "%s: record %d has the id %d", path,
					   (int)i, (int)rec.id);
	}
	if (next <= n)
		weir_sim_violation("an acknowledged record is in both logs",
				   "%s has %d of %d", path, (int)next - 1,
				   (int)n);
}

static void run(struct weir_sim_trial *trial)
{
	static struct machine m[3];	/* The world uses it to its end. */
	struct weir_sim *sim = trial->sim;

	bug = *(const enum bug *)trial->arg;
	for (int i = 0; i < 3; i++) {
		struct weir_sim_host_opts opts = {
			.size = sizeof(opts), .name = names[i],
			.start = start, .gone = gone, .arg = &m[i],
			.restart_ns = WEIR_MSEC,
			.flags = i == 2 ? WEIR_SIM_HOST_HEALTHY : 0,
		};

		m[i] = (struct machine){ .number = i };
		if (weir_sim_host_create(&m[i].host, sim, &opts) ||
		    weir_sim_host_start(m[i].host))
			weir_sim_violation("hosts begin", "%s", weir_why());
	}
	for (int i = 0; i < 5000 && m[2].acked < trial->ops; i++)
		weir_sim_run(sim, WEIR_MSEC, 0);
	weir_sim_set_faults(sim, 0);
	for (int i = 0; i < 200000 && m[2].acked < trial->ops; i++)
		weir_sim_run(sim, WEIR_MSEC, 0);
	if (m[2].acked < trial->ops)
		weir_sim_violation("the log goes on", "%d acknowledged",
				   (int)m[2].acked);
	weir_sim_host_kill(m[2].host);
	weir_sim_run(sim, WEIR_SEC, 0);
	check(sim, "a/log", m[2].acked);
	check(sim, "b/log", m[2].acked);
	trial->verified += 2 * m[2].acked * LEN;
}

#define SCENARIO(number, word, text) { \
	.size = sizeof(struct weir_sim_scenario), .name = word, .what = text, \
	.run = run, .arg = &(enum bug){ number }, .ops = 40, .hosts = "a,b" }

static const struct weir_sim_scenario all[] = {
	SCENARIO(NONE, "log", "as it should be"),
	SCENARIO(EARLY_ACK, "early-ack", "the backup answers before its fsync"),
	SCENARIO(TORN, "torn", "half a record is taken for one"),
	SCENARIO(TWICE, "twice", "a record that is sent again is stored again"),
	SCENARIO(NO_DIRECTORY, "no-directory", "no fsync of the directory"),
	SCENARIO(SYNC_AGAIN, "sync-again", "an fsync that fails is repeated"),
};

int main(int argc, char **argv)
{
	const struct weir_sim_scenario *const scenarios[] = {
		&all[0], &all[1], &all[2], &all[3], &all[4], &all[5], NULL
	};

	char log[] = "log", *deflt[] = { argv[0], log, NULL };

	return argc > 1 ? weir_sim_main(argc, argv, scenarios) :
			  weir_sim_main(2, deflt, scenarios);
}
