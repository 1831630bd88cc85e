/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_CANARY_H
#define WEIR_BASE_CANARY_H

/*
 * Canaries: bugs on purpose, of kinds that this library could have, to prove
 * that the simulator finds them.  They exist in a build with WEIR_CANARIES
 * only, which is made for one test and not installed; there the environment
 * variable WEIR_CANARY names the one that lives.  Anywhere else canary() is 0.
 */

#ifdef WEIR_CANARIES

#define canary(name) canary_lives(#name)

int canary_lives(const char *name);

#else
#define canary(name) 0
#endif

#endif /* WEIR_BASE_CANARY_H */
