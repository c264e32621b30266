//! Server certificates by address, made on demand and renewed in time. Existing connections keep their certificate.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::SystemTime;

use reweave_link::Identity;
use reweave_link::web::ServerCertificate;

use crate::signing::Signing;

/// Maximum number of certificates: a machine is reached at few addresses.
const MAX_CERTIFICATES: usize = 64;

pub(super) struct Faces {
    signing: Signing,
    made: BTreeMap<IpAddr, ServerCertificate>,
}

impl Faces {
    pub(super) fn of(signing: Signing) -> Self {
        let made = BTreeMap::new();
        Self { signing, made }
    }

    pub(super) fn at(
        &mut self,
        address: IpAddr,
        ours: &Identity,
        now: SystemTime,
    ) -> ServerCertificate {
        self.made.retain(|_, face| !face.is_due(now));
        if let Some(face) = self.made.get(&address) {
            return face.clone();
        }
        let face = self.signing.face(ours, address);
        // Without a signer nothing can be signed. A later call may find a newer certificate.
        if self.signing.can_sign() && self.made.len() < MAX_CERTIFICATES {
            self.made.insert(address, face.clone());
        }
        face
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reweave_link::Role;
    use reweave_link::pki::{Authority, Validity};

    use super::*;

    const ONE_HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn each_address_has_certificate_until_renewal() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("c0");
        let authority = Authority::create(&home.path().join("authority"), "lab").unwrap();
        let issued = authority.issue(Role::Coordinator, "c0", Validity::day(), &folder);
        issued.unwrap();
        let ours = Identity::load(&folder).unwrap();
        let year = Validity::lasting(365 * 24 * ONE_HOUR).unwrap();
        authority.issue_signer("c0", year, &folder).unwrap();
        let mut faces = Faces::of(Signing::load(&folder).unwrap());
        let [one, other] = ["10.0.0.1", "fd00::1"].map(|text| text.parse().unwrap());
        let now = SystemTime::now();
        let first = faces.at(one, &ours, now);
        assert_eq!(faces.at(one, &ours, now + 8 * ONE_HOUR), first);
        assert_ne!(faces.at(other, &ours, now), first);
        assert_ne!(faces.at(one, &ours, now + 20 * ONE_HOUR), first);
    }
}
