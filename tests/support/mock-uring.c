/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model's rings, as the functions of liburing that reactor/uring calls, in
 * place of liburing.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/mock-uring-internal.h"

#define SQ_MAX 32768
#define CQ_MAX 65536

/* What came when: of Linux VERSION, 100 * major + minor. */
struct since {
	int version;
	unsigned int bits;
};

static const struct since setup_flags[] = {
	{ 510, IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP },
	{ 518, IORING_SETUP_SUBMIT_ALL },
	{ 519, IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
	       IORING_SETUP_SQE128 | IORING_SETUP_CQE32 },
	{ 600, IORING_SETUP_SINGLE_ISSUER },
	{ 601, IORING_SETUP_DEFER_TASKRUN },
	{ 618, IORING_SETUP_CQE_MIXED },
};

static const struct since features[] = {
	{ 510, IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP |
	       IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_RW_CUR_POS |
	       IORING_FEAT_CUR_PERSONALITY | IORING_FEAT_FAST_POLL |
	       IORING_FEAT_POLL_32BITS },
	{ 511, IORING_FEAT_SQPOLL_NONFIXED | IORING_FEAT_EXT_ARG },
	{ 512, IORING_FEAT_NATIVE_WORKERS },
	{ 513, IORING_FEAT_RSRC_TAGS },
	{ 517, IORING_FEAT_CQE_SKIP | IORING_FEAT_LINKED_FILE },
	{ 603, IORING_FEAT_REG_REG_RING },
	{ 610, FEAT_RECVSEND_BUNDLE },
};

const char *const mock_uring_profiles[] = {
	"5.10", "5.11", "5.15", "5.19", "6.1", "6.18",
};
const size_t mock_uring_n_profiles = sizeof(mock_uring_profiles) /
				     sizeof(mock_uring_profiles[0]);

struct mock_uring mock_uring;
static int version = 618;
static uint64_t seed;
static struct ring *rings;	/* Under the lock. */
static pthread_mutex_t rings_lock = PTHREAD_MUTEX_INITIALIZER;

/* Each request that waits takes a descriptor. */
__attribute__((constructor)) static void raise_limit(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim))
		return;
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
}

void mock_uring_set_odds(uint32_t n)
{
	mock_uring.odds = (struct mock_uring_odds){
		.late = n, .thread = n, .miss = n, .end = n, .cut = n,
		.cut_stream = n, .nonblock = n, .memory = 8 * n,
		.eintr = 2 * n,
	};
}

void mock_uring_use(const char *profile, uint64_t draws)
{
	int major, minor;

	if (sscanf(profile, "%d.%d", &major, &minor) != 2)
		abort();
	version = 100 * major + minor;
	seed = draws;
}

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

uint32_t mock_uring_below(struct ring *ring, uint32_t n)
{
	return n ? (uint32_t)(draw(&ring->draws) >> 32) % n : 0;
}

bool mock_uring_draw(struct ring *ring, uint32_t n)
{
	return n && !mock_uring_below(ring, n);
}

static unsigned int bits_of(const struct since *rows, size_t n, int v)
{
	unsigned int bits = 0;

	for (size_t i = 0; i < n; i++)
		if (rows[i].version <= v)
			bits |= rows[i].bits;
	return bits;
}

static struct ring *ring_of(const struct io_uring *u)
{
	return u->sq.ring_ptr;
}

static void lock(struct ring *ring)
{
	pthread_mutex_lock(&ring->lock);
}

static void unlock(struct ring *ring)
{
	pthread_mutex_unlock(&ring->lock);
}

unsigned int mock_uring_in_flight(void)
{
	const struct request *req;
	const struct ring *ring;
	unsigned int n = 0;

	pthread_mutex_lock(&rings_lock);
	for (ring = rings; ring; ring = ring->next) {
		TAILQ_FOREACH(req, &ring->waits, link)
			n++;
		TAILQ_FOREACH(req, &ring->due, link)
			n++;
	}
	pthread_mutex_unlock(&rings_lock);
	return n;
}

/* Completions. */

static unsigned int cq_used(const struct ring *ring)
{
	return ring->cq_tail -
	       __atomic_load_n(&ring->cq_head, __ATOMIC_ACQUIRE);
}

static void set_flag(struct ring *ring, unsigned int flag, bool on)
{
	if (on)
		__atomic_fetch_or(&ring->sq_flags, flag, __ATOMIC_SEQ_CST);
	else
		__atomic_fetch_and(&ring->sq_flags, ~flag, __ATOMIC_SEQ_CST);
}

static void put_cqe(struct ring *ring, uint64_t data, int32_t res,
		    uint32_t flags)
{
	struct io_uring_cqe *cqe = &ring->cqes[(ring->cq_tail & ring->cq_mask)
					       << ring->cqe_shift];
	static const uint64_t one = 1;

	cqe->user_data = data;
	cqe->res = res;
	cqe->flags = flags;
	__atomic_store_n(&ring->cq_tail, ring->cq_tail + 1, __ATOMIC_RELEASE);
	if (ring->event_fd >= 0 &&
	    write(ring->event_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		abort();
}

bool mock_uring_complete(struct ring *ring, uint64_t data, int32_t res,
			 uint32_t flags)
{
	struct completion *c;

	if (STAILQ_EMPTY(&ring->overflow) && cq_used(ring) < ring->cq_entries) {
		put_cqe(ring, data, res, flags);
		return true;
	}
	c = malloc(sizeof(*c));
	if (!c)
		abort();
	*c = (struct completion){ .data = data, .res = res, .flags = flags };
	STAILQ_INSERT_TAIL(&ring->overflow, c, link);
	mock_uring.overflows++;
	set_flag(ring, IORING_SQ_CQ_OVERFLOW, true);
	return false;
}

/* Returns whether none is left. */
static bool flush_overflow(struct ring *ring)
{
	struct completion *c;

	while ((c = STAILQ_FIRST(&ring->overflow)) &&
	       cq_used(ring) < ring->cq_entries) {
		STAILQ_REMOVE_HEAD(&ring->overflow, link);
		put_cqe(ring, c->data, c->res, c->flags);
		free(c);
	}
	if (c)
		return false;
	set_flag(ring, IORING_SQ_CQ_OVERFLOW, false);
	return true;
}

/* The kernel at a time of its own.  Work for a ring with a flag waits, with the
 * flag up, until the ring's thread enters. */
static void act_aside(struct ring *ring)
{
	if (!(ring->setup & IORING_SETUP_TASKRUN_FLAG) || ring->event_fd >= 0) {
		mock_uring_act(ring);
		return;
	}
	ring->step++;
	mock_uring_notice(ring);
	if (mock_uring_is_due(ring))
		set_flag(ring, IORING_SQ_TASKRUN, true);
}

static void act(struct ring *ring)
{
	set_flag(ring, IORING_SQ_TASKRUN, false);
	mock_uring_act(ring);
}

/* The begin of a turn, wherever the program is linked so. */
struct weir_reactor;
unsigned int __real_mailbox_run(struct weir_reactor *r, unsigned int max);
unsigned int __wrap_mailbox_run(struct weir_reactor *r, unsigned int max);

unsigned int __wrap_mailbox_run(struct weir_reactor *r, unsigned int max)
{
	struct ring *ring;

	pthread_mutex_lock(&rings_lock);
	for (ring = rings; ring; ring = ring->next)
		if (pthread_equal(ring->owner, pthread_self())) {
			lock(ring);
			act_aside(ring);
			unlock(ring);
		}
	pthread_mutex_unlock(&rings_lock);
	return __real_mailbox_run(r, max);
}

/* io_uring_enter(2). */

static unsigned int submit(struct ring *ring, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		const struct io_uring_sqe *sqe =
			&ring->sqes[(ring->sq_head & ring->sq_mask)
				    << ring->sqe_shift];
		bool good;

		if (mock_uring_draw(ring, mock_uring.odds.memory)) {
			mock_uring.refused++;
			break;
		}
		good = mock_uring_issue(ring, sqe);
		__atomic_store_n(&ring->sq_head, ring->sq_head + 1,
				 __ATOMIC_RELEASE);
		if (!good && !(ring->setup & IORING_SETUP_SUBMIT_ALL)) {
			i++;
			break;
		}
	}
	return i;
}

/* Wait in poll(2), unlocked. */
static int sleep_in(struct ring *ring, const struct timespec *until)
{
	struct pollfd p = { .fd = ring->epoll, .events = POLLIN };
	struct timespec left, now;
	int n;

	if (until) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		left.tv_sec = until->tv_sec - now.tv_sec;
		left.tv_nsec = until->tv_nsec - now.tv_nsec;
		if (left.tv_nsec < 0) {
			left.tv_nsec += 1000000000;
			left.tv_sec--;
		}
		if (left.tv_sec < 0)
			return -ETIME;
	}
	unlock(ring);
	n = ppoll(&p, 1, until ? &left : NULL, NULL);
	n = n < 0 ? -errno : n ? 0 : -ETIME;
	lock(ring);
	return n;
}

static bool is_past(const struct timespec *until)
{
	struct timespec now;

	if (!until)
		return false;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > until->tv_sec || (now.tv_sec == until->tv_sec &&
					      now.tv_nsec >= until->tv_nsec);
}

/* Some are tried again and again: not all the time. */
static void breathe(struct ring *ring)
{
	static const struct timespec soon = { .tv_nsec = 200000 };

	unlock(ring);
	nanosleep(&soon, NULL);
	lock(ring);
}

static int wait_for(struct ring *ring, unsigned int min,
		    const struct timespec *until)
{
	int err = 0, tries = 0;

	for (;;) {
		act(ring);
		if (!flush_overflow(ring) && cq_used(ring) < min)
			return -EBUSY;
		if (cq_used(ring) >= min || err)
			return cq_used(ring) >= min ? 0 : err;
		if (mock_uring_draw(ring, mock_uring.odds.eintr))
			return -EINTR;
		if (TAILQ_EMPTY(&ring->due))
			err = sleep_in(ring, until);
		else if (is_past(until))
			err = -ETIME;
		else if (++tries > 8)
			breathe(ring);
	}
}

/* Have the thread look: see watch(). */
static void kick(const struct ring *ring)
{
	static const uint64_t one = 1;

	if (write(ring->kick, &one, sizeof(one)) < 0 && errno != EAGAIN)
		abort();
}

static int enter(struct ring *ring, unsigned int to_submit, unsigned int min,
		 bool events, const struct timespec *until)
{
	unsigned int n;
	int err = 0;

	ring->owner = pthread_self();
	if (mock_uring.no_memory && !ring->entered)
		return -ENOMEM;
	ring->entered = true;
	if (to_submit && ring->version < 512 && !flush_overflow(ring))
		return -EBUSY;
	n = submit(ring, to_submit);
	if (n < to_submit)
		return n ? (int)n : -EAGAIN;
	if (events)
		err = wait_for(ring, min, until);
	else if (!(ring->setup & IORING_SETUP_DEFER_TASKRUN))
		act(ring);
	if (ring->event_fd >= 0)
		kick(ring);
	return n ? (int)n : err;
}

/* liburing */

static unsigned int flush_sq(struct io_uring *u)
{
	struct ring *ring = ring_of(u);

	ring->sq_tail = u->sq.sqe_tail;
	u->sq.sqe_head = u->sq.sqe_tail;
	return ring->sq_tail - ring->sq_head;
}

static bool cq_needs_enter(const struct ring *ring)
{
	return ring->sq_flags & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN);
}

static int submit_and(struct io_uring *u, unsigned int min, bool events)
{
	struct ring *ring = ring_of(u);
	unsigned int n = flush_sq(u);
	int res = (int)n;

	events |= min || cq_needs_enter(ring);
	lock(ring);
	if (n || events)
		res = enter(ring, n, min, events, NULL);
	unlock(ring);
	return res;
}

int io_uring_submit(struct io_uring *u)
{
	return submit_and(u, 0, false);
}

int io_uring_submit_and_wait(struct io_uring *u, unsigned int min)
{
	return submit_and(u, min, false);
}

int io_uring_submit_and_get_events(struct io_uring *u)
{
	return submit_and(u, 0, true);
}

static struct io_uring_cqe *first_cqe(struct ring *ring)
{
	return cq_used(ring) ? &ring->cqes[(ring->cq_head & ring->cq_mask)
					   << ring->cqe_shift] : NULL;
}

static int get_cqe(struct io_uring *u, struct io_uring_cqe **ret,
		   unsigned int n, unsigned int min,
		   const struct __kernel_timespec *ts)
{
	struct ring *ring = ring_of(u);
	struct timespec until;
	int err = 0;

	if (ts) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += ts->tv_sec;
		until.tv_nsec += ts->tv_nsec;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
	}
	lock(ring);
	if (n || cq_used(ring) < min)
		err = enter(ring, n, min, cq_used(ring) < min,
			    ts ? &until : NULL);
	unlock(ring);
	*ret = first_cqe(ring);
	return err < 0 && *ret ? 0 : err;
}

int io_uring_submit_and_wait_timeout(struct io_uring *u,
				     struct io_uring_cqe **ret,
				     unsigned int min,
				     struct __kernel_timespec *ts,
				     sigset_t *mask)
{
	(void)mask;
	return get_cqe(u, ret, flush_sq(u), min, ts);
}

int __io_uring_get_cqe(struct io_uring *u, struct io_uring_cqe **ret,
		       unsigned int n, unsigned int min, sigset_t *mask)
{
	int err;

	(void)mask;
	err = get_cqe(u, ret, n, min, NULL);
	return err < 0 ? err : *ret ? 0 : -EAGAIN;
}

int io_uring_wait_cqe_timeout(struct io_uring *u, struct io_uring_cqe **ret,
			      struct __kernel_timespec *ts)
{
	int err = get_cqe(u, ret, 0, 1, ts);

	return err < 0 ? err : *ret ? 0 : -ETIME;
}

/* Set-up. */

static unsigned int power_of_two(unsigned int n)
{
	unsigned int p = 1;

	while (p < n)
		p *= 2;
	return p;
}

static int size_ring(struct ring *ring, unsigned int entries,
		     const struct io_uring_params *p)
{
	bool clamp = p->flags & IORING_SETUP_CLAMP;
	unsigned int cq = p->cq_entries;

	if (!entries || (entries > SQ_MAX && !clamp))
		return -EINVAL;
	ring->sq_entries = power_of_two(entries > SQ_MAX ? SQ_MAX : entries);
	ring->cq_entries = 2 * ring->sq_entries;
	if (p->flags & IORING_SETUP_CQSIZE) {
		if (!cq || (cq > CQ_MAX && !clamp) || cq < ring->sq_entries)
			return -EINVAL;
		ring->cq_entries = power_of_two(cq > CQ_MAX ? CQ_MAX : cq);
	}
	ring->sqe_shift = !!(p->flags & IORING_SETUP_SQE128);
	ring->cqe_shift = !!(p->flags & IORING_SETUP_CQE32);
	ring->sqes = calloc((size_t)ring->sq_entries << ring->sqe_shift,
			    sizeof(*ring->sqes));
	ring->cqes = calloc((size_t)ring->cq_entries << ring->cqe_shift,
			    sizeof(*ring->cqes));
	if (!ring->sqes || !ring->cqes)
		abort();
	ring->sq_mask = ring->sq_entries - 1;
	ring->cq_mask = ring->cq_entries - 1;
	return 0;
}

static void show_ring(struct io_uring *u, struct ring *ring)
{
	memset(u, 0, sizeof(*u));
	u->sq.khead = &ring->sq_head;
	u->sq.ktail = &ring->sq_tail;
	u->sq.kflags = &ring->sq_flags;
	u->sq.kdropped = &ring->sq_dropped;
	u->sq.sqes = ring->sqes;
	u->sq.ring_ptr = ring;
	u->sq.ring_mask = ring->sq_mask;
	u->sq.ring_entries = ring->sq_entries;
	u->cq.khead = &ring->cq_head;
	u->cq.ktail = &ring->cq_tail;
	u->cq.kflags = &ring->cq_flags;
	u->cq.koverflow = &ring->cq_overflow;
	u->cq.cqes = ring->cqes;
	u->cq.ring_mask = ring->cq_mask;
	u->cq.ring_entries = ring->cq_entries;
	u->flags = ring->setup;
	u->ring_fd = u->enter_ring_fd = ring->epoll;
}

static void free_ring(struct ring *ring)
{
	free(ring->sqes);
	free(ring->cqes);
	pthread_mutex_destroy(&ring->lock);
	free(ring);
}

#define BITS(rows, v) bits_of(rows, sizeof(rows) / sizeof(rows[0]), v)

int io_uring_queue_init_params(unsigned int entries, struct io_uring *u,
			       struct io_uring_params *p)
{
	struct ring *ring;
	int err, i;

	if (p->flags & ~BITS(setup_flags, version) ||
	    (p->flags & IORING_SETUP_DEFER_TASKRUN &&
	     !(p->flags & IORING_SETUP_SINGLE_ISSUER)))
		return -EINVAL;
	ring = calloc(1, sizeof(*ring));
	if (!ring)
		abort();
	ring->version = version;
	ring->setup = p->flags;
	ring->draws = draw(&seed);
	err = size_ring(ring, entries, p);
	if (err) {
		free(ring);
		return err;
	}
	pthread_mutex_init(&ring->lock, NULL);
	STAILQ_INIT(&ring->overflow);
	TAILQ_INIT(&ring->waits);
	TAILQ_INIT(&ring->due);
	for (i = 0; i < N_FILES; i++)
		ring->files[i] = -1;
	ring->event_fd = ring->kick = -1;
	ring->owner = pthread_self();
	ring->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (ring->epoll < 0) {
		err = -errno;
		free_ring(ring);
		return err;
	}
	show_ring(u, ring);
	u->features = p->features = BITS(features, version);
	pthread_mutex_lock(&rings_lock);
	ring->next = rings;
	rings = ring;
	pthread_mutex_unlock(&rings_lock);
	return 0;
}

static void forget_files(struct ring *ring)
{
	for (int i = 0; i < N_FILES; i++) {
		if (ring->files[i] >= 0)
			close(ring->files[i]);
		ring->files[i] = -1;
	}
	ring->has_files = false;
}

/* A request that is in flight now may write to memory that the program frees. */
void io_uring_queue_exit(struct io_uring *u)
{
	struct ring *ring = ring_of(u), **at;
	struct completion *c;

	io_uring_unregister_eventfd(u);
	pthread_mutex_lock(&rings_lock);
	for (at = &rings; *at != ring; at = &(*at)->next)
		;
	*at = ring->next;
	pthread_mutex_unlock(&rings_lock);
	if (!TAILQ_EMPTY(&ring->waits) || !TAILQ_EMPTY(&ring->due)) {
		fputs("mock-uring: a ring ends with requests in flight\n",
		      stderr);
		abort();
	}
	while ((c = STAILQ_FIRST(&ring->overflow))) {
		STAILQ_REMOVE_HEAD(&ring->overflow, link);
		free(c);
	}
	forget_files(ring);
	close(ring->epoll);
	free_ring(ring);
}

/* io_uring_register(2). */

int io_uring_register_probe(struct io_uring *u, struct io_uring_probe *p,
			    unsigned int n)
{
	const struct ring *ring = ring_of(u);
	struct io_uring_sqe sqe = { .opcode = 0 };

	for (unsigned int i = 0; i < n; i++) {
		sqe.opcode = (uint8_t)i;
		if (mock_uring_check(ring, &sqe))
			break;
		p->last_op = p->ops[i].op = (uint8_t)i;
		p->ops[i].flags = IO_URING_OP_SUPPORTED;
		p->ops_len = (uint8_t)(i + 1);
	}
	return 0;
}

int io_uring_register_files_sparse(struct io_uring *u, unsigned int n)
{
	struct ring *ring = ring_of(u);

	if (ring->version < 519 || n > N_FILES)
		return -EINVAL;
	ring->has_files = true;
	return 0;
}

int io_uring_register_files_update(struct io_uring *u, unsigned int at,
				   const int *files, unsigned int n)
{
	struct ring *ring = ring_of(u);

	if (!ring->has_files)
		return -ENXIO;
	if (at + n > N_FILES)
		return -EINVAL;
	for (unsigned int i = 0; i < n; i++) {
		int fd = files[i] < 0 ? -1 : fcntl(files[i], F_DUPFD_CLOEXEC,
						   FD_BASE);

		if (files[i] >= 0 && fd < 0)
			return i ? (int)i : -errno;
		if (ring->files[at + i] >= 0)
			close(ring->files[at + i]);
		ring->files[at + i] = fd;
	}
	return (int)n;
}

int io_uring_register_buffers_sparse(struct io_uring *u, unsigned int n)
{
	struct ring *ring = ring_of(u);

	if (ring->version < 519 || n > N_BUFS)
		return -EINVAL;
	ring->has_bufs = true;
	return 0;
}

int io_uring_register_buffers_update_tag(struct io_uring *u, unsigned int at,
					 const struct iovec *iov,
					 const __u64 *tags, unsigned int n)
{
	struct ring *ring = ring_of(u);

	(void)tags;
	if (!ring->has_bufs)
		return -ENXIO;
	if (at + n > N_BUFS)
		return -EINVAL;
	memcpy(&ring->bufs[at], iov, n * sizeof(*iov));
	return (int)n;
}

struct buf_group *mock_uring_group(struct ring *ring, int id)
{
	for (int i = 0; i < N_GROUPS; i++)
		if (ring->groups[i].ring && ring->groups[i].id == id)
			return &ring->groups[i];
	return NULL;
}

int io_uring_register_buf_ring(struct io_uring *u, struct io_uring_buf_reg *reg,
			       unsigned int flags)
{
	struct ring *ring = ring_of(u);

	if (ring->version < 519 || mock_uring.no_buf_rings || flags ||
	    reg->ring_entries & (reg->ring_entries - 1) ||
	    reg->ring_entries > 32768 || reg->ring_addr & 4095)
		return -EINVAL;
	if (mock_uring_group(ring, reg->bgid))
		return -EEXIST;
	for (int i = 0; i < N_GROUPS; i++) {
		if (ring->groups[i].ring)
			continue;
		ring->groups[i] = (struct buf_group){
			.ring = (void *)(uintptr_t)reg->ring_addr,
			.entries = reg->ring_entries,
			.id = reg->bgid,
		};
		return 0;
	}
	return -ENOMEM;
}

int io_uring_unregister_buf_ring(struct io_uring *u, int group)
{
	struct buf_group *g = mock_uring_group(ring_of(u), group);

	if (!g)
		return -ENOENT;
	g->ring = NULL;
	return 0;
}

int io_uring_register_iowq_max_workers(struct io_uring *u, unsigned int *max)
{
	if (ring_of(u)->version < 515)
		return -EINVAL;
	max[0] = max[1] = 4;
	return 0;
}

int io_uring_register_ring_fd(struct io_uring *u)
{
	return ring_of(u)->version < 518 ? -EINVAL : 1;
}

int io_uring_unregister_ring_fd(struct io_uring *u)
{
	(void)u;
	return 1;
}

/* For a ring that signals an eventfd: what comes while its thread is elsewhere,
 * and all that would come some steps late, comes at once. */
static void *watch(void *arg)
{
	struct ring *ring = arg;
	struct pollfd p[2] = {
		{ .fd = ring->epoll, .events = POLLIN },
		{ .fd = ring->kick, .events = POLLIN },
	};
	uint64_t count;

	for (;;) {
		int timeout = 0;

		lock(ring);
		mock_uring_act(ring);
		if (TAILQ_EMPTY(&ring->due))
			timeout = -1;
		else if (ring->step % 8 == 0)
			timeout = 1;
		unlock(ring);
		if (poll(p, 2, timeout) > 0 && p[1].revents &&
		    read(ring->kick, &count, sizeof(count)) < 0)
			abort();
		if (__atomic_load_n(&ring->stop, __ATOMIC_ACQUIRE))
			return NULL;
	}
}

int io_uring_register_eventfd(struct io_uring *u, int fd)
{
	struct ring *ring = ring_of(u);

	if (ring->event_fd >= 0)
		return -EBUSY;
	ring->kick = eventfd(0, EFD_CLOEXEC);
	if (ring->kick < 0)
		return -errno;
	ring->event_fd = fd;
	ring->stop = false;
	if (pthread_create(&ring->watcher, NULL, watch, ring))
		abort();
	return 0;
}

int io_uring_unregister_eventfd(struct io_uring *u)
{
	struct ring *ring = ring_of(u);

	if (ring->event_fd < 0)
		return -ENXIO;
	__atomic_store_n(&ring->stop, true, __ATOMIC_RELEASE);
	kick(ring);
	pthread_join(ring->watcher, NULL);
	close(ring->kick);
	ring->event_fd = ring->kick = -1;
	return 0;
}
