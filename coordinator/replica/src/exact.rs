//! Decodes stored and received values completely: left-over bytes come from a version with more fields, and replicas
//! that drop them diverge.

use serde::de::DeserializeOwned;

/// Decodes a value that uses all these bytes.
pub fn decode_exact<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, postcard::Error> {
    match postcard::take_from_bytes(bytes)? {
        (value, []) => Ok(value),
        _ => Err(postcard::Error::DeserializeBadEncoding),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_bytes_are_refused() {
        let written = postcard::to_stdvec(&(7_u64, "seven")).unwrap();
        assert_eq!(decode_exact(&written), Ok((7_u64, "seven".to_owned())));
        let longer = [&written[..], &[0]].concat();
        let refused = decode_exact::<(u64, String)>(&longer);
        assert_eq!(refused, Err(postcard::Error::DeserializeBadEncoding));
    }
}
