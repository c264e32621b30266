//! A join token: proof of the right to join, and the identity of the cluster.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use reweave_common::member::{Digest, Member};
use reweave_proto::frame;
use reweave_proto::name::{ClusterName, MemberName, NameError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::digest::sha256;
use crate::identity::Identity;

pub(super) const SECRET_BYTES: usize = 32;
/// Tells what it is, and of which version.
const TOKEN_PREFIX: &str = "reweave1.";

/// Its bearer can join once, as this member, until it expires.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    cluster: String,
    /// The digest of the authority's certificate.
    authority: Digest,
    member: Member,
    secret: [u8; SECRET_BYTES],
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenError {
    #[error("not a join token: it must begin with {TOKEN_PREFIX:?}; copy the whole token")]
    NotOne,
    #[error("the join token is truncated; copy the whole token")]
    Broken,
    #[error("the join token is not made for a member of a cluster")]
    Name(#[source] NameError),
}

impl Token {
    /// A new secret for `member` of the cluster that `ours` belongs to.
    pub fn new(ours: &Identity, member: Member) -> Self {
        Self {
            cluster: ours.cluster().to_string(),
            authority: ours.authority_digest(),
            member,
            secret: rand::random(),
        }
    }

    pub fn member(&self) -> &Member {
        &self.member
    }

    /// Returns the digest by which the cluster recognizes the token without being able to use it.
    pub fn digest(&self) -> Digest {
        secret_digest(&self.secret)
    }

    pub(super) fn cluster(&self) -> Result<ClusterName, TokenError> {
        self.cluster.parse().map_err(TokenError::Name)
    }

    pub(super) fn name(&self) -> Result<MemberName, TokenError> {
        let name = MemberName::new(self.cluster()?, self.member.role, &self.member.name);
        name.map_err(TokenError::Name)
    }

    pub(super) fn is_authority(&self, certificate: &[u8]) -> bool {
        sha256(certificate) == self.authority
    }

    pub(super) fn secret(&self) -> [u8; SECRET_BYTES] {
        self.secret
    }
}

pub(super) fn secret_digest(secret: &[u8; SECRET_BYTES]) -> Digest {
    sha256(secret)
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = postcard::to_stdvec(self).map_err(|_| fmt::Error)?;
        write!(f, "{TOKEN_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }
}

/// Prints no secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token for {} of {}", self.member, self.cluster)
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let text = text
            .trim()
            .strip_prefix(TOKEN_PREFIX)
            .ok_or(TokenError::NotOne)?;
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text);
        let bytes = bytes.map_err(|_| TokenError::Broken)?;
        let token: Self = frame::decode(&bytes).map_err(|_| TokenError::Broken)?;
        token.name().map(|_| token)
    }
}
