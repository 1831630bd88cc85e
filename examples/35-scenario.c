/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A counter on disk, and its test by the runner of scenarios.
 *
 *	35-scenario --seeds 1000 --jobs 2	many power cuts and faults
 *	35-scenario --seed 7 --trace		one seed, and all that happens
 *	35-scenario --help			the other options
 *
 * The counter has two places in its file and writes to each in turn, so that a
 * torn write never destroys the last number.
 */
#include <stdbool.h>

#include <weir/file.h>
#include <weir/reactor.h>
#include <weir/sim/file.h>
#include <weir/sim/runner.h>
#include <weir/sim/socket.h>

#ifdef WITHOUT_FSYNC			/* The bug to find: no fsync. */
#define weir_fsync(r, op, fd, flags) weir_nop(r, op)
#endif

#define SECTOR 512			/* Of each place; a write of it is whole. */
#define FILE_NAME "a/counter"

/* The program: it knows nothing of worlds. */
struct counter {
	struct weir_op op;
	struct weir_reactor *r;
	int fd;
	bool synced, stopped;
	uint64_t number;		/* Being written, */
	uint64_t acked;			/* and the last that is on disk. */
};

static void step(struct counter *c)
{
	if (c->synced && weir_write(c->r, &c->op, c->fd, &c->number,
				    sizeof(c->number), c->number % 2 * SECTOR))
		c->stopped = true;
	if (!c->synced && weir_fsync(c->r, &c->op, c->fd, 0))
		c->stopped = true;
}

/* After an error the number is in doubt, so the program stops. */
static void on_end(struct weir_op *op, int64_t res)
{
	struct counter *c = weir_container_of(op, struct counter, op);

	if (res < 0 || (c->synced && res != sizeof(c->number))) {
		c->stopped = true;
		return;
	}
	c->synced = !c->synced;
	if (c->synced)
		c->acked = c->number++;
	step(c);
}

static void start(struct counter *c, struct weir_reactor *r, int fd,
		  uint64_t last)
{
	*c = (struct counter){ .op.fn = on_end, .r = r, .fd = fd,
			       .synced = true, .number = last + 1,
			       .acked = last };
	step(c);
}

/* The test. */
static uint64_t on_disk(struct weir_sim *sim)
{
	uint64_t n[2] = { 0, 0 };

	weir_sim_file_read(sim, FILE_NAME, &n[0], sizeof(n[0]), 0);
	weir_sim_file_read(sim, FILE_NAME, &n[1], sizeof(n[1]), SECTOR);
	return n[0] > n[1] ? n[0] : n[1];
}

static void run(struct weir_sim_trial *trial)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_sim *sim = trial->sim;
	struct counter c = { .acked = 0 };

	opts.sim = sim;
	opts.drain_ms = 3600000;
	weir_sim_file_write(sim, FILE_NAME, "", 0, 0);
	for (uint32_t i = 0; i < trial->ops; i++) {
		if (weir_reactor_create(&c.r, &opts))
			weir_sim_violation("the program begins", "%s",
					   weir_why());
		start(&c, c.r, weir_sim_file_open(sim, FILE_NAME, O_RDWR, 0),
		      on_disk(sim));
		weir_sim_run(sim, weir_sim_random(sim) % (2 * WEIR_MSEC), 0);
		weir_sim_power_cut(sim, "a/");
		if (on_disk(sim) < c.acked)
			weir_sim_violation("an acknowledged number is kept",
					   "%llu of %llu",
					   (unsigned long long)on_disk(sim),
					   (unsigned long long)c.acked);
		weir_sim_note(sim, "number", on_disk(sim));
		trial->verified += sizeof(c.acked);
		weir_sim_close(c.fd);
		if (weir_reactor_destroy(c.r))
			weir_sim_violation("the program ends", "%s",
					   weir_why());
	}
}

static const struct weir_sim_scenario scenario = {
	.size = sizeof(scenario),
	.name = "counter",
	.what = "a counter on disk, through power cuts",
	.run = run,
	.ops = 20,
};

int main(int argc, char **argv)
{
	const struct weir_sim_scenario *const scenarios[] = { &scenario, NULL };

	return weir_sim_main(argc, argv, scenarios);
}
