//! `innkeeper demo`: stand-in, sandbox, agent and bot in one process, with no account anywhere; `innkeeper standin`: the
//! stand-in alone.

mod story;
mod transcript;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio_util::sync::CancellationToken;

use crate::domain::grant::{Grant, Level, Subject};
use crate::domain::guest::Guest;
use crate::domain::ids::MemberId;
use crate::domain::money::Usd;
use crate::driver::clock::{Clock as _, SystemClock};
use crate::standin::{Standin, World};
use crate::store::Store;

use super::cli::{DemoAgent, DemoArgs, Exit, StandinArgs};
use super::commands::{complain, failed, log, on_runtime, say};
use super::config::{Config, Settings, Sources};
use super::run;

/// What the demo's guests may spend in a month.
const BUDGET: Usd = Usd(5_000_000);

/// How long the bot may take to close.
const CLOSING: Duration = Duration::from_secs(10);

/// Serves the stand-in alone until it is stopped.
pub fn standin(args: StandinArgs) -> Exit {
    let world = match &args.world {
        None => Ok(World::demo()),
        Some(file) => fs::read_to_string(file)
            .map_err(|error| format!("could not read {}: {error}", file.display()))
            .and_then(|text| {
                World::from_json(&text).map_err(|error| format!("{}: {error}", file.display()))
            }),
    };
    let world = match world {
        Ok(world) => world,
        Err(what) => {
            complain(&what);
            return Exit::Unusable;
        }
    };
    let served = on_runtime(async {
        let token = world.bot_token().to_owned();
        let standin = Standin::start(args.listen, world)
            .await
            .with_context(|| format!("could not listen on {}", args.listen))?;
        say(&format!(
            "listening on {}\nthe bot's token is {token}\n",
            standin.url()
        ));
        tokio::signal::ctrl_c()
            .await
            .context("could not wait for the end")?;
        standin.stop().await;
        Ok(())
    });
    ended(served)
}

/// Runs the demo: for as long as people like, or one built-in story with `--once`.
pub fn demo(args: DemoArgs) -> Exit {
    ended(on_runtime(play(args)))
}

fn ended(outcome: std::io::Result<anyhow::Result<()>>) -> Exit {
    match outcome.map_err(anyhow::Error::from).flatten() {
        Ok(()) => Exit::Done,
        Err(error) => failed(&error),
    }
}

async fn play(args: DemoArgs) -> anyhow::Result<()> {
    let place = Place::make(args.data.as_deref())?;
    let world = World::demo();
    let people = People::of(&world)?;
    let token = world.bot_token().to_owned();
    let guild = world.guild_id();
    let standin = Standin::start(args.listen, world)
        .await
        .with_context(|| format!("could not listen on {}", args.listen))?;
    let settings = place.settings(&standin.url(), &token, guild, &people, args.agent)?;
    log(&settings)?;
    let store = Store::open(&settings.store)?;
    let books = store.clone();
    furnish(&store, &people).await?;
    let cancel = CancellationToken::new();
    let bot = tokio::spawn({
        let (settings, cancel) = (settings.clone(), cancel.clone());
        async move { run::serve(&settings, store, cancel).await }
    });
    let homes = place.homes();
    let outcome = if args.once {
        tokio::select! {
            told = story::tell(&standin, &books, &homes) => told,
            // A bot that ends in the middle of the story has a reason.
            ended = wait_for(&cancel, &bot) => Err(ended),
        }
    } else {
        say(&format!(
            "innkeeper demo: open {} in a browser; as ada, in #data, write: @innkeeper plot something\n",
            standin.url()
        ));
        tokio::signal::ctrl_c()
            .await
            .context("could not wait for the end")
    };
    cancel.cancel();
    let closed = tokio::time::timeout(CLOSING, bot)
        .await
        .context("the bot did not close in time")?;
    standin.stop().await;
    outcome?;
    closed.context("the bot's task failed")??;
    Ok(())
}

async fn wait_for<T>(
    cancel: &CancellationToken,
    bot: &tokio::task::JoinHandle<T>,
) -> anyhow::Error {
    loop {
        if bot.is_finished() {
            return anyhow!("the bot ended: its reason is in the log");
        }
        tokio::select! {
            () = cancel.cancelled() => return anyhow!("the demo was cancelled"),
            () = tokio::time::sleep(Duration::from_millis(200)) => {}
        }
    }
}

/// The demo's people, by their ids in the stand-in.
#[derive(Clone, Copy, Debug)]
struct People {
    olga: MemberId,
    ada: MemberId,
    ben: MemberId,
}

impl People {
    fn of(world: &World) -> anyhow::Result<People> {
        let named = |name: &str| {
            world
                .member_id(name)
                .map(MemberId)
                .with_context(|| format!("the demo's world has no {name}"))
        };
        Ok(People {
            olga: named("olga")?,
            ada: named("ada")?,
            ben: named("ben")?,
        })
    }
}

/// Gives the demo's guests what they hold: `chat` on `site`, and five dollars a month.
async fn furnish(store: &Store, people: &People) -> anyhow::Result<()> {
    for member in [people.ada, people.ben] {
        store.put_guest(&Guest {
            budget: Some(BUDGET),
            ..Guest::new(member)
        })?;
        store.give(&Grant {
            subject: Subject::Member(member),
            project: "site".parse()?,
            level: Level::Chat,
            by: people.olga,
            at: SystemClock.now(),
            until: None,
        })?;
    }
    Ok(store.flush().await?)
}

/// Where the demo keeps its things.
#[derive(Debug)]
struct Place {
    directory: PathBuf,
    /// Removed at the end, if nobody asked for it.
    temporary: bool,
}

impl Place {
    fn make(asked: Option<&Path>) -> anyhow::Result<Place> {
        let (directory, temporary) = match asked {
            Some(directory) => (directory.to_owned(), false),
            None => (
                std::env::temp_dir().join(format!("innkeeper-demo-{}", uuid::Uuid::new_v4())),
                true,
            ),
        };
        fs::create_dir_all(&directory)
            .with_context(|| format!("could not make {}", directory.display()))?;
        Ok(Place {
            directory: directory.canonicalize()?,
            temporary,
        })
    }

    /// Returns where the sandbox accounts live.
    fn homes(&self) -> PathBuf {
        self.directory.join("sandbox")
    }

    /// Writes a configuration and reads it, as a server owner's would be.
    fn settings(
        &self,
        url: &str,
        token: &str,
        guild: u64,
        people: &People,
        agent: DemoAgent,
    ) -> anyhow::Result<Settings> {
        let (command, confine) = match agent {
            DemoAgent::Scripted => (self.scripted()?.display().to_string(), "off"),
            DemoAgent::Claude => ("claude".to_owned(), "required"),
        };
        let text = format!(
            "[discord]\ntoken = {token:?}\napi_url = {url:?}\nguilds = [\"{guild}\"]\nowners = [\"{}\"]\n\n\
             [store]\npath = {:?}\n\n[sandbox]\nbackend = \"local\"\n\n\
             [agent]\ncommand = {command:?}\nconfine = {confine:?}\nmodels = [\"haiku\", \"sonnet\"]\n\n\
             [limits]\nrunning_per_guest = 2\n\n\
             [[project]]\nslug = \"site\"\ntitle = \"Site\"\n\n[[project]]\nslug = \"notes\"\ntitle = \"Notes\"\n",
            people.olga,
            self.directory.join("store").display().to_string(),
        );
        let file = self.directory.join("innkeeper.toml");
        fs::write(&file, text).with_context(|| format!("could not write {}", file.display()))?;
        Config::read(&Sources::of_process(Some(file)))
            .and_then(|config| config.settings())
            .map_err(|faults| anyhow!("the demo's configuration does not hold: {faults}"))
    }

    /// Makes a program of the hidden subcommand: the agent is started by its path, as the real one is.
    fn scripted(&self) -> anyhow::Result<PathBuf> {
        let program = std::env::current_exe().context("could not find this program")?;
        let script = self.directory.join("scripted-agent");
        fs::write(
            &script,
            format!(
                "#!/bin/sh\nexec '{}' scripted-agent \"$@\"\n",
                program.display()
            ),
        )?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        Ok(script)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.temporary {
            // Left-overs in the temporary directory are no reason to fail.
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}
