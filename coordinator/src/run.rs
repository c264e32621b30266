//! Putting the program together, and taking it apart again.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use reweave_common::member::DenyList;
use reweave_common::moment::Moment;
use reweave_core::Core;
use reweave_link::join::Door;
use reweave_link::{Identity, Listener, reason};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::clock::Clock;
use crate::config::{Config, Settings};
use crate::data::{Belonging, Data};
use crate::door::keep_door;
use crate::drive::Drive;
use crate::error::CoordinatorError;
use crate::house::House;
use crate::http;
use crate::intake::{Event, Intake, queue};
use crate::log::Opened;
use crate::recorder::{Beginning, Recorder};
use crate::sessions::{ROLES, welcome};
use crate::signing::Signing;

/// As often as the core wants to know that time passes.
const TICK: Duration = Duration::from_millis(100);
const SHED_REPORT: Duration = Duration::from_secs(10);

pub(crate) fn run(settings: &Settings) -> Result<(), CoordinatorError> {
    let config = settings.read()?;
    let identity = config.identity()?;
    if let Some(problem) = identity.problem(SystemTime::now()) {
        tracing::warn!("nobody will accept this coordinator's certificate: {problem}");
    }
    let belonging = Belonging {
        cluster: identity.cluster().to_string(),
        fabric: config.fabric_text.clone(),
    };
    let Data { opened, lock } = Data::open(&config.data, &belonging)?;
    let drive = prepare(settings, &config, opened)?;
    let signing = config.signing()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|source| CoordinatorError::Start {
        what: "the event loop",
        source,
    })?;
    let outcome = runtime.block_on(lead(&config, identity, signing, drive));
    drop(lock);
    outcome
}

/// The core as it was when the last run ended, ready to go on.
fn prepare(
    settings: &Settings,
    config: &Config,
    opened: Opened,
) -> Result<Drive, CoordinatorError> {
    if opened.torn_bytes > 0 {
        tracing::warn!(
            "cut {} bytes off the log: an entry that was never completed",
            opened.torn_bytes
        );
    }
    let mut core = Core::new(config.policy.clone(), config.fabric.clone());
    let last = opened.commands.iter().map(|command| command.at).max();
    let clock = Clock::after(last.unwrap_or(Moment::default()));
    let recorder = settings.record.as_ref().map(|path| {
        let beginning = Beginning {
            policy: config.policy.clone(),
            fabric: config.fabric_text.clone(),
            log: opened.commands.clone(),
        };
        Recorder::begin(path, &beginning)
    });
    opened
        .commands
        .into_iter()
        .for_each(|command| core.apply(command));
    let state = core.state();
    tracing::info!(
        "{} entries in the log; generation {} of the routes is in force",
        state.applied(),
        state.in_force().generation
    );
    Ok(Drive::new(core, opened.log, clock, recorder.transpose()?))
}

/// Serves until a signal asks to end, or until the core cannot be driven any more.
async fn lead(
    config: &Config,
    identity: Identity,
    signing: Signing,
    drive: Drive,
) -> Result<(), CoordinatorError> {
    let [mut terminated, mut interrupted] = [
        ending(SignalKind::terminate())?,
        ending(SignalKind::interrupt())?,
    ];
    let mut openings = Openings::open(config, &identity)?;
    let (intake, events) = queue();
    tokio::spawn(follow_denied(drive.denied(), identity.clone()));
    let house = House {
        fabric: Arc::clone(&config.fabric),
        intake: intake.clone(),
        ours: keep_identity(&signing, identity),
        signing,
    };
    if let Some(place) = http::bind(config.http).await? {
        tokio::spawn(http::serve(place, house.clone()));
    }
    let (driving, dead) = start(drive, events)?;
    let outcome = tokio::select! {
        error = openings.welcome(&house) => Err(error),
        () = tick(&intake) => Ok(()),
        _ = dead => Ok(()),
        _ = terminated.recv() => Ok(()),
        _ = interrupted.recv() => Ok(()),
    };
    openings.listener.close("the coordinator ends").await;
    // A drive that is gone needs no telling.
    let _ = intake.put(Event::End).await;
    outcome.and(join(driving))
}

/// Where others come to.
struct Openings {
    listener: Listener,
    door: Option<Door>,
}

impl Openings {
    fn open(config: &Config, identity: &Identity) -> Result<Self, CoordinatorError> {
        let failed = |source| CoordinatorError::Listen {
            source: Box::new(source),
        };
        let listener = Listener::bind(config.listen, identity, &ROLES).map_err(failed)?;
        let door = match Door::bind(config.door, identity) {
            Ok(door) => Some(door),
            Err(error) if config.door_is_usual => {
                let why = reason(&error);
                tracing::warn!("nobody can join here: {why}; --door gives another place");
                None
            }
            Err(error) => return Err(failed(error)),
        };
        // Where a port was left open, these are what it became.
        let listens = listener.address().unwrap_or(config.listen);
        let cluster = identity.cluster();
        tracing::info!("coordinator of {cluster} listens on {listens}");
        if let Some(place) = door.as_ref().and_then(|door| door.address().ok()) {
            tracing::info!("newcomers are heard on {place}");
        }
        Ok(Self { listener, door })
    }

    async fn welcome(&mut self, house: &House) -> CoordinatorError {
        let Some(door) = &mut self.door else {
            return welcome(&mut self.listener, house).await;
        };
        tokio::select! {
            error = welcome(&mut self.listener, house) => error,
            error = keep_door(door, house) => error,
        }
    }
}

/// This coordinator's certificate, renewed in time.
fn keep_identity(signing: &Signing, identity: Identity) -> watch::Receiver<Identity> {
    let (sender, ours) = watch::channel(identity);
    tokio::spawn(signing.clone().keep_good(sender));
    ours
}

/// Whoever the log shuts out is shut out at once.
async fn follow_denied(mut denied: watch::Receiver<DenyList>, identity: Identity) {
    loop {
        identity.deny(denied.borrow_and_update().clone());
        if denied.changed().await.is_err() {
            return;
        }
    }
}

type Driving = JoinHandle<Result<(), CoordinatorError>>;

/// The drive on a thread of its own, and what tells that it has ended.
fn start(
    drive: Drive,
    events: mpsc::Receiver<Event>,
) -> Result<(Driving, oneshot::Receiver<()>), CoordinatorError> {
    let (died, dead) = oneshot::channel::<()>();
    let driving = thread::Builder::new()
        .name("drive".to_owned())
        .spawn(move || {
            let outcome = drive.run(events);
            drop(died);
            outcome
        });
    let driving = driving.map_err(|source| CoordinatorError::Start {
        what: "the drive",
        source,
    })?;
    Ok((driving, dead))
}

fn ending(kind: SignalKind) -> Result<Signal, CoordinatorError> {
    let failed = |source: io::Error| CoordinatorError::Start {
        what: "listening to signals",
        source,
    };
    signal(kind).map_err(failed)
}

fn join(driving: Driving) -> Result<(), CoordinatorError> {
    driving.join().unwrap_or(Err(CoordinatorError::DriveDied))
}

/// Lets the core know that time passes, until nobody is there who wants to know.
async fn tick(intake: &Intake) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let per_report = SHED_REPORT.as_millis() / TICK.as_millis();
    let mut told = 0;
    for count in 1_u128.. {
        ticks.tick().await;
        if intake.put(Event::Tick).await.is_err() {
            return;
        }
        if count.is_multiple_of(per_report) {
            report_shed(intake, &mut told);
        }
    }
}

fn report_shed(intake: &Intake, told: &mut u64) {
    let shed = intake.counts().shed;
    if shed > *told {
        let since = shed - *told;
        tracing::warn!("too busy: {since} reports of agents were dropped unread");
        *told = shed;
    }
}
