//! What the program in the kernel has counted.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| reweave_agent::decoders::ebpf_entries(bytes));
