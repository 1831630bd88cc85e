/* SPDX-License-Identifier: BSD-3-Clause */

/* The memory of the jobs of the scenario of chains, and checks of their
 * effect. */

#include <errno.h>
#include <string.h>

#include <weir/crc32c.h>

#include "sim-chains.h"

#define MARK 0xa5
#define TARGET (REGIONS * REGION)	/* Where targets begin, elsewhere. */

void places_set_up(struct program *p)
{
	struct weir_sim_card_opts card = {
		.size = sizeof(card), .bytes = 2 * TARGET,
	};
	struct weir_sim_peer_opts peer = {
		.size = sizeof(peer), .bytes = 2 * TARGET,
	};
	int err = weir_sync_create(&p->sync, NULL);

	for (unsigned int i = 0; !err && i < 2; i++) {
		/* Not TRANSFER: a card cannot transfer from a peer. */
		card.flags = rnd(p->run, 8) << 1;
		card.depth = one_in(p->run, 2) ? 1 + rnd(p->run, 4) : 0;
		err = weir_sim_card_create(&p->cards[i], p->run->sim, &card);
	}
	peer.depth = one_in(p->run, 2) ? 1 + rnd(p->run, 4) : 0;
	if (!err)
		err = weir_sim_peer_create(&p->peer, p->run->sim, &peer);
	must(!err, "places can be made", "%d: %s", err, weir_why());
}

static void places_destroy(struct program *p)
{
	int err = weir_sim_peer_destroy(p->peer);

	for (unsigned int i = 0; !err && i < 2; i++)
		err = weir_sim_card_destroy(p->cards[i]);
	must(!err, "the places are unused", "%d: %s", err, weir_why());
}

void places_take_down(struct program *p)
{
	uint64_t value = 0;

	must(!weir_sync_get(p->sync, &value) && value == p->added,
	     "a signal is given once, or not at all", "%llu, not %llu",
	     (unsigned long long)value, (unsigned long long)p->added);
	must(!weir_sync_destroy(p->sync), "a sync event is unused", "at last");
	must(p->word == p->sum, "an atomic is done once, or not at all",
	     "%llu, not %llu", (unsigned long long)p->word,
	     (unsigned long long)p->sum);
	places_destroy(p);
}

void places_mend(struct program *p)
{
	for (unsigned int i = 0; i < 2; i++)
		if (!weir_sim_card_open(p->cards[i]))
			p->opened++;
	if (p->run->trial->faults && one_in(p->run, 4))
		(void)weir_sim_peer_reset(p->peer);
}

/* How often a card has lost its memory: by a reset, or an open after one. */
static uint64_t resets(const struct program *p)
{
	struct weir_sim_card_stats s = { .size = sizeof(s) };
	uint64_t n = p->opened;

	for (unsigned int i = 0; i < 2; i++)
		if (!weir_sim_card_stats(p->cards[i], &s))
			n += s.resets;
	return n;
}

/* Sources come first, then targets, as in all regions. */
static char *memory_at(struct program *p, uint64_t at)
{
	return at < TARGET ? (char *)p->sources + at :
			     (char *)p->targets + (at - TARGET);
}

/* Copy @len bytes at @at of @place to or from @buf.  False: they are lost. */
static bool write_place(struct program *p, enum place place, uint64_t at,
			const void *buf, size_t len)
{
	switch (place) {
	case MEMORY:
		memcpy(memory_at(p, at), buf, len);
		return true;
	case PEER:
		memcpy((char *)weir_sim_peer_bytes(p->peer) + at, buf, len);
		return true;
	default:
		return !weir_sim_card_put(p->cards[place - CARD_A], at, buf,
					  len);
	}
}

static bool read_place(struct program *p, enum place place, uint64_t at,
		       void *buf, size_t len)
{
	switch (place) {
	case MEMORY:
		memcpy(buf, memory_at(p, at), len);
		return true;
	case PEER:
		memcpy(buf, (char *)weir_sim_peer_bytes(p->peer) + at, len);
		return true;
	default:
		return !weir_sim_card_get(p->cards[place - CARD_A], at, buf,
					  len);
	}
}

static struct weir_operand location(struct program *p, enum place place,
				    uint64_t at, size_t len)
{
	switch (place) {
	case MEMORY:
		return weir_operand_mem(memory_at(p, at), len);
	case PEER:
		return weir_operand_at(weir_sim_peer_domain(p->peer), at, len);
	default:
		return weir_operand_at(
			weir_sim_card_domain(p->cards[place - CARD_A]), at,
			len);
	}
}

static char *second(const struct step *s)
{
	return s->link->program->seconds[s->region];
}

static void draw_dualcast(struct step *s, struct weir_operand dst,
			  struct weir_operand src)
{
	memset(second(s), MARK, s->len);
	s->more[0] = weir_operand_mem(second(s), s->len);
	weir_job_dualcast(&s->job, dst, s->more, src);
}

static void draw_xor(struct step *s, struct weir_operand dst,
		     struct weir_operand src)
{
	pattern_fill(second(s), s->len, ~s->stamp, 0);
	s->more[0] = src;
	s->more[1] = weir_operand_mem(second(s), s->len);
	weir_job_xor(&s->job, dst, s->more, 2);
}

static void draw_compare(struct step *s, struct weir_operand src)
{
	pattern_fill(second(s), s->len, s->stamp, 0);
	s->equal = rnd(s->link->program->run, 2 * (uint32_t)s->len);
	if (s->equal < s->len)
		second(s)[s->equal] ^= 1;
	else
		s->equal = s->len;
	weir_job_compare(&s->job, src, weir_operand_mem(second(s), s->len));
}

/* An atomic on a word that all steps share. */
static void draw_atomic(struct step *s)
{
	struct program *p = s->link->program;

	s->n = 1 + rnd(p->run, 1000);
	s->old = p->word;
	weir_job_fetch_add(&s->job, weir_operand_mem(&p->word,
						     sizeof(p->word)), s->n);
}

static void draw_job(struct step *s)
{
	struct program *p = s->link->program;
	uint64_t at = (uint64_t)s->region * REGION;
	struct weir_operand src = location(p, s->from, at, s->len);
	struct weir_operand dst = location(p, s->to, TARGET + at, s->len);

	switch (rnd(p->run, 12)) {
	case 0:
	case 1:
		weir_job_crc32c(&s->job, src, 0);
		break;
	case 2:
	case 3:
		weir_job_copy_crc32c(&s->job, dst, src, 0);
		break;
	case 4:
		draw_dualcast(s, dst, src);
		break;
	case 5:
		draw_xor(s, dst, src);
		break;
	case 6:
		draw_compare(s, src);
		break;
	case 7:
		draw_atomic(s);
		break;
	case 8:
		weir_job_fill(&s->job, dst, s->stamp);
		break;
	default:
		weir_job_copy(&s->job, dst, src);
	}
	s->job.flags = one_in(p->run, 3) ? WEIR_JOB_LAZY : 0;
	if (one_in(p->run, 8))
		s->job.flags |= WEIR_JOB_FENCE;
}

/* A signal, or a wait for signals of others. */
static void draw_sync(struct step *s)
{
	struct program *p = s->link->program;

	memset(&s->sync, 0, sizeof(s->sync));
	s->sync.sync = p->sync;
	s->sync.action = one_in(p->run, 3) ? WEIR_SYNC_DO_WAIT :
					     WEIR_SYNC_DO_ADD;
	s->sync.cond = WEIR_SYNC_GE;
	s->sync.value = 1 + rnd(p->run, 5);
	if (s->sync.action == WEIR_SYNC_DO_WAIT)
		s->sync.value += p->added;
}

void step_prepare(struct step *s)
{
	struct program *p = s->link->program;
	char buf[REGION];

	s->calls = 0;
	if (s->kind == STEP_SYNC)
		draw_sync(s);
	if (s->kind != STEP_JOB)
		return;
	s->from = (enum place)rnd(p->run, PLACES);
	s->to = (enum place)rnd(p->run, PLACES);
	s->len = 1 + rnd(p->run, one_in(p->run, 2) ? 200 : REGION);
	s->stamp = ++p->stamps;
	s->resets = resets(p);
	s->is_known = true;
	pattern_fill(buf, s->len, s->stamp, 0);
	if (!write_place(p, s->from, (uint64_t)s->region * REGION, buf,
			 s->len))
		s->is_known = false;
	memset(buf, MARK, s->len);
	if (!write_place(p, s->to, TARGET + (uint64_t)s->region * REGION, buf,
			 s->len))
		s->is_known = false;
	draw_job(s);
}

/* Whether the target becomes equal to the source. */
static bool copies(const struct step *s)
{
	return s->job.kind == WEIR_JOB_COPY ||
	       s->job.kind == WEIR_JOB_COPY_CRC32C ||
	       s->job.kind == WEIR_JOB_DUALCAST;
}

static bool sums(const struct step *s)
{
	return s->job.kind == WEIR_JOB_CRC32C ||
	       s->job.kind == WEIR_JOB_COPY_CRC32C;
}

static bool is_marked(const char *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)buf[i] != MARK)
			return false;
	return true;
}

static void check_done(struct step *s, const char *target)
{
	struct program *p = s->link->program;
	char source[REGION];

	pattern_fill(source, s->len, s->stamp, 0);
	must(!copies(s) || pattern_is(p->run, target, s->len, s->stamp, 0),
	     "what is done is there", "step %u: %zu bytes, %d to %d",
	     s->region, s->len, (int)s->from, (int)s->to);
	must(!sums(s) || s->job.crc == weir_crc32c(0, source, s->len),
	     "a checksum is that of the bytes", "step %u", s->region);
	must(s->job.kind != WEIR_JOB_DUALCAST ||
	     pattern_is(p->run, second(s), s->len, s->stamp, 0),
	     "what is done is there", "step %u: the second target", s->region);
	for (size_t i = 0; s->job.kind == WEIR_JOB_XOR && i < s->len; i++)
		must(target[i] == (char)(source[i] ^ second(s)[i]),
		     "what is done is there", "step %u: an XOR, byte %zu",
		     s->region, i);
	for (size_t i = 0; s->job.kind == WEIR_JOB_FILL && i < s->len; i++)
		must(target[i] == ((const char *)&s->stamp)[i & 7],
		     "what is done is there", "step %u: a fill, byte %zu",
		     s->region, i);
}

/* Whether the seed's events explain its failure. */
static bool may_fail(const struct step *s, bool disturbed)
{
	return disturbed || s->link->program->run->trial->faults;
}

/* An atomic is done once or not at all. */
static void check_atomic(struct step *s, const struct weir_chain_step *outcome)
{
	struct program *p = s->link->program;
	uint64_t old = weir_job_old(&s->job);

	if (outcome->state != WEIR_STEP_DONE)
		return;
	p->sum += s->n;
	must(outcome->res == sizeof(p->word) && old >= s->old &&
	     old + s->n <= p->word, "an atomic tells what the word was",
	     "%llu, from %llu to %llu", (unsigned long long)old,
	     (unsigned long long)s->old, (unsigned long long)p->word);
}

static void check_job(struct step *s, const struct weir_chain_step *outcome,
		      bool disturbed)
{
	struct program *p = s->link->program;
	uint64_t at = TARGET + (uint64_t)s->region * REGION;
	char target[REGION];

	must(outcome->state != WEIR_STEP_FAILED || may_fail(s, disturbed),
	     "nothing fails without a cause", "step %u: %lld", s->region,
	     (long long)outcome->res);
	if (s->job.kind == WEIR_JOB_FETCH_ADD) {
		check_atomic(s, outcome);
		return;
	}
	if (!s->is_known || s->resets != resets(p) ||
	    !read_place(p, s->to, at, target, s->len))
		return;
	must(outcome->state != WEIR_STEP_DONE ||
	     s->job.kind != WEIR_JOB_COMPARE || outcome->res ==
	     (int64_t)s->equal, "a compare finds the first difference",
	     "step %u: %lld, not %zu", s->region, (long long)outcome->res,
	     s->equal);
	if (outcome->state == WEIR_STEP_DONE)
		check_done(s, target);
	else if (outcome->state == WEIR_STEP_SKIPPED)
		must(is_marked(target, s->len),
		     "what was skipped has changed nothing",
		     "step %u: %zu bytes, %d to %d", s->region, s->len,
		     (int)s->from, (int)s->to);
}

static void check_sync(struct step *s, const struct weir_chain_step *outcome)
{
	struct program *p = s->link->program;
	uint64_t value = 0;

	must(!weir_sync_get(p->sync, &value), "a sync event has its value",
	     "none");
	if (outcome->state != WEIR_STEP_DONE)
		return;
	if (s->sync.action == WEIR_SYNC_DO_ADD)
		p->added += s->sync.value;
	must(value >= s->sync.value, "a wait ends when its condition holds",
	     "step %u: %llu, not %llu", s->region, (unsigned long long)value,
	     (unsigned long long)s->sync.value);
}

void step_check(struct step *s, const struct weir_chain_step *outcome,
		bool disturbed)
{
	bool began = outcome->state != WEIR_STEP_SKIPPED;

	if (s->kind == STEP_JOB)
		check_job(s, outcome, disturbed);
	else if (s->kind == STEP_SYNC)
		check_sync(s, outcome);
	else
		must(s->calls == (began ? 1u : 0u),
		     "a call is made once, if at all", "step %u: %u",
		     s->region, s->calls);
}
