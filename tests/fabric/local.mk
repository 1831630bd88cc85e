# libweir-fabric over the providers of libfabric that this machine has.
fabric_tests += %D%/test-all-to-all %D%/test-fabric
