//! Two machines at both ends of a leaf-spine, made once for all tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use libtest_mimic::Trial;
use reweave_tests::{Labs, Programs, Setting, Stage, StageError};
use serde_json::Value;
use tempfile::TempDir;

use crate::machine::{Machine, Said};
use crate::needs::Need;

/// h0 and h1 are on a leaf each, behind two spines.
const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 1\n\
                      host_gbps = 1.0\nuplink_gbps = 1.0\n";
const SCENARIO: &str = "name = \"rdma\"\nmanagement = true\nfabric = \"two-leaves.toml\"\n";
pub(crate) const PROBER_NODE: &str = "h0";
pub(crate) const RESPONDER_NODE: &str = "h1";
/// Their addresses in the fabric.
pub(crate) const PROBER_ADDRESS: &str = "10.0.0.0";
pub(crate) const RESPONDER_ADDRESS: &str = "10.0.0.1";

pub(crate) struct Scene {
    pub(crate) prober: Machine,
    pub(crate) responder: Machine,
    pub(crate) stage: Stage,
    _folder: TempDir,
}

static SHARED_SCENE: Mutex<Option<Scene>> = Mutex::new(None);

/// The scene, as the test before has left it.
pub(crate) fn enter() -> MutexGuard<'static, Option<Scene>> {
    let mut scene = SHARED_SCENE.lock().unwrap_or_else(PoisonError::into_inner);
    if scene.is_none() {
        *scene = Some(Scene::set());
    }
    scene
}

pub(crate) fn clear() {
    drop(
        SHARED_SCENE
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(),
    );
}

/// A test in the scene, ignored with its reason where that cannot be set.
pub(crate) fn trial(name: &str, test: fn(&mut Scene)) -> Trial {
    let trial = Trial::test(name, move || {
        test(enter().as_mut().expect("it was set"));
        Ok(())
    });
    match lack() {
        None => trial,
        Some(lack) => trial
            .with_kind(format!("needs {lack}"))
            .with_ignored_flag(true),
    }
}

/// What this machine has not, of all that the scene takes.
fn lack() -> Option<&'static String> {
    static MISSING_NEED: OnceLock<Option<String>> = OnceLock::new();
    let find = || {
        let programs = [
            "qemu-system-x86_64",
            "busybox",
            "cpio",
            "ib_send_lat",
            "ib_write_bw",
        ];
        let needs = [Need::Lab].into_iter().chain(programs.map(Need::Program));
        let needs: Vec<_> = needs.filter_map(Need::unmet).collect();
        let helper = helper().is_none();
        let helper =
            helper.then(|| "the helper with its feature (make test-rdma builds it)".to_owned());
        let mut lacks = needs.into_iter().chain(helper);
        lacks.next().or_else(|| make_images(None))
    };
    MISSING_NEED.get_or_init(find).as_ref()
}

/// The helper that was built with the verbs library, apart from the plain one.
pub(crate) fn helper() -> Option<PathBuf> {
    let agent = Programs::beside_this().ok()?.agent();
    let target = agent.parent()?.parent()?;
    let helper = target.join("rdma/debug/reweave-rdma");
    helper.is_file().then_some(helper)
}

/// Why there can be none here. Without a folder, only that is found out.
fn make_images(folder: Option<&Path>) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("rdma/initramfs.sh");
    let trial = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(script);
    command.arg(folder.unwrap_or(trial.path()));
    if folder.is_some() {
        let programs = Programs::beside_this().expect("all programs");
        command.arg(programs.agent()).args(helper());
    }
    let made = command.output().expect("bash");
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    match made.status.code() {
        Some(0) => None,
        Some(3) => said.lines().last().map(str::to_owned),
        code => panic!("initramfs.sh ended with {code:?}: {said}"),
    }
}

impl Scene {
    fn set() -> Self {
        let folder = tempfile::Builder::new().prefix("reweave-rdma-").tempdir();
        let folder = folder.expect("a folder");
        assert_eq!(make_images(Some(folder.path())), None);
        let setting = Setting {
            scenario: SCENARIO,
            fabric: FABRIC,
        };
        let stage = must(Stage::up(setting, Labs::Hidden));
        let [mut prober, mut responder] =
            [PROBER_NODE, RESPONDER_NODE].map(|node| Machine::boot(&stage, node, folder.path()));
        prober.set_up(&stage);
        responder.set_up(&stage);
        Self {
            prober,
            responder,
            stage,
            _folder: folder,
        }
    }

    pub(crate) fn machine(&mut self, node: &str) -> &mut Machine {
        match node {
            PROBER_NODE => &mut self.prober,
            _ => &mut self.responder,
        }
    }

    /// Makes a Soft-RoCE device of the interface in the fabric, on both.
    pub(crate) fn give_rdma(&mut self) {
        for machine in [&mut self.prober, &mut self.responder] {
            machine.succeed(
                "rdma link show | grep -q rxe0 || rdma link add rxe0 type rxe netdev eth0",
            );
        }
    }

    /// The responder answers this host from now on, and no other.
    pub(crate) fn respond_to(&mut self, host: &str) {
        self.responder.run("killall reweave-rdma reweave-agent");
        self.responder.wait_until("! pidof reweave-rdma");
        self.responder
            .start("respond", &format!("reweave-agent rdma respond {host}"));
        self.responder.wait_until("grep -q answering /run/respond");
    }
}

/// What the agent's command prints as JSON in a machine.
#[track_caller]
pub(crate) fn agent(machine: &mut Machine, words: &str) -> Value {
    json_of(machine, &format!("reweave-agent {words} --output json"))
}

#[track_caller]
pub(crate) fn json_of(machine: &mut Machine, command: &str) -> Value {
    let said = machine.succeed(command);
    serde_json::from_str(&said).unwrap_or_else(|_| panic!("no JSON object: {said}"))
}

/// What the agent's command says when it must fail.
#[track_caller]
pub(crate) fn refused(machine: &mut Machine, words: &str) -> String {
    let said: Said = machine.run(&format!("reweave-agent {words}"));
    assert_eq!((said.code, &*said.stdout), (1, ""), "{said:?}");
    said.stderr
}

#[track_caller]
pub(crate) fn must<T>(outcome: Result<T, StageError>) -> T {
    outcome.unwrap_or_else(|error| panic!("{error:?}"))
}
