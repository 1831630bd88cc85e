/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/programs/worlds-disk.h"

#include <string.h>

#include <weir/sim/file.h>
#include <weir/timer.h>

#define MIXED 4u

struct disk disk;

static uint32_t least_of(uint32_t a, uint32_t b)
{
	return b && b < a ? b : a;
}

static bool zeroes_it(const struct want *w)
{
	return w->kind == WANT_ZERO || w->kind == WANT_TRIM;
}

static bool flushes(const struct want *w)
{
	return w->kind == WANT_FLUSH || w->fua;
}

static bool changes(const struct want *w)
{
	return w->kind == WANT_WRITE || zeroes_it(w);
}

static uint64_t n_errors(void)
{
	struct weir_sim_stats stats = { .size = sizeof(stats) };

	weir_sim_stats(disk.sim, &stats);
	return stats.faults[WEIR_SIM_ERROR];
}

/* A flush may have failed without anyone being told. */
static void end_is_unknown(const struct want *w)
{
	uint32_t ago = disk.power - w->power;

	if (flushes(w) && ago <= 1 &&
	    (!disk.unknown[ago] || w->errors < disk.unknown[ago]))
		disk.unknown[ago] = w->errors + 1;
}

void disk_interrupted(struct want *w)
{
	for (uint32_t n = 0; n < w->n; n++) {
		struct sector *s = &disk.sectors[w->first + n];

		s->busy = false;
		if (changes(w) && w->program == disk.program &&
		    (!s->loose || w->number < s->loose))
			s->loose = w->number;
	}
	end_is_unknown(w);
	w->used = false;
}

void disk_again(struct want *w)
{
	end_is_unknown(w);
	w->program = disk.program;
	w->late = false;
}

/* Nothing is loose any more, and what is not durable may be lost with the power. */
void disk_server_ended(bool power)
{
	for (uint32_t i = 0; i < SECTORS; i++) {
		struct sector *s = &disk.sectors[i];

		s->least = least_of(s->least, s->loose);
		s->loose = 0;
		if (power)
			s->least = s->durable;
	}
	disk.program++;
	disk.lost = false;
	disk.doubt[0] |= disk.suspect;
	disk.suspect = false;
	if (!power)
		return;
	disk.power++;
	disk.doubt[1] = disk.doubt[0];
	disk.doubt[0] = false;
	disk.unknown[1] = disk.unknown[0];
	disk.unknown[0] = 0;
}

/* Requests. */

void disk_fill(const struct want *w, uint8_t *to)
{
	for (uint32_t n = 0; n < w->n; n++) {
		uint32_t sector = w->first + n;

		for (uint32_t i = 0; i < SECTOR; i += 8, to += 8) {
			memcpy(to, &sector, 4);
			memcpy(to + 4, &w->number, 4);
		}
	}
}

static void choose(struct want *w)
{
	static const enum want_kind kinds[] = {
		WANT_WRITE, WANT_WRITE, WANT_WRITE, WANT_WRITE, WANT_READ,
		WANT_READ, WANT_FLUSH, WANT_FLUSH, WANT_ZERO, WANT_TRIM
	};

	w->kind = kinds[draw(disk.sim, 10)];
	w->n = 1 + draw(disk.sim, disk.most);
	w->first = draw(disk.sim, SECTORS - w->n + 1);
	w->fua = changes(w) && disk.fua_of && !draw(disk.sim, disk.fua_of);
}

/* No two requests at a time concern one sector, for then it would not be known which
 * came first. */
static bool is_free(const struct want *w)
{
	for (uint32_t i = 0; i < w->n && w->kind != WANT_FLUSH; i++)
		if (disk.sectors[w->first + i].busy)
			return false;
	return true;
}

static void begin(struct want *w)
{
	w->used = true;
	w->program = disk.program;
	w->power = disk.power;
	w->errors = n_errors();
	w->late = disk.lost;
	if (w->kind == WANT_FLUSH) {
		w->first = w->n = 0;
		for (uint32_t i = 0; i < SECTORS; i++)
			w->snapshot[i] = disk.sectors[i].least;
		return;
	}
	if (changes(w))
		w->number = ++disk.number;
	for (uint32_t i = 0; i < w->n; i++) {
		struct sector *s = &disk.sectors[w->first + i];

		s->busy = true;
		if (changes(w))
			s->newest = w->number;
		s->torn |= changes(w);
		if (zeroes_it(w))
			s->zeroed = w->number;
	}
}

static struct want *free_want(void)
{
	for (uint32_t i = 0; i < DEPTH; i++)
		if (!disk.wants[i].used)
			return &disk.wants[i];
	return NULL;
}

static bool is_idle(void)
{
	for (uint32_t i = 0; i < DEPTH; i++)
		if (disk.wants[i].used)
			return false;
	return true;
}

struct want *disk_next(void)
{
	struct want *w = free_want();

	if (!w)
		return NULL;
	if (disk.checks && disk.at == SECTORS) {
		disk.done = is_idle();
		return NULL;
	}
	if (disk.checks)
		*w = (struct want){ .kind = WANT_READ, .first = disk.at, .n = 16 };
	else if (disk.left)
		choose(w);
	else
		return NULL;
	if (!is_free(w))
		return NULL;
	if (disk.checks)
		disk.at += 16;
	else
		disk.left--;
	begin(w);
	return w;
}

/* Answers. */

/* A program that is killed may have written a part of these eight bytes; their number
 * is any then. */
static bool is_mixed(const struct sector *s, uint32_t i, const uint8_t *data)
{
	const uint8_t *where = (const uint8_t *)&i;
	bool mixed = s->torn;

	for (uint32_t n = 0; n < sizeof(i); n++)
		mixed &= !data[n] || data[n] == where[n];
	return mixed;
}

/* The number of the eight bytes at @data; those of some may be *@mixed, but not more
 * of a sector than it was often cut. */
static uint32_t number_at(const struct sector *s, uint32_t i, const uint8_t *data,
			  uint32_t *mixed)
{
	uint32_t least = least_of(s->least, s->loose), where, number;

	memcpy(&where, data, 4);
	memcpy(&number, data + 4, 4);
	if (!where && !number && s->zeroed >= least)
		return s->zeroed;
	if (where == i && number >= least && number <= s->newest)
		return number;
	if (++*mixed > MIXED || !is_mixed(s, i, data))
		weir_sim_violation("what was acknowledged is there",
				   "sector %u has %u of %u, not %u to %u", i,
				   number, where, least, s->newest);
	return 0;
}

static void check(const struct want *w, uint32_t i, const uint8_t *data)
{
	struct sector *s = &disk.sectors[i];
	uint32_t mixed = 0, number = number_at(s, i, data, &mixed);
	bool whole = true;

	for (uint32_t at = 8; at < SECTOR; at += 8)
		whole &= number_at(s, i, data + at, &mixed) == number;
	if (!whole && !s->torn)
		weir_sim_violation("a sector is as it was written",
				   "sector %u has %u and others", i, number);
	disk.verified += SECTOR;
	/* What was seen stays; zeros may be those of any of several. */
	if (whole && (data[0] || data[4]) && !s->loose &&
	    w->power == disk.power)
		s->least = number;
}

/* Whether a flush that was answered well may have flushed nothing. */
static bool is_in_doubt(const struct want *w)
{
	uint32_t ago = disk.power - w->power;

	return ago > 1 || disk.doubt[ago] ||
	       (disk.unknown[ago] && n_errors() >= disk.unknown[ago]);
}

static void is_durable(struct sector *s, uint32_t number)
{
	if (number > s->durable)
		s->durable = number;
	if (number == s->newest && !s->loose)
		s->torn = false;
	if (s->durable > s->least)
		s->least = s->durable;
}

static void succeed(struct want *w, const uint8_t *data)
{
	bool safe = !is_in_doubt(w);

	MUST("no flush succeeds after one that failed",
	     !w->late || !flushes(w));

	for (uint32_t i = 0; i < w->n; i++) {
		struct sector *s = &disk.sectors[w->first + i];
		uint32_t number = least_of(w->number, s->loose);

		if (w->kind == WANT_READ)
			check(w, w->first + i, data + i * SECTOR);
		if (w->kind == WANT_READ || w->kind == WANT_TRIM)
			continue;
		if (w->power == disk.power)
			s->least = number;
		if (w->fua && safe)
			is_durable(s, number);
	}
	for (uint32_t i = 0; w->kind == WANT_FLUSH && safe && i < SECTORS; i++)
		is_durable(&disk.sectors[i],
			   least_of(w->snapshot[i], disk.sectors[i].loose));
}

void disk_answered(struct want *w, enum disk_result res, const uint8_t *data)
{
	uint32_t ago = disk.power - w->power;

	if (res == DISK_OK)
		succeed(w, data);
	else if (w->kind == WANT_WRITE && w->program == disk.program)
		disk.suspect |= flushes(w);
	else if (flushes(w) && ago <= 1)
		disk.doubt[ago] = true;
	if (res == DISK_LOST && w->kind == WANT_FLUSH &&
	    w->program == disk.program)
		disk.lost = true;
	if (res != DISK_OK && w->kind == WANT_READ && disk.checks)
		disk.at = 0;
	for (uint32_t i = 0; i < w->n; i++)
		disk.sectors[w->first + i].busy = false;
	w->used = false;
}

/* The scenario. */

void disk_begin(struct weir_sim *sim)
{
	static const uint8_t zeros[SECTORS * SECTOR];

	memset(&disk, 0, sizeof(disk));
	disk.sim = sim;
	disk.fua_of = 4;
	MUST("the disk is there",
	     weir_sim_file_write(sim, "server/disk.img", zeros, sizeof(zeros),
				 0) == sizeof(zeros));
}

static struct {
	struct weir_reactor *r;
	struct weir_op op;
	void (*go)(void);
} tick;

static void on_tick(struct weir_op *op, int64_t res)
{
	(void)res;
	tick.go();
	MUST("it sleeps",
	     !weir_sleep_until(tick.r, op, weir_reactor_now(tick.r) +
			       draw(disk.sim, 2 * WEIR_MSEC)));
}

static void tick_start(struct weir_sim_host *host, void *arg)
{
	(void)host, (void)arg;
	tick.r = reactor_here();
	weir_op_init(&tick.op, on_tick);
	on_tick(&tick.op, 0);
}

void disk_tick(void (*go)(void))
{
	tick.go = go;
	host_add(disk.sim, (struct weir_sim_host_opts){
		.name = "user", .start = tick_start,
		.flags = WEIR_SIM_HOST_HEALTHY });
}

static void cut(struct weir_sim_host *server, void (*powered_off)(void))
{
	bool power = draw(disk.sim, 2);
	bool runs = weir_sim_host_state(server) > WEIR_SIM_HOST_STARTING;

	if (power ? weir_sim_host_power_off(server) :
		    weir_sim_host_kill(server))
		return;
	if (power && !runs)
		powered_off();
	weir_sim_run(disk.sim, draw(disk.sim, 50) * WEIR_MSEC, 0);
	weir_sim_host_start(server);
}

void disk_run(struct weir_sim_trial *trial, struct weir_sim_host *server, void (*go)(void),
	      void (*powered_off)(void))
{
	struct weir_sim *sim = trial->sim;
	uint64_t end;

	for (uint32_t i = 0; i < trial->ops; i++) {
		disk.left += draw(sim, 60);
		disk.most = draw(sim, 6) ? 16 : MOST;
		go();
		weir_sim_run(sim, draw(sim, 100) * WEIR_MSEC, 0);
		cut(server, powered_off);
	}
	weir_sim_set_faults(sim, 0);
	if (weir_sim_host_state(server) <= WEIR_SIM_HOST_OFF)
		weir_sim_host_start(server);
	disk.left = 0;
	disk.checks = true;
	disk.at = 0;
	end = weir_sim_now(sim) + END_NS;
	while (!disk.done && weir_sim_now(sim) < end) {
		go();
		weir_sim_run(sim, 100 * WEIR_MSEC, 0);
	}
	MUST("all sectors can be read in the end", disk.done);
	weir_sim_note(sim, "number", disk.number);
	trial->verified += disk.verified;
}
