//! The latest list of coordinators, stored beside the certificate: all addresses that a member is started with may
//! become obsolete.

use std::path::{Path, PathBuf};
use std::{fs, io};

use reweave_common::error::error_chain;
use reweave_proto::message::{CoordinatorAddress, MAX_COORDINATORS};
use tokio::sync::watch;

use super::CertificateError;
use crate::durable_files;

const COORDINATORS_FILE: &str = "coordinators.json";

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct CoordinatorList {
    path: PathBuf,
    seats: watch::Sender<Vec<CoordinatorAddress>>,
}

impl CoordinatorList {
    /// Loads the list of the last run. Other addresses are configured, so an unreadable file does not stop the member.
    pub(super) fn load(folder: &Path) -> Self {
        let path = folder.join(COORDINATORS_FILE);
        let seats = read(&path).unwrap_or_else(|error| {
            tracing::warn!(
                "only the coordinators of the settings are known: {}",
                error_chain(&error)
            );
            vec![]
        });
        let seats = watch::Sender::new(seats);
        Self { path, seats }
    }

    /// Uses the list at once and at the next start. An invalid list is ignored.
    pub(super) fn note(&self, seats: Vec<CoordinatorAddress>) {
        if !is_sound(&seats) {
            return tracing::warn!(
                "received a list of {} coordinators, which is invalid",
                seats.len()
            );
        }
        if *self.seats.borrow() == seats {
            return;
        }
        if let Err(source) = self.write(&seats) {
            let path = self.path.clone();
            let error = CertificateError::Coordinators { path, source };
            tracing::error!(
                "who coordinates is forgotten at the next start: {}",
                error_chain(&error)
            );
        }
        self.seats.send_replace(seats);
    }

    pub(super) fn follow(&self) -> watch::Receiver<Vec<CoordinatorAddress>> {
        self.seats.subscribe()
    }

    fn write(&self, seats: &[CoordinatorAddress]) -> io::Result<()> {
        durable_files::replace(&self.path, &durable_files::encode(&seats)?)
    }
}

fn read(path: &Path) -> Result<Vec<CoordinatorAddress>, CertificateError> {
    let path = || path.to_owned();
    let bytes = match fs::read(path()) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(source) => {
            return Err(CertificateError::Coordinators {
                path: path(),
                source,
            });
        }
    };
    let damaged = |source| CertificateError::CoordinatorsDamaged {
        path: path(),
        source,
    };
    let seats: Vec<CoordinatorAddress> = durable_files::decode(&bytes).map_err(damaged)?;
    Ok(Some(seats).filter(|it| is_sound(it)).unwrap_or_default())
}

fn is_sound(seats: &[CoordinatorAddress]) -> bool {
    let can_be_reached =
        |seat: &CoordinatorAddress| seat.address.port() != 0 && !seat.address.ip().is_unspecified();
    (1..=MAX_COORDINATORS).contains(&seats.len()) && seats.iter().all(can_be_reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(addresses: &[&str]) -> Vec<CoordinatorAddress> {
        let seat = |(nth, address): (usize, &&str)| CoordinatorAddress {
            name: format!("c{nth}"),
            address: address.parse().unwrap(),
        };
        addresses.iter().enumerate().map(seat).collect()
    }

    fn known(folder: &Path) -> Vec<CoordinatorAddress> {
        CoordinatorList::load(folder).follow().borrow().clone()
    }

    #[test]
    fn known_addresses_survive_restart_invalid_ignored() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(known(folder.path()), []);
        let (first, second) = (
            seats(&["10.0.0.1:7332", "10.0.0.2:7332"]),
            seats(&["10.0.0.9:1"]),
        );
        let began = CoordinatorList::load(folder.path());
        began.note(first.clone());
        assert_eq!(known(folder.path()), first);
        began.note(second.clone());
        let many = vec!["10.0.0.1:1"; MAX_COORDINATORS + 1];
        for wrong in [
            &[][..],
            &["0.0.0.0:7332"],
            &["10.0.0.1:0"],
            &["[::]:1"],
            &many,
        ] {
            began.note(seats(wrong));
            assert_eq!(*began.follow().borrow(), second, "{wrong:?}");
            assert_eq!(known(folder.path()), second, "{wrong:?}");
        }
    }

    #[test]
    fn damaged_address_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        CoordinatorList::load(folder.path()).note(seats(&["10.0.0.1:7332"]));
        let path = folder.path().join(COORDINATORS_FILE);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.starts_with(path.to_str().unwrap()), "{error}");
        assert_eq!(known(folder.path()), []);
    }
}
