//! Texts as the oldest protocol writes them: on one line, with what does not fit there escaped.

/// What Python 3 writes: bytes are Latin-1, and `\u` and `\U` stand for all else.
pub(super) fn raw_unicode(line: &[u8]) -> Option<String> {
    decoded(line, |kind| match kind {
        b'u' => Some(4),
        b'U' => Some(8),
        _ => None,
    })
}

/// What Python 2 writes: a literal in quotes.
pub(super) fn quoted(line: &[u8]) -> Option<String> {
    let [first, inner @ .., last] = line else {
        return None;
    };
    if first != last || !matches!(first, b'\'' | b'"') {
        return None;
    }
    decoded(inner, |kind| match kind {
        b'x' => Some(2),
        b'n' | b'r' | b't' | b'\\' | b'\'' | b'"' => Some(0),
        _ => None,
    })
}

/// `digits` says how many follow a backslash and this byte; nothing where the two stand for
/// themselves.
fn decoded(line: &[u8], digits: impl Fn(u8) -> Option<usize>) -> Option<String> {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let [first, behind @ ..] = rest {
        let escape = behind.first().filter(|_| *first == b'\\');
        let escape = escape.and_then(|&kind| Some((kind, digits(kind)?)));
        let Some((kind, digits)) = escape else {
            text.push(char::from(*first));
            rest = behind;
            continue;
        };
        text.push(match kind {
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            _ if digits == 0 => char::from(kind),
            _ => hexadecimal(behind.get(1..=digits)?)?,
        });
        rest = &behind[1 + digits..];
    }
    Some(text)
}

fn hexadecimal(digits: &[u8]) -> Option<char> {
    let code = digits.iter().try_fold(0u32, |code, &digit| {
        let value = char::from(digit).to_digit(16)?;
        code.checked_mul(16)?.checked_add(value)
    });
    // Half of a pair is no character by itself.
    Some(char::from_u32(code?).unwrap_or(char::REPLACEMENT_CHARACTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_escapes_are_read() {
        let raw = raw_unicode(b"\xe9\\u000a\\u005c'\\u20ac\\U0001f600\\n");
        assert_eq!(raw.as_deref(), Some("é\n\\'€😀\\n"));
        assert_eq!(
            quoted(b"'a\\n\\x41\\'\\\\\\q'").as_deref(),
            Some("a\nA'\\\\q")
        );
        assert_eq!(quoted(b"\"it's\"").as_deref(), Some("it's"));
    }

    #[test]
    fn truncated_or_unquoted_text_is_refused() {
        for line in [b"\\u00".as_slice(), b"\\U0001f60", b"\\uzzzz", b"\\u"] {
            assert_eq!(raw_unicode(line), None, "{line:?}");
        }
        assert_eq!(raw_unicode(b"\\ud800").as_deref(), Some("\u{fffd}"));
        for line in [b"".as_slice(), b"'", b"a", b"'a\"", b"'\\x4'"] {
            assert_eq!(quoted(line), None, "{line:?}");
        }
    }
}
