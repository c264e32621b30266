//! Devices that are programs: the contract of a device, and the reaction to those that break it. Devices that hang
//! up.

use std::fs;
use std::path::PathBuf;

use reweave_common::circuit::PortId;
use reweave_formats::optical::pairs::pair;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::config::{ExecSettings, RestconfSettings, Tl1Settings};
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
        let text = format!("cd \"${{0%/*}}\"\nread -r request\n{body}\n");
        fs::write(script.path(), text).unwrap();
        script
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("device")
    }

    fn device(&self, patience_ms: u64) -> Device {
        let program = "/bin/sh".into();
        let arguments = vec![self.path().display().to_string()];
        Device::open(&Optical {
            name: "ocs0".to_owned(),
            ports: 8,
            patience_ms,
            read_interval_ms: 5000,
            speaks: Speaks::Exec(ExecSettings { program, arguments }),
        })
        .unwrap()
    }
}

const SINGLE_CIRCUIT_SCRIPT: &str = "case $request in
*read*) echo \"{\\\"circuits\\\":$(cat held 2>/dev/null || echo [])}\";;
*disconnect*) echo [] > held; echo {};;
*) expr \"$request\" : '.*\\(\\[.*\\]\\)' | sed 's/.*/[&]/' > held; echo {};;
esac";

#[tokio::test]
async fn device_program_is_read_and_moved() {
    let script = Script::new(SINGLE_CIRCUIT_SCRIPT);
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
async fn device_contract_violation_is_quoted() {
    for (body, says) in [
        ("echo '{\"error\":\"no light\"}'", "it refused: no light"),
        ("echo broken >&2; exit 3", "it refused: broken"),
        ("echo '{\"speed\":1}'", "violates the contract"),
        ("echo '{}'", "its answer has no circuits"),
        ("exec yes", "its answer exceeds 1048576 bytes"),
        ("exec yes >&2", "its answer exceeds 1048576 bytes"),
    ] {
        let script = Script::new(body);
        let error = script.device(30_000).read().await.unwrap_err();
        assert!(error_chain(&error).contains(says), "{error}");
    }
}

#[tokio::test]
async fn hanging_device_program_is_killed() {
    let script = Script::new("exec sleep 1000");
    let moves = Moves::between(&circuits(&[]), &circuits(&[(1, 5)]));
    assert_eq!(script.device(100).carry_out(&moves).await, Moved::Late);
}

/// The circuit that was not answered may yet come.
#[tokio::test]
async fn refusal_hides_no_missing_answer() {
    let script = Script::new(
        "case $request in
*1,5*) echo '{\"error\":\"no light\"}';;
*) exec sleep 1000;;
esac",
    );
    let moves = Moves::between(&circuits(&[]), &circuits(&[(1, 5), (2, 6)]));
    assert_eq!(script.device(1_000).carry_out(&moves).await, Moved::Late);
}

/// It may still let go of the circuit, and its port serves one at a time.
#[tokio::test]
async fn held_circuit_blocks_connecting() {
    let script = Script::new(
        "case $request in
*disconnect*) exec sleep 1000;;
*connect*) : > connected; echo {};;
*) echo '{\"circuits\":[[1,5]]}';;
esac",
    );
    let moves = Moves::between(&circuits(&[(1, 5)]), &circuits(&[(1, 6)]));
    assert_eq!(script.device(1000).carry_out(&moves).await, Moved::Late);
    assert!(!script.folder.path().join("connected").exists());
}

/// Holds circuit 1-7 alone, which is named after port 1, and does all that it is asked. The first lines of its requests
/// come with it.
async fn holds_another_circuit() -> (Device, UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, asked) = unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (caller, _) = listener.accept().await.unwrap();
            tell.send(answer_one(caller).await).unwrap();
        }
    });
    let device = Device::open(&Optical {
        name: "ocs0".to_owned(),
        ports: 8,
        patience_ms: 30_000,
        read_interval_ms: 5000,
        speaks: Speaks::Restconf(RestconfSettings {
            url,
            user: None,
            password_file: None,
            authority: None,
        }),
    });
    (device.unwrap(), asked)
}

async fn answer_one(mut caller: TcpStream) -> String {
    let mut head = vec![];
    while !head.ends_with(b"\r\n\r\n") {
        head.push(caller.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let asked = head.lines().next().unwrap().to_owned();
    let held = Pair {
        ingress: PortId(1),
        egress: PortId(7),
    };
    let (status, body) = if !asked.starts_with("GET ") {
        ("200 OK", String::new())
    } else if asked.contains("/pair=1 ") {
        ("200 OK", pair(held))
    } else {
        ("404 Not Found", String::new())
    };
    let length = body.len();
    let answer =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    caller.write_all(answer.as_bytes()).await.unwrap();
    asked
}

#[tokio::test]
async fn circuit_of_reused_port_stays() {
    let (device, mut asked) = holds_another_circuit().await;
    let moves = Moves::between(&circuits(&[(1, 5)]), &circuits(&[]));
    let moved = device.carry_out(&moves).await;
    assert!(matches!(moved, Moved::Refused(_)), "{moved:?}");
    let first = asked.recv().await.unwrap();
    assert!(
        first.starts_with("GET ") && first.contains("/pair=1 "),
        "{first}"
    );
    let second = asked.recv().await.unwrap();
    assert!(
        second.starts_with("GET ") && second.contains("/pair=5 "),
        "{second}"
    );
}

/// Says yes to any request, as long as it does not hang up: after this many requests, the login included, for each of
/// its callers.
async fn hangs_up_after(requests: [usize; 2]) -> (Device, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let password_file = folder.path().join("password");
    fs::write(&password_file, "light\n").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        for requests in requests {
            let (caller, _) = listener.accept().await.unwrap();
            agree(caller, requests).await;
        }
    });
    let speaks = Speaks::Tl1(Tl1Settings {
        host: "127.0.0.1".to_owned(),
        port,
        user: "reweave".to_owned(),
        password_file,
    });
    let device = Device::open(&Optical {
        name: "ocs0".to_owned(),
        ports: 8,
        patience_ms: 30_000,
        read_interval_ms: 5000,
        speaks,
    });
    (device.unwrap(), folder)
}

async fn agree(mut caller: TcpStream, requests: usize) {
    for _ in 0..requests {
        let mut request = vec![];
        while !request.ends_with(b";") {
            request.push(caller.read_u8().await.unwrap());
        }
        let request = String::from_utf8(request).unwrap();
        let tag = request.split(':').nth(3).unwrap();
        let circuits = if request.starts_with("RTRV") {
            "\"1,5\"\r\n"
        } else {
            ""
        };
        let answer = format!("M {tag} COMPLD\r\n{circuits};");
        caller.write_all(answer.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn disconnected_device_is_reconnected_for_reading() {
    let (device, _folder) = hangs_up_after([2, 2]).await;
    for _ in 0..2 {
        assert_eq!(device.read().await.unwrap(), circuits(&[(1, 5)]));
    }
}

#[tokio::test]
async fn device_command_is_never_repeated() {
    let (device, _folder) = hangs_up_after([2, 100]).await;
    assert_eq!(device.read().await.unwrap(), circuits(&[(1, 5)]));
    let moves = Moves::between(&circuits(&[]), &circuits(&[(2, 6)]));
    let moved = device.carry_out(&moves).await;
    assert_eq!(moved, Moved::Late, "it may have done it before it hung up");
}
