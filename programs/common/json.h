/* SPDX-License-Identifier: CC0-1.0 */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <stdio.h>

/* Write @s as a string of JSON.  A byte that is no UTF-8 becomes U+DC80 + it -
 * 0x80, a lone surrogate, as Python reads and writes them. */
void json_put_string(FILE *out, const char *s);

#endif /* COMMON_JSON_H */
