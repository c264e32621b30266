//! The files of replicated decisions, after any accident.

#![no_main]

use reweave_replica::Journal;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(journal) = Journal::read(bytes) {
        assert!(journal.whole_bytes <= bytes.len());
        let again = journal.saved.whole().encode(0).expect("it can be written");
        let again = Journal::read(&again).expect("and read");
        assert_eq!(again.saved, journal.saved);
    }
});
