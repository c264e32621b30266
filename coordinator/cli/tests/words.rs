//! How answers look: colour for terminals alone, YAML that says what JSON says, the version of both, and completions
//! that a shell loads.

#[path = "json/offline_commands.rs"]
mod offline_commands;

use std::collections::VecDeque;
use std::fs;
use std::process::{Command, Output};

use offline_commands::OFFLINE_JSON_COMMANDS;
use serde_json::Value;
use tempfile::TempDir;

const REWEAVE_PROGRAM: &str = env!("CARGO_BIN_EXE_reweave");
const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                      host_gbps = 0.4\nuplink_gbps = 0.2\n";
const FLOWS: &str = "src,dst,bytes,start_us\nh0,h2,1000000,0\nh1,h3,1000000,2.5\n";

/// What is asked of files that lie here.
const OFFLINE_COMMANDS: [&str; 4] = [
    "sim flows flows.csv --fabric fabric.toml",
    "sim collective --op allreduce --bytes 1000000 --fabric fabric.toml",
    "plan balance --fabric fabric.toml --flows flows.csv",
    "plan ranks --fabric fabric.toml --job job.toml",
];

fn files() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let job = "model = \"vgg16\"\nbatch = 16\n";
    let no_digest = "0".repeat(64);
    let audit = format!("{{\"number\":1,\"prev_sha256\":\"{no_digest}\"}}\n");
    fs::create_dir(folder.path().join("audit")).expect("there is room");
    for (name, text) in [
        ("fabric.toml", FABRIC),
        ("flows.csv", FLOWS),
        ("job.toml", job),
        ("problem.raw", "cap 100\nflow 1000000 0 0\n"),
        ("audit/1.jsonl", &audit),
    ] {
        fs::write(folder.path().join(name), text).expect("there is room");
    }
    folder
}

fn finished(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {said}");
    String::from_utf8(stdout).expect("text")
}

fn reweave(folder: &TempDir, words: &str) -> String {
    let words = words.split(' ');
    finished(
        Command::new(REWEAVE_PROGRAM)
            .args(words)
            .current_dir(folder.path())
            .env("XDG_CONFIG_HOME", folder.path().join("config")),
    )
}

/// What a person sees.
fn on_a_terminal(folder: &TempDir, words: &str, no_color: Option<&str>) -> String {
    let mut script = Command::new("script");
    let line = format!("{REWEAVE_PROGRAM} {words}");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    script.current_dir(folder.path()).env_remove("NO_COLOR");
    script.env("TERM", "xterm");
    finished(script.envs(no_color.map(|value| ("NO_COLOR", value))))
}

#[test]
fn colour_needs_terminal_or_request() {
    let folder = files();
    for words in OFFLINE_COMMANDS {
        let coloured = on_a_terminal(&folder, words, None);
        assert!(coloured.contains("\x1b[90m"), "{words}: {coloured:?}");
        // Set to nothing, it is not set.
        let empty = on_a_terminal(&folder, words, Some(""));
        assert!(empty.contains("\x1b[90m"), "{words}: {empty:?}");
        let plain = on_a_terminal(&folder, words, Some("1"));
        assert!(!plain.contains('\x1b'), "{words}: {plain:?}");
        assert!(!plain.is_empty());
        assert!(!reweave(&folder, words).contains('\x1b'), "{words}");
    }
}

#[test]
fn color_option_overrides_environment() {
    let folder = files();
    for words in OFFLINE_COMMANDS {
        let never = on_a_terminal(&folder, &format!("{words} --color never"), None);
        assert!(!never.contains('\x1b'), "{words}: {never:?}");
        let always = reweave(&folder, &format!("--color always {words}"));
        assert!(always.contains("\x1b[90m"), "{words}: {always:?}");
    }
}

/// On a terminal of four rows.
fn paged(folder: &TempDir, words: &str, variables: &[(&str, &str)]) -> String {
    let mut script = Command::new("script");
    let line = format!("stty rows 4 columns 200 && {REWEAVE_PROGRAM} {words}");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    script.current_dir(folder.path()).env("NO_COLOR", "1");
    script.env_remove("PAGER").env_remove("REWEAVE_PAGER");
    finished(script.envs(variables.iter().copied()))
}

#[test]
fn pager_shows_long_output_on_terminal() {
    let folder = files();
    let words = "plan balance --fabric fabric.toml --flows flows.csv";
    let mark = ("REWEAVE_PAGER", "sed s/^/own:/");
    let usual = ("PAGER", "sed s/^/usual:/");
    let own = paged(&folder, words, &[mark, usual]);
    assert!(own.lines().count() > 3, "{own}");
    assert!(own.lines().all(|line| line.starts_with("own:")), "{own}");
    let others = paged(&folder, words, &[usual]);
    assert!(others.starts_with("usual:"), "{others}");
    let missing = paged(&folder, words, &[("REWEAVE_PAGER", "no-such-pager 2>&-")]);
    assert_eq!(missing, own.replace("own:", ""));
}

#[test]
fn pager_is_left_out_where_useless() {
    let folder = files();
    let words = "plan balance --fabric fabric.toml --flows flows.csv";
    let mark = ("REWEAVE_PAGER", "sed s/^/own:/");
    for words in [
        // What fits is shown as it is.
        "version --client".to_owned(),
        format!("{words} --no-pager"),
        // No terminal reads it.
        format!("{words} | cat"),
    ] {
        let plain = paged(&folder, &words, &[mark]);
        assert!(!plain.is_empty() && !plain.contains("own:"), "{plain}");
    }
}

/// How long it took is another thing each time.
fn without_time(mut answer: Value) -> Value {
    if let Some(fields) = answer.as_object_mut() {
        fields.remove("wall_ms");
    }
    answer
}

#[test]
fn yaml_equals_json() {
    let folder = files();
    for words in OFFLINE_COMMANDS {
        let json = reweave(&folder, &format!("{words} --output json"));
        let yaml = reweave(&folder, &format!("{words} --output yaml"));
        let json: Value = serde_json::from_str(&json).expect("it is JSON");
        let yaml = Yaml::read(&yaml);
        assert!(json.as_object().is_some_and(|fields| fields.len() > 2));
        assert_eq!(without_time(yaml), without_time(json), "{words}");
    }
}

const JSON_BEGIN: &str = "{\"apiVersion\":\"reweave/v1\",";

#[test]
fn offline_answers_begin_with_api_version() {
    for (form, begin) in [("json", JSON_BEGIN), ("yaml", "apiVersion: reweave/v1\n")] {
        let folder = files();
        for words in OFFLINE_JSON_COMMANDS {
            let answer = reweave(&folder, &format!("{words} --output {form}"));
            assert!(answer.starts_with(begin), "{words}: {answer}");
        }
    }
}

/// The answer inside a line has none of its own, and tables have no such column.
#[test]
fn sweep_lines_have_one_api_version() {
    let folder = files();
    let words = "sim collective --op allreduce --bytes 1000000 --fabric fabric.toml \
                 --sweep uplink_gbps=0.1,0.2";
    let lines = reweave(&folder, &format!("{words} --output json"));
    assert_eq!(lines.lines().count(), 2, "{lines}");
    for line in lines.lines() {
        assert!(line.starts_with(JSON_BEGIN), "{line}");
        assert_eq!(line.matches("apiVersion").count(), 1, "{line}");
    }
    let table = reweave(&folder, words);
    assert!(!table.contains("apiVersion"), "{table}");
    reweave(&folder, &format!("{words} --to shards"));
    let kept = fs::read_to_string(folder.path().join("shards/shard-0-of-1.jsonl"));
    let merged = reweave(&folder, "sim gather shards --output json");
    assert_eq!(merged, kept.expect("it was written"));
    assert!(merged.starts_with(JSON_BEGIN), "{merged}");
}

/// The part of YAML that answers use: blocks, with what fits into a line at their ends.
struct Yaml<'a>(VecDeque<(usize, &'a str)>);

impl<'a> Yaml<'a> {
    fn read(text: &'a str) -> Value {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let indented = |line: &'a str| {
            let words = line.trim_start();
            (line.len() - words.len(), words)
        };
        let mut yaml = Self(lines.map(indented).collect());
        let value = yaml.block();
        assert!(yaml.0.is_empty(), "what is this: {:?}", yaml.0);
        value
    }

    fn block(&mut self) -> Value {
        let &(column, words) = self.0.front().expect("there is a value");
        let is_item = |words: &str| words == "-" || words.starts_with("- ");
        if is_item(words) {
            let mut items = Vec::new();
            while self
                .0
                .front()
                .is_some_and(|(at, words)| *at == column && is_item(words))
            {
                let (_, item) = self.0.pop_front().expect("it is there");
                let inner = item[1..].trim_start();
                if !inner.is_empty() {
                    self.0
                        .push_front((column + item.len() - inner.len(), inner));
                }
                items.push(self.block());
            }
            return Value::Array(items);
        }
        if field(words).is_none() {
            self.0.pop_front();
            return scalar(words);
        }
        let mut fields = serde_json::Map::new();
        while let Some(&(at, words)) = self.0.front()
            && at == column
            && let Some((key, value)) = field(words)
        {
            self.0.pop_front();
            let value = match value {
                "" => self.block(),
                value => scalar(value),
            };
            let key = scalar(key);
            let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
            assert!(fields.insert(key, value).is_none(), "{words} is said twice");
        }
        Value::Object(fields)
    }
}

fn field(words: &str) -> Option<(&str, &str)> {
    let key = words.strip_suffix(':').map(|key| (key, ""));
    key.or_else(|| words.split_once(": "))
}

fn scalar(words: &str) -> Value {
    let quoted = words
        .strip_prefix('\'')
        .and_then(|it| it.strip_suffix('\''));
    match quoted {
        Some(inner) => Value::String(inner.replace("''", "'")),
        None => serde_json::from_str(words).unwrap_or_else(|_| Value::String(words.to_owned())),
    }
}

#[test]
fn shells_complete_commands() {
    let folder = files();
    let script = reweave(&folder, "completions bash");
    fs::write(folder.path().join("completions"), script).expect("there is room");
    let bash = |line: &str| {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", line]).current_dir(folder.path());
        finished(&mut bash)
    };
    bash("bash -n completions");
    let complete = "source completions && COMP_WORDS=(reweave ap) && COMP_CWORD=1 && \
                    _reweave reweave ap reweave && echo ${COMPREPLY[@]}";
    assert_eq!(bash(complete), "apply approve\n");
    for shell in ["elvish", "fish", "powershell", "zsh"] {
        let script = reweave(&folder, &format!("completions {shell}"));
        for command in ["approve", "audit", "diff"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
}

#[test]
fn nccl_topology_gets_link_speed() {
    let folder = files();
    let net = "<net name=\"mlx5_0\" dev=\"0\" speed=\"100000\"/>";
    let picture =
        format!("<system version=\"1\"><cpu numaid=\"0\"><nic>{net}</nic></cpu></system>");
    fs::write(folder.path().join("dump.xml"), picture).expect("there is room");
    let words = "export nccl-topo --fabric fabric.toml --dump dump.xml --host";
    let text = reweave(&folder, &format!("{words} h0"));
    assert!(
        text.contains("<net name=\"mlx5_0\" dev=\"0\" speed=\"400\"/>"),
        "{text}"
    );
    let narrow = reweave(&folder, &format!("{words} leaf0 --nic mlx5_0=leaf0-spine1"));
    assert!(narrow.contains("speed=\"200\""), "{narrow}");
    let refused = |more: &str, because: &str| {
        let words = format!("{words} {more}");
        let mut asked = Command::new(REWEAVE_PROGRAM);
        asked.args(words.split(' ')).current_dir(folder.path());
        let output = asked.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), said.lines().count()),
            (Some(2), 1),
            "{said}"
        );
        assert!(said.contains(because), "{said}");
    };
    refused("h9", "fabric.toml: the fabric has no node h9");
    refused("leaf0", "map the NICs of leaf0 to its links with --nic");
    refused("h0 --nic mlx5_0=h1-leaf0", "links of h0: h0-leaf0");
    refused(
        "h0 --nic mlx5_9=h0-leaf0",
        "dump.xml is not a topology file that NCCL can read: NCCL has found no NIC mlx5_9",
    );
    refused("h0 --nccl 2.5", "it came with 2.6");
}

/// A host with a NIC on each of two rails, known by its interface and by its GPU, and one for storage.
const RAILS_FILE: &str = r#"
kind = "graph"
node = [
  { name = "h0", role = "host" }, { name = "h1", role = "host" },
  { name = "leaf0", role = "switch" }, { name = "leaf1", role = "switch" },
]
link = [{ a = "leaf0", b = "leaf1", gbps = 100 }]
nic = [
  { host = "h0", to = "leaf0", gbps = 100, rail = 0, interface = "eth0" },
  { host = "h0", to = "leaf1", gbps = 200, rail = 1, gpu = 3 },
  { host = "h0", to = "leaf0", gbps = 25, use = "storage", interface = "eth8" },
  { host = "h1", to = "leaf0", gbps = 100, rail = 0 }, { host = "h1", to = "leaf1", gbps = 100, rail = 1 },
]
"#;

/// The second NIC has a name that is in no file, and is beside GPU 3.
const RAILS_DUMP: &str = r#"<system version="1"><cpu numaid="0">
<nic><net name="eth0" dev="0" speed="1"/></nic>
<pci busid="0000:15:00.0"><pci busid="0000:16:00.0"><gpu dev="3"/></pci>
<pci busid="0000:17:00.0"><nic><net name="mlx5_7" dev="1" speed="1"/></nic></pci></pci>
<nic><net name="mlx5_9" dev="2" speed="1"/></nic>
</cpu></system>
"#;

#[test]
fn nccl_topology_follows_declared_nics() {
    let folder = files();
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("there is room");
    };
    write("rails.toml", RAILS_FILE);
    write("dump.xml", RAILS_DUMP);
    let run = |more: &str| {
        let words =
            format!("export nccl-topo --fabric rails.toml --dump dump.xml --host h0 {more}");
        let mut asked = Command::new(REWEAVE_PROGRAM);
        asked
            .args(words.split_whitespace())
            .current_dir(folder.path());
        let output = asked.output().expect("it runs");
        let [out, said] = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.code(), out, said)
    };
    let (code, text, said) = run("--nccl 2.30");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        text.contains("name=\"eth0\" dev=\"0\" speed=\"100000\" rail=\"0\"/>"),
        "{text}"
    );
    assert!(
        text.contains("name=\"mlx5_7\" dev=\"1\" speed=\"200000\" rail=\"1\"/>"),
        "{text}"
    );
    assert!(
        text.contains("name=\"mlx5_9\" dev=\"2\" speed=\"1\"/>"),
        "{text}"
    );
    assert!(said.contains("mlx5_7: rail 1, 200.0 Gb/s"), "{said}");
    let (code, _, said) = run("--nic eth8=h0-leaf0.1");
    assert_eq!(code, Some(2));
    assert!(
        said.contains("--nic eth8=h0-leaf0.1: it is for storage"),
        "{said}"
    );
    write("rails.toml", &RAILS_FILE.replace("gpu = 3", "gpu = 4"));
    let (code, _, said) = run("");
    assert_eq!(code, Some(2));
    assert!(
        said.contains("mlx5_7 is no NIC of h0 in the fabric file"),
        "{said}"
    );
    assert!(said.contains("links without a NIC: h0-leaf1"), "{said}");
}

/// The variables name another cluster, which would answer.
#[test]
fn unknown_context_is_always_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("reweave");
    fs::create_dir(&config).expect("there is room");
    let context = "[[context]]\nname = \"lab\"\ncoordinators = [\"10.0.0.1\"]\n";
    fs::write(config.join("config.toml"), context).expect("there is room");
    let asked = |words: &[&str], named: Option<&str>| {
        let mut command = Command::new(REWEAVE_PROGRAM);
        command.args(words).env("XDG_CONFIG_HOME", folder.path());
        command.env("REWEAVE_COORDINATOR", "127.0.0.1:1");
        command.env("REWEAVE_IDENTITY", folder.path());
        if let Some(name) = named {
            command.env("REWEAVE_CONTEXT", name);
        }
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let refusal = "error: no context named nosuch; `reweave context list` lists them\n";
    let refused = (Some(2), refusal.to_owned());
    assert_eq!(asked(&["--context", "nosuch", "status"], None), refused);
    assert_eq!(asked(&["status"], Some("nosuch")), refused);
    let (_, known) = asked(&["--context", "lab", "status"], None);
    assert!(known.contains("cannot use the identity"), "{known}");
}

/// Options from the environment are no part of the mistake.
#[test]
fn usage_lines_leave_variables_out() {
    let said = |words: &str| {
        let mut command = Command::new(REWEAVE_PROGRAM);
        command.args(words.split(' '));
        command.env("REWEAVE_COORDINATOR", "10.0.0.1");
        let output = command.env("REWEAVE_IDENTITY", "/certificates").output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{words}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (words, missing) in [
        ("plan drain", "<LINK|NODE>"),
        ("export slurm-tree", "--fabric <FABRIC>"),
    ] {
        let said = said(words);
        let is_named = said.contains(missing) && said.contains("Usage: reweave ");
        let is_plain = !said.contains("--coordinator") && !said.contains("--identity");
        assert!(is_named && is_plain, "{said}");
    }
}
