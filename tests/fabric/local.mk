# libweir-fabric over the providers of libfabric that this machine has.
fabric_tests += %D%/test-all-to-all %D%/test-fabric %D%/test-fabric-mock

# And over a mock of libfabric, which a test opens as it would that.
if SHARED
fabric_mock = tests/mock-fabric.la
check_LTLIBRARIES += tests/mock-fabric.la
endif
tests_mock_fabric_la_SOURCES = tests/support/mock-fabric-ep.c \
	tests/support/mock-fabric-internal.h tests/support/mock-fabric-queue.c \
	tests/support/mock-fabric-wire.c tests/support/mock-fabric.c \
	tests/support/mock-fabric.h
tests_mock_fabric_la_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS) -fPIC
tests_mock_fabric_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
over_fabric_mock = %D%/test-fabric-mock
$(over_fabric_mock): $(fabric_mock)
