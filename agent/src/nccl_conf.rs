//! NCCL's settings on this host: a marked block of its file, without changes to foreign lines.
//!
//! NCCL keeps the first of two lines that set one variable, without a message. So a variable that is already set is
//! reported instead.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use reweave_link::durable_files::{take_place, write_beside};
use thiserror::Error;

/// NCCL passes over lines with neither a name nor a value.
const BLOCK_BEGIN: &str = "# Reweave's, until the line that ends it";
const BLOCK_END: &str = "# Reweave's ends here";
/// NCCL takes no more of a name or a value.
const MAX_VALUE_BYTES: usize = 1023;
const WORLD_READABLE_MODE: u32 = 0o644;

#[derive(Debug, Error)]
pub enum ConfError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{}: line {line}: Reweave's block has no end; fix the file first, nothing is changed \
             until then", path.display())]
    Open { path: PathBuf, line: usize },
    #[error("{}: line {line} already sets {name}, and NCCL uses the first; nothing was changed", path.display())]
    Foreign {
        path: PathBuf,
        line: usize,
        name: String,
    },
    #[error(
        "{line:?} is not a variable of NCCL: write them as `reweave export nccl` does, \
         NCCL_ALGO=ring"
    )]
    NoVariable { line: String },
    #[error("{name} is a duplicate, and NCCL uses the first")]
    Twice { name: String },
    #[error("{}: no block of Reweave", path.display())]
    NothingToRevert { path: PathBuf },
}

/// `NAME=value` in each line, and no name twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(Vec<String>);

impl Variables {
    pub fn parse(text: &str) -> Result<Self, ConfError> {
        let mut all: Vec<String> = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let bad = || ConfError::NoVariable {
                line: line.chars().take(80).collect(),
            };
            let (name, value) = line.split_once('=').ok_or_else(bad)?;
            let plain =
                |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
            let is_name = name.starts_with("NCCL_") && name.bytes().all(plain);
            let is_printable = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
            let is_short = name.len().max(value.len()) <= MAX_VALUE_BYTES;
            if !is_name || !is_printable || !is_short {
                return Err(bad());
            }
            if all.iter().any(|other| sets(other, name)) {
                let name = name.to_owned();
                return Err(ConfError::Twice { name });
            }
            all.push(line.to_owned());
        }
        Ok(Self(all))
    }
}

fn sets(line: &str, name: &str) -> bool {
    line.strip_prefix(name)
        .is_some_and(|rest| rest.starts_with('='))
}

/// The file, which need not be there.
#[derive(Debug)]
pub struct Conf {
    path: PathBuf,
    /// What others have written, before and behind our block.
    before: String,
    behind: String,
    /// The present content of our block.
    ours: Option<String>,
}

impl Conf {
    pub fn read(path: &Path) -> Result<Self, ConfError> {
        match fs::read_to_string(path) {
            Ok(text) => Self::of(path, &text),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Self::of(path, ""),
            Err(source) => Err(ConfError::Read {
                path: path.to_owned(),
                source,
            }),
        }
    }

    fn of(path: &Path, text: &str) -> Result<Self, ConfError> {
        let mut conf = Self {
            // Where it is a link, what it leads to is changed.
            path: fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            before: text.to_owned(),
            behind: String::new(),
            ours: None,
        };
        let begin = format!("{BLOCK_BEGIN}\n");
        let at_line = |at: usize| at == 0 || text.as_bytes().get(at - 1) == Some(&b'\n');
        let Some(at) = text.find(&begin).filter(|at| at_line(*at)) else {
            return Ok(conf);
        };
        let (before, rest) = text.split_at(at);
        let rest = rest.strip_prefix(&begin).unwrap_or(rest);
        let (ours, behind) =
            rest.split_once(&format!("{BLOCK_END}\n"))
                .ok_or_else(|| ConfError::Open {
                    path: path.to_owned(),
                    line: before.lines().count() + 1,
                })?;
        conf.before = before.to_owned();
        conf.behind = behind.to_owned();
        conf.ours = Some(ours.to_owned());
        Ok(conf)
    }

    /// The file with these in place of what was in our block.
    pub fn with(&self, variables: &Variables) -> Result<String, ConfError> {
        self.is_free_for(variables)?;
        let mut before = self.before.clone();
        if !before.is_empty() && !before.ends_with('\n') {
            before.push('\n');
        }
        let lines: String = variables.0.iter().map(|it| format!("{it}\n")).collect();
        Ok(format!(
            "{before}{BLOCK_BEGIN}\n{lines}{BLOCK_END}\n{}",
            self.behind
        ))
    }

    fn is_free_for(&self, variables: &Variables) -> Result<(), ConfError> {
        let skipped = self
            .ours
            .as_ref()
            .map_or(0, |ours| ours.lines().count() + 2);
        let before = self.before.lines().enumerate();
        let behind = self.behind.lines().enumerate();
        let first = self.before.lines().count() + skipped;
        let foreign = before.chain(behind.map(|(at, line)| (at + first, line)));
        for (at, line) in foreign {
            let names = variables.0.iter().filter_map(|it| it.split('=').next());
            if let Some(name) = names.into_iter().find(|name| sets(line, name)) {
                return Err(ConfError::Foreign {
                    path: self.path.clone(),
                    line: at + 1,
                    name: name.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// The present content, of any author.
    pub fn text(&self) -> String {
        match &self.ours {
            Some(ours) => format!(
                "{}{BLOCK_BEGIN}\n{ours}{BLOCK_END}\n{}",
                self.before, self.behind
            ),
            None => self.before.clone(),
        }
    }

    /// Replaces the file atomically: after a kill, the old or the new content is there.
    pub fn apply(&self, variables: &Variables) -> Result<String, ConfError> {
        let text = self.with(variables)?;
        self.write(&text)?;
        Ok(text)
    }

    /// Our block goes, and what others have written stays.
    pub fn revert(&self) -> Result<String, ConfError> {
        if self.ours.is_none() {
            let path = self.path.clone();
            return Err(ConfError::NothingToRevert { path });
        }
        let text = format!("{}{}", self.before, self.behind);
        if text.is_empty() {
            fs::remove_file(&self.path).map_err(|source| self.not_written(source))?;
        } else {
            self.write(&text)?;
        }
        Ok(text)
    }

    fn write(&self, text: &str) -> Result<(), ConfError> {
        self.replace(text)
            .map_err(|source| self.not_written(source))
    }

    /// Jobs of all users read it, so the mode of the previous file is kept.
    fn replace(&self, text: &str) -> io::Result<()> {
        let mode = fs::metadata(&self.path).map(|there| there.permissions());
        let mode = mode.unwrap_or_else(|_| Permissions::from_mode(WORLD_READABLE_MODE));
        write_beside(&self.path, text.as_bytes())?.set_permissions(mode)?;
        take_place(&self.path)
    }

    fn not_written(&self, source: io::Error) -> ConfError {
        ConfError::Write {
            path: self.path.clone(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOREIGN_LINES: &str = "# ours since 2021\nNCCL_DEBUG=WARN\n";

    fn variables(text: &str) -> Variables {
        Variables::parse(text).unwrap()
    }

    fn scene(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nccl.conf");
        fs::write(&path, text).unwrap();
        (folder, path)
    }

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn conf_block_reverts_to_original_lines() {
        let (_folder, path) = scene(FOREIGN_LINES);
        let conf = |path: &Path| Conf::read(path).unwrap();
        conf(&path).apply(&variables("NCCL_ALGO=ring\n")).unwrap();
        assert_eq!(
            read(&path),
            format!("{FOREIGN_LINES}{BLOCK_BEGIN}\nNCCL_ALGO=ring\n{BLOCK_END}\n")
        );
        fs::write(&path, format!("{}NCCL_IB_TC=104\n", read(&path))).unwrap();
        let next = variables("NCCL_ALGO=tree\nNCCL_PROTO=simple\n");
        let text = conf(&path).apply(&next).unwrap();
        assert_eq!(conf(&path).apply(&next).unwrap(), text, "once is enough");
        assert_eq!(conf(&path).text(), read(&path));
        let block = format!("{BLOCK_BEGIN}\nNCCL_ALGO=tree\nNCCL_PROTO=simple\n{BLOCK_END}\n");
        assert_eq!(
            read(&path),
            format!("{FOREIGN_LINES}{block}NCCL_IB_TC=104\n")
        );
        conf(&path).revert().unwrap();
        assert_eq!(read(&path), format!("{FOREIGN_LINES}NCCL_IB_TC=104\n"));
        let nothing = conf(&path).revert().unwrap_err().to_string();
        assert!(nothing.ends_with("no block of Reweave"), "{nothing}");
    }

    #[test]
    fn created_conf_file_is_removed() {
        let (_folder, path) = scene("");
        fs::remove_file(&path).unwrap();
        let conf = || Conf::read(&path).unwrap();
        conf().apply(&variables("NCCL_ALGO=ring")).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, WORLD_READABLE_MODE);
        conf().revert().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn foreign_variable_is_named_with_line() {
        let refused = |text: &str| {
            let (_folder, path) = scene(text);
            let refused = Conf::read(&path)
                .unwrap()
                .apply(&variables("NCCL_DEBUG=INFO"));
            assert_eq!(read(&path), text);
            refused.unwrap_err().to_string()
        };
        assert!(refused(FOREIGN_LINES).contains("nccl.conf: line 2 already sets NCCL_DEBUG"));
        let behind = format!("{BLOCK_BEGIN}\nNCCL_ALGO=ring\n{BLOCK_END}\nNCCL_DEBUG=WARN\n");
        assert!(refused(&behind).contains("line 4 already sets NCCL_DEBUG"));
        let open = format!("NCCL_ALGO=ring\n{BLOCK_BEGIN}\nNCCL_PROTO=simple\n");
        let (_folder, path) = scene(&open);
        let message = Conf::read(&path).unwrap_err().to_string();
        assert!(
            message.contains("line 2: Reweave's block has no end"),
            "{message}"
        );
    }

    #[test]
    fn invalid_nccl_variables_are_refused() {
        let long = format!("NCCL_IB_HCA={}", "x".repeat(1024));
        for text in [
            "ring",
            "PATH=/bin",
            "NCCL_ALGO =ring",
            "NCCL_ALGO=ri\u{1b}ng",
            &long,
        ] {
            assert!(Variables::parse(text).is_err(), "{text}");
        }
        let twice = Variables::parse("NCCL_ALGO=ring\nNCCL_ALGO=tree").unwrap_err();
        assert_eq!(
            twice.to_string(),
            "NCCL_ALGO is a duplicate, and NCCL uses the first"
        );
        assert_eq!(
            variables("\nNCCL_IB_HCA==mlx5_0\n\n").0,
            ["NCCL_IB_HCA==mlx5_0"]
        );
    }
}
