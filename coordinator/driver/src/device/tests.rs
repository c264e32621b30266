//! Devices that are programs: what the contract asks of them, and what becomes of those that break it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::*;
use crate::config::ExecSettings;
use crate::examples::circuits;

/// A device made of a shell script, which finds its request in `$request` and keeps its circuits in
/// a file of its folder.
struct Script {
    folder: tempfile::TempDir,
}

impl Script {
    fn new(body: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = Self { folder };
        let text = format!("#!/bin/sh\ncd \"${{0%/*}}\"\nread -r request\n{body}\n");
        fs::write(script.path(), text).unwrap();
        fs::set_permissions(script.path(), fs::Permissions::from_mode(0o755)).unwrap();
        script
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("device")
    }

    fn device(&self, patience_ms: u64) -> Device {
        let program = self.path();
        let arguments = vec![];
        Device::open(&Optical {
            name: "ocs0".to_owned(),
            ports: 8,
            patience_ms,
            speaks: Speaks::Exec(ExecSettings { program, arguments }),
        })
        .unwrap()
    }
}

const KEEPS_ONE: &str = "case $request in
*read*) echo \"{\\\"circuits\\\":$(cat held 2>/dev/null || echo [])}\";;
*disconnect*) echo [] > held; echo {};;
*) expr \"$request\" : '.*\\(\\[.*\\]\\)' | sed 's/.*/[&]/' > held; echo {};;
esac";

#[tokio::test]
async fn a_program_of_the_contract_is_read_and_moved() {
    let script = Script::new(KEEPS_ONE);
    let device = script.device(30_000);
    assert_eq!(device.read().await.unwrap(), circuits(&[]));
    for wanted in [circuits(&[(1, 5)]), circuits(&[(2, 6)])] {
        let found = device.read().await.unwrap();
        let moved = device.carry_out(&Moves::between(&found, &wanted)).await;
        assert_eq!(moved, Moved::Done);
        assert_eq!(device.read().await.unwrap(), wanted);
    }
}

#[tokio::test]
async fn what_breaks_the_contract_is_refused_with_its_own_words() {
    for (body, says) in [
        ("echo '{\"error\":\"no light\"}'", "it refused: no light"),
        ("echo broken >&2; exit 3", "it refused: broken"),
        ("echo '{\"speed\":1}'", "not of the contract"),
        ("echo '{}'", "its answer has no circuits"),
    ] {
        let script = Script::new(body);
        let error = script.device(30_000).read().await.unwrap_err();
        assert!(told(&error).contains(says), "{error}");
    }
}

#[tokio::test]
async fn a_program_that_does_not_end_is_killed_and_may_have_moved() {
    let script = Script::new("exec sleep 1000");
    let moves = Moves::between(&circuits(&[]), &circuits(&[(1, 5)]));
    assert_eq!(script.device(100).carry_out(&moves).await, Moved::Late);
}
