/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lanes; the header says how.
 *
 * The order of memory.  S is the sender, R the receiver.
 *
 *  1. S fills a cell and stores .tail; R loads .tail and reads the cell.  R
 *     writes a result and stores .head; S loads .head and reads the result.
 *     Both are a release that is paired with an acquire.  S writes to a cell
 *     again when .done has passed it, so after R has read it.
 *
 *  2. The bells.  S stores .tail, then loads R's .asleep; R stores .asleep,
 *     then loads .tail.  R stores .head or .closed, then loads S's .asleep,
 *     or first .wants_room; S stores .wants_room, then .asleep, and then loads
 *     .head and .closed.  In each pair one must see the other, for which all of
 *     them are sequentially consistent.  On x86 that costs a locked
 *     instruction, which waits for all that was written before: so it is done
 *     once at the end of S's turn, and of R's share in its own.  What is shown
 *     before that, every LANE_SHOW_EVERY messages, is a release only, and who
 *     is seen to sleep is woken, or else by the end.
 *
 *  3. A cancel is a store to the cell's kind, which R loads before it runs the
 *     call.  It may come too late, and what R answers is the truth in any case:
 *     so nothing depends on its order.
 *
 * tests/models/lane.pml goes through all orders of these steps, but for .closed
 * and what comes of it: that is in tests/models/group.pml.
 */

#include <stdlib.h>

#include "base/alloc.h"
#include "reactor/lane-inline.h"

_Thread_local struct weir_reactor *lanes_here;

static bool lane_init(struct lane *lane, uint32_t size)
{
	lane->mask = size - 1;
	lane->cells = mem_aligned(LANE_LINE, size * sizeof(*lane->cells));
	lane->kinds = mem_aligned(LANE_LINE, size * sizeof(*lane->kinds));
	lane->results = mem_aligned(LANE_LINE, size * sizeof(*lane->results));
	lane->ops = mem_calloc(size, sizeof(struct weir_op *));
	op_queue_init(&lane->waiting);
	return lane->cells && lane->kinds && lane->results && lane->ops;
}

static void lane_free(struct lane *lane)
{
	if (!lane)
		return;
	free(lane->cells);
	free(lane->kinds);
	free(lane->results);
	free(lane->ops);
	free(lane);
}

void lane_mesh_destroy(struct lane_mesh *mesh)
{
	uint32_t i, k;

	for (i = 0; mesh && mesh->lanes && i < mesh->n; i++) {
		for (k = 0; mesh->lanes[i].out && k < mesh->n; k++)
			lane_free(mesh->lanes[i].out[k]);
		free(mesh->lanes[i].out);
		free(mesh->lanes[i].in);
	}
	if (mesh)
		free(mesh->lanes);
	free(mesh);
}

static bool make_lanes(struct lane_mesh *mesh, struct lanes *from)
{
	struct lane *lane;
	uint32_t k;

	for (k = 0; k < mesh->n; k++) {
		if (k == from->self)
			continue;
		lane = mem_aligned(LANE_LINE, sizeof(*lane));
		if (!lane)
			return false;
		from->out[k] = lane;
		mesh->lanes[k].in[from->self] = lane;
		if (!lane_init(lane, mesh->size))
			return false;
	}
	return true;
}

static bool make_all(struct lane_mesh *mesh)
{
	struct lanes *lanes;
	uint32_t i;

	mesh->lanes = mem_calloc(mesh->n, sizeof(*mesh->lanes));
	if (!mesh->lanes)
		return false;
	for (i = 0; i < mesh->n; i++) {
		lanes = &mesh->lanes[i];
		lanes->mesh = mesh;
		lanes->self = i;
		lanes->in = mem_calloc(mesh->n, sizeof(struct lane *));
		lanes->out = mem_calloc(mesh->n, sizeof(struct lane *));
		if (!lanes->in || !lanes->out)
			return false;
	}
	for (i = 0; i < mesh->n; i++)
		if (!make_lanes(mesh, &mesh->lanes[i]))
			return false;
	return true;
}

struct lane_mesh *lane_mesh_create(uint32_t n, uint32_t size)
{
	struct lane_mesh *mesh = mem_calloc(1, sizeof(*mesh));

	if (!mesh)
		return NULL;
	mesh->n = n;
	mesh->size = size;
	if (make_all(mesh))
		return mesh;
	lane_mesh_destroy(mesh);
	return NULL;
}

void lanes_join(struct lane_mesh *mesh, uint32_t index, struct weir_reactor *r)
{
	struct lanes *lanes = &mesh->lanes[index];

	lanes->r = r;
	for (uint32_t i = 0; i < mesh->n; i++) {
		if (i == index)
			continue;
		lanes->in[i]->to = r;
		lanes->out[i]->from = r;
	}
	r->mailbox.lanes = lanes;
	mailbox_note_more(&r->mailbox);
}

/* The sender. */

/* In no order to anything else: who must know asks mailbox_wake(). */
static inline bool seems_asleep(struct weir_reactor *r)
{
	return atomic_load_explicit(&r->mailbox.asleep, memory_order_relaxed);
}

/* Before the end of the turn; that will ring, too. */
static void show_early(struct lane *lane)
{
	atomic_store_explicit(&lane->tail, lane->next, memory_order_release);
	if (unlikely(seems_asleep(lane->to)))
		mailbox_wake(lane->to);
}

static void list_unshown(struct lane *lane)
{
	struct lanes *lanes = lane->from->mailbox.lanes;

	lane->next_unshown = lanes->unshown ? lanes->unshown : lane;
	lanes->unshown = lane;
}

/* Move .limit, or say why not. */
static int go_on(struct lane *lane)
{
	uint64_t room;

	if (lane->next_unshown)
		show_early(lane);
	if (unlikely(lane->from->attention & ATTENTION_STOPPING ||
		     atomic_load(&lane->closed)))
		return -ESHUTDOWN;
	if (unlikely(lane_used(lane) > lane->mask))
		lane_forget_posts(lane);
	room = lane->mask + 1 - lane_used(lane);
	if (unlikely(!room))
		return -EAGAIN;
	lane->limit = lane->next +
		      (room < LANE_SHOW_EVERY ? room : LANE_SHOW_EVERY);
	if (!lane->next_unshown)
		list_unshown(lane);
	return 0;
}

/* The end of a turn shows what is left; outside of one nobody would. */
int lane_write_slowly(struct lane *lane, union lane_fn fn, void *arg,
		      enum lane_kind kind)
{
	int err = go_on(lane);

	if (unlikely(err))
		return err;
	lane_put(lane, fn, arg, kind);
	if (unlikely(!lane->from->in_turn))
		lanes_show(lane->from->mailbox.lanes);
	return 0;
}

void lanes_show(struct lanes *lanes)
{
	struct lane *lane;

	while (lanes && (lane = lanes->unshown)) {
		lanes->unshown = lane->next_unshown == lane ?
				 NULL : lane->next_unshown;
		lane->next_unshown = NULL;
		lane->limit = lane->next;
		atomic_store(&lane->tail, lane->next);
		mailbox_wake(lane->to);
	}
}

/* Not just for one more: who is told of room is to have some work done. */
bool lane_has_room(struct lane *lane)
{
	lane_forget_posts(lane);
	return lane_used(lane) <= (lane->mask + 1) / 2;
}

/* The cell is @pos's until its end was told, which it was not. */
void lane_cancel(struct lane *lane, uint64_t pos)
{
	atomic_store(&lane->kinds[pos & lane->mask], LANE_CANCELLED);
}

/* Off no list: a call is answered soon, also when its reactor stops. */
static inline void call_ended(struct weir_op *op, int64_t res)
{
	struct weir_reactor *r = op->reactor;

	if (unlikely(op->deadline.expires_ns))
		wheel_del(&r->wheel, &op->deadline);
	op_call_back(r, op, op_result(op, res));
}

static inline bool is_post(const struct lane *lane, uint64_t pos)
{
	return atomic_load_explicit(&lane->kinds[pos & lane->mask],
				    memory_order_relaxed) == LANE_POST;
}

/* Not beyond what was seen: a callback that sends may move .done past it. */
static unsigned int tell_ends(struct lane *lane, unsigned int max)
{
	uint64_t head = atomic_load(&lane->head), pos;
	unsigned int n = 0;

	while (lane->n_calls && lane->done < head && n < max) {
		pos = lane->done++;
		if (is_post(lane, pos))
			continue;
		lane->n_calls--;
		call_ended(lane->ops[pos & lane->mask],
			   lane->results[pos & lane->mask]);
		n++;
	}
	return n;
}

/* One for each message that there is room for, and no herd. */
static unsigned int tell_room(struct lane *lane)
{
	bool closed = atomic_load(&lane->closed);
	unsigned int n = 0, most;

	if (!closed && !lane_has_room(lane))
		return 0;
	most = closed ? UINT32_MAX :
			(unsigned int)(lane->mask + 1 - lane_used(lane));
	while (n < most && !op_queue_empty(&lane->waiting)) {
		op_complete(op_queue_pop(&lane->waiting),
			    closed ? -ESHUTDOWN : 0);
		n++;
	}
	if (op_queue_empty(&lane->waiting))
		atomic_store(&lane->wants_room, false);
	return n;
}

/* Whether the sender has something to be told. */
static inline bool has_news(struct lane *lane)
{
	if (lane->n_calls && atomic_load(&lane->head) != lane->done)
		return true;
	return unlikely(!op_queue_empty(&lane->waiting)) &&
	       (lane_has_room(lane) || atomic_load(&lane->closed));
}

/* The receiver. */

/* Of a call, or of room. */
static bool has_answer(struct lane *lane, bool calls)
{
	return calls || (unlikely(atomic_load(&lane->wants_room)) &&
			 lane->seen - lane->taken <= (lane->mask + 1) / 2);
}

/* Before all is run; the end of that will ring, too. */
static void answer_early(struct lane *lane, bool calls)
{
	atomic_store_explicit(&lane->head, lane->taken, memory_order_release);
	if (unlikely(seems_asleep(lane->from)) && has_answer(lane, calls))
		mailbox_wake(lane->from);
}

static void answer(struct lane *lane, bool calls)
{
	atomic_store(&lane->head, lane->taken);
	if (has_answer(lane, calls))
		mailbox_wake(lane->from);
}

/* Returns whether it was a call. */
static inline bool run_one(struct lane *lane)
{
	uint64_t i = lane->taken & lane->mask;
	struct lane_cell *cell = &lane->cells[i];
	unsigned char kind = atomic_load_explicit(&lane->kinds[i],
						  memory_order_relaxed);

	if (kind == LANE_POST)
		cell->fn.post(cell->arg);
	else if (likely(kind == LANE_CALL))
		lane->results[i] = cell->fn.call(cell->arg);
	else
		lane->results[i] = -ECANCELED;
	lane->taken++;
	return kind != LANE_POST;
}

static unsigned int lane_run(struct lane *lane, unsigned int max)
{
	bool calls = false;
	unsigned int n = 0;

	lane->seen = atomic_load(&lane->tail);
	while (lane->taken != lane->seen && n < max) {
		calls |= run_one(lane);
		if (!(++n % LANE_SHOW_EVERY))
			answer_early(lane, calls);
	}
	if (n)
		answer(lane, calls);
	lane->to->stats.posts += n;
	return n;
}

/* Ends and messages are counted apart: a flood of these keeps none of those. */
unsigned int lanes_run(struct weir_reactor *r, unsigned int max)
{
	struct lanes *lanes = r->mailbox.lanes;
	uint32_t i, k, n = lanes->mesh->n;
	unsigned int ran = 0, ended = 0, told = 0;

	for (i = 0; i < n; i++) {
		k = lanes->cursor + i;
		k = k < n ? k : k - n;
		if (k == lanes->self)
			continue;
		ended += tell_ends(lanes->out[k], max - ended);
		ran += lane_run(lanes->in[k], max - ran);
		if (unlikely(!op_queue_empty(&lanes->out[k]->waiting)))
			told += tell_room(lanes->out[k]);
	}
	lanes->cursor = lanes->cursor + 1 < n ? lanes->cursor + 1 : 0;
	if (lanes->unshown)
		lanes_show(lanes);
	return ran + ended + told;
}

bool lanes_have(const struct lanes *lanes)
{
	for (uint32_t i = 0; i < lanes->mesh->n; i++) {
		if (i == lanes->self)
			continue;
		if (atomic_load(&lanes->in[i]->tail) != lanes->in[i]->taken ||
		    has_news(lanes->out[i]))
			return true;
	}
	return false;
}

bool lanes_owed(const struct lanes *lanes)
{
	for (uint32_t i = 0; i < lanes->mesh->n; i++)
		if (i != lanes->self && lanes->out[i]->n_calls)
			return true;
	return false;
}

void lanes_close(struct lanes *lanes)
{
	struct lane *lane;

	for (uint32_t i = 0; i < lanes->mesh->n; i++) {
		lane = lanes->in[i];
		if (!lane)
			continue;
		atomic_store(&lane->closed, true);
		if (atomic_load(&lane->wants_room))
			mailbox_wake(lane->from);
	}
}

/*
 * Who stops sends nothing new, so when all are quiet nothing more is written,
 * and what was can be seen, by who looks after that: a look before may have
 * missed it.  The last one has the others look again.
 */
bool lanes_quiet(struct lanes *lanes)
{
	struct lane_mesh *mesh = lanes->mesh;

	if (!lanes->quiet) {
		lanes->quiet = true;
		if (atomic_fetch_add(&mesh->n_quiet, 1) + 1 == mesh->n)
			for (uint32_t i = 0; i < mesh->n; i++)
				if (i != lanes->self)
					weir_reactor_stop(mesh->lanes[i].r);
	}
	return atomic_load(&mesh->n_quiet) == mesh->n;
}
