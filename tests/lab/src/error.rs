//! What can go wrong with a lab: one variant per failed operation, each with what to do next.

use std::fmt;
use std::io;
use std::path::PathBuf;

use nix::errno::Errno;
use reweave_common::input::InputError;

use crate::features::Feature;
use crate::tools::Tool;

#[derive(Debug)]
pub enum LabError {
    /// The scenario or fabric file says something that makes no sense.
    Input(InputError),
    ReadScenario {
        path: PathBuf,
        source: io::Error,
    },
    BadLabName {
        name: String,
    },
    FabricTooLarge {
        what: &'static str,
        count: usize,
        most: usize,
    },
    MissingTool {
        tool: Tool,
    },
    MissingFeature {
        feature: Feature,
    },
    UserNamespaces {
        hint: String,
        source: Errno,
    },
    Namespaces {
        what: &'static str,
        source: Errno,
    },
    Mount {
        what: &'static str,
        source: Errno,
    },
    Fork {
        source: Errno,
    },
    Signals {
        source: Errno,
    },
    Handshake {
        source: io::Error,
    },
    CreateNode {
        node: String,
        step: &'static str,
        source: io::Error,
    },
    Sysctl {
        node: String,
        key: String,
        source: io::Error,
    },
    EnterNode {
        node: String,
        source: Errno,
    },
    StartTool {
        tool: Tool,
        source: io::Error,
    },
    /// A tool refused a line of its script.
    ToolRefused {
        tool: Tool,
        node: String,
        line: String,
        said: String,
    },
    ListProcesses {
        source: io::Error,
    },
    State {
        path: PathBuf,
        source: io::Error,
    },
    StateOwner {
        path: PathBuf,
    },
    AlreadyRunning {
        name: String,
    },
    NoLab,
    NoSuchLab {
        name: String,
        running: Vec<String>,
    },
    WhichLab {
        running: Vec<String>,
    },
    StillStarting {
        name: String,
    },
    NoSuchNode {
        name: String,
        lab: String,
        nodes: Vec<String>,
    },
    EnterLab {
        name: String,
        source: Errno,
    },
    StartProgram {
        program: String,
        source: io::Error,
    },
    Stop {
        name: String,
        source: Errno,
    },
    StillThere {
        name: String,
    },
    Killed {
        name: String,
    },
    Say {
        source: io::Error,
    },
}

impl LabError {
    /// 2 when the user asked for something that does not exist or makes no sense, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Input(_)
            | Self::ReadScenario { .. }
            | Self::BadLabName { .. }
            | Self::FabricTooLarge { .. }
            | Self::AlreadyRunning { .. }
            | Self::NoLab
            | Self::NoSuchLab { .. }
            | Self::WhichLab { .. }
            | Self::NoSuchNode { .. } => 2,
            Self::StartProgram { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::StartProgram { .. } => 126,
            _ => 1,
        }
    }
}

impl From<InputError> for LabError {
    fn from(error: InputError) -> Self {
        Self::Input(error)
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => error.fmt(f),
            Self::ReadScenario { path, source } => {
                write!(f, "cannot read {}: {source}", path.display())
            }
            Self::BadLabName { name } => write!(
                f,
                "{name:?} is no name for a lab: use --name with up to 64 letters, digits, '-', \
                 '_', '.'"
            ),
            Self::FabricTooLarge { what, count, most } => {
                write!(
                    f,
                    "{count} {what} are more than the {most} a lab has addresses for"
                )
            }
            Self::MissingTool { tool } => write!(
                f,
                "{tool} is missing: install the package {} (Debian, Ubuntu: apt install {0})",
                tool.package()
            ),
            Self::MissingFeature { feature } => {
                write!(f, "this kernel has no {feature}: {}", feature.advice())
            }
            Self::UserNamespaces { hint, source } => write!(
                f,
                "this kernel does not let an ordinary user make namespaces ({source}): {hint}"
            ),
            Self::Namespaces { what, source } => write!(f, "cannot make {what}: {source}"),
            Self::Mount { what, source } => write!(
                f,
                "cannot mount {what} inside the lab: {source} (in a container, it must be allowed \
                 to mount: docker run --privileged)"
            ),
            Self::Fork { source } => write!(f, "cannot start the lab's first process: {source}"),
            Self::Signals { source } => write!(f, "cannot watch for signals: {source}"),
            Self::Handshake { source } => {
                write!(f, "the lab's first process did not start: {source}")
            }
            Self::CreateNode { node, step, source } => {
                write!(f, "cannot make node {node}: {step}: {source}")
            }
            Self::Sysctl { node, key, source } => {
                write!(f, "cannot set {key} in {node}: {source}")
            }
            Self::EnterNode { node, source } => write!(f, "cannot enter {node}: {source}"),
            Self::StartTool { tool, source } => write!(f, "cannot run {tool}: {source}"),
            Self::ToolRefused {
                tool,
                node,
                line,
                said,
            } => write!(f, "{tool} refused `{line}` in {node}: {said}"),
            Self::ListProcesses { source } => write!(f, "cannot list processes: {source}"),
            Self::State { path, source } => {
                write!(
                    f,
                    "cannot keep the lab's state in {}: {source}",
                    path.display()
                )
            }
            Self::StateOwner { path } => write!(
                f,
                "{} belongs to somebody else; remove it, or set XDG_RUNTIME_DIR to a folder of \
                 your own",
                path.display()
            ),
            Self::AlreadyRunning { name } => write!(
                f,
                "lab {name:?} is running already: end it with `reweave-lab down {name}`, or \
                 choose another name with --name"
            ),
            Self::NoLab => {
                f.write_str("no lab is running: start one with `reweave-lab up SCENARIO`")
            }
            Self::NoSuchLab { name, running } => {
                write!(
                    f,
                    "there is no lab {name:?}; running: {}",
                    running.join(", ")
                )
            }
            Self::WhichLab { running } => write!(
                f,
                "several labs are running: say which with --lab ({})",
                running.join(", ")
            ),
            Self::StillStarting { name } => write!(f, "lab {name:?} does not come up"),
            Self::NoSuchNode { name, lab, nodes } => {
                write!(
                    f,
                    "lab {lab:?} has no node {name:?}; it has {}",
                    nodes.join(" ")
                )
            }
            Self::EnterLab { name, source } => write!(f, "cannot enter lab {name:?}: {source}"),
            Self::StartProgram { program, source } => write!(f, "cannot run {program}: {source}"),
            Self::Stop { name, source } => write!(f, "cannot end lab {name:?}: {source}"),
            Self::StillThere { name } => write!(f, "lab {name:?} does not go away"),
            Self::Killed { name } => write!(f, "lab {name:?} was killed"),
            Self::Say { source } => write!(f, "cannot write the result: {source}"),
        }
    }
}

impl std::error::Error for LabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Input(error) => Some(error),
            Self::ReadScenario { source, .. }
            | Self::Handshake { source }
            | Self::CreateNode { source, .. }
            | Self::Sysctl { source, .. }
            | Self::StartTool { source, .. }
            | Self::ListProcesses { source }
            | Self::State { source, .. }
            | Self::StartProgram { source, .. }
            | Self::Say { source } => Some(source),
            Self::UserNamespaces { source, .. }
            | Self::Namespaces { source, .. }
            | Self::Mount { source, .. }
            | Self::Fork { source }
            | Self::Signals { source }
            | Self::EnterNode { source, .. }
            | Self::EnterLab { source, .. }
            | Self::Stop { source, .. } => Some(source),
            _ => None,
        }
    }
}
