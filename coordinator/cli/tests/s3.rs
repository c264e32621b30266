//! Histories and sweeps in an object store of another maker: a server that speaks S3, which
//! `REWEAVE_S3_SERVER` names. It gets its address and its keys as s3s-fs does.

use std::env;
use std::error::Error;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use reweave_common::moment::Moment;
use reweave_history::{Chronicle, Entry, Kind, Past, Question, Resolution, Retention, Rules};

const SERVER_VARIABLE: &str = "REWEAVE_S3_SERVER";
/// What a child of this program is to do: an environment of its own holds the keys.
const TASK_VARIABLE: &str = "REWEAVE_S3_TASK";
const STORE_URL: &str = "s3://cluster/history";
const ACCESS_KEYS: [&str; 2] = ["reweave", "a key for tests"];
const SERVER_TIMEOUT: Duration = Duration::from_mins(2);
/// 2026-11-20T14:00:00Z.
const START_S: u64 = 1_795_183_200;
const RECORDED_HOURS: u64 = 4;

fn main() -> ExitCode {
    match env::var(TASK_VARIABLE).as_deref() {
        Ok("write") => exit_code_of(written()),
        Ok("read") => exit_code_of(read()),
        _ => {
            let ignored = env::var_os(SERVER_VARIABLE).is_none();
            let trial = |name: &str, test: fn() -> Result<(), Failed>| {
                let trial = Trial::test(name, test).with_ignored_flag(ignored);
                trial.with_kind(if ignored {
                    "needs REWEAVE_S3_SERVER"
                } else {
                    ""
                })
            };
            let trials = vec![
                trial("history_is_written_merged_and_downsampled", history),
                trial("sweep_shards_merge", shards),
                trial("wrong_keys_are_one_clear_error", wrong_keys),
            ];
            libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
        }
    }
}

fn exit_code_of(outcome: Result<(), Box<dyn Error>>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// A server with an empty bucket, gone when this is dropped.
struct Server {
    process: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("cluster"))?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let program = env::var_os(SERVER_VARIABLE).ok_or("there is no server")?;
        let mut command = Command::new(program);
        command.args([
            "--access-key",
            ACCESS_KEYS[0],
            "--secret-key",
            ACCESS_KEYS[1],
        ]);
        command.args(["--host", "127.0.0.1", "--port", &address.port().to_string()]);
        command
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = Self {
            process: command.spawn()?,
            address,
            _folder: folder,
        };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            if began.elapsed() > SERVER_TIMEOUT {
                return Err("the server does not answer".into());
            }
            thread::park_timeout(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// A program with the keys in its environment.
    fn run(&self, program: &Path, keys: [&str; 2], arguments: &[&str]) -> Result<Output, Failed> {
        let mut command = Command::new(program);
        command.args(arguments);
        command
            .env("AWS_ACCESS_KEY_ID", keys[0])
            .env("AWS_SECRET_ACCESS_KEY", keys[1]);
        command.env("AWS_ENDPOINT", format!("http://{}", self.address));
        command
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_REGION", "us-east-1");
        Ok(command.output()?)
    }

    fn do_task(&self, task: &str, keys: [&str; 2]) -> Result<Output, Failed> {
        let program = env::current_exe()?;
        let arguments = [
            format!("{TASK_VARIABLE}={task}"),
            program.display().to_string(),
        ];
        self.run(
            Path::new("env"),
            keys,
            &arguments.each_ref().map(String::as_str),
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn well(output: Output) -> Result<String, Failed> {
    if output.status.success() {
        Ok(String::from_utf8(output.stdout)?)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
    }
}

fn history() -> Result<(), Failed> {
    let server = Server::start()?;
    for task in ["write", "read"] {
        well(server.do_task(task, ACCESS_KEYS)?)?;
    }
    Ok(())
}

fn shards() -> Result<(), Failed> {
    let server = Server::start()?;
    let folder = tempfile::tempdir()?;
    let fabric = folder.path().join("fabric.toml").display().to_string();
    std::fs::write(&fabric, "kind = \"ideal\"\nhosts = 4\nnic_gbps = 100\n")?;
    let reweave = Path::new(env!("CARGO_BIN_EXE_reweave"));
    let ask = |last: &[&str]| {
        let mut words = vec![
            "sim",
            "collective",
            "--op",
            "allreduce",
            "--bytes",
            "1000000",
        ];
        words.extend([
            "--fabric",
            &fabric,
            "--sweep",
            "nic_gbps=50,100,200,400,800",
        ]);
        words.extend(last);
        well(server.run(reweave, ACCESS_KEYS, &words)?)
    };
    let json = ["--output", "json"];
    let whole = ask(&json)?;
    for shard in ["0/2", "1/2"] {
        ask(&["--shard", shard, "--to", "s3://cluster/sweep"])?;
    }
    let gather = ["sim", "gather", "s3://cluster/sweep", "--output", "json"];
    let gathered = well(server.run(reweave, ACCESS_KEYS, &gather)?)?;
    let times = |text: &str| -> Vec<_> {
        let lines = text.lines().map(serde_json::from_str::<serde_json::Value>);
        lines
            .map(|line| line.map(|line| line["answer"]["time_us"].clone()).ok())
            .collect()
    };
    match (times(&gathered), times(&whole)) {
        (a, b) if a == b && a.len() == 5 => Ok(()),
        (a, b) => Err(format!("{a:?} is not {b:?}").into()),
    }
}

fn wrong_keys() -> Result<(), Failed> {
    let server = Server::start()?;
    let wrong = [ACCESS_KEYS[0], "another key"];
    let reweave = Path::new(env!("CARGO_BIN_EXE_reweave"));
    let gather = ["sim", "gather", "s3://cluster/sweep"];
    let said = [
        server.do_task("write", wrong)?,
        server.run(reweave, wrong, &gather)?,
    ];
    for output in said {
        let words = String::from_utf8(output.stderr)?;
        let clear = words.lines().count() == 1 && !words.contains("<?xml");
        let of_keys = words.contains("SignatureDoesNotMatch") || words.contains("403");
        if output.status.success() || !clear || !of_keys {
            return Err(words.into());
        }
    }
    Ok(())
}

fn second(second: u64) -> Moment {
    Moment::from_micros((START_S + second) * 1_000_000)
}

/// A few hours of a small cluster, of which the first are too old to be kept at the end.
fn written() -> Result<(), Box<dyn Error>> {
    let retention = Retention {
        second: Duration::from_hours(1),
        ..Retention::default()
    };
    let rules = Rules {
        retention,
        write_every: Duration::from_mins(10),
        ..Rules::default()
    };
    let mut chronicle = Chronicle::open(STORE_URL, rules, 1)?;
    let (mut merged, mut removed) = (0, 0);
    for now in (0..RECORDED_HOURS * 3600).step_by(20) {
        chronicle.advance(second(now))?;
        chronicle.observe(second(now), &Entry::agent("h0", true, Some(now as usize)));
        let report = chronicle.take_report();
        merged += report.merged;
        removed += report.removed;
    }
    chronicle.close()?;
    if merged > 0 && removed > 0 {
        Ok(())
    } else {
        Err(format!("{merged} files merged, {removed} removed").into())
    }
}

fn read() -> Result<(), Box<dyn Error>> {
    let past = Past::open(STORE_URL)?;
    let rows = |from_h: u64, to_h: u64, resolution| {
        let question = Question {
            from: second(from_h * 3600),
            to: second(to_h * 3600),
            resolution: Some(resolution),
            kinds: vec![Kind::Agents],
        };
        let window = past.look(&question)?;
        match window.warnings.first() {
            None => Ok::<_, Box<dyn Error>>(window.agents.len()),
            Some(warning) => Err(warning.clone().into()),
        }
    };
    let found = [
        rows(0, 1, Resolution::Second)?,
        rows(RECORDED_HOURS - 1, RECORDED_HOURS, Resolution::Second)?,
        rows(0, RECORDED_HOURS, Resolution::TenSeconds)?,
        rows(0, RECORDED_HOURS, Resolution::FiveMinutes)?,
    ];
    let every_20_s = RECORDED_HOURS as usize * 180;
    if found == [0, 180, every_20_s, RECORDED_HOURS as usize * 12] {
        Ok(())
    } else {
        Err(format!("{found:?} rows").into())
    }
}
