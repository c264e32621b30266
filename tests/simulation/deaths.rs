//! Everything dies once at every point: the coordinator over each entry of its log, the agent of the switch before each
//! step of its work. After each death, in the end the switches hold what is in force, and no flow is worse off.

use std::sync::Arc;
use std::time::Duration;

use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::operator::{Mode, Request};
use reweave_common::sample::PinRule;
use reweave_common::scenario::Scenario;
use reweave_core::{Change, Command, Ended, Outcome, Phase};
use reweave_sim_cluster::coordinator::{Coordinator, Death};
use reweave_sim_cluster::faults::Fault;
use reweave_sim_cluster::wire::Weather;
use reweave_sim_cluster::{SimulatedDelays, World};
use reweave_tests::Setting;

use crate::scene::{self, WATCH_TIME, led, planned, policy};

/// An operator of little patience asks this often.
const OPERATOR_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The world in which a program dies.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Story {
    /// A plan that is good.
    Mended,
    /// One that does not keep its promise.
    Mistaken,
    /// One that its switch refuses.
    Refused,
    /// One for flows that end.
    Pointless,
}

const DEATH_STORIES: [Story; 4] = [
    Story::Mended,
    Story::Mistaken,
    Story::Refused,
    Story::Pointless,
];

/// A collision, and an operator who wants it repaired as often as it takes.
fn tell(story: Story, prepare: impl FnOnce(&mut World)) -> (World, Ended) {
    let mut world = led(Mode::Manual, 7, Weather::FAIR_WEATHER);
    world.start_job("train");
    world.run_for(WATCH_TIME);
    prepare(&mut world);
    if story == Story::Refused {
        let switches: Vec<_> = world.network.kernels.keys().copied().collect();
        switches
            .into_iter()
            .for_each(|switch| world.network.refuse(switch, true));
    }
    planned(&mut world);
    match story {
        Story::Mended | Story::Refused => {}
        Story::Mistaken => {
            world.start_job("late");
            world.run_for(WATCH_TIME);
        }
        Story::Pointless => {
            insist(&mut world);
            world.stop_job("train");
        }
    }
    for _ in 0..120 {
        if let Some(ended) = last_ended(&world) {
            return (world, ended);
        }
        insist(&mut world);
        world.run_for(OPERATOR_RETRY_INTERVAL);
    }
    world.fail("it never ended")
}

fn last_ended(world: &World) -> Option<Ended> {
    world.state()?.history().next_back().cloned()
}

fn insist(world: &mut World) {
    use reweave_common::operator::Request::{Apply, Plan};
    let rollout = world.state().and_then(|state| state.rollouts().next());
    let proposed = rollout.filter(|rollout| rollout.phase == Phase::Proposed);
    let generation = proposed.map(|rollout| rollout.plan.generation);
    world.ask(generation.map_or(Plan, |generation| Apply { generation }));
}

fn ends_as_it_should(story: Story, outcome: &Outcome) -> bool {
    match story {
        Story::Mended => *outcome == Outcome::Committed,
        Story::Mistaken | Story::Refused => matches!(outcome, Outcome::RolledBack { .. }),
        Story::Pointless => {
            matches!(
                outcome,
                Outcome::Withdrawn { .. } | Outcome::RolledBack { .. }
            )
        }
    }
}

#[test]
fn coordinator_may_crash_at_every_entry() {
    for story in DEATH_STORIES {
        let (undisturbed, ended) = tell(story, |_| {});
        assert!(
            ends_as_it_should(story, &ended.outcome),
            "{story:?}: {ended:?}"
        );
        for entry in 0..undisturbed.coordinator.log().len() {
            for is_durable in [false, true] {
                let death = Death { entry, is_durable };
                let (mut world, ended) = tell(story, |world| world.coordinator.will_die(death));
                assert_eq!(world.coordinator.died, 1, "{story:?} {death:?}");
                if !ends_as_it_should(story, &ended.outcome) {
                    world.fail(&format!("{story:?} {death:?}: {:?}", ended.outcome));
                }
                world.rest();
            }
        }
    }
}

#[test]
fn switch_agent_may_crash_anywhere() {
    for story in [Story::Mended, Story::Mistaken, Story::Refused] {
        let (undisturbed, _) = tell(story, |_| {});
        let switch = busiest(&undisturbed);
        for steps in 0..undisturbed.agents[&switch].life.steps {
            let death = Fault::AgentDiesAfter {
                node: switch,
                steps,
            };
            let (mut world, ended) = tell(story, |world| {
                world.afflict(Duration::ZERO, death);
                world.run_for(Duration::from_millis(1));
            });
            let is_over = matches!(
                ended.outcome,
                Outcome::Committed | Outcome::RolledBack { .. }
            );
            assert!(is_over, "{story:?} {steps}: {ended:?}");
            world.rest();
            assert!(
                world.journal().contains("dies"),
                "{story:?} {steps}: nothing died"
            );
        }
    }
}

/// A coordinator that dies is away for longer than nodes wait for being confirmed.
const COORDINATOR_DOWNTIMES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(61)];
/// Sessions are given up by then, and the timeout of what is unconfirmed has passed.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(45);

/// The demo with a third spine, and one more job whose flow takes the first uplink as well.
fn three_spines() -> Scenario {
    let Setting { scenario, fabric } = Setting::DEMO_SETTING;
    let third = "[[job]]\nname = \"third\"\npattern = \"streams\"\nhosts = [\"h2\", \"h6\"]\n\
                 pairs = [[0, 1]]\nbytes = 8_000_000\ncompute_ms = 10\niterations = 1_000_000\n\
                 paths = \"collide\"\n";
    let fabric = |_: &str| Ok(fabric.replace("spines = 2", "spines = 3"));
    let scenario = format!("{scenario}\n{third}");
    Scenario::parse("three.toml", &scenario, fabric).expect("it is sound")
}

/// A collision that a pin for good has repaired, and another one after it. A coordinator that dies is away for long.
fn pinned_once() -> World {
    let scenario = three_spines();
    let fabric = Arc::new(scenario.fabric.clone());
    let coordinator = Coordinator::new(policy(Mode::Manual), fabric);
    let delays = SimulatedDelays {
        comes_back: COORDINATOR_DOWNTIMES,
        ..SimulatedDelays::DEFAULT_DELAYS
    };
    let begin = Moment::from_micros(1_000_000);
    let mut world = World::led_by(
        coordinator,
        begin,
        scenario,
        7,
        Weather::FAIR_WEATHER,
        delays,
    );
    world.run_until("all there", |world| world.is_calm());
    world.start_job("train");
    world.run_for(WATCH_TIME);
    let generation = planned(&mut world);
    scene::apply(&mut world, generation);
    let ended = scene::ended(&mut world, 1);
    assert_eq!(ended.outcome, Outcome::Committed, "{}", world.journal());
    world.start_job("third");
    world.run_for(WATCH_TIME);
    world
}

/// Another pin is being installed.
fn applied(prepare: impl FnOnce(&mut World)) -> World {
    let mut world = pinned_once();
    prepare(&mut world);
    let generation = planned(&mut world);
    world.ask(Request::Apply { generation });
    world
}

fn has(command: &Command, is_it: fn(&Change) -> bool) -> bool {
    command.change.parts().iter().any(is_it)
}

fn is_reported(change: &Change) -> bool {
    let acked = matches!(change, Change::Acked { .. });
    acked || matches!(change, Change::StepIntent(_)) || confirms(change)
}

fn confirms(change: &Change) -> bool {
    matches!(change, Change::ConfirmIntent { .. })
}

fn pins(world: &World) -> Vec<PinRule> {
    let kernels = world.network.kernels.values();
    let mut pins: Vec<_> = kernels.flat_map(|it| it.rules().to_vec()).collect();
    pins.sort_unstable();
    pins
}

/// After any instruction: what the log does not say to stay is gone before a coordinator leads again, and no more than
/// that.
#[test]
fn unconfirmed_pins_are_taken_back() {
    let pinned = pinned_once();
    let (confirmed, begun) = (pins(&pinned), pinned.coordinator.log().len());
    assert!(!confirmed.is_empty(), "nothing is pinned for good");
    let mut undisturbed = applied(|_| {});
    scene::ended(&mut undisturbed, 2);
    let log = undisturbed.coordinator.log();
    let reports: Vec<_> = (begun..log.len())
        .filter(|&at| has(&log[at], is_reported))
        .collect();
    let mut taken_back = 0;
    for entry in reports {
        let is_durable = true;
        let death = Death { entry, is_durable };
        let mut world = applied(|world| world.coordinator.will_die(death));
        world.run_until("dead", |world| world.coordinator.died == 1);
        let held = pins(&world);
        world.run_for(SETTLE_TIMEOUT);
        let mut news = world.coordinator.log()[begun..].iter();
        let stays = news.any(|it| has(it, confirms));
        let left = pins(&world);
        if !stays && left != confirmed {
            world.fail(&format!("entry {entry}: {left:?}, not {confirmed:?}"));
        }
        let kept = confirmed.iter().all(|pin| left.contains(pin));
        assert!(kept, "entry {entry}: {left:?} lacks some of {confirmed:?}");
        taken_back += usize::from(held != confirmed && left == confirmed);
        world.rest();
    }
    assert!(taken_back > 0, "nothing was rolled back");
}

/// The switch whose agent had most to do.
fn busiest(world: &World) -> NodeId {
    let agents = world.agents.values();
    let busiest = agents.max_by_key(|agent| agent.life.steps);
    busiest.expect("there are agents").node
}
