//! `config.toml` of a user: clusters stored under names.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{fs, path};

use reweave_common::input::{Document, InputError};
use reweave_common::names::{MAX_NAME_BYTES, is_plain, refusal};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::ask::own_folder;
use crate::error::CliError;
use crate::out_file;

const FILE_HEAD: &str = "# Written by `reweave context`, which keeps no comments.\n\n";

/// Addresses and identity with which commands reach a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Context {
    pub(crate) name: String,
    pub(crate) coordinators: Vec<String>,
    /// Folder with ca.pem, node.pem and node.key. They are renewed together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<PathBuf>,
}

/// All contexts, in the order of the file.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ContextConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    #[serde(rename = "context", skip_serializing_if = "Vec::is_empty")]
    pub(crate) all: Vec<Context>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawContextConfig {
    current: Option<Spanned<String>>,
    #[serde(default)]
    context: Vec<RawContext>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawContext {
    name: Spanned<String>,
    coordinators: Spanned<Vec<String>>,
    identity: Option<PathBuf>,
}

/// Returns the path of the file, or nothing without a home folder.
pub(crate) fn config_path() -> Option<PathBuf> {
    Some(own_folder("XDG_CONFIG_HOME", ".config")?.join("reweave/config.toml"))
}

impl ContextConfig {
    /// Reads the file. A missing file has no contexts.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if is_absent(error.kind()) => return Ok(Self::default()),
            Err(source) => {
                let path = path.to_owned();
                return Err(CliError::Read { path, source });
            }
        };
        let mut read = parsed(&path.display().to_string(), &text).map_err(CliError::Input)?;
        let folder = path.parent().unwrap_or(path);
        for context in &mut read.all {
            context.identity = context.identity.take().map(|given| folder.join(given));
        }
        Ok(read)
    }

    /// Replaces the file atomically.
    pub(crate) fn write(&self, path: &Path) -> Result<(), CliError> {
        let text = toml::to_string(self).map_err(CliError::Toml)?;
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = made.and_then(|()| out_file::overwrite(path, &format!("{FILE_HEAD}{text}")));
        written.map_err(|source| CliError::Write {
            path: path.to_owned(),
            source,
        })
    }

    pub(crate) fn find(&self, name: &str) -> Result<&Context, CliError> {
        let found = self.all.iter().find(|context| context.name == name);
        found.ok_or_else(|| CliError::NoSuchContext {
            name: name.to_owned(),
        })
    }

    /// Stores a context; options that are not given keep their values. The first context becomes the current one.
    pub(crate) fn set(&mut self, given: Context) -> Result<(), CliError> {
        let identity = given.identity.as_deref().map(absolute).transpose()?;
        let known = self.all.iter_mut().find(|it| it.name == given.name);
        match known {
            Some(context) => {
                if !given.coordinators.is_empty() {
                    context.coordinators = given.coordinators;
                }
                context.identity = identity.or(context.identity.take());
            }
            None if given.coordinators.is_empty() => {
                return Err(CliError::NoCoordinators { name: given.name });
            }
            None => {
                if self.all.is_empty() {
                    self.current = Some(given.name.clone());
                }
                self.all.push(Context { identity, ..given });
            }
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, name: &str) -> Result<(), CliError> {
        self.find(name)?;
        self.all.retain(|context| context.name != name);
        self.current = self.current.take().filter(|current| current != name);
        Ok(())
    }
}

/// Returns the named context, else the current one.
pub(crate) fn selected(name: Option<&str>) -> Result<Option<Context>, CliError> {
    let contexts = match config_path() {
        Some(path) => ContextConfig::read(&path)?,
        None => ContextConfig::default(),
    };
    let name = name.or(contexts.current.as_deref());
    name.map(|name| contexts.find(name).cloned()).transpose()
}

fn absolute(folder: &Path) -> Result<PathBuf, CliError> {
    path::absolute(folder).map_err(|source| CliError::Read {
        path: folder.to_owned(),
        source,
    })
}

fn is_absent(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn parsed(file: &str, text: &str) -> Result<ContextConfig, InputError> {
    let document = Document::new(file, text);
    let read: RawContextConfig = document.table()?.finish()?;
    let mut all: Vec<Context> = Vec::new();
    for one in read.context {
        let (at, name) = (one.name.span(), one.name.into_inner());
        if !is_plain(&name, MAX_NAME_BYTES) {
            return Err(document.error(at, refusal(&name, "context")));
        }
        if all.iter().any(|it| it.name == name) {
            return Err(document.error(at, format!("a context named {name} exists already")));
        }
        if one.coordinators.get_ref().iter().all(String::is_empty) {
            let span = one.coordinators.span();
            return Err(document.error(span, "a context needs at least one coordinator"));
        }
        all.push(Context {
            name,
            coordinators: one.coordinators.into_inner(),
            identity: one.identity,
        });
    }
    let is_known = |name: &String| all.iter().any(|it| it.name == *name);
    if let Some(current) = read.current.as_ref().filter(|it| !is_known(it.get_ref())) {
        let problem = format!("there is no context named {}", current.get_ref());
        return Err(document.error(current.span(), problem));
    }
    Ok(ContextConfig {
        current: read.current.map(Spanned::into_inner),
        all,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(name: &str, coordinators: &[&str], identity: Option<&str>) -> Context {
        Context {
            name: name.to_owned(),
            coordinators: coordinators.iter().map(|it| (*it).to_owned()).collect(),
            identity: identity.map(PathBuf::from),
        }
    }

    #[test]
    fn context_error_names_line_and_key() {
        let lab = "[[context]]\nname = \"lab\"\ncoordinators = [\"10.0.0.1\"]\n";
        for (text, expected) in [
            (
                format!("{lab}colour = 3\n"),
                "c.toml:4: colour: this key is unknown",
            ),
            (
                format!("{lab}{lab}"),
                "c.toml:5: name: a context named lab exists already",
            ),
            (
                format!("current = \"new\"\n{lab}"),
                "c.toml:1: current: there is no context named new",
            ),
            (
                lab.replace("[\"10.0.0.1\"]", "[]"),
                "c.toml:3: coordinators: a context needs",
            ),
            (
                lab.replace("\"lab\"", "\"../lab\""),
                "c.toml:2: name: \"../lab\" is not a valid name",
            ),
        ] {
            let said = parsed("c.toml", &text).unwrap_err().to_string();
            assert!(said.starts_with(expected), "{said}");
        }
    }

    #[test]
    fn contexts_survive_write_and_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reweave/config.toml");
        assert_eq!(
            ContextConfig::read(&path).unwrap(),
            ContextConfig::default()
        );
        let mut contexts = ContextConfig::default();
        let lab = context("lab", &["10.0.0.1", "10.0.0.2:7000"], Some("/certificates"));
        contexts.set(lab.clone()).unwrap();
        contexts
            .set(context("prod", &["prod.example"], None))
            .unwrap();
        contexts.write(&path).unwrap();
        let read = ContextConfig::read(&path).unwrap();
        assert_eq!(read, contexts);
        assert_eq!(read.current.as_deref(), Some("lab"));
        assert_eq!(read.find("lab").unwrap(), &lab);
    }

    #[test]
    fn relative_identity_starts_at_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        let text = "[[context]]\nname = \"lab\"\ncoordinators = [\"a\"]\nidentity = \"lab\"\n";
        fs::write(&path, text).unwrap();
        let read = ContextConfig::read(&path).unwrap();
        let identity = read.find("lab").unwrap().identity.clone();
        assert_eq!(identity, Some(folder.path().join("lab")));
    }

    #[test]
    fn set_keeps_what_is_not_given() {
        let mut contexts = ContextConfig::default();
        let nothing = contexts.set(context("lab", &[], None)).unwrap_err();
        assert_eq!(nothing.exit_code(), 2);
        contexts
            .set(context("lab", &["10.0.0.1"], Some("/a")))
            .unwrap();
        contexts.set(context("lab", &["10.0.0.2"], None)).unwrap();
        let expected = context("lab", &["10.0.0.2"], Some("/a"));
        assert_eq!(contexts.find("lab").unwrap(), &expected);
        contexts.set(context("lab", &[], Some("/b"))).unwrap();
        let expected = context("lab", &["10.0.0.2"], Some("/b"));
        assert_eq!(contexts.find("lab").unwrap(), &expected);
    }

    #[test]
    fn removed_context_is_no_longer_current() {
        let mut contexts = ContextConfig::default();
        for name in ["lab", "prod"] {
            contexts.set(context(name, &["10.0.0.1"], None)).unwrap();
        }
        contexts.remove("prod").unwrap();
        assert_eq!(contexts.current.as_deref(), Some("lab"));
        contexts.remove("lab").unwrap();
        assert_eq!(contexts, ContextConfig::default());
        assert_eq!(contexts.remove("lab").unwrap_err().exit_code(), 2);
    }
}
