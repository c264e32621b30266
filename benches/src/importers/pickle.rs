//! A dump of PyTorch's Flight Recorder, as its writer pickles it.

const LONG1_OPCODE: u8 = 0x8a;

/// Returns a dump with consecutive all-reduces of all ranks.
pub(super) fn dump(ranks: usize, entries: usize) -> Vec<u8> {
    let members: Vec<_> = (0..ranks).map(|rank| rank.to_string()).collect();
    let mut dump = b"\x80\x02}(".to_vec();
    text(&mut dump, "version");
    text(&mut dump, "2.10");
    text(&mut dump, "pg_config");
    dump.extend(b"}(");
    text(&mut dump, "0");
    dump.extend(b"}(");
    text(&mut dump, "ranks");
    text(&mut dump, &format!("[{}]", members.join(", ")));
    dump.extend(b"uu");
    text(&mut dump, "entries");
    dump.extend(b"](");
    for nth in 0..entries as i64 {
        entry(&mut dump, nth);
    }
    dump.extend(b"eu.");
    dump
}

fn entry(dump: &mut Vec<u8>, nth: i64) {
    dump.extend(b"}(");
    for (key, value) in [
        ("record_id", nth),
        ("pg_id", 0),
        ("collective_seq_id", nth),
        ("time_created_ns", nth * 1_000_000),
        ("time_discovered_started_ns", nth * 1_000_000),
        ("time_discovered_completed_ns", nth * 1_000_000 + 500_000),
    ] {
        text(dump, key);
        number(dump, value);
    }
    text(dump, "profiling_name");
    text(dump, "nccl:all_reduce");
    text(dump, "state");
    text(dump, "completed");
    for key in ["input_sizes", "output_sizes"] {
        text(dump, key);
        dump.extend(b"](](");
        number(dump, 1024);
        number(dump, 4096);
        dump.extend(b"ee");
    }
    for key in ["input_dtypes", "output_dtypes"] {
        text(dump, key);
        dump.extend(b"](");
        text(dump, "BFloat16");
        dump.push(b'e');
    }
    dump.push(b'u');
}

fn text(dump: &mut Vec<u8>, text: &str) {
    dump.push(b'X');
    dump.extend((text.len() as u32).to_le_bytes());
    dump.extend(text.as_bytes());
}

fn number(dump: &mut Vec<u8>, number: i64) {
    dump.extend([LONG1_OPCODE, 8]);
    dump.extend(number.to_le_bytes());
}
