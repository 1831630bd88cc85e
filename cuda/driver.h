/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

/*
 * What libweir-cuda uses of the CUDA driver API, declared here: neither building nor
 * installing it needs anything of NVIDIA's.  The driver's library is opened when it
 * is first needed.  Names and values are the driver's; a comment has the version of
 * CUDA that introduced a function, if that is later than 8.0.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int CUdevice;
typedef int CUresult;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef void (*CUhostFn)(void *arg);

typedef struct {
	char bytes[64];
} CUipcMemHandle;

#define CUDA_UUID 16	/* Bytes of one. */

typedef unsigned long long CUmemHandle;	/* CUmemGenericAllocationHandle */

typedef struct {
	int type;	/* CU_MEM_LOCATION_TYPE_DEVICE */
	int id;
} CUmemLocation;

typedef struct {
	int type;	/* CU_MEM_ALLOCATION_TYPE_PINNED */
	int handle_types;
	CUmemLocation location;
	void *meta;
	struct {
		unsigned char compression;
		unsigned char rdma;
		unsigned short usage;
		unsigned char reserved[4];
	} flags;
} CUmemAllocationProp;

typedef struct {
	CUmemLocation location;
	int flags;
} CUmemAccessDesc;

/* CUresult */
#define CUDA_SUCCESS 0
#define CUDA_ERROR_INVALID_VALUE 1
#define CUDA_ERROR_OUT_OF_MEMORY 2
#define CUDA_ERROR_NOT_INITIALIZED 3
#define CUDA_ERROR_DEINITIALIZED 4
#define CUDA_ERROR_NO_DEVICE 100
#define CUDA_ERROR_INVALID_DEVICE 101
#define CUDA_ERROR_INVALID_CONTEXT 201
#define CUDA_ERROR_INVALID_HANDLE 400
#define CUDA_ERROR_NOT_READY 600
#define CUDA_ERROR_ILLEGAL_ADDRESS 700
#define CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED 712
#define CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED 713
#define CUDA_ERROR_NOT_PERMITTED 800
#define CUDA_ERROR_NOT_SUPPORTED 801

/* CUdevice_attribute */
#define CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING 41
#define CU_DEVICE_ATTRIBUTE_RDMA_WITH_VMM_SUPPORTED 110
#define CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED 124

/* CUpointer_attribute, and the values of the second */
#define CU_POINTER_ATTRIBUTE_MEMORY_TYPE 2
#define CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL 9
#define CU_POINTER_ATTRIBUTE_RANGE_START_ADDR 11
#define CU_POINTER_ATTRIBUTE_RANGE_SIZE 12
#define CU_MEMORYTYPE_HOST 1
#define CU_MEMORYTYPE_DEVICE 2

/* Flags of the functions whose names begin like them. */
#define CU_STREAM_NON_BLOCKING 1
#define CU_EVENT_DISABLE_TIMING 2
#define CU_MEMHOSTALLOC_PORTABLE 1
#define CU_MEMHOSTREGISTER_PORTABLE 1
#define CU_MEMHOSTREGISTER_READ_ONLY 8
#define CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD 1
#define CU_IPC_MEM_LAZY_ENABLE_PEER 1
#define CU_MEM_LOCATION_TYPE_DEVICE 1
#define CU_MEM_ALLOCATION_TYPE_PINNED 1
#define CU_MEM_ALLOC_GRANULARITY_RECOMMENDED 1
#define CU_MEM_ACCESS_FLAGS_PROT_READWRITE 3

/* X(name here, symbol of the library, parameters) */
#define CUDA_FUNCTIONS(X) \
	X(init, cuInit, (unsigned int flags)) \
	X(driver_version, cuDriverGetVersion, (int *version)) \
	X(device_count, cuDeviceGetCount, (int *n)) \
	X(device_name, cuDeviceGetName, (char *name, int len, CUdevice dev)) \
	X(device_attribute, cuDeviceGetAttribute, \
	  (int *ret, int attribute, CUdevice dev)) \
	X(device_memory, cuDeviceTotalMem_v2, (size_t *bytes, CUdevice dev)) \
	X(ctx_retain, cuDevicePrimaryCtxRetain, \
	  (CUcontext *ctx, CUdevice dev)) \
	X(ctx_release, cuDevicePrimaryCtxRelease_v2, (CUdevice dev)) \
	X(ctx_push, cuCtxPushCurrent_v2, (CUcontext ctx)) \
	X(ctx_pop, cuCtxPopCurrent_v2, (CUcontext *ctx)) \
	X(error_name, cuGetErrorName, (CUresult err, const char **name)) \
	X(mem_alloc, cuMemAlloc_v2, (CUdeviceptr *addr, size_t len)) \
	X(mem_free, cuMemFree_v2, (CUdeviceptr addr)) \
	X(host_alloc, cuMemHostAlloc, \
	  (void **p, size_t len, unsigned int flags)) \
	X(host_free, cuMemFreeHost, (void *p)) \
	X(host_register, cuMemHostRegister_v2, \
	  (void *p, size_t len, unsigned int flags)) \
	X(host_unregister, cuMemHostUnregister, (void *p)) \
	X(pointer_attributes, cuPointerGetAttributes, \
	  (unsigned int n, int *attributes, void **data, CUdeviceptr addr)) \
	X(copy, cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, \
				  size_t len, CUstream stream)) \
	X(fill_8, cuMemsetD8Async, (CUdeviceptr dst, unsigned char value, \
				      size_t n, CUstream stream)) \
	X(fill_2d_8, cuMemsetD2D8Async, \
	  (CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, \
	   size_t height, CUstream stream)) \
	X(fill_2d_32, cuMemsetD2D32Async, \
	  (CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, \
	   size_t height, CUstream stream)) \
	X(stream_create, cuStreamCreate, \
	  (CUstream *stream, unsigned int flags)) \
	X(stream_destroy, cuStreamDestroy_v2, (CUstream stream)) \
	X(stream_wait, cuStreamWaitEvent, \
	  (CUstream stream, CUevent event, unsigned int flags)) \
	X(stream_sync, cuStreamSynchronize, (CUstream stream)) \
	X(event_create, cuEventCreate, (CUevent *event, unsigned int flags)) \
	X(event_destroy, cuEventDestroy_v2, (CUevent event)) \
	X(event_record, cuEventRecord, (CUevent event, CUstream stream)) \
	X(event_query, cuEventQuery, (CUevent event)) \
	X(host_func, cuLaunchHostFunc, /* 10.0 */ \
	  (CUstream stream, CUhostFn fn, void *arg))

/* Those that a driver may lack, for other processes, */
#define CUDA_SHARING(X) \
	X(device_uuid, cuDeviceGetUuid, (char *uuid, CUdevice dev)) /* 9.2 */ \
	X(ipc_get, cuIpcGetMemHandle, \
	  (CUipcMemHandle *handle, CUdeviceptr addr)) \
	X(ipc_open, cuIpcOpenMemHandle_v2, /* 11.0 */ \
	  (CUdeviceptr *addr, CUipcMemHandle handle, unsigned int flags)) \
	X(ipc_close, cuIpcCloseMemHandle, (CUdeviceptr addr))

/* for memory in pages, */
#define CUDA_PAGES(X) \
	X(granularity, cuMemGetAllocationGranularity, /* 10.2, as those below */ \
	  (size_t *ret, const CUmemAllocationProp *prop, int which)) \
	X(mem_create, cuMemCreate, \
	  (CUmemHandle *handle, size_t len, const CUmemAllocationProp *prop, \
	   unsigned long long flags)) \
	X(mem_release, cuMemRelease, (CUmemHandle handle)) \
	X(reserve, cuMemAddressReserve, \
	  (CUdeviceptr *addr, size_t len, size_t align, CUdeviceptr at, \
	   unsigned long long flags)) \
	X(unreserve, cuMemAddressFree, (CUdeviceptr addr, size_t len)) \
	X(map, cuMemMap, \
	  (CUdeviceptr addr, size_t len, size_t off, CUmemHandle handle, \
	   unsigned long long flags)) \
	X(unmap, cuMemUnmap, (CUdeviceptr addr, size_t len)) \
	X(set_access, cuMemSetAccess, \
	  (CUdeviceptr addr, size_t len, const CUmemAccessDesc *desc, size_t n))

/* and else. */
#define CUDA_OPTIONAL(X) \
	CUDA_SHARING(X) \
	CUDA_PAGES(X) \
	X(range_handle, cuMemGetHandleForAddressRange, /* 11.7 */ \
	  (void *handle, CUdeviceptr addr, size_t len, int type, \
	   unsigned long long flags))

struct cuda_driver {
#define X(name, symbol, parameters) CUresult (*name) parameters;
	CUDA_FUNCTIONS(X)
	CUDA_OPTIONAL(X)
#undef X
};

/*
 * The driver, opened and initialized by the first call: libcuda.so.1, or the file
 * that WEIR_CUDA_LIBRARY names.  Returns NULL where there is none, with a reason
 * and a remedy in *@why, which stays valid.
 *
 * A child of fork() has none: CUDA does not work there.  Any thread; the first call
 * may take a second.
 */
const struct cuda_driver *cuda_driver(const char **why);

/* Whether there is a driver; unlike cuda_driver() it does not initialize it. */
bool cuda_driver_is_there(void);

/* The driver's name of @err. */
const char *cuda_error(CUresult err);

/* An errno for it, negative. */
int cuda_errno(CUresult err);

#endif /* CUDA_DRIVER_H */
