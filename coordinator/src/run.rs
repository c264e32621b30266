//! Starts the parts of the program, and stops them.

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use reweave_common::member::DenyLists;
use reweave_link::Identity;
use reweave_replica::FolderId;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::archive::Archive;
use crate::audit::Audit;
use crate::bootstrap::{lock, open};
use crate::config::{Config, Settings, StartState};
use crate::counters::{Ending, EventCounters};
use crate::data::Data;
use crate::decisions::Decisions;
use crate::error::CoordinatorError;
use crate::event_loop::{self, EventLoop, saved_state};
use crate::history::History;
use crate::http;
use crate::intake::{Event, Intake, Queue, queue};
use crate::listeners::Listeners;
use crate::local_health::LocalHealth;
use crate::recorder::{Beginning, Recorder};
use crate::replication::{
    Cluster, Directory, Engine, Opened, Outlets, Own, PeerStatus, Posts, Replication, keep_open,
};
use crate::server_context::ServerContext;
use crate::service;
use crate::session_limit::{Bounds, SessionLimit};
use crate::sessions::{
    AgentRates, COORDINATOR_SESSIONS, DenyListUpdates, IdentityLocks, OPERATOR_SESSIONS,
    STANDBY_SESSIONS, STARTING_SESSIONS, publish,
};
use crate::signing::{Neighbours, Signing};
use crate::traces::{TraceExport, Traces};
use crate::webhooks::Hooks;

/// The interval at which the core needs to learn the time.
const TICK_INTERVAL: Duration = Duration::from_millis(100);
/// One core is enough for thousands of agents that are there already.
const MAX_SESSION_THREADS: usize = 4;
const SHED_REPORT_INTERVAL: Duration = Duration::from_secs(10);

pub(crate) fn run(settings: &Settings) -> Result<(), CoordinatorError> {
    let config = settings.read()?;
    let StartState {
        identity, signing, ..
    } = config.look()?;
    if let Some(problem) = identity.problem(SystemTime::now()) {
        tracing::warn!("this coordinator's certificate is not valid: {problem}");
    }
    for name in config.undriven() {
        tracing::warn!("no [[driver]] names optical switch {name}: its circuits cannot be moved");
    }
    let folder = lock(&config)?;
    let loops = Loops::start()?;
    let (runtime, apart) = (&loops.crowd, loops.apart.handle());
    let mut listeners = runtime.block_on(Listeners::open(&config, &identity, apart))?;
    listeners.log_addresses(&identity);
    // Whether it leads, or waits for others, is for `/readyz` to say.
    reweave_link::service::ready();
    let begun = open(&config, &identity, folder, &mut listeners.listener);
    let begun = http::beside(listeners.http.as_ref(), begun);
    let data = runtime.block_on(service::alive_while(begun))?;
    let Some(data) = data else {
        return Ok(());
    };
    let Data { opened, id, folder } = data;
    let audit = Audit::open(folder.path())?;
    let lines = audit.clone();
    let (intake, events) = queue();
    let parts = prepare(settings, &config, opened, &intake, audit.clone())?;
    let denied = parts.event_loop.denied();
    let decisions = parts.event_loop.decisions();
    let endings = parts.event_loop.endings();
    let threads = Threads::start(parts.engine, parts.event_loop, events)?;
    let network = Network {
        folder: id,
        posts: parts.posts,
        cluster: parts.cluster,
        replication: parts.replication,
        peer_status: parts.peer_status,
        local_health: parts.local_health,
        denied,
        decisions,
        endings,
        export: parts.export,
    };
    let ours = Ours {
        identity,
        signing,
        listeners,
        apart: apart.clone(),
        audit,
    };
    let outcome = runtime.block_on(serve(&config, ours, network, threads, intake));
    runtime.block_on(lines.flush());
    drop(folder);
    outcome
}

/// Threads that serve sessions.
struct Loops {
    /// The runtime for agents, people and other clients.
    crowd: Runtime,
    /// Packets are read, and coordinators talk to each other. Beside the crowd that would wait behind every handshake
    /// of a thousand agents that come at once, until no coordinator leads any longer.
    apart: Runtime,
}

impl Loops {
    fn start() -> Result<Self, CoordinatorError> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Ok(Self {
            crowd: start_runtime("crowd", cores.min(MAX_SESSION_THREADS))?,
            apart: start_runtime("apart", 1)?,
        })
    }
}

fn start_runtime(name: &str, threads: usize) -> Result<Runtime, CoordinatorError> {
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(threads).thread_name(name);
    let failed = |source| CoordinatorError::Start {
        what: "the event loop",
        source,
    };
    runtime.enable_all().build().map_err(failed)
}

/// Everything that works together, before anything of it runs.
struct Parts {
    engine: Engine,
    event_loop: EventLoop,
    export: Option<TraceExport>,
    posts: Posts,
    cluster: watch::Receiver<Cluster>,
    replication: Replication,
    peer_status: PeerStatus,
    local_health: LocalHealth,
}

fn prepare(
    settings: &Settings,
    config: &Config,
    opened: Opened,
    intake: &Intake,
    audit: Audit,
) -> Result<Parts, CoordinatorError> {
    if opened.torn_bytes > 0 {
        tracing::warn!(
            "truncated {} bytes of an incomplete write from the log",
            opened.torn_bytes
        );
    }
    let directory = Directory::new(opened.saved.member, &config.members);
    let posts = Posts::default();
    let (published, cluster) = watch::channel(Cluster::unknown(directory.clone()));
    let peer_status = PeerStatus::default();
    let outlets = Outlets {
        intake: intake.clone(),
        posts: posts.clone(),
        cluster: published,
        peer_status: peer_status.clone(),
    };
    let id = opened.saved.member;
    let data = &config.data;
    let state = saved_state(&opened.saved, &data.value).map_err(|error| data.wrong(error))?;
    let (engine, replication) = Engine::start(&opened.saved, opened.store, directory, outlets)?;
    let recorder = settings.record.as_ref().map(|path| {
        let beginning = Beginning {
            policy: config.policy.clone(),
            fabric: config.fabric_text.clone(),
        };
        Recorder::begin(path, &beginning)
    });
    let local_health = LocalHealth::default();
    let history = config.history.as_ref();
    let history = history
        .map(|history| History::begin(&history.value, config.fabric.clone(), local_health.clone()));
    let traces = config.traces.clone();
    let traces = traces.map(|collector| Traces::new(collector, config.fabric.clone()));
    let (traces, export) = traces.unzip();
    let event_loop = EventLoop::new(event_loop::Parts {
        policy: config.policy.clone(),
        fabric: config.fabric.clone(),
        id,
        state,
        replication: replication.clone(),
        cluster: cluster.clone(),
        peer_status: peer_status.clone(),
        recorder: recorder.transpose()?,
        history: history.transpose()?,
        local_health: local_health.clone(),
        traces,
        audit,
    });
    Ok(Parts {
        local_health,
        engine,
        event_loop,
        export,
        posts,
        cluster,
        replication,
        peer_status,
    })
}

/// What waits for the disk, and what plans.
struct Threads {
    log: JoinHandle<()>,
    event_loop: JoinHandle<Result<(), CoordinatorError>>,
    /// Closed when the event loop has ended.
    dead: oneshot::Receiver<()>,
}

impl Threads {
    fn start(
        engine: Engine,
        event_loop: EventLoop,
        events: Queue,
    ) -> Result<Self, CoordinatorError> {
        let failed = |what| move |source| CoordinatorError::Start { what, source };
        let (died, dead) = oneshot::channel::<()>();
        let log = thread::Builder::new().name("log".to_owned());
        let log = log.spawn(|| engine.run()).map_err(failed("the log"))?;
        let driving = thread::Builder::new().name("drive".to_owned());
        let driving = driving.spawn(move || {
            let outcome = event_loop.run(events);
            drop(died);
            outcome
        });
        Ok(Self {
            log,
            event_loop: driving.map_err(failed("the drive"))?,
            dead,
        })
    }

    fn join(self) -> Result<(), CoordinatorError> {
        let outcome = self.event_loop.join();
        // When it has died, the event loop has said so.
        let _ = self.log.join();
        outcome.unwrap_or(Err(CoordinatorError::EventLoopDied))
    }
}

/// What the network has to do with the replica.
struct Network {
    folder: FolderId,
    posts: Posts,
    cluster: watch::Receiver<Cluster>,
    replication: Replication,
    peer_status: PeerStatus,
    local_health: LocalHealth,
    /// The revoked and removed members, as agreed in the log.
    denied: watch::Receiver<DenyLists>,
    decisions: Decisions,
    endings: EventCounters<Ending>,
    /// The export of traces to the collector.
    export: Option<TraceExport>,
}

/// The identity of this coordinator, and its signer for other certificates.
struct Ours {
    identity: Identity,
    signing: Signing,
    listeners: Listeners,
    apart: Handle,
    audit: Audit,
}

/// Serves until a signal asks to end, or until the core cannot be driven any longer.
async fn serve(
    config: &Config,
    ours: Ours,
    network: Network,
    mut threads: Threads,
    intake: Intake,
) -> Result<(), CoordinatorError> {
    let [mut terminated, mut interrupted] = endings()?;
    let Ours {
        identity,
        signing,
        mut listeners,
        apart,
        audit,
    } = ours;
    let deny_list_updates = follow_denied(network.denied, identity.clone())?;
    let hooks = Hooks::open(&config.webhooks)?;
    network.export.map_or(Ok(()), TraceExport::begin)?;
    let (signing, ours) = keep_identity(signing, identity, network.cluster.clone());
    let context = ServerContext {
        fabric: config.fabric.clone(),
        intake: intake.clone(),
        ours,
        signing,
        cluster: network.cluster.clone(),
        replication: network.replication.clone(),
        peer_status: network.peer_status,
        local_health: network.local_health,
        decisions: network.decisions,
        endings: network.endings,
        deliveries: hooks.delivery_counters(),
        operator_sessions: SessionLimit::new(OPERATOR_SESSIONS),
        standby_sessions: SessionLimit::new(STANDBY_SESSIONS),
        starting_sessions: SessionLimit::new(STARTING_SESSIONS),
        coordinator_sessions: SessionLimit::new(COORDINATOR_SESSIONS),
        deny_list_updates,
        open_sessions: SessionLimit::new(Bounds::NONE),
        agent_locks: IdentityLocks::default(),
        driver_locks: IdentityLocks::default(),
        assigned_driver: Arc::new(config.assigned_driver.clone()),
        agent_rates: AgentRates::default(),
        archive: Archive::of(config.history.as_ref().map(|it| &it.value)),
        audit,
        pages: listeners.pages(),
        apart: apart.clone(),
    };
    http::serve(listeners.http.take(), listeners.https.take(), &context);
    tokio::spawn(hooks.keep_notifying(context.clone()));
    let own = Own {
        identity: context.ours.clone(),
        folder: network.folder,
        signs_until: context.signing.validity().map(|it| it.not_after),
        cluster: network.cluster,
    };
    let posting = apart.spawn(keep_open(network.posts, own, network.replication));
    let outcome = tokio::select! {
        error = listeners.welcome(&context) => Err(error),
        _ = posting => Ok(()),
        () = tick(&intake) => Ok(()),
        _ = &mut threads.dead => Ok(()),
        _ = terminated.recv() => Ok(()),
        _ = interrupted.recv() => Ok(()),
    };
    let closing = listeners.listener.close("the coordinator is shutting down");
    closing.await;
    // An event loop that has ended needs no notification.
    let _ = intake.put(Event::End).await;
    outcome.and(threads.join())
}

/// This coordinator's certificate, renewed in time, and what it signs with.
fn keep_identity(
    signing: Signing,
    identity: Identity,
    cluster: watch::Receiver<Cluster>,
) -> (Signing, watch::Receiver<Identity>) {
    let (sender, ours) = watch::channel(identity);
    let neighbours = Neighbours {
        ours: ours.clone(),
        cluster,
    };
    let signing = signing.among(neighbours);
    tokio::spawn(signing.clone().keep_good(sender));
    (signing, ours)
}

/// Applies a revocation of the log at once, and notifies members then. A removed coordinator still gets its session here: it
/// learns in it that it is none any more, and nothing else that it says is heard.
fn follow_denied(
    mut denied: watch::Receiver<DenyLists>,
    identity: Identity,
) -> Result<watch::Receiver<Arc<DenyListUpdates>>, CoordinatorError> {
    let lists = denied.borrow_and_update().clone();
    identity.deny(lists.revoked.clone());
    let first = DenyListUpdates::first(lists).map_err(|error| CoordinatorError::DenyLists {
        source: Box::new(error),
    })?;
    let (deny_list_updates, receiver) = watch::channel(Arc::new(first));
    tokio::spawn(async move {
        while denied.changed().await.is_ok() {
            let lists = denied.borrow_and_update().clone();
            identity.deny(lists.revoked.clone());
            publish(lists, &deny_list_updates);
        }
    });
    Ok(receiver)
}

pub(crate) fn endings() -> Result<[Signal; 2], CoordinatorError> {
    Ok([
        ending(SignalKind::terminate())?,
        ending(SignalKind::interrupt())?,
    ])
}

fn ending(kind: SignalKind) -> Result<Signal, CoordinatorError> {
    let failed = |source: io::Error| CoordinatorError::Start {
        what: "listening to signals",
        source,
    };
    signal(kind).map_err(failed)
}

/// Sends ticks to the core, until the intake is closed.
async fn tick(intake: &Intake) {
    let mut ticks = interval(TICK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let per_report = SHED_REPORT_INTERVAL.as_millis() / TICK_INTERVAL.as_millis();
    let per_sign = service::WATCHDOG_INTERVAL.as_millis() / TICK_INTERVAL.as_millis();
    let mut reported_count = 0;
    for count in 1_u128.. {
        ticks.tick().await;
        // An event loop that stands still takes nothing in, and then the watchdog is not fed.
        if intake.put(Event::Tick).await.is_err() {
            return;
        }
        if count.is_multiple_of(per_sign) {
            reweave_link::service::alive();
        }
        if count.is_multiple_of(per_report) {
            report_shed(intake, &mut reported_count);
        }
    }
}

fn report_shed(intake: &Intake, reported: &mut u64) {
    let shed = intake.counts().shed;
    if shed > *reported {
        let since = shed - *reported;
        tracing::warn!(dropped = since, "telemetry queue full, reports dropped");
        *reported = shed;
    }
}
