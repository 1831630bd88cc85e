/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_EXPORT_FIXTURE_H
#define TESTS_EXPORT_FIXTURE_H

/*
 * What the tests of export and import share: memory that can be exported, other
 * processes, and a descriptor on its way to them.
 *
 * Another process is forked, before anything that it must not inherit is there.
 * It has no cmocka: what it expects, it says by EXPECT, and it ends by _exit().
 */

#include "tests/support/harness.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <weir/crc32c.h>
#include <weir/export.h>
#include <weir/mmap.h>

#define FIXTURE_LEN 10000 /* Not a multiple of a page. */
#define RO WEIR_MMAP_PEER_READ
#define RW (WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE)

/* Memory of a memfd of its own, not started. */
static inline struct weir_mmap *fixture_mmap(size_t len, uint32_t permissions)
{
	struct weir_mmap *m = NULL;

	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_alloc(m, len, WEIR_MMAP_ALLOC_MEMFD), 0);
	assert_int_equal(
		weir_mmap_set_permissions(m, WEIR_MMAP_WRITE | permissions), 0);
	return m;
}

static inline struct weir_mmap *fixture_started(size_t len,
						uint32_t permissions)
{
	struct weir_mmap *m = fixture_mmap(len, permissions);

	assert_int_equal(weir_mmap_start(m), 0);
	return m;
}

static inline char *fixture_addr(const struct weir_mmap *m)
{
	void *addr = NULL;

	return weir_mmap_memrange(m, &addr, NULL) ? NULL : addr;
}

/* A descriptor with its file descriptors, as it arrives. */
struct parcel {
	char bytes[1024];
	size_t len;
	int fds[WEIR_EXPORT_FDS];
	uint32_t n_fds;
};

/* Of our own: duplicates. */
static inline void parcel_fill(struct parcel *p,
			       const struct weir_export_desc *desc)
{
	uint32_t i;

	assert_true(desc->len <= sizeof(p->bytes));
	memcpy(p->bytes, desc->bytes, desc->len);
	p->len = desc->len;
	p->n_fds = desc->n_fds;
	for (i = 0; i < desc->n_fds; i++) {
		p->fds[i] = fcntl(desc->fds[i], F_DUPFD_CLOEXEC, 0);
		assert_true(p->fds[i] >= 0);
	}
}

static inline void parcel_of(struct parcel *p, struct weir_mmap *m,
			     const struct weir_export_opts *opts)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };

	assert_int_equal(weir_mmap_export(m, opts, &desc), 0);
	parcel_fill(p, &desc);
}

static inline void parcel_drop(struct parcel *p)
{
	uint32_t i;

	for (i = 0; i < p->n_fds; i++)
		close(p->fds[i]);
	p->n_fds = 0;
}

static inline int parcel_import(struct weir_mmap **ret, const struct parcel *p,
				const struct weir_import_opts *opts)
{
	return weir_mmap_import(ret, p->bytes, p->len, p->fds, p->n_fds, opts);
}

union parcel_control {
	struct cmsghdr align;
	char buf[CMSG_SPACE(WEIR_EXPORT_FDS * sizeof(int))];
};

static inline int parcel_send(int sock, const struct parcel *p)
{
	struct iovec iov = { (void *)p->bytes, p->len };
	union parcel_control control = { .buf = { 0 } };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = CMSG_SPACE(p->n_fds * sizeof(int)),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(p->n_fds * sizeof(int));
	memcpy(CMSG_DATA(cmsg), p->fds, p->n_fds * sizeof(int));
	return sendmsg(sock, &msg, MSG_NOSIGNAL) == (ssize_t)p->len ? 0 : -1;
}

static inline int parcel_recv(int sock, struct parcel *p)
{
	struct iovec iov = { p->bytes, sizeof(p->bytes) };
	union parcel_control control = { .buf = { 0 } };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	struct cmsghdr *cmsg;
	ssize_t n;

	memset(p, 0, sizeof(*p));
	n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	if (n <= 0)
		return -1;
	cmsg = CMSG_FIRSTHDR(&msg);
	p->len = (size_t)n;
	if (cmsg) {
		p->n_fds = (uint32_t)((cmsg->cmsg_len - CMSG_LEN(0)) /
				      sizeof(int));
		memcpy(p->fds, CMSG_DATA(cmsg), p->n_fds * sizeof(int));
	}
	return 0;
}

/* Another process. */
struct proc {
	pid_t pid;
	int sock; /* To it: packets. */
};

/* In the other process: what has to be so. */
#define EXPECT(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, \
				"%s:%d, in the other process: " \
				"%s (%s)\n", \
				__FILE__, __LINE__, #cond, weir_why()); \
			_exit(1); \
		} \
	} while (0)

/* Run @fn there. */
static inline void proc_begin(struct proc *p, void (*fn)(int sock, void *arg),
			      void *arg)
{
	int ends[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	fflush(stdout);
	fflush(stderr);
	p->pid = fork();
	assert_true(p->pid >= 0);
	if (!p->pid) {
		close(ends[0]);
		fn(ends[1], arg);
		_exit(0);
	}
	close(ends[1]);
	p->sock = ends[0];
}

/* Wait for its end.  Returns 0 if it found all as expected. */
static inline int proc_end(struct proc *p)
{
	int status;

	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
	close(p->sock);
	return status;
}

static inline void proc_kill(struct proc *p)
{
	kill(p->pid, SIGKILL);
	assert_int_equal(proc_end(p), SIGKILL);
}

/* One byte there or back, as a sign.  Returns 0 if it came. */
static inline int say(int sock)
{
	return send(sock, "", 1, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

static inline int hear(int sock)
{
	char c;

	return recv(sock, &c, 1, 0) == 1 ? 0 : -1;
}

#endif /* TESTS_EXPORT_FIXTURE_H */
