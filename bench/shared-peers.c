/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages between two processes, as others measure theirs. */

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/shared-peers.h"

#define TRIES 20

const struct shared_peer shared_peers[] = {
	{
		.name = "UCX", .program = "ucx_perftest",
		.latency = "ucp_am_lat", .rate = "ucp_am_bw",
		.form = "UCX_TLS=posix,sysv,cma UCX_WARN_UNUSED_ENV_VARS=n "
			"exec timeout 60 ucx_perftest -p 13339 -t %s -s 8 "
			"-n %llu -f -v %s 2>/dev/null",
		.separator = ",", .latency_column = 3, .rate_column = 7,
		.latency_ns = 1e3, .rate_millions = 1e-6,
	},
	{
		.name = "libfabric", .program = "fi_pingpong",
		.latency = "msg",
		.form = "exec timeout 60 fi_pingpong -p shm -e rdm -m %s -S 8 "
			"-I %llu %s 2>/dev/null",
		.separator = " ", .latency_column = 6, .latency_ns = 1e3,
	},
};
const size_t n_shared_peers = ARRAY_SIZE(shared_peers);

bool shared_peer_is_there(const struct shared_peer *p)
{
	return bench_has_program(p->program);
}

/* The end that is connected to, on the second CPU. */
static pid_t spawn_server(const char *command)
{
	pid_t pid = fork();

	if (pid < 0)
		bench_die("fork", errno);
	if (pid)
		return pid;
	bench_pin(1);
	if (!freopen("/dev/null", "w", stdout))
		_exit(127);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

/* The @column-th of the last line of figures, NAN without one. */
static double column_of(FILE *f, const char *separator, int column)
{
	char line[512], *at, *state;
	double v = NAN;

	while (fgets(line, sizeof(line), f)) {
		if (line[0] < '0' || line[0] > '9')
			continue;
		at = strtok_r(line, separator, &state);
		for (int i = 0; i < column && at; i++)
			at = strtok_r(NULL, separator, &state);
		v = at ? atof(at) : NAN;
	}
	return v;
}

static double run_client(const struct shared_peer *p, const char *command,
			 int column)
{
	FILE *f = popen(command, "r");
	double v = f ? column_of(f, p->separator, column) : NAN;

	if (f)
		pclose(f);
	return v;
}

static double measure(const struct shared_peer *p, const char *what,
		      uint64_t n, int column)
{
	char command[512];
	double v = NAN;
	pid_t server;

	if (!what)
		return NAN;
	snprintf(command, sizeof(command), p->form, what, (unsigned long long)n,
		 "");
	server = spawn_server(command);
	/* It says nothing when it listens: the client asks until it does. */
	snprintf(command, sizeof(command), p->form, what, (unsigned long long)n,
		 "127.0.0.1");
	for (int i = 0; i < TRIES && isnan(v); i++) {
		usleep(100000);
		v = run_client(p, command, column);
	}
	kill(server, SIGTERM);
	waitpid(server, NULL, 0);
	return v;
}

double shared_peer_latency(const struct shared_peer *p, uint64_t n)
{
	return p->latency_ns * measure(p, p->latency, n, p->latency_column);
}

double shared_peer_rate(const struct shared_peer *p, uint64_t n)
{
	return p->rate_millions * measure(p, p->rate, n, p->rate_column);
}
