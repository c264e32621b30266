//! What travels: a message begins with the time it was sent, and goes on with a pattern from which
//! the receiver tells whether every byte is where it belongs.

/// The time stamp at the head of a message.
pub(crate) const STAMP_BYTES: u64 = 8;

/// The byte at `position` of a flow: the position's word, little end first.
fn pattern(position: u64) -> u8 {
    (position / 8).to_le_bytes()[(position % 8) as usize]
}

/// Fills `buffer` with what stands at `position` of the flow.
pub(crate) fn fill(buffer: &mut [u8], position: u64) {
    let head = buffer.len().min(until_word(position));
    let (head, words) = buffer.split_at_mut(head);
    for (at, byte) in (position..).zip(head.iter_mut()) {
        *byte = pattern(at);
    }
    let first = position.div_ceil(8);
    for (word, chunk) in (first..).zip(words.chunks_mut(8)) {
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

/// How many words of `buffer`, which stands at `position`, are not what was sent.
pub(crate) fn corrupted(buffer: &[u8], position: u64) -> u64 {
    let (head, words) = buffer.split_at(buffer.len().min(until_word(position)));
    let bad_head = (position..)
        .zip(head)
        .any(|(at, &byte)| byte != pattern(at));
    let first = position.div_ceil(8);
    let bad = |(word, chunk): &(u64, &[u8])| chunk != &&word.to_le_bytes()[..chunk.len()];
    u64::from(bad_head) + (first..).zip(words.chunks(8)).filter(bad).count() as u64
}

/// Bytes left of the word that `position` is in the middle of.
fn until_word(position: u64) -> usize {
    (position.next_multiple_of(8) - position) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_at_any_position_is_sound_there_and_only_there() {
        for position in [0, 1, 7, 8, 1003, 65_535] {
            for length in [0, 1, 5, 8, 9, 64, 777] {
                let mut buffer = vec![0; length];
                fill(&mut buffer, position);
                assert_eq!(corrupted(&buffer, position), 0, "{length} at {position}");
                if length >= 8 {
                    assert_ne!(
                        corrupted(&buffer, position + 8),
                        0,
                        "{length} at {position}"
                    );
                    buffer[length / 2] ^= 1;
                    assert_eq!(corrupted(&buffer, position), 1, "{length} at {position}");
                }
            }
        }
    }

    #[test]
    fn pieces_join_without_a_seam() {
        let mut whole = vec![0; 100];
        fill(&mut whole, 0);
        let (a, b) = whole.split_at(37);
        assert_eq!((corrupted(a, 0), corrupted(b, 37)), (0, 0));
    }
}
