/* SPDX-License-Identifier: BSD-3-Clause */

/* The exporter and its clients: who gets what, and what hostile peers cannot
 * do, to either. */

#include "tests/support/export-fixture.h"

#include <sys/un.h>

#include <weir/watch.h>

#include "base/fault.h"

struct fixture {
	struct weir_reactor *r;
	struct weir_exporter *x;
	struct weir_mmap *m;
	char path[96];
	struct weir_exporter_opts opts;
	struct weir_exporter_peer peer;	/* The last that asked, and for what. */
	char name[256];
	int asked;
	int answer;
	bool destroy;			/* In the callback. */
};

static int on_accept(struct weir_exporter *x,
		     const struct weir_exporter_peer *peer, const char *name,
		     void *arg)
{
	struct fixture *g = arg;

	assert_ptr_equal(x, g->x);
	g->peer = *peer;
	strcpy(g->name, name);
	g->asked++;
	if (g->destroy) {
		weir_exporter_destroy(g->x);
		g->x = NULL;
	}
	return g->answer;
}

static void fixture_set_up(struct fixture *g, void **state)
{
	memset(g, 0, sizeof(*g));
	g->r = start_reactor(state);
	snprintf(g->path, sizeof(g->path), "%s", test_path(state, "socket"));
	g->opts.size = sizeof(g->opts);
	g->opts.accept = on_accept;
	g->opts.arg = g;
}

static void fixture_begin(struct fixture *g, void **state)
{
	fixture_set_up(g, state);
	assert_int_equal(weir_exporter_create(&g->x, g->r, g->path, &g->opts),
			 0);
	g->m = fixture_started(FIXTURE_LEN, RW);
	fill_pattern(fixture_addr(g->m), FIXTURE_LEN, 0, 1);
	assert_int_equal(weir_exporter_add(g->x, "memory", g->m, NULL), 0);
}

static void fixture_end(struct fixture *g)
{
	struct stat st;

	weir_exporter_destroy(g->x);
	some_turns(g->r, 3);
	assert_int_equal(stat(g->path, &st), -1);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
}

/* Import @name; *ret is the mmap. */
static int64_t import_from(struct fixture *g, const char *name,
			   struct weir_mmap **ret)
{
	struct rec rec;
	int64_t res;

	rec_init(&rec);
	STARTS(weir_mmap_import_from(g->r, &rec.op, g->path, name, NULL));
	res = finish(g->r, &rec);
	*ret = weir_mmap_imported(&rec.op);
	assert_int_equal(*ret != NULL, res == 0);
	assert_null(weir_mmap_imported(&rec.op));
	return res;
}

static void import_here_and_end(struct fixture *g, const char *name)
{
	struct weir_mmap *im;

	assert_int_equal(import_from(g, name, &im), 0);
	assert_true(is_pattern(fixture_addr(im), FIXTURE_LEN, 0, 1));
	assert_int_equal(weir_mmap_is_imported(im), 1);
	assert_int_equal(weir_mmap_destroy(im), 0);
}

static void named_export_can_be_imported(void **state)
{
	struct weir_mmap *im;
	struct fixture g;

	fixture_begin(&g, state);
	import_here_and_end(&g, "memory");
	assert_int_equal(g.asked, 1);
	assert_string_equal(g.name, "memory");
	assert_int_equal(g.peer.pid, getpid());
	assert_int_equal(g.peer.uid, geteuid());
	assert_int_equal(g.peer.gid, getegid());
	assert_int_equal(import_from(&g, "nothing", &im), -ENOENT);
	assert_int_equal(weir_exporter_remove(g.x, "memory"), 0);
	assert_int_equal(weir_exporter_remove(g.x, "memory"), -ENOENT);
	assert_int_equal(weir_exporter_remove(g.x, NULL), -ENOENT);
	assert_int_equal(import_from(&g, "memory", &im), -ENOENT);
	fixture_end(&g);
}

static void refused_importer_does_not_learn_what_names_exist(void **state)
{
	struct weir_mmap *im;
	struct fixture g;

	fixture_begin(&g, state);
	g.answer = -1;
	assert_int_equal(import_from(&g, "memory", &im), -EACCES);
	assert_int_equal(import_from(&g, "nothing", &im), -EACCES);
	g.answer = 0;
	import_here_and_end(&g, "memory");
	fixture_end(&g);
}

/* A connection by hand. */
static int dial(const struct fixture *g)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(sun.sun_path, g->path);
	assert_int_equal(connect(fd, (void *)&sun, sizeof(sun)), 0);
	return fd;
}

static bool has_hung_up(int fd)
{
	char buf[2000];

	return recv(fd, buf, sizeof(buf), MSG_DONTWAIT) == 0 ||
	       (errno == ECONNRESET &&
		recv(fd, buf, sizeof(buf), MSG_DONTWAIT) == 0);
}

/* The errno that is answered; 0 for silence and the end. */
static int answer_to(struct fixture *g, int fd)
{
	uint32_t answer[300] = { 0 };
	ssize_t n = -1;
	int i;

	for (i = 0; i < TURNS_MAX && n < 0; i++) {
		assert_true(weir_reactor_turn(g->r, 0) >= 0);
		n = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN)
			return -errno;
	}
	return n >= 16 ? (int)answer[2] : 0;
}

static void stopped_name_is_stale_until_added_again(void **state)
{
	struct weir_mmap *im;
	struct fixture g;
	int fd;

	fixture_begin(&g, state);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);
	assert_int_equal(import_from(&g, "memory", &im), -ESTALE);
	fd = dial(&g);	/* The exporter says so, not the import. */
	assert_int_equal(send(fd, "weirask1\6\0\0\0\0\0\0\0memory", 22, 0), 22);
	assert_int_equal(answer_to(&g, fd), ESTALE);
	close(fd);
	assert_int_equal(weir_mmap_start(g.m), 0);
	assert_int_equal(import_from(&g, "memory", &im), -ESTALE);
	assert_int_equal(weir_exporter_add(g.x, "memory", g.m, NULL), -EEXIST);
	assert_int_equal(weir_exporter_remove(g.x, "memory"), 0);
	assert_int_equal(weir_exporter_add(g.x, "memory", g.m, NULL), 0);
	import_here_and_end(&g, "memory");
	/* Nor does the exporter need the mmap to be there. */
	assert_int_equal(weir_mmap_destroy(g.m), 0);
	g.m = NULL;
	assert_int_equal(import_from(&g, "memory", &im), -ESTALE);
	fixture_end(&g);
}

static void names_have_limits(void **state)
{
	char name[300];
	struct fixture g;

	fixture_set_up(&g, state);
	g.opts.names = 2;
	assert_int_equal(weir_exporter_create(&g.x, g.r, g.path, &g.opts), 0);
	g.m = fixture_started(FIXTURE_LEN, RW);
	fill_pattern(fixture_addr(g.m), FIXTURE_LEN, 0, 1);
	memset(name, 'x', sizeof(name));
	name[256] = '\0';
	assert_int_equal(weir_exporter_add(g.x, name, g.m, NULL), -EINVAL);
	assert_int_equal(weir_exporter_add(g.x, "", g.m, NULL), -EINVAL);
	assert_int_equal(weir_exporter_add(g.x, NULL, g.m, NULL), -EINVAL);
	name[255] = '\0';
	assert_int_equal(weir_exporter_add(g.x, name, g.m, NULL), 0);
	assert_int_equal(weir_exporter_add(g.x, "b", g.m, NULL), 0);
	assert_int_equal(weir_exporter_add(g.x, "c", g.m, NULL), -EAGAIN);
	import_here_and_end(&g, name);
	import_here_and_end(&g, "b");
	fixture_end(&g);
}

static void mmap_that_cannot_be_exported_cannot_be_added(void **state)
{
	struct weir_mmap *m;
	struct fixture g;

	fixture_begin(&g, state);
	m = fixture_mmap(FIXTURE_LEN, RW);
	assert_int_equal(weir_exporter_add(g.x, "more", m, NULL), -EBADFD);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(import_from(&g, "more", &m), -ENOENT);
	fixture_end(&g);
}

static uint32_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	return st.st_mode & 07777;
}

static void the_socket_is_the_owners_unless_it_is_said(void **state)
{
	mode_t old = umask(0);
	struct fixture g;

	fixture_set_up(&g, state);
	assert_int_equal(weir_exporter_create(&g.x, g.r, g.path, &g.opts), 0);
	assert_int_equal(mode_of(g.path), 0600);
	weir_exporter_destroy(g.x);
	umask(0777);
	g.opts.mode = 0666;
	assert_int_equal(weir_exporter_create(&g.x, g.r, g.path, &g.opts), 0);
	assert_int_equal(mode_of(g.path), 0666);
	umask(old);
	weir_exporter_destroy(g.x);
	g.x = NULL;
	g.opts.mode = 01600;
	assert_int_equal(weir_exporter_create(&g.x, g.r, g.path, &g.opts),
			 -EINVAL);
	fixture_end(&g);
}

static void a_live_socket_is_left_alone_and_a_dead_one_replaced(void **state)
{
	struct weir_exporter *second = NULL;
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct fixture g;
	int fd;

	fixture_begin(&g, state);
	assert_int_equal(weir_exporter_create(&second, g.r, g.path, &g.opts),
			 -EADDRINUSE);
	assert_null(second);
	import_here_and_end(&g, "memory");
	weir_exporter_destroy(g.x);

	/* Of a process that was killed. */
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	strcpy(sun.sun_path, g.path);
	assert_int_equal(bind(fd, (void *)&sun, sizeof(sun)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(weir_exporter_create(&second, g.r, g.path, &g.opts),
			 -EADDRINUSE);
	close(fd);
	assert_int_equal(weir_exporter_create(&g.x, g.r, g.path, &g.opts), 0);
	assert_int_equal(weir_exporter_add(g.x, "memory", g.m, NULL), 0);
	import_here_and_end(&g, "memory");

	/* Of another kind, but alive. */
	weir_exporter_destroy(g.x);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (void *)&sun, sizeof(sun)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(weir_exporter_create(&g.x, g.r, g.path, &g.opts),
			 -EADDRINUSE);
	close(fd);
	assert_int_equal(unlink(g.path), 0);
	g.x = NULL;
	fixture_end(&g);
}

static void exporter_leaves_a_file_that_is_no_socket_alone(void **state)
{
	char path[200];
	struct stat st;
	struct fixture g;
	int fd;

	fixture_set_up(&g, state);
	fd = open(g.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	assert_int_equal(weir_exporter_create(&g.x, g.r, g.path, &g.opts),
			 -EEXIST);
	assert_int_equal(stat(g.path, &st), 0);
	assert_int_equal(unlink(g.path), 0);
	assert_int_equal(symlink("/nowhere/at/all", g.path), 0);
	assert_int_equal(weir_exporter_create(&g.x, g.r, g.path, &g.opts),
			 -EEXIST);
	assert_int_equal(unlink(g.path), 0);
	assert_int_equal(weir_exporter_create(&g.x, g.r, "", &g.opts), -EINVAL);
	assert_int_equal(weir_exporter_create(&g.x, g.r, NULL, &g.opts),
			 -EINVAL);
	memset(path, 'x', sizeof(path));
	path[100] = '\0';
	assert_int_equal(weir_exporter_create(&g.x, g.r, path, &g.opts),
			 -EMSGSIZE);
	assert_int_equal(weir_exporter_create(&g.x, g.r, "/no/such/place",
					      &g.opts), -ENOENT);
	assert_null(g.x);
	g.opts.reserved = 1;
	assert_int_equal(weir_exporter_create(&g.x, g.r, g.path, &g.opts),
			 -E2BIG);
	g.opts.reserved = 0;
	g.opts.connections = 5000;
	assert_int_equal(weir_exporter_create(&g.x, g.r, g.path, &g.opts),
			 -EINVAL);
	fixture_end(&g);
}

/* Moved away by its owner, or replaced: not ours to remove. */
static void a_socket_of_others_is_not_removed(void **state)
{
	struct fixture g, other;

	fixture_begin(&g, state);
	other = g;
	assert_int_equal(unlink(g.path), 0);
	assert_int_equal(weir_exporter_create(&other.x, g.r, g.path, &g.opts),
			 0);
	weir_exporter_destroy(g.x);
	assert_int_equal(mode_of(g.path), 0600);
	g.x = other.x;
	fixture_end(&g);
}

static const struct {
	const char *name;
	const char *bytes;
	size_t len;
	int want;
} requests[] = {
	{ "short", "weirask1", 8, EPROTO },
	{ "another protocol", "GET / HTTP/1.1\r\n\r\n", 18, EPROTO },
	{ "a newer version", "weirask2\1\0\0\0\0\0\0\0x", 17, EPROTONOSUPPORT },
	{ "no name", "weirask1\0\0\0\0\0\0\0\0", 16, EPROTO },
	{ "shorter than it says", "weirask1\3\0\0\0\0\0\0\0xy", 18, EPROTO },
	{ "longer than it says", "weirask1\1\0\0\0\0\0\0\0xy", 18, EPROTO },
	{ "very long, it says", "weirask1\377\377\377\377\0\0\0\0xy", 18,
	  EPROTO },
	{ "reserved", "weirask1\1\0\0\0\1\0\0\0x", 17, EPROTO },
	{ "a zero in the name", "weirask1\3\0\0\0\0\0\0\0x\0y", 19, EPROTO },
	{ "sound", "weirask1\1\0\0\0\0\0\0\0x", 17, ENOENT },
};

static void requests_that_are_none_are_refused(void **state)
{
	char huge[60000];
	struct fixture g;
	size_t i;
	int fd, got;

	fixture_begin(&g, state);
	for (i = 0; i < N_OF(requests); i++) {
		fd = dial(&g);
		assert_int_equal(send(fd, requests[i].bytes, requests[i].len,
				      0), requests[i].len);
		got = answer_to(&g, fd);
		if (got != requests[i].want)
			fail_msg("%s: %d", requests[i].name, got);
		close(fd);
	}
	assert_int_equal(g.asked, 1);
	memset(huge, 'x', sizeof(huge));
	fd = dial(&g);
	assert_int_equal(send(fd, huge, sizeof(huge), 0), sizeof(huge));
	assert_int_equal(answer_to(&g, fd), EPROTO);
	close(fd);
	import_here_and_end(&g, "memory");
	fixture_end(&g);
}

static void descriptors_sent_with_a_request_are_closed(void **state)
{
	struct parcel p = { .len = 17, .n_fds = 3 };
	int fd, ends[2];
	struct fixture g;
	char c;

	fixture_begin(&g, state);
	memcpy(p.bytes, "weirask1\1\0\0\0\0\0\0\0x", 17);
	pipe_pair(ends);
	p.fds[0] = p.fds[1] = p.fds[2] = ends[1];
	fd = dial(&g);
	assert_int_equal(parcel_send(fd, &p), 0);
	close(ends[1]);
	assert_int_equal(answer_to(&g, fd), ENOENT);
	assert_int_equal(read(ends[0], &c, 1), 0);
	close(ends[0]);
	close(fd);
	fixture_end(&g);
}

static void silent_importer_is_cut_off(void **state)
{
	struct fixture g;
	int fd;

	fixture_set_up(&g, state);
	g.opts.timeout_ns = 1;
	assert_int_equal(weir_exporter_create(&g.x, g.r, g.path, &g.opts), 0);
	fd = dial(&g);
	UNTIL(g.r, has_hung_up(fd));
	close(fd);
	assert_int_equal(g.asked, 0);
	fixture_end(&g);
}

static void exporter_turns_away_connections_beyond_its_limit(void **state)
{
	struct weir_mmap *im;
	int fds[2], i;
	struct fixture g;

	fixture_set_up(&g, state);
	g.opts.connections = 2;
	assert_int_equal(weir_exporter_create(&g.x, g.r, g.path, &g.opts), 0);
	g.m = fixture_started(FIXTURE_LEN, RW);
	fill_pattern(fixture_addr(g.m), FIXTURE_LEN, 0, 1);
	assert_int_equal(weir_exporter_add(g.x, "memory", g.m, NULL), 0);
	for (i = 0; i < 2; i++) {
		fds[i] = dial(&g);
		some_turns(g.r, 5);
	}
	for (i = 0; i < 20; i++)
		assert_int_equal(import_from(&g, "memory", &im), -EAGAIN);
	close(fds[0]);
	some_turns(g.r, 5);
	import_here_and_end(&g, "memory");
	close(fds[1]);
	fixture_end(&g);
}

static void exporter_is_destroyed_with_requests_in_flight(void **state)
{
	struct weir_mmap *im;
	struct fixture g;
	int fd, silent;

	fixture_begin(&g, state);
	silent = dial(&g);
	some_turns(g.r, 5);
	fd = dial(&g);
	weir_exporter_destroy(g.x);
	g.x = NULL;
	UNTIL(g.r, has_hung_up(silent));
	close(silent);
	close(fd);
	assert_int_equal(import_from(&g, "memory", &im), -ENOENT);
	weir_exporter_destroy(NULL);

	assert_int_equal(weir_exporter_create(&g.x, g.r, g.path, &g.opts), 0);
	g.destroy = true;
	assert_int_equal(import_from(&g, "memory", &im), -ECONNRESET);
	assert_null(g.x);
	fixture_end(&g);
}

/* Cancelled, or too late, after each number of turns. */
static void an_import_can_be_cancelled_at_any_step(void **state)
{
	struct weir_mmap *im;
	int turns, i, late = 0, cancelled = 0;
	struct rec rec;
	struct fixture g;

	fixture_begin(&g, state);
	for (turns = 0; turns < 60; turns++) {
		rec_init(&rec);
		if (turns % 2)
			weir_op_set_deadline(&rec.op,
					     weir_reactor_now(g.r) + WEIR_SEC);
		STARTS(weir_mmap_import_from(g.r, &rec.op, g.path, "memory",
					     NULL));
		for (i = 0; i < turns / 2 && !rec.calls; i++)
			weir_reactor_turn(g.r, 0);
		if (!rec.calls && turns % 2)
			weir_op_set_deadline(&rec.op, 1);
		else if (!rec.calls)
			weir_op_cancel(&rec.op);
		UNTIL(g.r, rec.calls);
		assert_int_equal(rec.calls, 1);
		im = weir_mmap_imported(&rec.op);
		assert_int_equal(im != NULL, rec.res == 0);
		if (rec.res)
			assert_int_equal(rec.res, turns % 2 ? -ETIMEDOUT :
							      -ECANCELED);
		late += !rec.res;
		cancelled += rec.res != 0;
		assert_int_equal(weir_mmap_destroy(im), 0);
	}
	assert_true(late && cancelled);
	fixture_end(&g);
}

static void import_from_a_missing_socket_says_so(void **state)
{
	char name[300];
	struct weir_mmap *im;
	struct fixture g;
	struct rec rec;
	int fd;

	fixture_set_up(&g, state);
	assert_int_equal(import_from(&g, "memory", &im), -ENOENT);
	fd = open(g.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	assert_int_equal(import_from(&g, "memory", &im), -ECONNREFUSED);
	unlink(g.path);
	rec_init(&rec);
	assert_int_equal(weir_mmap_import_from(g.r, &rec.op, "", "x", NULL),
			 -EINVAL);
	assert_int_equal(weir_mmap_import_from(g.r, &rec.op, NULL, "x", NULL),
			 -EINVAL);
	memset(name, 'x', sizeof(name));
	name[256] = '\0';
	assert_int_equal(weir_mmap_import_from(g.r, &rec.op, "x", name, NULL),
			 -EINVAL);
	assert_int_equal(weir_mmap_import_from(g.r, &rec.op, name, "x", NULL),
			 -EINVAL);
	assert_int_equal(weir_op_is_busy(&rec.op), 0);
	fixture_end(&g);
}

/* An exporter that is an enemy: what it sends, and with how many files. */
static const struct {
	const char *name;
	const char *bytes;
	size_t len;
	uint32_t n_fds;
	int want;
} answers[] = {
	{ "nothing", NULL, 0, 0, -ECONNRESET },
	{ "short", "weirsay1", 8, 0, -EPROTO },
	{ "another protocol", "220 ESMTP, who are you?", 23, 4, -EPROTO },
	{ "a newer version", "weirsay2\0\0\0\0\1\0\0\0x", 17, 0,
	  -EPROTONOSUPPORT },
	{ "granted, with nothing", "weirsay1\0\0\0\0\0\0\0\0", 16, 3, -EPROTO },
	{ "granted, with less", "weirsay1\0\0\0\0\2\0\0\0x", 17, 3, -EPROTO },
	{ "granted, with more", "weirsay1\0\0\0\0\1\0\0\0xx", 18, 3, -EPROTO },
	{ "granted, with rubbish", "weirsay1\0\0\0\0\1\0\0\0x", 17, 3,
	  -EBADMSG },
	{ "refused", "weirsay1\15\0\0\0\0\0\0\0", 16, 0, -EACCES },
	{ "refused, with files", "weirsay1\15\0\0\0\0\0\0\0", 16, 4, -EACCES },
	{ "refused, for no reason that can be", "weirsay1\175\0\0\0\0\0\0\0",
	  16, 0, -EPROTO },
	{ "a negative errno", "weirsay1\377\377\377\377\0\0\0\0", 16, 0,
	  -EPROTO },
};

static int listen_at(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(sun.sun_path, path);
	assert_int_equal(bind(fd, (void *)&sun, sizeof(sun)), 0);
	assert_int_equal(listen(fd, 4), 0);
	return fd;
}

static void serve(int listener, size_t i)
{
	struct parcel p = { .len = answers[i].len, .n_fds = answers[i].n_fds };
	int fd = accept(listener, NULL, NULL), ends[2], k;
	char buf[300];

	assert_true(fd >= 0);
	pipe_pair(ends);
	for (k = 0; k < WEIR_EXPORT_FDS; k++)
		p.fds[k] = ends[1];
	assert_true(recv(fd, buf, sizeof(buf), 0) > 16);
	if (p.len)
		memcpy(p.bytes, answers[i].bytes, p.len);
	if (p.len && p.n_fds)
		assert_int_equal(parcel_send(fd, &p), 0);
	else if (p.len)
		assert_int_equal(send(fd, p.bytes, p.len, 0), p.len);
	close(fd);
	close_pair(ends);
}

static bool is_readable(int fd)
{
	fd_set set;
	struct timeval now = { 0, 0 };

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, &set, NULL, NULL, &now) == 1;
}

static void answers_that_are_none_are_refused(void **state)
{
	int listener, before;
	struct rec rec;
	struct fixture g;
	size_t i;

	fixture_set_up(&g, state);
	listener = listen_at(g.path);
	some_turns(g.r, 3);
	before = count_fds();
	for (i = 0; i < N_OF(answers); i++) {
		rec_init(&rec);
		STARTS(weir_mmap_import_from(g.r, &rec.op, g.path, "memory",
					     NULL));
		UNTIL(g.r, is_readable(listener));
		some_turns(g.r, 10);
		serve(listener, i);
		if (finish(g.r, &rec) != answers[i].want)
			fail_msg("%s: %lld, %s", answers[i].name,
				 (long long)rec.res, weir_why());
		assert_null(weir_mmap_imported(&rec.op));
	}
	some_turns(g.r, 3);
	assert_int_equal(count_fds(), before);
	close(listener);
	unlink(g.path);
	fixture_end(&g);
}

/* A question that nobody has read resets the connection; the answer is there
 * all the same. */
static void an_answer_without_a_look_at_the_question_is_one(void **state)
{
	struct rec rec;
	struct fixture g;
	int listener, fd;

	fixture_set_up(&g, state);
	listener = listen_at(g.path);
	rec_init(&rec);
	STARTS(weir_mmap_import_from(g.r, &rec.op, g.path, "memory", NULL));
	UNTIL(g.r, is_readable(listener));
	some_turns(g.r, 10);
	fd = accept(listener, NULL, NULL);
	assert_int_equal(send(fd, "weirsay1\13\0\0\0\0\0\0\0", 16, 0), 16);
	close(fd);
	assert_int_equal(finish(g.r, &rec), -EAGAIN);
	close(listener);
	unlink(g.path);
	fixture_end(&g);
}

/* As somebody else: the mode keeps him out, or the exporter does. */
static void ask_as_nobody(int sock, void *arg)
{
	struct fixture *g = arg;
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = g->opts.reserved,
	};
	struct weir_mmap *im;
	int64_t want, res;

	EXPECT(!setgid(65530) && !setuid(65530));
	EXPECT(!weir_reactor_create(&g->r, &opts));
	while (recv(sock, &want, sizeof(want), 0) == sizeof(want)) {
		res = import_from(g, "memory", &im);
		if (res != want)
			fprintf(stderr, "nobody gets %lld, not %lld\n",
				(long long)res, (long long)want);
		EXPECT(res == want);
		EXPECT(!weir_mmap_destroy(im));
		EXPECT(!say(sock));
	}
}

static void ask_there(struct fixture *g, struct proc *p, int64_t want)
{
	char c;

	assert_int_equal(send(p->sock, &want, sizeof(want), 0), sizeof(want));
	UNTIL(g->r, is_readable(p->sock));
	assert_int_equal(recv(p->sock, &c, 1, 0), 1);
}

static void exporter_refuses_another_user(void **state)
{
	struct proc p;
	struct fixture g, there;

	if (geteuid())
		skip_because("only root can become somebody else");
	memset(&there, 0, sizeof(there));
	snprintf(there.path, sizeof(there.path), "%s",
		 test_path(state, "socket"));
	there.opts.reserved = backend_of(*state);
	assert_int_equal(chmod(test_dir(state), 0755), 0);
	proc_begin(&p, ask_as_nobody, &there);
	fixture_begin(&g, state);
	ask_there(&g, &p, -EACCES);	/* The mode. */
	assert_int_equal(g.asked, 0);
	weir_exporter_destroy(g.x);

	g.opts.mode = 0666;
	g.answer = -1;
	assert_int_equal(weir_exporter_create(&g.x, g.r, g.path, &g.opts), 0);
	assert_int_equal(weir_exporter_add(g.x, "memory", g.m, NULL), 0);
	ask_there(&g, &p, -EACCES);	/* The callback, which knows him. */
	assert_int_equal(g.asked, 1);
	assert_int_equal(g.peer.uid, 65530);
	assert_int_equal(g.peer.gid, 65530);
	assert_int_equal(g.peer.pid, p.pid);
	g.answer = 0;
	ask_there(&g, &p, 0);
	weir_exporter_destroy(g.x);

	g.opts.accept = NULL;
	assert_int_equal(weir_exporter_create(&g.x, g.r, g.path, &g.opts), 0);
	assert_int_equal(weir_exporter_add(g.x, "memory", g.m, NULL), 0);
	ask_there(&g, &p, -EACCES);	/* What holds if nothing is said. */
	import_here_and_end(&g, "memory");
	close(p.sock);
	p.sock = dup(0);
	assert_int_equal(proc_end(&p), 0);
	fixture_end(&g);
}

static void failed_exporter_call_leaves_nothing_behind(void **state)
{
	struct rec rec;
	struct fixture g;
	int n, err;

	fixture_set_up(&g, state);
	g.m = fixture_started(FIXTURE_LEN, RW);
	fill_pattern(fixture_addr(g.m), FIXTURE_LEN, 0, 1);
	for (n = 0; n < 100; n++) {
		fault_arm(n);
		err = weir_exporter_create(&g.x, g.r, g.path, &g.opts);
		if (!fault_disarm())
			break;
		assert_true(err < 0);
		assert_int_equal(access(g.path, F_OK), -1);
	}
	assert_true(n > 3 && n < 100 && !err);
	for (n = 0; n < 100; n++) {
		fault_arm(n);
		err = weir_exporter_add(g.x, "memory", g.m, NULL);
		if (!fault_disarm())
			break;
		assert_true(err < 0);
		assert_int_equal(weir_exporter_remove(g.x, "memory"), -ENOENT);
	}
	assert_true(n > 5 && n < 100 && !err);
	for (n = 0; n < 200; n++) {
		rec_init(&rec);
		fault_arm(n);
		err = weir_mmap_import_from(g.r, &rec.op, g.path, "memory",
					    NULL);
		if (!err)
			UNTIL(g.r, rec.calls);
		assert_int_equal(weir_mmap_destroy(weir_mmap_imported(&rec.op)),
				 0);
		if (!fault_disarm())
			break;
	}
	assert_true(n > 5 && n < 200 && !err && !rec.res);
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(named_export_can_be_imported),
		CASE(refused_importer_does_not_learn_what_names_exist),
		CASE(stopped_name_is_stale_until_added_again),
		CASE(names_have_limits),
		CASE(mmap_that_cannot_be_exported_cannot_be_added),
		CASE(the_socket_is_the_owners_unless_it_is_said),
		CASE(a_live_socket_is_left_alone_and_a_dead_one_replaced),
		CASE(exporter_leaves_a_file_that_is_no_socket_alone),
		CASE(a_socket_of_others_is_not_removed),
		CASE(requests_that_are_none_are_refused),
		CASE(descriptors_sent_with_a_request_are_closed),
		CASE(silent_importer_is_cut_off),
		CASE(exporter_turns_away_connections_beyond_its_limit),
		CASE(exporter_is_destroyed_with_requests_in_flight),
		CASE(an_import_can_be_cancelled_at_any_step),
		CASE(import_from_a_missing_socket_says_so),
		CASE(answers_that_are_none_are_refused),
		CASE(an_answer_without_a_look_at_the_question_is_one),
		CASE(exporter_refuses_another_user),
		CASE(failed_exporter_call_leaves_nothing_behind),
	};

	return harness_run(cases, N_OF(cases));
}
