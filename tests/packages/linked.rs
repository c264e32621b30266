//! What is in a package of other people's code: as its list tells, and as its programs show.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The sources of crates lie in there, in a folder for each registry.
const REGISTRY_SOURCES: &[u8] = b"/registry/src/";

pub(crate) struct Package {
    folder: TempDir,
}

#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) licence: String,
    pub(crate) texts: usize,
}

impl Package {
    pub(crate) fn unpacked(package: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder of our own");
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("--extract").arg(package).arg(folder.path());
        assert!(unpack.status().expect("it starts").success());
        Self { folder }
    }

    /// By name and version, joined as the folders of their sources are.
    pub(crate) fn entries(&self) -> BTreeMap<String, Entry> {
        let lists = files(&self.folder.path().join("usr/share/doc"));
        let mut lists = lists.iter().filter(|it| it.ends_with("third-party.gz"));
        let list = lists.next().expect("a list of what is linked");
        let output = Command::new("zcat").arg(list).output().expect("it starts");
        let text = String::from_utf8(output.stdout).expect("it is text");
        let (entries, texts) = text.split_once("\n====").expect("entries and texts");
        assert!(texts.contains("WITHOUT WARRANTY OF ANY KIND"), "no texts");
        entries.split("\n\n").filter_map(entry).collect()
    }

    /// Crates whose sources the programs name.
    pub(crate) fn linked(&self) -> BTreeSet<String> {
        let mut linked = BTreeSet::new();
        for program in self.programs() {
            let bytes = fs::read(&program).expect("it can be read");
            linked.extend(named_in(&bytes));
        }
        linked
    }

    /// What runs on other machines.
    fn programs(&self) -> Vec<PathBuf> {
        let folders = ["usr/bin", "usr/lib/reweave"].map(|it| self.folder.path().join(it));
        let folders = folders.iter().filter(|it| it.is_dir());
        folders.flat_map(|folder| files(folder)).collect()
    }

    /// Libraries without which the programs do not start.
    pub(crate) fn needed(&self) -> BTreeSet<String> {
        let programs = self.programs();
        programs.iter().flat_map(|it| needed_by(it)).collect()
    }
}

fn needed_by(program: &Path) -> Vec<String> {
    let mut readelf = Command::new("readelf");
    let output = readelf.arg("--dynamic").arg("--wide").arg(program).output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{}", program.display());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = said.lines().filter(|line| line.contains("(NEEDED)"));
    let names = lines.filter_map(|line| line.split(['[', ']']).nth(1));
    names.map(str::to_owned).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let (folders, mut all): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    all.extend(folders.iter().flat_map(|folder| files(folder)));
    all
}

fn entry(text: &str) -> Option<(String, Entry)> {
    let (first, rest) = text.trim_start().split_once('\n')?;
    let (krate, licence) = first.split_once(": ")?;
    let (name, version) = krate.split_once(' ')?;
    let entry = Entry {
        licence: licence.to_owned(),
        texts: rest.matches(": text ").count(),
    };
    Some((format!("{name}-{version}"), entry))
}

fn named_in(bytes: &[u8]) -> impl Iterator<Item = String> {
    let places = bytes.windows(REGISTRY_SOURCES.len()).enumerate();
    let places = places.filter(|(_, window)| *window == REGISTRY_SOURCES);
    places.filter_map(|(at, _)| {
        let rest = &bytes[at + REGISTRY_SOURCES.len()..];
        let mut folders = rest.split(|byte| *byte == b'/').skip(1);
        let krate = std::str::from_utf8(folders.next()?).ok()?;
        (krate.len() < 100).then(|| krate.to_owned())
    })
}
