//! The configuration in the words of the rooms that use it: nothing here can be wrong any more.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use crate::agent::rules::AgentRules;
use crate::domain::ids::Slug;
use crate::domain::project::Catalogue;
use crate::domain::rules::Rules;

/// Everything that the bot is built from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How Discord is reached.
    pub discord: DiscordSettings,
    /// Directory of the store, on the bot's machine.
    pub store: PathBuf,
    /// People, money and limits.
    pub rules: Rules,
    /// The projects.
    pub catalogue: Catalogue,
    /// How every agent is run.
    pub agent: AgentRules,
    /// Directories of skills that every agent gets, on the bot's machine; each was there when the configuration was read.
    pub shared_skills: Vec<PathBuf>,
    /// Credentials of projects for turns at `ship`, as their files held them when the configuration was read.
    pub ship_env: Vec<(Slug, Vec<(String, SecretString)>)>,
    /// Where turns run.
    pub sandbox: SandboxSettings,
    /// Who answers the agent, and at which price.
    pub provider: ProviderSettings,
    /// What the bot shows of itself.
    pub observe: ObserveSettings,
    /// Where secrets are given, for those who say what to do about one.
    pub places: SecretPlaces,
    /// The files that hold secrets, the configuration's own among them if it does.
    pub secret_files: Vec<PathBuf>,
}

/// Where secrets are given, as people know the places: `discord.token`, or `config/token (discord.token_file)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretPlaces {
    /// The bot's token.
    pub token: String,
    /// The key of the open-terminal server.
    pub sandbox_key: String,
    /// The provider's key.
    pub provider_key: String,
}

impl Settings {
    /// Returns every secret of the configuration, for those who must keep them out of what they write.
    pub fn secrets(&self) -> Vec<SecretString> {
        let sandbox = match &self.sandbox.backend {
            Backend::OpenTerminal { api_key, .. } => Some(api_key),
            Backend::Local => None,
        };
        let provider = self.provider.credential.as_ref().map(|credential| {
            let (Credential::ApiKey(secret) | Credential::OauthToken(secret)) = credential;
            secret
        });
        std::iter::once(&self.discord.token)
            .chain(sandbox)
            .chain(provider)
            .chain(
                self.ship_env
                    .iter()
                    .flat_map(|(_, all)| all.iter().map(|(_, secret)| secret)),
            )
            .cloned()
            .collect()
    }
}

/// `[discord]`, as far as it is not about people.
#[derive(Clone, Debug)]
pub struct DiscordSettings {
    /// The bot's token.
    pub token: SecretString,
    /// Scheme and host, without `/api` and without a slash at the end.
    pub api_url: String,
}

/// `[sandbox]`.
#[derive(Clone, Debug)]
pub struct SandboxSettings {
    /// Which sandbox.
    pub backend: Backend,
    /// Whom an account is minted for.
    pub account: AccountPer,
    /// Directory of a chat without a place of its own, in the sandbox; `{chat}` stands for the chat's id.
    pub workdir: String,
    /// A directory in the sandbox that only its server can write, for large files.
    pub drop_dir: Option<String>,
    /// How long the sandbox keeps what belongs to a chat that is over.
    pub keep: Duration,
}

/// Which sandbox turns run in.
#[derive(Clone, Debug)]
pub enum Backend {
    /// Processes on this machine.
    Local,
    /// An open-terminal server.
    OpenTerminal {
        /// Its address, without a slash at the end.
        url: String,
        /// Its key.
        api_key: SecretString,
    },
}

/// Whom the bot mints a sandbox account for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountPer {
    /// Each project has one: the border between accounts is the border of the grant.
    Project,
    /// Each guest has one.
    Guest,
}

/// `[provider]`.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// Where the provider's API answers, without a slash at the end.
    pub base_url: String,
    /// What opens it; `None`: nothing was given, and the provider will say so.
    pub credential: Option<Credential>,
    /// Where the meter listens; port 0 lets the machine choose.
    pub meter_listen: SocketAddr,
    /// The meter's address as the sandbox reaches it; `None`: the address on which it listens.
    pub meter_url: Option<String>,
    /// Prices that differ from the built-in ones.
    pub prices: Vec<PriceOverride>,
}

/// What opens the provider.
#[derive(Clone, Debug)]
pub enum Credential {
    /// A key, which stays in the bot: the meter puts it on.
    ApiKey(SecretString),
    /// A subscription's token, which has to go into the sandbox: there is no meter, and amounts are estimates.
    OauthToken(SecretString),
}

/// The price of a model family, in dollars per million tokens; each is zero or more.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceOverride {
    /// The family, such as `haiku`.
    pub family: String,
    /// What goes in.
    pub input: f64,
    /// What comes out.
    pub output: f64,
    /// What is written to the cache.
    pub cache_write: f64,
    /// What is read from the cache.
    pub cache_read: f64,
}

/// `[observe]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObserveSettings {
    /// Where health and metrics are served, if at all.
    pub listen: Option<SocketAddr>,
    /// How the log is written.
    pub log: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}
