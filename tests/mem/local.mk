# What tests of mem/ link is in tests/local.mk.
public_tests += %D%/test-errnos-mem
internal_tests += %D%/test-buf %D%/test-buf-table %D%/test-descriptor \
	%D%/test-device %D%/test-dm-soft %D%/test-domain \
	%D%/test-domain-remote %D%/test-domain-user %D%/test-export \
	%D%/test-export-copy %D%/test-export-hostile %D%/test-exporter \
	%D%/test-inventory %D%/test-lease %D%/test-mmap %D%/test-mmap-range \
	%D%/test-mmap-register %D%/test-mmap-stop %D%/test-pool \
	%D%/test-process %D%/test-revoke %D%/test-segment %D%/test-segment-attach \
	%D%/test-segment-event %D%/test-segment-external \
	%D%/test-segment-flags %D%/test-segment-model %D%/test-segment-phys \
	%D%/test-segment-validator %D%/test-shared-pool \
	%D%/test-shared-pool-end
mock_tests += %D%/test-device-caps
test_scripts += %D%/test-export-examples.sh

%C%_test_descriptor_SOURCES = %D%/test-descriptor.c \
	tests/fuzz/fuzz-descriptor.c

without_threads += %D%/test-buf-table %D%/test-descriptor %D%/test-device-caps \
	%D%/test-dm-soft %D%/test-domain-remote %D%/test-domain-user \
	%D%/test-errnos-mem %D%/test-export %D%/test-export-hostile \
	%D%/test-exporter %D%/test-inventory %D%/test-mmap-range \
	%D%/test-mmap-register %D%/test-pool %D%/test-segment \
	%D%/test-segment-attach %D%/test-segment-external \
	%D%/test-segment-flags %D%/test-segment-phys \
	%D%/test-segment-validator
