//! Receives reports of this host's jobs about collectives, on a thread of its own: the kernel's queue for a slow
//! reader is short.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use reweave_agent_core::collectives::CollectiveBook;
use reweave_agent_core::iteration_detector::ByteDelta;
use reweave_common::collective::{COLLECTIVES_SOCKET, MAX_WORD_BYTES, RankReading, RankWord};
use reweave_common::lock::lock;
use thiserror::Error;

use crate::clock;

/// The delay until a stopped listener is noticed.
const READ_TIMEOUT: Duration = Duration::from_millis(500);
/// Jobs run as any user.
const SOCKET_MODE: u32 = 0o666;

#[derive(Debug, Error)]
pub enum CollectivesError {
    #[error("cannot listen for jobs at {path}")]
    Bind { path: PathBuf, source: io::Error },
}

/// Listens until it is dropped.
pub struct Listener {
    book: Arc<Mutex<CollectiveBook>>,
    path: PathBuf,
}

impl Listener {
    pub fn start(path: &Path) -> Result<Self, CollectivesError> {
        let socket = bind(path).map_err(|source| CollectivesError::Bind {
            path: path.to_owned(),
            source,
        })?;
        let book = Arc::default();
        let to_fill = Arc::downgrade(&book);
        thread::spawn(move || listen(&socket, &to_fill));
        Ok(Self {
            book,
            path: path.to_owned(),
        })
    }

    /// The recent readings of each rank that reported lately.
    pub fn readings(&self) -> Vec<RankReading> {
        lock(&self.book).poll_readings(clock::now())
    }

    pub fn growth(&self) -> Vec<ByteDelta> {
        lock(&self.book).poll_growth(clock::now())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The path where jobs look for an agent, if the service's folder exists.
pub fn usual_place() -> Option<PathBuf> {
    let place = Path::new(COLLECTIVES_SOCKET);
    let folder = place.parent().filter(|folder| folder.is_dir());
    folder.map(|_| place.to_owned())
}

/// Decodes a job's datagram.
pub(crate) fn read(bytes: &[u8]) -> Option<RankWord> {
    reweave_proto::frame::decode(bytes).ok()
}

/// Replaces the socket of an agent that has ended, but no other.
fn bind(path: &Path) -> io::Result<UnixDatagram> {
    let socket = match UnixDatagram::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_abandoned(path) => {
            fs::remove_file(path)?;
            UnixDatagram::bind(path)
        }
        bound => bound,
    }?;
    fs::set_permissions(path, Permissions::from_mode(SOCKET_MODE))?;
    socket.set_read_timeout(Some(READ_TIMEOUT))?;
    Ok(socket)
}

fn is_abandoned(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    is_socket && connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

fn connect(path: &Path) -> io::Result<()> {
    UnixDatagram::unbound()?.connect(path)
}

fn listen(socket: &UnixDatagram, book: &Weak<Mutex<CollectiveBook>>) {
    let mut bytes = vec![0; MAX_WORD_BYTES];
    loop {
        let received = socket.recv(&mut bytes);
        let Some(book) = book.upgrade() else {
            return;
        };
        let word = received.ok().and_then(|length| read(&bytes[..length]));
        if let Some(word) = word {
            lock(&book).handle_word(clock::now(), &word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_socket_replaced_live_one_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("collectives");
        drop(UnixDatagram::bind(&path).unwrap());
        let first = Listener::start(&path).unwrap();
        assert!(Listener::start(&path).is_err());
        assert!(path.exists(), "what the other one listens at stays");
        drop(first);
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        assert!(Listener::start(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
