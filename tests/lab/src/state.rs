//! Records of running labs: a folder for each, with a file that is locked as long as the lab runs. A folder with a free
//! lock is a leftover.
//!
//! A process that tests a lock holds it for a moment. So that this is never taken for a lab, processes take turns: only
//! one at a time claims or releases a name, and none tests locks meanwhile.

use std::env;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::unistd::{Pid, geteuid};
use reweave_common::names;
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::management::STATION_NAME;
use crate::source::Source;

const LOCK_FILE: &str = "lock";
const RECORD_FILE: &str = "lab.json";
const READY_FILE: &str = "ready";
/// Socket of a lab that was started with `--stepped`.
const CONTROL_SOCKET: &str = "control";
/// No lab can have this name.
const TURNS_FOLDER: &str = ".turns";
const MAX_NAME_BYTES: usize = 64;

/// Data of a lab for other commands.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) scenario: String,
    /// The first process of the lab, as seen from outside.
    pub(crate) pid: i32,
    pub(crate) nodes: Vec<String>,
    /// Whether there is a station.
    pub(crate) station: bool,
    pub(crate) source: Source,
}

/// A claimed name, released on drop. Only the supervisor may drop it.
pub(crate) struct Claim {
    folder: PathBuf,
    /// Handle of the folder, because its path differs inside the lab.
    handle: File,
    _lock: File,
}

impl Claim {
    /// Takes `name`, and removes all that dead labs have left behind.
    pub(crate) fn take(name: &str) -> Result<Self, LabError> {
        check_name(name)?;
        let base = base()?;
        let _turn = Turn::to_change(&base)?;
        sweep_in(&base);
        let folder = base.join(name);
        let lock = lock_new(&folder).map_err(|source| failed(&folder, source))?;
        let lock = lock.ok_or_else(|| LabError::AlreadyRunning {
            name: name.to_owned(),
        })?;
        Ok(Self {
            handle: File::open(&folder).map_err(|source| failed(&folder, source))?,
            folder,
            _lock: lock,
        })
    }

    pub(crate) fn record(&self, record: &Record) -> Result<(), LabError> {
        let write = || -> io::Result<()> {
            let draft = self.folder.join("lab.json.new");
            fs::write(&draft, serde_json::to_vec_pretty(record)?)?;
            fs::rename(draft, self.folder.join(RECORD_FILE))
        };
        write().map_err(|source| failed(&self.folder, source))
    }

    /// Marks the lab as ready; others may enter. Called inside the lab.
    pub(crate) fn mark_ready(&self) -> Result<(), LabError> {
        File::create(path_in(&self.handle, READY_FILE))
            .map(drop)
            .map_err(|source| failed(&self.folder, source))
    }

    /// Binds the control socket. Called inside the lab.
    pub(crate) fn bind_control_socket(&self) -> Result<UnixListener, LabError> {
        UnixListener::bind(path_in(&self.handle, CONTROL_SOCKET))
            .map_err(|source| failed(&self.folder, source))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Without a turn, the next process with a turn removes leftovers.
        if let Some(base) = self.folder.parent()
            && let Ok(_turn) = Turn::to_change(base)
        {
            remove(&self.folder);
        }
    }
}

/// The right to look, which many may have, or to change, which only one has.
struct Turn {
    _lock: File,
}

impl Turn {
    fn to_look(base: &Path) -> Result<Self, LabError> {
        Self::take(base, File::lock_shared)
    }

    fn to_change(base: &Path) -> Result<Self, LabError> {
        Self::take(base, File::lock)
    }

    fn take(base: &Path, lock: fn(&File) -> io::Result<()>) -> Result<Self, LabError> {
        let path = base.join(TURNS_FOLDER);
        let take = || -> io::Result<Self> {
            let file = open_lock(&path)?;
            lock(&file)?;
            Ok(Self { _lock: file })
        };
        take().map_err(|source| failed(&path, source))
    }
}

/// A lab that is running.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) name: String,
    folder: PathBuf,
}

impl Running {
    /// The labs of this user, by name.
    pub(crate) fn all() -> Result<Vec<Self>, LabError> {
        let base = base()?;
        let mut found: Vec<_> = folders(&base).filter(Running::is_alive).collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// The lab of that name, or the only one there is.
    pub(crate) fn find(name: Option<&str>) -> Result<Self, LabError> {
        let mut all = Self::all()?;
        let running = || all.iter().map(|lab| lab.name.clone()).collect();
        let index = match name {
            _ if all.is_empty() => return Err(LabError::NoLab),
            None if all.len() == 1 => 0,
            None => return Err(LabError::WhichLab { running: running() }),
            Some(name) => {
                let found = all.iter().position(|lab| lab.name == name);
                found.ok_or_else(|| LabError::NoSuchLab {
                    name: name.to_owned(),
                    running: running(),
                })?
            }
        };
        Ok(all.swap_remove(index))
    }

    pub(crate) fn is_alive(&self) -> bool {
        let base = self.folder.parent().unwrap_or(&self.folder);
        Turn::to_look(base).is_ok_and(|_turn| self.is_locked())
    }

    /// Whether the folder is locked. The caller must have the turn.
    fn is_locked(&self) -> bool {
        let lock = File::open(self.folder.join(LOCK_FILE));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.folder.join(READY_FILE).exists()
    }

    pub(crate) fn connect_control_socket(&self) -> Result<UnixStream, LabError> {
        let connect = || UnixStream::connect(path_in(&File::open(&self.folder)?, CONTROL_SOCKET));
        connect().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => LabError::NotStepped {
                name: self.name.clone(),
            },
            _ => failed(&self.folder, source),
        })
    }

    /// Returns the record; a starting lab has none yet.
    pub(crate) fn record(&self) -> Option<Record> {
        let text = fs::read(self.folder.join(RECORD_FILE)).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

impl Record {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.pid)
    }

    /// Returns the names of all namespaces that can be entered.
    pub(crate) fn places(&self) -> Vec<String> {
        let station = self.station.then(|| STATION_NAME.to_owned());
        self.nodes.iter().cloned().chain(station).collect()
    }
}

/// Names become folders, so they are kept plain.
fn check_name(name: &str) -> Result<(), LabError> {
    let good = names::is_plain(name, MAX_NAME_BYTES);
    good.then_some(()).ok_or_else(|| LabError::BadLabName {
        name: name.to_owned(),
    })
}

/// The folder of all labs of this user, made if need be.
fn base() -> Result<PathBuf, LabError> {
    let base = base_path();
    match DirBuilder::new().mode(0o700).create(&base) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed(&base, error));
        }
        _ => {}
    }
    // In a world-writable folder, another user may have created it first.
    let is_own_folder = fs::symlink_metadata(&base)
        .map(|found| found.is_dir() && found.uid() == geteuid().as_raw())
        .map_err(|source| failed(&base, source))?;
    if !is_own_folder {
        return Err(LabError::StateOwner { path: base });
    }
    Ok(base)
}

/// XDG_RUNTIME_DIR is believed only if it is this user's: su and sudo may leave another's.
fn base_path() -> PathBuf {
    let uid = geteuid().as_raw();
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let is_own = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.uid() == uid);
    match runtime.filter(|path| path.is_absolute()).filter(is_own) {
        Some(runtime) => runtime.join("reweave-lab"),
        None => env::temp_dir().join(format!("reweave-lab-{uid}")),
    }
}

fn folders(base: &Path) -> impl Iterator<Item = Running> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        check_name(&name).ok()?;
        let folder = entry.path();
        Some(Running { name, folder })
    })
}

/// Removes what this user's dead labs have left behind.
pub(crate) fn sweep() -> Result<(), LabError> {
    let base = base()?;
    let _turn = Turn::to_change(&base)?;
    sweep_in(&base);
    Ok(())
}

fn sweep_in(base: &Path) {
    for dead in folders(base).filter(|lab| !lab.is_locked()) {
        remove(&dead.folder);
    }
}

/// Removes a lab's folder, and nothing in it that is not ours.
fn remove(folder: &Path) {
    for file in [
        READY_FILE,
        CONTROL_SOCKET,
        RECORD_FILE,
        "lab.json.new",
        LOCK_FILE,
    ] {
        let _ = fs::remove_file(folder.join(file));
    }
    let _ = fs::remove_dir(folder);
}

/// Makes the folder and locks it; `None` when another process holds the lock.
fn lock_new(folder: &Path) -> io::Result<Option<File>> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let lock = open_lock(&folder.join(LOCK_FILE))?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true).open(path)
}

/// The path of a file in an open folder. It is valid inside the lab, too, and fits into the address of a Unix socket
/// (107 bytes) however long the folder's own path is.
fn path_in(folder: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}

fn failed(path: &Path, source: io::Error) -> LabError {
    LabError::State {
        path: path.to_owned(),
        source,
    }
}
