//! Files that commands write where `--out` names them: one rule for all.
//!
//! A symbolic link stands for its target. A regular file is replaced as a whole or not at all, keeps its mode and owner, and
//! is refused without `--force`. Pipes and devices are written through: they hold nothing that could be lost.

use std::fs::{self, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use tempfile::Builder;

use crate::error::CliError;

/// Mode of a new file; the umask takes bits away.
const NEW_MODE: u32 = 0o666;
/// As many as the kernel follows (`path_resolution(7)`).
const MAX_LINKS: usize = 40;

/// Refuses a regular file that exists, before anything is requested for it.
pub(crate) fn expect_free(path: &Path, force: bool) -> Result<(), CliError> {
    let is_file = fs::metadata(path).is_ok_and(|about| about.is_file());
    if is_file && !force {
        let path = path.to_owned();
        return Err(CliError::IsThere { path });
    }
    Ok(())
}

pub(crate) fn write(path: &Path, text: &str, force: bool) -> Result<(), CliError> {
    expect_free(path, force)?;
    overwrite(path, text).map_err(|source| CliError::Write {
        path: path.to_owned(),
        source,
    })
}

/// Writes the file, whether or not it exists.
pub(crate) fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(about) if about.is_file() => replace(&fs::canonicalize(path)?, text, Some(&about)),
        Ok(_) => {
            let mut file = OpenOptions::new().write(true).open(path)?;
            file.write_all(text.as_bytes())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => replace(&target(path), text, None),
        Err(error) => Err(error),
    }
}

/// Returns the path to which links lead. No file has it yet.
fn target(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(link) = fs::read_link(&path) else {
            break;
        };
        path = folder_of(&path).join(link);
    }
    path
}

/// An empty parent stands for the current folder: it is that of a bare name.
fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn replace(path: &Path, text: &str, old: Option<&Metadata>) -> io::Result<()> {
    let mut draft = Builder::new()
        .permissions(Permissions::from_mode(NEW_MODE))
        .tempfile_in(folder_of(path))?;
    draft.write_all(text.as_bytes())?;
    if let Some(old) = old {
        let new = draft.as_file().metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            // Only root can give a file away. Anyone else who may replace it becomes its owner.
            let _ = fchown(draft.as_file(), Some(old.uid()), Some(old.gid()));
        }
        // Last, because chown(2) clears bits of the mode.
        draft.as_file().set_permissions(old.permissions())?;
    }
    draft.as_file().sync_all()?;
    let placed = match old {
        Some(_) => draft.persist(path),
        None => draft.persist_noclobber(path),
    };
    Ok(placed.map(drop)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    use std::process::Command;
    use std::thread;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn existing_file_needs_force() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plan.json");
        write(&file, "first", false).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let refused = write(&file, "second", false).unwrap_err();
        assert_eq!(refused.exit_code(), 2);
        let words = refused.error_chain();
        assert!(
            words.ends_with("plan.json exists already; --force overwrites it"),
            "{words}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), "first");
        write(&file, "second", true).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "second");
        assert_eq!(mode(&file), 0o640);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no draft is left"
        );
    }

    #[test]
    fn symbolic_link_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [link, file] = ["link", "file"].map(|name| folder.path().join(name));
        symlink("file", &link).unwrap();
        write(&link, "new", false).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        write(&link, "other", false).unwrap_err();
        write(&link, "other", true).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "other");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn pipe_is_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let reader = thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        write(&pipe, "a plan", false).unwrap();
        assert_eq!(reader.join().unwrap(), "a plan");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    }

    #[test]
    fn folder_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let refused = write(folder.path(), "a plan", true).unwrap_err();
        assert_eq!(refused.exit_code(), 1);
        assert!(folder.path().is_dir());
    }
}
