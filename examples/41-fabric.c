/* SPDX-License-Identifier: CC0-1.0 */

/*
 * Memory is lent to a process on another machine (here: the same), which reads all of
 * it, writes to it without end, and gets an error when it is taken back.  When the
 * lease has ended the memory is the owner's alone: whatever it writes there stays.
 *
 *	41-fabric lend ADDRESS >descriptor	on one machine, for a minute
 *	41-fabric borrow ADDRESS <descriptor	on another: its own address
 *
 * Without arguments it does both, for two seconds.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/dma.h>
#include <weir/fabric/device.h>
#include <weir/inventory.h>
#include <weir/job.h>
#include <weir/lease.h>
#include <weir/mmap.h>
#include <weir/reactor.h>

#define LEN (16u << 20)
#define MINE 0x5a

static struct weir_reactor *reactor;
static struct weir_dma *dma;
static struct weir_device *device;

/* The owner answers on the reactor of its DMA context. */
static int begin(const char *address)
{
	return weir_fabric_open(&device, address) ||
	       weir_reactor_create(&reactor, NULL) ||
	       weir_dma_create(&dma, reactor, NULL) || weir_dma_start(dma);
}

static int failed(void)
{
	fprintf(stderr, "41-fabric: %s\n", weir_why());
	return 1;
}

/* The borrower. */

static struct weir_buf *there;
static struct weir_job job;
static unsigned char *here;
static uint64_t moved;
static int64_t end;

/* First a read of everything, then one write after the other. */
static void on_copied(struct weir_op *op, int64_t res)
{
	(void)op;
	if (res > 0 && !moved)
		fprintf(stderr, "read %lld bytes, each %s\n", (long long)res,
			here[0] == MINE && !memcmp(here, here + 1, LEN - 1) ?
				"as it should be" : "another");
	moved += res > 0 ? (uint64_t)res : 0;
	end = res;
	if (res >= 0) {
		weir_job_copy(&job, weir_operand_buf(there),
			      weir_operand_mem(here, LEN));
		job.flags = WEIR_JOB_OVERWRITE;
		end = weir_job_start(dma, &job);
	}
	if (end < 0)
		weir_reactor_stop(reactor);
}

static int borrow(const char *address, FILE *from)
{
	struct weir_inventory *inventory;
	struct weir_mmap *memory;
	unsigned char desc[4096];
	size_t len = fread(desc, 1, sizeof(desc), from);
	void *addr;

	here = calloc(1, LEN);
	if (!here || begin(address) ||
	    weir_mmap_import_device(&memory, device, desc, len, NULL) ||
	    weir_mmap_memrange(memory, &addr, &len) ||
	    weir_inventory_create(&inventory, reactor, NULL) ||
	    weir_inventory_attach(inventory, memory) ||
	    weir_inventory_get_by_data(&there, inventory, memory, addr, len))
		return failed();
	weir_job_init(&job, on_copied);
	weir_job_copy(&job, weir_operand_mem(here, LEN), weir_operand_buf(there));
	if (weir_job_start(dma, &job))
		return failed();
	weir_reactor_run(reactor);
	fprintf(stderr, "moved %llu MB, until: %s\n",
		(unsigned long long)moved / 1000000, strerror((int)-end));
	return !moved || (end != -ECONNRESET && end != -ESTALE);
}

/* The owner. */

static struct weir_lease *lease;
static unsigned char memory[LEN];
static struct weir_op op;

static void stop(struct weir_op *o, int64_t res)
{
	(void)o, (void)res;
	weir_reactor_stop(reactor);
}

static int lend(const char *address, FILE *to, uint64_t ns)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_lease_opts opts = { .size = sizeof(opts),
					.duration_ns = ns };
	struct weir_mmap *mmap;

	memset(memory, MINE, LEN);
	if (begin(address) || weir_mmap_create(&mmap, NULL) ||
	    weir_mmap_set_memrange(mmap, memory, LEN) ||
	    weir_mmap_add_device(mmap, device) ||
	    weir_mmap_set_permissions(mmap, WEIR_MMAP_READ | WEIR_MMAP_WRITE |
						    WEIR_MMAP_PEER_READ |
						    WEIR_MMAP_PEER_WRITE) ||
	    weir_mmap_start(mmap))
		return failed();
	opts.device = device;
	if (weir_lease_create(&lease, reactor, mmap, &opts) ||
	    weir_lease_export(lease, &desc))
		return failed();
	if (fwrite(desc.bytes, desc.len, 1, to) != 1 || fclose(to))
		return 1;
	op.fn = stop;
	if (weir_lease_wait(lease, &op))
		return failed();
	weir_reactor_run(reactor);
	return 0;
}

/* Bytes that arrive after the end, until the borrower has ended too. */
static int count_late(void)
{
	unsigned long late = 0;
	int status = 1;

	memset(memory, MINE, LEN);
	/* What arrives does so in a turn. */
	while (!waitpid(-1, &status, WNOHANG))
		weir_reactor_turn(reactor, 10 * WEIR_MSEC);
	for (size_t i = 0; i < LEN; i++)
		late += memory[i] != MINE;
	fprintf(stderr, "%lu late bytes\n", late);
	return late || status;
}

static int both(void)
{
	int fd[2], status;
	FILE *file;

	if (pipe(fd))
		return 1;
	if (!fork()) {
		close(fd[1]);
		file = fdopen(fd[0], "r");
		return file ? borrow("127.0.0.1", file) : 1;
	}
	close(fd[0]);
	file = fdopen(fd[1], "w");
	status = file ? lend("127.0.0.1", file, 2 * WEIR_SEC) : 1;
	return status ? status : count_late();
}

int main(int argc, char **argv)
{
	if (argc == 1)
		return both();
	if (argc == 3 && !strcmp(argv[1], "lend"))
		return lend(argv[2], stdout, 60 * WEIR_SEC);
	if (argc == 3 && !strcmp(argv[1], "borrow"))
		return borrow(argv[2], stdin);
	fputs("usage: 41-fabric [lend ADDRESS | borrow ADDRESS]\n", stderr);
	return 2;
}
