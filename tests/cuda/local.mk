# libweir-cuda over a mock of the driver, which a test opens as it would that.
if HAVE_CMOCKA
if SHARED
cuda_mock = tests/mock-cuda.la
check_LTLIBRARIES += tests/mock-cuda.la
endif
endif
tests_mock_cuda_la_SOURCES = tests/support/mock-cuda.c tests/support/mock-cuda.h
tests_mock_cuda_la_CFLAGS = $(AM_CFLAGS) -fPIC
tests_mock_cuda_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere

test_scripts += %D%/test-safetensors.sh
cuda_tests += %D%/test-conform-cuda %D%/test-cuda %D%/test-cuda-page \
	%D%/test-cuda-rules %D%/test-cuda-share
# These link all objects of both libraries.
cuda_storm = %D%/test-chain-storm-cuda
internal_tests += $(cuda_storm)
%C%_test_chain_storm_cuda_SOURCES = %D%/test-chain-storm-cuda.c $(chain_storm) \
	$(libweir_cuda_la_SOURCES)
%C%_test_chain_storm_cuda_CFLAGS = $(AM_CFLAGS)
$(cuda_storm): $(cuda_mock)
%C%_test_cuda_page_SOURCES = %D%/test-cuda-page.c $(libweir_cuda_la_SOURCES)
%C%_test_cuda_page_CFLAGS = $(AM_CFLAGS)
%C%_test_cuda_page_LDADD = tests/libharness.la $(weir_sim) $(weir_rdma) libweir.la \
	$(CMOCKA_LIBS) -ldl
%C%_test_cuda_rules_SOURCES = %D%/test-cuda-rules.c cuda/driver.c cuda/driver.h
%C%_test_cuda_rules_CFLAGS = $(AM_CFLAGS)
%C%_test_conform_cuda_SOURCES = %D%/test-conform-cuda.c cuda/driver.c cuda/driver.h
%C%_test_conform_cuda_CFLAGS = $(AM_CFLAGS)
