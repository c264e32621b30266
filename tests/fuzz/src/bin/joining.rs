//! Tokens to join with, and requests for certificates.

#![no_main]

use std::sync::LazyLock;

use reweave_common::member::{Admission, Member};
use reweave_link::Role;
use reweave_link::join::Token;
use reweave_link::pki::Authority;
use tempfile::TempDir;

static AUTHORITY: LazyLock<(TempDir, Authority)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::create(&folder.path().join("ca"), "fuzz");
    (folder, authority.expect("an authority"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(token) = text.parse::<Token>()
    {
        assert!(token.to_string().parse::<Token>().is_ok());
    }
    let member = Member {
        role: Role::Agent,
        name: "h0".to_owned(),
    };
    let _ = AUTHORITY.1.certify(bytes, &member, Admission::default());
});
