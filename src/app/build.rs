//! Builds the house out of what was configured. Nothing else builds anything.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::ExposeSecret as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::Office;
use crate::domain::money::Usd;
use crate::domain::project::Workspace;
use crate::driver::clock::Clock;
use crate::driver::desk::Desk;
use crate::driver::house::{AccountBy, House};
use crate::driver::hub::Hub;
use crate::driver::live_message::Crowd;
use crate::driver::newest::Newest;
use crate::driver::ports::{Ports, Surface};
use crate::driver::produced::Produced;
use crate::driver::provider::{self, Provider, ProviderError, Told};
use crate::driver::slots::Slots;
use crate::driver::turn_directory::TurnDirectory;
use crate::meter::{self, Meter, MeterError, Price, Prices};
use crate::sandbox::local::{Local, LocalOptions};
use crate::sandbox::open_terminal::OpenTerminal;
use crate::sandbox::{Sandbox, SandboxError};
use crate::store::{Store, StoreError};
use crate::turn::facts::Secrets;

use super::cli::Exit;
use super::config::{AccountPer, Backend, Credential, ProviderSettings, Settings};
use super::shared_skills;

/// Why the house cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sandbox cannot be set up.
    #[error("the sandbox cannot be set up: {0}")]
    Sandbox(#[from] SandboxError),
    /// Shared skills cannot be read.
    #[error("agent.shared_skills cannot be read: {0}")]
    Skills(String),
    /// The meter cannot be started.
    #[error("the meter cannot be started: {0}")]
    Meter(#[from] MeterError),
}

impl BuildError {
    /// Returns the code that the program ends with.
    pub fn exit(&self) -> Exit {
        match self {
            // Full now, and perhaps not at the next start.
            BuildError::Store(StoreError::Disk(_)) => Exit::Failed,
            BuildError::Store(_) => Exit::Store,
            BuildError::Sandbox(_) | BuildError::Skills(_) | BuildError::Meter(_) => Exit::Unusable,
        }
    }
}

/// The house with its two doors: the desk for requests, the office for everything about people and money.
#[derive(Clone, Debug)]
pub struct Built {
    /// The house.
    pub house: Arc<House>,
    /// Takes requests.
    pub desk: Desk,
    /// Takes commands about grants and money.
    pub office: Office,
}

/// Builds everything but Discord, which is given as `surface`.
pub async fn build(
    settings: &Settings,
    store: Store,
    surface: Arc<dyn Surface>,
    clock: Arc<dyn Clock>,
    tracker: TaskTracker,
    cancel: CancellationToken,
) -> Result<Built, BuildError> {
    let mut agent = settings.agent.clone();
    let sandbox = sandbox(settings, &mut agent.command)?;
    let (provider, told) = provider(&settings.provider, &store, &cancel).await?;
    provider.reopen(&store).map_err(|error| match error {
        ProviderError::Store(error) => BuildError::Store(error),
        ProviderError::Meter(error) => BuildError::Meter(error),
    })?;
    let limits = &settings.rules.limits;
    let rules = Arc::new(settings.rules.clone());
    let catalogue = Arc::new(settings.catalogue.clone());
    let house = Arc::new(House {
        ports: Ports {
            surface: surface.clone(),
            sandbox: sandbox.clone(),
            clock: clock.clone(),
        },
        store: store.clone(),
        rules: rules.clone(),
        catalogue: catalogue.clone(),
        agent,
        workdir: settings.sandbox.workdir.clone(),
        account_by: match settings.sandbox.account {
            AccountPer::Project => AccountBy::Project,
            AccountPer::Guest => AccountBy::Guest,
        },
        provider,
        prices: prices(&settings.provider),
        ship_env: settings.ship_env.iter().cloned().collect(),
        skills: shared_skills::read(&settings.shared_skills).map_err(BuildError::Skills)?,
        keep: settings.sandbox.keep,
        turns: TurnDirectory::new(sandbox.clone()),
        produced: Produced::new(sandbox.clone()),
        secrets: Secrets(
            settings
                .secrets()
                .iter()
                .map(|secret| secret.expose_secret().to_owned())
                .collect(),
        ),
        hub: Hub::default(),
        slots: Slots::new(limits.running, limits.running_per_guest),
        crowd: Crowd::default(),
        newest: Newest::default(),
        tracker,
        cancel,
    });
    if let Some(told) = told {
        house
            .tracker
            .spawn(provider::keep_counts(house.clone(), told));
    }
    let office = Office {
        store,
        rules,
        catalogue,
        clock,
        house: house.clone(),
        sandbox,
    };
    Ok(Built {
        desk: Desk::new(house.clone()),
        office,
        house,
    })
}

/// Sets the sandbox up. For one on this machine, the agent's program is looked up here, since only what is named is inside.
pub fn sandbox(
    settings: &Settings,
    command: &mut String,
) -> Result<Arc<dyn Sandbox>, SandboxError> {
    match &settings.sandbox.backend {
        Backend::OpenTerminal { url, api_key } => {
            Ok(Arc::new(OpenTerminal::new(url, api_key.clone())?))
        }
        Backend::Local => {
            let local = local(settings, command)?;
            if let Some(line) = local.describe() {
                tracing::warn!("{line}");
            }
            Ok(Arc::new(local))
        }
    }
}

/// Returns the sandbox on this machine.
pub fn local(settings: &Settings, command: &mut String) -> Result<Local, SandboxError> {
    let mut readable = Vec::new();
    if let Some(program) = find_program(command, std::env::var_os("PATH")) {
        readable.push(program.clone());
        // What a link points to has to be there as well.
        readable.extend(program.canonicalize());
        *command = program.display().to_string();
    }
    let in_place = settings
        .catalogue
        .0
        .iter()
        .filter_map(|project| match &project.workspace {
            Workspace::InPlace { path } => Some(PathBuf::from(path)),
            Workspace::Scratch | Workspace::Clone { .. } => None,
        });
    Local::new(
        homes(&settings.store),
        LocalOptions {
            writable: in_place.collect(),
            readable,
        },
    )
}

/// The homes of local accounts lie beside the store.
pub fn homes(store: &Path) -> PathBuf {
    store.parent().unwrap_or(Path::new(".")).join("sandbox")
}

/// Returns where a program is: as it stands if it names a place, else by the search path.
pub fn find_program(command: &str, path: Option<std::ffi::OsString>) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(PathBuf::from(command)).filter(|program| program.is_file());
    }
    std::env::split_paths(&path?)
        .map(|directory| directory.join(command))
        .find(|program| program.is_file())
}

/// The name of the fact that tells where the meter listened.
const METER_FACT: &str = "meter_address";

async fn provider(
    settings: &ProviderSettings,
    store: &Store,
    cancel: &CancellationToken,
) -> Result<(Provider, Option<Told>), BuildError> {
    let key = match &settings.credential {
        None => return Ok((Provider::Own, None)),
        Some(Credential::OauthToken(token)) => {
            let base_url =
                (settings.base_url != DEFAULT_PROVIDER).then(|| settings.base_url.clone());
            return Ok((
                Provider::Subscription {
                    token: token.clone(),
                    base_url,
                },
                None,
            ));
        }
        Some(Credential::ApiKey(key)) => key.clone(),
    };
    let (sender, events) = mpsc::unbounded_channel();
    let tasks = TaskTracker::new();
    let listen = listen_again(settings.meter_listen, store)?;
    let start = async |listen| {
        let upstream = settings
            .base_url
            .parse()
            .map_err(|_| MeterError::Upstream(settings.base_url.clone()))?;
        let settings = meter::Settings {
            listen,
            upstream,
            key: key.clone(),
            prices: prices(settings),
        };
        Meter::start(settings, tasks.clone(), cancel.clone(), sender.clone()).await
    };
    let meter = match start(listen).await {
        // The port of the last time is taken; runs of that time cannot reach the provider any more, new ones can.
        Err(MeterError::Listen { .. }) if listen != settings.meter_listen => {
            start(settings.meter_listen).await?
        }
        started => started?,
    };
    store.put_fact(METER_FACT, &meter.address().to_string())?;
    let url = settings
        .meter_url
        .clone()
        .unwrap_or_else(|| format!("http://{}", meter.address()));
    Ok((
        Provider::Metered { meter, url },
        Some(Told { events, tasks }),
    ))
}

/// Runs that outlived the last process know the meter by its address: where the port may be chosen, the same one is taken.
fn listen_again(configured: SocketAddr, store: &Store) -> Result<SocketAddr, StoreError> {
    let last = store
        .fact(METER_FACT)?
        .and_then(|address| address.parse::<SocketAddr>().ok());
    Ok(match last {
        Some(last) if configured.port() == 0 && last.ip() == configured.ip() => last,
        _ => configured,
    })
}

/// Discord itself.
pub const DEFAULT_DISCORD: &str = "https://discord.com";

/// The provider that the agent knows by itself.
pub const DEFAULT_PROVIDER: &str = "https://api.anthropic.com";

fn prices(settings: &ProviderSettings) -> Prices {
    Prices::default().with(settings.prices.iter().map(|price| {
        let usd = Usd::from_dollars;
        let configured = Price {
            input: usd(price.input),
            output: usd(price.output),
            cache_write: usd(price.cache_write),
            // Writes that last an hour have no key of their own: they cost as much more than those of five minutes as they
            // do by the provider's list, where these cost 1.25 and those 2 times the input.
            cache_write_1h: usd(price.cache_write * 1.6),
            cache_read: usd(price.cache_read),
        };
        (price.family.clone(), configured)
    }))
}
