/* SPDX-License-Identifier: CC0-1.0 */

/*
 * Load a file of tensors (safetensors) into the memory of a GPU, or of this process
 * if there is none, with progress, cancel by Ctrl-C, and verification:
 *
 *	40-safetensors [FILE [DEVICE]]
 *
 * Without a file it makes one of its own.
 *
 * The file begins with 8 bytes, the length of the header, in little-endian order.
 * The header is JSON; "data_offsets" of a tensor are its first byte and the one after
 * its last in the rest of the file, which has no holes.
 *
 * Four parts are on their way at a time: each is read into page-locked memory, its
 * checksum is taken, and it is copied to the GPU.  At the end all of it is copied
 * back, part by part, and the checksums are compared.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/crc32c.h>
#include <weir/cuda/device.h>
#include <weir/dma.h>
#include <weir/file.h>
#include <weir/job.h>
#include <weir/mmap.h>
#include <weir/pool.h>
#include <weir/reactor.h>
#include <weir/watch.h>

#define PART ((size_t)1 << 20)
#define SLOTS 4
#define HEADER_MAX ((uint64_t)100 << 20)

struct slot {
	struct weir_op read;
	struct weir_job job;
	struct weir_buf *buf;
	void *mem;
	uint64_t part;
};

static struct weir_reactor *r;
static struct weir_dma *dma;
static struct weir_domain *target;	/* NULL: memory of this process. */
static struct slot slots[SLOTS];
static uint64_t begin, len, base, next_part, n_parts, n_done;
static uint32_t *crc;
static int fd, busy, verifying;
static int64_t failed;

static int fails(const char *what, const char *why)
{
	fprintf(stderr, "40-safetensors: %s: %s\n", what, why);
	return 1;
}

static size_t part_len(uint64_t part)
{
	uint64_t left = len - part * PART;

	return left < PART ? (size_t)left : PART;
}

static struct weir_operand far_side(const struct slot *s)
{
	return weir_operand_at(target, base + s->part * PART, part_len(s->part));
}

/* The header. */

/* The tensors that begin at @at, one after the other in any order of names, have
 * exactly @len bytes.  Returns how many there are, or -1. */
static long check_tensors(const char *json)
{
	static const char key[] = "\"data_offsets\":[";
	uint64_t from, to, sum = 0, last = 0;
	long n = 0;

	for (const char *at = json; (at = strstr(at, key)); n++) {
		char *end;

		at += sizeof(key) - 1;
		if (*at < '0' || *at > '9')
			return -1;
		from = strtoull(at, &end, 10);
		if (*end != ',' || end[1] < '0' || end[1] > '9')
			return -1;
		to = strtoull(end + 1, &end, 10);
		if (*end != ']' || to < from || to > len)
			return -1;
		sum += to - from;
		last = to > last ? to : last;
		at = end;
	}
	return sum == len && last == len ? n : -1;
}

static long read_header(uint64_t file_len)
{
	unsigned char head[8];
	uint64_t size = 0;
	char *json;
	long n = -1;

	if (file_len < 8 || pread(fd, head, 8, 0) != 8)
		return -1;
	for (int i = 7; i >= 0; i--)
		size = size << 8 | head[i];
	if (size < 2 || size > HEADER_MAX || size > file_len - 8)
		return -1;
	json = malloc(size + 1);
	if (json && pread(fd, json, size, 8) == (ssize_t)size) {
		json[size] = '\0';
		begin = 8 + size;
		len = file_len - begin;
		n = *json == '{' && strlen(json) == size ? check_tensors(json) :
							   -1;
	}
	free(json);
	return n;
}

/* Makes a file of three MiB with two tensors. */
static int make_file(void)
{
	static const char json[] =
		"{\"a\":{\"dtype\":\"U8\",\"shape\":[1000000],"
		"\"data_offsets\":[0,1000000]},"
		"\"b\":{\"dtype\":\"U8\",\"shape\":[2145728],"
		"\"data_offsets\":[1000000,3145728]}}";
	unsigned char head[8] = { sizeof(json) - 1 }, bytes[4096];
	FILE *f = tmpfile();
	int ret;

	if (!f)
		return -1;
	fwrite(head, 1, 8, f);
	fwrite(json, 1, sizeof(json) - 1, f);
	for (unsigned int i = 0; i < 3145728 / sizeof(bytes); i++) {
		memset(bytes, (int)i, sizeof(bytes));
		fwrite(bytes, 1, sizeof(bytes), f);
	}
	ret = fflush(f) ? -1 : dup(fileno(f));
	fclose(f);
	return ret;
}

/* The parts. */

static void next(struct slot *s);

static void stop_at(int64_t res)
{
	if (!failed)
		failed = res;
	for (int i = 0; i < SLOTS; i++) {
		weir_op_cancel(&slots[i].read);
		weir_op_cancel(&slots[i].job.op);
	}
}

static void on_copied(struct weir_op *op, int64_t res)
{
	struct slot *s = weir_container_of(op, struct slot, job.op);

	busy--;
	if (res < 0)
		stop_at(res);
	else if (verifying && s->job.crc != crc[s->part])
		stop_at(-EBADMSG);
	n_done++;
	if (isatty(2))
		fprintf(stderr, "\r%s %3d %%", verifying ? "verifying" : "loading",
			(int)(n_done * 100 / n_parts));
	next(s);
}

static void on_read(struct weir_op *op, int64_t res)
{
	struct slot *s = weir_container_of(op, struct slot, read);
	size_t want = part_len(s->part);
	int err = 0;

	if (res >= 0 && (size_t)res != want)
		res = -ENODATA; /* Somebody has cut the file. */
	if (res >= 0) {
		crc[s->part] = weir_crc32c(0, s->mem, want);
		weir_buf_set_data(s->buf, s->mem, want);
		weir_job_copy(&s->job, far_side(s), weir_operand_buf(s->buf));
		err = weir_job_start(dma, &s->job);
	}
	if (res >= 0 && !err)
		return;
	busy--;
	stop_at(err ? err : res);
}

static void next(struct slot *s)
{
	int err;

	if (failed || next_part == n_parts)
		return;
	s->part = next_part++;
	busy++;
	if (verifying) {
		weir_buf_reset(s->buf);
		weir_job_copy_crc32c(&s->job, weir_operand_buf(s->buf),
				     far_side(s), 0);
		err = weir_job_start(dma, &s->job);
	} else {
		err = weir_read(r, &s->read, fd, s->mem, part_len(s->part),
				begin + s->part * PART);
	}
	if (err) {
		busy--;
		stop_at(err);
	}
}

static int64_t go(void)
{
	next_part = n_done = 0;
	for (int i = 0; i < SLOTS; i++)
		next(&slots[i]);
	while (busy)
		weir_reactor_turn(r, WEIR_FOREVER);
	if (isatty(2))
		fputs("\n", stderr);
	return failed;
}

static void on_interrupt(struct weir_signal *signal,
			 const struct signalfd_siginfo *info, void *arg)
{
	(void)signal, (void)info, (void)arg;
	stop_at(-ECANCELED);
}

/* Page-locked by the GPU's driver, if there is one. */
static int make_slots(struct weir_pool **pool, struct weir_mmap **mmap,
		      struct weir_device *dev)
{
	struct weir_pool_opts opts = {
		.size = sizeof(opts), .bufs = SLOTS, .buf_size = PART,
	};
	int err = weir_mmap_create(mmap, NULL);

	err = err ? err : weir_mmap_alloc(*mmap, SLOTS * PART, 0);
	err = err || !dev ? err : weir_mmap_add_device(*mmap, dev);
	err = err ? err : weir_mmap_set_permissions(*mmap, WEIR_MMAP_READ |
							    WEIR_MMAP_WRITE);
	err = err ? err : weir_mmap_start(*mmap);
	opts.mmap = *mmap;
	err = err ? err : weir_pool_create(pool, r, &opts);
	for (int i = 0; i < SLOTS && !err; i++) {
		weir_op_init(&slots[i].read, on_read);
		weir_job_init(&slots[i].job, on_copied);
		err = weir_pool_get(&slots[i].buf, *pool);
		if (!err)
			slots[i].mem = weir_buf_addr(slots[i].buf);
	}
	return err;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "a file of its own";
	struct weir_device *dev = NULL;
	struct weir_signal *signal;
	struct weir_pool *pool;
	struct weir_mmap *mmap;
	struct stat st;
	void *mem = NULL;
	int64_t res;
	long n;

	if (argc > 3) {
		fprintf(stderr, "Usage: 40-safetensors [FILE [DEVICE]]\n");
		return 2;
	}
	fd = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : make_file();
	if (fd < 0 || fstat(fd, &st))
		return fails(name, strerror(errno));
	n = read_header((uint64_t)st.st_size);
	if (n < 0)
		return fails(name, "this is no file of safetensors");
	n_parts = (len + PART - 1) / PART;
	crc = calloc(n_parts + 1, sizeof(*crc));
	if (!crc || weir_reactor_create(&r, NULL) ||
	    weir_dma_create(&dma, r, NULL) || weir_dma_start(dma) ||
	    weir_signal_create(&signal, r, SIGINT, on_interrupt, NULL))
		return fails("the start", weir_why());
	if (len && !weir_device_open_name(&dev, argc > 2 ? argv[2] : "cuda0")) {
		if (weir_cuda_alloc(dev, &base, len))
			return fails("memory of the GPU", weir_why());
		target = weir_cuda_domain(dev);
	} else if (argc > 2) {
		return fails(argv[2], weir_why());
	} else {
		mem = malloc(len + 1);
		base = (uintptr_t)mem;
	}
	if (!base || make_slots(&pool, &mmap, dev))
		return fails("memory", weir_why());

	res = go();
	verifying = 1;
	if (!res)
		res = go();
	if (!res)
		printf("%ld tensors, %llu bytes, verified in the memory of %s\n",
		       n, (unsigned long long)len,
		       target ? weir_domain_id(target) : "this process: no GPU");
	else
		fails(name, res == -ECANCELED ? "interrupted" :
			       strerror((int)-res));
	for (int i = 0; i < SLOTS; i++)
		weir_buf_put(slots[i].buf);
	weir_signal_destroy(signal);
	free(mem);
	free(crc);
	close(fd);
	return weir_dma_destroy(dma) || weir_pool_destroy(pool) ||
	       weir_mmap_destroy(mmap) || (target && weir_cuda_free(dev, base)) ||
	       (dev && weir_device_close(dev)) || weir_reactor_destroy(r) || res;
}
