/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake of a sync event: dma/sync/sync.c and dma/sync/wait.c.
 *
 * Two signals add one each.  One thread blocks until the value is 1, another
 * until it is 2, and an operation of a reactor waits for 2.  The event is a
 * local one: nobody looks again after a time, so a wake-up that is lost hangs.
 *
 * Shown: everybody comes back, the operation completes once, and whoever sends
 * it returned is done with its reactor before that is destroyed.
 *
 * wrong: NO_POLL SEQ_FIRST NO_POLL_UNDER_LOCK NO_LOCK_AT_OWNER
 */

#define SIGNALS 2

byte value;
byte seq;			/* The futex. */
bool waiting;
byte sleepers;			/* In the kernel, for this futex. */
byte woken;			/* How many of them may go. */

bool lock;
byte n_ops;
bool listed;			/* The operation, in .first. */
bool homing;			/* In the reactor's mailbox. */
byte completed;
bool destroyed;			/* The reactor. */
byte ended;

inline acquire()
{
	atomic {
		!lock;
		lock = true
	}
}

inline release()
{
	lock = false
}

/* serve(), and op_return() in two: the push, and the look at the notify. */
inline serve()
{
	if
	:: listed && value >= 2 ->
		listed = false;
		assert(!destroyed);
		homing = true;
		assert(!destroyed)
	:: else
	fi
}

/* weir_sync_add(), sync_signalled() */
proctype signaller()
{
	atomic { value++ }
	if
	:: n_ops > 0 ->
		acquire();
		serve();
		release()
	:: else
	fi;
	if
	:: waiting ->
		/* sync_wake_sleepers() */
#ifdef SEQ_FIRST
		atomic { seq++ }
		waiting = false;
#else
		waiting = false;
		atomic { seq++ }
#endif
		atomic {	/* FUTEX_WAKE, all. */
			woken = woken + sleepers;
			sleepers = 0
		}
	:: else
	fi;
	ended++
}

/* block_until(), block() */
proctype blocker(byte want)
{
	byte seen;

	do
	:: value >= want -> break
	:: else ->
		seen = seq;
		/* sync_announce() */
		waiting = true;
#ifndef NO_POLL
		if
		:: value >= want -> break
		:: else
		fi;
#endif
		atomic {	/* FUTEX_WAIT compares and enqueues. */
			if
			:: seq == seen -> sleepers++
			:: else -> goto again
			fi
		}
		atomic {
			woken > 0;
			woken--
		}
again:		skip
	od;
	ended++
}

/* weir_sync_wait(), the loop, weir_reactor_destroy(). */
proctype reactor()
{
	/* prepare(): it may hold already. */
	if
	:: value >= 2 -> goto complete
	:: else
	fi;
	/* enlist() */
	acquire();
	n_ops++;
	listed = true;
#ifndef NO_POLL_UNDER_LOCK
	if
	:: value >= 2 ->
		listed = false;
		n_ops--;
		release();
		goto complete
	:: else
	fi;
#endif
	release();
	atomic {
		homing;
		homing = false
	}
	/* wait_returned() */
#ifndef NO_LOCK_AT_OWNER
	acquire();
	release();
#endif
	n_ops--;
complete:
	completed++;
	assert(completed == 1);
	destroyed = true;
	ended++
}

init {
	atomic {
		byte i;

		for (i : 1 .. SIGNALS) {
			run signaller()
		}
		run blocker(1);
		run blocker(2);
		run reactor()
	}
}

ltl everybody_comes_back { <> (ended == SIGNALS + 3) }
