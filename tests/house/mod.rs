//! What the stories share: the stand-in for Discord, a store in a folder of its own, the bot in this process, a scripted
//! agent, and people who act.
//!
//! A story waits for what it wants to see, with [`House::until`], never for time. Houses share nothing, so stories can run
//! side by side; each needs a runtime of one thread (`#[tokio::test]` gives one), by which its log is told from others'.

#![allow(dead_code, reason = "each test program needs a part of it")]

mod view;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use innkeeper::app::config::{Config, Settings, Sources};
use innkeeper::app::run::{self, RunError};
use innkeeper::domain::grant::{Grant, Level, Subject};
use innkeeper::domain::guest::Guest;
use innkeeper::domain::ids::{MemberId, ThreadId, TurnId};
use innkeeper::domain::ledger::Entry;
use innkeeper::domain::money::Usd;
use innkeeper::domain::time::Moment;
use innkeeper::domain::turn_record::TurnRecord;
use innkeeper::standin::{Standin, World};
use innkeeper::store::{EntryFilter, Store};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

pub(crate) use view::{Message, Place, View};

/// How long anything may take that a story waits for: long, since many stories share few processors.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How often is looked at what nobody tells the changes of: the store, files and processes.
const LOOK: Duration = Duration::from_millis(20);

/// The server of the stories. Olga owns the bot, Alma is an admin, Ada and Ben hold `chat` on `site`, Cleo holds nothing.
const WORLD: &str = r#"{
  "bot": { "name": "innkeeper", "id": "1213398211451555840" },
  "guilds": [{
    "name": "Inn", "id": "1213402987654217728", "owner": "olga",
    "roles": [
      { "name": "staff", "id": "1213402987654217800", "permissions": ["MANAGE_GUILD"] },
      { "name": "crew", "id": "1213402987654217801", "mentionable": true }
    ],
    "members": [
      { "name": "olga", "id": "302050872383242240" },
      { "name": "alma", "id": "302050872383242241", "roles": ["staff"] },
      { "name": "ada", "id": "410537337646743552" },
      { "name": "ben", "id": "523846230284976128" },
      { "name": "cleo", "id": "691207834510262272" }
    ],
    "channels": [
      { "name": "general", "id": "1213402988564381696" },
      { "name": "data", "id": "1213402991370371072" },
      { "name": "ideas", "id": "1213402991370371073", "kind": "forum" },
      { "name": "staffroom", "id": "1213402991370371074" }
    ]
  }]
}"#;

const STAFF: &str = "1213402987654217800";
const STAFFROOM: &str = "1213402991370371074";

/// Dollars a month that Ada and Ben have.
const BUDGET: Usd = Usd(5_000_000);

/// How a house is to be.
pub(crate) struct Plan {
    world: Value,
    limits: String,
    agent: String,
    sandbox: String,
    provider: String,
    program: Option<PathBuf>,
    prelude: String,
    projects: String,
}

impl Plan {
    /// Adds lines to `[limits]`.
    pub(crate) fn limits(mut self, lines: &str) -> Plan {
        self.limits.push_str(lines);
        self
    }

    /// Adds lines to `[agent]`; without any, commands are not confined and the models are haiku and sonnet.
    pub(crate) fn agent(mut self, lines: &str) -> Plan {
        self.agent = lines.to_owned();
        self
    }

    /// Replaces the lines of `[sandbox]`.
    pub(crate) fn sandbox(mut self, lines: &str) -> Plan {
        self.sandbox = lines.to_owned();
        self
    }

    /// Replaces the lines of `[provider]`.
    pub(crate) fn provider(mut self, lines: &str) -> Plan {
        self.provider = lines.to_owned();
        self
    }

    /// Replaces the agent's program.
    pub(crate) fn program(mut self, program: &Path) -> Plan {
        self.program = Some(program.to_owned());
        self
    }

    /// Has this shell command run before each scripted agent; what it prints stands in the agent's stream.
    pub(crate) fn prelude(mut self, command: &str) -> Plan {
        self.prelude = command.to_owned();
        self
    }

    /// Adds projects.
    pub(crate) fn projects(mut self, lines: &str) -> Plan {
        self.projects = lines.to_owned();
        self
    }

    /// Changes the world file.
    pub(crate) fn world(mut self, change: impl FnOnce(&mut Value)) -> Plan {
        change(&mut self.world);
        self
    }

    /// Opens the house.
    pub(crate) async fn open(self) -> House {
        let log = Log::default();
        let guard = log.listen();
        let directory = tempfile::Builder::new()
            .prefix("house-")
            .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
            .unwrap();
        let world = World::from_json(&self.world.to_string()).unwrap();
        let token = world.bot_token().to_owned();
        let standin = Standin::start("127.0.0.1:0".parse().unwrap(), world)
            .await
            .unwrap();
        let settings = self.settings(directory.path(), &standin.url(), &token);
        let mut house = House {
            standin,
            settings,
            bot: None,
            expected: Vec::new(),
            log,
            _guard: guard,
            directory,
        };
        house.furnish().await;
        house.bot_comes().await;
        house
    }

    fn settings(&self, directory: &Path, url: &str, token: &str) -> Settings {
        let program = match &self.program {
            Some(program) => program.clone(),
            None => scripted_agent(directory, &self.prelude),
        };
        let workshop = directory.join("workshop");
        fs::create_dir_all(&workshop).unwrap();
        let text = format!(
            r#"
[discord]
token = "{token}"
api_url = "{url}"
guilds = ["1213402987654217728"]
owners = ["302050872383242240"]
admin_roles = ["{STAFF}"]
admin_channel = "{STAFFROOM}"
[store]
path = "{directory}/data/store"
[sandbox]
{sandbox}
[agent]
command = "{program}"
{agent}
[provider]
{provider}
[limits]
{limits}
[[project]]
slug = "site"
title = "Site"
[[project]]
slug = "notes"
title = "Notes"
[[project]]
slug = "shop"
title = "Shop"
workspace = "in-place"
path = "{workshop}"
{projects}
"#,
            directory = directory.display(),
            sandbox = self.sandbox,
            program = program.display(),
            agent = self.agent,
            provider = self.provider,
            limits = self.limits,
            workshop = workshop.display(),
            projects = self.projects,
        );
        let file = directory.join("innkeeper.toml");
        fs::write(&file, text).unwrap();
        let sources = Sources {
            named: true,
            file,
            ..Sources::default()
        };
        match Config::read(&sources).and_then(|config| config.settings()) {
            Ok(settings) => settings,
            Err(faults) => panic!("the story's configuration does not hold: {faults}"),
        }
    }
}

/// Makes a program of the hidden subcommand, as `innkeeper demo` does. What it performed goes into the account's tally.
fn scripted_agent(directory: &Path, prelude: &str) -> PathBuf {
    // A sandbox with walls sees the projects that are worked on in place, and so the program beside them.
    let program = directory.join("workshop/.innkeeper-agent");
    fs::create_dir_all(directory.join("workshop")).unwrap();
    let built = env!("CARGO_BIN_EXE_innkeeper");
    fs::hard_link(built, &program)
        .or_else(|_| fs::copy(built, &program).map(drop))
        .unwrap();
    let script = directory.join("scripted-agent");
    let text = format!(
        "#!/bin/sh\nexport INNKEEPER_TALLY=\"$HOME/tally\"\n{prelude}\nexec '{}' scripted-agent \"$@\"\n",
        program.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

/// A bot that serves.
struct Bot {
    store: Store,
    cancel: CancellationToken,
    serving: JoinHandle<Result<(), RunError>>,
}

/// A house in which a story plays.
pub(crate) struct House {
    /// The stand-in for Discord.
    pub(crate) standin: Standin,
    settings: Settings,
    bot: Option<Bot>,
    /// Errors that the story itself brings about: parts of lines of the log.
    expected: Vec<String>,
    log: Log,
    _guard: tracing::subscriber::DefaultGuard,
    directory: tempfile::TempDir,
}

impl House {
    /// Opens a house as it usually is.
    pub(crate) async fn open() -> House {
        House::plan().open().await
    }

    /// Returns a plan to be changed before it is opened.
    pub(crate) fn plan() -> Plan {
        Plan {
            world: serde_json::from_str(WORLD).unwrap(),
            limits: String::new(),
            agent: "confine = \"off\"\nmodels = [\"haiku\", \"sonnet\"]\n".to_owned(),
            sandbox: "backend = \"local\"\n".to_owned(),
            provider: String::new(),
            program: None,
            prelude: String::new(),
            projects: String::new(),
        }
    }

    /// Gives Ada and Ben their budgets and `chat` on `site`.
    async fn furnish(&self) {
        let store = Store::open(&self.settings.store).unwrap();
        for name in ["ada", "ben"] {
            store
                .put_guest(&Guest {
                    budget: Some(BUDGET),
                    ..Guest::new(self.member(name))
                })
                .unwrap();
            store.give(&self.paper(name, "site", Level::Chat)).unwrap();
        }
        store.flush().await.unwrap();
    }

    fn paper(&self, name: &str, project: &str, level: Level) -> Grant {
        Grant {
            subject: Subject::Member(self.member(name)),
            project: project.parse().unwrap(),
            level,
            by: self.member("olga"),
            at: Moment(i64::try_from(now_ms()).unwrap()),
            until: None,
        }
    }

    // ---- The bot

    /// Starts a bot over the house's store and waits until it listens and its commands are registered.
    pub(crate) async fn bot_comes(&mut self) {
        self.bot_starts().await;
        self.until(
            "a bot that listens and has registered its commands",
            |world| self.standin.listeners() > 0 && world.has_commands(),
        )
        .await;
    }

    /// Starts a bot over the house's store.
    pub(crate) async fn bot_starts(&mut self) {
        let store = self.open_store().await;
        let cancel = CancellationToken::new();
        let serving = tokio::spawn({
            let (settings, store, cancel) = (self.settings.clone(), store.clone(), cancel.clone());
            async move { run::serve(&settings, store, cancel).await }
        });
        self.bot = Some(Bot {
            store,
            cancel,
            serving,
        });
    }

    /// The last task of a closed bot may hold the store a moment longer.
    async fn open_store(&self) -> Store {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Store::open(&self.settings.store) {
                Ok(store) => return store,
                Err(error) if Instant::now() > deadline => panic!("{error}"),
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Closes the bot as SIGTERM does, and waits until it is gone.
    pub(crate) async fn bot_goes(&mut self) {
        let bot = self.bot.take().expect("a bot serves");
        bot.cancel.cancel();
        match tokio::time::timeout(PATIENCE, bot.serving).await {
            Ok(served) => served.unwrap().unwrap(),
            Err(_) => panic!("the bot did not close\n{}", self.transcript()),
        }
        self.until("the end of the bot's connection", |_| {
            self.standin.listeners() == 0
        })
        .await;
    }

    /// Lets the bot's disk fail, and returns why the bot ended: what is too large for the store's own file goes into a
    /// directory beside it, which is gone.
    pub(crate) async fn bot_loses_its_disk(&mut self) -> RunError {
        let bot = self.bot.take().expect("a bot serves");
        fs::remove_dir_all(self.settings.store.join("blobs")).unwrap();
        bot.store
            .put_fact("large", &"x".repeat(1024 * 1024))
            .unwrap_err();
        // Dropped, it could wait for ever for the write that broke off.
        std::mem::forget(bot.store);
        match tokio::time::timeout(PATIENCE, bot.serving).await {
            Ok(served) => served.unwrap().unwrap_err(),
            Err(_) => panic!("the bot did not end\n{}", self.transcript()),
        }
    }

    /// Returns the open store.
    pub(crate) fn store(&self) -> &Store {
        &self.bot.as_ref().expect("a bot serves").store
    }

    // ---- People

    /// Returns a member's id.
    pub(crate) fn member(&self, name: &str) -> MemberId {
        let id = self.world().member(name);
        MemberId(id.unwrap_or_else(|| panic!("there is nobody named {name}")))
    }

    /// Does something as a person; the error is the reason that Discord's client would show.
    pub(crate) async fn try_act(&self, action: Value) -> Result<Value, String> {
        self.standin.act(&action).await
    }

    /// Does something as a person that must succeed.
    pub(crate) async fn act(&self, action: Value) -> Value {
        match self.try_act(action.clone()).await {
            Ok(answer) => answer,
            Err(reason) => panic!("{action} was refused: {reason}\n{}", self.transcript()),
        }
    }

    /// Says something and returns the message's id, which is also the id of the thread that opens on it.
    pub(crate) async fn says(&self, who: &str, place: &str, text: &str) -> String {
        id_of(
            &self
                .act(json!({"as": who, "do": "say", "in": place, "text": text}))
                .await,
        )
    }

    /// Says something with files.
    pub(crate) async fn says_with(
        &self,
        who: &str,
        place: &str,
        text: &str,
        files: &[(&str, &[u8])],
    ) -> String {
        let files: Vec<Value> = files
            .iter()
            .map(|(name, bytes)| file(name, bytes))
            .collect();
        let action = json!({"as": who, "do": "say", "in": place, "text": text, "files": files});
        id_of(&self.act(action).await)
    }

    /// Replies to a message; whoever wrote it is pinged.
    pub(crate) async fn replies(&self, who: &str, place: &str, to: &str, text: &str) -> String {
        let action = json!({"as": who, "do": "say", "in": place, "text": text, "reply_to": to});
        id_of(&self.act(action).await)
    }

    /// Uses a command and returns the words of the reply, which only that person sees.
    pub(crate) async fn command(
        &self,
        who: &str,
        place: &str,
        name: &str,
        options: Value,
    ) -> String {
        let action =
            json!({"as": who, "do": "command", "in": place, "name": name, "options": options});
        words_of(&self.act(action).await)
    }

    /// Presses a button and returns the reply.
    pub(crate) async fn press(&self, who: &str, message: &str, button: &str) -> Value {
        let action = json!({"as": who, "do": "press", "message": message, "button": button});
        self.act(action).await["reply"].clone()
    }

    /// Presses Stop on the live message of a thread and returns the words of the reply.
    pub(crate) async fn stops(&self, who: &str, thread: &str) -> String {
        let live = self.live(thread).await;
        let reply = self.press(who, live.id(), "Stop").await;
        reply["content"].as_str().unwrap_or_default().to_owned()
    }

    /// Gives a grant, as an admin's command would.
    pub(crate) async fn grant(&self, who: &str, project: &str, level: Level) {
        self.store().give(&self.paper(who, project, level)).unwrap();
        self.store().flush().await.unwrap();
    }

    /// Sets a monthly budget.
    pub(crate) async fn budget(&self, who: &str, budget: Usd) {
        let guest = Guest {
            budget: Some(budget),
            ..self.store().guest(self.member(who)).unwrap()
        };
        self.store().put_guest(&guest).unwrap();
        self.store().flush().await.unwrap();
    }

    /// Makes the stand-in misbehave by a rule (see its room).
    pub(crate) async fn fault(&self, rule: Value) {
        let url = format!("{}/standin/faults", self.standin.url());
        let answer = reqwest::Client::new()
            .post(url)
            .json(&rule)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 200, "{rule}");
    }

    // ---- What is seen

    /// Returns the world as it is now.
    pub(crate) fn world(&self) -> View {
        View(self.standin.world())
    }

    /// Waits until the world shows something; woken by each change of it.
    pub(crate) async fn until(&self, what: &str, shown: impl Fn(&View) -> bool) {
        self.find(what, |world| shown(world).then_some(())).await;
    }

    /// Waits until something can be found in the world.
    pub(crate) async fn find<T>(&self, what: &str, mut find: impl FnMut(&View) -> Option<T>) -> T {
        let mut changes = self.standin.changes();
        let search = async {
            loop {
                changes.mark_unchanged();
                if let Some(found) = find(&self.world()) {
                    return found;
                }
                // Whether somebody listens is no change of the world.
                let _ = tokio::time::timeout(Duration::from_millis(200), changes.changed()).await;
            }
        };
        match tokio::time::timeout(PATIENCE, search).await {
            Ok(found) => found,
            Err(_) => panic!("{what} did not come\n{}", self.transcript()),
        }
    }

    /// Waits until something holds that nobody tells the changes of.
    pub(crate) async fn wait(&self, what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            if Instant::now() > deadline {
                panic!("{what} did not come\n{}", self.transcript());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits for a thread and returns it.
    pub(crate) async fn thread(&self, id: &str) -> Place {
        self.find("a thread", |world| world.place(id)).await
    }

    /// Waits for the live message of a running turn.
    pub(crate) async fn live(&self, place: &str) -> Message {
        self.find("a live message with a Stop button", |world| {
            world.place(place)?.live()
        })
        .await
    }

    /// Waits until the live message of a place holds these words.
    pub(crate) async fn live_shows(&self, place: &str, words: &str) -> Message {
        self.find(&format!("{words:?} in the live message"), |world| {
            world
                .place(place)?
                .live()
                .filter(|live| live.text().contains(words))
        })
        .await
    }

    /// Waits until this many turns of a place are over, and returns what the bot said there beside live messages.
    pub(crate) async fn answers(&self, place: &str, turns: usize) -> Vec<Message> {
        self.find(&format!("{turns} receipts"), |world| {
            let place = world.place(place)?;
            (place.receipts().len() >= turns).then(|| place.answers())
        })
        .await
    }

    /// Waits until one turn of a place is over, and returns its answer's first message.
    pub(crate) async fn answer(&self, place: &str) -> Message {
        let answers = self.answers(place, 1).await;
        match answers.into_iter().next() {
            Some(first) => first,
            None => panic!("there is no answer\n{}", self.transcript()),
        }
    }

    /// Waits for a reply of the bot to a message and returns it.
    pub(crate) async fn reply_to(&self, place: &str, message: &str) -> Message {
        self.find("a reply of the bot", |world| {
            let all = world.place(place)?.bots();
            all.into_iter()
                .find(|reply| reply.reply_to() == Some(message.to_owned()))
        })
        .await
    }

    /// Returns what the agent was told for a turn: everything that was written to its standard input.
    pub(crate) fn told(&self, thread: &str, turn: &str) -> String {
        let lines = format!(".innkeeper/chats/{thread}/turns/{turn}/in.jsonl");
        let mut words = String::new();
        for line in fs::read_to_string(self.in_homes(&lines))
            .unwrap_or_default()
            .lines()
        {
            let json = line.split_once('\t').map_or("", |(_, json)| json);
            let value: Value = serde_json::from_str(json).unwrap_or_default();
            words += value["message"]["content"].as_str().unwrap_or_default();
        }
        // What makes words harmless is invisible, and no story's business.
        words.replace('\u{2060}', "")
    }

    /// Returns how many turns agents have performed to their end.
    pub(crate) fn performed(&self) -> usize {
        let homes = fs::read_dir(self.homes()).into_iter().flatten().flatten();
        homes
            .filter_map(|home| fs::read_to_string(home.path().join("tally")).ok())
            .map(|tally| tally.lines().count())
            .sum()
    }

    /// Returns where the sandbox accounts live.
    pub(crate) fn homes(&self) -> PathBuf {
        self.directory.path().join("data/sandbox")
    }

    /// Returns the directory of the project that is worked on in place.
    pub(crate) fn workshop(&self) -> PathBuf {
        self.directory.path().join("workshop")
    }

    /// Returns the house's own folder.
    pub(crate) fn folder(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the file of this path in whichever home has it.
    pub(crate) fn in_homes(&self, path: &str) -> PathBuf {
        let homes = fs::read_dir(self.homes()).into_iter().flatten().flatten();
        homes
            .map(|home| home.path().join(path))
            .find(|file| file.exists())
            .unwrap_or_else(|| self.homes().join("nobody").join(path))
    }

    /// Returns a file of a chat's workspace.
    pub(crate) fn in_chat(&self, thread: &str, path: &str) -> PathBuf {
        self.in_homes(&format!("chat-{thread}/{path}"))
    }

    /// Makes the hidden file `.go` in a chat's workspace, for which an agent waits (`!wait-for .go`).
    pub(crate) async fn lets_go(&self, thread: &str) {
        self.wait("the chat's workspace", || self.in_chat(thread, "").is_dir())
            .await;
        fs::write(self.in_chat(thread, "").join(".go"), "").unwrap();
    }

    /// Returns the record of a turn.
    pub(crate) fn record(&self, turn: &str) -> Option<TurnRecord> {
        self.store().turn(TurnId(turn.parse().unwrap())).unwrap()
    }

    /// Returns the ledger.
    pub(crate) fn ledger(&self) -> Vec<Entry> {
        self.store().entries(&EntryFilter::default()).unwrap()
    }

    /// Waits until nothing is left to be done.
    pub(crate) async fn is_idle(&self) {
        self.wait("an end of all turns", || {
            self.store().unfinished().unwrap().is_empty()
        })
        .await;
    }

    // ---- The end

    /// Allows errors in the log whose lines hold these words.
    pub(crate) fn expects_error(&mut self, words: &str) {
        self.expected.push(words.to_owned());
    }

    /// Closes the house and checks that nothing is left over.
    pub(crate) async fn closes_quietly(mut self) {
        self.is_idle().await;
        let threads: Vec<ThreadId> = self
            .store()
            .chats()
            .unwrap()
            .iter()
            .map(|chat| chat.thread)
            .collect();
        let (holds, faults) = (self.store().holds().unwrap(), self.store().check());
        self.bot_goes().await;
        self.record_requests();
        let story = self.transcript();
        assert!(holds.is_empty(), "money is still held: {holds:?}\n{story}");
        assert!(faults.is_empty(), "the store: {faults:?}\n{story}");
        let working = self.world().working();
        assert!(working.is_empty(), "seems to work: {working:?}\n{story}");
        let left = processes_of(&threads);
        assert!(left.is_empty(), "processes are left: {left:?}\n{story}");
        assert_eq!(
            self.standin.rate_limited(),
            0,
            "limits were passed\n{story}"
        );
        let errors: Vec<String> = self
            .log
            .lines()
            .into_iter()
            .filter(|line| line.contains("ERROR"))
            .filter(|line| !self.expected.iter().any(|words| line.contains(words)))
            .collect();
        assert!(errors.is_empty(), "errors in the log: {errors:#?}\n{story}");
    }

    /// Keeps what the bot asked of Discord, for whoever wants to look.
    fn record_requests(&self) {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../recorded");
        fs::create_dir_all(&folder).unwrap();
        let test = std::thread::current()
            .name()
            .unwrap_or("story")
            .replace("::", ".");
        fs::write(
            folder.join(format!("{test}.jsonl")),
            self.standin.requests(),
        )
        .unwrap();
    }

    /// Returns what people saw and the end of the log.
    pub(crate) fn transcript(&self) -> String {
        let lines = self.log.lines();
        let last = lines.len().saturating_sub(40);
        format!(
            "--- the story so far\n{}--- the end of the log\n{}",
            self.world().transcript(),
            lines[last..].join("\n")
        )
    }

    /// Returns the lines of the log.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lines()
    }
}

/// Returns a file as an action takes it.
pub(crate) fn file(name: &str, bytes: &[u8]) -> Value {
    json!({"name": name, "base64": base64::engine::general_purpose::STANDARD.encode(bytes)})
}

fn id_of(answer: &Value) -> String {
    answer["id"].as_str().unwrap_or_default().to_owned()
}

fn words_of(answer: &Value) -> String {
    answer["reply"]["content"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn now_ms() -> u128 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_millis()
}

/// Returns the processes of this machine that belong to runs of these chats.
fn processes_of(threads: &[ThreadId]) -> Vec<String> {
    let marks: Vec<String> = threads
        .iter()
        .map(|thread| format!("INNKEEPER_RUN={thread}-"))
        .collect();
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|process| {
        let environ = fs::read(process.path().join("environ")).ok()?;
        let environ = String::from_utf8_lossy(&environ).into_owned();
        let line = fs::read(process.path().join("cmdline")).ok()?;
        let marked = environ
            .split('\0')
            .any(|each| marks.iter().any(|mark| each.starts_with(mark)));
        marked.then(|| String::from_utf8_lossy(&line).replace('\0', " "))
    })
    .collect()
}

/// The log of one house.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Listens to what this thread logs.
    fn listen(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new("warn,innkeeper=info"))
            .with_ansi(false)
            .with_writer(move || log.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().unwrap();
        String::from_utf8_lossy(&bytes)
            .lines()
            .map(str::to_owned)
            .collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
