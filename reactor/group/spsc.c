/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings; spsc.h says how they work.
 *
 * The order of memory.  S is the sender, R the receiver.
 *
 * 1. S fills a cell and stores .tail; R loads .tail and reads the cell.  R
 * writes a result and stores .head; S loads .head and reads the result.  Both
 * are a release that is paired with an acquire.  S writes to a cell again when
 * .done has passed it, so after R has read it.
 *
 * 2. The wake-ups.  S stores .tail, then loads R's .asleep; R stores .asleep,
 * then loads .tail.  R stores .head or .closed, then loads S's .asleep (for
 * capacity, .wants_capacity first); S stores .wants_capacity, then .asleep, and
 * then loads .head and .closed.  In each pair one must see the other, so all of
 * them are sequentially consistent.  On x86 that costs a locked instruction,
 * which waits for all earlier writes, so S does it once at the end of its turn,
 * and R once after its share of a turn.  Before that, every SPSC_PUBLISH_EVERY
 * messages, both publish with a release only; a side that is seen to sleep is
 * woken at once, and the sequentially consistent store at the end covers the
 * case that it was not seen.
 *
 * 3. A cancel is a store to the cell's kind, which R loads before it runs the
 * call.  It may come too late; R's answer is correct in both cases, so nothing
 * depends on the order.
 *
 * tests/models/spsc.pml explores all orders of these steps except those of
 * .closed, which are in tests/models/group.pml.
 */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/own.h"
#include "reactor/group/spsc-inline.h"

_Thread_local struct weir_reactor *rings_here;
_Thread_local struct rings_frame *rings_frames;

static bool spsc_init(struct spsc *spsc, uint32_t size)
{
	debug_check(size && !(size & (size - 1)));
	spsc->mask = size - 1;
	spsc->cells = mem_aligned(SPSC_LINE, size * sizeof(*spsc->cells));
	spsc->kinds = mem_aligned(SPSC_LINE, size * sizeof(*spsc->kinds));
	spsc->results = mem_aligned(SPSC_LINE, size * sizeof(*spsc->results));
	spsc->ops = mem_calloc(size, sizeof(struct weir_op *));
	op_queue_init(&spsc->waiting);
	own_words(&spsc->tail, sizeof(spsc->tail));
	own_words(&spsc->head, sizeof(spsc->head));
	own_words(&spsc->wants_capacity, sizeof(spsc->wants_capacity));
	own_words(&spsc->closed, sizeof(spsc->closed));
	if (spsc->kinds)
		own_words(spsc->kinds, size * sizeof(*spsc->kinds));
	return spsc->cells && spsc->kinds && spsc->results && spsc->ops;
}

static void spsc_free(struct spsc *spsc)
{
	if (!spsc)
		return;
	free(spsc->cells);
	free(spsc->kinds);
	free(spsc->results);
	free(spsc->ops);
	free(spsc);
}

void ring_matrix_destroy(struct ring_matrix *mesh)
{
	uint32_t i, k;

	for (i = 0; mesh && mesh->rings && i < mesh->n; i++) {
		for (k = 0; mesh->rings[i].out && k < mesh->n; k++)
			spsc_free(mesh->rings[i].out[k]);
		free(mesh->rings[i].out);
		free(mesh->rings[i].in);
	}
	if (mesh)
		free(mesh->rings);
	free(mesh);
}

static bool make_rings(struct ring_matrix *mesh, struct rings *from)
{
	struct spsc *spsc;
	uint32_t k;

	for (k = 0; k < mesh->n; k++) {
		if (k == from->self)
			continue;
		spsc = mem_aligned(SPSC_LINE, sizeof(*spsc));
		if (!spsc)
			return false;
		from->out[k] = spsc;
		mesh->rings[k].in[from->self] = spsc;
		if (!spsc_init(spsc, mesh->size))
			return false;
	}
	return true;
}

static bool make_all(struct ring_matrix *mesh)
{
	struct rings *rings;
	uint32_t i;

	mesh->rings = mem_calloc(mesh->n, sizeof(*mesh->rings));
	if (!mesh->rings)
		return false;
	for (i = 0; i < mesh->n; i++) {
		rings = &mesh->rings[i];
		rings->mesh = mesh;
		rings->self = i;
		rings->in = mem_calloc(mesh->n, sizeof(struct spsc *));
		rings->out = mem_calloc(mesh->n, sizeof(struct spsc *));
		if (!rings->in || !rings->out)
			return false;
	}
	for (i = 0; i < mesh->n; i++)
		if (!make_rings(mesh, &mesh->rings[i]))
			return false;
	return true;
}

struct ring_matrix *ring_matrix_create(uint32_t n, uint32_t size)
{
	struct ring_matrix *mesh = mem_calloc(1, sizeof(*mesh));

	if (!mesh)
		return NULL;
	mesh->n = n;
	mesh->size = size;
	own_words(&mesh->n_quiet, sizeof(mesh->n_quiet));
	if (make_all(mesh))
		return mesh;
	ring_matrix_destroy(mesh);
	return NULL;
}

void rings_join(struct ring_matrix *mesh, uint32_t index,
		struct weir_reactor *r)
{
	struct rings *rings = &mesh->rings[index];

	rings->r = r;
	for (uint32_t i = 0; i < mesh->n; i++) {
		if (i == index)
			continue;
		rings->in[i]->to = r;
		rings->out[i]->from = r;
	}
	r->mailbox.rings = rings;
	mailbox_note_more(&r->mailbox);
}

/* The sender. */

/* Unordered, and so only a hint: callers that need to know call
 * mailbox_wake(). */
static inline bool seems_asleep(struct weir_reactor *r)
{
	return atomic_load_explicit(&r->mailbox.asleep, memory_order_relaxed);
}

/* Publish before the end of the turn; the end of the turn also wakes. */
static void publish_early(struct spsc *spsc)
{
	own_before(&spsc->tail);
	atomic_store_explicit(&spsc->tail, spsc->next, memory_order_release);
	if (unlikely(seems_asleep(spsc->to)))
		mailbox_wake(spsc->to);
}

static void list_unshown(struct spsc *spsc)
{
	struct rings *rings = spsc->from->mailbox.rings;

	debug_check(!spsc->next_unshown);
	spsc->next_unshown = rings->unshown ? rings->unshown : spsc;
	rings->unshown = spsc;
}

/* Move .limit, or return why it cannot move. */
static int go_on(struct spsc *spsc)
{
	uint64_t capacity;

	if (spsc->next_unshown)
		publish_early(spsc);
	if (unlikely(spsc->from->attention & ATTENTION_STOPPING ||
		     atomic_load(&spsc->closed)))
		return -ESHUTDOWN;
	if (unlikely(spsc_used(spsc) > spsc->mask))
		spsc_forget_posts(spsc);
	capacity = spsc->mask + 1 - spsc_used(spsc);
	if (unlikely(!capacity))
		return -EAGAIN;
	spsc->limit =
		spsc->next +
		(capacity < SPSC_PUBLISH_EVERY ? capacity : SPSC_PUBLISH_EVERY);
	if (!spsc->next_unshown)
		list_unshown(spsc);
	return 0;
}

/* The end of a turn publishes what is left; outside of one nothing would. */
int spsc_write_slowly(struct spsc *spsc, union spsc_fn fn, void *arg,
		      enum spsc_kind kind)
{
	int err = go_on(spsc);

	debug_check(spsc_used(spsc) <= spsc->mask + 1);
	if (unlikely(err))
		return err;
	spsc_put(spsc, fn, arg, kind);
	if (unlikely(!spsc->from->in_turn))
		rings_publish(spsc->from->mailbox.rings);
	return 0;
}

void rings_publish(struct rings *rings)
{
	struct spsc *spsc;

	while (rings && (spsc = rings->unshown)) {
		rings->unshown =
			spsc->next_unshown == spsc ? NULL : spsc->next_unshown;
		spsc->next_unshown = NULL;
		spsc->limit = spsc->next;
		own_before(&spsc->tail);
		atomic_store(&spsc->tail, spsc->next);
		mailbox_wake(spsc->to);
	}
}

/* Report capacity only when half is free, so that a waiter can send many
 * messages and not just one. */
bool spsc_has_capacity(struct spsc *spsc)
{
	spsc_forget_posts(spsc);
	return spsc_used(spsc) <= (spsc->mask + 1) / 2;
}

/* The cell belongs to @pos until the sender reports its end, which it has
 * not. */
void spsc_cancel(struct spsc *spsc, uint64_t pos)
{
	atomic_store(&spsc->kinds[pos & spsc->mask], SPSC_CANCELLED);
}

/* The call is on no list to be removed from; see call_by_spsc(). */
static inline void call_ended(struct weir_op *op, int64_t res)
{
	struct weir_reactor *r = op->reactor;

	if (unlikely(op->deadline.expires_ns))
		wheel_del(&r->wheel, &op->deadline);
	op_call_back(r, op, op_result(op, res));
}

static inline bool is_post(const struct spsc *spsc, uint64_t pos)
{
	return atomic_load_explicit(&spsc->kinds[pos & spsc->mask],
				    memory_order_relaxed) == SPSC_POST;
}

/* Stop at the .head that was loaded: a callback that sends may move .done past
 * it. */
static unsigned int tell_ends(struct spsc *spsc, unsigned int max)
{
	uint64_t head = atomic_load(&spsc->head), pos;
	unsigned int n = 0;

	debug_check(spsc->done <= atomic_load(&spsc->head));
	if (spsc->done != head)
		own_after(&spsc->head);
	while (spsc->n_calls && spsc->done < head && n < max) {
		pos = spsc->done++;
		if (is_post(spsc, pos))
			continue;
		spsc->n_calls--;
		call_ended(spsc->ops[pos & spsc->mask],
			   spsc->results[pos & spsc->mask]);
		n++;
	}
	return n;
}

/* One for each message that there is capacity for, and no herd. */
static unsigned int tell_capacity(struct spsc *spsc)
{
	bool closed = atomic_load(&spsc->closed);
	unsigned int n = 0, most;

	if (!closed && !spsc_has_capacity(spsc))
		return 0;
	most = closed ? UINT32_MAX :
			(unsigned int)(spsc->mask + 1 - spsc_used(spsc));
	while (n < most && !op_queue_empty(&spsc->waiting)) {
		op_complete(op_queue_pop(&spsc->waiting),
			    closed ? -ESHUTDOWN : 0);
		n++;
	}
	if (op_queue_empty(&spsc->waiting))
		atomic_store(&spsc->wants_capacity, false);
	return n;
}

/* Whether the sender has results or capacity to report. */
static inline bool has_news(struct spsc *spsc)
{
	if (spsc->n_calls && atomic_load(&spsc->head) != spsc->done)
		return true;
	return unlikely(!op_queue_empty(&spsc->waiting)) &&
	       (spsc_has_capacity(spsc) || atomic_load(&spsc->closed));
}

/* The receiver. */

/* Whether the sender waits for the result of a call, or for capacity. */
static bool has_answer(struct spsc *spsc, bool calls)
{
	return calls || (unlikely(atomic_load(&spsc->wants_capacity)) &&
			 spsc->seen - spsc->taken <= (spsc->mask + 1) / 2);
}

/* Answer before all has run; the end of the run also wakes. */
static void answer_early(struct spsc *spsc, bool calls)
{
	own_before(&spsc->head);
	atomic_store_explicit(&spsc->head, spsc->taken, memory_order_release);
	if (unlikely(seems_asleep(spsc->from)) && has_answer(spsc, calls))
		mailbox_wake(spsc->from);
}

static void answer(struct spsc *spsc, bool calls)
{
	own_before(&spsc->head);
	atomic_store(&spsc->head, spsc->taken);
	if (has_answer(spsc, calls))
		mailbox_wake(spsc->from);
}

/* Returns whether it was a call. */
static inline bool run_one(struct spsc *spsc)
{
	uint64_t i = spsc->taken & spsc->mask;
	struct spsc_cell *cell = &spsc->cells[i];
	unsigned char kind =
		atomic_load_explicit(&spsc->kinds[i], memory_order_relaxed);

	if (kind == SPSC_POST)
		cell->fn.post(cell->arg);
	else if (likely(kind == SPSC_CALL))
		spsc->results[i] = cell->fn.call(cell->arg);
	else
		spsc->results[i] = -ECANCELED;
	spsc->taken++;
	return kind != SPSC_POST;
}

static unsigned int spsc_run(struct spsc *spsc, unsigned int max)
{
	bool calls = false;
	unsigned int n = 0;

	debug_check(spsc->taken <= atomic_load(&spsc->tail));
	spsc->seen = atomic_load(&spsc->tail);
	if (spsc->taken != spsc->seen)
		own_after(&spsc->tail);
	while (spsc->taken != spsc->seen && n < max) {
		calls |= run_one(spsc);
		if (!(++n % SPSC_PUBLISH_EVERY))
			answer_early(spsc, calls);
	}
	if (n)
		answer(spsc, calls);
	spsc->to->stats.posts += n;
	return n;
}

/* Of most cores nothing has come, and they want nothing: each turn asks all. */
static inline bool is_idle(const struct spsc *in, const struct spsc *out)
{
	return atomic_load(&in->tail) == in->taken && !out->n_calls &&
	       op_queue_empty(&out->waiting);
}

/* Where the next turn begins, if this one has run as much as it may up to the ring @k, or
 * else .cursor: so each waits once for what the others have. */
static inline uint32_t next_first(const struct rings *rings, uint32_t k)
{
	if (k == rings->cursor || rings->in[k]->taken == rings->in[k]->seen)
		k++;
	return k < rings->mesh->n ? k : 0;
}

/* Ends and messages are counted apart: a flood of these keeps none of those. */
unsigned int rings_run(struct weir_reactor *r, unsigned int max)
{
	struct rings *rings = r->mailbox.rings;
	uint32_t i, k = rings->cursor, last = k, n = rings->mesh->n;
	unsigned int ran = 0, ended = 0, told = 0, some;

	reactor_check_thread(r);
	for (i = 0; i < n; i++, k = k + 1 < n ? k + 1 : 0) {
		if (k == rings->self || is_idle(rings->in[k], rings->out[k]))
			continue;
		ended += tell_ends(rings->out[k], max - ended);
		some = spsc_run(rings->in[k], max - ran);
		ran += some;
		last = some ? k : last;
		if (unlikely(!op_queue_empty(&rings->out[k]->waiting)))
			told += tell_capacity(rings->out[k]);
	}
	rings->cursor = next_first(rings, ran < max ? rings->cursor : last);
	if (rings->unshown)
		rings_publish(rings);
	return ran + ended + told;
}

bool rings_have(const struct rings *rings)
{
	for (uint32_t i = 0; i < rings->mesh->n; i++) {
		if (i == rings->self)
			continue;
		if (atomic_load(&rings->in[i]->tail) != rings->in[i]->taken ||
		    has_news(rings->out[i]))
			return true;
	}
	return false;
}

bool rings_owed(const struct rings *rings)
{
	for (uint32_t i = 0; i < rings->mesh->n; i++)
		if (i != rings->self && rings->out[i]->n_calls)
			return true;
	return false;
}

void rings_close(struct rings *rings)
{
	struct spsc *spsc;

	for (uint32_t i = 0; i < rings->mesh->n; i++) {
		spsc = rings->in[i];
		if (!spsc)
			continue;
		atomic_store(&spsc->closed, true);
		if (atomic_load(&spsc->wants_capacity))
			mailbox_wake(spsc->from);
	}
}

/*
 * A stopping core sends nothing new.  So when all cores are quiet nothing more
 * is written, and a poll after that sees all that was written; a poll before
 * may have missed some of it.  The last core to become quiet wakes the others
 * to poll again.
 */
bool rings_quiet(struct rings *rings)
{
	struct ring_matrix *mesh = rings->mesh;

	debug_check(atomic_load(&rings->mesh->n_quiet) <= rings->mesh->n);
	if (!rings->quiet) {
		rings->quiet = true;
		own_before(&mesh->n_quiet);
		if (atomic_fetch_add(&mesh->n_quiet, 1) + 1 == mesh->n)
			for (uint32_t i = 0; i < mesh->n; i++)
				if (i != rings->self)
					weir_reactor_stop(mesh->rings[i].r);
	}
	if (atomic_load(&mesh->n_quiet) != mesh->n)
		return false;
	own_after(&mesh->n_quiet);
	return true;
}
