//! A whole house of real processes: the stand-in for Discord, the sandbox server, the bot; each can be killed and started
//! again at the same place.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use innkeeper::domain::chat::Chat;
use innkeeper::domain::grant::{Grant, Level, Subject};
use innkeeper::domain::guest::Guest;
use innkeeper::domain::ids::MemberId;
use innkeeper::domain::money::Usd;
use innkeeper::driver::clock::{Clock as _, SystemClock};
use innkeeper::store::Store;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// How long anything is waited for that must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The key of the sandbox server.
const KEY: &str = "a-key-for-tests";

/// Those who may ask.
pub(crate) const GUESTS: [&str; 3] = ["ada", "ben", "dan"];

/// The owner, the guests, and one who may nothing.
const PEOPLE: [(&str, u64); 5] = [
    ("olga", 302_050_872_383_242_240),
    ("ada", 410_537_337_646_743_552),
    ("ben", 523_846_230_284_976_128),
    ("dan", 523_846_230_284_976_999),
    ("cleo", 691_207_834_510_262_272),
];

/// Where turns run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Local,
    OpenTerminal,
}

/// The processes and their directory.
pub(crate) struct House {
    pub(crate) directory: PathBuf,
    pub(crate) url: String,
    pub(crate) backend: Backend,
    client: reqwest::Client,
    standin: Child,
    bot: Option<Child>,
    /// How long the log was when the bot was started.
    log_before: usize,
    server: Option<Child>,
    server_port: u16,
    keep: bool,
}

impl House {
    /// Starts everything. `more`: further lines of the section `[limits]`.
    pub(crate) async fn start(backend: Backend, more: &str) -> House {
        let directory =
            std::env::temp_dir().join(format!("innkeeper-endurance-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(directory.join("shared")).unwrap();
        for open in [directory.clone(), directory.join("shared")] {
            std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        for file in ["tally", "performed", "written"] {
            let file = directory.join("shared").join(file);
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        }
        std::fs::write(directory.join("world.json"), world().to_string()).unwrap();
        bring_program(&directory);
        let (standin, url, token) = standin(&directory);
        let mut house = House {
            url,
            backend,
            client: reqwest::Client::new(),
            standin,
            bot: None,
            log_before: 0,
            server: None,
            server_port: free_port(),
            keep: false,
            directory,
        };
        house.configure(&token, more);
        house.furnish();
        house.start_server().await;
        house.start_bot();
        house
            .until("the bot has registered its commands", |world| {
                world["commands"]
                    .as_array()
                    .is_some_and(|them| !them.is_empty())
            })
            .await;
        house
    }

    /// Leaves the directory behind, to be looked at.
    pub(crate) fn keep(&mut self) {
        self.keep = true;
    }

    fn configure(&self, token: &str, more: &str) {
        let program = program(&self.directory);
        let agent = self.directory.join("agent");
        let script = format!(
            "#!/bin/sh\nexport INNKEEPER_TALLY='{}'\nexec '{}' scripted-agent \"$@\"\n",
            self.shared("tally").display(),
            program.display()
        );
        std::fs::write(&agent, script).unwrap();
        std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).unwrap();
        let sandbox = match self.backend {
            Backend::Local => "backend = \"local\"".to_owned(),
            Backend::OpenTerminal => format!(
                "backend = \"open-terminal\"\nurl = \"http://127.0.0.1:{}\"\napi_key = \"{KEY}\"",
                self.server_port
            ),
        };
        let config = format!(
            "[discord]\ntoken = {token:?}\napi_url = {:?}\nguilds = [\"{GUILD}\"]\nowners = [\"{}\"]\n\n\
             [store]\npath = {:?}\n\n[sandbox]\n{sandbox}\n\n\
             [agent]\ncommand = {:?}\nconfine = \"off\"\nmodels = [\"haiku\"]\n\n\
             [limits]\nrunning = 6\nrunning_per_guest = 3\n{more}\n\n\
             [[project]]\nslug = \"site\"\ntitle = \"Site\"\ncollect = \"all\"\n\n\
             [[project]]\nslug = \"books\"\ntitle = \"Books\"\nworkspace = \"in-place\"\npath = {:?}\n",
            self.url,
            PEOPLE[0].1,
            self.store(),
            agent,
            self.directory.join("shared"),
        );
        std::fs::write(self.config(), config).unwrap();
    }

    /// Gives the guests what they hold.
    fn furnish(&self) {
        let store = Store::open(&self.store()).unwrap();
        for (_, id) in PEOPLE.into_iter().filter(|(name, _)| GUESTS.contains(name)) {
            let member = MemberId(id);
            let guest = Guest {
                budget: Some(Usd::from_dollars(100_000.0)),
                ..Guest::new(member)
            };
            store.put_guest(&guest).unwrap();
            let grant = Grant {
                subject: Subject::Member(member),
                project: "site".parse().unwrap(),
                level: Level::Chat,
                by: MemberId(PEOPLE[0].1),
                at: SystemClock.now(),
                until: None,
            };
            store.give(&grant).unwrap();
        }
        store.flush_here().unwrap();
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.directory.join("innkeeper.toml")
    }

    /// The store lies beside the homes of local accounts.
    pub(crate) fn store(&self) -> PathBuf {
        self.directory.join("store")
    }

    /// What everybody may write, outside of every account.
    pub(crate) fn shared(&self, file: &str) -> PathBuf {
        self.directory.join("shared").join(file)
    }

    // ---- The bot

    pub(crate) fn start_bot(&mut self) {
        assert!(self.bot.is_none(), "the bot runs already");
        self.log_before = self.log().len();
        let log = append(&self.directory.join("bot.log"));
        let bot = Command::new(program(&self.directory))
            .args(["run", "--config"])
            .arg(self.config())
            .env("RUST_LOG", "innkeeper=info,warn")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.bot = Some(bot);
    }

    /// Ends the bot without a warning.
    pub(crate) fn kill_bot(&mut self) {
        if let Some(mut bot) = self.bot.take() {
            bot.kill().unwrap();
            bot.wait().unwrap();
        }
    }

    /// Asks the bot to end, and returns how it did.
    pub(crate) async fn stop_bot(&mut self) -> Result<(), String> {
        let Some(bot) = self.bot.as_mut() else {
            return Ok(());
        };
        kill(pid(bot), Signal::SIGTERM).unwrap();
        let began = Instant::now();
        loop {
            if let Some(status) = bot.try_wait().unwrap() {
                self.bot = None;
                // Before its first word a process cannot hear signals yet.
                let unheard = status.signal() == Some(Signal::SIGTERM as i32)
                    && self.log().len() == self.log_before;
                return if status.success() || unheard {
                    Ok(())
                } else {
                    Err(format!("after SIGTERM the bot ended with {status}"))
                };
            }
            if began.elapsed() > PATIENCE {
                self.kill_bot();
                return Err("after SIGTERM the bot did not end".to_owned());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("bot.log")).unwrap_or_default()
    }

    /// Returns whether the bot has read, since its start, what was said while it was away.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.log()[self.log_before..].contains("caught up with what was said meanwhile")
    }

    /// Says so if the bot ended by itself.
    pub(crate) fn bot_is_well(&mut self) -> Result<(), String> {
        match self.bot.as_mut().map(|bot| bot.try_wait().unwrap()) {
            Some(Some(status)) => {
                self.bot = None;
                Err(format!("the bot ended by itself with {status}"))
            }
            _ => Ok(()),
        }
    }

    // ---- The sandbox server

    pub(crate) async fn start_server(&mut self) {
        if self.backend == Backend::Local || self.server.is_some() {
            return;
        }
        let home = self.directory.join("server");
        std::fs::create_dir_all(&home).unwrap();
        let log = append(&self.directory.join("server.log"));
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap();
        let server = Command::new(open_terminal().expect("open-terminal is installed"))
            .args([
                "run",
                "--host",
                "127.0.0.1",
                "--port",
                &self.server_port.to_string(),
            ])
            .env("OPEN_TERMINAL_API_KEY", KEY)
            // Accounts of their own need a server that may make them.
            .env(
                "OPEN_TERMINAL_MULTI_USER",
                nix::unistd::geteuid().is_root().to_string(),
            )
            .env("OPEN_TERMINAL_LOG_DIR", home.join("logs"))
            .env("HOME", &home)
            .env(
                "USER",
                user.map_or_else(|| "user".to_owned(), |user| user.name),
            )
            .current_dir(&home)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.server = Some(server);
        let began = Instant::now();
        let health = format!("http://127.0.0.1:{}/health", self.server_port);
        while self.client.get(&health).send().await.is_err() {
            assert!(
                began.elapsed() < PATIENCE,
                "the sandbox server does not start"
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(crate) fn kill_server(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }

    // ---- People and faults

    /// Does what a person does; an error is what their client would say.
    pub(crate) async fn act(&self, action: Value) -> Result<Value, String> {
        act(&self.client, &self.url, action).await
    }

    /// Returns what is needed to act beside the house.
    pub(crate) fn hands(&self) -> (reqwest::Client, String) {
        (self.client.clone(), self.url.clone())
    }

    pub(crate) async fn misbehave(&self, rules: Value) {
        let asked = self
            .client
            .post(format!("{}/standin/faults", self.url))
            .json(&rules);
        let answer = asked.send().await.unwrap();
        assert!(
            answer.status().is_success(),
            "{rules}: {:?}",
            answer.text().await
        );
    }

    pub(crate) async fn behave(&self) {
        let asked = self.client.delete(format!("{}/standin/faults", self.url));
        asked.send().await.unwrap();
    }

    pub(crate) async fn world(&self) -> Value {
        let asked = self.client.get(format!("{}/standin/world", self.url));
        asked.send().await.unwrap().json().await.unwrap()
    }

    /// Returns the stand-in's record of requests.
    pub(crate) async fn requests(&self) -> Vec<Value> {
        let asked = self.client.get(format!("{}/standin/requests", self.url));
        let text = asked.send().await.unwrap().text().await.unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Waits until the world fits.
    pub(crate) async fn until(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let world = self.world().await;
            if fits(&world) {
                return world;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "{what}: it did not come to that\n{}\n{}",
                transcript(&world),
                self.end_of_log()
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(crate) fn end_of_log(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    /// Returns what the store knows. The bot must not run.
    fn chats(&self) -> Vec<Chat> {
        Store::open(&self.store())
            .and_then(|store| store.chats())
            .unwrap_or_default()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.kill_bot();
        let chats = self.chats();
        let threads = chats.iter().map(|chat| chat.thread.0).collect();
        for process in marked(&threads) {
            let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
        }
        self.kill_server();
        let _ = self.standin.kill();
        let _ = self.standin.wait();
        if self.backend == Backend::OpenTerminal && nix::unistd::geteuid().is_root() {
            let accounts: BTreeSet<&String> = chats.iter().map(|chat| &chat.account.0).collect();
            for account in accounts {
                let _ = Command::new("userdel")
                    .args(["-r", account.as_str()])
                    .stderr(Stdio::null())
                    .status();
            }
        }
        if self.keep || std::thread::panicking() {
            eprintln!("what is left lies in {}", self.directory.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

/// How often is looked for what is waited for.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

const GUILD: u64 = 1_213_402_987_654_217_728;

fn world() -> Value {
    let members: Vec<Value> = PEOPLE
        .iter()
        .map(|(name, id)| json!({"name": name, "id": id.to_string()}))
        .collect();
    json!({
        "bot": {"name": "innkeeper", "id": "1213398211451555840"},
        "guilds": [{
            "name": "House", "id": GUILD.to_string(), "owner": "olga", "members": members,
            "channels": [
                {"name": "one", "id": "1213402988564381696"},
                {"name": "two", "id": "1213402991370371072"},
                {"name": "three", "id": "1213402991370371999"},
            ],
        }],
    })
}

fn standin(directory: &Path) -> (Child, String, String) {
    let mut standin = Command::new(program(directory))
        .args(["standin", "--listen", "127.0.0.1:0", "--world"])
        .arg(directory.join("world.json"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(append(&directory.join("standin.log")))
        .spawn()
        .unwrap();
    let mut said = BufReader::new(standin.stdout.take().unwrap()).lines();
    let mut after = |words: &str| {
        let line = said.next().unwrap().unwrap();
        line.strip_prefix(words).unwrap().trim().to_owned()
    };
    let url = after("listening on ");
    let token = after("the bot's token is ");
    (standin, url, token)
}

/// Does what a person does, by these hands.
pub(crate) async fn act(
    client: &reqwest::Client,
    url: &str,
    action: Value,
) -> Result<Value, String> {
    let asked = client.post(format!("{url}/standin/act")).json(&action);
    let answer = asked.send().await.map_err(|error| error.to_string())?;
    let told: Value = answer.json().await.map_err(|error| error.to_string())?;
    match told["reason"].as_str() {
        Some(reason) => Err(reason.to_owned()),
        None => Ok(told),
    }
}

/// A program of this house's own: a sandbox account may not be let into the place where it was built, and a build must not
/// change what runs.
fn bring_program(directory: &Path) {
    let built = env!("CARGO_BIN_EXE_innkeeper");
    if std::fs::hard_link(built, program(directory)).is_err() {
        std::fs::copy(built, program(directory)).unwrap();
    }
}

fn program(directory: &Path) -> PathBuf {
    directory.join("innkeeper")
}

fn append(file: &Path) -> std::fs::File {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true).open(file).unwrap()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

/// Returns where open-terminal is, if it is installed.
pub(crate) fn open_terminal() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("INNKEEPER_OPEN_TERMINAL") {
        return Some(named.into());
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/venv/bin/open-terminal");
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join("open-terminal"))
        .chain([own])
        .find(|program| program.is_file())
}

// ---- Processes of runs

/// A process that carries the mark of a run.
#[derive(Clone, Debug)]
pub(crate) struct Marked {
    pub(crate) pid: i32,
    /// Thread and turn.
    pub(crate) mark: String,
    pub(crate) command: String,
}

impl Marked {
    fn thread(&self) -> u64 {
        let thread = self.mark.split('-').next();
        thread.and_then(|thread| thread.parse().ok()).unwrap_or(0)
    }

    /// Returns the turn that it belongs to.
    pub(crate) fn turn(&self) -> u64 {
        let turn = self.mark.split_once('-').map_or("", |(_, turn)| turn);
        turn.split('.')
            .next()
            .and_then(|turn| turn.parse().ok())
            .unwrap_or(0)
    }
}

/// Returns the processes of runs in these threads.
pub(crate) fn marked(threads: &BTreeSet<u64>) -> Vec<Marked> {
    let Ok(all) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mark = environment
            .split(|byte| *byte == 0)
            .find_map(|pair| pair.strip_prefix(b"INNKEEPER_RUN="))?;
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        Some(Marked {
            pid,
            mark: String::from_utf8_lossy(mark).into_owned(),
            command: String::from_utf8_lossy(&command).replace('\0', " "),
        })
    })
    .filter(|process| threads.contains(&process.thread()))
    .collect()
}

// ---- What people see

/// Returns every channel and thread.
pub(crate) fn places(world: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    for guild in list_of(world, "guilds") {
        for channel in list_of(guild, "channels") {
            found.push(channel);
            found.extend(list_of(channel, "threads"));
        }
    }
    found
}

fn list_of<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

/// Returns the messages of a place that are there and that everybody sees.
pub(crate) fn messages(place: &Value) -> impl Iterator<Item = &Value> {
    list_of(place, "messages")
        .filter(|message| message["deleted"] != true && message["only_for"].is_null())
}

/// Returns the bot's messages of a place.
pub(crate) fn bots(place: &Value) -> impl Iterator<Item = &Value> {
    messages(place).filter(|message| message["author"] == "innkeeper")
}

/// Returns the ids of a message's buttons.
pub(crate) fn buttons(message: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo: Vec<&Value> = list_of(message, "components").collect();
    while let Some(component) = todo.pop() {
        found.extend(component["custom_id"].as_str().map(str::to_owned));
        todo.extend(list_of(component, "components"));
    }
    found
}

/// Returns whether a message made no sound: the live message, or the receipt it became.
pub(crate) fn is_silent(message: &Value) -> bool {
    message["flags"].as_u64().unwrap_or(0) & (1 << 12) != 0
}

pub(crate) fn id_of(value: &Value) -> u64 {
    value["id"]
        .as_str()
        .and_then(|id| id.parse().ok())
        .unwrap_or(0)
}

/// Writes down what people saw.
pub(crate) fn transcript(world: &Value) -> String {
    let mut text = String::new();
    for place in places(world) {
        text.push_str(&format!("## {} {}\n", place["name"], place["id"]));
        for message in list_of(place, "messages") {
            let content: String = message["content"]
                .as_str()
                .unwrap_or("")
                .chars()
                .take(160)
                .collect();
            let files: Vec<&str> = list_of(message, "attachments")
                .filter_map(|file| file["name"].as_str())
                .collect();
            text.push_str(&format!(
                "{} {}{}{}: {:?} {:?} {:?}\n",
                message["id"].as_str().unwrap_or(""),
                message["author"].as_str().unwrap_or(""),
                if message["deleted"] == true {
                    " (deleted)"
                } else {
                    ""
                },
                message["reply_to"]
                    .as_str()
                    .map(|to| format!(" to {to}"))
                    .unwrap_or_default(),
                content,
                buttons(message),
                files,
            ));
        }
    }
    text
}
