/* SPDX-License-Identifier: BSD-3-Clause */

/* See the header. */

#include <errno.h>
#include <stdbool.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/late-two.h"

/* What has been in flight for so long has got stuck, and moves no more. */
#define STUCK_NS UINT64_C(5000000000)
/* After the writer's end: what sockets and queues still hold. */
#define REST_NS UINT64_C(20000000)

struct asked {
	const char *engine, *ending;
	late_side_fn *owner, *writer;
};

/* As the writer has ended. */
static void end_likewise(struct late_two *t)
{
	int status = 0;

	if (!t->other)
		_exit(0);	/* The owner has all that it wants. */
	if (waitpid(t->other, &status, 0) < 0)
		_exit(1);
	if (WIFSIGNALED(status))
		abort();
	if (WEXITSTATUS(status) == LATE_SKIP)
		_exit(LATE_SKIP);
	late_skip(t->one, "the writer has ended");
}

void late_two_put(struct late_two *t, const void *data, size_t len)
{
	if (send(t->sock, data, len, MSG_NOSIGNAL) != (ssize_t)len)
		end_likewise(t);
}

size_t late_two_get(struct late_two *t, void *data, size_t max)
{
	ssize_t n = recv(t->sock, data, max, 0);

	if (n <= 0)
		end_likewise(t);
	return (size_t)n;
}

static void advance(struct late_two *t)
{
	if (t->progress)
		t->progress(t->arg);
}

/* 1: a message, 0: none yet, -1: never. */
static int poll_other(struct late_two *t)
{
	char byte;
	ssize_t n = recv(t->sock, &byte, 1, MSG_DONTWAIT);

	if (n == 1)
		return 1;
	return n < 0 && errno == EAGAIN ? 0 : -1;
}

void late_two_wait(struct late_two *t)
{
	int said;

	while (!(said = poll_other(t)))
		advance(t);
	if (said < 0)
		end_likewise(t);
}

static bool has_come(const struct late_two *t, size_t at)
{
	return *(volatile const char *)&t->memory[at] == LATE_THEIRS;
}

uint64_t late_two_in_flight(struct late_two *t)
{
	uint64_t now = late_now(), until = now + STUCK_NS;

	while (!has_come(t, 0) && !has_come(t, t->size - 1)) {
		advance(t);
		/* One byte says that it has ended well, and it may be short. */
		if (poll_other(t) < 0)
			end_likewise(t);
		if (late_now() > until)
			late_skip(t->one, "nothing was written in 5 seconds");
	}
	until = late_now() + late_delay(t->size);
	do {
		advance(t);
		now = late_now();
	} while (now < until);
	t->one->too_early = has_come(t, t->size - 1) && has_come(t, 0);
	return now;
}

void late_two_ended(struct late_two *t, uint64_t begun)
{
	uint64_t until;

	t->one->end_ns = late_now() - begun;
	late_paint(t->memory, t->size);
	/* The writer may be told nothing, and wait for ever. */
	until = late_now() + STUCK_NS / 10;
	while (!poll_other(t) && late_now() < until)
		advance(t);
	until = late_now() + REST_NS + late_settle_us(t->size) * UINT64_C(1000);
	while (late_now() < until)
		advance(t);
	t->one->bytes = late_count_bytes(t->memory, t->size);
	kill(t->other, SIGKILL);
	_exit(0);
}

void late_two_written(struct late_two *t)
{
	send(t->sock, "", 1, MSG_NOSIGNAL);
	/* The owner ends both; a process that left would say more to its peer
	 * than the end of a transfer. */
	for (;;) {
		advance(t);
		usleep(1000);
	}
}

static void one_ending(struct late_one *one, size_t size, const void *arg)
{
	const struct asked *a = arg;
	struct late_two t = {
		.one = one, .engine = a->engine, .ending = a->ending,
		.size = size,
	};
	int ends[2], side;

	t.memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (t.memory == MAP_FAILED ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		late_skip(one, "no memory, or no socket");
	/* So that the writer may write by process_vm_writev(2). */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	t.other = fork();
	if (t.other < 0)
		late_skip(one, "no process");
	side = t.other ? 0 : 1;
	close(ends[!side]);
	t.sock = ends[side];
	if (side) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		memset(t.memory, LATE_THEIRS, size);
		a->writer(&t);
	} else {
		memset(t.memory, 0, size);
		a->owner(&t);
	}
}

int late_two_main(int argc, char **argv, const char *version,
		  late_side_fn *owner, late_side_fn *writer)
{
	struct late_sum sum = { .tried = 0 };
	struct asked a = { .owner = owner, .writer = writer };
	size_t size = argc == 5 ? strtoull(argv[3], NULL, 10) : 0;
	int n = argc == 5 ? atoi(argv[4]) : 0;

	if (!size || n < 1) {
		fprintf(stderr, "usage: %s ENGINE ENDING SIZE N\n", argv[0]);
		return 2;
	}
	a.engine = argv[1];
	a.ending = argv[2];
	late_repeat(&sum, one_ending, &a, size, n);
	snprintf(sum.version, sizeof(sum.version), "%s", version);
	late_print(&sum, stdout);
	return 0;
}
