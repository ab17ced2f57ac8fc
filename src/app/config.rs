//! The configuration: one file, the environment over it, and what both mean in the words of the other rooms.
//!
//! It is read in two steps. [`Config::read`] takes the shapes: known sections, known keys, values of the right kind.
//! [`Config::settings`] takes the sense. Each step reports all the faults that it can see, as sentences.
//! A secret is never part of a fault, and never shows in `Debug`.

mod env_file;
mod examine;
mod fault;
mod paths;
mod sections;
mod settings;
mod values;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use figment::providers::{Format, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use secrecy::SecretString;
use serde::de::DeserializeOwned;

pub use fault::{Fault, Faults};
pub use settings::{
    AccountPer, Backend, Credential, DiscordSettings, LogFormat, ObserveSettings, PriceOverride,
    ProviderSettings, SandboxSettings, SecretPlaces, Settings,
};

use sections::{
    Agent, Discord, Limits, Observe, Project, Provider as ProviderSection, Sandbox, Store, Time,
};

/// The file that is read when no other is named, seen from the working directory.
pub const DEFAULT_FILE: &str = "config/innkeeper.toml";

/// What every variable of the configuration begins with; section and key follow, joined by two underscores.
const PREFIX: &str = "INNKEEPER_";

/// The name under which figment remembers that a value came from the environment.
const ENVIRONMENT: &str = "environment";

/// Where a configuration comes from, as values, so that reading one can be tried without a process of its own.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file.
    pub file: PathBuf,
    /// Whether somebody named the file: then it must exist.
    pub named: bool,
    /// Variables, name and value. Those that do not look like `INNKEEPER_SECTION__KEY`, and empty ones, say nothing.
    pub environment: Vec<(String, String)>,
    /// The home directory of whoever runs the bot: never a project.
    pub home: Option<PathBuf>,
}

impl Sources {
    /// Returns the sources of this process: the named file or else [`DEFAULT_FILE`], and the environment.
    pub fn of_process(file: Option<PathBuf>) -> Sources {
        let text = |word: OsString| word.to_string_lossy().into_owned();
        Sources {
            named: file.is_some(),
            file: file.unwrap_or_else(|| PathBuf::from(DEFAULT_FILE)),
            environment: std::env::vars_os()
                .map(|(name, value)| (text(name), text(value)))
                .filter(|(name, _)| name.starts_with(PREFIX))
                .collect(),
            home: std::env::var_os("HOME").map(PathBuf::from),
        }
    }
}

/// A configuration whose shapes are right; whether it makes sense is not yet known.
pub struct Config {
    figment: Figment,
    file: PathBuf,
    home: Option<PathBuf>,
    discord: Discord,
    store: Store,
    sandbox: Sandbox,
    agent: Agent,
    provider: ProviderSection,
    limits: Limits,
    time: Time,
    observe: Observe,
    projects: Vec<Project>,
}

impl std::fmt::Debug for Config {
    /// Shows only which file it is: figment keeps the text of every value, secrets included.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Reads file and environment. Faults: a named file that is missing, text that is no TOML, unknown sections and
    /// keys, values of the wrong kind (the first of each section). With them come those of the sections that could be read.
    pub fn read(sources: &Sources) -> Result<Config, Faults> {
        let file = &sources.file;
        if sources.named && !file.is_file() {
            return Err(Fault::file(file, "does not exist or is no file").into());
        }
        let mut figment = Figment::new();
        if file.exists() {
            figment = figment.merge(Toml::file_exact(file));
        }
        let figment = figment.merge(Environment(&sources.environment));
        let top = figment
            .find_value("")
            .map_err(|error| Faults(error.into_iter().map(|e| Fault::unread(file, &e)).collect()))?
            .into_dict()
            .unwrap_or_default();
        let unknown = top
            .keys()
            .filter_map(|name| fault::unknown_section(name, &figment, file));
        let slips = sources
            .environment
            .iter()
            .filter_map(|(name, _)| fault::single_underscore(name));
        let faults: Vec<Fault> = unknown.chain(slips).collect();
        Reader {
            figment: &figment,
            file,
            is_complete: faults.is_empty(),
            faults,
            unread: Vec::new(),
        }
        .config(sources)
    }

    /// Turns the configuration into what the other rooms work with, for everything that serves or examines.
    pub fn settings(&self) -> Result<Settings, Faults> {
        examine::Examination::new(self).settings()
    }

    /// Returns where the store lies.
    pub fn store_path(&self) -> Result<PathBuf, Faults> {
        examine::Examination::new(self).only_store()
    }

    /// Returns where the bot's token is given, for people.
    pub fn token_place(&self) -> String {
        examine::Examination::new(self).token_place()
    }

    /// Returns the bot's token.
    pub fn token(&self) -> Result<SecretString, Faults> {
        examine::Examination::new(self).only_token()
    }

    /// Returns how the log is written, which is needed before anything else can be reported.
    pub fn log_format(&self) -> LogFormat {
        match self.observe.log {
            sections::Log::Json => LogFormat::Json,
            sections::Log::Text => LogFormat::Text,
        }
    }
}

/// Takes the sections apart, each by itself, so that one fault does not hide another's.
struct Reader<'a> {
    figment: &'a Figment,
    file: &'a Path,
    faults: Vec<Fault>,
    /// Whether everything that was given stands in a section that is known.
    is_complete: bool,
    /// Sections that could not be read.
    unread: Vec<&'static str>,
}

impl Reader<'_> {
    fn config(mut self, sources: &Sources) -> Result<Config, Faults> {
        let config = Config {
            discord: self.section("discord"),
            store: self.section("store"),
            sandbox: self.section("sandbox"),
            agent: self.section("agent"),
            provider: self.section("provider"),
            limits: self.section("limits"),
            time: self.section("time"),
            observe: self.section("observe"),
            projects: self.section("project"),
            figment: self.figment.clone(),
            file: self.file.to_owned(),
            home: sources.home.clone(),
        };
        if self.faults.is_empty() {
            return Ok(config);
        }
        if self.is_complete {
            let others = examine::Examination::new(&config).faults_outside(&self.unread);
            self.faults.extend(others);
        }
        Err(Faults(self.faults))
    }

    fn section<T: DeserializeOwned + Default>(&mut self, name: &'static str) -> T {
        let Ok(value) = self.figment.find_value(name) else {
            return T::default();
        };
        T::deserialize(&value).unwrap_or_else(|error| {
            let faults = error
                .into_iter()
                .map(|error| Fault::shape(name, &error, self.figment, self.file));
            self.faults.extend(faults);
            self.unread.push(name);
            T::default()
        })
    }
}

/// The variables as a layer of the configuration. Values stay texts here: `007` may be a key, and what a key's text
/// means is the business of the key's type.
struct Environment<'a>(&'a [(String, String)]);

impl Provider for Environment<'_> {
    fn metadata(&self) -> Metadata {
        Metadata::named(ENVIRONMENT)
    }

    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        let mut top = Dict::new();
        for (name, value) in self.0.iter().filter(|(_, value)| !value.is_empty()) {
            if let Some(path) = path_of_variable(name) {
                insert(&mut top, &path, value);
            }
        }
        Ok(Map::from([(Profile::Default, top)]))
    }
}

/// Returns section, key and what may follow; the case of what follows is kept, since `agent.env` holds names.
fn path_of_variable(name: &str) -> Option<Vec<String>> {
    let (section, rest) = name.strip_prefix(PREFIX)?.split_once("__")?;
    let (key, inner) = match rest.split_once("__") {
        Some((key, inner)) => (key, Some(inner.to_owned())),
        None => (rest, None),
    };
    let path = [section.to_lowercase(), key.to_lowercase()];
    Some(path.into_iter().chain(inner).collect())
}

/// Returns the variable that gives this key.
fn variable_of_path(path: &[&str]) -> String {
    let upper = path.iter().take(2).map(|part| part.to_uppercase());
    let rest = path.iter().skip(2).map(|part| (*part).to_owned());
    format!(
        "{PREFIX}{}",
        upper.chain(rest).collect::<Vec<_>>().join("__")
    )
}

fn insert(dict: &mut Dict, path: &[String], text: &str) {
    match path {
        [] => {}
        [last] => {
            dict.insert(last.clone(), Value::from(text));
        }
        [first, rest @ ..] => {
            let mut inner = match dict.remove(first) {
                Some(Value::Dict(_, inner)) => inner,
                _ => Dict::new(),
            };
            insert(&mut inner, rest, text);
            dict.insert(first.clone(), Value::from(inner));
        }
    }
}

#[cfg(test)]
mod tests;
