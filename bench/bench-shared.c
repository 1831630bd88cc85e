/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages of 8 bytes between two processes on two CPUs: through memory that
 * one has exported and the other imported, with sync events in it that say how
 * far each is; beside UCX's active messages and libfabric's messages over
 * shared memory, as their own programs measure them.
 *
 * "latency" is half of a round trip with one message, which lies beside the
 * sync event.  For "rate" the messages go one way, through a ring, and the
 * sender says how far it is after every 32, as one does who has more to send;
 * UCX does likewise inside, and libfabric's program only goes there and back.
 * Both sides are reactors that wait by operations, and sleep when nothing
 * comes for 50 us. "bare ring" is what memory gives to anybody: two threads
 * that do nothing but look.
 *
 * All are means of as many messages, after some that are not counted.
 */

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/export.h>
#include <weir/mmap.h>
#include <weir/reactor.h>
#include <weir/sync.h>

#include "bench/bare-ring.h"
#include "bench/bench.h"
#include "bench/shared-peers.h"

#define SLOTS 1024
#define PUBLISH 32
#define WARM 1000	/* Messages, until both are there and awake. */
#define RING 4096	/* Where the ring begins in a half. */
#define HALF ((size_t)RING + SLOTS * sizeof(uint64_t))

/*
 * One direction: how many were put, how many taken, and the ring.  What lies
 * beside a sync event is on its line, and comes with it: there goes a message
 * that is alone.
 */
struct spsc {
	struct weir_sync *put, *taken;
	uint64_t *beside;
	uint64_t *slot;
};

struct side {
	struct weir_mmap *mmap;
	struct weir_reactor *r;
	struct weir_op op;
	bool came;
	struct bench_hist *latency;	/* NULL: the clock is not read. */
	struct spsc spsc[2];
};

static void on_signal(struct weir_op *op, int64_t res)
{
	bench_must((int)res, "weir_sync_wait");
	weir_container_of(op, struct side, op)->came = true;
}

static void wait_until(struct side *s, struct weir_sync *sync, uint64_t value)
{
	s->came = false;
	bench_must(weir_sync_wait(sync, s->r, &s->op, WEIR_SYNC_GE, value,
				  WEIR_SYNC_ALL), "weir_sync_wait");
	while (!s->came)
		bench_must(weir_reactor_turn(s->r, WEIR_FOREVER), "turn");
}

/* Wait until @sync is at least @value, and say what it is. */
static uint64_t wait_for(struct side *s, struct weir_sync *sync,
			 uint64_t value)
{
	uint64_t now;

	bench_must(weir_sync_get(sync, &now), "weir_sync_get");
	if (now >= value)
		return now;
	wait_until(s, sync, value);
	bench_must(weir_sync_get(sync, &now), "weir_sync_get");
	return now;
}

static void send_one(struct side *s, int spsc, uint64_t i)
{
	*s->spsc[spsc].beside = i;
	bench_must(weir_sync_set(s->spsc[spsc].put, i), "weir_sync_set");
}

static void take_one(struct side *s, int spsc, uint64_t i)
{
	wait_until(s, s->spsc[spsc].put, i);
	if (*s->spsc[spsc].beside != i)
		bench_die("a message that was not sent", EBADMSG);
}

/* Messages @first to @last, there and back. */
static void there_and_back(struct side *s, uint64_t first, uint64_t last)
{
	uint64_t begun = 0;

	for (uint64_t i = first; i <= last; i++) {
		if (s->latency)
			begun = bench_wall_ns();
		send_one(s, 0, i);
		take_one(s, 1, i);
		if (s->latency)
			bench_hist_add(s->latency,
				       (bench_wall_ns() - begun) / 2);
	}
}

static void send_back(struct side *s, uint64_t n)
{
	for (uint64_t i = 1; i <= n; i++) {
		take_one(s, 0, i);
		send_one(s, 1, i);
	}
}

/* Messages @first to @last; all before them are taken. */
static void send_all(struct side *s, uint64_t first, uint64_t last)
{
	struct spsc *l = &s->spsc[0];
	uint64_t taken = first - 1;

	for (uint64_t i = first; i <= last; i++) {
		if (i - taken > SLOTS)
			taken = wait_for(s, l->taken, i - SLOTS);
		l->slot[i % SLOTS] = i;
		if (i % PUBLISH == 0 || i == last)
			bench_must(weir_sync_set(l->put, i), "weir_sync_set");
	}
	wait_for(s, l->taken, last);
}

static void take_all(struct side *s, uint64_t n)
{
	struct spsc *l = &s->spsc[0];
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
		weir_sync_destroy(s->spsc[i].put);
		weir_sync_destroy(s->spsc[i].taken);
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
		struct spsc *l = &s->spsc[i];
		uint64_t at = i * HALF;

		l->slot = (uint64_t *)(base + at + RING);
		l->beside = (uint64_t *)(base + at + WEIR_SYNC_LEN);
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
		take_all(&s, WARM + n);
	else
		send_back(&s, WARM + n);
	close_side(&s);
	_exit(0);
}

static void send_some(struct side *s, uint64_t first, uint64_t last, bool rate)
{
	if (rate)
		send_all(s, first, last);
	else
		there_and_back(s, first, last);
}

/* Nanoseconds for a message. */
static double measure(uint64_t n, bool rate, struct bench_hist *latency)
{
	struct weir_export_desc desc;
	struct side s = { .latency = latency };
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
	send_some(&s, 1, WARM, rate);
	begun = bench_wall_ns();
	send_some(&s, WARM + 1, WARM + n, rate);
	begun = bench_wall_ns() - begun;
	if (waitpid(pid, &status, 0) < 0 || status)
		bench_die("the other process failed", EPIPE);
	close_side(&s);
	return (double)begun / (double)n / (rate ? 1 : 2);
}

static void add_peer(struct bench *b, const struct shared_peer *p, uint64_t n)
{
	if (!bench_wants(b, p->name) || !shared_peer_is_there(p))
		return;
	bench_add(b, "latency", p->name, "ns", shared_peer_latency(p, n));
	bench_add(b, "rate", p->name, "Mmsg/s", shared_peer_rate(p, n * 10));
}

static void add_bare(struct bench *b, uint64_t n)
{
	bench_add(b, "latency", "bare ring", "ns", bare_ring(n, 1) / 2);
	bench_add(b, "rate", "bare ring", "Mmsg/s", 1e3 / bare_ring(n * 30, 0));
	bench_pin(0);
}

static void one_rep(struct bench *b)
{
	uint64_t n = b->quick ? 2000 : 300000;

	for (size_t i = 0; i < n_shared_peers; i++)
		add_peer(b, &shared_peers[i], n);
	if (bench_wants(b, "bare ring"))
		add_bare(b, n);
	if (!bench_wants(b, "weir"))
		return;
	bench_add(b, "latency", "weir", "ns", measure(n, false, NULL));
	bench_add(b, "rate", "weir", "Mmsg/s",
		  1e3 / measure(n * 30, true, NULL));
	/* Apart, because the clock is a good part of so short a time. */
	measure(n, false, bench_latency(b, "latency", "weir"));
}

int main(int argc, char **argv)
{
	const struct shared_peer *p;
	static struct bench b;

	bench_init(&b, "shared", argc, argv);
	bench_pin(0);
	if (bench_cpus() < 2)
		bench_note("one CPU only: both processes share it");
	for (p = shared_peers; p < shared_peers + n_shared_peers; p++)
		if (!shared_peer_is_there(p))
			bench_note("%s is left out: %s is not installed",
				   p->name, p->program);
	for (bench_begin(&b); bench_next(&b); )
		one_rep(&b);
	bench_goal(&b, "processes: at most 0.7 of UCX's latency", "latency",
		   "weir", "UCX", BENCH_AT_MOST, 0.7);
	bench_goal(&b, "processes: at least 5 times UCX's rate", "rate",
		   "weir", "UCX", BENCH_AT_LEAST, 5);
	return bench_done(&b);
}
