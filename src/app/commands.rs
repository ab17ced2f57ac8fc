//! What the program was asked to do, and how it says how that ended.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::store::{Store, StoreError};

use super::check;
use super::cli::{self, CheckArgs, Command, ConfigArgs, Exit, StoreArgs, StoreVerb};
use super::config::{Config, Faults, Settings, Sources};
use super::examine;
use super::run;
use super::scripted;
use super::telemetry::{self, Redactor};

/// Does what was asked for.
pub fn execute(command: Command) -> ExitCode {
    match command {
        Command::Run(args) => serve(args).into(),
        Command::Check(args) => examine(args).into(),
        Command::Invite(args) => invite(args)
            .unwrap_or_else(|faults| unusable(&faults))
            .into(),
        Command::Store(args) => keep(args).into(),
        #[cfg(feature = "standin")]
        Command::Demo(args) => super::demo::demo(args).into(),
        #[cfg(feature = "standin")]
        Command::Standin(args) => super::demo::standin(args).into(),
        Command::ScriptedAgent { words } => scripted::main(words),
    }
}

fn serve(args: ConfigArgs) -> Exit {
    let settings = match read(args) {
        Ok(settings) => settings,
        Err(faults) => return unusable(&faults),
    };
    if let Err(error) = log(&settings) {
        return failed(&error);
    }
    match on_runtime(run::run(&settings)) {
        Ok(Ok(())) => Exit::Done,
        Ok(Err(error)) => {
            complain(&error.to_string());
            error.exit()
        }
        Err(error) => failed(&error.into()),
    }
}

fn read(args: ConfigArgs) -> Result<Settings, Faults> {
    Config::read(&Sources::of_process(args.config))?.settings()
}

/// Starts the log, in which no configured secret shows.
pub(super) fn log(settings: &Settings) -> anyhow::Result<()> {
    telemetry::start(settings.observe.log, Redactor::new(settings.secrets())?)
}

/// Runs a future to its end on a runtime of its own. What is left of it afterwards is not waited for.
pub(super) fn on_runtime<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(result)
}

fn examine(args: CheckArgs) -> Exit {
    let findings = match read(args.config) {
        Ok(settings) => match on_runtime(examine::everything(&settings)) {
            Ok(findings) => findings,
            Err(error) => return failed(&error.into()),
        },
        Err(faults) => check::broken_configuration(&faults),
    };
    let text = if args.json {
        check::to_json(&findings)
    } else {
        Ok(check::to_text(&findings))
    };
    match text {
        Ok(text) => match say(&text) {
            Exit::Done => check::exit(&findings),
            exit => exit,
        },
        Err(error) => failed(&error.into()),
    }
}

fn invite(args: ConfigArgs) -> Result<Exit, Faults> {
    let config = Config::read(&Sources::of_process(args.config))?;
    let token = config.token()?;
    Ok(match cli::invite(&token) {
        Some(address) => say(&format!("{address}\n")),
        None => {
            complain(&cli::no_token(&config.token_place()));
            Exit::Unusable
        }
    })
}

fn keep(args: StoreArgs) -> Exit {
    let config = Config::read(&Sources::of_process(args.config));
    let path = match config.and_then(|config| config.store_path()) {
        Ok(path) => path,
        Err(faults) => return unusable(&faults),
    };
    let done = match &args.verb {
        StoreVerb::Export { file } => export(&path, file),
        StoreVerb::Import { file } => import(&path, file),
        StoreVerb::Check => return check_store(&path),
    };
    match done {
        Ok(line) => {
            complain(&line);
            Exit::Done
        }
        Err(error) => stored(&error),
    }
}

/// Why the store could not be carried in or out.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unkept {
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is none.
    #[error("there is no store at {}", .0.display())]
    NoStore(PathBuf),
    /// The file that it is carried from.
    #[error("{} cannot be read: {}", .0.display(), .1)]
    From(PathBuf, io::Error),
    /// The file that it is carried to.
    #[error("{} cannot be written: {}", .0.display(), .1)]
    To(PathBuf, io::Error),
}

fn export(path: &Path, file: &Path) -> Result<String, Unkept> {
    let store = existing(path)?;
    let count = if file == Path::new("-") {
        store.export(BufWriter::new(io::stdout().lock()))?
    } else {
        let failed = |error| Unkept::To(file.to_owned(), error);
        let mut to = BufWriter::new(File::create(file).map_err(failed)?);
        let count = store.export(&mut to)?;
        to.into_inner()
            .map_err(io::IntoInnerError::into_error)
            .and_then(|file| file.sync_all())
            .map_err(failed)?;
        count
    };
    Ok(format!("{count} records exported"))
}

fn import(path: &Path, file: &Path) -> Result<String, Unkept> {
    let count = if file == Path::new("-") {
        Store::import(path, io::stdin().lock())?
    } else {
        let from = File::open(file).map_err(|error| Unkept::From(file.to_owned(), error))?;
        Store::import(path, BufReader::new(from))?
    };
    Ok(format!("{count} records imported"))
}

fn check_store(path: &Path) -> Exit {
    let store = match existing(path) {
        Ok(store) => store,
        Err(error) => return stored(&error),
    };
    let faults = store.check();
    if faults.is_empty() {
        return say("the store is in order\n");
    }
    say(&format!("{}\n", faults.join("\n")));
    Exit::Store
}

/// Opens a store that is there: to look at one that is not would make it.
pub(super) fn existing(path: &Path) -> Result<Store, Unkept> {
    if path.exists() {
        return Ok(Store::open(path)?);
    }
    Err(Unkept::NoStore(path.to_owned()))
}

fn stored(error: &Unkept) -> Exit {
    complain(&error.to_string());
    match error {
        Unkept::Store(
            StoreError::InUse(_)
            | StoreError::Future { .. }
            | StoreError::Damaged(_)
            | StoreError::Unreadable { .. },
        ) => Exit::Store,
        _ => Exit::Failed,
    }
}

fn unusable(faults: &Faults) -> Exit {
    complain(&faults.to_string());
    Exit::Unusable
}

pub(super) fn failed(error: &anyhow::Error) -> Exit {
    complain(&format!("{error:#}"));
    Exit::Failed
}

/// Writes to standard output; a reader that has gone away is a failure, not a panic.
pub(super) fn say(text: &str) -> Exit {
    match io::stdout()
        .write_all(text.as_bytes())
        .and_then(|()| io::stdout().flush())
    {
        Ok(()) => Exit::Done,
        Err(_) => Exit::Failed,
    }
}

/// Writes to standard error; when even that is gone, nobody is there to be told.
pub(super) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
