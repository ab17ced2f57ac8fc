//! What the program was asked to do, and how it says how that ended.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;
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
    let token = Config::read(&Sources::of_process(args.config))?.token()?;
    Ok(match cli::invite(&token) {
        Some(address) => say(&format!("{address}\n")),
        None => {
            complain(
                "discord.token is no bot's token: copy it from the Developer Portal, page Bot",
            );
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

fn export(path: &Path, file: &Path) -> Result<String, StoreError> {
    let store = existing(path)?;
    let count = if file == Path::new("-") {
        store.export(BufWriter::new(io::stdout().lock()))?
    } else {
        let mut to = BufWriter::new(File::create(file)?);
        let count = store.export(&mut to)?;
        to.into_inner()
            .map_err(io::IntoInnerError::into_error)?
            .sync_all()?;
        count
    };
    Ok(format!("{count} records exported"))
}

fn import(path: &Path, file: &Path) -> Result<String, StoreError> {
    let count = if file == Path::new("-") {
        Store::import(path, io::stdin().lock())?
    } else {
        Store::import(path, BufReader::new(File::open(file)?))?
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
pub(super) fn existing(path: &Path) -> Result<Store, StoreError> {
    if path.exists() {
        return Store::open(path);
    }
    let what = format!("there is no store at {}", path.display());
    Err(StoreError::Disk(io::Error::new(
        io::ErrorKind::NotFound,
        what,
    )))
}

fn stored(error: &StoreError) -> Exit {
    complain(&error.to_string());
    match error {
        StoreError::InUse(_)
        | StoreError::Future { .. }
        | StoreError::Damaged(_)
        | StoreError::Unreadable { .. } => Exit::Store,
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
