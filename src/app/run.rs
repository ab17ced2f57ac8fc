//! `innkeeper run`: opens the house, serves Discord, and closes in order.

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::Office;
use crate::discord::{
    ActCall, Caller, Choice, Completion, Discord, DiscordSettings, Fatal, GrantCall, Handlers,
    OfficeCalls, RevokeCall,
};
use crate::domain::grant::Level;
use crate::driver::alarm;
use crate::driver::clock::SystemClock;
use crate::driver::desk::Desk;
use crate::driver::house::House;
use crate::driver::inbound::{Inbound, InboundPress, Reply};
use crate::driver::sweep;
use crate::present::notice;
use crate::store::Store;

use super::build::{self, BuildError, Built};
use super::check;
use super::cli::Exit;
use super::config::Settings;

/// How long everything may take to close, from when it is told to; the last flush follows. The whole exit takes at most
/// ten seconds. Chats say their last words while Discord's connection closes.
const LAST_WORDS: Duration = Duration::from_secs(9);

/// Why serving ended, if not because it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration holds something that cannot be served with; what.
    #[error("{0}")]
    Configuration(String),
    /// The house could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Discord's settings are of no use.
    #[error("discord cannot be set up: {0}")]
    Settings(String),
    /// Discord cannot be served.
    #[error(transparent)]
    Discord(#[from] Fatal),
    /// The store's disk failed: only a new process can write again.
    #[error("the store's disk failed or is full, and nothing can be kept any more")]
    Disk,
    /// The machine refuses something that every program gets.
    #[error("could not {0}: {1}")]
    Machine(&'static str, std::io::Error),
}

impl RunError {
    /// Returns the code that the program ends with.
    pub fn exit(&self) -> Exit {
        match self {
            RunError::Build(error) => error.exit(),
            RunError::Configuration(_) | RunError::Settings(_) => Exit::Unusable,
            RunError::Discord(Fatal::Token | Fatal::Intents(_)) => Exit::DiscordRefuses,
            RunError::Discord(Fatal::ForeignGateway(_)) => Exit::Unusable,
            RunError::Discord(Fatal::Deaf(_)) | RunError::Disk | RunError::Machine(..) => {
                Exit::Failed
            }
        }
    }
}

/// Serves until it is told to stop.
pub async fn run(settings: &Settings) -> Result<(), RunError> {
    let cancel = CancellationToken::new();
    stop_on_signals(cancel.clone())?;
    for finding in check::configuration(settings) {
        match finding.state {
            check::State::Ok => {}
            check::State::Warning => tracing::warn!("{}", finding.what),
            check::State::Fault(_) => return Err(RunError::Configuration(finding.what)),
        }
    }
    let store = Store::open(&settings.store).map_err(BuildError::from)?;
    serve(settings, store, cancel).await
}

/// Serves with an open store until `cancel`led.
pub async fn serve(
    settings: &Settings,
    store: Store,
    cancel: CancellationToken,
) -> Result<(), RunError> {
    let tracker = TaskTracker::new();
    let discord = connect(settings)?;
    let surface = Arc::new(discord.surface());
    let clock = Arc::new(SystemClock);
    let built = build::build(
        settings,
        store.clone(),
        surface,
        clock,
        tracker.clone(),
        cancel.clone(),
    )
    .await?;
    let unfinished = built.desk.pick_up().map_err(BuildError::from)?;
    if unfinished > 0 {
        tracing::info!(chats = unfinished, "picking up what the last run left");
    }
    tracker.spawn(sweep::daily(built.house.clone()));
    tracker.spawn(built.desk.clone().watch_roles());
    tracker.spawn(close_if_broken(built.house.clone()));
    let serving = async {
        let handlers = handlers(&built, &tracker, &cancel);
        let outcome = discord.serve(handlers, cancel.clone()).await;
        cancel.cancel();
        outcome
    };
    let told = async {
        cancel.cancelled().await;
        Instant::now()
    };
    let (outcome, told) = tokio::join!(serving, told);
    close(&tracker, told + LAST_WORDS, &store).await;
    if store.is_broken() {
        // Dropping it could wait for ever for the write that broke off.
        std::mem::forget(store);
        return Err(RunError::Disk);
    }
    Ok(outcome?)
}

/// Closes the house once its store can keep nothing any more: it would be deaf, and look well. A new process can write again
/// as soon as there is room.
async fn close_if_broken(house: Arc<House>) {
    tokio::select! {
        () = house.cancel.cancelled() => {}
        () = house.store.until_broken() => {
            alarm::tell_admins_unkept(&house, notice::DISK_FAILED);
            house.cancel.cancel();
        }
    }
}

pub(super) fn connect(settings: &Settings) -> Result<Discord, RunError> {
    let api_url = settings
        .discord
        .api_url
        .parse()
        .map_err(|error| RunError::Settings(format!("discord.api_url: {error}")))?;
    let discord = DiscordSettings {
        token: settings.discord.token.clone(),
        api_url,
    };
    Discord::new(discord, Arc::new(settings.rules.clone()))
        .map_err(|error| RunError::Settings(error.to_string()))
}

/// Lets chats write their last words until then, and makes sure that everything is on disk.
async fn close(tracker: &TaskTracker, until: Instant, store: &Store) {
    tracker.close();
    if tokio::time::timeout_at(until, tracker.wait())
        .await
        .is_err()
    {
        tracing::warn!(
            "some tasks did not end in time; what they did is on disk as far as it came"
        );
    }
    if let Err(error) = store.flush().await {
        tracing::error!(%error, "the last flush failed");
    }
}

/// The first signal closes the house, the second ends the program at once: everything that was told is on disk already.
fn stop_on_signals(cancel: CancellationToken) -> Result<(), RunError> {
    let machine = |error| RunError::Machine("listen for signals", error);
    let mut terminate = signal(SignalKind::terminate()).map_err(machine)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(machine)?;
    tokio::spawn(async move {
        let mut asked = false;
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if asked {
                std::process::exit(Exit::Failed.code().into());
            }
            asked = true;
            tracing::info!(
                "closing: running turns go on in the sandbox and are picked up at the next start"
            );
            cancel.cancel();
        }
    });
    Ok(())
}

fn handlers(built: &Built, tracker: &TaskTracker, cancel: &CancellationToken) -> Handlers {
    let (sender, arrivals) = mpsc::unbounded_channel();
    tracker.spawn(take_in(built.desk.clone(), arrivals, cancel.clone()));
    let (ask, press, stop) = (built.desk.clone(), built.desk.clone(), built.desk.clone());
    let (office, chat) = (built.office.clone(), built.desk.clone());
    Handlers {
        inbound: Arc::new(move |inbound| drop(sender.send(inbound))),
        ask: Arc::new(move |question| {
            let desk = ask.clone();
            Box::pin(async move { desk.ask(question).await })
        }),
        press: Arc::new(move |question| {
            let (office, desk) = (office.clone(), press.clone());
            Box::pin(async move { pressed(&office, &desk, question).await })
        }),
        chat: Arc::new(move |question| {
            let desk = chat.clone();
            Box::pin(async move { desk.chat_command(question).await })
        }),
        stop: Arc::new(move |question| {
            let desk = stop.clone();
            Box::pin(async move { desk.stop(question).await })
        }),
        office: office_calls(built),
    }
}

/// Buttons about access are the office's, all others the desk's.
async fn pressed(office: &Office, desk: &Desk, press: InboundPress) -> Reply {
    match office.access(&press).await {
        Some(reply) => {
            desk.recheck();
            reply
        }
        None => desk.press(press).await,
    }
}

/// Takes in what the gateway reports, one after the other, in its order.
async fn take_in(
    desk: Desk,
    mut arrivals: mpsc::UnboundedReceiver<Inbound>,
    cancel: CancellationToken,
) {
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            Some(inbound) = arrivals.recv() => desk.inbound(inbound).await,
            else => return,
        }
    }
}

fn office_calls(built: &Built) -> OfficeCalls {
    let (office, desk) = (&built.office, &built.desk);
    OfficeCalls {
        grant: answering(office, desk, |office, desk, call: GrantCall| async move {
            let how_long = call.for_how_long.as_deref();
            let text = office
                .grant(
                    &call.caller.by,
                    call.subject,
                    &call.project,
                    call.level,
                    how_long,
                )
                .await;
            desk.recheck();
            Reply::from(text)
        }),
        revoke: answering(office, desk, |office, desk, call: RevokeCall| async move {
            let (text, revoked) = office
                .revoke(&call.caller.by, call.subject, &call.project)
                .await;
            if revoked.is_some() {
                desk.recheck();
            }
            Reply::from(text)
        }),
        grants: answering(office, desk, |office, _, caller: Caller| async move {
            Reply::from(office.grants(&caller.by, None))
        }),
        me: answering(office, desk, |office, _, caller: Caller| async move {
            Reply::from(office.me(&caller.by))
        }),
        usage: answering(office, desk, |office, _, caller: Caller| async move {
            office.usage(&caller.by)
        }),
        act: answering(office, desk, |office, desk, call: ActCall| async move {
            let ActCall { caller, act } = call;
            let reply = office.act(&caller.by, caller.place.guild, act).await;
            desk.recheck();
            reply
        }),
        complete_projects: completing(office, complete_projects),
        complete_models: completing(office, |office, completion| {
            let models = office.complete_models(
                &completion.caller.by,
                completion.caller.place.guild,
                &completion.typed,
            );
            models
                .into_iter()
                .map(|model| Choice {
                    name: model.clone(),
                    value: model,
                })
                .collect()
        }),
    }
}

fn complete_projects(office: &Office, completion: &Completion) -> Vec<Choice> {
    let (by, guild) = (&completion.caller.by, completion.caller.place.guild);
    let projects = match completion.command.as_str() {
        "grant" | "revoke" | "budget" | "spend" => {
            office.complete_any_project(by, guild, &completion.typed)
        }
        _ => office.complete_projects(by, guild, &completion.typed, Level::Chat),
    };
    projects
        .into_iter()
        .map(|(slug, title)| Choice {
            name: title,
            value: slug,
        })
        .collect()
}

fn answering<Question: Send + 'static, F>(
    office: &Office,
    desk: &Desk,
    answer: impl Fn(Office, Desk, Question) -> F + Copy + Send + Sync + 'static,
) -> crate::discord::Answering<Question>
where
    F: Future<Output = Reply> + Send + 'static,
{
    let (office, desk) = (office.clone(), desk.clone());
    Arc::new(move |question| {
        let (office, desk) = (office.clone(), desk.clone());
        Box::pin(answer(office, desk, question))
    })
}

fn completing(
    office: &Office,
    complete: impl Fn(&Office, &Completion) -> Vec<Choice> + Copy + Send + Sync + 'static,
) -> crate::discord::Completing {
    let office = office.clone();
    Arc::new(move |completion| {
        let office = office.clone();
        Box::pin(async move { complete(&office, &completion) })
    })
}
