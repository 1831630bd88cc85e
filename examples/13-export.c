/* SPDX-License-Identifier: CC0-1.0 */

/*
 * Memory for another process.
 *
 *	13-export SOCKET [MIB [SECONDS]]
 *
 * 14-import takes questions at the socket and writes answers in their place.
 * When it has ended, the answers are checked.  Ends with an error if answers are
 * missing, or if no importer comes within SECONDS.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weir/export.h>
#include <weir/mmap.h>
#include <weir/reactor.h>
#include <weir/socket.h>
#include <weir/timer.h>
#include <weir/watch.h>

static struct weir_reactor *reactor;
static struct weir_exporter *exporter;
static struct weir_timer *timeout;
static struct weir_mmap *memory;
static struct weir_op gone;
static uint64_t *words, n_words;
static pid_t importer;
static int pidfd = -1, status = 1;

/* Word @i: a question, @which 1, or its answer, 2; 14-import knows it, too. */
static uint64_t word(uint64_t i, uint64_t which)
{
	return (i + which) * 0x9e3779b97f4a7c15u;
}

/* The importer has ended.  What it left undone must be as it was. */
static void on_gone(struct weir_op *op, int64_t res)
{
	uint64_t i, answered = 0, lost = 0;

	(void)op;
	weir_exporter_remove(exporter, "memory");
	weir_reactor_stop(reactor);
	if (res < 0)
		return;
	for (i = 0; i < n_words; i++) {
		answered += words[i] == word(i, 2);
		lost += words[i] != word(i, 1) && words[i] != word(i, 2);
	}
	status = lost || answered < n_words;
	if (lost)
		fprintf(stderr, "13-export: %llu words are lost\n",
			(unsigned long long)lost);
	else if (status)
		fprintf(stderr, "13-export: the importer ended after %llu of "
			"%llu words; nothing is lost\n",
			(unsigned long long)answered,
			(unsigned long long)n_words);
	else
		printf("%llu words, all answered\n",
		       (unsigned long long)n_words);
}

/* Only the first process of our own user is served, and its end is watched. */
static int on_ask(struct weir_exporter *x,
		  const struct weir_exporter_peer *peer, const char *name,
		  void *arg)
{
	(void)x, (void)arg;
	printf("process %d of user %u asks for %s\n", (int)peer->pid,
	       (unsigned int)peer->uid, name);
	if (peer->uid != geteuid() || importer)
		return -EACCES;
	pidfd = (int)syscall(SYS_pidfd_open, peer->pid, 0);
	if (pidfd < 0)
		return -errno;
	importer = peer->pid;
	weir_timer_stop(timeout);
	weir_op_init(&gone, on_gone);
	return weir_poll(reactor, &gone, pidfd, WEIR_READABLE);
}

static void on_timeout(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer, (void)n, (void)arg;
	fprintf(stderr, "13-export: no importer came\n");
	weir_reactor_stop(reactor);
}

static int set_up(const char *path, size_t len)
{
	struct weir_exporter_opts opts = { .size = sizeof(opts),
					   .accept = on_ask };
	void *addr = NULL;
	uint64_t i;
	int err = weir_reactor_create(&reactor, NULL) ||
		  weir_timer_create(&timeout, reactor, on_timeout, NULL) ||
		  weir_mmap_create(&memory, NULL) ||
		  weir_mmap_alloc(memory, len, WEIR_MMAP_ALLOC_MEMFD) ||
		  weir_mmap_set_permissions(
			  memory, WEIR_MMAP_WRITE | WEIR_MMAP_PEER_WRITE) ||
		  weir_mmap_start(memory) ||
		  weir_mmap_memrange(memory, &addr, NULL) ||
		  weir_exporter_create(&exporter, reactor, path, &opts);

	if (err)
		return err;
	words = addr;
	n_words = len / 8;
	for (i = 0; i < n_words; i++)
		words[i] = word(i, 1);
	return weir_exporter_add(exporter, "memory", memory, NULL);
}

int main(int argc, char **argv)
{
	size_t mib = argc > 2 ? strtoul(argv[2], NULL, 10) : 1024;
	uint64_t wait = argc > 3 ? strtoul(argv[3], NULL, 10) : 3600;
	int err;

	if (argc < 2)
		return fprintf(stderr, "usage: 13-export SOCKET [MIB "
			       "[SECONDS]]\n"), 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (set_up(argv[1], mib << 20))
		return fprintf(stderr, "13-export: %s\n", weir_why()), 1;
	printf("%zu MiB at %s\n", mib, argv[1]);
	weir_timer_start(timeout, weir_reactor_now(reactor) + wait * WEIR_SEC,
			 0);
	weir_reactor_run(reactor);

	weir_exporter_destroy(exporter);
	weir_timer_destroy(timeout);
	err = weir_mmap_destroy(memory) | weir_reactor_destroy(reactor);
	close(pidfd);
	return err || status;
}
