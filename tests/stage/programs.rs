//! The programs of the product and of the lab, as they were built together with this one.

use std::env;
use std::path::{Path, PathBuf};

use crate::error::StageError;

#[derive(Debug, Clone)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    const ALL: [&str; 5] = [
        "reweave",
        "reweave-agent",
        "reweave-coordinator",
        "reweave-driver",
        "reweave-lab",
    ];

    /// Those in the folder of this program; for a test, in the folder above.
    pub fn beside_this() -> Result<Self, StageError> {
        let this = env::current_exe().map_err(StageError::Nowhere)?;
        let folder = this.parent().unwrap_or(Path::new("."));
        let folder = match folder.file_name() {
            Some(name) if name == "deps" => folder.parent().unwrap_or(folder),
            _ => folder,
        };
        Self::with_all(folder, &Self::ALL)
    }

    /// Those of the product that were built elsewhere.
    pub fn in_folder(folder: &Path) -> Result<Self, StageError> {
        Self::with_all(folder, &Self::ALL[..4])
    }

    fn with_all(folder: &Path, names: &[&str]) -> Result<Self, StageError> {
        let paths = names.iter().map(|name| folder.join(name));
        match paths.into_iter().find(|path| !path.is_file()) {
            Some(path) => Err(StageError::NoProgram { path }),
            None => Ok(Self {
                folder: folder.to_owned(),
            }),
        }
    }

    pub fn reweave(&self) -> PathBuf {
        self.folder.join("reweave")
    }

    pub fn agent(&self) -> PathBuf {
        self.folder.join("reweave-agent")
    }

    pub fn coordinator(&self) -> PathBuf {
        self.folder.join("reweave-coordinator")
    }

    pub fn driver(&self) -> PathBuf {
        self.folder.join("reweave-driver")
    }

    pub fn lab(&self) -> PathBuf {
        self.folder.join("reweave-lab")
    }
}
