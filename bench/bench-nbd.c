/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Servers of block devices: weir-nbd beside nbdkit, qemu-nbd and nbd-server,
 * with memory and with a file that the page cache holds; and beside a bare one that
 * maps the file.  One client for all,
 * which costs little itself (nbd-client.h), and nbdcopy, which is libnbd's, also with TLS,
 * by a key that both ends have.
 *
 * The server is on the first CPU, with all its threads, and the client on the
 * second: who is moved between CPUs has two speeds at depth 1.  A server is
 * started for each set of connections, and serves nothing else.  "CPU" is what
 * the server's process takes for a request, in user space and in the kernel.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "bench/bare-nbd.h"
#include "bench/bench.h"
#include "bench/nbd-client.h"

#define NAME "bench"
#define SIZE_TEXT "256M"		/* Of memory, and of the file. */
#define SIZE_MIB 256
#define RUN_NS 50000000		/* Five repetitions fit --limit 15. */
#define QUICK_NS 2000000
#define ASK_NS 20000000
#define ASKS 150

/* A shell's commands: it has the variables that set_variables() sets. */
struct server {
	const char *name, *program;
	const char *memory, *file;	/* NULL: it has no such export. */
	const char *unix_place, *tcp_place;
	const char *tls;		/* NULL: it is not tried. */
	bool one_only;			/* Serves one connection, and ends. */
	bool is_bare;			/* It is in this program. */
};

static const struct server servers[] = {
	{ "nbdkit", "nbdkit", "nbdkit -f $AT memory " SIZE_TEXT,
	  "nbdkit -f $AT file $FILE", "-U $SOCK", "-i 127.0.0.1 -p $PORT",
	  "--tls=require --tls-psk=$KEYS/keys.psk", false, false },
	{ "qemu-nbd", "qemu-nbd", NULL,
	  "qemu-nbd -f raw -x " NAME " -t -e 8 $AT $FILE", "-k $SOCK",
	  "-b 127.0.0.1 -p $PORT",
	  "--object tls-creds-psk,id=t,endpoint=server,dir=$KEYS --tls-creds t",
	  false, false },
	{ "nbd-server", "nbd-server", NULL,
	  "nbd-server -d -C $CONF", "unixsock = $SOCK", "", NULL, true, false },
	{ .name = "bare, mapped", .file = "", .one_only = true, .is_bare = true },
	{ "weir-nbd", NULL,
	  "$WEIR_NBD -q --cores=1 $AT --export=name=" NAME ",size=" SIZE_TEXT,
	  "$WEIR_NBD -q --cores=1 $AT --export=name=" NAME ",path=$FILE",
	  "--unix=$SOCK", "--port=$PORT", "--tls-psk=$KEYS/keys.psk", false,
	  false },
};

/* What is asked on a set of connections. */
static const struct work {
	const char *name;
	struct nbd_work work;
	int conns;
	bool tcp;
} works[] = {
	{ "read 4 KiB, depth 1", { 4096, 1, false, false }, 1, false },
	{ "read 4 KiB, depth 32", { 4096, 32, false, false }, 1, false },
	{ "read 4 KiB, depth 128", { 4096, 128, false, false }, 1, false },
	{ "write 4 KiB, depth 1", { 4096, 1, true, false }, 1, false },
	{ "write 4 KiB, depth 32", { 4096, 32, true, false }, 1, false },
	{ "read 1 MiB, in order", { 1 << 20, 4, false, true }, 1, false },
	{ "4 x read 4 KiB, depth 32", { 4096, 32, false, false }, 4, false },
	{ "TCP, read 4 KiB, depth 1", { 4096, 1, false, false }, 1, true },
	{ "TCP, read 4 KiB, depth 32", { 4096, 32, false, false }, 1, true },
	{ "TCP, 4 x read, depth 32", { 4096, 32, false, false }, 4, true },
};

static char file[4096], sock[100], conf[4096], keys[4096]; /* In the environment. */
static uint16_t port;				/* Likewise. */

static void set_variables(const struct bench *b)
{
	char dir[4000], number[8];

	/* nbd-server goes elsewhere before it opens the file. */
	if (!realpath(b->dir, dir))
		bench_die(b->dir, errno);
	snprintf(file, sizeof(file), "%s/bench-nbd.img", dir);
	snprintf(conf, sizeof(conf), "%s/bench-nbd.conf", dir);
	snprintf(sock, sizeof(sock), "/tmp/bench-nbd.%d", (int)getpid());
	setenv("SOCK", sock, 1);
	setenv("FILE", file, 1);
	setenv("CONF", conf, 1);
	snprintf(keys, sizeof(keys), "%s/bench-nbd.keys", dir);
	setenv("KEYS", keys, 1);
	port = bench_free_port();
	snprintf(number, sizeof(number), "%u", port);
	setenv("PORT", number, 1);
}

static void make_file(void)
{
	static char block[1 << 20];
	uint64_t state = 88172645463325252;
	FILE *f = fopen(file, "we");

	for (size_t i = 0; i < sizeof(block); i += sizeof(state))
		memcpy(block + i, &(uint64_t){ bench_random(&state) },
		       sizeof(state));
	for (int i = 0; f && i < SIZE_MIB; i++)
		fwrite(block, sizeof(block), 1, f);
	if (!f || fclose(f))
		bench_die(file, errno);
}

/* A directory, for QEMU: keys.psk is what it looks for. */
static void make_keys(void)
{
	char path[4200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/keys.psk", keys);
	f = mkdir(keys, 0700) && errno != EEXIST ? NULL : fopen(path, "we");
	if (!f)
		bench_die(path, errno);
	fprintf(f, "bench:");
	for (int i = 0; i < 32; i++)
		fprintf(f, "%02x", i);
	fprintf(f, "\n");
	if (fclose(f))
		bench_die(path, errno);
}

static void drop_keys(void)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s/keys.psk", keys);
	unlink(path);
	rmdir(keys);
}

/* nbd-server has no options for what it serves. */
static void make_conf(bool tcp)
{
	FILE *f = fopen(conf, "we");

	if (!f)
		bench_die(conf, errno);
	fprintf(f, "[generic]\nlistenaddr = 127.0.0.1\nport = %u\n", port);
	if (!tcp)
		fprintf(f, "unixsock = %s\n", sock);
	fprintf(f, "[" NAME "]\nexportname = %s\n", file);
	if (fclose(f))
		bench_die(conf, errno);
}

static const char *export_of(const struct server *s, bool memory)
{
	return memory ? s->memory : s->file;
}

static bool is_there(const struct server *s)
{
	if (s->is_bare)
		return true;
	return s->program ? bench_has_program(s->program)
			  : bench_find_example("weir-nbd");
}

/* It ends with us, and says nothing: what fails is seen by who connects. */
static pid_t start(const struct server *s, bool memory, bool tcp, bool tls)
{
	char command[512] = "";
	pid_t pid;

	unlink(sock);
	make_conf(tcp);
	if (!s->is_bare)
		snprintf(command, sizeof(command), "AT=\"%s %s\"; exec %s >/dev/null 2>&1",
		 tls ? s->tls : "", tcp ? s->tcp_place : s->unix_place,
		 export_of(s, memory));
	pid = fork();
	if (pid < 0)
		bench_die("fork", errno);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bench_pin(0);
	if (s->is_bare)
		_exit(bare_nbd(tcp ? getenv("PORT") : sock, file));
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

static int connect_to(struct nbd_client *c, int conns, bool tcp)
{
	struct nbd_place at = { .path = tcp ? NULL : sock, .port = port };
	struct timespec t = { .tv_nsec = ASK_NS };
	int err = -ECONNREFUSED;

	for (int i = 0; i < ASKS && err; i++) {
		nanosleep(&t, NULL);
		err = nbd_open(c, &at, NAME, conns);
	}
	return err;
}

static void one_work(struct bench *b, const struct server *s,
		     struct nbd_client *c, pid_t pid, const struct work *w,
		     bool memory)
{
	double cpu = bench_cpu_ns(pid);
	uint64_t took, n;
	char what[48];

	snprintf(what, sizeof(what), "%s, %s", memory ? "memory" : "file",
		 w->name);
	c->latency = bench_latency(b, what, s->name);
	n = nbd_run(c, &w->work, b->quick ? QUICK_NS : RUN_NS, &took);
	cpu = bench_cpu_ns(pid) - cpu;
	bench_add(b, what, s->name, "kIO/s", (double)n * 1e6 / (double)took);
	snprintf(what, sizeof(what), "%s, %s, CPU", memory ? "memory" : "file",
		 w->name);
	bench_add(b, what, s->name, "us/IO", cpu / 1e3 / (double)n);
}

/* Memory that was never written costs some servers nothing. */
static void fill(struct nbd_client *c)
{
	struct nbd_work all = { 1 << 20, 4, true, true };
	uint64_t took, done = 0;

	while (done < SIZE_MIB)
		done += nbd_run(c, &all, 10000000, &took);
}

/* All of it, by a client that is not ours; it opens connections of its own. */
static void copy_out(struct bench *b, const struct server *s, bool memory)
{
	uint64_t begun = bench_wall_ns();

	if (s->one_only || !bench_has_program("nbdcopy"))
		return;
	if (system("nbdcopy \"nbd+unix:///" NAME "?socket=$SOCK\" null:")) {
		bench_note("nbdcopy fails with %s", s->name);
		return;
	}
	begun = bench_wall_ns() - begun;
	bench_add(b, memory ? "memory, nbdcopy to null" :
		  "file, nbdcopy to null", s->name, "MiB/s",
		  SIZE_MIB * 1e9 / (double)begun);
}

/* All works that want @conns connections of that kind. */
static void one_set(struct bench *b, const struct server *s, bool memory,
		    int conns, bool tcp)
{
	pid_t pid = start(s, memory, tcp, false);
	struct nbd_client c;
	int err = connect_to(&c, conns, tcp);

	if (err) {
		bench_note("%s does not answer: %s", s->name, strerror(-err));
		bench_end(pid);
		return;
	}
	if (memory)
		fill(&c);
	for (size_t i = 0; i < ARRAY_SIZE(works); i++)
		if (works[i].conns == conns && works[i].tcp == tcp)
			one_work(b, s, &c, pid, &works[i], memory);
	nbd_close(&c);
	if (conns == 1 && !tcp)
		copy_out(b, s, memory);
	bench_end(pid);
}

static bool listens(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct timespec t = { .tv_nsec = ASK_NS };
	bool is_there = false;

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", sock);
	for (int i = 0; i < ASKS && !is_there; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		nanosleep(&t, NULL);
		is_there = !connect(fd, (struct sockaddr *)&at, sizeof(at));
		close(fd);
	}
	return is_there;
}

/* The file by nbdcopy, which decrypts by GnuTLS, for all servers. */
static void one_with_tls(struct bench *b, const struct server *s)
{
	pid_t pid = start(s, false, false, true);
	uint64_t begun;
	double cpu;

	if (!listens()) {
		bench_note("%s does not answer with TLS", s->name);
		bench_end(pid);
		return;
	}
	cpu = bench_cpu_ns(pid);
	begun = bench_wall_ns();
	if (system("nbdcopy \"nbds+unix://bench@/" NAME "?socket=$SOCK"
		   "&tls-psk-file=$KEYS/keys.psk\" null: 2>/dev/null")) {
		bench_note("nbdcopy with TLS fails with %s", s->name);
	} else {
		begun = bench_wall_ns() - begun;
		cpu = bench_cpu_ns(pid) - cpu;
		bench_add(b, "file, TLS, nbdcopy to null", s->name, "MiB/s",
			  SIZE_MIB * 1e9 / (double)begun);
		bench_add(b, "file, TLS, nbdcopy to null, CPU", s->name,
			  "us/MiB", cpu / 1e3 / SIZE_MIB);
	}
	bench_end(pid);
}

static void one_rep(struct bench *b, bool memory)
{
	static const int conns[] = { 1, 4 };
	int sets = b->quick ? 1 : 4;
	const struct server *s;

	for (int i = 0; i < sets; i++)
		for (s = servers; s < servers + ARRAY_SIZE(servers); s++)
			if (export_of(s, memory) && is_there(s) &&
			    bench_wants(b, s->name) &&
			    !(s->one_only && conns[i % 2] > 1))
				one_set(b, s, memory, conns[i % 2], i / 2);
	for (s = servers; s < servers + ARRAY_SIZE(servers); s++)
		if (!memory && s->tls && is_there(s) && bench_wants(b, s->name) &&
		    bench_has_program("nbdcopy"))
			one_with_tls(b, s);
}

static void goals_of(struct bench *b, const char *kind, double times,
		     const char *other)
{
	char what[64], cpu[80], goal[80];

	snprintf(what, sizeof(what), "%s, read 4 KiB, depth 32", kind);
	snprintf(goal, sizeof(goal), "%s at depth 32: %g times the best", kind,
		 times);
	bench_goal(b, goal, what, "weir-nbd", other, BENCH_AT_LEAST, times);
	snprintf(cpu, sizeof(cpu), "%s, CPU", what);
	snprintf(goal, sizeof(goal), "%s at depth 32: 0.4 of their CPU", kind);
	bench_goal(b, goal, cpu, "weir-nbd", other, BENCH_AT_MOST, 0.4);
	snprintf(what, sizeof(what), "%s, read 4 KiB, depth 1", kind);
	snprintf(goal, sizeof(goal), "%s at depth 1, pinned: 2.5 times the best",
		 kind);
	bench_goal(b, goal, what, "weir-nbd", other, BENCH_AT_LEAST, 2.5);
	snprintf(what, sizeof(what), "%s, nbdcopy to null", kind);
	snprintf(goal, sizeof(goal), "%s, nbdcopy: 2 times the best", kind);
	bench_goal(b, goal, what, "weir-nbd", other, BENCH_AT_LEAST, 2);
}

static void goals(struct bench *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(servers); i++) {
		if (!servers[i].program)
			continue;
		goals_of(b, "memory", 2.5, servers[i].name);
		goals_of(b, "file", 2, servers[i].name);
	}
	bench_goal(b, "file, TLS, nbdcopy: 1.2 times nbdkit",
		   "file, TLS, nbdcopy to null", "weir-nbd", "nbdkit",
		   BENCH_AT_LEAST, 1.2);
	bench_goal(b, "file, TLS, nbdcopy: 0.8 of nbdkit's CPU",
		   "file, TLS, nbdcopy to null, CPU", "weir-nbd", "nbdkit",
		   BENCH_AT_MOST, 0.8);
	bench_goal(b, "file at depth 32: 0.7 of a bare server that maps it",
		   "file, read 4 KiB, depth 32", "weir-nbd", "bare, mapped",
		   BENCH_AT_LEAST, 0.7);
}

int main(int argc, char **argv)
{
	static struct bench b;

	bench_init(&b, "nbd", argc, argv);
	bench_need_example("weir-nbd");
	b.reference = "nbdkit";
	bench_pin(1);
	if (bench_cpus() < 2)
		bench_note("one CPU only: server and client share it");
	set_variables(&b);
	make_file();
	make_keys();
	for (size_t i = 0; i < ARRAY_SIZE(servers); i++)
		if (!is_there(&servers[i]))
			bench_note("%s is not there", servers[i].name);
	for (int i = 0; i < 2; i++)
		for (bench_begin(&b); bench_next(&b); )
			one_rep(&b, i == 0);
	goals(&b);
	unlink(file);
	unlink(conf);
	drop_keys();
	unlink(sock);
	return bench_done(&b);
}
