/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SIM_AIM_H
#define WEIR_SIM_AIM_H

/*
 * Aimed faults of a simulated world: what happens to a certain call of a
 * program, such as the third fsync of a file.
 *
 *	struct weir_sim_aim third = { .size = sizeof(third), .name = "a/log",
 *				      .at = WEIR_SIM_AT_SYNC, .nth = 3,
 *				      .what = WEIR_SIM_AIM_POWER };
 *
 *	weir_sim_aim(sim, &third);	// host a loses power in it
 *
 * Drawn faults find unforeseen failures; an aimed fault proves what a
 * program does in one case, and every seed has it.  Some are lies of a disk,
 * which the world never draws because few programs bear them: writes that are
 * lost, misdirected or rotten, and syncs that do nothing.
 *
 * Only operations are calls here (weir_read(), weir_send(), ...), not the
 * deliveries of receivers and acceptors.  Each system call that an operation
 * makes counts, so a write that is cut short counts twice.
 */

#include <weir/sim/world.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The calls that are aimed at. */
enum weir_sim_at {
	WEIR_SIM_AT_READ,	/* Of a file or disk. */
	WEIR_SIM_AT_WRITE,	/* To one. */
	WEIR_SIM_AT_SYNC,	/* Of one, or of a directory. */
	WEIR_SIM_AT_OPEN,
	WEIR_SIM_AT_RENAME,	/* .name is the old or the new name. */
	WEIR_SIM_AT_UNLINK,
	WEIR_SIM_AT_CONNECT,
	WEIR_SIM_AT_ACCEPT,
	WEIR_SIM_AT_SEND,	/* On a connection. */
	WEIR_SIM_AT_RECEIVE,
	WEIR_SIM_ATS,		/* The number of these. */
};

/* What happens. */
enum weir_sim_aim_what {
	/* The call fails with .error, and has done what a call that fails may
	 * have done. */
	WEIR_SIM_AIM_ERROR,
	/* The call never ends, until faults are switched off. */
	WEIR_SIM_AIM_STUCK,
	/* The host of the reactor is killed, or loses power, before the call
	 * has done anything (<weir/sim/host.h>). */
	WEIR_SIM_AIM_KILL,
	WEIR_SIM_AIM_POWER,
	/* The connection is reset.  AT_SEND and AT_RECEIVE only. */
	WEIR_SIM_AIM_RESET,
	/* A sync does nothing and returns 0; a write never reaches the medium,
	 * and readers see it until the power is cut.  AT_SYNC and AT_WRITE. */
	WEIR_SIM_AIM_LOST,
	/* A write reaches other sectors of the file instead, which are drawn.
	 * AT_WRITE only. */
	WEIR_SIM_AIM_MISDIRECTED,
	/* A bit that was written, which is drawn, is flipped.  AT_WRITE only. */
	WEIR_SIM_AIM_ROTTEN,
	WEIR_SIM_AIMS,		/* The number of these. */
};

/*
 * An aimed fault.  Set .size to the size of the struct; 0 is the default of
 * every other member.
 */
struct weir_sim_aim {
	size_t size;
	enum weir_sim_at at;
	enum weir_sim_aim_what what;

	/*
	 * The file, from the root of the world, or the socket that makes the
	 * call: its whole name; the name of its host; or, with a '/' or ':' at
	 * the end, a prefix of it.  NULL: any.
	 */
	const char *name;
	const char *peer;	/* Likewise: the other end.  NULL: any. */

	uint64_t nth;		/* Which of the matching calls, from 1 on, counted
				 * from now on; 0: each of them. */
	int error;		/* For AIM_ERROR: as -EIO; 0: -EIO. */
	uint32_t reserved;
};

/*
 * Aim a fault at a call in @sim.
 *
 * It happens while faults are switched on.  One with .nth happens once, others
 * until @sim is destroyed.  If several match a call, the one that was aimed
 * first happens; all count the call.
 *
 * Returns 0, or
 *   -EINVAL  .at or .what is unknown, .what does not happen to such calls, or
 *            .error is positive
 *   -E2BIG   @aim sets a member that this version does not have
 *   -ENOMEM  no memory
 *
 * Call on @sim's thread, callbacks included.  Never blocks.
 *
 * Re-creates fail points, which freebsd calls fail(9), and the tables of the
 * kernel's dm-dust and dm-flakey.
 */
WEIR_API int weir_sim_aim(struct weir_sim *sim, const struct weir_sim_aim *aim);

#ifdef __cplusplus
}
#endif
#endif /* WEIR_SIM_AIM_H */
