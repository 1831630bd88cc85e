/* SPDX-License-Identifier: CC0-1.0 */

/*
 * Two processes and a ring of blocks in shared memory: one fills blocks, on a
 * reactor, the other consumes them, and has none.  They tell each other by two
 * sync events, which lie in that memory: how many were filled, and emptied.
 *
 * For how the descriptor of the memory gets to a stranger see 13-export.
 */

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/export.h>
#include <weir/mmap.h>
#include <weir/reactor.h>
#include <weir/sync.h>

#define BLOCKS 4
#define WORDS 8192 /* In a block. */
#define TURNS 2000 /* Blocks in all. */
#define RING 4096  /* Where the blocks are; before that: */
#define FILLED 0
#define EMPTIED 64
#define LEN (RING + 8 * BLOCKS * WORDS)
#define TIMEOUT (10 * WEIR_SEC) /* The other one may be dead. */

static struct weir_reactor *reactor;
static struct weir_mmap *memory;
static struct weir_sync *filled, *emptied;
static uint64_t n_filled;
static int64_t result = -1;

static uint64_t *block(uint64_t i)
{
	void *addr = NULL;

	weir_mmap_memrange(memory, &addr, NULL);
	return (uint64_t *)addr + RING / 8 + i % BLOCKS * WORDS;
}

/* For another block; in the end, until all are empty. */
static int wait_for_capacity(struct weir_op *op)
{
	uint64_t n = n_filled < BLOCKS ? 0 : n_filled + 1 - BLOCKS;

	weir_op_set_deadline(op, weir_reactor_now(reactor) + TIMEOUT);
	return weir_sync_wait(emptied, reactor, op, WEIR_SYNC_GE,
			      n_filled < TURNS ? n : TURNS, WEIR_SYNC_ALL);
}

static void on_capacity(struct weir_op *op, int64_t res)
{
	uint64_t i, *words = block(n_filled);

	result = res;
	if (!result && n_filled < TURNS) {
		for (i = 0; i < WORDS; i++)
			words[i] = n_filled * WORDS + i;
		n_filled++;
		result = weir_sync_add(filled, 1, NULL);
		if (!result)
			result = wait_for_capacity(op);
		if (!result)
			return;
	}
	weir_reactor_stop(reactor);
}

/* In the child.  What was written before the signal is there after the wait. */
static int consume(const struct weir_export_desc *d)
{
	int err = weir_mmap_import(&memory, d->bytes, d->len, d->fds, d->n_fds,
				   NULL) ||
		  weir_sync_open(&filled, memory, FILLED) ||
		  weir_sync_open(&emptied, memory, EMPTIED);
	uint64_t i, n;

	for (n = 0; n < TURNS && !err; n++) {
		err = weir_sync_wait_blocking(filled, WEIR_SYNC_GE, n + 1,
					      WEIR_SYNC_ALL, TIMEOUT);
		for (i = 0; i < WORDS && !err; i++)
			if (block(n)[i] != n * WORDS + i)
				err = -EILSEQ;
		if (!err)
			err = weir_sync_add(emptied, 1, NULL);
	}
	return err != 0;
}

int main(void)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	int status = 1;
	struct weir_op op;

	weir_op_init(&op, on_capacity);
	if (weir_mmap_create(&memory, NULL) ||
	    weir_mmap_alloc(memory, LEN, WEIR_MMAP_ALLOC_MEMFD) ||
	    weir_mmap_set_permissions(memory, WEIR_MMAP_WRITE |
						      WEIR_MMAP_PEER_WRITE) ||
	    weir_mmap_start(memory) ||
	    weir_sync_create_in(&filled, memory, FILLED, NULL) ||
	    weir_sync_create_in(&emptied, memory, EMPTIED, NULL) ||
	    weir_mmap_export(memory, NULL, &desc))
		return fprintf(stderr, "%s\n", weir_why()), 1;
	if (!fork())
		return consume(&desc);
	if (!weir_reactor_create(&reactor, NULL) && !wait_for_capacity(&op))
		weir_reactor_run(reactor);
	wait(&status);
	printf("%llu blocks filled, %s\n", (unsigned long long)n_filled,
	       status || result ? "not all emptied" : "all emptied");
	return weir_reactor_destroy(reactor) | weir_sync_destroy(filled) |
	       weir_sync_destroy(emptied) | weir_mmap_destroy(memory) |
	       status | (result != 0);
}
