//! The whole house with its real parts: the real sandbox server, the real agent's program, the real bot; only Discord and
//! the provider are stood in for.

#[allow(dead_code, reason = "not every test reads memory")]
pub(crate) mod memory;
pub(crate) mod provider;
pub(crate) mod terminal;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use innkeeper::app::config::{Config, Settings, Sources};
use innkeeper::app::run;
use innkeeper::domain::grant::{Grant, Level, Subject};
use innkeeper::domain::guest::Guest;
use innkeeper::domain::ids::{MemberId, ThreadId, TurnId};
use innkeeper::domain::money::Usd;
use innkeeper::driver::clock::{Clock as _, SystemClock};
use innkeeper::standin::{Standin, World};
use innkeeper::store::Store;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use provider::{KEY, Provider};
use terminal::{API_KEY, Process, Terminal};

/// How long something may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(120);

/// Real parts are heavy: so many houses at once.
static HOUSES: Semaphore = Semaphore::const_new(2);

/// What the bot has logged, all houses of this process together.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// A house that serves.
pub(crate) struct House {
    /// Discord.
    pub(crate) standin: Arc<Standin>,
    /// The provider.
    pub(crate) provider: Provider,
    /// The sandbox.
    pub(crate) terminal: Terminal,
    /// The bot's store.
    pub(crate) store: Store,
    name: &'static str,
    seen: Arc<Mutex<Vec<Seen>>>,
    watcher: JoinHandle<()>,
    /// The bot's settings.
    pub(crate) settings: Settings,
    bot: Option<Bot>,
    _directory: tempfile::TempDir,
    _permit: SemaphorePermit<'static>,
}

/// A bot that serves, and what ends it.
type Bot = (CancellationToken, JoinHandle<Result<(), run::RunError>>);

/// One state of one of the bot's messages, as people saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// When, in milliseconds since 1970.
    pub(crate) at: u64,
    /// The message.
    pub(crate) message: String,
    /// Its text.
    pub(crate) text: String,
}

impl House {
    /// Opens a house in which Ada holds `chat` on `site` and the provider answers as told; nothing where the machine
    /// does not let accounts be made. `name`: of the file with the recorded traffic.
    pub(crate) async fn open(name: &'static str, scenario: Value) -> Option<House> {
        House::open_with(name, scenario, "", "").await
    }

    /// Opens such a house with further lines in the sections `agent` and `project` of its configuration.
    pub(crate) async fn open_with(
        name: &'static str,
        scenario: Value,
        agent_lines: &str,
        project_lines: &str,
    ) -> Option<House> {
        let permit = HOUSES.acquire().await.unwrap();
        let terminal = Terminal::start().await?;
        listen_to_the_log();
        let directory = tempfile::tempdir().unwrap();
        let provider = Provider::start(scenario).await;
        let world = World::demo();
        let member = |name: &str| MemberId(world.member_id(name).unwrap());
        let (olga, ada) = (member("olga"), member("ada"));
        let general = world.channel_id("general").unwrap();
        let token = world.bot_token().to_owned();
        let guild = world.guild_id();
        let standin = Standin::start(([127, 0, 0, 1], 0).into(), world)
            .await
            .unwrap();
        let file = directory.path().join("innkeeper.toml");
        let text = format!(
            "[discord]\ntoken = {token:?}\napi_url = {:?}\nguilds = [\"{guild}\"]\nowners = [\"{olga}\"]\nadmin_channel = \"{general}\"\n\
             [store]\npath = {:?}\n\
             [sandbox]\nbackend = \"open-terminal\"\nurl = {:?}\napi_key = {API_KEY:?}\n\
             [agent]\ncommand = {:?}\nmodels = [\"sonnet\"]\n{agent_lines}\n\
             [provider]\nbase_url = {:?}\napi_key = {KEY:?}\n\
             [limits]\nrunning_per_guest = 2\n\
             [[project]]\nslug = \"site\"\naccount = {:?}\n{project_lines}\n",
            standin.url(),
            directory.path().join("store"),
            terminal.url(),
            agent(),
            provider.url(),
            terminal.account,
        );
        std::fs::write(&file, text).unwrap();
        let sources = Sources {
            file,
            named: true,
            ..Sources::default()
        };
        let settings = Config::read(&sources).and_then(|config| config.settings());
        let settings = settings.unwrap_or_else(|faults| panic!("{faults}"));
        let store = Store::open(&settings.store).unwrap();
        furnish(&store, olga, ada);
        let standin = Arc::new(standin);
        let seen = Arc::default();
        let watcher = tokio::spawn(watch(standin.clone(), Arc::clone(&seen)));
        let mut house = House {
            settings,
            standin,
            provider,
            terminal,
            store,
            name,
            seen,
            watcher,
            bot: None,
            _directory: directory,
            _permit: permit,
        };
        house.opens_bot().await;
        Some(house)
    }

    /// Starts a bot over the house's store, and waits until it serves.
    pub(crate) async fn opens_bot(&mut self) {
        let cancel = CancellationToken::new();
        let bot = tokio::spawn({
            let (settings, store) = (self.settings.clone(), self.store.clone());
            let cancel = cancel.clone();
            async move { run::serve(&settings, store, cancel).await }
        });
        self.bot = Some((cancel, bot));
        self.until("the bot listens and has registered its commands", |house| {
            let world = house.standin.world();
            let commands = world["commands"].as_array().map_or(0, Vec::len);
            house.standin.listeners() > 0 && commands > 0
        })
        .await;
    }

    /// Closes the bot in order.
    pub(crate) async fn closes_bot(&mut self) {
        if let Some((cancel, bot)) = self.bot.take() {
            cancel.cancel();
            let closed = tokio::time::timeout(PATIENCE, bot).await;
            closed.expect("the bot did not close").unwrap().unwrap();
            assert!(!log().contains("did not end in time"), "{}", self.story());
        }
        self.until("the bot is gone", |house| house.standin.listeners() == 0)
            .await;
    }

    /// Says something as Ada and returns the id of the message, which is that of the thread that opens on it.
    pub(crate) async fn says(&self, place: &str, text: &str) -> String {
        self.says_as("ada", place, text).await
    }

    /// Says something as somebody and returns the id of the message.
    pub(crate) async fn says_as(&self, who: &str, place: &str, text: &str) -> String {
        let said = self.act(json!({"as": who, "do": "say", "in": place, "text": text}));
        said.await["id"].as_str().unwrap().to_owned()
    }

    /// Gives a command as Ada and returns the bot's reply.
    pub(crate) async fn command(&self, place: &str, name: &str) -> String {
        let action =
            json!({"as": "ada", "do": "command", "in": place, "name": name, "options": {}});
        let reply = self.act(action).await;
        reply["reply"]["content"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Returns the details of the last turn in a thread, as Ada gets them.
    #[allow(dead_code, reason = "not every test reads them")]
    pub(crate) async fn details(&self, thread: &str) -> String {
        let action =
            json!({"as": "ada", "do": "command", "in": thread, "name": "details", "options": {}});
        let reply = self.act(action).await;
        let url = reply["reply"]["files"][0]["url"].as_str();
        let url = url.unwrap_or_else(|| panic!("{reply}\n{}", self.story()));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        client.get(url).send().await.unwrap().text().await.unwrap()
    }

    async fn act(&self, action: Value) -> Value {
        match self.standin.act(&action).await {
            Ok(answer) => answer,
            Err(reason) => panic!("{action} was refused: {reason}\n{}", self.story()),
        }
    }

    /// Waits until something holds; woken by each change that people can see, and often enough for the rest.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&House) -> bool) {
        let began = Instant::now();
        let mut changes = self.standin.changes();
        while !holds(self) {
            assert!(
                began.elapsed() < PATIENCE,
                "{what} did not come\n{}",
                self.story()
            );
            let _ = tokio::time::timeout(Duration::from_millis(20), changes.changed()).await;
        }
    }

    /// Waits until one of the bot's messages shows `words`, and returns that.
    pub(crate) async fn shows(&self, words: &str) -> Seen {
        let find = |house: &House| house.seen().into_iter().find(|it| it.text.contains(words));
        self.until(words, |house| find(house).is_some()).await;
        find(self).unwrap()
    }

    /// Waits for so many receipts in a thread and returns the newest.
    pub(crate) async fn receipt(&self, thread: &str, number: usize) -> String {
        let receipts = |house: &House| -> Vec<String> {
            let messages = house.messages(thread).into_iter();
            messages
                .filter_map(|message| message["content"].as_str().map(str::to_owned))
                .filter(|text| text.starts_with("-# ") && !text.contains('\n'))
                .collect()
        };
        self.until("a receipt", |house| {
            receipts(house).len() >= number
                && house
                    .store
                    .open_turns(thread_of(thread))
                    .unwrap()
                    .is_empty()
        })
        .await;
        receipts(self).pop().unwrap()
    }

    /// Returns the bot's messages in the admins' channel.
    #[allow(dead_code, reason = "not every test is about admins")]
    pub(crate) fn alarms(&self) -> Vec<String> {
        let general = World::demo().channel_id("general").unwrap();
        let said = self.messages(&general.to_string()).into_iter();
        said.map(|message| message["content"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Returns the bot's messages in a thread.
    pub(crate) fn messages(&self, thread: &str) -> Vec<Value> {
        bots(&self.standin.world())
            .into_iter()
            .filter(|(place, _)| place == thread)
            .map(|(_, message)| message)
            .collect()
    }

    /// Returns everything that the bot's messages have shown so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        lock(&self.seen).clone()
    }

    /// Returns a chat's directory in the sandbox, seen from outside.
    pub(crate) fn workspace(&self, thread: &str) -> PathBuf {
        self.terminal.home().join(format!("chat-{thread}"))
    }

    /// Waits until a command stands at its [`gate`].
    pub(crate) async fn begins(&self, thread: &str, name: &str) {
        let mark = self.workspace(thread).join(format!(".{name}"));
        self.until("the command runs", |_| mark.exists()).await;
    }

    /// Opens a command's [`gate`].
    pub(crate) fn lets_go_on(&self, thread: &str, name: &str) {
        std::fs::write(self.workspace(thread).join(format!(".{name}.go")), "").unwrap();
    }

    /// Returns what the agent's program itself has said in a turn so far, line by line.
    pub(crate) fn stream(&self, thread: &str, turn: &str) -> Vec<Value> {
        let directory = format!(".innkeeper/chats/{thread}/turns/{turn}/out.jsonl");
        let stream = std::fs::read_to_string(self.terminal.home().join(directory));
        let stream = stream.unwrap_or_default();
        // The last line may be half written.
        let lines = stream.lines();
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Returns the result that the agent's program itself gave at the end of a turn.
    pub(crate) fn result(&self, thread: &str, turn: &str) -> Value {
        let stream = self.stream(thread, turn);
        let result = stream.iter().rfind(|line| line["type"] == "result");
        let result = result.unwrap_or_else(|| panic!("no result in {stream:?}"));
        result.clone()
    }

    /// Returns the processes that carry the mark of this turn's run.
    pub(crate) fn of_run(&self, thread: &str, turn: &str) -> Vec<Process> {
        let mark = format!("INNKEEPER_RUN={thread}-{turn}\n");
        let mut all = terminal::processes();
        all.retain(|process| process.environment.contains(&mark));
        all
    }

    /// Closes the house: the bot in order, its traffic kept; nothing may be left open in its books.
    pub(crate) async fn close(mut self) {
        let holds = self.store.holds().unwrap();
        assert!(holds.is_empty(), "{holds:?}\n{}", self.story());
        assert_eq!(self.standin.rate_limited(), 0, "{}", self.story());
        self.closes_bot().await;
    }

    fn keep_traffic(&self) {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/recorded");
        let file = directory.join(format!("real_parts-{}.jsonl", self.name));
        if let Err(error) = std::fs::create_dir_all(&directory)
            .and_then(|()| std::fs::write(file, self.standin.requests()))
        {
            eprintln!("the traffic could not be kept: {error}");
        }
    }

    /// Returns what there is to know when something went wrong.
    pub(crate) fn story(&self) -> String {
        let mut story = String::from("what people see:\n");
        for (place, message) in bots(&self.standin.world()) {
            story += &format!("  {place}: {}\n", message["content"]);
        }
        story += "what they saw:\n";
        for seen in self.seen() {
            story += &format!("  {}: {:?}\n", seen.message, seen.text);
        }
        for process in self.terminal.processes() {
            story += &format!(
                "  {}: {:.150}\n",
                process.id,
                process.line.replace('\n', " ")
            );
        }
        story + "the log:\n" + &log()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.keep_traffic();
        if let Some((cancel, _)) = &self.bot {
            cancel.cancel();
        }
        self.watcher.abort();
    }
}

/// Returns a command that marks that it runs, then waits until the test lets it go on. The marks are hidden files: they
/// are not delivered.
pub(crate) fn gate(name: &str) -> String {
    format!(": > .{name}; until [ -e .{name}.go ]; do sleep 0.1; done")
}

/// Returns what the bot has logged.
pub(crate) fn log() -> String {
    String::from_utf8_lossy(&lock(&LOG)).into_owned()
}

/// Returns the turn that a message asks for.
pub(crate) fn turn_of(message: &str) -> TurnId {
    TurnId(message.parse().unwrap())
}

/// Returns the chat in a thread.
pub(crate) fn thread_of(message: &str) -> ThreadId {
    ThreadId(message.parse().unwrap())
}

/// Returns the milliseconds since 1970.
fn now_ms() -> u64 {
    SystemClock.now().0.unsigned_abs()
}

/// Returns where a tool of the tests is: as the environment says, in the search path, or as the tests' setup installs it.
pub(crate) fn tool(variable: &str, name: &str, installed: &str) -> PathBuf {
    if let Some(named) = std::env::var_os(variable) {
        return named.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("target/tools")
        .join(installed);
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .chain([own])
        .find(|program| program.is_file())
        .unwrap_or_else(|| {
            panic!("{name} is missing: run tests/all, which installs it, or name it in {variable}")
        })
}

fn agent() -> PathBuf {
    let machine = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "x64"
    };
    let installed = format!("npm/node_modules/@anthropic-ai/claude-code-linux-{machine}/claude");
    tool("INNKEEPER_CLAUDE", "claude", &installed)
}

fn furnish(store: &Store, owner: MemberId, guest: MemberId) {
    store
        .put_guest(&Guest {
            budget: Some(Usd(5_000_000)),
            ..Guest::new(guest)
        })
        .unwrap();
    store
        .give(&Grant {
            subject: Subject::Member(guest),
            project: "site".parse().unwrap(),
            level: Level::Chat,
            by: owner,
            at: SystemClock.now(),
            until: None,
        })
        .unwrap();
}

/// Notes each state of each of the bot's messages.
async fn watch(standin: Arc<Standin>, seen: Arc<Mutex<Vec<Seen>>>) {
    let mut changes = standin.changes();
    while changes.changed().await.is_ok() {
        let now = bots(&standin.world());
        let mut seen = lock(&seen);
        for (_, message) in now {
            let id = message["id"].as_str().unwrap_or_default();
            let text = message["content"].as_str().unwrap_or_default();
            let last = seen.iter().rfind(|it| it.message == id);
            if last.is_none_or(|last| last.text != text) {
                seen.push(Seen {
                    at: now_ms(),
                    message: id.to_owned(),
                    text: text.to_owned(),
                });
            }
        }
    }
}

/// Returns the bot's messages, each with the id of its place; not the system's own, which have no words.
fn bots(world: &Value) -> Vec<(String, Value)> {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let channels = list(&world["guilds"][0], "channels");
    let threads = channels.iter().flat_map(|channel| list(channel, "threads"));
    let places: Vec<Value> = threads.chain(channels.iter().cloned()).collect();
    let mut found = Vec::new();
    for place in places {
        for message in list(&place, "messages") {
            let silent = message["content"] == "" && list(&message, "attachments").is_empty();
            if message["author"] == "innkeeper" && message["deleted"] != true && !silent {
                let id = place["id"].as_str().unwrap_or_default().to_owned();
                found.push((id, message));
            }
        }
    }
    found
}

fn listen_to_the_log() {
    struct Log;
    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            lock(&LOG).extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    // The first house of the process does it for all.
    let _ = tracing_subscriber::fmt()
        .with_env_filter("info,innkeeper=trace")
        .with_ansi(false)
        .with_writer(|| Log)
        .try_init();
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
