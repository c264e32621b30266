//! Damage to good files, to see that no importer believes what it reads.

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
    let mut dice = Dice(seed);
    let mut bytes = good.to_vec();
    for _ in 0..=dice.below(4) {
        if bytes.is_empty() {
            break;
        }
        hurt(&mut bytes, &mut dice);
    }
    bytes
}

fn hurt(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.below(bytes.len());
    match dice.below(6) {
        0 => bytes.truncate(at),
        1 => bytes[at] ^= 1 << dice.below(8),
        2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xfe, 0xff][dice.below(6)],
        3 => {
            let huge = [u32::MAX, i32::MAX as u32, 1 << 31, 0, 0x00ff_ffff][dice.below(5)];
            let end = (at + 4).min(bytes.len());
            bytes[at..end].copy_from_slice(&huge.to_le_bytes()[..end - at]);
        }
        4 => {
            let (from, length) = (dice.below(bytes.len()), dice.below(64));
            let piece: Vec<_> = bytes[from..].iter().take(length).copied().collect();
            bytes.splice(at..at, piece);
        }
        _ => {
            let length = dice.below(64).min(bytes.len() - at);
            bytes.drain(at..at + length);
        }
    }
}

/// SplitMix64: the same throws for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}
