/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Jobs over libfabric's tcp beside libfabric alone, each between two processes on
 * loopback: writes and reads of 1 MiB, 16 in flight, and of 8 bytes, one after the
 * other.  Libfabric's ends poll all the time, as those of fi_rma_bw and
 * fi_rma_pingpong; weir's loops look for a while before they sleep.  CPU time is that
 * of both processes.
 */

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weir/dma.h>
#include <weir/fabric/device.h>
#include <weir/inventory.h>
#include <weir/job.h>
#include <weir/mmap.h>
#include <weir/export.h>
#include <weir/reactor.h>

#include "bench/bare-fabric.h"
#include "bench/bench.h"

#define LEN ((size_t)1 << 20)
#define DEPTH 16u
#define MIB (1024.0 * 1024.0)

struct one_case {
	const char *name;
	size_t bytes;
	uint32_t depth, n;
	bool read;
};

static const struct one_case cases[] = {
	{ "write 1 MiB", LEN, DEPTH, 512, false },
	{ "read 1 MiB", LEN, DEPTH, 512, true },
	{ "write 8 B", 8, 1, 3000, false },
	{ "read 8 B", 8, 1, 3000, true },
};

/* The owner of the memory. */

static pid_t owner;
static int from_owner;

static void own(int to)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_device *device;
	struct weir_reactor *r;
	struct weir_mmap *m;
	struct weir_dma *dma;

	if (weir_fabric_open(&device, "127.0.0.1") ||
	    weir_reactor_create(&r, NULL) || weir_dma_create(&dma, r, NULL) ||
	    weir_dma_start(dma) || weir_mmap_create(&m, NULL) ||
	    weir_mmap_alloc(m, LEN, 0) || weir_mmap_add_device(m, device) ||
	    weir_mmap_set_permissions(m, WEIR_MMAP_READ | WEIR_MMAP_WRITE |
						 WEIR_MMAP_PEER_READ |
						 WEIR_MMAP_PEER_WRITE) ||
	    weir_mmap_start(m) ||
	    weir_mmap_export_device(m, device, NULL, &desc) ||
	    write(to, desc.bytes, desc.len) < 0)
		_exit(1);
	close(to);
	weir_reactor_run(r);
	_exit(0);
}

/* Before this process uses libfabric. */
static void fork_owner(void)
{
	int fd[2];

	bench_must(pipe(fd), "pipe");
	owner = fork();
	bench_must(owner, "fork");
	if (!owner) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd[0]);
		own(fd[1]);
	}
	close(fd[1]);
	from_owner = fd[0];
}

/* This process. */

static struct weir_reactor *reactor;
static struct weir_dma *dma;
static struct weir_inventory *inventory;
static struct weir_mmap *there;
static struct weir_job jobs[DEPTH];
static char here[LEN];
static const struct one_case *now;
static uint32_t begun, ended;

/* NULL, or why there is nothing to measure. */
static const char *our_connect(void)
{
	struct weir_device *device;
	char desc[4096];
	size_t len = 0;
	ssize_t n;

	if (reactor)
		return NULL;
	while ((n = read(from_owner, desc + len, sizeof(desc) - len)) > 0)
		len += (size_t)n;
	if (!len)
		return "libfabric has no provider tcp";
	bench_must(weir_fabric_open(&device, "127.0.0.1"), "weir_fabric_open");
	bench_must(weir_reactor_create(&reactor, NULL), "a reactor");
	bench_must(weir_dma_create(&dma, reactor, NULL), "a DMA context");
	bench_must(weir_dma_start(dma), "weir_dma_start");
	bench_must(weir_mmap_import_device(&there, device, desc, len, NULL),
		   "weir_mmap_import_device");
	bench_must(weir_inventory_create(&inventory, reactor, NULL),
		   "an inventory");
	bench_must(weir_inventory_attach(inventory, there),
		   "weir_inventory_attach");
	return NULL;
}

static void begin(struct weir_job *job)
{
	begun++;
	bench_must(weir_job_start(dma, job), "weir_job_start");
}

static void on_moved(struct weir_op *op, int64_t res)
{
	bench_must((int)res, "a job");
	ended++;
	if (begun < now->n)
		begin(weir_job_of(op));
}

/* Of each of @bufs one job at a time writes. */
static void our_move(const struct one_case *c, struct weir_buf *const bufs[DEPTH])
{
	uint32_t i;

	now = c;
	begun = ended = 0;
	for (i = 0; i < c->depth; i++) {
		weir_job_init(&jobs[i], on_moved);
		if (c->read)
			weir_job_copy(&jobs[i], weir_operand_mem(here, c->bytes),
				      weir_operand_buf(bufs[i]));
		else
			weir_job_copy(&jobs[i], weir_operand_buf(bufs[i]),
				      weir_operand_mem(here, c->bytes));
		if (!c->read)
			jobs[i].flags = WEIR_JOB_OVERWRITE;
		begin(&jobs[i]);
	}
	while (ended < c->n)
		bench_must(weir_reactor_turn(reactor, WEIR_FOREVER), "turn");
}

static struct weir_buf *far_buf(size_t bytes)
{
	struct weir_buf *buf;
	void *addr;
	size_t len;

	bench_must(weir_mmap_memrange(there, &addr, &len), "weir_mmap_memrange");
	bench_must(weir_inventory_get_by_data(&buf, inventory, there, addr,
					      bytes), "a buf");
	return buf;
}

static uint64_t cpu_of(pid_t pid)
{
	struct timespec ts = { 0 };
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &ts))
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

struct times {
	pid_t other;
	uint64_t wall, cpu;
};

static struct times start_times(pid_t other)
{
	return (struct times){ other, bench_wall_ns(),
			       bench_process_ns() + cpu_of(other) };
}

static void add_times(struct bench *b, const struct one_case *c,
		      const char *variant, struct times t)
{
	double wall = (double)(bench_wall_ns() - t.wall);
	double cpu = (double)(bench_process_ns() + cpu_of(t.other) - t.cpu);

	if (c->depth > 1)
		bench_add(b, c->name, variant, "MiB/s",
			  c->n * (double)c->bytes / MIB * 1e9 / wall);
	else
		bench_add(b, c->name, variant, "us", wall / c->n / 1e3);
	bench_add(b, c->name, variant, "us CPU", cpu / c->n / 1e3);
}

static void ours(struct bench *b, struct one_case c)
{
	struct weir_buf *bufs[DEPTH];
	struct one_case few = c;
	struct times t;
	uint32_t i;

	for (i = 0; i < DEPTH; i++)
		bufs[i] = far_buf(c.bytes);
	few.n = c.depth;
	our_move(&few, bufs);
	t = start_times(owner);
	our_move(&c, bufs);
	add_times(b, &c, "weir", t);
	for (i = 0; i < DEPTH; i++)
		weir_buf_put(bufs[i]);
}

static void bare(struct bench *b, struct one_case c)
{
	struct times t;

	bare_begin();
	bare_move(c.read, c.bytes, c.depth, c.depth);
	t = start_times(bare_pid());
	bare_move(c.read, c.bytes, c.depth, c.n);
	add_times(b, &c, "libfabric", t);
	bare_end();
}

static void goals(struct bench *b)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		if (cases[i].depth > 1)
			bench_goal(b, "bandwidth, at least libfabric's",
				   cases[i].name, "weir", "libfabric",
				   BENCH_AT_LEAST, 1.0);
		else
			bench_goal(b, "8 bytes, at most 1.15 times libfabric",
				   cases[i].name, "weir", "libfabric",
				   BENCH_AT_MOST, 1.15);
	}
}

int main(int argc, char **argv)
{
	static struct bench b;
	const char *why;
	size_t i;

	bench_init(&b, "fabric", argc, argv);
	fork_owner();
	bare_fork(LEN);
	why = our_connect();
	if (!why)
		why = bare_connect();
	if (why)
		bench_note("%s", why);
	b.reference = "libfabric";
	for (bench_begin(&b); !why && bench_next(&b);) {
		uint64_t cpu = cpu_of(owner) + cpu_of(bare_pid());

		for (i = 0; i < ARRAY_SIZE(cases); i++) {
			struct one_case c = cases[i];

			c.n = b.quick ? c.n / 10 : c.n;
			if (bench_wants(&b, "libfabric"))
				bare(&b, c);
			if (bench_wants(&b, "weir"))
				ours(&b, c);
		}
		cpu = cpu_of(owner) + cpu_of(bare_pid()) - cpu;
		bench_own_cpu(&b, (double)cpu / 1e9);
	}
	goals(&b);
	kill(owner, SIGKILL);
	waitpid(owner, NULL, 0);
	bare_kill();
	return bench_done(&b);
}
