/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A counter of words on all cores.  Each core has a part of the table that no
 * other core touches: a core that meets a word calls the core of that word.
 * The calls are bounded; a core that is refused waits until there is capacity.
 *
 *	25-group [WORDS]
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <weir/call.h>
#include <weir/group.h>
#include <weir/op.h>

#define CALLS 64 /* Of a core, in flight. */
#define WORDS 100000
#define KINDS 1000 /* Of words. */

struct worker;

struct count {
	struct weir_op op;
	struct worker *by;
	unsigned int word;
};

/* One core's; the others see it in their calls only. */
struct worker {
	struct weir_group *group;
	uint32_t core;
	unsigned int to_read, under_way;
	struct count *free[CALLS];
	unsigned int n_free;
	struct count counts[CALLS];
	struct weir_op capacity;
	int waits;
	uint64_t times[KINDS]; /* Of the words that are this core's. */
};

static struct worker *workers;
static unsigned int n_words = WORDS;

static void read_on(struct worker *w);

/* On the core whose word it is. */
static int64_t count_word(void *arg)
{
	struct count *c = arg;
	uint32_t core = c->word % weir_group_size(c->by->group);

	return (int64_t)++workers[core].times[c->word];
}

static void on_counted(struct weir_op *op, int64_t res)
{
	struct count *c = weir_container_of(op, struct count, op);
	struct worker *w = c->by;

	(void)res;
	w->free[w->n_free++] = c;
	w->under_way--;
	read_on(w);
}

static void on_capacity(struct weir_op *op, int64_t res)
{
	struct worker *w = weir_container_of(op, struct worker, capacity);

	w->waits = 0;
	if (!res)
		read_on(w);
}

static void on_done(void *arg)
{
	static uint32_t n; /* Core 0's. */
	struct worker *w = arg;

	if (++n == weir_group_size(w->group))
		weir_group_stop(w->group);
}

static int count_next(struct worker *w, struct weir_reactor *here)
{
	struct count *c = w->free[w->n_free - 1];
	struct weir_reactor *there;
	int err;

	c->word = w->to_read * 7919 % KINDS;
	there = weir_group_reactor(w->group,
				   c->word % weir_group_size(w->group));
	err = weir_call(here, &c->op, there, count_word, c);
	if (err == -EAGAIN && !w->waits)
		w->waits = !weir_capacity_wait(here, &w->capacity, there);
	if (err)
		return err;
	w->n_free--;
	w->under_way++;
	w->to_read--;
	return 0;
}

static void read_on(struct worker *w)
{
	struct weir_reactor *here = weir_group_reactor(w->group, w->core);

	while (w->to_read && w->n_free)
		if (count_next(w, here))
			return;
	if (!w->to_read && !w->under_way)
		weir_post(weir_group_reactor(w->group, 0), on_done, w);
}

static void begin(void *arg)
{
	read_on(arg);
}

/* On each core's thread, one after the other. */
static int core_begins(struct weir_group *group, uint32_t core, void *arg)
{
	struct worker *w = &workers[core];
	int i;

	(void)arg;
	w->group = group;
	w->core = core;
	w->to_read = n_words;
	weir_op_init(&w->capacity, on_capacity);
	for (i = 0; i < CALLS; i++) {
		weir_op_init(&w->counts[i].op, on_counted);
		w->counts[i].by = w;
		w->free[w->n_free++] = &w->counts[i];
	}
	return weir_post(weir_group_reactor(group, core), begin, w);
}

static void core_ends(struct weir_group *group, uint32_t core, void *arg)
{
	struct weir_group_load load = { .size = sizeof(load) };

	(void)arg;
	weir_group_load(group, core, &load);
	printf("core %u on CPU %d: busy %.3f ms, looked for work %.3f ms, "
	       "slept %.3f ms\n",
	       core, weir_group_cpu(group, core), (double)load.busy_ns / 1e6,
	       (double)load.spin_ns / 1e6, (double)load.sleep_ns / 1e6);
}

static uint64_t all_words(uint32_t n_cores)
{
	uint64_t all = 0;

	for (uint32_t core = 0; core < n_cores; core++)
		for (int word = 0; word < KINDS; word++)
			all += workers[core].times[word];
	return all;
}

static int count_all(struct weir_group *group)
{
	uint32_t n = weir_group_size(group);
	int err;

	workers = calloc(n, sizeof(*workers));
	if (!workers)
		return -ENOMEM;
	err = weir_group_set_core_fns(group, core_begins, core_ends, NULL);
	if (!err)
		err = weir_group_start(group);
	if (!err)
		err = weir_group_run(group);
	if (!err)
		printf("%s\n%llu of %llu words counted\n",
		       weir_group_describe(group),
		       (unsigned long long)all_words(n),
		       (unsigned long long)n * n_words);
	if (!err && all_words(n) != (uint64_t)n * n_words)
		err = -EIO;
	free(workers);
	return err;
}

int main(int argc, char **argv)
{
	struct weir_group_opts opts = { .size = sizeof(opts) };
	struct weir_group *group;
	int err;

	/* This thread is core 0. */
	opts.flags = WEIR_GROUP_ADOPT;
	if (argc > 1)
		n_words = (unsigned int)strtoul(argv[1], NULL, 0);
	err = weir_group_create(&group, &opts);
	if (!err) {
		err = count_all(group);
		weir_group_destroy(group);
	}
	if (err)
		fprintf(stderr, "25-group: %s\n", weir_why());
	return err ? 1 : 0;
}
