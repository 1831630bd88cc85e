/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_PROXY_FIXTURE_H
#define TESTS_PROXY_FIXTURE_H

/*
 * What the tests of weir-proxy need: the program as a child, with this process
 * as its clients and its targets.  Sockets here wait; who waits in vain is
 * ended by the harness's alarm.
 */

#include <sys/types.h>

#include "tests/support/harness.h"

/* The program, and where it listens and goes to: free ports of this machine. */
struct fixture {
	pid_t pid;
	int target; /* A socket that listens at .to. */
	uint16_t at, to;
	char conf[80], log[80], err[80];
};

/* A fixture whose target listens; nothing runs yet. */
void fixture_init(void **state, struct fixture *fixture);

/* Write the configuration: @fmt has as many %u and %s as follow. */
void fixture_configure(struct fixture *fixture, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Run the program on @cores cores; and the usual: configure, run on one. */
void fixture_run(void **state, struct fixture *fixture, const char *cores);
void fixture_start(void **state, struct fixture *fixture);

/* Send a signal; await the end, which must be status 0. */
void fixture_signal(struct fixture *fixture, int signo);
void fixture_await(struct fixture *fixture);

/* SIGINT, and await the end. */
void fixture_end(struct fixture *fixture);

/* Wait until the file at @path has @text in it. */
void await_text(const char *path, const char *text);
bool has_text_now(const char *path, const char *text);

/*
 * How many lines of the log @fd has to be read; of lines that say how many were
 * dropped, how many that was, is added to *@dropped.
 */
unsigned long count_lines(int fd, unsigned long *dropped);

uint16_t free_port(void);
int listen_at(const char *addr, uint16_t port, int backlog);
int listen_on(uint16_t port, int backlog); /* At 127.0.0.1. */
int listen_unix(const char *path);

/* A connection that stands, tried until somebody listens; and once only. */
int dial(uint16_t port);
int dial_unix(const char *path);
int dial_once(uint16_t port);

/* The connection that comes in at @fd; whether one does within @ms. */
int take(int fd);
bool comes(int fd, int ms);

/* A client, and what the target gets of it. */
struct pair {
	int client, server;
};

struct pair connect_both(struct fixture *fixture);
void close_both(struct pair *p);

void say(int fd, const char *text);
void hear(int fd, const char *text);
void hear_end(int fd);
void hear_reset(int fd); /* After whatever was still on its way. */
void reset(int fd); /* Close it so that the other hears a reset. */

/* @len bytes from @a to @b, with their contents. */
void transfer(int a, int b, size_t len, unsigned int seed);

/* Write pattern(@seed) to @fd until nobody takes any more; the bytes. */
size_t fill(int fd, unsigned int seed);
void drink(int fd, size_t len, unsigned int seed);

#endif /* TESTS_PROXY_FIXTURE_H */
