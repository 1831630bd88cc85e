/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_USER_DOMAIN_H
#define BENCH_USER_DOMAIN_H

#include <weir/domain.h>

/* A domain whose bytes are in @mem, at offsets; pulls and pushes are done at
 * once. */
struct weir_domain *user_domain_make(char *mem);

#endif /* BENCH_USER_DOMAIN_H */
