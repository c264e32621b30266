//! Does the Ansible role in deploy/ make a fleet of these programs, on machines that start as empty
//! systems with a systemd of their own, and keep what runs there running?

#[path = "fleet/machine.rs"]
mod machine;
#[path = "lab/tests/support/needs.rs"]
mod needs;
#[path = "fleet/playbooks.rs"]
mod playbooks;
#[path = "fleet/system.rs"]
mod system;

use std::fs;
use std::process::{Command, ExitCode};

use libtest_mimic::Arguments;
use needs::{Need, trial};
use playbooks::{Fleet, Release};
use reweave_tests::Job;

const BATCH_INVENTORY: &str = "
reweave:
  vars:
    ansible_connection: local
    reweave_programs: programs
    reweave_cluster: fleet
    reweave_authority: authority
    reweave_fabric: fabric.toml
    reweave_agents_at_once: 2
  children:
    reweave_coordinators: { hosts: { c1: { reweave_address: 192.0.2.1 } } }
    reweave_agents: { hosts: { 'h[0:4]': {} } }
";

fn main() -> ExitCode {
    let needs = [
        Need::Lab,
        Need::Root,
        Need::Program("ansible-playbook"),
        Need::Program("debootstrap"),
        Need::Program("systemd-nspawn"),
        Need::Program("ssh-keygen"),
        Need::Program("strip"),
    ];
    let lint = [Need::Program("ansible-lint")];
    let tests = vec![
        trial("playbooks_pass_lint", &lint, playbooks_pass_lint),
        trial(
            "inventory_sets_batches_of_agents",
            &[Need::Program("ansible-playbook")],
            inventory_sets_batches_of_agents,
        ),
        trial(
            "fleet_deploys_upgrades_and_uninstalls",
            &needs,
            fleet_deploys_upgrades_and_uninstalls,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

fn playbooks_pass_lint() {
    let mut lint = Command::new("ansible-lint");
    lint.args(["--offline", "--nocolor", "--profile=production"]);
    lint.args(["deploy.yml", "rollback.yml", "uninstall.yml"]);
    let output = lint.arg("roles/reweave").current_dir(playbooks::folder());
    let output = output.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}

/// Five agents, two at a time. A tag that no task has leaves plays without work, so no machine is needed.
fn inventory_sets_batches_of_agents() {
    let folder = tempfile::tempdir().expect("a folder of our own");
    let inventory = folder.path().join("inventory.yml");
    fs::write(&inventory, BATCH_INVENTORY).expect("a file of our own");
    for playbook in ["deploy.yml", "rollback.yml"] {
        let mut ansible = Command::new("ansible-playbook");
        ansible.arg("-i").arg(&inventory).arg(playbook);
        ansible
            .args(["--tags", "no_task"])
            .env("ANSIBLE_NOCOLOR", "1");
        let output = ansible.current_dir(playbooks::folder()).output();
        let output = output.expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{playbook}: {said}");
        let batches = said.matches("PLAY [Agents, in batches]").count();
        assert_eq!(batches, 3, "{playbook}: {said}");
    }
}

/// Each step needs the one before it, and machines take their time to come up.
fn fleet_deploys_upgrades_and_uninstalls() {
    let fleet = Fleet::of_empty_machines();
    a_trial_run_changes_nothing(&fleet);
    fleet.play("deploy.yml", &[]).succeeds();
    fleet.await_agents();
    fleet.play("deploy.yml", &[]).changes_nothing();
    nccl_finds_its_plugin(&fleet);
    let _by_hand = fleet.agents_by_hand();
    let job = fleet.job_in_two_flows_apart();
    let first = fleet.release_in_use("leaf0");
    trial_run_shows_changes(&fleet, &first);
    another_release_comes_one_machine_at_a_time(&fleet, &first);
    a_release_that_does_not_start_is_taken_back(&fleet);
    fleet.play("rollback.yml", &[]).succeeds();
    for agent in ["h0", "leaf0"] {
        assert_eq!(fleet.release_in_use(agent), first, "{agent}");
    }
    fleet.await_agents();
    it_goes_and_leaves_the_routes(&fleet);
    every_session_was_kept(job);
}

fn a_trial_run_changes_nothing(fleet: &Fleet) {
    fleet.play("deploy.yml", &["--check", "--diff"]).succeeds();
    let left = fleet.on("h1", "ls /usr/lib/reweave /etc/reweave 2>&1 || true");
    let (gone, said) = ("No such file or directory", left.as_str());
    assert_eq!(said.matches(gone).count(), 2, "{said}");
}

fn nccl_finds_its_plugin(fleet: &Fleet) {
    let place = fleet.on(
        "h0",
        "readlink -f /usr/lib/reweave/libnccl-profiler-reweave.so",
    );
    let release = fleet.release_in_use("h0");
    let of_release = format!("/usr/lib/reweave/{release}/libnccl-profiler-reweave.so");
    assert_eq!(place.trim(), of_release);
}

/// Line by line, on machines that have it all; and they keep what they have.
fn trial_run_shows_changes(fleet: &Fleet, first: &str) {
    fleet.offer(Release::Second);
    let settings = r#"{"reweave_settings": {"policy": {"least_gain": 0.25}}}"#;
    let processes = fleet.coordinators_processes();
    let trial = fleet.play(
        "deploy.yml",
        &["--check", "--diff", "--extra-vars", settings],
    );
    trial.tells("+least_gain = 0.25");
    for coordinator in ["h1", "h2", "h3"] {
        let kept = fleet.on(coordinator, "cat /etc/reweave/coordinator.toml");
        assert!(!kept.contains("least_gain"), "{coordinator}: {kept}");
        assert_eq!(fleet.release_in_use(coordinator), first, "{coordinator}");
    }
    assert_eq!(fleet.coordinators_processes(), processes);
}

fn another_release_comes_one_machine_at_a_time(fleet: &Fleet, first: &str) {
    fleet.offer(Release::Second);
    let played = fleet.play("deploy.yml", &[]);
    played.succeeds();
    fleet.await_agents();
    let second = fleet.release_in_use("leaf0");
    assert_ne!(second, first);
    assert_eq!(fleet.release_in_use("h3"), second);
    let away = fleet.times_without_a_coordinator();
    for (one, next) in away.iter().zip(away.iter().skip(1)) {
        assert!(one.end < next.start, "two were down at once: {away:?}");
    }
}

fn a_release_that_does_not_start_is_taken_back(fleet: &Fleet) {
    let before = fleet.release_in_use("h0");
    fleet.offer(Release::WithoutAnAgent);
    let played = fleet.play("deploy.yml", &["--extra-vars", "reweave_patience_s=5"]);
    played.fails_with("was not updated");
    for agent in ["h0", "leaf0"] {
        assert_eq!(fleet.release_in_use(agent), before, "{agent}");
    }
    fleet.await_agents();
}

fn it_goes_and_leaves_the_routes(fleet: &Fleet) {
    let pins = fleet.pins_of("leaf0");
    assert!(pins.contains("lookup"), "no pin is left to be kept: {pins}");
    fleet.on("h1", "install -D /bin/true /etc/reweave/slurm/prolog.sh");
    fleet.play("uninstall.yml", &[]).succeeds();
    assert_eq!(fleet.pins_of("leaf0"), pins);
    let left = fleet.on("h1", "ls /etc/reweave");
    assert_eq!(
        left.trim(),
        "slurm",
        "the scheduler still runs what is there"
    );
    let left = fleet.on("h2", "ls -d /etc/reweave 2>&1 || true");
    assert!(left.contains("No such file"), "{left}");
    let left = fleet.on("leaf0", "ls /usr/bin /etc/systemd/system");
    assert!(!left.contains("reweave"), "{left}");
}

fn every_session_was_kept(job: Job) {
    let report = job.stop().expect("a report");
    assert!(report.kept_all_sessions(), "{report:#?}");
}
