//! `innkeeper check`: what stands between this machine and a bot that serves, and how to mend it.
//!
//! A check turns answers into [`Finding`]s and asks nobody itself, so that each can be tried with made-up answers. The
//! findings never hold a secret.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Serialize, Serializer};

use crate::domain::ids::GuildId;

use super::build::DEFAULT_DISCORD;
use super::cli::{self, Exit};
use super::config::{Backend, Credential, Faults, Settings};

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Area {
    /// File and environment.
    Configuration,
    /// What the bot keeps.
    Store,
    /// Where turns run.
    Sandbox,
    /// The coding agent, its provider and the meter.
    Agent,
    /// Token, intents, servers.
    Discord,
}

/// How good or bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As it should be.
    Ok,
    /// The bot serves, but somebody should know.
    Warning,
    /// The bot cannot serve; with the code that `run` would end with.
    Fault(Exit),
}

impl State {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Fault(_) => "fault",
        }
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub area: Area,
    /// How it stands.
    pub state: State,
    /// What was found, one sentence without a full stop.
    pub what: String,
    /// What to do about it; `None` where there is nothing to do.
    pub remedy: Option<String>,
}

impl Finding {
    /// Makes a finding about something that is as it should be.
    pub fn ok(area: Area, what: impl Into<String>) -> Finding {
        Finding {
            area,
            state: State::Ok,
            what: what.into(),
            remedy: None,
        }
    }

    /// Makes a finding that somebody should know about.
    pub fn warning(area: Area, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding {
            area,
            state: State::Warning,
            what: what.into(),
            remedy: Some(remedy.into()),
        }
    }

    /// Makes a finding that keeps the bot from serving.
    pub fn fault(
        area: Area,
        exit: Exit,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            area,
            state: State::Fault(exit),
            what: what.into(),
            remedy: Some(remedy.into()),
        }
    }
}

/// Returns how the program ends after these findings: as the first fault says that a person has to mend before another start
/// is of use, else as any fault does.
pub fn exit(findings: &[Finding]) -> Exit {
    let faults = findings.iter().filter_map(|finding| match finding.state {
        State::Fault(exit) => Some(exit),
        State::Ok | State::Warning => None,
    });
    faults
        .reduce(|first, next| match first {
            Exit::Failed => next,
            _ => first,
        })
        .unwrap_or(Exit::Done)
}

/// Writes the findings for people, one a line, the remedy below it.
pub fn to_text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding {
        area,
        state,
        what,
        remedy,
    } in findings
    {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{:<7}  {area:?}: {what}", state.word());
        if let Some(remedy) = remedy {
            let _ = writeln!(text, "{:<7}  → {remedy}", "");
        }
    }
    text
}

/// Writes the findings as one JSON list of objects with `area`, `state`, `what` and `remedy`.
pub fn to_json(findings: &[Finding]) -> serde_json::Result<String> {
    serde_json::to_string_pretty(findings).map(|json| json + "\n")
}

/// Says each fault of the configuration.
pub fn broken_configuration(faults: &Faults) -> Vec<Finding> {
    faults
        .0
        .iter()
        .map(|fault| {
            let remedy = "config/innkeeper.example.toml explains every key and can be copied";
            Finding::fault(
                Area::Configuration,
                Exit::Unusable,
                fault.to_string(),
                remedy,
            )
        })
        .collect()
}

/// Says what a configuration without faults leaves unprotected or unused.
pub fn configuration(settings: &Settings) -> Vec<Finding> {
    let mut findings = vec![Finding::ok(
        Area::Configuration,
        format!(
            "{} and {} are configured",
            count(settings.rules.guilds.len(), "server"),
            count(settings.catalogue.0.len(), "project"),
        ),
    )];
    findings.extend(secrets(settings));
    findings.extend(projects(settings));
    findings.extend(confinement(settings));
    findings.extend(provider(settings));
    findings.extend(meter_address(settings));
    findings.extend(open_wire(settings));
    findings.extend(without_effect(settings));
    findings.extend(questions(settings));
    findings
}

/// How long a question waits where nothing is configured.
const QUESTION: Duration = Duration::from_secs(1800);

/// Tells that agents have no way to ask.
fn questions(settings: &Settings) -> Option<Finding> {
    settings.agent.questions.then(|| {
        Finding::ok(
            Area::Configuration,
            "agents are told that their questions reach nobody in this version (agent.questions)",
        )
    })
}

/// Finds keys that are understood, and change nothing in this version.
fn without_effect(settings: &Settings) -> Vec<Finding> {
    let keys = [
        ("sandbox.drop_dir", settings.sandbox.drop_dir.is_some()),
        ("observe.listen", settings.observe.listen.is_some()),
        (
            "limits.question_seconds",
            settings.rules.limits.question != QUESTION,
        ),
    ];
    keys.into_iter()
        .filter(|(_, given)| *given)
        .map(|(key, _)| {
            Finding::warning(
                Area::Configuration,
                format!("{key} has no effect in this version"),
                "leave it out, or keep it for a later version",
            )
        })
        .collect()
}

fn count(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}

/// Finds secrets that cannot be any: what the example holds in their place, or no token of Discord's.
fn secrets(settings: &Settings) -> Vec<Finding> {
    let places = &settings.places;
    let token = &settings.discord.token;
    let mut given = vec![(&places.token, token)];
    if let Some(Credential::ApiKey(key)) = &settings.provider.credential {
        given.push((&places.provider_key, key));
    }
    let mut findings: Vec<Finding> = given
        .into_iter()
        .filter(|(_, secret)| is_placeholder(secret))
        .map(|(place, _)| {
            Finding::fault(
                Area::Configuration,
                Exit::Unusable,
                format!("{place} is still the example's placeholder"),
                "put the real one there, or into a file of its own that the key ending in _file names",
            )
        })
        .collect();
    // Another Discord than the real one, such as the stand-in, decides by itself what a token is.
    let is_real = settings.discord.api_url == DEFAULT_DISCORD;
    if is_real && !is_placeholder(token) && cli::invite(token).is_none() {
        findings.push(Finding::fault(
            Area::Configuration,
            Exit::Unusable,
            cli::no_token(&places.token),
            "choose Reset Token there if it is not shown any more",
        ));
    }
    findings
}

/// Returns whether a secret is one of the example's.
fn is_placeholder(secret: &SecretString) -> bool {
    let text = secret.expose_secret();
    text.starts_with("put-the-") && text.ends_with("-here")
}

/// Says whether the provider takes the key, by its answer to a question that costs nothing.
pub fn provider_key(answer: &Answer<()>, settings: &Settings) -> Finding {
    let (place, url) = (&settings.places.provider_key, &settings.provider.base_url);
    match answer {
        Answer::Given(()) => Finding::ok(Area::Agent, "the provider takes the key"),
        Answer::Refused(status @ (401 | 403)) => Finding::fault(
            Area::Agent,
            Exit::Failed,
            format!("the provider at {url} refuses the key (status {status}): turns will fail"),
            format!("put a valid key into {place}, or correct provider.base_url"),
        ),
        Answer::Refused(status) => Finding::warning(
            Area::Agent,
            format!("the provider at {url} answers with status {status} when asked for its models"),
            "look whether provider.base_url is right, and try again",
        ),
        Answer::Away(why) => Finding::warning(
            Area::Agent,
            format!("the provider at {url} cannot be reached: {why}"),
            "look whether provider.base_url is right, and whether this machine reaches it",
        ),
    }
}

/// Says which of the files that hold secrets others can read, by the mode of each.
pub fn readable_secrets(files: &[(PathBuf, u32)]) -> Vec<Finding> {
    files
        .iter()
        .filter(|(_, mode)| mode & 0o077 != 0)
        .map(|(file, mode)| {
            let file = file.display();
            Finding::warning(
                Area::Configuration,
                format!(
                    "{file} holds a secret, and others than its owner may use it (mode {:03o})",
                    mode & 0o777
                ),
                format!("chmod 600 {file}"),
            )
        })
        .collect()
}

fn projects(settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    if settings.catalogue.0.is_empty() {
        findings.push(Finding::warning(
            Area::Configuration,
            "there is no project, so nobody can run a turn",
            "add a [[project]] to the configuration",
        ));
    }
    let heard = &settings.rules.channels;
    for project in &settings.catalogue.0 {
        let deaf = project
            .channels
            .iter()
            .find(|channel| !heard.contains(channel));
        if let Some(channel) = deaf.filter(|_| !heard.is_empty()) {
            findings.push(Finding::warning(
                Area::Configuration,
                format!(
                    "project {:?} begins in channel {channel}, which is not listened to",
                    project.slug.as_str()
                ),
                "add the channel to discord.channels, or remove it from the project",
            ));
        }
    }
    findings
}

fn confinement(settings: &Settings) -> Option<Finding> {
    (!settings.agent.confine).then(|| {
        Finding::warning(
            Area::Configuration,
            "confinement is off: commands of an agent can read and write whatever its sandbox account can",
            "set agent.confine to \"required\" unless everybody with a grant is trusted with the account",
        )
    })
}

fn provider(settings: &Settings) -> Option<Finding> {
    let (what, remedy) = match settings.provider.credential {
        Some(Credential::ApiKey(_)) => return None,
        Some(Credential::OauthToken(_)) => (
            "a subscription's token is used: it goes into the sandbox, nothing is metered, amounts are estimates",
            "give provider.api_key instead, unless everybody with a grant is trusted with the token",
        ),
        None => (
            "no key for the provider is given: turns will fail",
            "give provider.api_key or provider.api_key_file",
        ),
    };
    Some(Finding::warning(Area::Configuration, what, remedy))
}

/// Finds a sandbox on another machine that is told to reach the meter on its own loopback.
fn meter_address(settings: &Settings) -> Option<Finding> {
    let Backend::OpenTerminal { url, .. } = &settings.sandbox.backend else {
        return None;
    };
    let metered = matches!(settings.provider.credential, Some(Credential::ApiKey(_)));
    let unreachable = metered
        && settings.provider.meter_url.is_none()
        && settings.provider.meter_listen.ip().is_loopback()
        && !is_local(url);
    unreachable.then(|| {
        Finding::warning(
            Area::Agent,
            "the sandbox is on another machine, and the meter listens on this machine's loopback only",
            "set provider.meter_listen to an address that the sandbox reaches, and provider.meter_url to the same",
        )
    })
}

/// Finds addresses to which secrets would travel unencrypted over a network.
fn open_wire(settings: &Settings) -> Vec<Finding> {
    let sandbox = match &settings.sandbox.backend {
        Backend::OpenTerminal { url, .. } => Some(("sandbox.url", url)),
        Backend::Local => None,
    };
    let fixed = [
        ("discord.api_url", &settings.discord.api_url),
        ("provider.base_url", &settings.provider.base_url),
    ];
    fixed
        .into_iter()
        .chain(sandbox)
        .filter(|(_, url)| url.starts_with("http://") && !is_local(url))
        .map(|(key, _)| {
            Finding::warning(
                Area::Configuration,
                format!("{key} is plain http: what opens it can be read on the way"),
                "use https, or a network that nobody else is on",
            )
        })
        .collect()
}

/// Returns whether an address names this machine's loopback.
fn is_local(url: &str) -> bool {
    let uri: Option<http::Uri> = url.parse().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host
            .parse()
            .is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// What one question to Discord gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// The answer.
    Given(T),
    /// Refused, with this HTTP status.
    Refused(u16),
    /// No answer; why, without secrets.
    Away(String),
}

/// `session_start_limit` of `GET /gateway/bot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionStarts {
    /// How many are left.
    pub remaining: u32,
    /// How long until the count begins anew.
    pub reset_after: Duration,
}

/// What Discord says about the bot.
#[derive(Clone, Debug)]
pub struct DiscordAnswers {
    /// `GET /users/@me`: the bot's name.
    pub me: Answer<String>,
    /// `GET /gateway/bot`.
    pub session_starts: Answer<SessionStarts>,
    /// `GET /applications/@me`: `flags`.
    pub application_flags: Answer<u64>,
    /// `GET /guilds/{id}` of each configured server: its name.
    pub guilds: Vec<(GuildId, Answer<String>)>,
    /// Where the token is given, for people.
    pub token_place: String,
}

/// Flags of an application that may read messages: granted by Discord, or switched on for a bot in few servers
/// (Discord reference, "Application Flags": `GATEWAY_MESSAGE_CONTENT`, `GATEWAY_MESSAGE_CONTENT_LIMITED`).
const MESSAGE_CONTENT: u64 = 1 << 18 | 1 << 19;

/// So few starts of a gateway session are a reason to look: at 0 Discord ends all sessions and resets the token.
const FEW_STARTS: u32 = 20;

/// Says what Discord's answers mean. A wrong token makes every other answer meaningless.
pub fn discord(answers: &DiscordAnswers) -> Vec<Finding> {
    let mut findings = vec![identity(&answers.me, &answers.token_place)];
    if matches!(answers.me, Answer::Given(_)) {
        findings.push(message_content(&answers.application_flags));
        findings.push(session_starts(&answers.session_starts));
        findings.extend(answers.guilds.iter().map(|(id, answer)| guild(*id, answer)));
    }
    findings
}

fn identity(me: &Answer<String>, place: &str) -> Finding {
    match me {
        Answer::Given(name) => Finding::ok(Area::Discord, format!("the token is that of {name:?}")),
        Answer::Refused(401) => Finding::fault(
            Area::Discord,
            Exit::DiscordRefuses,
            "Discord refuses the token",
            format!(
                "in the Developer Portal, page Bot, choose Reset Token and put the new one into {place}"
            ),
        ),
        other => unanswered("who the bot is", other),
    }
}

fn message_content(flags: &Answer<u64>) -> Finding {
    match flags {
        Answer::Given(flags) if flags & MESSAGE_CONTENT != 0 => {
            Finding::ok(Area::Discord, "the intent Message Content is on")
        }
        Answer::Given(_) => Finding::fault(
            Area::Discord,
            Exit::DiscordRefuses,
            "the intent Message Content is off, so Discord refuses the connection",
            "in the Developer Portal, page Bot, switch Message Content Intent on",
        ),
        other => unanswered("about the bot's intents", other),
    }
}

fn session_starts(starts: &Answer<SessionStarts>) -> Finding {
    match starts {
        Answer::Given(starts) if starts.remaining >= FEW_STARTS => Finding::ok(
            Area::Discord,
            format!("{} connections are left today", starts.remaining),
        ),
        Answer::Given(starts) => Finding::warning(
            Area::Discord,
            format!(
                "connections left today: {}; the count begins anew in {} minutes",
                starts.remaining,
                starts.reset_after.as_secs().div_ceil(60),
            ),
            "stop what restarts the bot again and again: without any left Discord resets the token",
        ),
        other => unanswered("how many connections are left", other),
    }
}

fn guild(id: GuildId, answer: &Answer<String>) -> Finding {
    match answer {
        Answer::Given(name) => {
            Finding::ok(Area::Discord, format!("the bot is on the server {name:?}"))
        }
        Answer::Refused(403 | 404) => Finding::warning(
            Area::Discord,
            format!("the bot is not on the server {id}"),
            "open the address that `innkeeper invite` prints, or correct discord.guilds",
        ),
        other => unanswered(&format!("about the server {id}"), other),
    }
}

fn unanswered<T>(question: &str, answer: &Answer<T>) -> Finding {
    let why = match answer {
        Answer::Refused(status) => format!("it answers with status {status}"),
        Answer::Away(why) => why.clone(),
        // Callers deal with answers before they come here.
        Answer::Given(_) => "the answer cannot be read".to_owned(),
    };
    Finding::fault(
        Area::Discord,
        Exit::Failed,
        format!("Discord does not say {question}: {why}"),
        "look whether this machine reaches discord.api_url, and try again",
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::app::config::{Config, Sources};

    const TOKEN: &str = "MTE1NjI3ODkwMTIzNDU2Nzg5MA.x.y";

    fn given(variables: &[(&str, &str)]) -> Settings {
        let least = [
            ("DISCORD__TOKEN", TOKEN),
            ("DISCORD__GUILDS", "7"),
            ("DISCORD__OWNERS", "8"),
            ("SANDBOX__BACKEND", "open-terminal"),
            ("SANDBOX__URL", "http://127.0.0.1:8000"),
            ("SANDBOX__API_KEY", "k"),
            ("PROVIDER__API_KEY", "k"),
        ];
        let named: BTreeMap<_, _> = least.iter().chain(variables).copied().collect();
        let environment = named
            .into_iter()
            .map(|(name, value)| (format!("INNKEEPER_{name}"), value.to_owned()))
            .collect();
        let sources = Sources {
            environment,
            ..Sources::default()
        };
        Config::read(&sources).unwrap().settings().unwrap()
    }

    fn answers() -> DiscordAnswers {
        DiscordAnswers {
            me: Answer::Given("innkeeper".to_owned()),
            session_starts: Answer::Given(SessionStarts {
                remaining: 998,
                reset_after: Duration::from_secs(3600),
            }),
            application_flags: Answer::Given(1 << 19 | 1 << 23),
            guilds: vec![(GuildId(7), Answer::Given("Demo".to_owned()))],
            token_place: "config/token (discord.token_file)".to_owned(),
        }
    }

    #[test]
    fn what_cannot_be_a_secret_is_told_by_its_place() {
        let example = configuration(&given(&[
            ("DISCORD__TOKEN", "put-the-bot-token-here"),
            ("PROVIDER__API_KEY", "put-the-provider-key-here"),
        ]));
        let text = to_text(&example);
        for key in ["discord.token", "provider.api_key"] {
            let told = format!("fault    Configuration: {key} is still the example's placeholder");
            assert!(text.contains(&told), "{text}");
        }
        assert_eq!(exit(&example), Exit::Unusable);
        let odd = configuration(&given(&[("DISCORD__TOKEN", "hush")]));
        let text = to_text(&odd);
        assert!(
            text.contains(&cli::no_token("discord.token")) && !text.contains("hush"),
            "{text}"
        );
        assert_eq!(exit(&odd), Exit::Unusable);
        let elsewhere = given(&[
            ("DISCORD__TOKEN", "hush"),
            ("DISCORD__API_URL", "http://127.0.0.1:7800"),
        ]);
        assert_eq!(exit(&configuration(&elsewhere)), Exit::Done);
    }

    #[test]
    fn what_the_provider_says_to_the_key_is_told() {
        let settings = given(&[]);
        let told = |answer| provider_key(&answer, &settings);
        assert_eq!(told(Answer::Given(())).state, State::Ok);
        let refused = told(Answer::Refused(401));
        insta::assert_snapshot!(to_text(std::slice::from_ref(&refused)), @r"
        fault    Agent: the provider at https://api.anthropic.com refuses the key (status 401): turns will fail
                 → put a valid key into provider.api_key, or correct provider.base_url
        ");
        assert_eq!(refused.state, State::Fault(Exit::Failed));
        assert_eq!(told(Answer::Refused(404)).state, State::Warning);
        let away = told(Answer::Away("no route".to_owned()));
        assert!(away.what.ends_with("cannot be reached: no route"));
        assert_eq!(away.state, State::Warning);
    }

    #[test]
    fn a_secret_that_others_can_read_is_told() {
        let files = [("own", 0o100_600), ("open", 0o100_644)]
            .map(|(name, mode)| (PathBuf::from(name), mode));
        insta::assert_snapshot!(to_text(&readable_secrets(&files)), @r"
        warning  Configuration: open holds a secret, and others than its owner may use it (mode 644)
                 → chmod 600 open
        ");
    }

    #[test]
    fn what_only_a_person_can_mend_decides_how_the_program_ends() {
        let fault = |exit| Finding::fault(Area::Store, exit, "broken", "mend it");
        let table = [
            (vec![], Exit::Done),
            (vec![Exit::Failed], Exit::Failed),
            (
                vec![Exit::Failed, Exit::DiscordRefuses],
                Exit::DiscordRefuses,
            ),
            (
                vec![Exit::Store, Exit::Failed, Exit::DiscordRefuses],
                Exit::Store,
            ),
        ];
        for (faults, expected) in table {
            let findings: Vec<Finding> = faults.into_iter().map(fault).collect();
            assert_eq!(exit(&findings), expected, "{findings:?}");
        }
    }

    #[test]
    fn a_configuration_says_what_it_leaves_open() {
        let text = to_text(&configuration(&given(&[
            ("SANDBOX__URL", "http://10.0.0.7:8000"),
            ("AGENT__CONFINE", "off"),
        ])));
        insta::assert_snapshot!(text, @r#"
        ok       Configuration: 1 server and 0 projects are configured
        warning  Configuration: there is no project, so nobody can run a turn
                 → add a [[project]] to the configuration
        warning  Configuration: confinement is off: commands of an agent can read and write whatever its sandbox account can
                 → set agent.confine to "required" unless everybody with a grant is trusted with the account
        warning  Agent: the sandbox is on another machine, and the meter listens on this machine's loopback only
                 → set provider.meter_listen to an address that the sandbox reaches, and provider.meter_url to the same
        warning  Configuration: sandbox.url is plain http: what opens it can be read on the way
                 → use https, or a network that nobody else is on
        ok       Configuration: agents are told that their questions reach nobody in this version (agent.questions)
        "#);
    }

    #[test]
    fn a_subscription_token_and_a_missing_key_are_told() {
        let token = configuration(&given(&[("PROVIDER__OAUTH_TOKEN", "o")]));
        assert!(to_text(&token).contains("nothing is metered"));
        let nothing = configuration(&given(&[("PROVIDER__API_KEY", "")]));
        assert!(to_text(&nothing).contains("turns will fail"));
        assert_eq!(exit(&nothing), Exit::Done);
    }

    #[test]
    fn addresses_of_this_machine_are_known() {
        for url in [
            "http://localhost:1",
            "http://127.0.0.2",
            "http://[::1]:80/x",
        ] {
            assert!(is_local(url), "{url}");
        }
        for url in [
            "http://10.0.0.1",
            "http://localhost.example.org",
            "nonsense",
            "",
        ] {
            assert!(!is_local(url), "{url}");
        }
    }

    #[test]
    fn every_fault_of_a_configuration_is_a_finding_that_ends_with_2() {
        let config = Config::read(&Sources::default()).unwrap();
        let findings = broken_configuration(&config.settings().unwrap_err());
        assert_eq!(findings.len(), 4);
        assert_eq!(exit(&findings), Exit::Unusable);
        let json: serde_json::Value = serde_json::from_str(&to_json(&findings).unwrap()).unwrap();
        assert_eq!(json[0]["area"], "configuration");
        assert_eq!(json[0]["state"], "fault");
        assert!(
            json[0]["what"]
                .as_str()
                .unwrap()
                .contains("discord.token is missing")
        );
        assert!(json[0]["remedy"].is_string());
    }

    #[test]
    fn a_bot_that_discord_knows_has_nothing_to_mend() {
        let findings = discord(&answers());
        assert!(findings.iter().all(|finding| finding.state == State::Ok));
        assert_eq!(exit(&findings), Exit::Done);
        insta::assert_snapshot!(to_text(&findings), @r#"
        ok       Discord: the token is that of "innkeeper"
        ok       Discord: the intent Message Content is on
        ok       Discord: 998 connections are left today
        ok       Discord: the bot is on the server "Demo"
        "#);
    }

    #[test]
    fn a_wrong_token_is_all_that_is_said() {
        let findings = discord(&DiscordAnswers {
            me: Answer::Refused(401),
            application_flags: Answer::Refused(401),
            ..answers()
        });
        assert_eq!(findings.len(), 1);
        assert!(to_text(&findings).contains("into config/token (discord.token_file)"));
        assert_eq!(exit(&findings), Exit::DiscordRefuses);
    }

    #[test]
    fn a_missing_intent_few_starts_and_a_foreign_server_are_told_with_a_remedy() {
        let findings = discord(&DiscordAnswers {
            session_starts: Answer::Given(SessionStarts {
                remaining: 1,
                reset_after: Duration::from_secs(61),
            }),
            application_flags: Answer::Given(1 << 23),
            guilds: vec![(GuildId(7), Answer::Refused(404))],
            ..answers()
        });
        assert_eq!(exit(&findings), Exit::DiscordRefuses);
        insta::assert_snapshot!(to_text(&findings), @r#"
        ok       Discord: the token is that of "innkeeper"
        fault    Discord: the intent Message Content is off, so Discord refuses the connection
                 → in the Developer Portal, page Bot, switch Message Content Intent on
        warning  Discord: connections left today: 1; the count begins anew in 2 minutes
                 → stop what restarts the bot again and again: without any left Discord resets the token
        warning  Discord: the bot is not on the server 7
                 → open the address that `innkeeper invite` prints, or correct discord.guilds
        "#);
    }

    #[test]
    fn a_discord_that_does_not_answer_is_no_fault_of_the_token() {
        let findings = discord(&DiscordAnswers {
            me: Answer::Away("connection refused".to_owned()),
            ..answers()
        });
        assert_eq!(exit(&findings), Exit::Failed);
        assert!(to_text(&findings).contains("connection refused"));
    }
}
