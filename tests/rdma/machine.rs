//! A virtual machine in the place of a lab's host: it has the host's links, hardware addresses and
//! addresses, and is spoken to over a serial line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use reweave_tests::Stage;

use crate::scene::must;

/// A machine that is emulated on a busy one takes its time to boot, and for everything else.
const MACHINE_TIMEOUT: Duration = Duration::from_secs(300);
/// How addresses begin over which a node is managed.
const MANAGEMENT_PREFIX: &str = "10.255.";
const MEMORY_MIB: &str = "320";

pub(crate) struct Machine {
    name: String,
    emulator: Child,
    line: Box<dyn Write + Send>,
    answers: Receiver<Said>,
}

/// What came of a command.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// An interface of a host in the lab.
struct Nic {
    name: String,
    mac: String,
    addresses: Vec<String>,
    routes: Vec<String>,
    /// Address and hardware address.
    neighbours: Vec<[String; 2]>,
}

impl Machine {
    /// Boots in the place of `node` from what is in `folder`. Ready only after [`Self::set_up`].
    pub(crate) fn boot(stage: &Stage, node: &str, folder: &Path) -> Self {
        let nics = nics(stage, node);
        for (nic, tap) in nics.iter().zip(0..) {
            give_up(stage, node, &nic.name, &format!("tap{tap}"));
        }
        let mut command = stage.inside(node, "qemu-system-x86_64");
        command.args([
            "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", MEMORY_MIB,
        ]);
        command.args([
            "-nodefaults",
            "-nographic",
            "-no-reboot",
            "-monitor",
            "none",
        ]);
        command.arg("-kernel").arg(folder.join("kernel"));
        command.arg("-initrd").arg(folder.join("initramfs"));
        command.args(["-append", "console=ttyS0 quiet panic=-1"]);
        let console = folder.join(format!("{node}.console"));
        command
            .arg("-serial")
            .arg(format!("file:{}", console.display()));
        command.args(["-serial", "stdio"]);
        for (nic, tap) in nics.iter().zip(0..) {
            let network = format!("tap,id=n{tap},ifname=tap{tap},script=no,downscript=no");
            let device = format!("virtio-net-pci,netdev=n{tap},mac={},romfile=", nic.mac);
            command.args(["-netdev", &network, "-device", &device]);
        }
        let said = File::create(folder.join(format!("{node}.emulator"))).expect("a log");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said);
        let mut emulator = command.spawn().expect("the lab enters its node");
        let answers = answers(emulator.stdout.take().expect("a pipe"));
        Self {
            name: node.to_owned(),
            line: Box::new(emulator.stdin.take().expect("a pipe")),
            emulator,
            answers,
        }
    }

    /// Waits until it has booted, and gives it what the host had.
    pub(crate) fn set_up(&mut self, stage: &Stage) {
        self.next_answer("it boots");
        for (nic, number) in nics(stage, &self.name).iter().zip(0..) {
            let own = format!("eth{number}");
            self.succeed(&format!("ip link set {own} up"));
            for address in &nic.addresses {
                self.succeed(&format!("ip address add {address} dev {own}"));
            }
            for [address, mac] in &nic.neighbours {
                self.succeed(&format!(
                    "ip neighbour replace {address} lladdr {mac} nud permanent dev {own}"
                ));
            }
            for route in &nic.routes {
                self.succeed(&format!("ip route replace {route} dev {own}"));
            }
        }
    }

    pub(crate) fn run(&mut self, command: &str) -> Said {
        writeln!(self.line, "{command}").expect("the machine runs");
        self.next_answer(command)
    }

    /// What a command prints; it must succeed.
    #[track_caller]
    pub(crate) fn succeed(&mut self, command: &str) -> String {
        let said = self.run(command);
        assert_eq!(said.code, 0, "{}: {command}: {said:?}", self.name);
        said.stdout
    }

    /// Starts it, and goes on. What it says is in /run/NAME.
    pub(crate) fn start(&mut self, name: &str, command: &str) {
        // Its standard input stays open: some end with it.
        self.succeed(&format!("sleep 100000 | {command} >/run/{name} 2>&1 &"));
    }

    /// Tries once a second, which is nothing here.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, command: &str) -> Said {
        let patience = MACHINE_TIMEOUT.as_secs();
        let said = self.run(&format!(
            "n=0; until {command}; do n=$((n + 1)); [ $n -lt {patience} ] || exit 1; sleep 1; done"
        ));
        assert_eq!(
            said.code, 0,
            "{} waits in vain: {command}: {said:?}",
            self.name
        );
        said
    }

    #[track_caller]
    fn next_answer(&self, what: &str) -> Said {
        let answer = self.answers.recv_timeout(MACHINE_TIMEOUT);
        answer.unwrap_or_else(|_| panic!("{} says nothing: {what}", self.name))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The lab's entrance passes that on.
        let _ = self.emulator.kill();
        let _ = self.emulator.wait();
    }
}

/// The first answer is that it is ready; after that, one comes for each command.
fn answers(line: impl Read + Send + 'static) -> Receiver<Said> {
    let (tell, answers) = channel();
    thread::spawn(move || {
        let mut line = BufReader::new(line);
        while let Some(said) = answer(&mut line) {
            if tell.send(said).is_err() {
                return;
            }
        }
    });
    answers
}

fn answer(line: &mut impl BufRead) -> Option<Said> {
    let mut head = String::new();
    line.read_line(&mut head)
        .ok()
        .filter(|&length| length > 0)?;
    let numbers: Vec<_> = head
        .split_whitespace()
        .map(|it| it.parse().unwrap_or(0))
        .collect();
    let [code, stdout, stderr] = numbers[..] else {
        // It is ready.
        return Some(Said {
            code: 0,
            stdout: head,
            stderr: String::new(),
        });
    };
    let mut text = |length: usize| -> Option<String> {
        let mut text = vec![0; length];
        line.read_exact(&mut text).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    };
    Some(Said {
        code: i32::try_from(code).unwrap_or(-1),
        stdout: text(stdout)?,
        stderr: text(stderr)?,
    })
}

/// Those in the fabric first.
fn nics(stage: &Stage, node: &str) -> Vec<Nic> {
    let ip = |words: &[&str]| must(stage.output(node, &[&["ip", "-4"], words].concat()));
    let lines = |text: String| text.lines().map(|line| line.trim().to_owned()).collect();
    let links = must(stage.output(node, &["ip", "-brief", "link", "show", "type", "veth"]));
    let nics = links.lines().map(|line| {
        let mut fields = line.split_whitespace();
        let name = fields.next().unwrap_or_default();
        let name = name.split('@').next().unwrap_or_default();
        let addresses = ip(&["-brief", "address", "show", "dev", name]);
        let neighbours = ip(&["neighbour", "show", "dev", name]);
        Nic {
            mac: fields.nth(1).unwrap_or_default().to_owned(),
            addresses: addresses
                .split_whitespace()
                .skip(2)
                .map(str::to_owned)
                .collect(),
            routes: lines(ip(&["route", "show", "dev", name])),
            neighbours: neighbours.lines().filter_map(neighbour).collect(),
            name: name.to_owned(),
        }
    });
    let mut nics: Vec<Nic> = nics.collect();
    nics.sort_by_key(|nic| {
        nic.addresses
            .iter()
            .any(|it| it.starts_with(MANAGEMENT_PREFIX))
    });
    nics
}

/// `10.192.0.1 lladdr 02:00:00:00:00:01 PERMANENT`
fn neighbour(line: &str) -> Option<[String; 2]> {
    let mut fields = line.split_whitespace();
    let address = fields.next()?;
    let mac = fields.skip_while(|it| *it != "lladdr").nth(1)?;
    Some([address, mac].map(str::to_owned))
}

/// What comes in by an interface goes to the tap from now on, and the other way around.
fn give_up(stage: &Stage, node: &str, nic: &str, tap: &str) {
    let redirect = |from: &str, to: &str| {
        format!(
            "tc qdisc add dev {from} ingress && tc filter add dev {from} parent ffff: protocol all u32 match u32 0 0 \
             action mirred egress redirect dev {to}"
        )
    };
    let script = [
        format!("ip tuntap add dev {tap} mode tap && ip link set {tap} up"),
        redirect(nic, tap),
        redirect(tap, nic),
    ];
    must(stage.output(node, &["sh", "-ec", &script.join(" && ")]));
}
