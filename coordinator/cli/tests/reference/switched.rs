//! `reweave plan balance`, `ranks`, `tuner` and `probes` on files: what they answer, and what they refuse.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use tempfile::TempDir;

type Check = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    let checks: [(&str, Check); 22] = [
        ("missing cable", a_missing_cable),
        ("small gains", small_gains),
        ("drained links", drained_links),
        ("beside fullest link", beside_the_fullest_link),
        ("figures", figures),
        ("bad flows", bad_flows),
        ("words and figures", words_and_figures),
        ("names in order already", names_in_order),
        ("empty table", an_empty_table),
        ("known hash", known_hash),
        ("doubtful flows", doubtful_flows),
        ("ranks on rails", ranks_on_rails),
        ("ranks on tree", ranks_on_a_tree),
        ("bad pairs", bad_pairs),
        ("slow pairs", slow_pairs),
        ("tuner table", a_tuner_table),
        ("channels", channels),
        ("measurements", measurements),
        ("probes", probes),
        ("impossible probes", probes_that_cannot_be),
        ("probes of known paths", probes_of_known_ways),
        ("probes by kernel hash", probes_by_the_kernels_hash),
    ];
    let trial = |(name, check): (&str, Check)| Trial::test(format!("switched::{name}"), check);
    checks.into_iter().map(trial)
}

/// Files by their names, and a command that is run among them.
pub(crate) struct Desk(TempDir);

impl Desk {
    pub(crate) fn with(files: &[(&str, &str)]) -> Result<Self, Failed> {
        let desk = Self(TempDir::new()?);
        for (name, text) in files {
            std::fs::write(desk.0.path().join(name), text)?;
        }
        Ok(desk)
    }

    pub(crate) fn run(&self, words: &str) -> Result<Output, Failed> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reweave"));
        command.args(words.split_whitespace());
        Ok(command.current_dir(self.0.path()).output()?)
    }

    fn plan(&self, words: &str) -> Result<Output, Failed> {
        self.run(&format!("plan {words}"))
    }

    fn json(&self, words: &str) -> Result<Value, Failed> {
        self.answer(&format!("plan {words}"))
    }

    pub(crate) fn answer(&self, words: &str) -> Result<Value, Failed> {
        let output = self.run(&format!("{words} --output json"))?;
        if output.status.success() {
            Ok(serde_json::from_slice(&output.stdout)?)
        } else {
            Err(said(&output).into())
        }
    }

    /// That this is refused with one line that says so.
    fn refuses(&self, words: &str, text: &str) -> Result<(), Failed> {
        self.says_no(&format!("plan {words}"), text)
    }

    pub(crate) fn says_no(&self, words: &str, text: &str) -> Result<(), Failed> {
        let output = self.run(words)?;
        let said = said(&output);
        holds(
            output.status.code() == Some(2) && said.contains(text),
            &said,
        )
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn holds(so: bool, text: &str) -> Result<(), Failed> {
    if so {
        Ok(())
    } else {
        Err(text.to_owned().into())
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

pub(crate) fn leaf_spine(leaves: u32, spines: u32, hosts: u32) -> String {
    format!(
        "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\nhosts_per_leaf = {hosts}\n\
         host_gbps = 100\nuplink_gbps = 100\n"
    )
}

/// Links as in `a-l0:100`; hosts are a, b, c, d and what begins with h.
fn graph(links: &str) -> String {
    let ends = |link: &str| {
        let (pair, gbps) = link.split_once(':').unwrap_or((link, "100"));
        let (a, b) = pair.split_once('-').unwrap_or((pair, ""));
        [a, b, gbps].map(str::to_owned)
    };
    let links: Vec<_> = links.split_whitespace().map(ends).collect();
    let mut names: Vec<_> = links.iter().flat_map(|[a, b, _]| [a, b]).collect();
    names.sort();
    names.dedup();
    let node = |name: &&String| {
        let is_host = name.len() == 1 || name.starts_with('h');
        let role = if is_host { "host" } else { "switch" };
        format!("{{ name = \"{name}\", role = \"{role}\" }}")
    };
    let link =
        |[a, b, gbps]: &[String; 3]| format!("{{ a = \"{a}\", b = \"{b}\", gbps = {gbps} }}");
    let nodes = names.iter().map(node).collect::<Vec<_>>().join(", ");
    let links = links.iter().map(link).collect::<Vec<_>>().join(", ");
    format!("kind = \"graph\"\nnode = [{nodes}]\nlink = [{links}]\n")
}

/// Flows as in `h0>leaf0>spine0>leaf1>h4:100`.
fn flows(rows: &str) -> String {
    let row = |flow: &str| {
        let (path, bytes) = flow.split_once(':').unwrap_or((flow, "1"));
        let ends = [path.split('>').next(), path.split('>').next_back()];
        let [from, to] = ends.map(Option::unwrap_or_default);
        format!("{from},{to},{bytes},{path}\n")
    };
    let rows: String = rows.split_whitespace().map(row).collect();
    format!("src,dst,bytes,path\n{rows}")
}

/// Of 32 flows from 10.9.0.7 to 10.1.0.5: which of four next hops `ip route get` of Linux 6.18 named for
/// source ports from 7400 on, under policy 3 and the seed 12345.
const KERNEL_NEXT_HOPS: &str = "32201020122233321222000333021232";

fn known_hash() -> Result<(), Failed> {
    let rows = (7400..7432).map(|port| format!("h0,h4,100,10.9.0.7,10.1.0.5,{port}\n"));
    let table = "src,dst,bytes,src_ip,dst_ip,sport\n".to_owned() + &rows.collect::<String>();
    let desk = Desk::with(&[
        ("fabric.toml", &leaf_spine(2, 4, 4)),
        ("flows.csv", &table),
        ("bare.csv", "src,dst,bytes\nh0,h4,5\n"),
    ])?;
    let answer = desk.json(&format!("{BALANCE_COMMAND} --linux 3 --seed 12345"))?;
    let on = ['0', '1', '2', '3'].map(|place| KERNEL_NEXT_HOPS.matches(place).count() as f64);
    let fim = on.iter().map(|flows| (flows - 8.0).abs() / 8.0 * 25.0);
    let fim: f64 = fim.sum();
    holds(
        (number(&answer["before"]["fim"]) - fim).abs() < 1e-9 && answer["predicted"] == 32,
        &format!("{fim} {answer}"),
    )?;
    let page = desk.plan(&format!("{BALANCE_COMMAND} --linux 3 --seed 12345"))?;
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    holds(
        page.contains("32 flows were not traced: their paths are predicted"),
        &page,
    )?;
    desk.refuses(
        &format!("{BALANCE_COMMAND} --linux 3"),
        "--linux needs --seed",
    )?;
    let bare = "balance --fabric fabric.toml --flows bare.csv --linux 3 --seed 1";
    desk.refuses(bare, "bare.csv:1: src_ip: this column is missing")
}

/// Two halves between which no cable leads, and one flow that two traces tell of.
fn doubtful_flows() -> Result<(), Failed> {
    let table = "src,dst,bytes,path,sport\n\
                 a,d,5,,1\n\
                 a,b,5,a>l0>s0>l1>b,7\n\
                 a,b,5,a>l0>s1>l1>b,7\n\
                 a,b,5,a>l0>l1>b,8\n";
    let cables = "a-l0 b-l1 l0-s0 l0-s1 l1-s0 l1-s1 c-l2 d-l2";
    let desk = Desk::with(&[("fabric.toml", &graph(cables)), ("flows.csv", table)])?;
    let answer = desk.json(BALANCE_COMMAND)?;
    let doubts: Vec<_> = answer["doubts"].as_array().into_iter().flatten().collect();
    let expected = [
        "flow 0 is left out: no path from a to d",
        "flow 3 is left out: it was traced from l0 to l1, which are not linked",
        "flows 1 and 2 are left out: they have the same fields and were traced over different \
         paths",
    ];
    holds(doubts == expected, &answer.to_string())
}

const BALANCE_COMMAND: &str = "balance --fabric fabric.toml --flows flows.csv";

/// To one leaf two of three spines lead: the flows there share what all share.
fn a_missing_cable() -> Result<(), Failed> {
    let cables = "a-l0 b-l0 c-l1 d-l2 l0-s0 l0-s1 l0-s2 l1-s0 l1-s1 l1-s2 l2-s0 l2-s1";
    let rows = "b>l0>s2>l1>c:100 b>l0>s1>l2>d:50 b>l0>s2>l1>c:50 b>l0>s1>l1>c:100";
    let desk = Desk::with(&[("fabric.toml", &graph(cables)), ("flows.csv", &flows(rows))])?;
    let answer = desk.json(&format!("{BALANCE_COMMAND} --least-gain 0"))?;
    let mut on = BTreeMap::from([("l0-s0", 0.0), ("l0-s1", 0.0), ("l0-s2", 0.0)]);
    let pins = answer["pins"].as_array().cloned().unwrap_or_default();
    for (flow, (link, bytes)) in [
        ("l0-s2", 100.0),
        ("l0-s1", 50.0),
        ("l0-s2", 50.0),
        ("l0-s1", 100.0),
    ]
    .into_iter()
    .enumerate()
    {
        let pin = pins
            .iter()
            .find(|pin| pin["flow"] == flow && pin["at"] == "l0");
        let link = pin.and_then(|pin| pin["link"].as_str()).unwrap_or(link);
        *on.get_mut(link).ok_or("an unknown link")? += bytes;
    }
    let fullest = on.values().copied().fold(0.0, f64::max);
    let [before, after] = ["before", "after"].map(|it| number(&answer[it]["max_over_mean"]));
    let links = ["bound", "after", "before"].map(|it| number(&answer["links"][it]));
    let sound = after <= before && links.is_sorted() && answer["proven"] == true;
    holds(fullest == 100.0 && sound, &answer.to_string())
}

fn small_gains() -> Result<(), Failed> {
    let little = "h8>leaf2>spine0>leaf3>h12:50 h9>leaf2>spine0>leaf3>h13:50 \
                  h10>leaf2>spine1>leaf3>h14:49 h11>leaf2>spine1>leaf3>h15:49";
    let meeting = "h0>leaf0>spine0>leaf1>h4:50 h1>leaf0>spine0>leaf1>h5:50";
    let desk = Desk::with(&[
        ("fabric.toml", &leaf_spine(4, 2, 4)),
        ("flows.csv", &flows(&format!("{meeting} {little}"))),
        ("little.csv", &flows(little)),
    ])?;
    let both = desk.json(BALANCE_COMMAND)?;
    holds(
        both["moves"] == 1 && number(&both["pins"][0]["flow"]) < 2.0,
        &both.to_string(),
    )?;
    let alone = desk.plan("balance --fabric fabric.toml --flows little.csv")?;
    let page = String::from_utf8_lossy(&alone.stdout).into_owned();
    holds(
        page.contains("the possible gain does not justify a move"),
        &page,
    )
}

fn drained_links() -> Result<(), Failed> {
    let rows =
        "h0>leaf0>spine0>leaf1>h4:100 h1>leaf0>spine0>leaf1>h5:100 h2>leaf0>spine2>leaf1>h6:1";
    let desk = Desk::with(&[
        ("fabric.toml", &leaf_spine(2, 3, 4)),
        ("flows.csv", &flows(rows)),
    ])?;
    let drain = "--drain leaf0-spine2 --drain leaf1-spine2";
    let answer = desk.json(&format!("{BALANCE_COMMAND} {drain}"))?;
    let after = number(&answer["after"]["max_over_mean"]);
    holds(answer["moves"] == 2 && after < 1.01, &answer.to_string())?;
    let output = desk.plan(&format!("{BALANCE_COMMAND} --drain h0-leaf0"))?;
    let text = "flow 0 stays on the drained link h0-leaf0: it must not be moved";
    holds(said(&output).contains(text), &said(&output))?;
    let all = "--drain leaf0-spine0 --drain leaf0-spine1 --drain leaf0-spine2";
    let page = desk.plan(&format!("{BALANCE_COMMAND} {all}"))?;
    let page = String::from_utf8(page.stdout)?;
    holds(page.contains("have no other path"), &page)?;
    let beyond = desk.plan(&format!("{BALANCE_COMMAND} --drain leaf1-spine0"))?;
    let page = String::from_utf8(beyond.stdout)?;
    holds(page.contains("at leaf0: leaf0-spine0 takes 0 parts"), &page)
}

fn beside_the_fullest_link() -> Result<(), Failed> {
    let rows =
        "h0>leaf0>spine0>leaf1>h4:300 h1>leaf0>spine1>leaf1>h5:150 h2>leaf0>spine1>leaf1>h6:150";
    let desk = Desk::with(&[
        ("fabric.toml", &leaf_spine(2, 3, 4)),
        ("flows.csv", &flows(rows)),
    ])?;
    let answer = desk.json(BALANCE_COMMAND)?;
    let above = ["before", "after"].map(|it| number(&answer[it]["fim_above_floor"]));
    let levelled = answer["moves"] == 1 && answer["levelling"] == 1;
    holds(
        levelled && above[0] > 60.0 && above[1] == 0.0,
        &answer.to_string(),
    )
}

fn figures() -> Result<(), Failed> {
    let table = "src,dst,bytes,path,start_us,end_us,job\n\
                 h0,h2,5,h0>leaf0>spine0>leaf1>h2,0,20,train\n\
                 h1,h3,5,h1>leaf0>spine0>leaf1>h3,10,20,train\n\
                 h2,h0,5,h2>leaf1>*>leaf0>h0,0,20,other\n";
    let desk = Desk::with(&[("fabric.toml", &leaf_spine(2, 2, 2)), ("flows.csv", table)])?;
    let answer = desk.json(BALANCE_COMMAND)?;
    let job = &answer["jobs"][0];
    let layers = answer["layers"].as_array().map_or(0, Vec::len);
    let over_time = &answer["over_time"];
    let sound = job["job"] == "train"
        && number(&job["fim"]) == 100.0
        && layers == 2
        && number(&over_time["worst_fim"]) == 100.0
        && answer["doubts"][0] == "flow 2 is left out: the hop after leaf1 did not answer";
    holds(sound, &answer.to_string())
}

fn bad_flows() -> Result<(), Failed> {
    let desk = Desk::with(&[
        ("fabric.toml", &leaf_spine(2, 2, 2)),
        ("flows.csv", &flows("h0>leaf0>spine0>leaf1>h2:9")),
        ("self.csv", "src,dst,bytes\nh0,h0,5\n"),
    ])?;
    as_spreadsheets_write_it()?;
    desk.refuses(
        "balance --fabric fabric.toml --flows self.csv",
        "self.csv:2: dst: it is src",
    )?;
    let twice = "--lossy leaf0-spine0=0.1 --lossy leaf0-spine0=0.2";
    desk.refuses(
        &format!("{BALANCE_COMMAND} {twice}"),
        "--lossy names leaf0-spine0 twice",
    )?;
    desk.refuses(&format!("{BALANCE_COMMAND} --drain leaf9"), "leaf9")
}

/// With a mark before it that says how its characters are written.
fn as_spreadsheets_write_it() -> Result<(), Failed> {
    let mark = |text: &str| format!("\u{feff}{text}");
    let desk = Desk::with(&[
        ("fabric.toml", &mark(&leaf_spine(2, 2, 2))),
        ("flows.csv", &mark(&flows("h0>leaf0>spine0>leaf1>h2:9"))),
    ])?;
    let answer = desk.json(BALANCE_COMMAND)?;
    holds(answer["elephants"] == 1, &answer.to_string())
}

/// Where the group is that the figures are of, and what becomes of it over time.
fn words_and_figures() -> Result<(), Failed> {
    let table = "src,dst,bytes,path,start_us,end_us\n\
                 h0,h4,100,h0>leaf0>spine0>leaf1>h4,0,10\n\
                 h1,h5,100,h1>leaf0>spine0>leaf1>h5,5,20\n";
    let desk = Desk::with(&[
        ("fabric.toml", &leaf_spine(2, 2, 4)),
        ("flows.csv", table),
        ("late.csv", &table.replace(",0,10", ",nan,10")),
        ("early.csv", &table.replace(",0,10", ",-5,10")),
        ("endless.csv", &table.replace(",0,10", ",0,inf")),
    ])?;
    let answer = desk.json(BALANCE_COMMAND)?;
    let group = serde_json::json!({ "at": "leaf0", "links": ["leaf0-spine0", "leaf0-spine1"] });
    holds(answer["largest_fim"] == group, &answer.to_string())?;
    let page = desk.plan(BALANCE_COMMAND)?;
    let page = String::from_utf8(page.stdout)?;
    for words in [
        "FIM is largest at leaf0: leaf0-spine0, leaf0-spine1\n",
        "over time FIM is 100.0 % on average, 100.0 % at worst, from 0 us\n",
        "1 move: no choice of paths lowers the fullest link further or needs fewer moves\n",
    ] {
        holds(page.contains(words), &page)?;
    }
    for (file, key) in [
        ("late", "start_us: NaN"),
        ("early", "start_us: -5"),
        ("endless", "end_us: inf"),
    ] {
        let words = format!("balance --fabric fabric.toml --flows {file}.csv");
        desk.refuses(&words, &format!("{file}.csv:2: {key}"))?;
    }
    desk.refuses(
        &format!("{BALANCE_COMMAND} --lossy leaf0-spine0"),
        "--lossy leaf0-spine0 is not LINK=SHARE",
    )?;
    desk.refuses(
        &format!("{BALANCE_COMMAND} --lossy leaf0-spine0=2"),
        "--lossy 2 is out of range",
    )
}

fn an_empty_table() -> Result<(), Failed> {
    let desk = Desk::with(&[
        ("fabric.toml", &leaf_spine(2, 2, 4)),
        ("flows.csv", "# none\n\n"),
    ])?;
    desk.refuses(
        BALANCE_COMMAND,
        "flows.csv:1: it is empty: the first line names the columns",
    )
}

/// Any other difference is one before and after: nothing is gained, and nothing lost.
fn names_in_order() -> Result<(), Failed> {
    let job = JOB.replace("data = 16", "data = 8");
    let bare = "kind = \"graph\"\n[[node]]\nname = \"s0\"\nrole = \"switch\"\n";
    let files = [
        ("fabric.toml", &*leaf_spine(2, 2, 4)),
        ("job.toml", &job),
        ("bare.toml", bare),
    ];
    let desk = Desk::with(&files)?;
    desk.refuses(
        "ranks --fabric bare.toml --job job.toml",
        "bare.toml: there are no hosts",
    )?;
    let words = "ranks --fabric fabric.toml --job job.toml";
    let answer = desk.json(words)?;
    let names: Vec<_> = (0..8).map(|host| format!("h{host}")).collect();
    let is_by_name = answer["order"] == serde_json::json!(names);
    let nothing = answer["gain_interval_percent"] == serde_json::json!([0.0, 0.0]);
    holds(is_by_name && nothing, &answer.to_string())?;
    let page = desk.plan(words)?;
    let page = String::from_utf8(page.stdout)?;
    holds(
        page.contains("no tried order is faster than the order by name"),
        &page,
    )
}

const JOB: &str = "model = \"gpt\"\nsize = \"125m\"\nbatch = 16\n[parallelism]\ndata = 16\n";

/// Hosts of two blocks, each with two ports; names go by blocks, or from one to the other.
fn rails(alternate: bool) -> String {
    let mut links = "x00-spine:10 x01-spine:10 x10-spine:10 x11-spine:10".to_owned();
    for host in 0..16 {
        let block = if alternate { host % 2 } else { host / 8 };
        links += &format!(" h{host:02}-x{block}0 h{host:02}-x{block}1");
    }
    graph(&links)
}

fn ranks_on_rails() -> Result<(), Failed> {
    let (by_block, mixed) = (rails(false), rails(true));
    let desk = Desk::with(&[
        ("blocks.toml", &by_block),
        ("mixed.toml", &mixed),
        ("job.toml", JOB),
    ])?;
    let [best, found] = ["blocks", "mixed"]
        .map(|fabric| desk.json(&format!("ranks --fabric {fabric}.toml --job job.toml")));
    let (best, found) = (best?, found?);
    let no_worse = number(&best["after_ms"]) <= number(&best["before_ms"]);
    let as_good = number(&found["after_ms"]) <= number(&best["before_ms"]) * 1.001;
    holds(no_worse && as_good, &format!("{best} {found}"))?;
    let output = desk.plan("ranks --fabric mixed.toml --job job.toml --output hostfile")?;
    let lines = String::from_utf8(output.stdout)?;
    let blocks: String = lines.lines().filter_map(|line| line.get(2..3)).collect();
    let slots = lines.lines().all(|line| line.ends_with(" slots=1"));
    holds(slots && blocks.len() == 16, &lines)?;
    ranks_on_declared_rails()
}

/// Storage NICs change nothing, though their switches are as near as leaves.
fn ranks_on_declared_rails() -> Result<(), Failed> {
    let pods = "kind = \"rails\"\npods = 2\nhosts_per_pod = 4\nrails = 2\nspines = 2\n\
                host_gbps = 100\nuplink_gbps = 10\n";
    let stored = format!("{pods}storage_nics = 2\n");
    let job = JOB.replace("data = 16", "data = 8");
    let files = [("a.toml", pods), ("b.toml", &*stored), ("job.toml", &*job)];
    let desk = Desk::with(&files)?;
    let answer = |fabric: &str| desk.json(&format!("ranks --fabric {fabric}.toml --job job.toml"));
    let (plain, stored) = (answer("a")?, answer("b")?);
    let is_by_pod = plain["groups"] == serde_json::json!([[0, 1, 2, 3], [4, 5, 6, 7]]);
    holds(is_by_pod && plain == stored, &format!("{plain} {stored}"))
}

fn ranks_on_a_tree() -> Result<(), Failed> {
    let mut links = "agg0-core:10 agg1-core:10".to_owned();
    for host in 0..16 {
        let (pod, rack) = (host % 2, host / 4);
        links += &format!(" h{host:02}-tor{pod}{rack}");
    }
    for rack in 0..4 {
        links += &format!(" tor0{rack}-agg0 tor1{rack}-agg1");
    }
    let desk = Desk::with(&[("fabric.toml", &graph(&links)), ("job.toml", JOB)])?;
    let answer = desk.json("ranks --fabric fabric.toml --job job.toml")?;
    let gain = number(&answer["gain_percent"]);
    holds(gain > 50.0, &answer.to_string())?;
    // So few ranks are simulated under many conditions.
    let [low, high] = [0, 1].map(|end| number(&answer["gain_interval_percent"][end]));
    let holds_it = 0.0 < low && low <= gain && gain <= high;
    holds(holds_it, &answer.to_string())
}

/// The shortest order goes over a pair that was measured to be slow; around it each rack is left twice.
fn slow_pairs() -> Result<(), Failed> {
    let job = JOB.replace("data = 16", "data = 4");
    let desk = Desk::with(&[
        ("fabric.toml", &leaf_spine(2, 1, 2)),
        ("job.toml", &job),
        ("pairs.csv", "from,to,gbps\nh0,h1,0.1\nh1,h0,0.1\n"),
    ])?;
    let words = "ranks --fabric fabric.toml --job job.toml";
    let known = desk.json(words)?;
    let answer = desk.json(&format!("{words} --pairs pairs.csv"))?;
    let slower = number(&answer["before_ms"]) > 10.0 * number(&known["before_ms"]);
    let order = answer["order"].as_array().ok_or("no order")?;
    let place = |name| order.iter().position(|host| host == name);
    let apart = place("h0").zip(place("h1")).map(|(a, b)| a.abs_diff(b));
    let gains = [0, 1].map(|end| number(&answer["gain_interval_percent"][end]));
    let gains_much = number(&answer["gain_percent"]) > 80.0 && gains[0] > 80.0;
    holds(
        slower && apart == Some(2) && gains_much,
        &answer.to_string(),
    )
}

fn bad_pairs() -> Result<(), Failed> {
    let desk = Desk::with(&[
        ("fabric.toml", &leaf_spine(2, 2, 8)),
        ("job.toml", JOB),
        ("twice.csv", "from,to,gbps\nh0,h1,1\nh0,h1,90\n"),
        ("switch.csv", "from,to,gbps\nh0,leaf0,1\n"),
        ("itself.csv", "from,to,gbps\nh0,h0,1\n"),
        ("rail.csv", "from,to,rail,gbps\nh0,h1,0,1\nh0,h1,0,2\n"),
    ])?;
    let ranks = "ranks --fabric fabric.toml --job job.toml --pairs";
    desk.refuses(
        &format!("{ranks} twice.csv"),
        "twice.csv:3: to: this pair was listed before",
    )?;
    desk.refuses(
        &format!("{ranks} itself.csv"),
        "itself.csv:2: to: it is from",
    )?;
    desk.refuses(
        &format!("{ranks} switch.csv"),
        "switch.csv:2: to: the fabric has no host",
    )?;
    desk.refuses(
        &format!("{ranks} rail.csv"),
        "rail.csv:3: to: this pair was listed before",
    )?;
    let table = "ranks --fabric fabric.toml --job job.toml --output csv";
    desk.refuses(table, "only `reweave pairs` prints CSV")
}

fn a_tuner_table() -> Result<(), Failed> {
    let desk = Desk::with(&[("fabric.toml", &leaf_spine(2, 2, 4))])?;
    let tuner = "tuner --fabric fabric.toml";
    let output = desk.plan(&format!("{tuner} --most-bytes 1000000 --ranks-per-host 2"))?;
    let table = String::from_utf8(output.stdout)?;
    let rows: Vec<Vec<_>> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(',').collect())
        .collect();
    let shaped = rows
        .iter()
        .all(|row| row.len() == 10 && row[0] == "allreduce" && row[6..8] == ["8", "16"]);
    let last = rows.last().ok_or("an empty table")?[2];
    holds(shaped && last == "1000000", &table)?;
    let times = |ranks: u32| {
        let answer = desk.json(&format!(
            "{tuner} --most-bytes 4096 --ranks-per-host {ranks}"
        ));
        Ok::<_, Failed>(number(&answer?["choices"][0]["time_us"]))
    };
    let [alone, crowded] = [times(1)?, times(8)?];
    holds(crowded > alone, &format!("{alone} {crowded}"))?;
    desk.refuses(&format!("{tuner} --ranks-per-host 0"), "--ranks-per-host")?;
    desk.refuses(
        &format!("{tuner} --ranks-per-host 4294967295"),
        "--ranks-per-host 4294967295 is out of range",
    )?;
    desk.refuses(
        &format!("{tuner} --op alltoall"),
        "invalid value 'alltoall'",
    )
}

/// Of 8 links of 25 Gb/s above hosts of 100, a channel fills one: large messages take more channels,
/// small ones do not, and it is said why.
fn channels() -> Result<(), Failed> {
    let fabric = "kind = \"leaf-spine\"\nleaves = 4\nspines = 8\nhosts_per_leaf = 4\nhost_gbps = 100\n\
                  uplink_gbps = 25\n";
    let text = "size count type redop root time\n1024 256 float sum -1 900 1 1 0\n";
    let desk = Desk::with(&[("fabric.toml", fabric), ("out.txt", text)])?;
    let answer = desk.json("tuner --fabric fabric.toml --channel-gbps 400")?;
    let choices = answer["choices"].as_array().ok_or("no choices")?;
    let [first, .., last] = &choices[..] else {
        return Err("too few sizes".into());
    };
    let channels = [first, last].map(|it| number(&it["channels"]));
    holds(
        channels[0] == 1.0 && channels[1] >= 8.0,
        &format!("{channels:?}"),
    )?;
    let because = [&first["why"]["more"], &last["why"]["fewer"]].map(|it| it["because"].clone());
    let expected = [
        "each step starts more transfers",
        "fewer flows collide more",
    ];
    holds(because == expected, &format!("{because:?}"))?;
    let said = answer["csv"].as_str().ok_or("no table")?;
    holds(expected.iter().all(|it| said.contains(it)), said)?;

    let tuner = "tuner --fabric fabric.toml";
    let bound = desk.json(&format!("{tuner} --measured ring/simple/24=out.txt"))?;
    let tried = bound["choices"][0]["weighed"]
        .as_array()
        .ok_or("nothing weighed")?;
    holds(
        tried.iter().any(|it| it["channels"] == 24),
        "what was measured is not tried",
    )?;
    desk.refuses(&format!("{tuner} --start-us nan"), "--start-us")?;
    for wrong in ["rings/ll=out.txt", "ring/ll/0=out.txt", "ring/ll/x=out.txt"] {
        desk.refuses(
            &format!("{tuner} --measured {wrong}"),
            "as in ring/ll=FILE or ring/ll/4=FILE",
        )?;
    }
    desk.refuses(
        &format!("{tuner} --measured ring/ll/4=none.txt"),
        "cannot read none.txt",
    )
}

fn measurements() -> Result<(), Failed> {
    let line = |bytes: u64, us: f64| format!("{bytes} {} float sum -1 {us} 1 1 0\n", bytes / 4);
    let all = |us: fn(u64) -> f64| {
        (10..28)
            .map(|nth| line(1 << nth, us(1 << nth)))
            .collect::<String>()
    };
    let flat = all(|_| 9000.0);
    let slow = all(|bytes| 9000.0 + bytes as f64 / 6e3);
    let rings = all(|bytes| 9000.0 + bytes as f64 / 1e3);
    let other = format!(
        "# Collective test starting: all_gather_perf\n{}",
        line(1024, 30.0)
    );
    let desk = Desk::with(&[
        ("fabric.toml", &leaf_spine(2, 2, 4)),
        ("flat.txt", &flat),
        ("slow.txt", &slow),
        ("rings.txt", &rings),
        ("other.txt", &other),
    ])?;
    let table = |more: &str| desk.plan(&format!("tuner --fabric fabric.toml {more}"));
    let [plain, flat, slow, bound] = [
        table("")?,
        table("--measured flat.txt")?,
        table("--measured slow.txt")?,
        table("--measured ring/simple=rings.txt")?,
    ];
    holds(
        said(&flat).contains("from this fabric after calibration"),
        &said(&flat),
    )?;
    holds(slow.stdout != plain.stdout, "measurements change nothing")?;
    let rings = |output: &Output| String::from_utf8_lossy(&output.stdout).contains("ring,simple");
    holds(
        rings(&plain) && !rings(&bound),
        "what is slow by itself is chosen",
    )?;
    let text = "the measurement is of all_gather_perf, but the request is for all_reduce_perf";
    let other = table("--measured other.txt")?;
    holds(said(&other).contains(text), &said(&other))
}

fn probes() -> Result<(), Failed> {
    let desk = Desk::with(&[("fabric.toml", &leaf_spine(3, 4, 4))])?;
    let answer = desk.json("probes --fabric fabric.toml")?;
    let lists = answer["lists"].as_object().ok_or("no lists")?;
    let flows: usize = lists
        .values()
        .map(|list| list.as_array().map_or(0, Vec::len))
        .sum();
    let covered = answer["uncovered"].as_array().is_some_and(Vec::is_empty);
    holds(
        covered && answer["flows"] == flows && flows > 0,
        &answer.to_string(),
    )?;
    let more = desk.json("probes --fabric fabric.toml --rate 20")?;
    let grows = number(&more["flows"]) > number(&answer["flows"]);
    holds(grows, "twice the rate needs no more flows")
}

fn probes_that_cannot_be() -> Result<(), Failed> {
    let desk = Desk::with(&[("fabric.toml", &leaf_spine(1, 1, 1))])?;
    let output = desk.plan("probes --fabric fabric.toml")?;
    let report = said(&output).contains("no flow crosses");
    holds(report && output.status.code() == Some(1), &said(&output))?;
    for (asked, said) in [
        ("--flow-rate 0", "--flow-rate 0"),
        ("--rate nan", "--rate NaN"),
        (
            "--flow-rate 1e-300",
            "--rate 10 by flows of --flow-rate 1e-300 asks for more than 1000 flows",
        ),
    ] {
        desk.refuses(&format!("probes --fabric fabric.toml {asked}"), said)?;
    }
    Ok(())
}

/// Between the hosts of two leaves, by this many ports, with the answers: odd ports go by the second spine, and every
/// second two of them are answered over it.
fn traced_probes(ports: std::ops::Range<u16>) -> String {
    let mut table = "src,dst,bytes,path,sport,dport\n".to_owned();
    let hosts = (0..4).flat_map(|from| (0..4).map(move |to| (from, to)));
    for (from, to) in hosts.filter(|(from, to)| from != to) {
        let way = |from: u16, to: u16, spine: u16| {
            if from / 2 == to / 2 {
                format!("h{from}>leaf{}>h{to}", from / 2)
            } else {
                format!("h{from}>leaf{}>spine{spine}>leaf{}>h{to}", from / 2, to / 2)
            }
        };
        for port in ports.clone() {
            let (there, back) = (way(from, to, port % 2), way(to, from, port / 2 % 2));
            table += &format!("h{from},h{to},0,{there},{port},7333\n");
            table += &format!("h{to},h{from},0,{back},7333,{port}\n");
        }
    }
    table
}

fn probes_of_known_ways() -> Result<(), Failed> {
    let all = traced_probes(7400..7408);
    let unanswered = all.lines().filter(|line| !line.contains(",7333,"));
    let unanswered: String = unanswered.map(|line| line.to_owned() + "\n").collect();
    let some = all.replace("h0>leaf0>h1,7400,", ",7400,");
    let some = some.replace("h2,h0,0,h2>leaf1>spine0>leaf0>h0,7333,7401\n", "");
    let desk = Desk::with(&[
        ("fabric.toml", &leaf_spine(2, 2, 2)),
        ("probes.csv", &all),
        ("unanswered.csv", &unanswered),
        ("some.csv", &some),
    ])?;
    let asked = "probes --fabric fabric.toml --flow-rate 5";
    let answer = desk.json(&format!("{asked} --probed probes.csv"))?;
    let (flows, least) = (number(&answer["flows"]), number(&answer["least_flows"]));
    let covered = answer["uncovered"].as_array().is_some_and(Vec::is_empty);
    let is_few = (12.0..=16.0).contains(&flows) && (1.0..=flows).contains(&least);
    holds(covered && is_few, &answer.to_string())?;
    let known = answer["lists"]["h0"].as_array().into_iter().flatten();
    let ports: Vec<_> = known.map(|flow| number(&flow["source_port"])).collect();
    let are_known = ports.iter().all(|port| (7400.0..7408.0).contains(port));
    holds(are_known && !ports.is_empty(), &answer.to_string())?;
    let output = desk.plan(&format!("{asked} --probed unanswered.csv"))?;
    for words in [
        "no flow crosses leaf0-spine0 from leaf0",
        "96 probes are left out, since not every link of their answers' paths is known: h0 > h1 \
         by port 7400, ",
        "h0 > h1 by port 7407 and 88 more\n",
    ] {
        holds(said(&output).contains(words), &said(&output))?;
    }
    holds(output.status.code() == Some(1), &said(&output))?;
    let output = desk.plan(&format!("{asked} --probed some.csv --output json"))?;
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    let left_out = serde_json::json!([
        { "from": "h0", "to": "h1", "source_port": 7400, "because": "not every link of their paths is known" },
        { "from": "h0", "to": "h2", "source_port": 7401, "because": "not every link of their \
            answers' paths is known" },
    ]);
    holds(answer["left_out"] == left_out, &answer.to_string())
}

fn probes_by_the_kernels_hash() -> Result<(), Failed> {
    let address = |host: usize| format!("name = \"h{host}\", address = \"10.1.0.{host}\"");
    let bare = graph("h0-l0 h1-l0 h2-l1 h3-l1 l0-s0 l0-s1 l1-s0 l1-s1");
    let mut addressed = bare.clone();
    for host in 0..4 {
        addressed = addressed.replace(&format!("name = \"h{host}\""), &address(host));
    }
    let desk = Desk::with(&[("fabric.toml", &addressed), ("bare.toml", &bare)])?;
    let asked = "probes --fabric fabric.toml --linux 1 --seed 5";
    let answer = desk.json(asked)?;
    let covered = answer["uncovered"].as_array().is_some_and(Vec::is_empty);
    holds(
        covered && number(&answer["flows"]) >= 8.0,
        &answer.to_string(),
    )?;
    let other = desk.json("probes --fabric fabric.toml --linux 1 --seed 6")?;
    holds(
        other["lists"] != answer["lists"],
        "another key chooses as the first",
    )?;
    desk.refuses(
        "probes --fabric bare.toml --linux 1 --seed 5",
        "h0 has no address",
    )?;
    desk.refuses(
        "probes --fabric fabric.toml --linux 1",
        "--linux needs --seed",
    )
}
