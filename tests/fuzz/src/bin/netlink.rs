//! The kernel's lists of interfaces, addresses, routes, rules, queues and sockets.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| reweave_agent::decoders::netlink(bytes));
