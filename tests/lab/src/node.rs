//! Namespaces of one node: network (interfaces and routes) and UTS (host name), pinned as files inside the lab, and
//! access to them.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::fstat;
use nix::unistd::sethostname;

use crate::error::LabError;
use crate::sandbox::mount_sysfs;
use crate::signals::release_all;
use crate::tools::search_path;
use crate::wiring::Sysctl;

/// Folder in which ip searches network namespaces.
pub(crate) const NETNS_PATH: &str = "/run/netns";
pub(crate) const UTSNS_PATH: &str = "/run/uts";

/// Access to a node's namespaces. Programs and threads can enter as long as the lab runs.
#[derive(Debug, Clone)]
pub(crate) struct NodeDoor {
    name: String,
    spaces: Arc<Spaces>,
}

#[derive(Debug)]
struct Spaces {
    net: File,
    uts: File,
}

impl NodeDoor {
    /// Makes the node. The calling thread stays inside it, so it should be one made for this.
    pub(crate) fn create(name: &str, settings: &[Sysctl]) -> Result<Self, LabError> {
        let failed = |step| {
            move |source: io::Error| LabError::CreateNode {
                node: name.to_owned(),
                step,
                source,
            }
        };
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWUTS)
            .map_err(|errno| failed("unshare")(errno.into()))?;
        sethostname(name).map_err(|errno| failed("set the host name")(errno.into()))?;
        settings.iter().try_for_each(|setting| set(name, setting))?;
        pin("net", &Path::new(NETNS_PATH).join(name)).map_err(failed("pin its network"))?;
        pin("uts", &Path::new(UTSNS_PATH).join(name)).map_err(failed("pin its name"))?;
        Self::open(name)
    }

    /// Configures the node's kernel. To be called inside the node's namespace.
    pub(crate) fn set(&self, setting: &Sysctl) -> Result<(), LabError> {
        set(&self.name, setting)
    }

    /// Opens the door to a node of the lab this process is in.
    pub(crate) fn open(name: &str) -> Result<Self, LabError> {
        let open = |folder| {
            File::open(Path::new(folder).join(name)).map_err(|source| LabError::CreateNode {
                node: name.to_owned(),
                step: "open its namespaces",
                source,
            })
        };
        let spaces = Spaces {
            net: open(NETNS_PATH)?,
            uts: open(UTSNS_PATH)?,
        };
        Ok(Self {
            name: name.to_owned(),
            spaces: Arc::new(spaces),
        })
    }

    /// A program that will run in the node: its interfaces, its host name, its /sys.
    #[allow(
        unsafe_code,
        reason = "the code between fork and exec makes system calls only"
    )]
    pub(crate) fn command(&self, program: &str) -> Command {
        let spaces = Arc::clone(&self.spaces);
        let enter = move || -> io::Result<()> {
            release_all()?;
            setns(&spaces.net, CloneFlags::CLONE_NEWNET)?;
            setns(&spaces.uts, CloneFlags::CLONE_NEWUTS)?;
            unshare(CloneFlags::CLONE_NEWNS)?;
            mount_sysfs()?;
            Ok(())
        };
        let mut command = Command::new(program);
        command.env("PATH", search_path());
        unsafe { command.pre_exec(enter) };
        command
    }

    /// A tool that needs the node's network and nothing else of it.
    #[allow(
        unsafe_code,
        reason = "the code between fork and exec makes system calls only"
    )]
    pub(crate) fn net_command(&self, program: &Path) -> Command {
        let spaces = Arc::clone(&self.spaces);
        let mut command = Command::new(program);
        let enter = move || -> io::Result<()> {
            release_all()?;
            Ok(setns(&spaces.net, CloneFlags::CLONE_NEWNET)?)
        };
        unsafe { command.pre_exec(enter) };
        command
    }

    /// Moves the calling thread into the node's network.
    pub(crate) fn enter(&self) -> Result<(), LabError> {
        setns(&self.spaces.net, CloneFlags::CLONE_NEWNET).map_err(|source| LabError::EnterNode {
            node: self.name.clone(),
            source,
        })
    }

    /// Returns the link target of /proc/PID/ns/net of a process in this node.
    pub(crate) fn net_link(&self) -> Result<PathBuf, Errno> {
        Ok(format!("net:[{}]", fstat(&self.spaces.net)?.st_ino).into())
    }
}

fn set(node: &str, setting: &Sysctl) -> Result<(), LabError> {
    apply(setting).map_err(|source| LabError::Sysctl {
        node: node.to_owned(),
        key: setting.key.replace('/', "."),
        source,
    })
}

fn apply(setting: &Sysctl) -> io::Result<()> {
    let path = Path::new("/proc/sys").join(setting.key);
    match fs::write(path, &setting.value) {
        Err(_) if !setting.required => Ok(()),
        other => other,
    }
}

/// Keeps a namespace of the calling thread alive, as a file.
fn pin(kind: &str, at: &Path) -> io::Result<()> {
    File::create(at)?;
    let space = Path::new("/proc/thread-self/ns").join(kind);
    Ok(mount(
        Some(&space),
        at,
        None::<&str>,
        MsFlags::MS_BIND,
        None::<&str>,
    )?)
}
