//! Asks everything that `innkeeper check` looks at: store, sandbox, agent, Discord.

use std::time::Duration;

use serde_json::Value;

use crate::discord::{Discord, RestError};
use crate::domain::ids::AccountId;
use crate::sandbox::{Confinement, Exec, Probe, Sandbox, SandboxError, shell};
use crate::store::StoreError;

use super::build;
use super::check::{self, Answer, Area, DiscordAnswers, Finding, SessionStarts};
use super::cli::Exit;
use super::commands;
use super::config::{Backend, Settings};
use super::run;

/// The account in which the sandbox is tried; nobody's chat ever runs there.
const TRIAL: &str = "inncheck";

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Looks at everything. The order is that in which a person would mend things.
pub async fn everything(settings: &Settings) -> Vec<Finding> {
    let mut findings = check::configuration(settings);
    findings.push(store(settings));
    findings.extend(sandbox(settings).await);
    findings.extend(discord(settings).await);
    findings
}

fn store(settings: &Settings) -> Finding {
    if !settings.store.exists() {
        return Finding::ok(Area::Store, "there is no store yet: the first run makes it");
    }
    match commands::existing(&settings.store) {
        Ok(store) => match store.check().as_slice() {
            [] => Finding::ok(Area::Store, "the store is in order"),
            [first, rest @ ..] => Finding::fault(
                Area::Store,
                Exit::Store,
                format!(
                    "{first}{}",
                    if rest.is_empty() {
                        String::new()
                    } else {
                        format!(" (and {} more)", rest.len())
                    }
                ),
                "restore the directory from a backup; `innkeeper store check` lists everything",
            ),
        },
        Err(StoreError::InUse(_)) => Finding::ok(Area::Store, "in use, bot alive"),
        Err(error) => Finding::fault(
            Area::Store,
            Exit::Store,
            error.to_string(),
            "see `innkeeper store check`",
        ),
    }
}

async fn sandbox(settings: &Settings) -> Vec<Finding> {
    let mut command = settings.agent.command.clone();
    let sandbox = match build::sandbox(settings, &mut command) {
        Ok(sandbox) => sandbox,
        Err(error) => return vec![no_sandbox(settings, &error)],
    };
    let account = AccountId(TRIAL.to_owned());
    match tokio::time::timeout(PATIENCE, sandbox.probe(&account)).await {
        Ok(Ok(probe)) => {
            let mut findings = vec![Finding::ok(
                Area::Sandbox,
                format!("the sandbox works, accounts live in {}", probe.home),
            )];
            findings.push(confinement(settings, &probe));
            findings.push(agent(&*sandbox, &account, &command).await);
            findings
        }
        Ok(Err(error)) => vec![no_sandbox(settings, &error)],
        Err(_) => vec![no_sandbox(settings, &SandboxError::Slow(PATIENCE))],
    }
}

fn no_sandbox(settings: &Settings, error: &SandboxError) -> Finding {
    let remedy = match (&settings.sandbox.backend, error) {
        (Backend::OpenTerminal { .. }, SandboxError::Refused(_)) => {
            "set sandbox.api_key to the key that open-terminal was started with (OPEN_TERMINAL_API_KEY)"
        }
        (Backend::OpenTerminal { .. }, _) => {
            "start open-terminal with OPEN_TERMINAL_MULTI_USER=true, and set sandbox.url to where it listens"
        }
        (Backend::Local, _) => {
            "look at the directory beside the store: the bot must be able to write there"
        }
    };
    Finding::fault(Area::Sandbox, Exit::Failed, error.to_string(), remedy)
}

fn confinement(settings: &Settings, probe: &Probe) -> Finding {
    match (&probe.confinement, settings.agent.confine) {
        (Confinement::Works, _) => Finding::ok(
            Area::Sandbox,
            "commands can be confined (bubblewrap was tried)",
        ),
        (Confinement::Missing(why), false) => Finding::warning(
            Area::Sandbox,
            format!("commands cannot be confined, and agent.confine is off: {why}"),
            "whoever runs turns can do all that the sandbox account can",
        ),
        (Confinement::Missing(why), true) => Finding::fault(
            Area::Sandbox,
            Exit::Failed,
            format!("commands cannot be confined, so only owners can run turns: {why}"),
            "install bubblewrap and socat in the sandbox and let ordinary users make namespaces, or set agent.confine = \"off\"",
        ),
    }
}

async fn agent(sandbox: &dyn Sandbox, account: &AccountId, command: &str) -> Finding {
    let exec = Exec {
        script: shell::script("take PROGRAM\ncommand -v -- \"$PROGRAM\"\n"),
        vars: vec![("PROGRAM", command.as_bytes().to_vec())],
        limit: PATIENCE,
        most: 4096,
    };
    match sandbox.exec(account, exec).await {
        Ok(done) if done.code == 0 => Finding::ok(
            Area::Agent,
            format!("the agent is {}", String::from_utf8_lossy(&done.out).trim()),
        ),
        Ok(_) => Finding::fault(
            Area::Agent,
            Exit::Failed,
            format!("the agent's program {command:?} is not in the sandbox"),
            "install it there for all accounts (npm package @anthropic-ai/claude-code), or set agent.command to where it is",
        ),
        Err(error) => Finding::fault(
            Area::Agent,
            Exit::Failed,
            error.to_string(),
            "look at the sandbox first",
        ),
    }
}

async fn discord(settings: &Settings) -> Vec<Finding> {
    let discord = match run::connect(settings) {
        Ok(discord) => discord,
        Err(error) => {
            let remedy = "look at discord.token and discord.api_url";
            return vec![Finding::fault(
                Area::Discord,
                Exit::Unusable,
                error.to_string(),
                remedy,
            )];
        }
    };
    check::discord(&answers(settings, &discord).await)
}

async fn answers(settings: &Settings, discord: &Discord) -> DiscordAnswers {
    let name = |field: &'static str| {
        move |asked: Value| asked[field].as_str().unwrap_or_default().to_owned()
    };
    let me = given(discord.ask("users/@me").await, name("username"));
    let starts = given(discord.ask("gateway/bot").await, |asked| {
        let limit = &asked["session_start_limit"];
        SessionStarts {
            remaining: limit["remaining"]
                .as_u64()
                .and_then(|number| u32::try_from(number).ok())
                .unwrap_or(0),
            reset_after: Duration::from_millis(limit["reset_after"].as_u64().unwrap_or(0)),
        }
    });
    let flags = given(discord.ask("applications/@me").await, |asked| {
        asked["flags"].as_u64().unwrap_or(0)
    });
    let mut guilds = Vec::new();
    for guild in &settings.rules.guilds {
        guilds.push((
            *guild,
            given(discord.ask(&format!("guilds/{guild}")).await, name("name")),
        ));
    }
    DiscordAnswers {
        me,
        session_starts: starts,
        application_flags: flags,
        guilds,
    }
}

fn given<T>(asked: Result<Value, RestError>, read: impl FnOnce(Value) -> T) -> Answer<T> {
    match asked {
        Ok(value) => Answer::Given(read(value)),
        Err(RestError::Refused { status, .. }) => Answer::Refused(status),
        Err(RestError::Away { why, .. }) => Answer::Away(why),
    }
}
