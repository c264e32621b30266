//! The files of /sys and /proc.

#![no_main]

use reweave_agent_core::counters::texts;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = (texts::number(text), texts::speed(text), texts::duplex(text));
    let (speed, width) = text.split_once('\n').unwrap_or((text, ""));
    let _ = texts::pcie_link(speed, width);
    let _ = (texts::port_is_active(text), texts::softnet(text));
    let _ = (texts::list_len(text), texts::node_memory_bytes(text));
    texts::named_numbers(text).for_each(drop);
});
