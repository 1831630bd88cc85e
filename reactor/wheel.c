/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hierarchical timer wheel without wrap-around.
 *
 * A tick is a number of 54 bits, or 9 digits of 6 bits.  A node lives at the
 * level of the highest digit in which its tick differs from the wheel's clock,
 * in the slot that this digit names:
 *
 *	clk   ... 07 31 12 05		(digits of level 3, 2, 1, 0)
 *	tick  ... 07 31 12 40	->	level 0, slot 40
 *	tick  ... 07 33 60 01	->	level 2, slot 33
 *
 * From this follows all that makes the rest short:
 *
 *   - All digits above a node's level are the clock's, so a slot's number
 *     gives its ticks exactly, and all occupied slots of a level are after
 *     the clock's own: no wrap-around, the lowest bit is the earliest slot.
 *   - Everything at one level is earlier than everything at the next, so the
 *     earliest slot is two bit scans away, however long the gap before it.
 *   - The clock may jump to any tick before that slot, and no node moves.
 *
 * When the clock enters a slot above level 0, the highest differing digit of
 * its nodes becomes lower, and they are moved down, each at most once per
 * level.  A slot may have all nodes of the wheel, so one call of wheel_expire()
 * moves a limited number and leaves the slot in .moving for the next call.
 * Until it is empty the clock does not advance and no node fires, because a
 * node left in it may be earlier than those that were moved.  (No node can
 * enter the slot: while the clock is inside a slot, all its ticks belong to
 * lower levels.)  Rejected: firing nodes with the precision of their level, as
 * the kernel's wheel does; a timeout of a minute is then seconds late.
 *
 * Moving down walks from one cold node to the next, which is the cost of a
 * burst.  If all nodes of a slot have the same tick (a batch of operations with
 * one deadline, or a single node), the whole list is moved; the head of the
 * slot stores the common tick.
 *
 * A node that is re-armed for later stays in its slot: only its time is stored.
 * So the tick of a slot is a lower bound of those of its nodes.  The code that
 * fires a node or moves it down uses the node's own time, and puts it into the
 * slot of that time.  So the most frequent call, extending an idle timeout, is
 * one store instead of a walk through three cold lines; the price is one early
 * visit of each node per old time.
 *
 * A list is circular and includes its head: unlinking has no branch for first
 * and last.  If both neighbours of an unlinked node are the same, they are the
 * head, which gives the bit to clear in the map.
 */
#include "base/check.h"
#include "reactor/wheel.h"

/*
 * Nodes one call of wheel_expire() may move: with cold caches some 10 us, and
 * enough that the caller's turn between two such calls does not count.
 */
#define MOVES_MAX 256

/*
 * Nodes checked for the earliest in a slot above level 0.  A server with no
 * more timers than this sleeps until one of them is due.
 */
#define WALK_MAX 16

/* In a head's expires_ns instead of a common tick.  No tick is this. */
#define MIXED UINT64_MAX

/* Rounded up: a node is due when its tick has begun.  Cannot overflow. */
static inline uint64_t tick_of(uint64_t ns)
{
	return (ns >> WHEEL_TICK_SHIFT) + !!(ns & (WHEEL_TICK_NS - 1));
}

/* The tick after the clock's last one is never reached. */
static inline uint64_t tick_start_ns(uint64_t tick)
{
	if (tick > UINT64_MAX >> WHEEL_TICK_SHIFT)
		return UINT64_MAX;
	return tick << WHEEL_TICK_SHIFT;
}

static inline bool list_empty(const struct weir_timer_node *head)
{
	return head->next == head;
}

static inline void list_reset(struct weir_timer_node *head)
{
	head->next = head;
	head->pprev = &head->next;
}

static inline void list_append(struct weir_timer_node *head,
			       struct weir_timer_node *n)
{
	n->next = head;
	n->pprev = head->pprev;
	*head->pprev = n;
	head->pprev = &n->next;
}

/* Move all of @from, which is not empty, to @to, which is. */
static inline void list_move(struct weir_timer_node *to,
			     struct weir_timer_node *from)
{
	debug_check(list_empty(to) && !list_empty(from));
	to->next = from->next;
	to->next->pprev = &to->next;
	to->pprev = from->pprev;
	*to->pprev = to;
	list_reset(from);
}

static inline unsigned int slot_index(const struct wheel *w,
				      const struct weir_timer_node *head)
{
	return (unsigned int)(head - &w->slot[0][0]);
}

static inline void mark_used(struct wheel *w, struct weir_timer_node *head,
			     uint64_t tick)
{
	unsigned int i = slot_index(w, head);
	unsigned int level = i >> WHEEL_SLOT_SHIFT;

	head->expires_ns = tick;
	w->levels |= (uint64_t)1 << level;
	w->map[level] |= (uint64_t)1 << (i & (WHEEL_SLOTS - 1));
}

static inline void mark_empty(struct wheel *w,
			      const struct weir_timer_node *head)
{
	unsigned int i = slot_index(w, head);
	unsigned int level = i >> WHEEL_SLOT_SHIFT;

	debug_check(list_empty(head));
	w->map[level] &= ~((uint64_t)1 << (i & (WHEEL_SLOTS - 1)));
	if (!w->map[level])
		w->levels &= ~((uint64_t)1 << level);
}

static inline void unlink_node(struct wheel *w, struct weir_timer_node *n)
{
	struct weir_timer_node *next = n->next;

	*n->pprev = next;
	next->pprev = n->pprev;
	if (n->pprev == &next->next)
		mark_empty(w, next);
	n->pprev = NULL;
}

/* The slot for @tick, which must not be before the clock. */
static inline struct weir_timer_node *slot_for(struct wheel *w, uint64_t tick)
{
	unsigned int level, s;

	level = (63 - (unsigned int)__builtin_clzll((tick ^ w->clk) | 1)) /
		WHEEL_SLOT_SHIFT;
	s = (tick >> (level * WHEEL_SLOT_SHIFT)) & (WHEEL_SLOTS - 1);
	return &w->slot[level][s];
}

/* A tick before the clock is due now, which is what the clock's own slot is. */
static inline void place(struct wheel *w, struct weir_timer_node *n,
			 uint64_t tick)
{
	struct weir_timer_node *head;

	if (tick < w->clk)
		tick = w->clk;
	head = slot_for(w, tick);
	if (list_empty(head))
		mark_used(w, head, tick);
	else if (head->expires_ns != tick)
		head->expires_ns = MIXED;
	list_append(head, n);
}

/* The earliest slot that is not empty.  The wheel must not be empty. */
static inline struct weir_timer_node *first_slot(struct wheel *w,
						 unsigned int *level)
{
	debug_check(w->levels && w->map[__builtin_ctzll(w->levels)]);
	*level = (unsigned int)__builtin_ctzll(w->levels);
	return &w->slot[*level][__builtin_ctzll(w->map[*level])];
}

/* The first tick of @level's earliest slot. */
static inline uint64_t slot_tick(const struct wheel *w, unsigned int level)
{
	unsigned int shift = level * WHEEL_SLOT_SHIFT;
	uint64_t above = w->clk >> shift >> WHEEL_SLOT_SHIFT;

	debug_check(w->map[level]);
	above = above << WHEEL_SLOT_SHIFT |
		(unsigned int)__builtin_ctzll(w->map[level]);
	return above << shift;
}

/*
 * The earliest tick in a slot above level 0, or @start, the beginning of the
 * slot, if the search would take long.  It is not after the slot's last tick,
 * even if all its nodes are re-armed for later, because nodes of the next slot
 * may be due then.
 */
static uint64_t earliest_tick(const struct weir_timer_node *head,
			      uint64_t start, unsigned int level)
{
	uint64_t last = start |
			(((uint64_t)1 << (level * WHEEL_SLOT_SHIFT)) - 1);
	const struct weir_timer_node *n = head->next;
	uint64_t min_ns = UINT64_MAX;
	unsigned int i;

	if (head->expires_ns != MIXED)
		return head->expires_ns;
	for (i = 0; i < WALK_MAX && n != head; i++) {
		if (n->expires_ns < min_ns)
			min_ns = n->expires_ns;
		n = n->next;
	}
	if (n != head)
		return start;
	return tick_of(min_ns) < last ? tick_of(min_ns) : last;
}

/*
 * Move nodes of .moving to where they belong now.  Their links to each other
 * are dead from here on, so that only the last step repairs the head.
 */
static bool move_down(struct wheel *w)
{
	struct weir_timer_node *head = w->moving;
	struct weir_timer_node *n = head->next;
	unsigned int i;

	debug_check(w->moving);
	for (i = 0; i < MOVES_MAX && n != head; i++) {
		struct weir_timer_node *next = n->next;

		place(w, n, tick_of(n->expires_ns));
		n = next;
	}
	head->next = n;
	n->pprev = &head->next;
	if (n != head)
		return false;
	mark_empty(w, head);
	w->moving = NULL;
	return true;
}

void wheel_init(struct wheel *w, uint64_t now_ns)
{
	unsigned int level, s;

	w->clk = now_ns >> WHEEL_TICK_SHIFT;
	w->now_ns = now_ns;
	w->n = 0;
	w->moving = NULL;
	w->levels = 0;
	for (level = 0; level < WHEEL_LEVELS; level++) {
		w->map[level] = 0;
		for (s = 0; s < WHEEL_SLOTS; s++)
			list_reset(&w->slot[level][s]);
	}
}

/* A time in the past need not wait for the end of the current tick. */
static inline uint64_t due_tick(const struct wheel *w, uint64_t expires_ns)
{
	if (expires_ns <= w->now_ns &&
	    w->clk == w->now_ns >> WHEEL_TICK_SHIFT)
		return w->clk;
	return tick_of(expires_ns);
}

static inline void insert(struct wheel *w, struct weir_timer_node *n,
			  uint64_t expires_ns)
{
	n->expires_ns = expires_ns;
	place(w, n, due_tick(w, expires_ns));
}

void wheel_add(struct wheel *w, struct weir_timer_node *n, uint64_t expires_ns)
{
	debug_check(!wheel_pending(n));
	insert(w, n, expires_ns);
	w->n++;
}

void wheel_del(struct wheel *w, struct weir_timer_node *n)
{
	if (!wheel_pending(n))
		return;
	unlink_node(w, n);
	debug_check(w->n > 0);
	w->n--;
}

void wheel_rearm(struct wheel *w, struct weir_timer_node *n,
		 uint64_t expires_ns)
{
	if (!wheel_pending(n)) {
		w->n++;
	} else if (expires_ns >= n->expires_ns) {
		n->expires_ns = expires_ns;
		return;
	} else {
		unlink_node(w, n);
	}
	insert(w, n, expires_ns);
}

uint64_t wheel_next(struct wheel *w)
{
	struct weir_timer_node *head;
	unsigned int level;
	uint64_t tick;

	if (!w->n)
		return UINT64_MAX;
	if (w->moving)
		return w->now_ns;
	head = first_slot(w, &level);
	tick = slot_tick(w, level);
	if (level)
		tick = earliest_tick(head, tick, level);
	return tick_start_ns(tick);
}

/*
 * Let the clock enter a slot above level 0, which is the earliest there is:
 * all lower levels are empty, so it may go right to the first node.
 */
static void enter_slot(struct wheel *w, struct weir_timer_node *head,
		       unsigned int level, uint64_t now)
{
	uint64_t tick = earliest_tick(head, slot_tick(w, level), level);
	uint64_t common = head->expires_ns;
	struct weir_timer_node *to;

	debug_check(level && level < WHEEL_LEVELS && !w->moving);
	w->clk = tick < now ? tick : now;
	if (common == MIXED) {
		w->moving = head;
		return;
	}
	to = slot_for(w, common);
	list_move(to, head);
	mark_used(w, to, common);
	mark_empty(w, head);
}

/*
 * The node of this call is in the cache, because the previous call has written
 * to it; this call prefetches the next one, which arrives during the callback.
 */
static inline struct weir_timer_node *take_first(struct wheel *w,
						 struct weir_timer_node *head)
{
	struct weir_timer_node *n = head->next;

	debug_check(!list_empty(head));
	__builtin_prefetch(n->next->next, 1);
	unlink_node(w, n);
	w->n--;
	return n;
}

/*
 * A due node of the clock's own slot; NULL if all that were checked had been
 * re-armed for later.
 */
static struct weir_timer_node *take_due(struct wheel *w,
					struct weir_timer_node *head,
					unsigned int *moves)
{
	struct weir_timer_node *n;
	uint64_t tick;

	do {
		n = take_first(w, head);
		tick = due_tick(w, n->expires_ns);
		if (tick <= w->clk)
			return n;
		place(w, n, tick);
		w->n++;
	} while (++*moves < MOVES_MAX && !list_empty(head));
	return NULL;
}

struct weir_timer_node *wheel_expire(struct wheel *w, uint64_t now_ns)
{
	struct weir_timer_node *head, *n;
	unsigned int level, moves = 0;
	uint64_t now, tick;

	if (now_ns > w->now_ns)
		w->now_ns = now_ns;
	now = w->now_ns >> WHEEL_TICK_SHIFT;
	for (;;) {
		if (w->moving && !move_down(w))
			return NULL;
		if (!w->n)
			break;
		head = first_slot(w, &level);
		tick = slot_tick(w, level);
		if (tick > now)
			break;
		if (!level) {
			w->clk = tick;
			n = take_due(w, head, &moves);
			if (n || moves >= MOVES_MAX)
				return n;
			continue;
		}
		enter_slot(w, head, level, now);
	}
	w->clk = now;
	return NULL;
}
