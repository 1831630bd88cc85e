/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Copies to and from a GPU: jobs of libweir-cuda beside cuMemcpyAsync() alone.
 *
 * "pinned" is page-locked memory, "pageable" any other.  Both sides keep as many
 * copies in flight as the case says, on one stream for each direction.
 *
 * "file" reads a file with O_DIRECT and copies it to the GPU, by jobs, by hand: pread()
 * into one of two page-locked buffers while the other one is copied, and by
 * cuFileRead(), if libcufile.so.0 is there, whose compatibility mode does the same
 * where the kernel has no GPUDirect Storage.  With "no spin" the reactor sleeps at once.
 *
 * "deadline" is how late copies end that have not begun when their deadline comes.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/cuda/device.h>
#include <weir/dma.h>
#include <weir/domain.h>
#include <weir/inventory.h>
#include <weir/job.h>
#include <weir/mmap.h>
#include <weir/reactor.h>

#include "bench/bench.h"
#include "cuda/driver.h"

#define MEMORY ((size_t)128 << 20)
#define PART ((size_t)4 << 20)		/* Of the file. */
#define PARTS 4
#define QUEUE 64			/* Copies of 8 MiB with a deadline. */

static const struct cuda_driver *cu;
static CUcontext ctx;
static CUstream stream;
static struct weir_reactor *reactor, *no_spin;	/* Both on this thread. */
static struct weir_dma *dma, *dma_no_spin;
static struct weir_device *dev;
static struct weir_mmap *mmap_pinned;
static struct weir_inventory *inv, *inv_no_spin;
static uint64_t gpu;			/* MEMORY bytes. */
static char *pinned, *pageable;		/* Likewise. */
static int file;
static struct weir_domain *file_domain;
static uint64_t file_len;

static void check(CUresult err, const char *what)
{
	if (err) {
		fprintf(stderr, "%s: %s\n", what, cuda_error(err));
		exit(1);
	}
}

/* Jobs. */

struct slot {
	struct weir_job job;
	struct weir_job read;
	struct weir_buf *buf;
	uint64_t at;
	uint64_t ended_ns;
	int64_t res;
};

static struct slot slots[QUEUE];
static int in_flight;
static long left;		/* Copies to start. */
static size_t size;
static bool to_gpu, is_pinned;

static void start_slot(struct slot *s);

static void on_copied(struct weir_op *op, int64_t res)
{
	struct slot *s = weir_container_of(op, struct slot, job.op);

	bench_must((int)(res < 0 ? res : 0), "a copy");
	in_flight--;
	if (left > 0)
		start_slot(s);
}

static struct weir_operand far_side(const struct slot *s)
{
	return weir_operand_at(weir_cuda_domain(dev), gpu + s->at, size);
}

static void start_slot(struct slot *s)
{
	struct weir_operand here;

	left--;
	in_flight++;
	if (is_pinned) {
		here = weir_operand_buf(s->buf);
		if (!to_gpu)
			weir_buf_reset(s->buf);
	} else {
		here = weir_operand_mem(pageable + s->at, size);
	}
	weir_job_copy(&s->job, to_gpu ? far_side(s) : here,
		      to_gpu ? here : far_side(s));
	bench_must(weir_job_start(dma, &s->job), "weir_job_start");
}

static void make_slots(int depth)
{
	for (int i = 0; i < depth; i++) {
		slots[i].at = (uint64_t)i * size % MEMORY;
		weir_job_init(&slots[i].job, on_copied);
		bench_must(weir_inventory_get(&slots[i].buf, inv, mmap_pinned,
					      pinned + slots[i].at, size, NULL,
					      size), "weir_inventory_get");
	}
}

static void free_slots(int depth)
{
	for (int i = 0; i < depth; i++)
		weir_buf_put(slots[i].buf);
}

/* Returns the seconds. */
static double by_weir(int depth, long n)
{
	uint64_t begun;

	make_slots(depth);
	left = n;
	begun = bench_wall_ns();
	for (int i = 0; i < depth; i++)
		start_slot(&slots[i]);
	while (in_flight)
		bench_must(weir_reactor_turn(reactor, WEIR_FOREVER), "turn");
	begun = bench_wall_ns() - begun;
	free_slots(depth);
	return (double)begun / 1e9;
}

/* Two halves of the depth: one is in flight while the other one is made. */
static double by_cuda(int depth, long n)
{
	int half = depth > 1 ? depth / 2 : 1, k;
	char *here = is_pinned ? pinned : pageable;
	CUevent done[2];
	uint64_t begun, at;

	for (k = 0; k < 2; k++)
		check(cu->event_create(&done[k], CU_EVENT_DISABLE_TIMING),
		      "cuEventCreate");
	begun = bench_wall_ns();
	for (long i = 0; i < n; i++) {
		k = (int)(i / half % 2);
		if (i >= depth && !(i % half))
			while (cu->event_query(done[depth > 1 ? k : !k]) ==
			       CUDA_ERROR_NOT_READY)
				;
		at = (uint64_t)(i % depth) * size % MEMORY;
		check(cu->copy(to_gpu ? gpu + at : (uintptr_t)here + at,
			       to_gpu ? (uintptr_t)here + at : gpu + at, size,
			       stream), "cuMemcpyAsync");
		if (i % half == half - 1)
			check(cu->event_record(done[k], stream),
			      "cuEventRecord");
	}
	check(cu->stream_sync(stream), "cuStreamSynchronize");
	begun = bench_wall_ns() - begun;
	for (k = 0; k < 2; k++)
		cu->event_destroy(done[k]);
	return (double)begun / 1e9;
}

static void measure(struct bench *b, const char *kind, int depth, size_t len,
		    bool to)
{
	char what[48], text[24];
	size_t bytes = b->quick ? len * (size_t)depth : (size_t)1 << 30;
	long n;

	size = len;
	to_gpu = to;
	is_pinned = !strcmp(kind, "pinned");
	if (len < 65536 && !b->quick)
		bytes = (size_t)256 << 20;
	n = (long)(bytes / len);
	snprintf(what, sizeof(what), "%s, %s, %s x %d", kind,
		 to ? "to" : "from", bench_size_text(text, len), depth);
	bench_add(b, what, "cuMemcpyAsync", "GB/s",
		  (double)n * (double)len / 1e9 / by_cuda(depth, n));
	bench_add(b, what, "weir job", "GB/s",
		  (double)n * (double)len / 1e9 / by_weir(depth, n));
}

/* A file. */

static uint64_t read_at;

static void read_next(struct slot *s);

static void on_file_copied(struct weir_op *op, int64_t res)
{
	struct slot *s = weir_container_of(op, struct slot, job.op);

	bench_must((int)(res < 0 ? res : 0), "a copy");
	in_flight--;
	read_next(s);
}

static void on_read(struct weir_op *op, int64_t res)
{
	struct slot *s = weir_container_of(op, struct slot, read.op);

	if (res != (int64_t)PART)
		bench_die("a read", res < 0 ? (int)-res : EIO);
	weir_job_copy(&s->job, far_side(s), weir_operand_buf(s->buf));
	bench_must(weir_job_start(dma, &s->job), "weir_job_start");
}

static void read_next(struct slot *s)
{
	if (read_at == file_len)
		return;
	in_flight++;
	weir_buf_reset(s->buf);
	weir_job_copy(&s->read, weir_operand_buf(s->buf),
		      weir_operand_at(file_domain, read_at, PART));
	bench_must(weir_job_start(dma, &s->read), "a read");
	read_at += PART;
}

static double file_by_weir(void)
{
	uint64_t begun;

	size = PART;
	make_slots(PARTS);
	read_at = 0;
	begun = bench_wall_ns();
	for (int i = 0; i < PARTS; i++) {
		weir_job_init(&slots[i].job, on_file_copied);
		weir_job_init(&slots[i].read, on_read);
		read_next(&slots[i]);
	}
	while (in_flight)
		bench_must(weir_reactor_turn(reactor, WEIR_FOREVER), "turn");
	begun = bench_wall_ns() - begun;
	free_slots(PARTS);
	return (double)begun / 1e9;
}

static double file_by_hand(void)
{
	uint64_t begun = bench_wall_ns(), at;
	CUevent done[2];

	for (int i = 0; i < 2; i++)
		check(cu->event_create(&done[i], CU_EVENT_DISABLE_TIMING),
		      "cuEventCreate");
	for (at = 0; at < file_len; at += PART) {
		int k = (int)(at / PART % 2);

		if (at >= 2 * PART)
			while (cu->event_query(done[k]) == CUDA_ERROR_NOT_READY)
				;
		if (pread(file, pinned + k * PART, PART, (off_t)at) !=
		    (ssize_t)PART)
			bench_die("pread", errno);
		check(cu->copy(gpu + k * PART, (uintptr_t)pinned + k * PART,
			       PART, stream), "cuMemcpyAsync");
		check(cu->event_record(done[k], stream), "cuEventRecord");
	}
	check(cu->stream_sync(stream), "cuStreamSynchronize");
	begun = bench_wall_ns() - begun;
	for (int i = 0; i < 2; i++)
		cu->event_destroy(done[i]);
	return (double)begun / 1e9;
}

/* cuFile, as its headers have it. */

typedef struct {
	int err;
	CUresult cu_err;
} CUfileError_t;

typedef struct {
	int type;		/* 1: a file descriptor. */
	union {
		int fd;
		void *handle;
	} handle;
	const void *fs_ops;
} CUfileDescr_t;

static CUfileError_t (*cufile_open)(void);
static CUfileError_t (*cufile_register)(void **handle, CUfileDescr_t *descr);
static CUfileError_t (*cufile_buf_register)(const void *p, size_t len, int flags);
static ssize_t (*cufile_read)(void *handle, void *p, size_t len, off_t off,
			      off_t p_off);
static void *cufile_handle;	/* NULL: there is none. */

static void find_cufile(void)
{
	void *lib = dlopen("libcufile.so.0", RTLD_NOW);
	CUfileDescr_t descr = { .type = 1, .handle.fd = file };
	int err;

	if (!lib) {
		bench_note("no cuFile: %s", dlerror());
		return;
	}
	*(void **)&cufile_open = dlsym(lib, "cuFileDriverOpen");
	*(void **)&cufile_register = dlsym(lib, "cuFileHandleRegister");
	*(void **)&cufile_buf_register = dlsym(lib, "cuFileBufRegister");
	*(void **)&cufile_read = dlsym(lib, "cuFileRead");
	if (!cufile_open || !cufile_register || !cufile_buf_register ||
	    !cufile_read) {
		bench_note("no cuFile: the library lacks functions");
		return;
	}
	err = cufile_open().err;
	if (!err)
		err = cufile_register(&cufile_handle, &descr).err;
	if (err) {
		bench_note("no cuFile: it has error %d", err);
		cufile_handle = NULL;
		return;
	}
	if (cufile_buf_register((void *)(uintptr_t)gpu, MEMORY, 0).err)
		bench_note("cuFile does not register the GPU's memory");
}

/* In parts of 16 MiB, the largest of its own. */
static double file_by_cufile(void)
{
	const size_t part = file_len < 4 * PART ? PART : 4 * PART;
	uint64_t begun = bench_wall_ns(), at;

	for (at = 0; at < file_len; at += part)
		if (cufile_read(cufile_handle, (void *)(uintptr_t)gpu, part,
				(off_t)at, 0) != (ssize_t)part)
			bench_die("cuFileRead", errno);
	return (double)(bench_wall_ns() - begun) / 1e9;
}

static char path[4096];		/* cuFile finds the file by its name. */

static void remove_file(void)
{
	unlink(path);
}

static void make_file(struct bench *b)
{
	file_len = b->quick ? 2 * PART : (uint64_t)1 << 30;
	snprintf(path, sizeof(path), "%s/bench-cuda.%d", b->dir, (int)getpid());
	file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC,
		    0600);
	if (file < 0) {
		bench_note("no O_DIRECT in %s: the file is cached", b->dir);
		file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	}
	if (file < 0)
		bench_die(path, errno);
	atexit(remove_file);
	for (uint64_t at = 0; at < file_len; at += PART)
		if (pwrite(file, pinned, PART, (off_t)at) != (ssize_t)PART)
			bench_die("pwrite", errno);
	fsync(file);
	bench_must(weir_domain_file_create(&file_domain, file, NULL),
		   "weir_domain_file_create");
}

static void measure_weir_file(struct bench *b, const char *variant)
{
	double gb = (double)file_len / 1e9, s;
	uint64_t cpu = bench_process_ns();

	s = file_by_weir();
	bench_add(b, "file, rate", variant, "GB/s", gb / s);
	bench_add(b, "file, CPU", variant, "s/GB",
		  (double)(bench_process_ns() - cpu) / 1e9 / gb);
}

/* Reactors and what belongs to them. */
static void swap(void)
{
	struct weir_reactor *r = reactor;
	struct weir_inventory *i = inv;
	struct weir_dma *d = dma;

	reactor = no_spin;
	no_spin = r;
	inv = inv_no_spin;
	inv_no_spin = i;
	dma = dma_no_spin;
	dma_no_spin = d;
}

static void measure_peer_file(struct bench *b, const char *peer, double (*fn)(void))
{
	uint64_t cpu = bench_process_ns();
	double gb = (double)file_len / 1e9, s = fn();

	bench_add(b, "file, rate", peer, "GB/s", gb / s);
	bench_add(b, "file, CPU", peer, "s/GB",
		  (double)(bench_process_ns() - cpu) / 1e9 / gb);
}

static void measure_file(struct bench *b)
{
	measure_peer_file(b, "by hand", file_by_hand);
	if (cufile_handle)
		measure_peer_file(b, "cuFile", file_by_cufile);
	measure_weir_file(b, "weir");
	swap();
	measure_weir_file(b, "weir, no spin");
	swap();
}

/* Deadlines. */

static void on_deadline(struct weir_op *op, int64_t res)
{
	struct slot *s = weir_container_of(op, struct slot, job.op);

	s->res = res;
	s->ended_ns = bench_wall_ns();
	in_flight--;
}

static void measure_deadline(struct bench *b)
{
	uint64_t due, last = 0;
	int n = 0;

	size = (size_t)8 << 20;
	make_slots(QUEUE);
	for (int i = 0; i < QUEUE; i++) {
		weir_job_init(&slots[i].job, on_deadline);
		weir_job_copy(&slots[i].job, far_side(&slots[i]),
			      weir_operand_buf(slots[i].buf));
	}
	due = weir_reactor_now(reactor) + 200 * WEIR_USEC;
	for (int i = 0; i < QUEUE; i++) {
		weir_op_set_deadline(&slots[i].job.op, due);
		bench_must(weir_job_start(dma, &slots[i].job), "a start");
		in_flight++;
	}
	while (in_flight)
		bench_must(weir_reactor_turn(reactor, WEIR_FOREVER), "turn");
	for (int i = 0; i < QUEUE; i++) {
		struct weir_op_detail d = { 0 };

		weir_op_get_detail(&slots[i].job.op, &d);
		if (slots[i].res != -ETIMEDOUT || d.bytes)
			continue;
		n++;
		if (slots[i].ended_ns > last)
			last = slots[i].ended_ns;
	}
	free_slots(QUEUE);
	if (n)
		bench_add(b, "deadline, not begun", "weir job", "us late",
			  last > due ? (double)(last - due) / 1e3 : 0);
}

static void make_reactor(uint32_t spin)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts), .spin_ns = spin };

	bench_must(weir_reactor_create(&reactor, &opts), "a reactor");
	bench_must(weir_dma_create(&dma, reactor, NULL), "a context");
	bench_must(weir_dma_start(dma), "a context");
	bench_must(weir_inventory_create(&inv, reactor, NULL), "an inventory");
	bench_must(weir_inventory_attach(inv, mmap_pinned), "an inventory");
}

static bool make_all(void)
{
	const char *why = "";

	cu = cuda_driver(&why);
	if (!cu) {
		bench_note("no GPU: %s", why);
		return false;
	}
	if (weir_device_open_name(&dev, "cuda0")) {
		bench_note("no GPU: %s", weir_why());
		return false;
	}
	check(cu->ctx_retain(&ctx, 0), "cuDevicePrimaryCtxRetain");
	check(cu->ctx_push(ctx), "cuCtxPushCurrent");
	check(cu->stream_create(&stream, CU_STREAM_NON_BLOCKING),
	      "cuStreamCreate");
	bench_must(weir_cuda_alloc(dev, &gpu, MEMORY), "weir_cuda_alloc");
	pinned = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pageable = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pinned == MAP_FAILED || pageable == MAP_FAILED)
		bench_die("mmap", errno);
	memset(pinned, 1, MEMORY);
	memset(pageable, 2, MEMORY);
	bench_must(weir_mmap_create(&mmap_pinned, NULL), "an mmap");
	bench_must(weir_mmap_set_memrange(mmap_pinned, pinned, MEMORY), "mmap");
	bench_must(weir_mmap_add_device(mmap_pinned, dev), "mmap");
	bench_must(weir_mmap_set_permissions(mmap_pinned, WEIR_MMAP_READ |
					     WEIR_MMAP_WRITE), "mmap");
	bench_must(weir_mmap_start(mmap_pinned), "mmap");
	bench_must(weir_mmap_keys(mmap_pinned, dev, &(uint32_t){ 0 }, NULL),
		   "page-locking");
	make_reactor(WEIR_SPIN_NONE);
	swap();
	make_reactor(0);
	return true;
}

static void goals(struct bench *b)
{
	static const char *const large[] = {
		"pinned, to, 1 MiB x 4", "pinned, from, 1 MiB x 4",
		"pinned, to, 64 MiB x 2", "pinned, from, 64 MiB x 2",
	};

	for (size_t i = 0; i < ARRAY_SIZE(large); i++)
		bench_goal(b, "pinned, from 1 MiB on: at least 0.95 x "
			   "cuMemcpyAsync", large[i], "weir job",
			   "cuMemcpyAsync", BENCH_AT_LEAST, 0.95);
	bench_goal(b, "4 KiB by 32: at least 0.9 x cuMemcpyAsync",
		   "pinned, to, 4 KiB x 32", "weir job", "cuMemcpyAsync",
		   BENCH_AT_LEAST, 0.9);
	bench_goal(b, "4 KiB by 32: at least 0.9 x cuMemcpyAsync",
		   "pinned, from, 4 KiB x 32", "weir job", "cuMemcpyAsync",
		   BENCH_AT_LEAST, 0.9);
	bench_goal(b, "file: at least 0.9 x by hand", "file, rate", "weir",
		   "by hand", BENCH_AT_LEAST, 0.9);
	if (cufile_handle) {
		bench_goal(b, "file: at least 0.9 x cuFile", "file, rate",
			   "weir", "cuFile", BENCH_AT_LEAST, 0.9);
		bench_goal(b, "file: at most the CPU of cuFile", "file, CPU",
			   "weir, no spin", "cuFile", BENCH_AT_MOST, 1);
	}
	bench_goal(b, "file: at most the CPU of by hand", "file, CPU",
		   "weir, no spin", "by hand", BENCH_AT_MOST, 1);
	bench_goal(b, "deadline: at most 1 ms late", "deadline, not begun",
		   "weir job", NULL, BENCH_AT_MOST, 1000);
}

int main(int argc, char **argv)
{
	static struct bench b;

	bench_init(&b, "cuda", argc, argv);
	bench_pin(0);
	b.reference = "cuMemcpyAsync";
	b.noise_max = 4;
	if (!make_all())
		return bench_done(&b);
	make_file(&b);
	find_cufile();
	for (bench_begin(&b); bench_next(&b); ) {
		for (int to = 1; to >= 0; to--) {
			measure(&b, "pinned", 32, 4096, to);
			measure(&b, "pinned", 8, 65536, to);
			measure(&b, "pinned", 4, (size_t)1 << 20, to);
			measure(&b, "pinned", 2, (size_t)64 << 20, to);
			measure(&b, "pageable", 1, (size_t)64 << 20, to);
		}
		measure_file(&b);
		measure_deadline(&b);
	}
	goals(&b);
	return bench_done(&b);
}
