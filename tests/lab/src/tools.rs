//! The system's tools a lab is built with: where they are, and which package brings one that is
//! missing.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::LabError;

/// The one list of what a machine must have.
const PACKAGE_LIST: &str = include_str!("../../../deploy/packages.txt");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Ip,
    Tc,
    Nft,
}

impl Tool {
    const ALL: [Self; 3] = [Self::Ip, Self::Tc, Self::Nft];

    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Tc => "tc",
            Self::Nft => "nft",
        }
    }

    /// The arguments that make the tool read a script from its standard input.
    pub(crate) fn batch_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Ip | Self::Tc => &["-batch", "-"],
            Self::Nft => &["-f", "-"],
        }
    }

    /// The Debian package that brings it.
    pub(crate) fn package(self) -> &'static str {
        // ip and tc come together, and the list proves the package by one command.
        let proof = if self == Self::Ip {
            "tc"
        } else {
            self.program()
        };
        let fields = PACKAGE_LIST.lines().map(|line| line.split_whitespace());
        fields
            .filter_map(|mut fields| Some((fields.nth(1)?, fields.next()?)))
            .find(|(_, proven_by)| *proven_by == proof)
            .map_or(self.program(), |(package, _)| package)
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program())
    }
}

/// Path of each tool.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    paths: [PathBuf; Tool::ALL.len()],
}

impl Tools {
    /// Finds all tools, or names the first that is missing and its package.
    pub(crate) fn find() -> Result<Self, LabError> {
        let search = search_path();
        let found = |tool: Tool| find_in(&search, tool.program());
        let [ip, tc, nft] = Tool::ALL.map(|tool| found(tool).ok_or(LabError::MissingTool { tool }));
        Ok(Self {
            paths: [ip?, tc?, nft?],
        })
    }

    pub(crate) fn path(&self, tool: Tool) -> &Path {
        &self.paths[tool as usize]
    }
}

/// Returns PATH with the sbin folder beside each bin folder: network tools are there, and an ordinary user's PATH often
/// lacks them.
pub(crate) fn search_path() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in env::split_paths(&path).filter(|folder| folder.is_absolute()) {
        let sibling = folder
            .ends_with("bin")
            .then(|| folder.with_file_name("sbin"));
        folders.extend([Some(folder), sibling].into_iter().flatten());
    }
    let mut seen = std::collections::BTreeSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    // A split path can always be joined again.
    env::join_paths(folders).unwrap_or(path)
}

fn find_in(search: &OsString, program: &str) -> Option<PathBuf> {
    env::split_paths(search)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_its_package() {
        assert_eq!(
            Tool::ALL.map(Tool::package),
            ["iproute2", "iproute2", "nftables"]
        );
    }

    #[test]
    fn missing_tool_is_not_found() {
        assert_eq!(find_in(&OsString::from("/nowhere"), "ip"), None);
        assert_eq!(find_in(&OsString::new(), "ip"), None);
    }
}
