//! `reweave check`: runs the plan checker on a plan file.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reweave_check::{Network, PinFault, Unsound, check, check_migration, judge_steps};
use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::{MigrationPlan, MigrationStage, StepPosition, Tables};
use reweave_common::operator::{self, Plan, TouchedJob, Unknown};
use reweave_common::plan::{self, Pin};
use serde::Serialize;

use crate::error::CliError;
use crate::page::{Ink, Page};
use crate::report::Report;
use crate::show::touched;
use crate::sim::input;
use crate::{Output, kept, print_report};

/// Check whether a plan can be applied
///
/// Check a plan against everything that its rollout requires
///
/// A plan that was offered records its inputs: pins, tables and circuits in force, links down, capacity floor, lossless
/// mode, and the owners of the addresses that pins lead to. Any other plan is checked against the fabric file. Exit
/// codes: 0 sound, 1 unsound (reasons are printed), 2 invalid or edited file.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// File written by `reweave plan --out FILE` or `reweave --output json plan`
    plan: PathBuf,
    /// Fabric file
    #[arg(long, value_name = "FABRIC.toml")]
    fabric: PathBuf,
    #[command(flatten)]
    asked: CheckOptions,
}

/// Further inputs of the check.
#[derive(Debug, Default, Args)]
struct CheckOptions {
    /// Share of its capacity that every node keeps while circuits move, 0 to 1. Default: the share in the plan
    #[arg(long, value_name = "SHARE", value_parser = share)]
    floor: Option<f64>,
    /// Lossless network: refuse cyclic buffer dependencies (PFC deadlock)
    #[arg(long)]
    lossless: bool,
    /// Treat this link as down, in addition to the links that the plan lists; may be repeated
    #[arg(long, value_name = "LINK")]
    down: Vec<String>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|it| (0.0..=1.0).contains(it));
    share.ok_or_else(|| "not a number from 0 to 1".to_owned())
}

#[derive(Debug, PartialEq, Serialize)]
struct Verdict {
    sound: bool,
    why: Vec<String>,
    /// Pins whose destination is unknown.
    not_looked_at: Vec<String>,
    /// Verdict on each step of the migration plan, if there is one.
    steps: Vec<StepVerdict>,
    /// Jobs that the plan affects, as the plan lists them.
    touched: Vec<TouchedJob>,
}

#[derive(Debug, PartialEq, Serialize)]
struct StepVerdict {
    #[serde(flatten)]
    place: StepPosition,
    sound: bool,
    why: Vec<String>,
}

impl Check {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let fabric = input::fabric(&self.fabric)?;
        let plan = kept::read(&self.plan)?.plan;
        let verdict = judge(&fabric, &plan, &self.asked).map_err(|source| {
            let path = self.plan.clone();
            CliError::OtherFabric { path, source }
        })?;
        print_report(output, &verdict)?;
        Ok(if verdict.sound {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// Inputs on which a plan is judged.
struct Ground {
    pins: Vec<Pin>,
    tables: Tables,
    circuits: Circuits,
    down: BTreeSet<LinkId>,
    floor: f64,
    is_lossless: bool,
}

impl Ground {
    fn of(fabric: &Fabric, plan: &Plan, asked: &CheckOptions) -> Result<Self, Unknown> {
        let base = plan.base.as_ref();
        let untouched = || {
            let circuits = fabric.first_circuits().clone();
            (Vec::new(), Tables::new(), circuits, BTreeSet::new())
        };
        let found = base.map(|base| base.resolve(fabric)).transpose()?;
        let (pins, tables, circuits, mut down) = found.unwrap_or_else(untouched);
        down.extend(operator::links_named(&asked.down, fabric)?);
        let stated_floor = base.map(|base| base.capacity_floor);
        Ok(Self {
            pins,
            tables,
            circuits,
            down,
            floor: asked.floor.or(stated_floor).unwrap_or_default(),
            is_lossless: asked.lossless || base.is_some_and(|base| base.lossless),
        })
    }
}

/// Returns the owner of each address, from the fabric file and from the plan. The flag says whether the plan lists
/// owners.
fn owners(fabric: &Fabric, plan: &Plan) -> Result<(BTreeMap<Ipv4Addr, NodeId>, bool), Unknown> {
    let own = fabric.nodes();
    let own = own.filter_map(|(node, _)| Some((fabric.address(node)?, node)));
    let base = plan.base.as_ref();
    let stated_owners = base.map_or(Ok(None), |base| base.owners(fabric))?;
    let arguments_are_documented = stated_owners.is_some();
    let all = own.chain(stated_owners.unwrap_or_default()).collect();
    Ok((all, arguments_are_documented))
}

/// Judges the plan itself, and each step of its migration plan from the state in which that begins.
fn judge(fabric: &Fabric, named: &Plan, asked: &CheckOptions) -> Result<Verdict, Unknown> {
    let ground = Ground::of(fabric, named, asked)?;
    let plan = named.resolve(fabric)?;
    let migration_plan = named
        .migration
        .as_ref()
        .map(|migration_plan| migration_plan.resolve(fabric));
    let first = || {
        let (tables, circuits) = (ground.tables.clone(), ground.circuits.clone());
        (tables, circuits, MigrationPlan::default())
    };
    let (tables, circuits, migration_plan) = migration_plan.transpose()?.unwrap_or_else(first);
    let (addresses, arguments_are_documented) = owners(fabric, named)?;
    let nothing = Tables::new();
    let in_force = Network {
        fabric,
        addresses: &addresses,
        down: &ground.down,
        generation: plan.parent,
        pins: &ground.pins,
        tables: &ground.tables,
        unsure: &nothing,
        circuits: &ground.circuits,
        floor: ground.floor,
        is_lossless: ground.is_lossless,
        // The file has no loads. The coordinator judges loads, as it measures them.
        ..Network::untouched(fabric)
    };
    let departing = Network {
        tables: &tables,
        circuits: &circuits,
        ..in_force
    };
    // A plan that was not offered may start from any state.
    let at_rest = if named.base.is_some() {
        &in_force
    } else {
        &departing
    };
    let mut found = check(at_rest, &plan).err().unwrap_or_default();
    let unjudged = found.extract_if(.., |it| !arguments_are_documented && leads_nowhere(it));
    let unjudged: BTreeSet<_> = unjudged.map(|it| not_looked_at(&it)).collect();
    let mut why = texts(&found);
    why.extend(named.hindered_by.clone());
    why.extend(has_no_course(named, &plan, &ground).then(|| NO_ORDER_REASON.to_owned()));
    // Pins that the plan removes are lifted before all steps, and new pins are set after them.
    let kept = plan.kept_of(&ground.pins);
    let under_way = Network {
        pins: &kept,
        ..departing
    };
    let steps = judge_steps(&under_way, &migration_plan);
    if steps.iter().all(|(_, why)| why.is_empty()) && !migration_plan.is_empty() {
        let mut wanted = circuits.clone();
        wanted.extend(plan.circuits.clone());
        let arrives = check_migration(&under_way, &migration_plan, &plan.tables, &wanted);
        why.extend(texts(&arrives.err().unwrap_or_default()));
    }
    Ok(Verdict {
        not_looked_at: unjudged.into_iter().collect(),
        ..Verdict::of(why, &steps, named)
    })
}

/// Missing addresses may be the reason: neither the plan nor the fabric file must have them.
fn leads_nowhere(why: &Unsound) -> bool {
    let nowhere = PinFault::NoSuchDestination;
    matches!(why, Unsound::BadPin { fault, .. } if *fault == nowhere)
}

fn not_looked_at(why: &Unsound) -> String {
    let pin = match why {
        Unsound::BadPin { pin, .. } => pin.to_string(),
        other => other.to_string(),
    };
    format!("{pin}: neither the fabric file nor the plan has the owner of that address")
}

const NO_ORDER_REASON: &str = "it had no safe order of steps when it was shown";

/// Whether the plan changes more than pins and has no migration plan.
fn has_no_course(named: &Plan, plan: &plan::Plan, ground: &Ground) -> bool {
    let mut circuits = ground.circuits.clone();
    circuits.extend(plan.circuits.clone());
    let moves = circuits != ground.circuits || plan.tables != ground.tables;
    moves && named.base.is_some() && named.migration.is_none()
}

fn texts(why: &[Unsound]) -> Vec<String> {
    why.iter().map(Unsound::to_string).collect()
}

impl Verdict {
    fn of(why: Vec<String>, steps: &[(StepPosition, Vec<Unsound>)], plan: &Plan) -> Self {
        let steps = steps.iter().map(|(place, why)| StepVerdict {
            place: *place,
            sound: why.is_empty(),
            why: texts(why),
        });
        let steps: Vec<_> = steps.collect();
        Self {
            sound: why.is_empty() && steps.iter().all(|step| step.sound),
            why,
            not_looked_at: Vec::new(),
            steps,
            touched: plan.touched.clone(),
        }
    }
}

impl Report for Verdict {
    fn lay_out(&self, page: &mut Page) {
        let word = if self.sound { "sound" } else { "unsound" };
        page.line(&page.ink(Ink::Bold, word));
        for why in &self.why {
            page.line(&format!("  {why}"));
        }
        for what in &self.not_looked_at {
            page.line(&format!("  not checked: {what}"));
        }
        for step in &self.steps {
            let word = if step.sound { "sound" } else { "unsound" };
            page.line(&format!("  {}: {word}", called(step.place)));
            for why in &step.why {
                page.line(&format!("    {why}"));
            }
        }
        for job in &self.touched {
            page.line(&format!("it may touch {}", touched(job)));
        }
    }
}

fn called(StepPosition { wave, stage }: StepPosition) -> String {
    let what = match stage {
        MigrationStage::Draining { round } => format!("round {} before circuits move", round + 1),
        MigrationStage::Switching => "circuits move".to_owned(),
        MigrationStage::Undraining { round } => format!("round {} after", round + 1),
    };
    format!("wave {}, {what}", wave + 1)
}

#[cfg(test)]
mod tests {
    use reweave_common::circuit::CircuitSet;
    use reweave_common::fabric::Crossing;
    use serde_json::{Value, json};

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

    /// Returns the name of the link that this circuit makes.
    fn over(fabric: &Fabric, circuit: &str) -> String {
        let wanted = CircuitSet::from_text(circuit).unwrap();
        let is_it =
            |crossing: Option<Crossing>| crossing.is_some_and(|it| wanted.contains(it.circuit));
        let mut links = fabric.links().map(|(link, _)| link);
        let link = links.find(|link| is_it(fabric.crossing(*link)));
        fabric.link_name(link.unwrap())
    }

    /// Returns a plan that opens the ring between h2 and h0; h1 sends traffic for h2 over the given circuit.
    fn opened(fabric: &Fabric, optical: &str, to_h2: &str) -> Plan {
        let via = |circuit: &str| json!([{ "link": over(fabric, circuit), "weight": 1 }]);
        let plan = json!({
            "generation": 1, "parent": 0, "takes_back": null, "pins": [], "changes": [], "seal": "", "hindered_by": [], "touched": [], "migration": null, "base": null,
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

    fn judged(optical: &str, to_h2: &str) -> Result<Verdict, Unknown> {
        let fabric = ring();
        judge(
            &fabric,
            &opened(&fabric, optical, to_h2),
            &CheckOptions::default(),
        )
    }

    #[test]
    fn plan_is_checked_on_its_fabric() {
        assert!(judged("ocs0", "3-4").unwrap().sound);
        let circle = judged("ocs0", "1-2").unwrap();
        assert!(!circle.sound && circle.why[0].contains("h2"), "{circle:?}");
    }

    /// Returns a plan with a migration: first the tables of `before` for the whole ring, then the circuits.
    fn by_course(rounds: &Value) -> Plan {
        let plan = opened(&ring(), "ocs0", "3-4");
        let mut plan = serde_json::to_value(&plan).unwrap();
        plan["migration"] = json!({
            "tables_before": {},
            "circuits_before": { "ocs0": RING_CIRCUITS },
            "waves": [{ "drain": rounds, "circuits": { "ocs0": [[1, 2], [3, 4]] }, "undrain": [] }],
        });
        serde_json::from_value(plan).unwrap()
    }

    const RING_CIRCUITS: [[u16; 2]; 3] = [[1, 2], [3, 4], [5, 6]];

    /// Returns a plan that installs all required tables in one round.
    fn on_its_way() -> Plan {
        let plan = serde_json::to_value(opened(&ring(), "ocs0", "3-4")).unwrap();
        by_course(&json!([plan["tables"]]))
    }

    #[test]
    fn each_step_of_migration_is_checked() {
        let verdict = judge(&ring(), &on_its_way(), &CheckOptions::default()).unwrap();
        assert!(verdict.sound, "{verdict:?}");
        let places = verdict.steps.iter().map(|step| called(step.place));
        assert_eq!(
            places.collect::<Vec<_>>(),
            [
                "wave 1, round 1 before circuits move",
                "wave 1, circuits move"
            ]
        );
        // Without that round, packets use circuits that move.
        let verdict = judge(&ring(), &by_course(&json!([])), &CheckOptions::default()).unwrap();
        assert_eq!(verdict.steps.len(), 1);
        assert!(!verdict.steps[0].sound && !verdict.sound);
    }

    /// Returns the plan with the given inputs recorded in it.
    fn on(plan: Plan, base: &Value) -> Plan {
        let mut plan = serde_json::to_value(plan).unwrap();
        plan["base"] = json!({
            "pins": [], "tables": {}, "circuits": { "ocs0": RING_CIRCUITS }, "down": [], "capacity_floor": 0.5,
            "lossless": false,
        });
        for (key, value) in base.as_object().unwrap() {
            plan["base"][key] = value.clone();
        }
        serde_json::from_value(plan).unwrap()
    }

    fn objections(plan: &Plan, asked: &CheckOptions) -> String {
        let verdict = judge(&ring(), plan, asked).unwrap();
        let steps = verdict.steps.into_iter().flat_map(|step| step.why);
        let all: Vec<_> = verdict.why.into_iter().chain(steps).collect();
        assert_eq!(verdict.sound, all.is_empty());
        all.join(", ")
    }

    #[test]
    fn capacity_floor_from_plan_or_option() {
        let asked = |floor| CheckOptions {
            floor: Some(floor),
            ..CheckOptions::default()
        };
        let plan = |floor: f64| on(on_its_way(), &json!({ "capacity_floor": floor }));
        let narrow = "h0 keeps 1.0 Gb/s while circuits move";
        assert_eq!(objections(&plan(0.5), &CheckOptions::default()), "");
        assert!(objections(&plan(0.9), &CheckOptions::default()).starts_with(narrow));
        assert!(objections(&plan(0.5), &asked(0.9)).starts_with(narrow));
        assert_eq!(objections(&plan(0.9), &asked(0.5)), "");
        assert!(share("1.5").is_err() && share("half").is_err());
    }

    #[test]
    fn down_links_from_plan_or_option() {
        let link = over(&ring(), "3-4");
        let asked = CheckOptions {
            down: vec![link.clone()],
            ..CheckOptions::default()
        };
        for said in [
            objections(
                &on(on_its_way(), &json!({ "down": [link] })),
                &CheckOptions::default(),
            ),
            objections(&on_its_way(), &asked),
        ] {
            assert!(said.contains(&format!("{link} does not lead on")), "{said}");
        }
        let nowhere = CheckOptions {
            down: vec!["h0-h9".to_owned()],
            ..CheckOptions::default()
        };
        let error = judge(&ring(), &on_its_way(), &nowhere).unwrap_err();
        assert_eq!(error.to_string(), "the fabric has no link \"h0-h9\"");
    }

    /// Each host sends all its traffic to the next one, around the ring.
    #[test]
    fn lossless_check_finds_buffer_ring() {
        let fabric = ring();
        let next = |circuit: &str| json!([{ "link": over(&fabric, circuit), "weight": 1 }]);
        let mut plan = serde_json::to_value(opened(&fabric, "ocs0", "3-4")).unwrap();
        plan["circuits"] = json!({ "ocs0": RING_CIRCUITS });
        plan["tables"] = json!({
            "h0": { "h1": next("1-2"), "h2": next("1-2") },
            "h1": { "h2": next("3-4"), "h0": next("3-4") },
            "h2": { "h0": next("5-6"), "h1": next("5-6") },
        });
        let plan: Plan = serde_json::from_value(plan).unwrap();
        let asked = CheckOptions {
            lossless: true,
            ..CheckOptions::default()
        };
        assert_eq!(objections(&plan, &CheckOptions::default()), "");
        assert!(objections(&plan, &asked).contains("full buffers"));
    }

    /// Pins that the plan lifts are gone before circuits move.
    #[test]
    fn kept_pins_block_circuits() {
        let link = over(&ring(), "5-6");
        let flow =
            json!({ "protocol": "tcp", "source": "10.0.0.1:1", "destination": "10.0.0.3:2" });
        let pin = json!({ "flow": flow, "hop": { "from": "h0", "link": link, "to": "h2" } });
        let lifts = on(on_its_way(), &json!({ "pins": [pin] }));
        assert_eq!(objections(&lifts, &CheckOptions::default()), "");
        let mut keeps = serde_json::to_value(lifts).unwrap();
        keeps["pins"] = json!([pin]);
        let said = objections(
            &serde_json::from_value(keeps).unwrap(),
            &CheckOptions::default(),
        );
        assert!(said.contains(" is pinned at h0 "), "{said}");
    }

    /// The fabric file has no addresses: only agents know them.
    #[test]
    fn unknown_pin_destination_is_not_judged() {
        let text = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 1\n\
                    host_gbps = 1\nuplink_gbps = 1\n";
        let fabric = Fabric::parse("f.toml", text).unwrap();
        let flow =
            json!({ "protocol": "tcp", "source": "10.0.0.1:1", "destination": "10.0.0.2:2" });
        let hop = json!({ "from": "leaf0", "link": "leaf0-spine1", "to": "spine1" });
        let pins = json!([{ "flow": flow, "hop": hop }]);
        let plan = |addresses: Value| -> Plan {
            let plan = on(
                opened(&ring(), "ocs0", "3-4"),
                &json!({ "addresses": addresses }),
            );
            let mut plan = serde_json::to_value(plan).unwrap();
            for part in ["tables", "circuits"] {
                plan[part] = json!({});
                plan["base"][part] = json!({});
            }
            (plan["pins"], plan["base"]["pins"]) = (pins.clone(), pins.clone());
            serde_json::from_value(plan).unwrap()
        };
        let judged =
            |addresses| judge(&fabric, &plan(addresses), &CheckOptions::default()).unwrap();
        let known = judged(json!({ "10.0.0.2": "h1" }));
        assert!(known.sound && known.not_looked_at.is_empty(), "{known:?}");
        let unowned = judged(json!({}));
        assert!(
            unowned.why[0].contains("no node has the address"),
            "{unowned:?}"
        );
        let unstated = judged(Value::Null);
        assert!(unstated.sound, "{unstated:?}");
        let said = &unstated.not_looked_at[..];
        assert!(
            said.len() == 1 && said[0].contains("leaf0-spine1: neither"),
            "{said:?}"
        );
    }

    #[test]
    fn plan_that_cannot_begin_is_unsound() {
        let fabric = ring();
        let shown = on(opened(&fabric, "ocs0", "3-4"), &json!({}));
        assert_eq!(
            objections(&shown, &CheckOptions::default()),
            NO_ORDER_REASON
        );
        let frozen = Plan {
            hindered_by: vec!["h0 is frozen".to_owned()],
            ..on_its_way()
        };
        assert_eq!(
            objections(&frozen, &CheckOptions::default()),
            "h0 is frozen"
        );
    }

    #[test]
    fn plan_for_other_fabric_is_refused() {
        let source = judged("ocs9", "3-4").unwrap_err();
        let path = PathBuf::from("plan.json");
        let error = CliError::OtherFabric { path, source };
        assert_eq!(error.exit_code(), 2);
        assert!(
            error.error_chain().contains("no optical switch \"ocs9\""),
            "{}",
            error.error_chain()
        );
    }
}
