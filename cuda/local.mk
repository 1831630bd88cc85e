# libweir-cuda: memory of GPUs, and copies to and from it.  It opens the driver's
# library when it is needed, so it is always built.
lib_LTLIBRARIES += libweir-cuda.la
libweir_cuda_la_SOURCES = \
	%D%/cuda.h \
	%D%/device.c \
	%D%/driver.c \
	%D%/driver.h \
	%D%/engine.c \
	%D%/share.c \
	%D%/share.h
libweir_cuda_la_LIBADD = libweir.la -ldl
libweir_cuda_la_LDFLAGS = $(lib_ldflags) \
	-Wl,--version-script=$(srcdir)/weir-cuda.map
EXTRA_libweir_cuda_la_DEPENDENCIES = weir-cuda.map
EXTRA_DIST += %D%/README.md build-aux/gpu-bundle.sh

# The tests and the benchmark for a machine with a GPU: docs/cuda.md.
gpu_programs = tests/cuda/test-cuda tests/cuda/test-cuda-rules \
	tests/cuda/test-cuda-page tests/cuda/test-cuda-share \
	tests/cuda/test-conform-cuda bench/bench-cuda
gpu-bundle: $(gpu_programs)
	$(SHELL) $(srcdir)/build-aux/gpu-bundle.sh $(gpu_programs)
CLEANFILES += gpu-bundle.tar.gz
.PHONY: gpu-bundle
