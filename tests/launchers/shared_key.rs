//! Users of a node share one viewer's key, which root owns and their group may read.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::FABRIC;
use crate::needs::{Need, trial};
use crate::slurm::{COORDINATOR_TOML, certified, reweave, text};

pub(crate) fn test() -> Trial {
    let programs = ["ip", "unshare", "setpriv"].map(Need::Program);
    let needs = [&[Need::Root], &programs[..]].concat();
    trial("users_share_viewer_key", &needs, users_share_viewer_key)
}

fn users_share_viewer_key() {
    let folder = tempfile::tempdir().expect("a folder of our own");
    let place = folder.path();
    fs::set_permissions(place, Permissions::from_mode(0o755)).expect("it is ours");
    for (name, text) in [
        ("fabric.toml", FABRIC),
        ("coordinator.toml", COORDINATOR_TOML),
    ] {
        fs::write(place.join(name), text).expect("a file of our own");
    }
    certified(place);
    asked_as_users(place);

    let answer = |name: &str| fs::read_to_string(place.join(name)).expect("it was written");
    let shared: Value = serde_json::from_str(&answer("shared")).expect("it is JSON");
    assert!(shared["registered"].is_array(), "{shared:#}");
    for refused in ["of-a-user", "of-all"] {
        let said = answer(refused);
        assert!(said.contains("a key is secret"), "{refused}: {said}");
    }
    let said = answer("of-another-group");
    assert!(said.contains("Permission denied"), "{said}");
}

fn asked_as_users(place: &Path) {
    let programs = reweave().get_program().to_owned();
    let programs = Path::new(&programs).parent().expect("a folder");
    let mut cluster = Command::new("unshare");
    cluster.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    cluster.args(["--", "bash", "-c", include_str!("shared_key.sh"), "shared"]);
    cluster.arg(place).arg(programs);
    for variable in ["REWEAVE_IDENTITY", "REWEAVE_COORDINATOR", "XDG_CONFIG_HOME"] {
        cluster.env_remove(variable);
    }
    let output = cluster.output().expect("it starts");
    let said = || format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}", said());
}
