//! Putting the program together, and taking it apart again.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use reweave_common::moment::Moment;
use reweave_core::Core;
use reweave_link::{Identity, Listener, Role};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};

use crate::clock::Clock;
use crate::config::{Config, Settings};
use crate::data::{Belonging, Data};
use crate::drive::Drive;
use crate::error::CoordinatorError;
use crate::history::History;
use crate::intake::{Event, Intake, queue};
use crate::log::Opened;
use crate::recorder::{Beginning, Recorder};
use crate::sessions::welcome;

/// As often as the core wants to know that time passes.
const TICK: Duration = Duration::from_millis(100);
const SHED_REPORT: Duration = Duration::from_secs(10);

pub(crate) fn run(settings: &Settings) -> Result<(), CoordinatorError> {
    let config = settings.read()?;
    let identity = load_identity(&config)?;
    let belonging = Belonging {
        cluster: identity.cluster().to_string(),
        fabric: config.fabric_text.clone(),
    };
    let Data { opened, lock } = Data::open(&config.data, &belonging)?;
    let mut drive = prepare(settings, &config, opened)?;
    if let Some(history) = &config.history {
        let history = History::begin(history, Arc::clone(&config.fabric))?;
        drive = drive.with_history(history);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|source| CoordinatorError::Start {
        what: "the event loop",
        source,
    })?;
    let outcome = runtime.block_on(lead(&config, &identity, drive));
    drop(lock);
    outcome
}

fn load_identity(config: &Config) -> Result<Identity, CoordinatorError> {
    let folder = &config.identity;
    let identity = Identity::load(folder).map_err(|source| CoordinatorError::Identity {
        folder: folder.clone(),
        source: Box::new(source),
    })?;
    if identity.member().role() != Role::Coordinator {
        return Err(CoordinatorError::NotACoordinator {
            folder: folder.display().to_string(),
            member: identity.member().to_string(),
        });
    }
    if let Some(problem) = identity.problem(SystemTime::now()) {
        tracing::warn!("nobody will accept this coordinator's certificate: {problem}");
    }
    Ok(identity)
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
async fn lead(config: &Config, identity: &Identity, drive: Drive) -> Result<(), CoordinatorError> {
    let [mut terminated, mut interrupted] = [
        ending(SignalKind::terminate())?,
        ending(SignalKind::interrupt())?,
    ];
    let roles = [Role::Agent, Role::Operator];
    let listener = Listener::bind(config.listen, identity, &roles);
    let mut listener = listener.map_err(|source| CoordinatorError::Listen {
        source: Box::new(source),
    })?;
    let (intake, events) = queue();
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
    tracing::info!(
        "coordinator of {} listens on {}",
        identity.cluster(),
        config.listen
    );
    let outcome = tokio::select! {
        error = welcome(&mut listener, &config.fabric, &intake) => Err(error),
        () = tick(&intake) => Ok(()),
        _ = dead => Ok(()),
        _ = terminated.recv() => Ok(()),
        _ = interrupted.recv() => Ok(()),
    };
    listener.close("the coordinator ends").await;
    // A drive that is gone needs no telling.
    let _ = intake.put(Event::End).await;
    outcome.and(join(driving))
}

fn ending(kind: SignalKind) -> Result<Signal, CoordinatorError> {
    let failed = |source: io::Error| CoordinatorError::Start {
        what: "listening to signals",
        source,
    };
    signal(kind).map_err(failed)
}

fn join(driving: JoinHandle<Result<(), CoordinatorError>>) -> Result<(), CoordinatorError> {
    driving.join().unwrap_or(Err(CoordinatorError::DriveDied))
}

/// Lets the core know that time passes, until nobody is there who wants to know.
async fn tick(intake: &Intake) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let per_report = SHED_REPORT.as_millis() / TICK.as_millis();
    for count in 1_u128.. {
        ticks.tick().await;
        if intake.put(Event::Tick).await.is_err() {
            return;
        }
        if count.is_multiple_of(per_report) {
            report_shed(intake);
        }
    }
}

fn report_shed(intake: &Intake) {
    let shed = intake.take_shed();
    if shed > 0 {
        tracing::warn!("too busy: {shed} reports of agents were dropped unread");
    }
}
