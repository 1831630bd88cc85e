/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The doorbell of a mailbox: reactor/group/mailbox.c and reactor/wait.c.
 *
 * Two senders post, together three times, through a ring of two cells, a third
 * thread brings an operation back, and the reactor takes all of it, sleeping
 * whenever it finds nothing.  Each step is one of the code's atomic operations,
 * which are all sequentially consistent: so what Spin goes through, one step at
 * a time in any order, is all that they can do.
 *
 * Shown: nothing is lost, taken twice, or out of its sender's order; who finds
 * the reactor asleep rings once; and it all ends.
 *
 * wrong: NO_SECOND_POLL PUBLISH_FIRST CLAIM_BY_STORE NOTIFY_FORGOTTEN
 */

#define CELLS 2
#define SENDERS 2
#define TURN_MAX 2

#define free_at(pos) (2 * (pos))
#define full_at(pos) (2 * (pos) + 1)

byte seq[CELLS];
byte sender_in[CELLS], number_in[CELLS];
byte tail, head;
bool returned;			/* The stack: only one ever is returned. */
bool asleep;
byte notify;			/* Of the backend: an eventfd. */
byte fallback;			/* Who pays for the end of this sleep. */
byte next_of[SENDERS];
byte taken, n_returned, ended;

#define ALL 3

/* mailbox_wake(): the look, the exchange, backend->wake(). */
inline mailbox_wake(claimed)
{
	if
	:: asleep ->
		atomic {
			claimed = asleep;
			asleep = false;
			fallback = fallback + claimed;
			assert(fallback <= 1)
		}
		if
		:: claimed ->
#ifndef NOTIFY_FORGOTTEN
			notify++
#else
			skip
#endif
		:: else
		fi
	:: else
	fi
}

/* mailbox_put(), again while it says -EAGAIN; and weir_post(). */
proctype sender(byte me; byte n)
{
	byte pos, have, i;
	bool claimed;

	do
	:: i < n ->
		pos = tail;
retry:
		have = seq[pos % CELLS];
		if
		:: have < free_at(pos) ->
			/* -EAGAIN: the caller comes again when there may be
			 * capacity, which is when the cell has been emptied. */
			seq[pos % CELLS] >= free_at(pos);
			pos = tail;
			goto retry
		:: have > free_at(pos) ->
			pos = tail;
			goto retry
		:: else
		fi;
#ifdef CLAIM_BY_STORE
		tail = pos + 1;
#else
		atomic {	/* The compare-and-exchange. */
			if
			:: tail == pos -> tail = pos + 1
			:: else -> pos = tail; goto retry
			fi
		}
#endif
#ifdef PUBLISH_FIRST
		seq[pos % CELLS] = full_at(pos);
#endif
		sender_in[pos % CELLS] = me;
		number_in[pos % CELLS] = i;
#ifndef PUBLISH_FIRST
		seq[pos % CELLS] = full_at(pos);
#endif
		mailbox_wake(claimed);
		i++
	:: else -> break
	od;
	ended++
}

/* op_return() */
proctype returner()
{
	bool claimed;

	returned = true;
	mailbox_wake(claimed);
	ended++
}

/* mailbox_has(): the head's cell, then the stack. */
#define CELL_IS_FULL (seq[head % CELLS] == full_at(head))

proctype reactor()
{
	byte n, who;

turn:	/* mailbox_bring_back() */
	atomic {
		if
		:: returned -> returned = false; n_returned++
		:: else
		fi
	}
	/* mailbox_run() */
	n = 0;
	do
	:: n < TURN_MAX && CELL_IS_FULL ->
		who = sender_in[head % CELLS];
		assert(number_in[head % CELLS] == next_of[who]);
		next_of[who]++;
		seq[head % CELLS] = free_at(head + CELLS);
		head++;
		taken++;
		n++
	:: else -> break
	od;
	if
	:: taken == ALL && n_returned == 1 -> goto over
	:: else
	fi;
	/* more_is_due() */
	if
	:: CELL_IS_FULL -> goto turn
	:: else
	fi;
	if
	:: returned -> goto turn
	:: else
	fi;
	/* sleep_until() */
	d_step {
		asleep = true;
		fallback = 0
	}
#ifndef NO_SECOND_POLL
	if
	:: CELL_IS_FULL -> goto awake
	:: else
	fi;
	if
	:: returned -> goto awake
	:: else
	fi;
#endif
	/* backend->wait(), with nothing else that would ever end it. */
	atomic {
		notify > 0;
		notify = 0
	}
awake:	asleep = false;
	goto turn;
over:	ended++
}

init {
	atomic {
		byte i;

		for (i : 0 .. CELLS - 1) {
			seq[i] = free_at(i)
		}
		run reactor();
		run returner();
		for (i : 0 .. SENDERS - 1) {
			run sender(i, 1 + i)
		}
	}
}

ltl all_comes_to_its_end { <> (ended == SENDERS + 2) }
