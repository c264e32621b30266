//! Lists of hosts, as Slurm and people write them: few bytes may stand for a great many names.

#![no_main]

use reweave_formats::hostlist::{fold, unfold};

const MAX_NAME_BYTES: usize = 255;
const MAX_NAMES_BYTES: usize = 32 << 20;

libfuzzer_sys::fuzz_target!(|list: &str| {
    let Ok(names) = unfold(list) else {
        return;
    };
    let longest = names.iter().map(String::len).max();
    assert!(longest.is_some_and(|it| it <= MAX_NAME_BYTES));
    let bytes: usize = names.iter().map(String::len).sum();
    assert!(bytes <= MAX_NAMES_BYTES);
    if names.len() < 100 {
        let _ = fold(names.iter().map(String::as_str));
    }
});
