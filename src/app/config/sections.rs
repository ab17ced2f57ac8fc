//! The sections of the configuration as they are written, with the defaults of each key.
//!
//! What a key means is told in `config/innkeeper.example.toml`, once, for the people who write it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use figment::error::Kind;
use figment::value::{Dict, Value};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::values::{Count, Dollars, Flag, Id, List, Secret};

/// Returns every section with its keys.
pub(super) fn all() -> Vec<(&'static str, &'static [&'static str])> {
    vec![
        ("discord", keys::<Discord>()),
        ("store", keys::<Store>()),
        ("sandbox", keys::<Sandbox>()),
        ("agent", keys::<Agent>()),
        ("provider", keys::<Provider>()),
        ("limits", keys::<Limits>()),
        ("time", keys::<Time>()),
        ("observe", keys::<Observe>()),
        ("project", keys::<Project>()),
    ]
}

/// Returns the keys of a section: a struct that denies unknown keys names the known ones when it is given one.
pub(super) fn keys<T: DeserializeOwned>() -> &'static [&'static str] {
    let probe = Value::from(Dict::from([("?".to_owned(), Value::from(0))]));
    match T::deserialize(&probe).map_err(|error| error.kind) {
        Err(Kind::UnknownField(_, known)) => known,
        _ => &[],
    }
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Discord {
    pub(super) token: Option<Secret>,
    pub(super) token_file: Option<PathBuf>,
    pub(super) api_url: String,
    pub(super) guilds: List<Id>,
    pub(super) owners: List<Id>,
    pub(super) admin_roles: List<Id>,
    pub(super) admin_channel: Option<Id>,
    pub(super) channels: List<Id>,
}

impl Default for Discord {
    fn default() -> Discord {
        Discord {
            token: None,
            token_file: None,
            api_url: "https://discord.com".to_owned(),
            guilds: List::default(),
            owners: List::default(),
            admin_roles: List::default(),
            admin_channel: None,
            channels: List::default(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Store {
    pub(super) path: PathBuf,
}

impl Default for Store {
    fn default() -> Store {
        Store {
            path: PathBuf::from("data/store"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Backend {
    Local,
    OpenTerminal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Account {
    Project,
    Guest,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Sandbox {
    pub(super) backend: Option<Backend>,
    pub(super) url: Option<String>,
    pub(super) api_key: Option<Secret>,
    pub(super) api_key_file: Option<PathBuf>,
    pub(super) account: Account,
    pub(super) workdir: String,
    pub(super) drop_dir: Option<String>,
    pub(super) keep_days: Count,
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox {
            backend: None,
            url: None,
            api_key: None,
            api_key_file: None,
            account: Account::Project,
            workdir: "~/chat-{chat}".to_owned(),
            drop_dir: None,
            keep_days: Count(30),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Confine {
    Required,
    Off,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Agent {
    pub(super) command: String,
    pub(super) models: List<String>,
    pub(super) tools: List<String>,
    pub(super) max_turns: Count,
    pub(super) confine: Confine,
    pub(super) questions: Flag,
    pub(super) deny_read: List<String>,
    pub(super) system_prompt: Option<String>,
    pub(super) shared_skills: List<PathBuf>,
    pub(super) env: BTreeMap<String, String>,
}

/// Tools that an agent gets where the configuration does not say.
const TOOLS: [&str; 11] = [
    "Read",
    "Write",
    "Edit",
    "Bash",
    "Agent",
    "TaskCreate",
    "TaskUpdate",
    "TaskList",
    "TaskGet",
    "AskUserQuestion",
    "Skill",
];

/// Where credentials and other conversations usually lie in a home directory.
const DENY_READ: [&str; 8] = [
    "~/.ssh/**",
    "~/.gnupg/**",
    "~/.aws/**",
    "~/.config/**",
    "~/.netrc",
    "~/.git-credentials",
    "~/.claude/.credentials.json",
    "~/.claude/projects/**",
];

fn texts(words: &[&str]) -> List<String> {
    List(words.iter().map(|word| (*word).to_owned()).collect())
}

impl Default for Agent {
    fn default() -> Agent {
        Agent {
            command: "claude".to_owned(),
            models: texts(&["sonnet"]),
            tools: texts(&TOOLS),
            max_turns: Count(30),
            confine: Confine::Required,
            questions: Flag(true),
            deny_read: texts(&DENY_READ),
            system_prompt: None,
            shared_skills: List::default(),
            env: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Provider {
    pub(super) base_url: String,
    pub(super) api_key: Option<Secret>,
    pub(super) api_key_file: Option<PathBuf>,
    pub(super) oauth_token: Option<Secret>,
    pub(super) oauth_token_file: Option<PathBuf>,
    pub(super) meter_listen: String,
    pub(super) meter_url: Option<String>,
    pub(super) price: Vec<Price>,
}

impl Default for Provider {
    fn default() -> Provider {
        Provider {
            base_url: "https://api.anthropic.com".to_owned(),
            api_key: None,
            api_key_file: None,
            oauth_token: None,
            oauth_token_file: None,
            meter_listen: "127.0.0.1:0".to_owned(),
            meter_url: None,
            price: Vec::new(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Price {
    pub(super) family: String,
    pub(super) input: Dollars,
    pub(super) output: Dollars,
    pub(super) cache_write: Dollars,
    pub(super) cache_read: Dollars,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Limits {
    pub(super) budget_usd: Dollars,
    pub(super) turn_usd: Dollars,
    pub(super) turn_seconds: Count,
    pub(super) silence_seconds: Count,
    pub(super) question_seconds: Count,
    pub(super) queue_depth: Count,
    pub(super) running: Count,
    pub(super) running_per_guest: Count,
    pub(super) upload_bytes: Count,
    pub(super) download_bytes: Count,
    pub(super) catch_up_minutes: Count,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            budget_usd: Dollars(0.0),
            turn_usd: Dollars(1.0),
            turn_seconds: Count(1800),
            silence_seconds: Count(600),
            question_seconds: Count(1800),
            queue_depth: Count(5),
            running: Count(4),
            running_per_guest: Count(1),
            upload_bytes: Count(10 * 1024 * 1024),
            download_bytes: Count(25 * 1024 * 1024),
            catch_up_minutes: Count(60),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Time {
    pub(super) zone: String,
}

impl Default for Time {
    fn default() -> Time {
        Time {
            zone: "UTC".to_owned(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Log {
    Text,
    Json,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Observe {
    pub(super) listen: String,
    pub(super) log: Log,
}

impl Default for Observe {
    fn default() -> Observe {
        Observe {
            listen: "off".to_owned(),
            log: Log::Text,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Workspace {
    #[default]
    Scratch,
    InPlace,
    Clone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Collect {
    All,
    New,
    Outbox,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Project {
    pub(super) slug: String,
    pub(super) title: Option<String>,
    pub(super) workspace: Workspace,
    pub(super) path: Option<String>,
    pub(super) repo: Option<String>,
    pub(super) models: List<String>,
    pub(super) budget_usd: Option<Dollars>,
    pub(super) collect: Option<Collect>,
    pub(super) channels: List<Id>,
    pub(super) system_prompt: Option<String>,
    pub(super) account: Option<String>,
    pub(super) allowed_domains: List<String>,
    pub(super) ship_env_file: Option<PathBuf>,
}
