//! Ways to one host, before and after: what the checker and the rounds make of them, against a walker that tries
//! every part of the nodes that may have followed already.

use reweave_check::check_step;
use reweave_common::forwarding::ForwardingTable;

use super::*;

/// Next hop of each host for traffic to the last host.
type Heads = Vec<usize>;

/// Every host is joined to every other.
struct Full {
    fabric: Fabric,
    hosts: usize,
}

impl Full {
    fn of(hosts: usize) -> Self {
        let mut text = "kind = \"graph\"\n".to_owned();
        for host in 0..hosts {
            text += &format!("[[node]]\nname = \"h{host}\"\nrole = \"relay\"\n");
        }
        for (a, b) in (0..hosts).flat_map(|b| (0..b).map(move |a| (a, b))) {
            text += &format!("[[link]]\na = \"h{a}\"\nb = \"h{b}\"\ngbps = 1\n");
        }
        let fabric = Fabric::parse("full.toml", &text).expect("it is a fabric");
        Self { fabric, hosts }
    }

    fn last(&self) -> usize {
        self.hosts - 1
    }

    fn tables(&self, heads: &[usize]) -> Tables {
        let to = NodeId::from_index(self.last());
        let table = |(at, &head): (usize, &usize)| {
            let (at, head) = (NodeId::from_index(at), NodeId::from_index(head));
            let link = self.fabric.links_between(at, head).next();
            let link = link.expect("all are joined");
            let towards = BTreeMap::from([(to, vec![NextHop { link, weight: 1 }])]);
            let raises = Vec::new();
            let table = ForwardingTable {
                at,
                towards,
                raises,
            };
            (at, table)
        };
        heads.iter().enumerate().map(table).collect()
    }

    /// Returns all trees of paths from every host to the last one.
    fn trees(&self) -> Vec<Heads> {
        let others = self.last();
        let count = self.hosts.pow(others as u32);
        let heads = (0..count).map(|number| {
            let head = |at: usize| number / self.hosts.pow(at as u32) % self.hosts;
            (0..others).map(head).collect::<Heads>()
        });
        heads.filter(|heads| self.all_arrive(heads)).collect()
    }

    fn all_arrive(&self, heads: &[usize]) -> bool {
        (0..self.last()).all(|from| {
            let mut at = from;
            (0..self.hosts).any(|_| {
                at = heads.get(at).copied().unwrap_or(at);
                at == self.last()
            })
        })
    }

    /// Whether packets arrive whichever part of these hosts has followed.
    fn arrive_in_any_part(&self, before: &[usize], round: &BTreeMap<usize, usize>) -> bool {
        let changed: Vec<_> = round.iter().map(|(&at, &head)| (at, head)).collect();
        (0..1_u32 << changed.len()).all(|part| {
            let mut heads = before.to_vec();
            for (index, &(at, head)) in changed.iter().enumerate() {
                if part & (1 << index) != 0 {
                    heads[at] = head;
                }
            }
            self.all_arrive(&heads)
        })
    }

    /// Whether all at once loses packets; the checker says the same, and rounds one after the other lose none.
    fn compare(&self, before: &[usize], after: &[usize]) -> bool {
        let differs = |at: &usize| before[*at] != after[*at];
        let changed = (0..self.last()).filter(differs);
        let at_once: BTreeMap<_, _> = changed.map(|at| (at, after[at])).collect();
        let (old, new) = (self.tables(before), self.tables(after));
        let is_changed = |node: &NodeId| at_once.contains_key(&node.index());
        let round: Round = new
            .iter()
            .filter(|(node, _)| is_changed(node))
            .map(|(&node, table)| (node, table.clone()))
            .collect();
        let arrives = self.arrive_in_any_part(before, &at_once);
        let network = Network {
            tables: &old,
            ..Network::untouched(&self.fabric)
        };
        let verdict = check_step(&network, MigrationStep::Round(&round));
        assert_eq!(
            verdict.is_ok(),
            arrives,
            "{before:?} to {after:?}: {verdict:?}"
        );
        if !arrives {
            for pace in [RoundWidth::Wide, RoundWidth::Narrow] {
                self.assert_rounds_arrive(before, &old, after, &new, pace);
            }
        }
        !arrives
    }

    fn assert_rounds_arrive(
        &self,
        before: &[usize],
        old: &Tables,
        after: &[usize],
        new: &Tables,
        pace: RoundWidth,
    ) {
        let instructed = self.fabric.nodes().map(|(node, _)| node).collect();
        let network = Network::untouched(&self.fabric);
        let from = MigrationStart {
            fabric: &self.fabric,
            down: network.down,
            tables: old,
            unsure: network.unsure,
            circuits: network.circuits,
            floor: 0.0,
            instructed: &instructed,
            pace,
        };
        let migration_plan =
            plan_migration(from, new, network.circuits).expect("there is an order");
        let mut heads = before.to_vec();
        for (_, step) in migration_plan.steps() {
            let MigrationStep::Round(round) = step else {
                panic!("there are no circuits")
            };
            let heads_of = |node: &NodeId| (node.index(), after[node.index()]);
            let round: BTreeMap<_, _> = round.keys().map(heads_of).collect();
            assert!(
                self.arrive_in_any_part(&heads, &round),
                "{before:?} to {after:?}"
            );
            round.into_iter().for_each(|(at, head)| heads[at] = head);
        }
        assert_eq!(heads, after);
    }
}

/// Returns the number of pairs, and of those in which an unordered push loses packets.
fn all_pairs(hosts: usize) -> [usize; 2] {
    let full = Full::of(hosts);
    let trees = full.trees();
    // Cayley's.
    assert_eq!(trees.len(), hosts.pow(hosts as u32 - 2));
    let pairs = trees
        .iter()
        .flat_map(|before| trees.iter().map(move |after| (before, after)));
    let lost = pairs.filter(|(before, after)| full.compare(before, after));
    let lost = lost.count();
    [trees.len().pow(2), lost]
}

#[test]
fn partial_update_check_finds_small_losses() {
    let lost = [3, 4, 5].map(|hosts| all_pairs(hosts)[1]);
    assert!(lost.iter().all(|lost| *lost > 0), "{lost:?}");
}

#[test]
#[ignore = "takes minutes: part of the soak"]
fn all_pairs_of_six_hosts_checked() {
    let [pairs, lost] = all_pairs(6);
    assert!(pairs == 1_679_616 && lost > pairs / 10, "{lost}");
}

/// Drawn by number: three to six hosts, and two trees.
fn some_pairs(count: usize) -> usize {
    let fabrics: Vec<_> = (3..=6).map(Full::of).collect();
    let trees: Vec<_> = fabrics.iter().map(Full::trees).collect();
    let mut rng = SplitMix64::new(7);
    let lost = (0..count).filter(|_| {
        let of = rng.below(fabrics.len());
        let [before, after] = [0, 1].map(|_| rng.below(trees[of].len()));
        fabrics[of].compare(&trees[of][before], &trees[of][after])
    });
    lost.count()
}

#[test]
fn thousands_of_drawn_pairs_are_checked() {
    let lost = some_pairs(4_000);
    assert!(lost > 400, "{lost}");
}

#[test]
#[ignore = "takes minutes: part of the soak"]
fn million_drawn_pairs_are_checked() {
    let lost = some_pairs(1_000_000);
    assert!(lost > 100_000, "{lost}");
}
