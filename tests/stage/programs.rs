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
        let found = Self {
            folder: folder.to_owned(),
        };
        let paths = Self::ALL.map(|name| found.folder.join(name));
        match paths.into_iter().find(|path| !path.is_file()) {
            Some(path) => Err(StageError::NoProgram { path }),
            None => Ok(found),
        }
    }

    /// Those that were built elsewhere.
    pub fn in_folder(folder: &Path) -> Self {
        let folder = folder.to_owned();
        Self { folder }
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
