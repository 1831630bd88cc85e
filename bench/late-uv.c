/* SPDX-License-Identifier: BSD-3-Clause */

/* See the header. */

#include "bench/late-uv.h"

#ifdef HAVE_LIBUV

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <uv.h>

struct in_flight {
	char *memory;
	size_t size;
	uint64_t ended_ns;	/* In its callback. */
};

static void paint(struct in_flight *f)
{
	f->ended_ns = late_now();
	late_paint(f->memory, f->size);
}

static void on_read(uv_fs_t *req)
{
	paint(req->data);
}

static char *memory_of(struct late_one *one, size_t size, int byte)
{
	char *memory = malloc(size);

	if (!memory)
		late_skip(one, "no memory");
	memset(memory, byte, size);
	return memory;
}

static int file_of(struct late_one *one, const char *memory, size_t size)
{
	int fd = memfd_create("late-uv", MFD_CLOEXEC);

	for (size_t at = 0; at < size; ) {
		ssize_t n = fd < 0 ? -1 : write(fd, memory + at, size - at);

		if (n <= 0)
			late_skip(one, "no memfd");
		at += (size_t)n;
	}
	return fd;
}

void late_uv_read(struct late_one *one, size_t size, const void *arg)
{
	struct in_flight f = { .size = size };
	uv_buf_t buf;
	uint64_t begun;
	uv_loop_t loop;
	uv_fs_t req;
	int fd, err;

	(void)arg;
	f.memory = memory_of(one, size, LATE_THEIRS);
	fd = file_of(one, f.memory, size);
	memset(f.memory, 0, size);
	if (uv_loop_init(&loop))
		late_skip(one, "uv_loop_init failed");
	buf = uv_buf_init(f.memory, (unsigned int)size);
	req.data = &f;
	if (uv_fs_read(&loop, &req, fd, &buf, 1, 0, on_read))
		late_skip(one, "uv_fs_read failed");
	/* Until the worker has begun: what only waits is cancelled at once. */
	while (!__atomic_load_n(&f.memory[0], __ATOMIC_RELAXED))
		;
	late_delay_spin(size);
	begun = late_now();
	err = uv_cancel((uv_req_t *)&req);
	one->refused = err == UV_EBUSY;
	uv_run(&loop, UV_RUN_DEFAULT);
	one->end_ns = f.ended_ns - begun;
	usleep(late_settle_us(size));
	one->bytes = late_count_bytes(f.memory, size);
}

/* The other end, which is slow: it reads a page at a time. */
struct drain {
	int fd;
	uint64_t late;		/* Bytes of after the end. */
};

static void *read_all(void *arg)
{
	struct drain *d = arg;
	char page[4096];
	ssize_t n;

	while ((n = read(d->fd, page, sizeof(page))) > 0)
		for (ssize_t i = 0; i < n; i++)
			d->late += page[i] == LATE_OURS;
	return NULL;
}

static void on_write(uv_write_t *req, int status)
{
	(void)status;
	paint(req->data);
}

static void nothing(uv_handle_t *handle)
{
	(void)handle;
}

void late_uv_write(struct late_one *one, size_t size, const void *arg)
{
	struct in_flight f = { .size = size };
	struct drain d = { .late = 0 };
	uint64_t begun, until;
	pthread_t thread;
	uv_write_t req;
	uv_loop_t loop;
	uv_pipe_t pipe;
	uv_buf_t buf;
	int fds[2];

	(void)arg;
	f.memory = memory_of(one, size, LATE_THEIRS);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) || uv_loop_init(&loop) ||
	    uv_pipe_init(&loop, &pipe, 0) || uv_pipe_open(&pipe, fds[0]))
		late_skip(one, "no stream");
	d.fd = fds[1];
	if (pthread_create(&thread, NULL, read_all, &d))
		late_skip(one, "no thread");
	buf = uv_buf_init(f.memory, (unsigned int)size);
	req.data = &f;
	if (uv_write(&req, (uv_stream_t *)&pipe, &buf, 1, on_write))
		late_skip(one, "uv_write failed");
	until = late_now() + late_delay(size);
	do {
		uv_run(&loop, UV_RUN_NOWAIT);
	} while (!f.ended_ns && late_now() < until);
	one->too_early = f.ended_ns > 0;
	begun = late_now();
	uv_close((uv_handle_t *)&pipe, nothing);
	uv_run(&loop, UV_RUN_DEFAULT);
	one->end_ns = one->too_early ? 0 : f.ended_ns - begun;
	pthread_join(thread, NULL);
	one->bytes = d.late;
}

const char *late_uv_version(void)
{
	return uv_version_string();
}

#else

void late_uv_read(struct late_one *one, size_t size, const void *arg)
{
	(void)size;
	(void)arg;
	late_skip(one, "libuv was not found (libuv1-dev)");
}

void late_uv_write(struct late_one *one, size_t size, const void *arg)
{
	late_uv_read(one, size, arg);
}

const char *late_uv_version(void)
{
	return "";
}

#endif
