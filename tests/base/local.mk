# What tests of base/ link is in tests/local.mk.
public_tests += %D%/test-own
internal_tests += %D%/test-copy %D%/test-crc32c %D%/test-why

without_threads += %D%/test-copy %D%/test-own %D%/test-why
