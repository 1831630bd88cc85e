/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BARE_NBD_H
#define BENCH_BARE_NBD_H

/* Serve @file to the first client at @where, a port of this machine or the path of a
 * socket, until it leaves.  Returns a program's exit status. */
int bare_nbd(const char *where, const char *file);

#endif /* BENCH_BARE_NBD_H */
