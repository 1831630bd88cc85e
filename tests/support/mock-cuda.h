/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_MOCK_CUDA_H
#define TESTS_MOCK_CUDA_H

/* How tests steer mock-cuda.c; its functions are found by dlsym(). */

/* Calls that are counted. */
enum {
	MOCK_CUDA_ALLOC,
	MOCK_CUDA_FREE,
	MOCK_CUDA_HOST_ALLOC,
	MOCK_CUDA_REGISTER,
	MOCK_CUDA_UNREGISTER,
	MOCK_CUDA_ATTRIBUTES,
	MOCK_CUDA_COPY,
	MOCK_CUDA_FILL,
	MOCK_CUDA_STREAM,
	MOCK_CUDA_WAIT,
	MOCK_CUDA_SYNC,
	MOCK_CUDA_EVENT,
	MOCK_CUDA_RECORD,
	MOCK_CUDA_QUERY,
	MOCK_CUDA_HOST_FUNC,
	MOCK_CUDA_IPC,
	MOCK_CUDA_CREATE,
	MOCK_CUDA_RELEASE,
	MOCK_CUDA_RESERVE,
	MOCK_CUDA_MAP,
	MOCK_CUDA_CALLS,
};

/* With 1, streams do nothing until it is called with 0. */
void mock_cuda_hold(int hold);

/* From now on every call fails with @err, as after an error of the GPU; with 0 they
 * work again, for the next test. */
void mock_cuda_break(int err);

/* One @call fails with @err, after as many others that do not. */
void mock_cuda_refuse(int call, unsigned int after, int err);

/* How often a call was made. */
unsigned int mock_cuda_count(int call);

#endif /* TESTS_MOCK_CUDA_H */
