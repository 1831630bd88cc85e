# What tests of dma/ link is in tests/local.mk.
public_tests += %D%/test-accel %D%/test-atomic %D%/test-bounce \
	%D%/test-bounce-end %D%/test-bounce-extra %D%/test-bounce-nest \
	%D%/test-card %D%/test-provider %D%/test-provider-engine %D%/test-provider-memory \
	%D%/test-chain-full %D%/test-conform %D%/test-cpu %D%/test-dmadev \
	%D%/test-errnos-dma %D%/test-job-fence %D%/test-job-leave %D%/test-kind \
	%D%/test-pipeline-control
internal_tests += %D%/test-chain %D%/test-chain-fuse %D%/test-chain-hop \
	%D%/test-chain-storm %D%/test-direct %D%/test-doca %D%/test-domain-job \
	%D%/test-engine %D%/test-fault-pairs %D%/test-job \
	%D%/test-mmap-job %D%/test-pipeline %D%/test-route %D%/test-sync \
	%D%/test-sync-shared %D%/test-translate %D%/test-why-calls
%C%_test_chain_storm_SOURCES = %D%/test-chain-storm.c $(chain_storm)

without_threads += %D%/test-fault-pairs %D%/test-accel %D%/test-chain-full %D%/test-chain-fuse \
	%D%/test-dmadev %D%/test-engine %D%/test-errnos-dma %D%/test-job-fence \
	%D%/test-pipeline-control %D%/test-translate
