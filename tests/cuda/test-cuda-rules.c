/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libweir-cuda expects of CUDA's driver, held against the driver that
 * WEIR_CUDA_LIBRARY names, or the mock, or, if it names libcuda.so.1, a real one.
 * The output says which of them it was.
 */

#include "tests/support/harness.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "cuda/driver.h"

#define LEN ((size_t)1 << 20)

static const struct cuda_driver *cu;
static bool is_mock;

struct fixture {
	CUcontext ctx;
	CUstream stream;
	CUevent event;
	CUdeviceptr gpu;
	char *pinned, *plain;
};

static void begin(struct fixture *g)
{
	assert_int_equal(cu->ctx_retain(&g->ctx, 0), 0);
	assert_int_equal(cu->ctx_push(g->ctx), 0);
	assert_int_equal(cu->stream_create(&g->stream, CU_STREAM_NON_BLOCKING),
			 0);
	assert_int_equal(cu->event_create(&g->event, CU_EVENT_DISABLE_TIMING),
			 0);
	assert_int_equal(cu->mem_alloc(&g->gpu, LEN), 0);
	assert_int_equal(cu->host_alloc((void **)&g->pinned, 2 * LEN, 0), 0);
	g->plain = mmap(NULL, 2 * LEN, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fill_pattern(g->pinned, LEN, 0, 1);
	fill_pattern(g->plain, LEN, 0, 2);
}

static void end(struct fixture *g)
{
	CUcontext ctx;

	assert_int_equal(cu->stream_sync(g->stream), 0);
	assert_int_equal(cu->stream_destroy(g->stream), 0);
	assert_int_equal(cu->event_destroy(g->event), 0);
	assert_int_equal(cu->mem_free(g->gpu), 0);
	assert_int_equal(cu->host_free(g->pinned), 0);
	munmap(g->plain, 2 * LEN);
	assert_int_equal(cu->ctx_pop(&ctx), 0);
	assert_ptr_equal(ctx, g->ctx);
	assert_int_equal(cu->ctx_release(0), 0);
}

static CUdeviceptr host(const void *p)
{
	return (uintptr_t)p;
}

static void copies_of_a_stream_are_in_order(void **state)
{
	struct fixture g;

	(void)state;
	begin(&g);
	assert_int_equal(cu->copy(g.gpu, host(g.pinned), LEN, g.stream), 0);
	assert_int_equal(cu->copy(g.gpu + 10, g.gpu + 5000, 1000, g.stream), 0);
	assert_int_equal(cu->copy(host(g.pinned + LEN), g.gpu, LEN, g.stream), 0);
	assert_int_equal(cu->stream_sync(g.stream), 0);
	assert_memory_equal(g.pinned + LEN + 10, g.pinned + 5000, 1000);
	assert_memory_equal(g.pinned + LEN + 1010, g.pinned + 1010, LEN - 1010);
	end(&g);
}

/* Once it has returned, the caller may write to memory that is not page-locked. */
static void source_that_is_not_locked_may_be_written_after_the_call(void **state)
{
	struct fixture g;

	(void)state;
	begin(&g);
	assert_int_equal(cu->copy(g.gpu, host(g.plain), LEN, g.stream), 0);
	memset(g.plain, 0, LEN);
	assert_int_equal(cu->copy(host(g.pinned + LEN), g.gpu, LEN, g.stream), 0);
	assert_int_equal(cu->stream_sync(g.stream), 0);
	assert_true(is_pattern(g.pinned + LEN, LEN, 0, 2));
	end(&g);
}

static void event_is_ready_after_what_was_before_it(void **state)
{
	struct fixture g;
	CUresult res;

	(void)state;
	begin(&g);
	assert_int_equal(cu->event_query(g.event), 0); /* Never recorded. */
	assert_int_equal(cu->copy(g.gpu, host(g.pinned), LEN, g.stream), 0);
	assert_int_equal(cu->copy(host(g.pinned + LEN), g.gpu, LEN, g.stream), 0);
	assert_int_equal(cu->event_record(g.event, g.stream), 0);
	while ((res = cu->event_query(g.event)) == CUDA_ERROR_NOT_READY)
		;
	assert_int_equal(res, 0);
	assert_true(is_pattern(g.pinned + LEN, LEN, 0, 1));
	end(&g);
}

struct heard {
	atomic_int n;
	int seen;
	CUresult inside;
	const char *bytes;
};

static void hear(void *arg)
{
	struct heard *h = arg;
	CUdeviceptr addr;

	h->seen = h->bytes[0];
	h->inside = cu->mem_alloc(&addr, 4096);
	atomic_fetch_add(&h->n, 1);
}

/* In order of its stream, and the driver is closed to it. */
static void function_of_the_host_may_not_call_the_driver(void **state)
{
	struct heard h = { .n = 0 };
	struct fixture g;

	(void)state;
	begin(&g);
	h.bytes = g.pinned + LEN;
	assert_int_equal(cu->fill_8(g.gpu, 'a', LEN, g.stream), 0);
	assert_int_equal(cu->copy(host(g.pinned + LEN), g.gpu, LEN, g.stream), 0);
	assert_int_equal(cu->host_func(g.stream, hear, &h), 0);
	assert_int_equal(cu->stream_sync(g.stream), 0);
	assert_int_equal(h.n, 1);
	assert_int_equal(h.seen, 'a');
	assert_int_equal(h.inside, CUDA_ERROR_NOT_PERMITTED);
	end(&g);
}

/* Of a stream that waits for an event of another one. */
static void function_is_called_after_the_event_it_waits_for(void **state)
{
	struct heard h = { .n = 0 };
	CUstream other;
	struct fixture g;

	(void)state;
	begin(&g);
	h.bytes = g.pinned + LEN;
	assert_int_equal(cu->stream_create(&other, CU_STREAM_NON_BLOCKING), 0);
	assert_int_equal(cu->fill_8(g.gpu, 'b', LEN, g.stream), 0);
	assert_int_equal(cu->copy(host(g.pinned + LEN), g.gpu, LEN, g.stream), 0);
	assert_int_equal(cu->event_record(g.event, g.stream), 0);
	assert_int_equal(cu->stream_wait(other, g.event, 0), 0);
	assert_int_equal(cu->host_func(other, hear, &h), 0);
	while (!h.n)
		sched_yield();
	assert_int_equal(h.seen, 'b');
	assert_int_equal(cu->stream_sync(other), 0);
	assert_int_equal(cu->stream_destroy(other), 0);
	end(&g);
}

static CUresult ask(CUdeviceptr addr, unsigned int *type, CUdeviceptr *start,
		    size_t *len, int *ordinal)
{
	int what[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
	};
	void *data[] = { type, start, len, ordinal };

	*type = 99;
	*start = 99;
	*len = 99;
	*ordinal = 99;
	return cu->pointer_attributes(4, what, data, addr);
}

static void pointers_are_told_apart(void **state)
{
	CUdeviceptr start, gone;
	unsigned int type;
	struct fixture g;
	int ordinal;
	size_t len;

	(void)state;
	begin(&g);
	assert_int_equal(ask(g.gpu + 1000, &type, &start, &len, &ordinal), 0);
	assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
	assert_int_equal(start, g.gpu);
	assert_true(len >= LEN);
	assert_int_equal(ordinal, 0);
	assert_int_equal(ask(host(g.pinned) + 9, &type, &start, &len, &ordinal),
			 0);
	assert_int_equal(type, CU_MEMORYTYPE_HOST);
	assert_int_equal(start, host(g.pinned));
	assert_true(len >= 2 * LEN);
	assert_int_equal(ask(host(g.plain), &type, &start, &len, &ordinal), 0);
	assert_int_equal(type, 0);

	assert_int_equal(cu->mem_alloc(&gone, LEN), 0);
	assert_int_equal(cu->mem_free(gone), 0);
	assert_int_equal(ask(gone, &type, &start, &len, &ordinal), 0);
	assert_int_equal(type, 0);
	assert_int_equal(cu->mem_free(gone), CUDA_ERROR_INVALID_VALUE);
	end(&g);
}

static void memory_is_registered_once(void **state)
{
	CUdeviceptr start;
	unsigned int type;
	struct fixture g;
	int ordinal;
	size_t len;
	char *ro;

	(void)state;
	begin(&g);
	assert_int_equal(cu->host_unregister(g.plain),
			 CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	assert_int_equal(cu->host_register(g.plain, LEN,
					   CU_MEMHOSTREGISTER_PORTABLE), 0);
	assert_int_equal(cu->host_register(g.plain, LEN,
					   CU_MEMHOSTREGISTER_PORTABLE),
			 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	assert_int_equal(ask(host(g.plain) + 1, &type, &start, &len, &ordinal),
			 0);
	assert_int_equal(type, CU_MEMORYTYPE_HOST);
	assert_int_equal(start, host(g.plain));
	assert_int_equal(len, LEN);
	assert_int_equal(cu->host_unregister(g.plain), 0);
	assert_int_equal(ask(host(g.plain), &type, &start, &len, &ordinal), 0);
	assert_int_equal(type, 0);

	/* Not whole pages. */
	assert_int_equal(cu->host_register(g.plain + 100, 5000,
					   CU_MEMHOSTREGISTER_PORTABLE), 0);
	assert_int_equal(cu->host_unregister(g.plain + 100), 0);

	ro = mmap(NULL, LEN, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!is_mock) {
		CUresult plain = cu->host_register(
			ro, LEN, CU_MEMHOSTREGISTER_PORTABLE);

		print_message("# read-only, without the flag: %d\n", plain);
		if (!plain)
			cu->host_unregister(ro);
		plain = cu->host_register(ro, LEN, CU_MEMHOSTREGISTER_PORTABLE |
					  CU_MEMHOSTREGISTER_READ_ONLY);
		print_message("# read-only, with the flag: %d\n", plain);
		if (!plain)
			cu->host_unregister(ro);
	}
	munmap(ro, LEN);
	end(&g);
}

/* Not so an address of the GPU that is in no allocation: it is taken for one of this
 * process, where the driver then reads or writes. */
static void copy_of_nothing_is_one(void **state)
{
	struct fixture g;

	(void)state;
	begin(&g);
	assert_int_equal(cu->copy(g.gpu, host(g.pinned), 0, g.stream), 0);
	assert_int_equal(cu->stream_sync(g.stream), 0);
	end(&g);
}

/* In a process of its own: what a copy to memory that was freed does. */
static int copy_to_nowhere(void)
{
	CUdeviceptr gone;
	struct fixture g;

	begin(&g);
	if (cu->mem_alloc(&gone, LEN) || cu->mem_free(gone))
		return 8;
	return cu->copy(gone, host(g.pinned), 100, g.stream) ? 9 : 10;
}

static int run_self(const char *what)
{
	char command[PATH_MAX + 32], line[512], self[PATH_MAX] = "";
	FILE *out;

	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	snprintf(command, sizeof(command), "exec '%s' %s 2>&1", self, what);
	out = popen(command, "r");
	assert_non_null(out);
	while (fgets(line, sizeof(line), out))
		print_message("%s", line);
	return pclose(out);
}

static void copy_to_freed_memory_touches_this_process(void **state)
{
	int status = run_self("nowhere");

	(void)state;
	/* 1, 66: ASan or TSan has caught it. */
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 1 ||
		    WEXITSTATUS(status) == 66);
}

/* In a process of its own, with a handle on its input: what it has of another one's
 * memory, before and after the byte that says that this was freed. */
static int use_memory_of_another(void)
{
	CUipcMemHandle handle;
	CUdeviceptr at = 0, same = 0, start;
	unsigned int type;
	struct fixture g;
	int ordinal;
	size_t len;

	begin(&g);
	if (read(0, &handle, sizeof(handle)) != (ssize_t)sizeof(handle) ||
	    cu->ipc_open(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER) ||
	    cu->ipc_open(&same, handle, CU_IPC_MEM_LAZY_ENABLE_PEER) ||
	    at != same || cu->ipc_close(same))
		return 2;
	if (ask(at + 5000, &type, &start, &len, &ordinal) || start != at ||
	    len != 2 * LEN || type != CU_MEMORYTYPE_DEVICE)
		return 3;
	for (int i = 0; i < 2; i++) {
		g.pinned[0] = 0;
		if (cu->copy(host(g.pinned), at + LEN, 1, g.stream) ||
		    cu->stream_sync(g.stream) || g.pinned[0] != 'x')
			return 4 + i;
		if (!i && (write(1, "r", 1) != 1 || read(0, g.pinned, 1) != 1))
			return 6;
	}
	if (cu->ipc_close(at) || ask(at, &type, &start, &len, &ordinal) || type)
		return 7;
	return 0;
}

static void start_self(const char *what, pid_t *pid, int *to, int *from)
{
	char self[PATH_MAX] = "";
	int in[2], out[2];

	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	*pid = fork();
	if (!*pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(self, self, what, (char *)NULL);
		_exit(1);
	}
	close(in[0]);
	close(out[1]);
	*to = in[1];
	*from = out[0];
}

static void memory_that_another_process_has_stays_there_when_it_is_freed(
	void **state)
{
	CUipcMemHandle handle, inside;
	CUdeviceptr shared, next, none;
	struct fixture g;
	int status, to, from;
	pid_t pid;
	char c;

	(void)state;
	begin(&g);
	assert_int_equal(cu->mem_alloc(&shared, 2 * LEN), 0);
	assert_int_equal(cu->fill_8(shared, 'x', 2 * LEN, g.stream), 0);
	assert_int_equal(cu->stream_sync(g.stream), 0);
	assert_int_equal(cu->ipc_get(&handle, shared), 0);
	assert_int_equal(cu->ipc_get(&inside, shared + LEN), 0);
	assert_memory_equal(&handle, &inside, sizeof(handle));
	assert_int_equal(cu->ipc_open(&none, handle, CU_IPC_MEM_LAZY_ENABLE_PEER),
			 CUDA_ERROR_INVALID_CONTEXT);
	start_self("take", &pid, &to, &from);
	assert_int_equal(write(to, &handle, sizeof(handle)), sizeof(handle));
	assert_int_equal(read(from, &c, 1), 1);
	assert_int_equal(cu->mem_free(shared), 0);
	assert_int_equal(cu->mem_alloc(&next, 2 * LEN), 0);
	assert_int_equal(cu->fill_8(next, 'y', 2 * LEN, g.stream), 0);
	assert_int_equal(cu->stream_sync(g.stream), 0);
	assert_int_equal(write(to, "f", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(to);
	close(from);
	assert_int_equal(cu->mem_free(next), 0);
	end(&g);
}

static void fills_have_pitch_and_alignment(void **state)
{
	struct fixture g;

	(void)state;
	begin(&g);
	assert_int_equal(cu->fill_8(g.gpu, 0, LEN, g.stream), 0);
	assert_int_equal(cu->fill_2d_32(g.gpu, 8, 0x04030201, 1, 10, g.stream),
			 0);
	assert_int_equal(cu->fill_2d_32(g.gpu + 4, 8, 0x08070605, 1, 10,
					g.stream), 0);
	assert_int_equal(cu->fill_2d_8(g.gpu + 1001, 8, 9, 1, 3, g.stream), 0);
	assert_int_equal(cu->fill_2d_32(g.gpu + 2, 8, 1, 1, 10, g.stream),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cu->copy(host(g.pinned), g.gpu, LEN, g.stream), 0);
	assert_int_equal(cu->stream_sync(g.stream), 0);
	for (int i = 0; i < 80; i++)
		assert_int_equal(g.pinned[i], i % 8 + 1);
	assert_int_equal(g.pinned[80], 0);
	for (int i = 0; i < 30; i++)
		assert_int_equal(g.pinned[1000 + i],
				 i == 1 || i == 9 || i == 17 ? 9 : 0);
	end(&g);
}

/* It is the driver that waits, and the bytes are right. */
static void free_waits_for_copies(void **state)
{
	CUdeviceptr other;
	struct fixture g;

	(void)state;
	begin(&g);
	assert_int_equal(cu->mem_alloc(&other, LEN), 0);
	for (int i = 0; i < 50; i++)
		assert_int_equal(cu->copy(other, host(g.pinned), LEN, g.stream),
				 0);
	assert_int_equal(cu->copy(host(g.pinned + LEN), other, LEN, g.stream),
			 0);
	if (is_mock)
		assert_int_equal(cu->stream_sync(g.stream), 0);
	assert_int_equal(cu->mem_free(other), 0);
	assert_int_equal(cu->stream_sync(g.stream), 0);
	assert_true(is_pattern(g.pinned + LEN, LEN, 0, 1));
	end(&g);
}

static void call_without_a_context_is_refused(void **state)
{
	CUdeviceptr addr;

	(void)state;
	assert_int_equal(cu->mem_alloc(&addr, 100), CUDA_ERROR_INVALID_CONTEXT);
}

static void child_of_fork_is_not_initialized(void **state)
{
	int status;
	pid_t pid;
	struct fixture g;

	(void)state;
	begin(&g);
	pid = fork();
	if (!pid) {
		CUdeviceptr addr;

		_exit(cu->mem_alloc(&addr, 100) & 0xff);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	print_message("# in a child of fork: %d\n", WEXITSTATUS(status));
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
	end(&g);
}

static void allocation_of_too_much_is_refused(void **state)
{
	CUdeviceptr addr;
	struct fixture g;

	(void)state;
	begin(&g);
	assert_int_equal(cu->mem_alloc(&addr, (size_t)1 << 50),
			 CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cu->mem_alloc(&addr, 0), CUDA_ERROR_INVALID_VALUE);
	end(&g);
}

/*
 * A kernel that writes to a bad address, where there is a real device: its error
 * comes later, by any call, and stays.  In a process of its own.
 */
static int break_context(void)
{
	static const char ptx[] =
		".version 6.0\n.target sm_50\n.address_size 64\n"
		".visible .entry bad()\n{\n\t.reg .b64 %rd<2>;\n"
		"\tmov.u64 %rd1, 16;\n\tst.global.u32 [%rd1], 7;\n\tret;\n}\n";
	void *lib = dlopen(getenv("WEIR_CUDA_LIBRARY"), RTLD_NOW), *module, *fn;
	CUresult (*load)(void **module, const void *image) =
		(CUresult (*)(void **, const void *))dlsym(lib,
							   "cuModuleLoadData");
	CUresult (*get)(void **fn, void *module, const char *name) =
		(CUresult (*)(void **, void *, const char *))dlsym(
			lib, "cuModuleGetFunction");
	CUresult (*launch)(void *fn, unsigned int, unsigned int, unsigned int,
			   unsigned int, unsigned int, unsigned int,
			   unsigned int, CUstream, void **, void **) =
		(CUresult (*)(void *, unsigned int, unsigned int, unsigned int,
			      unsigned int, unsigned int, unsigned int,
			      unsigned int, CUstream, void **,
			      void **))dlsym(lib, "cuLaunchKernel");
	struct heard h = { .bytes = "x" };
	CUresult res, later;
	struct fixture g;

	begin(&g);
	res = load(&module, ptx);
	if (!res)
		res = get(&fn, module, "bad");
	if (!res)
		res = launch(fn, 1, 1, 1, 1, 1, 1, 0, g.stream, NULL, NULL);
	print_message("# the launch: %d\n", res);
	cu->event_record(g.event, g.stream);
	cu->host_func(g.stream, hear, &h);
	while ((res = cu->event_query(g.event)) == CUDA_ERROR_NOT_READY)
		;
	later = cu->copy(g.gpu, host(g.pinned), 100, g.stream);
	print_message("# the event: %d, a copy: %d, an allocation: %d, unregister:"
		      " %d, free: %d, push: %d, host function called: %d\n",
		      res, later, cu->mem_alloc(&g.gpu, 100),
		      cu->host_unregister(g.plain), cu->host_free(g.pinned),
		      cu->ctx_push(g.ctx), (int)h.n);
	cu->ctx_release(0);
	print_message("# after the release: retain %d, ",
		      cu->ctx_retain(&g.ctx, 0));
	print_message("push %d, alloc %d\n", cu->ctx_push(g.ctx),
		      cu->mem_alloc(&g.gpu, 100));
	return res == CUDA_ERROR_ILLEGAL_ADDRESS && later == res ? 0 : 1;
}

static void error_of_the_gpu_stays(void **state)
{
	(void)state;
	if (is_mock)
		skip_because("the mock fails where a test wants it");
	assert_int_equal(run_self("break"), 0);
}

static const struct harness_case cases[] = {
	CASE(copies_of_a_stream_are_in_order),
	CASE(source_that_is_not_locked_may_be_written_after_the_call),
	CASE(event_is_ready_after_what_was_before_it),
	CASE(function_of_the_host_may_not_call_the_driver),
	CASE(function_is_called_after_the_event_it_waits_for),
	CASE(pointers_are_told_apart),
	CASE(memory_is_registered_once),
	CASE(copy_of_nothing_is_one),
	CASE(copy_to_freed_memory_touches_this_process),
	CASE(memory_that_another_process_has_stays_there_when_it_is_freed),
	CASE(fills_have_pitch_and_alignment),
	CASE(free_waits_for_copies),
	CASE(call_without_a_context_is_refused),
	CASE(child_of_fork_is_not_initialized),
	CASE(allocation_of_too_much_is_refused),
	CASE(error_of_the_gpu_stays),
};

int main(int argc, char **argv)
{
	const char *given = getenv("WEIR_CUDA_LIBRARY"), *why = "";
	char path[PATH_MAX], name[64] = "";
	int version = 0;
	struct fixture warm;

	if (!given && realpath("tests/.libs/mock-cuda.so", path))
		setenv("WEIR_CUDA_LIBRARY", path, 1);
	cu = cuda_driver(&why);
	if (!cu) {
		printf("1..0 # SKIP %s\n", why);
		return 0;
	}
	is_mock = dlsym(dlopen(getenv("WEIR_CUDA_LIBRARY"), RTLD_NOW),
			"mock_cuda_hold");
	if (argc > 1 && !strcmp(argv[1], "take"))
		return use_memory_of_another();
	if (argc > 1)
		return strcmp(argv[1], "break") ? copy_to_nowhere() :
						  break_context();
	/* A real driver opens files at its first use, and keeps them. */
	begin(&warm);
	end(&warm);
	cu->driver_version(&version);
	cu->device_name(name, sizeof(name), 0);
	printf("# over %s, driver API %d\n", is_mock ? "the mock" : name, version);
	return harness_run_plain(cases, N_OF(cases));
}
