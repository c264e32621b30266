//! `reweave check`: the judge of plans, asked by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reweave_check::{Network, Unsound, check, check_course, judge_legs};
use reweave_common::course::{Course, Place, Stretch, Tables};
use reweave_common::fabric::Fabric;
use reweave_common::operator::Plan;
use serde::{Deserialize, Serialize};

use crate::error::CliError;
use crate::page::{Ink, Page};
use crate::sim::input;
use crate::{Output, print};

/// Whether packets arrive under a plan on a fabric that is as its file has it
///
/// Exits with 0 when it is sound, with 1 when it is not and says why, and with 2 when a file is bad.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// What `reweave plan --output json` said
    plan: PathBuf,
    /// The fabric's file
    #[arg(long, value_name = "FABRIC.toml")]
    fabric: PathBuf,
}

#[derive(Serialize)]
struct Verdict {
    sound: bool,
    why: Vec<String>,
    /// Of each leg of its course, where it has one.
    legs: Vec<LegVerdict>,
}

#[derive(Serialize)]
struct LegVerdict {
    #[serde(flatten)]
    place: Place,
    sound: bool,
    why: Vec<String>,
}

/// As it was printed: beside what else was answered, or by itself.
#[derive(Deserialize)]
#[serde(untagged)]
enum Printed {
    Answer { plan: Box<Plan> },
    Alone(Box<Plan>),
}

impl Check {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let fabric = input::fabric(&self.fabric)?;
        let (why, legs) = judge(&fabric, &read(&self.plan)?, &self.plan)?;
        let words = |why: &[Unsound]| why.iter().map(Unsound::to_string).collect();
        let verdict = Verdict {
            sound: why.is_empty() && legs.iter().all(|(_, why)| why.is_empty()),
            why: words(&why),
            legs: (legs.iter())
                .map(|(place, why)| LegVerdict {
                    place: *place,
                    sound: why.is_empty(),
                    why: words(why),
                })
                .collect(),
        };
        print(output, &verdict, |page| show(page, &verdict))?;
        Ok(match verdict.sound {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }
}

fn read(path: &Path) -> Result<Plan, CliError> {
    let read = serde_json::from_slice(&input::bytes(path)?);
    let printed: Printed = read.map_err(|source| CliError::NoPlan {
        path: path.to_owned(),
        source,
    })?;
    Ok(match printed {
        Printed::Answer { plan } | Printed::Alone(plan) => *plan,
    })
}

type Judged = (Vec<Unsound>, Vec<(Place, Vec<Unsound>)>);

/// The plan, and each leg of its course from where that says it begins. No pin is in force, and no link is
/// down.
fn judge(fabric: &Fabric, plan: &Plan, path: &Path) -> Result<Judged, CliError> {
    let other = |source| CliError::OtherFabric {
        path: path.to_owned(),
        source,
    };
    let course = plan.course.as_ref().map(|course| course.resolve(fabric));
    let course = course.transpose().map_err(other)?;
    let plan = plan.resolve(fabric).map_err(other)?;
    let addresses = fabric.nodes();
    let addresses = addresses.filter_map(|(node, _)| Some((fabric.address(node)?, node)));
    let addresses: BTreeMap<_, _> = addresses.collect();
    let (nothing, down) = (Tables::new(), BTreeSet::new());
    let first = (
        nothing.clone(),
        fabric.first_circuits().clone(),
        Course::default(),
    );
    let (tables, circuits, course) = course.unwrap_or(first);
    let network = Network {
        fabric,
        addresses: &addresses,
        down: &down,
        generation: plan.parent,
        pins: &[],
        tables: &tables,
        unsure: &nothing,
        circuits: &circuits,
        floor: 0.0,
        is_lossless: false,
    };
    let mut found = check(&network, &plan).err().unwrap_or_default();
    let legs = judge_legs(&network, &course);
    let all_sound = legs.iter().all(|(_, why)| why.is_empty());
    if all_sound && !course.is_empty() {
        let mut wanted = circuits.clone();
        wanted.extend(plan.circuits.clone());
        let arrives = check_course(&network, &course, (&plan.tables, &wanted));
        found.extend(arrives.err().into_iter().flatten());
    }
    Ok((found, legs))
}

fn show(page: &mut Page, verdict: &Verdict) {
    let word = if verdict.sound { "sound" } else { "unsound" };
    page.line(&page.ink(Ink::Bold, word));
    for why in &verdict.why {
        page.line(&format!("  {why}"));
    }
    for leg in &verdict.legs {
        let word = if leg.sound { "sound" } else { "unsound" };
        page.line(&format!("  {}: {word}", called(leg.place)));
        for why in &leg.why {
            page.line(&format!("    {why}"));
        }
    }
}

fn called(Place { wave, stretch }: Place) -> String {
    let what = match stretch {
        Stretch::Draining { round } => format!("round {} before circuits move", round + 1),
        Stretch::Switching => "circuits move".to_owned(),
        Stretch::Undraining { round } => format!("round {} after", round + 1),
    };
    format!("wave {}, {what}", wave + 1)
}

#[cfg(test)]
mod tests {
    use reweave_common::circuit::CircuitSet;
    use reweave_common::fabric::Crossing;
    use serde_json::json;

    use super::*;

    /// Three hosts in a ring.
    const RING: &str = r#"
        kind = "graph"
        node = [{ name = "h0", role = "relay" }, { name = "h1", role = "relay" },
                { name = "h2", role = "relay" }]
        optical = [{ name = "ocs0", ports = 6, circuits = [[1, 2], [3, 4], [5, 6]] }]
        fibre = [{ node = "h0", interface = "a", optical = "ocs0", port = 1, gbps = 1 },
                 { node = "h1", interface = "a", optical = "ocs0", port = 2, gbps = 1 },
                 { node = "h1", interface = "b", optical = "ocs0", port = 3, gbps = 1 },
                 { node = "h2", interface = "a", optical = "ocs0", port = 4, gbps = 1 },
                 { node = "h2", interface = "b", optical = "ocs0", port = 5, gbps = 1 },
                 { node = "h0", interface = "b", optical = "ocs0", port = 6, gbps = 1 }]
    "#;

    fn ring() -> Fabric {
        Fabric::parse("ring.toml", RING).unwrap()
    }

    /// The name of the link that this circuit of the switch makes.
    fn over(fabric: &Fabric, circuit: &str) -> String {
        let wanted = CircuitSet::from_text(circuit).unwrap();
        let is_it =
            |crossing: Option<Crossing>| crossing.is_some_and(|it| wanted.contains(it.circuit));
        let mut links = fabric.links().map(|(link, _)| link);
        let link = links.find(|link| is_it(fabric.crossing(*link)));
        fabric.link_name(link.unwrap())
    }

    /// The ring is opened between h2 and h0; h1 sends what is for h2 over this circuit.
    fn opened(fabric: &Fabric, optical: &str, to_h2: &str) -> Plan {
        let via = |circuit: &str| json!([{ "link": over(fabric, circuit), "weight": 1 }]);
        let plan = json!({
            "generation": 1, "parent": 0, "takes_back": null, "pins": [], "changes": [], "seal": "", "hindered_by": [], "touched": [], "course": null,
            "moves": [], "predictions": [], "iterations": [],
            "circuits": { optical: [[1, 2], [3, 4]] },
            "tables": {
                "h0": { "h1": via("1-2"), "h2": via("1-2") },
                "h1": { "h0": via("1-2"), "h2": via(to_h2) },
                "h2": { "h0": via("3-4"), "h1": via("3-4") },
            },
            "report": { "findings": [], "slowest_before_bits_per_s": 0,
                        "slowest_after_bits_per_s": 0, "alternatives": [] },
        });
        serde_json::from_value(plan).unwrap()
    }

    fn judged(optical: &str, to_h2: &str) -> Result<Judged, CliError> {
        let fabric = ring();
        judge(
            &fabric,
            &opened(&fabric, optical, to_h2),
            Path::new("plan.json"),
        )
    }

    #[test]
    fn a_plan_by_name_is_judged_on_the_fabric_of_its_file() {
        assert_eq!(judged("ocs0", "3-4").unwrap(), (vec![], vec![]));
        let (circle, _) = judged("ocs0", "1-2").unwrap();
        assert!(circle[0].to_string().contains("h2"), "{circle:?}");
    }

    /// First the tables of `before` by the whole ring, then the circuits, and nothing after.
    fn by_course(rounds: &serde_json::Value) -> Judged {
        let fabric = ring();
        let plan = opened(&fabric, "ocs0", "3-4");
        let mut plan = serde_json::to_value(&plan).unwrap();
        plan["course"] = json!({
            "tables_before": {},
            "circuits_before": { "ocs0": [[1, 2], [3, 4], [5, 6]] },
            "waves": [{ "drain": rounds, "circuits": { "ocs0": [[1, 2], [3, 4]] }, "undrain": [] }],
        });
        let plan = serde_json::from_value(plan).unwrap();
        judge(&fabric, &plan, Path::new("plan.json")).unwrap()
    }

    #[test]
    fn each_leg_of_a_course_is_judged_by_itself() {
        let plan = serde_json::to_value(opened(&ring(), "ocs0", "3-4")).unwrap();
        let tables = &plan["tables"];
        let (why, legs) = by_course(&json!([tables]));
        assert_eq!(why, []);
        let places: Vec<_> = legs
            .iter()
            .map(|(place, why)| (called(*place), why.len()))
            .collect();
        let round = "wave 1, round 1 before circuits move".to_owned();
        assert_eq!(
            places,
            [(round, 0), ("wave 1, circuits move".to_owned(), 0)]
        );
        // Without it packets pass what moves.
        let (_, legs) = by_course(&json!([]));
        assert_eq!(legs.len(), 1);
        assert!(!legs[0].1.is_empty());
    }

    #[test]
    fn a_plan_for_another_fabric_is_bad_input_and_says_what_is_not_there() {
        let error = judged("ocs9", "3-4").unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(
            error.told().contains("no optical switch \"ocs9\""),
            "{}",
            error.told()
        );
    }
}
