/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_OP_KINDS_H
#define TESTS_OP_KINDS_H

/*
 * Every kind of operation, and how to have one: the rows of test-op.c, and
 * what test-fault.c starts.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <weir/file.h>
#include <weir/reactor.h>
#include <weir/socket.h>
#include <weir/watch.h>

#define STAGE_FILE_LEN 8192
#define OP_GIVES_FD INT64_MAX	/* The result is a new descriptor. */

/* What operations work on. */
struct stage {
	struct weir_reactor *r;
	char dir_path[160];
	char new_name[16];	/* In the directory: of no other stage. */
	int dir, file, file2;
	int sv[2];		/* UNIX stream */
	int full[2];		/* The same; nothing more fits into full[0]. */
	int pipe[2];
	int full_pipe[2];
	int listener;
	int client, connecting;
	struct sockaddr_in addr;
	char buf[STAGE_FILE_LEN], buf2[STAGE_FILE_LEN];
	struct iovec iov[3];
	struct msghdr msg;
	struct statx stx;
};

struct op_kind {
	const char *name;
	int (*start)(struct stage *s, struct weir_op *op);
	/* Let go what waits; NULL: needs nothing. */
	void (*release)(struct stage *s);
	int64_t res;		/* When nobody interferes. */
	bool waits;		/* Cannot end before release(). */
	bool never;		/* Ends only when asked to. */
	bool moves;		/* The result is bytes, and in the detail. */
	bool always;		/* Is never refused: a close. */
	bool not_sim;		/* -EOPNOTSUPP in a simulated world. */
	bool begins;		/* Is begun even if it is late. */
};

extern const struct op_kind op_kinds[];
extern const size_t n_op_kinds;

void stage_begin(struct stage *s, void **state, struct weir_reactor *r);
void stage_end(struct stage *s);

/* For a copy of a stage, to have several operations at once. */
void stage_use_own_memory(struct stage *s);

#endif /* TESTS_OP_KINDS_H */
