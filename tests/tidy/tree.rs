//! Reads the tree: its packages from `cargo metadata`, its text files from the working directory.
//! The checkers see only what this module hands them, so they can be shown planted faults.

use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand, TargetKind};
use ignore::{DirEntry, WalkBuilder};

/// One package of the workspace, as far as the checkers need it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Folder relative to the root of the tree.
    pub(crate) dir: String,
    pub(crate) description: String,
    pub(crate) manifest: String,
    pub(crate) needs: Vec<Need>,
    /// Integration test targets: name, and source file relative to the root of the tree.
    pub(crate) test_targets: Vec<(String, String)>,
}

/// One entry of a package's dependency tables.
#[derive(Debug, Clone)]
pub(crate) struct Need {
    pub(crate) package: String,
    /// Lies in this tree.
    pub(crate) own: bool,
    pub(crate) for_tests: bool,
}

/// One text file, its path relative to the root of the tree.
#[derive(Debug, Clone)]
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Package {
    pub(crate) fn manifest_path(&self) -> String {
        format!("{}/Cargo.toml", self.dir)
    }
}

pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("tests/ lies in the tree").to_owned()
}

pub(crate) fn packages() -> Vec<Package> {
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata reads the workspace");
    metadata.packages.iter().map(package).collect()
}

fn package(package: &cargo_metadata::Package) -> Package {
    let manifest_path = package.manifest_path.as_std_path();
    let dir = manifest_path.parent().expect("a manifest lies in a folder");
    Package {
        name: package.name.to_string(),
        dir: relative(dir),
        description: package.description.clone().unwrap_or_default(),
        manifest: std::fs::read_to_string(manifest_path).expect("a manifest is readable"),
        needs: package.dependencies.iter().map(need).collect(),
        test_targets: package.targets.iter().filter_map(test_target).collect(),
    }
}

fn need(dependency: &cargo_metadata::Dependency) -> Need {
    Need {
        package: dependency.name.clone(),
        own: dependency.path.is_some(),
        for_tests: dependency.kind == DependencyKind::Development,
    }
}

fn test_target(target: &cargo_metadata::Target) -> Option<(String, String)> {
    let is_test = target.kind.contains(&TargetKind::Test);
    is_test.then(|| (target.name.clone(), relative(target.src_path.as_std_path())))
}

/// All text files that belong to the tree: what git does not ignore, tracked or not yet.
pub(crate) fn text_files() -> Vec<TextFile> {
    let mut files: Vec<_> = WalkBuilder::new(root())
        .hidden(false)
        .require_git(false)
        .filter_entry(is_ours)
        .build()
        .map(|entry| entry.expect("the tree is readable"))
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .filter_map(|entry| text_file(entry.path()))
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Neither git's own folder nor a build folder, of any name.
fn is_ours(entry: &DirEntry) -> bool {
    entry.file_name() != ".git" && !entry.path().join("CACHEDIR.TAG").exists()
}

fn text_file(path: &Path) -> Option<TextFile> {
    let bytes = std::fs::read(path).expect("a file of the tree is readable");
    let text = String::from_utf8(bytes).ok()?;
    Some(TextFile {
        path: relative(path),
        text,
    })
}

fn relative(path: &Path) -> String {
    let inside = path
        .strip_prefix(root())
        .expect("the path lies in the tree");
    inside
        .to_str()
        .expect("paths of the tree are UTF-8")
        .to_owned()
}
