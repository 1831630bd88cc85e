/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sync events: from one side to the other and back, between two threads and
 * between two processes, on two CPUs; beside eventfds and pipes.  A side waits
 * in a loop (epoll, a reactor) or blocks.  Unless it is told "no spin", weir
 * polls for a while before it sleeps, the others sleep at once.  "unheard": a
 * signal without a waiter, beside an atomic addition and a write to an eventfd.
 */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/export.h>
#include <weir/mmap.h>
#include <weir/reactor.h>
#include <weir/sync.h>

#include "bench/bench.h"

#define LEN 4096

/* What lies between the two; [0] is signalled by the first, [1] by the other. */
struct court {
	const struct way *way;
	bool processes;
	uint64_t n;
	uint64_t ns;		/* For all of them, as the first saw it. */
	int evfd[2];
	int pipe[2][2];
	struct weir_mmap *mmap;
	struct weir_export_desc desc;
	struct weir_sync *sync[2];
};

/* A side and its means. */
struct side {
	struct court *court;
	int mine, theirs;	/* What it signals, and what it waits for. */
	struct weir_sync *sync[2];
	struct weir_mmap *mmap;
	struct weir_reactor *reactor;
	struct weir_op op;
	int epfd;
	bool came, failed;
};

struct way {
	const char *name;
	uint32_t backend;
	bool sync;
	void (*open)(struct side *s);
	void (*send)(struct side *s);
	void (*wait)(struct side *s, uint64_t i);
	void (*close)(struct side *s);
};

/* eventfd and pipe */

static void nothing(struct side *s)
{
	(void)s;
}

static void ep_open(struct side *s)
{
	struct epoll_event ev = { .events = EPOLLIN };

	s->epfd = epoll_create1(EPOLL_CLOEXEC);
	bench_must(epoll_ctl(s->epfd, EPOLL_CTL_ADD,
			     s->court->evfd[s->theirs], &ev), "epoll_ctl");
}

static void ev_send(struct side *s)
{
	eventfd_write(s->court->evfd[s->mine], 1);
}

static void ev_wait(struct side *s, uint64_t i)
{
	eventfd_t value;

	(void)i;
	eventfd_read(s->court->evfd[s->theirs], &value);
}

static void ep_wait(struct side *s, uint64_t i)
{
	struct epoll_event ev;

	while (epoll_wait(s->epfd, &ev, 1, -1) != 1)
		;
	ev_wait(s, i);
}

static void ep_close(struct side *s)
{
	close(s->epfd);
}

static void pipe_send(struct side *s)
{
	if (write(s->court->pipe[s->mine][1], "", 1) != 1)
		bench_die("write", errno);
}

static void pipe_wait(struct side *s, uint64_t i)
{
	char c;

	(void)i;
	if (read(s->court->pipe[s->theirs][0], &c, 1) != 1)
		bench_die("read", errno);
}

/* weir */

static void on_signal(struct weir_op *op, int64_t res)
{
	struct side *s = weir_container_of(op, struct side, op);

	s->came = true;
	s->failed = res != 0;
}

static void open_reactor(struct side *s, uint32_t spin_ns)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = s->court->way->backend,
		.spin_ns = spin_ns,
	};

	s->failed = weir_reactor_create(&s->reactor, &opts) != 0;
	weir_op_init(&s->op, on_signal);
}

static void weir_open(struct side *s)
{
	open_reactor(s, 0);
}

static void weir_open_tired(struct side *s)
{
	open_reactor(s, WEIR_SPIN_NONE);
}

static void weir_send(struct side *s)
{
	bench_must(weir_sync_add(s->sync[s->mine], 1, NULL), "weir_sync_add");
}

static void weir_wait(struct side *s, uint64_t i)
{
	s->came = false;
	bench_must(weir_sync_wait(s->sync[s->theirs], s->reactor, &s->op,
				  WEIR_SYNC_GE, i, WEIR_SYNC_ALL),
		   "weir_sync_wait");
	while (!s->came)
		weir_reactor_turn(s->reactor, WEIR_FOREVER);
}

static void weir_block(struct side *s, uint64_t i)
{
	bench_must(weir_sync_wait_blocking(s->sync[s->theirs], WEIR_SYNC_GE, i,
					   WEIR_SYNC_ALL, WEIR_FOREVER),
		   "weir_sync_wait_blocking");
}

static void weir_close_side(struct side *s)
{
	bench_must(weir_reactor_destroy(s->reactor), "weir_reactor_destroy");
}

static const struct way ways[] = {
	{ "epoll+eventfd", 0, false, ep_open, ev_send, ep_wait, ep_close },
	{ "weir uring", WEIR_BACKEND_URING, true, weir_open, weir_send,
	  weir_wait, weir_close_side },
	{ "weir ev", WEIR_BACKEND_EV, true, weir_open, weir_send, weir_wait,
	  weir_close_side },
	{ "uring, no spin", WEIR_BACKEND_URING, true, weir_open_tired,
	  weir_send, weir_wait, weir_close_side },
	{ "ev, no spin", WEIR_BACKEND_EV, true, weir_open_tired, weir_send,
	  weir_wait, weir_close_side },
	{ "eventfd, blocking", 0, false, nothing, ev_send, ev_wait, nothing },
	{ "pipe, blocking", 0, false, nothing, pipe_send, pipe_wait, nothing },
	{ "weir, blocking", 0, true, nothing, weir_send, weir_block, nothing },
};

/* The other process has it imported. */
static void import(struct side *s)
{
	const struct weir_export_desc *d = &s->court->desc;

	bench_must(weir_mmap_import(&s->mmap, d->bytes, d->len, d->fds,
				    d->n_fds, NULL), "weir_mmap_import");
	bench_must(weir_sync_open(&s->sync[0], s->mmap, 0), "weir_sync_open");
	bench_must(weir_sync_open(&s->sync[1], s->mmap, 64), "weir_sync_open");
}

static void play_first(struct side *s)
{
	const struct way *way = s->court->way;
	uint64_t i, begun = 0, warm = s->court->n / 10 + 1;

	for (i = 1; i <= s->court->n + warm; i++) {
		if (i == warm + 1)
			begun = bench_wall_ns();
		way->send(s);
		way->wait(s, i);
	}
	s->court->ns = bench_wall_ns() - begun;
}

static void play_other(struct side *s)
{
	const struct way *way = s->court->way;
	uint64_t i, n = s->court->n + s->court->n / 10 + 1;

	for (i = 1; i <= n; i++) {
		way->wait(s, i);
		way->send(s);
	}
}

static void play(struct court *court, int mine)
{
	struct side s = {
		.court = court, .mine = mine, .theirs = !mine,
		.sync = { court->sync[0], court->sync[1] },
	};

	bench_pin((unsigned int)mine);
	if (court->way->sync && court->processes && mine)
		import(&s);
	court->way->open(&s);
	if (!s.failed && mine)
		play_other(&s);
	else if (!s.failed)
		play_first(&s);
	if (!s.failed)
		court->way->close(&s);
	if (s.mmap) {
		weir_sync_destroy(s.sync[0]);
		weir_sync_destroy(s.sync[1]);
		weir_mmap_destroy(s.mmap);
	}
}

static void *play_in_thread(void *arg)
{
	play(arg, 1);
	return NULL;
}

static void in_two_threads(struct court *court)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, play_in_thread, court))
		bench_die("pthread_create", EAGAIN);
	play(court, 0);
	pthread_join(thread, NULL);
}

static void in_two_processes(struct court *court)
{
	pid_t child = fork();

	if (child < 0)
		bench_die("fork", errno);
	if (!child) {
		play(court, 1);
		_exit(0);
	}
	play(court, 0);
	waitpid(child, NULL, 0);
}

static void share(struct court *court)
{
	court->desc.size = sizeof(court->desc);
	bench_must(weir_mmap_create(&court->mmap, NULL), "weir_mmap_create");
	bench_must(weir_mmap_alloc(court->mmap, LEN, WEIR_MMAP_ALLOC_MEMFD),
		   "weir_mmap_alloc");
	bench_must(weir_mmap_set_permissions(court->mmap, WEIR_MMAP_WRITE |
					     WEIR_MMAP_PEER_WRITE),
		   "weir_mmap_set_permissions");
	bench_must(weir_mmap_start(court->mmap), "weir_mmap_start");
	bench_must(weir_mmap_export(court->mmap, NULL, &court->desc),
		   "weir_mmap_export");
}

static void court_open(struct court *court)
{
	int i;

	if (court->way->sync && court->processes)
		share(court);
	for (i = 0; i < 2; i++) {
		court->evfd[i] = eventfd(0, EFD_CLOEXEC);
		bench_must(court->evfd[i], "eventfd");
		bench_must(pipe(court->pipe[i]), "pipe");
		if (!court->way->sync)
			continue;
		if (court->mmap)
			bench_must(weir_sync_create_in(&court->sync[i],
						       court->mmap,
						       (uint64_t)i * 64, NULL),
				   "weir_sync_create_in");
		else
			bench_must(weir_sync_create(&court->sync[i], NULL),
				   "weir_sync_create");
	}
}

static void court_close(struct court *court)
{
	int i;

	for (i = 0; i < 2; i++) {
		close(court->evfd[i]);
		close(court->pipe[i][0]);
		close(court->pipe[i][1]);
		weir_sync_destroy(court->sync[i]);
	}
	weir_mmap_destroy(court->mmap);
}

static bool can(const struct way *way)
{
	return !way->backend || !bench_backend_missing(way->backend);
}

static double round_trip(const struct way *way, bool processes, uint64_t n)
{
	struct court court = { .way = way, .processes = processes, .n = n };

	court_open(&court);
	if (processes)
		in_two_processes(&court);
	else
		in_two_threads(&court);
	court_close(&court);
	return (double)court.ns / (double)n;
}

static void unheard(struct bench *b)
{
	uint64_t n = b->quick ? 10000 : 1000000, i, begun;
	int fd = eventfd(0, EFD_CLOEXEC);
	struct weir_sync *sync = NULL;
	static _Atomic uint64_t word;

	begun = bench_thread_ns();
	for (i = 0; i < n; i++)
		atomic_fetch_add(&word, 1);
	bench_add(b, "unheard", "atomic add", "ns",
		  (double)(bench_thread_ns() - begun) / (double)n);
	begun = bench_thread_ns();
	for (i = 0; i < n / 10; i++)
		eventfd_write(fd, 1);
	bench_add(b, "unheard", "eventfd", "ns",
		  (double)(bench_thread_ns() - begun) / (double)(n / 10));
	bench_must(weir_sync_create(&sync, NULL), "weir_sync_create");
	begun = bench_thread_ns();
	for (i = 0; i < n; i++)
		weir_sync_add(sync, 1, NULL);
	bench_add(b, "unheard", "weir", "ns",
		  (double)(bench_thread_ns() - begun) / (double)n);
	weir_sync_destroy(sync);
	close(fd);
}

static void one_rep(struct bench *b, const struct way *way)
{
	uint64_t n = b->quick ? 500 : 5000;

	if (!bench_wants(b, way->name) || !can(way))
		return;
	bench_add(b, "threads", way->name, "ns/trip",
		  round_trip(way, false, n));
	bench_add(b, "processes", way->name, "ns/trip",
		  round_trip(way, true, n));
}

static void goals(struct bench *b)
{
	static const char *const loops[] = { "weir uring", "weir ev" };

	for (size_t i = 0; i < ARRAY_SIZE(loops); i++) {
		bench_goal(b, "between reactors, at most as epoll and eventfd",
			   "threads", loops[i], "epoll+eventfd", BENCH_AT_MOST,
			   1);
		bench_goal(b, "between processes, at most as epoll and eventfd",
			   "processes", loops[i], "epoll+eventfd",
			   BENCH_AT_MOST, 1);
	}
	bench_goal(b, "blocking, at most as a pipe", "processes",
		   "weir, blocking", "pipe, blocking", BENCH_AT_MOST, 1);
	bench_goal(b, "an unheard signal, at most 10 ns", "unheard", "weir",
		   NULL, BENCH_AT_MOST, 10);
}

int main(int argc, char **argv)
{
	static struct bench b;

	bench_init(&b, "sync", argc, argv);
	bench_pin(0);
	if (bench_cpus() < 2)
		bench_note("one CPU only: both sides share it");
	for (bench_begin(&b); bench_next(&b); ) {
		for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
			one_rep(&b, &ways[i]);
		unheard(&b);
	}
	goals(&b);
	return bench_done(&b);
}
