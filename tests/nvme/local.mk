# libweir-nvme over a namespace in memory, which takes the place of ioctl(2); in the
# guest over QEMU's drive, by io_uring.
nvme_tests += %D%/test-nvme
rdma_tests += %D%/test-nvme
%C%_test_nvme_SOURCES = %D%/test-nvme.c tests/support/mock-nvme.c tests/support/mock-nvme.h
