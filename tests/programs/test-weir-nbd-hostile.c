/* SPDX-License-Identifier: BSD-3-Clause */

/* weir-nbd and those who want it no good: they are stuck, or gone, or many, and
 * everybody else is served. And its end, in the middle of all kinds of
 * things. */

#include "tests/support/nbd-fixture.h"

#include <sys/ioctl.h>

/* It is over when the server says so: this waits as long as it takes, and takes
 * nothing before. */
static void wait_for_end(int fd)
{
	struct pollfd p = { .fd = fd };
	char rest[4096];
	ssize_t n;

	assert_int_equal(poll(&p, 1, -1), 1);
	assert_true(p.revents & POLLHUP);
	do {
		n = recv(fd, rest, sizeof(rest), 0);
	} while (n > 0);
	assert_true(n == 0 || errno == ECONNRESET);
	close(fd);
}

static void a_bad_magic_ends_the_connection(void **state)
{
	uint8_t buf[28];
	int fd;

	nbd_start(state);
	fd = nbd_open("file", true);
	make_request(buf, 0, NBD_CMD_READ, 1, 0, 512);
	buf[0] ^= 1;
	tell(fd, buf, 28);
	hear_end(fd);
	check_served("file");
	nbd_stop();
}

/* The rest of what they began never comes. */
static void stop_halfway(int fds[5])
{
	uint8_t buf[4096] = { 0 };

	fds[0] = nbd_try_connect();
	fds[1] = nbd_connect(3);
	tell(fds[1], buf, 3);
	make_request(buf, 0, NBD_CMD_WRITE, 1, 0, 1 * MIB);
	fds[2] = nbd_open("file", true);
	tell(fds[2], buf, 27);
	fds[3] = nbd_open("file", false);
	tell(fds[3], buf, 28 + 1000);
	fds[4] = nbd_open("ro", false);
	tell(fds[4], buf, 28 + 1000);
}

/* Ask for more than the sockets and the budget hold, and take nothing. */
static int ask_without_end(const char *name, bool structured)
{
	int fd = nbd_open(name, structured);
	uint8_t buf[28];

	set_nonblock(fd);
	make_request(buf, 0, NBD_CMD_READ, 1, 0, 256 << 10);
	while (send(fd, buf, 28, MSG_NOSIGNAL) == 28)
		;
	assert_int_equal(errno, EAGAIN);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	return fd;
}

/* Who stops in the middle, and who takes no replies, costs nobody else
 * anything, and its time runs out. */
static void stuck_client_is_sent_away(void **state)
{
	static const char *const more[] = { "--timeout=1", "--handshake=1",
					    "--connections=10", NULL };
	int fds[9];

	nbd_start_with(state, more);
	stop_halfway(fds);
	fds[5] = ask_without_end("file", false);
	fds[6] = ask_without_end("file", true);
	fds[7] = ask_without_end("memory", false);
	fds[8] = ask_without_end("memory", true);
	check_served("file");
	check_served("memory");
	for (int i = 0; i < 9; i++)
		wait_for_end(fds[i]);
	check_served("file");
	nbd_stop();
}

/* A long read of memory goes through one, which ends where its client does:
 * with nothing, or with pages, in it. */
static void pipes_go_with_their_connections(void **state)
{
	uint8_t *buf = malloc(1 * MIB);
	unsigned int n;
	int fd;

	nbd_start(state);
	fd = nbd_open("memory", false);
	do_read(fd, false, 0, 4096, buf);
	n = fds_of(nbd_pid, "");
	do_read(fd, false, 4096, 1 * MIB, buf);
	assert_int_equal(fds_of(nbd_pid, ""), n + 2);
	close(ask_without_end("memory", false));
	close(ask_without_end("memory", true));
	disconnect(fd);
	while (fds_of(nbd_pid, "") != n - 1)
		poll(NULL, 0, 1);
	nbd_stop();
	free(buf);
}

/* Half of a write to memory, whose client is gone when this returns. */
static void write_half(void)
{
	int fd = nbd_open("memory", false);
	uint8_t data[4096];

	memset(data, 0xff, sizeof(data));
	ask(fd, 0, NBD_CMD_WRITE, 0, 2 * sizeof(data));
	tell(fd, data, sizeof(data));
	shutdown(fd, SHUT_WR);
	hear_end(fd);
}

static void half_a_write_does_not_come_back(void **state)
{
	uint8_t data[4096] = { 0 }, none[4096] = { 0 };
	int fd;

	nbd_start(state);
	write_half();
	fd = nbd_open("memory", false);
	assert_int_equal(do_command(fd, 0, NBD_CMD_WRITE_ZEROES, 0, 4096), 0);
	assert_int_equal(do_write(fd, 0, 16384, 4096, data), 0);
	do_read(fd, false, 0, 4096, data);
	assert_memory_equal(data, none, 4096);
	disconnect(fd);
	nbd_stop();
}

static void leave(const char *name, const void *data, size_t len)
{
	int fd = nbd_open(name, true);

	tell(fd, data, len);
	close(fd);
}

/*
 * At every byte of a conversation.  A slow server has clients that have left, and
 * refuses none of those that come meanwhile.
 */
static void clients_may_vanish_at_any_time(void **state)
{
	uint8_t buf[64 + 4096] = { 0 };

	nbd_start_with(state, (const char *const[]){ "--connections=128",
						     NULL });
	for (size_t i = 0; i <= 28 + 4096; i += i < 30 ? 1 : 509) {
		/* Two cores may serve two of them at once, and what both write to the
		 * same place is no order of anyone's. */
		make_request(buf, NBD_CMD_FLAG_FUA, NBD_CMD_WRITE, 1,
			     4096 * (i % 64), 4096);
		leave("file", buf, i);
		leave("memory", buf, i);
	}
	for (unsigned int type = 0; type < NBD_CMDS; type++) {
		make_request(buf, 0, type, 1, 0, 8 * MIB);
		leave("file", buf, 28);
		leave("memory", buf, 28);
	}
	check_served("file");
	check_served("memory");
	nbd_stop();
}

/* Whoever is too many is told so by the end of the connection. */
static void connections_are_bounded(void **state)
{
	int fds[8];

	nbd_start(state);
	for (int i = 0; i < 8; i++)
		fds[i] = nbd_open("file", true);
	hear_end(nbd_try_connect());
	hear_end(nbd_try_connect());
	disconnect(fds[3]);
	fds[3] = nbd_open("memory", false);
	for (int i = 0; i < 8; i++)
		disconnect(fds[i]);
	nbd_stop();
}

/* The end of the stream is as good as a disconnect: what was asked is done. */
static void a_closed_stream_is_answered_to_the_end(void **state)
{
	uint8_t buf[512];
	int fd;

	nbd_start(state);
	fd = nbd_open("file", false);
	for (int i = 0; i < 100; i++)
		ask(fd, 0, NBD_CMD_READ, 0, 512);
	shutdown(fd, SHUT_WR);
	for (int i = 0; i < 100; i++)
		hear_simple_data(fd, 0, 512, buf);
	hear_end(fd);
	nbd_stop();
}

static void a_disconnect_waits_for_what_was_asked(void **state)
{
	uint8_t said[28 + 4096 + 28 + 28];
	int fd;

	nbd_start(state);
	fd = nbd_open("file", false);
	make_request(said, NBD_CMD_FLAG_FUA, NBD_CMD_WRITE, 1, 0, 4096);
	memset(said + 28, 7, 4096);
	make_request(said + 28 + 4096, 0, NBD_CMD_DISC, 0, 0, 0);
	make_request(said + 28 + 4096 + 28, 0, NBD_CMD_TRIM, 0, 0, 512);
	tell(fd, said, sizeof(said));
	assert_int_equal(hear_error(fd, 1), 0);
	hear_end(fd);
	nbd_stop();
}

/* In the middle of handshakes, halves of requests and full sockets. */
static void server_stops_whatever_clients_do(void **state)
{
	uint8_t buf[28];
	int fds[5];

	nbd_start_with(state, (const char *const[]){ "--grace=1", NULL });
	fds[0] = nbd_try_connect();
	fds[1] = nbd_connect(3);
	fds[2] = nbd_open("file", true);
	fds[3] = nbd_open("memory", true);
	make_request(buf, 0, NBD_CMD_WRITE, 1, 0, 4096);
	tell(fds[3], buf, 28);
	fds[4] = ask_without_end("memory", true);
	nbd_stop();
	for (int i = 0; i < 5; i++)
		wait_for_end(fds[i]);
	assert_int_equal(nbd_try_connect(), -1);
	assert_int_equal(access(nbd_socket, F_OK), -1);
}

/* Each request of a batch is done, or refused because of the stop. */
static void received_requests_are_answered_when_the_server_stops(void **state)
{
	uint8_t data[512];
	uint32_t n = 0, error = 0;
	int fd;

	nbd_start(state);
	fd = nbd_open("file", false);
	for (; n < 50; n++)
		ask(fd, 0, NBD_CMD_READ, 0, 512);
	kill(nbd_pid, SIGTERM);
	for (n = 0; n < 50; n++) {
		uint8_t buf[16];

		if (recv(fd, buf, 16, MSG_WAITALL) != 16)
			break;
		error = get32(buf + 4);
		assert_true(error == 0 || error == NBD_ESHUTDOWN);
		if (!error)
			hear(fd, data, 512);
	}
	assert_int_equal(nbd_wait(), 0);
	close(fd);
}

static void wait_until_nobody_listens(void)
{
	int fd;

	while ((fd = nbd_try_connect()) >= 0) {
		close(fd);
		poll(NULL, 0, 1);
	}
}

/* The stop waits for a client that takes what it has asked for. */
static void an_answer_that_has_begun_is_finished_when_it_stops(void **state)
{
	uint8_t head[16], *data = malloc(8 * MIB);
	int fd;

	nbd_start(state);
	fd = nbd_open("memory", false);
	ask(fd, 0, NBD_CMD_READ, 0, 8 * MIB);
	hear(fd, head, 16);
	assert_int_equal(get32(head + 4), 0);
	kill(nbd_pid, SIGTERM);
	wait_until_nobody_listens();
	hear(fd, data, 8 * MIB);
	hear_end(fd);
	assert_int_equal(nbd_wait(), 0);
	free(data);
}

/* What a client saw flushed is in the file, however the server ended. */
static void flushed_data_outlives_a_kill(void **state)
{
	uint8_t *buf = malloc(1 * MIB);
	int fd, file;

	nbd_start(state);
	fd = nbd_open("file", true);
	fill_pattern(buf, 1 * MIB, 0, 8);
	assert_int_equal(do_write(fd, 0, 0, 1 * MIB, buf), 0);
	assert_int_equal(do_command(fd, 0, NBD_CMD_FLUSH, 0, 0), 0);
	fill_pattern(buf, 1 * MIB, 1 * MIB, 8);
	assert_int_equal(do_write(fd, NBD_CMD_FLAG_FUA, 1 * MIB, 1 * MIB, buf),
			 0);
	ask(fd, 0, NBD_CMD_WRITE, 2 * MIB, 4 * MIB);
	tell(fd, buf, 1 * MIB);
	kill(nbd_pid, SIGKILL);
	assert_int_equal(nbd_wait(), 128 + SIGKILL);
	wait_for_end(fd);
	file = open(test_path(state, "file"), O_RDONLY);
	for (uint64_t off = 0; off < 2 * MIB; off += MIB) {
		assert_int_equal(pread(file, buf, MIB, (off_t)off), MIB);
		assert_true(is_pattern(buf, MIB, off, 8));
	}
	close(file);
	free(buf);
}

static int status_with(void **state, const char *a, const char *b)
{
	nbd_spawn(state, (const char *const[]){ a, b, NULL });
	return nbd_wait();
}

/* What was said since last time is one line, with @word in it. */
static bool was_said_once(int err, const char *word)
{
	char said[512] = "";
	ssize_t n = pread(err, said, sizeof(said) - 1, 0);

	return n > 0 && strstr(said, word) &&
	       strchr(said, '\n') == said + n - 1;
}

/* What is wrong with the words has status 2, what they name 3. */
static const struct wrong_line {
	const char *a, *b;
	int status;
} wrong_lines[] = {
	{ "--help", NULL, 0 },
	{ "--version", NULL, 0 },
	{ NULL, NULL, 2 },
	{ "--export=size=1M", "operand", 2 },
	{ "--export=size=1M", "--export=size=2M", 2 },
	{ "--export=name=x", NULL, 2 },
	{ "--export=size=1M,path=x", NULL, 2 },
	{ "--export=size=0", NULL, 2 },
	{ "--export=size=1Q", NULL, 2 },
	{ "--export=size=9999999T", NULL, 2 },
	{ "--export=size=1M,what=x", NULL, 2 },
	{ "--export=size=1M,text", NULL, 2 },
	{ "--export=size=1M", "--timeout=0", 2 },
	{ "--export=size=1M", "--port=65536", 2 },
	{ "--export=size=1M", "--cores=x", 2 },
	{ "--export=path=/dev/null/x", NULL, 3 },
	{ "--export=path=/dev/null", NULL, 3 },
	{ "--export=path=/", NULL, 3 },
	{ "--export=size=1M", "--unix=/no/such/place", 3 },
	{ "--export=size=1M", "--address=192.0.2.1", 3 },
};

static bool is_refused(void **state, const struct wrong_line *line, int err)
{
	const char *last = line->b ? line->b : line->a;
	int status;

	assert_int_equal(ftruncate(err, 0), 0);
	status = status_with(state, line->a, line->b);
	return status == line->status &&
	       (status != 3 || was_said_once(err, strrchr(last, '=') + 1));
}

static void a_wrong_command_line_is_refused(void **state)
{
	int err = open(test_path(state, "err"),
		       O_RDWR | O_CREAT | O_APPEND, 0600);
	int null = open("/dev/null", O_WRONLY);
	int was_out = dup(1), was_err = dup(2);
	const struct wrong_line *wrong = NULL;

	dup2(err, 2);
	dup2(null, 1);
	for (size_t i = 0; i < N_OF(wrong_lines); i++)
		if (!is_refused(state, &wrong_lines[i], err))
			wrong = &wrong_lines[i];
	dup2(was_err, 2);
	dup2(was_out, 1);
	close(err);
	close(null);
	close(was_out);
	close(was_err);
	if (wrong)
		fail_msg("%s %s", wrong->a, wrong->b);
}

/* A socket is the owner's alone; one that nobody listens at is replaced. */
static void the_socket_is_the_owners(void **state)
{
	struct stat st;

	nbd_start(state);
	assert_int_equal(stat(nbd_socket, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	kill(nbd_pid, SIGKILL);
	nbd_wait();
	assert_int_equal(access(nbd_socket, F_OK), 0);
	nbd_start(state);
	check_served("file");
	nbd_stop();
}

/* As a service manager does it: a socket that listens is handed over as 3. */
static void exec_with_socket(void **state, int listener, const char *more)
{
	const struct world *w = *state;
	const char *program = getenv("WEIR_NBD");
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", "1", 1);
	setenv("WEIR_BACKEND", w->backend, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (listener == 3)
		fcntl(3, F_SETFD, 0);
	else
		dup2(listener, 3);
	execl(program ? program : "programs/weir-nbd/weir-nbd", "weir-nbd",
	      "-q", "--cores=1", "--export=size=1M", more, (char *)NULL);
	_exit(127);
}

/* @listener is the server's from now on. */
static void start_with_socket(void **state, int listener, const char *more)
{
	assert_int_equal(listen(listener, 8), 0);
	fflush(NULL);
	nbd_pid = fork();
	assert_true(nbd_pid >= 0);
	if (nbd_pid == 0)
		exec_with_socket(state, listener, more);
	close(listener);
}

static void a_socket_may_be_handed_over(void **state)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(nbd_socket, sizeof(nbd_socket), "%s",
		 test_path(state, "socket"));
	memcpy(sun.sun_path, nbd_socket, strlen(nbd_socket));
	assert_int_equal(bind(listener, (struct sockaddr *)&sun, sizeof(sun)),
			 0);
	start_with_socket(state, listener, NULL);
	check_served("");
	nbd_stop();
	assert_int_equal(access(nbd_socket, F_OK), 0);
}

#define TRIES 60000	/* Of a millisecond. */

/* Connected and greeted, or -1: the server has no capacity. */
static int try_greeting(void)
{
	int fd = nbd_try_connect();
	uint8_t buf[18];

	assert_true(fd >= 0);
	if (recv(fd, buf, 18, MSG_WAITALL) == 18)
		return fd;
	close(fd);
	return -1;
}

/* As many as there may be, who say nothing: one that wants something is served,
 * and so is one that was there before. */
static void silent_client_makes_way_for_newcomer(void **state)
{
	int fds[7], fd, served, tries = 0;
	uint8_t buf[512];

	nbd_start_with(state, (const char *const[]){ "--handshake=600", NULL });
	served = nbd_open("file", false);
	for (int i = 0; i < 7; i++)
		while ((fds[i] = try_greeting()) < 0)
			assert_true(++tries < TRIES);
	while ((fd = try_greeting()) < 0) {
		assert_true(++tries < TRIES);
		poll(NULL, 0, 1);
	}
	close(fd);
	do_read(served, false, 0, 512, buf);
	disconnect(served);
	for (int i = 0; i < 7; i++)
		close(fds[i]);
	nbd_stop();
}

static int listen_tcp(struct sockaddr_in *ret)
{
	socklen_t len = sizeof(*ret);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*ret = (struct sockaddr_in){ .sin_family = AF_INET };
	ret->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)ret, sizeof(*ret)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)ret, &len), 0);
	return fd;
}

/* From 127.0.0.@host.  Returns the reply to GO; *@ret is the connection. */
static uint32_t go_by_tcp(int *ret, const struct sockaddr_in *to, uint32_t host)
{
	struct sockaddr_in from = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint8_t buf[64];

	from.sin_addr.s_addr = htonl(0x7f000000 | host);
	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)to, sizeof(*to)),
			 0);
	hear(fd, buf, 18);
	put32(buf, 3);
	tell(fd, buf, 4);
	*ret = fd;
	return do_option(fd, NBD_OPT_GO, buf, info_data(buf, "", NULL, 0));
}

static void connections_of_an_address_are_bounded(void **state)
{
	struct sockaddr_in to;
	int fds[4], tries = 0, listener = listen_tcp(&to);

	start_with_socket(state, listener, "--per-peer=2");
	assert_int_equal(go_by_tcp(&fds[0], &to, 1), NBD_REP_ACK);
	assert_int_equal(go_by_tcp(&fds[1], &to, 1), NBD_REP_ACK);
	assert_int_equal(go_by_tcp(&fds[2], &to, 1), NBD_REP_ERR_POLICY);
	assert_int_equal(go_by_tcp(&fds[3], &to, 2), NBD_REP_ACK);
	disconnect(fds[1]);
	close(fds[2]);
	while (go_by_tcp(&fds[1], &to, 1) != NBD_REP_ACK) {
		assert_true(++tries < TRIES);
		close(fds[1]);
	}
	disconnect(fds[0]);
	disconnect(fds[1]);
	disconnect(fds[3]);
	nbd_stop();
}

/* Who asks for something now and then stays. */
static void idle_client_is_disconnected(void **state)
{
	struct pollfd idle = { .events = POLLIN };
	uint8_t buf[512];
	int busy;

	nbd_start_with(state, (const char *const[]){ "--idle=2", NULL });
	idle.fd = nbd_open("file", true);
	busy = nbd_open("memory", false);
	while (poll(&idle, 1, 1) == 0)
		do_read(busy, false, 0, 512, buf);
	hear_end(idle.fd);
	do_read(busy, false, 0, 512, buf);
	disconnect(busy);
	nbd_stop();
}

/* How often the server has said @word, in how many lines. */
static unsigned int count_said(int err, const char *word, unsigned int *lines)
{
	static char said[16384];
	ssize_t n = pread(err, said, sizeof(said) - 1, 0);
	unsigned int found = 0;

	assert_true(n >= 0);
	said[n] = '\0';
	*lines = 0;
	for (const char *p = said; (p = strchr(p, '\n')); p++)
		++*lines;
	for (const char *p = said; (p = strstr(p, word)); p++)
		found++;
	return found;
}

/* On stderr, but not once for each that comes. */
static void refusal_is_said(void **state)
{
	int err = open(test_path(state, "err"),
		       O_RDWR | O_CREAT | O_APPEND | O_TRUNC, 0600);
	int was_err = dup(2), fd;
	unsigned int found, lines;

	dup2(err, 2);
	nbd_start_with(state, (const char *const[]){ "--connections=1", NULL });
	dup2(was_err, 2);
	close(was_err);
	fd = nbd_open("file", false);
	for (int i = 0; i < 100; i++)
		hear_end(nbd_try_connect());
	disconnect(fd);
	nbd_stop();
	found = count_said(err, "is refused: too many connections", &lines);
	assert_true(found >= 1);
	assert_true(lines < 100);
	close(err);
}

/*
 * Of two clients on one core one wants zeroes that take seconds to write, and
 * the other one something that a worker does, too: it is not the last.  The
 * read shows that the server has all of the requests before.
 */
static void zeroes_of_a_client_leave_workers_to_others(void **state)
{
	uint8_t buf[4096];
	int all = 0, a, b;

	nbd_start_with(state, (const char *const[]){
		"--cores=1", "--export=name=big,size=256M", NULL });
	a = nbd_open("big", false);
	b = nbd_open("file", false);
	for (int i = 0; i < 127; i++)
		ask(a, NBD_CMD_FLAG_NO_HOLE, NBD_CMD_WRITE_ZEROES, 0, 256 * MIB);
	do_read(a, false, 4096, 4096, buf);
	assert_int_equal(do_write(b, 0, 0, 4096, buf), 0);
	assert_int_equal(ioctl(a, FIONREAD, &all), 0);
	assert_true(all < 64 * 16);
	close(a);
	disconnect(b);
	nbd_stop();
}

/* Its open() would wait for somebody who writes. */
static void fifo_is_no_export(void **state)
{
	char export[300];
	int status = 0, tries = 0;

	assert_int_equal(mkfifo(test_path(state, "fifo"), 0600), 0);
	snprintf(export, sizeof(export), "--export=ro,path=%s",
		 test_path(state, "fifo"));
	nbd_spawn(state, (const char *const[]){ export, NULL });
	while (waitpid(nbd_pid, &status, WNOHANG) == 0) {
		if (++tries == TRIES)
			kill(nbd_pid, SIGKILL);
		poll(NULL, 0, 1);
	}
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SETUP);
}

static const struct harness_case cases[] = {
	CASE(a_bad_magic_ends_the_connection),
	CASE(stuck_client_is_sent_away),
	CASE(pipes_go_with_their_connections),
	CASE(half_a_write_does_not_come_back),
	CASE(clients_may_vanish_at_any_time),
	CASE(connections_are_bounded),
	CASE(a_closed_stream_is_answered_to_the_end),
	CASE(a_disconnect_waits_for_what_was_asked),
	CASE(server_stops_whatever_clients_do),
	CASE(received_requests_are_answered_when_the_server_stops),
	CASE(an_answer_that_has_begun_is_finished_when_it_stops),
	CASE(flushed_data_outlives_a_kill),
	CASE(a_wrong_command_line_is_refused),
	CASE(the_socket_is_the_owners),
	CASE(a_socket_may_be_handed_over),
	CASE(silent_client_makes_way_for_newcomer),
	CASE(connections_of_an_address_are_bounded),
	CASE(idle_client_is_disconnected),
	CASE(refusal_is_said),
	CASE(zeroes_of_a_client_leave_workers_to_others),
	CASE(fifo_is_no_export),
};

int main(void)
{
	return harness_run(cases, N_OF(cases));
}
