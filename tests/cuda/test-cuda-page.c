/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page that exporter and importers of a GPU's memory share: descriptors that name
 * something else, and places of processes that end in the middle of a job.
 *
 * It has libweir-cuda's files, so that it can write a descriptor that would be refused
 * for its MAC.
 */

#include "tests/support/cuda-fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/share.h"

#define LEN ((size_t)2 << 20)
#define PAGE sizeof(struct cuda_page)

struct shared {
	struct weir_device *dev;
	struct cuda_device *device;
	uint64_t addr;
	void *share;
	struct weir_provider_desc desc;
	struct cuda_said *said;		/* In .desc. */
	struct cuda_page *page;
};

static struct cuda_page *map_of(int fd)
{
	void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void shared_begin(struct shared *s)
{
	memset(s, 0, sizeof(*s));
	assert_int_equal(weir_device_open_name(&s->dev, "cuda0"), 0);
	s->device = cuda_space_of(weir_cuda_domain(s->dev))->device;
	assert_int_equal(weir_cuda_alloc(s->dev, &s->addr, LEN), 0);
	assert_int_equal(cuda_share(s->device, s->addr, LEN, &s->share), 0);
	s->desc = (struct weir_provider_desc){ .size = sizeof(s->desc),
					       .addr = s->addr, .len = LEN };
	s->said = (struct cuda_said *)(void *)s->desc.bytes;
	cuda_share_describe(s->share, &s->desc);
	s->page = map_of(s->said->fd);
}

static void shared_end(struct shared *s)
{
	munmap(s->page, PAGE);
	assert_int_equal(cuda_share_end(s->share), 0);
	assert_int_equal(weir_cuda_free(s->dev, s->addr), 0);
	assert_int_equal(weir_device_close(s->dev), 0);
}

static int import(struct shared *s, struct weir_provider_import *ret)
{
	struct weir_provider_import none = { .domain = NULL };

	return cuda_import(s->device, &s->desc, ret ? ret : &none);
}

static void descriptor_of_something_else_is_refused(void **state)
{
	struct shared s;

#define REFUSED(err, change) \
	do { \
		struct weir_provider_desc before = s.desc; \
\
		change; \
		assert_int_equal(import(&s, NULL), err); \
		assert_starts_with(weir_why(), "weir_mmap_import_device: "); \
		s.desc = before; \
	} while (0)
	(void)state;
	shared_begin(&s);
	REFUSED(-EBADMSG, s.desc.n_bytes--);
	REFUSED(-EBADMSG, s.desc.n_bytes++);
	REFUSED(-EPROTONOSUPPORT, s.said->version++);
	REFUSED(-EPROTONOSUPPORT, s.said->reserved = 1);
	REFUSED(-EXDEV, s.said->gpu[0]++);
	REFUSED(-ESRCH, s.said->nonce[1] ^= 1);
	REFUSED(-ESRCH, s.said->pid = INT32_MAX);
	REFUSED(-ESRCH, s.said->pid = 0);
	REFUSED(-ESRCH, s.said->fd = INT32_MAX);
	REFUSED(-ESRCH, s.said->fd = -1);
	shared_end(&s);
}

/* Another file of the exporter's number, with the right first bytes. */
static int page_with(unsigned int seals, off_t len, const struct shared *s)
{
	int fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, s->page->nonce, sizeof(s->page->nonce), 0),
			 sizeof(s->page->nonce));
	assert_int_equal(ftruncate(fd, len), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void file_that_is_no_page_is_not_used(void **state)
{
	struct shared s;
	int fd[9], n = 0;

	shared_begin(&s);
	fd[n++] = page_with(0, PAGE, &s);
	fd[n++] = page_with(CUDA_PAGE_SEALS & ~F_SEAL_SHRINK, PAGE, &s);
	fd[n++] = page_with(CUDA_PAGE_SEALS | F_SEAL_WRITE, PAGE, &s);
	fd[n++] = page_with(CUDA_PAGE_SEALS, PAGE / 2, &s);
	fd[n++] = page_with(CUDA_PAGE_SEALS, 2 * PAGE, &s);
	fd[n++] = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	fd[n++] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(mkfifo(test_path(state, "fifo"), 0600), 0);
	fd[n++] = open(test_path(state, "fifo"), O_RDWR | O_CLOEXEC);
	fd[n++] = open("/", O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < n; i++) {
		assert_true(fd[i] >= 0);
		s.said->fd = fd[i];
		assert_int_equal(import(&s, NULL), -ESRCH);
		close(fd[i]);
	}
	shared_end(&s);
}

static void page_that_cannot_be_opened_has_its_errno(void **state)
{
	struct rlimit old, few;
	struct shared s;
	int fd;

	(void)state;
	shared_begin(&s);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	fd = dup(0);
	few.rlim_cur = (rlim_t)fd;
	close(fd);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(import(&s, NULL), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	shared_end(&s);
}

/* Count a job in place 0, whose lock is free. */
static void leave_jobs(struct shared *s, pid_t pid, int64_t began)
{
	atomic_store(&s->page->places[0].jobs, 1);
	atomic_store(&s->page->places[0].pid, pid);
	atomic_store(&s->page->places[0].began, began);
}

struct process {
	char state;
	long long start;
};

static struct process look_at(pid_t pid)
{
	struct process p = { .state = 0 };
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*s %*s %c", &p.state), 1);
	for (int field = 4; field < 22; field++)
		assert_int_equal(fscanf(f, "%*s"), 0);
	assert_int_equal(fscanf(f, "%lld", &p.start), 1);
	fclose(f);
	return p;
}

static int64_t began(pid_t pid)
{
	return look_at(pid).start - look_at(getpid()).start;
}

static void *stay(void *arg)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
	return arg;
}

/* @leader: its first thread stays, too. */
static pid_t child_that_stays(bool leader)
{
	pthread_t thread;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	if (leader)
		stay(NULL);
	if (pthread_create(&thread, NULL, stay, NULL))
		_exit(1);
	pthread_exit(NULL);
}

/* Wait for the end of the share of @s, which is asked again. */
static void end_share(struct shared *s)
{
	int err;

	do
		err = cuda_share_end(s->share);
	while (err == -EINPROGRESS);
	assert_int_equal(err, 0);
	assert_int_equal(cuda_share(s->device, s->addr, LEN, &s->share), 0);
}

/* The share of @s ends when @pid, which has jobs, has ended, and not before. */
static void kill_busy(struct shared *s, pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	leave_jobs(s, pid, began(pid));
	assert_int_equal(cuda_share_end(s->share), -EINPROGRESS);
	assert_starts_with(weir_why(), "process ");
	kill(pid, SIGKILL);
	end_share(s);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG), 0);
	assert_int_equal(info.si_pid, pid);
}

static void process_that_is_being_killed_is_waited_for(void **state)
{
	struct shared s;
	pid_t pid;

	(void)state;
	shared_begin(&s);
	pid = child_that_stays(true);
	kill_busy(&s, pid);

	/* After which it is not there at all. */
	munmap(s.page, PAGE);
	cuda_share_describe(s.share, &s.desc);
	s.page = map_of(s.said->fd);
	leave_jobs(&s, pid, 0);
	shared_end(&s);
}

/* Its first thread is a zombie, and the process has its files. */
static void process_whose_first_thread_has_ended_is_waited_for(void **state)
{
	struct shared s;
	pid_t pid;

	(void)state;
	shared_begin(&s);
	pid = child_that_stays(false);
	while (look_at(pid).state != 'Z')
		;
	kill_busy(&s, pid);
	shared_end(&s);
}

static void another_process_of_the_same_number_is_not_waited_for(void **state)
{
	struct shared s;
	pid_t pid;

	(void)state;
	shared_begin(&s);
	pid = child_that_stays(true);
	leave_jobs(&s, pid, began(pid) - 100);
	shared_end(&s);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A new importer would count for the old one. */
static void place_of_a_process_with_jobs_is_not_taken(void **state)
{
	struct weir_provider_import im;
	struct shared s;
	pid_t pid;

	(void)state;
	shared_begin(&s);
	pid = child_that_stays(true);
	leave_jobs(&s, pid, began(pid));
	assert_int_equal(import(&s, &im), 0);
	assert_int_equal(atomic_load(&s.page->places[0].jobs), 1);
	assert_int_equal(atomic_load(&s.page->places[1].pid), getpid());
	cuda_import_end(im.data);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(import(&s, &im), 0);
	assert_int_equal(atomic_load(&s.page->places[0].jobs), 0);
	assert_int_equal(atomic_load(&s.page->places[0].pid), getpid());
	assert_int_equal(atomic_load(&s.page->places[0].began), 0);
	cuda_import_end(im.data);
	shared_end(&s);
}

/* Another process, which imports what it reads. */

struct answer {
	int err;
	unsigned int calls;	/* To open and to close mappings. */
};

static int be_the_importer(void)
{
	struct weir_provider_import im = { .domain = NULL };
	struct weir_provider_desc desc;
	struct weir_device *dev;
	struct answer answer;
	unsigned int before;

	if (read(0, &desc, sizeof(desc)) != sizeof(desc) ||
	    weir_device_open_name(&dev, "cuda0"))
		return 1;
	before = count ? count(MOCK_CUDA_IPC) : 0;
	answer.err = cuda_import(cuda_space_of(weir_cuda_domain(dev))->device,
				 &desc, &im);
	if (!answer.err)
		cuda_import_end(im.data);
	answer.calls = count ? count(MOCK_CUDA_IPC) - before : 2;
	return write(1, &answer, sizeof(answer)) != sizeof(answer) ||
	       weir_device_close(dev);
}

static struct answer import_elsewhere(const struct weir_provider_desc *desc)
{
	char self[PATH_MAX] = "";
	struct answer answer;
	int fds[2], status;
	pid_t pid;

	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds),
			 0);
	pid = fork();
	if (!pid) {
		dup2(fds[1], 0);
		dup2(fds[1], 1);
		execl(self, self, "import", (char *)NULL);
		_exit(1);
	}
	close(fds[1]);
	assert_int_equal(send(fds[0], desc, sizeof(*desc), MSG_NOSIGNAL),
			 sizeof(*desc));
	assert_int_equal(recv(fds[0], &answer, sizeof(answer), MSG_WAITALL),
			 sizeof(answer));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fds[0]);
	return answer;
}

static void memory_is_as_long_as_its_descriptor_says(void **state)
{
	struct answer answer;
	struct shared s;

	(void)state;
	shared_begin(&s);
	answer = import_elsewhere(&s.desc);
	assert_int_equal(answer.err, 0);
	assert_int_equal(answer.calls, 2);
	s.desc.len += LEN;
	answer = import_elsewhere(&s.desc);
	assert_int_equal(answer.err, -EBADMSG);
	assert_int_equal(answer.calls, 2);
	shared_end(&s);
}

static const struct harness_case cases[] = {
	CASE(descriptor_of_something_else_is_refused),
	CASE(file_that_is_no_page_is_not_used),
	CASE(page_that_cannot_be_opened_has_its_errno),
	CASE(process_that_is_being_killed_is_waited_for),
	CASE(process_whose_first_thread_has_ended_is_waited_for),
	CASE(another_process_of_the_same_number_is_not_waited_for),
	CASE(place_of_a_process_with_jobs_is_not_taken),
	CASE(memory_is_as_long_as_its_descriptor_says),
};

int main(int argc, char **argv)
{
	if (!cuda_begin())
		return 0;
	if (argc > 1 && !strcmp(argv[1], "import"))
		return be_the_importer();
	cuda_say();
	return harness_run_plain(cases, N_OF(cases));
}
