/* SPDX-License-Identifier: CC0-1.0 */
#ifndef COMMON_NUMBER_H
#define COMMON_NUMBER_H

#include <stdint.h>

/*
 * What a user has written as a number from @min to @max: decimal digits and
 * nothing else, or, as a size, with one of K, M, G and T after them for powers
 * of 1024.
 *
 * Returns 0 with *@ret set, or -1: it is not.
 */
int number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret);
int size_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret);

#endif /* COMMON_NUMBER_H */
