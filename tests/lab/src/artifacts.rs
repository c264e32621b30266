//! Records of a failed lab: a folder under `artifacts/` with events, captured packets, and the network state of each
//! node.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use reweave_common::ids::NodeId;

use crate::capture::Capture;
use crate::cluster::Cluster;
use crate::error::LabError;
use crate::parallel::in_parallel;

/// Relative to the folder in which the lab was started.
const ARTIFACTS_FOLDER: &str = "artifacts";
/// The user should have removed old folders by then.
const MAX_FOLDERS_PER_LAB: usize = 10_000;

/// Commands whose output is recorded, for each node and for the duct of the wires.
const STATE_COMMANDS: &[&str] = &[
    "ip -d -s link",
    "ip address",
    "ip route show table all",
    "ip rule",
    "ip nexthop",
    "ip neigh",
    "tc -s qdisc",
    "nft list ruleset",
    "ss -tni",
    "cat /proc/net/snmp /proc/net/netstat",
];

/// A file to be kept: its name and what is in it.
pub(crate) type KeptFile = (String, Vec<u8>);

/// Writes the given files, the captures and the state of all nodes into a new folder, and returns its path. If data of
/// a node cannot be read, the error is written in its place.
pub(crate) fn keep(
    lab: &str,
    cluster: &Cluster,
    captures: &[Capture],
    files: &[KeptFile],
) -> Result<PathBuf, LabError> {
    let folder = new_folder(Path::new(ARTIFACTS_FOLDER), lab)?;
    let write = |name: &str, content: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, content).map_err(|source| LabError::Keep { path, source })
    };
    for (name, content) in files {
        write(name, content)?;
    }
    for capture in captures {
        let name = cluster.fabric().name(capture.node);
        match capture.file(cluster) {
            Ok(file) => write(&format!("{name}.pcapng"), &file)?,
            Err(error) => write(
                &format!("{name}.pcapng.failed"),
                error.to_string().as_bytes(),
            )?,
        }
    }
    in_parallel(cluster.fabric().nodes().len(), |index| {
        let node = NodeId::from_index(index);
        let state = answers(cluster.command(node, "sh"));
        write(&format!("{}.txt", cluster.fabric().name(node)), &state)
    })?;
    if let Some(shell) = cluster.wires().command("sh") {
        write("wires.txt", &answers(shell))?;
    }
    Ok(folder)
}

/// The first free one of `NAME-1`, `NAME-2`, ...: what was kept before stays.
fn new_folder(parent: &Path, name: &str) -> Result<PathBuf, LabError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| LabError::Keep { path, source }
    };
    fs::create_dir_all(parent).map_err(failed(parent))?;
    for number in 1..=MAX_FOLDERS_PER_LAB {
        let folder = parent.join(format!("{name}-{number}"));
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(&folder)(error)),
            Ok(()) => return Ok(folder),
        }
    }
    Err(failed(parent)(io::ErrorKind::AlreadyExists.into()))
}

/// Returns the output of the commands, each below its command line.
fn answers(mut shell: Command) -> Vec<u8> {
    let output = shell.args(["-c", &script(STATE_COMMANDS)]).output();
    match output {
        Ok(output) => output.stdout,
        Err(error) => format!("cannot ask: {error}\n").into_bytes(),
    }
}

fn script(questions: &[&str]) -> String {
    let ask = |question: &&str| format!("echo '$ {question}'; {question} 2>&1; echo\n");
    questions.iter().map(ask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_artifacts_stay() {
        let parent = std::env::temp_dir().join(format!("reweave-kept-{}", std::process::id()));
        let first = new_folder(&parent, "lab").unwrap();
        fs::write(first.join("file"), "kept").unwrap();
        let second = new_folder(&parent, "lab").unwrap();
        assert_eq!(first, parent.join("lab-1"));
        assert_eq!(second, parent.join("lab-2"));
        assert_eq!(fs::read(first.join("file")).unwrap(), b"kept");
        fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    fn uncreatable_folder_is_named() {
        let error = new_folder(Path::new("/dev/null/x"), "lab").unwrap_err();
        assert!(error.to_string().contains("/dev/null/x"), "{error}");
    }

    #[test]
    fn each_answer_stands_under_its_question() {
        let mut shell = Command::new("sh");
        let output = shell
            .args(["-c", &script(&["echo yes", "no-such-tool"])])
            .output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(
            text.starts_with("$ echo yes\nyes\n\n$ no-such-tool\n"),
            "{text}"
        );
        assert!(text.contains("not found"), "{text}");
    }
}
