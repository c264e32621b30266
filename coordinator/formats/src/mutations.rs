//! Damage to good files, to see that no importer believes what it reads.

use reweave_common::split_mix::SplitMix64;

/// Calls `decode` with `count` damaged copies of `good`, always the same ones. Damage is what files
/// suffer and what an attacker would do: cut ends, flipped bits, numbers grown huge or negative,
/// pieces moved to other places. The decoder may accept or refuse, but must come back.
pub(crate) fn survives(good: &[u8], count: u64, decode: impl Fn(&[u8])) {
    for length in 0..good.len().min(256) {
        decode(&good[..length]);
    }
    for seed in 0..count {
        decode(&damaged(good, seed));
    }
}

fn damaged(good: &[u8], seed: u64) -> Vec<u8> {
    let mut rng = SplitMix64::new(seed);
    let mut bytes = good.to_vec();
    for _ in 0..=rng.below(4) {
        if bytes.is_empty() {
            break;
        }
        hurt(&mut bytes, &mut rng);
    }
    bytes
}

fn hurt(bytes: &mut Vec<u8>, rng: &mut SplitMix64) {
    let at = rng.below(bytes.len());
    match rng.below(6) {
        0 => bytes.truncate(at),
        1 => bytes[at] ^= 1 << rng.below(8),
        2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xfe, 0xff][rng.below(6)],
        3 => {
            let huge = [u32::MAX, i32::MAX as u32, 1 << 31, 0, 0x00ff_ffff][rng.below(5)];
            let end = (at + 4).min(bytes.len());
            bytes[at..end].copy_from_slice(&huge.to_le_bytes()[..end - at]);
        }
        4 => {
            let (from, length) = (rng.below(bytes.len()), rng.below(64));
            let piece: Vec<_> = bytes[from..].iter().take(length).copied().collect();
            bytes.splice(at..at, piece);
        }
        _ => {
            let length = rng.below(64).min(bytes.len() - at);
            bytes.drain(at..at + length);
        }
    }
}
