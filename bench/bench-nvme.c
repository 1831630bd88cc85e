/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Random reads of 4 KiB from an NVMe namespace by passthrough, 1 and 32 at a time:
 * wall time, and CPU time of the process that reads.  It only reads, from the device that
 * WEIR_BENCH_NVME names ("ng0n1"), or the first that can be used.
 *
 *	bare ring	io_uring's commands in a loop; half of the reads are submitted
 *			and waited for at once
 *	fio		its io_uring_cmd engine, likewise
 *	weir job	a copy from the namespace to memory
 *	weir command	weir_nvme_submit()
 */

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <liburing.h>
#include <linux/nvme_ioctl.h>

#include <weir/dma.h>
#include <weir/job.h>
#include <weir/nvme/nvme.h>
#include <weir/reactor.h>

#include "bench/bench.h"

#define BLOCK 4096
#define DEPTH_MAX 128

static struct weir_device *device;
static struct weir_nvme_info info = { .size = sizeof(info) };
static char name[64];
static uint64_t seed = 0x853c49e6748fea9b;
static char *memory;	/* DEPTH_MAX blocks */
static uint32_t depth;

static uint64_t random_block(void)
{
	return bench_random(&seed) % (info.blocks * info.block_size / BLOCK);
}

static uint64_t random_lba(void)
{
	return random_block() * (BLOCK / info.block_size);
}

/* A bare ring. */

static void bare_read(struct io_uring *ring, int fd, uint32_t slot)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct nvme_uring_cmd cmd = {
		.opcode = 2, .nsid = info.nsid, .data_len = BLOCK,
		.addr = (uintptr_t)(memory + slot * BLOCK),
		.cdw12 = BLOCK / info.block_size - 1,
	};
	uint64_t lba = random_lba();

	cmd.cdw10 = (uint32_t)lba;
	cmd.cdw11 = (uint32_t)(lba >> 32);
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	sqe->cmd_op = NVME_URING_CMD_IO;
	memcpy(sqe->cmd, &cmd, sizeof(cmd));
	io_uring_sqe_set_data64(sqe, slot);
}

static void run_bare(uint64_t n)
{
	uint32_t batch = depth > 1 ? depth / 2 : 1, k;
	uint64_t started, done = 0;
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	unsigned int head;
	char path[80];
	int fd;

	snprintf(path, sizeof(path), "/dev/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		bench_die(path, errno);
	bench_must(io_uring_queue_init(DEPTH_MAX, &ring, IORING_SETUP_SQE128 |
				       IORING_SETUP_CQE32), "ring");
	for (started = 0; started < depth; started++)
		bare_read(&ring, fd, (uint32_t)started);
	while (done < n) {
		k = n - done < batch ? (uint32_t)(n - done) : batch;
		if (io_uring_submit_and_wait(&ring, k) < 0)
			bench_die("submit", EIO);
		k = 0;
		io_uring_for_each_cqe(&ring, head, cqe) {
			if (cqe->res)
				bench_die("a command of the ring", EIO);
			if (started < n) {
				bare_read(&ring, fd, (uint32_t)cqe->user_data);
				started++;
			}
			k++;
		}
		io_uring_cq_advance(&ring, k);
		done += k;
	}
	io_uring_queue_exit(&ring);
	close(fd);
}

/* weir */

struct read {
	struct weir_job job;
	struct weir_op op;
	struct weir_nvme_cmd cmd;
	char *to;
};

static struct weir_reactor *reactor;
static struct weir_dma *dma;
static struct weir_nvme_queue *queue;
static struct read reads[DEPTH_MAX];
static uint64_t left, running;
static void (*start)(struct read *rd);

static void on_end(struct read *rd, int64_t res)
{
	if (res < 0)
		bench_die("a read by weir", (int)-res);
	running--;
	if (left)
		start(rd);
	else if (!running)
		weir_reactor_break(reactor);
}

static void on_job(struct weir_op *op, int64_t res)
{
	on_end(weir_container_of(op, struct read, job.op), res);
}

static void on_command(struct weir_op *op, int64_t res)
{
	on_end(weir_container_of(op, struct read, op), res);
}

static void start_job(struct read *rd)
{
	left--;
	running++;
	weir_job_copy(&rd->job, weir_operand_mem(rd->to, BLOCK),
		      weir_operand_at(weir_nvme_domain(device),
				      random_block() * BLOCK, BLOCK));
	bench_must(weir_job_start(dma, &rd->job), "weir_job_start");
}

static void start_command(struct read *rd)
{
	uint64_t lba = random_lba();

	left--;
	running++;
	rd->cmd = (struct weir_nvme_cmd){
		.size = sizeof(rd->cmd), .opcode = 2, .data = rd->to,
		.data_len = BLOCK, .cdw10 = (uint32_t)lba,
		.cdw11 = (uint32_t)(lba >> 32),
		.cdw12 = BLOCK / info.block_size - 1,
	};
	bench_must(weir_nvme_submit(queue, &rd->op, &rd->cmd),
		   "weir_nvme_submit");
}

static void run_weir(uint64_t n)
{
	left = n;
	for (uint32_t i = 0; i < depth; i++) {
		weir_job_init(&reads[i].job, on_job);
		weir_op_init(&reads[i].op, on_command);
		reads[i].to = memory + (size_t)i * BLOCK;
		start(&reads[i]);
	}
	bench_must(weir_reactor_run(reactor), "weir_reactor_run");
}

static void run_jobs(uint64_t n)
{
	start = start_job;
	run_weir(n);
}

static void run_commands(uint64_t n)
{
	start = start_command;
	run_weir(n);
}

/* fio, which says itself what it has used. */

static double number_after(const char *text, const char *what)
{
	const char *at = text ? strstr(text, what) : NULL;
	double value;

	at = at ? strchr(at + strlen(what), ':') : NULL;
	return at && sscanf(at + 1, "%lf", &value) == 1 ? value : NAN;
}

static void add_fio(struct bench *b, const char *cpu_of, const char *rate_of)
{
	static char out[1 << 16];
	uint32_t batch = depth > 1 ? depth / 2 : 1;
	double cpu, rate;
	char command[512];
	size_t n;
	FILE *f;

	snprintf(command, sizeof(command), "fio --name=nvme --filename=/dev/%s "
		 "--rw=randread --bs=4k --ioengine=io_uring_cmd --cmd_type=nvme "
		 "--iodepth=%u --iodepth_batch=%u "
		 "--iodepth_batch_complete_min=%u "
		 "--iodepth_batch_complete_max=%u --norandommap "
		 "--gtod_reduce=1 --time_based --runtime=%dms "
		 "--output-format=json 2>/dev/null", name, depth, batch, batch,
		 depth, b->quick ? 100 : 1000);
	f = popen(command, "r");
	if (!f)
		return;
	n = fread(out, 1, sizeof(out) - 1, f);
	out[n] = 0;
	if (pclose(f))
		return;
	rate = number_after(strstr(out, "\"read\""), "\"iops\"") / 1e3;
	cpu = (number_after(out, "\"usr_cpu\"") +
	       number_after(out, "\"sys_cpu\"")) / 100 * 1e3 / rate;
	if (!(cpu > 0))
		return;
	bench_add(b, cpu_of, "fio", "us/IO", cpu);
	bench_add(b, rate_of, "fio", "kIO/s", rate);
}

/* All of them */

static void names_of(char cpu[32], char rate[32])
{
	snprintf(cpu, 32, "%u in flight, CPU", depth);
	snprintf(rate, 32, "%u in flight", depth);
}

static void measure(struct bench *b, const char *variant,
		    void (*run)(uint64_t n))
{
	uint64_t n = b->quick ? 2000 : 50000, wall, cpu;
	char cpu_of[32], rate_of[32];

	if (!bench_wants(b, variant))
		return;
	names_of(cpu_of, rate_of);
	wall = bench_wall_ns();
	cpu = bench_process_ns();
	run(n);
	cpu = bench_process_ns() - cpu;
	wall = bench_wall_ns() - wall;
	bench_add(b, cpu_of, variant, "us/IO", (double)cpu / 1e3 / (double)n);
	bench_add(b, rate_of, variant, "kIO/s",
		  (double)n * 1e6 / (double)wall);
}

static void goals(struct bench *b)
{
	static const char *const variants[] = { "weir job", "weir command" };
	char cpu_of[32], rate_of[32];

	names_of(cpu_of, rate_of);
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++) {
		bench_goal(b, "NVMe reads: at least fio's rate", rate_of,
			   variants[i], "fio", BENCH_AT_LEAST, 1);
		bench_goal(b, "NVMe reads: at most fio's CPU", cpu_of,
			   variants[i], "fio", BENCH_AT_MOST, 1);
	}
}

/* Sets @device, unless there is none, with the reason. */
static void open_device(void)
{
	const char *wanted = getenv("WEIR_BENCH_NVME"), *why = "there is none";
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_devinfo **list;
	size_t n, i;

	weir_nvme_init();
	bench_must(weir_device_list(&list, &n), "weir_device_list");
	for (i = 0; i < n && !device; i++) {
		weir_devinfo_caps(list[i], &caps);
		if (caps.kind != WEIR_DEVICE_NVME ||
		    (wanted && strcmp(caps.name, wanted)))
			continue;
		if (!(caps.flags & WEIR_DEVICE_USABLE))
			why = caps.why;
		else if (weir_device_open(&device, list[i]))
			why = weir_why();
	}
	weir_device_list_free(list);
	if (!device) {
		bench_note("no NVMe device: %s", why);
		return;
	}
	strcpy(name, caps.name);
	weir_nvme_info(device, &info);
}

static void measure_all(struct bench *b)
{
	bool has_fio = !system("command -v fio >/dev/null");
	char cpu_of[32], rate_of[32];

	if (!has_fio)
		bench_note("no fio: left out");
	for (int i = 0; i < b->depths.n; i++) {
		depth = (uint32_t)b->depths.value[i];
		if (!depth || depth > DEPTH_MAX)
			bench_die("--depth", E2BIG);
		names_of(cpu_of, rate_of);
		for (bench_begin(b); bench_next(b); ) {
			measure(b, "bare ring", run_bare);
			if (has_fio && bench_wants(b, "fio"))
				add_fio(b, cpu_of, rate_of);
			measure(b, "weir job", run_jobs);
			measure(b, "weir command", run_commands);
		}
		goals(b);
	}
}

int main(int argc, char **argv)
{
	static const uint64_t depths[] = { 1, 32 };
	static struct bench b;

	bench_init_with(&b, "nvme", BENCH_DEPTHS, argc, argv);
	bench_default(&b.depths, depths, ARRAY_SIZE(depths));
	open_device();
	if (!device)
		return bench_done(&b);
	if (posix_memalign((void **)&memory, BLOCK, DEPTH_MAX * BLOCK))
		bench_die("memory", ENOMEM);
	memset(memory, 0, DEPTH_MAX * BLOCK);
	bench_must(weir_reactor_create(&reactor, NULL), "a reactor");
	bench_must(weir_dma_create(&dma, reactor, NULL), "a DMA context");
	bench_must(weir_dma_start(dma), "weir_dma_start");
	bench_must(weir_nvme_queue_create(&queue, reactor, device, NULL),
		   "a queue");
	measure_all(&b);
	bench_must(weir_nvme_queue_destroy(queue), "the queue");
	bench_must(weir_dma_destroy(dma), "the context");
	bench_must(weir_reactor_destroy(reactor), "the reactor");
	bench_must(weir_device_close(device), "the device");
	free(memory);
	return bench_done(&b);
}
