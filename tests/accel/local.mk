# What tests of accel/ link is in tests/local.mk.
accel_tests += %D%/test-codec %D%/test-dif %D%/test-xts
internal_tests += %D%/test-crc64
without_threads += %D%/test-crc64
EXTRA_DIST += %D%/accel-fixture.h
