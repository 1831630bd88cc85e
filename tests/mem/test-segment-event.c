/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Segments: who is told of memory that comes and goes, and the table of mmaps
 * in docs/internals/mem.md, cell by cell.  The numbers are those of the rules
 * and cases that are re-created, of DPDK's memory events.
 */

#include "tests/support/segment-fixture.h"
#include "tests/support/table-fixture.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#define N 8

/* What a hook has seen, and what it does. */
struct hook {
	int n;
	struct {
		int event;
		struct weir_segment list;
		bool found;	/* A look-up has found it at the time. */
	} seen[16];
	void (*then)(struct hook *hook, int event);
	char name[16];
	struct weir_mmap *m;
	char *p;
	int err;
};

static void on_event(int event, const struct weir_segment *list, void *arg)
{
	struct hook *hook = arg;

	assert_true(hook->n < 16);
	hook->seen[hook->n].event = event;
	hook->seen[hook->n].list = *list;
	hook->seen[hook->n].found = list_of(list->addr) == list->list;
	hook->n++;
	if (hook->then)
		hook->then(hook, event);
}

static void on(struct hook *hook, const char *name)
{
	snprintf(hook->name, sizeof(hook->name), "%s", name);
	assert_int_equal(weir_segment_event_register(name, on_event, hook), 0);
}

static void off(struct hook *hook)
{
	assert_int_equal(weir_segment_event_unregister(hook->name, hook), 0);
}

/* C1.5, 50 */
static void names_of_events_are_checked(void **state)
{
	int a, b;

	(void)state;
	assert_int_equal(strlen(LONG_NAME), WEIR_SEGMENT_NAME_MAX);
	assert_int_equal(weir_segment_event_register(NULL, on_event, &a),
			 -EINVAL);
	assert_int_equal(weir_segment_event_register("", on_event, &a),
			 -EINVAL);
	assert_int_equal(weir_segment_event_register("a", NULL, &a), -EINVAL);
	assert_int_equal(weir_segment_event_register(LONG_NAME, on_event, &a),
			 -ENAMETOOLONG);
	assert_int_equal(weir_segment_event_register(FITTING_NAME, on_event,
						     &a), 0);
	assert_int_equal(weir_segment_event_register(FITTING_NAME, on_event,
						     &a), -EEXIST);
	assert_int_equal(weir_segment_event_register(FITTING_NAME, on_event,
						     &b), 0);
	assert_int_equal(weir_segment_event_unregister(NULL, &a), -EINVAL);
	assert_int_equal(weir_segment_event_unregister("", &a), -EINVAL);
	assert_int_equal(weir_segment_event_unregister(LONG_NAME, &a),
			 -ENAMETOOLONG);
	assert_int_equal(weir_segment_event_unregister("b", &a), -ENOENT);
	assert_int_equal(weir_segment_event_unregister(FITTING_NAME, &a), 0);
	assert_int_equal(weir_segment_event_unregister(FITTING_NAME, &a),
			 -ENOENT);
	assert_int_equal(weir_segment_event_unregister(FITTING_NAME, &b), 0);
}

static void expect(const struct hook *hook, int i, int event, const void *addr)
{
	assert_true(i < hook->n);
	assert_int_equal(hook->seen[i].event, event);
	assert_ptr_equal(hook->seen[i].list.addr, addr);
	assert_true(hook->seen[i].found);
}

/* C1.5: told after it is there and before it is gone */
static void adding_and_removing_are_told(void **state)
{
	struct hook a = { 0 }, b = { 0 };
	char *p = pages(N);
	struct weir_mmap *m = stopped_mmap(p, 3 * PAGE);
	uint64_t id;

	(void)state;
	on(&a, "a");
	assert_int_equal(weir_mmap_start(m), 0);
	id = list_of(p);
	on(&b, "b");
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_segment_register(p + 4 * PAGE, PAGE, NULL, 0,
					       PAGE), 0);
	assert_int_equal(a.n, 2);
	expect(&a, 0, WEIR_SEGMENT_ADDED, p);
	assert_int_equal(a.seen[0].list.len, 3 * PAGE);
	assert_int_equal(a.seen[0].list.list, id);
	expect(&a, 1, WEIR_SEGMENT_ADDED, p + 4 * PAGE);
	assert_int_equal(b.n, 1);
	expect(&b, 0, WEIR_SEGMENT_ADDED, p + 4 * PAGE);
	assert_int_equal(weir_mmap_destroy(m), 0);
	expect(&a, 2, WEIR_SEGMENT_REMOVING, p);
	expect(&b, 1, WEIR_SEGMENT_REMOVING, p);
	off(&a);
	assert_int_equal(weir_segment_unregister(p + 4 * PAGE, PAGE), 0);
	assert_int_equal(a.n, 3);
	expect(&b, 2, WEIR_SEGMENT_REMOVING, p + 4 * PAGE);
	off(&b);
	pages_end(p, N);
}

static void drop_itself(struct hook *hook, int event)
{
	(void)event;
	off(hook);
}

/* C1.5, 57: a callback that unregisters itself */
static void a_callback_may_unregister_itself(void **state)
{
	struct hook a = { .then = drop_itself }, b = { 0 };
	char *p = pages(N);
	struct weir_mmap *m;

	(void)state;
	on(&a, "a");
	on(&b, "b");
	m = started_mmap(p, PAGE);
	weir_mmap_destroy(m);
	assert_int_equal(a.n, 1);
	assert_int_equal(b.n, 2);
	off(&b);
	pages_end(p, N);
}

static void stop_it(struct hook *hook, int event)
{
	if (event == WEIR_SEGMENT_ADDED && hook->n == 1)
		hook->err = weir_mmap_destroy(hook->m);
}

/* Who comes later hears neither of the adding nor of the removal. */
static void a_callback_may_destroy_what_was_added(void **state)
{
	struct hook a = { 0 }, b = { .then = stop_it }, c = { 0 };
	char *p = pages(N);

	(void)state;
	on(&a, "a");
	on(&b, "b");
	on(&c, "c");
	b.m = stopped_mmap(p, PAGE);
	assert_int_equal(weir_mmap_start(b.m), 0);
	assert_int_equal(b.err, 0);
	assert_int_equal(a.n, 2);
	expect(&a, 1, WEIR_SEGMENT_REMOVING, p);
	assert_int_equal(b.n, 2);
	assert_int_equal(c.n, 0);
	assert_int_equal(n_lists(), 0);
	off(&a);
	off(&b);
	off(&c);
	pages_end(p, N);
}

static void change_much(struct hook *hook, int event)
{
	struct hook *more;
	struct weir_mmap *m;

	if (hook->n > 1)
		return;
	(void)event;
	more = calloc(1, sizeof(*more));
	on(more, "more");
	m = started_mmap(hook->p + 2 * PAGE, PAGE);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(more->n, 2);
	off(more);
	free(more);
}

/* C1.5, gotcha 20 */
static void a_callback_may_call_anything(void **state)
{
	struct hook a = { .then = change_much, .p = pages(N) };
	struct weir_mmap *m;

	(void)state;
	on(&a, "a");
	m = started_mmap(a.p, PAGE);
	assert_int_equal(a.n, 3);
	expect(&a, 1, WEIR_SEGMENT_ADDED, a.p + 2 * PAGE);
	expect(&a, 2, WEIR_SEGMENT_REMOVING, a.p + 2 * PAGE);
	weir_mmap_destroy(m);
	off(&a);
	pages_end(a.p, N);
}

/* The columns of the table of mmaps: where the call comes from. */
enum column { STARTED, KEPT, TOLD_ADDED, TOLD_REMOVING, ASKED };

static const char *const columns[] = {
	"anywhere", "anywhere, do not free", "told of its adding",
	"told of its removal", "asked as a validator",
};

static const struct table_call *call;

static int do_start(void *fixture)
{
	struct hook *h = fixture;
	return weir_mmap_start(h->m);
}

static int do_stop(void *fixture)
{
	struct hook *h = fixture;
	return weir_mmap_stop(h->m, NULL, NULL);
}

static int do_destroy(void *fixture)
{
	struct hook *h = fixture;
	int err = weir_mmap_destroy(h->m);

	if (!err)
		h->m = NULL;
	return err;
}

static int do_find(void *fixture)
{
	struct hook *h = fixture;
	struct weir_segment seg = SEGMENT;

	return weir_segment_find(&seg, h->p);
}

static const struct table_call calls[] = {
	{ "start", do_start },
	{ "stop", do_stop },
	{ "destroy", do_destroy },
	{ "find", do_find },
};

static void call_told_added(struct hook *h, int event)
{
	if (event == WEIR_SEGMENT_ADDED && h->n == 1)
		h->err = call->fn(h);
}

static void call_told_removing(struct hook *h, int event)
{
	if (event == WEIR_SEGMENT_REMOVING)
		h->err = call->fn(h);
}

static int call_asked(int node, uint64_t limit, uint64_t total, void *arg)
{
	struct hook *h = arg;

	(void)node, (void)limit, (void)total;
	h->err = call->fn(h);
	return 0;
}

static void prepare(struct hook *h, enum column col)
{
	if (col == TOLD_ADDED)
		h->then = call_told_added;
	if (col == TOLD_REMOVING)
		h->then = call_told_removing;
	if (col == ASKED)
		assert_int_equal(weir_segment_validator_register("cell",
					call_asked, h, 0, 0), 0);
	on(h, "cell");
}

static void try_cell(char *p, const struct table_cell *c)
{
	struct hook h = { .p = p, .m = stopped_mmap(p, PAGE), .err = 1 };
	enum column col = (enum column)c->column;

	call = c->call;
	prepare(&h, col);
	assert_int_equal(weir_mmap_start(h.m), 0);
	if (col == KEPT)
		assert_int_equal(weir_segment_set_flags(list_of(p),
					WEIR_SEGMENT_DO_NOT_FREE, 0), 0);
	if (col == STARTED || col == KEPT)
		h.err = call->fn(&h);
	if (col == KEPT)
		weir_segment_set_flags(list_of(p), 0, WEIR_SEGMENT_DO_NOT_FREE);
	if (h.m)
		assert_int_equal(weir_mmap_destroy(h.m), 0);
	table_result(c, h.err);
	if (col == ASKED)
		weir_segment_validator_unregister("cell", 0);
	off(&h);
	assert_int_equal(n_lists(), 0);
}

static void segment_callback_gets_the_events_of_the_table(void **state)
{
	char *p = pages(N);
	struct table t;
	struct table_cell c;

	(void)state;
	table_open(&t, "docs/internals/mem.md",
		   "mmap in the map: call by where it comes from", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c))
		try_cell(p, &c);
	table_close(&t);
	pages_end(p, N);
}

/* A callback that is held up on its thread. */
struct held {
	sem_t inside, go;
	atomic_int left;
	char *p;
};

static void hold_up(int event, const struct weir_segment *list, void *arg)
{
	struct held *held = arg;

	(void)list;
	if (event != WEIR_SEGMENT_ADDED)
		return;
	sem_post(&held->inside);
	sem_wait(&held->go);
	atomic_store(&held->left, 1);
}

static void *add_and_remove(void *arg)
{
	struct held *held = arg;

	weir_mmap_destroy(started_mmap(held->p, PAGE));
	return NULL;
}

static void *let_go(void *arg)
{
	struct held *held = arg;

	/* Likely after the other thread waits; right in any case. */
	sched_yield();
	sem_post(&held->go);
	return NULL;
}

static void unregistered_callback_does_not_run(void **state)
{
	struct held held = { .p = pages(N) };
	pthread_t adder, helper;

	(void)state;
	sem_init(&held.inside, 0, 0);
	sem_init(&held.go, 0, 0);
	assert_int_equal(weir_segment_event_register("held", hold_up, &held),
			 0);
	pthread_create(&adder, NULL, add_and_remove, &held);
	sem_wait(&held.inside);
	/* No lock is held while it runs. */
	assert_int_equal(n_lists(), 1);
	pthread_create(&helper, NULL, let_go, &held);
	assert_int_equal(weir_segment_event_unregister("held", &held), 0);
	assert_int_equal(atomic_load(&held.left), 1);
	pthread_join(helper, NULL);
	pthread_join(adder, NULL);
	sem_destroy(&held.inside);
	sem_destroy(&held.go);
	pages_end(held.p, N);
}

static void *register_external(void *arg)
{
	struct held *held = arg;

	assert_int_equal(weir_segment_register(held->p, PAGE, NULL, 0, PAGE),
			 0);
	return NULL;
}

static void segment_being_added_by_another_thread_cannot_be_removed(void **state)
{
	struct held held = { .p = pages(N) };
	pthread_t adder;

	(void)state;
	sem_init(&held.inside, 0, 0);
	sem_init(&held.go, 0, 0);
	assert_int_equal(weir_segment_event_register("held", hold_up, &held),
			 0);
	pthread_create(&adder, NULL, register_external, &held);
	sem_wait(&held.inside);
	assert_int_equal(weir_segment_unregister(held.p, PAGE), -EBUSY);
	sem_post(&held.go);
	pthread_join(adder, NULL);
	assert_int_equal(weir_segment_unregister(held.p, PAGE), 0);
	assert_int_equal(weir_segment_event_unregister("held", &held), 0);
	sem_destroy(&held.inside);
	sem_destroy(&held.go);
	pages_end(held.p, N);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(names_of_events_are_checked),
		CASE(adding_and_removing_are_told),
		CASE(a_callback_may_unregister_itself),
		CASE(a_callback_may_destroy_what_was_added),
		CASE(a_callback_may_call_anything),
		CASE(segment_callback_gets_the_events_of_the_table),
		CASE(unregistered_callback_does_not_run),
		CASE(segment_being_added_by_another_thread_cannot_be_removed),
	};

	return harness_run_plain(cases, N_OF(cases));
}
