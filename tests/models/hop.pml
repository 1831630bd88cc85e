/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A step of a chain on another core's context, and the gate: dma/flow/chain-hop.c.
 *
 * The chain's reactor sends its step there, may cancel it at any time until it
 * was returned, and then destroys the chain and itself.  The context's reactor
 * is told to stop at any time, and goes when all is drained.  A mailbox is a
 * channel here: mailbox.pml shows that one wakes up for what is in it.
 *
 * Shown: the step is returned once, or is refused; nobody touches a step that is
 * on the owner, nor the chain's reactor when that is gone; nothing comes to a
 * context that has stopped; and both sides come to their end.
 *
 * wrong: END_ASKS_NOBODY GATE_HOLDS_NOTHING ALWAYS_OPEN RETURN_UNCOUNTED
 */

/* What is on its way to the context's reactor. */
mtype = { ARRIVE, HEAR };
chan there = [2] of { mtype };

/* And back. */
chan returned = [1] of { bit };

#define HOP_CANCEL 1
#define HOP_ENDED 2
byte word;

#define GATE_CLOSED 1
#define GATE_ONE 2
byte gate;
bool held;			/* gate_op is in flight. */

bool heard, begun, hop_ended;
bool job;			/* In flight. */
bool cancelled;			/* It was asked to end. */
byte n_returning, n_hops;
bool is_returned, chain_gone, context_stopped;
byte ended;

/* return_to_owner(): the push, and then the look at the other's notify. */
inline return_to_owner()
{
#ifndef RETURN_UNCOUNTED
	atomic { n_returning++ }
#endif
	assert(!is_returned);
	returned ! 0;
	assert(!chain_gone);	/* mailbox_wake() */
#ifndef RETURN_UNCOUNTED
	atomic { n_returning-- }
#endif
	skip
}

/* gate_hold(), gate_leave(): the context's thread. */
inline gate_leave(g)
{
	atomic {
		g = gate;
		gate = gate - GATE_ONE
	}
	if
	:: g == GATE_ONE + GATE_CLOSED -> held = false
	:: else
	fi
}

/* end() */
inline end_step(w, g)
{
	assert(!is_returned);
	atomic {
		w = word;
		word = word | HOP_ENDED
	}
	if
#ifndef END_ASKS_NOBODY
	:: (w & HOP_CANCEL) && !heard ->
		hop_ended = true;
		/* gate_expect() */
		atomic {
			g = gate;
			gate = gate + GATE_ONE
		}
		if
		:: g & GATE_CLOSED -> held = true
		:: else
		fi
#endif
	:: else -> return_to_owner()
	fi
}

/* The chain's thread. */
proctype chain()
{
	byte g;

	n_hops++;		/* hop_hold(), when the step was added. */
	/* hop_begin(): gate_enter() */
	atomic {
		g = gate;
		if
#ifndef ALWAYS_OPEN
		:: g & GATE_CLOSED
#endif
		:: else -> gate = gate + GATE_ONE
		fi
	}
#ifndef ALWAYS_OPEN
	if
	:: g & GATE_CLOSED -> goto let_go	/* -ESHUTDOWN */
	:: else
	fi;
#endif
	there ! ARRIVE;
	if
	:: skip
	:: empty(returned) ->
		/* hop_cancel(), of a step that is not on the owner. */
		atomic {
			g = word;
			word = word | HOP_CANCEL
		}
		if
		:: !g -> there ! HEAR
		:: else
		fi
	fi;
	returned ? _;
	is_returned = true;
let_go:	/* hop_let_go() */
	n_returning == 0;
	atomic { n_hops-- }
	chain_gone = true;
	ended++
}

/* The reactor of the context: a turn is one message, or the end of the job. */
proctype context()
{
	byte w, g;
	bool stopping;

	do
	:: there ? ARRIVE ->
		/* arrive(), attempt() */
		assert(!is_returned);
		if
		:: heard || stopping -> end_step(w, g)
		:: else -> begun = true; job = true
		fi;
		gate_leave(g)
	:: there ? HEAR ->
		/* hear() */
		assert(!is_returned);
		heard = true;
		if
		:: hop_ended ->
			return_to_owner();
			gate_leave(g)
		:: !hop_ended && begun -> cancelled = true
		:: else
		fi
	:: job ->
		/* job_ended(), by itself or because it was asked. */
		job = false;
		end_step(w, g)
	:: !stopping ->
		/* begin_stopping(): gate_close(), op_cancel_all() */
		stopping = true;
		atomic {
			g = gate;
			gate = gate | GATE_CLOSED
		}
		if
#ifndef GATE_HOLDS_NOTHING
		:: g >= GATE_ONE -> held = true
#endif
		:: else
		fi;
		cancelled = true
	:: stopping && !job && !held && empty(there) ->
		/* is_drained() */
		context_stopped = true;
		break
	od;
	/* weir_dma_destroy() is -EBUSY while steps name it. */
	n_hops == 0;
	assert(empty(there));
	ended++
}

init {
	atomic {
		run context();
		run chain()
	}
}

ltl both_come_to_their_end { <> (ended == 2) }
