/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_MUTATION_H
#define WEIR_BASE_MUTATION_H

/*
 * Mutations: bugs that the library could have, planted to prove that the
 * simulator finds them.  Only a build with WEIR_MUTATIONS has them; it is made
 * for one test and is not installed.  There the environment variable
 * WEIR_MUTATION has the name of the active mutation.  In all other builds
 * mutation() is 0.
 */

#ifdef WEIR_MUTATIONS

#define mutation(name) mutation_is_active(#name)

int mutation_is_active(const char *name);

#else
#define mutation(name) 0
#endif

#endif /* WEIR_BASE_MUTATION_H */
