/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a group: rings_quiet() of reactor/group/spsc.c, with reactor/turn.c.
 *
 * Three cores post to each other, whatever the rings of others say, until they
 * are told to stop, each at a time of its own.  Each message is work that may
 * send another one.  A core that stops sends nothing new, shows what it has
 * sent, and, when it finds nothing more to do, says once that it is quiet; it
 * has stopped when all have said so and its rings are empty.
 *
 * Shown: nothing is left in the rings of cores that have stopped, and all stop.
 *
 * wrong: STOPPED_SEND STOP_ALONE PUBLISH_AFTER_QUIET LAST_TELLS_NOBODY
 * wrong: POLL_BEFORE_ALL_ARE_QUIET
 */

#define CORES 3
#define MESSAGES 2	/* In all. */
#define TURNS 2		/* Before it must stop. */

byte spsc[CORES];	/* To each, from whomever: shown, and not yet run. */
bool closed[CORES], stopped[CORES], fallback[CORES];
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
			spsc[i] = spsc[i] + unshown[i];
			unshown[i] = 0;
			fallback[i] = true
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
turn:	fallback[me] = false;
	/* begin_stopping() */
	if
	:: !stopping -> stopping = true; closed[me] = true
	:: turns < TURNS -> turns++
	:: stopping
	fi;
	/* spsc_run() */
	if
	:: spsc[me] > 0 ->
		atomic { spsc[me]-- }
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
#ifndef PUBLISH_AFTER_QUIET
	show_all(i);
#endif
	/* is_drained() */
	if
	:: !stopping || spsc[me] > 0 -> goto turn
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
			:: i < CORES -> fallback[i] = true; i++
			:: else -> break
			od
#endif
		:: else
		fi;
		i = 0
	:: else
	fi;
#ifdef PUBLISH_AFTER_QUIET
	show_all(i);
#endif
	if
	:: n_quiet == CORES ->
#ifdef POLL_BEFORE_ALL_ARE_QUIET
		goto end
#else
		if
		:: spsc[me] == 0 -> goto end
		:: else -> goto turn
		fi
#endif
	:: else
	fi;
	/* It sleeps; mailbox.pml and spsc.pml show that a notify wakes it. */
	fallback[me];
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
	<> (n_stopped == CORES && spsc[0] + spsc[1] + spsc[2] == 0)
}
