/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring: registered files and buffers, its flags, what the kernel has of it,
 * and its end.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/opts.h"
#include "base/own.h"
#include "base/why.h"
#include "reactor/io.h"
#include "reactor/rx.h"
#include "reactor/uring/uring.h"

/*
 * Registered files and buffers: tables in the ring, empty at first.
 *
 * The index of a file is its descriptor, so there is nothing to search, and
 * descriptors beyond the table are not registered.
 */

/* The kernel refuses a table of more files than the process may have open. */
static uint32_t files_max(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur > URING_FILES)
		return URING_FILES;
	return (uint32_t)lim.rlim_cur;
}

static void setup_files(struct uring *u)
{
	uint32_t n = files_max();

	u->files = mem_calloc(n, sizeof(*u->files));
	if (!u->files)
		return;
	if (fault("io_uring_register") ||
	    io_uring_register_files_sparse(&u->ring, n)) {
		free(u->files);
		u->files = NULL;
		return;
	}
	u->n_files = n;
}

static void setup_bufs(struct uring *u)
{
	uint32_t i;

	u->free_bufs = mem_calloc(URING_BUFS, sizeof(*u->free_bufs));
	if (!u->free_bufs)
		return;
	if (fault("io_uring_register") ||
	    io_uring_register_buffers_sparse(&u->ring, URING_BUFS)) {
		free(u->free_bufs);
		u->free_bufs = NULL;
		return;
	}
	/* The order in which the lowest is taken first. */
	for (i = 0; i < URING_BUFS; i++)
		u->free_bufs[i] = (uint16_t)(URING_BUFS - 1 - i);
	u->n_free_bufs = URING_BUFS;
}

static void uring_files_setup(struct uring *u)
{
	setup_files(u);
	setup_bufs(u);
}

/* The kernel drops its tables with the ring. */
static void uring_files_fini(struct uring *u)
{
	free(u->files);
	free(u->free_bufs);
}

int uring_fd_register(struct weir_reactor *r, int fd)
{
	struct uring *u = uring_of(r);

	reactor_check_thread(r);
	if (fd < 0 || (uint32_t)fd >= u->n_files)
		return 0;
	if (fault("io_uring_register") ||
	    io_uring_register_files_update(&u->ring, (unsigned int)fd, &fd,
					   1) != 1)
		return 0;
	u->files[fd] = true;
	if (u->files_top <= (uint32_t)fd)
		u->files_top = (uint32_t)fd + 1;
	return 1;
}

/* Requests that the kernel has not taken, and that mean the registered @fd, mean the
 * descriptor from now on. */
static void use_plain(struct uring *u, int fd)
{
	const struct io_uring_sq *sq = &u->ring.sq;
	uint32_t i = __atomic_load_n(sq->khead, __ATOMIC_ACQUIRE);
	struct io_uring_sqe *sqe;

	for (; i != sq->sqe_tail; i++) {
		sqe = &sq->sqes[(i & sq->ring_mask) << u->sqe_shift];
		if (sqe->fd == fd)
			sqe->flags &= (uint8_t)~IOSQE_FIXED_FILE;
	}
}

void uring_fd_unregister(struct weir_reactor *r, int fd)
{
	struct uring *u = uring_of(r);
	int none = -1;

	reactor_check_thread(r);
	if (fd < 0 || (uint32_t)fd >= u->files_top || !u->files[fd])
		return;
	/* An entry that was queued but not submitted refers to the file by
	 * index only; and the kernel need not take it now. */
	if (io_uring_sq_ready(&u->ring)) {
		io_uring_submit(&u->ring);
		use_plain(u, fd);
	}
	u->files[fd] = false;
	io_uring_register_files_update(&u->ring, (unsigned int)fd, &none, 1);
	while (u->files_top && !u->files[u->files_top - 1])
		u->files_top--;
}

static int update_buf(struct uring *u, unsigned int index,
		      const struct iovec *iov)
{
	static const uint64_t no_tag;
	int n;

	n = io_uring_register_buffers_update_tag(&u->ring, index, iov,
						 (const __u64 *)&no_tag, 1);
	return n < 0 ? n : 0;
}

int uring_buf_register(struct weir_reactor *r, const struct iovec *iov)
{
	struct uring *u = uring_of(r);
	unsigned int index;
	int err;

	reactor_check_thread(r);
	if (!u->free_bufs)
		return -EOPNOTSUPP;
	if (!u->n_free_bufs)
		return -ENOBUFS;
	index = u->free_bufs[u->n_free_bufs - 1];
	if (fault("io_uring_register"))
		return -ENOMEM;
	err = update_buf(u, index, iov);
	if (err)
		return err;
	debug_check(u->n_free_bufs > 0);
	u->n_free_bufs--;
	return (int)index;
}

void uring_buf_unregister(struct weir_reactor *r, int index)
{
	struct uring *u = uring_of(r);
	struct iovec none = { 0 };

	reactor_check_thread(r);
	check(index >= 0 && index < URING_BUFS);
	update_buf(u, (unsigned int)index, &none);
	u->free_bufs[u->n_free_bufs++] = (uint16_t)index;
}

/*
 * Setting up a ring, with as much as this kernel has, and taking it down.
 *
 * Each feature that is only faster is tried and done without if it fails.
 */

#define DRAIN_TURNS 100		/* Of DRAIN_TURN_NS: 1 s in all. */
#define DRAIN_TURN_NS (10 * WEIR_MSEC)
#define DRAIN_MAX 1024
#define PROBED 256		/* Opcodes that the kernel is asked about. */
#define REFUND_TRIES 5
#define REFUND_NS (10 * WEIR_MSEC)

/* Required: no completion is dropped, and waits take a timeout. */
#define NEEDED (IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG)

/* The best first.  A kernel returns EINVAL for a flag that it does not know. */
static const struct fallback {
	const char *name;
	unsigned int flags;
} ladder[] = {
	{ "SINGLE_ISSUER DEFER_TASKRUN", /* Linux 6.1 */
	  IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
		  IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL },
	{ "SINGLE_ISSUER COOP_TASKRUN", /* 6.0 */
	  IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN |
		  IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL },
	{ "COOP_TASKRUN", /* 5.19 */
	  IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
		  IORING_SETUP_SUBMIT_ALL },
	{ "SUBMIT_ALL", IORING_SETUP_SUBMIT_ALL }, /* 5.18 */
	{ "no flags", 0 },
};

#define N_FALLBACKS (sizeof(ladder) / sizeof(ladder[0]))
#define FALLBACK_COOP 1 /* The first without DEFER_TASKRUN. */

#define IO_OPCODE(kind, text, step, opcode, ...) [IO_##kind] = IORING_OP_##opcode,

const uint8_t uring_opcodes[IO_COPY_RANGE] = { IO_ROWS(IO_OPCODE) };

/* The kinds that a worker can do without waiting for a peer. */
static bool worker_can(unsigned int kind)
{
	return kind >= IO_FSYNC && kind <= IO_XATTR_SET;
}

/* 0, 1 or 2; -1 where the kernel has no such switch or it cannot be read. */
static int disabled_by_sysctl(void)
{
	int fd = open("/proc/sys/kernel/io_uring_disabled", O_RDONLY | O_CLOEXEC);
	char text[4];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (fd >= 0)
		close(fd);
	return n > 0 && text[0] >= '0' && text[0] <= '2' ? text[0] - '0' : -1;
}

/* Short enough for weir_reactor_describe(). */
static int explain_refusal(int err)
{
	switch (disabled_by_sysctl()) {
	case 2:
		return why(err, "weir_reactor_create: io_uring is not allowed "
			   "here: kernel.io_uring_disabled is 2; as root: "
			   "sysctl kernel.io_uring_disabled=0, or use the ev "
			   "backend");
	case 1:
		return why(err, "weir_reactor_create: io_uring is not allowed "
			   "here: kernel.io_uring_disabled is 1; join the "
			   "group of kernel.io_uring_group, or use the ev "
			   "backend");
	default:
		return why(err, "weir_reactor_create: io_uring is not allowed "
			   "here: a seccomp filter or a security module; allow "
			   "io_uring_setup(2), or use the ev backend");
	}
}

/* Whether @opts asks for entries that are larger than usual. */
static bool is_large(const struct weir_reactor_opts *opts)
{
	return opts->sqe128 || opts->cqe32;
}

static int explain_large(void)
{
	return why(-EINVAL, "weir_reactor_create: this kernel has no rings with "
		   "SQEs of 128 bytes and CQEs of 32, which takes Linux 5.19; "
		   "leave .sqe128 and .cqe32 at 0");
}

static int explain(int err)
{
	switch (err) {
	case -ENOSYS:
		return why(err, "weir_reactor_create: this kernel has no "
			   "io_uring, or a seccomp filter hides it; use the "
			   "ev backend");
	case -EPERM:
	case -EACCES:
		return explain_refusal(err);
	case -ENOMEM:
		return why(err, "weir_reactor_create: no memory for the rings "
			   "of io_uring; the kernel may count them towards "
			   "ulimit -l: raise it, or use the ev backend");
	case -EINVAL:
		return why(err, "weir_reactor_create: this kernel, or a filter, "
			   "answers io_uring_setup with EINVAL whatever its "
			   "flags; use the ev backend");
	default:
		return why_no_fd(err, "weir_reactor_create",
				 "a ring of io_uring");
	}
}

/* A filter may allow io_uring_setup() and refuse the other calls. */
static int refused(const char *call, int err)
{
	if (err == -ENOMEM)
		return explain(err);
	return why(err, "weir_reactor_create: %s is refused (%s), though "
		   "io_uring_setup is not, probably by a seccomp filter; allow "
		   "it, too, or use the ev backend", call, strerror(-err));
}

static int too_old(const char *what)
{
	return why(-ENOSYS, "weir_reactor_create: this kernel is too old: its "
		   "io_uring has no %s; it takes Linux 5.11, or the ev "
		   "backend", what);
}

static int init_ring(struct uring *u, uint32_t sq, uint32_t cq,
		     unsigned int flags)
{
	struct io_uring_params p = {
		.flags = flags | u->sizes | IORING_SETUP_CQSIZE |
			 IORING_SETUP_CLAMP,
		.cq_entries = cq > 2 * sq ? cq : 2 * sq,
	};
	int err;

	if (fault("io_uring_setup"))
		return -EINVAL;
	if (fault("io_uring_mmap"))
		return -ENOMEM;
	err = io_uring_queue_init_params(sq, &u->ring, &p);
	if (err)	/* uring_create() takes ENOSYS for explained. */
		return err == -ENOSYS ? explain(err) : err;
	u->has_cqe_skip = p.features & IORING_FEAT_CQE_SKIP;
	u->has_bundles = p.features & IORING_FEAT_RECVSEND_BUNDLE;
	if (p.features & IORING_FEAT_REG_REG_RING)
		u->zc_flags = IORING_SEND_ZC_REPORT_USAGE;
	if ((p.features & NEEDED) == NEEDED)
		return 0;
	io_uring_queue_exit(&u->ring);
	return too_old("waits with a timeout");
}

static int climb(struct uring *u, uint32_t sq, uint32_t cq,
		 unsigned int fallback)
{
	int err = -EINVAL;

	for (; fallback < N_FALLBACKS && err == -EINVAL; fallback++) {
		err = init_ring(u, sq, cq, ladder[fallback].flags);
		u->fallback = fallback;
	}
	return err;
}

/*
 * Where rings count towards a small ulimit -l, a smaller one fits; it only
 * takes more system calls.  And the kernel forgets some 20 ms late what was
 * counted for a ring that is gone, of this process or another.
 */
static int open_ring(struct uring *u, uint32_t sq, unsigned int fallback)
{
	const struct timespec refund = { .tv_nsec = REFUND_NS };
	uint32_t cq = URING_CQ_MIN;
	int err = climb(u, sq, cq, fallback);
	int i;

	while (err == -ENOMEM && cq > URING_CQ_LEAST) {
		cq /= 4;
		if (sq > cq / 4)
			sq = cq / 4;
		err = climb(u, sq, cq, fallback);
	}
	for (i = 0; err == -ENOMEM && i < REFUND_TRIES; i++) {
		nanosleep(&refund, NULL);
		err = climb(u, sq, cq, fallback);
	}
	return err;
}

/* With entries of the sizes that were asked for. */
static int open_sized(struct uring *u, uint32_t sq, unsigned int fallback)
{
	const struct weir_reactor_opts *opts = &u->r->opts;
	int err;

	if (opts->sqe128) {
		u->sizes |= IORING_SETUP_SQE128;
		u->sqe_shift = 1;
	}
	u->big_cqes = opts->cqe32;
	if (!opts->cqe32)
		return open_ring(u, sq, fallback);
	u->sizes |= IORING_SETUP_CQE_MIXED;
	err = fault_choice("cqe_mixed") ? -EINVAL : open_ring(u, sq, fallback);
	if (err != -EINVAL)
		return err;
	u->sizes ^= IORING_SETUP_CQE_MIXED | IORING_SETUP_CQE32;
	return open_ring(u, sq, fallback);
}

/* Also for what a filter has switched off. */
static int probe(struct uring *u)
{
	struct io_uring_probe *p;
	unsigned int i;
	int err;

	p = mem_calloc(1, sizeof(*p) + PROBED * sizeof(p->ops[0]));
	if (!p)
		return why(-ENOMEM, "weir_reactor_create: no memory");
	err = fault("io_uring_probe") ? -EPERM :
	      io_uring_register_probe(&u->ring, p, PROBED);
	if (err) {
		free(p);
		return refused("io_uring_register", err);
	}
	for (i = 0; i < IO_COPY_RANGE; i++) {
		if (io_uring_opcode_supported(p, uring_opcodes[i]))
			continue;
		u->unsupported |= URING_BIT(i);
		if (!worker_can(i))
			err = too_old("operations on sockets");
	}
	u->has_send_zc = io_uring_opcode_supported(p, IORING_OP_SEND_ZC);
	u->has_bundles &= io_uring_opcode_supported(p, IORING_OP_PIPE_6_16);
	for (i = 0; i < PROBED; i++)
		if (io_uring_opcode_supported(p, (int)i))
			u->opcodes[i / 64] |= UINT64_C(1) << i % 64;
	free(p);
	return err;
}

/* An operation that does nothing, there and back. */
static int try_enter(struct uring *u)
{
	const struct timespec refund = { .tv_nsec = REFUND_NS };
	struct io_uring_cqe *cqe;
	int err, tries = REFUND_TRIES;

	io_uring_prep_nop(io_uring_get_sqe(&u->ring));
	do
		err = fault("io_uring_enter_first") ? -EPERM :
		      io_uring_submit_and_wait(&u->ring, 1);
	while (err == -EINTR || (err == -EAGAIN && tries-- &&
				 !nanosleep(&refund, NULL)));
	/* The kernel had no memory for a request. */
	if (err == -EAGAIN)
		err = -ENOMEM;
	if (err >= 0)
		do
			err = io_uring_wait_cqe(&u->ring, &cqe);
		while (err == -EINTR);
	if (err < 0)
		return refused("io_uring_enter", err);
	io_uring_cqe_seen(&u->ring, cqe);
	return 0;
}

static int make_eventfd(struct uring *u)
{
	u->event_fd = fault("eventfd") ? (errno = EMFILE, -1) :
		      eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (u->event_fd >= 0)
		return 0;
	return why_no_fd(-errno, "weir_reactor_create", "an eventfd");
}

static void describe(const struct uring *u)
{
	const char *none = u->has_ring_fd || u->files || u->free_bufs ?
			   "" : " nothing";

	snprintf(u->r->describe, sizeof(u->r->describe),
		 "uring: kernel io_uring with %s%s%s; registered:%s%s%s%s; "
		 "capacity for %u operations in the kernel that do not wait",
		 ladder[u->fallback].name,
		 u->sizes & IORING_SETUP_SQE128 ? " SQE128" : "",
		 u->sizes & IORING_SETUP_CQE_MIXED ? " CQE_MIXED" :
		 u->sizes & IORING_SETUP_CQE32 ? " CQE32" : "",
		 none, u->has_ring_fd ? " ring" : "",
		 u->files ? " files" : "", u->free_bufs ? " buffers" : "",
		 u->window);
}

/*
 * As many threads of the kernel's own as there may be workers, for work on
 * files and for all else: what cannot be done without waiting is theirs.  The
 * limit is the thread's, whatever ring it was set by.  Since Linux 5.15.
 */
static void limit_threads(struct uring *u)
{
	unsigned int max[2] = { u->r->opts.workers, u->r->opts.workers };

	if (!fault("io_uring_register"))
		io_uring_register_iowq_max_workers(&u->ring, max);
}

static void init_queues(struct uring *u)
{
	uint32_t cq = u->ring.cq.ring_entries;

	u->window = cq - (cq / 4 < URING_RESERVE ? cq / 4 : URING_RESERVE);
	u->limit = u->window;
	op_queue_init(&u->backlog);
	op_queue_init(&u->connects);
	u->retry.last = &u->retry.first;
	u->starving.last = &u->starving.first;
	u->stale.last = &u->stale.first;
}

/* Of Linux 6.9; liburing 2.3 has neither. */
#define REGISTER_NAPI 27
struct napi {
	uint32_t busy_poll_us;
	uint8_t prefer;
	uint8_t zero[11];
};

static void setup_napi(struct uring *u)
{
	const struct weir_reactor_opts *opts = &u->r->opts;
	struct napi napi = { .busy_poll_us = opts->napi_us,
			     .prefer = (uint8_t)opts->napi_prefer };

	if (opts->napi_us && !fault("io_uring_register"))
		u->has_napi = !syscall(__NR_io_uring_register, u->ring.ring_fd,
				       REGISTER_NAPI, &napi, 1);
}

/* All after the ring itself. */
static int equip(struct uring *u)
{
	int err = probe(u);

	if (!err)
		err = try_enter(u);
	if (!err)
		err = make_eventfd(u);
	if (err)
		return err;
	init_queues(u);
	u->has_ring_fd = !fault("io_uring_register") &&
			 io_uring_register_ring_fd(&u->ring) == 1;
	uring_files_setup(u);
	limit_threads(u);
	setup_napi(u);
	u->nosignal = io_nosignal();
	describe(u);
	u->wake_wanted = true;
	uring_poll_wake(u);
	if (own_on_valgrind() && uring_pollfd(u->r) < 0)
		return explain(-ENOMEM);
	return 0;
}

/* Nothing of ours may be in flight when the ring is closed. */
static void drain(struct uring *u)
{
	unsigned int i;

	u->wake_wanted = false;
	for (i = 0; i < DRAIN_TURNS && u->wake_polled; i++) {
		u->wake_ending = false;
		uring_wait(u->r, DRAIN_TURN_NS);
		uring_reap(u->r, DRAIN_MAX);
	}
}

static void uring_free(struct uring *u)
{
	drain(u);
	if (u->has_ring_fd)
		io_uring_unregister_ring_fd(&u->ring);
	io_uring_queue_exit(&u->ring);
	if (u->event_fd >= 0)
		close(u->event_fd);
	uring_files_fini(u);
	free(u);
}

static int create(struct weir_reactor *r, uint32_t entries,
		  unsigned int fallback)
{
	struct uring *u = mem_aligned(64, sizeof(*u));
	int err;

	if (!u)
		return why(-ENOMEM, "weir_reactor_create: no memory");
	u->r = r;
	u->event_fd = -1;
	err = open_sized(u, entries, fallback);
	if (err) {
		free(u);
		if (err == -EINVAL && is_large(&r->opts))
			return explain_large();
		return err == -ENOSYS ? err : explain(err);
	}
	r->backend_data = u;
	err = equip(u);
	if (err) {
		uring_free(u);
		r->backend_data = NULL;
	}
	return err;
}

int uring_create(struct weir_reactor *r, const struct weir_reactor_opts *opts)
{
	bool coop = opts->hosted || own_on_valgrind();

	reactor_check_thread(r);
	return create(r, opts->ring_entries, coop ? FALLBACK_COOP : 0);
}

void uring_destroy(struct weir_reactor *r)
{
	reactor_check_thread(r);
	uring_free(uring_of(r));
	r->backend_data = NULL;
}

static void move_files(struct weir_reactor *r, const struct uring *from)
{
	for (uint32_t fd = 0; fd < from->files_top; fd++)
		if (from->files[fd])
			uring_fd_register(r, (int)fd);
}

/*
 * Replace a ring that has deferred task work by one that has not.  With
 * deferred task work the kernel signals the ring's eventfd late (15 ms), and on
 * some kernels only once, if the cause is a write to another eventfd; a foreign
 * loop needs the signal each time.  Called before the reactor is used.
 */
int uring_undefer(struct weir_reactor *r)
{
	struct uring *old = uring_of(r), *made;
	int err;

	reactor_check_thread(r);
	if (!(old->ring.flags & IORING_SETUP_DEFER_TASKRUN))
		return 0;
	err = create(r, r->opts.ring_entries, FALLBACK_COOP);
	if (err) {
		r->backend_data = old;
		return err;
	}
	move_files(r, old);
	/* It is the reactor's once more while what it has out is called in. */
	made = uring_of(r);
	r->backend_data = old;
	uring_free(old);
	r->backend_data = made;
	return 0;
}
