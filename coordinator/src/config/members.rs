//! The tables `[[member]]`: the coordinators of a cluster, the same on each of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use reweave_common::input::{Document, InputError};
use reweave_replica::{Member, MemberId, NoPlace};
use serde::Deserialize;
use toml::Spanned;

const MAX_MEMBER_ID: i64 = 1 << 32;

/// One of the coordinators.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemberFile {
    id: Spanned<i64>,
    name: Spanned<String>,
    address: Spanned<String>,
}

pub(super) fn read(
    document: Document<'_>,
    members: &[MemberFile],
) -> Result<BTreeMap<MemberId, Member>, InputError> {
    let mut known = BTreeMap::new();
    for file in members {
        let id = MemberId(document.whole(&file.id, 1..=MAX_MEMBER_ID)?);
        let member = Member {
            name: file.name.get_ref().clone(),
            address: address(document, &file.address)?,
            replaces: None,
            folder: None,
        };
        if known
            .values()
            .any(|other: &Member| other.name == member.name)
        {
            let problem = format!("two members have the name {:?}", member.name);
            return Err(document.error(file.name.span(), problem));
        }
        if let Some(why) = NoPlace::of(member.address) {
            let problem = format!("{} {why}", member.address);
            return Err(document.error(file.address.span(), problem));
        }
        if known.values().any(|other| other.address == member.address) {
            let problem = format!("two members have the address {}", member.address);
            return Err(document.error(file.address.span(), problem));
        }
        if known.insert(id, member).is_some() {
            let problem = format!("two members have the number {id}");
            return Err(document.error(file.id.span(), problem));
        }
    }
    Ok(known)
}

pub(super) fn address(
    document: Document<'_>,
    text: &Spanned<String>,
) -> Result<SocketAddr, InputError> {
    let problem = |_| format!("{:?} is not of the form ADDRESS:PORT", text.get_ref());
    let parsed = text.get_ref().parse().map_err(problem);
    parsed.map_err(|problem| document.error(text.span(), problem))
}
