//! Tests of cluster files, and of errors in them.

use crate::cluster::{ClusterFile, Server};

const CLUSTER_HEAD: &str = "gbps = 100\nswitching = \"3d-mems\"\n";

fn parse(rest: &str) -> Result<ClusterFile, String> {
    let text = format!("{CLUSTER_HEAD}{rest}");
    ClusterFile::parse("c.toml", &text).map_err(|error| error.to_string())
}

const BLOCK_TABLE: &str = "[[block]]\nname = \"a\"\nhosts = 2\nports = 8\n";

#[test]
fn storage_and_control_are_left_alone() {
    let file = parse(&format!(
        "{BLOCK_TABLE}storage_ports = [0]\ncontrol_ports = [7]\n"
    ))
    .unwrap();
    let ground = &file.ground;
    assert_eq!(ground.hosts[1].left_alone, [0, 7]);
    let ports: Vec<_> = ground.ports(Server { host: 1, slice: 0 }).collect();
    assert_eq!(ports, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn slices_share_ports_as_servers() {
    let ground = parse(&format!("{BLOCK_TABLE}slices = 4\nswitches = 2\n"))
        .unwrap()
        .ground;
    assert_eq!(ground.servers().count(), 8);
    let ports = |slice| ground.ports(Server { host: 0, slice }).collect::<Vec<_>>();
    assert_eq!([ports(0), ports(3)], [[0, 4], [3, 7]]);
    let server = ground.find("h1.2").unwrap();
    assert_eq!(ground.name(server), "h1.2");
    assert_eq!(
        [ground.find("h2"), ground.find("h1.4"), ground.find("x")],
        [None; 3]
    );
}

#[test]
fn bad_cluster_files_name_their_line() {
    let refused = [
        ("", "c.toml:1: block: this key is missing"),
        (
            "[[block]]\nname = \"a\"\nhosts = 2\nports = 6\nslices = 4\n",
            "c.toml:7: slices: 4 slices cannot share 6 ports alike; possible are 1, 2, 3, 6",
        ),
        (
            "[[block]]\nname = \"a\"\nhosts = 0\nports = 6\n",
            "c.toml:5: hosts: 0 is not between 1 and 16384",
        ),
        (
            "[[block]]\nname = \"a\"\nhosts = 2\nports = 2\nstorage_ports = [0, 1]\n",
            "c.toml:6: ports: storage and control leave no port for circuits",
        ),
        (
            "[[block]]\nname = \"a\"\nhosts = 2\nports = 2\nstorage_ports = [2]\n",
            "c.toml:7: storage_ports: 2 is not between 0 and 1",
        ),
        (
            "restart_s = 1e300\n[[block]]\nname = \"a\"\nhosts = 2\nports = 2\n",
            "c.toml:3: restart_s: 1e300 is not a time between 0 and 2592000s",
        ),
        (
            "memory_gb = 1e300\n[[block]]\nname = \"a\"\nhosts = 2\nports = 2\n",
            "c.toml:3: memory_gb: 1e300 is not above 0, and at most 1000000",
        ),
        (
            "memory_gb = 0\n[[block]]\nname = \"a\"\nhosts = 2\nports = 2\n",
            "c.toml:3: memory_gb: 0 is not above 0, and at most 1000000",
        ),
        (
            "colour = 1\n[[block]]\nname = \"a\"\nhosts = 2\nports = 2\n",
            "c.toml:3: colour: this key is unknown",
        ),
    ];
    for (text, said) in refused {
        let found = parse(text).unwrap_err();
        assert!(found.starts_with(said), "{found}");
    }
    let job = "[[job]]\nname = \"j\"\nfile = \"j.toml\"\nservers = 4\niterations = 9\n";
    let found = parse(&format!("{BLOCK_TABLE}{job}most_servers = 3\n")).unwrap_err();
    assert!(
        found.contains("c.toml:12: most_servers: 3 is fewer than the 4"),
        "{found}"
    );
    let found = parse(&format!("{BLOCK_TABLE}{job}gates = \"g.csv\"\n")).unwrap_err();
    assert!(
        found.contains("c.toml:12: gates: ") && found.contains("switched_gbps"),
        "{found}"
    );
    let found = parse(&format!("{BLOCK_TABLE}{job}{job}")).unwrap_err();
    assert!(found.contains("c.toml:13: name: there are two"), "{found}");
    let found = ClusterFile::parse(
        "c.toml",
        "gbps = 1\nswitching = \"magic\"\n[[block]]\nname = \"a\"\nhosts = 1\nports = 1\n",
    );
    let found = found.unwrap_err().to_string();
    assert!(
        found.contains("c.toml:2: switching") && found.contains("patch-panel, 3d-mems"),
        "{found}"
    );
}

#[test]
fn any_text_gives_file_or_error() {
    proptest::proptest!(|(text in "[\\[\\]a-z=\"\n 0-9.]{0,80}")| {
        let _ = parse(&text);
    });
}
