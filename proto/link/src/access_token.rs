//! Access tokens for clients without a certificate, such as browsers and scripts: a secret of a member, of which the
//! cluster has the digest.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use reweave_common::member::Digest;

use crate::digest::sha256;

const SECRET_BYTES: usize = 32;

/// The bearer may make requests in the name of its creator until it expires.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken([u8; SECRET_BYTES]);

/// The text is no access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessTokenError;

impl AccessToken {
    /// Creates a new secret.
    pub fn random() -> Self {
        Self(rand::random())
    }

    /// The digest by which the cluster recognizes the token without being able to use it.
    pub fn digest(&self) -> Digest {
        sha256(&self.0)
    }
}

impl fmt::Display for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64_URL_SAFE_NO_PAD.encode(self.0))
    }
}

/// Prints no secret.
impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccessToken({})", self.digest())
    }
}

impl FromStr for AccessToken {
    type Err = AccessTokenError;

    fn from_str(text: &str) -> Result<Self, AccessTokenError> {
        let mut secret = [0; SECRET_BYTES];
        match BASE64_URL_SAFE_NO_PAD.decode_slice(text, &mut secret) {
            Ok(SECRET_BYTES) => Ok(Self(secret)),
            _ => Err(AccessTokenError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_roundtrips_and_rejects_other_text() {
        let token = AccessToken::random();
        let text = token.to_string();
        assert_eq!(text.parse(), Ok(token.clone()));
        for bent in [
            "",
            "x",
            &text[1..],
            &format!("{text}A"),
            &format!(" {text}"),
        ] {
            assert_eq!(
                bent.parse::<AccessToken>(),
                Err(AccessTokenError),
                "{bent:?}"
            );
        }
        assert_eq!(
            format!("{token:?}"),
            format!("AccessToken({})", token.digest())
        );
    }
}
