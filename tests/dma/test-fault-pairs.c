/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two faults in one control call: the second fault makes the undoing of the
 * first one fail.
 *
 * A call that fails returns the errno of the first failure.  A call that can do
 * without the step that failed first returns the errno of the step that it
 * needs.  In each case the process has the same descriptors, threads and locked
 * memory as before, and the call succeeds when it is repeated.
 *
 * A second case makes and undoes each call more often than there are slots.
 */

#include "base/fault.h"
#include "tests/support/harness.h"
#include "tests/support/ignore.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include <weir/chain.h>
#include <weir/device.h>
#include <weir/dma.h>
#include <weir/domain.h>
#include <weir/file.h>
#include <weir/group.h>
#include <weir/inventory.h>
#include <weir/mmap.h>
#include <weir/pool.h>
#include <weir/segment.h>
#include <weir/shared-pool.h>
#include <weir/socket.h>
#include <weir/sync.h>
#include <weir/timer.h>
#include <weir/watch.h>

#define POINTS_MAX 400	/* In one call; far more than there are. */
#define PAGE ((size_t)4096)
#define LEN (16 * PAGE)

struct place {
	uint32_t backend;
	struct weir_reactor *r;
	char *mem;		/* LEN bytes. */
	struct weir_mmap *m;	/* Of the first half. */
	struct weir_mmap *idle;	/* Of the rest, stopped. */
	struct weir_inventory *inv;
	int fd[2];		/* Connected. */
	int listener;
	int file;
	int shared;		/* weir_segment_share() of two pages. */

	/* What the call made; NULL if it failed.  And whether with a slot of
	 * the ring, of which there may be none left without an error. */
	void *made;
	int64_t slot;
};

/* A call that makes something, and the one that takes it away. */
#define MAKES(name, type, call, end)               \
	static int make_##name(struct place *p)    \
	{                                          \
		struct type *ret = NULL;           \
		int err = call;                    \
                                                   \
		p->made = ret;                     \
		return err;                        \
	}                                          \
                                                   \
	static int end_##name(struct place *p)     \
	{                                          \
		struct type *obj = p->made;        \
                                                   \
		return end(obj);                   \
	}

#define NO_ERRNO(name, type)                             \
	static int name##_end(struct type *obj)          \
	{                                                \
		name##_destroy(obj);                     \
		return 0;                                \
	}

NO_ERRNO(weir_timer, weir_timer)
NO_ERRNO(weir_watch, weir_watch)
NO_ERRNO(weir_event, weir_event)
NO_ERRNO(weir_signal, weir_signal)
NO_ERRNO(weir_poller, weir_poller)
NO_ERRNO(weir_acceptor, weir_acceptor)
NO_ERRNO(weir_receiver, weir_receiver)

MAKES(timer, weir_timer, weir_timer_create(&ret, p->r, ignore_timer, NULL),
      weir_timer_end)
MAKES(watch, weir_watch,
      weir_watch_create(&ret, p->r, p->fd[0], WEIR_READABLE, ignore_watch,
			NULL),
      weir_watch_end)
MAKES(event, weir_event, weir_event_create(&ret, p->r, ignore_event, NULL),
      weir_event_end)
MAKES(signal, weir_signal,
      weir_signal_create(&ret, p->r, SIGUSR2, ignore_signal, NULL),
      weir_signal_end)
MAKES(poller, weir_poller,
      weir_poller_create(&ret, p->r, WEIR_SEC, ignore_poll, NULL),
      weir_poller_end)
MAKES(acceptor, weir_acceptor,
      weir_acceptor_create(&ret, p->r, p->listener, ignore_connection, NULL),
      weir_acceptor_end)
MAKES(receiver, weir_receiver,
      weir_receiver_create(&ret, p->r, p->fd[0], NULL, ignore_data, NULL),
      weir_receiver_end)

static const struct weir_group_opts group_opts = {
	.size = sizeof(group_opts), .n_cores = 2,
};
static const struct weir_pool_opts pool_opts = {
	.size = sizeof(pool_opts), .bufs = 4,
};

MAKES(group, weir_group, weir_group_create(&ret, &group_opts),
      weir_group_destroy)
MAKES(inventory, weir_inventory, weir_inventory_create(&ret, p->r, NULL),
      weir_inventory_destroy)
MAKES(pool, weir_pool, weir_pool_create(&ret, p->r, &pool_opts),
      weir_pool_destroy)
MAKES(dma, weir_dma, weir_dma_create(&ret, p->r, NULL), weir_dma_destroy)
MAKES(chain, weir_chain, weir_chain_create(&ret, p->r, NULL),
      weir_chain_destroy)
MAKES(sync, weir_sync, weir_sync_create(&ret, NULL), weir_sync_destroy)
MAKES(device, weir_device, weir_device_open_name(&ret, "cpu"),
      weir_device_close)
MAKES(file_domain, weir_domain, weir_domain_file_create(&ret, p->file, NULL),
      weir_domain_destroy)

static int make_reactor(struct place *p)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = p->backend,
	};
	struct weir_reactor *r = NULL;
	int err = weir_reactor_create(&r, &opts);

	p->made = r;
	return err;
}

static int end_reactor_made(struct place *p)
{
	return weir_reactor_destroy(p->made);
}

static int make_registered_fd(struct place *p)
{
	int n = weir_fd_register(p->r, p->file);

	p->made = n < 0 ? NULL : p;
	p->slot = n;
	return n < 0 ? n : 0;
}

static int end_registered_fd(struct place *p)
{
	weir_fd_unregister(p->r, p->file);
	return 0;
}

static int make_started_mmap(struct place *p)
{
	int err = weir_mmap_start(p->idle);

	p->made = err ? NULL : p->idle;
	return err;
}

static int end_started_mmap(struct place *p)
{
	return weir_mmap_stop(p->idle, NULL, NULL);
}

static int make_attached(struct place *p)
{
	int err = weir_inventory_attach(p->inv, p->m);

	p->slot = weir_mmap_registered(p->m, p->r, NULL);
	p->made = err ? NULL : p->m;
	return err;
}

static int end_attached(struct place *p)
{
	return weir_inventory_detach(p->inv, p->m);
}

static int make_segment(struct place *p)
{
	static const uint64_t iovas[] = { PAGE, 2 * PAGE };
	char *at = p->mem + 10 * PAGE;
	int err = weir_segment_register(at, 2 * PAGE, iovas, 2, PAGE);

	p->made = err ? NULL : at;
	return err;
}

static int end_segment(struct place *p)
{
	return weir_segment_unregister(p->made, 2 * PAGE);
}

static int make_attached_segment(struct place *p)
{
	char *at = p->mem + 12 * PAGE;
	int err = weir_segment_attach(at, 2 * PAGE, p->shared);

	p->made = err ? NULL : at;
	return err;
}

static int end_attached_segment(struct place *p)
{
	return weir_segment_detach(p->made, 2 * PAGE);
}

/* More often than there are slots: 0 stands for a few hundred. */
static const struct call {
	const char *name;
	int (*make)(struct place *p);
	int (*end)(struct place *p);
	unsigned int slots;
} calls[] = {
	{ "reactor", make_reactor, end_reactor_made, 50 },
	{ "group", make_group, end_group, 50 },
	{ "timer", make_timer, end_timer, 0 },
	{ "watch", make_watch, end_watch, 0 },
	{ "event", make_event, end_event, 0 },
	{ "signal", make_signal, end_signal, 0 },
	{ "poller", make_poller, end_poller, 0 },
	{ "acceptor", make_acceptor, end_acceptor, 0 },
	{ "receiver", make_receiver, end_receiver, 0 },
	{ "registered descriptor", make_registered_fd, end_registered_fd,
	  5000 },
	{ "inventory", make_inventory, end_inventory, 0 },
	{ "attached mmap", make_attached, end_attached, 5000 },
	{ "pool", make_pool, end_pool, 0 },
	{ "started mmap", make_started_mmap, end_started_mmap, 5000 },
	{ "dma", make_dma, end_dma, 0 },
	{ "chain", make_chain, end_chain, 0 },
	{ "sync event", make_sync, end_sync, 0 },
	{ "device", make_device, end_device, 0 },
	{ "domain of a file", make_file_domain, end_file_domain, 0 },
	{ "segment", make_segment, end_segment, 5000 },
	{ "attached segment", make_attached_segment, end_attached_segment,
	  5000 },
};

/* What the process has. */
struct state {
	int fds;
	int threads;
	long locked;		/* KiB */
};

static struct state state_now(void)
{
	return (struct state){
		.fds = count_fds(),
		.threads = (int)status_of(getpid(), "Threads:"),
		.locked = status_of(getpid(), "VmLck:"),
	};
}

static void check_state(const struct call *c, const struct state *before,
			const char *first)
{
	struct state now = state_now();
	int tries;

	/* A thread that was joined may still be in the kernel's list. */
	for (tries = 0; now.threads != before->threads && tries < TURNS_MAX;
	     tries++) {
		sched_yield();
		now = state_now();
	}
	if (now.fds != before->fds || now.threads != before->threads ||
	    now.locked != before->locked)
		fail_msg("%s, %s, then %s: %d fds, %d threads, %ld KiB locked, "
			 "not %d, %d and %ld", c->name, first, fault_last(),
			 now.fds, now.threads, now.locked, before->fds,
			 before->threads, before->locked);
}

static void make_and_end(const struct call *c, struct place *p)
{
	int err = c->make(p);

	if (err || !p->made)
		fail_msg("%s: %d: %s", c->name, err, weir_why());
	err = c->end(p);
	if (err)
		fail_msg("end of %s: %d: %s", c->name, err, weir_why());
}

/* What each point alone comes to: 0 where the call does without. */
static struct lone {
	const char *name;
	int err;
} lone[POINTS_MAX];
static long n_lone;

static bool comes_of(int err, const char *name)
{
	for (long i = 0; i < n_lone; i++)
		if (lone[i].err == err && !strcmp(lone[i].name, name))
			return true;
	return false;
}

/* The first fault was done without: then it is the second's, or of both. */
static bool may_report(int err, const char *first, const char *second)
{
	return !err || comes_of(err, first) || comes_of(err, second);
}

/* The errno of a single fault; 1 if there are not so many. */
static int single(const struct call *c, struct place *p, long nth)
{
	int err, fired;

	fault_arm(nth);
	err = c->make(p);
	fired = fault_disarm();
	if (!err)
		assert_int_equal(c->end(p), 0);
	else if (err > 0 || p->made || !*weir_why())
		fail_msg("%s: %d with %p at %s: %s", c->name, err, p->made,
			 fault_last(), weir_why());
	return fired ? err : 1;
}

/* Returns how many faults there were. */
static int with_pair(const struct call *c, struct place *p, long nth, long then,
		     int expected, const char *first)
{
	int err, fired;

	fault_arm_pair(nth, then);
	err = c->make(p);
	fired = fault_disarm();
	if (expected ? err != expected :
		       fired > 1 && !may_report(err, first, fault_last()))
		fail_msg("%s: %d, not %d, at %s and then %s", c->name, err,
			 expected, first, fault_last());
	if (!err)
		assert_int_equal(c->end(p), 0);
	else if (err > 0 || p->made || !*weir_why())
		fail_msg("%s: %d with %p at %s and then %s: %s", c->name, err,
			 p->made, first, fault_last(), weir_why());
	return fired;
}

static int sweep(const struct call *c, struct place *p)
{
	const char *first;
	struct state before;
	int n_pairs = 0, expected;
	long nth, then;

	make_and_end(c, p); /* What is made once in a process is there now. */
	before = state_now();
	for (n_lone = 0; n_lone < POINTS_MAX; n_lone++) {
		expected = single(c, p, n_lone);
		if (expected == 1)
			break;
		lone[n_lone] = (struct lone){ fault_last(), expected };
		check_state(c, &before, fault_last());
	}
	assert_true(n_lone < POINTS_MAX);
	for (nth = 0; nth < n_lone; nth++) {
		expected = lone[nth].err;
		first = lone[nth].name;
		for (then = 0; then < POINTS_MAX; then++) {
			if (with_pair(c, p, nth, then, expected, first) < 2)
				break;
			n_pairs++;
			check_state(c, &before, first);
		}
		make_and_end(c, p);
	}
	return n_pairs;
}

static void place_begin(struct place *p, void **state)
{
	static const uint64_t iovas[] = { PAGE, 2 * PAGE };
	static const struct sockaddr any = { .sa_family = AF_UNIX };

	*p = (struct place){ .backend = backend_of(*state) };
	p->r = start_reactor(state);
	p->mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p->mem, MAP_FAILED);
	assert_int_equal(weir_mmap_create(&p->m, NULL), 0);
	assert_int_equal(weir_mmap_set_memrange(p->m, p->mem, 4 * PAGE), 0);
	assert_int_equal(weir_mmap_start(p->m), 0);
	assert_int_equal(weir_mmap_create(&p->idle, NULL), 0);
	assert_int_equal(weir_mmap_set_memrange(p->idle, p->mem + 4 * PAGE,
						4 * PAGE), 0);
	assert_int_equal(weir_inventory_create(&p->inv, p->r, NULL), 0);
	socket_pair(p->fd);
	p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(p->listener, &any, sizeof(any.sa_family)), 0);
	assert_int_equal(listen(p->listener, 1), 0);
	p->file = test_file(state, "file", PAGE, 1);
	assert_int_equal(weir_segment_register(p->mem + 8 * PAGE, 2 * PAGE,
					       iovas, 2, PAGE), 0);
	assert_int_equal(weir_segment_share(&p->shared, p->mem + 8 * PAGE,
					    2 * PAGE), 0);
}

static void place_end(struct place *p)
{
	close(p->shared);
	assert_int_equal(weir_segment_unregister(p->mem + 8 * PAGE, 2 * PAGE),
			 0);
	close(p->file);
	close(p->listener);
	close_pair(p->fd);
	assert_int_equal(weir_inventory_destroy(p->inv), 0);
	assert_int_equal(weir_mmap_destroy(p->idle), 0);
	assert_int_equal(weir_mmap_stop(p->m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_destroy(p->m), 0);
	munmap(p->mem, LEN);
}

static void first_fault_is_reported_whatever_fails_after_it(void **state)
{
	struct place p;
	int pairs = 0;

	place_begin(&p, state);
	for (size_t i = 0; i < N_OF(calls); i++)
		pairs += sweep(&calls[i], &p);
	printf("# %s: %d pairs of faults\n",
	       ((struct world *)*state)->backend, pairs);
	assert_true(pairs > 0);
	place_end(&p);
}

static void slot_is_free_again_after_each_use(void **state)
{
	struct state before;
	struct place p;

	place_begin(&p, state);
	for (size_t i = 0; i < N_OF(calls); i++) {
		unsigned int n = calls[i].slots ? calls[i].slots : 500;

		int64_t slot;

		make_and_end(&calls[i], &p);
		slot = p.slot;
		before = state_now();
		for (n = scaled(n) + 20; n; n--) {
			make_and_end(&calls[i], &p);
			if (p.slot != slot)
				fail_msg("%s: %lld at last, not %lld",
					 calls[i].name, (long long)p.slot,
					 (long long)slot);
			/* What ends in turns has ended by then. */
			if (n % 16 == 0)
				some_turns(p.r, 1);
		}
		some_turns(p.r, 3);
		check_state(&calls[i], &before, "no fault");
	}
	place_end(&p);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(first_fault_is_reported_whatever_fails_after_it),
		CASE(slot_is_free_again_after_each_use),
	};

	return harness_run(cases, N_OF(cases));
}
