/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages of 8 bytes between two processes on two CPUs: through a ring in
 * memory that one has exported and the other imported, with two sync events to
 * say how far each is; beside UCX's active messages over shared memory, as its
 * own ucx_perftest measures them.
 *
 * "latency" is half of a round trip with one message.  For "rate" the messages
 * go one way, and the sender says how far it is after every 32, as one does who
 * has more to send; UCX does likewise inside.  Both sides are reactors that
 * wait by operations.
 */

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/export.h>
#include <weir/mmap.h>
#include <weir/reactor.h>
#include <weir/sync.h>

#include "bench/bench.h"

#define SLOTS 1024
#define PUBLISH 32
#define RING 4096	/* Where the ring begins in a half. */
#define HALF ((size_t)RING + SLOTS * sizeof(uint64_t))

/* One direction: how many were put, how many taken, and the ring. */
struct lane {
	struct weir_sync *put, *taken;
	uint64_t *slot;
};

struct side {
	struct weir_mmap *mmap;
	struct weir_reactor *r;
	struct weir_op op;
	bool came;
	struct lane lane[2];
};

static void on_signal(struct weir_op *op, int64_t res)
{
	bench_must((int)res, "weir_sync_wait");
	weir_container_of(op, struct side, op)->came = true;
}

/* Wait until @sync is at least @value, and say what it is. */
static uint64_t wait_for(struct side *s, struct weir_sync *sync,
			 uint64_t value)
{
	uint64_t now;

	bench_must(weir_sync_get(sync, &now), "weir_sync_get");
	if (now >= value)
		return now;
	s->came = false;
	bench_must(weir_sync_wait(sync, s->r, &s->op, WEIR_SYNC_GE, value,
				  WEIR_SYNC_ALL), "weir_sync_wait");
	while (!s->came)
		bench_must(weir_reactor_turn(s->r, WEIR_FOREVER), "turn");
	bench_must(weir_sync_get(sync, &now), "weir_sync_get");
	return now;
}

static void send_one(struct side *s, int lane, uint64_t i)
{
	s->lane[lane].slot[i % SLOTS] = i;
	bench_must(weir_sync_set(s->lane[lane].put, i), "weir_sync_set");
}

static void take_one(struct side *s, int lane, uint64_t i)
{
	wait_for(s, s->lane[lane].put, i);
	if (s->lane[lane].slot[i % SLOTS] != i)
		bench_die("a message that was not sent", EBADMSG);
}

static void play(struct side *s, int mine, uint64_t n)
{
	for (uint64_t i = 1; i <= n; i++) {
		if (mine)
			take_one(s, 0, i);
		send_one(s, mine, i);
		if (!mine)
			take_one(s, 1, i);
	}
}

static void send_all(struct side *s, uint64_t n)
{
	struct lane *l = &s->lane[0];
	uint64_t taken = 0;

	for (uint64_t i = 1; i <= n; i++) {
		if (i - taken > SLOTS)
			taken = wait_for(s, l->taken, i - SLOTS);
		l->slot[i % SLOTS] = i;
		if (i % PUBLISH == 0 || i == n)
			bench_must(weir_sync_set(l->put, i), "weir_sync_set");
	}
	wait_for(s, l->taken, n);
}

static void take_all(struct side *s, uint64_t n)
{
	struct lane *l = &s->lane[0];
	uint64_t done = 0, put, sum = 0;

	while (done < n) {
		put = wait_for(s, l->put, done + 1);
		while (done < put) {
			done++;
			sum += l->slot[done % SLOTS] - done;
		}
		bench_must(weir_sync_set(l->taken, done), "weir_sync_set");
	}
	if (sum)
		bench_die("messages that were not sent", EBADMSG);
}

static void open_side(struct side *s)
{
	weir_op_init(&s->op, on_signal);
	bench_must(weir_reactor_create(&s->r, NULL), "weir_reactor_create");
}

static void close_side(struct side *s)
{
	for (int i = 0; i < 2; i++) {
		weir_sync_destroy(s->lane[i].put);
		weir_sync_destroy(s->lane[i].taken);
	}
	bench_must(weir_mmap_destroy(s->mmap), "weir_mmap_destroy");
	bench_must(weir_reactor_destroy(s->r), "weir_reactor_destroy");
}

/* Sync events at the beginning of each half, of the exporter's or opened. */
static void lay_out(struct side *s, bool exporter)
{
	char *base;
	size_t len;

	bench_must(weir_mmap_memrange(s->mmap, (void **)&base, &len),
		   "weir_mmap_memrange");
	for (uint64_t i = 0; i < 2; i++) {
		struct lane *l = &s->lane[i];
		uint64_t at = i * HALF;

		l->slot = (uint64_t *)(base + at + RING);
		if (exporter) {
			bench_must(weir_sync_create_in(&l->put, s->mmap, at,
						       NULL), "sync");
			bench_must(weir_sync_create_in(&l->taken, s->mmap,
						       at + 128, NULL), "sync");
			continue;
		}
		bench_must(weir_sync_open(&l->put, s->mmap, at),
			   "weir_sync_open");
		bench_must(weir_sync_open(&l->taken, s->mmap, at + 128),
			   "weir_sync_open");
	}
}

static void export(struct side *s, struct weir_export_desc *desc)
{
	desc->size = sizeof(*desc);
	bench_must(weir_mmap_create(&s->mmap, NULL), "weir_mmap_create");
	bench_must(weir_mmap_alloc(s->mmap, 2 * HALF, WEIR_MMAP_ALLOC_MEMFD),
		   "weir_mmap_alloc");
	bench_must(weir_mmap_set_permissions(s->mmap, WEIR_MMAP_WRITE |
					     WEIR_MMAP_PEER_WRITE),
		   "weir_mmap_set_permissions");
	bench_must(weir_mmap_start(s->mmap), "weir_mmap_start");
	bench_must(weir_mmap_export(s->mmap, NULL, desc), "weir_mmap_export");
	lay_out(s, true);
}

static void other_process(const struct weir_export_desc *d, uint64_t n,
			  bool rate)
{
	struct side s = { 0 };

	bench_pin(1);
	bench_must(weir_mmap_import(&s.mmap, d->bytes, d->len, d->fds,
				    d->n_fds, NULL), "weir_mmap_import");
	lay_out(&s, false);
	open_side(&s);
	if (rate)
		take_all(&s, n);
	else
		play(&s, 1, n);
	close_side(&s);
	_exit(0);
}

/* Nanoseconds for a message. */
static double measure(uint64_t n, bool rate)
{
	struct weir_export_desc desc;
	struct side s = { 0 };
	uint64_t begun;
	int status;
	pid_t pid;

	export(&s, &desc);
	pid = fork();
	if (pid < 0)
		bench_die("fork", errno);
	if (!pid)
		other_process(&desc, n, rate);
	open_side(&s);
	begun = bench_wall_ns();
	if (rate)
		send_all(&s, n);
	else
		play(&s, 0, n);
	begun = bench_wall_ns() - begun;
	if (waitpid(pid, &status, 0) < 0 || status)
		bench_die("the other process failed", EPIPE);
	close_side(&s);
	return (double)begun / (double)n / (rate ? 1 : 2);
}

/* ucx_perftest: a server and a client; the client says it in one line. */

static pid_t spawn_server(const char *command)
{
	pid_t pid = fork();

	if (pid < 0)
		bench_die("fork", errno);
	if (pid)
		return pid;
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

/* The @field-th of the last line of figures, NAN without one. */
static double field_of(FILE *f, int field)
{
	char line[512], *at;
	double v = NAN;

	while (fgets(line, sizeof(line), f)) {
		if (line[0] < '0' || line[0] > '9')
			continue;
		at = line;
		for (int i = 0; i < field && at; i++) {
			at = strchr(at, ',');
			at = at ? at + 1 : NULL;
		}
		v = at ? atof(at) : NAN;
	}
	return v;
}

static double ucx(const char *test, uint64_t n, int field)
{
	static const char form[] =
		"UCX_TLS=posix,sysv,cma UCX_WARN_UNUSED_ENV_VARS=n exec "
		"timeout 60 ucx_perftest %s -p 13339 -t %s -s 8 -n %llu -c %d "
		"-f -v 2>/dev/null%s";
	char command[512];
	double v = NAN;
	pid_t server;
	FILE *f;

	snprintf(command, sizeof(command), form, "", test,
		 (unsigned long long)n, 0, " >/dev/null");
	server = spawn_server(command);
	/* It says nothing when it listens: the client asks until it does. */
	snprintf(command, sizeof(command), form, "127.0.0.1", test,
		 (unsigned long long)n, 1, "");
	for (int i = 0; i < 20 && isnan(v); i++) {
		usleep(100000);
		f = popen(command, "r");
		v = f ? field_of(f, field) : NAN;
		if (f)
			pclose(f);
	}
	kill(server, SIGTERM);
	waitpid(server, NULL, 0);
	return v;
}

static bool have_ucx(void)
{
	return !system("command -v ucx_perftest >/dev/null");
}

static void one_rep(struct bench *b, bool peer)
{
	uint64_t n = b->quick ? 2000 : 300000;

	if (peer && bench_wants(b, "UCX"))
		bench_add(b, "latency", "UCX", "ns",
			  ucx("ucp_am_lat", n, 3) * 1e3);
	if (bench_wants(b, "weir"))
		bench_add(b, "latency", "weir", "ns", measure(n, false));
	if (peer && bench_wants(b, "UCX"))
		bench_add(b, "rate", "UCX", "Mmsg/s",
			  ucx("ucp_am_bw", n * 10, 7) / 1e6);
	if (bench_wants(b, "weir"))
		bench_add(b, "rate", "weir", "Mmsg/s",
			  1e3 / measure(n * 30, true));
}

int main(int argc, char **argv)
{
	static struct bench b;
	bool peer = have_ucx();

	bench_init(&b, "shared", argc, argv);
	bench_pin(0);
	if (bench_cpus() < 2)
		bench_note("one CPU only: both processes share it");
	if (!peer)
		bench_note("UCX is left out: ucx_perftest is not installed");
	for (bench_begin(&b); bench_next(&b); )
		one_rep(&b, peer);
	bench_goal(&b, "processes: at most 0.7 of UCX's latency", "latency",
		   "weir", "UCX", BENCH_AT_MOST, 0.7);
	bench_goal(&b, "processes: at least 5 times UCX's rate", "rate",
		   "weir", "UCX", BENCH_AT_LEAST, 5);
	return bench_done(&b);
}
