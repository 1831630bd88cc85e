# What tests of accel/ link is in tests/local.mk.
accel_tests += %D%/test-codec %D%/test-dif %D%/test-xts
EXTRA_DIST += %D%/accel-fixture.h
