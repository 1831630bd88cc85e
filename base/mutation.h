/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_MUTATION_H
#define WEIR_BASE_MUTATION_H

/*
 * Mutations: bugs on purpose, of kinds that this library could have, to prove
 * that the simulator finds them.  They exist in a build with WEIR_MUTATIONS
 * only, which is made for one test and not installed; there the environment
 * variable WEIR_MUTATION names the one that lives.  Anywhere else mutation()
 * is 0.
 */

#ifdef WEIR_MUTATIONS

#define mutation(name) mutation_lives(#name)

int mutation_lives(const char *name);

#else
#define mutation(name) 0
#endif

#endif /* WEIR_BASE_MUTATION_H */
