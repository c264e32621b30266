//! Content of messages: the time of sending, and then a pattern by which the receiver checks the place of every byte.

use std::sync::LazyLock;

/// The time stamp at the head of a message.
pub(crate) const STAMP_BYTES: u64 = 8;

/// A prime, so that data shifted by any whole number of packets or buffers is found out.
const PATTERN_BYTES: usize = 65_521;

/// The pattern is this, over and over. It is copied and compared as a whole, so that even an
/// unoptimised build spends its time on the network.
static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut word = 0_u64;
    let mut scrambled = || {
        word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (word ^ (word >> 31))
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            .to_be_bytes()[0]
    };
    (0..PATTERN_BYTES).map(|_| scrambled()).collect()
});

/// Fills `buffer` with what stands at `position` of the flow.
pub(crate) fn fill(buffer: &mut [u8], position: u64) {
    let mut done = 0;
    while done < buffer.len() {
        let piece = pattern(position + done as u64, buffer.len() - done);
        buffer[done..][..piece.len()].copy_from_slice(piece);
        done += piece.len();
    }
}

/// Returns the number of wrong bytes in `buffer`, which begins at `position`.
pub(crate) fn corrupted(buffer: &[u8], position: u64) -> u64 {
    let (mut done, mut corrupted) = (0, 0);
    while done < buffer.len() {
        let piece = pattern(position + done as u64, buffer.len() - done);
        corrupted += differences(piece, &buffer[done..][..piece.len()]);
        done += piece.len();
    }
    corrupted
}

/// The longest piece of the pattern at `position`, up to `most` bytes.
fn pattern(position: u64, most: usize) -> &'static [u8] {
    let rest = &PATTERN[(position % PATTERN_BYTES as u64) as usize..];
    &rest[..rest.len().min(most)]
}

fn differences(expected: &[u8], found: &[u8]) -> u64 {
    if expected == found {
        return 0;
    }
    expected.iter().zip(found).filter(|(a, b)| a != b).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_valid_only_at_position() {
        for position in [
            0,
            1,
            7,
            1003,
            PATTERN_BYTES as u64 - 3,
            10 * PATTERN_BYTES as u64,
            1 << 40,
        ] {
            for length in [0, 1, 9, 777, 3 * PATTERN_BYTES] {
                let mut buffer = vec![0; length];
                fill(&mut buffer, position);
                assert_eq!(corrupted(&buffer, position), 0, "{length} at {position}");
                if length >= 777 {
                    for shift in [1, 8, 1448, 8948, 65_536] {
                        let found = corrupted(&buffer, position + shift);
                        assert!(found > length as u64 * 9 / 10, "{length} at {position}");
                    }
                    buffer[length / 2] ^= 1;
                    assert_eq!(corrupted(&buffer, position), 1, "{length} at {position}");
                }
            }
        }
    }

    #[test]
    fn payload_pieces_join_seamlessly() {
        let mut whole = vec![0; 100_000];
        fill(&mut whole, 0);
        let (a, b) = whole.split_at(37);
        assert_eq!((corrupted(a, 0), corrupted(b, 37)), (0, 0));
    }
}
