/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Static files by HTTP: the example 43-http-files, which is as short as it can be, beside
 * nginx with one process, each on the first CPU; wrk on the second, with kept connections.
 * "CPU" is what the server's process takes for a request.
 *
 *	small  a file of 1 KiB, 64 connections
 *	large  one of 3 MB, 8 connections; from the page cache
 */

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"

#define ASK_NS 20000000
#define ASKS 150

static const struct load {
	const char *what, *file;
	size_t bytes;
	int conns;
} loads[] = {
	{ "small", "small", 1024, 64 },
	{ "large", "large", 3000000, 8 },
};

static const char *const servers[] = { "nginx", "43-http-files" };

static char dir[4096], program[4200];	/* Of the files; ours. */
static uint16_t port;

/* Beside this program, or above it, where libtool has put it. */
static bool find_ours(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	path[n < 0 ? 0 : n] = 0;
	slash = strrchr(path, '/');
	if (slash)
		*slash = 0;
	snprintf(program, sizeof(program), "%s/http-files", path);
	if (!access(program, X_OK))
		return true;
	snprintf(program, sizeof(program), "%s/../http-files", path);
	return !access(program, X_OK);
}

static FILE *open_in_dir(const char *name)
{
	char path[4200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	if (!f)
		bench_die(path, errno);
	return f;
}

static void make_files(const struct bench *b)
{
	uint64_t state = 88172645463325252;
	char made[4000];
	FILE *f;

	snprintf(made, sizeof(made), "%s/bench-http", b->dir);
	if ((mkdir(made, 0755) && errno != EEXIST) || !realpath(made, dir))
		bench_die(made, errno);
	for (size_t i = 0; i < ARRAY_SIZE(loads); i++) {
		f = open_in_dir(loads[i].file);
		for (size_t at = 0; at < loads[i].bytes; at++)
			fputc((int)(bench_random(&state) >> 56), f);
		if (fclose(f))
			bench_die(loads[i].file, errno);
	}
	f = open_in_dir("nginx.conf");
	fprintf(f, "daemon off; master_process off; pid %s/nginx.pid;\n"
		"error_log %s/nginx.err;\n"
		"events { worker_connections 1024; }\n"
		"http { access_log off; sendfile on; tcp_nopush on;\n"
		"keepalive_requests 1000000000; client_body_temp_path %s;\n"
		"proxy_temp_path %s; fastcgi_temp_path %s; uwsgi_temp_path %s;\n"
		"scgi_temp_path %s;\n"
		"server { listen 127.0.0.1:%u; root %s; } }\n", dir, dir, dir,
		dir, dir, dir, dir, port, dir);
	if (fclose(f))
		bench_die("nginx.conf", errno);
}

static pid_t start(const char *server)
{
	char conf[4200], number[8];
	pid_t pid = fork();

	if (pid < 0)
		bench_die("fork", errno);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bench_pin(0);
	snprintf(conf, sizeof(conf), "%s/nginx.conf", dir);
	snprintf(number, sizeof(number), "%u", port);
	if (!freopen("/dev/null", "w", stdout) ||
	    !freopen("/dev/null", "w", stderr))
		_exit(127);
	if (!strcmp(server, "nginx"))
		execlp("nginx", "nginx", "-c", conf, (char *)NULL);
	else
		execl(program, program, number, dir, (char *)NULL);
	_exit(127);
}

static bool listens(void)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct timespec t = { .tv_nsec = ASK_NS };
	bool is_there = false;

	for (int i = 0; i < ASKS && !is_there; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		nanosleep(&t, NULL);
		is_there = !connect(fd, (struct sockaddr *)&at, sizeof(at));
		close(fd);
	}
	return is_there;
}

static void one_load(struct bench *b, const char *server, pid_t pid,
		     const struct load *l)
{
	char command[256], line[256], what[48];
	double n = 0, rate = 0, cpu = bench_cpu_ns(pid);
	bool failed = false;
	FILE *f;

	snprintf(command, sizeof(command), "wrk -t 1 -c %d -d 1 "
		 "http://127.0.0.1:%u/%s", l->conns, port, l->file);
	f = popen(command, "re");
	if (!f)
		bench_die("wrk", errno);
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, " %lf requests in", &n);
		sscanf(line, "Requests/sec: %lf", &rate);
		failed |= strstr(line, "Non-2xx") || strstr(line, "Socket errors");
	}
	cpu = bench_cpu_ns(pid) - cpu;
	if (pclose(f) || failed || !n) {
		bench_note("wrk fails with %s", server);
		return;
	}
	snprintf(what, sizeof(what), "%s, requests", l->what);
	bench_add(b, what, server, "req/s", rate);
	snprintf(what, sizeof(what), "%s, CPU", l->what);
	bench_add(b, what, server, "us/req", cpu / 1e3 / n);
}

static void one_server(struct bench *b, const char *server)
{
	pid_t pid;

	if (!bench_wants(b, server) ||
	    (!strcmp(server, "nginx") && !bench_has_program(server)))
		return;
	pid = start(server);
	if (!listens())
		bench_note("%s does not answer", server);
	else
		for (size_t i = 0; i < ARRAY_SIZE(loads); i++)
			one_load(b, server, pid, &loads[i]);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
}

static void remove_files(void)
{
	static const char *const names[] = { "small", "large", "nginx.conf",
					     "nginx.pid", "nginx.err" };
	char path[4200];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
}

int main(int argc, char **argv)
{
	static struct bench b;

	bench_init(&b, "http", argc, argv);
	b.reference = "nginx";
	if (!find_ours() || !bench_has_program("wrk")) {
		bench_note("%s", program[0] && !access(program, X_OK) ?
			   "wrk is not there" : "http-files is not there");
		return bench_done(&b);
	}
	if (!bench_has_program("nginx"))
		bench_note("nginx is not there");
	bench_pin(1);
	if (bench_cpus() < 2)
		bench_note("one CPU only: server and client share it");
	port = bench_free_port();
	make_files(&b);
	for (bench_begin(&b); bench_next(&b); )
		for (size_t i = 0; i < ARRAY_SIZE(servers); i++)
			one_server(&b, servers[i]);
	bench_goal(&b, "small files: 1.3 times nginx's requests",
		   "small, requests", "43-http-files", "nginx", BENCH_AT_LEAST,
		   1.3);
	bench_goal(&b, "3 MB files: 1.2 times nginx's rate by CPU",
		   "large, CPU", "43-http-files", "nginx", BENCH_AT_MOST,
		   1 / 1.2);
	remove_files();
	return bench_done(&b);
}
