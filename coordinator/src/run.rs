//! Putting the program together, and taking it apart again.

use std::collections::BTreeMap;
use std::io;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use reweave_link::{Identity, Listener, Role};
use reweave_replica::{Founding, Member, MemberId, Message, Saved};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::config::{Config, Settings};
use crate::data::{Belonging, Data};
use crate::drive::{self, Drive, decode_state};
use crate::error::CoordinatorError;
use crate::intake::{Event, Intake, queue};
use crate::recorder::{Beginning, Recorder};
use crate::replication::{Cluster, Directory, Engine, Opened, Outlets, Replication, carry_posts};
use crate::sessions::{Host, welcome};

/// As often as the core wants to know that time passes.
const TICK: Duration = Duration::from_millis(100);
const SHED_REPORT: Duration = Duration::from_secs(10);

pub(crate) fn run(settings: &Settings) -> Result<(), CoordinatorError> {
    let config = settings.read()?;
    let identity = load_identity(&config)?;
    let founders = Founders::of(&config, &identity)?;
    let belonging = Belonging {
        cluster: identity.cluster().to_string(),
        fabric: config.fabric_text.clone(),
    };
    let beginning = |head| founders.beginning(&config, head);
    let Data { opened, lock } = Data::open(&config.data, &belonging, beginning)?;
    let (intake, events) = queue();
    let parts = prepare(settings, &config, &founders, opened, &intake)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|source| CoordinatorError::Start {
        what: "the event loop",
        source,
    })?;
    let threads = Threads::start(parts.engine, parts.drive, events)?;
    let network = Network {
        posts: parts.posts,
        cluster: parts.cluster,
        replication: parts.replication,
    };
    let outcome = runtime.block_on(serve(&config, &identity, network, threads, intake));
    drop(lock);
    outcome
}

/// The coordinators that a cluster begins with, and which of them this is.
struct Founders {
    own: MemberId,
    members: BTreeMap<MemberId, Member>,
}

impl Founders {
    fn of(config: &Config, identity: &Identity) -> Result<Self, CoordinatorError> {
        let name = identity.member().name();
        if config.members.is_empty() {
            return Ok(Self::alone(name, config));
        }
        let mut members = config.members.iter();
        let own = members.find(|(_, member)| member.name == name);
        let own = own.ok_or_else(|| CoordinatorError::NotAMember {
            name: name.to_owned(),
        })?;
        Ok(Self {
            own: *own.0,
            members: config.members.clone(),
        })
    }

    fn alone(name: &str, config: &Config) -> Self {
        let own = MemberId(1);
        let member = Member {
            name: name.to_owned(),
            address: config.listen,
            replaces: None,
        };
        let members = BTreeMap::from([(own, member)]);
        Self { own, members }
    }

    /// What an empty folder begins with.
    fn beginning(&self, config: &Config, head: Vec<u8>) -> Saved {
        if config.join {
            return Saved::joining(self.own, head);
        }
        let founding = Founding {
            members: self.members.clone(),
            state: Vec::new(),
        };
        Saved::founding(self.own, head, founding)
    }
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

/// Everything that works together, before anything of it runs.
struct Parts {
    engine: Engine,
    drive: Drive,
    posts: mpsc::UnboundedReceiver<Message>,
    cluster: watch::Receiver<Cluster>,
    replication: Replication,
}

fn prepare(
    settings: &Settings,
    config: &Config,
    founders: &Founders,
    opened: Opened,
    intake: &Intake,
) -> Result<Parts, CoordinatorError> {
    if opened.torn_bytes > 0 {
        tracing::warn!(
            "cut {} bytes off the log: a write that was never completed",
            opened.torn_bytes
        );
    }
    let directory = Directory::new(founders.own, &founders.members);
    let (posts, posted) = mpsc::unbounded_channel();
    let (published, cluster) = watch::channel(Cluster::unknown(directory.clone()));
    let outlets = Outlets {
        intake: intake.clone(),
        posts,
        cluster: published,
    };
    let state = decode_state(&opened.saved.state())?;
    let (engine, replication) = Engine::start(&opened.saved, opened.store, directory, outlets)?;
    let beginning = || Beginning {
        policy: config.policy.clone(),
        fabric: config.fabric_text.clone(),
    };
    let recorder = settings.record.as_ref();
    let recorder = recorder.map(|path| Recorder::begin(path, &beginning()));
    let drive = Drive::new(drive::Parts {
        policy: config.policy.clone(),
        fabric: config.fabric.clone(),
        id: founders.own,
        state,
        replication: replication.clone(),
        cluster: cluster.clone(),
        recorder: recorder.transpose()?,
    });
    Ok(Parts {
        engine,
        drive,
        posts: posted,
        cluster,
        replication,
    })
}

/// What waits for the disk, and what plans.
struct Threads {
    log: JoinHandle<()>,
    drive: JoinHandle<Result<(), CoordinatorError>>,
    /// Closed when the drive has ended.
    dead: oneshot::Receiver<()>,
}

impl Threads {
    fn start(
        engine: Engine,
        drive: Drive,
        events: mpsc::Receiver<Event>,
    ) -> Result<Self, CoordinatorError> {
        let failed = |what| move |source| CoordinatorError::Start { what, source };
        let (died, dead) = oneshot::channel::<()>();
        let log = thread::Builder::new().name("log".to_owned());
        let log = log.spawn(|| engine.run()).map_err(failed("the log"))?;
        let driving = thread::Builder::new().name("drive".to_owned());
        let driving = driving.spawn(move || {
            let outcome = drive.run(events);
            drop(died);
            outcome
        });
        Ok(Self {
            log,
            drive: driving.map_err(failed("the drive"))?,
            dead,
        })
    }

    fn join(self) -> Result<(), CoordinatorError> {
        let outcome = self.drive.join();
        // When it has died, the drive has said so.
        let _ = self.log.join();
        outcome.unwrap_or(Err(CoordinatorError::DriveDied))
    }
}

/// What the network has to do with the replica.
struct Network {
    posts: mpsc::UnboundedReceiver<Message>,
    cluster: watch::Receiver<Cluster>,
    replication: Replication,
}

/// Serves until a signal asks to end, or until the core cannot be driven any more.
async fn serve(
    config: &Config,
    identity: &Identity,
    network: Network,
    mut threads: Threads,
    intake: Intake,
) -> Result<(), CoordinatorError> {
    let [mut terminated, mut interrupted] = [
        ending(SignalKind::terminate())?,
        ending(SignalKind::interrupt())?,
    ];
    let roles = [Role::Agent, Role::Operator, Role::Coordinator];
    let listener = Listener::bind(config.listen, identity, &roles);
    let mut listener = listener.map_err(|source| CoordinatorError::Listen {
        source: Box::new(source),
    })?;
    tracing::info!(
        "coordinator of {} listens on {}",
        identity.cluster(),
        config.listen
    );
    let host = Host {
        fabric: config.fabric.clone(),
        intake: intake.clone(),
        cluster: network.cluster.clone(),
        replication: network.replication.clone(),
    };
    let own = identity.clone();
    let posting = carry_posts(network.posts, network.cluster, own, network.replication);
    let outcome = tokio::select! {
        error = welcome(&mut listener, &host) => Err(error),
        () = posting => Ok(()),
        () = tick(&intake) => Ok(()),
        _ = &mut threads.dead => Ok(()),
        _ = terminated.recv() => Ok(()),
        _ = interrupted.recv() => Ok(()),
    };
    listener.close("the coordinator ends").await;
    // A drive that is gone needs no telling.
    let _ = intake.put(Event::End).await;
    outcome.and(threads.join())
}

fn ending(kind: SignalKind) -> Result<Signal, CoordinatorError> {
    let failed = |source: io::Error| CoordinatorError::Start {
        what: "listening to signals",
        source,
    };
    signal(kind).map_err(failed)
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
