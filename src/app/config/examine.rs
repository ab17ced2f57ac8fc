//! Whether a configuration makes sense, and what it means then.
//!
//! Every check adds its fault and goes on with something harmless, so that one run tells all that is wrong; nothing of
//! that harmless stuff is ever handed out.

mod projects;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;
use secrecy::{ExposeSecret, SecretString};

use crate::agent::rules::AgentRules;
use crate::domain::ids::{ChannelId, GuildId, MemberId, RoleId};
use crate::domain::money::Usd;
use crate::domain::rules::{Limits, Rules};
use crate::meter::Prices;

use super::values::{Count, Dollars, Id, Secret};
use super::{
    AccountPer, Backend, Config, Credential, DiscordSettings, ENVIRONMENT, Fault, Faults,
    ObserveSettings, PriceOverride, ProviderSettings, SandboxSettings, SecretPlaces, Settings,
    sections,
};

/// The most dollars that any amount can have: far more than anybody spends, and sums of it are still exact.
const MOST_DOLLARS: f64 = 1e9;

/// The address that no request goes to; stands in for those that are wrong.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// What the bot itself puts into an agent's environment: an owner's value would undo the meter or the chat's border.
pub(super) const OWN_VARIABLES: [&str; 5] = [
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CONFIG_DIR",
];

/// One look at a configuration.
pub(super) struct Examination<'a> {
    config: &'a Config,
    faults: Vec<Fault>,
    secret_files: Vec<PathBuf>,
}

impl<'a> Examination<'a> {
    pub(super) fn new(config: &'a Config) -> Examination<'a> {
        Examination {
            config,
            faults: Vec::new(),
            secret_files: Vec::new(),
        }
    }

    pub(super) fn settings(mut self) -> Result<Settings, Faults> {
        let catalogue = self.catalogue();
        let settings = Settings {
            discord: self.discord(),
            store: self.store(),
            rules: self.rules(),
            ship_env: self.ship_env(&catalogue),
            catalogue,
            agent: self.agent(),
            shared_skills: self.shared_skills(),
            sandbox: self.sandbox(),
            provider: self.provider(),
            observe: self.observe(),
            places: self.secret_places(),
            // Filled while the others were looked at.
            secret_files: std::mem::take(&mut self.secret_files),
        };
        self.close(settings)
    }

    /// Returns what makes no sense, but for sections that could not be read: nothing is known about those.
    pub(super) fn faults_outside(self, unread: &[&str]) -> Vec<Fault> {
        let Err(Faults(mut faults)) = self.settings() else {
            return Vec::new();
        };
        let is_in = |fault: &Fault, section: &str| {
            let rest = fault.key.strip_prefix(section);
            rest.is_some_and(|rest| rest.starts_with(['.', ' ']))
        };
        // What a project's path may be depends on where the sandbox and the store are.
        let paths_unknown = unread.contains(&"sandbox") || unread.contains(&"store");
        faults.retain(|fault| {
            let is_unread = unread.iter().any(|section| is_in(fault, section));
            let may_be_meant = paths_unknown && is_in(fault, "project");
            !is_unread && !may_be_meant
        });
        faults
    }

    fn secret_places(&self) -> SecretPlaces {
        let (sandbox, provider) = (&self.config.sandbox, &self.config.provider);
        SecretPlaces {
            token: self.token_place(),
            sandbox_key: secret_place("sandbox.api_key", &sandbox.api_key_file),
            provider_key: secret_place("provider.api_key", &provider.api_key_file),
        }
    }

    /// Returns where the bot's token is given, for people.
    pub(super) fn token_place(&self) -> String {
        secret_place("discord.token", &self.config.discord.token_file)
    }

    pub(super) fn only_token(mut self) -> Result<SecretString, Faults> {
        let token = self.token();
        self.close(token)
    }

    pub(super) fn only_store(mut self) -> Result<PathBuf, Faults> {
        let store = self.store();
        self.close(store)
    }

    fn close<T>(self, value: T) -> Result<T, Faults> {
        match self.faults.is_empty() {
            true => Ok(value),
            false => Err(Faults(self.faults)),
        }
    }

    fn add(&mut self, path: &[&str], what: impl Into<String>) {
        let fault = Fault::key(path, what, &self.config.figment, &self.config.file);
        self.faults.push(fault);
    }

    /// Adds the fault of a key that has to be given and is not.
    fn missing(&mut self, path: &[&str], what: &str) {
        let fault = Fault::missing(path, what, &self.config.file);
        self.faults.push(fault);
    }

    fn store(&mut self) -> PathBuf {
        let path = &self.config.store.path;
        let text = path.to_string_lossy();
        if text.trim().is_empty() {
            self.add(
                &["store", "path"],
                "must name a directory: the bot keeps everything there",
            );
        }
        self.without_nul(&["store", "path"], &text);
        path.clone()
    }

    /// Looks for what no program can be given: the system ends a text there.
    fn without_nul(&mut self, path: &[&str], text: &str) {
        if text.contains('\0') {
            self.add(path, "holds a NUL character");
        }
    }

    fn discord(&mut self) -> DiscordSettings {
        let api_url = self.url(&["discord", "api_url"], &self.config.discord.api_url);
        if api_url
            .split("//")
            .nth(1)
            .is_some_and(|rest| rest.contains('/'))
        {
            self.add(
                &["discord", "api_url"],
                "must end after the host: the bot adds /api itself",
            );
        }
        DiscordSettings {
            token: self.token(),
            api_url,
        }
    }

    fn token(&mut self) -> SecretString {
        let discord = &self.config.discord;
        self.secret("discord", "token", &discord.token, &discord.token_file)
            .unwrap_or_else(|| {
                let what = "the bot's token, or token_file with the path of a file that holds it,";
                self.missing(&["discord", "token"], what);
                SecretString::from("")
            })
    }

    fn rules(&mut self) -> Rules {
        let discord = &self.config.discord;
        if discord.guilds.0.is_empty() {
            self.missing(&["discord", "guilds"], "the ids of the servers to serve");
        }
        if discord.owners.0.is_empty() {
            let what = "the ids of the people who may do everything";
            self.missing(&["discord", "owners"], what);
        }
        Rules {
            guilds: ids(&discord.guilds.0, GuildId),
            owners: ids(&discord.owners.0, MemberId),
            admin_roles: ids(&discord.admin_roles.0, RoleId),
            admin_channel: discord.admin_channel.map(|id| ChannelId(id.0)),
            channels: ids(&discord.channels.0, ChannelId),
            models: self.models(),
            families: self.families(),
            zone: self.zone(),
            limits: self.limits(),
        }
    }

    fn models(&mut self) -> Vec<String> {
        let path = ["agent", "models"];
        let models = &self.config.agent.models.0;
        if models.is_empty() {
            self.add(
                &path,
                "must name at least one model: the first is the default",
            );
        }
        self.words(&path, models)
    }

    /// Returns every model family that has a price, or that the configuration names.
    fn families(&self) -> Vec<String> {
        let config = self.config;
        let priced = config.provider.price.iter().map(|price| &price.family);
        let projects = config.projects.iter().flat_map(|it| &it.models.0);
        let named = config.agent.models.0.iter().chain(projects).chain(priced);
        let mut families = Prices::default().families();
        for name in named.map(|name| name.to_ascii_lowercase()) {
            if !families.contains(&name) {
                families.push(name);
            }
        }
        families
    }

    /// Takes a list of names: none is empty or holds white space, a comma or a control character.
    fn words(&mut self, path: &[&str], words: &[String]) -> Vec<String> {
        for word in words {
            let odd = |c: char| c.is_whitespace() || c.is_control() || c == ',';
            if word.is_empty() || word.contains(odd) {
                let what = format!(
                    "holds {word:?}: names are not empty and have no spaces, commas or control characters"
                );
                self.add(path, what);
            }
        }
        words.to_vec()
    }

    fn zone(&mut self) -> TimeZone {
        let name = &self.config.time.zone;
        TimeZone::get(name).unwrap_or_else(|_| {
            let what =
                format!("must be a time zone such as \"Europe/Berlin\" or \"UTC\", not {name:?}");
            self.add(&["time", "zone"], what);
            TimeZone::UTC
        })
    }

    fn limits(&mut self) -> Limits {
        let limits = &self.config.limits;
        let mut at_least_one = |key, count| self.at_least_one(&["limits", key], count);
        let seconds = Duration::from_secs;
        let small = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let mut taken = Limits {
            turn_time: seconds(at_least_one("turn_seconds", limits.turn_seconds)),
            silence: seconds(at_least_one("silence_seconds", limits.silence_seconds)),
            question: seconds(at_least_one("question_seconds", limits.question_seconds)),
            queue_depth: small(at_least_one("queue_depth", limits.queue_depth)),
            running: small(at_least_one("running", limits.running)),
            running_per_guest: small(at_least_one("running_per_guest", limits.running_per_guest)),
            upload: at_least_one("upload_bytes", limits.upload_bytes),
            download: at_least_one("download_bytes", limits.download_bytes),
            catch_up: seconds(limits.catch_up_minutes.0.saturating_mul(60)),
            budget: Usd::ZERO,
            turn: Usd::ZERO,
        };
        taken.budget = self.dollars(&["limits", "budget_usd"], limits.budget_usd);
        taken.turn = self.dollars(&["limits", "turn_usd"], limits.turn_usd);
        if limits.turn_usd.0 == 0.0 {
            let what = "must be more than 0: it is what one turn may cost";
            self.add(&["limits", "turn_usd"], what);
        }
        taken
    }

    fn at_least_one(&mut self, path: &[&str], count: Count) -> u64 {
        if count.0 == 0 {
            self.add(path, "must be at least 1");
        }
        count.0
    }

    fn dollars(&mut self, path: &[&str], amount: Dollars) -> Usd {
        self.amount(path, amount.0);
        let taken = Usd::from_dollars(amount.0);
        if amount.0 > 0.0 && taken == Usd::ZERO {
            self.add(
                path,
                "is less than a millionth of a dollar, which counts as nothing",
            );
        }
        taken
    }

    fn amount(&mut self, path: &[&str], dollars: f64) -> f64 {
        if !dollars.is_finite() || dollars < 0.0 {
            self.add(path, format!("must be 0 or more dollars, not {dollars}"));
        } else if dollars > MOST_DOLLARS {
            self.add(
                path,
                format!("must be at most {MOST_DOLLARS} dollars, not {dollars:e}"),
            );
        }
        dollars
    }

    fn agent(&mut self) -> AgentRules {
        let agent = &self.config.agent;
        if agent.command.trim().is_empty() {
            let what = "must name the agent's program, such as \"claude\"";
            self.add(&["agent", "command"], what);
        }
        self.without_nul(&["agent", "command"], &agent.command);
        let prompt = agent.system_prompt.as_deref().unwrap_or_default();
        self.without_nul(&["agent", "system_prompt"], prompt);
        AgentRules {
            command: agent.command.clone(),
            tools: self.words(&["agent", "tools"], &agent.tools.0),
            max_turns: {
                let most = self.at_least_one(&["agent", "max_turns"], agent.max_turns);
                u32::try_from(most).unwrap_or(u32::MAX)
            },
            confine: agent.confine == sections::Confine::Required,
            questions: agent.questions.0,
            deny_read: self.deny_read(),
            system_prompt: agent.system_prompt.clone(),
            env: self.agent_environment(),
        }
    }

    fn deny_read(&mut self) -> Vec<String> {
        let rules = &self.config.agent.deny_read.0;
        for rule in rules {
            if !(rule.starts_with("~/") || rule.starts_with("//")) {
                let what = format!(
                    "holds {rule:?}: a rule begins with ~/ (the account's home) or // (the root)"
                );
                self.add(&["agent", "deny_read"], what);
            }
            self.without_nul(&["agent", "deny_read"], rule);
        }
        rules.clone()
    }

    fn agent_environment(&mut self) -> Vec<(String, String)> {
        for (name, value) in &self.config.agent.env {
            let path = ["agent", "env", name];
            self.without_nul(&path, value);
            let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !plain || name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
                self.add(&path, "must be a variable's name: letters, digits and _");
            } else if OWN_VARIABLES.contains(&name.as_str())
                || name.starts_with("INNKEEPER_")
                || name.starts_with("LC_INN_")
            {
                self.add(&path, "is set by the bot itself: remove it");
            }
        }
        let env = &self.config.agent.env;
        env.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    fn shared_skills(&mut self) -> Vec<PathBuf> {
        for skills in &self.config.agent.shared_skills.0 {
            if !skills.is_dir() {
                let what = format!(
                    "names {}, which is no directory on this machine",
                    skills.display()
                );
                self.add(&["agent", "shared_skills"], what);
            }
        }
        self.config.agent.shared_skills.0.clone()
    }

    fn sandbox(&mut self) -> SandboxSettings {
        let sandbox = &self.config.sandbox;
        if !sandbox.workdir.contains("{chat}")
            || !(sandbox.workdir.starts_with("~/") || sandbox.workdir.starts_with('/'))
            || sandbox.workdir.split('/').any(|part| part == "..")
        {
            let what = "must begin with ~/ or / and hold {chat}, without ..: each chat has a directory of its own";
            self.add(&["sandbox", "workdir"], what);
        }
        self.without_nul(&["sandbox", "workdir"], &sandbox.workdir);
        let drop_dir = sandbox.drop_dir.as_deref().unwrap_or_default();
        self.without_nul(&["sandbox", "drop_dir"], drop_dir);
        if let Some(place) = sandbox
            .drop_dir
            .as_deref()
            .filter(|place| !place.starts_with('/'))
        {
            let what = format!("must be an absolute path in the sandbox, not {place:?}");
            self.add(&["sandbox", "drop_dir"], what);
        }
        let days = self.at_least_one(&["sandbox", "keep_days"], sandbox.keep_days);
        SandboxSettings {
            backend: self.backend(),
            account: match sandbox.account {
                sections::Account::Project => AccountPer::Project,
                sections::Account::Guest => AccountPer::Guest,
            },
            workdir: sandbox.workdir.clone(),
            drop_dir: sandbox.drop_dir.clone(),
            keep: Duration::from_secs(days.saturating_mul(24 * 60 * 60)),
        }
    }

    fn backend(&mut self) -> Backend {
        let sandbox = &self.config.sandbox;
        match sandbox.backend {
            Some(sections::Backend::OpenTerminal) => self.open_terminal(),
            Some(sections::Backend::Local) => Backend::Local,
            None => {
                self.missing(&["sandbox", "backend"], "\"local\" or \"open-terminal\"");
                Backend::Local
            }
        }
    }

    fn open_terminal(&mut self) -> Backend {
        let sandbox = &self.config.sandbox;
        let url = match &sandbox.url {
            Some(url) => self.url(&["sandbox", "url"], url),
            None => {
                self.missing(
                    &["sandbox", "url"],
                    "the address of the open-terminal server",
                );
                String::new()
            }
        };
        let api_key = self
            .secret("sandbox", "api_key", &sandbox.api_key, &sandbox.api_key_file)
            .unwrap_or_else(|| {
                let what = "the open-terminal server's key, or api_key_file with the path of a file that holds it,";
                self.missing(&["sandbox", "api_key"], what);
                SecretString::from("")
            });
        Backend::OpenTerminal { url, api_key }
    }

    fn provider(&mut self) -> ProviderSettings {
        let provider = &self.config.provider;
        let meter_url = provider
            .meter_url
            .as_ref()
            .map(|url| self.url(&["provider", "meter_url"], url));
        ProviderSettings {
            base_url: self.url(&["provider", "base_url"], &provider.base_url),
            credential: self.credential(),
            meter_listen: self
                .address(&["provider", "meter_listen"], &provider.meter_listen)
                .unwrap_or(NOWHERE),
            meter_url,
            prices: self.prices(),
        }
    }

    fn credential(&mut self) -> Option<Credential> {
        let provider = &self.config.provider;
        let key = self.secret(
            "provider",
            "api_key",
            &provider.api_key,
            &provider.api_key_file,
        );
        let token = self.secret(
            "provider",
            "oauth_token",
            &provider.oauth_token,
            &provider.oauth_token_file,
        );
        if token.is_some() && self.config.agent.confine == sections::Confine::Off {
            let why = "cannot be used with agent.confine = \"off\": every command of the agent could read the token";
            self.add(&["provider", "oauth_token"], why.to_owned());
        }
        token
            .map(Credential::OauthToken)
            .or(key.map(Credential::ApiKey))
    }

    fn prices(&mut self) -> Vec<PriceOverride> {
        let prices = &self.config.provider.price;
        let mut taken: Vec<PriceOverride> = Vec::new();
        for (index, price) in prices.iter().enumerate() {
            let index = index.to_string();
            let path = |key| ["provider", "price", index.as_str(), key];
            self.words(&path("family"), std::slice::from_ref(&price.family));
            if taken.iter().any(|other| other.family == price.family) {
                self.add(
                    &path("family"),
                    format!("names {:?} a second time", price.family),
                );
            }
            taken.push(PriceOverride {
                family: price.family.clone(),
                input: self.amount(&path("input"), price.input.0),
                output: self.amount(&path("output"), price.output.0),
                cache_write: self.amount(&path("cache_write"), price.cache_write.0),
                cache_read: self.amount(&path("cache_read"), price.cache_read.0),
            });
        }
        taken
    }

    fn observe(&mut self) -> ObserveSettings {
        let listen = match self.config.observe.listen.as_str() {
            "off" => None,
            listen => self.address(&["observe", "listen"], listen),
        };
        ObserveSettings {
            listen,
            log: self.config.log_format(),
        }
    }

    fn address(&mut self, path: &[&str], text: &str) -> Option<SocketAddr> {
        let address = text.parse().ok();
        if address.is_none() {
            let what =
                format!("must be an address and a port such as \"127.0.0.1:9180\", not {text:?}");
            self.add(path, what);
        }
        address
    }

    /// Takes an address of the web, without a slash at the end. What stands before an `@` would be a secret in logs.
    fn url(&mut self, path: &[&str], text: &str) -> String {
        let uri: Option<http::Uri> = text.trim().parse().ok();
        let fits = uri.is_some_and(|uri| {
            let scheme = uri.scheme_str().unwrap_or_default();
            let authority = uri.authority().map_or("", |authority| authority.as_str());
            matches!(scheme, "http" | "https")
                && !authority.is_empty()
                && !authority.contains('@')
                && uri.query().is_none()
        });
        if !fits {
            let what = "must be an address that begins with http:// or https://, without user, password or query";
            self.add(path, what);
        }
        text.trim().trim_end_matches('/').to_owned()
    }

    /// Takes a secret from its key or from the file that the `_file` key names.
    fn secret(
        &mut self,
        section: &str,
        key: &str,
        value: &Option<Secret>,
        file: &Option<PathBuf>,
    ) -> Option<SecretString> {
        let file_key = format!("{key}_file");
        let secret = match (value, file) {
            (Some(_), Some(_)) => {
                let what = format!("and {section}.{file_key} are both given: remove one of them");
                self.add(&[section, key], what);
                return Some(SecretString::from(""));
            }
            (Some(value), None) => {
                self.note_secret_in_configuration(&format!("{section}.{key}"));
                value.0.clone()
            }
            (None, Some(file)) => self.secret_file(&[section, &file_key], file)?,
            (None, None) => return None,
        };
        let text = secret.expose_secret();
        if text.is_empty() || !text.chars().all(|c| c.is_ascii_graphic()) {
            let what = "must be one word of plain letters, digits and signs: it is empty, or holds spaces or line breaks";
            let key = if value.is_some() { key } else { &file_key };
            self.add(&[section, key], what);
        }
        Some(secret)
    }

    /// Reads a secret; an unreadable file is a fault, and its secret counts as given.
    fn secret_file(&mut self, path: &[&str], file: &Path) -> Option<SecretString> {
        self.secret_files.push(file.to_owned());
        match std::fs::read_to_string(file) {
            Ok(text) => Some(SecretString::from(text.trim_end_matches(['\r', '\n']))),
            Err(error) => {
                let shown = file.display();
                let what = match error.kind() {
                    ErrorKind::NotFound => {
                        format!(
                            "names {shown}, which does not exist: write the secret into {shown}"
                        )
                    }
                    _ => format!("names {shown}, which cannot be read: {error}"),
                };
                self.add(path, what);
                Some(SecretString::from("unreadable"))
            }
        }
    }

    /// Remembers that the configuration's own file holds a secret.
    fn note_secret_in_configuration(&mut self, key: &str) {
        let metadata = self.config.figment.find_metadata(key);
        let given_here = metadata.is_none_or(|metadata| metadata.name != ENVIRONMENT);
        if given_here && !self.secret_files.contains(&self.config.file) {
            self.secret_files.push(self.config.file.clone());
        }
    }
}

/// Returns where a secret is given, for people: its key, or its file and the key that names it.
fn secret_place(key: &str, file: &Option<PathBuf>) -> String {
    match file {
        Some(file) => format!("{} ({key}_file)", file.display()),
        None => key.to_owned(),
    }
}

fn ids<T>(ids: &[Id], name: fn(u64) -> T) -> Vec<T> {
    ids.iter().map(|id| name(id.0)).collect()
}
