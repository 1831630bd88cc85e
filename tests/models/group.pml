/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a group: lanes_quiet() of reactor/lane.c, with reactor/turn.c.
 *
 * Three cores post to each other, whatever the lanes of others say, until they
 * are told to stop, each at a time of its own.  Each message is work that may
 * send another one.  A core that stops sends nothing new, shows what it has
 * sent, and, when it finds nothing more to do, says once that it is quiet; it
 * has stopped when all have said so and its lanes are empty.
 *
 * Shown: nothing is left in the lanes of cores that have stopped, and all stop.
 *
 * wrong: STOPPED_SEND STOP_ALONE SHOW_AFTER_QUIET LAST_TELLS_NOBODY
 * wrong: LOOK_BEFORE_ALL_ARE_QUIET
 */

#define CORES 3
#define MESSAGES 2	/* In all. */
#define TURNS 2		/* Before it must stop. */

byte lane[CORES];	/* To each, from whomever: shown, and not yet run. */
bool closed[CORES], stopped[CORES], rung[CORES];
byte n_quiet, n_sent, n_stopped;

/* weir_post() to @to: not shown before the turn ends. */
inline post(to)
{
	if
	:: n_sent < MESSAGES && !closed[to] ->
		n_sent++;
		unshown[to]++
	:: skip
	fi
}

inline show_all(i)
{
	i = 0;
	do
	:: i < CORES ->
		if
		:: unshown[i] ->
			assert(!stopped[i]);
			lane[i] = lane[i] + unshown[i];
			unshown[i] = 0;
			rung[i] = true
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

proctype core(byte me)
{
	byte unshown[CORES], i, other, turns;
	bool stopping, quiet;

	other = (me + 1) % CORES;
turn:	rung[me] = false;
	/* begin_stopping() */
	if
	:: !stopping -> stopping = true; closed[me] = true
	:: turns < TURNS -> turns++
	:: stopping
	fi;
	/* lane_run() */
	if
	:: lane[me] > 0 ->
		atomic { lane[me]-- }
#ifdef STOPPED_SEND
		post(other)
#else
		if
		:: !stopping -> post(other)
		:: else
		fi
#endif
	:: else ->
		if
		:: !stopping -> post(other)
		:: else
		fi
	fi;
#ifndef SHOW_AFTER_QUIET
	show_all(i);
#endif
	/* is_drained() */
	if
	:: !stopping || lane[me] > 0 -> goto turn
	:: else
	fi;
#ifdef STOP_ALONE
	goto end;
#endif
	if
	:: !quiet ->
		quiet = true;
		atomic { n_quiet++; i = n_quiet }
		if
#ifndef LAST_TELLS_NOBODY
		:: i == CORES ->
			i = 0;
			do
			:: i < CORES -> rung[i] = true; i++
			:: else -> break
			od
#endif
		:: else
		fi;
		i = 0
	:: else
	fi;
#ifdef SHOW_AFTER_QUIET
	show_all(i);
#endif
	if
	:: n_quiet == CORES ->
#ifdef LOOK_BEFORE_ALL_ARE_QUIET
		goto end
#else
		if
		:: lane[me] == 0 -> goto end
		:: else -> goto turn
		fi
#endif
	:: else
	fi;
	/* It sleeps; mailbox.pml and lane.pml show that a bell wakes it. */
	rung[me];
	goto turn;
end:	stopped[me] = true;
	atomic { n_stopped++ }
}

init {
	atomic {
		byte c;

		for (c : 0 .. CORES - 1) {
			run core(c)
		}
	}
}

ltl all_stop_and_nothing_is_left {
	<> (n_stopped == CORES && lane[0] + lane[1] + lane[2] == 0)
}
