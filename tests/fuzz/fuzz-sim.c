/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs of calls of the API in a simulated world: the bytes say which, in
 * which order, from where, and what callbacks do.  All of it is allowed; so
 * each operation must end once, with a result that is documented, nothing may
 * call back that was destroyed, all must end once faults have stopped, what
 * is idle can be destroyed, and nothing may be left.  Some are run twice, and
 * must do the same.
 *
 *	sim-task.c    operations, and what must be true of each
 *	sim-op.c      files, sockets, time, work
 *	sim-source.c  what calls back again and again
 *	sim-move.c    pools, jobs, the places that bytes can be
 *	sim-chain.c   chains and pipelines
 */

#include "tests/fuzz/sim-world.h"

const char fuzz_name[] = "sim";

struct world w;

#define EVENTS 4000

uint64_t some_span(void)
{
	static const uint64_t spans[] = { 0, 700, WEIR_USEC, 30 * WEIR_USEC,
					  WEIR_MSEC, WEIR_SEC };

	return spans[byte_below(6)] * (1 + byte_below(5));
}

uint64_t some_time(void)
{
	return weir_sim_now(w.sim) + some_span();
}

/* Reactors. */

struct post {
	struct core *to;
};

static void on_post(void *arg)
{
	struct post *post = arg;
	struct core *c = post->to;

	MUST(c->posts);
	c->posts--;
	free(post);
	act(c);
}

static void post_one(void)
{
	struct core *to = &w.cores[byte_below(CORES)];
	struct post *post;
	int err;

	if (!to->r)
		return;
	post = malloc(sizeof(*post));
	MUST(post);
	post->to = to;
	err = weir_post(to->r, on_post, post);
	MUST(!err || err == -EAGAIN || (err == -ESHUTDOWN && to->is_stopped));
	if (err)
		free(post);
	else
		to->posts++;
}

static void core_create(struct core *c)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	uint32_t i;

	opts.sim = w.sim;
	opts.ops_max = byte_below(3) ? 0 : 2 + byte_below(16);
	opts.turn_max = byte_below(3);
	opts.mailbox = byte_below(3) ? 0 : 1u << byte_below(3);
	opts.rx_bufs = byte_below(3) ? 4 : 1;
	opts.rx_buf_size = 512;
	opts.drain_ms = 1;	/* The others go on meanwhile. */
	if (weir_reactor_create(&c->r, &opts)) {
		c->r = NULL;
		return;
	}
	c->is_stopped = false;
	for (i = 0; i < SOURCES; i++)
		c->sources[i].core = c;
}

static bool has_objects(const struct core *c)
{
	uint32_t i;

	for (i = 0; i < SOURCES; i++)
		if (c->sources[i].kind)
			return true;
	for (i = 0; i < CHAINS; i++)
		if (c->links[i])
			return true;
	return c->pool || c->dma;
}

/* What happens besides in a turn from outside is not known: a guess. */
static void spend(uint32_t events)
{
	w.events -= events < w.events ? events : w.events;
}

/* It may be anywhere, in its own callback too. */
static void core_destroy(struct core *c)
{
	bool busy = c->depth || has_objects(c);
	int err;

	if (!c->depth)
		move_release(c);
	c->is_stopped |= !busy;
	spend(100);
	c->depth++;
	err = weir_reactor_destroy(c->r);
	c->depth--;
	MUST(!err || err == -EBUSY);
	MUST(err || !busy);
	if (err)
		return;
	MUST(!c->posts);
	c->r = NULL;
}

static void core_turn(struct core *c)
{
	uint64_t ns = some_span() % WEIR_MSEC;
	int res;

	if (w.depth > 2 || !w.events)
		return;
	spend(100);
	c->depth++;
	res = weir_reactor_turn(c->r, ns);
	c->depth--;
	MUST(res >= 0 || (res == -EBUSY && c->depth) || res == -EDEADLK);
}

static void core_touch(struct core *c)
{
	int err;

	if (!c->r) {
		core_create(c);
		return;
	}
	switch (byte_below(6)) {
	case 0:
		weir_reactor_stop(c->r);
		c->is_stopped = true;
		break;
	case 1:
		core_destroy(c);
		break;
	case 2:
		core_turn(c);
		break;
	default:
		err = weir_reactor_start(c->r);
		MUST(err == 0 || err == -EBUSY);
		if (!err)
			c->is_stopped = false;
	}
}

/* What bytes say. */

static void act_once(struct core *c)
{
	switch (byte_below(18)) {
	case 0:
		break;
	case 1:
	case 2:
	case 3:
	case 4:
		op_start(c);
		break;
	case 5:
	case 6:
		task_disturb();
		break;
	case 7:
	case 8:
	case 9:
		source_touch(c);
		break;
	case 10:
		post_one();
		break;
	case 11:
		core_touch(&w.cores[byte_below(CORES)]);
		break;
	case 12:
		world_touch();
		break;
	case 13:
		place_touch();
		break;
	default:
		move_touch(c);
	}
}

void act(struct core *c)
{
	uint32_t n = byte_below(4);

	w.depth++;
	c->depth++;
	if (n == 3)
		MUST(weir_sim_run(w.sim, 1, 1) == -EBUSY);
	while (n-- && c->r && !w.ending)
		act_once(c);
	c->depth--;
	w.depth--;
}

static void run(uint64_t ns, uint32_t events)
{
	MUST(weir_sim_run(w.sim, ns, events) >= 0);
	spend(events);
}

/* The outermost level: between events. */
static void step(void)
{
	struct core *c = &w.cores[byte_below(CORES)];
	uint32_t n;

	if (!c->r)
		core_create(c);
	if (c->r)
		act_once(c);
	n = byte_below(4);
	if (n)
		run(some_span() + 1000, n * n * n * n);
}

/* The end. */

static void let_go(void)
{
	uint32_t i, j;

	for (i = 0; i < CORES; i++) {
		struct core *c = &w.cores[i];

		if (!c->r)
			continue;
		for (j = 0; j < SOURCES; j++)
			if (c->sources[j].kind)
				source_end(&c->sources[j]);
		move_release(c);
	}
	for (i = 0; i < TASKS; i++)
		if (w.tasks[i] && w.tasks[i]->is_endless)
			task_cancel(w.tasks[i]);
	links_go_on();
}

/* Progress once faults have stopped. */
static void drain(void)
{
	uint64_t until = weir_sim_now(w.sim) + 3600 * WEIR_SEC, now;

	w.in.p = w.in.end;
	w.ending = true;
	weir_sim_set_faults(w.sim, 0);
	(void)weir_sim_partition(w.sim, "a", "a", 0);
	(void)weir_sim_partition(w.sim, "a", "b", 0);
	while (tasks_left() && (now = weir_sim_now(w.sim)) < until) {
		let_go();
		MUST(weir_sim_run(w.sim, WEIR_SEC, 10000) >= 0);
	}
	let_go();
	MUST(!tasks_left());
	/* Staging of what was cancelled is back when its device is done. */
	MUST(weir_sim_run(w.sim, 3600 * WEIR_SEC, 0) >= 0);
}

static void take_down(void)
{
	uint32_t i;

	for (i = 0; i < CORES; i++)
		if (w.cores[i].r)
			move_take_down_core(&w.cores[i]);
	for (i = 0; i < CORES; i++) {
		MUST(!weir_dma_destroy(w.cores[i].dma));
		w.cores[i].dma = NULL;
	}
	for (i = 0; i < CORES; i++) {
		if (w.cores[i].r)
			core_destroy(&w.cores[i]);
		MUST(!w.cores[i].r);
	}
	move_take_down();
	for (i = 0; i < FDS; i++) {
		MUST(!w.places[i].users);
		place_close(&w.places[i]);
	}
	MUST(!weir_sim_destroy(w.sim));
}

static void begin(const uint8_t *data, size_t size)
{
	struct weir_sim_opts opts = { .size = sizeof(opts) };
	uint64_t seed;
	uint32_t i;

	memset(&w, 0, sizeof(w));
	w.in = (struct input){ data, data + size };
	w.events = EVENTS;
	seed = byte_below(256);
	opts.faults = byte_below(256) | (uint64_t)byte_below(256) << 8 |
		      (uint64_t)byte_below(4) << 16;
	opts.rate = byte_below(64) * 4;
	opts.flags = byte_below(2) * WEIR_SIM_SWARM;
	MUST(!weir_sim_create(&w.sim, seed, &opts));
	for (i = 0; i < FDS; i++)
		w.places[i].fd = -1;
	MUST(!weir_sim_disk(w.sim, "a/disk", 65536, 512));
	move_set_up();
}

static uint64_t program(const uint8_t *data, size_t size)
{
	uint64_t digest;

	begin(data, size);
	while (w.in.p < w.in.end && w.events)
		step();
	drain();
	digest = weir_sim_digest(w.sim);
	take_down();
	return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t digest = program(data, size);

	if (size && data[0] % 8 == 0)
		MUST(program(data, size) == digest);
	return 0;
}
