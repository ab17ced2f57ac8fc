//! Asks everything that `innkeeper check` looks at: store, sandbox, agent, Discord.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::Value;

use crate::discord::{Discord, RestError};
use crate::domain::ids::AccountId;
use crate::domain::project::{Project, Workspace};
use crate::driver::gate;
use crate::meter::{self, Greeting};
use crate::sandbox::{Confinement, Exec, Probe, Sandbox, SandboxError, shell};
use crate::store::{Store, StoreError};

use super::build;
use super::check::{self, Answer, Area, DiscordAnswers, Finding, SessionStarts};
use super::cli::Exit;
use super::commands::{self, Unkept};
use super::config::{AccountPer, Backend, Credential, Settings};
use super::run;

/// The account in which the sandbox is tried; nobody's chat ever runs there.
const TRIAL: &str = "inncheck";

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Looks at everything. The order is that in which a person would mend things.
pub async fn everything(settings: &Settings) -> Vec<Finding> {
    let mut findings = check::configuration(settings);
    // Who knows already that a secret is none asks nobody with it.
    let is_sound = check::exit(&findings) == Exit::Done;
    findings.extend(secret_files(settings));
    findings.push(store(settings));
    findings.extend(sandbox(settings).await);
    if is_sound {
        findings.extend(provider(settings).await);
        findings.extend(discord(settings).await);
    }
    findings
}

fn secret_files(settings: &Settings) -> Vec<Finding> {
    let modes: Vec<_> = settings
        .secret_files
        .iter()
        .filter_map(|file| {
            let metadata = std::fs::metadata(file).ok()?;
            Some((file.clone(), metadata.permissions().mode()))
        })
        .collect();
    check::readable_secrets(&modes)
}

/// Asks the provider whether it takes the key; of a subscription's token it is not asked, since that is the agent's own.
async fn provider(settings: &Settings) -> Option<Finding> {
    let Some(Credential::ApiKey(key)) = &settings.provider.credential else {
        return None;
    };
    let asked = meter::greet(&settings.provider.base_url, key);
    let answer = match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(Greeting::Taken)) => Answer::Given(()),
        Ok(Ok(Greeting::Refused(status))) => Answer::Refused(status),
        Ok(Ok(Greeting::Away(why))) => Answer::Away(why),
        Ok(Err(error)) => Answer::Away(error.to_string()),
        Err(_) => Answer::Away(format!("it said nothing for {PATIENCE:?}")),
    };
    Some(check::provider_key(&answer, settings))
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
        Err(Unkept::Store(StoreError::InUse(_))) => Finding::ok(Area::Store, "in use, bot alive"),
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
            let mut findings = vec![Finding::ok(Area::Sandbox, works(settings, &probe))];
            findings.push(confinement(settings, &probe));
            findings.extend(plain_processes(settings));
            findings.push(agent(&*sandbox, &account, &command).await);
            findings.extend(folders(settings, &*sandbox).await);
            findings
        }
        Ok(Err(error)) => vec![no_sandbox(settings, &error)],
        Err(_) => vec![no_sandbox(settings, &SandboxError::Slow(PATIENCE))],
    }
}

fn works(settings: &Settings, probe: &Probe) -> String {
    match settings.sandbox.backend {
        Backend::OpenTerminal { .. } => format!(
            "the sandbox works; it was tried in the account {TRIAL}, whose home is {}",
            probe.home
        ),
        Backend::Local => format!(
            "the sandbox works; each account is a directory in {}",
            build::homes(&settings.store).display()
        ),
    }
}

/// Says what the sandbox on this machine does without.
fn plain_processes(settings: &Settings) -> Option<Finding> {
    if !matches!(settings.sandbox.backend, Backend::Local) {
        return None;
    }
    let mut command = settings.agent.command.clone();
    let missing = build::local(settings, &mut command).ok()?.describe()?;
    Some(Finding::warning(
        Area::Sandbox,
        missing,
        "run the bot as an ordinary user who may use bubblewrap; until then nothing but the agent's own confinement stands \
         between a turn and this machine's files",
    ))
}

fn no_sandbox(settings: &Settings, error: &SandboxError) -> Finding {
    let remedy = match (&settings.sandbox.backend, error) {
        (Backend::OpenTerminal { .. }, SandboxError::Refused(_)) => format!(
            "put the key that open-terminal was started with (OPEN_TERMINAL_API_KEY) into {}",
            settings.places.sandbox_key
        ),
        (Backend::OpenTerminal { .. }, _) => {
            "start open-terminal as root with OPEN_TERMINAL_MULTI_USER=true and USER=root, set sandbox.url to where it \
             listens, and look into its log"
                .to_owned()
        }
        (Backend::Local, _) => {
            "look at the directory beside the store: the bot must be able to write there".to_owned()
        }
    };
    Finding::fault(Area::Sandbox, Exit::Failed, error.to_string(), remedy)
}

fn confinement(settings: &Settings, probe: &Probe) -> Finding {
    match (&probe.confinement, settings.agent.confine) {
        (Confinement::Works, _) => Finding::ok(
            Area::Sandbox,
            "the agent's commands can be confined (bubblewrap was tried)",
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

/// Looks at what each project works on, as the account that will do it: its directory, the repository that it clones, the place
/// where chats have directories of their own.
async fn folders(settings: &Settings, sandbox: &dyn Sandbox) -> Vec<Finding> {
    let accounts = Accounts::of(settings);
    let mut findings = Vec::new();
    for project in &settings.catalogue.0 {
        let account = accounts.account(project);
        let place = &settings.sandbox.workdir;
        match &project.workspace {
            Workspace::InPlace { path } => {
                findings.extend(folder(sandbox, project, path, account).await);
            }
            Workspace::Scratch => findings.extend(ground(sandbox, project, place, account).await),
            Workspace::Clone { repo } => {
                findings.extend(repository(sandbox, project, repo, account.clone()).await);
                findings.extend(ground(sandbox, project, place, account).await);
            }
        }
    }
    findings
}

/// Says whether an account may make directories where a project's chats have theirs. In its own home it may.
async fn ground(
    sandbox: &dyn Sandbox,
    project: &Project,
    place: &str,
    account: Option<AccountId>,
) -> Option<Finding> {
    if place.starts_with("~/") {
        return None;
    }
    let slug = project.slug.as_str();
    let account = account.unwrap_or_else(|| AccountId(TRIAL.to_owned()));
    let exec = Exec {
        script: shell::script(
            "take PLACE\nuntil [ -e \"$PLACE\" ]; do PLACE=$(dirname \"$PLACE\"); done\n\
             [ -d \"$PLACE\" ] && [ -w \"$PLACE\" ] && [ -x \"$PLACE\" ]\n",
        ),
        vars: vec![("PLACE", shell::path(place).ok()?.into_bytes())],
        limit: PATIENCE,
        most: 4096,
    };
    match sandbox.exec(&account, exec).await {
        Ok(done) if done.code == 0 => None,
        Ok(_) => Some(Finding::warning(
            Area::Sandbox,
            format!(
                "chats of project {slug:?} work in {place}, which account {account} may not make: its turns will not start"
            ),
            "set sandbox.workdir to a place in which every account may write, such as ~/chat-{chat}",
        )),
        Err(error) => Some(not_looked_at(slug, &error)),
    }
}

/// Says whether an account can read the repository that a project clones.
async fn repository(
    sandbox: &dyn Sandbox,
    project: &Project,
    repo: &str,
    account: Option<AccountId>,
) -> Option<Finding> {
    let slug = project.slug.as_str();
    let known = account.is_some();
    let account = account.unwrap_or_else(|| AccountId(TRIAL.to_owned()));
    let exec = Exec {
        script: shell::script(
            "take REPO\nsaid=$(GIT_TERMINAL_PROMPT=0 git ls-remote --quiet -- \"$REPO\" HEAD 2>&1 >/dev/null) && exit 0\n\
             printf %s \"$said\" | tail -c 300\nexit 1\n",
        ),
        vars: vec![("REPO", repo.as_bytes().to_vec())],
        limit: PATIENCE,
        most: 4096,
    };
    match sandbox.exec(&account, exec).await {
        Ok(done) if done.code == 0 => Some(Finding::ok(
            Area::Sandbox,
            format!("project {slug:?} can be cloned"),
        )),
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.out);
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            Some(match known {
                true => Finding::warning(
                    Area::Sandbox,
                    format!(
                        "account {account} cannot clone project {slug:?}, so its turns will not start: {said}"
                    ),
                    "correct the project's `repo`, or give the account's own git a credential for it (~/.git-credentials, ~/.ssh)",
                ),
                false => Finding::warning(
                    Area::Sandbox,
                    format!("project {slug:?} cannot be cloned by every account: {said}"),
                    "correct the project's `repo`; if it needs a credential, set `account` in the project and give it to that account",
                ),
            })
        }
        Err(error) => Some(not_looked_at(slug, &error)),
    }
}

fn not_looked_at(slug: &str, error: &SandboxError) -> Finding {
    Finding::warning(
        Area::Sandbox,
        format!("what project {slug:?} works on could not be looked at: {error}"),
        "look at the sandbox first",
    )
}

/// What is known of the projects' accounts.
struct Accounts {
    by_project: bool,
    store: Option<Store>,
}

impl Accounts {
    fn of(settings: &Settings) -> Accounts {
        Accounts {
            by_project: settings.sandbox.account == AccountPer::Project,
            // In use: the bot is alive, and each turn looks for itself.
            store: commands::existing(&settings.store).ok(),
        }
    }

    /// Returns the account that a project's chats run as, if it can be known before a chat.
    fn account(&self, project: &Project) -> Option<AccountId> {
        if let Some(fixed) = &project.account {
            return Some(AccountId(fixed.clone()));
        }
        let store = self.store.as_ref().filter(|_| self.by_project)?;
        let kind = gate::account_kind(&project.slug);
        store.known_account(&kind).ok().flatten()
    }
}

/// Says whether a project's directory is there and may be written. Without an account of its own yet, only whether it is there.
async fn folder(
    sandbox: &dyn Sandbox,
    project: &Project,
    path: &str,
    account: Option<AccountId>,
) -> Option<Finding> {
    let slug = project.slug.as_str();
    let known = account.is_some();
    let account = account.unwrap_or_else(|| AccountId(TRIAL.to_owned()));
    let exec = Exec {
        script: shell::script(
            "take FOLDER\n[ -d \"$FOLDER\" ] || exit 10\n[ -w \"$FOLDER\" ] && [ -x \"$FOLDER\" ] || exit 11\n",
        ),
        vars: vec![("FOLDER", shell::path(path).ok()?.into_bytes())],
        limit: PATIENCE,
        most: 4096,
    };
    match sandbox.exec(&account, exec).await {
        Ok(done) if done.code == 0 => Some(Finding::ok(
            Area::Sandbox,
            format!("project {slug:?} lies in {path}"),
        )),
        Ok(done) if done.code == 11 && !known => Some(Finding::warning(
            Area::Sandbox,
            format!("project {slug:?} lies in {path}, which not every account may write"),
            "its account is made with its first chat: set `account` in the project and let that account write there",
        )),
        Ok(done) if done.code == 11 => Some(Finding::fault(
            Area::Sandbox,
            Exit::Failed,
            format!(
                "project {slug:?} lies in {path}, which account {account} may not write: its turns will not start"
            ),
            format!("let the account write there, for example: chown -R {account} {path}"),
        )),
        Ok(_) => Some(Finding::fault(
            Area::Sandbox,
            Exit::Failed,
            format!(
                "project {slug:?} lies in {path}, which account {account} does not find: its turns will not start"
            ),
            "make the directory in the sandbox, or set the project's path to where it is",
        )),
        Err(error) => Some(not_looked_at(slug, &error)),
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
        token_place: settings.places.token.clone(),
    }
}

fn given<T>(asked: Result<Value, RestError>, read: impl FnOnce(Value) -> T) -> Answer<T> {
    match asked {
        Ok(value) => Answer::Given(read(value)),
        Err(RestError::Refused { status, .. }) => Answer::Refused(status),
        Err(RestError::Away { why, .. }) => Answer::Away(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::samples::project;
    use crate::sandbox::local::{Local, LocalOptions};

    /// Returns what is found where a project is worked on so; the account is not known yet.
    async fn found(workspace: Workspace, place: &str) -> String {
        let home = tempfile::tempdir().unwrap();
        let options = LocalOptions {
            writable: vec![std::env::temp_dir()],
            ..LocalOptions::default()
        };
        let sandbox = Local::new(home.path().to_owned(), options).unwrap();
        let mut project = project("site");
        project.workspace = workspace;
        let found = match &project.workspace {
            Workspace::InPlace { path } => folder(&sandbox, &project, path, None).await,
            Workspace::Clone { repo } => repository(&sandbox, &project, repo, None).await,
            Workspace::Scratch => ground(&sandbox, &project, place, None).await,
        };
        found.map_or(String::new(), |finding| {
            format!("{}: {}", finding.state.word(), finding.what)
        })
    }

    #[tokio::test]
    async fn a_directory_that_is_missing_is_found() {
        let there = tempfile::tempdir().unwrap();
        let path = there.path().display().to_string();
        let in_place = |path: String| Workspace::InPlace { path };
        assert_eq!(
            found(in_place(path.clone()), "").await,
            format!("ok: project \"site\" lies in {path}")
        );
        let gone = format!("{path}/gone");
        let told = found(in_place(gone), "").await;
        assert!(
            told.starts_with("fault:") && told.contains("account inncheck does not find"),
            "{told}"
        );
    }

    #[tokio::test]
    async fn a_repository_that_cannot_be_cloned_is_found_with_what_git_says() {
        let there = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("git")
            .args(["init", "-q"])
            .current_dir(there.path())
            .status();
        assert!(made.unwrap().success());
        let repo = there.path().display().to_string();
        let clone = |repo: String| Workspace::Clone { repo };
        assert_eq!(
            found(clone(repo.clone()), "").await,
            "ok: project \"site\" can be cloned"
        );
        let told = found(clone(format!("{repo}/gone")), "").await;
        assert!(
            told.starts_with("warning: project \"site\" cannot be cloned by every account: fatal:"),
            "{told}"
        );
    }

    #[tokio::test]
    async fn a_place_where_no_chat_can_have_a_directory_is_found() {
        let there = tempfile::tempdir().unwrap();
        let place = format!("{}/a/{{chat}}", there.path().display());
        assert_eq!(found(Workspace::Scratch, &place).await, "");
        assert_eq!(found(Workspace::Scratch, "~/chat-{chat}").await, "");
        let told = found(Workspace::Scratch, "/dev/null/{chat}").await;
        assert!(
            told.starts_with("warning: chats of project \"site\" work in /dev/null/{chat}, which account inncheck may not make"),
            "{told}"
        );
    }
}
