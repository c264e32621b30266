//! Fabric files of other shapes than leaf-spine.

use std::fmt::Write;

use reweave_common::fabric::Fabric;

#[derive(Default)]
struct File {
    text: String,
}

impl File {
    fn node(&mut self, name: &str, role: &str) {
        let _ = writeln!(self.text, "[[node]]\nname = \"{name}\"\nrole = \"{role}\"");
    }

    fn link(&mut self, a: &str, b: &str) {
        let _ = writeln!(self.text, "[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = 100");
    }

    fn fabric(&self) -> Fabric {
        let text = format!("kind = \"graph\"\n{}", self.text);
        Fabric::parse("fabric.toml", &text).expect("the fabric is sound")
    }
}

/// Returns a fat tree of three tiers of switches with this number of ports.
pub(crate) fn fat_tree(ports: usize) -> Fabric {
    let (mut file, half) = (File::default(), ports / 2);
    (0..half * half).for_each(|core| file.node(&format!("core{core}"), "switch"));
    for (pod, one) in (0..ports * half).map(|it| (it / half, it % half)) {
        let [above, edge] = ["agg", "edge"].map(|name| format!("{name}{pod}-{one}"));
        [&above, &edge]
            .into_iter()
            .for_each(|name| file.node(name, "switch"));
        for other in 0..half {
            let host = format!("h{pod}-{one}-{other}");
            file.node(&host, "host");
            file.link(&host, &edge);
            file.link(&edge, &format!("agg{pod}-{other}"));
            file.link(&above, &format!("core{}", half * one + other));
        }
    }
    file.fabric()
}

/// Returns pods of hosts, each with a link to every leaf of its pod, as if each NIC had a rail of its own.
pub(crate) fn rails(pods: usize, rails: usize, hosts: usize, spines: usize) -> Fabric {
    let mut file = File::default();
    (0..spines).for_each(|spine| file.node(&format!("spine{spine}"), "switch"));
    for pod in 0..pods {
        let leaves: Vec<_> = (0..rails).map(|it| format!("leaf{pod}-{it}")).collect();
        for leaf in &leaves {
            file.node(leaf, "switch");
            (0..spines).for_each(|spine| file.link(leaf, &format!("spine{spine}")));
        }
        for host in (0..hosts).map(|it| format!("h{pod}-{it}")) {
            file.node(&host, "host");
            leaves.iter().for_each(|leaf| file.link(&host, leaf));
        }
    }
    file.fabric()
}
