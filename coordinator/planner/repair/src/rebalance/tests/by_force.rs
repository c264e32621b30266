//! Links of all rates, some with loss, and flows that come and go, compared with all possible paths.

use super::*;

const SPINES: usize = 2;

/// Three leaves of two hosts each; rates of the uplinks in turn, in Gb/s.
fn uneven(gbps: &[u64]) -> Fabric {
    let node =
        |name: String, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let link = |a: String, b: String, rate: u64| {
        format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = {rate}\n")
    };
    let mut fabric = String::from("kind = \"graph\"\n");
    (0..6).for_each(|host| fabric += &node(format!("h{host}"), "host"));
    (0..3).for_each(|leaf| fabric += &node(format!("leaf{leaf}"), "switch"));
    (0..SPINES).for_each(|spine| fabric += &node(format!("spine{spine}"), "switch"));
    (0..6).for_each(|host| fabric += &link(format!("h{host}"), format!("leaf{}", host / 2), 100));
    for (nth, &rate) in gbps.iter().enumerate() {
        let (leaf, spine) = (nth / SPINES, nth % SPINES);
        fabric += &link(format!("leaf{leaf}"), format!("spine{spine}"), rate);
    }
    Scene::of(&fabric).fabric
}

/// Source and destination hosts, spine, bytes, start and duration.
type FlowRow = (usize, usize, usize, u64, u64, u64);

fn rows(flows: &[FlowRow]) -> String {
    let row = |&(from, to, spine, bytes, start, long): &FlowRow| {
        let (up, down) = (from / 2, to / 2);
        let end = start + long;
        format!(
            "h{from},h{to},{bytes},{start},{end},h{from}>leaf{up}>spine{spine}>leaf{down}>h{to}\n"
        )
    };
    let between = flows.iter().filter(|(from, to, ..)| from / 2 != to / 2);
    "src,dst,bytes,start_us,end_us,path\n".to_owned() + &between.map(row).collect::<String>()
}

/// Returns the highest fullness of any link between switches over time.
fn fullest(fabric: &Fabric, flows: &[Listed], options: &Options) -> f64 {
    let mut fullest = 0.0_f64;
    for now in flows.iter().filter_map(|flow| flow.during_us[0]) {
        let is_there = |flow: &&Listed| {
            flow.during_us[0].is_some_and(|start| start <= now)
                && flow.during_us[1].is_some_and(|end| end > now)
        };
        let mut loads: BTreeMap<Hop, f64> = BTreeMap::new();
        for flow in flows.iter().filter(is_there) {
            for hop in &flow.path[1..flow.path.len() - 1] {
                *loads.entry(*hop).or_default() += flow.bytes as f64;
            }
        }
        let worth = |hop: &Hop| problem::worth(fabric, hop.link, options);
        let fullness = loads.iter().map(|(hop, load)| load / worth(hop));
        fullest = fullness.fold(fullest, f64::max);
    }
    fullest
}

/// Returns the minimum over all choices of spines.
fn least_by_force(fabric: &Fabric, flows: &[Listed], options: &Options) -> f64 {
    let mut atlas = Atlas::new(fabric);
    let mut least = f64::INFINITY;
    for choice in 0..SPINES.pow(flows.len() as u32) {
        let mut chosen = flows.to_vec();
        for (nth, flow) in chosen.iter_mut().enumerate() {
            let spine = choice / SPINES.pow(nth as u32) % SPINES;
            let (entrance, door) = (atlas.far(flow.path[0]), atlas.door(flow.ends[1]));
            let way = atlas.ways(entrance, door)[spine].clone();
            flow.path.splice(1..=way.len(), way);
        }
        least = least.min(self::fullest(fabric, &chosen, options));
    }
    least
}

fn rerouted(flows: &[Listed], plan: &Rebalanced) -> Vec<Listed> {
    let mut flows = flows.to_vec();
    for made in &plan.moves {
        let flow = flows.iter_mut().find(|flow| flow.id == made.flow);
        flow.unwrap().path.clone_from(&made.path);
    }
    flows
}

proptest! {
    #![proptest_config(seeded(200))]

    #[test]
    fn fullest_link_matches_brute_force(
        gbps in prop::collection::vec(prop::sample::select(vec![25_u64, 50, 100]), 6),
        lossy in (0..6usize, prop::sample::select(vec![0.0, 0.01, 0.05])),
        flows in prop::collection::vec(
            (0..6usize, 0..6usize, 0..SPINES, prop::sample::select(vec![28_000_u64, 52_000, 100_000]),
                0..3_u64, 1..4_u64),
            1..9,
        ),
        least_gain in prop::sample::select(vec![0.0, 0.1]),
    ) {
        let fabric = uneven(&gbps);
        let text = rows(&flows);
        let flows = parse("flows.csv", &text, &mut Atlas::new(&fabric), &Ecmp::default());
        let flows = flows.unwrap().flows;
        let link = format!("leaf{}-spine{}", lossy.0 / SPINES, lossy.0 % SPINES);
        let link = fabric.links().map(|(id, _)| id).find(|&id| fabric.link_name(id) == link);
        let options = Options {
            lossy: BTreeMap::from([(link.unwrap(), lossy.1)]),
            elephant_share: 0.0,
            least_gain,
            ..Options::default()
        };
        let found = plan(&fabric, &flows, &options);
        let before = fullest(&fabric, &flows, &options);
        let after = fullest(&fabric, &rerouted(&flows, &found), &options);
        let least = least_by_force(&fabric, &flows, &options);
        prop_assert!(after <= before * (1.0 + 1e-9), "{before} to {after}\n{text}");
        prop_assert!(found.solution.proven || flows.is_empty());
        let worth_it = least < after * (1.0 - least_gain) * (1.0 - 1e-9);
        prop_assert!(!worth_it, "{before} to {after}, not {least}\n{text}");
        let bound = found.solution.bound.fullest;
        prop_assert!(bound <= least.max(after * (1.0 - least_gain)) * (1.0 + 1e-9), "{:?}", found.solution);
    }
}
