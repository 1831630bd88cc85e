/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The access log.  A core puts a record into its own queue, which costs a copy
 * and no lock; if the queue is full, the record is counted and dropped, and the
 * connection goes its way.  One job at a time, on a worker thread of core 0,
 * empties the queues into the file.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "weir-proxy.h"

#define BATCH 65536	/* Bytes of a write. */
#define LINE 640	/* The longest line: three addresses and some numbers. */
#define POLL_MS 100 /* Is the log still wanted? */

struct batch {
	struct log *log;
	size_t len;
	char text[BATCH];
};

/* ---- on a worker ---- */

/* A FIFO is full.  Its reader may take any time, unless we want to leave. */
static bool has_capacity(const struct log *log)
{
	struct pollfd p = { .fd = log->fd, .events = POLLOUT };
	bool leave;

	do {
		leave = atomic_load(&log->leave);
		if (poll(&p, 1, POLL_MS) == 1)
			return true;
	} while (!leave);
	errno = EAGAIN;
	return false;
}

/* How much of it was written: all, unless there is an error. */
static size_t write_all(const struct log *log, const char *text, size_t len)
{
	size_t at = 0;
	ssize_t n = 0;

	while (at < len && (n >= 0 || (errno == EAGAIN && has_capacity(log)))) {
		n = write(log->fd, text + at, len - at);
		at += n > 0 ? (size_t)n : 0;
	}
	return at;
}

static void count_lost(struct log *log, const char *text, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		log->lost += text[i] == '\n';
}

/*
 * What a full disk does not take is counted and dropped: the next lines may be
 * luckier.
 */
static bool flush_batch(struct batch *b)
{
	struct log *log = b->log;
	size_t len = b->len, at = 0;

	b->len = 0;
	if (log->torn && write_all(log, "\n", 1))
		log->torn = false;
	if (!log->torn)
		at = write_all(log, b->text, len);
	if (at == len) {
		log->failed = log->failed && !len;
		return true;
	}
	if (!log->failed)
		complain("the log: %s", strerror(errno));
	log->failed = true;
	log->torn = log->torn || (at && b->text[at - 1] != '\n');
	count_lost(log, b->text + at, len - at);
	return false;
}

static void tell_lost(struct batch *b)
{
	unsigned long n = b->log->lost;

	if (!n)
		return;
	b->len = (size_t)snprintf(b->text, LINE, "# %lu lines dropped\n", n);
	b->log->lost = 0;
	if (!flush_batch(b))
		b->log->lost = n; /* And not one more, for this one. */
}

static void write_queue(struct batch *b, struct log_queue *q)
{
	unsigned int out = atomic_load_explicit(&q->out, memory_order_relaxed);
	unsigned int in = atomic_load_explicit(&q->in, memory_order_acquire);

	for (; out != in; out++) {
		if (b->len + 2 * LINE > BATCH)
			flush_batch(b);
		b->len += log_line(b->text + b->len, LINE,
				   &q->records[out % LOG_RECORDS]);
		atomic_store_explicit(&q->out, out + 1, memory_order_release);
	}
	b->log->lost += atomic_exchange(&q->dropped, 0);
}

static int64_t write_log(void *arg)
{
	struct log *log = arg;
	struct batch *b = malloc(sizeof(*b));
	uint32_t i;

	atomic_store(&log->asked, false);
	if (!b)
		return -ENOMEM;
	b->log = log;
	b->len = 0;
	for (i = 0; i < log->proxy->n_cores; i++) {
		write_queue(b, &log->proxy->cores[i].log);
		flush_batch(b);
	}
	tell_lost(b);
	free(b);
	return 0;
}

/* ---- on core 0 ---- */

static void log_soon(void *arg)
{
	struct log *log = arg;

	log->again = true;
	if (weir_op_is_busy(&log->op))
		return;
	if (log->next_fd >= 0) {
		if (log->fd >= 0)
			close(log->fd);
		log->fd = log->next_fd;
		log->next_fd = -1;
		log->torn = false;
		atomic_store(&log->leave, false);
	}
	log->again = false;
	if (weir_work(log->proxy->cores[0].r, &log->op, write_log, log))
		atomic_store(&log->asked, false);
}

static void on_written(struct weir_op *op, int64_t res)
{
	struct log *log = weir_container_of(op, struct log, op);

	(void)res;
	if (log->again)
		log_soon(log);
}

/* A FIFO without a reader is refused: to wait for one would hold up core
 * 0. */
static int open_file(const char *path)
{
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC |
		    O_NONBLOCK, 0640);
}

/* The worker must not wait for a reader of the old log. */
void log_leave(struct log *log)
{
	atomic_store(&log->leave, true);
}

/* Write to @path from now on: it may be another, or the old one was renamed. */
int log_open(struct log *log, const char *path)
{
	int fd = open_file(path ? path : "/dev/null");

	if (fd < 0) {
		complain("%s: %s", path, strerror(errno));
		return -1;
	}
	if (log->next_fd >= 0)
		close(log->next_fd);
	log->next_fd = fd;
	log_leave(log);
	if (log->proxy->cores[0].r)
		log_soon(log);
	return 0;
}

int log_begin(struct proxy *p)
{
	struct log *log = &p->log;

	log->proxy = p;
	log->fd = log->next_fd = -1;
	weir_op_init(&log->op, on_written);
	return log_open(log, p->config->log);
}

/* All cores have stopped: what is left is written here. */
void log_end(struct proxy *p)
{
	struct log *log = &p->log;
	uint32_t i;

	if (log->fd < 0) {
		log->fd = log->next_fd;
		log->next_fd = -1;
	}
	if (log->fd >= 0)
		write_log(log);
	if (log->next_fd >= 0)
		close(log->next_fd);
	if (log->fd >= 0)
		close(log->fd);
	for (i = 0; i < p->n_cores; i++)
		free(p->cores[i].log.records);
}

/* ---- on each core ---- */

static uint64_t wall_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * WEIR_SEC + (uint64_t)ts.tv_nsec;
}

static void fill(struct log_record *rec, const struct conn *c)
{
	uint64_t now = weir_reactor_now(c->core->r);

	memset(rec, 0, sizeof(*rec));
	rec->client = c->client;
	memcpy(rec->listen, c->listen->name, sizeof(rec->listen));
	memcpy(rec->target, c->server ? c->server->name : "-",
	       c->server ? sizeof(rec->target) : 2);
	rec->ended_ns = wall_clock();
	rec->lasted_ns = now - c->began_ns;
	if (c->connected_ns)
		rec->connect_ns = c->connected_ns - c->began_ns;
	rec->up = c->up.bytes;
	rec->down = c->down.bytes;
	rec->end = c->end;
}

/* Once until it was heard, however many records there are. */
static void ask(struct log *log)
{
	struct weir_reactor *core0 = log->proxy->cores[0].r;

	if (!atomic_exchange(&log->asked, true) &&
	    weir_post(core0, log_soon, log))
		atomic_store(&log->asked, false);
}

void log_conn(struct conn *c)
{
	struct log_queue *q = &c->core->log;
	unsigned int in, out;

	if (!c->config->log)
		return;
	in = atomic_load_explicit(&q->in, memory_order_relaxed);
	out = atomic_load_explicit(&q->out, memory_order_acquire);
	if (in - out == LOG_RECORDS) {
		atomic_fetch_add(&q->dropped, 1);
	} else {
		fill(&q->records[in % LOG_RECORDS], c);
		atomic_store_explicit(&q->in, in + 1, memory_order_release);
	}
	ask(&c->core->proxy->log);
}
