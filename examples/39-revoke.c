/* SPDX-License-Identifier: CC0-1.0 */

/*
 * Memory is lent to another process and taken back while that writes to it.  When
 * the revoke has completed the memory is the owner's alone: whatever it writes
 * there stays.  The other process gets -ESTALE.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/dma.h>
#include <weir/export.h>
#include <weir/inventory.h>
#include <weir/job.h>
#include <weir/mmap.h>
#include <weir/reactor.h>

#define LEN (16u << 20)
#define MINE 0x5a

static struct weir_reactor *reactor;
static struct weir_mmap *memory;
static struct weir_op op;
static uint64_t begun_ns, late;
static int revoked = -1;

/* In either process, where it is. */
static unsigned char *bytes(void)
{
	void *addr;
	size_t len;

	return weir_mmap_memrange(memory, &addr, &len) ? NULL : addr;
}

/* The other process. */

static struct weir_dma *dma;
static struct weir_buf *there;
static struct weir_job job;
static uint64_t moved;
static char *from;

/* One copy after the other, until one is refused or fails. */
static void on_copied(struct weir_op *o, int64_t res)
{
	(void)o;
	if (res > 0)
		moved += (uint64_t)res;
	if (res < 0 || weir_job_start(dma, &job))
		weir_reactor_stop(reactor);
}

static int borrow(const struct weir_export_desc *d, int out)
{
	struct weir_inventory *inventory;

	from = calloc(1, LEN);
	if (!from || weir_reactor_create(&reactor, NULL) ||
	    weir_mmap_import(&memory, d->bytes, d->len, d->fds, d->n_fds,
			     NULL) ||
	    weir_inventory_create(&inventory, reactor, NULL) ||
	    weir_inventory_attach(inventory, memory) ||
	    weir_inventory_get_by_addr(&there, inventory, memory,
				       bytes(), LEN) ||
	    weir_dma_create(&dma, reactor, NULL) || weir_dma_start(dma))
		return fprintf(stderr, "39-revoke: %s\n", weir_why()), 1;
	weir_job_init(&job, on_copied);
	weir_job_copy(&job, weir_operand_buf(there), weir_operand_mem(from, LEN));
	job.flags = WEIR_JOB_OVERWRITE;
	if (weir_job_start(dma, &job))
		return 1;
	weir_reactor_run(reactor);
	if (write(out, &moved, sizeof(moved)) != sizeof(moved))
		return 1;
	return weir_job_start(dma, &job) == -ESTALE ? 0 : 1;
}

/* The owner. */

static void on_later(struct weir_op *o, int64_t res)
{
	(void)o, (void)res;
	for (size_t i = 0; i < LEN; i++)
		late += bytes()[i] != MINE;
	weir_reactor_stop(reactor);
}

static void wait_ms(uint64_t ms, weir_op_fn *fn)
{
	op.fn = fn;
	if (weir_sleep_until(reactor, &op,
			     weir_reactor_now(reactor) + ms * WEIR_MSEC))
		weir_reactor_stop(reactor);
}

static void on_revoked(struct weir_op *o, int64_t res)
{
	(void)o;
	revoked = (int)res;
	memset(bytes(), MINE, LEN);
	printf("revoked in %llu us: %s\n",
	       (unsigned long long)(weir_reactor_now(reactor) - begun_ns) / 1000,
	       res ? strerror((int)-res) : "the memory is the owner's alone");
	wait_ms(100, on_later);
}

static void begin_revoke(struct weir_op *o, int64_t res)
{
	(void)o, (void)res;
	begun_ns = weir_reactor_now(reactor);
	op.fn = on_revoked;
	if (weir_mmap_revoke(memory, reactor, &op))
		weir_reactor_stop(reactor);
}

int main(void)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	int status = 1, fd[2];

	if (pipe(fd) || weir_mmap_create(&memory, NULL) ||
	    weir_mmap_alloc(memory, LEN, WEIR_MMAP_ALLOC_MEMFD) ||
	    weir_mmap_set_permissions(memory, WEIR_MMAP_WRITE |
						      WEIR_MMAP_PEER_WRITE) ||
	    weir_mmap_start(memory) ||
	    weir_mmap_export(memory, NULL, &desc))
		return fprintf(stderr, "39-revoke: %s\n", weir_why()), 1;
	if (!fork())
		return borrow(&desc, fd[1]);
	if (weir_reactor_create(&reactor, NULL))
		return 1;
	wait_ms(200, begin_revoke);
	weir_reactor_run(reactor);
	if (read(fd[0], &moved, sizeof(moved)) != sizeof(moved))
		moved = 0;
	wait(&status);
	printf("the other process wrote %llu MB, then got -ESTALE: %s\n",
	       (unsigned long long)moved / 1000000, status ? "no" : "yes");
	printf("%llu late bytes\n", (unsigned long long)late);
	return weir_reactor_destroy(reactor) | weir_mmap_destroy(memory) |
	       revoked | (late != 0) | (moved == 0) | status;
}
