//! The settings that Ansible's role writes for a coordinator: what is set in YAML comes out as TOML that the coordinator
//! takes.

use std::path::Path;
use std::process::{Command, Output};

use libtest_mimic::Trial;
use reweave_tests::Programs;
use serde_json::{Value, json};

use super::needs::{Need, trial};
use super::{deployed, output_of, written};

/// With the same settings of the engine as Ansible has.
const RENDER_SCRIPT: &str = "\
import json, sys, jinja2
engine = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True)
engine.filters['to_json'] = json.dumps
print(engine.from_string(open(sys.argv[1]).read()).render(json.loads(sys.argv[2])))
";
const FABRIC: &str = "kind = \"ideal\"\nhosts = 2\nnic_gbps = 10\n";
/// As long as the coordinator wants one to be.
const WEBHOOK_SECRET: &str = "0123456789abcdef0123456789abcdef";

pub(crate) fn tests() -> Vec<Trial> {
    let needs = [
        Need::Program("/usr/bin/python3"),
        Need::Program("/usr/lib/python3/dist-packages/jinja2/__init__.py"),
    ];
    vec![trial("coordinator_accepts_settings_of_role", &needs, taken)]
}

fn taken() {
    let folder = tempfile::tempdir().expect("a folder of our own");
    let place = |name: &str| folder.path().join(name).display().to_string();
    written(&folder.path().join("fabric.toml"), FABRIC);
    written(&folder.path().join("secret"), WEBHOOK_SECRET);
    certify(&place("cluster"));
    let webhook = |url: &str, more: &str| json!({ "url": url, "secret_file": place("secret"), more: ["alarm"] });
    let settings = |more: &str| {
        json!({
            "policy": { "mode": "auto", "changes_only": ["Thu 02:00-03:00"] },
            "webhook": [webhook("https://one.example/", "of"), webhook("https://two.example/", more)],
            "fabric": place("fabric.toml"),
            "identity": place("cluster/coordinators/c1"),
            "data": place("data"),
        })
    };
    let judged = judged(folder.path(), &settings("of"));
    assert!(judged.status.success(), "{}", said(&judged));
    // What is wrong in the last of them is seen there.
    let wrong = self::judged(folder.path(), &settings("off"));
    assert!(
        !wrong.status.success() && said(&wrong).contains("off"),
        "{}",
        said(&wrong)
    );
}

fn certify(cluster: &str) {
    let reweave = Programs::beside_this().expect("programs").reweave();
    let init = ["cluster", "init", "--name", "deployed", cluster];
    output_of(Command::new(&reweave).args(init));
    let issue = [
        "cluster",
        "issue",
        "--role",
        "coordinator",
        "--dir",
        cluster,
    ];
    output_of(Command::new(&reweave).args(issue).args(["--name", "c1"]));
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn judged(folder: &Path, settings: &Value) -> Output {
    let host = |address: &str| json!({ "reweave_address": address });
    let facts = json!({
        "ansible_managed": "By the role",
        "reweave_address": "127.0.0.1",
        "groups": { "reweave_coordinators": ["c1", "c2", "c3"] },
        "hostvars": { "c1": host("127.0.0.1"), "c2": host("127.0.0.2"), "c3": host("127.0.0.3") },
        "reweave_settings": settings,
    });
    let mut python = Command::new("/usr/bin/python3");
    let template = deployed("ansible/roles/reweave/templates/coordinator.toml.j2");
    let python = python.args(["-c", RENDER_SCRIPT]).arg(template);
    let filled_in = output_of(python.arg(facts.to_string()));
    let file = folder.join("coordinator.toml");
    written(&file, &filled_in);
    let mut check = Command::new(Programs::beside_this().expect("programs").reweave());
    check.args(["config", "check"]).arg(file);
    check.output().expect("it can be run")
}
