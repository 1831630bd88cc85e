/* SPDX-License-Identifier: CC0-1.0 */

/*
 * Memory of another process.
 *
 *	14-import SOCKET
 *
 * Imports what 13-export has at the socket, and works through it, a piece after
 * the other: questions come by one job, answers go by another.  The exporter is
 * watched: if it ends too early, so do we, with an error.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir/buf.h>
#include <weir/dma.h>
#include <weir/export.h>
#include <weir/inventory.h>
#include <weir/job.h>
#include <weir/mmap.h>
#include <weir/reactor.h>

static struct weir_reactor *reactor;
static struct weir_inventory *inventory;
static struct weir_dma *dma;
static struct weir_mmap *theirs;	/* What we have imported. */
static struct weir_buf *buf;		/* The piece of it in work. */
static struct weir_job job;
static struct weir_op import, watch;
static uint64_t mine[131072];
static void *addr;
static size_t len, done;
static int status = 1;

static uint64_t word(uint64_t i, uint64_t which)
{
	return (i + which) * 0x9e3779b97f4a7c15u;
}

/* The first is the cause; what it cancels has no more to say. */
static void fail(const char *what, int64_t err)
{
	if (err != -ECANCELED)
		fprintf(stderr, "14-import: %s: %s; %zu of %zu bytes are "
			"answered\n", what, strerror((int)-err), done, len);
	weir_reactor_stop(reactor);
}

static void on_questions(struct weir_op *op, int64_t res);

/* Get the next piece of questions. */
static void next(void)
{
	size_t n = len - done < sizeof(mine) ? len - done : sizeof(mine);
	char *at = (char *)addr + done;
	int err = weir_inventory_get(&buf, inventory, theirs, at, n, at, n);

	weir_job_init(&job, on_questions);
	weir_job_copy(&job, weir_operand_mem(mine, n), weir_operand_buf(buf));
	if (!err)
		err = weir_job_start(dma, &job);
	if (err)
		fail("reading", err);
}

static void on_answers(struct weir_op *op, int64_t res)
{
	(void)op;
	weir_buf_put(buf);
	buf = NULL;
	if (res < 0) {
		fail("writing", res);
		return;
	}
	done += (size_t)res;
	status = done < len;
	if (status) {
		next();
		return;
	}
	printf("%zu bytes read, and as many written\n", len);
	weir_reactor_stop(reactor);
}

static void on_questions(struct weir_op *op, int64_t res)
{
	uint64_t i, n = (uint64_t)res / 8, at = done / 8;
	int err = 0;

	(void)op;
	if (res < 0) {
		fail("reading", res);
		return;
	}
	for (i = 0; i < n && mine[i] == word(at + i, 1); i++)
		mine[i] = word(at + i, 2);
	weir_job_init(&job, on_answers);
	weir_job_copy(&job, weir_operand_buf(buf),
		      weir_operand_mem(mine, n * 8));
	job.flags = WEIR_JOB_OVERWRITE;
	err = i < n ? -EILSEQ : weir_job_start(dma, &job);
	if (err)
		fail("answering", err);
}

static void on_end(struct weir_op *op, int64_t res)
{
	(void)op;
	fail("the exporter has ended", res);
}

static void on_import(struct weir_op *op, int64_t res)
{
	theirs = weir_mmap_imported(op);
	weir_op_init(&watch, on_end);
	if (!res)
		res = weir_mmap_memrange(theirs, &addr, &len);
	if (!res)
		res = weir_inventory_attach(inventory, theirs);
	if (!res)
		res = weir_mmap_watch(theirs, reactor, &watch);
	if (res)
		fail("importing", res);
	else
		next();
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return fprintf(stderr, "usage: 14-import SOCKET\n"), 2;
	weir_op_init(&import, on_import);
	if (weir_reactor_create(&reactor, NULL) ||
	    weir_inventory_create(&inventory, reactor, NULL) ||
	    weir_dma_create(&dma, reactor, NULL) || weir_dma_start(dma) ||
	    weir_mmap_import_from(reactor, &import, argv[1], "memory", NULL))
		return fprintf(stderr, "14-import: %s\n", weir_why()), 1;
	weir_reactor_run(reactor);
	weir_buf_put(buf);
	return weir_dma_destroy(dma) | weir_inventory_destroy(inventory) |
	       weir_mmap_destroy(theirs) | weir_reactor_destroy(reactor) ||
	       status;
}
