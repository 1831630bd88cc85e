/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-ublk, from the driver's commands to its disk, while it is killed and its machine
 * loses power: its device is one that the kernel can rely on (worlds-disk.h).
 *
 * The driver outlives the server, and gives the one that follows what was not answered.
 * It is a model here: the program's calls of weir_uring_submit() come to driver_submit().
 * What makes the device is not tried here (test-weir-ublk does).
 */

#include "tests/programs/worlds-disk.h"

#include <errno.h>
#include <getopt.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "programs/weir-ublk/weir-ublk.h"

/* The server: what main() does for a device of one queue. */
static struct {
	struct weir_sim_host *host;
	struct server *server;	/* NULL: it does not run. */
} server;

/* Tags are slots of requests. */
struct tag {
	struct weir_op *op;	/* A command waits; NULL: none. */
	uint8_t *buf;		/* The server's. */
	bool due;		/* The request is to be given to a server, */
	bool given;		/* and was. */
	uint8_t data[MOST * SECTOR];
};

static struct driver {
	struct tag tags[DEPTH];
	struct ublk_request *shared;
	int fd;
} driver = { .fd = -1 };

static void give(struct tag *tag)
{
	uint32_t i = (uint32_t)(tag - driver.tags);
	const struct want *w = &disk.wants[i];
	static const uint32_t ops[] = {
		[WANT_READ] = UBLK_READ, [WANT_WRITE] = UBLK_WRITE,
		[WANT_FLUSH] = UBLK_FLUSH, [WANT_TRIM] = UBLK_DISCARD,
		[WANT_ZERO] = UBLK_WRITE_ZEROES,
	};
	struct weir_op *op = tag->op;

	driver.shared[i] = (struct ublk_request){
		.op_flags = ops[w->kind] | (w->fua ? UBLK_IO_FUA : 0) |
			    (w->number % 2 ? UBLK_IO_NO_UNMAP : 0),
		.sectors = w->n, .sector = w->first,
	};
	if (w->kind == WANT_WRITE)
		memcpy(tag->buf, tag->data, w->n * SECTOR);
	tag->due = false;
	tag->given = true;
	tag->op = NULL;
	weir_op_finish(op, 0);
}

static void answered(struct tag *tag, int32_t res)
{
	struct want *w = &disk.wants[tag - driver.tags];
	bool moves = w->kind == WANT_READ || w->kind == WANT_WRITE;

	MUST("an answer is one to a request", tag->given && w->used);
	MUST("all of it is answered, or none",
	     res < 0 || res == (moves ? (int32_t)(w->n * SECTOR) : 0));
	tag->given = false;
	/* Others may be those of the server alone: no memory, say. */
	disk_answered(w, res >= 0 ? DISK_OK :
		      res == -EIO || res == -ENOSPC || res == -EDQUOT ?
		      DISK_LOST : DISK_FAILED, tag->buf);
}

int driver_submit(struct weir_reactor *r, struct weir_op *op, weir_uring_prep_fn *prep,
		  void *arg)
{
	uint64_t words[16] = { 0 };
	struct io_uring_sqe *sqe = (void *)words;
	const struct ublk_io_command *c = (const void *)sqe->cmd;
	struct tag *tag;
	int err;

	prep(sqe, arg);
	err = weir_op_start(r, op, NULL, NULL);
	if (err)
		return err;
	MUST("a command has a tag of its own", c->queue == 0 && c->tag < DEPTH);
	tag = &driver.tags[c->tag];
	MUST("a tag has one command", !tag->op);
	if (sqe->cmd_op == UBLK_COMMIT_AND_FETCH)
		answered(tag, c->result);
	else
		MUST("a tag that has a request is not fetched", !tag->given);
	tag->op = op;
	tag->buf = (uint8_t *)(uintptr_t)c->addr;
	return 0;
}

static void start_server(struct weir_sim_host *host, void *arg)
{
	char *argv[] = { "weir-ublk", "--queues=1", "disk.img", NULL };
	struct server *s = server_new();
	struct queue *q;

	(void)host, (void)arg;
	optind = 1;
	MUST("there is memory", s);
	MUST("weir-ublk takes its options", options_parse(s, 3, argv) < 0);
	MUST("weir-ublk opens its disk", !block_open(&s->block));
	s->info = (struct ublk_info){ .queues = 1, .depth = DEPTH };
	s->block_size = SECTOR;
	s->sectors = SECTORS;
	s->fd = driver.fd;
	q = s->queues = calloc(1, sizeof(*q));
	MUST("there is memory for a queue", q);
	q->server = s;
	q->reactor = reactor_here();
	server.server = s;
	MUST("weir-ublk begins", !queue_begin(q));
	queue_fetch(q);
}

/* The kernel. */

static void go_on(void)
{
	struct want *w;

	if (weir_sim_host_state(server.host) == WEIR_SIM_HOST_OFF)
		return;
	while ((w = disk_next()) != NULL) {
		struct tag *tag = &driver.tags[w - disk.wants];

		tag->due = true;
		if (w->kind == WANT_WRITE)
			disk_fill(w, tag->data);
	}
	for (uint32_t i = 0; i < DEPTH; i++)
		if (driver.tags[i].due && driver.tags[i].op)
			give(&driver.tags[i]);
}

/* The test. */

static void ended(bool power)
{
	for (uint32_t i = 0; i < DEPTH; i++) {
		struct tag *tag = &driver.tags[i];

		if (power && disk.wants[i].used)
			disk_interrupted(&disk.wants[i]);
		tag->op = NULL;
		tag->due |= tag->given;
		tag->due &= !power;
		tag->given = false;
	}
	disk_server_ended(power);
	for (uint32_t i = 0; i < DEPTH; i++)
		if (disk.wants[i].used)
			disk_again(&disk.wants[i]);
}

static void powered_off(void)
{
	ended(true);
}

/* The system takes a process's memory back; here it has to be found. */
static void gone(void *arg)
{
	struct server *s = server.server;
	struct queue *q = s ? s->queues : NULL;

	(void)arg;
	if (q) {
		munmap((void *)(uintptr_t)q->shared,
		       DEPTH * sizeof(struct ublk_request));
		munmap(q->data, DEPTH * IO_MAX);
		free(q->requests);
	}
	server_free(s);
	server.server = NULL;
	ended(weir_sim_host_state(server.host) == WEIR_SIM_HOST_OFF);
}

/* What the driver shares with a server is a file here. */
static void driver_begin(void)
{
	const size_t len = 4096;

	memset(driver.tags, 0, sizeof(driver.tags));
	if (driver.fd >= 0)
		return;
	driver.fd = memfd_create("ublkc0", MFD_CLOEXEC);
	MUST("the driver has memory", driver.fd >= 0 && !ftruncate(driver.fd, (off_t)len));
	driver.shared = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, driver.fd, 0);
	MUST("the driver maps it", driver.shared != MAP_FAILED);
}

static void run(struct weir_sim_trial *trial)
{
	struct weir_sim *sim = trial->sim;

	driver_begin();
	server.host = host_add(sim, (struct weir_sim_host_opts){
		.name = "server", .start = start_server, .gone = gone });
	disk_begin(sim);
	disk_tick(go_on);
	disk_run(trial, server.host, go_on, powered_off);
}

static const struct weir_sim_scenario scenario = {
	.size = sizeof(scenario),
	.name = "ublk",
	.what = "weir-ublk through kills and power cuts of its machine",
	.run = run,
	.ops = 30,
	.hosts = "server",
};

int main(int argc, char **argv)
{
	const struct weir_sim_scenario *const scenarios[] = { &scenario, NULL };

	return weir_sim_main(argc, argv, scenarios);
}
